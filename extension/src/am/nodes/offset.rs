//! `Custom Scan (FpbtreeOffset)`: skips the rows of an OFFSET by counting a leaf's rows together, where the rows come from an
//! index scan as they are. Above it is the server's own Limit, less the OFFSET.

use core::ffi::CStr;

use pgrx::PgSqlErrorCode::ERRCODE_INVALID_ROW_COUNT_IN_RESULT_OFFSET_CLAUSE;
use pgrx::pg_guard;
use pgrx::pg_sys::{
    self, CustomExecMethods, CustomPath, CustomPathMethods, CustomScan, CustomScanMethods, CustomScanState,
    ExprContext, ExprState, IndexPath, LimitPath, List, Node, NodeTag, Plan, PlannerInfo, ProjectionPath, RelOptInfo,
    TupleTableSlot,
};

use super::child;
use super::executor::{self, Below, Work};
use super::{OPERATORS_A_ROW, SPARED, new_path, new_plan, rows};
use crate::am::scan::pages;
use crate::pg::per_backend::PerBackend;
use crate::pg::{errors, ffi, list};

static PATH: PerBackend<CustomPathMethods> = PerBackend::new(CustomPathMethods {
    CustomName: Offset::NAME.as_ptr(),
    PlanCustomPath: Some(plan),
    ReparameterizeCustomPathByChild: None,
});

/// Adds a path to those of a whole query, if one of these is a Limit with an OFFSET above an index scan of ours.
///
/// # Safety
/// The planner's. May raise.
pub(super) unsafe fn add_path(root: *mut PlannerInfo, output: *mut RelOptInfo) {
    // SAFETY: the planner's.
    unsafe {
        if (*(*root).parse).limitOffset.is_null() {
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
        if let Some(scan) = rows::scan_below(below) {
            below = scan.cast();
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
        let path = new_path();
        let new = &mut (*path).path;
        (new.parent, new.pathtarget, new.pathkeys) = (output, below.pathtarget, below.pathkeys);
        new.parallel_safe = below.parallel_safe;
        #[cfg(feature = "since_18")]
        {
            new.disabled_nodes = below.disabled_nodes;
        }
        let skipped = skipped_rows(root, below.rows);
        let a_row = (below.total_cost - below.startup_cost) / below.rows.max(1.0);
        let visible = (*(*scan).indexinfo).rel.as_ref().map_or(0.0, |rel| rel.allvisfrac);
        let spared = visible * a_row + (1.0 - visible) * SPARED * pg_sys::cpu_tuple_cost;
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
        let scan = new_plan::<Offset>(path, targets, plans);
        (*scan).custom_exprs = (*path).custom_private;
        if let Some(below) = list::members::<Plan>(plans).next() {
            (*scan).custom_scan_tlist = ffi::copyObjectImpl((*below).targetlist.cast()).cast();
        }
        scan.cast()
    }
}

/// What the node works with.
pub struct Offset {
    below: Below,
    rows: *mut ExprState,
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

impl Work for Offset {
    const NAME: &CStr = c"FpbtreeOffset";

    fn methods() -> (&'static CustomScanMethods, &'static CustomExecMethods) {
        static SCAN: PerBackend<CustomScanMethods> = PerBackend::new(executor::scan_methods::<Offset>());
        static EXEC: PerBackend<CustomExecMethods> = PerBackend::new(executor::exec_methods::<Offset>());
        (&SCAN, &EXEC)
    }

    unsafe fn begin(node: &mut CustomScanState, plan: &CustomScan, below: Below) -> Offset {
        // SAFETY: a plan of ours, with one expression.
        unsafe {
            let Some(rows) = list::members(plan.custom_exprs).next() else { executor::malformed::<Offset>() };
            Offset { below, rows: ffi::ExecInitExpr(rows, &raw mut node.ss.ps), stage: Stage::Fresh }
        }
    }

    fn below(&mut self) -> &mut Below {
        &mut self.below
    }

    /// The next row of the scan below, behind those that are skipped.
    unsafe fn next_row(&mut self, slot: &mut TupleTableSlot, context: *mut ExprContext) -> bool {
        // SAFETY: the node has begun. No frame here owns a destructor.
        unsafe {
            if self.stage == Stage::Fresh {
                self.skip(context);
            }
            if self.stage == Stage::Over {
                return false;
            }
            let row = self.below.next_row();
            if ffi::is_empty(row) {
                self.stage = Stage::Over;
                return false;
            }
            ffi::copy_slot(slot, row);
        }
        true
    }

    fn restart(&mut self) {
        self.stage = Stage::Fresh;
    }
}

impl Offset {
    /// Skips the rows that are to be skipped.
    unsafe fn skip(&mut self, context: *mut ExprContext) {
        // SAFETY: the node has begun, and so has the one below.
        unsafe {
            let mut is_null = false;
            let rows = (*self.rows).evalfunc.map(|evaluate| evaluate(self.rows, context, &mut is_null));
            let rows = rows.filter(|_| !is_null).map_or(0, |rows| rows.value() as i64);
            let Ok(rows) = u64::try_from(rows) else {
                let message = format_args!("OFFSET must not be negative");
                errors::raise(ERRCODE_INVALID_ROW_COUNT_IN_RESULT_OFFSET_CLAUSE, message, None, None)
            };
            self.below.child.prepare();
            let missing = match rows {
                0 => 0,
                rows if pages::rechecks(self.below.child.scan()) => self.skip_one_by_one(rows),
                rows => self.skip_pages(rows),
            };
            self.stage = if missing > 0 { Stage::Over } else { Stage::Skipped };
        }
    }

    /// Skips rows by pages, and says how many were missing.
    unsafe fn skip_pages(&mut self, rows: u64) -> u64 {
        // SAFETY: the node below has begun, and nothing is read of its scan.
        unsafe {
            let (_, direction) = self.below.child.plan();
            self.below.measured(|below| {
                let missing = pages::skip(below.child.scan(), direction, rows, &mut below.visibility);
                (missing, rows - missing)
            })
        }
    }

    /// Skips rows of the scan below one by one, as their conditions have to be looked at again.
    #[cold]
    unsafe fn skip_one_by_one(&mut self, mut rows: u64) -> u64 {
        // SAFETY: the node below has begun.
        while rows > 0 && unsafe { !ffi::is_empty(self.below.next_row()) } {
            rows -= 1;
        }
        rows
    }
}
