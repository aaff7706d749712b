//! An index's pages in the server: shared buffers, the write-ahead log, the free space map and predicate locks.

use core::cell::Cell;
use core::ffi::c_int;
use core::sync::atomic::{AtomicU8, Ordering};

use fpbtree_engine::cache::descents::Marks;
use fpbtree_engine::cache::hot_keys::Stamp;
use fpbtree_engine::format::{Block, Error, Mark, PAGE_SIZE, PageBytes, ROOT, Result};
use fpbtree_engine::log::{Change, Horizon, MOST_BLOCKS, Ranges};
use fpbtree_engine::page::{self, LogKind};
use fpbtree_engine::simd::{self, CACHE_LINE};
use fpbtree_engine::store::{
    DeadSearch, Exclusive, Frames, Hints, LockMode, Locked, Mode, Observers, PageEvent, PageStore, Pinned, Seen,
    Shared, Suspect, Writable,
};
use pgrx::pg_sys::{self, Buffer, ForkNumber::MAIN_FORKNUM, FullTransactionId, Relation, Snapshot};

use crate::pg::{errors, ffi, options, relation};
use crate::storage::descents::{self, Place};
use crate::storage::index::{self, Index};
use crate::storage::totals::{self, Count};
use crate::storage::{dead, generic_wal, hot_keys, own_wal, recent_buffers};

const _: () = assert!(PAGE_SIZE == pg_sys::BLCKSZ as usize);

/// Pages locked at once, at most: a leaf being deleted and its neighbours, and a split on each of two levels above it.
const MOST_LOCKED: usize = 16;

/// The pages of one open index. It owns nothing: the caller keeps the relation open.
pub struct PgStore {
    rel: Relation,
    index: u32,
    /// Pages the file is known to have; it only grows while the relation is open.
    blocks: Cell<Block>,
    snapshot: Cell<Snapshot>,
    log: Cell<Option<LogKind>>,
    build_id: Cell<Option<u64>>,
    /// Of the page read last, if a scan [asks](PgStore::ask_for_stamp).
    stamp: Cell<Asked>,
    /// The table, if entries are inserted for its rows.
    heap: Relation,
    /// What is remembered of where its leaves are.
    descents: Cell<Option<Place>>,
    /// Pages this store has locked, so that damaged links cannot make it wait for itself.
    locked: [Cell<Buffer>; MOST_LOCKED],
    locked_count: Cell<usize>,
}

impl PgStore {
    /// The pages of `rel`. Readers leave predicate locks for `snapshot`, unless it is null.
    ///
    /// # Safety
    /// `rel` is an open index, and stays open and locked for as long as this is used.
    pub unsafe fn new(rel: Relation, snapshot: Snapshot) -> PgStore {
        // SAFETY: `rel` is open.
        let index = unsafe { (*rel).rd_id.to_u32() };
        PgStore {
            rel,
            index,
            blocks: Cell::new(0),
            snapshot: Cell::new(snapshot),
            log: Cell::new(None),
            build_id: Cell::new(None),
            stamp: Cell::new(Asked::No),
            heap: core::ptr::null_mut(),
            descents: Cell::new(None),
            locked: [const { Cell::new(relation::INVALID_BUFFER) }; MOST_LOCKED],
            locked_count: Cell::new(0),
        }
    }

    /// The pages of an index to be changed. What its changes need to know is there before a page is locked.
    ///
    /// # Safety
    /// `rel` is an open index, and stays open and locked for as long as this is used.
    pub unsafe fn for_changes(rel: Relation, index: &Index) -> PgStore {
        // SAFETY: `rel` is open and stays so.
        let store = unsafe { PgStore::new(rel, core::ptr::null_mut()) };
        store.log.set(Some(index.log));
        store.build_id.set(Some(index.geometry.build_id));
        store
    }

    /// The pages of an index to which entries of rows of `heap` are added.
    ///
    /// # Safety
    /// `rel` is an open index and `heap` its table, and both stay open and locked for as long as this is used.
    pub unsafe fn for_insertion(rel: Relation, index: &Index, heap: Relation) -> PgStore {
        // SAFETY: `rel` and `heap` are open and stay so.
        PgStore { heap, ..unsafe { PgStore::for_changes(rel, index) } }
    }

    /// The index.
    pub fn relation(&self) -> Relation {
        self.rel
    }

    /// Reads on for another snapshot.
    pub fn set_snapshot(&self, snapshot: Snapshot) {
        self.snapshot.set(snapshot);
    }

    /// Raises the engine's error as the server's.
    #[cold]
    pub fn fail(&self, error: Error) -> ! {
        errors::raise_engine(self.rel, error)
    }

    /// The value of a result, its error raised.
    #[inline]
    pub fn expect<T>(&self, result: Result<T>) -> T {
        const { assert!(!core::mem::needs_drop::<T>(), "an error jumps over it") };
        match result {
            Ok(value) => value,
            Err(error) => self.fail(error),
        }
    }

    /// Notes that a page is locked.
    #[inline]
    fn note_locked(&self, pin: Buffer) {
        let count = self.locked_count.get();
        // More than any sound index makes us lock need not be remembered.
        if let Some(slot) = self.locked.get(count) {
            slot.set(pin);
            self.locked_count.set(count + 1);
        }
    }

    /// Notes that a page is not locked any more.
    #[inline]
    fn note_unlocked(&self, pin: Buffer) {
        let Some(last) = self.locked_count.get().checked_sub(1) else { return };
        if let Some(slot) = self.locked().iter().rfind(|slot| slot.get() == pin) {
            slot.set(self.locked[last].get());
            self.locked_count.set(last);
        }
    }

    /// The pages that are locked.
    fn locked(&self) -> &[Cell<Buffer>] {
        &self.locked[..self.locked_count.get()]
    }

    /// Whether the file has this block, asking the server only if it is beyond what is known.
    #[inline]
    fn exists(&self, block: Block) -> bool {
        block < self.blocks.get() || block < self.block_count()
    }

    /// What is remembered of where leaves are.
    #[inline]
    pub fn descents(&self) -> Place {
        self.descents.get().unwrap_or_else(|| {
            let place = Place::of(self.build_id(), self.index);
            self.descents.set(Some(place));
            place
        })
    }

    /// What the pages are known by.
    #[inline]
    fn build_id(&self) -> u64 {
        self.build_id.get().unwrap_or_else(|| {
            // SAFETY: an open relation. Its meta page may be read.
            let build_id = unsafe { Index::build_id(self.rel) };
            self.build_id.set(Some(build_id));
            build_id
        })
    }

    /// From now on, notes the stamp of the page read last.
    #[inline]
    pub fn ask_for_stamp(&self) {
        self.stamp.set(Asked::Yes(None));
    }

    /// The stamp of the page read last, if it was asked for since; it is not any more.
    #[inline]
    pub fn take_stamp(&self) -> Option<Stamp> {
        match self.stamp.replace(Asked::No) {
            Asked::Yes(stamp) => stamp,
            Asked::No => None,
        }
    }

    /// Pins the page the ordinary way and remembers where it is. On return it is pinned and not locked.
    fn read(&self, block: Block) -> Buffer {
        // SAFETY: `rel` is open and has the block.
        let buffer = unsafe { ffi::ReadBuffer(self.rel, block) };
        recent_buffers::remember(self.index, block, buffer);
        buffer
    }

    /// A page from the free space map, if it offers one that is really free: pinned and exclusively locked. No lock is
    /// waited for.
    fn recycle(&self) -> Option<Locked<'_, Self, Exclusive>> {
        loop {
            // SAFETY: an open relation.
            let block = unsafe { ffi::GetFreeIndexPage(self.rel) };
            if block == relation::INVALID_BLOCK {
                return None;
            }
            // The map is not logged: it may name any block.
            if block <= ROOT || !self.exists(block) {
                continue;
            }
            let buffer = self.read(block);
            // SAFETY: the page is pinned, and given out locked or not at all. Whoever holds the lock has a use for it,
            // so it is not waited for.
            let locked = unsafe {
                if !ffi::ConditionalLockBuffer(buffer) {
                    ffi::ReleaseBuffer(buffer);
                    continue;
                }
                self.note_locked(buffer);
                Locked::<Self, Exclusive>::new(self, buffer)
            };
            if page::reusable(locked.bytes()) && self.is_past(page::deleted_at(locked.bytes())) {
                return Some(locked);
            }
            locked.release();
        }
    }

    /// Adds a page to the file, pinned and locked. It is locked before others can see it, as `_bt_allocbuf` has it: who
    /// finds it in the free space map or at the end of the file finds it locked.
    fn extend(&self) -> Locked<'_, Self, Exclusive> {
        // SAFETY: an open relation; the buffer comes pinned and locked.
        let locked = unsafe { Locked::<Self, Exclusive>::new(self, relation::add_locked_page(self.rel)) };
        self.note_locked(locked.frame());
        debug_assert!(page::reusable(locked.bytes()), "a new page is all zero");
        locked
    }

    /// The bytes of an exclusively locked page.
    #[allow(clippy::mut_from_ref)]
    unsafe fn bytes_mut(&self, pin: Buffer) -> &mut PageBytes {
        // SAFETY: a pinned buffer is a page; the exclusive lock keeps others away.
        unsafe { &mut *relation::page(pin).cast() }
    }

    /// Applies the change to its pages, which are pinned and exclusively locked, and notes the parts of a generic
    /// record, if there is to be one.
    unsafe fn apply(&self, pages: &[Writable<'_, Self>], change: &Change<'_>, is_generic: bool) {
        for (index, buffer) in pages.iter().map(Writable::frame).enumerate() {
            let mut ranges = if is_generic { Ranges::new() } else { Ranges::whole() };
            // SAFETY: the page is pinned and exclusively locked.
            unsafe {
                let page = self.bytes_mut(buffer);
                change.apply(index, page, &mut ranges);
                if is_generic {
                    generic_wal::note_part(index, &ranges, page);
                }
                ffi::MarkBufferDirty(buffer);
            }
        }
    }

    /// How the index's changes are logged.
    #[inline]
    fn log_kind(&self) -> LogKind {
        self.log.get().unwrap_or_else(|| {
            // SAFETY: an open relation. Its meta page is read once.
            let kind = unsafe { Index::of(self.rel).log };
            self.log.set(Some(kind));
            kind
        })
    }
}

impl Frames for PgStore {
    type Frame = Buffer;

    #[inline]
    unsafe fn block_in(&self, buffer: Buffer) -> Block {
        // SAFETY: the page is pinned.
        unsafe { ffi::BufferGetBlockNumber(buffer) }
    }

    #[inline]
    unsafe fn unpin(&self, buffer: Buffer) {
        // SAFETY: the page is pinned.
        unsafe { ffi::ReleaseBuffer(buffer) };
    }

    #[inline]
    unsafe fn lock(&self, buffer: Buffer, mode: Mode) {
        // SAFETY: the page is pinned and not locked; for a cleanup lock, once.
        unsafe {
            match mode {
                Mode::Share => ffi::LockBuffer(buffer, ffi::BUFFER_LOCK_SHARE as c_int),
                Mode::Exclusive => ffi::LockBuffer(buffer, ffi::BUFFER_LOCK_EXCLUSIVE as c_int),
                Mode::Cleanup => ffi::LockBufferForCleanup(buffer),
            }
        }
        self.note_locked(buffer);
    }

    #[inline]
    unsafe fn try_cleanup(&self, pin: Buffer) -> bool {
        // SAFETY: pinned once by the caller, and not locked.
        let is_locked = unsafe { ffi::ConditionalLockBufferForCleanup(pin) };
        if is_locked {
            self.note_locked(pin);
        }
        is_locked
    }

    unsafe fn unlock(&self, buffer: Buffer) {
        // SAFETY: the page is pinned and locked.
        unsafe { ffi::LockBuffer(buffer, ffi::BUFFER_LOCK_UNLOCK as c_int) };
        self.note_unlocked(buffer);
    }

    #[inline(always)]
    unsafe fn bytes_in(&self, buffer: Buffer) -> &PageBytes {
        // SAFETY: a pinned buffer is a page, and the caller's lock keeps writers away (hint bits apart).
        unsafe { &*relation::page(buffer).cast() }
    }

    #[inline]
    unsafe fn lsn_in(&self, buffer: Buffer) -> u64 {
        // SAFETY: the page is pinned. Hint bits may set an LSN under a share lock, hence "atomic".
        unsafe { ffi::BufferGetLSNAtomic(buffer) }
    }

    unsafe fn set_bits(&self, buffer: Buffer, offsets: &[u16], mask: u8) {
        if relation::generic_records_are_compared() && self.log_kind() == LogKind::Generic {
            return;
        }
        let set = || {
            for &offset in offsets.iter().filter(|&&offset| (offset as usize) < PAGE_SIZE) {
                // SAFETY: a byte of a pinned page. Others may read or set it meanwhile, under their own share lock.
                let byte = unsafe { AtomicU8::from_ptr(relation::page(buffer).add(offset as usize)) };
                byte.fetch_or(mask, Ordering::Relaxed);
            }
        };
        // SAFETY: the page is pinned and at least share-locked.
        unsafe { ffi::set_hints(buffer, set) };
    }

    #[inline(always)]
    fn prefetch(&self, buffer: Buffer, bytes: core::ops::Range<usize>) {
        // SAFETY: a pinned buffer is a page; the address is only a hint to the hardware.
        let page = unsafe { relation::page(buffer) };
        for at in bytes.step_by(CACHE_LINE) {
            simd::prefetch(page.wrapping_add(at));
        }
    }
}

impl PageStore for PgStore {
    #[inline]
    fn pin(&self, block: Block) -> Result<Pinned<Self>> {
        self.pin_likely(block)?.ok_or(Error::Corrupt { block, what: "points beyond the end of the index" })
    }

    #[inline]
    fn pin_likely(&self, block: Block) -> Result<Option<Pinned<Self>>> {
        // SAFETY: `rel` is open.
        let recalled = unsafe { recent_buffers::recall(self.rel, self.index, block) };
        if recalled.is_none() && !self.exists(block) {
            return Ok(None);
        }
        let buffer = recalled.unwrap_or_else(|| self.read(block));
        if self.locked().iter().any(|slot| slot.get() == buffer) {
            return Err(Error::Corrupt { block, what: "is linked to where it cannot belong" });
        }
        // SAFETY: just pinned.
        Ok(Some(unsafe { Pinned::new(buffer) }))
    }

    fn allocate(&self) -> Result<Locked<'_, Self, Exclusive>> {
        Ok(self.recycle().unwrap_or_else(|| self.extend()))
    }

    fn free(&self, block: Block) {
        // SAFETY: an open relation.
        unsafe { ffi::RecordFreeIndexPage(self.rel, block) };
    }

    fn now(&self) -> u64 {
        // SAFETY: no arguments.
        unsafe { ffi::ReadNextFullTransactionId().value }
    }

    fn is_past(&self, time: u64) -> bool {
        // Whoever is on the way down the tree and holds locks has a snapshot, or is the only VACUUM.
        // SAFETY: no relation stands for whichever is looked at longest.
        time == 0
            || unsafe { ffi::GlobalVisCheckRemovableFullXid(core::ptr::null_mut(), FullTransactionId { value: time }) }
    }

    fn block_count(&self) -> Block {
        // SAFETY: an open relation.
        let blocks = unsafe { ffi::RelationGetNumberOfBlocksInFork(self.rel, MAIN_FORKNUM) };
        self.blocks.set(blocks);
        blocks
    }

    fn most_pages(&self) -> usize {
        // SAFETY: an open relation.
        let is_generic = unsafe { relation::needs_wal(self.rel) } && self.log_kind() == LogKind::Generic;
        if is_generic { generic_wal::MOST_PAGES } else { MOST_BLOCKS }
    }

    fn commit(&self, pages: &[Writable<'_, Self>], change: &Change<'_>) {
        // SAFETY: the pages are pinned and exclusively locked, and nobody looks at them.
        unsafe {
            let log = relation::needs_wal(self.rel).then(|| self.log_kind());
            let record = log.is_some_and(LogKind::is_own).then(|| own_wal::prepare(self.rel, change));
            // Keys of a relation that is new are kept by parallel workers, who do not know that it is; of a temporary
            // one by nobody.
            let hot =
                hot_keys::cache().filter(|_| !relation::is_temporary(self.rel)).map(|cache| (cache, self.build_id()));
            errors::start_critical_section();
            if let Some((cache, build_id)) = hot {
                pages.iter().for_each(|page| cache.change(build_id, self.block_in(page.frame())));
            }
            self.apply(pages, change, log == Some(LogKind::Generic));
            let lsn = match (record, log) {
                (Some(kind), _) => own_wal::insert(pages.iter().map(Writable::frame), change, kind),
                (None, Some(_)) => generic_wal::insert(pages.iter().map(Writable::frame)),
                // Without a record the LSN advances too: it is how a scan notices that a page changed.
                (None, None) => ffi::gistGetFakeLSN(self.rel),
            };
            for page in pages {
                relation::set_lsn(relation::page(page.frame()), lsn);
            }
            errors::end_critical_section();
        }
    }

    #[inline]
    fn check_interrupts(&self) {
        errors::check_for_interrupts();
    }
}

impl Observers for PgStore {
    fn note_read(&self, leaf: &Locked<'_, Self, Shared>) {
        if let Asked::Yes(_) = self.stamp.get() {
            let stamp = hot_keys::cache().map(|cache| cache.stamp(self.build_id(), leaf.block()));
            self.stamp.set(Asked::Yes(stamp));
        }
        let snapshot = self.snapshot.get();
        if !snapshot.is_null() {
            // SAFETY: an open relation, a share-locked page of it and the scan's snapshot.
            unsafe {
                ffi::PredicateLockPage(self.rel, leaf.block(), snapshot);
                relation::test_for_old_snapshot(snapshot, self.rel, leaf.lsn());
            }
        }
    }

    fn note_split(&self, from: Block, to: Block) {
        // SAFETY: an open relation.
        unsafe { ffi::PredicateLockPageSplit(self.rel, from, to) };
    }

    fn note_merge(&self, from: Block, to: Block) {
        // SAFETY: an open relation.
        unsafe { ffi::PredicateLockPageCombine(self.rel, from, to) };
    }

    fn note_event(&self, event: PageEvent) {
        let count = match event {
            PageEvent::LeafSplit => Count::LeafSplits,
            PageEvent::InnerSplit => Count::InnerSplits,
            PageEvent::LeafMerged => Count::LeavesMerged,
            PageEvent::LeafDeleted => Count::LeavesDeleted,
        };
        totals::add(self.index, count, &[1]);
    }

    fn note_insert(&self, leaf: &Locked<'_, Self, Exclusive>, stretch: u64) {
        let block = leaf.block();
        // SAFETY: an open relation.
        unsafe {
            ffi::CheckForSerializableConflictIn(self.rel, core::ptr::null_mut(), block);
            index::note_leaf(self.rel, stretch, block);
        }
    }

    fn find_dead(
        &self,
        leaf: &Locked<'_, Self, Exclusive>,
        suspects: &mut [Suspect],
        search: DeadSearch,
    ) -> Option<Horizon> {
        let heap = self.heap;
        // SAFETY: an open relation and its table, and an exclusively locked leaf.
        unsafe {
            // Generic records cannot tell a standby whom they are in the way of.
            if heap.is_null() || relation::needs_wal(self.rel) && self.log_kind() == LogKind::Generic {
                return None;
            }
            dead::find(self.rel, heap, leaf.block(), suspects, search)
        }
    }
}

impl Hints for PgStore {
    fn likely_leaf(&self, stretch: u64) -> Option<Block> {
        // SAFETY: an open relation.
        unsafe { index::likely_leaf(self.rel, stretch) }
    }

    #[inline]
    fn seen_leaf(&self, mark: Mark) -> Option<Seen<Buffer>> {
        if options::descent_cache_size() == 0 {
            descents::forget_all();
            return None;
        }
        self.descents().find(mark)
    }

    #[inline]
    fn pin_seen(&self, seen: &Seen<Buffer>) -> Result<Option<Pinned<Self>>> {
        // SAFETY: a wrong buffer is refused by the server, which compares what it holds; else it is pinned.
        unsafe {
            let is_likely = self.locked().is_empty() && !descents::is_ordinary_turn();
            if is_likely && ffi::ReadRecentBuffer(relation::locator(self.rel), MAIN_FORKNUM, seen.block, seen.frame) {
                relation::count_buffer_hit(self.rel);
                return Ok(Some(Pinned::new(seen.frame)));
            }
        }
        self.pin_likely(seen.block)
    }

    fn note_leaf<M: LockMode>(
        &self,
        leaf: &Locked<'_, Self, M>,
        wanted: Mark,
        marks: Option<Marks>,
        stale: Option<&Seen<Buffer>>,
    ) {
        let Some(place) = self.descents.get() else { return };
        let seen = (leaf.block(), leaf.frame());
        place.learn(seen, wanted, marks, stale.map(|stale| stale.from), || self.block_count());
    }
}

/// Whether the stamp of the page read last is asked for.
#[derive(Clone, Copy)]
enum Asked {
    No,
    Yes(Option<Stamp>),
}
