//! Lookups of a single full key: their rows may be known without looking at the index (I9).

use fpbtree_engine::cache::hot_keys::{Admission, HotKey, HotKeys, Lookup, MOST_ROWS, Stamp};
use fpbtree_engine::format::Block;
use fpbtree_engine::scan::Direction;
use fpbtree_engine::store::{PageStore, Shared};
use pgrx::pg_sys::{IndexScanDescData, SnapshotType};

use super::conditions::Searched;
use super::state::{ScanState, Stage};
use crate::pg::options;
use crate::pg::relation;
use crate::storage::hot_keys;

/// How many lookups asked in vain take the time that one answer spares: of a descent, and less if the leaf is pinned.
const WORTH_OF_ROWS: i32 = 4;
const WORTH_OF_A_LEAF: i32 = 2;

impl<K: Searched> ScanState<K> {
    /// At a rescan: has fetched what the scan is likely to ask for first.
    #[inline]
    pub(super) fn prefetch_hot(&self) {
        if let (true, Some(Some(owner)), Some(cache)) = (self.hot.is_asked, self.hot.owner, hot_keys::cache())
            && let Some(lane) = K::one_lane(&self.conditions)
        {
            cache.prefetch(HotKey { owner, lane });
        }
    }

    /// At the start of a scan: takes the rows of the one key that is looked up, if they are known.
    #[inline]
    pub(super) unsafe fn find_hot(&mut self, scan: &IndexScanDescData) -> bool {
        let Some(cache) = hot_keys::cache() else { return false };
        if self.cursor.direction() != Direction::Forward {
            return false;
        }
        let Some(lane) = K::one_lane(&self.conditions) else { return false };
        // SAFETY: the scan's index is open.
        let Some(owner) = (unsafe { self.hot_owner(scan) }) else { return false };
        let key = HotKey { owner, lane };
        let worth = if scan.xs_want_itup { WORTH_OF_A_LEAF } else { WORTH_OF_ROWS };
        let place = self.store.descents();
        let found = place.ask_for_rows(worth, || match cache.find(key) {
            // SAFETY: nothing is locked.
            Lookup::Rows(.., leaf) if scan.xs_want_itup && unsafe { !self.pin_hot(cache, key, leaf) } => Lookup::Stale,
            found => found,
        });
        self.hot.is_asked = found.is_some();
        let Some(found) = found else { return false };
        let Lookup::Rows(rows, count, _) = found else {
            self.hot.stage = Stage::Missed(key);
            self.store.ask_for_stamp();
            return false;
        };
        self.hot.stage = Stage::Lookup(key);
        let rows = &rows[..count];
        K::set_rows(&mut self.matches, key.lane, rows);
        self.cursor.end();
        (self.positioned, self.at) = (true, 0);
        // They were in the table when they were kept, and nobody cuts a table off that an entry still points to.
        let farthest = rows.iter().map(|row| row.block()).max().unwrap_or(0);
        self.heap_blocks = self.heap_blocks.max(farthest.saturating_add(1));
        true
    }

    /// Pins the leaf that has the rows, which holds VACUUM off them while an index-only scan takes them for visible
    /// (I6). `false`, and no pin, if the leaf has changed since: under its lock, which is held meanwhile, nobody is
    /// about to change it.
    #[inline]
    unsafe fn pin_hot(&mut self, cache: &HotKeys<'_>, key: HotKey, leaf: Stamp) -> bool {
        let locked = self.store.expect(self.store.pin(leaf.block())).lock::<Shared>(&self.store);
        let is_current = cache.is_current(key.owner, leaf);
        let pin = locked.unlock();
        if is_current {
            (self.pin, self.block) = (Some(pin), leaf.block());
        } else {
            pin.unpin(&self.store);
        }
        is_current
    }

    /// What the index's hot keys are known by, if the scan may use them.
    #[inline]
    unsafe fn hot_owner(&mut self, scan: &IndexScanDescData) -> Option<u64> {
        // SAFETY: the scan's snapshot.
        let is_mvcc = unsafe { (*scan.xs_snapshot).snapshot_type == SnapshotType::SNAPSHOT_MVCC };
        if !is_mvcc {
            return None;
        }
        // SAFETY: the scan's index is open.
        self.hot.owner.unwrap_or_else(|| unsafe { self.decide_on_hot(scan) })
    }

    #[cold]
    unsafe fn decide_on_hot(&mut self, scan: &IndexScanDescData) -> Option<u64> {
        // SAFETY: the scan's own index.
        unsafe {
            let rel = scan.indexRelation;
            // A standby's changes move no stamps. Whoever began there goes on without, once it is promoted.
            let is_bypassed = scan.xactStartedInRecovery || !scan.parallel_scan.is_null() || hot_keys::is_bypassed();
            let is_used = !is_bypassed && !relation::is_local(rel) && options::hot_cache(rel);
            let owner = is_used.then(|| hot_keys::owner(rel, self.index.geometry.build_id));
            self.hot.owner = Some(owner);
            owner
        }
    }

    /// Keeps the rows of the key that was looked up, if the scan has just found all of them, and few.
    #[inline]
    pub(super) fn keep_hot(&mut self) {
        if let Stage::Missed(key) = self.hot.stage {
            self.keep_rows(key);
        }
    }

    fn keep_rows(&mut self, key: HotKey) {
        self.hot.stage = Stage::None;
        let (stamp, rows) = (self.store.take_stamp(), self.matches.tids());
        let are_whole = self.cursor.is_over_on_one_leaf() && rows.len() <= MOST_ROWS;
        let are_there = |blocks: Block| rows.iter().all(|row| row.block() < blocks);
        if let (Some(stamp), Some(cache)) = (stamp, hot_keys::cache())
            && are_whole
            && are_there(self.heap_blocks)
        {
            self.hot.stage = Stage::Admission(key);
            if cache.keep(key, stamp, rows) == Admission::Evicting {
                self.store.descents().note_rows_evicted();
            }
        }
    }

    /// Whether the matches came from the cache.
    #[inline]
    pub(super) fn are_hot(&self) -> bool {
        matches!(self.hot.stage, Stage::Lookup(_))
    }

    /// Forgets the key whose rows the matches are: one of them is dead, which whoever looks it up next finds noted.
    #[cold]
    pub(super) fn forget_hot(&mut self) {
        if let (Stage::Lookup(key) | Stage::Admission(key), Some(cache)) = (self.hot.stage, hot_keys::cache()) {
            cache.forget(key);
        }
    }
}
