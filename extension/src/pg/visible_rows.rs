//! Which rows of a table's blocks a snapshot sees, for scans that come back to the same blocks, as those in an index's order
//! do. What a snapshot sees of a row that is there, it sees as long as it is held, and what takes that row's place it does not
//! see.

use core::ffi::c_int;

use pgrx::pg_sys::{self, HeapTupleData, IndexScanDescData, MemoryContext};

use crate::pg::ffi;
use crate::pg::memory::{Zeroed, free_array, zeroed_values};
use crate::pg::relation;
use crate::pg::tid::{MOST_OFFSET, place_tid};

/// Rows that are looked up before it is noted where they are: few are not worth it.
const FEW: u64 = 512;
/// Rows of a block that are looked up one by one before all of its rows are, which takes no longer.
const VISITS: u8 = 16;
/// What a block has instead of a number of rows once all are.
const KNOWN: u8 = u8::MAX;
/// Blocks of the largest table that this is done for, for which it takes a byte each.
const MOST_BLOCKS: u32 = 1 << 20;
/// Words with a bit for each row that a block may have. Of larger blocks the other rows are looked up.
const WORDS: usize = (MOST_OFFSET as usize).div_ceil(64);
/// Places at first.
const FIRST_PLACES: usize = 256;
/// What a larger table of places has as many times as the one before.
const GROWTH: usize = 4;

/// A block all of whose rows were looked up.
#[derive(Clone, Copy)]
struct Known {
    /// One more than its number, 0 for none.
    block: u32,
    /// The rows that are seen, a bit for each.
    rows: [u64; WORDS],
}

// SAFETY: numbers; zeros are no block.
unsafe impl Zeroed for Known {}

/// Blocks of one table, and the rows of theirs that one snapshot sees. No destructor.
pub struct VisibleRows {
    /// Rows that were looked up, and seen.
    noted: u64,
    /// How many of each block, or [`KNOWN`]. Most blocks are not, which is to be found out in the processor's caches.
    visits: &'static mut [u8],
    /// Each block that is known has its place, by its number; their number is a power of two, or 0.
    places: &'static mut [Known],
    /// Blocks that another one has taken the place of, since there are so many places.
    lost: usize,
    context: MemoryContext,
}

impl VisibleRows {
    /// None yet; what it needs of memory is the context's.
    pub const fn new(context: MemoryContext) -> VisibleRows {
        VisibleRows { noted: 0, visits: &mut [], places: &mut [], lost: 0, context }
    }

    /// Whether the snapshot is known to see a row, by its block and its offset there.
    #[inline]
    pub fn shows(&self, block: u32, offset: u16) -> bool {
        if self.visits.get(block as usize) != Some(&KNOWN) {
            return false;
        }
        let (known, row) = (&self.places[self.place(block)], usize::from(offset.wrapping_sub(1)));
        known.block == block + 1 && known.rows.get(row / 64).is_some_and(|word| word >> (row % 64) & 1 != 0)
    }

    /// Where a block is, if there are places.
    #[inline]
    fn place(&self, block: u32) -> usize {
        block as usize & (self.places.len() - 1)
    }

    /// A row of a block was looked up that the snapshot sees, in a table of so many blocks. When so many of a block were, all
    /// are.
    ///
    /// # Safety
    /// The same scan each time, which is open, as is its table; nothing of that is locked. May raise.
    pub unsafe fn note(&mut self, scan: &IndexScanDescData, block: u32, blocks: u32) {
        self.noted += 1;
        // SAFETY: the caller's; new memory, which goes with the context.
        unsafe {
            if self.noted == FEW && blocks <= MOST_BLOCKS && is_of_heap(scan) {
                self.visits = zeroed_values(self.context, blocks as usize);
            }
            let Some(visits) = self.visits.get_mut(block as usize).filter(|visits| **visits < VISITS) else { return };
            *visits += 1;
            if *visits == VISITS {
                let rows = visible_rows(scan, block);
                self.add(Known { block: block + 1, rows });
            }
        }
    }

    /// Adds a block that is known now.
    unsafe fn add(&mut self, known: Known) {
        // SAFETY: as the caller says.
        unsafe {
            if self.places.is_empty() || self.lost > self.places.len() / 2 {
                self.grow();
            }
        }
        let place = self.place(known.block - 1);
        let before = core::mem::replace(&mut self.places[place], known);
        if before.block != 0 {
            self.lost += 1;
            self.visits[before.block as usize - 1] = 0;
        }
        self.visits[known.block as usize - 1] = KNOWN;
    }

    /// Makes more places, as long as that is within `work_mem`.
    unsafe fn grow(&mut self) {
        self.lost = 0;
        // SAFETY: a setting; new memory, which goes with the context.
        unsafe {
            let count = (self.places.len() * GROWTH).max(FIRST_PLACES);
            if count > FIRST_PLACES && count * size_of::<Known>() > pg_sys::work_mem as usize * 1024 {
                return;
            }
            let before = core::mem::replace(&mut self.places, zeroed_values(self.context, count));
            // More places take no two blocks to one that had one each.
            for known in before.iter().filter(|known| known.block != 0) {
                self.places[(known.block - 1) as usize & (count - 1)] = *known;
            }
            if !before.is_empty() {
                free_array(before);
            }
        }
    }
}

/// Whether the scan's table is stored as the server's own are, and its snapshot sees the same of them until it ends.
unsafe fn is_of_heap(scan: &IndexScanDescData) -> bool {
    // SAFETY: the caller's.
    unsafe {
        (*(*scan.heapRelation).rd_rel).relam == pg_sys::HEAP_TABLE_AM_OID
            && (*scan.xs_snapshot).snapshot_type == pg_sys::SnapshotType::SNAPSHOT_MVCC
            // Then reading a row has to be noted.
            && pg_sys::XactIsoLevel != pg_sys::XACT_SERIALIZABLE as c_int
    }
}

/// The rows of a block that the snapshot sees, a bit for each that an index may point to: of rows that were updated and kept
/// their entries, the first version's.
unsafe fn visible_rows(scan: &IndexScanDescData, block: u32) -> [u64; WORDS] {
    let mut rows = [0; WORDS];
    // SAFETY: an open table, which has the block. An error gives lock and pin back.
    unsafe {
        let heap = scan.heapRelation;
        let buffer = ffi::ReadBuffer(heap, block);
        ffi::LockBuffer(buffer, ffi::BUFFER_LOCK_SHARE as c_int);
        let count = relation::line_pointers(relation::page(buffer)).min(WORDS * 64);
        for row in 0..count {
            let mut tid = place_tid(block, row as u16 + 1);
            let mut tuple = HeapTupleData::default();
            let nothing = core::ptr::null_mut();
            let is_seen =
                ffi::heap_hot_search_buffer(&mut tid, heap, buffer, scan.xs_snapshot, &mut tuple, nothing, true);
            rows[row / 64] |= u64::from(is_seen) << (row % 64);
        }
        ffi::LockBuffer(buffer, ffi::BUFFER_LOCK_UNLOCK as c_int);
        ffi::ReleaseBuffer(buffer);
    }
    rows
}
