//! The region a tree lives in: a header, the root, and nodes taken from both ends of the rest.
//!
//! ```text
//! | header | root | inner nodes → …            … ← leaves |
//! ```
//!
//! A node's id is the number of its first line in the region. Nodes given back wait in a list of their kind.

use super::node::NodeLink;
use super::order::LINE;
use super::{Error, MOST_LEVELS};
use crate::format::Lane;
use crate::paging;
use core::ops::{Deref, DerefMut, Range};

/// Where the header has a `u32`.
#[derive(Clone, Copy)]
pub(super) enum Field {
    /// Lines in the region.
    Lines = 8,
    /// Lines of the root.
    RootLines = 12,
    /// Levels of inner nodes between root and leaves.
    Levels = 16,
    /// The first line that was never part of an inner node.
    Low = 20,
    /// The line behind the last that was never part of a leaf.
    High = 24,
    FreeInner = 28,
    FreeLeaf = 32,
    SpareInner = 36,
    SpareLeaf = 40,
}

const STAMP: usize = 0;
const LEN: usize = 48;

/// Nodes of one kind.
#[derive(Clone, Copy)]
pub(super) struct Pool {
    /// Bytes in a node.
    pub(super) size: usize,
    pub(super) leaf: bool,
}

impl Pool {
    const fn lines(self) -> u32 {
        (self.size / LINE) as u32
    }

    /// The first of the nodes that were given back.
    const fn free(self) -> Field {
        if self.leaf { Field::FreeLeaf } else { Field::FreeInner }
    }

    /// How many nodes were given back.
    pub(super) const fn spare(self) -> Field {
        if self.leaf { Field::SpareLeaf } else { Field::SpareInner }
    }
}

/// A region of memory with a header that was found good.
pub(super) struct Region<M> {
    memory: M,
    root: Range<usize>,
    lines: u32,
}

impl<M: Deref<Target = [u8]>> Region<M> {
    /// The region that begins with a header of `stamp`, as it was formatted.
    pub(super) fn attach(memory: M, stamp: u64) -> Result<Self, Error> {
        let header = memory.first_chunk::<LINE>().ok_or(Error::Foreign)?;
        let field = |field: Field| <u32 as Lane>::read(header, field as usize);
        let (lines, root_lines) = (field(Field::Lines), field(Field::RootLines));
        let fits = lines as usize <= memory.len() / LINE && root_lines < lines;
        if <u64 as Lane>::read(header, STAMP) != stamp || !fits {
            return Err(Error::Foreign);
        }
        Ok(Region { memory, root: LINE..LINE * (1 + root_lines as usize), lines })
    }

    pub(super) fn memory(&self) -> &M {
        &self.memory
    }

    pub(super) fn into_memory(self) -> M {
        self.memory
    }

    #[inline(always)]
    pub(super) fn get(&self, field: Field) -> u32 {
        self.header(field as usize)
    }

    /// How many entries the tree has.
    #[inline(always)]
    pub(super) fn len(&self) -> u64 {
        self.header(LEN)
    }

    #[inline(always)]
    fn header<L: Lane>(&self, at: usize) -> L {
        self.memory.first_chunk::<LINE>().map_or(L::MIN, |header| L::read(header, at))
    }

    /// Levels of inner nodes: at least one.
    #[inline(always)]
    pub(super) fn levels(&self) -> usize {
        (self.get(Field::Levels) as usize).clamp(1, MOST_LEVELS)
    }

    #[inline(always)]
    pub(super) fn root(&self) -> Result<&[u8], Error> {
        self.memory.get(self.root.clone()).ok_or(Error::Damaged)
    }

    /// Bytes of the root.
    pub(super) fn root_size(&self) -> usize {
        self.root.len()
    }

    #[inline(always)]
    pub(super) fn node(&self, id: u32, pool: Pool) -> Result<&[u8], Error> {
        self.memory.get(self.place(id, pool)?).ok_or(Error::Damaged)
    }

    /// Where a node is; nowhere in the header or the root.
    #[inline(always)]
    fn place(&self, id: u32, pool: Pool) -> Result<Range<usize>, Error> {
        let start = id as usize * LINE;
        if start < self.root.end || id >= self.lines { Err(Error::Damaged) } else { Ok(start..start + pool.size) }
    }

    /// Nodes in use.
    pub(super) fn used(&self, pool: Pool) -> u32 {
        let taken = match pool.leaf {
            true => self.lines.saturating_sub(self.get(Field::High)),
            false => self.get(Field::Low).saturating_sub((self.root.end / LINE) as u32),
        };
        (taken / pool.lines()).saturating_sub(self.get(pool.spare()))
    }

    /// Nodes that the region can have at most.
    pub(super) fn most(&self, pool: Pool) -> usize {
        (self.lines / pool.lines()) as usize
    }

    /// Bytes that were ever part of the header, the root or a node.
    pub(super) fn touched(&self) -> usize {
        let untouched = self.get(Field::High).saturating_sub(self.get(Field::Low));
        self.lines.saturating_sub(untouched) as usize * LINE
    }

    /// Whether as many nodes can be taken.
    pub(super) fn has(&self, wanted: [(Pool, usize); 2]) -> bool {
        let fresh = |(pool, n): (Pool, usize)| n.saturating_sub(self.get(pool.spare()) as usize) * pool.size;
        let left = self.get(Field::High).saturating_sub(self.get(Field::Low)) as usize * LINE;
        wanted.into_iter().map(fresh).sum::<usize>() <= left
    }
}

impl<M: DerefMut<Target = [u8]>> Region<M> {
    /// Makes all of the memory, whose size is rounded down to lines, a region with a header of `stamp` and no nodes.
    pub(super) fn format(mut memory: M, stamp: u64, root_size: usize) -> Result<Self, Error> {
        let lines = u32::try_from(memory.len() / LINE).unwrap_or(u32::MAX);
        let root_lines = (root_size / LINE) as u32;
        if lines <= 1 + root_lines {
            return Err(Error::Full);
        }
        let header = memory.first_chunk_mut::<LINE>().ok_or(Error::Full)?;
        header.fill(0);
        Lane::write(stamp, header, STAMP);
        Lane::write(lines, header, Field::Lines as usize);
        Lane::write(root_lines, header, Field::RootLines as usize);
        let mut region = Region { memory, root: LINE..LINE * (1 + root_lines as usize), lines };
        region.clear();
        Ok(region)
    }

    /// Gives all nodes back.
    pub(super) fn clear(&mut self) {
        for field in [Field::FreeInner, Field::FreeLeaf, Field::SpareInner, Field::SpareLeaf] {
            self.set(field, 0);
        }
        self.set(Field::Low, (self.root.end / LINE) as u32);
        self.set(Field::High, self.lines);
        self.set(Field::Levels, 1);
        self.set_len(0);
    }

    pub(super) fn set(&mut self, field: Field, v: u32) {
        self.set_header(field as usize, v);
    }

    #[inline(always)]
    pub(super) fn set_len(&mut self, len: u64) {
        self.set_header(LEN, len);
    }

    #[inline(always)]
    fn set_header(&mut self, at: usize, v: impl Lane) {
        if let Some(header) = self.memory.first_chunk_mut::<LINE>() {
            v.write(header, at);
        }
    }

    pub(super) fn root_mut(&mut self) -> Result<&mut [u8], Error> {
        self.memory.get_mut(self.root.clone()).ok_or(Error::Damaged)
    }

    #[inline(always)]
    pub(super) fn node_mut(&mut self, id: u32, pool: Pool) -> Result<&mut [u8], Error> {
        let place = self.place(id, pool)?;
        self.memory.get_mut(place).ok_or(Error::Damaged)
    }

    /// Two nodes of a kind.
    pub(super) fn two(&mut self, ids: [u32; 2], pool: Pool) -> Result<[&mut [u8]; 2], Error> {
        let places = [self.place(ids[0], pool)?, self.place(ids[1], pool)?];
        self.memory.get_disjoint_mut(places).map_err(|_| Error::Damaged)
    }

    /// A node to use; its bytes are whatever they were.
    pub(super) fn take(&mut self, pool: Pool) -> Result<u32, Error> {
        let free = self.get(pool.free());
        if free != 0 {
            let next = NodeLink::Previous.get(self.node(free, pool)?);
            self.set(pool.free(), next);
            self.set(pool.spare(), self.get(pool.spare()).saturating_sub(1));
            return Ok(free);
        }
        let (low, high) = (self.get(Field::Low), self.get(Field::High));
        if high.saturating_sub(low) < pool.lines() {
            return Err(Error::Full);
        }
        let id = if pool.leaf { high - pool.lines() } else { low };
        self.node(id, pool)?;
        match pool.leaf {
            true => self.set(Field::High, id),
            false => self.set(Field::Low, low + pool.lines()),
        }
        Ok(id)
    }

    /// Takes a node back.
    pub(super) fn give(&mut self, id: u32, pool: Pool) -> Result<(), Error> {
        let next = self.get(pool.free());
        NodeLink::Previous.set(self.node_mut(id, pool)?, next);
        self.set(pool.free(), id);
        self.set(pool.spare(), self.get(pool.spare()).saturating_add(1));
        Ok(())
    }

    /// Asks the system for large pages behind the bytes in `range`; whether it may give them.
    pub(super) fn advise(&mut self, range: Range<usize>) -> bool {
        let bytes = self.memory.get_mut(range);
        bytes.is_some_and(|bytes| paging::prefer_large(bytes.as_mut_ptr().cast(), bytes.len()))
    }

    /// Bytes of the region.
    pub(super) fn size(&self) -> usize {
        self.lines as usize * LINE
    }
}
