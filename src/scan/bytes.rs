//! What a scan of keys that are byte strings looks for: for each column a sorted list of intervals between *cuts*, whose
//! product is a list of key ranges. As with lanes, equality, ranges, lists, NULL tests and left-out columns are all one
//! mechanism; but what comes next after a value is not known here, so a range may be empty: its place is where to look
//! for the next key.

use super::ranges::{Range, Wanted};
use crate::keys::KeyShape;
use crate::keys::bytes::{BytesOrder, BytesShape, KeyBuffer, OwnedKey};
use crate::keys::digits::DigitShape;
use crate::page::Bytes;
use core::cmp::Ordering;

/// A place among the digits of a column: before or behind all that begin so.
#[derive(Clone, Copy, Debug)]
pub struct Cut<'a> {
    /// A digit, its marker, or nothing.
    pub digit: &'a [u8],
    /// Behind all digits that begin so, rather than before them.
    pub above: bool,
}

/// The digits between two cuts.
#[derive(Clone, Copy, Debug)]
pub struct Interval<'a> {
    /// Where it begins.
    pub low: Cut<'a>,
    /// Where it ends.
    pub high: Cut<'a>,
}

impl<'a> Interval<'a> {
    /// All digits.
    pub const ALL: Interval<'static> =
        Interval { low: Cut { digit: &[], above: false }, high: Cut { digit: &[], above: true } };
    /// All digits but NULL's.
    pub const NOT_NULL: Interval<'static> = Interval {
        low: Cut { digit: &[DigitShape::VALUE], above: false },
        high: Cut { digit: &[DigitShape::VALUE], above: true },
    };

    /// One digit.
    pub const fn point(digit: &'a [u8]) -> Self {
        Interval { low: Cut { digit, above: false }, high: Cut { digit, above: true } }
    }

    /// Whether it leaves nothing out.
    pub fn is_all(&self) -> bool {
        self.low.digit.is_empty() && self.high.digit.is_empty()
    }

    /// Whether it is one digit.
    fn is_point(&self) -> bool {
        let ends = [self.fixed_low(), self.fixed_high()];
        matches!(ends, [Some(low), Some(high)] if low == high)
    }

    /// Whether the interval's first digit is known: it begins before a whole one.
    fn fixed_low(&self) -> Option<&'a [u8]> {
        (!self.low.above && self.low.is_whole()).then_some(self.low.digit)
    }

    fn fixed_high(&self) -> Option<&'a [u8]> {
        (self.high.above && self.high.is_whole()).then_some(self.high.digit)
    }
}

impl Cut<'_> {
    /// Whether the cut is at a digit, rather than at a marker of values or at nothing.
    fn is_whole(&self) -> bool {
        self.digit.len() > 1 || self.digit.first().is_some_and(|&marker| marker != DigitShape::VALUE)
    }
}

/// How two cuts of one column are ordered; a digit is a cut on either side of itself.
pub fn compare_cuts(
    shape: &BytesShape,
    order: Option<BytesOrder<'_>>,
    column: usize,
    a: Cut<'_>,
    b: Cut<'_>,
) -> Ordering {
    let digit = &shape.digits()[column];
    let is_value = |cut: Cut<'_>| cut.digit.first() == Some(&DigitShape::VALUE);
    let is_opaque_value = |cut| digit.is_opaque() && is_value(cut) && digit.length(cut.digit) == Some(cut.digit.len());
    if let Some(order) = order.filter(|_| is_opaque_value(a) && is_opaque_value(b)) {
        let [x, y] = [a, b].map(|mut cut| digit.take_opaque(&mut cut.digit).unwrap_or_default());
        let equal = core::ptr::eq(x, y) || x == y;
        let values = if equal { Ordering::Equal } else { order.columns.compare(column, x, y) };
        return values.then(a.above.cmp(&b.above));
    }
    let length = a.digit.len().min(b.digit.len());
    a.digit[..length].cmp(&b.digit[..length]).then_with(|| match a.digit.len().cmp(&b.digit.len()) {
        // One begins with the other.
        Ordering::Less if a.above => Ordering::Greater,
        Ordering::Greater if b.above => Ordering::Less,
        Ordering::Equal => a.above.cmp(&b.above),
        ordered => ordered,
    })
}

/// The keys a scan wants. Each column's intervals are ascending and disjoint.
#[derive(Clone, Copy)]
pub struct BytesSelection<'a> {
    shape: &'a BytesShape,
    order: Option<BytesOrder<'a>>,
    columns: [&'a [Interval<'a>]; KeyShape::MAX_COLUMNS],
    wants_keys: bool,
}

/// A place taken apart.
struct Digits {
    room: KeyBuffer,
    /// How many bytes are in use.
    length: usize,
    /// Where each digit ends that is there.
    ends: [u16; KeyShape::MAX_COLUMNS],
    count: usize,
    /// How many bytes of one more digit are there.
    partial: usize,
    above: bool,
}

impl Digits {
    /// None yet.
    #[inline(always)]
    fn new() -> Digits {
        let ends = [0; KeyShape::MAX_COLUMNS];
        Digits { room: KeyBuffer::new(), length: 0, ends, count: 0, partial: 0, above: false }
    }

    /// Takes a place apart, for the first time.
    fn take_apart(&mut self, shape: &BytesShape, place: &OwnedKey) {
        self.above = place.above();
        let (normal, value, opaque_from) = (place.normal(), place.value(), shape.opaque_from());
        let padding = shape.padding();
        // A place before others goes on with zeros, one behind others ends where it ends.
        self.length = if place.above() { normal.len() } else { normal.len() + padding };
        self.room.zeroed(normal.len() + padding)[..normal.len()].copy_from_slice(normal);
        self.add_digits(&shape.digits()[..opaque_from]);
        let at = self.start(self.count);
        if self.count < opaque_from || opaque_from == shape.digits().len() {
            self.partial = normal.len().saturating_sub(at);
            return;
        }
        let of_normal = shape.marker_and_prefix(&self.room.front(normal.len() + padding)[at..]);
        if value.is_empty() {
            self.partial = normal.len().saturating_sub(at);
            if self.partial > of_normal {
                // A fence that was made to be behind all values with this prefix.
                (self.partial, self.above) = (of_normal, true);
            }
            return;
        }
        // The value part leaves out what the normal part has of its first column.
        let begin = at + of_normal;
        let rest = &value[1..value.len().min(1 + KeyBuffer::SIZE - begin)];
        self.room.write(begin, rest);
        self.length = begin + rest.len();
        self.add_digits(&shape.digits()[opaque_from..]);
        self.partial = self.length - self.start(self.count);
    }

    /// Finds digits of these shapes behind those there are, as many as are whole.
    fn add_digits(&mut self, shapes: &[DigitShape]) {
        let mut at = self.start(self.count);
        for shape in shapes {
            let Some(length) = shape.length(&self.room.front(self.length)[at..]).filter(|_| at < self.length) else {
                return;
            };
            at += length;
            self.ends[self.count] = at as u16;
            self.count += 1;
        }
    }

    fn start(&self, column: usize) -> usize {
        column.checked_sub(1).map_or(0, |before| self.ends[before] as usize)
    }

    /// The digits before a column.
    fn before(&self, column: usize) -> &[u8] {
        self.room.front(self.start(column))
    }

    /// The digit of a column, if it is there.
    fn digit(&self, column: usize) -> Option<&[u8]> {
        (column < self.count).then(|| &self.room.front(self.ends[column] as usize)[self.start(column)..])
    }

    /// What there is of the digit after the last whole one.
    fn partial(&self) -> &[u8] {
        let start = self.start(self.count);
        &self.room.front(start + self.partial)[start..]
    }
}

/// Digits of the first columns.
struct Prefix {
    room: KeyBuffer,
    length: usize,
}

impl Prefix {
    /// None yet.
    #[inline(always)]
    fn new() -> Prefix {
        Prefix { room: KeyBuffer::new(), length: 0 }
    }

    /// Adds digits. What is longer than any key is cut off.
    fn put(&mut self, digits: &[u8]) -> &mut Prefix {
        let digits = &digits[..digits.len().min(KeyBuffer::SIZE - self.length)];
        self.room.write(self.length, digits);
        self.length += digits.len();
        self
    }
}

impl<'a> BytesSelection<'a> {
    /// Everything in an index of this shape.
    pub fn new(shape: &'a BytesShape, order: Option<BytesOrder<'a>>) -> Self {
        BytesSelection { shape, order, columns: [&[Interval::ALL]; KeyShape::MAX_COLUMNS], wants_keys: false }
    }

    /// Wants column `c` to be in one of these intervals, ascending and disjoint.
    pub fn set(&mut self, c: usize, intervals: &'a [Interval<'a>]) {
        self.columns[c] = intervals;
    }

    /// What column `c` is wanted to be.
    pub fn intervals(&self, c: usize) -> &'a [Interval<'a>] {
        self.columns[c]
    }

    /// Whether matches' keys are wanted.
    pub fn wants_keys(&self) -> bool {
        self.wants_keys
    }

    /// Says whether matches' keys are wanted.
    pub fn set_wants_keys(&mut self, wanted: bool) {
        self.wants_keys = wanted;
    }

    /// Whether nothing can match.
    pub fn is_nothing(&self) -> bool {
        self.columns[..self.shape.digits().len()].iter().any(|intervals| intervals.is_empty())
    }

    /// The last column that anything is wanted of.
    fn last_restricted(&self) -> Option<usize> {
        let restricts = |c: &usize| !matches!(self.columns[*c], [only] if only.is_all());
        (0..self.shape.digits().len()).rev().find(restricts)
    }

    fn compare(&self, column: usize, a: Cut<'_>, b: Cut<'_>) -> Ordering {
        compare_cuts(self.shape, self.order, column, a, b)
    }

    /// The first interval of a column that ends behind a cut.
    fn ending_after(&self, column: usize, cut: Cut<'_>) -> Option<&'a Interval<'a>> {
        let intervals = self.columns[column];
        intervals.get(intervals.partition_point(|i| self.compare(column, i.high, cut).is_le()))
    }

    /// The last interval of a column that begins before a cut.
    fn starting_before(&self, column: usize, cut: Cut<'_>) -> Option<&'a Interval<'a>> {
        let intervals = self.columns[column];
        intervals[..intervals.partition_point(|i| self.compare(column, i.low, cut).is_lt())].last()
    }

    fn set_place(&self, out: &mut OwnedKey, prefix: &mut Prefix, cut: Cut<'_>) {
        let before = prefix.length;
        prefix.put(cut.digit);
        out.set_to_place(self.shape, prefix.room.front(prefix.length), cut.above);
        prefix.length = before;
    }

    /// The range that begins with the smallest digits of columns from `column` on, behind these digits before it.
    fn smallest(&self, prefix: &mut Prefix, column: usize, last: usize, out: &mut Range<Bytes>) {
        for c in column..last {
            let interval = &self.columns[c][0];
            let Some(digit) = interval.fixed_low() else {
                return self.nothing_at(prefix, interval.low, out);
            };
            prefix.put(digit);
        }
        let interval = &self.columns[last][0];
        self.set_place(&mut out.first, prefix, interval.low);
        self.set_place(&mut out.after, prefix, interval.high);
    }

    /// The range that ends with the largest digits of columns from `column` on.
    fn largest(&self, prefix: &mut Prefix, column: usize, last: usize, out: &mut Range<Bytes>) {
        let end = |c: usize| &self.columns[c][self.columns[c].len() - 1];
        for c in column..last {
            let Some(digit) = end(c).fixed_high() else {
                return self.nothing_at(prefix, end(c).high, out);
            };
            prefix.put(digit);
        }
        self.set_place(&mut out.first, prefix, end(last).low);
        self.set_place(&mut out.after, prefix, end(last).high);
    }

    /// An empty range: the next key from there on has to be looked for.
    fn nothing_at(&self, prefix: &mut Prefix, cut: Cut<'_>, out: &mut Range<Bytes>) {
        self.set_place(&mut out.first, prefix, cut);
        out.after.assign(&out.first);
    }

    /// Goes on at the beginning of an interval of `column`.
    fn enter_low(
        &self,
        prefix: &mut Prefix,
        column: usize,
        interval: &Interval<'_>,
        last: usize,
        out: &mut Range<Bytes>,
    ) {
        if column == last {
            self.set_place(&mut out.first, prefix, interval.low);
            return self.set_place(&mut out.after, prefix, interval.high);
        }
        match interval.fixed_low() {
            Some(digit) => {
                prefix.put(digit);
                self.smallest(prefix, column + 1, last, out);
            }
            None => self.nothing_at(prefix, interval.low, out),
        }
    }

    /// Goes on backward at the end of an interval of `column`.
    fn enter_high(
        &self,
        prefix: &mut Prefix,
        column: usize,
        interval: &Interval<'_>,
        last: usize,
        out: &mut Range<Bytes>,
    ) {
        if column == last {
            self.set_place(&mut out.first, prefix, interval.low);
            return self.set_place(&mut out.after, prefix, interval.high);
        }
        match interval.fixed_high() {
            Some(digit) => {
                prefix.put(digit);
                self.largest(prefix, column + 1, last, out);
            }
            None => self.nothing_at(prefix, interval.high, out),
        }
    }

    /// The first range behind everything that has the digits before `column` in common with the place.
    fn advance(&self, digits: &Digits, column: usize, last: usize, out: &mut Range<Bytes>) -> bool {
        for c in (0..column).rev() {
            let Some(digit) = digits.digit(c) else { continue };
            let cut = Cut { digit, above: true };
            if let Some(interval) = self.ending_after(c, cut) {
                let prefix = &mut Prefix::new();
                prefix.put(digits.before(c));
                if self.compare(c, interval.low, cut).is_le() {
                    self.nothing_at(prefix, cut, out);
                } else {
                    self.enter_low(prefix, c, interval, last, out);
                }
                return true;
            }
        }
        false
    }

    /// The last range before everything that has the digits before `column` in common with the place.
    fn retreat(&self, digits: &Digits, column: usize, last: usize, out: &mut Range<Bytes>) -> bool {
        for c in (0..column).rev() {
            let Some(digit) = digits.digit(c) else { continue };
            let cut = Cut { digit, above: false };
            if let Some(interval) = self.starting_before(c, cut) {
                let prefix = &mut Prefix::new();
                prefix.put(digits.before(c));
                if self.compare(c, interval.high, cut).is_ge() {
                    self.nothing_at(prefix, cut, out);
                } else {
                    self.enter_high(prefix, c, interval, last, out);
                }
                return true;
            }
        }
        false
    }

    /// The last range of wanted keys before a place, as [`Wanted::before`] says.
    fn last_before(&self, place: &OwnedKey, out: &mut Range<Bytes>) -> bool {
        if self.is_nothing() || place.is_same(&OwnedKey::FIRST) {
            return false;
        }
        let Some(last) = self.last_restricted() else {
            out.first.assign(&OwnedKey::FIRST);
            out.after.assign(place);
            return true;
        };
        if place.is_same(&OwnedKey::LAST) {
            self.largest(&mut Prefix::new(), 0, last, out);
            return true;
        }
        let mut digits = Digits::new();
        digits.take_apart(self.shape, place);
        for c in 0..=last {
            let Some(digit) = digits.digit(c) else {
                let partial = digits.partial();
                if partial.is_empty() {
                    if !digits.above {
                        return self.retreat(&digits, c, last, out);
                    }
                    self.largest(Prefix::new().put(digits.before(c)), c, last, out);
                    return true;
                }
                let cut = Cut { digit: partial, above: digits.above };
                let Some(interval) = self.starting_before(c, cut) else {
                    return self.retreat(&digits, c, last, out);
                };
                let prefix = &mut Prefix::new();
                prefix.put(digits.before(c));
                if self.compare(c, interval.high, cut).is_lt() {
                    self.enter_high(prefix, c, interval, last, out);
                } else {
                    match c == last {
                        true => self.set_place(&mut out.first, prefix, interval.low),
                        false => out.first.assign(place),
                    }
                    out.after.assign(place);
                }
                return true;
            };
            let is_end = c + 1 == digits.count && digits.partial == 0;
            // Everything that begins with these digits is before the place, if it is behind them.
            let cut = Cut { digit, above: true };
            let Some(interval) = self.starting_before(c, cut) else {
                return self.retreat(&digits, c, last, out);
            };
            let prefix = &mut Prefix::new();
            prefix.put(digits.before(c));
            if self.compare(c, interval.high, cut).is_lt() {
                self.enter_high(prefix, c, interval, last, out);
                return true;
            }
            if c == last {
                self.set_place(&mut out.first, prefix, interval.low);
                out.after.assign(place);
            } else if is_end && digits.above {
                prefix.put(digit);
                self.largest(prefix, c + 1, last, out);
                return true;
            }
        }
        true
    }
}

impl Wanted<Bytes> for BytesSelection<'_> {
    fn at_or_after(&self, place: &OwnedKey, out: &mut Range<Bytes>) -> bool {
        if self.is_nothing() || place.is_same(&OwnedKey::LAST) {
            return false;
        }
        let Some(last) = self.last_restricted() else {
            out.first.assign(place);
            out.after.assign(&OwnedKey::LAST);
            return true;
        };
        if place.is_same(&OwnedKey::FIRST) {
            self.smallest(&mut Prefix::new(), 0, last, out);
            return true;
        }
        let mut digits = Digits::new();
        digits.take_apart(self.shape, place);
        for c in 0..=last {
            let Some(digit) = digits.digit(c) else {
                let partial = digits.partial();
                if partial.is_empty() {
                    if digits.above {
                        return self.advance(&digits, c, last, out);
                    }
                    self.smallest(Prefix::new().put(digits.before(c)), c, last, out);
                    return true;
                }
                let cut = Cut { digit: partial, above: digits.above };
                let Some(interval) = self.ending_after(c, cut) else {
                    return self.advance(&digits, c, last, out);
                };
                let prefix = &mut Prefix::new();
                prefix.put(digits.before(c));
                if self.compare(c, interval.low, cut).is_gt() {
                    self.enter_low(prefix, c, interval, last, out);
                } else {
                    out.first.assign(place);
                    match c == last {
                        true => self.set_place(&mut out.after, prefix, interval.high),
                        false => out.after.assign(place),
                    }
                }
                return true;
            };
            let is_end = digits.above && c + 1 == digits.count && digits.partial == 0;
            if is_end {
                return self.advance(&digits, c + 1, last, out);
            }
            let cut = Cut { digit, above: false };
            let Some(interval) = self.ending_after(c, cut) else {
                return self.advance(&digits, c, last, out);
            };
            let prefix = &mut Prefix::new();
            prefix.put(digits.before(c));
            if self.compare(c, interval.low, cut).is_gt() {
                self.enter_low(prefix, c, interval, last, out);
                return true;
            }
            if c == last {
                out.first.assign(place);
                self.set_place(&mut out.after, prefix, interval.high);
            }
        }
        true
    }

    fn before(&self, place: &OwnedKey, out: &mut Range<Bytes>) -> bool {
        // Before the first place of all there is nothing.
        self.last_before(place, out) && !out.after.is_same(&OwnedKey::FIRST)
    }

    fn is_one_range(&self) -> bool {
        let last = self.last_restricted().unwrap_or(0);
        let is_one = |c: usize| matches!(self.columns[c], [only] if c == last || only.is_point());
        (0..=last).all(is_one)
    }

    fn null_rank(&self) -> bool {
        true
    }

    fn wants_keys(&self) -> bool {
        self.wants_keys
    }
}
