//! The matches of one page, in a private copy (I6).

use super::ranges::Direction;
use super::summary::Rows;
use crate::format::{Block, Lane, MAX_PAGE_ENTRIES, NO_BLOCK, Position, Tid};
use crate::keys::bytes::{BytesOrder, OwnedKey};
use crate::page::{Bytes, Entry, KeyCopies, KeySpace, Keys, LineSet, Node, Page, partition};
use crate::simd::{self, Loops};

/// A key space that can be scanned.
pub trait Scannable: KeySpace {
    /// The keys of a page's matches, as far as a scan needs them. All-zero bytes are none.
    type KeyBatch: KeyBatch<Self>;
}

/// The keys of a page's matches, in scan order.
pub trait KeyBatch<K: KeySpace>: Copy {
    /// None.
    fn none() -> Self;
    /// Makes none in memory that holds anything.
    ///
    /// # Safety
    /// As for [`Matches::init`].
    unsafe fn init(memory: *mut Self);
    /// Begins with a page; the keys themselves are only wanted if `wanted` says so.
    fn begin(&mut self, page: &Page<'_, K>, wanted: bool);
    /// Prepares for matches in several nodes of the page.
    fn expect_many(&mut self, page: &Page<'_, K>);
    /// Sets the keys of so many matches, from the `at`-th on, which are in the slots of a node from one on. `false` if
    /// some cannot be, or are out of order as far as lanes tell.
    fn set(&mut self, at: usize, node: &Node<'_, K>, from: usize, count: usize) -> bool;
    /// Makes the `to`-th match's key that of the `from`-th.
    fn copy_within(&mut self, from: usize, to: usize);
    /// Puts the keys of `from..to` in the opposite order.
    fn reverse(&mut self, from: usize, to: usize);
    /// Copies the first `count` of another's.
    fn copy_from(&mut self, other: &Self, count: usize);
}

/// The matches of one page, in scan order. Plain memory: it lives where the caller says.
#[derive(Clone, Copy)]
pub struct Matches<K: Scannable> {
    count: usize,
    tids: [Tid; MAX_PAGE_ENTRIES],
    flags_at: [u16; MAX_PAGE_ENTRIES],
    pub(super) keys: K::KeyBatch,
}

impl<K: Scannable> Matches<K> {
    /// None.
    pub fn new() -> Self {
        Matches {
            count: 0,
            tids: [Tid::MIN; MAX_PAGE_ENTRIES],
            flags_at: [0; MAX_PAGE_ENTRIES],
            keys: K::KeyBatch::none(),
        }
    }

    /// Makes none in memory that holds anything: so much is not worth being zeroed for a few.
    ///
    /// # Safety
    /// The memory may be written; it comes from where nobody knows what it holds, but it is some bytes.
    pub unsafe fn init(memory: *mut Self) {
        // SAFETY: all there is are integers and flags, of which the flags are written before anything is read.
        unsafe {
            (&raw mut (*memory).count).write(0);
            K::KeyBatch::init(&raw mut (*memory).keys);
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Forgets them.
    pub fn clear(&mut self) {
        self.count = 0;
    }

    /// The heap TID (and flags) of a match.
    #[inline]
    pub fn tid(&self, index: usize) -> Tid {
        self.tids[index]
    }

    /// The heap TIDs of all matches.
    pub fn tids(&self) -> &[Tid] {
        &self.tids[..self.count]
    }

    /// The lowest block of the matches' rows, and the highest. Beyond every block and 0 if there are none.
    pub fn blocks(&self) -> (Block, Block) {
        simd::run(Blocks(self.tids()))
    }

    /// Where in its page a match's flags are, for [`kill`].
    pub fn flags_at(&self, index: usize) -> u16 {
        self.flags_at[index]
    }

    /// Copies what `other` holds, and no more than that.
    pub fn copy_from(&mut self, other: &Self) {
        let count = other.count;
        self.count = count;
        self.tids[..count].copy_from_slice(&other.tids[..count]);
        self.flags_at[..count].copy_from_slice(&other.flags_at[..count]);
        self.keys.copy_from(&other.keys, count);
    }

    /// Appends the entries of a page between two places, from the first on; `false` if some cannot be entries, for
    /// damage that a read can tell at no cost is not to become a wrong answer.
    #[inline(always)]
    pub(super) fn append_between(
        &mut self,
        page: &Page<'_, K>,
        (from, to): (Position, Position),
        direction: Direction,
        reading: Reading,
    ) -> bool {
        match direction {
            Direction::Forward => from < to && self.append(page, from, to, reading),
            Direction::Backward => {
                let first = self.count;
                let sound = to < from && self.append(page, to, from, reading);
                self.reverse_from(first);
                sound
            }
        }
    }

    fn append(&mut self, page: &Page<'_, K>, from: Position, to: Position, reading: Reading) -> bool {
        let (mut previous, mut flawed, mut lines) = (K::Lane::MIN, false, LineSet::default());
        let null_lane = if reading.null_rank { K::Lane::MAX } else { K::Lane::MIN };
        if to.node > from.node + 1 {
            self.keys.expect_many(page);
        }
        let end = to.node.min((page.nodes() as u8).saturating_sub(1));
        for number in from.node..=end {
            let node = page.node(number as usize);
            if end - number >= NODES_AHEAD {
                page.node((number + NODES_AHEAD) as usize).prefetch();
            }
            let first = if number == from.node { from.slot as usize } else { 0 };
            let last = if number == to.node { (to.slot as usize).min(node.len()) } else { node.len() };
            // A single node has been looked at by whoever found the places.
            if from.node != to.node {
                flawed |= last == node.len() && !node.is_ended();
                flawed |= !page.has_node(number as usize) | !lines.add(node.lines());
            }
            let from = self.count.min(MAX_PAGE_ENTRIES);
            let count = last.saturating_sub(first).min(MAX_PAGE_ENTRIES - from);
            let tids = &mut self.tids[from..from + count];
            let any = node.read_all_tids(first, tids);
            flawed |= !self.keys.set(from, &node, first, count);
            self.flags_at[from..from + count].iter_mut().zip(node.tids_from(first)).for_each(|(at, tid)| *at = tid);
            self.count = from + count;
            flawed |= any.is_flawed() | (count > 0 && node.lane(first) < previous);
            flawed |= any.has_rank(reading.null_rank)
                && !(first..last)
                    .all(|slot| node.tid(slot).rank() != reading.null_rank || node.lane(slot) == null_lane);
            previous = if count > 0 { node.lane(last - 1) } else { previous };
            if any.dead() && reading.skip_dead {
                self.leave_out_dead(from);
            }
        }
        !flawed && ((to.node as usize) < page.nodes() || page.is_ended())
    }

    /// Leaves those out, from one on, that are known to be dead.
    #[cold]
    fn leave_out_dead(&mut self, from: usize) {
        let (mut kept, count) = (from, self.count);
        for at in from..count {
            if !self.tids[at].dead() {
                self.keep(at, kept);
                kept += 1;
            }
        }
        self.truncate(kept);
    }

    /// Leaves these out, which ascend.
    pub fn leave_out(&mut self, gone: &[u16]) {
        let Some(&first) = gone.first() else { return };
        let (mut kept, mut gone) = (first as usize, gone.iter().peekable());
        for at in first as usize..self.count {
            if gone.next_if(|&&next| next as usize == at).is_none() {
                self.keep(at, kept);
                kept += 1;
            }
        }
        self.truncate(kept);
    }

    /// Makes the `to`-th match that of the `from`-th, which is not before it.
    #[inline]
    fn keep(&mut self, from: usize, to: usize) {
        (self.tids[to], self.flags_at[to]) = (self.tids[from], self.flags_at[from]);
        self.keys.copy_within(from, to);
    }

    /// Forgets all but the first `count` matches.
    fn truncate(&mut self, count: usize) {
        self.count = self.count.min(count);
    }

    /// Puts the matches from `first` on in the opposite order.
    fn reverse_from(&mut self, first: usize) {
        self.tids[first..self.count].reverse();
        self.flags_at[first..self.count].reverse();
        self.keys.reverse(first, self.count);
    }
}

/// How many nodes ahead of the one that is read cache lines are fetched.
const NODES_AHEAD: u8 = 2;

/// The lowest block of some TIDs, and the highest.
struct Blocks<'m>(&'m [Tid]);

impl Loops for Blocks<'_> {
    type Out = (Block, Block);

    #[inline(always)]
    fn run(self) -> (Block, Block) {
        self.0.iter().fold((Block::MAX, 0), |(low, high), tid| (low.min(tid.block()), high.max(tid.block())))
    }
}

impl<L: Lane> Matches<L> {
    /// Becomes rows of one lane of which nobody asks for places, no more than there is room for.
    #[inline]
    pub fn set_rows(&mut self, lane: L, rows: &[Tid]) {
        self.count = rows.len().min(MAX_PAGE_ENTRIES);
        self.tids[..self.count].copy_from_slice(&rows[..self.count]);
        self.flags_at[..self.count].fill(NOWHERE);
        self.keys.wanted = true;
        self.keys.lanes[..self.count].fill(lane);
    }

    /// The matches as rows of lanes.
    #[inline]
    pub fn rows(&self) -> Rows<'_, L> {
        Rows { lanes: &self.keys.lanes[..self.count], tids: self.tids() }
    }

    /// The lane of a match.
    #[inline]
    pub fn lane(&self, index: usize) -> L {
        self.keys.lanes[index]
    }

    /// A match's entry.
    #[inline]
    pub fn entry(&self, index: usize) -> Entry<'_, L> {
        Entry { key: self.lane(index), tid: self.tid(index), child: NO_BLOCK }
    }
}

impl Matches<Bytes> {
    /// A match's entry. `None` if it is damaged, or the scan wanted no keys.
    #[inline]
    pub fn entry(&self, index: usize) -> Option<Entry<'_, Bytes>> {
        let BytesBatch { wanted, copies } = &self.keys;
        let key = copies.stored(index).filter(|_| *wanted)?;
        Some(Entry { key, tid: self.tids[index], child: NO_BLOCK })
    }
}

impl Matches<Bytes> {
    /// Where the matches end, from one on, that a scan which goes this way comes to before it is beyond a place. Most such
    /// groups are small, or have the rest of the page.
    pub fn end_before(
        &self,
        from: usize,
        place: &OwnedKey,
        order: Option<BytesOrder<'_>>,
        direction: Direction,
    ) -> usize {
        let place = Bytes::borrow(place, order);
        let is_before = |at: usize| {
            let is_above = self.entry(at).map(|entry| place.compare(&entry.key, entry.tid).is_gt());
            is_above == Some(direction == Direction::Forward)
        };
        let (mut from, mut step) = (from, 1);
        while from < self.count && is_before((from + step).min(self.count) - 1) {
            (from, step) = ((from + step).min(self.count), 2 * step);
        }
        partition(from, (from + step).min(self.count), is_before)
    }
}

impl<K: Scannable> Default for Matches<K> {
    fn default() -> Self {
        Matches::new()
    }
}

/// The lanes of a page's matches, if they are wanted.
#[derive(Clone, Copy)]
pub struct LaneBatch<L> {
    wanted: bool,
    lanes: [L; MAX_PAGE_ENTRIES],
}

impl<L: Lane> Scannable for L {
    type KeyBatch = LaneBatch<L>;
}

impl<L: Lane> KeyBatch<L> for LaneBatch<L> {
    fn none() -> Self {
        LaneBatch { wanted: false, lanes: [L::MIN; MAX_PAGE_ENTRIES] }
    }

    unsafe fn init(memory: *mut Self) {
        // SAFETY: the rest are integers.
        unsafe { (&raw mut (*memory).wanted).write(false) }
    }

    #[inline(always)]
    fn begin(&mut self, _page: &Page<'_, L>, wanted: bool) {
        self.wanted = wanted;
    }

    #[inline(always)]
    fn expect_many(&mut self, _page: &Page<'_, L>) {}

    #[inline(always)]
    fn set(&mut self, at: usize, node: &Node<'_, L>, from: usize, count: usize) -> bool {
        if !self.wanted {
            return node.is_ascending(from, count);
        }
        let lanes = &mut self.lanes[at..at + count];
        node.read_lanes(from, lanes);
        // Without an end before the last, so that vectors do it.
        lanes.iter().zip(lanes.get(1..).unwrap_or_default()).fold(true, |sound, (a, b)| sound & (a <= b))
    }

    fn copy_within(&mut self, from: usize, to: usize) {
        self.lanes[to] = self.lanes[from];
    }

    fn reverse(&mut self, from: usize, to: usize) {
        self.lanes[from..to].reverse();
    }

    fn copy_from(&mut self, other: &Self, count: usize) {
        self.wanted = other.wanted;
        if other.wanted {
            self.lanes[..count].copy_from_slice(&other.lanes[..count]);
        }
    }
}

/// Copies of the matches' keys, if they are wanted.
#[derive(Clone, Copy)]
pub struct BytesBatch {
    wanted: bool,
    copies: KeyCopies,
}

impl Scannable for Bytes {
    type KeyBatch = BytesBatch;
}

impl KeyBatch<Bytes> for BytesBatch {
    fn none() -> Self {
        BytesBatch { wanted: false, copies: KeyCopies::none() }
    }

    unsafe fn init(memory: *mut Self) {
        // SAFETY: the caller's.
        unsafe {
            (&raw mut (*memory).wanted).write(false);
            KeyCopies::init(&raw mut (*memory).copies);
        }
    }

    fn begin(&mut self, page: &Page<'_, Bytes>, wanted: bool) {
        self.wanted = wanted;
        if wanted {
            self.copies.begin(page);
        }
    }

    fn expect_many(&mut self, page: &Page<'_, Bytes>) {
        if self.wanted {
            self.copies.copy_all(page);
        }
    }

    #[inline]
    fn set(&mut self, at: usize, node: &Node<'_, Bytes>, from: usize, count: usize) -> bool {
        if self.wanted {
            return self.copies.set_all(at, node, from, count);
        }
        node.is_ascending(from, count)
    }

    fn copy_within(&mut self, from: usize, to: usize) {
        self.copies.copy_within(from, to);
    }

    fn reverse(&mut self, from: usize, to: usize) {
        self.copies.reverse(from, to);
    }

    fn copy_from(&mut self, other: &Self, count: usize) {
        self.wanted = other.wanted;
        if other.wanted {
            self.copies.copy_from(&other.copies, count);
        }
    }
}

/// How entries are taken from a page.
#[derive(Clone, Copy)]
pub(super) struct Reading {
    /// Leave out those known to be dead to everyone.
    pub(super) skip_dead: bool,
    /// The rank that only NULLs have.
    pub(super) null_rank: bool,
}

/// The place of a match that has none: beyond every page.
const NOWHERE: u16 = u16::MAX;
