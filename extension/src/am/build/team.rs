//! Builds in the server's parallel workers: the table's pages are dealt out to all who take part, and each sorts the
//! entries of its share and leaves them in files. All load the index of those [in parts](super::parts).

use core::ffi::{CStr, c_int};
use core::sync::atomic::Ordering::{Acquire, Relaxed};

use pgrx::PgLogLevel;
use pgrx::PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION;
use pgrx::pg_sys::{self, BufferUsage, IndexInfo, ParallelContext, Relation, Snapshot, WalUsage};

use super::collector::{BuildTarget, Collector, Scanned};
use super::workplace::{LOADING, OVER, Part, Share, SharedBuild, Workplace};
use crate::am::sort::Sortable;
use crate::pg::errors::Name;
use crate::pg::{errors, ffi};
use crate::storage::index::Index;

/// Where a worker begins.
const LIBRARY: &CStr = c"$libdir/fpbtree";
const MAIN: &CStr = c"fpbtree_build_main";

/// Parts of the index for each participant, so that nobody waits long for the last one.
const PARTS_EACH: usize = 4;

/// What the server aligns each of these to.
const ALIGNED: usize = pg_sys::ALIGNOF_BUFFER as usize;

/// The leader's side of a parallel build. Everything is given back by the transaction's end if an error comes before
/// [`dismiss`](Team::dismiss).
pub(super) struct Team {
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
    pub(super) unsafe fn call(target: BuildTarget, index: &Index) -> Option<Team> {
        let BuildTarget { heap, rel, info } = target;
        // SAFETY: the relations are open and locked.
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
        // SAFETY: what the server's macros do with the estimator of a context that is not launched yet.
        unsafe {
            let workers = (*self.context).nworkers as usize;
            let statement = statement().to_bytes_with_nul();
            let sizes = [
                size_of::<SharedBuild>(),
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
        // SAFETY: the relations are open, and nobody else has seen the memory.
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
    pub(super) unsafe fn work<K: Sortable>(
        &self,
        target: BuildTarget,
        room: usize,
        collector: &mut Collector<K>,
    ) -> Scanned {
        // SAFETY: the relations are open; shares are their participants' until all are done.
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
        // SAFETY: the shared memory is there until the team is dismissed.
        unsafe { self.work.wait(|shared| shared.done.load(Acquire) as usize == self.participants) };
    }

    /// Lets all load the parts, of which there are so many.
    ///
    /// # Safety
    /// All have left their entries, and it is written what the parts are.
    pub(super) unsafe fn divide(&self, parts: usize) {
        // SAFETY: the shared memory is there until the team is dismissed, and nobody takes a part before the stage
        // changes.
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
        // SAFETY: the context and the snapshot are those that `call` made, and are not used any more.
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

/// How many workers to ask for: as many as for btree. Before 17 the server itself asks for that only for btree.
#[cfg(any(feature = "pg15", feature = "pg16"))]
unsafe fn wanted_workers(heap: Relation, rel: Relation, _info: *mut IndexInfo) -> c_int {
    // SAFETY: the relations are open.
    unsafe {
        // An empty table may just have been truncated by this transaction; the server asks for no workers there.
        if ffi::RelationGetNumberOfBlocksInFork(heap, pg_sys::ForkNumber::MAIN_FORKNUM) == 0 {
            return 0;
        }
        ffi::plan_create_index_workers((*heap).rd_id, (*rel).rd_id)
    }
}

/// How many workers to ask for.
#[cfg(not(any(feature = "pg15", feature = "pg16")))]
unsafe fn wanted_workers(_heap: Relation, _rel: Relation, info: *mut IndexInfo) -> c_int {
    // SAFETY: the server's description of the index that is being built.
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
