//! The reserve of Rust's own allocations; its tests stand beside it. They need no server, and so no link to one.

#[path = "../src/pg/per_backend.rs"]
mod per_backend;
#[allow(dead_code, reason = "the library alone makes it the allocator")]
#[path = "../src/pg/reserve.rs"]
mod reserve;
