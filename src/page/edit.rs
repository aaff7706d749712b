//! What can be done to a page. Every method notes the bytes it writes, never compares keys, and reads nothing but the
//! page and its arguments (I7). One that says whether it fits the page leaves one that it does not fit in any state.

use super::arrange::{self, Stored};
use super::bytes::BytesFence;
use super::frame::{Fit, Frame, Item, Items, Place, Widths, separator, write_node};
use super::*;
use arrayvec::ArrayVec;

/// A page being changed. The caller holds its exclusive lock.
pub struct PageMut<'a> {
    bytes: &'a mut PageBytes,
    layout: Layout,
    ranges: &'a mut Ranges,
}

/// A page's neighbours, fences and level.
#[derive(Clone, Copy, Debug)]
pub struct Links<'f, K: Keys> {
    /// Level in the tree; 0 for a leaf.
    pub level: u8,
    /// Left sibling or `NO_BLOCK`.
    pub left: Block,
    /// Right sibling or `NO_BLOCK`.
    pub right: Block,
    /// Inclusive.
    pub low: K::Fence<'f>,
    /// Exclusive.
    pub high: K::Fence<'f>,
    /// How full the in-page nodes of a new leaf are to be, in percent, if that leaves it enough nodes.
    pub fill: usize,
}

impl<K: Keys> Links<'_, K> {
    /// The fill of a page half that was full: so there are as many free slots as there can be.
    pub const HALF: usize = arrange::HALF_FILL;
}

impl Cell<'_> {
    /// Bytes to be added to the page for it.
    pub(super) fn size(self, layout: &Layout) -> usize {
        match self {
            Cell::New { suffix, payload } => layout.cell_size(suffix.len(), payload.len()),
            _ => 0,
        }
    }
}

impl<K: KeySpace> Links<'_, K> {
    /// Whether entries are to be spread over all the page's in-page leaf nodes, so that insertions find free slots: a
    /// leaf's are. An inner page's are packed one node after another (paper §3.1.2, bulk load), and so are the last
    /// leaf's: ascending keys then fill it node by node.
    pub(super) fn is_spread(&self) -> bool {
        self.level == 0 && is_link(self.right)
    }

    /// How full the in-page nodes are to be, in percent.
    pub(super) fn fill(&self) -> usize {
        if self.is_spread() { self.fill } else { 100 }
    }
}

/// A page without entries, and without fences.
pub(super) fn new_page<K: KeySpace>(geometry: &Geometry, links: &Links<'_, K>) -> PageBytes {
    let mut bytes = [0; PAGE_SIZE];
    write_u64(&mut bytes, at::BUILD_ID, geometry.build_id);
    write_u32(&mut bytes, at::STAMP, geometry.layout(links.level).stamp);
    bytes[at::LEVEL] = links.level;
    write_u32(&mut bytes, at::LEFT, links.left);
    write_u32(&mut bytes, at::RIGHT, links.right);
    write_u16(&mut bytes, at::PD_UPPER, SPACE_END as u16);
    write_special(&mut bytes, geometry.build_id);
    bytes
}

/// Where the bytes end that in-page nodes and new cells may take.
pub(super) fn space_end(bytes: &PageBytes, layout: &Layout) -> usize {
    match layout.kind.is_prefix() {
        true => (read_u16(bytes, at::PD_UPPER) as usize).min(SPACE_END),
        false => END_LINE * LINE,
    }
}

pub(super) fn write_fence(bytes: &mut PageBytes, at: usize, key: Key<u128>) {
    key.lane.write(bytes, at);
    key.tid.write(bytes, at + at::FENCE_TID);
}

/// Records how many lines are used, for us and (as `pd_lower`) for the server.
pub(super) fn write_lines(bytes: &mut PageBytes, lines: usize) {
    bytes[at::LINES] = lines as u8;
    let upper = read_u16(bytes, at::PD_UPPER) as usize;
    write_server_header(bytes, lines * LINE, upper);
}

/// The server's page header, less LSN, checksum and flags: `lower` and `upper` say where the unused bytes are.
pub(super) fn write_server_header(bytes: &mut PageBytes, lower: usize, upper: usize) {
    write_u16(bytes, at::PD_LOWER, lower as u16);
    write_u16(bytes, at::PD_UPPER, upper as u16);
    write_u16(bytes, at::PD_SPECIAL, SPACE_END as u16);
    write_u16(bytes, at::PD_PAGESIZE_VERSION, PAGESIZE_VERSION);
}

pub(super) fn write_special(bytes: &mut PageBytes, build_id: u64) {
    write_u32(bytes, PAGE_SIZE - SPECIAL, build_id as u32);
    write_u16(bytes, PAGE_SIZE - 2, PAGE_ID);
}

/// Asks the hardware for a node of a page that is to be changed soon. The page may be anything: it is only a hint.
pub fn prefetch_node(bytes: &PageBytes, node: u8) {
    if let Some(layout) = Layout::of_page(bytes) {
        ask_for_node(bytes, &layout, node);
    }
}

/// The same of all that an insertion into the node looks at: redo comes to most pages unprepared.
pub(super) fn prefetch_insertion(bytes: &PageBytes, node: u8) {
    if let Some(layout) = Layout::of_page(bytes) {
        let root = layout.root_lines() / CACHE_LINE..layout.root_counts() / CACHE_LINE + 1;
        root.for_each(|line| simd::prefetch(bytes.as_ptr().wrapping_add(line * CACHE_LINE)));
        ask_for_node(bytes, &layout, node);
    }
}

fn ask_for_node(bytes: &PageBytes, layout: &Layout, node: u8) {
    let Some(&line) = bytes.get(layout.root_lines() + node as usize) else { return };
    let start = layout.node_start(line);
    (0..layout.node_size()).step_by(CACHE_LINE).for_each(|at| simd::prefetch(bytes.as_ptr().wrapping_add(start + at)));
}

impl<'a> PageMut<'a> {
    /// A page to change, laid out as it says, or `None` if it is no fpbtree page. Writes go to `ranges`.
    pub fn open(bytes: &'a mut PageBytes, ranges: &'a mut Ranges) -> Option<PageMut<'a>> {
        let layout = Layout::of_page(bytes)?;
        Some(PageMut { bytes, layout, ranges })
    }

    /// Makes the page a copy of `image`, less the LSN and checksum that the server keeps in it.
    pub fn replace(bytes: &mut PageBytes, image: &PageBytes, ranges: &mut Ranges) {
        bytes[at::PD_LOWER..].copy_from_slice(&image[at::PD_LOWER..]);
        bytes[10..at::PD_LOWER].fill(0);
        ranges.add_whole_page();
    }

    fn nodes(&self) -> usize {
        (self.bytes[at::NODES] as usize).min(self.layout.nodes)
    }

    fn lines(&self) -> usize {
        (self.bytes[at::LINES] as usize).clamp(self.layout.first_node_line(), END_LINE)
    }

    #[inline(always)]
    fn frame(&self, node: usize) -> Frame {
        Frame::of(self.bytes, &self.layout, node)
    }

    fn count(&self, node: usize) -> usize {
        self.frame(node).count
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        self.ranges.add(at, bytes.len());
    }

    fn set_byte(&mut self, at: usize, value: u8) {
        self.write(at, &[value]);
    }

    fn clear(&mut self, at: usize, length: usize) {
        self.bytes[at..at + length].fill(0);
        self.ranges.add(at, length);
    }

    /// Makes a node one of these entries, if it has room for them.
    fn write_node(&mut self, node: usize, items: &[Item]) -> bool {
        self.note_node(node);
        write_node(self.bytes, &self.layout, node, items)
    }

    /// Notes that a node, and what the in-page root says of it, is written.
    fn note_node(&mut self, node: usize) {
        self.ranges.add(self.frame(node).start, self.layout.node_size());
        for (array, size) in self.layout.root_arrays() {
            self.ranges.add(array + node * size, size);
        }
    }

    /// Sets how many lines are used. Those given up become zero; that is not logged, for redo zeroes what is unused.
    fn set_lines(&mut self, lines: usize) {
        let before = self.lines();
        write_lines(self.bytes, lines);
        self.ranges.add(at::PD_LOWER, 2);
        self.ranges.add(at::LINES, 1);
        if lines < before {
            self.bytes[lines * LINE..before * LINE].fill(0);
        }
    }

    /// Makes room for (or, with `to < from`, closes) an entry in each of the in-page root's arrays.
    fn shift_root(&mut self, from: usize, to: usize, count: usize) {
        for (array, size) in self.layout.root_arrays() {
            self.bytes.copy_within(array + from * size..array + (from + count) * size, array + to * size);
            self.ranges.add(array + to * size, count * size);
        }
    }

    /// Adds an empty node at place `node` of the in-page root, on lines not used before.
    fn add_node(&mut self, node: usize) {
        let (nodes, line) = (self.nodes(), self.lines());
        self.shift_root(node, node + 1, nodes - node);
        for (array, size) in self.layout.root_arrays() {
            self.clear(array + node * size, size);
        }
        self.set_byte(self.layout.root_lines() + node, line as u8);
        self.clear(line * LINE, self.layout.x * LINE);
        self.set_byte(at::NODES, nodes as u8 + 1);
        self.set_lines(line + self.layout.x);
    }

    /// Takes a node out of the in-page root. Its lines, which become zero, are used again after the next repack, or when
    /// the page is empty.
    fn drop_node(&mut self, node: usize) {
        self.write_node(node, &[]);
        let last = self.nodes() - 1;
        self.shift_root(node + 1, node, last - node);
        for (array, size) in self.layout.root_arrays() {
            self.clear(array + last * size, size);
        }
        self.set_byte(at::NODES, last as u8);
        if last == 0 {
            self.set_lines(self.layout.first_node_line());
        }
    }

    /// Puts an entry at `place`; or the first one in an empty page. A node whose frame it does not fit gets another.
    pub fn insert(&mut self, place: Position, lane: u128, tid: Tid, child: Block, cell: Cell<'_>) -> bool {
        let (node, slot) = (place.node as usize, place.slot as usize);
        let is_first = self.nodes() == 0;
        // On a sound page no lines are used then; on a damaged one the node must still have room.
        let lines = if is_first { self.layout.first_node_line() + self.layout.x } else { self.lines() };
        if lines * LINE + cell.size(&self.layout) > space_end(self.bytes, &self.layout) {
            return false;
        }
        if is_first {
            self.set_lines(self.layout.first_node_line());
            self.add_node(0);
        }
        let mut frame = self.frame(node.min(self.layout.nodes - 1));
        if node >= self.nodes() || slot > frame.count {
            return false;
        }
        let cell = match cell {
            Cell::None => 0,
            Cell::Shared(at) => at,
            Cell::New { suffix, payload } => self.add_cell(suffix, payload),
        };
        let base = separator(self.bytes, &self.layout, node);
        let item = Item { lane, tid, child, cell };
        let Some(Fit { widths, place }) = frame.place_for(self.bytes, &self.layout, base, slot, &item) else {
            return self.rewrite_with(node, slot, &item);
        };
        if widths != frame.widths {
            frame = self.widen(node, &frame, widths);
        }
        let written = frame.put(self.bytes, base, slot, &item, place);
        written.into_iter().for_each(|range| self.ranges.add(range.start, range.len()));
        self.set_byte(self.layout.root_counts() + node, frame.count as u8 + 1);
        if frame.is_grouped && matches!(place, Place::NewHead(_)) {
            let heads = self.layout.root_heads() + node;
            let (before, now) = (self.bytes[heads], self.bytes[heads].wrapping_add(1));
            self.set_byte(heads, now);
            frame.amend_check(self.bytes, before, now);
            self.ranges.add(frame.start, NODE_HEADER);
        }
        true
    }

    /// Makes the entries of a node wider.
    #[inline(never)]
    fn widen(&mut self, node: usize, frame: &Frame, widths: Widths) -> Frame {
        self.note_node(node);
        frame.widen(self.bytes, &self.layout, node, widths)
    }

    /// Puts an entry in a slot of a node, which gets another frame.
    // Not inlined: entries lie in its frame, and most insertions do without.
    #[inline(never)]
    fn rewrite_with(&mut self, node: usize, slot: usize, item: &Item) -> bool {
        let mut items = Items::new();
        arrange::add_with(self.bytes, &self.layout, node, (slot, item), &mut items);
        self.write_node(node, &items)
    }

    /// Leaves so many bytes below the cells unused.
    pub fn reserve(&mut self, bytes: u16) -> bool {
        let (lower, bytes) = (self.lines() * LINE, bytes as usize);
        let end = space_end(self.bytes, &self.layout);
        if !self.layout.kind.is_prefix() || lower + bytes > end {
            return false;
        }
        self.write(at::PD_UPPER, &((end - bytes) as u16).to_le_bytes());
        true
    }

    /// Adds a cell below the others and says where it begins.
    fn add_cell(&mut self, suffix: &[u8], payload: &[u8]) -> u16 {
        let lower = self.lines() * LINE;
        let Some(at) = bytes::put_cell(self.bytes, &self.layout, lower, suffix, payload) else { return 0 };
        self.ranges.add(at as usize, self.layout.cell_size(suffix.len(), payload.len()));
        self.ranges.add(at::PD_UPPER, 2);
        at
    }

    /// Splits an in-page node: the first `keep` entries stay, the rest go to a new node right of it. If there are none
    /// for one of the two, one will be put there next.
    #[inline(never)]
    pub fn split_node(&mut self, node: u8, keep: u8) -> bool {
        let (node, keep) = (node as usize, keep as usize);
        let end = space_end(self.bytes, &self.layout);
        let has_room = self.nodes() < self.layout.nodes && (self.lines() + self.layout.x) * LINE <= end;
        if !has_room || node >= self.nodes() {
            return false;
        }
        let count = self.count(node);
        if count == 0 || keep > count {
            return false;
        }
        let mut items = Items::new();
        if keep < count {
            arrange::visit_node(self.bytes, &self.layout, node, |item| items.push(item));
        }
        self.add_node(node + 1);
        keep == count || self.write_node(node, &items[..keep]) && self.write_node(node + 1, &items[keep..])
    }

    /// Gives node `left` the first `keep` of its and its right neighbour's entries, and that one the others.
    #[inline(never)]
    pub fn balance(&mut self, left: u8, keep: u8) -> bool {
        let (left, keep) = (left as usize, keep as usize);
        if left + 1 >= self.nodes() {
            return false;
        }
        let mut items: ArrayVec<Item, { 2 * MAX_NODE_ENTRIES }> = ArrayVec::new();
        for node in [left, left + 1] {
            arrange::visit_node(self.bytes, &self.layout, node, |item| items.push(item));
        }
        keep <= items.len() && self.write_node(left, &items[..keep]) && self.write_node(left + 1, &items[keep..])
    }

    /// Distributes the entries anew, so many to each node, and closes the gaps between cells.
    // Not inlined: a whole page lies in its frame, and nearly all edits do without.
    #[inline(never)]
    pub fn repack(&mut self, counts: &[u8]) -> bool {
        let (old, layout) = (*self.bytes, self.layout);
        self.bytes[FIRST_LINE * LINE..SPACE_END].fill(0);
        let cells = bytes::Mover::new(&old, self.bytes, &layout);
        let entries = Stored { bytes: &old, layout: &layout, ranks: 0..usize::MAX };
        let is_done = arrange::lay_out(self.bytes, &layout, counts, &entries);
        let has_room = cells.take_along(self.bytes);
        self.ranges.add_whole_page();
        is_done && has_room && self.lines() * LINE <= space_end(self.bytes, &layout)
    }

    /// Keeps the first entries, so many in each node, and takes another right sibling and high fence.
    // Not inlined, as `repack`.
    #[inline(never)]
    pub fn halve(&mut self, counts: &[u8], right: Block, high: Fence<'_>) -> bool {
        let (old, layout) = (*self.bytes, self.layout);
        self.ranges.add_whole_page();
        write_u32(self.bytes, at::RIGHT, right);
        match high {
            Fence::Lane(high) => {
                self.bytes[FIRST_LINE * LINE..SPACE_END].fill(0);
                self.bytes[at::HIGH..FIRST_LINE * LINE].fill(0);
                write_fence(self.bytes, at::HIGH, high);
                !layout.kind.is_prefix() && arrange::lay_out_first(self.bytes, &layout, counts, &old)
            }
            Fence::Bytes { normal, value, tid, prefix } => {
                let high = (BytesFence::whole(normal, value, tid), prefix.into());
                layout.kind.is_prefix() && bytes::keep_first(self.bytes, &layout, counts, high, &old).is_some()
            }
        }
    }

    /// Removes the entries of a node whose bits are set in `mask`.
    pub fn remove(&mut self, node: u8, mask: u128) -> bool {
        let node = node as usize;
        if node >= self.nodes() {
            return false;
        }
        let frame = self.frame(node);
        if let Some(kept) = frame.without(self.bytes, mask) {
            self.note_node(node);
            self.bytes[self.layout.root_counts() + node] = kept.count as u8;
            return true;
        }
        let (mut kept, mut slots) = (Items::new(), mask);
        arrange::visit_node(self.bytes, &self.layout, node, |item| {
            if slots & 1 == 0 {
                kept.push(item);
            }
            slots >>= 1;
        });
        if kept.is_empty() {
            self.drop_node(node);
            return true;
        }
        self.write_node(node, &kept)
    }

    /// Sets the left sibling.
    pub fn set_left(&mut self, block: Block) {
        self.write(at::LEFT, &block.to_le_bytes());
    }

    /// Sets the right sibling.
    pub fn set_right(&mut self, block: Block) {
        self.write(at::RIGHT, &block.to_le_bytes());
    }

    /// Sets the low fence.
    pub fn set_low(&mut self, key: Key<u128>) {
        write_fence(self.bytes, at::LOW, key);
        self.ranges.add(at::LOW, at::FENCE_TID + Tid::SIZE);
    }

    /// Notes whether the page was split without its parent knowing.
    pub fn set_incomplete(&mut self, incomplete: bool) {
        let flags = self.bytes[at::FLAGS];
        self.set_byte(at::FLAGS, if incomplete { flags | INCOMPLETE } else { flags & !INCOMPLETE });
    }

    /// Forgets the entries of a leaf, and marks it deleted.
    pub fn give_away(&mut self) {
        (0..self.nodes()).rev().for_each(|node| self.drop_node(node));
        self.delete(0);
    }

    /// Marks the page deleted. Its siblings are forgotten, and where they were it says when that was.
    pub fn delete(&mut self, time: u64) {
        let flags = self.bytes[at::FLAGS];
        self.set_byte(at::FLAGS, flags | DELETED);
        self.write(at::LEFT, &time.to_le_bytes());
    }
}
