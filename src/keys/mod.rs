//! Keys: how the values of an index's columns make what orders its entries, and are got back from it.
//!
//! [`lanes`] packs columns into a lane, if all of them fit; keys that do not are byte strings ([`bytes`]), made of the
//! columns' [`digits`].

pub mod bytes;
pub mod digits;
mod lanes;

pub use lanes::{Column, ColumnType, KeyShape, Packed, Slot};
