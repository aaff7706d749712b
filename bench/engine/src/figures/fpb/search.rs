//! Searches in trees of pages that are all in the pool (Chen, Gibbons, Mowry and Valentin, SIGMOD 2002, Figure 10), and the
//! pages that each tree takes (Figure 16). What is best for a page size is chosen by what the machine's memory takes.

use std::hint::black_box;
use std::time::Instant;

use fpbtree_engine::store::PAGE_SIZE;
use fpbtree_lab::disk::cache_first::{CacheFirst, optimal_width};
use fpbtree_lab::disk::first::DiskFirst;
use fpbtree_lab::disk::micro::{Layout, MicroPage};
use fpbtree_lab::disk::sorted::SortedPage;
use fpbtree_lab::disk::tree::Tree;
use fpbtree_lab::index::{Index, MOST_KEY, Pair};
use fpbtree_lab::memory::latency::Latency;
use fpbtree_lab::pool::Pool;
use fpbtree_lab::search::{Binary, LinearSimd};
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::Arguments;

/// Rounds, of which the median counts, and searches in each.
const ROUNDS: usize = 5;
const SEARCHES: usize = 1_000_000;
/// How full trees are made: a mature tree's pages (§4.2.4).
const FILL: f64 = 0.7;
/// Memory that is waited for: far more than any cache.
const WAITED_FOR: usize = 1 << 28;

/// A tree, searched by name.
type Searched = (&'static str, usize, Box<dyn FnMut(u32) -> Option<u32>>);

/// Prints nanoseconds a search, in brackets how many times as fast as in the disk-optimised tree, and pages.
pub fn run(arguments: &Arguments) {
    let count = arguments.get("pairs", 10_000_000);
    let mut random = StdRng::seed_from_u64(2002);
    let step = MOST_KEY / count as u32;
    let pairs: Vec<Pair> = (0..count as u32).map(|at| (at * step, at)).collect();
    let sought: Vec<u32> = (0..SEARCHES).map(|_| pairs[random.random_range(0..count)].0).collect();
    let latency = Latency::measure(WAITED_FOR);
    println!("T1 {:.0} ns, Tnext {:.1} ns; {count} pairs, {:.0} % full", latency.first, latency.next, FILL * 100.0);
    for page_size in [4096, 8192, 16384, 32768] {
        let mut trees = trees(page_size, &pairs, latency);
        let rounds: Vec<Vec<f64>> =
            (0..=ROUNDS).map(|_| trees.iter_mut().map(|tree| time(tree, &sought)).collect()).collect();
        let median = |tree: usize| {
            // The first round brings the trees into memory.
            let mut times: Vec<f64> = rounds[1..].iter().map(|round| round[tree]).collect();
            times.sort_by(f64::total_cmp);
            times[ROUNDS / 2]
        };
        for (at, (name, pages, _)) in trees.iter().enumerate() {
            let ahead = median(0) / median(at);
            println!("{page_size:>6} {name:<46} {:>6.0} ns ({ahead:.2} x) {pages:>8} pages", median(at));
        }
    }
}

/// The trees for a page size, the disk-optimised one first.
fn trees(page_size: usize, pairs: &[Pair], latency: Latency) -> Vec<Searched> {
    let pool = || Pool::new(page_size, pairs.len() * 24 / page_size + 1000);
    let (t1, t_next) = (latency.first, latency.next);
    let sorted: Tree<SortedPage<Binary>> = Tree::load(pool(), SortedPage::new(page_size), pairs, FILL);
    let layout = Layout::best(page_size, t1, t_next).expect("room for a micro-index");
    let micro: Tree<MicroPage<Binary>> = Tree::load(pool(), MicroPage::new(layout), pairs, FILL);
    let mut cache_first: CacheFirst<Binary> =
        CacheFirst::load(pairs, FILL, pool(), optimal_width(page_size, t1, t_next));
    let pages = cache_first.pool().pages();
    let mut trees: Vec<Searched> = vec![
        searched("disk-optimised, binary search", sorted.pool().pages(), sorted),
        searched("micro-indexing", micro.pool().pages(), micro),
        searched("cache-first fpB+-tree", pages, cache_first),
    ];
    if page_size == PAGE_SIZE {
        let mut first = DiskFirst::load(pool(), pairs, (FILL * 100.0) as usize);
        trees.push(("disk-first fpB+-tree (the engine)", first.pool().pages(), Box::new(move |key| first.search(key))));
    }
    let vectors: Tree<MicroPage<LinearSimd<256>>> = Tree::load(pool(), MicroPage::new(layout), pairs, FILL);
    trees.push(searched("micro-indexing, vectors of 256 bits", vectors.pool().pages(), vectors));
    trees
}

fn searched(name: &'static str, pages: usize, mut tree: impl Index + 'static) -> Searched {
    (name, pages, Box::new(move |key| tree.search(key)))
}

/// Nanoseconds a search.
fn time((name, _, search): &mut Searched, sought: &[u32]) -> f64 {
    let start = Instant::now();
    for &key in sought {
        assert!(black_box(search(key)).is_some(), "{name}: {key}");
    }
    start.elapsed().as_nanos() as f64 / sought.len() as f64
}
