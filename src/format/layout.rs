//! How the pages of an index are laid out: which widths their nodes have, and so where everything lies.

use super::widths::{self, Costs, NodeSizes};
use super::*;
use core::ops::Range;
use std::sync::OnceLock;

/// How the pages of one kind (leaf or inner) of an index are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Format version, lane code, `w`, `x`: the four bytes by which a page explains itself.
    pub(crate) stamp: u32,
    pub(crate) kind: LaneKind,
    pub(crate) lane: usize,
    pub(crate) w: usize,
    pub(crate) x: usize,
    /// Children the in-page root has room for.
    pub(crate) fanout: usize,
    /// In-page leaf nodes the page has room for.
    pub(crate) nodes: usize,
    /// Whether entries lead to children.
    pub(crate) has_child: bool,
}

/// Bytes of a block number.
const CHILD: usize = 4;
/// Bytes that say where in the page an entry's cell is, in entries that may have one.
pub(crate) const CELL: usize = 2;
/// Bytes of an in-page root entry beside its lane: the child's line, how many entries and heads it has, its frame.
const ROOT_POINTER: usize = 4;
/// Bytes at a node's front: the lowest block that its differences are from, and what the frame adds up to.
pub(crate) const NODE_HEADER: usize = 5;

impl Layout {
    /// What nodes have to hold, as widths are chosen for it: entries of keys in the order of the table, and of random
    /// ones by the millions.
    pub fn node_sizes(kind: LaneKind, is_leaf: bool) -> NodeSizes {
        let lanes = match kind {
            LaneKind::U32 => [1, 2],
            LaneKind::U64 => [1, 5],
            LaneKind::U128 => [8, 14],
            LaneKind::Prefix | LaneKind::PrefixPayload => [4 + CELL, 8 + CELL],
        };
        let pointers = if is_leaf { [2, 4] } else { [1, 3] };
        let entry = |at: usize| lanes[at] + pointers[at];
        let nonleaf_entry = kind.size() + ROOT_POINTER;
        NodeSizes { nonleaf_entry, nonleaf_header: 0, leaf_entry: [entry(0), entry(1)], leaf_header: NODE_HEADER }
    }

    /// Chooses the widths by the paper's goal 𝒢 (§3.1.1).
    fn choose(lane: LaneKind, is_leaf: bool) -> Layout {
        let sizes = Layout::node_sizes(lane, is_leaf);
        let lines = (END_LINE - FIRST_LINE) * LINE_WIDTH;
        let is_whole = |lines: usize| lines.is_multiple_of(LINE_WIDTH);
        let candidates = widths::candidates(lines, sizes, Costs::default(), MAX_NODE_ENTRIES)
            .filter(|widths| widths.levels == 2 && is_whole(widths.nonleaf) && is_whole(widths.leaf));
        let widths = widths::select_near(candidates);
        let [w, x] = [widths.nonleaf, widths.leaf].map(|lines| lines / LINE_WIDTH);
        Layout::new(lane, is_leaf, w, x).expect("the selection keeps to the page")
    }

    /// A layout of given widths, or `None` where they cannot work on a page.
    fn new(lane: LaneKind, is_leaf: bool, w: usize, x: usize) -> Option<Layout> {
        if w == 0 || x == 0 || FIRST_LINE + w + x > END_LINE {
            return None;
        }
        let size = lane.size();
        let fanout = w * LINE / (size + ROOT_POINTER);
        let nodes = fanout.min((END_LINE - FIRST_LINE - w) / x);
        let stamp = u32::from_le_bytes([FORMAT, lane.code(), w as u8, x as u8]);
        let layout = Layout { stamp, kind: lane, lane: size, w, x, fanout, nodes, has_child: !is_leaf };
        (nodes >= 2 && layout.node_room() / layout.widest_entry() >= 3).then_some(layout)
    }

    /// The layout a page says it has.
    pub(crate) fn of_page(bytes: &PageBytes) -> Option<Layout> {
        // The first of each kind that was met, as mostly all others are. To work it out takes divisions, and so as long
        // as the rest of an insertion's redo.
        static MET: [[OnceLock<Layout>; 2]; LaneKind::ALL.len()] =
            [const { [const { OnceLock::new() }; 2] }; LaneKind::ALL.len()];
        let stamp = read_u32(bytes, at::STAMP);
        let ([format, lane, w, x], is_leaf) = (stamp.to_le_bytes(), bytes[at::LEVEL] == 0);
        let kind = LaneKind::from_code(lane)?;
        let met = &MET[lane as usize - 1][usize::from(is_leaf)];
        if let Some(layout) = met.get().filter(|layout| layout.stamp == stamp) {
            return Some(*layout);
        }
        if format != FORMAT {
            return None;
        }
        let layout = Layout::new(kind, is_leaf, w as usize, x as usize)?;
        // Another thread may have been the first.
        let _ = met.set(layout);
        Some(layout)
    }

    /// Cache lines of an in-page nonleaf node and of an in-page leaf node: the paper's `w` and `x`.
    pub fn widths(&self) -> (usize, usize) {
        (self.w * LINE_WIDTH, self.x * LINE_WIDTH)
    }

    /// Entries a page of this layout has room for, whatever their keys and TIDs, less what their cells take.
    pub fn page_entries(&self) -> usize {
        self.nodes * (self.node_room() / self.widest_entry()).min(MAX_NODE_ENTRIES)
    }

    /// The most entries a page of this layout can have.
    pub fn most_entries(&self) -> usize {
        let least = if self.has_child { 1 } else { Tid::LEAST_SIZE };
        self.nodes * (self.node_room() / least).min(MAX_NODE_ENTRIES)
    }

    /// Entries a full page of this layout has, of keys far from each other, with a cell of so many bytes each.
    pub fn usual_entries(&self, cell: usize) -> usize {
        let [_, far] = Layout::node_sizes(self.kind, !self.has_child).leaf_entry;
        let of_node = (self.node_room() / far).min(MAX_NODE_ENTRIES);
        (self.nodes * of_node).min(self.space() * of_node / (self.node_size() + cell * of_node))
    }

    /// Bytes of an entry that has nothing in common with its node.
    pub(crate) fn widest_entry(&self) -> usize {
        let child = if self.has_child { CHILD } else { 0 };
        self.lane + Tid::SIZE + child + self.cell_width()
    }

    /// Bytes that say where an entry's cell is.
    #[inline]
    pub(crate) fn cell_width(&self) -> usize {
        if self.kind.is_prefix() { CELL } else { 0 }
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

    pub(crate) fn root_heads(&self) -> usize {
        self.root_counts() + self.fanout
    }

    pub(crate) fn root_frames(&self) -> usize {
        self.root_heads() + self.fanout
    }

    /// The in-page root's arrays: where each begins, and bytes of an element.
    pub(crate) fn root_arrays(&self) -> [(usize, usize); 1 + ROOT_POINTER] {
        [
            (self.root_lanes(), self.lane),
            (self.root_lines(), 1),
            (self.root_counts(), 1),
            (self.root_heads(), 1),
            (self.root_frames(), 1),
        ]
    }

    /// Where a node starts. A line number no node can have stands for the first node's.
    #[inline]
    pub(crate) fn node_start(&self, line: u8) -> usize {
        let (line, first) = (line as usize, self.first_node_line());
        let sound = line >= first && line + self.x <= END_LINE;
        (if sound { line } else { first }) * LINE
    }

    /// Bytes of a node.
    #[inline]
    pub(crate) fn node_size(&self) -> usize {
        self.x * LINE
    }

    /// Bytes of a node that its entries may take.
    #[inline]
    pub(crate) fn node_room(&self) -> usize {
        self.node_size() - NODE_HEADER
    }

    /// Bytes for nodes and cells.
    pub(crate) fn space(&self) -> usize {
        SPACE_END - self.first_node_line() * LINE
    }

    /// The most nodes beside cells that take so many bytes.
    pub(crate) fn most_nodes(&self, cells: usize) -> usize {
        self.nodes.min(self.space().saturating_sub(cells) / self.node_size())
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
