//! Groups of rows, added up page by page.

use fpbtree_engine::format::Lane;
use fpbtree_engine::keys::KeyShape;
use fpbtree_engine::keys::bytes::OwnedKey;
use fpbtree_engine::page::Bytes;
use fpbtree_engine::scan::{Asked, Direction, Matches, Rows, Summary};
use pgrx::pg_sys::{Datum, MemoryContext};

use super::{MOST_COLUMNS, Output, Task};
use crate::am::scan::pages::Visitor;
use crate::values::keys::{BytesColumns, Keyed};
use crate::values::tuple::Tuple;

/// A column that something is asked about.
#[derive(Clone, Copy, Default)]
struct Column {
    number: usize,
    asked: Asked,
    summary: Summary,
}

/// What rows of byte strings are grouped by.
pub(super) struct Strings {
    /// The place behind all keys of the group.
    end: OwnedKey,
    /// The group's values, and for each the bytes that it has if it is passed by value, else 0.
    tuple: Tuple,
    by_value: [u8; MOST_COLUMNS],
}

impl Strings {
    /// No group yet. Of each column, the bytes of its values if these are passed by value, else 0; what the tuple needs is
    /// the context's.
    pub fn new(by_value: [u8; MOST_COLUMNS], context: MemoryContext) -> Strings {
        Strings { end: OwnedKey::new(), tuple: Tuple::new(context), by_value }
    }

    /// Makes room for the group's values.
    ///
    /// # Safety
    /// May raise when out of memory.
    pub unsafe fn prepare(&mut self) {
        // SAFETY: the tuple goes with the node, whose memory the context's is.
        unsafe { self.tuple.make_room() };
    }

    /// Takes a group's values from a row of it. None if that is damaged.
    fn begin(&mut self, columns: &BytesColumns, matches: &Matches<Bytes>, at: usize, depth: usize) -> Option<()> {
        let entry = matches.entry(at)?;
        columns.set_to_front(&entry, depth, true, &mut self.end)?;
        // SAFETY: no frame here owns a destructor.
        unsafe { columns.put_first(depth, &entry, &mut self.tuple) }
    }
}

/// The group of rows that is being added up, or was last.
pub(super) struct Groups {
    depth: usize,
    /// Columns that something is asked about, first come first.
    columns: [Column; MOST_COLUMNS],
    count: usize,
    strings: Strings,
    /// Where in the page the next row is, and where rows end if not all of the page are meant.
    at: usize,
    end: Option<usize>,
    /// What the group's rows have in common, once there is one, and what those of the one before had. Of byte strings it is
    /// the number of the group.
    group: Option<(u128, bool)>,
    before: Option<(u128, bool)>,
    /// The group's values.
    images: [Option<u128>; MOST_COLUMNS],
    rows: u64,
}

/// How far a page's rows are added up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Progress {
    /// The whole page is, and the group may go on in the next one.
    PageEnds,
    /// The group is.
    GroupEnds,
    /// Groups do not ascend, which rows of a sound index do, or an entry is damaged.
    Flawed,
}

impl Groups {
    pub fn new(task: &Task, strings: Strings) -> Groups {
        let none = Column::default();
        let mut groups = Groups {
            depth: task.depth,
            columns: [none; MOST_COLUMNS],
            count: 0,
            strings,
            at: 0,
            end: None,
            group: None,
            before: None,
            images: [None; MOST_COLUMNS],
            rows: 0,
        };
        for item in task.items() {
            let asked = match item.output {
                Output::Rows | Output::Group => continue,
                Output::Count => Asked::default(),
                Output::Sum | Output::Average | Output::CountAndSum => Asked { sum: true, ends: false },
                Output::Least | Output::Greatest => Asked { sum: false, ends: true },
            };
            groups.ask(item.column, asked);
        }
        groups
    }

    /// Asks something about a column, besides what is asked already.
    fn ask(&mut self, number: usize, asked: Asked) {
        let at = self.columns[..self.count].iter().position(|column| column.number == number).unwrap_or(self.count);
        self.count = self.count.max(at + 1);
        let column = &mut self.columns[at];
        column.number = number;
        column.asked.sum |= asked.sum;
        column.asked.ends |= asked.ends;
    }

    /// Goes back to the beginning.
    pub fn restart(&mut self) {
        (self.group, self.before) = (None, None);
    }

    /// Begins with the next group.
    pub fn begin_group(&mut self) {
        (self.before, self.rows) = (self.group.take().or(self.before), 0);
        self.columns[..self.count].iter_mut().for_each(|column| column.summary = Summary::default());
    }

    /// Whether there is a group, and its first rows have said of every column what they can.
    pub fn is_known(&self) -> bool {
        let is_known = |column: &Column| column.summary.count() > 0;
        self.group.is_some() && self.columns[..self.count].iter().all(is_known)
    }

    /// Whether anything is asked about a column.
    pub fn asks(&self) -> bool {
        self.count > 0
    }

    /// Begins with the next page.
    pub fn begin_page(&mut self) {
        (self.at, self.end) = (0, None);
    }

    /// Begins with a row of a page, which is the only one that is meant.
    pub fn begin_row(&mut self, at: usize) {
        (self.at, self.end) = (at, Some(at + 1));
    }

    /// What byte strings are grouped by.
    pub fn strings(&mut self) -> &mut Strings {
        &mut self.strings
    }

    /// The group's value of one of the columns by which byte strings are grouped, `None` for NULL.
    pub fn value(&self, column: usize) -> Option<Datum> {
        self.strings.tuple.value(column, self.strings.by_value[column])
    }

    /// How many rows the group has.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The group's value of one of the columns by which rows are grouped, `None` for NULL.
    pub fn image(&self, column: usize) -> Option<u128> {
        self.images[column]
    }

    /// What is known of a column that something was asked about.
    pub fn summary(&self, column: usize) -> Summary {
        let asked = self.columns[..self.count].iter().find(|asked| asked.number == column);
        asked.map_or(Summary::default(), |asked| asked.summary)
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
                if self.before.is_some_and(|before| before >= group) {
                    return Progress::Flawed;
                }
                self.group = Some(group);
                for (column, image) in self.images.iter_mut().enumerate().take(depth) {
                    *image = rows.image(from, shape, column);
                }
            }
            end = rows.group_end(from, shape, depth);
        }
        let group = rows.part(from..end);
        for column in &mut self.columns[..self.count] {
            let is_ordered = column.number <= depth;
            column.summary.add(group, shape, column.number, column.asked, is_ordered);
        }
        self.rows += group.len() as u64;
        self.at = end;
        if end < rows.len() { Progress::GroupEnds } else { Progress::PageEnds }
    }

    fn strings(self, columns: &BytesColumns, matches: &Matches<Bytes>) -> Progress {
        let (from, end) = (self.at, self.end.unwrap_or(matches.len()));
        if from >= end {
            return Progress::PageEnds;
        }
        let mut next = end;
        if self.depth > 0 {
            let order = Bytes::order(columns);
            let group_end = |strings: &Strings| matches.end_before(from, &strings.end, order, Direction::Forward);
            if self.group.is_none() {
                let ascends = self.before.is_none() || group_end(&self.strings) == from;
                if !ascends || self.strings.begin(columns, matches, from, self.depth).is_none() {
                    return Progress::Flawed;
                }
                self.group = Some((self.before.map_or(0, |(number, _)| number + 1), false));
            }
            next = group_end(&self.strings).min(end);
        }
        self.rows += (next - from) as u64;
        self.at = next;
        if next < end { Progress::GroupEnds } else { Progress::PageEnds }
    }

    fn count(self, rows: usize) -> Progress {
        self.rows += (rows - self.at) as u64;
        self.at = rows;
        Progress::PageEnds
    }
}

/// Adds to a group its last rows, of pages read backward, until all columns that are asked about have a value there.
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
            all &= column.summary.count() > before;
        }
        !all && end == rows.len()
    }

    fn strings(self, _columns: &BytesColumns, _matches: &Matches<Bytes>) -> bool {
        false
    }

    fn count(self, _rows: usize) -> bool {
        false
    }
}
