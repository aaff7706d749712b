//! Changes, as data: everything that happens to pages, in records that name slots and never compare keys (I7).
//!
//! The forward path and redo apply the same edits, with the functions of [`page`](crate::page).

mod change;
mod edit;
mod ranges;
mod record;

pub use change::{Change, MOST_BLOCKS};
pub use edit::{Cell, Edit, Fence, Horizon};
pub use ranges::Ranges;
pub use record::{BlockEdits, Decoded, Out, RecordKind};
pub(crate) use record::{insertion, series};
