//! Searches in trees whose pages are all in the pool: Figures 10, 11 and 12 (SIGMOD 2002, §4.2.1).

use fpbtree_engine::format::PAGE_SIZE;
use fpbtree_lab::disk::cache_first::{CacheFirst, LINE, optimal_width};
use fpbtree_lab::disk::first::DiskFirst;
use fpbtree_lab::figure::{Axis, Figure, Outcome, Panel, Run};
use fpbtree_lab::index::Pair;
use fpbtree_lab::search::Counting;

use super::curves::{Curves, FILL, PAGE, PAIRS, SPEED, counts, fills, kilobytes, medians, speeds};
use super::trees::{Batches, Loaded, kinds, load, nanoseconds, pairs, pool, random, some_of};
use super::{claims, sizes, widths};

/// Page sizes of Figures 11 and 12: the paper's, and the one that the engine's pages have in PostgreSQL.
const SIZES: [usize; 2] = [8192, 16384];
const TIME: &str = "ns a search";
/// Chart of Figure 10 that the claims are about.
pub const SPEEDS: &str = "Searches compared to disk-optimised pages, 100 % full, most keys";

pub const FIGURE_10: Figure = Figure {
    name: "fpb-figure10",
    title: "Searches in full pages, by number of keys and page size",
    source: "Chen et al., SIGMOD 2002, Figure 10",
    seconds: (8, 60),
    run: |run| {
        let panels = sizes::measure(run, "fpb-figure10", &sizes::ALL, by_count);
        Outcome { claims: claims::search(&panels), panels }
    },
};

pub const FIGURE_11: Figure = Figure {
    name: "fpb-figure11",
    title: "Searches with nodes of different widths",
    source: "Chen et al., SIGMOD 2002, Figure 11",
    seconds: (8, 60),
    run: |run| {
        let panels = sizes::measure(run, "fpb-figure11", &SIZES, by_width);
        Outcome { claims: Vec::new(), panels }
    },
};

pub const FIGURE_12: Figure = Figure {
    name: "fpb-figure12",
    title: "Searches by how full pages are loaded",
    source: "Chen et al., SIGMOD 2002, Figure 12",
    seconds: (5, 30),
    run: |run| {
        let panels = sizes::measure(run, "fpb-figure12", &SIZES, by_fill);
        Outcome { claims: Vec::new(), panels }
    },
};

fn by_count(run: &mut Run, page_size: usize) -> Vec<Panel> {
    let kinds = kinds(page_size);
    let (mut times, mut ahead) = (Curves::new(&kinds), Curves::new(&kinds));
    let counts = counts(run);
    for (place, &count) in counts.iter().enumerate() {
        let pairs = pairs(count);
        let mut trees: Vec<_> = kinds.iter().map(|kind| load(*kind, page_size, 100, &pairs, count)).collect();
        let measured = searches(run, &mut trees, &pairs);
        times.add(count as f64, measured.iter().copied());
        if place + 1 == counts.len() {
            ahead.add(kilobytes(page_size), speeds(&measured));
        }
        run.done((place + 1) as f64 / counts.len() as f64);
    }
    let title = format!("Searches, pages of {} KB, 100 % full", kilobytes(page_size));
    vec![
        times.chart(title, Axis::log(PAIRS), Axis::linear(TIME)),
        ahead.chart(SPEEDS, Axis::log(PAGE), Axis::linear(SPEED)),
    ]
}

fn by_fill(run: &mut Run, page_size: usize) -> Vec<Panel> {
    let kinds = kinds(page_size);
    let (mut times, mut ahead) = (Curves::new(&kinds), Curves::new(&kinds));
    let pairs = pairs(run.number("pairs", 1_000_000, 3_000_000));
    let fills = fills(run);
    for (place, &fill) in fills.iter().enumerate() {
        let mut trees: Vec<_> = kinds.iter().map(|kind| load(*kind, page_size, fill, &pairs, pairs.len())).collect();
        let measured = searches(run, &mut trees, &pairs);
        times.add(fill as f64, measured.iter().copied());
        ahead.add(fill as f64, speeds(&measured));
        run.done((place + 1) as f64 / fills.len() as f64);
    }
    let titled = |what: &str| format!("{what}, pages of {} KB", kilobytes(page_size));
    vec![
        times.chart(titled("Searches by fill"), Axis::linear(FILL), Axis::linear(TIME)),
        ahead.chart(
            titled("Searches by fill, compared to disk-optimised pages"),
            Axis::linear(FILL),
            Axis::linear(SPEED),
        ),
    ]
}

/// Nanoseconds of a search in each tree.
fn searches(run: &Run, trees: &mut [Loaded], pairs: &[Pair]) -> Vec<f64> {
    let sought = some_of(pairs, run.number("searches", 100_000, 300_000), &mut random());
    medians(run, trees.len(), |tree| nanoseconds(sought.len(), || trees[tree].search_all(&sought)))
}

/// Trees of one kind, and the name of their curve.
type Named = (String, Loaded);

fn by_width(run: &mut Run, page_size: usize) -> Vec<Panel> {
    let counts = counts(run);
    let parts = if page_size == PAGE_SIZE { 2 } else { 1 } * counts.len();
    let mut done = 0;
    let mut panels = Vec::new();
    for (what, load) in [("Disk-first", disk_first as fn(usize, &[Pair]) -> Vec<Named>), ("Cache-first", cache_first)] {
        let mut curves: Option<Curves> = None;
        for &count in &counts {
            let pairs = pairs(count);
            let (names, mut trees): (Vec<_>, Vec<_>) = load(page_size, &pairs).into_iter().unzip();
            if names.is_empty() {
                break;
            }
            let measured = searches(run, &mut trees, &pairs);
            curves.get_or_insert_with(|| Curves::named(names)).add(count as f64, measured);
            done += 1;
            run.done(done as f64 / parts as f64);
        }
        let title = format!("{what}, pages of {} KB, nodes of different widths", kilobytes(page_size));
        panels.extend(curves.map(|curves| curves.chart(title, Axis::log(PAIRS), Axis::linear(TIME))));
    }
    panels
}

/// The disk-first tree with nonleaf nodes of 64 to 512 bytes, and leaf nodes with which most entries fit into a page;
/// the engine's choice first.
fn disk_first(page_size: usize, pairs: &[Pair]) -> Vec<Named> {
    if page_size != PAGE_SIZE {
        return Vec::new();
    }
    let chosen = widths::engine();
    let others = (1..=8).filter(|nonleaf| *nonleaf != chosen.nonleaf).filter_map(widths::roomiest);
    let named = [chosen].into_iter().chain(others).filter_map(|widths| {
        let pool = pool(page_size, 60, pairs.len(), pairs.len());
        let tree = DiskFirst::load_widths([widths.nonleaf as u8, widths.leaf as u8], pool, pairs, 100)?;
        let mark = if widths == chosen { ", chosen" } else { "" };
        let name = format!("nonleaf {} B, leaf {} B{mark}", widths.nonleaf * LINE, widths.leaf * LINE);
        Some((name, Box::new(tree) as Box<dyn Batches>))
    });
    named.collect()
}

/// The cache-first tree with nodes of 128 to 1024 bytes, the chosen width first.
fn cache_first(page_size: usize, pairs: &[Pair]) -> Vec<Named> {
    let chosen = optimal_width(page_size, super::trees::PAPER.0, super::trees::PAPER.1).lines;
    let others = [2, 4, 8, 11, 16].into_iter().filter(|lines| *lines != chosen);
    let named = [chosen].into_iter().chain(others).map(|lines| {
        let pool = pool(page_size, 60, pairs.len(), pairs.len());
        let mark = if lines == chosen { ", chosen" } else { "" };
        let tree = CacheFirst::<Counting>::load(pairs, 1.0, pool, lines);
        (format!("nodes of {} B{mark}", lines * LINE), Box::new(tree) as Box<dyn Batches>)
    });
    named.collect()
}
