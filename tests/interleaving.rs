//! Whatever may happen between two locks, does: each time an operation holds no lock and reaches for a page, others run
//! from beginning to end before it goes on. One thread and a seed, so that what fails fails again.

mod common;

use common::bytes::{Row, SMALL_KEY, TINY_KEY, Taste, in_one_piece, sort_of};
use common::*;
use fpbtree_engine::cache::descents::Marks;
use fpbtree_engine::format::{Block, Geometry, Key, Lane, NO_BLOCK, PageBytes, Result, Tid};
use fpbtree_engine::keys::bytes::{MOST_KEY, OwnedKey};
use fpbtree_engine::keys::digits::{DigitKind, DigitShape, ValueLength};
use fpbtree_engine::log::{Change, Horizon};
use fpbtree_engine::page::{Bytes, Entry, KeySpace, Keys as _, Meta, Page};
use fpbtree_engine::scan::{Cursor, Direction, Matches, Scannable, Selection, Wanted};
use fpbtree_engine::store::memory::{FrameId, MemoryStore};
use fpbtree_engine::store::{
    Exclusive, Frames, Hints, LockMode, Locked, Mode, Observers, PageStore, Pinned, Search, Seen, Shared, Store,
    Suspect, Writable,
};
use fpbtree_engine::tree::{DeadTids, InsertOptions, Seek, Tree, Verdict};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::marker::PhantomData;
use std::ops::AddAssign;

/// Rows in these heap blocks come and go.
const PASSING: u32 = 1 << 30;

/// A key space, and the rows of it that a test plays with.
trait Case: Sized {
    /// How many rows are there all the time.
    const LASTING: u64;
    type Keys: Scannable;
    type Row: Clone + Debug;
    /// What orders rows. Rows with equal ranks have equal keys.
    type Rank: Ord;
    /// All that is stored of a row.
    type Image: PartialEq + Debug;

    fn meta(&self) -> Meta;
    fn order(&self) -> <Self::Keys as fpbtree_engine::page::Keys>::Order<'_>;
    /// A row with some key, and the heap TID that goes with this number.
    fn row(&self, random: &mut StdRng, number: u64) -> Self::Row;
    fn rank(&self, row: &Self::Row) -> Self::Rank;
    fn entry(row: &Self::Row) -> Entry<'_, Self::Keys>;
    /// The places before and behind all rows with the key of this one.
    fn around(&self, row: &Self::Row) -> [<Self::Keys as fpbtree_engine::page::Keys>::OwnedKey; 2];
    fn image(&self, entry: &Entry<'_, Self::Keys>) -> Self::Image;
    fn matched(&self, matches: &Matches<Self::Keys>) -> Vec<Self::Image>;
    fn load<'r>(&self, rows: impl Iterator<Item = &'r Self::Row>) -> Vec<PageBytes>
    where
        Self: 'r;
    fn problems(&self, tree: Tree<'_, MemoryStore, Self::Keys>) -> Vec<String>;
    /// [Walks](walk) through some of the rows.
    fn scan(busy: &Busy<Self>);

    fn place(&self, row: &Self::Row) -> Place<Self> {
        (self.rank(row), Self::entry(row).tid.position())
    }
}

/// What no two rows share.
type Place<C> = (<C as Case>::Rank, Tid);

/// Lanes of which there are so many.
struct Exact<L>(u128, PhantomData<L>);

fn exact_lanes<L: Lane>(spread: u128) -> Exact<L> {
    Exact(spread, PhantomData)
}

impl<L: Lane> Case for Exact<L> {
    const LASTING: u64 = 150;
    type Keys = L;
    type Row = Key<L>;
    type Rank = L;
    type Image = Key<L>;

    fn meta(&self) -> Meta {
        exact(one_column::<L>(), small::<L>())
    }

    fn order(&self) {}

    fn row(&self, random: &mut StdRng, number: u64) -> Key<L> {
        let (lane, tid) = key(random.random_range(0..self.0) * (L::MAX.to_u128() / self.0), number);
        Key::new(lane, tid)
    }

    fn rank(&self, row: &Key<L>) -> L {
        row.lane
    }

    fn entry(row: &Key<L>) -> Entry<'_, L> {
        Entry { key: row.lane, tid: row.tid, child: NO_BLOCK }
    }

    fn around(&self, row: &Key<L>) -> [Key<L>; 2] {
        [Tid::first(false), Tid::last(false)].map(|tid| Key { tid, ..*row })
    }

    fn image(&self, entry: &Entry<'_, L>) -> Key<L> {
        entry.key()
    }

    fn matched(&self, matches: &Matches<L>) -> Vec<Key<L>> {
        keys(matches).collect()
    }

    fn load<'r>(&self, rows: impl Iterator<Item = &'r Key<L>>) -> Vec<PageBytes> {
        load(&self.meta(), 80, rows.map(|row| (row.lane, row.tid)))
    }

    fn problems(&self, tree: Tree<'_, MemoryStore, L>) -> Vec<String> {
        problems(tree, &shape_of(&self.meta()))
    }

    fn scan(busy: &Busy<Self>) {
        let shape = shape_of(&busy.case.meta());
        let mut selection = Selection::new(&shape);
        if busy.roll(2) == 0 {
            return walk(busy, &selection, |_| true);
        }
        let lane = || busy.lasting[busy.roll(busy.lasting.len() as u32) as usize].lane;
        let (a, b) = (lane(), lane());
        let (low, high) = (a.min(b), a.max(b));
        selection.between(0, low.to_u128(), high.to_u128());
        walk(busy, &selection, |row| (low..=high).contains(&row.lane));
    }
}

/// Byte strings.
struct Strings {
    taste: Taste,
    geometry: Geometry,
}

impl Strings {
    fn of_taste(taste: Taste) -> Self {
        let geometry = bytes::for_keys(taste.most, taste.shape.has_payload());
        Strings { taste, geometry }
    }

    fn new(kinds: &[DigitKind], most: usize, flavour: u32, spread: u32) -> Self {
        let column = |kind: &DigitKind| DigitShape { kind: *kind, descending: false, nulls_first: false };
        Self::of_taste(Taste::new(kinds.iter().map(column).collect(), 0, most, &[flavour], spread))
    }

    fn repeating(self, random: &mut StdRng) -> Self {
        Strings { taste: self.taste.repeating(random), ..self }
    }
}

impl Case for Strings {
    /// Pages hold more of these, but those that hold any are not deleted.
    const LASTING: u64 = 40;
    type Keys = Bytes;
    type Row = Row;
    type Rank = Vec<bytes::Sort>;
    type Image = (Vec<u8>, Vec<u8>, Tid);

    fn meta(&self) -> Meta {
        self.taste.meta(self.geometry)
    }

    fn order(&self) -> <Bytes as fpbtree_engine::page::Keys>::Order<'_> {
        self.taste.order()
    }

    fn row(&self, random: &mut StdRng, number: u64) -> Row {
        self.taste.random_row(random, number)
    }

    fn rank(&self, row: &Row) -> Vec<bytes::Sort> {
        row.values.iter().zip(&self.taste.columns.0).map(|(value, digit)| sort_of(*digit, value)).collect()
    }

    fn entry(row: &Row) -> Entry<'_, Bytes> {
        row.entry()
    }

    fn around(&self, row: &Row) -> [OwnedKey; 2] {
        [false, true].map(|above| {
            let mut kept = OwnedKey::new();
            kept.set_to_place(&self.taste.shape, &row.digits, above);
            kept
        })
    }

    fn image(&self, entry: &Entry<'_, Bytes>) -> Self::Image {
        in_one_piece(entry, &self.taste.shape)
    }

    fn matched(&self, matches: &Matches<Bytes>) -> Vec<Self::Image> {
        (0..matches.len()).map(|at| self.image(&matches.entry(at).expect("keys were wanted"))).collect()
    }

    fn load<'r>(&self, rows: impl Iterator<Item = &'r Row>) -> Vec<PageBytes> {
        self.taste.load(&self.meta(), 80, rows)
    }

    fn problems(&self, tree: Tree<'_, MemoryStore, Bytes>) -> Vec<String> {
        bytes::problems(tree)
    }

    fn scan(busy: &Busy<Self>) {
        let taste = &busy.case.taste;
        let mut wishes = taste.wishes(&mut busy.random.borrow_mut(), &busy.lasting);
        if busy.roll(2) == 0 {
            wishes.fill(None);
        }
        taste.with_selection(&wishes, |selection| {
            let mut selection = *selection;
            selection.set_wants_keys(true);
            walk(busy, &selection, |row| taste.holds(&wishes, row));
        });
    }
}

/// A store where others are at work.
struct Busy<C: Case> {
    case: C,
    /// Whether no two rows may have the same key.
    unique: bool,
    store: MemoryStore,
    geometry: Geometry,
    random: RefCell<StdRng>,
    lasting: Vec<C::Row>,
    /// The rows that come and go, as they are now.
    passing: RefCell<BTreeMap<Place<C>, C::Row>>,
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

impl<C: Case> Busy<C> {
    fn new(case: C, unique: bool, lasting: u64, seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let mut lasting: Vec<_> = (0..lasting).map(|number| case.row(&mut random, number)).collect();
        lasting.sort_by_key(|row| case.place(row));
        if unique {
            lasting.dedup_by_key(|row| case.rank(row));
        }
        Busy {
            unique,
            // Leaves are remembered, or hardly, or not.
            store: MemoryStore::new(&case.load(lasting.iter()), 8000)
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
            self.passing.borrow_mut().retain(|place, _| !is_dead(place.1));
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
        self.passing.borrow_mut().retain(|place, _| {
            if dies(place.1) {
                self.store.bury(place.1);
                self.dead.borrow_mut().insert(place.1);
            }
            !dies(place.1)
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
            let leaf = tree.lock::<Shared>(block).expect("a leaf");
            leaf.set_hint(&[place], Tid::DEAD);
            leaf.release();
        }
    }

    /// Inserts a new row, unless one like it is in its way.
    fn insert(&self, tree: Tree<'_, impl Store, C::Keys>) {
        self.rows.set(self.rows.get() + 1);
        let block = PASSING + (self.rows.get() as u32).wrapping_mul(0x9E37_79B1) % PASSING;
        let row = self.case.row(&mut self.random.borrow_mut(), u64::from(block) * 100);
        if let Some(obstacle) = self.try_insert(tree, &row) {
            self.refused.set(self.refused.get() + 1);
            let place = (self.case.rank(&row), obstacle);
            let is_there = self.passing.borrow().contains_key(&place);
            assert!(is_there || self.lasting.iter().any(|row| self.case.place(row) == place), "nothing is in the way");
        } else {
            // Nobody may remove it before it is there.
            self.passing.borrow_mut().insert(self.case.place(&row), row);
        }
    }

    /// Inserts a row, or says which one is in its way.
    fn try_insert(&self, tree: Tree<'_, impl Store, C::Keys>, row: &C::Row) -> Option<Tid> {
        let entry = C::entry(row);
        let options = InsertOptions { fill: 90, adds_version: self.roll(2) == 0 };
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
        let mut rows: Vec<_> = passing.values().chain(&self.lasting).collect();
        rows.sort_by_cached_key(|row| self.case.place(row));
        rows.into_iter().map(what).collect()
    }

    /// Everything is as it should be.
    fn check(&self) {
        assert_eq!((self.locks.get(), self.pins.get()), (0, 0));
        assert_eq!(self.case.problems(self.others_tree()), Vec::<String>::new());
        let mut found = Vec::new();
        let dead = self.dead.borrow();
        let leaf = |_, page: &Page<'_, C::Keys>| {
            let living = page.iter().filter(|entry| !dead.contains(&entry.tid.position()));
            found.extend(living.map(|entry| self.case.image(&entry)));
        };
        for_each_leaf(self.others_tree(), leaf);
        assert!(found == self.rows(|row| self.case.image(&C::entry(row))), "the tree holds something else");
        if self.unique {
            let ranks = self.rows(|row| self.case.rank(row));
            assert!(ranks.is_sorted_by(|a, b| a < b), "a key is there twice");
        }
    }
}

/// Shows `look` the leaves, by the right links.
fn for_each_leaf<K: KeySpace>(tree: Tree<'_, MemoryStore, K>, mut look: impl FnMut(Block, &Page<'_, K>)) {
    let mut leaf = tree.leaf(Seek::At(K::borrow(K::first(), tree.order()))).expect("there is a first leaf");
    loop {
        let page = tree.page(&leaf).expect("a leaf");
        look(leaf.block(), &page);
        let right = page.right();
        leaf.release();
        if right == NO_BLOCK {
            return;
        }
        leaf = tree.lock(right).expect("a right sibling");
    }
}

impl<C: Case> Busy<C> {
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

impl<C: Case> Frames for Busy<C> {
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

impl<C: Case> PageStore for Busy<C> {
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

impl<C: Case> Observers for Busy<C> {
    fn note_insert(&self, leaf: &Locked<'_, Self, Exclusive>) {
        self.checked.set(leaf.block());
        self.store.note_insert(&self.below(leaf));
    }

    fn find_dead(
        &self,
        leaf: &Locked<'_, Self, Exclusive>,
        suspects: &mut [Suspect],
        search: Search,
    ) -> Option<Horizon> {
        let horizon = self.store.find_dead(&self.below(leaf), suspects, search);
        let found = suspects.iter().filter(|suspect| suspect.is_dead).count();
        self.removed.set(self.removed.get() + found);
        horizon
    }
}

impl<C: Case> Hints for Busy<C> {
    fn likely_leaf(&self) -> Option<Block> {
        self.store.likely_leaf()
    }

    fn seen_leaf(&self, mark: u64) -> Option<Seen<FrameId>> {
        self.store.seen_leaf(mark)
    }

    fn note_leaf<M: LockMode>(&self, leaf: &Locked<'_, Self, M>, marks: Option<Marks>, stale: Option<&Seen<FrameId>>) {
        self.store.note_leaf(&self.below(leaf), marks, stale);
    }
}

/// Scans, to and fro or not: the lasting rows come in order, each when its turn is. Where a scan does not turn, the
/// others come once each, those that are there all the time for certain.
fn walk<C: Case>(busy: &Busy<C>, selection: &impl Wanted<C::Keys>, wanted: impl Fn(&C::Row) -> bool) {
    let image = |row: &C::Row| busy.case.image(&C::entry(row));
    let lasting: Vec<_> = busy.lasting.iter().filter(|row| wanted(row)).map(image).collect();
    let here = || -> BTreeSet<Tid> {
        let passing = busy.passing.borrow();
        passing.iter().filter(|(_, row)| wanted(row)).map(|(place, _)| place.1).collect()
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
        let images = busy.case.matched(&matches).into_iter().zip(tids);
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

fn interleave<C: Case>(case: C, unique: bool, seed: u64) -> Tally {
    let busy = Busy::new(case, unique, C::LASTING, seed);
    let mut tally = Tally::default();
    for _ in 0..100 {
        let operation = busy.roll(4);
        if operation == 0 {
            busy.vacuuming.set(true);
            // Rows that come while it runs may go or stay; those before it go.
            let before: BTreeSet<Tid> = busy.passing.borrow().keys().map(|place| place.1).collect();
            let mut is_dead = |tid: Tid| before.contains(&tid.position());
            busy.tree()
                .vacuum(&mut DeadTids::new(&mut memory_to_ask()), &mut is_dead, &mut |_, _, _| {}, &mut |_| {})
                .unwrap();
            busy.passing.borrow_mut().retain(|place, _| !before.contains(&place.1));
            busy.vacuuming.set(false);
        } else if operation == 1 {
            C::scan(&busy);
        } else {
            for _ in 0..10 {
                busy.insert(busy.tree());
            }
        }
        busy.check();
        let mut runs = 0;
        for_each_leaf(busy.others_tree(), |_, page| runs += page.runs());
        tally.runs = tally.runs.max(runs);
        tally.levels = tally.levels.max(busy.others_tree().root_level().unwrap() + 1);
    }
    assert!(busy.interruptions.get() > 500, "{} interruptions", busy.interruptions.get());
    tally.folded = busy.folded.get();
    (tally.deleted, tally.removed, tally.refused) = (busy.deleted.get(), busy.removed.get(), busy.refused.get());
    tally
}

/// The tallies of some seeds, added up.
fn interleave_all<C: Case>(seeds: std::ops::Range<u64>, case: impl Fn(&mut StdRng) -> C) -> Tally {
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
    let mut tally = interleave_all(0..6, |_| exact_lanes::<u32>(1 << 30));
    tally += interleave_all(0..6, |_| exact_lanes::<u64>(1 << 60));
    assert!(tally.deleted > 12 * 20, "{tally:?}");
}

#[test]
fn with_few_keys() {
    let mut tally = interleave_all(10..16, |_| exact_lanes::<u64>(4));
    tally += interleave_all(10..16, |_| exact_lanes::<u128>(20));
    assert!(tally.deleted > 12 * 20, "{tally:?}");
}

#[test]
fn with_short_strings() {
    let tally = interleave_all(20..24, |_| Strings::new(&[DigitKind::Bytes, DigitKind::Fixed(1)], TINY_KEY, 3, 100));
    assert!(tally.deleted > 4 * 20, "{tally:?}");
}

#[test]
fn with_strings_that_begin_alike() {
    let tally = interleave_all(30..34, |_| Strings::new(&[DigitKind::Text], TINY_KEY, 1, 1 << 30));
    assert!(tally.deleted > 4 * 20, "{tally:?}");
}

#[test]
fn with_strings_that_share_lanes() {
    let tally = interleave_all(40..44, |_| Strings::new(&[DigitKind::Text, DigitKind::Fixed(4)], TINY_KEY, 2, 1000));
    assert!(tally.deleted > 4 * 20, "{tally:?}");
}

/// A few entries fill a page.
#[test]
fn with_the_longest_strings() {
    let tally = interleave_all(50..54, |_| Strings::new(&[DigitKind::Text], MOST_KEY, 4, 1 << 30));
    assert!(tally.levels > 3 && tally.deleted > 4 * 20, "{tally:?}");
}

#[test]
fn with_few_strings() {
    let tally = interleave_all(60..64, |random| Strings::new(&[DigitKind::Text], TINY_KEY, 2, 1000).repeating(random));
    assert!(tally.runs > 4 * 10 && tally.deleted > 4 * 10, "{tally:?}");
}

/// Strings that a function orders: some differ and are equal.
#[test]
fn with_opaque_strings() {
    let tally = interleave_all(70..76, |random| {
        let (prefix, flavour) = *[(0, 0), (0, 2), (3, 2), (12, 1)].choose(random).expect("some sort");
        let kinds = [DigitKind::Opaque { prefix, value: ValueLength::Variable }, DigitKind::Fixed(2)];
        let strings = Strings::new(&kinds, TINY_KEY, flavour, 1000);
        if random.random() { strings.repeating(random) } else { strings }
    });
    assert!(tally.deleted > 6 * 10, "{tally:?}");
}

#[test]
fn with_strings_of_every_taste() {
    let tally = interleave_all(80..88, |random| {
        let most = *[SMALL_KEY, SMALL_KEY, MOST_KEY].choose(random).expect("some length");
        Strings::of_taste(Taste::random(random, most))
    });
    assert!(tally.deleted > 8 * 10, "{tally:?}");
}

/// A key goes in once, whatever others insert meanwhile.
#[test]
fn with_unique_keys() {
    let mut tally = Tally::default();
    for seed in 90..92 {
        tally += interleave(exact_lanes::<u64>(400), true, seed);
        tally += interleave(Strings::new(&[DigitKind::Text], TINY_KEY, 1, 400), true, seed);
        let opaque = DigitKind::Opaque { prefix: 3, value: ValueLength::CString };
        tally += interleave(Strings::new(&[opaque], TINY_KEY, 2, 100), true, seed);
    }
    assert!(tally.refused > 6 * 20 && tally.deleted > 6 * 10, "{tally:?}");
}

/// Others work while a root grows that is the only leaf, over and over. A writer looks for serializable conflicts on a
/// leaf, also when the root stops being one under its hands: a reader may have come to the new leaf meanwhile.
fn grow_roots<C: Case>(case: impl Fn() -> C) {
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
    grow_roots(|| exact_lanes::<u64>(60));
    grow_roots(|| Strings::new(&[DigitKind::Text], TINY_KEY, 1, 60));
}
