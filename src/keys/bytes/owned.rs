//! Memory for keys and places.

use core::mem::MaybeUninit;

use super::{BytesKey, BytesOrder, BytesShape, HEAD, KeyShape, MOST_PARTS, MOST_PLACE, OVERLAP, Parts, Stored};
use crate::format::Tid;

/// Bytes of which so many at the front have been written: making one costs nothing.
#[derive(Clone, Copy)]
pub struct KeyBuffer {
    written: u16,
    bytes: [MaybeUninit<u8>; KeyBuffer::SIZE],
}

impl Default for KeyBuffer {
    fn default() -> Self {
        KeyBuffer::new()
    }
}

impl KeyBuffer {
    /// As much as a key's two parts can have, and the zeros a key cut short is taken to go on with.
    pub const SIZE: usize = MOST_PLACE + OVERLAP + PADDING;

    /// Nothing written.
    #[inline(always)]
    pub const fn new() -> KeyBuffer {
        // Repeating what is not initialized writes zeroes.
        // SAFETY: an array of bytes that need not be initialized needs not be, either.
        KeyBuffer { written: 0, bytes: unsafe { MaybeUninit::uninit().assume_init() } }
    }

    /// Zeros at the front, to be written over.
    ///
    /// # Panics
    /// If there is no room for so many.
    #[inline]
    pub fn zeroed(&mut self, length: usize) -> &mut [u8] {
        let front = &mut self.bytes[..length];
        front.fill(MaybeUninit::new(0));
        self.written = self.written.max(length as u16);
        // SAFETY: just written.
        unsafe { front.assume_init_mut() }
    }

    /// A normal part in one piece, then zeros. None if there is no room for it.
    #[inline]
    pub(super) fn normal(&mut self, stored: &Stored<'_>, zeros: usize) -> Option<&mut [u8]> {
        let at = self.join(stored)?;
        // The ordinary case takes no call.
        let (few, more) = self.bytes.get_mut(at..)?.split_at_mut_checked(ZEROS)?;
        few.fill(MaybeUninit::new(0));
        if zeros > ZEROS {
            more.get_mut(..zeros - ZEROS)?.fill(MaybeUninit::new(0));
        }
        self.written = self.written.max((at + zeros.max(ZEROS)) as u16);
        // SAFETY: just written.
        Some(unsafe { self.bytes[..at + zeros].assume_init_mut() })
    }

    /// Writes a normal part in one piece to the front, and says how many bytes it has. None if there is no room for it.
    #[inline(always)]
    fn join(&mut self, stored: &Stored<'_>) -> Option<usize> {
        let mut at = 0;
        for piece in [stored.prefix, &stored.head.to_be_bytes(), stored.suffix] {
            copy_few(piece, self.bytes.get_mut(at..at + piece.len())?);
            at += piece.len();
        }
        Some(at)
    }

    /// A normal part in one piece, less the zeros at its end. None if there is no room for it.
    #[inline(always)]
    pub fn unpadded(&mut self, stored: &Stored<'_>) -> Option<&mut [u8]> {
        let whole = self.join(stored)?;
        let length = match stored.head.trailing_zeros() as usize / 8 {
            _ if !stored.suffix.is_empty() => whole,
            HEAD => stored.normal_length(),
            zeros => whole - zeros,
        };
        self.written = self.written.max(length as u16);
        // SAFETY: just written.
        Some(unsafe { self.bytes[..length].assume_init_mut() })
    }

    /// Writes bytes at a place, all before which have been written.
    ///
    /// # Panics
    /// If they have not, or if there is no room.
    #[inline]
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        assert!(at <= self.written.into(), "bytes are left out");
        self.bytes[at..at + bytes.len()].write_copy_of_slice(bytes);
        self.written = self.written.max((at + bytes.len()) as u16);
    }

    /// The first bytes, or as many of them as have been written.
    #[inline]
    pub fn front(&self, length: usize) -> &[u8] {
        let front = &self.bytes[..length.min(self.written.into())];
        // SAFETY: `written` is raised only where all bytes up to there have been written.
        unsafe { front.assume_init_ref() }
    }
}

/// Copies bytes into as many, few of them without a call.
#[inline(always)]
fn copy_few(from: &[u8], to: &mut [MaybeUninit<u8>]) {
    /// Copies `N` to `2 N` bytes as two pieces, which overlap where they are fewer.
    #[inline(always)]
    fn ends<const N: usize>(from: &[u8], to: &mut [MaybeUninit<u8>]) -> Option<()> {
        let (front, back) = (from.first_chunk::<N>()?, from.last_chunk::<N>()?);
        *to.first_chunk_mut::<N>()? = front.map(MaybeUninit::new);
        *to.last_chunk_mut::<N>()? = back.map(MaybeUninit::new);
        Some(())
    }
    let copied = match from.len() {
        0 => Some(()),
        1 => ends::<1>(from, to),
        2..=3 => ends::<2>(from, to),
        4..=7 => ends::<4>(from, to),
        8..=16 => ends::<8>(from, to),
        17..=32 => ends::<16>(from, to),
        _ => None,
    };
    if copied.is_none() {
        to.write_copy_of_slice(from);
    }
}

/// Zeros that a key cut short is taken to go on with, at most: enough for a digit of fixed width in every column.
const PADDING: usize = (BytesShape::WIDEST * KeyShape::MAX_COLUMNS).next_multiple_of(ZEROS);
/// Zeros that are always written.
const ZEROS: usize = 64;

/// A place in key order with memory of its own. Plain memory; copying one copies only what is in use where
/// [`assign`](OwnedKey::assign) does it.
#[derive(Clone, Copy)]
pub struct OwnedKey {
    normal: u16,
    value: u16,
    above: bool,
    tid: Tid,
    buffer: KeyBuffer,
}

impl core::fmt::Debug for OwnedKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:?}|{:?} {} {:?}", self.normal(), self.value(), self.above, self.tid)
    }
}

impl Default for OwnedKey {
    fn default() -> Self {
        OwnedKey::new()
    }
}

impl OwnedKey {
    /// The place before all keys.
    pub const FIRST: OwnedKey = OwnedKey { normal: 0, value: 0, above: false, tid: Tid::MIN, buffer: KeyBuffer::new() };
    /// The place behind all keys: no marker is as large.
    pub const LAST: OwnedKey = {
        let mut last = OwnedKey::FIRST;
        last.normal = 1;
        (last.buffer.written, last.buffer.bytes[0]) = (1, MaybeUninit::new(END_OF_KEYS));
        last
    };

    /// The place before all keys, to become another.
    #[inline(always)]
    pub fn new() -> OwnedKey {
        let mut kept = MaybeUninit::<OwnedKey>::uninit();
        // SAFETY: memory of a place's, which is one then.
        unsafe {
            OwnedKey::init(kept.as_mut_ptr());
            kept.assume_init()
        }
    }

    /// Makes it in memory that holds anything.
    ///
    /// # Safety
    /// The memory may be written.
    #[inline(always)]
    pub unsafe fn init(place: *mut OwnedKey) {
        // SAFETY: every field is written but the buffer's bytes, which need not be. Field by field, because a constant
        // would be copied with all its bytes.
        unsafe {
            (&raw mut (*place).normal).write(0);
            (&raw mut (*place).value).write(0);
            (&raw mut (*place).above).write(false);
            (&raw mut (*place).tid).write(Tid::MIN);
            (&raw mut (*place).buffer.written).write(0);
        }
    }

    /// The normal part.
    pub fn normal(&self) -> &[u8] {
        self.buffer.front(self.normal as usize)
    }

    /// The value part.
    pub fn value(&self) -> &[u8] {
        &self.buffer.front(self.normal as usize + self.value as usize)[self.normal as usize..]
    }

    /// Behind all keys that begin so, rather than before them.
    pub fn above(&self) -> bool {
        self.above
    }

    /// What breaks the ties of whole keys.
    pub fn tid(&self) -> Tid {
        self.tid
    }

    /// The place as what a page stores.
    pub fn stored(&self) -> Stored<'_> {
        Stored::whole(self.normal(), self.value())
    }

    /// The place as one to look for.
    pub fn key<'k>(&'k self, order: Option<BytesOrder<'k>>) -> BytesKey<'k> {
        BytesKey { normal: self.normal(), value: self.value(), above: self.above, tid: self.tid, order }
    }

    /// Whether both are the same place, image for image.
    pub fn is_same(&self, other: &OwnedKey) -> bool {
        (self.normal(), self.value(), self.above, self.tid) == (other.normal(), other.value(), other.above, other.tid)
    }

    /// Goes to the place right behind the key it is.
    pub fn step(&mut self) {
        self.tid = self.tid.next();
    }

    /// Becomes a copy of another.
    #[inline]
    pub fn assign(&mut self, from: &OwnedKey) {
        self.buffer.write(0, from.buffer.front(from.normal as usize + from.value as usize));
        (self.normal, self.value, self.above, self.tid) = (from.normal, from.value, from.above, from.tid);
    }

    /// Becomes the place of an entry or fence, of whose payload bytes `value` belong to its key. What does not fit is
    /// cut off, which only damage makes happen.
    pub fn keep(&mut self, stored: &Stored<'_>, value: usize, tid: Tid) {
        let normal = stored.normal_length().min(MOST_PARTS);
        self.keep_front(stored, normal);
        let value = value.min(stored.payload.len()).min(MOST_PARTS - normal);
        self.buffer.write(normal, &stored.payload[..value]);
        (self.value, self.tid) = (value as u16, tid.position());
    }

    /// Becomes the place before all keys that begin with the first `length` bytes of this one's normal part.
    pub fn keep_front(&mut self, stored: &Stored<'_>, length: usize) {
        let length = length.min(MOST_PARTS);
        stored.copy_from(0, self.buffer.zeroed(length));
        (self.normal, self.value, self.above, self.tid) = (length as u16, 0, false, Tid::MIN);
    }

    /// Becomes a place given by digits of some columns.
    pub fn set_to_place(&mut self, shape: &BytesShape, digits: &[u8], above: bool) {
        let Parts { normal, marker, value } = shape.parts(&digits[..digits.len().min(MOST_PLACE)]);
        // Zeros at the end go without saying, except where a place is behind all that begin with them.
        let trimmed = normal.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        let normal = if above { normal } else { &normal[..trimmed] };
        self.buffer.write(0, normal);
        self.buffer.write(normal.len(), marker);
        self.buffer.write(normal.len() + marker.len(), value);
        (self.normal, self.value) = (normal.len() as u16, (marker.len() + value.len()) as u16);
        (self.above, self.tid) = (above, Tid::MIN);
    }

    /// Becomes a short place behind all keys with a normal part, which begins with at least `length` bytes of that.
    pub fn raise_front(&mut self, stored: &Stored<'_>, length: usize) {
        // The byte after the last is zero.
        let at = (length..MOST_PARTS - 1).find(|&at| stored.byte(at) < u8::MAX).unwrap_or(MOST_PARTS - 1);
        self.keep_front(stored, at + 1);
        let raised = stored.byte(at).saturating_add(1);
        self.buffer.write(at, &[raised]);
    }
}

/// A first byte behind every marker.
const END_OF_KEYS: u8 = 0xFF;
