//! The page: a disk-first fpB+-tree node (paper §3.1), one type whose methods are the only way to touch its bytes.
//!
//! `docs/design.md` draws the format byte by byte. In short, in 64-byte lines: line 0 is the server's page header and
//! ours, line 1 the fences, then the in-page tree, grown from the low end: one in-page root of `w` lines and in-page
//! leaf nodes of `x` lines. The last line keeps eight bytes of special space.
//!
//! Reading is safe whatever the bytes are (I3): every count is clamped and every line number checked before use.

mod arrange;
mod edit;
mod keys;
mod lines;
mod long;
mod meta;
mod ranges;
mod split;
mod verify;
pub mod widths;

pub use arrange::Thrift;
pub(crate) use arrange::{Filling, repeats};
pub(crate) use edit::foresee_node;
pub use edit::{Cell, Links, PageMut};
pub use keys::{KeySpace, Side};
pub(crate) use lines::LineSet;
pub use long::{Copies, Long};
pub use meta::{LogKind, Meta};
pub use ranges::Ranges;
pub use split::{Aim, Joined};
pub use verify::Flaw;

use crate::change::{Change, Edit};
use crate::key::long::LongShape;
use crate::key::{Key, KeyShape, Lane, LaneKind, Tail};
use crate::simd::{self, CACHE_LINE};
use crate::store::{Block, Error, NO_BLOCK, PAGE_SIZE, PageBytes, Result};
use core::cmp::Ordering;
use core::marker::PhantomData;
use core::ops::Range;
use widths::{Costs, NodeSizes};

/// The unit the in-page tree is laid out in: a cache line, or as many of them as it takes for a byte to number all those
/// of a page.
const LINE: usize = LINE_WIDTH * CACHE_LINE;
/// Cache lines of that.
const LINE_WIDTH: usize = (PAGE_SIZE / CACHE_LINE).div_ceil(256);
/// The page format this code reads and writes (I4).
pub const FORMAT: u8 = 1;
/// Most entries an in-page leaf node may have room for: a set of them is a `u64`.
pub const MAX_NODE_ENTRIES: usize = 64;
/// Most entries a page may have room for.
pub const MAX_PAGE_ENTRIES: usize = (END_LINE - FIRST_LINE) * LINE / Tail::SIZE;
/// Most in-page leaf nodes a page may have room for.
pub const MAX_PAGE_NODES: usize = END_LINE - FIRST_LINE;

/// First line of the in-page tree.
const FIRST_LINE: usize = 128 / LINE;
/// The line after the in-page tree's last: it holds the special space.
const END_LINE: usize = PAGE_SIZE / LINE - 1;
/// Bytes of special space: the low half of the build id, two zero bytes, the page id.
const SPECIAL: usize = 8;
/// What the special space ends with, for tools that look at files.
const PAGE_ID: u16 = 0xF9B7;
/// PostgreSQL's page size and layout version 4, as `pd_pagesize_version` stores them.
const PAGESIZE_VERSION: u16 = PAGE_SIZE as u16 | 4;

/// Where the header's fields lie.
mod at {
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
    /// A fence is a 16-byte lane slot and a tail.
    pub const FENCE_TAIL: usize = 16;
}

const DELETED: u8 = 1;
const INCOMPLETE: u8 = 2;

/// In a node's count: all entries have the same lane and cell, which is stored once (a *run*).
const RUN: u8 = 0x80;

/// The level that only the meta page has.
pub const META_LEVEL: u8 = 0xFF;

/// How the pages of one kind (leaf or inner) of an index are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Format version, lane code, `w`, `x`: the four bytes by which a page explains itself.
    stamp: u32,
    kind: LaneKind,
    lane: usize,
    payload: usize,
    w: usize,
    x: usize,
    /// Children the in-page root has room for.
    fanout: usize,
    /// Entries an in-page leaf node has room for.
    capacity: usize,
    /// Entries a run has room for; 0 where there are no runs.
    run: usize,
    /// In-page leaf nodes the page has room for.
    nodes: usize,
}

/// Bytes of a block number.
const CHILD: usize = 4;
/// Bytes that say where in the page an entry's cell is, in the payload of entries that may have one.
const CELL: usize = 2;
/// Bytes of an in-page root entry beside its lane: the child's line, and how many entries it holds.
const ROOT_PAYLOAD: usize = 2;

impl Layout {
    /// Bytes of an entry beside its lane: in a leaf the tail, in an inner page also the child; with prefix lanes also
    /// where the cell is.
    const fn payload(kind: LaneKind, is_leaf: bool) -> usize {
        Tail::SIZE + if is_leaf { 0 } else { CHILD } + if kind.is_prefix() { CELL } else { 0 }
    }

    /// Chooses the widths by the paper's goal 𝒢 (§3.1.1).
    fn choose(lane: LaneKind, is_leaf: bool) -> Layout {
        let payload = Layout::payload(lane, is_leaf);
        let sizes = NodeSizes {
            nonleaf_entry: lane.size() + ROOT_PAYLOAD,
            nonleaf_header: 0,
            leaf_entry: lane.size() + payload,
            leaf_header: 0,
        };
        let lines = (END_LINE - FIRST_LINE) * LINE_WIDTH;
        let is_whole = |lines: usize| lines.is_multiple_of(LINE_WIDTH);
        let candidates = widths::candidates(lines, sizes, Costs::default(), MAX_NODE_ENTRIES)
            .filter(|widths| widths.levels == 2 && is_whole(widths.nonleaf) && is_whole(widths.leaf));
        let widths = widths::select(candidates);
        let [w, x] = [widths.nonleaf, widths.leaf].map(|lines| lines / LINE_WIDTH);
        Layout::new(lane, is_leaf, w, x).expect("the selection keeps to the page")
    }

    /// A layout of given widths, or `None` where they cannot work on a page.
    fn new(lane: LaneKind, is_leaf: bool, w: usize, x: usize) -> Option<Layout> {
        let payload = Layout::payload(lane, is_leaf);
        if w == 0 || x == 0 || FIRST_LINE + w + x > END_LINE {
            return None;
        }
        let size = lane.size();
        let fanout = w * LINE / (size + ROOT_PAYLOAD);
        let capacity = (x * LINE / (size + payload)).min(MAX_NODE_ENTRIES);
        let nodes = fanout.min((END_LINE - FIRST_LINE - w) / x);
        let head = size + payload - Tail::SIZE;
        let run = if is_leaf { ((x * LINE - head) / Tail::SIZE).min(MAX_NODE_ENTRIES) } else { 0 };
        let stamp = u32::from_le_bytes([FORMAT, lane.code(), w as u8, x as u8]);
        (nodes >= 2 && capacity >= 4).then_some(Layout {
            stamp,
            kind: lane,
            lane: size,
            payload,
            w,
            x,
            fanout,
            capacity,
            run: if run > capacity { run } else { 0 },
            nodes,
        })
    }

    /// The layout a page says it has.
    fn of_page(bytes: &PageBytes) -> Option<Layout> {
        let [format, lane, w, x] = read_u32(bytes, at::STAMP).to_le_bytes();
        if format != FORMAT {
            return None;
        }
        Layout::new(LaneKind::from_code(lane)?, bytes[at::LEVEL] == 0, w as usize, x as usize)
    }

    /// Cache lines of an in-page nonleaf node and of an in-page leaf node: the paper's `w` and `x`.
    pub fn widths(&self) -> (usize, usize) {
        (self.w * LINE_WIDTH, self.x * LINE_WIDTH)
    }

    /// Entries a page of this layout has room for, if few of them have the same key.
    pub fn page_entries(&self) -> usize {
        self.nodes * self.capacity
    }

    /// Entries a page of this layout has room for, whatever their keys.
    pub fn most_entries(&self) -> usize {
        self.nodes * self.capacity.max(self.run)
    }

    /// How many entries a node whose count is stored so has room for.
    #[inline]
    fn room_of(&self, count: u8) -> usize {
        if count & RUN == 0 { self.capacity } else { self.run }
    }

    /// How many entries a node whose count is stored so has.
    #[inline]
    fn entries_of(&self, count: u8) -> usize {
        ((count & !RUN) as usize).min(self.room_of(count))
    }

    /// Whether entries lead to children.
    fn has_child(&self) -> bool {
        self.payload >= Tail::SIZE + CHILD
    }

    /// Where in a payload, counted from behind the tail, it says where the entry's cell is.
    fn cell_at(&self) -> usize {
        self.payload - Tail::SIZE - CELL
    }

    /// Bytes of an entry outside a run.
    fn entry(&self) -> usize {
        self.lane + self.payload
    }

    /// Bytes of the cell of an entry with so many bytes behind its lane.
    pub fn cell_size(&self, rest: usize, extra: usize) -> usize {
        long::cell_length(self, rest, extra)
    }

    fn first_node_line(&self) -> usize {
        FIRST_LINE + self.w
    }

    fn root_lanes(&self) -> usize {
        FIRST_LINE * LINE
    }

    fn root_lines(&self) -> usize {
        self.root_lanes() + self.fanout * self.lane
    }

    fn root_counts(&self) -> usize {
        self.root_lines() + self.fanout
    }

    /// Where a node's payload array begins, from the node's start.
    fn node_payload(&self) -> usize {
        self.capacity * self.lane
    }
}

/// How all pages of an index are laid out, and the build id that tells its pages from any other's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Drawn at random when the index is built (I4).
    pub build_id: u64,
    /// Level 0.
    pub leaf: Layout,
    /// The levels above.
    pub inner: Layout,
}

impl Geometry {
    /// Chooses the widths for a lane.
    pub fn choose(lane: LaneKind, build_id: u64) -> Geometry {
        let (leaf, inner) = (Layout::choose(lane, true), Layout::choose(lane, false));
        Geometry { build_id, leaf, inner }
    }

    /// A geometry of widths chosen before: `[leaf w, leaf x, inner w, inner x]`.
    pub fn with_widths(lane: LaneKind, build_id: u64, widths: [u8; 4]) -> Option<Geometry> {
        let [w, x, inner_w, inner_x] = widths.map(usize::from);
        let leaf = Layout::new(lane, true, w, x)?;
        let inner = Layout::new(lane, false, inner_w, inner_x)?;
        Some(Geometry { build_id, leaf, inner })
    }

    /// `[leaf w, leaf x, inner w, inner x]`.
    pub fn widths(&self) -> [u8; 4] {
        [self.leaf.w as u8, self.leaf.x as u8, self.inner.w as u8, self.inner.x as u8]
    }

    /// Bytes at a page's front that every arrival reads: header, fences, in-page root.
    pub fn front(&self, level: u8) -> usize {
        (FIRST_LINE + self.layout(level).w) * LINE
    }

    /// Bytes at a page's end that every arrival reads: fences that are cells.
    #[inline(always)]
    pub fn back(&self) -> Range<usize> {
        let lines = if self.leaf.kind.is_prefix() { 2 } else { 0 };
        PAGE_SIZE - lines * CACHE_LINE..PAGE_SIZE
    }

    /// The layout of a level's pages.
    pub fn layout(&self, level: u8) -> &Layout {
        if level == 0 { &self.leaf } else { &self.inner }
    }
}

/// Whether a page from the free space map may be used: never written, or deleted. Anything else is left alone, because
/// the map is not logged and may be wrong.
pub fn reusable(bytes: &PageBytes) -> bool {
    is_new(bytes) || (Layout::of_page(bytes).is_some() && bytes[at::FLAGS] & DELETED != 0)
}

/// When a page was deleted that may be [reused](reusable), as [`Edit::Delete`] said; 0 if that is of no interest.
pub fn deleted_at(bytes: &PageBytes) -> u64 {
    if is_new(bytes) { 0 } else { read_u64(bytes, at::LEFT) }
}

/// Makes pages alike that differ in nothing but what no log record says: LSN and checksum, flags of dead rows, and bytes
/// that are not used.
pub fn mask(bytes: &mut PageBytes) {
    bytes[..at::PD_LOWER].fill(0);
    let (lower, upper) = (read_u16(bytes, at::PD_LOWER) as usize, read_u16(bytes, at::PD_UPPER) as usize);
    if let Some(unused) = bytes.get_mut(lower..upper) {
        unused.fill(0);
    }
    if let Some(layout) = Layout::of_page(bytes).filter(|_| bytes[at::LEVEL] == 0) {
        let unmasked = *bytes;
        arrange::spots(&unmasked, &layout).for_each(|spot| bytes[spot.tail] &= !Tail::DEAD);
    }
}

/// Whether the page was never written.
pub fn is_new(bytes: &PageBytes) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}

/// Where an entry is: the in-page leaf node, counted in key order, and the slot in it. The end is a node past the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// In-page leaf node, in key order.
    pub node: u8,
    /// Slot in the node.
    pub slot: u8,
}

/// What a page makes of an insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// The node has a free slot.
    Insert(Position),
    /// Split the node, leaving `keep` entries in it, then insert.
    Split { node: u8, keep: u8, then: Position },
    /// Split a run, leaving `keep` entries in it, and insert into a new node between.
    Part { node: u8, keep: u8 },
    /// Even out a full node with its right neighbour, then insert.
    Balance { left: u8, then: Position },
    /// Make a run of a full node, then insert.
    Compact(Position),
    /// Distribute the page's entries anew, with room for a cell of so many bytes, then ask again.
    Repack { cell: u16 },
    /// The page itself must be split.
    Full,
}

/// A page being read. The caller holds a content lock.
#[derive(Clone, Copy)]
pub struct Page<'a, K> {
    bytes: &'a PageBytes,
    layout: &'a Layout,
    keys: PhantomData<K>,
}

/// One in-page leaf node being read.
#[derive(Clone, Copy)]
pub struct Node<'a, K> {
    page: Page<'a, K>,
    start: usize,
    payload: usize,
    /// How far payloads are apart.
    step: usize,
    count: usize,
    is_run: bool,
}

impl<'a, K: KeySpace> Page<'a, K> {
    /// Looks at a page as one of this index's. It may be deleted, or not be the page one looked for: that is for the
    /// caller to see. Anything that is not a page of this index at all is an error naming what is wrong.
    #[inline]
    pub fn open(bytes: &'a PageBytes, geometry: &'a Geometry, block: Block) -> Result<Page<'a, K>> {
        let layout = geometry.layout(bytes[at::LEVEL]);
        if read_u64(bytes, at::BUILD_ID) != geometry.build_id || read_u32(bytes, at::STAMP) != layout.stamp {
            return Err(refuse(bytes, geometry, block));
        }
        Ok(Page { bytes, layout, keys: PhantomData })
    }

    /// The page as stored.
    pub fn bytes(&self) -> &'a PageBytes {
        self.bytes
    }

    /// 0 for a leaf.
    pub fn level(&self) -> u8 {
        self.bytes[at::LEVEL]
    }

    /// Deleted by VACUUM: it holds nothing, and its key space is its right neighbour's.
    pub fn is_deleted(&self) -> bool {
        self.bytes[at::FLAGS] & DELETED != 0
    }

    /// Split, and the new right page is not in the parent yet.
    pub fn is_incomplete(&self) -> bool {
        self.bytes[at::FLAGS] & INCOMPLETE != 0
    }

    /// The left sibling, or `NO_BLOCK`.
    pub fn left(&self) -> Block {
        read_u32(self.bytes, at::LEFT)
    }

    /// The right sibling, or `NO_BLOCK`.
    pub fn right(&self) -> Block {
        read_u32(self.bytes, at::RIGHT)
    }

    /// The smallest key that may be here.
    #[inline]
    pub fn low(&self) -> K::Fence<'a> {
        K::fence(self, Side::Low)
    }

    /// The smallest key that belongs to the right of here; behind all keys on the level's last page.
    #[inline]
    pub fn high(&self) -> K::Fence<'a> {
        K::fence(self, Side::High)
    }

    /// Whether a place is before all keys that may be here.
    #[inline]
    pub fn is_below(&self, key: K::Key<'_>) -> bool {
        K::compare_fence(key, self, Side::Low).is_lt()
    }

    /// Whether a place is behind all keys that may be here.
    #[inline]
    pub fn is_beyond(&self, key: K::Key<'_>) -> bool {
        K::compare_fence(key, self, Side::High).is_ge()
    }

    /// In-page leaf nodes in use.
    #[inline]
    pub fn nodes(&self) -> usize {
        (self.bytes[at::NODES] as usize).min(self.layout.nodes)
    }

    /// Entries in the page.
    pub fn entries(&self) -> usize {
        (0..self.nodes()).map(|node| self.count(node)).sum()
    }

    /// Whether the page holds nothing.
    pub fn is_empty(&self) -> bool {
        self.nodes() == 0
    }

    /// How much of what the page has room for is in use, from 0 to 1.
    pub fn fill(&self) -> f64 {
        let room = |node: usize| self.layout.room_of(self.stored_count(node)).max(1);
        let nodes: f64 = (0..self.nodes()).map(|node| self.count(node) as f64 / room(node) as f64).sum();
        if !self.layout.kind.is_prefix() {
            return nodes / self.layout.nodes as f64;
        }
        let cells = long::live_cells(self.bytes, self.layout);
        (nodes * self.layout.node_size() as f64 + cells as f64) / self.layout.space() as f64
    }

    #[inline]
    fn count(&self, node: usize) -> usize {
        self.layout.entries_of(self.stored_count(node))
    }

    #[inline]
    fn stored_count(&self, node: usize) -> u8 {
        self.bytes[self.layout.root_counts() + node]
    }

    /// Whether a node is a run.
    #[inline]
    fn is_run(&self, node: usize) -> bool {
        self.stored_count(node) & RUN != 0
    }

    /// How many nodes are runs.
    pub fn runs(&self) -> usize {
        (0..self.nodes()).filter(|&node| self.is_run(node)).count()
    }

    /// Whether a node has no free slot.
    fn is_full(&self, node: usize) -> bool {
        self.count(node) == self.layout.room_of(self.stored_count(node))
    }

    /// Where a node starts. A line number no node can have stands for the first node's.
    #[inline]
    fn node_start(&self, node: usize) -> usize {
        self.layout.node_start(self.bytes[self.layout.root_lines() + node])
    }

    /// Whether what the in-page root says of a node can be: where it is, and how many entries it has.
    #[inline]
    pub(crate) fn has_node(&self, node: usize) -> bool {
        let line = u32::from(self.bytes[self.layout.root_lines() + node]);
        // Of 32 bits, for they are divided on the way of every lookup.
        let [first, x, used] = [self.layout.first_node_line(), self.layout.x, self.used_lines()].map(|n| n as u32);
        let stored = self.stored_count(node);
        let is_there = line >= first && (line - first).is_multiple_of(x) && line + x <= used;
        is_there && (stored & !RUN) as usize == self.layout.entries_of(stored)
    }

    /// A node in use.
    #[inline]
    pub fn node(&self, node: usize) -> Node<'a, K> {
        let start = self.node_start(node);
        let stored = self.stored_count(node);
        let [_, (payload, step)] = self.layout.arrays(start, stored);
        Node { page: *self, start, payload, step, count: self.layout.entries_of(stored), is_run: stored & RUN != 0 }
    }

    fn separator(&self, node: usize) -> K::Lane {
        K::Lane::read(self.bytes, self.layout.root_lanes() + node * K::Lane::SIZE)
    }

    /// The last separator of the in-page root that lets `key` into its node, and the place in it where `key` is or
    /// would go: `slot` may be one past the node's last.
    #[inline]
    pub(crate) fn locate(&self, key: K::Key<'_>) -> Position {
        let nodes = self.nodes();
        if nodes == 0 {
            return Position { node: 0, slot: 0 };
        }
        let lane = match K::lane_in(key, self) {
            Ok(lane) => lane,
            Err(Ordering::Less) => return Position { node: 0, slot: 0 },
            Err(_) => return Position { node: nodes as u8 - 1, slot: self.count(nodes - 1) as u8 },
        };
        // The first separator is not looked at: everything left of the second one goes to the first node.
        let separators = self.layout.root_lanes() + K::Lane::SIZE;
        let mut node = K::Lane::count_less(self.bytes, separators, nodes - 1, lane);
        if node + 1 < nodes && self.separator(node + 1) == lane {
            node = self.last_node_from(node, lane, key);
        }
        let found = self.node(node);
        found.prefetch(self.layout.x);
        Position { node: node as u8, slot: found.lower_bound(lane, key) as u8 }
    }

    /// Among the nodes whose separators tie with the key's lane, and the one before them: the last that starts at or
    /// before the key.
    fn last_node_from(&self, first: usize, lane: K::Lane, key: K::Key<'_>) -> usize {
        let separators = self.layout.root_lanes() + K::Lane::SIZE;
        let (mut low, mut high) = (first, K::Lane::count_less_equal(self.bytes, separators, self.nodes() - 1, lane));
        while low < high {
            let middle = (low + high).div_ceil(2);
            if self.node(middle).starts_at_or_before(lane, key) {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        low
    }

    /// The first entry at or after `key`; the end if there is none.
    #[inline]
    pub fn lower_bound(&self, key: K::Key<'_>) -> Position {
        self.settle(self.locate(key))
    }

    /// Whether a leaf's entries around the place that [`lower_bound`](Page::lower_bound) gave for `key` are those that
    /// belong there: damage to the in-page root, which leads a search astray, is not to become a wrong answer. Ties in a
    /// node are not looked at.
    #[inline]
    pub(crate) fn is_between(&self, place: Position, key: K::Key<'_>) -> bool {
        let Ok(lane) = K::lane_in(key, self) else { return true };
        let (node, slot, nodes) = (place.node as usize, place.slot as usize, self.nodes());
        let mut sound = true;
        if node < nodes {
            let found = self.node(node);
            let behind = found.lane(slot);
            sound &= self.has_node(node)
                && behind >= lane
                && (node + 1 == nodes || behind <= self.separator(node + 1))
                && found.is_ended();
            sound &= slot > 0 || behind > lane || K::compare_tied(key, &found, 0).is_le();
        } else {
            sound &= self.is_ended();
        }
        if let Some(last) = node.checked_sub(1).filter(|_| slot == 0) {
            let left = self.node(last);
            let Some(end) = left.len().checked_sub(1) else { return false };
            let before = left.lane(end);
            sound &= before <= lane && (last == 0 || before >= self.separator(last)) && left.is_ended();
            sound &= self.has_node(last);
            sound &= before < lane || K::compare_tied(key, &left, end).is_gt();
        } else if slot > 0 {
            let before = self.node(node).lane(slot - 1);
            sound &= before <= lane && (node == 0 || before >= self.separator(node));
        }
        sound
    }

    /// Whether all of a leaf's entries can be that, and there are none but those it counts: what a pass over them can tell
    /// without comparing keys.
    pub(crate) fn is_in_order(&self) -> bool {
        let (mut previous, mut used) = (K::Lane::MIN, LineSet::default());
        let mut nodes = (0..self.nodes()).map(|number| (number, self.node(number)));
        let sound = nodes.all(|(number, node)| {
            let begins = number == 0 || previous <= self.separator(number) && self.separator(number) <= node.lane(0);
            let sound = (0..node.len()).all(|slot| {
                let before = core::mem::replace(&mut previous, node.lane(slot));
                before <= previous && !node.tail(slot).is_flawed()
            });
            let is_apart = self.has_node(number) & used.add(node.lines());
            begins && sound && is_apart && node.is_ended()
        });
        sound && self.is_ended() && self.is_placed() && K::is_bounded(self)
    }

    /// Whether the page has no neighbours.
    pub(crate) fn is_alone(&self) -> bool {
        !is_link(self.left()) && !is_link(self.right())
    }

    /// Whether the page has, on either side, a neighbour or the end of all keys.
    #[inline]
    pub(crate) fn is_placed(&self) -> bool {
        is_link(self.left()) != K::same_fence(self.low(), K::fence_of(K::first()))
            && is_link(self.right()) != K::same_fence(self.high(), K::fence_of(K::last()))
    }

    /// Whether the in-page root ends where it says.
    pub(crate) fn is_ended(&self) -> bool {
        let nodes = self.nodes();
        nodes == self.layout.nodes || self.bytes[self.layout.root_lines() + nodes] == 0
    }

    /// The entry after the one at `from`, if it is the first at or after `key`, which is behind that one.
    #[inline]
    pub fn next_if_from(&self, from: Position, key: K::Key<'_>) -> Option<Position> {
        let next = self.next(from);
        K::compare_entry(key, &self.entry(next)?).is_le().then_some(next)
    }

    /// A place one past a node's last entry is the next node's first.
    #[inline]
    fn settle(&self, position: Position) -> Position {
        let node = position.node as usize;
        if node < self.nodes() && position.slot as usize >= self.count(node) {
            return Position { node: position.node + 1, slot: 0 };
        }
        position
    }

    /// One past the last entry.
    pub fn end(&self) -> Position {
        Position { node: self.nodes() as u8, slot: 0 }
    }

    /// The entry after `position`.
    pub fn next(&self, position: Position) -> Position {
        self.settle(Position { slot: position.slot + 1, ..position })
    }

    /// The entry before `position`, if there is one.
    pub fn previous(&self, position: Position) -> Option<Position> {
        if position.slot > 0 {
            return Some(Position { slot: position.slot - 1, ..position });
        }
        let node = position.node.checked_sub(1)?;
        Some(Position { node, slot: self.count(node as usize).checked_sub(1)? as u8 })
    }

    /// The entry at `position`, unless that is the end.
    #[inline]
    pub fn entry(&self, position: Position) -> Option<Entry<'a, K>> {
        let node = position.node as usize;
        let is_entry = node < self.nodes() && (position.slot as usize) < self.count(node);
        is_entry.then(|| self.node(node).entry(position.slot as usize))
    }

    /// How many entries are before `position`.
    pub(crate) fn rank(&self, position: Position) -> usize {
        let before: usize = (0..(position.node as usize).min(self.nodes())).map(|node| self.count(node)).sum();
        before + position.slot as usize
    }

    /// The place of the entry that so many are before; the end if there are not as many.
    pub(crate) fn place(&self, mut rank: usize) -> Position {
        for node in 0..self.nodes() {
            let count = self.count(node);
            if rank < count {
                return Position { node: node as u8, slot: rank as u8 };
            }
            rank -= count;
        }
        self.end()
    }

    /// The child whose key space has `key`: the last entry at or before it.
    #[inline]
    pub fn child_for(&self, key: K::Key<'_>) -> Option<Block> {
        self.child(self.child_place(key)?)
    }

    /// The child whose key space has the keys just before `key`: the last entry before it.
    pub fn child_before(&self, key: K::Key<'_>) -> Option<Block> {
        self.child(self.child_place_before(key)?)
    }

    /// Where the child for `key` is.
    #[inline]
    pub(crate) fn child_place(&self, key: K::Key<'_>) -> Option<Position> {
        let position = self.locate(key);
        let node = position.node as usize;
        if node < self.nodes() {
            // The entry there may be the key itself.
            let node = self.node(node);
            let slot = position.slot as usize;
            if slot < node.count && node.compare(slot, key).is_eq() {
                return Some(position);
            }
        }
        self.previous(position)
    }

    /// Where the child before `key` is.
    pub(crate) fn child_place_before(&self, key: K::Key<'_>) -> Option<Position> {
        self.previous(self.locate(key))
    }

    /// The child that the entry at `position` points to.
    #[inline]
    fn child(&self, position: Position) -> Option<Block> {
        self.entry(position).map(|entry| entry.child)
    }

    /// Adds to a change of the page what inserting an entry from outside takes; `false` if the page must be repacked first,
    /// or split: the change is of no use then.
    #[must_use]
    #[inline(always)]
    pub fn insertion<'e, P: Copy>(&self, key: K::Key<'_>, entry: &Entry<'e, K>, change: &mut Change<'e, P>) -> bool {
        let found = self.locate(key);
        let (lane, cell) = K::parts(self, found, entry);
        let spare = K::parted(self, found, cell);
        let separator = |node: u8, keep: u8| {
            let full = self.node(node as usize);
            if (keep as usize) < full.len() { full.lane(keep as usize).to_u128() } else { lane.to_u128() }
        };
        let split = |node, keep| Edit::SplitNode { node, keep, separator: separator(node, keep) };
        if spare != 0 {
            change.add(Edit::Reserve { bytes: spare as u16 });
        }
        let place = match self.plan_at(found, lane, cell, spare, Thrift::Usual) {
            Plan::Insert(place) => place,
            Plan::Split { node, keep, then } => {
                change.add(split(node, keep));
                then
            }
            Plan::Part { node, keep } => {
                change.add(split(node, keep));
                change.add(Edit::SplitNode { node, keep, separator: lane.to_u128() });
                after(node)
            }
            Plan::Balance { left, then } => {
                change.add(Edit::Balance { left });
                then
            }
            Plan::Compact(place) => {
                change.add(Edit::Compact { node: place.node });
                place
            }
            Plan::Repack { .. } | Plan::Full => return false,
        };
        let (lane, tail, child) = (lane.to_u128(), entry.tail, entry.child);
        change.add(Edit::Insert { place, lane, tail, child, cell });
        true
    }

    /// What inserting an entry from outside the page takes.
    pub fn plan(&self, key: K::Key<'_>, entry: &Entry<'_, K>, thrift: Thrift) -> Plan {
        let place = self.locate(key);
        let (lane, cell) = K::parts(self, place, entry);
        self.plan_at(place, lane, cell, K::parted(self, place, cell), thrift)
    }

    fn plan_at(&self, place: Position, lane: K::Lane, cell: Cell<'_>, spare: usize, thrift: Thrift) -> Plan {
        let (size, head) = (cell.size(self.layout) + spare, cell.at().map(|at| (lane, at)));
        let plan = self.room().checked_sub(size).and_then(|room| match () {
            () if self.is_empty() => (self.free_nodes(room) > 0).then_some(Plan::Insert(place)),
            () if self.is_run(place.node as usize) => self.plan_in_run(place, head, room),
            () => self.plan_in_node(place, head, room),
        });
        plan.unwrap_or_else(|| match arrange::repacked(self.bytes, self.layout, size, thrift) {
            Some(_) => Plan::Repack { cell: size as u16 },
            None => Plan::Full,
        })
    }

    /// What takes neither a repack nor another page, where the place is in a node that is no run, and there are so
    /// many bytes of room beside the entry's cell. `head` is all of the entry but its tail, if its cell is there.
    fn plan_in_node(&self, place: Position, head: Option<(K::Lane, u16)>, room: usize) -> Option<Plan> {
        let (node, slot, capacity) = (place.node as usize, place.slot as usize, self.layout.capacity);
        if !self.is_full(node) {
            return Some(Plan::Insert(place));
        }
        if self.layout.run > 0 && head.is_some_and(|head| self.node(node).is_all(head)) {
            return Some(Plan::Compact(place));
        }
        if self.free_nodes(room) > 0 {
            // Ascending keys leave full nodes behind.
            let appends = node + 1 == self.nodes() && slot == capacity;
            let keep = if appends { slot } else { capacity / 2 };
            let then = if appends { after(place.node) } else { cut(place.node, slot, keep) };
            return Some(Plan::Split { node: place.node, keep: keep as u8, then });
        }
        self.neighbour_with_room(node).map(|left| self.balance(left, place))
    }

    /// The same, where the place is in a run or at one of its ends.
    fn plan_in_run(&self, place: Position, head: Option<(K::Lane, u16)>, room: usize) -> Option<Plan> {
        let (node, slot, count) = (place.node as usize, place.slot as usize, self.count(place.node as usize));
        let has_head = |node: usize| Some(self.node(node).head(0)) == head;
        let (belongs, is_end) = (has_head(node), slot == count);
        if belongs && !self.is_full(node) {
            return Some(Plan::Insert(place));
        }
        let (next, free) = (node + 1, self.free_nodes(room));
        let next_has_room = is_end && next < self.nodes() && !self.is_full(next);
        if next_has_room && (has_head(next) || !self.is_run(next) && (free == 0 || !belongs)) {
            return Some(Plan::Insert(after(place.node)));
        }
        match free {
            0 if belongs => self.neighbour_with_room(node).map(|left| self.balance(left, place)),
            0 => None,
            _ if is_end => Some(Plan::Split { node: place.node, keep: place.slot, then: after(place.node) }),
            _ if belongs => {
                Some(Plan::Split { node: place.node, keep: (count / 2) as u8, then: cut(place.node, slot, count / 2) })
            }
            _ if slot == 0 => Some(Plan::Split { node: place.node, keep: 0, then: place }),
            1 => None,
            _ => Some(Plan::Part { node: place.node, keep: place.slot }),
        }
    }

    /// Evens out a node and its right neighbour, one of which `place` is in.
    fn balance(&self, left: usize, place: Position) -> Plan {
        let total = self.count(left) + self.count(left + 1);
        let before = if left == place.node as usize { 0 } else { self.count(left) };
        Plan::Balance { left: left as u8, then: cut(left as u8, before + place.slot as usize, total.div_ceil(2)) }
    }

    /// The left one of a full node and the neighbour it can share entries with so that both get room. Runs share with
    /// runs of the same key.
    fn neighbour_with_room(&self, node: usize) -> Option<usize> {
        let most = self.layout.room_of(self.stored_count(node));
        let enough = most.saturating_sub(most.div_ceil(8).max(2));
        let kind = |n: usize| self.is_run(n).then(|| self.node(n).head(0));
        let is_alike = |n: usize| n < self.nodes() && kind(n) == kind(node);
        let room = |n: usize| is_alike(n).then(|| self.count(n)).filter(|&count| count <= enough);
        let (left, right) = (node.checked_sub(1).and_then(room), room(node + 1));
        match (left, right) {
            (Some(l), Some(r)) if r < l => Some(node),
            (Some(_), _) => Some(node - 1),
            (None, Some(_)) => Some(node),
            (None, None) => None,
        }
    }

    /// How many nodes can be added if they may take so many bytes.
    fn free_nodes(&self, room: usize) -> usize {
        (room / self.layout.node_size()).min(self.layout.nodes - self.nodes())
    }

    /// Unused bytes between the in-page tree and what lies at the page's end.
    fn room(&self) -> usize {
        edit::space_end(self.bytes, self.layout).saturating_sub(self.used_lines() * LINE)
    }

    /// Lines in use from the page's start.
    fn used_lines(&self) -> usize {
        (self.bytes[at::LINES] as usize).clamp(self.layout.first_node_line(), END_LINE)
    }

    /// All entries in key order.
    pub fn iter(self) -> impl Iterator<Item = Entry<'a, K>> + Clone + use<'a, K> {
        (0..self.nodes()).flat_map(move |node| {
            let node = self.node(node);
            (0..node.len()).map(move |slot| node.entry(slot))
        })
    }
}

/// The first place of the node after one.
fn after(node: u8) -> Position {
    Position { node: node + 1, slot: 0 }
}

/// Where an insertion point `slot` lands when the first `keep` entries stay in `node` and the rest go to the next one.
fn cut(node: u8, slot: usize, keep: usize) -> Position {
    if slot > keep {
        return Position { node: node + 1, slot: (slot - keep) as u8 };
    }
    Position { node, slot: slot as u8 }
}

/// An entry as stored, or to be stored.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a, K: KeySpace> {
    /// The key, less the tail.
    pub key: K::Stored<'a>,
    /// The heap TID with its flags; in an inner page, what breaks ties between equal keys.
    pub tail: Tail,
    /// The child an inner entry points to; `NO_BLOCK` in a leaf.
    pub child: Block,
}

impl<L: Lane> Entry<'_, L> {
    /// The full key.
    #[inline]
    pub fn key(&self) -> Key<L> {
        Key::new(self.key, self.tail)
    }

    /// The fence between the entry before this one and this one: in a leaf the shortest, so that a search for a lane that
    /// begins a page need not look left of it.
    pub(crate) fn fence(&self, level: u8, before: &Entry<'_, L>) -> Key<L> {
        let tail = if level == 0 && before.key < self.key { Tail::MIN } else { self.tail };
        Key::new(self.key, tail)
    }
}

impl<'a, L: Lane> Node<'a, L> {
    /// The tails of a leaf's entries in some slots, those of them that there are.
    #[inline(always)]
    pub fn tails(&self, slots: Range<usize>) -> &'a [[u8; Tail::SIZE]] {
        self.array(self.payload, Tail::SIZE, slots).as_chunks().0
    }

    /// Calls `each` with the lanes of the entries in some slots, those of them that there are, and a value for each.
    #[inline(always)]
    pub fn lanes_with<T: Copy>(&self, slots: Range<usize>, values: &[T], mut each: impl FnMut(L, T)) {
        if self.is_run {
            let (lane, count) = (self.lane(0), slots.end.min(self.count).saturating_sub(slots.start));
            return values.iter().take(count).for_each(|value| each(lane, *value));
        }
        let lanes = self.array(self.start, L::SIZE, slots).chunks_exact(L::SIZE);
        lanes.zip(values).for_each(|(lane, value)| each(L::read(lane, 0), *value));
    }

    /// Some of an array's elements of a size.
    #[inline(always)]
    fn array(&self, start: usize, size: usize, slots: Range<usize>) -> &'a [u8] {
        let (from, to) = (slots.start.min(self.count), slots.end.min(self.count));
        self.page.bytes.get(start + from * size..start + to * size).unwrap_or_default()
    }
}

impl<L: Lane> Page<'_, L> {
    /// The full key at `position`, unless that is the end.
    #[inline]
    pub fn key(&self, position: Position) -> Option<Key<L>> {
        self.entry(position).map(|entry| entry.key())
    }
}

impl<'a, K: KeySpace> Node<'a, K> {
    /// Asks for all the node's lines at once (paper §3.1): of the policies, `fpbtree-lab thesis-figure5.6` has none that is
    /// better for lookups.
    #[inline(always)]
    fn prefetch(&self, lines: usize) {
        for line in 0..lines * LINE_WIDTH {
            simd::prefetch(self.page.bytes.as_ptr().wrapping_add(self.start + line * CACHE_LINE));
        }
    }

    /// Entries in the node.
    #[inline]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether the node holds nothing.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The lane of the entry in `slot`.
    #[inline]
    pub fn lane(&self, slot: usize) -> K::Lane {
        let slot = if self.is_run { 0 } else { slot };
        K::Lane::read(self.page.bytes, self.start + slot * K::Lane::SIZE)
    }

    /// All but the tail of the entry in `slot`: its lane, and where its cell begins.
    fn head(&self, slot: usize) -> (K::Lane, u16) {
        (self.lane(slot), self.cell(slot))
    }

    /// Whether all entries have this head.
    fn is_all(&self, head: (K::Lane, u16)) -> bool {
        (0..self.count).all(|slot| self.head(slot) == head)
    }

    /// The tail of the entry in `slot`, flags included.
    #[inline]
    pub fn tail(&self, slot: usize) -> Tail {
        Tail::read(self.page.bytes, self.tail_at(slot))
    }

    /// Whether a leaf's node ends where its count says: no row's tail is zero, and that of a slot not in use is.
    #[inline]
    pub(crate) fn is_ended(&self) -> bool {
        let layout = self.page.layout;
        let room = if self.is_run { layout.run } else { layout.capacity };
        let is_used = |slot: usize| self.tail(slot).raw() != 0;
        self.count > 0 && is_used(self.count - 1) && (self.count >= room || !is_used(self.count))
    }

    /// The lines that the node takes.
    #[inline]
    pub(crate) fn lines(&self) -> LineSet {
        LineSet::of(self.start / LINE, self.page.layout.x)
    }

    /// Where in the page the tail of the entry in `slot` begins; its first byte has the flags.
    #[inline]
    pub fn tail_at(&self, slot: usize) -> usize {
        self.payload + slot * self.step
    }

    /// Where in the page the rest of the payload of the entry in `slot` begins.
    #[inline]
    fn more_at(&self, slot: usize) -> usize {
        if self.is_run { self.start + K::Lane::SIZE } else { self.tail_at(slot) + Tail::SIZE }
    }

    /// Where the cell of the entry in `slot` begins; 0 if it has none.
    #[inline]
    fn cell(&self, slot: usize) -> u16 {
        let layout = self.page.layout;
        if layout.kind.is_prefix() { read_u16(self.page.bytes, self.more_at(slot) + layout.cell_at()) } else { 0 }
    }

    /// The key of the entry in `slot`, less its tail.
    #[inline]
    pub fn stored(&self, slot: usize) -> K::Stored<'a> {
        K::stored(self, slot)
    }

    /// The entry in `slot`.
    #[inline]
    pub fn entry(&self, slot: usize) -> Entry<'a, K> {
        let child = if self.page.level() == 0 { NO_BLOCK } else { self.child(slot) };
        Entry { key: self.stored(slot), tail: self.tail(slot), child }
    }

    #[inline]
    fn child(&self, slot: usize) -> Block {
        read_u32(self.page.bytes, self.more_at(slot))
    }

    /// How `key` is ordered against the entry in `slot`.
    #[inline]
    fn compare(&self, slot: usize, key: K::Key<'_>) -> Ordering {
        match K::lane_in(key, &self.page) {
            Ok(lane) => lane.cmp(&self.lane(slot)).then_with(|| K::compare_tied(key, self, slot)),
            Err(side) => side,
        }
    }

    fn starts_at_or_before(&self, lane: K::Lane, key: K::Key<'_>) -> bool {
        let first = self.lane(0);
        first < lane || first == lane && K::compare_tied(key, self, 0).is_ge()
    }

    /// The first slot whose entry is at or after `key`; one past the last if there is none.
    #[inline]
    fn lower_bound(&self, lane: K::Lane, key: K::Key<'_>) -> usize {
        if self.is_run {
            return self.lower_bound_in_run(lane, key);
        }
        let bytes = self.page.bytes;
        let slot = K::Lane::count_less(bytes, self.start, self.count, lane);
        if K::begins_lane(key) || slot == self.count || self.lane(slot) != lane {
            return slot;
        }
        let end = K::Lane::count_less_equal(bytes, self.start, self.count, lane);
        partition(slot, end, |slot| K::compare_tied(key, self, slot).is_gt())
    }

    fn lower_bound_in_run(&self, lane: K::Lane, key: K::Key<'_>) -> usize {
        match lane.cmp(&self.lane(0)).then_with(|| K::compare_head(key, self)) {
            Ordering::Less => 0,
            Ordering::Greater => self.count,
            Ordering::Equal => partition(0, self.count, |slot| K::tail(key) > self.tail(slot).position()),
        }
    }
}

/// The first slot of a range of which something is not true; the end if there is none.
#[inline]
fn partition(mut slot: usize, mut end: usize, is_before: impl Fn(usize) -> bool) -> usize {
    while slot < end {
        let middle = (slot + end) / 2;
        if is_before(middle) {
            slot = middle + 1;
        } else {
            end = middle;
        }
    }
    slot
}

/// Says what is wrong with a page that is not one of this index's.
#[cold]
fn refuse(bytes: &PageBytes, geometry: &Geometry, block: Block) -> Error {
    if is_new(bytes) {
        return Error::Corrupt { block, what: "page is all zeroes" };
    }
    if read_u64(bytes, at::BUILD_ID) != geometry.build_id {
        return Error::Corrupt { block, what: "page does not carry this index's build id" };
    }
    let format = bytes[at::STAMP];
    if format != FORMAT {
        return Error::UnknownFormat { block, format };
    }
    Error::Corrupt { block, what: "page is not laid out as this index's pages are" }
}

/// How the keys of an index are made of its columns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// They fit a lane.
    Exact(KeyShape),
    /// They are byte strings.
    Long(LongShape),
}

impl Shape {
    /// The lane that goes with it.
    pub fn lane_kind(&self) -> LaneKind {
        match self {
            Shape::Exact(shape) => shape.lane_kind(),
            Shape::Long(shape) if shape.has_extra() => LaneKind::PrefixExtra,
            Shape::Long(_) => LaneKind::Prefix,
        }
    }

    /// How many columns make the key.
    pub fn columns(&self) -> usize {
        match self {
            Shape::Exact(shape) => shape.columns().len(),
            Shape::Long(shape) => shape.digits().len(),
        }
    }

    /// Bytes of the columns as stored.
    fn stored_length(&self) -> usize {
        match self {
            Shape::Exact(shape) => KeyShape::COLUMN_BYTES * shape.columns().len(),
            Shape::Long(shape) => LongShape::COLUMN_BYTES * shape.digits().len(),
        }
    }

    fn to_bytes(self, out: &mut [u8]) {
        match self {
            Shape::Exact(shape) => {
                shape.to_bytes(out);
            }
            Shape::Long(shape) => shape.to_bytes(out),
        }
    }

    fn from_bytes(bytes: &[u8], columns: usize, kind: LaneKind) -> Option<Shape> {
        let shape = match kind.is_prefix() {
            false => Shape::Exact(KeyShape::from_bytes(bytes, columns)?),
            true => Shape::Long(LongShape::from_bytes(bytes, columns, kind == LaneKind::PrefixExtra)?),
        };
        (shape.lane_kind() == kind).then_some(shape)
    }
}

#[inline(always)]
fn read_u16(bytes: &PageBytes, at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

#[inline(always)]
fn read_u32(bytes: &PageBytes, at: usize) -> u32 {
    let mut image = [0; 4];
    image.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(image)
}

#[inline(always)]
fn read_u64(bytes: &PageBytes, at: usize) -> u64 {
    let mut image = [0; 8];
    image.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(image)
}

fn write_u16(bytes: &mut PageBytes, at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
}

fn write_u32(bytes: &mut PageBytes, at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn write_u64(bytes: &mut PageBytes, at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// Whether a block number is a sibling link rather than none.
pub fn is_link(block: Block) -> bool {
    block != NO_BLOCK
}
