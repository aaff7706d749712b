//! Pages, byte by byte, and the optimal node width.

use std::ops::{Deref, DerefMut, Range};

use super::node::{fan_out, leaf_room};
use crate::pool::{Block, NO_BLOCK};

/// Bytes of a cache line.
pub const LINE: usize = 64;

/// Where a node is. Six bytes in a node, as in the paper (§4.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place {
    /// The page.
    pub block: Block,
    /// The cache line of the page that the node starts at.
    pub line: u16,
}

impl Place {
    /// No node.
    pub const NONE: Place = Place { block: NO_BLOCK, line: 0 };
}

/// An array of integers in a node or page.
#[derive(Clone, Copy)]
pub struct Array {
    /// Byte at which it starts.
    pub start: usize,
    /// Bytes of an item.
    pub size: usize,
}

impl Array {
    /// Byte at which an item starts.
    #[inline]
    pub fn at(self, item: usize) -> usize {
        self.start + item * self.size
    }

    /// Copies items to where the item `to` is.
    #[inline]
    pub fn shift(self, bytes: &mut [u8], items: Range<usize>, to: usize) {
        bytes.copy_within(self.at(items.start)..self.at(items.end), self.at(to));
    }
}

/// The integer stored at byte `at`.
#[inline]
pub fn get_u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

/// Stores an integer at byte `at`.
pub fn put_u16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_ne_bytes());
}

/// The integer stored at byte `at`.
#[inline]
pub fn get_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Stores an integer at byte `at`.
pub fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
}

/// The place stored at byte `at`.
pub fn get_place(bytes: &[u8], at: usize) -> Place {
    Place { block: get_u32(bytes, at), line: get_u16(bytes, at + 4) }
}

/// Stores a place at byte `at`.
pub fn put_place(bytes: &mut [u8], at: usize, place: Place) {
    put_u32(bytes, at, place.block);
    put_u16(bytes, at + 4, place.line);
}

/// The integers that `bytes`, which are aligned for them, consist of.
#[inline]
pub fn integers(bytes: &[u8]) -> &[u32] {
    // SAFETY: any four bytes are an integer.
    let (before, integers, _) = unsafe { bytes.align_to::<u32>() };
    debug_assert!(before.is_empty());
    integers
}

/// What a page is for (Figure 8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum Kind {
    /// Leaf nodes that follow one another.
    Leaf = 1,
    /// Nonleaf nodes, aggressively placed: parents with their children.
    Nonleaf = 2,
    /// Parents of leaf nodes that found no room with their own parents.
    Overflow = 3,
}

const KIND: usize = 0;
const FIRST: usize = 2;
const PARENT: usize = 4;
const CHUNK: usize = 12;
const BITMAP: usize = 16;

/// A page: a header with a bitmap of the slots that nodes are in, and slots for nodes.
pub struct Page<B>(pub B);

impl<B: Deref<Target = [u8]>> Page<B> {
    /// Whether it is of this kind.
    pub fn is(&self, kind: Kind) -> bool {
        get_u16(&self.0, KIND) == kind as u16
    }

    /// The line of the first of a leaf page's nodes, in key order.
    pub fn first(&self) -> u16 {
        get_u16(&self.0, FIRST)
    }

    /// A leaf page's back pointer: the parent of its first node (§3.2.2).
    pub fn parent(&self) -> Place {
        get_place(&self.0, PARENT)
    }

    /// The chunk of the jump-pointer array that a leaf page is in.
    pub fn chunk(&self) -> Block {
        get_u32(&self.0, CHUNK)
    }

    fn is_used(&self, slot: usize) -> bool {
        self.0[BITMAP + slot / 8] >> (slot % 8) & 1 == 1
    }
}

impl<B: DerefMut<Target = [u8]>> Page<B> {
    /// Says what the page is for.
    pub fn set_kind(&mut self, kind: Kind) {
        put_u16(&mut self.0, KIND, kind as u16);
    }

    /// Sets the first of a leaf page's nodes.
    pub fn set_first(&mut self, line: u16) {
        put_u16(&mut self.0, FIRST, line);
    }

    /// Sets a leaf page's back pointer.
    pub fn set_parent(&mut self, parent: Place) {
        put_place(&mut self.0, PARENT, parent);
    }

    /// Sets the chunk of the jump-pointer array that a leaf page is in.
    pub fn set_chunk(&mut self, chunk: Block) {
        put_u32(&mut self.0, CHUNK, chunk);
    }

    fn flip(&mut self, slot: usize) {
        self.0[BITMAP + slot / 8] ^= 1 << (slot % 8);
    }
}

/// The sizes that follow from a page size and a node width.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Bytes of a node.
    pub width: usize,
    /// Nodes that a page has room for.
    pub slots: usize,
    header_lines: usize,
}

impl Shape {
    /// The shape of pages of `page_size` bytes with nodes of `lines` cache lines; none if fewer than two nodes fit.
    pub fn new(page_size: usize, lines: usize) -> Option<Self> {
        let page_lines = page_size / LINE;
        let header_lines = (BITMAP + (page_lines / lines).div_ceil(8)).div_ceil(LINE);
        let slots = page_lines.saturating_sub(header_lines) / lines;
        (slots >= 2).then_some(Shape { width: lines * LINE, slots, header_lines })
    }

    /// The bytes of the node that starts at a line.
    #[inline]
    pub fn node(&self, line: u16) -> Range<usize> {
        let start = usize::from(line) * LINE;
        start..start + self.width
    }

    fn line(&self, slot: usize) -> u16 {
        (self.header_lines + slot * self.width / LINE) as u16
    }

    fn slot(&self, line: u16) -> usize {
        (usize::from(line) - self.header_lines) * LINE / self.width
    }

    /// The lines that a page's nodes start at.
    pub fn used(&self, page: &[u8]) -> impl Iterator<Item = u16> {
        (0..self.slots).filter(move |&slot| Page(page).is_used(slot)).map(|slot| self.line(slot))
    }

    /// Takes a free slot of a page, if there is one. Which one is looked at first depends on the page's number, so that
    /// the uppermost nodes of pages do not compete for the same cache sets (§4.1).
    pub fn take(&self, page: &mut [u8], block: Block) -> Option<Place> {
        let mut page = Page(page);
        let first = block as usize % self.slots;
        let slot = (first..self.slots).chain(0..first).find(|&slot| !page.is_used(slot))?;
        page.flip(slot);
        Some(Place { block, line: self.line(slot) })
    }

    /// Gives a slot back.
    pub fn free(&self, page: &mut [u8], line: u16) {
        Page(page).flip(self.slot(line));
    }
}

/// A node width, chosen.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Width {
    /// Cache lines of a node.
    pub lines: usize,
    /// Pairs that a leaf page has room for.
    pub page_fan_out: usize,
    /// The cost of a search, in terms of the smallest that any width has.
    pub cost: f64,
}

/// The optimal node width for pages of `page_size` bytes: of the widths up to 32 lines whose search
/// cost is within a tenth of the best, the one whose leaf pages hold the most pairs (the goal G of §3.1.1). `t1` is the
/// latency of a cache miss, `t_next` that of another one that overlaps with it.
///
/// A node costs `t1 + (lines - 1) * t_next` and narrows the search by its fan-out, so that the cost of a search is in
/// proportion to the one divided by the logarithm of the other.
///
/// # Panics
/// If no page of this size has room for two nodes.
pub fn optimal_width(page_size: usize, t1: f64, t_next: f64) -> Width {
    let cost = |lines: usize| (t1 + (lines - 1) as f64 * t_next) / (fan_out(lines * LINE) as f64).ln();
    let shapes = || (1..=32).filter_map(|lines| Some((lines, Shape::new(page_size, lines)?)));
    let best = shapes().map(|(lines, _)| cost(lines)).fold(f64::INFINITY, f64::min);
    let widths = shapes().map(|(lines, shape)| {
        let page_fan_out = shape.slots * leaf_room(shape.width);
        Width { lines, page_fan_out, cost: cost(lines) / best }
    });
    widths
        .filter(|width| width.cost <= 1.1)
        .max_by_key(|width| width.page_fan_out)
        .expect("a page with room for two nodes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_2_is_reproduced() {
        let table =
            [(4096, 576, 497, 1.03), (8192, 576, 994, 1.03), (16384, 704, 2001, 1.07), (32768, 640, 4029, 1.05)];
        for (page_size, width, page_fan_out, cost) in table {
            let chosen = optimal_width(page_size, 150.0, 10.0);
            assert_eq!((chosen.lines * LINE, chosen.page_fan_out), (width, page_fan_out));
            assert!((chosen.cost - cost).abs() < 0.005, "{chosen:?}");
        }
        assert_eq!((fan_out(576), fan_out(704)), (57, 69));
    }
}
