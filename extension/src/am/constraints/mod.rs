//! PRIMARY KEY and UNIQUE constraints of which the index is ours: `PRIMARY KEY (id) WITH (method = fpbtree)`.
//!
//! The server's grammar has no place for a constraint's access method, but its parse tree has, and what transforms the
//! tree goes by it (`transformIndexConstraint`, parser/parse_utilcmd.c). So a utility hook reads the method from the
//! storage parameters and puts it there. The parameter stays in the catalog, from where a dump takes it.
//!
//! Only since 18 do foreign keys, `ON CONFLICT` and the other users of constraints take an index that is not btree's;
//! earlier releases are told so.

#[cfg(feature = "pg18")]
mod adopted;
#[cfg(feature = "pg18")]
pub mod exchange;
#[cfg(feature = "pg18")]
mod retyped;

use core::cell::Cell;
#[cfg(feature = "pg18")]
use core::ffi::c_int;
use core::ffi::{CStr, c_char};

#[cfg(not(feature = "pg18"))]
use pgrx::PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED;
use pgrx::PgSqlErrorCode::{ERRCODE_INVALID_PARAMETER_VALUE, ERRCODE_UNDEFINED_OBJECT};
use pgrx::pg_guard;
use pgrx::pg_sys::{
    self, AlterTableCmd, AlterTableStmt, AlterTableType, ColumnDef, ConstrType, Constraint, CreateStmt, DefElem, List,
    Node, NodeTag, Oid, PlannedStmt, ProcessUtility_hook_type,
};

#[cfg(feature = "pg18")]
use crate::pg::options;
use crate::pg::per_backend::PerBackend;
use crate::pg::{errors, ffi, list};

/// The storage parameter that names the method.
const PARAMETER: &CStr = c"method";
/// Our access method's name.
const OURS: &CStr = c"fpbtree";

/// The hook that was there before.
static PREVIOUS: PerBackend<Cell<ProcessUtility_hook_type>> = PerBackend::new(Cell::new(None));

/// Installs the hook. Called when the library is loaded, after all that may fail.
pub fn register() {
    // SAFETY: at library load, where hooks are installed.
    unsafe {
        PREVIOUS.set(pg_sys::ProcessUtility_hook);
        pg_sys::ProcessUtility_hook = Some(process_utility);
    }
}

/// Called by the server for each statement that is not planned.
#[pg_guard]
unsafe extern "C-unwind" fn process_utility(
    statement: *mut PlannedStmt,
    text: *const c_char,
    is_read_only: bool,
    context: pg_sys::ProcessUtilityContext::Type,
    parameters: pg_sys::ParamListInfo,
    environment: *mut pg_sys::QueryEnvironment,
    destination: *mut pg_sys::DestReceiver,
    completion: *mut pg_sys::QueryCompletion,
) {
    // SAFETY: called by the server; whatever raises jumps over this frame, which owns nothing.
    unsafe {
        let (statement, is_read_only) = match with_methods(statement, text) {
            Some(copy) => (copy, false),
            None => (statement, is_read_only),
        };
        #[cfg(feature = "pg18")]
        let retyped = retyped::before((*statement).utilityStmt, text);
        let process = PREVIOUS.get().unwrap_or(ffi::standard_ProcessUtility);
        process(statement, text, is_read_only, context, parameters, environment, destination, completion);
        #[cfg(feature = "pg18")]
        retyped::after(retyped);
    }
}

/// A copy of a statement with the methods of its constraints where the server looks for them; `None` if it says nothing
/// of methods, and none is to be put there.
unsafe fn with_methods(statement: *mut PlannedStmt, text: *const c_char) -> Option<*mut PlannedStmt> {
    // SAFETY: a statement of the server's parser; the copy is in its memory.
    unsafe {
        let (mut is_told, mut is_adopting) = (false, false);
        each_constraint((*statement).utilityStmt, &mut |constraint| {
            is_told |= choice(&*constraint) != Choice::Servers;
            is_adopting |= !(*constraint).indexname.is_null();
        });
        if !is_told && !(is_adopting && cfg!(feature = "pg18")) {
            return None;
        }
        let copy: *mut PlannedStmt = ffi::copyObjectImpl(statement.cast()).cast();
        each_constraint((*copy).utilityStmt, &mut |constraint| choose(&mut *constraint));
        #[cfg(feature = "pg18")]
        if is_adopting {
            adopted::adopt((*copy).utilityStmt, text);
        }
        Some(copy)
    }
}

/// Calls back for the constraints in a CREATE TABLE or ALTER TABLE, those of columns included.
unsafe fn each_constraint(statement: *mut Node, visit: &mut dyn FnMut(*mut Constraint)) {
    // SAFETY: a statement's lists hold what the grammar puts there.
    unsafe {
        match (*statement).type_ {
            NodeTag::T_CreateStmt => {
                list::members::<Node>((*statement.cast::<CreateStmt>()).tableElts)
                    .for_each(|e| constraints_of(e, visit));
            }
            NodeTag::T_AlterTableStmt => {
                for command in list::members::<AlterTableCmd>((*statement.cast::<AlterTableStmt>()).cmds) {
                    if matches!((*command).subtype, AlterTableType::AT_AddConstraint | AlterTableType::AT_AddColumn) {
                        constraints_of((*command).def, visit);
                    }
                }
            }
            _ => {}
        }
    }
}

unsafe fn constraints_of(element: *mut Node, visit: &mut dyn FnMut(*mut Constraint)) {
    // SAFETY: an element of a table's definition.
    unsafe {
        match (*element).type_ {
            NodeTag::T_Constraint => visit(element.cast()),
            NodeTag::T_ColumnDef => {
                list::members::<Node>((*element.cast::<ColumnDef>()).constraints)
                    .filter(|&node| (*node).type_ == NodeTag::T_Constraint)
                    .for_each(|node| visit(node.cast()));
            }
            _ => {}
        }
    }
}

/// Which method a constraint's index is to be of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Choice {
    /// Nothing is to be done.
    Servers,
    /// btree, it says.
    Btree,
    /// Ours, it says.
    Ours,
    /// Ours, as nothing is said and `fpbtree.constraints` is on.
    OursByDefault,
}

unsafe fn choice(constraint: &Constraint) -> Choice {
    if !matches!(constraint.contype, ConstrType::CONSTR_PRIMARY | ConstrType::CONSTR_UNIQUE) {
        return Choice::Servers;
    }
    // SAFETY: a constraint of the server's parser; a wrong value raises.
    unsafe {
        let Some(parameter) = list::members::<DefElem>(constraint.options).find(|&p| is_method(p)) else {
            return if is_default(constraint) { Choice::OursByDefault } else { Choice::Servers };
        };
        match CStr::from_ptr(ffi::defGetString(parameter)) {
            name if name == OURS => Choice::Ours,
            name if name == c"btree" => Choice::Btree,
            name => raise_unknown(name),
        }
    }
}

unsafe fn is_method(parameter: *mut DefElem) -> bool {
    // SAFETY: a parameter has a name; its namespace may be null.
    unsafe { (*parameter).defnamespace.is_null() && CStr::from_ptr((*parameter).defname) == PARAMETER }
}

/// Raises that a constraint's method can be ours or btree's alone.
fn raise_unknown(name: &CStr) -> ! {
    errors::raise(
        ERRCODE_INVALID_PARAMETER_VALUE,
        format_args!("invalid value for option \"method\": {}", name.to_string_lossy()),
        None,
        Some(format_args!("The index of a constraint can be of \"btree\" or \"fpbtree\".")),
    )
}

/// Whether a constraint of which nothing is said gets an index of ours. While pg_upgrade runs, each index is what its
/// file says; a constraint on an index that is there already takes that one.
#[cfg(feature = "pg18")]
unsafe fn is_default(constraint: &Constraint) -> bool {
    // SAFETY: the server's own flag, and a catalog lookup.
    unsafe {
        options::constraints()
            && !constraint.without_overlaps
            && constraint.indexname.is_null()
            && !pg_sys::IsBinaryUpgrade
            && method() != Oid::INVALID
    }
}

#[cfg(not(feature = "pg18"))]
unsafe fn is_default(_constraint: &Constraint) -> bool {
    false
}

/// Our access method in this database, if it has the extension.
unsafe fn method() -> Oid {
    // SAFETY: a catalog lookup.
    unsafe { ffi::get_index_am_oid(OURS.as_ptr(), true) }
}

/// Puts a constraint's method where the server looks for it.
unsafe fn choose(constraint: &mut Constraint) {
    // SAFETY: a copy of our own; what is put there is in the same memory.
    unsafe {
        let choice = choice(constraint);
        match choice {
            Choice::Servers => {}
            Choice::Btree => {
                let others = list::members::<DefElem>(constraint.options).filter(|&p| !is_method(p));
                constraint.options = list::of(others);
            }
            Choice::Ours | Choice::OursByDefault => {
                check_possible(constraint);
                constraint.access_method = copy(OURS);
                if choice == Choice::OursByDefault {
                    constraint.options = list::of(list::members(constraint.options).chain([parameter()]));
                }
            }
        }
    }
}

/// Raises what speaks against a constraint on an index of ours.
#[cfg(feature = "pg18")]
unsafe fn check_possible(constraint: &Constraint) {
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

/// Raises what speaks against a constraint on an index of ours: the release.
#[cfg(not(feature = "pg18"))]
unsafe fn check_possible(_constraint: &Constraint) {
    errors::raise(
        ERRCODE_FEATURE_NOT_SUPPORTED,
        format_args!("constraints cannot use access method \"fpbtree\" before PostgreSQL 18"),
        Some(format_args!("Foreign keys and INSERT ... ON CONFLICT need a btree index here.")),
        Some(format_args!("Leave the option out, or create a unique index if that will do.")),
    );
}

/// `method = fpbtree`, as the parser would make it.
unsafe fn parameter() -> *mut DefElem {
    // SAFETY: the server's constructors.
    unsafe { ffi::makeDefElem(copy(PARAMETER), ffi::makeString(copy(OURS)).cast(), -1) }
}

/// A text in the current memory context.
unsafe fn copy(text: &CStr) -> *mut c_char {
    // SAFETY: a C string.
    unsafe { ffi::pstrdup(text.as_ptr()) }
}

/// `makeNode`.
#[cfg(feature = "pg18")]
unsafe fn node<T>(tag: NodeTag) -> &'static mut T {
    // SAFETY: every node begins with its tag, and is valid when it is otherwise zero.
    unsafe {
        let node: *mut T = ffi::palloc0(size_of::<T>()).cast();
        node.cast::<Node>().write(Node { type_: tag });
        &mut *node
    }
}

/// A relation as a statement names it.
#[cfg(feature = "pg18")]
unsafe fn name_of(relation: Oid) -> *mut pg_sys::RangeVar {
    // SAFETY: catalog lookups of a relation that is locked.
    unsafe {
        let schema = ffi::get_namespace_name(ffi::get_rel_namespace(relation));
        ffi::makeRangeVar(schema, ffi::get_rel_name(relation), -1)
    }
}

/// Runs `ALTER INDEX … SET (parameters)` or `RESET`, as the user would.
#[cfg(feature = "pg18")]
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
#[cfg(feature = "pg18")]
unsafe fn has_command(commands: *mut List, kinds: &[AlterTableType::Type], name: *const c_char) -> bool {
    // SAFETY: commands of these kinds have names.
    unsafe {
        list::members::<AlterTableCmd>(commands)
            .any(|c| kinds.contains(&(*c).subtype) && CStr::from_ptr((*c).name) == CStr::from_ptr(name))
    }
}

#[cfg(feature = "pg18")]
const NO_LOCK: c_int = pg_sys::NoLock as c_int;
