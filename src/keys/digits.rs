//! Digits: order-preserving, self-delimiting byte encodings of column values, for keys that do not fit a lane.
//!
//! The digits of an index's columns, one after the other, are a key. Keys are compared byte by byte as if zero bytes
//! followed the shorter one. No digit is the beginning of another of its column, so that the comparison never confuses
//! one column's bytes with the next one's. An *opaque* digit ends that: behind its prefix it holds a value whose order
//! only the operator class knows.
//!
//! A digit is a marker byte, which places NULL before or after everything else, and the value's content:
//!
//! | kind | content |
//! |---|---|
//! | [`Fixed`](DigitKind::Fixed) | an unsigned number, big-endian |
//! | [`Text`](DigitKind::Text) | bytes other than zero, ended by 0 |
//! | [`Bytes`](DigitKind::Bytes) | any bytes, a zero as 00 FF, ended by 00 01 |
//! | [`Bits`](DigitKind::Bits) | as Bytes, then the number of bits in the last byte |
//! | [`Numeric`](DigitKind::Numeric) | class, weight, base-10000 digits, ended by 0 |
//! | [`Opaque`](DigitKind::Opaque) | a prefix, then the value as the server stores it |
//!
//! DESC inverts the content, terminators included, but neither the marker nor an opaque value.

use core::mem::MaybeUninit;
/// Bytes put one after the other, without allocation. Those that do not fit are counted, not kept.
#[derive(Clone, Copy, Debug)]
pub struct Buffer<const N: usize> {
    len: usize,
    /// Written as far as `len` says; making a buffer costs nothing.
    bytes: [MaybeUninit<u8>; N],
}

impl<const N: usize> Buffer<N> {
    /// An empty buffer.
    pub const fn new() -> Self {
        Buffer { len: 0, bytes: [MaybeUninit::uninit(); N] }
    }

    /// Empties the buffer.
    #[inline]
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Appends `bytes`.
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) {
        self.put_flipped(bytes, 0);
    }

    /// Appends a byte.
    #[inline]
    pub fn put_byte(&mut self, byte: u8) {
        if let Some(room) = self.bytes.get_mut(self.len) {
            room.write(byte);
        }
        self.len = self.len.saturating_add(1);
    }

    /// Bytes put so far, those that did not fit included.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing was put.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether everything put was kept.
    #[inline]
    pub const fn fits(&self) -> bool {
        self.len <= N
    }

    /// The bytes kept.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: everything in front of `len` was written.
        unsafe { self.bytes[..self.len.min(N)].assume_init_ref() }
    }

    /// Appends `bytes`, each with the bits of `flip` turned over.
    #[inline]
    fn put_flipped(&mut self, bytes: &[u8], flip: u8) {
        if let Some(room) = self.bytes.get_mut(self.len..) {
            let kept = room.len().min(bytes.len());
            let written = room[..kept].write_copy_of_slice(&bytes[..kept]);
            if flip != 0 {
                written.iter_mut().for_each(|byte| *byte ^= flip);
            }
        }
        self.len = self.len.saturating_add(bytes.len());
    }

    /// Appends so few bytes that a call would take longer than to write them.
    #[inline]
    fn put_array<const M: usize>(&mut self, bytes: [u8; M], flip: u8) {
        match self.bytes.get_mut(self.len..).and_then(|room| room.first_chunk_mut()) {
            Some(room) => {
                *room = bytes.map(|byte| MaybeUninit::new(byte ^ flip));
                self.len += M;
            }
            None => self.put_flipped(&bytes, flip),
        }
    }
}

impl<const N: usize> Default for Buffer<N> {
    fn default() -> Self {
        Self::new()
    }
}

/// Copies what fits of `from` to the front of `to`, each byte with the bits of `flip` turned over.
#[inline]
fn copy_flipped(to: &mut [u8], from: &[u8], flip: u8) {
    let n = to.len().min(from.len());
    let (to, from) = (&mut to[..n], &from[..n]);
    if flip == 0 {
        to.copy_from_slice(from);
    } else {
        to.iter_mut().zip(from).for_each(|(to, from)| *to = from ^ flip);
    }
}

/// How an opaque digit tells where its value ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ValueLength {
    /// All values have this many bytes.
    Fixed(u8),
    /// A length that includes itself is in front: in 1 byte, `length << 1 | 1`, of up to 126 bytes; else in 4 bytes,
    /// little-endian, `length << 2`. The server stores its values so too, and can read them in place.
    Variable,
    /// A length is in front, always in 4 bytes.
    Bytes,
    /// A zero byte, which is in no value, is behind.
    CString,
}

/// How a column's values are encoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DigitKind {
    /// An unsigned number of this many bytes, 1 to 16.
    Fixed(u8),
    /// Bytes other than zero, ordered as memory.
    Text,
    /// Any bytes, ordered as memory.
    Bytes,
    /// Bits, ordered by their bytes, then by their number.
    Bits,
    /// Decimal numbers of any size.
    Numeric,
    /// Values that only the operator class can order.
    Opaque {
        /// Bytes in front of the value that are ordered as the values are, or equal.
        prefix: u8,
        /// How the value's end is found.
        value: ValueLength,
    },
}

impl DigitKind {
    const MAX_FIXED: u8 = 16;

    const fn to_bytes(self) -> [u8; 3] {
        match self {
            DigitKind::Fixed(bytes) => [1, bytes, 0],
            DigitKind::Text => [2, 0, 0],
            DigitKind::Bytes => [3, 0, 0],
            DigitKind::Bits => [4, 0, 0],
            DigitKind::Numeric => [5, 0, 0],
            DigitKind::Opaque { prefix, value } => match value {
                ValueLength::Fixed(bytes) => [6, prefix, bytes],
                ValueLength::Variable => [7, prefix, 0],
                ValueLength::Bytes => [8, prefix, 0],
                ValueLength::CString => [9, prefix, 0],
            },
        }
    }

    fn from_bytes([code, a, b]: [u8; 3]) -> Option<Self> {
        let opaque = |value| DigitKind::Opaque { prefix: a, value };
        Some(match code {
            1 if matches!(a, 1..=Self::MAX_FIXED) => DigitKind::Fixed(a),
            2 => DigitKind::Text,
            3 => DigitKind::Bytes,
            4 => DigitKind::Bits,
            5 => DigitKind::Numeric,
            6 => opaque(ValueLength::Fixed(b)),
            7 => opaque(ValueLength::Variable),
            8 => opaque(ValueLength::Bytes),
            9 => opaque(ValueLength::CString),
            _ => return None,
        })
    }
}

/// What a [`DigitKind::Numeric`] number is, in ascending order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum DecimalClass {
    /// -∞.
    NegativeInfinity = 1,
    /// Less than zero.
    Negative = 2,
    /// Zero.
    Zero = 3,
    /// More than zero.
    Positive = 4,
    /// +∞.
    PositiveInfinity = 5,
    /// Not a number: above everything.
    NaN = 6,
}

impl DecimalClass {
    fn from_code(code: u8) -> Option<Self> {
        use DecimalClass::*;
        [NegativeInfinity, Negative, Zero, Positive, PositiveInfinity, NaN]
            .into_iter()
            .find(|&class| class as u8 == code)
    }

    const fn has_digits(self) -> bool {
        matches!(self, DecimalClass::Negative | DecimalClass::Positive)
    }
}

/// A decimal number, less its digits: they are base 10000, in pairs of native bytes, and stand beside it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decimal {
    /// What the number is. Only [`Negative`](DecimalClass::Negative) and [`Positive`](DecimalClass::Positive) ones have
    /// a weight and digits.
    pub class: DecimalClass,
    /// The first digit's power of 10000, in the range of an `i16`.
    pub weight: i32,
}

const BASE: u16 = 10_000;

/// Content of a digit, to be put.
struct Sink<'a, const N: usize> {
    buffer: &'a mut Buffer<N>,
    flip: u8,
}

impl<const N: usize> Sink<'_, N> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.buffer.put_flipped(bytes, self.flip);
    }

    #[inline]
    fn put_array<const M: usize>(&mut self, bytes: [u8; M]) {
        self.buffer.put_array(bytes, self.flip);
    }

    fn put_escaped(&mut self, bytes: &[u8]) {
        for (i, run) in bytes.split(|byte| *byte == 0).enumerate() {
            if i > 0 {
                self.put_array([0, ESCAPED_ZERO]);
            }
            self.put(run);
        }
        self.put_array([0, END]);
    }

    fn put_decimal(&mut self, decimal: Decimal, digits: &[[u8; 2]]) {
        let leading = digits.iter().take_while(|digit| **digit == [0; 2]).count();
        let trailing = digits[leading..].iter().rev().take_while(|digit| **digit == [0; 2]).count();
        let digits = &digits[leading..digits.len() - trailing];
        let class = if decimal.class.has_digits() && digits.is_empty() { DecimalClass::Zero } else { decimal.class };
        self.put_array([class as u8]);
        if !class.has_digits() {
            return;
        }
        if class == DecimalClass::Negative {
            self.flip = !self.flip;
        }
        let weight = decimal.weight.saturating_sub(leading as i32);
        self.put_array(biased(weight).to_be_bytes());
        for digit in digits {
            self.put_array((u16::from_ne_bytes(*digit).min(BASE - 1) + FIRST_DIGIT).to_be_bytes());
        }
        self.put_array([0]);
    }
}

/// Behind a zero byte: it was a zero byte of the value.
const ESCAPED_ZERO: u8 = 0xFF;
/// Behind a zero byte: the value ends. Less than any other byte, so a value is less than one it begins.
const END: u8 = 1;
/// What digit 0 of a number is stored as, so that no digit begins with the terminator's byte.
const FIRST_DIGIT: u16 = 0x0100;

/// An `i16` as an unsigned number of the same order; what is outside becomes the nearest.
fn biased(weight: i32) -> u16 {
    weight.saturating_add(0x8000).clamp(0, 0xFFFF) as u16
}

/// Content of a digit, to be taken from the front.
struct Source<'a> {
    bytes: &'a [u8],
    flip: u8,
}

impl<'a> Source<'a> {
    #[inline]
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(first ^ self.flip)
    }

    #[inline]
    fn skip(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(n)?;
        self.bytes = rest;
        Some(taken)
    }

    /// The bytes before a zero, as they are stored; both are taken.
    #[inline]
    fn until_zero(&mut self) -> Option<&'a [u8]> {
        let n = find(self.bytes, self.flip)?;
        let run = self.skip(n + 1)?;
        Some(&run[..n])
    }

    /// Takes escaped bytes and hands their runs to `each`, as they are stored.
    fn escaped(&mut self, mut each: impl FnMut(&[u8]) -> Option<()>) -> Option<()> {
        loop {
            each(self.until_zero()?)?;
            match self.byte()? {
                END => return Some(()),
                ESCAPED_ZERO => each(&[self.flip])?,
                _ => return None,
            }
        }
    }

    /// Takes a number and hands its digits to `each`.
    fn decimal(&mut self, mut each: impl FnMut(u16) -> Option<()>) -> Option<Decimal> {
        let class = DecimalClass::from_code(self.byte()?)?;
        if !class.has_digits() {
            return Some(Decimal { class, weight: 0 });
        }
        if class == DecimalClass::Negative {
            self.flip = !self.flip;
        }
        let weight = i32::from(u16::from_be_bytes([self.byte()?, self.byte()?])) - 0x8000;
        loop {
            let high = self.byte()?;
            if high == 0 {
                return Some(Decimal { class, weight });
            }
            let digit = u16::from_be_bytes([high, self.byte()?]) - FIRST_DIGIT;
            each(Some(digit).filter(|digit| *digit < BASE)?)?;
        }
    }

    /// Takes an opaque value, its length or terminator included.
    fn value(&mut self, length: ValueLength) -> Option<&'a [u8]> {
        let n = match length {
            ValueLength::Fixed(bytes) => usize::from(bytes),
            ValueLength::Variable => variable_length(self.bytes)?,
            ValueLength::Bytes => bytes_length(self.bytes)?,
            ValueLength::CString => find(self.bytes, 0)? + 1,
        };
        self.skip(n)
    }
}

/// Where the first byte that is `wanted` is. Sixteen are looked at in one go: digits are long as often as not.
#[inline]
fn find(bytes: &[u8], wanted: u8) -> Option<usize> {
    const ONES: u128 = u128::from_ne_bytes([1; 16]);
    let (chunks, tid) = bytes.as_chunks::<16>();
    for (i, chunk) in chunks.iter().enumerate() {
        // One comparison of vectors.
        if chunk.iter().fold(false, |found, byte| found | (*byte == wanted)) {
            let differing = u128::from_le_bytes(*chunk) ^ (ONES * u128::from(wanted));
            // The top bits of the bytes that are zero; above the lowest of them others may be set, too.
            let found = differing.wrapping_sub(ONES) & !differing & (ONES << 7);
            return Some(16 * i + found.trailing_zeros() as usize / 8);
        }
    }
    let place = tid.iter().position(|byte| *byte == wanted)?;
    Some(bytes.len() - tid.len() + place)
}

/// The most bytes of a [`ValueLength::Variable`] value that have a length of 1 byte.
const MAX_SHORT: usize = 126;

/// The length, itself included, that a value begins with: one of a byte, or one of four, of a value that is compressed
/// or not.
fn variable_length(bytes: &[u8]) -> Option<usize> {
    match *bytes.first()? {
        1 => None,
        short if short & 1 == 1 => Some(usize::from(short >> 1)),
        long if u32::from(long) & 3 == COMPRESSED => long_length(bytes, COMPRESSED, 8),
        _ => bytes_length(bytes),
    }
}

fn bytes_length(bytes: &[u8]) -> Option<usize> {
    long_length(bytes, PLAIN, 4)
}

/// The length that is in front in four bytes, if it is of that form and not less than that.
fn long_length(bytes: &[u8], form: u32, least: usize) -> Option<usize> {
    let length = u32::from_le_bytes(*bytes.first_chunk()?);
    Some((length >> 2) as usize).filter(|of| length & 3 == form && *of >= least)
}

/// The lower two bits of a length of four bytes: what is behind it is the value, or what the server compressed it to.
const PLAIN: u32 = 0;
const COMPRESSED: u32 = 2;

/// How a column's values become digits, and are had back.
///
/// The `put_…` and `take_…` functions are each for the kind they name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DigitShape {
    /// The encoding.
    pub kind: DigitKind,
    /// DESC.
    pub descending: bool,
    /// NULLS FIRST, which is independent of DESC.
    pub nulls_first: bool,
}

impl DigitShape {
    /// Bytes of a stored shape.
    pub const BYTES: usize = 4;
    /// The marker of NULL where it is first. Also what a key that was cut short seems to go on with.
    pub const NULL_FIRST: u8 = 0;
    /// The marker of a value.
    pub const VALUE: u8 = 1;
    /// The marker of NULL where it is last.
    pub const NULL_LAST: u8 = 2;

    const DESCENDING: u8 = 1;
    const NULLS_ARE_FIRST: u8 = 2;

    /// How the shape is stored.
    pub const fn to_bytes(self) -> [u8; Self::BYTES] {
        let [code, a, b] = self.kind.to_bytes();
        let descending = if self.descending { Self::DESCENDING } else { 0 };
        let nulls_first = if self.nulls_first { Self::NULLS_ARE_FIRST } else { 0 };
        [code, descending | nulls_first, a, b]
    }

    /// The shape stored so, if it is one.
    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Option<Self> {
        let [code, flags, a, b] = bytes;
        let shape = DigitShape {
            kind: DigitKind::from_bytes([code, a, b])?,
            descending: flags & Self::DESCENDING != 0,
            nulls_first: flags & Self::NULLS_ARE_FIRST != 0,
        };
        (shape.to_bytes() == bytes).then_some(shape)
    }

    /// Whether digits that were put as `stored` says are read as this says, too: in front of a value of variable length
    /// may be a long length, however short it is.
    pub fn reads(&self, stored: &DigitShape) -> bool {
        match (self.kind, stored.kind) {
            (
                DigitKind::Opaque { prefix, value: ValueLength::Variable },
                DigitKind::Opaque { prefix: stored_prefix, value: ValueLength::Bytes },
            ) => prefix == stored_prefix && DigitShape { kind: self.kind, ..*stored } == *self,
            _ => self == stored,
        }
    }

    /// Whether the digits' order is, behind the prefix, known to the operator class only.
    #[inline]
    pub const fn is_opaque(&self) -> bool {
        matches!(self.kind, DigitKind::Opaque { .. })
    }

    /// What the content's bytes are turned over with.
    #[inline]
    const fn flip(&self) -> u8 {
        if self.descending { 0xFF } else { 0 }
    }

    /// Puts NULL.
    #[inline]
    pub fn put_null<const N: usize>(&self, buffer: &mut Buffer<N>) {
        buffer.put_byte(if self.nulls_first { Self::NULL_FIRST } else { Self::NULL_LAST });
    }

    #[inline]
    fn sink<'a, const N: usize>(&self, buffer: &'a mut Buffer<N>) -> Sink<'a, N> {
        buffer.put_byte(Self::VALUE);
        Sink { buffer, flip: self.flip() }
    }

    /// Puts the low bytes of a number ([`DigitKind::Fixed`]).
    #[inline]
    pub fn put_field<const N: usize>(&self, field: u128, buffer: &mut Buffer<N>) {
        let bytes = field.to_be_bytes();
        let width = match self.kind {
            DigitKind::Fixed(width) => usize::from(width.min(DigitKind::MAX_FIXED)),
            _ => bytes.len(),
        };
        self.sink(buffer).put(&bytes[bytes.len() - width..]);
    }

    /// Puts bytes, none of which is zero ([`DigitKind::Text`]).
    #[inline]
    pub fn put_text<const N: usize>(&self, text: &[u8], buffer: &mut Buffer<N>) {
        let mut sink = self.sink(buffer);
        sink.put(text);
        sink.put_array([0]);
    }

    /// Puts bytes ([`DigitKind::Bytes`]).
    pub fn put_bytes<const N: usize>(&self, bytes: &[u8], buffer: &mut Buffer<N>) {
        self.sink(buffer).put_escaped(bytes);
    }

    /// Puts a bit string ([`DigitKind::Bits`]): `bits` bits, in as many bytes as they need.
    pub fn put_bits<const N: usize>(&self, bytes: &[u8], bits: usize, buffer: &mut Buffer<N>) {
        let mut sink = self.sink(buffer);
        sink.put_escaped(bytes);
        sink.put_array([bits_in_last_byte(bits)]);
    }

    /// Puts a number ([`DigitKind::Numeric`]). Zeros before and behind the other digits make no difference.
    pub fn put_numeric<const N: usize>(&self, decimal: Decimal, digits: &[[u8; 2]], buffer: &mut Buffer<N>) {
        self.sink(buffer).put_decimal(decimal, digits);
    }

    /// Puts a value and its prefix, which has as many bytes as the kind says ([`DigitKind::Opaque`]). `value` is
    /// without the length or terminator it is stored with.
    pub fn put_opaque<const N: usize>(&self, prefix: &[u8], value: &[u8], buffer: &mut Buffer<N>) {
        self.sink(buffer).put(prefix);
        let DigitKind::Opaque { value: length, .. } = self.kind else { return };
        let long = || (((value.len() + 4) as u32) << 2).to_le_bytes();
        match length {
            ValueLength::Variable if value.len() <= MAX_SHORT => buffer.put_byte((value.len() as u8 + 1) << 1 | 1),
            ValueLength::Variable | ValueLength::Bytes => buffer.put(&long()),
            ValueLength::Fixed(_) | ValueLength::CString => {}
        }
        buffer.put(value);
        if length == ValueLength::CString {
            buffer.put_byte(0);
        }
    }

    /// Puts a value that already has its length in front, as the server compressed it: a [`ValueLength::Variable`] one.
    pub fn put_compressed<const N: usize>(&self, prefix: &[u8], value: &[u8], buffer: &mut Buffer<N>) {
        self.sink(buffer).put(prefix);
        buffer.put(value);
    }

    /// Whether the digit at the front of `bytes` is NULL. A zero marker always is: a key that was cut short seems to go
    /// on with them.
    #[inline]
    pub fn is_null(&self, bytes: &[u8]) -> bool {
        match bytes.first() {
            Some(&Self::NULL_FIRST) => true,
            Some(&Self::NULL_LAST) => !self.nulls_first,
            _ => false,
        }
    }

    /// The length of the digit at the front of `bytes`, marker included. None if it is cut short or impossible.
    pub fn length(&self, bytes: &[u8]) -> Option<usize> {
        if self.is_null(bytes) {
            return Some(1);
        }
        let mut behind = bytes;
        self.take(&mut behind, |source| match self.kind {
            DigitKind::Fixed(width) => source.skip(width.into()).map(drop),
            DigitKind::Text => source.until_zero().map(drop),
            DigitKind::Bytes => source.escaped(|_| Some(())),
            DigitKind::Bits => source.escaped(|_| Some(())).and_then(|()| source.byte()).map(drop),
            DigitKind::Numeric => source.decimal(|_| Some(())).map(drop),
            DigitKind::Opaque { prefix, value } => {
                source.skip(prefix.into()).and_then(|_| source.value(value)).map(drop)
            }
        })?;
        Some(bytes.len() - behind.len())
    }

    /// Takes a value's digit off the front of `bytes`, `content` what is behind its marker. None, and nothing is taken,
    /// if there is no such digit.
    #[inline(always)]
    fn take<'a, T>(&self, bytes: &mut &'a [u8], content: impl FnOnce(&mut Source<'a>) -> Option<T>) -> Option<T> {
        let (&marker, behind) = bytes.split_first()?;
        let mut source = Some(Source { bytes: behind, flip: self.flip() }).filter(|_| marker == Self::VALUE)?;
        let taken = content(&mut source)?;
        *bytes = source.bytes;
        Some(taken)
    }

    /// Takes NULL off the front of `bytes`; whether it was there.
    #[inline]
    pub fn take_null(&self, bytes: &mut &[u8]) -> bool {
        self.is_null(bytes) && bytes.split_off_first().is_some()
    }

    /// Takes a number off the front of `bytes`. As with the others of its kind, None if there is no value to be had.
    #[inline]
    pub fn take_field(&self, bytes: &mut &[u8]) -> Option<u128> {
        let DigitKind::Fixed(width) = self.kind else { return None };
        let stored = self.take(bytes, |source| source.skip(width.into()))?;
        let flip = u64::from_ne_bytes([self.flip(); 8]);
        // Most are of these widths.
        if let Some(word) = stored.first_chunk::<8>().filter(|_| width == 8) {
            return Some((u64::from_be_bytes(*word) ^ flip).into());
        }
        if let Some(word) = stored.first_chunk::<4>().filter(|_| width == 4) {
            return Some((u32::from_be_bytes(*word) ^ flip as u32).into());
        }
        Some(stored.iter().fold(0, |field, byte| field << 8 | u128::from(byte ^ self.flip())))
    }

    /// The number of 8 bytes at most at the front of `bytes`, and the bytes of its digit: as
    /// [`take_field`](Self::take_field), but only where at least 8 bytes follow the marker, of which it takes no call.
    #[inline(always)]
    pub fn word(&self, bytes: &[u8]) -> Option<(u64, usize)> {
        let DigitKind::Fixed(width @ 1..=8) = self.kind else { return None };
        let (&marker, behind) = bytes.split_first()?;
        let word = u64::from_be_bytes(*behind.first_chunk()?) ^ u64::from_ne_bytes([self.flip(); 8]);
        let unused = u64::BITS - 8 * u32::from(width);
        (marker == Self::VALUE).then_some((word >> unused, 1 + usize::from(width)))
    }

    /// The bytes of the text of an ascending column at the front of `bytes`, which are behind a marker of one byte and before
    /// one of another. None if there is no such text.
    #[inline(always)]
    pub fn text_length(&self, bytes: &[u8]) -> Option<usize> {
        let (&marker, behind) = bytes.split_first()?;
        (marker == Self::VALUE && self.flip() == 0).then(|| find(behind, 0))?
    }

    /// Bytes of a digit before a number's own digits.
    pub const NUMBER: usize = 4;

    /// Writes the digits of the number at the front of `bytes` in their place, [`NUMBER`](Self::NUMBER) bytes from there, as
    /// pairs of native bytes; the number, how many they are, and the bytes of what it was. None if it is not one that has
    /// digits; what may have been written by then is of no use.
    #[inline]
    pub fn unfold_numeric(&self, bytes: &mut [u8]) -> Option<(Decimal, usize, usize)> {
        let [marker, class, high, low, pairs @ ..] = bytes else { return None };
        let class = DecimalClass::from_code(*class ^ self.flip()).filter(|class| class.has_digits())?;
        let flip = if class == DecimalClass::Negative { !self.flip() } else { self.flip() };
        let weight = i32::from(u16::from_be_bytes([*high ^ flip, *low ^ flip])) - 0x8000;
        let (pairs, _) = pairs.as_chunks_mut::<2>();
        for (count, pair) in pairs.iter_mut().enumerate() {
            let [high, low] = pair.map(|byte| byte ^ flip);
            if high == 0 {
                let whole = *marker == Self::VALUE;
                return whole.then_some((Decimal { class, weight }, count, Self::NUMBER + 2 * count + 1));
            }
            let digit = u16::from_be_bytes([high, low]) - FIRST_DIGIT;
            if digit >= BASE {
                return None;
            }
            *pair = digit.to_ne_bytes();
        }
        None
    }

    /// Takes a text off the front of `bytes`, as it is stored: [`copy_text`](Self::copy_text) copies it.
    #[inline(always)]
    pub fn take_text<'a>(&self, bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
        self.take(bytes, Source::until_zero)
    }

    /// Copies what fits of a text to `out`.
    #[inline(always)]
    pub fn copy_text(&self, text: &[u8], out: &mut [u8]) {
        copy_flipped(out, text, self.flip());
    }

    /// Takes bytes off the front of `bytes` and copies them to `out`; their number. None also if they are more than
    /// `out` holds.
    pub fn take_bytes(&self, bytes: &mut &[u8], out: &mut [u8]) -> Option<usize> {
        self.take(bytes, |source| take_escaped(source, out))
    }

    /// Takes a bit string off the front of `bytes` and copies it to `out`; the number of bits. None also if it is
    /// longer than `out`.
    pub fn take_bits(&self, bytes: &mut &[u8], out: &mut [u8]) -> Option<usize> {
        self.take(bytes, |source| match (take_escaped(source, out)?, source.byte()?) {
            (0, 0) => Some(0),
            (n @ 1.., last @ 1..=8) => Some(8 * (n - 1) + usize::from(last)),
            _ => None,
        })
    }

    /// Takes a number off the front of `bytes` and copies its digits to `digits`; the number and how many they are.
    /// None also if they are more than `digits` holds.
    pub fn take_numeric(&self, bytes: &mut &[u8], digits: &mut [[u8; 2]]) -> Option<(Decimal, usize)> {
        let mut n = 0;
        let decimal = self.take(bytes, |source| {
            source.decimal(|digit| {
                *digits.get_mut(n)? = digit.to_ne_bytes();
                n += 1;
                Some(())
            })
        })?;
        Some((decimal, n))
    }

    /// Takes an opaque value off the front of `bytes`, as it is stored, its length or terminator included.
    #[inline]
    pub fn take_opaque<'a>(&self, bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
        let DigitKind::Opaque { prefix, value } = self.kind else { return None };
        self.take(bytes, |source| {
            source.skip(prefix.into())?;
            source.value(value)
        })
    }

    /// The shape without a prefix, as values are kept beside it.
    pub const fn without_prefix(self) -> DigitShape {
        match self.kind {
            DigitKind::Opaque { value, .. } => DigitShape { kind: DigitKind::Opaque { prefix: 0, value }, ..self },
            _ => self,
        }
    }
}

/// How many of a bit string's last byte's bits it has.
fn bits_in_last_byte(bits: usize) -> u8 {
    match bits {
        0 => 0,
        _ => (bits - 1) as u8 % 8 + 1,
    }
}

fn take_escaped(source: &mut Source<'_>, out: &mut [u8]) -> Option<usize> {
    let flip = source.flip;
    let mut n = 0;
    source.escaped(|run| {
        copy_flipped(out.get_mut(n..n + run.len())?, run, flip);
        n += run.len();
        Some(())
    })?;
    Some(n)
}

#[cfg(test)]
mod tests {
    use core::cmp::Ordering;

    use proptest::prelude::*;

    use super::*;

    type Digit = Buffer<64>;

    /// A value of some kind; NULL is None.
    #[derive(Clone, Debug, PartialEq)]
    enum Value {
        Field(u128),
        Bytes(Vec<u8>),
        Bits(Vec<u8>, usize),
        Number(Decimal, Vec<[u8; 2]>),
        Opaque(Vec<u8>, Vec<u8>),
    }

    const VALUE_LENGTHS: [ValueLength; 4] =
        [ValueLength::Fixed(5), ValueLength::Variable, ValueLength::Bytes, ValueLength::CString];

    fn ascending(kind: DigitKind) -> DigitShape {
        DigitShape { kind, descending: false, nulls_first: false }
    }

    fn number(class: DecimalClass, weight: i32, digits: &[u16]) -> Value {
        Value::Number(Decimal { class, weight }, digits.iter().map(|digit| digit.to_ne_bytes()).collect())
    }

    fn encode<const N: usize>(shape: &DigitShape, value: &Option<Value>, buffer: &mut Buffer<N>) {
        match value {
            None => shape.put_null(buffer),
            Some(Value::Field(field)) => shape.put_field(*field, buffer),
            Some(Value::Bytes(bytes)) if shape.kind == DigitKind::Text => shape.put_text(bytes, buffer),
            Some(Value::Bytes(bytes)) => shape.put_bytes(bytes, buffer),
            Some(Value::Bits(bytes, bits)) => shape.put_bits(bytes, *bits, buffer),
            Some(Value::Number(decimal, digits)) => shape.put_numeric(*decimal, digits, buffer),
            Some(Value::Opaque(prefix, value)) => shape.put_opaque(prefix, value, buffer),
        }
    }

    fn encoded(shape: &DigitShape, value: &Option<Value>) -> Vec<u8> {
        let mut buffer = Buffer::<4096>::new();
        encode(shape, value, &mut buffer);
        assert!(buffer.fits());
        buffer.as_slice().to_vec()
    }

    /// The value of the digit at the front of `bytes`, that of an opaque one without its prefix.
    fn decoded(shape: &DigitShape, bytes: &mut &[u8]) -> Option<Option<Value>> {
        let mut out = [0; 4096];
        if shape.take_null(bytes) {
            return Some(None);
        }
        Some(Some(match shape.kind {
            DigitKind::Fixed(_) => Value::Field(shape.take_field(bytes)?),
            DigitKind::Text => {
                let text = shape.take_text(bytes)?;
                shape.copy_text(text, &mut out);
                Value::Bytes(out[..text.len()].to_vec())
            }
            DigitKind::Bytes => {
                let n = shape.take_bytes(bytes, &mut out)?;
                Value::Bytes(out[..n].to_vec())
            }
            DigitKind::Bits => {
                let bits = shape.take_bits(bytes, &mut out)?;
                Value::Bits(out[..bits.div_ceil(8)].to_vec(), bits)
            }
            DigitKind::Numeric => {
                let mut digits = [[0; 2]; 2048];
                let (decimal, n) = shape.take_numeric(bytes, &mut digits)?;
                Value::Number(decimal, digits[..n].to_vec())
            }
            DigitKind::Opaque { value, .. } => {
                let stored = shape.take_opaque(bytes)?;
                let content = match value {
                    ValueLength::Fixed(_) => stored,
                    ValueLength::CString => &stored[..stored.len() - 1],
                    ValueLength::Variable if stored[0] & 1 == 1 => &stored[1..],
                    ValueLength::Variable | ValueLength::Bytes => &stored[4..],
                };
                Value::Opaque(Vec::new(), content.to_vec())
            }
        }))
    }

    /// The powers and digits that make up a number: what it is compared by.
    fn places(decimal: &Decimal, digits: &[[u8; 2]]) -> Vec<(i32, u16)> {
        let values = digits.iter().map(|digit| u16::from_ne_bytes(*digit));
        let places = values.enumerate().map(|(i, digit)| (decimal.weight - i as i32, digit));
        places.filter(|(_, digit)| *digit != 0).collect()
    }

    /// The order of two values as PostgreSQL defines it; that of opaque ones is their prefixes'.
    fn compare(a: &Value, b: &Value) -> Ordering {
        match (a, b) {
            (Value::Field(a), Value::Field(b)) => a.cmp(b),
            (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
            (Value::Bits(a, m), Value::Bits(b, n)) => {
                let shared = a.len().min(b.len());
                a[..shared].cmp(&b[..shared]).then(m.cmp(n))
            }
            (Value::Number(a, x), Value::Number(b, y)) => a.class.cmp(&b.class).then_with(|| {
                let order = places(a, x).cmp(&places(b, y));
                if a.class == DecimalClass::Negative { order.reverse() } else { order }
            }),
            (Value::Opaque(a, _), Value::Opaque(b, _)) => a.cmp(b),
            _ => unreachable!("values of two kinds"),
        }
    }

    fn compare_in(shape: &DigitShape, a: &Option<Value>, b: &Option<Value>) -> Ordering {
        let nulls = if shape.nulls_first { Ordering::Less } else { Ordering::Greater };
        match (a, b) {
            (None, None) => Ordering::Equal,
            (None, Some(_)) => nulls,
            (Some(_), None) => nulls.reverse(),
            (Some(a), Some(b)) if shape.descending => compare(b, a),
            (Some(a), Some(b)) => compare(a, b),
        }
    }

    /// How keys are compared: zero bytes follow the shorter one.
    fn compare_padded(a: &[u8], b: &[u8]) -> Ordering {
        let n = a.len().max(b.len());
        let padded = |bytes: &[u8]| bytes.iter().copied().chain(core::iter::repeat(0)).take(n).collect::<Vec<_>>();
        padded(a).cmp(&padded(b))
    }

    /// What the value is when it comes back.
    fn plain(value: Option<Value>) -> Option<Value> {
        value.map(|value| match value {
            Value::Number(decimal, digits) => match places(&decimal, &digits).as_slice() {
                [] => number(decimal.class, 0, &[]),
                [(first, _), .., (last, _)] => between(decimal.class, *first, *last, &decimal, &digits),
                [(only, _)] => between(decimal.class, *only, *only, &decimal, &digits),
            },
            Value::Opaque(_, value) => Value::Opaque(Vec::new(), value),
            value => value,
        })
    }

    fn between(class: DecimalClass, first: i32, last: i32, decimal: &Decimal, digits: &[[u8; 2]]) -> Value {
        let at = |power: i32| (decimal.weight - power) as usize;
        Value::Number(Decimal { class, weight: first }, digits[at(first)..=at(last)].to_vec())
    }

    fn any_kind() -> impl Strategy<Value = DigitKind> {
        let opaque = (0u8..4, prop::sample::select(&VALUE_LENGTHS[..]));
        prop_oneof![
            (1u8..=16).prop_map(DigitKind::Fixed),
            Just(DigitKind::Text),
            Just(DigitKind::Bytes),
            Just(DigitKind::Bits),
            Just(DigitKind::Numeric),
            opaque.prop_map(|(prefix, value)| DigitKind::Opaque { prefix, value }),
        ]
    }

    fn any_shape() -> impl Strategy<Value = DigitShape> {
        (any_kind(), any::<bool>(), any::<bool>()).prop_map(|(kind, descending, nulls_first)| DigitShape {
            kind,
            descending,
            nulls_first,
        })
    }

    /// Mostly bytes that mean something to the encodings, and now and then more than a short length can say.
    fn any_bytes(lowest: u8) -> impl Strategy<Value = Vec<u8>> {
        let byte = move || prop_oneof![lowest..=3, 0xFCu8..=0xFF, lowest..=0xFF];
        prop_oneof![
            20 => prop::collection::vec(byte(), 0..6),
            2 => prop::collection::vec(byte(), 0..300),
            1 => prop::collection::vec(byte(), 124..130),
        ]
    }

    fn any_bits() -> impl Strategy<Value = Value> {
        (any_bytes(0), 0usize..8).prop_map(|(mut bytes, unused)| {
            let unused = if bytes.is_empty() { 0 } else { unused };
            if let Some(last) = bytes.last_mut() {
                *last &= 0xFF << unused;
            }
            let bits = 8 * bytes.len() - unused;
            Value::Bits(bytes, bits)
        })
    }

    fn any_number() -> impl Strategy<Value = Value> {
        use DecimalClass::*;
        let digit = || prop_oneof![2 => Just(0u16), 3 => 1u16..4, 1 => 250u16..260, 1 => 9_997u16..10_000];
        let digits =
            prop_oneof![10 => prop::collection::vec(digit(), 0..5), 1 => prop::collection::vec(digit(), 0..99)];
        let weight = prop_oneof![5 => -2i32..3, 1 => 250i32..260, 1 => -0x7000i32..=0x7FFF];
        let special = prop::sample::select(&[NegativeInfinity, Zero, PositiveInfinity, NaN][..]);
        prop_oneof![
            6 => (any::<bool>(), weight, digits).prop_map(|(negative, weight, digits)| {
                let zero = digits.iter().all(|digit| *digit == 0);
                let class = if zero { Zero } else if negative { Negative } else { Positive };
                number(class, weight, &digits)
            }),
            1 => special.prop_map(|class| number(class, 0, &[])),
        ]
    }

    fn any_field(width: u8) -> impl Strategy<Value = Value> {
        let all = u128::MAX >> (128 - 8 * u32::from(width));
        let field = prop_oneof![0u128..3, (0u128..3).prop_map(move |less| all - less), any::<u128>()];
        field.prop_map(move |field| Value::Field(field & all))
    }

    fn any_opaque(prefix: u8, length: ValueLength) -> impl Strategy<Value = Value> {
        let value = match length {
            ValueLength::Fixed(width) => prop::collection::vec(any::<u8>(), usize::from(width)).boxed(),
            ValueLength::CString => any_bytes(1).boxed(),
            ValueLength::Variable | ValueLength::Bytes => any_bytes(0).boxed(),
        };
        (prop::collection::vec(any::<u8>(), usize::from(prefix)), value)
            .prop_map(|(prefix, value)| Value::Opaque(prefix, value))
    }

    fn any_value(kind: DigitKind) -> impl Strategy<Value = Option<Value>> {
        let value = match kind {
            DigitKind::Fixed(width) => any_field(width).boxed(),
            DigitKind::Text => any_bytes(1).prop_map(Value::Bytes).boxed(),
            DigitKind::Bytes => any_bytes(0).prop_map(Value::Bytes).boxed(),
            DigitKind::Bits => any_bits().boxed(),
            DigitKind::Numeric => any_number().boxed(),
            DigitKind::Opaque { prefix, value } => any_opaque(prefix, value).boxed(),
        };
        prop::option::weighted(0.9, value)
    }

    fn shape_and_values() -> impl Strategy<Value = (DigitShape, [Option<Value>; 2])> {
        any_shape().prop_flat_map(|shape| (Just(shape), [any_value(shape.kind), any_value(shape.kind)]))
    }

    /// The columns of an index, and two rows.
    type Rows = Vec<(DigitShape, [Option<Value>; 2])>;

    fn any_rows() -> impl Strategy<Value = Rows> {
        let transparent = || shape_and_values().prop_filter("opaque", |(shape, _)| !shape.is_opaque());
        // Half of the time the first columns are equal, so that later ones decide.
        let column = (transparent(), any::<bool>()).prop_map(|((shape, [a, b]), equal)| {
            let b = if equal { a.clone() } else { b };
            (shape, [a, b])
        });
        prop::collection::vec(column, 1..4)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn digits_are_ordered_as_values((shape, [a, b]) in shape_and_values()) {
            let (x, y) = (encoded(&shape, &a), encoded(&shape, &b));
            let expected = compare_in(&shape, &a, &b);
            match shape.kind {
                DigitKind::Opaque { .. } => prop_assert!(expected.is_eq() || compare_padded(&x, &y) == expected),
                _ => prop_assert_eq!(compare_padded(&x, &y), expected),
            }
        }

        #[test]
        fn keys_are_ordered_as_rows(rows in any_rows()) {
            let key = |row: usize| rows.iter().flat_map(|(shape, values)| encoded(shape, &values[row])).collect::<Vec<_>>();
            let orders = rows.iter().map(|(shape, [a, b])| compare_in(shape, a, b));
            prop_assert_eq!(compare_padded(&key(0), &key(1)), orders.fold(Ordering::Equal, Ordering::then));
        }

        #[test]
        fn no_digit_begins_another((shape, [a, b]) in shape_and_values()) {
            let (x, y) = (encoded(&shape, &a), encoded(&shape, &b));
            prop_assert!(x == y || !y.starts_with(&x));
        }

        #[test]
        fn values_come_back((shape, [value, _]) in shape_and_values(), behind in any_bytes(0)) {
            let digit = encoded(&shape, &value);
            let key = [digit.as_slice(), &behind].concat();
            prop_assert_eq!(shape.length(&key), Some(digit.len()));
            let mut left = key.as_slice();
            prop_assert_eq!(decoded(&shape, &mut left), Some(plain(value)));
            prop_assert_eq!(left, behind);
            for cut in 0..digit.len() {
                prop_assert_eq!(shape.length(&digit[..cut]), None);
            }
        }

        /// What was put as one shape says comes back through every other that reads it.
        #[test]
        fn other_shapes_read_digits((shape, [value, _]) in shape_and_values(), other in any_shape()) {
            let long = |kind| match kind {
                DigitKind::Opaque { prefix, value: ValueLength::Variable } => {
                    DigitKind::Opaque { prefix, value: ValueLength::Bytes }
                }
                other => other,
            };
            let stored = DigitShape { kind: long(shape.kind), ..shape };
            prop_assert!(shape.reads(&stored) && shape.reads(&shape) && (stored == shape || !stored.reads(&shape)));
            prop_assert_eq!(shape.reads(&other), other == shape || other == stored);
            let digit = encoded(&stored, &value);
            prop_assert_eq!(decoded(&shape, &mut digit.as_slice()), decoded(&stored, &mut digit.as_slice()));
        }

        /// What is read in its place is what is taken, of whole digits and of whatever a damaged page holds.
        #[test]
        fn values_are_read_in_place((shape, [value, _]) in shape_and_values(), behind in any_bytes(0), damaged: bool) {
            let digit = if damaged { vec![DigitShape::VALUE] } else { encoded(&shape, &value) };
            let key = [digit.as_slice(), &behind, &[0; 16]].concat();
            let (mut left, mut digits) = (key.as_slice(), [[0; 2]; 2048]);
            match shape.kind {
                DigitKind::Fixed(1..=8) => {
                    let taken = shape.take_field(&mut left).map(|field| (field as u64, key.len() - left.len()));
                    prop_assert_eq!(shape.word(&key), taken);
                    prop_assert_eq!(shape.word(&key[..8]), None);
                }
                DigitKind::Text => {
                    let taken = shape.take_text(&mut left).filter(|_| !shape.descending);
                    prop_assert_eq!(shape.text_length(&key), taken.map(<[u8]>::len));
                }
                DigitKind::Numeric => {
                    let taken = shape.take_numeric(&mut left, &mut digits).filter(|(number, _)| number.class.has_digits());
                    let mut changed = key.clone();
                    let unfolded = shape.unfold_numeric(&mut changed);
                    prop_assert_eq!(unfolded, taken.map(|(number, count)| (number, count, key.len() - left.len())));
                    if let Some((_, count, _)) = unfolded {
                        prop_assert_eq!(&changed[DigitShape::NUMBER..].as_chunks().0[..count], &digits[..count]);
                    }
                }
                _ => prop_assert!(shape.word(&key).is_none()),
            }
        }

        /// Whatever a damaged page holds, nothing panics, and nothing is read that is not there.
        #[test]
        fn any_bytes_are_decoded(shape in any_shape(), bytes in any_bytes(0)) {
            let value = [&[DigitShape::VALUE], bytes.as_slice()].concat();
            for bytes in [bytes, value] {
                let (length, mut left) = (shape.length(&bytes), bytes.as_slice());
                let value = decoded(&shape, &mut left);
                if let Some(length) = length {
                    prop_assert_eq!(&value, &decoded(&shape, &mut &bytes[..length]));
                    prop_assert!(value.is_none() || left.len() == bytes.len() - length);
                } else {
                    prop_assert_eq!(value, None);
                }
            }
        }

        #[test]
        fn nothing_is_copied_beyond_the_room((shape, [value, _]) in shape_and_values(), room in 0usize..6) {
            let digit = encoded(&shape, &value);
            let (mut out, digit) = ([0; 6], &mut digit.as_slice());
            let n = match shape.kind {
                DigitKind::Bytes => shape.take_bytes(digit, &mut out[..room]),
                DigitKind::Bits => shape.take_bits(digit, &mut out[..room]).map(|bits| bits.div_ceil(8)),
                DigitKind::Numeric => shape.take_numeric(digit, &mut [[0; 2]; 6][..room]).map(|(_, n)| n),
                DigitKind::Fixed(_) | DigitKind::Text | DigitKind::Opaque { .. } => return Ok(()),
            };
            let needed = match plain(value) {
                Some(Value::Bytes(bytes) | Value::Bits(bytes, _)) => Some(bytes.len()),
                Some(Value::Number(_, digits)) => Some(digits.len()),
                _ => None,
            };
            prop_assert_eq!(n, needed.filter(|needed| *needed <= room));
            prop_assert!(out[room..].iter().all(|byte| *byte == 0));
        }

        #[test]
        fn what_does_not_fit_is_counted((shape, [value, _]) in shape_and_values()) {
            let digit = encoded(&shape, &value);
            let mut buffer = Digit::new();
            encode(&shape, &value, &mut buffer);
            prop_assert_eq!(buffer.len(), digit.len());
            prop_assert_eq!(buffer.fits(), digit.len() <= 64);
            prop_assert_eq!(buffer.as_slice(), &digit[..digit.len().min(64)]);
            buffer.clear();
            prop_assert!(buffer.is_empty() && buffer.as_slice().is_empty());
        }

        #[test]
        fn bytes_are_found(bytes in any_bytes(0), wanted: u8) {
            for wanted in [wanted, 0, 1, 0xFF] {
                prop_assert_eq!(find(&bytes, wanted), bytes.iter().position(|byte| *byte == wanted));
            }
        }

        #[test]
        fn shapes_come_back(shape in any_shape(), bytes: [u8; 4]) {
            prop_assert_eq!(DigitShape::from_bytes(shape.to_bytes()), Some(shape));
            if let Some(shape) = DigitShape::from_bytes(bytes) {
                prop_assert_eq!(shape.to_bytes(), bytes);
            }
        }
    }

    #[test]
    fn digits_look_as_documented() {
        let of = |kind, value| encoded(&ascending(kind), &Some(value));
        assert_eq!(of(DigitKind::Fixed(2), Value::Field(0x1234)), [1, 0x12, 0x34]);
        assert_eq!(of(DigitKind::Text, Value::Bytes(b"ab".into())), *b"\x01ab\0");
        assert_eq!(of(DigitKind::Bytes, Value::Bytes(b"a\0".into())), *b"\x01a\x00\xFF\x00\x01");
        assert_eq!(of(DigitKind::Bits, Value::Bits(vec![0xA0], 3)), [1, 0xA0, 0, 1, 3]);
        assert_eq!(of(DigitKind::Bits, Value::Bits(vec![], 0)), [1, 0, 1, 0]);
        let positive = number(DecimalClass::Positive, 1, &[0, 12, 0]);
        assert_eq!(of(DigitKind::Numeric, positive), [1, 4, 0x80, 0, 1, 12, 0]);
        let negative = number(DecimalClass::Negative, 0, &[12]);
        assert_eq!(of(DigitKind::Numeric, negative), [1, 2, 0x7F, 0xFF, 0xFE, 0xF3, 0xFF]);
        let variable = DigitKind::Opaque { prefix: 1, value: ValueLength::Variable };
        assert_eq!(of(variable, Value::Opaque(vec![9], b"abc".into())), [1, 9, 4 << 1 | 1, b'a', b'b', b'c']);
        let long = DigitKind::Opaque { prefix: 0, value: ValueLength::Bytes };
        assert_eq!(of(long, Value::Opaque(vec![], b"a".into())), [1, 5 << 2, 0, 0, 0, b'a']);
    }

    #[test]
    fn descending_digits_are_inverted_but_for_marker_and_opaque_value() {
        let of = |kind, value| encoded(&DigitShape { descending: true, ..ascending(kind) }, &Some(value));
        assert_eq!(of(DigitKind::Fixed(2), Value::Field(0x1234)), [1, 0xED, 0xCB]);
        assert_eq!(of(DigitKind::Text, Value::Bytes(vec![1, 2])), [1, 0xFE, 0xFD, 0xFF]);
        assert_eq!(of(DigitKind::Bytes, Value::Bytes(vec![0])), [1, 0xFF, 0, 0xFF, 0xFE]);
        let cstring = DigitKind::Opaque { prefix: 1, value: ValueLength::CString };
        assert_eq!(of(cstring, Value::Opaque(vec![9], vec![1])), [1, !9, 1, 0]);
    }

    #[test]
    fn nulls_have_one_byte_wherever_they_sort() {
        let last = ascending(DigitKind::Text);
        let first = DigitShape { nulls_first: true, descending: true, ..last };
        assert_eq!((encoded(&last, &None), encoded(&first, &None)), (vec![2], vec![0]));
        assert_eq!((last.length(&[2, 7]), first.length(&[0, 7])), (Some(1), Some(1)));
        // A key that was cut short goes on with zero bytes.
        assert_eq!((last.is_null(&[0]), last.length(&[0])), (true, Some(1)));
        assert_eq!((first.is_null(&[2]), first.length(&[2])), (false, None));
        assert_eq!((last.is_null(&[]), last.length(&[]), last.length(&[3, 0])), (false, None, None));
    }

    /// Longer numbers than any key holds are counted in full.
    #[test]
    fn a_long_number_does_not_fit() {
        let mut buffer = Digit::new();
        let decimal = Decimal { class: DecimalClass::Positive, weight: 40_000 };
        ascending(DigitKind::Numeric).put_numeric(decimal, &[1u16.to_ne_bytes(); 70_000], &mut buffer);
        assert_eq!((buffer.len(), buffer.fits()), (1 + 1 + 2 + 2 * 70_000 + 1, false));
    }

    #[test]
    fn lengths_the_server_does_not_store_are_refused() {
        let shape = |value| ascending(DigitKind::Opaque { prefix: 0, value });
        let lengths = [ValueLength::Variable, ValueLength::Bytes];
        for damaged in [&[1, 1][..], &[1, 0, 0, 0, 0], &[1, 12, 0, 0, 0], &[1, 22, 0, 0, 0, 7]] {
            assert_eq!(lengths.map(|value| shape(value).length(damaged)), [None; 2], "{damaged:?}");
        }
        assert_eq!(lengths.map(|value| shape(value).length(&[1, 5, 7, 0, 0, 0])), [Some(3), None]);
        assert_eq!(lengths.map(|value| shape(value).length(&[1, 20, 0, 0, 0, 7])), [Some(6); 2]);
        let mut compressed = Buffer::<16>::new();
        shape(ValueLength::Variable).put_compressed(&[], &[9 << 2 | 2, 0, 0, 0, 50, 0, 0, 0, 7], &mut compressed);
        assert_eq!(lengths.map(|value| shape(value).length(compressed.as_slice())), [Some(10), None]);
    }

    #[test]
    fn unknown_shapes_are_refused() {
        for bytes in [[0; 4], [10, 0, 0, 0], [1, 0, 0, 0], [1, 0, 17, 0], [2, 4, 0, 0], [2, 0, 1, 0], [7, 0, 0, 1]] {
            assert_eq!(DigitShape::from_bytes(bytes), None, "{bytes:?}");
        }
    }
}
