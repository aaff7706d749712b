//! Codecs: how the values of a column become digits, and are had back image for image.
//!
//! A digit says what the order of a value depends on. What else its image needs, its *residue*, goes beside it: the
//! display scale of a numeric, the trailing blanks of a `character(n)`, the fields of an interval, the sign of a float
//! that is zero or NaN. Values are detoasted; long ones that nothing but functions compares are compressed again.

use core::cmp::Ordering;

use fpbtree_engine::keys::ColumnType;
use fpbtree_engine::keys::bytes::{MOST_HINT, Stored, front_length};
use fpbtree_engine::keys::digits::{Buffer, DigitKind, DigitShape};
use pgrx::pg_sys::{self, Datum, FmgrInfo, Oid, Relation};

use self::image::Image;
use self::json::JsonHints;
use self::residue::{put_count, take_count};
use crate::pg::ffi;
use crate::values::abbreviation::{self, Abbreviation};
use crate::values::collation::{SortKeys, is_byte_order};
use crate::values::column::{self, OPTION_DESCENDING, OPTION_NULLS_FIRST};
use crate::values::exact as values_exact;
use crate::values::letters::{self, LETTER_BITS, Letters};
use crate::values::sort_support::SortSupport;
use crate::values::tuple::Tuple;
use crate::values::varlena::{MOST_SHORT, is_compressed, short_header, stored_content, with_content};

mod bits;
mod exact;
mod image;
mod inet;
mod interval;
mod json;
mod numeric;
mod residue;
mod text;
mod timetz;

pub use self::image::DatumBuffer;
pub use self::numeric::number;

/// How a column's values are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Encoding {
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

impl Encoding {
    /// The reader of the values that a comparison function (support function 1) orders.
    ///
    /// # Safety
    /// May raise.
    unsafe fn of(order: Oid, collation: Oid) -> Encoding {
        if let Some(ty) = column::column_type(order) {
            return Encoding::Exact(ty);
        }
        // SAFETY: a catalog lookup.
        let in_byte_order = |encoding| if unsafe { is_byte_order(collation) } { encoding } else { Encoding::Opaque };
        match order.to_u32() {
            pg_sys::F_BTTEXTCMP => in_byte_order(Encoding::Text),
            pg_sys::F_BPCHARCMP => in_byte_order(Encoding::Bpchar),
            pg_sys::F_BTNAMECMP => in_byte_order(Encoding::Name),
            pg_sys::F_BTTEXT_PATTERN_CMP => Encoding::Text,
            pg_sys::F_BTBPCHAR_PATTERN_CMP => Encoding::Bpchar,
            pg_sys::F_BYTEACMP => Encoding::Bytea,
            pg_sys::F_NUMERIC_CMP => Encoding::Numeric,
            pg_sys::F_TIMETZ_CMP => Encoding::Timetz,
            pg_sys::F_INTERVAL_CMP => Encoding::Interval,
            pg_sys::F_BITCMP | pg_sys::F_VARBITCMP => Encoding::Bits,
            pg_sys::F_NETWORK_CMP => Encoding::Inet,
            _ => Encoding::Opaque,
        }
    }

    /// How the values are encoded, if not opaquely.
    const fn kind(self) -> Option<DigitKind> {
        Some(match self {
            Encoding::Exact(ty) => DigitKind::Fixed(ty.bits().div_ceil(8) as u8),
            Encoding::Text | Encoding::Bpchar | Encoding::Name => DigitKind::Text,
            Encoding::Bytea | Encoding::Inet => DigitKind::Bytes,
            Encoding::Numeric => DigitKind::Numeric,
            Encoding::Timetz => DigitKind::Fixed(timetz::WIDTH),
            Encoding::Interval => DigitKind::Fixed(interval::WIDTH),
            Encoding::Bits => DigitKind::Bits,
            Encoding::Opaque => return None,
        })
    }

    /// What the fields of values that are integers to the server, with no bit to spare, are turned over with.
    fn turn(self) -> Option<u64> {
        match self {
            Encoding::Exact(ty) if column::is_integer(ty) && ty.bits() >= 8 => Some(ty.decode(0, false) as u64),
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
    encoding: Encoding,
    image: Image,
    /// What fields are turned over with, if values are integers to the server.
    turn: Option<u64>,
    /// Makes an opaque digit's prefix.
    abbreviation: Option<Abbreviation>,
    /// Makes hints of opaque values.
    hints: Option<Hints>,
    /// Compares opaque values, where it does not take the comparison function.
    support: Option<SortSupport>,
}

/// What makes hints of opaque values.
#[derive(Clone, Copy)]
enum Hints {
    Texts(TextHints),
    Json(JsonHints),
    /// Of enums: labels are mostly in the order of their numbers.
    Labels,
}

impl Hints {
    /// For the values that a comparison function (support function 1) orders under a collation, whose digits have a
    /// prefix of so many bytes.
    ///
    /// # Safety
    /// May raise.
    unsafe fn of(order: Oid, collation: Oid, prefix: u8) -> Option<Hints> {
        if order.to_u32() == pg_sys::F_ENUM_CMP {
            return Some(Hints::Labels);
        }
        // SAFETY: catalog lookups.
        unsafe {
            let texts = TextHints::of(order, collation, prefix).map(Hints::Texts);
            texts.or_else(|| JsonHints::of(order).map(Hints::Json))
        }
    }

    /// Fills `out` with the hint of a value, given what is behind its length if it has one, and returns how many bytes
    /// that has.
    fn put(self, content: &[u8], out: &mut [u8]) -> usize {
        match self {
            Hints::Texts(texts) => texts.put(content, out),
            Hints::Json(values) => values.put(content, 0, out),
            Hints::Labels => {
                let label = label(content).to_be_bytes();
                let length = label.len().min(out.len());
                out[..length].copy_from_slice(&label[..length]);
                length
            }
        }
    }

    /// Its first `BITS` bits, of what a text has behind so many bytes, or of what the hint of a jsonb has.
    #[inline]
    fn brief<const BITS: u32>(self, value: &[u8], skip: usize) -> u128 {
        match self {
            Hints::Texts(texts) => stored_content(value).map_or(0, |text| texts.letters(text, skip).packed::<BITS>()),
            Hints::Json(values) => {
                let mut bytes = [0; size_of::<u128>()];
                let room = &mut bytes[..BITS as usize / 8];
                stored_content(value).map(|content| values.put(content, skip, room));
                u128::from_be_bytes(bytes)
            }
            Hints::Labels => u128::from(label(value)) << (u128::BITS - u32::BITS),
        }
    }

    /// How two values may be ordered, by what they have behind so many bytes.
    fn guess(self, a: &[u8], b: &[u8], skip: usize) -> Ordering {
        match (self, stored_content(a), stored_content(b)) {
            (Hints::Texts(texts), Some(a), Some(b)) => texts.order(a, b, skip),
            (Hints::Json(values), Some(a), Some(b)) => {
                let (mut one, mut other) = ([0; MOST_HINT], [0; MOST_HINT]);
                let (used, length) = (values.put(a, skip, &mut one), values.put(b, skip, &mut other));
                one[..used].cmp(&other[..length])
            }
            _ => Ordering::Equal,
        }
    }

    /// How many bytes two texts, or the hints of two jsonbs, have in common at their fronts.
    fn common(self, a: &[u8], b: &[u8]) -> usize {
        match (self, stored_content(a), stored_content(b)) {
            (Hints::Texts(_), Some(a), Some(b)) => {
                let length = a.len().min(b.len());
                front_length(&a[..length], &b[..length])
            }
            (Hints::Json(values), Some(a), Some(b)) => {
                let (mut one, mut other) = ([0; MOST_HINT], [0; MOST_HINT]);
                let length = values.put(a, 0, &mut one).min(values.put(b, 0, &mut other));
                front_length(&one[..length], &other[..length])
            }
            _ => 0,
        }
    }
}

/// The number of an enum's label, 0 of what is none. The server compares even ones as numbers (`enum_cmp_internal`);
/// others belong to labels that were put between older ones.
fn label(value: &[u8]) -> u32 {
    let number = value.first_chunk().map_or(0, |number| u32::from_le_bytes(*number));
    if number.is_multiple_of(2) { number } else { 0 }
}

/// What makes hints of texts.
#[derive(Clone, Copy)]
struct TextHints {
    keys: Option<SortKeys>,
    /// What is no letter and no digit decides nothing but ties.
    skips_marks: bool,
    /// Blanks at the end are not compared.
    trims: bool,
    /// Bytes of a key that are the digit's prefix.
    skipped: usize,
}

impl TextHints {
    /// As [`Hints::of`], of texts.
    unsafe fn of(order: Oid, collation: Oid, prefix: u8) -> Option<TextHints> {
        let trims = match order.to_u32() {
            pg_sys::F_BTTEXTCMP => false,
            pg_sys::F_BPCHARCMP => true,
            _ => return None,
        };
        if collation == Oid::INVALID {
            return None;
        }
        // SAFETY: catalog lookups.
        let keys = unsafe { SortKeys::of(collation) };
        let skips_marks = keys.is_some_and(SortKeys::skip_marks);
        Some(TextHints { keys, skips_marks, trims, skipped: prefix.into() })
    }

    /// What is compared of a text.
    #[inline]
    fn compared(self, text: &[u8]) -> &[u8] {
        let blanks = text.iter().rev().take_while(|byte| self.trims && **byte == b' ').count();
        &text[..text.len() - blanks]
    }

    /// What is behind so many bytes, as letters.
    #[inline]
    fn letters(self, text: &[u8], skip: usize) -> Letters<'_> {
        Letters::of(self.compared(text).get(skip..).unwrap_or(&[]), self.skips_marks)
    }

    /// How two texts may be ordered, by the letters that they have behind so many bytes.
    #[inline]
    fn order(self, a: &[u8], b: &[u8], skip: usize) -> Ordering {
        let [a, b] = [a, b].map(|text| self.compared(text).get(skip..).unwrap_or(&[]));
        letters::order(a, b, self.skips_marks)
    }

    fn put(self, text: &[u8], out: &mut [u8]) -> usize {
        let Some(keys) = self.keys else {
            // A letter has two bytes in a sort key at most.
            let letters = self.letters(text, 0).skip(self.skipped / 2);
            return out.iter_mut().zip(letters).map(|(place, letter)| *place = letter).count();
        };
        let mut key = [0; abbreviation::LENGTH + MOST_HINT];
        let room = self.skipped + out.len().min(MOST_HINT);
        let length = keys.put(self.compared(text), &mut key[..room]);
        let behind = key.get(self.skipped..length).unwrap_or(&[]);
        out[..behind.len()].copy_from_slice(behind);
        behind.len()
    }
}

impl Codec {
    /// The codec of a key column, counted from 0, of which an index that is there has digits as `stored` says. A column
    /// that was opaque when the index was built stays so: its order has not changed, if more may be known of it now.
    ///
    /// # Safety
    /// `rel` is an open index of ours with such a key column. May raise.
    pub unsafe fn of(rel: Relation, column: usize, stored: Option<&DigitShape>) -> Codec {
        // SAFETY: the relation cache's arrays have an element for each key column.
        unsafe {
            let order = column::order_function(rel, column);
            let collation = *(*rel).rd_indcollation.add(column);
            let option = *(*rel).rd_indoption.add(column);
            let ty = image::type_of(rel, column);
            let stored = stored.map(|stored| stored.kind);
            let encoding = match stored {
                Some(DigitKind::Opaque { .. }) => Encoding::Opaque,
                _ => Encoding::of(order, collation),
            };
            let image = Image::of(rel, column);
            let is_opaque = matches!(encoding, Encoding::Opaque);
            let has_prefix = is_opaque && !matches!(stored, Some(DigitKind::Opaque { prefix: 0, .. }));
            let abbreviation = if has_prefix { Abbreviation::of(order, collation, ty) } else { None };
            let prefix = if abbreviation.is_some() { abbreviation::LENGTH as u8 } else { 0 };
            let hints = if is_opaque { Hints::of(order, collation, prefix) } else { None };
            let support = if is_opaque { SortSupport::of(order, collation, false) } else { None };
            let shape = DigitShape {
                kind: encoding.kind().unwrap_or_else(|| image.kind(prefix)),
                descending: option & OPTION_DESCENDING != 0,
                nulls_first: option & OPTION_NULLS_FIRST != 0,
            };
            Codec { shape, collation, encoding, image, turn: encoding.turn(), abbreviation, hints, support }
        }
    }

    /// This codec without a prefix, for a column behind an opaque one, where no prefix is compared.
    pub fn without_prefix(self) -> Codec {
        Codec { shape: self.shape.without_prefix(), abbreviation: None, ..self }
    }

    /// The type whose fields the digits are, if its values fit a lane.
    pub fn exact(&self) -> Option<ColumnType> {
        match self.encoding {
            Encoding::Exact(ty) => Some(ty),
            _ => None,
        }
    }

    /// The largest field of a type whose values fit a lane.
    pub fn largest_field(&self) -> u128 {
        match self.encoding {
            Encoding::Exact(ty) => u128::MAX >> (128 - ty.bits()),
            _ => u128::MAX,
        }
    }

    /// The codec for an argument of another type that the operator family compares with the column's, if its digits are
    /// ordered among the column's.
    pub fn for_argument(&self, ty: Oid) -> Option<Codec> {
        let encoding = match (self.encoding, ty) {
            (Encoding::Text, pg_sys::NAMEOID) => Encoding::Name,
            (Encoding::Name, pg_sys::TEXTOID) => Encoding::Text,
            _ => return None,
        };
        Some(Codec { encoding, ..*self })
    }

    /// Whether some values have a residue.
    pub fn has_residue(&self) -> bool {
        match self.encoding {
            Encoding::Exact(ty) => ty.is_float(),
            Encoding::Bpchar | Encoding::Numeric | Encoding::Interval => true,
            _ => false,
        }
    }

    /// Puts a value's digit into `key` and its residue into `carried`.
    ///
    /// # Safety
    /// `value` is of the column. The caller's frames own no destructors: may raise.
    #[inline]
    pub unsafe fn put<const N: usize, const M: usize>(
        &self,
        value: Datum,
        is_null: bool,
        key: &mut Buffer<N>,
        carried: &mut Buffer<M>,
    ) {
        if is_null {
            return self.shape.put_null(key);
        }
        let shape = &self.shape;
        // SAFETY: the value is of the type whose comparison function chose the reader.
        unsafe {
            match self.encoding {
                Encoding::Exact(ty) => exact::put(shape, ty, value, key, carried),
                Encoding::Text => with_content(value, |text| shape.put_text(text, key)),
                Encoding::Bpchar => with_content(value, |text| {
                    let blanks = text.iter().rev().take_while(|byte| **byte == b' ').count();
                    shape.put_text(&text[..text.len() - blanks], key);
                    put_count(blanks as u32, carried);
                }),
                Encoding::Name => shape.put_text(text::name(value), key),
                Encoding::Bytea => with_content(value, |bytes| shape.put_bytes(bytes, key)),
                Encoding::Numeric => with_content(value, |stored| numeric::put(shape, stored, key, carried)),
                Encoding::Timetz => shape.put_field(timetz::field(value), key),
                Encoding::Interval => interval::put(shape, value, key, carried),
                Encoding::Bits => with_content(value, |stored| bits::put(shape, stored, key)),
                Encoding::Inet => with_content(value, |stored| inet::put(shape, stored, key)),
                Encoding::Opaque => match self.abbreviation {
                    Some(abbreviation) => self.image.put(shape, &abbreviation.key(value), value, key),
                    None => self.image.put(shape, &[], value, key),
                },
            }
        }
    }

    /// Puts a value's digit into `key`: what a value that is searched for is compared by.
    ///
    /// # Safety
    /// `value` is of the column, not NULL. The caller's frames own no destructors: may raise.
    #[inline]
    pub unsafe fn image<const N: usize>(&self, value: Datum, key: &mut Buffer<N>) {
        // SAFETY: the value is of the column.
        unsafe { self.put(value, false, key, &mut Buffer::<0>::new()) };
    }

    /// Whether a digit has the bytes of a tuple's value in one piece, but for the length that a text has in front.
    pub fn is_stored_whole(&self) -> bool {
        match self.encoding {
            Encoding::Text => !self.shape.descending && self.image.is_packable(),
            Encoding::Opaque => self.image.is_whole(),
            _ => false,
        }
    }

    /// The value of an opaque column that is all of a value part. None if it is NULL or damaged.
    #[inline]
    pub fn whole_value<'a>(&self, payload: &'a [u8]) -> Option<&'a [u8]> {
        let (&marker, value) = payload.split_first()?;
        (marker == DigitShape::VALUE && self.image.is_value(value)).then_some(value)
    }

    /// The same as the server's, where it is stored if its alignment allows that.
    #[inline]
    pub fn whole_datum(&self, payload: &[u8]) -> Option<Datum> {
        self.image.datum_in_place(self.whole_value(payload)?)
    }

    /// Takes a digit, an opaque one without its prefix, off the front of `key` and its residue off the front of
    /// `carried`: the value is the tuple's next column. None if the bytes are damaged.
    ///
    /// # Safety
    /// The caller's frames own no destructors: may raise when out of memory.
    #[inline(always)]
    pub unsafe fn get(&self, key: &mut &[u8], carried: &mut &[u8], tuple: &mut Tuple) -> Option<()> {
        let (shape, image) = (&self.shape, self.image);
        if shape.take_null(key) {
            tuple.put_null();
            return Some(());
        }
        // SAFETY: no frame here owns a destructor.
        unsafe {
            match (self.encoding, self.turn) {
                (_, Some(turn)) => tuple.put_integer(shape.take_field(key)? as u64 ^ turn, image.align.into()),
                (Encoding::Text, _) => image.get_text(shape, shape.take_text(key)?, 0, tuple),
                (Encoding::Exact(ty), _) if ty.is_float() => {
                    exact::get_float(ty, shape.take_field(key)?, carried, tuple)
                }
                _ => self.get_other(key, carried, tuple),
            }
        }
    }

    /// What [`get`](Self::get) does, of a separator: its digits may end early, so that zeros follow behind the first `there`
    /// bytes of `key`, and it has no residues. The value is one that is as far in the order, if there is such a one.
    ///
    /// # Safety
    /// The caller's frames own no destructors: may raise when out of memory.
    pub unsafe fn get_cut(&self, key: &mut &[u8], there: usize, tuple: &mut Tuple) -> Option<()> {
        let is_whole = self.shape.length(key).is_some_and(|length| length <= there);
        let mut carried = Buffer::<{ 2 * size_of::<u64>() }>::new();
        match self.encoding {
            Encoding::Exact(ty) if !is_whole => {
                self.shape.take_field(&mut &**key).filter(|field| values_exact::is_valid(ty, *field))?;
            }
            Encoding::Timetz | Encoding::Interval if !is_whole => return None,
            Encoding::Numeric if !self.shape.is_null(key) => {
                put_count(numeric::least_scale(&self.shape, key)?, &mut carried);
            }
            _ => {}
        }
        // Residues of nothing: no blanks, no sign of a zero, no days.
        carried.put(&[0; 2]);
        // SAFETY: no frame here owns a destructor.
        unsafe { self.get(key, &mut carried.as_slice(), tuple) }
    }

    /// The value of the digit that begins at a place of a key, and goes on behind it. What is passed by reference is made in
    /// the key. None if it is NULL, damaged, or of another kind than most: [`get`](Self::get) has all.
    #[inline(always)]
    pub fn in_place(&self, key: &mut [u8], at: &mut usize, carried: &mut &[u8]) -> Option<Datum> {
        let (digit, begin) = (key.get_mut(*at..)?, *at);
        match self.encoding {
            _ if self.is_word() => {
                let (field, length) = self.shape.word(digit)?;
                *at = begin + length;
                self.of_word(field, length - 1)
            }
            Encoding::Text => {
                let length = self.shape.text_length(digit).filter(|length| *length <= MOST_SHORT)?;
                digit[0] = short_header(length);
                *at = begin + length + 2;
                self.image.is_packable().then_some(Datum::from(digit.as_ptr()))
            }
            Encoding::Numeric => {
                let (number, length) = numeric::unfold(&self.shape, digit, carried)?;
                *at = begin + length;
                self.image.is_packable().then_some(Datum::from(number.as_ptr()))
            }
            _ => None,
        }
    }

    /// Whether values are passed as such, and have fields of 8 bytes at most that say all of them but for a few.
    pub fn is_word(&self) -> bool {
        self.turn.is_some() || matches!(self.encoding, Encoding::Exact(ty) if ty.is_float())
    }

    /// The value whose digit is at a place of a stored key, as of [`in_place`](Self::in_place), if it is a [word](Self::is_word).
    #[inline(always)]
    pub fn word(&self, key: &Stored<'_>, at: &mut usize) -> Option<Datum> {
        let (field, length) = self.shape.word_of(key.byte(*at), key.word(*at + 1))?;
        *at += length;
        self.of_word(field, length - 1)
    }

    /// The value of a field of so many bytes.
    #[inline(always)]
    fn of_word(&self, field: u64, bytes: usize) -> Option<Datum> {
        let image = match (self.turn, self.encoding) {
            (Some(turn), _) => field ^ turn,
            (_, Encoding::Exact(ty)) if ty.is_float() => exact::only_image(ty, field)?,
            _ => return None,
        };
        image::extended(image, bytes)
    }

    /// What [`get`](Self::get) does, for the less common kinds: apart from the others, which take few registers.
    #[inline(never)]
    unsafe fn get_other(&self, key: &mut &[u8], carried: &mut &[u8], tuple: &mut Tuple) -> Option<()> {
        let (shape, image) = (&self.shape, self.image);
        // SAFETY: no frame here owns a destructor.
        unsafe {
            match self.encoding {
                Encoding::Exact(ty) => exact::get(ty, shape.take_field(key)?, carried, tuple),
                Encoding::Text => unreachable!("`get` has texts itself"),
                Encoding::Bpchar => {
                    let blanks = take_count(carried).filter(|blanks| *blanks < text::MOST_BLANKS)?;
                    image.get_text(shape, shape.take_text(key)?, blanks as usize, tuple)
                }
                Encoding::Name => text::get_name(shape, shape.take_text(key)?, image, tuple),
                Encoding::Bytea => image.get_content(key.len(), tuple, |room| shape.take_bytes(key, room)),
                Encoding::Numeric => {
                    image.get_content(numeric::most(key), tuple, |room| numeric::get(shape, key, carried, room))
                }
                Encoding::Timetz => tuple.put(&timetz::get(shape.take_field(key)?), image.align.into()),
                Encoding::Interval => tuple.put(&interval::get(shape.take_field(key)?, carried)?, image.align.into()),
                Encoding::Bits => image.get_content(bits::most(key), tuple, |room| bits::get(shape, key, room)),
                Encoding::Inet => image.get_content(inet::MOST, tuple, |room| inet::get(shape, key, room)),
                Encoding::Opaque => image.get(shape.without_prefix().take_opaque(key)?, tuple),
            }
        }
    }

    /// Fills `out` with the hint of an opaque digit's value, and returns how many bytes that has.
    pub fn hint(&self, value: &[u8], out: &mut [u8]) -> usize {
        let (Some(hints), Some((last, room))) = (self.hints, out.split_last_mut()) else { return 0 };
        let length = match hints {
            Hints::Labels => hints.put(value, room),
            Hints::Texts(_) | Hints::Json(_) if is_compressed(value) => {
                let mut scratch = DatumBuffer::new();
                let Some(datum) = self.datum(value, &mut scratch) else { return 0 };
                // SAFETY: a value of the column's; as the trait has it, this may raise.
                unsafe { with_content(datum, |content| hints.put(content, room)) }
            }
            Hints::Texts(_) | Hints::Json(_) => stored_content(value).map_or(0, |content| hints.put(content, room)),
        };
        if !self.shape.descending || length == 0 {
            return length;
        }
        // What begins another goes behind it.
        room.iter_mut().take(length).for_each(|byte| *byte = !*byte);
        *room.get_mut(length).unwrap_or(last) = !0;
        length + 1
    }

    /// Whether values of an opaque column have hints.
    #[inline]
    pub fn has_hints(&self) -> bool {
        self.hints.is_some()
    }

    /// Whether most values of an opaque column are [ordered at sight](Self::order_at_sight).
    #[inline]
    pub fn is_ordered_at_sight(&self) -> bool {
        matches!(self.hints, Some(Hints::Labels))
    }

    /// How two values of an opaque column are ordered, where that takes no function: of an enum, two labels with even
    /// numbers are in the order of these (`enum_cmp_internal`).
    #[inline]
    pub fn order_at_sight(&self, a: &[u8], b: &[u8]) -> Option<Ordering> {
        let (a, b) = if self.is_ordered_at_sight() { (label(a), label(b)) } else { return None };
        let ordered = (a != 0 && b != 0).then(|| a.cmp(&b))?;
        Some(if self.shape.descending { ordered.reverse() } else { ordered })
    }

    /// The brief hint of an opaque digit's value, of what it has behind so many bytes.
    #[inline]
    pub fn brief_hint(&self, value: &[u8], skip: usize) -> u64 {
        let Some(hints) = self.hints else { return 0 };
        let brief = (hints.brief::<{ u64::BITS }>(value, skip) >> u64::BITS) as u64;
        if self.shape.descending { !brief } else { brief }
    }

    /// Its long hint. A letter has two bytes in a collation's sort key at most, of which the prefix is the front.
    #[inline]
    pub fn long_hint(&self, value: &[u8]) -> u128 {
        let (Some(hints), DigitKind::Opaque { prefix, .. }) = (self.hints, self.shape.kind) else { return 0 };
        let long = hints.brief::<{ u128::BITS }>(value, 0);
        let long = long.unbounded_shl(u32::from(prefix) / 2 * LETTER_BITS);
        if self.shape.descending { !long } else { long }
    }

    /// How two values may be ordered, the first one's brief hint being given, by all that they have behind so many bytes.
    pub fn guess(&self, (a, hint): (&[u8], u64), b: &[u8], skip: usize) -> Ordering {
        let guess = || {
            let ordered = self.hints.map_or(Ordering::Equal, |hints| hints.guess(a, b, skip));
            if self.shape.descending { ordered.reverse() } else { ordered }
        };
        match self.hints {
            // To find where they differ takes less than to make a hint.
            Some(Hints::Texts(_)) => guess(),
            _ => hint.cmp(&self.brief_hint(b, skip)).then_with(guess),
        }
    }

    /// How many bytes two of them have in common at their fronts, if hints may begin behind these.
    pub fn common(&self, a: &[u8], b: &[u8]) -> usize {
        self.hints.map_or(0, |hints| hints.common(a, b))
    }

    /// How two values of an opaque column are ordered, whose comparison function (support function 1) is given.
    ///
    /// # Safety
    /// They are of the column. The caller's frames own no destructors: may raise.
    #[inline]
    pub unsafe fn compare(&self, function: *mut FmgrInfo, a: Datum, b: Datum) -> Ordering {
        // SAFETY: two values of the type that the function is for.
        let ordered = unsafe {
            match self.support {
                Some(support) => support.compare(a, b),
                None => (ffi::FunctionCall2Coll(function, self.collation, a, b).value() as i32).cmp(&0),
            }
        };
        if self.shape.descending { ordered.reverse() } else { ordered }
    }

    /// An opaque digit's value as the server's, to call the comparison function with: in place where its alignment
    /// allows it, else in `scratch`. None if the digit is damaged, or longer than a key can be.
    #[inline]
    pub fn datum(&self, value: &[u8], scratch: &mut DatumBuffer) -> Option<Datum> {
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
        // SAFETY: `rel` is open and has the column.
        let image = unsafe { Image::of(rel, column) };
        Payload { shape: DigitShape { kind: image.kind(0), descending: false, nulls_first: true }, image }
    }

    /// Puts a value into `carried`.
    ///
    /// # Safety
    /// `value` is of the column. The caller's frames own no destructors: may raise.
    pub unsafe fn put<const M: usize>(&self, value: Datum, is_null: bool, carried: &mut Buffer<M>) {
        if is_null {
            return self.shape.put_null(carried);
        }
        // SAFETY: the value is of the column.
        unsafe { self.image.put(&self.shape, &[], value, carried) };
    }

    /// Takes a value off the front of `carried`: it is the tuple's next column. None if the bytes are damaged.
    ///
    /// # Safety
    /// The caller's frames own no destructors: may raise when out of memory.
    pub unsafe fn get(&self, carried: &mut &[u8], tuple: &mut Tuple) -> Option<()> {
        if self.shape.take_null(carried) {
            tuple.put_null();
            return Some(());
        }
        // SAFETY: no frame here owns a destructor.
        unsafe { self.image.get(self.shape.take_opaque(carried)?, tuple) }
    }
}
