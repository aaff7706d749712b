//! A B+-tree of pages over a buffer pool, whatever the inside of its pages is like: the disk-optimized B+-tree of Chen,
//! Gibbons, Mowry and Valentin's "Fractal Prefetching B+-Trees" (SIGMOD 2002), §2.1 and §2.2, to which a [`PageFormat`]
//! gives the in-page organization.
//!
//! An entry is a key with a tuple id (leaf page) or a child's block (inner page); the key is then the smallest that the
//! child may have, and 0 for the leftmost child. The pages of each level are linked from left to right. Deletion is
//! lazy, as in §4.2.3: underfull pages are not merged, and emptied ones stay where they are and are filled again.

use super::Paged;
use crate::index::{Index, Pair};
use crate::pool::{Block, NO_BLOCK, Pool};
use std::ops::Range;

/// Bytes of a page's header: the number of its entries (2 bytes), its level (2 bytes, 0 is a leaf), and its right
/// sibling (4 bytes). Everything behind it is the page format's.
pub const HEADER: usize = 8;

/// How many entries a page has.
#[inline]
pub fn count(page: &[u8]) -> usize {
    u16::from_ne_bytes([page[0], page[1]]).into()
}

/// Says how many entries a page has.
#[inline]
pub fn set_count(page: &mut [u8], count: usize) {
    page[..2].copy_from_slice(&(count as u16).to_ne_bytes());
}

fn level(page: &[u8]) -> usize {
    u16::from_ne_bytes([page[2], page[3]]).into()
}

fn set_level(page: &mut [u8], level: usize) {
    page[2..4].copy_from_slice(&(level as u16).to_ne_bytes());
}

fn next(page: &[u8]) -> Block {
    Block::from_ne_bytes([page[4], page[5], page[6], page[7]])
}

fn set_next(page: &mut [u8], next: Block) {
    page[4..HEADER].copy_from_slice(&next.to_ne_bytes());
}

/// What came of an insertion into a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inserted {
    /// The page has one entry more.
    New,
    /// The key was there: it had this tuple id, and has the new one.
    Replaced(u32),
    /// There was no room, and nothing was changed.
    Full,
}

/// How the inside of a page is organized. Of the [header](HEADER) only the [`count`] is the format's to write.
pub trait PageFormat {
    /// Entries that a page has room for, at least 2 and at most `u16::MAX`.
    fn capacity(&self) -> usize;

    /// Makes a page hold the sorted `entries`, at most its capacity, and nothing else.
    fn load(&self, page: &mut [u8], entries: &[Pair]);

    /// The entry with the greatest key that is not greater than `key`.
    fn floor(&self, page: &[u8], key: u32) -> Option<Pair>;

    /// How many entries have keys that are not greater than `key`.
    fn up_to(&self, page: &[u8], key: u32) -> usize;

    /// The entries at these places, in order.
    fn entries(&self, page: &[u8], places: Range<usize>) -> impl Iterator<Item = Pair>;

    /// Adds an entry, or gives a key that is there a new tuple id.
    fn insert(&self, page: &mut [u8], entry: Pair) -> Inserted;

    /// Removes a key. Returns its tuple id, if it was there.
    fn remove(&self, page: &mut [u8], key: u32) -> Option<u32>;

    /// Moves the upper half of a full page's entries to the page `upper`, which is zeros. Returns the first key moved.
    /// Both have room for one entry more then.
    fn split(&self, page: &mut [u8], upper: &mut [u8]) -> u32;

    /// Checks what the format keeps in a page beside the entries themselves.
    ///
    /// # Panics
    /// If something is wrong.
    fn check(&self, page: &[u8]);
}

/// The tree.
pub struct Tree<F> {
    pool: Pool,
    format: F,
    root: Block,
    height: usize,
}

impl<F: PageFormat> Tree<F> {
    /// A tree of sorted pairs in an empty pool, for whose page size `format` was made. Its pages, but for each level's
    /// last, are `fill` full (0 to 1; at least one entry in a leaf page, and two in an inner page).
    ///
    /// # Panics
    /// If a page has room for fewer than two entries, or more than `u16::MAX`.
    pub fn load(pool: Pool, format: F, pairs: &[Pair], fill: f64) -> Self {
        let capacity = format.capacity();
        assert!((2..=usize::from(u16::MAX)).contains(&capacity), "a page of {capacity} entries");
        let filled = (capacity as f64 * fill).round() as usize;
        let mut tree = Tree { pool, format, root: NO_BLOCK, height: 1 };
        let mut pages = tree.load_level(0, pairs, filled.clamp(1, capacity));
        while pages.len() > 1 {
            pages = tree.load_level(tree.height, &pages, filled.clamp(2, capacity));
            tree.height += 1;
        }
        tree.root = pages[0].1;
        tree
    }

    /// Levels, of which a tree of one leaf page has one.
    pub fn height(&self) -> usize {
        self.height
    }

    /// How the inside of its pages is organized.
    pub fn format(&self) -> &F {
        &self.format
    }

    /// Its pages.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Makes a level's pages of `per_page` sorted entries each. Returns the entries for them in the level above.
    fn load_level(&mut self, level: usize, entries: &[Pair], per_page: usize) -> Vec<Pair> {
        let mut pages: Vec<Pair> = Vec::with_capacity(entries.len().div_ceil(per_page));
        for begin in (0..entries.len().max(1)).step_by(per_page) {
            let part = &entries[begin..entries.len().min(begin + per_page)];
            let block = self.new_page(level, part);
            if let Some(&(_, previous)) = pages.last() {
                set_next(self.pool.page_mut(previous), block);
            }
            let low = if begin == 0 { 0 } else { part[0].0 };
            pages.push((low, block));
        }
        pages
    }

    /// A page without a right sibling.
    fn new_page(&mut self, level: usize, entries: &[Pair]) -> Block {
        let block = self.pool.allocate();
        let page = self.pool.page_mut(block);
        set_level(page, level);
        set_next(page, NO_BLOCK);
        self.format.load(page, entries);
        block
    }

    /// An inner page's entry for a key.
    #[inline]
    fn floor(&mut self, inner: Block, key: u32) -> Pair {
        self.format.floor(self.pool.page(inner), key).expect("an inner page has the smallest key it is searched for")
    }

    /// The page of a level where a key belongs.
    #[inline]
    fn page_of(&mut self, key: u32, level: usize) -> Block {
        (level + 1..self.height).fold(self.root, |block, _| self.floor(block, key).1)
    }

    /// Splits a full page, and adds an entry to the half it belongs in. Returns the upper half's entry for the parent.
    fn split(&mut self, full: Block, entry: Pair) -> Pair {
        let new = self.pool.allocate();
        let (lower, upper) = self.pool.two_pages_mut(full, new);
        let separator = self.format.split(lower, upper);
        set_level(upper, level(lower));
        set_next(upper, next(lower));
        set_next(lower, new);
        let half = if entry.0 < separator { lower } else { upper };
        assert_eq!(self.format.insert(half, entry), Inserted::New, "half a page has room");
        (separator, new)
    }

    /// Puts a root above the root that was split.
    fn grow(&mut self, upper: Pair) {
        self.root = self.new_page(self.height, &[(0, self.root), upper]);
        self.height += 1;
    }

    /// Checks a page whose keys have to be from `low` up to, not including, `high`. Returns its entries.
    fn check_page(&mut self, (block, low, high): (Block, u32, u32), its_level: usize, right: Block) -> Vec<Pair> {
        let page = self.pool.page(block);
        assert_eq!(level(page), its_level, "the level of page {block}");
        assert_eq!(next(page), right, "the right sibling of page {block}");
        let entries: Vec<Pair> = self.format.entries(page, 0..count(page)).collect();
        assert_eq!(entries.len(), count(page), "the count of page {block}");
        assert!(entries.len() <= self.format.capacity(), "page {block} has room");
        assert!(entries.is_sorted_by(|a, b| a.0 < b.0), "the order of page {block}");
        assert!(entries.iter().all(|&(key, _)| (low..high).contains(&key)), "page {block} is where its keys belong");
        assert!(its_level == 0 || entries.first().is_some_and(|&(key, _)| key == low), "page {block} begins at {low}");
        self.format.check(page);
        entries
    }
}

impl<F: PageFormat> Paged for Tree<F> {
    fn pool_mut(&mut self) -> &mut Pool {
        &mut self.pool
    }

    /// Read from the leaves' parents and these pages' links, the internal jump-pointer array (§2.2). Only the
    /// separators decide where the range ends: no page outside it is listed.
    fn leaf_blocks(&mut self, first: u32, last: u32) -> Vec<Block> {
        if self.height == 1 {
            return vec![self.root];
        }
        let mut leaves = Vec::new();
        let mut parent = self.page_of(first, 1);
        let mut begin = self.format.up_to(self.pool.page(parent), first) - 1;
        while parent != NO_BLOCK {
            let page = self.pool.page(parent);
            for (low, leaf) in self.format.entries(page, begin..count(page)) {
                if low > last {
                    return leaves;
                }
                leaves.push(leaf);
            }
            (parent, begin) = (next(page), 0);
        }
        leaves
    }
}

impl<F: PageFormat> Index for Tree<F> {
    fn insert(&mut self, key: u32, id: u32) -> Option<u32> {
        let mut entry = (key, id);
        for level in 0..self.height {
            let block = self.page_of(entry.0, level);
            match self.format.insert(self.pool.page_mut(block), entry) {
                Inserted::New => return None,
                Inserted::Replaced(old) => return Some(old),
                Inserted::Full => entry = self.split(block, entry),
            }
        }
        self.grow(entry);
        None
    }

    fn remove(&mut self, key: u32) -> Option<u32> {
        let leaf = self.page_of(key, 0);
        self.format.remove(self.pool.page_mut(leaf), key)
    }

    #[inline]
    fn search(&mut self, key: u32) -> Option<u32> {
        let leaf = self.page_of(key, 0);
        self.format.floor(self.pool.page(leaf), key).filter(|&(found, _)| found == key).map(|(_, id)| id)
    }

    fn scan(&mut self, first: u32, last: u32, mut each: impl FnMut(u32, u32)) {
        let mut leaf = self.page_of(first, 0);
        let mut begin = first.checked_sub(1).map_or(0, |before| self.format.up_to(self.pool.page(leaf), before));
        while leaf != NO_BLOCK {
            let page = self.pool.page(leaf);
            let end = self.format.up_to(page, last);
            self.format.entries(page, begin..end.max(begin)).for_each(|(key, id)| each(key, id));
            if end < count(page) {
                return;
            }
            (leaf, begin) = (next(page), 0);
        }
    }

    fn check(&mut self) -> usize {
        let mut pages = vec![(self.root, 0, u32::MAX)];
        let (mut pages_seen, mut pairs) = (0, 0);
        for level in (0..self.height).rev() {
            let mut children = Vec::new();
            for (at, &page) in pages.iter().enumerate() {
                let right = pages.get(at + 1).map_or(NO_BLOCK, |right| right.0);
                let entries = self.check_page(page, level, right);
                if level == 0 {
                    pairs += entries.len();
                    continue;
                }
                let highs = entries[1..].iter().map(|&(low, _)| low).chain([page.2]);
                children.extend(entries.iter().zip(highs).map(|(&(low, child), high)| (child, low, high)));
            }
            pages_seen += pages.len();
            pages = children;
        }
        assert_eq!(pages_seen, self.pool.pages(), "every page is in the tree");
        pairs
    }
}

/// What the trees of every page format have to pass.
#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::disk::sorted::SortedPage;
    use crate::index::tests::{Step, agrees, agrees_when_large, pairs, steps};
    use crate::search::Binary;
    use proptest::prelude::*;

    /// What a tree is made of: the frames of the pool, fewer than pages and more, and how full pages are.
    #[derive(Clone, Copy, Debug)]
    pub struct Setting {
        frames: usize,
        fill: f64,
    }

    /// A setting, what is loaded, and what is done.
    pub type Use = (Setting, Vec<Pair>, Vec<Step>);

    pub fn uses() -> impl Strategy<Value = Use> {
        let frames = prop::sample::select(vec![2, 3, 20, 2000]);
        let fills = prop::sample::select(vec![0.0, 0.5, 0.7, 1.0]);
        let settings = (frames, fills).prop_map(|(frames, fill)| Setting { frames, fill });
        (settings, pairs(), steps())
    }

    /// Whether a tree does the same as a map.
    pub fn behaves<F: PageFormat>(page_size: usize, format: F, (setting, pairs, steps): &Use) {
        let mut tree = Tree::load(Pool::new(page_size, setting.frames), format, pairs, setting.fill);
        assert_eq!(tree.check(), pairs.len());
        agrees(tree, pairs, steps);
    }

    /// The same for a large tree, all of whose pages are full at first.
    pub fn behaves_when_large<F: PageFormat>(page_size: usize, format: F, frames: usize) {
        let pairs: Vec<Pair> = (0..30_000u32).map(|i| (i * 100_000 + 5, i)).collect();
        agrees_when_large(Tree::load(Pool::new(page_size, frames), format, &pairs, 1.0), &pairs, 20_000);
    }

    /// The leaf pages of a range as the leaves' own links give them.
    fn linked_leaves<F: PageFormat>(tree: &mut Tree<F>, first: u32, last: u32) -> Vec<Block> {
        let end = tree.page_of(last, 0);
        let mut leaves = vec![tree.page_of(first, 0)];
        while leaves[leaves.len() - 1] != end {
            leaves.push(next(tree.pool.page(leaves[leaves.len() - 1])));
        }
        leaves
    }

    proptest! {
        #[test]
        fn the_leaves_parents_list_the_leaves((setting, pairs, steps) in uses()) {
            let (pool, format) = (Pool::new(64, setting.frames), SortedPage::<Binary>::new(64));
            let mut tree = Tree::load(pool, format, &pairs, setting.fill);
            for step in steps {
                match step {
                    Step::Insert(key) => drop(tree.insert(key, 0)),
                    Step::Remove(key) => drop(tree.remove(key)),
                    Step::Search(key) => assert_eq!(tree.leaf_blocks(key, key), [tree.page_of(key, 0)]),
                    Step::Scan(first, last) => {
                        let linked = linked_leaves(&mut tree, first, last);
                        assert_eq!(tree.leaf_blocks(first, last), linked);
                    }
                }
            }
        }

        #[test]
        fn pages_are_as_full_as_wanted(pairs in pairs(), fill in 0.0..=1.0) {
            let mut tree = Tree::load(Pool::new(256, 1000), SortedPage::<Binary>::new(256), &pairs, fill);
            let wanted = (31.0 * fill).round().max(1.0) as usize;
            let leaves = tree.leaf_blocks(0, u32::MAX);
            prop_assert_eq!(leaves.len(), pairs.len().div_ceil(wanted).max(1));
            prop_assert!(leaves[1..].iter().zip(&leaves).all(|(_, &leaf)| count(tree.pool.page(leaf)) == wanted));
        }
    }

    #[test]
    fn a_search_reads_a_page_of_each_level() {
        let pairs: Vec<Pair> = (0..30_000).map(|i| (i, i)).collect();
        let mut tree = Tree::load(Pool::new(256, 100), SortedPage::<Binary>::new(256), &pairs, 1.0);
        tree.pool_mut().forget();
        assert_eq!(tree.search(12345), Some(12345));
        assert_eq!((tree.height(), tree.pool().reads()), (4, 4));
    }
}
