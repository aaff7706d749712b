//! Range scans in memory: Figure 15 (SIGMOD 2002, §4.2.4).

use fpbtree_lab::figure::{Axis, Figure, Outcome, Panel, Run};
use fpbtree_lab::index::Pair;
use fpbtree_lab::memory::bandwidth::read_bandwidth;
use rand::Rng;

use super::curves::{Curves, PAGE, SPEED, kilobytes, medians, speeds};
use super::trees::{Kind, Loaded, kinds, load, nanoseconds, pairs, random};
use super::{claims, sizes};

/// Charts that the claims are about, and a curve of the second.
pub const SPEEDS: &str = "Range scans compared to disk-optimised pages, 100 % full";
pub const BANDWIDTH: &str = "Bytes of entries read by range scans, 100 % full";
pub const MEMORY: &str = "a plain sum over an array";

pub const FIGURE_15: Figure = Figure {
    name: "fpb-figure15",
    title: "Range scans in memory",
    source: "Chen et al., SIGMOD 2002, Figure 15",
    seconds: (6, 25),
    run: |run| {
        let panels = sizes::measure(run, "fpb-figure15", &sizes::ALL, scans);
        Outcome { claims: claims::scan(&panels), panels }
    },
};

/// Bytes of an entry: a key and a tuple id of four bytes each, but a row's place of six in the engine.
fn entry_bytes(kind: Kind) -> f64 {
    if kind == Kind::DiskFirst { 10.0 } else { 8.0 }
}

fn scans(run: &mut Run, page_size: usize) -> Vec<Panel> {
    let kinds = kinds(page_size);
    let pairs = pairs(run.number("pairs", 5_000_000, 10_000_000));
    let mut trees: Vec<_> = kinds.iter().map(|kind| load(*kind, page_size, 100, &pairs, pairs.len())).collect();
    run.done(0.3);
    let times = times(run, &mut trees, &pairs);
    run.done(0.9);
    let memory = read_bandwidth(1 << 28, 5);
    let (mut taken, mut ahead) = (Curves::new(&kinds), Curves::new(&kinds));
    taken.add(kilobytes(page_size), times.iter().copied());
    ahead.add(kilobytes(page_size), speeds(&times));
    let mut read = Curves::named(kinds.iter().map(|kind| kind.name()).chain([MEMORY]));
    let speeds = kinds.iter().zip(&times).map(|(kind, time)| entry_bytes(*kind) / time);
    read.add(kilobytes(page_size), speeds.chain([memory]));
    let x = || Axis::log(PAGE);
    vec![
        taken.chart("Range scans, 100 % full", x(), Axis::linear("ns a pair")),
        ahead.chart(SPEEDS, x(), Axis::linear(SPEED)),
        read.chart(BANDWIDTH, x(), Axis::linear("GB/s")),
    ]
}

/// Nanoseconds a pair, in ranges of as many pairs as the paper's that begin anywhere.
fn times(run: &Run, trees: &mut [Loaded], pairs: &[Pair]) -> Vec<f64> {
    let range = run.number("range", 1_000_000, 1_000_000).min(pairs.len());
    let scans = run.number("scans", 10, 20);
    let mut random = random();
    let starts: Vec<usize> = (0..scans).map(|_| random.random_range(0..=pairs.len() - range)).collect();
    medians(run, trees.len(), |tree| {
        nanoseconds(scans * range, || {
            for &start in &starts {
                let (_, count) = trees[tree].sum(pairs[start].0, pairs[start + range - 1].0);
                assert_eq!(count as usize, range);
            }
        })
    })
}
