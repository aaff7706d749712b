//! Sorting the entries of builds: within any memory, alone or with runs that others left, as a whole or in parts, and
//! what is left if a call fails.

use crate::common::KeyMaker;
use crate::common::bytes::{Columns, Row, SMALL_KEY, Taste, Value};
use fpbtree_engine::format::{NO_BLOCK, Tid};
use fpbtree_engine::keys::bytes::{BytesOrder, CompareValues, MOST_KEY};
use fpbtree_engine::keys::digits::{DigitKind, DigitShape, ValueLength};
use fpbtree_engine::page::{Bytes, Entry};
use fpbtree_engine::sort::memory::{Fault, MemoryFiles, MemoryHost};
use fpbtree_engine::sort::{BytesSorter, Compact, Filed, LaneSorter, Radix, RunFiles, SLAB, Sorter};
use proptest::collection::vec;
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::cell::Cell;
use std::cmp::Ordering;
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// A key space, and what sorts its entries.
trait Sorted: Filed {
    type Sorter<'h>: Sorter<Self, Host = &'h MemoryHost, Files = MemoryFiles<'h>>;
    /// A copy of an entry.
    type Image: PartialEq + Debug + Clone;
    /// What a sorter takes before it is given an entry.
    const IDLE: usize;

    fn image(entry: &Entry<'_, Self>) -> Self::Image;

    /// The most memory that a sorter may take which was told to take so much and has so many runs.
    fn most_memory(told: usize, runs: usize) -> usize;
}

/// One whose keys are lanes.
trait Lanes: Radix + Sorted<Image = (Self, Tid)> {
    fn entry(self, tid: Tid) -> Entry<'static, Self>;
}

/// Lists of runs and slabs, and what else does not depend on how much is sorted.
const LISTS: usize = 1 << 16;

macro_rules! lanes_sorted {
    ($($lane:ident)*) => {$(
        impl Lanes for $lane {
            fn entry(self, tid: Tid) -> Entry<'static, $lane> {
                Entry { key: self, tid, child: NO_BLOCK }
            }
        }

        impl Sorted for $lane {
            type Sorter<'h> = LaneSorter<'h, $lane, &'h MemoryHost, MemoryFiles<'h>>;
            type Image = ($lane, Tid);
            const IDLE: usize = 0;

            fn image(entry: &Entry<'_, $lane>) -> ($lane, Tid) {
                assert_eq!(entry.child, NO_BLOCK);
                (entry.key, entry.tid)
            }

            /// Two slabs to sort in, and two and a little more for the last blocks of chains; memory to read runs.
            fn most_memory(told: usize, runs: usize) -> usize {
                let slab = SLAB * (size_of::<Compact<$lane>>() + 1);
                told.max(5 * slab) + 2 * slab + runs * (1 << 15) + LISTS
            }
        }
    )*};
}

lanes_sorted!(u32 u64 u128);

impl Sorted for Bytes {
    type Sorter<'h> = BytesSorter<'h, &'h MemoryHost, MemoryFiles<'h>>;
    type Image = (Vec<u8>, Vec<u8>, Tid);
    const IDLE: usize = 3 << 16;

    fn image(entry: &Entry<'_, Bytes>) -> (Vec<u8>, Vec<u8>, Tid) {
        (entry.key.prefix.to_vec(), entry.key.payload.to_vec(), entry.tid)
    }

    /// A record and at least 8 KB to read a run.
    fn most_memory(told: usize, runs: usize) -> usize {
        told.max(64 * (MOST_KEY + 40)) + runs * ((1 << 13) + 4 * MOST_KEY) + LISTS
    }
}

/// Entries to be sorted, and what should come of it.
struct Case<'c, K: Sorted> {
    entries: Vec<Entry<'c, K>>,
    order: K::Order<'c>,
    expected: Vec<K::Image>,
    /// The number of each of those's key among all different ones.
    keys: Vec<usize>,
}

/// The TID of a row. Some are known to be dead.
fn row(number: usize) -> Tid {
    let tid = Tid::new(number.is_multiple_of(5), (number / 100) as u32, (number % 100 + 1) as u16, false);
    let dead = if number.is_multiple_of(7) { Tid::DEAD.into() } else { 0 };
    Tid::from_raw(tid.raw() | dead)
}

/// Numbers what is the same side by side.
fn numbers<T: PartialEq>(sorted: &[T]) -> Vec<usize> {
    let mut number = 0;
    (0..sorted.len())
        .map(|at| {
            number += usize::from(at > 0 && sorted[at] != sorted[at - 1]);
            number
        })
        .collect()
}

/// Entries with these lanes.
fn lanes<L: Lanes>(lanes: impl Iterator<Item = u128>) -> Case<'static, L> {
    let mut expected: Vec<_> = lanes.enumerate().map(|(number, lane)| (L::from_u128(lane), row(number))).collect();
    let entries = expected.iter().map(|&(lane, tid)| lane.entry(tid)).collect();
    expected.sort();
    let keys = numbers(&expected.iter().map(|entry| entry.0).collect::<Vec<_>>());
    Case { entries, order: Default::default(), expected, keys }
}

/// Entries of these rows.
fn rows<'c>(taste: &'c Taste, rows: &'c [Row]) -> Case<'c, Bytes> {
    let mut places: Vec<_> = rows.iter().map(|row| ((row.sorts.clone(), row.tid.position()), row)).collect();
    places.sort_by(|a, b| a.0.cmp(&b.0));
    let expected = places.iter().map(|(_, row)| Bytes::image(&row.entry())).collect();
    let keys = numbers(&places.iter().map(|(place, _)| &place.0).collect::<Vec<_>>());
    Case { entries: rows.iter().map(Row::entry).collect(), order: taste.order(), expected, keys }
}

fn random_rows(taste: &Taste, random: &mut StdRng, count: usize) -> Vec<Row> {
    (0..count as u64).map(|number| taste.random_row(random, number)).collect()
}

/// Nothing is left of a sort.
fn assert_is_quiet(host: &MemoryHost) {
    assert_eq!((host.open_files(), host.in_use()), (0, 0), "files are left open, or memory is left");
}

impl<K: Sorted> Case<'_, K> {
    /// Adds every so-manieth entry.
    fn add(&self, sorter: &mut K::Sorter<'_>, first: usize, of: usize) {
        for entry in self.entries.iter().skip(first).step_by(of) {
            sorter.add(entry, self.order);
        }
        assert_eq!(sorter.total() as usize, self.entries.len().saturating_sub(first).div_ceil(of));
    }

    /// Sorts all entries with one sorter. Returns how many runs there were before the end.
    fn sort(&self, host: &MemoryHost, memory: usize, got: &mut Vec<K::Image>) -> usize {
        let mut sorter = K::Sorter::new(host, host.own_files(), memory);
        self.add(&mut sorter, 0, 1);
        let runs = host.open_files();
        sorter.drain(self.order, |entry| got.push(K::image(entry)));
        runs
    }

    /// The same on a host of its own, with a look at everything.
    fn sorts_within(&self, memory: usize) -> usize {
        let (host, mut got) = (MemoryHost::new(), Vec::new());
        let runs = self.sort(&host, memory, &mut got);
        assert!(got == self.expected, "not sorted");
        assert_is_quiet(&host);
        let (peak, most) = (host.take_peak(), K::most_memory(memory, runs + 1));
        assert!(peak <= most, "{peak} bytes, not {most}, with {memory} and {runs} runs");
        runs
    }

    /// Has several sorters leave what they have sorted. Returns how many runs each has left.
    fn leave(&self, host: &MemoryHost, first: usize, sorters: usize, memory: usize) -> Vec<usize> {
        let leave = |number: usize| {
            let mut sorter = K::Sorter::new(host, host.files_of(first + number), memory);
            self.add(&mut sorter, number, sorters);
            let runs = sorter.leave(self.order);
            sorter.close();
            runs
        };
        (0..sorters).map(leave).collect()
    }

    /// Goes through parts between some places with a sorter that has runs, from one part to behind another.
    fn parts(
        &self,
        sorter: &mut K::Sorter<'_>,
        places: &[K::OwnedKey],
        parts: std::ops::Range<usize>,
        got: &mut Vec<K::Image>,
    ) -> Vec<usize> {
        let place = |at: usize| if at == 0 { K::first() } else { places.get(at - 1).unwrap_or(K::last()) };
        parts
            .map(|part| {
                let (weight, mut merged) = (sorter.part(place(part), place(part + 1), self.order), 0);
                sorter.merge_part(self.order, |entry| {
                    merged += K::Sorter::weight(entry);
                    got.push(K::image(entry));
                    true
                });
                assert_eq!(merged, weight, "what is in a part weighs something else");
                weight
            })
            .collect()
    }
}

/// A sorter that has taken over what others left.
fn taken_over<'h, K: Sorted>(host: &'h MemoryHost, first: usize, runs: &[usize], memory: usize) -> K::Sorter<'h> {
    let mut sorter = K::Sorter::new(host, host.own_files(), memory);
    for (number, &runs) in runs.iter().enumerate() {
        sorter.take_over(host.files_of(first + number), runs);
    }
    sorter
}

/// The places that divide what a sorter has taken over.
fn divide<K: Sorted>(case: &Case<'_, K>, sorter: &mut K::Sorter<'_>, parts: usize, whole: bool) -> Vec<K::OwnedKey> {
    let mut places = Vec::new();
    sorter.divide(parts, whole, case.order, |entry| {
        let mut place = K::fresh();
        K::set_to_key(&mut place, entry, case.order).expect("a sound entry");
        places.push(place);
    });
    places
}

/// How a sort is shared.
#[derive(Clone, Copy, Debug)]
struct Shares {
    sorters: usize,
    parts: usize,
    keep_keys: bool,
    memory: usize,
}

fn shares() -> impl Strategy<Value = Shares> {
    let memory = prop::sample::select(&[0, 1 << 17, 1 << 20][..]);
    (1usize..6, 1usize..12, any::<bool>(), memory).prop_map(|(sorters, parts, keep_keys, memory)| Shares {
        sorters,
        parts,
        keep_keys,
        memory,
    })
}

impl<K: Sorted> Case<'_, K> {
    /// Several sorters sort shares; their runs are merged as a whole, and in parts. Returns what the parts weigh.
    fn sorts_shared(&self, shares: Shares) -> Vec<usize> {
        let Shares { sorters, parts, keep_keys, memory } = shares;
        let host = MemoryHost::new();
        let runs = self.leave(&host, 0, sorters, memory);
        assert_is_quiet(&host);
        let count = runs.iter().sum::<usize>();
        let within = |host: &MemoryHost, besides: usize| {
            let (peak, most) = (host.take_peak(), K::most_memory(memory, count + 1) + besides);
            assert!(peak <= most, "{peak} bytes, not {most}, with {count} runs");
        };
        within(&host, 0);

        let mut merged = Vec::new();
        taken_over::<K>(&host, 0, &runs, memory).merge(self.order, |entry| merged.push(K::image(entry)));
        assert!(merged == self.expected, "not merged");
        assert_is_quiet(&host);
        within(&host, K::IDLE);

        let mut leader = taken_over::<K>(&host, 0, &runs, memory);
        let places = divide(self, &mut leader, parts, keep_keys);
        // Samples, twice if their memory grows.
        within(&host, K::IDLE + 2 * (64 * parts + count) * (MOST_KEY + 100));
        assert!(places.len() < parts);
        // One sorter after another takes the next part.
        let mut helper = taken_over::<K>(&host, 0, &runs, memory);
        let (mut got, mut weights, mut ends) = (Vec::new(), Vec::new(), vec![0]);
        for part in 0..=places.len() {
            let sorter = if part % 3 == 1 { &mut helper } else { &mut leader };
            weights.extend(self.parts(sorter, &places, part..part + 1, &mut got));
            ends.push(got.len());
        }
        assert!(got == self.expected, "parts are not the whole, in order");
        for &[begin, end] in ends.array_windows() {
            // With fewer entries it may be that not as many are looked at as there are to be parts.
            assert!(end > begin || self.expected.len() < 64 * parts, "a part without entries");
            let is_cut = end < got.len() && end > 0 && self.keys[end - 1] == self.keys[end];
            assert!(!(keep_keys && is_cut), "a key is in two parts");
        }
        leader.close();
        helper.close();
        assert_is_quiet(&host);
        weights
    }
}

/// Lanes of every sort: random ones, a few, or such that are the same in many bits; rising, falling, or in any order.
fn random_lanes(seed: u64, count: usize) -> impl Iterator<Item = u128> {
    let mut random = StdRng::seed_from_u64(seed);
    let spread = [1, 3, 1000, 1 << 40, u128::MAX][random.random_range(0..5)];
    let shift = [0, 0, 7, 60][random.random_range(0..4)];
    let rising = [None, None, Some(0), Some(count as u128)][random.random_range(0..4)];
    (0..count).map(move |number| match rising {
        Some(from) => from.abs_diff(number as u128) << shift,
        None => (random.random::<u128>() % spread) << shift,
    })
}

fn lanes_are_sorted<L: Lanes>(seed: u64, count: usize, memory: usize) {
    lanes::<L>(random_lanes(seed, count)).sorts_within(memory);
}

fn lanes_are_shared<L: Lanes>(values: &[u128], shares: Shares) {
    lanes::<L>(values.iter().copied()).sorts_shared(shares);
}

/// A row's taste by a number.
fn taste(random: &mut StdRng) -> Taste {
    let most = if random.random_ratio(2, 3) { SMALL_KEY } else { MOST_KEY };
    Taste::random(random, most)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(12) })]

    #[test]
    fn lanes_are_sorted_within_any_memory(
        seed: u64,
        count in 0usize..4 * SLAB,
        memory in prop::sample::select(&[0, 5 << 20, 9 << 20, 1 << 26][..]),
    ) {
        lanes_are_sorted::<u32>(seed, count, memory);
        lanes_are_sorted::<u64>(seed, count, memory);
        lanes_are_sorted::<u128>(seed, count, memory);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn lanes_are_merged_and_divided(
        values in vec((any::<u128>(), 0u32..128), 0..4000),
        few in prop::option::of(1u128..300),
        shares in shares(),
    ) {
        let value = |&(value, shift): &(u128, u32)| few.map_or(value >> shift, |few| value % few);
        let values: Vec<u128> = values.iter().map(value).collect();
        lanes_are_shared::<u32>(&values, shares);
        lanes_are_shared::<u64>(&values, shares);
        lanes_are_shared::<u128>(&values, shares);
    }

    #[test]
    fn byte_strings_are_sorted_within_any_memory(
        seed: u64,
        count in 0usize..6000,
        memory in prop::sample::select(&[0, 1 << 17, 1 << 19, 1 << 24][..]),
    ) {
        let mut random = StdRng::seed_from_u64(seed);
        let taste = taste(&mut random);
        rows(&taste, &random_rows(&taste, &mut random, count)).sorts_within(memory);
    }

    #[test]
    fn byte_strings_are_merged_and_divided(seed: u64, count in 0usize..4000, shares in shares()) {
        let mut random = StdRng::seed_from_u64(seed);
        let taste = taste(&mut random);
        rows(&taste, &random_rows(&taste, &mut random, count)).sorts_shared(shares);
    }
}

/// A column whose order only a function knows.
const OPAQUE: DigitShape = DigitShape {
    kind: DigitKind::Opaque { prefix: 2, value: ValueLength::CString },
    descending: false,
    nulls_first: false,
};

/// Rows of such a column and what goes with them, most of them of a few keys, which are ordered by the function and not
/// by their bytes.
fn opaque_rows(seed: u64, count: usize) -> (Taste, Vec<Row>) {
    let mut random = StdRng::seed_from_u64(seed);
    let taste = Taste::new(vec![OPAQUE], 8, SMALL_KEY, &[0, 1, 2, 4], 40).repeating(&mut random);
    let rows = random_rows(&taste, &mut random, count);
    (taste, rows)
}

#[test]
fn functions_order_byte_strings() {
    let (mut runs, mut parts) = (0, 0);
    for seed in 0..12 {
        let (taste, made) = opaque_rows(seed, 4000);
        let case = rows(&taste, &made);
        assert!(case.order.is_some());
        runs += case.sorts_within(0);
        parts += case.sorts_shared(Shares { sorters: 3, parts: 5, keep_keys: seed % 2 == 0, memory: 0 }).len();
    }
    assert!(runs > 24 && parts > 24, "{runs} runs, {parts} parts");
}

/// What does not fit goes to files: an eighth first, then more.
#[test]
fn what_does_not_fit_goes_to_files() {
    for (count, expected) in [(SLAB, 0), (SLAB + 1, 1), (SLAB + SLAB / 8 + 2000, 2), (4 * SLAB, 6)] {
        let runs = lanes::<u32>(random_lanes(4, count)).sorts_within(0);
        assert!(runs.abs_diff(expected) <= usize::from(expected > 2), "{runs} runs of {count} entries");
        assert_eq!(lanes::<u32>(random_lanes(4, count)).sorts_within(1 << 26), 0);
    }
    let (taste, made) = opaque_rows(3, 9000);
    let runs = rows(&taste, &made).sorts_within(0);
    assert!(runs > 2, "{runs} runs");
    assert_eq!(rows(&taste, &made).sorts_within(1 << 24), 0);
}

/// Parts are of about the same size, and as many as were asked for, if keys differ.
#[test]
fn parts_are_alike() {
    let check = |weights: Vec<usize>| {
        let average = weights.iter().sum::<usize>() / 8;
        assert_eq!(weights.len(), 8);
        assert!(weights.iter().all(|&weight| weight > average / 2 && weight < 2 * average), "{weights:?}");
    };
    for keep_keys in [false, true] {
        let shares = Shares { sorters: 4, parts: 8, keep_keys, memory: 0 };
        let mut random = StdRng::seed_from_u64(1);
        check(lanes::<u64>((0..20_000).map(|_| random.random())).sorts_shared(shares));
        let taste = Taste::new(vec![DigitShape { kind: DigitKind::Fixed(8), ..OPAQUE }], 0, SMALL_KEY, &[0], 1);
        let row = |number| taste.row(vec![Value::Number(random.random::<u64>().into())], number);
        // One in 64 records can be a sample.
        let made: Vec<Row> = (0..40_000).map(row).collect();
        check(rows(&taste, &made).sorts_shared(shares));
    }
}

/// Sorters leave several runs each.
#[test]
fn many_runs_are_divided() {
    for seed in 0..3 {
        let shares = Shares { sorters: 2, parts: 5, keep_keys: seed == 1, memory: 0 };
        lanes::<u32>(random_lanes(seed, 3 * SLAB)).sorts_shared(shares);
        lanes::<u64>(random_lanes(seed + 3, 3 * SLAB)).sorts_shared(shares);
        lanes::<u128>(random_lanes(seed + 6, 3 * SLAB)).sorts_shared(shares);
    }
}

/// Where one key has most entries it is divided only if that may be.
#[test]
fn a_key_is_divided_if_it_may_be() {
    let case = lanes::<u32>((0..5000).map(|_| 7));
    let shares = Shares { sorters: 2, parts: 4, keep_keys: false, memory: 0 };
    assert_eq!(case.sorts_shared(shares).len(), 4);
    assert_eq!(case.sorts_shared(Shares { keep_keys: true, ..shares }).len(), 1);
}

/// Whoever ends a part early can go on with another one.
fn ends_early<K: Sorted>(case: &Case<'_, K>, memory: usize) {
    let host = MemoryHost::new();
    let runs = case.leave(&host, 0, 3, memory);
    let mut sorter = taken_over::<K>(&host, 0, &runs, memory);
    let places = divide(case, &mut sorter, 4, false);
    assert_eq!(places.len(), 3);
    let mut whole = Vec::new();
    case.parts(&mut sorter, &places, 1..2, &mut whole);
    for wanted in [1, 2, 17, whole.len() / 2, whole.len() - 1, whole.len()] {
        let mut got = Vec::new();
        sorter.part(&places[0], &places[1], case.order);
        sorter.merge_part(case.order, |entry| {
            got.push(K::image(entry));
            got.len() < wanted
        });
        assert!(got[..] == whole[..wanted], "{} of {wanted}", got.len());
    }
    let mut all = Vec::new();
    case.parts(&mut sorter, &places, 0..4, &mut all);
    assert!(all == case.expected);
    // One that was begun but not merged, too.
    sorter.part(&places[0], &places[1], case.order);
    sorter.close();
    assert_is_quiet(&host);
}

#[test]
fn a_part_ends_early() {
    ends_early(&lanes::<u32>(random_lanes(2, 3000)), 0);
    ends_early(&lanes::<u64>(random_lanes(5, 9000)), 0);
    ends_early(&lanes::<u128>(random_lanes(9, 3000)), 1 << 20);
    let (taste, made) = opaque_rows(1, 4000);
    ends_early(&rows(&taste, &made), 0);
}

/// Entries put in a file one by one are read back.
#[test]
fn entries_are_put_in_files() {
    fn back<K: Sorted>(case: &Case<'_, K>) {
        let host = MemoryHost::new();
        let files = host.files_of(3);
        let file = files.create(5);
        let entries = case.entries.iter().map(|entry| Entry { child: 77, ..*entry });
        entries.clone().for_each(|entry| K::put(files, file, &entry));
        files.finish(file);
        files.close(file);
        let (file, _) = files.open(5);
        let mut record = K::RECORD;
        for entry in entries {
            let got = K::get(files, file, &mut record);
            assert_eq!((got.child, got.tid), (77, entry.tid));
            let got = Entry { child: NO_BLOCK, ..got };
            assert_eq!(K::image(&got), K::image(&Entry { child: NO_BLOCK, ..entry }));
        }
        files.close(file);
    }
    back(&lanes::<u32>(random_lanes(1, 50)));
    back(&lanes::<u64>(random_lanes(1, 50)));
    back(&lanes::<u128>(random_lanes(1, 50)));
    let (taste, made) = opaque_rows(1, 50);
    back(&rows(&taste, &made));
}

/// Lets each call of `work` on a host fail in turn, one in so many. What came until then are the first entries, and
/// what others left there is as it was.
fn fails_anywhere<K: Sorted>(case: &Case<'_, K>, step: usize, work: impl Fn(&MemoryHost, usize, &mut Vec<K::Image>)) {
    let calls = {
        let (host, mut got) = (MemoryHost::new(), Vec::new());
        work(&host, 0, &mut got);
        assert!(got == case.expected);
        assert_is_quiet(&host);
        host.calls()
    };
    assert!(calls / step > 20, "{calls} calls");
    for call in (0..calls).step_by(step) {
        let (host, mut got) = (MemoryHost::new(), Vec::new());
        let left = (call / step).is_multiple_of(8).then(|| case.leave(&host, 100, 2, 0));
        host.fail_at(call);
        match catch_unwind(AssertUnwindSafe(|| work(&host, 0, &mut got))) {
            Ok(()) => panic!("call {call} did not fail"),
            Err(payload) => match payload.downcast_ref() {
                Some(&Fault { in_use, open_files }) => {
                    // A jump runs no destructors, so unwinding may not have found any.
                    assert_eq!((host.in_use(), host.open_files()), (in_use, open_files), "call {call}: a destructor");
                }
                None => resume_unwind(payload),
            },
        }
        assert!(case.expected.starts_with(&got), "call {call}: something else came first");
        if let Some(runs) = left {
            let mut merged = Vec::new();
            taken_over::<K>(&host, 100, &runs, 0).merge(case.order, |entry| merged.push(K::image(entry)));
            assert!(merged == case.expected, "call {call}: what was left is not what it was");
            got.clear();
            work(&host, 200, &mut got);
            assert!(got == case.expected, "call {call}: it does not work again");
        }
    }
}

/// All calls of those who leave runs and of whoever merges them in parts.
fn shares_fail<K: Sorted>(case: &Case<'_, K>, step: usize) {
    fails_anywhere(case, step, |host, first, got| {
        let runs = case.leave(host, first, 3, 0);
        let mut sorter = taken_over::<K>(host, first, &runs, 0);
        let places = divide(case, &mut sorter, 3, false);
        case.parts(&mut sorter, &places, 0..places.len() + 1, got);
        sorter.close();
    });
}

#[test]
fn any_call_of_shared_sorts_fails() {
    shares_fail(&lanes::<u32>(random_lanes(2, 1500)), 1);
    shares_fail(&lanes::<u64>(random_lanes(5, 1500)), 1);
    shares_fail(&lanes::<u128>(random_lanes(9, 1500)), 1);
    let (taste, made) = opaque_rows(1, 600);
    shares_fail(&rows(&taste, &made), 1);
}

#[test]
fn any_call_of_lone_sorts_fails() {
    let case = lanes::<u32>(random_lanes(4, SLAB + SLAB / 4));
    fails_anywhere(&case, 7, |host, _, got| {
        assert!(case.sort(host, 0, got) > 0);
    });
    let (taste, made) = opaque_rows(2, 3000);
    let case = rows(&taste, &made);
    fails_anywhere(&case, 11, |host, _, got| {
        assert!(case.sort(host, 0, got) > 1);
    });
}

/// What may be said of values' order: the truth, nearly that, or anything else.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Hint {
    True,
    /// No more than so many bytes.
    Cut(usize),
    Nothing,
    Constant,
    Reversed,
    Scrambled,
    /// Of every other value, as its number of bytes says.
    OfSome,
    /// Turned over for one value in so many.
    WrongForFew(u64),
}

/// Columns' functions that are counted, and hints of a kind.
struct Hinting<'t> {
    columns: &'t Columns,
    hint: Hint,
    compared: Cell<usize>,
    hinted: Cell<usize>,
}

impl<'t> Hinting<'t> {
    fn new(taste: &'t Taste, hint: Hint) -> Self {
        Hinting { columns: &taste.columns, hint, compared: Cell::new(0), hinted: Cell::new(0) }
    }
}

impl CompareValues for Hinting<'_> {
    fn compare(&self, column: usize, a: &[u8], b: &[u8]) -> Ordering {
        self.compared.set(self.compared.get() + 1);
        self.columns.compare(column, a, b)
    }

    fn hint(&self, column: usize, value: &[u8], out: &mut [u8]) -> usize {
        assert_eq!(column, 0, "the first opaque column's");
        self.hinted.set(self.hinted.get() + 1);
        // A terminator in front of which all bytes are more, as the values end with one.
        let mut bytes = value.to_ascii_lowercase();
        let flip = |bytes: &mut Vec<u8>| bytes.iter_mut().for_each(|byte| *byte = !*byte);
        if self.columns.0[column].descending {
            flip(&mut bytes);
        }
        match self.hint {
            Hint::True => {}
            Hint::Cut(most) => bytes.truncate(most),
            Hint::Nothing => bytes.clear(),
            Hint::Constant => bytes = vec![7; 7],
            Hint::Reversed => flip(&mut bytes),
            Hint::Scrambled => bytes = digest(&bytes).to_be_bytes().to_vec(),
            Hint::WrongForFew(one_in) if digest(&bytes).is_multiple_of(one_in) => flip(&mut bytes),
            Hint::WrongForFew(_) => {}
            Hint::OfSome if bytes.len().is_multiple_of(2) => bytes.clear(),
            Hint::OfSome => {}
        }
        bytes.truncate(out.len());
        out[..bytes.len()].copy_from_slice(&bytes);
        bytes.len()
    }
}

fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(9, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// Whatever hints say, entries are sorted by the columns' functions; if what they say is mostly true, by few calls of these.
#[test]
fn hints_need_not_be_true() {
    let mut random = StdRng::seed_from_u64(8);
    for (prefix, descending) in [(0, false), (0, true), (2, false)] {
        let column = DigitShape {
            kind: DigitKind::Opaque { prefix, value: ValueLength::CString },
            descending,
            nulls_first: descending,
        };
        for (memory, flavours) in [(0, &[1][..]), (1 << 24, &[1]), (0, &[0, 1, 2, 4]), (1 << 24, &[0, 1, 2, 4])] {
            let taste = Taste::new(vec![column], 8, SMALL_KEY, flavours, 1 << 20);
            let made = random_rows(&taste, &mut random, 6000);
            let calls = |hint| {
                let hinting = Hinting::new(&taste, hint);
                let order = Some(BytesOrder { shape: &taste.shape, columns: &hinting });
                Case { order, ..rows(&taste, &made) }.sorts_within(memory);
                hinting.compared.get()
            };
            let lies = [Hint::Cut(9), Hint::Constant, Hint::Reversed, Hint::Scrambled, Hint::OfSome];
            let nothing = calls(Hint::Nothing);
            lies.into_iter().for_each(|hint| {
                calls(hint);
            });
            calls(Hint::WrongForFew(10));
            for hint in [Hint::True, Hint::WrongForFew(300)] {
                let calls = calls(hint);
                // Many of the other values are the same to the function.
                let is_told = calls < nothing * 2 / 3 || flavours.len() > 1;
                assert!(is_told, "{calls} calls with hints, {nothing} without");
            }
        }
    }
}

/// Of what comes in order no hint is asked for, and the function is called once a row. What comes in order at first is
/// sorted with the rest, whatever hints say of that.
#[test]
fn what_comes_in_order_is_not_sorted() {
    for (seed, hint) in
        [Hint::True, Hint::Nothing, Hint::OfSome, Hint::Reversed, Hint::Scrambled].into_iter().enumerate()
    {
        let (taste, mut made) = opaque_rows(seed as u64, 3000);
        made.sort_by(|a, b| (&a.sorts, a.tid.position()).cmp(&(&b.sorts, b.tid.position())));
        let sort = |made: &[Row], memory| {
            let hinting = Hinting::new(&taste, hint);
            let order = Some(BytesOrder { shape: &taste.shape, columns: &hinting });
            Case { order, ..rows(&taste, made) }.sorts_within(memory);
            (hinting.compared.get(), hinting.hinted.get())
        };
        let (compared, hinted) = sort(&made, 1 << 24);
        assert!(compared < made.len() && hinted == 0, "{compared} compared, {hinted} hints");
        assert_eq!(sort(&made, 0).1, 0, "hints of runs that come in order");
        for ordered in [made.len() - 1, made.len() / 2, 1] {
            made[ordered..].reverse();
            let turns = usize::from(ordered == made.len() - 1);
            made[..ordered].rotate_left(turns);
            sort(&made, 1 << 24);
            sort(&made, 0);
        }
    }
}

/// Columns' functions, of which one call fails.
struct Failing<'t> {
    columns: &'t Columns,
    /// Calls until then.
    left: Cell<usize>,
}

/// What that unwinds with.
struct NoAnswer;

impl CompareValues for Failing<'_> {
    fn compare(&self, column: usize, a: &[u8], b: &[u8]) -> Ordering {
        let Some(left) = self.left.get().checked_sub(1) else { resume_unwind(Box::new(NoAnswer)) };
        self.left.set(left);
        self.columns.compare(column, a, b)
    }
}

#[test]
fn any_comparison_fails() {
    let (taste, made) = opaque_rows(5, 2500);
    let failing = Failing { columns: &taste.columns, left: Cell::new(usize::MAX) };
    let order = Some(BytesOrder { shape: &taste.shape, columns: &failing });
    let case = Case { order, ..rows(&taste, &made) };
    let work = |got: &mut Vec<_>| {
        let host = MemoryHost::new();
        let runs = case.leave(&host, 0, 3, 0);
        let mut sorter = taken_over::<Bytes>(&host, 0, &runs, 0);
        let places = divide(&case, &mut sorter, 3, true);
        case.parts(&mut sorter, &places, 0..places.len() + 1, got);
        sorter.close();
        assert_is_quiet(&host);
    };
    let mut got = Vec::new();
    work(&mut got);
    assert!(got == case.expected);
    let comparisons = usize::MAX - failing.left.get();
    let mut begun = 0;
    for call in (0..comparisons).step_by(comparisons / 100) {
        failing.left.set(call);
        let mut got = Vec::new();
        let payload = catch_unwind(AssertUnwindSafe(|| work(&mut got))).expect_err("a comparison fails");
        if !payload.is::<NoAnswer>() {
            resume_unwind(payload);
        }
        assert!(case.expected.starts_with(&got), "comparison {call}: something else came first");
        begun += usize::from(!got.is_empty());
    }
    assert!(begun > 5 && begun < 95, "{begun} had begun to merge");
}
