//! Plan nodes of ours: what the executor would ask an index for row by row, they take from it page by page.
//!
//! Each has the server's own index scan below it, which brings conditions, relations and parameters; each offers itself
//! to the planner by the hooks for the paths of a table, and for the steps above scans and joins.

use core::cell::Cell;
use core::ffi::c_void;

use pgrx::pg_guard;
use pgrx::pg_sys::{
    self, CustomPath, Index, PlannerInfo, RangeTblEntry, RelOptInfo, UpperRelationKind, create_upper_paths_hook_type,
    set_rel_pathlist_hook_type,
};

use self::executor::Work;
use crate::pg::per_backend::PerBackend;
use crate::pg::{ffi, options};

mod aggregate;
mod child;
mod distinct;
mod executor;
mod offset;
mod rows;
mod tables;

/// What taking a row from an index by the page costs, in operators.
const OPERATORS_A_ROW: f64 = 0.1;
/// What the nodes spare of what the server reckons for a row of an index-only scan, even if the row has to be looked up: then many
/// are together.
const SPARED: f64 = 0.5;

/// The hooks that were there before.
static PREVIOUS: PerBackend<Cell<create_upper_paths_hook_type>> = PerBackend::new(Cell::new(None));
static PREVIOUS_OF_TABLES: PerBackend<Cell<set_rel_pathlist_hook_type>> = PerBackend::new(Cell::new(None));

/// Installs the hooks, and makes plans with the nodes known, so that parallel workers can read them. Called when the
/// library is loaded, after all that may fail.
pub fn register() {
    // SAFETY: at library load, where hooks are installed.
    unsafe {
        ffi::RegisterCustomScanMethods(aggregate::Aggregate::methods().0);
        ffi::RegisterCustomScanMethods(distinct::Distinct::methods().0);
        ffi::RegisterCustomScanMethods(offset::Offset::methods().0);
        ffi::RegisterCustomScanMethods(rows::Rows::methods().0);
        PREVIOUS.set(pg_sys::create_upper_paths_hook);
        pg_sys::create_upper_paths_hook = Some(add_paths);
        PREVIOUS_OF_TABLES.set(pg_sys::set_rel_pathlist_hook);
        pg_sys::set_rel_pathlist_hook = Some(add_paths_of_table);
    }
}

/// Called by the planner when it has its own plans for a step above scans and joins.
#[pg_guard]
unsafe extern "C-unwind" fn add_paths(
    root: *mut PlannerInfo,
    stage: UpperRelationKind::Type,
    input: *mut RelOptInfo,
    output: *mut RelOptInfo,
    extra: *mut c_void,
) {
    // SAFETY: called by the planner, with its own structures. No frame here owns a destructor. Steps that are not named
    // here may have no input.
    unsafe {
        if let Some(previous) = PREVIOUS.get() {
            previous(root, stage, input, output, extra);
        }
        if !options::custom_scans() {
            return;
        }
        match stage {
            UpperRelationKind::UPPERREL_GROUP_AGG => {
                aggregate::add_paths(root, input, output, extra.cast());
                distinct::add_paths_of_groups(root, input, output, extra.cast());
            }
            UpperRelationKind::UPPERREL_DISTINCT => {
                aggregate::add_paths(root, input, output, core::ptr::null_mut());
                distinct::add_paths(root, input, output);
            }
            UpperRelationKind::UPPERREL_FINAL => offset::add_path(root, output),
            _ => {}
        }
    }
}

/// Called by the planner when it has its own plans for reading a table.
#[pg_guard]
unsafe extern "C-unwind" fn add_paths_of_table(
    root: *mut PlannerInfo,
    rel: *mut RelOptInfo,
    index: Index,
    entry: *mut RangeTblEntry,
) {
    // SAFETY: called by the planner, with its own structures. No frame here owns a destructor.
    unsafe {
        if let Some(previous) = PREVIOUS_OF_TABLES.get() {
            previous(root, rel, index, entry);
        }
        if options::custom_scans() {
            rows::add_paths(root, rel);
        }
    }
}

/// A new path, with nothing said of it yet but what it is.
unsafe fn new_path() -> *mut CustomPath {
    // SAFETY: new memory of the right size, zeroed. May raise when out of memory.
    unsafe {
        let path: *mut CustomPath = ffi::palloc0(size_of::<CustomPath>()).cast();
        ((*path).path.type_, (*path).path.pathtype) = (pg_sys::NodeTag::T_CustomPath, pg_sys::NodeTag::T_CustomScan);
        path
    }
}

/// A new plan of a path, with nothing said of it yet but what is below it and what is wanted of it.
unsafe fn new_plan<W: Work>(
    path: *mut CustomPath,
    targets: *mut pg_sys::List,
    plans: *mut pg_sys::List,
) -> *mut pg_sys::CustomScan {
    // SAFETY: new memory of the right size, zeroed. May raise when out of memory.
    unsafe {
        let scan: *mut pg_sys::CustomScan = ffi::palloc0(size_of::<pg_sys::CustomScan>()).cast();
        (*scan).scan.plan.type_ = pg_sys::NodeTag::T_CustomScan;
        (*scan).scan.plan.targetlist = targets;
        (*scan).flags = (*path).flags;
        (*scan).custom_plans = plans;
        (*scan).methods = W::methods().0;
        scan
    }
}
