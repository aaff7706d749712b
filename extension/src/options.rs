//! Storage parameters: `CREATE INDEX … WITH (fillfactor = …)`.

use core::ffi::c_int;
use core::mem::offset_of;

use pgrx::pg_guard;
use pgrx::pg_sys::{self, Datum, Relation};

/// How full the build packs pages, in percent, where nothing else is said.
pub const DEFAULT_FILLFACTOR: i32 = 90;
const LEAST_FILLFACTOR: i32 = 10;

/// The parsed parameters, as the relation cache keeps them.
#[repr(C)]
struct Options {
    /// The length word every value of variable length starts with; the server sets it.
    vl_len_: i32,
    fillfactor: c_int,
}

struct Kind(core::cell::Cell<pg_sys::relopt_kind::Type>);

// SAFETY: the server runs one thread.
unsafe impl Sync for Kind {}

/// What the server calls our set of parameters.
static KIND: Kind = Kind(core::cell::Cell::new(0));

/// Registers the parameters. Called once, when the library is loaded.
pub fn register() {
    // SAFETY: at library load, as the server's own example (contrib/bloom) does.
    unsafe {
        KIND.0.set(pg_sys::add_reloption_kind());
        pg_sys::add_int_reloption(
            KIND.0.get(),
            c"fillfactor".as_ptr(),
            c"Packs fpbtree index pages only to this percentage".as_ptr(),
            DEFAULT_FILLFACTOR,
            LEAST_FILLFACTOR,
            100,
            pg_sys::ShareUpdateExclusiveLock as pg_sys::LOCKMODE,
        );
    }
}

/// The `amoptions` callback: parses and checks the parameters.
#[pg_guard]
pub unsafe extern "C-unwind" fn amoptions(reloptions: Datum, validate: bool) -> *mut pg_sys::bytea {
    // SAFETY: all bytes of this type may be zero.
    let mut fillfactor: pg_sys::relopt_parse_elt = unsafe { core::mem::zeroed() };
    fillfactor.optname = c"fillfactor".as_ptr();
    fillfactor.opttype = pg_sys::relopt_type::RELOPT_TYPE_INT;
    fillfactor.offset = offset_of!(Options, fillfactor) as c_int;
    // SAFETY: the table has the one element it is said to have. Raw, so that a wrong value's error comes through whole.
    unsafe {
        crate::server::raw::build_reloptions(reloptions, validate, KIND.0.get(), size_of::<Options>(), &fillfactor, 1)
            .cast()
    }
}

/// The index's fill factor, in percent.
///
/// # Safety
/// `rel` is an open index of ours.
pub unsafe fn fillfactor(rel: Relation) -> i32 {
    // SAFETY: rd_options is null or what `amoptions` made.
    unsafe { (*rel).rd_options.cast::<Options>().as_ref() }.map_or(DEFAULT_FILLFACTOR, |options| options.fillfactor)
}
