//! Rows as plan nodes of ours give them: some columns of an index's entries, as values in a slot.

use fpbtree_engine::keys::KeyShape;
use pgrx::pg_sys::{Datum, TupleTableSlot};

use crate::values::column::ImageBuffer;

/// Which of an index's columns a slot has, in the slot's order.
pub struct RowColumns {
    columns: [RowColumn; KeyShape::MAX_COLUMNS],
    count: usize,
    end: usize,
}

/// A column of a slot.
pub struct RowColumn {
    /// Which column of the index it is.
    pub place: usize,
    /// Bytes of its values if these are passed by value, else 0.
    pub by_value: u8,
    /// For values of types that lanes hold and that are passed by reference.
    pub room: ImageBuffer,
}

impl RowColumns {
    /// These columns of the index, each with the bytes of its values if these are passed by value, else 0. None if they are
    /// more than an index has.
    pub fn of(columns: impl IntoIterator<Item = (usize, u8)>) -> Option<RowColumns> {
        let filler = [const { RowColumn { place: 0, by_value: 0, room: ImageBuffer::new() } }; KeyShape::MAX_COLUMNS];
        let mut row = RowColumns { columns: filler, count: 0, end: 0 };
        for (place, by_value) in columns {
            let column = row.columns.get_mut(row.count).filter(|_| place < KeyShape::MAX_COLUMNS)?;
            (column.place, column.by_value) = (place, by_value);
            (row.count, row.end) = (row.count + 1, row.end.max(place + 1));
        }
        Some(row)
    }

    /// How many of the index's columns, from the first on, these are among.
    pub fn end(&self) -> usize {
        self.end
    }

    /// Puts a value into each column of a slot, or NULL.
    ///
    /// # Safety
    /// The slot has these columns.
    #[inline(always)]
    pub unsafe fn fill(&mut self, slot: &mut TupleTableSlot, mut value: impl FnMut(&mut RowColumn) -> Option<Datum>) {
        for (at, column) in self.columns[..self.count].iter_mut().enumerate() {
            let value = value(column);
            // SAFETY: the slot has a column for each.
            unsafe {
                *slot.tts_values.add(at) = value.unwrap_or(Datum::null());
                *slot.tts_isnull.add(at) = value.is_none();
            }
        }
    }
}
