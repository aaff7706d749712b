//! A map of an index: how full its pages are, level by level, however many they are.

use super::Tree;
use crate::format::{Block, NO_BLOCK, Result};
use crate::page::{KeySpace, Page};
use crate::store::Store;

/// Pages beside each other on a level, or one page.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// The first of them.
    pub first: Block,
    /// The last of them.
    pub last: Block,
    /// How many there are.
    pub pages: u64,
    /// Their entries.
    pub entries: u64,
    /// Those known to be dead.
    pub dead: u64,
    /// How full they are, from 0 to 1 each, added up.
    pub fill: f64,
    /// How full the emptiest one is.
    pub least: f64,
}

impl Group {
    const NONE: Group = Group { first: NO_BLOCK, last: NO_BLOCK, pages: 0, entries: 0, dead: 0, fill: 0.0, least: 1.0 };

    fn of<K: KeySpace>(block: Block, page: &Page<'_, K>) -> Group {
        let fill = page.fill();
        let dead = if page.level() == 0 { page.iter().filter(|entry| entry.tid.dead()).count() as u64 } else { 0 };
        Group { first: block, last: block, pages: 1, entries: page.entries() as u64, dead, fill, least: fill }
    }

    /// How full its pages are on the average.
    pub fn mean(&self) -> f64 {
        self.fill / self.pages.max(1) as f64
    }

    /// Takes in the group on its right.
    fn join(&mut self, right: &Group) {
        if self.pages == 0 {
            return *self = *right;
        }
        self.last = right.last;
        self.pages += right.pages;
        self.entries += right.entries;
        self.dead += right.dead;
        self.fill += right.fill;
        self.least = self.least.min(right.least);
    }
}

/// The pages of a level in key order, as groups of equally many but for the last. Plain memory.
#[derive(Clone, Copy, Debug)]
pub struct LevelMap {
    /// 0 for the leaves.
    pub level: u8,
    groups: [Group; LevelMap::MOST],
    used: usize,
    size: u64,
    histogram: [u64; LevelMap::BINS],
}

impl LevelMap {
    /// Groups of a level, at most.
    pub const MOST: usize = 960;
    /// Into how many ranges of equal width fill is divided.
    pub const BINS: usize = 20;

    /// A level without pages.
    pub const fn new(level: u8) -> Self {
        LevelMap { level, groups: [Group::NONE; Self::MOST], used: 0, size: 1, histogram: [0; Self::BINS] }
    }

    /// The groups.
    pub fn groups(&self) -> &[Group] {
        &self.groups[..self.used]
    }

    /// Pages of a group.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// How many pages are so full, range by range, the emptiest ones first.
    pub fn histogram(&self) -> &[u64; Self::BINS] {
        &self.histogram
    }

    /// All of the level as one group.
    pub fn total(&self) -> Group {
        let mut total = Group::NONE;
        self.groups().iter().for_each(|group| total.join(group));
        total
    }

    /// Adds the next page to the right. When there are too many groups, each takes in its right neighbour.
    fn push(&mut self, page: &Group) {
        let bin = (page.fill * Self::BINS as f64) as usize;
        self.histogram[bin.min(Self::BINS - 1)] += 1;
        if let Some(last) = self.used.checked_sub(1).map(|last| &mut self.groups[last])
            && last.pages < self.size
        {
            return last.join(page);
        }
        if self.used == Self::MOST {
            self.halve();
        }
        self.groups[self.used] = *page;
        self.used += 1;
    }

    fn halve(&mut self) {
        for at in 0..Self::MOST / 2 {
            let mut pair = self.groups[2 * at];
            pair.join(&self.groups[2 * at + 1]);
            self.groups[at] = pair;
        }
        (self.used, self.size) = (Self::MOST / 2, 2 * self.size);
    }
}

impl<S: Store, K: KeySpace> Tree<'_, S, K> {
    /// Adds a level's pages to its map, a page at a time under a share lock. Concurrent changes are allowed, and may or
    /// may not be seen.
    pub fn map(&self, into: &mut LevelMap) -> Result<()> {
        self.walk(into.level, &mut |block, page| into.push(&Group::of(block, page)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_many_pages_there_are_all_are_in_a_group() {
        for pages in [0, 1, 959, 960, 961, 1920, 1921, 100_000u64] {
            let mut map = LevelMap::new(0);
            for at in 0..pages {
                let fill = (at % 100) as f64 / 100.0;
                let (block, entries) = (at as Block + 1, at % 7);
                map.push(&Group { first: block, last: block, pages: 1, entries, dead: 0, fill, least: fill });
            }
            let total = map.total();
            assert_eq!((total.pages, total.entries), (pages, (0..pages).map(|at| at % 7).sum()));
            assert_eq!(map.histogram().iter().sum::<u64>(), pages);
            assert!(map.groups().len() >= (LevelMap::MOST / 2).min(pages as usize));
            let mut next = 1;
            for (at, group) in map.groups().iter().enumerate() {
                assert_eq!(group.first, next, "a group begins where the last one ended");
                assert!(group.pages == map.size() || at + 1 == map.groups().len());
                next = group.last + 1;
            }
            assert_eq!(u64::from(next), pages + 1);
        }
    }
}
