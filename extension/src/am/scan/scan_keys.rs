//! Scan keys: the arrays and row comparisons that the server gives as their arguments.

use core::ffi::c_int;

use pgrx::pg_sys::{self, Datum, IndexScanDescData, ScanKeyData};

use crate::pg::ffi;

/// The conditions of a scan. Without any the server keeps no array of them.
pub(super) unsafe fn of(scan: &IndexScanDescData) -> &[ScanKeyData] {
    match scan.numberOfKeys {
        0 => &[],
        // SAFETY: the server's array has as many.
        count => unsafe { core::slice::from_raw_parts(scan.keyData, count as usize) },
    }
}

/// The type of an array's elements.
pub(super) unsafe fn element_type(array: Datum) -> pg_sys::Oid {
    // SAFETY: the scan key's argument is an array.
    unsafe { (*ffi::pg_detoast_datum(array.cast_mut_ptr()).cast::<pg_sys::ArrayType>()).elemtype }
}

/// The comparisons that a row comparison is made of, column by column.
pub(super) unsafe fn row_members(row: &ScanKeyData) -> &'static [ScanKeyData] {
    // SAFETY: the key's argument is an array of keys, of which the last is marked; the executor keeps it for the scan.
    unsafe {
        let members: *const ScanKeyData = row.sk_argument.cast_mut_ptr();
        let mut count = 1;
        while (*members.add(count - 1)).sk_flags as u32 & pg_sys::SK_ROW_END == 0 {
            count += 1;
        }
        core::slice::from_raw_parts(members, count)
    }
}

/// What a row comparison says of its first column alone: no more than `<=` or `>=`.
pub(super) fn first_of_row(members: &[ScanKeyData]) -> ScanKeyData {
    ScanKeyData { sk_strategy: with_equality(members[0].sk_strategy), ..members[0] }
}

/// The strategy that `=` is added to.
pub(super) fn with_equality(strategy: u16) -> u16 {
    match u32::from(strategy) {
        pg_sys::BTLessStrategyNumber => pg_sys::BTLessEqualStrategyNumber as u16,
        pg_sys::BTGreaterStrategyNumber => pg_sys::BTGreaterEqualStrategyNumber as u16,
        _ => strategy,
    }
}

/// An array's elements and which of them are NULL, in the current memory context.
pub(super) unsafe fn elements(array: Datum) -> (&'static [Datum], &'static [bool]) {
    // SAFETY: the scan key's argument is an array of a known type.
    unsafe {
        let array: *mut pg_sys::ArrayType = ffi::pg_detoast_datum(array.cast_mut_ptr()).cast();
        let element = (*array).elemtype;
        let (mut length, mut by_value, mut align) = (0, false, 0);
        ffi::get_typlenbyvalalign(element, &mut length, &mut by_value, &mut align);
        let (mut values, mut nulls, mut count) = (core::ptr::null_mut(), core::ptr::null_mut(), 0);
        ffi::deconstruct_array(
            array,
            element,
            c_int::from(length),
            by_value,
            align,
            &mut values,
            &mut nulls,
            &mut count,
        );
        if count == 0 {
            return (&[], &[]);
        }
        let count = count as usize;
        (core::slice::from_raw_parts(values, count), core::slice::from_raw_parts(nulls, count))
    }
}
