//! Scans: ranges read a page at a time into a private copy (I6), forward or backward.

mod selection;

pub use selection::{Range, Selection, predecessor, successor};

use crate::key::{Key, Lane, Tail};
use crate::page::{MAX_PAGE_ENTRIES, Page, Position, is_link};
use crate::store::{Block, Error, Mode, NO_BLOCK, PageStore, Result};
use crate::tree::Tree;

/// Which way a scan goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Ascending in index order.
    Forward,
    /// Descending.
    Backward,
}

impl Direction {
    fn opposite(self) -> Self {
        match self {
            Direction::Forward => Direction::Backward,
            Direction::Backward => Direction::Forward,
        }
    }
}

/// Where a scan that goes this way ends.
fn end<L: Lane>(direction: Direction) -> Key<L> {
    match direction {
        Direction::Forward => Key::MAX,
        Direction::Backward => Key::MIN,
    }
}

/// The matches of one page, in scan order. Plain memory: it lives where the caller says.
#[derive(Clone, Copy)]
pub struct Matches<L> {
    count: usize,
    tails: [Tail; MAX_PAGE_ENTRIES],
    lanes: [L; MAX_PAGE_ENTRIES],
    places: [u16; MAX_PAGE_ENTRIES],
}

impl<L: Lane> Matches<L> {
    /// None.
    pub fn new() -> Self {
        Matches {
            count: 0,
            tails: [Tail::MIN; MAX_PAGE_ENTRIES],
            lanes: [L::MIN; MAX_PAGE_ENTRIES],
            places: [0; MAX_PAGE_ENTRIES],
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

    /// The lane of a match.
    #[inline]
    pub fn lane(&self, index: usize) -> L {
        self.lanes[index]
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
        self.lanes[..count].copy_from_slice(&other.lanes[..count]);
        self.places[..count].copy_from_slice(&other.places[..count]);
    }

    /// Appends the entries of a page from one place to another; `false` if some cannot be entries, for damage that a
    /// read can tell at no cost is not to become a wrong answer.
    fn append(&mut self, page: &Page<'_, L>, from: Position, to: Position, reading: Reading) -> bool {
        let null_lane = if reading.null_rank { L::MAX } else { L::MIN };
        let (mut previous, mut flawed) = (L::MIN, false);
        for number in from.node..=to.node.min((page.nodes() as u8).saturating_sub(1)) {
            let node = page.node(number as usize);
            let first = if number == from.node { from.slot as usize } else { 0 };
            let last = if number == to.node { (to.slot as usize).min(node.len()) } else { node.len() };
            for slot in first..last {
                let (lane, tail) = (node.lane(slot), node.tail(slot));
                flawed |= lane < previous;
                flawed |= tail.is_flawed() | ((tail.rank() == reading.null_rank) & (lane != null_lane));
                previous = lane;
                // Written first and counted after, so that the common case has no branch to guess.
                let at = self.count.min(MAX_PAGE_ENTRIES - 1);
                self.tails[at] = tail;
                self.lanes[at] = lane;
                self.places[at] = node.tail_at(slot) as u16;
                self.count = at + usize::from(!(reading.skip_dead && tail.dead()));
            }
        }
        !flawed
    }

    /// Puts the matches from `first` on in the opposite order.
    fn reverse_from(&mut self, first: usize) {
        self.tails[first..self.count].reverse();
        self.lanes[first..self.count].reverse();
        self.places[first..self.count].reverse();
    }
}

impl<L: Lane> Default for Matches<L> {
    fn default() -> Self {
        Matches::new()
    }
}

/// How entries are taken from a page.
#[derive(Clone, Copy)]
struct Reading {
    /// Leave out those known to be dead to everyone.
    skip_dead: bool,
    /// The rank that only NULLs have.
    null_rank: bool,
}

/// Where a scan is: it has read the matches between `near` and `bound` last, and goes on from `bound`.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<L> {
    direction: Direction,
    /// Where the page of matches read last began.
    near: Key<L>,
    bound: Key<L>,
    /// The fence between the page read last and `link`, the page after it.
    edge: Key<L>,
    link: Block,
    lsn: u64,
}

impl<L: Lane> Cursor<L> {
    /// At the beginning, or backward at the end.
    pub fn new(direction: Direction) -> Self {
        let start = end(direction.opposite());
        Cursor { direction, near: start, bound: start, edge: start, link: NO_BLOCK, lsn: 0 }
    }

    /// Which way the cursor goes.
    pub fn direction(&self) -> Direction {
        self.direction
    }

    /// Turns the scan round. The next page of matches is the one on the other side of those read last (none of them
    /// again); after a read that found none, the ones at the end the scan came to. Turning twice changes nothing.
    pub fn turn(&mut self) {
        self.direction = self.direction.opposite();
        (self.near, self.bound) = (self.bound, self.near);
        self.link = NO_BLOCK;
    }

    /// The key all matches on this side of which have been read.
    pub fn bound(&self) -> Key<L> {
        self.bound
    }

    /// The log position of the page read last, at the time.
    pub fn lsn(&self) -> u64 {
        self.lsn
    }

    /// Reads on to the next page with matches. They are in `out` then, and the page is returned, pinned; `None` at the
    /// end of the scan. Nothing stays locked. `skip_dead` leaves out entries known to be dead to everyone.
    pub fn read_page<S: PageStore>(
        &mut self,
        tree: Tree<'_, S, L>,
        selection: &Selection<'_>,
        skip_dead: bool,
        out: &mut Matches<L>,
    ) -> Result<Option<S::Pin>> {
        out.clear();
        let reading = Reading { skip_dead, null_rank: selection.shape().null_rank() };
        self.near = self.bound;
        while self.bound != end(self.direction) {
            let Some(range) = self.next_range(selection, self.bound) else {
                break;
            };
            let pin = self.go_to(tree, &range)?;
            tree.store().note_read(pin);
            let page = tree.page(pin)?;
            let sound = match self.direction {
                Direction::Forward => self.collect_forward(&page, selection, range, reading, out),
                Direction::Backward => self.collect_backward(&page, selection, range, reading, out),
            };
            if !sound {
                let block = tree.store().block(pin);
                return Err(Error::Corrupt { block, what: "entries are out of order, or are no entries" });
            }
            self.lsn = tree.store().lsn(pin);
            tree.store().unlock(pin);
            if !out.is_empty() {
                return Ok(Some(pin));
            }
            tree.store().unpin(pin);
            tree.store().check_interrupts();
        }
        self.bound = end(self.direction);
        Ok(None)
    }

    fn next_range(&self, selection: &Selection<'_>, from: Key<L>) -> Option<Range<L>> {
        match self.direction {
            Direction::Forward => selection.at_or_after(from),
            Direction::Backward => selection.before(from),
        }
    }

    /// The leaf where a range begins (backward: ends): the next one along if that is where it must be.
    fn go_to<S: PageStore>(&self, tree: Tree<'_, S, L>, range: &Range<L>) -> Result<S::Pin> {
        match self.direction {
            Direction::Forward if is_link(self.link) && range.first == self.edge => {
                tree.leaf_for_via(self.link, range.first)
            }
            Direction::Forward => tree.leaf_for(range.first),
            Direction::Backward if is_link(self.link) && successor(range.last) == self.edge => {
                tree.leaf_before_via(self.link, self.edge)
            }
            Direction::Backward => tree.leaf_before(successor(range.last)),
        }
    }

    fn collect_forward(
        &mut self,
        page: &Page<'_, L>,
        selection: &Selection<'_>,
        mut range: Range<L>,
        reading: Reading,
        out: &mut Matches<L>,
    ) -> bool {
        let mut sound = true;
        (self.edge, self.link) = (page.high(), page.right());
        loop {
            let from = page.lower_bound(range.first);
            let next = match page.key(from) {
                None => break self.bound = self.edge,
                // Nothing in this range: on to the range that the next key there is may be in.
                Some(key) if key > range.last => selection.at_or_after(key),
                Some(_) => {
                    let after = successor(range.last);
                    if after >= self.edge {
                        sound &= out.append(page, from, page.end(), reading);
                        break self.bound = self.edge;
                    }
                    sound &= out.append(page, from, page.lower_bound(after), reading);
                    selection.at_or_after(after)
                }
            };
            match next {
                None => break self.bound = Key::MAX,
                Some(next) if next.first >= self.edge => break self.bound = next.first,
                Some(next) => range = next,
            }
        }
        if self.bound >= self.edge && !is_link(self.link) {
            self.bound = Key::MAX;
        }
        sound
    }

    fn collect_backward(
        &mut self,
        page: &Page<'_, L>,
        selection: &Selection<'_>,
        mut range: Range<L>,
        reading: Reading,
        out: &mut Matches<L>,
    ) -> bool {
        let mut sound = true;
        (self.edge, self.link) = (page.low(), page.left());
        loop {
            let to = page.lower_bound(successor(range.last));
            let last = page.previous(to).and_then(|last| page.key(last));
            let next = match last {
                None => break self.bound = self.edge,
                Some(key) if key < range.first => selection.before(successor(key)),
                Some(_) => {
                    let first = out.len();
                    sound &= out.append(page, page.lower_bound(range.first.max(self.edge)), to, reading);
                    out.reverse_from(first);
                    if range.first <= self.edge {
                        break self.bound = self.edge;
                    }
                    selection.before(range.first)
                }
            };
            match next {
                None => break self.bound = Key::MIN,
                Some(next) if next.last < self.edge => break self.bound = successor(next.last),
                Some(next) => range = next,
            }
        }
        if self.bound <= self.edge && !is_link(self.link) {
            self.bound = Key::MIN;
        }
        sound
    }
}

/// Marks matches dead in their page, if that is as it was when they were read: a hint for later scans (I6). The page is
/// pinned and not locked, before and after.
pub fn kill<S: PageStore>(store: &S, pin: S::Pin, lsn: u64, places: &[u16]) {
    store.lock(pin, Mode::Share);
    if store.lsn(pin) == lsn {
        store.set_hint(pin, places, Tail::DEAD);
    }
    store.unlock(pin);
}
