//! The index scan below a node of ours.

use pgrx::pg_sys::{
    self, IndexOnlyScanState, IndexOptInfo, IndexPath, IndexScanDesc, IndexScanState, List, Node, NodeTag, Oid,
    PlanState, PlannerInfo, RelOptInfo, Relation, RestrictInfo, ScanDirection, TupleTableSlot,
};

use crate::am::handler;
use crate::pg::{ffi, list};

/// The state of an index scan or an index-only scan that the server has initialised.
#[derive(Clone, Copy)]
pub(super) enum Child {
    Plain(*mut IndexScanState),
    IndexOnly(*mut IndexOnlyScanState),
}

/// Reads or writes a field that both kinds have under a prefix of their own.
macro_rules! either {
    ($child:expr, $node:ident => $plain:expr, $only:expr) => {
        match $child {
            Child::Plain(node) => {
                let $node = &mut *node;
                $plain
            }
            Child::IndexOnly(node) => {
                let $node = &mut *node;
                $only
            }
        }
    };
}

impl Child {
    /// The state of a node, if it is of an index scan.
    ///
    /// # Safety
    /// A node that is initialised.
    pub unsafe fn of(node: *mut PlanState) -> Option<Child> {
        // SAFETY: the node is what its tag says.
        match unsafe { (*node).type_ } {
            NodeTag::T_IndexScanState => Some(Child::Plain(node.cast())),
            NodeTag::T_IndexOnlyScanState => Some(Child::IndexOnly(node.cast())),
            _ => None,
        }
    }

    /// The node.
    pub fn node(self) -> *mut PlanState {
        match self {
            Child::Plain(node) => node.cast(),
            Child::IndexOnly(node) => node.cast(),
        }
    }

    /// The index, unless the plan is only explained.
    ///
    /// # Safety
    /// The node has not ended.
    pub unsafe fn index(self) -> Relation {
        // SAFETY: the caller's.
        unsafe { either!(self, node => node.iss_RelationDesc, node.ioss_RelationDesc) }
    }

    /// The index, as the plan has it, and which way the plan goes through it.
    ///
    /// # Safety
    /// The node has not ended.
    pub unsafe fn plan(self) -> (Oid, ScanDirection::Type) {
        // SAFETY: the caller's; a plan is what its node says.
        unsafe {
            let plan = (*self.node()).plan;
            match self {
                Child::Plain(_) => {
                    let plan = &*plan.cast::<pg_sys::IndexScan>();
                    (plan.indexid, plan.indexorderdir)
                }
                Child::IndexOnly(_) => {
                    let plan = &*plan.cast::<pg_sys::IndexOnlyScan>();
                    (plan.indexid, plan.indexorderdir)
                }
            }
        }
    }

    /// A slot for rows of the table.
    ///
    /// # Safety
    /// The node has not ended.
    pub unsafe fn table_slot(self) -> *mut TupleTableSlot {
        // SAFETY: the caller's.
        unsafe { either!(self, node => node.ss.ss_ScanTupleSlot, node.ioss_TableSlot) }
    }

    /// The scan of the index, begun by [`prepare`](Self::prepare).
    ///
    /// # Safety
    /// The node has not ended.
    pub unsafe fn scan(self) -> IndexScanDesc {
        // SAFETY: the caller's.
        unsafe { either!(self, node => node.iss_ScanDesc, node.ioss_ScanDesc) }
    }

    /// Begins the scan of the index as the node would, with its conditions, if it has not been.
    ///
    /// # Safety
    /// The node has not ended, and nothing is read of the scan. May raise, and runs user code.
    pub unsafe fn prepare(self) {
        // SAFETY: the caller's.
        unsafe {
            let is_ready = either!(self, node =>
                node.iss_NumRuntimeKeys == 0 || node.iss_RuntimeKeysReady,
                node.ioss_NumRuntimeKeys == 0 || node.ioss_RuntimeKeysReady
            );
            if !is_ready {
                ffi::ExecReScan(self.node());
            }
            if !self.scan().is_null() {
                return;
            }
            let (keys, key_count, order_bys, order_by_count) = either!(self, node =>
                (node.iss_ScanKeys, node.iss_NumScanKeys, node.iss_OrderByKeys, node.iss_NumOrderByKeys),
                (node.ioss_ScanKeys, node.ioss_NumScanKeys, node.ioss_OrderByKeys, node.ioss_NumOrderByKeys)
            );
            let (heap, snapshot) = either!(self, node => (node.ss.ss_currentRelation, (*node.ss.ps.state).es_snapshot),
                                      (node.ss.ss_currentRelation, (*node.ss.ps.state).es_snapshot));
            #[cfg(not(feature = "since_18"))]
            let scan = ffi::index_beginscan(heap, self.index(), snapshot, key_count, order_by_count);
            #[cfg(feature = "pg18")]
            let scan = {
                let counts = either!(self, node => &raw mut node.iss_Instrument, &raw mut node.ioss_Instrument);
                ffi::index_beginscan(heap, self.index(), snapshot, counts, key_count, order_by_count)
            };
            #[cfg(feature = "pg19")]
            let scan = {
                let counts = either!(self, node => node.iss_Instrument, node.ioss_Instrument);
                let flags = ffi::scan_flags(self.node().cast());
                ffi::index_beginscan(heap, self.index(), snapshot, counts, key_count, order_by_count, flags)
            };
            match self {
                Child::Plain(node) => (*node).iss_ScanDesc = scan,
                Child::IndexOnly(node) => {
                    (*node).ioss_ScanDesc = scan;
                    (*scan).xs_want_itup = true;
                }
            }
            ffi::index_rescan(scan, keys, key_count, order_bys, order_by_count);
        }
    }
}

/// Whether a path [decides what it has](decides_its_own), of which nothing comes from another table.
///
/// # Safety
/// The planner's.
pub(super) unsafe fn is_exact(path: &IndexPath) -> bool {
    // SAFETY: the planner's.
    path.path.param_info.is_null() && unsafe { decides_its_own(path) }
}

/// Whether a path is of an index of ours, and decides all conditions that it has, without a comparison of rows among them:
/// those are looked at again.
///
/// # Safety
/// The planner's.
pub(super) unsafe fn decides_its_own(path: &IndexPath) -> bool {
    // SAFETY: the planner's.
    unsafe {
        let mut clauses = list::members::<pg_sys::IndexClause>(path.indexclauses);
        let decides = |clause: &pg_sys::IndexClause| {
            list::members::<RestrictInfo>(clause.indexquals)
                .all(|condition| (*(*condition).clause.cast::<Node>()).type_ != NodeTag::T_RowCompareExpr)
        };
        handler::is_ours(&*path.indexinfo)
            && path.indexorderbys.is_null()
            && clauses.all(|clause| !(*clause).lossy && decides(&*clause))
    }
}

/// The conditions on a path's table that the path does not have.
///
/// # Safety
/// The planner's.
pub(super) unsafe fn undecided(path: &IndexPath) -> impl Iterator<Item = *mut RestrictInfo> {
    // SAFETY: the planner's.
    unsafe {
        let clauses = path.indexclauses;
        list::members::<RestrictInfo>((*path.indexinfo).indrestrictinfo).filter(move |&condition| {
            !list::members::<pg_sys::IndexClause>(clauses).any(|clause| (*clause).rinfo == condition)
        })
    }
}

/// Whether a path [is exact](is_exact) and there is no other condition.
///
/// # Safety
/// The planner's.
pub(super) unsafe fn decides_all(path: &IndexPath) -> bool {
    // SAFETY: the planner's.
    unsafe { is_exact(path) && undecided(path).next().is_none() }
}

/// The index scans and index-only scans that the server would make of an index alone, by one process and by several.
///
/// # Safety
/// The planner's. May raise.
pub(super) unsafe fn scans_of(
    root: *mut PlannerInfo,
    table: *mut RelOptInfo,
    index: *mut IndexOptInfo,
) -> [*mut List; 2] {
    // SAFETY: the planner's. What is put in another's place is put back, unless an error ends the planning.
    unsafe {
        let rel = &mut *table;
        let (indexes, paths, partial) = (rel.indexlist, rel.pathlist, rel.partial_pathlist);
        let has_bitmaps = (*index).amhasgetbitmap;
        rel.indexlist = list::of([index]);
        (rel.pathlist, rel.partial_pathlist) = (core::ptr::null_mut(), core::ptr::null_mut());
        (*index).amhasgetbitmap = false;
        ffi::create_index_paths(root, rel);
        let found = [rel.pathlist, rel.partial_pathlist];
        (rel.indexlist, rel.pathlist, rel.partial_pathlist) = (indexes, paths, partial);
        (*index).amhasgetbitmap = has_bitmaps;
        found.map(|paths| {
            list::of(list::members::<IndexPath>(paths).filter(|&path| (*path).path.type_ == NodeTag::T_IndexPath))
        })
    }
}
