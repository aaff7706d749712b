//! Keys: the lane, the tail and the full key that orders every entry of an index.
//!
//! A *lane* is an unsigned integer whose order is the index order. A [`Tail`] breaks its ties: the place of NULL beside
//! the extreme lane, then the heap TID. Together they are the full [`Key`], which no two entries share. A [`KeyShape`]
//! says how the values of an index's columns make a lane, and gets them back from it.
//!
//! Keys that do not fit a lane are byte strings ([`long`]), made of the columns' [`digit`]s; their lane is a prefix.

use core::cmp::Ordering;

use crate::simd;

pub mod digit;
pub mod long;
mod shape;

pub use shape::{Column, ColumnType, KeyShape, Packed, Slot};

/// The width of an index's lanes. The codes are stored on disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum LaneKind {
    /// 32 bits.
    U32 = 1,
    /// 64 bits.
    U64 = 2,
    /// 128 bits.
    U128 = 3,
    /// 64 bits that are a prefix of the key, or of what distinguishes it in its page.
    Prefix = 4,
    /// The same, of entries that have more bytes than those of their keys' normal parts.
    PrefixExtra = 5,
}

impl LaneKind {
    /// Bytes in a lane.
    pub const fn size(self) -> usize {
        match self {
            LaneKind::U32 => 4,
            LaneKind::U64 | LaneKind::Prefix | LaneKind::PrefixExtra => 8,
            LaneKind::U128 => 16,
        }
    }

    /// The kind stored as `code`, if it is one.
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(LaneKind::U32),
            2 => Some(LaneKind::U64),
            3 => Some(LaneKind::U128),
            4 => Some(LaneKind::Prefix),
            5 => Some(LaneKind::PrefixExtra),
            _ => None,
        }
    }

    /// How the kind is stored.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Whether lanes are prefixes of keys, rather than keys.
    pub const fn is_prefix(self) -> bool {
        matches!(self, LaneKind::Prefix | LaneKind::PrefixExtra)
    }

    /// The narrowest kind that holds `bits` bits.
    const fn holding(bits: u32) -> Option<Self> {
        match bits {
            0..=32 => Some(LaneKind::U32),
            33..=64 => Some(LaneKind::U64),
            65..=128 => Some(LaneKind::U128),
            _ => None,
        }
    }
}

/// An unsigned integer whose order is the index order: `u32`, `u64` or `u128`, stored in native byte order at any
/// alignment.
pub trait Lane: simd::Counted + Copy + Ord + core::fmt::Debug + Default + 'static {
    /// Which lane this is.
    const KIND: LaneKind;
    /// Bytes in a lane.
    const SIZE: usize;
    /// The smallest lane.
    const MIN: Self;
    /// The largest lane.
    const MAX: Self;

    /// The smallest key and the largest.
    fn ends() -> [&'static Key<Self>; 2];

    /// The lane, widened.
    fn to_u128(self) -> u128;

    /// The low bits of `v`.
    fn from_u128(v: u128) -> Self;

    /// The lane stored at `bytes[at]`.
    ///
    /// # Panics
    /// If the lane is not inside `bytes`, as indexing a slice does.
    fn read(bytes: &[u8], at: usize) -> Self;

    /// Stores the lane at `bytes[at]`.
    ///
    /// # Panics
    /// If the lane is not inside `bytes`, as indexing a slice does.
    fn write(self, bytes: &mut [u8], at: usize);

    /// How many of the `n` lanes stored from `bytes[at]` on are less than `key`. Never reads outside `bytes`: lanes
    /// that are not inside do not count.
    #[inline]
    fn count_less(bytes: &[u8], at: usize, n: usize, key: Self) -> usize {
        simd::count_less(bytes, at, n, key)
    }

    /// How many of the `n` lanes stored from `bytes[at]` on are `key` or less. Never reads outside `bytes`: lanes that
    /// are not inside do not count.
    #[inline]
    fn count_less_equal(bytes: &[u8], at: usize, n: usize, key: Self) -> usize {
        simd::count_less_equal(bytes, at, n, key)
    }
}

macro_rules! lane {
    ($lane:ident, $kind:ident) => {
        impl Lane for $lane {
            const KIND: LaneKind = LaneKind::$kind;
            const SIZE: usize = size_of::<$lane>();
            const MIN: Self = $lane::MIN;
            const MAX: Self = $lane::MAX;

            #[inline]
            fn ends() -> [&'static Key<Self>; 2] {
                const { [&Key::<$lane>::MIN, &Key::<$lane>::MAX] }
            }

            #[inline]
            fn to_u128(self) -> u128 {
                self as u128
            }

            #[inline]
            fn from_u128(v: u128) -> Self {
                v as $lane
            }

            #[inline]
            fn read(bytes: &[u8], at: usize) -> Self {
                match bytes.get(at..).and_then(<[u8]>::first_chunk) {
                    Some(stored) => $lane::from_ne_bytes(*stored),
                    None => outside(at, bytes.len()),
                }
            }

            #[inline]
            fn write(self, bytes: &mut [u8], at: usize) {
                let len = bytes.len();
                match bytes.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
                    Some(stored) => *stored = self.to_ne_bytes(),
                    None => outside(at, len),
                }
            }
        }
    };
}

lane!(u32, U32);
lane!(u64, U64);
lane!(u128, U128);

#[cold]
#[inline(never)]
fn outside(at: usize, len: usize) -> ! {
    panic!("byte {at} is out of range for {len} bytes")
}

/// What breaks the ties of a lane, in 48 bits that are stored as 6 little-endian bytes.
///
/// From the top: the *rank* (1 bit), which places NULL beside the extreme lane; the heap block (32 bits); the heap
/// offset (12 bits); and three flags, which belong to the entry but not to its place. The derived order is that of the
/// raw bits: compare [`Tail::position`]s to leave the flags out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Tail(u64);

impl Tail {
    /// Bytes in a stored tail.
    pub const SIZE: usize = 6;
    /// The smallest tail.
    pub const MIN: Tail = Tail(0);
    /// The largest tail, without flags.
    pub const MAX: Tail = Tail(Self::ALL & !Self::FLAGS);
    /// The flag of an entry whose heap tuple is known to be dead: a hint. It is in a stored tail's first byte.
    pub const DEAD: u8 = 1;
    /// The flag of an entry whose float was -0, or a NaN with the sign bit.
    pub const NEGATIVE: u8 = 2;
    /// The largest heap offset a tail can hold.
    pub const MAX_OFFSET: u16 = 0x0FFF;
    /// A flag that nothing sets.
    const RESERVED: u64 = 4;

    const ALL: u64 = (1 << 48) - 1;
    const FLAGS: u64 = 0b111;
    const RANK: u64 = 1 << 47;

    /// The tail of an entry for the heap tuple at (`block`, `offset`).
    #[inline]
    pub fn new(rank: bool, block: u32, offset: u16, negative: bool) -> Tail {
        debug_assert!(offset <= Self::MAX_OFFSET, "heap offset {offset}");
        let place = u64::from(block) << 15 | u64::from(offset & Self::MAX_OFFSET) << 3;
        let negative = if negative { Self::NEGATIVE.into() } else { 0 };
        Tail(Self::first(rank).0 | place | negative)
    }

    /// Bits of a [place](Self::place).
    pub const PLACE_BITS: u32 = 45;

    /// Where the row is, as a number that rises with its place in the table, NULLs apart.
    #[inline]
    pub fn place(self) -> u64 {
        self.position().0 >> 3
    }

    /// The tail, without flags, of a row at a place.
    #[inline]
    pub fn at_place(place: u64) -> Tail {
        Tail(place << 3)
    }

    /// The tail without its flags: what order and identity are decided by.
    #[inline]
    pub const fn position(self) -> Tail {
        Tail(self.0 & !Self::FLAGS)
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

    /// The tail of an entry whose heap tuple is not known to be dead.
    #[inline]
    pub const fn alive(self) -> Tail {
        Tail(self.0 & !(Self::DEAD as u64))
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

    /// Whether no entry can have this tail: an unknown flag, or a heap TID that no tuple has.
    #[inline]
    pub const fn is_flawed(self) -> bool {
        (self.0 & Self::RESERVED != 0) | (self.offset() == 0) | (self.block() == u32::MAX)
    }

    /// The smallest tail of a rank.
    #[inline]
    pub const fn first(rank: bool) -> Tail {
        Tail((rank as u64) << 47)
    }

    /// The largest tail of a rank, without flags.
    #[inline]
    pub const fn last(rank: bool) -> Tail {
        Tail(Self::first(rank).0 | (Self::MAX.0 & !Self::RANK))
    }

    /// The position after this one; the largest is its own.
    #[inline]
    pub fn next(self) -> Tail {
        if self < Self::MAX { Tail(self.0 + Self::FLAGS + 1) } else { self }
    }

    /// The tail stored at `bytes[at]`.
    ///
    /// # Panics
    /// If the tail is not inside `bytes`, as indexing a slice does.
    #[inline]
    pub fn read(bytes: &[u8], at: usize) -> Tail {
        match bytes.get(at..).and_then(<[u8]>::first_chunk) {
            Some(stored) => Tail::of(*stored),
            None => outside(at, bytes.len()),
        }
    }

    /// The tail that is stored so.
    #[inline]
    pub fn of([a, b, c, d, e, f]: [u8; Tail::SIZE]) -> Tail {
        Tail(u64::from_le_bytes([a, b, c, d, e, f, 0, 0]))
    }

    /// Stores the tail at `bytes[at]`.
    ///
    /// # Panics
    /// If the tail is not inside `bytes`, as indexing a slice does.
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

    /// The tail of 48 bits; any above them are dropped.
    #[inline]
    pub const fn from_raw(raw: u64) -> Tail {
        Tail(raw & Self::ALL)
    }
}

/// A full key. Keys are ordered, and equal, by their lane and the position of their tail.
#[derive(Clone, Copy, Debug)]
pub struct Key<L> {
    /// The lane.
    pub lane: L,
    /// The tail. Its flags do not count.
    pub tail: Tail,
}

impl<L: Lane> Key<L> {
    /// The smallest key.
    pub const MIN: Self = Key { lane: L::MIN, tail: Tail::MIN };
    /// The largest key.
    pub const MAX: Self = Key { lane: L::MAX, tail: Tail::MAX };

    /// The key of an entry, without the entry's flags.
    #[inline]
    pub fn new(lane: L, tail: Tail) -> Self {
        Key { lane, tail: tail.position() }
    }

    /// The key with the widest lane, for code that does not know the index's own.
    #[inline]
    pub fn erase(self) -> Key<u128> {
        Key { lane: self.lane.to_u128(), tail: self.tail }
    }

    /// The key an [`erase`](Self::erase)d one was.
    #[inline]
    pub fn of(erased: Key<u128>) -> Self {
        Key { lane: L::from_u128(erased.lane), tail: erased.tail }
    }
}

impl<L: Ord> Ord for Key<L> {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        let positions = || self.tail.position().cmp(&other.tail.position());
        self.lane.cmp(&other.lane).then_with(positions)
    }
}

impl<L: Ord> PartialOrd for Key<L> {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<L: Ord> PartialEq for Key<L> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<L: Ord> Eq for Key<L> {}
