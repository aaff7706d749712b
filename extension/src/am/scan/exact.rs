//! Scans of exact lanes: conditions become intervals of fields, and tuples are formed from lanes.

use core::cell::UnsafeCell;
use core::ops;

use fpbtree_engine::format::{Key, Lane, Tid};
use fpbtree_engine::keys::KeyShape;
use fpbtree_engine::scan::{Direction, Matches, Range, Rows, Selection, Wanted};
use pgrx::pg_sys::{self, Datum, Relation, ScanKeyData, TupleTableSlot};

use super::conditions::Searched;
use super::pages::Visitor;
use super::scan_keys::{element_type, elements, first_of_row, row_members, with_equality};
use super::state::ScanState;
use crate::pg::ffi;
use crate::pg::loan::Lender;
use crate::pg::memory::zeroed_values;
use crate::pg::per_backend::PerBackend;
use crate::values::bounds::{self, ColumnOrder, ContextList, Neighbours, interval, neighbours};
use crate::values::column;
use crate::values::keys::Keyed;
use crate::values::row::{RowColumn, RowColumns};
use crate::values::tuple::{Plain, Tuple};

/// What a scan of exact lanes looks for.
pub struct ExactConditions {
    shape: &'static KeyShape,
    selection: Selection<'static>,
    /// Whether some condition says more than the selection.
    rechecks: bool,
    /// Whether lanes will be asked for.
    wants_keys: bool,
    /// Memory for arrays and lists looked for, emptied at each rescan.
    keys: pg_sys::MemoryContext,
    plain: Option<Plain>,
    tuple: Tuple,
}

impl<L: Lane> Wanted<L> for ExactConditions {
    #[inline]
    fn at_or_after(&self, place: &Key<L>, out: &mut Range<L>) -> bool {
        self.selection.at_or_after(place, out)
    }

    fn before(&self, place: &Key<L>, out: &mut Range<L>) -> bool {
        self.selection.before(place, out)
    }

    fn null_rank(&self) -> bool {
        self.shape.null_rank()
    }

    fn wants_keys(&self) -> bool {
        self.wants_keys
    }
}

/// The trait says the same of all exact lanes.
macro_rules! searched {
    ($($lane:ident)*) => {$(
        impl Searched for $lane {
            type Conditions = ExactConditions;

            fn lender() -> *mut Lender<ScanState<$lane>> {
                static LENDER: PerBackend<UnsafeCell<Lender<ScanState<$lane>>>> =
                    PerBackend::new(UnsafeCell::new(Lender::new()));
                LENDER.get()
            }

            unsafe fn begin(
                conditions: *mut ExactConditions,
                shape: &'static KeyShape,
                keys: pg_sys::MemoryContext,
                context: pg_sys::MemoryContext,
            ) {
                let (selection, plain, tuple) = (Selection::new(shape), None, Tuple::new(context));
                let (rechecks, wants_keys) = (false, false);
                let new = ExactConditions { shape, selection, rechecks, wants_keys, keys, plain, tuple };
                // SAFETY: `conditions` is not written yet.
                unsafe { conditions.write(new) };
            }

            unsafe fn select(conditions: &mut ExactConditions, rel: Relation, keys: &[ScanKeyData]) {
                conditions.selection.clear();
                conditions.rechecks = false;
                // SAFETY: the keys are the server's, for this index.
                unsafe {
                    ffi::MemoryContextReset(conditions.keys);
                    for key in keys {
                        conditions.add_key(rel, key);
                    }
                }
            }

            unsafe fn want_keys(conditions: &mut ExactConditions, wanted: bool) {
                conditions.wants_keys = wanted;
                if wanted && conditions.plain.is_none() {
                    conditions.plain = Plain::of(conditions.shape);
                    // SAFETY: no frame here owns a destructor.
                    unsafe { conditions.tuple.make_room() };
                }
            }

            #[inline(always)]
            fn rechecks(conditions: &ExactConditions) -> bool {
                conditions.rechecks
            }

            #[inline(always)]
            unsafe fn form_unguarded(
                conditions: &mut ExactConditions,
                matches: &Matches<$lane>,
                at: usize,
            ) -> Option<*mut pg_sys::IndexTupleData> {
                conditions.plain.as_ref()?.form(matches.lane(at).to_u128(), matches.tid(at), &mut conditions.tuple)
            }

            #[inline]
            unsafe fn form(
                conditions: &mut ExactConditions,
                matches: &Matches<$lane>,
                at: usize,
            ) -> Option<*mut pg_sys::IndexTupleData> {
                // SAFETY: the match exists, and no frame here owns a destructor.
                unsafe {
                    Self::form_unguarded(conditions, matches, at)
                        .or_else(|| Self::index_tuple(conditions.shape, &matches.entry(at), &mut conditions.tuple))
                }
            }

            #[inline(always)]
            unsafe fn fill_unguarded(
                conditions: &mut ExactConditions,
                matches: &Matches<$lane>,
                at: usize,
                row: &mut RowColumns,
                slot: &mut TupleTableSlot,
            ) -> Option<()> {
                let entry = matches.tids().get(at).map(|&tid| (matches.lane(at).to_u128(), tid))?;
                // SAFETY: the caller's.
                unsafe {
                    let filled = conditions.plain.as_ref().and_then(|plain| plain.fill(entry, row, slot));
                    filled.or_else(|| Self::fill(conditions, matches, at, row, slot))
                }
            }

            unsafe fn fill(
                conditions: &mut ExactConditions,
                matches: &Matches<$lane>,
                at: usize,
                row: &mut RowColumns,
                slot: &mut TupleTableSlot,
            ) -> Option<()> {
                let (shape, lane, tid) = (conditions.shape, matches.lane(at).to_u128(), matches.tid(at));
                let value = |column: &mut RowColumn| {
                    let ty = shape.columns()[column.place].ty;
                    shape.unpack(lane, tid, column.place).map(|image| column::value(ty, image, &mut column.room))
                };
                // SAFETY: the caller's.
                unsafe { row.fill(slot, value) };
                Some(())
            }

            #[inline(always)]
            fn one_lane(conditions: &ExactConditions) -> Option<u128> {
                if conditions.rechecks { None } else { conditions.selection.one_lane() }
            }

            #[inline(always)]
            fn set_rows(matches: &mut Matches<$lane>, lane: u128, rows: &[Tid]) {
                matches.set_rows(Lane::from_u128(lane), rows);
            }

            fn group_end(
                conditions: &ExactConditions,
                matches: &Matches<$lane>,
                at: usize,
                columns: usize,
                _direction: Direction,
            ) -> usize {
                matches.rows().group_end(at, conditions.shape, columns)
            }

            fn beyond_group(
                conditions: &ExactConditions,
                matches: &Matches<$lane>,
                at: usize,
                columns: usize,
                end: Direction,
            ) -> Option<Key<$lane>> {
                let group = matches.rows().group(at, conditions.shape, columns);
                Some(match end {
                    Direction::Forward => {
                        Rows::<$lane>::behind_group(group, conditions.shape, columns).unwrap_or(Key::MAX)
                    }
                    Direction::Backward => {
                        Rows::<$lane>::before_group(group, conditions.shape, columns).unwrap_or(Key::MIN)
                    }
                })
            }

            fn visit<V: Visitor>(
                conditions: &ExactConditions,
                matches: &Matches<$lane>,
                rows: ops::Range<usize>,
                visitor: V,
            ) -> V::Out {
                match conditions.wants_keys {
                    true => visitor.rows(conditions.shape, matches.rows().part(rows)),
                    false => visitor.count(rows.len()),
                }
            }

            unsafe fn end(conditions: &mut ExactConditions) {
                // SAFETY: nothing uses the memory any more.
                unsafe {
                    conditions.tuple.end();
                }
            }
        }
    )*};
}

searched!(u32 u64 u128);

impl ExactConditions {
    #[inline]
    unsafe fn add_key(&mut self, rel: Relation, key: &ScanKeyData) {
        let c = key.sk_attno as usize - 1;
        let flags = key.sk_flags as u32;
        if flags & pg_sys::SK_SEARCHNULL != 0 {
            return self.selection.null(c);
        }
        if flags & pg_sys::SK_SEARCHNOTNULL != 0 {
            return self.selection.not_null(c);
        }
        if flags & pg_sys::SK_ISNULL != 0 {
            // All operators of our families are strict.
            return self.selection.nothing();
        }
        if flags & pg_sys::SK_ROW_HEADER != 0 {
            // SAFETY: a row comparison of the server's, on columns of ours.
            return unsafe { self.add_row(rel, row_members(key)) };
        }
        let ty = self.shape.columns()[c].ty;
        // SAFETY: the server's scan keys are on our columns, with operators of our families.
        unsafe {
            let order = ColumnOrder::of(rel, c, ty);
            if flags & pg_sys::SK_SEARCHARRAY != 0 {
                return self.add_array(order, c, key);
            }
            if bounds::is_local(order, key.sk_subtype) {
                let before = pg_sys::MemoryContextSwitchTo(self.keys);
                self.add_moments(order, c, key.sk_strategy, [key.sk_argument]);
                pg_sys::MemoryContextSwitchTo(before);
                return;
            }
            let bounds = neighbours(order, key.sk_subtype, key.sk_argument);
            self.restrict(c, key.sk_strategy, bounds);
        }
    }

    /// Wants a column to compare with an argument, given by its neighbours, as the strategy says.
    #[inline]
    fn restrict(&mut self, c: usize, strategy: u16, bounds: Neighbours) {
        let Some((low, high)) = interval(strategy, bounds) else { return self.selection.nothing() };
        self.selection.between(c, low, high);
    }

    /// Wants a row of columns to compare so with others. What that means if a later column is NULL is rechecked.
    #[cold]
    unsafe fn add_row(&mut self, rel: Relation, members: &[ScanKeyData]) {
        self.rechecks = true;
        // SAFETY: the members are the server's scan keys, on columns of ours.
        unsafe {
            self.add_key(rel, &first_of_row(members));
            self.narrow(rel, members);
        }
    }

    /// Bounds the lanes to where a row comparison may hold: as far as its columns are the index's leading ones,
    /// in the same direction, it is a comparison of lanes.
    unsafe fn narrow(&mut self, rel: Relation, members: &[ScanKeyData]) {
        let columns = self.shape.columns();
        let strategy = with_equality(members[0].sk_strategy);
        let greater = u32::from(strategy) == pg_sys::BTGreaterEqualStrategyNumber;
        let upward = greater != columns[0].descending;
        let mut digits = 0;
        for (c, member) in members.iter().enumerate() {
            let known = member.sk_flags as u32 & pg_sys::SK_ISNULL == 0;
            if !known || member.sk_attno as usize != c + 1 || columns[c].descending != columns[0].descending {
                break;
            }
            // SAFETY: the column is the open index's, and the argument of the member's type.
            let bounds = unsafe {
                let order = ColumnOrder::of(rel, c, columns[c].ty);
                if bounds::is_local(order, member.sk_subtype) {
                    break;
                }
                neighbours(order, member.sk_subtype, member.sk_argument)
            };
            let Some((low, high)) = interval(strategy, bounds) else { break };
            let shift = self.shape.slot(c).shift;
            let lane = digits | self.shape.slot_of(c, if greater { low } else { high }) << shift;
            if upward {
                self.selection.bound_lanes(lane, u128::MAX);
            } else {
                self.selection.bound_lanes(0, lane | ((1 << shift) - 1));
            }
            if bounds.ceil != bounds.floor {
                break;
            }
            digits = lane;
        }
    }

    /// Wants a column of local times to compare with any of these moments as the strategy says.
    unsafe fn add_moments(
        &mut self,
        order: ColumnOrder,
        c: usize,
        strategy: u16,
        moments: impl IntoIterator<Item = Datum>,
    ) {
        // SAFETY: the moments are timestamptz; the scan keys' memory is current.
        unsafe {
            let mut ranges = ContextList::new();
            for moment in moments {
                bounds::local_ranges(order, moment, |bounds| interval(strategy, bounds), &mut ranges);
            }
            let ranges = ranges.as_mut_slice();
            let room = zeroed_values(pg_sys::CurrentMemoryContext, ranges.len() + self.selection.parts(c));
            self.selection.any_between(c, ranges, room);
        }
    }

    /// Wants a column to compare so with any element of an array.
    unsafe fn add_array(&mut self, order: ColumnOrder, c: usize, key: &ScanKeyData) {
        // SAFETY: the key's argument is an array; what is allocated lives until the next rescan.
        unsafe {
            let before = pg_sys::MemoryContextSwitchTo(self.keys);
            let (values, nulls) = elements(key.sk_argument);
            let element = element_type(key.sk_argument);
            let subtype = if key.sk_subtype == pg_sys::InvalidOid { element } else { key.sk_subtype };
            let present = || values.iter().zip(nulls).filter(|(_, null)| !**null).map(|(&value, _)| value);
            if bounds::is_local(order, subtype) {
                self.add_moments(order, c, key.sk_strategy, present());
            } else if key.sk_strategy == pg_sys::BTEqualStrategyNumber as u16 {
                let fields = zeroed_values::<u128>(pg_sys::CurrentMemoryContext, values.len());
                let mut count = 0;
                for value in present() {
                    let bounds = neighbours(order, subtype, value);
                    if let (Some(floor), Some(ceil)) = (bounds.floor, bounds.ceil)
                        && ceil <= floor
                    {
                        fields[count] = floor;
                        count += 1;
                    }
                }
                self.selection.any_of(c, &mut fields[..count]);
            } else {
                // Any element at all will do: the widest of their intervals.
                let widest = present()
                    .filter_map(|value| interval(key.sk_strategy, neighbours(order, subtype, value)))
                    .reduce(|(a, b), (c, d)| (a.min(c), b.max(d)));
                match widest {
                    Some((low, high)) => self.selection.between(c, low, high),
                    None => self.selection.nothing(),
                }
            }
            pg_sys::MemoryContextSwitchTo(before);
        }
    }
}
