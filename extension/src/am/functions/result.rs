//! Arguments and results of functions.

use core::fmt::Arguments;

use pgrx::PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE;
use pgrx::pg_sys::{Datum, FunctionCallInfo, ReturnSetInfo};

use crate::pg::errors::{self, Text};
use crate::pg::ffi;

/// Declares a function of the calling convention "version 1".
macro_rules! version_1 {
    ($info:ident) => {
        /// Says how the function is called, as `PG_FUNCTION_INFO_V1` does.
        #[unsafe(no_mangle)]
        pub extern "C-unwind" fn $info() -> &'static pgrx::pg_sys::Pg_finfo_record {
            &pgrx::pg_sys::Pg_finfo_record { api_version: 1 }
        }
    };
}
pub(super) use version_1;

/// The rows of a function's answer.
pub(super) struct ResultRows {
    result: *mut ReturnSetInfo,
}

impl ResultRows {
    pub(super) unsafe fn new(call: FunctionCallInfo) -> ResultRows {
        // SAFETY: called by the server; checks the call context and raises if it takes no sets.
        unsafe {
            ffi::InitMaterializedSRF(call, 0);
            ResultRows { result: (*call).resultinfo.cast() }
        }
    }

    pub(super) unsafe fn add<const N: usize>(&self, values: [Datum; N]) {
        // SAFETY: the function's values.
        unsafe { self.put(&values, &[false; N]) }
    }

    /// Adds a row some of whose columns may be NULL.
    pub(super) unsafe fn add_some<const N: usize>(&self, values: [Option<Datum>; N]) {
        let nulls = values.each_ref().map(Option::is_none);
        let values = values.map(|value| value.unwrap_or(Datum::null()));
        // SAFETY: the function's values.
        unsafe { self.put(&values, &nulls) }
    }

    unsafe fn put<const N: usize>(&self, values: &[Datum; N], nulls: &[bool; N]) {
        // SAFETY: as many values as the function's result has columns.
        unsafe {
            let ReturnSetInfo { setResult: rows, setDesc: columns, .. } = *self.result;
            if (*columns).natts as usize != N {
                refuse_declaration();
            }
            ffi::tuplestore_putvalues(rows, columns, values.as_ptr(), nulls.as_ptr());
        }
    }
}

/// The extension is of another version than the library: the function had other columns then.
#[cold]
fn refuse_declaration() -> ! {
    errors::raise(
        ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        format_args!("the function has other columns in this version of fpbtree"),
        None,
        Some(format_args!("Please ALTER EXTENSION fpbtree UPDATE.")),
    )
}

/// A float8 value; one that is no number is 0.
pub(super) fn float(value: f64) -> Datum {
    let value = if value.is_finite() { value } else { 0.0 };
    Datum::from(value.to_bits() as i64)
}

/// A text value.
pub(super) unsafe fn text(text: Arguments<'_>) -> Datum {
    // SAFETY: copied by the server.
    unsafe { Datum::from(ffi::cstring_to_text(Text::new(text).as_c_str().as_ptr())) }
}

pub(super) unsafe fn argument(call: FunctionCallInfo, number: usize) -> Datum {
    // SAFETY: the function is strict and has that argument.
    unsafe { (*(*call).args.as_ptr().add(number)).value }
}
