//! A `CREATE INDEX` statement, read by the server's own parser, and its table: opened, and nothing changed.

use core::ffi::{CStr, c_char, c_void};

use pgrx::PgSqlErrorCode::{ERRCODE_FEATURE_NOT_SUPPORTED, ERRCODE_INVALID_PARAMETER_VALUE, ERRCODE_WRONG_OBJECT_TYPE};
use pgrx::pg_sys::{self, IndexStmt, LOCKMODE, NodeTag, Oid, RawStmt, Relation};

use super::super::opened::{gone, is_our_method, owns};
use crate::pg::errors::Name;
use crate::pg::{errors, ffi, list};

/// Enough for reading.
const LOCK: LOCKMODE = pg_sys::AccessShareLock as LOCKMODE;

/// A statement, and what it is about.
pub(super) struct Statement {
    pub table: Relation,
    pub index: *mut IndexStmt,
    pub method: Oid,
}

impl Statement {
    /// Reads a statement as the caller, who has to own the table: whoever may create the index.
    ///
    /// # Safety
    /// A C string that stays. May raise.
    pub(super) unsafe fn read(text: *const c_char) -> Statement {
        // SAFETY: the context is taken off the stack before it is gone; an error resets the stack.
        unsafe {
            let previous = pg_sys::error_context_stack;
            let mut context =
                pg_sys::ErrorContextCallback { previous, callback: Some(place_error), arg: text.cast_mut().cast() };
            pg_sys::error_context_stack = &raw mut context;
            let raw = parse(text);
            let method = check_method((*raw).accessMethod);
            let table = open((*raw).relation);
            let index = ffi::transformIndexStmt((*table).rd_id, raw, text);
            pg_sys::error_context_stack = previous;
            Statement { table, index, method }
        }
    }

    pub(super) unsafe fn close(self) {
        // SAFETY: opened by `read`.
        unsafe { ffi::table_close(self.table, LOCK) };
    }
}

/// Says of an error in the statement where in it that is, not where in the query that calls the function.
unsafe extern "C-unwind" fn place_error(text: *mut c_void) {
    // SAFETY: called by the server while it reports, with the statement.
    unsafe {
        let position = ffi::geterrposition();
        if position > 0 {
            ffi::errposition(0);
            ffi::internalerrposition(position);
            ffi::internalerrquery(text.cast());
        }
    }
}

/// The statement as it is written.
unsafe fn parse(text: *const c_char) -> *mut IndexStmt {
    // SAFETY: the parser's list, which is of raw statements.
    unsafe {
        let statements = ffi::raw_parser(text, pg_sys::RawParseMode::RAW_PARSE_DEFAULT);
        if let [one] = list::cells(statements) {
            let statement = (*one.ptr_value.cast::<RawStmt>()).stmt;
            if (*statement).type_ == NodeTag::T_IndexStmt {
                return statement.cast();
            }
        }
    }
    errors::raise(
        ERRCODE_INVALID_PARAMETER_VALUE,
        format_args!("that is not one CREATE INDEX statement"),
        None,
        Some(format_args!("Write, for example, CREATE INDEX ON orders USING fpbtree (customer, at DESC).")),
    )
}

/// The access method of that name, which has to be ours.
unsafe fn check_method(name: *const c_char) -> Oid {
    // SAFETY: a C string, and a catalog lookup.
    unsafe {
        let method = ffi::get_index_am_oid(name, false);
        if !is_our_method(&*ffi::GetIndexAmRoutineByAmId(method, false)) {
            let name = CStr::from_ptr(name).to_str().unwrap_or("?");
            errors::raise(
                ERRCODE_WRONG_OBJECT_TYPE,
                format_args!("the statement would create an index of method \"{name}\""),
                None,
                Some(format_args!("Write USING fpbtree behind the table's name.")),
            );
        }
        method
    }
}

/// Opens the table. The caller's privilege is looked at before a lock is waited for.
unsafe fn open(name: *mut pg_sys::RangeVar) -> Relation {
    // SAFETY: the parser's name; catalog lookups, and a lock.
    unsafe {
        let oid = ffi::RangeVarGetRelidExtended(name, 0, 0, core::ptr::null(), core::ptr::null_mut());
        check_owner(oid, name);
        let table = ffi::try_relation_open(oid, LOCK);
        if table.is_null() {
            gone(oid);
        }
        check_owner(oid, name);
        check_table(table);
        table
    }
}

unsafe fn check_owner(oid: Oid, name: *mut pg_sys::RangeVar) {
    // SAFETY: a catalog lookup, and the parser's name.
    unsafe {
        if !owns(oid, pg_sys::GetUserId()) {
            let result = pg_sys::AclResult::ACLCHECK_NOT_OWNER;
            ffi::aclcheck_error(result, pg_sys::ObjectType::OBJECT_TABLE, (*name).relname);
        }
    }
}

/// Raises unless a table has rows of its own that may be read.
unsafe fn check_table(table: Relation) {
    // SAFETY: an open relation.
    let (kind, is_temporary, is_own) = unsafe {
        let class = &*(*table).rd_rel;
        let is_temporary = class.relpersistence as u8 == pg_sys::RELPERSISTENCE_TEMP;
        (class.relkind as u8, is_temporary, (*table).rd_islocaltemp)
    };
    match kind {
        pg_sys::RELKIND_RELATION | pg_sys::RELKIND_MATVIEW if is_temporary && !is_own => errors::raise(
            ERRCODE_FEATURE_NOT_SUPPORTED,
            format_args!("cannot access temporary tables of other sessions"),
            None,
            None,
        ),
        pg_sys::RELKIND_RELATION | pg_sys::RELKIND_MATVIEW => {}
        pg_sys::RELKIND_PARTITIONED_TABLE => errors::raise(
            ERRCODE_WRONG_OBJECT_TYPE,
            format_args!("\"{}\" is a partitioned table", Name(table)),
            Some(format_args!("It has no rows of its own.")),
            Some(format_args!("Ask about its partitions: see pg_partition_tree().")),
        ),
        _ => errors::raise(
            ERRCODE_WRONG_OBJECT_TYPE,
            format_args!("\"{}\" is not a table or a materialized view", Name(table)),
            None,
            None,
        ),
    }
}
