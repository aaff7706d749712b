//! What runs programs: an index, and a model that says what it holds.

use super::{CAPACITY, Domain, Keys, MOST_ROWS, Opening, Operation, Part, Program, RESERVE, Setup};
use crate::common::*;
use fpbtree_engine::format::{Block, PageBytes, ROOT, Tid};
use fpbtree_engine::page::{self, Keys as _, Page};
use fpbtree_engine::scan::{Cursor, Direction, Matches, Wanted};
use fpbtree_engine::store::PageStore;
use fpbtree_engine::store::memory::{Form, MemoryStore};
use fpbtree_engine::tree::{Batch, DeadTids, InsertOptions, Verdict};
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::collections::{BTreeSet, HashSet};
use std::ops::AddAssign;

/// What came of programs: how much of the engine they reached.
#[derive(Clone, Copy, Default, Debug)]
pub struct Tally {
    pub rows: u64,
    pub levels: u32,
    pub deleted: u64,
    pub folded: u64,
    pub merged: u64,
    pub runs: usize,
    /// Rows that were not inserted.
    pub refused: usize,
    /// Entries of dead rows that no VACUUM removed.
    pub made_room: u64,
    pub crashes: usize,
    /// Operations that crashes cut off.
    pub cut_off: usize,
    pub incomplete: usize,
    /// Pages that scans read while others changed the index.
    pub pages: usize,
    pub cut_pages: u32,
    /// Pages cut off after others were moved.
    pub compacted: u32,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.rows += other.rows;
        self.levels = self.levels.max(other.levels);
        self.deleted += other.deleted;
        self.folded += other.folded;
        self.merged += other.merged;
        self.runs += other.runs;
        self.refused += other.refused;
        self.made_room += other.made_room;
        self.crashes += other.crashes;
        self.cut_off += other.cut_off;
        self.incomplete += other.incomplete;
        self.pages += other.pages;
        self.cut_pages += other.cut_pages;
        self.compacted += other.compacted;
    }
}

/// What happened to a row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Event {
    Inserted,
    Died,
    Gone,
}

/// Something that was not there at one log position, and is at another.
struct Step<R> {
    from: u64,
    to: u64,
    event: Event,
    row: R,
}

/// A scan that others interrupt.
struct Walk<M: KeyMaker> {
    wish: M::Wish,
    skip_dead: bool,
    cursor: Cursor<M::Keys>,
    /// Where it was before it read the last page.
    before: OwnedKey<M>,
    marked: Option<(Cursor<M::Keys>, OwnedKey<M>)>,
}

type OwnedKey<M> = <<M as KeyMaker>::Keys as fpbtree_engine::page::Keys>::OwnedKey;

impl<M: KeyMaker> Walk<M> {
    fn mark(&mut self) {
        let mut copy = Cursor::new(Direction::Forward);
        copy.copy_from(&self.cursor);
        self.marked = Some((copy, self.before));
    }

    fn restore(&mut self) {
        if let Some((cursor, before)) = &self.marked {
            self.cursor.copy_from(cursor);
            self.before = *before;
        }
    }

    /// Goes on on the other side of what was read last.
    fn turn(&mut self) {
        let bound = std::mem::replace(&mut self.before, *self.cursor.bound());
        let direction = self.cursor.direction();
        self.cursor.turn();
        assert!(self.cursor.direction() != direction && !self.cursor.is_done());
        assert!(M::Keys::same(self.cursor.bound(), &bound), "a scan turned round somewhere else");
    }
}

/// An index that a program is at work on.
struct Machine<M: KeyMaker> {
    setup: Setup,
    /// Its model holds the living rows.
    bed: AnyBed<M>,
    /// Those whose entries may be there or not.
    dead: BTreeSet<M::Row>,
    /// What there was at the log's beginning, and what came since.
    beginning: [BTreeSet<M::Row>; 2],
    steps: Vec<Step<M::Row>>,
    made: u64,
    grown: u64,
    shrunk: u64,
    walks: [Option<Walk<M>>; 2],
    /// Whether the map of free pages names all of them, once each.
    knows_free: bool,
    /// Whether rows were marked dead since the log began.
    is_hinted: bool,
    tally: Tally,
}

pub(super) fn run<M: KeyMaker>(program: &Program, taste: M) -> Tally {
    let setup = program.setup;
    let bed = AnyBed::empty(taste, |pages| store(&setup, pages));
    let mut machine = Machine {
        setup,
        bed,
        dead: BTreeSet::new(),
        beginning: [BTreeSet::new(), BTreeSet::new()],
        steps: Vec::new(),
        made: 0,
        grown: KEYS / 2,
        shrunk: KEYS / 2,
        walks: [None, None],
        knows_free: true,
        is_hinted: false,
        tally: Tally::default(),
    };
    for (at, operation) in program.operations.iter().enumerate() {
        machine.execute(operation);
        assert!(machine.bed.store.is_quiet(), "a lock or a pin is left over");
        if at % 8 == 7 {
            machine.check();
        }
    }
    machine.check();
    machine.finish()
}

fn store(setup: &Setup, pages: &[PageBytes]) -> MemoryStore {
    let capacity = CAPACITY.max(pages.len() + RESERVE as usize);
    let store = if setup.logs { MemoryStore::logging(pages, capacity) } else { MemoryStore::new(pages, capacity) };
    store.with_descents(setup.descents)
}

impl<M: KeyMaker> Machine<M> {
    fn execute(&mut self, operation: &Operation) {
        match *operation {
            Operation::Insert { keys, adds_version, together: true } => {
                let rows = (0..keys.count).map(|at| self.row(&keys, at)).collect();
                self.insert_together(rows, adds_version);
            }
            Operation::Insert { keys, adds_version, together: false } => {
                for at in 0..keys.count {
                    let row = self.row(&keys, at);
                    self.insert(row, adds_version);
                }
            }
            Operation::InsertUnique { keys, passes } => {
                for at in 0..keys.count.min(12) {
                    let row = self.row(&keys, at);
                    self.insert_unique(row, passes);
                }
            }
            Operation::Look { row } => self.look(row),
            Operation::Update { row, count, adds_version } => {
                for at in 0..count {
                    self.update(row.wrapping_add(at.into()), adds_version);
                }
            }
            Operation::Die(part) => self.let_die(&part),
            Operation::Notice { late } => self.notice(late),
            Operation::Vacuum { part, memory, spares } => self.vacuum(&part, memory, spares),
            Operation::Scan { wish, skip_dead } => self.scan(wish, skip_dead),
            Operation::ScanBetween { low, high } => self.scan_between(low, high),
            Operation::Open(opening) => self.walks[usize::from(opening.scan & 1)] = Some(self.open(&opening)),
            Operation::Read { scan, pages } => {
                let opening = Opening { scan, backward: scan & 2 != 0, wish: scan.into(), skip_dead: scan & 4 != 0 };
                let mut walk = self.walks[usize::from(scan & 1)].take().unwrap_or_else(|| self.open(&opening));
                if scan & 8 != 0 {
                    walk.mark();
                }
                (0..pages).for_each(|_| self.read(&mut walk));
                self.walks[usize::from(scan & 1)] = Some(walk);
            }
            Operation::Turn { scan } => {
                if let Some(walk) = &mut self.walks[usize::from(scan & 1)] {
                    walk.turn();
                }
            }
            Operation::Mark { scan } => {
                if let Some(walk) = &mut self.walks[usize::from(scan & 1)] {
                    walk.mark();
                }
            }
            Operation::Restore { scan, turns } => {
                if let Some(walk) = &mut self.walks[usize::from(scan & 1)] {
                    walk.restore();
                    if turns {
                        walk.turn();
                    }
                }
            }
            Operation::Crash { at, versions, form, reclaims } => self.crash(at, versions, form, reclaims),
            Operation::CutOff { compacts } => {
                // Nobody scans then.
                self.walks = [None, None];
                let before = self.bed.store.block_count();
                if compacts {
                    self.tally.compacted += self.bed.compact();
                } else {
                    self.bed.cut_off();
                    self.tally.cut_pages += before - self.bed.store.block_count();
                }
            }
            Operation::Build { fill, parts } => self.build(fill, parts),
            Operation::Mislead { block } => {
                self.bed.store.free(1 + Block::from(block) % (self.bed.store.block_count() + 5));
                self.knows_free = false;
            }
            Operation::ForgetLeaves => self.bed.store.forget_leaves(),
            Operation::Check => self.check(),
        }
    }

    /// A new row: one of some keys.
    fn row(&mut self, keys: &Keys, at: u8) -> M::Row {
        let key = i64::from(keys.start) + i64::from(keys.stride) * i64::from(at);
        let within = |all: u64| Some(key.rem_euclid(all as i64) as u64);
        let key = match keys.domain {
            Domain::Four => within(4),
            Domain::Hundreds => within(300),
            Domain::All => within(KEYS),
            Domain::Null => None,
            Domain::Largest => Some(u64::MAX),
            Domain::Growing => {
                self.grown = (self.grown + 1) % KEYS;
                Some(self.grown)
            }
            Domain::Shrinking => {
                self.shrunk = (self.shrunk + KEYS - 1) % KEYS;
                Some(self.shrunk)
            }
        };
        let number = self.number(keys.rows);
        self.bed.taste.numbered(key, number)
    }

    /// The number of a new row, that is, its place in the table: behind the last one, before it or anywhere.
    fn number(&mut self, manner: u8) -> u64 {
        self.made += 1;
        match manner {
            0 | 1 => (1 << 22) + self.made,
            2 => (1 << 21) - self.made,
            _ => self.made * 0x9E375 % (1 << 20),
        }
    }

    fn has_room(&self) -> bool {
        self.made < MOST_ROWS && self.bed.store.block_count() + RESERVE < CAPACITY as Block
    }

    /// A living row that says so much of all are before it.
    fn some_row(&self, part: u16) -> Option<M::Row> {
        self.bed.model.iter().nth(self.bed.model.len() * usize::from(part) / (1 << 16)).cloned()
    }

    fn position(&self) -> u64 {
        self.bed.store.end_of_log()
    }

    fn log(&mut self, from: u64, event: Event, row: M::Row) {
        if self.setup.logs {
            self.steps.push(Step { from, to: self.position(), event, row });
        }
    }

    fn insert(&mut self, row: M::Row, adds_version: bool) {
        if !self.has_room() {
            return;
        }
        let from = self.position();
        let inserted =
            self.bed.tree().insert_entry(&M::entry(&row), InsertOptions::filling(90).adding_version(adds_version));
        inserted.expect("the insertion succeeds");
        assert!(self.bed.model.insert(row.clone()));
        self.log(from, Event::Inserted, row);
    }

    /// Inserts rows in order, as many as there is room for.
    fn insert_together(&mut self, rows: BTreeSet<M::Row>, adds_version: bool) {
        let from = self.position();
        let mut ahead = |_, _: &_| {};
        let mut batch =
            Batch::new(self.bed.tree(), InsertOptions::filling(90).adding_version(adds_version), &mut ahead);
        let is_in = |row: &M::Row| {
            batch.insert(&M::entry(row)).expect("the insertion succeeds");
            true
        };
        let inserted: Vec<M::Row> = rows.into_iter().take_while(|_| self.has_room()).filter(is_in).collect();
        batch.finish().expect("the insertion succeeds");
        drop(batch);
        assert!(self.bed.store.is_quiet(), "a lock or a pin is left over");
        for row in inserted {
            assert!(self.bed.model.insert(row.clone()));
            self.log(from, Event::Inserted, row);
        }
    }

    fn insert_unique(&mut self, row: M::Row, passes: bool) {
        if !self.has_room() {
            return;
        }
        let from = self.position();
        let dead = tids::<M>(&self.dead);
        let (mut stopped, mut marked) = (None, false);
        let mut look = |tid: Tid| {
            if dead.contains(&tid.position()) {
                marked = true;
                return Verdict::Dead;
            }
            if passes {
                return Verdict::Pass;
            }
            stopped = Some(tid.position());
            Verdict::Stop
        };
        let taste = &self.bed.taste;
        let [low, high] = taste.around(&row);
        let around = (M::Keys::borrow(&low, taste.order()), M::Keys::borrow(&high, taste.order()));
        let options = InsertOptions::filling(90);
        let is_in = self.bed.tree().insert_unique(around, Some(&M::entry(&row)), options, &mut look);
        let is_in = is_in.expect("the insertion succeeds");
        let first_twin = self.bed.model.iter().find(|other| M::same_key(other, &row)).filter(|_| !passes);
        assert_eq!(stopped, first_twin.map(|twin| M::tid(twin).position()), "something else is in the way of {row:?}");
        assert_eq!(is_in, stopped.is_none());
        self.is_hinted |= marked;
        if is_in {
            assert!(self.bed.model.insert(row.clone()));
            self.log(from, Event::Inserted, row);
        } else {
            self.tally.refused += 1;
        }
    }

    fn look(&self, row: u16) {
        let Some(row) = self.some_row(row) else { return };
        let taste = &self.bed.taste;
        let [low, high] = taste.around(&row);
        let around = (M::Keys::borrow(&low, taste.order()), M::Keys::borrow(&high, taste.order()));
        let mut seen = Vec::new();
        let mut look = |tid: Tid| {
            seen.push(tid.position());
            Verdict::Pass
        };
        let answer = self.bed.tree().insert_unique(around, None, InsertOptions::filling(90), &mut look);
        assert_eq!(answer, Ok(true));
        self.compare(seen.into_iter(), |row| M::tid(row).position(), |other| M::same_key(other, &row));
    }

    fn die(&mut self, row: M::Row) {
        assert!(self.bed.model.remove(&row));
        self.bed.store.bury(M::tid(&row));
        self.log(self.position(), Event::Died, row.clone());
        self.dead.insert(row);
    }

    fn update(&mut self, row: u16, adds_version: bool) {
        let Some(old) = self.some_row(row).filter(|_| self.has_room()) else { return };
        let number = self.number(0);
        self.insert(self.bed.taste.version(&old, number), adds_version);
        self.die(old);
    }

    fn let_die(&mut self, part: &Part) {
        let all = self.bed.model.len();
        let share = |part: u16| all * usize::from(part) / usize::from(u16::MAX);
        let chosen = self.bed.model.iter().skip(share(part.from)).take(share(part.length)).step_by(part.step.into());
        let chosen: Vec<M::Row> = chosen.cloned().collect();
        chosen.into_iter().for_each(|row| self.die(row));
    }

    fn notice(&mut self, late: Option<Keys>) {
        let dead = tids::<M>(&self.dead);
        let (mut cursor, mut matches) = (Cursor::new(Direction::Forward), Box::new(Matches::new()));
        let mut marks = Vec::new();
        let everything = Between { ends: [M::Keys::FIRST, M::Keys::LAST], null_rank: self.null_rank() };
        while let Some(block) =
            read_on(self.bed.tree(), &mut cursor, &everything, true, &mut matches).expect("the page can be read")
        {
            let is_dead = |at: &usize| dead.contains(&matches.tid(*at).position());
            let places: Vec<u16> = (0..matches.len()).filter(is_dead).map(|at| matches.flags_at(at)).collect();
            marks.push((block, cursor.lsn(), places));
        }
        if let Some(keys) = late {
            self.execute(&Operation::Insert { keys, adds_version: false, together: false });
        }
        for (block, lsn, places) in marks {
            self.is_hinted |= !places.is_empty();
            kill_in(&self.bed.store, block, lsn, &places);
        }
    }

    fn vacuum(&mut self, part: &Part, memory: u8, spares: bool) {
        self.let_die(part);
        let named: BTreeSet<M::Row> =
            self.dead.iter().filter(|row| !(spares && M::tid(row).offset().is_multiple_of(2))).cloned().collect();
        let doomed = tids::<M>(&named);
        let (from, before) = (self.position(), self.entries());
        let mut memory = vec![0; [40_000, 0, 3000, 100][usize::from(memory) % 4]];
        let mut is_dead = |tid: Tid| doomed.contains(&tid.position());
        let mut leaves = BTreeSet::new();
        let mut visit = |block| assert!(leaves.insert(block), "leaf {block} is visited twice");
        let passed =
            self.bed.tree().vacuum(&mut DeadTids::new(&mut memory), &mut is_dead, &mut |_, _, _| {}, &mut visit);
        let stats = passed.expect("the vacuum succeeds");
        assert_eq!(stats.leaf_pages, leaves.len() as u64);
        assert_eq!((stats.entries, stats.entries + stats.removed), (self.entries(), before));
        self.tally.made_room += named.len() as u64 - stats.removed;
        self.tally.deleted += stats.deleted_pages;
        self.tally.folded += stats.folded_pages;
        self.tally.merged += stats.merged_pages;
        self.dead.retain(|row| !named.contains(row));
        named.into_iter().for_each(|row| self.log(from, Event::Gone, row));
        self.check();
    }

    fn entries(&self) -> u64 {
        self.bed.tree().census().expect("the tree can be counted").entries
    }

    fn wish(&self, seed: u16) -> M::Wish {
        let rows: Vec<M::Row> = (0..6).filter_map(|at| self.some_row(seed.wrapping_mul(at * 2 + 1))).collect();
        self.bed.taste.random_wish(&mut StdRng::seed_from_u64(seed.into()), &rows)
    }

    fn scan(&self, wish: u16, skip_dead: bool) {
        let (taste, wish) = (&self.bed.taste, self.wish(wish));
        taste.wanting(&wish, |wanted| self.scan_for(&wanted, skip_dead, |row| taste.holds(&wish, row)));
    }

    fn scan_between(&self, low: u16, high: u16) {
        let Some([low, high]) = self.some_row(low.min(high)).zip(self.some_row(low.max(high))).map(<[_; 2]>::from)
        else {
            return;
        };
        let [from, to] = [&low, &high].map(|row| self.bed.taste.place(&M::entry(row)).expect("a sound key"));
        let null_rank = self.null_rank();
        self.scan_for(&Between { ends: [M::Keys::FIRST, to], null_rank }, false, |row| *row < high);
        self.scan_for(&Between { ends: [from, M::Keys::LAST], null_rank }, false, |row| *row >= low);
        if low < high {
            self.scan_for(&Between { ends: [from, to], null_rank }, false, |row| (&low..&high).contains(&row));
        }
    }

    fn null_rank(&self) -> bool {
        self.bed.taste.ranks().unwrap_or(true)
    }

    /// Scans for some rows from end to end, both ways.
    fn scan_for(&self, wanted: &impl Wanted<M::Keys>, skip_dead: bool, holds: impl Fn(&M::Row) -> bool) {
        let mut matches = Box::new(Matches::new());
        // A parent does not lead to what its child split off, if a crash came between.
        let mut is_whole = true;
        for_each_leaf(self.bed.tree(), |_, page| is_whole &= !page.is_incomplete());
        for direction in [Direction::Forward, Direction::Backward] {
            let (mut cursor, mut found) = (Cursor::new(direction), Vec::new());
            while read_on(self.bed.tree(), &mut cursor, wanted, skip_dead, &mut matches)
                .expect("the page can be read")
                .is_some()
            {
                assert!(!matches.is_empty());
                found.extend(self.images(&matches));
            }
            if direction == Direction::Backward {
                found.reverse();
            }
            self.compare(found.into_iter(), |row| self.bed.taste.image_of(row), &holds);
            if is_whole {
                check_leaves(self.bed.tree(), wanted, direction);
            }
        }
    }

    /// The matches' images; none of a living row is known to be dead.
    fn images(&self, matches: &Matches<M::Keys>) -> Vec<M::Image> {
        let mut copy = Box::new(Matches::new());
        copy.copy_from(matches);
        let images = self.bed.taste.images(&copy);
        assert!(images == self.bed.taste.images(matches), "matches are copied wrongly");
        images
    }

    fn open(&self, opening: &Opening) -> Walk<M> {
        let cursor = Cursor::new(if opening.backward { Direction::Backward } else { Direction::Forward });
        let (wish, before) = (self.wish(opening.wish), *cursor.bound());
        Walk { wish, skip_dead: opening.skip_dead, cursor, before, marked: None }
    }

    /// Reads a page: exactly the rows that are there now between where the scan was and where it is.
    fn read(&mut self, walk: &mut Walk<M>) {
        let taste = &self.bed.taste;
        let (was, mut matches) = (*walk.cursor.bound(), Box::new(Matches::new()));
        walk.before = was;
        let is_done = walk.cursor.is_done();
        let page = taste.wanting(&walk.wish, |wanted| {
            read_on(self.bed.tree(), &mut walk.cursor, &wanted, walk.skip_dead, &mut matches)
        });
        let page = page.expect("the page can be read");
        assert!(page.is_none() == matches.is_empty() && !(is_done && page.is_some()));
        self.tally.pages += usize::from(page.is_some());
        let is = *walk.cursor.bound();
        let end = if walk.cursor.direction() == Direction::Forward { M::Keys::last() } else { M::Keys::first() };
        assert!(page.is_some() || M::Keys::same(&is, end), "a scan ends on its way");
        let mut found = self.images(&matches);
        let [low, high] = match walk.cursor.direction() {
            Direction::Forward => [was, is],
            Direction::Backward => {
                found.reverse();
                [is, was]
            }
        };
        let is_from = |place: &OwnedKey<M>, row: &M::Row| {
            M::Keys::compare_entry(M::Keys::borrow(place, taste.order()), &M::entry(row)).is_le()
        };
        self.compare(
            found.into_iter(),
            |row| taste.image_of(row),
            |row| is_from(&low, row) && !is_from(&high, row) && taste.holds(&walk.wish, row),
        );
    }

    /// That what was found is, in order, all of the living rows that are wanted, and of the dead ones some.
    fn compare<T: PartialEq + std::fmt::Debug>(
        &self,
        found: impl Iterator<Item = T>,
        image: impl Fn(&M::Row) -> T,
        wanted: impl Fn(&M::Row) -> bool,
    ) {
        let mut rows: Vec<(&M::Row, bool)> = self.bed.model.iter().map(|row| (row, true)).collect();
        rows.extend(self.dead.iter().map(|row| (row, false)));
        rows.retain(|(row, _)| wanted(row));
        rows.sort();
        let mut rows = rows.into_iter();
        for found in found {
            loop {
                let (row, lives) = rows.next().unwrap_or_else(|| panic!("{found:?} is not wanted, or comes late"));
                if image(row) == found {
                    break;
                }
                assert!(!lives, "instead of {row:?} there is {found:?}");
            }
        }
        assert!(!rows.any(|(_, lives)| lives), "a row is missing at the end");
    }

    /// What lived and what was dead at a log position, and what may have been inserted or not.
    fn at(&self, position: u64) -> [BTreeSet<M::Row>; 3] {
        let [mut living, mut dead] = self.beginning.clone();
        let mut uncertain = BTreeSet::new();
        for step in self.steps.iter().filter(|step| step.from < position || step.to <= position) {
            let row = step.row.clone();
            match step.event {
                _ if step.to > position => {
                    if step.event == Event::Inserted {
                        uncertain.insert(row);
                    }
                }
                Event::Inserted => _ = living.insert(row),
                Event::Died => _ = (living.remove(&row), dead.insert(row)),
                Event::Gone => _ = dead.remove(&row),
            }
        }
        [living, dead, uncertain]
    }

    /// Goes back to a log position: near the end, anywhere, or in the middle of an insertion.
    fn crash(&mut self, at: u16, versions: u16, form: Form, reclaims: bool) {
        if !self.setup.logs {
            return;
        }
        let end = self.position();
        // Insertions whose last record can be lost alone: it is the one that completes a split.
        let is_long = |step: &&Step<M::Row>| step.event == Event::Inserted && step.from + 1 < step.to;
        let long: Vec<u64> = self.steps.iter().filter(is_long).map(|step| step.to - 1).collect();
        let position = match at & 3 {
            0 => end * u64::from(at) / u64::from(u16::MAX),
            1 | 2 if !long.is_empty() => long[usize::from(at >> 2) % long.len()],
            _ => end.saturating_sub(u64::from(at >> 2) % 24),
        };
        let old = &self.bed.store;
        let mut state = u64::from(versions) << 1 | 1;
        let mut choose = |count: usize| {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
            (state >> 33) as usize % count
        };
        let store = old.crash(&mut choose, position, form);
        let newest = old.crash(&mut |versions| versions - 1, position, Form::Own);
        assert_eq!(store.block_count(), newest.block_count());
        for block in 0..store.block_count() {
            let mut pages = [store.copy(block), newest.copy(block)];
            if self.is_hinted && block >= ROOT {
                pages.iter_mut().for_each(page::mask);
            }
            assert!(pages[0] == pages[1], "block {block} at {position} of {end}, redone in {form:?} form");
        }
        let [living, dead, uncertain] = self.at(position);
        self.bed.store = store.with_descents(self.setup.descents);
        self.walks = [None, None];
        self.tally.crashes += 1;
        self.tally.cut_off += usize::from(!uncertain.is_empty());
        // What may be there lives if it is.
        let inserted = self.found_of(&uncertain);
        (self.bed.model, self.dead) = (living, dead);
        self.bed.model.extend(inserted);
        for row in &self.dead {
            self.bed.store.bury(M::tid(row));
        }
        let reused = (ROOT + 1..self.bed.store.block_count()).map(|block| self.bed.store.copy(block));
        let is_incomplete = |bytes: &PageBytes| {
            let page = Page::<M::Keys>::open(bytes, &self.bed.meta.geometry, ROOT);
            page.is_ok_and(|page| page.is_incomplete() && !page.is_deleted())
        };
        self.tally.incomplete += reused.filter(is_incomplete).count();
        self.begin_log();
        self.knows_free = reclaims;
        if reclaims {
            self.reclaim();
        }
        self.check();
    }

    /// Those of some rows that are in the index.
    fn found_of(&self, rows: &BTreeSet<M::Row>) -> Vec<M::Row> {
        let mut found = HashSet::new();
        for_each_entry(self.bed.tree(), |entry| _ = found.insert(entry.tid.position().raw()));
        rows.iter().filter(|row| found.contains(&M::tid(row).position().raw())).cloned().collect()
    }

    fn begin_log(&mut self) {
        self.beginning = [self.bed.model.clone(), self.dead.clone()];
        self.steps.clear();
        self.is_hinted = false;
    }

    /// Looks for free pages, of which none is known.
    fn reclaim(&self) {
        let mut used = HashSet::new();
        for_each_leaf(self.bed.tree(), |block, _| _ = used.insert(block));
        let inner = self.bed.tree().visit_inner_pages(&mut |block| _ = used.insert(block));
        inner.expect("the pages can be read");
        for block in 0..self.bed.store.block_count() {
            if !used.contains(&block) && self.bed.tree().is_reusable(block).expect("the page can be read") {
                self.bed.store.free(block);
            }
        }
    }

    fn build(&mut self, fill: u8, parts: u8) {
        let taste = &self.bed.taste;
        let fill = usize::from(fill) % 91 + 10;
        let rows: Vec<M::Row> = self.bed.model.iter().cloned().collect();
        let places = (1..=usize::from(parts)).filter_map(|part| rows.get(rows.len() * part / 5));
        let mut places: Vec<_> = places.map(|row| taste.place(&M::entry(row)).expect("a sound key")).collect();
        places.dedup_by(|a, b| M::Keys::same(a, b));
        places.retain(|place| !M::Keys::same(place, M::Keys::first()));
        let pages = match places.len() {
            0 => load_rows(taste, fill, rows.iter()),
            _ => load_in_parts(taste, fill, &rows, &places),
        };
        self.bed.store = store(&self.setup, &pages);
        self.dead.clear();
        self.walks = [None, None];
        self.knows_free = true;
        self.begin_log();
        self.check();
    }

    /// Everything is as it should be.
    fn check(&self) {
        assert!(self.bed.store.is_quiet(), "a lock or a pin is left over");
        assert_eq!(self.bed.flaws(), Vec::<String>::new());
        let (mut found, mut marked) = (Vec::new(), BTreeSet::new());
        for_each_entry(self.bed.tree(), |entry| {
            found.push(self.bed.taste.image(entry));
            if entry.tid.dead() {
                marked.insert(entry.tid.position());
            }
        });
        assert!(marked.is_subset(&tids::<M>(&self.dead)), "a living row is marked dead");
        let census = self.bed.tree().census().expect("the tree can be counted");
        assert_eq!(census.entries, found.len() as u64);
        assert_eq!(census.dead_entries, marked.len() as u64);
        assert!(!self.knows_free || census.free_pages == self.bed.store.free_pages(), "a page is lost");
        self.compare(found.into_iter(), |row| self.bed.taste.image_of(row), |_| true);
    }

    fn finish(mut self) -> Tally {
        for_each_leaf(self.bed.tree(), |_, page| self.tally.runs += page.grouped_nodes());
        self.tally.levels = self.bed.tree().census().expect("the tree can be counted").levels;
        self.tally.rows = self.made;
        self.tally
    }
}

/// Where rows are in the table.
fn tids<M: KeyMaker>(rows: &BTreeSet<M::Row>) -> BTreeSet<Tid> {
    rows.iter().map(|row| M::tid(row).position()).collect()
}
