//! What can be done to a page. Every method notes the bytes it writes, never compares keys, and reads nothing but the
//! page and its arguments (I7).

use super::arrange::{self, EntryOffsets, Thrift};
use super::*;

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

/// Writes an entry's pointer.
pub(super) fn write_pointer(
    bytes: &mut PageBytes,
    layout: &Layout,
    offsets: EntryOffsets,
    tid: Tid,
    child: Block,
    cell: u16,
) {
    tid.write(bytes, offsets.tid);
    if layout.has_child() {
        write_u32(bytes, offsets.more, child);
    }
    if layout.kind.is_prefix() {
        write_u16(bytes, offsets.more + layout.cell_at(), cell);
    }
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
        expect_node(bytes, &layout, node.into());
    }
}

fn expect_node(bytes: &PageBytes, layout: &Layout, node: usize) {
    let Some(&line) = bytes.get(layout.root_lines() + node) else { return };
    let start = layout.node_start(line);
    (0..layout.node_size()).step_by(CACHE_LINE).for_each(|at| simd::prefetch(bytes.as_ptr().wrapping_add(start + at)));
}

impl<'a> PageMut<'a> {
    /// A page to change, laid out as it says, or `None` if it is no fpbtree page. Writes go to `ranges`.
    pub fn open(bytes: &'a mut PageBytes, ranges: &'a mut Ranges) -> Option<PageMut<'a>> {
        let layout = Layout::of_page(bytes)?;
        Some(PageMut { bytes, layout, ranges })
    }

    /// Asks the hardware for what an insertion looks at first. Redo comes to most pages unprepared.
    pub fn expect(&self) {
        let root = self.layout.root_lines() / CACHE_LINE..self.layout.root_counts() / CACHE_LINE + 1;
        root.for_each(|line| self.prefetch(line * CACHE_LINE));
    }

    /// Asks for all lines of a node at once: an insertion shifts both its arrays.
    fn expect_node(&self, node: usize) {
        expect_node(self.bytes, &self.layout, node);
    }

    fn prefetch(&self, at: usize) {
        simd::prefetch(self.bytes.as_ptr().wrapping_add(at));
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

    fn count(&self, node: usize) -> usize {
        self.layout.entries_of(self.stored_count(node))
    }

    fn stored_count(&self, node: usize) -> u8 {
        self.bytes[self.layout.root_counts() + node]
    }

    fn is_run(&self, node: usize) -> bool {
        self.stored_count(node) & RUN != 0
    }

    /// The two arrays of a node.
    fn arrays(&self, node: usize) -> [(usize, usize); 2] {
        self.layout.arrays(self.start(node), self.stored_count(node))
    }

    fn start(&self, node: usize) -> usize {
        self.layout.node_start(self.bytes[self.layout.root_lines() + node])
    }

    /// The lane stored at a byte, as many bits as it has.
    fn lane(&self, at: usize) -> u128 {
        let mut lane = [0; 16];
        lane[..self.layout.lane].copy_from_slice(&self.bytes[at..at + self.layout.lane]);
        u128::from_le_bytes(lane)
    }

    /// What the entries of a run have in common.
    fn head(&self, node: usize) -> &[u8] {
        &self.bytes[self.start(node)..][..self.layout.head()]
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        self.ranges.add(at, bytes.len());
    }

    fn set_byte(&mut self, at: usize, value: u8) {
        self.write(at, &[value]);
    }

    /// Of known lengths, which are copied faster.
    fn write_lane(&mut self, at: usize, lane: u128) {
        match self.layout.lane {
            4 => self.write(at, &(lane as u32).to_le_bytes()),
            8 => self.write(at, &(lane as u64).to_le_bytes()),
            _ => self.write(at, &lane.to_le_bytes()),
        }
    }

    /// Sets how many entries a node has; slots that it gives up become zero, so that damage to them shows. A run
    /// without entries is one no more.
    fn set_count(&mut self, node: usize, count: usize) {
        let (before, flag) = (self.count(node), self.stored_count(node) & RUN);
        for (array, size) in self.arrays(node) {
            if count < before {
                self.clear(array + count * size, (before - count) * size);
            }
        }
        if flag != 0 && count == 0 {
            self.clear(self.start(node), self.layout.head());
        }
        self.store_count(node, count);
    }

    fn store_count(&mut self, node: usize, count: usize) {
        let flag = self.stored_count(node) & RUN;
        self.set_byte(self.layout.root_counts() + node, if count == 0 { 0 } else { count as u8 | flag });
    }

    fn clear(&mut self, at: usize, length: usize) {
        self.bytes[at..at + length].fill(0);
        self.ranges.add(at, length);
    }

    /// Sets how many lines are used. Those behind them become zero; that is not logged, for redo zeroes what is unused.
    fn set_lines(&mut self, lines: usize) {
        write_lines(self.bytes, lines);
        self.ranges.add(at::PD_LOWER, 2);
        self.ranges.add(at::LINES, 1);
        let end = space_end(self.bytes, &self.layout).max(lines * LINE);
        self.bytes[lines * LINE..end].fill(0);
    }

    /// Moves the entries from slot `from` to slot `to` within the arrays of a node, `count` of them.
    fn shift(&mut self, node: usize, from: usize, to: usize, count: usize) {
        for (array, size) in self.arrays(node) {
            self.bytes.copy_within(array + from * size..array + (from + count) * size, array + to * size);
            self.ranges.add(array + to * size, count * size);
        }
    }

    /// Copies entries between two nodes of a kind.
    fn copy_entries(&mut self, (from, from_slot): (usize, usize), (to, to_slot): (usize, usize), count: usize) {
        for ((from, size), (to, _)) in self.arrays(from).into_iter().zip(self.arrays(to)) {
            let source = from + from_slot * size;
            let target = to + to_slot * size;
            self.bytes.copy_within(source..source + count * size, target);
            self.ranges.add(target, count * size);
        }
    }

    /// Makes room for (or, with `to < from`, closes) an entry in each of the in-page root's arrays.
    fn shift_root(&mut self, from: usize, to: usize, count: usize) {
        let layout = self.layout;
        for (array, size) in [(layout.root_lanes(), layout.lane), (layout.root_lines(), 1), (layout.root_counts(), 1)] {
            self.bytes.copy_within(array + from * size..array + (from + count) * size, array + to * size);
            self.ranges.add(array + to * size, count * size);
        }
    }

    /// Adds an empty node at place `node` of the in-page root, on lines not used before.
    fn add_node(&mut self, node: usize, separator: u128) {
        let (nodes, line) = (self.nodes(), self.lines());
        self.shift_root(node, node + 1, nodes - node);
        self.write_lane(self.layout.root_lanes() + node * self.layout.lane, separator);
        self.set_byte(self.layout.root_lines() + node, line as u8);
        self.set_byte(self.layout.root_counts() + node, 0);
        self.clear(line * LINE, self.layout.x * LINE);
        self.set_byte(at::NODES, nodes as u8 + 1);
        self.set_lines(line + self.layout.x);
    }

    /// Takes an empty node out of the in-page root. Its lines are used again after the next repack, or when the page is
    /// empty.
    fn drop_node(&mut self, node: usize) {
        let last = self.nodes() - 1;
        let layout = self.layout;
        self.shift_root(node + 1, node, last - node);
        self.clear(layout.root_lanes() + last * layout.lane, layout.lane);
        self.clear(layout.root_lines() + last, 1);
        self.clear(layout.root_counts() + last, 1);
        self.set_byte(at::NODES, last as u8);
        if last == 0 {
            self.set_lines(layout.first_node_line());
        }
    }

    /// Puts an entry at `place`, which has a free slot (or is the first place of an empty page).
    pub fn insert(&mut self, place: Position, lane: u128, tid: Tid, child: Block, cell: Cell<'_>) {
        let (node, slot) = (place.node as usize, place.slot as usize);
        if self.nodes() == 0 {
            // On a sound page no lines are used; on a damaged one the node must still have room.
            self.set_lines(self.layout.first_node_line());
            self.add_node(0, lane);
        }
        let cell = match cell {
            Cell::None => 0,
            Cell::Shared(at) => at,
            Cell::New { suffix, payload } => self.add_cell(suffix, payload),
        };
        let count = self.count(node);
        if slot < count {
            self.shift(node, slot, slot + 1, count - slot);
        }
        let offsets = self.layout.offsets(self.start(node), self.stored_count(node), slot);
        if self.is_run(node) {
            // All but the TID is there.
            tid.write(self.bytes, offsets.tid);
            self.ranges.add(offsets.tid, Tid::SIZE);
        } else {
            self.write_lane(offsets.lane, lane);
            write_pointer(self.bytes, &self.layout, offsets, tid, child, cell);
            self.ranges.add(offsets.tid, self.layout.pointer);
        }
        self.store_count(node, count + 1);
        if slot == 0 && node > 0 && lane < self.lane(self.separator_at(node)) {
            self.copy_separator(node);
        }
    }

    /// Leaves so many bytes below the cells unused.
    pub fn reserve(&mut self, bytes: u16) {
        let lower = self.lines() * LINE;
        let end = space_end(self.bytes, &self.layout).saturating_sub(bytes.into()).max(lower);
        write_u16(self.bytes, at::PD_UPPER, end as u16);
        self.ranges.add(at::PD_UPPER, 2);
    }

    /// Adds a cell below the others and says where it begins.
    fn add_cell(&mut self, suffix: &[u8], payload: &[u8]) -> u16 {
        let lower = self.lines() * LINE;
        let Some(at) = bytes::put_cell(self.bytes, &self.layout, lower, suffix, payload) else { return 0 };
        self.ranges.add(at as usize, self.layout.cell_size(suffix.len(), payload.len()));
        self.ranges.add(at::PD_UPPER, 2);
        at
    }

    /// Splits an in-page node: the first `keep` entries stay, the rest go to a new node right of it, under `separator`.
    pub fn split_node(&mut self, node: u8, keep: u8, separator: u128) {
        let (node, keep) = (node as usize, keep as usize);
        let moved = self.count(node) - keep;
        self.add_node(node + 1, separator);
        if self.is_run(node) && moved > 0 {
            self.set_byte(self.layout.root_counts() + node + 1, RUN);
            let (from, to, head) = (self.start(node), self.start(node + 1), self.layout.head());
            self.bytes.copy_within(from..from + head, to);
            self.ranges.add(to, head);
        }
        self.copy_entries((node, keep), (node + 1, 0), moved);
        self.set_count(node, keep);
        self.set_count(node + 1, moved);
    }

    /// Evens out node `left` and its right neighbour; the left one gets the odd entry.
    pub fn balance(&mut self, left: u8) {
        let left = left as usize;
        let (a, b) = (self.count(left), self.count(left + 1));
        let keep = (a + b).div_ceil(2);
        if a > keep {
            self.shift(left + 1, 0, a - keep, b);
            self.copy_entries((left, keep), (left + 1, 0), a - keep);
        } else {
            self.copy_entries((left + 1, 0), (left, a), keep - a);
            self.shift(left + 1, keep - a, 0, a + b - keep);
        }
        self.set_count(left, keep);
        self.set_count(left + 1, a + b - keep);
        self.copy_separator(left + 1);
    }

    /// Makes a run of a node whose entries differ in their TIDs alone.
    // Not inlined: a whole page lies in its frame, and nearly all edits do without.
    #[inline(never)]
    pub fn compact(&mut self, node: u8) {
        let node = node as usize;
        let (old, start, stored) = (*self.bytes, self.start(node), self.stored_count(node));
        // A damaged count may be more than a node has room for, but not more than a run has.
        let count = self.count(node);
        self.clear(start, self.layout.node_size());
        self.set_byte(self.layout.root_counts() + node, count as u8 | RUN);
        for slot in 0..count {
            let [from, to] = [stored, RUN].map(|stored| self.layout.offsets(start, stored, slot));
            self.layout.copy_entry(&old, from, self.bytes, to);
        }
    }

    /// Where the separator of a node is.
    fn separator_at(&self, node: usize) -> usize {
        self.layout.root_lanes() + node * self.layout.lane
    }

    /// Makes the separator of a node the lane of its first entry.
    fn copy_separator(&mut self, node: usize) {
        let (start, separator) = (self.start(node), self.separator_at(node));
        self.bytes.copy_within(start..start + self.layout.lane, separator);
        self.ranges.add(separator, self.layout.lane);
    }

    /// Distributes the entries anew, as runs and spread over the nodes that there is room for, and closes the gaps
    /// between cells: so that there is room for another of so many bytes.
    // Not inlined, as `compact`.
    #[inline(never)]
    pub fn repack(&mut self, cell: u16) {
        let (old, layout) = (*self.bytes, self.layout);
        // The change was planned, so it is possible unless it is applied to another page.
        let Some(arrangement) = arrange::repacked(&old, &layout, cell.into(), Thrift::Tight) else { return };
        self.bytes[FIRST_LINE * LINE..SPACE_END].fill(0);
        let cells = bytes::Mover::new(&old, self.bytes, &layout);
        arrange::copy_out(self.bytes, &layout, &arrangement, &old, 0);
        cells.take_along(self.bytes);
        self.ranges.add_whole_page();
    }

    /// Keeps the first entries, distributed as a new page's would be, and takes another right sibling and high fence.
    // Not inlined, as `compact`.
    #[inline(never)]
    pub fn halve(&mut self, keep: u16, right: Block, high: Key<u128>) {
        let (old, layout) = (*self.bytes, self.layout);
        let Some(arrangement) = arrange::part(&old, &layout, 0..keep.into(), old[at::LEVEL] == 0) else { return };
        self.bytes[FIRST_LINE * LINE..SPACE_END].fill(0);
        write_u32(self.bytes, at::RIGHT, right);
        self.bytes[at::HIGH..FIRST_LINE * LINE].fill(0);
        write_fence(self.bytes, at::HIGH, high);
        arrange::copy_out(self.bytes, &layout, &arrangement, &old, 0);
        self.ranges.add_whole_page();
    }

    /// Removes the entries of a node whose bits are set in `mask`.
    pub fn remove(&mut self, node: u8, mask: u64) {
        let node = node as usize;
        let (count, mut kept) = (self.count(node), 0);
        for slot in 0..count {
            if mask >> slot & 1 == 0 {
                if kept < slot {
                    self.move_entry(node, slot, kept);
                }
                kept += 1;
            }
        }
        let first = (mask.trailing_zeros() as usize).min(kept);
        for (array, size) in self.arrays(node) {
            self.ranges.add(array + first * size, (kept - first) * size);
        }
        self.set_count(node, kept);
        if kept == 0 {
            self.drop_node(node);
        }
    }

    fn move_entry(&mut self, node: usize, from: usize, to: usize) {
        for (array, size) in self.arrays(node) {
            self.bytes.copy_within(array + from * size..array + (from + 1) * size, array + to * size);
        }
    }

    /// Points an inner entry at another child.
    pub fn set_child(&mut self, place: Position, child: Block) {
        let (node, slot) = (place.node as usize, place.slot as usize);
        let offsets = self.layout.offsets(self.start(node), self.stored_count(node), slot);
        self.write(offsets.more, &child.to_le_bytes());
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

    /// Marks the page deleted. Its siblings are forgotten, and where they were it says when that was.
    pub fn delete(&mut self, time: u64) {
        let flags = self.bytes[at::FLAGS];
        self.set_byte(at::FLAGS, flags | DELETED);
        self.write(at::LEFT, &time.to_le_bytes());
    }

    /// Whether inserting at `place` is possible.
    pub fn can_insert(&self, place: Position, lane: u128, cell: Cell<'_>) -> bool {
        let (node, slot) = (place.node as usize, place.slot as usize);
        self.expect_node(node.min(self.layout.nodes - 1));
        let is_first = self.nodes() == 0 && (node, slot) == (0, 0);
        let lines = if is_first { self.layout.first_node_line() + self.layout.x } else { self.lines() };
        let has_slot = || node < self.nodes() && slot <= self.count(node) && !self.is_full(node);
        (is_first || has_slot() && (!self.is_run(node) || self.is_in_run(node, lane, cell)))
            && lines * LINE + cell.size(&self.layout) <= space_end(self.bytes, &self.layout)
    }

    /// Whether there are so many bytes beside the cells.
    pub fn can_reserve(&self, bytes: u16) -> bool {
        self.layout.kind.is_prefix() && self.lines() * LINE + bytes as usize <= space_end(self.bytes, &self.layout)
    }

    /// Whether an entry differs from those of a run in its TID alone.
    fn is_in_run(&self, node: usize, lane: u128, cell: Cell<'_>) -> bool {
        let (lane_at, layout) = (self.start(node), &self.layout);
        let own =
            if layout.kind.is_prefix() { read_u16(self.bytes, lane_at + layout.lane + layout.cell_at()) } else { 0 };
        self.lane(lane_at) == lane && cell.at() == Some(own)
    }

    /// Whether the node exists.
    pub fn has_node(&self, node: u8) -> bool {
        (node as usize) < self.nodes()
    }

    /// Whether the entry exists.
    pub fn has_entry(&self, place: Position) -> bool {
        self.has_node(place.node) && (place.slot as usize) < self.count(place.node as usize)
    }

    fn is_full(&self, node: usize) -> bool {
        self.count(node) == self.layout.room_of(self.stored_count(node))
    }

    /// Whether the node and its right neighbour can share their entries.
    pub fn can_balance(&self, left: u8) -> bool {
        let (left, right) = (left as usize, left as usize + 1);
        let head = |node: usize| self.is_run(node).then(|| self.head(node));
        right < self.nodes() && head(left) == head(right)
    }

    /// Whether it is worth it to distribute the entries anew.
    pub fn can_repack(&self, cell: u16) -> bool {
        arrange::repacked(self.bytes, &self.layout, cell.into(), Thrift::Tight).is_some()
    }

    /// Whether the page's first entries can be kept without the others.
    pub fn can_halve(&self, keep: u16) -> bool {
        let level = self.bytes[at::LEVEL];
        !self.layout.kind.is_prefix() && arrange::part(self.bytes, &self.layout, 0..keep.into(), level == 0).is_some()
    }

    /// Whether the node can become a run.
    pub fn can_compact(&self, node: u8) -> bool {
        let (bytes, layout) = (&*self.bytes, &self.layout);
        self.has_node(node) && layout.run > 0 && !self.is_run(node as usize) && {
            let (start, stored) = (self.start(node as usize), self.stored_count(node as usize));
            let entry_offsets = (0..self.count(node as usize)).map(|slot| layout.offsets(start, stored, slot));
            arrange::repeats(entry_offsets.map(|offsets| offsets.head(bytes, layout))).skip(1).all(|repeats| repeats)
        }
    }

    /// Whether the node has that many entries to keep, and there is room for another node.
    pub fn can_split(&self, node: u8, keep: u8) -> bool {
        let has_entries = self.has_node(node) && keep as usize <= self.count(node as usize);
        let end = space_end(self.bytes, &self.layout);
        has_entries && self.nodes() < self.layout.nodes && (self.lines() + self.layout.x) * LINE <= end
    }
}
