//! Groups of rows, added up page by page.

use fpbtree_engine::format::Lane;
use fpbtree_engine::keys::KeyShape;
use fpbtree_engine::scan::{Asked, Rows, Summary};

use super::{MOST_COLUMNS, Output, Task};
use crate::am::scan::pages::Visitor;

/// A column that something is asked about.
#[derive(Clone, Copy, Default)]
struct Column {
    number: usize,
    asked: Asked,
    summary: Summary,
}

/// The group of rows that is being added up, or was last.
pub(super) struct Groups {
    depth: usize,
    /// Columns that something is asked about, first come first.
    columns: [Column; MOST_COLUMNS],
    count: usize,
    /// Where in the page the next row is.
    at: usize,
    /// What the group's rows have in common, once there is one, and what those of the one before had.
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
    /// Groups do not ascend, which rows of a sound index do.
    OutOfOrder,
}

impl Groups {
    pub fn new(task: &Task) -> Groups {
        let none = Column::default();
        let mut groups = Groups {
            depth: task.depth,
            columns: [none; MOST_COLUMNS],
            count: 0,
            at: 0,
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
        self.at = 0;
    }

    /// How many rows the group has.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Adds rows of which nothing is asked but how many there are.
    pub fn add_rows(&mut self, rows: u64) {
        self.rows += rows;
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
                    return Progress::OutOfOrder;
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

    fn count(self, _rows: usize) -> bool {
        false
    }
}
