//! Trees of pages.

pub mod cache_first;
pub mod first;
pub mod micro;
pub mod sorted;
pub mod store;
pub mod tree;

use crate::index::Index;
use crate::pool::{Block, Pool};

/// An index of pages in a pool.
pub trait Paged: Index {
    /// Its pages: to count them and what is read, or to [`forget`](Pool::forget) what is in memory.
    fn pool_mut(&mut self) -> &mut Pool;

    /// The leaf pages that a scan of the keys from `first` to `last`, both included, comes to, in order: as its
    /// jump-pointer array lists them, so that they can be prefetched.
    fn leaf_blocks(&mut self, first: u32, last: u32) -> Vec<Block>;
}
