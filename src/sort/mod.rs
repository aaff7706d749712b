//! Sorting the entries of a build within so much memory: what fits is sorted there; what does not goes to temporary
//! files as sorted *runs*, which are merged, as a whole or [in parts](Sorter::divide).
//!
//! A [`LaneSorter`] sorts exact lanes by their digits, in little more memory than the entries take (a [`RadixSort`]); a
//! [`BytesSorter`] keeps records, and sorts items that lead to them. Both ask a [`Host`] for memory and [`RunFiles`]
//! for files, and own no destructor, as either may leave a call by a jump.

mod any_bytes;
mod blocks;
mod bytes;
mod compact;
mod files;
mod host;
mod items;
mod lanes;
#[cfg(feature = "memory")]
pub mod memory;
mod merge;
mod radix;
mod slice;
mod sorter;

pub use any_bytes::AnyBytes;
pub use blocks::SLAB;
pub use bytes::BytesSorter;
pub use compact::{Compact, Radix};
pub use files::{Filed, RunFiles};
pub use host::Host;
pub use lanes::LaneSorter;
pub use radix::RadixSort;
pub use sorter::Sorter;

#[cfg(test)]
mod tests;
