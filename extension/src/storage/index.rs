//! An open index: what its meta page says, kept in the relation cache.

use core::ffi::c_int;

use fpbtree_engine::format::{Block, Error, Geometry, LaneKind, META, NO_BLOCK, Tid};
use fpbtree_engine::keys::KeyShape;
use fpbtree_engine::page::{LogKind, Meta, Shape};
use fpbtree_engine::store::{PageStore, Shared};
use pgrx::pg_sys::{self, ItemPointerData, Relation};

use crate::pg::ffi;
use crate::storage::buffers::PgStore;
use crate::values::column;
use crate::values::keys::{BytesColumns, Keyed, tree, with_keys};

/// What an index is, as its meta page says.
#[derive(Clone, Copy)]
pub struct Index {
    /// The lanes of its keys.
    pub kind: LaneKind,
    /// How its pages are laid out.
    pub geometry: Geometry,
    /// How its changes are logged.
    pub log: LogKind,
}

/// What the relation cache keeps of an index.
struct Cached {
    index: Index,
    /// How columns make keys: apart, for it is large, and no insertion is to copy it more than once.
    shape: Shape,
    /// Of an index whose keys are byte strings.
    columns: Option<BytesColumns>,
    /// Where this process's last entry went.
    last_leaf: Block,
    /// Whether the one before went there, too.
    is_likely: bool,
}

// So the server aligns what it allocates.
const _: () = assert!(align_of::<Cached>() <= pg_sys::MAXIMUM_ALIGNOF as usize);

impl Index {
    /// What the meta page of `rel` says, read once and then kept in the relation cache: the server drops it there when
    /// the index changes.
    ///
    /// # Safety
    /// `rel` is an open index of ours. May raise.
    pub unsafe fn of(rel: Relation) -> Index {
        // SAFETY: `cached` gives what is there now; it is copied before anything can drop it.
        unsafe { (*cached(rel)).index }
    }

    /// What the pages of `rel` are known by.
    ///
    /// # Safety
    /// As [`Index::of`].
    pub unsafe fn build_id(rel: Relation) -> u64 {
        // SAFETY: as above.
        unsafe { (*cached(rel)).index.geometry.build_id }
    }

    /// How the columns of an index make a lane, if its keys are exact lanes.
    ///
    /// # Safety
    /// As [`Index::of`].
    #[inline]
    pub unsafe fn key_shape(rel: Relation) -> Option<KeyShape> {
        // SAFETY: as above.
        match unsafe { &(*cached(rel)).shape } {
            Shape::Exact(shape) => Some(*shape),
            Shape::Bytes(_) => None,
        }
    }

    /// What is kept of the columns of an index whose keys are byte strings.
    ///
    /// # Safety
    /// As [`Index::of`], and the index is such a one. May raise.
    pub unsafe fn bytes_columns(rel: Relation) -> BytesColumns {
        // SAFETY: as above.
        let columns = unsafe { &(*cached(rel)).columns };
        columns.as_ref().expect("an index with prefix lanes").clone()
    }
}

/// Notes the leaf that an entry goes to.
///
/// # Safety
/// `rel` is open.
#[inline]
pub unsafe fn note_leaf(rel: Relation, block: Block) {
    // SAFETY: `rd_amcache` is null or was put here.
    unsafe {
        let cached: *mut Cached = (*rel).rd_amcache.cast();
        if !cached.is_null() {
            (*cached).is_likely = (*cached).last_leaf == block;
            (*cached).last_leaf = block;
        }
    }
}

/// The leaf that the last two entries went to.
///
/// # Safety
/// `rel` is open.
#[inline]
pub unsafe fn likely_leaf(rel: Relation) -> Option<Block> {
    // SAFETY: `rd_amcache` is null or was put here.
    unsafe {
        let cached: *const Cached = (*rel).rd_amcache.cast();
        (!cached.is_null() && (*cached).is_likely).then(|| (*cached).last_leaf)
    }
}

/// What is kept of `rel`.
#[inline]
unsafe fn cached(rel: Relation) -> *const Cached {
    // SAFETY: `rd_amcache` is null or was put here.
    unsafe {
        if (*rel).rd_amcache.is_null() {
            keep(rel);
        }
        (*rel).rd_amcache.cast()
    }
}

/// Puts what the meta page says into the relation cache.
#[cold]
unsafe fn keep(rel: Relation) {
    // SAFETY: an open index of ours; memory that lives as long as its entry in the relation cache.
    unsafe {
        let read = read(rel);
        let memory = ffi::MemoryContextAlloc((*rel).rd_indexcxt, size_of::<Cached>());
        memory.cast::<Cached>().write(read);
        (*rel).rd_amcache = memory;
    }
}

/// Reads the meta page and checks that it is of this index.
unsafe fn read(rel: Relation) -> Cached {
    // SAFETY: an open index of ours.
    unsafe {
        let store = PgStore::new(rel, core::ptr::null_mut());
        let page = store.expect(store.pin(META)).lock::<Shared>(&store);
        let meta = store.expect(Meta::read(page.bytes()));
        page.release();
        let (shape, columns) = column::index_shape(rel);
        if !shape.reads(&meta.shape) {
            store.fail(Error::Corrupt { block: META, what: "meta page describes other columns than the catalogs do" });
        }
        Cached {
            index: Index { kind: shape.lane_kind(), geometry: meta.geometry, log: meta.log },
            shape,
            columns,
            last_leaf: NO_BLOCK,
            is_likely: false,
        }
    }
}

/// A TID's block and offset.
///
/// # Safety
/// `tid` points to a TID.
#[inline]
pub unsafe fn heap_place(tid: *const ItemPointerData) -> (u32, u16) {
    // SAFETY: by this function's contract.
    let tid = unsafe { *tid };
    (u32::from(tid.ip_blkid.bi_hi) << 16 | u32::from(tid.ip_blkid.bi_lo), tid.ip_posid)
}

/// The TID that a TID holds.
#[inline]
pub fn heap_tid(tid: Tid) -> ItemPointerData {
    let block = tid.block();
    ItemPointerData {
        ip_blkid: pg_sys::BlockIdData { bi_hi: (block >> 16) as u16, bi_lo: block as u16 },
        ip_posid: tid.offset(),
    }
}

/// Levels of the tree, the leaves' included.
///
/// # Safety
/// `rel` is an open index of ours. May raise.
pub unsafe fn levels(rel: Relation) -> c_int {
    // SAFETY: by this function's contract.
    unsafe {
        let index = Index::of(rel);
        let store = PgStore::new(rel, core::ptr::null_mut());
        with_keys!(index.kind, K => {
            let columns = K::columns(rel);
            c_int::from(store.expect(tree::<K>(&store, &index, &columns).root_level())) + 1
        })
    }
}
