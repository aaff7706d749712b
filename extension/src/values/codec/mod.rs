//! Codecs: how the values of a column become digits, and are had back image for image.
//!
//! A digit says what the order of a value depends on. What else its image needs, its *residue*, goes beside it: the
//! display scale of a numeric, the trailing blanks of a `character(n)`, the fields of an interval, the sign of a float
//! that is zero or NaN. Values are detoasted: none is stored compressed or out of line.

use fpbtree_engine::keys::ColumnType;
use fpbtree_engine::keys::digits::{Buffer, DigitKind, DigitShape};
use pgrx::pg_sys::{self, Datum, Oid, Relation};

use self::image::Image;
use self::residue::{put_count, take_count};
use crate::values::abbreviation::{self, Abbreviation};
use crate::values::column::{self, OPTION_DESCENDING, OPTION_NULLS_FIRST, is_byte_order};
use crate::values::tuple::Tuple;
use crate::values::varlena::with_content;

mod bits;
mod exact;
mod image;
mod inet;
mod interval;
mod numeric;
mod residue;
mod text;
mod timetz;

pub use self::image::Scratch;

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
                Reader::Exact(ty) => exact::put(shape, ty, value, key, rest),
                Reader::Text => with_content(value, |text| shape.put_text(text, key)),
                Reader::Bpchar => with_content(value, |text| {
                    let blanks = text.iter().rev().take_while(|byte| **byte == b' ').count();
                    shape.put_text(&text[..text.len() - blanks], key);
                    put_count(blanks as u32, rest);
                }),
                Reader::Name => shape.put_text(text::name(value), key),
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
                Reader::Exact(ty) => exact::get(ty, shape.take_field(key)?, rest, tuple),
                Reader::Text => unreachable!("`get` has texts itself"),
                Reader::Bpchar => {
                    let blanks = take_count(rest).filter(|blanks| *blanks < text::MOST_BLANKS)?;
                    image.get_text(shape, shape.take_text(key)?, blanks as usize, tuple)
                }
                Reader::Name => text::get_name(shape, shape.take_text(key)?, image, tuple),
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
