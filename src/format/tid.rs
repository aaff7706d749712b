//! The heap TID of an entry, with what orders it beside its lane.

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

    /// The position before this one; the smallest is its own.
    #[inline]
    pub fn previous(self) -> Tail {
        if self > Tail::MIN { Tail(self.0 - (Self::FLAGS + 1)) } else { self }
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

#[cold]
#[inline(never)]
pub(super) fn outside(at: usize, len: usize) -> ! {
    panic!("byte {at} is out of range for {len} bytes")
}
