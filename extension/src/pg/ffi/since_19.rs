//! What 19 has inline, or asks more arguments for, as it was in 18.

use core::ffi::{c_char, c_int};
use core::ptr::null_mut;

use pgrx::pg_sys::{self, Buffer, Oid, Query, Relation};

pub use pg_sys::BufferLockMode::{BUFFER_LOCK_EXCLUSIVE, BUFFER_LOCK_SHARE, BUFFER_LOCK_UNLOCK};
pub use pg_sys::NodeInstrumentation;

/// `LockBuffer`.
///
/// # Safety
/// A pinned buffer. May raise.
#[allow(non_snake_case)]
#[inline]
pub unsafe fn LockBuffer(buffer: Buffer, mode: c_int) {
    unsafe extern "C-unwind" {
        fn LockBufferInternal(buffer: Buffer, mode: c_int);
        fn UnlockBuffer(buffer: Buffer);
    }
    // SAFETY: the header's inline function.
    unsafe {
        if mode == BUFFER_LOCK_UNLOCK as c_int {
            UnlockBuffer(buffer);
        } else {
            LockBufferInternal(buffer, mode);
        }
    }
}

/// Has hints set in a page, unless it is just being written.
///
/// # Safety
/// A pinned and locked buffer.
#[inline]
pub unsafe fn set_hints(buffer: Buffer, set: impl FnOnce()) {
    unsafe extern "C-unwind" {
        fn BufferBeginSetHintBits(buffer: Buffer) -> bool;
        fn BufferFinishSetHintBits(buffer: Buffer, is_dirty: bool, is_standard: bool);
    }
    // SAFETY: the caller's.
    unsafe {
        if BufferBeginSetHintBits(buffer) {
            set();
            BufferFinishSetHintBits(buffer, true, true);
        }
    }
}

/// `table_beginscan_parallel`.
///
/// # Safety
/// As in the server. May raise.
pub unsafe fn table_beginscan_parallel(table: Relation, scan: pg_sys::ParallelTableScanDesc) -> pg_sys::TableScanDesc {
    unsafe extern "C-unwind" {
        #[link_name = "table_beginscan_parallel"]
        fn begin(table: Relation, scan: pg_sys::ParallelTableScanDesc, flags: u32) -> pg_sys::TableScanDesc;
    }
    // SAFETY: the caller's.
    unsafe { begin(table, scan, pg_sys::ScanOptions::SO_NONE) }
}

/// What a node that scans an index says of its table.
///
/// # Safety
/// A scan that has begun.
pub unsafe fn scan_flags(node: *mut pg_sys::ScanState) -> u32 {
    unsafe extern "C-unwind" {
        fn ScanRelIsReadOnly(node: *mut pg_sys::ScanState) -> bool;
    }
    // SAFETY: the caller's.
    let is_read_only = unsafe { ScanRelIsReadOnly(node) };
    if is_read_only { pg_sys::ScanOptions::SO_HINT_REL_READ_ONLY } else { pg_sys::ScanOptions::SO_NONE }
}

/// `standard_planner`.
///
/// # Safety
/// As in the server. May raise.
pub unsafe fn standard_planner(
    query: *mut Query,
    text: *const c_char,
    options: c_int,
    parameters: pg_sys::ParamListInfo,
) -> *mut pg_sys::PlannedStmt {
    unsafe extern "C-unwind" {
        #[link_name = "standard_planner"]
        fn plan(
            query: *mut Query,
            text: *const c_char,
            options: c_int,
            parameters: pg_sys::ParamListInfo,
            explain: *mut pg_sys::ExplainState,
        ) -> *mut pg_sys::PlannedStmt;
    }
    // SAFETY: the caller's.
    unsafe { plan(query, text, options, parameters, null_mut()) }
}

/// `DefineIndex`.
///
/// # Safety
/// As in the server. May raise.
#[allow(clippy::too_many_arguments, non_snake_case)] // The server's signature.
pub unsafe fn DefineIndex(
    table: Oid,
    statement: *mut pg_sys::IndexStmt,
    index: Oid,
    parent: Oid,
    parent_constraint: Oid,
    parts: c_int,
    is_alter_table: bool,
    check_rights: bool,
    check_not_in_use: bool,
    skip_build: bool,
    quiet: bool,
) -> pg_sys::ObjectAddress {
    unsafe extern "C-unwind" {
        #[link_name = "DefineIndex"]
        fn define(
            state: *mut pg_sys::ParseState,
            table: Oid,
            statement: *mut pg_sys::IndexStmt,
            index: Oid,
            parent: Oid,
            parent_constraint: Oid,
            parts: c_int,
            is_alter_table: bool,
            check_rights: bool,
            check_not_in_use: bool,
            skip_build: bool,
            quiet: bool,
        ) -> pg_sys::ObjectAddress;
    }
    // SAFETY: the caller's. Without a state, messages say no position.
    unsafe {
        define(
            null_mut(),
            table,
            statement,
            index,
            parent,
            parent_constraint,
            parts,
            is_alter_table,
            check_rights,
            check_not_in_use,
            skip_build,
            quiet,
        )
    }
}
