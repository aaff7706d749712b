//! `fpbtree_exchange`.

use pgrx::pg_guard;
use pgrx::pg_sys::{Datum, FunctionCallInfo};

use super::result::version_1;

version_1!(pg_finfo_fpbtree_exchange_wrapper);

/// `fpbtree_exchange(old, new)`: one index takes the place of another, which is dropped.
///
/// # Safety
/// Called by the server.
#[unsafe(no_mangle)]
#[pg_guard]
pub unsafe extern "C-unwind" fn fpbtree_exchange_wrapper(call: FunctionCallInfo) -> Datum {
    // SAFETY: called by the server, as the install script declares.
    unsafe { exchange(call) };
    Datum::from(0)
}

/// Locks table and indexes as REINDEX would, and lets the one take the other's place.
#[cfg(feature = "since_18")]
unsafe fn exchange(call: FunctionCallInfo) {
    use pgrx::pg_sys::{self, LOCKMODE, Oid};

    use super::opened::{check_owner, gone};
    use super::result::argument;
    use crate::am::constraints::since_18::exchange as constraints;
    use crate::pg::ffi;

    let lock = pg_sys::AccessExclusiveLock as LOCKMODE;
    // SAFETY: two relations' OIDs; what is wrong with them raises. The caller is known to own them before a lock is
    // waited for that others would then wait behind.
    unsafe {
        let [old, new] = [0, 1].map(|number| Oid::from(argument(call, number).value() as u32));
        for index in [old, new] {
            let rel = ffi::try_relation_open(index, pg_sys::AccessShareLock as LOCKMODE);
            if rel.is_null() {
                gone(index);
            }
            check_owner(rel);
            ffi::relation_close(rel, pg_sys::AccessShareLock as LOCKMODE);
        }
        let table = ffi::table_open(ffi::IndexGetRelation(old, false), lock);
        let indexes = [old, new].map(|index| ffi::index_open(index, lock));
        indexes.iter().for_each(|&rel| check_owner(rel));
        constraints::check_alike(indexes[0], indexes[1], table);
        indexes.iter().for_each(|&rel| ffi::index_close(rel, pg_sys::NoLock as LOCKMODE));
        ffi::table_close(table, pg_sys::NoLock as LOCKMODE);
        constraints::exchange(old, new);
    }
}

/// Raises: before 18 no constraint has an index of ours, and other indexes exchange names.
#[cfg(not(feature = "since_18"))]
unsafe fn exchange(_call: FunctionCallInfo) {
    crate::pg::errors::raise(
        pgrx::PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
        format_args!("constraints cannot use access method \"fpbtree\" before PostgreSQL 18"),
        None,
        None,
    );
}
