//! Insertion of one heap tuple's entry.

use fpbtree_engine::key::Lane;
use fpbtree_engine::tree::Tree;
use pgrx::pg_guard;
use pgrx::pg_sys::{self, Datum, IndexInfo, ItemPointerData, Relation};

use crate::index::{Index, with_lane};
use crate::options;
use crate::store::PgStore;

/// The `aminsert` callback. Always `false`: there is no unique check to repeat.
#[pg_guard]
#[allow(clippy::too_many_arguments)]
pub unsafe extern "C-unwind" fn aminsert(
    rel: Relation,
    values: *mut Datum,
    nulls: *mut bool,
    tid: pg_sys::ItemPointer,
    _heap: Relation,
    _check: pg_sys::IndexUniqueCheck::Type,
    _unchanged: bool,
    _info: *mut IndexInfo,
) -> bool {
    // SAFETY: called by the server, with an open index of ours and its columns' values.
    unsafe {
        let index = Index::of(rel);
        let (lane, tail) = index.key(rel, values, nulls, tid.cast::<ItemPointerData>());
        let store = PgStore::new(rel, core::ptr::null_mut());
        let fill = options::fillfactor(rel) as usize;
        with_lane!(index.shape.lane_kind(), L => {
            let tree = Tree::<_, L>::new(&store, &index.geometry);
            store.expect(tree.insert(L::from_u128(lane), tail, fill));
        });
    }
    false
}
