//! Sorting entries whose keys are byte strings: records fill memory from the front and what sorts them from the back;
//! runs that do not fit go to temporary files.

use core::cmp::Ordering;

use fpbtree_engine::key::Tail;
use fpbtree_engine::key::long::{HEAD, LongKey, LongOrder, MOST_PARTS, Stored};
use fpbtree_engine::page::{Entry, KeySpace, Long};
use fpbtree_engine::simd::prefetch;
use fpbtree_engine::sort::strings::{self, Item, Records};
use fpbtree_engine::store::NO_BLOCK;
use pgrx::pg_sys;

use super::files::{Files, List, Shelf, raw, unreadable};
use crate::memory::{allocate, zeroed_array};
use crate::server;

/// Comparisons between two looks at whether the build was cancelled.
const COMPARISONS: u32 = 1 << 16;
/// How many records ahead one is fetched that is gone to in order.
const FORESEEN: usize = 16;
/// Bytes of a line of a processor's cache.
const LINE: usize = 64;
/// Bytes read from a file at a time: the most, and the least.
const MOST_AHEAD: usize = 1 << 17;
const LEAST_AHEAD: usize = 1 << 13;
/// Bytes of memory to begin with.
const AT_FIRST: usize = 1 << 18;

/// What a record begins with: the lengths of the key's normal part and of what the entry has besides, and the tail.
#[repr(C)]
#[derive(Clone, Copy)]
struct Header {
    tail: u64,
    normal: u32,
    extra: u32,
}

const HEADER: usize = size_of::<Header>();

/// Collects entries and gives them back in order. Plain memory in the current memory context, no destructor.
pub struct LongSorter {
    memory: *mut u8,
    size: usize,
    /// The most there may be of it.
    most: usize,
    /// Bytes of records, at the front.
    used: usize,
    /// Items, at the back.
    count: usize,
    files: Files,
    runs: List<Reader>,
    total: u64,
}

/// A sorted file being read, and its next record.
#[derive(Clone, Copy)]
struct Reader {
    file: *mut pg_sys::BufFile,
    /// Bytes of the file that are not read yet.
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
unsafe fn entry<'r>(record: *const u8) -> Entry<'r, Long> {
    // SAFETY: a whole record, by the caller's contract.
    unsafe {
        let header = record.cast::<Header>().read_unaligned();
        let normal = core::slice::from_raw_parts(record.add(HEADER), header.normal as usize);
        let extra = core::slice::from_raw_parts(record.add(HEADER + normal.len()), header.extra as usize);
        Entry { key: Stored::whole(normal, extra), tail: Tail::from_raw(header.tail), child: NO_BLOCK }
    }
}

unsafe fn compare(a: *const u8, b: *const u8, order: Option<LongOrder<'_>>) -> Ordering {
    // SAFETY: by the caller's contract.
    unsafe {
        let (a, b) = (entry(a), entry(b));
        let normal = a.key.prefix.cmp(b.key.prefix);
        match order {
            _ if normal.is_ne() => normal,
            None => a.tail.cmp(&b.tail),
            Some(_) => {
                let key: LongKey<'_> = Long::key_of(&a, order);
                key.compare(&b.key, b.tail)
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

/// Has the first lines of a record fetched.
fn foresee(memory: *const u8, at: usize) {
    prefetch(memory.wrapping_add(at));
    prefetch(memory.wrapping_add(at + LINE));
}

/// The records in memory, as sorting sees them.
struct Memory<'o> {
    records: *const u8,
    order: Option<LongOrder<'o>>,
    since_check: u32,
}

impl Records for Memory<'_> {
    /// Marker bits take the place of some in the first word, so the second one begins with a byte of that.
    fn word(&mut self, at: usize, number: usize) -> Option<u64> {
        // SAFETY: items lead to whole records.
        let normal = unsafe { entry(self.records.add(at)) }.key.prefix;
        let from = HEAD * (number + 1);
        (from < normal.len()).then(|| word(normal, from))
    }

    fn compare(&mut self, a: usize, b: usize) -> Ordering {
        self.since_check += 1;
        if self.since_check == COMPARISONS {
            self.check();
        }
        // SAFETY: items lead to whole records.
        unsafe { compare(self.records.add(a), self.records.add(b), self.order) }
    }

    fn foresee(&self, at: usize) {
        foresee(self.records, at);
    }

    fn check(&mut self) {
        self.since_check = 0;
        server::check_for_interrupts();
    }
}

impl LongSorter {
    /// A sorter that keeps to `memory` bytes, which it takes as entries come.
    ///
    /// # Safety
    /// The current memory context outlives the sorter. May raise.
    pub unsafe fn new(memory: usize, files: Files) -> LongSorter {
        let most = memory.max(64 * MOST_PARTS).next_multiple_of(size_of::<Item>());
        let size = AT_FIRST.min(most);
        // SAFETY: all-zero bytes are readers; of the rest only written bytes are read.
        unsafe {
            let memory = allocate(pg_sys::CurrentMemoryContext, size, false);
            LongSorter { memory, size, most, used: 0, count: 0, files, runs: List::new(), total: 0 }
        }
    }

    /// Entries added.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Adds an entry that is in one piece.
    ///
    /// # Safety
    /// The constructor's memory context is current. May raise.
    pub unsafe fn add(&mut self, entry: &Entry<'_, Long>, order: Option<LongOrder<'_>>) {
        let (normal, extra) = (entry.key.prefix, entry.key.extra);
        let length = HEADER + normal.len() + extra.len();
        // SAFETY: between the records and the items there is room for both.
        unsafe {
            while self.used + length + (self.count + 1) * size_of::<Item>() > self.size {
                if self.size < self.most { self.grow() } else { self.spill(order) }
            }
            let record = self.memory.add(self.used);
            let header = Header { tail: entry.tail.raw(), normal: normal.len() as u32, extra: extra.len() as u32 };
            record.cast::<Header>().write_unaligned(header);
            record.add(HEADER).copy_from_nonoverlapping(normal.as_ptr(), normal.len());
            record.add(HEADER + normal.len()).copy_from_nonoverlapping(extra.as_ptr(), extra.len());
            // Every normal part begins with a marker that most share.
            let word = word(normal, 1) >> MARKER_BITS | marker_bits(normal);
            self.count += 1;
            self.items().write(Item { word, at: self.used });
        }
        self.used += length;
        self.total += 1;
    }

    /// Takes twice as much memory, or as much as there may be.
    unsafe fn grow(&mut self) {
        let size = (2 * self.size).min(self.most);
        // SAFETY: as the constructor; records stay where they are from the front, and items from the back.
        unsafe {
            let memory = allocate::<u8>(pg_sys::CurrentMemoryContext, size, false);
            memory.copy_from_nonoverlapping(self.memory, self.used);
            let items = memory.add(size).cast::<Item>().sub(self.count);
            items.copy_from_nonoverlapping(self.items(), self.count);
            crate::memory::free(core::mem::replace(&mut self.memory, memory));
        }
        self.size = size;
    }

    /// The first item: the one added last, until they are sorted.
    fn items(&self) -> *mut Item {
        // SAFETY: the items are at the end of the memory, aligned as that is.
        unsafe { self.memory.add(self.size).cast::<Item>().sub(self.count) }
    }

    unsafe fn sort(&mut self, order: Option<LongOrder<'_>>) {
        let mut records = Memory { records: self.memory, order, since_check: 0 };
        // SAFETY: initialised items. What jumps away leaves them to the memory context.
        let items = unsafe { core::slice::from_raw_parts_mut(self.items(), self.count) };
        strings::sort(items, &mut records);
    }

    /// The records in the items' order, which are fetched before they are come to.
    fn in_order(&self) -> impl Iterator<Item = *const u8> {
        // SAFETY: initialised items.
        let items = unsafe { core::slice::from_raw_parts(self.items(), self.count) };
        let memory = self.memory.cast_const();
        items.iter().enumerate().map(move |(number, item)| {
            if let Some(ahead) = items.get(number + FORESEEN) {
                foresee(memory, ahead.at);
            }
            memory.wrapping_add(item.at)
        })
    }

    /// Writes all that is in memory to a file, in order.
    unsafe fn spill(&mut self, order: Option<LongOrder<'_>>) {
        // SAFETY: as `add`; the file is the resource owner's.
        unsafe {
            self.sort(order);
            let file = self.files.create(self.runs.len());
            for record in self.in_order() {
                let header = record.cast::<Header>().read_unaligned();
                raw::BufFileWrite(file, record.cast(), HEADER + (header.normal + header.extra) as usize);
                server::check_for_interrupts();
            }
            self.runs.push(Reader::new(self.files.finish(file), self.used));
            (self.used, self.count) = (0, 0);
        }
    }

    /// Leaves all entries to the leader of a parallel build. Returns in how many runs.
    ///
    /// # Safety
    /// The constructor's memory context is current. May raise.
    pub unsafe fn leave(&mut self, order: Option<LongOrder<'_>>) -> usize {
        // SAFETY: as the constructor; the memory is not used any more.
        unsafe {
            if self.count > 0 {
                self.spill(order);
            }
            crate::memory::free(self.memory);
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
                self.runs.push(Reader::new(file, size));
            }
        }
    }

    /// Calls `each` with every entry in order.
    ///
    /// # Safety
    /// The constructor's memory context is current. May raise.
    pub unsafe fn drain(&mut self, order: Option<LongOrder<'_>>, each: &mut dyn FnMut(&Entry<'_, Long>)) {
        // SAFETY: as the constructor.
        unsafe {
            if self.runs.is_empty() {
                self.sort(order);
                for (number, record) in self.in_order().enumerate() {
                    each(&entry(record));
                    if number % (1 << 12) == 0 {
                        server::check_for_interrupts();
                    }
                }
            } else {
                self.leave(order);
                self.merge(order, each);
            }
        }
    }

    /// Merges the files by a heap of their next records.
    unsafe fn merge(&mut self, order: Option<LongOrder<'_>>, each: &mut dyn FnMut(&Entry<'_, Long>)) {
        // SAFETY: as `drain`.
        unsafe {
            let ahead = (self.most / self.runs.len()).clamp(LEAST_AHEAD, MOST_AHEAD);
            let heap = zeroed_array::<usize>(self.runs.len());
            let mut live = 0;
            for (number, reader) in self.runs.iter_mut().enumerate() {
                if reader.begin(ahead) {
                    heap[live] = number;
                    live += 1;
                }
            }
            for at in (0..live / 2).rev() {
                self.sink(&mut heap[..live], at, order);
            }
            let mut since_check = 0u32;
            while live > 0 {
                let first = heap[0];
                each(&entry(self.runs[first].record));
                if !self.runs[first].advance() {
                    live -= 1;
                    heap[0] = heap[live];
                }
                self.sink(&mut heap[..live], 0, order);
                since_check = since_check.wrapping_add(1);
                if since_check.is_multiple_of(1 << 12) {
                    server::check_for_interrupts();
                }
            }
            for reader in &*self.runs {
                raw::BufFileClose(reader.file);
            }
        }
    }

    unsafe fn sink(&self, heap: &mut [usize], mut at: usize, order: Option<LongOrder<'_>>) {
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

/// Bits of a marker in an item's head: markers are 0, 1 and 2.
const MARKER_BITS: u32 = 2;

fn marker_bits(normal: &[u8]) -> u64 {
    u64::from(normal.first().copied().unwrap_or(0) & 3) << (64 - MARKER_BITS)
}

impl Reader {
    fn new(file: *mut pg_sys::BufFile, unread: usize) -> Reader {
        let nothing = core::ptr::null_mut();
        Reader { file, unread, buffer: nothing, room: 0, at: 0, end: 0, record: nothing }
    }

    /// Goes to the first record, reading so many bytes at a time; `false` if there is none.
    unsafe fn begin(&mut self, ahead: usize) -> bool {
        self.room = ahead;
        // SAFETY: new memory; the file is open.
        unsafe {
            self.buffer = zeroed_array::<u8>(ahead).as_mut_ptr();
            self.record = zeroed_array::<u8>(HEADER + 2 * MOST_PARTS).as_mut_ptr();
            self.advance()
        }
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
            self.take(HEADER, (header.normal + header.extra) as usize);
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
                    if piece == 0 || raw::BufFileRead(self.file, self.buffer.cast(), piece) != piece {
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
