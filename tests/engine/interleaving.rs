//! Whatever may happen between two locks, does: each time an operation holds no lock and reaches for a page, others run
//! from beginning to end before it goes on. One thread and a seed, so that what fails fails again.

use crate::common::bytes::{SMALL_KEY, TINY_KEY, Taste};
use crate::common::*;
use fpbtree_engine::cache::descents::Marks;
use fpbtree_engine::format::{Block, Geometry, Mark, PageBytes, Result, Tid};
use fpbtree_engine::keys::bytes::MOST_KEY;
use fpbtree_engine::keys::digits::{DigitKind, ValueLength};
use fpbtree_engine::log::{Change, Horizon};
use fpbtree_engine::page::{Keys, Page};
use fpbtree_engine::scan::{Cursor, Direction, Matches, Wanted};
use fpbtree_engine::store::memory::{FrameId, MemoryStore};
use fpbtree_engine::store::{
    DeadSearch, Exclusive, Frames, Hints, LockMode, Locked, Mode, Observers, PageStore, Pinned, Seen, Store, Suspect,
    Writable,
};
use fpbtree_engine::tree::{DeadTids, InsertOptions, Tree, Verdict};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::ops::AddAssign;

/// Rows in these heap blocks come and go.
const PASSING: u32 = 1 << 30;

/// A store where others are at work.
struct Busy<C: KeyMaker> {
    case: C,
    /// Whether no two rows may have the same key.
    unique: bool,
    store: MemoryStore,
    geometry: Geometry,
    random: RefCell<StdRng>,
    lasting: Vec<C::Row>,
    /// The rows that come and go, as they are now.
    passing: RefCell<BTreeSet<C::Row>>,
    /// Those of them that died, whose entries may be there or not.
    dead: RefCell<BTreeSet<Tid>>,
    /// How many there have been.
    rows: Cell<u64>,
    locks: Cell<usize>,
    pins: Cell<usize>,
    vacuuming: Cell<bool>,
    interruptions: Cell<usize>,
    /// Pages that others deleted.
    deleted: Cell<usize>,
    /// Of them inner pages.
    folded: Cell<usize>,
    /// Entries of dead rows that made room.
    removed: Cell<usize>,
    /// Rows that were not inserted.
    refused: Cell<usize>,
    /// Where serializable conflicts were looked for last.
    checked: Cell<Block>,
}

impl<C: KeyMaker> Busy<C> {
    fn new(case: C, unique: bool, lasting: u64, seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let mut lasting: Vec<_> = (0..lasting).map(|number| case.random_row(&mut random, number)).collect();
        lasting.sort();
        if unique {
            lasting.dedup_by(|a, b| C::same_key(a, b));
        }
        Busy {
            unique,
            // Leaves are remembered, or hardly, or not.
            store: MemoryStore::new(&load_rows(&case, 80, lasting.iter()), 8000)
                .with_descents([1 << 20, 8 << 10, 0][(seed % 3) as usize]),
            geometry: case.meta().geometry,
            case,
            random: RefCell::new(random),
            lasting,
            passing: RefCell::default(),
            dead: RefCell::default(),
            rows: Cell::new(0),
            locks: Cell::new(0),
            pins: Cell::new(0),
            vacuuming: Cell::new(false),
            interruptions: Cell::new(0),
            deleted: Cell::new(0),
            folded: Cell::new(0),
            removed: Cell::new(0),
            refused: Cell::new(0),
            checked: Cell::new(0),
        }
    }

    /// The tree where others are at work.
    fn tree(&self) -> Tree<'_, Self, C::Keys> {
        Tree::ordered(self, &self.geometry, self.case.order())
    }

    /// The tree of those that nobody interrupts.
    fn others_tree(&self) -> Tree<'_, MemoryStore, C::Keys> {
        Tree::ordered(&self.store, &self.geometry, self.case.order())
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
            let is_dead = |tid: Tid| tid.block() & PASSING != 0 && (!few || tid.block() % 7 == part);
            self.passing.borrow_mut().retain(|row| !is_dead(C::tid(row)));
            self.dead.borrow_mut().retain(|row| !is_dead(*row));
            let stats = self
                .others_tree()
                .vacuum(&mut DeadTids::new(&mut memory_to_ask()), &mut { is_dead }, &mut |_, _, _| {}, &mut |_| {})
                .unwrap();
            self.deleted.set(self.deleted.get() + stats.deleted_pages as usize);
            self.folded.set(self.folded.get() + stats.folded_pages as usize);
        } else if self.passing.borrow().len() < 600 {
            if self.roll(18) == 0 {
                self.let_some_die();
            }
            for _ in 0..=self.roll(16) {
                self.insert(self.others_tree());
            }
        }
    }

    /// Some of the rows that come and go are dead to everyone from now on; of some of these that is noticed.
    fn let_some_die(&self) {
        let part = self.roll(3);
        let dies = |tid: Tid| tid.block() % 3 == part;
        self.passing.borrow_mut().retain(|row| {
            let tid = C::tid(row).position();
            if dies(tid) {
                self.store.bury(tid);
                self.dead.borrow_mut().insert(tid);
            }
            !dies(tid)
        });
        let (dead, tree) = (self.dead.borrow(), self.others_tree());
        let noticed = |tid: Tid| dead.contains(&tid.position()) && tid.block().is_multiple_of(2);
        let mut places = Vec::new();
        for_each_leaf(tree, |block, page| {
            for node in (0..page.nodes()).map(|node| page.node(node)) {
                let slots = (0..node.len()).filter(|&slot| noticed(node.tid(slot)));
                places.extend(slots.map(|slot| (block, node.tid_at(slot) as u16)));
            }
        });
        for (block, place) in places {
            mark_in(&self.store, block, &[place]);
        }
    }

    /// Inserts a new row, unless one like it is in its way.
    fn insert(&self, tree: Tree<'_, impl Store, C::Keys>) {
        self.rows.set(self.rows.get() + 1);
        let block = PASSING + (self.rows.get() as u32).wrapping_mul(0x9E37_79B1) % PASSING;
        let row = self.case.random_row(&mut self.random.borrow_mut(), u64::from(block) * 100);
        if let Some(obstacle) = self.try_insert(tree, &row) {
            self.refused.set(self.refused.get() + 1);
            let passing = self.passing.borrow();
            let mut rows = passing.iter().chain(&self.lasting);
            let is_in_the_way = |other| C::same_key(&row, other) && C::tid(other).position() == obstacle;
            assert!(rows.any(is_in_the_way), "nothing is in the way");
        } else {
            // Nobody may remove it before it is there.
            self.passing.borrow_mut().insert(row);
        }
    }

    /// Inserts a row, or says which one is in its way.
    fn try_insert(&self, tree: Tree<'_, impl Store, C::Keys>, row: &C::Row) -> Option<Tid> {
        let entry = C::entry(row);
        let options = InsertOptions::filling(90).adding_version(self.roll(2) == 0);
        if !self.unique {
            tree.insert_entry(&entry, options).unwrap();
            return None;
        }
        let mut obstacle = None;
        let mut look = |tid: Tid| {
            if self.dead.borrow().contains(&tid.position()) {
                return Verdict::Dead;
            }
            obstacle = Some(tid.position());
            Verdict::Stop
        };
        let [low, high] = self.case.around(row);
        let around = (C::Keys::borrow(&low, self.case.order()), C::Keys::borrow(&high, self.case.order()));
        let inserted = tree.insert_unique(around, Some(&entry), options, &mut look).unwrap();
        assert_eq!(inserted, obstacle.is_none());
        obstacle
    }

    /// What of the rows there are now, in order.
    fn rows<T>(&self, what: impl Fn(&C::Row) -> T) -> Vec<T> {
        let passing = self.passing.borrow();
        let mut rows: Vec<_> = passing.iter().chain(&self.lasting).collect();
        rows.sort();
        rows.into_iter().map(what).collect()
    }

    /// Everything is as it should be.
    fn check(&self) {
        assert_eq!((self.locks.get(), self.pins.get()), (0, 0));
        assert_eq!(flaws(self.others_tree(), self.case.ranks()), Vec::<String>::new());
        let mut found = Vec::new();
        let dead = self.dead.borrow();
        let leaf = |_, page: &Page<'_, C::Keys>| {
            let living = page.iter().filter(|entry| !dead.contains(&entry.tid.position()));
            found.extend(living.map(|entry| self.case.image(&entry)));
        };
        for_each_leaf(self.others_tree(), leaf);
        assert!(found == self.rows(|row| self.case.image_of(row)), "the tree holds something else");
        if self.unique {
            let rows = self.rows(C::Row::clone);
            assert!(rows.windows(2).all(|pair| !C::same_key(&pair[0], &pair[1])), "a key is there twice");
        }
    }
}

impl<C: KeyMaker> Busy<C> {
    /// A page of the store below, which is pinned and locked as this one is.
    fn below<M: LockMode>(&self, page: &Locked<'_, Self, M>) -> Locked<'_, MemoryStore, M> {
        // SAFETY: it is the same pin and the same lock, and nobody gives them back twice.
        unsafe { Locked::new(&self.store, page.frame()) }
    }

    fn pinned(&self, pinned: Pinned<MemoryStore>) -> Pinned<Self> {
        self.pins.set(self.pins.get() + 1);
        // SAFETY: just pinned.
        unsafe { Pinned::new(pinned.frame()) }
    }
}

impl<C: KeyMaker> Frames for Busy<C> {
    type Frame = FrameId;

    unsafe fn block_in(&self, frame: FrameId) -> Block {
        // SAFETY: what the caller knows of the frame, the store below does.
        unsafe { self.store.block_in(frame) }
    }

    unsafe fn unpin(&self, frame: FrameId) {
        self.pins.set(self.pins.get() - 1);
        // SAFETY: what the caller knows of the frame, the store below does.
        unsafe { self.store.unpin(frame) };
    }

    unsafe fn lock(&self, frame: FrameId, mode: Mode) {
        self.interrupt();
        self.locks.set(self.locks.get() + 1);
        // SAFETY: what the caller knows of the frame, the store below does.
        unsafe { self.store.lock(frame, mode) };
    }

    unsafe fn try_cleanup(&self, id: FrameId) -> bool {
        // SAFETY: as for the caller.
        let is_locked = unsafe { self.store.try_cleanup(id) };
        self.locks.set(self.locks.get() + usize::from(is_locked));
        is_locked
    }

    unsafe fn unlock(&self, frame: FrameId) {
        self.locks.set(self.locks.get() - 1);
        // SAFETY: what the caller knows of the frame, the store below does.
        unsafe { self.store.unlock(frame) };
    }

    unsafe fn bytes_in(&self, frame: FrameId) -> &PageBytes {
        // SAFETY: what the caller knows of the frame, the store below does.
        unsafe { self.store.bytes_in(frame) }
    }

    unsafe fn lsn_in(&self, frame: FrameId) -> u64 {
        // SAFETY: what the caller knows of the frame, the store below does.
        unsafe { self.store.lsn_in(frame) }
    }

    unsafe fn set_bits(&self, frame: FrameId, offsets: &[u16], mask: u8) {
        // SAFETY: what the caller knows of the frame, the store below does.
        unsafe { self.store.set_bits(frame, offsets, mask) };
    }
}

impl<C: KeyMaker> PageStore for Busy<C> {
    fn pin(&self, block: Block) -> Result<Pinned<Self>> {
        self.interrupt();
        self.store.pin(block).map(|pinned| self.pinned(pinned))
    }

    fn pin_likely(&self, block: Block) -> Result<Option<Pinned<Self>>> {
        if block < self.store.block_count() { self.pin(block).map(Some) } else { Ok(None) }
    }

    fn allocate(&self) -> Result<Locked<'_, Self, Exclusive>> {
        self.pins.set(self.pins.get() + 1);
        self.locks.set(self.locks.get() + 1);
        let locked = self.store.allocate()?;
        // SAFETY: just pinned and locked.
        Ok(unsafe { Locked::new(self, locked.frame()) })
    }

    fn free(&self, block: Block) {
        self.store.free(block);
    }

    fn now(&self) -> u64 {
        self.store.now()
    }

    fn is_past(&self, time: u64) -> bool {
        self.store.is_past(time)
    }

    fn block_count(&self) -> Block {
        self.store.block_count()
    }

    fn commit(&self, pages: &[Writable<'_, Self>], change: &Change<'_>) {
        // SAFETY: the pages are pinned and exclusively locked.
        let below = |page: &Writable<'_, Self>| unsafe { Locked::<_, Exclusive>::new(&self.store, page.frame()) };
        let mut below: Vec<_> = pages.iter().map(below).collect();
        let pages: Vec<_> = below.iter_mut().map(Locked::writable).collect();
        self.store.commit(&pages, change);
    }

    fn check_interrupts(&self) {}
}

impl<C: KeyMaker> Observers for Busy<C> {
    fn note_insert(&self, leaf: &Locked<'_, Self, Exclusive>, stretch: u64) {
        self.checked.set(leaf.block());
        self.store.note_insert(&self.below(leaf), stretch);
    }

    fn find_dead(
        &self,
        leaf: &Locked<'_, Self, Exclusive>,
        suspects: &mut [Suspect],
        search: DeadSearch,
    ) -> Option<Horizon> {
        let horizon = self.store.find_dead(&self.below(leaf), suspects, search);
        let found = suspects.iter().filter(|suspect| suspect.is_dead).count();
        self.removed.set(self.removed.get() + found);
        horizon
    }
}

impl<C: KeyMaker> Hints for Busy<C> {
    fn likely_leaf(&self, stretch: u64) -> Option<Block> {
        self.store.likely_leaf(stretch)
    }

    fn seen_leaf(&self, mark: Mark) -> Option<Seen<FrameId>> {
        self.store.seen_leaf(mark)
    }

    fn note_leaf<M: LockMode>(
        &self,
        leaf: &Locked<'_, Self, M>,
        wanted: Mark,
        marks: Option<Marks>,
        stale: Option<&Seen<FrameId>>,
    ) {
        self.store.note_leaf(&self.below(leaf), wanted, marks, stale);
    }
}

/// Scans, to and fro or not: the lasting rows come in order, each when its turn is. Where a scan does not turn, the
/// others come once each, those that are there all the time for certain.
fn walk<C: KeyMaker>(busy: &Busy<C>, selection: &impl Wanted<C::Keys>, wanted: impl Fn(&C::Row) -> bool) {
    let image = |row: &C::Row| busy.case.image_of(row);
    let lasting: Vec<_> = busy.lasting.iter().filter(|row| wanted(row)).map(image).collect();
    let here = || -> BTreeSet<Tid> {
        let passing = busy.passing.borrow();
        passing.iter().filter(|row| wanted(row)).map(|row| C::tid(row).position()).collect()
    };
    let (before, mut seen) = (here(), BTreeSet::new());
    let mut matches = Box::new(Matches::new());
    let mut cursor = Cursor::new(if busy.roll(2) == 0 { Direction::Forward } else { Direction::Backward });
    let start = if cursor.direction() == Direction::Forward { 0 } else { lasting.len() };
    let (mut from, mut to) = (start, start);
    let turns = busy.roll(2) == 0;
    loop {
        if turns && busy.roll(5) == 0 {
            cursor.turn();
        }
        let read = cursor.read_page(busy.tree(), selection, false, &mut matches).unwrap();
        let is_passing = |tid: &Tid| tid.block() & PASSING != 0;
        for tid in matches.tids().iter().filter(|tid| is_passing(tid)) {
            assert!(seen.insert(tid.position()) || turns, "a row comes twice");
        }
        let tids = matches.tids().iter();
        let images = busy.case.images(&matches).into_iter().zip(tids);
        let mut found: Vec<_> = images.filter(|(_, tid)| !is_passing(tid)).map(|(image, _)| image).collect();
        if cursor.direction() == Direction::Backward {
            found.reverse();
        }
        (from, to) = match cursor.direction() {
            Direction::Forward => (to, to + found.len()),
            Direction::Backward => (from - found.len().min(from), from),
        };
        assert_eq!(Some(&found[..]), lasting.get(from..to));
        match read {
            Some(pin) => pin.unpin(busy),
            None => {
                let end = if cursor.direction() == Direction::Forward { lasting.len() } else { 0 };
                assert_eq!((from, to), (end, end));
                break;
            }
        }
    }
    let after = here();
    assert!(turns || before.intersection(&after).all(|tid| seen.contains(tid)), "a row is missing");
}

/// What others, and luck, did to a tree.
#[derive(Default, Debug)]
struct Tally {
    /// Pages that others deleted.
    deleted: usize,
    /// Inner pages, too.
    folded: usize,
    /// Entries of dead rows that made room.
    removed: usize,
    /// Rows that were not inserted.
    refused: usize,
    /// The most in-page nodes of leaves that were runs.
    runs: usize,
    levels: u8,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.deleted += other.deleted;
        self.folded += other.folded;
        self.removed += other.removed;
        self.refused += other.refused;
        self.runs += other.runs;
        self.levels = self.levels.max(other.levels);
    }
}

fn interleave<C: KeyMaker>(case: C, unique: bool, seed: u64) -> Tally {
    // Pages hold more of these, but those that hold any are not deleted.
    let lasting = if case.meta().shape.lane_kind().is_prefix() { 40 } else { 150 };
    let busy = Busy::new(case, unique, lasting, seed);
    let mut tally = Tally::default();
    for _ in 0..120 {
        let operation = busy.roll(4);
        if operation == 0 {
            busy.vacuuming.set(true);
            // Rows that come while it runs may go or stay; those before it go.
            let before: BTreeSet<Tid> = busy.passing.borrow().iter().map(|row| C::tid(row).position()).collect();
            let mut is_dead = |tid: Tid| before.contains(&tid.position());
            busy.tree()
                .vacuum(&mut DeadTids::new(&mut memory_to_ask()), &mut is_dead, &mut |_, _, _| {}, &mut |_| {})
                .unwrap();
            busy.passing.borrow_mut().retain(|row| !before.contains(&C::tid(row).position()));
            busy.vacuuming.set(false);
        } else if operation == 1 {
            let wish = busy.case.random_wish(&mut busy.random.borrow_mut(), &busy.lasting);
            busy.case.wanting(&wish, |selection| walk(&busy, &selection, |row| busy.case.holds(&wish, row)));
        } else {
            for _ in 0..10 {
                busy.insert(busy.tree());
            }
        }
        busy.check();
        let mut runs = 0;
        for_each_leaf(busy.others_tree(), |_, page| runs += page.grouped_nodes());
        tally.runs = tally.runs.max(runs);
        tally.levels = tally.levels.max(busy.others_tree().root_level().unwrap() + 1);
    }
    assert!(busy.interruptions.get() > 500, "{} interruptions", busy.interruptions.get());
    tally.folded = busy.folded.get();
    (tally.deleted, tally.removed, tally.refused) = (busy.deleted.get(), busy.removed.get(), busy.refused.get());
    tally
}

/// The tallies of some seeds, added up.
fn interleave_all<C: KeyMaker>(seeds: std::ops::Range<u64>, case: impl Fn(&mut StdRng) -> C) -> Tally {
    let mut tally = Tally::default();
    for seed in seeds {
        tally += interleave(case(&mut StdRng::seed_from_u64(seed)), false, seed);
    }
    eprintln!("{tally:?}");
    assert!(tally.removed > 20, "{tally:?}");
    tally
}

#[test]
fn with_many_keys() {
    let mut tally = interleave_all(0..6, |_| Lanes::<u32>::small(1 << 30));
    tally += interleave_all(0..6, |_| Lanes::<u64>::small(1 << 60));
    assert!(tally.deleted > 12 * 20, "{tally:?}");
}

#[test]
fn with_few_keys() {
    let mut tally = interleave_all(10..16, |_| Lanes::<u64>::small(4));
    tally += interleave_all(10..16, |_| Lanes::<u128>::small(20));
    assert!(tally.deleted > 12 * 20, "{tally:?}");
}

#[test]
fn with_short_strings() {
    let tally = interleave_all(20..24, |_| Taste::of_kinds(&[DigitKind::Bytes, DigitKind::Fixed(1)], TINY_KEY, 3, 100));
    assert!(tally.deleted > 4 * 20, "{tally:?}");
}

#[test]
fn with_strings_that_begin_alike() {
    let tally = interleave_all(30..34, |_| Taste::of_kinds(&[DigitKind::Text], TINY_KEY, 1, 1 << 30));
    assert!(tally.deleted > 4 * 20, "{tally:?}");
}

#[test]
fn with_strings_that_share_lanes() {
    let tally = interleave_all(40..44, |_| Taste::of_kinds(&[DigitKind::Text, DigitKind::Fixed(4)], TINY_KEY, 2, 1000));
    assert!(tally.deleted > 4 * 20, "{tally:?}");
}

/// A few entries fill a page.
#[test]
fn with_the_longest_strings() {
    let tally = interleave_all(50..54, |_| Taste::of_kinds(&[DigitKind::Text], MOST_KEY, 4, 1 << 30));
    assert!(tally.levels > 3 && tally.deleted > 4 * 20, "{tally:?}");
}

#[test]
fn with_few_strings() {
    let tally =
        interleave_all(60..64, |random| Taste::of_kinds(&[DigitKind::Text], TINY_KEY, 2, 1000).repeating(random));
    assert!(tally.runs > 4 * 10 && tally.deleted > 4 * 10, "{tally:?}");
}

/// Strings that a function orders: some differ and are equal.
#[test]
fn with_opaque_strings() {
    let tally = interleave_all(70..76, |random| {
        let (prefix, flavour) = *[(0, 0), (0, 2), (3, 2), (12, 1)].choose(random).expect("some sort");
        let kinds = [DigitKind::Opaque { prefix, value: ValueLength::Variable }, DigitKind::Fixed(2)];
        let strings = Taste::of_kinds(&kinds, TINY_KEY, flavour, 1000);
        if random.random() { strings.repeating(random) } else { strings }
    });
    assert!(tally.deleted > 6 * 10, "{tally:?}");
}

#[test]
fn with_strings_of_every_taste() {
    let tally = interleave_all(80..88, |random| {
        let most = *[SMALL_KEY, SMALL_KEY, MOST_KEY].choose(random).expect("some length");
        Taste::random(random, most)
    });
    assert!(tally.deleted > 8 * 10, "{tally:?}");
}

/// A key goes in once, whatever others insert meanwhile.
#[test]
fn with_unique_keys() {
    let mut tally = Tally::default();
    for seed in 90..92 {
        tally += interleave(Lanes::<u64>::small(400), true, seed);
        tally += interleave(Taste::of_kinds(&[DigitKind::Text], TINY_KEY, 1, 400), true, seed);
        let opaque = DigitKind::Opaque { prefix: 3, value: ValueLength::CString };
        tally += interleave(Taste::of_kinds(&[opaque], TINY_KEY, 2, 100), true, seed);
    }
    assert!(tally.refused > 6 * 20 && tally.deleted > 6 * 10, "{tally:?}");
}

/// Others work while a root grows that is the only leaf, over and over. A writer looks for serializable conflicts on a
/// leaf, also when the root stops being one under its hands: a reader may have come to the new leaf meanwhile.
fn grow_roots<C: KeyMaker>(case: impl Fn() -> C) {
    // Now we, now others come upon the full root.
    for seed in 0..40 {
        let busy = Busy::new(case(), seed % 2 > 0, 0, seed);
        for row in 0..50 {
            busy.insert(busy.tree());
            let page = busy.store.copy(busy.checked.get());
            let leaf = Page::<C::Keys>::open(&page, &busy.geometry, busy.checked.get()).unwrap();
            assert_eq!(leaf.level(), 0, "seed {seed}, row {row}");
            busy.check();
        }
    }
}

#[test]
fn while_roots_grow() {
    grow_roots(|| Lanes::<u64>::small(60));
    grow_roots(|| Taste::of_kinds(&[DigitKind::Text], TINY_KEY, 1, 60));
}
