//! Nodes of several cache lines, and the memory that they are in (thesis §3.6, §4.4.2).
//!
//! Leaves and non-leaf nodes are laid out alike: a header, then all keys, then all pointers, which are tuple ids in a
//! leaf and the numbers of children elsewhere. A child's keys are not greater than the key that goes with it, and
//! greater than the one before. The last child's key means nothing: what is greater than all others is there.

use super::jump::Jump;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

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
    /// Most entries of a node. So many words behind the first key is the first pointer.
    pub capacity: usize,
}

impl Layout {
    /// The layout of nodes of `width` lines.
    pub const fn new(width: usize, header: usize) -> Self {
        Layout { header, capacity: (width * LINE_WORDS - header) / 2 }
    }

    /// The line that a key is in.
    pub fn key_line(self, at: usize) -> usize {
        (self.header + at) / LINE_WORDS
    }

    /// The line that a pointer is in.
    pub fn pointer_line(self, at: usize) -> usize {
        self.key_line(self.capacity + at)
    }
}

/// A node of `W` lines, in a tree with the jump-pointer array `J`.
pub struct Node<J, const W: usize> {
    lines: Lines<W>,
    jump: PhantomData<J>,
}

impl<J: Jump, const W: usize> Node<J, W> {
    /// Where the entries are.
    pub const LAYOUT: Layout = Layout::new(W, J::HEADER);
    const KEYS: usize = Self::LAYOUT.header;
    const POINTERS: usize = Self::LAYOUT.header + Self::LAYOUT.capacity;

    /// A node with these entries, and none next to it.
    pub fn new(entries: &[(u32, u32)]) -> Self {
        let mut node = Node { lines: Lines::filled(0), jump: PhantomData };
        node.set_next(NO_NODE);
        let words = node.lines.words_mut();
        words[COUNT] = entries.len() as u32;
        for (at, &(key, pointer)) in entries.iter().enumerate() {
            (words[Self::KEYS + at], words[Self::POINTERS + at]) = (key, pointer);
        }
        node
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
    pub fn keys(&self) -> &[u32] {
        &self.lines.words()[Self::KEYS..][..self.count()]
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
    pub fn insert(&mut self, at: usize, (key, pointer): (u32, u32)) {
        let count = self.count();
        let words = self.lines.words_mut();
        for (base, value) in [(Self::KEYS, key), (Self::POINTERS, pointer)] {
            words.copy_within(base + at..base + count, base + at + 1);
            words[base + at] = value;
        }
        words[COUNT] += 1;
    }

    /// Removes an entry. Returns its pointer.
    pub fn remove(&mut self, at: usize) -> u32 {
        let (count, pointer) = (self.count(), self.pointers()[at]);
        let words = self.lines.words_mut();
        for base in [Self::KEYS, Self::POINTERS] {
            words.copy_within(base + at + 1..base + count, base + at);
        }
        words[COUNT] -= 1;
        pointer
    }

    /// Takes away the entries from `from` on. Returns a node of them, which is to be the next.
    pub fn split(&mut self, from: usize) -> Self {
        let (keys, pointers) = (&self.keys()[from..], &self.pointers()[from..]);
        let mut right = Node { lines: Lines::filled(0), jump: PhantomData };
        let words = right.lines.words_mut();
        words[COUNT] = keys.len() as u32;
        words[NEXT] = self.next();
        words[Self::KEYS..][..keys.len()].copy_from_slice(keys);
        words[Self::POINTERS..][..keys.len()].copy_from_slice(pointers);
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
pub type Nodes<J, const W: usize> = Arena<Node<J, W>>;

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
