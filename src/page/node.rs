//! One in-page leaf node, and the entries in it.

use super::frame::{self, Frame};
use super::*;
use crate::format::AnyTid;
use crate::simd::{self, Loops};

/// Entries that are read faster one by one than by the processor's widest vectors, which it takes a decision to use.
const FEW: usize = 16;

/// How far it is gone at once, at most, from an entry to one that is thought to be near.
const MOST_STEP: usize = 8;

/// One in-page leaf node being read.
#[derive(Clone, Copy)]
pub struct Node<'a, K: Keys> {
    pub(super) page: Page<'a, K>,
    pub(super) frame: Frame,
    /// The node's separator: what lanes are stored as differences from.
    base: K::Lane,
}

impl<'a, K: KeySpace> Page<'a, K> {
    /// A node in use.
    #[inline]
    pub fn node(&self, node: usize) -> Node<'a, K> {
        let frame = Frame::of(self.bytes, self.layout, node);
        Node { page: *self, frame, base: self.separator(node) }
    }
}

/// An entry as stored, or to be stored.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a, K: Keys> {
    /// The key, less the TID.
    pub key: K::Stored<'a>,
    /// The heap TID with its flags; in an inner page, what breaks ties between equal keys.
    pub tid: Tid,
    /// The child an inner entry points to; `NO_BLOCK` in a leaf.
    pub child: Block,
}

/// Entries of a page in key order. What the entries of a head have in common is read once.
#[derive(Clone)]
pub struct Entries<'a, K: KeySpace> {
    node: Node<'a, K>,
    /// The node's number, and the next slot in it.
    number: usize,
    slot: usize,
    /// The head of the entry before that, the first slot behind that head, and what entries have of it.
    head: usize,
    end: usize,
    of_head: Option<(K::Stored<'a>, Block)>,
}

impl<'a, K: KeySpace> Entries<'a, K> {
    /// From a place on.
    pub(super) fn from(page: Page<'a, K>, place: Position) -> Self {
        let (number, slot) = (place.node.into(), place.slot.into());
        let mut entries = Entries { node: page.node(0), number, slot, head: 0, end: 0, of_head: None };
        entries.open(slot);
        entries
    }

    /// Goes to a slot of the node at hand, if there is such a node.
    fn open(&mut self, slot: usize) {
        let page = self.node.page;
        if self.number < page.nodes() {
            self.node = page.node(self.number);
            (self.slot, self.end, self.of_head) = (slot, slot, None);
        }
    }

    /// Where the next entry's cell begins, 0 if it has none, and the entry.
    #[inline]
    pub(super) fn next_with_cell(&mut self) -> Option<(u16, Entry<'a, K>)> {
        while self.slot >= self.node.len() || self.number >= self.node.page.nodes() {
            if self.number >= self.node.page.nodes() {
                return None;
            }
            self.number += 1;
            self.open(0);
        }
        if self.slot >= self.end {
            let bytes = self.node.page.bytes;
            self.head = self.node.head_of(self.slot);
            // Behind the last head of a damaged node nothing else is found.
            self.end = self.node.frame.slots_of(bytes, self.head).end.max(self.slot + 1);
            self.of_head = Some((self.node.key_of(self.head), self.node.frame.child(bytes, self.head)));
        }
        let (key, child) = self.of_head?;
        let entry = Entry { key, tid: self.node.tid(self.slot), child };
        self.slot += 1;
        Some((self.node.cell_of(self.head), entry))
    }
}

impl<'a, K: KeySpace> Iterator for Entries<'a, K> {
    type Item = Entry<'a, K>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'a, K>> {
        self.next_with_cell().map(|(_, entry)| entry)
    }
}

impl<L: Lane> Entry<'_, L> {
    /// The full key.
    #[inline]
    pub fn key(&self) -> Key<L> {
        Key::new(self.key, self.tid)
    }

    /// The fence between the entry before this one and this one: in a leaf the shortest, so that a search for a lane
    /// that begins a page need not look left of it.
    pub(crate) fn fence(&self, level: u8, before: &Entry<'_, L>) -> Key<L> {
        let tid = if level == 0 && before.key < self.key { Tid::MIN } else { self.tid };
        Key::new(self.key, tid)
    }
}

impl<'a, K: KeySpace> Node<'a, K> {
    /// Asks for all the node's lines at once (paper §3.1): of the policies, `fpbtree-lab thesis-figure5.6` has none
    /// that is better for lookups.
    #[inline(always)]
    pub(crate) fn prefetch(&self) {
        for at in (self.frame.start..self.frame.end).step_by(CACHE_LINE) {
            simd::prefetch(self.page.bytes.as_ptr().wrapping_add(at));
        }
    }

    /// Asks for the line that says where the first cell is.
    #[inline(always)]
    pub(super) fn prefetch_front(&self) {
        simd::prefetch(self.page.bytes.as_ptr().wrapping_add(self.frame.cell_at(0)));
    }

    /// Asks for the first lines of heads' cells.
    #[inline(always)]
    pub(super) fn prefetch_cells(&self, heads: Range<usize>) {
        if self.frame.cell_width > 0 {
            heads.for_each(|head| simd::prefetch(self.page.bytes.as_ptr().wrapping_add(self.cell_of(head).into())));
        }
    }

    /// Entries in the node.
    #[inline]
    pub fn len(&self) -> usize {
        self.frame.count
    }

    /// Whether the node holds nothing.
    pub fn is_empty(&self) -> bool {
        self.frame.count == 0
    }

    /// The head of the entry in a slot: what entries with equal keys have in common.
    #[inline]
    pub fn head_of(&self, slot: usize) -> usize {
        self.frame.head_of(self.page.bytes, slot)
    }

    /// The lane of a head.
    #[inline(always)]
    pub fn lane_of(&self, head: usize) -> K::Lane {
        let (bytes, widths) = (self.page.bytes, self.frame.widths);
        let front = self.frame.front(bytes, head);
        let back = widths.lane - widths.front();
        let difference = if back == 0 {
            K::Lane::from_u64(front)
        } else {
            K::Lane::from_parts(front, 8 * back as u32, self.frame.back(bytes, head))
        };
        self.base.plus(difference)
    }

    /// The lane of the entry in a slot.
    #[inline]
    pub fn lane(&self, slot: usize) -> K::Lane {
        self.lane_of(self.head_of(slot))
    }

    /// The TID of the entry in `slot`, flags included.
    #[inline]
    pub fn tid(&self, slot: usize) -> Tid {
        self.frame.tid(self.page.bytes, slot)
    }

    /// Calls `each` with the heads of the entries in some slots, and of how many of them each is.
    #[inline(always)]
    pub fn for_each_head(&self, slots: Range<usize>, mut each: impl FnMut(usize, usize)) {
        let (mut slot, end) = (slots.start, slots.end.min(self.frame.count));
        if !self.frame.is_grouped {
            return (slot..end).for_each(|slot| each(slot, 1));
        }
        let mut head = if slot < end { self.head_of(slot) } else { 0 };
        while slot < end {
            let is_last = head + 1 == self.frame.heads;
            let next = if is_last { end } else { self.frame.slots_of(self.page.bytes, head).end.clamp(slot, end) };
            each(head, next - slot);
            (slot, head) = (next, if is_last { head } else { head + 1 });
        }
    }

    /// Calls `each` with the slot, the head and the TID of the entries in some slots, those of them that there are.
    #[inline(always)]
    pub fn for_each(&self, slots: Range<usize>, mut each: impl FnMut(usize, usize, Tid)) {
        let (bytes, mut slot) = (self.page.bytes, slots.start);
        let tids = self.frame.tid_reader(bytes);
        self.for_each_head(slots, |head, count| {
            (slot..slot + count).for_each(|slot| each(slot, head, tids.read(bytes, self.frame.tid_at(slot))));
            slot += count;
        });
    }

    /// Reads the TIDs from a slot on: there are as many as there is room for.
    #[inline(always)]
    pub fn read_tids(&self, from: usize, out: &mut [Tid]) {
        run(out.len(), ReadTids { node: self, from, out });
    }

    /// The same, and what is so of any of them.
    #[inline(always)]
    pub(crate) fn read_all_tids(&self, from: usize, out: &mut [Tid]) -> AnyTid {
        run(out.len(), ReadAllTids(ReadTids { node: self, from, out }))
    }

    /// Reads the lanes from a slot on: there are as many as there is room for.
    #[inline(always)]
    pub fn read_lanes(&self, from: usize, out: &mut [K::Lane]) {
        if self.frame.is_grouped {
            let mut at = 0;
            return self.for_each_head(from..from + out.len(), |head, count| {
                out[at..at + count].fill(self.lane_of(head));
                at += count;
            });
        }
        run(out.len(), ReadLanes { node: self, from, out });
    }

    /// Reads where the entries' cells begin from a slot on, 0 for none: there are as many as there is room for.
    #[inline(always)]
    pub(super) fn read_cells(&self, from: usize, out: &mut [u16]) {
        if self.frame.is_grouped || self.frame.cell_width == 0 {
            let mut at = 0;
            return self.for_each_head(from..from + out.len(), |head, count| {
                out[at..at + count].fill(self.cell_of(head));
                at += count;
            });
        }
        let stored = self.page.bytes.get(self.frame.cell_at(from)..).unwrap_or_default();
        frame::each_of::<CELL, _>(stored, out, |cell| cell as u16);
    }

    /// Whether no lane in so many slots, from one on, is less than the one before. Differences say it, so no lane is made.
    #[inline(always)]
    pub fn is_ascending(&self, from: usize, count: usize) -> bool {
        run(count, Ascend { node: self, from, count })
    }

    #[inline(always)]
    fn do_heads_ascend(&self, from: usize, count: usize) -> bool {
        let (mut ascend, mut before) = (true, K::Lane::MIN);
        self.for_each_head(from..from + count, |head, _| {
            let lane = self.lane_of(head);
            ascend &= before <= lane;
            before = lane;
        });
        ascend
    }

    /// Whether a leaf's node ends where the in-page root says: no row's TID is zero, and what is not in use is.
    #[inline]
    pub(crate) fn is_ended(&self) -> bool {
        let (bytes, width) = (self.page.bytes, self.frame.widths.tid);
        let read = |at: usize| frame::read_word(bytes, at, width);
        self.frame.count > 0
            && read(self.frame.tids()) != 0
            && (self.frame.free() < width || read(self.frame.tids() - width) == 0)
            && self.frame.has_all(bytes)
    }

    /// The lines that the node takes.
    #[inline]
    pub(crate) fn lines(&self) -> LineSet {
        LineSet::of(self.frame.start / LINE, self.page.layout.x)
    }

    /// Where in the page the TID of the entry in `slot` begins; its first byte has the flags.
    #[inline]
    pub fn tid_at(&self, slot: usize) -> usize {
        self.frame.tid_at(slot)
    }

    /// Where the TIDs of the entries are, from that in `slot` on, one behind the other.
    #[inline]
    pub fn tids_from(&self, slot: usize) -> impl Iterator<Item = u16> + use<K> {
        let (first, width) = (self.tid_at(slot) as u16, self.frame.widths.tid as u16);
        (0..).map(move |number: u16| first.wrapping_add(width.wrapping_mul(number)))
    }

    /// Where a head's cell begins; 0 if it has none.
    #[inline]
    pub(super) fn cell_of(&self, head: usize) -> u16 {
        self.frame.cell(self.page.bytes, head)
    }

    /// Where the cell of the entry in `slot` begins; 0 if it has none.
    #[inline]
    pub(super) fn cell(&self, slot: usize) -> u16 {
        self.cell_of(self.head_of(slot))
    }

    /// The key of a head.
    #[inline]
    pub fn key_of(&self, head: usize) -> K::Stored<'a> {
        K::stored(self, head)
    }

    /// The entry in `slot`.
    #[inline]
    pub fn entry(&self, slot: usize) -> Entry<'a, K> {
        let head = self.head_of(slot);
        Entry { key: self.key_of(head), tid: self.tid(slot), child: self.frame.child(self.page.bytes, head) }
    }

    /// How `key` is ordered against the entry in `slot`.
    #[inline]
    pub(super) fn compare(&self, slot: usize, key: K::Key<'_>) -> Ordering {
        match K::lane_in(key, &self.page) {
            Ok(lane) => self.compare_in(slot, lane, key, None),
            Err(side) => side,
        }
    }

    /// The same, if it is known what the key's lane is in the page, and perhaps guessed.
    #[inline]
    pub(super) fn compare_in(&self, slot: usize, lane: K::Lane, key: K::Key<'_>, guess: Option<K::Guess>) -> Ordering {
        let head = self.head_of(slot);
        lane.cmp(&self.lane_of(head)).then_with(|| self.compare_tied(slot, head, key, guess))
    }

    /// The same, if their lanes are the same.
    #[inline]
    pub(super) fn compare_tied(&self, slot: usize, head: usize, key: K::Key<'_>, guess: Option<K::Guess>) -> Ordering {
        self.compare_head(head, key, guess).then_with(|| K::tid(key).cmp(&self.tid(slot).position()))
    }

    /// The same for a head, whose entries' TIDs are not looked at.
    #[inline]
    fn compare_head(&self, head: usize, key: K::Key<'_>, guess: Option<K::Guess>) -> Ordering {
        match guess {
            Some(guess) => K::guess_head(key, guess, self, head),
            None => K::compare_head(key, self, head),
        }
    }

    /// The first slot whose entry is at or after `key`; one past the last if there is none.
    #[inline]
    pub(super) fn lower_bound(&self, lane: K::Lane, key: K::Key<'_>, guess: Option<K::Guess>) -> usize {
        let first = self.first_head(lane);
        if K::begins_lane(key) || first >= self.frame.heads || self.lane_of(first) != lane {
            return self.first_slot(first);
        }
        let is_tied = |head: usize| self.lane_of(head) == lane;
        // Mostly there is no other.
        let next = first + 1;
        let is_alone = next == self.frame.heads || !is_tied(next);
        let end = if is_alone { next } else { partition(next, self.frame.heads, is_tied) };
        self.lower_bound_tied(first..end, key, guess)
    }

    /// The first slot of a head; one past the last if there is no such head.
    #[inline]
    fn first_slot(&self, head: usize) -> usize {
        if head >= self.frame.heads {
            return self.frame.count;
        }
        if self.frame.is_grouped { self.frame.slots_of(self.page.bytes, head).start } else { head }
    }

    /// Among heads whose lane is the key's.
    #[inline]
    fn lower_bound_tied(&self, heads: Range<usize>, key: K::Key<'_>, guess: Option<K::Guess>) -> usize {
        if heads.len() > 2 {
            // The search would wait for one after the other.
            self.prefetch_cells(heads.clone());
        }
        let end = self.first_slot(heads.end);
        let is_last = |last: usize| self.compare_tied(last, heads.end - 1, key, guess).is_gt();
        if K::expects_end(key, &self.page) && end.checked_sub(1).is_some_and(is_last) {
            return end;
        }
        if !self.frame.is_grouped {
            return partition(heads.start, heads.end, |slot| self.compare_tied(slot, slot, key, guess).is_gt());
        }
        // Keys of different bytes may be equal, but seldom are; their entries are in the order of their TIDs.
        let first = partition(heads.start, heads.end, |head| self.compare_head(head, key, guess).is_gt());
        let is_equal = |head: usize| head < heads.end && self.compare_head(head, key, guess).is_ge();
        let end = match first {
            _ if !is_equal(first) => first,
            _ if !is_equal(first + 1) => first + 1,
            _ => partition(first + 2, heads.end, is_equal),
        };
        let (from, to) = (self.first_slot(first), self.first_slot(end));
        partition(from, to, |slot| K::tid(key) > self.tid(slot).position())
    }

    /// The first entry at or after `key`, which is behind the one at `from` in this node, if it is one of a few.
    #[inline(never)]
    pub(super) fn soon_after(&self, from: Position, key: K::Key<'_>) -> Option<Position> {
        let (mut slot, mut step) = (from.slot as usize + 1, 1);
        let is_before = |slot: usize| self.compare(slot, key).is_gt();
        while step <= MOST_STEP && slot + step <= self.len() {
            let last = slot + step - 1;
            if !is_before(last) {
                return Some(Position { slot: partition(slot, last, is_before) as u8, ..from });
            }
            (slot, step) = (last + 1, 2 * step);
        }
        None
    }

    /// The first head whose lane is no less than this; one past the last if there is none.
    #[inline]
    fn first_head(&self, lane: K::Lane) -> usize {
        let (heads, widths) = (self.frame.heads, self.frame.widths);
        if lane < self.base || heads == 0 {
            return 0;
        }
        let difference = lane.minus(self.base);
        let back = 8 * (widths.lane - widths.front()) as u32;
        let Some(front) = difference.front(back, 8 * widths.front() as u32) else { return heads };
        let (bytes, at) = (self.page.bytes, self.frame.fronts());
        let first = self.count_fronts(bytes, at, front);
        if back == 0 || first >= heads || self.frame.front(bytes, first) != front {
            return first;
        }
        let (rest, next) = (difference.low(back), first + 1);
        let begins_alike = |head: usize| self.frame.front(bytes, head) == front;
        let is_alone = next == heads || !begins_alike(next);
        let end = if is_alone { next } else { partition(next, heads, begins_alike) };
        partition(first, end, |head| self.frame.back(bytes, head) < rest)
    }

    /// How many heads' differences begin with less.
    #[inline(always)]
    fn count_fronts(&self, bytes: &PageBytes, at: usize, front: u64) -> usize {
        let heads = self.frame.heads;
        match self.frame.widths.front() {
            0 => 0,
            1 => simd::count_less(bytes, at, heads, front as u8),
            2 => simd::count_less(bytes, at, heads, front as u16),
            4 => simd::count_less(bytes, at, heads, front as u32),
            _ => simd::count_less(bytes, at, heads, front),
        }
    }
}

/// Loops over so many entries, in the widest vectors unless they are few.
#[inline(always)]
fn run<W: Loops>(count: usize, work: W) -> W::Out {
    if count < FEW { work.run() } else { simd::run(work) }
}

/// The TIDs from a slot on.
struct ReadTids<'n, 'a, K: KeySpace> {
    node: &'n Node<'a, K>,
    from: usize,
    out: &'n mut [Tid],
}

impl<K: KeySpace> Loops for ReadTids<'_, '_, K> {
    type Out = ();

    #[inline(always)]
    fn run(self) {
        let (frame, bytes) = (&self.node.frame, self.node.page.bytes);
        frame.tid_reader(bytes).read_all(bytes, frame.tid_at(self.from), self.out);
    }
}

/// The same, and what is so of any of them.
struct ReadAllTids<'n, 'a, K: KeySpace>(ReadTids<'n, 'a, K>);

impl<K: KeySpace> Loops for ReadAllTids<'_, '_, K> {
    type Out = AnyTid;

    #[inline(always)]
    fn run(self) -> AnyTid {
        let ReadTids { node, from, out } = self.0;
        ReadTids { node, from, out: &mut *out }.run();
        Tid::any(out)
    }
}

/// The lanes from a slot on, of a node whose entries share no heads.
struct ReadLanes<'n, 'a, K: KeySpace> {
    node: &'n Node<'a, K>,
    from: usize,
    out: &'n mut [K::Lane],
}

impl<K: KeySpace> Loops for ReadLanes<'_, '_, K> {
    type Out = ();

    #[inline(always)]
    fn run(self) {
        let ReadLanes { node, from, out } = self;
        let (widths, bytes) = (node.frame.widths, node.page.bytes);
        let front = widths.front();
        let at = node.frame.fronts() + from * front;
        let stored = bytes.get(at..at + out.len() * front).unwrap_or_default();
        let make = |difference| node.base.plus(K::Lane::from_u64(difference));
        match widths.lane {
            0 => out.fill(node.base),
            1 => frame::each_of::<1, _>(stored, out, make),
            2 => frame::each_of::<2, _>(stored, out, make),
            4 => frame::each_of::<4, _>(stored, out, make),
            8 => frame::each_of::<8, _>(stored, out, make),
            _ => out.iter_mut().zip(from..).for_each(|(lane, head)| *lane = node.lane_of(head)),
        }
    }
}

/// Whether the lanes in so many slots, from one on, ascend.
struct Ascend<'n, 'a, K: KeySpace> {
    node: &'n Node<'a, K>,
    from: usize,
    count: usize,
}

impl<K: KeySpace> Loops for Ascend<'_, '_, K> {
    type Out = bool;

    #[inline(always)]
    fn run(self) -> bool {
        let Ascend { node, from, count } = self;
        let front = node.frame.widths.front();
        let at = node.frame.fronts() + from * front;
        let stored = node.page.bytes.get(at..at + count * front).unwrap_or_default();
        let ascend = match node.frame.widths.lane {
            0 => true,
            _ if node.frame.is_grouped => return node.do_heads_ascend(from, count),
            1 => frame::ascend::<1>(stored),
            2 => frame::ascend::<2>(stored),
            4 => frame::ascend::<4>(stored),
            8 => frame::ascend::<8>(stored),
            _ => return node.do_heads_ascend(from, count),
        };
        // Differences that are too large go round.
        ascend & (count == 0 || node.lane_of(from) <= node.lane_of(from + count - 1))
    }
}

/// The first slot of a range of which something is not true; the end if there is none.
#[inline]
pub(crate) fn partition(mut slot: usize, mut end: usize, is_before: impl Fn(usize) -> bool) -> usize {
    while slot < end {
        let middle = (slot + end) / 2;
        if is_before(middle) {
            slot = middle + 1;
        } else {
            end = middle;
        }
    }
    slot
}
