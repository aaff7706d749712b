//! Sorting entries of exact lanes: runs that do not fit the memory go to files.

use super::any_bytes::{bytes_of, bytes_of_mut};
use super::compact::{Compact, Radix};
use super::files::RunFiles;
use super::host::{Host, List};
use super::merge::{Merge, Run};
use super::radix::RadixSort;
use super::sorter::{MERGED, SAMPLES, Sorter, choose_places};
use crate::format::{Key, Lane, NO_BLOCK, Tid};
use crate::page::{Entry, Keys};

/// Bytes read from a run at a time: the most, and the least.
const MOST_AHEAD: usize = 1 << 15;
const LEAST_AHEAD: usize = 1 << 13;
/// Which part of what is in memory is written first when there is no room for more.
const FIRST_PART: usize = 8;

/// Sorts entries of exact lanes.
///
/// It takes no more memory than it is told to in the usual case, or than five slabs: for entries and to sort them.
/// Besides there are 8 to 32 KB to read each run.
pub struct LaneSorter<'m, L, H, F: RunFiles> {
    entries: RadixSort<'m, L, H>,
    host: H,
    memory: usize,
    files: F,
    runs: List<'m, FileRun<'m, L, H, F>, H>,
    total: u64,
}

impl<'m, L: Radix, H: Host<'m>, F: RunFiles> LaneSorter<'m, L, H, F> {
    /// Writes what was added first, at least so many entries, to a file as one run.
    fn spill(&mut self, least: usize) {
        let (files, before) = (self.files, self.entries.len());
        let file = files.create(self.runs.len());
        self.entries.drain_some(least, &mut |some| files.write(file, bytes_of(some)));
        files.finish(file);
        self.runs.push(FileRun::new(self.host, files, file, before - self.entries.len()));
    }

    /// Makes room for more entries: of an eighth of the memory, and twice as much each time. What an index has a little
    /// more of than there is memory for need not all be written.
    #[cold]
    fn make_room(&mut self) {
        let part = FIRST_PART >> self.runs.len().min(FIRST_PART.ilog2() as usize);
        self.spill(self.entries.len() / part);
    }

    /// A place in the heap for each run.
    fn heap(&self) -> List<'m, (Compact<L>, u32), H> {
        List::filled(self.host, self.runs.len(), (Compact::new(L::MIN, Tid::MIN), 0))
    }

    /// Merges the runs with what is in memory.
    fn merge_with_memory(&mut self, mut each: impl FnMut(&Entry<'_, L>)) {
        let host = self.host;
        self.part(L::first(), L::last(), ());
        let mut heap = self.heap();
        let mut filed = Merge::of(&mut self.runs, &mut heap).peekable();
        self.entries.drain(&mut |some| {
            host.check();
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
                host.check();
            }
        }
        heap.free();
    }
}

fn plain<'e, L: Lane>(entry: &Compact<L>) -> Entry<'e, L> {
    Entry { key: entry.lane(), tid: entry.tid(), child: NO_BLOCK }
}

impl<'m, L: Radix, H: Host<'m>, F: RunFiles> Sorter<L> for LaneSorter<'m, L, H, F> {
    type Host = H;
    type Files = F;

    fn new(host: H, files: F, memory: usize) -> Self {
        let entries = RadixSort::within(host, memory);
        LaneSorter { entries, host, memory, files, runs: List::new(host), total: 0 }
    }

    #[inline]
    fn add(&mut self, entry: &Entry<'_, L>, (): ()) {
        if self.entries.is_full() {
            self.make_room();
        }
        self.entries.add(entry.key, entry.tid);
        self.total += 1;
    }

    fn total(&self) -> u64 {
        self.total
    }

    #[inline]
    fn memory(&self) -> usize {
        self.entries.memory()
    }

    fn drain(&mut self, (): (), mut each: impl FnMut(&Entry<'_, L>)) {
        if self.runs.is_empty() {
            self.entries.drain(&mut |some| some.iter().for_each(|entry| each(&plain(entry))));
        } else {
            self.merge_with_memory(each);
        }
        self.close();
    }

    fn leave(&mut self, (): ()) -> usize {
        if !self.entries.is_empty() {
            self.spill(self.entries.len());
        }
        self.entries.free();
        self.runs.len()
    }

    fn take_over(&mut self, files: F, runs: usize) {
        for run in 0..runs {
            let (file, size) = files.open(run);
            self.runs.push(FileRun::new(self.host, files, file, size / size_of::<Compact<L>>()));
        }
    }

    fn divide(&mut self, parts: usize, keep_keys: bool, (): (), each: impl FnMut(&Entry<'_, L>)) {
        let entries = self.runs.iter().map(|run| run.size).sum::<usize>();
        let step = entries.div_ceil(parts * SAMPLES).max(1);
        let mut samples = List::with_room(self.host, entries / step + self.runs.len());
        for run in &*self.runs {
            (0..run.size).step_by(step).for_each(|at| samples.push(run.at(at)));
            self.host.check();
        }
        samples.sort_unstable();
        choose_places(|at| plain(&samples[at]), samples.len(), parts, keep_keys, (), each);
        samples.free();
    }

    fn part(&mut self, from: &Key<L>, to: &Key<L>, (): ()) -> usize {
        let ahead = (self.memory / self.runs.len().max(1)).clamp(LEAST_AHEAD, MOST_AHEAD);
        let mut entries = 0;
        for run in self.runs.iter_mut() {
            let (first, end) = (run.before(*from), run.before(*to));
            run.begin(first, end, ahead);
            entries += end - first;
        }
        entries
    }

    #[inline]
    fn weight(_entry: &Entry<'_, L>) -> usize {
        1
    }

    fn merge_part(&mut self, (): (), mut each: impl FnMut(&Entry<'_, L>) -> bool) {
        let host = self.host;
        let mut heap = self.heap();
        for (number, entry) in Merge::of(&mut self.runs, &mut heap).enumerate() {
            if !each(&plain(&entry)) {
                break;
            }
            if number.is_multiple_of(MERGED) {
                host.check();
            }
        }
        heap.free();
    }

    fn close(&mut self) {
        while let Some(mut run) = self.runs.pop() {
            run.entries.free();
            run.files.close(run.file);
        }
        self.runs.free();
        self.entries.free();
    }
}

/// A sorted run in a file, read a piece at a time.
struct FileRun<'m, L, H, F: RunFiles> {
    files: F,
    file: F::File,
    /// Entries in the file.
    size: usize,
    /// Memory for entries, how many are at hand there, and which of them is next.
    entries: List<'m, Compact<L>, H>,
    count: usize,
    next: usize,
    /// Entries to be read yet.
    left: usize,
}

impl<'m, L: Radix, H: Host<'m>, F: RunFiles> FileRun<'m, L, H, F> {
    fn new(host: H, files: F, file: F::File, size: usize) -> Self {
        FileRun { files, file, size, entries: List::new(host), count: 0, next: 0, left: 0 }
    }

    fn seek(&self, entry: usize) {
        self.files.seek(self.file, entry * size_of::<Compact<L>>());
    }

    /// Reads one entry.
    fn at(&self, entry: usize) -> Compact<L> {
        let mut read = [Compact::new(L::MIN, Tid::MIN)];
        self.seek(entry);
        self.files.read(self.file, bytes_of_mut(&mut read));
        read[0]
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

    /// Goes to the entries from one to before another, to be read so many bytes at a time.
    fn begin(&mut self, first: usize, end: usize, ahead: usize) {
        if self.entries.is_empty() {
            self.entries.fill(ahead / size_of::<Compact<L>>(), Compact::new(L::MIN, Tid::MIN));
        }
        self.seek(first);
        (self.count, self.next, self.left) = (0, 0, end - first);
    }

    #[cold]
    fn read(&mut self) {
        let count = self.left.min(self.entries.len());
        self.files.read(self.file, bytes_of_mut(&mut self.entries[..count]));
        (self.count, self.next, self.left) = (count, 0, self.left - count);
    }
}

impl<'m, L: Radix, H: Host<'m>, F: RunFiles> Run<L> for FileRun<'m, L, H, F> {
    #[inline]
    fn next(&mut self) -> Option<Compact<L>> {
        if self.next == self.count {
            if self.left == 0 {
                return None;
            }
            self.read();
        }
        self.next += 1;
        Some(self.entries[self.next - 1])
    }
}
