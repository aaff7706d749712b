//! What the nodes have in common in the executor: an index scan below, and rows that they make of it.

use core::ffi::{CStr, c_int};

use pgrx::PgSqlErrorCode::ERRCODE_INTERNAL_ERROR;
use pgrx::pg_sys::panic::pgrx_extern_c_guard;
use pgrx::pg_sys::{
    self, CustomExecMethods, CustomScan, CustomScanMethods, CustomScanState, EState, ExplainState, ExprContext, List,
    Node, NodeTag, PlanState, ScanDirection, TupleTableSlot,
};

use super::child::Child;
use crate::am::scan::pages::Visibility;
use crate::pg::{errors, ffi, list, memory};

/// What a node does. It lives in the executor's memory, and has no destructor.
pub(super) trait Work: Sized {
    /// What the node is called in plans.
    const NAME: &CStr;

    /// The server's tables of the node's functions, made by [`scan_methods`] and [`exec_methods`].
    fn methods() -> (&'static CustomScanMethods, &'static CustomExecMethods);

    /// Begins, with a scan below that is initialised.
    ///
    /// # Safety
    /// Called by the executor, whose memory is current. May raise.
    unsafe fn begin(node: &mut CustomScanState, plan: &CustomScan, below: Below) -> Self;

    /// The scan below.
    fn below(&mut self) -> &mut Below;

    /// Puts the next row into an empty slot; `false` at the end.
    ///
    /// # Safety
    /// Called by the executor. Memory that is made for a row is the context's. May raise, and runs user code.
    unsafe fn next_row(&mut self, slot: &mut TupleTableSlot, context: *mut ExprContext) -> bool;

    /// Puts the next row into a slot that holds the last one, if that takes no more than to look it up; `false` changes
    /// nothing. Without the guard: it does not panic.
    ///
    /// # Safety
    /// Called by the executor.
    #[inline(always)]
    unsafe fn next_at_hand(&mut self, _slot: &mut TupleTableSlot) -> bool {
        false
    }

    /// Goes back to the beginning; the scan below has been.
    fn restart(&mut self);

    /// Notes the place, or goes back to the one noted last. Only of nodes that say they can.
    ///
    /// # Safety
    /// The node below has begun.
    unsafe fn mark(&mut self) {}

    /// As for [`mark`](Self::mark).
    ///
    /// # Safety
    /// The node below has begun, and a place was noted.
    unsafe fn restore(&mut self) {}

    /// Says in EXPLAIN what there is to say.
    ///
    /// # Safety
    /// The plan's relations are locked. May raise.
    unsafe fn explain(&mut self, _state: *mut ExplainState) {}
}

/// The scan below a node, and how its rows are looked up.
pub(super) struct Below {
    pub child: Child,
    pub visibility: Visibility,
}

/// The node's state, of which the server knows the beginning.
#[repr(C)]
struct State<W> {
    custom: CustomScanState,
    /// Null until the node has begun.
    work: *mut W,
}

/// How plans with the node are run.
pub(super) const fn scan_methods<W: Work>() -> CustomScanMethods {
    CustomScanMethods { CustomName: W::NAME.as_ptr(), CreateCustomScanState: Some(create::<W>) }
}

/// What the executor calls.
pub(super) const fn exec_methods<W: Work>() -> CustomExecMethods {
    CustomExecMethods {
        CustomName: W::NAME.as_ptr(),
        BeginCustomScan: Some(begin::<W>),
        ExecCustomScan: Some(execute::<W>),
        EndCustomScan: Some(end::<W>),
        ReScanCustomScan: Some(rescan::<W>),
        MarkPosCustomScan: Some(mark::<W>),
        RestrPosCustomScan: Some(restore::<W>),
        EstimateDSMCustomScan: None,
        InitializeDSMCustomScan: None,
        ReInitializeDSMCustomScan: None,
        InitializeWorkerCustomScan: None,
        ShutdownCustomScan: None,
        ExplainCustomScan: Some(explain::<W>),
    }
}

/// Raises an error about a plan that is not what the planner made.
#[cold]
pub(super) fn malformed<W: Work>() -> ! {
    let name = W::NAME.to_str().unwrap_or_default();
    errors::raise(ERRCODE_INTERNAL_ERROR, format_args!("plan of {name} is malformed"), None, None)
}

unsafe extern "C-unwind" fn create<W: Work>(_plan: *mut CustomScan) -> *mut Node {
    // SAFETY: new memory of the right size, zeroed.
    unsafe {
        let state: *mut State<W> = ffi::palloc0(size_of::<State<W>>()).cast();
        (*state).custom.ss.ps.type_ = NodeTag::T_CustomScanState;
        (*state).custom.methods = W::methods().1;
        state.cast()
    }
}

/// Begins the scan below, which opens index and table, then the node.
unsafe extern "C-unwind" fn begin<W: Work>(node: *mut CustomScanState, estate: *mut EState, flags: c_int) {
    // SAFETY: called by the executor, with a plan of ours; its memory is current.
    let begin = || unsafe {
        let plan: *mut CustomScan = (*node).ss.ps.plan.cast();
        let Some(below) = list::members((*plan).custom_plans).next() else { malformed::<W>() };
        let below: *mut PlanState = ffi::ExecInitNode(below, estate, flags);
        (*node).custom_ps = list::of([below]);
        let Some(child) = Child::of(below) else { malformed::<W>() };
        let visibility = Visibility::new(child.table_slot(), (*estate).es_query_cxt);
        let work: *mut W = memory::allocate((*estate).es_query_cxt, 1, false);
        work.write(W::begin(&mut *node, &*plan, Below { child, visibility }));
        (*node.cast::<State<W>>()).work = work;
    };
    // SAFETY: the guard of every callback.
    unsafe { pgrx_extern_c_guard(begin) }
}

unsafe fn work<'w, W: Work>(node: *mut CustomScanState) -> &'w mut W {
    // SAFETY: the node has begun, and nobody else holds it.
    unsafe { &mut *(*node.cast::<State<W>>()).work }
}

/// The next row that passes the plan's conditions, as the plan wants it. Not guarded itself: `next_row` is, and most rows of
/// some nodes are at hand, for which the guard would cost as much as the work.
unsafe extern "C-unwind" fn execute<W: Work>(node: *mut CustomScanState) -> *mut TupleTableSlot {
    // SAFETY: called by the executor, with a node that has begun. No frame here owns a destructor.
    unsafe {
        let scan = &raw mut (*node).ss;
        if (*scan).ps.qual.is_null() && (*scan).ps.ps_ProjInfo.is_null() {
            errors::check_for_interrupts();
            let slot = (*scan).ss_ScanTupleSlot;
            if work::<W>(node).next_at_hand(&mut *slot) {
                return slot;
            }
        }
        ffi::ExecScan(scan, next_row::<W>, is_still_right)
    }
}

/// Rows that are locked and looked at again are below none of these nodes.
unsafe extern "C-unwind" fn is_still_right(_node: *mut pg_sys::ScanState, _slot: *mut TupleTableSlot) -> bool {
    true
}

/// The next row, or an empty slot.
unsafe extern "C-unwind" fn next_row<W: Work>(node: *mut pg_sys::ScanState) -> *mut TupleTableSlot {
    // SAFETY: called by `execute`'s server function. No frame here owns a destructor.
    let next = || unsafe {
        let slot = (*node).ss_ScanTupleSlot;
        ffi::clear_slot(slot);
        work::<W>(node.cast()).next_row(&mut *slot, (*node).ps.ps_ExprContext);
        slot
    };
    // SAFETY: the guard of every callback.
    unsafe { pgrx_extern_c_guard(next) }
}

/// Goes back to the beginning, with conditions that may have changed.
unsafe extern "C-unwind" fn rescan<W: Work>(node: *mut CustomScanState) {
    // SAFETY: called by the executor, with a node that has begun.
    let rescan = || unsafe {
        let work = work::<W>(node);
        let child = work.below().child.node();
        if !(*node).ss.ps.chgParam.is_null() {
            ffi::UpdateChangedParamSet(child, (*node).ss.ps.chgParam);
        }
        ffi::ExecReScan(child);
        work.restart();
        ffi::ExecScanReScan(&raw mut (*node).ss);
    };
    // SAFETY: the guard of every callback.
    unsafe { pgrx_extern_c_guard(rescan) }
}

unsafe extern "C-unwind" fn mark<W: Work>(node: *mut CustomScanState) {
    // SAFETY: called by the executor, with a node that has begun; the guard of every callback.
    unsafe { pgrx_extern_c_guard(|| work::<W>(node).mark()) }
}

unsafe extern "C-unwind" fn restore<W: Work>(node: *mut CustomScanState) {
    // SAFETY: called by the executor, with a node that has begun; the guard of every callback.
    unsafe { pgrx_extern_c_guard(|| work::<W>(node).restore()) }
}

/// Gives back what the node holds.
unsafe extern "C-unwind" fn end<W: Work>(node: *mut CustomScanState) {
    // SAFETY: called by the executor, with a node that has begun.
    let end = || unsafe {
        let below = work::<W>(node).below();
        below.visibility.map.release();
        ffi::ExecEndNode(below.child.node());
    };
    // SAFETY: the guard of every callback.
    unsafe { pgrx_extern_c_guard(end) }
}

unsafe extern "C-unwind" fn explain<W: Work>(
    node: *mut CustomScanState,
    _ancestors: *mut List,
    state: *mut ExplainState,
) {
    // SAFETY: called by EXPLAIN, with a node that has begun; the guard of every callback.
    unsafe { pgrx_extern_c_guard(|| work::<W>(node).explain(state)) }
}

/// Says in EXPLAIN by how many of the index's first columns rows are grouped.
///
/// # Safety
/// The plan's relations are locked. May raise.
pub(super) unsafe fn explain_group(child: Child, depth: usize, state: *mut ExplainState) {
    // SAFETY: the caller's.
    unsafe {
        let (index, _) = child.plan();
        let names = list::of((0..depth).map(|column| ffi::get_attname(index, column as i16 + 1, false)));
        if !names.is_null() {
            ffi::ExplainPropertyList(c"Group Key".as_ptr(), names, state);
        }
    }
}

impl Below {
    /// Runs what reads the scan below by the page and says how many rows it found; EXPLAIN (ANALYZE) says so of that node.
    ///
    /// # Safety
    /// The node below has not ended. May raise.
    pub unsafe fn measured<T>(&mut self, read: impl FnOnce(&mut Self) -> (T, u64)) -> T {
        // SAFETY: the caller's.
        unsafe {
            let instrument = (*self.child.node()).instrument;
            if instrument.is_null() {
                return read(self).0;
            }
            let before = self.visibility.fetched;
            ffi::InstrStartNode(instrument);
            let (result, rows) = read(self);
            ffi::InstrStopNode(instrument, rows as f64);
            (*instrument).ntuples2 += (self.visibility.fetched - before) as f64;
            result
        }
    }

    /// The next row of the scan below, by itself; empty or null at the end.
    ///
    /// # Safety
    /// The node below has not ended. May raise, and runs user code.
    pub unsafe fn next_row(&mut self) -> *mut TupleTableSlot {
        let child = self.child.node();
        // SAFETY: the caller's.
        unsafe { (*child).ExecProcNode.map_or(core::ptr::null_mut(), |next| next(child)) }
    }

    /// The row before the one that the scan below is at, as a cursor that goes backwards has it.
    ///
    /// # Safety
    /// As for [`next_row`](Self::next_row). The direction is the executor's until an error ends that.
    pub unsafe fn previous_row(&mut self) -> *mut TupleTableSlot {
        // SAFETY: the caller's; the executor's state outlives the node.
        unsafe {
            let direction = &raw mut (*(*self.child.node()).state).es_direction;
            let before = direction.replace(ScanDirection::BackwardScanDirection);
            let row = self.next_row();
            direction.write(before);
            row
        }
    }
}
