//! The map of leaves for many threads: a lock for each leaf, as the sentinel array has none of its own (Sentinel Array
//! paper §III-C).

use super::sorted_leaf::{Inserted, Leaf};
use crate::index::Pair;
use crate::search::{Binary, Search};
use crossbeam_utils::sync::ShardedLock;
use std::iter;
use std::sync::{PoisonError, RwLock};

/// Leaves under a sorted array of separators, to which many threads have access.
pub struct SharedMap<L> {
    /// Shared by all who work in a leaf; a split has it alone.
    leaves: ShardedLock<Leaves<L>>,
}

struct Leaves<L> {
    /// The least key that each leaf but the first can have.
    separators: Vec<u32>,
    leaves: Vec<Box<RwLock<L>>>,
}

impl<L: Leaf> Leaves<L> {
    #[inline]
    fn place(&self, key: u32) -> usize {
        Binary::upper(&self.separators, key)
    }

    /// Splits the leaf that `key` belongs to, if it is still full.
    fn split(&mut self, key: u32) {
        let place = self.place(key);
        let leaf = self.leaves[place].get_mut().unwrap_or_else(PoisonError::into_inner);
        if leaf.len() == L::CAPACITY {
            let (first, upper) = leaf.split();
            self.separators.insert(place, first);
            self.leaves.insert(place + 1, Box::new(RwLock::new(upper)));
        }
    }
}

impl<L: Leaf> SharedMap<L> {
    /// A map of sorted pairs. Leaves are made full to `fill`, from 0 to 1.
    pub fn load(pairs: &[Pair], fill: f64) -> Self {
        let each = ((L::CAPACITY as f64 * fill) as usize).clamp(1, L::CAPACITY);
        let (first, others) = pairs.split_at(each.min(pairs.len()));
        let parts = iter::once(first).chain(others.chunks(each));
        let leaves = parts.map(|part| Box::new(RwLock::new(L::load(part)))).collect();
        let separators = others.chunks(each).map(|part| part[0].0).collect();
        SharedMap { leaves: ShardedLock::new(Leaves { separators, leaves }) }
    }

    /// The tuple id of a key.
    #[inline]
    pub fn search(&self, key: u32) -> Option<u32> {
        let leaves = self.leaves.read().unwrap_or_else(PoisonError::into_inner);
        let leaf = leaves.leaves[leaves.place(key)].read().unwrap_or_else(PoisonError::into_inner);
        leaf.search(key)
    }

    /// Adds a pair. Returns the tuple id that the key had, if it was there.
    pub fn insert(&self, key: u32, id: u32) -> Option<u32> {
        loop {
            {
                let leaves = self.leaves.read().unwrap_or_else(PoisonError::into_inner);
                let mut leaf = leaves.leaves[leaves.place(key)].write().unwrap_or_else(PoisonError::into_inner);
                match leaf.insert(key, id) {
                    Inserted::New => return None,
                    Inserted::Replaced(old) => return Some(old),
                    Inserted::Full => (),
                }
            }
            self.leaves.write().unwrap_or_else(PoisonError::into_inner).split(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::sorted_leaf::{FingerprintLeaf, SortedLeaf};
    use crate::search::Linear;

    /// Threads insert keys between each other's, and all look for all.
    fn many_threads<L: Leaf + Send + Sync>() {
        const THREADS: u32 = 4;
        const EACH: u32 = 5000;
        let map = SharedMap::<L>::load(&[(0, 7)], 0.7);
        let map = &map;
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                scope.spawn(move || {
                    for key in (0..EACH).map(|n| n * THREADS + thread + 1) {
                        assert_eq!(map.insert(key, key), None);
                        assert_eq!(map.insert(key, !key), Some(key));
                        assert_eq!(map.search(key), Some(!key));
                    }
                });
            }
        });
        assert!((1..=THREADS * EACH).all(|key| map.search(key) == Some(!key)));
        assert_eq!((map.search(0), map.search(THREADS * EACH + 1)), (Some(7), None));
        let leaves = map.leaves.read().expect("sound");
        let checked = leaves.leaves.iter().map(|leaf| {
            let leaf = leaf.read().expect("sound");
            leaf.check();
            leaf.len()
        });
        assert_eq!(checked.sum::<usize>(), 1 + (THREADS * EACH) as usize);
    }

    #[test]
    fn what_many_threads_insert_is_there() {
        many_threads::<SortedLeaf<Linear, 128, 8>>();
        many_threads::<FingerprintLeaf<128>>();
    }
}
