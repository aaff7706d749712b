//! The server's bulk writer, which it has from 17 on.

use core::ffi::c_void;

use fpbtree_engine::format::{Block, PageBytes};
use fpbtree_engine::tree::load::Pages;
use pgrx::pg_sys::{self, ForkNumber::MAIN_FORKNUM, Relation};

use super::pages::NewFile;

/// The server's `BulkWriteState`.
#[repr(C)]
struct BulkWriteState([u8; 0]);

unsafe extern "C-unwind" {
    fn smgr_bulk_start_rel(rel: Relation, fork: pg_sys::ForkNumber::Type) -> *mut BulkWriteState;
    fn smgr_bulk_get_buf(state: *mut BulkWriteState) -> *mut c_void;
    fn smgr_bulk_write(state: *mut BulkWriteState, block: Block, page: *mut c_void, standard: bool);
    fn smgr_bulk_finish(state: *mut BulkWriteState);
}

/// Writes pages by the server's bulk writer. It has to be told of no page that is left out: those before one that
/// is written it fills with zeroes.
pub(super) struct Bulk(*mut BulkWriteState);

impl NewFile for Bulk {
    unsafe fn begin(rel: Relation) -> Bulk {
        // SAFETY: `rel` is open and its file empty.
        Bulk(unsafe { smgr_bulk_start_rel(rel, MAIN_FORKNUM) })
    }

    unsafe fn end(self) {
        // SAFETY: all pages have been written, and the writer is not used any more.
        unsafe { smgr_bulk_finish(self.0) };
    }
}

impl Pages for Bulk {
    fn write(&mut self, block: Block, page: &PageBytes) {
        // SAFETY: the buffer has room for a page and is the writer's again after the call.
        unsafe {
            let memory = smgr_bulk_get_buf(self.0);
            memory.cast::<u8>().copy_from_nonoverlapping(page.as_ptr(), page.len());
            smgr_bulk_write(self.0, block, memory, true);
        }
    }
}
