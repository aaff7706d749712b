//! What pg_stat_fpbtree is made of, and `fpbtree_stat_reset`.

use pgrx::PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE;
use pgrx::pg_guard;
use pgrx::pg_sys::{self, Datum, FunctionCallInfo, Oid};

use super::opened::check_ours;
use super::result::{ResultRows, argument, version_1};
use crate::pg::errors;
use crate::storage::totals::{self, COUNTS};

version_1!(pg_finfo_fpbtree_stat_counts_wrapper);
version_1!(pg_finfo_fpbtree_stat_room_wrapper);
version_1!(pg_finfo_fpbtree_stat_reset_wrapper);
version_1!(pg_finfo_fpbtree_stat_reset_index_wrapper);

/// `fpbtree_stat_counts()`: what all sessions have counted, a row for each index of the database of which anything was,
/// and one for the database itself, with index 0. None at all if nothing is counted.
///
/// # Safety
/// Called by the server.
#[unsafe(no_mangle)]
#[pg_guard]
pub unsafe extern "C-unwind" fn fpbtree_stat_counts_wrapper(call: FunctionCallInfo) -> Datum {
    // SAFETY: called by the server, as the install script declares.
    unsafe {
        let rows = ResultRows::new(call);
        totals::make_room();
        totals::tell(|index, (counts, since)| {
            let mut row = [None; 1 + COUNTS + 1];
            row[0] = Some(Datum::from(index));
            row[1..].iter_mut().zip(counts).for_each(|(column, count)| *column = Some(Datum::from(count as i64)));
            row[1 + COUNTS] = since.map(Datum::from);
            rows.add_some(row);
        });
        Datum::from(0)
    }
}

/// `fpbtree_stat_room()`: one row on how many indexes are counted.
///
/// # Safety
/// Called by the server.
#[unsafe(no_mangle)]
#[pg_guard]
pub unsafe extern "C-unwind" fn fpbtree_stat_room_wrapper(call: FunctionCallInfo) -> Datum {
    // SAFETY: called by the server, as the install script declares.
    unsafe {
        let rows = ResultRows::new(call);
        let [indexes, most, refused] = totals::room().unwrap_or_default();
        rows.add([Datum::from(indexes as i32), Datum::from(most as i32), Datum::from(refused as i64)]);
        Datum::from(0)
    }
}

/// `fpbtree_stat_reset()`: all indexes of the database are counted from zero again.
///
/// # Safety
/// Called by the server.
#[unsafe(no_mangle)]
#[pg_guard]
pub unsafe extern "C-unwind" fn fpbtree_stat_reset_wrapper(_call: FunctionCallInfo) -> Datum {
    // SAFETY: called by the server, as the install script declares.
    unsafe { reset(None) }
}

/// `fpbtree_stat_reset(index)`: one of them is.
///
/// # Safety
/// Called by the server.
#[unsafe(no_mangle)]
#[pg_guard]
pub unsafe extern "C-unwind" fn fpbtree_stat_reset_index_wrapper(call: FunctionCallInfo) -> Datum {
    // SAFETY: called by the server, as the install script declares.
    unsafe {
        let index = argument(call, 0).value() as u32;
        check_ours(Oid::from(index));
        reset(Some(index))
    }
}

unsafe fn reset(index: Option<u32>) -> Datum {
    if !totals::are_counted() {
        errors::raise(
            ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format_args!("nothing is counted for pg_stat_fpbtree"),
            None,
            Some(format_args!("fpbtree has to be in shared_preload_libraries, and fpbtree.stat_indexes not 0.")),
        );
    }
    // SAFETY: inside a function's transaction.
    unsafe { totals::reset(index, pg_sys::GetCurrentTimestamp()) };
    Datum::from(0)
}
