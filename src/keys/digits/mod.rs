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

    /// Whether it is a number that is not zero.
    pub const fn has_digits(self) -> bool {
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
        let (&marker, behind) = bytes.split_first()?;
        self.word_of(marker, u64::from_be_bytes(*behind.first_chunk()?))
    }

    /// As [`word`](Self::word), of a digit's marker and the bytes behind it.
    #[inline(always)]
    pub fn word_of(&self, marker: u8, behind: u64) -> Option<(u64, usize)> {
        let DigitKind::Fixed(width @ 1..=8) = self.kind else { return None };
        let word = behind ^ u64::from_ne_bytes([self.flip(); 8]);
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
mod tests;
