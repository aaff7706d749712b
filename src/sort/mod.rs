//! Sorting the entries of a build: a radix sort of exact lanes, in little more memory than the entries take.
//!
//! Entries are collected in blocks of memory. Sorting spreads the blocks' entries over other blocks by the uppermost
//! bits in which their lanes differ, one chain of blocks a value, and a block that was read is free to be written. A
//! chain that fits a processor's cache is gathered and sorted there, by digits from the lowest up; a longer one is spread
//! again. Both keep the order of entries that tie, and a heap scan gives rows in the order of their TIDs: TIDs are
//! looked at only where lanes are the same.

mod blocks;
pub mod bytes;
mod merge;
mod slice;

pub use blocks::{Host, Slab};
pub use merge::{Merge, Run};

use blocks::{BLOCK, Blocks, Chain, FANOUT, SLAB_BLOCKS};

use core::cmp::Ordering;
use core::ops::{BitOr, BitXor, Shr};

use crate::format::{Key, Lane, Tid};

/// Entries in a slab of memory, which is also how many are sorted in a processor's cache.
pub const SLAB: usize = BLOCK * SLAB_BLOCKS;
/// Bits by which entries are told apart in one go.
const DIGIT: u32 = 8;
/// Slabs for the last blocks of all chains there can be at a time: each spreading uses up a digit of an entry.
const MOST_SPARE: usize = (u128::BITS + 48).div_ceil(DIGIT) as usize * FANOUT / SLAB_BLOCKS;

/// A lane whose bits can be taken apart.
pub trait Radix: Lane + Shr<u32, Output = Self> + BitXor<Output = Self> + BitOr<Output = Self> {
    /// The lowest 32 bits.
    fn low_bits(self) -> u32;

    /// The number of the uppermost bit that is set, if one is.
    fn leading(self) -> Option<u32>;
}

macro_rules! radix {
    ($($lane:ident)*) => {$(
        impl Radix for $lane {
            #[inline]
            fn low_bits(self) -> u32 {
                self as u32
            }

            #[inline]
            fn leading(self) -> Option<u32> {
                self.checked_ilog2()
            }
        }
    )*};
}

radix!(u32 u64 u128);

/// An entry as it is sorted: a lane and a TID side by side, without padding. All-zero bytes are one.
#[repr(C, packed)]
#[derive(Clone, Copy, Debug)]
pub struct Compact<L> {
    lane: L,
    tid: [u16; 3],
}

impl<L: Lane> Compact<L> {
    /// The entry of a lane and a TID.
    #[inline]
    pub fn new(lane: L, tid: Tid) -> Compact<L> {
        let raw = tid.raw();
        Compact { lane, tid: [raw as u16, (raw >> 16) as u16, (raw >> 32) as u16] }
    }

    /// The lane.
    #[inline]
    pub fn lane(self) -> L {
        self.lane
    }

    /// The full key.
    #[inline]
    pub fn key(self) -> Key<L> {
        Key::new(self.lane, self.tid())
    }

    /// The TID, flags included.
    #[inline]
    pub fn tid(self) -> Tid {
        let [low, middle, high] = self.tid.map(u64::from);
        Tid::from_raw(low | middle << 16 | high << 32)
    }
}

impl<L: Lane> Ord for Compact<L> {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        let (a, b) = (self.lane, other.lane);
        a.cmp(&b).then_with(|| self.tid().cmp(&other.tid()))
    }
}

impl<L: Lane> PartialOrd for Compact<L> {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<L: Lane> PartialEq for Compact<L> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<L: Lane> Eq for Compact<L> {}

/// Slabs to collect entries in, if sorting is to take no more than so many bytes in the usual case: at least one.
pub const fn slabs_within<L>(memory: usize) -> usize {
    // Two to sort in, and some for the last blocks of chains.
    let slabs = (memory / size_of::<Slab<L>>()).saturating_sub(2 + FANOUT / SLAB_BLOCKS);
    if slabs == 0 { 1 } else { slabs }
}

/// How long a sorter's table of slabs is if entries are collected in so many.
pub const fn table_length(slabs: usize) -> usize {
    slabs + MOST_SPARE
}

/// Collects entries and gives them back in order. It owns no destructor.
pub struct Sorter<'m, L, H> {
    blocks: Blocks<'m, L, H>,
    entries: Chain,
    most: usize,
    desk: Option<[&'m mut Slab<L>; 2]>,
}

impl<'m, L: Radix, H: Host<'m, L>> Sorter<'m, L, H> {
    /// A sorter whose table of slabs is [as long](table_length) as their number says. They are asked for when they are
    /// needed.
    ///
    /// # Panics
    /// If the table is too short, or too long for blocks to have numbers of 32 bits.
    pub fn new(host: H, table: &'m mut [Option<&'m mut Slab<L>>]) -> Self {
        let slabs = table.len().checked_sub(MOST_SPARE).expect("a table has room for spare slabs");
        Sorter { blocks: Blocks::new(host, table), entries: Chain::EMPTY, most: slabs * SLAB, desk: None }
    }

    /// Entries collected and not given back yet.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether there is no room for another entry.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.entries.len() == self.most
    }

    /// Adds an entry. There [is room](Self::is_full) for it.
    #[inline]
    pub fn add(&mut self, lane: L, tid: Tid) {
        debug_assert!(!self.is_full());
        self.blocks.push(&mut self.entries, Compact::new(lane, tid));
    }

    /// Calls `each` with all entries in order, some of them at a time: never none, nor more than [`SLAB`]. The sorter
    /// is empty then.
    pub fn drain(&mut self, each: &mut dyn FnMut(&[Compact<L>])) {
        self.drain_some(self.len(), each);
    }

    /// The same with those that were added first, at least so many; the others stay.
    pub fn drain_some(&mut self, least: usize, each: &mut dyn FnMut(&[Compact<L>])) {
        let entries = self.blocks.cut(&mut self.entries, least);
        let mut desk = self.desk.take().unwrap_or_else(|| [(); 2].map(|()| self.blocks.slab()));
        self.sort(entries, &mut desk, each);
        self.desk = Some(desk);
    }

    fn sort(&mut self, chain: Chain, desk: &mut [&'m mut Slab<L>; 2], each: &mut dyn FnMut(&[Compact<L>])) {
        if chain.len() <= SLAB {
            let [gathered, scratch] = desk.each_mut().map(|slab| slab.entries());
            let gathered = &mut gathered[..chain.len()];
            self.blocks.take(chain, gathered);
            slice::sort(gathered, scratch);
            if !gathered.is_empty() {
                each(gathered);
            }
            return;
        }
        let seen = self.blocks.look(&chain);
        if seen.ascending {
            return self.blocks.hand_over(chain, each);
        }
        if seen.descending {
            return self.blocks.hand_back(chain, each);
        }
        // As many chains as make one of them half a slab, if they are alike.
        let bits = (chain.len() / (SLAB / 2)).next_power_of_two().ilog2().clamp(1, DIGIT);
        let mask = u8::MAX >> (DIGIT - bits);
        let chains = match seen.lanes.leading() {
            Some(first) => {
                let shift = (first + 1).saturating_sub(bits);
                self.blocks.spread(chain, |entry| (entry.lane() >> shift).low_bits() as u8 & mask)
            }
            None => {
                let shift = (u64::BITS - seen.tids.leading_zeros()).saturating_sub(bits);
                self.blocks.spread(chain, |entry| (entry.tid().raw() >> shift) as u8 & mask)
            }
        };
        for chain in chains {
            self.sort(chain, desk, each);
        }
    }
}

#[cfg(test)]
mod tests;
