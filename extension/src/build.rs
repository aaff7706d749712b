//! CREATE INDEX and REINDEX: entries collected by the heap scan, sorted, loaded bottom up.

use core::ffi::{c_char, c_void};
use core::mem::MaybeUninit;

use fpbtree_engine::key::Lane;
use fpbtree_engine::page::{Geometry, LogKind, Meta};
use fpbtree_engine::store::{Block, META, PageBytes, ROOT};
use fpbtree_engine::tree::load::Loader;
use pgrx::PgSqlErrorCode::ERRCODE_INTERNAL_ERROR;
use pgrx::pg_guard;
use pgrx::pg_sys::{self, Buffer, Datum, ForkNumber::MAIN_FORKNUM, IndexBuildResult, IndexInfo, Relation};

use crate::index::{Index, with_lane};
use crate::memory::{self, allocate};
use crate::server::{self, Name, raw};
use crate::sort::{Sortable, Sorter};
use crate::{column, options};

/// Phases that `pg_stat_progress_create_index` names. The server's own first phase is 1.
const PHASE_SCAN: i64 = 2;
const PHASE_LOAD: i64 = 3;

/// The `ambuildphasename` callback.
#[pg_guard]
pub unsafe extern "C-unwind" fn ambuildphasename(phase: i64) -> *mut c_char {
    let name = match phase {
        1 => c"initializing",
        PHASE_SCAN => c"scanning table",
        PHASE_LOAD => c"sorting and loading entries in index",
        _ => return core::ptr::null_mut(),
    };
    name.as_ptr().cast_mut()
}

/// What the heap scan's callback is given.
struct Collector<L: Sortable> {
    index: Index,
    sorter: Sorter<L>,
}

/// The `ambuild` callback.
#[pg_guard]
pub unsafe extern "C-unwind" fn ambuild(heap: Relation, rel: Relation, info: *mut IndexInfo) -> *mut IndexBuildResult {
    // SAFETY: called by the server, with an open, empty index of ours that it has locked.
    unsafe {
        if raw::RelationGetNumberOfBlocksInFork(rel, MAIN_FORKNUM) != 0 {
            server::raise(
                ERRCODE_INTERNAL_ERROR,
                format_args!("index \"{}\" already contains data", Name(rel)),
                None,
                None,
            );
        }
        let index = new_index(rel);
        let (heap_tuples, entries) = with_lane!(index.shape.lane_kind(), L => build::<L>(heap, rel, info, index));
        let result: *mut IndexBuildResult = raw::palloc0(size_of::<IndexBuildResult>()).cast();
        (*result).heap_tuples = heap_tuples;
        (*result).index_tuples = entries as f64;
        result
    }
}

/// The `ambuildempty` callback: the init fork of an unlogged index.
#[pg_guard]
pub unsafe extern "C-unwind" fn ambuildempty(rel: Relation) {
    // SAFETY: called by the server, with an index that has no init fork yet. Meta page first, then the root.
    unsafe {
        let index = new_index(rel);
        server::add_init_page(rel, &meta(&index));
        with_lane!(index.shape.lane_kind(), L => {
            new_loader::<L>(&index.geometry, 100).finish(&index.geometry, &mut |_, page| server::add_init_page(rel, page));
        });
    }
}

/// What a new index of `rel`'s columns is, with a build id drawn at random.
unsafe fn new_index(rel: Relation) -> Index {
    // SAFETY: an open index of ours.
    unsafe {
        let shape = column::index_shape(rel);
        let mut id = [0u8; 8];
        if !pg_sys::pg_strong_random(id.as_mut_ptr().cast(), id.len()) {
            server::raise(ERRCODE_INTERNAL_ERROR, format_args!("could not draw a random build id"), None, None);
        }
        Index { shape, geometry: Geometry::choose(shape.lane_kind(), u64::from_ne_bytes(id)) }
    }
}

fn meta(index: &Index) -> PageBytes {
    Meta { shape: index.shape, geometry: index.geometry, log: LogKind::Generic }.page()
}

/// A loader in the current memory context.
unsafe fn new_loader<L: Lane>(geometry: &Geometry, fill: usize) -> &'static mut Loader<L> {
    // SAFETY: new memory of the right size.
    unsafe {
        let memory = &mut *allocate::<MaybeUninit<Loader<L>>>(pg_sys::CurrentMemoryContext, 1, false);
        Loader::init(memory, geometry, fill);
        memory.assume_init_mut()
    }
}

/// Scans, sorts, loads. Returns how many heap tuples and how many entries there were.
unsafe fn build<L: Sortable>(heap: Relation, rel: Relation, info: *mut IndexInfo, index: Index) -> (f64, u64) {
    // SAFETY: as `ambuild`. The collector lives in this frame and owns no destructor.
    unsafe {
        let room = pg_sys::maintenance_work_mem as usize * 1024;
        let mut collector = Collector::<L> { index, sorter: Sorter::new(room) };
        progress(PHASE_SCAN);
        let state = (&raw mut collector).cast();
        let heap_tuples = server::table_index_build_scan(heap, rel, info, Some(collect::<L>), state);
        let entries = collector.sorter.total();

        progress(PHASE_LOAD);
        pg_sys::pgstat_progress_update_param(pg_sys::PROGRESS_CREATEIDX_TUPLES_TOTAL as i32, entries as i64);
        let geometry = &index.geometry;
        let loader = new_loader::<L>(geometry, options::fillfactor(rel) as usize);
        let mut writer = Writer { rel, blocks: 0 };
        writer.write(META, &meta(&index));
        let mut reported = 0;
        collector.sorter.drain(&mut |lane, tail| {
            loader.add(geometry, lane, tail, &mut |block, page| {
                writer.write(block, page);
            });
            reported += 1;
            if reported % (1 << 16) == 0 {
                pg_sys::pgstat_progress_update_param(pg_sys::PROGRESS_CREATEIDX_TUPLES_DONE as i32, reported);
            }
        });
        loader.finish(geometry, &mut |block, page| writer.write(block, page));
        if server::needs_wal(rel) {
            raw::log_newpage_range(rel, MAIN_FORKNUM, META, writer.blocks, true);
        }
        memory::free(&raw mut *loader);
        (heap_tuples, entries)
    }
}

fn progress(phase: i64) {
    // SAFETY: shared memory of this backend's own.
    unsafe { pg_sys::pgstat_progress_update_param(pg_sys::PROGRESS_CREATEIDX_SUBPHASE as i32, phase) };
}

/// Adds one heap tuple's entry.
#[pg_guard]
unsafe extern "C-unwind" fn collect<L: Sortable>(
    rel: Relation,
    tid: pg_sys::ItemPointer,
    values: *mut Datum,
    nulls: *mut bool,
    _alive: bool,
    state: *mut c_void,
) {
    // SAFETY: called by the heap scan, with what `build` gave it.
    unsafe {
        let collector = &mut *state.cast::<Collector<L>>();
        let (lane, tail) = collector.index.key(rel, values, nulls, tid);
        collector.sorter.add(L::from_u128(lane), tail);
    }
}

/// Writes a new index's pages through shared buffers, unlogged: the build logs the whole file at its end.
struct Writer {
    rel: Relation,
    blocks: Block,
}

impl Writer {
    /// Writes a page; the file grows as far as that takes, the pages in between to be written later.
    unsafe fn write(&mut self, block: Block, page: &PageBytes) {
        // SAFETY: nobody else uses the file yet.
        unsafe {
            while self.blocks <= block {
                let buffer = raw::ReadBuffer(self.rel, server::P_NEW);
                raw::LockBuffer(buffer, pg_sys::BUFFER_LOCK_EXCLUSIVE as i32);
                if self.blocks == block {
                    fill(buffer, page);
                } else {
                    raw::UnlockReleaseBuffer(buffer);
                }
                self.blocks += 1;
                if self.blocks > block {
                    return;
                }
            }
            let buffer = raw::ReadBuffer(self.rel, block);
            raw::LockBuffer(buffer, pg_sys::BUFFER_LOCK_EXCLUSIVE as i32);
            fill(buffer, page);
        }
    }
}

/// Fills a locked page and gives it back.
unsafe fn fill(buffer: Buffer, page: &PageBytes) {
    // SAFETY: pinned and exclusively locked.
    unsafe {
        server::page(buffer).copy_from_nonoverlapping(page.as_ptr(), page.len());
        raw::MarkBufferDirty(buffer);
        raw::UnlockReleaseBuffer(buffer);
    }
}

const _: () = assert!(META == 0 && ROOT == 1);
