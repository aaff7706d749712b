//! The server: what it declares, its errors, memory and settings.

pub mod aggregates;
pub mod errors;
pub mod ffi;
pub mod list;
pub mod loan;
pub mod memory;
pub mod options;
pub mod per_backend;
pub mod relation;
pub mod reserve;
pub mod shared_memory;
pub mod text;
pub mod tid;
pub mod visibility;
pub mod visible_rows;
