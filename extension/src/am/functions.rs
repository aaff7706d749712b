//! `fpbtree_check` and `fpbtree_stats`, as plain C-language functions: they own no destructor, so errors pass whole.

use core::ffi::{c_int, c_void};
use core::fmt::Arguments;

use fpbtree_engine::format::Block;
use fpbtree_engine::store::PageStore;
use fpbtree_engine::tree::check::{BlockSet, Census};
use pgrx::PgSqlErrorCode::{
    ERRCODE_FEATURE_NOT_SUPPORTED, ERRCODE_INSUFFICIENT_PRIVILEGE, ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
    ERRCODE_UNDEFINED_OBJECT, ERRCODE_WRONG_OBJECT_TYPE,
};
use pgrx::pg_guard;
use pgrx::pg_sys::{
    self, Datum, FunctionCallInfo, IndexInfo, ItemPointer, LOCKMODE, Oid, Pg_finfo_record, Relation, ReturnSetInfo,
};

use crate::am::build;
use crate::pg::errors::{Name, Text};
use crate::pg::memory::{free_array, zeroed_values};
use crate::pg::tid::heap_place;
use crate::pg::{errors, ffi, relation};
use crate::storage::buffers::PgStore;
use crate::storage::descents::{self, Place};
use crate::storage::hot_keys;
use crate::storage::index::Index;
use crate::storage::prefetch::PrefetchCounts;
use crate::storage::tree::tree;
use crate::values::keys::{Keyed, with_keys};

/// What `GetRecoveryPauseState` says of a standby whose replay rests.
const RECOVERY_PAUSED: c_int = 2;

/// Declares a function of the calling convention "version 1".
macro_rules! version_1 {
    ($info:ident) => {
        /// Says how the function is called, as `PG_FUNCTION_INFO_V1` does.
        #[unsafe(no_mangle)]
        pub extern "C-unwind" fn $info() -> &'static Pg_finfo_record {
            &Pg_finfo_record { api_version: 1 }
        }
    };
}

version_1!(pg_finfo_fpbtree_check_wrapper);
version_1!(pg_finfo_fpbtree_stats_wrapper);
version_1!(pg_finfo_fpbtree_stat_prefetch_wrapper);
version_1!(pg_finfo_fpbtree_stat_hot_wrapper);
version_1!(pg_finfo_fpbtree_stat_hot_reset_wrapper);

/// Who may ask.
enum Privilege {
    /// The index's owner and superusers.
    Own,
    /// Whoever may read the table.
    Read,
}

/// An index opened for one of the functions, and its table. Until it is closed the owner's code runs as the owner.
struct OpenedIndex {
    heap: Relation,
    index: Relation,
    lock: LOCKMODE,
    caller: Caller,
}

impl OpenedIndex {
    /// Opens an index of ours, table first, or raises what is wrong with the argument. The caller's privilege is looked
    /// at before a lock is waited for that others would then wait behind.
    unsafe fn new(index: Oid, lock: u32, privilege: Privilege) -> OpenedIndex {
        let lock = lock as LOCKMODE;
        // SAFETY: catalog lookups and locks, as amcheck takes them.
        unsafe {
            let rel = open_ours(index, pg_sys::AccessShareLock as LOCKMODE);
            let heap = (*(*rel).rd_index).indrelid;
            check_privilege(&privilege, rel);
            ffi::relation_close(rel, pg_sys::AccessShareLock as LOCKMODE);
            let table = ffi::table_open(heap, lock);
            let rel = open_ours(index, lock);
            if (*(*rel).rd_index).indrelid != heap {
                gone(index);
            }
            check_privilege(&privilege, rel);
            check_usable(rel);
            OpenedIndex { heap: table, index: rel, lock, caller: Caller::become_owner(table) }
        }
    }

    unsafe fn close(self) {
        // SAFETY: opened by the constructor.
        unsafe {
            self.caller.restore();
            ffi::relation_close(self.index, self.lock);
            ffi::table_close(self.heap, self.lock);
        }
    }
}

/// Whether a relation is an index of ours.
///
/// # Safety
/// It is open.
pub unsafe fn is_ours(rel: Relation) -> bool {
    // SAFETY: an open index of any method, or another relation, which has no method's routine or one for tables.
    unsafe {
        (*(*rel).rd_rel).relkind as u8 == pg_sys::RELKIND_INDEX
            && (*rel)
                .rd_indam
                .as_ref()
                .and_then(|routine| routine.ambuild)
                .is_some_and(|ambuild| core::ptr::fn_addr_eq(ambuild, build::ambuild as AmBuild))
    }
}

type AmBuild = unsafe extern "C-unwind" fn(Relation, Relation, *mut IndexInfo) -> *mut pg_sys::IndexBuildResult;

/// Opens an index of ours.
unsafe fn open_ours(index: Oid, lock: LOCKMODE) -> Relation {
    // SAFETY: catalog lookups and a lock.
    unsafe {
        let rel = ffi::try_relation_open(index, lock);
        if rel.is_null() {
            gone(index);
        }
        if !is_ours(rel) {
            not_ours(rel);
        }
        rel
    }
}

fn gone(oid: Oid) -> ! {
    errors::raise(ERRCODE_UNDEFINED_OBJECT, format_args!("there is no relation with OID {}", oid.to_u32()), None, None)
}

unsafe fn not_ours(rel: Relation) -> ! {
    // SAFETY: an open relation.
    let is_partitioned = unsafe { (*(*rel).rd_rel).relkind as u8 == pg_sys::RELKIND_PARTITIONED_INDEX };
    if is_partitioned {
        errors::raise(
            ERRCODE_WRONG_OBJECT_TYPE,
            format_args!("\"{}\" is a partitioned index", Name(rel)),
            Some(format_args!("It has no pages of its own.")),
            Some(format_args!("Ask about the indexes of its partitions: see pg_partition_tree().")),
        );
    }
    errors::raise(ERRCODE_WRONG_OBJECT_TYPE, format_args!("\"{}\" is not an fpbtree index", Name(rel)), None, None)
}

unsafe fn check_privilege(privilege: &Privilege, index: Relation) {
    // SAFETY: catalog lookups.
    unsafe {
        let (user, table) = (pg_sys::GetUserId(), (*(*index).rd_index).indrelid);
        match privilege {
            Privilege::Own if !owns((*index).rd_id, user) => errors::raise(
                ERRCODE_INSUFFICIENT_PRIVILEGE,
                format_args!("must be owner of index {}", Name(index)),
                None,
                None,
            ),
            Privilege::Read if !may_read(table, user) => errors::raise(
                ERRCODE_INSUFFICIENT_PRIVILEGE,
                format_args!("permission denied for the table of index {}", Name(index)),
                None,
                None,
            ),
            _ => {}
        }
    }
}

unsafe fn owns(index: Oid, user: Oid) -> bool {
    // SAFETY: a catalog lookup.
    unsafe {
        #[cfg(feature = "pg15")]
        return pg_sys::pg_class_ownercheck(index, user);
        #[cfg(not(feature = "pg15"))]
        return pg_sys::object_ownercheck(pg_sys::RelationRelationId, index, user);
    }
}

unsafe fn may_read(table: Oid, user: Oid) -> bool {
    // SAFETY: a catalog lookup.
    unsafe {
        pg_sys::pg_class_aclcheck(table, user, pg_sys::ACL_SELECT as pg_sys::AclMode) == pg_sys::AclResult::ACLCHECK_OK
    }
}

unsafe fn check_usable(rel: Relation) {
    // SAFETY: an open index.
    unsafe {
        let is_temporary = (*(*rel).rd_rel).relpersistence as u8 == pg_sys::RELPERSISTENCE_TEMP;
        if is_temporary && !(*rel).rd_islocaltemp {
            errors::raise(
                ERRCODE_FEATURE_NOT_SUPPORTED,
                format_args!("cannot access temporary indexes of other sessions"),
                Some(format_args!("Index \"{}\" belongs to another session.", Name(rel))),
                None,
            );
        }
        if !(*(*rel).rd_index).indisvalid {
            errors::raise(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format_args!("index \"{}\" is not valid", Name(rel)),
                None,
                Some(format_args!("Build it again with REINDEX, or drop it.")),
            );
        }
    }
}

/// The rows of a function's answer.
struct ResultRows {
    result: *mut ReturnSetInfo,
}

impl ResultRows {
    unsafe fn new(call: FunctionCallInfo) -> ResultRows {
        // SAFETY: called by the server; checks the call context and raises if it takes no sets.
        unsafe {
            ffi::InitMaterializedSRF(call, 0);
            ResultRows { result: (*call).resultinfo.cast() }
        }
    }

    unsafe fn add<const N: usize>(&self, values: [Datum; N]) {
        // SAFETY: as many values as the function's result has columns.
        unsafe {
            ffi::tuplestore_putvalues(
                (*self.result).setResult,
                (*self.result).setDesc,
                values.as_ptr(),
                [false; N].as_ptr(),
            );
        }
    }
}

/// A text value.
unsafe fn text(text: Arguments<'_>) -> Datum {
    // SAFETY: copied by the server.
    unsafe { Datum::from(ffi::cstring_to_text(Text::new(text).as_c_str().as_ptr())) }
}

unsafe fn argument(call: FunctionCallInfo, number: usize) -> Datum {
    // SAFETY: the function is strict and has that argument.
    unsafe { (*(*call).args.as_ptr().add(number)).value }
}

/// `fpbtree_check(index, heapallindexed)`: a row for each thing that is wrong.
///
/// # Safety
/// Called by the server.
#[unsafe(no_mangle)]
#[pg_guard]
pub unsafe extern "C-unwind" fn fpbtree_check_wrapper(call: FunctionCallInfo) -> Datum {
    // SAFETY: called by the server, as the install script declares.
    unsafe {
        let index = Oid::from(argument(call, 0).value() as u32);
        let rows = ResultRows::new(call);
        // As amcheck's parent check: nobody writes meanwhile. A standby cannot take such a lock; there replay is to rest.
        let lock = if pg_sys::RecoveryInProgress() { pg_sys::AccessShareLock } else { pg_sys::ShareLock };
        if pg_sys::RecoveryInProgress() && ffi::GetRecoveryPauseState() != RECOVERY_PAUSED {
            errors::raise(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format_args!("cannot check an index while WAL is being replayed"),
                None,
                Some(format_args!(
                    "Pause replay with pg_wal_replay_pause(), check, and go on with pg_wal_replay_resume()."
                )),
            );
        }
        let opened = OpenedIndex::new(index, lock, Privilege::Own);
        let index = Index::of(opened.index);
        with_keys!(index.kind, K => {
            let mut checker = Checker::<K> {
                rows: &rows,
                columns: Index::columns::<K>(opened.index),
                index,
                store: PgStore::new(opened.index, core::ptr::null_mut()),
                sound: true,
            };
            checker.structure();
            if checker.sound && argument(call, 1).value() != 0 {
                checker.heap(&opened);
            }
        });
        opened.close();
        Datum::from(0)
    }
}

/// Checks one index.
struct Checker<'c, K: Keyed> {
    rows: &'c ResultRows,
    columns: K::Columns,
    index: Index,
    store: PgStore,
    sound: bool,
}

impl<K: Keyed> Checker<'_, K> {
    unsafe fn report(rows: &ResultRows, block: Block, what: &str, detail: Arguments<'_>) {
        // SAFETY: three columns.
        unsafe { rows.add([Datum::from(i64::from(block)), text(format_args!("{what}")), text(detail)]) };
    }

    /// Everything that the index's own pages can tell.
    unsafe fn structure(&mut self) {
        // SAFETY: the words are freed below, or with the memory context after an error.
        unsafe {
            let words = zeroed_values(pg_sys::CurrentMemoryContext, BlockSet::words(self.store.block_count()));
            let tree = tree::<K>(&self.store, &self.index, &self.columns);
            let (rows, sound) = (self.rows, &mut self.sound);
            self.store.expect(tree.verify(
                K::ranks(&self.columns),
                &mut BlockSet::new(words),
                &mut |block, what, detail| {
                    *sound = false;
                    Self::report(rows, block, what, detail);
                },
            ));
            free_array(words);
        }
    }

    /// That every heap row the index must have is found in it.
    unsafe fn heap(&mut self, opened: &OpenedIndex) {
        // SAFETY: as amcheck scans the heap: with an MVCC snapshot, as for a concurrent build.
        unsafe {
            let info = ffi::BuildIndexInfo(opened.index);
            (*info).ii_Concurrent = true;
            (*info).ii_Unique = false;
            (*info).ii_ExclusionOps = core::ptr::null_mut();
            (*info).ii_ExclusionProcs = core::ptr::null_mut();
            (*info).ii_ExclusionStrats = core::ptr::null_mut();
            let uses_one_snapshot = pg_sys::XactIsoLevel >= pg_sys::XACT_REPEATABLE_READ as c_int;
            if uses_one_snapshot && (*(*opened.index).rd_index).indcheckxmin {
                errors::raise(
                    ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                    format_args!("index \"{}\" may be newer than this transaction's snapshot", Name(opened.index)),
                    None,
                    Some(format_args!("Check it in a READ COMMITTED transaction.")),
                );
            }
            let snapshot = ffi::RegisterSnapshot(ffi::GetTransactionSnapshot());
            let state = (&raw mut *self).cast::<c_void>();
            relation::table_index_check_scan(opened.heap, opened.index, info, snapshot, Some(find::<K>), state);
            ffi::UnregisterSnapshot(snapshot);
        }
    }
}

/// Who called, while the code of comparison functions, index expressions and predicates runs as the table's owner: it is
/// the owner's code, and could do whatever the caller may.
struct Caller {
    user: Oid,
    context: c_int,
    settings: c_int,
}

impl Caller {
    /// Goes on as the table's owner, who can change no setting for good. An error restores the caller by itself.
    unsafe fn become_owner(table: Relation) -> Caller {
        let (mut user, mut context) = (Oid::INVALID, 0);
        // SAFETY: as amcheck and REINDEX do.
        unsafe {
            ffi::GetUserIdAndSecContext(&mut user, &mut context);
            let restricted = context | pg_sys::SECURITY_RESTRICTED_OPERATION as c_int;
            ffi::SetUserIdAndSecContext((*(*table).rd_rel).relowner, restricted);
            let settings = ffi::NewGUCNestLevel();
            #[cfg(any(feature = "pg17", feature = "pg18"))]
            ffi::RestrictSearchPath();
            Caller { user, context, settings }
        }
    }

    unsafe fn restore(self) {
        // SAFETY: as above.
        unsafe {
            ffi::AtEOXact_GUC(false, self.settings);
            ffi::SetUserIdAndSecContext(self.user, self.context);
        }
    }
}

/// Looks one heap row's entry up.
#[pg_guard]
unsafe extern "C-unwind" fn find<K: Keyed>(
    rel: Relation,
    tid: ItemPointer,
    values: *mut Datum,
    nulls: *mut bool,
    _alive: bool,
    state: *mut c_void,
) {
    // SAFETY: called by the heap scan, with the checker.
    unsafe {
        let checker = &mut *state.cast::<Checker<'_, K>>();
        let mut row = K::new_row();
        K::put_row(&checker.columns, rel, values, nulls, tid, &mut row);
        let entry = K::entry(&row);
        let tree = tree::<K>(&checker.store, &checker.index, &checker.columns);
        let key = K::key_of(&entry, tree.order());
        let leaf = checker.store.expect(tree.leaf_for(key));
        let page = checker.store.expect(tree.page(leaf));
        let flaw = match page.entry(page.lower_bound(key)) {
            // What the snapshot sees cannot be dead to everyone.
            Some(found) if K::compare_entry(key, &found).is_eq() => match found.tid.dead() {
                true => Some("heap row's index entry is marked dead"),
                false => (!K::is_same(&checker.columns, &found, &entry))
                    .then_some("heap row's index entry holds other values"),
            },
            _ => Some("heap row is not in the index"),
        };
        let block = checker.store.block(leaf);
        tree.release(leaf);
        if let Some(what) = flaw {
            let (heap_block, offset) = heap_place(tid);
            Checker::<K>::report(checker.rows, block, what, format_args!("heap TID ({heap_block},{offset})"));
        }
    }
}

/// `fpbtree_stats(index)`: one row on the shape of an index.
///
/// # Safety
/// Called by the server.
#[unsafe(no_mangle)]
#[pg_guard]
pub unsafe extern "C-unwind" fn fpbtree_stats_wrapper(call: FunctionCallInfo) -> Datum {
    // SAFETY: called by the server, as the install script declares.
    unsafe {
        let index = Oid::from(argument(call, 0).value() as u32);
        let rows = ResultRows::new(call);
        let opened = OpenedIndex::new(index, pg_sys::AccessShareLock, Privilege::Read);
        let index = Index::of(opened.index);
        let store = PgStore::new(opened.index, core::ptr::null_mut());
        let census = with_keys!(index.kind, K => {
            let columns = Index::columns::<K>(opened.index);
            store.expect(tree::<K>(&store, &index, &columns).census())
        });
        rows.add(row(&index, &census, store.block_count()));
        opened.close();
        Datum::from(0)
    }
}

/// `fpbtree_stat_prefetch(index)`: one row on what this session's scans of an index have asked for ahead.
///
/// # Safety
/// Called by the server.
#[unsafe(no_mangle)]
#[pg_guard]
pub unsafe extern "C-unwind" fn fpbtree_stat_prefetch_wrapper(call: FunctionCallInfo) -> Datum {
    // SAFETY: called by the server, as the install script declares.
    unsafe {
        let index = Oid::from(argument(call, 0).value() as u32);
        let rows = ResultRows::new(call);
        OpenedIndex::new(index, pg_sys::AccessShareLock, Privilege::Read).close();
        let counts = PrefetchCounts::of_session(index);
        rows.add([counts.requested, counts.cached, counts.used, counts.wasted].map(|n| Datum::from(n as i64)));
        Datum::from(0)
    }
}

/// `fpbtree_stat_hot(index)`: one row on how this session's lookups have found the leaves of an index, and the rows of
/// its hot keys.
///
/// # Safety
/// Called by the server.
#[unsafe(no_mangle)]
#[pg_guard]
pub unsafe extern "C-unwind" fn fpbtree_stat_hot_wrapper(call: FunctionCallInfo) -> Datum {
    // SAFETY: called by the server, as the install script declares.
    unsafe {
        let rows = ResultRows::new(call);
        let (place, owner) = caches_of(call);
        let ((leaves, size), keys) = (place.counts(), place.rows_counts());
        let keys_size = hot_keys::cache().map_or(0, |cache| cache.size_of(owner));
        let columns = |counts: descents::CacheCounts, size: usize| {
            [counts.hits, counts.misses, counts.stale, counts.evictions, size as u64].map(|n| Datum::from(n as i64))
        };
        let ([a, b, c, d, e], [f, g, h, i, j]) = (columns(leaves, size), columns(keys, keys_size));
        rows.add([a, b, c, d, e, f, g, h, i, j]);
        Datum::from(0)
    }
}

/// `fpbtree_stat_hot_reset(index)`: counts from zero again.
///
/// # Safety
/// Called by the server.
#[unsafe(no_mangle)]
#[pg_guard]
pub unsafe extern "C-unwind" fn fpbtree_stat_hot_reset_wrapper(call: FunctionCallInfo) -> Datum {
    // SAFETY: called by the server, as the install script declares.
    unsafe {
        caches_of(call).0.reset_counts();
        Datum::from(0)
    }
}

/// What is remembered of where the leaves of the index in question are, and whose its hot keys are.
unsafe fn caches_of(call: FunctionCallInfo) -> (Place, u64) {
    // SAFETY: called by the server; the index is open while its meta page is looked at.
    unsafe {
        let index = Oid::from(argument(call, 0).value() as u32);
        let opened = OpenedIndex::new(index, pg_sys::AccessShareLock, Privilege::Read);
        let build_id = Index::build_id(opened.index);
        let caches = (Place::of(build_id), hot_keys::owner(opened.index, build_id));
        opened.close();
        caches
    }
}

unsafe fn row(index: &Index, census: &Census, blocks: Block) -> [Datum; 11] {
    let (leaf, inner) = (index.geometry.leaf.widths(), index.geometry.inner.widths());
    let bytes_per_entry = f64::from(blocks) * f64::from(pg_sys::BLCKSZ) / census.entries as f64;
    let fill = census.fill / census.leaf_pages as f64;
    // SAFETY: the columns the install script declares, in order.
    unsafe {
        [
            Datum::from(census.levels as i32),
            Datum::from(census.leaf_pages as i64),
            Datum::from(census.inner_pages as i64),
            Datum::from(census.free_pages as i64),
            Datum::from(census.entries as i64),
            Datum::from(census.dead_entries as i64),
            float(bytes_per_entry),
            float(fill),
            text(format_args!("w={} x={}", leaf.0, leaf.1)),
            text(format_args!("w={} x={}", inner.0, inner.1)),
            text(format_args!("{}", index.log.name())),
        ]
    }
}

/// A float8 value; one that is no number (an empty index) is 0.
fn float(value: f64) -> Datum {
    let value = if value.is_finite() { value } else { 0.0 };
    Datum::from(value.to_bits() as i64)
}
