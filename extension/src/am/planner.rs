//! What the planner does for btree's operator families alone, it does for their copies too.
//!
//! Boolean conditions (15), `LIKE` and `^@` with the pattern classes, and proofs of uniqueness (15 to 17) are tried
//! only where an index column's family is one of btree's. Our families are copies of those, so the planner may as well
//! see the original: in its own description of the index, nowhere else. The executor looks a condition's operator up in
//! the index's real family, where it means the same because the copy has it, which is checked here. Row comparisons
//! (18) are tried with btree's own indexes alone.
//!
//! A copy may lack what users have added to the original since it was made. That is about two types, and matters to
//! queries that compare values of both: they are shown the copy.

use core::cell::Cell;
use core::ffi::c_void;

use pgrx::pg_guard;
use pgrx::pg_sys::SysCacheIdentifier::{AMOPSTRATEGY, AMPROCNUM};
use pgrx::pg_sys::{self, Datum, IndexOptInfo, Node, Oid, PlannerInfo, Query, RelOptInfo};
#[cfg(feature = "pg19")]
use pgrx::pg_sys::{build_simple_rel_hook as hook, build_simple_rel_hook_type as Hook};
#[cfg(not(feature = "pg19"))]
use pgrx::pg_sys::{get_relation_info_hook as hook, get_relation_info_hook_type as Hook};

use crate::am::functions::hypothetical;
use crate::am::handler;
use crate::pg::per_backend::PerBackend;
use crate::pg::{ffi, list};

/// The hook that was there before.
static PREVIOUS: PerBackend<Cell<Hook>> = PerBackend::new(Cell::new(None));

/// Installs the hook. Called when the library is loaded, after all that may fail; opening the first index is early
/// enough, because the planner calls the hook after that.
pub fn register() {
    // SAFETY: at library load, where hooks are installed and callbacks registered.
    unsafe {
        PREVIOUS.set(hook);
        hook = Some(describe);
        for cache in [AMOPSTRATEGY, AMPROCNUM] {
            ffi::CacheRegisterSyscacheCallback(cache as _, Some(forget), Datum::null());
        }
    }
}

/// Called by the planner when it has described a table and its indexes to itself.
#[cfg(not(feature = "pg19"))]
#[pg_guard]
unsafe extern "C-unwind" fn describe(root: *mut PlannerInfo, table: Oid, inherits: bool, rel: *mut RelOptInfo) {
    // SAFETY: called by the planner.
    unsafe {
        if let Some(previous) = PREVIOUS.get() {
            previous(root, table, inherits, rel);
        }
        describe_indexes(root, rel);
    }
}

/// Called by the planner when it has described a relation to itself, which need not be a table: most often there is
/// nothing to do then, which is soon found out.
#[cfg(feature = "pg19")]
#[pg_guard]
unsafe extern "C-unwind" fn describe(root: *mut PlannerInfo, rel: *mut RelOptInfo, entry: *mut pg_sys::RangeTblEntry) {
    // SAFETY: called by the planner.
    unsafe {
        if let Some(previous) = PREVIOUS.get() {
            previous(root, rel, entry);
        }
        if (*rel).rtekind == pg_sys::RTEKind::RTE_RELATION {
            describe_indexes(root, rel);
        }
    }
}

unsafe fn describe_indexes(root: *mut PlannerInfo, rel: *mut RelOptInfo) {
    // SAFETY: the planner's own; its lists hold what their names say.
    unsafe {
        hypothetical::show(root, rel);
        let mut compared = None;
        for index in list::members::<IndexOptInfo>((*rel).indexlist) {
            if handler::is_ours(&*index) && !(*index).sortopfamily.is_null() {
                show_originals(&mut *index, &mut || *compared.get_or_insert_with(|| Compared::by((*root).parse)));
            }
        }
    }
}

/// Puts btree's families in place of copies that have all the query needs, and, where all have, btree itself, because
/// the planner makes index conditions of row comparisons for no other method. The executors before 18 take them for no
/// other method either.
unsafe fn show_originals(index: &mut IndexOptInfo, compared: &mut impl FnMut() -> Compared) {
    let mut all = true;
    for column in 0..index.nkeycolumns as usize {
        // SAFETY: arrays with an element for each key column. The family to sort by is the one that the server found
        // the "<" of ours in: btree's.
        unsafe {
            let (shown, original) = (index.opfamily.add(column), *index.sortopfamily.add(column));
            let own = *index.opcintype.add(column);
            if mirrors(*shown, original) || compared().with(own).finds_all(*shown, original) {
                *shown = original;
            } else {
                all = false;
            }
        }
    }
    if all && cfg!(feature = "since_18") {
        index.relam = pg_sys::BTREE_AM_OID;
    }
}

/// Types whose values a query may compare: what its operators take, and its functions, for the server may know what a
/// function's answer says of an index. From these it also makes operators that are not in the query, as it follows from
/// `a = b` and `b = c` that `a = c`.
#[derive(Clone, Copy)]
struct Compared {
    types: [Oid; Compared::MOST],
    count: usize,
    /// Whether there were more: then it may be any.
    any: bool,
}

impl Compared {
    const MOST: usize = 64;

    /// By a query; those below it have plans of their own.
    unsafe fn by(query: *mut Query) -> Compared {
        let mut compared = Compared { types: [Oid::INVALID; Compared::MOST], count: 0, any: false };
        let flags = pg_sys::QTW_IGNORE_RC_SUBQUERIES | pg_sys::QTW_IGNORE_JOINALIASES;
        // SAFETY: the planner's query; the walker is given the context it expects.
        unsafe { ffi::query_tree_walker(query, note_types, (&raw mut compared).cast(), flags as _) };
        compared
    }

    /// These, and another one.
    fn with(mut self, other: Oid) -> Compared {
        self.add(other);
        self
    }

    fn add(&mut self, other: Oid) {
        if self.has(other) {
            return;
        }
        self.any = self.count == Compared::MOST;
        if !self.any {
            self.types[self.count] = other;
            self.count += 1;
        }
    }

    fn has(&self, which: Oid) -> bool {
        self.any || self.types[..self.count].contains(&which)
    }

    unsafe fn add_operator(&mut self, operator: Oid) {
        let (mut left, mut right) = (Oid::INVALID, Oid::INVALID);
        // SAFETY: a catalog lookup.
        unsafe { ffi::op_input_types(operator, &mut left, &mut right) };
        self.add(left);
        self.add(right);
    }

    /// Whether `copy` has every member of `original` for these types.
    unsafe fn finds_all(&self, copy: Oid, original: Oid) -> bool {
        // SAFETY: catalog lookups.
        unsafe { has_all(copy, original, |left, right| self.has(left) && self.has(right)) }
    }
}

/// Notes the types that a node compares, and those of all below it.
unsafe extern "C-unwind" fn note_types(node: *mut Node, context: *mut c_void) -> bool {
    // SAFETY: called by the server's walkers, with what `Compared::by` gave them; nodes are what their tags say.
    unsafe {
        if node.is_null() {
            return false;
        }
        let compared = &mut *context.cast::<Compared>();
        match (*node).type_ {
            pg_sys::NodeTag::T_OpExpr => compared.add_operator((*node.cast::<pg_sys::OpExpr>()).opno),
            pg_sys::NodeTag::T_ScalarArrayOpExpr => {
                compared.add_operator((*node.cast::<pg_sys::ScalarArrayOpExpr>()).opno);
            }
            pg_sys::NodeTag::T_RowCompareExpr => {
                let operators = list::cells((*node.cast::<pg_sys::RowCompareExpr>()).opnos);
                operators.iter().for_each(|operator| compared.add_operator(operator.oid_value));
            }
            pg_sys::NodeTag::T_FuncExpr => {
                let arguments = list::members::<Node>((*node.cast::<pg_sys::FuncExpr>()).args);
                arguments.for_each(|argument| compared.add(ffi::exprType(argument)));
            }
            _ => {}
        }
        ffi::expression_tree_walker(node, note_types, context)
    }
}

/// What was found out about a family and its original.
#[derive(Clone, Copy)]
struct CopyCheck {
    generation: u64,
    copy: Oid,
    original: Oid,
    complete: bool,
}

/// What was found out last, each in the slot its families hash to. It holds while the catalogs stay as they were.
struct CopyChecks {
    generation: Cell<u64>,
    slots: [Cell<CopyCheck>; 64],
}

const NONE: CopyCheck = CopyCheck { generation: 0, copy: Oid::INVALID, original: Oid::INVALID, complete: false };
static COPY_CHECKS: PerBackend<CopyChecks> =
    PerBackend::new(CopyChecks { generation: Cell::new(1), slots: [const { Cell::new(NONE) }; 64] });

/// Called by the server when a family may have changed.
unsafe extern "C-unwind" fn forget(_arg: Datum, _cache: core::ffi::c_int, _hash: u32) {
    COPY_CHECKS.generation.update(|generation| generation + 1);
}

/// Whether `copy` has every member of `original`.
unsafe fn mirrors(copy: Oid, original: Oid) -> bool {
    let CopyChecks { generation, slots } = &*COPY_CHECKS;
    let slot = &slots[(copy.to_u32() ^ original.to_u32()) as usize % slots.len()];
    // Taken before looking: a change that arrives meanwhile makes what is found out here old.
    let generation = generation.get();
    let known = slot.get();
    if (known.generation, known.copy, known.original) == (generation, copy, original) {
        return known.complete;
    }
    // SAFETY: catalog lookups.
    let complete = unsafe { has_all(copy, original, |_, _| true) };
    slot.set(CopyCheck { generation, copy, original, complete });
    complete
}

/// Whether `copy` has those members of `original` that are about such types.
unsafe fn has_all(copy: Oid, original: Oid, wanted: impl Fn(Oid, Oid) -> bool) -> bool {
    // SAFETY: catalog lookups.
    unsafe {
        let has_operator = |operator: &pg_sys::FormData_pg_amop| {
            let (left, right) = (operator.amoplefttype, operator.amoprighttype);
            !wanted(left, right)
                || ffi::get_opfamily_member(copy, left, right, operator.amopstrategy) == operator.amopopr
        };
        let has_function = |function: &pg_sys::FormData_pg_amproc| {
            let (left, right) = (function.amproclefttype, function.amprocrighttype);
            !wanted(left, right) || ffi::get_opfamily_proc(copy, left, right, function.amprocnum) == function.amproc
        };
        all_members(AMOPSTRATEGY as _, original, has_operator) && all_members(AMPROCNUM as _, original, has_function)
    }
}

/// Whether all rows of a family in a catalog, by the cache that has the family as its first key, pass a test.
///
/// # Safety
/// The cache is of a catalog whose rows are `Row`s.
unsafe fn all_members<Row>(cache: core::ffi::c_int, family: Oid, test: impl Fn(&Row) -> bool) -> bool {
    let none = Datum::null();
    // SAFETY: the cache's rows are `Row`s, and are held until the list is released.
    unsafe {
        let list = ffi::SearchSysCacheList(cache, 1, Datum::from(family), none, none);
        let members = (*list).members.as_slice((*list).n_members as usize);
        let pass = members.iter().all(|&member| test(&*pg_sys::GETSTRUCT(&raw mut (*member).tuple).cast()));
        ffi::ReleaseCatCacheList(list);
        pass
    }
}
