//! `fpbtree_check`.

use core::ffi::{c_int, c_void};
use core::fmt::Arguments;

use fpbtree_engine::format::Block;
use fpbtree_engine::store::PageStore;
use fpbtree_engine::tree::Seek;
use fpbtree_engine::tree::check::BlockSet;
use pgrx::PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE;
use pgrx::pg_guard;
use pgrx::pg_sys::{self, Datum, FunctionCallInfo, ItemPointer, Oid, Relation};

use super::opened::{OpenedIndex, Privilege};
use super::result::{ResultRows, argument, text, version_1};
use crate::pg::errors::Name;
use crate::pg::memory::{free_array, zeroed_values};
use crate::pg::tid::heap_place;
use crate::pg::{errors, ffi, relation};
use crate::storage::buffers::PgStore;
use crate::storage::index::Index;
use crate::storage::tree::tree;
use crate::values::keys::{Keyed, with_keys};

/// What `GetRecoveryPauseState` says of a standby whose replay rests.
const RECOVERY_PAUSED: c_int = 2;

version_1!(pg_finfo_fpbtree_check_wrapper);

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
        // As amcheck's parent check: nobody writes meanwhile. A standby cannot take such a lock; there replay is to
        // rest.
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

/// Looks one heap row's entry up. Its leaf is pinned and share-locked until the entry has been compared.
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
        let leaf = checker.store.expect(tree.leaf(Seek::At(key)));
        let page = checker.store.expect(tree.page(&leaf));
        let flaw = match page.entry(page.lower_bound(key)) {
            // What the snapshot sees cannot be dead to everyone.
            Some(found) if K::compare_entry(key, &found).is_eq() => match found.tid.dead() {
                true => Some("heap row's index entry is marked dead"),
                false => (!K::is_same(&checker.columns, &found, &entry))
                    .then_some("heap row's index entry holds other values"),
            },
            _ => Some("heap row is not in the index"),
        };
        let block = leaf.block();
        leaf.release();
        if let Some(what) = flaw {
            let (heap_block, offset) = heap_place(tid);
            Checker::<K>::report(checker.rows, block, what, format_args!("heap TID ({heap_block},{offset})"));
        }
    }
}
