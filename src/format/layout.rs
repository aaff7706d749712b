//! How the pages of an index are laid out: which widths their nodes have, and so where everything lies.

use super::widths::{self, Costs, NodeSizes};
use super::*;
use core::ops::Range;

/// How the pages of one kind (leaf or inner) of an index are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Format version, lane code, `w`, `x`: the four bytes by which a page explains itself.
    pub(crate) stamp: u32,
    pub(crate) kind: LaneKind,
    pub(crate) lane: usize,
    pub(crate) pointer: usize,
    pub(crate) w: usize,
    pub(crate) x: usize,
    /// Children the in-page root has room for.
    pub(crate) fanout: usize,
    /// Entries an in-page leaf node has room for.
    pub(crate) capacity: usize,
    /// Entries a run has room for; 0 where there are no runs.
    pub(crate) run: usize,
    /// In-page leaf nodes the page has room for.
    pub(crate) nodes: usize,
}

/// Bytes of a block number.
const CHILD: usize = 4;
/// Bytes that say where in the page an entry's cell is, in the pointer of entries that may have one.
pub(crate) const CELL: usize = 2;
/// Bytes of an in-page root entry beside its lane: the child's line, and how many entries it holds.
const ROOT_POINTER: usize = 2;

impl Layout {
    /// Bytes of an entry beside its lane: in a leaf the TID, in an inner page also the child; with prefix lanes also
    /// where the cell is.
    const fn pointer(kind: LaneKind, is_leaf: bool) -> usize {
        Tid::SIZE + if is_leaf { 0 } else { CHILD } + if kind.is_prefix() { CELL } else { 0 }
    }

    /// Chooses the widths by the paper's goal 𝒢 (§3.1.1).
    fn choose(lane: LaneKind, is_leaf: bool) -> Layout {
        let pointer = Layout::pointer(lane, is_leaf);
        let sizes = NodeSizes {
            nonleaf_entry: lane.size() + ROOT_POINTER,
            nonleaf_header: 0,
            leaf_entry: lane.size() + pointer,
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
        let pointer = Layout::pointer(lane, is_leaf);
        if w == 0 || x == 0 || FIRST_LINE + w + x > END_LINE {
            return None;
        }
        let size = lane.size();
        let fanout = w * LINE / (size + ROOT_POINTER);
        let capacity = (x * LINE / (size + pointer)).min(MAX_NODE_ENTRIES);
        let nodes = fanout.min((END_LINE - FIRST_LINE - w) / x);
        let head = size + pointer - Tid::SIZE;
        let run = if is_leaf { ((x * LINE - head) / Tid::SIZE).min(MAX_NODE_ENTRIES) } else { 0 };
        let stamp = u32::from_le_bytes([FORMAT, lane.code(), w as u8, x as u8]);
        (nodes >= 2 && capacity >= 4).then_some(Layout {
            stamp,
            kind: lane,
            lane: size,
            pointer,
            w,
            x,
            fanout,
            capacity,
            run: if run > capacity { run } else { 0 },
            nodes,
        })
    }

    /// The layout a page says it has.
    pub(crate) fn of_page(bytes: &PageBytes) -> Option<Layout> {
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
    pub(crate) fn room_of(&self, count: u8) -> usize {
        if count & RUN == 0 { self.capacity } else { self.run }
    }

    /// How many entries a node whose count is stored so has.
    #[inline]
    pub(crate) fn entries_of(&self, count: u8) -> usize {
        ((count & !RUN) as usize).min(self.room_of(count))
    }

    /// Whether entries lead to children.
    pub(crate) fn has_child(&self) -> bool {
        self.pointer >= Tid::SIZE + CHILD
    }

    /// Where in a pointer, counted from behind the TID, it says where the entry's cell is.
    pub(crate) fn cell_at(&self) -> usize {
        self.pointer - Tid::SIZE - CELL
    }

    /// Bytes of an entry outside a run.
    pub(crate) fn entry(&self) -> usize {
        self.lane + self.pointer
    }

    /// Bytes of the cell of an entry with so many bytes behind its lane.
    pub fn cell_size(&self, suffix: usize, payload: usize) -> usize {
        if suffix + payload == 0 {
            return 0;
        }
        let payload_length = if self.kind == LaneKind::PrefixPayload { length_size(payload) } else { 0 };
        length_size(suffix) + payload_length + suffix + payload
    }

    pub(crate) fn first_node_line(&self) -> usize {
        FIRST_LINE + self.w
    }

    pub(crate) fn root_lanes(&self) -> usize {
        FIRST_LINE * LINE
    }

    pub(crate) fn root_lines(&self) -> usize {
        self.root_lanes() + self.fanout * self.lane
    }

    pub(crate) fn root_counts(&self) -> usize {
        self.root_lines() + self.fanout
    }

    /// Where a node's pointer array begins, from the node's start.
    fn node_pointer(&self) -> usize {
        self.capacity * self.lane
    }

    /// Bytes of a pointer behind the TID.
    #[inline]
    pub(crate) fn more(&self) -> usize {
        self.pointer - Tid::SIZE
    }

    /// Bytes at the front of a run: what its entries have in common.
    #[inline]
    pub(crate) fn head(&self) -> usize {
        self.lane + self.more()
    }

    /// The two arrays of a node that starts at a byte: where each begins, and how far its elements are apart.
    #[inline]
    pub(crate) fn arrays(&self, start: usize, stored: u8) -> [(usize, usize); 2] {
        match stored & RUN == 0 {
            true => [(start, self.lane), (start + self.node_pointer(), self.pointer)],
            false => [(start, 0), (start + self.head(), Tid::SIZE)],
        }
    }

    /// Where a node starts. A line number no node can have stands for the first node's.
    #[inline]
    pub(crate) fn node_start(&self, line: u8) -> usize {
        let (line, first) = (line as usize, self.first_node_line());
        let sound = line >= first && line + self.x <= END_LINE;
        (if sound { line } else { first }) * LINE
    }

    /// Bytes of a node.
    pub(crate) fn node_size(&self) -> usize {
        self.x * LINE
    }

    /// Bytes for nodes and cells.
    pub(crate) fn space(&self) -> usize {
        SPACE_END - self.first_node_line() * LINE
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

/// Bytes that say how long `length` bytes are.
pub(crate) fn length_size(length: usize) -> usize {
    if length < 0x80 { 1 } else { 2 }
}
