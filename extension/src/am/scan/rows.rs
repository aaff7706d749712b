//! Heap blocks asked for ahead: a second cursor, the *scout*, walks through the matches a scan will return and asks for
//! the heap blocks they are in. It only reads, so that the scan itself goes its way as if it were not there.

use fpbtree_engine::format::{Block, Tid};
use fpbtree_engine::scan::RowsOf;
use pgrx::pg_sys::IndexScanDescData;

use super::ahead::Ahead;
use super::conditions::Searched;
use super::state::ScanState;
use crate::pg::relation;
use crate::storage::prefetch;
#[cfg(feature = "since_18")]
use crate::storage::prefetch::PrefetchCounts;
use crate::storage::tree::tree;

/// Leaves the scout reads, and matches it looks at, while the scan returns one match.
const MOST_PAGES: usize = 4;
const MOST_MATCHES: usize = 256;

impl<K: Searched> ScanState<K> {
    /// What the scan looks ahead with, made when it is first needed.
    unsafe fn ahead(&mut self, scan: &IndexScanDescData) -> &'static mut Ahead<K> {
        // SAFETY: it lives as long as the state, and nobody else holds it.
        unsafe {
            if self.ahead.is_null() {
                self.ahead = Ahead::new(scan, self.context);
            }
            &mut *self.ahead
        }
    }

    /// Forgets what was asked for ahead: the scan goes elsewhere.
    #[inline]
    pub(super) unsafe fn stop_looking_ahead(&mut self) {
        self.looks_ahead = false;
        if !self.ahead.is_null() {
            // SAFETY: what the scan looks ahead with lives as long as the state, and nobody else holds it.
            unsafe { (*self.ahead).close(self.store.relation()) };
        }
    }

    /// What was asked for ahead so far.
    #[cfg(feature = "since_18")]
    pub(super) unsafe fn counts(&mut self) -> PrefetchCounts {
        // SAFETY: what the scan looks ahead with lives as long as the state, and nobody else holds it.
        unsafe {
            self.stop_looking_ahead();
            self.ahead.as_ref().map_or(PrefetchCounts::default(), |ahead| ahead.before)
        }
    }

    /// After the scan has read a leaf: asks for the next ones, if leaves have to be read. The first of a scan does not
    /// count: most scans have but one.
    #[inline]
    pub(super) unsafe fn look_for_leaves(&mut self, scan: &IndexScanDescData, block: Block, missed: bool) {
        let is_first = !core::mem::replace(&mut self.has_read, true);
        if self.ahead.is_null() && (is_first || !missed) {
            return;
        }
        // SAFETY: the scan's index is open, and nothing of it is locked.
        unsafe {
            let ahead = self.ahead(scan);
            if ahead.scout.is_out {
                // Its leaves are ahead of the scan's.
                return;
            }
            let tree = tree::<K>(&self.store, &self.index, &self.columns);
            let (direction, place) = (self.cursor.direction(), self.cursor.bound());
            let counts = &mut ahead.counts;
            let index = scan.indexRelation;
            ahead.leaves.visit(block, missed && !is_first, tree, &self.conditions, direction, place, index, counts);
        }
    }

    /// Before a match is returned: asks for the heap blocks of the next ones, if the last one's had to be read.
    #[cold]
    pub(super) unsafe fn look_for_rows(&mut self, scan: &IndexScanDescData, missed: bool) {
        // SAFETY: the scan's relations are open, and nothing of them is locked.
        unsafe {
            let ahead = self.ahead(scan);
            ahead.returned += 1;
            ahead.settle();
            if missed {
                // Never more than the scan has asked for so far: it may be about to stop.
                ahead.rows.widen();
            }
            self.looks_ahead = true;
            if ahead.rows.size == 0 {
                return self.stop_scouting(ahead);
            }
            if ahead.scout.number < ahead.returned {
                (ahead.scout.is_out, ahead.scout.at) = (false, self.at);
                ahead.scout.number = ahead.returned;
            }
            let (mut pages, mut looked_at) = (0, 0);
            while ahead.waiting < ahead.rows.size && looked_at < MOST_MATCHES {
                let Some(tid) = self.scout(ahead, scan, &mut pages) else { break };
                looked_at += 1;
                let block = tid.block();
                let before = core::mem::replace(&mut ahead.block, block);
                let is_known = before == block || ahead.is_waited_for(block);
                if is_known || block >= self.heap_blocks {
                    continue;
                }
                if scan.xs_want_itup && relation::is_all_visible(scan.heapRelation, block, &mut ahead.map) {
                    continue;
                }
                // Where blocks are read one after the other the system reads ahead, in larger pieces, unless it is asked.
                if before.checked_add(1) == Some(block) {
                    ahead.rows.pass();
                    ahead.note(block, ahead.scout.number, false);
                } else if ahead.rows.ask(scan.heapRelation, block, &mut ahead.counts) {
                    ahead.note(block, ahead.scout.number, true);
                }
            }
            if ahead.rows.size == 0 {
                self.stop_scouting(ahead);
            }
        }
    }

    /// No rows are asked for any more. Those on their way are waited for, and leaves are the scan's business again.
    fn stop_scouting(&mut self, ahead: &mut Ahead<K>) {
        self.looks_ahead = ahead.waiting > 0;
        (ahead.scout.is_out, ahead.scout.number) = (false, 0);
    }

    /// A block that is needed so many matches ahead was found missing, and asked for.
    #[cold]
    pub(super) unsafe fn note_cold_row(&mut self, scan: &IndexScanDescData, block: Block, distance: usize) {
        // SAFETY: the scan's relations are open.
        let ahead = unsafe { self.ahead(scan) };
        ahead.counts.requested += 1;
        ahead.note(block, ahead.returned + distance, true);
        ahead.rows.widen();
        self.looks_ahead = true;
    }

    /// The next match the scout comes to.
    unsafe fn scout(&mut self, ahead: &mut Ahead<K>, scan: &IndexScanDescData, pages: &mut usize) -> Option<Tid> {
        let Ahead { scout, leaves, counts, .. } = ahead;
        if let Some(&tid) = scout.matches().unwrap_or(&self.matches).tids().get(scout.at + 1) {
            (scout.at, scout.number) = (scout.at + 1, scout.number + 1);
            return Some(tid);
        }
        // Of a parallel scan, the next page may be another process's.
        let has_ended = if scout.is_out { scout.has_ended } else { self.cursor.is_done() };
        if has_ended || *pages == MOST_PAGES || !scan.parallel_scan.is_null() {
            return None;
        }
        *pages += 1;
        if !scout.is_out {
            scout.cursor.copy_from(&self.cursor);
            scout.is_out = true;
        }
        // SAFETY: it goes with the scan.
        let matches = unsafe { scout.room(self.context) };
        let before = prefetch::misses();
        let tree = tree::<K>(&scout.store, &self.index, &self.columns);
        let rows = RowsOf(&self.conditions);
        let read = scout.cursor.read_page(tree, &rows, scan.ignore_killed_tuples, matches);
        let pin = self.store.expect(read);
        let missed = prefetch::misses() != before;
        scout.has_ended = pin.is_none();
        let pin = pin?;
        let block = pin.block(&scout.store);
        pin.unpin(&scout.store);
        let (direction, place) = (scout.cursor.direction(), scout.cursor.bound());
        // SAFETY: the scan's index is open, and nothing of it is locked.
        unsafe { leaves.visit(block, missed, tree, &rows, direction, place, scan.indexRelation, counts) };
        (scout.at, scout.number) = (0, scout.number + 1);
        matches.tids().first().copied()
    }
}
