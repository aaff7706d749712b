//! Trees of pages.

pub mod first;
pub mod micro;
pub mod sorted;
pub mod tree;
