//! Variables of a server process.

use core::ops::Deref;

/// A variable of which each server process has its own, and which one thread uses: the one that runs in the process.
pub struct PerBackend<T>(T);

// SAFETY: the server runs one thread in each process, and starts none that comes here.
unsafe impl<T> Sync for PerBackend<T> {}

impl<T> PerBackend<T> {
    /// A variable with this value at first.
    pub const fn new(value: T) -> PerBackend<T> {
        PerBackend(value)
    }
}

impl<T> Deref for PerBackend<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}
