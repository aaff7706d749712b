//! The tree of an open index.

use core::ffi::c_int;

use fpbtree_engine::tree::Tree;
use pgrx::pg_sys::Relation;

use crate::storage::buffers::PgStore;
use crate::storage::index::Index;
use crate::values::keys::{Keyed, with_keys};

/// The tree of an index.
#[inline(always)]
pub fn tree<'t, K: Keyed>(store: &'t PgStore, index: &'t Index, columns: &'t K::Columns) -> Tree<'t, PgStore, K> {
    Tree::ordered(store, &index.geometry, K::order(columns))
}

/// Levels of the tree, the leaves' included.
///
/// # Safety
/// `rel` is an open index of ours. May raise.
pub unsafe fn levels(rel: Relation) -> c_int {
    // SAFETY: `rel` is an open index of ours.
    unsafe {
        let index = Index::of(rel);
        let store = PgStore::new(rel, core::ptr::null_mut());
        with_keys!(index.kind, K => {
            let columns = Index::columns::<K>(rel);
            c_int::from(store.expect(tree::<K>(&store, &index, &columns).root_level())) + 1
        })
    }
}
