//! Abbreviated keys: the first bytes of a collation's sort key, or of what else values are compared by, which order
//! them without calling a comparison function as far as they differ.
//!
//! The server makes those of texts for sorting, and only for collations whose sort keys it trusts (those of ICU). What
//! ICU makes of a text changes with its version, as the order itself does: then an index has to be rebuilt anyway.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_int};

use fpbtree_engine::keys::bytes::MOST_KEY;
use pgrx::PgSqlErrorCode::ERRCODE_INTERNAL_ERROR;
use pgrx::pg_sys::{self, Datum, Oid, SortSupportData};

use crate::pg::errors;
use crate::pg::ffi::pfree;
use crate::pg::per_backend::PerBackend;
use crate::pg::{ffi, memory};
use crate::values::column::is_byte_order;
use crate::values::varlena::with_content;

/// Bytes of an abbreviated key.
pub const LENGTH: usize = 8;

/// What makes abbreviated keys.
#[derive(Clone, Copy)]
pub enum Abbreviation {
    /// A sort support function, for texts under a collation.
    SortKey(SortKeyFunction),
    /// The beginning of the text in lower case, which is how citext compares in byte order.
    LowerCase,
}

/// A sort support function and the collation that it is asked about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SortKeyFunction {
    function: u32,
    collation: u32,
}

/// Functions remembered at a time.
const REMEMBERED: usize = 32;

/// What a sort support function said of a collation.
#[derive(Clone, Copy)]
struct Known {
    key_function: SortKeyFunction,
    /// In a memory context of its own, `ssup_cxt`. Null if there are no abbreviated keys.
    support: *mut SortSupportData,
    /// Whether the server's converter is at work with it. If that is seen at the beginning of a call, an error ended
    /// the last one, and nobody knows what it left.
    is_busy: bool,
}

const UNKNOWN: Known = Known {
    key_function: SortKeyFunction { function: 0, collation: 0 },
    support: core::ptr::null_mut(),
    is_busy: false,
};

/// The functions asked for last, and the place of the next one.
static KNOWN: PerBackend<UnsafeCell<([Known; REMEMBERED], usize)>> =
    PerBackend::new(UnsafeCell::new(([UNKNOWN; REMEMBERED], 0)));

impl Abbreviation {
    /// The abbreviation of the values that a comparison function orders under a collation, if there is one.
    ///
    /// # Safety
    /// May raise.
    pub unsafe fn of(order: Oid, collation: Oid) -> Option<Abbreviation> {
        let function = match order.to_u32() {
            pg_sys::F_BTTEXTCMP => pg_sys::F_BTTEXTSORTSUPPORT,
            pg_sys::F_BPCHARCMP => pg_sys::F_BPCHAR_SORTSUPPORT,
            // SAFETY: a catalog lookup.
            _ => return unsafe { is_lower_case_in_byte_order(order, collation) }.then_some(Abbreviation::LowerCase),
        };
        if collation == Oid::INVALID {
            return None;
        }
        let key_function = SortKeyFunction { function, collation: collation.to_u32() };
        // SAFETY: the function is one of the server's for sort support.
        let known = unsafe { known(key_function) };
        (!known.support.is_null()).then_some(Abbreviation::SortKey(key_function))
    }

    /// The abbreviated key of a value. Of a value that is longer than any key can be it is of no use, and is not made:
    /// the server's converter keeps as much memory as the longest value took.
    ///
    /// # Safety
    /// `value` is of the type the abbreviation is for. The caller's frames own no destructors: may raise.
    pub unsafe fn key(self, value: Datum) -> [u8; LENGTH] {
        // SAFETY: all types with abbreviations have a length in front.
        unsafe {
            match self {
                _ if ffi::toast_raw_datum_size(value) > MOST_KEY => [0; LENGTH],
                Abbreviation::SortKey(key_function) => sort_key(key_function, value),
                Abbreviation::LowerCase => lower_case(value),
            }
        }
    }
}

/// The beginning of the sort key, as an unsigned number.
unsafe fn sort_key(key_function: SortKeyFunction, value: Datum) -> [u8; LENGTH] {
    // SAFETY: the server's protocol for sort support. Its converter runs no code that comes back here.
    unsafe {
        let known = known(key_function);
        let Some(convert) = known.support.as_ref().and_then(|support| support.abbrev_converter) else {
            errors::raise(
                ERRCODE_INTERNAL_ERROR,
                format_args!("collation {} has no abbreviated keys any more", key_function.collation),
                None,
                None,
            );
        };
        known.is_busy = true;
        let key = convert(value, known.support);
        known.is_busy = false;
        (key.value() as u64).to_be_bytes()
    }
}

/// What is known of a function, asked for where nothing is or where an error interrupted the converter.
unsafe fn known(key_function: SortKeyFunction) -> &'static mut Known {
    // SAFETY: only this thread uses the table, and nothing below comes back here.
    let (all, next) = unsafe { &mut *KNOWN.get() };
    let found = all.iter().position(|known| known.key_function == key_function);
    if let Some(at) = found
        && !all[at].is_busy
    {
        return &mut all[at];
    }
    let at = found.unwrap_or(*next % REMEMBERED);
    // SAFETY: nobody else has the state that is let go. An error in `prepare` leaves a slot that nothing is known of.
    unsafe {
        let old = core::mem::replace(&mut all[at], UNKNOWN);
        if !old.support.is_null() {
            pg_sys::MemoryContextDelete((*old.support).ssup_cxt);
        }
        all[at] = Known { key_function, support: prepare(key_function), is_busy: false };
    }
    *next = at.wrapping_add(1);
    &mut all[at]
}

/// Asks the sort support function for abbreviated keys. Null if there are none.
unsafe fn prepare(key_function: SortKeyFunction) -> *mut SortSupportData {
    // SAFETY: the server's protocol for sort support. Until it is complete the memory goes with the caller's.
    unsafe {
        let memory = memory::child_context(pg_sys::CurrentMemoryContext, c"fpbtree abbreviated keys");
        let support: *mut SortSupportData = ffi::MemoryContextAllocZero(memory, size_of::<SortSupportData>()).cast();
        (*support).ssup_cxt = memory;
        (*support).ssup_collation = Oid::from(key_function.collation);
        (*support).abbreviate = true;
        ffi::OidFunctionCall1Coll(Oid::from(key_function.function), Oid::INVALID, Datum::from(support));
        if (*support).abbrev_converter.is_none() {
            pg_sys::MemoryContextDelete(memory);
            return core::ptr::null_mut();
        }
        pg_sys::MemoryContextSetParent(memory, pg_sys::TopMemoryContext);
        support
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
