//! Plan nodes of ours: what the executor would ask an index for row by row, they take from it page by page.
//!
//! Each has the server's own index scan below it, which brings conditions, relations and parameters; each offers itself to
//! the planner by the hook for the steps above scans and joins.

mod aggregate;
mod child;
mod offset;

/// Makes the nodes known to the server. Called when the library is loaded, after all that may fail.
pub fn register() {
    aggregate::register();
    offset::register();
}
