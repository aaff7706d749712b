//! `Custom Scan (FpbtreeDistinct)`: the first row of each group of those that are equal in an index's first columns, as
//! `DISTINCT ON` wants it of an index scan in its order. The rest of a group is jumped over.

use core::ffi::CStr;

use pgrx::pg_guard;
use pgrx::pg_sys::{
    self, CustomExecMethods, CustomPath, CustomPathMethods, CustomScan, CustomScanMethods, CustomScanState,
    ExplainState, ExprContext, IndexPath, List, Node, NodeTag, Path, Plan, PlannerInfo, RelOptInfo, TupleTableSlot,
};

use super::executor::{self, Below, Work};
use super::{columns, new_path, new_plan, rows};
use crate::am::scan::pages;
use crate::am::{cost, handler};
use crate::pg::per_backend::PerBackend;
use crate::pg::{errors, ffi, list};

static PATH: PerBackend<CustomPathMethods> = PerBackend::new(CustomPathMethods {
    CustomName: Distinct::NAME.as_ptr(),
    PlanCustomPath: Some(plan),
    ReparameterizeCustomPathByChild: None,
});

/// Adds a path for `DISTINCT ON` above each index scan of ours that gives a table's rows in the order that is asked for.
///
/// # Safety
/// The planner's. May raise.
pub(super) unsafe fn add_paths(root: *mut PlannerInfo, input: *mut RelOptInfo, output: *mut RelOptInfo) {
    // SAFETY: the planner's; a node is what its tag says.
    unsafe {
        let query = &*(*root).parse;
        let is_table = (*input).rtekind == pg_sys::RTEKind::RTE_RELATION && !(*input).indexlist.is_null();
        if !is_table || !query.hasDistinctOn || query.hasTargetSRFs {
            return;
        }
        let Some(other) = list::members::<Path>((*output).pathlist).next() else { return };
        let grouping = Grouping { root, input, output, other: &*other };
        let scans = list::of(list::members::<Path>((*input).pathlist).filter_map(|path| index_scan(path)));
        for scan in list::members::<IndexPath>(scans) {
            if let Some(path) = grouping.path(scan) {
                ffi::add_path(output, path.cast());
            }
        }
    }
}

/// The index scan that a path is, or has taken the place of.
unsafe fn index_scan(path: *mut Path) -> Option<*mut IndexPath> {
    // SAFETY: the planner's; a path is what its tag says.
    unsafe {
        let is_scan = (*path).type_ == NodeTag::T_IndexPath && !(*path).parallel_aware;
        if is_scan { Some(path.cast()) } else { rows::scan_below(path) }
    }
}

/// A `DISTINCT ON` of a table's rows.
struct Grouping<'p> {
    root: *mut PlannerInfo,
    input: *mut RelOptInfo,
    output: *mut RelOptInfo,
    /// A path of the server's that does it.
    other: &'p Path,
}

impl Grouping<'_> {
    /// The node's path above a scan, if that gives rows in the order that is asked for, and in groups.
    unsafe fn path(&self, scan: *mut IndexPath) -> Option<*mut CustomPath> {
        // SAFETY: the planner's; new memory of the right size, zeroed.
        unsafe {
            let root = &*self.root;
            let longer = list::cells(root.distinct_pathkeys).len() < list::cells(root.sort_pathkeys).len();
            let order = if longer { root.sort_pathkeys } else { root.distinct_pathkeys };
            let child = &(*scan).path;
            let is_wanted = handler::is_ours(&*(*scan).indexinfo)
                && child.param_info.is_null()
                && ffi::pathkeys_contained_in(order, child.pathkeys)
                && !ffi::contain_volatile_functions((*self.other.pathtarget).exprs.cast());
            if !is_wanted {
                return None;
            }
            let depth = self.depth(&*scan)?;
            let path = new_path();
            let new = &mut (*path).path;
            (new.parent, new.pathtarget, new.pathkeys) = (self.output, self.other.pathtarget, child.pathkeys);
            new.parallel_safe = (*self.output).consider_parallel && child.parallel_safe;
            #[cfg(feature = "pg18")]
            {
                new.disabled_nodes = child.disabled_nodes;
            }
            new.rows = self.other.rows;
            new.startup_cost = child.startup_cost;
            new.total_cost = child.startup_cost + self.cost(&*scan, new.rows);
            (*path).flags = pg_sys::CUSTOMPATH_SUPPORT_PROJECTION;
            (*path).custom_paths = list::of([scan]);
            (*path).custom_private = list::of_integers([depth as i32]);
            (*path).methods = &*PATH;
            Some(path)
        }
    }

    /// By how many of the index's first columns rows are grouped.
    unsafe fn depth(&self, scan: &IndexPath) -> Option<usize> {
        // SAFETY: the planner's.
        unsafe {
            let (index, clauses) = (&*scan.indexinfo, (*(*self.root).parse).distinctClause);
            let expressions = ffi::get_sortgrouplist_exprs(clauses, (*self.root).processed_tlist);
            let mut grouped = 0u32;
            for expression in list::members::<Node>(expressions) {
                grouped |= 1 << columns::key_column(index, &*self.input, expression)?;
            }
            columns::exact_shape(index)?;
            columns::prefix(scan, grouped, 0).filter(|&depth| depth > 0)
        }
    }

    /// What the groups' first rows cost: a descent for each, and the row.
    unsafe fn cost(&self, scan: &IndexPath, groups: f64) -> f64 {
        // SAFETY: the planner's.
        unsafe {
            let a_row = (scan.path.total_cost - scan.path.startup_cost) / scan.path.rows.max(1.0);
            cost::descents(self.root, &*scan.indexinfo, groups) + groups * a_row
        }
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
        let scan = new_plan::<Distinct>(path, targets, plans);
        (*scan).custom_private = (*path).custom_private;
        if let Some(below) = list::members::<Plan>(plans).next() {
            (*scan).custom_scan_tlist = ffi::copyObjectImpl((*below).targetlist.cast()).cast();
        }
        scan.cast()
    }
}

/// What the node works with.
pub struct Distinct {
    below: Below,
    depth: usize,
    stage: Stage,
}

/// How far it has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing is read.
    Fresh,
    /// The scan below is at the first row of a group.
    InGroup,
    /// No row is left.
    Over,
}

impl Work for Distinct {
    const NAME: &CStr = c"FpbtreeDistinct";

    fn methods() -> (&'static CustomScanMethods, &'static CustomExecMethods) {
        static SCAN: PerBackend<CustomScanMethods> = PerBackend::new(executor::scan_methods::<Distinct>());
        static EXEC: PerBackend<CustomExecMethods> = PerBackend::new(executor::exec_methods::<Distinct>());
        (&SCAN, &EXEC)
    }

    unsafe fn begin(_node: &mut CustomScanState, plan: &CustomScan, below: Below) -> Distinct {
        // SAFETY: a plan of ours, with one integer.
        let depth = unsafe { list::integers(plan.custom_private).next() };
        let Some(depth) = depth.filter(|&depth| depth > 0) else { executor::malformed::<Distinct>() };
        Distinct { below, depth: depth as usize, stage: Stage::Fresh }
    }

    fn below(&mut self) -> &mut Below {
        &mut self.below
    }

    /// The first row of the next group, which the scan below looks up as it always does.
    unsafe fn next_row(&mut self, slot: &mut TupleTableSlot, _context: *mut ExprContext) -> bool {
        // SAFETY: the node below has begun, and its scan is ours alone. No frame here owns a destructor.
        unsafe {
            match self.stage {
                Stage::Over => return false,
                Stage::InGroup => pages::leave_group_of_row(self.below.child.scan(), self.depth),
                Stage::Fresh => {
                    self.below.child.prepare();
                    pages::want_keys(self.below.child.scan());
                }
            }
            errors::check_for_interrupts();
            let row = self.below.next_row();
            self.stage = if ffi::is_empty(row) { Stage::Over } else { Stage::InGroup };
            if self.stage == Stage::InGroup {
                ffi::copy_slot(slot, row);
            }
        }
        self.stage == Stage::InGroup
    }

    fn restart(&mut self) {
        self.stage = Stage::Fresh;
    }

    /// Says by which columns rows are grouped.
    unsafe fn explain(&mut self, state: *mut ExplainState) {
        // SAFETY: the relations of the plan are locked.
        unsafe { executor::explain_group(self.below.child, self.depth, state) }
    }
}
