//! `FILTER (WHERE …)`: which rows of a page an aggregate takes. The conditions are the server's to evaluate.

use fpbtree_engine::format::Lane;
use fpbtree_engine::keys::KeyShape;
use fpbtree_engine::page::Bytes;
use fpbtree_engine::scan::{Matches, Rows};
use pgrx::pg_sys::{
    CustomScan, CustomScanState, Datum, ExprContext, ExprState, MemoryContext, MemoryContextSwitchTo, Node,
    TupleTableSlot,
};

use super::{MOST_COLUMNS, Task};
use crate::pg::{ffi, list};
use crate::values::column::{self, ImageBuffer};
use crate::values::keys::BytesColumns;
use crate::values::tuple::Tuple;

/// Most filters of a node.
pub(super) const MOST_FILTERS: usize = 16;

/// A node's filters.
pub(super) struct Filters {
    conditions: [*mut ExprState; MOST_FILTERS],
    /// The columns of the index that each is about, a bit for each.
    columns: [u32; MOST_FILTERS],
    count: usize,
    /// Where conditions have the values of columns: for each of the index's its place in a slot like the node's own, which
    /// is null if there is no filter.
    slot: *mut TupleTableSlot,
    context: *mut ExprContext,
    places: [usize; MOST_COLUMNS],
    rooms: [ImageBuffer; MOST_COLUMNS],
    /// The values of byte strings, and for each column the bytes that it has if it is passed by value, else 0.
    tuple: Tuple,
    by_value: [u8; MOST_COLUMNS],
}

impl Filters {
    /// The filters of a node's plan.
    ///
    /// # Safety
    /// Called by the executor, as the node begins; values of byte strings are made in `context`, which outlives the node.
    /// May raise.
    pub unsafe fn begin(
        node: &mut CustomScanState,
        plan: &CustomScan,
        task: &Task,
        by_value: [u8; MOST_COLUMNS],
        context: MemoryContext,
    ) -> Filters {
        let mut filters = Filters {
            conditions: [core::ptr::null_mut(); MOST_FILTERS],
            columns: task.filters,
            count: 0,
            slot: core::ptr::null_mut(),
            context: node.ss.ps.ps_ExprContext,
            places: task.places(),
            rooms: [const { ImageBuffer::new() }; MOST_COLUMNS],
            tuple: Tuple::new(context),
            by_value,
        };
        // SAFETY: the plan's expressions, initialised once, for this node.
        unsafe {
            for (condition, place) in list::members::<Node>(plan.custom_exprs).zip(&mut filters.conditions) {
                *place = ffi::ExecInitQual(list::of([condition]), &raw mut node.ss.ps);
                filters.count += 1;
            }
            if filters.count > 0 {
                let like = &*node.ss.ss_ScanTupleSlot;
                filters.slot = ffi::MakeSingleTupleTableSlot(like.tts_tupleDescriptor, like.tts_ops);
                ffi::ExecStoreVirtualTuple(filters.slot);
            }
        }
        filters
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Makes room for values of byte strings.
    ///
    /// # Safety
    /// May raise when out of memory.
    pub unsafe fn prepare(&mut self) {
        if self.count > 0 {
            // SAFETY: the tuple goes with the node, whose memory the context's is.
            unsafe { self.tuple.make_room() };
        }
    }

    /// Hands over those of some rows that a filter takes, stretch by stretch. Rows that follow each other and are the same
    /// in all that it is about are asked about once. Floats may be equal and not the same.
    ///
    /// # Safety
    /// The node has begun. Runs user code, and may raise.
    pub unsafe fn for_each_stretch<L: Lane>(
        &mut self,
        filter: usize,
        shape: &KeyShape,
        rows: Rows<'_, L>,
        mut take: impl FnMut(Rows<'_, L>),
    ) {
        let depth = self.depth(filter);
        let is_of_floats = bits(self.columns[filter]).any(|column| shape.columns()[column].ty.is_float());
        let (mut from, mut at) = (0, 0);
        while at < rows.len() {
            let alike = match depth {
                0 => rows.len(),
                _ if is_of_floats => at + 1,
                _ => rows.group_end(at, shape, depth),
            };
            // SAFETY: the caller's.
            if unsafe { !self.takes_row(filter, shape, rows, at) } {
                if from < at {
                    take(rows.part(from..at));
                }
                from = alike;
            }
            at = alike;
        }
        if from < at {
            take(rows.part(from..at));
        }
    }

    /// How many of the index's first columns have all that a filter is about.
    fn depth(&self, filter: usize) -> usize {
        (u32::BITS - self.columns[filter].leading_zeros()) as usize
    }

    unsafe fn takes_row<L: Lane>(&mut self, filter: usize, shape: &KeyShape, rows: Rows<'_, L>, at: usize) -> bool {
        // SAFETY: the caller's.
        unsafe {
            for column in bits(self.columns[filter]) {
                let ty = shape.columns()[column].ty;
                let image = rows.image(at, shape, column);
                let value = image.map(|image| column::value(ty, image, &mut self.rooms[column]));
                self.put(column, value);
            }
            self.holds(filter)
        }
    }

    /// Whether a filter takes a row of byte strings. None if the entry is damaged.
    ///
    /// # Safety
    /// The node has begun, and there is room for values. Runs user code, and may raise.
    pub unsafe fn takes_string(
        &mut self,
        filter: usize,
        columns: &BytesColumns,
        matches: &Matches<Bytes>,
        at: usize,
    ) -> Option<bool> {
        // SAFETY: the caller's.
        unsafe {
            columns.put_first(self.depth(filter), &matches.entry(at)?, &mut self.tuple)?;
            for column in bits(self.columns[filter]) {
                self.put(column, self.tuple.value(column, self.by_value[column]));
            }
            Some(self.holds(filter))
        }
    }

    /// Puts a column's value where conditions have it.
    unsafe fn put(&self, column: usize, value: Option<Datum>) {
        let place = self.places[column];
        // SAFETY: the slot has a column for each that a condition is about.
        unsafe {
            *(*self.slot).tts_values.add(place) = value.unwrap_or(Datum::null());
            *(*self.slot).tts_isnull.add(place) = value.is_none();
        }
    }

    /// Whether a filter takes a row whose values are in the slot.
    unsafe fn holds(&mut self, filter: usize) -> bool {
        // SAFETY: the node has begun. No frame here owns a destructor.
        unsafe {
            let (condition, context) = (self.conditions[filter], self.context);
            (*context).ecxt_scantuple = self.slot;
            let before = MemoryContextSwitchTo((*context).ecxt_per_tuple_memory);
            let mut is_null = false;
            let holds = (*condition).evalfunc.is_some_and(|evaluate| {
                // Of a list of conditions NULL is no result.
                evaluate(condition, context, &mut is_null).value() != 0
            });
            MemoryContextSwitchTo(before);
            ffi::MemoryContextReset((*context).ecxt_per_tuple_memory);
            holds
        }
    }
}

/// The numbers of the bits that are set.
pub(super) fn bits(set: u32) -> impl Iterator<Item = usize> {
    (0..u32::BITS as usize).filter(move |bit| set >> bit & 1 != 0)
}
