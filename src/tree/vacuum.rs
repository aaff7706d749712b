//! VACUUM: removal of dead entries in key order, deletion of pages they leave empty, and what is left of the file.

use super::{Grip, Seek, Tree};
use crate::change::{Change, Edit};
use crate::key::Tail;
use crate::page::{self, KeySpace, Page, Position, is_link};
use crate::store::{Block, Error, META, Mode, NO_BLOCK, PAGE_SIZE, PageStore, ROOT, Result};

/// What a pass over the index found and did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VacuumStats {
    /// Entries that stay.
    pub entries: u64,
    /// Entries removed.
    pub removed: u64,
    /// Leaf pages passed that are live now.
    pub leaf_pages: u64,
    /// Leaf pages deleted by this pass.
    pub deleted_pages: u64,
}

/// An in-page set of entries to remove: nodes in descending order, a bit per slot.
struct Purge {
    nodes: [(u8, u64); 128],
    count: usize,
    removed: usize,
}

impl<S: PageStore, K: KeySpace> Tree<'_, S, K> {
    /// Removes every entry that `is_dead` names from the leaves, left to right, with a cleanup lock on every leaf it
    /// passes, and deletes leaves that are empty then. `visit` is told each live leaf, the one after it, and where that
    /// begins. One such pass runs at a time (the server's table lock sees to it). Nothing is locked or pinned before or after.
    pub fn vacuum(
        &self,
        is_dead: &mut dyn FnMut(Tail) -> bool,
        visit: &mut dyn FnMut(Block, Block, &K::Kept),
    ) -> Result<VacuumStats> {
        let mut stats = VacuumStats::default();
        // A scan that read the root while it was the only leaf holds its pin there, wherever the entries are now.
        let root = self.store.pin(ROOT)?;
        self.store.lock_cleanup(root);
        if self.page(root)?.level() == 0 {
            self.purge(root, is_dead, &mut stats)?;
            visit(ROOT, NO_BLOCK, K::last());
            self.release(root);
            return Ok(stats);
        }
        self.release(root);
        let mut bound = K::FIRST;
        let mut low = K::FIRST;
        let mut pin = self.descend(Seek::At(K::lend(&bound, self.order)), 0, Grip::Cleanup)?;
        loop {
            self.purge(pin, is_dead, &mut stats)?;
            let page = self.page(pin)?;
            let (block, right) = (self.store.block(pin), page.right());
            let empty = page.is_empty();
            K::keep(&mut low, page.low());
            // Fences rise from page to page, except where a page takes over the space of one that was deleted.
            if !page.is_beyond(K::lend(&bound, self.order)) {
                K::keep(&mut bound, page.high());
            }
            self.store.unlock(pin);
            let deleted = empty && self.delete_leaf(pin, &low)?;
            self.store.unpin(pin);
            if deleted {
                stats.deleted_pages += 1;
                stats.leaf_pages -= 1;
                self.store.free(block);
                K::assign(&mut bound, &low);
            } else {
                visit(block, right, &bound);
            }
            if !is_link(right) {
                return Ok(stats);
            }
            self.store.check_interrupts();
            let seek = Seek::At(K::lend(&bound, self.order));
            pin = match self.arrive(right, seek, 0, Grip::Cleanup)? {
                Ok(pin) => pin,
                Err(_) => self.descend(seek, 0, Grip::Cleanup)?,
            };
        }
    }

    /// Removes dead entries from a leaf that is locked for cleanup. Lock and pin stay.
    fn purge(&self, pin: S::Pin, is_dead: &mut dyn FnMut(Tail) -> bool, stats: &mut VacuumStats) -> Result<()> {
        let page = self.page(pin)?;
        stats.leaf_pages += 1;
        let purge = Purge::of(&page, is_dead);
        if purge.count > 0 {
            self.store.commit(&Change::new(pin).edit(Edit::Purge(&purge.nodes[..purge.count])));
        }
        stats.removed += purge.removed as u64;
        stats.entries += self.page(pin)?.entries() as u64;
        Ok(())
    }

    /// Deletes an empty leaf: one atomic change over it, its neighbours and their parent, by which the right neighbour
    /// takes over its key space. `false` where that is not possible now (docs/design.md, 5); the leaf stays then, and is used
    /// again when keys come. The leaf is pinned, nothing is locked, before and after.
    fn delete_leaf(&self, pin: S::Pin, low: &K::Kept) -> Result<bool> {
        let block = self.store.block(pin);
        self.store.lock(pin, Mode::Share);
        let page = self.page(pin)?;
        let (left_block, right_block) = (page.left(), page.right());
        self.store.unlock(pin);
        if block == ROOT || !is_link(right_block) {
            return Ok(false);
        }
        if left_block == block {
            return Err(Error::Corrupt { block, what: "page is its own left sibling" });
        }
        let left = self.lock_sibling(left_block)?;
        self.store.lock(pin, Mode::Exclusive);
        let right = self.lock_sibling(right_block)?.expect("a right sibling was seen");
        let mut done = false;
        if self.may_delete(block, left, pin, right)? {
            let parent = self.writable_page(K::lend(low, self.order), 1)?;
            done = self.unlink(low, left, pin, right, parent)?;
            self.release(parent);
        }
        self.release(right);
        self.store.unlock(pin);
        if let Some(left) = left {
            self.release(left);
        }
        Ok(done)
    }

    fn lock_sibling(&self, block: Block) -> Result<Option<S::Pin>> {
        if !is_link(block) {
            return Ok(None);
        }
        let pin = self.store.pin(block)?;
        self.store.lock(pin, Mode::Exclusive);
        Ok(Some(pin))
    }

    /// Whether the three pages, all exclusively locked, are still neighbours, the middle one is empty, and no split
    /// beside it is incomplete.
    fn may_delete(&self, block: Block, left: Option<S::Pin>, pin: S::Pin, right: S::Pin) -> Result<bool> {
        let (page, next) = (self.page(pin)?, self.page(right)?);
        let left_block = left.map_or(NO_BLOCK, |left| self.store.block(left));
        let leads_here = match left {
            None => true,
            Some(left) => {
                let left = self.page(left)?;
                is_live_leaf(&left) && left.right() == block && !left.is_incomplete()
            }
        };
        Ok(leads_here
            && is_live_leaf(&page)
            && page.is_empty()
            && !page.is_incomplete()
            && page.left() == left_block
            && page.right() == self.store.block(right)
            && is_live_leaf(&next)
            && next.left() == block
            && K::same_fence(next.low(), page.high()))
    }

    /// Takes the middle page out, if the parent has it and the right one side by side. All four are exclusively locked
    /// and stay so.
    fn unlink(&self, low: &K::Kept, left: Option<S::Pin>, pin: S::Pin, right: S::Pin, parent: S::Pin) -> Result<bool> {
        let (block, right_block) = (self.store.block(pin), self.store.block(right));
        let (above, beside) = (self.page(parent)?, self.page(right)?);
        let here = above.lower_bound(K::lend(low, self.order));
        let next = above.next(here);
        let leads = |at, fence, to| {
            let entry = above.entry(at);
            entry.is_some_and(|entry| K::is_fence(&entry, fence) && entry.child == to)
        };
        if !leads(here, K::fence_of(low), block) {
            return Err(Error::Corrupt {
                block: self.store.block(parent),
                what: "inner page does not lead to its child",
            });
        }
        if !leads(next, beside.low(), right_block) {
            return Ok(false);
        }
        let change = match left {
            Some(left) => Change::new(left).edit(Edit::SetRight(right_block)).page(pin),
            None => Change::new(pin),
        };
        let left_block = left.map_or(NO_BLOCK, |left| self.store.block(left));
        let mut image = [0; PAGE_SIZE];
        let low = K::fence_of(low);
        let Some(lower) = K::lower(&beside, self.geometry, low, left_block, &mut image) else {
            return Ok(false);
        };
        self.store.note_merge(block, right_block);
        self.store.commit(
            &change
                .edit(Edit::Delete)
                .page(right)
                .edit(lower)
                .edit(Edit::SetLeft(left_block))
                .page(parent)
                .edit(Edit::SetChild { place: here, child: right_block })
                .edit(Edit::Remove { node: next.node, mask: 1 << next.slot }),
        );
        Ok(true)
    }

    /// Tells `visit` every live page above the leaves. Nothing is locked or pinned before or after.
    pub fn visit_inner_pages(&self, visit: &mut dyn FnMut(Block)) -> Result<()> {
        for level in 1..=self.root_level()? {
            self.walk(level, &mut |block, _| visit(block))?;
        }
        Ok(())
    }

    /// Shows `visit` each page of a level, left to right, share-locked. Nothing is locked or pinned before or after.
    pub(super) fn walk(&self, level: u8, visit: &mut dyn FnMut(Block, &Page<'_, K>)) -> Result<()> {
        let mut bound = K::FIRST;
        let mut pin = self.descend(Seek::At(K::lend(&bound, self.order)), level, Grip::Share)?;
        loop {
            let page = self.page(pin)?;
            visit(self.store.block(pin), &page);
            let right = page.right();
            K::keep(&mut bound, page.high());
            self.release(pin);
            if !is_link(right) {
                return Ok(());
            }
            self.store.check_interrupts();
            let seek = Seek::At(K::lend(&bound, self.order));
            pin = match self.arrive(right, seek, level, Grip::Share)? {
                Ok(pin) => pin,
                Err(_) => self.descend(seek, level, Grip::Share)?,
            };
        }
    }

    /// Whether a page that no link leads to can be handed out again. Nothing is locked or pinned before or after.
    pub fn is_reusable(&self, block: Block) -> Result<bool> {
        if block == META || block == ROOT {
            return Ok(false);
        }
        let pin = self.store.pin(block)?;
        self.store.lock(pin, Mode::Share);
        let reusable = page::reusable(self.store.bytes(pin));
        self.release(pin);
        Ok(reusable)
    }
}

fn is_live_leaf<K: KeySpace>(page: &Page<'_, K>) -> bool {
    page.level() == 0 && !page.is_deleted()
}

impl Purge {
    fn of<K: KeySpace>(page: &Page<'_, K>, is_dead: &mut dyn FnMut(Tail) -> bool) -> Purge {
        let mut purge = Purge { nodes: [(0, 0); 128], count: 0, removed: 0 };
        for number in (0..page.nodes()).rev() {
            let node = page.node(number);
            let mask = (0..node.len()).fold(0, |mask, slot| mask | u64::from(is_dead(node.tail(slot))) << slot);
            if mask != 0 {
                purge.nodes[purge.count] = (number as u8, mask);
                purge.count += 1;
                purge.removed += mask.count_ones() as usize;
            }
        }
        purge
    }
}

/// The place before the first entry of a page.
pub(super) const FIRST: Position = Position { node: 0, slot: 0 };
