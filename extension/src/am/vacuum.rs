//! VACUUM: removal of entries whose heap tuples are gone.

use core::ffi::c_void;

use fpbtree_engine::format::{Block, ROOT, Tid};
use fpbtree_engine::log::MOST_BLOCKS;
use fpbtree_engine::page::KeySpace;
use fpbtree_engine::scan::{Direction, Everything};
use fpbtree_engine::store::PageStore;
use fpbtree_engine::tree::check::BlockSet;
use fpbtree_engine::tree::{DeadTids, FileEnd, Tree};
use pgrx::pg_sys::{self, IndexBulkDeleteCallback, IndexBulkDeleteResult, IndexVacuumInfo, Relation};
use pgrx::{PgLogLevel, PgSqlErrorCode, pg_guard};

use crate::pg::errors::Name;
use crate::pg::memory::{free, free_array, zeroed_value, zeroed_values};
use crate::pg::tid::heap_tid;
use crate::pg::{errors, ffi, relation};
use crate::storage::buffers::PgStore;
use crate::storage::index::Index;
use crate::storage::own_wal;
use crate::storage::prefetch::{self, LeavesAhead, PrefetchCounts};
use crate::storage::tree::tree;
use crate::values::keys::with_keys;

/// Words of memory in which rows are asked about at a time: for each block of the index, and at most (2 MB).
const WORDS_A_BLOCK: usize = 1024;
const MOST_WORDS: usize = 1 << 18;

/// So many free pages at the end of the file are left there, and so small a part of it: what the server leaves of
/// tables.
const MOST_PAGES_LEFT: Block = 1000;
const LEAST_PART_CUT: Block = 16;
/// Pages asked for ahead there.
const PAGES_AHEAD: Block = 32;
/// How often the lock is asked for, and milliseconds between: a fifth of the time that a table is worth.
const LOCK_TRIES: u32 = 20;
const LOCK_PAUSE: i64 = 50;

/// The `ambulkdelete` callback: one pass in key order, then a look at the pages it did not meet.
#[pg_guard]
pub unsafe extern "C-unwind" fn ambulkdelete(
    info: *mut IndexVacuumInfo,
    stats: *mut IndexBulkDeleteResult,
    callback: IndexBulkDeleteCallback,
    state: *mut c_void,
) -> *mut IndexBulkDeleteResult {
    // SAFETY: called by the server, with an open index of ours that it has locked against a second VACUUM.
    unsafe {
        let rel = (*info).index;
        let index = Index::of(rel);
        let store = PgStore::for_changes(rel, &index);
        let stats = if stats.is_null() { new_stats() } else { stats };
        let Some(is_dead) = callback else { return stats };
        let mut dead = |tid: Tid| is_dead(&mut heap_tid(tid), state);
        with_keys!(index.kind, K => {
            let columns = Index::columns::<K>(rel);
            pass(rel, tree::<K>(&store, &index, &columns), &mut dead, &mut *stats);
        });
        ffi::IndexFreeSpaceMapVacuum(rel);
        stats
    }
}

/// One pass. `stats` adds up what was removed, over passes, and says how the index is after the last.
unsafe fn pass<K: KeySpace>(
    rel: Relation,
    tree: Tree<'_, PgStore, K>,
    is_dead: &mut dyn FnMut(Tid) -> bool,
    stats: &mut IndexBulkDeleteResult,
) {
    let store = tree.store();
    let blocks = store.block_count();
    // SAFETY: freed below, or with the memory context after an error.
    unsafe {
        let words = zeroed_values(pg_sys::CurrentMemoryContext, BlockSet::words(blocks));
        let mut met = BlockSet::new(words);
        let leaves: &mut LeavesAhead<K> = zeroed_value(pg_sys::CurrentMemoryContext);
        leaves.begin(prefetch::distance(rel, prefetch::tablespace(rel), true));
        let (mut counts, mut misses) = (PrefetchCounts::default(), prefetch::misses());
        let rows = zeroed_values(pg_sys::CurrentMemoryContext, (blocks as usize * WORDS_A_BLOCK).min(MOST_WORDS));
        let mut ahead = |block, _, place: &K::OwnedKey| {
            ffi::delay_vacuum();
            let missed = core::mem::replace(&mut misses, prefetch::misses()) != misses;
            let forward = Direction::Forward;
            leaves.visit(block, missed, tree, &Everything, forward, place, rel, &mut counts);
            misses = prefetch::misses();
        };
        let mut visit = |block| {
            met.add(block);
            // The root as the only leaf is visited locked.
            if block != ROOT {
                ffi::delay_vacuum();
            }
        };
        let done = store.expect(tree.vacuum(&mut DeadTids::new(rows), is_dead, &mut ahead, &mut visit));
        free_array(rows);
        leaves.close(&mut counts);
        counts.add_to_session((*rel).rd_id);
        free(&raw mut *leaves);
        store.expect(tree.visit_inner_pages(&mut |block| {
            met.add(block);
        }));
        stats.pages_free = free_pages(tree, &met, blocks);
        stats.num_pages = store.block_count();
        stats.estimated_count = false;
        stats.num_index_tuples = done.entries as f64;
        stats.tuples_removed += done.removed as f64;
        stats.pages_newly_deleted += (done.deleted_pages + done.folded_pages) as u32;
        stats.pages_deleted = stats.pages_free;
        free_array(words);
    }
}

/// Tells the free space map of every reusable page among those that the pass did not meet: pages deleted by it, by an
/// earlier one, or lost by a crash. Says how many there are.
unsafe fn free_pages<K: KeySpace>(tree: Tree<'_, PgStore, K>, met: &BlockSet<'_>, blocks: Block) -> u32 {
    let store = tree.store();
    let mut free = 0;
    for block in (0..blocks).filter(|&block| !met.has(block)) {
        if store.expect(tree.is_reusable(block)) {
            store.free(block);
            free += 1;
        }
        // SAFETY: nothing is locked.
        unsafe { ffi::delay_vacuum() };
    }
    free
}

/// The `amvacuumcleanup` callback: deleted pages were given to the free space map at once, and those at the end of the
/// file are given back to the system now.
#[pg_guard]
pub unsafe extern "C-unwind" fn amvacuumcleanup(
    info: *mut IndexVacuumInfo,
    stats: *mut IndexBulkDeleteResult,
) -> *mut IndexBulkDeleteResult {
    // SAFETY: called by the server, with an open index of ours.
    unsafe {
        if (*info).analyze_only {
            return stats;
        }
        let spare = stats.as_ref().map_or(0, |stats| stats.pages_free);
        let cut = cut_off_file_end(&*info, spare);
        let pages = PgStore::new((*info).index, core::ptr::null_mut()).block_count();
        if stats.is_null() {
            let stats = new_stats();
            (*stats).num_pages = pages;
            (*stats).num_index_tuples = (*info).num_heap_tuples;
            (*stats).estimated_count = true;
            return stats;
        }
        (*stats).num_pages = pages;
        (*stats).pages_free = (*stats).pages_free.saturating_sub(cut);
        (*stats).pages_deleted = (*stats).pages_free;
        if !(*info).estimated_count {
            // As btree: entries whose tuples were pruned meanwhile may make the count larger than the heap's.
            (*stats).num_index_tuples = (*stats).num_index_tuples.min((*info).num_heap_tuples);
        }
        stats
    }
}

/// Gives free pages at the end of the file back to the system, where they are worth keeping everybody out of the index
/// for a moment, and nobody is in there (the server's `lazy_truncate_heap`). Nothing leads to them but hints, and those
/// go by where the file ends. If most of the file is `spare`, what is in use is moved to its front before. How many
/// pages were given back.
unsafe fn cut_off_file_end(info: &IndexVacuumInfo, spare: Block) -> Block {
    let rel = info.index;
    // SAFETY: an open index of ours that VACUUM has locked; the lock is given back, or by the server after an error.
    unsafe {
        let index = Index::of(rel);
        with_keys!(index.kind, K => {
            let columns = Index::columns::<K>(rel);
            let store = PgStore::for_changes(rel, &index);
            let worth = MOST_PAGES_LEFT.min(store.block_count() / LEAST_PART_CUT).max(1);
            let enough = worth + FileEnd::MOST_KEPT as Block;
            let is_sparse = spare > store.block_count() / 2 && spare >= worth && store.most_pages() == MOST_BLOCKS;
            let is_worth = || file_end(tree::<K>(&store, &index, &columns), enough, false).free() >= worth;
            let may_cut = relation::may_truncate(rel) && own_wal::can_write(index.log);
            if !(may_cut && (is_sparse || is_worth()) && keep_out_others(rel)) {
                return 0;
            }
            // Others may have been in there since.
            let store = PgStore::for_changes(rel, &index);
            let tree = tree::<K>(&store, &index, &columns);
            let blocks = store.block_count();
            let end = if is_sparse {
                let mut looked_at = 0;
                store.expect(tree.compact(&mut |block| {
                    looked_at += 1;
                    goes_on(rel, looked_at, block, true)
                }))
            } else {
                let file_end = file_end(tree, Block::MAX, true);
                store.expect(tree.pack_file_end(&file_end))
            };
            if end < blocks {
                ffi::RelationTruncate(rel, end);
            }
            ffi::UnlockRelation(rel, pg_sys::AccessExclusiveLock as i32);
            if end < blocks {
                let level = PgLogLevel::from(info.message_level as isize);
                let name = Name(rel);
                let message = format_args!("index \"{name}\": truncated {blocks} to {end} pages");
                errors::report(level, PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION, message, None, None);
            }
            blocks - end
        })
    }
}

/// Looks at the file from its end, at so many pages at most; at fewer, if it `yields`, as soon as anybody waits for the
/// index.
unsafe fn file_end<K: KeySpace>(tree: Tree<'_, PgStore, K>, most: Block, yields: bool) -> FileEnd {
    let rel = tree.store().relation();
    // SAFETY: an open index of ours, which is locked.
    tree.store().expect(tree.file_end(most, &mut |block| unsafe { goes_on(rel, block, block, yields) }))
}

/// Whether to go on with a block at the file's end; every so often the ones before are asked for. If it `yields`, not if
/// anybody waits for the index.
unsafe fn goes_on(rel: Relation, count: Block, block: Block, yields: bool) -> bool {
    if !count.is_multiple_of(PAGES_AHEAD) {
        return true;
    }
    errors::check_for_interrupts();
    // SAFETY: an open index of ours, which is locked.
    unsafe {
        (block.saturating_sub(PAGES_AHEAD)..block).for_each(|block| _ = prefetch::prefetch(rel, block));
        !(yields && ffi::LockHasWaitersRelation(rel, pg_sys::AccessExclusiveLock as i32))
    }
}

/// Locks an index against everybody, if that is possible soon; the caller gives the lock back.
unsafe fn keep_out_others(rel: Relation) -> bool {
    for _ in 0..LOCK_TRIES {
        // SAFETY: an open index, and this process's own latch.
        unsafe {
            if ffi::ConditionalLockRelation(rel, pg_sys::AccessExclusiveLock as i32) {
                return true;
            }
            errors::sleep(LOCK_PAUSE, pg_sys::WaitEventTimeout::WAIT_EVENT_VACUUM_TRUNCATE);
        }
    }
    false
}

unsafe fn new_stats() -> *mut IndexBulkDeleteResult {
    // SAFETY: new memory of the right size; it belongs to VACUUM's memory context.
    unsafe {
        let stats: *mut IndexBulkDeleteResult = ffi::palloc(size_of::<IndexBulkDeleteResult>()).cast();
        stats.write(IndexBulkDeleteResult::default());
        stats
    }
}
