//! Sorting the entries of a build within `maintenance_work_mem`: what fits is sorted there; what does not goes to
//! temporary files as sorted runs, which are merged.

use core::mem::MaybeUninit;

use fpbtree_engine::format::{Block, Key, Lane, NO_BLOCK, Tid};
use fpbtree_engine::page::{Entry, KeySpace};
use fpbtree_engine::sort::{Compact, Host, Merge, Radix, Run, Slab, slabs_within, table_length};
use pgrx::pg_sys::{self, BufFile, MemoryContext};

use crate::pg::memory::{allocate, zeroed_array};
use crate::pg::{errors, ffi};

mod bytes;
pub mod files;

pub use bytes::BytesSorter;
pub use files::{Files, Shelf};

use files::{List, unreadable};

/// Bytes read from a run at a time: the most, and the least.
const MOST_AHEAD: usize = 1 << 15;
const LEAST_AHEAD: usize = 1 << 13;
/// Merged entries between two looks at whether the build was cancelled.
const MERGED: usize = 4096;
/// Which part of what is in memory is written first when there is no room for more.
const FIRST_PART: usize = 8;
/// Entries looked at for each part that runs are divided into.
const SAMPLES: usize = 64;

/// What collects entries and gives them back in order. Plain memory in the current memory context, no destructor: after an
/// error the server frees it and closes the files.
///
/// All functions may raise, and want the memory context current in which the sorter was made; it outlives the sorter.
pub trait Sort<K: KeySpace>: Sized {
    /// A sorter that keeps to `memory` bytes, which it takes as entries come.
    ///
    /// # Safety
    /// As the trait says.
    unsafe fn new(memory: usize, files: Files) -> Self;

    /// Adds an entry that is in one piece.
    ///
    /// # Safety
    /// As the trait says.
    unsafe fn add(&mut self, entry: &Entry<'_, K>, order: K::Order<'_>);

    /// Entries added.
    fn total(&self) -> u64;

    /// Calls `each` with every entry in order. No entry may be added then.
    ///
    /// # Safety
    /// As the trait says.
    unsafe fn drain(&mut self, order: K::Order<'_>, each: impl FnMut(&Entry<'_, K>));

    /// Leaves all entries as runs, to another process if it was made so. Returns how many runs there are.
    ///
    /// # Safety
    /// As the trait says; no entry is added any more.
    unsafe fn leave(&mut self, order: K::Order<'_>) -> usize;

    /// Takes over the runs that a participant of a parallel build has left.
    ///
    /// # Safety
    /// As the trait says; so many runs were left there.
    unsafe fn take_over(&mut self, shelf: Shelf, runs: usize);

    /// Calls `each` with the entries that are the first ones of parts, but for the first part's, if the entries of all
    /// runs are divided into so many parts of about the same size; or fewer, where one key has many entries. Entries of
    /// one key stay together if `keep_keys` says so, and else if there is a choice.
    ///
    /// # Safety
    /// As the trait says; there are runs.
    unsafe fn divide(&mut self, parts: usize, keep_keys: bool, order: K::Order<'_>, each: impl FnMut(&Entry<'_, K>));

    /// Goes to the runs' entries between two places, and says what they [weigh](Sort::weight) together.
    ///
    /// # Safety
    /// As the trait says.
    unsafe fn part(&mut self, from: &K::OwnedKey, to: &K::OwnedKey, order: K::Order<'_>) -> usize;

    /// How much of a part an entry is.
    fn weight(entry: &Entry<'_, K>) -> usize;

    /// Merges the entries of the [`part`](Sort::part), as long as `each` says so.
    ///
    /// # Safety
    /// As the trait says.
    unsafe fn merge_part(&mut self, order: K::Order<'_>, each: impl FnMut(&Entry<'_, K>) -> bool);

    /// Closes the files of all runs.
    ///
    /// # Safety
    /// No run is used any more.
    unsafe fn close(&mut self);

    /// Merges all runs, and closes their files.
    ///
    /// # Safety
    /// As the trait says; no run is used any more.
    unsafe fn merge(&mut self, order: K::Order<'_>, mut each: impl FnMut(&Entry<'_, K>)) {
        // SAFETY: by this function's contract.
        unsafe {
            self.part(K::first(), K::last(), order);
            self.merge_part(order, |entry| {
                each(entry);
                true
            });
            self.close();
        }
    }
}

/// A key space whose entries can be put in files, one by one.
pub trait Filed: KeySpace {
    /// Memory for an entry. Need not be initialised.
    type Buffer;

    /// Writes an entry that is in one piece.
    ///
    /// # Safety
    /// The file is being written. May raise.
    unsafe fn put(file: *mut BufFile, entry: &Entry<'_, Self>);

    /// Reads the next entry.
    ///
    /// # Safety
    /// The file is being read, and an entry was [`put`](Filed::put) there. May raise.
    unsafe fn get<'r>(file: *mut BufFile, room: &'r mut MaybeUninit<Self::Buffer>) -> Entry<'r, Self>;
}

/// The trait says the same of all exact lanes.
macro_rules! filed {
    ($($lane:ident)*) => {$(
        impl Filed for $lane {
            type Buffer = ();

            unsafe fn put(file: *mut BufFile, entry: &Entry<'_, $lane>) {
                // SAFETY: by this function's contract.
                unsafe { files::put(file, &(entry.key, entry.tid, entry.child)) };
            }

            unsafe fn get<'r>(file: *mut BufFile, _room: &'r mut MaybeUninit<()>) -> Entry<'r, $lane> {
                // SAFETY: by this function's contract.
                let (key, tid, child) = unsafe { files::get::<($lane, Tid, Block)>(file) };
                Entry { key, tid, child }
            }
        }
    )*};
}

filed!(u32 u64 u128);

/// Calls `each` with those of sorted samples that [divide](Sort::divide) what they are taken from into so many parts.
fn choose_places<'e, K: KeySpace>(
    sample: impl Fn(usize) -> Entry<'e, K>,
    count: usize,
    parts: usize,
    keep_keys: bool,
    order: K::Order<'_>,
    mut each: impl FnMut(&Entry<'_, K>),
) {
    let mut last = sample(0);
    for part in 1..parts {
        let aimed = sample(part * count / parts);
        let is_behind = |place: &Entry<'_, K>| K::compare_entry(K::key_of(place, order), &last).is_gt();
        let begins = Entry { tid: Tid::MIN, ..aimed };
        let place = if keep_keys || is_behind(&begins) { begins } else { aimed };
        if is_behind(&place) {
            each(&place);
            last = place;
        }
    }
}

/// Sorts entries of exact lanes.
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
        errors::check_for_interrupts();
    }
}

impl<L: Radix> Sorter<L> {
    /// Writes what was added first, at least so many entries, to a file as one run.
    unsafe fn spill(&mut self, least: usize) {
        let before = self.entries.len();
        // SAFETY: the file is the resource owner's; entries are plain bytes.
        unsafe {
            let file = self.files.create(self.runs.len());
            let mut write = |some: &[Compact<L>]| ffi::BufFileWrite(file, some.as_ptr().cast(), size_of_val(some));
            self.entries.drain_some(least, &mut write);
            self.files.finish(file);
            self.runs.push(FileRun::new(file, before - self.entries.len()));
        }
    }

    /// Makes room for more entries: of an eighth of the memory, and twice as much each time. What an index has a little more of
    /// than there is memory for need not all be written.
    #[cold]
    unsafe fn make_room(&mut self) {
        let part = FIRST_PART >> self.runs.len().min(FIRST_PART.ilog2() as usize);
        // SAFETY: by this function's contract.
        unsafe { self.spill(self.entries.len() / part) };
    }

    /// Merges the runs with what is in memory, and closes their files.
    unsafe fn merge_with_memory(&mut self, mut each: impl FnMut(&Entry<'_, L>))
    where
        Self: Sort<L>,
        L: for<'e> KeySpace<Stored<'e> = L, Order<'e> = (), OwnedKey = Key<L>>,
    {
        // SAFETY: by this function's contract; all-zero bytes are numbers.
        unsafe {
            self.part(L::first(), L::last(), ());
            let heap = zeroed_array(self.runs.len());
            let mut filed = Merge::of(&mut self.runs, heap).peekable();
            self.entries.drain(&mut |some| {
                errors::check_for_interrupts();
                for entry in some {
                    while let Some(before) = filed.next_if(|filed| filed < entry) {
                        each(&plain(&before));
                    }
                    each(&plain(entry));
                }
            });
            for (number, entry) in filed.enumerate() {
                each(&plain(&entry));
                if number.is_multiple_of(MERGED) {
                    errors::check_for_interrupts();
                }
            }
            self.close();
        }
    }
}

fn plain<'e, L: Lane>(entry: &Compact<L>) -> Entry<'e, L> {
    Entry { key: entry.lane(), tid: entry.tid(), child: NO_BLOCK }
}

impl<L: Radix + for<'e> KeySpace<Stored<'e> = L, Order<'e> = (), OwnedKey = Key<L>>> Sort<L> for Sorter<L> {
    unsafe fn new(memory: usize, files: Files) -> Sorter<L> {
        // SAFETY: all-zero bytes are a table without slabs, and runs.
        unsafe {
            let context = ffi::AllocSetContextCreateInternal(
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

    #[inline]
    unsafe fn add(&mut self, entry: &Entry<'_, L>, (): ()) {
        if self.entries.is_full() {
            // SAFETY: by this function's contract.
            unsafe { self.make_room() };
        }
        self.entries.add(entry.key, entry.tid);
        self.total += 1;
    }

    fn total(&self) -> u64 {
        self.total
    }

    unsafe fn drain(&mut self, (): (), mut each: impl FnMut(&Entry<'_, L>)) {
        // SAFETY: by this function's contract; the slabs are not used any more.
        unsafe {
            if self.runs.is_empty() {
                self.entries.drain(&mut |some| some.iter().for_each(|entry| each(&plain(entry))));
            } else {
                self.merge_with_memory(each);
            }
            pg_sys::MemoryContextDelete(self.context);
        }
    }

    unsafe fn leave(&mut self, (): ()) -> usize {
        // SAFETY: by this function's contract; the slabs are not used any more.
        unsafe {
            if !self.entries.is_empty() {
                self.spill(self.entries.len());
            }
            pg_sys::MemoryContextDelete(self.context);
        }
        self.runs.len()
    }

    unsafe fn take_over(&mut self, shelf: Shelf, runs: usize) {
        for run in 0..runs {
            // SAFETY: by this function's contract.
            unsafe {
                let (file, size) = shelf.open(run);
                self.runs.push(FileRun::new(file, size / size_of::<Compact<L>>()));
            }
        }
    }

    unsafe fn divide(&mut self, parts: usize, keep_keys: bool, (): (), each: impl FnMut(&Entry<'_, L>)) {
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
            errors::check_for_interrupts();
        }
        let samples = &mut samples[..count];
        samples.sort_unstable();
        choose_places(|at| plain(&samples[at]), count, parts, keep_keys, (), each);
    }

    unsafe fn part(&mut self, from: &Key<L>, to: &Key<L>, (): ()) -> usize {
        let ahead = (self.memory / self.runs.len().max(1)).clamp(LEAST_AHEAD, MOST_AHEAD);
        let mut entries = 0;
        for run in self.runs.iter_mut() {
            let (first, end) = (run.before(*from), run.before(*to));
            // SAFETY: by this function's contract.
            unsafe { run.begin(first, end, ahead) };
            entries += end - first;
        }
        entries
    }

    #[inline]
    fn weight(_entry: &Entry<'_, L>) -> usize {
        1
    }

    unsafe fn merge_part(&mut self, (): (), mut each: impl FnMut(&Entry<'_, L>) -> bool) {
        // SAFETY: by this function's contract; all-zero bytes are numbers.
        let heap = unsafe { zeroed_array(self.runs.len()) };
        for (number, entry) in Merge::of(&mut self.runs, heap).enumerate() {
            if !each(&plain(&entry)) {
                return;
            }
            if number.is_multiple_of(MERGED) {
                errors::check_for_interrupts();
            }
        }
    }

    unsafe fn close(&mut self) {
        for run in &*self.runs {
            // SAFETY: by this function's contract.
            unsafe { ffi::BufFileClose(run.file) };
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
        unsafe { files::seek(self.file, entry * size_of::<Compact<L>>()) };
    }

    /// Reads one entry.
    fn at(&self, entry: usize) -> Compact<L> {
        let mut read = Compact::new(L::MIN, Tid::MIN);
        self.seek(entry);
        // SAFETY: entries are plain bytes.
        if unsafe { ffi::BufFileRead(self.file, (&raw mut read).cast(), size_of_val(&read)) } != size_of_val(&read) {
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
        if unsafe { ffi::BufFileRead(self.file, self.entries.cast(), size) } != size {
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
