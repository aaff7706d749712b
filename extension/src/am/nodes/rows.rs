//! `Custom Scan (FpbtreeRows)`: the rows of an index-only scan, whose values go from the page's copy straight into the
//! node's slot, with no tuple between them.

use core::ffi::{CStr, c_int};

use pgrx::pg_guard;
use pgrx::pg_sys::{
    self, CustomExecMethods, CustomPath, CustomPathMethods, CustomScan, CustomScanMethods, CustomScanState, EState,
    ExprContext, IndexOptInfo, IndexPath, List, Node, NodeTag, Path, Plan, PlannerInfo, RelOptInfo, RestrictInfo,
    ScanDirection, TargetEntry, TupleTableSlot, Var,
};

use super::executor::{self, Below, Work};
use super::{SPARED, child, new_path, new_plan, tables};
use crate::am::scan::pages;
use crate::pg::per_backend::PerBackend;
use crate::pg::{ffi, list};
use crate::values::row::RowColumns;

static PATH: PerBackend<CustomPathMethods> = PerBackend::new(CustomPathMethods {
    CustomName: Rows::NAME.as_ptr(),
    PlanCustomPath: Some(plan),
    ReparameterizeCustomPathByChild: None,
});

/// Fewer rows than these are left to the server: the node takes as long to begin as it spares.
const FEWEST_ROWS: f64 = 64.0;

/// Adds a path to those of a table for each index-only scan of ours.
///
/// # Safety
/// The planner's. May raise.
pub(super) unsafe fn add_paths(root: *mut PlannerInfo, rel: *mut RelOptInfo) {
    // SAFETY: the planner's.
    unsafe {
        if (*rel).indexlist.is_null() || stops_soon(&*root) {
            return;
        }
        let above = |paths| {
            let scans = list::members::<Path>(paths).filter_map(|path| index_only_scan(path));
            list::of(scans.map(|scan| path_above(scan)))
        };
        // Before any is added, as that changes the lists, and frees what is dominated.
        let (serial, parallel) = (above((*rel).pathlist), above((*rel).partial_pathlist));
        for path in list::members::<Path>(serial) {
            ffi::add_path(rel, path);
        }
        for path in list::members::<Path>(parallel) {
            ffi::add_partial_path(rel, path);
        }
    }
}

/// Whether a query of one table wants so few rows that the node is not worth it.
unsafe fn stops_soon(root: &PlannerInfo) -> bool {
    // SAFETY: the planner's.
    let is_of_one = unsafe { ffi::bms_membership(root.all_baserels) } == pg_sys::BMS_Membership::BMS_SINGLETON;
    is_of_one && root.limit_tuples >= 0.0 && root.limit_tuples < FEWEST_ROWS
}

/// The index scan below a path of this node, if it is one.
///
/// # Safety
/// The planner's.
pub(super) unsafe fn scan_below(path: *mut Path) -> Option<*mut IndexPath> {
    // SAFETY: the planner's; a path is what its tag says.
    unsafe {
        let custom = path.cast::<CustomPath>();
        let is_ours = (*path).type_ == NodeTag::T_CustomPath && core::ptr::eq((*custom).methods, &raw const *PATH);
        if is_ours { list::members((*custom).custom_paths).next() } else { None }
    }
}

/// An index-only scan of whole columns that the node can take the place of. Conditions that the index does not decide are
/// the node's filter; but one that says nothing of rows would have the server put a node of its own between.
unsafe fn index_only_scan(path: *mut Path) -> Option<*mut IndexPath> {
    // SAFETY: the planner's; a path is what its tag says.
    unsafe {
        let is_scan = (*path).type_ == NodeTag::T_IndexPath && (*path).pathtype == NodeTag::T_IndexOnlyScan;
        if !is_scan || (*path).rows < FEWEST_ROWS {
            return None;
        }
        let scan = path.cast::<IndexPath>();
        let are_columns = |expressions: *mut List| {
            list::members::<Node>(expressions).all(|column| column_of(&*(*scan).indexinfo, column).is_some())
        };
        let is_filter =
            |condition: *mut RestrictInfo| !(*condition).pseudoconstant && are_columns(columns_in((*condition).clause));
        (child::decides_its_own(&*scan)
            && are_columns((*(*path).pathtarget).exprs)
            && child::undecided(&*scan).all(is_filter))
        .then_some(scan)
    }
}

/// The columns that an expression, or a list of them, is about.
unsafe fn columns_in<T>(expressions: *mut T) -> *mut List {
    // SAFETY: the planner's.
    unsafe { ffi::pull_var_clause(expressions.cast(), pg_sys::PVC_RECURSE_PLACEHOLDERS as c_int) }
}

/// Which column of the index an expression is, and the bytes of its values if these are passed by value, else 0; if it is
/// one, and has the values that the index gives.
unsafe fn column_of(index: &IndexOptInfo, expression: *mut Node) -> Option<(usize, u8)> {
    // SAFETY: the planner's; a node is what its tag says.
    unsafe {
        let place = tables::column(index, &*index.rel, expression)?;
        let (mut length, mut by_value, mut align) = (0, false, 0);
        ffi::get_typlenbyvalalign((*expression.cast::<Var>()).vartype, &mut length, &mut by_value, &mut align);
        tables::is_stored_as_it_is(expression).then_some((place, if by_value { length as u8 } else { 0 }))
    }
}

/// The path above a scan.
unsafe fn path_above(scan: *mut IndexPath) -> *mut CustomPath {
    // SAFETY: the planner's; new memory of the right size.
    unsafe {
        // A copy, whose target stays as it is.
        let below: *mut IndexPath = ffi::palloc(size_of::<IndexPath>()).cast();
        below.copy_from_nonoverlapping(scan, 1);
        let child = &(*below).path;
        let path = new_path();
        let new = &mut (*path).path;
        (new.parent, new.pathtarget, new.pathkeys) = (child.parent, child.pathtarget, child.pathkeys);
        new.param_info = child.param_info;
        (new.parallel_safe, new.parallel_workers) = (child.parallel_safe, child.parallel_workers);
        #[cfg(feature = "since_18")]
        {
            new.disabled_nodes = child.disabled_nodes;
        }
        let scanned = ((*below).indexselectivity * (*child.parent).tuples).max(child.rows);
        // Of what workers share, each has its part.
        let own = if child.parallel_aware { child.rows } else { scanned };
        let spared = own * SPARED * pg_sys::cpu_tuple_cost;
        (new.rows, new.startup_cost) = (child.rows, child.startup_cost);
        new.total_cost = (child.total_cost - spared).max(child.startup_cost);
        (*path).flags = pg_sys::CUSTOMPATH_SUPPORT_PROJECTION
            | pg_sys::CUSTOMPATH_SUPPORT_BACKWARD_SCAN
            | pg_sys::CUSTOMPATH_SUPPORT_MARK_RESTORE;
        (*path).custom_paths = list::of([below]);
        (*path).methods = &*PATH;
        path
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
        let scan = new_plan::<Rows>(path, targets, plans);
        let below = list::members::<IndexPath>((*path).custom_paths).zip(list::members::<Plan>(plans)).next();
        let Some((index, below)) = below else { executor::malformed::<Rows>() };
        ((*scan).scan.plan.qual, (*below).qual) = ((*below).qual, core::ptr::null_mut());
        for column in list::members::<pg_sys::Expr>(columns_in((*scan).scan.plan.qual)) {
            if list::members::<TargetEntry>((*below).targetlist)
                .any(|target| ffi::equal((*target).expr.cast(), column.cast()))
            {
                continue;
            }
            let number = list::cells((*below).targetlist).len() as i16 + 1;
            let target = ffi::makeTargetEntry(column, number, core::ptr::null_mut(), false);
            (*below).targetlist = ffi::lappend((*below).targetlist, target.cast());
        }
        (*scan).custom_scan_tlist = ffi::copyObjectImpl((*below).targetlist.cast()).cast();
        for target in list::members::<TargetEntry>((*below).targetlist) {
            let Some((place, by_value)) = column_of(&*(*index).indexinfo, (*target).expr.cast()) else {
                executor::malformed::<Rows>()
            };
            (*scan).custom_private = ffi::lappend_int((*scan).custom_private, place as c_int);
            (*scan).custom_private = ffi::lappend_int((*scan).custom_private, c_int::from(by_value));
        }
        scan.cast()
    }
}

/// What the node works with.
pub struct Rows {
    below: Below,
    estate: *mut EState,
    /// Whether the scan goes against the index's order.
    is_backward: bool,
    row: RowColumns,
    stage: Stage,
}

/// How rows are had.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing has been read.
    Fresh,
    /// From the pages of the index.
    Pages,
    /// From the scan below, as conditions have to be looked at again.
    Rechecked,
}

impl Work for Rows {
    const NAME: &CStr = c"FpbtreeRows";

    fn methods() -> (&'static CustomScanMethods, &'static CustomExecMethods) {
        static SCAN: PerBackend<CustomScanMethods> = PerBackend::new(executor::scan_methods::<Rows>());
        static EXEC: PerBackend<CustomExecMethods> = PerBackend::new(executor::exec_methods::<Rows>());
        (&SCAN, &EXEC)
    }

    unsafe fn begin(node: &mut CustomScanState, plan: &CustomScan, below: Below) -> Rows {
        // SAFETY: a plan of ours, with pairs of integers; the node below has begun.
        unsafe {
            let mut numbers = list::integers(plan.custom_private);
            let pairs = core::iter::from_fn(|| Some((numbers.next()? as usize, numbers.next()? as u8)));
            let Some(row) = RowColumns::of(pairs) else { executor::malformed::<Rows>() };
            let (_, direction) = below.child.plan();
            let is_backward = direction == ScanDirection::BackwardScanDirection;
            Rows { below, estate: node.ss.ps.state, is_backward, row, stage: Stage::Fresh }
        }
    }

    fn below(&mut self) -> &mut Below {
        &mut self.below
    }

    unsafe fn next_row(&mut self, slot: &mut TupleTableSlot, _context: *mut ExprContext) -> bool {
        // SAFETY: the node has begun, and its slot has the row's columns. No frame here owns a destructor.
        unsafe {
            if self.next_at_hand(slot) {
                return true;
            }
            let is_there = self.next_elsewhere(slot);
            if is_there && self.stage == Stage::Pages {
                ffi::ExecStoreVirtualTuple(slot);
            }
            is_there
        }
    }

    #[inline(always)]
    unsafe fn next_at_hand(&mut self, slot: &mut TupleTableSlot) -> bool {
        if self.stage != Stage::Pages {
            return false;
        }
        // SAFETY: the node has begun, and its slot has the row's columns. The slot may own what it had before.
        unsafe {
            if u32::from(slot.tts_flags) & pg_sys::TTS_FLAG_SHOULDFREE != 0 {
                ffi::clear_slot(slot);
            }
            let is_there = pages::step_in_page(self.below.child.scan(), self.direction(), &mut self.row, slot);
            if is_there {
                ffi::fill_slot(slot);
            }
            is_there
        }
    }

    fn restart(&mut self) {
        self.stage = Stage::Fresh;
    }

    unsafe fn mark(&mut self) {
        // SAFETY: the node below has begun.
        unsafe {
            match self.stage {
                Stage::Fresh => {}
                Stage::Rechecked => ffi::ExecMarkPos(self.below.child.node()),
                Stage::Pages => pages::mark(self.below.child.scan()),
            }
        }
    }

    unsafe fn restore(&mut self) {
        // SAFETY: the node below has begun.
        unsafe {
            match self.stage {
                Stage::Fresh => {}
                Stage::Rechecked => ffi::ExecRestrPos(self.below.child.node()),
                Stage::Pages => pages::restore(self.below.child.scan()),
            }
        }
    }
}

impl Rows {
    /// The direction that the scan goes now, of a cursor maybe against the plan's.
    #[inline]
    fn direction(&self) -> ScanDirection::Type {
        // SAFETY: the executor's state, which outlives the node.
        let asked = unsafe { (*self.estate).es_direction };
        match (asked == ScanDirection::BackwardScanDirection) != self.is_backward {
            true => ScanDirection::BackwardScanDirection,
            false => ScanDirection::ForwardScanDirection,
        }
    }

    /// The next row, wherever it is.
    #[cold]
    unsafe fn next_elsewhere(&mut self, slot: &mut TupleTableSlot) -> bool {
        // SAFETY: the node below has begun, and its scan is ours alone.
        unsafe {
            if self.stage == Stage::Fresh {
                self.below.child.prepare();
                let rechecks = pages::rechecks(self.below.child.scan());
                self.stage = if rechecks { Stage::Rechecked } else { Stage::Pages };
            }
            if self.stage == Stage::Rechecked {
                let row = self.below.next_row();
                let is_there = !ffi::is_empty(row);
                if is_there {
                    ffi::copy_slot(slot, row);
                }
                return is_there;
            }
            let (direction, row) = (self.direction(), &mut self.row);
            self.below.measured(|below| {
                let before = below.visibility.seen;
                let found = pages::step(below.child.scan(), direction, &mut below.visibility, row, slot);
                (found, below.visibility.seen - before)
            })
        }
    }
}
