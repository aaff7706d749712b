//! A page store in memory with real locks, a log in both forms and crashes, for tests and experiments.
//!
//! Every change is logged twice: encoded ([`Form::Own`]), and as what a generic record of the server would hold
//! ([`Form::Generic`]). A [`crash`](MemoryStore::crash) makes the store that redo would make of any log position and
//! any page versions that may have been written by then.

use super::{
    DeadSearch, Exclusive, Frames, Hints, LockMode, Locked, Mode, Observers, PageStore, Pinned, Seen, Shared, Suspect,
    Writable,
};
use crate::cache::descents::{Descents, Marks};
use crate::format::{Block, Error, Mark, NO_BLOCK, PAGE_SIZE, PageBytes, ROOT, Result, Tid, at};
use crate::log::{Change, Decoded, Horizon, Ranges};
use crate::page;
use core::cell::{RefCell, UnsafeCell};
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering};
use parking_lot::lock_api::RawRwLock as _;
use parking_lot::{Mutex, RawRwLock};
use std::collections::BTreeMap;

/// Which of the two logs to redo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Encoded changes.
    Own,
    /// Written byte ranges, or whole pages without their hole.
    Generic,
}

/// Bytes in which stores remember where leaves are, unless another number is asked for: few, so that some are
/// forgotten.
const FEW: usize = 8 << 10;

/// A page's place in memory.
struct Frame {
    bytes: UnsafeCell<PageBytes>,
    lock: RawRwLock,
    pins: AtomicUsize,
}

// SAFETY: the bytes are reached through `bytes` and `commit` only, whose callers hold the content lock.
unsafe impl Sync for Frame {}

/// A page's place in memory: one frame is one block's for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameId(Block);

/// One block's part of a generic record.
enum Written {
    Delta(Vec<u8>),
    Image(Box<PageBytes>),
}

struct LoggedChange {
    own: Vec<u8>,
    generic: Vec<(Block, Written)>,
    /// What the pages were afterwards, in case they are written then.
    versions: Vec<(Block, Box<PageBytes>)>,
}

/// Pages, as many as were asked for and no more.
pub struct MemoryStore {
    frames: Box<[Frame]>,
    count: AtomicU32,
    free: Mutex<Vec<Block>>,
    lsn: Mutex<u64>,
    /// What the store began with and everything since, if it is kept.
    log: Option<Mutex<Vec<LoggedChange>>>,
    base: Vec<PageBytes>,
    jitter: AtomicBool,
    /// Where an entry went last, whoever inserted it.
    last_leaf: AtomicU32,
    /// Where leaves were seen, if that is remembered.
    descents: Option<Mutex<Descents<Box<[u8]>>>>,
    /// Rows that are dead to everyone, and when they died.
    dead: Mutex<BTreeMap<Tid, u32>>,
    /// Whether every change is tried in both forms before it is made.
    checked: bool,
}

thread_local! {
    /// The content locks this thread holds.
    static HELD: RefCell<Vec<(*const Frame, Mode)>> = const { RefCell::new(Vec::new()) };
}

/// How this thread has a page locked.
fn held(frame: &Frame) -> Option<Mode> {
    HELD.with_borrow(|held| held.iter().find(|(other, _)| core::ptr::eq(*other, frame)).map(|(_, mode)| *mode))
}

impl MemoryStore {
    /// A store that holds `pages` and has room for `capacity`. It keeps no log.
    pub fn new(pages: &[PageBytes], capacity: usize) -> Self {
        assert!(pages.len() <= capacity, "more pages than there is room for");
        let frame = |block: usize| Frame {
            bytes: UnsafeCell::new(pages.get(block).copied().unwrap_or([0; PAGE_SIZE])),
            lock: RawRwLock::INIT,
            pins: AtomicUsize::new(0),
        };
        MemoryStore {
            frames: (0..capacity).map(frame).collect(),
            count: AtomicU32::new(pages.len() as Block),
            free: Mutex::default(),
            lsn: Mutex::new(pages.iter().map(lsn_of).max().unwrap_or(0)),
            log: None,
            base: Vec::new(),
            jitter: AtomicBool::new(false),
            last_leaf: AtomicU32::new(NO_BLOCK),
            descents: Self::remembering(FEW),
            dead: Mutex::default(),
            checked: true,
        }
    }

    /// The store, remembering where leaves are in so many bytes; not at all in too few for that.
    pub fn with_descents(self, bytes: usize) -> Self {
        MemoryStore { descents: Self::remembering(bytes), ..self }
    }

    /// Forgets where leaves are.
    pub fn forget_leaves(&self) {
        if let Some(descents) = &self.descents {
            descents.lock().clear();
        }
    }

    fn remembering(bytes: usize) -> Option<Mutex<Descents<Box<[u8]>>>> {
        Descents::new(vec![0; bytes].into_boxed_slice(), false).ok().map(Mutex::new)
    }

    /// A store for damaged pages, whose changes are not checked.
    pub fn unchecked(pages: &[PageBytes], capacity: usize) -> Self {
        MemoryStore { checked: false, ..MemoryStore::new(pages, capacity) }
    }

    /// A store that keeps its log, to be crashed.
    pub fn logging(pages: &[PageBytes], capacity: usize) -> Self {
        MemoryStore { log: Some(Mutex::default()), base: pages.to_vec(), ..MemoryStore::new(pages, capacity) }
    }

    /// Lets threads change places at more moments than the scheduler would.
    pub fn shake(&self) {
        self.jitter.store(true, Ordering::Relaxed);
    }

    /// A copy of a page.
    pub fn copy(&self, block: Block) -> PageBytes {
        let locked = self.pin(block).expect("the page exists").lock::<Shared>(self);
        let bytes = *locked.bytes();
        locked.release();
        bytes
    }

    /// Overwrites a page with whatever bytes.
    pub fn damage(&self, block: Block, bytes: &PageBytes) {
        let locked = self.pin(block).expect("the page exists").lock::<Exclusive>(self);
        // SAFETY: the page is exclusively locked, and nobody looks at its bytes.
        unsafe { *self.frames[block as usize].bytes.get() = *bytes };
        locked.release();
    }

    /// Cuts the file off behind so many pages, which nobody else uses meanwhile.
    pub fn truncate(&self, blocks: Block) {
        let cut = &self.frames[blocks as usize..self.count.swap(blocks, Ordering::SeqCst) as usize];
        for frame in cut {
            assert_eq!(frame.pins.load(Ordering::SeqCst), 0, "a page that is cut off is pinned");
            // SAFETY: nobody uses the page.
            unsafe { *frame.bytes.get() = [0; PAGE_SIZE] };
        }
        // SAFETY: nobody uses the page.
        let is_free = |block: Block| page::reusable(unsafe { &*self.frames[block as usize].bytes.get() });
        self.free.lock().retain(|&block| block < blocks && is_free(block));
    }

    /// A row is dead to everyone from now on: its entry may be removed whenever room is needed.
    pub fn bury(&self, row: Tid) {
        let mut dead = self.dead.lock();
        let time = dead.len() as u32;
        dead.insert(row.position(), time);
    }

    /// The log, as encoded changes.
    pub fn records(&self) -> Vec<Vec<u8>> {
        self.log.as_ref().map_or_else(Vec::new, |log| log.lock().iter().map(|record| record.own.clone()).collect())
    }

    /// Pages in the free space map.
    pub fn free_pages(&self) -> u64 {
        self.free.lock().len() as u64
    }

    /// The log position after the last change.
    pub fn end_of_log(&self) -> u64 {
        *self.lsn.lock()
    }

    /// Whether no page is pinned or locked.
    pub fn is_quiet(&self) -> bool {
        let idle = |frame: &Frame| frame.pins.load(Ordering::SeqCst) == 0 && !frame.lock.is_locked();
        self.frames.iter().all(idle)
    }

    /// Forgets all pins and locks, as a server does that aborts a transaction. Nobody else uses the store.
    pub fn abort(&mut self) {
        for frame in &mut self.frames {
            frame.pins = AtomicUsize::new(0);
            frame.lock = RawRwLock::INIT;
        }
        HELD.take();
    }

    /// The store that a crash at log position `lsn` and redo leave. Of every page any version up to there may have been
    /// written before: `choose` says which of that many. The free list is lost.
    ///
    /// # Panics
    /// If no log is kept, or if redo meets a change that does not fit its page.
    pub fn crash(&self, choose: &mut dyn FnMut(usize) -> usize, lsn: u64, form: Form) -> MemoryStore {
        let log = self.log.as_ref().expect("the store keeps a log").lock();
        let past = &log[..lsn as usize];
        let mut versions: Vec<Vec<&PageBytes>> = self.base.iter().map(|page| vec![page]).collect();
        for (block, version) in past.iter().flat_map(|record| &record.versions) {
            versions.resize_with(versions.len().max(*block as usize + 1), || vec![&[0; PAGE_SIZE]]);
            versions[*block as usize].push(version);
        }
        let mut pages: Vec<PageBytes> = versions.iter().map(|all| *all[choose(all.len())]).collect();
        for (record, lsn) in past.iter().zip(1..) {
            record.redo(&mut pages, lsn, form);
        }
        // Positions in the new store's log count from nothing again.
        pages.iter_mut().for_each(|page| set_lsn(page, 0));
        MemoryStore::logging(&pages, self.frames.len())
    }

    fn frame(&self, id: FrameId) -> &Frame {
        let frame = &self.frames[id.0 as usize];
        debug_assert!(frame.pins.load(Ordering::SeqCst) > 0, "page {} is used without a pin", id.0);
        frame
    }

    /// Checks that the page locked last could be waited for under the locks that this thread held (docs/protocols.md,
    /// 15): it is on a higher level than their pages, or right of the last of them on its level. Nobody waits for a
    /// page that is free.
    fn check_order(&self) {
        HELD.with_borrow(|held| {
            let pages = held.iter().filter(|(frame, _)| self.frames.as_ptr_range().contains(frame));
            // SAFETY: pages of this store that this thread has locked.
            let pages = pages.map(|&(frame, _)| unsafe {
                (frame.offset_from(self.frames.as_ptr()) as Block, &*(*frame).bytes.get())
            });
            let mut pages = pages.filter(|(_, page)| !page::reusable(page));
            let Some((block, locked)) = pages.next_back() else { return };
            let in_order = pages.all(|before| page::may_wait(before, locked));
            assert!(in_order, "page {block}, of level {}, is locked out of order", locked[at::LEVEL]);
        });
    }

    /// Lets another thread go first, now and then.
    fn sway(&self) {
        if self.jitter.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
    }
}

impl LoggedChange {
    fn redo(&self, pages: &mut [PageBytes], lsn: u64, form: Form) {
        let decoded = Decoded::decode(&self.own).expect("a logged change can be read");
        let change = decoded.change();
        for (index, (block, written)) in self.generic.iter().enumerate() {
            let page = &mut pages[*block as usize];
            debug_assert_eq!(decoded.blocks()[index], *block);
            if lsn_of(page) >= lsn {
                continue;
            }
            match form {
                Form::Own => {
                    assert!(change.fits(index, page), "a logged change fits its page: {change:?}");
                    change.apply(index, page, &mut Ranges::new());
                }
                Form::Generic => written.apply(page),
            }
            set_lsn(page, lsn);
        }
    }
}

impl Written {
    fn of(ranges: &Ranges, page: &PageBytes) -> Written {
        if ranges.whole_page() {
            let mut image = Box::new(*page);
            zero_hole(&mut image);
            return Written::Image(image);
        }
        let mut delta = vec![0; Ranges::DELTA_SIZE];
        let length = ranges.delta(page, &mut delta);
        delta.truncate(length);
        Written::Delta(delta)
    }

    /// What the server's `generic_redo` does.
    fn apply(&self, page: &mut PageBytes) {
        match self {
            Written::Image(image) => *page = **image,
            Written::Delta(delta) => {
                let mut rest = &delta[..];
                while let Some((&[a, b, c, d], after)) = rest.split_first_chunk() {
                    let (at, length) = (u16::from_ne_bytes([a, b]) as usize, u16::from_ne_bytes([c, d]) as usize);
                    page[at..at + length].copy_from_slice(&after[..length]);
                    rest = &after[length..];
                }
            }
        }
        zero_hole(page);
    }
}

/// Zeroes what the page header says is unused, as the server does in redo.
fn zero_hole(page: &mut PageBytes) {
    let [lower, upper] = [12, 14].map(|at| u16::from_le_bytes([page[at], page[at + 1]]) as usize);
    if let Some(hole) = page.get_mut(lower..upper) {
        hole.fill(0);
    }
}

fn lsn_of(page: &PageBytes) -> u64 {
    let mut lsn = [0; 8];
    lsn.copy_from_slice(&page[..8]);
    u64::from_le_bytes(lsn)
}

fn set_lsn(page: &mut PageBytes, lsn: u64) {
    page[..8].copy_from_slice(&lsn.to_le_bytes());
}

/// Checks that redo in either form makes the same of a page as the change did.
fn check(change: &Change<'_>, own: &[u8], index: usize, before: &PageBytes, written: &Written, after: &PageBytes) {
    let decoded = Decoded::decode(own).expect("a change can be read back");
    assert!(change.fits(index, before), "a change does not fit the page it was planned on: {change:?}");
    let (mut owned, mut generic) = (*before, *before);
    decoded.change().apply(index, &mut owned, &mut Ranges::new());
    written.apply(&mut generic);
    assert!(owned == *after, "redo of a read back change differs: {change:?}");
    assert!(generic[8..] == after[8..], "redo of the written ranges differs: {change:?}");
}

impl Frames for MemoryStore {
    type Frame = FrameId;

    unsafe fn block_in(&self, frame: FrameId) -> Block {
        frame.0
    }

    unsafe fn unpin(&self, frame: FrameId) {
        self.frame(frame).pins.fetch_sub(1, Ordering::SeqCst);
    }

    unsafe fn lock(&self, id: FrameId, mode: Mode) {
        self.sway();
        let frame = self.frame(id);
        assert_eq!(held(frame), None, "page {id:?} is locked twice");
        if mode == Mode::Cleanup {
            return self.lock_cleanup(id);
        }
        HELD.with_borrow_mut(|held| held.push((frame, mode)));
        match mode {
            Mode::Share => frame.lock.lock_shared(),
            _ => frame.lock.lock_exclusive(),
        }
        if self.checked {
            self.check_order();
        }
    }

    unsafe fn try_cleanup(&self, id: FrameId) -> bool {
        self.sway();
        let frame = self.frame(id);
        assert_eq!(held(frame), None, "page {id:?} is locked twice");
        if !frame.lock.try_lock_exclusive() {
            return false;
        }
        let is_unpinned = frame.pins.load(Ordering::SeqCst) == 1;
        if is_unpinned {
            HELD.with_borrow_mut(|held| held.push((frame, Mode::Cleanup)));
        } else {
            // SAFETY: locked above.
            unsafe { frame.lock.unlock_exclusive() };
        }
        is_unpinned
    }

    unsafe fn unlock(&self, id: FrameId) {
        let frame = self.frame(id);
        let (_, mode) = HELD.with_borrow_mut(|held| {
            let at = held.iter().position(|(other, _)| core::ptr::eq(*other, frame));
            held.remove(at.expect("the page is locked by this thread"))
        });
        // SAFETY: this thread holds the lock in this mode.
        unsafe {
            match mode {
                Mode::Share => frame.lock.unlock_shared(),
                _ => frame.lock.unlock_exclusive(),
            }
        }
        self.sway();
    }

    unsafe fn bytes_in(&self, id: FrameId) -> &PageBytes {
        let frame = self.frame(id);
        debug_assert!(held(frame).is_some(), "page {id:?} is read without a lock");
        // SAFETY: the page is locked, so nobody changes it but for the hint bits.
        unsafe { &*frame.bytes.get() }
    }

    unsafe fn lsn_in(&self, id: FrameId) -> u64 {
        // SAFETY: locked by the caller.
        lsn_of(unsafe { self.bytes_in(id) })
    }

    unsafe fn set_bits(&self, id: FrameId, offsets: &[u16], mask: u8) {
        let bytes = self.frame(id).bytes.get().cast::<u8>();
        for &offset in offsets {
            assert!((offset as usize) < PAGE_SIZE, "a hint outside the page");
            // SAFETY: the byte is in the page, and whoever changes it under a share lock does so atomically.
            unsafe { AtomicU8::from_ptr(bytes.add(offset as usize)).fetch_or(mask, Ordering::Relaxed) };
        }
    }
}

impl MemoryStore {
    fn lock_cleanup(&self, id: FrameId) {
        assert!(HELD.with_borrow(Vec::is_empty), "a cleanup lock is waited for under a content lock");
        let frame = self.frame(id);
        loop {
            frame.lock.lock_exclusive();
            if frame.pins.load(Ordering::SeqCst) == 1 {
                return HELD.with_borrow_mut(|held| held.push((frame, Mode::Cleanup)));
            }
            // SAFETY: locked above.
            unsafe { frame.lock.unlock_exclusive() };
            std::thread::yield_now();
        }
    }

    /// Pins a page that may be taken for new content, and locks it unless somebody else has.
    fn take_free(&self, block: Block) -> Option<Locked<'_, Self, Exclusive>> {
        let pinned = self.pin(block).ok()?;
        let frame = self.frame(pinned.frame());
        if !frame.lock.try_lock_exclusive() {
            pinned.unpin(self);
            return None;
        }
        HELD.with_borrow_mut(|held| held.push((frame, Mode::Exclusive)));
        // SAFETY: just pinned and locked.
        let locked = unsafe { Locked::<Self, Exclusive>::new(self, pinned.frame()) };
        if block > ROOT && page::reusable(locked.bytes()) && self.is_past(page::deleted_at(locked.bytes())) {
            return Some(locked);
        }
        locked.release();
        None
    }
}

impl PageStore for MemoryStore {
    fn pin(&self, block: Block) -> Result<Pinned<Self>> {
        if block >= self.block_count() {
            return Err(Error::Corrupt { block, what: "page is beyond the end of the index" });
        }
        let frame = &self.frames[block as usize];
        if held(frame).is_some() {
            return Err(Error::Corrupt { block, what: "page leads to itself" });
        }
        frame.pins.fetch_add(1, Ordering::SeqCst);
        // SAFETY: just pinned.
        Ok(unsafe { Pinned::new(FrameId(block)) })
    }

    fn pin_likely(&self, block: Block) -> Result<Option<Pinned<Self>>> {
        if block < self.block_count() { self.pin(block).map(Some) } else { Ok(None) }
    }

    fn allocate(&self) -> Result<Locked<'_, Self, Exclusive>> {
        loop {
            let Some(block) = self.free.lock().pop() else { break };
            if let Some(locked) = self.take_free(block) {
                return Ok(locked);
            }
        }
        let block = self.count.fetch_add(1, Ordering::SeqCst);
        assert!((block as usize) < self.frames.len(), "the store is full");
        Ok(self.pin(block)?.lock(self))
    }

    fn free(&self, block: Block) {
        debug_assert_ne!(block, NO_BLOCK);
        self.free.lock().push(block);
    }

    fn now(&self) -> u64 {
        self.end_of_log() + 1
    }

    fn is_past(&self, _time: u64) -> bool {
        true
    }

    fn block_count(&self) -> Block {
        self.count.load(Ordering::SeqCst)
    }

    fn commit(&self, pages: &[Writable<'_, Self>], change: &Change<'_>) {
        let blocks: Vec<Block> = pages.iter().map(|page| page.frame().0).collect();
        assert_eq!(blocks.len(), change.pages(), "a change is of other pages: {change:?}");
        let mut own = Vec::new();
        change.encode(&blocks, &mut own);
        let mut lsn = self.lsn.lock();
        *lsn += 1;
        let (mut generic, mut versions) = (Vec::new(), Vec::new());
        for (index, written_to) in pages.iter().enumerate() {
            let (frame, block) = (self.frame(written_to.frame()), blocks[index]);
            let mode = held(frame);
            assert!(matches!(mode, Some(Mode::Exclusive | Mode::Cleanup)), "page {block} is changed without its lock");
            // SAFETY: this thread has the page's exclusive lock, and nobody looks at its bytes.
            let page = unsafe { &mut *frame.bytes.get() };
            let before = *page;
            let mut ranges = Ranges::new();
            change.apply(index, page, &mut ranges);
            let written = Written::of(&ranges, page);
            if self.checked {
                check(change, &own, index, &before, &written, page);
            }
            set_lsn(page, *lsn);
            if self.log.is_some() {
                generic.push((block, written));
                versions.push((block, Box::new(*page)));
            }
        }
        if let Some(log) = &self.log {
            log.lock().push(LoggedChange { own, generic, versions });
        }
    }

    fn check_interrupts(&self) {
        self.sway();
    }
}

impl Observers for MemoryStore {
    fn note_insert(&self, leaf: &Locked<'_, Self, Exclusive>, _stretch: u64) {
        self.last_leaf.store(leaf.block(), Ordering::Relaxed);
    }

    fn find_dead(
        &self,
        _leaf: &Locked<'_, Self, Exclusive>,
        suspects: &mut [Suspect],
        search: DeadSearch,
    ) -> Option<Horizon> {
        let dead = self.dead.lock();
        let mut wanted = if let DeadSearch::Versions(wanted) = search { wanted } else { usize::MAX };
        let mut horizon = None;
        for suspect in suspects {
            let died = dead.get(&suspect.tid.position()).copied();
            let Some(died) = died.filter(|_| search == DeadSearch::Marked || suspect.has_twin && wanted > 0) else {
                continue;
            };
            (suspect.is_dead, wanted) = (true, wanted - 1);
            horizon = horizon.max(Some(died));
        }
        horizon.map(|transaction| Horizon { transaction, is_catalog: false })
    }
}

impl Hints for MemoryStore {
    fn likely_leaf(&self, _stretch: u64) -> Option<Block> {
        Some(self.last_leaf.load(Ordering::Relaxed)).filter(|&block| block != NO_BLOCK)
    }

    fn seen_leaf(&self, mark: Mark) -> Option<Seen<FrameId>> {
        let found = self.descents.as_ref()?.lock().find(mark)?;
        let block = found.leaf as Block;
        Some(Seen { from: found.from, block, frame: FrameId(block) })
    }

    fn note_leaf<M: LockMode>(
        &self,
        leaf: &Locked<'_, Self, M>,
        wanted: Mark,
        marks: Option<Marks>,
        stale: Option<&Seen<FrameId>>,
    ) {
        let Some(descents) = &self.descents else { return };
        let mut descents = descents.lock();
        if descents.learn(leaf.block().into(), wanted, marks, stale.map(|stale| stale.from)).is_err() {
            let memory = vec![0; descents.size()].into_boxed_slice();
            *descents = Descents::new(memory, descents.wants_wholes()).expect("what fitted once fits again");
        }
    }
}
