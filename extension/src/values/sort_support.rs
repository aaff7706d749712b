//! The server's sort support of texts: comparison of two without the function manager, which looks the collation up each
//! time, and sort keys where the server trusts them.

use core::cell::UnsafeCell;
use core::cmp::Ordering;

use pgrx::PgSqlErrorCode::ERRCODE_INTERNAL_ERROR;
use pgrx::pg_sys::{self, Datum, Oid, SortSupportData};

use crate::pg::errors;
use crate::pg::per_backend::PerBackend;
use crate::pg::{ffi, memory};

/// A sort support function, and what it is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SortSupport {
    function: u32,
    collation: u32,
    abbreviates: bool,
}

/// Functions remembered at a time.
const REMEMBERED: usize = 32;

/// What a sort support function said of a collation.
#[derive(Clone, Copy)]
struct Known {
    asked: SortSupport,
    /// In a memory context of its own, `ssup_cxt`. Null if there is none of what was asked for.
    support: *mut SortSupportData,
    /// Whether the server is at work with it. If that is seen at the beginning of a call, an error ended the last one,
    /// and nobody knows what it left.
    is_busy: bool,
}

const UNKNOWN: Known = Known {
    asked: SortSupport { function: 0, collation: 0, abbreviates: false },
    support: core::ptr::null_mut(),
    is_busy: false,
};

/// The functions asked for last, and the place of the next one.
static KNOWN: PerBackend<UnsafeCell<([Known; REMEMBERED], usize)>> =
    PerBackend::new(UnsafeCell::new(([UNKNOWN; REMEMBERED], 0)));

impl SortSupport {
    /// That of the texts that a comparison function (support function 1) orders under a collation, to compare them, or
    /// for the keys that abbreviate them; `None` if there is none.
    ///
    /// # Safety
    /// May raise.
    pub unsafe fn of(order: Oid, collation: Oid, abbreviates: bool) -> Option<SortSupport> {
        let function = match order.to_u32() {
            pg_sys::F_BTTEXTCMP => pg_sys::F_BTTEXTSORTSUPPORT,
            pg_sys::F_BPCHARCMP => pg_sys::F_BPCHAR_SORTSUPPORT,
            _ => return None,
        };
        if collation == Oid::INVALID {
            return None;
        }
        let asked = SortSupport { function, collation: collation.to_u32(), abbreviates };
        // SAFETY: the function is one of the server's for sort support.
        let known = unsafe { known(asked) };
        (!known.support.is_null()).then_some(asked)
    }

    /// How two values are ordered.
    ///
    /// # Safety
    /// They are of the type. The caller's frames own no destructors: may raise.
    #[inline]
    pub unsafe fn compare(self, a: Datum, b: Datum) -> Ordering {
        // SAFETY: the server's protocol for sort support. Its comparator runs no code that comes back here.
        unsafe {
            let known = known(self);
            let Some(compare) = known.support.as_ref().and_then(|support| support.comparator) else { self.is_gone() };
            known.is_busy = true;
            let order = compare(a, b, known.support);
            known.is_busy = false;
            order.cmp(&0)
        }
    }

    /// The abbreviated key of a value, as an unsigned number.
    ///
    /// # Safety
    /// It is of the type. The caller's frames own no destructors: may raise.
    pub unsafe fn abbreviated(self, value: Datum) -> u64 {
        // SAFETY: the server's protocol for sort support. Its converter runs no code that comes back here.
        unsafe {
            let known = known(self);
            let Some(convert) = known.support.as_ref().and_then(|support| support.abbrev_converter) else {
                self.is_gone()
            };
            known.is_busy = true;
            let key = convert(value, known.support);
            known.is_busy = false;
            key.value() as u64
        }
    }

    #[cold]
    fn is_gone(self) -> ! {
        let message = format_args!("collation {} has no sort support any more", self.collation);
        errors::raise(ERRCODE_INTERNAL_ERROR, message, None, None)
    }
}

/// What is known of a function, asked for where nothing is or where an error interrupted the server.
#[inline]
unsafe fn known(asked: SortSupport) -> &'static mut Known {
    // SAFETY: only this thread uses the table, and nothing below comes back here.
    let (all, _) = unsafe { &mut *KNOWN.get() };
    match all.iter().position(|known| known.asked == asked) {
        Some(at) if !all[at].is_busy => &mut all[at],
        // SAFETY: as the caller says.
        found => unsafe { ask(asked, found) },
    }
}

#[cold]
unsafe fn ask(asked: SortSupport, found: Option<usize>) -> &'static mut Known {
    // SAFETY: only this thread uses the table.
    let (all, next) = unsafe { &mut *KNOWN.get() };
    let at = found.unwrap_or(*next % REMEMBERED);
    // SAFETY: nobody else has the state that is let go. An error in `prepare` leaves a slot that nothing is known of.
    unsafe {
        let old = core::mem::replace(&mut all[at], UNKNOWN);
        if !old.support.is_null() {
            pg_sys::MemoryContextDelete((*old.support).ssup_cxt);
        }
        all[at] = Known { asked, support: prepare(asked), is_busy: false };
    }
    *next = at.wrapping_add(1);
    &mut all[at]
}

/// Asks the sort support function. Null if it has not what is asked for.
unsafe fn prepare(asked: SortSupport) -> *mut SortSupportData {
    // SAFETY: the server's protocol for sort support. Until it is complete the memory goes with the caller's.
    unsafe {
        let memory = memory::child_context(pg_sys::CurrentMemoryContext, c"fpbtree sort support");
        let support: *mut SortSupportData = ffi::MemoryContextAllocZero(memory, size_of::<SortSupportData>()).cast();
        (*support).ssup_cxt = memory;
        (*support).ssup_collation = Oid::from(asked.collation);
        (*support).abbreviate = asked.abbreviates;
        ffi::OidFunctionCall1Coll(Oid::from(asked.function), Oid::INVALID, Datum::from(support));
        let has_all =
            if asked.abbreviates { (*support).abbrev_converter.is_some() } else { (*support).comparator.is_some() };
        if !has_all {
            pg_sys::MemoryContextDelete(memory);
            return core::ptr::null_mut();
        }
        pg_sys::MemoryContextSetParent(memory, pg_sys::TopMemoryContext);
        support
    }
}
