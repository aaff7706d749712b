//! Insertion of one heap tuple's entry.

use fpbtree_engine::tree::InsertOptions;
use pgrx::pg_guard;
use pgrx::pg_sys::{self, Datum, IndexInfo, IndexUniqueCheck, Relation};

use crate::am::batch;
use crate::am::unique::{self, UniqueInsert};
use crate::pg::options;
use crate::storage::buffers::PgStore;
use crate::storage::index::Index;
use crate::storage::tree::tree;
use crate::values::keys::{Keyed, with_keys};

/// Whether the server says when a statement has inserted all its rows.
const MAY_COLLECT: bool = cfg!(not(any(feature = "pg15", feature = "pg16")));

/// The `aminsert` callback. `false` says that uniqueness has to be checked again later, where the server asked for
/// that.
#[pg_guard]
#[allow(clippy::too_many_arguments)]
pub unsafe extern "C-unwind" fn aminsert(
    rel: Relation,
    values: *mut Datum,
    nulls: *mut bool,
    tid: pg_sys::ItemPointer,
    heap: Relation,
    check: IndexUniqueCheck::Type,
    unchanged: bool,
    info: *mut IndexInfo,
) -> bool {
    // SAFETY: called by the server, with an open index of ours and its columns' values.
    unsafe {
        let index = Index::of(rel);
        let row = (values.cast_const(), nulls.cast_const(), tid);
        if MAY_COLLECT
            && check == IndexUniqueCheck::UNIQUE_CHECK_NO
            && batch::collect((rel, &index, heap), info, row, unchanged)
        {
            return false;
        }
        let store = PgStore::for_insertion(rel, &index, heap);
        let options = InsertOptions::filling(options::fillfactor(rel) as usize).adding_version(unchanged);
        let checks = check != IndexUniqueCheck::UNIQUE_CHECK_NO;
        if checks && unique::is_checked(rel, nulls) {
            let row = UniqueInsert { rel, heap, values, nulls, tid: *tid };
            return with_keys!(index.kind, K => row.insert::<K>(&index, &store, check, options));
        }
        if check != IndexUniqueCheck::UNIQUE_CHECK_EXISTING {
            with_keys!(index.kind, K => insert::<K>(rel, &index, &store, row, options));
        }
        // What is not checked is unique.
        checks
    }
}

/// Inserts a row's entry.
///
/// # Safety
/// `rel` is the open index, with a value and a null flag for each of its columns; the TID is the row's. May raise.
// Not inlined: byte strings need a large frame, exact lanes do not.
#[inline(never)]
unsafe fn insert<K: Keyed>(
    rel: Relation,
    index: &Index,
    store: &PgStore,
    (values, nulls, tid): (*const Datum, *const bool, pg_sys::ItemPointer),
    options: InsertOptions,
) {
    // SAFETY: `rel` is open, and the server gives a value and a null flag for each of its columns.
    unsafe {
        let columns = Index::columns::<K>(rel);
        let mut row = K::new_row();
        K::put_row(&columns, rel, values, nulls, tid, &mut row);
        store.expect(tree::<K>(store, index, &columns).insert_entry(&K::entry(&row), options));
    }
}
