//! A KISS-tree (Kissinger, Schlegel, Habich, Lehner, DaMoN 2012): a concurrent ordered map from `u32` to `u64`.
//!
//! A key's top 16, next 10 and last 6 bits choose its place on three levels, so a lookup is three dependent reads:
//!
//! ```text
//!  first level    2^16 entries of 32 bits, always there    [page of the second-level node | its slots in use]
//!  second level   nodes of 2^10 slots of 32 bits, 4 KB     compact pointers: where in the region, in words
//!  third level    nodes of 8 + 8n bytes                    [bitmap of 64 | the n values there are, in key order]
//! ```
//!
//! The paper's first level is virtual: 256 MB of address space for all second-level nodes, filled in by the kernel on
//! first touch. Memory shared by processes is taken from a budget at once, and nothing tells the kernel to take a part
//! back; so here the first level is a table of 256 KB, which stays in a processor's second-level cache, and
//! second-level nodes come from the same pages as everything else and go back when their last slot empties. Compact
//! pointers carry no node size: the bitmap tells it.
//!
//! **Writers** copy: a change makes a new third-level node and swaps it in, comparing (§4.1). An empty slot is filled
//! only by who counted it in the first level's entry before, and counted out after it was emptied: whoever counts to
//! zero takes the second-level node away, and nothing can be put into it any more. Memory is handed out under a spin
//! lock that readers never meet.
//!
//! **Readers** are lock-free. They announce the epoch before they read ([`Participant`]); memory that one of them may
//! still look at is not used for another node. A retired node is linked through its own bitmap, so after reading a
//! value the slot is compared again: it still has the same pointer, or the read is repeated. A pointer cannot leave its
//! slot and come back under a reader's eyes, since its memory is not handed out again that soon.
//!
//! The tree lives in a slice of words ([`Word`]) and holds no address: processes map it where they like ([`words_at`]).
//! Whatever its bytes are, no access leaves the slice, no loop is endless and nothing panics; from damaged memory come
//! wrong answers, nothing worse. A process that dies while reading holds memory back until its slot is
//! [released](KissTree::release); one that dies while writing may lose what it was about to change, and the spin lock
//! with it: then nothing more can be stored until the tree is [created](KissTree::create) again.

mod epoch;
mod region;
mod slab;

use core::fmt;
use core::sync::atomic::AtomicU64;
use region::{Layout, PAGE, Region, header};

use fpbtree_engine::cache::word::Word;
use slab::{MAX_VALUES, Purpose};

/// Most participants of a tree: an entry counts a slot for each of them beyond those in use.
pub const MAX_PARTICIPANTS: usize = 7000;

/// Keys looked up side by side: enough to overlap their cache misses, few enough for the first-level cache.
const BATCH: usize = 64;

/// How often a change waits for a grace period before it finds the tree full: others may be faster to use what it
/// freed.
const COLLECTIONS: usize = 64;

/// Bits of a first-level entry that count.
const COUNT_BITS: u32 = 13;

/// Why a region cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// Less than the first level, a cache line for each participant and four pages of 4 KB.
    TooSmall,
    /// None, or more than [`MAX_PARTICIPANTS`].
    Participants,
    /// No tree was created here, or with another size or version.
    NotATree,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Error::TooSmall => "too little memory for a KISS-tree",
            Error::Participants => "a KISS-tree has from 1 to 7000 participants",
            Error::NotATree => "no KISS-tree of this size and version",
        })
    }
}

impl core::error::Error for Error {}

/// There is no memory for the change; nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the KISS-tree is full")
    }
}

impl core::error::Error for Full {}

/// What a tree is made of, as [`KissTree::verify`] counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Keys with a value.
    pub keys: usize,
    /// Second-level nodes.
    pub second_level: usize,
    /// Third-level nodes.
    pub third_level: usize,
    /// Nodes whose grace period is not over.
    pub retired: usize,
    /// Pages of 4 KB in use.
    pub pages: usize,
}

/// A tree in borrowed memory. Any number of these, in any number of processes, may stand for the same tree.
pub struct KissTree<'a, W = AtomicU64> {
    region: Region<'a, W>,
}

impl<'a, W: Word> KissTree<'a, W> {
    /// Makes an empty tree of `words`, whatever they held, for at most `participants` at a time. No one may be using
    /// them. At most the first 2 GB of pages are used.
    ///
    /// # Errors
    /// [`Error::TooSmall`] and [`Error::Participants`].
    pub fn create(words: &'a [W], participants: usize) -> Result<Self, Error> {
        let region = Region::new(words, Self::layout(words, participants)?);
        for index in region.layout.fixed() {
            region.at(index).store(0);
        }
        region.at(header::WORDS).store(words.len() as u64);
        region.at(header::PARTICIPANTS).store(participants as u64);
        region.at(header::EPOCH).store(epoch::FIRST);
        region.at(header::MAGIC).store(region::MAGIC);
        Ok(KissTree { region })
    }

    /// The tree that was made of `words`, here or in another process.
    ///
    /// # Errors
    /// [`Error::NotATree`], and what [`create`](Self::create) says.
    pub fn attach(words: &'a [W]) -> Result<Self, Error> {
        let is = |index: usize, value: u64| words.get(index).is_some_and(|word| word.load() == value);
        if !is(header::MAGIC, region::MAGIC) || !is(header::WORDS, words.len() as u64) {
            return Err(Error::NotATree);
        }
        let participants = words.get(header::PARTICIPANTS).map_or(0, Word::load);
        let layout = Self::layout(words, usize::try_from(participants).unwrap_or(usize::MAX))?;
        Ok(KissTree { region: Region::new(words, layout) })
    }

    fn layout(words: &[W], participants: usize) -> Result<Layout, Error> {
        if !(1..=MAX_PARTICIPANTS).contains(&participants) {
            return Err(Error::Participants);
        }
        Layout::new(words.len(), participants).ok_or(Error::TooSmall)
    }

    /// Takes a slot, for one thread or process; `None` if it is taken or there is none.
    pub fn join(&self, slot: usize) -> Option<Participant<'a, W>> {
        self.region.claim(slot).then(|| Participant { region: self.region, slot })
    }

    /// Vacates the slot of a participant that died, whatever it was doing: what it read no longer holds memory back. If
    /// it lives, it may read wrong values from now on.
    pub fn release(&self, slot: usize) {
        self.region.vacate(slot);
    }

    /// Ends a grace period, unless someone is reading, and makes what is past it usable again; whether there was any.
    /// Changes do this by themselves.
    pub fn collect(&self) -> bool {
        self.region.collect()
    }

    /// Bytes of the budget in use: the fixed part, and whole pages.
    pub fn bytes_in_use(&self) -> usize {
        self.region.layout.page(0) * size_of::<u64>() + self.region.bytes_in_use()
    }

    /// Bytes that [`bytes_in_use`](Self::bytes_in_use) can grow to.
    pub fn capacity(&self) -> usize {
        self.region.layout.page(self.region.layout.pages) * size_of::<u64>()
    }

    /// Walks the whole tree and compares it with what its memory management counts. No one may be writing.
    ///
    /// # Errors
    /// What does not fit.
    pub fn verify(&self) -> Result<Summary, &'static str> {
        let mut found = Summary::default();
        for top in 0..1 << 16 {
            let entry = Entry(self.region.half(self.region.layout.entry(top)));
            let Some(page) = entry.page() else { continue };
            found.second_level += 1;
            let slots = 2 * self.region.layout.page(page)..2 * self.region.layout.page(page + 1);
            let nodes = slots.map(|slot| self.region.half(slot)).filter(|pointer| *pointer != 0);
            let mut slots_in_use = 0;
            for pointer in nodes {
                slots_in_use += 1;
                found.keys += Node::read(&self.region, pointer).len();
            }
            if slots_in_use != entry.count() as usize {
                return Err("a first-level entry counts wrong");
            }
            found.third_level += slots_in_use;
        }
        let census = self.region.census().ok_or("the memory management is locked")?;
        if census.second_level + census.third_level != found.second_level + found.third_level + census.retired {
            return Err("nodes were lost or are used twice");
        }
        if census.pages * PAGE * size_of::<u64>() != self.region.bytes_in_use() {
            return Err("pages were lost or are used twice");
        }
        Ok(Summary { retired: census.retired, pages: census.pages, ..found })
    }
}

/// A first-level entry: a second-level node's page and how many of its slots are in use or about to be. Zero slots, no
/// node.
#[derive(Clone, Copy)]
struct Entry(u32);

impl Entry {
    fn new(page: usize, count: u32) -> Entry {
        Entry(if count == 0 { 0 } else { (page as u32) << COUNT_BITS | count })
    }

    fn count(self) -> u32 {
        self.0 & ((1 << COUNT_BITS) - 1)
    }

    fn page(self) -> Option<usize> {
        (self.count() != 0).then_some((self.0 >> COUNT_BITS) as usize)
    }
}

/// Where the first level says what a key's second-level node is, in half words.
fn entry_of<W: Word>(region: &Region<'_, W>, key: u32) -> usize {
    region.layout.entry((key >> 16) as usize)
}

/// A key's slot in the second-level node in `page`, in half words.
fn slot_in<W: Word>(region: &Region<'_, W>, page: usize, key: u32) -> usize {
    2 * region.layout.page(page) + (key >> 6) as usize % (2 * PAGE)
}

/// A key's slot, or one that is always empty.
fn slot_of<W: Word>(region: &Region<'_, W>, key: u32) -> usize {
    match Entry(region.half(entry_of(region, key))).page() {
        Some(page) => slot_in(region, page, key),
        None => 2 * header::ZERO,
    }
}

/// A key's bit in the bitmap of its third-level node.
fn bit_of(key: u32) -> u64 {
    1 << (key % MAX_VALUES as u32)
}

/// Where the value for `bit` is in the node at `pointer`, or a word that is always zero, and whether it is there.
fn place_of<W: Word>(region: &Region<'_, W>, pointer: u32, bit: u64) -> (usize, bool) {
    let node = if pointer == 0 { header::ZERO } else { pointer as usize };
    let bitmap = region.at(node).load();
    (node + 1 + (bitmap & (bit - 1)).count_ones() as usize, bitmap & bit != 0)
}

/// A private copy of a third-level node.
struct Node {
    bitmap: u64,
    values: [u64; MAX_VALUES],
}

impl Node {
    const EMPTY: Node = Node { bitmap: 0, values: [0; MAX_VALUES] };

    /// The copy is whole only if the slot still holds `pointer` afterwards. No pointer, no values.
    fn read<W: Word>(region: &Region<'_, W>, pointer: u32) -> Node {
        let mut node = Node::EMPTY;
        if pointer != 0 {
            node.bitmap = region.at(pointer as usize).load();
            for place in 0..node.len() {
                node.values[place] = region.at(pointer as usize + 1 + place).load();
            }
        }
        node
    }

    fn write<W: Word>(&self, region: &Region<'_, W>, pointer: u32) {
        region.at(pointer as usize).store(self.bitmap);
        for (place, value) in self.values[..self.len()].iter().enumerate() {
            region.at(pointer as usize + 1 + place).store(*value);
        }
    }

    fn len(&self) -> usize {
        self.bitmap.count_ones() as usize
    }

    fn rank(&self, bit: u64) -> usize {
        (self.bitmap & (bit - 1)).count_ones() as usize
    }

    fn get(&self, bit: u64) -> Option<u64> {
        (self.bitmap & bit != 0).then(|| self.values[self.rank(bit)])
    }

    fn set(&mut self, bit: u64, value: Option<u64>) {
        let (rank, len) = (self.rank(bit), self.len());
        match (self.bitmap & bit != 0, value) {
            (true, None) => {
                self.values.copy_within(rank + 1..len, rank);
                self.bitmap &= !bit;
            }
            (true, Some(value)) => self.values[rank] = value,
            (false, Some(value)) => {
                self.values.copy_within(rank..len, rank + 1);
                self.values[rank] = value;
                self.bitmap |= bit;
            }
            (false, None) => {}
        }
    }
}

/// How one attempt to change a key's value ended.
enum Attempt {
    /// Done; this was the value before.
    Done(Option<u64>),
    /// Another writer was faster.
    Again,
    /// There was no memory.
    NoMemory,
}

/// One who reads and writes the tree: the owner of a slot, which is vacated when this is dropped.
pub struct Participant<'a, W: Word = AtomicU64> {
    region: Region<'a, W>,
    slot: usize,
}

impl<W: Word> Drop for Participant<'_, W> {
    fn drop(&mut self) {
        self.region.vacate(self.slot);
    }
}

impl<'a, W: Word> Participant<'a, W> {
    /// Begins to read. One announcement, which costs about as much as a lookup in cache, serves every read until the
    /// [`Reading`] is dropped; meanwhile nothing that anyone retires is used again.
    #[inline]
    pub fn read(&mut self) -> Reading<'_, 'a, W> {
        self.region.announce(self.slot);
        Reading { participant: self }
    }

    /// The value of `key`.
    #[inline]
    pub fn get(&mut self, key: u32) -> Option<u64> {
        self.read().get(key)
    }

    /// Looks up each of `keys`; see [`Reading::get_many`]. Announces anew from time to time.
    pub fn get_many(&mut self, keys: &[u32], values: &mut [Option<u64>]) {
        const KEYS: usize = 16 * BATCH;
        for (keys, values) in keys.chunks(KEYS).zip(values.chunks_mut(KEYS)) {
            self.read().get_many(keys, values);
        }
    }

    /// Ends a grace period; see [`KissTree::collect`].
    pub fn collect(&mut self) -> bool {
        self.region.collect()
    }

    /// The keys from `from` on and their values, in key order. Every key that is there throughout is found; those that
    /// come or go meanwhile may be.
    pub fn iter(&mut self, from: u32) -> Iter<'_, 'a, W> {
        Iter { participant: self, next: u64::from(from), base: 0, node: Node::EMPTY, left: 0 }
    }

    /// Gives `key` the value `value`, and returns the one it had.
    ///
    /// # Errors
    /// [`Full`].
    pub fn insert(&mut self, key: u32, value: u64) -> Result<Option<u64>, Full> {
        self.alter(key, |_| Some(value))
    }

    /// Takes `key` away, and returns the value it had.
    ///
    /// # Errors
    /// [`Full`], hardly ever: the other keys of the node need a smaller one. A few pages are kept for this, but readers
    /// that do not stop can hold them back. [`evict`](Self::evict) needs no memory.
    pub fn remove(&mut self, key: u32) -> Result<Option<u64>, Full> {
        self.alter(key, |_| None)
    }

    /// Takes `key` away if its value is `value`; whether it was.
    ///
    /// # Errors
    /// As [`remove`](Self::remove).
    pub fn compare_remove(&mut self, key: u32, value: u64) -> Result<bool, Full> {
        Ok(self.alter(key, |old| old.filter(|old| *old != value))? == Some(value))
    }

    /// Gives `key` the value that `decide` makes of the one it has, or none, in one step; returns the one it had.
    /// `decide` is asked again whenever another writer was faster.
    ///
    /// # Errors
    /// [`Full`].
    pub fn alter(&mut self, key: u32, decide: impl Fn(Option<u64>) -> Option<u64>) -> Result<Option<u64>, Full> {
        let mut collections = 0..COLLECTIONS;
        loop {
            let attempt = self.read().attempt(key, &decide);
            match attempt {
                Attempt::Done(old) => return Ok(old),
                Attempt::Again => {}
                Attempt::NoMemory if collections.next().is_some() && self.region.collect() => {}
                Attempt::NoMemory => return Err(Full),
            }
        }
    }

    /// Takes away all keys that share a third-level node with `key`: those that differ in the last six bits. Returns
    /// how many there were. Needs no memory and gives some back, once a grace period is over.
    pub fn evict(&mut self, key: u32) -> usize {
        self.read().evict(key)
    }

    /// Takes away every key. What others insert meanwhile may stay.
    pub fn clear(&mut self) {
        for top in 0..1 << 16 {
            if Entry(self.region.half(entry_of(&self.region, top << 16))).page().is_some() {
                let reading = self.read();
                (0..2 * PAGE as u32).for_each(|slot| _ = reading.evict(top << 16 | slot << 6));
            }
        }
        self.region.collect();
    }
}

/// A participant that reads: nothing it can reach is used for something else until this is dropped.
pub struct Reading<'p, 'a, W: Word = AtomicU64> {
    participant: &'p mut Participant<'a, W>,
}

impl<W: Word> Drop for Reading<'_, '_, W> {
    #[inline]
    fn drop(&mut self) {
        self.participant.region.retract(self.participant.slot);
    }
}

impl<'a, W: Word> Reading<'_, 'a, W> {
    #[inline]
    fn region(&self) -> &Region<'a, W> {
        &self.participant.region
    }

    /// The value of `key` (§4.2).
    #[inline]
    pub fn get(&self, key: u32) -> Option<u64> {
        let region = self.region();
        loop {
            let slot = slot_of(region, key);
            let pointer = region.half(slot);
            let (place, there) = place_of(region, pointer, bit_of(key));
            let value = there.then(|| region.at(place).load());
            if region.half(slot) == pointer {
                return value;
            }
        }
    }

    /// Looks up each of `keys` and puts its value at the same place of `values`; ends with the shorter of the two. Many
    /// keys' nodes are brought into the cache together, level by level (§4.3).
    pub fn get_many(&self, keys: &[u32], values: &mut [Option<u64>]) {
        for (keys, values) in keys.chunks(BATCH).zip(values.chunks_mut(BATCH)) {
            self.get_batch(keys, values);
        }
    }

    fn get_batch(&self, keys: &[u32], values: &mut [Option<u64>]) {
        let region = self.region();
        let mut slots = [0; BATCH];
        let mut pointers = [0; BATCH];
        let mut places = [(0, false); BATCH];
        for (slot, key) in slots.iter_mut().zip(keys) {
            *slot = slot_of(region, *key);
            region.prefetch(*slot / 2);
        }
        for (pointer, slot) in pointers.iter_mut().zip(&slots[..keys.len()]) {
            *pointer = region.half(*slot);
            region.prefetch(*pointer as usize);
        }
        for ((place, pointer), key) in places.iter_mut().zip(pointers).zip(keys) {
            *place = place_of(region, pointer, bit_of(*key));
            region.prefetch(place.0);
        }
        for (i, (value, key)) in values.iter_mut().zip(keys).enumerate() {
            let (place, there) = places[i];
            let read = there.then(|| region.at(place).load());
            *value = if region.half(slots[i]) == pointers[i] { read } else { self.get(*key) };
        }
    }

    /// The keys from `from` on that share a third-level node, the first such that are: their first possible key and the
    /// node.
    fn group_from(&self, from: u32) -> Option<(u32, Node)> {
        let region = self.region();
        let mut base = u64::from(from & !(MAX_VALUES as u32 - 1));
        while let Ok(key) = u32::try_from(base) {
            let slot = slot_of(region, key);
            let pointer = region.half(slot);
            if pointer == 0 {
                let step = if slot == 2 * header::ZERO { 1 << 16 } else { MAX_VALUES as u64 };
                base = (base / step + 1) * step;
                continue;
            }
            let node = Node::read(region, pointer);
            if region.half(slot) == pointer {
                return Some((key, node));
            }
        }
        None
    }

    /// One attempt to give `key` the value that `decide` says (§4.1).
    fn attempt(&self, key: u32, decide: &impl Fn(Option<u64>) -> Option<u64>) -> Attempt {
        let region = self.region();
        let Some(page) = Entry(region.half(entry_of(region, key))).page() else {
            return decide(None).map_or(Attempt::Done(None), |value| self.grow(key, value));
        };
        let slot = slot_in(region, page, key);
        let pointer = region.half(slot);
        let mut node = Node::read(region, pointer);
        if region.half(slot) != pointer {
            return Attempt::Again;
        }
        let old = node.get(bit_of(key));
        let new = decide(old);
        if new == old {
            return Attempt::Done(old);
        }
        node.set(bit_of(key), new);
        let purpose = if new.is_none() { Purpose::Removal } else { Purpose::Growth };
        let Some(replacement) = self.store(&node, purpose) else { return Attempt::NoMemory };
        if self.swap(key, page, pointer, replacement) {
            return Attempt::Done(old);
        }
        if replacement != 0 {
            region.free(replacement);
        }
        Attempt::Again
    }

    /// A new node in the tree's memory, not yet reachable; 0 for one without values.
    fn store(&self, node: &Node, purpose: Purpose) -> Option<u32> {
        if node.len() == 0 {
            return Some(0);
        }
        let pointer = self.region().allocate(node.len(), purpose)?;
        node.write(self.region(), pointer);
        Some(pointer)
    }

    /// Adds a second-level node with its first key.
    fn grow(&self, key: u32, value: u64) -> Attempt {
        let region = self.region();
        let mut node = Node::EMPTY;
        node.set(bit_of(key), Some(value));
        let Some(pointer) = self.store(&node, Purpose::Growth) else { return Attempt::NoMemory };
        let Some(page) = region.allocate_second_level() else {
            region.free(pointer);
            return Attempt::NoMemory;
        };
        region.swap_half(slot_in(region, page, key), 0, pointer);
        if region.swap_half(entry_of(region, key), 0, Entry::new(page, 1).0) {
            return Attempt::Done(None);
        }
        region.free(pointer);
        region.free(region.layout.page(page) as u32);
        Attempt::Again
    }

    /// Replaces the node of a key by another, and retires it; either may be 0. False if another writer was faster.
    fn swap(&self, key: u32, page: usize, old: u32, new: u32) -> bool {
        let region = self.region();
        if old == 0 && !self.count(key, page, 1) {
            return false;
        }
        let swapped = region.swap_half(slot_in(region, page, key), old, new);
        if swapped && old != 0 {
            region.retire(old);
        }
        if if swapped { new == 0 } else { old == 0 } {
            self.count(key, page, -1);
        }
        swapped
    }

    /// Counts a slot of a second-level node in or out. False if the node is no longer there. A node without slots in
    /// use is retired.
    fn count(&self, key: u32, page: usize, change: i32) -> bool {
        let region = self.region();
        let index = entry_of(region, key);
        loop {
            let entry = Entry(region.half(index));
            if entry.page() != Some(page) {
                return false;
            }
            let new = Entry::new(page, entry.count().wrapping_add_signed(change));
            if region.swap_half(index, entry.0, new.0) {
                if new.0 == 0 {
                    region.retire(region.layout.page(page) as u32);
                }
                return true;
            }
        }
    }

    fn evict(&self, key: u32) -> usize {
        let region = self.region();
        loop {
            let Some(page) = Entry(region.half(entry_of(region, key))).page() else { return 0 };
            let pointer = region.half(slot_in(region, page, key));
            if pointer == 0 {
                return 0;
            }
            let keys = region.at(pointer as usize).load().count_ones() as usize;
            if self.swap(key, page, pointer, 0) {
                return keys;
            }
        }
    }
}

/// Keys and values in key order. Nothing is announced between two nodes: a pause here holds no memory back.
pub struct Iter<'p, 'a, W: Word = AtomicU64> {
    participant: &'p mut Participant<'a, W>,
    /// Where to look for the next node; beyond the last key when there is none.
    next: u64,
    /// The first possible key of the node at hand.
    base: u32,
    node: Node,
    /// The node's keys that are still to be returned.
    left: u64,
}

impl<W: Word> Iter<'_, '_, W> {
    /// Reads the next node that has a key from `next` on.
    fn refill(&mut self) -> Option<()> {
        while self.left == 0 {
            let from = u32::try_from(self.next).ok()?;
            self.next = u64::MAX;
            (self.base, self.node) = self.participant.read().group_from(from)?;
            self.next = u64::from(self.base) + MAX_VALUES as u64;
            self.left = self.node.bitmap & (u64::MAX << from.saturating_sub(self.base));
        }
        Some(())
    }
}

impl<W: Word> Iterator for Iter<'_, '_, W> {
    type Item = (u32, u64);

    fn next(&mut self) -> Option<(u32, u64)> {
        self.refill()?;
        let bit = self.left & self.left.wrapping_neg();
        self.left ^= bit;
        Some((self.base + bit.trailing_zeros(), self.node.get(bit)?))
    }
}
