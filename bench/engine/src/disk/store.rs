//! The engine's page store over the pool, for a single thread: nobody is waited for, so locks are nothing, and nothing is
//! logged. Changes are made where the pages are.

use std::cell::RefCell;

use fpbtree_engine::format::{Block, PageBytes, Result};
use fpbtree_engine::log::{Change, Ranges};
use fpbtree_engine::simd::{self, CACHE_LINE};
use fpbtree_engine::store::{Mode, PageStore};

use crate::pool::Pool;

/// The store.
pub struct PoolStore {
    pool: RefCell<Pool>,
}

/// A pinned page.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pin {
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
    fn address(&self, pin: Pin) -> *mut u8 {
        self.pool.borrow().address(pin.frame)
    }
}

impl PageStore for PoolStore {
    type Pin = Pin;

    #[inline]
    fn pin(&self, block: Block) -> Result<Pin> {
        Ok(Pin { block, frame: self.pool.borrow_mut().pin(block) })
    }

    #[inline]
    fn pin_likely(&self, block: Block) -> Result<Option<Pin>> {
        self.pin(block).map(Some)
    }

    #[inline]
    fn unpin(&self, pin: Pin) {
        self.pool.borrow_mut().unpin(pin.frame);
    }

    #[inline]
    fn block(&self, pin: Pin) -> Block {
        pin.block
    }

    #[inline]
    fn lock(&self, _pin: Pin, _mode: Mode) {}

    #[inline]
    fn lock_cleanup(&self, _pin: Pin) {}

    #[inline]
    fn unlock(&self, _pin: Pin) {}

    #[inline]
    fn bytes(&self, pin: Pin) -> &PageBytes {
        // SAFETY: a pinned page stays where it is, and only `commit` changes it, during which nobody looks at it.
        unsafe { &*self.address(pin).cast() }
    }

    fn allocate(&self) -> Result<Pin> {
        let block = self.pool.borrow_mut().allocate();
        self.pin(block)
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
    fn commit(&self, change: &Change<'_, Pin>) {
        for (index, &pin) in change.blocks().iter().enumerate() {
            self.pool.borrow_mut().soil(pin.frame);
            // SAFETY: pinned, and whoever commits a change does not look at its pages meanwhile.
            let page = unsafe { &mut *self.address(pin).cast() };
            change.apply(index, page, &mut Ranges::whole());
        }
    }

    /// No row is dead.
    fn set_hint(&self, _pin: Pin, _offsets: &[u16], _mask: u8) {}

    /// Nobody else changes a page.
    #[inline]
    fn lsn(&self, _pin: Pin) -> u64 {
        0
    }

    #[inline]
    fn check_interrupts(&self) {}

    #[inline(always)]
    fn prefetch(&self, pin: Pin, bytes: core::ops::Range<usize>) {
        let page = self.address(pin);
        bytes.step_by(CACHE_LINE).for_each(|at| simd::prefetch(page.wrapping_add(at)));
    }
}
