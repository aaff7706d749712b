//! Bulk load: every size around the places where pages and levels begin.

use std::collections::BTreeSet;

use crate::common::bytes::{self, BytesBed, Row, Taste, Value};
use crate::common::nodes::{Form, Item};
use crate::common::*;
use fpbtree_engine::format::{
    Block, Geometry, Key, Lane, LaneKind, MAX_NODE_ENTRIES, NO_BLOCK, PAGE_SIZE, PageBytes, ROOT, Tid, is_link,
};
use fpbtree_engine::keys::digits::{DigitKind, DigitShape, ValueLength};
use fpbtree_engine::page::{LogKind, Meta, Page};
use fpbtree_engine::store::PageStore;
use fpbtree_engine::store::memory::MemoryStore;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

/// Entries as they are in the nodes of leaves.
fn items<L: Lane>(entries: &[(L, Tid)]) -> Vec<Item> {
    let item = |&(lane, tid): &(L, Tid)| Item { lane: lane.to_u128(), tid, child: NO_BLOCK, cell: 0 };
    entries.iter().map(item).collect()
}

/// Loads entries and checks all there is to check: each leaf but the last has as many as it should.
fn loaded<L: Lane>(geometry: Geometry, entries: &[(L, Tid)], fill: usize) -> Bed<L> {
    let meta = exact(one_column::<L>(), geometry);
    let pages = load(&meta, fill, entries.iter().copied());
    assert_eq!(Meta::read(&pages[0]), Ok(meta));
    let model = entries.iter().map(|&(lane, tid)| Key::new(lane, tid)).collect();
    let bed = Bed::on(meta, MemoryStore::new(&pages, pages.len() + 500), model);
    bed.check();
    assert_eq!(bed.tree().census().unwrap().free_pages, 0);
    let mut leaves = Vec::new();
    for_each_leaf(bed.tree(), |_, page| leaves.push(page.entries()));
    let expected = Form::of(L::KIND, &geometry, 0).pages(&items(entries), fill);
    assert!(leaves == expected || leaves == [0] && expected.is_empty(), "{leaves:?} instead of {expected:?}");
    bed
}

#[test]
fn a_meta_page_keeps_the_log_and_its_number() {
    let meta = |log| Meta { log, ..exact(one_column::<u32>(), normal::<u32>()) };
    let own = |manager| LogKind::Own { manager };
    for log in [LogKind::Generic, own(128), own(255)] {
        assert_eq!(Meta::read(&meta(log).page()), Ok(meta(log)));
    }
    let changed = |log, number| {
        let mut page = meta(log).page();
        page[79] = number;
        Meta::read(&page).ok()
    };
    assert_eq!(changed(own(200), 0), Some(meta(own(128))), "from before the number was kept");
    assert_eq!(changed(own(128), 127), None, "the server's own");
    assert_eq!(changed(LogKind::Generic, 128), None);
}

/// Loads `count` entries, `repeats` to a lane.
fn loads<L: Lane>(geometry: Geometry, count: usize, repeats: u128, fill: usize) -> Bed<L> {
    let entries: Vec<(L, Tid)> = (0..count).map(|at| key(at as u128 / repeats, at as u64)).collect();
    loaded(geometry, &entries, fill)
}

/// How many rows are before each page of each level, from the leaves up.
fn starts<L: Lane>(bed: &Bed<L>) -> Vec<Vec<usize>> {
    let mut levels: Vec<Vec<usize>> = Vec::new();
    let pages: Vec<PageBytes> = (0..bed.store.block_count()).map(|block| bed.store.copy(block)).collect();
    let open = |block: Block| Page::<L>::open(&pages[block as usize], &bed.meta.geometry, block).unwrap();
    for level in 0..=open(ROOT).level() {
        let of_level =
            (ROOT..).take(pages.len() - 1).find(|&block| open(block).level() == level && open(block).left() == 0);
        let (mut block, mut starts, mut before) = (of_level.unwrap(), Vec::new(), 0);
        loop {
            let below = levels.last();
            starts.push(below.map_or(before, |below| below[before]));
            before += open(block).entries();
            if !is_link(open(block).right()) {
                break;
            }
            block = open(block).right();
        }
        levels.push(starts);
    }
    levels
}

/// The sizes at which pages and levels begin, and two to either side. `entry` is the entry of a number, and `most` are
/// loaded at most.
fn around_boundaries<L: Lane>(entry: impl Fn(u64) -> (L, Tid), most: u64, levels: usize) {
    let geometry = small::<L>();
    let all: Vec<(L, Tid)> = (0..most).map(entry).collect();
    let starts = starts(&loaded(geometry, &all, 100));
    let leaves = &starts[0];
    let mut sizes = BTreeSet::from_iter(0..leaves[3]);
    assert!(starts.len() >= levels && starts[levels - 2].len() > 1, "{} levels", starts.len());
    let above = starts[1..].iter().flat_map(|starts| starts.iter().skip(1).take(2));
    sizes.extend(above.flat_map(|&start| start - 2..start + 3));
    for size in sizes {
        loaded(geometry, &all[..size.min(all.len())], 100);
    }
}

/// Entries near each other, some with the same lane or none, and entries as large as they can be: of these a dozen fill
/// a page, so that there are many levels.
fn around_all_boundaries<L: Lane>() {
    around_boundaries::<L>(|row| key(row.into(), row), 9000, 3);
    around_boundaries::<L>(|row| key(u128::from(row) / 7, row), 9000, 3);
    around_boundaries::<L>(|row| far_key(row, 20_000), 20_000, 4);
}

/// Loads entries in parts that begin at the places given, the last part first, and checks all there is to check.
fn loads_in_parts<L: Lane>(geometry: Geometry, entries: &[(L, Tid)], places: &[Key<L>], fill: usize) {
    let meta = exact(one_column::<L>(), geometry);
    let rows: Vec<Key<L>> = entries.iter().map(|&(lane, tid)| Key::new(lane, tid)).collect();
    let pages = load_in_parts(&Lanes::of(meta), fill, &rows, places);
    let mut bed = Bed::on(meta, MemoryStore::new(&pages, pages.len() + 500), BTreeSet::from_iter(rows));
    bed.check();
    bed.vacuum(|tid| tid.block().is_multiple_of(3));
    bed.check();
}

fn in_parts<L: Lane>() {
    let mut random = StdRng::seed_from_u64(11);
    for round in 0..60 {
        let geometry = [small::<L>(), normal::<L>()][round % 2];
        let repeats = [1, 5, 300][round % 3];
        let count = random.random_range(1..6000);
        let entries: Vec<_> = (0..count).map(|at| key::<L>(at as u128 / repeats, at as u64)).collect();
        // Places at entries, before lanes, and one that leaves a part empty.
        let mut places: Vec<_> = (0..random.random_range(1..6))
            .map(|_| {
                let (lane, tid) = entries[random.random_range(0..count)];
                Key::new(lane, if random.random_bool(0.5) { Tid::MIN } else { tid })
            })
            .collect();
        places.push(Key::new(L::from_u128(1 << 20), Tid::MIN));
        places.sort();
        places.dedup();
        places.retain(|place| *place > Key::MIN);
        loads_in_parts(geometry, &entries, &places, [50, 90, 100][round / 20]);
    }
}

#[test]
fn in_parts_of_u32() {
    in_parts::<u32>();
}

#[test]
fn in_parts_of_u128() {
    in_parts::<u128>();
}

#[test]
fn around_boundaries_of_u32() {
    around_all_boundaries::<u32>();
}

#[test]
fn around_boundaries_of_u64() {
    around_all_boundaries::<u64>();
}

#[test]
fn around_boundaries_of_u128() {
    around_all_boundaries::<u128>();
}

fn random_sizes<L: Lane>() {
    let mut random = StdRng::seed_from_u64(7);
    for fill in [10, 50, 90, 100] {
        for geometry in [small::<L>(), normal::<L>()] {
            let count = random.random_range(1000..5000);
            let repeats =
                [random.random_range(1..4), random.random_range(1..1000)][usize::from(random.random_bool(0.5))];
            let mut bed = loads::<L>(geometry, count, repeats, fill);
            for _ in 0..1000 {
                bed.insert(some_key(&mut random, 1 << 20));
            }
            bed.vacuum(|tid| tid.block().is_multiple_of(2));
            bed.check();
        }
    }
}

#[test]
fn random_sizes_of_u32() {
    random_sizes::<u32>();
}

#[test]
fn random_sizes_of_u64() {
    random_sizes::<u64>();
}

#[test]
fn random_sizes_of_u128() {
    random_sizes::<u128>();
}

/// Bytes that an entry takes at least that is nothing but a TID of two bytes in its node, in leaves filled to so many
/// percent.
fn bytes_of_tids(kind: LaneKind, geometry: &Geometry, fill: usize) -> f64 {
    let form = Form::of(kind, geometry, 0);
    let in_node = (form.room() * fill / 100 / 2).min(MAX_NODE_ENTRIES);
    PAGE_SIZE as f64 / (form.most_nodes * in_node) as f64
}

/// Rows that share a few lanes take little more than their TIDs, whatever the fill factor, and stay so.
#[test]
#[cfg_attr(
    any(feature = "page-4k", feature = "page-16k", feature = "page-32k"),
    ignore = "says how large pages of 8 KB are"
)]
fn rows_that_share_heads_are_small() {
    for (size, fill) in [(3000, 90), (700, 50), (150, 90)] {
        let mut bed = loads::<u32>(normal::<u32>(), 300_000, size, fill);
        let least = bytes_of_tids(LaneKind::U32, &bed.meta.geometry, fill);
        let bytes = |bed: &Bed<u32>| f64::from(bed.store.block_count()) * PAGE_SIZE as f64 / bed.model.len() as f64;
        assert!(least < 4.5 && bytes(&bed) < least * 1.05, "{} bytes an entry, {size} to a lane", bytes(&bed));
        let salted = |row: u64| row.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        bed.vacuum(|tid| salted(row_of(tid)) % 10 == 3);
        for row in (0..300_000).filter(|row| salted(*row) % 20 == 3) {
            bed.insert(key(u128::from(row) / size, row));
        }
        bed.check();
        // A twentieth is gone.
        assert!(bytes(&bed) < least * 1.15, "{} bytes an entry after insertions, {size} to a lane", bytes(&bed));
    }
}

/// Leaves of entries of so many bytes each are nine tenths full, and there is little beside them.
fn check_full<L: Lane>(geometry: Geometry, entries: &[(L, Tid)], size: usize) {
    let bed = loaded(geometry, entries, 90);
    let form = Form::of(L::KIND, &geometry, 0);
    let in_node = (form.room() * 90 / 100 / size).min(MAX_NODE_ENTRIES);
    let mut leaves = Vec::new();
    for_each_leaf(bed.tree(), |_, page| leaves.push(page.entries()));
    leaves.pop();
    assert!(leaves.iter().all(|&count| count == form.most_nodes * in_node), "{leaves:?}");
    let bytes = f64::from(bed.store.block_count()) * PAGE_SIZE as f64 / entries.len() as f64;
    // What a node has beside its entries, and what it may not have more of.
    let least = (size as f64 / 0.9).max(form.room() as f64 / MAX_NODE_ENTRIES as f64);
    let most = least * if PAGE_SIZE < 8192 { 1.2 } else { 1.13 };
    assert!(bytes < most, "{bytes} bytes an entry of {:?}, instead of {least}", L::KIND);
}

/// An index holds a key in three bytes where keys are as dense as they can be and in the order of the table: a byte of
/// the lane, and two of the TID. Of random keys the lane takes what two hundred thousand of them leave in common, and the
/// TID three bytes. A tenth is left free, and what pages have beside their entries is little.
#[test]
fn pages_are_as_full_as_asked_for() {
    const ROWS: u64 = 200_000;
    fn of<L: Lane>(random_lane: usize) {
        let dense: Vec<(L, Tid)> = (0..ROWS).map(|row| key(row.into(), row)).collect();
        // At equal distances, and their rows anywhere.
        let step = L::MAX.to_u128() / u128::from(ROWS);
        let random: Vec<(L, Tid)> = (0..ROWS).map(|row| key(step * u128::from(row), row * 0x9E37 % ROWS)).collect();
        for (entries, size) in [(dense, 1 + 2), (random, random_lane + 3)] {
            check_full(normal::<L>(), &entries, size);
        }
    }
    of::<u32>(3);
    of::<u64>(7);
    of::<u128>(15);
}

/// The same of byte strings, with the key in the lane or behind it, an opaque column, and something carried.
#[test]
#[cfg_attr(
    any(feature = "page-4k", feature = "page-16k", feature = "page-32k"),
    ignore = "says how large pages of 8 KB are"
)]
fn byte_strings_that_share_heads_are_small() {
    let texts = |kind| DigitShape { kind, descending: false, nulls_first: false };
    let opaque = DigitKind::Opaque { prefix: 0, value: ValueLength::Variable };
    let tastes = [
        (texts(DigitKind::Text), 0, "k"),
        (texts(DigitKind::Text), 0, "a key that does not fit its lane, "),
        (texts(opaque), 30, "an opaque key, "),
    ];
    for (column, carried, front) in tastes {
        for (size, fill) in [(3000, 90), (700, 50), (150, 90)] {
            let taste = Taste::new(vec![column], carried, 1000, &[], 1);
            let row = |number: u64| {
                let text = format!("{front}{:05}", number / 3 / size);
                taste.row(vec![Value::Bytes(text.into_bytes())], number)
            };
            // Every third number carries the same.
            let number = |at: u64| 3 * at + 2;
            let rows: Vec<Row> = (0..100_000).map(|at| row(number(at))).collect();
            let geometry = bytes::normal(taste.shape.has_payload());
            let least = bytes_of_tids(taste.meta().shape.lane_kind(), &geometry, fill);
            let mut bed = BytesBed::loaded(taste.clone(), geometry, fill, rows, 2000);
            let bytes = |bed: &BytesBed| f64::from(bed.store.block_count()) * PAGE_SIZE as f64 / bed.model.len() as f64;
            // Each key has a cell.
            let most = least * 1.15 + 60.0 / size as f64;
            assert!(most < 5.2 && bytes(&bed) < most, "{} bytes an entry, {size} to a key", bytes(&bed));
            let salted = |row: u64| row.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
            bed.vacuum(|tid| salted(row_of(tid)) % 10 == 3);
            for at in (0..100_000).filter(|at| salted(number(*at)) % 20 == 3) {
                bed.insert(row(number(at)));
            }
            bed.check();
            let bytes = bytes(&bed);
            assert!(bytes < most * 1.1, "{bytes} bytes an entry after insertions, {size} to a key");
        }
    }
}

/// Rows that come one by one, in the order of a table that grows or of one with room everywhere, share heads too: TIDs
/// take two or three bytes, and no more than a third of the pages is free.
#[test]
#[cfg_attr(
    any(feature = "page-4k", feature = "page-16k", feature = "page-32k"),
    ignore = "says how large pages of 8 KB are"
)]
fn inserted_rows_that_share_heads_are_small() {
    let mut random = StdRng::seed_from_u64(3);
    let column = DigitShape { kind: DigitKind::Text, descending: false, nulls_first: false };
    for is_growing in [true, false] {
        let mut rows: Vec<u64> = (0..100_000).collect();
        if !is_growing {
            rows.shuffle(&mut random);
        }
        let keys: Vec<u64> = rows.iter().map(|_| random.random_range(0..50)).collect();
        let mut bed = Bed::<u32>::new(normal::<u32>(), 1000);
        let mut bytes_bed = BytesBed::new(Taste::new(vec![column], 0, 1000, &[], 1), bytes::normal(false), 1000);
        for (&row, k) in rows.iter().zip(keys) {
            bed.insert(key(k.into(), row));
            let text = format!("a key that does not fit its lane, {k:05}");
            bytes_bed.insert(bytes_bed.taste.row(vec![Value::Bytes(text.into_bytes())], row));
        }
        bed.check();
        bytes_bed.check();
        for blocks in [bed.store.block_count(), bytes_bed.store.block_count()] {
            let bytes = f64::from(blocks) * PAGE_SIZE as f64 / 100_000.0;
            assert!(bytes < 4.6, "{bytes} bytes an entry");
        }
    }
}
