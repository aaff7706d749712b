//! Hot lookups: ordered maps that live in memory in front of the pages.
//!
//! Everything here lives in *borrowed memory* of a fixed size and holds offsets, never addresses, so that the processes
//! of a server can share it; none of it allocates, and none of it reads outside its memory, whatever bytes it finds
//! there.
//!
//! - [`descents`]: where leaves begin, in a modular B+-tree.
//! - [`modular`]: the modular B+-tree, for lanes of any width; one writer, or readers.
//! - [`hot_keys`]: from full keys to their rows; many readers and writers at once.
//! - [`tallies`]: counters of many owners; many writers at once.

pub mod descents;
pub mod hot_keys;
pub mod modular;
pub mod tallies;
pub mod word;
