//! What a scan of keys that are byte strings looks for: for each column a sorted list of intervals between *cuts*,
//! whose product is a list of key ranges. As with lanes, equality, ranges, lists, NULL tests and left-out columns are
//! all one mechanism; but what comes next after a value is not known here, so a range may be empty: its place is where
//! to look for the next key.

use super::ranges::{Direction, Range, Wanted, start};
use crate::keys::KeyShape;
use crate::keys::bytes::{BytesOrder, BytesShape, KeyBuffer, OwnedKey};
use crate::keys::digits::DigitShape;
use crate::page::{Bytes, partition};
use core::cell::Cell;
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
        let ends = [Direction::Forward, Direction::Backward].map(|direction| self.fixed_end(direction));
        matches!(ends, [Some(low), Some(high)] if low == high)
    }

    /// The end that a scan comes to first.
    fn near_end(&self, direction: Direction) -> Cut<'a> {
        if direction == Direction::Forward { self.low } else { self.high }
    }

    /// The end that a scan comes to last.
    fn far_end(&self, direction: Direction) -> Cut<'a> {
        self.near_end(direction.opposite())
    }

    /// The digit that a scan comes to first, if it is known: the interval begins before a whole one, or ends behind it.
    fn fixed_end(&self, direction: Direction) -> Option<&'a [u8]> {
        let end = self.near_end(direction);
        let is_outside = end.above == (direction == Direction::Backward);
        (is_outside && end.is_whole()).then_some(end.digit)
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
#[derive(Clone)]
pub struct BytesSelection<'a> {
    shape: &'a BytesShape,
    order: Option<BytesOrder<'a>>,
    columns: [&'a [Interval<'a>]; KeyShape::MAX_COLUMNS],
    /// How many intervals of each column were before the cut that was looked for last. Before the next cut are mostly as many, or
    /// one more.
    before: [Cell<usize>; KeyShape::MAX_COLUMNS],
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
        let (columns, before) = ([&[Interval::ALL][..]; KeyShape::MAX_COLUMNS], Default::default());
        BytesSelection { shape, order, columns, before, wants_keys: false }
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

    /// Whether a cut is past another for a scan that goes this way.
    fn is_past(&self, direction: Direction, column: usize, a: Cut<'_>, b: Cut<'_>) -> bool {
        match direction {
            Direction::Forward => self.compare(column, a, b).is_gt(),
            Direction::Backward => self.compare(column, a, b).is_lt(),
        }
    }

    /// The interval of a column that a scan comes to first from a cut on.
    fn interval_from(&self, direction: Direction, column: usize, cut: Cut<'_>) -> Option<&'a Interval<'a>> {
        let (intervals, before) = (self.columns[column], &self.before[column]);
        let is_before = |at: usize| match direction {
            Direction::Forward => self.compare(column, intervals[at].high, cut).is_le(),
            Direction::Backward => self.compare(column, intervals[at].low, cut).is_lt(),
        };
        before.set(partition_near(before.get(), intervals.len(), is_before));
        match direction {
            Direction::Forward => intervals.get(before.get()),
            Direction::Backward => intervals[..before.get()].last(),
        }
    }

    /// The interval of a column that a scan comes to first of all.
    fn outermost_interval(&self, direction: Direction, column: usize) -> &'a Interval<'a> {
        let intervals = self.columns[column];
        match direction {
            Direction::Forward => &intervals[0],
            Direction::Backward => &intervals[intervals.len() - 1],
        }
    }

    fn set_place(&self, out: &mut OwnedKey, prefix: &mut Prefix, cut: Cut<'_>) {
        let before = prefix.length;
        prefix.put(cut.digit);
        out.set_to_place(self.shape, prefix.room.front(prefix.length), cut.above);
        prefix.length = before;
    }

    /// The range that a scan comes to first of those with these digits in the columns before `column`.
    fn outermost(&self, way: Way, prefix: &mut Prefix, column: usize, out: &mut Range<Bytes>) {
        for c in column..way.last {
            let interval = self.outermost_interval(way.direction, c);
            let Some(digit) = interval.fixed_end(way.direction) else {
                return self.nothing_at(prefix, interval.near_end(way.direction), out);
            };
            prefix.put(digit);
        }
        self.set_to_interval(prefix, self.outermost_interval(way.direction, way.last), out);
    }

    /// The range of an interval of the last restricted column.
    fn set_to_interval(&self, prefix: &mut Prefix, interval: &Interval<'_>, out: &mut Range<Bytes>) {
        self.set_place(&mut out.first, prefix, interval.low);
        self.set_place(&mut out.after, prefix, interval.high);
    }

    /// An empty range: the next key from there on has to be looked for.
    fn nothing_at(&self, prefix: &mut Prefix, cut: Cut<'_>, out: &mut Range<Bytes>) {
        self.set_place(&mut out.first, prefix, cut);
        out.after.assign(&out.first);
    }

    /// Goes on where a scan comes to an interval of `column`.
    fn enter(&self, way: Way, prefix: &mut Prefix, column: usize, interval: &Interval<'_>, out: &mut Range<Bytes>) {
        if column == way.last {
            return self.set_to_interval(prefix, interval, out);
        }
        match interval.fixed_end(way.direction) {
            Some(digit) => {
                prefix.put(digit);
                self.outermost(way, prefix, column + 1, out);
            }
            None => self.nothing_at(prefix, interval.near_end(way.direction), out),
        }
    }

    /// The first range past everything that has the digits before `column` in common with the place.
    fn pass(&self, way: Way, digits: &Digits, column: usize, out: &mut Range<Bytes>) -> bool {
        for c in (0..column).rev() {
            let Some(digit) = digits.digit(c) else { continue };
            let cut = Cut { digit, above: way.is_forward() };
            if let Some(interval) = self.interval_from(way.direction, c, cut) {
                let prefix = &mut Prefix::new();
                prefix.put(digits.before(c));
                if self.is_past(way.direction, c, interval.near_end(way.direction), cut) {
                    self.enter(way, prefix, c, interval, out);
                } else {
                    self.nothing_at(prefix, cut, out);
                }
                return true;
            }
        }
        false
    }

    /// The range of wanted keys that a scan comes to first from a place on. `false` if there is none.
    fn range_from(&self, direction: Direction, place: &OwnedKey, out: &mut Range<Bytes>) -> bool {
        let (begin, end) = (start::<Bytes>(direction), start::<Bytes>(direction.opposite()));
        if self.is_nothing() || place.is_same(end) {
            return false;
        }
        let Some(last) = self.last_restricted() else {
            out.near_end_mut(direction).assign(place);
            out.far_end_mut(direction).assign(end);
            return true;
        };
        let way = Way { direction, last };
        if place.is_same(begin) {
            self.outermost(way, &mut Prefix::new(), 0, out);
            return true;
        }
        let mut digits = Digits::new();
        digits.take_apart(self.shape, place);
        // Whether the place is past everything that begins with its digits.
        let is_past = digits.above == way.is_forward();
        for c in 0..=last {
            let prefix = &mut Prefix::new();
            let Some(digit) = digits.digit(c) else {
                let partial = digits.partial();
                if partial.is_empty() {
                    if is_past {
                        return self.pass(way, &digits, c, out);
                    }
                    self.outermost(way, prefix.put(digits.before(c)), c, out);
                    return true;
                }
                let cut = Cut { digit: partial, above: digits.above };
                let Some(interval) = self.interval_from(direction, c, cut) else {
                    return self.pass(way, &digits, c, out);
                };
                prefix.put(digits.before(c));
                if self.is_past(direction, c, interval.near_end(direction), cut) {
                    self.enter(way, prefix, c, interval, out);
                } else {
                    out.near_end_mut(direction).assign(place);
                    match c == last {
                        true => self.set_place(out.far_end_mut(direction), prefix, interval.far_end(direction)),
                        false => out.far_end_mut(direction).assign(place),
                    }
                }
                return true;
            };
            // Not so backward: before a key's place there may be rows of it with lower TIDs.
            if way.is_forward() && is_past && c + 1 == digits.count && digits.partial == 0 {
                return self.pass(way, &digits, c + 1, out);
            }
            let cut = Cut { digit, above: !way.is_forward() };
            let Some(interval) = self.interval_from(direction, c, cut) else {
                return self.pass(way, &digits, c, out);
            };
            prefix.put(digits.before(c));
            if self.is_past(direction, c, interval.near_end(direction), cut) {
                self.enter(way, prefix, c, interval, out);
                return true;
            }
            if c == last {
                out.near_end_mut(direction).assign(place);
                self.set_place(out.far_end_mut(direction), prefix, interval.far_end(direction));
            }
        }
        true
    }
}

/// The first of so many places of which something does not hold that holds of all before; it is looked for from one on, up and
/// down.
fn partition_near(near: usize, count: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high, mut step) = (0, count, 1);
    if near < count && holds(near) {
        low = near + 1;
        while low + step <= count && holds(low + step - 1) {
            (low, step) = (low + step, 2 * step);
        }
        high = high.min(low + step - 1);
    } else {
        high = high.min(near);
        while high >= step && !holds(high - step) {
            (high, step) = (high - step, 2 * step);
        }
        low = low.max((high + 1).saturating_sub(step));
    }
    partition(low, high, holds)
}

/// Which way a scan goes, and the last column that anything is wanted of.
#[derive(Clone, Copy)]
struct Way {
    direction: Direction,
    last: usize,
}

impl Way {
    fn is_forward(self) -> bool {
        self.direction == Direction::Forward
    }
}

impl Wanted<Bytes> for BytesSelection<'_> {
    fn at_or_after(&self, place: &OwnedKey, out: &mut Range<Bytes>) -> bool {
        self.range_from(Direction::Forward, place, out)
    }

    fn before(&self, place: &OwnedKey, out: &mut Range<Bytes>) -> bool {
        // Before the first place of all there is nothing.
        self.range_from(Direction::Backward, place, out) && !out.after.is_same(&OwnedKey::FIRST)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_which_it_does_not_hold_is_found_from_anywhere() {
        for count in 0..40 {
            for first in 0..=count {
                for near in 0..count + 3 {
                    let asked = Cell::new(0);
                    let holds = |at: usize| {
                        assert!(at < count, "{at} of {count}");
                        asked.set(asked.get() + 1);
                        at < first
                    };
                    assert_eq!(partition_near(near, count, holds), first, "from {near} of {count}");
                    assert!(!(near..=near + 1).contains(&first) || asked.get() <= 2, "from {near} to {first}");
                }
            }
        }
    }
}
