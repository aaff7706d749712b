//! PRIMARY KEY and UNIQUE constraints of which the index is ours: `PRIMARY KEY (id) WITH (method = fpbtree)`.
//!
//! The server's grammar has no place for a constraint's access method, but its parse tree has, and what transforms the
//! tree goes by it (`transformIndexConstraint`, parser/parse_utilcmd.c). So a utility hook reads the method from the
//! storage parameters and puts it there. The parameter stays in the catalog, from where a dump takes it.
//!
//! Only since 18 do foreign keys, `ON CONFLICT` and the other users of constraints take an index that is not btree's.

#[cfg(not(feature = "since_18"))]
mod before_18;
#[cfg(feature = "since_18")]
pub mod since_18;

use core::cell::Cell;
use core::ffi::{CStr, c_char};

#[cfg(not(feature = "since_18"))]
use before_18 as release;
use pgrx::PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE;
use pgrx::pg_guard;
use pgrx::pg_sys::{
    self, AlterTableCmd, AlterTableStmt, AlterTableType, ColumnDef, ConstrType, Constraint, CreateStmt, DefElem, Node,
    NodeTag, PlannedStmt, ProcessUtility_hook_type,
};
#[cfg(feature = "since_18")]
use since_18 as release;

use crate::pg::errors::Shown;
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
#[allow(clippy::too_many_arguments)] // The server's signature.
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
        let retyped = release::before((*statement).utilityStmt, text);
        let process = PREVIOUS.get().unwrap_or(ffi::standard_ProcessUtility);
        process(statement, text, is_read_only, context, parameters, environment, destination, completion);
        release::after(retyped);
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
        if !is_told && !is_adopting {
            return None;
        }
        let copy: *mut PlannedStmt = ffi::copyObjectImpl(statement.cast()).cast();
        each_constraint((*copy).utilityStmt, &mut |constraint| choose(&mut *constraint));
        if is_adopting {
            release::adopt((*copy).utilityStmt, text);
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
            return if release::is_default(constraint) { Choice::OursByDefault } else { Choice::Servers };
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
        format_args!("invalid value for option \"method\": {}", Shown(name)),
        None,
        Some(format_args!("The index of a constraint can be of \"btree\" or \"fpbtree\".")),
    )
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
                release::check_possible(constraint);
                constraint.access_method = copy(OURS);
                if choice == Choice::OursByDefault {
                    constraint.options = list::of(list::members(constraint.options).chain([parameter()]));
                }
            }
        }
    }
}

/// A text in the current memory context.
unsafe fn copy(text: &CStr) -> *mut c_char {
    // SAFETY: a C string.
    unsafe { ffi::pstrdup(text.as_ptr()) }
}

/// `method = fpbtree`, as the parser would make it.
unsafe fn parameter() -> *mut DefElem {
    // SAFETY: the server's constructors.
    unsafe { ffi::makeDefElem(copy(PARAMETER), ffi::makeString(copy(OURS)).cast(), -1) }
}
