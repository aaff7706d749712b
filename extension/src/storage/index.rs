//! An open index: what its meta page says, kept in the relation cache.

use core::ffi::c_int;

use fpbtree_engine::format::{Block, Error, Geometry, LaneKind, META, NO_BLOCK};
use fpbtree_engine::keys::digits::DigitKind;
use fpbtree_engine::page::{LogKind, Meta};
use pgrx::pg_sys::{self, ForkNumber::MAIN_FORKNUM, Relation};

use crate::pg::{errors, ffi, relation};
use crate::values::keys::{IndexColumns, Keyed};

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
    /// Its columns.
    columns: IndexColumns,
    /// Where this process's last entries went.
    last: LastLeaf,
    /// Where the last entries of some stretches went: rows of one key may have leaves for themselves.
    of_stretches: [(u64, LastLeaf); STRETCHES],
}

/// Stretches that are remembered.
const STRETCHES: usize = 1 << STRETCH_BITS;
const STRETCH_BITS: u32 = 6;

/// The leaf that an entry went to.
#[derive(Clone, Copy)]
struct LastLeaf {
    block: Block,
    /// Whether the entry before went there, too.
    is_likely: bool,
}

impl LastLeaf {
    const NONE: LastLeaf = LastLeaf { block: NO_BLOCK, is_likely: false };

    fn then(self, block: Block) -> LastLeaf {
        LastLeaf { block, is_likely: self.block == block }
    }
}

impl Cached {
    fn place_of(stretch: u64) -> usize {
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        (stretch.wrapping_mul(SPREAD) >> (u64::BITS - STRETCH_BITS)) as usize
    }

    fn note_leaf(&mut self, stretch: u64, block: Block) {
        self.last = self.last.then(block);
        let (kept, leaf) = &mut self.of_stretches[Cached::place_of(stretch)];
        *leaf = if *kept == stretch { leaf.then(block) } else { LastLeaf { block, is_likely: false } };
        *kept = stretch;
    }

    fn likely_leaf(&self, stretch: u64) -> Option<Block> {
        let (kept, leaf) = self.of_stretches[Cached::place_of(stretch)];
        let likely = if kept == stretch && leaf.is_likely { leaf } else { self.last };
        likely.is_likely.then_some(likely.block)
    }
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
    /// `rel` is an open index of ours. May raise.
    pub unsafe fn build_id(rel: Relation) -> u64 {
        // SAFETY: `cached` gives what is there now.
        unsafe { (*cached(rel)).index.geometry.build_id }
    }

    /// What is known of the columns of `rel`, whose key space is `K`, as long as it is open.
    ///
    /// # Safety
    /// `rel` is an open index of ours. May raise.
    #[inline(always)]
    pub unsafe fn columns<K: Keyed>(rel: Relation) -> K::Columns {
        // SAFETY: `cached` gives what is there now; it is copied before anything can drop it.
        unsafe { K::columns(&(*cached(rel)).columns) }
    }
}

/// Notes the leaf that an entry of a stretch goes to.
///
/// # Safety
/// `rel` is open.
#[inline]
pub unsafe fn note_leaf(rel: Relation, stretch: u64, block: Block) {
    // SAFETY: `rd_amcache` is null or was put here, and is this one thread's.
    if let Some(cached) = unsafe { (*rel).rd_amcache.cast::<Cached>().as_mut() } {
        cached.note_leaf(stretch, block);
    }
}

/// The leaf that the last two entries of a stretch went to, or the last two of all.
///
/// # Safety
/// `rel` is open.
#[inline]
pub unsafe fn likely_leaf(rel: Relation, stretch: u64) -> Option<Block> {
    // SAFETY: `rd_amcache` is null or was put here.
    unsafe { (*rel).rd_amcache.cast::<Cached>().as_ref()?.likely_leaf(stretch) }
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

/// Reads the meta page and checks that it is of this index. The page is pinned and share-locked only meanwhile.
unsafe fn read(rel: Relation) -> Cached {
    // SAFETY: `rel` is open, and the page is share-locked while it is read.
    unsafe {
        if ffi::RelationGetNumberOfBlocksInFork(rel, MAIN_FORKNUM) == META {
            fail(rel, "points beyond the end of the index");
        }
        let buffer = ffi::ReadBuffer(rel, META);
        ffi::LockBuffer(buffer, ffi::BUFFER_LOCK_SHARE as c_int);
        let meta = Meta::read(&*relation::page(buffer).cast()).unwrap_or_else(|error| errors::raise_engine(rel, error));
        ffi::UnlockReleaseBuffer(buffer);
        let columns = IndexColumns::of(rel, Some(&meta.shape));
        let shape = columns.shape();
        if !shape.reads(&meta.shape) {
            let mut pairs = shape.digits().iter().zip(meta.shape.digits());
            match pairs.any(|(now, stored)| now.is_opaque() && stored.kind == DigitKind::Text) {
                true => fail(rel, "collation does not order texts by their bytes any more"),
                false => fail(rel, "meta page describes other columns than the catalogs do"),
            }
        }
        let index = Index { kind: shape.lane_kind(), geometry: meta.geometry, log: meta.log };
        Cached { index, columns, last: LastLeaf::NONE, of_stretches: [(0, LastLeaf::NONE); STRETCHES] }
    }
}

#[cold]
fn fail(rel: Relation, what: &'static str) -> ! {
    errors::raise_engine(rel, Error::Corrupt { block: META, what })
}
