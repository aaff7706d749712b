//! Runs the node. Below it is the server's own index-only scan, which has the conditions, the relations and, in a
//! parallel plan, its share of the work; but no row is taken from it, unless conditions have to be looked at again.

use core::ffi::{CStr, c_int};

use fpbtree_engine::keys::KeyShape;
use pgrx::pg_sys::{
    self, CustomExecMethods, CustomScan, CustomScanMethods, CustomScanState, EState, ExplainState, List, Node, NodeTag,
    PlanState, TupleTableSlot,
};
use pgrx::{PgSqlErrorCode::ERRCODE_INTERNAL_ERROR, pg_guard};

use super::groups::{Groups, LastRows, Progress};
use super::{MOST_ITEMS, Task, results};
use crate::am::nodes::child::Child;
use crate::am::scan::pages::{self, Visibility};
use crate::pg::per_backend::PerBackend;
use crate::pg::{errors, ffi, list, memory};
use crate::values::column::{self, ImageBuffer};

/// What the node is called in plans.
pub(super) const NAME: &CStr = c"FpbtreeAggregate";

pub(super) static SCAN: PerBackend<CustomScanMethods> =
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
    ExplainCustomScan: Some(explain),
});

/// Makes plans with the node known, so that parallel workers can read them.
pub(super) fn register() {
    // SAFETY: at library load.
    unsafe { ffi::RegisterCustomScanMethods(&*SCAN) };
}

/// The node's state, of which the server knows the beginning.
#[repr(C)]
struct State {
    custom: CustomScanState,
    /// The rest, once the node has begun.
    work: *mut Work,
}

/// What the node works with. No destructor.
struct Work {
    child: Child,
    task: Task,
    shape: Option<KeyShape>,
    groups: Groups,
    visibility: Visibility,
    stage: Stage,
    rooms: [ImageBuffer; MOST_ITEMS],
}

/// How far a scan has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing is read.
    Fresh,
    /// A page is there, of which rows may be left.
    InPage,
    /// No row is left.
    Over,
    /// The only row of a node that does not group has been given, too.
    Done,
}

/// The scan's state, for a plan that the server runs.
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
    // SAFETY: called by the executor, with a plan of `path`'s; its memory is current.
    unsafe {
        let plan: *mut CustomScan = (*node).ss.ps.plan.cast();
        let Some(child) = list::members((*plan).custom_plans).next() else { malformed() };
        let child: *mut PlanState = ffi::ExecInitNode(child, estate, flags);
        (*node).custom_ps = list::of([child]);
        let Some(task) = Task::of(list::integers((*plan).custom_private)) else { malformed() };
        let Some(child) = Child::of(child) else { malformed() };
        let rel = child.index();
        let work: *mut Work = memory::allocate((*estate).es_query_cxt, 1, true);
        (&raw mut (*work).child).write(child);
        (&raw mut (*work).task).write(task);
        // EXPLAIN alone does not open the index.
        (&raw mut (*work).shape).write(if rel.is_null() { None } else { column::exact_shape(rel) });
        (&raw mut (*work).groups).write(Groups::new(&task));
        (*work).visibility.slot = child.table_slot();
        (&raw mut (*work).stage).write(Stage::Fresh);
        (*node.cast::<State>()).work = work;
    }
}

#[cold]
fn malformed() -> ! {
    errors::raise(ERRCODE_INTERNAL_ERROR, format_args!("plan of FpbtreeAggregate is malformed"), None, None)
}

unsafe fn work<'w>(node: *mut CustomScanState) -> &'w mut Work {
    // SAFETY: the node has begun, and nobody else holds it.
    unsafe { &mut *(*node.cast::<State>()).work }
}

/// The next row that passes HAVING, as the plan wants it.
#[pg_guard]
unsafe extern "C-unwind" fn execute(node: *mut CustomScanState) -> *mut TupleTableSlot {
    // SAFETY: called by the executor, with a node that has begun.
    unsafe { ffi::ExecScan(&raw mut (*node).ss, next_row, is_still_right) }
}

/// Rows that are locked and looked at again are below no aggregate.
unsafe extern "C-unwind" fn is_still_right(_node: *mut pg_sys::ScanState, _slot: *mut TupleTableSlot) -> bool {
    true
}

/// The next group's row, or an empty slot.
#[pg_guard]
unsafe extern "C-unwind" fn next_row(node: *mut pg_sys::ScanState) -> *mut TupleTableSlot {
    // SAFETY: called by `execute`'s server function. No frame here owns a destructor.
    unsafe {
        let slot = (*node).ss_ScanTupleSlot;
        ffi::clear_slot(slot);
        let work = work(node.cast());
        if !work.next_group() {
            return slot;
        }
        let before = pg_sys::MemoryContextSwitchTo((*(*node).ps.ps_ExprContext).ecxt_per_tuple_memory);
        for (at, &item) in work.task.items().iter().enumerate() {
            let value = results::value(item, &work.groups, work.shape.as_ref(), &mut work.rooms[at]);
            *(*slot).tts_values.add(at) = value.unwrap_or(pg_sys::Datum::null());
            *(*slot).tts_isnull.add(at) = value.is_none();
        }
        pg_sys::MemoryContextSwitchTo(before);
        ffi::ExecStoreVirtualTuple(slot)
    }
}

impl Work {
    /// Adds up the next group; `false` if there is none. Without grouping there is one, even of no row.
    unsafe fn next_group(&mut self) -> bool {
        if self.stage == Stage::Done {
            return false;
        }
        self.groups.begin_group();
        // SAFETY: the scan below is ours alone; what is read of it was begun before.
        unsafe {
            if self.stage == Stage::Fresh {
                self.prepare();
            }
            loop {
                match self.stage {
                    Stage::InPage => match pages::visit(self.child.scan(), &mut self.groups) {
                        Progress::GroupEnds => return true,
                        Progress::PageEnds => {
                            self.jump();
                            self.read_page();
                        }
                    },
                    Stage::Fresh => self.read_page(),
                    Stage::Over | Stage::Done => break,
                }
            }
        }
        if !self.task.is_grouped {
            self.stage = Stage::Done;
        }
        !self.task.is_grouped || self.groups.rows() > 0
    }

    /// Begins the index's scan.
    unsafe fn prepare(&mut self) {
        // SAFETY: the node below has begun, and nothing is read of its scan.
        unsafe {
            self.child.prepare();
            if pages::rechecks(self.child.scan()) {
                self.count_rows();
            }
        }
    }

    /// Leaves out the middle of the group, if the plan says so and its first rows have said what they can.
    unsafe fn jump(&mut self) {
        let Some((group, true)) = self.groups.open_group().filter(|_| self.task.jumps) else { return };
        let (depth, wants_last) = (self.task.depth, self.groups.asks());
        let mut last = LastRows(&mut self.groups);
        let last = wants_last.then_some(&mut last);
        // SAFETY: the scan below is ours alone, at a page, and of one process.
        unsafe { pages::leave_group(self.child.scan(), group, depth, &mut self.visibility, last) };
    }

    /// Reads the next page, if there is one.
    unsafe fn read_page(&mut self) {
        // SAFETY: the node below has begun, and so has the index's scan.
        unsafe {
            let (instrument, is_first) = ((*self.child.node()).instrument, self.stage == Stage::Fresh);
            let (scan, before) = (self.child.scan(), self.visibility.fetched);
            if !instrument.is_null() {
                ffi::InstrStartNode(instrument);
            }
            errors::check_for_interrupts();
            let is_there = pages::read(scan, is_first, &mut self.visibility);
            if let Some(instrument) = instrument.as_mut() {
                let rows = if is_there { pages::visit(scan, Length) } else { 0 };
                ffi::InstrStopNode(instrument, rows as f64);
                instrument.ntuples2 += (self.visibility.fetched - before) as f64;
            }
            self.groups.begin_page();
            self.stage = if is_there { Stage::InPage } else { Stage::Over };
        }
    }

    /// Counts the rows of the node below, one by one. Exact lanes never need it, as only a comparison of rows is
    /// looked at again there, and of byte strings nothing is asked but how many there are.
    #[cold]
    unsafe fn count_rows(&mut self) {
        // SAFETY: the node below has begun.
        unsafe {
            let node = self.child.node();
            while !ffi::is_empty((*node).ExecProcNode.map_or(core::ptr::null_mut(), |next| next(node))) {
                self.groups.add_rows(1);
            }
            self.stage = Stage::Over;
        }
    }
}

/// How many rows a page has.
struct Length;

impl pages::Visitor for Length {
    type Out = usize;

    fn rows<L: fpbtree_engine::format::Lane>(
        self,
        _shape: &KeyShape,
        rows: fpbtree_engine::scan::Rows<'_, L>,
    ) -> usize {
        rows.len()
    }

    fn count(self, rows: usize) -> usize {
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

/// Says by which columns rows are grouped, and whether the middle of groups is left out.
#[pg_guard]
unsafe extern "C-unwind" fn explain(node: *mut CustomScanState, _ancestors: *mut List, state: *mut ExplainState) {
    // SAFETY: called by EXPLAIN, with a node that has begun; the relations of its plan are locked.
    unsafe {
        let work = work(node);
        let plan: *mut pg_sys::IndexOnlyScan = (*work.child.node()).plan.cast();
        let names = (0..work.task.depth).map(|column| ffi::get_attname((*plan).indexid, column as i16 + 1, false));
        let names = list::of(names);
        if !names.is_null() {
            ffi::ExplainPropertyList(c"Group Key".as_ptr(), names, state);
        }
        if work.task.jumps {
            ffi::ExplainPropertyBool(c"Group Ends Only".as_ptr(), true, state);
        }
    }
}
