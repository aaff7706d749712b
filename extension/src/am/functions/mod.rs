//! The functions of the install script, as plain C-language functions: they own no destructor, so errors pass whole.

mod advise;
mod btree;
mod check;
pub mod opened;
mod result;
mod stats;
