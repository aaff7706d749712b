//! A whole tree, checked: every page, the siblings' links and fences, what parents say of their children, and that
//! every other page of the file is free.

use super::Tree;
use super::vacuum::MOST_MERGED;
use crate::format::{Block, Geometry, META, NO_BLOCK, PageBytes, Position, ROOT, Result, is_link};
use crate::page::{Entry, KeySpace, Page, reusable};
use crate::store::{Shared, Store};
use core::cell::Cell;
use core::fmt::Arguments;

/// Is told of every problem: the block, what is wrong, and details.
pub type Report<'r> = &'r mut dyn FnMut(Block, &'static str, Arguments<'_>);

/// What a whole index holds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Census {
    /// Levels, the leaves' included.
    pub levels: u32,
    /// Live leaf pages.
    pub leaf_pages: u64,
    /// Live inner pages, the root of a tree of several levels included.
    pub inner_pages: u64,
    /// Leaf pages that the next VACUUM merges with their neighbours, if their parents are the same.
    pub thin_pages: u64,
    /// Pages that can be handed out again.
    pub free_pages: u64,
    /// Leaf entries.
    pub entries: u64,
    /// Leaf entries known to be dead.
    pub dead_entries: u64,
    /// How full the leaf pages are, from 0 to 1 each, added up.
    pub fill: f64,
    /// How full the last one is with those that it takes over.
    last: f64,
}

/// A set of blocks, in memory that the caller gives: one bit a block.
pub struct BlockSet<'m>(&'m mut [u64]);

impl<'m> BlockSet<'m> {
    /// Words needed for that many blocks.
    pub fn words(blocks: Block) -> usize {
        (blocks as usize).div_ceil(64)
    }

    /// An empty set in zeroed memory.
    pub fn new(words: &'m mut [u64]) -> Self {
        BlockSet(words)
    }

    /// Adds a block; `false` if it was in already. A block beyond the memory is taken for one already in.
    pub fn add(&mut self, block: Block) -> bool {
        let Some(word) = self.0.get_mut(block as usize / 64) else {
            return false;
        };
        let bit = 1 << (block % 64);
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// Whether a block is in.
    pub fn has(&self, block: Block) -> bool {
        self.0.get(block as usize / 64).is_none_or(|word| word >> (block % 64) & 1 != 0)
    }
}

/// Walks the entries of one level, left to right: what the pages below must be.
struct Parents<K> {
    page: PageBytes,
    place: Position,
    block: Block,
    keys: core::marker::PhantomData<K>,
}

impl<S: Store, K: KeySpace> Tree<'_, S, K> {
    /// Checks the tree while nobody changes it. `ranks`, for an index of one column on exact lanes, is the rank of its
    /// NULLs. `seen` has room for every block of the file. What follows from a page that is wrong itself is not
    /// reported again.
    pub fn verify(&self, ranks: Option<bool>, seen: &mut BlockSet<'_>, report: Report<'_>) -> Result<()> {
        seen.add(META);
        let sound = Cell::new(true);
        let mut report = |block: Block, what: &'static str, detail: Arguments<'_>| {
            sound.set(false);
            report(block, what, detail);
        };
        let root = self.copy(ROOT)?;
        let top = match Page::<K>::verify(&root, self.geometry, ROOT, ranks, self.order) {
            Ok(page) => page.level(),
            Err(flaw) => {
                report(ROOT, flaw.0, format_args!("root page"));
                return Ok(());
            }
        };
        for level in (0..=top).rev() {
            if !self.verify_level(level, top, ranks, seen, &mut report)? {
                return Ok(());
            }
        }
        if sound.get() {
            self.verify_free_pages(seen, &mut report)?;
        }
        Ok(())
    }

    /// A private copy of a page.
    pub fn copy(&self, block: Block) -> Result<PageBytes> {
        self.store.check_interrupts();
        let locked = self.lock::<Shared>(block)?;
        let bytes = *locked.bytes();
        locked.release();
        Ok(bytes)
    }

    /// The first page of a level, by the first children from the root down.
    fn first_of_level(&self, level: u8, top: u8) -> Result<Block> {
        let mut block = ROOT;
        for _ in level..top {
            let bytes = self.copy(block)?;
            let page = Page::<K>::open(&bytes, self.geometry, block)?;
            block = page.entry(Position::FIRST).map_or(NO_BLOCK, |entry| entry.child);
        }
        Ok(block)
    }

    /// Checks one level; `false` if its chain of pages cannot be followed to the end.
    fn verify_level(
        &self,
        level: u8,
        top: u8,
        ranks: Option<bool>,
        seen: &mut BlockSet<'_>,
        report: Report<'_>,
    ) -> Result<bool> {
        let mut parents = if level < top { Some(Parents::<K>::first(self, level + 1, top)?) } else { None };
        let mut block = self.first_of_level(level, top)?;
        let (mut left, mut announced) = (NO_BLOCK, true);
        let mut low = K::FIRST;
        while is_link(block) {
            if block >= self.store.block_count() {
                report(
                    block,
                    "page is beyond the end of the index",
                    format_args!("linked from block {left} of level {level}"),
                );
                return Ok(false);
            }
            if !seen.add(block) {
                report(block, "page is linked to twice", format_args!("linked from block {left} of level {level}"));
                return Ok(false);
            }
            let bytes = self.copy(block)?;
            let page = match Page::<K>::verify(&bytes, self.geometry, block, ranks, self.order) {
                Ok(page) => page,
                Err(flaw) => {
                    report(block, flaw.0, format_args!("level {level}"));
                    return Ok(false);
                }
            };
            if page.is_deleted() || page.level() != level {
                let state = if page.is_deleted() { "deleted" } else { "live" };
                report(
                    block,
                    "linked page is not a live page of its level",
                    format_args!("{state}, level {}, linked on level {level}", page.level()),
                );
                return Ok(false);
            }
            if page.left() != left {
                report(
                    block,
                    "left link does not lead back",
                    format_args!("left link {}, reached from block {left}", page.left()),
                );
            }
            if !K::same_fence(page.low(), K::fence_of(&low)) {
                report(
                    block,
                    "low fence is not the left sibling's high fence",
                    format_args!("left sibling is block {left}"),
                );
            }
            if let Some(parents) = &mut parents
                && announced
                && !parents.check(self, page.low(), block, report)?
            {
                return Ok(false);
            }
            announced = !page.is_incomplete();
            K::set_to_fence(&mut low, page.high());
            (left, block) = (block, page.right());
        }
        if let Some(parents) = &mut parents
            && let Some(child) = parents.next(self, |entry| entry.child)?
        {
            report(
                parents.block,
                "inner page leads to a page that is not on its level",
                format_args!("child block {child}"),
            );
            return Ok(false);
        }
        Ok(true)
    }

    fn verify_free_pages(&self, seen: &BlockSet<'_>, report: Report<'_>) -> Result<()> {
        for block in 0..self.store.block_count() {
            if !seen.has(block) && !reusable(&self.copy(block)?) {
                report(block, "page is neither in the tree nor free", format_args!("nothing leads to it"));
            }
        }
        Ok(())
    }

    /// Counts what the index holds, a level at a time. Concurrent changes are allowed, and may or may not be counted.
    pub fn census(&self) -> Result<Census> {
        let top = self.root_level()?;
        let mut census = Census { levels: u32::from(top) + 1, last: 1.0, ..Census::default() };
        for level in 0..=top {
            self.walk(level, &mut |_, page| census.add(page))?;
        }
        let live = census.leaf_pages + census.inner_pages + 1;
        census.free_pages = u64::from(self.store.block_count()).saturating_sub(live);
        Ok(census)
    }
}

impl Census {
    fn add<K: KeySpace>(&mut self, page: &Page<'_, K>) {
        if page.level() > 0 {
            self.inner_pages += 1;
            return;
        }
        self.leaf_pages += 1;
        self.entries += page.entries() as u64;
        let fill = page.fill();
        self.fill += fill;
        let is_thin = self.last + fill <= MOST_MERGED;
        self.thin_pages += u64::from(is_thin);
        self.last = if is_thin { self.last + fill } else { fill };
        self.dead_entries += page.iter().filter(|entry| entry.tid.dead()).count() as u64;
    }
}

impl<K: KeySpace> Parents<K> {
    fn first<S: Store>(tree: &Tree<'_, S, K>, level: u8, top: u8) -> Result<Self> {
        let block = tree.first_of_level(level, top)?;
        let page = tree.copy(block)?;
        Ok(Parents { page, place: Position::FIRST, block, keys: core::marker::PhantomData })
    }

    /// What `look` makes of the next entry of the level.
    fn next<S: Store, T>(&mut self, tree: &Tree<'_, S, K>, look: impl FnOnce(&Entry<'_, K>) -> T) -> Result<Option<T>> {
        loop {
            let geometry: &Geometry = tree.geometry();
            let page = Page::<K>::open(&self.page, geometry, self.block)?;
            if let Some(entry) = page.entry(self.place) {
                self.place = page.next(self.place);
                return Ok(Some(look(&entry)));
            }
            let right = page.right();
            if !is_link(right) {
                return Ok(None);
            }
            (self.page, self.place, self.block) = (tree.copy(right)?, Position::FIRST, right);
        }
    }

    /// Checks that the next entry leads to this page.
    fn check<S: Store>(
        &mut self,
        tree: &Tree<'_, S, K>,
        low: K::Fence<'_>,
        block: Block,
        report: Report<'_>,
    ) -> Result<bool> {
        match self.next(tree, |entry| (entry.child, K::is_fence(entry, low)))? {
            Some((child, true)) if child == block => return Ok(true),
            Some((child, _)) if child != block => {
                report(
                    self.block,
                    "inner page does not lead to its level's next page",
                    format_args!("leads to block {child}, the next page is block {block}"),
                );
            }
            Some(_) => {
                report(self.block, "inner page's key is not its child's low fence", format_args!("child block {block}"))
            }
            None => {
                report(block, "page has no entry in its parent", format_args!("last parent is block {}", self.block))
            }
        }
        Ok(false)
    }
}
