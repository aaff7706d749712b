//! The server's lists.

use core::ffi::c_void;

use pgrx::pg_sys::{List, ListCell};

use crate::pg::ffi;

/// A list's cells.
///
/// # Safety
/// Null, which is the empty list, or a list of the server's that is not changed meanwhile.
pub unsafe fn cells<'l>(list: *mut List) -> &'l [ListCell] {
    // SAFETY: the caller's.
    unsafe { list.as_ref().map_or(&[], |list| core::slice::from_raw_parts(list.elements, list.length as usize)) }
}

/// What a list points to.
///
/// # Safety
/// As for [`cells`]; a list of such pointers.
pub unsafe fn members<'l, T>(list: *mut List) -> impl Iterator<Item = *mut T> + Clone + 'l {
    // SAFETY: the caller's.
    unsafe { cells(list).iter().map(|cell| cell.ptr_value.cast::<T>()) }
}

/// The integers of a list.
///
/// # Safety
/// As for [`cells`]; a list of integers.
pub unsafe fn integers<'l>(list: *mut List) -> impl Iterator<Item = i32> + Clone + 'l {
    // SAFETY: the caller's.
    unsafe { cells(list).iter().map(|cell| cell.int_value) }
}

/// A list of pointers. Raises when out of memory.
///
/// # Safety
/// As every allocation of the server: gone with the current context.
pub unsafe fn of<T>(members: impl IntoIterator<Item = *mut T>) -> *mut List {
    // SAFETY: the caller's.
    unsafe {
        members.into_iter().fold(core::ptr::null_mut(), |list, member| ffi::lappend(list, member.cast::<c_void>()))
    }
}

/// A list of integers. Raises when out of memory.
///
/// # Safety
/// As every allocation of the server: gone with the current context.
pub unsafe fn of_integers(members: impl IntoIterator<Item = i32>) -> *mut List {
    // SAFETY: the caller's.
    unsafe { members.into_iter().fold(core::ptr::null_mut(), |list, member| ffi::lappend_int(list, member)) }
}
