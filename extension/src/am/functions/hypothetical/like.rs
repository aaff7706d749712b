//! A btree index with exactly the columns of one that is not there: its leaves say what entries would take.

use fpbtree_engine::format::Block;
use pgrx::pg_sys::{self, LOCKMODE, Oid, Relation};

use super::super::advise::judge;
use super::super::opened::{OpenedIndex, Privilege, is_btree};
use super::sample::Expected;
use super::sketch::Sketch;
use crate::pg::{ffi, list, options};
use crate::values::column;

/// The first of the table's btree indexes that is like it.
///
/// # Safety
/// The table is open. May raise.
pub(super) unsafe fn find(sketch: &Sketch) -> Option<Oid> {
    let lock = pg_sys::AccessShareLock as LOCKMODE;
    // SAFETY: the table is open, and what opens is closed.
    unsafe {
        list::cells(ffi::RelationGetIndexList(sketch.heap)).iter().map(|cell| cell.oid_value).find(|&index| {
            let rel = ffi::try_relation_open(index, lock);
            if rel.is_null() {
                return false;
            }
            let is_like = is_btree(rel) && (*(*rel).rd_index).indisvalid && is_like(sketch.rel, rel);
            ffi::relation_close(rel, lock);
            is_like
        })
    }
}

/// What its leaves say; `None` if it is gone.
///
/// # Safety
/// May raise, and calls comparison functions.
pub(super) unsafe fn expect(index: Oid, pages: Block) -> Option<Expected> {
    // SAFETY: the index is opened, and closed.
    unsafe {
        let opened = OpenedIndex::of_btree(index, Privilege::Own)?;
        let found = judge(&opened, pages);
        opened.close();
        Some(Expected {
            pages: found.expected,
            leaves: found.leaves,
            levels: found.levels,
            rows: found.rows,
            sampled: found.found.entries,
            is_whole: found.is_whole,
            too_long: found.found.too_long,
            longest: found.found.longest,
        })
    }
}

/// Whether entries of both are the same, and of the same rows.
unsafe fn is_like(sketch: Relation, other: Relation) -> bool {
    // SAFETY: both have an element for each column in the arrays.
    unsafe {
        let (ours, theirs) = (&*(*sketch).rd_index, &*(*other).rd_index);
        let (all, keys) = (ours.indnatts as usize, ours.indnkeyatts as usize);
        (ours.indnatts, ours.indnkeyatts) == (theirs.indnatts, theirs.indnkeyatts)
            && ours.indkey.values.as_slice(all) == theirs.indkey.values.as_slice(all)
            && (0..keys).all(|c| {
                *(*sketch).rd_indoption.add(c) == *(*other).rd_indoption.add(c)
                    && *(*sketch).rd_indcollation.add(c) == *(*other).rd_indcollation.add(c)
                    && column::order_function(sketch, c) == column::order_function(other, c)
            })
            && options::fillfactor(sketch) as usize == super::super::btree::fillfactor(other)
            && ffi::equal((*sketch).rd_indexprs.cast(), ffi::RelationGetIndexExpressions(other).cast())
            && ffi::equal((*sketch).rd_indpred.cast(), ffi::RelationGetIndexPredicate(other).cast())
    }
}
