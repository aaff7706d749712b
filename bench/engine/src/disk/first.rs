//! The disk-first fpB+-tree (SIGMOD 2002, §3.1): the engine's own tree over the pool. Its pages have one size, and its
//! entries a row's TID of six bytes where the other trees have a tuple id of four.

use std::cell::Ref;

use fpbtree_engine::format::{Geometry, Key, LaneKind, NO_BLOCK, PAGE_SIZE, PageBytes, Position, ROOT, Tid, is_link};
use fpbtree_engine::log::{Change, Edit, Ranges};
use fpbtree_engine::page::{Entry, Page};
use fpbtree_engine::scan::{Direction, JumpPointers, Range, RowsOf, Wanted};
use fpbtree_engine::simd::{self, CACHE_LINE};
use fpbtree_engine::store::PageStore;
use fpbtree_engine::tree::check::BlockSet;
use fpbtree_engine::tree::load::Loader;
use fpbtree_engine::tree::{InsertOptions, Seek, Tree};

use super::Paged;
use super::store::PoolStore;
use crate::index::{Index, Pair};
use crate::pool::{Block, Pool};

/// What the engine says where pages are damaged. These are not.
const SOUND: &str = "a sound tree";

/// What marks the tree's pages.
const BUILD: u64 = 1;

const PAGE_LINES: usize = PAGE_SIZE / CACHE_LINE;

/// The tree.
pub struct DiskFirst {
    store: PoolStore,
    geometry: Geometry,
    fill: usize,
}

impl DiskFirst {
    /// A tree of sorted pairs in an empty pool, with leaf pages filled to `fill` percent, as insertions of ascending
    /// keys fill them, too.
    ///
    /// # Panics
    /// If the pool's pages are not the engine's.
    pub fn load(pool: Pool, pairs: &[Pair], fill: usize) -> Self {
        Self::load_with(Geometry::choose(LaneKind::U32, BUILD), pool, pairs, fill)
    }

    /// The same, with leaf pages whose nodes are so many cache lines wide: nonleaf nodes, leaf nodes. None if there is
    /// no such page.
    pub fn load_widths(widths: [u8; 2], pool: Pool, pairs: &[Pair], fill: usize) -> Option<Self> {
        let [_, _, inner_w, inner_x] = Geometry::choose(LaneKind::U32, BUILD).widths();
        let widths = [widths[0], widths[1], inner_w, inner_x];
        Some(Self::load_with(Geometry::with_widths(LaneKind::U32, BUILD, widths)?, pool, pairs, fill))
    }

    fn load_with(geometry: Geometry, pool: Pool, pairs: &[Pair], fill: usize) -> Self {
        let mut store = PoolStore::new(pool);
        let mut memory = Box::<Loader<u32>>::new_uninit();
        Loader::init(&mut memory, fill);
        // SAFETY: made by `init`.
        let mut loader = unsafe { memory.assume_init() };
        let pool = store.pool_mut();
        let mut write = |block, page: &PageBytes| {
            while pool.blocks() <= block {
                pool.allocate();
            }
            pool.page_mut(block).copy_from_slice(page);
        };
        for &(key, id) in pairs {
            loader.add(&geometry, (), &entry(key, id), &mut write);
        }
        loader.finish(&geometry, (), &mut write);
        DiskFirst { store, geometry, fill }
    }

    /// Its pages.
    pub fn pool(&self) -> Ref<'_, Pool> {
        self.store.pool()
    }

    fn tree(&self) -> Tree<'_, PoolStore, u32> {
        Tree::new(&self.store, &self.geometry)
    }
}

/// A tuple id as a row's place in a table: 256 rows to a block, of which the first has the number 1.
fn entry(key: u32, id: u32) -> Entry<'static, u32> {
    Entry { key, tid: Tid::new(false, id >> 8, (id & 0xff) as u16 + 1, false), child: NO_BLOCK }
}

/// The tuple id of a row.
#[inline]
fn id(tid: Tid) -> u32 {
    tid.block() << 8 | u32::from(tid.offset() - 1)
}

/// A page of the tree. As much of it is asked for as leaf pages begin with: the pages above them are in the caches.
#[inline]
fn open<'a>(pool: &'a mut Pool, geometry: &'a Geometry, block: Block) -> Page<'a, u32> {
    let bytes: &PageBytes = pool.page(block).first_chunk().expect("a page of the pool's size");
    bytes[..geometry.front(0)].iter().step_by(CACHE_LINE).for_each(|line| simd::prefetch(line));
    Page::open(bytes, geometry, block).expect(SOUND)
}

/// The leaf for a key.
#[inline]
fn leaf<'a>(pool: &'a mut Pool, geometry: &'a Geometry, key: u32) -> (Block, Page<'a, u32>) {
    let mut block = ROOT;
    loop {
        let page = open(pool, geometry, block);
        if page.level() == 0 {
            break;
        }
        block = page.child_for(before(key)).expect("the leftmost child has all keys before the others'");
    }
    let bytes = pool.page(block).first_chunk().expect("a page of the pool's size");
    (block, Page::open(bytes, geometry, block).expect(SOUND))
}

/// Makes a change of one page.
fn apply(pool: &mut Pool, block: Block, change: &Change<'_>) {
    let page = pool.page_mut(block).first_chunk_mut().expect("a page of the pool's size");
    change.apply(0, page, &mut Ranges::whole());
}

/// The place before all rows of a key.
#[inline]
fn before(key: u32) -> Key<u32> {
    Key::new(key, Tid::MIN)
}

/// The place behind all rows of a key.
#[inline]
fn behind(key: u32) -> Key<u32> {
    Key::new(key, Tid::MAX)
}

impl Paged for DiskFirst {
    fn pool_mut(&mut self) -> &mut Pool {
        self.store.pool_mut()
    }

    fn leaf_blocks(&mut self, first: u32, last: u32) -> Vec<Block> {
        let (tree, wanted) = (self.tree(), Between(first, last));
        let mut leaves = JumpPointers::<u32>::new();
        leaves.begin(Direction::Forward, &before(first));
        std::iter::from_fn(|| {
            let leaf = leaves.next(tree, &RowsOf(&wanted)).expect(SOUND)?;
            leaves.pass(leaf);
            Some(leaf)
        })
        .collect()
    }
}

impl Index for DiskFirst {
    /// By the engine's pages alone, as [`search`](Index::search) does it, unless the leaf has no room.
    fn insert(&mut self, key: u32, new: u32) -> Option<u32> {
        let (block, page) = leaf(self.store.pool_mut(), &self.geometry, key);
        if page.entry(page.lower_bound(before(key))).is_some_and(|entry| entry.key == key) {
            let old = self.remove(key);
            self.insert(key, new);
            return old;
        }
        let (entry, mut change) = (entry(key, new), Change::new());
        if !page.is_beyond(entry.key()) && page.insertion(entry.key(), &entry, &mut change) {
            apply(self.store.pool_mut(), block, &change);
        } else {
            self.tree().insert_entry(&entry, InsertOptions::filling(self.fill)).expect(SOUND);
        }
        None
    }

    /// As VACUUM does it, but for one entry, and by the engine's pages alone; a page without entries stays where it is.
    fn remove(&mut self, key: u32) -> Option<u32> {
        let (block, page) = leaf(self.store.pool_mut(), &self.geometry, key);
        let place = page.lower_bound(before(key));
        let found = page.entry(place).filter(|entry| entry.key == key).map(|entry| id(entry.tid))?;
        let removal = Edit::Remove { node: place.node, mask: 1 << place.slot };
        apply(self.store.pool_mut(), block, &Change::new().edit(removal));
        Some(found)
    }

    /// By the engine's pages alone: nobody else changes the tree, so there is nothing to lock or to be checked on
    /// arrival.
    #[inline]
    fn search(&mut self, key: u32) -> Option<u32> {
        let (_, page) = leaf(self.store.pool_mut(), &self.geometry, key);
        let found = page.entry(page.lower_bound(before(key))).filter(|entry| entry.key == key)?;
        Some(id(found.tid))
    }

    /// By the engine's pages alone, as [`search`](Index::search) does it: a server's scans copy the matches of a page
    /// instead, because others may change it. While a page's lines are read, those of the page behind it are asked for.
    fn scan(&mut self, first: u32, last: u32, mut each: impl FnMut(u32, u32)) {
        let tree = self.tree();
        let leaf = tree.leaf(Seek::At(before(first))).expect(SOUND);
        let mut block = leaf.block();
        leaf.release();
        let (pool, geometry) = (self.store.pool_mut(), self.geometry);
        let mut begin = Some(before(first));
        while is_link(block) {
            let page = open(pool, &geometry, block);
            let next = Some(page.right()).filter(|&right| is_link(right) && page.high() <= behind(last));
            let ahead = next.map_or(std::ptr::null(), |next| pool.page(next).as_ptr());
            let page = open(pool, &geometry, block);
            let mut from = begin.take().map_or(Position { node: 0, slot: 0 }, |place| page.lower_bound(place));
            for number in from.node.into()..page.nodes() {
                let lines = [number, number + 1].map(|number| number * PAGE_LINES / page.nodes());
                (lines[0]..lines[1]).for_each(|line| simd::prefetch(ahead.wrapping_add(line * CACHE_LINE)));
                let node = page.node(number);
                let slots = usize::from(from.slot)..node.len();
                let is_inside = slots.is_empty() || node.lane(slots.end - 1) <= last;
                let end =
                    if is_inside { slots.end } else { slots.clone().find(|slot| node.lane(*slot) > last).unwrap_or(0) };
                node.for_each(slots.start..end, |_, head, tid| each(node.lane_of(head), id(tid)));
                if !is_inside {
                    return;
                }
                from.slot = 0;
            }
            block = page.right();
        }
    }

    /// By the engine's own check of a whole index.
    fn check(&mut self) -> usize {
        let tree = self.tree();
        let mut words = vec![0; BlockSet::words(self.store.block_count())];
        let mut report = |block, what: &str, detail: std::fmt::Arguments<'_>| panic!("block {block}: {what}: {detail}");
        tree.verify(Some(true), &mut BlockSet::new(&mut words), &mut report).expect(SOUND);
        tree.census().expect(SOUND).entries as usize
    }
}

/// All keys from one to another, both included.
struct Between(u32, u32);

impl Wanted<u32> for Between {
    fn at_or_after(&self, place: &Key<u32>, out: &mut Range<u32>) -> bool {
        *out = Range { first: before(self.0).max(*place), after: behind(self.1) };
        out.first < out.after
    }

    fn before(&self, place: &Key<u32>, out: &mut Range<u32>) -> bool {
        *out = Range { first: before(self.0), after: behind(self.1).min(*place) };
        out.first < out.after
    }

    fn is_one_range(&self) -> bool {
        true
    }

    fn null_rank(&self) -> bool {
        true
    }

    fn wants_keys(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::tests::{agrees, agrees_when_large, pairs, steps};
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(50))]
        #[test]
        fn does_the_same_as_a_map(
            pairs in pairs(), steps in steps(), fill in 50..=100usize, frames in prop::sample::select(vec![8, 100])
        ) {
            let mut tree = DiskFirst::load(Pool::new(PAGE_SIZE, frames), &pairs, fill);
            prop_assert_eq!(tree.check(), pairs.len());
            agrees(tree, &pairs, &steps);
        }
    }

    #[test]
    fn does_the_same_when_large() {
        for frames in [8, 1000] {
            let pairs: Vec<Pair> = (0..800_000).map(|key| (key * 7, u32::MAX - key)).collect();
            let tree = DiskFirst::load(Pool::new(PAGE_SIZE, frames), &pairs, 100);
            assert!(tree.pool().pages() > 300, "{} pages", tree.pool().pages());
            agrees_when_large(tree, &pairs, 20_000);
        }
    }
}
