//! Index scans: plain, index-only and bitmap, in both directions, by one process or several.

use core::ffi::c_int;

use fpbtree_engine::format::LaneKind;
use fpbtree_engine::scan::Direction;
use pgrx::pg_guard;
use pgrx::pg_sys::{self, IndexScanDesc, Relation, ScanDirection, ScanKey, TIDBitmap};

use self::conditions::Searched;
use self::state::ScanState;
use crate::pg::loan::Loan;
use crate::pg::{ffi, memory};
use crate::storage::index::Index;
#[cfg(feature = "since_18")]
use crate::storage::prefetch;
use crate::values::column;
use crate::values::keys::with_keys;

mod ahead;
mod bitmap;
mod bytes;
mod conditions;
mod exact;
mod hot;
mod lines;
mod marks;
pub mod pages;
pub mod parallel;
mod rows;
mod scan_keys;
mod state;
mod steps;

/// Runs the expression with `$state` the scan's state, of whatever lane it is.
macro_rules! with_state {
    ($scan:expr, $state:ident => $run:expr) => {
        // The kind comes first in every state, which is laid out as C has it (`state.rs`).
        with_keys!(*(*$scan).opaque.cast::<LaneKind>(), K => {
            let $state = &mut *(*$scan).opaque.cast::<ScanState<K>>();
            $run
        })
    };
}
use with_state;

/// The `amcanreturn` callback: index-only scans give back exactly what was stored. In recovery only if the index has
/// our own log: redo of generic records does not wait for the pins that make such scans safe. The planner asks it of
/// partitioned indexes, too, which have no pages to look at.
#[pg_guard]
pub unsafe extern "C-unwind" fn amcanreturn(rel: Relation, _column: c_int) -> bool {
    // SAFETY: called by the server, with an open index of ours.
    unsafe {
        let has_pages = (*(*rel).rd_rel).relkind as u8 == pg_sys::RELKIND_INDEX;
        let is_redone = has_pages && pg_sys::RecoveryInProgress();
        column::is_returnable(rel) && (!is_redone || Index::of(rel).log.is_own())
    }
}

/// The `ambeginscan` callback.
#[pg_guard]
pub unsafe extern "C-unwind" fn ambeginscan(rel: Relation, keys: c_int, order_bys: c_int) -> IndexScanDesc {
    // SAFETY: called by the server, with an open index of ours. Raw calls: no destructor here.
    unsafe {
        let scan = ffi::RelationGetIndexScan(rel, keys, order_bys);
        let index = Index::of(rel);
        with_keys!(index.kind, K => state::begin::<K>(scan, index));
        (*scan).xs_itupdesc = (*rel).rd_att;
        scan
    }
}

/// The `amrescan` callback.
#[pg_guard]
pub unsafe extern "C-unwind" fn amrescan(
    scan: IndexScanDesc,
    keys: ScanKey,
    key_count: c_int,
    _order_bys: ScanKey,
    _order_by_count: c_int,
) {
    // SAFETY: called by the server, with a scan that `ambeginscan` began.
    unsafe {
        if !keys.is_null() && (*scan).numberOfKeys > 0 && keys != (*scan).keyData {
            (*scan).keyData.copy_from(keys, key_count as usize);
        }
        with_state!(scan, state => {
            state.leave_page();
            state.unmark();
            state.stop_looking_ahead();
            state.positioned = false;
            K::select(&mut state.conditions, (*scan).indexRelation, scan_keys::of(&*scan));
            state.prefetch_hot();
        });
    }
}

/// The `amendscan` callback.
#[pg_guard]
pub unsafe extern "C-unwind" fn amendscan(scan: IndexScanDesc) {
    // SAFETY: called by the server, with a scan that `ambeginscan` began.
    unsafe {
        with_state!(scan, state => {
            state.leave_page();
            state.unmark();
            state.stop_looking_ahead();
            K::end(&mut state.conditions);
            memory::free(state.mark.copy);
            if let Some(ahead) = state.ahead.as_mut() {
                ahead.scout.end();
            }
            memory::free(state.ahead);
            Loan::give_back(state.loan);
        });
    }
}

/// The `amgettuple` callback. Not guarded itself: most calls only step to the next match of a page, which does not
/// panic, and for them the guard would cost as much as the work.
pub unsafe extern "C-unwind" fn amgettuple(scan: IndexScanDesc, direction: ScanDirection::Type) -> bool {
    // SAFETY: called by the server, with a scan that `amrescan` prepared.
    unsafe { with_state!(scan, state => state.next_in_page(&mut *scan, way(direction))) || next_match(scan, direction) }
}

pub(super) fn way(direction: ScanDirection::Type) -> Direction {
    if direction == ScanDirection::BackwardScanDirection { Direction::Backward } else { Direction::Forward }
}

/// Steps to the next match, wherever it is.
#[pg_guard]
unsafe extern "C-unwind" fn next_match(scan: IndexScanDesc, direction: ScanDirection::Type) -> bool {
    // SAFETY: called by `amgettuple`, with its arguments.
    unsafe { with_state!(scan, state => state.next(&mut *scan, way(direction))) }
}

/// The `amgetbitmap` callback.
#[pg_guard]
pub unsafe extern "C-unwind" fn amgetbitmap(scan: IndexScanDesc, bitmap: *mut TIDBitmap) -> i64 {
    // SAFETY: called by the server, with a scan that `amrescan` prepared.
    unsafe { with_state!(scan, state => state.fill_bitmap(&mut *scan, bitmap)) }
}

/// What a scan has asked for ahead so far. It asks for no more until it has to wait again.
///
/// # Safety
/// A scan of ours. May raise.
#[cfg(feature = "since_18")]
pub unsafe fn counts(scan: IndexScanDesc) -> prefetch::PrefetchCounts {
    // SAFETY: the scan is ours.
    unsafe { with_state!(scan, state => state.counts()) }
}

/// The `ammarkpos` callback.
#[pg_guard]
pub unsafe extern "C-unwind" fn ammarkpos(scan: IndexScanDesc) {
    // SAFETY: called by the server, with a scan that `amrescan` prepared.
    unsafe { with_state!(scan, state => state.set_mark()) };
}

/// The `amrestrpos` callback.
#[pg_guard]
pub unsafe extern "C-unwind" fn amrestrpos(scan: IndexScanDesc) {
    // SAFETY: called by the server, with a scan that `amrescan` prepared.
    unsafe { with_state!(scan, state => state.restore()) };
}
