//! CREATE INDEX and REINDEX: entries collected by the heap scan, in parallel workers where the server grants them, sorted,
//! loaded bottom up.

use core::ffi::{c_char, c_int, c_void};
use core::mem::MaybeUninit;

use fpbtree_engine::format::{Block, Geometry, META, PageBytes, ROOT, Tid};
use fpbtree_engine::page::{Bytes, Entry, Meta};
use fpbtree_engine::sort::{BytesSorter, Filed, LaneSorter, Sorter};
use fpbtree_engine::tree::load::{Loader, Pages};
use pgrx::PgSqlErrorCode::{ERRCODE_FEATURE_NOT_SUPPORTED, ERRCODE_INTERNAL_ERROR, ERRCODE_SUCCESSFUL_COMPLETION};
use pgrx::pg_sys::{self, Datum, ForkNumber::MAIN_FORKNUM, IndexBuildResult, IndexInfo, Relation, TableScanDesc};
use pgrx::{PgLogLevel, pg_guard};

use crate::am::sort::{Files, SortMemory};
use crate::am::unique::{Watch, refuse_build};
use crate::pg::errors::Name;
use crate::pg::memory::{self, allocate};
use crate::pg::options::OnUniqueIndex;
use crate::pg::{errors, ffi, options, relation};
use crate::storage::index::Index;
use crate::storage::own_wal;
use crate::values::column;
use crate::values::keys::{Keyed, with_keys};

mod pages;
mod parallel;
mod parts;

use pages::{NewFile, WholeFile};
use parallel::Team;

/// Phases that `pg_stat_progress_create_index` names, as btree numbers and names its own. The server's first phase is 1;
/// 4 would be the sort of dead rows, which are sorted with the others here.
const PHASE_SCAN: i64 = 2;
const PHASE_SORT: i64 = 3;
const PHASE_LOAD: i64 = 5;

/// The `ambuildphasename` callback.
#[pg_guard]
pub unsafe extern "C-unwind" fn ambuildphasename(phase: i64) -> *mut c_char {
    let name = match phase {
        1 => c"initializing",
        PHASE_SCAN => c"scanning table",
        PHASE_SORT => c"sorting live tuples",
        PHASE_LOAD => c"loading tuples in tree",
        _ => return core::ptr::null_mut(),
    };
    name.as_ptr().cast_mut()
}

/// A key space whose entries a build can sort.
trait Sorted: Keyed + Filed {
    /// What sorts them.
    type Sorter: Sorter<Self, Host = SortMemory, Files = Files>;
}

impl Sorted for u32 {
    type Sorter = LaneSorter<'static, u32, SortMemory, Files>;
}

impl Sorted for u64 {
    type Sorter = LaneSorter<'static, u64, SortMemory, Files>;
}

impl Sorted for u128 {
    type Sorter = LaneSorter<'static, u128, SortMemory, Files>;
}

impl Sorted for Bytes {
    type Sorter = BytesSorter<'static, SortMemory, Files>;
}

/// What is built, and of what.
#[derive(Clone, Copy)]
struct Target {
    heap: Relation,
    rel: Relation,
    info: *mut IndexInfo,
}

/// What the heap scan's callback is given.
struct Collector<K: Sorted> {
    columns: K::Columns,
    sorter: K::Sorter,
}

impl<K: Sorted> Collector<K> {
    /// One that keeps to `memory` bytes.
    ///
    /// # Safety
    /// `rel` is the open index; the current memory context outlives the collector. May raise.
    unsafe fn new(rel: Relation, memory: usize, files: Files) -> Self {
        // SAFETY: an open index, and memory that outlives what is collected there.
        unsafe {
            let columns = K::new_columns(rel);
            Collector { columns, sorter: K::Sorter::new(SortMemory::current(), files, memory) }
        }
    }

    /// Collects the entries of a table, or of a share in a scan of it.
    ///
    /// # Safety
    /// As `ambuild` is called. May raise, and runs user code.
    unsafe fn scan(&mut self, target: Target, share: Option<TableScanDesc>, progress: bool) -> Scanned {
        let Target { heap, rel, info } = target;
        // SAFETY: by this function's contract; the callback is given the collector it expects.
        let heap_tuples = unsafe {
            let state = (&raw mut *self).cast();
            relation::table_index_build_scan(heap, rel, info, progress, Some(collect::<K>), state, share)
        };
        Scanned { heap_tuples, entries: self.sorter.total() }
    }
}

/// The `ambuild` callback.
#[pg_guard]
pub unsafe extern "C-unwind" fn ambuild(heap: Relation, rel: Relation, info: *mut IndexInfo) -> *mut IndexBuildResult {
    // SAFETY: called by the server, with an open, empty index of ours that it has locked.
    unsafe {
        if ffi::RelationGetNumberOfBlocksInFork(rel, MAIN_FORKNUM) != 0 {
            errors::raise(
                ERRCODE_INTERNAL_ERROR,
                format_args!("index \"{}\" already contains data", Name(rel)),
                None,
                None,
            );
        }
        let index = new_index(rel);
        if (*info).ii_Unique && !ffi::ReindexIsProcessingIndex((*rel).rd_id) {
            announce_unique(heap, rel);
        }
        let target = Target { heap, rel, info };
        let scanned = with_keys!(index.kind, K => build::<K>(target, index));
        let result: *mut IndexBuildResult = ffi::palloc0(size_of::<IndexBuildResult>()).cast();
        (*result).heap_tuples = scanned.heap_tuples;
        (*result).index_tuples = scanned.entries as f64;
        result
    }
}

/// Says what a unique index that is not btree's does to `INSERT … ON CONFLICT` before 18, or refuses it for that.
unsafe fn announce_unique(heap: Relation, rel: Relation) {
    if cfg!(feature = "pg18") {
        return;
    }
    let (level, sqlstate, will) = match options::on_unique_index() {
        OnUniqueIndex::Silent => return,
        OnUniqueIndex::Notice => (PgLogLevel::NOTICE, ERRCODE_SUCCESSFUL_COMPLETION, "will"),
        OnUniqueIndex::Error => (PgLogLevel::ERROR, ERRCODE_FEATURE_NOT_SUPPORTED, "would"),
    };
    errors::report(
        level,
        sqlstate,
        format_args!(
            "INSERT … ON CONFLICT on table \"{}\" {will} fail while it has index \"{}\"",
            Name(heap),
            Name(rel)
        ),
        Some(format_args!(
            "Before version 18, PostgreSQL refuses it on a table with a unique index of another method than btree."
        )),
        Some(format_args!("Use a btree index, or an exclusion constraint with \"=\", where ON CONFLICT is needed.")),
    );
}

/// The `ambuildempty` callback: the init fork of an unlogged index.
#[pg_guard]
pub unsafe extern "C-unwind" fn ambuildempty(rel: Relation) {
    // SAFETY: called by the server, with an index that has no init fork yet. Meta page first, then the root.
    unsafe {
        let index = new_index(rel);
        relation::add_init_page(rel, &meta(rel, &index));
        with_keys!(index.kind, K => add_empty_root::<K>(rel, &index));
    }
}

/// Adds the root of an empty index to its init fork.
unsafe fn add_empty_root<K: Keyed>(rel: Relation, index: &Index) {
    // SAFETY: as `ambuildempty`.
    unsafe {
        let columns = K::new_columns(rel);
        let write = &mut |_: Block, page: &PageBytes| relation::add_init_page(rel, page);
        new_loader::<K>(100).finish(&index.geometry, K::order(&columns), write);
    }
}

/// What a new index of `rel`'s columns is, with a build id drawn at random. Raises if there can be none.
unsafe fn new_index(rel: Relation) -> Index {
    // SAFETY: an open index of ours.
    unsafe {
        column::refuse_unfit(rel);
        let (shape, _) = column::index_shape(rel);
        let mut id = [0u8; 8];
        if !pg_sys::pg_strong_random(id.as_mut_ptr().cast(), id.len()) {
            errors::raise(ERRCODE_INTERNAL_ERROR, format_args!("could not draw a random build id"), None, None);
        }
        let kind = shape.lane_kind();
        Index { kind, geometry: Geometry::choose(kind, u64::from_ne_bytes(id)), log: own_wal::kind_of_new() }
    }
}

/// The meta page of a new index.
unsafe fn meta(rel: Relation, index: &Index) -> PageBytes {
    // SAFETY: an open index of ours.
    let (shape, _) = unsafe { column::index_shape(rel) };
    Meta { shape, geometry: index.geometry, log: index.log }.page()
}

/// A loader in the current memory context.
unsafe fn new_loader<K: Keyed>(fill: usize) -> &'static mut Loader<K> {
    // SAFETY: new memory of the right size.
    unsafe {
        let memory = &mut *allocate::<MaybeUninit<Loader<K>>>(pg_sys::CurrentMemoryContext, 1, false);
        Loader::init(memory, fill);
        memory.assume_init_mut()
    }
}

/// What a heap scan came to.
#[derive(Clone, Copy)]
struct Scanned {
    heap_tuples: f64,
    entries: u64,
}

/// Scans, sorts, loads.
unsafe fn build<K: Sorted>(target: Target, index: Index) -> Scanned {
    // SAFETY: as `ambuild`. The collector lives in this frame and owns no destructor.
    unsafe {
        let room = pg_sys::maintenance_work_mem as usize * 1024;
        report_phase(PHASE_SCAN);
        let team = Team::call(target, &index);
        let mut collector = Collector::<K>::new(target.rel, room, Files::OWN);
        let scanned = match &team {
            Some(team) => team.work(target, room, &mut collector),
            None => collector.scan(target, None, true),
        };
        report_scanned(scanned.entries);
        let divided = match &team {
            Some(team) => parts::load(team, target, scanned.entries, &mut collector),
            None => false,
        };
        if !divided {
            load(target, &index, &mut collector);
        }
        if let Some(team) = team {
            team.dismiss();
        }
        scanned
    }
}

/// Loads the collected entries in order.
unsafe fn load<K: Sorted>(Target { heap, rel, info }: Target, index: &Index, collector: &mut Collector<K>) {
    // SAFETY: as `build`.
    unsafe {
        let (geometry, columns) = (&index.geometry, &collector.columns);
        let order = K::order(columns);
        let loader = new_loader::<K>(options::fillfactor(rel) as usize);
        let mut file = WholeFile::begin(rel);
        file.write(META, &meta(rel, index));
        let mut watch = (*info).ii_Unique.then(Watch::<K>::new);
        let mut loaded = 0u64;
        collector.sorter.drain(order, |entry| {
            let lives = !entry.tid.dead();
            if let Some(watch) = watch.as_mut().filter(|_| lives)
                && watch.repeats(rel, columns, entry)
            {
                refuse_build(rel, heap, columns, entry);
            }
            if loaded.is_multiple_of(REPORTED) {
                report_loaded(loaded);
            }
            let entry = Entry { tid: entry.tid.alive(), ..*entry };
            loader.add(geometry, order, &entry, &mut file);
            loaded += 1;
        });
        report_loaded(loaded);
        loader.finish(geometry, order, &mut file);
        file.end();
        memory::free(&raw mut *loader);
    }
}

/// Entries loaded between two reports of how many.
const REPORTED: u64 = 1 << 16;

/// Says that so many entries are loaded, which is the phase then: before the first one comes they are sorted.
fn report_loaded(entries: u64) {
    report([
        (pg_sys::PROGRESS_CREATEIDX_SUBPHASE, PHASE_LOAD),
        (pg_sys::PROGRESS_CREATEIDX_TUPLES_DONE, entries as i64),
    ]);
}

/// Says that the table was scanned, with so many entries, which are sorted now.
fn report_scanned(entries: u64) {
    report([
        (pg_sys::PROGRESS_CREATEIDX_SUBPHASE, PHASE_SORT),
        (pg_sys::PROGRESS_CREATEIDX_TUPLES_TOTAL, entries as i64),
        (pg_sys::PROGRESS_SCAN_BLOCKS_TOTAL, 0),
        (pg_sys::PROGRESS_SCAN_BLOCKS_DONE, 0),
    ]);
}

fn report_phase(phase: i64) {
    report([(pg_sys::PROGRESS_CREATEIDX_SUBPHASE, phase)]);
}

fn report<const N: usize>(progress: [(u32, i64); N]) {
    let (what, values) = (progress.map(|(what, _)| what as c_int), progress.map(|(_, value)| value));
    // SAFETY: shared memory of this backend's own; arrays of so many elements.
    unsafe { pg_sys::pgstat_progress_update_multi_param(N as c_int, what.as_ptr(), values.as_ptr()) };
}

/// Adds one heap tuple's entry. One that is there only for old snapshots is marked dead until the entry is loaded: it
/// does not count as a duplicate.
#[pg_guard]
unsafe extern "C-unwind" fn collect<K: Sorted>(
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

const _: () = assert!(META == 0 && ROOT == 1);
