//! The least and greatest of values that are in no order, as the server's `min` and `max` choose them.

use pgrx::pg_sys::{Aggref, Datum, MemoryContext, Relation, SortSupportData};

use super::Item;
use crate::pg::{aggregates, ffi};
use crate::values::column;
use crate::values::tuple::Tuple;

/// The value of a column that comes before all others in the order that an aggregate's sort operator says: of equal ones the
/// last, as most of the server's `min` and `max` have it. Which one is nowhere said.
pub(super) struct Extreme {
    item: Item,
    place: usize,
    /// The server's comparison of the aggregate's values, which is not there if the aggregate has no order any more.
    support: *mut SortSupportData,
    /// Bytes of a value, negative if they vary, and how many are passed by value, else 0.
    length: i16,
    by_value: u8,
    first: Tuple,
    is_there: bool,
}

impl Extreme {
    /// That of no value, of the item at this place, for which such an aggregate asks; what it needs of memory is the context's.
    ///
    /// # Safety
    /// The index is open. May raise.
    pub unsafe fn of(
        (place, item): (usize, Item),
        aggregate: &Aggref,
        rel: Relation,
        context: MemoryContext,
    ) -> Extreme {
        // SAFETY: the server's protocol for sort support; new memory of the right size, zeroed.
        unsafe {
            let support: *mut SortSupportData = ffi::palloc0(size_of::<SortSupportData>()).cast();
            ((*support).ssup_cxt, (*support).ssup_collation) = (context, aggregate.inputcollid);
            if let Some(operator) = aggregates::sort_operator(aggregate.aggfnoid) {
                ffi::PrepareSortSupportFromOrderingOp(operator, support);
            }
            let (length, by_value) = column::stored_length(rel, item.column);
            Extreme { item, place, support, length, by_value, first: Tuple::new(context), is_there: false }
        }
    }

    /// The place of its item in the task.
    pub fn place(&self) -> usize {
        self.place
    }

    /// The filter of the rows that it is of, if there is one.
    pub fn filter(&self) -> Option<usize> {
        self.item.filter
    }

    /// The column.
    pub fn column(&self) -> usize {
        self.item.column
    }

    /// Makes room for a value.
    ///
    /// # Safety
    /// May raise when out of memory.
    pub unsafe fn prepare(&mut self) {
        // SAFETY: the tuple goes with the node, whose memory the context's is.
        unsafe { self.first.make_room() };
    }

    /// Becomes that of no value.
    pub fn clear(&mut self) {
        self.is_there = false;
    }

    /// Takes a value into account. None if it is damaged, or nobody knows how to compare it.
    ///
    /// # Safety
    /// A value of the column, and there is room. The caller's frames own no destructors: may raise.
    pub unsafe fn add(&mut self, value: Datum) -> Option<()> {
        // SAFETY: the server's protocol for sort support; the value has as many bytes as its type says.
        unsafe {
            if let Some(first) = self.value() {
                let support = &mut *self.support;
                let order = support.comparator?(value, first, support).cmp(&0);
                let order = if support.ssup_reverse { order.reverse() } else { order };
                if order.is_gt() {
                    return Some(());
                }
            }
            self.first.clear();
            if self.by_value > 0 {
                self.first.put_integer(value.value() as u64, self.by_value.into())?;
            } else {
                let length = ffi::datumGetSize(value, false, self.length.into());
                self.first.put(core::slice::from_raw_parts(value.cast_mut_ptr(), length), GREATEST_ALIGNMENT)?;
            }
        }
        self.is_there = true;
        Some(())
    }

    /// The value, if there was any.
    pub fn value(&self) -> Option<Datum> {
        self.first.value(0, self.by_value).filter(|_| self.is_there)
    }
}

/// What values of any type may be aligned to (`MAXIMUM_ALIGNOF`).
const GREATEST_ALIGNMENT: usize = 8;
