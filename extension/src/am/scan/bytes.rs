//! Scans of keys that are byte strings: conditions become intervals between cuts, and tuples are formed from digits.

use core::cell::UnsafeCell;
use core::cmp::Ordering;
use core::ops;
use std::panic::{AssertUnwindSafe, catch_unwind};

use fpbtree_engine::keys::bytes::{KeyBuffer, MOST_KEY, OwnedKey};
use fpbtree_engine::keys::digits::{Buffer, DigitShape};
use fpbtree_engine::page::Bytes;
use fpbtree_engine::scan::{BytesSelection, Cut, Direction, Interval, Matches, Range, Wanted, compare_cuts};
use pgrx::pg_sys::{self, Datum, Oid, Relation, ScanKeyData, TupleTableSlot};

use super::conditions::Searched;
use super::pages::Visitor;
use super::scan_keys::{element_type, elements, first_of_row, row_members};
use super::state::ScanState;
use crate::pg::ffi;
use crate::pg::loan::Lender;
use crate::pg::memory::zeroed_values;
use crate::pg::per_backend::PerBackend;
use crate::values::bounds::{self, ColumnOrder, ContextList, interval, neighbours};
use crate::values::codec::Codec;
use crate::values::keys::{BytesColumns, Keyed};
use crate::values::row::RowColumns;
use crate::values::tuple::Tuple;

/// What a scan of byte strings looks for.
pub struct BytesConditions {
    columns: &'static BytesColumns,
    selection: BytesSelection<'static>,
    /// Whether some condition is not in the selection: no digit could say what it asks for.
    rechecks: bool,
    /// Memory for what is looked for, emptied at each rescan.
    keys: pg_sys::MemoryContext,
    tuple: Tuple,
    /// The key that the row given last was made of in its place.
    key: KeyBuffer,
}

/// Columns whose values are made in a key's place, at most.
const MOST_IN_PLACE: usize = 8;

/// Intervals of a column, ascending and disjoint.
type Intervals = &'static [Interval<'static>];

impl Wanted<Bytes> for BytesConditions {
    fn at_or_after(&self, place: &OwnedKey, out: &mut Range<Bytes>) -> bool {
        self.selection.at_or_after(place, out)
    }

    fn before(&self, place: &OwnedKey, out: &mut Range<Bytes>) -> bool {
        self.selection.before(place, out)
    }

    fn is_one_range(&self) -> bool {
        self.selection.is_one_range()
    }

    fn null_rank(&self) -> bool {
        true
    }

    fn wants_keys(&self) -> bool {
        self.selection.wants_keys()
    }
}

impl Searched for Bytes {
    type Conditions = BytesConditions;

    fn lender() -> *mut Lender<ScanState<Bytes>> {
        static LENDER: PerBackend<UnsafeCell<Lender<ScanState<Bytes>>>> =
            PerBackend::new(UnsafeCell::new(Lender::new()));
        LENDER.get()
    }

    unsafe fn begin(
        conditions: *mut BytesConditions,
        columns: &'static BytesColumns,
        keys: pg_sys::MemoryContext,
        context: pg_sys::MemoryContext,
    ) {
        let selection = BytesSelection::new(columns.shape(), Bytes::order(columns));
        let (tuple, key) = (Tuple::new(context), KeyBuffer::new());
        // SAFETY: `conditions` is not written yet.
        unsafe { conditions.write(BytesConditions { columns, selection, rechecks: false, keys, tuple, key }) };
    }

    unsafe fn select(conditions: &mut BytesConditions, rel: Relation, keys: &[ScanKeyData]) {
        conditions.selection = BytesSelection::new(conditions.columns.shape(), Bytes::order(conditions.columns));
        conditions.rechecks = false;
        // SAFETY: the keys are the server's, for this index; what they make lives until the next rescan.
        unsafe {
            ffi::MemoryContextReset(conditions.keys);
            let before = pg_sys::MemoryContextSwitchTo(conditions.keys);
            for key in keys {
                conditions.add_key(rel, key);
            }
            pg_sys::MemoryContextSwitchTo(before);
        }
        conditions.keep_to_room();
    }

    unsafe fn want_keys(conditions: &mut BytesConditions, wanted: bool) {
        conditions.selection.set_wants_keys(wanted);
        if wanted {
            // SAFETY: no frame here owns a destructor.
            unsafe { conditions.tuple.make_room() };
        }
    }

    #[inline(always)]
    fn rechecks(conditions: &BytesConditions) -> bool {
        conditions.rechecks
    }

    #[inline(always)]
    unsafe fn form_unguarded(
        conditions: &mut BytesConditions,
        matches: &Matches<Bytes>,
        at: usize,
    ) -> Option<*mut pg_sys::IndexTupleData> {
        // SAFETY: the match exists.
        let form = || unsafe { Self::form(conditions, matches, at) };
        // A panic comes again where the guard makes an error of it.
        catch_unwind(AssertUnwindSafe(form)).unwrap_or(None)
    }

    unsafe fn form(
        conditions: &mut BytesConditions,
        matches: &Matches<Bytes>,
        at: usize,
    ) -> Option<*mut pg_sys::IndexTupleData> {
        // SAFETY: the match exists, and no frame here owns a destructor.
        unsafe { Bytes::index_tuple(conditions.columns, &matches.entry(at)?, &mut conditions.tuple) }
    }

    #[inline(always)]
    unsafe fn fill_unguarded(
        conditions: &mut BytesConditions,
        matches: &Matches<Bytes>,
        at: usize,
        row: &mut RowColumns,
        slot: &mut TupleTableSlot,
    ) -> Option<()> {
        // SAFETY: the caller's.
        let fill = || unsafe { Self::fill(conditions, matches, at, row, slot) };
        // A panic comes again where the guard makes an error of it.
        catch_unwind(AssertUnwindSafe(fill)).unwrap_or(None)
    }

    unsafe fn fill(
        conditions: &mut BytesConditions,
        matches: &Matches<Bytes>,
        at: usize,
        row: &mut RowColumns,
        slot: &mut TupleTableSlot,
    ) -> Option<()> {
        // SAFETY: the caller's; no frame here owns a destructor.
        unsafe {
            let columns = conditions.columns;
            let entry = matches.entry(at);
            // In its place: a copy would wait for what was just written in smaller pieces.
            let entry = entry.as_ref()?;
            let mut values = [Datum::null(); MOST_IN_PLACE];
            if let Some(first) = values.get_mut(..row.end())
                && columns.in_place(entry, &mut conditions.key, first).is_some()
            {
                row.fill(slot, |column| Some(values[column.place]));
                return Some(());
            }
            match columns.count() {
                1 => drop(Bytes::index_tuple(columns, entry, &mut conditions.tuple)?),
                _ => columns.put_first(row.end(), entry, &mut conditions.tuple)?,
            }
            row.fill(slot, |column| conditions.tuple.value(column.place, column.by_value));
        }
        Some(())
    }

    fn group_end(
        conditions: &BytesConditions,
        matches: &Matches<Bytes>,
        at: usize,
        columns: usize,
        direction: Direction,
    ) -> usize {
        // A damaged one is noticed by whoever looks for the group's end.
        Self::beyond_group(conditions, matches, at, columns, direction)
            .map_or(at + 1, |place| matches.end_before(at + 1, &place, Bytes::order(conditions.columns), direction))
    }

    fn beyond_group(
        conditions: &BytesConditions,
        matches: &Matches<Bytes>,
        at: usize,
        columns: usize,
        end: Direction,
    ) -> Option<OwnedKey> {
        let mut place = OwnedKey::new();
        let above = end == Direction::Forward;
        conditions.columns.set_to_front(&matches.entry(at)?, columns, above, &mut place)?;
        Some(place)
    }

    fn visit<V: Visitor>(
        conditions: &BytesConditions,
        matches: &Matches<Bytes>,
        rows: ops::Range<usize>,
        visitor: V,
    ) -> V::Out {
        match conditions.wants_keys() {
            true => visitor.strings(conditions.columns, matches, rows),
            false => visitor.count(rows.len()),
        }
    }

    unsafe fn end(conditions: &mut BytesConditions) {
        // SAFETY: nothing uses the tuple any more.
        unsafe { conditions.tuple.end() };
    }
}

/// A copy of bytes in the current memory context.
unsafe fn kept(bytes: &[u8]) -> &'static [u8] {
    // SAFETY: new memory of the right size.
    unsafe {
        let memory: *mut u8 = crate::pg::ffi::palloc(bytes.len().max(1)).cast();
        memory.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        core::slice::from_raw_parts(memory, bytes.len())
    }
}

unsafe fn list(intervals: &[Interval<'static>]) -> Intervals {
    // SAFETY: an interval of no bytes at all is made of zeros and dangling slices; all are overwritten.
    unsafe {
        let memory: *mut Interval<'static> = crate::pg::ffi::palloc(size_of_val(intervals).max(1)).cast();
        memory.copy_from_nonoverlapping(intervals.as_ptr(), intervals.len());
        core::slice::from_raw_parts(memory, intervals.len())
    }
}

impl BytesConditions {
    unsafe fn add_key(&mut self, rel: Relation, key: &ScanKeyData) {
        let c = key.sk_attno as usize - 1;
        let flags = key.sk_flags as u32;
        // SAFETY: the server's scan keys are on our columns, with operators of our families.
        let wanted = unsafe {
            if flags & pg_sys::SK_SEARCHNULL != 0 {
                Some(self.null(c))
            } else if flags & pg_sys::SK_SEARCHNOTNULL != 0 {
                Some(list(&[Interval::NOT_NULL]))
            } else if flags & pg_sys::SK_ISNULL != 0 {
                // All operators of our families are strict.
                Some(list(&[]))
            } else if flags & pg_sys::SK_ROW_HEADER != 0 {
                self.rechecks = true;
                return self.add_key(rel, &first_of_row(row_members(key)));
            } else {
                self.compared(rel, c, key)
            }
        };
        match wanted {
            // SAFETY: the intervals are of this column.
            Some(wanted) => unsafe { self.intersect(c, wanted) },
            None => {
                self.rechecks = true;
                // SAFETY: the scan keys' memory is current. No operator of ours holds for NULL.
                unsafe { self.intersect(c, list(&[Interval::NOT_NULL])) };
            }
        }
    }

    /// Leaves conditions to be rechecked that together are longer than any key: a place has room for a key's digits and
    /// as much again, and what is cut off an opaque value cannot be compared.
    fn keep_to_room(&mut self) {
        let shape = self.columns.shape();
        if !shape.is_opaque() || self.selection.is_nothing() {
            return;
        }
        let mut room = MOST_KEY;
        for c in 0..shape.digits().len() {
            let longest = self.selection.intervals(c).iter().map(|i| i.low.digit.len().max(i.high.digit.len())).max();
            match room.checked_sub(longest.unwrap_or(0)) {
                Some(left) => room = left,
                None => {
                    (c..shape.digits().len()).for_each(|later| self.selection.set(later, &[Interval::ALL]));
                    self.rechecks = true;
                    return;
                }
            }
        }
    }

    unsafe fn null(&self, c: usize) -> Intervals {
        let shape = self.columns.codec(c).shape;
        let marker = if shape.nulls_first { DigitShape::NULL_FIRST } else { DigitShape::NULL_LAST };
        // SAFETY: new memory.
        unsafe { list(&[Interval::point(kept(&[marker]))]) }
    }

    /// The digits that compare with a key's argument as it says; `None` if no digits tell.
    unsafe fn compared(&self, rel: Relation, c: usize, key: &ScanKeyData) -> Option<Intervals> {
        // SAFETY: the key is the server's, on that column of the open index.
        unsafe {
            let input = *(*rel).rd_opcintype.add(c);
            if key.sk_flags as u32 & pg_sys::SK_SEARCHARRAY == 0 {
                let own = key.sk_subtype == Oid::INVALID;
                let subtype = if own { input } else { key.sk_subtype };
                return self.compared_with(rel, c, key.sk_strategy, subtype, &[key.sk_argument]);
            }
            let (values, nulls) = elements(key.sk_argument);
            let element = element_type(key.sk_argument);
            let subtype = if key.sk_subtype == Oid::INVALID { element } else { key.sk_subtype };
            let present = zeroed_values::<Datum>(pg_sys::CurrentMemoryContext, values.len());
            let mut count = 0;
            for (&value, _) in values.iter().zip(nulls).filter(|(_, null)| !**null) {
                present[count] = value;
                count += 1;
            }
            self.compared_with(rel, c, key.sk_strategy, subtype, &present[..count])
        }
    }

    /// The digits that compare with any of these arguments as the strategy says.
    unsafe fn compared_with(
        &self,
        rel: Relation,
        c: usize,
        strategy: u16,
        subtype: Oid,
        arguments: &[Datum],
    ) -> Option<Intervals> {
        // SAFETY: the arguments are of the type `subtype`, and the family compares them with the column.
        unsafe {
            let codec = self.columns.codec(c);
            if let ([argument], None) = (arguments, codec.exact())
                && subtype == *(*rel).rd_opcintype.add(c)
            {
                // The ordinary case: nothing to be put together.
                return Some(list(&[self.digits(codec, strategy, *argument)?]));
            }
            let mut wanted = ContextList::new();
            if let Some(ty) = codec.exact() {
                let order = ColumnOrder::of(rel, c, ty);
                let mut fields = ContextList::new();
                for &argument in arguments {
                    if bounds::is_local(order, subtype) {
                        bounds::local_ranges(order, argument, |found| interval(strategy, found), &mut fields);
                    } else if let Some(range) = interval(strategy, neighbours(order, subtype, argument)) {
                        fields.push(range);
                    }
                }
                for &mut (low, high) in fields.as_mut_slice() {
                    if low <= codec.largest_field() {
                        wanted.push(self.fields(codec, low, high));
                    }
                }
            } else {
                let input = *(*rel).rd_opcintype.add(c);
                let codec = if subtype == input { *codec } else { codec.for_argument(subtype)? };
                for &argument in arguments {
                    wanted.push(self.digits(&codec, strategy, argument)?);
                }
            }
            Some(self.union(c, wanted.as_mut_slice()))
        }
    }

    /// The interval of the digits of these fields, both included.
    unsafe fn fields(&self, codec: &Codec, low: u128, high: u128) -> Interval<'static> {
        let (mut first, mut last) = (Buffer::<32>::new(), Buffer::<32>::new());
        codec.shape.put_field(low, &mut first);
        codec.shape.put_field(codec.largest_field().min(high), &mut last);
        let (first, last) = if codec.shape.descending { (last, first) } else { (first, last) };
        // SAFETY: new memory.
        let (first, last) = unsafe { (kept(first.as_slice()), kept(last.as_slice())) };
        Interval { low: Cut { digit: first, above: false }, high: Cut { digit: last, above: true } }
    }

    /// The interval of the digits that compare with an argument as the strategy says; `None` if it has no digit.
    unsafe fn digits(&self, codec: &Codec, strategy: u16, argument: Datum) -> Option<Interval<'static>> {
        let mut digit = Buffer::<MOST_KEY>::new();
        // SAFETY: an argument that the codec is for; new memory.
        let digit = unsafe {
            codec.image(argument, &mut digit);
            if !digit.fits() && codec.shape.is_opaque() {
                // The function needs the whole of it.
                return None;
            }
            kept(digit.as_slice())
        };
        let cut = |above| Cut { digit, above };
        let (values, descending) = (Interval::NOT_NULL, codec.shape.descending);
        let before = |above| Interval { low: values.low, high: cut(above) };
        let behind = |above| Interval { low: cut(above), high: values.high };
        Some(match u32::from(strategy) {
            pg_sys::BTEqualStrategyNumber => Interval::point(digit),
            pg_sys::BTLessStrategyNumber if descending => behind(true),
            pg_sys::BTLessStrategyNumber => before(false),
            pg_sys::BTLessEqualStrategyNumber if descending => behind(false),
            pg_sys::BTLessEqualStrategyNumber => before(true),
            pg_sys::BTGreaterEqualStrategyNumber if descending => before(true),
            pg_sys::BTGreaterEqualStrategyNumber => behind(false),
            _ if descending => before(false),
            _ => behind(true),
        })
    }

    fn compare(&self, c: usize, a: Cut<'_>, b: Cut<'_>) -> Ordering {
        compare_cuts(self.columns.shape(), Bytes::order(self.columns), c, a, b)
    }

    /// What is in any of these intervals.
    unsafe fn union(&self, c: usize, intervals: &mut [Interval<'static>]) -> Intervals {
        intervals.sort_unstable_by(|a, b| self.compare(c, a.low, b.low));
        let mut count = 0;
        for at in 0..intervals.len() {
            let next = intervals[at];
            if self.compare(c, next.low, next.high).is_ge() {
                continue;
            }
            match intervals[..count].last_mut() {
                Some(last) if self.compare(c, next.low, last.high).is_le() => {
                    if self.compare(c, next.high, last.high).is_gt() {
                        last.high = next.high;
                    }
                }
                _ => {
                    intervals[count] = next;
                    count += 1;
                }
            }
        }
        // SAFETY: new memory.
        unsafe { list(&intervals[..count]) }
    }

    /// Wants a column to be in one of these intervals, too.
    unsafe fn intersect(&mut self, c: usize, wanted: Intervals) {
        let before = self.selection.intervals(c);
        if let [only] = before
            && only.is_all()
        {
            return self.selection.set(c, wanted);
        }
        let (mut a, mut b) = (before.iter().peekable(), wanted.iter().peekable());
        let mut both = ContextList::new();
        while let (Some(&x), Some(&y)) = (a.peek(), b.peek()) {
            let low = if self.compare(c, x.low, y.low).is_ge() { x.low } else { y.low };
            let x_ends_first = self.compare(c, x.high, y.high).is_le();
            let high = if x_ends_first { x.high } else { y.high };
            if self.compare(c, low, high).is_lt() {
                // SAFETY: in the scan keys' memory.
                unsafe { both.push(Interval { low, high }) };
            }
            if x_ends_first {
                a.next();
            } else {
                b.next();
            }
        }
        // SAFETY: new memory.
        self.selection.set(c, unsafe { list(both.as_mut_slice()) });
    }
}
