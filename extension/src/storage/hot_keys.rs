//! The hot-key cache in the server's shared memory, which there is if the library is preloaded (docs/design.md, 8).

use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::sync::atomic::AtomicU64;

use fpbtree_engine::cache::hot_keys::{self, HotKeys};
use fpbtree_engine::paging;
use pgrx::PgLogLevel;
use pgrx::PgSqlErrorCode::ERRCODE_OUT_OF_MEMORY;
use pgrx::pg_sys::{self, Relation};

use crate::pg::errors;
use crate::pg::options;
use crate::pg::per_backend::PerBackend;
use crate::pg::relation;
use crate::pg::shared_memory::Part;

/// What a process knows of the cache.
struct Access {
    cache: Option<HotKeys<'static>>,
    /// What tells the session's database from others that had its number.
    database: Option<u32>,
}

static ACCESS: PerBackend<UnsafeCell<Access>> =
    PerBackend::new(UnsafeCell::new(Access { cache: None, database: None }));

/// Its memory.
pub const MEMORY: Part = Part { name: c"fpbtree hot keys", bytes: options::hot_cache_size, check: check_size, begin };

/// Begins with an empty cache, or none.
fn begin(memory: Option<&'static [AtomicU64]>) {
    // SAFETY: there is no other process yet, and nobody looks at it.
    unsafe { (*ACCESS.get()).cache = memory.and_then(HotKeys::over) };
}

/// The cache, unless there is none.
#[inline]
pub fn cache() -> Option<&'static HotKeys<'static>> {
    // SAFETY: written only when the server starts, before anyone asks.
    unsafe { (*ACCESS.get()).cache.as_ref() }
}

/// Where the memory cannot be had, says whose setting asks for it: the server that fails to map it does not know. All
/// of the cache is written at the start, so that one larger than the machine's memory would take the machine down.
fn check_size(size: usize) {
    const MB: usize = 1 << 20;
    // SAFETY: the server's own setting.
    let buffers = unsafe { pg_sys::NBuffers } as usize * pg_sys::BLCKSZ as usize;
    let Some(memory) = paging::machine_memory().filter(|&memory| size + buffers > memory) else { return };
    let level = if size > memory { PgLogLevel::FATAL } else { PgLogLevel::WARNING };
    errors::report(
        level,
        ERRCODE_OUT_OF_MEMORY,
        format_args!("fpbtree.hot_cache_size asks for {} MB of shared memory", size / MB),
        Some(format_args!("The machine has {} MB, and shared_buffers asks for {} MB.", memory / MB, buffers / MB)),
        Some(format_args!("Reduce fpbtree.hot_cache_size.")),
    );
}

/// What the cache knows an index by: its file, which copies of a database do not share, and what its pages are known
/// by, which files that come to have the same name do not; unless they are a copy's, of a database that was given the
/// number of one before it.
///
/// # Safety
/// `rel` is an open index of ours with this build id. May raise.
pub unsafe fn owner(rel: Relation, build_id: u64) -> u64 {
    // SAFETY: `rel` is open.
    let ([space, database, file], made) = unsafe { (relation::file_numbers(rel), database_is_of()) };
    let spread = |number: u64| number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let space = u64::from(space) << 32 | u64::from(made);
    let file = spread(build_id ^ (u64::from(database) << 32 | u64::from(file))) ^ spread(space).rotate_left(32);
    hot_keys::owner(build_id, file)
}

/// The transaction that the session's database, as it is described now, is of. Looked up once: who has looked before
/// the description changes keeps keys of its own, which is no harm.
unsafe fn database_is_of() -> u32 {
    // SAFETY: the session's own; a tuple of the catalog's cache, which is read before it is given back.
    unsafe {
        let access = ACCESS.get();
        (*access).database.unwrap_or_else(|| {
            let transaction = relation::database_transaction(pg_sys::MyDatabaseId);
            (*access).database = Some(transaction);
            transaction
        })
    }
}

/// Whether transactions are such that nothing may be read without being locked, or noticed to be too old.
pub fn is_bypassed() -> bool {
    // SAFETY: the server's own settings.
    unsafe { pg_sys::XactIsoLevel == pg_sys::XACT_SERIALIZABLE as c_int || relation::old_snapshots_expire() }
}
