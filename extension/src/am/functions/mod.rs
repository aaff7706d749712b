//! The functions of the install script, as plain C-language functions: they own no destructor, so errors pass whole.

mod advise;
mod btree;
mod check;
mod exchange;
pub mod hypothetical;
mod inside;
pub mod opened;
mod pictures;
mod result;
mod shown;
mod stats;
mod totals;
