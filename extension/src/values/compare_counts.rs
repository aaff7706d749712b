//! What comparison functions are asked for, by index: a session counts it.

use core::cell::{Cell, RefCell};
use std::collections::HashMap;

use pgrx::pg_sys::Oid;

use crate::pg::per_backend::PerBackend;

/// What this session has asked of an index's comparison functions.
#[derive(Default)]
pub struct CompareCounts {
    calls: Cell<u64>,
    guesses: Cell<u64>,
    failed: Cell<u64>,
}

/// Counts by index, which stay where they are.
static SESSION: PerBackend<RefCell<Option<HashMap<u32, &'static CompareCounts>>>> = PerBackend::new(RefCell::new(None));

impl CompareCounts {
    /// The session's counts for an index.
    pub fn of_session(index: Oid) -> &'static CompareCounts {
        let mut session = SESSION.borrow_mut();
        session.get_or_insert_default().entry(index.to_u32()).or_insert_with(|| Box::leak(Box::default()))
    }

    /// Counts a call of a function.
    #[inline]
    pub fn add_call(&self) {
        self.calls.set(self.calls.get() + 1);
    }

    /// Counts a place in a page that was guessed, and whether the function agreed.
    #[inline]
    pub fn add_guess(&self, is_proved: bool) {
        self.guesses.set(self.guesses.get() + 1);
        self.failed.set(self.failed.get() + u64::from(!is_proved));
    }

    /// Calls, guesses, and how many of these were wrong.
    pub fn all(&self) -> [u64; 3] {
        [&self.calls, &self.guesses, &self.failed].map(Cell::get)
    }
}
