//! Abbreviated keys: the first bytes of a collation's sort key, which order texts without calling a comparison function
//! as far as they differ.
//!
//! The server makes them for sorting, and only for collations whose sort keys it trusts (those of ICU). What ICU makes of
//! a text changes with its version, as the order itself does: then an index has to be rebuilt anyway.

use core::cell::UnsafeCell;
use core::mem::zeroed;

use pgrx::pg_sys::{self, Datum, Oid, SortSupportData};

mod raw {
    use super::*;

    unsafe extern "C-unwind" {
        pub fn OidFunctionCall1Coll(function: Oid, collation: Oid, argument: Datum) -> Datum;
    }
}

/// Bytes of an abbreviated key.
pub const LENGTH: usize = 8;

/// Makes abbreviated keys. Plain memory, which lives as long as the server process.
#[derive(Clone, Copy)]
pub struct Abbreviation(*mut SortSupportData);

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
            _ => return None,
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
        // SAFETY: prepared by the server; keys compare as unsigned numbers.
        unsafe {
            match (*self.0).abbrev_converter {
                Some(convert) => (convert(value, self.0).value() as u64).to_be_bytes(),
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
        (*support).abbrev_converter.is_some().then_some(Abbreviation(support))
    }
}
