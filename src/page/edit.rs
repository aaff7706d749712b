//! What can be done to a page. Every method notes the bytes it writes, never compares keys, and reads nothing but the
//! page and its arguments (I7).

use super::*;

/// A page being changed. The caller holds its exclusive lock.
pub struct PageMut<'a> {
    bytes: &'a mut PageBytes,
    layout: Layout,
    ranges: &'a mut Ranges,
}

/// A page's neighbours, fences and level.
#[derive(Clone, Copy, Debug)]
pub struct Links<'f, K: KeySpace> {
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

/// What an entry has outside its node: the bytes of its key behind the lane, and what it carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cell<'a> {
    /// Nothing.
    None,
    /// The same as an entry with an equal key, whose cell begins at this byte.
    Shared(u16),
    /// Bytes of its own.
    New {
        /// Bytes of the key.
        rest: &'a [u8],
        /// Other bytes.
        extra: &'a [u8],
    },
}

/// Where the `index`-th place among `total` entries falls when they are spread evenly over `nodes` in-page nodes. A
/// place between two nodes is the left one's.
pub(super) fn spread(total: usize, nodes: usize, index: usize) -> Position {
    let nodes = nodes.min(total).max(1);
    let (base, longer) = (total / nodes, total % nodes);
    let (mut node, mut slot) = (0, index);
    while node + 1 < nodes && slot > base + usize::from(node < longer) {
        slot -= base + usize::from(node < longer);
        node += 1;
    }
    Position { node: node as u8, slot: slot as u8 }
}

/// A page without entries, and without fences. A leaf page's entries are to be spread over all its in-page leaf nodes, so
/// that insertions find free slots; an inner page's are packed one node after another (paper §3.1.2, bulk load). So are
/// the last leaf's: ascending keys then fill it node by node.
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

/// Writes an entry's payload.
pub(super) fn write_payload(bytes: &mut PageBytes, layout: &Layout, at: usize, tail: Tail, child: Block, cell: u16) {
    tail.write(bytes, at);
    if layout.has_child() {
        write_u32(bytes, at + Tail::SIZE, child);
    }
    if layout.kind.is_prefix() {
        write_u16(bytes, at + layout.cell_at(), cell);
    }
}

/// Where the bytes end that in-page nodes and new cells may take.
pub(super) fn space_end(bytes: &PageBytes, layout: &Layout) -> usize {
    match layout.kind.is_prefix() {
        true => (read_u16(bytes, at::PD_UPPER) as usize).min(SPACE_END),
        false => END_LINE * LINE,
    }
}

/// The in-page leaf nodes that a page's `total` entries are spread over by a repack, `None` if that is not worth it for
/// an entry that needs `cell` bytes besides.
pub(super) fn repacked_nodes(bytes: &PageBytes, layout: &Layout, total: usize, cell: usize) -> Option<usize> {
    if !layout.kind.is_prefix() {
        // The paper splits at "fewer than an empty slot per in-page leaf node"; below two, a repack buys so few inserts
        // that its log record costs more than it saves.
        return (total < layout.nodes * (layout.capacity - 2)).then_some(layout.nodes);
    }
    let cells = long::live_cells(bytes, layout);
    let nodes = layout.spread_nodes(total, cells).max(1);
    let used = (layout.first_node_line() + nodes * layout.x) * LINE + cells;
    (total < nodes * (layout.capacity - 1) && used + cell + WORTH_A_REPACK <= SPACE_END).then_some(nodes)
}

/// Bytes that have to become free for a page to be repacked rather than split.
const WORTH_A_REPACK: usize = PAGE_SIZE / 16;
/// Where a page's cells end.
pub(super) const SPACE_END: usize = PAGE_SIZE - SPECIAL;

/// How entries are distributed over in-page nodes: their counts as they are stored.
pub(super) struct Arrangement {
    counts: [u8; END_LINE],
    nodes: usize,
}

impl Arrangement {
    const NONE: Arrangement = Arrangement { counts: [0; END_LINE], nodes: 0 };

    /// Entries spread evenly over so many nodes.
    pub fn even(layout: &Layout, total: usize, nodes: usize) -> Arrangement {
        let mut arrangement = Arrangement::NONE;
        arrangement.spread(total, nodes.clamp(1, layout.nodes).min(total));
        arrangement
    }

    /// Entries with these lanes in as few nodes as possible, and those outside runs in their part of as many more as
    /// `share` says of the nodes left; `None` if there are not as many.
    pub fn of<L: PartialEq>(
        layout: &Layout,
        lanes: impl Iterator<Item = L>,
        share: impl Fn(usize) -> usize,
    ) -> Option<Arrangement> {
        let mut packed = Arrangement::NONE;
        let mut packer = Packer::new();
        for lane in lanes {
            if let Some(node) = packer.push(layout, lane) {
                packed.add(node)?;
            }
        }
        if let Some(node) = packer.node(layout) {
            packed.add(node)?;
        }
        let more = share(layout.nodes.checked_sub(packed.nodes)?);
        if more == 0 {
            return Some(packed);
        }
        let entries = |nodes: &[u8]| nodes.iter().map(|&count| (count & !RUN) as usize).sum::<usize>();
        let total = entries(&packed.counts[..packed.nodes]);
        let mut arrangement = Arrangement::NONE;
        for stretch in packed.counts[..packed.nodes].chunk_by(|a, b| (a | b) & RUN == 0) {
            let length = entries(stretch);
            if stretch[0] & RUN != 0 {
                arrangement.add(stretch[0])?;
            } else {
                arrangement.spread(length, (stretch.len() + more * length / total).min(length));
            }
        }
        Some(arrangement)
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    fn add(&mut self, stored: u8) -> Option<()> {
        *self.counts.get_mut(self.nodes)? = stored;
        self.nodes += 1;
        Some(())
    }

    fn spread(&mut self, total: usize, nodes: usize) {
        for node in 0..nodes {
            self.counts[self.nodes] = (total / nodes + usize::from(node < total % nodes)) as u8;
            self.nodes += 1;
        }
    }
}

/// Puts entries into the fewest nodes there can be: each in turn holds as many as it can, as a run if that is more.
#[derive(Clone, Copy)]
pub(crate) struct Packer<L> {
    first: Option<L>,
    count: usize,
    /// Whether all entries of the node have its first one's lane.
    is_uniform: bool,
}

impl<L: PartialEq> Packer<L> {
    pub fn new() -> Self {
        Packer { first: None, count: 0, is_uniform: true }
    }

    /// Adds an entry. If it begins another node, the count of the one before it as it is stored.
    pub fn push(&mut self, layout: &Layout, lane: L) -> Option<u8> {
        let is_same = self.first.as_ref() == Some(&lane);
        if self.count < layout.capacity || self.is_uniform && is_same && self.count < layout.run {
            self.is_uniform &= is_same || self.count == 0;
            self.count += 1;
            self.first.get_or_insert(lane);
            return None;
        }
        let before = self.node(layout);
        *self = Packer { first: Some(lane), count: 1, is_uniform: true };
        before
    }

    /// The count of the node being filled, as it is stored.
    pub fn node(&self, layout: &Layout) -> Option<u8> {
        let flag = if self.count > layout.capacity { RUN } else { 0 };
        (self.count > 0).then_some(self.count as u8 | flag)
    }
}

/// Says when a page being filled with entries of these lanes is full.
#[derive(Clone, Copy)]
pub(crate) struct Filling<L> {
    node: Packer<L>,
    /// Entries outside runs, and the nodes, before this one.
    plain: usize,
    plain_nodes: usize,
    runs: usize,
}

impl<L: PartialEq + Copy> Filling<L> {
    /// An empty page.
    pub fn new() -> Self {
        Filling { node: Packer::new(), plain: 0, plain_nodes: 0, runs: 0 }
    }

    /// Adds an entry.
    pub fn push(&mut self, layout: &Layout, lane: L) {
        if let Some(node) = self.node.push(layout, lane) {
            self.add(node);
        }
    }

    fn add(&mut self, node: u8) {
        if node & RUN != 0 {
            self.runs += 1;
        } else {
            self.plain_nodes += 1;
            self.plain += node as usize;
        }
    }

    /// Whether that is no more than a page filled to `fill` percent has room for. Runs are filled whatever `fill` says:
    /// nothing comes between their entries.
    pub fn fits(&self, layout: &Layout, fill: usize) -> bool {
        let mut page = *self;
        if let Some(node) = self.node.node(layout) {
            page.add(node);
        }
        let room = layout.nodes.saturating_sub(page.runs) * layout.capacity;
        page.plain_nodes + page.runs <= layout.nodes && page.plain <= room * fill / 100
    }
}

/// Lays entries out over the in-page nodes of an in-page tree that is all zero; `put` writes the next entry's lane and
/// payload at the two places it is given.
pub(super) fn lay_out(
    bytes: &mut PageBytes,
    layout: &Layout,
    arrangement: &Arrangement,
    mut put: impl FnMut(&mut PageBytes, usize, usize),
) {
    let nodes = arrangement.nodes.min(layout.nodes);
    for (node, &stored) in arrangement.counts[..nodes].iter().enumerate() {
        let line = layout.first_node_line() + node * layout.x;
        let [(lanes, lane), (payloads, payload)] = arrays(layout, line * LINE, stored);
        bytes[layout.root_lines() + node] = line as u8;
        bytes[layout.root_counts() + node] = stored;
        for slot in 0..layout.entries_of(stored) {
            put(bytes, lanes + slot * lane, payloads + slot * payload);
        }
        bytes.copy_within(line * LINE..line * LINE + layout.lane, layout.root_lanes() + node * layout.lane);
    }
    bytes[at::NODES] = nodes as u8;
    write_lines(bytes, layout.first_node_line() + nodes * layout.x);
}

pub(super) fn write_fence(bytes: &mut PageBytes, at: usize, key: Key<u128>) {
    key.lane.write(bytes, at);
    key.tail.write(bytes, at + at::FENCE_TAIL);
}

/// Records how many lines are used, for us and (as `pd_lower`) for the server.
fn write_lines(bytes: &mut PageBytes, lines: usize) {
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

/// The two arrays of a node that starts at a byte: where each begins, and how far its elements are apart.
fn arrays(layout: &Layout, start: usize, stored: u8) -> [(usize, usize); 2] {
    match stored & RUN == 0 {
        true => [(start, layout.lane), (start + layout.node_payload(), layout.payload)],
        false => [(start, 0), (start + layout.lane, layout.payload)],
    }
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
        arrays(&self.layout, self.start(node), self.stored_count(node))
    }

    fn start(&self, node: usize) -> usize {
        let line = self.bytes[self.layout.root_lines() + node] as usize;
        line.clamp(self.layout.first_node_line(), END_LINE - self.layout.x) * LINE
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        self.ranges.add(at, bytes.len());
    }

    fn set_byte(&mut self, at: usize, value: u8) {
        self.write(at, &[value]);
    }

    /// Sets how many entries a node has; slots that it gives up become zero, so that damage to them shows. A run without
    /// entries is one no more.
    fn set_count(&mut self, node: usize, count: usize) {
        let (before, flag) = (self.count(node), self.stored_count(node) & RUN);
        for (array, size) in self.arrays(node) {
            if count < before {
                self.clear(array + count * size, (before - count) * size);
            }
        }
        if flag != 0 && count == 0 {
            self.clear(self.start(node), self.layout.lane);
        }
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
        let lane = separator.to_le_bytes();
        self.write(self.layout.root_lanes() + node * self.layout.lane, &lane[..self.layout.lane]);
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
    pub fn insert(&mut self, place: Position, lane: u128, tail: Tail, child: Block, cell: Cell<'_>) {
        let (node, slot) = (place.node as usize, place.slot as usize);
        if self.nodes() == 0 {
            // On a sound page no lines are used; on a damaged one the node must still have room.
            self.set_lines(self.layout.first_node_line());
            self.add_node(0, lane);
        }
        let cell = match cell {
            Cell::None => 0,
            Cell::Shared(at) => at,
            Cell::New { rest, extra } => self.add_cell(rest, extra),
        };
        let count = self.count(node);
        self.shift(node, slot, slot + 1, count - slot);
        let [(lanes, lane_size), (payloads, payload)] = self.arrays(node);
        self.write(lanes + slot * lane_size, &lane.to_le_bytes()[..lane_size]);
        let payload_at = payloads + slot * payload;
        write_payload(self.bytes, &self.layout, payload_at, tail, child, cell);
        self.ranges.add(payload_at, self.layout.payload);
        self.set_count(node, count + 1);
    }

    /// Adds a cell below the others and says where it begins.
    fn add_cell(&mut self, rest: &[u8], extra: &[u8]) -> u16 {
        let lower = self.lines() * LINE;
        let Some(at) = long::put_cell(self.bytes, &self.layout, lower, rest, extra) else { return 0 };
        self.ranges.add(at as usize, long::cell_length(&self.layout, rest.len(), extra.len()));
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
            let (from, to) = (self.start(node), self.start(node + 1));
            self.bytes.copy_within(from..from + self.layout.lane, to);
            self.ranges.add(to, self.layout.lane);
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

    /// Makes a run of a node whose entries all have the same lane.
    pub fn compact(&mut self, node: u8) {
        let node = node as usize;
        let count = self.count(node);
        let [(lanes, lane), (payloads, payload)] = self.arrays(node);
        let length = count * payload;
        self.bytes.copy_within(payloads..payloads + length, lanes + lane);
        self.ranges.add(lanes + lane, length);
        self.clear(lanes + lane + length, payloads - lanes - lane);
        self.set_byte(self.layout.root_counts() + node, count as u8 | RUN);
    }

    /// Makes the separator of a node the lane of its first entry.
    fn copy_separator(&mut self, node: usize) {
        let start = self.start(node);
        let separator = self.layout.root_lanes() + node * self.layout.lane;
        self.bytes.copy_within(start..start + self.layout.lane, separator);
        self.ranges.add(separator, self.layout.lane);
    }

    /// Spreads the entries evenly over all nodes the page has room for, and closes the gaps between cells. With runs some
    /// nodes stay free.
    pub fn repack(&mut self) {
        let (old, layout, total) = (*self.bytes, self.layout, self.entries());
        let mut before = PageMutView { bytes: &old, layout: &layout, node: 0, slot: 0 };
        let arrangement = if (0..self.nodes()).any(|node| self.is_run(node)) {
            let mut walk = before;
            let lanes: [usize; MAX_PAGE_ENTRIES] =
                core::array::from_fn(|at| if at < total { walk.next().0 } else { 0 });
            let lanes = lanes[..total.min(MAX_PAGE_ENTRIES)].iter().map(|&at| &old[at..at + layout.lane]);
            // A damaged page may have more than fits.
            let Some(arrangement) = Arrangement::of(&layout, lanes, |free| free / 2) else { return };
            arrangement
        } else {
            Arrangement::even(&layout, total, repacked_nodes(&old, &layout, total, 0).unwrap_or(layout.nodes))
        };
        self.bytes[FIRST_LINE * LINE..SPACE_END].fill(0);
        let mut cells = long::Mover::new(&old, self.bytes, &layout);
        lay_out(self.bytes, &layout, &arrangement, |bytes, lane_at, payload_at| {
            let (lane_from, payload_from) = before.next();
            bytes[lane_at..lane_at + layout.lane].copy_from_slice(&old[lane_from..lane_from + layout.lane]);
            bytes[payload_at..payload_at + layout.payload]
                .copy_from_slice(&old[payload_from..payload_from + layout.payload]);
            cells.take_along(bytes, payload_at);
        });
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
        let payload = self.start(place.node as usize) + self.layout.node_payload();
        let at = payload + place.slot as usize * self.layout.payload + Tail::SIZE;
        self.write(at, &child.to_le_bytes());
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
        self.ranges.add(at::LOW, at::FENCE_TAIL + Tail::SIZE);
    }

    /// Notes whether the page was split without its parent knowing.
    pub fn set_incomplete(&mut self, incomplete: bool) {
        let flags = self.bytes[at::FLAGS];
        self.set_byte(at::FLAGS, if incomplete { flags | INCOMPLETE } else { flags & !INCOMPLETE });
    }

    /// Marks the page deleted.
    pub fn delete(&mut self) {
        let flags = self.bytes[at::FLAGS];
        self.set_byte(at::FLAGS, flags | DELETED);
    }

    /// Whether inserting at `place` is possible.
    pub fn can_insert(&self, place: Position, cell: Cell<'_>) -> bool {
        let (node, slot) = (place.node as usize, place.slot as usize);
        let (cell, lines) = match cell {
            Cell::New { rest, extra } => (long::cell_length(&self.layout, rest.len(), extra.len()), self.lines()),
            _ => (0, self.lines()),
        };
        let lines = if self.nodes() == 0 { self.layout.first_node_line() + self.layout.x } else { lines };
        ((self.nodes() == 0 && node == 0 && slot == 0)
            || (node < self.nodes() && slot <= self.count(node) && !self.is_full(node)))
            && lines * LINE + cell <= space_end(self.bytes, &self.layout)
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
        let lane = |node: usize| {
            let start = self.start(node);
            self.is_run(node).then(|| &self.bytes[start..start + self.layout.lane])
        };
        right < self.nodes() && lane(left) == lane(right)
    }

    /// Whether the node can become a run.
    pub fn can_compact(&self, node: u8) -> bool {
        let has_entries = self.has_node(node) && self.layout.run > 0 && !self.is_run(node as usize);
        has_entries && {
            let [(lanes, lane), _] = self.arrays(node as usize);
            let mut all = self.bytes[lanes..lanes + self.count(node as usize) * lane].chunks_exact(lane);
            all.next().is_some_and(|first| all.all(|other| other == first))
        }
    }

    /// Whether the node has that many entries to keep, and there is room for another node.
    pub fn can_split(&self, node: u8, keep: u8) -> bool {
        let has_entries = self.has_node(node) && keep as usize <= self.count(node as usize);
        let end = space_end(self.bytes, &self.layout);
        has_entries && self.nodes() < self.layout.nodes && (self.lines() + self.layout.x) * LINE <= end
    }

    /// Entries in the page.
    pub fn entries(&self) -> usize {
        (0..self.nodes()).map(|node| self.count(node)).sum()
    }
}

/// Walks the places of a page's entries.
#[derive(Clone, Copy)]
struct PageMutView<'a> {
    bytes: &'a PageBytes,
    layout: &'a Layout,
    node: usize,
    slot: usize,
}

impl PageMutView<'_> {
    /// Where the next entry's lane and payload are.
    fn next(&mut self) -> (usize, usize) {
        let nodes = (self.bytes[at::NODES] as usize).min(self.layout.nodes);
        let stored = |node: usize| self.bytes[self.layout.root_counts() + node];
        while self.node + 1 < nodes && self.slot >= self.layout.entries_of(stored(self.node)) {
            (self.node, self.slot) = (self.node + 1, 0);
        }
        let line = self.bytes[self.layout.root_lines() + self.node] as usize;
        let start = line.clamp(self.layout.first_node_line(), END_LINE - self.layout.x) * LINE;
        let slot = self.slot.min(self.layout.room_of(stored(self.node)).saturating_sub(1));
        let [(lanes, lane), (payloads, payload)] = arrays(self.layout, start, stored(self.node));
        self.slot += 1;
        (lanes + slot * lane, payloads + slot * payload)
    }
}
