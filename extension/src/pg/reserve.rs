//! Rust's own allocations. There are few, all small: most are made where an error of the server's becomes a panic and
//! is raised again. Rust ends the process if one fails, and the end of one of its processes is a crash to the server,
//! so they have a reserve for when the system gives no memory.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use std::alloc::System;

use super::per_backend::PerBackend;

/// Bytes in reserve. An error's texts and a panic take less than two thousand, of which a name of a few bytes is lost:
/// who passes the error on jumps away from it.
const SIZE: usize = BLOCKS * BLOCK;
const BLOCKS: usize = 1024;
const BLOCK: usize = 64;

/// The system's allocator, and behind it a reserve.
pub struct Reserved(PerBackend<UnsafeCell<Reserve>>);

/// Memory in blocks, of which as many as are wanted are handed out side by side.
#[repr(align(64))]
struct Reserve {
    bytes: [u8; SIZE],
    taken: [bool; BLOCKS],
}

impl Reserve {
    const fn new() -> Reserve {
        Reserve { bytes: [0; SIZE], taken: [false; BLOCKS] }
    }

    /// Memory of the reserve, null if there is not enough of it in one piece.
    fn take(&mut self, layout: Layout) -> *mut u8 {
        let count = layout.size().div_ceil(BLOCK).max(1);
        let is_free = |taken: &[bool]| taken.iter().all(|taken| !taken);
        match self.taken.windows(count.min(BLOCKS)).position(is_free) {
            Some(first) if count <= BLOCKS && layout.align() <= BLOCK => {
                self.taken[first..first + count].fill(true);
                self.bytes[first * BLOCK..].as_mut_ptr()
            }
            _ => core::ptr::null_mut(),
        }
    }

    fn give_back(&mut self, memory: *mut u8, layout: Layout) {
        let first = (memory.addr() - self.bytes.as_ptr().addr()) / BLOCK;
        let count = layout.size().div_ceil(BLOCK).max(1);
        self.taken[first..first + count].fill(false);
    }

    fn owns(&self, memory: *mut u8) -> bool {
        self.bytes.as_ptr_range().contains(&memory.cast_const())
    }
}

impl Reserved {
    /// With all of the reserve.
    pub const fn new() -> Reserved {
        Reserved(PerBackend::new(UnsafeCell::new(Reserve::new())))
    }

    #[expect(clippy::mut_from_ref, reason = "the allocator is shared, and only here is it looked into")]
    fn reserve(&self) -> &mut Reserve {
        // SAFETY: one thread; nothing below comes back here while the reference lives.
        unsafe { &mut *self.0.get() }
    }
}

// SAFETY: what is handed out is the system's, or blocks of the reserve that nobody else has, of the size and alignment
// asked for.
unsafe impl GlobalAlloc for Reserved {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the layout is not empty.
        let memory = unsafe { System.alloc(layout) };
        if memory.is_null() { self.reserve().take(layout) } else { memory }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if self.reserve().owns(memory) {
            return self.reserve().give_back(memory, layout);
        }
        // SAFETY: the memory is the system's, of that layout.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the memory is of that layout, and the size not 0. What is moved is as long as the shorter of both.
        unsafe {
            if !self.reserve().owns(memory) {
                let moved = System.realloc(memory, layout, size);
                if !moved.is_null() {
                    return moved;
                }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(size: usize) -> Layout {
        Layout::from_size_align(size, 8).expect("a possible layout")
    }

    #[test]
    fn what_is_given_back_is_handed_out_again() {
        let mut reserve = Box::new(Reserve::new());
        for round in 0..10_000 {
            let sizes = [1, BLOCK, BLOCK + 1, 12, 2_000 + round % 3];
            let parts = sizes.map(|size| (reserve.take(layout(size)), size));
            for (at, &(part, size)) in parts.iter().enumerate() {
                assert!(reserve.owns(part) && part.addr().is_multiple_of(BLOCK), "round {round}");
                let end = part.addr() + size;
                assert!(parts[at + 1..].iter().all(|(other, _)| other.addr() >= end), "parts of it overlap");
            }
            parts.iter().rev().for_each(|&(part, size)| reserve.give_back(part, layout(size)));
        }
        assert!(reserve.taken.iter().all(|taken| !taken));
    }

    #[test]
    fn what_is_lost_costs_no_more_than_itself() {
        let mut reserve = Box::new(Reserve::new());
        for error in 0..900 {
            let texts = [40, 12, 300, 1_500].map(|size| (reserve.take(layout(size)), size));
            assert!(texts.iter().all(|(text, _)| !text.is_null()), "error {error}");
            // All but the name of 12 bytes.
            texts
                .iter()
                .filter(|(_, size)| *size != 12)
                .for_each(|&(text, size)| reserve.give_back(text, layout(size)));
        }
    }

    #[test]
    fn more_than_there_is_is_refused() {
        let mut reserve = Box::new(Reserve::new());
        assert!(reserve.take(layout(SIZE + 1)).is_null());
        assert!(reserve.take(Layout::from_size_align(8, 2 * BLOCK).expect("a possible layout")).is_null());
        let all = reserve.take(layout(SIZE));
        assert!(reserve.owns(all) && reserve.take(layout(1)).is_null());
        reserve.give_back(all, layout(SIZE));
        assert!(!reserve.take(layout(1)).is_null() && reserve.take(layout(SIZE)).is_null());
    }
}
