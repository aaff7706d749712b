//! What a new index is before it has pages: its description, and what loads it.

use core::mem::MaybeUninit;

use fpbtree_engine::format::{Geometry, PageBytes};
use fpbtree_engine::page::Meta;
use fpbtree_engine::tree::load::Loader;
use pgrx::PgSqlErrorCode::ERRCODE_INTERNAL_ERROR;
use pgrx::pg_sys::{self, Relation};

use crate::pg::errors;
use crate::pg::memory::allocate;
use crate::storage::index::Index;
use crate::storage::own_wal;
use crate::values::column;
use crate::values::keys::{IndexColumns, Keyed};

/// What a new index of `rel`'s columns is, with a build id drawn at random. Raises if there can be none.
///
/// # Safety
/// `rel` is an open index of ours, or of btree's.
pub(in crate::am) unsafe fn new_index(rel: Relation) -> Index {
    // SAFETY: an open index of ours, or of btree's.
    unsafe {
        column::refuse_unfit(rel);
        of_columns(rel)
    }
}

/// As [`new_index`], of columns that are known to be fit.
///
/// # Safety
/// `rel` is an index of ours, or of btree's.
pub(in crate::am) unsafe fn of_columns(rel: Relation) -> Index {
    // SAFETY: an index of ours, or of btree's.
    unsafe {
        let shape = IndexColumns::of(rel, None).shape();
        let mut id = [0u8; 8];
        if !pg_sys::pg_strong_random(id.as_mut_ptr().cast(), id.len()) {
            errors::raise(ERRCODE_INTERNAL_ERROR, format_args!("could not draw a random build id"), None, None);
        }
        let kind = shape.lane_kind();
        Index { kind, geometry: Geometry::choose(kind, u64::from_ne_bytes(id)), log: own_wal::kind_of_new() }
    }
}

/// The meta page of a new index.
pub(super) unsafe fn meta(rel: Relation, index: &Index) -> PageBytes {
    // SAFETY: an open index of ours.
    let shape = unsafe { IndexColumns::of(rel, None) }.shape();
    Meta { shape, geometry: index.geometry, log: index.log }.page()
}

/// A loader in the current memory context.
pub(super) unsafe fn new_loader<K: Keyed>(fill: usize) -> &'static mut Loader<K> {
    // SAFETY: new memory of the right size.
    unsafe {
        let memory = &mut *allocate::<MaybeUninit<Loader<K>>>(pg_sys::CurrentMemoryContext, 1, false);
        Loader::init(memory, fill);
        memory.assume_init_mut()
    }
}
