//! What the thesis measures with: keys, trees, queries and scans (§4.2).

use std::hint::black_box;
use std::time::Instant;

use fpbtree_lab::compare::{BinaryBy, Words};
use fpbtree_lab::figure::{Axis, Panel, Run, Series, median};
use fpbtree_lab::memory::latency::Latency;
use fpbtree_lab::memory::pb::PbTree;
use fpbtree_lab::memory::pb::hint::Hint;
use fpbtree_lab::memory::pb::jump::Internal;
use fpbtree_lab::memory::pb::node::Key;
use fpbtree_lab::memory::pb::policy::{Linear, Policy};
use fpbtree_lab::search::SearchOf;
use rand::distr::{Distribution, StandardUniform};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// How many leaves ahead scans prefetch, where a figure does not vary it.
pub const DISTANCE: usize = 4;
/// Scans for a sample, as many as in the thesis.
const SCANS: usize = 10;
/// Memory for which a full miss is waited: far more than any cache.
const WAITED_FOR: usize = 1 << 28;

/// A tree of keys `K` with nodes of `W` lines, whose use is yet to be chosen.
pub type Tree<const W: usize, K> = PbTree<W, (), Linear, (), Internal, K>;

/// A way to use a tree: it is given back with the nanoseconds of a query, or of an entry of a scan.
pub type Use<const W: usize, K> = fn(Tree<W, K>, &Work<K>) -> (Tree<W, K>, f64);

/// Keys, and which of them are asked for.
pub struct Work<K> {
    /// In order, with numbers for tuple ids.
    pub pairs: Vec<(K, u32)>,
    /// Some of them, at random.
    pub sought: Vec<K>,
}

impl<K: Key> Work<K>
where
    StandardUniform: Distribution<K>,
{
    /// As many random keys, and as many queries.
    pub fn new(keys: usize, queries: usize) -> Self {
        let mut random = SmallRng::seed_from_u64(2006);
        let mut keys: Vec<K> = (0..keys).map(|_| random.random()).collect();
        keys.sort_unstable();
        keys.dedup();
        let sought = (0..queries).map(|_| keys[random.random_range(0..keys.len())]).collect();
        let pairs = keys.into_iter().zip(0..).collect();
        Work { pairs, sought }
    }

    /// The numbers of keys and queries for a mode, unless they are given.
    pub fn of_mode(run: &Run) -> Self {
        Work::new(run.number("keys", 2_000_000, 10_000_000), run.number("queries", 200_000, 300_000))
    }
}

/// Queries, each of which begins when the last one has ended.
pub fn queries<const W: usize, K: Key, S: SearchOf<K>, P: Policy, H: Hint>(
    tree: Tree<W, K>,
    work: &Work<K>,
) -> (Tree<W, K>, f64) {
    let tree = tree.with::<S, P, H>();
    let (zero, mut waited) = (black_box(0), 0);
    let start = Instant::now();
    for at in 0..work.sought.len() {
        let id = tree.search(work.sought[at + waited]).expect("a key that is there");
        waited = (id & zero) as usize;
    }
    let time = start.elapsed().as_nanos() as f64 / work.sought.len() as f64;
    (tree.with(), time)
}

/// Scans of all keys, which prefetch `D` leaves ahead.
pub fn scan<const W: usize, K: Key + AsRef<[u8]>, const D: usize, P: Policy, H: Hint>(
    tree: Tree<W, K>,
    work: &Work<K>,
) -> (Tree<W, K>, f64)
where
    BinaryBy<Words>: SearchOf<K>,
{
    let mut tree = tree.with::<BinaryBy<Words>, P, H>();
    tree.set_distance(D);
    let (first, last) = (work.pairs[0].0, work.pairs[work.pairs.len() - 1].0);
    let (mut found, mut sum) = (0, 0);
    let start = Instant::now();
    for _ in 0..SCANS {
        tree.scan(black_box(first), last, |key, id| {
            found += 1;
            sum += u64::from(id) ^ u64::from(key.as_ref()[0]);
        });
    }
    let time = start.elapsed().as_nanos() as f64 / found as f64;
    black_box(sum);
    assert_eq!(found, SCANS * work.pairs.len());
    (tree.with(), time)
}

/// The medians of several ways to use a tree, which take turns. A first turn does not count.
pub fn medians<const W: usize, K, const V: usize>(
    run: &Run,
    mut tree: Tree<W, K>,
    work: &Work<K>,
    uses: [Use<W, K>; V],
) -> [f64; V] {
    let mut samples = [const { Vec::new() }; V];
    for round in 0..=rounds(run) {
        for (samples, using) in samples.iter_mut().zip(uses) {
            let time;
            (tree, time) = using(tree, work);
            if round > 0 {
                samples.push(time);
            }
        }
    }
    samples.map(median)
}

/// What is measured at every width that a mode has; which part that is of so many.
pub fn at_widths<M: Copy, T>(
    run: &mut Run,
    (part, parts): (usize, usize),
    widths: &[(usize, M)],
    mut measure: impl FnMut(&Run, M) -> T,
) -> Vec<(usize, T)> {
    let chosen: Vec<_> = widths.iter().filter(|(width, _)| run.full() || width.is_power_of_two()).collect();
    let mut measured = Vec::new();
    for (number, (width, of_width)) in chosen.iter().enumerate() {
        run.done((part as f64 + (number + 1) as f64 / (chosen.len() + 1) as f64) / parts as f64);
        measured.push((*width, measure(run, *of_width)));
    }
    measured
}

/// A function that is generic in the width (and in keys), for each of the thesis' node widths: 4 to 32 lines.
macro_rules! widths {
    ($measure:ident $(, $key:ident)?) => {
        workload::widths!(4 8 12 16 20 24 28 32: $measure $($key)?)
    };
    ($($width:literal)*: $measure:ident) => {
        [$(($width, $measure::<$width> as Measure)),*]
    };
    ($($width:literal)*: $measure:ident $key:ident) => {
        [$(($width, $measure::<$width, $key> as Measure<$key>)),*]
    };
}
pub(super) use widths;

/// Turns that count.
pub fn rounds(run: &Run) -> usize {
    if run.full() { 5 } else { 3 }
}

/// T1 and Tnext of this machine.
pub fn latency() -> Latency {
    Latency::measure(WAITED_FOR)
}

/// A chart of times over node widths: for every width, a time for each name.
pub fn over_widths<const V: usize>(title: &str, y: &str, names: [&str; V], times: &[(usize, [f64; V])]) -> Panel {
    let series = names.iter().enumerate().map(|(at, name)| Series {
        name: (*name).to_owned(),
        points: times.iter().map(|(width, times)| (*width as f64, times[at])).collect(),
    });
    Panel::Chart {
        title: title.to_owned(),
        x: Axis::linear("lines of 64 bytes in a node"),
        y: Axis::linear(y),
        series: series.collect(),
    }
}

/// By how much more time one takes than another, of every width.
pub fn excess<const V: usize>(times: &[(usize, [f64; V])], slow: usize, fast: usize) -> Vec<f64> {
    times.iter().map(|(_, times)| times[slow] / times[fast] - 1.0).collect()
}

pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The median.
pub fn typical(values: &[f64]) -> f64 {
    median(values.to_vec())
}

pub fn most(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

/// In hundredths, with a sign.
pub fn percent(part: f64) -> String {
    format!("{:+.1} %", part * 100.0)
}
