//! What comparison functions are asked for, by index: a session counts it.

use core::cell::{Cell, RefCell};
use std::collections::HashMap;

use pgrx::pg_sys::Oid;

use crate::pg::per_backend::PerBackend;

/// What this session has asked of an index's comparison functions.
pub struct CompareCounts {
    index: u32,
    calls: Cell<u64>,
    guesses: Cell<u64>,
    failed: Cell<u64>,
    /// What of them was taken.
    taken: Cell<[u64; 3]>,
    /// Whether it has counted more since, and which had so before it.
    is_new: Cell<bool>,
    next: Cell<Option<&'static CompareCounts>>,
}

/// Counts by index, which stay where they are.
static SESSION: PerBackend<RefCell<Option<HashMap<u32, &'static CompareCounts>>>> = PerBackend::new(RefCell::new(None));

/// The last of those that have counted more than was taken.
static NEW: PerBackend<Cell<Option<&'static CompareCounts>>> = PerBackend::new(Cell::new(None));

impl CompareCounts {
    fn new(index: u32) -> CompareCounts {
        let [calls, guesses, failed] = [const { Cell::new(0) }; 3];
        let (taken, is_new, next) = (Cell::new([0; 3]), Cell::new(false), Cell::new(None));
        CompareCounts { index, calls, guesses, failed, taken, is_new, next }
    }

    /// The session's counts for an index.
    pub fn of_session(index: Oid) -> &'static CompareCounts {
        let (mut session, index) = (SESSION.borrow_mut(), index.to_u32());
        let new = || &*Box::leak(Box::new(CompareCounts::new(index)));
        session.get_or_insert_default().entry(index).or_insert_with(new)
    }

    /// Counts a call of a function.
    #[inline]
    pub fn add_call(&'static self) {
        self.calls.set(self.calls.get() + 1);
        self.note_new();
    }

    /// Counts a place in a page that was guessed, and whether the function agreed.
    #[inline]
    pub fn add_guess(&'static self, is_proved: bool) {
        self.guesses.set(self.guesses.get() + 1);
        self.failed.set(self.failed.get() + u64::from(!is_proved));
        self.note_new();
    }

    /// Calls, guesses, and how many of these were wrong.
    pub fn all(&self) -> [u64; 3] {
        [&self.calls, &self.guesses, &self.failed].map(Cell::get)
    }

    #[inline]
    fn note_new(&'static self) {
        if !self.is_new.replace(true) {
            self.next.set(NEW.replace(Some(self)));
        }
    }
}

/// Takes what was counted since the last time, index by index.
pub fn take(mut taker: impl FnMut(u32, [u64; 3])) {
    while let Some(counts) = NEW.take() {
        NEW.set(counts.next.take());
        counts.is_new.set(false);
        let (all, before) = (counts.all(), counts.taken.replace(counts.all()));
        taker(counts.index, core::array::from_fn(|at| all[at] - before[at]));
    }
}
