//! Groups of byte strings, whose values only the server's types can tell: what they are grouped by, and what the next column
//! has in them, in whose order their rows are.

use core::ops::Range;

use fpbtree_engine::format::Tid;
use fpbtree_engine::keys::bytes::{KeyBuffer, OwnedKey};
use fpbtree_engine::page::Bytes;
use fpbtree_engine::scan::{Direction, Matches, Rounds};
use pgrx::pg_sys::{Datum, MemoryContext};

use super::{MOST_COLUMNS, Output, Task};
use crate::values::keys::{BytesColumns, Keyed};
use crate::values::tuple::Tuple;

/// What is known of a group of byte strings.
pub(super) struct Strings {
    depth: usize,
    /// Which way rows come.
    direction: Direction,
    /// The places before and behind all keys of the group.
    begin: OwnedKey,
    end: OwnedKey,
    /// Whether the scan leaves out the middle of groups; then, the rows that groups began with. A function may have another
    /// order than when keys were inserted, and a scan that jumps would go round for ever.
    jumps: bool,
    rounds: Rounds<Tid>,
    /// The group's values, and for each the bytes that it has if it is passed by value, else 0.
    tuple: Tuple,
    by_value: [u8; MOST_COLUMNS],
    next: Next,
    row: Row,
}

/// A row that is looked at.
struct Row {
    /// Its values, if most are of a common kind and none is NULL: what is passed by reference is in the key. Else they are in
    /// the tuple.
    is_in_place: bool,
    values: [Datum; MOST_COLUMNS],
    key: KeyBuffer,
    tuple: Tuple,
}

/// What the column behind those of the group has in it, NULL aside. Of values that are equal the one that comes last counts at
/// both ends, as for most of the server's `min` and `max`: they need not look the same.
struct Next {
    direction: Direction,
    /// The value that comes first and the one that comes last, with those of the columns before, if there are any.
    first: Tuple,
    last: Tuple,
    are_there: bool,
    /// The place beyond all rows that have the first value, until one is beyond it.
    first_end: OwnedKey,
    is_first_over: bool,
    /// Whether anything is asked about the first value, and about the last one.
    asks_first: bool,
    asks_last: bool,
    /// How many different values there are so far, and the place beyond all rows that have the last of them, if that is asked.
    asks_different: bool,
    different: u64,
    value_end: OwnedKey,
    /// As for groups, if the scan leaves out the middle of values.
    jumps: bool,
    rounds: Rounds<Tid>,
}

impl Strings {
    /// No group yet. Of each column, the bytes of its values if these are passed by value, else 0; what tuples need is the
    /// context's.
    pub fn new(task: &Task, direction: Direction, by_value: [u8; MOST_COLUMNS], context: MemoryContext) -> Strings {
        let asks = |output: Output| task.items().iter().any(|item| item.output == output);
        let [first, last] = match direction {
            Direction::Forward => [Output::First, Output::Last],
            Direction::Backward => [Output::Last, Output::First],
        };
        let next = Next {
            direction,
            first: Tuple::new(context),
            last: Tuple::new(context),
            are_there: false,
            first_end: OwnedKey::new(),
            is_first_over: false,
            asks_first: asks(first),
            asks_last: asks(last),
            asks_different: asks(Output::Different),
            different: 0,
            value_end: OwnedKey::new(),
            jumps: task.jumps && task.counts_different(),
            rounds: Rounds::BEGIN,
        };
        Strings {
            depth: task.depth,
            direction,
            begin: OwnedKey::new(),
            end: OwnedKey::new(),
            jumps: task.jumps,
            rounds: Rounds::BEGIN,
            tuple: Tuple::new(context),
            by_value,
            next,
            row: Row {
                is_in_place: false,
                values: [Datum::null(); MOST_COLUMNS],
                key: KeyBuffer::new(),
                tuple: Tuple::new(context),
            },
        }
    }

    /// Makes room for values.
    ///
    /// # Safety
    /// May raise when out of memory.
    pub unsafe fn prepare(&mut self) {
        for tuple in [&mut self.tuple, &mut self.next.first, &mut self.next.last, &mut self.row.tuple] {
            // SAFETY: the tuple goes with the node, whose memory the context's is.
            unsafe { tuple.make_room() };
        }
    }

    /// Goes back to the beginning.
    pub fn restart(&mut self) {
        (self.rounds, self.next.rounds) = (Rounds::BEGIN, Rounds::BEGIN);
    }

    /// Begins with the next group, of which nothing is known yet.
    pub fn begin_group(&mut self) {
        (self.next.are_there, self.next.is_first_over, self.next.different) = (false, false, 0);
    }

    /// Takes what a group is grouped by from a row of it. None if that is damaged, or the scan was there before.
    pub fn take_group(&mut self, columns: &BytesColumns, matches: &Matches<Bytes>, at: usize) -> Option<()> {
        if self.jumps && self.rounds.comes_again(|| matches.tid(at)) {
            return None;
        }
        let entry = matches.entry(at)?;
        columns.set_to_front(&entry, self.depth, false, &mut self.begin)?;
        columns.set_to_front(&entry, self.depth, true, &mut self.end)?;
        // SAFETY: no frame here owns a destructor.
        unsafe { columns.put_first(self.depth, &entry, &mut self.tuple) }
    }

    /// Where the group's rows end, of those from one on.
    pub fn group_end(&self, columns: &BytesColumns, matches: &Matches<Bytes>, from: usize) -> usize {
        let beyond = if self.direction == Direction::Forward { &self.end } else { &self.begin };
        matches.end_before(from, beyond, Bytes::order(columns), self.direction)
    }

    /// The group's value of one of the columns that it is grouped by, `None` for NULL.
    pub fn value(&self, column: usize) -> Option<Datum> {
        self.tuple.value(column, self.by_value[column])
    }

    /// The first value that the next column has in the group, or the last one, if there is any.
    pub fn end(&self, is_first: bool) -> Option<Datum> {
        let comes_first = is_first == (self.direction == Direction::Forward);
        let tuple = if comes_first { &self.next.first } else { &self.next.last };
        tuple.value(self.depth, self.by_value[self.depth]).filter(|_| self.next.are_there)
    }

    /// Whether more is asked about the next column than how many values it has, and their sum.
    pub fn asks_about_next(&self) -> bool {
        self.next.asks_first || self.next.asks_last || self.next.asks_different
    }

    /// How many different values the next column has in the group.
    pub fn different(&self) -> u64 {
        self.next.different
    }

    /// Whether the ends of the next column are known but for the last value.
    pub fn is_known(&self) -> bool {
        self.next.are_there && (self.next.is_first_over || !self.next.asks_first)
    }

    /// Takes the last value from some of the last rows of the group, of which the last one comes first; `false` if the value is
    /// in rows before. None if an entry is damaged.
    pub fn add_last(&mut self, columns: &BytesColumns, matches: &Matches<Bytes>, rows: Range<usize>) -> Option<bool> {
        let order = Bytes::order(columns);
        let end = matches.end_before(rows.start, &self.begin, order, Direction::Backward).min(rows.end);
        for at in rows.start..end {
            if self.next_value(columns, matches, at)?.is_some() {
                // SAFETY: no frame here owns a destructor.
                unsafe { columns.put_first(self.depth + 1, &matches.entry(at)?, &mut self.next.last)? };
                return Some(true);
            }
        }
        Some(end < rows.end)
    }

    /// How many values the next column has in some rows of the group, NULL aside, whose ends are noted. None if an entry is
    /// damaged, or the scan was there before.
    pub fn add_next(&mut self, columns: &BytesColumns, matches: &Matches<Bytes>, rows: Range<usize>) -> Option<u64> {
        if self.next.jumps && self.next.rounds.comes_again(|| matches.tid(rows.start)) {
            return None;
        }
        let values = self.without_nulls(columns, matches, rows)?;
        if !values.is_empty() {
            self.next.add(columns, matches, values.clone(), self.depth)?;
            if self.next.asks_different {
                self.next.count_different(columns, matches, values.clone(), self.depth)?;
            }
        }
        Some(values.len() as u64)
    }

    /// The rows in which the next column is not NULL: NULLs are all at one end.
    fn without_nulls(
        &mut self,
        columns: &BytesColumns,
        matches: &Matches<Bytes>,
        rows: Range<usize>,
    ) -> Option<Range<usize>> {
        let Range { start, end } = rows;
        let mut is_null = |at: usize| Some(self.next_value(columns, matches, at)?.is_none());
        let (first, last) = (is_null(start)?, is_null(end - 1)?);
        if first == last {
            return Some(if first { start..start } else { rows });
        }
        // The two sides of the only place where it changes.
        let (mut before, mut behind) = (start, end - 1);
        while behind - before > 1 {
            let middle = before.midpoint(behind);
            if is_null(middle)? == first { before = middle } else { behind = middle }
        }
        Some(if first { behind..end } else { start..behind })
    }

    /// The value of the next column in a row, which is looked at then, `None` for NULL. None if the entry is damaged.
    fn next_value(&mut self, columns: &BytesColumns, matches: &Matches<Bytes>, at: usize) -> Option<Option<Datum>> {
        self.look_at(columns, matches, at, self.depth + 1)?;
        Some(self.value_in_row(self.depth))
    }

    /// Looks at so many columns of a row. None if the entry is damaged.
    #[inline]
    pub fn look_at(&mut self, columns: &BytesColumns, matches: &Matches<Bytes>, at: usize, count: usize) -> Option<()> {
        let row = &mut self.row;
        let entry = matches.entry(at);
        // In its place, as scans have it.
        let entry = entry.as_ref()?;
        row.is_in_place = columns.in_place(entry, &mut row.key, row.values.get_mut(..count)?).is_some();
        if !row.is_in_place {
            // SAFETY: no frame here owns a destructor.
            unsafe { columns.put_first(count, entry, &mut row.tuple)? };
        }
        Some(())
    }

    /// The value of a column of the row that is looked at, `None` for NULL.
    #[inline]
    pub fn value_in_row(&self, column: usize) -> Option<Datum> {
        if self.row.is_in_place {
            return Some(self.row.values[column]);
        }
        self.row.tuple.value(column, self.by_value[column])
    }
}

impl Next {
    /// Counts the different values of some rows, which come behind those seen before. None if an entry is damaged.
    fn count_different(
        &mut self,
        columns: &BytesColumns,
        matches: &Matches<Bytes>,
        rows: Range<usize>,
        depth: usize,
    ) -> Option<()> {
        let end_from = |at: usize, end: &OwnedKey| {
            matches.end_before(at, end, Bytes::order(columns), self.direction).min(rows.end)
        };
        let mut at = if self.different > 0 { end_from(rows.start, &self.value_end) } else { rows.start };
        while at < rows.end {
            let is_above = self.direction == Direction::Forward;
            columns.set_to_front(&matches.entry(at)?, depth + 1, is_above, &mut self.value_end)?;
            self.different += 1;
            // A function may say that an entry is not before itself.
            at = end_from(at, &self.value_end).max(at + 1);
        }
        Some(())
    }

    /// Takes the ends of the values of some rows into account, which come behind those seen before.
    fn add(
        &mut self,
        columns: &BytesColumns,
        matches: &Matches<Bytes>,
        rows: Range<usize>,
        depth: usize,
    ) -> Option<()> {
        if !self.are_there {
            let is_above = self.direction == Direction::Forward;
            columns.set_to_front(&matches.entry(rows.start)?, depth + 1, is_above, &mut self.first_end)?;
            self.are_there = true;
        }
        let put = |at: usize, tuple: &mut Tuple| {
            // SAFETY: no frame here owns a destructor.
            unsafe { columns.put_first(depth + 1, &matches.entry(at)?, tuple) }
        };
        if !self.is_first_over {
            let order = Bytes::order(columns);
            let end = matches.end_before(rows.start, &self.first_end, order, self.direction).min(rows.end);
            if end > rows.start {
                put(end - 1, &mut self.first)?;
            }
            self.is_first_over = end < rows.end;
        }
        put(rows.end - 1, &mut self.last)
    }
}
