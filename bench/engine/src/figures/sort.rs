//! The sort of builds against the standard library's.

use std::alloc::{Layout, alloc, dealloc};
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::time::Instant;

use fpbtree_engine::format::Tid;
use fpbtree_engine::sort::{Host, Radix, RadixSort, SLAB};
use fpbtree_lab::figure::{Axis, Claim, Figure, Outcome, Panel, Run, median};

/// What is ours alone.
pub const FIGURES: &[Figure] = &[Figure {
    name: "sort",
    title: "The sort of builds against the standard library's",
    source: "ours",
    seconds: (3, 40),
    run,
}];

/// Lanes of an order, by their number and how many there are.
type Lanes = (&'static str, fn(usize, usize) -> u128);

const LANES: [Lanes; 6] = [
    ("random", |number, _| random(number)),
    ("random, one in 64 bits", |number, _| random(number) & (u128::MAX / 3) & (u128::MAX / 5)),
    ("a thousand", |number, _| random(number) % 1000),
    ("ascending", |number, _| number as u128),
    ("descending", |number, rows| (rows - number) as u128),
    ("nearly ascending", |number, _| number as u128 + random(number) % 1000),
];

/// What is measured: adding an entry, sorting it, and the standard library's sort.
const STEPS: [&str; 3] = ["add", "sort", "std: sort_unstable"];

/// Nanoseconds an entry for each step and each kind of lanes.
type Times = [[f64; STEPS.len()]; LANES.len()];

fn run(run: &mut Run) -> Outcome {
    let measured =
        [("32", of_width::<u32>(run, 0.0)), ("64", of_width::<u64>(run, 0.33)), ("128", of_width::<u128>(run, 0.67))];
    let panel = |(bits, times): &(&str, Times)| Panel::Bars {
        title: format!("Lanes of {bits} bits"),
        groups: LANES.map(|(name, _)| name.to_owned()).into(),
        y: Axis::linear("ns per entry"),
        series: STEPS
            .iter()
            .enumerate()
            .map(|(step, name)| ((*name).to_owned(), times.map(|times| times[step]).into()))
            .collect(),
    };
    let panels = measured.iter().map(panel).collect();
    Outcome { panels, claims: measured.iter().map(|(bits, times)| claim(bits, times)).collect() }
}

/// That it is worth its code: with random lanes, what it takes to add and sort against what a sort alone takes.
fn claim(bits: &str, times: &Times) -> Claim {
    let ratio = |times: [f64; STEPS.len()]| times[2] / (times[0] + times[1]);
    let worst = times.map(ratio).into_iter().fold(f64::INFINITY, f64::min);
    let random = ratio(times[0]);
    let holds = random > 1.0;
    let why = if holds {
        "Entries are told apart by digits, not by comparisons, and in the cache; the standard library knows orders that \
         are there already as well."
    } else {
        "What digits save over comparisons goes to adding the entries one by one."
    };
    Claim {
        what: format!("lanes of {bits} bits, random: the library's time in ours, adding included"),
        goal: "more than 1".to_owned(),
        ours: format!("{random:.2}, of all kinds {worst:.2} at least"),
        holds,
        why: why.to_owned(),
        ..Claim::default()
    }
}

fn random(number: usize) -> u128 {
    (u128::from(mix(number as u64)) << 64) | u128::from(mix(!number as u64))
}

fn mix(number: u64) -> u64 {
    let first = (number ^ (number >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    (first ^ (first >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93)
}

/// Memory as Rust itself has it.
#[derive(Clone, Copy)]
struct Heap;

/// What memory is aligned to.
const LINE: usize = 64;

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, LINE).expect("a size of memory")
}

impl Host<'static> for Heap {
    fn allocate(&self, size: usize) -> &'static mut [MaybeUninit<u8>] {
        // SAFETY: a layout of some bytes; memory of as many, if there is any, is there until it is freed.
        unsafe {
            let memory = alloc(layout(size));
            assert!(!memory.is_null(), "no memory for {size} bytes");
            std::slice::from_raw_parts_mut(memory.cast(), size)
        }
    }

    unsafe fn grow(&self, _memory: *mut [MaybeUninit<u8>], _size: usize) -> &'static mut [MaybeUninit<u8>] {
        unreachable!("a sort in memory knows how much it takes")
    }

    unsafe fn free(&self, memory: *mut [MaybeUninit<u8>]) {
        // SAFETY: it was allocated above, as the caller says, with as many bytes.
        unsafe { dealloc(memory.cast(), layout(memory.len())) };
    }

    fn check(&self) {}
}

fn of_width<L: Radix>(run: &mut Run, done: f64) -> Times {
    let rows = run.number("rows", 1_000_000, 10_000_000);
    let mut kinds = 0.0;
    LANES.map(|(_, lane)| {
        run.done(done + 0.33 * kinds / LANES.len() as f64);
        kinds += 1.0;
        let entry = |number: usize| {
            let tid = Tid::new(false, (number / 200) as u32, (number % 200 + 1) as u16, false);
            (L::from_u128(lane(number, rows)), tid)
        };
        let entries: Vec<(L, Tid)> = (0..rows).map(entry).collect();
        let mut sort = RadixSort::new(Heap, rows.div_ceil(SLAB));
        let times = medians(if run.full() { 5 } else { 3 }, || round(&entries, &mut sort));
        sort.free();
        times
    })
}

/// The medians of rounds, of which the first, which gets memory, does not count.
fn medians(rounds: usize, mut round: impl FnMut() -> [f64; STEPS.len()]) -> [f64; STEPS.len()] {
    round();
    let rounds: Vec<_> = (0..rounds).map(|_| round()).collect();
    std::array::from_fn(|step| median(rounds.iter().map(|times| times[step]).collect()))
}

fn round<L: Radix>(entries: &[(L, Tid)], sort: &mut RadixSort<'static, L, Heap>) -> [f64; STEPS.len()] {
    let nanoseconds = |work: &mut dyn FnMut()| {
        let start = Instant::now();
        work();
        start.elapsed().as_nanos() as f64 / entries.len() as f64
    };
    let mut copy = entries.to_vec();
    [
        nanoseconds(&mut || entries.iter().for_each(|&(lane, tid)| sort.add(lane, tid))),
        nanoseconds(&mut || {
            sort.drain(&mut |some| {
                black_box(some);
            });
        }),
        nanoseconds(&mut || copy.sort_unstable()),
    ]
}
