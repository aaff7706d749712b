//! The generalised prefix tree (KISS-tree paper §2): the PT-4, with which the KISS-tree is compared, and other k'.
//!
//! A key is cut into fragments of k' bits, and each selects a bucket of the node on its level. With *dynamic expansion*
//! levels are unrolled only as far as needed: a key that is alone below a bucket has its content node right there,
//! which holds the whole key besides the tuple id. Removing undoes the expansion, so that the tree has the same nodes
//! whatever happened before. Buckets are 32-bit indices into arenas, which makes a PT-4's node one cache line.

use crate::index::{Index, Pair};
use fpbtree_engine::simd::prefetch;

/// The prefix tree with k' = 4.
pub type Pt4 = PrefixTree<16>;

/// A prefix tree whose nodes have `FANOUT` buckets, 2 to the power of k'. k' divides the 32 bits of keys.
pub struct PrefixTree<const FANOUT: usize> {
    nodes: Arena<Node<FANOUT>>,
    contents: Arena<Pair>,
}

#[repr(align(64))]
struct Node<const FANOUT: usize>([Bucket; FANOUT]);

/// Nothing, the number of an inner node, or [`CONTENT`] and the number of a content node.
#[derive(Clone, Copy)]
struct Bucket(u32);

/// What a bucket leads to.
enum Target {
    Nothing,
    Inner(u32),
    Content(u32),
}

/// The inner node to which no bucket leads.
const ROOT: u32 = 0;
const CONTENT: u32 = 1 << 31;

impl Bucket {
    const EMPTY: Bucket = Bucket(ROOT);

    #[inline]
    fn target(self) -> Target {
        match self.0 {
            ROOT => Target::Nothing,
            content if content & CONTENT != 0 => Target::Content(content & !CONTENT),
            inner => Target::Inner(inner),
        }
    }
}

impl<const FANOUT: usize> PrefixTree<FANOUT> {
    /// k', the bits of a fragment.
    const BITS: u32 = {
        assert!(FANOUT.is_power_of_two() && 32 % FANOUT.ilog2() == 0);
        FANOUT.ilog2()
    };

    /// Where the root's fragments begin. Each level below has its own [`BITS`](Self::BITS) lower.
    const TOP: u32 = 32 - Self::BITS;

    /// A tree of sorted pairs. Nodes have a bucket for every fragment, so there is no saying how full they shall be.
    pub fn load(pairs: &[Pair]) -> Self {
        let mut tree = PrefixTree { nodes: Arena::with_capacity(0), contents: Arena::with_capacity(pairs.len()) };
        let root = tree.add_node();
        tree.load_node(root, Self::TOP, pairs);
        tree
    }

    /// Bytes of the nodes in use, and of the content nodes (Figure 7).
    pub fn bytes(&self) -> usize {
        self.nodes.used() * size_of::<Node<FANOUT>>() + self.contents.used() * size_of::<Pair>()
    }

    /// The tuple ids of many keys, found level by level: where a key goes next is fetched while the others take their
    /// step (§4.3).
    ///
    /// # Panics
    /// If there is no room in `ids` for as many.
    pub fn search_many(&self, keys: &[u32], ids: &mut [Option<u32>]) {
        let mut buckets: Vec<Bucket> = keys.iter().map(|key| self.fetch(ROOT, Self::TOP, *key)).collect();
        for shift in (0..Self::TOP).step_by(Self::BITS as usize).rev() {
            for (bucket, key) in buckets.iter_mut().zip(keys) {
                if let Target::Inner(node) = bucket.target() {
                    *bucket = self.fetch(node, shift, *key);
                }
            }
        }
        for ((id, bucket), key) in ids[..keys.len()].iter_mut().zip(buckets).zip(keys) {
            *id = match bucket.target() {
                Target::Content(content) => self.id_of(content, *key),
                _ => None,
            };
        }
    }

    /// The key's bucket in a node. What it leads to is asked for.
    #[inline]
    fn fetch(&self, node: u32, shift: u32, key: u32) -> Bucket {
        let bucket = *self.nodes.get(node).bucket(shift, key);
        match bucket.target() {
            Target::Nothing => {}
            Target::Inner(node) => prefetch((&raw const *self.nodes.get(node)).cast()),
            Target::Content(content) => prefetch((&raw const *self.contents.get(content)).cast()),
        }
        bucket
    }

    /// The content node's tuple id, if it is that of the key.
    #[inline]
    fn id_of(&self, content: u32, key: u32) -> Option<u32> {
        let (other, id) = *self.contents.get(content);
        (other == key).then_some(id)
    }

    fn add_node(&mut self) -> u32 {
        self.nodes.add(Node([Bucket::EMPTY; FANOUT]))
    }

    fn add_content(&mut self, pair: Pair) -> Bucket {
        Bucket(CONTENT | self.contents.add(pair))
    }

    /// Loads pairs below an empty node.
    fn load_node(&mut self, node: u32, shift: u32, pairs: &[Pair]) {
        let fragment = |pair: &Pair| pair.0 >> shift;
        for part in pairs.chunk_by(|a, b| fragment(a) == fragment(b)) {
            let bucket = match *part {
                [pair] => self.add_content(pair),
                _ => {
                    let child = self.add_node();
                    self.load_node(child, shift - Self::BITS, part);
                    Bucket(child)
                }
            };
            *self.nodes.get_mut(node).bucket_mut(shift, part[0].0) = bucket;
        }
    }

    fn remove_below(&mut self, node: u32, shift: u32, key: u32) -> Option<u32> {
        match self.nodes.get(node).bucket(shift, key).target() {
            Target::Nothing => None,
            Target::Content(content) => {
                let id = self.id_of(content, key)?;
                self.contents.remove(content);
                *self.nodes.get_mut(node).bucket_mut(shift, key) = Bucket::EMPTY;
                Some(id)
            }
            Target::Inner(child) => {
                let id = self.remove_below(child, shift - Self::BITS, key)?;
                if let Some(only) = self.nodes.get(child).only_content() {
                    self.nodes.remove(child);
                    *self.nodes.get_mut(node).bucket_mut(shift, key) = only;
                }
                Some(id)
            }
        }
    }

    fn scan_below(&self, node: u32, shift: u32, (first, last): (u32, u32), each: &mut impl FnMut(u32, u32)) {
        let (from, to) = (fragment::<FANOUT>(shift, first), fragment::<FANOUT>(shift, last));
        for (place, bucket) in self.nodes.get(node).0.iter().enumerate().take(to + 1).skip(from) {
            // Only the outermost buckets have keys outside the range below them.
            let range = (if place == from { first } else { 0 }, if place == to { last } else { u32::MAX });
            match bucket.target() {
                Target::Nothing => {}
                Target::Inner(child) => self.scan_below(child, shift - Self::BITS, range, each),
                Target::Content(content) => {
                    let (key, id) = *self.contents.get(content);
                    if (range.0..=range.1).contains(&key) {
                        each(key, id);
                    }
                }
            }
        }
    }

    /// Checks a node whose keys begin as `prefix` does. Returns how many nodes and keys there are, itself included.
    fn check_below(&self, node: u32, shift: u32, prefix: u32) -> (usize, usize) {
        let (mut nodes, mut keys) = (1, 0);
        for (place, bucket) in self.nodes.get(node).0.iter().enumerate() {
            let prefix = prefix | (place as u32) << shift;
            match bucket.target() {
                Target::Nothing => {}
                Target::Inner(child) => {
                    assert!(shift > 0, "node {child} is below the last fragment");
                    let below = self.check_below(child, shift - Self::BITS, prefix);
                    assert!(below.1 > 1, "node {child} is not needed");
                    (nodes, keys) = (nodes + below.0, keys + below.1);
                }
                Target::Content(content) => {
                    let (key, _) = self.contents.get(content);
                    assert_eq!(key >> shift, prefix >> shift, "key {key} is in a wrong place");
                    keys += 1;
                }
            }
        }
        (nodes, keys)
    }
}

/// The place of a key's bucket in a node whose fragments begin at bit `shift`.
#[inline]
fn fragment<const FANOUT: usize>(shift: u32, key: u32) -> usize {
    (key >> shift) as usize % FANOUT
}

impl<const FANOUT: usize> Node<FANOUT> {
    #[inline]
    fn bucket(&self, shift: u32, key: u32) -> &Bucket {
        &self.0[fragment::<FANOUT>(shift, key)]
    }

    #[inline]
    fn bucket_mut(&mut self, shift: u32, key: u32) -> &mut Bucket {
        &mut self.0[fragment::<FANOUT>(shift, key)]
    }

    /// The only bucket in use, if it leads to a content node.
    fn only_content(&self) -> Option<Bucket> {
        let mut used = self.0.iter().filter(|bucket| !matches!(bucket.target(), Target::Nothing));
        let only = *used.next()?;
        (used.next().is_none() && matches!(only.target(), Target::Content(_))).then_some(only)
    }
}

impl<const FANOUT: usize> Index for PrefixTree<FANOUT> {
    fn insert(&mut self, key: u32, id: u32) -> Option<u32> {
        let (mut node, mut shift) = (ROOT, Self::TOP);
        loop {
            match self.nodes.get(node).bucket(shift, key).target() {
                Target::Nothing => {
                    *self.nodes.get_mut(node).bucket_mut(shift, key) = self.add_content((key, id));
                    return None;
                }
                Target::Content(content) => {
                    let other = self.contents.get_mut(content);
                    if other.0 == key {
                        return Some(std::mem::replace(&mut other.1, id));
                    }
                    let other = other.0;
                    let child = self.add_node();
                    let bucket = self.nodes.get_mut(node).bucket_mut(shift, key);
                    let moved = std::mem::replace(bucket, Bucket(child));
                    (node, shift) = (child, shift - Self::BITS);
                    *self.nodes.get_mut(node).bucket_mut(shift, other) = moved;
                }
                Target::Inner(child) => (node, shift) = (child, shift - Self::BITS),
            }
        }
    }

    fn remove(&mut self, key: u32) -> Option<u32> {
        self.remove_below(ROOT, Self::TOP, key)
    }

    #[inline]
    fn search(&mut self, key: u32) -> Option<u32> {
        let (mut node, mut shift) = (ROOT, Self::TOP);
        loop {
            match self.nodes.get(node).bucket(shift, key).target() {
                Target::Nothing => return None,
                Target::Content(content) => return self.id_of(content, key),
                Target::Inner(child) => (node, shift) = (child, shift - Self::BITS),
            }
        }
    }

    fn scan(&mut self, first: u32, last: u32, mut each: impl FnMut(u32, u32)) {
        if first <= last {
            self.scan_below(ROOT, Self::TOP, (first, last), &mut each);
        }
    }

    fn check(&mut self) -> usize {
        let (nodes, keys) = self.check_below(ROOT, Self::TOP, 0);
        assert_eq!((nodes, keys), (self.nodes.used(), self.contents.used()));
        keys
    }
}

/// Items with 32-bit numbers less than [`CONTENT`].
struct Arena<T> {
    items: Vec<T>,
    free: Vec<u32>,
}

impl<T> Arena<T> {
    fn with_capacity(items: usize) -> Self {
        Arena { items: Vec::with_capacity(items), free: Vec::new() }
    }

    fn used(&self) -> usize {
        self.items.len() - self.free.len()
    }

    #[inline]
    fn get(&self, number: u32) -> &T {
        &self.items[number as usize]
    }

    #[inline]
    fn get_mut(&mut self, number: u32) -> &mut T {
        &mut self.items[number as usize]
    }

    fn add(&mut self, item: T) -> u32 {
        if let Some(number) = self.free.pop() {
            *self.get_mut(number) = item;
            return number;
        }
        assert!(self.items.len() < CONTENT as usize, "no numbers left");
        self.items.push(item);
        self.items.len() as u32 - 1
    }

    fn remove(&mut self, number: u32) {
        self.free.push(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::tests::{Step, agrees, agrees_when_large, pairs, steps};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_map(pairs in pairs(), steps in steps()) {
            agrees(Pt4::load(&pairs), &pairs, &steps);
        }

        #[test]
        fn agrees_with_other_fragments(pairs in pairs(), steps in steps()) {
            agrees(PrefixTree::<2>::load(&pairs), &pairs, &steps);
            agrees(PrefixTree::<256>::load(&pairs), &pairs, &steps);
        }

        #[test]
        fn what_was_removed_leaves_nothing_behind(pairs in pairs(), steps in steps()) {
            let loaded = Pt4::load(&pairs);
            let mut tree = Pt4::load(&[]);
            pairs.iter().for_each(|(key, id)| _ = tree.insert(*key, *id));
            for step in &steps {
                if let Step::Insert(key) = *step && tree.search(key).is_none() {
                    tree.insert(key, 0);
                    tree.remove(key);
                }
            }
            prop_assert_eq!(tree.bytes(), loaded.bytes());
        }

        #[test]
        fn many_are_found_as_one_is(pairs in pairs(), mut keys: Vec<u32>) {
            let mut tree = Pt4::load(&pairs);
            keys.extend(pairs.iter().map(|pair| pair.0));
            let mut ids = vec![None; keys.len()];
            tree.search_many(&keys, &mut ids);
            let expected: Vec<Option<u32>> = keys.iter().map(|key| tree.search(*key)).collect();
            prop_assert_eq!(ids, expected);
        }
    }

    #[test]
    fn agrees_when_there_are_many() {
        let pairs: Vec<Pair> = (0..50_000).map(|n| (n * 3, n)).collect();
        agrees_when_large(Pt4::load(&pairs), &pairs, 100_000);
    }

    #[test]
    fn a_node_is_a_cache_line() {
        assert_eq!(size_of::<Node<16>>(), 64);
    }
}
