//! The tree against a sorted set.

use crate::common::*;
use fpbtree_engine::format::{Geometry, Key, Lane, NO_BLOCK, Tid};
use fpbtree_engine::page::Entry;
use fpbtree_engine::scan::{Direction, Selection, kill};
use fpbtree_engine::store::PageStore;
use fpbtree_engine::tree::{Batch, DeadTids, InsertOptions};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Runs a test for every lane, on small pages and on those an index gets.
macro_rules! for_every_tree {
    ($($name:ident($small:expr, $normal:expr);)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn on_u32() {
                super::$name::<u32>(normal::<u32>(), $normal);
            }

            #[test]
            fn on_u64() {
                super::$name::<u64>(normal::<u64>(), $normal);
            }

            #[test]
            fn on_u128() {
                super::$name::<u128>(normal::<u128>(), $normal);
            }

            #[test]
            fn on_small_pages_of_u32() {
                super::$name::<u32>(small::<u32>(), $small);
            }

            #[test]
            fn on_small_pages_of_u64() {
                super::$name::<u64>(small::<u64>(), $small);
            }

            #[test]
            fn on_small_pages_of_u128() {
                super::$name::<u128>(small::<u128>(), $small);
            }
        }
    )*};
}

for_every_tree! {
    random_keys(4000, 20_000);
    duplicates(4000, 20_000);
    ascending_keys(4000, 20_000);
    descending_keys(4000, 20_000);
    everything_comes_and_goes(3000, 10_000);
    scans_find_their_range(2000, 8000);
    dead_hints_hide_entries(1000, 5000);
}

const ROOM: usize = 4000;

fn random_keys<L: Lane>(geometry: Geometry, count: usize) {
    let mut random = StdRng::seed_from_u64(1);
    let mut bed = Bed::<L>::new(geometry, ROOM);
    for at in 0..count {
        bed.insert(some_key(&mut random, 1 << 30));
        if at % (count / 8) == 0 {
            bed.check();
        }
    }
    bed.check();
    let levels = bed.tree().census().unwrap().levels;
    let deep = if fpbtree_engine::format::PAGE_SIZE > 16384 { 3 } else { 4 };
    // The smallest pages of narrow keys hold more of them.
    let deep = if L::SIZE == 4 { 3 } else { deep };
    assert!(levels >= if geometry == small::<L>() { deep } else { 2 }, "{levels} levels");
}

fn duplicates<L: Lane>(geometry: Geometry, count: usize) {
    for spread in [1, 3, 40] {
        let mut random = StdRng::seed_from_u64(spread as u64);
        let mut bed = Bed::<L>::new(geometry, ROOM);
        for at in 0..count {
            bed.insert(some_key(&mut random, spread));
            if at % (count / 4) == 0 {
                bed.check();
            }
        }
        bed.check();
    }
}

fn ascending_keys<L: Lane>(geometry: Geometry, count: usize) {
    let mut bed = Bed::<L>::new(geometry, ROOM);
    for at in 0..count as u64 {
        bed.insert(key(at.into(), at));
    }
    bed.check();
    let census = bed.tree().census().unwrap();
    let room = census.leaf_pages as usize * geometry.leaf.page_entries();
    assert!(count * 100 / room >= 75, "leaves are {} % full", count * 100 / room);
}

fn descending_keys<L: Lane>(geometry: Geometry, count: usize) {
    let mut bed = Bed::<L>::new(geometry, ROOM);
    for at in (0..count as u64).rev() {
        bed.insert(key((at / 3).into(), at));
    }
    bed.check();
}

/// Waves of insertions and removals, some of them of everything, in the end of all.
fn everything_comes_and_goes<L: Lane>(geometry: Geometry, count: usize) {
    let mut random = StdRng::seed_from_u64(2);
    let mut bed = Bed::<L>::new(geometry, ROOM);
    for wave in 0..12 {
        let spread = [1 << 30, 1000, 5][wave % 3];
        for _ in 0..count / 2 {
            bed.insert(some_key(&mut random, spread));
        }
        bed.check();
        let (seed, percent) = (random.random::<u64>(), [30, 95, 100, 5][wave % 4]);
        bed.vacuum(|tid| (tid.raw() >> 3 ^ seed).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32 < percent * (1 << 32) / 100);
        bed.check();
        // A stretch of keys: whole leaves and branches become empty.
        let all: Vec<_> = bed.model.iter().copied().collect();
        if let Some(from) = all.len().checked_sub(1).map(|last| random.random_range(0..=last)) {
            let to = random.random_range(from..all.len());
            let doomed: std::collections::HashSet<u64> = all[from..to].iter().map(|key| key.tid.raw()).collect();
            bed.vacuum(|tid| doomed.contains(&tid.position().raw()));
            bed.check();
        }
    }
    bed.vacuum(|_| true);
    bed.check();
    let pages = bed.store.block_count();
    assert!((pages as usize) < ROOM / 2, "{pages} pages: deleted ones are not used again");
}

/// Scans of random ranges of values, both ways, NULLs in or out.
fn scans_find_their_range<L: Lane>(geometry: Geometry, count: usize) {
    let mut random = StdRng::seed_from_u64(3);
    let mut bed = Bed::<L>::new(geometry, ROOM);
    for _ in 0..count {
        bed.insert(some_key(&mut random, count as u128 / 4));
    }
    let lanes: Vec<u128> = bed.model.iter().map(|key| key.lane.to_u128()).collect();
    for round in 0..300 {
        let mut end = || match random.random_range(0..5) {
            0 => random.random::<u128>() & L::MAX.to_u128(),
            _ => lanes[random.random_range(0..lanes.len())],
        };
        let (a, b) = (end(), end());
        let (low, high) = (a.min(b), a.max(b));
        let shape = shape_of(&bed.meta);
        let mut selection = Selection::new(&shape);
        let nulls = round % 3 == 0;
        if nulls {
            selection.null(0);
        } else {
            selection.between(0, low, high);
        }
        let wanted = |key: &&Key<L>| match key.tid.rank() {
            true => nulls,
            false => !nulls && (low..=high).contains(&key.lane.to_u128()),
        };
        let mut expected: Vec<Key<L>> = bed.model.iter().filter(wanted).copied().collect();
        assert_eq!(scan(bed.tree(), &selection, Direction::Forward, false), expected);
        expected.reverse();
        assert_eq!(scan(bed.tree(), &selection, Direction::Backward, false), expected);
    }
    assert!(bed.store.is_quiet());
}

/// Entries marked dead are left out where that is asked for, stay otherwise, and survive whatever moves them.
fn dead_hints_hide_entries<L: Lane>(geometry: Geometry, count: usize) {
    let mut random = StdRng::seed_from_u64(4);
    let mut bed = Bed::<L>::new(geometry, ROOM);
    let is_dead = |key: &Key<L>| key.tid.block().is_multiple_of(3);
    for _ in 0..count {
        bed.insert(some_key(&mut random, 1000));
    }
    kill_where(&bed, is_dead);
    for _ in 0..count {
        let (lane, tid) = some_key(&mut random, 1000);
        if !is_dead(&Key::new(lane, tid)) {
            bed.insert((lane, tid));
        }
    }
    bed.check();
    let shape = shape_of(&bed.meta);
    let selection = Selection::new(&shape);
    let all = scan(bed.tree(), &selection, Direction::Forward, false);
    assert!(all.iter().eq(&bed.model));
    let living: Vec<_> = all.into_iter().filter(|key| !is_dead(key)).collect();
    assert_eq!(scan(bed.tree(), &selection, Direction::Forward, true), living);
    let dead = bed.tree().census().unwrap().dead_entries;
    assert_eq!(dead as usize, bed.model.len() - living.len());
}

fn kill_where<L: Lane>(bed: &Bed<L>, is_dead: impl Fn(&Key<L>) -> bool) {
    let shape = shape_of(&bed.meta);
    let selection = Selection::new(&shape);
    let mut cursor = fpbtree_engine::scan::Cursor::new(Direction::Forward);
    let mut matches = Box::new(fpbtree_engine::scan::Matches::new());
    while let Some(pin) = cursor.read_page(bed.tree(), &selection, false, &mut matches).unwrap() {
        let dead = |at: &usize| is_dead(&Key::new(matches.lane(*at), matches.tid(*at)));
        let places: Vec<u16> = (0..matches.len()).filter(dead).map(|at| matches.flags_at(at)).collect();
        let pin = kill(&bed.store, pin, cursor.lsn() + 1, &places);
        assert!(bed.tree().census().unwrap().dead_entries == 0 || *cursor.bound() > Key::MIN);
        kill(&bed.store, pin, cursor.lsn(), &places).unpin(&bed.store);
    }
}

/// How full leaves are that grew by these keys, one row after the other.
fn fill_of(keys: impl Iterator<Item = u128>) -> f64 {
    let mut bed = Bed::<u64>::new(normal::<u64>(), ROOM);
    keys.enumerate().for_each(|(row, lane)| bed.insert(key(lane, row as u64)));
    bed.check();
    let mut fills = Vec::new();
    for_each_leaf(bed.tree(), |_, page| fills.push(page.fill()));
    assert!(fills.len() > 20, "{} leaves", fills.len());
    fills.iter().sum::<f64>() / fills.len() as f64
}

/// Keys that ascend within each of many groups, or within a millisecond in any order, leave full leaves behind, as
/// those do that ascend throughout; keys in any order don't.
#[test]
fn splits_follow_ascending_stretches() {
    const ROWS: u128 = 60_000;
    let mut random = StdRng::seed_from_u64(6);
    let ascending = fill_of((0..ROWS).map(|row| row << 20));
    let groups = fill_of((0..ROWS).map(|row| (row % 20) << 40 | (row / 20) << 8));
    let random_groups = fill_of((0..ROWS).map(|row| random.random_range(0..20u128) << 40 | row));
    let jumbled = fill_of((0..ROWS).map(|row| (row / 5) << 32 | random.random::<u32>() as u128));
    let anyhow = fill_of((0..ROWS).map(|_| random.random::<u64>() as u128));
    let fills = [ascending, groups, random_groups, jumbled];
    assert!(fills.iter().all(|&fill| fill > 0.72), "{fills:?}, and {anyhow} of keys in any order");
    assert!(anyhow < 0.7, "{anyhow}: a test that tells nothing");
}

/// A scan may have a copy of what is in a leaf that it pins: the entries stay there, where VACUUM waits for the pin.
#[test]
fn a_pinned_leaf_is_not_merged() {
    let mut bed = Bed::<u64>::new(normal::<u64>(), ROOM);
    (0..8000).for_each(|at| bed.insert(key(at.into(), at)));
    let leaves = |bed: &Bed<u64>| {
        let mut leaves = Vec::new();
        for_each_leaf(bed.tree(), |block, page| leaves.push((block, page.entries() as u64)));
        leaves
    };
    let before = leaves(&bed);
    let (first, rows) = before[0];
    let mut pin = None;
    let mut is_dead = |tid: Tid| {
        // VACUUM is past the first leaf.
        if row_of(tid) >= rows && pin.is_none() {
            pin = Some(bed.store.pin(first).expect("a page"));
        }
        !row_of(tid).is_multiple_of(20)
    };
    let stats = bed
        .tree()
        .vacuum(&mut DeadTids::new(&mut []), &mut is_dead, &mut |_, _, _| {}, &mut |_| {})
        .expect("the vacuum succeeds");
    bed.model.retain(|row| row_of(row.tid).is_multiple_of(20));
    let after = leaves(&bed);
    assert_eq!(after[0], (first, rows.div_ceil(20)), "the pinned leaf has changed");
    assert_eq!(bed.tree().census().unwrap().thin_pages, 1);
    assert!(after.len() == 2 && stats.merged_pages as usize == before.len() - 2, "{after:?}, {stats:?}");
    pin.expect("a second leaf").unpin(&bed.store);
    let stats = bed.vacuum(|_| false);
    assert_eq!((stats.merged_pages, leaves(&bed).len()), (1, 1));
    bed.check();
}

/// Leaves that are thin together are merged, and leave room: what is inserted does not split them at once.
#[test]
fn merged_leaves_have_room() {
    for part in [3, 8, 20] {
        let mut bed = Bed::<u64>::new(normal::<u64>(), ROOM);
        (0..20_000).for_each(|at| bed.insert(key(at.into(), at)));
        bed.vacuum(|tid| !row_of(tid).is_multiple_of(part));
        let mut fills = Vec::new();
        for_each_leaf(bed.tree(), |_, page| fills.push(page.fill()));
        assert!(fills.iter().all(|fill| *fill < 0.8), "{fills:?}");
        assert!(fills.windows(2).all(|pair| pair[0] + pair[1] > 0.7), "{fills:?}");
        assert_eq!(bed.tree().census().unwrap().thin_pages, 0);
        bed.compact();
        let census = bed.tree().census().unwrap();
        assert_eq!((census.free_pages, bed.store.block_count() as u64), (0, 2 + fills.len() as u64));
        assert_eq!(bed.vacuum(|_| false).merged_pages, 0, "what is merged is merged at once");
        bed.check();
    }
}

/// A batch leaves no page half full behind it, however many entries it has for each that was there before.
#[test]
fn batches_leave_pages_full() {
    for (before, more) in [(2000, 30_000), (20_000, 20_000), (0, 20_000), (30_000, 3000)] {
        let mut random = StdRng::seed_from_u64(before as u64);
        let mut bed = Bed::<u64>::new(normal::<u64>(), ROOM);
        (0..before).for_each(|_| bed.insert(some_key(&mut random, 1 << 60)));
        let some = (0..more).map(|_| some_key::<u64>(&mut random, 1 << 60)).map(|(lane, tid)| Key::new(lane, tid));
        let rows: std::collections::BTreeSet<Key<u64>> = some.filter(|row| !bed.model.contains(row)).collect();
        let mut ahead = |_, _: &_| {};
        let mut batch = Batch::new(bed.tree(), InsertOptions::filling(90), &mut ahead);
        rows.iter().for_each(|row| {
            let entry = Entry { key: row.lane, tid: row.tid, child: NO_BLOCK };
            batch.insert(&entry).expect("the insertion succeeds");
        });
        batch.finish().expect("the insertion succeeds");
        drop(batch);
        bed.model.extend(rows);
        bed.check();
        let census = bed.tree().census().unwrap();
        let fill = census.fill / census.leaf_pages as f64;
        assert!(fill > 0.55, "{before}, {more}: {fill}");
    }
}
