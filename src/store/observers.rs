//! Who is told of what happens to leaves: the server's predicate locks, and its table, which knows which rows are dead.

use super::pages::{Exclusive, Locked, PageStore, Shared};
use crate::format::{Block, Position, Tid};
use crate::log::Horizon;

/// A leaf's entry whose row may be dead to everyone.
#[derive(Clone, Copy, Debug)]
pub struct Suspect {
    /// Where the entry is.
    pub place: Position,
    /// Its row, and whether it was found dead already.
    pub tid: Tid,
    /// Others have the same key: they may be versions of one row. Said where versions are looked for.
    pub has_twin: bool,
    /// The answer: the row is dead to everyone, and so is every version that follows it under this entry.
    pub is_dead: bool,
}

/// How hard dead rows are looked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeadSearch {
    /// Those marked dead, and others whose rows happen to be beside theirs.
    Marked,
    /// As many as this, where the most are likely to be.
    Versions(usize),
}

/// What was done to a tree's pages besides changing entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageEvent {
    /// A leaf became two.
    LeafSplit,
    /// A page above the leaves did.
    InnerSplit,
    /// A leaf gave its entries to its neighbour, and is gone.
    LeafMerged,
    /// A leaf that was empty is gone.
    LeafDeleted,
}

/// Who is told what happens to leaves.
pub trait Observers: PageStore {
    /// A reader is about to look at this leaf: predicate locks go here.
    fn note_read(&self, _leaf: &Locked<'_, Self, Shared>) {}
    /// Entries of `from` moved to `to`: predicate locks follow. Both are exclusively locked.
    fn note_split(&self, _from: Block, _to: Block) {}
    /// The key space of `from` went to `to`: predicate locks follow. Both are exclusively locked.
    fn note_merge(&self, _from: Block, _to: Block) {}
    /// This was done just now: for whoever counts it. Pages may be locked.
    fn note_event(&self, _event: PageEvent) {}
    /// A writer is about to insert an entry of a stretch into this leaf: serializable conflicts are raised here.
    fn note_insert(&self, _leaf: &Locked<'_, Self, Exclusive>, _mark: u64) {}
    /// Says of a leaf's suspects which are dead, as far as it looks for them. Nothing is removed, and `None` is
    /// answered, where that would have to wait for readers elsewhere in a way the log cannot say.
    fn find_dead(
        &self,
        _leaf: &Locked<'_, Self, Exclusive>,
        _suspects: &mut [Suspect],
        _search: DeadSearch,
    ) -> Option<Horizon> {
        None
    }
}
