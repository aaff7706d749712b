//! Bitmap scans.

use core::ffi::c_int;

use fpbtree_engine::format::{Error, Tid};
use fpbtree_engine::scan::Direction;
use pgrx::pg_sys::{IndexScanDescData, ItemPointerData, TIDBitmap};

use super::conditions::Searched;
use super::state::ScanState;
use crate::pg::ffi;
use crate::pg::tid::{MOST_OFFSET, heap_tid};

/// TIDs handed to a bitmap at a time.
const BITMAP_BATCH: usize = 256;

impl<K: Searched> ScanState<K> {
    /// Adds all matches to a bitmap and says how many there were.
    pub(super) unsafe fn fill_bitmap(&mut self, scan: &mut IndexScanDescData, bitmap: *mut TIDBitmap) -> i64 {
        // SAFETY: the scan is ours and was prepared by `amrescan`; the bitmap is the server's.
        unsafe {
            self.start(scan, Direction::Forward);
            let mut total = 0;
            while self.read_page(scan) {
                self.check_heap_places(scan);
                for tids in self.matches.tids().chunks(BITMAP_BATCH) {
                    let mut items = [heap_tid(Tid::MIN); BITMAP_BATCH];
                    items.iter_mut().zip(tids).for_each(|(item, &tid)| *item = heap_tid(tid));
                    add_to_bitmap(bitmap, &mut items[..tids.len()], K::rechecks(&self.conditions));
                }
                total += self.matches.len() as i64;
            }
            total
        }
    }

    /// Raises an error if the table does not have the block of some match of the page, or a bitmap no room for an
    /// offset.
    unsafe fn check_heap_places(&mut self, scan: &IndexScanDescData) {
        let tids = self.matches.tids();
        let farthest = tids.iter().map(|tid| tid.block()).max().unwrap_or(0);
        if tids.iter().any(|tid| tid.offset() > MOST_OFFSET) {
            self.store.fail(Error::Corrupt { block: self.block, what: "entry points to a row no page has room for" });
        }
        if farthest >= self.heap_blocks {
            // SAFETY: the scan's relations are open.
            unsafe { self.check_heap_block(scan, farthest) };
        }
    }
}

/// `tbm_add_tuples`, raw: it may run out of memory.
unsafe fn add_to_bitmap(bitmap: *mut TIDBitmap, tids: &mut [ItemPointerData], recheck: bool) {
    // SAFETY: the server's bitmap.
    unsafe { ffi::tbm_add_tuples(bitmap, tids.as_mut_ptr(), tids.len() as c_int, recheck) };
}
