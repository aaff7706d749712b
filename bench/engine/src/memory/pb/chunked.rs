//! The external jump-pointer array: the leaves' numbers once more, in a list of chunks (thesis §3.6, §6.2.1).
//!
//! Numbers are spread over a chunk, so that a new one needs few others to be shifted. A leaf has a hint: the chunk it
//! is in, and where in it it was put at first.

use super::hint::Hint;
use super::jump::Jump;
use super::node::{Arena, HINTED_HEADER, Key, LINE_WORDS, Lines, NO_NODE, Nodes};
use super::policy::{Linear, Policy};

/// No leaf in a slot, or no chunk.
const NONE: u32 = NO_NODE;

/// Words of a chunk: the chunks before and behind it, and from there on the slots.
const BEFORE: usize = 0;
const BEHIND: usize = 1;
const SLOTS: usize = 2;

/// The array, with chunks of `C` cache lines.
pub struct Chunked<const C: usize = 4> {
    chunks: Arena<Lines<C>>,
}

impl<const C: usize> Chunked<C> {
    const WORDS: usize = C * LINE_WORDS;
    const CAPACITY: usize = Self::WORDS - SLOTS;

    /// A new chunk, between two others.
    fn add(&mut self, before: u32, behind: u32, leaves: &[u32]) -> u32 {
        let chunk = self.chunks.add(Lines::filled(NONE));
        self.link(before, chunk);
        self.link(chunk, behind);
        self.spread(chunk, leaves);
        chunk
    }

    fn link(&mut self, before: u32, behind: u32) {
        if before != NONE {
            self.chunks[before].words_mut()[BEHIND] = behind;
        }
        if behind != NONE {
            self.chunks[behind].words_mut()[BEFORE] = before;
        }
    }

    /// Makes these the leaves of a chunk, as evenly distributed as possible.
    fn spread(&mut self, chunk: u32, leaves: &[u32]) {
        let slots = &mut self.chunks[chunk].words_mut()[SLOTS..];
        slots.fill(NONE);
        for (number, &leaf) in leaves.iter().enumerate() {
            slots[number * slots.len() / leaves.len()] = leaf;
        }
    }

    /// Tells the leaves of a chunk where they are.
    fn give_hints<const W: usize, K: Key>(&self, nodes: &mut Nodes<Self, W, K>, chunk: u32) {
        for (at, &leaf) in self.chunks[chunk].words().iter().enumerate().skip(SLOTS) {
            if leaf != NONE {
                nodes[leaf].set_hint(Self::hint(chunk, at));
            }
        }
    }

    fn hint(chunk: u32, at: usize) -> u32 {
        chunk * Self::WORDS as u32 + at as u32
    }

    /// A leaf's chunk, and the word of it that has the leaf's number.
    fn find<const W: usize, K: Key>(&self, nodes: &Nodes<Self, W, K>, leaf: u32) -> (u32, usize) {
        let hint = nodes[leaf].hint();
        let (chunk, at) = (hint / Self::WORDS as u32, hint as usize % Self::WORDS);
        let words = self.chunks[chunk].words();
        if words[at] == leaf {
            return (chunk, at);
        }
        let slot = words[SLOTS..].iter().position(|&other| other == leaf);
        (chunk, SLOTS + slot.expect("a leaf in the chunk of its hint"))
    }

    /// Makes room behind the leaf at `at`: shifts those up to the nearest empty slot. Returns the slot that is free
    /// then; none if the chunk is full.
    fn make_room(&mut self, chunk: u32, at: usize) -> Option<usize> {
        let words = self.chunks[chunk].words_mut();
        let left = (SLOTS..at).rev().find(|&slot| words[slot] == NONE);
        let right = (at + 1..words.len()).find(|&slot| words[slot] == NONE);
        match (left, right) {
            (Some(left), right) if right.is_none_or(|right| at - left < right - at) => {
                words.copy_within(left + 1..=at, left);
                Some(at)
            }
            (_, Some(right)) => {
                words.copy_within(at + 1..right, at + 2);
                Some(at + 1)
            }
            (_, None) => None,
        }
    }

    /// Moves the second half of a full chunk to a new one behind it.
    fn split<const W: usize, K: Key>(&mut self, nodes: &mut Nodes<Self, W, K>, chunk: u32) {
        let words = self.chunks[chunk].words();
        let (leaves, behind) = (words[SLOTS..].to_vec(), words[BEHIND]);
        let (stay, go) = leaves.split_at(leaves.len() / 2);
        self.spread(chunk, stay);
        let new = self.add(chunk, behind, go);
        self.give_hints(nodes, new);
    }

    /// Prefetches the chunk behind another.
    fn prefetch_behind<H: Hint>(&self, chunk: u32) {
        let behind = self.chunks[chunk].words()[BEHIND];
        if behind != NONE {
            Linear.prefetch::<H>(self.chunks[behind].each());
        }
    }
}

impl<const C: usize> Jump for Chunked<C> {
    const NAME: &'static str = "chunked";
    const HEADER: usize = HINTED_HEADER;
    /// The chunk and the word in it.
    type Cursor = (u32, usize);

    fn load<const W: usize, K: Key>(nodes: &mut Nodes<Self, W, K>, leaves: &[u32], fill: f64) -> Self {
        let mut array = Chunked { chunks: Arena::new() };
        let many = ((Self::CAPACITY as f64 * fill) as usize).clamp(1, Self::CAPACITY);
        let mut last = NONE;
        for part in leaves.chunks(many) {
            last = array.add(last, NONE, part);
            array.give_hints(nodes, last);
        }
        array
    }

    fn insert_behind<const W: usize, K: Key>(&mut self, nodes: &mut Nodes<Self, W, K>, leaf: u32, new: u32) {
        loop {
            let (chunk, at) = self.find(nodes, leaf);
            if let Some(slot) = self.make_room(chunk, at) {
                self.chunks[chunk].words_mut()[slot] = new;
                nodes[new].set_hint(Self::hint(chunk, slot));
                return;
            }
            self.split(nodes, chunk);
        }
    }

    fn remove<const W: usize, K: Key>(&mut self, nodes: &mut Nodes<Self, W, K>, leaf: u32) {
        let (chunk, at) = self.find(nodes, leaf);
        let words = self.chunks[chunk].words_mut();
        words[at] = NONE;
        if words[SLOTS..].iter().all(|&slot| slot == NONE) {
            let (before, behind) = (words[BEFORE], words[BEHIND]);
            self.link(before, behind);
            self.chunks.release(chunk);
        }
    }

    fn cursor<H: Hint, const W: usize, K: Key>(
        &self,
        nodes: &Nodes<Self, W, K>,
        leaf: u32,
        _: Option<(u32, usize)>,
    ) -> Self::Cursor {
        let cursor = self.find(nodes, leaf);
        self.prefetch_behind::<H>(cursor.0);
        cursor
    }

    #[inline]
    fn next<H: Hint, const W: usize, K: Key>(
        &self,
        _: &Nodes<Self, W, K>,
        (chunk, at): &mut Self::Cursor,
    ) -> Option<u32> {
        loop {
            let words = self.chunks[*chunk].words();
            let rest = words.get(*at + 1..).unwrap_or(&[]);
            if let Some(empty) = rest.iter().position(|&leaf| leaf != NONE) {
                *at += 1 + empty;
                return Some(words[*at]);
            }
            *at = words.len();
            if words[BEHIND] == NONE {
                return None;
            }
            (*chunk, *at) = (words[BEHIND], SLOTS - 1);
            self.prefetch_behind::<H>(*chunk);
        }
    }

    fn check<const W: usize, K: Key>(&self, nodes: &Nodes<Self, W, K>, leaves: &[u32]) {
        let (mut before, mut chunk) = (NONE, self.find(nodes, leaves[0]).0);
        let (mut found, mut many) = (Vec::new(), 0);
        while chunk != NONE {
            let words = self.chunks[chunk].words();
            assert_eq!(words[BEFORE], before, "the list of chunks");
            let held = words[SLOTS..].iter().copied().filter(|&leaf| leaf != NONE);
            let size = found.len();
            found.extend(held);
            assert!(found.len() > size, "an empty chunk");
            assert!(found[size..].iter().all(|&leaf| self.find(nodes, leaf).0 == chunk), "hints");
            many += 1;
            (before, chunk) = (chunk, words[BEHIND]);
        }
        assert_eq!(found, leaves, "leaves of the jump-pointer array");
        assert_eq!(self.chunks.used(), many, "chunks");
    }
}
