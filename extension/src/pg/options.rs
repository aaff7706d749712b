//! Storage parameters, `CREATE INDEX … WITH (fillfactor = …)`, and settings, `SET fpbtree.prefetch = …`.

use core::cell::Cell;
use core::ffi::{CStr, c_char, c_int};
use core::mem::offset_of;
use core::sync::atomic::{AtomicUsize, Ordering};

use pgrx::PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE;
use pgrx::guc::{GucContext, GucFlags, GucRegistry, GucSetting, PostgresGucEnum};
use pgrx::pg_guard;
use pgrx::pg_sys::{self, Datum, Relation};

use crate::pg::errors;
use crate::pg::per_backend::PerBackend;
use crate::pg::shared_memory;

/// How full the build packs pages, in percent, where nothing else is said.
pub const DEFAULT_FILLFACTOR: i32 = 90;
const LEAST_FILLFACTOR: i32 = 10;

/// A distance that leaves it to the tablespace.
const OF_TABLESPACE: i32 = -1;
/// Most pages asked for and not come to yet.
pub const MOST_DISTANCE: i32 = 1000;

/// Memory for remembering where leaves are, in kB: enough for the indexes of a billion rows' keys of 4 bytes.
const DEFAULT_DESCENT_CACHE: i32 = 32 << 10;

/// Shared memory for the rows of hot keys, in kB: those of a million keys.
const DEFAULT_HOT_CACHE: i32 = 64 << 10;

/// Indexes of all databases that are counted.
const DEFAULT_STAT_INDEXES: i32 = 1000;
const MOST_STAT_INDEXES: i32 = 100_000;

/// Memory for collected entries, in kB.
const DEFAULT_INSERT_BATCH: i32 = 16 << 10;

static PREFETCH: GucSetting<bool> = GucSetting::<bool>::new(true);
static DESCENT_CACHE_SIZE: GucSetting<i32> = GucSetting::<i32>::new(DEFAULT_DESCENT_CACHE);
static HOT_CACHE_SIZE: GucSetting<i32> = GucSetting::<i32>::new(DEFAULT_HOT_CACHE);
static STAT_INDEXES: GucSetting<i32> = GucSetting::<i32>::new(DEFAULT_STAT_INDEXES);
static PREFETCH_DISTANCE: GucSetting<i32> = GucSetting::<i32>::new(OF_TABLESPACE);
static CUSTOM_SCANS: GucSetting<bool> = GucSetting::<bool>::new(true);
static INSERT_BATCH: GucSetting<i32> = GucSetting::<i32>::new(DEFAULT_INSERT_BATCH);
#[cfg(feature = "since_18")]
static CONSTRAINTS: GucSetting<bool> = GucSetting::<bool>::new(false);
static UNIQUE_INDEX: GucSetting<OnUniqueIndex> = GucSetting::<OnUniqueIndex>::new(OnUniqueIndex::Notice);

/// What is said of a new unique index before 18, which breaks `INSERT … ON CONFLICT` on its table.
#[derive(Clone, Copy, PartialEq, Eq, PostgresGucEnum)]
pub enum OnUniqueIndex {
    /// Nothing.
    #[name = c"silent"]
    Silent,
    /// A notice.
    #[name = c"notice"]
    Notice,
    /// That there will be none.
    #[name = c"error"]
    Error,
}

/// How far reads may be ahead.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Distance {
    /// So many pages.
    Pages(i32),
    /// As many as the tablespace's `effective_io_concurrency` or `maintenance_io_concurrency` says.
    OfTablespace,
}

/// The parsed parameters, as the relation cache keeps them.
#[repr(C)]
struct Options {
    /// The length word every value of variable length starts with; the server sets it.
    vl_len_: i32,
    fillfactor: c_int,
    prefetch: bool,
    prefetch_distance: c_int,
    hot_cache: bool,
    deduplicate_items: bool,
    /// Where the text begins.
    method: c_int,
}

/// What the server calls our set of parameters.
static KIND: PerBackend<Cell<pg_sys::relopt_kind::Type>> = PerBackend::new(Cell::new(0));

/// Registers parameters and settings. Called when the library is loaded.
pub fn register() {
    register_settings();
    // SAFETY: at library load, as the server's own example (contrib/bloom) does.
    unsafe {
        KIND.set(pg_sys::add_reloption_kind());
        pg_sys::add_int_reloption(
            KIND.get(),
            c"fillfactor".as_ptr(),
            c"Packs fpbtree index pages only to this percentage".as_ptr(),
            DEFAULT_FILLFACTOR,
            LEAST_FILLFACTOR,
            100,
            pg_sys::ShareUpdateExclusiveLock as pg_sys::LOCKMODE,
        );
        pg_sys::add_bool_reloption(
            KIND.get(),
            c"prefetch".as_ptr(),
            c"Lets scans of the index ask for pages ahead".as_ptr(),
            true,
            pg_sys::ShareUpdateExclusiveLock as pg_sys::LOCKMODE,
        );
        pg_sys::add_int_reloption(
            KIND.get(),
            c"prefetch_distance".as_ptr(),
            c"How many pages scans of the index ask for ahead; -1 leaves it to the tablespace".as_ptr(),
            OF_TABLESPACE,
            OF_TABLESPACE,
            MOST_DISTANCE,
            pg_sys::ShareUpdateExclusiveLock as pg_sys::LOCKMODE,
        );
        pg_sys::add_bool_reloption(
            KIND.get(),
            c"hot_cache".as_ptr(),
            c"Lets the rows of the index's hot keys be kept in shared memory".as_ptr(),
            true,
            pg_sys::ShareUpdateExclusiveLock as pg_sys::LOCKMODE,
        );
        // So that statements made for btree can be run. Nothing is said of it: there may be thousands in a dump.
        pg_sys::add_bool_reloption(
            KIND.get(),
            c"deduplicate_items".as_ptr(),
            c"Has no effect: accepted because btree has it".as_ptr(),
            true,
            pg_sys::ShareUpdateExclusiveLock as pg_sys::LOCKMODE,
        );
        // What a constraint's method is read from before there is an index (`am::constraints`).
        pg_sys::add_string_reloption(
            KIND.get(),
            c"method".as_ptr(),
            c"Has a dump of a constraint say that its index is of fpbtree".as_ptr(),
            core::ptr::null(),
            Some(check_method),
            pg_sys::ShareUpdateExclusiveLock as pg_sys::LOCKMODE,
        );
    }
}

/// Raises if an index of ours is to be of another method.
#[pg_guard]
unsafe extern "C-unwind" fn check_method(name: *const c_char) {
    // SAFETY: null for the default, or a C string.
    if !name.is_null() && unsafe { CStr::from_ptr(name) } != c"fpbtree" {
        errors::raise(
            ERRCODE_INVALID_PARAMETER_VALUE,
            format_args!("an fpbtree index cannot be of another method"),
            None,
            Some(format_args!("fpbtree_migration() tells how to move an index to btree.")),
        );
    }
}

/// Makes each setting known, as long as the server has memory for it.
const SETTINGS: &[fn()] = &[
    || {
        GucRegistry::define_bool_guc(
            c"fpbtree.prefetch",
            c"Lets scans of fpbtree indexes ask for pages ahead.",
            c"Index and table pages that a scan will come to are requested before it does, while it finds pages missing from shared buffers.",
            &PREFETCH,
            GucContext::Userset,
            GucFlags::default(),
        );
    },
    || {
        GucRegistry::define_bool_guc(
            c"fpbtree.custom_scans",
            c"Lets the planner use the plan nodes of fpbtree.",
            c"Aggregates over the columns of an fpbtree index are then made of its pages, where that is cheaper.",
            &CUSTOM_SCANS,
            GucContext::Userset,
            GucFlags::EXPLAIN,
        );
    },
    || {
        GucRegistry::define_int_guc(
            c"fpbtree.prefetch_distance",
            c"How many pages scans of fpbtree indexes ask for ahead.",
            c"-1 leaves it to the index's parameter of this name, and by default to effective_io_concurrency of the tablespace; VACUUM: maintenance_io_concurrency.",
            &PREFETCH_DISTANCE,
            OF_TABLESPACE,
            MOST_DISTANCE,
            GucContext::Userset,
            GucFlags::default(),
        );
    },
    || {
        GucRegistry::define_int_guc(
            c"fpbtree.descent_cache_size",
            c"Sets the memory in which a session remembers where the leaves of fpbtree indexes are.",
            c"A lookup goes to a leaf that is remembered without passing the pages above it. 0 turns this off.",
            &DESCENT_CACHE_SIZE,
            0,
            i32::MAX,
            GucContext::Userset,
            GucFlags::UNIT_KB,
        );
    },
    || {
        GucRegistry::define_int_guc(
            c"fpbtree.insert_batch",
            c"Sets the memory in which the entries of a statement's rows are collected, to be inserted together.",
            c"For all fpbtree indexes of a statement together, on PostgreSQL 17 and later. 0 turns this off.",
            &INSERT_BATCH,
            0,
            i32::MAX,
            GucContext::Userset,
            GucFlags::UNIT_KB,
        );
    },
    || {
        GucRegistry::define_enum_guc(
            c"fpbtree.unique_index",
            c"What is said when a unique fpbtree index is created on PostgreSQL 15 to 17.",
            c"INSERT ... ON CONFLICT then fails on its table: nothing is said of that, a notice is given, or an error raised. No effect on 18.",
            &UNIQUE_INDEX,
            GucContext::Userset,
            GucFlags::default(),
        );
    },
    #[cfg(feature = "since_18")]
    || {
        GucRegistry::define_bool_guc(
            c"fpbtree.constraints",
            c"Lets PRIMARY KEY and UNIQUE constraints have fpbtree indexes where nothing is said.",
            c"As if WITH (method = fpbtree) were written; WITH (method = btree) says otherwise.",
            &CONSTRAINTS,
            GucContext::Userset,
            GucFlags::default(),
        );
    },
    || {
        GucRegistry::define_int_guc(
            c"fpbtree.hot_cache_size",
            c"Sets the shared memory that keeps the rows of hot keys of fpbtree indexes.",
            c"Takes effect if fpbtree is in shared_preload_libraries. 0 turns it off.",
            &HOT_CACHE_SIZE,
            0,
            i32::MAX,
            at_start(),
            GucFlags::UNIT_KB,
        );
    },
    || {
        GucRegistry::define_int_guc(
            c"fpbtree.stat_indexes",
            c"Sets how many fpbtree indexes can be counted in pg_stat_fpbtree.",
            c"In all databases together. Takes effect if fpbtree is in shared_preload_libraries. 0 turns it off.",
            &STAT_INDEXES,
            0,
            MOST_STAT_INDEXES,
            at_start(),
            GucFlags::default(),
        );
    },
];

/// The context of what only the server's start can change. Such a setting can only be made then.
fn at_start() -> GucContext {
    if shared_memory::is_preloading() { GucContext::Postmaster } else { GucContext::Sighup }
}

/// How many of them are known. Where memory ran out, the process may load the library once more; none is defined twice.
static DEFINED: AtomicUsize = AtomicUsize::new(0);

fn register_settings() {
    for define in &SETTINGS[DEFINED.load(Ordering::Relaxed)..] {
        define();
        DEFINED.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: at library load, after our settings are known.
    unsafe { pg_sys::MarkGUCPrefixReserved(c"fpbtree".as_ptr()) };
}

/// The `amoptions` callback: parses and checks the parameters.
#[pg_guard]
pub unsafe extern "C-unwind" fn amoptions(reloptions: Datum, validate: bool) -> *mut pg_sys::bytea {
    let element = |name: &'static CStr, kind, offset: usize| {
        let mut element = pg_sys::relopt_parse_elt::default();
        (element.optname, element.opttype, element.offset) = (name.as_ptr(), kind, offset as c_int);
        element
    };
    let elements = [
        element(c"fillfactor", pg_sys::relopt_type::RELOPT_TYPE_INT, offset_of!(Options, fillfactor)),
        element(c"prefetch", pg_sys::relopt_type::RELOPT_TYPE_BOOL, offset_of!(Options, prefetch)),
        element(c"prefetch_distance", pg_sys::relopt_type::RELOPT_TYPE_INT, offset_of!(Options, prefetch_distance)),
        element(c"hot_cache", pg_sys::relopt_type::RELOPT_TYPE_BOOL, offset_of!(Options, hot_cache)),
        element(c"deduplicate_items", pg_sys::relopt_type::RELOPT_TYPE_BOOL, offset_of!(Options, deduplicate_items)),
        element(c"method", pg_sys::relopt_type::RELOPT_TYPE_STRING, offset_of!(Options, method)),
    ];
    let (kind, size, count) = (KIND.get(), size_of::<Options>(), elements.len() as c_int);
    // SAFETY: the table has the elements it is said to have. Raw, so that a wrong value's error comes through whole.
    unsafe { crate::pg::ffi::build_reloptions(reloptions, validate, kind, size, elements.as_ptr(), count).cast() }
}

/// The index's parameters, if it has any that are not the defaults.
unsafe fn options(rel: Relation) -> Option<&'static Options> {
    // SAFETY: rd_options is null or what `amoptions` made; it is looked at before anything can change it.
    unsafe { (*rel).rd_options.cast::<Options>().as_ref() }
}

/// Bytes in which a process may remember where leaves are.
#[inline]
pub fn descent_cache_size() -> usize {
    DESCENT_CACHE_SIZE.get() as usize * 1024
}

/// Bytes of shared memory for the rows of hot keys, once the server has started.
pub fn hot_cache_size() -> usize {
    HOT_CACHE_SIZE.get() as usize * 1024
}

/// How many indexes can be counted, once the server has started.
pub fn stat_indexes() -> usize {
    STAT_INDEXES.get() as usize
}

/// Bytes in which entries of a statement's rows may be collected.
#[inline]
pub fn insert_batch() -> usize {
    INSERT_BATCH.get() as usize * 1024
}

/// Whether the planner may use plan nodes of ours.
pub fn custom_scans() -> bool {
    CUSTOM_SCANS.get()
}

/// Whether constraints of which nothing is said have indexes of ours.
#[cfg(feature = "since_18")]
pub fn constraints() -> bool {
    CONSTRAINTS.get()
}

/// What is said of a new unique index before 18.
pub fn on_unique_index() -> OnUniqueIndex {
    UNIQUE_INDEX.get()
}

/// Whether the rows of the index's hot keys may be kept.
///
/// # Safety
/// `rel` is an open index of ours.
pub unsafe fn hot_cache(rel: Relation) -> bool {
    // SAFETY: `rel` is an open index of ours.
    unsafe { options(rel) }.is_none_or(|options| options.hot_cache)
}

/// How far reads may be ahead, by the session's settings and the index's; `None` if not at all.
///
/// # Safety
/// `rel` is an open index of ours.
pub unsafe fn prefetch_distance(rel: Relation) -> Option<Distance> {
    // SAFETY: `rel` is an open index of ours.
    let (is_on, of_index) =
        unsafe { options(rel) }.map_or((true, OF_TABLESPACE), |o| (o.prefetch, o.prefetch_distance));
    distance(is_on, of_index)
}

/// As [`prefetch_distance`], of an index without parameters.
pub fn usual_prefetch_distance() -> Option<Distance> {
    distance(true, OF_TABLESPACE)
}

fn distance(is_on: bool, of_index: c_int) -> Option<Distance> {
    let set = [PREFETCH_DISTANCE.get(), of_index].into_iter().find(|&distance| distance != OF_TABLESPACE);
    (is_on && PREFETCH.get()).then_some(set.map_or(Distance::OfTablespace, Distance::Pages))
}

/// The index's fill factor, in percent.
///
/// # Safety
/// `rel` is an open index of ours.
pub unsafe fn fillfactor(rel: Relation) -> i32 {
    // SAFETY: `rel` is an open index of ours.
    unsafe { options(rel) }.map_or(DEFAULT_FILLFACTOR, |options| options.fillfactor)
}
