//! Our own goal: the KISS-tree's lookups in batches against adaptive radix trees, the modular B+-tree and others.
//! Uniform 32-bit keys, 64-bit values, one thread.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

use fpbtree_lab::figure::{Axis, Claim, Outcome, Panel, Run, median};

use super::maps::{Kiss, Map, Modular, New, art, value};
use super::workload::{Keys, asked, filled};

/// Times as fast that batches are to be.
const GOAL: f64 = 1.5;

/// The KISS-tree in batches first, then the modular B+-tree; then adaptive radix trees, and what is not in the goal.
const MAPS: [New; 8] = [
    ("KISS-tree, batches", |keys| Box::new(Kiss::new(keys, 1, true, true))),
    ("modular B+-tree", |keys| Box::new(Modular::new(keys))),
    ("ART: blart", |_| Box::new(art::Blart::new())),
    ("ART: rart", |_| Box::new(art::Rart::new())),
    ("ART: congee", |_| Box::new(art::Concurrent::default())),
    ("BTreeMap", |_| Box::new(BTreeMap::<u32, u64>::new())),
    ("KISS-tree, one by one", |keys| Box::new(Kiss::new(keys, 1, false, true))),
    ("KISS-tree, batches, pages of 4 KB", |keys| Box::new(Kiss::new(keys, 1, true, false))),
];
const ARTS: std::ops::Range<usize> = 2..5;

/// What a map takes a key: nanoseconds to insert it, and bytes.
struct Cost {
    insertion: f64,
    bytes: f64,
}

/// The figure.
pub fn lookups(run: &mut Run) -> Outcome {
    let keys = Keys::Uniform.take(run.number("keys", 1_000_000, 16_000_000));
    let mut maps = Vec::new();
    let mut costs = Vec::new();
    for (number, new) in MAPS.into_iter().enumerate() {
        run.done(0.7 * number as f64 / MAPS.len() as f64);
        let before = resident();
        let (map, insertion) = filled(new, &keys);
        costs.push(Cost { insertion, bytes: (resident() - before) as f64 / keys.len() as f64 });
        maps.push(map);
    }
    let times = times(run, &mut maps, &keys);
    let bars = Panel::Bars {
        title: format!("Lookups among {} uniform keys", keys.len()),
        groups: MAPS.map(|(name, _)| name.to_owned()).into(),
        y: Axis::linear("ns per lookup"),
        series: vec![("lookup".to_owned(), times.clone())],
    };
    let claims = vec![
        claim("the best adaptive radix tree", ARTS.map(|at| (times[at], MAPS[at].0)), times[0]),
        claim("the modular B+-tree", [(times[1], MAPS[1].0)].into_iter(), times[0]),
    ];
    Outcome { panels: vec![bars, table(&times, &costs)], claims }
}

/// Nanoseconds a lookup of every map: medians of turns, of which the first does not count.
fn times(run: &mut Run, maps: &mut [Box<dyn Map>], keys: &[u32]) -> Vec<f64> {
    let rounds = if run.full() { 5 } else { 3 };
    let asked = asked(keys, run.number("lookups", 500_000, 2_000_000));
    let expected: u64 = asked.iter().map(|key| u64::from(value(*key, 0))).sum();
    let mut samples = vec![Vec::new(); maps.len()];
    for round in 0..=rounds {
        run.done(0.7 + 0.3 * round as f64 / (rounds + 1) as f64);
        for (map, samples) in maps.iter_mut().zip(&mut samples) {
            let start = Instant::now();
            assert_eq!(map.read(black_box(&asked)), expected);
            if round > 0 {
                samples.push(start.elapsed().as_nanos() as f64 / asked.len() as f64);
            }
        }
    }
    samples.into_iter().map(median).collect()
}

fn table(times: &[f64], costs: &[Cost]) -> Panel {
    let row = |((name, _), (time, cost)): (&New, (&f64, &Cost))| {
        let numbers = [*time, cost.insertion, cost.bytes, time / times[0]];
        std::iter::once((*name).to_owned()).chain(numbers.map(|number| format!("{number:.1}"))).collect()
    };
    Panel::Table {
        title: "A key, in order of no kind".to_owned(),
        heading: ["", "lookup, ns", "insertion, ns", "bytes", "lookup, ratio"].map(str::to_owned).into(),
        rows: MAPS.iter().zip(times.iter().zip(costs)).map(row).collect(),
    }
}

fn claim(than: &str, others: impl Iterator<Item = (f64, &'static str)>, kiss: f64) -> Claim {
    let (best, name) = others.min_by(|a, b| a.0.total_cmp(&b.0)).expect("something to compare with");
    let holds = best / kiss >= GOAL;
    let why = if holds {
        "A batch waits for the misses of 64 keys together, three for each; the others wait for one after the other."
    } else {
        "Where all of it is in the caches there is little to wait for, and so little that batches could save."
    };
    Claim {
        what: format!("KISS-tree's batches are as many times as fast as {than}"),
        goal: format!("at least {GOAL}"),
        ours: format!("{:.2} ({name})", best / kiss),
        holds,
        why: why.to_owned(),
        ..Claim::default()
    }
}

/// Bytes of memory this process has.
fn resident() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<i64>().ok()).unwrap_or(0) << 10
}
