//! Scans: ranges read a page at a time into a private copy (I6), forward or backward.

mod leaves;
mod long;
mod selection;

pub use leaves::{Everything, Leaves, RowsOf};
pub use long::{Cut, Interval, LongSelection, compare_cuts};
pub use selection::{Selection, predecessor, successor};

use crate::key::{Lane, Tail};
use crate::page::{Copies, Entry, KeySpace, LineSet, Long, MAX_PAGE_ENTRIES, Node, Page, Position, Side, is_link};
use crate::store::{Block, Error, Mode, NO_BLOCK, PageStore, ROOT, Result};
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
    keys: K::Copied,
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
    fn append(&mut self, page: &Page<'_, K>, from: Position, to: Position, reading: Reading) -> bool {
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
    fn reverse_from(&mut self, first: usize) {
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

/// A range of keys in which every key is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Range<K: KeySpace> {
    /// The place it begins at.
    pub first: K::Kept,
    /// The place it ends before.
    pub after: K::Kept,
}

impl<K: KeySpace> Range<K> {
    /// A range to become another.
    #[inline(always)]
    pub fn fresh() -> Self {
        Range { first: K::fresh(), after: K::fresh() }
    }
}

/// What a scan looks for: ranges of keys, asked for one after the other. `out` is the answer where it is `true`; it may
/// be written to where it is not. Neither keeps what it is given.
pub trait Wanted<K: KeySpace> {
    /// The first range of wanted keys that begins at or after a place, or what is left from the place on of the one it
    /// is in.
    fn at_or_after(&self, place: &K::Kept, out: &mut Range<K>) -> bool;
    /// The last range of wanted keys that ends at or before a place, or what is left before the place of the one it is in.
    fn before(&self, place: &K::Kept, out: &mut Range<K>) -> bool;
    /// Whether all that is wanted is one range: there is no other behind one that was found.
    fn is_one_range(&self) -> bool {
        false
    }
    /// The rank that only NULLs have, in an index of one column on exact lanes; else one that no entry has.
    fn null_rank(&self) -> bool;
    /// Whether the keys of matches are wanted, not only where their rows are.
    fn wants_keys(&self) -> bool;
}

/// How entries are taken from a page.
#[derive(Clone, Copy)]
struct Reading {
    /// Leave out those known to be dead to everyone.
    skip_dead: bool,
    /// The rank that only NULLs have.
    null_rank: bool,
}

/// Where a scan is: it has read the matches between `near` and `bound` last, and goes on from `bound`. Plain memory.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<K: KeySpace> {
    direction: Direction,
    /// Whether the scan has come to its end.
    done: bool,
    /// Where the page of matches read last began.
    near: K::Kept,
    bound: K::Kept,
    /// The fence between the page read last, `from`, and `link`, the page after it.
    edge: K::Kept,
    from: Block,
    link: Block,
    /// Whether a range ended where that page does, as its fence alone says.
    ends_at_edge: bool,
    lsn: u64,
    /// Leaves come to since the scan last began or turned, and the one of them that would show that it goes round.
    reads: u64,
    seen: Sight,
}

/// A leaf as a scan found it: which, and its log position then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Sight {
    block: Block,
    lsn: u64,
}

impl Sight {
    /// Of no leaf.
    const NONE: Sight = Sight { block: NO_BLOCK, lsn: 0 };
}

impl<K: Scannable> Cursor<K> {
    /// At the beginning, or backward at the end.
    pub fn new(direction: Direction) -> Self {
        let (near, bound, edge) = (K::FIRST, K::FIRST, K::FIRST);
        let mut cursor = Cursor {
            direction,
            done: false,
            near,
            bound,
            edge,
            from: NO_BLOCK,
            link: NO_BLOCK,
            ends_at_edge: false,
            lsn: 0,
            reads: 0,
            seen: Sight::NONE,
        };
        cursor.restart(direction);
        cursor
    }

    /// Goes to the beginning, or backward to the end.
    pub fn restart(&mut self, direction: Direction) {
        (self.direction, self.done) = (direction, false);
        (self.link, self.lsn) = (NO_BLOCK, 0);
        (self.reads, self.seen) = (0, Sight::NONE);
        K::assign(&mut self.bound, start::<K>(direction));
        K::assign(&mut self.near, start::<K>(direction));
    }

    /// Becomes the same as another, which takes no more copying than the keys are long.
    pub fn copy_from(&mut self, other: &Self) {
        (self.direction, self.done) = (other.direction, other.done);
        (self.from, self.link, self.lsn) = (other.from, other.link, other.lsn);
        (self.reads, self.seen) = (other.reads, other.seen);
        K::assign(&mut self.near, &other.near);
        K::assign(&mut self.bound, &other.bound);
        K::assign(&mut self.edge, &other.edge);
    }

    /// Which way the cursor goes.
    pub fn direction(&self) -> Direction {
        self.direction
    }

    /// Turns the scan round. The next page of matches is the one on the other side of those read last (none of them
    /// again); after a read that found none, the ones at the end the scan came to. Turning twice changes nothing.
    pub fn turn(&mut self) {
        self.direction = self.direction.opposite();
        core::mem::swap(&mut self.near, &mut self.bound);
        (self.link, self.done) = (NO_BLOCK, false);
        (self.reads, self.seen) = (0, Sight::NONE);
    }

    /// The place all matches on this side of which have been read.
    pub fn bound(&self) -> &K::Kept {
        &self.bound
    }

    /// Whether the scan has come to its end: there is nothing to read on.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// The log position of the page read last, at the time.
    pub fn lsn(&self) -> u64 {
        self.lsn
    }

    /// Reads on to the next page with matches. They are in `out` then, and the page is returned, pinned; `None` at the
    /// end of the scan. Nothing stays locked. `skip_dead` leaves out entries known to be dead to everyone.
    pub fn read_page<S: PageStore>(
        &mut self,
        tree: Tree<'_, S, K>,
        wanted: &impl Wanted<K>,
        skip_dead: bool,
        out: &mut Matches<K>,
    ) -> Result<Option<S::Pin>> {
        out.clear();
        let reading = Reading { skip_dead, null_rank: wanted.null_rank() };
        K::assign(&mut self.near, &self.bound);
        let mut range = Range::fresh();
        while !self.done {
            if !self.next_range(wanted, &mut range) {
                break;
            }
            let pin = self.go_on(tree, &range)?;
            tree.store().note_read(pin);
            if self.goes_round(tree.store(), pin) {
                let block = tree.store().block(pin);
                return Err(Error::Corrupt { block, what: "scan comes to a page again: keys are out of order" });
            }
            let page = tree.page(pin)?;
            out.keys.begin(&page, wanted.wants_keys());
            (self.from, self.ends_at_edge) = (tree.store().block(pin), false);
            let is_placed = page.is_placed() && (self.from != ROOT || page.is_alone());
            let sound = is_placed
                && K::is_bounded(&page)
                && match self.direction {
                    Direction::Forward => self.collect_forward(tree, &page, wanted, &mut range, reading, out),
                    Direction::Backward => self.collect_backward(tree, &page, wanted, &mut range, reading, out),
                };
            if !sound {
                let block = tree.store().block(pin);
                return Err(Error::Corrupt { block, what: "entries are out of order, or are no entries" });
            }
            self.lsn = tree.store().lsn(pin);
            tree.store().unlock(pin);
            if self.ends_at_edge && is_link(self.link) {
                // Nothing on the page is beyond what is wanted: its fence alone says that the next page has none of it.
                self.check_edge(tree)?;
            }
            if !out.is_empty() {
                return Ok(Some(pin));
            }
            tree.store().unpin(pin);
            tree.store().check_interrupts();
        }
        self.end();
        Ok(None)
    }

    /// Counts a leaf that the scan has come to, and says whether it is the one kept in mind, and nobody has changed that
    /// since. It is that only where keys are ordered in another way than when they were inserted, and then again and again:
    /// a scan leaves a page behind its fence, and goes one way. A leaf that was split, deleted or used again has been
    /// changed, so a scan may be as slow as it likes. Brent's way to find a circle: another leaf is kept in mind after
    /// twice as many each time, so that a circle of whatever length is soon gone through with one of its own in mind.
    fn goes_round<S: PageStore>(&mut self, store: &S, pin: S::Pin) -> bool {
        self.reads += 1;
        if self.reads <= FEW_LEAVES {
            return false;
        }
        let here = Sight { block: store.block(pin), lsn: store.lsn(pin) };
        if here == self.seen {
            return true;
        }
        if self.reads.is_power_of_two() {
            self.seen = here;
        }
        false
    }

    /// Whether the scan came to its end on the only leaf that it came to: what it wanted is, and would be, nowhere else.
    #[inline]
    pub fn is_over_on_one_leaf(&self) -> bool {
        self.done && self.reads == 1
    }

    /// Comes to the end of the scan.
    #[inline]
    pub fn end(&mut self) {
        self.done = true;
        K::assign(&mut self.bound, start::<K>(self.direction.opposite()));
    }

    fn next_range(&self, wanted: &impl Wanted<K>, range: &mut Range<K>) -> bool {
        match self.direction {
            Direction::Forward => wanted.at_or_after(&self.bound, range),
            Direction::Backward => wanted.before(&self.bound, range),
        }
    }

    /// Checks that the page after the one read last begins where that one ends.
    fn check_edge<S: PageStore>(&self, tree: Tree<'_, S, K>) -> Result<()> {
        match self.direction {
            Direction::Forward => tree.check_joint(self.from, self.link),
            Direction::Backward => tree.check_joint(self.link, self.from),
        }
    }

    /// The leaf where a range begins (backward: ends): the next one along if that is where it must be.
    fn go_on<S: PageStore>(&self, tree: Tree<'_, S, K>, range: &Range<K>) -> Result<S::Pin> {
        let order = tree.order();
        let edge = K::lend(&self.edge, order);
        let place = if self.direction == Direction::Forward { &range.first } else { &range.after };
        if !is_link(self.link) || !K::same(place, &self.edge) {
            return self.go_to(tree, place);
        }
        let pin = match self.direction {
            Direction::Forward => tree.leaf_for_via(self.link, edge)?,
            Direction::Backward => tree.leaf_before_via(self.link, edge)?,
        };
        if self.is_next(&tree.page(pin)?, tree.store().block(pin)) {
            return Ok(pin);
        }
        // The pages have changed since, or one of them is not the one that was there.
        tree.release(pin);
        self.check_edge(tree)?;
        self.go_to(tree, place)
    }

    /// The leaf where a range begins (backward: ends), by descent.
    fn go_to<S: PageStore>(&self, tree: Tree<'_, S, K>, place: &K::Kept) -> Result<S::Pin> {
        match self.direction {
            Direction::Forward => tree.leaf_for(K::lend(place, tree.order())),
            Direction::Backward => tree.leaf_before(K::lend(place, tree.order())),
        }
    }

    /// Whether a leaf is the one after the one read last, and the two agree about it.
    fn is_next(&self, page: &Page<'_, K>, block: Block) -> bool {
        let (back, fence) = match self.direction {
            Direction::Forward => (page.left(), page.low()),
            Direction::Backward => (page.right(), page.high()),
        };
        block == self.link && back == self.from && K::same_fence(fence, K::fence_of(&self.edge))
    }

    fn collect_forward<S>(
        &mut self,
        tree: Tree<'_, S, K>,
        page: &Page<'_, K>,
        wanted: &impl Wanted<K>,
        range: &mut Range<K>,
        reading: Reading,
        out: &mut Matches<K>,
    ) -> bool
    where
        S: PageStore,
    {
        let order = tree.order();
        let (mut sound, mut is_last, mut turns) = (true, false, 0);
        K::keep(&mut self.edge, page.high());
        self.link = page.right();
        loop {
            turns += 1;
            sound &= turns < MOST_TURNS;
            let first = K::lend(&range.first, order);
            let from = page.lower_bound(first);
            sound &= page.is_between(from, first);
            let Some(entry) = page.entry(from) else {
                K::assign(&mut self.bound, &self.edge);
                self.ends_at_edge |= turns > 1;
                break;
            };
            let after = K::lend(&range.after, order);
            let more = if K::compare_entry(after, &entry).is_le() {
                // Nothing in this range: on to the range that the next key there is may be in.
                sound &= K::keep_key(&mut self.bound, &entry, order).is_some();
                wanted.at_or_after(&self.bound, range)
            } else {
                // Often one entry matches; then the page's end is not looked at.
                let to = match page.next_if_from(from, after) {
                    Some(to) => to,
                    None if page.is_beyond(after) => {
                        sound &= out.append(page, from, page.end(), reading);
                        K::assign(&mut self.bound, &self.edge);
                        self.ends_at_edge = K::same(&range.after, &self.edge);
                        break;
                    }
                    None => {
                        let to = page.lower_bound(after);
                        sound &= page.is_between(to, after);
                        self.ends_at_edge = to == page.end();
                        to
                    }
                };
                sound &= from < to && out.append(page, from, to, reading);
                K::assign(&mut self.bound, &range.after);
                !wanted.is_one_range() && wanted.at_or_after(&self.bound, range)
            };
            if !more || !sound {
                is_last = true;
                break;
            }
            if page.is_beyond(K::lend(&range.first, order)) {
                K::assign(&mut self.bound, &range.first);
                break;
            }
        }
        if is_last || !is_link(self.link) && page.is_beyond(K::lend(&self.bound, order)) {
            self.end();
        }
        sound
    }

    fn collect_backward<S>(
        &mut self,
        tree: Tree<'_, S, K>,
        page: &Page<'_, K>,
        wanted: &impl Wanted<K>,
        range: &mut Range<K>,
        reading: Reading,
        out: &mut Matches<K>,
    ) -> bool
    where
        S: PageStore,
    {
        let order = tree.order();
        let (mut sound, mut is_last, mut turns) = (true, false, 0);
        K::keep(&mut self.edge, page.low());
        self.link = page.left();
        let starts_below = |place: &K::Kept| K::compare_fence(K::lend(place, order), page, Side::Low).is_le();
        loop {
            turns += 1;
            sound &= turns < MOST_TURNS;
            let after = K::lend(&range.after, order);
            let to = page.lower_bound(after);
            sound &= page.is_between(to, after);
            let Some(entry) = page.previous(to).and_then(|last| page.entry(last)) else {
                K::assign(&mut self.bound, &self.edge);
                self.ends_at_edge |= turns > 1;
                break;
            };
            let first = K::lend(&range.first, order);
            let more = if K::compare_entry(first, &entry).is_gt() {
                sound &= K::keep_key(&mut self.bound, &entry, order).is_some();
                K::step(&mut self.bound);
                wanted.before(&self.bound, range)
            } else {
                let begin = out.len();
                let from = if page.is_below(first) {
                    FIRST
                } else {
                    let from = page.lower_bound(first);
                    sound &= page.is_between(from, first);
                    from
                };
                self.ends_at_edge = from == FIRST && !starts_below(&range.first);
                sound &= from < to && out.append(page, from, to, reading);
                out.reverse_from(begin);
                if starts_below(&range.first) {
                    K::assign(&mut self.bound, &self.edge);
                    self.ends_at_edge |= K::same(&range.first, &self.edge);
                    break;
                }
                K::assign(&mut self.bound, &range.first);
                wanted.before(&self.bound, range)
            };
            if !more || !sound {
                is_last = true;
                break;
            }
            if starts_below(&range.after) {
                K::assign(&mut self.bound, &range.after);
                break;
            }
        }
        if is_last || !is_link(self.link) && starts_below(&self.bound) {
            self.end();
        }
        sound
    }
}

/// The place of a match that has none: beyond every page.
const NOWHERE: u16 = u16::MAX;

/// Leaves that a scan comes to before it is asked whether it goes round: most come to fewer.
const FEW_LEAVES: u64 = 32;

/// Steps from range to range within a page, at most: each gets past an entry, or to one.
const MOST_TURNS: usize = 2 * MAX_PAGE_ENTRIES + 2;

/// The place before the first entry of a page.
const FIRST: Position = Position { node: 0, slot: 0 };

/// Where a scan that goes this way begins.
fn start<K: KeySpace>(direction: Direction) -> &'static K::Kept {
    match direction {
        Direction::Forward => K::first(),
        Direction::Backward => K::last(),
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
