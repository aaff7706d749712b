//! Structures in memory.

pub mod bandwidth;
pub mod kiss;
pub mod latency;
pub mod modular;
pub mod pair_leaf;
pub mod pb;
pub mod prefix;
pub mod shared_leaf;
pub mod sorted_leaf;
