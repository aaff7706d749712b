//! `ALTER TABLE … ADD CONSTRAINT … USING INDEX`, where the index is ours.
//!
//! The server refuses every index that is not btree's, because a dump could not make its like. Of ours it can, by the
//! index's parameter `method`; so the statement is done as the server does it for btree's, with the same conditions
//! (`transformIndexConstraint`, parser/parse_utilcmd.c).

use core::ffi::c_char;
use core::fmt::Arguments;

use pgrx::PgSqlErrorCode::{ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, ERRCODE_WRONG_OBJECT_TYPE};
use pgrx::pg_sys::{
    self, AlterTableCmd, AlterTableStmt, AlterTableType, ConstrType, Constraint, Datum, IndexStmt, LOCKMODE, List,
    Node, NodeTag, Oid, Relation,
};

use super::{NO_LOCK, alter_parameters, copy, method, node, parameter};
use crate::pg::errors::Name;
use crate::pg::{errors, ffi, list};

/// Has a statement's constraints take the indexes of ours that they name. What else is named stays as it is, for the
/// server to take or to refuse. Locks the table as ALTER TABLE does.
pub unsafe fn adopt(statement: *mut Node, text: *const c_char) {
    // SAFETY: a statement with constraints that name indexes; only ALTER TABLE may have such.
    unsafe {
        if (*statement).type_ != NodeTag::T_AlterTableStmt {
            return;
        }
        let alter = &mut *statement.cast::<AlterTableStmt>();
        let table = ffi::AlterTableLookupRelation(alter, pg_sys::AccessExclusiveLock as LOCKMODE);
        if table == Oid::INVALID {
            return;
        }
        let table = ffi::table_open(table, NO_LOCK);
        let commands = list::members::<AlterTableCmd>(alter.cmds);
        alter.cmds = commands.fold(core::ptr::null_mut(), |done, command| match index_of(command, table) {
            Some(index) => adopted(done, (*command).def.cast(), table, index, text),
            None => ffi::lappend(done, command.cast()),
        });
        ffi::table_close(table, NO_LOCK);
    }
}

/// The index of ours that a command would have a constraint take. Locked.
unsafe fn index_of(command: *mut AlterTableCmd, table: Relation) -> Option<Oid> {
    // SAFETY: a command of the parser's, and an open table.
    unsafe {
        let constraint = (*command).def.cast::<Constraint>();
        if (*command).subtype != AlterTableType::AT_AddConstraint || (*constraint).indexname.is_null() {
            return None;
        }
        let index = ffi::get_relname_relid((*constraint).indexname, (*(*table).rd_rel).relnamespace);
        (index != Oid::INVALID && ffi::get_rel_relam(index) == method()).then_some(index)
    }
}

/// The commands so far, with those that have a constraint take an index.
unsafe fn adopted(
    done: *mut List,
    constraint: *mut Constraint,
    table: Relation,
    index: Oid,
    text: *const c_char,
) -> *mut List {
    // SAFETY: an open table, locked against everything, and an index.
    unsafe {
        let rel = ffi::index_open(index, pg_sys::AccessShareLock as LOCKMODE);
        check_free(rel, &*constraint, table);
        check_plain(rel, table);
        let is_primary = (*constraint).contype == ConstrType::CONSTR_PRIMARY;
        let columns = if is_primary { (*(*rel).rd_index).indnkeyatts as usize } else { 0 };
        let not_null =
            (0..columns).map(|column| not_null(table, *(*(*rel).rd_index).indkey.values.as_ptr().add(column)));
        let done = not_null.fold(done, |done, command| ffi::lappend(done, command.cast()));
        ffi::index_close(rel, NO_LOCK);

        let taken: &mut IndexStmt = node(NodeTag::T_IndexStmt);
        (taken.indexOid, taken.idxname) = (index, (*constraint).conname);
        (taken.unique, taken.primary, taken.isconstraint) = (true, is_primary, true);
        (taken.deferrable, taken.initdeferred) = ((*constraint).deferrable, (*constraint).initdeferred);
        taken.accessMethod = copy(super::OURS);
        taken.transformed = true;
        // The server refuses partitioned tables when it comes to the command.
        if (*(*table).rd_rel).relkind as u8 != pg_sys::RELKIND_PARTITIONED_TABLE {
            alter_parameters(index, AlterTableType::AT_SetRelOptions, list::of([parameter()]), text);
        }
        let command: &mut AlterTableCmd = node(NodeTag::T_AlterTableCmd);
        (command.subtype, command.def) = (AlterTableType::AT_AddIndexConstraint, (&raw mut *taken).cast());
        ffi::lappend(done, (&raw mut *command).cast())
    }
}

/// `ALTER COLUMN … SET NOT NULL`.
unsafe fn not_null(table: Relation, column: i16) -> *mut AlterTableCmd {
    // SAFETY: a column of an open table.
    unsafe {
        let command: &mut AlterTableCmd = node(NodeTag::T_AlterTableCmd);
        command.subtype = AlterTableType::AT_SetNotNull;
        command.name = ffi::get_attname((*table).rd_id, column, false);
        command
    }
}

/// Raises why a constraint cannot take an index, if it is not for its columns.
unsafe fn check_free(rel: Relation, constraint: &Constraint, table: Relation) {
    // SAFETY: open relations.
    unsafe {
        let index = &*(*rel).rd_index;
        if ffi::get_index_constraint((*rel).rd_id) != Oid::INVALID {
            refuse(format_args!("index \"{}\" is already associated with a constraint", Name(rel)));
        }
        if index.indrelid != (*table).rd_id {
            refuse(format_args!("index \"{}\" does not belong to table \"{}\"", Name(rel), Name(table)));
        }
        if !index.indisvalid {
            refuse(format_args!("index \"{}\" is not valid", Name(rel)));
        }
        if !index.indisunique {
            refuse_key(format_args!("\"{}\" is not a unique index", Name(rel)));
        }
        if !index.indimmediate && !constraint.deferrable {
            refuse_key(format_args!("\"{}\" is a deferrable index", Name(rel)));
        }
        if let Some(column) = (0..index.indnkeyatts as usize).find(|&column| *(*rel).rd_indoption.add(column) != 0) {
            refuse_order(rel, column);
        }
    }
}

/// Raises why an index is not like that of a constraint: what it is of, or by which operators and collations.
pub(super) unsafe fn check_plain(rel: Relation, table: Relation) {
    // SAFETY: open relations; the class's vector is a copy in the catalog cache's tuple, which the open index keeps.
    unsafe {
        if !ffi::RelationGetIndexExpressions(rel).is_null() {
            refuse_key(format_args!("index \"{}\" contains expressions", Name(rel)));
        }
        if !ffi::RelationGetIndexPredicate(rel).is_null() {
            refuse_key(format_args!("\"{}\" is a partial index", Name(rel)));
        }
        let index = &*(*rel).rd_index;
        let cache = pg_sys::SysCacheIdentifier::INDEXRELID as _;
        let mut is_null = false;
        let classes =
            ffi::SysCacheGetAttr(cache, (*rel).rd_indextuple, pg_sys::Anum_pg_index_indclass as i16, &mut is_null);
        let classes = (*classes.cast_mut_ptr::<pg_sys::oidvector>()).values.as_ptr();
        for column in 0..index.indnkeyatts as usize {
            let number = *index.indkey.values.as_ptr().add(column);
            let (mut of, mut modifier, mut collation) = (Oid::INVALID, 0, Oid::INVALID);
            ffi::get_atttypetypmodcoll((*table).rd_id, number, &mut of, &mut modifier, &mut collation);
            if *classes.add(column) != ffi::GetDefaultOpClass(of, (*(*rel).rd_rel).relam)
                || collation != *(*rel).rd_indcollation.add(column)
                || ffi::get_attoptions((*rel).rd_id, column as i16 + 1) != Datum::null()
            {
                refuse_order(rel, column);
            }
        }
    }
}

fn refuse_order(rel: Relation, column: usize) -> ! {
    let number = column + 1;
    refuse_key(format_args!("index \"{}\" column number {number} does not have default sorting behavior", Name(rel)))
}

fn refuse_key(message: Arguments<'_>) -> ! {
    let detail = format_args!("Cannot create a primary key or unique constraint using such an index.");
    errors::raise(ERRCODE_WRONG_OBJECT_TYPE, message, Some(detail), None)
}

/// Raises why an index is not ready for it.
pub(super) fn refuse(message: Arguments<'_>) -> ! {
    errors::raise(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, message, None, None)
}
