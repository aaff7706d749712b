//! The disk-first fpB+-tree (SIGMOD 2002, §3.1): the engine's own pages over the pool. They have one size, and entries carry a
//! row's tail of six bytes where the other trees have a tuple id of four.

use fpbtree_engine::key::{Key, LaneKind, Tail};
use fpbtree_engine::page::{Entry, Geometry, Page};
use fpbtree_engine::store::{NO_BLOCK, PAGE_SIZE, ROOT};
use fpbtree_engine::tree::load::Loader;

use crate::index::Pair;
use crate::pool::Pool;

/// The tree, to be searched.
pub struct DiskFirst {
    pool: Pool,
    geometry: Geometry,
}

impl DiskFirst {
    /// A tree of sorted pairs in an empty pool, with leaf pages filled to `fill` percent.
    ///
    /// # Panics
    /// If the pool's pages are not the engine's.
    pub fn load(mut pool: Pool, pairs: &[Pair], fill: usize) -> Self {
        assert_eq!(pool.page_size(), PAGE_SIZE, "the engine's pages have one size");
        let geometry = Geometry::choose(LaneKind::U32, 1);
        let mut memory = Box::<Loader<u32>>::new_uninit();
        Loader::init(&mut memory, fill);
        // SAFETY: made by `init`.
        let mut loader = unsafe { memory.assume_init() };
        let mut blocks = 0;
        let mut write = |block, page: &[u8; PAGE_SIZE]| {
            while blocks <= block {
                blocks = pool.allocate() + 1;
            }
            pool.page_mut(block).copy_from_slice(page);
        };
        for &(key, id) in pairs {
            let entry = Entry { key, tail: Tail::new(false, id, 1, false), child: NO_BLOCK };
            loader.add(&geometry, (), &entry, &mut write);
        }
        loader.finish(&geometry, (), &mut write);
        DiskFirst { pool, geometry }
    }

    /// The tuple id of a key.
    #[inline]
    pub fn search(&mut self, key: u32) -> Option<u32> {
        let place = Key::new(key, Tail::MIN);
        let mut block = ROOT;
        loop {
            let bytes = self.pool.page(block).first_chunk().expect("a page of the pool's size");
            let page: Page<'_, u32> = Page::open(bytes, &self.geometry, block).expect("a page of this tree");
            if page.level() == 0 {
                let found = page.entry(page.lower_bound(place)).filter(|entry| entry.key == key)?;
                return Some(found.tail.block());
            }
            block = page.child_for(place).expect("the leftmost child has all keys before the others'");
        }
    }

    /// Its pages.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::MOST_KEY;
    use crate::index::tests::pairs;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(50))]
        #[test]
        fn finds_what_was_loaded(pairs in pairs(), others in prop::collection::vec(0..=MOST_KEY, 0..100), fill in 50..=100usize) {
            let pairs: Vec<_> = pairs.into_iter().map(|(key, id)| (key, id >> 1)).collect();
            let mut tree = DiskFirst::load(Pool::new(PAGE_SIZE, 8), &pairs, fill);
            for key in pairs.iter().map(|pair| pair.0).chain(others) {
                let at = pairs.binary_search_by_key(&key, |pair| pair.0);
                prop_assert_eq!(tree.search(key), at.ok().map(|at| pairs[at].1));
            }
        }
    }

    #[test]
    fn many_pages_are_searched() {
        let pairs: Vec<Pair> = (0..300_000).map(|key| (key * 7, key)).collect();
        let mut tree = DiskFirst::load(Pool::new(PAGE_SIZE, 100), &pairs, 90);
        for &(key, id) in pairs.iter().step_by(37) {
            assert_eq!((tree.search(key), tree.search(key + 1)), (Some(id), None));
        }
        assert!(tree.pool().pages() > 400);
    }
}
