//! Memory in the server's contexts, aligned to cache lines: the server aligns to 8 bytes, a `u128` wants 16.

use core::ffi::{CStr, c_int};
use core::mem::MaybeUninit;

use pgrx::pg_sys::{self, Datum, MemoryContext};

use crate::pg::ffi;

/// What every allocation here is aligned to.
const ALIGN: usize = 64;
/// Room for the alignment and for the address the server knows, which is kept just before what is handed out.
const EXTRA: usize = ALIGN + size_of::<usize>();

/// Room for `count` values, zeroed or as it comes.
///
/// # Safety
/// As every allocation of the server: gone with the context. May raise when out of memory.
pub unsafe fn allocate<T>(context: MemoryContext, count: usize, zeroed: bool) -> *mut T {
    // SAFETY: nobody uses the memory longer than the context lives.
    unsafe { allocate_flagged(context, count, if zeroed { pg_sys::MCXT_ALLOC_ZERO } else { 0 }) }
}

/// Room for `count` values, as the server's flags say; null if they allow that and there is no memory.
unsafe fn allocate_flagged<T>(context: MemoryContext, count: usize, flags: u32) -> *mut T {
    const { assert!(align_of::<T>() <= ALIGN) };
    // Huge, because the number of an index's pages and entries is not bounded by 1 GB of memory.
    let flags = (pg_sys::MCXT_ALLOC_HUGE | flags) as c_int;
    // SAFETY: new memory with room for the values behind an aligned address, and for one address before it.
    unsafe {
        let memory = ffi::MemoryContextAllocExtended(context, count * size_of::<T>() + EXTRA, flags).cast::<u8>();
        if memory.is_null() {
            return core::ptr::null_mut();
        }
        let aligned = align(memory);
        aligned.cast::<*mut u8>().sub(1).write(memory);
        aligned.cast()
    }
}

/// What is handed out of memory with room for it and what it takes besides.
fn align(memory: *mut u8) -> *mut u8 {
    memory.map_addr(|address| (address + size_of::<usize>()).next_multiple_of(ALIGN))
}

/// Makes bytes longer that [`allocate`] gave. Many are moved without being copied, if the system can.
///
/// # Safety
/// Nothing uses the old ones any more, unless this raises, out of memory.
pub unsafe fn grow<T>(bytes: *mut [T], size: usize) -> *mut T {
    const { assert!(size_of::<T>() == 1) };
    let old = bytes.cast::<u8>();
    // SAFETY: the address the server knows was kept there; the new memory begins with what was behind that address, and
    // has room for the bytes behind an aligned address of its own.
    unsafe {
        let memory = old.cast::<*mut u8>().sub(1).read();
        let before = old.addr() - memory.addr();
        let memory = ffi::repalloc_huge(memory.cast(), size + EXTRA).cast::<u8>();
        let (moved, aligned) = (memory.add(before), align(memory));
        if moved != aligned {
            aligned.copy_from(moved, bytes.len());
        }
        aligned.cast::<*mut u8>().sub(1).write(memory);
        aligned.cast()
    }
}

/// A memory context of its own within another, small at first.
///
/// # Safety
/// `parent` outlives it. May raise when out of memory.
pub unsafe fn child_context(parent: MemoryContext, name: &'static CStr) -> MemoryContext {
    // SAFETY: the parent outlives the new context.
    unsafe {
        ffi::AllocSetContextCreateInternal(
            parent,
            name.as_ptr(),
            pg_sys::ALLOCSET_SMALL_MINSIZE as usize,
            pg_sys::ALLOCSET_SMALL_INITSIZE as usize,
            pg_sys::ALLOCSET_DEFAULT_MAXSIZE as usize,
        )
    }
}

/// Gives back what [`allocate`] gave, unless it is null.
///
/// # Safety
/// Nothing uses it any more.
pub unsafe fn free<T>(memory: *mut T) {
    if !memory.is_null() {
        // SAFETY: the address the server knows was kept there.
        unsafe { ffi::pfree(memory.cast::<*mut u8>().sub(1).read().cast()) };
    }
}

/// Types for which all-zero bytes are a value.
///
/// # Safety
/// All-zero bytes are one.
pub unsafe trait Zeroed {}

macro_rules! zeroed {
    ($($type:ty),*) => {$(
        // SAFETY: numbers, and words of the server's.
        unsafe impl Zeroed for $type {}
    )*};
}

zeroed!(u8, u64, u128, (u128, u128), Datum);

// SAFETY: any bytes are.
unsafe impl<T> Zeroed for MaybeUninit<T> {}

/// A zeroed value.
///
/// # Safety
/// It is not used longer than the context lives. May raise when out of memory.
pub unsafe fn zeroed_value<T: Zeroed>(context: MemoryContext) -> &'static mut T {
    // SAFETY: new memory of the right size and alignment.
    unsafe { &mut *allocate(context, 1, true) }
}

/// A zeroed array.
///
/// # Safety
/// It is not used longer than the context lives. May raise when out of memory.
pub unsafe fn zeroed_values<T: Zeroed>(context: MemoryContext, count: usize) -> &'static mut [T] {
    // SAFETY: new memory of the right size and alignment.
    unsafe { core::slice::from_raw_parts_mut(allocate(context, count, true), count) }
}

/// A value in memory of its own.
///
/// # Safety
/// It is not used longer than the context lives, and owns nothing. May raise when out of memory.
pub unsafe fn value<T>(context: MemoryContext, value: T) -> &'static mut T {
    // SAFETY: new memory of the right size and alignment, written before it is handed out.
    unsafe {
        let room = allocate(context, 1, false);
        *room = MaybeUninit::new(value);
        (*room).assume_init_mut()
    }
}

/// An array of what `make` makes of some things, which may raise.
///
/// # Safety
/// As for [`value`].
pub unsafe fn values<S, T>(
    context: MemoryContext,
    things: impl Iterator<Item = S> + Clone,
    make: impl FnMut(S) -> T,
) -> &'static mut [T] {
    let count = things.clone().count();
    // SAFETY: new memory of the right size and alignment, written before it is handed out.
    unsafe {
        let room: *mut T = allocate(context, count, false);
        things.map(make).take(count).enumerate().for_each(|(at, value)| room.add(at).write(value));
        core::slice::from_raw_parts_mut(room, count)
    }
}

/// A zeroed array, or none if there is no memory for it.
///
/// # Safety
/// It is not used longer than the context lives.
pub unsafe fn try_zeroed_values<T: Zeroed>(context: MemoryContext, count: usize) -> Option<&'static mut [T]> {
    // SAFETY: new memory of the right size and alignment, if any.
    unsafe {
        let array: *mut T = allocate_flagged(context, count, pg_sys::MCXT_ALLOC_ZERO | pg_sys::MCXT_ALLOC_NO_OOM);
        (!array.is_null()).then(|| core::slice::from_raw_parts_mut(array, count))
    }
}

/// Frees what [`zeroed_values`] gave, or another array of [`allocate`].
///
/// # Safety
/// Nothing uses it any more.
pub unsafe fn free_array<T>(array: &'static mut [T]) {
    // SAFETY: allocated there.
    unsafe { free(array.as_mut_ptr()) };
}
