//! The paper's four structures, loaded and used in batches (SIGMOD 2002, §4.1).

use std::hint::black_box;
use std::time::Instant;

use fpbtree_engine::format::PAGE_SIZE;
use fpbtree_lab::disk::Paged;
use fpbtree_lab::disk::cache_first::{CacheFirst, optimal_width};
use fpbtree_lab::disk::first::DiskFirst;
use fpbtree_lab::disk::micro::{Layout, MicroPage};
use fpbtree_lab::disk::sorted::SortedPage;
use fpbtree_lab::disk::tree::Tree;
use fpbtree_lab::index::{MOST_KEY, Pair};
use fpbtree_lab::pool::{Block, Pool};
use fpbtree_lab::search::{Binary, Counting};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// The paper's T1 and Tnext (Table 1), by which all widths are chosen (Table 2): those of the engine, too.
pub const PAPER: (f64, f64) = (150.0, 10.0);

/// A structure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    DiskOptimized,
    Micro,
    DiskFirst,
    CacheFirst,
}

/// All of them, the one that the others are compared to first.
pub const KINDS: [Kind; 4] = [Kind::DiskOptimized, Kind::Micro, Kind::DiskFirst, Kind::CacheFirst];

impl Kind {
    /// What it is called, and how its nodes are searched.
    pub fn name(self) -> &'static str {
        match self {
            Kind::DiskOptimized => "disk-optimised, branchless binary search",
            Kind::Micro => "micro-indexing, vectors",
            Kind::DiskFirst => "disk-first fpB+-tree, the engine",
            Kind::CacheFirst => "cache-first fpB+-tree, vectors",
        }
    }

    /// Whether there are such pages of this size here: the engine's have one.
    pub fn is_built(self, page_size: usize) -> bool {
        self != Kind::DiskFirst || page_size == PAGE_SIZE
    }
}

/// The kinds of which there are pages of this size.
pub fn kinds(page_size: usize) -> Vec<Kind> {
    KINDS.into_iter().filter(|kind| kind.is_built(page_size)).collect()
}

/// A tree that is used in batches, so that what a batch is made of is compiled for it.
pub trait Batches {
    /// Searches keys that are there.
    fn search_all(&mut self, keys: &[u32]);
    /// Inserts keys, with themselves as tuple ids.
    fn insert_all(&mut self, keys: &[u32]);
    /// Removes keys that are there.
    fn remove_all(&mut self, keys: &[u32]);
    /// A sum over the pairs from `first` to `last`, and how many they are.
    fn sum(&mut self, first: u32, last: u32) -> (u32, u32);
    /// As [`Paged`] says.
    fn pool(&mut self) -> &mut Pool;
    /// As [`Paged`] says.
    fn leaves(&mut self, first: u32, last: u32) -> Vec<Block>;
}

impl<T: Paged> Batches for T {
    fn search_all(&mut self, keys: &[u32]) {
        for &key in keys {
            assert!(black_box(self.search(key)).is_some(), "{key} is there");
        }
    }

    fn insert_all(&mut self, keys: &[u32]) {
        for &key in keys {
            let _ = black_box(self.insert(key, key));
        }
    }

    fn remove_all(&mut self, keys: &[u32]) {
        for &key in keys {
            assert!(black_box(self.remove(key)).is_some(), "{key} is there");
        }
    }

    fn sum(&mut self, first: u32, last: u32) -> (u32, u32) {
        let (mut sum, mut count) = (0u32, 0);
        self.scan(first, last, |key, id| {
            sum = sum.wrapping_add(key ^ id);
            count += 1;
        });
        (black_box(sum), count)
    }

    fn pool(&mut self) -> &mut Pool {
        self.pool_mut()
    }

    fn leaves(&mut self, first: u32, last: u32) -> Vec<Block> {
        self.leaf_blocks(first, last)
    }
}

/// A tree of one kind.
pub type Loaded = Box<dyn Batches>;

/// Loads a tree, whose pages are `percent` full, into a pool with room for it to become `most` pairs.
pub fn load(kind: Kind, page_size: usize, percent: usize, pairs: &[Pair], most: usize) -> Loaded {
    let (pool, fill) = (pool(page_size, percent, pairs.len(), most), percent as f64 / 100.0);
    match kind {
        Kind::DiskOptimized => Box::new(Tree::load(pool, SortedPage::<Binary>::new(page_size), pairs, fill)),
        Kind::Micro => {
            let layout = Layout::best(page_size, PAPER.0, PAPER.1).expect("a page large enough");
            Box::new(Tree::load(pool, MicroPage::<Counting>::new(layout), pairs, fill))
        }
        Kind::DiskFirst => Box::new(DiskFirst::load(pool, pairs, percent)),
        Kind::CacheFirst => {
            let width = optimal_width(page_size, PAPER.0, PAPER.1).lines;
            Box::new(CacheFirst::<Counting>::load(pairs, fill, pool, width))
        }
    }
}

/// Loads a full disk-optimised tree with as few entries in a page as if they took as many bytes as the engine's: a key
/// of four, a row's place of six.
pub fn load_wide(page_size: usize, pairs: &[Pair], most: usize) -> Loaded {
    let pool = pool(page_size, 100, pairs.len(), most);
    Box::new(Tree::load(pool, SortedPage::<Binary>::with_entries_of(10, page_size), pairs, 1.0))
}

/// A pool in which no page is ever given up: with room for `loaded` pairs in pages this full and, if there are to be
/// more, for pages that are half full. Pairs take eleven bytes at most, whatever is lost in their page.
pub fn pool(page_size: usize, percent: usize, loaded: usize, most: usize) -> Pool {
    let bytes = 11 * (loaded * 100 / percent + 2 * (most - loaded));
    Pool::new(page_size, bytes / page_size + bytes / page_size / 4 + 3000)
}

/// So many pairs, their keys spread over all keys.
pub fn pairs(count: usize) -> Vec<Pair> {
    let step = MOST_KEY / count as u32;
    (0..count as u32).map(|at| (at * step, at)).collect()
}

/// Keys of pairs, at random.
pub fn some_of(pairs: &[Pair], count: usize, random: &mut SmallRng) -> Vec<u32> {
    (0..count).map(|_| pairs[random.random_range(0..pairs.len())].0).collect()
}

/// Keys at random.
pub fn any_keys(count: usize, random: &mut SmallRng) -> Vec<u32> {
    (0..count).map(|_| random.random_range(0..=MOST_KEY)).collect()
}

/// Random numbers, the same every time.
pub fn random() -> SmallRng {
    SmallRng::seed_from_u64(2002)
}

/// Nanoseconds that each of `count` things takes.
pub fn nanoseconds(count: usize, work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_nanos() as f64 / count as f64
}
