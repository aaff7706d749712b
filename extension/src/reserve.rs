//! Rust's own allocations. There are few, all small: most are made where an error of the server's becomes a panic and is
//! raised again. Rust ends the process if one fails, and the end of one of its processes is a crash to the server, so
//! they have a reserve for when the system gives no memory.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::alloc::System;

#[global_allocator]
static ALLOCATOR: Reserved =
    Reserved { bytes: Bytes(UnsafeCell::new([0; SIZE])), used: AtomicUsize::new(0), live: AtomicUsize::new(0) };

/// Bytes in reserve. An error's texts and a panic take less than two thousand.
const SIZE: usize = 1 << 16;

/// The system's allocator, and behind it memory that is handed out from front to back, and whole again once all of it
/// has been given back.
struct Reserved {
    bytes: Bytes,
    /// How much is handed out, and to how many.
    used: AtomicUsize,
    live: AtomicUsize,
}

#[repr(align(64))]
struct Bytes(UnsafeCell<[u8; SIZE]>);

// SAFETY: a byte is handed out to one owner at a time.
unsafe impl Sync for Bytes {}

impl Reserved {
    /// Memory of the reserve, null if there is not enough.
    fn take(&self, layout: Layout) -> *mut u8 {
        let start = |used: usize| used.next_multiple_of(layout.align());
        let end = |used| start(used).checked_add(layout.size()).filter(|end| *end <= SIZE && layout.align() <= 64);
        match self.used.fetch_update(Relaxed, Relaxed, end) {
            Ok(used) => {
                self.live.fetch_add(1, Relaxed);
                self.bytes.0.get().cast::<u8>().wrapping_add(start(used))
            }
            Err(_) => core::ptr::null_mut(),
        }
    }

    fn give_back(&self) {
        if self.live.fetch_sub(1, Relaxed) == 1 {
            self.used.store(0, Relaxed);
        }
    }

    fn owns(&self, memory: *mut u8) -> bool {
        memory.addr().wrapping_sub(self.bytes.0.get().addr()) < SIZE
    }

    /// The memory if there is any, else some of the reserve.
    fn or_take(&self, memory: *mut u8, layout: Layout) -> *mut u8 {
        if memory.is_null() { self.take(layout) } else { memory }
    }
}

// SAFETY: what is handed out is the system's, or a part of the reserve that nobody else has, of the size and alignment
// asked for. The server runs one thread, so the reserve is never made whole while a part of it is handed out.
unsafe impl GlobalAlloc for Reserved {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: by this function's contract.
        self.or_take(unsafe { System.alloc(layout) }, layout)
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if self.owns(memory) {
            return self.give_back();
        }
        // SAFETY: by this function's contract, and it is the system's.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: by this function's contract. What is moved is as long as the shorter of both.
        unsafe {
            let in_place = if self.owns(memory) { core::ptr::null_mut() } else { System.realloc(memory, layout, size) };
            if !in_place.is_null() {
                return in_place;
            }
            let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !new.is_null() {
                new.copy_from_nonoverlapping(memory, layout.size().min(size));
                self.dealloc(memory, layout);
            }
            new
        }
    }
}
