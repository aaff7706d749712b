//! How a page's entries are distributed over its in-page leaf nodes: how few of them will do, how they are spread over
//! more, and so when a page is full.

use super::frame::{Frame, Item, Items, Span, separator, write_node};
use super::*;
use arrayvec::ArrayVec;

/// A page's nodes in use.
pub(super) fn nodes(bytes: &PageBytes, layout: &Layout) -> usize {
    (bytes[at::NODES] as usize).min(layout.nodes)
}

/// Entries of a page.
pub(super) fn entries(bytes: &PageBytes, layout: &Layout) -> usize {
    (0..nodes(bytes, layout)).map(|node| Frame::of(bytes, layout, node).count).sum()
}

/// Bytes that a page's entries take in their nodes.
pub(super) fn used(bytes: &PageBytes, layout: &Layout) -> usize {
    (0..nodes(bytes, layout)).map(|node| Frame::of(bytes, layout, node).used()).sum()
}

/// Adds the entries of a node, and another one before which so many are.
// Where they are to be, for entries are many bytes to be moved.
pub(super) fn add_with(
    bytes: &PageBytes,
    layout: &Layout,
    node: usize,
    (slot, other): (usize, &Item),
    items: &mut Items,
) {
    let mut before = 0;
    visit_node(bytes, layout, node, |item| {
        if before == slot {
            items.push(*other);
        }
        items.push(item);
        before += 1;
    });
    if slot >= before {
        items.push(*other);
    }
}

/// Calls `each` with the entries of a node, in order.
#[inline(always)]
pub(super) fn visit_node(bytes: &PageBytes, layout: &Layout, node: usize, each: impl FnMut(Item)) {
    let frame = Frame::of(bytes, layout, node);
    frame.visit(bytes, separator(bytes, layout, node), 0..frame.count, each);
}

/// Entries in key order, to be gone over as often as one likes.
pub(super) trait Source {
    /// Calls `each` with all of them.
    fn visit(&self, each: impl FnMut(Item));
}

impl<I: Iterator<Item = Item> + Clone> Source for I {
    fn visit(&self, each: impl FnMut(Item)) {
        self.clone().for_each(each);
    }
}

/// A page's entries, from one that so many are before to another.
// No iterator: its entries would come in memory, and what is put together there is waited for when it is read.
pub(super) struct Stored<'a> {
    pub bytes: &'a PageBytes,
    pub layout: &'a Layout,
    pub ranks: Range<usize>,
}

impl Source for Stored<'_> {
    #[inline(always)]
    fn visit(&self, mut each: impl FnMut(Item)) {
        let Range { mut start, mut end } = self.ranks;
        for node in 0..nodes(self.bytes, self.layout) {
            let frame = Frame::of(self.bytes, self.layout, node);
            let slots = start.min(frame.count)..end.min(frame.count);
            frame.visit(self.bytes, separator(self.bytes, self.layout, node), slots, &mut each);
            (start, end) = (start.saturating_sub(frame.count), end.saturating_sub(frame.count));
        }
    }
}

/// All of a page's entries.
fn all<'a>(bytes: &'a PageBytes, layout: &'a Layout) -> Stored<'a> {
    Stored { bytes, layout, ranks: 0..usize::MAX }
}

/// Puts entries into the fewest nodes there can be: each in turn holds as many as it can. (No other distribution has
/// fewer, because what fits a node still does without its first entries, or its last.) All zero is before the first.
#[derive(Clone, Copy)]
struct Packer {
    node: Span,
}

impl Packer {
    /// Adds an entry. If it begins another node, how many the one before that has. Nodes are filled with `room` bytes.
    #[inline(always)]
    fn push(&mut self, layout: &Layout, item: &Item, room: usize) -> Option<u8> {
        self.node.push(item);
        let surely_fits = self.node.count * layout.widest_entry() <= room;
        if self.node.count == 1 || surely_fits || self.node.fits(layout, room) {
            return None;
        }
        let count = self.node.count as u8 - 1;
        self.node = Span::of([item]);
        Some(count)
    }
}

/// How entries are distributed over in-page nodes: their counts.
#[derive(Clone, Debug, Default)]
pub struct Arrangement(ArrayVec<u8, MAX_PAGE_NODES>);

impl Arrangement {
    /// How many entries each node has.
    pub fn counts(&self) -> &[u8] {
        &self.0
    }

    /// Entries in as few nodes as possible if each is filled with so many bytes; `None` if these are more than `most`.
    pub(super) fn packed(layout: &Layout, entries: &impl Source, room: usize, most: usize) -> Option<Arrangement> {
        let (mut packed, mut packer) = (Arrangement::default(), Packer { node: Span::EMPTY });
        let mut fits = true;
        entries.visit(|item| {
            if let Some(count) = packer.push(layout, &item, room) {
                fits = fits && packed.add(count, most).is_some();
            }
        });
        match packer.node.count {
            _ if !fits => None,
            0 => Some(packed),
            count => packed.add(count as u8, most).map(|()| packed),
        }
    }

    /// Entries in nodes each of which is filled to so many percent, or to more where these are too many beside cells
    /// that take so many bytes; `None` if no page has as many.
    pub(super) fn filled(layout: &Layout, entries: &impl Source, fill: usize, cells: usize) -> Option<Arrangement> {
        let most = layout.most_nodes(cells);
        let at = |fill: usize| Arrangement::packed(layout, entries, filled_room(layout, fill), most);
        let more = fill.midpoint(100);
        at(fill).or_else(|| at(more)).or_else(|| at(100))
    }

    fn add(&mut self, count: u8, most: usize) -> Option<()> {
        if self.0.len() >= most {
            return None;
        }
        self.0.try_push(count).ok()
    }
}

/// Lays entries out over the in-page nodes of an in-page tree that is all zero, so many to each. Whether there are as
/// many, and the nodes have room for them.
pub(super) fn lay_out(bytes: &mut PageBytes, layout: &Layout, counts: &[u8], entries: &impl Source) -> bool {
    lay_out_behind(bytes, layout, 0, counts, entries)
}

/// The same of a page's first entries, between fences of another page. Nodes that they leave as they are, are copied.
pub(super) fn lay_out_first(bytes: &mut PageBytes, layout: &Layout, counts: &[u8], page: &PageBytes) -> bool {
    let total: usize = counts.iter().map(|&count| usize::from(count)).sum();
    let same = |&(node, &count): &(usize, &u8)| Frame::of(page, layout, node).count == usize::from(count);
    let of_page = &counts[..counts.len().min(nodes(page, layout))];
    let unmoved = of_page.iter().enumerate().take_while(same).count();
    let mut start = 0;
    for node in 0..unmoved {
        let frame = Frame::of(page, layout, node);
        for (array, size) in layout.root_arrays() {
            let at = array + node * size;
            bytes[at..at + size].copy_from_slice(&page[at..at + size]);
        }
        let line = layout.first_node_line() + node * layout.x;
        bytes[layout.root_lines() + node] = line as u8;
        bytes[line * LINE..][..layout.node_size()].copy_from_slice(&page[frame.start..frame.end]);
        start += frame.count;
    }
    lay_out_behind(bytes, layout, unmoved, counts, &Stored { bytes: page, layout, ranks: start..total })
}

/// The same behind so many nodes that are there already.
fn lay_out_behind(bytes: &mut PageBytes, layout: &Layout, first: usize, counts: &[u8], entries: &impl Source) -> bool {
    if counts.len() > layout.nodes || !counts.iter().all(|count| (1..=MAX_NODE_ENTRIES).contains(&(*count).into())) {
        return false;
    }
    for node in first..counts.len() {
        bytes[layout.root_lines() + node] = (layout.first_node_line() + node * layout.x) as u8;
    }
    bytes[at::NODES] = counts.len() as u8;
    edit::write_lines(bytes, layout.first_node_line() + counts.len() * layout.x);
    let (mut node, mut of_node, mut fits) = (first, Items::new(), true);
    entries.visit(|item| {
        let Some(&count) = counts.get(node) else { return fits = false };
        of_node.push(item);
        if of_node.len() == count.into() {
            fits &= write_node(bytes, layout, node, &of_node);
            of_node.clear();
            node += 1;
        }
    });
    fits && node == counts.len() && of_node.is_empty()
}

/// Bytes of a node that is filled to so many percent.
fn filled_room(layout: &Layout, fill: usize) -> usize {
    layout.node_room() * fill / 100
}

/// How full the nodes of a page half are that was full: so there are as many free slots as there can be.
pub(super) const HALF_FILL: usize = 60;

/// How much room a repack has to leave free in an in-page leaf node, on average, to be worth it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Thrift {
    /// The paper splits at less than a slot; a node of many slots is full again after so few insertions then that the
    /// repack costs more than it saves. Where there are cells, these fill a page before its slots are used up.
    Usual,
    /// An ascending stretch goes on in the page. It uses up what room is left in one repack.
    Ascending,
    /// The page had better not be split.
    Tight,
}

impl Thrift {
    /// Bytes, where an entry takes so many.
    fn room(self, layout: &Layout, slot: usize) -> usize {
        match self {
            Thrift::Ascending if !layout.kind.is_prefix() => slot.max(layout.node_room() / 10),
            Thrift::Usual if !layout.kind.is_prefix() => (2 * slot).max(layout.node_room() / 6),
            _ => slot.max(layout.node_room() / 24),
        }
    }
}

/// What a page's entries take, and what they may take when it is repacked with room for a cell of some bytes.
struct Load {
    entries: usize,
    /// Bytes in nodes.
    used: usize,
    /// Bytes in cells.
    cells: usize,
    /// Nodes that there may be.
    most: usize,
}

impl Load {
    fn of(bytes: &PageBytes, layout: &Layout, cell: usize) -> Load {
        let (cells, free) = match layout.kind.is_prefix() {
            true => (bytes::live_cells(bytes, layout), cell + layout.space() / 16),
            false => (0, 0),
        };
        let most = layout.most_nodes(cells + free);
        Load { entries: entries(bytes, layout), used: used(bytes, layout), cells, most }
    }

    /// Bytes that an entry takes in its node on average.
    fn slot(&self) -> usize {
        self.used.div_ceil(self.entries.max(1))
    }
}

/// Whether repacking a page leaves enough room, as far as what its entries take on average tells: what `thrift` says in
/// each node, and `cell` bytes besides.
pub(super) fn is_worth_repacking(bytes: &PageBytes, layout: &Layout, cell: usize, thrift: Thrift) -> bool {
    let load = Load::of(bytes, layout, cell);
    if load.entries == 0 {
        // What cells there are take room for nothing.
        return layout.kind.is_prefix() && load.most > 0;
    }
    let room = layout.node_room().saturating_sub(thrift.room(layout, load.slot()));
    load.used <= load.most * room && load.entries <= load.most * (MAX_NODE_ENTRIES - 1)
}

/// How a page's entries are distributed when it is repacked: evenly over as many nodes as will be needed when the page
/// is full of such entries, which leaves room for the cells to come. Where an ascending stretch goes on, in few nodes:
/// it takes the others as it comes. `None` only if the page is damaged.
pub(super) fn repacked(bytes: &PageBytes, layout: &Layout, cell: usize, ascends: bool) -> Option<Arrangement> {
    let load = Load::of(bytes, layout, cell);
    if load.entries == 0 {
        return Some(Arrangement::default());
    }
    let needed = (layout.space() * load.used / (load.used + load.cells)).div_ceil(layout.node_room());
    let even = load.used / load.most.min(needed).max(1) + 2 * load.slot();
    let packed = |room: usize, most: usize| Arrangement::packed(layout, &all(bytes, layout), room, most);
    let room = layout.node_room();
    let least = if ascends { room * 15 / 16 } else { even.min(room) };
    packed(least, load.most)
        .or_else(|| packed(least.midpoint(room), load.most))
        .or_else(|| packed(room, layout.most_nodes(load.cells)))
}

/// How some of the entries of a page of lanes are distributed over a page of their own, and whether they are spread
/// there; `None` if there are no such entries. Where there are too many to spread, they stay as they are.
pub(super) fn part(bytes: &PageBytes, layout: &Layout, part: Range<usize>, is_spread: bool) -> Option<Arrangement> {
    let total = entries(bytes, layout);
    if part.is_empty() || part.start >= total {
        return None;
    }
    let entries = Stored { bytes, layout, ranks: part.clone() };
    if !is_spread {
        return Arrangement::filled(layout, &entries, 100, 0);
    }
    let used = used(bytes, layout) * part.len() / total;
    let spread = |fill: usize| {
        let room = filled_room(layout, fill);
        let may_fit = used <= layout.nodes * room;
        may_fit.then(|| Arrangement::packed(layout, &entries, room, layout.nodes)).flatten()
    };
    spread(HALF_FILL).or_else(|| spread(HALF_FILL.midpoint(100))).or_else(|| unmoved(bytes, layout, part))
}

/// Some of a page's entries in the nodes in which they are.
fn unmoved(bytes: &PageBytes, layout: &Layout, part: Range<usize>) -> Option<Arrangement> {
    let (mut counts, Range { mut start, mut end }) = (Arrangement::default(), part);
    for node in 0..nodes(bytes, layout) {
        let frame = Frame::of(bytes, layout, node);
        let count = frame.count;
        let slots = start.min(count)..end.min(count);
        if !slots.is_empty() {
            let mut span = Span::EMPTY;
            if slots.len() < count {
                frame.visit(bytes, separator(bytes, layout, node), slots.clone(), |item| span.push(&item));
            }
            // Entries of a damaged page may take more without those before them.
            span.fits(layout, layout.node_room()).then_some(())?;
            counts.add(slots.len() as u8, layout.nodes)?;
        }
        (start, end) = (start.saturating_sub(count), end.saturating_sub(count));
    }
    Some(counts)
}

/// Says when a page being filled is full. All zero is an empty one.
#[derive(Clone, Copy)]
pub(crate) struct Filling {
    packer: Packer,
    /// Nodes before the one being filled.
    nodes: usize,
}

impl Filling {
    /// An empty page.
    pub const EMPTY: Filling = Filling { packer: Packer { node: Span::EMPTY }, nodes: 0 };

    /// Adds an entry: its lane and where its cell is, or anything that tells it from that of the entry before. Nodes
    /// are filled to so many percent.
    #[inline]
    pub fn push(&mut self, layout: &Layout, fill: usize, (lane, cell): (u128, u16), tid: Tid, child: Block) {
        let item = Item { lane, tid, child, cell };
        self.nodes += usize::from(self.packer.push(layout, &item, filled_room(layout, fill)).is_some());
    }

    /// Whether that, and cells that take so many bytes, is no more than a page filled to `fill` percent has room for.
    pub fn fits(&self, layout: &Layout, cells: usize, fill: usize) -> bool {
        let beside = layout.space().checked_sub((self.nodes + 1) * layout.node_size());
        // No more than `cells * 100 / fill` is beside the nodes, without a division.
        self.nodes < layout.nodes && beside.is_some_and(|beside| cells * 100 < (beside + 1) * fill)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Geometry, LaneKind};

    #[test]
    fn a_page_is_full_where_its_nodes_and_cells_say() {
        let kinds = [LaneKind::U32, LaneKind::U64, LaneKind::Prefix, LaneKind::PrefixPayload];
        for layout in kinds.map(|kind| Geometry::choose(kind, 0).leaf) {
            for (nodes, fill) in (0..layout.nodes + 2).flat_map(|nodes| [10, 77, 90, 100].map(|fill| (nodes, fill))) {
                let filling = Filling { nodes, ..Filling::EMPTY };
                for cells in 0..layout.space() + 2 * layout.node_size() {
                    let fits = nodes < layout.most_nodes(cells * 100 / fill);
                    assert_eq!(filling.fits(&layout, cells, fill), fits, "{nodes} nodes, {cells} bytes, {fill} %");
                }
            }
        }
    }
}
