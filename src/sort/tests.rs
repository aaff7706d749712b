use super::blocks::{BLOCK, Slab};
use super::memory::MemoryHost;
use super::merge::{Merge, Run};
use super::*;
use crate::format::Tid;

use proptest::collection::vec;
use proptest::prelude::*;

/// Sorts entries twice with one sort of so many slabs, a part after the other if they do not fit, and compares each
/// part with what the standard library makes of it. Returns how many slabs it took.
fn sorted<L: Radix>(entries: &[(L, Tid)], slabs: usize) -> usize {
    let host = MemoryHost::new();
    let mut sort = RadixSort::new(&host, slabs);
    let (table, calls) = (host.take_peak(), host.calls());
    for part in entries.chunks(slabs * SLAB).chain(entries.chunks(slabs * SLAB)) {
        for &(lane, tid) in part {
            assert!(!sort.is_full());
            sort.add(lane, tid);
        }
        assert_eq!(sort.len(), part.len());
        assert_eq!(sort.is_full(), part.len() == slabs * SLAB);
        let mut expected = part.to_vec();
        expected.sort_unstable();
        let mut got = Vec::new();
        sort.drain(&mut |some| {
            assert!((1..=SLAB).contains(&some.len()));
            got.extend(some.iter().map(|entry| (entry.lane(), entry.tid())));
        });
        assert!(got == expected, "not sorted");
        assert!(sort.is_empty());
    }
    assert!(entries.is_empty() || host.calls() > calls);
    sort.free();
    assert_eq!(host.in_use(), 0, "memory is left");
    (host.take_peak() - table) / size_of::<Slab<L>>()
}

#[test]
fn what_was_added_first_is_sorted_and_the_rest_stays() {
    let host = MemoryHost::new();
    let mut sort = RadixSort::new(&host, 3);
    let entries: Vec<_> =
        (0..2 * SLAB as u64 + 77).map(|number| (scramble(number) as u64, row(number as usize))).collect();
    entries.iter().for_each(|&(lane, tid)| sort.add(lane, tid));
    let mut rest = &entries[..];
    for least in [1, SLAB + 1, 0, entries.len()] {
        let (before, mut got) = (sort.len(), Vec::new());
        sort.drain_some(least, &mut |some| got.extend(some.iter().map(|entry| (entry.lane(), entry.tid()))));
        assert!(got.len() >= least.min(before) && got.len() < least + 1000, "{} of {least}", got.len());
        assert_eq!(sort.len(), before - got.len());
        let (first, others) = rest.split_at(got.len());
        let mut expected = first.to_vec();
        expected.sort_unstable();
        assert!(got == expected, "not sorted");
        rest = others;
    }
    assert!(sort.is_empty() && rest.is_empty());
}

/// A generator that needs no state but a number.
fn scramble(number: u64) -> u128 {
    let mixed = |salt: u64| (number ^ salt).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    u128::from(mixed(1).wrapping_mul(0xBF58_476D_1CE4_E5B9)) << 64
        | u128::from(mixed(2).wrapping_mul(0x94D0_49BB_1331_11EB))
}

/// The TID of the row that a scan comes to as that one.
fn row(number: usize) -> Tid {
    Tid::new(number.is_multiple_of(3), (number / 100) as u32, (number % 100 + 1) as u16, number.is_multiple_of(7))
}

/// Entries whose lanes a function makes of their numbers, in the order of their rows.
fn made<L: Radix>(count: usize, lane: impl Fn(usize) -> u128) -> Vec<(L, Tid)> {
    let tid = |number: usize| Tid::new(false, (number / 100) as u32, (number % 100 + 1) as u16, false);
    (0..count).map(|number| (L::from_u128(lane(number)), tid(number))).collect()
}

/// Lanes of every kind of distribution, in more entries than are sorted in a cache.
fn distributions<L: Radix>() {
    const MANY: usize = 3 * SLAB + 1234;
    let number = |number: usize| scramble(number as u64);
    let shapes: [&dyn Fn(usize) -> u128; 9] = [
        &number,
        &|n| n as u128,
        &|n| (MANY - n) as u128,
        &|_| 7,
        &|n| number(n) % 10,
        // Most are the same in their uppermost bits.
        &|n| if n.is_multiple_of(1000) { number(n) } else { number(n) % 1000 },
        &|n| number(n) >> (n % 128),
        &|n| (n / 5) as u128 ^ 1,
        // Two columns that vary, and bits between them that do not.
        &|n| ((number(n) % 3) << 28) | ((number(n) >> 64) % 5000),
    ];
    for shape in shapes {
        let mut entries = made::<L>(MANY, shape);
        // Two to sort in, and the last block of each chain.
        assert!(sorted(&entries, 4) <= 4 + 2 + 2 + 1, "memory");
        sorted(&entries, 1);
        entries.reverse();
        sorted(&entries, 4);
        entries.rotate_left(MANY / 3);
        sorted(&entries, 4);
        entries.iter_mut().enumerate().for_each(|(number, entry)| entry.1 = row(number));
        sorted(&entries, 4);
    }
}

#[test]
fn any_distribution_u32() {
    distributions::<u32>();
}

#[test]
fn any_distribution_u64() {
    distributions::<u64>();
}

#[test]
fn any_distribution_u128() {
    distributions::<u128>();
}

#[test]
fn few_and_none() {
    for count in (0..70).chain([BLOCK - 1, BLOCK, BLOCK + 1, SLAB - 1, SLAB, SLAB + 1, 2 * SLAB]) {
        sorted(&made::<u64>(count, |number| scramble(number as u64)), 2);
        sorted(&made::<u64>(count, |number| (count - number) as u128), 2);
        sorted(&made::<u64>(count, |number| number as u128), 2);
    }
}

#[test]
fn entries_are_compact() {
    assert_eq!([size_of::<Compact<u32>>(), size_of::<Compact<u64>>(), size_of::<Compact<u128>>()], [10, 14, 22]);
    let host = MemoryHost::new();
    assert!(RadixSort::<u32, _>::within(&host, 16 << 20).most() > 1_300_000);
    assert_eq!(RadixSort::<u128, _>::within(&host, 0).most(), SLAB);
}

/// A run in memory.
struct Listed<'r>(core::slice::Iter<'r, (u64, Tid)>);

impl Run<u64> for Listed<'_> {
    fn next(&mut self) -> Option<Compact<u64>> {
        self.0.next().map(|&(lane, tid)| Compact::new(lane, tid))
    }
}

proptest! {
    #[test]
    fn any_entries(
        lanes in vec((any::<u128>(), 0u32..128, any::<u64>()), 0..3000),
        keep in 0u32..128,
        distinct_tids in any::<bool>(),
    ) {
        let entry = |(number, &(lane, shift, tid)): (usize, &(u128, u32, u64))| {
            let lane = if shift < keep { lane >> shift } else { lane & 0xFF };
            (lane, if distinct_tids { row(number) } else { Tid::from_raw(tid) })
        };
        let entries: Vec<_> = lanes.iter().enumerate().map(entry).collect();
        sorted(&entries, 1);
        sorted(&entries.iter().map(|&(lane, tid)| (lane as u64, tid)).collect::<Vec<_>>(), 1);
        sorted(&entries.iter().map(|&(lane, tid)| (lane as u32, tid)).collect::<Vec<_>>(), 1);
    }

    #[test]
    fn any_runs(mut runs in vec(vec((0u64..50, any::<u64>().prop_map(Tid::from_raw)), 0..40), 0..20)) {
        runs.iter_mut().for_each(|run| run.sort());
        let mut expected = runs.concat();
        expected.sort();
        let mut listed: Vec<_> = runs.iter().map(|run| Listed(run.iter())).collect();
        let mut heap = vec![(Compact::new(0, Tid::MIN), 0); runs.len()];
        let merged: Vec<_> = Merge::of(&mut listed, &mut heap).map(|entry| (entry.lane(), entry.tid())).collect();
        prop_assert_eq!(merged, expected);
    }
}
