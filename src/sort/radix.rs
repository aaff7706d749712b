//! A radix sort of exact lanes in memory, in little more of it than the entries take.
//!
//! Entries are collected in blocks of memory. Sorting spreads the blocks' entries over other blocks by the uppermost
//! bits in which their lanes differ, one chain of blocks a value, and a block that was read is free to be written. A
//! chain that fits a processor's cache is gathered and sorted there, by digits from the lowest up; a longer one is
//! spread again. Both keep the order of entries that tie, and a heap scan gives rows in the order of their TIDs: TIDs
//! are looked at only where lanes are the same.

use super::blocks::{Blocks, Chain, FANOUT, SLAB, SLAB_BLOCKS, Slab};
use super::compact::{Compact, Radix};
use super::host::Host;
use super::slice::{self, DIGIT};
use crate::format::Tid;

/// Slabs to sort in.
const DESK: usize = 2;
/// Slabs for the last blocks of all chains there can be at a time: each spreading uses up a digit of an entry.
const MOST_SPARE: usize = (u128::BITS + 48).div_ceil(DIGIT) as usize * FANOUT / SLAB_BLOCKS;

/// Collects entries and gives them back in order. It owns no destructor.
pub struct RadixSort<'m, L, H> {
    blocks: Blocks<'m, L, H>,
    entries: Chain,
    most: usize,
    desk: Option<[&'m mut Slab<L>; DESK]>,
}

impl<'m, L: Radix, H: Host<'m>> RadixSort<'m, L, H> {
    /// A sort that takes no more than so many bytes in the usual case, but enough to collect one slab's entries.
    pub fn within(host: H, memory: usize) -> Self {
        // Some for the last blocks of chains.
        let slabs = (memory / size_of::<Slab<L>>()).saturating_sub(DESK + FANOUT / SLAB_BLOCKS);
        Self::new(host, slabs.max(1))
    }

    /// A sort of no more entries at a time than so many slabs have. They are asked for when they are needed.
    ///
    /// # Panics
    /// If there are too many slabs for blocks to have numbers of 32 bits.
    pub fn new(host: H, slabs: usize) -> Self {
        let blocks = Blocks::new(host, slabs + MOST_SPARE + DESK);
        RadixSort { blocks, entries: Chain::EMPTY, most: slabs * SLAB, desk: None }
    }

    /// Gives all memory back, and the entries in it. Nothing can be added any more.
    pub fn free(&mut self) {
        let desk = self.desk.take();
        desk.into_iter().flatten().for_each(|slab| self.blocks.take_back(slab));
        self.blocks.free();
        (self.entries, self.most) = (Chain::EMPTY, 0);
    }

    /// Entries collected and not given back yet.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of memory that they are in.
    #[inline]
    pub fn memory(&self) -> usize {
        self.blocks.memory()
    }

    /// The most there can be.
    pub fn most(&self) -> usize {
        self.most
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

    /// Calls `each` with all entries in order, some of them at a time: never none, nor more than [`SLAB`]. Nothing
    /// is left then.
    pub fn drain(&mut self, each: &mut dyn FnMut(&[Compact<L>])) {
        self.drain_some(self.len(), each);
    }

    /// Calls `each` with the entries that were added first, at least so many, in order, some of them at a time. The
    /// others stay.
    pub fn drain_some(&mut self, least: usize, each: &mut dyn FnMut(&[Compact<L>])) {
        let entries = self.blocks.cut(&mut self.entries, least);
        let mut desk = self.desk.take().unwrap_or_else(|| [(); DESK].map(|()| self.blocks.new_slab()));
        self.sort(entries, &mut desk, each);
        self.desk = Some(desk);
    }

    fn sort(&mut self, chain: Chain, desk: &mut [&'m mut Slab<L>; DESK], each: &mut dyn FnMut(&[Compact<L>])) {
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
