//! `Custom Scan (FpbtreeOffset)`: skips the rows of an OFFSET by counting a leaf's rows together, where the rows come from an
//! index scan as they are. Above it is the server's own Limit, less the OFFSET.

use core::cell::Cell;
use core::ffi::{CStr, c_int, c_void};

use pgrx::PgSqlErrorCode::{ERRCODE_INTERNAL_ERROR, ERRCODE_INVALID_ROW_COUNT_IN_RESULT_OFFSET_CLAUSE};
use pgrx::pg_guard;
use pgrx::pg_sys::{
    self, CustomExecMethods, CustomPath, CustomPathMethods, CustomScan, CustomScanMethods, CustomScanState, EState,
    ExprState, IndexPath, LimitPath, List, Node, NodeTag, Plan, PlanState, PlannerInfo, ProjectionPath, RelOptInfo,
    TupleTableSlot, UpperRelationKind, create_upper_paths_hook_type,
};

use super::child::{self, Child};
use crate::am::scan::pages::{self, Visibility};
use crate::pg::per_backend::PerBackend;
use crate::pg::visibility::VisibilityMap;
use crate::pg::{errors, ffi, list, memory, options};

/// What the node is called in plans.
const NAME: &CStr = c"FpbtreeOffset";

static PATH: PerBackend<CustomPathMethods> = PerBackend::new(CustomPathMethods {
    CustomName: NAME.as_ptr(),
    PlanCustomPath: Some(plan),
    ReparameterizeCustomPathByChild: None,
});

static SCAN: PerBackend<CustomScanMethods> =
    PerBackend::new(CustomScanMethods { CustomName: NAME.as_ptr(), CreateCustomScanState: Some(create) });

static EXEC: PerBackend<CustomExecMethods> = PerBackend::new(CustomExecMethods {
    CustomName: NAME.as_ptr(),
    BeginCustomScan: Some(begin),
    ExecCustomScan: Some(execute),
    EndCustomScan: Some(end),
    ReScanCustomScan: Some(rescan),
    MarkPosCustomScan: None,
    RestrPosCustomScan: None,
    EstimateDSMCustomScan: None,
    InitializeDSMCustomScan: None,
    ReInitializeDSMCustomScan: None,
    InitializeWorkerCustomScan: None,
    ShutdownCustomScan: None,
    ExplainCustomScan: None,
});

/// What skipping a row costs, in operators.
const OPERATORS_A_ROW: f64 = 0.1;

/// The hook that was there before.
static PREVIOUS: PerBackend<Cell<create_upper_paths_hook_type>> = PerBackend::new(Cell::new(None));

/// Installs the hook, and makes plans with the node known.
pub(super) fn register() {
    // SAFETY: at library load, where hooks are installed.
    unsafe {
        ffi::RegisterCustomScanMethods(&*SCAN);
        PREVIOUS.set(pg_sys::create_upper_paths_hook);
        pg_sys::create_upper_paths_hook = Some(add_paths);
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
    // SAFETY: called by the planner, with its own structures. No frame here owns a destructor.
    unsafe {
        if let Some(previous) = PREVIOUS.get() {
            previous(root, stage, input, output, extra);
        }
        let offset = (*(*root).parse).limitOffset;
        if stage != UpperRelationKind::UPPERREL_FINAL || offset.is_null() || !options::custom_scans() {
            return;
        }
        let found = list::members::<LimitPath>((*output).pathlist).find_map(|limit| limited_scan(limit));
        if let Some((limit, scan)) = found {
            ffi::add_path(output, counted(root, output, limit, scan).cast());
        }
    }
}

/// The index scan of ours right below a Limit, if there is one whose rows come as they are.
unsafe fn limited_scan(limit: *mut LimitPath) -> Option<(*mut LimitPath, *mut IndexPath)> {
    // SAFETY: the planner's; a path is what its tag says.
    unsafe {
        if (*limit).path.type_ != NodeTag::T_LimitPath || (*limit).limitOffset.is_null() {
            return None;
        }
        let mut below = (*limit).subpath;
        if (*below).type_ == NodeTag::T_ProjectionPath {
            below = (*below.cast::<ProjectionPath>()).subpath;
        }
        let is_wanted = |target: *mut pg_sys::PathTarget| {
            let expressions = (*target).exprs.cast::<Node>();
            !ffi::contain_volatile_functions(expressions) && !ffi::expression_returns_set(expressions)
        };
        let is_scan = (*below).type_ == NodeTag::T_IndexPath && !(*below).parallel_aware;
        let scan = below.cast::<IndexPath>();
        (is_scan && is_wanted((*(*limit).subpath).pathtarget) && child::decides_all(&*scan)).then_some((limit, scan))
    }
}

/// The same Limit above a node that skips the rows.
unsafe fn counted(
    root: *mut PlannerInfo,
    output: *mut RelOptInfo,
    limit: *mut LimitPath,
    scan: *mut IndexPath,
) -> *mut LimitPath {
    // SAFETY: the planner's; new memory of the right size.
    unsafe {
        let below = &*(*limit).subpath;
        let path: *mut CustomPath = ffi::palloc0(size_of::<CustomPath>()).cast();
        (&raw mut (*path).path).copy_from_nonoverlapping(below, 1);
        let new = &mut (*path).path;
        (new.type_, new.pathtype, new.parent) = (NodeTag::T_CustomPath, NodeTag::T_CustomScan, output);
        let skipped = skipped_rows(root, below.rows);
        let a_row = (below.total_cost - below.startup_cost) / below.rows.max(1.0);
        let spared = a_row * (*(*scan).indexinfo).rel.as_ref().map_or(0.0, |rel| rel.allvisfrac);
        let least = OPERATORS_A_ROW * pg_sys::cpu_operator_cost;
        let a_skipped_row = (a_row - spared).max(0.0) + least;
        new.startup_cost = below.startup_cost + skipped * a_skipped_row;
        new.total_cost = new.startup_cost + (below.rows - skipped).max(0.0) * a_row;
        new.rows = (below.rows - skipped).max(1.0);
        (*path).custom_paths = list::of([scan]);
        (*path).custom_private = list::of([(*(*root).parse).limitOffset]);
        (*path).methods = &*PATH;
        let above: *mut LimitPath = ffi::palloc(size_of::<LimitPath>()).cast();
        above.copy_from_nonoverlapping(limit, 1);
        ((*above).subpath, (*above).limitOffset) = (path.cast(), core::ptr::null_mut());
        let returned = (*limit).path.rows.min(new.rows);
        (*above).path.startup_cost = new.startup_cost;
        (*above).path.total_cost = new.startup_cost + returned * a_row;
        above
    }
}

/// How many rows an OFFSET leaves out, as far as the planner knows: a tenth, as it says itself, if it is not told.
unsafe fn skipped_rows(root: *mut PlannerInfo, rows: f64) -> f64 {
    // SAFETY: the planner's; a node is what its tag says.
    unsafe {
        let offset = ffi::estimate_expression_value(root, (*(*root).parse).limitOffset);
        if (*offset).type_ != NodeTag::T_Const {
            return (rows * 0.1).ceil();
        }
        let offset = &*offset.cast::<pg_sys::Const>();
        if offset.constisnull { 0.0 } else { (offset.constvalue.value() as i64).max(0) as f64 }
    }
}

/// Makes the plan of a path.
#[pg_guard]
unsafe extern "C-unwind" fn plan(
    _root: *mut PlannerInfo,
    _rel: *mut RelOptInfo,
    path: *mut CustomPath,
    targets: *mut List,
    _clauses: *mut List,
    plans: *mut List,
) -> *mut Plan {
    // SAFETY: called by the planner, with a path of ours; new memory of the right size, zeroed.
    unsafe {
        let scan: *mut CustomScan = ffi::palloc0(size_of::<CustomScan>()).cast();
        (*scan).scan.plan.type_ = NodeTag::T_CustomScan;
        (*scan).scan.plan.targetlist = targets;
        (*scan).flags = (*path).flags;
        (*scan).custom_plans = plans;
        (*scan).custom_exprs = (*path).custom_private;
        if let Some(below) = list::members::<Plan>(plans).next() {
            (*scan).custom_scan_tlist = ffi::copyObjectImpl((*below).targetlist.cast()).cast();
        }
        (*scan).methods = &*SCAN;
        scan.cast()
    }
}

/// The node's state, of which the server knows the beginning.
#[repr(C)]
struct State {
    custom: CustomScanState,
    work: *mut Work,
}

/// What the node works with. No destructor.
struct Work {
    child: Child,
    offset: *mut ExprState,
    visibility: Visibility,
    stage: Stage,
}

/// How far it has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing is read.
    Fresh,
    /// What had to be skipped is.
    Skipped,
    /// There were not more rows.
    Over,
}

#[pg_guard]
unsafe extern "C-unwind" fn create(_plan: *mut CustomScan) -> *mut Node {
    // SAFETY: new memory of the right size, zeroed.
    unsafe {
        let state: *mut State = ffi::palloc0(size_of::<State>()).cast();
        (*state).custom.ss.ps.type_ = NodeTag::T_CustomScanState;
        (*state).custom.methods = &*EXEC;
        state.cast()
    }
}

/// Begins the scan below, which opens index and table.
#[pg_guard]
unsafe extern "C-unwind" fn begin(node: *mut CustomScanState, estate: *mut EState, flags: c_int) {
    // SAFETY: called by the executor, with a plan of ours; its memory is current.
    unsafe {
        let plan: *mut CustomScan = (*node).ss.ps.plan.cast();
        let below = list::members((*plan).custom_plans).next().zip(list::members((*plan).custom_exprs).next());
        let Some((below, offset)) = below else { malformed() };
        let below: *mut PlanState = ffi::ExecInitNode(below, estate, flags);
        (*node).custom_ps = list::of([below]);
        let Some(child) = Child::of(below) else { malformed() };
        let offset = ffi::ExecInitExpr(offset, &raw mut (*node).ss.ps);
        let visibility = Visibility { map: VisibilityMap::new(), slot: child.table_slot(), fetched: 0 };
        let work: *mut Work = memory::allocate((*estate).es_query_cxt, 1, false);
        work.write(Work { child, offset, visibility, stage: Stage::Fresh });
        (*node.cast::<State>()).work = work;
    }
}

#[cold]
fn malformed() -> ! {
    errors::raise(ERRCODE_INTERNAL_ERROR, format_args!("plan of FpbtreeOffset is malformed"), None, None)
}

unsafe fn work<'w>(node: *mut CustomScanState) -> &'w mut Work {
    // SAFETY: the node has begun, and nobody else holds it.
    unsafe { &mut *(*node.cast::<State>()).work }
}

#[pg_guard]
unsafe extern "C-unwind" fn execute(node: *mut CustomScanState) -> *mut TupleTableSlot {
    // SAFETY: called by the executor, with a node that has begun.
    unsafe { ffi::ExecScan(&raw mut (*node).ss, next_row, is_still_right) }
}

/// Rows that are locked and looked at again are below no Limit.
unsafe extern "C-unwind" fn is_still_right(_node: *mut pg_sys::ScanState, _slot: *mut TupleTableSlot) -> bool {
    true
}

/// The next row of the scan below, behind those that are skipped.
#[pg_guard]
unsafe extern "C-unwind" fn next_row(node: *mut pg_sys::ScanState) -> *mut TupleTableSlot {
    // SAFETY: called by `execute`'s server function. No frame here owns a destructor.
    unsafe {
        let (slot, work) = ((*node).ss_ScanTupleSlot, work(node.cast()));
        ffi::clear_slot(slot);
        if work.stage == Stage::Fresh {
            work.skip((*node).ps.ps_ExprContext);
        }
        if work.stage == Stage::Over {
            return slot;
        }
        let child = work.child.node();
        let row = (*child).ExecProcNode.map_or(core::ptr::null_mut(), |next| next(child));
        if ffi::is_empty(row) {
            work.stage = Stage::Over;
            return slot;
        }
        ffi::copy_slot(slot, row)
    }
}

impl Work {
    /// Skips the rows that are to be skipped.
    unsafe fn skip(&mut self, context: *mut pg_sys::ExprContext) {
        // SAFETY: the node has begun, and so has the one below.
        unsafe {
            let mut is_null = false;
            let offset = (*self.offset).evalfunc.map(|evaluate| evaluate(self.offset, context, &mut is_null));
            let rows = offset.filter(|_| !is_null).map_or(0, |offset| offset.value() as i64);
            let Ok(rows) = u64::try_from(rows) else {
                let message = format_args!("OFFSET must not be negative");
                errors::raise(ERRCODE_INVALID_ROW_COUNT_IN_RESULT_OFFSET_CLAUSE, message, None, None)
            };
            self.stage = Stage::Skipped;
            self.child.prepare();
            let left = if rows == 0 {
                0
            } else if pages::rechecks(self.child.scan()) {
                self.skip_one_by_one(rows)
            } else {
                self.skip_pages(rows)
            };
            if left > 0 {
                self.stage = Stage::Over;
            }
        }
    }

    /// Skips rows by pages, and says how many were missing.
    unsafe fn skip_pages(&mut self, rows: u64) -> u64 {
        // SAFETY: the node below has begun, and nothing is read of its scan.
        unsafe {
            let node = self.child.node();
            let plan = (*node).plan;
            let direction = match self.child {
                Child::Plain(_) => (*plan.cast::<pg_sys::IndexScan>()).indexorderdir,
                Child::IndexOnly(_) => (*plan.cast::<pg_sys::IndexOnlyScan>()).indexorderdir,
            };
            let instrument = (*node).instrument;
            if !instrument.is_null() {
                ffi::InstrStartNode(instrument);
            }
            let left = pages::skip(self.child.scan(), direction, rows, &mut self.visibility);
            if let Some(instrument) = instrument.as_mut() {
                ffi::InstrStopNode(instrument, (rows - left) as f64);
                instrument.ntuples2 += self.visibility.fetched as f64;
            }
            left
        }
    }

    /// Skips rows of the node below one by one, as their conditions have to be looked at again.
    #[cold]
    unsafe fn skip_one_by_one(&mut self, mut rows: u64) -> u64 {
        // SAFETY: the node below has begun.
        unsafe {
            let node = self.child.node();
            while rows > 0 && !ffi::is_empty((*node).ExecProcNode.map_or(core::ptr::null_mut(), |next| next(node))) {
                rows -= 1;
            }
        }
        rows
    }
}

/// Goes back to the beginning, with conditions that may have changed.
#[pg_guard]
unsafe extern "C-unwind" fn rescan(node: *mut CustomScanState) {
    // SAFETY: called by the executor, with a node that has begun.
    unsafe {
        let work = work(node);
        let child = work.child.node();
        if !(*node).ss.ps.chgParam.is_null() {
            ffi::UpdateChangedParamSet(child, (*node).ss.ps.chgParam);
        }
        ffi::ExecReScan(child);
        work.stage = Stage::Fresh;
        ffi::ExecScanReScan(&raw mut (*node).ss);
    }
}

/// Gives back what the node holds.
#[pg_guard]
unsafe extern "C-unwind" fn end(node: *mut CustomScanState) {
    // SAFETY: called by the executor, with a node that has begun.
    unsafe {
        let work = work(node);
        work.visibility.map.release();
        ffi::ExecEndNode(work.child.node());
    }
}
