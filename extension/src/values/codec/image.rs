//! Images: values as the server stores them.

use core::ffi::CStr;
use core::mem::MaybeUninit;
use core::slice;

use fpbtree_engine::keys::digits::{Buffer, DigitKind, DigitShape, ValueLength};
use pgrx::pg_sys::{self, Datum, Oid, Relation};

use crate::pg::ffi;
use crate::values::column;
use crate::values::tuple::Tuple;
use crate::values::varlena::{
    COMPRESSIBLE, HEADER, MOST_SHORT, bytes_header, short_header, with_compressed, with_plain,
};

/// Where a value is put whose alignment does not let it be read in place.
#[repr(align(8))]
pub struct DatumBuffer([MaybeUninit<u8>; DatumBuffer::SIZE]);

impl DatumBuffer {
    /// As much as a key can have.
    const SIZE: usize = 2048;

    /// Room for a value.
    pub const fn new() -> DatumBuffer {
        DatumBuffer([MaybeUninit::uninit(); Self::SIZE])
    }
}

/// How the server stores a column's values.
#[derive(Clone, Copy)]
pub(super) struct Image {
    /// `attlen`: bytes of every value, or one of the two below.
    pub(super) length: i16,
    by_value: bool,
    pub(super) align: u8,
    /// Whether a value may have a length of 1 byte.
    packable: bool,
}

impl Image {
    /// A length is in front.
    const VARLENA: i16 = -1;

    /// # Safety
    /// `rel` is open and has the column, counted from 0. May raise.
    pub(super) unsafe fn of(rel: Relation, column: usize) -> Image {
        // SAFETY: `rel` is open and has the column.
        unsafe {
            let attribute = &*column::attribute((*rel).rd_att, column);
            Image {
                length: attribute.attlen,
                by_value: attribute.attbyval,
                align: column::alignment(attribute.attalign),
                // The type's, not the column's, which ALTER TABLE changes in an index as it is.
                packable: attribute.attlen == Self::VARLENA
                    && ffi::get_typstorage(attribute.atttypid) as u8 != pg_sys::TYPSTORAGE_PLAIN,
            }
        }
    }

    pub(super) fn kind(self, prefix: u8) -> DigitKind {
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

    /// Whether a value may have a length of 1 byte.
    pub(super) fn is_packable(self) -> bool {
        self.packable
    }

    /// Whether values are stored as a tuple has them.
    pub(super) fn is_whole(self) -> bool {
        self.packable || self.length > 0 && !self.has_needless_length()
    }

    /// Whether these bytes are a value that is [stored so](Image::is_whole).
    #[inline]
    pub(super) fn is_value(self, stored: &[u8]) -> bool {
        match stored.first() {
            _ if self.length > 0 => stored.len() == self.length as usize,
            Some(short) if short & 1 == 1 => usize::from(short >> 1) == stored.len(),
            _ => stored.first_chunk().is_some_and(|header| bytes_header(stored.len() - HEADER) == *header),
        }
    }

    /// Whether a value of fixed length has one in front nevertheless: it is longer than a kind can say.
    fn has_needless_length(self) -> bool {
        self.length > u8::MAX.into()
    }

    pub(super) unsafe fn put<const N: usize>(
        self,
        shape: &DigitShape,
        prefix: &[u8],
        value: Datum,
        buffer: &mut Buffer<N>,
    ) {
        // SAFETY: a value of the column, which is stored so.
        unsafe {
            match self.length {
                Self::VARLENA => with_plain(value, |plain, content| {
                    let compressed = self.packable && COMPRESSIBLE.contains(&content.len());
                    let put = |value: &[u8]| shape.put_compressed(prefix, value, buffer);
                    if !compressed || with_compressed(plain, put).is_none() {
                        shape.put_opaque(prefix, content, buffer);
                    }
                }),
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
    pub(super) fn datum(self, stored: &[u8], scratch: &mut DatumBuffer) -> Option<Datum> {
        self.datum_in_place(stored).or_else(|| {
            let seen = self.seen(stored).filter(|_| !self.by_value)?;
            let room = scratch.0.get_mut(..seen.len())?;
            Some(Datum::from(room.write_copy_of_slice(seen).as_ptr()))
        })
    }

    /// The value stored so in its place, if its alignment allows it.
    #[inline]
    pub(super) fn datum_in_place(self, stored: &[u8]) -> Option<Datum> {
        let seen = self.seen(stored)?;
        if self.by_value {
            return by_value(seen);
        }
        let is_short = self.length == Self::VARLENA && seen[0] & 1 == 1;
        (is_short || seen.as_ptr().addr().is_multiple_of(self.align.into())).then(|| Datum::from(seen.as_ptr()))
    }

    /// Puts the value stored so into a tuple.
    #[inline]
    pub(super) unsafe fn get(self, stored: &[u8], tuple: &mut Tuple) -> Option<()> {
        let seen = self.seen(stored)?;
        let is_short = self.length == Self::VARLENA && seen[0] & 1 == 1;
        // SAFETY: no frame here owns a destructor.
        unsafe { tuple.put(seen, if is_short { 1 } else { self.align.into() }) }
    }

    /// Puts a text and blanks behind it into a tuple, with a length in front that is as short as the server has it.
    #[inline(always)]
    pub(super) unsafe fn get_text(
        self,
        shape: &DigitShape,
        text: &[u8],
        blanks: usize,
        tuple: &mut Tuple,
    ) -> Option<()> {
        let length = text.len() + blanks;
        let is_short = self.packable && length <= MOST_SHORT;
        let (header, align) = if is_short { (1, 1) } else { (HEADER, self.align.into()) };
        // SAFETY: no frame here owns a destructor.
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

    /// Puts what `write` writes, `most` bytes or less, into a tuple, with a length in front as short as the server has
    /// it.
    #[inline]
    pub(super) unsafe fn get_content(
        self,
        most: usize,
        tuple: &mut Tuple,
        write: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> Option<()> {
        let align = usize::from(self.align);
        // SAFETY: no frame here owns a destructor.
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

/// The type of a column, counted from 0.
///
/// # Safety
/// `rel` is open and has the column.
pub(super) unsafe fn type_of(rel: Relation, column: usize) -> Oid {
    // SAFETY: as the caller says.
    unsafe { (*column::attribute((*rel).rd_att, column)).atttypid }
}

/// The datum of the lower bytes of an integer, so many of them, extended as the server extends it.
#[inline(always)]
pub(super) fn extended(integer: u64, bytes: usize) -> Option<Datum> {
    Some(match bytes {
        1 => Datum::from(integer as i8),
        2 => Datum::from(integer as i16),
        4 => Datum::from(integer as i32),
        8 => Datum::from(integer),
        _ => return None,
    })
}

/// The datum of a value that is passed as one, extended as the server extends it.
fn by_value(bytes: &[u8]) -> Option<Datum> {
    let mut word = [0; 8];
    word.get_mut(..bytes.len())?.copy_from_slice(bytes);
    extended(u64::from_le_bytes(word), bytes.len())
}
