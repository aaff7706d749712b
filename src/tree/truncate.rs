//! The end of the file: free pages there can be given back, once the pages that end the tree's levels are out of their
//! way; and where most of the file is free, all that are in use.

use super::vacuum::removal_of;
use super::{Seek, Tree};
use crate::format::{Block, ROOT, Result, is_link};
use crate::log::{Change, Edit};
use crate::page::{self, Arrangement, KeySpace};
use crate::store::{Exclusive, Locked, Shared, Store};

/// The end of the file: free pages, and such as can be moved.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileEnd {
    /// All of its pages.
    pages: Block,
    /// Those that are the last of their levels, last first. They are never deleted: nobody is right of them who could
    /// take over their keys.
    last: [Block; FileEnd::MOST_KEPT],
    last_count: usize,
}

impl FileEnd {
    /// Most pages of it that may be in use, one of each level: a tree has fewer.
    pub const MOST_KEPT: usize = 16;

    /// How many of its pages can be cut off.
    pub fn free(&self) -> Block {
        self.pages - self.last_count as Block
    }

    /// Adds a page that is the last of its level, if that may be.
    fn keep(&mut self, block: Block) -> bool {
        let slot = self.last.get_mut(self.last_count);
        let has_room = slot.map(|slot| *slot = block).is_some();
        self.last_count += usize::from(has_room);
        has_room
    }
}

impl<'t, S: Store, K: KeySpace> Tree<'t, S, K> {
    /// Looks at the file from its end, at so many pages at most, as far as what is in use there can likely be moved;
    /// `goes_on` is asked before each. Nothing is locked or pinned before or after.
    pub fn file_end(&self, most: Block, goes_on: &mut dyn FnMut(Block) -> bool) -> Result<FileEnd> {
        let mut end = FileEnd::default();
        for block in (ROOT + 1..self.store.block_count()).rev().take(most as usize) {
            if !goes_on(block) {
                break;
            }
            let locked = self.lock::<Shared>(block)?;
            let is_free = page::reusable(locked.bytes());
            let last = self.page(&locked).ok().filter(|page| !is_free && !is_link(page.right()));
            let left = last.map(|page| page.left());
            locked.release();
            if !(is_free || left.is_some_and(|left| self.is_whole(left) && end.keep(block))) {
                break;
            }
            end.pages += 1;
        }
        Ok(end)
    }

    /// Whether a page, if there is one, has no split to be finished.
    fn is_whole(&self, block: Block) -> bool {
        if !is_link(block) {
            return true;
        }
        let Ok(locked) = self.lock::<Shared>(block) else { return false };
        let is_whole = self.page(&locked).is_ok_and(|page| !page.is_incomplete());
        locked.release();
        is_whole
    }

    /// Moves what is in use at the end of the file to where that begins, and says how many pages the file needs then.
    /// Nobody else is in the tree, nor will anybody find what a page that was moved left behind. Nothing is locked or
    /// pinned before or after.
    pub fn pack_file_end(&self, file_end: &FileEnd) -> Result<Block> {
        let mut end = self.store.block_count() - file_end.pages;
        let last = &file_end.last[..file_end.last_count];
        for &block in last.iter().rev() {
            if block != end && !self.move_page(block, end)? {
                // What lies behind this one has not been moved either.
                return Ok(last[0] + 1);
            }
            end += 1;
        }
        Ok(end)
    }

    /// Moves pages that are in use from the end of the file to free ones before, one after the other, and says how many
    /// pages the file needs then. `goes_on` is asked before each page that is looked at from the end. Nobody else is in the
    /// tree, as for [`pack_file_end`](Tree::pack_file_end). Nothing is locked or pinned before or after.
    pub fn compact(&self, goes_on: &mut dyn FnMut(Block) -> bool) -> Result<Block> {
        let (mut to, mut end) = (ROOT + 1, self.store.block_count());
        while to < end && goes_on(end - 1) {
            if self.is_free(end - 1)? {
                end -= 1;
            } else if !self.is_free(to)? {
                to += 1;
            } else if self.move_page(end - 1, to)? {
                (to, end) = (to + 1, end - 1);
            } else {
                break;
            }
        }
        Ok(end)
    }

    fn is_free(&self, block: Block) -> Result<bool> {
        let locked = self.lock::<Shared>(block)?;
        let is_free = page::reusable(locked.bytes());
        locked.release();
        Ok(is_free)
    }

    /// Moves a page to a free one: one atomic change over both, its neighbours and its parent. `false` if these do not lead
    /// to it, have splits to finish, which could take pages of the end, or are too many for the log.
    fn move_page(&self, block: Block, to: Block) -> Result<bool> {
        let page = self.lock::<Shared>(block)?;
        let (left_block, right_block) = (self.page(&page)?.left(), self.page(&page)?.right());
        page.release();
        let pages = 3 + [left_block, right_block].into_iter().filter(|block| is_link(*block)).count();
        if block == ROOT || pages > self.store.most_pages() {
            return Ok(false);
        }
        let mut target = self.lock(to)?;
        let mut left = self.lock_sibling(left_block)?;
        let mut from = self.lock(block)?;
        let mut right = self.lock_sibling(right_block)?;
        let is_moved =
            page::reusable(target.bytes()) && self.relink([left.as_mut(), right.as_mut()], &mut from, &mut target)?;
        if let Some(right) = right {
            right.release();
        }
        from.release();
        if let Some(left) = left {
            left.release();
        }
        target.release();
        Ok(is_moved)
    }

    /// Moves a page, between its neighbours, to a free one. All are exclusively locked, and stay so.
    fn relink(
        &self,
        [left, right]: [Option<&mut Locked<'t, S, Exclusive>>; 2],
        from: &mut Locked<'t, S, Exclusive>,
        to: &mut Locked<'t, S, Exclusive>,
    ) -> Result<bool> {
        let page = self.page(from)?;
        debug_assert!(to.block() < from.block(), "a page is moved towards the file's beginning");
        let (block, new_block, level) = (from.block(), to.block(), page.level());
        let mut low = K::FIRST;
        K::set_to_fence(&mut low, page.low());
        let leads_here = match &left {
            None => !is_link(page.left()),
            Some(left) => {
                let left = self.page(left)?;
                !left.is_deleted() && left.right() == block && !left.is_incomplete()
            }
        };
        let is_led_to = match &right {
            None => !is_link(page.right()),
            Some(right) => {
                let right = self.page(right)?;
                !right.is_deleted() && right.left() == block && right.level() == level
            }
        };
        let mut parent = self.descend::<Exclusive>(Seek::At(K::borrow(&low, self.order)), level + 1)?;
        let above = self.page(&parent)?;
        let here = above.lower_bound(K::borrow(&low, self.order));
        let is_child = !above.is_incomplete() && above.entry(here).is_some_and(|entry| entry.child == block);
        let (doomed, image) = (removal_of(&[here]), *from.bytes());
        let mut is_moved = leads_here && is_led_to && !page.is_incomplete() && is_child;
        let mut arrangement = Arrangement::default();
        if is_moved {
            let time = if level == 0 { 0 } else { self.store.now() };
            let mut change = Change::new();
            if left.is_some() {
                change = change.edit(Edit::SetRight(new_block)).page();
            }
            let mut change = change.edit(Edit::Delete { time }).page().edit(Edit::New(&image)).page();
            if right.is_some() {
                change = change.edit(Edit::SetLeft(new_block)).page();
            }
            let change = self.redirect(&parent, &doomed, &low, new_block, &mut arrangement, change)?;
            is_moved = change.is_some();
            if let Some(change) = change {
                self.store.note_merge(block, new_block);
                let (left, right) = (left.map(Locked::writable), right.map(Locked::writable));
                let pages = [left, Some(from.writable()), Some(to.writable()), right, Some(parent.writable())];
                self.commit(pages, &change);
            }
        }
        parent.release();
        Ok(is_moved)
    }
}
