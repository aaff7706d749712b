//! Whatever may happen between two locks, does: each time an operation holds no lock and reaches for a page, others run
//! from beginning to end before it goes on. One thread and a seed, so that what fails fails again.

mod common;

use common::*;
use fpbtree_engine::change::Change;
use fpbtree_engine::key::{Key, Lane, Tail};
use fpbtree_engine::page::{Geometry, Meta, Page};
use fpbtree_engine::scan::{Cursor, Direction, Matches, Selection};
use fpbtree_engine::store::memory::{MemoryStore, Pin};
use fpbtree_engine::store::{Block, Mode, PageBytes, PageStore, Result};
use fpbtree_engine::tree::Tree;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

/// Rows in these heap blocks come and go.
const PASSING: u32 = 1 << 30;

/// A store where others are at work.
struct Busy<L> {
    store: MemoryStore,
    geometry: Geometry,
    random: RefCell<StdRng>,
    /// The rows that come and go, as they are now.
    passing: RefCell<BTreeSet<Key<L>>>,
    spread: u128,
    locks: Cell<usize>,
    pins: Cell<usize>,
    vacuuming: Cell<bool>,
    interruptions: Cell<usize>,
    /// Pages that others deleted.
    deleted: Cell<usize>,
    /// Where serializable conflicts were looked for last.
    checked: Cell<Block>,
}

impl<L: Lane> Busy<L> {
    fn new(pages: &[PageBytes], geometry: Geometry, seed: u64, spread: u128) -> Self {
        Busy {
            store: MemoryStore::new(pages, 8000),
            geometry,
            random: RefCell::new(StdRng::seed_from_u64(seed)),
            passing: RefCell::default(),
            spread,
            locks: Cell::new(0),
            pins: Cell::new(0),
            vacuuming: Cell::new(false),
            interruptions: Cell::new(0),
            deleted: Cell::new(0),
            checked: Cell::new(0),
        }
    }

    /// A number less than `sides`.
    fn roll(&self, sides: u32) -> u32 {
        self.random.borrow_mut().random_range(0..sides)
    }

    /// Others work, unless what is interrupted would keep them from it.
    fn interrupt(&self) {
        if self.locks.get() > 0 || self.roll(3) > 0 {
            return;
        }
        self.interruptions.set(self.interruptions.get() + 1);
        // VACUUM waits for pins, and for the VACUUM before it.
        if self.pins.get() == 0 && !self.vacuuming.get() && self.roll(6) == 0 {
            let (few, part) = (self.roll(2) == 0, self.roll(7));
            let is_dead = |tail: Tail| tail.block() & PASSING != 0 && (!few || tail.block() % 7 == part);
            self.passing.borrow_mut().retain(|key| !is_dead(key.tail));
            let tree = Tree::<_, L>::new(&self.store, &self.geometry);
            let stats = tree.vacuum(&mut { is_dead }, &mut |_, _, _| {}).unwrap();
            self.deleted.set(self.deleted.get() + stats.deleted_pages as usize);
        } else if self.passing.borrow().len() < 600 {
            for _ in 0..=self.roll(16) {
                let (lane, tail) = self.new_row();
                Tree::<_, L>::new(&self.store, &self.geometry).insert(lane, tail, 90).unwrap();
            }
        }
    }

    /// A row that is not there yet, and now counts as there.
    fn new_row(&self) -> (L, Tail) {
        let (mut random, mut passing) = (self.random.borrow_mut(), self.passing.borrow_mut());
        let lane = random.random_range(0..self.spread) * (L::MAX.to_u128() / self.spread);
        let tail = loop {
            let tail = Tail::new(false, PASSING | random.random_range(0..PASSING), 1, false);
            if passing.iter().all(|key| key.tail != tail) {
                break tail;
            }
        };
        passing.insert(Key::new(L::from_u128(lane), tail));
        (L::from_u128(lane), tail)
    }
}

impl<L: Lane> PageStore for Busy<L> {
    type Pin = Pin;

    fn pin(&self, block: Block) -> Result<Pin> {
        self.interrupt();
        self.pins.set(self.pins.get() + 1);
        self.store.pin(block)
    }

    fn unpin(&self, pin: Pin) {
        self.pins.set(self.pins.get() - 1);
        self.store.unpin(pin);
    }

    fn block(&self, pin: Pin) -> Block {
        self.store.block(pin)
    }

    fn lock(&self, pin: Pin, mode: Mode) {
        self.interrupt();
        self.locks.set(self.locks.get() + 1);
        self.store.lock(pin, mode);
    }

    fn lock_cleanup(&self, pin: Pin) {
        self.interrupt();
        self.locks.set(self.locks.get() + 1);
        self.store.lock_cleanup(pin);
    }

    fn unlock(&self, pin: Pin) {
        self.locks.set(self.locks.get() - 1);
        self.store.unlock(pin);
    }

    fn bytes(&self, pin: Pin) -> &PageBytes {
        self.store.bytes(pin)
    }

    fn allocate(&self) -> Result<Pin> {
        self.pins.set(self.pins.get() + 1);
        self.locks.set(self.locks.get() + 1);
        self.store.allocate()
    }

    fn free(&self, block: Block) {
        self.store.free(block);
    }

    fn block_count(&self) -> Block {
        self.store.block_count()
    }

    fn commit(&self, change: &Change<'_, Pin>) {
        self.store.commit(change);
    }

    fn set_hint(&self, pin: Pin, offsets: &[u16], mask: u8) {
        self.store.set_hint(pin, offsets, mask);
    }

    fn lsn(&self, pin: Pin) -> u64 {
        self.store.lsn(pin)
    }

    fn check_interrupts(&self) {}

    fn note_insert(&self, pin: Pin) {
        self.checked.set(self.store.block(pin));
    }
}

/// Scans, to and fro: the lasting rows come in order, each when its turn is.
fn scan_through<L: Lane>(busy: &Busy<L>, meta: &Meta, lasting: &[Key<L>]) {
    let tree = Tree::<_, L>::new(busy, &busy.geometry);
    let shape = shape_of(meta);
    let selection = Selection::new(&shape);
    let mut matches = Box::new(Matches::new());
    let mut cursor = Cursor::new(if busy.roll(2) == 0 { Direction::Forward } else { Direction::Backward });
    let start = if cursor.direction() == Direction::Forward { 0 } else { lasting.len() };
    let (mut from, mut to) = (start, start);
    let turns = busy.roll(2) == 0;
    loop {
        if turns && busy.roll(5) == 0 {
            cursor.turn();
        }
        let read = cursor.read_page(tree, &selection, false, &mut matches).unwrap();
        let mut found: Vec<Key<L>> = keys(&matches).filter(|key| key.tail.block() & PASSING == 0).collect();
        if cursor.direction() == Direction::Backward {
            found.reverse();
        }
        (from, to) = match cursor.direction() {
            Direction::Forward => (to, to + found.len()),
            Direction::Backward => (from - found.len().min(from), from),
        };
        assert_eq!(found, lasting[from..to]);
        match read {
            Some(pin) => busy.unpin(pin),
            None => {
                let end = if cursor.direction() == Direction::Forward { lasting.len() } else { 0 };
                assert_eq!((from, to), (end, end));
                return;
            }
        }
    }
}

/// Returns how many pages others deleted.
fn interleave<L: Lane>(seed: u64, geometry: Geometry, spread: u128) -> usize {
    let meta = exact(one_column::<L>(), geometry);
    let lane = |at: u64| u128::from(at) * spread / 150 * (L::MAX.to_u128() / spread);
    let mut lasting: Vec<Key<L>> =
        (0..150).map(|at| key::<L>(lane(at), at)).map(|(lane, tail)| Key::new(lane, tail)).collect();
    lasting.sort_unstable();
    let pages = load(&meta, 80, lasting.iter().map(|key| (key.lane, key.tail)));
    let busy = Busy::<L>::new(&pages, geometry, seed, spread);
    let tree = Tree::<_, L>::new(&busy, &busy.geometry);
    for _ in 0..80 {
        let operation = busy.roll(4);
        if operation == 0 {
            busy.vacuuming.set(true);
            // Rows that come while it runs may go or stay; those before it go.
            let before: BTreeSet<Tail> = busy.passing.borrow().iter().map(|key| key.tail.position()).collect();
            let mut is_dead = |tail: Tail| before.contains(&tail.position());
            tree.vacuum(&mut is_dead, &mut |_, _, _| {}).unwrap();
            busy.passing.borrow_mut().retain(|key| !before.contains(&key.tail.position()));
            busy.vacuuming.set(false);
        } else if operation == 1 {
            scan_through(&busy, &meta, &lasting);
        } else {
            for _ in 0..10 {
                let (lane, tail) = busy.new_row();
                // Nobody may remove it before it is there.
                busy.passing.borrow_mut().remove(&Key::new(lane, tail));
                tree.insert(lane, tail, 90).unwrap();
                busy.passing.borrow_mut().insert(Key::new(lane, tail));
            }
        }
        assert_eq!((busy.locks.get(), busy.pins.get()), (0, 0));
        let store = Tree::<_, L>::new(&busy.store, &busy.geometry);
        assert_eq!(problems(store, &shape_of(&meta)), Vec::<String>::new());
        let mut expected: Vec<Key<L>> = busy.passing.borrow().iter().chain(&lasting).copied().collect();
        expected.sort_unstable();
        assert!(
            entries(store).iter().map(|entry| entry.key()).eq(expected),
            "seed {seed}: the tree holds something else"
        );
    }
    assert!(busy.interruptions.get() > 500, "{} interruptions", busy.interruptions.get());
    busy.deleted.get()
}

#[test]
fn with_many_keys() {
    let mut deleted = 0;
    for seed in 0..6 {
        deleted += interleave::<u32>(seed, small::<u32>(), 1 << 30);
        deleted += interleave::<u64>(seed, small::<u64>(), 1 << 60);
    }
    assert!(deleted > 12 * 20, "{deleted} pages deleted");
}

#[test]
fn with_few_keys() {
    let mut deleted = 0;
    for seed in 10..16 {
        deleted += interleave::<u64>(seed, small::<u64>(), 4);
        deleted += interleave::<u128>(seed, small::<u128>(), 20);
    }
    assert!(deleted > 12 * 20, "{deleted} pages deleted");
}

/// A writer looks for serializable conflicts on a leaf, also when the root stops being one under its hands: a reader may
/// have come to the new leaf meanwhile.
#[test]
fn conflicts_are_looked_for_on_leaves() {
    let geometry = small::<u64>();
    let meta = exact(one_column::<u64>(), geometry);
    // Now we, now others come upon the full root.
    for seed in 0..20 {
        let busy = Busy::<u64>::new(&load::<u64>(&meta, 80, core::iter::empty()), geometry, seed, 1 << 60);
        for at in 0..50 {
            let (lane, tail) = key(u128::from(at), at);
            Tree::<_, u64>::new(&busy, &busy.geometry).insert(lane, tail, 90).unwrap();
            let page = busy.store.copy(busy.checked.get());
            assert_eq!(Page::<u64>::open(&page, &geometry, busy.checked.get()).unwrap().level(), 0, "row {at}");
        }
    }
}
