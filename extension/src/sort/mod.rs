//! Sorting the entries of a build within `maintenance_work_mem`: what fits is sorted there; what does not goes to
//! temporary files as sorted runs, which are merged.

use fpbtree_engine::key::{Key, Lane, Tail};
use fpbtree_engine::sort::{Compact, Host, Merge, Radix, Run, Slab, slabs_within, table_length};
use pgrx::pg_sys::{self, MemoryContext};

use crate::memory::{allocate, zeroed_array};
use crate::server;

pub mod files;
mod long;

pub use files::{Files, Shelf};
pub use long::LongSorter;

use files::{List, raw, unreadable};

/// Bytes read from a run at a time: the most, and the least.
const MOST_AHEAD: usize = 1 << 15;
const LEAST_AHEAD: usize = 1 << 13;
/// Merged entries between two looks at whether the build was cancelled.
const MERGED: usize = 4096;
/// Entries looked at for each part that runs are divided into.
const SAMPLES: usize = 64;

/// Collects entries and gives them back in order. Plain memory in the current memory context, no destructor: after an
/// error the server frees it and closes the files.
pub struct Sorter<L: Radix> {
    entries: InMemory<L>,
    /// Of the slabs.
    context: MemoryContext,
    memory: usize,
    files: Files,
    runs: List<FileRun<L>>,
    total: u64,
}

type InMemory<L> = fpbtree_engine::sort::Sorter<'static, L, Server>;

/// What the engine's sorter has of the server.
struct Server {
    context: MemoryContext,
}

impl<L: 'static> Host<'static, L> for Server {
    fn slab(&mut self) -> &'static mut Slab<L> {
        // SAFETY: all-zero bytes are a slab; the context is deleted when the sorter is not used any more.
        unsafe { &mut *allocate(self.context, 1, true) }
    }

    #[inline]
    fn check(&mut self) {
        server::check_for_interrupts();
    }
}

impl<L: Radix> Sorter<L> {
    /// A sorter that keeps to `memory` bytes, which it takes as entries come.
    ///
    /// # Safety
    /// The current memory context outlives the sorter. May raise.
    pub unsafe fn new(memory: usize, files: Files) -> Sorter<L> {
        // SAFETY: all-zero bytes are a table without slabs, and runs.
        unsafe {
            let context = pg_sys::AllocSetContextCreateInternal(
                pg_sys::CurrentMemoryContext,
                c"fpbtree sort".as_ptr(),
                0,
                pg_sys::ALLOCSET_DEFAULT_INITSIZE as usize,
                pg_sys::ALLOCSET_DEFAULT_MAXSIZE as usize,
            );
            let table = zeroed_array(table_length(slabs_within::<L>(memory)));
            let entries = InMemory::new(Server { context }, table);
            Sorter { entries, context, memory, files, runs: List::new(), total: 0 }
        }
    }

    /// Adds an entry.
    ///
    /// # Safety
    /// The constructor's memory context is current. May raise.
    #[inline]
    pub unsafe fn add(&mut self, lane: L, tail: Tail) {
        if self.entries.is_full() {
            // SAFETY: as the constructor.
            unsafe { self.spill() };
        }
        self.entries.add(lane, tail);
        self.total += 1;
    }

    /// Entries added.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Writes all that is in memory to a file, as one run.
    unsafe fn spill(&mut self) {
        let left = self.entries.len();
        // SAFETY: the file is the resource owner's; entries are plain bytes.
        unsafe {
            let file = self.files.create(self.runs.len());
            self.entries.drain(&mut |some| raw::BufFileWrite(file, some.as_ptr().cast(), size_of_val(some)));
            self.runs.push(FileRun::new(self.files.finish(file), left));
        }
    }

    /// Leaves all entries to the leader of a parallel build. Returns in how many runs.
    ///
    /// # Safety
    /// The constructor's memory context is current. May raise.
    pub unsafe fn leave(&mut self) -> usize {
        // SAFETY: as the constructor; the slabs are not used any more.
        unsafe {
            if !self.entries.is_empty() {
                self.spill();
            }
            pg_sys::MemoryContextDelete(self.context);
        }
        self.runs.len()
    }

    /// Takes over the runs that a participant of a parallel build has left.
    ///
    /// # Safety
    /// The constructor's memory context is current, and so many runs were left there. May raise.
    pub unsafe fn take_over(&mut self, shelf: Shelf, runs: usize) {
        for run in 0..runs {
            // SAFETY: by this function's contract.
            unsafe {
                let (file, size) = shelf.open(run);
                self.runs.push(FileRun::new(file, size / size_of::<Compact<L>>()));
            }
        }
    }

    /// Calls `each` with every entry in order. No entry may be added then.
    ///
    /// # Safety
    /// The constructor's memory context is current. May raise.
    pub unsafe fn drain(&mut self, mut each: impl FnMut(L, Tail)) {
        if self.runs.is_empty() {
            self.entries.drain(&mut |some| some.iter().for_each(|entry| each(entry.lane(), entry.tail())));
        }
        // SAFETY: as the constructor; the slabs are not used any more.
        unsafe {
            self.leave();
            self.merge(each);
        }
    }

    /// Merges the runs, and closes their files.
    unsafe fn merge(&mut self, mut each: impl FnMut(L, Tail)) {
        // SAFETY: as the constructor.
        unsafe {
            self.part(None, None);
            self.merge_part(|lane, tail| {
                each(lane, tail);
                true
            });
            self.close();
        }
    }

    /// Closes the files of all runs.
    ///
    /// # Safety
    /// No run is used any more.
    pub unsafe fn close(&mut self) {
        for run in &*self.runs {
            // SAFETY: by this function's contract.
            unsafe { raw::BufFileClose(run.file) };
        }
    }

    /// Chooses places that divide the entries of all runs into so many parts, of about the same size, in `places`.
    /// Returns how many there are: fewer, where one key has many entries. Entries of one lane stay together if
    /// `keep_lanes` says so.
    ///
    /// # Safety
    /// The constructor's memory context is current; there are runs. May raise.
    pub unsafe fn divide(&mut self, parts: usize, keep_lanes: bool, places: &mut [Key<L>]) -> usize {
        let entries = self.runs.iter().map(|run| run.size).sum::<usize>();
        let step = entries.div_ceil(parts * SAMPLES);
        // SAFETY: by this function's contract; all-zero bytes are entries.
        let samples = unsafe { zeroed_array::<Compact<L>>(entries / step + self.runs.len()) };
        let mut count = 0;
        for run in &*self.runs {
            for at in (0..run.size).step_by(step) {
                samples[count] = run.at(at);
                count += 1;
            }
            server::check_for_interrupts();
        }
        let samples = &mut samples[..count];
        samples.sort_unstable();
        let mut last = samples[0].key();
        let mut chosen = 0;
        for part in 1..parts {
            let sample = samples[part * count / parts];
            let begins = Key::new(sample.lane(), Tail::MIN);
            let place = if begins > last || keep_lanes { begins } else { sample.key() };
            if place > last {
                places[chosen] = place;
                (last, chosen) = (place, chosen + 1);
            }
        }
        chosen
    }

    /// Goes to the entries between two places, and says how many they are.
    ///
    /// # Safety
    /// The constructor's memory context is current. May raise.
    pub unsafe fn part(&mut self, from: Option<Key<L>>, to: Option<Key<L>>) -> usize {
        let ahead = (self.memory / self.runs.len().max(1)).clamp(LEAST_AHEAD, MOST_AHEAD);
        let mut entries = 0;
        for run in self.runs.iter_mut() {
            let first = from.map_or(0, |key| run.before(key));
            let end = to.map_or(run.size, |key| run.before(key));
            // SAFETY: by this function's contract.
            unsafe { run.begin(first, end, ahead) };
            entries += end - first;
        }
        entries
    }

    /// Merges the entries of the [`part`](Sorter::part), as long as `each` says so.
    ///
    /// # Safety
    /// As [`part`](Sorter::part).
    pub unsafe fn merge_part(&mut self, mut each: impl FnMut(L, Tail) -> bool) {
        // SAFETY: as the constructor; all-zero bytes are entries and numbers.
        let heap = unsafe { zeroed_array(self.runs.len()) };
        for (number, entry) in Merge::of(&mut self.runs, heap).enumerate() {
            if !each(entry.lane(), entry.tail()) {
                return;
            }
            if number.is_multiple_of(MERGED) {
                server::check_for_interrupts();
            }
        }
    }
}

/// A sorted run in a file, read a piece at a time. All-zero bytes are one that is not used.
#[derive(Clone, Copy)]
struct FileRun<L> {
    file: *mut pg_sys::BufFile,
    /// Entries in the file.
    size: usize,
    /// The entries at hand, and how many there is room for.
    entries: *mut Compact<L>,
    room: usize,
    count: usize,
    next: usize,
    /// Entries to be read yet.
    left: usize,
}

impl<L: Lane> FileRun<L> {
    fn new(file: *mut pg_sys::BufFile, size: usize) -> FileRun<L> {
        FileRun { file, size, entries: core::ptr::null_mut(), room: 0, count: 0, next: 0, left: 0 }
    }

    fn seek(&self, entry: usize) {
        // SAFETY: the file is open.
        if unsafe { raw::BufFileSeek(self.file, 0, (entry * size_of::<Compact<L>>()) as i64, 0) } != 0 {
            unreadable();
        }
    }

    /// Reads one entry.
    fn at(&self, entry: usize) -> Compact<L> {
        let mut read = Compact::new(L::MIN, Tail::MIN);
        self.seek(entry);
        // SAFETY: entries are plain bytes.
        if unsafe { raw::BufFileRead(self.file, (&raw mut read).cast(), size_of_val(&read)) } != size_of_val(&read) {
            unreadable();
        }
        read
    }

    /// How many entries are before a place.
    fn before(&self, place: Key<L>) -> usize {
        let (mut low, mut high) = (0, self.size);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.at(middle).key() < place { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Goes to the entries from one to before another, to be read so many bytes at a time into memory of the current
    /// context.
    unsafe fn begin(&mut self, first: usize, end: usize, ahead: usize) {
        if self.room == 0 {
            self.room = ahead / size_of::<Compact<L>>();
            // SAFETY: all-zero bytes are entries.
            self.entries = unsafe { zeroed_array(self.room).as_mut_ptr() };
        }
        self.seek(first);
        (self.count, self.next, self.left) = (0, 0, end - first);
    }

    #[cold]
    fn read(&mut self) {
        let count = self.left.min(self.room);
        let size = count * size_of::<Compact<L>>();
        // SAFETY: the file is open and there is room for the entries.
        if unsafe { raw::BufFileRead(self.file, self.entries.cast(), size) } != size {
            unreadable();
        }
        (self.count, self.next, self.left) = (count, 0, self.left - count);
    }
}

impl<L: Lane> Run<L> for FileRun<L> {
    #[inline]
    fn next(&mut self) -> Option<Compact<L>> {
        if self.next == self.count {
            if self.left == 0 {
                return None;
            }
            self.read();
        }
        self.next += 1;
        // SAFETY: one of the entries read.
        Some(unsafe { *self.entries.add(self.next - 1) })
    }
}
