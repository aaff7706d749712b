//! TIDs as the server has them.

use fpbtree_engine::format::Tid;
use pgrx::pg_sys::{self, ItemPointerData};

/// `MaxHeapTuplesPerPage`: the largest offset of a row, and what a bitmap takes.
pub const MOST_OFFSET: u16 = 291;

/// The block and offset that the server's TID names.
///
/// # Safety
/// `tid` points to a TID.
#[inline]
pub unsafe fn heap_place(tid: *const ItemPointerData) -> (u32, u16) {
    // SAFETY: `tid` points to a TID.
    let tid = unsafe { *tid };
    (u32::from(tid.ip_blkid.bi_hi) << 16 | u32::from(tid.ip_blkid.bi_lo), tid.ip_posid)
}

/// An entry's TID as the server has it, without rank and flags.
#[inline]
pub fn heap_tid(tid: Tid) -> ItemPointerData {
    place_tid(tid.block(), tid.offset())
}

/// The server's TID of a block and an offset.
#[inline]
pub fn place_tid(block: u32, offset: u16) -> ItemPointerData {
    ItemPointerData {
        ip_blkid: pg_sys::BlockIdData { bi_hi: (block >> 16) as u16, bi_lo: block as u16 },
        ip_posid: offset,
    }
}
