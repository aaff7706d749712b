//! Pages and what goes with them: shared buffers, the log, and what is remembered of pages.

pub mod buffers;
pub mod dead;
pub mod descents;
pub mod generic_wal;
pub mod hot_keys;
pub mod index;
pub mod own_wal;
pub mod prefetch;
pub mod recent_buffers;
pub mod sender;
pub mod totals;
pub mod tree;
