//! Sorting entries whose keys are byte strings: records fill slabs of memory, and items that lead to them are sorted;
//! runs that do not fit go to temporary files.

use core::cmp::Ordering;
use core::mem::MaybeUninit;

use fpbtree_engine::format::{Block, Tid};
use fpbtree_engine::keys::bytes::{BytesKey, BytesOrder, HEAD, MOST_PARTS, OwnedKey, Stored};
use fpbtree_engine::page::{Bytes, Entry, KeySpace};
use fpbtree_engine::paging;
use fpbtree_engine::simd::prefetch;
use fpbtree_engine::sort::bytes::{self, Item, Records};
use pgrx::pg_sys;

use super::files::{self, Files, List, Shelf, unreadable};
use super::{Filed, MERGED, SAMPLES, Sort, choose_places};
use crate::pg::memory::{allocate, free_array, zeroed_array};
use crate::pg::{errors, ffi};

/// Comparisons between two looks at whether the build was cancelled.
const COMPARISONS: u32 = 1 << 16;
/// How many records ahead one is fetched that is gone to in order.
const FORESEEN: usize = 16;
/// How far behind the first line of a record the next one is.
const LINE: usize = 64;
/// Bytes read from a file at a time: the most, and the least.
const MOST_AHEAD: usize = 1 << 17;
const LEAST_AHEAD: usize = 1 << 13;
/// Bytes of the first slab, and of the largest.
const FIRST_SLAB: usize = 1 << 18;
const LARGEST_SLAB: usize = 1 << 26;
/// Arena is taken in no larger steps than such a part of what there may be.
const STEPS: usize = 16;

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

impl Header {
    fn of(entry: &Entry<'_, Bytes>) -> Header {
        let (normal, payload) = (entry.key.prefix.len() as u16, entry.key.payload.len() as u16);
        Header { tid: entry.tid.raw(), child: entry.child, normal, payload }
    }

    /// Bytes of the record.
    fn record(self) -> usize {
        HEADER + self.normal as usize + self.payload as usize
    }
}

/// Buffer for the longest record.
type Record = [u8; HEADER + 2 * MOST_PARTS];

impl Filed for Bytes {
    type Buffer = Record;

    unsafe fn put(file: *mut pg_sys::BufFile, entry: &Entry<'_, Bytes>) {
        // SAFETY: by this function's contract.
        unsafe {
            files::put(file, &Header::of(entry));
            for part in [entry.key.prefix, entry.key.payload] {
                ffi::BufFileWrite(file, part.as_ptr().cast(), part.len());
            }
        }
    }

    unsafe fn get<'r>(file: *mut pg_sys::BufFile, room: &'r mut MaybeUninit<Record>) -> Entry<'r, Bytes> {
        let record = room.as_mut_ptr().cast::<u8>();
        // SAFETY: by this function's contract; a record has room for the longest.
        unsafe {
            let header = files::get::<Header>(file);
            record.cast::<Header>().write_unaligned(header);
            let behind = header.record() - HEADER;
            if ffi::BufFileRead(file, record.add(HEADER).cast(), behind) != behind {
                unreadable();
            }
            entry(record)
        }
    }
}

/// Sorts entries whose keys are byte strings.
pub struct BytesSorter {
    slabs: List<Slab>,
    /// The slab being filled, and bytes of records in it.
    slab: usize,
    used: usize,
    items: *mut Item,
    count: usize,
    capacity: usize,
    /// Bytes of slabs and items, the most there may be, and bytes of all records.
    taken: usize,
    most: usize,
    filled: usize,
    files: Files,
    runs: List<Reader>,
    total: u64,
}

/// Arena for records.
#[derive(Clone, Copy)]
struct Slab {
    memory: *mut u8,
    size: usize,
}

/// A sorted file being read, and its next record. Behind the records the file has the places of some of them, one in
/// [`STRIDE`], and how many these are.
#[derive(Clone, Copy)]
struct Reader {
    file: *mut pg_sys::BufFile,
    /// Bytes of records, and how many places there are.
    size: usize,
    places: usize,
    /// Bytes of records that are not read yet.
    unread: usize,
    /// The bytes at hand, and how many there is room for.
    buffer: *mut u8,
    room: usize,
    at: usize,
    end: usize,
    /// The record at hand.
    record: *mut u8,
}

/// The entry of a record.
unsafe fn entry<'r>(record: *const u8) -> Entry<'r, Bytes> {
    // SAFETY: a whole record, by the caller's contract.
    unsafe {
        let header = record.cast::<Header>().read_unaligned();
        let normal = core::slice::from_raw_parts(record.add(HEADER), header.normal as usize);
        let payload = core::slice::from_raw_parts(record.add(HEADER + normal.len()), header.payload as usize);
        Entry { key: Stored::whole(normal, payload), tid: Tid::from_raw(header.tid), child: header.child }
    }
}

unsafe fn compare(a: *const u8, b: *const u8, order: Option<BytesOrder<'_>>) -> Ordering {
    // SAFETY: by the caller's contract.
    unsafe {
        let (a, b) = (entry(a), entry(b));
        let normal = a.key.prefix.cmp(b.key.prefix);
        match order {
            _ if normal.is_ne() => normal,
            None => a.tid.cmp(&b.tid),
            Some(_) => {
                let key: BytesKey<'_> = Bytes::key_of(&a, order);
                key.compare(&b.key, b.tid)
            }
        }
    }
}

/// The bytes of a normal part from `from` on, as many as a word has.
fn word(normal: &[u8], from: usize) -> u64 {
    if let Some(bytes) = normal.get(from..).and_then(|rest| rest.first_chunk()) {
        return u64::from_be_bytes(*bytes);
    }
    let mut bytes = [0; HEAD];
    let rest = normal.get(from..).unwrap_or(&[]);
    bytes[..rest.len()].copy_from_slice(rest);
    u64::from_be_bytes(bytes)
}

/// The record that an item leads to.
fn record_of(at: usize) -> *const u8 {
    core::ptr::with_exposed_provenance(at)
}

/// Has the first lines of a record fetched.
fn prefetch_record(at: usize) {
    prefetch(record_of(at));
    prefetch(record_of(at).wrapping_add(LINE));
}

/// The records in memory, as sorting sees them.
struct Arena<'o> {
    order: Option<BytesOrder<'o>>,
    since_check: u32,
}

impl Records for Arena<'_> {
    /// Marker bits take the place of some in the first word, so the second one begins with a byte of that.
    fn word(&mut self, at: usize, number: usize) -> Option<u64> {
        // SAFETY: items lead to whole records.
        let normal = unsafe { entry(record_of(at)) }.key.prefix;
        let from = HEAD * (number + 1);
        (from < normal.len()).then(|| word(normal, from))
    }

    fn compare(&mut self, a: usize, b: usize) -> Ordering {
        self.since_check += 1;
        if self.since_check == COMPARISONS {
            self.check();
        }
        // SAFETY: items lead to whole records.
        unsafe { compare(record_of(a), record_of(b), self.order) }
    }

    fn prefetch(&self, at: usize) {
        prefetch_record(at);
    }

    fn check(&mut self) {
        self.since_check = 0;
        errors::check_for_interrupts();
    }
}

impl BytesSorter {
    /// Whether there is room for a record of so many bytes; more memory is taken if there may be.
    unsafe fn has_room(&mut self, length: usize) -> bool {
        if self.count == self.capacity {
            let step = self.most / STEPS / size_of::<Item>();
            let more = self.capacity.min(step).min((self.most - self.taken) / size_of::<Item>());
            if more == 0 {
                return false;
            }
            self.capacity += more;
            self.taken += more * size_of::<Item>();
            // SAFETY: allocated by the constructor; large memory is moved without being copied.
            let memory = unsafe { ffi::repalloc_huge(self.items.cast(), self.capacity * size_of::<Item>()) };
            self.items = memory.cast();
        }
        if self.slabs[self.slab].size - self.used < length {
            if self.slab + 1 == self.slabs.len() {
                let size = 2 * self.slabs[self.slab].size;
                let size = size.min((self.most / STEPS).clamp(FIRST_SLAB, LARGEST_SLAB)).min(self.most - self.taken);
                if size < length {
                    return false;
                }
                // SAFETY: the constructor's memory context is current, by the caller's contract.
                unsafe {
                    let memory = allocate(pg_sys::CurrentMemoryContext, size, false);
                    paging::prefer_large(memory, size);
                    self.slabs.push(Slab { memory, size });
                }
                self.taken += size;
            }
            (self.slab, self.used) = (self.slab + 1, 0);
        }
        // A slab left over from before may be the one at the end.
        length <= self.slabs[self.slab].size - self.used
    }

    unsafe fn sort(&mut self, order: Option<BytesOrder<'_>>) {
        // SAFETY: initialised items. What jumps away leaves them to the memory context.
        let items = unsafe { core::slice::from_raw_parts_mut(self.items, self.count) };
        bytes::sort(items, &mut Arena { order, since_check: 0 });
    }

    /// The records in the items' order, which are fetched before they are come to.
    fn in_order(&self) -> impl Iterator<Item = *const u8> {
        // SAFETY: initialised items.
        let items = unsafe { core::slice::from_raw_parts(self.items, self.count) };
        items.iter().enumerate().map(move |(number, item)| {
            if let Some(ahead) = items.get(number + FORESEEN) {
                prefetch_record(ahead.at);
            }
            record_of(item.at)
        })
    }

    /// Writes all that is in memory to a file, as one run.
    unsafe fn spill(&mut self, order: Option<BytesOrder<'_>>) {
        // SAFETY: the file is the resource owner's; items lead to whole records.
        unsafe {
            self.sort(order);
            let file = self.files.create(self.runs.len());
            let places = zeroed_array::<usize>(self.count.div_ceil(STRIDE));
            let mut written = 0;
            for (number, record) in self.in_order().enumerate() {
                if number.is_multiple_of(STRIDE) {
                    places[number / STRIDE] = written;
                    errors::check_for_interrupts();
                }
                let length = record.cast::<Header>().read_unaligned().record();
                ffi::BufFileWrite(file, record.cast(), length);
                written += length;
            }
            let count = places.len();
            ffi::BufFileWrite(file, places.as_ptr().cast(), size_of_val(places));
            files::put(file, &count);
            free_array(places);
            self.files.finish(file);
            self.runs.push(Reader::new(file, self.filled, count));
        }
        (self.slab, self.used, self.count, self.filled) = (0, 0, 0, 0);
    }

    unsafe fn sink(&self, heap: &mut [usize], mut at: usize, order: Option<BytesOrder<'_>>) {
        // SAFETY: every reader in the heap has a record at hand.
        let less = |a: usize, b: usize| unsafe { compare(self.runs[a].record, self.runs[b].record, order).is_lt() };
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

impl Sort<Bytes> for BytesSorter {
    unsafe fn new(memory: usize, files: Files) -> BytesSorter {
        let most = memory.max(64 * MOST_PARTS);
        let capacity = most.min(FIRST_SLAB) / 4 / size_of::<Item>();
        let size = most.min(FIRST_SLAB) / 2;
        // SAFETY: all-zero bytes are slabs and readers; of the rest only written bytes are read.
        unsafe {
            let items = ffi::palloc(capacity * size_of::<Item>()).cast();
            let mut slabs = List::new();
            slabs.push(Slab { memory: allocate(pg_sys::CurrentMemoryContext, size, false), size });
            let taken = size + capacity * size_of::<Item>();
            let (slab, used, count, filled, runs, total) = (0, 0, 0, 0, List::new(), 0);
            BytesSorter { slabs, slab, used, items, count, capacity, taken, most, filled, files, runs, total }
        }
    }

    unsafe fn add(&mut self, entry: &Entry<'_, Bytes>, order: Option<BytesOrder<'_>>) {
        let (normal, payload) = (entry.key.prefix, entry.key.payload);
        let length = Header::of(entry).record();
        // SAFETY: there is room for the record and for its item.
        unsafe {
            while !self.has_room(length) {
                self.spill(order);
            }
            let record = self.slabs[self.slab].memory.add(self.used);
            record.cast::<Header>().write_unaligned(Header::of(entry));
            record.add(HEADER).copy_from_nonoverlapping(normal.as_ptr(), normal.len());
            record.add(HEADER + normal.len()).copy_from_nonoverlapping(payload.as_ptr(), payload.len());
            // Every normal part begins with a marker that most share.
            let word = word(normal, 1) >> MARKER_BITS | marker_bits(normal);
            self.items.add(self.count).write(Item { word, at: record.expose_provenance() });
        }
        self.count += 1;
        self.used += length;
        self.filled += length;
        self.total += 1;
    }

    fn total(&self) -> u64 {
        self.total
    }

    unsafe fn drain(&mut self, order: Option<BytesOrder<'_>>, mut each: impl FnMut(&Entry<'_, Bytes>)) {
        // SAFETY: by this function's contract.
        unsafe {
            if !self.runs.is_empty() {
                self.leave(order);
                return self.merge(order, each);
            }
            self.sort(order);
            for (number, record) in self.in_order().enumerate() {
                each(&entry(record));
                if number.is_multiple_of(MERGED) {
                    errors::check_for_interrupts();
                }
            }
        }
    }

    unsafe fn leave(&mut self, order: Option<BytesOrder<'_>>) -> usize {
        // SAFETY: by this function's contract; the memory is not used any more.
        unsafe {
            if self.count > 0 {
                self.spill(order);
            }
            self.slabs.iter().for_each(|slab| crate::pg::memory::free(slab.memory));
            ffi::pfree(self.items.cast());
        }
        self.runs.len()
    }

    unsafe fn take_over(&mut self, shelf: Shelf, runs: usize) {
        for run in 0..runs {
            // SAFETY: by this function's contract; a run ends with its places and how many they are.
            unsafe {
                let (file, size) = shelf.open(run);
                files::seek(file, size - size_of::<usize>());
                let places = files::get::<usize>(file);
                self.runs.push(Reader::new(file, size - (places + 1) * size_of::<usize>(), places));
            }
        }
    }

    unsafe fn divide(
        &mut self,
        parts: usize,
        keep_keys: bool,
        order: Option<BytesOrder<'_>>,
        each: impl FnMut(&Entry<'_, Bytes>),
    ) {
        let places = self.runs.iter().map(|run| run.places).sum::<usize>();
        let step = places.div_ceil(parts * SAMPLES);
        // SAFETY: by this function's contract; samples are whole records, and freed when they are not used any more.
        unsafe {
            let samples = zeroed_array::<*mut u8>(places / step + self.runs.len());
            let mut count = 0;
            for run in self.runs.iter_mut() {
                for place in (0..run.places).step_by(step) {
                    let length = run.read(run.place(place)).record();
                    samples[count] = allocate(pg_sys::CurrentMemoryContext, length, false);
                    samples[count].copy_from_nonoverlapping(run.record, length);
                    count += 1;
                }
                errors::check_for_interrupts();
            }
            let taken = &mut samples[..count];
            taken.sort_unstable_by(|&a, &b| compare(a, b, order));
            choose_places(|at| entry(taken[at]), count, parts, keep_keys, order, each);
            taken.iter().for_each(|&sample| crate::pg::memory::free(sample));
            free_array(samples);
        }
    }

    unsafe fn part(&mut self, from: &OwnedKey, to: &OwnedKey, order: Option<BytesOrder<'_>>) -> usize {
        let ahead = (self.most / self.runs.len().max(1)).clamp(LEAST_AHEAD, MOST_AHEAD);
        let mut bytes = 0;
        for run in self.runs.iter_mut() {
            // SAFETY: by this function's contract.
            unsafe {
                let (first, end) = (run.before(from.key(order)), run.before(to.key(order)));
                run.begin(first, end, ahead);
                bytes += end - first;
            }
        }
        bytes
    }

    fn weight(entry: &Entry<'_, Bytes>) -> usize {
        Header::of(entry).record()
    }

    /// By a heap of the runs' next records.
    unsafe fn merge_part(&mut self, order: Option<BytesOrder<'_>>, mut each: impl FnMut(&Entry<'_, Bytes>) -> bool) {
        // SAFETY: by this function's contract; every run in the heap has a record at hand.
        unsafe {
            let heap = zeroed_array::<usize>(self.runs.len());
            let mut live = 0;
            for (number, reader) in self.runs.iter_mut().enumerate() {
                if reader.advance() {
                    heap[live] = number;
                    live += 1;
                }
            }
            for at in (0..live / 2).rev() {
                self.sink(&mut heap[..live], at, order);
            }
            let mut merged = 0usize;
            while live > 0 && each(&entry(self.runs[heap[0]].record)) {
                if !self.runs[heap[0]].advance() {
                    live -= 1;
                    heap[0] = heap[live];
                }
                self.sink(&mut heap[..live], 0, order);
                merged += 1;
                if merged.is_multiple_of(MERGED) {
                    errors::check_for_interrupts();
                }
            }
            free_array(heap);
        }
    }

    unsafe fn close(&mut self) {
        for reader in &*self.runs {
            // SAFETY: by this function's contract.
            unsafe { ffi::BufFileClose(reader.file) };
        }
    }
}

/// Bits of a marker in an item's head: markers are 0, 1 and 2.
const MARKER_BITS: u32 = 2;

fn marker_bits(normal: &[u8]) -> u64 {
    u64::from(normal.first().copied().unwrap_or(0) & 3) << (64 - MARKER_BITS)
}

impl Reader {
    fn new(file: *mut pg_sys::BufFile, size: usize, places: usize) -> Reader {
        let nothing = core::ptr::null_mut();
        Reader { file, size, places, unread: 0, buffer: nothing, room: 0, at: 0, end: 0, record: nothing }
    }

    /// Where a record is whose place is noted.
    unsafe fn place(&self, number: usize) -> usize {
        // SAFETY: the file is open.
        unsafe {
            files::seek(self.file, self.size + number * size_of::<usize>());
            files::get(self.file)
        }
    }

    /// Arena of the current context for a record.
    unsafe fn memory(&mut self) -> &mut MaybeUninit<Record> {
        // SAFETY: new memory, or what it has been since.
        unsafe {
            if self.record.is_null() {
                self.record = allocate::<Record>(pg_sys::CurrentMemoryContext, 1, false).cast();
            }
            &mut *self.record.cast()
        }
    }

    /// Reads the record at a place.
    unsafe fn read(&mut self, at: usize) -> Header {
        // SAFETY: the file is open, and has a record there.
        unsafe {
            let file = self.file;
            files::seek(file, at);
            Header::of(&Bytes::get(file, self.memory()))
        }
    }

    /// How many bytes of records are before a place in key order.
    unsafe fn before(&mut self, key: BytesKey<'_>) -> usize {
        // SAFETY: places of records.
        unsafe {
            let is_before = |run: &mut Reader, at: usize| {
                let length = run.read(at).record();
                let entry = entry(run.record);
                key.compare(&entry.key, entry.tid).is_gt().then_some(length)
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
    }

    /// Goes to the records between two places, to be read so many bytes at a time into memory of the current context.
    unsafe fn begin(&mut self, first: usize, end: usize, ahead: usize) {
        // SAFETY: new memory; the file is open.
        unsafe {
            if self.buffer.is_null() {
                self.room = ahead;
                self.buffer = allocate(pg_sys::CurrentMemoryContext, ahead, false);
            }
            self.memory();
            files::seek(self.file, first);
        }
        (self.at, self.end, self.unread) = (0, 0, end - first);
    }

    /// Goes to the next record; `false` if there is none.
    unsafe fn advance(&mut self) -> bool {
        if self.at == self.end && self.unread == 0 {
            return false;
        }
        // SAFETY: a record has room for the longest.
        unsafe {
            self.take(0, HEADER);
            let header = self.record.cast::<Header>().read_unaligned();
            self.take(HEADER, header.record() - HEADER);
        }
        true
    }

    /// Takes the next bytes of the file into the record.
    unsafe fn take(&mut self, mut to: usize, mut length: usize) {
        // SAFETY: the caller leaves room; the buffer holds a piece.
        unsafe {
            while length > 0 {
                if self.at == self.end {
                    let piece = self.room.min(self.unread);
                    if piece == 0 || ffi::BufFileRead(self.file, self.buffer.cast(), piece) != piece {
                        unreadable();
                    }
                    (self.at, self.end, self.unread) = (0, piece, self.unread - piece);
                }
                let part = length.min(self.end - self.at);
                self.record.add(to).copy_from_nonoverlapping(self.buffer.add(self.at), part);
                (self.at, to, length) = (self.at + part, to + part, length - part);
            }
        }
    }
}
