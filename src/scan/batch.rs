//! The matches of one page, in a private copy (I6).

use crate::format::{Lane, MAX_PAGE_ENTRIES, NO_BLOCK, Position, Tail};
use crate::page::{Copies, Entry, KeySpace, LineSet, Long, Node, Page};

/// A key space that can be scanned.
pub trait Scannable: KeySpace {
    /// The keys of a page's matches, as far as a scan needs them. All-zero bytes are none.
    type Copied: Copied<Self>;
}

/// The keys of a page's matches, in scan order.
pub trait Copied<K: KeySpace>: Copy {
    /// None.
    fn none() -> Self;
    /// Begins with a page; the keys themselves are only wanted if `wanted` says so.
    fn begin(&mut self, page: &Page<'_, K>, wanted: bool);
    /// Prepares for matches in several nodes of the page.
    fn expect_many(&mut self, page: &Page<'_, K>);
    /// Sets the key of the `at`-th match, which is in this slot of a node of the page. `false` if it cannot be.
    fn set(&mut self, at: usize, node: &Node<'_, K>, slot: usize) -> bool;
    /// Puts the keys of `from..to` in the opposite order.
    fn reverse(&mut self, from: usize, to: usize);
    /// Copies the first `count` of another's.
    fn copy_from(&mut self, other: &Self, count: usize);
}

/// The matches of one page, in scan order. Plain memory: it lives where the caller says.
#[derive(Clone, Copy)]
pub struct Matches<K: Scannable> {
    count: usize,
    tails: [Tail; MAX_PAGE_ENTRIES],
    places: [u16; MAX_PAGE_ENTRIES],
    pub(super) keys: K::Copied,
}

impl<K: Scannable> Matches<K> {
    /// None.
    pub fn new() -> Self {
        Matches {
            count: 0,
            tails: [Tail::MIN; MAX_PAGE_ENTRIES],
            places: [0; MAX_PAGE_ENTRIES],
            keys: K::Copied::none(),
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
    pub fn tail(&self, index: usize) -> Tail {
        self.tails[index]
    }

    /// The heap TIDs of all matches.
    pub fn tails(&self) -> &[Tail] {
        &self.tails[..self.count]
    }

    /// Where in its page a match's flags are, for [`kill`].
    pub fn place(&self, index: usize) -> u16 {
        self.places[index]
    }

    /// Copies what `other` holds, and no more than that.
    pub fn copy_from(&mut self, other: &Self) {
        let count = other.count;
        self.count = count;
        self.tails[..count].copy_from_slice(&other.tails[..count]);
        self.places[..count].copy_from_slice(&other.places[..count]);
        self.keys.copy_from(&other.keys, count);
    }

    /// Appends the entries of a page from one place to another; `false` if some cannot be entries, for damage that a
    /// read can tell at no cost is not to become a wrong answer.
    pub(super) fn append(&mut self, page: &Page<'_, K>, from: Position, to: Position, reading: Reading) -> bool {
        let (mut previous, mut flawed, mut lines) = (K::Lane::MIN, false, LineSet::default());
        let null_lane = if reading.null_rank { K::Lane::MAX } else { K::Lane::MIN };
        if to.node > from.node + 1 {
            self.keys.expect_many(page);
        }
        for number in from.node..=to.node.min((page.nodes() as u8).saturating_sub(1)) {
            let node = page.node(number as usize);
            let first = if number == from.node { from.slot as usize } else { 0 };
            let last = if number == to.node { (to.slot as usize).min(node.len()) } else { node.len() };
            // A single node has been looked at by whoever found the places.
            if from.node != to.node {
                flawed |= last == node.len() && !node.is_ended();
                flawed |= !page.has_node(number as usize) | !lines.add(node.lines());
            }
            for slot in first..last {
                let (lane, tail) = (node.lane(slot), node.tail(slot));
                flawed |= lane < previous;
                flawed |= tail.is_flawed() | ((tail.rank() == reading.null_rank) & (lane != null_lane));
                previous = lane;
                // Written first and counted after, so that the common case has no branch to guess.
                let at = self.count.min(MAX_PAGE_ENTRIES - 1);
                self.tails[at] = tail;
                self.places[at] = node.tail_at(slot) as u16;
                flawed |= !self.keys.set(at, &node, slot);
                self.count = at + usize::from(!(reading.skip_dead && tail.dead()));
            }
        }
        !flawed && ((to.node as usize) < page.nodes() || page.is_ended())
    }

    /// Puts the matches from `first` on in the opposite order.
    pub(super) fn reverse_from(&mut self, first: usize) {
        self.tails[first..self.count].reverse();
        self.places[first..self.count].reverse();
        self.keys.reverse(first, self.count);
    }
}

impl<L: Lane> Matches<L> {
    /// Becomes rows of one lane of which nobody asks for places, no more than there is room for.
    #[inline]
    pub fn set_rows(&mut self, lane: L, rows: &[Tail]) {
        self.count = rows.len().min(MAX_PAGE_ENTRIES);
        self.tails[..self.count].copy_from_slice(&rows[..self.count]);
        self.places[..self.count].fill(NOWHERE);
        self.keys.0[..self.count].fill(lane);
    }

    /// The lane of a match.
    #[inline]
    pub fn lane(&self, index: usize) -> L {
        self.keys.0[index]
    }

    /// A match's entry.
    #[inline]
    pub fn entry(&self, index: usize) -> Entry<'_, L> {
        Entry { key: self.lane(index), tail: self.tail(index), child: NO_BLOCK }
    }
}

impl Matches<Long> {
    /// A match's entry. `None` if it is damaged, or the scan wanted no keys.
    #[inline]
    pub fn entry(&self, index: usize) -> Option<Entry<'_, Long>> {
        let LongMatches { wanted, copies } = &self.keys;
        let key = copies.stored(index).filter(|_| *wanted)?;
        Some(Entry { key, tail: self.tails[index], child: NO_BLOCK })
    }
}

impl<K: Scannable> Default for Matches<K> {
    fn default() -> Self {
        Matches::new()
    }
}

/// The lanes of a page's matches.
#[derive(Clone, Copy)]
pub struct Lanes<L>([L; MAX_PAGE_ENTRIES]);

impl<L: Lane> Scannable for L {
    type Copied = Lanes<L>;
}

impl<L: Lane> Copied<L> for Lanes<L> {
    fn none() -> Self {
        Lanes([L::MIN; MAX_PAGE_ENTRIES])
    }

    #[inline(always)]
    fn begin(&mut self, _page: &Page<'_, L>, _wanted: bool) {}

    #[inline(always)]
    fn expect_many(&mut self, _page: &Page<'_, L>) {}

    #[inline(always)]
    fn set(&mut self, at: usize, node: &Node<'_, L>, slot: usize) -> bool {
        self.0[at] = node.lane(slot);
        true
    }

    fn reverse(&mut self, from: usize, to: usize) {
        self.0[from..to].reverse();
    }

    fn copy_from(&mut self, other: &Self, count: usize) {
        self.0[..count].copy_from_slice(&other.0[..count]);
    }
}

/// Copies of the matches' keys, if they are wanted.
#[derive(Clone, Copy)]
pub struct LongMatches {
    wanted: bool,
    copies: Copies,
}

impl Scannable for Long {
    type Copied = LongMatches;
}

impl Copied<Long> for LongMatches {
    fn none() -> Self {
        LongMatches { wanted: false, copies: Copies::none() }
    }

    fn begin(&mut self, page: &Page<'_, Long>, wanted: bool) {
        self.wanted = wanted;
        if wanted {
            self.copies.begin(page);
        }
    }

    fn expect_many(&mut self, page: &Page<'_, Long>) {
        if self.wanted {
            self.copies.copy_all(page);
        }
    }

    #[inline]
    fn set(&mut self, at: usize, node: &Node<'_, Long>, slot: usize) -> bool {
        !self.wanted || self.copies.set(at, node, slot)
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
