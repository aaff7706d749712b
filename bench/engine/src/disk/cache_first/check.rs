//! What has to be so at all times.

use std::collections::{BTreeMap, BTreeSet};

use super::layout::{Kind, Page, Place};
use super::node::{fan_out, leaf_room};
use super::{CacheFirst, jump};
use crate::pool::Block;
use crate::search::Search;

/// What was found on a way through the tree.
#[derive(Default)]
struct Census {
    pairs: usize,
    /// The leaf nodes in order, and their parents.
    leaves: Vec<(Place, Place)>,
    leaf_parents: Vec<Place>,
    lines: BTreeMap<Block, BTreeSet<u16>>,
}

impl<S: Search> CacheFirst<S> {
    pub(super) fn check_all(&mut self) -> usize {
        let mut census = Census::default();
        let (root, levels) = (self.root, self.height - 1);
        self.check_node(root, Place::NONE, levels, (0, u32::MAX), &mut census);
        let leaves: Vec<Place> = census.leaves.iter().map(|&(leaf, _)| leaf).collect();
        self.check_links(&leaves);
        self.check_links(&census.leaf_parents);
        let chunks = self.check_leaf_pages(&census.leaves);
        for (&block, lines) in &census.lines {
            assert!(self.shape.used(self.pool.page(block)).eq(lines.iter().copied()), "slots of page {block}");
        }
        assert_eq!(self.pool.pages(), census.lines.len() + chunks, "pages");
        census.pairs
    }

    /// Checks a node that has `levels` levels below it and whose keys are from `range.0` on and below `range.1`.
    fn check_node(&mut self, at: Place, parent: Place, levels: usize, range: (u32, u32), census: &mut Census) {
        census.lines.entry(at.block).or_default().insert(at.line);
        let width = self.shape.width;
        let node = self.node(at);
        let keys = node.keys().to_vec();
        assert!(keys.is_sorted_by(|a, b| a < b), "order");
        assert!(keys.iter().all(|key| (range.0..range.1).contains(key)), "separators");
        if levels == 0 {
            assert!(keys.len() <= leaf_room(width), "room");
            assert!(Page(self.pool.page(at.block)).is(Kind::Leaf), "leaf page");
            census.pairs += keys.len();
            census.leaves.push((at, parent));
            return;
        }
        let children: Vec<Place> = node.children().collect();
        assert!((2..=fan_out(width)).contains(&children.len()), "fan-out");
        self.check_placement(at, parent, levels);
        if levels == 1 {
            census.leaf_parents.push(at);
        }
        let bounds: Vec<u32> = [range.0].into_iter().chain(keys).chain([range.1]).collect();
        for (child, bounds) in children.into_iter().zip(bounds.windows(2)) {
            self.check_node(child, at, levels - 1, (bounds[0], bounds[1]), census);
        }
    }

    fn check_placement(&mut self, at: Place, parent: Place, levels: usize) {
        let with_parent = parent.block == at.block;
        let level = if with_parent { self.node(parent).level() + 1 } else { 0 };
        assert_eq!(self.node(at).level(), level, "in-page level");
        let page = Page(self.pool.page(at.block));
        let overflowed = levels == 1 && parent != Place::NONE && !with_parent;
        assert!(page.is(Kind::Nonleaf) || overflowed && page.is(Kind::Overflow), "page of a nonleaf node");
    }

    fn check_links(&mut self, nodes: &[Place]) {
        let following = nodes.iter().skip(1).copied().chain([Place::NONE]);
        for (&node, next) in nodes.iter().zip(following) {
            assert_eq!(self.node(node).next(), next, "link of {node:?}");
        }
    }

    /// Checks the leaf pages' headers and the jump-pointer array. Returns how many chunks that has.
    fn check_leaf_pages(&mut self, leaves: &[(Place, Place)]) -> usize {
        let runs: Vec<(Place, Place)> =
            leaves.chunk_by(|(a, _), (b, _)| a.block == b.block).map(|run| run[0]).collect();
        let mut chunks = BTreeSet::new();
        for &(first, parent) in &runs {
            let page = Page(self.pool.page(first.block));
            assert_eq!((page.first(), page.parent()), (first.line, parent), "header of {}", first.block);
            chunks.insert(page.chunk());
        }
        let blocks: Vec<Block> = runs.iter().map(|(first, _)| first.block).collect();
        assert_eq!(jump::list(&mut self.pool, blocks[0], blocks[blocks.len() - 1]), blocks, "jump-pointer array");
        for &block in &blocks {
            assert_eq!(jump::list(&mut self.pool, block, block), [block], "chunk of {block}");
        }
        chunks.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::optimal_width;
    use super::*;
    use crate::disk::Paged;
    use crate::index::tests::{agrees, agrees_when_large, pairs, steps};
    use crate::index::{Index, MOST_KEY, Pair};
    use crate::pool::Pool;
    use crate::search::{Binary, Linear};

    /// Page sizes, nodes' widths in cache lines, frames of the pool.
    fn configurations() -> impl Strategy<Value = (usize, usize, usize)> {
        let small = prop::sample::select(vec![(192, 1), (256, 1), (512, 1), (1024, 1), (1024, 2), (4096, 1)]);
        let real = prop::sample::select(vec![4096, 8192, 16384])
            .prop_map(|size| (size, optimal_width(size, 150.0, 10.0).lines));
        (prop_oneof![3 => small, 2 => real], prop::sample::select(vec![2, 5, 10_000]))
            .prop_map(|((page_size, lines), frames)| (page_size, lines, frames))
    }

    fn fills() -> impl Strategy<Value = f64> {
        prop::sample::select(vec![0.5, 0.7, 1.0])
    }

    fn loaded<S: Search>(pairs: &[Pair], fill: f64, how: (usize, usize, usize)) -> CacheFirst<S> {
        CacheFirst::load(pairs, fill, Pool::new(how.0, how.2), how.1)
    }

    /// Pairs whose keys are `step` apart.
    fn many(count: u32, step: u32) -> Vec<Pair> {
        (0..count).map(|number| (number * step + 1, number)).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn cache_first_is_a_map(pairs in pairs(), steps in steps(), fill in fills(), how in configurations()) {
            agrees(loaded::<Binary>(&pairs, fill, how), &pairs, &steps);
        }

        #[test]
        fn cache_first_grows_from_nothing(steps in steps(), how in configurations()) {
            agrees(loaded::<Linear>(&[], 1.0, how), &[], &steps);
        }
    }

    #[test]
    fn cache_first_is_a_map_when_large() {
        let configurations =
            [(192, 1, 40), (256, 1, 20_000), (1024, 1, 40), (1024, 2, 5000), (4096, 9, 1000), (16384, 11, 20)];
        let spread = many(20_000, MOST_KEY / 20_000);
        for how in configurations {
            for (fill, pairs) in [(0.7, &[][..]), (0.5, &spread), (1.0, &spread)] {
                agrees_when_large(loaded::<Binary>(pairs, fill, how), pairs, 20_000);
            }
        }
    }

    #[test]
    fn leaf_pages_are_those_a_scan_reads() {
        let mut tree = loaded::<Binary>(&many(50_000, 50), 1.0, (1024, 2, 5000));
        for key in (0..MOST_KEY / 1000).step_by(97) {
            tree.insert(key % 2_500_000, 1);
        }
        let (first, last) = (123_456, 2_000_000);
        let all = tree.leaf_blocks(0, MOST_KEY);
        let listed = tree.leaf_blocks(first, last);
        assert!(listed.len() > 500 && all.windows(listed.len()).any(|part| part == listed));
        tree.pool_mut().forget();
        tree.scan(first, last, |_, _| ());
        let above = tree.height() as u64;
        assert!((listed.len() as u64..listed.len() as u64 + above).contains(&tree.pool_mut().reads()));
        assert!(tree.leaf_blocks(last, first).is_empty());
    }

    #[test]
    fn a_loaded_tree_is_placed_as_in_figure_8() {
        let mut tree = loaded::<Binary>(&many(300_000, 50), 1.0, (4096, 9, 10_000));
        assert_eq!((tree.check(), tree.height()), (300_000, 4));
        let root = tree.root;
        let with_parent = tree.node(root).children().filter(|child| child.block == root.block).count();
        assert!(with_parent <= 6);
        // 4226 leaf nodes in 604 pages, 75 parents of which few are with their own parents, and one chunk.
        assert!((604 + 10..604 + 20).contains(&tree.pool_mut().pages()), "{} pages", tree.pool_mut().pages());
    }
}
