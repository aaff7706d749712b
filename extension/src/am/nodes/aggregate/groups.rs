//! Groups of rows, added up page by page.

use core::ops::Range;

use fpbtree_engine::format::Lane;
use fpbtree_engine::keys::KeyShape;
use fpbtree_engine::page::Bytes;
use fpbtree_engine::scan::{Asked, Direction, Matches, Rows, Summary};
use pgrx::pg_sys::{Datum, MemoryContext, Oid};

use super::extremes::Extreme;
use super::filters::{Filters, MOST_FILTERS};
use super::strings::Strings;
use super::sums::Sum;
use super::{MOST_COLUMNS, Output, Task};
use crate::am::scan::pages::Visitor;
use crate::pg::memory;
use crate::values::keys::BytesColumns;

/// A column that something is asked about, of all rows or of those that a filter takes.
#[derive(Clone, Copy, Default)]
struct Column {
    number: usize,
    filter: Option<usize>,
    asked: Asked,
    summary: Summary,
    /// Whether the group's last rows have said what its last value is.
    is_last_known: bool,
    /// How many values there are in byte strings, and their sum if that was asked for.
    values: u64,
    sum: Option<Sum>,
}

impl Column {
    /// Whether it is this column, the next one of the key, of all rows, which byte strings are in order of.
    fn is_next(&self, next: Option<usize>) -> bool {
        Some(self.number) == next && self.filter.is_none()
    }

    /// Whether all byte strings have to be looked at for it.
    fn is_by_row(&self, next: Option<usize>) -> bool {
        self.sum.is_some() || !self.is_next(next)
    }
}

/// The group of rows that is being added up, or was last.
pub(super) struct Groups {
    depth: usize,
    /// Which way rows come.
    direction: Direction,
    /// The column of the key behind those of byte strings' groups, if there is one.
    next: Option<usize>,
    /// Columns that something is asked about, first come first.
    columns: &'static mut [Column],
    count: usize,
    /// What is asked about byte strings whatever their order is.
    extremes: &'static mut [Extreme],
    filters: Filters,
    /// Unless keys are lanes.
    strings: Option<&'static mut Strings>,
    /// Where in the page the next row is.
    at: usize,
    /// What the group's rows have in common, once there is one, and what those of the one before had. Of byte strings it is
    /// the number of the group.
    group: Option<(u128, bool)>,
    before: Option<(u128, bool)>,
    /// The group's values.
    images: [Option<u128>; MOST_COLUMNS],
    /// How many rows there are, and how many of them each filter takes.
    rows: u64,
    filtered: [u64; MOST_FILTERS],
}

/// How far a page's rows are added up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Progress {
    /// The whole page is, and the group may go on in the next one.
    PageEnds,
    /// The group is.
    GroupEnds,
    /// Groups are not in order, as rows of a sound index are, or an entry is damaged.
    Flawed,
}

impl Groups {
    /// No group yet, in memory of the context's.
    ///
    /// # Safety
    /// They are not used longer than the context lives. May raise when out of memory.
    pub unsafe fn new(task: &Task, direction: Direction, filters: Filters, context: MemoryContext) -> Groups {
        // SAFETY: the caller's.
        let columns = unsafe { memory::values(context, task.items().iter(), |_| Column::default()) };
        let mut groups = Groups {
            depth: task.depth,
            direction,
            next: None,
            columns,
            count: 0,
            extremes: &mut [],
            filters,
            strings: None,
            at: 0,
            group: None,
            before: None,
            images: [None; MOST_COLUMNS],
            rows: 0,
            filtered: [0; MOST_FILTERS],
        };
        for item in task.items() {
            let asked = match item.output {
                Output::Rows | Output::Group | Output::Extreme => continue,
                Output::Count | Output::First | Output::Last => Asked::default(),
                Output::Different => Asked { different: true, ..Asked::default() },
                Output::Sum | Output::Average | Output::CountAndSum => Asked { sum: true, ..Asked::default() },
                Output::Least | Output::Greatest => Asked { ends: true, ..Asked::default() },
            };
            groups.ask(item.column, item.filter, asked);
        }
        groups
    }

    /// Says of an index whose keys are byte strings how many columns the key has, and of which types all columns are, what is
    /// known of its groups, and of what is asked whatever the order is; what sums need of memory is the context's. None if a
    /// column that is to be added up is of another type than can be.
    pub fn are_of_strings(
        &mut self,
        keys: usize,
        types: impl Iterator<Item = Oid> + Clone,
        (strings, extremes): (&'static mut Strings, &'static mut [Extreme]),
        context: MemoryContext,
    ) -> Option<()> {
        (self.strings, self.extremes) = (Some(strings), extremes);
        self.next = Some(self.depth).filter(|&next| next < keys);
        for column in self.columns[..self.count].iter_mut().filter(|column| column.asked.sum) {
            column.sum = Some(Sum::of(types.clone().nth(column.number)?, context)?);
        }
        Some(())
    }

    /// Asks something about a column, besides what is asked already.
    fn ask(&mut self, number: usize, filter: Option<usize>, asked: Asked) {
        let is_it = |column: &Column| (column.number, column.filter) == (number, filter);
        let at = self.columns[..self.count].iter().position(is_it).unwrap_or(self.count);
        self.count = self.count.max(at + 1);
        let column = &mut self.columns[at];
        (column.number, column.filter) = (number, filter);
        column.asked.sum |= asked.sum;
        column.asked.ends |= asked.ends;
        column.asked.different |= asked.different;
    }

    /// Which way rows come.
    pub fn direction(&self) -> Direction {
        self.direction
    }

    /// Goes back to the beginning.
    pub fn restart(&mut self) {
        (self.group, self.before) = (None, None);
        self.strings.iter_mut().for_each(|strings| strings.restart());
    }

    /// Begins with the next group.
    ///
    /// # Safety
    /// The memory that sums need is there.
    pub unsafe fn begin_group(&mut self) {
        (self.before, self.rows) = (self.group.take().or(self.before), 0);
        self.filtered[..self.filters.count()].fill(0);
        self.strings.iter_mut().for_each(|strings| strings.begin_group());
        self.extremes.iter_mut().for_each(Extreme::clear);
        for column in &mut self.columns[..self.count] {
            (column.summary, column.values, column.is_last_known) = (Summary::default(), 0, false);
            // SAFETY: the caller's.
            column.sum.iter_mut().for_each(|sum| unsafe { sum.clear() });
        }
    }

    /// Whether there is a group, and its first rows have said of every column what they can.
    pub fn is_known(&self) -> bool {
        let is_known = |column: &Column| column.summary.count() > 0;
        let columns = &self.columns[..self.count];
        self.group.is_some()
            && (columns.iter().all(is_known) || self.strings.as_ref().is_some_and(|strings| strings.is_known()))
    }

    /// Whether anything is asked about a column.
    pub fn asks(&self) -> bool {
        self.count > 0 || !self.extremes.is_empty() || self.filters.count() > 0
    }

    /// Begins with the next page, or with a row that comes by itself.
    pub fn begin_page(&mut self) {
        self.at = 0;
    }

    /// Makes room for the values of byte strings.
    ///
    /// # Safety
    /// May raise when out of memory.
    pub unsafe fn prepare_strings(&mut self) {
        // SAFETY: the caller's.
        unsafe {
            self.strings.iter_mut().for_each(|strings| strings.prepare());
            self.filters.prepare();
            self.extremes.iter_mut().for_each(|extreme| extreme.prepare());
        }
    }

    /// The group's value of one of the columns that byte strings are grouped by, `None` for NULL.
    pub fn string(&self, column: usize) -> Option<Datum> {
        self.strings.as_ref()?.value(column)
    }

    /// The first value that the next column of byte strings has in the group, or the last one, if there is any.
    pub fn end_of_strings(&self, is_first: bool) -> Option<Datum> {
        self.strings.as_ref()?.end(is_first)
    }

    /// How many different values the next column of byte strings has.
    pub fn different_strings(&self) -> u64 {
        self.strings.as_ref().map_or(0, |strings| strings.different())
    }

    /// How many values a column of byte strings has that something was asked about.
    pub fn values(&self, column: usize, filter: Option<usize>) -> u64 {
        self.column(column, filter).map_or(0, |asked| asked.values)
    }

    /// The sum of a column of byte strings of which it was asked for, and of how many values.
    pub fn sum_of_strings(&self, column: usize, filter: Option<usize>) -> Option<(&Sum, u64)> {
        let asked = self.column(column, filter)?;
        Some((asked.sum.as_ref()?, asked.values))
    }

    /// What came first of the values that were asked for by the item at this place, if there are any.
    pub fn extreme(&self, place: usize) -> Option<Datum> {
        self.extremes.iter().find(|extreme| extreme.place() == place)?.value()
    }

    fn column(&self, number: usize, filter: Option<usize>) -> Option<&Column> {
        self.columns[..self.count].iter().find(|asked| (asked.number, asked.filter) == (number, filter))
    }

    /// How many rows the group has, or how many of them a filter takes.
    pub fn rows(&self, filter: Option<usize>) -> u64 {
        filter.map_or(self.rows, |filter| self.filtered[filter])
    }

    /// The group's value of one of the columns by which rows are grouped, `None` for NULL.
    pub fn image(&self, column: usize) -> Option<u128> {
        self.images[column]
    }

    /// What is known of a column that something was asked about.
    pub fn summary(&self, column: usize, filter: Option<usize>) -> Summary {
        self.column(column, filter).map_or(Summary::default(), |asked| asked.summary)
    }

    /// Adds rows of the group.
    fn add<L: Lane>(&mut self, shape: &KeyShape, rows: Rows<'_, L>) {
        let (depth, columns) = (self.depth, &mut self.columns[..self.count]);
        let mut add = |filter: Option<usize>, rows: Rows<'_, L>| {
            for column in columns.iter_mut().filter(|column| column.filter == filter) {
                column.summary.add(rows, shape, column.number, column.asked, column.number <= depth);
            }
        };
        add(None, rows);
        self.rows += rows.len() as u64;
        for filter in 0..self.filters.count() {
            let count = &mut self.filtered[filter];
            let take = |taken: Rows<'_, L>| {
                *count += taken.len() as u64;
                add(Some(filter), taken);
            };
            // SAFETY: the node has begun. No frame here owns a destructor.
            unsafe { self.filters.for_each_stretch(filter, shape, rows, take) };
        }
    }
}

impl Groups {
    /// Adds rows of byte strings of the group. None if an entry is damaged.
    fn add_strings(&mut self, of: &BytesColumns, matches: &Matches<Bytes>, rows: Range<usize>) -> Option<()> {
        self.rows += rows.len() as u64;
        let (next, strings) = (self.next, self.strings.as_mut()?);
        for column in self.columns[..self.count].iter_mut().filter(|column| column.is_next(next)) {
            let is_by_row = column.is_by_row(next);
            if !is_by_row || strings.asks_about_next() {
                let values = strings.add_next(of, matches, rows.clone())?;
                column.values += if is_by_row { 0 } else { values };
            }
        }
        let all = self.end_of_columns(None);
        if all > 0 {
            rows.clone().try_for_each(|at| self.add_string(of, matches, at, None, all))?;
        }
        for filter in 0..self.filters.count() {
            let end = self.end_of_columns(Some(filter));
            for at in rows.clone() {
                // SAFETY: the node has begun, and has made room. No frame here owns a destructor.
                if unsafe { self.filters.takes_string(filter, of, matches, at)? } {
                    self.filtered[filter] += 1;
                    self.add_string(of, matches, at, Some(filter), end)?;
                }
            }
        }
        Some(())
    }

    /// How many of the index's first columns have to be looked at in every byte string that a filter takes.
    fn end_of_columns(&self, filter: Option<usize>) -> usize {
        let asked = self.columns[..self.count].iter().filter(|column| column.filter == filter);
        let by_row = asked.filter(|column| column.is_by_row(self.next)).map(|column| column.number);
        let extremes = self.extremes.iter().filter(|extreme| extreme.filter() == filter);
        by_row.chain(extremes.map(Extreme::column)).max().map_or(0, |last| last + 1)
    }

    /// Adds a row of byte strings to what is asked about those that a filter takes, looking at so many columns.
    fn add_string(
        &mut self,
        of: &BytesColumns,
        matches: &Matches<Bytes>,
        at: usize,
        filter: Option<usize>,
        end: usize,
    ) -> Option<()> {
        if end == 0 {
            return Some(());
        }
        let (next, strings) = (self.next, self.strings.as_mut()?);
        strings.look_at(of, matches, at, end)?;
        let asked = self.columns[..self.count].iter_mut().filter(|column| column.filter == filter);
        for column in asked.filter(|column| column.is_by_row(next)) {
            if let Some(value) = strings.value_in_row(column.number) {
                column.values += 1;
                if let Some(sum) = &mut column.sum {
                    // SAFETY: a value of the column; the node has begun. No frame here owns a destructor.
                    unsafe { sum.add(value, column.values) };
                }
            }
        }
        for extreme in self.extremes.iter_mut().filter(|extreme| extreme.filter() == filter) {
            if let Some(value) = strings.value_in_row(extreme.column()) {
                // SAFETY: a value of the column; the node has begun. No frame here owns a destructor.
                unsafe { extreme.add(value)? };
            }
        }
        Some(())
    }
}

impl Visitor for &mut Groups {
    type Out = Progress;

    fn rows<L: Lane>(self, shape: &KeyShape, rows: Rows<'_, L>) -> Progress {
        if self.at >= rows.len() {
            return Progress::PageEnds;
        }
        let (depth, from) = (self.depth, self.at);
        let mut end = rows.len();
        if depth > 0 {
            let group = rows.group(from, shape, depth);
            if self.group.is_some_and(|before| before != group) {
                return Progress::GroupEnds;
            }
            if self.group.is_none() {
                // A scan that jumps would go round for ever.
                let goes_on = |before: (u128, bool)| match self.direction {
                    Direction::Forward => before < group,
                    Direction::Backward => before > group,
                };
                if !self.before.is_none_or(goes_on) {
                    return Progress::Flawed;
                }
                self.group = Some(group);
                for (column, image) in self.images.iter_mut().enumerate().take(depth) {
                    *image = rows.image(from, shape, column);
                }
            }
            end = rows.group_end(from, shape, depth);
        }
        self.add(shape, rows.part(from..end));
        if self.columns[..self.count].iter().any(|column| column.summary.is_out_of_order(self.direction)) {
            return Progress::Flawed;
        }
        self.at = end;
        if end < rows.len() { Progress::GroupEnds } else { Progress::PageEnds }
    }

    fn strings(self, columns: &BytesColumns, matches: &Matches<Bytes>, rows: Range<usize>) -> Progress {
        let (from, end) = (self.at.max(rows.start), rows.end);
        if from >= end {
            return Progress::PageEnds;
        }
        let Some(strings) = &mut self.strings else { return Progress::Flawed };
        let mut next = end;
        if self.depth > 0 {
            if self.group.is_none() {
                let goes_on = self.before.is_none() || strings.group_end(columns, matches, from) == from;
                if !goes_on || strings.take_group(columns, matches, from).is_none() {
                    return Progress::Flawed;
                }
                self.group = Some((self.before.map_or(0, |(number, _)| number + 1), false));
            }
            next = strings.group_end(columns, matches, from).min(end);
        }
        if next == from {
            // A group that has begun here has a row here.
            return if self.rows > 0 { Progress::GroupEnds } else { Progress::Flawed };
        }
        if self.add_strings(columns, matches, from..next).is_none() {
            return Progress::Flawed;
        }
        self.at = next;
        if next < end { Progress::GroupEnds } else { Progress::PageEnds }
    }

    fn count(self, rows: usize) -> Progress {
        self.rows += (rows - self.at) as u64;
        self.at = rows;
        Progress::PageEnds
    }
}

/// Adds to a group its last rows, from the last one back, until all columns that are asked about have a value there.
pub(super) struct LastRows<'g>(pub &'g mut Groups);

impl Visitor for &mut LastRows<'_> {
    type Out = bool;

    fn rows<L: Lane>(self, shape: &KeyShape, rows: Rows<'_, L>) -> bool {
        let groups = &mut *self.0;
        let is_in = |at: usize| groups.group == Some(rows.group(at, shape, groups.depth));
        let end = (0..rows.len()).find(|&at| !is_in(at)).unwrap_or(rows.len());
        let mut all = true;
        for column in &mut groups.columns[..groups.count] {
            let before = column.summary.count();
            column.summary.add(rows.part(0..end), shape, column.number, column.asked, true);
            column.is_last_known |= column.summary.count() > before;
            all &= column.is_last_known;
        }
        !all && end == rows.len()
    }

    fn strings(self, columns: &BytesColumns, matches: &Matches<Bytes>, rows: Range<usize>) -> bool {
        // What is damaged, a scan that goes forward comes to, too.
        self.0.strings.as_mut().is_some_and(|strings| strings.add_last(columns, matches, rows) == Some(false))
    }

    fn count(self, _rows: usize) -> bool {
        false
    }
}
