//! What columns have in an entry, as text that the types' output functions make.

use core::ffi::{c_char, c_int};
use core::fmt::{self, Write};
use core::ptr::null_mut;

use fpbtree_engine::format::{NO_BLOCK, Tid};
use fpbtree_engine::keys::KeyShape;
use fpbtree_engine::page::{Entry, Page, Side};
use pgrx::pg_sys::{self, Datum, Oid, Relation};

use crate::pg::ffi;
use crate::pg::text::{GrowingText, is_encoded};
use crate::values::column;
use crate::values::keys::Keyed;
use crate::values::tuple::Tuple;

/// Makes text of the columns of an index.
pub(super) struct Shower<K: Keyed> {
    columns: K::Columns,
    outputs: [Oid; KeyShape::MAX_COLUMNS],
    /// Bytes of the values of each column, 0 if they are passed by reference.
    widths: [u8; KeyShape::MAX_COLUMNS],
    keys: usize,
    all: usize,
    tuple: Tuple,
}

/// The values of an entry's first columns: C strings, or null for NULL. They live as long as the memory context that was
/// current when they were made.
pub(super) struct Values {
    texts: [*mut c_char; KeyShape::MAX_COLUMNS],
    count: usize,
}

impl<K: Keyed> Shower<K> {
    /// # Safety
    /// `rel` is open. It is not used longer than the current memory context lives. May raise.
    pub unsafe fn new(rel: Relation, columns: K::Columns) -> Self {
        // SAFETY: `rel` is open.
        unsafe {
            let keys = (*(*rel).rd_index).indnkeyatts as usize;
            let all = (*(*rel).rd_index).indnatts as usize;
            let (mut outputs, mut widths) = ([Oid::INVALID; KeyShape::MAX_COLUMNS], [0; KeyShape::MAX_COLUMNS]);
            for (c, width) in column::widths(rel).enumerate().take(all) {
                let (ty, mut is_varlena) = ((*column::attribute((*rel).rd_att, c)).atttypid, false);
                ffi::getTypeOutputInfo(ty, &mut outputs[c], &mut is_varlena);
                widths[c] = width;
            }
            let mut tuple = Tuple::new(pg_sys::CurrentMemoryContext);
            tuple.make_room();
            Shower { columns, outputs, widths, keys, all, tuple }
        }
    }

    /// The values of a leaf's entry, of all columns. None if it is damaged.
    ///
    /// # Safety
    /// The caller's frames own no destructors: output functions may raise.
    pub unsafe fn entry(&mut self, entry: &Entry<'_, K>) -> Option<Values> {
        // SAFETY: no frame here owns a destructor.
        unsafe {
            K::index_tuple(&self.columns, entry, &mut self.tuple)?;
            Some(self.shown(self.all))
        }
    }

    /// The values of an inner page's entry or of a fence, as far as its bytes tell them.
    ///
    /// # Safety
    /// The caller's frames own no destructors: output functions may raise.
    pub unsafe fn separator(&mut self, separator: &Entry<'_, K>) -> Values {
        // SAFETY: no frame here owns a destructor.
        unsafe {
            let count = match is_first(separator) {
                true => 0,
                false => K::put_separator(&self.columns, separator, &mut self.tuple),
            };
            let mut values = self.shown(count);
            let is_whole = |text: &*mut c_char| text.is_null() || is_encoded(*text);
            values.count = values.texts[..count].iter().position(|text| !is_whole(text)).unwrap_or(count);
            values
        }
    }

    /// The first columns of the tuple.
    unsafe fn shown(&self, count: usize) -> Values {
        let mut values = Values { texts: [null_mut(); KeyShape::MAX_COLUMNS], count };
        for (c, text) in values.texts[..count].iter_mut().enumerate() {
            if let Some(value) = self.tuple.value(c, self.widths[c]) {
                // SAFETY: the output function of the column's type, and a value of that.
                *text = unsafe { ffi::OidOutputFunctionCall(self.outputs[c], value) };
            }
        }
        values
    }

    /// A page's fence in words; None if it is one of the ends of all keys.
    ///
    /// # Safety
    /// The caller's frames own no destructors: output functions may raise.
    pub unsafe fn fence(&mut self, page: &Page<'_, K>, side: Side) -> Option<GrowingText> {
        let (fence, end) = match side {
            Side::Low => (page.low(), K::first()),
            Side::High => (page.high(), K::last()),
        };
        if K::same_fence(fence, K::fence_of(end)) {
            return None;
        }
        let mut kept = K::fresh();
        K::set_to_fence(&mut kept, fence);
        // SAFETY: no frame here owns a destructor.
        unsafe {
            let mut text = GrowingText::new();
            self.put_separator(&K::downlink(&kept, NO_BLOCK), &mut text);
            Some(text)
        }
    }

    /// Writes a separator in words, with the TID that it goes by among equal keys, if it has one.
    unsafe fn put_separator(&mut self, separator: &Entry<'_, K>, out: &mut GrowingText) {
        // SAFETY: no frame here owns a destructor.
        let values = unsafe { self.separator(separator) };
        let tid = separator.tid.position();
        // SAFETY: the values are C strings.
        let _ = unsafe { self.put_in_parentheses(&values, separator, out) };
        if tid != Tid::MIN {
            let _ = write!(out, " at ({},{})", tid.block(), tid.offset());
        }
    }

    unsafe fn put_in_parentheses(&self, values: &Values, of: &Entry<'_, K>, out: &mut GrowingText) -> fmt::Result {
        if values.count == 0 {
            return put_bytes(of, out);
        }
        out.write_str("(")?;
        // SAFETY: the values are C strings.
        unsafe { values.put(values.count, out)? };
        out.write_str(if values.count < self.keys { ", ...)" } else { ")" })
    }

    /// Writes the key of a page's entry in words.
    ///
    /// # Safety
    /// The caller's frames own no destructors: output functions may raise.
    pub unsafe fn put_key(&mut self, level: u8, entry: &Entry<'_, K>, out: &mut GrowingText) {
        // SAFETY: no frame here owns a destructor; the values are C strings.
        let _ = unsafe {
            let values = if level == 0 { self.entry(entry) } else { Some(self.separator(entry)) };
            match values {
                Some(values) if values.count > 0 => values.put(values.count.min(self.keys), out),
                _ if level > 0 && is_first(entry) => out.write_str("before all keys"),
                _ => put_bytes(entry, out),
            }
        };
    }
}

impl Values {
    /// Writes the first of them.
    unsafe fn put(&self, count: usize, out: &mut GrowingText) -> fmt::Result {
        for (c, text) in self.texts[..count].iter().enumerate() {
            out.write_str(if c == 0 { "" } else { ", " })?;
            match text.is_null() {
                true => out.write_str("NULL")?,
                // SAFETY: a C string.
                false => unsafe { out.put_c_str(*text) },
            }
        }
        Ok(())
    }

    /// A value of type text[]; None if there are no columns.
    ///
    /// # Safety
    /// May raise when out of memory.
    pub unsafe fn to_array(&self) -> Option<Datum> {
        let (mut values, mut nulls) = ([Datum::null(); KeyShape::MAX_COLUMNS], [true; KeyShape::MAX_COLUMNS]);
        for (c, text) in self.texts[..self.count].iter().enumerate().filter(|(_, text)| !text.is_null()) {
            // SAFETY: a C string, copied by the server.
            (values[c], nulls[c]) = (unsafe { Datum::from(ffi::cstring_to_text(*text)) }, false);
        }
        let (mut length, mut lower) = (self.count as c_int, 1);
        // SAFETY: an array of one dimension, of as many texts.
        let array = unsafe {
            ffi::construct_md_array(
                values.as_mut_ptr(),
                nulls.as_mut_ptr(),
                1,
                &mut length,
                &mut lower,
                pg_sys::TEXTOID,
                -1,
                false,
                pg_sys::TYPALIGN_INT as c_char,
            )
        };
        (self.count > 0).then(|| Datum::from(array))
    }
}

/// Whether a separator is the place before all keys.
fn is_first<K: Keyed>(separator: &Entry<'_, K>) -> bool {
    K::is_fence(separator, K::fence_of(K::first()))
}

/// Writes what is stored of an entry's key as `bytea` is written.
pub(super) fn put_bytes<K: Keyed>(entry: &Entry<'_, K>, out: &mut GrowingText) -> fmt::Result {
    let mut written = out.write_str("\\x");
    K::for_each_piece(entry, &mut |piece| {
        written = piece.iter().try_for_each(|byte| write!(out, "{byte:02x}")).and(written);
    });
    written
}
