//! The server's shared memory, which it gives to libraries that are preloaded.

use core::cell::Cell;
use core::ffi::CStr;
use core::sync::atomic::AtomicU64;

use fpbtree_engine::cache::word::words_at;
use pgrx::pg_guard;
use pgrx::pg_sys;

use crate::pg::per_backend::PerBackend;

/// What some of the memory is for.
pub struct Part {
    /// What the server knows it by.
    pub name: &'static CStr,
    /// How many bytes it has, as settings say; none if it is turned off.
    pub bytes: fn() -> usize,
    /// Told of these before they are asked for: it may end the server's start.
    pub check: fn(usize),
    /// Told of the words when the server starts, and when it starts again after a crash; they are zero.
    pub begin: fn(Option<&'static [AtomicU64]>),
}

type Hook = Option<unsafe extern "C-unwind" fn()>;

static PARTS: PerBackend<Cell<&[Part]>> = PerBackend::new(Cell::new(&[]));
/// Others' hooks, to be called first.
static REQUEST: PerBackend<Cell<Hook>> = PerBackend::new(Cell::new(None));
static STARTUP: PerBackend<Cell<Hook>> = PerBackend::new(Cell::new(None));

/// Whether the library is being preloaded: the server gives memory at no other time.
pub fn is_preloading() -> bool {
    // SAFETY: the server's own flag.
    unsafe { pg_sys::process_shared_preload_libraries_in_progress }
}

/// Asks for memory for these, if it can be had.
pub fn register(parts: &'static [Part]) {
    if is_preloading() {
        PARTS.set(parts);
        // SAFETY: as the server's own modules do it, in the postmaster.
        unsafe {
            REQUEST.set(pg_sys::shmem_request_hook);
            STARTUP.set(pg_sys::shmem_startup_hook);
            pg_sys::shmem_request_hook = Some(request);
            pg_sys::shmem_startup_hook = Some(startup);
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn request() {
    // SAFETY: called by the server, when hooks may ask for memory.
    unsafe {
        if let Some(next) = REQUEST.get() {
            next();
        }
        for part in PARTS.get() {
            let bytes = (part.bytes)();
            if bytes > 0 {
                (part.check)(bytes);
                pg_sys::RequestAddinShmemSpace(bytes);
            }
        }
    }
}

/// Also after a crash, with memory anew. The lock that guards this where processes start one by one is not needed:
/// here only the postmaster comes by, before there are others.
#[pg_guard]
unsafe extern "C-unwind" fn startup() {
    // SAFETY: called by the server, once the memory asked for is there; it stays while there are processes.
    unsafe {
        if let Some(next) = STARTUP.get() {
            next();
        }
        for part in PARTS.get() {
            let bytes = (part.bytes)();
            (part.begin)(if bytes > 0 { words(part.name, bytes) } else { None });
        }
    }
}

unsafe fn words(name: &CStr, bytes: usize) -> Option<&'static [AtomicU64]> {
    // SAFETY: called when the server starts; so much was asked for. Everyone reaches it through atomic words.
    unsafe {
        let mut found = false;
        let memory: *mut u8 = pg_sys::ShmemInitStruct(name.as_ptr(), bytes, &mut found).cast();
        if !found {
            memory.write_bytes(0, bytes);
        }
        words_at(memory, bytes)
    }
}
