//! Pages in memory: pinned, then locked, then read or changed.

use crate::format::{Block, PageBytes, Result};
use crate::log::{Change, MOST_BLOCKS};
use arrayvec::ArrayVec;
use core::fmt;
use core::marker::PhantomData;
use core::ops::Range;

/// How a page is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Readers share the page.
    Share,
    /// One writer has the page.
    Exclusive,
    /// One writer has the page, and nobody else has it pinned.
    Cleanup,
}

/// How a page is locked, as a type: [`Shared`], [`Exclusive`] or [`Cleanup`].
pub trait LockMode {
    /// The mode.
    const MODE: Mode;
}

/// A lock mode in which pages are changed.
pub trait Writing: LockMode {}

/// Readers share the page.
#[derive(Debug)]
pub enum Shared {}
/// One writer has the page.
#[derive(Debug)]
pub enum Exclusive {}
/// One writer has the page, and nobody else has it pinned.
#[derive(Debug)]
pub enum Cleanup {}

impl LockMode for Shared {
    const MODE: Mode = Mode::Share;
}

impl LockMode for Exclusive {
    const MODE: Mode = Mode::Exclusive;
}

impl LockMode for Cleanup {
    const MODE: Mode = Mode::Cleanup;
}

impl Writing for Exclusive {}
impl Writing for Cleanup {}

/// Where a store has pages in memory, and what it does to them there. Nobody calls the unsafe methods but [`Pinned`]
/// and [`Locked`], which know what is pinned and how it is locked.
pub trait Frames {
    /// A page's place in memory: a buffer's number. It says nothing of pins and locks.
    type Frame: Copy + PartialEq + fmt::Debug;

    /// The block of the page in a frame.
    ///
    /// # Safety
    /// The frame is pinned.
    unsafe fn block_in(&self, frame: Self::Frame) -> Block;
    /// Gives a pin back.
    ///
    /// # Safety
    /// The pin is the caller's, and the page is not locked.
    unsafe fn unpin(&self, frame: Self::Frame);
    /// Waits for a content lock; for [`Mode::Cleanup`] until the caller's pin is the only one, with no content lock
    /// held.
    ///
    /// # Safety
    /// The caller has the frame pinned, and not locked.
    unsafe fn lock(&self, frame: Self::Frame, mode: Mode);
    /// Locks a page for [`Mode::Cleanup`] if that takes no waiting, and says whether it did. Content locks may be held.
    ///
    /// # Safety
    /// The caller has the frame pinned, once, and not locked.
    unsafe fn try_cleanup(&self, frame: Self::Frame) -> bool;
    /// Gives the content lock back; the pin stays.
    ///
    /// # Safety
    /// The caller has the frame locked, and looks at its page no more.
    unsafe fn unlock(&self, frame: Self::Frame);
    /// The page's bytes, for as long as it is locked.
    ///
    /// # Safety
    /// The caller has the frame locked, and neither unlocks nor changes it while it looks at the bytes.
    unsafe fn bytes_in(&self, frame: Self::Frame) -> &PageBytes;
    /// The page's position in the log, to notice that it changed.
    ///
    /// # Safety
    /// The caller has the frame locked.
    unsafe fn lsn_in(&self, frame: Self::Frame) -> u64;
    /// Sets bits of bytes at `offsets` by an atomic OR, a hint that need not be logged.
    ///
    /// # Safety
    /// The caller has the frame locked.
    unsafe fn set_bits(&self, frame: Self::Frame, offsets: &[u16], mask: u8);
    /// Asks the hardware for some bytes of a page that is pinned, or was, and is about to be locked and read.
    #[inline(always)]
    fn prefetch(&self, _frame: Self::Frame, _bytes: Range<usize>) {}
}

/// A pinned page: it stays in memory. It is given back by hand ([`unpin`](Pinned::unpin)); a server that aborts a
/// transaction gives back all pins itself, which is why nothing happens when one is dropped.
#[must_use = "a pin is given back by hand"]
pub struct Pinned<S: Frames>(S::Frame);

impl<S: Frames> fmt::Debug for Pinned<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pin of {:?}", self.0)
    }
}

impl<S: Frames> Pinned<S> {
    /// A pin that a store has just taken.
    ///
    /// # Safety
    /// The frame is pinned once more than there are other `Pinned` and `Locked` of it.
    #[inline(always)]
    pub unsafe fn new(frame: S::Frame) -> Self {
        Pinned(frame)
    }

    /// Where the page is in memory.
    #[inline(always)]
    pub fn frame(&self) -> S::Frame {
        self.0
    }

    /// The page's block number.
    #[inline]
    pub fn block(&self, store: &S) -> Block {
        // SAFETY: pinned by this.
        unsafe { store.block_in(self.0) }
    }

    /// Waits for a content lock. The pin goes along with it.
    #[inline(always)]
    pub fn lock<M: LockMode>(self, store: &S) -> Locked<'_, S, M> {
        // SAFETY: pinned by this; who locks a page gives its pin away, so it is not locked.
        unsafe { store.lock(self.0, M::MODE) };
        Locked { store, frame: self.0, mode: PhantomData }
    }

    /// Takes a cleanup lock if nobody else has the page locked or pinned; else gives the pin back.
    pub fn lock_unpinned(self, store: &S) -> Option<Locked<'_, S, Cleanup>> {
        // SAFETY: pinned by this, and not locked, as above.
        if unsafe { store.try_cleanup(self.0) } {
            return Some(Locked { store, frame: self.0, mode: PhantomData });
        }
        self.unpin(store);
        None
    }

    /// Gives the pin back.
    #[inline(always)]
    pub fn unpin(self, store: &S) {
        // SAFETY: pinned by this and not locked, as above.
        unsafe { store.unpin(self.0) };
    }
}

/// A pinned page with a content lock, whose bytes may be looked at. Both are given back by hand, in any order of pages;
/// a server that aborts a transaction gives back all locks itself.
#[must_use = "a lock is given back by hand"]
pub struct Locked<'s, S: Frames, M> {
    store: &'s S,
    frame: S::Frame,
    mode: PhantomData<M>,
}

impl<S: Frames, M: LockMode> fmt::Debug for Locked<'_, S, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} lock of {:?}", M::MODE, self.frame)
    }
}

impl<'s, S: Frames, M: LockMode> Locked<'s, S, M> {
    /// A page that a store has just pinned and locked.
    ///
    /// # Safety
    /// As for [`Pinned::new`], and the frame is locked in this mode.
    #[inline(always)]
    pub unsafe fn new(store: &'s S, frame: S::Frame) -> Self {
        Locked { store, frame, mode: PhantomData }
    }

    /// Where the page is in memory.
    #[inline(always)]
    pub fn frame(&self) -> S::Frame {
        self.frame
    }

    /// The page's block number.
    #[inline(always)]
    pub fn block(&self) -> Block {
        // SAFETY: pinned by this.
        unsafe { self.store.block_in(self.frame) }
    }

    /// The page's bytes.
    #[inline(always)]
    pub fn bytes(&self) -> &PageBytes {
        // SAFETY: locked by this, which cannot be unlocked or changed while it is borrowed.
        unsafe { self.store.bytes_in(self.frame) }
    }

    /// The page's position in the log.
    #[inline(always)]
    pub fn lsn(&self) -> u64 {
        // SAFETY: locked by this.
        unsafe { self.store.lsn_in(self.frame) }
    }

    /// Sets the flag `mask` of entries, whose flags are at `offsets` in the page: a hint that need not be logged (I2).
    pub fn set_hint(&self, offsets: &[u16], mask: u8) {
        // SAFETY: locked by this.
        unsafe { self.store.set_bits(self.frame, offsets, mask) };
    }

    /// Gives the lock back; the pin stays.
    #[inline(always)]
    pub fn unlock(self) -> Pinned<S> {
        // SAFETY: locked by this, whose bytes nobody has borrowed any more.
        unsafe { self.store.unlock(self.frame) };
        Pinned(self.frame)
    }

    /// Gives lock and pin back.
    #[inline(always)]
    pub fn release(self) {
        let store = self.store;
        self.unlock().unpin(store);
    }

    /// Another lock instead. Unless it is of the same mode, others may have the page in between.
    #[inline]
    pub fn relock<N: LockMode>(self) -> Locked<'s, S, N> {
        if M::MODE == N::MODE {
            return Locked { store: self.store, frame: self.frame, mode: PhantomData };
        }
        let store = self.store;
        self.unlock().lock(store)
    }
}

impl<S: Frames, M: Writing> Locked<'_, S, M> {
    /// The page, to be changed: nobody looks at its bytes meanwhile.
    #[inline(always)]
    pub fn writable(&mut self) -> Writable<'_, S> {
        Writable { frame: self.frame, lock: PhantomData }
    }
}

/// A page that is locked by a writer who does not look at its bytes.
pub struct Writable<'l, S: Frames> {
    frame: S::Frame,
    lock: PhantomData<&'l mut S>,
}

impl<S: Frames> Writable<'_, S> {
    /// Where the page is in memory.
    #[inline(always)]
    pub fn frame(&self) -> S::Frame {
        self.frame
    }
}

/// The pages of one change, in lock order.
pub type Pages<'l, S> = ArrayVec<Writable<'l, S>, MOST_BLOCKS>;

/// Pages of one index, pinned, locked and changed atomically.
///
/// Nothing here owns a destructor: pins and locks are given back by hand, and a server that aborts a transaction gives
/// them all back itself. An implementation may leave a call by unwinding or jumping (an I/O error, a cancel), which is
/// why the engine keeps no destructor alive across one. When the engine returns an [`Error`](crate::format::Error),
/// locks and pins may still be held: the caller aborts.
pub trait PageStore: Frames + Sized {
    /// Pins a page. No lock is taken. A block beyond the end of the file is [`Error::Corrupt`](crate::format::Error),
    /// and so is a page that the caller has locked: only a damaged tree leads there, and waiting for that lock would
    /// never end.
    fn pin(&self, block: Block) -> Result<Pinned<Self>>;
    /// [Pins](PageStore::pin) a page that is named by what was true once; `None` if the file has become shorter since.
    fn pin_likely(&self, block: Block) -> Result<Option<Pinned<Self>>>;
    /// A page for new content: all zero or marked deleted, from the free space map or the end of the file. It stays as
    /// it is unless a [`commit`](PageStore::commit) writes it.
    fn allocate(&self) -> Result<Locked<'_, Self, Exclusive>>;
    /// Notes in the free space map that a deleted page can be used again. Not logged, may be lost.
    fn free(&self, block: Block);
    /// The time by which the deletion of an inner page is dated, never 0.
    fn now(&self) -> u64;
    /// Whether whoever was at work in the tree at that time is done: a page deleted then may become one of another
    /// level. [`allocate`](PageStore::allocate) asks this.
    fn is_past(&self, time: u64) -> bool;
    /// Pages in the file now.
    fn block_count(&self) -> Block;
    /// The most pages of a change that it can log: [`MOST_BLOCKS`], or one less.
    fn most_pages(&self) -> usize {
        MOST_BLOCKS
    }
    /// Applies a validated change to its pages and logs it, as one atomic act. Locks and pins stay.
    fn commit(&self, pages: &[Writable<'_, Self>], change: &Change<'_>);
    /// Gives the server a chance to cancel. Where content locks are held, on the way up from a split, it has to wait.
    fn check_interrupts(&self);
}
