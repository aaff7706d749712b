//! One index in the place of another, with all that hangs on it: constraint, foreign keys, comment, marks.
//!
//! The server's own means for it is the one by which REINDEX CONCURRENTLY puts what it has built in place
//! (`index_concurrently_swap`, catalog/index.c).

use core::ffi::c_int;

use pgrx::pg_sys::{self, AlterTableType, FormData_pg_index, ObjectAddress, Oid, Relation};

use super::adopted::{check_plain, refuse};
use super::{alter_parameters, method, parameter};
use crate::pg::errors::Name;
use crate::pg::{ffi, list};

/// Puts `new` in the place of `old`, which is dropped.
///
/// # Safety
/// Two indexes of a table that is locked against everything until the transaction's end, which nobody has open, and
/// alike: see [`check_alike`].
pub unsafe fn exchange(old: Oid, new: Oid) {
    // SAFETY: the caller's; what was done before is made visible first, as the server looks it up.
    unsafe {
        ffi::CommandCounterIncrement();
        // Or else a dump would make the constraint with an index of the other one's method.
        if ffi::get_index_constraint(old) != Oid::INVALID && ffi::get_rel_relam(new) == method() {
            alter_parameters(new, AlterTableType::AT_SetRelOptions, list::of([parameter()]), c"ALTER INDEX".as_ptr());
        }
        let table = ffi::IndexGetRelation(old, false);
        let (name, schema) = (ffi::get_rel_name(old), ffi::get_rel_namespace(old));
        // The new index's own name is still taken when the old one gets another.
        let last_name = ffi::ChooseRelationName(name, core::ptr::null(), c"old".as_ptr(), schema, false);
        ffi::index_concurrently_swap(new, old, last_name);
        ffi::CacheInvalidateRelcacheByRelid(table);
        ffi::CommandCounterIncrement();
        let dropped = ObjectAddress { classId: pg_sys::RelationRelationId, objectId: old, objectSubId: 0 };
        ffi::performDeletion(&dropped, pg_sys::DropBehavior::DROP_RESTRICT, pg_sys::PERFORM_DELETION_INTERNAL as c_int);
        ffi::CommandCounterIncrement();
    }
}

/// Raises why an index cannot stand in the place of another one.
///
/// # Safety
/// All three are open, the indexes indexes.
pub unsafe fn check_alike(old: Relation, new: Relation, table: Relation) {
    // SAFETY: open relations.
    unsafe {
        if (*old).rd_id == (*new).rd_id || (*(*new).rd_index).indrelid != (*(*old).rd_index).indrelid {
            refuse(format_args!("\"{}\" and \"{}\" are not two indexes of one table", Name(old), Name(new)));
        }
        if !(*(*new).rd_index).indisvalid {
            refuse(format_args!("index \"{}\" is not valid", Name(new)));
        }
        if ffi::get_index_constraint((*new).rd_id) != Oid::INVALID
            || !ffi::get_index_ref_constraints((*new).rd_id).is_null()
        {
            refuse(format_args!("index \"{}\" is already associated with a constraint", Name(new)));
        }
        check_plain(old, table);
        check_plain(new, table);
        if !same_columns(old, new) {
            refuse(format_args!("index \"{}\" is not like index \"{}\"", Name(new), Name(old)));
        }
    }
}

/// Whether two indexes have the same columns in the same order, and are unique in the same way.
unsafe fn same_columns(old: Relation, new: Relation) -> bool {
    // SAFETY: open indexes, with a number for each column and options for each key column.
    unsafe {
        let key = |index: &FormData_pg_index| {
            (index.indnatts, index.indnkeyatts, index.indisunique, index.indnullsnotdistinct)
        };
        let (one, other) = (&*(*old).rd_index, &*(*new).rd_index);
        let column = |index: &FormData_pg_index, at: usize| *index.indkey.values.as_ptr().add(at);
        key(one) == key(other)
            && (0..one.indnatts as usize).all(|at| column(one, at) == column(other, at))
            && (0..one.indnkeyatts as usize).all(|at| *(*old).rd_indoption.add(at) == *(*new).rd_indoption.add(at))
    }
}
