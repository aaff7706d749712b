//! Values of variable length: what is behind the length in front of them.

use core::ffi::c_char;
use core::ops::RangeInclusive;
use core::slice;

use pgrx::pg_sys::Datum;

use crate::pg::ffi;
use crate::pg::ffi::pfree;

/// Bytes of the length that is in front of a value, if it is not a short one.
pub const HEADER: usize = 4;
/// The most bytes of a value with a length of 1 byte.
pub const MOST_SHORT: usize = 126;

/// The length of a value, itself included, in 4 bytes.
pub fn bytes_header(content: usize) -> [u8; HEADER] {
    (((HEADER + content) as u32) << 2).to_le_bytes()
}

/// The length of a value, itself included, in 1 byte.
pub fn short_header(content: usize) -> u8 {
    (1 + content as u8) << 1 | 1
}

/// What `use_content` makes of a value, less the length in front of it.
///
/// # Safety
/// A value of variable length. The caller's frames own no destructors: may raise.
pub unsafe fn with_content<R>(value: Datum, use_content: impl FnOnce(&[u8]) -> R) -> R {
    // SAFETY: the caller's.
    unsafe { with_plain(value, |_, content| use_content(content)) }
}

/// What `use_plain` makes of a value as it is when it is neither compressed nor out of line, and of what is behind its
/// length.
///
/// # Safety
/// As for [`with_content`].
pub unsafe fn with_plain<R>(value: Datum, use_plain: impl FnOnce(Datum, &[u8]) -> R) -> R {
    let given = value.cast_mut_ptr::<u8>();
    // SAFETY: a value with a length in front; whichever form that has, the server's function leaves one of the two that
    // are in memory and not compressed. It may raise, as every caller allows, and so may `use_plain`.
    unsafe {
        let is_plain = *given & 3 == 0 || (*given & 1 == 1 && *given != 1);
        let plain = if is_plain { given } else { ffi::pg_detoast_datum_packed(given.cast()).cast() };
        let result = use_plain(Datum::from(plain), content(plain));
        if plain != given {
            pfree(plain.cast());
        }
        result
    }
}

/// The shortest value that is compressed, and the longest: in a tree compressed values are made whole again to compare
/// them.
pub const COMPRESSIBLE: RangeInclusive<usize> = 512..=65_536;

/// `TOAST_PGLZ_COMPRESSION`.
const PGLZ: c_char = b'p' as c_char;

/// What `use_compressed` makes of a value as the server compresses it, its length included; None if that takes no less.
/// The method is always the same, whatever the column's is, so that equal values have equal bytes.
///
/// # Safety
/// A plain value. The caller's frames own no destructors: may raise.
pub unsafe fn with_compressed<R>(plain: Datum, use_compressed: impl FnOnce(&[u8]) -> R) -> Option<R> {
    // SAFETY: a value that is neither compressed nor out of line; what the server makes of it has a length of 4 bytes.
    unsafe {
        let compressed = ffi::toast_compress_datum(plain, PGLZ);
        let stored = compressed.cast_mut_ptr::<u8>();
        if stored.is_null() {
            return None;
        }
        let length = stored.cast::<u32>().read() >> 2;
        let result = use_compressed(slice::from_raw_parts(stored, length as usize));
        pfree(stored.cast());
        Some(result)
    }
}

/// Whether a value that is stored with its length is compressed.
#[inline]
pub fn is_compressed(value: &[u8]) -> bool {
    value.first().is_some_and(|first| first & 3 == 2)
}

/// What is behind the length of a value that is stored as the bytes it is. None if it is compressed, or damaged.
#[inline]
pub fn stored_content(value: &[u8]) -> Option<&[u8]> {
    match *value.first()? {
        1 => None,
        short if short & 1 == 1 => value.get(1..),
        long if long & 3 == 0 => value.get(HEADER..),
        _ => None,
    }
}

/// What is behind the length of a value.
unsafe fn content<'a>(plain: *const u8) -> &'a [u8] {
    // SAFETY: a length, then as many bytes as it says.
    unsafe {
        if *plain & 1 == 1 {
            slice::from_raw_parts(plain.add(1), usize::from(*plain >> 1) - 1)
        } else {
            let length = plain.cast::<u32>().read_unaligned() >> 2;
            slice::from_raw_parts(plain.add(HEADER), length as usize - HEADER)
        }
    }
}
