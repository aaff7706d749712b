//! Sorting entries whose keys are byte strings: records fill slabs of memory, and items that lead to them are sorted;
//! runs that do not fit go to files.
//!
//! Records that come in order are compared with the one before, and stay as they are. From the first on that does not, none is
//! compared, and all are sorted.
//!
//! Where only a function knows an opaque column's order, records are sorted by its hints, and then each is compared with
//! the next by the function: n calls instead of n log n. A few that are not in order are put where they belong; if many are
//! not, all are sorted by the function, and hints are not asked for any more. Records that came in order have no hints: these
//! are made when they are sorted after all.

use core::cmp::Ordering;

use super::any_bytes::{AnyBytes, bytes_of, bytes_of_mut};
use super::files::{Filed, RunFiles, get, put};
use super::host::{Host, List};
use super::items::{self, Item, Records};
use super::sorter::{MERGED, SAMPLES, Sorter, choose_places};
use crate::format::{Block, Tid};
use crate::keys::bytes::{BytesKey, BytesOrder, HEAD, MOST_HINT, MOST_PARTS, OwnedKey, Stored, word_at};
use crate::page::{Bytes, Entry, Keys};
use crate::paging;
use crate::simd::prefetch;

/// Comparisons between two looks at whether the sort was cancelled.
const COMPARISONS: u32 = 1 << 16;
/// How many records ahead one is fetched that is gone to in order.
const FORESEEN: usize = 16;
/// How far behind the first line of a record the next one is.
const LINE: usize = 64;
/// Bytes read from a file at a time: the most, and the least.
const MOST_AHEAD: usize = 1 << 17;
const LEAST_AHEAD: usize = 1 << 13;
/// Bytes of the first slab and items, and of the largest slab.
const FIRST_SLAB: usize = 1 << 18;
const LARGEST_SLAB: usize = 1 << 26;
/// Memory is taken in no larger steps than such a part of what there may be, which is so much at least.
const STEPS: usize = 16;
const LEAST_MEMORY: usize = 64 * MOST_PARTS;

/// Records of a run between two whose places are noted in its file.
const STRIDE: usize = 64;

/// What a record begins with: the TID and the child, and the lengths of the key's normal part and of what the entry has
/// besides, each shorter than a page.
#[repr(C)]
#[derive(Clone, Copy)]
struct Header {
    tid: u64,
    child: Block,
    normal: u16,
    payload: u16,
}

const HEADER: usize = size_of::<Header>();

// SAFETY: all fields are numbers, and together as long as the header: nothing lies between or behind them.
unsafe impl AnyBytes for Header {}

const _: () = assert!(HEADER == size_of::<u64>() + size_of::<Block>() + 2 * size_of::<u16>());

impl Header {
    const EMPTY: Header = Header { tid: 0, child: 0, normal: 0, payload: 0 };

    /// Of an entry's record.
    ///
    /// # Panics
    /// If none is as long.
    #[inline]
    fn of(entry: &Entry<'_, Bytes>) -> Header {
        let (normal, payload) = (entry.key.prefix.len(), entry.key.payload.len());
        assert!(normal + payload <= 2 * MOST_PARTS, "an entry that fits a page");
        Header { tid: entry.tid.raw(), child: entry.child, normal: normal as u16, payload: payload as u16 }
    }

    /// Bytes of the record.
    #[inline]
    fn record(self) -> usize {
        HEADER + self.normal as usize + self.payload as usize
    }
}

/// A record in memory for the longest.
#[derive(Clone, Copy)]
pub struct Record([u8; HEADER + 2 * MOST_PARTS]);

impl Record {
    /// Of an entry without bytes.
    const EMPTY: Record = Record([0; HEADER + 2 * MOST_PARTS]);

    /// Writes the header, and returns where the rest goes.
    ///
    /// # Panics
    /// If no record is as long, which only a damaged file says.
    fn begin(&mut self, header: Header) -> &mut [u8] {
        let (first, rest) = self.0[..header.record()].split_at_mut(HEADER);
        first.copy_from_slice(bytes_of(&[header]));
        rest
    }

    /// Its bytes.
    fn bytes(&self) -> &[u8] {
        &self.0[..header_of(&self.0).record()]
    }
}

#[inline]
fn header_of(record: &[u8]) -> Header {
    let mut header = [Header::EMPTY];
    bytes_of_mut(&mut header).copy_from_slice(&record[..HEADER]);
    header[0]
}

/// The entry of a record at the front of bytes.
#[inline]
fn entry_of(record: &[u8]) -> Entry<'_, Bytes> {
    let header = header_of(record);
    let (normal, rest) = record[HEADER..].split_at(header.normal as usize);
    let key = Stored::whole(normal, &rest[..header.payload as usize]);
    Entry { key, tid: Tid::from_raw(header.tid), child: header.child }
}

impl Filed for Bytes {
    type Record = Record;
    const RECORD: Record = Record::EMPTY;

    fn put<F: RunFiles>(files: F, file: F::File, entry: &Entry<'_, Bytes>) {
        put(files, file, Header::of(entry));
        files.write(file, entry.key.prefix);
        files.write(file, entry.key.payload);
    }

    fn get<'r, F: RunFiles>(files: F, file: F::File, record: &'r mut Record) -> Entry<'r, Bytes> {
        let mut header = Header::EMPTY;
        get(files, file, &mut header);
        files.read(file, record.begin(header));
        entry_of(&record.0)
    }
}

/// Sorts entries whose keys are byte strings.
///
/// It takes no more memory than it is told to, or than 64 keys may take: for records and items, or to read runs, at
/// least 8 KB each. Besides there are a record for each run, a place for every 64 records while they are written, and
/// where only runs are [taken over](Sorter::take_over) the first slab and items, 192 KB at most.
pub struct BytesSorter<'m, H, F: RunFiles> {
    host: H,
    slabs: List<'m, RecordSlab, H>,
    /// The slab being filled, and bytes of records in it.
    slab: usize,
    used: usize,
    items: List<'m, Item, H>,
    /// Bytes of slabs and items, the most there may be, and bytes of all records.
    taken: usize,
    most: usize,
    filled: usize,
    files: F,
    runs: List<'m, BytesRun<'m, H, F>, H>,
    total: u64,
    /// How many of the first records in memory came in order, and whether all did.
    ascending: usize,
    ascends: bool,
    /// Whether hints are asked for, and whether a record in memory has one.
    asks_for_hints: bool,
    has_hints: bool,
}

/// Memory for records, whose items have their addresses from this one.
#[derive(Clone, Copy)]
struct RecordSlab {
    memory: *mut u8,
    size: usize,
}

impl RecordSlab {
    fn of<'m>(host: impl Host<'m>, size: usize) -> RecordSlab {
        let memory = host.allocate(size);
        assert!(memory.len() == size, "memory as it was asked for");
        RecordSlab { memory: memory.as_mut_ptr().cast(), size }
    }
}

#[inline]
fn compare(a: &Entry<'_, Bytes>, b: &Entry<'_, Bytes>, order: Option<BytesOrder<'_>>) -> Ordering {
    let normal = a.key.prefix.cmp(b.key.prefix);
    match order {
        _ if normal.is_ne() => normal,
        None => a.tid.cmp(&b.tid),
        Some(_) => {
            let key: BytesKey<'_> = Bytes::key_of(a, order);
            key.compare_value(b.key.payload, b.tid)
        }
    }
}

/// The bytes of a normal part, and of the hint behind it, from `from` on, as many as a word has.
#[inline]
fn word(normal: &[u8], hint: &[u8], from: usize) -> u64 {
    let of_normal = word_at(normal, from);
    let of_hint = match from.checked_sub(normal.len()) {
        Some(from) => word_at(hint, from),
        None => word_at(hint, 0).unbounded_shr(8 * (normal.len() - from) as u32),
    };
    of_normal | of_hint
}

/// The first word of an item: every normal part begins with a marker that most share.
#[inline]
fn first_word(normal: &[u8], hint: &[u8]) -> u64 {
    word(normal, hint, 1) >> MARKER_BITS | marker_bits(normal)
}

/// The record that an item leads to.
#[inline]
fn record_of(at: usize) -> *const u8 {
    core::ptr::with_exposed_provenance(at)
}

/// The bytes of the record that an item leads to.
///
/// # Safety
/// It is there, and does not change as long as they are looked at.
#[inline]
unsafe fn bytes_at<'r>(at: usize) -> &'r [u8] {
    let record = record_of(at);
    // SAFETY: the caller says that a record is there, which has a header, and then as many bytes as that says.
    unsafe { core::slice::from_raw_parts(record, record.cast::<Header>().read_unaligned().record()) }
}

/// Instead of a hint's length: it is made when it is asked for.
const LATER: u8 = u8::MAX;

const _: () = assert!(MOST_HINT < LATER as usize);

/// The hint behind the record that an item leads to, if it was made.
///
/// # Safety
/// As [`bytes_at`], of a sorter's record in memory.
#[inline]
unsafe fn hint_at<'r>(at: usize) -> Option<&'r [u8]> {
    // SAFETY: the caller says that a record is there, behind which a sorter puts the length of its hint, and then that.
    unsafe {
        let length = record_of(at + bytes_at(at).len());
        (*length != LATER).then(|| core::slice::from_raw_parts(length.add(1), usize::from(*length)))
    }
}

/// Has the first lines of a record fetched.
#[inline]
fn prefetch_record(at: usize) {
    prefetch(record_of(at));
    prefetch(record_of(at).wrapping_add(LINE));
}

/// The records in memory, as sorting sees them.
struct Arena<'o, H> {
    host: H,
    order: Option<BytesOrder<'o>>,
    /// Whether records have hints, and are sorted by them.
    hinted: bool,
    since_check: u32,
    /// The last hint that was made for a record that had none.
    hint: [u8; MOST_HINT],
}

impl<H> Arena<'_, H> {
    #[inline]
    fn entry(&self, at: usize) -> Entry<'_, Bytes> {
        // SAFETY: sorting asks for what items lead to, which is a whole record each, and no record changes meanwhile.
        entry_of(unsafe { bytes_at(at) })
    }

    /// The record's normal part and its hint.
    #[inline]
    fn parts(&mut self, at: usize) -> (&[u8], &[u8]) {
        // SAFETY: as above.
        let entry = entry_of(unsafe { bytes_at(at) });
        // SAFETY: as above.
        let made = if self.hinted { unsafe { hint_at(at) } } else { Some(&[][..]) };
        let hint = match made {
            Some(made) => made,
            None => {
                let length = self.order.map_or(0, |order| order.hint(entry.key.payload, &mut self.hint));
                &self.hint[..length]
            }
        };
        (entry.key.prefix, hint)
    }
}

impl<'m, H: Host<'m>> Records for Arena<'_, H> {
    /// Marker bits take the place of some in the first word, so the second one begins with a byte of that.
    #[inline]
    fn word(&mut self, at: usize, number: usize) -> Option<u64> {
        let (normal, hint) = self.parts(at);
        let from = HEAD * (number + 1);
        (from < normal.len() + hint.len()).then(|| word(normal, hint, from))
    }

    #[inline]
    fn compare(&mut self, a: usize, b: usize) -> Ordering {
        self.since_check += 1;
        if self.since_check == COMPARISONS {
            self.check();
        }
        compare(&self.entry(a), &self.entry(b), self.order)
    }

    #[inline]
    fn tie(&mut self, at: usize) -> u64 {
        self.entry(at).tid.linear()
    }

    #[inline]
    fn prefetch(&self, at: usize) {
        prefetch_record(at);
    }

    fn check(&mut self) {
        self.since_check = 0;
        self.host.check();
    }
}

impl<'m, H: Host<'m>, F: RunFiles> BytesSorter<'m, H, F> {
    /// Whether there is room for a record of so many bytes; more memory is taken if there may be.
    #[inline]
    fn has_room(&mut self, length: usize) -> bool {
        if self.items.len() == self.items.room() {
            let step = self.most / STEPS / size_of::<Item>();
            let more = self.items.room().min(step).min((self.most - self.taken) / size_of::<Item>());
            if more == 0 {
                return false;
            }
            self.taken += more * size_of::<Item>();
            // Large memory is moved without being copied.
            self.items.grow(self.items.room() + more);
        }
        if self.slabs[self.slab].size - self.used < length {
            if self.slab + 1 == self.slabs.len() {
                let size = 2 * self.slabs[self.slab].size;
                let size = size.min((self.most / STEPS).clamp(FIRST_SLAB, LARGEST_SLAB)).min(self.most - self.taken);
                if size < length {
                    return false;
                }
                let slab = RecordSlab::of(self.host, size);
                paging::prefer_large(slab.memory, size);
                self.slabs.push(slab);
                self.taken += size;
            }
            (self.slab, self.used) = (self.slab + 1, 0);
        }
        // A slab left over from before may be the one at the end.
        length <= self.slabs[self.slab].size - self.used
    }

    fn sort(&mut self, order: Option<BytesOrder<'_>>) {
        if self.ascends {
            return;
        }
        let mut arena = Arena { host: self.host, order, hinted: self.has_hints, since_check: 0, hint: [0; MOST_HINT] };
        if self.has_hints {
            for item in &mut self.items[..self.ascending] {
                let (normal, hint) = arena.parts(item.at);
                item.word = first_word(normal, hint);
            }
        }
        items::sort(&mut self.items, &mut arena);
        if self.has_hints && !items::mend(&mut self.items, &mut arena) {
            self.asks_for_hints = false;
            arena.hinted = false;
            for item in self.items.iter_mut() {
                item.word = first_word(arena.entry(item.at).key.prefix, &[]);
            }
            items::sort(&mut self.items, &mut arena);
        }
    }

    /// Whether an entry is not before all that are in memory, as long as none was that came before it.
    #[inline]
    fn is_next(&self, entry: &Entry<'_, Bytes>, order: Option<BytesOrder<'_>>) -> bool {
        // SAFETY: the last item leads to a whole record, which does not change meanwhile.
        let last = self.items.last().map(|last| entry_of(unsafe { bytes_at(last.at) }));
        self.ascends && last.is_none_or(|last| compare(&last, entry, order).is_le())
    }

    /// The records in the items' order, which are fetched before they are come to.
    fn in_order(&self) -> impl Iterator<Item = &[u8]> {
        let items = &*self.items;
        items.iter().enumerate().map(move |(number, item)| {
            if let Some(ahead) = items.get(number + FORESEEN) {
                prefetch_record(ahead.at);
            }
            // SAFETY: each item leads to a whole record, and nothing is added or freed while the sorter is borrowed.
            unsafe { bytes_at(item.at) }
        })
    }

    /// Writes all that is in memory to a file, as one run.
    fn spill(&mut self, order: Option<BytesOrder<'_>>) {
        self.sort(order);
        let file = self.files.create(self.runs.len());
        let mut places = List::with_room(self.host, self.items.len().div_ceil(STRIDE));
        let mut written = 0usize;
        for (number, record) in self.in_order().enumerate() {
            if number.is_multiple_of(STRIDE) {
                places.push(written);
                self.host.check();
            }
            self.files.write(file, record);
            written += record.len();
        }
        let count = places.len();
        self.files.write(file, bytes_of(&places));
        put(self.files, file, count);
        places.free();
        self.files.finish(file);
        self.runs.push(BytesRun::new(self.host, self.files, file, self.filled, count));
        self.items.clear();
        self.begin_run();
    }

    /// No record is in memory.
    fn begin_run(&mut self) {
        (self.slab, self.used, self.filled) = (0, 0, 0);
        (self.ascending, self.ascends, self.has_hints) = (0, true, false);
    }

    /// Gives back the memory of records, and with it what leads to them.
    fn free(&mut self) {
        self.items.free();
        while let Some(RecordSlab { memory, size }) = self.slabs.pop() {
            // SAFETY: the slab is the host's memory as it gave it, and the items that led there are gone.
            unsafe { self.host.free(core::ptr::slice_from_raw_parts_mut(memory.cast(), size)) };
        }
        self.slabs.free();
        self.begin_run();
        self.taken = 0;
    }

    fn sink(&self, heap: &mut [usize], mut at: usize, order: Option<BytesOrder<'_>>) {
        let less = |a: usize, b: usize| compare(&self.runs[a].entry(), &self.runs[b].entry(), order).is_lt();
        loop {
            let left = 2 * at + 1;
            if left >= heap.len() {
                return;
            }
            let right = left + 1;
            let child = if right < heap.len() && less(heap[right], heap[left]) { right } else { left };
            if !less(heap[child], heap[at]) {
                return;
            }
            heap.swap(at, child);
            at = child;
        }
    }
}

impl<'m, H: Host<'m>, F: RunFiles> Sorter<Bytes> for BytesSorter<'m, H, F> {
    type Host = H;
    type Files = F;

    fn new(host: H, files: F, memory: usize) -> Self {
        let most = memory.max(LEAST_MEMORY);
        let items = List::with_room(host, most.min(FIRST_SLAB) / 4 / size_of::<Item>());
        let size = most.min(FIRST_SLAB) / 2;
        let mut slabs = List::new(host);
        slabs.push(RecordSlab::of(host, size));
        let taken = size + items.room() * size_of::<Item>();
        let (slab, used, filled, runs, total) = (0, 0, 0, List::new(host), 0);
        let (ascending, ascends, asks_for_hints, has_hints) = (0, true, true, false);
        BytesSorter {
            host,
            slabs,
            slab,
            used,
            items,
            taken,
            most,
            filled,
            files,
            runs,
            total,
            ascending,
            ascends,
            asks_for_hints,
            has_hints,
        }
    }

    fn add(&mut self, entry: &Entry<'_, Bytes>, order: Option<BytesOrder<'_>>) {
        let (normal, payload) = (entry.key.prefix, entry.key.payload);
        let header = Header::of(entry);
        let is_next = self.is_next(entry, order);
        let mut hint = [0; MOST_HINT];
        let hints = order.filter(|_| self.asks_for_hints && !is_next);
        let length = hints.map_or(0, |order| order.hint(payload, &mut hint));
        while !self.has_room(header.record() + 1 + length) {
            self.spill(order);
        }
        // What comes behind all that was there may be the first of a new run.
        self.ascends = is_next || self.items.is_empty();
        let hint = if self.ascends { &[][..] } else { &hint[..length] };
        let size = header.record() + 1 + hint.len();
        // SAFETY: there is room for the record and its hint in the slab, behind the records that items lead to, so
        // nobody reads there.
        let record = unsafe {
            let record = self.slabs[self.slab].memory.add(self.used);
            record.cast::<Header>().write_unaligned(header);
            record.add(HEADER).copy_from_nonoverlapping(normal.as_ptr(), normal.len());
            record.add(HEADER + normal.len()).copy_from_nonoverlapping(payload.as_ptr(), payload.len());
            let behind = record.add(header.record());
            behind.write(if self.ascends { LATER } else { hint.len() as u8 });
            behind.add(1).copy_from_nonoverlapping(hint.as_ptr(), hint.len());
            record
        };
        self.items.push(Item { word: first_word(normal, hint), at: record.expose_provenance() });
        self.ascending += usize::from(self.ascends);
        self.has_hints |= !hint.is_empty();
        self.used += size;
        self.filled += header.record();
        self.total += 1;
    }

    fn total(&self) -> u64 {
        self.total
    }

    #[inline]
    fn memory(&self) -> usize {
        self.taken
    }

    fn drain(&mut self, order: Option<BytesOrder<'_>>, mut each: impl FnMut(&Entry<'_, Bytes>)) {
        if !self.runs.is_empty() {
            self.leave(order);
            return self.merge(order, each);
        }
        self.sort(order);
        for (number, record) in self.in_order().enumerate() {
            each(&entry_of(record));
            if number.is_multiple_of(MERGED) {
                self.host.check();
            }
        }
        self.close();
    }

    fn leave(&mut self, order: Option<BytesOrder<'_>>) -> usize {
        if !self.items.is_empty() {
            self.spill(order);
        }
        self.free();
        self.runs.len()
    }

    fn take_over(&mut self, files: F, runs: usize) {
        for run in 0..runs {
            let (file, size) = files.open(run);
            // A run ends with its places and how many they are.
            let mut places = 0usize;
            files.seek(file, size - size_of::<usize>());
            get(files, file, &mut places);
            let size = size - (places + 1) * size_of::<usize>();
            self.runs.push(BytesRun::new(self.host, files, file, size, places));
        }
    }

    fn divide(
        &mut self,
        parts: usize,
        keep_keys: bool,
        order: Option<BytesOrder<'_>>,
        each: impl FnMut(&Entry<'_, Bytes>),
    ) {
        let places = self.runs.iter().map(|run| run.places).sum::<usize>();
        let step = places.div_ceil(parts * SAMPLES).max(1);
        let mut records = List::new(self.host);
        let mut samples = List::with_room(self.host, places / step + self.runs.len());
        for run in self.runs.iter_mut() {
            for number in (0..run.places).step_by(step) {
                samples.push(records.len());
                run.read(run.place(number)).bytes().iter().for_each(|&byte| records.push(byte));
            }
            self.host.check();
        }
        let sample = |at: usize| entry_of(&records[at..]);
        samples.sort_unstable_by(|&a, &b| compare(&sample(a), &sample(b), order));
        choose_places(|at| sample(samples[at]), samples.len(), parts, keep_keys, order, each);
        samples.free();
        records.free();
    }

    fn part(&mut self, from: &OwnedKey, to: &OwnedKey, order: Option<BytesOrder<'_>>) -> usize {
        let ahead = (self.most / self.runs.len().max(1)).clamp(LEAST_AHEAD, MOST_AHEAD);
        let mut bytes = 0;
        for run in self.runs.iter_mut() {
            let (first, end) = (run.before(from.key(order)), run.before(to.key(order)));
            run.begin(first, end, ahead);
            bytes += end - first;
        }
        bytes
    }

    fn weight(entry: &Entry<'_, Bytes>) -> usize {
        Header::of(entry).record()
    }

    /// By a heap of the runs' next records.
    fn merge_part(&mut self, order: Option<BytesOrder<'_>>, mut each: impl FnMut(&Entry<'_, Bytes>) -> bool) {
        let mut heap = List::with_room(self.host, self.runs.len());
        for (number, run) in self.runs.iter_mut().enumerate() {
            if run.advance() {
                heap.push(number);
            }
        }
        for at in (0..heap.len() / 2).rev() {
            self.sink(&mut heap, at, order);
        }
        let mut merged = 0usize;
        while let Some(&first) = heap.first()
            && each(&self.runs[first].entry())
        {
            if !self.runs[first].advance()
                && let Some(last) = heap.pop()
                && let Some(first) = heap.first_mut()
            {
                *first = last;
            }
            self.sink(&mut heap, 0, order);
            merged += 1;
            if merged.is_multiple_of(MERGED) {
                self.host.check();
            }
        }
        heap.free();
    }

    fn close(&mut self) {
        while let Some(mut run) = self.runs.pop() {
            run.record.free();
            run.ahead.buffer.free();
            run.ahead.files.close(run.ahead.file);
        }
        self.runs.free();
        self.free();
    }
}

/// Bits of a marker in an item's head: markers are 0, 1 and 2.
const MARKER_BITS: u32 = 2;

fn marker_bits(normal: &[u8]) -> u64 {
    u64::from(normal.first().copied().unwrap_or(0) & 3) << (64 - MARKER_BITS)
}

/// A sorted run in a file, and its next record. Behind the records the file has the places of some of them, one in
/// [`STRIDE`], and how many these are.
struct BytesRun<'m, H, F: RunFiles> {
    ahead: PieceReader<'m, H, F>,
    /// Bytes of records, and how many places there are.
    size: usize,
    places: usize,
    /// The record at hand: memory for one, if it was needed yet.
    record: List<'m, Record, H>,
}

impl<'m, H: Host<'m>, F: RunFiles> BytesRun<'m, H, F> {
    fn new(host: H, files: F, file: F::File, size: usize, places: usize) -> Self {
        let ahead = PieceReader { files, file, buffer: List::new(host), at: 0, end: 0, unread: 0 };
        BytesRun { ahead, size, places, record: List::new(host) }
    }

    /// The entry of the record at hand.
    #[inline]
    fn entry(&self) -> Entry<'_, Bytes> {
        entry_of(&self.record[0].0)
    }

    /// Where a record is whose place is noted.
    fn place(&self, number: usize) -> usize {
        let mut place = 0usize;
        self.ahead.files.seek(self.ahead.file, self.size + number * size_of::<usize>());
        get(self.ahead.files, self.ahead.file, &mut place);
        place
    }

    /// Memory for a record.
    fn memory(&mut self) -> &mut Record {
        if self.record.is_empty() {
            self.record.fill(1, Record::EMPTY);
        }
        &mut self.record[0]
    }

    /// Reads the record at a place.
    fn read(&mut self, at: usize) -> &Record {
        let PieceReader { files, file, .. } = self.ahead;
        files.seek(file, at);
        let record = self.memory();
        Bytes::get(files, file, record);
        record
    }

    /// How many bytes of records are before a place in key order.
    fn before(&mut self, key: BytesKey<'_>) -> usize {
        let is_before = |run: &mut Self, at: usize| {
            let entry = entry_of(&run.read(at).0);
            key.compare(&entry.key, entry.tid).is_gt().then(|| Header::of(&entry).record())
        };
        let (mut low, mut high) = (0, self.places);
        while low < high {
            let middle = low + (high - low) / 2;
            let at = self.place(middle);
            if is_before(self, at).is_some() { low = middle + 1 } else { high = middle }
        }
        let Some(last) = low.checked_sub(1) else { return 0 };
        let mut at = self.place(last);
        while at < self.size
            && let Some(length) = is_before(self, at)
        {
            at += length;
        }
        at
    }

    /// Goes to the records between two places, to be read so many bytes at a time.
    fn begin(&mut self, first: usize, end: usize, ahead: usize) {
        self.memory();
        self.ahead.begin(first, end, ahead);
    }

    /// Goes to the next record; `false` if there is none.
    #[inline]
    fn advance(&mut self) -> bool {
        if self.ahead.is_at_end() {
            return false;
        }
        let mut header = [Header::EMPTY];
        self.ahead.take(bytes_of_mut(&mut header));
        self.ahead.take(self.record[0].begin(header[0]));
        true
    }
}

/// A file being read, a piece at a time.
struct PieceReader<'m, H, F: RunFiles> {
    files: F,
    file: F::File,
    /// The bytes at hand, between two places of as many as there is room for.
    buffer: List<'m, u8, H>,
    at: usize,
    end: usize,
    /// Bytes that are not read yet.
    unread: usize,
}

impl<'m, H: Host<'m>, F: RunFiles> PieceReader<'m, H, F> {
    /// Goes to the bytes between two places.
    fn begin(&mut self, first: usize, end: usize, ahead: usize) {
        if self.buffer.is_empty() {
            self.buffer.fill(ahead, 0);
        }
        self.files.seek(self.file, first);
        (self.at, self.end, self.unread) = (0, 0, end - first);
    }

    #[inline]
    fn is_at_end(&self) -> bool {
        self.at == self.end && self.unread == 0
    }

    /// Takes the next bytes.
    ///
    /// # Panics
    /// If there are not as many, because the file is damaged.
    #[inline]
    fn take(&mut self, mut to: &mut [u8]) {
        while !to.is_empty() {
            if self.at == self.end {
                self.read();
            }
            let (part, rest) = to.split_at_mut(to.len().min(self.end - self.at));
            part.copy_from_slice(&self.buffer[self.at..][..part.len()]);
            (self.at, to) = (self.at + part.len(), rest);
        }
    }

    #[cold]
    fn read(&mut self) {
        let piece = self.buffer.len().min(self.unread);
        assert!(piece > 0, "a record goes on behind the end of its run");
        self.files.read(self.file, &mut self.buffer[..piece]);
        (self.at, self.end, self.unread) = (0, piece, self.unread - piece);
    }
}
