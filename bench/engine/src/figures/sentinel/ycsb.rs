//! YCSB's workload A: pairs are inserted, then half of the operations read and half update, of keys in Zipf's
//! distribution. What counts are 99th percentiles, as in the paper (§IV-C): Figure 7, and what Figure 8 does with
//! several threads.

use std::time::Instant;

use fpbtree_lab::figure::{Axis, Outcome, Panel, Run, median};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::SliceRandom};
use rand_distr::{Distribution, Zipf};

use super::leaves::{KINDS, LINEAR, NewSingle, SENTINELS, SINGLE};
use super::nodes::{Keys, chart};
use super::{claim, percent};

/// What is done, in the order of [`Percentiles`].
pub const PHASES: [&str; 3] = ["Insertion", "Read", "Update"];
pub const READ: usize = 1;
pub const UPDATE: usize = 2;
/// YCSB's skew.
const SKEW: f64 = 0.99;

#[derive(Clone, Copy)]
pub enum Operation {
    Insert(u32, u32),
    Read(u32),
    Update(u32, u32),
}

/// Nanoseconds within which 99 % of each of [`PHASES`] were done.
pub type Percentiles = [f64; 3];

/// The operations of one thread: its share of the insertions, and then as many reads and updates.
pub struct Work {
    pub inserts: Vec<Operation>,
    pub run: Vec<Operation>,
}

/// The operations of so many threads, of so many pairs in all.
pub fn work(pairs: usize, threads: usize) -> Vec<Work> {
    let mut random = StdRng::seed_from_u64(pairs as u64);
    let mut all = Keys::new(pairs).pairs();
    // The most frequent keys are anywhere.
    all.shuffle(&mut random);
    let ranks = Zipf::new(pairs as f64, SKEW).expect("a distribution");
    let share = pairs.div_ceil(threads);
    let thread = |part: &[(u32, u32)]| {
        let operation = |id: u32| {
            let key = all[(ranks.sample(&mut random) as usize - 1).min(pairs - 1)].0;
            if random.random() { Operation::Read(key) } else { Operation::Update(key, id) }
        };
        let run = (0..share as u32).map(operation).collect();
        Work { inserts: part.iter().map(|(key, id)| Operation::Insert(*key, *id)).collect(), run }
    };
    let mut thread = thread;
    all.chunks(share).map(&mut thread).collect()
}

/// Nanoseconds of every operation, by phase.
pub type Samples = [Vec<u32>; 3];

/// Does it, by a `search` and an `insert`; what each operation took.
pub fn play(work: &[Operation], samples: &mut Samples, mut apply: impl FnMut(u32, Option<u32>) -> Option<u32>) {
    let mut last = Instant::now();
    for operation in work {
        let (phase, found) = match *operation {
            Operation::Insert(key, id) => (0, apply(key, Some(id)).is_none()),
            Operation::Read(key) => (READ, apply(key, None).is_some()),
            Operation::Update(key, id) => (UPDATE, apply(key, Some(id)).is_some()),
        };
        let now = Instant::now();
        assert!(found, "keys are inserted once, and then they are there");
        samples[phase].push((now - last).as_nanos() as u32);
        last = now;
    }
}

/// The percentiles of samples.
pub fn percentiles(samples: Samples) -> Percentiles {
    samples.map(|mut of| {
        let at = of.len() * 99 / 100;
        f64::from(*of.select_nth_unstable(at).1)
    })
}

/// The medians of several rounds' percentiles.
pub fn medians(rounds: &[Percentiles]) -> Percentiles {
    std::array::from_fn(|phase| median(rounds.iter().map(|round| round[phase]).collect()))
}

fn one(new: NewSingle, work: &Work) -> Percentiles {
    let mut map = new(&[]);
    let mut samples = Samples::default();
    for part in [&work.inserts, &work.run] {
        play(part, &mut samples, |key, id| match id {
            Some(id) => map.insert(key, id),
            None => map.search(key),
        });
    }
    percentiles(samples)
}

/// Node sizes.
pub fn figure7(run: &mut Run) -> Outcome {
    let pairs = run.number("pairs", 200_000, 1_000_000);
    let rounds = if run.full() { 5 } else { 3 };
    let work = work(pairs, 1).remove(0);
    let sizes = SINGLE.map(|of| of.0);
    let mut measured: Vec<Vec<Percentiles>> = Vec::new();
    for (at, (_, made)) in SINGLE.iter().enumerate() {
        let mut taken = vec![Vec::new(); KINDS.len()];
        for round in 0..rounds {
            made.iter().zip(&mut taken).for_each(|(new, taken)| taken.push(one(*new, &work)));
            run.done((at as f64 + (round + 1) as f64 / rounds as f64) / sizes.len() as f64);
        }
        measured.push(taken.iter().map(|rounds| medians(rounds)).collect());
    }
    let title = |what: &str| format!("{what}, 99th percentile: {} million pairs", pairs as f64 / 1e6);
    let panel = |(phase, what): (usize, &&str)| -> Panel {
        chart(&title(what), Axis::log("bytes of a node"), &sizes, |at, kind| measured[at][kind][phase])
    };
    let panels = PHASES.iter().enumerate().map(panel).collect();
    let large = &measured[sizes.len() - 1];
    let change = |phase: usize| percent(large[SENTINELS][phase], large[LINEAR][phase]);
    let read = change(READ);
    let update = change(UPDATE);
    let why = [
        "The search in the leaf is the longer part of both operations.",
        "The slowest hundredth waits for memory and the system, not for a search in the leaf.",
    ];
    let claims = vec![
        claim(
            "read, 99th percentile, nodes of 4 KB: sentinels against none",
            "-16.9 % (FAST-FAIR)",
            format!("{read:+.1} %"),
            read < 0.0,
            why,
        ),
        claim(
            "update, 99th percentile, nodes of 4 KB: sentinels against none",
            "less",
            format!("{update:+.1} %"),
            update < 0.0,
            why,
        ),
    ];
    Outcome { panels, claims }
}
