//! A scan's rows as plan nodes of ours take them, which need no tuples: the matches of a leaf, less those that the
//! snapshot does not see, all together or one after another.
//!
//! Which blocks are all-visible is asked when the leaf has been read and is still pinned. An insertion clears a block's
//! bit before its entry can be in a leaf, so of an entry that is there the map is not behind; and VACUUM, which would
//! set the bit of a block whose dead rows it has removed, cannot remove their entries from a leaf that is pinned.

use core::ops::Range;

use fpbtree_engine::format::{Block, Error, Lane, LaneKind, MAX_PAGE_ENTRIES, Tid};
use fpbtree_engine::keys::KeyShape;
use fpbtree_engine::page::Bytes;
use fpbtree_engine::scan::{Direction, Matches, Rows};
use pgrx::PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED;
use pgrx::pg_sys::{self, IndexScanDesc, IndexScanDescData, MemoryContext, TupleTableSlot};

use super::conditions::Searched;
use super::lines::MOST_TOUCHED;
use super::state::ScanState;
use crate::pg::tid::heap_tid;
use crate::pg::visibility::VisibilityMap;
use crate::pg::visible_rows::VisibleRows;
use crate::pg::{errors, ffi, relation};
use crate::values::keys::{BytesColumns, with_keys};
use crate::values::row::RowColumns;

/// What looks at the rows of a page.
pub trait Visitor {
    /// What it says of them.
    type Out;

    /// Rows of exact lanes.
    fn rows<L: Lane>(self, shape: &KeyShape, rows: Rows<'_, L>) -> Self::Out;

    /// Rows of byte strings, which are some of these matches.
    fn strings(self, columns: &BytesColumns, matches: &Matches<Bytes>, rows: Range<usize>) -> Self::Out;

    /// So many rows, of whose keys nothing is known.
    fn count(self, rows: usize) -> Self::Out;
}

/// Blocks that the visibility map is asked about at once for each row of a leaf, at most. Looking at so many takes no longer
/// than asking about the row; in a large table the rows of a leaf may be anywhere.
const BLOCKS_A_ROW: usize = 256;
/// Rows of a group that are looked up sooner than the tree is descended to where the group ends.
const WORTH_A_DESCENT: usize = 64;

/// How it is found out which rows the snapshot sees.
pub struct Visibility {
    pub map: VisibilityMap,
    /// What is known of blocks that are not all-visible.
    rows: VisibleRows,
    /// For rows of the table.
    pub slot: *mut TupleTableSlot,
    /// Rows looked up so far.
    pub fetched: u64,
    /// Rows found so far that the snapshot sees, where rows are not looked up by the page.
    pub seen: u64,
    /// How many rows of a page are looked up next: few at first, as the scan may be about to stop.
    stretch: usize,
}

impl Visibility {
    /// Nothing is looked up yet. The slot is for rows of the table; what is needed of memory is the context's.
    pub const fn new(slot: *mut TupleTableSlot, context: MemoryContext) -> Visibility {
        let (map, rows) = (VisibilityMap::new(), VisibleRows::new(context));
        Visibility { map, rows, slot, fetched: 0, seen: 0, stretch: 1 }
    }

    /// Whether the snapshot is known to see a row, of a block that is not all-visible.
    #[inline]
    fn knows(&mut self, tid: Tid) -> bool {
        let is_known = self.rows.shows(tid.block(), tid.offset());
        self.fetched += u64::from(is_known);
        is_known
    }

    /// As many rows as are to be looked up now; more the next time.
    fn next_stretch(&mut self) -> usize {
        let longer = (self.stretch * 4).min(MAX_PAGE_ENTRIES);
        core::mem::replace(&mut self.stretch, longer)
    }
}

impl<K: Searched> ScanState<K> {
    /// Reads the next page of matches, or the first one of the scan if it begins in a direction; `false` if there is none.
    /// Nothing is locked then; the page is pinned.
    unsafe fn read_matches(
        &mut self,
        scan: &mut IndexScanDescData,
        begins: Option<Direction>,
        wants_keys: bool,
    ) -> bool {
        // SAFETY: the scan is ours and was prepared by `amrescan`; nothing is locked. No frame here owns a destructor.
        unsafe {
            if let Some(direction) = begins {
                self.start(scan, direction);
                // The pin is kept as if tuples were wanted.
                K::want_keys(&mut self.conditions, wants_keys);
            }
            if !self.read_page(scan) {
                return false;
            }
            relation::count_index_tuples(scan.indexRelation, self.matches.len());
            self.seen = 0;
            true
        }
    }

    /// Steps to the next row of the page, if it is known to be seen, and puts it into a slot; `false` changes nothing.
    #[inline(always)]
    unsafe fn step_in_page(&mut self, direction: Direction, row: &mut RowColumns, slot: &mut TupleTableSlot) -> bool {
        let next = self.at + 1;
        if !self.positioned || direction != self.cursor.direction() || next >= self.seen {
            return false;
        }
        // SAFETY: the match exists, and the slot has the row's columns.
        let filled = unsafe { K::fill_unguarded(&mut self.conditions, &self.matches, next, row, slot) };
        if filled.is_some() {
            self.at = next;
        }
        filled.is_some()
    }

    /// Steps to the next row that the snapshot sees, in the page or in one behind it; `false` at the end. Nothing is locked
    /// then; the page is pinned.
    unsafe fn step_to_seen(
        &mut self,
        scan: &mut IndexScanDescData,
        direction: Direction,
        visibility: &mut Visibility,
    ) -> bool {
        // SAFETY: the scan is ours and was prepared by `amrescan`; nothing is locked. No frame here owns a destructor.
        unsafe {
            let mut next = None;
            if !self.positioned {
                visibility.stretch = 1;
                self.start(scan, direction);
            } else if direction == self.cursor.direction() {
                next = Some(self.at + 1);
            } else if self.at > 0 {
                next = Some(self.at - 1);
            } else {
                self.leave_page();
                self.cursor.turn();
            }
            loop {
                if let Some(at) = next
                    && self.see(scan, at, visibility)
                {
                    self.at = at;
                    return true;
                }
                errors::check_for_interrupts();
                if !self.read_page(scan) {
                    return false;
                }
                relation::count_index_tuples(scan.indexRelation, self.matches.len());
                (self.seen, next) = (0, Some(0));
            }
        }
    }

    /// Leaves out matches that the snapshot does not see until there is one at this place that it does; `false` if there is
    /// none.
    unsafe fn see(&mut self, scan: &mut IndexScanDescData, at: usize, visibility: &mut Visibility) -> bool {
        while at >= self.seen {
            // SAFETY: the caller's.
            if !unsafe { self.see_more(scan, visibility) } {
                return false;
            }
        }
        true
    }

    /// Looks up more rows of the page's matches, and leaves out those that the snapshot does not see; `false` if all were
    /// looked up before.
    unsafe fn see_more(&mut self, scan: &mut IndexScanDescData, visibility: &mut Visibility) -> bool {
        let before = self.seen;
        if before == self.matches.len() {
            return false;
        }
        let blocks = self.matches.blocks();
        // SAFETY: the scan's relations are open, and the leaf is pinned.
        unsafe {
            self.seen = if before == 0 && self.are_all_visible(scan, blocks, visibility) {
                self.matches.len()
            } else {
                let to = self.matches.len().min(before + visibility.next_stretch());
                to - self.leave_out_unseen(scan, before..to, blocks, visibility)
            };
        }
        visibility.seen += (self.seen - before) as u64;
        true
    }

    /// Looks up all rows of the page's matches, and leaves out those that the snapshot does not see.
    unsafe fn see_all(&mut self, scan: &mut IndexScanDescData, visibility: &mut Visibility) {
        let (rows, blocks) = (0..self.matches.len(), self.matches.blocks());
        // SAFETY: the scan's relations are open, the leaf is pinned, and the slot is the node's, for rows of the table.
        unsafe {
            if !rows.is_empty() && !self.are_all_visible(scan, blocks, visibility) {
                self.leave_out_unseen(scan, rows, blocks, visibility);
            }
        }
        self.seen = self.matches.len();
        visibility.seen += self.seen as u64;
    }

    /// Begins the scan and skips rows that the snapshot sees. Says how many were missing; if none was, the scan stands at
    /// the last of them.
    unsafe fn skip(
        &mut self,
        scan: &mut IndexScanDescData,
        direction: Direction,
        mut rows: u64,
        visibility: &mut Visibility,
    ) -> u64 {
        // SAFETY: the scan is ours and was prepared by `amrescan`; nothing is locked. No frame here owns a destructor.
        unsafe {
            self.start(scan, direction);
            // Pins are kept as if tuples were wanted.
            let wants_tuples = core::mem::replace(&mut scan.xs_want_itup, true);
            while rows > 0 && self.read_page(scan) {
                errors::check_for_interrupts();
                let passed = self.pass(scan, rows, visibility);
                relation::count_index_tuples(scan.indexRelation, passed as usize);
                rows -= passed;
            }
            scan.xs_want_itup = wants_tuples;
            rows
        }
    }

    /// Goes to the last of so many rows of the page that the snapshot sees, or to the page's end; says how many they are.
    unsafe fn pass(&mut self, scan: &mut IndexScanDescData, rows: u64, visibility: &mut Visibility) -> u64 {
        self.seen = 0;
        // SAFETY: the scan's relations are open, the leaf is pinned, and the slot is the node's, for rows of the table.
        unsafe {
            match self.matches.len() as u64 > rows {
                true => _ = self.see(scan, rows as usize - 1, visibility),
                false => self.see_all(scan, visibility),
            }
        }
        let passed = rows.min(self.seen as u64);
        self.at = (passed as usize).saturating_sub(1);
        passed
    }

    /// How many of some matches' rows the map does not say that the snapshot sees, at most.
    unsafe fn doubtful(&self, scan: &IndexScanDescData, rows: Range<usize>, visibility: &mut Visibility) -> usize {
        let ((first, last), mut count) = (self.matches.blocks(), 0);
        // SAFETY: the scan's relations are open, and the leaf is pinned.
        match unsafe { visibility.map.part(scan.heapRelation, first, last) } {
            Some(map) => map.for_each_doubtful(&self.matches.tids()[rows], |_| count += 1),
            None => count = rows.len(),
        }
        count
    }

    /// Goes on behind the group by so many columns of the last row of the page that is known to be seen, if there is one and
    /// that is less work than to look up the rest of the group; else `false`, and nothing changes. Before that, shows the
    /// group's rows to `see` from the last one back, those that the snapshot sees, some at a time, as long as that says to go on.
    unsafe fn leave_group(
        &mut self,
        scan: &mut IndexScanDescData,
        columns: usize,
        visibility: &mut Visibility,
        see: &mut impl FnMut(&K::Conditions, &Matches<K>, Range<usize>) -> bool,
        wants_last: bool,
    ) -> bool {
        let Some(last) = self.seen.checked_sub(1) else { return false };
        let end = K::group_end(&self.conditions, &self.matches, last, columns, Direction::Forward);
        let matches = self.matches.len();
        // SAFETY: the scan's relations are open, and the leaf is pinned.
        if end < matches && unsafe { self.doubtful(scan, self.seen.min(end)..end, visibility) } < WORTH_A_DESCENT {
            return false;
        }
        let behind = self.beyond_group(last, columns, Direction::Forward);
        // SAFETY: the scan is ours, and stands at a page; nothing is locked.
        unsafe {
            self.leave_page();
            let forward = self.cursor;
            if wants_last {
                self.cursor.restart(Direction::Backward);
                self.cursor.skip_to(&behind);
                let mut goes_on = true;
                while goes_on && self.read_page(scan) {
                    errors::check_for_interrupts();
                    (self.seen, visibility.stretch) = (0, 1);
                    let mut shown = 0;
                    while goes_on && self.see_more(scan, visibility) {
                        goes_on = see(&self.conditions, &self.matches, shown..self.seen);
                        shown = self.seen;
                    }
                }
                self.leave_page();
                self.cursor = forward;
            }
            // What is behind the group in this page has to come again, though the scan may be over with the page.
            if end < matches {
                self.cursor.restart(Direction::Forward);
            }
            self.cursor.skip_to(&behind);
        }
        true
    }

    /// Where the group by so many columns of a match ends in one direction. Raises an error if its entry is damaged.
    fn beyond_group(&self, at: usize, columns: usize, end: Direction) -> K::OwnedKey {
        match K::beyond_group(&self.conditions, &self.matches, at, columns, end) {
            Some(place) => place,
            None => self.fail(),
        }
    }

    /// Goes on, the way that the scan goes, behind the group by so many columns of the row that it is at.
    unsafe fn leave_group_of_row(&mut self, columns: usize) {
        let end = K::group_end(&self.conditions, &self.matches, self.at, columns, self.cursor.direction());
        if end < self.matches.len() {
            self.at = end - 1;
            return;
        }
        // SAFETY: as for the caller.
        unsafe { self.leave_group_behind(self.cursor.direction(), columns) };
    }

    /// Goes on in a direction behind the group by so many columns of the row that the scan is at. Raises an error if it was
    /// there before: then keys are ordered in another way than when they were inserted, and it would go round and round.
    unsafe fn leave_group_behind(&mut self, direction: Direction, columns: usize) {
        if self.groups.comes_again(|| self.matches.tid(self.at)) {
            let what = "scan comes to a group again: keys are out of order";
            self.store.fail(Error::Corrupt { block: self.block, what })
        }
        // SAFETY: as for the caller.
        unsafe { self.go_beyond_group(direction, direction, columns) };
    }

    /// Goes to where the group by so many columns of the row that the scan is at ends in one direction, to read on in
    /// another.
    unsafe fn go_beyond_group(&mut self, end: Direction, direction: Direction, columns: usize) {
        let beyond = self.beyond_group(self.at, columns, end);
        self.at = self.matches.len() - 1;
        // SAFETY: the scan is ours, and stands at a page; nothing is locked.
        unsafe {
            self.stop_looking_ahead();
            self.leave_page();
        }
        if direction != self.cursor.direction() {
            self.cursor.restart(direction);
        }
        self.cursor.skip_to(&beyond);
    }

    /// Leaves out those of some matches whose rows the snapshot does not see, and says how many they are. The blocks are the
    /// lowest and the highest one of all matches.
    unsafe fn leave_out_unseen(
        &mut self,
        scan: &mut IndexScanDescData,
        rows: Range<usize>,
        blocks: (Block, Block),
        visibility: &mut Visibility,
    ) -> usize {
        // SAFETY: as for the caller.
        unsafe {
            let mut doubtful = [0; MAX_PAGE_ENTRIES];
            let mut count = self.find_doubtful(scan, rows, blocks, visibility, &mut doubtful);
            count = retain(&mut doubtful[..count], |at| !visibility.knows(self.matches.tid(at)));
            let mut gone = 0;
            for from in (0..count).step_by(MOST_TOUCHED) {
                let to = count.min(from + MOST_TOUCHED);
                self.touch_together(scan, &doubtful[from..to]);
                for next in from..to {
                    let at = doubtful[next];
                    doubtful[gone] = at;
                    gone += usize::from(!self.is_row_visible(scan, at as usize, visibility));
                }
            }
            self.matches.leave_out(&doubtful[..gone]);
            gone
        }
    }

    /// Finds those of some matches whose rows the map does not say that the snapshot sees, and says how many they are.
    unsafe fn find_doubtful(
        &mut self,
        scan: &IndexScanDescData,
        rows: Range<usize>,
        (first, last): (Block, Block),
        visibility: &mut Visibility,
        doubtful: &mut [u16; MAX_PAGE_ENTRIES],
    ) -> usize {
        let mut count = 0;
        let mut add = |at: usize| {
            doubtful[count] = at as u16;
            count += 1;
        };
        // SAFETY: the scan's relations are open, and the leaf is pinned.
        unsafe {
            match visibility.map.part(scan.heapRelation, first, last).filter(|_| !is_serializable()) {
                Some(map) => {
                    map.for_each_doubtful(&self.matches.tids()[rows.clone()], |place| add(rows.start + place));
                }
                None => rows.filter(|&at| !self.is_in_map(scan, at, visibility)).for_each(add),
            }
        }
        count
    }

    /// Puts the row that the scan is at into a slot. Raises an error if its entry is damaged.
    #[inline(always)]
    unsafe fn fill(&mut self, row: &mut RowColumns, slot: &mut TupleTableSlot) -> bool {
        // SAFETY: the match exists, and the slot has the row's columns.
        let filled = unsafe { K::fill(&mut self.conditions, &self.matches, self.at, row, slot) }.is_some();
        if !filled {
            self.fail();
        }
        filled
    }

    /// Raises an error about the page that was read last.
    #[cold]
    fn fail(&self) -> ! {
        self.store.fail(Error::Corrupt { block: self.block, what: "entry's key is damaged" })
    }

    /// Whether the snapshot sees the rows of all matches, as far as the map says at once, by their lowest block and their
    /// highest. Raises an error if the table does not have all their blocks.
    unsafe fn are_all_visible(
        &mut self,
        scan: &IndexScanDescData,
        (first, last): (Block, Block),
        visibility: &mut Visibility,
    ) -> bool {
        // SAFETY: the scan's relations are open.
        unsafe {
            if last >= self.heap_blocks {
                self.check_heap_block(scan, last);
            }
            let are_near = (last - first) as usize <= BLOCKS_A_ROW * self.matches.len();
            are_near && !is_serializable() && visibility.map.are_all_visible(scan.heapRelation, first, last)
        }
    }

    /// Whether the map says that the snapshot sees the row of a match.
    #[inline(always)]
    unsafe fn is_in_map(&mut self, scan: &IndexScanDescData, at: usize, visibility: &mut Visibility) -> bool {
        let block = self.matches.tid(at).block();
        // SAFETY: the scan's relations are open, and the leaf is pinned.
        unsafe {
            let is_visible = visibility.map.is_all_visible(scan.heapRelation, block);
            if is_visible && is_serializable() {
                ffi::PredicateLockPage(scan.heapRelation, block, scan.xs_snapshot);
            }
            is_visible
        }
    }

    /// Whether the snapshot sees the row of a match, asked of the table. Notes it if nobody does.
    #[cold]
    unsafe fn is_row_visible(&mut self, scan: &mut IndexScanDescData, at: usize, visibility: &mut Visibility) -> bool {
        // SAFETY: as for the caller.
        unsafe {
            let tid = self.matches.tid(at);
            if visibility.knows(tid) {
                return true;
            }
            self.at = at;
            scan.xs_heaptid = heap_tid(tid);
            scan.xs_heap_continue = false;
            visibility.fetched += 1;
            let is_visible = ffi::index_fetch_heap(scan, visibility.slot);
            ffi::clear_slot(visibility.slot);
            if scan.xs_heap_continue {
                let message = format_args!("only MVCC snapshots are supported in index-only scans");
                errors::raise(ERRCODE_FEATURE_NOT_SUPPORTED, message, None, None);
            }
            if core::mem::take(&mut scan.kill_prior_tuple) {
                self.note_killed();
            }
            if is_visible {
                visibility.rows.note(scan, tid.block(), self.heap_blocks);
            }
            is_visible
        }
    }
}

/// Keeps those places that satisfy a condition, in front, and says how many they are.
fn retain(places: &mut [u16], mut is_kept: impl FnMut(usize) -> bool) -> usize {
    let mut kept = 0;
    for next in 0..places.len() {
        places[kept] = places[next];
        kept += usize::from(is_kept(places[kept] as usize));
    }
    kept
}

/// Whether what is read has to be locked against what others write.
fn is_serializable() -> bool {
    // SAFETY: the server's variable.
    unsafe { pg_sys::XactIsoLevel == pg_sys::XACT_SERIALIZABLE as i32 }
}

/// Whether the executor has to look at conditions again: then rows cannot be had a page at a time.
///
/// # Safety
/// A scan of ours that `amrescan` prepared.
pub unsafe fn rechecks(scan: IndexScanDesc) -> bool {
    // SAFETY: the scan is ours.
    unsafe { super::with_state!(scan, state => K::rechecks(&state.conditions)) }
}

/// Reads the next page of rows, or the first one if the scan begins in a direction; `false` at the end of the scan. None of its
/// rows is known to be seen then. Unless it is said as the scan begins that keys are wanted, rows can only be counted.
///
/// # Safety
/// A scan of ours that `amrescan` prepared, for tuples; nothing is locked. May raise.
pub unsafe fn read(
    scan: IndexScanDesc,
    begins: Option<Direction>,
    wants_keys: bool,
    visibility: &mut Visibility,
) -> bool {
    visibility.stretch = 1;
    // SAFETY: the scan is ours.
    unsafe { super::with_state!(scan, state => state.read_matches(&mut *scan, begins, wants_keys)) }
}

/// Looks up all rows of the page that was just read, and leaves out those that the snapshot does not see.
///
/// # Safety
/// A scan of ours, of which a page was read last; nothing is locked. May raise.
pub unsafe fn see_all(scan: IndexScanDesc, visibility: &mut Visibility) {
    // SAFETY: the scan is ours.
    unsafe { super::with_state!(scan, state => state.see_all(&mut *scan, visibility)) }
}

/// Looks up more rows of the page that was read last, few at first, and leaves out those that the snapshot does not see; `false`
/// if all were looked up before.
///
/// # Safety
/// As for [`see_all`].
pub unsafe fn see_more(scan: IndexScanDesc, visibility: &mut Visibility) -> bool {
    // SAFETY: the scan is ours.
    unsafe { super::with_state!(scan, state => state.see_more(&mut *scan, visibility)) }
}

/// Steps to the next row in a direction, and puts it into a slot; `false` at the end of the scan, or at its beginning if the
/// direction is the other one. What the slot has of the row stays as long as the scan stands there.
///
/// # Safety
/// A scan of ours that `amrescan` prepared, for tuples, and of which rows are taken only so; the slot has the row's
/// columns; nothing is locked. May raise.
pub unsafe fn step(
    scan: IndexScanDesc,
    direction: pg_sys::ScanDirection::Type,
    visibility: &mut Visibility,
    row: &mut RowColumns,
    slot: &mut TupleTableSlot,
) -> bool {
    let direction = super::way(direction);
    // SAFETY: the scan is ours.
    unsafe {
        super::with_state!(scan, state => {
            state.step_to_seen(&mut *scan, direction, visibility) && state.fill(row, slot)
        })
    }
}

/// As [`step`], but only as far as the row is in the page that was read last and known to be seen; `false` changes nothing.
/// It does not panic.
///
/// # Safety
/// As for [`step`].
#[inline]
pub unsafe fn step_in_page(
    scan: IndexScanDesc,
    direction: pg_sys::ScanDirection::Type,
    row: &mut RowColumns,
    slot: &mut TupleTableSlot,
) -> bool {
    let direction = super::way(direction);
    // SAFETY: the scan is ours.
    unsafe { super::with_state!(scan, state => state.step_in_page(direction, row, slot)) }
}

/// Goes on behind the group by so many columns of the last row of the page that is known to be seen, if there is one, and if that
/// is less work than to look up the rest of the group; else `false`, and nothing changes. If `last` is there, it is shown the
/// group's rows from the last one back, some at a time, as long as it says `true`.
///
/// # Safety
/// A scan of ours that is at a page, whose keys were read, and not parallel; nothing is locked. May raise.
pub unsafe fn leave_group<V>(
    scan: IndexScanDesc,
    columns: usize,
    visibility: &mut Visibility,
    mut last: Option<&mut V>,
) -> bool
where
    for<'v> &'v mut V: Visitor<Out = bool>,
{
    let wants_last = last.is_some();
    // SAFETY: the scan is ours.
    unsafe {
        super::with_state!(scan, state => {
            let mut see = |conditions: &_, matches: &_, rows| {
                last.as_deref_mut().is_some_and(|last| K::visit(conditions, matches, rows, last))
            };
            state.leave_group(&mut *scan, columns, visibility, &mut see, wants_last)
        })
    }
}

/// Has keys copied besides what the server asks for.
///
/// # Safety
/// A scan of ours, of which nothing is read.
pub unsafe fn want_keys(scan: IndexScanDesc) {
    // SAFETY: the scan is ours.
    unsafe { super::with_state!(scan, state => state.wants_keys = true) }
}

/// Goes on, the way that the scan goes, behind the group by so many columns of the row that the server was given last.
///
/// # Safety
/// A scan of ours that [`want_keys`] was said to, that stands at a row and is not parallel; nothing is
/// locked. May raise.
pub unsafe fn leave_group_of_row(scan: IndexScanDesc, columns: usize) {
    // SAFETY: the scan is ours.
    unsafe { super::with_state!(scan, state => state.leave_group_of_row(columns)) }
}

/// Goes to the end of the group by so many columns of the row that the server was given last, so that the row before is the
/// group's last one, the way that the scan goes. The server has to ask for it in the other direction.
///
/// # Safety
/// As for [`leave_group_of_row`].
pub unsafe fn go_to_group_end(scan: IndexScanDesc, columns: usize) {
    // SAFETY: the scan is ours.
    unsafe {
        super::with_state!(scan, state => {
            let direction = state.cursor.direction();
            state.go_beyond_group(direction, direction.opposite(), columns);
        });
    }
}

/// Goes on behind the group whose last row the server was given after [`go_to_group_end`], the way that the scan went before.
///
/// # Safety
/// As for [`leave_group_of_row`].
pub unsafe fn leave_group_end(scan: IndexScanDesc, columns: usize) {
    // SAFETY: the scan is ours.
    unsafe {
        super::with_state!(scan, state => {
            let direction = state.cursor.direction().opposite();
            state.leave_group_behind(direction, columns);
        });
    }
}

/// Begins a scan and skips so many rows; says how many of them there are not. If there are all, the scan goes on behind
/// the last of them.
///
/// # Safety
/// A scan of ours that `amrescan` prepared and that is not parallel; nothing is locked. May raise.
pub unsafe fn skip(
    scan: IndexScanDesc,
    direction: pg_sys::ScanDirection::Type,
    rows: u64,
    visibility: &mut Visibility,
) -> u64 {
    let direction = super::way(direction);
    // SAFETY: the scan is ours.
    unsafe { super::with_state!(scan, state => state.skip(&mut *scan, direction, rows, visibility)) }
}

/// Notes the place that a scan is at.
///
/// # Safety
/// A scan of ours that `amrescan` prepared.
pub unsafe fn mark(scan: IndexScanDesc) {
    // SAFETY: the scan is ours.
    unsafe { super::with_state!(scan, state => state.set_mark()) }
}

/// Goes back to the place that was noted last.
///
/// # Safety
/// As for [`mark`]; nothing is locked. May raise.
pub unsafe fn restore(scan: IndexScanDesc) {
    // SAFETY: the scan is ours.
    unsafe { super::with_state!(scan, state => state.restore()) }
}

/// Raises an error about the page that was read last: it is damaged.
///
/// # Safety
/// A scan of ours, of which a page was read last; nothing is locked.
pub unsafe fn fail(scan: IndexScanDesc, what: &'static str) -> ! {
    // SAFETY: the scan is ours.
    unsafe { super::with_state!(scan, state => state.store.fail(Error::Corrupt { block: state.block, what })) }
}

/// Shows the rows of the page that was read last that are known to be seen.
///
/// # Safety
/// A scan of ours, of which a page was read last.
pub unsafe fn visit<V: Visitor>(scan: IndexScanDesc, visitor: V) -> V::Out {
    // SAFETY: the scan is ours.
    unsafe { super::with_state!(scan, state => K::visit(&state.conditions, &state.matches, 0..state.seen, visitor)) }
}

/// Shows the row that the server was given last.
///
/// # Safety
/// A scan of ours that stands at a row.
pub unsafe fn visit_row<V: Visitor>(scan: IndexScanDesc, visitor: V) -> V::Out {
    // SAFETY: the scan is ours.
    unsafe {
        super::with_state!(scan, state => {
            let row = state.at..state.at + 1;
            K::visit(&state.conditions, &state.matches, row, visitor)
        })
    }
}
