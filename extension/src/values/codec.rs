//! Codecs: how the values of a column become digits, and are had back image for image.
//!
//! A digit says what the order of a value depends on. What else its image needs, its *residue*, goes beside it: the
//! display scale of a numeric, the trailing blanks of a `character(n)`, the fields of an interval, the sign of a float
//! that is zero or NaN. Values are detoasted: none is stored compressed or out of line.

use core::ffi::CStr;
use core::mem::MaybeUninit;
use core::slice;

use fpbtree_engine::keys::ColumnType;
use fpbtree_engine::keys::digits::{Buffer, Decimal, DecimalClass, DigitKind, DigitShape, ValueLength};
use pgrx::pg_sys::{self, Datum, Oid, Relation};

use crate::pg::ffi;
use crate::pg::ffi::pfree;
use crate::values::abbreviation::{self, Abbreviation};
use crate::values::column::{self, OPTION_DESCENDING, OPTION_NULLS_FIRST};
use crate::values::tuple::Tuple;

/// `NAMEDATALEN`.
const NAME_LENGTH: usize = pg_sys::NAMEDATALEN as usize;

/// How a column's values are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reader {
    /// Of a type that fits a lane.
    Exact(ColumnType),
    Text,
    Bpchar,
    Name,
    Bytea,
    Numeric,
    Timetz,
    Interval,
    Bits,
    Inet,
    /// As bytes that mean nothing.
    Opaque,
}

impl Reader {
    /// The reader of the values that a comparison function (support function 1) orders.
    ///
    /// # Safety
    /// May raise.
    unsafe fn of(order: Oid, collation: Oid) -> Reader {
        if let Some(ty) = column::column_type(order) {
            return Reader::Exact(ty);
        }
        // SAFETY: by this function's contract.
        let in_byte_order = |reader| if unsafe { is_byte_order(collation) } { reader } else { Reader::Opaque };
        match order.to_u32() {
            pg_sys::F_BTTEXTCMP => in_byte_order(Reader::Text),
            pg_sys::F_BPCHARCMP => in_byte_order(Reader::Bpchar),
            pg_sys::F_BTNAMECMP => in_byte_order(Reader::Name),
            pg_sys::F_BTTEXT_PATTERN_CMP => Reader::Text,
            pg_sys::F_BTBPCHAR_PATTERN_CMP => Reader::Bpchar,
            pg_sys::F_BYTEACMP => Reader::Bytea,
            pg_sys::F_NUMERIC_CMP => Reader::Numeric,
            pg_sys::F_TIMETZ_CMP => Reader::Timetz,
            pg_sys::F_INTERVAL_CMP => Reader::Interval,
            pg_sys::F_BITCMP | pg_sys::F_VARBITCMP => Reader::Bits,
            pg_sys::F_NETWORK_CMP => Reader::Inet,
            _ => Reader::Opaque,
        }
    }

    /// How the values are encoded, if not opaquely.
    const fn kind(self) -> Option<DigitKind> {
        Some(match self {
            Reader::Exact(ty) => DigitKind::Fixed(ty.bits().div_ceil(8) as u8),
            Reader::Text | Reader::Bpchar | Reader::Name => DigitKind::Text,
            Reader::Bytea | Reader::Inet => DigitKind::Bytes,
            Reader::Numeric => DigitKind::Numeric,
            Reader::Timetz => DigitKind::Fixed(timetz::WIDTH),
            Reader::Interval => DigitKind::Fixed(interval::WIDTH),
            Reader::Bits => DigitKind::Bits,
            Reader::Opaque => return None,
        })
    }

    /// What the fields of values that are integers to the server, with no bit to spare, are turned over with.
    fn turn(self) -> Option<u64> {
        match self {
            Reader::Exact(ty) if column::is_integer(ty) && ty.bits() >= 8 => Some(ty.decode(0, false) as u64),
            _ => None,
        }
    }
}

/// Whether a collation orders texts as their bytes.
///
/// # Safety
/// May raise.
pub unsafe fn is_byte_order(collation: Oid) -> bool {
    if collation == Oid::INVALID {
        return false;
    }
    // SAFETY: the server's functions, with their signatures of this version.
    unsafe {
        #[cfg(not(feature = "pg18"))]
        return ffi::lc_collate_is_c(collation);
        #[cfg(feature = "pg18")]
        return (*ffi::pg_newlocale_from_collation(collation)).collate_is_c;
    }
}

/// How the values of an index's column become digits and are had back.
#[derive(Clone, Copy)]
pub struct Codec {
    /// The digits.
    pub shape: DigitShape,
    /// The column's collation, for the comparison function.
    pub collation: Oid,
    reader: Reader,
    image: Image,
    /// What fields are turned over with, if values are integers to the server.
    turn: Option<u64>,
    /// Makes an opaque digit's prefix.
    abbreviation: Option<Abbreviation>,
}

impl Codec {
    /// The codec of a key column, counted from 0.
    ///
    /// # Safety
    /// `rel` is an open index of ours with such a key column. May raise.
    pub unsafe fn of(rel: Relation, column: usize) -> Codec {
        // SAFETY: the relation cache's arrays have an element for each key column, and for each support function of it.
        unsafe {
            let order = *(*rel).rd_support.add(column * column::SUPPORT_FUNCTIONS as usize);
            let collation = *(*rel).rd_indcollation.add(column);
            let option = *(*rel).rd_indoption.add(column);
            let reader = Reader::of(order, collation);
            let image = Image::of(rel, column);
            let abbreviation = match reader {
                Reader::Opaque => Abbreviation::of(order, collation),
                _ => None,
            };
            let prefix = if abbreviation.is_some() { abbreviation::LENGTH as u8 } else { 0 };
            let shape = DigitShape {
                kind: reader.kind().unwrap_or_else(|| image.kind(prefix)),
                descending: option & OPTION_DESCENDING != 0,
                nulls_first: option & OPTION_NULLS_FIRST != 0,
            };
            Codec { shape, collation, reader, image, turn: reader.turn(), abbreviation }
        }
    }

    /// The same without a prefix: a column behind an opaque one, where no prefix is compared.
    pub fn without_prefix(self) -> Codec {
        Codec { shape: self.shape.without_prefix(), abbreviation: None, ..self }
    }

    /// The type whose fields the digits are, if its values fit a lane.
    pub fn exact(&self) -> Option<ColumnType> {
        match self.reader {
            Reader::Exact(ty) => Some(ty),
            _ => None,
        }
    }

    /// The largest field of a type whose values fit a lane.
    pub fn largest_field(&self) -> u128 {
        match self.reader {
            Reader::Exact(ty) => u128::MAX >> (128 - ty.bits()),
            _ => u128::MAX,
        }
    }

    /// The codec for an argument of another type that the operator family compares with the column's, if its digits are
    /// ordered among the column's.
    pub fn for_argument(&self, ty: Oid) -> Option<Codec> {
        let reader = match (self.reader, ty) {
            (Reader::Text, pg_sys::NAMEOID) => Reader::Name,
            (Reader::Name, pg_sys::TEXTOID) => Reader::Text,
            _ => return None,
        };
        Some(Codec { reader, ..*self })
    }

    /// Whether some values have a residue.
    pub fn has_residue(&self) -> bool {
        match self.reader {
            Reader::Exact(ty) => ty.is_float(),
            Reader::Bpchar | Reader::Numeric | Reader::Interval => true,
            _ => false,
        }
    }

    /// Puts a value's digit into `key` and its residue into `rest`.
    ///
    /// # Safety
    /// `value` is of the column. The caller's frames own no destructors: may raise.
    #[inline]
    pub unsafe fn put<const N: usize, const M: usize>(
        &self,
        value: Datum,
        is_null: bool,
        key: &mut Buffer<N>,
        rest: &mut Buffer<M>,
    ) {
        if is_null {
            return self.shape.put_null(key);
        }
        let shape = &self.shape;
        // SAFETY: the value is of the type whose comparison function chose the reader.
        unsafe {
            match self.reader {
                Reader::Exact(ty) => put_exact(shape, ty, value, key, rest),
                Reader::Text => with_content(value, |text| shape.put_text(text, key)),
                Reader::Bpchar => with_content(value, |text| {
                    let blanks = text.iter().rev().take_while(|byte| **byte == b' ').count();
                    shape.put_text(&text[..text.len() - blanks], key);
                    put_count(blanks as u32, rest);
                }),
                Reader::Name => shape.put_text(name(value), key),
                Reader::Bytea => with_content(value, |bytes| shape.put_bytes(bytes, key)),
                Reader::Numeric => with_content(value, |stored| numeric::put(shape, stored, key, rest)),
                Reader::Timetz => shape.put_field(timetz::field(value), key),
                Reader::Interval => interval::put(shape, value, key, rest),
                Reader::Bits => with_content(value, |stored| bits::put(shape, stored, key)),
                Reader::Inet => with_content(value, |stored| inet::put(shape, stored, key)),
                Reader::Opaque => match self.abbreviation {
                    Some(abbreviation) => self.image.put(shape, &abbreviation.key(value), value, key),
                    None => self.image.put(shape, &[], value, key),
                },
            }
        }
    }

    /// Puts a value's digit into `key`: what a value that is searched for is compared by.
    ///
    /// # Safety
    /// As for [`put`](Self::put); the value is not NULL.
    #[inline]
    pub unsafe fn image<const N: usize>(&self, value: Datum, key: &mut Buffer<N>) {
        // SAFETY: by this function's contract.
        unsafe { self.put(value, false, key, &mut Buffer::<0>::new()) };
    }

    /// Takes a digit, an opaque one without its prefix, off the front of `key` and its residue off the front of `rest`: the
    /// value is the tuple's next column. None if the bytes are damaged.
    ///
    /// # Safety
    /// The caller's frames own no destructors: may raise when out of memory.
    #[inline(always)]
    pub unsafe fn get(&self, key: &mut &[u8], rest: &mut &[u8], tuple: &mut Tuple) -> Option<()> {
        let (shape, image) = (&self.shape, self.image);
        if shape.take_null(key) {
            tuple.put_null();
            return Some(());
        }
        // SAFETY: by this function's contract.
        unsafe {
            match (self.reader, self.turn) {
                (_, Some(turn)) => tuple.put_integer(shape.take_field(key)? as u64 ^ turn, image.align.into()),
                (Reader::Text, _) => image.get_text(shape, shape.take_text(key)?, 0, tuple),
                _ => self.get_other(key, rest, tuple),
            }
        }
    }

    /// The same of the less common kinds, apart from the others, which take few registers.
    #[inline(never)]
    unsafe fn get_other(&self, key: &mut &[u8], rest: &mut &[u8], tuple: &mut Tuple) -> Option<()> {
        let (shape, image) = (&self.shape, self.image);
        // SAFETY: by the contract of `get`.
        unsafe {
            match self.reader {
                Reader::Exact(ty) => get_exact(ty, shape.take_field(key)?, rest, tuple),
                Reader::Text => unreachable!("`get` has texts itself"),
                Reader::Bpchar => {
                    let blanks = take_count(rest).filter(|blanks| *blanks < MOST_BLANKS)?;
                    image.get_text(shape, shape.take_text(key)?, blanks as usize, tuple)
                }
                Reader::Name => get_name(shape, shape.take_text(key)?, image, tuple),
                Reader::Bytea => image.get_content(key.len(), tuple, |room| shape.take_bytes(key, room)),
                Reader::Numeric => {
                    image.get_content(numeric::most(key), tuple, |room| numeric::get(shape, key, rest, room))
                }
                Reader::Timetz => tuple.put(&timetz::get(shape.take_field(key)?), image.align.into()),
                Reader::Interval => tuple.put(&interval::get(shape.take_field(key)?, rest)?, image.align.into()),
                Reader::Bits => image.get_content(bits::most(key), tuple, |room| bits::get(shape, key, room)),
                Reader::Inet => image.get_content(inet::MOST, tuple, |room| inet::get(shape, key, room)),
                Reader::Opaque => image.get(shape.without_prefix().take_opaque(key)?, tuple),
            }
        }
    }

    /// An opaque digit's value as the server's, to call the comparison function with: in place where its alignment
    /// allows it, else in `scratch`. None if the digit is damaged, or longer than a key can be.
    #[inline]
    pub fn datum(&self, value: &[u8], scratch: &mut Scratch) -> Option<Datum> {
        self.image.datum(value, scratch)
    }
}

/// A column that is included in an index but is no key of it. NULL or the value is kept beside the key.
#[derive(Clone, Copy)]
pub struct Payload {
    shape: DigitShape,
    image: Image,
}

impl Payload {
    /// The included column, counted from 0 with the key columns.
    ///
    /// # Safety
    /// `rel` is an open index of ours with such a column. May raise.
    pub unsafe fn of(rel: Relation, column: usize) -> Payload {
        // SAFETY: by this function's contract.
        let image = unsafe { Image::of(rel, column) };
        Payload { shape: DigitShape { kind: image.kind(0), descending: false, nulls_first: true }, image }
    }

    /// Puts a value into `rest`.
    ///
    /// # Safety
    /// `value` is of the column. The caller's frames own no destructors: may raise.
    pub unsafe fn put<const M: usize>(&self, value: Datum, is_null: bool, rest: &mut Buffer<M>) {
        if is_null {
            return self.shape.put_null(rest);
        }
        // SAFETY: by this function's contract.
        unsafe { self.image.put(&self.shape, &[], value, rest) };
    }

    /// Takes a value off the front of `rest`: it is the tuple's next column. None if the bytes are damaged.
    ///
    /// # Safety
    /// The caller's frames own no destructors: may raise when out of memory.
    pub unsafe fn get(&self, rest: &mut &[u8], tuple: &mut Tuple) -> Option<()> {
        if self.shape.take_null(rest) {
            tuple.put_null();
            return Some(());
        }
        // SAFETY: by this function's contract.
        unsafe { self.image.get(self.shape.take_opaque(rest)?, tuple) }
    }
}

/// Where a value is put whose alignment does not let it be read in place.
#[repr(align(8))]
pub struct Scratch([MaybeUninit<u8>; Scratch::SIZE]);

impl Scratch {
    /// As much as a key can have.
    const SIZE: usize = 2048;

    /// Room for a value.
    pub const fn new() -> Scratch {
        Scratch([MaybeUninit::uninit(); Self::SIZE])
    }
}

/// How the server stores a column's values.
#[derive(Clone, Copy)]
struct Image {
    /// `attlen`: bytes of every value, or one of the two below.
    length: i16,
    by_value: bool,
    align: u8,
    /// Whether a value may have a length of 1 byte.
    packable: bool,
}

impl Image {
    /// A length is in front.
    const VARLENA: i16 = -1;

    /// # Safety
    /// `rel` is open and has the column, counted from 0. May raise.
    unsafe fn of(rel: Relation, column: usize) -> Image {
        // SAFETY: by this function's contract.
        unsafe {
            let attribute = &*attribute((*rel).rd_att, column);
            let align = match attribute.attalign as u8 {
                b'd' => 8,
                b'i' => 4,
                b's' => 2,
                _ => 1,
            };
            Image {
                length: attribute.attlen,
                by_value: attribute.attbyval,
                align,
                // The type's, not the column's, which ALTER TABLE changes in an index as it is.
                packable: attribute.attlen == Self::VARLENA
                    && ffi::get_typstorage(attribute.atttypid) as u8 != pg_sys::TYPSTORAGE_PLAIN,
            }
        }
    }

    fn kind(self, prefix: u8) -> DigitKind {
        let value = match self.length {
            Self::VARLENA if self.packable => ValueLength::Variable,
            Self::VARLENA => ValueLength::Bytes,
            length => match u8::try_from(length) {
                Ok(length) => ValueLength::Fixed(length),
                Err(_) if length < 0 => ValueLength::CString,
                Err(_) => ValueLength::Bytes,
            },
        };
        DigitKind::Opaque { prefix, value }
    }

    /// Whether a value of fixed length has one in front nevertheless: it is longer than a kind can say.
    fn has_needless_length(self) -> bool {
        self.length > u8::MAX.into()
    }

    unsafe fn put<const N: usize>(self, shape: &DigitShape, prefix: &[u8], value: Datum, buffer: &mut Buffer<N>) {
        // SAFETY: a value of the column, which is stored so.
        unsafe {
            match self.length {
                Self::VARLENA => with_content(value, |content| shape.put_opaque(prefix, content, buffer)),
                length if length < 0 => {
                    shape.put_opaque(prefix, CStr::from_ptr(value.cast_mut_ptr()).to_bytes(), buffer);
                }
                length if self.by_value => {
                    shape.put_opaque(prefix, &value.value().to_le_bytes()[..length as usize], buffer);
                }
                length => {
                    shape.put_opaque(prefix, slice::from_raw_parts(value.cast_mut_ptr(), length as usize), buffer)
                }
            }
        }
    }

    /// The bytes that the server sees of a value that was stored with its length or terminator.
    fn seen(self, stored: &[u8]) -> Option<&[u8]> {
        let seen = if self.has_needless_length() { stored.get(4..)? } else { stored };
        (self.length < 0 || seen.len() == self.length as usize).then_some(seen)
    }

    /// The value stored so, in place or in `scratch`.
    #[inline]
    fn datum(self, stored: &[u8], scratch: &mut Scratch) -> Option<Datum> {
        let seen = self.seen(stored)?;
        if self.by_value {
            return by_value(seen);
        }
        let is_short = self.length == Self::VARLENA && seen[0] & 1 == 1;
        if is_short || seen.as_ptr().addr().is_multiple_of(self.align.into()) {
            return Some(Datum::from(seen.as_ptr()));
        }
        let room = scratch.0.get_mut(..seen.len())?;
        Some(Datum::from(room.write_copy_of_slice(seen).as_ptr()))
    }

    /// Puts the value stored so into a tuple.
    #[inline]
    unsafe fn get(self, stored: &[u8], tuple: &mut Tuple) -> Option<()> {
        let seen = self.seen(stored)?;
        let is_short = self.length == Self::VARLENA && seen[0] & 1 == 1;
        // SAFETY: may raise, as the caller allows.
        unsafe { tuple.put(seen, if is_short { 1 } else { self.align.into() }) }
    }

    /// Puts a text and blanks behind it into a tuple, with a length in front that is as short as the server has it.
    #[inline(always)]
    unsafe fn get_text(self, shape: &DigitShape, text: &[u8], blanks: usize, tuple: &mut Tuple) -> Option<()> {
        let length = text.len() + blanks;
        let is_short = self.packable && length <= MOST_SHORT;
        let (header, align) = if is_short { (1, 1) } else { (HEADER, self.align.into()) };
        // SAFETY: may raise, as the caller allows.
        unsafe {
            tuple.put_with(header + length, align, |room| {
                match room.first_chunk_mut() {
                    Some(long) if !is_short => *long = bytes_header(length),
                    _ => room[0] = short_header(length),
                }
                let (text_room, blank_room) = room[header..].split_at_mut_checked(text.len())?;
                shape.copy_text(text, text_room);
                blank_room.fill(b' ');
                Some(header + length)
            })
        }
    }

    /// The same of what `write` writes: `most` bytes or less.
    #[inline]
    unsafe fn get_content(
        self,
        most: usize,
        tuple: &mut Tuple,
        write: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> Option<()> {
        let align = usize::from(self.align);
        // SAFETY: may raise, as the caller allows.
        unsafe {
            tuple.put_with(align + HEADER + most, 1, |room| {
                // Most are short; others are moved.
                let length = write(&mut room[1..=most])?;
                if self.packable && length <= MOST_SHORT {
                    room[0] = short_header(length);
                    return Some(1 + length);
                }
                let padding = room.as_ptr().align_offset(align);
                let start = padding + HEADER;
                room.copy_within(1..=length, start);
                room[..padding].fill(0);
                room[padding..start].copy_from_slice(&bytes_header(length));
                Some(start + length)
            })
        }
    }
}

/// `TupleDescAttr`.
unsafe fn attribute(descriptor: pg_sys::TupleDesc, column: usize) -> *const pg_sys::FormData_pg_attribute {
    // SAFETY: by the caller's contract the descriptor has the column.
    unsafe {
        #[cfg(not(feature = "pg18"))]
        return (*descriptor).attrs.as_ptr().add(column);
        // They are behind the compact ones.
        #[cfg(feature = "pg18")]
        return (*descriptor)
            .compact_attrs
            .as_ptr()
            .add((*descriptor).natts as usize)
            .cast::<pg_sys::FormData_pg_attribute>()
            .add(column);
    }
}

/// The datum of a value that is passed as one, extended as the server extends it.
fn by_value(bytes: &[u8]) -> Option<Datum> {
    Some(match *bytes {
        [a] => Datum::from(a as i8),
        [a, b] => Datum::from(i16::from_le_bytes([a, b])),
        [a, b, c, d] => Datum::from(i32::from_le_bytes([a, b, c, d])),
        _ => Datum::from(u64::from_le_bytes(bytes.try_into().ok()?)),
    })
}

/// Bytes of the length that is in front of a value, if it is not a short one.
const HEADER: usize = 4;
/// The most bytes of a value with a length of 1 byte.
const MOST_SHORT: usize = 126;

/// The length of a value, itself included, in 4 bytes.
fn bytes_header(content: usize) -> [u8; HEADER] {
    (((HEADER + content) as u32) << 2).to_le_bytes()
}

/// The same in 1 byte.
fn short_header(content: usize) -> u8 {
    (1 + content as u8) << 1 | 1
}

/// What `use_content` makes of a value, less the length in front of it.
///
/// # Safety
/// A value of variable length. The caller's frames own no destructors: may raise.
pub unsafe fn with_content<R>(value: Datum, use_content: impl FnOnce(&[u8]) -> R) -> R {
    let given = value.cast_mut_ptr::<u8>();
    // SAFETY: a value with a length in front; whichever form that has, the server's function leaves one of the two that
    // are in memory and not compressed. It may raise, as every caller allows, and so may `use_content`.
    unsafe {
        let is_plain = *given & 3 == 0 || (*given & 1 == 1 && *given != 1);
        let plain = if is_plain { given } else { ffi::pg_detoast_datum_packed(given.cast()).cast() };
        let result = use_content(content(plain));
        if plain != given {
            pfree(plain.cast());
        }
        result
    }
}

/// What is behind the length of a value.
unsafe fn content<'a>(plain: *const u8) -> &'a [u8] {
    // SAFETY: by the caller's contract a length, then as many bytes as it says.
    unsafe {
        if *plain & 1 == 1 {
            slice::from_raw_parts(plain.add(1), usize::from(*plain >> 1) - 1)
        } else {
            let length = plain.cast::<u32>().read_unaligned() >> 2;
            slice::from_raw_parts(plain.add(HEADER), length as usize - HEADER)
        }
    }
}

unsafe fn put_exact<const N: usize, const M: usize>(
    shape: &DigitShape,
    ty: ColumnType,
    value: Datum,
    key: &mut Buffer<N>,
    rest: &mut Buffer<M>,
) {
    // SAFETY: a value of the type, by the caller's contract.
    let (field, negative) = ty.encode(unsafe { column::image(ty, value) });
    shape.put_field(field, key);
    if has_two_images(ty, field) {
        rest.put_byte(negative.into());
    }
}

unsafe fn get_exact(ty: ColumnType, field: u128, rest: &mut &[u8], tuple: &mut Tuple) -> Option<()> {
    let negative = has_two_images(ty, field) && *rest.split_off_first()? != 0;
    let field = Some(field).filter(|field| *field <= last_field(ty))?;
    // SAFETY: may raise, as the caller allows.
    unsafe { tuple.put_exact(ty, ty.decode(field, negative)) }
}

/// The largest field of a type.
fn last_field(ty: ColumnType) -> u128 {
    u128::MAX >> (128 - ty.bits())
}

/// Whether a float's field is that of 0 and -0, or of NaN and -NaN.
fn has_two_images(ty: ColumnType, field: u128) -> bool {
    ty.is_float() && (field == last_field(ty) || field == ty.encode(0).0)
}

/// The bytes of a name, or of the C string that is stored for it.
unsafe fn name<'a>(value: Datum) -> &'a [u8] {
    // SAFETY: ends with a zero byte, by the caller's contract; a name is not read beyond its length.
    unsafe {
        let bytes = value.cast_mut_ptr::<u8>();
        let length = (0..NAME_LENGTH - 1).find(|&i| *bytes.add(i) == 0).unwrap_or(NAME_LENGTH - 1);
        slice::from_raw_parts(bytes, length)
    }
}

/// A name, or the C string that is stored for it.
unsafe fn get_name(shape: &DigitShape, name: &[u8], image: Image, tuple: &mut Tuple) -> Option<()> {
    let whole = usize::try_from(image.length).unwrap_or(name.len() + 1);
    // SAFETY: may raise, as the caller allows.
    unsafe {
        tuple.put_with(whole, image.align.into(), |room| {
            let (text, zeros) = room.split_at_mut_checked(name.len()).filter(|(_, zeros)| !zeros.is_empty())?;
            shape.copy_text(name, text);
            zeros.fill(0);
            Some(whole)
        })
    }
}

/// More blanks than any `character(n)` has.
const MOST_BLANKS: u32 = 1 << 24;

/// Puts a number, seven bits a byte.
fn put_count<const M: usize>(mut count: u32, rest: &mut Buffer<M>) {
    while count >= 0x80 {
        rest.put_byte(count as u8 | 0x80);
        count >>= 7;
    }
    rest.put_byte(count as u8);
}

/// Takes a number that [`put_count`] put.
fn take_count(rest: &mut &[u8]) -> Option<u32> {
    let mut count = 0u64;
    for shift in (0..35).step_by(7) {
        let byte = *rest.split_off_first()?;
        count |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return count.try_into().ok();
        }
    }
    None
}

/// A signed number as one whose size is that of its magnitude.
fn folded(number: i32) -> u32 {
    ((number << 1) ^ (number >> 31)) as u32
}

/// What was [`folded`].
fn unfolded(folded: u32) -> i32 {
    (folded >> 1) as i32 ^ -((folded & 1) as i32)
}

/// `numeric`: a header of 2 or 4 bytes with sign, display scale and weight, then base-10000 digits.
mod numeric {
    use super::*;

    /// The header's upper bits: which form it has.
    const FORM: u16 = 0xC000;
    const LONG_NEGATIVE: u16 = 0x4000;
    const SHORT: u16 = 0x8000;
    const SPECIAL: u16 = 0xC000;
    const LONG_SCALE: u16 = 0x3FFF;

    /// The short form.
    const SHORT_NEGATIVE: u16 = 0x2000;
    const SHORT_SCALES: u16 = 0x40;
    const SHORT_SCALE_SHIFT: u32 = 7;
    const SHORT_WEIGHT: u16 = 0x7F;
    const SHORT_WEIGHTS: core::ops::Range<i32> = -0x40..0x40;

    /// Values that are no numbers.
    const NAN: u16 = 0xC000;
    const INFINITY: u16 = 0xD000;
    const NEGATIVE_INFINITY: u16 = 0xF000;
    const SPECIAL_VALUE: u16 = 0xF000;

    pub fn put<const N: usize, const M: usize>(
        shape: &DigitShape,
        stored: &[u8],
        key: &mut Buffer<N>,
        rest: &mut Buffer<M>,
    ) {
        let (words, _) = stored.as_chunks::<2>();
        let [header, words @ ..] = words else { return };
        let header = u16::from_le_bytes(*header);
        let (class, weight, scale, digits) = match (header & FORM, words) {
            (SPECIAL, _) => return shape.put_numeric(Decimal { class: special(header), weight: 0 }, &[], key),
            (SHORT, digits) => {
                let weight = i32::from((header << 9) as i16 >> 9);
                (sign(header & SHORT_NEGATIVE), weight, header >> SHORT_SCALE_SHIFT & (SHORT_SCALES - 1), digits)
            }
            (_, [weight, digits @ ..]) => {
                (sign(header & LONG_NEGATIVE), i16::from_le_bytes(*weight).into(), header & LONG_SCALE, digits)
            }
            (_, []) => return,
        };
        shape.put_numeric(Decimal { class, weight }, digits, key);
        put_count(scale.into(), rest);
    }

    fn sign(bit: u16) -> DecimalClass {
        if bit == 0 { DecimalClass::Positive } else { DecimalClass::Negative }
    }

    fn special(header: u16) -> DecimalClass {
        match header & SPECIAL_VALUE {
            INFINITY => DecimalClass::PositiveInfinity,
            NEGATIVE_INFINITY => DecimalClass::NegativeInfinity,
            _ => DecimalClass::NaN,
        }
    }

    /// Bytes before the digits in the short and in the long form.
    const SHORT_START: usize = 2;
    const LONG_START: usize = 4;

    /// The most bytes that a number at the front of `key` has.
    pub fn most(key: &[u8]) -> usize {
        LONG_START + key.len()
    }

    pub fn get(shape: &DigitShape, key: &mut &[u8], rest: &mut &[u8], out: &mut [u8]) -> Option<usize> {
        let (decimal, count) = shape.take_numeric(key, out[SHORT_START..].as_chunks_mut::<2>().0)?;
        let end = SHORT_START + 2 * count;
        let word = |out: &mut [u8], at: usize, word: u16| out[at..at + 2].copy_from_slice(&word.to_le_bytes());
        let negative = decimal.class == DecimalClass::Negative;
        let special = match decimal.class {
            DecimalClass::NaN => Some(NAN),
            DecimalClass::PositiveInfinity => Some(INFINITY),
            DecimalClass::NegativeInfinity => Some(NEGATIVE_INFINITY),
            _ => None,
        };
        if let Some(header) = special {
            word(out, 0, header);
            return Some(end);
        }
        let scale = u16::try_from(take_count(rest)?).ok().filter(|scale| *scale <= LONG_SCALE)?;
        if scale < SHORT_SCALES && SHORT_WEIGHTS.contains(&decimal.weight) {
            let sign = if negative { SHORT_NEGATIVE } else { 0 };
            word(out, 0, SHORT | sign | scale << SHORT_SCALE_SHIFT | decimal.weight as u16 & SHORT_WEIGHT);
            return Some(end);
        }
        out.copy_within(SHORT_START..end, LONG_START);
        word(out, 0, scale | if negative { LONG_NEGATIVE } else { 0 });
        word(out, 2, decimal.weight as u16);
        Some(end + LONG_START - SHORT_START)
    }
}

/// `time with time zone`: 8 bytes of local time, 4 bytes of seconds west of Greenwich. The universal time is compared
/// first, then the zone.
mod timetz {
    use super::*;

    pub const WIDTH: u8 = 12;
    const SECOND: i64 = 1_000_000;

    pub unsafe fn field(value: Datum) -> u128 {
        // SAFETY: a value of the type, by the caller's contract.
        let (time, zone) = unsafe {
            let stored = value.cast_mut_ptr::<u8>();
            (stored.cast::<i64>().read_unaligned(), stored.add(8).cast::<i32>().read_unaligned())
        };
        let universal = time.wrapping_add(i64::from(zone) * SECOND);
        u128::from(universal as u64 ^ 1 << 63) << 32 | u128::from(zone as u32 ^ 1 << 31)
    }

    pub fn get(field: u128) -> [u8; WIDTH as usize] {
        let zone = (field as u32 ^ 1 << 31) as i32;
        let universal = ((field >> 32) as u64 ^ 1 << 63) as i64;
        let time = universal.wrapping_sub(i64::from(zone) * SECOND);
        let mut value = [0; WIDTH as usize];
        value[..8].copy_from_slice(&time.to_le_bytes());
        value[8..].copy_from_slice(&zone.to_le_bytes());
        value
    }
}

/// `interval`: 8 bytes of time, 4 of days, 4 of months. What is compared is its span, with days of 24 hours and months of
/// 30 days; days and months are the residue.
mod interval {
    use super::*;

    /// Spans have less than 80 bits.
    pub const WIDTH: u8 = 10;
    const BIAS: i128 = 1 << 79;
    const DAY: i128 = 86_400_000_000;

    fn span(time: i64, days: i32, months: i32) -> i128 {
        i128::from(time) + (30 * i128::from(months) + i128::from(days)) * DAY
    }

    pub unsafe fn put<const N: usize, const M: usize>(
        shape: &DigitShape,
        value: Datum,
        key: &mut Buffer<N>,
        rest: &mut Buffer<M>,
    ) {
        // SAFETY: a value of the type, by the caller's contract.
        let (time, days, months) = unsafe {
            let stored = value.cast_mut_ptr::<u8>();
            let word = |at| stored.add(at).cast::<i32>().read_unaligned();
            (stored.cast::<i64>().read_unaligned(), word(8), word(12))
        };
        shape.put_field((span(time, days, months) + BIAS) as u128, key);
        put_count(folded(days), rest);
        put_count(folded(months), rest);
    }

    pub fn get(field: u128, rest: &mut &[u8]) -> Option<[u8; 16]> {
        let days = unfolded(take_count(rest)?);
        let months = unfolded(take_count(rest)?);
        let time = i64::try_from(field as i128 - BIAS - span(0, days, months)).ok()?;
        let mut value = [0; 16];
        value[..8].copy_from_slice(&time.to_le_bytes());
        value[8..12].copy_from_slice(&days.to_le_bytes());
        value[12..].copy_from_slice(&months.to_le_bytes());
        Some(value)
    }
}

/// `bit` and `bit varying`: 4 bytes with the number of bits, then the bits.
mod bits {
    use super::*;

    const COUNT: usize = 4;

    pub fn put<const N: usize>(shape: &DigitShape, stored: &[u8], key: &mut Buffer<N>) {
        if let Some((count, bytes)) = stored.split_first_chunk::<COUNT>() {
            shape.put_bits(bytes, u32::from_le_bytes(*count) as usize, key);
        }
    }

    /// The most bytes that a bit string at the front of `key` has.
    pub fn most(key: &[u8]) -> usize {
        COUNT + key.len()
    }

    pub fn get(shape: &DigitShape, key: &mut &[u8], out: &mut [u8]) -> Option<usize> {
        let (count, bytes) = out.split_first_chunk_mut::<COUNT>()?;
        let bits = shape.take_bits(key, bytes)?;
        *count = i32::try_from(bits).ok()?.to_le_bytes();
        Some(COUNT + bits.div_ceil(8))
    }
}

/// `inet` and `cidr`: the family, the number of bits of the network, the address.
///
/// Compared are the family, the network as far as both go, its number of bits, and the address. The bytes of family,
/// network, number and host, the other parts zero in each, are in that order; zeros at the end are known by the family.
mod inet {
    use super::*;

    /// Families, and bytes of their addresses.
    const FAMILIES: [(u8, usize); 2] = [(2, 4), (3, 16)];
    /// The longest: a family, a network, a number of bits and a host.
    pub const MOST: usize = 2 + 2 * 16;

    fn width(family: u8) -> Option<usize> {
        FAMILIES.iter().find(|(known, _)| *known == family).map(|(_, width)| *width)
    }

    /// The network's bits in the byte of an address.
    fn mask(bits: u8, byte: usize) -> u8 {
        match usize::from(bits).saturating_sub(8 * byte) {
            0 => 0,
            n @ 1..8 => 0xFF << (8 - n),
            _ => 0xFF,
        }
    }

    pub fn put<const N: usize>(shape: &DigitShape, stored: &[u8], key: &mut Buffer<N>) {
        let &[family, bits, ref address @ ..] = stored else { return };
        let Some(width) = width(family).filter(|width| *width <= address.len()) else { return };
        let mut parts = [0; MOST];
        parts[0] = family;
        parts[1 + width] = bits;
        for (i, byte) in address[..width].iter().enumerate() {
            parts[1 + i] = byte & mask(bits, i);
            parts[2 + width + i] = byte & !mask(bits, i);
        }
        let zeros = parts.iter().rev().take_while(|byte| **byte == 0).count();
        shape.put_bytes(&parts[..MOST - zeros], key);
    }

    pub fn get(shape: &DigitShape, key: &mut &[u8], out: &mut [u8]) -> Option<usize> {
        let mut parts = [0; MOST];
        shape.take_bytes(key, &mut parts)?;
        let [family, parts @ ..] = parts;
        let width = width(family)?;
        let bits = Some(parts[width]).filter(|bits| usize::from(*bits) <= 8 * width)?;
        (out[0], out[1]) = (family, bits);
        for (i, byte) in out[2..2 + width].iter_mut().enumerate() {
            *byte = parts[i] | parts[width + 1 + i];
        }
        Some(2 + width)
    }
}
