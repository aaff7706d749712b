//! What scans of each kind of keys have to themselves.

use core::ops::Range;

use fpbtree_engine::format::Tid;
use fpbtree_engine::scan::{Direction, Matches, Wanted};
use pgrx::pg_sys::{self, Relation, ScanKeyData, TupleTableSlot};

use super::pages::Visitor;
use super::state::ScanState;
use crate::pg::loan::Lender;
use crate::pg::memory::Zeroed;
use crate::values::keys::Keyed;
use crate::values::row::RowColumns;

// SAFETY: no match.
unsafe impl<K: Searched> Zeroed for Matches<K> {}

/// What a scan looks for and how it gives values back, for the keys of one kind of index.
pub(super) trait Searched: Keyed {
    /// What is looked for. It lives in the scan's state, which does not move, and owns no destructor.
    type Conditions: Wanted<Self>;

    /// Who lends memory for the states of scans.
    fn lender() -> *mut Lender<ScanState<Self>>;

    /// Begins, with `conditions` not written yet and `columns` in the state for good.
    ///
    /// # Safety
    /// `keys` is memory for what is looked for, and tuples live in `context`. May raise.
    unsafe fn begin(
        conditions: *mut Self::Conditions,
        columns: &'static Self::Columns,
        keys: pg_sys::MemoryContext,
        context: pg_sys::MemoryContext,
    );

    /// Reads the scan keys.
    ///
    /// # Safety
    /// The server's keys for this index. May raise.
    unsafe fn select(conditions: &mut Self::Conditions, rel: Relation, keys: &[ScanKeyData]);

    /// Says whether keys will be asked for: index tuples, or rows that are shown.
    ///
    /// # Safety
    /// May raise when out of memory.
    unsafe fn want_keys(conditions: &mut Self::Conditions, wanted: bool);

    /// Whether the executor has to look at a match's conditions again.
    fn rechecks(conditions: &Self::Conditions) -> bool;

    /// The lane that every match has, and whatever has it matches; if there is such a one.
    #[inline(always)]
    fn one_lane(_conditions: &Self::Conditions) -> Option<u128> {
        None
    }

    /// Makes matches of rows of [one lane](Self::one_lane).
    #[inline(always)]
    fn set_rows(_matches: &mut Matches<Self>, _lane: u128, _rows: &[Tid]) {}

    /// Forms the tuple of a match without the guard: it does not panic. None if [`form`](Self::form) is to do it.
    ///
    /// # Safety
    /// The match exists. May raise when out of memory.
    unsafe fn form_unguarded(
        conditions: &mut Self::Conditions,
        matches: &Matches<Self>,
        at: usize,
    ) -> Option<*mut pg_sys::IndexTupleData>;

    /// Forms the tuple of a match, in memory that the next one uses again. None if the entry is damaged.
    ///
    /// # Safety
    /// The match exists. May raise when out of memory.
    unsafe fn form(
        conditions: &mut Self::Conditions,
        matches: &Matches<Self>,
        at: usize,
    ) -> Option<*mut pg_sys::IndexTupleData>;

    /// Puts a match's values into a slot without the guard: it does not panic. None if [`fill`](Self::fill) is to do it.
    ///
    /// # Safety
    /// As for [`fill`](Self::fill).
    unsafe fn fill_unguarded(
        conditions: &mut Self::Conditions,
        matches: &Matches<Self>,
        at: usize,
        row: &mut RowColumns,
        slot: &mut TupleTableSlot,
    ) -> Option<()>;

    /// Puts a match's values into a slot. None if the entry is damaged.
    ///
    /// # Safety
    /// The match exists, the slot has the row's columns, and keys are wanted. May raise when out of memory.
    unsafe fn fill(
        conditions: &mut Self::Conditions,
        matches: &Matches<Self>,
        at: usize,
        row: &mut RowColumns,
        slot: &mut TupleTableSlot,
    ) -> Option<()>;

    /// Where the matches end that are equal to the `at`-th in so many of the first columns, for a scan that goes this way.
    fn group_end(
        conditions: &Self::Conditions,
        matches: &Matches<Self>,
        at: usize,
        columns: usize,
        direction: Direction,
    ) -> usize;

    /// Where all rows of the index end in one direction that are equal to a match in so many of the first columns: a place
    /// that they are before, and that all behind them are behind. None if the match is damaged.
    fn beyond_group(
        conditions: &Self::Conditions,
        matches: &Matches<Self>,
        at: usize,
        columns: usize,
        end: Direction,
    ) -> Option<Self::OwnedKey>;

    /// Shows some of a page's matches.
    fn visit<V: Visitor>(
        conditions: &Self::Conditions,
        matches: &Matches<Self>,
        rows: Range<usize>,
        visitor: V,
    ) -> V::Out;

    /// Gives back what was allocated.
    ///
    /// # Safety
    /// The search is not used any more.
    unsafe fn end(conditions: &mut Self::Conditions);
}
