//! Many threads on one tree: writers, readers both ways, and one VACUUM after another.

#[path = "engine/common/mod.rs"]
mod common;

use common::*;
use fpbtree_engine::format::{Key, Lane, Tid};
use fpbtree_engine::page::Meta;
use fpbtree_engine::scan::{Cursor, Direction, Matches, Selection, kill};
use fpbtree_engine::store::PageStore;
use fpbtree_engine::store::memory::MemoryStore;
use fpbtree_engine::tree::{DeadTids, Seek, Tree};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeSet;
use std::io::{Write, stderr};
use std::process::abort;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{panic, thread};

/// In the heap block of rows that are there from the beginning to the end.
const STAYS: u32 = 1 << 30;
/// In that of rows that VACUUM removes.
const DOOMED: u32 = 1 << 29;

/// Ends the process where a test would hang: a thread that fails leaves its locks to the others. A test that takes a
/// minute longer than it should hangs, too.
struct Watch(Arc<AtomicBool>);

impl Watch {
    fn start(time: Duration) -> Watch {
        panic::set_hook(Box::new(|failure| end(&failure.to_string())));
        let done = Arc::new(AtomicBool::new(false));
        let watched = done.clone();
        thread::spawn(move || {
            thread::sleep(time + Duration::from_secs(60));
            if !watched.load(Ordering::Relaxed) {
                end("the threads wait for one another");
            }
        });
        Watch(done)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn end(why: &str) {
    let _ = writeln!(stderr(), "{why}");
    abort();
}

type Shared<'a, L> = Tree<'a, MemoryStore, L>;

/// Keys that every scan must see exactly once.
fn lasting<L: Lane>(count: u32, spread: u128) -> BTreeSet<Key<L>> {
    let lane = |at: u32| L::from_u128(u128::from(at) * spread / u128::from(count) * (L::MAX.to_u128() / spread));
    (0..count).map(|at| Key::new(lane(at), Tid::new(false, STAYS | at, 1, false))).collect()
}

/// Scans until `stop`: nothing that lasts is lost or seen twice, and all comes in order.
fn read<L: Lane + Send + Sync>(
    tree: Shared<'_, L>,
    meta: &Meta,
    lasting: &BTreeSet<Key<L>>,
    direction: Direction,
    stop: &AtomicBool,
) -> usize {
    let (mut matches, mut scans) = (Box::new(Matches::new()), 0);
    let shape = shape_of(meta);
    let selection = Selection::new(&shape);
    while !stop.load(Ordering::Relaxed) {
        let mut cursor = Cursor::new(direction);
        let (mut expected, mut last) = (lasting.iter(), None);
        while let Some(mut pin) = cursor.read_page(tree, &selection, false, &mut matches).unwrap() {
            for key in keys(&matches) {
                let in_order =
                    last.is_none_or(|last| if direction == Direction::Forward { last < key } else { last > key });
                assert!(in_order, "{key:?} comes after {last:?}");
                last = Some(key);
                if key.tid.block() & STAYS != 0 {
                    let next = if direction == Direction::Forward { expected.next() } else { expected.next_back() };
                    assert_eq!(next, Some(&key), "{direction:?}");
                }
            }
            // As in an index-only scan: what was read stays in the tree while its page is pinned, dead or not.
            if let Some(key) = keys(&matches).nth(scans % matches.len()).filter(|_| scans % 2 == 0) {
                thread::yield_now();
                assert!(holds(tree, key), "{key:?} was removed under a pin");
                let place = matches.flags_at(scans % matches.len());
                pin = kill(tree.store(), pin, cursor.lsn(), &[place]);
            }
            pin.unpin(tree.store());
        }
        assert_eq!(expected.next(), None, "{direction:?}");
        scans += 1;
    }
    scans
}

fn holds<L: Lane>(tree: Shared<'_, L>, key: Key<L>) -> bool {
    let pin = tree.leaf(Seek::At(key)).unwrap();
    let page = tree.page(&pin).unwrap();
    let found = page.key(page.lower_bound(key)) == Some(key);
    pin.release();
    found
}

/// Inserts rows of its own until `stop`, and says which.
fn write<L: Lane + Send + Sync>(tree: Shared<'_, L>, thread: u32, spread: u128, stop: &AtomicBool) -> Vec<Key<L>> {
    let mut random = StdRng::seed_from_u64(thread.into());
    let mut written = Vec::new();
    for row in 0..40_000 {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let doomed = if random.random_ratio(4, 5) { DOOMED } else { 0 };
        let place = if row % 3 == 0 { u128::from(row) % spread } else { random.random_range(0..spread) };
        let lane = L::from_u128(place * (L::MAX.to_u128() / spread));
        let tid = Tid::new(false, doomed | thread << 20 | row, 1, false);
        tree.insert(lane, tid, 90).unwrap();
        written.push(Key::new(lane, tid));
    }
    written
}

fn together<L: Lane + Send + Sync>(spread: u128, time: Duration) {
    let _watch = Watch::start(time);
    let meta = exact(one_column::<L>(), small::<L>());
    let lasting = lasting::<L>(1500, spread);
    let pages = load(&meta, 70, lasting.iter().map(|key| (key.lane, key.tid)));
    let store = MemoryStore::new(&pages, 30_000);
    store.shake();
    let tree = Tree::<_, L>::new(&store, &meta.geometry);
    let (stop, stop_vacuum) = (AtomicBool::new(false), AtomicBool::new(false));
    let (scans, deleted) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let (meta_ref, lasting_ref) = (&meta, &lasting);
    let written: Vec<Key<L>> = thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|id| {
                scope.spawn({
                    let stop = &stop;
                    move || write(tree, id, spread, stop)
                })
            })
            .collect();
        for direction in [Direction::Forward, Direction::Backward, Direction::Forward, Direction::Backward] {
            let (stop, scans) = (&stop, &scans);
            scope.spawn(move || scans.fetch_add(read(tree, meta_ref, lasting_ref, direction, stop), Ordering::Relaxed));
        }
        scope.spawn(|| {
            while !stop_vacuum.load(Ordering::Relaxed) {
                let mut is_dead = |tid: Tid| tid.block() & DOOMED != 0;
                let stats = tree
                    .vacuum(&mut DeadTids::new(&mut memory_to_ask()), &mut is_dead, &mut |_, _, _| {}, &mut |_| {})
                    .unwrap();
                deleted.fetch_add(stats.deleted_pages as usize, Ordering::Relaxed);
                // The map of free pages may be wrong.
                for block in 0..10 {
                    tree.store()
                        .free(1 + (stats.entries as u32).wrapping_mul(block) % (tree.store().block_count() + 5));
                }
                assert!(tree.census().unwrap().entries >= lasting_ref.len() as u64);
            }
        });
        let started = Instant::now();
        // Longer where others keep the processors busy, so that VACUUM has its turns.
        let has_deleted = || deleted.load(Ordering::Relaxed) > 20;
        while started.elapsed() < time || !has_deleted() && started.elapsed() < 10 * time {
            thread::sleep(Duration::from_millis(20));
        }
        stop.store(true, Ordering::Relaxed);
        stop_vacuum.store(true, Ordering::Relaxed);
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });
    assert!(store.is_quiet());
    assert!(scans.into_inner() > 4, "hardly any scan came to its end");
    assert!(deleted.into_inner() > 20, "hardly any page was deleted");
    let mut model = lasting;
    model.extend(&written);
    let mut bed = Bed::on(meta, store, model);
    bed.vacuum_at_last(|tid| tid.block() & DOOMED != 0);
}

impl<L: Lane> Bed<L> {
    /// One last VACUUM, after which nothing doomed is left and nothing else lost.
    fn vacuum_at_last(&mut self, mut is_dead: impl FnMut(Tid) -> bool) {
        self.model.retain(|key| !is_dead(key.tid));
        self.tree()
            .vacuum(&mut DeadTids::new(&mut memory_to_ask()), &mut is_dead, &mut |_, _, _| {}, &mut |_| {})
            .unwrap();
        assert_eq!(problems(self.tree(), &shape_of(&self.meta)), Vec::<String>::new());
        assert!(entries(self.tree()).iter().map(|entry| entry.key()).eq(self.model.iter().copied()));
        assert!(self.store.is_quiet());
    }
}

#[test]
fn many_keys() {
    together::<u32>(1 << 30, Duration::from_secs(5));
}

#[test]
fn few_keys() {
    together::<u128>(5, Duration::from_secs(5));
}
