//! Runs the node. No row is taken from the scan below, unless conditions have to be looked at again.

use core::ffi::CStr;

use fpbtree_engine::keys::KeyShape;
use pgrx::pg_sys::{
    self, Aggref, CustomExecMethods, CustomScan, CustomScanMethods, CustomScanState, Datum, ExplainState, ExprContext,
    MemoryContext, Node, NodeTag, Relation, TargetEntry, TupleTableSlot,
};

use super::extremes::Extreme;
use super::filters::Filters;
use super::groups::{Groups, LastRows, Progress};
use super::strings::Strings;
use super::{MOST_COLUMNS, Output, Task, results};
use crate::am::nodes::executor::{self, Below, Work};
use crate::am::scan::{self, pages};
use crate::pg::per_backend::PerBackend;
use crate::pg::{aggregates, errors, ffi, list, memory};
use crate::values::column::{self, ImageBuffer};

/// What the node works with.
pub struct Aggregate {
    below: Below,
    task: Task,
    /// Unless keys are byte strings, or the plan is only explained.
    shape: Option<KeyShape>,
    groups: Groups,
    stage: Stage,
    /// For a value of each item.
    rooms: &'static mut [ImageBuffer],
}

/// How far a scan has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing is read.
    Fresh,
    /// A page is there, of which rows may be left.
    InPage,
    /// Rows come one by one, as conditions have to be looked at again. One may be there that is not added up yet.
    Rechecked { is_there: bool },
    /// A group has been left before its end, and nothing behind it is read.
    Behind,
    /// No row is left.
    Over,
    /// The only row of a node that does not group has been given, too.
    Done,
}

impl Work for Aggregate {
    const NAME: &CStr = c"FpbtreeAggregate";

    fn methods() -> (&'static CustomScanMethods, &'static CustomExecMethods) {
        static SCAN: PerBackend<CustomScanMethods> = PerBackend::new(executor::scan_methods::<Aggregate>());
        static EXEC: PerBackend<CustomExecMethods> = PerBackend::new(executor::exec_methods::<Aggregate>());
        (&SCAN, &EXEC)
    }

    unsafe fn begin(node: &mut CustomScanState, plan: &CustomScan, below: Below) -> Aggregate {
        // SAFETY: a plan of `path`'s; the index is open, unless the plan is only explained.
        unsafe {
            let Some(task) = Task::of(list::integers(plan.custom_private)) else { executor::malformed::<Aggregate>() };
            check_may_call(plan);
            let rel = below.child.index();
            let shape = if rel.is_null() { None } else { column::exact_shape(rel) };
            let mut by_value = [0; MOST_COLUMNS];
            if !rel.is_null() {
                by_value.iter_mut().zip(column::widths(rel)).for_each(|(place, width)| *place = width);
            }
            let context = pg_sys::CurrentMemoryContext;
            let filters = Filters::begin(node, plan, &task, by_value, context);
            let (_, direction) = below.child.plan();
            let mut groups = Groups::new(&task, scan::way(direction), filters, context);
            if shape.is_none() && !rel.is_null() {
                let keys = (*(*rel).rd_index).indnkeyatts as usize;
                let strings = memory::value(context, Strings::new(&task, scan::way(direction), by_value, context));
                let extremes = extremes(&task, plan, rel, context);
                if groups.are_of_strings(keys, column::base_types(rel), (strings, extremes), context).is_none() {
                    executor::malformed::<Aggregate>()
                }
            }
            let rooms = memory::values(context, task.items().iter(), |_| ImageBuffer::new());
            Aggregate { below, task, shape, groups, stage: Stage::Fresh, rooms }
        }
    }

    fn below(&mut self) -> &mut Below {
        &mut self.below
    }

    /// The row of the next group.
    unsafe fn next_row(&mut self, slot: &mut TupleTableSlot, context: *mut ExprContext) -> bool {
        // SAFETY: the slot has a column for each item. No frame here owns a destructor.
        unsafe {
            if !self.next_group() {
                return false;
            }
            let before = pg_sys::MemoryContextSwitchTo((*context).ecxt_per_tuple_memory);
            for (at, &item) in self.task.items().iter().enumerate() {
                let value = results::value((at, item), &self.groups, self.shape.as_ref(), &mut self.rooms[at]);
                *slot.tts_values.add(at) = value.unwrap_or(Datum::null());
                *slot.tts_isnull.add(at) = value.is_none();
            }
            pg_sys::MemoryContextSwitchTo(before);
            ffi::ExecStoreVirtualTuple(slot);
        }
        true
    }

    fn restart(&mut self) {
        self.stage = Stage::Fresh;
        self.groups.restart();
    }

    /// Says by which columns rows are grouped, and whether the middle of groups is left out.
    unsafe fn explain(&mut self, state: *mut ExplainState) {
        let depth = if self.task.is_grouped { self.task.depth } else { 0 };
        // SAFETY: the relations of the plan are locked.
        unsafe {
            executor::explain_group(self.below.child, depth, state);
            if self.task.jumps {
                ffi::ExplainPropertyBool(c"Group Ends Only".as_ptr(), true, state);
            }
        }
    }
}

impl Aggregate {
    /// Adds up the next group; `false` if there is none. Without grouping there is one, even of no row.
    unsafe fn next_group(&mut self) -> bool {
        if self.stage == Stage::Done {
            return false;
        }
        // SAFETY: the scan below is ours alone; what is read of it was begun before.
        unsafe {
            self.groups.begin_group();
            if self.stage == Stage::Fresh {
                self.prepare();
            }
            loop {
                let stage = self.stage;
                match stage {
                    Stage::InPage => match pages::visit(self.below.child.scan(), &mut self.groups) {
                        Progress::GroupEnds => return true,
                        Progress::Flawed => self.fail(),
                        Progress::PageEnds if self.jump() => {
                            self.stage = if self.task.is_grouped { Stage::Behind } else { Stage::Done };
                            return true;
                        }
                        Progress::PageEnds if self.leave_value() || !self.see_more() => self.read_page(),
                        Progress::PageEnds => {}
                    },
                    Stage::Rechecked { is_there: false } if !self.next_row_is_there() => self.stage = Stage::Over,
                    Stage::Rechecked { .. } => match pages::visit_row(self.below.child.scan(), &mut self.groups) {
                        Progress::GroupEnds => return true,
                        Progress::Flawed => self.fail(),
                        Progress::PageEnds => self.stage = Stage::Rechecked { is_there: false },
                    },
                    Stage::Fresh | Stage::Behind => self.read_page(),
                    Stage::Over | Stage::Done => break,
                }
            }
        }
        if !self.task.is_grouped {
            self.stage = Stage::Done;
        }
        !self.task.is_grouped || self.groups.rows(None) > 0
    }

    /// Begins the index's scan. If conditions have to be looked at again, rows come one by one. Exact lanes never need that,
    /// as only a comparison of rows is looked at again there.
    unsafe fn prepare(&mut self) {
        // SAFETY: the node below has begun, and nothing is read of its scan.
        unsafe {
            self.below.child.prepare();
            if self.shape.is_none() {
                self.groups.prepare_strings();
            }
            if pages::rechecks(self.below.child.scan()) {
                self.stage = Stage::Rechecked { is_there: false };
            }
        }
    }

    /// Has the scan below give its next row, of which the conditions hold, to be added up.
    unsafe fn next_row_is_there(&mut self) -> bool {
        // SAFETY: the node below has begun.
        unsafe {
            let is_there = !ffi::is_empty(self.below.next_row());
            if is_there {
                self.groups.begin_page();
                self.stage = Stage::Rechecked { is_there };
            }
            is_there
        }
    }

    #[cold]
    unsafe fn fail(&self) -> ! {
        // SAFETY: a page was read.
        unsafe { pages::fail(self.below.child.scan(), "groups are out of order, or a key is damaged") }
    }

    /// Leaves the group, if the plan says so and its first rows have said what they can, after a look at its last ones.
    unsafe fn jump(&mut self) -> bool {
        if !self.task.jumps || self.task.counts_different() || !self.groups.is_known() {
            return false;
        }
        let (depth, wants_last) = (self.task.depth, self.groups.asks());
        let mut last = LastRows(&mut self.groups);
        let last = wants_last.then_some(&mut last);
        // SAFETY: the scan below is ours alone, at a page, and of one process.
        unsafe {
            self.below.measured(|below| (pages::leave_group(below.child.scan(), depth, &mut below.visibility, last), 0))
        }
    }

    /// Goes behind the rows that have the value of the last row in the next column, if the plan says so: that it is there is
    /// known.
    unsafe fn leave_value(&mut self) -> bool {
        if !self.task.jumps || !self.task.counts_different() {
            return false;
        }
        let (columns, last) = (self.task.depth + 1, None::<&mut LastRows>);
        // SAFETY: the scan below is ours alone, at a page, and of one process.
        unsafe {
            self.below.measured(|below| {
                let left = pages::leave_group(below.child.scan(), columns, &mut below.visibility, last);
                (left, 0)
            })
        }
    }

    /// Has more rows of the page looked up, if there are any.
    unsafe fn see_more(&mut self) -> bool {
        // SAFETY: the scan below is ours alone, at a page.
        unsafe {
            self.below.measured(|below| {
                let before = below.visibility.seen;
                let any = pages::see_more(below.child.scan(), &mut below.visibility);
                (any, below.visibility.seen - before)
            })
        }
    }

    /// Reads the next page, if there is one. Unless the middle of groups is left out, all of its rows are looked up together.
    unsafe fn read_page(&mut self) {
        let begins = (self.stage == Stage::Fresh).then_some(self.groups.direction());
        let (wants_keys, jumps) = (self.task.depth > 0 || self.groups.asks(), self.task.jumps);
        errors::check_for_interrupts();
        // SAFETY: the node below has begun, and so has the index's scan.
        let is_there = unsafe {
            self.below.measured(|below| {
                let before = below.visibility.seen;
                let is_there = pages::read(below.child.scan(), begins, wants_keys, &mut below.visibility);
                if is_there && !jumps {
                    pages::see_all(below.child.scan(), &mut below.visibility);
                }
                (is_there, below.visibility.seen - before)
            })
        };
        self.groups.begin_page();
        self.stage = if is_there { Stage::InPage } else { Stage::Over };
    }
}

/// Raises an error unless the user may call a plan's aggregates (`ExecInitAgg`).
unsafe fn check_may_call(plan: &CustomScan) {
    // SAFETY: a plan of `path`'s; a node is what its tag says. No frame here owns a destructor.
    unsafe {
        for entry in list::members::<TargetEntry>(plan.custom_scan_tlist) {
            let expression = (*entry).expr.cast::<Node>();
            if (*expression).type_ == NodeTag::T_Aggref {
                aggregates::check_may_call((*expression.cast::<Aggref>()).aggfnoid);
            }
        }
    }
}

/// What a plan's aggregates ask for whatever the order of the index is.
unsafe fn extremes(task: &Task, plan: &CustomScan, rel: Relation, context: MemoryContext) -> &'static mut [Extreme] {
    let items = task.items().iter().copied().enumerate().filter(|(_, item)| item.output == Output::Extreme);
    // SAFETY: the index is open, and the entry of such an item is an aggregate.
    unsafe {
        memory::values(context, items, |(place, item)| {
            let entry = list::members::<TargetEntry>(plan.custom_scan_tlist).nth(place);
            let Some(entry) = entry else { executor::malformed::<Aggregate>() };
            Extreme::of((place, item), &*(*entry).expr.cast::<Aggref>(), rel, context)
        })
    }
}
