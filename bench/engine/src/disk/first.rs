//! The disk-first fpB+-tree (SIGMOD 2002, §3.1): the engine's own tree over the pool. Its pages have one size, and its
//! entries a row's tail of six bytes where the other trees have a tuple id of four.

use std::cell::Ref;

use fpbtree_engine::change::{Change, Edit};
use fpbtree_engine::key::{Key, LaneKind, Tail};
use fpbtree_engine::page::{Entry, Geometry, Page, Position};
use fpbtree_engine::simd::{self, CACHE_LINE};
use fpbtree_engine::store::{Block, NO_BLOCK, PageBytes, PageStore, ROOT};
use fpbtree_engine::tree::load::Loader;
use fpbtree_engine::tree::verify::BlockSet;
use fpbtree_engine::tree::{Manner, Tree, Verdict};

use super::store::PoolStore;
use crate::index::{Index, Pair};
use crate::pool::Pool;

/// What the engine says where pages are damaged. These are not.
const SOUND: &str = "a sound tree";

/// The tree.
pub struct DiskFirst {
    store: PoolStore,
    geometry: Geometry,
    fill: usize,
}

impl DiskFirst {
    /// A tree of sorted pairs in an empty pool, with leaf pages filled to `fill` percent, as insertions of ascending keys
    /// fill them, too.
    ///
    /// # Panics
    /// If the pool's pages are not the engine's.
    pub fn load(pool: Pool, pairs: &[Pair], fill: usize) -> Self {
        let mut store = PoolStore::new(pool);
        let geometry = Geometry::choose(LaneKind::U32, 1);
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

    /// Its pages: to read some ahead, or to [`forget`](Pool::forget) what is in memory.
    pub fn pool_mut(&mut self) -> &mut Pool {
        self.store.pool_mut()
    }

    fn tree(&self) -> Tree<'_, PoolStore, u32> {
        Tree::new(&self.store, &self.geometry)
    }
}

/// A tuple id as a row's place in a table: 256 rows to a block, of which the first has the number 1.
fn entry(key: u32, id: u32) -> Entry<'static, u32> {
    Entry { key, tail: Tail::new(false, id >> 8, (id & 0xff) as u16 + 1, false), child: NO_BLOCK }
}

/// The tuple id of a row.
#[inline]
fn id(tail: Tail) -> u32 {
    tail.block() << 8 | u32::from(tail.offset() - 1)
}

/// The place before all rows of a key.
#[inline]
fn before(key: u32) -> Key<u32> {
    Key::new(key, Tail::MIN)
}

/// The place behind all rows of a key.
#[inline]
fn behind(key: u32) -> Key<u32> {
    Key::new(key, Tail::MAX)
}

/// A page, of whose front as much is asked for at once as leaf pages begin with: those above them are in the caches.
#[inline]
fn open<'p>(pool: &'p mut Pool, geometry: &'p Geometry, block: Block) -> Page<'p, u32> {
    let bytes: &PageBytes = pool.page(block).first_chunk().expect("a page of the pool's size");
    bytes[..geometry.front(0)].iter().step_by(CACHE_LINE).for_each(|line| simd::prefetch(line));
    Page::open(bytes, geometry, block).expect(SOUND)
}

/// The leaf page where a key belongs.
#[inline]
fn leaf_of(pool: &mut Pool, geometry: &Geometry, key: u32) -> Block {
    let mut block = ROOT;
    loop {
        let page = open(pool, geometry, block);
        if page.level() == 0 {
            return block;
        }
        block = page.child_for(before(key)).expect("the leftmost child has all keys before the others'");
    }
}

impl Index for DiskFirst {
    /// As into a unique index, where an equal key is looked for under the lock that the insertion takes.
    fn insert(&mut self, key: u32, new: u32) -> Option<u32> {
        let (entry, manner) = (entry(key, new), Manner::filling(self.fill));
        let mut old = None;
        let mut look = |tail| {
            old = Some(id(tail));
            Verdict::Stop
        };
        self.tree().insert_unique((before(key), behind(key)), Some(&entry), manner, &mut look).expect(SOUND);
        if old.is_some() {
            self.remove(key);
            self.tree().insert_entry(&entry, manner).expect(SOUND);
        }
        old
    }

    /// As VACUUM does it, but for one entry; a page without entries stays where it is.
    fn remove(&mut self, key: u32) -> Option<u32> {
        let tree = self.tree();
        let leaf = tree.leaf_for(before(key)).expect(SOUND);
        let page = tree.page(leaf).expect(SOUND);
        let place = page.lower_bound(before(key));
        let found = page.entry(place).filter(|entry| entry.key == key).map(|entry| id(entry.tail));
        if found.is_some() {
            let removal = Edit::Remove { node: place.node, mask: 1 << place.slot };
            self.store.commit(&Change::new(leaf).edit(removal));
        }
        tree.release(leaf);
        found
    }

    /// By the engine's pages alone: nobody else changes the tree, so there is nothing to lock or to be checked on arrival.
    #[inline]
    fn search(&mut self, key: u32) -> Option<u32> {
        let (pool, geometry) = (self.store.pool_mut(), &self.geometry);
        let leaf = leaf_of(pool, geometry, key);
        let page = open(pool, geometry, leaf);
        let found = page.entry(page.lower_bound(before(key))).filter(|entry| entry.key == key)?;
        Some(id(found.tail))
    }

    /// By the engine's pages alone, as [`search`](Index::search) does it: no copy is needed of what nobody else changes.
    fn scan(&mut self, first: u32, last: u32, mut each: impl FnMut(u32, u32)) {
        let (pool, geometry) = (self.store.pool_mut(), &self.geometry);
        let mut block = leaf_of(pool, geometry, first);
        let mut from = open(pool, geometry, block).lower_bound(before(first));
        while block != NO_BLOCK {
            let page = open(pool, geometry, block);
            for number in from.node.into()..page.nodes() {
                let node = page.node(number);
                for slot in from.slot.into()..node.len() {
                    let key = node.lane(slot);
                    if key > last {
                        return;
                    }
                    each(key, id(node.tail(slot)));
                }
                from.slot = 0;
            }
            (block, from) = (page.right(), Position { node: 0, slot: 0 });
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::tests::{agrees, agrees_when_large, pairs, steps};
    use fpbtree_engine::store::PAGE_SIZE;
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
            let pairs: Vec<Pair> = (0..300_000).map(|key| (key * 7, u32::MAX - key)).collect();
            let tree = DiskFirst::load(Pool::new(PAGE_SIZE, frames), &pairs, 100);
            assert!(tree.pool().pages() > 300);
            agrees_when_large(tree, &pairs, 20_000);
        }
    }
}
