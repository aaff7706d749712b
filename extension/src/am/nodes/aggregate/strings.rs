//! Groups of byte strings, whose values only the server's types can tell: what they are grouped by, and what the next column
//! has in them, in whose order their rows are.

use core::ops::Range;

use fpbtree_engine::format::Tid;
use fpbtree_engine::keys::bytes::OwnedKey;
use fpbtree_engine::page::Bytes;
use fpbtree_engine::scan::{Direction, Matches, Rounds};
use pgrx::pg_sys::{Datum, MemoryContext};

use super::{MOST_COLUMNS, Output, Task};
use crate::values::keys::{BytesColumns, Keyed};
use crate::values::tuple::Tuple;

/// What is known of a group of byte strings.
pub(super) struct Strings {
    depth: usize,
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
    /// A row that is looked at.
    looked_at: Tuple,
}

/// What the column behind those of the group has in it, NULL aside. Of values that are equal the last one counts at both
/// ends, as for the server's `min` and `max`: they need not look the same.
struct Next {
    /// The first value and the last one, with those of the columns before, if there are any.
    first: Tuple,
    last: Tuple,
    are_there: bool,
    /// The place behind all rows that have the first value, until one is behind it.
    first_end: OwnedKey,
    is_first_over: bool,
    /// Whether anything is asked about the first value.
    asks_first: bool,
}

impl Strings {
    /// No group yet. Of each column, the bytes of its values if these are passed by value, else 0; what tuples need is the
    /// context's.
    pub fn new(task: &Task, by_value: [u8; MOST_COLUMNS], context: MemoryContext) -> Strings {
        let next = Next {
            first: Tuple::new(context),
            last: Tuple::new(context),
            are_there: false,
            first_end: OwnedKey::new(),
            is_first_over: false,
            asks_first: task.items().iter().any(|item| item.output == Output::First),
        };
        Strings {
            depth: task.depth,
            begin: OwnedKey::new(),
            end: OwnedKey::new(),
            jumps: task.jumps,
            rounds: Rounds::BEGIN,
            tuple: Tuple::new(context),
            by_value,
            next,
            looked_at: Tuple::new(context),
        }
    }

    /// Makes room for values.
    ///
    /// # Safety
    /// May raise when out of memory.
    pub unsafe fn prepare(&mut self) {
        for tuple in [&mut self.tuple, &mut self.next.first, &mut self.next.last, &mut self.looked_at] {
            // SAFETY: the tuple goes with the node, whose memory the context's is.
            unsafe { tuple.make_room() };
        }
    }

    /// Goes back to the beginning.
    pub fn restart(&mut self) {
        self.rounds = Rounds::BEGIN;
    }

    /// Begins with the next group, of which nothing is known yet.
    pub fn begin_group(&mut self) {
        (self.next.are_there, self.next.is_first_over) = (false, false);
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
        matches.end_before(from, &self.end, Bytes::order(columns), Direction::Forward)
    }

    /// The group's value of one of the columns that it is grouped by, `None` for NULL.
    pub fn value(&self, column: usize) -> Option<Datum> {
        self.tuple.value(column, self.by_value[column])
    }

    /// The first value that the next column has in the group, or the last one, if there is any.
    pub fn end(&self, is_first: bool) -> Option<Datum> {
        let tuple = if is_first { &self.next.first } else { &self.next.last };
        tuple.value(self.depth, self.by_value[self.depth]).filter(|_| self.next.are_there)
    }

    /// Whether the ends of the next column are known but for the last value.
    pub fn is_known(&self) -> bool {
        self.next.are_there && (self.next.is_first_over || !self.next.asks_first)
    }

    /// Takes the last value from the last rows of the group, in a page of which the last row comes first; `false` if the value
    /// is in a page before. None if an entry is damaged.
    pub fn add_last(&mut self, columns: &BytesColumns, matches: &Matches<Bytes>) -> Option<bool> {
        let end = matches.end_before(0, &self.begin, Bytes::order(columns), Direction::Backward);
        for at in 0..end {
            if !self.is_null(columns, matches, at, self.depth)? {
                // SAFETY: no frame here owns a destructor.
                unsafe { columns.put_first(self.depth + 1, &matches.entry(at)?, &mut self.next.last)? };
                return Some(true);
            }
        }
        Some(end < matches.len())
    }

    /// How many values a column has in some rows of the group, NULL aside; of the next column their ends are noted. None if an
    /// entry is damaged.
    pub fn add(
        &mut self,
        columns: &BytesColumns,
        matches: &Matches<Bytes>,
        rows: Range<usize>,
        column: usize,
    ) -> Option<u64> {
        if column != self.depth {
            return rows
                .into_iter()
                .try_fold(0, |count, at| Some(count + u64::from(!self.is_null(columns, matches, at, column)?)));
        }
        let values = self.without_nulls(columns, matches, rows)?;
        if !values.is_empty() {
            self.next.add(columns, matches, values.clone(), self.depth)?;
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
        let mut is_null = |at: usize| self.is_null(columns, matches, at, self.depth);
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

    fn is_null(&mut self, columns: &BytesColumns, matches: &Matches<Bytes>, at: usize, column: usize) -> Option<bool> {
        // SAFETY: no frame here owns a destructor.
        unsafe { columns.put_first(column + 1, &matches.entry(at)?, &mut self.looked_at)? };
        Some(self.looked_at.value(column, self.by_value[column]).is_none())
    }
}

impl Next {
    /// Takes the ends of the values of some rows into account, which are behind those seen before.
    fn add(
        &mut self,
        columns: &BytesColumns,
        matches: &Matches<Bytes>,
        rows: Range<usize>,
        depth: usize,
    ) -> Option<()> {
        if !self.are_there {
            columns.set_to_front(&matches.entry(rows.start)?, depth + 1, true, &mut self.first_end)?;
            self.are_there = true;
        }
        let put = |at: usize, tuple: &mut Tuple| {
            // SAFETY: no frame here owns a destructor.
            unsafe { columns.put_first(depth + 1, &matches.entry(at)?, tuple) }
        };
        if !self.is_first_over {
            let order = Bytes::order(columns);
            let end = matches.end_before(rows.start, &self.first_end, order, Direction::Forward).min(rows.end);
            if end > rows.start {
                put(end - 1, &mut self.first)?;
            }
            self.is_first_over = end < rows.end;
        }
        put(rows.end - 1, &mut self.last)
    }
}
