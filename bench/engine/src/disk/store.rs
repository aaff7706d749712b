//! The engine's page store over the pool, for a single thread: nobody is waited for, so locks are nothing, and nothing
//! is logged. Changes are made where the pages are.

use std::cell::RefCell;

use fpbtree_engine::format::{Block, PageBytes, Result};
use fpbtree_engine::log::{Change, Ranges};
use fpbtree_engine::simd::{self, CACHE_LINE};
use fpbtree_engine::store::{Exclusive, Frames, Hints, Locked, Mode, Observers, PageStore, Pinned, Writable};

use crate::pool::Pool;

/// The store.
pub struct PoolStore {
    pool: RefCell<Pool>,
}

/// Where a page is in memory.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Place {
    block: Block,
    frame: usize,
}

impl PoolStore {
    /// A store of the pages in a pool.
    ///
    /// # Panics
    /// If they are not as large as the engine's.
    pub fn new(pool: Pool) -> Self {
        assert_eq!(pool.page_size(), size_of::<PageBytes>(), "the engine's pages have one size");
        PoolStore { pool: RefCell::new(pool) }
    }

    /// The pool. No page is pinned.
    pub fn pool(&self) -> std::cell::Ref<'_, Pool> {
        self.pool.borrow()
    }

    /// The pool, to be changed. No page is pinned.
    pub fn pool_mut(&mut self) -> &mut Pool {
        self.pool.get_mut()
    }

    #[inline]
    fn address(&self, pin: Place) -> *mut u8 {
        self.pool.borrow().address(pin.frame)
    }
}

impl Frames for PoolStore {
    type Frame = Place;

    #[inline]
    unsafe fn block_in(&self, place: Place) -> Block {
        place.block
    }

    #[inline]
    unsafe fn unpin(&self, place: Place) {
        self.pool.borrow_mut().unpin(place.frame);
    }

    #[inline]
    unsafe fn lock(&self, _place: Place, _mode: Mode) {}

    /// Nobody else has a page.
    unsafe fn try_cleanup(&self, _place: Place) -> bool {
        true
    }

    #[inline]
    unsafe fn unlock(&self, _place: Place) {}

    #[inline]
    unsafe fn bytes_in(&self, place: Place) -> &PageBytes {
        // SAFETY: a pinned page stays where it is, and only `commit` changes it, during which nobody looks at it.
        unsafe { &*self.address(place).cast() }
    }

    /// Nobody else changes a page.
    #[inline]
    unsafe fn lsn_in(&self, _place: Place) -> u64 {
        0
    }

    /// No row is dead.
    unsafe fn set_bits(&self, _place: Place, _offsets: &[u16], _mask: u8) {}

    #[inline(always)]
    fn prefetch(&self, place: Place, bytes: core::ops::Range<usize>) {
        let page = self.address(place);
        bytes.step_by(CACHE_LINE).for_each(|at| simd::prefetch(page.wrapping_add(at)));
    }
}

impl PageStore for PoolStore {
    #[inline]
    fn pin(&self, block: Block) -> Result<Pinned<Self>> {
        let frame = self.pool.borrow_mut().pin(block);
        // SAFETY: just pinned.
        Ok(unsafe { Pinned::new(Place { block, frame }) })
    }

    #[inline]
    fn pin_likely(&self, block: Block) -> Result<Option<Pinned<Self>>> {
        self.pin(block).map(Some)
    }

    fn allocate(&self) -> Result<Locked<'_, Self, Exclusive>> {
        let block = self.pool.borrow_mut().allocate();
        Ok(self.pin(block)?.lock(self))
    }

    /// Only VACUUM deletes pages, and there is none.
    fn free(&self, _block: Block) {}

    fn now(&self) -> u64 {
        1
    }

    fn is_past(&self, _time: u64) -> bool {
        true
    }

    fn block_count(&self) -> Block {
        self.pool.borrow().blocks()
    }

    #[inline]
    fn commit(&self, pages: &[Writable<'_, Self>], change: &Change<'_>) {
        for (index, page) in pages.iter().enumerate() {
            self.pool.borrow_mut().soil(page.frame().frame);
            // SAFETY: pinned, and whoever commits a change does not look at its pages meanwhile.
            let page = unsafe { &mut *self.address(page.frame()).cast() };
            change.apply(index, page, &mut Ranges::whole());
        }
    }

    #[inline]
    fn check_interrupts(&self) {}
}

impl Hints for PoolStore {}

impl Observers for PoolStore {}
