//! Keys that do not fit a lane: byte strings made of the columns' [`digit`](super::digit)s.
//!
//! A key has a *normal* part, which is compared byte by byte, and from the first column on whose order only a function
//! knows (an *opaque* one) a *value* part, which is compared digit by digit. The normal part includes the marker and
//! the prefix of that column. A normal part that ends counts as going on with zero bytes, so zeros at its end need not
//! be stored; no two keys differ in them alone, because digits delimit themselves.

mod owned;
mod place;
mod stored;

use core::cmp::Ordering;

use super::digits::{DigitKind, DigitShape};
use super::lanes::KeyShape;
use crate::format::{PAGE_SIZE, Position};

pub use owned::{KeyBuffer, OwnedKey};
pub use place::BytesKey;
pub(crate) use stored::front_order;
pub use stored::{Stored, front_length, word_at};

/// Bytes of a lane that is a prefix.
pub const HEAD: usize = 8;
/// The most bytes all digits of a key may take: two fences and two entries of as much fit a page.
pub const MOST_KEY: usize = if PAGE_SIZE < 8192 { 776 } else { 1800 };
/// What the normal and the value part have in common, at most: a marker and a prefix.
const OVERLAP: usize = 40;
/// The most bytes the digits of a place to be looked for may take: some of a key's, then those of what is looked for.
const MOST_PLACE: usize = 2 * MOST_KEY;
/// The most bytes of a key as its two parts, with what a fence may be longer than the keys around it.
pub const MOST_PARTS: usize = MOST_KEY + OVERLAP;

/// The columns of an index whose keys are byte strings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BytesShape {
    digits: [DigitShape; KeyShape::MAX_COLUMNS],
    count: u8,
    /// The first opaque column, or the number of columns.
    opaque_from: u8,
    /// Whether entries have bytes behind the normal part.
    carries: bool,
}

impl BytesShape {
    /// Bytes of a column in [`to_bytes`](Self::to_bytes).
    pub const COLUMN_BYTES: usize = DigitShape::BYTES;

    /// Bytes of the longest digit of fixed width, its marker included; one more than that.
    const WIDEST: usize = 18;

    /// How many zeros a key cut short is taken to go on with: enough for a digit of fixed width in every column.
    pub fn padding(&self) -> usize {
        Self::WIDEST * self.count as usize
    }

    /// The shape of an index on these columns. `carries`: entries have bytes that are no part of the key, to get values
    /// back from or of columns that are only included. None if there are no columns, or too many.
    pub fn new(digits: &[DigitShape], carries: bool) -> Option<BytesShape> {
        let filler = *digits.first()?;
        let mut shape = BytesShape {
            digits: [filler; KeyShape::MAX_COLUMNS],
            count: digits.len() as u8,
            opaque_from: digits.iter().position(DigitShape::is_opaque).unwrap_or(digits.len()) as u8,
            carries: carries || digits.iter().any(DigitShape::is_opaque),
        };
        shape.digits.get_mut(..digits.len())?.copy_from_slice(digits);
        Some(shape)
    }

    /// Whether keys that were made as `stored` says are read as this says, too.
    pub fn reads(&self, stored: &BytesShape) -> bool {
        let (ours, theirs) = (self.digits(), stored.digits());
        self.carries == stored.carries
            && ours.len() == theirs.len()
            && ours.iter().zip(theirs).all(|(ours, theirs)| ours.reads(theirs))
    }

    /// The columns.
    pub fn digits(&self) -> &[DigitShape] {
        &self.digits[..self.count as usize]
    }

    /// The first opaque column, or the number of columns.
    pub fn opaque_from(&self) -> usize {
        self.opaque_from as usize
    }

    /// Whether some column's order is only known to a function.
    pub fn is_opaque(&self) -> bool {
        self.opaque_from < self.count
    }

    /// Whether entries have bytes behind the normal part.
    pub fn has_payload(&self) -> bool {
        self.carries
    }

    /// The parts of a key, or of a place, given by digits. The value part begins with its first column's digit less the
    /// prefix; a place among all values of that column has none.
    pub fn parts<'d>(&self, digits: &'d [u8]) -> Parts<'d> {
        if !self.is_opaque() {
            return Parts { normal: digits, marker: &[], value: &[] };
        }
        let mut at = 0;
        for digit in &self.digits()[..self.opaque_from as usize] {
            at += digit.length(&digits[at..]).unwrap_or(digits.len() - at);
        }
        let Some(digit) = self.digits().get(self.opaque_from as usize).filter(|_| at < digits.len()) else {
            return Parts { normal: &digits[..at], marker: &[], value: &[] };
        };
        let (normal, value) = digits.split_at((at + normal_length(digit, &digits[at..])).min(digits.len()));
        let is_value = digits[at] == DigitShape::VALUE;
        let marker = if is_value && value.is_empty() { &[] } else { &digits[at..=at] };
        Parts { normal, marker, value }
    }

    /// How many bytes of the first opaque column's digit at the front of `digits` belong to the normal part.
    pub fn marker_and_prefix(&self, digits: &[u8]) -> usize {
        self.digits().get(self.opaque_from as usize).map_or(0, |digit| normal_length(digit, digits))
    }

    /// How a column's digit is stored in the value part: that of the first without its prefix, which the normal part
    /// has.
    fn value_digit(&self, column: usize) -> DigitShape {
        let digit = self.digits[column];
        if column == self.opaque_from as usize { digit.without_prefix() } else { digit }
    }

    /// Bytes of the digits of the first columns at the front of [a whole key's](Self::join). None if there are fewer.
    pub fn front_length(&self, digits: &[u8], columns: usize) -> Option<usize> {
        let shapes = self.digits().get(..columns)?;
        shapes.iter().try_fold(0, |at, shape| Some(at + shape.length(digits.get(at..)?)?))
    }

    /// Bytes of the value part at the front of an entry's bytes behind its normal part.
    #[inline]
    pub fn value_length(&self, payload: &[u8]) -> Option<usize> {
        if self.is_opaque() { self.opaque_length(payload) } else { Some(0) }
    }

    fn opaque_length(&self, payload: &[u8]) -> Option<usize> {
        let mut at = 0;
        for column in self.opaque_from as usize..self.count as usize {
            at += self.value_digit(column).length(payload.get(at..)?)?;
        }
        Some(at)
    }

    /// The digits of a whole key, put together again in `buffer`. None if they are damaged, or longer than any key.
    pub fn join<'o>(&self, stored: &Stored<'_>, buffer: &'o mut KeyBuffer) -> Option<&'o [u8]> {
        let normal = buffer.normal(stored, self.padding())?;
        let mut at = 0;
        for digit in &self.digits()[..self.opaque_from as usize] {
            at += digit.length(&normal[at..])?;
        }
        if let Some(digit) = self.digits().get(self.opaque_from as usize) {
            at += normal_length(digit, &normal[at..]);
            let value = stored.payload.get(1..self.value_length(stored.payload)?)?;
            if at > normal.len() || at + value.len() > KeyBuffer::SIZE {
                return None;
            }
            buffer.write(at, value);
            at += value.len();
        }
        Some(buffer.front(at))
    }

    /// What the digits of an entry's columns can be taken from. None if it is damaged.
    #[inline]
    pub fn open<'e>(&self, stored: &Stored<'e>, buffer: &'e mut KeyBuffer) -> Option<Opened<'e>> {
        let (value, carried) = stored.payload.split_at_checked(self.value_length(stored.payload)?)?;
        let normal: &[u8] = if self.opaque_from == 0 { &[] } else { buffer.normal(stored, self.padding())? };
        Some(Opened { normal, value, carried })
    }

    /// The digits before the first opaque one in one piece of memory that may be changed, then zeros. None if there is no room
    /// for them.
    #[inline]
    pub fn normal<'e>(&self, stored: &Stored<'_>, buffer: &'e mut KeyBuffer) -> Option<&'e mut [u8]> {
        buffer.normal(stored, self.padding())
    }

    /// Writes the columns to the front of `out`.
    ///
    /// # Panics
    /// If `out` is too short.
    pub fn to_bytes(&self, out: &mut [u8]) {
        for (stored, digit) in out.chunks_exact_mut(Self::COLUMN_BYTES).zip(self.digits()) {
            stored.copy_from_slice(&digit.to_bytes());
        }
    }

    /// The shape whose `n` columns are at the front of `bytes`, if they make sense.
    pub fn from_bytes(bytes: &[u8], n: usize, carries: bool) -> Option<BytesShape> {
        let (stored, _) = bytes.as_chunks::<{ Self::COLUMN_BYTES }>();
        let mut digits = [DigitShape::from_bytes(*stored.first()?)?; KeyShape::MAX_COLUMNS];
        for (digit, stored) in digits.get_mut(..n)?.iter_mut().zip(stored.get(..n)?) {
            *digit = DigitShape::from_bytes(*stored)?;
        }
        BytesShape::new(&digits[..n], carries)
    }
}

/// The parts of a key given by digits.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'d> {
    /// The normal part.
    pub normal: &'d [u8],
    /// The value part's first byte, if it has any.
    pub marker: &'d [u8],
    /// The rest of the value part.
    pub value: &'d [u8],
}

/// An entry's bytes, to take the digits of its columns off the fronts.
#[derive(Clone, Copy, Debug)]
pub struct Opened<'e> {
    /// The digits before the first opaque one, then what is of no use.
    pub normal: &'e [u8],
    /// The other digits, that of the first opaque column without its prefix.
    pub value: &'e [u8],
    /// What else the entry carries.
    pub carried: &'e [u8],
}

/// Bytes of a hint, at most. Texts tie in as many of their collation's sort keys only if they are nearly the same.
pub const MOST_HINT: usize = 64;

/// Compares the values of opaque columns.
pub trait CompareValues {
    /// How value `a` of `column`, of a key looked for, is ordered against the stored value `b`, in index order (DESC is
    /// taken care of here). Both are as their digits store them, behind marker and prefix. May leave by unwinding or
    /// jumping.
    fn compare(&self, column: usize, a: &[u8], b: &[u8]) -> Ordering;

    /// Fills `out`, of [`MOST_HINT`] bytes at most, with bytes whose order, as that of `memcmp`, is hoped to be that of the values of `column`, in index
    /// order: a *hint*. Returns how many it has, 0 if there are none for the column. Whatever it is, what is found or
    /// sorted by it is proved by [`compare`](CompareValues::compare). May leave by unwinding or jumping.
    fn hint(&self, _column: usize, _value: &[u8], _out: &mut [u8]) -> usize {
        0
    }

    /// Whether it takes so long to compare values of `column` that guessing by their brief hints first is worth it.
    fn is_costly(&self, _column: usize) -> bool {
        true
    }

    /// Whether values of `column` have brief hints, most of them.
    fn has_brief_hints(&self, _column: usize) -> bool {
        false
    }

    /// A hint of 64 bits that costs next to nothing, of what a value has behind its first `skip` bytes: for marks, and
    /// for guesses in a page. 0 if there is none.
    fn brief_hint(&self, _column: usize, _value: &[u8], _skip: usize) -> u64 {
        0
    }

    /// How value `a`, whose brief hint is given, may be ordered against `b`, by what they have behind their first `skip`
    /// bytes.
    fn guess(&self, column: usize, (_a, hint): (&[u8], u64), b: &[u8], skip: usize) -> Ordering {
        hint.cmp(&self.brief_hint(column, b, skip))
    }

    /// A hint that goes on twice as far, of what a value has behind what its prefix in the normal part tells.
    fn long_hint(&self, column: usize, value: &[u8]) -> u128 {
        u128::from(self.brief_hint(column, value, 0)) << u64::BITS
    }

    /// How many bytes two values have in common at their fronts, as [`brief_hint`](CompareValues::brief_hint) counts.
    fn common(&self, _column: usize, _a: &[u8], _b: &[u8]) -> usize {
        0
    }

    /// Hears of a place in a page that was guessed by brief hints, and whether it was right.
    fn note_guess(&self, _is_proved: bool) {}

    /// Where in the page at an address a place with this value part was found last, if that is remembered. It may be
    /// another page by now, and another place.
    fn remembered(&self, _value: &[u8], _page: usize) -> Option<Position> {
        None
    }

    /// Hears where it was found.
    fn note_place(&self, _value: &[u8], _page: usize, _place: Position) {}
}

/// How keys with opaque columns are compared.
#[derive(Clone, Copy)]
pub struct BytesOrder<'o> {
    /// The columns.
    pub shape: &'o BytesShape,
    /// The opaque ones' functions.
    pub columns: &'o dyn CompareValues,
}

impl BytesOrder<'_> {
    /// Fills `out` with the hint of the first opaque column's value at the front of an entry's bytes behind its normal
    /// part, and returns how many bytes that has.
    pub fn hint(&self, payload: &[u8], out: &mut [u8]) -> usize {
        self.first_value(payload).map_or(0, |(column, value)| self.columns.hint(column, value, out).min(out.len()))
    }

    /// The same in 64 bits, of what the value has behind so many bytes.
    #[inline]
    pub fn brief_hint(&self, payload: &[u8], skip: usize) -> u64 {
        self.first_value(payload).map_or(0, |(column, value)| self.columns.brief_hint(column, value, skip))
    }

    /// How the first opaque column's value of a place, and its [brief hint](Self::brief_hint), may be ordered against that at
    /// the front of an entry's bytes behind its normal part.
    fn guess(&self, (value, hint): (&[u8], u64), payload: &[u8], skip: usize) -> Ordering {
        match (self.first_value(value), self.first_value(payload)) {
            (Some((column, a)), Some((_, b))) => self.columns.guess(column, (a, hint), b, skip),
            (_, None) => hint.cmp(&0),
            _ => Ordering::Equal,
        }
    }

    /// Whether comparing values of the first opaque column is [costly](CompareValues::is_costly).
    #[inline]
    pub(crate) fn is_costly(&self) -> bool {
        self.columns.is_costly(self.shape.opaque_from())
    }

    /// Whether places of values are guessed by brief hints.
    #[inline]
    pub(crate) fn guesses(&self) -> bool {
        self.is_costly() && self.columns.has_brief_hints(self.shape.opaque_from())
    }

    /// The [long hint](CompareValues::long_hint) of the same value.
    #[inline]
    pub fn long_hint(&self, payload: &[u8]) -> u128 {
        self.first_value(payload).map_or(0, |(column, value)| self.columns.long_hint(column, value))
    }

    /// How many bytes the first opaque column's values have in common at their fronts.
    pub fn common(&self, a: &[u8], b: &[u8]) -> usize {
        match (self.first_value(a), self.first_value(b)) {
            (Some((column, a)), Some((_, b))) => self.columns.common(column, a, b),
            _ => 0,
        }
    }

    /// The first opaque column and its value, unless that is NULL or damaged.
    fn first_value<'p>(&self, payload: &'p [u8]) -> Option<(usize, &'p [u8])> {
        let column = self.shape.opaque_from();
        let digit = self.shape.value_digit(column);
        let length = digit.length(payload).filter(|_| payload[0] == DigitShape::VALUE)?;
        Some((column, &payload[normal_length(&digit, payload)..length]))
    }
}

/// How much of an opaque column's digit belongs to the normal part: its marker, and a value's prefix.
fn normal_length(digit: &DigitShape, bytes: &[u8]) -> usize {
    match digit.kind {
        DigitKind::Opaque { prefix, .. } if bytes.first() == Some(&DigitShape::VALUE) => 1 + prefix as usize,
        _ => 1,
    }
}

#[cfg(test)]
mod tests;
