//! fpbtree, an index access method for PostgreSQL: the glue between the server and the engine.
//!
//! Rules that hold for all of it (I10, I11): callbacks are `#[pg_guard]`; the server's functions on hot paths, and
//! those that wait, raise or run user code, are called raw ([`pg::ffi`]), and no frame between such a call and the
//! server owns a destructor it needs; what lives longer than a frame lives in a memory context.

// Known by its usual name to all modules, and to its macros.
#[cfg(feature = "pg19")]
extern crate pgrx19 as pgrx;

mod am;
mod pg;
mod storage;
mod values;

use core::ffi::CStr;

use am::{constraints, nodes, planner};
use pg::{options, reserve, shared_memory};
use storage::{hot_keys, own_wal, sender, totals};

const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(version) => version,
    Err(_) => unreachable!(),
};

pgrx::pg_module_magic!(name = c"fpbtree", version = VERSION);

#[global_allocator]
static ALLOCATOR: reserve::Reserved = reserve::Reserved::new();

/// Called by the server when it loads the library.
#[pgrx::pg_guard]
pub extern "C-unwind" fn _PG_init() {
    options::register();
    planner::register();
    nodes::register();
    constraints::register();
    own_wal::register();
    shared_memory::register(const { &[hot_keys::MEMORY, totals::MEMORY] });
    sender::register();
    #[cfg(feature = "since_18")]
    am::explain::register();
}
