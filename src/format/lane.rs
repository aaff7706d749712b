//! Lanes, and the full key that orders every entry of an index.
//!
//! A *lane* is an unsigned integer whose order is the index order. A [`Tid`] breaks its ties. Together they are the
//! full [`Key`], which no two entries share.

use core::cmp::Ordering;

use super::tid::{Tid, outside};
use crate::simd;

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
    /// 64 bits that are a prefix of the key, of entries with payloads.
    PrefixPayload = 5,
}

impl LaneKind {
    /// All of them, in the order of their codes.
    pub const ALL: [LaneKind; 5] =
        [LaneKind::U32, LaneKind::U64, LaneKind::U128, LaneKind::Prefix, LaneKind::PrefixPayload];

    /// Bytes in a lane.
    pub const fn size(self) -> usize {
        match self {
            LaneKind::U32 => 4,
            LaneKind::U64 | LaneKind::Prefix | LaneKind::PrefixPayload => 8,
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
            5 => Some(LaneKind::PrefixPayload),
            _ => None,
        }
    }

    /// How the kind is stored.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Whether lanes are prefixes of keys, rather than keys.
    pub const fn is_prefix(self) -> bool {
        matches!(self, LaneKind::Prefix | LaneKind::PrefixPayload)
    }

    /// The narrowest kind that holds `bits` bits.
    pub(crate) const fn holding(bits: u32) -> Option<Self> {
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
pub trait Lane: simd::Found + Copy + Ord + core::fmt::Debug + Default + 'static {
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

    /// The low bits of `v`.
    fn from_u64(v: u64) -> Self;

    /// The low bits of a number: `high` above `bits` bits, which `low` has.
    fn from_parts(high: u64, bits: u32, low: u64) -> Self;

    /// The sum, as many bits of it as a lane has.
    fn plus(self, other: Self) -> Self;

    /// The difference, as many bits of it as a lane has.
    fn minus(self, other: Self) -> Self;

    /// What is above the lowest `back` bits, if it has no more than `front` bits, of which there may be 64.
    fn front(self, back: u32, front: u32) -> Option<u64>;

    /// The lowest `bits` bits, less than 128.
    fn low(self, bits: u32) -> u64;

    /// As many bits as `mask` has from the `shift`-th on, which the lane has; 64 at most.
    fn slot(self, shift: u32, mask: u64) -> u64;

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
            fn from_u64(v: u64) -> Self {
                v as $lane
            }

            #[inline]
            fn from_parts(high: u64, bits: u32, low: u64) -> Self {
                match Self::SIZE {
                    16 => (u128::from(high) << bits | u128::from(low)) as $lane,
                    _ => (high << bits | low) as $lane,
                }
            }

            #[inline]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            #[inline]
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }

            #[inline]
            fn front(self, back: u32, front: u32) -> Option<u64> {
                if Self::SIZE == 16 {
                    let above = self as u128 >> back;
                    return (above.checked_shr(front).unwrap_or(0) == 0).then_some(above as u64);
                }
                let above = (self as u64).checked_shr(back).unwrap_or(0);
                (above.checked_shr(front).unwrap_or(0) == 0).then_some(above)
            }

            #[inline]
            fn low(self, bits: u32) -> u64 {
                (self as u128 & ((1 << bits) - 1)) as u64
            }

            #[inline]
            fn slot(self, shift: u32, mask: u64) -> u64 {
                (self >> shift) as u64 & mask
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

/// A full key. Keys are ordered, and equal, by their lane and the position of their TID.
#[derive(Clone, Copy, Debug)]
pub struct Key<L> {
    /// The lane.
    pub lane: L,
    /// The TID. Its flags do not count.
    pub tid: Tid,
}

impl<L: Lane> Key<L> {
    /// The smallest key.
    pub const MIN: Self = Key { lane: L::MIN, tid: Tid::MIN };
    /// The largest key.
    pub const MAX: Self = Key { lane: L::MAX, tid: Tid::MAX };

    /// The key of an entry, without the entry's flags.
    #[inline]
    pub fn new(lane: L, tid: Tid) -> Self {
        Key { lane, tid: tid.position() }
    }

    /// The key with the widest lane, for code that does not know the index's own.
    #[inline]
    pub fn erase(self) -> Key<u128> {
        Key { lane: self.lane.to_u128(), tid: self.tid }
    }

    /// The key an [`erase`](Self::erase)d one was.
    #[inline]
    pub fn of(erased: Key<u128>) -> Self {
        Key { lane: L::from_u128(erased.lane), tid: erased.tid }
    }

    /// The smallest key after this one; the largest is its own.
    #[inline]
    pub fn successor(self) -> Self {
        if self.tid < Tid::MAX {
            return Key::new(self.lane, self.tid.next());
        }
        match self.lane.to_u128().checked_add(1) {
            Some(lane) if self.lane < L::MAX => Key::new(L::from_u128(lane), Tid::MIN),
            _ => Key::MAX,
        }
    }

    /// The largest key before this one.
    pub fn predecessor(self) -> Option<Self> {
        if self.tid > Tid::MIN {
            return Some(Key::new(self.lane, self.tid.previous()));
        }
        let lane = self.lane.to_u128().checked_sub(1)?;
        Some(Key::new(L::from_u128(lane), Tid::MAX))
    }
}

impl<L: Ord> Ord for Key<L> {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        let positions = || self.tid.position().cmp(&other.tid.position());
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
