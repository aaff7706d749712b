//! Keys that do not fit a lane: byte strings made of the columns' [`digit`](super::digit)s.
//!
//! A key has a *normal* part, which is compared byte by byte, and from the first column on whose order only a function
//! knows (an *opaque* one) a *value* part, which is compared digit by digit. The normal part includes the marker and
//! the prefix of that column. A normal part that ends counts as going on with zero bytes, so zeros at its end need not
//! be stored; no two keys differ in them alone, because digits delimit themselves.

use core::cmp::Ordering;
use core::mem::MaybeUninit;

use super::digits::{DigitKind, DigitShape};
use super::lanes::KeyShape;
use crate::format::{PAGE_SIZE, Position, Tid};

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

/// A place in key order to be looked for: a whole key, or one of a few columns, before or behind all that begin so.
#[derive(Clone, Copy)]
pub struct BytesKey<'k> {
    /// The normal part, or as much of it as the place has.
    pub normal: &'k [u8],
    /// The value part, if there are opaque columns and the place has any.
    pub value: &'k [u8],
    /// Behind all keys that begin so, rather than before them.
    pub above: bool,
    /// Breaks the ties of whole keys.
    pub tid: Tid,
    /// Present if there are opaque columns.
    pub order: Option<BytesOrder<'k>>,
}

/// The key of an entry, or a fence, as a page has it. What is not there of the normal part is zero.
#[derive(Clone, Copy, Debug)]
pub struct Stored<'a> {
    /// What all keys of the page begin with.
    pub prefix: &'a [u8],
    /// The bytes after it: the lane.
    pub head: u64,
    /// The bytes after these.
    pub suffix: &'a [u8],
    /// The value part, and what else the entry carries.
    pub payload: &'a [u8],
}

impl<'a> Stored<'a> {
    /// A key in one piece.
    pub fn whole(normal: &'a [u8], payload: &'a [u8]) -> Self {
        Stored { prefix: normal, head: 0, suffix: &[], payload }
    }

    /// The `at`-th byte of the normal part.
    pub fn byte(&self, at: usize) -> u8 {
        match at.checked_sub(self.prefix.len()) {
            None => self.prefix[at],
            Some(at) if at < HEAD => self.head.to_be_bytes()[at],
            Some(at) => self.suffix.get(at - HEAD).copied().unwrap_or(0),
        }
    }

    /// Bytes of the normal part, less the zeros at its end.
    pub fn normal_length(&self) -> usize {
        let trimmed = |bytes: &[u8]| bytes.iter().rposition(|&byte| byte != 0).map(|last| last + 1);
        let behind = || trimmed(self.suffix).map(|length| HEAD + length);
        let head = || trimmed(&self.head.to_be_bytes());
        match behind().or_else(head) {
            Some(length) => self.prefix.len() + length,
            None => trimmed(self.prefix).unwrap_or(0),
        }
    }

    /// Copies the normal part, less the zeros at its end, and says how long it is; None if `out` is too short.
    pub fn copy_normal(&self, out: &mut [u8]) -> Option<usize> {
        let length = self.normal_length();
        self.copy_from(0, out.get_mut(..length)?);
        Some(length)
    }

    /// Fills `out` with the normal part's bytes from `from` on.
    #[inline]
    pub fn copy_from(&self, from: usize, out: &mut [u8]) {
        match self.prefix.get(from..from + out.len()) {
            Some(piece) => out.copy_from_slice(piece),
            None => self.copy_pieces(from, out),
        }
    }

    fn copy_pieces(&self, from: usize, out: &mut [u8]) {
        let (mut begin, mut filled) = (0, 0);
        for piece in [self.prefix, &self.head.to_be_bytes(), self.suffix] {
            let wanted = &piece[(from + filled).saturating_sub(begin).min(piece.len())..];
            let length = wanted.len().min(out.len() - filled);
            out[filled..filled + length].copy_from_slice(&wanted[..length]);
            filled += length;
            begin += piece.len();
        }
        out[filled..].fill(0);
    }

    /// How many bytes the keys have in common at the front of their normal parts; `usize::MAX` if all.
    pub fn common(&self, other: &Stored<'_>) -> usize {
        if self.is_in_place_of(other) {
            return usize::MAX;
        }
        let whole = self.prefix.len().min(other.prefix.len());
        let same = front_length(&self.prefix[..whole], &other.prefix[..whole]);
        if same < whole {
            return same;
        }
        let length = self.normal_length().max(other.normal_length());
        for at in (whole..length).step_by(HEAD) {
            let differing = self.word(at) ^ other.word(at);
            if differing != 0 {
                return at + differing.leading_zeros() as usize / 8;
            }
        }
        usize::MAX
    }

    /// The bytes of the normal part from `at` on, as many as a lane has.
    #[inline]
    pub fn word(&self, at: usize) -> u64 {
        match self.prefix.len().cmp(&at) {
            Ordering::Equal => self.head,
            _ if self.head == 0 && self.suffix.is_empty() => word_at(self.prefix, at),
            _ => self.word_of_pieces(at),
        }
    }

    fn word_of_pieces(&self, at: usize) -> u64 {
        let mut bytes = [0; HEAD];
        self.copy_from(at, &mut bytes);
        u64::from_be_bytes(bytes)
    }

    /// Whether both are the same bytes.
    pub fn is_same(&self, other: &Stored<'_>) -> bool {
        self.is_in_place_of(other) || self.payload == other.payload && self.common(other) == usize::MAX
    }

    /// Whether both are the bytes of one entry, or of entries that share them.
    #[inline]
    fn is_in_place_of(&self, other: &Stored<'_>) -> bool {
        let is_at = |a: &[u8], b: &[u8]| core::ptr::eq(a, b);
        let is_head = self.head == other.head && is_at(self.prefix, other.prefix);
        is_head && is_at(self.suffix, other.suffix) && is_at(self.payload, other.payload)
    }
}

/// The bytes of a string from `at` on, as many as a word has, and zeros behind its end.
// Not put together in memory: a word that is read from where bytes were just written is waited for.
#[inline]
pub fn word_at(bytes: &[u8], at: usize) -> u64 {
    if let Some(word) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        return u64::from_be_bytes(*word);
    }
    let rest = bytes.len().saturating_sub(at);
    let last = match bytes.last_chunk() {
        Some(last) => u64::from_be_bytes(*last),
        None => bytes.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    };
    last.unbounded_shl(8 * (HEAD - rest) as u32)
}

/// How many bytes two strings of one length have in common at their fronts.
#[inline]
pub fn front_length(a: &[u8], b: &[u8]) -> usize {
    let (words, rest) = a.as_chunks::<HEAD>();
    let (others, others_rest) = b.as_chunks::<HEAD>();
    for (number, (word, other)) in words.iter().zip(others).enumerate() {
        let differing = u64::from_be_bytes(*word) ^ u64::from_be_bytes(*other);
        if differing != 0 {
            return number * HEAD + differing.leading_zeros() as usize / 8;
        }
    }
    a.len() - rest.len() + rest.iter().zip(others_rest).take_while(|(a, b)| a == b).count()
}

/// How two strings are ordered as far as the shorter one goes, and how far that is.
#[inline]
pub(crate) fn front_order(a: &[u8], b: &[u8]) -> (Ordering, usize) {
    let length = a.len().min(b.len());
    // A vectorised memcmp loads from an empty string's address under an empty mask: where nothing is mapped there, as
    // behind Rust's empty slices, that takes the processor as long as hundreds of instructions.
    (if length == 0 { Ordering::Equal } else { a[..length].cmp(&b[..length]) }, length)
}

/// How much of an opaque column's digit belongs to the normal part: its marker, and a value's prefix.
fn normal_length(digit: &DigitShape, bytes: &[u8]) -> usize {
    match digit.kind {
        DigitKind::Opaque { prefix, .. } if bytes.first() == Some(&DigitShape::VALUE) => 1 + prefix as usize,
        _ => 1,
    }
}

impl<'k> BytesKey<'k> {
    /// A place before all keys.
    pub fn first(order: Option<BytesOrder<'k>>) -> Self {
        BytesKey { normal: &[], value: &[], above: false, tid: Tid::MIN, order }
    }

    /// Whether the place is behind all keys that begin with its normal part.
    #[inline]
    pub(crate) fn is_behind_normal(&self) -> bool {
        self.above && self.value.is_empty()
    }

    /// How the place is ordered against an entry or a fence.
    pub fn compare(&self, stored: &Stored<'_>, tid: Tid) -> Ordering {
        let mut left = self.normal;
        for piece in [stored.prefix, &stored.head.to_be_bytes(), stored.suffix] {
            let (order, length) = front_order(left, piece);
            if order.is_ne() {
                return order;
            }
            left = &left[length..];
        }
        if left.iter().any(|&byte| byte != 0) {
            return Ordering::Greater;
        }
        if self.is_behind_normal() {
            return Ordering::Greater;
        }
        if stored.normal_length() > self.normal.len() {
            return Ordering::Less;
        }
        self.compare_value(stored.payload, tid)
    }

    /// How the place is ordered against an entry with the same lane in a page: `suffix` is what the entry has behind
    /// the lane, `skip` how much of the normal part prefix and lane are.
    #[inline]
    pub fn compare_suffix(&self, skip: usize, suffix: &[u8], payload: &[u8], tid: Tid) -> Ordering {
        let left = self.normal.get(skip..).unwrap_or(&[]);
        let (order, length) = front_order(left, suffix);
        if order.is_ne() {
            return order;
        }
        if left[length..].iter().any(|&byte| byte != 0) {
            return Ordering::Greater;
        }
        if self.is_behind_normal() {
            return Ordering::Greater;
        }
        if suffix[length..].iter().any(|&byte| byte != 0) {
            return Ordering::Less;
        }
        self.compare_value(payload, tid)
    }

    /// As [`compare_suffix`](BytesKey::compare_suffix), but where values decide it is guessed, as far as that tells them
    /// apart: `hint` is the place's brief one, of what values have behind `hidden` bytes.
    pub(crate) fn guess_suffix(
        &self,
        skip: usize,
        (suffix, payload): (&[u8], &[u8]),
        tid: Tid,
        (hint, hidden): (u64, usize),
    ) -> Ordering {
        let left = self.normal.get(skip..).unwrap_or(&[]);
        let is_tied = || left.len() == suffix.len() && front_order(left, suffix).0.is_eq();
        let Some(order) = self.order.filter(|_| is_tied()) else {
            return self.compare_suffix(skip, suffix, payload, tid);
        };
        let guessed = order.guess((self.value, hint), payload, hidden);
        guessed.then_with(|| self.compare_suffix(skip, suffix, payload, tid))
    }

    /// How the place is ordered against an entry whose normal part ties with all that the place has of one.
    pub(crate) fn compare_value(&self, payload: &[u8], tid: Tid) -> Ordering {
        let tie = || if self.above { Ordering::Greater } else { self.tid.cmp(&tid.position()) };
        let Some(order) = self.order.filter(|_| self.value != payload) else { return tie() };
        let (mut a, mut b) = (self.value, payload);
        for column in order.shape.opaque_from as usize..order.shape.count as usize {
            if a.is_empty() {
                return if self.above {
                    Ordering::Greater
                } else if b.is_empty() {
                    self.tid.cmp(&tid.position())
                } else {
                    Ordering::Less
                };
            }
            let digit = &order.shape.value_digit(column);
            // A fence has as many digits as it takes. What cannot be one, and is noticed when it is read, has a place,
            // too: else a scan might not get past it.
            let Some(b_length) = digit.length(b) else { return a.cmp(b).then_with(tie) };
            let Some(a_length) = digit.length(a) else {
                let telling = if digit.is_opaque() { normal_length(digit, b).min(b_length) } else { b_length };
                let common = a.len().min(telling);
                let side = if self.above { Ordering::Greater } else { Ordering::Less };
                return a[..common].cmp(&b[..common]).then(side);
            };
            let ordered = if !digit.is_opaque() || a[0] != DigitShape::VALUE || b[0] != DigitShape::VALUE {
                a[..a_length].cmp(&b[..b_length])
            } else {
                let front = normal_length(digit, a);
                order.columns.compare(column, &a[front..a_length], &b[front..b_length])
            };
            if ordered.is_ne() {
                return ordered;
            }
            (a, b) = (&a[a_length..], &b[b_length..]);
        }
        tie()
    }

    /// How many bytes of the value part it takes to tell the place, a whole key, from this entry, whose normal part is
    /// the same: whole digits. None if all are equal.
    pub fn telling_value(&self, stored: &Stored<'_>) -> Option<usize> {
        let order = self.order?;
        let (mut at, mut b) = (0, stored.payload);
        for column in order.shape.opaque_from as usize..order.shape.count as usize {
            let digit = &order.shape.value_digit(column);
            let a = self.value.get(at..)?;
            let (a_length, b_length) = (digit.length(a)?, digit.length(b)?);
            let values = a[0] == DigitShape::VALUE && b[0] == DigitShape::VALUE;
            at += a_length;
            let differs = if digit.is_opaque() && values {
                let front = normal_length(digit, a);
                order.columns.compare(column, &a[front..a_length], &b[front..b_length]).is_ne()
            } else {
                a[..a_length] != b[..b_length]
            };
            if differs {
                return Some(at);
            }
            b = &b[b_length..];
        }
        None
    }
}

/// A place in key order with memory of its own. Plain memory; copying one copies only what is in use where
/// [`assign`](OwnedKey::assign) does it.
#[derive(Clone, Copy)]
pub struct OwnedKey {
    normal: u16,
    value: u16,
    above: bool,
    tid: Tid,
    buffer: KeyBuffer,
}

/// Bytes of which so many at the front have been written: making one costs nothing.
#[derive(Clone, Copy)]
pub struct KeyBuffer {
    written: u16,
    bytes: [MaybeUninit<u8>; KeyBuffer::SIZE],
}

impl Default for KeyBuffer {
    fn default() -> Self {
        KeyBuffer::new()
    }
}

impl KeyBuffer {
    /// As much as a key's two parts can have, and the zeros a key cut short is taken to go on with.
    pub const SIZE: usize = MOST_PLACE + OVERLAP + PADDING;

    /// Nothing written.
    #[inline(always)]
    pub const fn new() -> KeyBuffer {
        // Repeating what is not initialized writes zeroes.
        // SAFETY: an array of bytes that need not be initialized needs not be, either.
        KeyBuffer { written: 0, bytes: unsafe { MaybeUninit::uninit().assume_init() } }
    }

    /// Zeros at the front, to be written over.
    ///
    /// # Panics
    /// If there is no room for so many.
    #[inline]
    pub fn zeroed(&mut self, length: usize) -> &mut [u8] {
        let front = &mut self.bytes[..length];
        front.fill(MaybeUninit::new(0));
        self.written = self.written.max(length as u16);
        // SAFETY: just written.
        unsafe { front.assume_init_mut() }
    }

    /// A normal part in one piece, then zeros. None if there is no room for it.
    #[inline]
    fn normal(&mut self, stored: &Stored<'_>, zeros: usize) -> Option<&mut [u8]> {
        let at = self.join(stored)?;
        // The ordinary case takes no call.
        let (few, more) = self.bytes.get_mut(at..)?.split_at_mut_checked(ZEROS)?;
        few.fill(MaybeUninit::new(0));
        if zeros > ZEROS {
            more.get_mut(..zeros - ZEROS)?.fill(MaybeUninit::new(0));
        }
        self.written = self.written.max((at + zeros.max(ZEROS)) as u16);
        // SAFETY: just written.
        Some(unsafe { self.bytes[..at + zeros].assume_init_mut() })
    }

    /// Writes a normal part in one piece to the front, and says how many bytes it has. None if there is no room for it.
    #[inline(always)]
    fn join(&mut self, stored: &Stored<'_>) -> Option<usize> {
        let mut at = 0;
        for piece in [stored.prefix, &stored.head.to_be_bytes(), stored.suffix] {
            copy_few(piece, self.bytes.get_mut(at..at + piece.len())?);
            at += piece.len();
        }
        Some(at)
    }

    /// A normal part in one piece, less the zeros at its end, if these are in its last lane. None if they may be more.
    #[inline(always)]
    pub fn unpadded(&mut self, stored: &Stored<'_>) -> Option<&mut [u8]> {
        let zeros = if stored.suffix.is_empty() { stored.head.trailing_zeros() as usize / 8 } else { 0 };
        let length = self.join(stored).filter(|_| zeros < HEAD)? - zeros;
        self.written = self.written.max(length as u16);
        // SAFETY: just written.
        Some(unsafe { self.bytes[..length].assume_init_mut() })
    }

    /// Writes bytes at a place, all before which have been written.
    ///
    /// # Panics
    /// If they have not, or if there is no room.
    #[inline]
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        assert!(at <= self.written.into(), "bytes are left out");
        self.bytes[at..at + bytes.len()].write_copy_of_slice(bytes);
        self.written = self.written.max((at + bytes.len()) as u16);
    }

    /// The first bytes, or as many of them as have been written.
    #[inline]
    pub fn front(&self, length: usize) -> &[u8] {
        let front = &self.bytes[..length.min(self.written.into())];
        // SAFETY: `written` is raised only where all bytes up to there have been written.
        unsafe { front.assume_init_ref() }
    }
}

/// Copies bytes into as many, few of them without a call.
#[inline(always)]
fn copy_few(from: &[u8], to: &mut [MaybeUninit<u8>]) {
    /// Copies `N` to `2 N` bytes as two pieces, which overlap where they are fewer.
    #[inline(always)]
    fn ends<const N: usize>(from: &[u8], to: &mut [MaybeUninit<u8>]) -> Option<()> {
        let (front, back) = (from.first_chunk::<N>()?, from.last_chunk::<N>()?);
        *to.first_chunk_mut::<N>()? = front.map(MaybeUninit::new);
        *to.last_chunk_mut::<N>()? = back.map(MaybeUninit::new);
        Some(())
    }
    let copied = match from.len() {
        0 => Some(()),
        1 => ends::<1>(from, to),
        2..=3 => ends::<2>(from, to),
        4..=7 => ends::<4>(from, to),
        8..=16 => ends::<8>(from, to),
        17..=32 => ends::<16>(from, to),
        _ => None,
    };
    if copied.is_none() {
        to.write_copy_of_slice(from);
    }
}

/// Zeros that a key cut short is taken to go on with, at most: enough for a digit of fixed width in every column.
const PADDING: usize = (BytesShape::WIDEST * KeyShape::MAX_COLUMNS).next_multiple_of(ZEROS);
/// Zeros that are always written.
const ZEROS: usize = 64;

impl core::fmt::Debug for OwnedKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:?}|{:?} {} {:?}", self.normal(), self.value(), self.above, self.tid)
    }
}

impl Default for OwnedKey {
    fn default() -> Self {
        OwnedKey::new()
    }
}

impl OwnedKey {
    /// The place before all keys.
    pub const FIRST: OwnedKey = OwnedKey { normal: 0, value: 0, above: false, tid: Tid::MIN, buffer: KeyBuffer::new() };
    /// The place behind all keys: no marker is as large.
    pub const LAST: OwnedKey = {
        let mut last = OwnedKey::FIRST;
        last.normal = 1;
        (last.buffer.written, last.buffer.bytes[0]) = (1, MaybeUninit::new(END_OF_KEYS));
        last
    };

    /// The place before all keys, to become another.
    #[inline(always)]
    pub fn new() -> OwnedKey {
        let mut kept = MaybeUninit::<OwnedKey>::uninit();
        // SAFETY: memory of a place's, which is one then.
        unsafe {
            OwnedKey::init(kept.as_mut_ptr());
            kept.assume_init()
        }
    }

    /// Makes it in memory that holds anything.
    ///
    /// # Safety
    /// The memory may be written.
    #[inline(always)]
    pub unsafe fn init(place: *mut OwnedKey) {
        // SAFETY: every field is written but the buffer's bytes, which need not be. Field by field, because a constant
        // would be copied with all its bytes.
        unsafe {
            (&raw mut (*place).normal).write(0);
            (&raw mut (*place).value).write(0);
            (&raw mut (*place).above).write(false);
            (&raw mut (*place).tid).write(Tid::MIN);
            (&raw mut (*place).buffer.written).write(0);
        }
    }

    /// The normal part.
    pub fn normal(&self) -> &[u8] {
        self.buffer.front(self.normal as usize)
    }

    /// The value part.
    pub fn value(&self) -> &[u8] {
        &self.buffer.front(self.normal as usize + self.value as usize)[self.normal as usize..]
    }

    /// Behind all keys that begin so, rather than before them.
    pub fn above(&self) -> bool {
        self.above
    }

    /// What breaks the ties of whole keys.
    pub fn tid(&self) -> Tid {
        self.tid
    }

    /// The place as what a page stores.
    pub fn stored(&self) -> Stored<'_> {
        Stored::whole(self.normal(), self.value())
    }

    /// The place as one to look for.
    pub fn key<'k>(&'k self, order: Option<BytesOrder<'k>>) -> BytesKey<'k> {
        BytesKey { normal: self.normal(), value: self.value(), above: self.above, tid: self.tid, order }
    }

    /// Whether both are the same place, image for image.
    pub fn is_same(&self, other: &OwnedKey) -> bool {
        (self.normal(), self.value(), self.above, self.tid) == (other.normal(), other.value(), other.above, other.tid)
    }

    /// Goes to the place right behind the key it is.
    pub fn step(&mut self) {
        self.tid = self.tid.next();
    }

    /// Becomes a copy of another.
    #[inline]
    pub fn assign(&mut self, from: &OwnedKey) {
        self.buffer.write(0, from.buffer.front(from.normal as usize + from.value as usize));
        (self.normal, self.value, self.above, self.tid) = (from.normal, from.value, from.above, from.tid);
    }

    /// Becomes the place of an entry or fence, of whose payload bytes `value` belong to its key. What does not fit is
    /// cut off, which only damage makes happen.
    pub fn keep(&mut self, stored: &Stored<'_>, value: usize, tid: Tid) {
        let normal = stored.normal_length().min(MOST_PARTS);
        self.keep_front(stored, normal);
        let value = value.min(stored.payload.len()).min(MOST_PARTS - normal);
        self.buffer.write(normal, &stored.payload[..value]);
        (self.value, self.tid) = (value as u16, tid.position());
    }

    /// Becomes the place before all keys that begin with the first `length` bytes of this one's normal part.
    pub fn keep_front(&mut self, stored: &Stored<'_>, length: usize) {
        let length = length.min(MOST_PARTS);
        stored.copy_from(0, self.buffer.zeroed(length));
        (self.normal, self.value, self.above, self.tid) = (length as u16, 0, false, Tid::MIN);
    }

    /// Becomes a place given by digits of some columns.
    pub fn set_to_place(&mut self, shape: &BytesShape, digits: &[u8], above: bool) {
        let Parts { normal, marker, value } = shape.parts(&digits[..digits.len().min(MOST_PLACE)]);
        // Zeros at the end go without saying, except where a place is behind all that begin with them.
        let trimmed = normal.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        let normal = if above { normal } else { &normal[..trimmed] };
        self.buffer.write(0, normal);
        self.buffer.write(normal.len(), marker);
        self.buffer.write(normal.len() + marker.len(), value);
        (self.normal, self.value) = (normal.len() as u16, (marker.len() + value.len()) as u16);
        (self.above, self.tid) = (above, Tid::MIN);
    }

    /// Becomes a short place behind all keys with a normal part, which begins with at least `length` bytes of that.
    pub fn raise_front(&mut self, stored: &Stored<'_>, length: usize) {
        // The byte after the last is zero.
        let at = (length..MOST_PARTS - 1).find(|&at| stored.byte(at) < u8::MAX).unwrap_or(MOST_PARTS - 1);
        self.keep_front(stored, at + 1);
        let raised = stored.byte(at).saturating_add(1);
        self.buffer.write(at, &[raised]);
    }
}

/// A first byte behind every marker.
const END_OF_KEYS: u8 = 0xFF;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::digits::{Buffer, ValueLength};
    use super::*;

    const TEXT: DigitShape = DigitShape { kind: DigitKind::Text, descending: false, nulls_first: false };
    const NUMBER: DigitShape = DigitShape { kind: DigitKind::Fixed(4), descending: false, nulls_first: true };
    const OPAQUE: DigitShape =
        DigitShape { kind: DigitKind::Opaque { prefix: 2, value: ValueLength::CString }, ..TEXT };

    /// A row of such columns, digit by digit.
    fn digits(shapes: &[DigitShape], text: &[u8], number: Option<u32>) -> Vec<Vec<u8>> {
        let digit = |shape: &DigitShape| {
            let mut digit = Buffer::<64>::new();
            match (shape.kind, number) {
                (DigitKind::Fixed(_), Some(number)) => shape.put_field(number.into(), &mut digit),
                (DigitKind::Fixed(_), None) => shape.put_null(&mut digit),
                (DigitKind::Text, _) => shape.put_text(text, &mut digit),
                _ => shape.put_opaque(&[text.len() as u8, 0], text, &mut digit),
            }
            digit.as_slice().to_vec()
        };
        shapes.iter().map(digit).collect()
    }

    proptest! {
        /// However much of it is the page's prefix, and without the zeros at its end.
        #[test]
        fn a_key_is_had_back_from_its_parts(
            shapes in prop::collection::vec(prop::sample::select(&[TEXT, NUMBER, OPAQUE][..]), 1..5),
            text in prop::collection::vec(1u8..4, 0..20),
            number in prop::option::of(prop_oneof![Just(0), Just(1 << 8), any::<u32>()]),
            prefix in 0usize..30,
        ) {
            let (shape, digits) = (BytesShape::new(&shapes, true).unwrap(), digits(&shapes, &text, number));
            let key = digits.concat();
            let parts = shape.parts(&key);
            let normal = &parts.normal[..parts.normal.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)];
            let (prefix, behind) = normal.split_at(prefix.min(normal.len()));
            let mut head = [0; HEAD];
            let (first, suffix) = behind.split_at(HEAD.min(behind.len()));
            head[..first.len()].copy_from_slice(first);
            let value = [parts.marker, parts.value].concat();
            let payload = [&value[..], b"more"].concat();
            let stored = Stored { prefix, head: u64::from_be_bytes(head), suffix, payload: &payload };

            let mut buffer = KeyBuffer::new();
            prop_assert_eq!(shape.join(&stored, &mut buffer), Some(&key[..]));
            for columns in 0..=digits.len() {
                prop_assert_eq!(shape.front_length(&key, columns), Some(digits[..columns].concat().len()));
            }
            prop_assert_eq!(shape.front_length(&key, digits.len() + 1), None);
            let opened = shape.open(&stored, &mut buffer).unwrap();
            prop_assert_eq!((opened.value, opened.carried), (&value[..], &b"more"[..]));
            let before_opaque = digits[..shape.opaque_from()].concat();
            prop_assert!(shape.opaque_from() == 0 || opened.normal.starts_with(&before_opaque));
            prop_assert!(shape.normal(&stored, &mut buffer).unwrap().starts_with(&before_opaque));
            let unpadded = buffer.unpadded(&stored).map(|key| key.to_vec());
            prop_assert!(unpadded.as_deref() == Some(normal) || stored.head == 0 && unpadded.is_none());
        }
    }

    #[test]
    fn what_no_key_has_is_refused() {
        let (shape, long) = (BytesShape::new(&[NUMBER, OPAQUE], true).unwrap(), [1; 2 * MOST_PLACE]);
        let key = |suffix, payload| Stored { prefix: &[], head: 0, suffix, payload };
        for damaged in [key(&long, &[1, 0]), key(&[], &[]), key(&[], &[1, 2, 3]), key(&[], &[9, 0])] {
            assert!(shape.open(&damaged, &mut KeyBuffer::new()).is_none());
            assert!(shape.join(&damaged, &mut KeyBuffer::new()).is_none());
        }
    }
}
