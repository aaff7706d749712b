//! `ALTER COLUMN … TYPE` and `SET EXPRESSION` of columns in constraints on indexes of ours.
//!
//! The server makes such a constraint anew from its definition, without asking any hook (`ATPostAlterTypeParse`,
//! commands/tablecmds.c), so that it would be btree's and refuse our parameters. They are taken away before, and
//! afterwards an index of ours takes btree's place.

use core::ffi::{CStr, c_char};

use pgrx::PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED;
use pgrx::pg_sys::{
    self, AlterTableCmd, AlterTableStmt, AlterTableType, DefElem, IndexStmt, LOCKMODE, List, Node, NodeTag, Oid,
    Relation,
};

use super::exchange::exchange;
use super::{NO_LOCK, OURS, alter_parameters, copy, has_command, is_method, method, name_of, parameter};
use crate::pg::errors::Name;
use crate::pg::{errors, ffi, list};

/// The commands for which the server makes constraints anew.
const RETYPING: [AlterTableType::Type; 2] = [AlterTableType::AT_AlterColumnType, AlterTableType::AT_SetExpression];
/// `CONSTRAINT_EXCLUSION`.
const EXCLUSION: u8 = b'x';
/// Parameters that btree has, too.
const COMMON: [&CStr; 2] = [c"fillfactor", c"deduplicate_items"];

/// A constraint that will be made anew.
struct Retyped {
    table: Oid,
    name: *mut c_char,
    /// Its index's storage parameters.
    parameters: *mut List,
}

/// Takes away what btree would refuse of the constraints that a statement will make anew, and remembers it, as a list
/// for [`after`]. Locks what ALTER TABLE locks.
pub unsafe fn before(statement: *mut Node, text: *const c_char) -> *mut List {
    let mut found = core::ptr::null_mut();
    // SAFETY: a statement of the parser's; the tables are locked when they are opened.
    unsafe {
        if (*statement).type_ != NodeTag::T_AlterTableStmt {
            return found;
        }
        let alter = &mut *statement.cast::<AlterTableStmt>();
        if !list::members::<AlterTableCmd>(alter.cmds).any(|c| RETYPING.contains(&(*c).subtype)) {
            return found;
        }
        let lock = ffi::AlterTableGetLockLevel(alter.cmds);
        let root = ffi::AlterTableLookupRelation(alter, lock);
        if root == Oid::INVALID || method() == Oid::INVALID {
            return found;
        }
        for cell in list::cells(ffi::find_all_inheritors(root, lock, core::ptr::null_mut())) {
            let table = ffi::relation_open(cell.oid_value, NO_LOCK);
            for index in list::cells(ffi::RelationGetIndexList(table)) {
                if let Some(retyped) = retyped(table, index.oid_value, alter.cmds) {
                    found = ffi::lappend(found, retyped.cast());
                }
            }
            ffi::relation_close(table, NO_LOCK);
        }
        for retyped in list::members::<Retyped>(found) {
            take_away(&*retyped, text);
        }
    }
    found
}

/// Puts indexes of ours in the place of those that the server has made of btree.
pub unsafe fn after(found: *mut List) {
    // SAFETY: what `before` has found, in the same statement, which has locked the tables against everything.
    unsafe {
        if found.is_null() {
            return;
        }
        ffi::CommandCounterIncrement();
        for retyped in list::members::<Retyped>(found) {
            let constraint = ffi::get_relation_constraint_oid((*retyped).table, (*retyped).name, true);
            let index = if constraint == Oid::INVALID { constraint } else { ffi::get_constraint_index(constraint) };
            if index != Oid::INVALID && ffi::get_rel_relam(index) == pg_sys::BTREE_AM_OID {
                replace(index, &*retyped);
            }
        }
    }
}

/// What is to be remembered of a table's index, if commands make its constraint anew and it is ours.
unsafe fn retyped(table: Relation, index: Oid, commands: *mut List) -> Option<*mut Retyped> {
    // SAFETY: an open table and an index of it, which is locked; what is remembered lives as long as the statement.
    unsafe {
        let constraint = ffi::get_index_constraint(index);
        if constraint == Oid::INVALID || ffi::get_rel_relam(index) != method() || is_exclusion(constraint) {
            return None;
        }
        let rel = ffi::relation_open(index, pg_sys::AccessShareLock as LOCKMODE);
        let key = &*(*rel).rd_index;
        let columns = (0..key.indnatts as usize).map(|at| *key.indkey.values.as_ptr().add(at));
        let is_retyped = columns.clone().any(|column| {
            let name = ffi::get_attname((*table).rd_id, column, false);
            has_command(commands, &RETYPING, name)
        });
        let name = ffi::get_constraint_name(constraint);
        let is_dropped = has_command(commands, &[AlterTableType::AT_DropConstraint], name);
        if is_retyped && !is_dropped && (*(*rel).rd_rel).relkind as u8 == pg_sys::RELKIND_PARTITIONED_INDEX {
            refuse_partitioned(rel);
        }
        ffi::relation_close(rel, NO_LOCK);
        (is_retyped && !is_dropped).then(|| {
            let retyped: *mut Retyped = ffi::palloc(size_of::<Retyped>()).cast();
            retyped.write(Retyped { table: (*table).rd_id, name, parameters: parameters(index) });
            retyped
        })
    }
}

/// Whether it is a constraint that says its method itself, EXCLUDE USING.
unsafe fn is_exclusion(constraint: Oid) -> bool {
    // SAFETY: a catalog lookup.
    unsafe { ffi::get_constraint_type(constraint) as u8 == EXCLUSION }
}

unsafe fn refuse_partitioned(rel: Relation) -> ! {
    errors::raise(
        ERRCODE_FEATURE_NOT_SUPPORTED,
        format_args!(
            "cannot change the type of a column in fpbtree constraint \"{}\" of a partitioned table",
            Name(rel)
        ),
        None,
        Some(format_args!("Drop the constraint, change the type, and add the constraint again.")),
    )
}

/// An index's storage parameters, `method` among them.
unsafe fn parameters(index: Oid) -> *mut List {
    // SAFETY: a catalog lookup; the list is a copy.
    unsafe {
        let cache = pg_sys::SysCacheIdentifier::RELOID as _;
        let tuple = ffi::SearchSysCache1(cache, index.into());
        let mut is_null = false;
        let options = ffi::SysCacheGetAttr(cache, tuple, pg_sys::Anum_pg_class_reloptions as i16, &mut is_null);
        let parameters = if is_null { core::ptr::null_mut() } else { ffi::untransformRelOptions(options) };
        ffi::ReleaseSysCache(tuple);
        let is_said = list::members::<DefElem>(parameters).any(|p| is_method(p));
        if is_said { parameters } else { ffi::lappend(parameters, parameter().cast()) }
    }
}

/// Takes those of its index's parameters away that btree does not have.
unsafe fn take_away(retyped: &Retyped, text: *const c_char) {
    // SAFETY: the constraint is there.
    unsafe {
        let index = ffi::get_constraint_index(ffi::get_relation_constraint_oid(retyped.table, retyped.name, false));
        let others = list::members::<DefElem>(retyped.parameters)
            .filter(|&p| !COMMON.contains(&CStr::from_ptr((*p).defname)))
            .map(|p| ffi::makeDefElem((*p).defname, core::ptr::null_mut(), -1));
        alter_parameters(index, AlterTableType::AT_ResetRelOptions, list::of(others), text);
    }
}

/// Builds an index of ours like btree's, and puts it in its place.
unsafe fn replace(index: Oid, retyped: &Retyped) {
    // SAFETY: an index of a table that this statement has locked against everything.
    unsafe {
        let rel = ffi::index_open(index, pg_sys::AccessShareLock as LOCKMODE);
        let mut constraint = Oid::INVALID;
        let like: &mut IndexStmt =
            &mut *ffi::generateClonedIndexStmt(name_of(retyped.table), rel, core::ptr::null(), &mut constraint);
        ffi::index_close(rel, NO_LOCK);
        let schema = ffi::get_rel_namespace(retyped.table);
        like.idxname = ffi::ChooseRelationName(retyped.name, core::ptr::null(), c"new".as_ptr(), schema, false);
        like.accessMethod = copy(OURS);
        like.options = retyped.parameters;
        // It stays where the other one is, whatever the session's default.
        like.reset_default_tblspc = true;
        // The constraint is the other one's until they are exchanged.
        (like.isconstraint, like.primary, like.deferrable, like.initdeferred) = (false, false, false, false);
        let (none, parts) = (Oid::INVALID, -1);
        let new = ffi::DefineIndex(retyped.table, like, none, none, none, parts, true, false, false, false, true);
        exchange(index, new.objectId);
    }
}
