//! VACUUM: removal of dead entries in key order, deletion of pages they leave empty, and what is left of the file.

use super::dead_tids::DeadTids;
use super::{Seek, Tree};
use crate::format::{Block, Error, META, NO_BLOCK, PAGE_SIZE, PageBytes, Position, ROOT, Result, Tid, is_link};
use crate::log::{Change, Edit};
use crate::page::{self, Arrangement, Entry, KeySpace, Page, Plan, Thrift};
use crate::store::{Cleanup, Exclusive, LockMode, Locked, PageEvent, Shared, Store, Writing};
use arrayvec::ArrayVec;

/// What a pass over the index found and did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VacuumStats {
    /// Entries that stay.
    pub entries: u64,
    /// Entries removed.
    pub removed: u64,
    /// Leaf pages passed that are live now.
    pub leaf_pages: u64,
    /// Leaf pages deleted by this pass: empty ones, and thin ones that gave their entries to their neighbours.
    pub deleted_pages: u64,
    /// The latter alone.
    pub merged_pages: u64,
    /// Inner pages deleted by this pass, for want of more than one child.
    pub folded_pages: u64,
}

/// What came of an attempt to delete a page.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Deletion {
    /// It is gone.
    Done,
    /// It is its parent's last child: its right neighbour has another.
    LastChild,
    /// Something else is in the way.
    NotNow,
}

/// A page to be deleted between its neighbours, all exclusively locked.
struct Trio<'s, S: Store, M> {
    left: Option<Locked<'s, S, Exclusive>>,
    page: Locked<'s, S, M>,
    right: Locked<'s, S, Exclusive>,
}

/// A leaf that VACUUM has left behind, and how full it is.
#[derive(Clone, Copy)]
struct Passed {
    block: Block,
    fill: f64,
}

/// How full a leaf may be, from 0 to 1, that has taken over its neighbour's entries. What is split leaves two pages that
/// are fuller together, so pages do not come and go.
pub(super) const MOST_MERGED: f64 = 0.7;

impl<S: Store, M: LockMode> Trio<'_, S, M> {
    fn release(self) {
        self.right.release();
        self.page.release();
        if let Some(left) = self.left {
            left.release();
        }
    }
}

impl<'t, S: Store, K: KeySpace> Tree<'t, S, K> {
    /// Removes every entry that `is_dead` names from the leaves, left to right, with a cleanup lock on every leaf it
    /// passes, and deletes leaves that are empty then, or thin enough for their neighbours to take their entries. What is dead stays dead while this goes on. `dead_tids` is
    /// memory to ask about the rows of many leaves at a time; `ahead` is told each leaf of those, the one after it, and
    /// where that begins, and `visit` each live leaf once it is done with. One such pass runs at a time (the server's
    /// table lock sees to it). Nothing is locked or pinned before or after.
    pub fn vacuum(
        &self,
        dead_tids: &mut DeadTids<'_>,
        is_dead: &mut dyn FnMut(Tid) -> bool,
        ahead: &mut dyn FnMut(Block, Block, &K::OwnedKey),
        visit: &mut dyn FnMut(Block),
    ) -> Result<VacuumStats> {
        let mut stats = VacuumStats::default();
        // A scan that read the root while it was the only leaf holds its pin there, wherever the entries are now.
        let mut root = self.lock::<Cleanup>(ROOT)?;
        let page = self.page(&root)?;
        if page.level() == 0 {
            if !page.is_alone() {
                return Err(Error::Corrupt { block: ROOT, what: "root is a leaf among others" });
            }
            self.remove_dead_rows(&mut root, dead_tids, is_dead, &mut stats)?;
            visit(ROOT);
            root.release();
            return Ok(stats);
        }
        root.release();
        let mut bound = K::FIRST;
        let mut low = K::FIRST;
        let mut passed: Option<Passed> = None;
        let mut leaf = self.descend::<Cleanup>(Seek::At(K::borrow(&bound, self.order)), 0)?;
        loop {
            self.remove_dead_rows(&mut leaf, dead_tids, is_dead, &mut stats)?;
            let page = self.page(&leaf)?;
            let (block, right) = (leaf.block(), page.right());
            let (empty, fill) = (page.is_empty(), page.fill());
            K::set_to_fence(&mut low, page.low());
            // Fences rise from page to page, except where a page takes over the space of one that was deleted.
            if !page.is_beyond(K::borrow(&bound, self.order)) {
                K::set_to_fence(&mut bound, page.high());
            }
            leaf.release();
            let deleted = empty && self.delete_leaf(block, &low, &mut stats)?;
            if deleted {
                stats.deleted_pages += 1;
                stats.leaf_pages -= 1;
                self.store.free(block);
                self.store.note_event(PageEvent::LeafDeleted);
                K::copy(&mut bound, &low);
            } else {
                let before = passed.replace(Passed { block, fill });
                if let Some(before) = before
                    && !self.merge_passed(before, &mut passed, &mut stats)?
                {
                    visit(before.block);
                }
            }
            if !is_link(right) {
                if let Some(last) = passed {
                    visit(last.block);
                }
                return Ok(stats);
            }
            self.store.check_interrupts();
            if dead_tids.is_exhausted() {
                self.inquire(right, dead_tids, is_dead, ahead)?;
            }
            let seek = Seek::At(K::borrow(&bound, self.order));
            leaf = match self.arrive(right, seek, 0)? {
                Ok(leaf) => leaf,
                Err(_) => self.descend(seek, 0)?,
            };
            let next = self.page(&leaf)?;
            let is_next = next.left() == block && K::same_fence(next.low(), K::fence_of(&bound));
            if !(deleted || is_next && leaf.block() == right) {
                leaf.release();
                self.check_siblings(block, right)?;
                leaf = self.descend(seek, 0)?;
            }
        }
    }

    /// Removes dead entries from a leaf. Lock and pin stay.
    fn remove_dead_rows(
        &self,
        leaf: &mut Locked<'t, S, Cleanup>,
        dead_tids: &mut DeadTids<'_>,
        is_dead: &mut dyn FnMut(Tid) -> bool,
        stats: &mut VacuumStats,
    ) -> Result<()> {
        stats.leaf_pages += 1;
        self.expect_order(leaf)?;
        let page = self.page(leaf)?;
        let removal = self.dead_rows(leaf, &page, dead_tids, is_dead);
        if !removal.is_empty() {
            self.commit([Some(leaf.writable())], &Change::new().edit(removal.edit()));
        }
        stats.removed += removal.removed() as u64;
        stats.entries += self.page(leaf)?.entries() as u64;
        Ok(())
    }

    /// An error if the entries of a leaf cannot be what they are: others are not to be lost with them.
    pub(super) fn expect_order<M: LockMode>(&self, leaf: &Locked<'_, S, M>) -> Result<()> {
        let what = "entries are out of order, or are no entries";
        self.page(leaf)?.is_in_order().then_some(()).ok_or(Error::Corrupt { block: leaf.block(), what })
    }

    /// Deletes an empty leaf: one atomic change over it, its neighbours and their parent, by which the right neighbour
    /// takes over its key space. `false` where that is not possible now (docs/protocols.md, 7); the leaf stays then,
    /// and is used again when keys come. Nothing is locked before and after.
    fn delete_leaf(&self, block: Block, low: &K::OwnedKey, stats: &mut VacuumStats) -> Result<bool> {
        Ok(match self.delete(block, low, 0)? {
            Deletion::Done => true,
            Deletion::LastChild => self.fold(low, 1, stats)? && self.delete(block, low, 0)? == Deletion::Done,
            Deletion::NotNow => false,
        })
    }

    /// Has a leaf give its entries to the one passed behind it, if both are thin; whether it is gone then. Nothing is
    /// locked before and after.
    fn merge_passed(&self, leaf: Passed, next: &mut Option<Passed>, stats: &mut VacuumStats) -> Result<bool> {
        let together = leaf.fill + next.map_or(1.0, |next| next.fill);
        if together > MOST_MERGED || !self.merge(leaf.block)? {
            return Ok(false);
        }
        stats.deleted_pages += 1;
        stats.merged_pages += 1;
        stats.leaf_pages -= 1;
        self.store.free(leaf.block);
        self.store.note_event(PageEvent::LeafMerged);
        if let Some(next) = next {
            next.fill = together;
        }
        Ok(true)
    }

    /// Deletes a leaf and gives its entries to its right neighbour, in one atomic change over it, its neighbours and their
    /// parent (docs/protocols.md, 7). `false` where that is not possible now, or not worth it. Nothing is locked before
    /// and after.
    // Not inlined: whole pages lie in its frame.
    #[inline(never)]
    fn merge(&self, block: Block) -> Result<bool> {
        let lock = |block| Ok(self.store.pin(block)?.lock_unpinned(self.store));
        let Some(mut trio) = self.lock_trio(block, 0, lock)? else {
            return Ok(false);
        };
        self.expect_order(&trio.page)?;
        self.expect_order(&trio.right)?;
        let (page, beside) = (self.page(&trio.page)?, self.page(&trio.right)?);
        let is_worth = !page.is_empty() && page.fill() + beside.fill() <= MOST_MERGED;
        let Some(joined) = is_worth.then(|| K::joined(&page, &beside, self.geometry)).flatten() else {
            trio.release();
            return Ok(false);
        };
        let mut low = K::FIRST;
        K::set_to_fence(&mut low, page.low());
        let mut parent = self.writable_page(K::borrow(&low, self.order), 1)?;
        let done = self.unlink(&low, &mut trio, &mut parent, Some(&joined))?;
        parent.release();
        trio.release();
        Ok(done == Deletion::Done)
    }

    /// Deletes the page of `level` that `low` begins if it has a single child, which its right neighbour gets. Where
    /// that has another parent, the page's own is deleted first if it can be, and so on: a branch of single children
    /// folds from its top. Whether it is gone. Nothing is locked before or after.
    fn fold(&self, low: &K::OwnedKey, level: u8, stats: &mut VacuumStats) -> Result<bool> {
        let locked = self.descend::<Shared>(Seek::At(K::borrow(low, self.order)), level)?;
        let (block, page) = (locked.block(), self.page(&locked)?);
        let is_candidate = page.entries() == 1 && K::same_fence(page.low(), K::fence_of(low));
        locked.release();
        let gone = is_candidate
            && match self.delete(block, low, level)? {
                Deletion::Done => true,
                Deletion::LastChild => {
                    self.fold(low, level + 1, stats)? && self.delete(block, low, level)? == Deletion::Done
                }
                Deletion::NotNow => false,
            };
        if gone {
            stats.folded_pages += 1;
            self.store.free(block);
        }
        Ok(gone)
    }

    /// Deletes a page that is a leaf without entries, or has a single child. Nothing is locked before and after.
    fn delete(&self, block: Block, low: &K::OwnedKey, level: u8) -> Result<Deletion> {
        let lock = |block| self.lock::<Exclusive>(block).map(Some);
        let Some(mut trio) = self.lock_trio(block, level, lock)? else {
            return Ok(Deletion::NotNow);
        };
        if self.page(&trio.page)?.entries() != usize::from(level > 0) {
            trio.release();
            return Ok(Deletion::NotNow);
        }
        let mut parent = self.writable_page(K::borrow(low, self.order), level + 1)?;
        let done = self.unlink(low, &mut trio, &mut parent, None)?;
        parent.release();
        trio.release();
        Ok(done)
    }

    /// Locks a page, as is said, and its neighbours exclusively, left to right, if they are still neighbours then, and no
    /// split beside the page is incomplete. Nothing is locked before.
    fn lock_trio<M: Writing>(
        &self,
        block: Block,
        level: u8,
        lock: impl FnOnce(Block) -> Result<Option<Locked<'t, S, M>>>,
    ) -> Result<Option<Trio<'t, S, M>>> {
        let locked = self.lock::<Shared>(block)?;
        let page = self.page(&locked)?;
        let (left_block, right_block) = (page.left(), page.right());
        locked.release();
        if block == ROOT || !is_link(right_block) {
            return Ok(None);
        }
        if left_block == block {
            return Err(Error::Corrupt { block, what: "page is its own left sibling" });
        }
        let left = self.lock_sibling(left_block)?;
        let Some(page) = lock(block)? else {
            if let Some(left) = left {
                left.release();
            }
            return Ok(None);
        };
        let trio = Trio { left, page, right: self.lock(right_block)? };
        if self.are_neighbours(&trio, level)? {
            return Ok(Some(trio));
        }
        trio.release();
        Ok(None)
    }

    /// A page that a link may lead to, exclusively locked.
    pub(super) fn lock_sibling(&self, block: Block) -> Result<Option<Locked<'t, S, Exclusive>>> {
        if is_link(block) { self.lock(block).map(Some) } else { Ok(None) }
    }

    /// Whether the three pages are still neighbours, and no split beside the middle one is incomplete.
    fn are_neighbours<M: LockMode>(&self, trio: &Trio<'t, S, M>, level: u8) -> Result<bool> {
        let (block, page, next) = (trio.page.block(), self.page(&trio.page)?, self.page(&trio.right)?);
        let is_live = |page: &Page<'_, K>| page.level() == level && !page.is_deleted();
        let left_block = trio.left.as_ref().map_or(NO_BLOCK, Locked::block);
        let leads_here = match &trio.left {
            None => true,
            Some(left) => {
                let left = self.page(left)?;
                is_live(&left) && left.right() == block && !left.is_incomplete()
            }
        };
        Ok(leads_here
            && is_live(&page)
            && !page.is_incomplete()
            && page.left() == left_block
            && page.right() == trio.right.block()
            && is_live(&next)
            && next.left() == block
            && K::same_fence(next.low(), page.high()))
    }

    /// Takes the middle page out, if the parent has it and the right one side by side. A leaf that has entries gives them
    /// to the right one, which becomes the page `joined`. All four are exclusively locked and stay so.
    fn unlink<M: Writing>(
        &self,
        low: &K::OwnedKey,
        trio: &mut Trio<'t, S, M>,
        parent: &mut Locked<'t, S, Exclusive>,
        joined: Option<&PageBytes>,
    ) -> Result<Deletion> {
        let (block, right_block) = (trio.page.block(), trio.right.block());
        debug_assert_ne!(block, ROOT, "the root stays");
        let (page, above, beside) = (self.page(&trio.page)?, self.page(parent)?, self.page(&trio.right)?);
        let may_have = joined.is_some() || page.entries() == usize::from(page.level() > 0);
        debug_assert!(may_have, "a page that has more than it may have");
        debug_assert!(!above.is_incomplete(), "the parent's split is to be finished first");
        let here = above.lower_bound(K::borrow(low, self.order));
        let next = above.next(here);
        let leads = |at, fence, to| {
            let entry = above.entry(at);
            entry.is_some_and(|entry| K::is_fence(&entry, fence) && entry.child == to)
        };
        if !leads(here, K::fence_of(low), block) {
            return Err(Error::Corrupt { block: parent.block(), what: "inner page does not lead to its child" });
        }
        if !leads(next, beside.low(), right_block) {
            return Ok(if above.entry(next).is_none() { Deletion::LastChild } else { Deletion::NotNow });
        }
        let child = page.entry(Position::FIRST).filter(|_| page.level() > 0);
        let child = child.map(|entry| K::downlink(low, entry.child));
        let left_block = trio.left.as_ref().map_or(NO_BLOCK, Locked::block);
        let mut lower_image = [0; PAGE_SIZE];
        let lower = match joined {
            Some(joined) => Some(Edit::Image(joined)),
            None => K::lower(&beside, self.geometry, K::fence_of(low), left_block, &mut lower_image),
        };
        let Some(lower) = lower else { return Ok(Deletion::NotNow) };
        let doomed = removal_of(&[here, next]);
        let (mut moved, mut redirected) = (Arrangement::default(), Arrangement::default());
        let mut change = Change::new();
        if trio.left.is_some() {
            change = change.edit(Edit::SetRight(right_block)).page();
        }
        if child.is_some() {
            change = change.edit(Edit::Remove { node: Position::FIRST.node, mask: 1 << Position::FIRST.slot });
        }
        let time = if page.level() == 0 { 0 } else { self.store.now() };
        let leave = if joined.is_some() { Edit::GiveAway } else { Edit::Delete { time } };
        change = change.edit(leave).page().edit(lower).edit(Edit::SetLeft(left_block));
        let mut lowered = *trio.right.bytes();
        if let Some(child) = &child {
            make(lower, &mut lowered, right_block)?;
            change = match self.add_at(child, low, (&mut lowered, right_block), &mut moved, change)? {
                Some(change) => change,
                None => return Ok(Deletion::NotNow),
            };
        } else {
            self.store.note_merge(block, right_block);
        }
        let Some(change) = self.redirect(parent, &doomed, low, right_block, &mut redirected, change.page())? else {
            return Ok(Deletion::NotNow);
        };
        let Trio { left, page, right } = trio;
        let left = left.as_mut().map(Locked::writable);
        self.commit([left, Some(page.writable()), Some(right.writable()), Some(parent.writable())], &change);
        Ok(Deletion::Done)
    }

    /// Adds to a change of an inner page that it has a downlink from `low` to `child` instead of other entries. `None` if
    /// it has no room. `arrangement` is memory for it.
    pub(super) fn redirect<'e>(
        &self,
        parent: &Locked<'t, S, Exclusive>,
        doomed: &'e [(u8, u128)],
        low: &'e K::OwnedKey,
        child: Block,
        arrangement: &'e mut Arrangement,
        change: Change<'e>,
    ) -> Result<Option<Change<'e>>> {
        let (mut image, removal) = (*parent.bytes(), Edit::RemoveSet(doomed));
        make(removal, &mut image, parent.block())?;
        let page = (&mut image, parent.block());
        self.add_at(&K::downlink(low, child), low, page, arrangement, change.edit(removal))
    }

    /// Adds to a change of `page` what inserting an entry at `low` takes; the page is repacked if need be, for which
    /// `arrangement` is memory. `None` if it has no room.
    fn add_at<'e>(
        &self,
        entry: &Entry<'e, K>,
        low: &K::OwnedKey,
        (page, block): (&mut PageBytes, Block),
        arrangement: &'e mut Arrangement,
        mut change: Change<'e>,
    ) -> Result<Option<Change<'e>>> {
        let key = K::borrow(low, self.order);
        let plan = Page::<K>::open(page, self.geometry, block)?.plan(key, entry, Thrift::Tight);
        if let Plan::Repack { cell } = plan
            && let Some(found) = Page::<K>::open(page, self.geometry, block)?.repacked(cell, false)
        {
            *arrangement = found;
            let repack = Edit::Repack(arrangement.counts());
            make(repack, page, block)?;
            change = change.edit(repack);
        }
        Ok(Page::open(page, self.geometry, block)?.insertion(key, entry, &mut change).then_some(change))
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
        let mut locked = self.descend::<Shared>(Seek::At(K::borrow(&bound, self.order)), level)?;
        loop {
            let page = self.page(&locked)?;
            visit(locked.block(), &page);
            let right = page.right();
            K::set_to_fence(&mut bound, page.high());
            locked.release();
            if !is_link(right) {
                return Ok(());
            }
            self.store.check_interrupts();
            let seek = Seek::At(K::borrow(&bound, self.order));
            locked = match self.arrive(right, seek, level)? {
                Ok(locked) => locked,
                Err(_) => self.descend(seek, level)?,
            };
        }
    }

    /// Whether a page that no link leads to can be handed out again now. Nothing is locked or pinned before or after.
    pub fn is_reusable(&self, block: Block) -> Result<bool> {
        if block == META || block == ROOT {
            return Ok(false);
        }
        let locked = self.lock::<Shared>(block)?;
        let bytes = locked.bytes();
        let reusable = page::reusable(bytes) && self.store.is_past(page::deleted_at(bytes));
        locked.release();
        Ok(reusable)
    }
}

/// The removal of an entry, or of two side by side, of which the first comes first.
pub(super) fn removal_of(places: &[Position]) -> ArrayVec<(u8, u128), 2> {
    let mut nodes = ArrayVec::<(u8, u128), 2>::new();
    for place in places.iter().rev() {
        match nodes.last_mut() {
            Some((node, mask)) if *node == place.node => *mask |= 1 << place.slot,
            _ => nodes.push((place.node, 1 << place.slot)),
        }
    }
    nodes
}

/// Makes an edit of a copy of a page.
fn make(edit: Edit<'_>, page: &mut PageBytes, block: Block) -> Result<()> {
    let what = "entries do not fit their nodes";
    Change::new().edit(edit).redo(0, page).then_some(()).ok_or(Error::Corrupt { block, what })
}
