//! Cells: what does not fit entries' lanes, at the page's end; and copies of them.

use super::*;

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

/// Adds a cell below those there are, but not below `lower`, and says where it begins: 0 if it is empty; `None` if
/// there is no room.
pub(in crate::page) fn put_cell(
    bytes: &mut PageBytes,
    layout: &Layout,
    lower: usize,
    suffix: &[u8],
    payload: &[u8],
) -> Option<u16> {
    let length = layout.cell_size(suffix.len(), payload.len());
    if length == 0 {
        return Some(0);
    }
    let start = edit::space_end(bytes, layout).checked_sub(length).filter(|&start| start >= lower)?;
    let mut at = start;
    put_length(bytes, &mut at, suffix.len());
    if layout.kind == LaneKind::PrefixPayload {
        put_length(bytes, &mut at, payload.len());
    }
    bytes[at..at + suffix.len()].copy_from_slice(suffix);
    bytes[at + suffix.len()..at + suffix.len() + payload.len()].copy_from_slice(payload);
    write_u16(bytes, at::PD_UPPER, start as u16);
    Some(start as u16)
}

/// The two parts of the cell that begins at a byte, `None` if there can be none.
pub(super) fn checked_cell<'a>(bytes: &'a PageBytes, layout: &Layout, at: u16) -> Option<(&'a [u8], &'a [u8])> {
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
    let suffix = take_length(cells, &mut at)?;
    let payload = if kind == LaneKind::PrefixPayload { take_length(cells, &mut at)? } else { 0 };
    let middle = at + suffix;
    Some((cells.get(at..middle)?, cells.get(middle..middle + payload)?))
}

/// Copies of a page's entries' keys, and what they carry: the prefix once, and cells. Those of a few entries are copied
/// one by one, of more all that the page has. Plain memory.
#[derive(Clone, Copy)]
pub struct KeyCopies {
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
    bytes: [u8; KeyCopies::END],
}

impl KeyCopies {
    /// Bytes that are copied one by one: prefix and cells of a few entries.
    const FEW: usize = MOST_PARTS + 512;
    const END: usize = PAGE_SIZE + Self::FEW;

    /// None.
    pub fn none() -> Self {
        KeyCopies {
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

    /// Makes none in memory that holds anything.
    ///
    /// # Safety
    /// The memory may be written; it comes from where nobody knows what it holds, but it is some bytes.
    pub unsafe fn init(memory: *mut Self) {
        // SAFETY: the rest are integers.
        unsafe {
            (&raw mut (*memory).kind).write(LaneKind::Prefix);
            (&raw mut (*memory).prefix).write(0);
            (&raw mut (*memory).last).write((0, 0));
            (&raw mut (*memory).whole_from).write(SPACE_END);
            (&raw mut (*memory).used).write(PAGE_SIZE);
        }
    }

    /// Begins with a page.
    pub fn begin(&mut self, page: &Page<'_, Bytes>) {
        let prefix = page.prefix();
        let prefix = &prefix[..prefix.len().min(MOST_PARTS)];
        self.used = PAGE_SIZE + prefix.len();
        self.bytes[PAGE_SIZE..self.used].copy_from_slice(prefix);
        (self.kind, self.prefix, self.last, self.whole_from) = (page.layout.kind, prefix.len(), (0, 0), SPACE_END);
    }

    /// Copies an entry with this head as the `at`-th; `false` if it cannot be one.
    #[inline]
    fn set(&mut self, at: usize, node: &Node<'_, Bytes>, head: usize) -> bool {
        self.lanes[at] = node.lane_of(head);
        let from = node.cell_of(head);
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

    /// Copies the entries in so many slots of a node, from one on, as the `at`-th and those behind it. `false` if some
    /// cannot be any, or are out of order as far as lanes tell.
    #[inline]
    pub fn set_all(&mut self, at: usize, node: &Node<'_, Bytes>, from: usize, count: usize) -> bool {
        if self.whole_from == SPACE_END {
            let (mut sound, mut next, mut before) = (true, at, 0);
            node.for_each_head(from..from + count, |head, slots| {
                let lane = node.lane_of(head);
                sound &= lane >= before;
                before = lane;
                (next..next + slots).for_each(|at| sound &= self.set(at, node, head));
                next += slots;
            });
            return sound;
        }
        let (lanes, cells) = (&mut self.lanes[at..at + count], &mut self.cells[at..at + count]);
        node.read_lanes(from, lanes);
        node.read_cells(from, cells);
        let lowest = self.whole_from as u16;
        let are_copied =
            cells.iter().fold(true, |sound, cell| sound & (*cell == 0 || (lowest..SPACE_END as u16).contains(cell)));
        are_copied & is_ascending(lanes)
    }

    /// Copies a cell, with all others if it is one too many, and says where it is then. `None` if there can be none.
    fn copy(&mut self, page: &Page<'_, Bytes>, from: u16) -> Option<u16> {
        let (suffix, payload) = checked_cell(page.bytes, page.layout, from)?;
        let length = page.layout.cell_size(suffix.len(), payload.len());
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
    pub fn copy_all(&mut self, page: &Page<'_, Bytes>) {
        self.whole_from = edit::space_end(page.bytes, page.layout);
        self.bytes[self.whole_from..SPACE_END].copy_from_slice(&page.bytes[self.whole_from..SPACE_END]);
    }

    /// Makes the `to`-th that of the `from`-th.
    pub fn copy_within(&mut self, from: usize, to: usize) {
        (self.lanes[to], self.cells[to]) = (self.lanes[from], self.cells[from]);
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
        let (suffix, payload) = match self.cells[at] as usize {
            0 => (&[][..], &[][..]),
            whole @ ..PAGE_SIZE => parts_of_cell(&self.bytes[whole..SPACE_END], self.kind)?,
            single => parts_of_cell(&self.bytes[single..self.used], self.kind)?,
        };
        Some(Stored { prefix, head, suffix, payload })
    }
}

/// The suffix and payload of the cell at a byte; empty if there can be none.
#[inline]
pub(super) fn cell<'a>(bytes: &'a PageBytes, layout: &Layout, at: u16) -> (&'a [u8], &'a [u8]) {
    checked_cell(bytes, layout, at).unwrap_or((&[], &[]))
}

/// Bytes of the cell that begins at a byte.
pub(in crate::page) fn stored_length(bytes: &PageBytes, layout: &Layout, at: u16) -> usize {
    let (suffix, payload) = cell(bytes, layout, at);
    layout.cell_size(suffix.len(), payload.len())
}

/// Bytes of the cells that something refers to.
pub(in crate::page) fn live_cells(bytes: &PageBytes, layout: &Layout) -> usize {
    let page = Page::<Bytes> { bytes, layout, keys: PhantomData };
    let fences = [bytes_at::LOW, bytes_at::HIGH].map(|at| stored_length(bytes, layout, read_u16(bytes, at)));
    let (mut sum, mut previous) = (fences.iter().sum(), 0);
    for number in 0..page.nodes() {
        let node = page.node(number);
        for head in 0..node.frame.heads {
            let at = node.cell_of(head);
            if at != previous {
                sum += stored_length(bytes, layout, at);
                previous = at;
            }
        }
    }
    sum
}

/// Moves the cells of a page that is being repacked.
pub(in crate::page) struct Mover<'o> {
    old: &'o PageBytes,
    layout: &'o Layout,
    last: (u16, u16),
    has_room: bool,
}

impl<'o> Mover<'o> {
    /// Begins with the fences' cells.
    pub fn new(old: &'o PageBytes, bytes: &mut PageBytes, layout: &'o Layout) -> Self {
        let mut mover = Mover { old, layout, last: (0, 0), has_room: true };
        if layout.kind.is_prefix() {
            write_u16(bytes, at::PD_UPPER, SPACE_END as u16);
            for at in [bytes_at::LOW, bytes_at::HIGH] {
                mover.move_cell(bytes, at);
            }
        }
        mover
    }

    fn move_cell(&mut self, bytes: &mut PageBytes, reference: usize) {
        let from = read_u16(bytes, reference);
        if from != self.last.0 {
            let (suffix, payload) = cell(self.old, self.layout, from);
            let lower = self.layout.first_node_line() * LINE;
            let put = put_cell(bytes, self.layout, lower, suffix, payload);
            self.has_room &= put.is_some();
            self.last = (from, put.unwrap_or(0));
        }
        write_u16(bytes, reference, self.last.1);
    }

    /// Moves the cells of all entries, which have been copied. Whether there was room for all, as on a sound page.
    pub fn take_along(mut self, bytes: &mut PageBytes) -> bool {
        let layout = self.layout;
        let nodes = if layout.kind.is_prefix() { bytes[at::NODES] as usize } else { 0 };
        for node in 0..nodes {
            let frame = Frame::of(bytes, layout, node);
            (0..frame.heads).for_each(|head| self.move_cell(bytes, frame.cell_at(head)));
        }
        self.has_room
    }
}
