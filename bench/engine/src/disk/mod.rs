//! Trees of pages.

pub mod cache_first;
pub mod first;
pub mod micro;
pub mod sorted;
pub mod store;
pub mod tree;
