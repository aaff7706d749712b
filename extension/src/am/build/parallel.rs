//! Builds in the server's parallel workers: the table's pages are dealt out to all who take part, and each sorts the
//! entries of its share and leaves them in files. All load the index of those [in parts](super::parts).

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};

use fpbtree_engine::sort::Sorter;
use pgrx::PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION;
use pgrx::pg_sys::{
    self, BufferUsage, ConditionVariable, IndexInfo, Oid, ParallelContext, ParallelTableScanDesc, Relation,
    SharedFileSet, Snapshot, WalUsage, dsm_segment, shm_toc,
};
use pgrx::{PgLogLevel, pg_guard};

use super::parts::{self, Part};
use super::{Collector, PHASE_SORT, Scanned, Sorted, Target, report_phase};
use crate::am::sort::Files;
use crate::pg::errors::Name;
use crate::pg::{errors, ffi};
use crate::storage::index::Index;
use crate::values::keys::with_keys;

/// Where a worker begins.
const LIBRARY: &CStr = c"$libdir/fpbtree";
const MAIN: &CStr = c"fpbtree_build_main";

/// What the memory of all who take part has, in the order it is asked for: [`Shared`], the parallel scan, a [`Share`] for
/// each of them, [`Part`]s of the index, what each worker logged and read, and the statement.
const SHARED: u64 = 0;
const SCAN: u64 = 1;
const SHARES: u64 = 2;
const PARTS: u64 = 3;
const WAL: u64 = 4;
const BUFFERS: u64 = 5;
const STATEMENT: u64 = 6;

/// Parts of the index for each participant, so that nobody waits long for the last one.
const PARTS_EACH: usize = 4;

/// What there is to do: sort, load the parts of the index, nothing.
const SORTING: u32 = 0;
const LOADING: u32 = 1;
const OVER: u32 = 2;

/// What the server aligns each of these to.
const ALIGNED: usize = pg_sys::ALIGNOF_BUFFER as usize;

/// What all who take part share.
#[repr(C)]
pub struct Shared {
    table: Oid,
    rel: Oid,
    pub(super) index: Index,
    concurrent: bool,
    /// How many take part if all workers come.
    participants: usize,
    files: UnsafeCell<SharedFileSet>,
    /// What there is to do.
    stage: AtomicU32,
    /// How many have done it.
    done: AtomicU32,
    /// Where the leader waits for the others to be done, and they wait for the next stage.
    changed: UnsafeCell<ConditionVariable>,
    /// Parts of the index, how many of them have been taken, and how many entries are loaded.
    pub(super) parts: AtomicUsize,
    pub(super) taken: AtomicUsize,
    pub(super) loaded: AtomicU64,
}

/// What one of them has done. All-zero bytes are nothing.
#[repr(C)]
#[derive(Clone, Copy)]
struct Share {
    scanned: Scanned,
    runs: usize,
    broken_hot_chain: bool,
}

/// The memory of all who take part, as one of them sees it.
#[derive(Clone, Copy)]
pub struct Workplace {
    pub(super) shared: *mut Shared,
    scan: ParallelTableScanDesc,
    shares: *mut Share,
    pub(super) parts: *mut Part,
    wal: *mut WalUsage,
    buffers: *mut BufferUsage,
    statement: *mut c_char,
}

impl Workplace {
    /// Of what `find` says to be there.
    fn of(find: impl Fn(u64) -> *mut c_void) -> Workplace {
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
    unsafe fn take_part<K: Sorted>(&self, participant: usize, target: Target, room: usize, progress: bool) {
        // SAFETY: as `ambuild`; the share is this participant's until it says that it is done. The collector lives in
        // this frame and owns no destructor.
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
    pub(super) unsafe fn take_over<K: Sorted>(&self, sorter: &mut K::Sorter) {
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
    unsafe fn wait(&self, is_so: impl Fn(&Shared) -> bool) {
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
        // SAFETY: by this function's contract.
        unsafe {
            self.wait(|shared| shared.stage.load(Acquire) != SORTING);
            (*self.shared).stage.load(Relaxed) == LOADING
        }
    }

    /// Goes on to another stage.
    unsafe fn go_on(&self, stage: u32) {
        // SAFETY: memory of all who take part.
        unsafe {
            (*self.shared).done.store(0, Relaxed);
            (*self.shared).stage.store(stage, Release);
            pg_sys::ConditionVariableBroadcast((*self.shared).changed.get());
        }
    }
}

/// The leader's side of a parallel build. Everything is given back by the transaction's end if an error comes before
/// [`dismiss`](Team::dismiss).
pub struct Team {
    context: *mut ParallelContext,
    snapshot: Snapshot,
    pub(super) work: Workplace,
    /// How many take part, the leader included.
    participants: usize,
}

impl Team {
    /// Launches as many workers as the server grants. `None` if it grants none.
    ///
    /// # Safety
    /// As `ambuild` is called. May raise.
    pub(super) unsafe fn call(target: Target, index: &Index) -> Option<Team> {
        let Target { heap, rel, info } = target;
        // SAFETY: by this function's contract.
        unsafe {
            let wanted = wanted_workers(heap, rel, info);
            if wanted == 0 {
                return None;
            }
            ffi::EnterParallelMode();
            let context = ffi::CreateParallelContext(LIBRARY.as_ptr(), MAIN.as_ptr(), wanted);
            let concurrent = (*info).ii_Concurrent;
            // Rows that only old snapshots see belong in an index, but for a concurrent build, which waits for those.
            let snapshot = if concurrent {
                ffi::RegisterSnapshot(ffi::GetTransactionSnapshot())
            } else {
                &raw mut pg_sys::SnapshotAnyData
            };
            let participants = wanted as usize + 1;
            let mut team = Team { context, snapshot, work: Workplace::of(|_| core::ptr::null_mut()), participants };
            if !team.share_memory(heap) {
                team.dismiss();
                return None;
            }
            team.fill_memory(heap, rel, index, concurrent);
            ffi::LaunchParallelWorkers(context);
            let launched = (*context).nworkers_launched;
            report_launched(rel, launched, wanted);
            team.participants = launched as usize + 1;
            if launched == 0 {
                team.dismiss();
                return None;
            }
            Some(team)
        }
    }

    /// How many parts there is room for.
    pub(super) fn most_parts(&self) -> usize {
        PARTS_EACH * self.participants
    }

    /// Makes the memory that all share. `false` if there is none to be had.
    unsafe fn share_memory(&mut self, heap: Relation) -> bool {
        // SAFETY: as `call`; what the server's macros do with the estimator.
        unsafe {
            let workers = (*self.context).nworkers as usize;
            let statement = statement().to_bytes_with_nul();
            let sizes = [
                size_of::<Shared>(),
                ffi::table_parallelscan_estimate(heap, self.snapshot),
                self.participants * size_of::<Share>(),
                self.most_parts() * size_of::<Part>(),
                workers * size_of::<WalUsage>(),
                workers * size_of::<BufferUsage>(),
                statement.len(),
            ];
            let estimator = &mut (*self.context).estimator;
            estimator.space_for_chunks += sizes.iter().map(|size| size.next_multiple_of(ALIGNED)).sum::<usize>();
            estimator.number_of_keys += sizes.len();
            ffi::InitializeParallelDSM(self.context);
            if (*self.context).seg.is_null() {
                return false;
            }
            let toc = (*self.context).toc;
            self.work = Workplace::of(|key| {
                let size = sizes[key as usize];
                let memory = ffi::shm_toc_allocate(toc, size);
                memory.write_bytes(0, size);
                ffi::shm_toc_insert(toc, key, memory);
                memory
            });
            self.work.statement.copy_from_nonoverlapping(statement.as_ptr().cast(), statement.len());
            true
        }
    }

    /// Writes what workers have to know.
    unsafe fn fill_memory(&self, heap: Relation, rel: Relation, index: &Index, concurrent: bool) {
        // SAFETY: as `call`; nobody else has seen the memory.
        unsafe {
            let shared = self.work.shared;
            (*shared).table = (*heap).rd_id;
            (*shared).rel = (*rel).rd_id;
            (*shared).index = *index;
            (*shared).concurrent = concurrent;
            (*shared).participants = self.participants;
            pg_sys::ConditionVariableInit((*shared).changed.get());
            ffi::SharedFileSetInit((*shared).files.get(), (*self.context).seg);
            ffi::table_parallelscan_initialize(heap, self.work.scan, self.snapshot);
        }
    }

    /// Takes part as the workers do, waits for them, and gives all that was left to `collector`.
    ///
    /// # Safety
    /// As `ambuild` is called, with what was given to [`call`](Team::call). May raise, and runs user code.
    pub(super) unsafe fn work<K: Sorted>(&self, target: Target, room: usize, collector: &mut Collector<K>) -> Scanned {
        // SAFETY: by this function's contract; shares are their participants' until all are done.
        unsafe {
            let own = self.participants - 1;
            self.work.take_part::<K>(own, target, room / self.participants, true);
            // A worker that could not start would never be done: this raises an error then.
            ffi::WaitForParallelWorkersToAttach(self.context);
            self.wait_for_all();
            self.work.take_over::<K>(&mut collector.sorter);
            let mut sum = Scanned { heap_tuples: 0.0, entries: 0 };
            for participant in 0..self.participants {
                let share = *self.work.shares.add(participant);
                sum.heap_tuples += share.scanned.heap_tuples;
                sum.entries += share.scanned.entries;
                (*target.info).ii_BrokenHotChain |= share.broken_hot_chain;
            }
            sum
        }
    }

    /// Waits until all have done what there is to do.
    ///
    /// # Safety
    /// This process has done it, too. May raise.
    pub(super) unsafe fn wait_for_all(&self) {
        // SAFETY: by this function's contract.
        unsafe { self.work.wait(|shared| shared.done.load(Acquire) as usize == self.participants) };
    }

    /// Lets all load the parts, of which there are so many.
    ///
    /// # Safety
    /// All have left their entries, and it is written what the parts are.
    pub(super) unsafe fn divide(&self, parts: usize) {
        // SAFETY: by this function's contract.
        unsafe {
            (*self.work.shared).parts.store(parts, Relaxed);
            self.work.go_on(LOADING);
        }
    }

    /// Lets the workers go.
    ///
    /// # Safety
    /// No file that a participant left is used any more. May raise.
    pub(super) unsafe fn dismiss(self) {
        // SAFETY: by this function's contract.
        unsafe {
            if !self.work.shared.is_null() {
                self.work.go_on(OVER);
            }
            ffi::WaitForParallelWorkersToFinish(self.context);
            for worker in 0..(*self.context).nworkers_launched as usize {
                ffi::InstrAccumParallelQuery(self.work.buffers.add(worker), self.work.wal.add(worker));
            }
            if (*self.snapshot).snapshot_type == pg_sys::SnapshotType::SNAPSHOT_MVCC {
                ffi::UnregisterSnapshot(self.snapshot);
            }
            ffi::DestroyParallelContext(self.context);
            ffi::ExitParallelMode();
        }
    }
}

/// What waiting processes are shown to wait for: the same as with btree.
const WAIT: u32 = pg_sys::WaitEventIPC::WAIT_EVENT_PARALLEL_CREATE_INDEX_SCAN;

/// How many workers to ask for: as many as for btree. Before 17 the server itself asks for that only for btree.
#[cfg(any(feature = "pg15", feature = "pg16"))]
unsafe fn wanted_workers(heap: Relation, rel: Relation, _info: *mut IndexInfo) -> c_int {
    // SAFETY: as `ambuild`.
    unsafe {
        // An empty table may just have been truncated by this transaction; the server asks for no workers there.
        if ffi::RelationGetNumberOfBlocksInFork(heap, pg_sys::ForkNumber::MAIN_FORKNUM) == 0 {
            return 0;
        }
        ffi::plan_create_index_workers((*heap).rd_id, (*rel).rd_id)
    }
}

/// How many workers to ask for.
#[cfg(any(feature = "pg17", feature = "pg18"))]
unsafe fn wanted_workers(_heap: Relation, _rel: Relation, info: *mut IndexInfo) -> c_int {
    // SAFETY: as `ambuild`.
    unsafe { (*info).ii_ParallelWorkers }
}

/// The statement that is running; nothing if there is none.
unsafe fn statement<'s>() -> &'s CStr {
    // SAFETY: null, or the server's own C string of this statement.
    unsafe {
        let statement = pg_sys::debug_query_string;
        if statement.is_null() { c"" } else { CStr::from_ptr(statement) }
    }
}

fn report_launched(rel: Relation, launched: c_int, wanted: c_int) {
    let workers = if launched == 1 { "worker" } else { "workers" };
    errors::report(
        PgLogLevel::DEBUG1,
        ERRCODE_SUCCESSFUL_COMPLETION,
        format_args!("launched {launched} parallel {workers} to build index \"{}\" (planned: {wanted})", Name(rel)),
        None,
        None,
    );
}

/// A worker of a parallel build.
///
/// # Safety
/// Called by the server in a parallel worker that [`Team::call`] has launched.
#[pg_guard]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fpbtree_build_main(segment: *mut dsm_segment, toc: *mut shm_toc) {
    // SAFETY: by this function's contract.
    unsafe {
        let work = Workplace::of(|key| ffi::shm_toc_lookup(toc, key, false));
        if *work.statement != 0 {
            pg_sys::debug_query_string = work.statement;
        }
        ffi::pgstat_report_activity(pg_sys::BackendState::STATE_RUNNING, pg_sys::debug_query_string);
        let shared = &*work.shared;
        ffi::SharedFileSetAttach(shared.files.get(), segment);
        // The leader has these, and its workers get them beside it.
        let (table_lock, index_lock) = if shared.concurrent {
            (pg_sys::ShareUpdateExclusiveLock, pg_sys::RowExclusiveLock)
        } else {
            (pg_sys::ShareLock, pg_sys::AccessExclusiveLock)
        };
        let heap = ffi::table_open(shared.table, table_lock as c_int);
        let rel = ffi::index_open(shared.rel, index_lock as c_int);
        let info = ffi::BuildIndexInfo(rel);
        (*info).ii_Concurrent = shared.concurrent;
        ffi::InstrStartParallelQuery();
        let worker = pg_sys::ParallelWorkerNumber as usize;
        let room = pg_sys::maintenance_work_mem as usize * 1024 / shared.participants;
        let target = Target { heap, rel, info };
        with_keys!(shared.index.kind, K => {
            work.take_part::<K>(worker, target, room, false);
            parts::help::<K>(&work, target, room);
        });
        ffi::InstrEndParallelQuery(work.buffers.add(worker), work.wal.add(worker));
        ffi::index_close(rel, index_lock as c_int);
        ffi::table_close(heap, table_lock as c_int);
    }
}
