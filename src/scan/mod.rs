//! Scans: ranges read a page at a time into a private copy (I6), forward or backward.

mod batch;
mod bytes;
mod cursor;
mod jump_pointers;
mod lanes;
mod ranges;

pub use batch::{Copied, Lanes, LongMatches, Matches, Scannable};
pub use bytes::{Cut, Interval, LongSelection, compare_cuts};
pub use cursor::{Cursor, kill};
pub use jump_pointers::Leaves;
pub use lanes::Selection;
pub use ranges::{Direction, Everything, Range, RowsOf, Wanted};
