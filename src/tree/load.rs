//! Bulk load: sorted entries become packed pages, bottom up (paper §3.1.2, at page granularity).

use crate::key::{Key, Lane, Tail};
use crate::page::{Entry, Geometry, Links, MAX_PAGE_ENTRIES, build};
use crate::store::{Block, NO_BLOCK, PageBytes, ROOT};

/// Most levels a tree can have: each inner page has dozens of children, and there are 2³² blocks.
const MOST_LEVELS: usize = 16;
/// Percent that inner pages are filled to.
const INNER_FILL: usize = 95;

/// Collects one level's pages.
#[derive(Clone, Copy)]
struct Level<L> {
    /// Entries of the page being filled.
    entries: [Entry<L>; MAX_PAGE_ENTRIES],
    count: usize,
    /// Entries a page is filled to.
    limit: usize,
    low: Key<L>,
    /// The page before the one being filled, and this one's block once it is known that the level has several pages.
    left: Block,
    block: Block,
}

/// Writes a tree from entries that come in order. Plain memory (about 400 KB): it lives where the caller says, so that a
/// server error can jump away from it.
pub struct Loader<L> {
    levels: [Level<L>; MOST_LEVELS],
    height: usize,
    next_block: Block,
    loaded: u64,
}

impl<L: Lane> Loader<L> {
    /// Makes a loader in `memory`, filling leaves to `fill` percent.
    pub fn init(memory: &mut core::mem::MaybeUninit<Self>, geometry: &Geometry, fill: usize) {
        let limit = |capacity: usize, fill: usize| (capacity * fill / 100).clamp(2, capacity);
        let leaf = limit(geometry.leaf.page_entries(), fill);
        let inner = limit(geometry.inner.page_entries(), INNER_FILL);
        let nothing = Entry { lane: L::MIN, tail: Tail::MIN, child: NO_BLOCK };
        let level = |limit| Level {
            entries: [nothing; MAX_PAGE_ENTRIES],
            count: 0,
            limit,
            low: Key::MIN,
            left: NO_BLOCK,
            block: NO_BLOCK,
        };
        let loader = memory.as_mut_ptr();
        // SAFETY: every field is written, in place (the whole is too large for some stacks), and none is read.
        unsafe {
            let levels = (&raw mut (*loader).levels).cast::<Level<L>>();
            for at in 0..MOST_LEVELS {
                levels.add(at).write(level(if at == 0 { leaf } else { inner }));
            }
            (&raw mut (*loader).height).write(1);
            (&raw mut (*loader).next_block).write(ROOT + 1);
            (&raw mut (*loader).loaded).write(0);
        }
    }

    /// Entries loaded so far.
    pub fn loaded(&self) -> u64 {
        self.loaded
    }

    /// Adds the next entry; pages that are full go to `write`.
    pub fn add(&mut self, geometry: &Geometry, lane: L, tail: Tail, write: &mut dyn FnMut(Block, &PageBytes)) {
        self.loaded += 1;
        self.add_to(0, geometry, Entry { lane, tail, child: NO_BLOCK }, write);
    }

    fn add_to(&mut self, at: usize, geometry: &Geometry, entry: Entry<L>, write: &mut dyn FnMut(Block, &PageBytes)) {
        let level = &self.levels[at];
        if level.count == level.limit {
            let last = level.entries[level.count - 1];
            // The shortest fence that parts them: a search for a lane that begins a page need not look left of it.
            let fence = if at == 0 && last.lane < entry.lane { Key::new(entry.lane, Tail::MIN) } else { entry.key() };
            self.close(at, geometry, fence, write);
        }
        let level = &mut self.levels[at];
        level.entries[level.count] = entry;
        level.count += 1;
    }

    /// Writes the page being filled; the next one of its level begins at `high`.
    fn close(&mut self, at: usize, geometry: &Geometry, high: Key<L>, write: &mut dyn FnMut(Block, &PageBytes)) {
        if self.levels[at].block == NO_BLOCK {
            // The level's first page: only now is it known that it is not the root.
            self.levels[at].block = self.take_block();
            self.height = self.height.max(at + 2);
        }
        let right = self.take_block();
        self.write_page(at, geometry, self.levels[at].block, right, high, write);
        let level = &mut self.levels[at];
        let downlink = Entry { lane: level.low.lane, tail: level.low.tail, child: level.block };
        (level.left, level.block, level.low, level.count) = (level.block, right, high, 0);
        self.add_to(at + 1, geometry, downlink, write);
    }

    fn take_block(&mut self) -> Block {
        self.next_block += 1;
        self.next_block - 1
    }

    fn write_page(
        &self,
        at: usize,
        geometry: &Geometry,
        block: Block,
        right: Block,
        high: Key<L>,
        write: &mut dyn FnMut(Block, &PageBytes),
    ) {
        let level = &self.levels[at];
        let links = Links { level: at as u8, left: level.left, right, low: level.low, high };
        write(block, &build(geometry, &links, level.count, level.entries[..level.count].iter().copied()));
    }

    /// Writes what is left, the root last. The tree is complete then.
    pub fn finish(&mut self, geometry: &Geometry, write: &mut dyn FnMut(Block, &PageBytes)) {
        let mut at = 0;
        while at + 1 < self.height {
            let level = &self.levels[at];
            let (block, low) = (level.block, level.low);
            self.write_page(at, geometry, block, NO_BLOCK, Key::MAX, write);
            self.add_to(at + 1, geometry, Entry { lane: low.lane, tail: low.tail, child: block }, write);
            at += 1;
        }
        self.write_page(at, geometry, ROOT, NO_BLOCK, Key::MAX, write);
    }
}
