//! What is compared: leaves of all kinds and sizes, in a map for one thread or in one for many.

use std::hint::black_box;

use fpbtree_lab::index::{Index, Pair};
use fpbtree_lab::memory::pair_leaf::PairLeaf;
use fpbtree_lab::memory::shared_leaf::SharedMap;
use fpbtree_lab::memory::sorted_leaf::{FingerprintLeaf, Leaf, LeafMap, SortedLeaf};
use fpbtree_lab::search::{Binary, Linear, LinearSimd};

/// Kinds of leaves, in the order of [`of_all_kinds`]. Pairs are the paper's layout; in the others, keys are apart from
/// tuple ids.
pub const KINDS: [&str; 8] = [
    "pairs, linear search",
    "pairs, linear search, sentinels",
    "pairs, fingerprints",
    "keys, linear search",
    "keys, linear search, sentinels",
    "keys, binary search",
    "keys, vectors of 256 bits",
    "keys, vectors of 256 bits, sentinels",
];
/// The paper's: FAST-FAIR without, with sentinels, and with fingerprints.
pub const LINEAR: usize = 0;
pub const SENTINELS: usize = 1;
pub const FINGERPRINTS: usize = 2;
/// The others without sentinels, and with them.
pub const WITHOUT: [usize; 4] = [LINEAR, 3, 5, 6];
pub const WITH: [usize; 3] = [SENTINELS, 4, 7];

/// How full leaves are loaded.
pub const FILL: f64 = 0.7;

/// A map for one thread.
pub trait Single {
    /// Searches for all keys, each as soon as the one before it was found: nothing of two searches is done at the same
    /// time.
    fn search_all(&mut self, keys: &[u32]);
    fn insert_all(&mut self, pairs: &[Pair]);
    fn search(&mut self, key: u32) -> Option<u32>;
    fn insert(&mut self, key: u32, id: u32) -> Option<u32>;
}

impl<L: Leaf> Single for LeafMap<L> {
    fn search_all(&mut self, keys: &[u32]) {
        chase(keys, |key| Index::search(self, key));
    }

    fn insert_all(&mut self, pairs: &[Pair]) {
        for &(key, id) in pairs {
            assert_eq!(Index::insert(self, key, id), None);
        }
    }

    fn search(&mut self, key: u32) -> Option<u32> {
        Index::search(self, key)
    }

    fn insert(&mut self, key: u32, id: u32) -> Option<u32> {
        Index::insert(self, key, id)
    }
}

/// A map for many threads.
pub trait Shared: Sync {
    /// As [`Single::search_all`].
    fn search_all(&self, keys: &[u32]);
    fn insert_all(&self, pairs: &[Pair]);
    fn search(&self, key: u32) -> Option<u32>;
    fn insert(&self, key: u32, id: u32) -> Option<u32>;
}

impl<L: Leaf + Send + Sync> Shared for SharedMap<L> {
    fn search_all(&self, keys: &[u32]) {
        chase(keys, |key| SharedMap::search(self, key));
    }

    fn insert_all(&self, pairs: &[Pair]) {
        for &(key, id) in pairs {
            assert_eq!(SharedMap::insert(self, key, id), None);
        }
    }

    fn search(&self, key: u32) -> Option<u32> {
        SharedMap::search(self, key)
    }

    fn insert(&self, key: u32, id: u32) -> Option<u32> {
        SharedMap::insert(self, key, id)
    }
}

#[inline]
fn chase(keys: &[u32], mut search: impl FnMut(u32) -> Option<u32>) {
    let zero = black_box(0);
    let mut last = 0;
    for &key in keys {
        last = search(key ^ (last & zero)).expect("a key that is there");
    }
    black_box(last);
}

pub type NewSingle = fn(&[Pair]) -> Box<dyn Single>;
pub type NewShared = fn(&[Pair]) -> Box<dyn Shared>;

/// A map of such leaves for one thread.
pub fn single<L: Leaf + 'static>(pairs: &[Pair]) -> Box<dyn Single> {
    Box::new(LeafMap::<L>::load(pairs, FILL))
}

/// A map of such leaves for many threads.
pub fn shared<L: Leaf + Send + Sync + 'static>(pairs: &[Pair]) -> Box<dyn Shared> {
    Box::new(SharedMap::<L>::load(pairs, FILL))
}

/// Maps of leaves of all kinds, each of so many pairs, in so many cache lines of keys, or of pairs.
macro_rules! of_all_kinds {
    ($made:ident, $pairs:literal, $lines:literal, $lines_of_pairs:literal) => {
        [
            $made::<PairLeaf<$pairs, 0>>,
            $made::<PairLeaf<$pairs, $lines_of_pairs>>,
            $made::<FingerprintLeaf<$pairs>>,
            $made::<SortedLeaf<Linear, $pairs, 0>>,
            $made::<SortedLeaf<Linear, $pairs, $lines>>,
            $made::<SortedLeaf<Binary, $pairs, 0>>,
            $made::<SortedLeaf<LinearSimd<256>, $pairs, 0>>,
            $made::<SortedLeaf<LinearSimd<256>, $pairs, $lines>>,
        ]
    };
}

/// Bytes of a node, and the maps of such nodes.
pub const SINGLE: [(f64, [NewSingle; KINDS.len()]); 4] = [
    (512.0, of_all_kinds!(single, 64, 4, 8)),
    (1024.0, of_all_kinds!(single, 128, 8, 16)),
    (2048.0, of_all_kinds!(single, 256, 16, 32)),
    (4096.0, of_all_kinds!(single, 512, 32, 64)),
];

/// Maps of nodes of 4 KB for many threads.
pub const SHARED: [NewShared; KINDS.len()] = of_all_kinds!(shared, 512, 32, 64);

/// Nodes of 4 KB with other sentinels, or another search of them: what a sentinel stands for, and the search.
pub const VARIANTS: [(&str, NewSingle); 9] = [
    ("16 pairs, linear search", single::<PairLeaf<512, 32>>),
    ("32 pairs, linear search", single::<PairLeaf<512, 16>>),
    ("64 pairs, linear search", single::<PairLeaf<512, 8>>),
    ("16 keys, binary search", single::<SortedLeaf<Binary, 512, 32>>),
    ("16 keys, vectors of 128 bits", single::<SortedLeaf<LinearSimd<128>, 512, 32>>),
    ("16 keys, vectors of 512 bits", single::<SortedLeaf<LinearSimd<512>, 512, 32>>),
    ("8 keys, vectors of 256 bits", single::<SortedLeaf<LinearSimd<256>, 512, 64>>),
    ("32 keys, vectors of 256 bits", single::<SortedLeaf<LinearSimd<256>, 512, 16>>),
    ("64 keys, vectors of 256 bits", single::<SortedLeaf<LinearSimd<256>, 512, 8>>),
];
