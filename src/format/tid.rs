//! The heap TID of an entry, with what orders it beside its lane.

/// What breaks the ties of a lane, in 48 bits that are stored as 6 little-endian bytes.
///
/// From the top: the *rank* (1 bit), which places NULL beside the extreme lane; the heap block (32 bits); the heap
/// offset (12 bits); and three flags, which belong to the entry but not to its place. The derived order is that of the
/// raw bits: compare [`Tid::position`]s to leave the flags out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Tid(u64);

impl Tid {
    /// Bytes in a TID that is stored whole.
    pub const SIZE: usize = 6;
    /// Bytes in a TID that is stored as a difference, at least.
    pub const LEAST_SIZE: usize = 2;
    /// The smallest TID.
    pub const MIN: Tid = Tid(0);
    /// The largest TID, without flags.
    pub const MAX: Tid = Tid(Self::ALL & !Self::FLAGS);
    /// The flag of an entry whose heap tuple is known to be dead: a hint. It is in a stored TID's first byte.
    pub const DEAD: u8 = 1;
    /// The flag of an entry whose float was -0, or a NaN with the sign bit.
    pub const NEGATIVE: u8 = 2;
    /// The largest heap offset a TID can hold.
    pub const MAX_OFFSET: u16 = 0x0FFF;
    /// Bits of a heap offset in a difference: all that offsets in heap pages of 8 KB need.
    pub(crate) const OFFSET_BITS: u32 = 9;
    /// A flag that nothing sets.
    const RESERVED: u64 = 4;

    const ALL: u64 = (1 << 48) - 1;
    const FLAGS: u64 = 0b111;
    const RANK: u64 = 1 << 47;

    /// The TID of an entry for the heap tuple at (`block`, `offset`).
    #[inline]
    pub fn new(rank: bool, block: u32, offset: u16, negative: bool) -> Tid {
        debug_assert!(offset <= Self::MAX_OFFSET, "heap offset {offset}");
        let place = u64::from(block) << 15 | u64::from(offset & Self::MAX_OFFSET) << 3;
        let negative = if negative { Self::NEGATIVE.into() } else { 0 };
        Tid(Self::first(rank).0 | place | negative)
    }

    /// Bits of a [linear number](Self::linear).
    pub const LINEAR_BITS: u32 = 45;

    /// Where in a [linear number](Self::linear) the heap block begins.
    pub const BLOCK_SHIFT: u32 = 12;

    /// Where the row is, as a number that rises with its place in the table, NULLs apart.
    #[inline]
    pub fn linear(self) -> u64 {
        self.position().0 >> 3
    }

    /// The TID, without flags, of a row at a place.
    #[inline]
    pub fn from_linear(place: u64) -> Tid {
        Tid(place << 3)
    }

    /// The TID without its flags: what order and identity are decided by.
    #[inline]
    pub const fn position(self) -> Tid {
        Tid(self.0 & !Self::FLAGS)
    }

    /// The rank: which of an extreme lane and NULL beside it comes first.
    #[inline]
    pub const fn rank(self) -> bool {
        self.0 & Self::RANK != 0
    }

    /// The heap block.
    #[inline]
    pub const fn block(self) -> u32 {
        (self.0 >> 15) as u32
    }

    /// The heap offset.
    #[inline]
    pub const fn offset(self) -> u16 {
        (self.0 >> 3) as u16 & Self::MAX_OFFSET
    }

    /// The TID of an entry whose heap tuple is not known to be dead.
    #[inline]
    pub const fn alive(self) -> Tid {
        Tid(self.0 & !(Self::DEAD as u64))
    }

    /// Whether the entry's heap tuple is known to be dead.
    #[inline]
    pub const fn dead(self) -> bool {
        self.0 as u8 & Self::DEAD != 0
    }

    /// Whether the entry's float was -0, or a NaN with the sign bit.
    #[inline]
    pub const fn negative(self) -> bool {
        self.0 as u8 & Self::NEGATIVE != 0
    }

    /// Whether the TID is more than a place that heaps have, its rank and DEAD.
    #[inline]
    pub(crate) const fn is_special(self) -> bool {
        self.0 & (Self::RESERVED | Self::NEGATIVE as u64) != 0 || self.offset() >> Self::OFFSET_BITS != 0
    }

    /// What is stored of a TID that is not [special](Tid::is_special), in a node whose lowest block is `base`.
    #[inline]
    pub(crate) const fn difference(self, base: u32) -> u64 {
        let block = self.block().wrapping_sub(base) as u64;
        block << (Self::OFFSET_BITS + 1) | (self.offset() as u64) << 1 | self.0 & Self::DEAD as u64
    }

    /// The TID of which a [difference](Tid::difference) is stored; `first` is the [first](Tid::of_block) of the base.
    #[inline]
    pub(crate) const fn from_difference(first: Tid, stored: u64) -> Tid {
        let offset = (stored >> 1) & ((1 << Self::OFFSET_BITS) - 1);
        let block = stored >> (Self::OFFSET_BITS + 1);
        Tid(((first.0 + (block << 15)) | offset << 3 | stored & Self::DEAD as u64) & Self::ALL)
    }

    /// Before all TIDs of a block.
    #[inline]
    pub(crate) const fn of_block(rank: bool, block: u32) -> Tid {
        Tid((rank as u64) << 47 | (block as u64) << 15)
    }

    /// Whether no entry can have this TID: an unknown flag, or a heap TID that no tuple has.
    #[inline]
    pub const fn is_flawed(self) -> bool {
        (self.0 & Self::RESERVED != 0) | (self.offset() == 0) | (self.block() == u32::MAX)
    }

    /// What is so of any of some TIDs. Without a branch, so that vectors do it.
    #[inline]
    pub(crate) fn any(tids: &[Tid]) -> AnyTid {
        tids.iter().fold(AnyTid::default(), |any, tid| AnyTid {
            bits: any.bits | tid.0,
            missing: any.missing | !tid.0,
            offsets: any.offsets | (tid.0 >> 3 & u64::from(Self::MAX_OFFSET)).wrapping_sub(1),
            blocks: any.blocks | ((tid.0 >> 15 & u64::from(u32::MAX)) + 1),
        })
    }

    /// The smallest TID of a rank.
    #[inline]
    pub const fn first(rank: bool) -> Tid {
        Tid((rank as u64) << 47)
    }

    /// The largest TID of a rank, without flags.
    #[inline]
    pub const fn last(rank: bool) -> Tid {
        Tid(Self::first(rank).0 | (Self::MAX.0 & !Self::RANK))
    }

    /// The position after this one; the largest is its own.
    #[inline]
    pub fn next(self) -> Tid {
        if self < Self::MAX { Tid(self.0 + Self::FLAGS + 1) } else { self }
    }

    /// The position before this one; the smallest is its own.
    #[inline]
    pub fn previous(self) -> Tid {
        if self > Tid::MIN { Tid(self.0 - (Self::FLAGS + 1)) } else { self }
    }

    /// The TID stored at `bytes[at]`.
    ///
    /// # Panics
    /// If the TID is not inside `bytes`, as indexing a slice does.
    #[inline]
    pub fn read(bytes: &[u8], at: usize) -> Tid {
        match bytes.get(at..).and_then(<[u8]>::first_chunk) {
            Some(stored) => Tid::of(*stored),
            None => outside(at, bytes.len()),
        }
    }

    /// The TID that is stored so.
    #[inline]
    pub fn of([a, b, c, d, e, f]: [u8; Tid::SIZE]) -> Tid {
        Tid(u64::from_le_bytes([a, b, c, d, e, f, 0, 0]))
    }

    /// Stores the TID at `bytes[at]`.
    ///
    /// # Panics
    /// If the TID is not inside `bytes`, as indexing a slice does.
    #[inline]
    pub fn write(self, bytes: &mut [u8], at: usize) {
        let [a, b, c, d, e, f, _, _] = self.0.to_le_bytes();
        let len = bytes.len();
        match bytes.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
            Some(stored) => *stored = [a, b, c, d, e, f],
            None => outside(at, len),
        }
    }

    /// The 48 bits, flags included.
    #[inline]
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// The TID of 48 bits; any above them are dropped.
    #[inline]
    pub const fn from_raw(raw: u64) -> Tid {
        Tid(raw & Self::ALL)
    }
}

/// What is so of any of some TIDs.
#[derive(Clone, Copy, Default)]
pub(crate) struct AnyTid {
    /// The bits that any has, and those that any lacks.
    bits: u64,
    missing: u64,
    /// The bits that their offsets less 1 have, and their blocks and 1: the highest one if an offset is 0, and the 33rd
    /// one if a block is the last.
    offsets: u64,
    blocks: u64,
}

impl AnyTid {
    /// Whether one [is flawed](Tid::is_flawed).
    #[inline]
    pub fn is_flawed(self) -> bool {
        (self.bits & Tid::RESERVED | self.offsets >> 63 | self.blocks >> 32) != 0
    }

    /// Whether one [is dead](Tid::dead).
    #[inline]
    pub fn dead(self) -> bool {
        self.bits & Tid::DEAD as u64 != 0
    }

    /// Whether one has this [rank](Tid::rank).
    #[inline]
    pub fn has_rank(self, rank: bool) -> bool {
        (if rank { self.bits } else { self.missing }) & Tid::RANK != 0
    }
}

#[cold]
#[inline(never)]
pub(super) fn outside(at: usize, len: usize) -> ! {
    panic!("byte {at} is out of range for {len} bytes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// TIDs with what can be wrong of them, and without.
    fn tid() -> impl Strategy<Value = Tid> {
        let offset = prop_oneof![Just(0), Just(1), Just(Tid::MAX_OFFSET), 1..300u16];
        let block = prop_oneof![Just(0), Just(u32::MAX), Just(u32::MAX - 1), any::<u32>()];
        (any::<bool>(), block, offset, 0..8u64)
            .prop_map(|(rank, block, offset, flags)| Tid::from_raw(Tid::new(rank, block, offset, false).raw() | flags))
    }

    proptest! {
        #[test]
        fn any_is_what_one_by_one_they_are(tids in prop::collection::vec(tid(), 0..6)) {
            let any = Tid::any(&tids);
            prop_assert_eq!(any.is_flawed(), tids.iter().any(|tid| tid.is_flawed()));
            prop_assert_eq!(any.dead(), tids.iter().any(|tid| tid.dead()));
            for rank in [false, true] {
                prop_assert_eq!(any.has_rank(rank), tids.iter().any(|tid| tid.rank() == rank));
            }
        }
    }
}
