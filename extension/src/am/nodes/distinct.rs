//! `Custom Scan (FpbtreeDistinct)`: the first row of each group of those that are equal in an index's first columns, as
//! `DISTINCT ON` wants it of an index scan in its order, and `DISTINCT` and `GROUP BY` of any; or the last one, where that is
//! wanted of an order that is turned round within groups. The rest of a group is jumped over.

use core::ffi::CStr;

use pgrx::pg_guard;
use pgrx::pg_sys::{
    self, CustomExecMethods, CustomPath, CustomPathMethods, CustomScan, CustomScanMethods, CustomScanState,
    ExplainState, ExprContext, GroupPathExtraData, IndexOptInfo, IndexPath, List, ListCell, Node, Path, PathTarget,
    Plan, PlannerInfo, RelOptInfo, RestrictInfo, ScanDirection, TupleTableSlot,
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

/// Adds paths for `DISTINCT` and `DISTINCT ON` of a table's rows.
///
/// # Safety
/// The planner's. May raise.
pub(super) unsafe fn add_paths(root: *mut PlannerInfo, input: *mut RelOptInfo, output: *mut RelOptInfo) {
    // SAFETY: the planner's.
    unsafe {
        let query = &*(*root).parse;
        #[cfg(feature = "pg15")]
        let all = query.distinctClause;
        #[cfg(not(feature = "pg15"))]
        let all = (*root).processed_distinctClause;
        let longer = list::cells((*root).distinct_pathkeys).len() < list::cells((*root).sort_pathkeys).len();
        let (clauses, order) = match query.hasDistinctOn {
            true if longer => (query.distinctClause, Some((*root).sort_pathkeys)),
            true => (query.distinctClause, Some((*root).distinct_pathkeys)),
            false => (all, None),
        };
        add_paths_of(root, input, output, clauses, order);
    }
}

/// Adds paths for `GROUP BY` of a table's rows, if nothing else is wanted of the groups.
///
/// # Safety
/// The planner's. May raise.
pub(super) unsafe fn add_paths_of_groups(
    root: *mut PlannerInfo,
    input: *mut RelOptInfo,
    output: *mut RelOptInfo,
    extra: *const GroupPathExtraData,
) {
    // SAFETY: the planner's.
    unsafe {
        let query = &*(*root).parse;
        #[cfg(feature = "pg15")]
        let clauses = query.groupClause;
        #[cfg(not(feature = "pg15"))]
        let clauses = (*root).processed_groupClause;
        if !query.hasAggs && (*extra).havingQual.is_null() {
            add_paths_of(root, input, output, clauses, None);
        }
    }
}

/// Adds a path above each index scan of ours that gives a table's rows in groups by these clauses, and in the order that is
/// asked for, if one is, or in one that is turned round within groups.
unsafe fn add_paths_of(
    root: *mut PlannerInfo,
    input: *mut RelOptInfo,
    output: *mut RelOptInfo,
    clauses: *mut List,
    order: Option<*mut List>,
) {
    // SAFETY: the planner's; a node is what its tag says.
    unsafe {
        if clauses.is_null() || (*(*root).parse).hasTargetSRFs || !tables::is_table(root, input) {
            return;
        }
        // Above the scan of such a condition the server puts a node of its own, which is no index scan.
        let mut conditions = list::members::<RestrictInfo>((*input).baserestrictinfo);
        if conditions.any(|condition| (*condition).pseudoconstant) {
            return;
        }
        let Some(other) = list::members::<Path>((*output).pathlist).next() else { return };
        // No path itself: one that is dominated by a path of ours is freed when that is added.
        let (target, groups) = ((*other).pathtarget, (*other).rows);
        let grouping = Grouping { root, input, output, target, groups, clauses, order };
        for index in list::members::<IndexOptInfo>((*input).indexlist) {
            // Of exact lanes, groups of which no row is asked for are made without one.
            if !tables::is_usable(&*index) || order.is_none() && tables::exact_shape(&*index).is_some() {
                continue;
            }
            // Not only the scans that the planner thinks best: one of another index in groups may be cheaper than ours.
            let [scans, _] = child::scans_of(root, input, index);
            for path in list::members::<IndexPath>(scans).filter_map(|scan| grouping.path(scan)) {
                ffi::add_path(output, path.cast());
            }
        }
    }
}

/// Groups of a table's rows, of each of which one is wanted.
struct Grouping {
    root: *mut PlannerInfo,
    input: *mut RelOptInfo,
    output: *mut RelOptInfo,
    /// What comes of it.
    target: *mut PathTarget,
    /// How many groups the server reckons with.
    groups: f64,
    /// What rows are grouped by.
    clauses: *mut List,
    /// The order in which a group's first row is wanted; any row is, if there is none.
    order: Option<*mut List>,
}

impl Grouping {
    /// The node's path above a scan, if that gives rows in groups, with the first or last ones that are asked for.
    unsafe fn path(&self, scan: *mut IndexPath) -> Option<*mut CustomPath> {
        // SAFETY: the planner's; new memory of the right size, zeroed.
        unsafe {
            let child = &(*scan).path;
            let is_wanted = child.param_info.is_null()
                && !ffi::contain_volatile_functions((*self.target).exprs.cast())
                && !ffi::contain_volatile_functions((*self.input).baserestrictinfo.cast());
            if !is_wanted {
                return None;
            }
            let wants_first = self.order.is_none_or(|order| ffi::pathkeys_contained_in(order, child.pathkeys));
            let pathkeys = match self.order {
                Some(order) if !wants_first => self.is_turned(&*scan).then_some(order)?,
                _ => child.pathkeys,
            };
            let depth = self.depth(&*scan)?;
            let path = new_path();
            let new = &mut (*path).path;
            (new.parent, new.pathtarget, new.pathkeys) = (self.output, self.target, pathkeys);
            new.parallel_safe = (*self.output).consider_parallel && child.parallel_safe;
            #[cfg(feature = "since_18")]
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
            let index = &*scan.indexinfo;
            let expressions = ffi::get_sortgrouplist_exprs(self.clauses, (*self.root).processed_tlist);
            let mut grouped = 0u32;
            for (expression, clause) in list::members::<Node>(expressions).zip(list::members(self.clauses)) {
                let column = tables::key_column(index, &*self.input, expression)?;
                if !tables::groups_alike(index, column, expression, &*clause) {
                    return None;
                }
                grouped |= 1 << column;
            }
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
