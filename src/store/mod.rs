//! What the engine asks of the place its pages live in.

#[cfg(feature = "memory")]
pub mod memory;

use crate::cache::descents::Marks;
use crate::format::{Block, PageBytes, Position, Result, Tid};
use crate::log::{Change, Horizon};

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
pub enum Search {
    /// Those marked dead, and others whose rows happen to be beside theirs.
    Marked,
    /// As many as this, where the most are likely to be.
    Versions(usize),
}

/// A leaf that was seen before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen<P> {
    /// The mark from which on it was seen to have keys.
    pub from: u64,
    /// The page.
    pub block: Block,
    /// What its pin was.
    pub pin: P,
}

/// How a page is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Readers share the page.
    Share,
    /// One writer has the page.
    Exclusive,
}

/// Pages of one index, pinned, locked and changed atomically.
///
/// Nothing here owns a destructor: pins and locks are given back by hand, and a server that aborts a transaction gives
/// them all back itself. An implementation may leave a call by unwinding or jumping (an I/O error, a cancel), which is
/// why the engine keeps no destructor alive across one. When the engine returns an [`Error`], locks and pins may still
/// be held: the caller aborts.
pub trait PageStore {
    /// A pinned page: it stays in memory until [`unpin`](PageStore::unpin).
    type Pin: Copy + PartialEq + core::fmt::Debug;

    /// Pins a page. No lock is taken. A block beyond the end of the file is [`Error::Corrupt`], and so is a page that the
    /// caller has locked: only a damaged tree leads there, and waiting for that lock would never end.
    fn pin(&self, block: Block) -> Result<Self::Pin>;
    /// Gives a pin back. The page must not be locked.
    fn unpin(&self, pin: Self::Pin);
    /// The pinned page's block number.
    fn block(&self, pin: Self::Pin) -> Block;
    /// Waits for a content lock on a pinned page.
    fn lock(&self, pin: Self::Pin, mode: Mode);
    /// Waits until the caller's pin is the only one and takes the exclusive lock. No content lock may be held.
    fn lock_cleanup(&self, pin: Self::Pin);
    /// Gives the content lock back; the pin stays.
    fn unlock(&self, pin: Self::Pin);
    /// The page's bytes. The caller holds a content lock for as long as it looks at them.
    fn bytes(&self, pin: Self::Pin) -> &PageBytes;
    /// A page for new content, pinned and exclusively locked: all zero or marked deleted, from the free space map or
    /// the end of the file. It stays as it is unless a [`commit`](PageStore::commit) writes it.
    fn allocate(&self) -> Result<Self::Pin>;
    /// Notes in the free space map that a deleted page can be used again. Not logged, may be lost.
    fn free(&self, block: Block);
    /// The time by which the deletion of an inner page is dated, never 0.
    fn now(&self) -> u64;
    /// Whether whoever was at work in the tree at that time is done: a page deleted then may become one of another level.
    /// [`allocate`](PageStore::allocate) asks this.
    fn is_past(&self, time: u64) -> bool;
    /// Pages in the file now.
    fn block_count(&self) -> Block;
    /// Applies a validated change to its pages, all exclusively locked by the caller, and logs it, as one atomic act.
    /// Locks and pins stay.
    fn commit(&self, change: &Change<'_, Self::Pin>);
    /// Sets the dead bit of entries (bytes at `offsets` in the page get `mask` by an atomic OR), a hint that need not
    /// be logged. The caller holds at least a share lock.
    fn set_hint(&self, pin: Self::Pin, offsets: &[u16], mask: u8);
    /// The page's position in the log, to notice that it changed. The caller holds a content lock.
    fn lsn(&self, pin: Self::Pin) -> u64;
    /// Gives the server a chance to cancel. Where content locks are held, on the way up from a split, it has to wait.
    fn check_interrupts(&self);
    /// A reader is about to look at this leaf page (share-locked): predicate locks go here.
    fn note_read(&self, _pin: Self::Pin) {}
    /// Entries of `from` moved to `to`: predicate locks follow. Both are exclusively locked.
    fn note_split(&self, _from: Block, _to: Block) {}
    /// The key space of `from` went to `to`: predicate locks follow. Both are exclusively locked.
    fn note_merge(&self, _from: Block, _to: Block) {}
    /// A writer is about to insert into this leaf page (exclusively locked): serializable conflicts are raised here.
    fn note_insert(&self, _pin: Self::Pin) {}
    /// Says of an exclusively locked leaf's suspects which are dead, as far as it looks for them. Nothing is removed, and
    /// `None` is answered, where that would have to wait for readers elsewhere in a way the log cannot say.
    fn find_dead(&self, _leaf: Self::Pin, _suspects: &mut [Suspect], _search: Search) -> Option<Horizon> {
        None
    }
    /// A page that is likely the leaf where the next entry goes, as the last ones went there. It may have become anything
    /// meanwhile.
    fn likely_leaf(&self) -> Option<Block> {
        None
    }
    /// The leaf that likely has the keys of a mark: it did when it was seen last.
    #[inline]
    fn seen_leaf(&self, _mark: u64) -> Option<Seen<Self::Pin>> {
        None
    }
    /// [Pins](PageStore::pin) a page that is named by what was true once; `None` if the file has become shorter since.
    fn pin_likely(&self, block: Block) -> Result<Option<Self::Pin>>;
    /// The same where it was seen last, or wherever it is.
    #[inline]
    fn pin_seen(&self, seen: &Seen<Self::Pin>) -> Result<Option<Self::Pin>> {
        self.pin_likely(seen.block)
    }
    /// All places from one mark on and before another, or all from there on, belong to a leaf, which is pinned and locked;
    /// of none that is known where there are no such marks. `stale` is what [`seen_leaf`](PageStore::seen_leaf) said instead.
    fn note_leaf(&self, _pin: Self::Pin, _marks: Option<Marks>, _stale: Option<&Seen<Self::Pin>>) {}
    /// Asks the hardware for some bytes of a page that is pinned, or was, and is about to be locked and read.
    #[inline(always)]
    fn prefetch(&self, _pin: Self::Pin, _bytes: core::ops::Range<usize>) {}
}
