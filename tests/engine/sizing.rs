//! How many pages a tree takes, told from its entries: from all of them, and from runs.

use std::collections::BTreeSet;
use std::mem::MaybeUninit;

use crate::common::bytes::{self, Row, Taste};
use crate::common::*;
use fpbtree_engine::format::{Key, Lane};
use fpbtree_engine::page::Page;
use fpbtree_engine::tree::sizing::Sizing;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const FILL: usize = 90;

/// Runs of rows, all there are if there is one.
fn sizing<M: KeyMaker>(taste: &M, runs: &[&[M::Row]]) -> Box<Sizing<M::Keys>> {
    let (geometry, order) = (taste.meta().geometry, taste.order());
    let mut memory = Box::new(MaybeUninit::<Sizing<M::Keys>>::uninit());
    Sizing::init(&mut memory, FILL);
    // SAFETY: just initialised.
    let mut sizing = unsafe { memory.assume_init() };
    let is_whole = runs.len() == 1;
    for run in runs {
        sizing.begin(is_whole);
        run.iter().for_each(|row| sizing.add(&geometry, order, &M::entry(row)));
        sizing.end(&geometry, order, is_whole);
    }
    sizing
}

/// Compares what is told with what a load makes.
fn foretells<M: KeyMaker>(taste: &M, rows: &[M::Row]) {
    let pages = load_rows(taste, FILL, rows.iter());
    let geometry = taste.meta().geometry;
    let is_leaf = |page| Page::<M::Keys>::open(page, &geometry, 0).expect("a page").level() == 0;
    let leaves = pages[1..].iter().filter(|page| is_leaf(page)).count();
    let of_all = sizing(taste, &[rows]);
    assert_eq!(of_all.leaf_pages(), if rows.is_empty() { 0.0 } else { leaves as f64 });
    let guessed = of_all.tree_pages(&geometry, leaves as u64);
    let inner = pages.len() - leaves;
    assert!(guessed.abs_diff(pages.len() as u64) as usize <= inner / 3, "{guessed} pages instead of {}", pages.len());
    if leaves < 100 {
        return;
    }
    let length = rows.len() / 40;
    let runs: Vec<_> = rows.chunks(rows.len() / 12).map(|part| &part[..length.min(part.len())]).collect();
    let entries: usize = runs.iter().map(|run| run.len()).sum();
    let leaves_told = sizing(taste, &runs).leaf_pages() * rows.len() as f64 / entries as f64;
    let ratio = leaves_told / leaves as f64;
    assert!((0.9..1.1).contains(&ratio), "{leaves_told} leaves instead of {leaves}");
}

fn lanes<L: Lane>() {
    let taste = Lanes::of(exact(one_column::<L>(), normal::<L>()));
    let mut random = StdRng::seed_from_u64(19);
    for repeats in [1, 10, 300] {
        for count in [0, 1, 2000, 200_000] {
            let in_order: Vec<Key<L>> =
                (0..count).map(|row| key(row as u128 / repeats, row)).map(|(lane, tid)| Key::new(lane, tid)).collect();
            foretells(&taste, &in_order);
            let any = |row: u64| {
                let lane = random.random_range(0..count.max(1)) as u128 / repeats * 0x9E37;
                let (lane, tid) = key(lane, row);
                Key::new(lane, tid)
            };
            foretells(&taste, &Vec::from_iter((0..count).map(any).collect::<BTreeSet<_>>()));
        }
    }
}

#[test]
fn lanes_of_u32() {
    lanes::<u32>();
}

#[test]
fn lanes_of_u64() {
    lanes::<u64>();
}

#[test]
fn lanes_of_u128() {
    lanes::<u128>();
}

#[test]
fn byte_strings() {
    let mut random = StdRng::seed_from_u64(23);
    for round in 0..20 {
        let taste = Taste::random(&mut random, 100);
        let taste = taste.clone().on(bytes::normal(taste.shape.has_payload()));
        let count = [500, 40_000][round % 2];
        let rows: BTreeSet<Row> = (0..count).map(|row| taste.random_row(&mut random, row)).collect();
        foretells(&taste, &Vec::from_iter(rows));
    }
}

/// Entries that are not in order, as in a damaged index, are counted and nothing else.
#[test]
fn disorder() {
    let taste = Lanes::of(exact(one_column::<u64>(), normal::<u64>()));
    let rows: Vec<Key<u64>> =
        (0..50_000).map(|row| key(row ^ 1, row as u64)).map(|(lane, tid)| Key::new(lane, tid)).collect();
    let leaves = sizing(&taste, &[&rows]).leaf_pages();
    let sorted: Vec<Key<u64>> = BTreeSet::from_iter(rows).into_iter().collect();
    let expected = sizing(&taste, &[&sorted]).leaf_pages();
    assert!((0.8..1.25).contains(&(leaves / expected)), "{leaves} leaves instead of {expected}");
}
