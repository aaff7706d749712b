//! Bulk load: every size around the places where pages and levels begin.

mod common;

use common::long::{self, LongBed, Row, Taste, Value};
use common::*;
use fpbtree_engine::key::digit::{DigitKind, DigitShape, ValueLength};
use fpbtree_engine::key::{Key, Lane};
use fpbtree_engine::page::{Geometry, Meta, Page};
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
    let bed = Bed { store: MemoryStore::new(&pages, pages.len() + 500), meta, model };
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
            bed.vacuum(|tail| tail.block().is_multiple_of(2));
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

/// Rows that share a few lanes take little more than their tails, whatever the fill factor, and stay so.
#[test]
fn runs_are_small() {
    for (size, fill, most) in [(3000, 90, 6.9), (700, 50, 7.3), (150, 90, 8.8)] {
        let mut bed = loads::<u32>(normal::<u32>(), 300_000, size, fill);
        let bytes = |bed: &Bed<u32>| f64::from(bed.store.block_count()) * 8192.0 / bed.model.len() as f64;
        assert!(bytes(&bed) < most, "{} bytes an entry, {size} to a lane", bytes(&bed));
        let salted = |row: u64| row.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        bed.vacuum(|tail| salted(u64::from(tail.block()) * 100 + u64::from(tail.offset()) - 1) % 10 == 3);
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
    let bytes = f64::from(bed.store.block_count()) * 8192.0 / 500_000.0;
    assert!(bytes < 12.0, "{bytes} bytes an entry");
    let first = bed.store.copy(2);
    let page = Page::<u32>::open(&first, &bed.meta.geometry, 2).unwrap();
    assert_eq!(page.entries(), bed.meta.geometry.leaf.page_entries() * 90 / 100);
}

/// The same of byte strings, with the key in the lane or behind it, an opaque column, and something carried.
#[test]
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
            let geometry = long::normal(taste.shape.has_extra());
            let mut bed = LongBed::loaded(taste.clone(), geometry, fill, rows, 2000);
            let bytes = |bed: &LongBed| f64::from(bed.store.block_count()) * 8192.0 / bed.model.len() as f64;
            assert!(bytes(&bed) < most + more, "{} bytes an entry, {size} to a key", bytes(&bed));
            let salted = |row: u64| row.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
            bed.vacuum(|tail| salted(u64::from(tail.block()) * 100 + u64::from(tail.offset()) - 1) % 10 == 3);
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
        let mut long_bed = LongBed::new(Taste::new(vec![column], 0, 1000, &[], 1), long::normal(false), 1000);
        for (&row, k) in rows.iter().zip(keys) {
            bed.insert(key(k.into(), row));
            let text = format!("a key that does not fit its lane, {k:05}");
            long_bed.insert(long_bed.taste.row(vec![Value::Bytes(text.into_bytes())], row));
        }
        bed.check();
        long_bed.check();
        for blocks in [bed.store.block_count(), long_bed.store.block_count()] {
            let bytes = f64::from(blocks) * 8192.0 / 100_000.0;
            assert!(bytes < most, "{bytes} bytes an entry");
        }
    }
}
