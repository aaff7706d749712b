//! How a page's entries are distributed over its in-page leaf nodes: what nodes and *runs* hold, how few of them will
//! do, and so when a page is full.
//!
//! A run is a node of entries with the same *head*: the lane, and what follows the TID, which is where the cell is. It
//! has that once, and then only TIDs.

use super::*;
use core::ops::Range;

/// Where the parts of an entry lie. In a run all have the same lane, and the same after their TIDs.
#[derive(Clone, Copy)]
pub(super) struct EntryOffsets {
    pub lane: usize,
    pub tid: usize,
    /// The pointer's bytes behind the TID.
    pub more: usize,
}

impl EntryOffsets {
    /// All but the TID: what the entries of a run have in common.
    pub fn head<'a>(&self, bytes: &'a PageBytes, layout: &Layout) -> (&'a [u8], &'a [u8]) {
        (&bytes[self.lane..self.lane + layout.lane], &bytes[self.more..self.more + layout.more()])
    }
}

impl Layout {
    /// Where the parts of the entry in a slot lie.
    pub(super) fn offsets(&self, start: usize, stored: u8, slot: usize) -> EntryOffsets {
        let [(lanes, lane), (pointers, pointer)] = self.arrays(start, stored);
        let tid = pointers + slot * pointer;
        let more = if stored & RUN == 0 { tid + Tid::SIZE } else { start + self.lane };
        EntryOffsets { lane: lanes + slot * lane, tid, more }
    }

    /// Copies entries between nodes of two pages, each given as where it starts, its stored count, and a slot.
    fn copy_entries(
        &self,
        old: &PageBytes,
        (from, from_stored, from_slot): (usize, u8, usize),
        bytes: &mut PageBytes,
        (to, to_stored, to_slot): (usize, u8, usize),
        count: usize,
    ) {
        if (from_stored | to_stored) & RUN != 0 {
            for slot in 0..count {
                let to = self.offsets(to, to_stored, to_slot + slot);
                self.copy_entry(old, self.offsets(from, from_stored, from_slot + slot), bytes, to);
            }
            return;
        }
        for ((from, size), (to, _)) in self.arrays(from, 0).into_iter().zip(self.arrays(to, 0)) {
            let (from, to) = (from + from_slot * size, to + to_slot * size);
            bytes[to..to + count * size].copy_from_slice(&old[from..from + count * size]);
        }
    }

    /// Copies an entry between pages.
    pub(super) fn copy_entry(&self, old: &PageBytes, from: EntryOffsets, bytes: &mut PageBytes, to: EntryOffsets) {
        let parts = [(from.lane, to.lane, self.lane), (from.tid, to.tid, Tid::SIZE), (from.more, to.more, self.more())];
        for (from, to, length) in parts {
            bytes[to..to + length].copy_from_slice(&old[from..from + length]);
        }
    }

    /// The most nodes beside cells that take so many bytes.
    fn most_nodes(&self, cells: usize) -> usize {
        self.nodes.min(self.space().saturating_sub(cells) / self.node_size())
    }

    /// Nodes that stay free in a page with so many runs: another key beside one takes a node.
    fn spare_nodes(&self, runs: usize) -> usize {
        if runs > 0 { (self.nodes / 16).max(1) } else { 0 }
    }

    /// Over how many nodes to spread the entries outside runs, beside so many runs and cells that take so many bytes,
    /// fences included: as many as will be needed when the page is full of such entries, if `free` bytes stay free.
    fn spread_nodes(&self, plain: usize, runs: usize, cells: usize, free: usize) -> usize {
        let space = self.space().saturating_sub(runs * self.node_size());
        let slots = plain * self.entry();
        let more = space.saturating_sub(cells + slots) * plain / (slots + cells).max(1);
        let most = self.most_nodes(cells).saturating_sub(self.spare_nodes(runs));
        let most = most.min(self.most_nodes(cells + free));
        (plain + more).div_ceil(self.capacity - 1).min(most.saturating_sub(runs))
    }

    /// Whether a page has room for entries, each of which repeats the one before it or not, and for cells that take so
    /// many bytes.
    pub(super) fn holds(&self, repeats: &[bool], cells: usize) -> bool {
        // Runs only make it fewer nodes.
        repeats.len().div_ceil(self.capacity) <= self.most_nodes(cells)
            || Arrangement::of(self, repeats).is_some_and(|packed| packed.beside(self, cells).is_some())
    }
}

/// A page's nodes in key order: where each starts, and its count as it is stored.
fn nodes<'a>(bytes: &'a PageBytes, layout: &'a Layout) -> impl Iterator<Item = (usize, u8)> + 'a {
    let nodes = (bytes[at::NODES] as usize).min(layout.nodes);
    (0..nodes).map(|node| (layout.node_start(bytes[layout.root_lines() + node]), bytes[layout.root_counts() + node]))
}

/// The places of a page's entries, in key order.
pub(super) fn entry_offsets<'a>(bytes: &'a PageBytes, layout: &'a Layout) -> impl Iterator<Item = EntryOffsets> + 'a {
    nodes(bytes, layout).flat_map(move |(start, stored)| {
        (0..layout.entries_of(stored)).map(move |slot| layout.offsets(start, stored, slot))
    })
}

/// For each of a page's entries, in key order, whether it has the lane and the cell of the one before it. In a leaf
/// that is all that a run has once.
pub(super) struct Repeats {
    flags: [bool; MAX_PAGE_ENTRIES + 1],
    count: usize,
}

impl Repeats {
    /// Those of a page.
    pub fn of(bytes: &PageBytes, layout: &Layout) -> Repeats {
        match layout.lane {
            4 => Self::of_lanes::<4>(bytes, layout),
            8 => Self::of_lanes::<8>(bytes, layout),
            _ => Self::of_lanes::<16>(bytes, layout),
        }
    }

    fn of_lanes<const SIZE: usize>(bytes: &PageBytes, layout: &Layout) -> Repeats {
        let mut repeats = Repeats { flags: [false; MAX_PAGE_ENTRIES + 1], count: 0 };
        let mut last: Option<&[u8; SIZE]> = None;
        for (start, stored) in nodes(bytes, layout) {
            let count = layout.entries_of(stored);
            let lanes = if stored & RUN == 0 { count } else { count.min(1) };
            let (lanes, _) = bytes[start..start + lanes * SIZE].as_chunks::<SIZE>();
            let flags = &mut repeats.flags[repeats.count..repeats.count + count];
            flags.fill(true);
            if let ([flag, flags @ ..], [first, others @ ..]) = (flags, lanes) {
                *flag = last == Some(first);
                flags.iter_mut().zip(lanes.iter().zip(others)).for_each(|(flag, (a, b))| *flag = a == b);
                last = lanes.last();
            }
            repeats.count += count;
        }
        if layout.kind.is_prefix() {
            repeats.tell_cells_apart(bytes, layout);
        }
        repeats
    }

    fn tell_cells_apart(&mut self, bytes: &PageBytes, layout: &Layout) {
        let cells = entry_offsets(bytes, layout).map(|offsets| read_u16(bytes, offsets.more + layout.cell_at()));
        self.flags.iter_mut().zip(repeats(cells)).for_each(|(flag, same)| *flag &= same);
    }

    /// Puts another entry in, which repeats the one before it or not, and which the one behind it repeats or not. What
    /// there is no room for is forgotten.
    pub fn insert(&mut self, at: usize, repeats: bool, is_repeated: bool) {
        self.count = (self.count + 1).min(self.flags.len());
        let behind = &mut self.flags[at.min(self.count)..self.count];
        behind.rotate_right(usize::from(!behind.is_empty()));
        behind.iter_mut().zip([repeats, is_repeated]).for_each(|(flag, now)| *flag = now);
    }
}

impl core::ops::Deref for Repeats {
    type Target = [bool];

    fn deref(&self) -> &[bool] {
        &self.flags[..self.count]
    }
}

/// For each of some things in order whether it is the same as the one before it.
pub(crate) fn repeats<T: PartialEq>(things: impl Iterator<Item = T>) -> impl Iterator<Item = bool> {
    let mut previous = None;
    things.map(move |thing| {
        let is_same = previous.as_ref() == Some(&thing);
        previous = Some(thing);
        is_same
    })
}

/// Puts entries into the fewest nodes there can be: each in turn holds as many as it can, as a run if that is more. All
/// zero is before the first.
#[derive(Clone, Copy)]
struct Packer {
    count: usize,
    /// Whether the node's entries differ in more than their TIDs.
    is_mixed: bool,
}

impl Packer {
    const EMPTY: Packer = Packer { count: 0, is_mixed: false };

    /// Adds an entry, which repeats the one before it or not. If it begins another node, the count of the one before
    /// that as it is stored.
    fn push(&mut self, layout: &Layout, repeats: bool) -> Option<u8> {
        let is_mixed = self.count > 0 && (self.is_mixed || !repeats);
        let room = if is_mixed { layout.capacity } else { layout.capacity.max(layout.run) };
        if self.count < room {
            *self = Packer { count: self.count + 1, is_mixed };
            return None;
        }
        let before = self.node(layout);
        *self = Packer { count: 1, is_mixed: false };
        before
    }

    /// The count of the node being filled, as it is stored.
    fn node(&self, layout: &Layout) -> Option<u8> {
        let flag = if self.count > layout.capacity { RUN } else { 0 };
        (self.count > 0).then_some(self.count as u8 | flag)
    }
}

/// How entries are distributed over in-page nodes: their counts as they are stored.
pub(super) struct Arrangement {
    counts: [u8; END_LINE],
    nodes: usize,
}

impl Arrangement {
    const NONE: Arrangement = Arrangement { counts: [0; END_LINE], nodes: 0 };

    /// Entries in as few nodes as possible, by whether each repeats the one before it; `None` if no page has as many
    /// nodes.
    pub fn of(layout: &Layout, repeats: &[bool]) -> Option<Arrangement> {
        if layout.run > 0 && repeats.iter().fold(false, |any, repeats| any | repeats) {
            return Self::packed(layout, repeats.iter().copied());
        }
        let mut full = Arrangement::NONE;
        repeats.chunks(layout.capacity).try_for_each(|node| full.add(node.len() as u8))?;
        Some(full)
    }

    /// Entries in as few nodes as possible, each of which repeats the one before it or not; `None` if no page has as
    /// many nodes.
    pub fn packed(layout: &Layout, mut repeats: impl Iterator<Item = bool>) -> Option<Arrangement> {
        let (mut packed, mut packer) = (Arrangement::NONE, Packer::EMPTY);
        repeats.try_for_each(|repeats| packer.push(layout, repeats).map_or(Some(()), |node| packed.add(node)))?;
        packer.node(layout).map_or(Some(()), |node| packed.add(node))?;
        Some(packed)
    }

    /// The arrangement, if it fits beside cells that take so many bytes.
    pub fn beside(self, layout: &Layout, cells: usize) -> Option<Arrangement> {
        (self.nodes <= layout.most_nodes(cells)).then_some(self)
    }

    /// The arrangement with the entries outside runs spread, each stretch of them between two runs over its part of the
    /// nodes there may be beside cells of so many bytes if `free` bytes stay free.
    pub fn spread(&self, layout: &Layout, cells: usize, free: usize) -> Arrangement {
        let (runs, plain) = (self.runs(), self.plain());
        let nodes = self.nodes - runs;
        let more = layout.spread_nodes(plain, runs, cells, free).saturating_sub(nodes);
        let (mut spread, mut before) = (Arrangement::NONE, 0);
        for stretch in self.counts().chunk_by(|a, b| (a | b) & RUN == 0) {
            if stretch[0] & RUN != 0 {
                spread.add(stretch[0]);
                continue;
            }
            let total: usize = stretch.iter().map(|&count| count as usize).sum();
            let share = more * (before + total) / plain - more * before / plain;
            before += total;
            let nodes = (stretch.len() + share).min(total);
            for node in 0..nodes {
                spread.add((total / nodes + usize::from(node < total % nodes)) as u8);
            }
        }
        spread
    }

    fn add(&mut self, stored: u8) -> Option<()> {
        *self.counts.get_mut(self.nodes)? = stored;
        self.nodes += 1;
        Some(())
    }

    fn counts(&self) -> &[u8] {
        &self.counts[..self.nodes]
    }

    fn runs(&self) -> usize {
        self.counts().iter().filter(|&&count| count & RUN != 0).count()
    }

    /// Entries outside runs.
    fn plain(&self) -> usize {
        self.counts().iter().filter(|&&count| count & RUN == 0).map(|&count| count as usize).sum()
    }

    /// Bytes that each of the entries takes in its node.
    pub fn sizes(&self, layout: &Layout) -> impl Iterator<Item = usize> {
        self.counts().iter().flat_map(|&stored| {
            let count = (stored & !RUN) as usize;
            let size = if stored & RUN == 0 { layout.entry() } else { layout.node_size() / count };
            core::iter::repeat_n(size, count)
        })
    }
}

/// How many slots a repack has to leave free in an in-page leaf node, on average, to be worth it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Thrift {
    /// The paper splits at fewer than one; below two, a repack buys so few inserts that its log record costs more than
    /// it saves. Where there are cells, these fill a page before its slots are used up.
    Usual,
    /// One: the page had better not be split.
    Tight,
}

impl Thrift {
    fn slots(self, layout: &Layout) -> usize {
        if self == Thrift::Tight || layout.kind.is_prefix() { 1 } else { 2 }
    }
}

/// How a page's entries are distributed when it is repacked; `None` if that leaves too little room, or too little for
/// an entry that needs `cell` bytes besides.
pub(super) fn repacked(bytes: &PageBytes, layout: &Layout, cell: usize, thrift: Thrift) -> Option<Arrangement> {
    let (cells, free) = match layout.kind.is_prefix() {
        true => (bytes::live_cells(bytes, layout), cell + layout.space() / 16),
        false => (0, 0),
    };
    // A full run takes another node when its key comes again.
    let roomy = Layout { run: layout.run - layout.run.div_ceil(8), ..*layout };
    let packed = Arrangement::of(&roomy, &Repeats::of(bytes, layout))?.beside(layout, cells + free)?;
    let arrangement = packed.spread(layout, cells, free);
    let (runs, spare) = (arrangement.runs(), layout.spare_nodes(arrangement.runs()));
    let most = layout.capacity - thrift.slots(layout);
    let is_worth_it = arrangement.plain() <= (arrangement.nodes + spare - runs) * most
        && arrangement.nodes + spare <= layout.most_nodes(cells);
    is_worth_it.then_some(arrangement)
}

/// How some of the entries of a page of lanes are distributed over a page of their own, and whether they are spread
/// there; `None` if there are no such entries.
pub(super) fn part(bytes: &PageBytes, layout: &Layout, part: Range<usize>, is_spread: bool) -> Option<Arrangement> {
    let repeats = Repeats::of(bytes, layout);
    let repeats = repeats.get(part).filter(|part| !part.is_empty())?;
    let packed = Arrangement::of(layout, repeats)?.beside(layout, 0)?;
    Some(if is_spread { packed.spread(layout, 0, 0) } else { packed })
}

/// Lays entries out over the in-page nodes of an in-page tree that is all zero; `fill` writes those of the next node,
/// which starts at a byte and has a count that is stored so.
fn lay_out_nodes(
    bytes: &mut PageBytes,
    layout: &Layout,
    arrangement: &Arrangement,
    mut fill: impl FnMut(&mut PageBytes, usize, u8),
) {
    let nodes = arrangement.nodes.min(layout.nodes);
    for (node, &stored) in arrangement.counts[..nodes].iter().enumerate() {
        let line = layout.first_node_line() + node * layout.x;
        bytes[layout.root_lines() + node] = line as u8;
        bytes[layout.root_counts() + node] = stored;
        fill(bytes, line * LINE, stored);
        bytes.copy_within(line * LINE..line * LINE + layout.lane, layout.root_lanes() + node * layout.lane);
    }
    bytes[at::NODES] = nodes as u8;
    edit::write_lines(bytes, layout.first_node_line() + nodes * layout.x);
}

/// Lays entries out over the in-page nodes of an in-page tree that is all zero; `put` writes the next entry's parts at
/// the places it is given.
pub(super) fn lay_out(
    bytes: &mut PageBytes,
    layout: &Layout,
    arrangement: &Arrangement,
    mut put: impl FnMut(&mut PageBytes, EntryOffsets),
) {
    lay_out_nodes(bytes, layout, arrangement, |bytes, start, stored| {
        (0..layout.entries_of(stored)).for_each(|slot| put(bytes, layout.offsets(start, stored, slot)));
    });
}

/// Lays the entries of another page, but for the first ones, out over the in-page nodes of an in-page tree that is all
/// zero.
pub(super) fn copy_out(
    bytes: &mut PageBytes,
    layout: &Layout,
    arrangement: &Arrangement,
    old: &PageBytes,
    mut skip: usize,
) {
    let mut from = nodes(old, layout).filter_map(|(start, stored)| {
        let count = layout.entries_of(stored);
        let first = skip.min(count);
        skip -= first;
        (first < count).then_some((start, stored, first, count))
    });
    let mut at_hand = from.next();
    lay_out_nodes(bytes, layout, arrangement, |bytes, to, to_stored| {
        let (mut filled, count) = (0, layout.entries_of(to_stored));
        while let Some((start, stored, first, end)) = at_hand.filter(|_| filled < count) {
            let some = (end - first).min(count - filled);
            layout.copy_entries(old, (start, stored, first), bytes, (to, to_stored, filled), some);
            filled += some;
            at_hand = if first + some < end { Some((start, stored, first + some, end)) } else { from.next() };
        }
    });
}

/// Says when a page being filled is full. All zero is an empty one.
#[derive(Clone, Copy)]
pub(crate) struct Filling {
    node: Packer,
    /// Entries outside runs, the nodes, and the runs among these, before the one being filled.
    plain: usize,
    nodes: usize,
    runs: usize,
}

impl Filling {
    /// A page with some entries, each of which repeats the one before it or not.
    pub fn of(layout: &Layout, repeats: impl Iterator<Item = bool>) -> Filling {
        let mut filling = Filling { node: Packer::EMPTY, plain: 0, nodes: 0, runs: 0 };
        repeats.for_each(|repeats| filling.push(layout, repeats));
        filling
    }

    /// Adds an entry, which repeats the one before it or not.
    pub fn push(&mut self, layout: &Layout, repeats: bool) {
        if let Some(node) = self.node.push(layout, repeats) {
            self.add(node);
        }
    }

    fn add(&mut self, node: u8) {
        self.nodes += 1;
        if node & RUN != 0 {
            self.runs += 1;
        } else {
            self.plain += node as usize;
        }
    }

    /// Whether that, and cells that take so many bytes, is no more than a page filled to `fill` percent has room for.
    /// Runs are filled whatever `fill` says, as nothing comes between their entries, and so is what may become one.
    pub fn fits(&self, layout: &Layout, cells: usize, fill: usize) -> bool {
        let nodes = self.nodes + 1;
        let is_far_from_full =
            nodes * 100 <= layout.nodes * fill && (nodes * layout.node_size() + cells) * 100 <= layout.space() * fill;
        is_far_from_full || self.fits_exactly(layout, cells, fill)
    }

    fn fits_exactly(&self, layout: &Layout, cells: usize, fill: usize) -> bool {
        let becomes_run = layout.run > 0 && !self.node.is_mixed && self.node.count > 0;
        let nodes = [self.node.node(layout), becomes_run.then_some(RUN)];
        nodes.into_iter().flatten().any(|node| {
            let mut page = *self;
            page.add(node);
            page.is_within(layout, cells, fill)
        })
    }

    fn is_within(&self, layout: &Layout, cells: usize, fill: usize) -> bool {
        let slots = layout.nodes.saturating_sub(self.runs) * layout.capacity;
        let space = layout.space().saturating_sub(self.runs * layout.node_size());
        self.nodes <= layout.most_nodes(cells)
            && self.plain * 100 <= slots * fill
            && (self.plain * layout.entry() + cells) * 100 <= space * fill
    }
}
