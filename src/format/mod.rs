//! What everybody knows of the file: sizes, block numbers, where a page's fields lie, errors.

pub mod lane;
mod layout;
pub mod tid;
pub mod widths;

pub use lane::{Key, Lane, LaneKind};
pub use layout::{Geometry, Layout};
pub(crate) use tid::AnyTid;
pub use tid::Tid;

pub(crate) use layout::{CELL, NODE_HEADER};

use crate::simd::CACHE_LINE;

#[cfg(any(
    all(feature = "page-4k", feature = "page-16k"),
    all(feature = "page-4k", feature = "page-32k"),
    all(feature = "page-16k", feature = "page-32k"),
))]
compile_error!("pages have one size");

/// Bytes in a page. PostgreSQL's `BLCKSZ`, asserted by the access method.
pub const PAGE_SIZE: usize = match () {
    () if cfg!(feature = "page-4k") => 4096,
    () if cfg!(feature = "page-16k") => 16384,
    () if cfg!(feature = "page-32k") => 32768,
    () => 8192,
};
/// A page's place in the index file.
pub type Block = u32;
/// One page, as stored.
pub type PageBytes = [u8; PAGE_SIZE];

/// A place in key order, as far as its bits tell it.
pub type Mark = u128;

/// The first half of a mark.
#[inline(always)]
pub const fn first_half(mark: Mark) -> u64 {
    (mark >> u64::BITS) as u64
}

/// The meta page.
pub const META: Block = 0;
/// The root page: it never moves, it grows in place (docs/design.md, 5).
pub const ROOT: Block = 1;
/// "No such page", in sibling links.
pub const NO_BLOCK: Block = 0;

/// Why an operation could not be done. Small and without a destructor, so that it can cross frames a server error
/// jumps over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The page's bytes contradict the format or the tree. `ERRCODE_INDEX_CORRUPTED` in the server.
    Corrupt {
        /// The page that is wrong.
        block: Block,
        /// What is wrong with it, to complete the sentence "index … block …: …".
        what: &'static str,
    },
    /// The page says it was written in a format this version does not know.
    UnknownFormat {
        /// The page that says so.
        block: Block,
        /// The format version it names.
        format: u8,
    },
}

/// The engine's result type.
pub type Result<T> = core::result::Result<T, Error>;

/// The unit the in-page tree is laid out in: a cache line, or as many of them as it takes for a byte to number all
/// those of a page.
pub(crate) const LINE: usize = LINE_WIDTH * CACHE_LINE;
/// Cache lines of that.
pub(crate) const LINE_WIDTH: usize = (PAGE_SIZE / CACHE_LINE).div_ceil(256);
/// The page format this code reads and writes (I4).
pub const FORMAT: u8 = 2;
/// Most entries an in-page leaf node may have: a set of them is a `u128`.
pub const MAX_NODE_ENTRIES: usize = 128;
/// Most entries a page may have room for: each has a TID.
pub const MAX_PAGE_ENTRIES: usize = (END_LINE - FIRST_LINE) * LINE / Tid::LEAST_SIZE;
/// Most in-page leaf nodes a page may have room for.
pub const MAX_PAGE_NODES: usize = END_LINE - FIRST_LINE;

/// First line of the in-page tree.
pub(crate) const FIRST_LINE: usize = 128 / LINE;
/// The line after the in-page tree's last: it holds the special space.
pub(crate) const END_LINE: usize = PAGE_SIZE / LINE - 1;
/// Bytes of special space: the low half of the build id, two zero bytes, the page id.
pub(crate) const SPECIAL: usize = 8;
/// Where a page's cells end.
pub(crate) const SPACE_END: usize = PAGE_SIZE - SPECIAL;
/// What the special space ends with, for tools that look at files.
pub(crate) const PAGE_ID: u16 = 0xF9B7;
/// PostgreSQL's page size and layout version 4, as `pd_pagesize_version` stores them.
pub(crate) const PAGESIZE_VERSION: u16 = PAGE_SIZE as u16 | 4;

/// Where the header's fields lie.
pub(crate) mod at {
    pub const PD_LOWER: usize = 12;
    pub const PD_UPPER: usize = 14;
    pub const PD_SPECIAL: usize = 16;
    pub const PD_PAGESIZE_VERSION: usize = 18;
    pub const BUILD_ID: usize = 24;
    pub const STAMP: usize = 32;
    pub const LEVEL: usize = 36;
    pub const FLAGS: usize = 37;
    pub const NODES: usize = 38;
    pub const LINES: usize = 39;
    pub const LEFT: usize = 40;
    pub const RIGHT: usize = 44;
    pub const LOW: usize = 64;
    pub const HIGH: usize = 88;
    /// A fence is a 16-byte lane slot and a TID.
    pub const FENCE_TID: usize = 16;
}

pub(crate) const DELETED: u8 = 1;
pub(crate) const INCOMPLETE: u8 = 2;

/// The level that only the meta page has.
pub const META_LEVEL: u8 = 0xFF;

/// Where an entry is: the in-page leaf node, counted in key order, and the slot in it. The end is a node past the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// In-page leaf node, in key order.
    pub node: u8,
    /// Slot in the node.
    pub slot: u8,
}

impl Position {
    /// Before the first entry of a page.
    pub const FIRST: Position = Position { node: 0, slot: 0 };
}

#[inline(always)]
pub(crate) fn read_u16(bytes: &PageBytes, at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

#[inline(always)]
pub(crate) fn read_u32(bytes: &PageBytes, at: usize) -> u32 {
    let mut image = [0; 4];
    image.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(image)
}

#[inline(always)]
pub(crate) fn read_u64(bytes: &PageBytes, at: usize) -> u64 {
    let mut image = [0; 8];
    image.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(image)
}

pub(crate) fn write_u16(bytes: &mut PageBytes, at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn write_u32(bytes: &mut PageBytes, at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn write_u64(bytes: &mut PageBytes, at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// Whether a block number is a sibling link rather than none.
pub fn is_link(block: Block) -> bool {
    block != NO_BLOCK
}
