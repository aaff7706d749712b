//! `Custom Scan (FpbtreeDistinct)`: the first row of each group of those that are equal in an index's first columns, as
//! `DISTINCT ON` wants it of an index scan in its order; or the last one, where that is wanted of an order that is turned
//! round within groups. The rest of a group is jumped over.

use core::ffi::CStr;

use pgrx::pg_guard;
use pgrx::pg_sys::{
    self, CustomExecMethods, CustomPath, CustomPathMethods, CustomScan, CustomScanMethods, CustomScanState,
    ExplainState, ExprContext, IndexOptInfo, IndexPath, List, ListCell, Node, Path, PathTarget, Plan, PlannerInfo,
    RelOptInfo, ScanDirection, TupleTableSlot,
};

use super::executor::{self, Below, Work};
use super::{child, new_path, new_plan, tables};
use crate::am::cost;
use crate::am::scan::pages;
use crate::pg::per_backend::PerBackend;
use crate::pg::{errors, ffi, list};

static PATH: PerBackend<CustomPathMethods> = PerBackend::new(CustomPathMethods {
    CustomName: Distinct::NAME.as_ptr(),
    PlanCustomPath: Some(plan),
    ReparameterizeCustomPathByChild: None,
});

/// Adds a path for `DISTINCT ON` above each index scan of ours that gives a table's rows in the order that is asked for, or
/// in one that is turned round within groups.
///
/// # Safety
/// The planner's. May raise.
pub(super) unsafe fn add_paths(root: *mut PlannerInfo, input: *mut RelOptInfo, output: *mut RelOptInfo) {
    // SAFETY: the planner's; a node is what its tag says.
    unsafe {
        let query = &*(*root).parse;
        if !query.hasDistinctOn || query.hasTargetSRFs || !tables::is_table(root, input) {
            return;
        }
        let Some(other) = list::members::<Path>((*output).pathlist).next() else { return };
        // No path itself: one that is dominated by a path of ours is freed when that is added.
        let grouping = Grouping { root, input, output, target: (*other).pathtarget, groups: (*other).rows };
        for index in list::members::<IndexOptInfo>((*input).indexlist) {
            // Not only the scans that the planner thinks best: one of another index in groups may be cheaper than ours.
            let [scans, _] = if tables::is_usable(&*index) { child::scans_of(root, input, index) } else { continue };
            for path in list::members::<IndexPath>(scans).filter_map(|scan| grouping.path(scan)) {
                ffi::add_path(output, path.cast());
            }
        }
    }
}

/// A `DISTINCT ON` of a table's rows.
struct Grouping {
    root: *mut PlannerInfo,
    input: *mut RelOptInfo,
    output: *mut RelOptInfo,
    /// What comes of it.
    target: *mut PathTarget,
    /// How many groups the server reckons with.
    groups: f64,
}

impl Grouping {
    /// The node's path above a scan, if that gives rows in groups, with the first or last ones that are asked for.
    unsafe fn path(&self, scan: *mut IndexPath) -> Option<*mut CustomPath> {
        // SAFETY: the planner's; new memory of the right size, zeroed.
        unsafe {
            let root = &*self.root;
            let longer = list::cells(root.distinct_pathkeys).len() < list::cells(root.sort_pathkeys).len();
            let order = if longer { root.sort_pathkeys } else { root.distinct_pathkeys };
            let child = &(*scan).path;
            let is_wanted = child.param_info.is_null()
                && !ffi::contain_volatile_functions((*self.target).exprs.cast())
                && !ffi::contain_volatile_functions((*self.input).baserestrictinfo.cast());
            if !is_wanted {
                return None;
            }
            let wants_first = ffi::pathkeys_contained_in(order, child.pathkeys);
            if !wants_first && !self.is_turned(&*scan) {
                return None;
            }
            let depth = self.depth(&*scan)?;
            let path = new_path();
            let new = &mut (*path).path;
            (new.parent, new.pathtarget) = (self.output, self.target);
            new.pathkeys = if wants_first { child.pathkeys } else { order };
            new.parallel_safe = (*self.output).consider_parallel && child.parallel_safe;
            #[cfg(feature = "pg18")]
            {
                new.disabled_nodes = child.disabled_nodes;
            }
            new.rows = self.groups;
            new.startup_cost = child.startup_cost;
            new.total_cost =
                child.startup_cost + self.cost(&*scan, if wants_first { new.rows } else { 2.0 * new.rows });
            (*path).flags = pg_sys::CUSTOMPATH_SUPPORT_PROJECTION;
            (*path).custom_paths = list::of([scan]);
            (*path).custom_private = list::of_integers([depth as i32, i32::from(!wants_first)]);
            (*path).methods = &*PATH;
            Some(path)
        }
    }

    /// Whether groups are asked for as a scan gives them, and the rows of each the other way round.
    unsafe fn is_turned(&self, scan: &IndexPath) -> bool {
        // SAFETY: the planner's. Pathkeys that are equal are the same one.
        unsafe {
            let turned = match scan.indexscandir {
                ScanDirection::BackwardScanDirection => ScanDirection::ForwardScanDirection,
                _ => ScanDirection::BackwardScanDirection,
            };
            let keys = |direction| list::cells(ffi::build_index_pathkeys(self.root, scan.indexinfo, direction));
            let (groups, within) = (keys(scan.indexscandir), keys(turned));
            let (asked, grouped) =
                (list::cells((*self.root).sort_pathkeys), list::cells((*self.root).distinct_pathkeys));
            let is_given = |(at, key): (usize, &ListCell)| {
                let given = if at < grouped.len() { groups } else { within };
                given.get(at).is_some_and(|given| given.ptr_value == key.ptr_value)
            };
            groups.len() == within.len() && asked.len() > grouped.len() && asked.iter().enumerate().all(is_given)
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
                grouped |= 1 << tables::key_column(index, &*self.input, expression)?;
            }
            tables::exact_shape(index)?;
            tables::prefix(scan, grouped, 0).filter(|&depth| depth > 0)
        }
    }

    /// What so many rows cost, with a descent for each.
    unsafe fn cost(&self, scan: &IndexPath, rows: f64) -> f64 {
        // SAFETY: the planner's.
        unsafe {
            let a_row = (scan.path.total_cost - scan.path.startup_cost) / scan.path.rows.max(1.0);
            cost::descents(self.root, &*scan.indexinfo, rows) + rows * a_row
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
    /// Whether the last row of each group is given.
    wants_last: bool,
    stage: Stage,
}

/// How far it has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing is read.
    Fresh,
    /// The scan below is in a group, whose row has been given.
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
        // SAFETY: a plan of ours, with two integers.
        let mut numbers = unsafe { list::integers(plan.custom_private) };
        let (Some(depth @ 1..), Some(last)) = (numbers.next(), numbers.next()) else {
            executor::malformed::<Distinct>()
        };
        Distinct { below, depth: depth as usize, wants_last: last != 0, stage: Stage::Fresh }
    }

    fn below(&mut self) -> &mut Below {
        &mut self.below
    }

    /// The row of the next group, which the scan below looks up as it always does.
    unsafe fn next_row(&mut self, slot: &mut TupleTableSlot, _context: *mut ExprContext) -> bool {
        // SAFETY: the node below has begun, and its scan is ours alone. No frame here owns a destructor.
        unsafe {
            match self.stage {
                Stage::Over => return false,
                Stage::InGroup if self.wants_last => pages::leave_group_end(self.below.child.scan(), self.depth),
                Stage::InGroup => pages::leave_group_of_row(self.below.child.scan(), self.depth),
                Stage::Fresh => {
                    self.below.child.prepare();
                    pages::want_keys(self.below.child.scan());
                }
            }
            errors::check_for_interrupts();
            let mut row = self.below.next_row();
            if self.wants_last && !ffi::is_empty(row) {
                pages::go_to_group_end(self.below.child.scan(), self.depth);
                row = self.below.previous_row();
            }
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

    /// Says by which columns rows are grouped, and whether the last ones are given.
    unsafe fn explain(&mut self, state: *mut ExplainState) {
        // SAFETY: the relations of the plan are locked.
        unsafe {
            executor::explain_group(self.below.child, self.depth, state);
            if self.wants_last {
                ffi::ExplainPropertyBool(c"Last of Group".as_ptr(), true, state);
            }
        }
    }
}
