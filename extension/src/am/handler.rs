//! The handler: what the server asks for when it wants to know what this access method can do.

use core::ffi::c_int;

use pgrx::PgSqlErrorCode::ERRCODE_INVALID_OBJECT_DEFINITION;
use pgrx::pg_sys::{
    self, Cost, Datum, FunctionCallInfo, IndexAmRoutine, IndexOptInfo, IndexPath, Oid, PlannerInfo, Selectivity,
};
use pgrx::{PgLogLevel, pg_guard};

#[cfg(not(any(feature = "pg15", feature = "pg16")))]
use crate::am::batch;
use crate::am::cost::{Estimate, Overlap};
use crate::am::{build, cost, insert, scan, vacuum};
use crate::pg::{errors, ffi, options};
use crate::storage::{prefetch, tree};
use crate::values::column::{self, SUPPORT_FUNCTIONS};

/// Support function 5: options of an operator class.
const OPTIONS_FUNCTION: u16 = 5;

/// What we can do, and how it is called.
static ROUTINE: IndexAmRoutine = IndexAmRoutine {
    type_: pg_sys::NodeTag::T_IndexAmRoutine,
    amstrategies: pg_sys::BTMaxStrategyNumber as u16,
    amsupport: SUPPORT_FUNCTIONS,
    amoptsprocnum: OPTIONS_FUNCTION,
    amcanorder: true,
    amcanorderbyop: false,
    // Only the hash method's own hash functions would do.
    #[cfg(feature = "since_18")]
    amcanhash: false,
    #[cfg(feature = "since_18")]
    amconsistentequality: true,
    #[cfg(feature = "since_18")]
    amconsistentordering: true,
    amcanbackward: true,
    amcanunique: true,
    amcanmulticol: true,
    amoptionalkey: true,
    amsearcharray: true,
    amsearchnulls: true,
    // name_ops stores C strings.
    amstorage: true,
    amclusterable: true,
    ampredlocks: true,
    amcanparallel: true,
    #[cfg(not(any(feature = "pg15", feature = "pg16")))]
    amcanbuildparallel: true,
    amcaninclude: true,
    amusemaintenanceworkmem: false,
    #[cfg(not(feature = "pg15"))]
    amsummarizing: false,
    amparallelvacuumoptions: (pg_sys::VACUUM_OPTION_PARALLEL_BULKDEL | pg_sys::VACUUM_OPTION_PARALLEL_COND_CLEANUP)
        as u8,
    amkeytype: Oid::INVALID,
    ambuild: Some(build::ambuild),
    ambuildempty: Some(build::ambuildempty),
    aminsert: Some(insert::aminsert),
    #[cfg(not(any(feature = "pg15", feature = "pg16")))]
    aminsertcleanup: Some(batch::aminsertcleanup),
    ambulkdelete: Some(vacuum::ambulkdelete),
    amvacuumcleanup: Some(vacuum::amvacuumcleanup),
    amcanreturn: Some(scan::amcanreturn),
    amcostestimate: Some(amcostestimate),
    #[cfg(feature = "since_18")]
    amgettreeheight: Some(amgettreeheight),
    amoptions: Some(options::amoptions),
    amproperty: None,
    ambuildphasename: Some(build::ambuildphasename),
    amvalidate: Some(amvalidate),
    amadjustmembers: Some(ffi::btadjustmembers),
    ambeginscan: Some(scan::ambeginscan),
    amrescan: Some(scan::amrescan),
    amgettuple: Some(scan::amgettuple),
    amgetbitmap: Some(scan::amgetbitmap),
    amendscan: Some(scan::amendscan),
    ammarkpos: Some(scan::ammarkpos),
    amrestrpos: Some(scan::amrestrpos),
    amestimateparallelscan: Some(scan::parallel::amestimateparallelscan),
    aminitparallelscan: Some(scan::parallel::aminitparallelscan),
    amparallelrescan: Some(scan::parallel::amparallelrescan),
    #[cfg(feature = "since_18")]
    amtranslatestrategy: Some(ffi::bttranslatestrategy),
    #[cfg(feature = "since_18")]
    amtranslatecmptype: Some(ffi::bttranslatecmptype),
};

/// Says how the handler is called, as `PG_FUNCTION_INFO_V1` does.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn pg_finfo_fpbtree_handler() -> &'static pg_sys::Pg_finfo_record {
    &pg_sys::Pg_finfo_record { api_version: 1 }
}

/// The handler. PostgreSQL 18 calls it while it plans any query with an `=`, and those before 19 free what it returns,
/// so it makes a fresh copy for them, does nothing else, and cannot fail.
///
/// # Safety
/// Called by the server.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fpbtree_handler(_call: FunctionCallInfo) -> Datum {
    #[cfg(feature = "pg19")]
    return Datum::from(&raw const ROUTINE);
    // SAFETY: new memory of the right size.
    #[cfg(not(feature = "pg19"))]
    unsafe {
        let routine: *mut IndexAmRoutine = ffi::palloc(size_of::<IndexAmRoutine>()).cast();
        routine.copy_from_nonoverlapping(&raw const ROUTINE, 1);
        Datum::from(routine)
    }
}

/// Levels above the leaves.
///
/// # Safety
/// `rel` is an open index of ours.
unsafe fn tree_height(rel: pg_sys::Relation) -> c_int {
    // SAFETY: `rel` is an open index of ours.
    unsafe { tree::levels(rel) - 1 }
}

/// Tells the planner how high the tree is.
#[cfg(feature = "since_18")]
#[pg_guard]
unsafe extern "C-unwind" fn amgettreeheight(rel: pg_sys::Relation) -> c_int {
    // SAFETY: called by the server, with an open index of ours.
    unsafe { tree_height(rel) }
}

/// Estimates a scan as btree would, as it reads the same rows in the same order; or less, if it can skip.
#[allow(clippy::too_many_arguments)] // The server's signature.
#[pg_guard]
unsafe extern "C-unwind" fn amcostestimate(
    root: *mut PlannerInfo,
    path: *mut IndexPath,
    loop_count: f64,
    startup_cost: *mut Cost,
    total_cost: *mut Cost,
    selectivity: *mut Selectivity,
    correlation: *mut f64,
    pages: *mut f64,
) {
    // SAFETY: called by the planner, which holds a lock on the index.
    unsafe {
        let info = (*path).indexinfo;
        // Before 18 the planner asks btree alone for its height.
        if (*info).tree_height < 0 {
            (*info).tree_height = known_height(&*info);
        }
        ffi::btcostestimate(root, path, loop_count, startup_cost, total_cost, selectivity, correlation, pages);
        let skipping = cost::skipping(root, &*path, loop_count, *startup_cost, *selectivity);
        if let Some(skipping) = skipping.filter(|skipping| skipping.total < *total_cost) {
            (*total_cost, *pages) = (skipping.total, skipping.pages);
        }
        if loop_count == 1.0 {
            let before = Estimate { total: *total_cost, correlation: *correlation };
            if let Some(estimate) = cost::overlapping(root, &*path, |info| overlap(info), *pages, *selectivity, before)
            {
                (*total_cost, *correlation) = (estimate.total, estimate.correlation);
            }
        }
    }
}

/// What the planner should know of the height of an index. A hypothetical one has no file to look into.
unsafe fn known_height(info: &IndexOptInfo) -> i32 {
    if info.hypothetical {
        return cost::usual_height(info.pages);
    }
    // SAFETY: the planner holds a lock on the index.
    unsafe { with_index(info, |rel| tree_height(rel)) }
}

/// How many reads of a scan may be on their way at once. A hypothetical index has no parameters.
unsafe fn overlap(info: &IndexOptInfo) -> Overlap {
    // SAFETY: the planner holds a lock on the index.
    unsafe {
        let tablespaces = [info.reltablespace, (*info.rel).reltablespace];
        let [index, table] = match info.hypothetical {
            true => tablespaces.map(|tablespace| prefetch::usual_distance(tablespace)),
            false => with_index(info, |rel| tablespaces.map(|tablespace| prefetch::distance(rel, tablespace, false))),
        };
        Overlap { index, table }
    }
}

/// What `ask` says of an index that the planner holds a lock on.
unsafe fn with_index<R>(info: &IndexOptInfo, ask: impl FnOnce(pg_sys::Relation) -> R) -> R {
    // SAFETY: the caller's. An error gives back what is open.
    unsafe {
        let rel = ffi::index_open(info.indexoid, pg_sys::NoLock as c_int);
        let answer = ask(rel);
        ffi::index_close(rel, pg_sys::NoLock as c_int);
        answer
    }
}

/// Makes what the planner knows of an index be about one of ours.
pub fn set_estimate(info: &mut IndexOptInfo) {
    let estimate = ROUTINE.amcostestimate;
    // SAFETY: the planner calls it as what it is, whatever the field's type says, which has no arguments before 18.
    #[allow(clippy::useless_transmute, clippy::missing_transmute_annotations)]
    unsafe {
        info.amcostestimate = core::mem::transmute(estimate);
    }
}

/// Whether what the planner knows of an index is about one of ours.
pub fn is_ours(info: &IndexOptInfo) -> bool {
    info.amcostestimate.is_some_and(|estimate| estimate as *const () == amcostestimate as *const ())
}

/// Checks an operator class: all that btree asks of its own (the messages say "btree"), and that it stores its own
/// type.
#[pg_guard]
unsafe extern "C-unwind" fn amvalidate(class: Oid) -> bool {
    // SAFETY: called by the server; raises if there is no such class.
    unsafe {
        let found = column::OperatorClass::of(class);
        if !found.stores_its_input() {
            let message = format_args!("operator class \"{}\" stores another type than it is for", found.name());
            errors::report(PgLogLevel::INFO, ERRCODE_INVALID_OBJECT_DEFINITION, message, None, None);
        }
        ffi::btvalidate(class) && found.stores_its_input()
    }
}
