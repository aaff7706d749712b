//! What a build's heap scan collects: the entries of a table's rows, in a sorter.

use core::ffi::c_void;

use fpbtree_engine::format::Tid;
use fpbtree_engine::page::Entry;
use fpbtree_engine::sort::Sorter;
use pgrx::pg_guard;
use pgrx::pg_sys::{self, Datum, IndexInfo, Relation, TableScanDesc};

use crate::am::sort::{Files, SortMemory, Sortable};
use crate::pg::relation;

/// What is built, and of what.
#[derive(Clone, Copy)]
pub(super) struct BuildTarget {
    pub heap: Relation,
    pub rel: Relation,
    pub info: *mut IndexInfo,
}

/// What the heap scan's callback is given.
pub(super) struct Collector<K: Sortable> {
    pub columns: K::Columns,
    pub sorter: K::Sorter,
}

impl<K: Sortable> Collector<K> {
    /// One that keeps to `memory` bytes.
    ///
    /// # Safety
    /// `rel` is the open index; the current memory context outlives the collector. May raise.
    pub(super) unsafe fn new(rel: Relation, memory: usize, files: Files) -> Self {
        // SAFETY: `rel` is open, and the current memory context outlives the collector.
        unsafe {
            let columns = K::new_columns(rel);
            Collector { columns, sorter: K::Sorter::new(SortMemory::current(), files, memory) }
        }
    }

    /// Collects the entries of a table, or of a share in a scan of it.
    ///
    /// # Safety
    /// The relations are open, and what `share` says is this process's to scan. May raise, and runs user code.
    pub(super) unsafe fn scan(&mut self, target: BuildTarget, share: Option<TableScanDesc>, progress: bool) -> Scanned {
        let BuildTarget { heap, rel, info } = target;
        // SAFETY: the relations are open; the callback is given the collector it expects.
        let heap_tuples = unsafe {
            let state = (&raw mut *self).cast();
            relation::table_index_build_scan(heap, rel, info, progress, Some(collect::<K>), state, share)
        };
        Scanned { heap_tuples, entries: self.sorter.total() }
    }
}

/// What a heap scan came to.
#[derive(Clone, Copy)]
pub(super) struct Scanned {
    pub heap_tuples: f64,
    pub entries: u64,
}

/// Adds one heap tuple's entry. One that is there only for old snapshots is marked dead until the entry is loaded: it
/// does not count as a duplicate.
#[pg_guard]
unsafe extern "C-unwind" fn collect<K: Sortable>(
    rel: Relation,
    tid: pg_sys::ItemPointer,
    values: *mut Datum,
    nulls: *mut bool,
    alive: bool,
    state: *mut c_void,
) {
    // SAFETY: called by the heap scan, with what `build` gave it.
    unsafe {
        let collector = &mut *state.cast::<Collector<K>>();
        let mut row = K::new_row();
        K::put_row(&collector.columns, rel, values, nulls, tid, &mut row);
        let entry = K::entry(&row);
        let dead = if alive { 0 } else { Tid::DEAD.into() };
        let entry = Entry { tid: Tid::from_raw(entry.tid.raw() | dead), ..entry };
        collector.sorter.add(&entry, K::order(&collector.columns));
    }
}
