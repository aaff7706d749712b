//! The page: a disk-first fpB+-tree node (paper §3.1), one type whose methods are the only way to touch its bytes.
//!
//! docs/design.md, 3, draws the format byte by byte. In short, in 64-byte lines: line 0 is the server's page header and
//! ours, line 1 the fences, then the in-page tree, grown from the low end: one in-page root of `w` lines and in-page
//! leaf nodes of `x` lines. The last line keeps eight bytes of special space.
//!
//! Reading is safe whatever the bytes are (I3): every count is clamped and every line number checked before use.

mod arrange;
mod bytes;
mod describe;
mod edit;
mod frame;
mod lanes;
mod lines;
mod meta;
mod node;
mod plan;
mod redo;
mod space;
mod split;
mod verify;

pub(crate) use arrange::Filling;
pub use arrange::{Arrangement, Thrift};
pub use bytes::{Bytes, KeyCopies};
pub use describe::{Description, Listed, NodeDescription, Sight, look};
pub use edit::{Links, PageMut};
pub(crate) use lines::LineSet;
pub use meta::{LogKind, Meta, Shape};
pub(crate) use node::partition;
pub use node::{Entries, Entry, Node};
pub use plan::Plan;
pub use space::{KeySpace, Keys, PageKeys, PageSplits, Side};
pub use split::{Aim, Joined};
pub use verify::Flaw;

use crate::format::*;
use crate::keys::KeyShape;
use crate::keys::bytes::BytesShape;
use crate::log::{Cell, Change, Edit, Fence, Ranges};
use crate::simd::{self, CACHE_LINE};
use core::cmp::Ordering;
use core::marker::PhantomData;
use core::ops::Range;

/// Whether a page from the free space map may be used: never written, or deleted. Anything else is left alone, because
/// the map is not logged and may be wrong.
pub fn reusable(bytes: &PageBytes) -> bool {
    is_new(bytes) || (Layout::of_page(bytes).is_some() && bytes[at::FLAGS] & DELETED != 0)
}

/// When a page was deleted that may be [reused](reusable), as [`Edit::Delete`] said; 0 if that is of no interest.
pub fn deleted_at(bytes: &PageBytes) -> u64 {
    if is_new(bytes) { 0 } else { read_u64(bytes, at::LEFT) }
}

/// Whether the lock order lets who has one page locked wait for another: that is on a higher level, or right of it as
/// far as exact lanes and links tell.
#[cfg(feature = "memory")]
pub(crate) fn may_wait((block, held): (Block, &PageBytes), page: &PageBytes) -> bool {
    let low = |page: &PageBytes| Key::new(u128::read(page, at::LOW), Tid::read(page, at::LOW + at::FENCE_TID));
    match held[at::LEVEL].cmp(&page[at::LEVEL]) {
        Ordering::Equal if Layout::of_page(page).is_some_and(|layout| !layout.kind.is_prefix()) => {
            low(held) < low(page)
        }
        Ordering::Equal => read_u32(page, at::RIGHT) != block,
        order => order.is_lt(),
    }
}

/// Makes pages alike that differ in nothing but what no log record says: LSN and checksum, flags of dead rows, and
/// bytes that are not used.
pub fn mask(bytes: &mut PageBytes) {
    bytes[..at::PD_LOWER].fill(0);
    let (lower, upper) = (read_u16(bytes, at::PD_LOWER) as usize, read_u16(bytes, at::PD_UPPER) as usize);
    if let Some(unused) = bytes.get_mut(lower..upper) {
        unused.fill(0);
    }
    if let Some(layout) = Layout::of_page(bytes).filter(|_| bytes[at::LEVEL] == 0) {
        for node in 0..(bytes[at::NODES] as usize).min(layout.nodes) {
            let frame = frame::Frame::of(bytes, &layout, node);
            (0..frame.count).for_each(|slot| bytes[frame.tid_at(slot)] &= !Tid::DEAD);
        }
    }
}

/// Whether the page was never written.
pub fn is_new(bytes: &PageBytes) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}

/// A page being read. The caller holds a content lock.
#[derive(Clone, Copy)]
pub struct Page<'a, K> {
    bytes: &'a PageBytes,
    layout: &'a Layout,
    keys: PhantomData<K>,
}

impl<'a, K: KeySpace> Page<'a, K> {
    /// Looks at a page as one of this index's. It may be deleted, or not be the page one looked for: that is for the
    /// caller to see. Anything that is not a page of this index at all is an error naming what is wrong.
    #[inline]
    pub fn open(bytes: &'a PageBytes, geometry: &'a Geometry, block: Block) -> Result<Page<'a, K>> {
        let layout = geometry.layout(bytes[at::LEVEL]);
        if read_u64(bytes, at::BUILD_ID) != geometry.build_id || read_u32(bytes, at::STAMP) != layout.stamp {
            return Err(refuse(bytes, geometry, block));
        }
        Ok(Page { bytes, layout, keys: PhantomData })
    }

    /// The page as stored.
    pub fn bytes(&self) -> &'a PageBytes {
        self.bytes
    }

    /// 0 for a leaf.
    pub fn level(&self) -> u8 {
        self.bytes[at::LEVEL]
    }

    /// Deleted by VACUUM: it holds nothing, and its key space is its right neighbour's.
    pub fn is_deleted(&self) -> bool {
        self.bytes[at::FLAGS] & DELETED != 0
    }

    /// Split, and the new right page is not in the parent yet.
    pub fn is_incomplete(&self) -> bool {
        self.bytes[at::FLAGS] & INCOMPLETE != 0
    }

    /// The left sibling, or `NO_BLOCK`.
    pub fn left(&self) -> Block {
        read_u32(self.bytes, at::LEFT)
    }

    /// The right sibling, or `NO_BLOCK`.
    pub fn right(&self) -> Block {
        read_u32(self.bytes, at::RIGHT)
    }

    /// The smallest key that may be here.
    #[inline]
    pub fn low(&self) -> K::Fence<'a> {
        K::fence(self, Side::Low)
    }

    /// The smallest key that belongs to the right of here; behind all keys on the level's last page.
    #[inline]
    pub fn high(&self) -> K::Fence<'a> {
        K::fence(self, Side::High)
    }

    /// Whether a place is before all keys that may be here.
    #[inline]
    pub fn is_below(&self, key: K::Key<'_>) -> bool {
        K::compare_fence(key, self, Side::Low).is_lt()
    }

    /// Whether a place is behind all keys that may be here.
    #[inline]
    pub fn is_beyond(&self, key: K::Key<'_>) -> bool {
        K::compare_fence(key, self, Side::High).is_ge()
    }

    /// In-page leaf nodes in use.
    #[inline]
    pub fn nodes(&self) -> usize {
        (self.bytes[at::NODES] as usize).min(self.layout.nodes)
    }

    /// Entries in the page.
    pub fn entries(&self) -> usize {
        (0..self.nodes()).map(|node| self.count(node)).sum()
    }

    /// Whether the page holds nothing.
    pub fn is_empty(&self) -> bool {
        self.nodes() == 0
    }

    /// How much of what the page has room for is in use, from 0 to 1.
    pub fn fill(&self) -> f64 {
        let (used, room) = self.space();
        used as f64 / room as f64
    }

    /// Bytes that entries and fences take, and those that there are for them.
    fn space(&self) -> (usize, usize) {
        let used = arrange::used(self.bytes, self.layout);
        if !self.layout.kind.is_prefix() {
            return (used, self.layout.nodes * self.layout.node_room());
        }
        (used + bytes::live_cells(self.bytes, self.layout), self.layout.space())
    }

    /// In how many in-page nodes entries share what their keys have in common.
    pub fn grouped_nodes(&self) -> usize {
        (0..self.nodes()).filter(|&node| frame::Frame::of(self.bytes, self.layout, node).is_grouped).count()
    }

    #[inline]
    fn count(&self, node: usize) -> usize {
        frame::Frame::of(self.bytes, self.layout, node).count
    }

    /// Whether what the in-page root says of a node can be: where it is, and how many entries it has.
    #[inline]
    pub(crate) fn has_node(&self, node: usize) -> bool {
        let line = u32::from(self.bytes[self.layout.root_lines() + node]);
        // Of 32 bits, for they are divided on the way of every lookup.
        let [first, x, used] = [self.layout.first_node_line(), self.layout.x, self.used_lines()].map(|n| n as u32);
        let frame = frame::Frame::of(self.bytes, self.layout, node);
        let is_there = line >= first && (line - first).is_multiple_of(x) && line + x <= used;
        is_there && frame.count > 0 && frame.is_checked(self.bytes, self.layout, node)
    }

    fn separator(&self, node: usize) -> K::Lane {
        K::Lane::read(self.bytes, self.layout.root_lanes() + node * K::Lane::SIZE)
    }

    /// The last separator of the in-page root that lets `key` into its node, and the place in it where `key` is or
    /// would go: `slot` may be one past the node's last.
    #[inline]
    pub(crate) fn locate(&self, key: K::Key<'_>) -> Position {
        let nodes = self.nodes();
        if nodes == 0 {
            return Position { node: 0, slot: 0 };
        }
        let lane = match K::lane_in(key, self) {
            Ok(lane) => lane,
            Err(Ordering::Less) => return Position { node: 0, slot: 0 },
            Err(_) => return Position { node: nodes as u8 - 1, slot: self.count(nodes - 1) as u8 },
        };
        if let Some(place) = K::remembered(key, self)
            && self.is_within_node(place)
            && self.is_place(place, lane, key)
        {
            return place;
        }
        let place = self.find(lane, key);
        K::note_place(key, self, place);
        place
    }

    /// [Locates](Page::locate) a key that has this lane in the page, of which nothing is remembered.
    #[inline]
    fn find(&self, lane: K::Lane, key: K::Key<'_>) -> Position {
        let guess = K::guess(key, self);
        let place = self.search(lane, key, guess);
        if guess.is_none() {
            return place;
        }
        let is_proved = self.is_place(place, lane, key);
        K::note_guess(key, is_proved);
        if is_proved { place } else { self.search(lane, key, None) }
    }

    /// Whether a place has entries of its node on both sides. If these are around a key, it is in no other node: between
    /// nodes it would take their separators to tell which of them a key goes to.
    fn is_within_node(&self, place: Position) -> bool {
        let (node, slot) = (place.node as usize, place.slot as usize);
        node < self.nodes() && slot > 0 && slot < self.count(node)
    }

    /// Whether a leaf's entries on both sides of a key's place, or the last one of all, show that it is between the fences,
    /// which are not asked.
    pub(crate) fn encloses(&self, key: K::Key<'_>) -> bool {
        if K::lane_in(key, self).is_err() {
            return false;
        }
        let place = self.lower_bound(key);
        let has_end = (place.node as usize) < self.nodes() || self.right() == NO_BLOCK;
        has_end && self.previous(place).is_some()
    }

    /// Whether a place is where `key` is or would go, as the entries on either side of it say, if there are such.
    fn is_place(&self, place: Position, lane: K::Lane, key: K::Key<'_>) -> bool {
        let compare = |at: Position| self.node(at.node as usize).compare_in(at.slot as usize, lane, key, None);
        let behind = self.settle(place);
        let is_behind = behind.node as usize == self.nodes() || compare(behind).is_le();
        is_behind && self.previous(place).is_none_or(|before| compare(before).is_gt())
    }

    /// [Locates](Page::locate) a key that has this lane in the page, guessing, if there is something to guess by.
    #[inline]
    fn search(&self, lane: K::Lane, key: K::Key<'_>, guess: Option<K::Guess>) -> Position {
        let nodes = self.nodes();
        // The first separator is not looked at: everything left of the second one goes to the first node.
        let separators = self.layout.root_lanes() + K::Lane::SIZE;
        let mut node = K::Lane::count_less(self.bytes, separators, nodes - 1, lane);
        if node + 1 < nodes && self.separator(node + 1) == lane {
            node = self.last_node_from(node, lane, key, guess);
        }
        let found = self.node(node);
        found.prefetch();
        Position { node: node as u8, slot: found.lower_bound(lane, key, guess) as u8 }
    }

    /// Among the nodes whose separators tie with the key's lane, and the one before them: the last that starts at or
    /// before the key.
    fn last_node_from(&self, first: usize, lane: K::Lane, key: K::Key<'_>, guess: Option<K::Guess>) -> usize {
        let separators = self.layout.root_lanes() + K::Lane::SIZE;
        let (mut low, mut high) = (first, K::Lane::count_less_equal(self.bytes, separators, self.nodes() - 1, lane));
        let halfway = |low: usize, high: usize| (low + high).div_ceil(2);
        let expects_end = K::expects_end(key, self);
        if expects_end && self.layout.kind.is_prefix() && high + 1 == self.nodes() {
            let last = self.node(high);
            if last.len().checked_sub(1).is_some_and(|slot| last.compare_in(slot, lane, key, guess).is_gt()) {
                return high;
            }
        }
        let mut middle = if expects_end { high } else { halfway(low, high) };
        if self.layout.kind.is_prefix() && high - low > 1 {
            self.prefetch_first_cells(low + 1..high + 1);
        }
        while low < high {
            let node = self.node(middle);
            if !node.is_empty() && node.compare_in(0, lane, key, guess).is_ge() {
                low = middle;
            } else {
                high = middle - 1;
            }
            middle = halfway(low, high);
        }
        low
    }

    /// Asks for the first cells of nodes, of which a search among them would wait for one after the other.
    fn prefetch_first_cells(&self, nodes: Range<usize>) {
        nodes.clone().for_each(|node| self.node(node).prefetch_front());
        nodes.for_each(|node| self.node(node).prefetch_cells(0..1));
    }

    /// The first entry at or after `key`; the end if there is none.
    #[inline]
    pub fn lower_bound(&self, key: K::Key<'_>) -> Position {
        self.settle(self.locate(key))
    }

    /// Whether a leaf's entries around the place that [`lower_bound`](Page::lower_bound) gave for `key` are those that
    /// belong there: damage to the in-page root, which leads a search astray, is not to become a wrong answer. Ties in
    /// a node are not looked at.
    #[inline]
    pub(crate) fn is_between(&self, place: Position, key: K::Key<'_>) -> bool {
        let Ok(lane) = K::lane_in(key, self) else { return true };
        let (node, slot, nodes) = (place.node as usize, place.slot as usize, self.nodes());
        let mut sound = true;
        if node < nodes {
            let found = self.node(node);
            let behind = if slot < found.len() { found.lane(slot) } else { K::Lane::MIN };
            sound &= self.has_node(node)
                && behind >= lane
                && (node + 1 == nodes || behind <= self.separator(node + 1))
                && found.is_ended();
            sound &= slot > 0 || behind > lane || found.compare_tied(0, 0, key, None).is_le();
        } else {
            sound &= self.is_ended();
        }
        if let Some(last) = node.checked_sub(1).filter(|_| slot == 0) {
            let left = self.node(last);
            let Some(end) = left.len().checked_sub(1) else { return false };
            let before = left.lane(end);
            sound &= before <= lane && (last == 0 || before >= self.separator(last)) && left.is_ended();
            sound &= self.has_node(last);
            sound &= before < lane || left.compare_tied(end, left.head_of(end), key, None).is_gt();
        } else if slot > 0 {
            let before = self.node(node).lane(slot - 1);
            sound &= before <= lane && (node == 0 || before >= self.separator(node));
        }
        sound
    }

    /// Whether all of a leaf's entries can be that, and there are none but those it counts: what a pass over them can
    /// tell without comparing keys.
    pub(crate) fn is_in_order(&self) -> bool {
        let (mut previous, mut used) = (K::Lane::MIN, LineSet::default());
        let (mut lanes, mut tids) = ([K::Lane::MIN; MAX_NODE_ENTRIES], [Tid::MIN; MAX_NODE_ENTRIES]);
        let mut nodes = (0..self.nodes()).map(|number| (number, self.node(number)));
        let sound = nodes.all(|(number, node)| {
            let begins = number == 0 || previous <= self.separator(number) && self.separator(number) <= node.lane_of(0);
            let (lanes, tids) = (&mut lanes[..node.len()], &mut tids[..node.len()]);
            node.read_lanes(0, lanes);
            node.read_tids(0, tids);
            let Some(last) = lanes.last().copied() else { return false };
            let ascends = previous <= lanes[0] && is_ascending(lanes);
            let sound = ascends && !Tid::any(tids).is_flawed();
            previous = last;
            let is_apart = self.has_node(number) & used.add(node.lines());
            begins && sound && is_apart && node.is_ended()
        });
        sound && self.is_ended() && self.is_placed() && K::is_bounded(self)
    }

    /// Whether the page has no neighbours.
    pub(crate) fn is_alone(&self) -> bool {
        !is_link(self.left()) && !is_link(self.right())
    }

    /// Whether the page has, on either side, a neighbour or the end of all keys.
    #[inline]
    pub(crate) fn is_placed(&self) -> bool {
        is_link(self.left()) != K::same_fence(self.low(), K::fence_of(K::first()))
            && is_link(self.right()) != K::same_fence(self.high(), K::fence_of(K::last()))
    }

    /// Whether the in-page root ends where it says.
    pub(crate) fn is_ended(&self) -> bool {
        let nodes = self.nodes();
        nodes == self.layout.nodes || self.bytes[self.layout.root_lines() + nodes] == 0
    }

    /// The first entry at or after `key`, which is behind the entry at `from`, if it is not far behind that: the next
    /// one, or where comparing is costly one of a few more in its node.
    #[inline]
    pub fn soon_after(&self, from: Position, key: K::Key<'_>) -> Option<Position> {
        let next = self.next(from);
        if K::compare_entry(key, &self.entry(next)?).is_le() {
            return Some(next);
        }
        if self.layout.kind.is_prefix() { self.node(next.node as usize).soon_after(next, key) } else { None }
    }

    /// A place one past a node's last entry is the next node's first.
    #[inline]
    fn settle(&self, position: Position) -> Position {
        let node = position.node as usize;
        if node < self.nodes() && position.slot as usize >= self.count(node) {
            return Position { node: position.node + 1, slot: 0 };
        }
        position
    }

    /// One past the last entry.
    pub fn end(&self) -> Position {
        Position { node: self.nodes() as u8, slot: 0 }
    }

    /// The entry after `position`.
    pub fn next(&self, position: Position) -> Position {
        self.settle(Position { slot: position.slot + 1, ..position })
    }

    /// The entry before `position`, if there is one.
    pub fn previous(&self, position: Position) -> Option<Position> {
        if position.slot > 0 {
            return Some(Position { slot: position.slot - 1, ..position });
        }
        let node = position.node.checked_sub(1)?;
        Some(Position { node, slot: self.count(node as usize).checked_sub(1)? as u8 })
    }

    /// The entry at `position`, unless that is the end.
    #[inline]
    pub fn entry(&self, position: Position) -> Option<Entry<'a, K>> {
        let node = position.node as usize;
        let is_entry = node < self.nodes() && (position.slot as usize) < self.count(node);
        is_entry.then(|| self.node(node).entry(position.slot as usize))
    }

    /// How many entries are before `position`.
    pub(crate) fn rank(&self, position: Position) -> usize {
        let before: usize = (0..(position.node as usize).min(self.nodes())).map(|node| self.count(node)).sum();
        before + position.slot as usize
    }

    /// The place of the entry that so many are before; the end if there are not as many.
    pub(crate) fn at_rank(&self, mut rank: usize) -> Position {
        for node in 0..self.nodes() {
            let count = self.count(node);
            if rank < count {
                return Position { node: node as u8, slot: rank as u8 };
            }
            rank -= count;
        }
        self.end()
    }

    /// The child whose key space has `key`: the last entry at or before it.
    #[inline]
    pub fn child_for(&self, key: K::Key<'_>) -> Option<Block> {
        self.child(self.child_place(key)?)
    }

    /// Where the child for `key` is.
    #[inline]
    pub(crate) fn child_place(&self, key: K::Key<'_>) -> Option<Position> {
        let position = self.locate(key);
        let node = position.node as usize;
        if node < self.nodes() {
            // The entry there may be the key itself.
            let node = self.node(node);
            let slot = position.slot as usize;
            if slot < node.len() && node.compare(slot, key).is_eq() {
                return Some(position);
            }
        }
        self.previous(position)
    }

    /// Where the child before `key` is.
    pub fn child_place_before(&self, key: K::Key<'_>) -> Option<Position> {
        self.previous(self.locate(key))
    }

    /// The child that the entry at `position` points to.
    #[inline]
    fn child(&self, position: Position) -> Option<Block> {
        self.entry(position).map(|entry| entry.child)
    }

    /// Lines in use from the page's start.
    fn used_lines(&self) -> usize {
        (self.bytes[at::LINES] as usize).clamp(self.layout.first_node_line(), END_LINE)
    }

    /// All entries in key order.
    pub fn iter(self) -> Entries<'a, K> {
        self.iter_from(0)
    }

    /// All but so many of the first.
    pub fn iter_from(self, rank: usize) -> Entries<'a, K> {
        Entries::from(self, self.at_rank(rank))
    }
}

impl<L: Lane> Page<'_, L> {
    /// The full key at `position`, unless that is the end.
    #[inline]
    pub fn key(&self, position: Position) -> Option<Key<L>> {
        self.entry(position).map(|entry| entry.key())
    }
}

/// Says what is wrong with a page that is not one of this index's.
#[cold]
fn refuse(bytes: &PageBytes, geometry: &Geometry, block: Block) -> Error {
    if is_new(bytes) {
        return Error::Corrupt { block, what: "page is all zeroes" };
    }
    if read_u64(bytes, at::BUILD_ID) != geometry.build_id {
        return Error::Corrupt { block, what: "page does not carry this index's build id" };
    }
    let format = bytes[at::STAMP];
    if format != FORMAT {
        return Error::UnknownFormat { block, format };
    }
    Error::Corrupt { block, what: "page is not laid out as this index's pages are" }
}

/// Whether no lane is less than the one before. Looks at all, which vectors do.
#[inline]
fn is_ascending<L: Lane>(lanes: &[L]) -> bool {
    lanes
        .iter()
        .zip(lanes.get(1..).unwrap_or_default())
        .fold(true, |ascends, (before, lane)| ascends & (before <= lane))
}
