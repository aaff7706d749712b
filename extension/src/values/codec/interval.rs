//! `interval`: 8 bytes of time, 4 of days, 4 of months. What is compared is its span, with days of 24 hours and months
//! of 30 days; days and months are the residue.

use fpbtree_engine::keys::digits::{Buffer, DigitShape};
use pgrx::pg_sys::Datum;

use super::residue::{folded, put_count, take_count, unfolded};

/// Spans have less than 80 bits.
pub(super) const WIDTH: u8 = 10;
const BIAS: i128 = 1 << 79;
const DAY: i128 = 86_400_000_000;

fn span(time: i64, days: i32, months: i32) -> i128 {
    i128::from(time) + (30 * i128::from(months) + i128::from(days)) * DAY
}

pub(super) unsafe fn put<const N: usize, const M: usize>(
    shape: &DigitShape,
    value: Datum,
    key: &mut Buffer<N>,
    carried: &mut Buffer<M>,
) {
    // SAFETY: the value is an interval.
    let (time, days, months) = unsafe {
        let stored = value.cast_mut_ptr::<u8>();
        let word = |at| stored.add(at).cast::<i32>().read_unaligned();
        (stored.cast::<i64>().read_unaligned(), word(8), word(12))
    };
    shape.put_field((span(time, days, months) + BIAS) as u128, key);
    put_count(folded(days), carried);
    put_count(folded(months), carried);
}

pub(super) fn get(field: u128, carried: &mut &[u8]) -> Option<[u8; 16]> {
    let days = unfolded(take_count(carried)?);
    let months = unfolded(take_count(carried)?);
    let time = i64::try_from(field as i128 - BIAS - span(0, days, months)).ok()?;
    let mut value = [0; 16];
    value[..8].copy_from_slice(&time.to_le_bytes());
    value[8..12].copy_from_slice(&days.to_le_bytes());
    value[12..].copy_from_slice(&months.to_le_bytes());
    Some(value)
}
