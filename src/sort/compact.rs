//! Entries as they are sorted, if their keys are exact lanes.

use core::cmp::Ordering;
use core::ops::{BitOr, BitXor, Shr};

use super::any_bytes::AnyBytes;
use crate::format::{Key, Lane, Tid};

/// A lane whose bits can be taken apart.
pub trait Radix: Lane + AnyBytes + Shr<u32, Output = Self> + BitXor<Output = Self> + BitOr<Output = Self> {
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

// SAFETY: it is packed, so nothing lies between or behind its fields, of which any bytes are values.
unsafe impl<L: AnyBytes> AnyBytes for Compact<L> {}

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
