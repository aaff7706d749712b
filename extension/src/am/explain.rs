//! What EXPLAIN (ANALYZE) says of reads ahead, from PostgreSQL 18 on: there an extension may add to a node's lines.

use core::cell::Cell;
use core::ffi::c_char;

use pgrx::pg_guard;
use pgrx::pg_sys::{
    self, BitmapIndexScanState, ExplainFormat, ExplainState, IndexOnlyScanState, IndexScanDesc, IndexScanState, List,
    NodeTag, PlanState,
};

use crate::am::functions::opened;
use crate::am::scan;
use crate::pg::per_backend::PerBackend;

/// The hook that was there before ours.
static NEXT: PerBackend<Cell<pg_sys::explain_per_node_hook_type>> = PerBackend::new(Cell::new(None));

/// Hooks in. Called when the library is loaded, after all that may fail.
pub fn register() {
    // SAFETY: at library load.
    unsafe {
        NEXT.set(pg_sys::explain_per_node_hook);
        pg_sys::explain_per_node_hook = Some(explain);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn explain(
    node: *mut PlanState,
    ancestors: *mut List,
    relationship: *const c_char,
    plan_name: *const c_char,
    state: *mut ExplainState,
) {
    // SAFETY: called by EXPLAIN, with a node of the plan it explains.
    unsafe {
        if let Some(next) = NEXT.get() {
            next(node, ancestors, relationship, plan_name, state);
        }
        let Some(scan) = scan_of(node).filter(|_| (*state).analyze) else { return };
        if !opened::is_ours((*scan).indexRelation) {
            return;
        }
        let counts = scan::counts(scan);
        let counted = [
            (c"Prefetched Pages", c"requested", counts.requested),
            (c"Prefetched Pages Cached", c"cached", counts.cached),
            (c"Prefetched Pages Used", c"used", counts.used),
            (c"Prefetched Pages Wasted", c"wasted", counts.wasted),
        ];
        if (*state).format != ExplainFormat::EXPLAIN_FORMAT_TEXT {
            for (name, _, count) in counted {
                pg_sys::ExplainPropertyUInteger(name.as_ptr(), core::ptr::null(), count, state);
            }
        } else if counts.requested > 0 {
            pg_sys::ExplainIndentText(state);
            pg_sys::appendStringInfoString((*state).str_, c"Prefetch:".as_ptr());
            for (_, name, count) in counted {
                pg_sys::appendStringInfo((*state).str_, c" %s=%llu".as_ptr(), name.as_ptr(), count);
            }
            pg_sys::appendStringInfoChar((*state).str_, b'\n' as c_char);
        }
    }
}

/// The index scan of a node that has one and has run.
unsafe fn scan_of(node: *mut PlanState) -> Option<IndexScanDesc> {
    // SAFETY: the node is what its tag says.
    let scan = unsafe {
        match (*node).type_ {
            NodeTag::T_IndexScanState => (*node.cast::<IndexScanState>()).iss_ScanDesc,
            NodeTag::T_IndexOnlyScanState => (*node.cast::<IndexOnlyScanState>()).ioss_ScanDesc,
            NodeTag::T_BitmapIndexScanState => (*node.cast::<BitmapIndexScanState>()).biss_ScanDesc,
            _ => return None,
        }
    };
    (!scan.is_null()).then_some(scan)
}
