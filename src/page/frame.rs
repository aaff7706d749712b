//! In-page leaf nodes as bytes. A node's entries are neighbours in key order, so it stores what they differ in from its
//! *frame*: lanes as differences from the node's separator, TIDs from its lowest block, in as many bytes as the largest
//! difference takes. What entries with equal keys have in common, the *head*, is stored once if that takes less.
//!
//! ```text
//!   lowest block of the TIDs, or of the children        4 bytes
//!   check: the frame's bytes, added up                  1 byte
//!   heads, an array for each part:
//!     lane's difference, first bytes                    0, 1, 2, 4 or 8 bytes: what vectors compare
//!     lane's difference, the other bytes                0 to 8 bytes
//!     where the cell begins (byte strings)              2 bytes
//!     child's difference (inner pages)                  1 to 4 bytes
//!     how many entries are before the next head         1 byte, if heads are shared
//!   zeroes
//!   TIDs, up to the node's end                          2 to 6 bytes; in inner pages 0 or 6
//! ```

use super::*;
use arrayvec::ArrayVec;

/// An entry, less what its page says of it. The node it is in or may come to is known from elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub lane: u128,
    pub tid: Tid,
    pub child: Block,
    /// Where its cell begins: 0 if it has none.
    pub cell: u16,
}

impl Item {
    /// What a leaf's node may store once for entries that have it in common.
    #[inline]
    fn head(&self) -> (u128, u16) {
        (self.lane, self.cell)
    }
}

/// The entries of a node, and one that is to be among them.
pub(super) type Items = ArrayVec<Item, { MAX_NODE_ENTRIES + 1 }>;

/// Bytes of the parts of a node's entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Widths {
    /// The lane's difference.
    pub lane: usize,
    pub tid: usize,
    /// The child's difference; 0 in a leaf.
    pub child: usize,
}

/// Where in a node its check is.
const CHECK: usize = 4;
/// Bits of a [`Widths`] byte that are the lane's.
const LANE_BITS: u32 = 5;
/// Of the bits above them, in an inner page: entries have TIDs.
const HAS_TID: u8 = 4;
/// In a node's number of heads: its TIDs have the rank that is 1.
const RANK: u8 = 0x80;

impl Widths {
    /// Those a byte of the in-page root says. Any byte says some.
    #[inline(always)]
    fn of(byte: u8, layout: &Layout) -> Widths {
        let lane = ((byte & ((1 << LANE_BITS) - 1)) as usize).min(layout.lane);
        let code = byte >> LANE_BITS;
        match layout.has_child {
            false => Widths { lane, tid: (code as usize + Tid::LEAST_SIZE).min(Tid::SIZE), child: 0 },
            true => Widths {
                lane,
                tid: if code & HAS_TID != 0 { Tid::SIZE } else { 0 },
                child: (code & !HAS_TID) as usize + 1,
            },
        }
    }

    fn byte(self) -> u8 {
        let code = match self.child {
            0 => (self.tid - Tid::LEAST_SIZE) as u8,
            child => (child - 1) as u8 | if self.tid > 0 { HAS_TID } else { 0 },
        };
        self.lane as u8 | code << LANE_BITS
    }

    /// Bytes of a lane's difference that vectors compare.
    #[inline(always)]
    pub fn front(self) -> usize {
        match self.lane {
            8.. => 8,
            4.. => 4,
            2.. => 2,
            lane => lane,
        }
    }

    /// Bytes of a head.
    #[inline(always)]
    fn head(self, layout: &Layout) -> usize {
        self.lane + layout.cell_width() + self.child
    }
}

/// Where the parts of a node lie, as the in-page root says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub start: usize,
    pub end: usize,
    pub widths: Widths,
    /// Bytes that say where a cell is.
    pub cell_width: usize,
    pub count: usize,
    pub heads: usize,
    /// Whether entries share heads; if not, each has its own.
    pub is_grouped: bool,
    rank: bool,
}

/// How an entry can be put in a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fit {
    /// Those that the node's entries have then.
    pub widths: Widths,
    pub place: Place,
}

/// Where an entry that is put in a node has its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// It shares this head.
    Head(usize),
    /// It has a new one before this one.
    NewHead(usize),
}

impl Frame {
    /// The frame of a node in use. Whatever the bytes are, its parts lie within the node.
    #[inline(always)]
    pub fn of(bytes: &PageBytes, layout: &Layout, node: usize) -> Frame {
        let start = layout.node_start(bytes[layout.root_lines() + node]);
        let (count, stored) = (bytes[layout.root_counts() + node], bytes[layout.root_heads() + node]);
        let widths = Widths::of(bytes[layout.root_frames() + node], layout);
        let shared = (stored & !RANK) as usize;
        let is_grouped = shared > 0;
        let (count, heads) = (count as usize, if is_grouped { shared } else { count as usize });
        let size = heads * (widths.head(layout) + usize::from(is_grouped)) + count * widths.tid;
        let fits = size <= layout.node_room() && count <= MAX_NODE_ENTRIES && heads <= count;
        Frame {
            start,
            end: start + layout.node_size(),
            widths,
            cell_width: layout.cell_width(),
            count: if fits { count } else { 0 },
            heads: if fits { heads } else { 0 },
            is_grouped,
            rank: stored & RANK != 0,
        }
    }

    /// Whether separator, widths, number of heads and lowest block are those that the entries were stored with: damage
    /// to them would make other entries of all.
    #[inline]
    pub fn is_checked(&self, bytes: &PageBytes, layout: &Layout, node: usize) -> bool {
        bytes[self.start + CHECK] == self.check(bytes, layout, node)
    }

    /// Makes the check that of a frame of which a byte of the in-page root has changed. What was damaged before still
    /// shows.
    pub fn amend_check(&self, bytes: &mut PageBytes, before: u8, now: u8) {
        bytes[self.start + CHECK] ^= before ^ now;
    }

    /// Stores the check of a new frame.
    fn write_check(&self, bytes: &mut PageBytes, layout: &Layout, node: usize) {
        bytes[self.start + CHECK] = self.check(bytes, layout, node);
    }

    /// What differs whichever byte of the frame does.
    #[inline]
    fn check(&self, bytes: &PageBytes, layout: &Layout, node: usize) -> u8 {
        let root = u64::from(bytes[layout.root_frames() + node] ^ bytes[layout.root_heads() + node]);
        let at = layout.root_lanes() + node * layout.lane;
        let lane = match layout.lane {
            4 => read_u32(bytes, at).into(),
            8 => read_u64(bytes, at),
            _ => read_u64(bytes, at) ^ read_u64(bytes, at + 8),
        };
        let all = lane ^ root ^ u64::from(self.base_block(bytes));
        let half = all ^ all >> 32;
        let quarter = half ^ half >> 16;
        !((quarter ^ quarter >> 8) as u8)
    }

    /// Whether the last shared head ends where the entries do.
    #[inline]
    pub fn has_all(&self, bytes: &PageBytes) -> bool {
        !self.is_grouped || bytes[self.heads_end() - 1] as usize == self.count
    }

    /// Whether what the in-page root says of the node is what is stored so.
    pub fn is_sound(&self, bytes: &PageBytes, layout: &Layout, node: usize) -> bool {
        self.widths.byte() == bytes[layout.root_frames() + node]
            && self.has_all(bytes)
            && self.is_checked(bytes, layout, node)
            && !(self.is_grouped && layout.has_child)
            && !(self.rank && self.widths.tid.is_multiple_of(Tid::SIZE))
    }

    /// Where the first bytes of the lanes' differences begin.
    #[inline(always)]
    pub fn fronts(&self) -> usize {
        self.start + NODE_HEADER
    }

    #[inline(always)]
    fn backs(&self) -> usize {
        self.fronts() + self.heads * self.widths.front()
    }

    #[inline(always)]
    fn cells(&self) -> usize {
        self.fronts() + self.heads * self.widths.lane
    }

    #[inline(always)]
    fn children(&self) -> usize {
        self.cells() + self.heads * self.cell_width
    }

    #[inline(always)]
    fn ends(&self) -> usize {
        self.children() + self.heads * self.widths.child
    }

    /// Where the heads end.
    #[inline(always)]
    pub fn heads_end(&self) -> usize {
        self.ends() + if self.is_grouped { self.heads } else { 0 }
    }

    /// Bytes of a head.
    pub fn head_size(&self, layout: &Layout) -> usize {
        self.widths.head(layout) + usize::from(self.is_grouped)
    }

    /// Where the TIDs begin.
    #[inline(always)]
    pub fn tids(&self) -> usize {
        self.end - self.count * self.widths.tid
    }

    /// Bytes between heads and TIDs: not used, and zero.
    #[inline]
    pub fn free(&self) -> usize {
        self.tids() - self.heads_end()
    }

    /// Bytes that the entries take.
    pub fn used(&self) -> usize {
        self.end - self.fronts() - self.free()
    }

    /// Where the TID of the entry in a slot begins; its first byte has DEAD.
    #[inline(always)]
    pub fn tid_at(&self, slot: usize) -> usize {
        self.tids() + slot * self.widths.tid
    }

    /// The first bytes of the difference of a head's lane.
    #[inline(always)]
    pub fn front(&self, bytes: &PageBytes, head: usize) -> u64 {
        let width = self.widths.front();
        read_word(bytes, self.fronts() + head * width, width)
    }

    /// The other bytes of the difference of a head's lane.
    #[inline(always)]
    pub fn back(&self, bytes: &PageBytes, head: usize) -> u64 {
        let width = self.widths.lane - self.widths.front();
        read_word(bytes, self.backs() + head * width, width)
    }

    /// The difference of a head's lane.
    #[inline(always)]
    fn difference(&self, bytes: &PageBytes, head: usize) -> u128 {
        let shift = 8 * (self.widths.lane - self.widths.front());
        u128::from(self.front(bytes, head)) << shift | u128::from(self.back(bytes, head))
    }

    /// Where a head's cell begins.
    #[inline]
    pub fn cell(&self, bytes: &PageBytes, head: usize) -> u16 {
        if self.cell_width > 0 { read_u16(bytes, self.cell_at(head)) } else { 0 }
    }

    /// Where it is stored where a head's cell begins.
    pub fn cell_at(&self, head: usize) -> usize {
        self.cells() + head * self.cell_width
    }

    /// The lowest block of the node's TIDs or children.
    #[inline(always)]
    pub fn base_block(&self, bytes: &PageBytes) -> u32 {
        read_u32(bytes, self.start)
    }

    /// The child of a head.
    #[inline]
    pub fn child(&self, bytes: &PageBytes, head: usize) -> Block {
        match self.widths.child {
            0 => NO_BLOCK,
            width => {
                let difference = read_word(bytes, self.children() + head * width, width) as Block;
                self.base_block(bytes).wrapping_add(difference)
            }
        }
    }

    /// What makes TIDs of what is stored.
    #[inline(always)]
    pub fn tid_reader(&self, bytes: &PageBytes) -> TidReader {
        TidReader { width: self.widths.tid, first: Tid::of_block(self.rank, self.base_block(bytes)) }
    }

    /// The TID in a slot.
    #[inline(always)]
    pub fn tid(&self, bytes: &PageBytes, slot: usize) -> Tid {
        self.tid_reader(bytes).read(bytes, self.tid_at(slot))
    }

    /// How many entries are before the next head.
    #[inline]
    fn end_of(&self, bytes: &PageBytes, head: usize) -> usize {
        if self.is_grouped { (bytes[self.ends() + head] as usize).min(self.count) } else { head + 1 }
    }

    /// The slots that share a head.
    #[inline]
    pub fn slots_of(&self, bytes: &PageBytes, head: usize) -> Range<usize> {
        let start = match head.checked_sub(1) {
            Some(before) => self.end_of(bytes, before),
            None => 0,
        };
        start..self.end_of(bytes, head).max(start)
    }

    /// The head of the entry in a slot.
    #[inline]
    pub fn head_of(&self, bytes: &PageBytes, slot: usize) -> usize {
        if !self.is_grouped {
            return slot;
        }
        let ends = &bytes[self.ends()..self.ends() + self.heads];
        simd::count_less_equal(ends, 0, self.heads, slot.min(u8::MAX.into()) as u8).min(self.heads.saturating_sub(1))
    }

    /// Calls `each` with the entries in some slots of the node, in order; `base` is its separator.
    #[inline(always)]
    pub fn visit(&self, bytes: &PageBytes, base: u128, slots: Range<usize>, mut each: impl FnMut(Item)) {
        let tids = self.tid_reader(bytes);
        let mut head = if slots.is_empty() { 0 } else { self.head_of(bytes, slots.start) };
        let mut end = if self.is_grouped { self.end_of(bytes, head) } else { 0 };
        for slot in slots {
            if self.is_grouped {
                while slot >= end && head + 1 < self.heads {
                    (head, end) = (head + 1, self.end_of(bytes, head + 1));
                }
            } else {
                head = slot;
            }
            each(self.item(bytes, base, tids, slot, head));
        }
    }

    /// The entry in a slot, of a head.
    // Kept in registers: what is put together in memory is waited for when it is read.
    #[inline(always)]
    fn item(&self, bytes: &PageBytes, base: u128, tids: TidReader, slot: usize, head: usize) -> Item {
        Item {
            lane: base.wrapping_add(self.difference(bytes, head)),
            tid: tids.read(bytes, self.tid_at(slot)),
            child: self.child(bytes, head),
            cell: self.cell(bytes, head),
        }
    }

    /// How an entry can be put in a slot of the node while separator and lowest block stay as they are. `base` is the
    /// separator.
    #[inline(always)]
    pub fn place_for(&self, bytes: &PageBytes, layout: &Layout, base: u128, slot: usize, item: &Item) -> Option<Fit> {
        let is_node = self.count > 0 && self.count < MAX_NODE_ENTRIES && slot <= self.count;
        if !is_node {
            return None;
        }
        let widths = self.widths_with(bytes, base, item)?;
        let place = if self.is_grouped { self.head_for(bytes, base, slot, item)? } else { Place::NewHead(slot) };
        let heads = self.heads + usize::from(matches!(place, Place::NewHead(_)));
        let size = heads * (widths.head(layout) + usize::from(self.is_grouped)) + (self.count + 1) * widths.tid;
        (size <= layout.node_room() && widths.lane <= layout.lane).then_some(Fit { widths, place })
    }

    /// The head that an entry in a slot shares, or before which it has its own; `None` where that would part the
    /// entries of a head.
    fn head_for(&self, bytes: &PageBytes, base: u128, slot: usize, item: &Item) -> Option<Place> {
        let before = slot.checked_sub(1).map(|before| self.head_of(bytes, before));
        let at = before.map_or(0, |before| before + 1);
        let is_head = |head: usize| {
            let lane = base.wrapping_add(self.difference(bytes, head));
            lane == item.lane && self.cell(bytes, head) == item.cell
        };
        if let Some(head) = before.filter(|&head| is_head(head)) {
            return Some(Place::Head(head));
        }
        let is_between = before.is_none_or(|before| self.end_of(bytes, before) == slot);
        is_between.then(|| if at < self.heads && is_head(at) { Place::Head(at) } else { Place::NewHead(at) })
    }

    /// The widths that entries have if another is among them; `None` where it takes another separator or lowest block,
    /// or children of other widths.
    #[inline(always)]
    fn widths_with(&self, bytes: &PageBytes, base: u128, item: &Item) -> Option<Widths> {
        let takes_child = match self.widths.child {
            0 => true,
            width => {
                let first = self.base_block(bytes);
                item.child >= first && bytes_of((item.child - first).into()) <= width
            }
        };
        if item.lane < base || !takes_child {
            return None;
        }
        let tid = self.tid_width_with(bytes, item.tid)?;
        Some(Widths { lane: bytes_of(item.lane - base).max(self.widths.lane), tid, ..self.widths })
    }

    #[inline(always)]
    fn tid_width_with(&self, bytes: &PageBytes, tid: Tid) -> Option<usize> {
        match self.widths.tid {
            0 => (tid.position() == Tid::MIN).then_some(0),
            Tid::SIZE => Some(Tid::SIZE),
            width => {
                let first = self.base_block(bytes);
                let is_near = tid.block() >= first && !tid.is_special() && tid.rank() == self.rank;
                let needed = if is_near { bytes_of(tid.difference(first).into()) } else { Tid::SIZE };
                (needed < Tid::SIZE).then_some(needed.max(width))
            }
        }
    }

    /// Stores the entries of a node in these widths, none of which is less than it was, and for which it has room.
    // Not inlined: most insertions do without.
    #[inline(never)]
    pub fn widen(&self, bytes: &mut PageBytes, layout: &Layout, node: usize, widths: Widths) -> Frame {
        let wide = Frame { widths, ..*self };
        if widths.tid > self.widths.tid {
            let mut tids = [0; MAX_NODE_ENTRIES];
            let tids = &mut tids[..self.count];
            tids.iter_mut()
                .zip(0..)
                .for_each(|(tid, slot)| *tid = read_word(bytes, self.tid_at(slot), self.widths.tid));
            store_all(&mut bytes[wide.tids()..wide.end], widths.tid, tids, |tid| *tid);
        }
        if widths.lane > self.widths.lane {
            let mut differences = [0; MAX_NODE_ENTRIES];
            let differences = &mut differences[..self.heads];
            differences.iter_mut().zip(0..).for_each(|(difference, head)| *difference = self.difference(bytes, head));
            bytes.copy_within(self.cells()..self.heads_end(), wide.cells());
            wide.write_differences(bytes, differences, |difference| *difference);
        }
        let (at, now) = (layout.root_frames() + node, widths.byte());
        wide.amend_check(bytes, bytes[at], now);
        bytes[at] = now;
        wide
    }

    /// Puts an entry in a slot, where [`place_for`](Frame::place_for) says. Returns the bytes written: of heads, and of
    /// TIDs. The counts in the in-page root are the caller's.
    pub fn put(&self, bytes: &mut PageBytes, base: u128, slot: usize, item: &Item, place: Place) -> [Range<usize>; 2] {
        let tids = self.put_tid(bytes, slot, item.tid);
        let (frame, head) = match place {
            Place::Head(head) => (*self, head),
            Place::NewHead(head) => {
                self.shift_heads(bytes, head);
                let frame = Frame { heads: self.heads + 1, ..*self };
                frame.write_head(bytes, base, head, item);
                (frame, head)
            }
        };
        let first =
            if let Place::NewHead(head) = place { frame.fronts() + head * frame.widths.front() } else { frame.ends() };
        if frame.is_grouped {
            let ends = frame.ends();
            if let Place::NewHead(head) = place {
                bytes[ends + head] = slot as u8;
            }
            bytes[ends + head..ends + frame.heads].iter_mut().for_each(|end| *end = end.wrapping_add(1));
        }
        [first..frame.heads_end(), tids]
    }

    /// Removes the entries in the slots of a mask where every shared head keeps others: then heads, widths and lowest
    /// block stay. `None`, and nothing is done, where one does not. The count in the in-page root is the caller's.
    pub fn without(&self, bytes: &mut PageBytes, mask: u128) -> Option<Frame> {
        if !self.is_grouped {
            return None;
        }
        let kept_before = |end: u8| {
            let end = usize::from(end).min(self.count);
            let slots = u128::MAX.checked_shr(u128::BITS - end as u32).unwrap_or(0);
            end - (mask & slots).count_ones() as usize
        };
        let (mut ends, mut count) = ([0; MAX_NODE_ENTRIES], 0);
        for (kept, &end) in ends.iter_mut().zip(&bytes[self.ends()..self.heads_end()]) {
            let before = kept_before(end);
            if before <= count {
                return None;
            }
            (*kept, count) = (before as u8, before);
        }
        let (mut tids, mut kept) = ([0; MAX_NODE_ENTRIES + 1], 0);
        for slot in 0..self.count {
            tids[kept] = read_word(bytes, self.tid_at(slot), self.widths.tid);
            kept += usize::from(mask >> slot & 1 == 0);
        }
        let frame = Frame { count, ..*self };
        bytes[self.ends()..self.heads_end()].copy_from_slice(&ends[..self.heads]);
        bytes[self.tids()..frame.tids()].fill(0);
        store_all(&mut bytes[frame.tids()..frame.end], self.widths.tid, &tids[..count], |tid| *tid);
        Some(frame)
    }

    /// Moves the TIDs before a slot down and writes another in the gap.
    fn put_tid(&self, bytes: &mut PageBytes, slot: usize, tid: Tid) -> Range<usize> {
        let (width, tids) = (self.widths.tid, self.tids());
        let at = tids + slot * width;
        bytes.copy_within(tids..at, tids - width);
        self.tid_reader(bytes).write(bytes, at - width, tid);
        tids - width..at
    }

    /// Makes room for a head before another.
    #[inline(always)]
    fn shift_heads(&self, bytes: &mut PageBytes, head: usize) {
        if self.cells() == self.backs() && self.heads_end() == self.cells() {
            let (start, width) = (self.fronts(), self.widths.front());
            return bytes.copy_within(start + head * width..start + self.heads * width, start + (head + 1) * width);
        }
        self.shift_arrays(bytes, head);
    }

    /// The same where heads have several parts.
    #[inline(never)]
    fn shift_arrays(&self, bytes: &mut PageBytes, head: usize) {
        let ends = if self.is_grouped { 1 } else { 0 };
        let back = self.widths.lane - self.widths.front();
        let arrays = [
            (self.fronts(), self.widths.front()),
            (self.backs(), back),
            (self.cells(), self.cell_width),
            (self.children(), self.widths.child),
            (self.ends(), ends),
        ];
        let mut further: usize = arrays.iter().map(|(_, width)| width).sum();
        for (start, width) in arrays.into_iter().rev().filter(|(_, width)| *width > 0) {
            let (middle, end) = (start + head * width, start + self.heads * width);
            bytes.copy_within(middle..end, middle + further);
            further -= width;
            if further > 0 {
                bytes.copy_within(start..middle, start + further);
            }
        }
    }

    /// Writes all TIDs.
    fn write_tids(&self, bytes: &mut PageBytes, items: &[Item]) {
        let tids = self.tid_reader(bytes);
        store_all(&mut bytes[self.tids()..self.end], self.widths.tid, items, |item| tids.stored(item.tid));
    }

    /// Writes all heads, but not how many entries are before the next of each.
    fn write_heads(&self, bytes: &mut PageBytes, base: u128, heads: &[Item]) {
        let base_block = self.base_block(bytes);
        self.write_differences(bytes, heads, |item| item.lane.wrapping_sub(base));
        store_all(&mut bytes[self.cells()..], self.cell_width, heads, |item| item.cell.into());
        let child = |item: &Item| item.child.wrapping_sub(base_block).into();
        store_all(&mut bytes[self.children()..], self.widths.child, heads, child);
    }

    /// Writes the differences of all heads' lanes.
    #[inline(always)]
    fn write_differences<T>(&self, bytes: &mut PageBytes, heads: &[T], difference: impl Fn(&T) -> u128) {
        let front = self.widths.front();
        let back = self.widths.lane - front;
        store_all(&mut bytes[self.fronts()..], front, heads, |head| (difference(head) >> (8 * back)) as u64);
        store_all(&mut bytes[self.backs()..], back, heads, |head| difference(head) as u64);
    }

    /// Writes a head, but not how many entries are before the next.
    fn write_head(&self, bytes: &mut PageBytes, base: u128, head: usize, item: &Item) {
        let (difference, front) = (item.lane.wrapping_sub(base), self.widths.front());
        let back = self.widths.lane - front;
        write_word(bytes, self.fronts() + head * front, front, (difference >> (8 * back)) as u64);
        write_word(bytes, self.backs() + head * back, back, difference as u64);
        write_word(bytes, self.cell_at(head), self.cell_width, item.cell.into());
        let child = item.child.wrapping_sub(if self.widths.child > 0 { self.base_block(bytes) } else { item.child });
        write_word(bytes, self.children() + head * self.widths.child, self.widths.child, child.into());
    }
}

/// Makes TIDs of what a node stores, and back.
#[derive(Clone, Copy)]
pub(super) struct TidReader {
    width: usize,
    first: Tid,
}

impl TidReader {
    /// The TID stored at a byte.
    #[inline(always)]
    pub fn read(self, bytes: &PageBytes, at: usize) -> Tid {
        let stored = read_word(bytes, at, self.width);
        if self.width == Tid::SIZE { Tid::from_raw(stored) } else { self.near(stored) }
    }

    /// The TID of a difference.
    #[inline(always)]
    pub fn near(self, stored: u64) -> Tid {
        if self.width == 0 { Tid::MIN } else { Tid::from_difference(self.first, stored) }
    }

    /// The TIDs stored from a byte on.
    #[inline(always)]
    pub fn read_all(self, bytes: &PageBytes, at: usize, out: &mut [Tid]) {
        let stored = bytes.get(at..at + out.len() * self.width).unwrap_or_default();
        match self.width {
            2 => self.read_near::<2>(stored, out),
            3 => self.read_near::<3>(stored, out),
            4 => self.read_near::<4>(stored, out),
            5 => self.read_near::<5>(stored, out),
            Tid::SIZE => each_of::<{ Tid::SIZE }, _>(stored, out, Tid::from_raw),
            _ => out.fill(Tid::MIN),
        }
    }

    #[inline(always)]
    fn read_near<const WIDTH: usize>(self, stored: &[u8], out: &mut [Tid]) {
        each_of::<WIDTH, _>(stored, out, |stored| Tid::from_difference(self.first, stored));
    }

    fn write(self, bytes: &mut PageBytes, at: usize, tid: Tid) {
        write_word(bytes, at, self.width, self.stored(tid));
    }

    /// What is stored of a TID.
    #[inline(always)]
    fn stored(self, tid: Tid) -> u64 {
        if self.width == Tid::SIZE { tid.raw() } else { tid.difference(self.first.block()) }
    }
}

/// Sets each of `out` to what is made of the next so many bytes, as a number. Of known length, so that vectors do it.
#[inline(always)]
pub(super) fn each_of<const WIDTH: usize, T>(stored: &[u8], out: &mut [T], make: impl Fn(u64) -> T) {
    let (words, _) = stored.as_chunks::<WIDTH>();
    for (one, bytes) in out.iter_mut().zip(words) {
        let mut word = [0; 8];
        word[..WIDTH].copy_from_slice(bytes);
        *one = make(u64::from_le_bytes(word));
    }
}

/// Whether no number of so many bytes is less than the one before it.
#[inline(always)]
pub(super) fn ascend<const WIDTH: usize>(stored: &[u8]) -> bool {
    let number = |bytes: &[u8; WIDTH]| {
        let mut word = [0; 8];
        word[..WIDTH].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    };
    let (words, _) = stored.as_chunks::<WIDTH>();
    let pairs = words.iter().zip(words.get(1..).unwrap_or_default());
    pairs.fold(true, |ascend, (before, word)| ascend & (number(before) <= number(word)))
}

/// Stores a number of so many bytes, 8 at most, of each item.
#[inline(always)]
fn store_all<T>(bytes: &mut [u8], width: usize, items: &[T], make: impl Fn(&T) -> u64) {
    match width {
        0 => {}
        1 => store_each::<1, _>(bytes, items, make),
        2 => store_each::<2, _>(bytes, items, make),
        3 => store_each::<3, _>(bytes, items, make),
        4 => store_each::<4, _>(bytes, items, make),
        5 => store_each::<5, _>(bytes, items, make),
        6 => store_each::<6, _>(bytes, items, make),
        7 => store_each::<7, _>(bytes, items, make),
        _ => store_each::<8, _>(bytes, items, make),
    }
}

#[inline(always)]
fn store_each<const WIDTH: usize, T>(bytes: &mut [u8], items: &[T], make: impl Fn(&T) -> u64) {
    let (words, _) = bytes.as_chunks_mut::<WIDTH>();
    for (word, item) in words.iter_mut().zip(items) {
        word.copy_from_slice(&make(item).to_le_bytes()[..WIDTH]);
    }
}

/// Up to 8 bytes as a number. Nodes end well before their page does.
#[inline(always)]
pub(super) fn read_word(bytes: &PageBytes, at: usize, width: usize) -> u64 {
    if width == 0 {
        return 0;
    }
    read_u64(bytes, at) & (u64::MAX >> (64 - 8 * width))
}

/// Writes up to 8 bytes of a number, as [`read_word`] reads them.
#[inline(always)]
fn write_word(bytes: &mut PageBytes, at: usize, width: usize, value: u64) {
    let mask = u64::MAX.checked_shr(64 - 8 * width as u32).unwrap_or(0);
    write_u64(bytes, at, read_u64(bytes, at) & !mask | value & mask);
}

/// Bytes that a number takes.
fn bytes_of(number: u128) -> usize {
    (u128::BITS - number.leading_zeros()).div_ceil(8) as usize
}

/// What entries in order have in common, and so what a node of them takes. All zero is that of none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub count: usize,
    heads: usize,
    first: u128,
    last: Option<(u128, u16)>,
    /// Bits that the largest difference of lanes has.
    differences: u128,
    blocks: [u32; 2],
    children: [Block; 2],
    /// Which ranks there are: 1 and 2.
    ranks: u8,
    /// Whether TIDs must be stored whole.
    is_special: bool,
    has_tid: bool,
}

impl Span {
    pub const EMPTY: Span = Span {
        count: 0,
        heads: 0,
        first: 0,
        last: None,
        differences: 0,
        blocks: [0; 2],
        children: [0; 2],
        ranks: 0,
        is_special: false,
        has_tid: false,
    };

    pub fn of<'i>(items: impl IntoIterator<Item = &'i Item>) -> Span {
        let mut span = Span::EMPTY;
        items.into_iter().for_each(|item| span.push(item));
        span
    }

    /// Adds the next entry.
    #[inline]
    pub fn push(&mut self, item: &Item) {
        let (block, rank) = (item.tid.block(), item.tid.rank());
        if self.count == 0 {
            (self.first, self.blocks, self.children) = (item.lane, [block; 2], [item.child; 2]);
        }
        self.count += 1;
        self.heads += usize::from(self.last != Some(item.head()));
        self.last = Some(item.head());
        // Of damaged pages lanes may fall: then the difference has all bits.
        self.differences |= item.lane.wrapping_sub(self.first);
        self.blocks = [self.blocks[0].min(block), self.blocks[1].max(block)];
        self.children = [self.children[0].min(item.child), self.children[1].max(item.child)];
        self.ranks |= 1 << u8::from(rank);
        self.is_special |= item.tid.is_special();
        self.has_tid |= item.tid.position() != Tid::MIN;
    }

    /// The least widths that do.
    fn widths(&self, layout: &Layout) -> Widths {
        let lane = bytes_of(self.differences).min(layout.lane);
        let far = |[low, high]: [u32; 2]| high - low;
        if layout.has_child {
            let tid = if self.has_tid { Tid::SIZE } else { 0 };
            return Widths { lane, tid, child: bytes_of(far(self.children).into()).max(1) };
        }
        let bits = Tid::OFFSET_BITS + 1 + u32::BITS - far(self.blocks).leading_zeros();
        let whole = self.is_special || self.ranks == 3;
        let tid = if whole { Tid::SIZE } else { (bits.div_ceil(8) as usize).max(Tid::LEAST_SIZE) };
        Widths { lane, tid, child: 0 }
    }

    /// How many heads are stored: 0 if each entry has its own.
    fn shared_heads(&self, widths: Widths, layout: &Layout) -> usize {
        let head = widths.head(layout);
        let is_less = !layout.has_child && self.heads * (head + 1) < self.count * head;
        if is_less { self.heads } else { 0 }
    }

    /// Bytes that the entries take in a node.
    pub fn size(&self, layout: &Layout) -> usize {
        let widths = self.widths(layout);
        let head = widths.head(layout);
        let heads = match self.shared_heads(widths, layout) {
            0 => self.count * head,
            shared => shared * (head + 1),
        };
        heads + self.count * widths.tid
    }

    /// Whether a node has room for the entries, of which it is to be filled with so many bytes.
    pub fn fits(&self, layout: &Layout, room: usize) -> bool {
        self.count <= MAX_NODE_ENTRIES && self.size(layout) <= room
    }
}

/// Writes a node of a page, and what its in-page root says of it but where it is. `false`, and nothing is written, if it
/// has no room for the entries.
pub(super) fn write_node(bytes: &mut PageBytes, layout: &Layout, node: usize, items: &[Item]) -> bool {
    let span = Span::of(items);
    if !span.fits(layout, layout.node_room()) {
        return false;
    }
    let start = layout.node_start(bytes[layout.root_lines() + node]);
    bytes[start..start + layout.node_size()].fill(0);
    if items.is_empty() {
        for at in [layout.root_counts(), layout.root_heads(), layout.root_frames()] {
            bytes[at + node] = 0;
        }
        return true;
    }
    let widths = span.widths(layout);
    let shared = span.shared_heads(widths, layout);
    let rank = widths.tid < Tid::SIZE && span.ranks & 2 != 0;
    bytes[layout.root_counts() + node] = span.count as u8;
    bytes[layout.root_heads() + node] = shared as u8 | if rank { RANK } else { 0 };
    bytes[layout.root_frames() + node] = widths.byte();
    write_separator(bytes, layout, node, span.first);
    let base = if layout.has_child { span.children[0] } else { span.blocks[0] };
    write_u32(bytes, start, base);
    let frame = Frame::of(bytes, layout, node);
    frame.write_check(bytes, layout, node);
    frame.write_tids(bytes, items);
    if shared == 0 {
        frame.write_heads(bytes, span.first, items);
        return true;
    }
    let mut heads = Items::new();
    for (slot, item) in items.iter().enumerate() {
        if heads.last().is_none_or(|head| head.head() != item.head()) {
            heads.push(*item);
        }
        bytes[frame.ends() + heads.len() - 1] = slot as u8 + 1;
    }
    frame.write_heads(bytes, span.first, &heads);
    true
}

/// The separator of a node, widened.
#[inline]
pub(super) fn separator(bytes: &PageBytes, layout: &Layout, node: usize) -> u128 {
    let at = layout.root_lanes() + node * layout.lane;
    match layout.lane {
        4 => read_u32(bytes, at).into(),
        8 => read_u64(bytes, at).into(),
        _ => u128::read(bytes, at),
    }
}

fn write_separator(bytes: &mut PageBytes, layout: &Layout, node: usize, lane: u128) {
    let at = layout.root_lanes() + node * layout.lane;
    bytes[at..at + layout.lane].copy_from_slice(&lane.to_le_bytes()[..layout.lane]);
}
