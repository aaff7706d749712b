//! Adds to the totals of all sessions, when a transaction ends, what this process has counted by itself meanwhile because
//! it happens too often to be told at once. What is rare is added where it happens.

use core::ffi::c_void;

use pgrx::pg_guard;
use pgrx::pg_sys::XactEvent;

use crate::pg::{ffi, shared_memory};
use crate::storage::descents;
use crate::storage::totals::{self, Count};
use crate::values::compare_counts;

/// Has the server tell of transactions' ends, if the library is being preloaded: its processes inherit that.
pub fn register() {
    if shared_memory::is_preloading() {
        // SAFETY: a function that stays loaded.
        unsafe { ffi::RegisterXactCallback(Some(end_transaction), core::ptr::null_mut()) };
    }
}

/// A transaction ends, one way or the other. A process that ends has its transaction end before, while it can still reach
/// shared memory. Nothing here raises.
#[pg_guard]
unsafe extern "C-unwind" fn end_transaction(event: XactEvent::Type, _context: *mut c_void) {
    if !matches!(
        event,
        XactEvent::XACT_EVENT_PRE_COMMIT
            | XactEvent::XACT_EVENT_PRE_PREPARE
            | XactEvent::XACT_EVENT_PARALLEL_PRE_COMMIT
    ) {
        descents::send();
        compare_counts::take(|index, counts| totals::add(index, Count::CompareCalls, &counts));
    }
}
