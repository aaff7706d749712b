//! The leaf node that the Sentinel Array paper begins with, FAST-FAIR's (§II-B, §III): sorted pairs, each tuple id
//! beside its key, gone through one by one; with or without a sentinel array.

use super::sorted_leaf::{Inserted, Leaf, Lines, NO_KEY};
use crate::index::Pair;
use crate::search::{Linear, Search};
use std::ops::Range;

/// Sorted pairs behind `SENTINELS` sentinels, or none if that is 0. Each sentinel is the smallest key of a *stretch* of
/// pairs: of one cache line where `PAIRS` is eight times `SENTINELS`. `PAIRS * 8` is the paper's node size. Where there
/// is no pair, nor therefore a sentinel, the key is `u32::MAX`.
#[repr(C)]
pub struct PairLeaf<const PAIRS: usize, const SENTINELS: usize> {
    sentinels: Lines<[u32; SENTINELS]>,
    pairs: Lines<[Pair; PAIRS]>,
    len: usize,
}

impl<const PAIRS: usize, const SENTINELS: usize> PairLeaf<PAIRS, SENTINELS> {
    /// Pairs that a sentinel stands for.
    const STRETCH: usize = if SENTINELS == 0 {
        PAIRS
    } else {
        assert!(PAIRS.is_multiple_of(SENTINELS));
        PAIRS / SENTINELS
    };

    /// How many keys are less than `key` (Algorithm 1).
    #[inline]
    fn lower(&self, key: u32) -> usize {
        let begin = Linear::upper(&self.sentinels.0, key).saturating_sub(1) * Self::STRETCH;
        let stretch = &self.pairs.0[begin..][..Self::STRETCH];
        begin + stretch.iter().position(|pair| pair.0 >= key).unwrap_or(Self::STRETCH)
    }

    /// The place of a key, or the place that it would have.
    #[inline]
    fn place(&self, key: u32) -> Result<usize, usize> {
        let place = self.lower(key);
        if self.pairs.0.get(place).is_some_and(|pair| pair.0 == key) { Ok(place) } else { Err(place) }
    }

    /// Takes the sentinels from the pairs at the places where these have changed (§III-B).
    #[inline]
    fn update_sentinels(&mut self, changed: Range<usize>) {
        let after = changed.end.div_ceil(Self::STRETCH).min(SENTINELS);
        for stretch in changed.start.div_ceil(Self::STRETCH)..after {
            self.sentinels.0[stretch] = self.pairs.0[stretch * Self::STRETCH].0;
        }
    }
}

impl<const PAIRS: usize, const SENTINELS: usize> Leaf for PairLeaf<PAIRS, SENTINELS> {
    const CAPACITY: usize = PAIRS;

    fn load(pairs: &[Pair]) -> Self {
        let mut leaf =
            PairLeaf { sentinels: Lines([NO_KEY; SENTINELS]), pairs: Lines([(NO_KEY, 0); PAIRS]), len: pairs.len() };
        leaf.pairs.0[..pairs.len()].copy_from_slice(pairs);
        leaf.update_sentinels(0..pairs.len());
        leaf
    }

    fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn search(&self, key: u32) -> Option<u32> {
        self.place(key).ok().map(|place| self.pairs.0[place].1)
    }

    fn insert(&mut self, key: u32, id: u32) -> Inserted {
        let place = match self.place(key) {
            Ok(place) => return Inserted::Replaced(std::mem::replace(&mut self.pairs.0[place].1, id)),
            Err(_) if self.len == PAIRS => return Inserted::Full,
            Err(place) => place,
        };
        self.pairs.0.copy_within(place..self.len, place + 1);
        self.pairs.0[place] = (key, id);
        self.len += 1;
        self.update_sentinels(place..self.len);
        Inserted::New
    }

    fn remove(&mut self, key: u32) -> Option<u32> {
        let place = self.place(key).ok()?;
        let (_, id) = self.pairs.0[place];
        self.pairs.0.copy_within(place + 1..self.len, place);
        self.pairs.0[self.len - 1].0 = NO_KEY;
        self.update_sentinels(place..self.len);
        self.len -= 1;
        Some(id)
    }

    fn split(&mut self) -> (u32, Self) {
        let (middle, end) = (self.len / 2, self.len);
        let upper = Self::load(&self.pairs.0[middle..end]);
        self.pairs.0[middle..end].fill((NO_KEY, 0));
        self.update_sentinels(middle..end);
        self.len = middle;
        (upper.pairs.0[0].0, upper)
    }

    fn entries(&self, first: u32) -> impl Iterator<Item = Pair> {
        self.pairs.0[self.lower(first).min(self.len)..self.len].iter().copied()
    }

    fn check(&self) {
        let (used, unused) = self.pairs.0.split_at(self.len);
        assert!(used.is_sorted_by(|a, b| a.0 < b.0), "keys are in order");
        assert!(used.iter().all(|pair| pair.0 != NO_KEY) && unused.iter().all(|pair| pair.0 == NO_KEY), "keys in use");
        let firsts = self.pairs.0.iter().step_by(Self::STRETCH).map(|pair| pair.0).take(SENTINELS);
        assert!(firsts.eq(self.sentinels.0.iter().copied()), "sentinels");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::tests::{agrees, agrees_when_large, pairs, steps};
    use crate::memory::sorted_leaf::LeafMap;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn leaves_of_pairs_agree_with_a_map(pairs in pairs(), steps in steps()) {
            for fill in [0.0, 0.7, 1.0] {
                agrees(LeafMap::<PairLeaf<2, 0>>::load(&pairs, fill), &pairs, &steps);
                agrees(LeafMap::<PairLeaf<4, 4>>::load(&pairs, fill), &pairs, &steps);
                agrees(LeafMap::<PairLeaf<64, 0>>::load(&pairs, fill), &pairs, &steps);
                agrees(LeafMap::<PairLeaf<512, 64>>::load(&pairs, fill), &pairs, &steps);
            }
        }
    }

    #[test]
    fn leaves_of_pairs_agree_when_there_are_many() {
        let pairs: Vec<Pair> = (0..50_000).map(|n| (n * 3, n)).collect();
        agrees_when_large(LeafMap::<PairLeaf<128, 16>>::load(&pairs, 0.8), &pairs, 50_000);
    }

    #[test]
    fn stretches_of_pairs_are_cache_lines() {
        type Sentinels = PairLeaf<512, 64>;
        assert_eq!((Sentinels::STRETCH * size_of::<Pair>(), std::mem::offset_of!(Sentinels, pairs) % 64), (64, 0));
    }
}
