//! Abbreviated keys: the first bytes of a collation's sort key, or of what else values are compared by, which order
//! them without calling a comparison function as far as they differ.
//!
//! The server makes those of texts for sorting, and only for collations whose sort keys it trusts (those of ICU). What
//! ICU makes of a text changes with its version, as the order itself does: then an index has to be rebuilt anyway.

use core::ffi::{CStr, c_int};

use pgrx::pg_sys::{self, Datum, Oid};

use crate::pg::ffi;
use crate::pg::ffi::pfree;
use crate::values::collation::is_byte_order;
use crate::values::elements::Elements;
use crate::values::front;
use crate::values::sort_support::SortSupport;
use crate::values::varlena::{COMPRESSIBLE, HEADER, with_content};

/// Bytes of an abbreviated key.
pub const LENGTH: usize = front::FRONT;

/// What makes abbreviated keys.
#[derive(Clone, Copy)]
pub enum Abbreviation {
    /// That of the server's sort support, for texts under a collation.
    SortKey(SortSupport),
    /// The beginning of the text in lower case, which is how citext compares in byte order.
    LowerCase,
    /// The first elements of an array, or a range's lower bound.
    Elements(Elements),
}

impl Abbreviation {
    /// The abbreviation of values of a type that a comparison function orders under a collation, if there is one.
    ///
    /// # Safety
    /// May raise.
    pub unsafe fn of(order: Oid, collation: Oid, ty: Oid) -> Option<Abbreviation> {
        // SAFETY: catalog lookups.
        unsafe {
            if let Some(support) = SortSupport::of(order, collation, true) {
                return Some(Abbreviation::SortKey(support));
            }
            match Elements::of(order, ty) {
                Some(elements) => Some(Abbreviation::Elements(elements)),
                None => is_lower_case_in_byte_order(order, collation).then_some(Abbreviation::LowerCase),
            }
        }
    }

    /// The abbreviated key of a value. Of a value that is longer than any index has it is of no use, and is not made:
    /// the server's converter keeps as much memory as the longest value took.
    ///
    /// # Safety
    /// `value` is of the type the abbreviation is for. The caller's frames own no destructors: may raise.
    pub unsafe fn key(self, value: Datum) -> [u8; LENGTH] {
        // SAFETY: all types with abbreviations have a length in front.
        unsafe {
            match self {
                _ if ffi::toast_raw_datum_size(value) > HEADER + COMPRESSIBLE.end() => [0; LENGTH],
                Abbreviation::SortKey(support) => support.abbreviated(value).to_be_bytes(),
                Abbreviation::LowerCase => lower_case(value),
                Abbreviation::Elements(elements) => with_content(value, |content| elements.front(content)),
            }
        }
    }
}

/// Whether it is one of citext's functions that compares texts in lower case by their bytes. Those of its plain
/// operator class do where the collation is of that kind.
unsafe fn is_lower_case_in_byte_order(order: Oid, collation: Oid) -> bool {
    // SAFETY: the server's catalog cache; a tuple found there is copied from before it is given back. May raise.
    unsafe {
        let cache = pg_sys::SysCacheIdentifier::PROCOID as c_int;
        let tuple = ffi::SearchSysCache1(cache, Datum::from(order));
        if tuple.is_null() {
            return false;
        }
        let is = |attribute: u32, expected: &CStr| {
            let mut is_null = false;
            let value = ffi::SysCacheGetAttr(cache, tuple, attribute as i16, &mut is_null);
            !is_null && CStr::from_ptr(pg_sys::text_to_cstring(value.cast_mut_ptr())) == expected
        };
        let is_citext = is(pg_sys::Anum_pg_proc_probin, c"$libdir/citext");
        let is_plain = is(pg_sys::Anum_pg_proc_prosrc, c"citext_cmp");
        let is_pattern = is(pg_sys::Anum_pg_proc_prosrc, c"citext_pattern_cmp");
        ffi::ReleaseSysCache(tuple);
        is_citext && (is_pattern || is_plain && is_byte_order(collation))
    }
}

/// The first bytes of a text in lower case, as citext makes it: by the rules of the database, whatever the column's.
unsafe fn lower_case(value: Datum) -> [u8; LENGTH] {
    // SAFETY: a text; what the server allocates is given back, or left to the memory context by an error.
    unsafe {
        with_content(value, |text| {
            let lower = ffi::str_tolower(text.as_ptr().cast(), text.len(), pg_sys::DEFAULT_COLLATION_OID);
            let mut key = [0; LENGTH];
            key.iter_mut().zip(CStr::from_ptr(lower).to_bytes()).for_each(|(to, &from)| *to = from);
            pfree(lower.cast());
            key
        })
    }
}
