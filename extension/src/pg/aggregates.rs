//! What the catalogs say of aggregates.

use core::ffi::c_int;

use pgrx::pg_sys::{self, Datum, Oid};

use crate::pg::ffi;

/// `Anum_pg_aggregate_aggfinalfn` and `Anum_pg_aggregate_aggsortop`.
const AGGREGATE_FINAL_FUNCTION: i16 = 5;
const AGGREGATE_SORT_OPERATOR: i16 = 16;

/// The operator that an aggregate goes by that gives the first value in an order, if it is one.
///
/// # Safety
/// May raise.
pub unsafe fn sort_operator(aggregate: Oid) -> Option<Oid> {
    // SAFETY: the caller's.
    unsafe { of_aggregate(aggregate, AGGREGATE_SORT_OPERATOR) }
}

/// The function that makes an aggregate's result of its state, if that is not the result.
///
/// # Safety
/// May raise.
pub unsafe fn final_function(aggregate: Oid) -> Option<Oid> {
    // SAFETY: the caller's.
    unsafe { of_aggregate(aggregate, AGGREGATE_FINAL_FUNCTION) }
}

/// An OID that the catalog has of an aggregate, if it has one.
unsafe fn of_aggregate(aggregate: Oid, attribute: i16) -> Option<Oid> {
    // SAFETY: the server's catalog cache; what is found there is copied before it is given back.
    unsafe {
        let cache = pg_sys::SysCacheIdentifier::AGGFNOID as c_int;
        let tuple = ffi::SearchSysCache1(cache, Datum::from(aggregate));
        if tuple.is_null() {
            return None;
        }
        let mut is_null = false;
        let found = Oid::from(ffi::SysCacheGetAttr(cache, tuple, attribute, &mut is_null).value() as u32);
        ffi::ReleaseSysCache(tuple);
        (found != Oid::INVALID).then_some(found)
    }
}

/// Whether an operator is the "<" or ">" of one of btree's families.
///
/// # Safety
/// May raise.
pub unsafe fn is_ordering_operator(operator: Oid) -> bool {
    let (mut family, mut input, mut order) = (Oid::INVALID, Oid::INVALID, 0);
    // SAFETY: a catalog lookup.
    unsafe { ffi::get_ordering_op_properties(operator, &mut family, &mut input, &mut order) }
}

/// Raises an error unless the user may call an aggregate.
///
/// # Safety
/// The caller's frames own no destructors.
pub unsafe fn check_may_call(aggregate: Oid) {
    // SAFETY: catalog lookups, and the server's error.
    unsafe {
        let (user, mode) = (ffi::GetUserId(), pg_sys::ACL_EXECUTE as pg_sys::AclMode);
        #[cfg(feature = "pg15")]
        let result = ffi::pg_proc_aclcheck(aggregate, user, mode);
        #[cfg(not(feature = "pg15"))]
        let result = ffi::object_aclcheck(pg_sys::ProcedureRelationId, aggregate, user, mode);
        if result != pg_sys::AclResult::ACLCHECK_OK {
            ffi::aclcheck_error(result, pg_sys::ObjectType::OBJECT_AGGREGATE, pg_sys::get_func_name(aggregate));
        }
    }
}
