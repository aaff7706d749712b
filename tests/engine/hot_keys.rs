//! The hot-key cache: what it says of a key is what is there, whoever changes it meanwhile; and who gets in.

use crate::common::*;
use crate::words::{ModelWord, deaf, seen};
use fpbtree_engine::cache::hot_keys::{self, Admission, HotKey, HotKeys, Lookup};
use fpbtree_engine::format::Tid;
use fpbtree_engine::keys::{Column, ColumnType, KeyShape};
use fpbtree_engine::scan::{Cursor, Direction, Matches, Selection};
use fpbtree_engine::store::memory::MemoryStore;
use fpbtree_engine::tree::Tree;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::HashMap;
use std::panic::catch_unwind;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, RwLock};

/// Bytes of memory that two keys take, or one.
const LINE: usize = 64;

/// What the pages of the index are known by.
const PAGES: u64 = 0xF00D;

fn memory(words: usize) -> Vec<AtomicU64> {
    (0..words).map(|_| AtomicU64::new(0)).collect()
}

/// The owner of an index with these pages, whose file has this number.
fn owner(pages: u64, file: u64) -> u64 {
    hot_keys::owner(pages, file << 32)
}

fn hot(lane: u128) -> HotKey {
    HotKey { owner: owner(PAGES, 7), lane }
}

fn tid(block: u32, offset: u16) -> Tid {
    Tid::new(false, block, offset, false)
}

fn places(rows: &[Tid]) -> Vec<(u32, u16)> {
    rows.iter().map(|row| (row.block(), row.offset())).collect()
}

fn rows_of(found: Lookup) -> Option<Vec<(u32, u16)>> {
    match found {
        Lookup::Rows(rows, count, _) => Some(places(&rows[..count])),
        Lookup::Stale | Lookup::Unknown => None,
    }
}

/// Keys of two indexes, some as wide as they get, whose rows change; in memory for hardly any of them up to all.
#[test]
fn answers_are_what_is_there() {
    let mut hits = 0;
    for seed in 0..200 {
        let mut random = StdRng::seed_from_u64(seed);
        let memory = memory([40, 100, 1000, 20_000][seed as usize % 4] + random.random_range(0..20));
        let cache = HotKeys::over(&memory).expect("room for some keys");
        let mut truth: HashMap<(u64, u128), Vec<Tid>> = HashMap::new();
        let pages = random.random_range(1..40);
        for _ in 0..3000 {
            let index = random.random_range(1..3);
            let lane = random.random_range(0..60) * if random.random() { 1 } else { u128::MAX / 60 };
            let (hot, block) = (HotKey { owner: owner(PAGES + index, index), lane }, (lane % pages) as u32);
            let rows = truth.entry((index, lane)).or_insert_with(|| vec![tid(lane as u32, 1)]);
            match random.random_range(0..60) {
                0 => {
                    cache.change(PAGES + index, block);
                    *rows = (0..random.random_range(0..4))
                        .map(|_| tid(random.random(), random.random_range(1..292)))
                        .collect();
                }
                1 => cache.forget(hot),
                _ => match rows_of(cache.find(hot)) {
                    Some(found) => {
                        hits += 1;
                        assert_eq!(found, places(rows));
                    }
                    None => {
                        let kept = cache.keep(hot, cache.stamp(PAGES + index, block), rows);
                        assert!((1..=2).contains(&rows.len()) || kept == Admission::No);
                    }
                },
            }
        }
    }
    assert!(hits > 100_000, "{hits} hits");
}

#[test]
fn what_is_kept_is_found_until_its_page_changes() {
    let memory = memory(1 << 16);
    let cache = HotKeys::over(&memory).unwrap();
    assert_eq!(cache.find(hot(5)), Lookup::Unknown);
    let old = cache.stamp(PAGES, 9);
    assert_eq!(cache.keep(hot(5), old, &[tid(u32::MAX - 1, 291), tid(3, 4)]), Admission::Yes);
    assert_eq!(rows_of(cache.find(hot(5))), Some(vec![(u32::MAX - 1, 291), (3, 4)]));
    assert_eq!(cache.find(HotKey { owner: owner(PAGES, 8), lane: 5 }), Lookup::Unknown);
    assert_eq!(cache.find(hot(5 | 1 << 64)), Lookup::Unknown);
    assert_eq!((cache.size_of(owner(PAGES, 7)), cache.size_of(owner(PAGES, 8))), (LINE, 0));
    // Another page, and another index's page of this number.
    cache.change(PAGES, 10);
    cache.change(PAGES + 1, 9);
    assert!(matches!(cache.find(hot(5)), Lookup::Rows(_, 2, _)));
    cache.change(PAGES, 9);
    assert_eq!(cache.find(hot(5)), Lookup::Stale);
    // What was read before the page changed comes too late.
    assert_eq!(cache.keep(hot(5), old, &[tid(1, 1)]), Admission::Yes);
    assert_eq!(cache.find(hot(5)), Lookup::Stale);
    assert_eq!(cache.keep(hot(5), cache.stamp(PAGES, 9), &[tid(1, 2)]), Admission::Yes);
    assert_eq!(rows_of(cache.find(hot(5))), Some(vec![(1, 2)]));
    cache.forget(hot(5));
    assert_eq!(cache.find(hot(5)), Lookup::Unknown);
    assert_eq!(cache.size_of(owner(PAGES, 7)), 0);
    assert_eq!(cache.keep(hot(5), cache.stamp(PAGES, 9), &[tid(1, 2); 3]), Admission::No);
    assert_eq!(cache.keep(hot(5), cache.stamp(PAGES, 9), &[]), Admission::No);
}

/// A stamp says of which page it is, and tells it from others whose changes are counted with its own. A count that has
/// come to its end does not begin again.
#[test]
fn stamps_are_of_one_page_and_do_not_come_again() {
    let memory = memory(1 << 12);
    let cache = HotKeys::over(&memory).unwrap();
    let ours = owner(PAGES, 7);
    for block in [0, 1, 77, 1 << 20, u32::MAX - 1] {
        let stamp = cache.stamp(PAGES, block);
        assert_eq!(stamp.block(), block);
        assert!(cache.is_current(ours, stamp));
        cache.change(PAGES, block);
        assert!(!cache.is_current(ours, stamp));
    }
    let stamps = (1 << 12) / 64;
    memory[..stamps].iter().for_each(|word| word.store(u64::from(u32::MAX) - 2, SeqCst));
    let last = cache.stamp(PAGES, 5);
    assert!(cache.is_current(ours, last));
    for _ in 0..3 {
        cache.change(PAGES, 5);
        let stamp = cache.stamp(PAGES, 5);
        assert_eq!(cache.keep(hot(5), stamp, &[tid(1, 1)]), Admission::Yes);
    }
    assert!(!cache.is_current(ours, last));
    assert_eq!(cache.find(hot(5)), Lookup::Stale);
    memory[..stamps].iter().for_each(|word| word.store(1 << 32 | 1, SeqCst));
    assert_eq!(cache.keep(hot(6), cache.stamp(PAGES, 5), &[tid(1, 1)]), Admission::Yes);
    assert_eq!(cache.find(hot(6)), Lookup::Stale);
}

#[test]
fn too_little_memory_is_no_cache() {
    for words in 0..200 {
        let memory = memory(words);
        let capacity = HotKeys::over(&memory).map_or(0, |cache| cache.capacity());
        assert!(capacity * LINE / 2 <= words * 8, "{words} words have {capacity} keys");
        assert!((words >= 24) == (capacity > 0), "{words} words have {capacity} keys");
    }
    // What stamps take is little.
    let memory = memory(1 << 20);
    assert!(HotKeys::over(&memory).unwrap().capacity() * LINE / 2 > (8 << 20) / 10 * 9);
}

/// Keys in use stay when each of a million others is looked for once; and go when others are in use for long.
#[test]
fn a_scan_pushes_nothing_out() {
    let memory = memory(1 << 14);
    let cache = HotKeys::over(&memory).unwrap();
    let capacity = cache.capacity() as u128;
    let look_up = |lane: u128| match cache.find(hot(lane)) {
        Lookup::Rows(..) => true,
        _ => {
            cache.keep(hot(lane), cache.stamp(PAGES, 0), &[tid(lane as u32, 1)]);
            false
        }
    };
    let count = |lanes: std::ops::Range<u128>| lanes.filter(|&lane| look_up(lane)).count() as u128;
    for _ in 0..10 {
        count(0..capacity / 2);
    }
    let before = count(0..capacity / 2);
    assert!(before > capacity / 3, "{before} of {capacity}");
    count(1 << 20..1 << 21);
    let after = count(0..capacity / 2);
    assert!(after + 5 > before, "{after} of {before} are left");
    for _ in 0..40 {
        count(1 << 40..(1 << 40) + capacity / 2);
    }
    let others = count(1 << 40..(1 << 40) + capacity / 2);
    assert!(others > capacity / 4, "{others} of {capacity}");
}

/// Rows carry the number of the change that made them, and their key: no reader ever sees one older than what had
/// happened before it looked, or another key's.
#[test]
fn threads_see_the_truth() {
    const KEYS: u16 = 24;
    const BLOCKS: u16 = 3;
    let memory = memory(96);
    let cache = HotKeys::over(&memory).unwrap();
    let pages: [RwLock<()>; BLOCKS as usize] = Default::default();
    // Under the page's lock the number of each key's last change.
    let now: [AtomicU64; KEYS as usize] = Default::default();
    let (ends, hits) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for seed in 0..2 {
            let (cache, pages, now, ends) = (&cache, &pages, &now, &ends);
            scope.spawn(move || {
                let mut random = StdRng::seed_from_u64(seed);
                while !ends.load(SeqCst) {
                    let changed = random.random_range(0..KEYS);
                    let _lock = pages[(changed % BLOCKS) as usize].write().unwrap();
                    cache.change(PAGES, (changed % BLOCKS).into());
                    now[changed as usize].fetch_add(1, SeqCst);
                }
            });
        }
        for seed in 2..5 {
            let (cache, pages, now, ends, hits) = (&cache, &pages, &now, &ends, &hits);
            scope.spawn(move || {
                let mut random = StdRng::seed_from_u64(seed);
                for _ in 0..400_000 {
                    let sought = random.random_range(0..KEYS);
                    let before = now[sought as usize].load(SeqCst) as u32;
                    if let Lookup::Rows(rows, count, _) = cache.find(hot(sought.into())) {
                        hits.fetch_add(1, SeqCst);
                        let after = now[sought as usize].load(SeqCst) as u32;
                        for row in &rows[..count] {
                            assert_eq!(row.offset(), sought);
                            assert!((before..=after + 1).contains(&row.block()), "{row:?}: {before} to {after}");
                        }
                        assert!(count == 1 || rows[0].block() == rows[1].block());
                        continue;
                    }
                    let (stamp, row) = {
                        let _lock = pages[(sought % BLOCKS) as usize].read().unwrap();
                        let stamp = cache.stamp(PAGES, (sought % BLOCKS).into());
                        (stamp, tid(now[sought as usize].load(SeqCst) as u32, sought))
                    };
                    cache.keep(hot(sought.into()), stamp, &[row; 2][..1 + usize::from(random.random::<bool>())]);
                }
                ends.store(true, SeqCst);
            });
        }
    });
    assert!(hits.into_inner() > 1000, "hardly anything was found");
}

/// Keys in the places of one line or two, wide or with two rows or of another index: looked for and kept by two threads
/// while a third changes their page and forgets some. Words that are deaf lose what is written.
fn model(is_deaf: fn(usize) -> bool) {
    // Eight stamps and one pair of lines.
    const WORDS: usize = 24;
    let keys = || [hot(1), hot(2), hot(3 << 64 | 1), hot(4), HotKey { owner: owner(PAGES, 8), lane: 1 }];
    let run = move || {
        let word = |at| if is_deaf(at) { deaf() } else { seen() };
        let words: Arc<Vec<ModelWord>> = Arc::new((0..WORDS).map(word).collect());
        // The page: its lock is the model's, and what is in it the number of its last change.
        let page = Arc::new(shuttle::sync::RwLock::new(0));
        let mut threads = Vec::new();
        for first in 0..2 {
            let (words, page) = (words.clone(), page.clone());
            threads.push(shuttle::thread::spawn(move || {
                let cache = HotKeys::over(&words).unwrap();
                for nth in [0, 1, 0, 2, 3, 0, 4, 1].map(|step| (step + first) % keys().len()) {
                    let before = *page.read().unwrap();
                    let count = 1 + usize::from(nth == 3);
                    if let Lookup::Rows(rows, found, _) = cache.find(keys()[nth]) {
                        assert!(rows[..found].iter().all(|row| row.offset() == nth as u16 + 1), "another key's row");
                        assert_eq!(found, count, "too many rows, or too few");
                        assert!(rows[..found].iter().all(|row| row.block() >= before), "an old row");
                        continue;
                    }
                    let (stamp, row) = {
                        let page = page.read().unwrap();
                        (cache.stamp(PAGES, 0), tid(*page, nth as u16 + 1))
                    };
                    cache.keep(keys()[nth], stamp, &[row; 2][..count]);
                }
            }));
        }
        let cache = HotKeys::over(&words).unwrap();
        for forgotten in &keys()[..2] {
            let mut page = page.write().unwrap();
            cache.change(PAGES, 0);
            *page += 1;
            cache.forget(*forgotten);
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    };
    shuttle::check_random(run, 2000);
    shuttle::check_pct(run, 2000, 3);
}

#[test]
fn every_interleaving_sees_the_truth() {
    model(|_| false);
}

/// The model finds what it is there for: stamps that do not move, and lines whose numbers do not.
#[test]
fn mistakes_are_noticed() {
    let is_noticed = |deaf: fn(usize) -> bool| catch_unwind(|| model(deaf)).is_err();
    assert!(is_noticed(|at| at < 8), "stamps");
    assert!(is_noticed(|at| at == 8 || at == 16), "numbers");
}

#[test]
fn wide_keys_are_kept() {
    let memory = memory(1 << 16);
    let cache = HotKeys::over(&memory).unwrap();
    for nth in 0..500u128 {
        let wide = hot((nth << 64) | (nth * 7));
        assert_eq!(cache.keep(wide, cache.stamp(PAGES, 9), &[tid(1, 2), tid(3, 4)]), Admission::Yes, "{nth}");
        assert_eq!(rows_of(cache.find(wide)), Some(vec![(1, 2), (3, 4)]), "{nth}");
        assert_eq!(rows_of(cache.find(hot(nth * 7 + 1))), None);
    }
}

/// A scan that says it was over on one leaf has found all rows of its key; one whose rows are on two leaves does not
/// say so.
#[test]
fn rows_on_two_leaves_are_not_taken_for_all() {
    let meta = exact(one_column::<u64>(), small::<u64>());
    let shape = shape_of(&meta);
    let rows_of = |lane: u64| 1 + lane % 3 * 10;
    let rows =
        (0..600).flat_map(|lane| (0..rows_of(lane)).map(move |row| (lane * 2, tid(lane as u32, row as u16 + 1))));
    let store = MemoryStore::new(&load(&meta, 90, rows), 4000);
    let tree: Tree<MemoryStore, u64> = Tree::ordered(&store, &meta.geometry, ());
    let (mut on_one, mut on_two, mut absent) = (0, 0, 0);
    for lane in 0..1200 {
        let mut selection = Selection::new(&shape);
        selection.between(0, lane, lane);
        assert_eq!(selection.one_lane(), Some(lane));
        let (mut cursor, mut matches) = (Cursor::new(Direction::Forward), Box::new(Matches::new()));
        let Some(pin) = cursor.read_page(tree, &selection, false, &mut matches).unwrap() else {
            absent += 1;
            assert_eq!(lane % 2, 1);
            continue;
        };
        pin.unpin(&store);
        let is_all = matches.len() as u64 == rows_of(lane as u64 / 2);
        assert!(is_all || !cursor.is_over_on_one_leaf(), "{lane}");
        on_one += usize::from(cursor.is_over_on_one_leaf());
        on_two += usize::from(!is_all);
    }
    assert!(on_one > 500 && on_two > 5 && absent == 600, "{on_one} on one leaf, {on_two} on two, {absent} on none");
}

/// What is one lane, and what is more or less.
#[test]
fn one_lane_is_one_value_of_each_column() {
    let column = |nulls_first| Column { ty: ColumnType::Int4, descending: false, nulls_first };
    let one = KeyShape::new(&[column(false)]).unwrap();
    let two = KeyShape::new(&[column(false), column(true)]).unwrap();
    let lane = |shape: &KeyShape, select: &dyn Fn(&mut Selection<'_>)| {
        let mut selection = Selection::new(shape);
        select(&mut selection);
        selection.one_lane()
    };
    assert_eq!(lane(&one, &|_| {}), None);
    assert_eq!(lane(&one, &|s| s.between(0, 5, 6)), None);
    assert_eq!(lane(&one, &|s| s.null(0)), None);
    assert_eq!(
        lane(&one, &|s| {
            s.between(0, 5, 5);
            s.between(0, 6, 6)
        }),
        None
    );
    assert_eq!(lane(&one, &|s| s.between(0, 5, 5)), Some(5));
    assert_eq!(lane(&two, &|s| s.between(0, 5, 5)), None);
    assert_eq!(lane(&two, &|s| s.between(1, 5, 5)), None);
    // Each column tells lanes apart, NULL among its values.
    let select = |s: &mut Selection<'_>, column, value: u128| match value {
        3 => s.null(column),
        value => s.between(column, value, value),
    };
    let pairs = (0..4).flat_map(|a| (0..4).map(move |b| (a, b)));
    let lanes: Vec<_> = pairs
        .map(|(a, b)| {
            lane(&two, &|s| {
                select(s, 0, a);
                select(s, 1, b);
            })
        })
        .collect();
    assert!(lanes.iter().all(Option::is_some));
    assert!((1..lanes.len()).all(|at| !lanes[..at].contains(&lanes[at])), "{lanes:?}");
}
