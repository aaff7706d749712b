//! Entries of a statement's rows that are collected, to be inserted together: sorted, leaf by leaf (docs/protocols.md, 19).
//!
//! Nobody else sees the rows before the transaction commits, and the statement is over before that; so only this process
//! could miss their entries. Whatever of it may look at the index has them inserted first. If that fails, the transaction
//! that the rows are of must not commit, which the end of the statement sees to.

use core::cell::Cell;
use core::ffi::{c_int, c_void};

use fpbtree_engine::scan::{Direction, Everything};
use fpbtree_engine::sort::Sorter;
use fpbtree_engine::store::PageStore;
use fpbtree_engine::tree::{Batch, InsertOptions};
use pgrx::PgSqlErrorCode::{ERRCODE_IN_FAILED_SQL_TRANSACTION, ERRCODE_INTERNAL_ERROR};
use pgrx::pg_guard;
use pgrx::pg_sys::{
    self, CommandId, Datum, ExecutorStart_hook_type, HeapTupleHeaderData, IndexInfo, ItemPointer, MemoryContext, Oid,
    QueryDesc, Relation, Snapshot, SnapshotType, SubTransactionId, SubXactEvent, TransactionId, XactEvent,
};

use crate::am::sort::{Files, SortMemory, Sortable};
use crate::pg::errors::Name;
use crate::pg::per_backend::PerBackend;
use crate::pg::tid::heap_place;
use crate::pg::{errors, ffi, memory, options, relation};
use crate::storage::buffers::PgStore;
use crate::storage::index::Index;
use crate::storage::prefetch::{self, LeavesAhead, PrefetchCounts};
use crate::storage::recent_buffers;
use crate::storage::totals::{self, Count};
use crate::storage::tree::tree;
use crate::values::keys::with_keys;

/// Rows of a statement that are inserted one by one before others are collected: few have nothing to gain, and memory for a
/// sort costs something.
const ONE_BY_ONE: usize = 128;
/// So few collected entries were not worth it. Then as many rows times this are inserted one by one.
const FEW: u64 = 64;
const PAUSE: u32 = 64;
/// Entries between two times when memory is given back that comparison functions took.
const BETWEEN_RESETS: u32 = 256;
/// So many entries for each page of an index, and nearly all leaves get some: then they are asked for ahead.
const LEAST_A_LEAF: u64 = 2;
/// The least memory that sorting takes.
const LEAST_MEMORY: usize = 4 << 20;

/// What is collected for an index.
#[repr(C)]
struct Collected<K: Sortable> {
    head: Head,
    /// None as long as nothing is collected.
    sorter: Option<K::Sorter>,
}

/// What does not depend on how keys are made.
#[repr(C)]
struct Head {
    /// The one begun before.
    next: *mut Head,
    /// Where all of this is.
    context: MemoryContext,
    /// Memory that comparison functions take.
    scratch: MemoryContext,
    /// The index and its table, which the statement keeps open.
    rel: Relation,
    heap: Relation,
    /// The (sub)transaction that the rows are of, and the command.
    subtransaction: SubTransactionId,
    command: CommandId,
    entries: u64,
    /// Bytes of memory that it has, and the most that all may have together.
    memory: usize,
    most: usize,
    /// Rows that are to be inserted one by one.
    pause: u32,
    adds_versions: bool,
    /// Whether an insertion ended with an error: then entries are missing.
    is_broken: bool,
}

/// All that are there, the last one first, and the bytes they have.
static COLLECTED: PerBackend<Cell<*mut Head>> = PerBackend::new(Cell::new(core::ptr::null_mut()));
static MEMORY: PerBackend<Cell<usize>> = PerBackend::new(Cell::new(0));
static IS_REGISTERED: PerBackend<Cell<bool>> = PerBackend::new(Cell::new(false));
static PREVIOUS: PerBackend<Cell<ExecutorStart_hook_type>> = PerBackend::new(Cell::new(None));

/// What a statement has made of an index so far, in a pointer of its own.
enum Progress {
    /// So many rows.
    Rows(usize),
    /// It is not to collect.
    Never,
    Collects(*mut Head),
}

impl Progress {
    const NEVER: usize = ONE_BY_ONE + 1;

    unsafe fn of(info: &IndexInfo) -> Progress {
        match info.ii_AmCache.addr() {
            rows @ 0..=ONE_BY_ONE => Progress::Rows(rows),
            Self::NEVER => Progress::Never,
            _ => Progress::Collects(info.ii_AmCache.cast()),
        }
    }
}

/// Collects a row's entry, if the statement has had so many rows that it is worth it, and says whether it did.
///
/// # Safety
/// Called by the server for a row that has just been put into the table, with an open index of ours that is not asked
/// whether it is unique. May raise.
#[inline]
pub unsafe fn collect(
    (rel, index, heap): (Relation, &Index, Relation),
    info: *mut IndexInfo,
    (values, nulls, tid): (*const Datum, *const bool, ItemPointer),
    unchanged: bool,
) -> bool {
    // SAFETY: the server's description of the index is there as long as the statement.
    unsafe {
        let Some(info) = info.as_mut() else { return false };
        match Progress::of(info) {
            Progress::Rows(ONE_BY_ONE) => {
                info.ii_AmCache = begin(rel, index, heap, info);
                false
            }
            Progress::Rows(rows) => {
                info.ii_AmCache = core::ptr::without_provenance_mut(rows + 1);
                false
            }
            Progress::Never => false,
            Progress::Collects(head) if (*head).pause > 0 => {
                (*head).pause -= 1;
                false
            }
            Progress::Collects(head) => {
                if (*head).is_broken {
                    refuse(rel);
                }
                let Some(command) = command_of_row(heap, tid) else { return false };
                if (*head).entries > 0 && (*head).command != command {
                    insert(head);
                }
                (*head).command = command;
                (*head).adds_versions |= unchanged;
                with_keys!(index.kind, K => add::<K>(head.cast(), (values, nulls, tid)));
                if MEMORY.get() > (*head).most {
                    insert_all();
                }
                true
            }
        }
    }
}

/// The statement's progress once it has had enough rows: collecting, if it may.
#[cold]
unsafe fn begin(rel: Relation, index: &Index, heap: Relation, info: &IndexInfo) -> *mut c_void {
    // SAFETY: the relations are open.
    unsafe {
        let entry = &*(*rel).rd_index;
        let may_collect = options::insert_batch() > 0
            && !entry.indisunique
            && !entry.indisexclusion
            && info.ii_ExclusionOps.is_null()
            && (*(*heap).rd_rel).relam == pg_sys::HEAP_TABLE_AM_OID;
        if !may_collect {
            return core::ptr::without_provenance_mut(Progress::NEVER);
        }
        register();
        with_keys!(index.kind, K => new::<K>(rel, heap)).cast()
    }
}

/// Room for an index's entries, none of them collected.
unsafe fn new<K: Sortable>(rel: Relation, heap: Relation) -> *mut Head {
    // SAFETY: the context is there as long as the transaction, unless it is given back; every field is written.
    unsafe {
        let context = memory::child_context(pg_sys::TopTransactionContext, c"fpbtree insertions");
        let collected: *mut Collected<K> = memory::allocate(context, 1, false);
        collected.write(Collected {
            head: Head {
                next: COLLECTED.get(),
                context,
                scratch: memory::child_context(context, c"fpbtree comparisons"),
                rel,
                heap,
                subtransaction: pg_sys::GetCurrentSubTransactionId(),
                command: 0,
                entries: 0,
                memory: 0,
                most: options::insert_batch().max(LEAST_MEMORY),
                pause: 0,
                adds_versions: false,
                is_broken: false,
            },
            sorter: None,
        });
        COLLECTED.set(collected.cast());
        collected.cast()
    }
}

/// The command that put a row into the table, if it is this transaction's, and will be as long as that goes on: what ON
/// CONFLICT puts there on trial may be taken away again, and its place be given to another row.
unsafe fn command_of_row(heap: Relation, tid: ItemPointer) -> Option<CommandId> {
    // SAFETY: the row's page is pinned and locked while its header is read.
    unsafe {
        let own = pg_sys::GetCurrentTransactionIdIfAny();
        if own == TransactionId::INVALID {
            return None;
        }
        let (number, (block, offset)) = ((*heap).rd_id.to_u32(), heap_place(tid));
        let buffer = recent_buffers::recall(heap, number, block).unwrap_or_else(|| {
            let buffer = ffi::ReadBuffer(heap, block);
            recent_buffers::remember(number, block, buffer);
            buffer
        });
        // Who had it pinned alone before may move its tuples until the lock is there.
        ffi::LockBuffer(buffer, ffi::BUFFER_LOCK_SHARE as c_int);
        let page = relation::page(buffer);
        let command = if relation::has_tuple(page, offset) {
            command_of(&*relation::tuple(page, offset).cast::<HeapTupleHeaderData>(), own)
        } else {
            None
        };
        ffi::UnlockReleaseBuffer(buffer);
        command
    }
}

/// The same of a row's header.
unsafe fn command_of(row: &HeapTupleHeaderData, own: TransactionId) -> Option<CommandId> {
    // SAFETY: a heap tuple has these fields.
    let inserted = unsafe { row.t_choice.t_heap };
    let (flags, place) = (u32::from(row.t_infomask), u32::from(row.t_ctid.ip_posid));
    let is_frozen = flags & pg_sys::HEAP_XMIN_FROZEN == pg_sys::HEAP_XMIN_FROZEN;
    let is_collected =
        inserted.t_xmin == own && place != pg_sys::SpecTokenOffsetNumber && flags & pg_sys::HEAP_COMBOCID == 0;
    // SAFETY: without HEAP_COMBOCID it is the command.
    let command = unsafe { inserted.t_field3.t_cid };
    // Any snapshot sees a row that COPY has frozen.
    is_collected.then_some(if is_frozen { 0 } else { command })
}

/// Adds an entry.
// Not inlined: byte strings need a large frame, exact lanes do not.
#[inline(never)]
unsafe fn add<K: Sortable>(
    collected: *mut Collected<K>,
    (values, nulls, tid): (*const Datum, *const bool, ItemPointer),
) {
    // SAFETY: the index is open, and the server gives a value and a null flag for each of its columns.
    unsafe {
        let Collected { head, sorter } = &mut *collected;
        let columns = Index::columns::<K>(head.rel);
        let mut row = K::new_row();
        K::put_row(&columns, head.rel, values, nulls, tid, &mut row);
        // Room enough never to use a file.
        let room = 2 * head.most;
        let sorter = sorter.get_or_insert_with(|| K::Sorter::new(SortMemory::of(head.context), Files::OWN, room));
        // A comparison function may run statements that look at the index, which would take the sorter away.
        head.is_broken = true;
        let before = pg_sys::MemoryContextSwitchTo(head.scratch);
        sorter.add(&K::entry(&row), K::order(&columns));
        pg_sys::MemoryContextSwitchTo(before);
        ffi::MemoryContextReset(head.scratch);
        head.is_broken = false;
        head.entries += 1;
        let taken = sorter.memory() - head.memory;
        head.memory += taken;
        MEMORY.set(MEMORY.get() + taken);
    }
}

/// Inserts what is collected of an index. Raises an error if that failed before.
unsafe fn insert(head: *mut Head) {
    // SAFETY: the statement keeps the relations open.
    unsafe {
        if (*head).is_broken {
            refuse((*head).rel);
        }
        if (*head).entries == 0 {
            return;
        }
        (*head).is_broken = true;
        let kind = Index::of((*head).rel).kind;
        with_keys!(kind, K => insert_entries::<K>(head.cast()));
        if (*head).entries < FEW {
            (*head).pause = (*head).entries as u32 * PAUSE;
        }
        MEMORY.set(MEMORY.get() - (*head).memory);
        ((*head).entries, (*head).memory, (*head).adds_versions) = (0, 0, false);
        (*head).is_broken = false;
    }
}

#[inline(never)]
unsafe fn insert_entries<K: Sortable>(collected: *mut Collected<K>) {
    // SAFETY: the statement keeps the relations open. No frame here owns a destructor that does anything.
    unsafe {
        let Collected { head, sorter } = &mut *collected;
        let Some(mut sorter) = sorter.take() else { return };
        let before = pg_sys::MemoryContextSwitchTo(head.scratch);
        let index = Index::of(head.rel);
        let store = PgStore::for_insertion(head.rel, &index, head.heap);
        let columns = Index::columns::<K>(head.rel);
        let options = InsertOptions::filling(options::fillfactor(head.rel) as usize).adding_version(head.adds_versions);
        let tree = tree::<K>(&store, &index, &columns);
        let is_dense = head.entries >= LEAST_A_LEAF * u64::from(store.block_count());
        let distance = if is_dense { prefetch::distance(head.rel, prefetch::tablespace(head.rel), false) } else { 0 };
        let leaves: &mut LeavesAhead<K> = memory::zeroed_value(head.context);
        leaves.begin(distance);
        let (mut counts, mut misses) = (PrefetchCounts::default(), prefetch::misses());
        let mut ahead = |block, place: &K::OwnedKey| {
            let missed = core::mem::replace(&mut misses, prefetch::misses()) != misses;
            leaves.visit(block, missed, tree, &Everything, Direction::Forward, place, head.rel, &mut counts);
            misses = prefetch::misses();
        };
        let mut batch = Batch::new(tree, options, &mut ahead);
        let mut since_reset = 0;
        sorter.drain(K::order(&columns), |entry| {
            store.expect(batch.insert(entry));
            since_reset += 1;
            if since_reset == BETWEEN_RESETS {
                since_reset = 0;
                ffi::MemoryContextReset(head.scratch);
            }
        });
        store.expect(batch.finish());
        drop(batch);
        leaves.close(&mut counts);
        counts.add_to_session((*head.rel).rd_id);
        totals::add((*head.rel).rd_id.to_u32(), Count::Batches, &[1, head.entries]);
        memory::free(&raw mut *leaves);
        pg_sys::MemoryContextSwitchTo(before);
        ffi::MemoryContextReset(head.scratch);
    }
}

#[cold]
unsafe fn refuse(rel: Relation) -> ! {
    errors::raise(
        ERRCODE_IN_FAILED_SQL_TRANSACTION,
        format_args!("entries of index \"{}\" could not be inserted", Name(rel)),
        Some(format_args!("An error that was caught had ended their insertion.")),
        None,
    )
}

/// All that are there, the last one first.
fn all() -> impl Iterator<Item = *mut Head> {
    // SAFETY: those that are listed are there, and each says which is next.
    core::iter::successors(Some(COLLECTED.get()), |head| unsafe { head.as_ref() }.map(|head| head.next))
        .filter(|head| !head.is_null())
}

/// Inserts all that is collected of all indexes.
///
/// # Safety
/// Nothing is locked. May raise.
pub unsafe fn insert_all() {
    // SAFETY: their statements keep the relations open.
    all().for_each(|head| unsafe { insert(head) });
}

/// Inserts what is collected of an index and a snapshot may see, or any, if there is none.
///
/// # Safety
/// `rel` is an open index, of which nothing is locked; the snapshot is one, or null. May raise.
#[inline]
pub unsafe fn insert_what_is_seen(rel: Relation, snapshot: Snapshot) {
    if !COLLECTED.get().is_null() {
        // SAFETY: as for the caller.
        unsafe { insert_seen((*rel).rd_id, snapshot) };
    }
}

#[cold]
unsafe fn insert_seen(rel: Oid, snapshot: Snapshot) {
    // SAFETY: their statements keep the relations open. A snapshot sees no row that its own command, or a later one,
    // has put into the table.
    unsafe {
        let sees = |head: *mut Head| {
            snapshot.as_ref().is_none_or(|snapshot| {
                snapshot.snapshot_type != SnapshotType::SNAPSHOT_MVCC || (*head).command < snapshot.curcid
            })
        };
        all().filter(|&head| (*(*head).rel).rd_id == rel && sees(head)).for_each(|head| insert(head));
    }
}

/// The `aminsertcleanup` callback: the end of a statement, or of what it does to one table.
#[cfg(not(any(feature = "pg15", feature = "pg16")))]
#[pg_guard]
pub unsafe extern "C-unwind" fn aminsertcleanup(_rel: Relation, info: *mut IndexInfo) {
    // SAFETY: called by the server, with what it gave to the insertions.
    unsafe {
        if let Progress::Collects(head) = Progress::of(&*info) {
            insert(head);
            (*info).ii_AmCache = core::ptr::null_mut();
            forget(|other| other == head);
        }
    }
}

/// Gives back those of which `is_over` says so.
unsafe fn forget(is_over: impl Fn(*mut Head) -> bool) {
    // SAFETY: nobody uses them any more; the list goes on without them.
    unsafe {
        let mut link = COLLECTED.as_ptr();
        while let Some(head) = (*link).as_mut() {
            if is_over(head) {
                *link = head.next;
                MEMORY.set(MEMORY.get() - head.memory);
                ffi::MemoryContextDelete(head.context);
            } else {
                link = &raw mut head.next;
            }
        }
    }
}

/// Lets the server tell of the ends of transactions, and of queries that begin.
fn register() {
    if !IS_REGISTERED.get() {
        // SAFETY: functions that stay loaded; one thread.
        unsafe {
            ffi::RegisterXactCallback(Some(end_transaction), core::ptr::null_mut());
            ffi::RegisterSubXactCallback(Some(end_subtransaction), core::ptr::null_mut());
            PREVIOUS.set(pg_sys::ExecutorStart_hook);
            pg_sys::ExecutorStart_hook = Some(start_query);
            // Last: without memory for a callback nothing is collected. Twice does no harm.
            IS_REGISTERED.set(true);
        }
    }
}

/// A transaction ends: with all entries in their indexes, or without its rows.
#[pg_guard]
unsafe extern "C-unwind" fn end_transaction(event: XactEvent::Type, _context: *mut c_void) {
    match event {
        XactEvent::XACT_EVENT_PRE_COMMIT | XactEvent::XACT_EVENT_PRE_PREPARE if !COLLECTED.get().is_null() => {
            errors::raise(
                ERRCODE_INTERNAL_ERROR,
                format_args!("a statement that inserted rows has not ended with its transaction"),
                None,
                None,
            )
        }
        XactEvent::XACT_EVENT_ABORT => {
            // Their memory goes with the transaction.
            COLLECTED.set(core::ptr::null_mut());
            MEMORY.set(0);
        }
        _ => {}
    }
}

/// A subtransaction ends: its entries are forgotten with its rows, or become its parent's.
#[pg_guard]
unsafe extern "C-unwind" fn end_subtransaction(
    event: SubXactEvent::Type,
    own: SubTransactionId,
    parent: SubTransactionId,
    _context: *mut c_void,
) {
    // SAFETY: those that are listed are there. The statements of a subtransaction that is undone are over.
    unsafe {
        match event {
            SubXactEvent::SUBXACT_EVENT_ABORT_SUB => forget(|head| (*head).subtransaction == own),
            SubXactEvent::SUBXACT_EVENT_COMMIT_SUB => {
                all().filter(|&head| (*head).subtransaction == own).for_each(|head| (*head).subtransaction = parent)
            }
            _ => {}
        }
    }
}

/// A query begins: parallel workers have the transaction's snapshot, but nothing of what is collected here.
#[pg_guard]
unsafe extern "C-unwind" fn start_query(query: *mut QueryDesc, flags: c_int) {
    // SAFETY: called by the server with a query that is planned.
    unsafe {
        if !COLLECTED.get().is_null() && (*(*query).plannedstmt).parallelModeNeeded {
            insert_all();
        }
        match PREVIOUS.get() {
            Some(previous) => previous(query, flags),
            None => ffi::standard_ExecutorStart(query, flags),
        }
    }
}
