//! The cursor of a scan: pages read one after the other, forward or backward.

use super::batch::{KeyBatch, Matches, Reading, Scannable};
use super::ranges::{Direction, Range, Wanted, start};
use super::rounds::Rounds;
use crate::format::{Block, Error, MAX_PAGE_ENTRIES, NO_BLOCK, Position, ROOT, Result, Tid, is_link};
use crate::page::{KeySpace, Page, Side};
use crate::store::{Frames, Locked, Pinned, Shared, Store};
use crate::tree::{Seek, Tree};

/// Where a scan is: it has read the matches between `near` and `bound` last, and goes on from `bound`. Plain memory.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<K: KeySpace> {
    direction: Direction,
    /// Whether the scan has come to its end.
    done: bool,
    /// Where the page of matches read last began.
    near: K::OwnedKey,
    bound: K::OwnedKey,
    /// The fence between the page read last, `from`, and `link`, the page after it.
    edge: K::OwnedKey,
    from: Block,
    link: Block,
    /// Whether a range ended where that page does, as its fence alone says.
    ends_at_edge: bool,
    lsn: u64,
    /// The leaves come to since the scan last began or turned.
    leaves: Rounds<Sight>,
}

/// A leaf as a scan found it: which, and its log position then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Sight {
    block: Block,
    lsn: u64,
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
            leaves: Rounds::BEGIN,
        };
        cursor.restart(direction);
        cursor
    }

    /// Makes one at the beginning, in memory that holds anything: so much is not worth being zeroed for a few places.
    ///
    /// # Safety
    /// The memory may be written.
    pub unsafe fn init(memory: *mut Self) {
        // SAFETY: every field is written.
        unsafe {
            K::init(&raw mut (*memory).near);
            K::init(&raw mut (*memory).bound);
            K::init(&raw mut (*memory).edge);
            (&raw mut (*memory).direction).write(Direction::Forward);
            (&raw mut (*memory).done).write(false);
            (&raw mut (*memory).from).write(NO_BLOCK);
            (&raw mut (*memory).link).write(NO_BLOCK);
            (&raw mut (*memory).ends_at_edge).write(false);
            (&raw mut (*memory).lsn).write(0);
            (&raw mut (*memory).leaves).write(Rounds::BEGIN);
            (*memory).restart(Direction::Forward);
        }
    }

    /// Goes to the beginning, or backward to the end.
    pub fn restart(&mut self, direction: Direction) {
        (self.direction, self.done) = (direction, false);
        (self.link, self.lsn) = (NO_BLOCK, 0);
        self.leaves = Rounds::BEGIN;
        K::copy(&mut self.bound, start::<K>(direction));
        K::copy(&mut self.near, start::<K>(direction));
    }

    /// Becomes the same as another, which takes no more copying than the keys are long.
    pub fn copy_from(&mut self, other: &Self) {
        (self.direction, self.done) = (other.direction, other.done);
        (self.from, self.link, self.lsn) = (other.from, other.link, other.lsn);
        self.leaves = other.leaves;
        K::copy(&mut self.near, &other.near);
        K::copy(&mut self.bound, &other.bound);
        K::copy(&mut self.edge, &other.edge);
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
        self.leaves = Rounds::BEGIN;
    }

    /// The place all matches on this side of which have been read.
    pub fn bound(&self) -> &K::OwnedKey {
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
    /// end of the scan. Nothing is locked on entry or exit. `skip_dead` leaves out entries known to be dead to
    /// everyone.
    pub fn read_page<S: Store>(
        &mut self,
        tree: Tree<'_, S, K>,
        wanted: &impl Wanted<K>,
        skip_dead: bool,
        out: &mut Matches<K>,
    ) -> Result<Option<Pinned<S>>> {
        out.clear();
        let reading = Reading { skip_dead, null_rank: wanted.null_rank() };
        K::copy(&mut self.near, &self.bound);
        let mut range = Range::fresh();
        while !self.done {
            if !wanted.next(self.direction, &self.bound, &mut range) {
                break;
            }
            let (leaf, begins_at_edge) = self.go_on(tree, &range)?;
            tree.store().note_read(&leaf);
            if self.goes_round(&leaf) {
                let what = "scan comes to a page again: keys are out of order";
                return Err(Error::Corrupt { block: leaf.block(), what });
            }
            let page = tree.page(&leaf)?;
            out.keys.begin(&page, wanted.wants_keys());
            (self.from, self.ends_at_edge) = (leaf.block(), false);
            let is_placed = page.is_placed() && (self.from != ROOT || page.is_alone());
            let sound = is_placed
                && K::is_bounded(&page)
                // Compiled for each direction.
                && match self.direction {
                    forward @ Direction::Forward => {
                        self.collect(forward, tree, &page, begins_at_edge, wanted, &mut range, reading, out)
                    }
                    backward => self.collect(backward, tree, &page, begins_at_edge, wanted, &mut range, reading, out),
                };
            if !sound {
                let what = "entries are out of order, or are no entries";
                return Err(Error::Corrupt { block: leaf.block(), what });
            }
            self.lsn = leaf.lsn();
            let pinned = leaf.unlock();
            if self.ends_at_edge && is_link(self.link) {
                // Nothing on the page is beyond what is wanted: its fence alone says that the next page has none of it.
                self.check_edge(tree)?;
            }
            if !out.is_empty() {
                return Ok(Some(pinned));
            }
            pinned.unpin(tree.store());
            tree.store().check_interrupts();
        }
        self.end();
        Ok(None)
    }

    /// Counts a leaf that the scan has come to, and says whether the scan goes round: it is a leaf that it came to before,
    /// and nobody has changed that since. It is that only where keys are ordered in another way than when they were
    /// inserted, and then again and again: a scan leaves a page behind its fence, and goes one way. A leaf that was split,
    /// deleted or used again has been changed, so a scan may be as slow as it likes.
    fn goes_round<S: Frames>(&mut self, leaf: &Locked<'_, S, Shared>) -> bool {
        self.leaves.comes_again(|| Sight { block: leaf.block(), lsn: leaf.lsn() })
    }

    /// Whether the scan came to its end on the only leaf that it came to: what it wanted is, and would be, nowhere
    /// else.
    #[inline]
    pub fn is_over_on_one_leaf(&self) -> bool {
        self.done && self.leaves.steps() == 1
    }

    /// Leaves out all matches on this side of a place, which is ahead of those that are of use. It may be in the leaf that
    /// was read last: then that is no sign of going round, and what is there behind the place comes again, unless the scan
    /// is over.
    pub fn skip_to(&mut self, place: &K::OwnedKey) {
        K::copy(&mut self.bound, place);
        self.link = NO_BLOCK;
        self.leaves.forget();
    }

    /// Comes to the end of the scan.
    #[inline]
    pub fn end(&mut self) {
        self.done = true;
        K::copy(&mut self.bound, start::<K>(self.direction.opposite()));
    }

    /// Checks that the page after the one read last begins where that one ends.
    fn check_edge<S: Store>(&self, tree: Tree<'_, S, K>) -> Result<()> {
        match self.direction {
            Direction::Forward => tree.check_siblings(self.from, self.link),
            Direction::Backward => tree.check_siblings(self.link, self.from),
        }
    }

    /// The leaf where a range begins (backward: ends), share-locked: the next one along if that is where it must be. Then
    /// the range begins at its edge.
    fn go_on<'t, S: Store>(&self, tree: Tree<'t, S, K>, range: &Range<K>) -> Result<(Locked<'t, S, Shared>, bool)> {
        let place = range.near_end(self.direction);
        let descend = || Ok((tree.leaf(self.seek(tree, place))?, false));
        if !is_link(self.link) || !K::same(place, &self.edge) {
            return descend();
        }
        if let Some(leaf) = tree.leaf_at(self.link)? {
            // One that begins where the last one ends has the place, which takes no comparison of keys.
            if self.is_next(&tree.page(&leaf)?) {
                return Ok((leaf, true));
            }
            leaf.release();
        }
        // The pages have changed since, or one of them is not the one that was there.
        self.check_edge(tree)?;
        descend()
    }

    /// The leaf that the scan comes to at a place.
    fn seek<'k, 't: 'k, S>(&self, tree: Tree<'t, S, K>, place: &'k K::OwnedKey) -> Seek<'k, K>
    where
        S: Store,
    {
        self.direction.seek(K::borrow(place, tree.order()))
    }

    /// Whether the leaf that the last one's link leads to is the one after it, and the two agree about it.
    fn is_next(&self, page: &Page<'_, K>) -> bool {
        let (back, fence) = match self.direction {
            Direction::Forward => (page.left(), page.low()),
            Direction::Backward => (page.right(), page.high()),
        };
        back == self.from && K::same_fence(fence, K::fence_of(&self.edge))
    }

    /// Adds what is wanted of a page to the matches, from `range` on, and goes on to the place where no more of it is
    /// on this page. Where the range begins at the page's edge, nothing is searched for. `false` if the page is damaged.
    #[expect(clippy::too_many_arguments)]
    #[inline(always)]
    fn collect<S: Store>(
        &mut self,
        direction: Direction,
        tree: Tree<'_, S, K>,
        page: &Page<'_, K>,
        begins_at_edge: bool,
        wanted: &impl Wanted<K>,
        range: &mut Range<K>,
        reading: Reading,
        out: &mut Matches<K>,
    ) -> bool {
        let order = tree.order();
        let (mut sound, mut is_last, mut turns) = (true, false, 0);
        let (fence, link, first, edge) = match direction {
            Direction::Forward => (page.high(), page.right(), Position::FIRST, page.end()),
            Direction::Backward => (page.low(), page.left(), page.end(), Position::FIRST),
        };
        K::set_to_fence(&mut self.edge, fence);
        self.link = link;
        let leaves = |place: &K::OwnedKey| match direction {
            Direction::Forward => page.is_beyond(K::borrow(place, order)),
            Direction::Backward => K::compare_fence(K::borrow(place, order), page, Side::Low).is_le(),
        };
        loop {
            turns += 1;
            sound &= turns < MOST_TURNS;
            let near = K::borrow(range.near_end(direction), order);
            let is_at_edge = begins_at_edge && turns == 1;
            let from = if is_at_edge { first } else { page.lower_bound(near) };
            sound &= page.is_between(from, near);
            let entry = match direction {
                Direction::Forward => page.entry(from),
                Direction::Backward => page.previous(from).and_then(|last| page.entry(last)),
            };
            let Some(entry) = entry else {
                K::copy(&mut self.bound, &self.edge);
                self.ends_at_edge |= turns > 1;
                break;
            };
            let far_end = range.far_end(direction);
            let far = K::borrow(far_end, order);
            let is_behind = match direction {
                Direction::Forward => K::compare_entry(far, &entry).is_le(),
                Direction::Backward => K::compare_entry(far, &entry).is_gt(),
            };
            let more = if is_behind {
                // Nothing in this range: on to the range that the next key there is may be in.
                sound &= K::set_to_key(&mut self.bound, &entry, order).is_some();
                if direction == Direction::Backward {
                    K::step(&mut self.bound);
                }
                wanted.next(direction, &self.bound, range)
            } else {
                // Often one entry matches, or a few; then the page's end is not looked at.
                let next = if direction == Direction::Forward { page.soon_after(from, far) } else { None };
                let goes_on = next.is_none() && leaves(far_end);
                // Whoever came here by the entries alone has not asked the fences yet.
                sound &= is_at_edge || !(goes_on && K::is_guessed(near) && leaves(range.near_end(direction)));
                let to = match next {
                    Some(to) => to,
                    None if goes_on => {
                        // A fence that is damaged is not to make entries matches that are beyond the range.
                        sound &= page.is_between(edge, far);
                        edge
                    }
                    None => {
                        let to = page.lower_bound(far);
                        sound &= page.is_between(to, far);
                        to
                    }
                };
                sound &= from != to && out.append_between(page, (from, to), direction, reading);
                if goes_on {
                    self.ends_at_edge = K::same(far_end, &self.edge);
                    K::copy(&mut self.bound, &self.edge);
                    break;
                }
                self.ends_at_edge = to == edge;
                K::copy(&mut self.bound, far_end);
                !wanted.is_one_range() && wanted.next(direction, &self.bound, range)
            };
            if !more || !sound {
                is_last = true;
                break;
            }
            if leaves(range.near_end(direction)) {
                K::copy(&mut self.bound, range.near_end(direction));
                break;
            }
        }
        if is_last || !is_link(self.link) && leaves(&self.bound) {
            self.end();
        }
        sound
    }
}

/// Steps from range to range within a page, at most: each gets past an entry, or to one.
const MOST_TURNS: usize = 2 * MAX_PAGE_ENTRIES + 2;

/// Marks matches dead in their page, if that is as it was when they were read: a hint for later scans (I6). The page is
/// pinned and not locked, before and after.
pub fn kill<S: Store>(store: &S, pinned: Pinned<S>, lsn: u64, places: &[u16]) -> Pinned<S> {
    let leaf = pinned.lock::<Shared>(store);
    if leaf.lsn() == lsn {
        leaf.set_hint(places, Tid::DEAD);
    }
    leaf.unlock()
}
