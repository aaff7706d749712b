//! The descent cache: where leaves begin, so that a lookup can go to its leaf without passing the pages above it.
//!
//! A *mark* is a place in key order as far as 128 bits tell it ([`Keys::mark`](crate::page::Keys::mark)). The cache maps
//! marks to leaves: the greatest mark at or before a key's names the leaf that was seen to have all places from there
//! on, or says that none is known. What it answers is a hint and may be stale; a leaf's fences say whether it is the
//! right one (I5), and whoever finds it is not corrects the cache with what a descent finds instead.
//!
//! The first half of a mark tells most keys' leaves, in less memory and time. So the cache begins with halves, and takes
//! whole marks once it has been asked often for what halves do not tell.

use core::ops::{Deref, DerefMut};

use crate::format::{Lane, Mark, first_half};

use super::modular::{Error, Interpolation, Linear, Module, Modules, Prefetch, Sentinels, Sorted, Tree, Unsorted};

/// The first of some marks, and the first behind them, if there is one.
pub type Marks = (Mark, Option<Mark>);

/// The first halves that none but these marks have.
fn first_halves((from, to): Marks) -> Option<(u64, Option<u64>)> {
    let from = first_half(from).checked_add(u64::from(from as u64 != 0))?;
    let to = to.map(first_half);
    to.is_none_or(|to| from < to).then_some((from, to))
}

/// So often halves do not tell what a lookup wanted to know, until the cache takes whole marks.
const PATIENCE: u32 = 256;

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
    pub from: Mark,
    /// The leaf.
    pub leaf: Leaf,
}

type Places<K, M> = Tree<K, Leaf, Levels, M>;

/// Places by marks of one width.
enum Known<M> {
    Halves { places: Places<u64, M>, untold: u32 },
    Wholes(Places<Mark, M>),
}

/// A cache in borrowed memory of a fixed size.
pub struct Descents<M>(Known<M>);

impl<M: Deref<Target = [u8]>> Descents<M> {
    /// The leaf that is likely to have the keys of a mark.
    #[inline]
    pub fn find(&self, mark: Mark) -> Option<KnownLeaf> {
        let (from, leaf) = match &self.0 {
            Known::Halves { places, .. } => {
                places.find_at_most(first_half(mark)).map(|(from, leaf)| (Mark::from(from) << u64::BITS, leaf))
            }
            Known::Wholes(places) => places.find_at_most(mark),
        }?;
        (leaf != UNKNOWN).then_some(KnownLeaf { from, leaf })
    }

    fn memory(&self) -> &M {
        match &self.0 {
            Known::Halves { places, .. } => places.memory(),
            Known::Wholes(places) => places.memory(),
        }
    }

    /// Bytes of its memory.
    pub fn size(&self) -> usize {
        self.memory().len()
    }

    /// Whether it takes whole marks, or better had: the one that takes its place when it can learn no more should.
    pub fn wants_wholes(&self) -> bool {
        matches!(self.0, Known::Wholes(_) | Known::Halves { untold: PATIENCE.., .. })
    }

    /// Gives its memory back.
    pub fn into_memory(self) -> M {
        match self.0 {
            Known::Halves { places, .. } => places.into_memory(),
            Known::Wholes(places) => places.into_memory(),
        }
    }

    /// Memory that a leaf's mark takes, roughly, at most.
    pub const fn bytes_a_leaf(is_whole: bool) -> usize {
        if is_whole { 72 } else { 48 }
    }
}

impl<M: DerefMut<Target = [u8]>> Descents<M> {
    /// The least memory that a cache is worth having in.
    pub const LEAST: usize = 8 << 10;

    /// An empty cache, of whole marks or, first, of halves.
    ///
    /// # Errors
    /// [`Error::Full`] if the memory is too small.
    pub fn new(memory: M, is_whole: bool) -> Result<Self, Error> {
        Ok(Descents(match is_whole {
            true => Known::Wholes(Tree::format(memory)?),
            false => Known::Halves { places: Tree::format(memory)?, untold: 0 },
        }))
    }

    /// Learns that a leaf has all places of some marks, after a lookup of one. `stale` is the mark whose leaf turned out
    /// not to have a place that the cache sent there.
    ///
    /// # Errors
    /// [`Error::Full`]: nothing more can be learned, or halves have told too little.
    pub fn learn(&mut self, leaf: Leaf, wanted: Mark, marks: Option<Marks>, stale: Option<Mark>) -> Result<(), Error> {
        match &mut self.0 {
            Known::Halves { places, untold } => {
                let halves = marks.and_then(first_halves);
                let half = first_half(wanted);
                let is_told = halves.is_some_and(|(from, to)| from <= half && to.is_none_or(|to| half < to));
                *untold += u32::from(marks.is_some() && !is_told);
                if *untold >= PATIENCE {
                    return Err(Error::Full);
                }
                learn(places, leaf, halves, stale.map(first_half))
            }
            Known::Wholes(places) => learn(places, leaf, marks, stale),
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        // What fitted once fits again.
        let _ = match &mut self.0 {
            Known::Halves { places, .. } => places.clear(),
            Known::Wholes(places) => places.clear(),
        };
    }
}

fn learn<K: Lane, M: DerefMut<Target = [u8]>>(
    places: &mut Places<K, M>,
    leaf: Leaf,
    marks: Option<(K, Option<K>)>,
    stale: Option<K>,
) -> Result<(), Error> {
    if let Some(stale) = stale.filter(|&stale| marks.is_none_or(|(from, _)| stale > from)) {
        places.remove(stale)?;
    }
    let Some((from, to)) = marks else { return Ok(()) };
    if let Some(to) = to
        && places.find(to).is_none()
    {
        places.insert(to, UNKNOWN)?;
    }
    places.insert(from, leaf)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_leaf_is_known_from_its_beginning_to_its_end() {
        let mut memory = [0; 1 << 14];
        let mut cache = Descents::new(&mut memory[..], true).expect("room");
        assert_eq!(cache.find(7), None);
        cache.learn(3, 10, Some((10, Some(20))), None).expect("room");
        cache.learn(4, 20, Some((20, None)), None).expect("room");
        let known = [9, 10, 19, 20, Mark::MAX].map(|mark| cache.find(mark).map(|found| found.leaf));
        assert_eq!(known, [None, Some(3), Some(3), Some(4), Some(4)]);
        // Leaf 3 is split at 15, and leaf 4 goes to the half that begins there.
        cache.learn(5, 20, Some((15, None)), Some(20)).expect("room");
        let known = [14, 15, 20, 25].map(|mark| cache.find(mark).map(|found| found.leaf));
        assert_eq!(known, [Some(3), Some(5), Some(5), Some(5)]);
        cache.clear();
        assert_eq!(cache.find(15), None);
    }

    /// Two leaves part marks that have their first half in common.
    #[test]
    fn halves_give_way_to_wholes() {
        let half = |half: u64, rest: u64| Mark::from(half) << u64::BITS | Mark::from(rest);
        let mut memory = [0; 1 << 14];
        let mut cache = Descents::new(&mut memory[..], false).expect("room");
        let (first, second) = ((half(5, 3), Some(half(9, 7))), (half(9, 7), None));
        cache.learn(1, half(7, 0), Some(first), None).expect("room");
        let known =
            [half(5, 4), half(6, 0), half(8, 9), half(9, 1)].map(|mark| cache.find(mark).map(|found| found.leaf));
        assert_eq!(known, [None, Some(1), Some(1), None]);
        assert_eq!(cache.find(half(8, 9)).map(|found| found.from), Some(half(6, 0)));
        cache.learn(2, half(12, 0), Some(second), Some(half(6, 0))).expect("room");
        let known = [half(6, 0), half(9, 8), half(10, 0)].map(|mark| cache.find(mark).map(|found| found.leaf));
        assert_eq!(known, [Some(1), None, Some(2)]);
        assert!(!cache.wants_wholes());
        let learned = (0..PATIENCE).take_while(|_| cache.learn(2, half(9, 8), Some(second), None).is_ok()).count();
        assert!(learned + 1 == PATIENCE as usize && cache.wants_wholes());
        let mut cache = Descents::new(cache.into_memory(), true).expect("room");
        cache.learn(1, half(9, 1), Some(first), None).expect("room");
        cache.learn(2, half(9, 8), Some(second), None).expect("room");
        let known = [half(5, 2), half(9, 6), half(9, 7)].map(|mark| cache.find(mark).map(|found| found.leaf));
        assert!(cache.wants_wholes() && known == [None, Some(1), Some(2)]);
    }

    proptest! {
        /// Leaves that are learned in any order, of a row of leaves that does not change, are all it answers, and it
        /// knows each of them that it was told of and has had room for.
        #[test]
        fn it_knows_what_it_was_told(ends in prop::collection::btree_set(1 as Mark.., 1..400), told in prop::collection::vec(any::<prop::sample::Index>(), 1..600)) {
            let mut memory = vec![0; 1 << 14];
            let mut cache = Descents::new(&mut memory[..], true).expect("room");
            let ends: Vec<Mark> = ends.into_iter().collect();
            let leaf_of = |mark: Mark| ends.partition_point(|&end| end <= mark);
            let mut known = std::collections::BTreeSet::new();
            for index in told {
                let leaf = index.index(ends.len() + 1);
                let from = leaf.checked_sub(1).map_or(0, |before| ends[before]);
                if cache.learn(leaf as u64 + 1, from, Some((from, ends.get(leaf).copied())), None).is_err() {
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
