//! Constraints on indexes of ours, where PostgreSQL takes them.

mod adopted;
pub mod exchange;
mod retyped;

use core::ffi::{CStr, c_char, c_int};

pub use adopted::adopt;
use pgrx::PgSqlErrorCode::{ERRCODE_INVALID_PARAMETER_VALUE, ERRCODE_UNDEFINED_OBJECT};
use pgrx::pg_sys::{
    self, AlterTableCmd, AlterTableStmt, AlterTableType, Constraint, List, Node, NodeTag, Oid, PlannedStmt,
};
pub use retyped::{after, before};

use super::{OURS, copy, is_method, parameter};
use crate::pg::{errors, ffi, list, options};

/// Whether a constraint of which nothing is said gets an index of ours. While pg_upgrade runs, each index is what its
/// file says; a constraint on an index that is there already takes that one.
pub unsafe fn is_default(constraint: &Constraint) -> bool {
    // SAFETY: the server's own flag, and a catalog lookup.
    unsafe {
        options::constraints()
            && !constraint.without_overlaps
            && constraint.indexname.is_null()
            && !pg_sys::IsBinaryUpgrade
            && method() != Oid::INVALID
    }
}

/// Our access method in this database, if it has the extension.
unsafe fn method() -> Oid {
    // SAFETY: a catalog lookup.
    unsafe { ffi::get_index_am_oid(OURS.as_ptr(), true) }
}

/// Raises what speaks against a constraint on an index of ours.
pub unsafe fn check_possible(constraint: &Constraint) {
    if constraint.without_overlaps {
        errors::raise(
            ERRCODE_INVALID_PARAMETER_VALUE,
            format_args!("a constraint WITHOUT OVERLAPS cannot use access method \"fpbtree\""),
            None,
            Some(format_args!("Its index is of \"gist\".")),
        );
    }
    // SAFETY: a catalog lookup.
    if unsafe { method() } == Oid::INVALID {
        errors::raise(
            ERRCODE_UNDEFINED_OBJECT,
            format_args!("access method \"fpbtree\" does not exist"),
            None,
            Some(format_args!("Use CREATE EXTENSION fpbtree in this database first.")),
        );
    }
}

/// `makeNode`.
unsafe fn node<T>(tag: NodeTag) -> &'static mut T {
    // SAFETY: every node begins with its tag, and is valid when it is otherwise zero.
    unsafe {
        let node: *mut T = ffi::palloc0(size_of::<T>()).cast();
        node.cast::<Node>().write(Node { type_: tag });
        &mut *node
    }
}

/// A relation as a statement names it.
unsafe fn name_of(relation: Oid) -> *mut pg_sys::RangeVar {
    // SAFETY: catalog lookups of a relation that is locked.
    unsafe {
        let schema = ffi::get_namespace_name(ffi::get_rel_namespace(relation));
        ffi::makeRangeVar(schema, ffi::get_rel_name(relation), -1)
    }
}

/// Runs `ALTER INDEX … SET (parameters)` or `RESET`, as the user would.
unsafe fn alter_parameters(index: Oid, change: AlterTableType::Type, parameters: *mut List, text: *const c_char) {
    // SAFETY: a statement as the parser makes it, run in the transaction of the one that the hook is called for.
    unsafe {
        let command: &mut AlterTableCmd = node(NodeTag::T_AlterTableCmd);
        (command.subtype, command.def) = (change, parameters.cast());
        let alter: &mut AlterTableStmt = node(NodeTag::T_AlterTableStmt);
        (alter.relation, alter.objtype) = (name_of(index), pg_sys::ObjectType::OBJECT_INDEX);
        alter.cmds = list::of([&raw mut *command]);
        let statement: &mut PlannedStmt = node(NodeTag::T_PlannedStmt);
        (statement.commandType, statement.stmt_location) = (pg_sys::CmdType::CMD_UTILITY, -1);
        statement.utilityStmt = (&raw mut *alter).cast();
        ffi::ProcessUtility(
            statement,
            text,
            false,
            pg_sys::ProcessUtilityContext::PROCESS_UTILITY_SUBCOMMAND,
            core::ptr::null_mut(),
            core::ptr::null_mut(),
            pg_sys::None_Receiver,
            core::ptr::null_mut(),
        );
        ffi::CommandCounterIncrement();
    }
}

/// Whether a list of commands has one of a kind, for a column or constraint of that name.
unsafe fn has_command(commands: *mut List, kinds: &[AlterTableType::Type], name: *const c_char) -> bool {
    // SAFETY: commands of these kinds have names.
    unsafe {
        list::members::<AlterTableCmd>(commands)
            .any(|c| kinds.contains(&(*c).subtype) && CStr::from_ptr((*c).name) == CStr::from_ptr(name))
    }
}

const NO_LOCK: c_int = pg_sys::NoLock as c_int;
