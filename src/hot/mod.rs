//! Hot lookups: ordered maps that live in memory in front of the pages.
//!
//! Everything here lives in *borrowed memory* of a fixed size and holds offsets, never addresses, so that the processes of
//! a server can share it; none of it allocates, and none of it reads outside its memory, whatever bytes it finds there.
//!
//! - [`descents`]: where leaves begin, in a modular B+-tree.
//! - [`kiss`]: the KISS-tree, for 32-bit keys; many readers and writers at once.
//! - [`modular`]: the modular B+-tree, for lanes of any width; one writer, or readers.
//! - [`rows`]: the hot-key cache, from full keys to their rows; many readers and writers at once.

pub mod descents;
pub mod kiss;
pub mod modular;
pub mod rows;
pub mod word;
