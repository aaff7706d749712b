//! Threads that insert the same keys into a unique tree: each key goes in once, whatever splits meanwhile.

use crate::common::*;
use fpbtree_engine::format::{Geometry, Key, Lane, NO_BLOCK, Tid};
use fpbtree_engine::page::Entry;
use fpbtree_engine::store::memory::MemoryStore;
use fpbtree_engine::tree::{InsertOptions, Tree, Verdict};
use std::sync::Barrier;
use std::thread;

const THREADS: u16 = 3;

/// Inserts a key unless it is there, whatever its row.
fn insert<L: Lane>(tree: Tree<'_, MemoryStore, L>, lane: L, tid: Tid) -> bool {
    let places = (Key { lane, tid: Tid::first(false) }, Key { lane, tid: Tid::last(false) });
    let entry = Entry { key: lane, tid, child: NO_BLOCK };
    tree.insert_unique(places, Some(&entry), InsertOptions::filling(90), &mut |_| Verdict::Stop)
        .expect("the insertion succeeds")
}

/// Threads race to insert `keys` keys, each in the same order, into an empty tree.
fn race<L: Lane + Sync>(geometry: Geometry, keys: u32) {
    let bed = Bed::<L>::new(geometry, 4000);
    bed.store.shake();
    let barrier = Barrier::new(THREADS.into());
    let inserted: Vec<u32> = thread::scope(|scope| {
        let racers = (0..THREADS).map(|racer| {
            let (bed, barrier) = (&bed, &barrier);
            scope.spawn(move || {
                barrier.wait();
                // In an order that splits pages everywhere.
                let lanes = (0..keys).map(|at| at.wrapping_mul(0x9E37_79B1) % keys);
                lanes
                    .filter(|&at| insert(bed.tree(), L::from_u128(at.into()), Tid::new(false, at, racer + 1, false)))
                    .count() as u32
            })
        });
        let racers: Vec<_> = racers.collect();
        racers.into_iter().map(|racer| racer.join().expect("no racer panics")).collect()
    });
    let lanes: Vec<L> = entries(bed.tree()).iter().map(|entry| entry.key).collect();
    assert!(lanes.windows(2).all(|pair| pair[0] < pair[1]), "a key is there twice");
    assert_eq!(lanes.len() as u32, inserted.iter().sum::<u32>());
    let distinct: std::collections::BTreeSet<u32> = (0..keys).map(|at| at.wrapping_mul(0x9E37_79B1) % keys).collect();
    assert_eq!(lanes.len(), distinct.len(), "a key is missing");
}

#[test]
fn a_key_goes_in_once() {
    race::<u64>(small::<u64>(), 3000);
    race::<u32>(normal::<u32>(), 20_000);
}

/// The root grows while it is the only leaf, over and over: that gives its lock up.
#[test]
fn a_key_goes_in_once_while_the_root_grows() {
    for _ in 0..400 {
        race::<u64>(small::<u64>(), 20);
    }
}

#[test]
fn equal_keys_on_many_pages_are_all_looked_at() {
    let mut bed = Bed::<u64>::new(small::<u64>(), 400);
    for row in 0..200 {
        bed.insert(key(7, row));
    }
    let places = (Key { lane: 7, tid: Tid::first(false) }, Key { lane: 7, tid: Tid::last(false) });
    let mut seen = 0;
    let mut look = |_| {
        seen += 1;
        Verdict::Pass
    };
    assert_eq!(bed.tree().insert_unique(places, None, InsertOptions::filling(90), &mut look), Ok(true));
    assert_eq!(seen, 200);
    // The last of them stands in the way.
    let entry = Entry { key: 7, tid: Tid::new(false, 9, 9, false), child: NO_BLOCK };
    let last = bed.model.last().expect("there are keys").tid;
    let mut look = |tid: Tid| if tid.position() == last { Verdict::Stop } else { Verdict::Pass };
    assert_eq!(bed.tree().insert_unique(places, Some(&entry), InsertOptions::filling(90), &mut look), Ok(false));
    bed.check();
}
