//! Insertions and deletions: Figures 13 and 14 (SIGMOD 2002, §4.2.2 and §4.2.3).

use fpbtree_lab::figure::{Axis, Figure, Outcome, Panel, Run};
use fpbtree_lab::index::Pair;
use rand::seq::SliceRandom;

use super::curves::{Curves, FILL, PAGE, PAIRS, SPEED, counts, fills, kilobytes, medians, rounds, speeds};
use super::trees::{Kind, Loaded, any_keys, kinds, load, nanoseconds, pairs, random};
use super::{claims, sizes};

/// The page size at which the paper varies the fill and the number of keys.
const PAPERS: usize = 16384;
/// The one that the engine's pages have in PostgreSQL.
const OURS: usize = 8192;
/// How full the pages of a tree are that insertions have made.
const MATURE: usize = 70;

/// Charts that the claims are about.
pub const MATURE_SPEEDS: &str = "Insertions compared to disk-optimised pages, 70 % full";
pub const FULL_SPEEDS: &str = "Insertions compared to disk-optimised pages, 100 % full";
pub const DELETION_SPEEDS: &str = "Deletions compared to disk-optimised pages, 100 % full";

pub const FIGURE_13: Figure = Figure {
    name: "fpb-figure13",
    title: "Insertions, by fill, number of keys and page size",
    source: "Chen et al., SIGMOD 2002, Figure 13",
    seconds: (10, 80),
    run: |run| {
        let panels = sizes::measure(run, "fpb-figure13", &sizes::ALL, insertions);
        Outcome { claims: claims::insertion(&panels), panels }
    },
};

pub const FIGURE_14: Figure = Figure {
    name: "fpb-figure14",
    title: "Deletions, by fill and page size",
    source: "Chen et al., SIGMOD 2002, Figure 14",
    seconds: (8, 40),
    run: |run| {
        let panels = sizes::measure(run, "fpb-figure14", &sizes::ALL, deletions);
        Outcome { claims: claims::deletion(&panels), panels }
    },
};

fn insertions(run: &mut Run, page_size: usize) -> Vec<Panel> {
    let pairs = all_pairs(run);
    let mut panels = Vec::new();
    let varied = [PAPERS, OURS].contains(&page_size);
    if varied {
        panels.push(insertions_by_fill(run, page_size, &pairs));
        run.done(0.3);
        panels.push(insertions_by_count(run, page_size));
        run.done(0.6);
    }
    for (fill, title) in [(100, FULL_SPEEDS), (MATURE, MATURE_SPEEDS)] {
        let times = insert(run, page_size, fill, &pairs);
        panels.extend(of_page_size(page_size, &times, title, &format!("Insertions, {fill} % full")));
        run.done(if fill == MATURE { 1.0 } else { 0.8 });
    }
    panels
}

fn insertions_by_fill(run: &mut Run, page_size: usize, pairs: &[Pair]) -> Panel {
    let mut curves = Curves::new(&kinds(page_size));
    for fill in fills(run) {
        curves.add(fill as f64, insert(run, page_size, fill, pairs));
    }
    let title = format!("Insertions by fill, pages of {} KB", kilobytes(page_size));
    curves.chart(title, Axis::linear(FILL), Axis::log("ns an insertion"))
}

fn insertions_by_count(run: &mut Run, page_size: usize) -> Panel {
    let mut curves = Curves::new(&kinds(page_size));
    for count in counts(run) {
        curves.add(count as f64, insert(run, page_size, 100, &pairs(count)));
    }
    let title = format!("Insertions by number of keys, pages of {} KB, 100 % full", kilobytes(page_size));
    curves.chart(title, Axis::log(PAIRS), Axis::log("ns an insertion"))
}

fn deletions(run: &mut Run, page_size: usize) -> Vec<Panel> {
    let pairs = all_pairs(run);
    let mut panels = Vec::new();
    if [PAPERS, OURS].contains(&page_size) {
        let mut curves = Curves::new(&kinds(page_size));
        for fill in fills(run) {
            curves.add(fill as f64, remove(run, page_size, fill, &pairs));
        }
        let title = format!("Deletions by fill, pages of {} KB", kilobytes(page_size));
        panels.push(curves.chart(title, Axis::linear(FILL), Axis::log("ns a deletion")));
        run.done(0.7);
    }
    let times = remove(run, page_size, 100, &pairs);
    panels.extend(of_page_size(page_size, &times, DELETION_SPEEDS, "Deletions, 100 % full"));
    panels
}

/// The points of a page size: times, and how they compare to the disk-optimised pages'.
fn of_page_size(page_size: usize, times: &[f64], speeds_title: &str, times_title: &str) -> [Panel; 2] {
    let kinds = kinds(page_size);
    let (mut taken, mut ahead) = (Curves::new(&kinds), Curves::new(&kinds));
    taken.add(kilobytes(page_size), times.iter().copied());
    ahead.add(kilobytes(page_size), speeds(times));
    let (x, y) = (|| Axis::log(PAGE), Axis::log("ns"));
    [taken.chart(times_title, x(), y), ahead.chart(speeds_title, x(), Axis::log(SPEED))]
}

fn all_pairs(run: &Run) -> Vec<Pair> {
    pairs(run.number("pairs", 3_000_000, 10_000_000))
}

/// Operations of a round: the paper's number.
fn operations(run: &Run) -> usize {
    run.number("operations", 2000, 2000)
}

/// Nanoseconds of an insertion of a random key into each kind of tree. Full trees are loaded anew for every round,
/// because the first insertions into a page are unlike the later ones.
fn insert(run: &Run, page_size: usize, fill: usize, pairs: &[Pair]) -> Vec<f64> {
    let (kinds, mut random, many) = (kinds(page_size), random(), operations(run));
    let most = pairs.len() + (rounds(run) + 1) * many;
    let new = |kind: Kind| load(kind, page_size, fill, pairs, most);
    let mut trees: Vec<Loaded> = if fill < 100 { kinds.iter().map(|kind| new(*kind)).collect() } else { Vec::new() };
    medians(run, kinds.len(), |at| {
        let keys = any_keys(many, &mut random);
        match trees.get_mut(at) {
            Some(tree) => nanoseconds(many, || tree.insert_all(&keys)),
            None => {
                let mut tree = new(kinds[at]);
                nanoseconds(many, || tree.insert_all(&keys))
            }
        }
    })
}

/// Nanoseconds of a deletion of a random key from each kind of tree.
fn remove(run: &Run, page_size: usize, fill: usize, pairs: &[Pair]) -> Vec<f64> {
    let (kinds, many) = (kinds(page_size), operations(run));
    let mut trees: Vec<Loaded> = kinds.iter().map(|kind| load(*kind, page_size, fill, pairs, pairs.len())).collect();
    let mut keys: Vec<u32> = pairs.iter().map(|pair| pair.0).collect();
    let (keys, _) = keys.partial_shuffle(&mut random(), (rounds(run) + 1) * many);
    let mut left: Vec<_> = kinds.iter().map(|_| keys.chunks(many)).collect();
    medians(run, kinds.len(), |at| {
        let keys = left[at].next().expect("keys for every round");
        nanoseconds(many, || trees[at].remove_all(keys))
    })
}
