//! The hot-key cache in the server's shared memory, which there is if the library is preloaded (docs/design.md, 8).

use core::cell::UnsafeCell;
use core::ffi::c_int;

use fpbtree_engine::cache::hot_keys::{self, HotKeys};
use fpbtree_engine::cache::word::words_at;
use fpbtree_engine::paging;
use pgrx::PgSqlErrorCode::ERRCODE_OUT_OF_MEMORY;
use pgrx::pg_sys::{self, Relation};
use pgrx::{PgLogLevel, pg_guard};

use crate::pg::errors;
use crate::pg::options;
use crate::pg::per_backend::PerBackend;
use crate::pg::relation;

type Hook = Option<unsafe extern "C-unwind" fn()>;

/// What a process knows of the cache.
struct Access {
    cache: Option<HotKeys<'static>>,
    /// What tells the session's database from others that had its number.
    database: Option<u32>,
    /// Others' hooks, to be called first.
    request: Hook,
    startup: Hook,
}

static ACCESS: PerBackend<UnsafeCell<Access>> =
    PerBackend::new(UnsafeCell::new(Access { cache: None, database: None, request: None, startup: None }));

/// Asks for the memory, if the library is being preloaded: the server gives it at no other time.
pub fn register() {
    // SAFETY: as the server's own modules do it, in the postmaster.
    unsafe {
        if !pg_sys::process_shared_preload_libraries_in_progress {
            return;
        }
        let access = ACCESS.get();
        ((*access).request, (*access).startup) = (pg_sys::shmem_request_hook, pg_sys::shmem_startup_hook);
        pg_sys::shmem_request_hook = Some(request);
        pg_sys::shmem_startup_hook = Some(startup);
    }
}

/// The cache, unless there is none.
#[inline]
pub fn cache() -> Option<&'static HotKeys<'static>> {
    // SAFETY: written only when the server starts, before anyone asks.
    unsafe { (*ACCESS.get()).cache.as_ref() }
}

#[pg_guard]
unsafe extern "C-unwind" fn request() {
    // SAFETY: called by the server, when hooks may ask for memory.
    unsafe {
        if let Some(next) = (*ACCESS.get()).request {
            next();
        }
        let size = options::hot_cache_size();
        if size > 0 {
            check_size(size);
            pg_sys::RequestAddinShmemSpace(size);
        }
    }
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

/// Also after a crash, with memory anew. The lock that guards this where processes start one by one is not needed:
/// here only the postmaster comes by, before there are others.
#[pg_guard]
unsafe extern "C-unwind" fn startup() {
    let access = ACCESS.get();
    let size = options::hot_cache_size();
    // SAFETY: called by the server, once the memory asked for is there; it stays while there are processes. Everyone
    // else reaches it through the cache.
    unsafe {
        if let Some(next) = (*access).startup {
            next();
        }
        (*access).cache = None;
        if size > 0 {
            let mut found = false;
            let memory: *mut u8 = pg_sys::ShmemInitStruct(c"fpbtree hot keys".as_ptr(), size, &mut found).cast();
            if !found {
                memory.write_bytes(0, size);
            }
            (*access).cache = words_at(memory, size).and_then(HotKeys::over);
        }
    }
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
