//! Values of what was added up, as the server's own aggregates give them.

use core::fmt::Write;

use fpbtree_engine::keys::{ColumnType, KeyShape};
use pgrx::pg_sys::{self, Datum, InvalidOid};

use super::groups::Groups;
use super::{Item, Output};
use crate::pg::ffi;
use crate::values::column::{self, ImageBuffer};

/// The value of an item, `None` for NULL. `room` is for a value that is passed by reference; numerics are made in the
/// current memory context. `shape` is there unless keys are byte strings.
///
/// # Safety
/// May raise when out of memory.
pub(super) unsafe fn value(
    item: Item,
    groups: &Groups,
    shape: Option<&KeyShape>,
    room: &mut ImageBuffer,
) -> Option<Datum> {
    if item.output == Output::Rows {
        return Some(Datum::from(groups.rows(item.filter) as i64));
    }
    let Some(shape) = shape else { return groups.of_strings(item) };
    let ty = shape.columns().get(item.column)?.ty;
    let summary = groups.summary(item.column, item.filter);
    let end = |which: usize| summary.ends(ty).map(|ends| ends[which]);
    // SAFETY: no frame here owns a destructor.
    unsafe {
        match item.output {
            Output::Rows | Output::Count => Some(Datum::from(summary.count() as i64)),
            Output::Group => groups.image(item.column).map(|image| column::value(ty, image, room)),
            Output::Least | Output::First => end(0).map(|image| column::value(ty, image, room)),
            Output::Greatest | Output::Last => end(1).map(|image| column::value(ty, image, room)),
            Output::Sum if summary.count() == 0 => None,
            Output::Sum if ty.is_float() => {
                let sums = summary.float_sums();
                let image = if ty == ColumnType::Float4 {
                    (sums.sum as f32).to_bits().into()
                } else {
                    sums.sum.to_bits().into()
                };
                Some(column::value(ty, checked(image, sums.sum_overflows), room))
            }
            Output::Sum if ty == ColumnType::Int8 => Some(numeric(summary.sum())),
            // A sum of bigints would have to be of more rows than there are.
            Output::Sum => Some(Datum::from(summary.sum() as i64)),
            Output::CountAndSum => {
                let (count, sum) = (summary.count() as i64, summary.sum() as i64);
                Some(pair([count, sum]))
            }
            Output::Average if summary.count() == 0 => None,
            Output::Average if ty.is_float() => {
                let (sums, count) = (summary.float_sums(), summary.count() as f64);
                Some(Datum::from(checked(sums.total / count, sums.total_overflows).to_bits()))
            }
            Output::Average => {
                let (sum, count) = (numeric(summary.sum()), numeric(summary.count().into()));
                Some(ffi::DirectFunctionCall2Coll(ffi::numeric_div, InvalidOid, sum, count))
            }
        }
    }
}

/// A result, unless floats have overflowed.
unsafe fn checked<T>(result: T, overflows: bool) -> T {
    if overflows {
        // SAFETY: the server's error. No frame here owns a destructor.
        unsafe { ffi::float_overflow_error() }
    }
    result
}

/// An array of two bigints.
unsafe fn pair(integers: [i64; 2]) -> Datum {
    let mut values = integers.map(Datum::from);
    let (length, alignment) = (size_of::<i64>() as i32, pg_sys::TYPALIGN_DOUBLE as core::ffi::c_char);
    // SAFETY: new memory, of values that are passed as they are.
    Datum::from(unsafe { ffi::construct_array(values.as_mut_ptr(), 2, pg_sys::INT8OID, length, true, alignment) })
}

/// A `numeric` of an integer.
unsafe fn numeric(integer: i128) -> Datum {
    // SAFETY: the server's functions, with what they take.
    unsafe {
        if let Ok(integer) = i64::try_from(integer) {
            return Datum::from(ffi::int64_to_numeric(integer));
        }
        let mut text = Text { bytes: [0; 48], used: 0 };
        let _ = write!(text, "{integer}");
        let (text, any_scale) = (Datum::from(text.bytes.as_ptr()), Datum::from(-1));
        ffi::DirectFunctionCall3Coll(ffi::numeric_in, InvalidOid, text, Datum::from(pg_sys::Oid::INVALID), any_scale)
    }
}

/// A C string on the stack, of as many digits as an `i128` has.
struct Text {
    bytes: [u8; 48],
    used: usize,
}

impl Write for Text {
    fn write_str(&mut self, piece: &str) -> core::fmt::Result {
        // The last byte stays zero.
        let room = self.bytes.get_mut(self.used..self.used + piece.len()).ok_or(core::fmt::Error)?;
        room.copy_from_slice(piece.as_bytes());
        self.used += piece.len();
        Ok(())
    }
}
