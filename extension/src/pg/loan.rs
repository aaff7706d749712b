//! Large memory that a process lends again and again: to ask the system for it each time, and to have it cleared by the
//! system page by page, would take longer than a lookup.

use core::ffi::c_void;

use pgrx::pg_sys::{self, MemoryContext, MemoryContextCallback};

use super::{ffi, memory};

/// Loans that are kept when they have been given back.
const MOST_SPARE: usize = 8;

/// Memory for a value, lent until it is given back, or until the borrower's context is emptied or goes, as after an
/// error. It is in no such context itself.
#[repr(C)]
pub struct Loan<T> {
    /// What the borrower's context calls.
    callback: MemoryContextCallback,
    lender: *mut Lender<T>,
    borrower: MemoryContext,
    /// Where the loan is.
    own: MemoryContext,
    /// For what the borrower allocates besides. Emptied when the memory is given back.
    pub small: MemoryContext,
    value: T,
}

/// Who lends memory for values of one type.
pub struct Lender<T> {
    spare: [*mut Loan<T>; MOST_SPARE],
    count: usize,
}

impl<T> Lender<T> {
    /// With nothing yet.
    pub const fn new() -> Lender<T> {
        Lender { spare: [core::ptr::null_mut(); MOST_SPARE], count: 0 }
    }

    /// Lends memory, which holds whatever it held last, to the owner of a context.
    ///
    /// # Safety
    /// The lender is there for good, and nobody else's at the moment. The memory is not used any more once the context
    /// has been emptied. May raise when out of memory.
    pub unsafe fn lend(lender: *mut Self, borrower: MemoryContext) -> *mut Loan<T> {
        // SAFETY: the lender is the caller's; a spare loan is nobody's, and its context stays.
        unsafe {
            let loan = match (*lender).count.checked_sub(1) {
                Some(last) => {
                    (*lender).count = last;
                    (*lender).spare[last]
                }
                None => Loan::new(lender, borrower),
            };
            (*loan).borrower = borrower;
            ffi::MemoryContextRegisterResetCallback(borrower, &raw mut (*loan).callback);
            loan
        }
    }
}

impl<T> Loan<T> {
    unsafe fn new(lender: *mut Lender<T>, borrower: MemoryContext) -> *mut Self {
        // SAFETY: new memory, of which all but the value is written. It is the borrower's until nothing can fail.
        unsafe {
            let own = memory::child_context(borrower, c"fpbtree loan");
            let loan: *mut Self = memory::allocate(own, 1, false);
            let small = memory::child_context(own, c"fpbtree loan's small memory");
            let (func, arg) = (Some(Self::end as _), loan.cast());
            (&raw mut (*loan).callback).write(MemoryContextCallback { func, arg, next: core::ptr::null_mut() });
            (&raw mut (*loan).lender).write(lender);
            (&raw mut (*loan).own).write(own);
            (&raw mut (*loan).small).write(small);
            ffi::MemoryContextSetParent(own, pg_sys::TopMemoryContext);
            loan
        }
    }

    /// What is lent.
    ///
    /// # Safety
    /// A loan of a lender's.
    pub unsafe fn value(loan: *mut Self) -> *mut T {
        // SAFETY: the loan is there.
        unsafe { &raw mut (*loan).value }
    }

    /// Ends a loan before the borrower's context does.
    ///
    /// # Safety
    /// It has not ended, and nobody uses the memory any more.
    pub unsafe fn give_back(loan: *mut Self) {
        // SAFETY: the context is there, and so is all that is on its list, where the loan's own callback is.
        unsafe {
            let callback = &raw mut (*loan).callback;
            let mut link = &raw mut (*(*loan).borrower).reset_cbs;
            while *link != callback {
                link = &raw mut (**link).next;
            }
            *link = (*callback).next;
            Self::end(loan.cast());
        }
    }

    /// Takes the memory back. The borrower's context calls this, too, when it is emptied.
    unsafe extern "C-unwind" fn end(loan: *mut c_void) {
        let loan: *mut Self = loan.cast();
        // SAFETY: nobody uses the memory any more, and nobody else the lender at the moment.
        unsafe {
            // What is in there may end other loans.
            ffi::MemoryContextReset((*loan).small);
            let lender = &mut *(*loan).lender;
            if lender.count == MOST_SPARE {
                return ffi::MemoryContextDelete((*loan).own);
            }
            lender.spare[lender.count] = loan;
            lender.count += 1;
        }
    }
}
