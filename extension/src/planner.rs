//! What the planner does for btree's operator families alone, it does for their copies too.
//!
//! Boolean conditions (15), `LIKE` and `^@` with the pattern classes, and proofs of uniqueness (15 to 17) are tried only
//! where an index column's family is one of btree's. Our families are copies of those, so the planner may as well see
//! the original: in its own description of the index, nowhere else. The executor looks a condition's operator up in the
//! index's real family, where it means the same because the copy is complete, which is checked here. Row comparisons (18)
//! are tried with btree's own indexes alone.

use core::cell::Cell;

use pgrx::pg_guard;
use pgrx::pg_sys::SysCacheIdentifier::{AMOPSTRATEGY, AMPROCNUM};
use pgrx::pg_sys::{self, Datum, IndexOptInfo, Oid, PlannerInfo, RelOptInfo, get_relation_info_hook_type};

use crate::handler;

mod raw {
    use core::ffi::c_int;

    use super::*;
    pub use crate::server::raw::get_opfamily_proc;

    unsafe extern "C-unwind" {
        pub fn CacheRegisterSyscacheCallback(cache: c_int, callback: pg_sys::SyscacheCallbackFunction, arg: Datum);
        pub fn SearchSysCacheList(
            cache: c_int,
            keys: c_int,
            first: Datum,
            second: Datum,
            third: Datum,
        ) -> *mut pg_sys::catclist;
        pub fn ReleaseCatCacheList(list: *mut pg_sys::catclist);
        pub fn get_opfamily_member(family: Oid, left: Oid, right: Oid, strategy: i16) -> Oid;
    }
}

/// A variable of the one thread that the server runs.
struct Local<T>(T);

// SAFETY: the server runs one thread.
unsafe impl<T> Sync for Local<T> {}

/// The hook that was there before.
static PREVIOUS: Local<Cell<get_relation_info_hook_type>> = Local(Cell::new(None));

/// Installs the hook. Called once, when the library is loaded; opening the first index is early enough, because the
/// planner calls the hook after that.
pub fn register() {
    // SAFETY: at library load, where hooks are installed and callbacks registered.
    unsafe {
        PREVIOUS.0.set(pg_sys::get_relation_info_hook);
        pg_sys::get_relation_info_hook = Some(describe_indexes);
        for cache in [AMOPSTRATEGY, AMPROCNUM] {
            raw::CacheRegisterSyscacheCallback(cache as _, Some(forget), Datum::null());
        }
    }
}

/// Called by the planner when it has described a table and its indexes to itself.
#[pg_guard]
unsafe extern "C-unwind" fn describe_indexes(root: *mut PlannerInfo, table: Oid, inherits: bool, rel: *mut RelOptInfo) {
    // SAFETY: called by the planner; its lists hold what their names say.
    unsafe {
        if let Some(previous) = PREVIOUS.0.get() {
            previous(root, table, inherits, rel);
        }
        let Some(indexes) = (*rel).indexlist.as_ref() else { return };
        for i in 0..indexes.length as usize {
            let index: *mut IndexOptInfo = (*indexes.elements.add(i)).ptr_value.cast();
            if handler::is_ours(&*index) && !(*index).sortopfamily.is_null() {
                show_originals(&mut *index);
            }
        }
    }
}

/// Puts btree's families in place of complete copies, and, where all are, btree itself, because the planner makes index
/// conditions of row comparisons for no other method. The executors before 18 take them for no other method either.
unsafe fn show_originals(index: &mut IndexOptInfo) {
    let mut all = true;
    for column in 0..index.nkeycolumns as usize {
        // SAFETY: arrays with an element for each key column. The family to sort by is the one that the server found
        // the "<" of ours in: btree's.
        unsafe {
            let (shown, original) = (index.opfamily.add(column), *index.sortopfamily.add(column));
            if mirrors(*shown, original) {
                *shown = original;
            } else {
                all = false;
            }
        }
    }
    if all && cfg!(feature = "pg18") {
        index.relam = pg_sys::BTREE_AM_OID;
    }
}

/// What was found out about a family and its original.
#[derive(Clone, Copy)]
struct Verdict {
    generation: u64,
    copy: Oid,
    original: Oid,
    complete: bool,
}

/// The verdicts given last, each in the slot its families hash to. One holds while the catalogs stay as they were.
struct Verdicts {
    generation: Cell<u64>,
    slots: [Cell<Verdict>; 64],
}

const NONE: Verdict = Verdict { generation: 0, copy: Oid::INVALID, original: Oid::INVALID, complete: false };
static VERDICTS: Local<Verdicts> = Local(Verdicts { generation: Cell::new(1), slots: [const { Cell::new(NONE) }; 64] });

/// Called by the server when a family may have changed.
unsafe extern "C-unwind" fn forget(_arg: Datum, _cache: core::ffi::c_int, _hash: u32) {
    VERDICTS.0.generation.update(|generation| generation + 1);
}

/// Whether `copy` has every member of `original`.
unsafe fn mirrors(copy: Oid, original: Oid) -> bool {
    let Verdicts { generation, slots } = &VERDICTS.0;
    let slot = &slots[(copy.to_u32() ^ original.to_u32()) as usize % slots.len()];
    // Taken before looking: a change that arrives meanwhile makes this verdict an old one.
    let generation = generation.get();
    let known = slot.get();
    if (known.generation, known.copy, known.original) == (generation, copy, original) {
        return known.complete;
    }
    // SAFETY: catalog lookups.
    let complete = unsafe { has_operators(copy, original) && has_functions(copy, original) };
    slot.set(Verdict { generation, copy, original, complete });
    complete
}

unsafe fn has_operators(copy: Oid, original: Oid) -> bool {
    // SAFETY: catalog lookups.
    unsafe {
        all_members(AMOPSTRATEGY as _, original, |operator: &pg_sys::FormData_pg_amop| {
            let (left, right) = (operator.amoplefttype, operator.amoprighttype);
            raw::get_opfamily_member(copy, left, right, operator.amopstrategy) == operator.amopopr
        })
    }
}

unsafe fn has_functions(copy: Oid, original: Oid) -> bool {
    // SAFETY: catalog lookups.
    unsafe {
        all_members(AMPROCNUM as _, original, |function: &pg_sys::FormData_pg_amproc| {
            let (left, right) = (function.amproclefttype, function.amprocrighttype);
            raw::get_opfamily_proc(copy, left, right, function.amprocnum) == function.amproc
        })
    }
}

/// Whether all rows of a family in a catalog, by the cache that has the family as its first key, pass a test.
///
/// # Safety
/// The cache is of a catalog whose rows are `Row`s.
unsafe fn all_members<Row>(cache: core::ffi::c_int, family: Oid, test: impl Fn(&Row) -> bool) -> bool {
    let none = Datum::null();
    // SAFETY: by this function's contract; the rows are held until the list is released.
    unsafe {
        let list = raw::SearchSysCacheList(cache, 1, Datum::from(family), none, none);
        let members = (*list).members.as_slice((*list).n_members as usize);
        let pass = members.iter().all(|&member| test(&*pg_sys::GETSTRUCT(&raw mut (*member).tuple).cast()));
        raw::ReleaseCatCacheList(list);
        pass
    }
}
