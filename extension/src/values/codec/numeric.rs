//! `numeric`: a header of 2 or 4 bytes with sign, display scale and weight, then base-10000 digits.

use fpbtree_engine::keys::bytes::MOST_KEY;
use fpbtree_engine::keys::digits::{Buffer, Decimal, DecimalClass, DigitShape};

use super::residue::{put_count, take_count};
use crate::values::numeric_sum::Number;
use crate::values::varlena::{MOST_SHORT, short_header};

/// The header's upper bits: which form it has.
const FORM: u16 = 0xC000;
const LONG_NEGATIVE: u16 = 0x4000;
const SHORT: u16 = 0x8000;
const SPECIAL: u16 = 0xC000;
const LONG_SCALE: u16 = 0x3FFF;

/// The short form.
const SHORT_NEGATIVE: u16 = 0x2000;
const SHORT_SCALES: u16 = 0x40;
const SHORT_SCALE_SHIFT: u32 = 7;
const SHORT_WEIGHT: u16 = 0x7F;
const SHORT_WEIGHTS: core::ops::Range<i32> = -0x40..0x40;

/// Values that are no numbers.
const NAN: u16 = 0xC000;
const INFINITY: u16 = 0xD000;
const NEGATIVE_INFINITY: u16 = 0xF000;
const SPECIAL_VALUE: u16 = 0xF000;

/// What is stored as a number. None if it is damaged.
pub fn number(stored: &[u8]) -> Option<Number<'_>> {
    let (words, _) = stored.as_chunks::<2>();
    let [header, words @ ..] = words else { return None };
    let header = u16::from_le_bytes(*header);
    Some(match (header & FORM, words) {
        (SPECIAL, _) => Number { class: special(header), weight: 0, scale: 0, digits: &[] },
        (SHORT, digits) => {
            let scale = header >> SHORT_SCALE_SHIFT & (SHORT_SCALES - 1);
            Number { class: sign(header & SHORT_NEGATIVE), weight: i32::from((header << 9) as i16 >> 9), scale, digits }
        }
        (_, [weight, digits @ ..]) => {
            let weight = i16::from_le_bytes(*weight).into();
            Number { class: sign(header & LONG_NEGATIVE), weight, scale: header & LONG_SCALE, digits }
        }
        (_, []) => return None,
    })
}

pub(super) fn put<const N: usize, const M: usize>(
    shape: &DigitShape,
    stored: &[u8],
    key: &mut Buffer<N>,
    carried: &mut Buffer<M>,
) {
    let Some(Number { class, weight, scale, digits }) = number(stored) else { return };
    shape.put_numeric(Decimal { class, weight }, digits, key);
    if class.has_digits() {
        put_count(scale.into(), carried);
    }
}

fn sign(bit: u16) -> DecimalClass {
    if bit == 0 { DecimalClass::Positive } else { DecimalClass::Negative }
}

fn special(header: u16) -> DecimalClass {
    match header & SPECIAL_VALUE {
        INFINITY => DecimalClass::PositiveInfinity,
        NEGATIVE_INFINITY => DecimalClass::NegativeInfinity,
        _ => DecimalClass::NaN,
    }
}

/// Bytes before the digits in the short and in the long form.
const SHORT_START: usize = 2;
const LONG_START: usize = 4;

/// The most bytes that a number at the front of `key` has.
pub(super) fn most(key: &[u8]) -> usize {
    LONG_START + key.len()
}

/// Makes the digit at the front of `key` a number as the server has it, with a length in front, and says how many bytes the
/// digit had. None if it is not one of the common kind; then the bytes are of no use.
#[inline]
pub(super) fn unfold<'k>(shape: &DigitShape, key: &'k mut [u8], carried: &mut &[u8]) -> Option<(&'k [u8], usize)> {
    let (decimal, count, length) = shape.unfold_numeric(key)?;
    let scale = u16::try_from(take_count(carried)?).ok()?;
    let header = short(&decimal, scale).filter(|_| SHORT_START + 2 * count <= MOST_SHORT)?;
    let end = DigitShape::NUMBER + 2 * count;
    let number = &mut key[DigitShape::NUMBER - SHORT_START - 1..end];
    number[0] = short_header(SHORT_START + 2 * count);
    number[1..=SHORT_START].copy_from_slice(&header.to_le_bytes());
    Some((number, length))
}

/// The header of the short form, if a number has one.
#[inline]
fn short(decimal: &Decimal, scale: u16) -> Option<u16> {
    let sign = if decimal.class == DecimalClass::Negative { SHORT_NEGATIVE } else { 0 };
    let header = SHORT | sign | scale << SHORT_SCALE_SHIFT | decimal.weight as u16 & SHORT_WEIGHT;
    (scale < SHORT_SCALES && SHORT_WEIGHTS.contains(&decimal.weight)).then_some(header)
}

/// The display scale that shows all of the number at the front of `key`, and nothing more. None if it is none.
pub(super) fn least_scale(shape: &DigitShape, mut key: &[u8]) -> Option<u32> {
    let mut digits = [[0; 2]; MOST_KEY / 2];
    let (decimal, count) = shape.take_numeric(&mut key, &mut digits)?;
    let Some(last) = count.checked_sub(1) else { return Some(0) };
    let mut last_digit = u16::from_ne_bytes(digits[last]);
    let mut scale = 4 * (last as i32 - decimal.weight);
    while last_digit > 0 && last_digit.is_multiple_of(10) {
        (last_digit, scale) = (last_digit / 10, scale - 1);
    }
    Some(scale.clamp(0, LONG_SCALE.into()) as u32)
}

pub(super) fn get(shape: &DigitShape, key: &mut &[u8], carried: &mut &[u8], out: &mut [u8]) -> Option<usize> {
    let (decimal, count) = shape.take_numeric(key, out[SHORT_START..].as_chunks_mut::<2>().0)?;
    let end = SHORT_START + 2 * count;
    let word = |out: &mut [u8], at: usize, word: u16| out[at..at + 2].copy_from_slice(&word.to_le_bytes());
    let negative = decimal.class == DecimalClass::Negative;
    let special = match decimal.class {
        DecimalClass::NaN => Some(NAN),
        DecimalClass::PositiveInfinity => Some(INFINITY),
        DecimalClass::NegativeInfinity => Some(NEGATIVE_INFINITY),
        _ => None,
    };
    if let Some(header) = special {
        word(out, 0, header);
        return Some(end);
    }
    let scale = u16::try_from(take_count(carried)?).ok().filter(|scale| *scale <= LONG_SCALE)?;
    if let Some(header) = short(&decimal, scale) {
        word(out, 0, header);
        return Some(end);
    }
    out.copy_within(SHORT_START..end, LONG_START);
    word(out, 0, scale | if negative { LONG_NEGATIVE } else { 0 });
    word(out, 2, decimal.weight as u16);
    Some(end + LONG_START - SHORT_START)
}
