//! The memory that the leader and the workers of a parallel build share.

use core::cell::UnsafeCell;
use core::ffi::{c_char, c_void};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};

use fpbtree_engine::format::Block;
use fpbtree_engine::sort::Sorter;
use pgrx::pg_sys::{self, BufferUsage, ConditionVariable, Oid, ParallelTableScanDesc, SharedFileSet, WalUsage};

use super::collector::{BuildTarget, Collector, Scanned};
use super::pages::Piece;
use super::progress::{PHASE_SORT, report_phase};
use crate::am::sort::{Files, Sortable};
use crate::pg::ffi;
use crate::storage::index::Index;

/// What the memory of all who take part has, in the order it is asked for: [`SharedBuild`], the parallel scan, a
/// [`Share`] for each of them, [`Part`]s of the index, what each worker logged and read, and the statement.
const SHARED: u64 = 0;
const SCAN: u64 = 1;
const SHARES: u64 = 2;
const PARTS: u64 = 3;
const WAL: u64 = 4;
const BUFFERS: u64 = 5;
const STATEMENT: u64 = 6;

/// What there is to do: sort, load the parts of the index, nothing.
pub(super) const SORTING: u32 = 0;
pub(super) const LOADING: u32 = 1;
pub(super) const OVER: u32 = 2;

/// What all who take part share.
#[repr(C)]
pub(super) struct SharedBuild {
    pub table: Oid,
    pub rel: Oid,
    pub index: Index,
    pub concurrent: bool,
    /// How many take part if all workers come.
    pub participants: usize,
    pub files: UnsafeCell<SharedFileSet>,
    /// What there is to do.
    pub stage: AtomicU32,
    /// How many have done it.
    pub done: AtomicU32,
    /// Where the leader waits for the others to be done, and they wait for the next stage.
    pub changed: UnsafeCell<ConditionVariable>,
    /// Parts of the index, how many of them have been taken, and how many entries are loaded.
    pub parts: AtomicUsize,
    pub taken: AtomicUsize,
    pub loaded: AtomicU64,
}

/// What one of them has done. All-zero bytes are nothing.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Share {
    pub scanned: Scanned,
    pub runs: usize,
    pub broken_hot_chain: bool,
}

/// A part of an index. All-zero bytes are one that nobody has taken.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Part {
    /// How many leaves it has, and the last one.
    pub leaves: usize,
    pub last: Block,
    /// Blocks it has taken and has no use for.
    pub spare: Piece,
    /// Whether it has an entry whose key may not be there again.
    pub repeats: bool,
}

/// The memory of all who take part, as one of them sees it.
#[derive(Clone, Copy)]
pub(super) struct Workplace {
    pub shared: *mut SharedBuild,
    pub scan: ParallelTableScanDesc,
    pub shares: *mut Share,
    pub parts: *mut Part,
    pub wal: *mut WalUsage,
    pub buffers: *mut BufferUsage,
    pub statement: *mut c_char,
}

impl Workplace {
    /// Of what `find` says to be there.
    pub(super) fn of(find: impl Fn(u64) -> *mut c_void) -> Workplace {
        Workplace {
            shared: find(SHARED).cast(),
            scan: find(SCAN).cast(),
            shares: find(SHARES).cast(),
            parts: find(PARTS).cast(),
            wal: find(WAL).cast(),
            buffers: find(BUFFERS).cast(),
            statement: find(STATEMENT).cast(),
        }
    }

    /// Where a participant leaves its runs.
    unsafe fn files_of(&self, participant: usize) -> Files {
        // SAFETY: the shared memory is there as long as anybody takes part.
        unsafe { Files::left(&raw mut (*(*self.shared).files.get()).fs, participant) }
    }

    /// Where something is left that is no participant's runs.
    pub(super) unsafe fn side_files(&self, number: usize) -> Files {
        // SAFETY: the shared memory is there as long as anybody takes part.
        unsafe { self.files_of((*self.shared).participants + number) }
    }

    /// Takes part: scans, sorts, and leaves the entries to the leader.
    pub(super) unsafe fn take_part<K: Sortable>(
        &self,
        participant: usize,
        target: BuildTarget,
        room: usize,
        progress: bool,
    ) {
        // SAFETY: the relations are open; the share is this participant's until it says that it is done. The collector
        // lives in this frame and owns no destructor.
        unsafe {
            let mut collector = Collector::<K>::new(target.rel, room, self.files_of(participant));
            let scan = ffi::table_beginscan_parallel(target.heap, self.scan);
            let scanned = collector.scan(target, Some(scan), progress);
            if progress {
                report_phase(PHASE_SORT);
            }
            let runs = collector.sorter.leave(K::order(&collector.columns));
            collector.sorter.close();
            let broken_hot_chain = (*target.info).ii_BrokenHotChain;
            *self.shares.add(participant) = Share { scanned, runs, broken_hot_chain };
            self.say_done();
        }
    }

    /// Gives `sorter` all that participants have left.
    pub(super) unsafe fn take_over<K: Sortable>(&self, sorter: &mut K::Sorter) {
        // SAFETY: shares are their participants' until all are done; those who did not come have left nothing.
        unsafe {
            for participant in 0..(*self.shared).participants {
                let runs = (*self.shares.add(participant)).runs;
                sorter.take_over(self.files_of(participant), runs);
            }
        }
    }

    /// Says that this participant has done what there is to do.
    pub(super) unsafe fn say_done(&self) {
        // SAFETY: memory of all who take part.
        unsafe {
            (*self.shared).done.fetch_add(1, Release);
            pg_sys::ConditionVariableBroadcast((*self.shared).changed.get());
        }
    }

    /// Waits until `is_so`.
    pub(super) unsafe fn wait(&self, is_so: impl Fn(&SharedBuild) -> bool) {
        // SAFETY: memory of all who take part.
        unsafe {
            let shared = &*self.shared;
            while !is_so(shared) {
                ffi::ConditionVariableSleep(shared.changed.get(), WAIT);
            }
            pg_sys::ConditionVariableCancelSleep();
        }
    }

    /// Waits until it is known whether the index is loaded in parts.
    ///
    /// # Safety
    /// In a worker. May raise.
    pub(super) unsafe fn is_divided(&self) -> bool {
        // SAFETY: the shared memory is there as long as anybody takes part.
        unsafe {
            self.wait(|shared| shared.stage.load(Acquire) != SORTING);
            (*self.shared).stage.load(Relaxed) == LOADING
        }
    }

    /// Goes on to another stage.
    pub(super) unsafe fn go_on(&self, stage: u32) {
        // SAFETY: memory of all who take part.
        unsafe {
            (*self.shared).done.store(0, Relaxed);
            (*self.shared).stage.store(stage, Release);
            pg_sys::ConditionVariableBroadcast((*self.shared).changed.get());
        }
    }
}

/// What waiting processes are shown to wait for: the same as with btree.
const WAIT: u32 = pg_sys::WaitEventIPC::WAIT_EVENT_PARALLEL_CREATE_INDEX_SCAN;
