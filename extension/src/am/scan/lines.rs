//! Rows in memory: while the server is busy with one row, the cache lines that it will touch for the next ones are
//! fetched (docs/design.md, 7).

use fpbtree_engine::format::Block;
use fpbtree_engine::simd;
use pgrx::pg_sys::{Buffer, IndexScanDescData};

use super::conditions::Searched;
use super::state::{PAGE_AHEAD, ScanState};
use crate::pg::relation;
use crate::pg::relation::INVALID_BUFFER;
use crate::storage::prefetch;

/// How many matches ahead a tuple is fetched, when the line pointer has had the time to arrive.
const TUPLE_AHEAD: usize = 4;
/// Rows that are touched together.
pub(super) const MOST_TOUCHED: usize = 2 * PAGE_AHEAD;
/// Blocks of a table that may be in the processor's caches as a whole.
const FEW_BLOCKS: Block = 128;

impl<K: Searched> ScanState<K> {
    /// Before the server looks at a match's row: fetches what it will need for the next ones. Only for rows that it
    /// will look at, and as it would find them: a page that is not in shared buffers is asked for.
    #[inline]
    pub(super) unsafe fn touch_rows(&mut self, scan: &IndexScanDescData, at: usize) {
        // SAFETY: the scan's relations are open.
        unsafe {
            let tids = self.matches.tids();
            if let Some(&tid) = tids.get(at + PAGE_AHEAD)
                && self.fetches_lines(scan)
            {
                let tids = self.matches.tids();
                let is_same = tids[at + PAGE_AHEAD - 1].block() == tid.block();
                let before = self.lines.buffers[(at + PAGE_AHEAD - 1) % self.lines.buffers.len()];
                let buffer = if is_same && at > 1 { before } else { self.find_page(scan, tid.block(), PAGE_AHEAD) };
                self.lines.buffers[(at + PAGE_AHEAD) % self.lines.buffers.len()] = buffer;
                fetch_page(buffer, tid.offset());
            }
            if at >= PAGE_AHEAD
                && let Some(&tid) = self.matches.tids().get(at + TUPLE_AHEAD)
            {
                fetch_tuple(self.lines.buffers[(at + TUPLE_AHEAD) % self.lines.buffers.len()], tid.offset());
            }
        }
    }

    /// Before the server looks at the rows of some matches, [`MOST_TOUCHED`] at most: fetches what it will need for them, so
    /// that they are waited for together.
    pub(super) unsafe fn touch_together(&mut self, scan: &IndexScanDescData, matches: &[u16]) {
        // SAFETY: the scan's relations are open.
        unsafe {
            if matches.len() < 2 || !self.fetches_lines(scan) {
                return;
            }
            // Those of the rows before have been looked at.
            if let Some(ahead) = self.ahead.as_mut() {
                ahead.settle();
            }
            for (place, &at) in matches.iter().enumerate().take(MOST_TOUCHED) {
                let tid = self.matches.tid(at as usize);
                self.lines.buffers[place] = self.find_page(scan, tid.block(), 0);
                fetch_page(self.lines.buffers[place], tid.offset());
            }
            for (&at, &buffer) in matches.iter().zip(&self.lines.buffers) {
                fetch_tuple(buffer, self.matches.tid(at as usize).offset());
            }
        }
    }

    /// Whether coming rows are looked up.
    #[inline]
    unsafe fn fetches_lines(&mut self, scan: &IndexScanDescData) -> bool {
        // SAFETY: the scan's relations are open.
        self.lines.are_fetched.unwrap_or_else(|| unsafe { self.decide_on_lines(scan) })
    }

    #[cold]
    unsafe fn decide_on_lines(&mut self, scan: &IndexScanDescData) -> bool {
        // SAFETY: the scan's own relations.
        unsafe {
            let heap = scan.heapRelation;
            let is_large = self.heap_blocks > FEW_BLOCKS && !relation::is_local(heap);
            let fetched = is_large && prefetch::distance(scan.indexRelation, prefetch::tablespace(heap), false) > 0;
            self.lines.are_fetched = Some(fetched);
            fetched
        }
    }

    /// The buffer that a block of the table is in, if any; it is not pinned. If none, the block is asked for, for the row that
    /// is returned so many rows from now.
    unsafe fn find_page(&mut self, scan: &IndexScanDescData, block: Block, distance: usize) -> Buffer {
        // SAFETY: what the scan looks ahead with lives as long as the state, and nobody else holds it.
        let is_asked_for = unsafe { self.ahead.as_ref() }.is_some_and(|ahead| ahead.is_waited_for(block));
        if block >= self.heap_blocks || is_asked_for {
            return INVALID_BUFFER;
        }
        // SAFETY: an open table, with that block.
        let found = unsafe { prefetch::prefetch(scan.heapRelation, block) };
        if found.initiated_io {
            // SAFETY: the scan's relations are open.
            unsafe { self.note_cold_row(scan, block, distance) };
        }
        found.recent_buffer
    }
}

/// Fetches a page's header, the buffer's own, and a line pointer.
fn fetch_page(buffer: Buffer, offset: u16) {
    if buffer > INVALID_BUFFER {
        relation::prefetch_page(buffer, [0, relation::line_pointer(offset)]);
    }
}

/// Fetches a tuple.
fn fetch_tuple(buffer: Buffer, offset: u16) {
    if buffer > INVALID_BUFFER {
        // SAFETY: shared buffers are memory always; what is read may be another page's by now, and is only a hint.
        unsafe {
            simd::prefetch(relation::tuple(relation::page(buffer), offset));
        }
    }
}
