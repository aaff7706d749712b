//! Nodes of several cache lines, and the memory that they are in (thesis §3.6, §4.4.2).
//!
//! Leaves and non-leaf nodes are laid out alike: a header, then all keys, then all pointers, which are tuple ids in a
//! leaf and the numbers of children elsewhere. A child's keys are not greater than the key that goes with it, and
//! greater than the one before. The last child's key means nothing: what is greater than all others is there.

use super::jump::Jump;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut, RangeInclusive};
use zerocopy::IntoBytes;

/// No node.
pub const NO_NODE: u32 = u32::MAX;

/// Words of a cache line.
pub const LINE_WORDS: usize = 16;

/// A cache line: 64 bytes.
pub type Line = [u32; LINE_WORDS];

/// The word of a node that says how many entries it has.
pub const COUNT: usize = 0;
const NEXT: usize = 1;
const HINT: usize = 2;

/// Words of the header that every node has.
pub const PLAIN_HEADER: usize = 2;
/// Words of a header with a hint.
pub const HINTED_HEADER: usize = 3;

/// What a key can be: some words of a node.
pub trait Key: Copy + Ord {
    /// How many words.
    const WORDS: usize;
    /// A key, for where it means nothing.
    const ANY: Self;

    /// The keys in these words.
    fn all(words: &[u32]) -> &[Self];

    /// Puts a key into as many words as it takes.
    fn put(self, words: &mut [u32]);
}

impl Key for u32 {
    const WORDS: usize = 1;
    const ANY: u32 = 0;

    #[inline(always)]
    fn all(words: &[u32]) -> &[u32] {
        words
    }

    #[inline(always)]
    fn put(self, words: &mut [u32]) {
        words[0] = self;
    }
}

/// A string of `N` bytes, a multiple of four.
impl<const N: usize> Key for [u8; N] {
    const WORDS: usize = {
        assert!(N > 0 && N.is_multiple_of(size_of::<u32>()));
        N / size_of::<u32>()
    };
    const ANY: [u8; N] = [0; N];

    #[inline(always)]
    fn all(words: &[u32]) -> &[[u8; N]] {
        words.as_bytes().as_chunks().0
    }

    #[inline(always)]
    fn put(self, words: &mut [u32]) {
        words.as_mut_bytes().copy_from_slice(&self);
    }
}

/// `W` adjacent cache lines.
#[repr(C, align(64))]
pub struct Lines<const W: usize>([Line; W]);

impl<const W: usize> Lines<W> {
    /// Lines in which every word is `word`.
    pub fn filled(word: u32) -> Self {
        Lines([[word; LINE_WORDS]; W])
    }

    /// The lines, one by one.
    #[inline]
    pub fn each(&self) -> &[Line; W] {
        &self.0
    }

    /// All their words.
    #[inline]
    pub fn words(&self) -> &[u32] {
        self.0.as_flattened()
    }

    /// All their words, to be changed.
    #[inline]
    pub fn words_mut(&mut self) -> &mut [u32] {
        self.0.as_flattened_mut()
    }
}

/// Where in a node its entries are.
#[derive(Clone, Copy)]
pub struct Layout {
    /// Words of the header, behind which the keys begin.
    pub header: usize,
    /// Words of a key.
    pub key: usize,
    /// Most entries of a node. So many keys behind the first one is the first pointer.
    pub capacity: usize,
}

impl Layout {
    /// The layout of nodes of `width` lines.
    pub const fn new(width: usize, header: usize, key: usize) -> Self {
        let capacity = (width * LINE_WORDS - header) / (key + 1);
        assert!(capacity > 1, "nodes of two entries at least");
        Layout { header, key, capacity }
    }

    /// The lines that a key is in.
    pub fn key_lines(self, at: usize) -> RangeInclusive<usize> {
        let first = self.header + at * self.key;
        first / LINE_WORDS..=(first + self.key - 1) / LINE_WORDS
    }

    /// The line that a pointer is in.
    pub fn pointer_line(self, at: usize) -> usize {
        (self.header + self.capacity * self.key + at) / LINE_WORDS
    }
}

/// A node of `W` lines with keys `K`, in a tree with the jump-pointer array `J`.
pub struct Node<J, const W: usize, K> {
    lines: Lines<W>,
    chosen: PhantomData<(J, K)>,
}

impl<J: Jump, const W: usize, K: Key> Node<J, W, K> {
    /// Where the entries are.
    pub const LAYOUT: Layout = Layout::new(W, J::HEADER, K::WORDS);
    const KEYS: usize = Self::LAYOUT.header;
    const POINTERS: usize = Self::LAYOUT.header + Self::LAYOUT.capacity * K::WORDS;

    /// A node with these entries, and none next to it.
    pub fn new(entries: &[(K, u32)]) -> Self {
        let mut node = Node { lines: Lines::filled(0), chosen: PhantomData };
        node.set_next(NO_NODE);
        let words = node.lines.words_mut();
        words[COUNT] = entries.len() as u32;
        for (at, &(key, pointer)) in entries.iter().enumerate() {
            key.put(&mut words[Self::key(at)..][..K::WORDS]);
            words[Self::POINTERS + at] = pointer;
        }
        node
    }

    /// The first word of a key.
    const fn key(at: usize) -> usize {
        Self::KEYS + at * K::WORDS
    }

    /// Its cache lines.
    #[inline]
    pub fn lines(&self) -> &[Line; W] {
        self.lines.each()
    }

    /// How many entries there are.
    #[inline]
    pub fn count(&self) -> usize {
        self.lines.words()[COUNT] as usize
    }

    /// Whether there is no room for another entry.
    pub fn is_full(&self) -> bool {
        self.count() == Self::LAYOUT.capacity
    }

    /// The keys.
    #[inline]
    pub fn keys(&self) -> &[K] {
        K::all(&self.lines.words()[Self::KEYS..][..self.count() * K::WORDS])
    }

    /// The tuple ids or children.
    #[inline]
    pub fn pointers(&self) -> &[u32] {
        &self.lines.words()[Self::POINTERS..][..self.count()]
    }

    /// The tuple ids or children, to be changed.
    pub fn pointers_mut(&mut self) -> &mut [u32] {
        let count = self.count();
        &mut self.lines.words_mut()[Self::POINTERS..][..count]
    }

    /// The node to the right on the same level, or [`NO_NODE`].
    #[inline]
    pub fn next(&self) -> u32 {
        self.lines.words()[NEXT]
    }

    /// Changes the node to the right.
    pub fn set_next(&mut self, next: u32) {
        self.lines.words_mut()[NEXT] = next;
    }

    /// Where a leaf is in an external jump-pointer array, as far as it knows.
    pub fn hint(&self) -> u32 {
        debug_assert!(J::HEADER >= HINTED_HEADER);
        self.lines.words()[HINT]
    }

    /// Tells a leaf where it is in an external jump-pointer array.
    pub fn set_hint(&mut self, hint: u32) {
        debug_assert!(J::HEADER >= HINTED_HEADER);
        self.lines.words_mut()[HINT] = hint;
    }

    /// Adds an entry, for which there must be room, before the one at `at`.
    pub fn insert(&mut self, at: usize, (key, pointer): (K, u32)) {
        let count = self.count();
        let words = self.lines.words_mut();
        words.copy_within(Self::key(at)..Self::key(count), Self::key(at + 1));
        key.put(&mut words[Self::key(at)..][..K::WORDS]);
        words.copy_within(Self::POINTERS + at..Self::POINTERS + count, Self::POINTERS + at + 1);
        words[Self::POINTERS + at] = pointer;
        words[COUNT] += 1;
    }

    /// Removes an entry. Returns its pointer.
    pub fn remove(&mut self, at: usize) -> u32 {
        let (count, pointer) = (self.count(), self.pointers()[at]);
        let words = self.lines.words_mut();
        words.copy_within(Self::key(at + 1)..Self::key(count), Self::key(at));
        words.copy_within(Self::POINTERS + at + 1..Self::POINTERS + count, Self::POINTERS + at);
        words[COUNT] -= 1;
        pointer
    }

    /// Takes away the entries from `from` on. Returns a node of them, which is to be the next.
    pub fn split(&mut self, from: usize) -> Self {
        let (old, count) = (self.lines.words(), self.count());
        let (keys, pointers) = (&old[Self::key(from)..Self::key(count)], &self.pointers()[from..]);
        let mut right = Node { lines: Lines::filled(0), chosen: PhantomData };
        let words = right.lines.words_mut();
        words[COUNT] = pointers.len() as u32;
        words[NEXT] = self.next();
        words[Self::KEYS..][..keys.len()].copy_from_slice(keys);
        words[Self::POINTERS..][..pointers.len()].copy_from_slice(pointers);
        self.lines.words_mut()[COUNT] = from as u32;
        right
    }
}

/// One region of memory, which is doubled when it is full. What is in it has a number.
pub struct Arena<T> {
    items: Vec<T>,
    free: Vec<u32>,
}

/// The nodes of a tree.
pub type Nodes<J, const W: usize, K> = Arena<Node<J, W, K>>;

impl<T> Arena<T> {
    /// An empty one.
    pub fn new() -> Self {
        Arena { items: Vec::new(), free: Vec::new() }
    }

    /// Puts an item in. Returns its number.
    pub fn add(&mut self, item: T) -> u32 {
        match self.free.pop() {
            Some(number) => {
                self[number] = item;
                number
            }
            None => {
                self.items.push(item);
                self.items.len() as u32 - 1
            }
        }
    }

    /// Gives an item's place away.
    pub fn release(&mut self, number: u32) {
        self.free.push(number);
    }

    /// How many items there are.
    pub fn used(&self) -> usize {
        self.items.len() - self.free.len()
    }
}

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Arena::new()
    }
}

impl<T> Index<u32> for Arena<T> {
    type Output = T;

    #[inline]
    fn index(&self, number: u32) -> &T {
        &self.items[number as usize]
    }
}

impl<T> IndexMut<u32> for Arena<T> {
    #[inline]
    fn index_mut(&mut self, number: u32) -> &mut T {
        &mut self.items[number as usize]
    }
}
