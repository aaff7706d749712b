//! What a store remembers of where leaves are. None of it is relied on: a leaf's fences say whether it is the right one
//! (I5).

use super::pages::{LockMode, Locked, PageStore, Pinned};
use crate::cache::descents::Marks;
use crate::format::{Block, Mark, Result};

/// A leaf that was seen before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen<F> {
    /// The mark from which on it was seen to have keys.
    pub from: Mark,
    /// The page.
    pub block: Block,
    /// Where it was in memory.
    pub frame: F,
}

/// Where leaves were seen.
pub trait Hints: PageStore {
    /// A page that is likely the leaf where an entry of a stretch goes, as the last ones went there, or the last ones of
    /// this stretch. It may have become anything meanwhile.
    fn likely_leaf(&self, _stretch: u64) -> Option<Block> {
        None
    }
    /// The leaf that likely has the keys of a mark: it did when it was seen last.
    #[inline]
    fn seen_leaf(&self, _mark: Mark) -> Option<Seen<Self::Frame>> {
        None
    }
    /// Pins a page where it was seen last, or wherever it is; `None` if the file has become shorter since.
    #[inline]
    fn pin_seen(&self, seen: &Seen<Self::Frame>) -> Result<Option<Pinned<Self>>> {
        self.pin_likely(seen.block)
    }
    /// What a search for a mark has found: all places from one mark on and before another, or all from there on, belong to a leaf; of none that is known
    /// where there are no such marks. `stale` is what [`seen_leaf`](Hints::seen_leaf) said instead.
    fn note_leaf<M: LockMode>(
        &self,
        _leaf: &Locked<'_, Self, M>,
        _wanted: Mark,
        _marks: Option<Marks>,
        _stale: Option<&Seen<Self::Frame>>,
    ) {
    }
}
