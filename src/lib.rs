//! The engine of fpbtree: a disk-first fractal prefetching B+-tree, without PostgreSQL in it (I1).
//!
//! Rooms, each of which uses only those before it (docs/design.md, 1): [`paging`] is what the system is told of
//! memory; [`simd`] counts lanes; [`format`](mod@format) is what everybody knows of the file; [`keys`] makes lanes and
//! byte strings of values; [`log`] is what can happen to pages, as data; [`cache`] remembers leaves and keys in
//! memory; [`page`] is the disk-first node; [`sort`] puts in order what is loaded; [`store`] is where pages live;
//! [`tree`] descends, inserts, deletes, loads and verifies; [`scan`] reads ranges in order; [`picture`] draws pages and
//! whole indexes.

// Pages are laid out in little-endian order and searched in place.
#[cfg(target_endian = "big")]
compile_error!("fpbtree needs a little-endian machine");

pub mod cache;
pub mod format;
pub mod keys;
pub mod log;
pub mod page;
pub mod paging;
pub mod picture;
pub mod scan;
pub mod simd;
pub mod sort;
pub mod store;
pub mod tree;
