//! Constraints on indexes of ours, where PostgreSQL does not take them.

use core::ffi::c_char;

use pgrx::PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED;
use pgrx::pg_sys::{Constraint, List, Node};

use crate::pg::errors;

/// No constraint has an index of ours by default.
pub unsafe fn is_default(_constraint: &Constraint) -> bool {
    false
}

/// Raises what speaks against it: the release.
pub unsafe fn check_possible(_constraint: &Constraint) {
    errors::raise(
        ERRCODE_FEATURE_NOT_SUPPORTED,
        format_args!("constraints cannot use access method \"fpbtree\" before PostgreSQL 18"),
        Some(format_args!("Foreign keys and INSERT ... ON CONFLICT need a btree index here.")),
        Some(format_args!("Leave the option out, or create a unique index if that will do.")),
    );
}

/// Leaves it to the server to refuse indexes of ours.
pub unsafe fn adopt(_statement: *mut Node, _text: *const c_char) {}

/// There is nothing to remember.
pub unsafe fn before(_statement: *mut Node, _text: *const c_char) -> *mut List {
    core::ptr::null_mut()
}

/// There was nothing to remember.
pub unsafe fn after(_remembered: *mut List) {}
