//! Leaf nodes of several cache lines, to be compared: sorted ones with and without a *sentinel array*, and unsorted
//! ones with *fingerprints* (Sentinel Array paper). A map of leaves with nothing but the separators above them makes an
//! index of each.

use crate::index::{Index, Pair};
use crate::search::{Binary, Search, equal_bytes};
use std::iter;
use std::marker::PhantomData;
use std::ops::Range;

/// In place of a key where there is none. It is greater than all keys.
pub(super) const NO_KEY: u32 = u32::MAX;

/// What became of an insertion into a leaf.
#[derive(Debug, PartialEq)]
pub enum Inserted {
    /// The pair is there now.
    New,
    /// The key was there, and had this tuple id.
    Replaced(u32),
    /// There is no room for the pair.
    Full,
}

/// A leaf node.
pub trait Leaf: Sized {
    /// Pairs that a leaf has room for.
    const CAPACITY: usize;

    /// A leaf of sorted pairs, no more than fit.
    fn load(pairs: &[Pair]) -> Self;

    /// Pairs in the leaf.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The tuple id of a key.
    fn search(&self, key: u32) -> Option<u32>;

    /// Adds a pair, or replaces that of its key.
    fn insert(&mut self, key: u32, id: u32) -> Inserted;

    /// Removes a key. Returns its tuple id, if it was there.
    fn remove(&mut self, key: u32) -> Option<u32>;

    /// Moves the upper half of two pairs or more to a new leaf. Returns the least key of that half, and the leaf.
    fn split(&mut self) -> (u32, Self);

    /// The pairs in the order of their keys, from `first` on.
    fn entries(&self, first: u32) -> impl Iterator<Item = Pair>;

    /// Checks what has to be so at all times.
    ///
    /// # Panics
    /// If something is wrong.
    fn check(&self);
}

/// On cache lines of its own.
#[repr(align(64))]
pub(super) struct Lines<T>(pub(super) T);

/// Sorted pairs, keys apart from tuple ids, in front of which there are `SENTINELS` sentinels, or none if that is 0.
/// Each sentinel is the smallest key of a *stretch* of keys, one cache line or several (§III): of 16 keys or a multiple
/// where `PAIRS` is 16 times `SENTINELS` or a multiple of that. `PAIRS * 8` is what the paper calls the node size; the
/// sentinels come on top of it, as they do there. Where there is no key, nor therefore a sentinel, there is `u32::MAX`,
/// so that searches need not know how many pairs there are.
#[repr(C)]
pub struct SortedLeaf<S, const PAIRS: usize, const SENTINELS: usize> {
    sentinels: Lines<[u32; SENTINELS]>,
    keys: Lines<[u32; PAIRS]>,
    ids: [u32; PAIRS],
    len: usize,
    search: PhantomData<S>,
}

impl<S: Search, const PAIRS: usize, const SENTINELS: usize> SortedLeaf<S, PAIRS, SENTINELS> {
    /// Keys that a sentinel stands for.
    const STRETCH: usize = if SENTINELS == 0 {
        PAIRS
    } else {
        assert!(PAIRS.is_multiple_of(SENTINELS));
        PAIRS / SENTINELS
    };

    /// A leaf of sorted keys and their tuple ids.
    fn new(keys: impl ExactSizeIterator<Item = u32>, ids: impl Iterator<Item = u32>) -> Self {
        let len = keys.len();
        let mut leaf = SortedLeaf {
            sentinels: Lines([NO_KEY; SENTINELS]),
            keys: Lines([NO_KEY; PAIRS]),
            ids: [0; PAIRS],
            len,
            search: PhantomData,
        };
        leaf.keys.0[..len].iter_mut().zip(keys).for_each(|(place, key)| *place = key);
        leaf.ids[..len].iter_mut().zip(ids).for_each(|(place, id)| *place = id);
        leaf.update_sentinels(0..len);
        leaf
    }

    /// How many keys are less than `key`: they and its stretch are found among the sentinels (Algorithm 1).
    #[inline]
    fn lower(&self, key: u32) -> usize {
        if SENTINELS == 0 {
            return S::lower(&self.keys.0, key);
        }
        let begin = S::upper(&self.sentinels.0, key).saturating_sub(1) * Self::STRETCH;
        begin + S::lower(&self.keys.0[begin..][..Self::STRETCH], key)
    }

    /// The place of a key, or the place that it would have.
    #[inline]
    fn place(&self, key: u32) -> Result<usize, usize> {
        let place = self.lower(key);
        if self.keys.0.get(place) == Some(&key) { Ok(place) } else { Err(place) }
    }

    /// Takes the sentinels from the keys at the places where these have changed (§III-B).
    #[inline]
    fn update_sentinels(&mut self, changed: Range<usize>) {
        let after = changed.end.div_ceil(Self::STRETCH).min(SENTINELS);
        for stretch in changed.start.div_ceil(Self::STRETCH)..after {
            self.sentinels.0[stretch] = self.keys.0[stretch * Self::STRETCH];
        }
    }
}

impl<S: Search, const PAIRS: usize, const SENTINELS: usize> Leaf for SortedLeaf<S, PAIRS, SENTINELS> {
    const CAPACITY: usize = PAIRS;

    fn load(pairs: &[Pair]) -> Self {
        Self::new(pairs.iter().map(|pair| pair.0), pairs.iter().map(|pair| pair.1))
    }

    fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn search(&self, key: u32) -> Option<u32> {
        self.place(key).ok().map(|place| self.ids[place])
    }

    fn insert(&mut self, key: u32, id: u32) -> Inserted {
        let place = match self.place(key) {
            Ok(place) => return Inserted::Replaced(std::mem::replace(&mut self.ids[place], id)),
            Err(_) if self.len == PAIRS => return Inserted::Full,
            Err(place) => place,
        };
        self.keys.0.copy_within(place..self.len, place + 1);
        self.ids.copy_within(place..self.len, place + 1);
        (self.keys.0[place], self.ids[place]) = (key, id);
        self.len += 1;
        self.update_sentinels(place..self.len);
        Inserted::New
    }

    fn remove(&mut self, key: u32) -> Option<u32> {
        let place = self.place(key).ok()?;
        let id = self.ids[place];
        self.keys.0.copy_within(place + 1..self.len, place);
        self.ids.copy_within(place + 1..self.len, place);
        self.keys.0[self.len - 1] = NO_KEY;
        self.update_sentinels(place..self.len);
        self.len -= 1;
        Some(id)
    }

    fn split(&mut self) -> (u32, Self) {
        let (middle, end) = (self.len / 2, self.len);
        let upper = Self::new(self.keys.0[middle..end].iter().copied(), self.ids[middle..end].iter().copied());
        self.keys.0[middle..end].fill(NO_KEY);
        self.update_sentinels(middle..end);
        self.len = middle;
        (upper.keys.0[0], upper)
    }

    fn entries(&self, first: u32) -> impl Iterator<Item = Pair> {
        let places = self.lower(first).min(self.len)..self.len;
        places.map(|place| (self.keys.0[place], self.ids[place]))
    }

    fn check(&self) {
        let (used, unused) = self.keys.0.split_at(self.len);
        assert!(used.is_sorted_by(|a, b| a < b), "keys are in order");
        assert!(used.last() < Some(&NO_KEY) && unused.iter().all(|key| *key == NO_KEY), "keys in use");
        assert!(self.sentinels.0.iter().eq(self.keys.0.iter().step_by(Self::STRETCH).take(SENTINELS)), "sentinels");
    }
}

/// Unsorted pairs with a hash value of one byte each, their fingerprints, in front of them: keys are compared only
/// where the fingerprint is that of the key sought, as in the FPTree, with which the paper compares (§II-B). `PAIRS` is
/// a multiple of 16; fingerprints come on top of the node size, `PAIRS * 8`.
///
/// A removed pair's place is taken by the last one. The FPTree has a bitmap of the places in use instead, which it
/// needs to survive crashes.
#[repr(C)]
pub struct FingerprintLeaf<const PAIRS: usize> {
    fingerprints: Lines<[u8; PAIRS]>,
    pairs: Lines<[Pair; PAIRS]>,
    len: usize,
}

/// The fingerprint of a key: Fibonacci hashing.
#[inline]
fn fingerprint(key: u32) -> u8 {
    (key.wrapping_mul(0x9E37_79B1) >> 24) as u8
}

impl<const PAIRS: usize> FingerprintLeaf<PAIRS> {
    /// The place of a key. Fingerprints of places not in use may match, but their pairs have no key.
    #[inline]
    fn place(&self, key: u32) -> Option<usize> {
        const { assert!(PAIRS.is_multiple_of(16)) };
        let wanted = fingerprint(key);
        let blocks = self.fingerprints.0.as_chunks().0;
        blocks.iter().zip((0..).step_by(16)).find_map(|(block, first)| {
            let mut matches = equal_bytes(block, wanted);
            while matches != 0 {
                let place = first + matches.trailing_zeros() as usize;
                if self.pairs.0[place].0 == key {
                    return Some(place);
                }
                matches &= matches - 1;
            }
            None
        })
    }

    fn put(&mut self, place: usize, pair: Pair) {
        self.fingerprints.0[place] = fingerprint(pair.0);
        self.pairs.0[place] = pair;
    }
}

impl<const PAIRS: usize> Leaf for FingerprintLeaf<PAIRS> {
    const CAPACITY: usize = PAIRS;

    fn load(pairs: &[Pair]) -> Self {
        let mut leaf =
            FingerprintLeaf { fingerprints: Lines([0; PAIRS]), pairs: Lines([(NO_KEY, 0); PAIRS]), len: pairs.len() };
        pairs.iter().enumerate().for_each(|(place, pair)| leaf.put(place, *pair));
        leaf
    }

    fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn search(&self, key: u32) -> Option<u32> {
        self.place(key).map(|place| self.pairs.0[place].1)
    }

    fn insert(&mut self, key: u32, id: u32) -> Inserted {
        if let Some(place) = self.place(key) {
            return Inserted::Replaced(std::mem::replace(&mut self.pairs.0[place].1, id));
        }
        if self.len == PAIRS {
            return Inserted::Full;
        }
        self.put(self.len, (key, id));
        self.len += 1;
        Inserted::New
    }

    fn remove(&mut self, key: u32) -> Option<u32> {
        let place = self.place(key)?;
        let (_, id) = self.pairs.0[place];
        self.len -= 1;
        self.put(place, self.pairs.0[self.len]);
        self.pairs.0[self.len].0 = NO_KEY;
        Some(id)
    }

    fn split(&mut self) -> (u32, Self) {
        let pairs: Vec<Pair> = self.entries(0).collect();
        let (lower, upper) = pairs.split_at(pairs.len() / 2);
        *self = Self::load(lower);
        (upper[0].0, Self::load(upper))
    }

    fn entries(&self, first: u32) -> impl Iterator<Item = Pair> {
        let mut pairs: Vec<Pair> = self.pairs.0[..self.len].iter().copied().filter(|pair| pair.0 >= first).collect();
        pairs.sort_unstable();
        pairs.into_iter()
    }

    fn check(&self) {
        let (used, unused) = self.pairs.0.split_at(self.len);
        assert!(used.iter().all(|pair| pair.0 != NO_KEY) && unused.iter().all(|pair| pair.0 == NO_KEY), "keys");
        assert!(self.entries(0).is_sorted_by(|a, b| a.0 < b.0), "keys are distinct");
        let fingerprints = used.iter().map(|pair| fingerprint(pair.0));
        assert!(fingerprints.eq(self.fingerprints.0[..self.len].iter().copied()), "fingerprints");
    }
}

/// Leaves under a sorted array of separators. It is the same for all leaves, so that differences are theirs. A leaf may
/// become underfull; one that has become empty is dropped, unless it is the only one.
pub struct LeafMap<L> {
    /// The least key that each leaf but the first can have.
    separators: Vec<u32>,
    leaves: Vec<Box<L>>,
}

impl<L: Leaf> LeafMap<L> {
    /// A map of sorted pairs. Leaves are made full to `fill`, from 0 to 1.
    pub fn load(pairs: &[Pair], fill: f64) -> Self {
        let each = ((L::CAPACITY as f64 * fill) as usize).clamp(1, L::CAPACITY);
        let (first, others) = pairs.split_at(each.min(pairs.len()));
        LeafMap {
            separators: others.chunks(each).map(|part| part[0].0).collect(),
            leaves: iter::once(first).chain(others.chunks(each)).map(|part| Box::new(L::load(part))).collect(),
        }
    }

    /// Bytes of all leaves and of what is above them.
    pub fn bytes(&self) -> usize {
        self.leaves.len() * (size_of::<L>() + size_of::<u32>() + size_of::<Box<L>>())
    }

    /// The place of the leaf that a key belongs to.
    #[inline]
    fn place(&self, key: u32) -> usize {
        Binary::upper(&self.separators, key)
    }
}

impl<L: Leaf> Index for LeafMap<L> {
    fn insert(&mut self, key: u32, id: u32) -> Option<u32> {
        let place = self.place(key);
        match self.leaves[place].insert(key, id) {
            Inserted::New => None,
            Inserted::Replaced(old) => Some(old),
            Inserted::Full => {
                let (first, upper) = self.leaves[place].split();
                self.separators.insert(place, first);
                self.leaves.insert(place + 1, Box::new(upper));
                self.insert(key, id)
            }
        }
    }

    fn remove(&mut self, key: u32) -> Option<u32> {
        let place = self.place(key);
        let id = self.leaves[place].remove(key)?;
        if self.leaves[place].is_empty() && self.leaves.len() > 1 {
            self.leaves.remove(place);
            self.separators.remove(place.saturating_sub(1));
        }
        Some(id)
    }

    #[inline]
    fn search(&mut self, key: u32) -> Option<u32> {
        self.leaves[self.place(key)].search(key)
    }

    fn scan(&mut self, first: u32, last: u32, mut each: impl FnMut(u32, u32)) {
        let entries = self.leaves[self.place(first)..].iter().flat_map(|leaf| leaf.entries(first));
        entries.take_while(|pair| pair.0 <= last).for_each(|(key, id)| each(key, id));
    }

    fn check(&mut self) -> usize {
        assert!(self.separators.is_sorted_by(|a, b| a < b), "separators are in order");
        assert_eq!(self.separators.len() + 1, self.leaves.len());
        for (place, leaf) in self.leaves.iter().enumerate() {
            leaf.check();
            assert!(!leaf.is_empty() || self.leaves.len() == 1, "leaf {place} is empty");
            assert!(leaf.entries(0).all(|pair| self.place(pair.0) == place), "keys belong to leaf {place}");
            assert_eq!(leaf.entries(0).count(), leaf.len());
        }
        self.leaves.iter().map(|leaf| leaf.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::tests::{Step, agrees, agrees_when_large, pairs, steps};
    use crate::search::{HybridInterpolation, Linear, LinearSimd};
    use proptest::prelude::*;

    fn agree<L: Leaf>(pairs: &[Pair], steps: &[Step]) {
        for fill in [0.0, 0.7, 1.0] {
            agrees(LeafMap::<L>::load(pairs, fill), pairs, steps);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn sorted_leaves_agree_with_a_map(pairs in pairs(), steps in steps()) {
            agree::<SortedLeaf<Linear, 2, 0>>(&pairs, &steps);
            agree::<SortedLeaf<Binary, 128, 0>>(&pairs, &steps);
            agree::<SortedLeaf<HybridInterpolation, 512, 0>>(&pairs, &steps);
        }

        #[test]
        fn leaves_with_sentinels_agree_with_a_map(pairs in pairs(), steps in steps()) {
            agree::<SortedLeaf<Linear, 2, 1>>(&pairs, &steps);
            agree::<SortedLeaf<Linear, 4, 4>>(&pairs, &steps);
            agree::<SortedLeaf<Binary, 12, 3>>(&pairs, &steps);
            agree::<SortedLeaf<LinearSimd<256>, 128, 8>>(&pairs, &steps);
            agree::<SortedLeaf<Linear, 512, 32>>(&pairs, &steps);
            agree::<SortedLeaf<Linear, 512, 8>>(&pairs, &steps);
        }

        #[test]
        fn leaves_with_fingerprints_agree_with_a_map(pairs in pairs(), steps in steps()) {
            agree::<FingerprintLeaf<16>>(&pairs, &steps);
            agree::<FingerprintLeaf<128>>(&pairs, &steps);
            agree::<FingerprintLeaf<512>>(&pairs, &steps);
        }
    }

    #[test]
    fn agree_when_there_are_many() {
        let pairs: Vec<Pair> = (0..50_000).map(|n| (n * 3, n)).collect();
        agrees_when_large(LeafMap::<SortedLeaf<Binary, 128, 0>>::load(&pairs, 0.8), &pairs, 50_000);
        agrees_when_large(LeafMap::<SortedLeaf<Linear, 128, 8>>::load(&pairs, 0.8), &pairs, 50_000);
        agrees_when_large(LeafMap::<FingerprintLeaf<128>>::load(&pairs, 0.8), &pairs, 50_000);
    }

    fn fills_and_splits<L: Leaf>() {
        let pairs: Vec<Pair> = (0..L::CAPACITY as u32).map(|n| (n * 2, n)).collect();
        let mut lower = L::load(&pairs);
        assert_eq!(lower.insert(1, 7), Inserted::Full);
        assert_eq!(lower.insert(2, 7), Inserted::Replaced(1));
        let (first, upper) = lower.split();
        assert_eq!(lower.insert(1, 7), Inserted::New);
        lower.check();
        upper.check();
        assert_eq!(upper.entries(0).next().map(|pair| pair.0), Some(first));
        assert!(lower.entries(0).all(|pair| pair.0 < first));
        assert_eq!(lower.len() + upper.len(), L::CAPACITY + 1);
    }

    #[test]
    fn full_leaves_say_so_and_split() {
        fills_and_splits::<SortedLeaf<Linear, 128, 0>>();
        fills_and_splits::<SortedLeaf<Linear, 128, 8>>();
        fills_and_splits::<FingerprintLeaf<128>>();
    }

    #[test]
    fn stretches_are_cache_lines() {
        type Sentinels = SortedLeaf<Linear, 128, 8>;
        assert_eq!((Sentinels::STRETCH * size_of::<u32>(), std::mem::offset_of!(Sentinels, keys) % 64), (64, 0));
    }
}
