//! The jump-pointer array of a scan (Chen et al. 2002, §2.2): the parents of the leaves say which leaves it will come
//! to, so that their pages can be asked for before they are needed.

use super::ranges::{Direction, Range, Wanted};
use crate::format::{Block, NO_BLOCK, Result, is_link};
use crate::page::{KeySpace, Page, Side};
use crate::store::Store;
use crate::tree::Tree;

/// Leaves known at a time.
const KNOWN: usize = 1024;

/// The leaves a scan will come to, in its order, and none that holds nothing it wants. The tree changes meanwhile, so
/// they are hints. Plain memory.
#[derive(Clone, Copy)]
pub struct JumpPointers<K: KeySpace> {
    direction: Option<Direction>,
    /// Those handed out, then those that are not yet.
    blocks: [Block; KNOWN],
    count: usize,
    given: usize,
    /// How many of those handed out the scan has come to, or gone past.
    passed: usize,
    /// Where those begin that are not known yet.
    place: K::OwnedKey,
    is_last: bool,
}

impl<K: KeySpace> Default for JumpPointers<K> {
    fn default() -> Self {
        JumpPointers::new()
    }
}

impl<K: KeySpace> JumpPointers<K> {
    /// None, and not begun.
    pub fn new() -> Self {
        let blocks = [NO_BLOCK; KNOWN];
        JumpPointers { direction: None, blocks, count: 0, given: 0, passed: 0, place: K::FIRST, is_last: false }
    }

    /// Forgets all and begins at a place.
    pub fn begin(&mut self, direction: Direction, place: &K::OwnedKey) {
        (self.count, self.given, self.passed) = (0, 0, 0);
        (self.direction, self.is_last) = (Some(direction), false);
        K::copy(&mut self.place, place);
    }

    /// Forgets all.
    pub fn end(&mut self) {
        (self.count, self.given, self.passed) = (0, 0, 0);
        self.direction = None;
    }

    /// Whether it has begun.
    pub fn has_begun(&self) -> bool {
        self.direction.is_some()
    }

    /// How many were handed out that the scan has not come to.
    pub fn ahead(&self) -> usize {
        self.given - self.passed
    }

    /// Notes that the scan has come to this leaf. How many were handed out that it went past on the way; `None` if the
    /// leaf was not foreseen.
    pub fn pass(&mut self, block: Block) -> Option<usize> {
        let skipped = self.blocks[self.passed..self.given].iter().position(|&known| known == block)?;
        self.passed += skipped + 1;
        Some(skipped)
    }

    /// The next leaf that was not handed out yet. Nothing is locked or pinned before or after.
    pub fn next<S: Store>(&mut self, tree: Tree<'_, S, K>, wanted: &impl Wanted<K>) -> Result<Option<Block>> {
        if self.given == self.count {
            self.learn(tree, wanted)?;
        }
        let next = self.blocks[self.given..self.count].first().copied();
        self.given += usize::from(next.is_some());
        Ok(next)
    }

    /// Learns of more leaves: of one parent, as many as there is room for.
    fn learn<S: Store>(&mut self, tree: Tree<'_, S, K>, wanted: &impl Wanted<K>) -> Result<()> {
        self.blocks.copy_within(self.passed..self.count, 0);
        (self.count, self.given) = (self.count - self.passed, self.given - self.passed);
        self.passed = 0;
        let mut range = Range::fresh();
        let Some(direction) = self.direction.filter(|_| self.count < KNOWN) else { return Ok(()) };
        if self.is_last || !wanted.next(direction, &self.place, &mut range) {
            self.is_last = true;
            return Ok(());
        }
        let order = tree.order();
        let seek = direction.seek(K::borrow(range.near_end(direction), order));
        let Some(parent) = tree.leaf_parent(seek)? else {
            self.is_last = true;
            return Ok(());
        };
        let page = tree.page(&parent)?;
        while self.add(direction, &page, &range, order).is_some() && self.count < KNOWN {
            self.is_last = self.is_last || !wanted.next(direction, &self.place, &mut range);
            if self.is_last {
                break;
            }
            let is_elsewhere = match direction {
                Direction::Forward => page.is_beyond(K::borrow(&range.first, order)),
                Direction::Backward => K::compare_fence(K::borrow(&range.after, order), &page, Side::Low).is_le(),
            };
            if is_elsewhere {
                break;
            }
        }
        parent.release();
        Ok(())
    }

    /// Adds the child where a range begins, backward: ends, and goes on behind it. `None` if there is none.
    fn add(&mut self, direction: Direction, page: &Page<'_, K>, range: &Range<K>, order: K::Order<'_>) -> Option<()> {
        let at = direction.seek(K::borrow(range.near_end(direction), order)).child_place(page)?;
        self.blocks[self.count] = page.entry(at)?.child;
        self.count += 1;
        let (edge, fence, sibling) = match direction {
            Direction::Forward => (page.entry(page.next(at)), page.high(), page.right()),
            Direction::Backward => (page.previous(at).and(page.entry(at)), page.low(), page.left()),
        };
        let Some(edge) = edge else {
            self.is_last = !is_link(sibling);
            K::set_to_fence(&mut self.place, fence);
            return Some(());
        };
        K::set_to_key(&mut self.place, &edge, order)
    }
}
