//! A worker of a parallel build.

use core::ffi::c_int;

use pgrx::pg_guard;
use pgrx::pg_sys::{self, dsm_segment, shm_toc};

use super::collector::BuildTarget;
use super::parts;
use super::workplace::Workplace;
use crate::pg::ffi;
use crate::values::keys::with_keys;

/// A worker of a parallel build.
///
/// # Safety
/// Called by the server in a parallel worker that [`Team::call`] has launched.
#[pg_guard]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fpbtree_build_main(segment: *mut dsm_segment, toc: *mut shm_toc) {
    // SAFETY: the memory is the leader's, which is there until all workers have ended.
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
        let target = BuildTarget { heap, rel, info };
        with_keys!(shared.index.kind, K => {
            work.take_part::<K>(worker, target, room, false);
            parts::help::<K>(&work, target, room);
        });
        ffi::InstrEndParallelQuery(work.buffers.add(worker), work.wal.add(worker));
        ffi::index_close(rel, index_lock as c_int);
        ffi::table_close(heap, table_lock as c_int);
    }
}
