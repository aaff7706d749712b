//! Index scans: plain, index-only and bitmap, in both directions.

use core::ffi::c_int;

use fpbtree_engine::key::{KeyShape, Lane, LaneKind, Tail};
use fpbtree_engine::page::MAX_PAGE_ENTRIES;
use fpbtree_engine::scan::{self, Cursor, Direction, Matches, Selection};
use fpbtree_engine::store::{Block, Error, PageStore};
use fpbtree_engine::tree::Tree;
use pgrx::PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED;
use pgrx::pg_guard;
use pgrx::pg_sys::{
    self, Buffer, Datum, ForkNumber::MAIN_FORKNUM, IndexScanDesc, IndexScanDescData, ItemPointerData, Relation,
    ScanDirection, ScanKey, ScanKeyData, SnapshotType, TIDBitmap,
};

use crate::bounds::{self, ColumnOrder, List, Neighbours, neighbours};
use crate::column;
use crate::index::{Index, heap_tid, with_lane};
use crate::memory::{self, allocate, zeroed_array};
use crate::server::{self, INVALID_BUFFER, raw};
use crate::store::PgStore;
use crate::tuple::Tuple;

/// `MaxHeapTuplesPerPage`: what a bitmap takes.
const MOST_ROWS: u16 = 291;
/// TIDs handed to a bitmap at a time.
const BITMAP_BATCH: usize = 256;

/// A scan's own state, in the memory context it was begun in (I11). No destructor.
#[repr(C)]
struct State<L: Lane> {
    /// First, so that a state can be told by it.
    kind: LaneKind,
    /// Blocks the table is known to have; it only grows while the scan goes on.
    heap_blocks: Block,
    /// Where the state and what belongs to it lives.
    context: pg_sys::MemoryContext,
    index: Index,
    store: PgStore,
    /// What is looked for; its shape is `index`'s.
    selection: Selection<'static>,
    /// Memory for arrays and lists looked for, emptied at each rescan; null until one comes.
    arrays: pg_sys::MemoryContext,
    cursor: Cursor<L>,
    /// Whether `matches` holds a page and `at` a place in it. If not, the next call begins at an end.
    positioned: bool,
    at: usize,
    /// The page of the matches, and its pin if that is kept.
    block: Block,
    pin: Buffer,
    /// Matches that the server said are dead to everyone: where their flags are.
    killed: [u16; MAX_PAGE_ENTRIES],
    killed_count: usize,
    mark: Mark<L>,
    tuple: Tuple,
    matches: Matches<L>,
}

/// A place to come back to.
struct Mark<L: Lane> {
    /// Whether there is one.
    set: bool,
    /// Whether it is in the page that the scan is at, or in the copy.
    here: bool,
    at: usize,
    cursor: Cursor<L>,
    block: Block,
    pin: Buffer,
    /// Made when the scan first leaves a page with a mark.
    copy: *mut Matches<L>,
}

/// Runs the expression with `$state` the scan's state, of whatever lane it is.
macro_rules! with_state {
    ($scan:expr, $state:ident => $run:expr) => {
        // The kind comes first in every state.
        with_lane!(*(*$scan).opaque.cast::<LaneKind>(), L => {
            let $state = &mut *(*$scan).opaque.cast::<State<L>>();
            $run
        })
    };
}

/// The `amcanreturn` callback: index-only scans give back exactly what was stored. Not in recovery: redo of generic
/// records does not wait for the pins that make them safe.
#[pg_guard]
pub unsafe extern "C-unwind" fn amcanreturn(rel: Relation, _column: c_int) -> bool {
    // SAFETY: called by the server, with an open index of ours.
    unsafe { !pg_sys::RecoveryInProgress() && column::index_shape(rel).returnable() }
}

/// The `ambeginscan` callback.
#[pg_guard]
pub unsafe extern "C-unwind" fn ambeginscan(rel: Relation, keys: c_int, order_bys: c_int) -> IndexScanDesc {
    // SAFETY: called by the server, with an open index of ours. Raw calls: no destructor here.
    unsafe {
        let scan = pg_sys::RelationGetIndexScan(rel, keys, order_bys);
        let index = Index::of(rel);
        with_lane!(index.shape.lane_kind(), L => begin::<L>(scan, index));
        (*scan).xs_itupdesc = (*rel).rd_att;
        scan
    }
}

unsafe fn begin<L: Lane>(scan: IndexScanDesc, index: Index) {
    // SAFETY: all-zero bytes are matches, tuples and buffers; every other field is written before the state is used.
    unsafe {
        let context = pg_sys::CurrentMemoryContext;
        let state: *mut State<L> = allocate(context, 1, true);
        (&raw mut (*state).context).write(context);
        (&raw mut (*state).kind).write(index.shape.lane_kind());
        (&raw mut (*state).index).write(index);
        (&raw mut (*state).store).write(PgStore::new((*scan).indexRelation, core::ptr::null_mut()));
        // The state does not move, and its shape does not change.
        let shape: &'static KeyShape = &(*state).index.shape;
        (&raw mut (*state).selection).write(Selection::new(shape));
        (&raw mut (*state).cursor).write(Cursor::new(Direction::Forward));
        (&raw mut (*state).mark.cursor).write(Cursor::new(Direction::Forward));
        (&raw mut (*state).tuple).write(Tuple::new(context, shape));
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
            state.positioned = false;
            state.select(scan);
        });
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
            if !state.arrays.is_null() {
                pg_sys::MemoryContextDelete(state.arrays);
            }
            memory::free(state.mark.copy);
            memory::free(state.tuple.memory);
        });
        memory::free((*scan).opaque);
    }
}

/// The `amgettuple` callback. Not guarded itself: most calls only step to the next match of a page, which cannot panic,
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

impl<L: Lane> State<L> {
    /// Steps to the next match if it is in the same page and nothing else is to be done; `false` changes nothing.
    #[inline]
    unsafe fn next_in_page(&mut self, scan: &mut IndexScanDescData, direction: Direction) -> bool {
        let next = self.at + 1;
        if !self.positioned || scan.kill_prior_tuple || direction != self.cursor.direction() {
            return false;
        }
        let Some(&tail) = self.matches.tails().get(next) else { return false };
        if tail.block() >= self.heap_blocks {
            return false;
        }
        if scan.xs_want_itup {
            // SAFETY: as `amgettuple`.
            unsafe {
                if !self.tuple.form_plain(self.matches.lane(next).to_u128() as u64, tail) {
                    return false;
                }
            }
            scan.xs_itup = self.tuple.memory;
        }
        self.at = next;
        scan.xs_heaptid = heap_tid(tail);
        scan.xs_recheck = false;
        true
    }

    /// Steps to the next match and puts it where the server looks.
    #[inline]
    unsafe fn next(&mut self, scan: &mut IndexScanDescData, direction: Direction) -> bool {
        // SAFETY: as `amgettuple`.
        unsafe {
            if scan.kill_prior_tuple && self.positioned && self.killed_count < self.killed.len() {
                self.killed[self.killed_count] = self.matches.place(self.at);
                self.killed_count += 1;
            }
            if !self.step(scan, direction) {
                return false;
            }
            let tail = self.matches.tail(self.at);
            if tail.block() >= self.heap_blocks {
                self.check_heap_block(scan, tail.block());
            }
            scan.xs_heaptid = heap_tid(tail);
            scan.xs_recheck = false;
            if scan.xs_want_itup {
                scan.xs_itup = self.form_tuple();
            }
            true
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
                raw::table_open((*(*scan.indexRelation).rd_index).indrelid, no_lock)
            } else {
                named
            };
            self.heap_blocks = raw::RelationGetNumberOfBlocksInFork(heap, MAIN_FORKNUM);
            if named.is_null() {
                raw::table_close(heap, no_lock);
            }
        }
        if block >= self.heap_blocks {
            self.store.fail(Error::Corrupt { block: self.block, what: "entry points beyond the end of the table" });
        }
    }

    /// The same for all matches of a page, and that a bitmap has room for their offsets.
    unsafe fn check_heap_places(&mut self, scan: &IndexScanDescData) {
        let tails = self.matches.tails();
        let farthest = tails.iter().map(|tail| tail.block()).max().unwrap_or(0);
        if tails.iter().any(|tail| tail.offset() > MOST_ROWS) {
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
            } else if direction == self.cursor.direction() {
                if self.at + 1 < self.matches.len() {
                    self.at += 1;
                    return true;
                }
            } else if self.at > 0 {
                self.at -= 1;
                return true;
            } else {
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
            count_scan(scan);
            self.store.set_snapshot(scan.xs_snapshot);
            self.cursor = Cursor::new(direction);
        }
    }

    /// Reads the next page with matches and stands at its first one.
    unsafe fn read_page(&mut self, scan: &IndexScanDescData) -> bool {
        // SAFETY: as `amgettuple`; pins are this scan's own.
        unsafe {
            self.leave_page();
            let tree = Tree::<_, L>::new(&self.store, &self.index.geometry);
            let read = self.cursor.read_page(tree, &self.selection, scan.ignore_killed_tuples, &mut self.matches);
            let Some(pin) = self.store.expect(read) else {
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
            true
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
            (self.mark.here, self.mark.cursor, self.mark.block) = (false, self.cursor, self.block);
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
            if self.mark.set && self.mark.here {
                self.at = self.mark.at;
                return;
            }
            self.leave_page();
            self.positioned = self.mark.set;
            if self.mark.set {
                self.matches.copy_from(&*self.mark.copy);
                (self.at, self.cursor, self.block) = (self.mark.at, self.mark.cursor, self.mark.block);
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
                for tails in self.matches.tails().chunks(BITMAP_BATCH) {
                    let mut tids = [heap_tid(Tail::MIN); BITMAP_BATCH];
                    tids.iter_mut().zip(tails).for_each(|(tid, &tail)| *tid = heap_tid(tail));
                    add_to_bitmap(bitmap, &mut tids[..tails.len()]);
                }
                total += self.matches.len() as i64;
            }
            total
        }
    }

    /// Forms the index tuple of the match the scan is at, in memory that the next one uses again.
    unsafe fn form_tuple(&mut self) -> *mut pg_sys::IndexTupleData {
        let (lane, tail) = (self.matches.lane(self.at).to_u128(), self.matches.tail(self.at));
        // SAFETY: as `amgettuple`.
        unsafe {
            if !self.tuple.form_plain(lane as u64, tail) {
                self.tuple.form(&self.index.shape, lane, tail);
            }
        }
        self.tuple.memory
    }

    /// Reads the scan keys: what is looked for.
    unsafe fn select(&mut self, scan: IndexScanDesc) {
        // SAFETY: as `amrescan`.
        unsafe {
            self.selection.clear();
            if !self.arrays.is_null() {
                pg_sys::MemoryContextReset(self.arrays);
            }
            for number in 0..(*scan).numberOfKeys as usize {
                self.add_key((*scan).indexRelation, &*(*scan).keyData.add(number));
            }
        }
    }

    #[inline]
    unsafe fn add_key(&mut self, rel: Relation, key: &ScanKeyData) {
        let c = key.sk_attno as usize - 1;
        let flags = key.sk_flags as u32;
        if flags & pg_sys::SK_SEARCHNULL != 0 {
            return self.selection.null(c);
        }
        if flags & pg_sys::SK_SEARCHNOTNULL != 0 {
            return self.selection.not_null(c);
        }
        if flags & pg_sys::SK_ISNULL != 0 {
            // All operators of our families are strict.
            return self.selection.nothing();
        }
        if flags & pg_sys::SK_ROW_HEADER != 0 {
            server::raise(
                ERRCODE_FEATURE_NOT_SUPPORTED,
                format_args!("fpbtree index \"{}\" cannot compare rows", server::Name(rel)),
                None,
                None,
            );
        }
        let ty = self.index.shape.columns()[c].ty;
        // SAFETY: the server's scan keys are on our columns, with operators of our families.
        unsafe {
            let order = ColumnOrder::of(rel, c, ty);
            if flags & pg_sys::SK_SEARCHARRAY != 0 {
                return self.add_array(order, c, key);
            }
            if bounds::is_local(order, key.sk_subtype) {
                let before = self.enter_arrays();
                self.add_moments(order, c, key.sk_strategy, [key.sk_argument]);
                pg_sys::MemoryContextSwitchTo(before);
                return;
            }
            let bounds = neighbours(order, key.sk_subtype, key.sk_argument);
            self.restrict(c, key.sk_strategy, bounds);
        }
    }

    /// Wants a column to compare with an argument, given by its neighbours, as the strategy says.
    #[inline]
    fn restrict(&mut self, c: usize, strategy: u16, bounds: Neighbours) {
        let Some((low, high)) = interval(strategy, bounds) else { return self.selection.nothing() };
        self.selection.between(c, low, high);
    }

    /// Makes the arrays' memory the current context; returns the one before.
    unsafe fn enter_arrays(&mut self) -> pg_sys::MemoryContext {
        // SAFETY: the scan's context outlives it.
        unsafe {
            if self.arrays.is_null() {
                self.arrays = pg_sys::AllocSetContextCreateInternal(
                    self.context,
                    c"fpbtree array keys".as_ptr(),
                    pg_sys::ALLOCSET_SMALL_MINSIZE as usize,
                    pg_sys::ALLOCSET_SMALL_INITSIZE as usize,
                    pg_sys::ALLOCSET_DEFAULT_MAXSIZE as usize,
                );
            }
            pg_sys::MemoryContextSwitchTo(self.arrays)
        }
    }

    /// Wants a column of local times to compare with any of these moments as the strategy says.
    unsafe fn add_moments(
        &mut self,
        order: ColumnOrder,
        c: usize,
        strategy: u16,
        moments: impl IntoIterator<Item = Datum>,
    ) {
        // SAFETY: as `add_key`, in the arrays' memory.
        unsafe {
            let mut ranges = List::new();
            for moment in moments {
                bounds::local_ranges(order, moment, |bounds| interval(strategy, bounds), &mut ranges);
            }
            let ranges = ranges.as_mut_slice();
            let room = zeroed_array(ranges.len() + self.selection.parts(c));
            self.selection.any_between(c, ranges, room);
        }
    }

    /// Wants a column to compare so with any element of an array.
    unsafe fn add_array(&mut self, order: ColumnOrder, c: usize, key: &ScanKeyData) {
        // SAFETY: as `add_key`; what is allocated lives until the next rescan.
        unsafe {
            let before = self.enter_arrays();
            let (values, nulls) = elements(key.sk_argument);
            let element =
                (*pg_sys::pg_detoast_datum(key.sk_argument.cast_mut_ptr()).cast::<pg_sys::ArrayType>()).elemtype;
            let subtype = if key.sk_subtype == pg_sys::InvalidOid { element } else { key.sk_subtype };
            let present = || values.iter().zip(nulls).filter(|(_, null)| !**null).map(|(&value, _)| value);
            if bounds::is_local(order, subtype) {
                self.add_moments(order, c, key.sk_strategy, present());
            } else if key.sk_strategy == pg_sys::BTEqualStrategyNumber as u16 {
                let fields = zeroed_array::<u128>(values.len());
                let mut count = 0;
                for value in present() {
                    let bounds = neighbours(order, subtype, value);
                    if let (Some(floor), Some(ceil)) = (bounds.floor, bounds.ceil)
                        && ceil <= floor
                    {
                        fields[count] = floor;
                        count += 1;
                    }
                }
                self.selection.any_of(c, &mut fields[..count]);
            } else {
                // Any element at all will do: the widest of their intervals.
                let widest = present()
                    .filter_map(|value| interval(key.sk_strategy, neighbours(order, subtype, value)))
                    .reduce(|(a, b), (c, d)| (a.min(c), b.max(d)));
                match widest {
                    Some((low, high)) => self.selection.between(c, low, high),
                    None => self.selection.nothing(),
                }
            }
            pg_sys::MemoryContextSwitchTo(before);
        }
    }
}

/// The fields that compare with an argument as the strategy says: from, to; `None` if there are none.
#[inline]
fn interval(strategy: u16, Neighbours { floor, ceil }: Neighbours) -> Option<(u128, u128)> {
    let (low, high) = match u32::from(strategy) {
        pg_sys::BTLessStrategyNumber => (0, ceil.map_or(Some(u128::MAX), |ceil| ceil.checked_sub(1))?),
        pg_sys::BTLessEqualStrategyNumber => (0, floor?),
        pg_sys::BTEqualStrategyNumber => (ceil?, floor?),
        pg_sys::BTGreaterEqualStrategyNumber => (ceil?, u128::MAX),
        _ => (floor.map_or(Some(0), |floor| floor.checked_add(1))?, u128::MAX),
    };
    (low <= high).then_some((low, high))
}

/// An array's elements and which of them are NULL, in the current memory context.
unsafe fn elements(array: Datum) -> (&'static [Datum], &'static [bool]) {
    // SAFETY: the scan key's argument is an array of a known type.
    unsafe {
        let array: *mut pg_sys::ArrayType = pg_sys::pg_detoast_datum(array.cast_mut_ptr()).cast();
        let element = (*array).elemtype;
        let (mut length, mut by_value, mut align) = (0, false, 0);
        pg_sys::get_typlenbyvalalign(element, &mut length, &mut by_value, &mut align);
        let (mut values, mut nulls, mut count) = (core::ptr::null_mut(), core::ptr::null_mut(), 0);
        pg_sys::deconstruct_array(
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
        scan.xs_want_itup || !is_mvcc || !server::needs_wal(scan.indexRelation)
    }
}

/// Counts the start of a scan in the server's statistics.
unsafe fn count_scan(scan: &mut IndexScanDescData) {
    // SAFETY: an open index.
    unsafe {
        server::count_index_scan(scan.indexRelation);
        #[cfg(feature = "pg18")]
        if let Some(instrument) = scan.instrument.as_mut() {
            instrument.nsearches += 1;
        }
    }
}

/// `tbm_add_tuples`, raw: it may run out of memory.
unsafe fn add_to_bitmap(bitmap: *mut TIDBitmap, tids: &mut [ItemPointerData]) {
    // SAFETY: the server's bitmap.
    unsafe { pg_sys::tbm_add_tuples(bitmap, tids.as_mut_ptr(), tids.len() as c_int, false) };
}
