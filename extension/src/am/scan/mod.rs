//! Index scans: plain, index-only and bitmap, in both directions, by one process or several.

use core::ffi::c_int;

use fpbtree_engine::format::{Block, Error, LaneKind, MAX_PAGE_ENTRIES, Tid};
use fpbtree_engine::page::LogKind;
use fpbtree_engine::scan::{self, Cursor, Direction, Matches, Wanted};
use fpbtree_engine::store::PageStore;
use pgrx::pg_guard;
use pgrx::pg_sys::{
    self, Buffer, Datum, ForkNumber::MAIN_FORKNUM, IndexScanDesc, IndexScanDescData, ItemPointerData, Relation,
    ScanDirection, ScanKey, ScanKeyData, SnapshotType, TIDBitmap,
};

use self::hot::Hot;
use self::lines::Lines;
use self::parallel::{Shared, Turn};
use self::rows::Ahead;
use crate::pg::memory::{self, allocate};
use crate::pg::relation::INVALID_BUFFER;
use crate::pg::tid::heap_tid;
use crate::pg::{ffi, relation};
use crate::storage::buffers::PgStore;
use crate::storage::index::Index;
use crate::storage::prefetch;
use crate::storage::tree::tree;
use crate::values::column;
use crate::values::keys::{Keyed, with_keys};

mod bytes;
mod exact;
mod hot;
mod lines;
pub mod parallel;
mod rows;

/// What a scan looks for and how it gives values back, for the keys of one kind of index.
trait Searched: Keyed {
    /// It lives in the scan's state, which does not move, and owns no destructor.
    type Search: Wanted<Self>;

    /// Begins, with `search` not written yet and `columns` in the state for good.
    ///
    /// # Safety
    /// What is allocated lives in `context`. May raise.
    unsafe fn begin(search: *mut Self::Search, columns: &'static Self::Columns, context: pg_sys::MemoryContext);

    /// Reads the scan keys.
    ///
    /// # Safety
    /// The server's keys for this index. May raise.
    unsafe fn select(search: &mut Self::Search, rel: Relation, keys: &[ScanKeyData]);

    /// Says whether index tuples will be asked for.
    fn want_tuples(search: &mut Self::Search, wanted: bool);

    /// Whether the executor has to look at a match's conditions again.
    fn rechecks(search: &Self::Search) -> bool;

    /// The lane that every match has, and whatever has it matches; if there is such a one.
    #[inline(always)]
    fn one_lane(_search: &Self::Search) -> Option<u128> {
        None
    }

    /// Makes matches of rows of [one lane](Self::one_lane).
    #[inline(always)]
    fn set_rows(_matches: &mut Matches<Self>, _lane: u128, _rows: &[Tid]) {}

    /// Forms the tuple of a match without the guard: it does not panic. None if [`form`](Self::form) is to do it.
    ///
    /// # Safety
    /// The match exists. May raise when out of memory.
    unsafe fn form_unguarded(
        search: &mut Self::Search,
        matches: &Matches<Self>,
        at: usize,
    ) -> Option<*mut pg_sys::IndexTupleData>;

    /// Forms the tuple of a match, in memory that the next one uses again. None if the entry is damaged.
    ///
    /// # Safety
    /// As [`form_unguarded`](Self::form_unguarded). May raise.
    unsafe fn form(
        search: &mut Self::Search,
        matches: &Matches<Self>,
        at: usize,
    ) -> Option<*mut pg_sys::IndexTupleData>;

    /// Gives back what was allocated.
    ///
    /// # Safety
    /// The search is not used any more.
    unsafe fn end(search: &mut Self::Search);
}

/// `MaxHeapTuplesPerPage`: what a bitmap takes.
const MOST_ROWS: u16 = 291;
/// TIDs handed to a bitmap at a time.
const BITMAP_BATCH: usize = 256;

/// A scan's own state, in the memory context it was begun in (I11). No destructor.
#[repr(C)]
struct State<K: Searched> {
    /// First, so that a state can be told by it.
    kind: LaneKind,
    /// Blocks the table is known to have; it only grows while the scan goes on.
    heap_blocks: Block,
    /// Where the state and what belongs to it lives.
    context: pg_sys::MemoryContext,
    index: Index,
    columns: K::Columns,
    store: PgStore,
    /// What is looked for; it borrows from `columns`.
    search: K::Search,
    cursor: Cursor<K>,
    /// How often the server had had to read a page when the scan last looked, to notice that a row's block was not there.
    misses: i64,
    /// Whether a leaf has been read since the scan began.
    has_read: bool,
    /// Whether heap blocks are being asked for ahead.
    looks_ahead: bool,
    /// Null until something has to be read.
    ahead: *mut Ahead<K>,
    /// Rows that are in memory.
    lines: Lines,
    /// Rows of hot keys.
    hot: Hot,
    /// Whether `matches` holds a page and `at` a place in it. If not, the next call begins at an end.
    positioned: bool,
    at: usize,
    /// The page of the matches, and its pin if that is kept.
    block: Block,
    pin: Buffer,
    /// Matches that the server said are dead to everyone: where their flags are.
    killed: [u16; MAX_PAGE_ENTRIES],
    killed_count: usize,
    mark: Mark<K>,
    matches: Matches<K>,
}

/// A place to come back to.
struct Mark<K: Searched> {
    /// Whether there is one.
    set: bool,
    /// Whether it is in the page that the scan is at, or in the copy.
    here: bool,
    at: usize,
    cursor: Cursor<K>,
    block: Block,
    pin: Buffer,
    /// Made when the scan first leaves a page with a mark.
    copy: *mut Matches<K>,
}

/// Runs the expression with `$state` the scan's state, of whatever lane it is.
macro_rules! with_state {
    ($scan:expr, $state:ident => $run:expr) => {
        // The kind comes first in every state.
        with_keys!(*(*$scan).opaque.cast::<LaneKind>(), K => {
            let $state = &mut *(*$scan).opaque.cast::<State<K>>();
            $run
        })
    };
}

/// The `amcanreturn` callback: index-only scans give back exactly what was stored. In recovery only if the index has our
/// own log: redo of generic records does not wait for the pins that make such scans safe.
#[pg_guard]
pub unsafe extern "C-unwind" fn amcanreturn(rel: Relation, _column: c_int) -> bool {
    // SAFETY: called by the server, with an open index of ours.
    unsafe { column::is_returnable(rel) && (!pg_sys::RecoveryInProgress() || Index::of(rel).log == LogKind::Own) }
}

/// The `ambeginscan` callback.
#[pg_guard]
pub unsafe extern "C-unwind" fn ambeginscan(rel: Relation, keys: c_int, order_bys: c_int) -> IndexScanDesc {
    // SAFETY: called by the server, with an open index of ours. Raw calls: no destructor here.
    unsafe {
        let scan = ffi::RelationGetIndexScan(rel, keys, order_bys);
        let index = Index::of(rel);
        with_keys!(index.kind, K => begin::<K>(scan, index));
        (*scan).xs_itupdesc = (*rel).rd_att;
        scan
    }
}

unsafe fn begin<K: Searched>(scan: IndexScanDesc, index: Index) {
    // SAFETY: all-zero bytes are matches, cursors and buffers; every other field is written before the state is used.
    unsafe {
        let (context, rel) = (pg_sys::CurrentMemoryContext, (*scan).indexRelation);
        let state: *mut State<K> = allocate(context, 1, true);
        (&raw mut (*state).context).write(context);
        (&raw mut (*state).kind).write(index.kind);
        (&raw mut (*state).index).write(index);
        (&raw mut (*state).columns).write(Index::columns::<K>(rel));
        (&raw mut (*state).store).write(PgStore::new(rel, core::ptr::null_mut()));
        // The state does not move, and its columns do not change.
        let columns: &'static K::Columns = &(*state).columns;
        (&raw mut (*state).lines).write(Lines::new());
        (&raw mut (*state).hot).write(Hot::new());
        K::begin(&raw mut (*state).search, columns, context);
        (*state).cursor.restart(Direction::Forward);
        (*state).mark.cursor.restart(Direction::Forward);
        (*scan).opaque = state.cast();
    }
}

/// The `amrescan` callback.
#[pg_guard]
pub unsafe extern "C-unwind" fn amrescan(
    scan: IndexScanDesc,
    keys: ScanKey,
    key_count: c_int,
    _order_bys: ScanKey,
    _order_by_count: c_int,
) {
    // SAFETY: called by the server, with a scan that `ambeginscan` began.
    unsafe {
        if !keys.is_null() && (*scan).numberOfKeys > 0 && keys != (*scan).keyData {
            (*scan).keyData.copy_from(keys, key_count as usize);
        }
        with_state!(scan, state => {
            state.leave_page();
            state.unmark();
            state.stop_looking_ahead();
            state.positioned = false;
            K::select(&mut state.search, (*scan).indexRelation, scan_keys(&*scan));
            state.foresee_hot();
        });
    }
}

/// The conditions of a scan. Without any the server keeps no array of them.
unsafe fn scan_keys(scan: &IndexScanDescData) -> &[ScanKeyData] {
    match scan.numberOfKeys {
        0 => &[],
        // SAFETY: the server's array has as many.
        count => unsafe { core::slice::from_raw_parts(scan.keyData, count as usize) },
    }
}

/// The `amendscan` callback.
#[pg_guard]
pub unsafe extern "C-unwind" fn amendscan(scan: IndexScanDesc) {
    // SAFETY: called by the server, with a scan that `ambeginscan` began.
    unsafe {
        with_state!(scan, state => {
            state.leave_page();
            state.unmark();
            state.stop_looking_ahead();
            K::end(&mut state.search);
            memory::free(state.mark.copy);
            memory::free(state.ahead);
        });
        memory::free((*scan).opaque);
    }
}

/// The `amgettuple` callback. Not guarded itself: most calls only step to the next match of a page, which does not panic,
/// and for them the guard would cost as much as the work.
pub unsafe extern "C-unwind" fn amgettuple(scan: IndexScanDesc, direction: ScanDirection::Type) -> bool {
    // SAFETY: called by the server, with a scan that `amrescan` prepared.
    unsafe { with_state!(scan, state => state.next_in_page(&mut *scan, way(direction))) || next_match(scan, direction) }
}

fn way(direction: ScanDirection::Type) -> Direction {
    if direction == ScanDirection::BackwardScanDirection { Direction::Backward } else { Direction::Forward }
}

/// Steps to the next match, wherever it is.
#[pg_guard]
unsafe extern "C-unwind" fn next_match(scan: IndexScanDesc, direction: ScanDirection::Type) -> bool {
    // SAFETY: as `amgettuple`.
    unsafe { with_state!(scan, state => state.next(&mut *scan, way(direction))) }
}

/// The `amgetbitmap` callback.
#[pg_guard]
pub unsafe extern "C-unwind" fn amgetbitmap(scan: IndexScanDesc, bitmap: *mut TIDBitmap) -> i64 {
    // SAFETY: called by the server, with a scan that `amrescan` prepared.
    unsafe { with_state!(scan, state => state.fill_bitmap(&mut *scan, bitmap)) }
}

/// What a scan has asked for ahead so far. It asks for no more until it has to wait again.
///
/// # Safety
/// A scan of ours. May raise.
#[cfg(feature = "pg18")]
pub unsafe fn counts(scan: IndexScanDesc) -> prefetch::Counts {
    // SAFETY: by this function's contract.
    unsafe { with_state!(scan, state => state.counts()) }
}

/// The `ammarkpos` callback.
#[pg_guard]
pub unsafe extern "C-unwind" fn ammarkpos(scan: IndexScanDesc) {
    // SAFETY: called by the server, with a scan that `amrescan` prepared.
    unsafe {
        with_state!(scan, state => {
            state.unmark();
            if state.positioned {
                (state.mark.set, state.mark.here, state.mark.at) = (true, true, state.at);
            }
        });
    }
}

/// The `amrestrpos` callback.
#[pg_guard]
pub unsafe extern "C-unwind" fn amrestrpos(scan: IndexScanDesc) {
    // SAFETY: called by the server, with a scan that `amrescan` prepared.
    unsafe { with_state!(scan, state => state.restore()) };
}

impl<K: Searched> State<K> {
    /// Steps to the next match if it is in the same page and nothing else is to be done; `false` changes nothing.
    #[inline]
    unsafe fn next_in_page(&mut self, scan: &mut IndexScanDescData, direction: Direction) -> bool {
        let next = self.at + 1;
        if !self.positioned || scan.kill_prior_tuple || direction != self.cursor.direction() {
            return false;
        }
        let Some(&tid) = self.matches.tids().get(next) else { return false };
        if tid.block() >= self.heap_blocks || self.looks_ahead || self.misses != prefetch::misses() {
            return false;
        }
        if scan.xs_want_itup {
            // SAFETY: as `amgettuple`.
            let formed = unsafe { K::form_unguarded(&mut self.search, &self.matches, next) };
            let Some(tuple) = formed else { return false };
            scan.xs_itup = tuple;
        } else {
            // SAFETY: as `amgettuple`.
            unsafe { self.touch_rows(scan, next) };
        }
        self.at = next;
        scan.xs_heaptid = heap_tid(tid);
        scan.xs_recheck = K::rechecks(&self.search);
        true
    }

    /// Steps to the next match and puts it where the server looks.
    #[inline]
    unsafe fn next(&mut self, scan: &mut IndexScanDescData, direction: Direction) -> bool {
        // SAFETY: as `amgettuple`.
        unsafe {
            if scan.kill_prior_tuple && self.positioned {
                self.note_killed();
            }
            let missed = self.positioned && self.misses != prefetch::misses();
            if !self.step(scan, direction) {
                return false;
            }
            let tid = self.matches.tid(self.at);
            if tid.block() >= self.heap_blocks {
                self.check_heap_block(scan, tid.block());
            }
            scan.xs_heaptid = heap_tid(tid);
            scan.xs_recheck = K::rechecks(&self.search);
            if scan.xs_want_itup {
                let corrupt = Error::Corrupt { block: self.block, what: "entry's key is damaged" };
                let formed = K::form(&mut self.search, &self.matches, self.at);
                scan.xs_itup = self.store.expect(formed.ok_or(corrupt));
            }
            if (missed || self.looks_ahead) && direction == self.cursor.direction() {
                self.look_for_rows(scan, missed);
            }
            self.misses = prefetch::misses();
            self.keep_hot();
            true
        }
    }

    /// Notes that the server found the row of the last match dead to everyone.
    fn note_killed(&mut self) {
        self.forget_hot();
        if !self.are_hot() && self.killed_count < self.killed.len() {
            self.killed[self.killed_count] = self.matches.flags_at(self.at);
            self.killed_count += 1;
        }
    }

    /// Raises an error if the table does not have this block: the entry is damaged.
    #[cold]
    unsafe fn check_heap_block(&mut self, scan: &IndexScanDescData, block: Block) {
        // SAFETY: the scan's table; a bitmap scan does not say which, but the index does, and the executor locked it.
        unsafe {
            let named = scan.heapRelation;
            let no_lock = pg_sys::NoLock as c_int;
            let heap = if named.is_null() {
                ffi::table_open((*(*scan.indexRelation).rd_index).indrelid, no_lock)
            } else {
                named
            };
            self.heap_blocks = ffi::RelationGetNumberOfBlocksInFork(heap, MAIN_FORKNUM);
            if named.is_null() {
                ffi::table_close(heap, no_lock);
            }
        }
        if block >= self.heap_blocks {
            self.store.fail(Error::Corrupt { block: self.block, what: "entry points beyond the end of the table" });
        }
    }

    /// The same for all matches of a page, and that a bitmap has room for their offsets.
    unsafe fn check_heap_places(&mut self, scan: &IndexScanDescData) {
        let tids = self.matches.tids();
        let farthest = tids.iter().map(|tid| tid.block()).max().unwrap_or(0);
        if tids.iter().any(|tid| tid.offset() > MOST_ROWS) {
            self.store.fail(Error::Corrupt { block: self.block, what: "entry points to a row no page has room for" });
        }
        if farthest >= self.heap_blocks {
            // SAFETY: as the caller.
            unsafe { self.check_heap_block(scan, farthest) };
        }
    }

    #[inline]
    unsafe fn step(&mut self, scan: &mut IndexScanDescData, direction: Direction) -> bool {
        // SAFETY: as `amgettuple`.
        unsafe {
            if !self.positioned {
                self.start(scan, direction);
                if self.find_hot(scan) {
                    return true;
                }
            } else if direction == self.cursor.direction() {
                if self.at + 1 < self.matches.len() {
                    self.at += 1;
                    return true;
                }
            } else if self.at > 0 {
                self.stop_looking_ahead();
                self.at -= 1;
                return true;
            } else {
                self.stop_looking_ahead();
                self.leave_page();
                self.cursor.turn();
            }
            self.read_page(scan)
        }
    }

    /// Begins at the end that the direction begins at.
    unsafe fn start(&mut self, scan: &mut IndexScanDescData, direction: Direction) {
        // SAFETY: as `amgettuple`.
        unsafe {
            if scan.parallel_scan.is_null() {
                count_scan(scan);
            }
            self.store.set_snapshot(scan.xs_snapshot);
            K::want_tuples(&mut self.search, scan.xs_want_itup);
            self.cursor.restart(direction);
            self.has_read = false;
        }
    }

    /// Reads the next page with matches and stands at its first one.
    unsafe fn read_page(&mut self, scan: &mut IndexScanDescData) -> bool {
        // SAFETY: as `amgettuple`; pins are this scan's own.
        unsafe {
            self.leave_page();
            let misses = prefetch::misses();
            let read = match Shared::of(scan) {
                Some(shared) => self.read_on_with(shared, scan),
                None => self.read_on(scan),
            };
            let Some(pin) = read else {
                self.positioned = false;
                return false;
            };
            (self.positioned, self.at) = (true, 0);
            self.block = self.store.block(pin);
            if keeps_pin(scan) {
                self.pin = pin;
            } else {
                self.store.unpin(pin);
            }
            self.look_for_leaves(scan, self.block, misses != prefetch::misses());
            true
        }
    }

    /// Takes the next page's matches from the tree; the page is pinned. None at the end of the scan.
    #[inline]
    unsafe fn read_on(&mut self, scan: &IndexScanDescData) -> Option<Buffer> {
        let tree = tree::<K>(&self.store, &self.index, &self.columns);
        let read = self.cursor.read_page(tree, &self.search, scan.ignore_killed_tuples, &mut self.matches);
        self.store.expect(read)
    }

    /// The same for the next page that no process of the parallel scan has read. The server never turns such a scan round,
    /// nor marks a place in it.
    unsafe fn read_on_with(&mut self, shared: &Shared, scan: &mut IndexScanDescData) -> Option<Buffer> {
        // SAFETY: as `amgettuple`; nothing is locked.
        unsafe {
            match shared.take(&mut self.cursor) {
                Turn::First => count_scan(scan),
                Turn::Next => {}
                Turn::None => return None,
            }
            let pin = self.read_on(scan);
            shared.hand_on(&self.cursor);
            pin
        }
    }

    /// Marks killed entries dead, keeps a marked page's matches, and gives the page's pin back.
    #[inline]
    unsafe fn leave_page(&mut self) {
        // SAFETY: as the callbacks.
        unsafe {
            if self.killed_count > 0 {
                self.mark_dead();
            }
            if self.mark.set && self.mark.here {
                self.keep_marked();
            }
            if self.pin != INVALID_BUFFER {
                self.store.unpin(self.pin);
                self.pin = INVALID_BUFFER;
            }
        }
    }

    #[cold]
    unsafe fn mark_dead(&mut self) {
        let count = core::mem::take(&mut self.killed_count);
        let kept = self.pin != INVALID_BUFFER;
        let pin = if kept { self.pin } else { self.store.expect(self.store.pin(self.block)) };
        scan::kill(&self.store, pin, self.cursor.lsn(), &self.killed[..count]);
        if !kept {
            self.store.unpin(pin);
        }
    }

    /// Copies the page's matches away, for the mark that is in it.
    unsafe fn keep_marked(&mut self) {
        // SAFETY: as `amgettuple`; all-zero bytes are matches, and the copy lives as long as the state.
        unsafe {
            if self.mark.copy.is_null() {
                self.mark.copy = allocate(self.context, 1, true);
            }
            (*self.mark.copy).copy_from(&self.matches);
            (self.mark.here, self.mark.block) = (false, self.block);
            self.mark.cursor.copy_from(&self.cursor);
            self.mark.pin = core::mem::replace(&mut self.pin, INVALID_BUFFER);
        }
    }

    /// Forgets the mark.
    unsafe fn unmark(&mut self) {
        if self.mark.pin != INVALID_BUFFER {
            self.store.unpin(self.mark.pin);
            self.mark.pin = INVALID_BUFFER;
        }
        self.mark.set = false;
    }

    /// Goes back to the mark, which stays.
    unsafe fn restore(&mut self) {
        // SAFETY: as `amrestrpos`.
        unsafe {
            self.stop_looking_ahead();
            if self.mark.set && self.mark.here {
                self.at = self.mark.at;
                return;
            }
            self.leave_page();
            self.positioned = self.mark.set;
            if self.mark.set {
                self.matches.copy_from(&*self.mark.copy);
                (self.at, self.block) = (self.mark.at, self.mark.block);
                self.cursor.copy_from(&self.mark.cursor);
                self.pin = core::mem::replace(&mut self.mark.pin, INVALID_BUFFER);
                self.mark.here = true;
            }
        }
    }

    /// Adds all matches to a bitmap and says how many there were.
    unsafe fn fill_bitmap(&mut self, scan: &mut IndexScanDescData, bitmap: *mut TIDBitmap) -> i64 {
        // SAFETY: as `amgetbitmap`.
        unsafe {
            self.start(scan, Direction::Forward);
            let mut total = 0;
            while self.read_page(scan) {
                self.check_heap_places(scan);
                for tids in self.matches.tids().chunks(BITMAP_BATCH) {
                    let mut items = [heap_tid(Tid::MIN); BITMAP_BATCH];
                    items.iter_mut().zip(tids).for_each(|(item, &tid)| *item = heap_tid(tid));
                    add_to_bitmap(bitmap, &mut items[..tids.len()], K::rechecks(&self.search));
                }
                total += self.matches.len() as i64;
            }
            total
        }
    }
}

/// The type of an array's elements.
unsafe fn element_type(array: Datum) -> pg_sys::Oid {
    // SAFETY: the scan key's argument is an array.
    unsafe { (*ffi::pg_detoast_datum(array.cast_mut_ptr()).cast::<pg_sys::ArrayType>()).elemtype }
}

/// The comparisons that a row comparison is made of, column by column.
unsafe fn row_members(row: &ScanKeyData) -> &'static [ScanKeyData] {
    // SAFETY: the key's argument is an array of keys, of which the last is marked; the executor keeps it for the scan.
    unsafe {
        let members: *const ScanKeyData = row.sk_argument.cast_mut_ptr();
        let mut count = 1;
        while (*members.add(count - 1)).sk_flags as u32 & pg_sys::SK_ROW_END == 0 {
            count += 1;
        }
        core::slice::from_raw_parts(members, count)
    }
}

/// What a row comparison says of its first column alone: no more than `<=` or `>=`.
fn first_of_row(members: &[ScanKeyData]) -> ScanKeyData {
    ScanKeyData { sk_strategy: with_equality(members[0].sk_strategy), ..members[0] }
}

/// The strategy that `=` is added to.
fn with_equality(strategy: u16) -> u16 {
    match u32::from(strategy) {
        pg_sys::BTLessStrategyNumber => pg_sys::BTLessEqualStrategyNumber as u16,
        pg_sys::BTGreaterStrategyNumber => pg_sys::BTGreaterEqualStrategyNumber as u16,
        _ => strategy,
    }
}

/// An array's elements and which of them are NULL, in the current memory context.
unsafe fn elements(array: Datum) -> (&'static [Datum], &'static [bool]) {
    // SAFETY: the scan key's argument is an array of a known type.
    unsafe {
        let array: *mut pg_sys::ArrayType = ffi::pg_detoast_datum(array.cast_mut_ptr()).cast();
        let element = (*array).elemtype;
        let (mut length, mut by_value, mut align) = (0, false, 0);
        ffi::get_typlenbyvalalign(element, &mut length, &mut by_value, &mut align);
        let (mut values, mut nulls, mut count) = (core::ptr::null_mut(), core::ptr::null_mut(), 0);
        ffi::deconstruct_array(
            array,
            element,
            c_int::from(length),
            by_value,
            align,
            &mut values,
            &mut nulls,
            &mut count,
        );
        if count == 0 {
            return (&[], &[]);
        }
        let count = count as usize;
        (core::slice::from_raw_parts(values, count), core::slice::from_raw_parts(nulls, count))
    }
}

/// Whether the pin on a page is kept while its matches are returned, as nbtree keeps it (I6): it holds VACUUM off the
/// page where no MVCC snapshot would notice that a TID was used again.
#[inline]
unsafe fn keeps_pin(scan: &IndexScanDescData) -> bool {
    // SAFETY: the scan's snapshot and index.
    unsafe {
        let kind = (*scan.xs_snapshot).snapshot_type;
        let is_mvcc = kind == SnapshotType::SNAPSHOT_MVCC || kind == SnapshotType::SNAPSHOT_HISTORIC_MVCC;
        scan.xs_want_itup || !is_mvcc || !relation::needs_wal(scan.indexRelation)
    }
}

/// Counts the start of a scan in the server's statistics.
unsafe fn count_scan(scan: &mut IndexScanDescData) {
    // SAFETY: an open index.
    unsafe {
        relation::count_index_scan(scan.indexRelation);
        #[cfg(feature = "pg18")]
        if let Some(instrument) = scan.instrument.as_mut() {
            instrument.nsearches += 1;
        }
    }
}

/// `tbm_add_tuples`, raw: it may run out of memory.
unsafe fn add_to_bitmap(bitmap: *mut TIDBitmap, tids: &mut [ItemPointerData], recheck: bool) {
    // SAFETY: the server's bitmap.
    unsafe { ffi::tbm_add_tuples(bitmap, tids.as_mut_ptr(), tids.len() as c_int, recheck) };
}
