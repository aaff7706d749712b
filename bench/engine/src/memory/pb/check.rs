//! What has to be so in a tree at all times.

use super::PbTree;
use super::hint::Hint;
use super::jump::Jump;
use super::node::{Key, NO_NODE};
use super::policy::Policy;
use crate::search::SearchOf;

/// What is found in a tree.
struct Found {
    /// The nodes of each level from left to right, the root's first.
    levels: Vec<Vec<u32>>,
    pairs: usize,
}

/// The keys that can be in a node: greater than the first, not greater than the second.
type Range<K> = (Option<K>, Option<K>);

impl<const W: usize, S: SearchOf<K>, P: Policy, H: Hint, J: Jump, K: Key> PbTree<W, S, P, H, J, K> {
    /// Checks everything. Returns how many pairs there are.
    pub(super) fn verify(&self) -> usize {
        let mut found = Found { levels: vec![Vec::new(); self.height + 1], pairs: 0 };
        self.verify_below(self.root, 0, (None, None), &mut found);
        for level in &found.levels {
            let next: Vec<u32> = level.iter().map(|&node| self.nodes[node].next()).collect();
            assert_eq!(next[..level.len() - 1], level[1..], "links");
            assert_eq!(next.last(), Some(&NO_NODE), "the last link");
        }
        assert!(self.height == 0 || self.nodes[self.root].count() > 1, "a root with one child");
        assert_eq!(self.nodes.used(), found.levels.iter().map(Vec::len).sum::<usize>(), "nodes");
        self.jump.check(&self.nodes, &found.levels[self.height]);
        found.pairs
    }

    fn verify_below(&self, number: u32, depth: usize, (above, most): Range<K>, found: &mut Found) {
        let node = &self.nodes[number];
        found.levels[depth].push(number);
        assert!(node.count() <= Self::CAPACITY, "too many entries");
        assert!(node.count() > 0 || self.height == 0, "an empty node");
        let leaf = depth == self.height;
        let keys = if leaf { node.keys() } else { &node.keys()[..node.count() - 1] };
        assert!(keys.is_sorted_by(|a, b| a < b), "order of keys");
        assert!(keys.iter().all(|&key| above.is_none_or(|above| key > above)), "a key too small");
        assert!(keys.iter().all(|&key| most.is_none_or(|most| key <= most)), "a key too great");
        if leaf {
            found.pairs += node.count();
            return;
        }
        for (at, &child) in node.pointers().iter().enumerate() {
            let above = at.checked_sub(1).map_or(above, |before| Some(keys[before]));
            let most = keys.get(at).copied().or(most);
            self.verify_below(child, depth + 1, (above, most), found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{BinaryBy, Words};
    use crate::index::tests::{agrees, agrees_when_large, pairs, steps};
    use crate::index::{Index, Pair};
    use crate::memory::pb::chunked::Chunked;
    use crate::memory::pb::flat::Flat;
    use crate::memory::pb::hint::{Nta, T0, T1, T2};
    use crate::memory::pb::jump::{Internal, Links};
    use crate::memory::pb::policy::{Binary, HalfBinary, HalfLinear, Linear, NoPrefetch};
    use crate::search;
    use proptest::prelude::*;

    fn fills() -> impl Strategy<Value = f64> {
        prop::sample::select(vec![0.5, 0.7, 1.0])
    }

    /// A test for each type of tree.
    macro_rules! trees_agree {
        ($($name:ident: $tree:ty;)*) => {
            proptest! {
                $(
                    #[test]
                    fn $name(pairs in pairs(), fill in fills(), distance in 0..5usize, steps in steps()) {
                        agrees(<$tree>::load(&pairs, fill, distance), &pairs, &steps);
                    }
                )*
            }
        };
    }

    trees_agree! {
        one_line_without_prefetching: PbTree<1, search::Linear, NoPrefetch, T0, Links>;
        one_line_internal: PbTree<1>;
        one_line_chunked: PbTree<1, search::Binary, HalfBinary, T1, Chunked<1>>;
        two_lines_linear: PbTree<2, search::Binary, Linear, T2, Chunked>;
        two_lines_half_linear: PbTree<2, search::Linear, HalfLinear, Nta, Internal>;
        eight_lines_without_array: PbTree<8, search::Binary, Linear, T0, Links>;
        eight_lines_binary: PbTree<8, search::Binary, Binary, T0, Internal>;
        eight_lines_half_linear: PbTree<8, search::Binary, HalfLinear, Nta, Chunked>;
        sixteen_lines_half_binary: PbTree<16, search::Binary, HalfBinary, T0, Internal>;
        two_lines_flat: PbTree<2, search::Binary, Linear, T0, Flat>;
        sixteen_lines_chunked: PbTree<16, search::Binary, Linear, T1, Chunked<1>>;
    }

    /// A tree of keys of `N` bytes as an index: a key's bytes are followed by as many as are missing.
    struct Long<const W: usize, P, const N: usize>(PbTree<W, BinaryBy<Words>, P, T0, Internal, [u8; N]>);

    fn lengthened<const N: usize>(key: u32) -> [u8; N] {
        std::array::from_fn(|at| key.to_be_bytes().get(at).copied().unwrap_or(at as u8))
    }

    impl<const W: usize, P: Policy, const N: usize> Index for Long<W, P, N> {
        fn insert(&mut self, key: u32, id: u32) -> Option<u32> {
            self.0.insert(lengthened(key), id)
        }

        fn remove(&mut self, key: u32) -> Option<u32> {
            self.0.remove(lengthened(key))
        }

        fn search(&mut self, key: u32) -> Option<u32> {
            self.0.search(lengthened(key))
        }

        fn scan(&mut self, first: u32, last: u32, mut each: impl FnMut(u32, u32)) {
            self.0.scan(lengthened(first), lengthened(last), |key, id| {
                each(key.first_chunk().map_or(0, |key| u32::from_be_bytes(*key)), id);
            });
        }

        fn check(&mut self) -> usize {
            self.0.check()
        }
    }

    fn long<const W: usize, P: Policy, const N: usize>(pairs: &[Pair], fill: f64) -> Long<W, P, N> {
        let pairs: Vec<([u8; N], u32)> = pairs.iter().map(|&(key, id)| (lengthened(key), id)).collect();
        Long(PbTree::load(&pairs, fill, 2))
    }

    proptest! {
        #[test]
        fn trees_of_longer_keys_agree(pairs in pairs(), fill in fills(), steps in steps()) {
            agrees(long::<2, Linear, 8>(&pairs, fill), &pairs, &steps);
            agrees(long::<4, HalfBinary, 16>(&pairs, fill), &pairs, &steps);
            agrees(long::<6, HalfLinear, 32>(&pairs, fill), &pairs, &steps);
        }
    }

    fn even(many: u32) -> Vec<Pair> {
        (0..many).map(|number| (number * 40_000, number)).collect()
    }

    #[test]
    fn large_trees_agree() {
        let pairs = even(50_000);
        for fill in [0.5, 0.7, 1.0] {
            agrees_when_large(PbTree::<1>::load(&pairs, fill, 3), &pairs, 60_000);
            agrees_when_large(PbTree::<8>::load(&pairs, fill, 3), &pairs, 60_000);
        }
        agrees_when_large(PbTree::<1, search::Binary, HalfLinear, T0, Chunked>::load(&pairs, 0.7, 3), &pairs, 60_000);
        agrees_when_large(PbTree::<16, search::Binary, Binary, T0, Chunked>::load(&pairs, 1.0, 3), &pairs, 60_000);
    }

    /// Trees of ten thousand pairs, from the first key to the last removed, and the other way round.
    fn is_emptied<J: Jump>() {
        for backwards in [false, true] {
            let mut tree = PbTree::<1, search::Binary, Linear, T0, J>::load(&even(10_000), 1.0, 2);
            for number in 0..10_000 {
                let id = if backwards { 9_999 - number } else { number };
                assert_eq!(tree.remove(id * 40_000), Some(id));
                if number % 500 == 499 {
                    assert_eq!(tree.check(), 9_999 - number as usize);
                }
            }
            assert_eq!((tree.levels(), tree.bytes()), (1, 64));
        }
    }

    #[test]
    fn emptied_nodes_are_removed() {
        is_emptied::<Links>();
        is_emptied::<Internal>();
        is_emptied::<Chunked>();
        is_emptied::<Flat>();
    }

    /// All leaves of a tree but the first, as its jump-pointer array has them.
    fn ahead<J: Jump>(many: u32) -> (Vec<u32>, Vec<u32>) {
        let tree = PbTree::<1, search::Binary, Linear, T0, J>::load(&even(many), 0.7, 2);
        let mut parent = None;
        let mut leaf = tree.descend(0, |node, child| parent = Some((node, child)));
        let mut cursor = tree.jump.cursor::<T0, 1, u32>(&tree.nodes, leaf, parent);
        let next = || tree.jump.next::<T0, 1, u32>(&tree.nodes, &mut cursor);
        let found = std::iter::from_fn(next).collect();
        let mut expected = Vec::new();
        while tree.nodes[leaf].next() != NO_NODE {
            leaf = tree.nodes[leaf].next();
            expected.push(leaf);
        }
        (found, expected)
    }

    #[test]
    fn jump_pointers_lead_to_all_leaves() {
        for many in [0, 1, 7, 8, 60, 3000] {
            for (found, expected) in
                [ahead::<Links>(many), ahead::<Internal>(many), ahead::<Chunked>(many), ahead::<Flat>(many)]
            {
                assert_eq!(found, expected, "{many}");
            }
        }
    }

    #[test]
    fn nodes_are_as_wide_as_they_say() {
        // One line: count and link, and seven entries; or a hint, too, and six.
        assert_eq!((PbTree::<1>::CAPACITY, PbTree::<1>::load(&[], 1.0, 0).bytes()), (7, 64));
        assert_eq!(PbTree::<1, search::Binary, Linear, T0, Chunked>::CAPACITY, 6);
        assert_eq!((PbTree::<8>::CAPACITY, PbTree::<8>::load(&[], 1.0, 0).bytes()), (63, 512));
    }
}
