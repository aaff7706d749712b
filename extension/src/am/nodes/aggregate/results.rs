//! Values of what was added up, as the server's own aggregates give them.

use fpbtree_engine::keys::KeyShape;
use pgrx::pg_sys::Datum;

use super::groups::Groups;
use super::sums::Sum;
use super::{Item, Output};
use crate::values::column::{self, ImageBuffer};

/// The value of the item that is at a place of the task's, `None` for NULL. `room` is for a value that is passed by reference; numerics are made in the
/// current memory context. `shape` is there unless keys are byte strings.
///
/// # Safety
/// May raise when out of memory.
pub(super) unsafe fn value(
    (place, item): (usize, Item),
    groups: &Groups,
    shape: Option<&KeyShape>,
    room: &mut ImageBuffer,
) -> Option<Datum> {
    if item.output == Output::Rows {
        return Some(Datum::from(groups.rows(item.filter) as i64));
    }
    // SAFETY: no frame here owns a destructor.
    unsafe {
        let Some(shape) = shape else { return of_strings(place, item, groups, room) };
        let ty = shape.columns().get(item.column)?.ty;
        let summary = groups.summary(item.column, item.filter);
        let end = |which: usize| summary.ends(ty).map(|ends| ends[which]);
        match item.output {
            Output::Rows | Output::Count => Some(Datum::from(summary.count() as i64)),
            Output::Different => Some(Datum::from(summary.different() as i64)),
            Output::Group => groups.image(item.column).map(|image| column::value(ty, image, room)),
            Output::Least | Output::First => end(0).map(|image| column::value(ty, image, room)),
            Output::Greatest | Output::Last => end(1).map(|image| column::value(ty, image, room)),
            Output::Extreme => None,
            Output::Sum | Output::Average | Output::CountAndSum => {
                of_sum(item.output, &Sum::of_lanes(ty, &summary), summary.count(), room)
            }
        }
    }
}

/// The same of byte strings.
unsafe fn of_strings(place: usize, item: Item, groups: &Groups, room: &mut ImageBuffer) -> Option<Datum> {
    match item.output {
        Output::First | Output::Last => groups.end_of_strings(item.output == Output::First),
        Output::Group => groups.string(item.column),
        Output::Different => Some(Datum::from(groups.different_strings() as i64)),
        Output::Extreme => groups.extreme(place),
        Output::Sum | Output::Average | Output::CountAndSum => {
            let (sum, count) = groups.sum_of_strings(item.column, item.filter)?;
            // SAFETY: no frame here owns a destructor.
            unsafe { of_sum(item.output, sum, count, room) }
        }
        _ => Some(Datum::from(groups.values(item.column, item.filter) as i64)),
    }
}

/// The sum of so many values, their average, or both for the server.
unsafe fn of_sum(output: Output, sum: &Sum, count: u64, room: &mut ImageBuffer) -> Option<Datum> {
    // SAFETY: no frame here owns a destructor.
    unsafe {
        match output {
            Output::CountAndSum => sum.state(count),
            _ if count == 0 => None,
            Output::Sum => Some(sum.total(room)),
            _ => Some(sum.average(count)),
        }
    }
}
