//! `Custom Scan (FpbtreeAggregate)`: aggregates over an index's own columns, made of its leaves without making rows of
//! them.
//!
//! `path` offers it to the planner above the index-only scan that the server would make, `node` runs it, `groups` adds
//! up pages of rows, `filters` says which of them, `strings` knows those that are no lanes, `sums` adds up values,
//! `extremes` finds the least and greatest of those that are in no order, and `results` has what comes of it.

mod extremes;
mod filters;
mod groups;
mod node;
mod path;
mod results;
mod strings;
mod sums;

use self::filters::{MOST_FILTERS, bits};

pub(super) use node::Aggregate;
pub(super) use path::add_paths;

/// A column of what the node gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Output {
    /// The rows of the group.
    Rows,
    /// The group's value of a column.
    Group,
    /// How many values a column has.
    Count,
    /// How many different values the column behind those of the group has.
    Different,
    /// Their sum.
    Sum,
    /// Their average.
    Average,
    /// What a worker says for an average, or for a sum that may be greater than its type: how many values there are, and their
    /// sum.
    CountAndSum,
    /// The least of them.
    Least,
    /// The greatest of them.
    Greatest,
    /// Of byte strings, the first of the next column's values in the group.
    First,
    /// The last of these.
    Last,
    /// Of byte strings, the value of any column that comes before all others in the order of the aggregate's own.
    Extreme,
}

impl Output {
    /// All of them, each at the place of its code in a plan.
    const ALL: [Output; 12] = [
        Output::Rows,
        Output::Group,
        Output::Count,
        Output::Different,
        Output::Sum,
        Output::Average,
        Output::CountAndSum,
        Output::Least,
        Output::Greatest,
        Output::First,
        Output::Last,
        Output::Extreme,
    ];
}

/// A column of what the node gives, the column of the index that it is about, and the filter of the rows, if it has one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Item {
    output: Output,
    column: usize,
    filter: Option<usize>,
}

impl Item {
    /// Of all rows.
    fn of_all(output: Output, column: usize) -> Item {
        Item { output, column, filter: None }
    }
}

/// Most columns that a node gives, and that an index has.
const MOST_ITEMS: usize = 64;
const MOST_COLUMNS: usize = fpbtree_engine::keys::KeyShape::MAX_COLUMNS;
/// How a plan says that an item has no filter.
const NO_FILTER: i32 = -1;

/// What a node is to do, as its plan says it in integers: by how many of the first columns of the index rows are
/// grouped, whether they are grouped at all, whether the middle of groups is left out, or that of values if these are
/// counted, the columns that filters are about, and what is given.
#[derive(Clone, Copy)]
struct Task {
    depth: usize,
    is_grouped: bool,
    jumps: bool,
    /// For each filter a bit for each column; zeros behind the last one.
    filters: [u32; MOST_FILTERS],
    items: [Item; MOST_ITEMS],
    count: usize,
}

impl Task {
    fn new(is_grouped: bool) -> Task {
        let item = Item::of_all(Output::Rows, 0);
        let filters = [0; MOST_FILTERS];
        Task { depth: 0, is_grouped, jumps: false, filters, items: [item; MOST_ITEMS], count: 0 }
    }

    fn items(&self) -> &[Item] {
        &self.items[..self.count]
    }

    /// Adds an item; `false` if there are too many.
    fn add(&mut self, item: Item) -> bool {
        let room = self.items.get_mut(self.count).map(|place| *place = item);
        self.count += usize::from(room.is_some());
        room.is_some()
    }

    /// The columns that are given as they are, a bit for each.
    fn shown_columns(&self) -> u32 {
        let shown = self.items().iter().filter(|item| item.output == Output::Group);
        shown.fold(0, |columns, item| columns | 1 << item.column)
    }

    /// The columns that filters are about and that are not given as they are, a bit for each. They are behind what is given.
    fn columns_behind(&self) -> u32 {
        self.filters.iter().fold(0, |columns, filter| columns | filter) & !self.shown_columns()
    }

    /// The columns that have to be behind those of the group, for what is asked about them.
    fn next_columns(&self) -> impl Iterator<Item = usize> {
        let is_of_next = |item: &&Item| matches!(item.output, Output::First | Output::Last | Output::Different);
        self.items().iter().filter(is_of_next).map(|item| item.column)
    }

    /// Has all rows of a group looked at for ends of other columns than the one behind these.
    fn ask_all_for_ends_but_of(&mut self, next: usize) {
        for item in &mut self.items[..self.count] {
            if matches!(item.output, Output::First | Output::Last) && item.column != next {
                item.output = Output::Extreme;
            }
        }
    }

    /// Whether nothing is asked but how many different values the next column has.
    fn counts_different(&self) -> bool {
        let is_of_groups = |item: &Item| matches!(item.output, Output::Group | Output::Different);
        self.next_columns().next().is_some() && self.items().iter().all(is_of_groups)
    }

    /// Where a row of what the node gives, and of the columns behind it, has each column.
    fn places(&self) -> [usize; MOST_COLUMNS] {
        let mut places = [0; MOST_COLUMNS];
        // The first of several is the one that the server goes by.
        for (at, item) in self.items().iter().enumerate().rev().filter(|(_, item)| item.output == Output::Group) {
            places[item.column] = at;
        }
        for (at, column) in bits(self.columns_behind()).enumerate() {
            places[column] = self.count + at;
        }
        places
    }

    /// Whether the ends of groups say all that is given: the values by which rows are grouped, and the least and greatest
    /// of the next column.
    fn is_of_ends(&self) -> bool {
        let is_of_ends = |item: &Item| match item.output {
            Output::Group | Output::First | Output::Last => true,
            Output::Least | Output::Greatest => item.column <= self.depth,
            Output::Rows | Output::Count | Output::Different | Output::Extreme => false,
            Output::Sum | Output::Average | Output::CountAndSum => false,
        };
        self.depth > 0 && self.items().iter().all(|item| item.filter.is_none() && is_of_ends(item))
    }

    fn integers(&self) -> impl Iterator<Item = i32> {
        let filter = |item: &Item| item.filter.map_or(NO_FILTER, |filter| filter as i32);
        let items = self.items().iter().flat_map(move |item| [item.output as i32, item.column as i32, filter(item)]);
        let filters = self.filters.iter().map(|&columns| columns as i32);
        [self.depth as i32, i32::from(self.is_grouped), i32::from(self.jumps)].into_iter().chain(filters).chain(items)
    }

    /// The task that [`integers`](Self::integers) made these of.
    fn of(mut integers: impl Iterator<Item = i32>) -> Option<Task> {
        let (depth, is_grouped, jumps) = (integers.next()?, integers.next()? != 0, integers.next()? != 0);
        let mut task = Task { depth: depth as usize, jumps, ..Task::new(is_grouped) };
        for filter in &mut task.filters {
            *filter = integers.next()? as u32;
        }
        while let Some(output) = integers.next() {
            let output = *Output::ALL.get(output as usize)?;
            let (column, filter) = (integers.next()? as usize, integers.next()?);
            let filter = (filter != NO_FILTER).then_some(filter as usize);
            if column >= MOST_COLUMNS || filter >= Some(MOST_FILTERS) || !task.add(Item { output, column, filter }) {
                return None;
            }
        }
        Some(task)
    }
}
