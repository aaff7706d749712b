//! Sorting the entries of a build within `maintenance_work_mem`: sorted runs in temporary files, and one merge.

use core::ffi::{c_int, c_void};

use fpbtree_engine::key::{Lane, Tail};
use pgrx::pg_sys;

use crate::memory::{allocate, free_array, zeroed_array};
use crate::server;

/// Entries sorted in one go: few enough that a cancel is noticed soon.
const CHUNK: usize = 1 << 20;
/// Entries read from a run at a time.
const READ_AHEAD: usize = 4096;

/// A lane and a tail as one number that sorts as they do.
pub trait Sortable: Lane {
    /// The number.
    type Item: Copy + Ord;
    /// Makes it.
    fn join(self, tail: Tail) -> Self::Item;
    /// Takes it apart.
    fn part(item: Self::Item) -> (Self, Tail);
}

macro_rules! sortable {
    ($lane:ident) => {
        impl Sortable for $lane {
            type Item = u128;
            #[inline]
            fn join(self, tail: Tail) -> u128 {
                u128::from(self) << 64 | u128::from(tail.raw())
            }
            #[inline]
            fn part(item: u128) -> ($lane, Tail) {
                ((item >> 64) as $lane, Tail::from_raw(item as u64))
            }
        }
    };
}

sortable!(u32);
sortable!(u64);

impl Sortable for u128 {
    type Item = (u128, u64);
    #[inline]
    fn join(self, tail: Tail) -> (u128, u64) {
        (self, tail.raw())
    }
    #[inline]
    fn part((lane, tail): (u128, u64)) -> (u128, Tail) {
        (lane, Tail::from_raw(tail))
    }
}

mod long;

pub use long::LongSorter;

mod raw {
    use super::*;

    unsafe extern "C-unwind" {
        pub fn BufFileCreateTemp(across_transactions: bool) -> *mut pg_sys::BufFile;
        pub fn BufFileClose(file: *mut pg_sys::BufFile);
        pub fn BufFileRead(file: *mut pg_sys::BufFile, to: *mut c_void, size: usize) -> usize;
        pub fn BufFileWrite(file: *mut pg_sys::BufFile, from: *const c_void, size: usize);
        pub fn BufFileSeek(file: *mut pg_sys::BufFile, number: c_int, offset: i64, whence: c_int) -> c_int;
    }
}

/// A sorted run: in memory, or in a file and read a piece at a time.
#[derive(Clone, Copy)]
struct Run<I> {
    file: *mut pg_sys::BufFile,
    /// The items at hand.
    items: *mut I,
    count: usize,
    next: usize,
    /// Items still in the file.
    left: usize,
    /// How many of them are read at a time.
    piece: usize,
}

/// Collects entries and gives them back in order. Plain memory in the current memory context, no destructor: after an
/// error the server frees it and closes the files.
pub struct Sorter<L: Sortable> {
    items: &'static mut [L::Item],
    count: usize,
    /// Where the chunk being filled begins.
    chunk: usize,
    runs: &'static mut [Run<L::Item>],
    run_count: usize,
    total: u64,
}

impl<L: Sortable> Sorter<L> {
    /// A sorter that keeps to `memory` bytes. They are reserved at once, and used as entries come.
    ///
    /// # Safety
    /// The current memory context outlives the sorter. May raise.
    pub unsafe fn new(memory: usize) -> Sorter<L> {
        let room = (memory / size_of::<L::Item>()).max(CHUNK / 16);
        // SAFETY: all-zero bytes are runs; of the items only written ones are read.
        unsafe {
            let items = core::slice::from_raw_parts_mut(allocate(pg_sys::CurrentMemoryContext, room, false), room);
            Sorter { items, count: 0, chunk: 0, runs: zeroed_array(64), run_count: 0, total: 0 }
        }
    }

    /// Adds an entry.
    ///
    /// # Safety
    /// The constructor's memory context is current. May raise.
    #[inline]
    pub unsafe fn add(&mut self, lane: L, tail: Tail) {
        // SAFETY: as the constructor.
        unsafe {
            if self.count == self.items.len() {
                self.spill();
            } else if self.count - self.chunk == CHUNK {
                self.end_chunk();
            }
        }
        self.items[self.count] = lane.join(tail);
        self.count += 1;
        self.total += 1;
    }

    /// Entries added.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Sorts the chunk being filled and makes it a run.
    unsafe fn end_chunk(&mut self) {
        if self.chunk == self.count {
            return;
        }
        let chunk = &mut self.items[self.chunk..self.count];
        chunk.sort_unstable();
        let run = Run {
            file: core::ptr::null_mut(),
            items: chunk.as_mut_ptr(),
            count: chunk.len(),
            next: 0,
            left: 0,
            piece: 0,
        };
        // SAFETY: as the constructor.
        unsafe { self.add_run(run) };
        self.chunk = self.count;
        server::check_for_interrupts();
    }

    unsafe fn add_run(&mut self, run: Run<L::Item>) {
        if self.run_count == self.runs.len() {
            // SAFETY: all-zero bytes are runs.
            let more = unsafe { zeroed_array(self.runs.len() * 2) };
            more[..self.run_count].copy_from_slice(self.runs);
            // SAFETY: copied.
            unsafe { free_array(core::mem::replace(&mut self.runs, more)) };
        }
        self.runs[self.run_count] = run;
        self.run_count += 1;
    }

    /// Writes all that is in memory to a file, as one run.
    unsafe fn spill(&mut self) {
        // SAFETY: as the constructor; the file is the resource owner's.
        unsafe {
            self.end_chunk();
            let in_memory = self.runs[..self.run_count].partition_point(|run| !run.file.is_null());
            let file = raw::BufFileCreateTemp(false);
            let count = self.count;
            let mut merge = Merge::<L::Item>::of(&mut self.runs[in_memory..self.run_count]);
            let mut since_check = 0;
            while let Some(item) = merge.next() {
                raw::BufFileWrite(file, (&raw const item).cast(), size_of::<L::Item>());
                since_check += 1;
                if since_check % CHUNK == 0 {
                    server::check_for_interrupts();
                }
            }
            merge.free();
            self.run_count = in_memory;
            (self.count, self.chunk) = (0, 0);
            self.add_run(Run { file, items: core::ptr::null_mut(), count: 0, next: 0, left: count, piece: 0 });
        }
    }

    /// Calls `each` with every entry in order.
    ///
    /// # Safety
    /// The constructor's memory context is current. May raise.
    pub unsafe fn drain(&mut self, each: &mut dyn FnMut(L, Tail)) {
        // SAFETY: as the constructor.
        unsafe {
            self.end_chunk();
            // The pieces of the files together take no more than the entries did.
            let piece = (self.items.len() / self.run_count.max(1)).clamp(READ_AHEAD / 64, READ_AHEAD);
            if self.runs[..self.run_count].iter().all(|run| !run.file.is_null()) {
                free_array(core::mem::take(&mut self.items));
            }
            for run in self.runs[..self.run_count].iter_mut().filter(|run| !run.file.is_null()) {
                run.items = zeroed_array::<L::Item>(piece).as_mut_ptr();
                run.piece = piece;
                if raw::BufFileSeek(run.file, 0, 0, 0) != 0 {
                    unreadable();
                }
            }
            let mut merge = Merge::<L::Item>::of(&mut self.runs[..self.run_count]);
            let mut since_check = 0usize;
            while let Some(item) = merge.next() {
                let (lane, tail) = L::part(item);
                each(lane, tail);
                since_check += 1;
                if since_check.is_multiple_of(READ_AHEAD) {
                    server::check_for_interrupts();
                }
            }
            merge.free();
            if !self.items.is_empty() {
                free_array(core::mem::take(&mut self.items));
            }
            for run in self.runs[..self.run_count].iter().filter(|run| !run.file.is_null()) {
                raw::BufFileClose(run.file);
            }
        }
    }
}

/// A temporary file gave back less than was written to it.
#[cold]
fn unreadable() -> ! {
    server::raise(
        pgrx::PgSqlErrorCode::ERRCODE_IO_ERROR,
        format_args!("could not read a temporary file of an index build"),
        None,
        None,
    )
}

impl<I: Copy> Run<I> {
    /// The next item, read from the file if none is at hand.
    #[inline]
    unsafe fn next(&mut self) -> Option<I> {
        // SAFETY: `items` has room for `count`, or for a file's piece.
        unsafe {
            if self.next == self.count {
                if self.left == 0 {
                    return None;
                }
                let count = self.left.min(self.piece);
                let size = count * size_of::<I>();
                if raw::BufFileRead(self.file, self.items.cast(), size) != size {
                    unreadable();
                }
                (self.count, self.next, self.left) = (count, 0, self.left - count);
            }
            self.next += 1;
            Some(*self.items.add(self.next - 1))
        }
    }
}

/// Merges runs by a heap of their first items.
struct Merge<'r, I: 'static> {
    runs: &'r mut [Run<I>],
    heap: &'static mut [(I, u32)],
    live: usize,
}

impl<'r, I: Copy + Ord> Merge<'r, I> {
    unsafe fn of(runs: &'r mut [Run<I>]) -> Self {
        // SAFETY: of the heap only written places are read; all-zero bytes are items anyway.
        let heap = unsafe { zeroed_array(runs.len()) };
        let mut merge = Merge { runs, heap, live: 0 };
        for run in 0..merge.runs.len() {
            // SAFETY: runs are whole.
            if let Some(item) = unsafe { merge.runs[run].next() } {
                merge.heap[merge.live] = (item, run as u32);
                merge.live += 1;
            }
        }
        for at in (0..merge.live / 2).rev() {
            merge.sink(at);
        }
        merge
    }

    unsafe fn free(self) {
        // SAFETY: not used any more.
        unsafe { free_array(self.heap) };
    }

    fn sink(&mut self, mut at: usize) {
        let heap = &mut self.heap[..self.live];
        let item = heap[at];
        loop {
            let left = 2 * at + 1;
            if left >= heap.len() {
                break;
            }
            let right = left + 1;
            let child = if right < heap.len() && heap[right].0 < heap[left].0 { right } else { left };
            if heap[child].0 >= item.0 {
                break;
            }
            heap[at] = heap[child];
            at = child;
        }
        heap[at] = item;
    }

    #[inline]
    unsafe fn next(&mut self) -> Option<I> {
        if self.live == 0 {
            return None;
        }
        let (item, run) = self.heap[0];
        // SAFETY: runs are whole.
        match unsafe { self.runs[run as usize].next() } {
            Some(next) => self.heap[0].0 = next,
            None => {
                self.live -= 1;
                self.heap[0] = self.heap[self.live];
            }
        }
        if self.live > 0 {
            self.sink(0);
        }
        Some(item)
    }
}
