//! Texts that grow, in the server's memory.

use core::ffi::{CStr, c_char};
use core::fmt;

use pgrx::pg_sys::{self, Datum};

use super::ffi;

/// A text being written, in the memory context that was current when it was begun. It has no destructor: the memory goes
/// with the context.
pub struct GrowingText {
    bytes: *mut u8,
    length: usize,
    room: usize,
}

/// Bytes there is room for at first.
const FIRST_ROOM: usize = 256;

impl GrowingText {
    /// An empty text.
    ///
    /// # Safety
    /// It is not used longer than the current memory context lives. May raise when out of memory.
    pub unsafe fn new() -> GrowingText {
        // SAFETY: memory of the server's.
        GrowingText { bytes: unsafe { ffi::palloc(FIRST_ROOM) }.cast(), length: 0, room: FIRST_ROOM }
    }

    /// What has been written.
    ///
    /// # Safety
    /// It is not used longer than the memory context lives that was current when the text was begun.
    pub unsafe fn into_str(self) -> &'static str {
        // SAFETY: so many bytes were copied there from strings.
        unsafe { core::str::from_utf8_unchecked(core::slice::from_raw_parts(self.bytes, self.length)) }
    }

    /// What has been written, as a value of type text.
    ///
    /// # Safety
    /// May raise: out of memory, or because the database's encoding does not have all letters.
    pub unsafe fn to_datum(&self) -> Datum {
        let (bytes, length) = (self.bytes.cast::<c_char>(), self.length as i32);
        // SAFETY: so many bytes of UTF-8, which the server gives back as they are, or as a C string.
        unsafe {
            if is_unicode(ffi::GetDatabaseEncoding()) {
                return Datum::from(ffi::cstring_to_text_with_len(bytes, length));
            }
            let text = ffi::pg_any_to_server(bytes, length, UTF8);
            let length = if text == bytes { length } else { CStr::from_ptr(text).count_bytes() as i32 };
            Datum::from(ffi::cstring_to_text_with_len(text, length))
        }
    }

    /// Adds the server's text, whatever the encoding. What is none in that shows as `?`.
    ///
    /// # Safety
    /// A C string. May raise.
    pub unsafe fn put_c_str(&mut self, text: *const c_char) {
        // SAFETY: a C string, which the server gives back as it is, or as another one.
        let text = unsafe {
            let is_unicode = is_unicode(ffi::GetDatabaseEncoding());
            let length = CStr::from_ptr(text).count_bytes() as i32;
            CStr::from_ptr(if is_unicode { text } else { ffi::pg_server_to_any(text, length, UTF8) })
        };
        for chunk in text.to_bytes().utf8_chunks() {
            self.put(chunk.valid().as_bytes());
            if !chunk.invalid().is_empty() {
                self.put(b"?");
            }
        }
    }

    fn put(&mut self, bytes: &[u8]) {
        let needed = self.length + bytes.len();
        // SAFETY: memory of the server's, made larger where it has no room for the bytes.
        unsafe {
            if needed > self.room {
                self.room = needed.next_power_of_two();
                self.bytes = ffi::repalloc_huge(self.bytes.cast(), self.room).cast();
            }
            self.bytes.add(self.length).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        self.length = needed;
    }
}

impl fmt::Write for GrowingText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.put(text.as_bytes());
        Ok(())
    }
}

const UTF8: i32 = pg_sys::pg_enc::PG_UTF8 as i32;
const SQL_ASCII: i32 = pg_sys::pg_enc::PG_SQL_ASCII as i32;

/// Whether texts in an encoding are taken for UTF-8: also where it is not known what they are.
fn is_unicode(encoding: i32) -> bool {
    encoding == UTF8 || encoding == SQL_ASCII
}

/// Whether a text is one in the database's encoding: what was cut anywhere need not be.
///
/// # Safety
/// A C string.
pub unsafe fn is_encoded(text: *const c_char) -> bool {
    // SAFETY: a C string.
    unsafe { ffi::pg_verify_mbstr(ffi::GetDatabaseEncoding(), text, CStr::from_ptr(text).count_bytes() as i32, true) }
}
