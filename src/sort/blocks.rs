//! Entries in chains of blocks, and their spreading over other chains.

use core::mem::MaybeUninit;

use super::compact::{Compact, Radix};
use super::host::{Host, List};
use crate::format::Tid;

/// Entries in a slab of memory, which is also how many are sorted in a processor's cache.
pub const SLAB: usize = BLOCK * SLAB_BLOCKS;

/// Entries in a block.
pub(super) const BLOCK: usize = 512;
/// Blocks in a slab.
pub(super) const SLAB_BLOCKS: usize = 128;
/// Chains that a chain is spread over.
pub(super) const FANOUT: usize = 256;
/// Entries that are written to a chain together: enough to fill cache lines, few enough for those of all chains to stay
/// in a processor's nearest caches. Blocks hold a whole number of batches.
const BATCH: usize = 8;

const _: () = assert!(BLOCK.is_multiple_of(BATCH));

/// The number of no block.
const NONE: u32 = u32::MAX;

/// Memory for entries.
pub(super) struct Slab<L> {
    entries: [Compact<L>; SLAB],
    /// The block behind each block in its chain.
    next: [u32; SLAB_BLOCKS],
}

impl<L: Radix> Slab<L> {
    /// A new one.
    fn of<'m, H: Host<'m>>(host: H) -> &'m mut Slab<L> {
        let memory = host.allocate(size_of::<Slab<L>>());
        memory.fill(MaybeUninit::new(0));
        let slab = memory.as_mut_ptr().cast::<Slab<L>>();
        assert!(slab.is_aligned() && memory.len() == size_of::<Slab<L>>(), "memory as it was asked for");
        // SAFETY: the memory is as large and aligned as a slab, as was just looked at, and of entries and numbers any
        // initialised bytes are values.
        unsafe { &mut *slab }
    }

    /// All its entries, side by side.
    pub fn entries(&mut self) -> &mut [Compact<L>; SLAB] {
        &mut self.entries
    }
}

/// Blocks of entries in order: all are full but the last.
#[derive(Clone, Copy)]
pub(super) struct Chain {
    first: u32,
    last: u32,
    count: usize,
}

impl Chain {
    pub const EMPTY: Chain = Chain { first: NONE, last: NONE, count: 0 };

    /// Its entries.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Entries in its last block.
    fn in_last(&self) -> usize {
        self.count - (self.count.saturating_sub(1)) / BLOCK * BLOCK
    }
}

/// What entries are like.
pub(super) struct Survey<L> {
    pub ascending: bool,
    pub descending: bool,
    /// The bits in which not all lanes are the same.
    pub lanes: L,
    /// The bits in which not all TIDs are the same.
    pub tids: u64,
}

/// Slabs, and which of their blocks are free.
pub(super) struct Blocks<'m, L, H> {
    host: H,
    slabs: List<'m, &'m mut Slab<L>, H>,
    /// The first free block; the others follow it as in a chain.
    free: u32,
}

impl<'m, L: Radix, H: Host<'m>> Blocks<'m, L, H> {
    /// None yet, of so many slabs at most.
    pub fn new(host: H, slabs: usize) -> Self {
        assert!(slabs <= NONE as usize / SLAB_BLOCKS, "blocks have numbers of 32 bits");
        Blocks { host, slabs: List::with_room(host, slabs), free: NONE }
    }

    /// Bytes of the slabs.
    #[inline]
    pub fn memory(&self) -> usize {
        self.slabs.len() * size_of::<Slab<L>>()
    }

    /// A slab that is not one of these.
    pub fn new_slab(&mut self) -> &'m mut Slab<L> {
        Slab::of(self.host)
    }

    /// Takes a slab that is not one of these to those that are to be given back.
    pub fn take_back(&mut self, slab: &'m mut Slab<L>) {
        self.slabs.push(slab);
    }

    /// Gives all slabs back, and the memory to list them.
    pub fn free(&mut self) {
        while let Some(slab) = self.slabs.pop() {
            let memory = core::ptr::slice_from_raw_parts_mut(core::ptr::from_mut(slab).cast(), size_of::<Slab<L>>());
            // SAFETY: a slab is what this host gave for it alone, and the only reference to it is not used any more.
            unsafe { self.host.free(memory) };
        }
        self.slabs.free();
        self.free = NONE;
    }

    fn slab_of(&mut self, block: u32) -> (&mut Slab<L>, usize) {
        (&mut self.slabs[block as usize / SLAB_BLOCKS], block as usize % SLAB_BLOCKS)
    }

    fn entries(&mut self, block: u32) -> &mut [Compact<L>] {
        let (slab, at) = self.slab_of(block);
        &mut slab.entries[at * BLOCK..][..BLOCK]
    }

    fn next(&mut self, block: u32) -> &mut u32 {
        let (slab, at) = self.slab_of(block);
        &mut slab.next[at]
    }

    /// A block that is not in use.
    fn allocate(&mut self) -> u32 {
        if self.free == NONE {
            let slab = self.new_slab();
            let first = (self.slabs.len() * SLAB_BLOCKS) as u32;
            slab.next = core::array::from_fn(|at| first + at as u32 + 1);
            slab.next[SLAB_BLOCKS - 1] = NONE;
            self.slabs.push(slab);
            self.free = first;
        }
        let block = self.free;
        self.free = *self.next(block);
        block
    }

    /// What follows the last entry of a chain in its last block, or in a new one: never nothing.
    #[inline]
    fn room(&mut self, chain: &mut Chain) -> &mut [Compact<L>] {
        let used = chain.count % BLOCK;
        if used == 0 {
            let block = self.allocate();
            match chain.last {
                NONE => chain.first = block,
                last => *self.next(last) = block,
            }
            chain.last = block;
        }
        &mut self.entries(chain.last)[used..]
    }

    /// Takes the first entries off a chain, at least so many, if there are as many.
    pub fn cut(&mut self, chain: &mut Chain, least: usize) -> Chain {
        let blocks = least.div_ceil(BLOCK).max(1);
        if blocks * BLOCK >= chain.count {
            return core::mem::replace(chain, Chain::EMPTY);
        }
        let last = (1..blocks).fold(chain.first, |block, _| *self.next(block));
        let first = core::mem::replace(&mut chain.first, *self.next(last));
        chain.count -= blocks * BLOCK;
        Chain { first, last, count: blocks * BLOCK }
    }

    /// Adds an entry.
    #[inline]
    pub fn push(&mut self, chain: &mut Chain, entry: Compact<L>) {
        self.room(chain)[0] = entry;
        chain.count += 1;
    }

    /// Takes the first block off a chain: its entries are copied to `to`, and it is free. Returns how many they are; 0
    /// if the chain is empty.
    fn pop(&mut self, chain: &mut Chain, to: &mut [Compact<L>]) -> usize {
        let count = chain.count.min(BLOCK);
        if count > 0 {
            let block = chain.first;
            to[..count].copy_from_slice(&self.entries(block)[..count]);
            let free = core::mem::replace(&mut self.free, block);
            (chain.first, chain.count) = (core::mem::replace(self.next(block), free), chain.count - count);
        }
        count
    }

    /// Moves a chain's entries to an array of as many.
    pub fn take(&mut self, mut chain: Chain, to: &mut [Compact<L>]) {
        self.host.check();
        let mut done = 0;
        while done < to.len() {
            done += self.pop(&mut chain, &mut to[done..]);
        }
    }

    /// Calls `each` with a chain's entries as they come.
    pub fn hand_over(&mut self, mut chain: Chain, each: &mut dyn FnMut(&[Compact<L>])) {
        let mut entries = [Compact::new(L::MIN, Tid::MIN); BLOCK];
        while chain.count > 0 {
            self.host.check();
            let count = self.pop(&mut chain, &mut entries);
            each(&entries[..count]);
        }
    }

    /// Calls `each` with a chain's entries, the last ones first.
    pub fn hand_back(&mut self, chain: Chain, each: &mut dyn FnMut(&[Compact<L>])) {
        let (mut block, mut before) = (chain.first, NONE);
        while before != chain.last {
            let next = core::mem::replace(self.next(block), before);
            (before, block) = (block, next);
        }
        let mut back = Chain { first: chain.last, last: chain.first, count: chain.in_last() };
        let mut entries = [Compact::new(L::MIN, Tid::MIN); BLOCK];
        let mut left = chain.count;
        while left > 0 {
            self.host.check();
            let count = self.pop(&mut back, &mut entries);
            entries[..count].reverse();
            each(&entries[..count]);
            left -= count;
            back.count = left.min(BLOCK);
        }
    }

    /// Looks at all of a chain's entries, which are several.
    pub fn look(&mut self, chain: &Chain) -> Survey<L> {
        let first = self.entries(chain.first)[0];
        let mut seen = Survey { ascending: true, descending: true, lanes: L::MIN, tids: 0 };
        let (mut block, mut left, mut previous) = (chain.first, chain.count, first);
        while left > 0 {
            self.host.check();
            let entries = &self.entries(block)[..left.min(BLOCK)];
            seen.ascending = seen.ascending && previous <= entries[0] && entries.is_sorted();
            seen.descending = seen.descending && previous >= entries[0] && entries.is_sorted_by(|a, b| a >= b);
            for entry in entries {
                seen.lanes = seen.lanes | (entry.lane() ^ first.lane());
                seen.tids |= entry.tid().raw() ^ first.tid().raw();
            }
            (left, previous) = (left - entries.len(), entries[entries.len() - 1]);
            block = *self.next(block);
        }
        seen
    }

    /// Spreads a chain's entries, in their order, over those that `digit` says.
    pub fn spread(&mut self, mut chain: Chain, digit: impl Fn(Compact<L>) -> u8) -> [Chain; FANOUT] {
        let nothing = Compact::new(L::MIN, Tid::MIN);
        let mut chains = [Chain::EMPTY; FANOUT];
        let mut batches = [[nothing; BATCH]; FANOUT];
        let mut held = [0u8; FANOUT];
        let mut entries = [nothing; BLOCK];
        while chain.count > 0 {
            self.host.check();
            let count = self.pop(&mut chain, &mut entries);
            for &entry in &entries[..count] {
                let digit = digit(entry) as usize;
                let at = held[digit] as usize;
                batches[digit][at % BATCH] = entry;
                held[digit] = (at as u8 + 1) % BATCH as u8;
                if at == BATCH - 1 {
                    self.room(&mut chains[digit])[..BATCH].copy_from_slice(&batches[digit]);
                    chains[digit].count += BATCH;
                }
            }
        }
        for ((chain, batch), held) in chains.iter_mut().zip(&batches).zip(held) {
            batch[..held as usize].iter().for_each(|&entry| self.push(chain, entry));
        }
        chains
    }
}
