//! The engine of fpbtree: a disk-first fractal prefetching B+-tree, without PostgreSQL in it (I1).
//!
//! Rooms, from the bottom up: [`key`] makes order-preserving lanes of column values; [`simd`] searches them; [`page`] is
//! the disk-first node; [`change`] is what can happen to pages and how it is logged; [`store`] is where pages live;
//! [`tree`] descends, inserts, deletes, loads and verifies; [`sort`] puts what is loaded in order; [`scan`] reads ranges in
//! order; [`hot`] answers in memory, in front of the pages.

// Pages are laid out in little-endian order and searched in place.
#[cfg(target_endian = "big")]
compile_error!("fpbtree needs a little-endian machine");

pub mod cache;
pub mod format;
pub mod keys;
pub mod log;
pub mod page;
pub mod paging;
pub mod scan;
pub mod simd;
pub mod sort;
pub mod store;
pub mod tree;
