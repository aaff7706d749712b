//! The steps of a scan, from match to match and from page to page.

use core::ffi::c_int;

use fpbtree_engine::format::{Block, Error};
use fpbtree_engine::scan::{self, Direction, Rounds};
use fpbtree_engine::store::{PageStore, Pinned};
use pgrx::pg_sys::{self, ForkNumber::MAIN_FORKNUM, IndexScanDescData, SnapshotType};

use super::conditions::Searched;
use super::parallel::{SharedScan, Turn};
use super::state::{ScanState, Stage};
use crate::am::batch;
use crate::pg::tid::heap_tid;
use crate::pg::{ffi, relation};
use crate::storage::buffers::PgStore;
use crate::storage::prefetch;
use crate::storage::tree::tree;

impl<K: Searched> ScanState<K> {
    /// Steps to the next match if it is in the same page and nothing else is to be done; `false` changes nothing.
    #[inline]
    pub(super) unsafe fn next_in_page(&mut self, scan: &mut IndexScanDescData, direction: Direction) -> bool {
        let next = self.at + 1;
        if !self.positioned || scan.kill_prior_tuple || direction != self.cursor.direction() {
            return false;
        }
        let Some(&tid) = self.matches.tids().get(next) else { return false };
        if tid.block() >= self.heap_blocks || self.looks_ahead || self.misses != prefetch::misses() {
            return false;
        }
        if scan.xs_want_itup {
            // SAFETY: the match exists.
            let formed = unsafe { K::form_unguarded(&mut self.conditions, &self.matches, next) };
            let Some(tuple) = formed else { return false };
            scan.xs_itup = tuple;
        } else {
            // SAFETY: the scan's relations are open.
            unsafe { self.touch_rows(scan, next) };
        }
        self.at = next;
        scan.xs_heaptid = heap_tid(tid);
        scan.xs_recheck = K::rechecks(&self.conditions);
        true
    }

    /// Steps to the next match and puts it where the server looks.
    #[inline]
    pub(super) unsafe fn next(&mut self, scan: &mut IndexScanDescData, direction: Direction) -> bool {
        // SAFETY: the scan is ours and was prepared by `amrescan`; nothing is locked.
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
            scan.xs_recheck = K::rechecks(&self.conditions);
            if scan.xs_want_itup {
                let corrupt = Error::Corrupt { block: self.block, what: "entry's key is damaged" };
                let formed = K::form(&mut self.conditions, &self.matches, self.at);
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
    pub(super) fn note_killed(&mut self) {
        self.forget_hot();
        if !self.are_hot() && self.killed_count < self.killed.len() {
            self.killed[self.killed_count] = self.matches.flags_at(self.at);
            self.killed_count += 1;
        }
    }

    /// Raises an error if the table does not have this block: the entry is damaged.
    #[cold]
    pub(super) unsafe fn check_heap_block(&mut self, scan: &IndexScanDescData, block: Block) {
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

    /// Steps to the next match, in the page or in the next one that has any; `false` at the end.
    #[inline]
    unsafe fn step(&mut self, scan: &mut IndexScanDescData, direction: Direction) -> bool {
        // SAFETY: the scan is ours and was prepared by `amrescan`; nothing is locked.
        unsafe {
            if !self.positioned {
                self.start(scan, direction);
                if !self.wants_keys && self.find_hot(scan) {
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
    pub(super) unsafe fn start(&mut self, scan: &mut IndexScanDescData, direction: Direction) {
        // SAFETY: the scan's index is open.
        unsafe {
            if scan.parallel_scan.is_null() {
                count_scan(scan);
            }
            batch::insert_what_is_seen(scan.indexRelation, scan.xs_snapshot);
            self.store.set_snapshot(scan.xs_snapshot);
            K::want_keys(&mut self.conditions, scan.xs_want_itup || self.wants_keys);
            self.cursor.restart(direction);
            self.groups = Rounds::BEGIN;
            self.has_read = false;
            // A key that an earlier scan missed, and found no row of, is none of this one's.
            self.hot.stage = Stage::None;
        }
    }

    /// Reads the next page with matches and stands at its first one. Nothing is locked then; the page is pinned if the
    /// scan [keeps its pins](keeps_pin).
    pub(super) unsafe fn read_page(&mut self, scan: &mut IndexScanDescData) -> bool {
        // SAFETY: the scan's relations are open, and nothing of them is locked; pins are this scan's own.
        unsafe {
            self.leave_page();
            batch::insert_what_is_seen(scan.indexRelation, scan.xs_snapshot);
            let misses = prefetch::misses();
            let read = match SharedScan::of(scan) {
                Some(shared) => self.read_on_with(shared, scan),
                None => self.read_on(scan),
            };
            let Some(pin) = read else {
                self.positioned = false;
                return false;
            };
            (self.positioned, self.at) = (true, 0);
            self.block = pin.block(&self.store);
            if keeps_pin(scan) {
                self.pin = Some(pin);
            } else {
                pin.unpin(&self.store);
            }
            self.look_for_leaves(scan, self.block, misses != prefetch::misses());
            true
        }
    }

    /// Takes the next page's matches from the tree; the page is pinned then, and not locked. None at the end of the
    /// scan.
    #[inline]
    unsafe fn read_on(&mut self, scan: &IndexScanDescData) -> Option<Pinned<PgStore>> {
        let tree = tree::<K>(&self.store, &self.index, &self.columns);
        let read = self.cursor.read_page(tree, &self.conditions, scan.ignore_killed_tuples, &mut self.matches);
        self.store.expect(read)
    }

    /// Takes the matches of the next page that no process of the parallel scan has read; the page is pinned then, and
    /// not locked. None at the end of the scan. The server never turns such a scan round, nor marks a place in it.
    unsafe fn read_on_with(&mut self, shared: &SharedScan, scan: &mut IndexScanDescData) -> Option<Pinned<PgStore>> {
        // SAFETY: the scan's index is open, and nothing of it is locked.
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

    /// Marks killed entries dead, keeps a marked page's matches, and gives the page's pin back. Nothing is
    /// pinned then but the mark's page.
    #[inline]
    pub(super) unsafe fn leave_page(&mut self) {
        // SAFETY: the scan's index is open; pins are this scan's own.
        unsafe {
            if self.killed_count > 0 {
                self.mark_dead();
            }
            if self.mark.set && self.mark.here {
                self.keep_marked();
            }
            if let Some(pin) = self.pin.take() {
                pin.unpin(&self.store);
            }
        }
    }

    /// Marks killed entries dead. The page is share-locked meanwhile, and pinned if it is not already.
    #[cold]
    unsafe fn mark_dead(&mut self) {
        let count = core::mem::take(&mut self.killed_count);
        let (kept, store) = (self.pin.take(), &self.store);
        let is_kept = kept.is_some();
        let pin = kept.unwrap_or_else(|| store.expect(store.pin(self.block)));
        let pin = scan::kill(store, pin, self.cursor.lsn(), &self.killed[..count]);
        if is_kept {
            self.pin = Some(pin);
        } else {
            pin.unpin(store);
        }
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
        #[cfg(feature = "since_18")]
        if let Some(instrument) = scan.instrument.as_mut() {
            instrument.nsearches += 1;
        }
    }
}
