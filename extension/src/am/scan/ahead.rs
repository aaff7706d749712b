//! What a scan looks ahead with: pages on their way, and the *scout*, a second cursor that walks through the matches
//! the scan will return.

use fpbtree_engine::format::Block;
use fpbtree_engine::scan::{Cursor, Matches};
use pgrx::pg_sys::{self, Buffer, IndexScanDescData, Relation};

use super::conditions::Searched;
use crate::pg::ffi;
use crate::pg::memory::{Zeroed, allocate, free, zeroed_value};
use crate::pg::relation::{self, INVALID_BUFFER};
use crate::storage::buffers::PgStore;
use crate::storage::prefetch::{self, LeavesAhead, Lookahead, MOST_DISTANCE, PrefetchCounts};

/// What a scan that has had to wait for pages looks ahead with. In the scan's memory; no destructor.
pub(super) struct Ahead<K: Searched> {
    /// Leaves on their way.
    pub leaves: LeavesAhead<K>,
    pub rows: Lookahead,
    pub counts: PrefetchCounts,
    /// Of all that was asked for before the scan went elsewhere.
    pub before: PrefetchCounts,
    /// How many matches the scan has returned.
    pub returned: usize,
    /// The blocks on their way, from `first` on and round, at which numbers they will be needed, and whether they were asked
    /// for, or are left to the system.
    pub blocks: [Block; MOST_DISTANCE + 1],
    pub needed: [usize; MOST_DISTANCE + 1],
    pub asked: [bool; MOST_DISTANCE + 1],
    pub first: usize,
    pub waiting: usize,
    /// The block that was looked at last.
    pub block: Block,
    pub scout: Scout<K>,
    /// The page of the visibility map looked at last.
    pub map: Buffer,
}

/// Where the scout is.
pub(super) struct Scout<K: Searched> {
    pub store: PgStore,
    pub cursor: Cursor<K>,
    /// The page that it has read last, once there is one; most scouts need none of their own.
    matches: *mut Matches<K>,
    /// Whether it has a page of its own, or is still in the scan's.
    pub is_out: bool,
    pub has_ended: bool,
    pub at: usize,
    /// The number of the match it is at, as the scan counts them.
    pub number: usize,
}

// SAFETY: numbers, flags, cursors, leaves, a store of no index, and no matches.
unsafe impl<K: Searched> Zeroed for Ahead<K> {}

impl<K: Searched> Scout<K> {
    /// The matches of the page that it has read last, if it is out.
    pub fn matches(&self) -> Option<&Matches<K>> {
        // SAFETY: null until it has room.
        unsafe { self.matches.as_ref() }.filter(|_| self.is_out)
    }

    /// Room for the matches of a page, which hold anything before they are read.
    ///
    /// # Safety
    /// The memory lives as long as the scan. May raise when out of memory.
    pub unsafe fn room(&mut self, context: pg_sys::MemoryContext) -> &'static mut Matches<K> {
        // SAFETY: new memory of the right size; nobody else holds it.
        unsafe {
            if self.matches.is_null() {
                let matches = allocate(context, 1, false);
                Matches::init(matches);
                self.matches = matches;
            }
            &mut *self.matches
        }
    }

    /// Gives the room back.
    ///
    /// # Safety
    /// Nobody uses it any more.
    pub unsafe fn end(&mut self) {
        // SAFETY: allocated here, or null.
        unsafe { free(core::mem::replace(&mut self.matches, core::ptr::null_mut())) };
    }
}

impl<K: Searched> Ahead<K> {
    /// # Safety
    /// The scan's own relation; the memory lives as long as the scan. May raise.
    pub(super) unsafe fn new(scan: &IndexScanDescData, context: pg_sys::MemoryContext) -> *mut Ahead<K> {
        // SAFETY: the scan's relations are open.
        unsafe {
            let (index, heap) = (scan.indexRelation, scan.heapRelation);
            let new: &mut Ahead<K> = zeroed_value(context);
            new.leaves.begin(prefetch::distance(index, prefetch::tablespace(index), false));
            new.leaves.is_shared = !scan.parallel_scan.is_null();
            let most = if heap.is_null() { 0 } else { prefetch::distance(index, prefetch::tablespace(heap), false) };
            new.rows = Lookahead::new(most);
            new.scout.store = PgStore::new(index, core::ptr::null_mut());
            new.block = relation::INVALID_BLOCK;
            new
        }
    }

    /// Forgets all that was asked for.
    pub(super) unsafe fn close(&mut self, index: Relation) {
        self.leaves.close(&mut self.counts);
        self.rows.close();
        self.settle();
        while self.waiting > 0 {
            self.counts.wasted += u64::from(self.drop_first());
        }
        (self.scout.is_out, self.scout.has_ended) = (false, false);
        self.scout.number = 0;
        self.block = relation::INVALID_BLOCK;
        if self.map != INVALID_BUFFER {
            // SAFETY: pinned here.
            unsafe { ffi::ReleaseBuffer(self.map) };
            self.map = INVALID_BUFFER;
        }
        self.before.add(&self.counts);
        // SAFETY: an open relation.
        self.counts.add_to_session(unsafe { (*index).rd_id });
    }

    /// Blocks whose turn has come are not on their way any more.
    pub(super) fn settle(&mut self) {
        while self.waiting > 0 && self.needed[self.first % self.needed.len()] <= self.returned {
            self.counts.used += u64::from(self.drop_first());
        }
    }

    /// The first block is not waited for any more. Whether it was asked for.
    fn drop_first(&mut self) -> bool {
        let was_asked = self.asked[self.first % self.asked.len()];
        (self.first, self.waiting) = (self.first + 1, self.waiting - 1);
        was_asked
    }

    /// Whether a block is on its way.
    pub(super) fn is_waited_for(&self, block: Block) -> bool {
        let (first, length) = (self.first % self.blocks.len(), self.blocks.len());
        let (end, round) = ((first + self.waiting).min(length), (first + self.waiting).saturating_sub(length));
        self.blocks[first..end].contains(&block) || self.blocks[..round].contains(&block)
    }

    /// A block is on its way, for the match of that number, because it was asked for, or without.
    pub(super) fn note(&mut self, block: Block, number: usize, was_asked: bool) {
        let last = (self.first + self.waiting) % self.needed.len();
        (self.blocks[last], self.needed[last], self.asked[last]) = (block, number, was_asked);
        self.waiting += 1;
    }
}
