//! fpbtree, an index access method for PostgreSQL: the glue between the server and the engine.
//!
//! Rules that hold for all of it (I10, I11): callbacks are `#[pg_guard]`; the server's functions on hot paths, and those
//! that wait, raise or run user code, are called raw ([`server`]), and no frame between such a call and the server owns
//! a destructor it needs; what lives longer than a frame lives in a memory context.

mod abbreviation;
mod ahead;
mod answers;
mod bounds;
mod build;
mod codec;
mod column;
mod cost;
mod dead;
mod descents;
mod exact;
#[cfg(feature = "pg18")]
mod explain;
mod functions;
mod handler;
mod hot_rows;
mod index;
mod insert;
mod keys;
mod memory;
mod options;
mod planner;
mod reserve;
mod scan;
mod server;
mod sort;
mod store;
mod tuple;
mod unique;
mod vacuum;
mod wal;

pgrx::pg_module_magic!();

#[global_allocator]
static ALLOCATOR: reserve::Reserved = reserve::Reserved::new();

/// Called by the server when it loads the library.
#[pgrx::pg_guard]
pub extern "C-unwind" fn _PG_init() {
    options::register();
    planner::register();
    wal::register();
    hot_rows::register();
    #[cfg(feature = "pg18")]
    explain::register();
}
