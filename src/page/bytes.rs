//! Pages of keys that are byte strings: lanes are the bytes after what all keys of the page begin with, and what does
//! not fit there lies in *cells* at the page's end, which grow towards the in-page tree.

use super::arrange::Arrangement;
use super::*;
use crate::keys::bytes::{HEAD, Kept, LongKey, LongOrder, MOST_PARTS, Stored, front_order};

/// The key space of byte strings.
#[derive(Clone, Copy, Debug)]
pub struct Long;

/// Where the fences of such a page are described, in its second line.
mod long_at {
    use super::{CELL, Tail};

    /// How many bytes of the low fence all keys begin with.
    pub const PREFIX: usize = 64;
    pub const LOW: usize = 66;
    pub const HIGH: usize = LOW + CELL + Tail::SIZE;
    pub const END: usize = HIGH + CELL + Tail::SIZE;
}

/// A fence: a key cut short, or a whole one with its tail.
#[derive(Clone, Copy, Debug)]
pub struct LongFence<'a> {
    /// The key.
    pub key: Stored<'a>,
    /// What breaks its ties.
    pub tail: Tail,
}

fn put_length(bytes: &mut [u8], at: &mut usize, length: usize) {
    if length >= 0x80 {
        bytes[*at] = 0x80 | (length >> 8) as u8;
        *at += 1;
    }
    bytes[*at] = length as u8;
    *at += 1;
}

fn take_length(bytes: &[u8], at: &mut usize) -> Option<usize> {
    let first = *bytes.get(*at)? as usize;
    *at += 1;
    if first < 0x80 {
        return Some(first);
    }
    let second = *bytes.get(*at)? as usize;
    *at += 1;
    Some((first & 0x7F) << 8 | second)
}

/// Adds a cell below those there are, but not below `lower`, and says where it begins: 0 if it is empty; `None` if there
/// is no room.
pub(super) fn put_cell(bytes: &mut PageBytes, layout: &Layout, lower: usize, rest: &[u8], extra: &[u8]) -> Option<u16> {
    let length = layout.cell_size(rest.len(), extra.len());
    if length == 0 {
        return Some(0);
    }
    let start = edit::space_end(bytes, layout).checked_sub(length).filter(|&start| start >= lower)?;
    let mut at = start;
    put_length(bytes, &mut at, rest.len());
    if layout.kind == LaneKind::PrefixExtra {
        put_length(bytes, &mut at, extra.len());
    }
    bytes[at..at + rest.len()].copy_from_slice(rest);
    bytes[at + rest.len()..at + rest.len() + extra.len()].copy_from_slice(extra);
    write_u16(bytes, at::PD_UPPER, start as u16);
    Some(start as u16)
}

/// The two parts of the cell that begins at a byte, `None` if there can be none.
fn checked_cell<'a>(bytes: &'a PageBytes, layout: &Layout, at: u16) -> Option<(&'a [u8], &'a [u8])> {
    let at = at as usize;
    if at == 0 {
        return Some((&[], &[]));
    }
    if !(FIRST_LINE * LINE..SPACE_END).contains(&at) {
        return None;
    }
    parts_of_cell(&bytes[at..SPACE_END], layout.kind)
}

/// The two parts of a cell at the front of `cells`, `None` if there can be none.
fn parts_of_cell(cells: &[u8], kind: LaneKind) -> Option<(&[u8], &[u8])> {
    let mut at = 0;
    let rest = take_length(cells, &mut at)?;
    let extra = if kind == LaneKind::PrefixExtra { take_length(cells, &mut at)? } else { 0 };
    let middle = at + rest;
    Some((cells.get(at..middle)?, cells.get(middle..middle + extra)?))
}

/// Copies of a page's entries' keys, and what they carry: the prefix once, and cells. Those of a few entries are copied
/// one by one, of more all that the page has. Plain memory.
#[derive(Clone, Copy)]
pub struct Copies {
    kind: LaneKind,
    prefix: usize,
    lanes: [u64; MAX_PAGE_ENTRIES],
    /// Where each entry's cell is in `bytes`; 0 is none.
    cells: [u16; MAX_PAGE_ENTRIES],
    /// The cell copied last: where it was in the page, and where it is.
    last: (u16, u16),
    /// Where the page's cells begin if all have been copied, else where they would end.
    whole_from: usize,
    /// The end of what was copied one by one.
    used: usize,
    /// The page's cells, each where it is in the page; then the prefix, and cells one by one.
    bytes: [u8; Copies::END],
}

impl Copies {
    /// Bytes that are copied one by one: prefix and cells of a few entries.
    const FEW: usize = MOST_PARTS + 512;
    const END: usize = PAGE_SIZE + Self::FEW;

    /// None.
    pub fn none() -> Self {
        Copies {
            kind: LaneKind::Prefix,
            prefix: 0,
            lanes: [0; MAX_PAGE_ENTRIES],
            cells: [0; MAX_PAGE_ENTRIES],
            last: (0, 0),
            whole_from: SPACE_END,
            used: PAGE_SIZE,
            bytes: [0; Self::END],
        }
    }

    /// Begins with a page.
    pub fn begin(&mut self, page: &Page<'_, Long>) {
        let prefix = page.prefix();
        let prefix = &prefix[..prefix.len().min(MOST_PARTS)];
        self.used = PAGE_SIZE + prefix.len();
        self.bytes[PAGE_SIZE..self.used].copy_from_slice(prefix);
        (self.kind, self.prefix, self.last, self.whole_from) = (page.layout.kind, prefix.len(), (0, 0), SPACE_END);
    }

    /// Copies an entry as the `at`-th; `false` if it cannot be one.
    #[inline]
    pub fn set(&mut self, at: usize, node: &Node<'_, Long>, slot: usize) -> bool {
        self.lanes[at] = node.lane(slot);
        let from = node.cell(slot);
        if (self.whole_from..SPACE_END).contains(&from.into()) {
            self.cells[at] = from;
            return true;
        }
        if from != self.last.0 {
            let Some(place) = self.copy(&node.page, from) else { return false };
            self.last = (from, place);
        }
        self.cells[at] = self.last.1;
        true
    }

    /// Copies a cell, with all others if it is one too many, and says where it is then. `None` if there can be none.
    fn copy(&mut self, page: &Page<'_, Long>, from: u16) -> Option<u16> {
        let (rest, extra) = checked_cell(page.bytes, page.layout, from)?;
        let length = page.layout.cell_size(rest.len(), extra.len());
        if length == 0 {
            return Some(0);
        }
        let cell = page.bytes.get(from.into()..from as usize + length)?;
        let place = self.used;
        if let Some(room) = self.bytes.get_mut(place..place + length) {
            room.copy_from_slice(cell);
            self.used += length;
            return Some(place as u16);
        }
        self.copy_all(page);
        (self.whole_from..SPACE_END).contains(&from.into()).then_some(from)
    }

    /// Copies all cells of the page.
    pub fn copy_all(&mut self, page: &Page<'_, Long>) {
        self.whole_from = edit::space_end(page.bytes, page.layout);
        self.bytes[self.whole_from..SPACE_END].copy_from_slice(&page.bytes[self.whole_from..SPACE_END]);
    }

    /// Puts `from..to` in the opposite order.
    pub fn reverse(&mut self, from: usize, to: usize) {
        self.lanes[from..to].reverse();
        self.cells[from..to].reverse();
    }

    /// Copies the first `count` of another's.
    pub fn copy_from(&mut self, other: &Self, count: usize) {
        self.lanes[..count].copy_from_slice(&other.lanes[..count]);
        self.cells[..count].copy_from_slice(&other.cells[..count]);
        for used in [other.whole_from..SPACE_END, PAGE_SIZE..other.used] {
            self.bytes[used.clone()].copy_from_slice(&other.bytes[used]);
        }
        (self.kind, self.prefix, self.used) = (other.kind, other.prefix, other.used);
        (self.last, self.whole_from) = (other.last, other.whole_from);
    }

    /// The key of the `at`-th. `None` if its cell is none.
    #[inline]
    pub fn stored(&self, at: usize) -> Option<Stored<'_>> {
        let (prefix, head) = (&self.bytes[PAGE_SIZE..PAGE_SIZE + self.prefix], self.lanes[at]);
        let (rest, extra) = match self.cells[at] as usize {
            0 => (&[][..], &[][..]),
            whole @ ..PAGE_SIZE => parts_of_cell(&self.bytes[whole..SPACE_END], self.kind)?,
            single => parts_of_cell(&self.bytes[single..self.used], self.kind)?,
        };
        Some(Stored { prefix, head, rest, extra })
    }
}

/// The same; empty if there can be none.
#[inline]
fn cell<'a>(bytes: &'a PageBytes, layout: &Layout, at: u16) -> (&'a [u8], &'a [u8]) {
    checked_cell(bytes, layout, at).unwrap_or((&[], &[]))
}

fn stored_length(bytes: &PageBytes, layout: &Layout, at: u16) -> usize {
    let (rest, extra) = cell(bytes, layout, at);
    layout.cell_size(rest.len(), extra.len())
}

/// Bytes of the cells that something refers to.
pub(super) fn live_cells(bytes: &PageBytes, layout: &Layout) -> usize {
    let page = Page::<Long> { bytes, layout, keys: PhantomData };
    let fences = [long_at::LOW, long_at::HIGH].map(|at| stored_length(bytes, layout, read_u16(bytes, at)));
    let (mut sum, mut previous) = (fences.iter().sum(), 0);
    for number in 0..page.nodes() {
        let node = page.node(number);
        for slot in 0..node.len() {
            let at = node.cell(slot);
            if at != previous {
                sum += stored_length(bytes, layout, at);
                previous = at;
            }
        }
    }
    sum
}

/// Moves the cells of a page that is being repacked.
pub(super) struct Mover<'o> {
    old: &'o PageBytes,
    layout: &'o Layout,
    last: (u16, u16),
}

impl<'o> Mover<'o> {
    /// Begins with the fences' cells.
    pub fn new(old: &'o PageBytes, bytes: &mut PageBytes, layout: &'o Layout) -> Self {
        let mut mover = Mover { old, layout, last: (0, 0) };
        if layout.kind.is_prefix() {
            write_u16(bytes, at::PD_UPPER, SPACE_END as u16);
            for at in [long_at::LOW, long_at::HIGH] {
                mover.move_cell(bytes, at);
            }
        }
        mover
    }

    fn move_cell(&mut self, bytes: &mut PageBytes, reference: usize) {
        let from = read_u16(bytes, reference);
        if from != self.last.0 {
            let (rest, extra) = cell(self.old, self.layout, from);
            let lower = self.layout.first_node_line() * LINE;
            self.last = (from, put_cell(bytes, self.layout, lower, rest, extra).unwrap_or(0));
        }
        write_u16(bytes, reference, self.last.1);
    }

    /// Moves the cells of all entries, which have been copied.
    pub fn take_along(mut self, bytes: &mut PageBytes) {
        let layout = self.layout;
        let nodes = if layout.kind.is_prefix() { bytes[at::NODES] as usize } else { 0 };
        for node in 0..nodes {
            let stored = bytes[layout.root_counts() + node];
            let start = layout.node_start(bytes[layout.root_lines() + node]);
            let cells = if stored & RUN == 0 { layout.entries_of(stored) } else { 1 };
            for slot in 0..cells {
                self.move_cell(bytes, layout.spot(start, stored, slot).more + layout.cell_at());
            }
        }
    }
}

impl<'a> Page<'a, Long> {
    /// What all keys of the page begin with.
    #[inline]
    fn prefix(&self) -> &'a [u8] {
        let (low, _) = cell(self.bytes, self.layout, read_u16(self.bytes, long_at::LOW));
        &low[..(read_u16(self.bytes, long_at::PREFIX) as usize).min(low.len())]
    }

    /// The cell of an equal entry beside `place`, of one in the same node rather than in the next.
    fn shared_cell(&self, place: Position, lane: u64, rest: &[u8], extra: &[u8]) -> Option<u16> {
        let (behind, before) = (Some(self.settle(place)), self.previous(place));
        let beside = if behind == Some(place) { [behind, before] } else { [before, behind] };
        beside.into_iter().flatten().filter(|at| self.entry(*at).is_some()).find_map(|at| {
            let (found, cell_at) = self.node(at.node as usize).head(at.slot as usize);
            let same = found == lane && cell(self.bytes, self.layout, cell_at) == (rest, extra);
            (same && cell_at != 0).then_some(cell_at)
        })
    }

    /// What an entry from outside has in this page: its lane, and the rest of its key.
    fn split_key<'e>(&self, entry: &Entry<'e, Long>) -> (u64, &'e [u8]) {
        let (normal, skip) = (entry.key.prefix, self.prefix().len());
        let behind = normal.get(skip + HEAD..).unwrap_or(&[]);
        let end = behind.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        (lane_at(normal, skip, 0), &behind[..end])
    }
}

/// The lane of a key whose first `skip` bytes go without saying; bytes that it does not have are `filler`.
#[inline]
fn lane_at(normal: &[u8], skip: usize, filler: u8) -> u64 {
    let behind = normal.get(skip..).unwrap_or(&[]);
    if let Some(head) = behind.first_chunk::<HEAD>() {
        return u64::from_be_bytes(*head);
    }
    let mut head = [filler; HEAD];
    head[..behind.len()].copy_from_slice(behind);
    u64::from_be_bytes(head)
}

/// How a place is ordered against the entry in a slot of a node, where their lanes are the same, if that had this tail.
#[inline]
fn compare_behind_lane(key: LongKey<'_>, node: &Node<'_, Long>, slot: usize, tail: Tail) -> Ordering {
    let page = &node.page;
    let (rest, extra) = cell(page.bytes, page.layout, node.cell(slot));
    let skip = read_u16(page.bytes, long_at::PREFIX) as usize + HEAD;
    key.compare_rest(skip, rest, extra, tail)
}

/// How long the shortest key is that is behind one entry and not behind the next: normal bytes, or all of both parts.
enum Separator {
    Front(usize),
    Whole,
}

impl Separator {
    fn between(last: &Entry<'_, Long>, first: &Entry<'_, Long>, level: u8) -> Separator {
        match last.key.common(&first.key) {
            usize::MAX => Separator::Whole,
            _ if level > 0 => Separator::Whole,
            common => Separator::Front(common + 1),
        }
    }

    fn length(&self, first: &Entry<'_, Long>) -> usize {
        match *self {
            Separator::Front(length) => length,
            Separator::Whole => first.key.normal_length() + first.key.extra.len(),
        }
    }
}

/// Becomes the fence between two entries that are neighbours on a level: the shortest in a leaf, the second one's key in
/// an inner page.
fn set_separator(
    fence: &mut Kept,
    last: &Entry<'_, Long>,
    first: &Entry<'_, Long>,
    level: u8,
    order: Option<LongOrder<'_>>,
) {
    match Separator::between(last, first, level) {
        Separator::Front(length) => fence.keep_front(&first.key, length),
        Separator::Whole => {
            // A damaged value part is noticed by whoever reads the entry.
            let value = Long::value_length(first, level, order).unwrap_or(0);
            fence.keep(&first.key, value, first.tail);
            if level == 0
                && let Some(value) = fence.key(order).telling_value(&last.key)
            {
                fence.keep(&first.key, value, Tail::MIN);
            }
        }
    }
}

impl Long {
    /// How many of an entry's extra bytes belong to its key.
    fn value_length(entry: &Entry<'_, Long>, level: u8, order: Option<LongOrder<'_>>) -> Option<usize> {
        match order {
            None => Some(0),
            Some(_) if level > 0 => Some(entry.key.extra.len()),
            Some(order) => order.shape.value_length(entry.key.extra),
        }
    }

    /// Keeps the fence between two leaf entries of a new index, where the page left of it is counted on to have a prefix
    /// of `prefix` bytes.
    pub(crate) fn keep_load_fence(
        fence: &mut Kept,
        last: &Entry<'_, Long>,
        first: &Entry<'_, Long>,
        prefix: usize,
        order: Option<LongOrder<'_>>,
    ) {
        let common = last.key.common(&first.key);
        if common < prefix {
            return fence.raise_front(&last.key, prefix);
        }
        set_separator(fence, last, first, 0, order);
    }
}

impl KeySpace for Long {
    type Lane = u64;
    type Order<'o> = Option<LongOrder<'o>>;
    type Key<'k> = LongKey<'k>;
    type Stored<'a> = Stored<'a>;
    type Fence<'a> = LongFence<'a>;
    type Kept = Kept;

    const FIRST: Kept = Kept::FIRST;
    const LAST: Kept = Kept::LAST;

    #[inline(always)]
    fn fresh() -> Kept {
        Kept::new()
    }

    fn first() -> &'static Kept {
        static FIRST: Kept = Kept::FIRST;
        &FIRST
    }

    fn last() -> &'static Kept {
        static LAST: Kept = Kept::LAST;
        &LAST
    }

    fn is_kind(kind: LaneKind) -> bool {
        kind.is_prefix()
    }

    #[inline]
    fn lend<'k, 'o: 'k>(kept: &'k Kept, order: Option<LongOrder<'o>>) -> LongKey<'k> {
        kept.key(order)
    }

    fn fence_of(kept: &Kept) -> LongFence<'_> {
        LongFence { key: kept.stored(), tail: kept.tail() }
    }

    fn downlink(kept: &Kept, child: Block) -> Entry<'_, Long> {
        Entry { key: kept.stored(), tail: kept.tail(), child }
    }

    #[inline]
    fn assign(into: &mut Kept, from: &Kept) {
        into.assign(from);
    }

    #[inline]
    fn keep(into: &mut Kept, fence: LongFence<'_>) {
        into.keep(&fence.key, fence.key.extra.len(), fence.tail);
    }

    fn keep_key(into: &mut Kept, entry: &Entry<'_, Long>, order: Option<LongOrder<'_>>) -> Option<()> {
        let level = u8::from(entry.child != NO_BLOCK);
        into.keep(&entry.key, Long::value_length(entry, level, order)?, entry.tail);
        Some(())
    }

    fn key_of<'k, 'e: 'k, 'o: 'k>(entry: &Entry<'e, Long>, order: Option<LongOrder<'o>>) -> LongKey<'k> {
        let value = if order.is_some() { entry.key.extra } else { &[] };
        LongKey { normal: entry.key.prefix, value, above: false, tail: entry.tail.position(), order }
    }

    fn shorten<'s, 'l: 's>(entry: Entry<'l, Long>) -> Entry<'s, Long> {
        Entry { key: entry.key, tail: entry.tail, child: entry.child }
    }

    fn is_fence(entry: &Entry<'_, Long>, fence: LongFence<'_>) -> bool {
        entry.key.is_same(&fence.key) && entry.tail.position() == fence.tail
    }

    fn same_fence(a: LongFence<'_>, b: LongFence<'_>) -> bool {
        a.key.is_same(&b.key) && a.tail == b.tail
    }

    fn step(kept: &mut Kept) {
        kept.step();
    }

    fn same(a: &Kept, b: &Kept) -> bool {
        a.is_same(b)
    }

    #[inline]
    fn fence<'a>(page: &Page<'a, Long>, side: Side) -> LongFence<'a> {
        let at = match side {
            Side::Low => long_at::LOW,
            Side::High => long_at::HIGH,
        };
        let (normal, extra) = cell(page.bytes, page.layout, read_u16(page.bytes, at));
        LongFence { key: Stored::whole(normal, extra), tail: Tail::read(page.bytes, at + CELL).position() }
    }

    #[inline]
    fn compare_fence(key: LongKey<'_>, page: &Page<'_, Long>, side: Side) -> Ordering {
        let fence = Long::fence(page, side);
        key.compare(&fence.key, fence.tail)
    }

    #[inline]
    fn lane_in(key: LongKey<'_>, page: &Page<'_, Long>) -> core::result::Result<u64, Ordering> {
        let prefix = page.prefix();
        let (order, length) = front_order(key.normal, prefix);
        if order.is_ne() {
            return Err(order);
        }
        let missing = &prefix[length..];
        match key.is_behind_normal() {
            true if !missing.is_empty() => Err(Ordering::Greater),
            true => Ok(lane_at(key.normal, prefix.len(), u8::MAX)),
            false if missing.iter().any(|&byte| byte != 0) => Err(Ordering::Less),
            false => Ok(lane_at(key.normal, prefix.len(), 0)),
        }
    }

    /// The normal part's first bytes.
    #[inline]
    fn mark(key: LongKey<'_>) -> u64 {
        lane_at(key.normal, 0, if key.is_behind_normal() { u8::MAX } else { 0 })
    }

    fn mark_of(fence: LongFence<'_>) -> (u64, bool) {
        let mark = u64::from_be_bytes(core::array::from_fn(|at| fence.key.byte(at)));
        let is_told = fence.key.normal_length() <= HEAD && fence.key.extra.is_empty();
        (mark, is_told && fence.tail == Tail::MIN)
    }

    #[inline]
    fn begins_lane(_key: LongKey<'_>) -> bool {
        false
    }

    #[inline]
    fn compare_tied(key: LongKey<'_>, node: &Node<'_, Long>, slot: usize) -> Ordering {
        compare_behind_lane(key, node, slot, node.tail(slot))
    }

    fn compare_head(key: LongKey<'_>, run: &Node<'_, Long>) -> Ordering {
        compare_behind_lane(key, run, 0, key.tail)
    }

    #[inline]
    fn tail(key: LongKey<'_>) -> Tail {
        key.tail
    }

    fn compare_entry(key: LongKey<'_>, entry: &Entry<'_, Long>) -> Ordering {
        key.compare(&entry.key, entry.tail)
    }

    #[inline]
    fn stored<'a>(node: &Node<'a, Long>, slot: usize) -> Stored<'a> {
        let page = &node.page;
        let (rest, extra) = cell(page.bytes, page.layout, node.cell(slot));
        Stored { prefix: page.prefix(), head: node.lane(slot), rest, extra }
    }

    fn parts<'e>(page: &Page<'_, Long>, place: Position, entry: &Entry<'e, Long>) -> (u64, Cell<'e>) {
        let (lane, rest) = page.split_key(entry);
        let extra = entry.key.extra;
        if rest.len() + extra.len() == 0 {
            return (lane, Cell::None);
        }
        let shared = if page.level() == 0 { page.shared_cell(place, lane, rest, extra) } else { None };
        (lane, shared.map_or(Cell::New { rest, extra }, Cell::Shared))
    }

    fn parted(page: &Page<'_, Long>, place: Position, cell: Cell<'_>) -> usize {
        // In a leaf, entries with equal keys share a cell unless they carry different bytes.
        if page.level() == 0 && page.layout.kind != LaneKind::PrefixExtra {
            return 0;
        }
        let cell_at = |at: Position| page.entry(at).map(|_| page.node(at.node as usize).cell(at.slot as usize));
        let (before, behind) = (page.previous(place).and_then(cell_at), cell_at(page.settle(place)));
        match before {
            Some(shared) if before == behind && before != cell.at() => stored_length(page.bytes, page.layout, shared),
            _ => 0,
        }
    }

    fn same_key(a: &Stored<'_>, b: &Stored<'_>) -> bool {
        a.is_same(b)
    }

    fn choose_split(entries: &Joined<'_, Long>, aim: Aim, order: Option<LongOrder<'_>>, fence: &mut Kept) -> usize {
        let page = entries.page();
        let (layout, level) = (page.layout, page.level());
        // Before each entry: the cells of those before it, as large as they are under the page's own prefix, and the bytes
        // of nodes. And what each would take more that shares a cell.
        let mut cells = [0usize; MAX_PAGE_ENTRIES + 2];
        let mut slots = [0usize; MAX_PAGE_ENTRIES + 2];
        let mut saved = [0usize; MAX_PAGE_ENTRIES + 1];
        let mut repeated = [false; MAX_PAGE_ENTRIES + 1];
        let total = entries.len().min(MAX_PAGE_ENTRIES + 1);
        let mut measure = Measure::new(layout, page.prefix().len());
        for (index, entry) in entries.iter().take(total).enumerate() {
            let cell;
            (repeated[index], cell) = measure.next(&entry);
            saved[index] = measure.own(&entry) - cell;
            cells[index + 1] = cells[index] + cell;
        }
        let packed = Arrangement::of(layout, &repeated[..total]);
        for (index, size) in packed.iter().flat_map(|packed| packed.sizes(layout)).enumerate() {
            slots[index + 1] = slots[index] + size;
        }
        let weight = |index: usize| cells[index] + slots[index];
        let wanted = weight(total) * aim.left / 100;
        let middle = (1..total).find(|&index| weight(index) >= wanted).unwrap_or(total - 1).clamp(1, total - 1);
        let fences = [page.low(), page.high()].map(|f| layout.cell_size(f.key.normal_length(), f.key.extra.len()));
        let fits = |index: usize, separator: usize| {
            let half = |from: usize, to: usize, cells: usize| layout.holds(&repeated[from..to], cells + separator + 4);
            half(0, index, cells[index] + fences[0])
                && half(index, total, cells[total] - cells[index] + saved[index] + fences[1])
        };
        // The place with the shortest fence, of those at which both halves fit.
        let shortest = |reach: usize| {
            let (from, to) = (middle.saturating_sub(reach).max(1), (middle + reach).min(total - 1));
            let mut best: Option<(usize, usize)> = None;
            let mut previous: Option<Entry<'_, Long>> = None;
            for (index, entry) in entries.iter().enumerate().skip(from - 1).take(to - from + 2) {
                if let Some(previous) = previous.filter(|_| index >= from) {
                    let length = Separator::between(&previous, &entry, level).length(&entry);
                    let rank = (length, index.abs_diff(middle));
                    let is_better = best.is_none_or(|(at, best)| rank < (best, at.abs_diff(middle)));
                    if is_better && fits(index, length) {
                        best = Some((index, length));
                    }
                }
                previous = Some(entry);
            }
            best.map(|(index, _)| index)
        };
        let sound = |index: &usize| {
            let separator = |(last, first): (_, _)| Separator::between(&last, &first, level).length(&first);
            entries.around(*index).is_some_and(|around| fits(*index, separator(around)))
        };
        let near = shortest((total / 16).max(1));
        let changes = split::outward(middle, split::reach_of_changes(level, total), total).filter(|&at| !repeated[at]);
        let keep = near
            .filter(|&index| !repeated[index])
            .or_else(|| changes.chain(aim.parting).find(sound))
            .or(near)
            .or_else(|| shortest(total))
            .unwrap_or(middle);
        if let Some((last, first)) = entries.around(keep) {
            set_separator(fence, &last, &first, level, order);
        }
        keep
    }

    fn build<'a>(
        geometry: &Geometry,
        links: &Links<'_, Long>,
        total: usize,
        entries: impl Iterator<Item = Entry<'a, Long>> + Clone,
    ) -> Option<PageBytes> {
        let layout = *geometry.layout(links.level);
        let (low, high) = (links.low, links.high);
        let prefix = low.key.common(&high.key).min(low.key.normal_length());
        let fences = [low, high].map(|f| layout.cell_size(f.key.normal_length(), f.key.extra.len()));
        let (mut measure, mut cells) = (Measure::new(&layout, prefix), fences.iter().sum::<usize>());
        let repeats = entries.clone().take(total).map(|entry| {
            let (repeats, cell) = measure.next(&entry);
            cells += cell;
            repeats
        });
        let packed = Arrangement::packed(&layout, repeats)?.beside(&layout, cells)?;
        let arrangement = if links.is_spread() { packed.spread(&layout, cells, 0) } else { packed };

        let mut bytes = edit::new_page(geometry, links);
        let mut scratch = [0; MOST_PARTS];
        write_u16(&mut bytes, long_at::PREFIX, prefix as u16);
        for (at, fence) in [(long_at::LOW, low), (long_at::HIGH, high)] {
            let length = fence.key.copy_normal(&mut scratch)?;
            let cell = put_cell(&mut bytes, &layout, FIRST_LINE * LINE, &scratch[..length], fence.key.extra)?;
            write_u16(&mut bytes, at, cell);
            fence.tail.write(&mut bytes, at + CELL);
        }
        let mut entries = entries;
        let mut previous: Option<(Stored<'a>, u16)> = None;
        arrange::lay_out(&mut bytes, &layout, &arrangement, |bytes, spot| {
            let Some(entry) = entries.next() else { return };
            let mut head = [0; HEAD];
            entry.key.copy_from(prefix, &mut head);
            u64::from_be_bytes(head).write(bytes, spot.lane);
            let cell = match previous {
                Some((key, cell)) if key.is_same(&entry.key) => cell,
                _ => {
                    let length = entry.key.normal_length().saturating_sub(prefix + HEAD).min(MOST_PARTS);
                    entry.key.copy_from(prefix + HEAD, &mut scratch[..length]);
                    put_cell(bytes, &layout, FIRST_LINE * LINE, &scratch[..length], entry.key.extra).unwrap_or(0)
                }
            };
            previous = Some((entry.key, cell));
            edit::write_payload(bytes, &layout, spot, entry.tail, entry.child, cell);
        });
        Some(bytes)
    }

    /// The prefix that keys have in common grows, and with it all entries change.
    fn rest(_page: &Page<'_, Long>, _geometry: &Geometry, _links: &Links<'_, Long>, _skip: usize) -> Option<PageBytes> {
        None
    }

    /// As in [`rest`](KeySpace::rest).
    fn halve(_keep: usize, _right: Block, _high: LongFence<'_>) -> Option<Edit<'static>> {
        None
    }

    fn lower<'e>(
        page: &Page<'_, Long>,
        geometry: &Geometry,
        low: LongFence<'_>,
        left: Block,
        image: &'e mut PageBytes,
    ) -> Option<Edit<'e>> {
        let links = Links { level: page.level(), left, right: page.right(), low, high: page.high() };
        *image = Long::build(geometry, &links, page.entries(), page.iter())?;
        image[at::FLAGS] = page.bytes[at::FLAGS];
        Some(Edit::Image(image))
    }

    /// All keys begin as both fences do.
    #[inline]
    fn is_bounded(page: &Page<'_, Long>) -> bool {
        let [low, high] =
            [long_at::LOW, long_at::HIGH].map(|at| cell(page.bytes, page.layout, read_u16(page.bytes, at)).0);
        let prefix = read_u16(page.bytes, long_at::PREFIX) as usize;
        let is_common = prefix <= low.len() && high.starts_with(&low[..prefix]);
        is_common && (prefix == low.len() || low.get(prefix) != high.get(prefix))
    }

    fn verify_header(page: &Page<'_, Long>) -> core::result::Result<(), Flaw> {
        let (low, high) = (page.low(), page.high());
        let prefix = read_u16(page.bytes, long_at::PREFIX) as usize;
        let sound = prefix <= low.key.prefix.len() && low.key.common(&high.key) >= prefix;
        verify::ensure(sound, "page's prefix is not what its fences begin with")?;
        let fences = [long_at::LOW, long_at::HIGH].map(|at| read_u16(page.bytes, at));
        verify::ensure(fences.into_iter().all(|at| page.has_cell(at)), "fence lies where no fence can be")?;
        let clean = verify::is_zero(&page.bytes[long_at::END..FIRST_LINE * LINE]);
        verify::ensure(clean, "page header has bytes where it should be empty")?;
        let cells = SPACE_END - edit::space_end(page.bytes, page.layout);
        verify::ensure(live_cells(page.bytes, page.layout) <= cells, "page's cells would not fit a repack")?;
        for number in 0..page.nodes() {
            let node = page.node(number);
            let sound = (0..node.len()).all(|slot| page.has_cell(node.cell(slot)));
            verify::ensure(sound, "entry's cell lies where no cell can be")?;
        }
        Ok(())
    }

    fn verify_entry(entry: &Entry<'_, Long>, _ranks: Option<bool>) -> core::result::Result<(), Flaw> {
        verify::ensure(!entry.tail.rank(), "entry has a rank")
    }
}

impl Page<'_, Long> {
    fn has_cell(&self, at: u16) -> bool {
        let upper = read_u16(self.bytes, at::PD_UPPER);
        at == 0 || at >= upper && checked_cell(self.bytes, self.layout, at).is_some()
    }
}

/// Says what cells entries take under a prefix.
#[derive(Clone, Copy)]
struct Measure<'a, 'l> {
    layout: &'l Layout,
    prefix: usize,
    previous: Option<Stored<'a>>,
}

impl<'a, 'l> Measure<'a, 'l> {
    fn new(layout: &'l Layout, prefix: usize) -> Self {
        Measure { layout, prefix, previous: None }
    }

    /// Whether the next entry has the key of the one before it, and so its cell; and bytes of its own one if not.
    fn next(&mut self, entry: &Entry<'a, Long>) -> (bool, usize) {
        let repeats = self.previous.is_some_and(|previous| previous.is_same(&entry.key));
        self.previous = Some(entry.key);
        (repeats, if repeats { 0 } else { self.own(entry) })
    }

    /// Bytes of an entry's cell that it does not share.
    fn own(&self, entry: &Entry<'_, Long>) -> usize {
        let rest = entry.key.normal_length().saturating_sub(self.prefix + HEAD);
        self.layout.cell_size(rest, entry.key.extra.len())
    }
}
