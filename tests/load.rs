//! Bulk load: every size around the places where pages and levels begin.

mod common;

use std::collections::BTreeSet;

use common::bytes::{self, BytesBed, Row, Taste, Value};
use common::*;
use fpbtree_engine::format::{Geometry, Key, Lane, PAGE_SIZE, Tid};
use fpbtree_engine::keys::digits::{DigitKind, DigitShape, ValueLength};
use fpbtree_engine::page::{Meta, Page};
use fpbtree_engine::store::PageStore;
use fpbtree_engine::store::memory::MemoryStore;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

/// Loads `count` entries, `repeats` to a lane, and checks all there is to check.
fn loads<L: Lane>(geometry: Geometry, count: usize, repeats: u128, fill: usize) -> Bed<L> {
    let meta = exact(one_column::<L>(), geometry);
    let entry = |at: usize| key::<L>(at as u128 / repeats, at as u64);
    let pages = load(&meta, fill, (0..count).map(entry));
    assert_eq!(Meta::read(&pages[0]), Ok(meta));
    let model = (0..count).map(|at| Key::new(entry(at).0, entry(at).1)).collect();
    let bed = Bed::on(meta, MemoryStore::new(&pages, pages.len() + 500), model);
    bed.check();
    assert_eq!(bed.tree().census().unwrap().free_pages, 0);
    bed
}

/// The sizes at which pages and levels begin, and one to either side.
fn around_boundaries<L: Lane>() {
    let geometry = small::<L>();
    let (leaf, inner) = (geometry.leaf.page_entries(), geometry.inner.page_entries() * 95 / 100);
    let mut sizes: Vec<usize> = (0..3 * leaf).collect();
    for pages in [inner - 1, inner, inner + 1, 2 * inner, inner * inner - 1, inner * inner, inner * inner + 1] {
        sizes.extend((leaf * pages).saturating_sub(2)..leaf * pages + 3);
    }
    for size in sizes {
        for repeats in [1, 7] {
            loads::<L>(geometry, size, repeats, 100);
        }
    }
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
    around_boundaries::<u32>();
}

#[test]
fn around_boundaries_of_u64() {
    around_boundaries::<u64>();
}

#[test]
fn around_boundaries_of_u128() {
    around_boundaries::<u128>();
}

fn random_sizes<L: Lane>() {
    let mut random = StdRng::seed_from_u64(7);
    for fill in [10, 50, 90, 100] {
        for geometry in [small::<L>(), normal::<L>()] {
            let count = random.random_range(1000..5000);
            let repeats =
                [random.random_range(1..4), random.random_range(1..1000)][usize::from(random.random_bool(0.5))];
            let mut bed = loads::<L>(geometry, count, repeats, fill);
            let pages = bed.tree().census().unwrap().leaf_pages as usize;
            let expected = count.div_ceil((geometry.leaf.page_entries() * fill / 100).max(2));
            // Many entries with the same lane take less: they are stored as runs.
            let holds = if repeats > 29 { pages <= expected } else { pages == expected };
            assert!(holds, "{pages} pages instead of {expected}: {count} entries at {fill} %, {repeats} to a lane");
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

/// Rows that share a few lanes take little more than their TIDs, whatever the fill factor, and stay so.
#[test]
#[cfg_attr(
    any(feature = "page-4k", feature = "page-16k", feature = "page-32k"),
    ignore = "says how large pages of 8 KB are"
)]
fn runs_are_small() {
    for (size, fill, most) in [(3000, 90, 6.9), (700, 50, 7.3), (150, 90, 8.8)] {
        let mut bed = loads::<u32>(normal::<u32>(), 300_000, size, fill);
        let bytes = |bed: &Bed<u32>| f64::from(bed.store.block_count()) * PAGE_SIZE as f64 / bed.model.len() as f64;
        assert!(bytes(&bed) < most, "{} bytes an entry, {size} to a lane", bytes(&bed));
        let salted = |row: u64| row.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        bed.vacuum(|tid| salted(u64::from(tid.block()) * 100 + u64::from(tid.offset()) - 1) % 10 == 3);
        for row in (0..300_000).filter(|row| salted(*row) % 20 == 3) {
            bed.insert(key(u128::from(row) / size, row));
        }
        bed.check();
        assert!(bytes(&bed) < most + 1.5, "{} bytes an entry after insertions, {size} to a lane", bytes(&bed));
    }
}

/// An index holds an int4 key in 12 bytes or less at the usual fill factor.
#[test]
fn pages_are_as_full_as_asked_for() {
    let bed = loads::<u32>(normal::<u32>(), 500_000, 1, 90);
    let bytes = f64::from(bed.store.block_count()) * PAGE_SIZE as f64 / 500_000.0;
    assert!(bytes < if PAGE_SIZE < 8192 { 12.1 } else { 12.0 }, "{bytes} bytes an entry");
    let first = bed.store.copy(2);
    let page = Page::<u32>::open(&first, &bed.meta.geometry, 2).unwrap();
    assert_eq!(page.entries(), bed.meta.geometry.leaf.page_entries() * 90 / 100);
}

/// The same of byte strings, with the key in the lane or behind it, an opaque column, and something carried.
#[test]
#[cfg_attr(
    any(feature = "page-4k", feature = "page-16k", feature = "page-32k"),
    ignore = "says how large pages of 8 KB are"
)]
fn runs_of_byte_strings_are_small() {
    let texts = |kind| DigitShape { kind, descending: false, nulls_first: false };
    let opaque = DigitKind::Opaque { prefix: 0, value: ValueLength::Variable };
    let tastes = [
        (texts(DigitKind::Text), 0, "k", 0.0),
        (texts(DigitKind::Text), 0, "a key that does not fit its lane, ", 0.0),
        (texts(opaque), 30, "an opaque key, ", 0.4),
    ];
    for (column, carried, front, more) in tastes {
        for (size, fill, most) in [(3000, 90, 7.1), (700, 50, 7.9), (150, 90, 8.8)] {
            let taste = Taste::new(vec![column], carried, 1000, &[], 1);
            let row = |number: u64| {
                let text = format!("{front}{:05}", number / 3 / size);
                taste.row(vec![Value::Bytes(text.into_bytes())], number)
            };
            // Every third number carries the same.
            let number = |at: u64| 3 * at + 2;
            let rows: Vec<Row> = (0..100_000).map(|at| row(number(at))).collect();
            let geometry = bytes::normal(taste.shape.has_payload());
            let mut bed = BytesBed::loaded(taste.clone(), geometry, fill, rows, 2000);
            let bytes = |bed: &BytesBed| f64::from(bed.store.block_count()) * PAGE_SIZE as f64 / bed.model.len() as f64;
            assert!(bytes(&bed) < most + more, "{} bytes an entry, {size} to a key", bytes(&bed));
            let salted = |row: u64| row.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
            bed.vacuum(|tid| salted(u64::from(tid.block()) * 100 + u64::from(tid.offset()) - 1) % 10 == 3);
            for at in (0..100_000).filter(|at| salted(number(*at)) % 20 == 3) {
                bed.insert(row(number(at)));
            }
            bed.check();
            assert!(
                bytes(&bed) < most + more + 1.5,
                "{} bytes an entry after insertions, {size} to a key",
                bytes(&bed)
            );
        }
    }
}

/// Rows that come one by one, in the order of a table that grows or of one with room everywhere, make runs too.
#[test]
#[cfg_attr(
    any(feature = "page-4k", feature = "page-16k", feature = "page-32k"),
    ignore = "says how large pages of 8 KB are"
)]
fn inserted_runs_are_small() {
    let mut random = StdRng::seed_from_u64(3);
    let column = DigitShape { kind: DigitKind::Text, descending: false, nulls_first: false };
    for (is_growing, most) in [(true, 9.0), (false, 12.0)] {
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
            assert!(bytes < most, "{bytes} bytes an entry");
        }
    }
}
