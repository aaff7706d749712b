//! `fpbtree_stats` and the functions that say what sessions have counted.

use fpbtree_engine::format::Block;
use fpbtree_engine::store::PageStore;
use fpbtree_engine::tree::check::Census;
use pgrx::pg_guard;
use pgrx::pg_sys::{self, Datum, FunctionCallInfo, Oid};

use super::opened::{OpenedIndex, Privilege};
use super::result::{ResultRows, argument, float, text, version_1};
use crate::storage::buffers::PgStore;
use crate::storage::descents::{CacheCounts, Place};
use crate::storage::hot_keys;
use crate::storage::index::Index;
use crate::storage::prefetch::PrefetchCounts;
use crate::storage::tree::tree;
use crate::values::compare_counts::CompareCounts;
use crate::values::keys::with_keys;

version_1!(pg_finfo_fpbtree_stats_wrapper);
version_1!(pg_finfo_fpbtree_stat_prefetch_wrapper);
version_1!(pg_finfo_fpbtree_stat_compare_wrapper);
version_1!(pg_finfo_fpbtree_stat_hot_wrapper);
version_1!(pg_finfo_fpbtree_stat_hot_reset_wrapper);

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

/// `fpbtree_stat_compare(index)`: one row on what this session has asked of the comparison functions of an index.
///
/// # Safety
/// Called by the server.
#[unsafe(no_mangle)]
#[pg_guard]
pub unsafe extern "C-unwind" fn fpbtree_stat_compare_wrapper(call: FunctionCallInfo) -> Datum {
    // SAFETY: called by the server, as the install script declares.
    unsafe {
        let index = Oid::from(argument(call, 0).value() as u32);
        let rows = ResultRows::new(call);
        OpenedIndex::new(index, pg_sys::AccessShareLock, Privilege::Read).close();
        rows.add(CompareCounts::of_session(index).all().map(|n| Datum::from(n as i64)));
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
        let columns = |counts: CacheCounts, size: usize| {
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
        let caches = (Place::of(build_id, index.to_u32()), hot_keys::owner(opened.index, build_id));
        opened.close();
        caches
    }
}

unsafe fn row(index: &Index, census: &Census, blocks: Block) -> [Datum; 12] {
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
            Datum::from(census.thin_pages as i64),
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
