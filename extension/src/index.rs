//! An open index: what its meta page says, kept in the relation cache.

use core::ffi::c_int;

use fpbtree_engine::key::{KeyShape, Tail};
use fpbtree_engine::page::{Geometry, Meta};
use fpbtree_engine::store::{META, Mode, PageStore};
use fpbtree_engine::tree::Tree;
use pgrx::PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED;
use pgrx::pg_sys::{self, Datum, ItemPointerData, Relation};

use crate::column;
use crate::server;
use crate::store::PgStore;

/// Runs the expression with `$lane` naming the lane type of that kind.
macro_rules! with_lane {
    ($kind:expr, $lane:ident => $run:expr) => {
        match $kind {
            fpbtree_engine::key::LaneKind::U32 => {
                type $lane = u32;
                $run
            }
            fpbtree_engine::key::LaneKind::U64 => {
                type $lane = u64;
                $run
            }
            fpbtree_engine::key::LaneKind::U128 => {
                type $lane = u128;
                $run
            }
        }
    };
}
pub(crate) use with_lane;

/// What an index is, as its meta page says.
#[derive(Clone, Copy)]
pub struct Index {
    /// Which columns make the lane.
    pub shape: KeyShape,
    /// How its pages are laid out.
    pub geometry: Geometry,
}

impl Index {
    /// What the meta page of `rel` says, read once and then kept in the relation cache: the server drops it there when
    /// the index changes.
    ///
    /// # Safety
    /// `rel` is an open index of ours. May raise.
    pub unsafe fn of(rel: Relation) -> Index {
        // SAFETY: `rd_amcache` is null or was put here; it is copied before anything can drop it.
        unsafe {
            let cached = (*rel).rd_amcache.cast::<Index>();
            if !cached.is_null() {
                return cached.read_unaligned();
            }
            let index = read(rel);
            let memory = pg_sys::MemoryContextAlloc((*rel).rd_indexcxt, size_of::<Index>());
            memory.cast::<Index>().write_unaligned(index);
            (*rel).rd_amcache = memory;
            index
        }
    }

    /// The tail of an entry: where the heap tuple is, and what the lane could not say. A heap offset that no heap page
    /// of this block size has is refused.
    ///
    /// # Safety
    /// `rel` is the open index. May raise.
    pub unsafe fn key(
        &self,
        rel: Relation,
        values: *const Datum,
        nulls: *const bool,
        tid: *const ItemPointerData,
    ) -> (u128, Tail) {
        let columns = self.shape.columns();
        let mut images = [None; KeyShape::MAX_COLUMNS];
        for (c, image) in images.iter_mut().enumerate().take(columns.len()) {
            // SAFETY: the server gives a value and a null flag for each column; a value that is not NULL is of the
            // column's type.
            *image = unsafe { (!*nulls.add(c)).then(|| column::image(columns[c].ty, *values.add(c))) };
        }
        let packed = self.shape.pack(&images[..columns.len()]);
        // SAFETY: the server gives a valid TID.
        let (block, offset) = unsafe { heap_place(tid) };
        if offset > Tail::MAX_OFFSET {
            server::raise(
                ERRCODE_PROGRAM_LIMIT_EXCEEDED,
                format_args!("row {offset} of block {block} cannot be in index \"{}\"", server::Name(rel)),
                Some(format_args!("fpbtree takes {} rows a block at most.", Tail::MAX_OFFSET)),
                None,
            );
        }
        (packed.lane, Tail::new(packed.rank, block, offset, packed.negative))
    }
}

/// Reads the meta page and checks that it is of this index.
unsafe fn read(rel: Relation) -> Index {
    // SAFETY: an open index of ours.
    unsafe {
        let store = PgStore::new(rel, core::ptr::null_mut());
        let pin = store.expect(store.pin(META));
        store.lock(pin, Mode::Share);
        let meta = store.expect(Meta::read(store.bytes(pin)));
        store.unlock(pin);
        store.unpin(pin);
        if meta.shape != column::index_shape(rel) {
            store.fail(fpbtree_engine::store::Error::Corrupt {
                block: META,
                what: "meta page describes other columns than the catalogs do",
            });
        }
        Index { shape: meta.shape, geometry: meta.geometry }
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

/// The TID that a tail holds.
#[inline]
pub fn heap_tid(tail: Tail) -> ItemPointerData {
    let block = tail.block();
    ItemPointerData {
        ip_blkid: pg_sys::BlockIdData { bi_hi: (block >> 16) as u16, bi_lo: block as u16 },
        ip_posid: tail.offset(),
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
        with_lane!(index.shape.lane_kind(), L => {
            c_int::from(store.expect(Tree::<_, L>::new(&store, &index.geometry).root_level())) + 1
        })
    }
}
