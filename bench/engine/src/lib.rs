//! The structures of the papers, side by side: on disk over one [`pool`] of pages, and in memory.

pub mod compare;
pub mod disk;
pub mod figure;
pub mod index;
pub mod memory;
pub mod pool;
pub mod search;
