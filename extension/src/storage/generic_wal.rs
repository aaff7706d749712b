//! Generic records, for indexes that have not [our own log](super::own_wal): what the server's redo of them takes, made
//! without its copying and comparing of whole pages.

use core::cell::UnsafeCell;

use fpbtree_engine::format::PageBytes;
use fpbtree_engine::log::Ranges;
use pgrx::pg_sys::{self, Buffer, XLogRecPtr};

use crate::pg::ffi;
use crate::pg::per_backend::PerBackend;

/// Most pages of a record: those that the server's redo has room for.
pub const MOST_PAGES: usize = pg_sys::MAX_GENERIC_XLOG_PAGES as usize;

/// One page's part of a record.
struct PagePart {
    whole: bool,
    length: usize,
    delta: [u8; Ranges::DELTA_SIZE],
}

/// The parts of the record being built: nothing may allocate in a critical section.
static PARTS: PerBackend<UnsafeCell<[PagePart; MOST_PAGES]>> = PerBackend::new(UnsafeCell::new(
    [const { PagePart { whole: false, length: 0, delta: [0; Ranges::DELTA_SIZE] } }; MOST_PAGES],
));

/// Notes what a change has written to its `index`-th page.
pub fn note_part(index: usize, ranges: &Ranges, page: &PageBytes) {
    // SAFETY: nothing in here comes back to this module.
    let part = unsafe { &mut (*PARTS.get())[index] };
    part.whole = ranges.whole_page();
    part.length = if part.whole { 0 } else { ranges.delta(page, &mut part.delta) };
}

/// Writes the record of a change of these pages, whose parts are noted, and says where it ends.
///
/// # Safety
/// Inside the critical section in which the change was made; its pages are pinned and exclusively locked.
pub unsafe fn insert(pages: impl Iterator<Item = Buffer>) -> XLogRecPtr {
    // SAFETY: inside the critical section; the parts stay as they are until the record is inserted.
    unsafe {
        let parts = &*PARTS.get();
        ffi::XLogBeginInsert();
        for (id, (page, part)) in (0u8..).zip(pages.zip(parts)) {
            if part.whole {
                ffi::XLogRegisterBuffer(id, page, (pg_sys::REGBUF_STANDARD | pg_sys::REGBUF_FORCE_IMAGE) as u8);
            } else {
                ffi::XLogRegisterBuffer(id, page, pg_sys::REGBUF_STANDARD as u8);
                ffi::XLogRegisterBufData(id, part.delta.as_ptr().cast(), part.length as u32);
            }
        }
        ffi::XLogInsert(pg_sys::RmgrIds::RM_GENERIC_ID as u8, 0)
    }
}
