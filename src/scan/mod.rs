//! Scans: ranges read a page at a time into a private copy (I6), forward or backward.

mod batch;
mod bytes;
mod cursor;
mod jump_pointers;
mod lanes;
mod ranges;
mod rounds;
mod summary;

pub use batch::{BytesBatch, KeyBatch, LaneBatch, Matches, Scannable};
pub use bytes::{BytesSelection, Cut, Interval, compare_cuts};
pub use cursor::{Cursor, kill};
pub use jump_pointers::JumpPointers;
pub use lanes::Selection;
pub use ranges::{Direction, Everything, Range, RowsOf, Wanted};
pub use rounds::Rounds;
pub use summary::{Asked, FloatSums, Rows, Summary};
