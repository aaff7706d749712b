//! How many pages there are and are read: Figures 16, 17 and 18 (SIGMOD 2002, §4.3). Reads are counted by the pool,
//! which is empty at first.

use fpbtree_lab::figure::{Axis, Figure, Outcome, Panel, Run};
use fpbtree_lab::index::Pair;
use rand::Rng;
use rand::seq::SliceRandom;

use super::curves::{Curves, PAGE, kilobytes};
use super::trees::{Kind, Loaded, kinds, load, load_wide, pairs, random, some_of};
use super::{claims, sizes};

/// The curve of disk-optimised pages whose entries are as large as the engine's, to which all are compared here.
pub const WIDE: &str = "disk-optimised, entries of 10 bytes";
/// How trees became: charts' titles.
pub const BULKLOADED: &str = "loaded 100 % full";
pub const GROWN: &str = "a tenth loaded, the rest inserted";
pub const RANGE_WAITS: &str = "Reads that wait for one another in a range scan";

/// The chart of pages of trees that became as `how` says.
pub fn space_title(how: &str) -> String {
    format!("Pages, {how}")
}

/// The chart of page reads of searches in trees that became as `how` says.
pub fn reads_title(how: &str) -> String {
    format!("Page reads of searches, {how}")
}

pub const FIGURE_16: Figure = Figure {
    name: "fpb-figure16",
    title: "Pages, and page reads of searches",
    source: "Chen et al., SIGMOD 2002, Figures 16 and 17",
    seconds: (10, 120),
    run: |run| {
        let panels = sizes::measure(run, "fpb-figure16", &sizes::ALL, space_and_reads);
        Outcome { claims: claims::pages(&panels), panels }
    },
};

pub const FIGURE_18: Figure = Figure {
    name: "fpb-figure18",
    title: "Page reads of range scans in mature trees",
    source: "Chen et al., SIGMOD 2002, Figure 18",
    seconds: (6, 40),
    run: |run| {
        let panels = sizes::measure(run, "fpb-figure18", &SIZES, range_reads);
        Outcome { claims: claims::range_reads(&panels), panels }
    },
};

/// Page sizes of Figure 18: the paper's, and the one that the engine's pages have in PostgreSQL.
const SIZES: [usize; 2] = [8192, 16384];

/// Pages of a tree, and those read by searches.
#[derive(Clone, Copy)]
struct Counted {
    pages: f64,
    reads: f64,
}

fn space_and_reads(run: &mut Run, page_size: usize) -> Vec<Panel> {
    let pairs = pairs(run.number("pairs", 1_000_000, 10_000_000));
    let mut panels = Vec::new();
    for (how, loaded, from) in [(BULKLOADED, pairs.len(), 0.0), (GROWN, pairs.len() / 10, 0.15)] {
        let (mut names, mut counted) = (Vec::new(), Vec::new());
        let (begin, rest) = parted(&pairs, loaded);
        let kinds = kinds(page_size);
        for (place, kind) in [None].into_iter().chain(kinds.iter().copied().map(Some)).enumerate() {
            let mut tree = match kind {
                Some(kind) => load(kind, page_size, 100, &begin, pairs.len()),
                None => load_wide(page_size, &begin, pairs.len()),
            };
            insert(run, &mut tree, &rest, |part| from + 0.85 * (place as f64 + part) / (kinds.len() + 1) as f64);
            names.push(kind.map_or(WIDE, Kind::name));
            counted.push(count(run, &mut tree, &pairs));
        }
        let mut chart = |title: String, y: &str, number: fn(&Counted) -> f64| {
            let mut curves = Curves::named(names.iter().copied());
            curves.add(kilobytes(page_size), counted.iter().map(|one| number(one) / number(&counted[0])));
            panels.push(curves.chart(title, Axis::log(PAGE), Axis::linear(y)));
        };
        chart(space_title(how), "times as many as disk-optimised", |one| one.pages);
        chart(reads_title(how), "times as many as disk-optimised", |one| one.reads);
    }
    panels
}

/// So many of the pairs, at random but sorted, to be loaded; and the keys of the others, to be inserted.
fn parted(pairs: &[Pair], loaded: usize) -> (Vec<Pair>, Vec<u32>) {
    if loaded == pairs.len() {
        return (pairs.to_vec(), Vec::new());
    }
    let mut shuffled = pairs.to_vec();
    shuffled.shuffle(&mut random());
    let rest = shuffled.split_off(loaded);
    shuffled.sort_unstable();
    (shuffled, rest.into_iter().map(|pair| pair.0).collect())
}

/// Inserts keys, and says how far that has come.
fn insert(run: &mut Run, tree: &mut Loaded, keys: &[u32], part: impl Fn(f64) -> f64) {
    let batch = 500_000;
    for (number, some) in keys.chunks(batch).enumerate() {
        tree.insert_all(some);
        run.done(part(((number + 1) * batch) as f64 / keys.len() as f64).min(1.0));
    }
}

fn count(run: &Run, tree: &mut Loaded, pairs: &[Pair]) -> Counted {
    let sought = some_of(pairs, run.number("searches", 2000, 2000), &mut random());
    let pages = tree.pool().pages() as f64;
    tree.pool().forget();
    tree.search_all(&sought);
    Counted { pages, reads: tree.pool().reads() as f64 }
}

/// Ranges of a hundred pairs up to a tenth of all, or ten million.
fn ranges(count: usize) -> Vec<usize> {
    (2..8).map(|power| 10usize.pow(power)).filter(|range| *range <= count / 10).collect()
}

fn range_reads(run: &mut Run, page_size: usize) -> Vec<Panel> {
    let pairs = pairs(run.number("pairs", 1_000_000, 10_000_000));
    let (begin, rest) = parted(&pairs, pairs.len() / 10 * 9);
    let kinds: Vec<Kind> = kinds(page_size).into_iter().filter(|kind| *kind != Kind::Micro).collect();
    let mut trees = Vec::new();
    for (place, kind) in kinds.iter().enumerate() {
        let mut tree = load(*kind, page_size, 100, &begin, pairs.len());
        insert(run, &mut tree, &rest, |part| 0.7 * (place as f64 + part) / kinds.len() as f64);
        trees.push(tree);
    }
    let (mut all, mut waits) = (Curves::new(&kinds), Curves::new(&kinds));
    let trials = run.number("trials", 5, 10);
    for range in ranges(pairs.len()) {
        let mut random = random();
        let starts: Vec<usize> = (0..trials).map(|_| random.random_range(0..=pairs.len() - range)).collect();
        let counted: Vec<[f64; 2]> = trees
            .iter_mut()
            .zip(&kinds)
            .map(|(tree, kind)| {
                let mut sums = [0.0; 2];
                for &start in &starts {
                    let (reads, waits) = scan_cold(tree, *kind, (pairs[start].0, pairs[start + range - 1].0));
                    sums = [sums[0] + reads as f64, sums[1] + waits as f64];
                }
                sums.map(|sum| sum / trials as f64)
            })
            .collect();
        all.add(range as f64, counted.iter().map(|one| one[0]));
        waits.add(range as f64, counted.iter().map(|one| one[1]));
    }
    run.done(1.0);
    let titled = |what: &str| format!("{what}, pages of {} KB", kilobytes(page_size));
    let x = || Axis::log("keys in the range");
    vec![
        all.chart(titled("Page reads of a range scan"), x(), Axis::log("pages")),
        waits.chart(titled(RANGE_WAITS), x(), Axis::log("pages")),
    ]
}

/// Pages read by a scan that begins with an empty pool, and how many of these can be asked for only when another has
/// been read: all in a disk-optimised tree, where each leaf page tells the next. With a jump-pointer array those that
/// it takes to list the leaf pages, which are asked for all at once then.
fn scan_cold(tree: &mut Loaded, kind: Kind, (first, last): (u32, u32)) -> (u64, u64) {
    tree.pool().forget();
    let waits = (kind != Kind::DiskOptimized).then(|| {
        tree.leaves(first, last);
        tree.pool().reads() + 1
    });
    tree.sum(first, last);
    let reads = tree.pool().reads();
    (reads, waits.map_or(reads, |waits| waits.min(reads)))
}
