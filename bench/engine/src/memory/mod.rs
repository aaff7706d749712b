//! Structures in memory.

pub mod latency;
pub mod pb;
pub mod prefix;
pub mod sorted_leaf;
