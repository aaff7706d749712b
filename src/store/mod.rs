//! What the engine asks of the place its pages live in: [pages](PageStore) that are [pinned](Pinned) and
//! [locked](Locked), [hints](Hints) of where leaves are, and [observers](Observers) to be told what happens to leaves.

mod hints;
#[cfg(feature = "memory")]
pub mod memory;
mod observers;
mod pages;

pub use hints::{Hints, Seen};
pub use observers::{DeadSearch, Observers, PageEvent, Suspect};
pub use pages::{
    Cleanup, Exclusive, Frames, LockMode, Locked, Mode, PageStore, Pages, Pinned, Shared, Writable, Writing,
};

/// All that a tree asks of a store.
pub trait Store: PageStore + Hints + Observers {}

impl<S: PageStore + Hints + Observers> Store for S {}
