//! Abbreviated keys: the first bytes of a collation's sort key, or of what else values are compared by, which order them
//! without calling a comparison function as far as they differ.
//!
//! The server makes those of texts for sorting, and only for collations whose sort keys it trusts (those of ICU). What
//! ICU makes of a text changes with its version, as the order itself does: then an index has to be rebuilt anyway.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char, c_int};
use core::mem::zeroed;

use pgrx::pg_sys::{self, Datum, Oid, SortSupportData};

use crate::codec::{is_byte_order, with_content};
use crate::server;
use crate::server::raw::pfree;

mod raw {
    use super::*;

    unsafe extern "C-unwind" {
        pub fn OidFunctionCall1Coll(function: Oid, collation: Oid, argument: Datum) -> Datum;
        pub fn str_tolower(text: *const c_char, length: usize, collation: Oid) -> *mut c_char;
    }
}

/// Bytes of an abbreviated key.
pub const LENGTH: usize = 8;

/// Makes abbreviated keys. Plain memory, which lives as long as the server process.
#[derive(Clone, Copy)]
pub enum Abbreviation {
    /// Of a sort support function.
    SortKey(*mut SortSupportData),
    /// The beginning of the text in lower case, which is how citext compares in byte order.
    LowerCase,
}

/// Collations remembered at a time.
const REMEMBERED: usize = 32;

/// What a sort support function said of a collation.
#[derive(Clone, Copy)]
struct Known {
    function: u32,
    collation: u32,
    found: Option<Abbreviation>,
}

/// The collations asked for last.
struct Memory(UnsafeCell<([Known; REMEMBERED], usize)>);

// SAFETY: the server runs one thread.
unsafe impl Sync for Memory {}

static MEMORY: Memory = Memory(UnsafeCell::new(([Known { function: 0, collation: 0, found: None }; REMEMBERED], 0)));

impl Abbreviation {
    /// The abbreviation of the values that a comparison function orders under a collation, if there is one.
    ///
    /// # Safety
    /// May raise.
    pub unsafe fn of(order: Oid, collation: Oid) -> Option<Abbreviation> {
        let function = match order.to_u32() {
            pg_sys::F_BTTEXTCMP => pg_sys::F_BTTEXTSORTSUPPORT,
            pg_sys::F_BPCHARCMP => pg_sys::F_BPCHAR_SORTSUPPORT,
            // SAFETY: by this function's contract.
            _ => return unsafe { is_lower_case_in_byte_order(order, collation) }.then_some(Abbreviation::LowerCase),
        };
        if collation == Oid::INVALID {
            return None;
        }
        // SAFETY: only this thread uses the table, and nothing below comes back here.
        let (known, next) = unsafe { &mut *MEMORY.0.get() };
        let is_it = |known: &&Known| known.function == function && known.collation == collation.to_u32();
        if let Some(known) = known.iter().find(is_it) {
            return known.found;
        }
        // SAFETY: by this function's contract.
        let found = unsafe { prepare(Oid::from(function), collation) };
        known[*next % REMEMBERED] = Known { function, collation: collation.to_u32(), found };
        *next = next.wrapping_add(1);
        found
    }

    /// The abbreviated key of a value.
    ///
    /// # Safety
    /// `value` is of the type the abbreviation is for. May raise.
    pub unsafe fn key(self, value: Datum) -> [u8; LENGTH] {
        let Abbreviation::SortKey(support) = self else {
            // SAFETY: by this function's contract.
            return unsafe { lower_case(value) };
        };
        // SAFETY: prepared by the server; keys compare as unsigned numbers.
        unsafe {
            match (*support).abbrev_converter {
                Some(convert) => (convert(value, support).value() as u64).to_be_bytes(),
                None => [0; LENGTH],
            }
        }
    }
}

/// Asks the sort support function for abbreviated keys.
unsafe fn prepare(function: Oid, collation: Oid) -> Option<Abbreviation> {
    // SAFETY: the server's protocol for sort support; the memory is kept as long as the process lives.
    unsafe {
        let memory = pg_sys::TopMemoryContext;
        let support: *mut SortSupportData = pg_sys::MemoryContextAllocZero(memory, size_of::<SortSupportData>()).cast();
        *support = zeroed();
        (*support).ssup_cxt = memory;
        (*support).ssup_collation = collation;
        (*support).abbreviate = true;
        raw::OidFunctionCall1Coll(function, Oid::INVALID, Datum::from(support));
        (*support).abbrev_converter.is_some().then_some(Abbreviation::SortKey(support))
    }
}

/// Whether it is one of citext's functions that compares texts in lower case by their bytes. Those of its plain operator
/// class do where the collation is of that kind.
unsafe fn is_lower_case_in_byte_order(order: Oid, collation: Oid) -> bool {
    // SAFETY: the server's catalog cache; a tuple found there is copied from before it is given back. May raise.
    unsafe {
        let cache = pg_sys::SysCacheIdentifier::PROCOID as c_int;
        let tuple = server::raw::SearchSysCache1(cache, Datum::from(order));
        if tuple.is_null() {
            return false;
        }
        let is = |attribute: u32, expected: &CStr| {
            let mut is_null = false;
            let value = pg_sys::SysCacheGetAttr(cache, tuple, attribute as i16, &mut is_null);
            !is_null && CStr::from_ptr(pg_sys::text_to_cstring(value.cast_mut_ptr())) == expected
        };
        let is_citext = is(pg_sys::Anum_pg_proc_probin, c"$libdir/citext");
        let is_plain = is(pg_sys::Anum_pg_proc_prosrc, c"citext_cmp");
        let is_pattern = is(pg_sys::Anum_pg_proc_prosrc, c"citext_pattern_cmp");
        pg_sys::ReleaseSysCache(tuple);
        is_citext && (is_pattern || is_plain && is_byte_order(collation))
    }
}

/// The first bytes of a text in lower case, as citext makes it: by the rules of the database, whatever the column's.
unsafe fn lower_case(value: Datum) -> [u8; LENGTH] {
    // SAFETY: a text; what the server allocates is given back, or left to the memory context by an error.
    unsafe {
        with_content(value, |text| {
            let lower = raw::str_tolower(text.as_ptr().cast(), text.len(), pg_sys::DEFAULT_COLLATION_OID);
            let mut key = [0; LENGTH];
            key.iter_mut().zip(CStr::from_ptr(lower).to_bytes()).for_each(|(to, &from)| *to = from);
            pfree(lower.cast());
            key
        })
    }
}
