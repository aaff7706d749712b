//! The descent cache: where leaves begin, so that a lookup can go to its leaf without passing the pages above it.
//!
//! A *mark* is a place in key order as far as 64 bits tell it ([`Keys::mark`](crate::page::Keys::mark)). The cache maps
//! marks to leaves: the greatest mark at or before a key's names the leaf that was seen to have all places from there
//! on, or says that none is known. What it answers is a hint and may be stale; a leaf's fences say whether it is the
//! right one (I5), and whoever finds it is not corrects the cache with what a descent finds instead.

use core::ops::{Deref, DerefMut};

use super::modular::{Error, Interpolation, Linear, Module, Modules, Prefetch, Sentinels, Sorted, Tree, Unsorted};

/// The first of some marks, and the first behind them, if there is one.
pub type Marks = (u64, Option<u64>);

/// What is known of a leaf, or [`UNKNOWN`]. What its bits say is the caller's.
pub type Leaf = u64;

/// No leaf is known from here on.
pub const UNKNOWN: Leaf = 0;

/// The levels: smaller nodes than the best for a large tree, since this one's stay in the processor's caches.
struct Levels;

impl Modules for Levels {
    type Leaf = LeafLevel;
    type Inner = InnerLevel;
    type Root = RootLevel;
}

struct LeafLevel;

impl Module for LeafLevel {
    type Order = Unsorted;
    const SIZE: usize = 512;
    const PREFETCH: Prefetch = Prefetch::Keys;
}

struct InnerLevel;

impl Module for InnerLevel {
    type Order = Sorted<Linear>;
    const SIZE: usize = 512;
    const PREFETCH: Prefetch = Prefetch::Keys;
}

struct RootLevel;

impl Module for RootLevel {
    type Order = Sorted<Sentinels<Interpolation>>;
    const SIZE: usize = 64 << 10;
}

/// A leaf and the mark from which on it was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KnownLeaf {
    /// The mark.
    pub from: u64,
    /// The leaf.
    pub leaf: Leaf,
}

/// A cache in borrowed memory of a fixed size.
pub struct Descents<M>(Tree<u64, Leaf, Levels, M>);

impl<M: Deref<Target = [u8]>> Descents<M> {
    /// The leaf that is likely to have the keys of a mark.
    #[inline]
    pub fn find(&self, mark: u64) -> Option<KnownLeaf> {
        let (from, leaf) = self.0.find_at_most(mark)?;
        (leaf != UNKNOWN).then_some(KnownLeaf { from, leaf })
    }

    /// Bytes of its memory.
    pub fn size(&self) -> usize {
        self.0.memory().len()
    }

    /// Gives its memory back.
    pub fn into_memory(self) -> M {
        self.0.into_memory()
    }
}

impl<M: DerefMut<Target = [u8]>> Descents<M> {
    /// The least memory that a cache is worth having in.
    pub const LEAST: usize = 8 << 10;
    /// Memory that a leaf's mark takes, roughly, at most.
    pub const BYTES_A_LEAF: usize = 48;

    /// An empty cache.
    ///
    /// # Errors
    /// [`Error::Full`] if the memory is too small.
    pub fn new(memory: M) -> Result<Self, Error> {
        Tree::format(memory).map(Descents)
    }

    /// Learns that a leaf has all places of some marks. `stale` is the mark whose leaf turned out not to have a place
    /// that the cache sent there.
    ///
    /// # Errors
    /// [`Error::Full`]: nothing more can be learned.
    pub fn learn(&mut self, leaf: Leaf, marks: Option<Marks>, stale: Option<u64>) -> Result<(), Error> {
        if let Some(stale) = stale.filter(|&stale| marks.is_none_or(|(from, _)| stale > from)) {
            self.0.remove(stale)?;
        }
        let Some((from, to)) = marks else { return Ok(()) };
        if let Some(to) = to
            && self.0.find(to).is_none()
        {
            self.0.insert(to, UNKNOWN)?;
        }
        self.0.insert(from, leaf)?;
        Ok(())
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        // What fitted once fits again.
        let _ = self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_leaf_is_known_from_its_beginning_to_its_end() {
        let mut memory = [0; 1 << 14];
        let mut cache = Descents::new(&mut memory[..]).expect("room");
        assert_eq!(cache.find(7), None);
        cache.learn(3, Some((10, Some(20))), None).expect("room");
        cache.learn(4, Some((20, None)), None).expect("room");
        let known = [9, 10, 19, 20, u64::MAX].map(|mark| cache.find(mark).map(|found| found.leaf));
        assert_eq!(known, [None, Some(3), Some(3), Some(4), Some(4)]);
        // Leaf 3 is split at 15, and leaf 4 goes to the half that begins there.
        cache.learn(5, Some((15, None)), Some(20)).expect("room");
        let known = [14, 15, 20, 25].map(|mark| cache.find(mark).map(|found| found.leaf));
        assert_eq!(known, [Some(3), Some(5), Some(5), Some(5)]);
        cache.clear();
        assert_eq!(cache.find(15), None);
    }

    proptest! {
        /// Leaves that are learned in any order, of a row of leaves that does not change, are all it answers, and it
        /// knows each of them that it was told of and has had room for.
        #[test]
        fn it_knows_what_it_was_told(ends in prop::collection::btree_set(1u64.., 1..400), told in prop::collection::vec(any::<prop::sample::Index>(), 1..600)) {
            let mut memory = vec![0; 1 << 14];
            let mut cache = Descents::new(&mut memory[..]).expect("room");
            let ends: Vec<u64> = ends.into_iter().collect();
            let leaf_of = |mark: u64| ends.partition_point(|&end| end <= mark);
            let mut known = std::collections::BTreeSet::new();
            for index in told {
                let leaf = index.index(ends.len() + 1);
                let from = leaf.checked_sub(1).map_or(0, |before| ends[before]);
                if cache.learn(leaf as u64 + 1, Some((from, ends.get(leaf).copied())), None).is_err() {
                    cache.clear();
                    known.clear();
                } else {
                    known.insert(leaf);
                }
                for mark in ends.iter().flat_map(|&end| [end - 1, end]) {
                    let expected = Some(leaf_of(mark)).filter(|leaf| known.contains(leaf)).map(|leaf| leaf as u64 + 1);
                    prop_assert_eq!(cache.find(mark).map(|found| found.leaf), expected);
                }
            }
        }
    }
}
