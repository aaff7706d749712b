//! `Custom Scan (FpbtreeAggregate)`: aggregates over an index's own columns, made of its leaves without making rows of
//! them.
//!
//! `path` offers it to the planner above the index-only scan that the server would make, `node` runs it, `groups` adds
//! up pages of rows, and `results` makes values of the sums.

mod groups;
mod node;
mod path;
mod results;

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
    /// Their sum.
    Sum,
    /// Their average.
    Average,
    /// What a worker says for an average: how many values there are, and their sum.
    CountAndSum,
    /// The least of them.
    Least,
    /// The greatest of them.
    Greatest,
}

impl Output {
    /// All of them, each at the place of its code in a plan.
    const ALL: [Output; 8] = [
        Output::Rows,
        Output::Group,
        Output::Count,
        Output::Sum,
        Output::Average,
        Output::CountAndSum,
        Output::Least,
        Output::Greatest,
    ];
}

/// A column of what the node gives, and the column of the index that it is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Item {
    output: Output,
    column: usize,
}

/// Most columns that a node gives, and that an index has.
const MOST_ITEMS: usize = 64;
const MOST_COLUMNS: usize = fpbtree_engine::keys::KeyShape::MAX_COLUMNS;

/// What a node is to do, as its plan says it in integers: by how many of the first columns of the index rows are
/// grouped, whether they are grouped at all, whether the middle of groups is left out, and what is given.
#[derive(Clone, Copy)]
struct Task {
    depth: usize,
    is_grouped: bool,
    jumps: bool,
    items: [Item; MOST_ITEMS],
    count: usize,
}

impl Task {
    fn new(is_grouped: bool) -> Task {
        let item = Item { output: Output::Rows, column: 0 };
        Task { depth: 0, is_grouped, jumps: false, items: [item; MOST_ITEMS], count: 0 }
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

    /// Whether the ends of groups say all that is given: the values by which rows are grouped, and the least and greatest
    /// of the next column.
    fn is_of_ends(&self) -> bool {
        let is_of_ends = |item: &Item| match item.output {
            Output::Group => true,
            Output::Least | Output::Greatest => item.column <= self.depth,
            Output::Rows | Output::Count | Output::Sum | Output::Average | Output::CountAndSum => false,
        };
        self.depth > 0 && self.items().iter().all(is_of_ends)
    }

    fn integers(&self) -> impl Iterator<Item = i32> {
        let pairs = self.items().iter().flat_map(|item| [item.output as i32, item.column as i32]);
        [self.depth as i32, i32::from(self.is_grouped), i32::from(self.jumps)].into_iter().chain(pairs)
    }

    /// The task that [`integers`](Self::integers) made these of.
    fn of(mut integers: impl Iterator<Item = i32>) -> Option<Task> {
        let (depth, is_grouped, jumps) = (integers.next()?, integers.next()? != 0, integers.next()? != 0);
        let mut task = Task { depth: depth as usize, jumps, ..Task::new(is_grouped) };
        while let Some(output) = integers.next() {
            let output = *Output::ALL.get(output as usize)?;
            if !task.add(Item { output, column: integers.next()? as usize }) {
                return None;
            }
        }
        Some(task)
    }
}
