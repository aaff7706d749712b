//! Values of variable length: what is behind the length in front of them.

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

/// What is behind the length of a value that is stored as the bytes it is, not compressed or out of line. None if it is
/// damaged.
#[inline]
pub fn stored_content(value: &[u8]) -> Option<&[u8]> {
    match *value.first()? {
        1 => None,
        short if short & 1 == 1 => value.get(1..),
        _ => value.get(HEADER..),
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
