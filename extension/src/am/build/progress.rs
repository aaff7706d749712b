//! What `pg_stat_progress_create_index` shows of a build.

use core::ffi::{c_char, c_int};

use pgrx::pg_guard;
use pgrx::pg_sys;

/// Phases that `pg_stat_progress_create_index` names, as btree numbers and names its own. The server's first phase is
/// 1; 4 would be the sort of dead rows, which are sorted with the others here.
pub(super) const PHASE_SCAN: i64 = 2;
pub(super) const PHASE_SORT: i64 = 3;
pub(super) const PHASE_LOAD: i64 = 5;

/// The `ambuildphasename` callback.
#[pg_guard]
pub unsafe extern "C-unwind" fn ambuildphasename(phase: i64) -> *mut c_char {
    let name = match phase {
        1 => c"initializing",
        PHASE_SCAN => c"scanning table",
        PHASE_SORT => c"sorting live tuples",
        PHASE_LOAD => c"loading tuples in tree",
        _ => return core::ptr::null_mut(),
    };
    name.as_ptr().cast_mut()
}

/// Entries loaded between two reports of how many.
pub(super) const REPORTED: u64 = 1 << 16;

/// Says that so many entries are loaded, which is the phase then: before the first one comes they are sorted.
pub(super) fn report_loaded(entries: u64) {
    report([
        (pg_sys::PROGRESS_CREATEIDX_SUBPHASE, PHASE_LOAD),
        (pg_sys::PROGRESS_CREATEIDX_TUPLES_DONE, entries as i64),
    ]);
}

/// Says that the table was scanned, with so many entries, which are sorted now.
pub(super) fn report_scanned(entries: u64) {
    report([
        (pg_sys::PROGRESS_CREATEIDX_SUBPHASE, PHASE_SORT),
        (pg_sys::PROGRESS_CREATEIDX_TUPLES_TOTAL, entries as i64),
        (pg_sys::PROGRESS_SCAN_BLOCKS_TOTAL, 0),
        (pg_sys::PROGRESS_SCAN_BLOCKS_DONE, 0),
    ]);
}

pub(super) fn report_phase(phase: i64) {
    report([(pg_sys::PROGRESS_CREATEIDX_SUBPHASE, phase)]);
}

fn report<const N: usize>(progress: [(u32, i64); N]) {
    let (what, values) = (progress.map(|(what, _)| what as c_int), progress.map(|(_, value)| value));
    // SAFETY: shared memory of this backend's own; arrays of so many elements.
    unsafe { pg_sys::pgstat_progress_update_multi_param(N as c_int, what.as_ptr(), values.as_ptr()) };
}
