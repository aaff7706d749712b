//! The end of the file: free pages there can be given back, once the pages that end the tree's levels are out of their way.

use super::{LockMode, Seek, Tree};
use crate::format::{Block, ROOT, Result, is_link};
use crate::log::{Change, Edit};
use crate::page::{self, KeySpace};
use crate::store::{Mode, PageStore};

/// The end of the file: free pages, and such as can be moved.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileEnd {
    /// All of its pages.
    pages: Block,
    /// Those that are the last of their levels, last first. They are never deleted: nobody is right of them who could take
    /// over their keys.
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

impl<S: PageStore, K: KeySpace> Tree<'_, S, K> {
    /// Looks at the file from its end, at so many pages at most, as far as what is in use there can likely be moved; `goes_on` is asked before each. Nothing is locked or pinned
    /// before or after.
    pub fn tid(&self, most: Block, goes_on: &mut dyn FnMut(Block) -> bool) -> Result<FileEnd> {
        let mut tid = FileEnd::default();
        for block in (ROOT + 1..self.store.block_count()).rev().take(most as usize) {
            if !goes_on(block) {
                break;
            }
            let pin = self.store.pin(block)?;
            self.store.lock(pin, Mode::Share);
            let is_free = page::reusable(self.store.bytes(pin));
            let last = self.page(pin).ok().filter(|page| !is_free && !is_link(page.right()));
            let left = last.map(|page| page.left());
            self.release(pin);
            if !(is_free || left.is_some_and(|left| self.is_whole(left) && tid.keep(block))) {
                break;
            }
            tid.pages += 1;
        }
        Ok(tid)
    }

    /// Whether a page, if there is one, has no split to be finished.
    fn is_whole(&self, block: Block) -> bool {
        if !is_link(block) {
            return true;
        }
        let Ok(pin) = self.store.pin(block) else { return false };
        self.store.lock(pin, Mode::Share);
        let is_whole = self.page(pin).is_ok_and(|page| !page.is_incomplete());
        self.release(pin);
        is_whole
    }

    /// Moves what is in use in the TID to where that begins, and says how many pages the file needs then. Nobody else is in
    /// the tree, nor will anybody find what a page that was moved left behind. Nothing is locked or pinned before or after.
    pub fn pack_file_end(&self, tid: &FileEnd) -> Result<Block> {
        let mut end = self.store.block_count() - tid.pages;
        let last = &tid.last[..tid.last_count];
        for &block in last.iter().rev() {
            if block != end && !self.move_last(block, end)? {
                // What lies behind this one has not been moved either.
                return Ok(last[0] + 1);
            }
            end += 1;
        }
        Ok(end)
    }

    /// Moves the last page of a level to a free one: one atomic change over both, its left neighbour and its parent. `false` if
    /// these do not lead to it, or have splits to finish, which could take pages of the TID.
    fn move_last(&self, block: Block, to: Block) -> Result<bool> {
        let (from, target) = (self.store.pin(block)?, self.store.pin(to)?);
        self.store.lock(target, Mode::Exclusive);
        self.store.lock(from, Mode::Exclusive);
        let is_moved = page::reusable(self.store.bytes(target)) && self.relink(from, target)?;
        self.release(from);
        self.release(target);
        Ok(is_moved)
    }

    /// The same of locked pages, which stay so.
    fn relink(&self, from: S::Pin, to: S::Pin) -> Result<bool> {
        let page = self.page(from)?;
        let (block, new_block, left_block) = (self.store.block(from), self.store.block(to), page.left());
        let mut low = K::FIRST;
        K::set_to_fence(&mut low, page.low());
        let left = self.lock_sibling(left_block)?;
        let leads_here = match left {
            None => true,
            Some(left) => {
                let left = self.page(left)?;
                !left.is_deleted() && left.right() == block && !left.is_incomplete()
            }
        };
        let parent = self.descend(Seek::At(K::borrow(&low, self.order)), page.level() + 1, LockMode::Exclusive)?;
        let above = self.page(parent)?;
        let here = above.lower_bound(K::borrow(&low, self.order));
        let is_child = !above.is_incomplete() && above.entry(here).is_some_and(|entry| entry.child == block);
        let is_moved = leads_here && is_child;
        if is_moved {
            let image = *self.store.bytes(from);
            let time = if page.level() == 0 { 0 } else { self.store.now() };
            let change = match left {
                Some(left) => Change::new(left).edit(Edit::SetRight(new_block)).page(from),
                None => Change::new(from),
            };
            self.store.note_merge(block, new_block);
            self.store.commit(
                &change
                    .edit(Edit::Delete { time })
                    .page(to)
                    .edit(Edit::New(&image))
                    .page(parent)
                    .edit(Edit::SetChild { place: here, child: new_block }),
            );
        }
        self.release(parent);
        if let Some(left) = left {
            self.release(left);
        }
        Ok(is_moved)
    }
}
