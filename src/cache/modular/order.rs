//! How the entries of a node are ordered and searched: the modules of the paper's §3.3.

use core::marker::PhantomData;

use crate::format::Lane;
use crate::simd::{Lanes, Simd};

/// Bytes in a cache line; nodes start at multiples of it.
pub(super) const LINE: usize = 64;
/// Bytes of links before a node's keys.
pub(super) const HEADER: usize = 16;

/// The keys of one node.
#[derive(Clone, Copy)]
pub struct NodeKeys<'a> {
    pub(super) lanes: Lanes<'a>,
    /// Where in the node the payloads begin.
    pub(super) payloads: usize,
    pub(super) simd: Simd,
}

impl<'a> NodeKeys<'a> {
    /// How many there are.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.lanes.n
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The key in a slot.
    ///
    /// # Panics
    /// If the slot is not one of the node's.
    #[inline(always)]
    pub fn key<K: Lane>(&self, slot: usize) -> K {
        K::read(self.lanes.bytes, self.lanes.at + slot * K::SIZE)
    }

    /// All keys, as they are stored.
    #[inline(always)]
    pub fn bytes<K: Lane>(&self) -> &'a [u8] {
        &self.lanes.bytes[self.lanes.at..][..self.lanes.n * K::SIZE]
    }

    /// The bytes that the node has for payloads.
    #[inline(always)]
    pub fn payloads(&self) -> &'a [u8] {
        &self.lanes.bytes[self.payloads..]
    }

    /// How many keys in slots from `start` to `end`, at most `room` of them, are `key` or less.
    #[inline(always)]
    fn at_most_within<K: Lane>(&self, start: usize, end: usize, room: usize, key: K) -> usize {
        let at = self.lanes.at + start * K::SIZE;
        self.simd.count_less_equal(Lanes { at, n: end - start, room, ..self.lanes }, key)
    }

    /// The sentinels: the first keys of all lines.
    #[inline(always)]
    fn sentinels<K: Lane>(&self) -> NodeKeys<'a> {
        let Lanes { bytes, n, room, .. } = self.lanes;
        let lines = |keys: usize| keys.div_ceil(per_line::<K>());
        NodeKeys { lanes: Lanes { bytes, at: HEADER, n: lines(n), room: lines(room) }, ..*self }
    }
}

/// The order of a node's entries, and the way to search them.
pub trait Order {
    /// Whether the entries are kept in key order. If not, new ones are appended.
    const SORTED: bool;
    /// Whether the node begins with a sentinel array: a copy of the first key of every line of keys.
    const SENTINELS: bool = false;

    /// The slot of `key`, or else the slot at which it is to be inserted.
    fn slot<K: Lane>(keys: NodeKeys<'_>, key: K) -> Result<usize, usize>;

    /// The slot of the greatest key that is `key` or less.
    fn at_most<K: Lane>(keys: NodeKeys<'_>, key: K) -> Option<usize>;
}

/// Entries in the order they came, searched by SIMD equality: the paper's write-optimized leaf.
pub struct Unsorted;

impl Order for Unsorted {
    const SORTED: bool = false;

    #[inline(always)]
    fn slot<K: Lane>(keys: NodeKeys<'_>, key: K) -> Result<usize, usize> {
        keys.simd.position(keys.lanes, key).ok_or(keys.lanes.n)
    }

    #[inline(always)]
    fn at_most<K: Lane>(keys: NodeKeys<'_>, key: K) -> Option<usize> {
        keys.simd.position_at_most(keys.lanes, key)
    }
}

/// Entries in key order, searched by `S`.
pub struct Sorted<S>(PhantomData<S>);

impl<S: Search> Order for Sorted<S> {
    const SORTED: bool = true;
    const SENTINELS: bool = S::SENTINELS;

    #[inline(always)]
    fn slot<K: Lane>(keys: NodeKeys<'_>, key: K) -> Result<usize, usize> {
        let place = S::count(keys, key);
        match place.checked_sub(1) {
            Some(slot) if keys.key::<K>(slot) == key => Ok(slot),
            _ => Err(place),
        }
    }

    #[inline(always)]
    fn at_most<K: Lane>(keys: NodeKeys<'_>, key: K) -> Option<usize> {
        S::count(keys, key).checked_sub(1)
    }
}

/// A search of sorted keys.
pub trait Search {
    /// Whether the search needs a sentinel array.
    const SENTINELS: bool = false;

    /// How many keys are `key` or less. At most the number of keys, whatever they are.
    fn count<K: Lane>(keys: NodeKeys<'_>, key: K) -> usize;
}

/// All keys, by SIMD: for small nodes.
pub struct Linear;

impl Search for Linear {
    #[inline(always)]
    fn count<K: Lane>(keys: NodeKeys<'_>, key: K) -> usize {
        keys.simd.count_less_equal(keys.lanes, key)
    }
}

/// Binary search down to a line of keys, then SIMD.
pub struct Binary;

impl Search for Binary {
    #[inline(always)]
    fn count<K: Lane>(keys: NodeKeys<'_>, key: K) -> usize {
        halve(keys, (0, keys.lanes.n), key, &mut || ())
    }
}

/// Interpolation search for the few lines of keys around where the key should be, then SIMD. After
/// [`Interpolation::MOST`] places that were not it, the rest is binary search, so that skewed keys cost no more than a
/// few probes above binary search. For large nodes.
///
/// The paper looks at one segment of eight keys, and mostly has to guess again: among n evenly spread random keys, a
/// key is some √n/2 places from where it should be. Several lines cost little more than one, and spare the processor
/// branches that it cannot foretell.
pub struct Interpolation;

impl Interpolation {
    /// Places probed by interpolation before binary search takes over.
    const MOST: usize = 3;
    /// Lines looked at in one place.
    const LINES: usize = 4;
}

impl Search for Interpolation {
    #[inline(always)]
    fn count<K: Lane>(keys: NodeKeys<'_>, key: K) -> usize {
        interpolate(keys, key, &mut || ())
    }
}

/// `S` in an array of sentinels, the first keys of the node's lines, then SIMD in the one line that can hold the key:
/// sentinel arrays (Ye and Wang, 2021), for nodes of several lines. In a large node, `S` is for large nodes too.
pub struct Sentinels<S = Linear>(PhantomData<S>);

impl<S: Search> Search for Sentinels<S> {
    const SENTINELS: bool = {
        assert!(!S::SENTINELS, "sentinels have no sentinels");
        true
    };

    #[inline(always)]
    fn count<K: Lane>(keys: NodeKeys<'_>, key: K) -> usize {
        let Some(line) = S::count(keys.sentinels::<K>(), key).checked_sub(1) else {
            return 0;
        };
        let start = line * per_line::<K>();
        start + keys.at_most_within(start, keys.lanes.n.min(start + per_line::<K>()), per_line::<K>(), key)
    }
}

/// NodeKeys in a line.
pub(super) const fn per_line<K: Lane>() -> usize {
    LINE / K::SIZE
}

/// Binary search of the slots in `range`, of which all keys before are `key` or less and all behind are greater.
#[inline(always)]
fn halve<K: Lane>(keys: NodeKeys<'_>, range: (usize, usize), key: K, probed: &mut impl FnMut()) -> usize {
    let (mut start, mut len) = (range.0, range.1 - range.0);
    while len > per_line::<K>() {
        let half = len / 2;
        probed();
        // A select, not a branch: which half it is cannot be foretold.
        start = if keys.key::<K>(start + half) <= key { start + half } else { start };
        len -= half;
    }
    probed();
    start + keys.at_most_within(start, start + len, per_line::<K>(), key)
}

#[inline(always)]
fn interpolate<K: Lane>(keys: NodeKeys<'_>, key: K, probed: &mut impl FnMut()) -> usize {
    let window = Interpolation::LINES * per_line::<K>();
    let (mut start, mut end) = (0, keys.lanes.n);
    for _ in 0..Interpolation::MOST {
        if end - start <= window {
            break;
        }
        let (first, last) = (keys.key(start), keys.key(end - 1));
        if key < first {
            return start;
        }
        if last <= key {
            return end;
        }
        probed();
        let guess = start + proportion(key, first, last, end - 1 - start);
        let at = guess.saturating_sub(window / 2).clamp(start, end - window);
        match keys.at_most_within(at, at + window, window, key) {
            0 => end = at,
            all if all == window => start = at + window,
            some => return at + some,
        }
    }
    halve(keys, (start, end), key, probed)
}

/// The part of `n` that lies below `key`, if `n` keys were spread evenly from `first` to `last`. Wants
/// `first <= key < last`; is at most `n`.
#[inline(always)]
fn proportion<K: Lane>(key: K, first: K, last: K, n: usize) -> usize {
    let (part, whole) = (key.to_u128() - first.to_u128(), last.to_u128() - first.to_u128());
    // 63 bits that count: signed integers are converted to floats in one instruction.
    let excess = 65u32.saturating_sub(whole.leading_zeros());
    let float = |v: u128| (v >> excess) as i64 as f64;
    ((float(part) / float(whole) * n as f64) as usize).min(n)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored<K: Lane>(sorted: &[K]) -> Vec<u8> {
        let mut node = vec![0; sorted.len() * K::SIZE];
        for (slot, key) in sorted.iter().enumerate() {
            key.write(&mut node, slot * K::SIZE);
        }
        node
    }

    /// The most probes that any of `wanted` takes; every answer is compared with a plain count.
    fn most_probes<K: Lane>(sorted: &[K], wanted: impl Iterator<Item = K>) -> usize {
        let node = stored(sorted);
        let lanes = Lanes { bytes: &node, at: 0, n: sorted.len(), room: sorted.len() };
        let keys = NodeKeys { lanes, payloads: node.len(), simd: Simd::chosen() };
        let search = |key| {
            let mut probes = 0;
            let count = interpolate(keys, key, &mut || probes += 1);
            assert_eq!(count, sorted.partition_point(|stored| *stored <= key), "{key:?}");
            assert_eq!(count, halve(keys, (0, keys.lanes.n), key, &mut || ()), "{key:?}");
            probes
        };
        wanted.map(search).max().unwrap_or(0)
    }

    /// Every key and its neighbours.
    fn around<K: Lane>(sorted: &[K]) -> impl Iterator<Item = K> {
        let near = |key: &K| [-1, 0, 1].map(|by| key.to_u128().wrapping_add_signed(by));
        sorted.iter().flat_map(near).map(K::from_u128)
    }

    /// What interpolation and binary search may take together.
    fn bound<K: Lane>(n: usize) -> usize {
        Interpolation::MOST + 2 + (n / per_line::<K>()).ilog2() as usize
    }

    fn skewed<K: Lane>() {
        let bits = 8 * K::SIZE as u32;
        let top = K::MAX.to_u128();
        let n = 10_000u128;
        let runs: [Vec<u128>; 5] = [
            // One key that is far above all others, and one that is far below.
            (0..n).chain([top]).collect(),
            [0].into_iter().chain(top - n..=top).collect(),
            // As many keys in every power of two.
            (7..bits).flat_map(|bit| (0..100).map(move |i| (1 << bit) + i)).collect(),
            (7..bits).rev().flat_map(|bit| (0..100).map(move |i| top - (1 << bit) + i)).collect(),
            // Squares.
            (0..n).map(|i| i * i).collect(),
        ];
        for run in runs {
            let sorted: Vec<K> = run.into_iter().map(K::from_u128).collect();
            assert!(sorted.is_sorted());
            let most = most_probes(&sorted, around(&sorted));
            assert!(most <= bound::<K>(sorted.len()), "{most} probes of {} keys", sorted.len());
        }
    }

    #[test]
    fn skewed_keys_cost_a_few_probes_more_than_binary_search() {
        skewed::<u32>();
        skewed::<u64>();
        skewed::<u128>();
    }

    fn searches_agree<K: Lane>() {
        for n in [0u128, 1, 2, 3, 7, 8, 9, 40, 100, 1000] {
            let sorted: Vec<K> = (0..n).map(|i| K::from_u128(3 + i * i * 5)).collect();
            // A node as sentinels want it: theirs first, then the keys.
            let firsts: Vec<K> = sorted.iter().copied().step_by(per_line::<K>()).collect();
            let at = HEADER + firsts.len() * K::SIZE;
            let node = [vec![0; HEADER], stored(&firsts), stored(&sorted)].concat();
            let lanes = Lanes { bytes: &node, at, n: sorted.len(), room: sorted.len() };
            for key in around(&sorted).chain([K::MIN, K::MAX]) {
                let count = sorted.partition_point(|stored| *stored <= key);
                for simd in Simd::all() {
                    let keys = NodeKeys { lanes, payloads: node.len(), simd };
                    assert_eq!(Linear::count(keys, key), count);
                    assert_eq!(Binary::count(keys, key), count);
                    assert_eq!(Interpolation::count(keys, key), count);
                    assert_eq!(<Sentinels>::count(keys, key), count);
                    assert_eq!(Sentinels::<Binary>::count(keys, key), count);
                    assert_eq!(Sentinels::<Interpolation>::count(keys, key), count);
                    assert_eq!(Unsorted::at_most(keys, key), count.checked_sub(1));
                    assert_eq!(Unsorted::slot(keys, key).ok(), Sorted::<Linear>::slot(keys, key).ok());
                }
            }
        }
    }

    #[test]
    fn all_searches_by_all_kernels_agree() {
        searches_agree::<u32>();
        searches_agree::<u64>();
        searches_agree::<u128>();
    }

    #[test]
    fn even_keys_cost_one_probe() {
        let even: Vec<u64> = (0..100_000).map(|i| i << 40).collect();
        assert_eq!(most_probes(&even, around(&even)), 1);
        let even: Vec<u128> = (0..100_000).map(|i| i << 104).collect();
        assert_eq!(most_probes(&even, around(&even)), 1);
    }

    #[test]
    fn proportions_stay_within_bounds() {
        for (first, last) in [(0, 1), (0, u128::MAX), (u128::MAX - 1, u128::MAX), (5, 1 << 64)] {
            for key in [first, first + (last - first) / 2, last - 1] {
                assert!(proportion(key, first, last, 1000) <= 1000);
            }
        }
        assert_eq!(proportion(0, 0, u128::MAX, 1000), 0);
        assert_eq!(proportion(u64::MAX / 2, 0, u64::MAX, 1000), 500);
        assert_eq!(proportion(50u32, 0, 100, 1000), 500);
    }
}
