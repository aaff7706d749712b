//! The prefetching B+-tree: a B+-tree in memory whose nodes are several cache lines wide, and prefetched before they
//! are used (SIGMOD 2002 §2, thesis §3.6 and chapters 4 to 6).
//!
//! Deletion is lazy: nodes are never merged, and only those that have become empty are removed.

mod check;
pub mod chunked;
pub mod flat;
pub mod hint;
pub mod jump;
pub mod node;
pub mod policy;

use crate::index::Index;
use crate::search::{self, SearchOf};
use hint::{Hint, T0};
use jump::{Internal, Jump};
use node::{Arena, Key, NO_NODE, Node, Nodes};
use policy::Policy;
use std::marker::PhantomData;

/// The tree: `W` lines to a node, the search within nodes, the prefetch policy and its hint, the jump-pointer array,
/// and the keys.
pub struct PbTree<const W: usize, S = search::Binary, P = policy::Linear, H = T0, J = Internal, K = u32> {
    nodes: Nodes<J, W, K>,
    policy: P,
    jump: J,
    root: u32,
    /// Levels above the leaves.
    height: usize,
    /// How many leaves ahead a scan prefetches.
    distance: usize,
    /// The way to the leaf that is being changed, kept for its memory: nodes, and which of their children.
    path: Vec<(u32, usize)>,
    chosen: PhantomData<(S, H)>,
}

impl<const W: usize, S, P: Policy, H, J: Jump, K: Key> PbTree<W, S, P, H, J, K> {
    /// Entries of a full node. A non-leaf node of so many children has one key less that counts.
    pub const CAPACITY: usize = Node::<J, W, K>::LAYOUT.capacity;

    /// A tree of sorted pairs. `fill` is how full leaves, other nodes and chunks of a jump-pointer array are made;
    /// `distance` is how many leaves ahead scans prefetch (0: they prefetch a leaf when they come to it).
    pub fn load(pairs: &[(K, u32)], fill: f64, distance: usize) -> Self {
        let mut nodes = Arena::new();
        let many = ((Self::CAPACITY as f64 * fill).round() as usize).clamp(2, Self::CAPACITY);
        let mut level = load_level(&mut nodes, pairs, many);
        if level.is_empty() {
            level.push((K::ANY, nodes.add(Node::new(&[]))));
        }
        let leaves: Vec<u32> = level.iter().map(|&(_, leaf)| leaf).collect();
        let jump = J::load(&mut nodes, &leaves, fill);
        let mut height = 0;
        while level.len() > 1 {
            level = load_level(&mut nodes, &level, many);
            height += 1;
        }
        PbTree {
            nodes,
            policy: P::new(Node::<J, W, K>::LAYOUT),
            jump,
            root: level[0].1,
            height,
            distance,
            path: Vec::new(),
            chosen: PhantomData,
        }
    }

    /// The same tree with another search, prefetch policy and hint.
    pub fn with<S2, P2: Policy, H2>(self) -> PbTree<W, S2, P2, H2, J, K> {
        let PbTree { nodes, jump, root, height, distance, path, .. } = self;
        let policy = P2::new(Node::<J, W, K>::LAYOUT);
        PbTree { nodes, policy, jump, root, height, distance, path, chosen: PhantomData }
    }

    /// Levels, that of the leaves included.
    pub fn levels(&self) -> usize {
        self.height + 1
    }

    /// Bytes of all nodes.
    pub fn bytes(&self) -> usize {
        self.nodes.used() * size_of::<Node<J, W, K>>()
    }

    /// Changes how many leaves ahead scans prefetch.
    pub fn set_distance(&mut self, distance: usize) {
        self.distance = distance;
    }
}

impl<const W: usize, S: SearchOf<K>, P: Policy, H: Hint, J: Jump, K: Key> PbTree<W, S, P, H, J, K> {
    #[inline]
    fn fetch(&self, node: u32) {
        self.policy.prefetch::<H>(self.nodes[node].lines());
    }

    /// The leaf of a key. Says which nodes are on the way, and which of their children is the next.
    #[inline]
    fn descend(&self, key: K, mut on_way: impl FnMut(u32, usize)) -> u32 {
        let mut number = self.root;
        for _ in 0..self.height {
            self.fetch(number);
            let node = &self.nodes[number];
            let at = S::less(&node.keys()[..node.count() - 1], &key);
            on_way(number, at);
            number = node.pointers()[at];
        }
        self.fetch(number);
        number
    }

    /// The place of a key among those of a leaf, and whether it is there.
    #[inline]
    fn place(&self, leaf: u32, key: K) -> (usize, bool) {
        let keys = self.nodes[leaf].keys();
        let at = S::less(keys, &key);
        (at, keys.get(at) == Some(&key))
    }

    /// Puts an entry into a leaf, at `at`, and splits what is full on the path to it.
    fn add(&mut self, leaf: u32, mut at: usize, mut entry: (K, u32), path: &[(u32, usize)]) {
        let (mut number, mut above) = (leaf, path.iter().rev());
        while self.nodes[number].is_full() {
            let right = self.split(number, at, entry);
            if number == leaf {
                self.jump.insert_behind(&mut self.nodes, leaf, right);
            }
            let bound = *self.nodes[number].keys().last().expect("half of the entries");
            entry = (bound, number);
            let Some(&(parent, child)) = above.next() else {
                self.root = self.nodes.add(Node::new(&[entry, (K::ANY, right)]));
                self.height += 1;
                return;
            };
            // The key that goes with the node bounds the right part now, and a new one the left.
            self.nodes[parent].pointers_mut()[child] = right;
            (number, at) = (parent, child);
        }
        self.nodes[number].insert(at, entry);
    }

    /// Splits a full node in two, of which one gets an entry that belongs at `at`. Returns the right one.
    fn split(&mut self, number: u32, at: usize, entry: (K, u32)) -> u32 {
        let half = Self::CAPACITY / 2;
        let node = &mut self.nodes[number];
        let mut right = node.split(half);
        if at <= half {
            node.insert(at, entry)
        } else {
            right.insert(at - half, entry)
        }
        let right = self.nodes.add(right);
        self.nodes[number].set_next(right);
        right
    }

    /// Removes an empty leaf, and the nodes above that become empty.
    fn remove_empty(&mut self, leaf: u32, path: &[(u32, usize)]) {
        if path.is_empty() {
            return;
        }
        self.jump.remove(&mut self.nodes, leaf);
        let mut number = leaf;
        for depth in (0..path.len()).rev() {
            if let Some(left) = self.left_of(&path[..=depth]) {
                let next = self.nodes[number].next();
                self.nodes[left].set_next(next);
            }
            self.nodes.release(number);
            let (parent, child) = path[depth];
            self.nodes[parent].remove(child);
            if self.nodes[parent].count() > 0 {
                break;
            }
            number = parent;
        }
        self.lower_root();
    }

    /// The node left of the one that a path leads to, on the same level.
    fn left_of(&self, path: &[(u32, usize)]) -> Option<u32> {
        let turn = path.iter().rposition(|&(_, child)| child > 0)?;
        let (node, child) = path[turn];
        let mut left = self.nodes[node].pointers()[child - 1];
        for _ in turn + 1..path.len() {
            left = *self.nodes[left].pointers().last().expect("a node with children");
        }
        Some(left)
    }

    /// Removes roots with one child.
    fn lower_root(&mut self) {
        while self.height > 0 && self.nodes[self.root].count() == 1 {
            self.nodes.release(self.root);
            self.root = self.nodes[self.root].pointers()[0];
            self.height -= 1;
        }
    }

    fn insert_below(&mut self, leaf: u32, key: K, id: u32, path: &[(u32, usize)]) -> Option<u32> {
        let (at, found) = self.place(leaf, key);
        if found {
            return Some(std::mem::replace(&mut self.nodes[leaf].pointers_mut()[at], id));
        }
        self.add(leaf, at, (key, id), path);
        None
    }

    fn remove_below(&mut self, leaf: u32, key: K, path: &[(u32, usize)]) -> Option<u32> {
        let (at, found) = self.place(leaf, key);
        let id = found.then(|| self.nodes[leaf].remove(at))?;
        if self.nodes[leaf].count() == 0 {
            self.remove_empty(leaf, path);
        }
        Some(id)
    }

    /// Does something to the leaf of a key, to which it is given the path.
    fn change<R>(&mut self, key: K, change: impl FnOnce(&mut Self, u32, &[(u32, usize)]) -> R) -> R {
        let mut path = std::mem::take(&mut self.path);
        path.clear();
        let leaf = self.descend(key, |node, child| path.push((node, child)));
        let result = change(self, leaf, &path);
        self.path = path;
        result
    }

    /// Prefetches the next of the leaves ahead of a scan.
    #[inline]
    fn fetch_ahead(&self, ahead: &mut J::Cursor) {
        if let Some(leaf) = self.jump.next::<H, W, K>(&self.nodes, ahead) {
            self.fetch(leaf);
        }
    }
}

/// Nodes with `many` of these entries each, and links between them. Returns the entries of the level above.
fn load_level<J: Jump, const W: usize, K: Key>(
    nodes: &mut Nodes<J, W, K>,
    entries: &[(K, u32)],
    many: usize,
) -> Vec<(K, u32)> {
    let parts = entries.chunks(many);
    let level: Vec<(K, u32)> = parts.map(|part| (part[part.len() - 1].0, nodes.add(Node::new(part)))).collect();
    for pair in level.windows(2) {
        nodes[pair[0].1].set_next(pair[1].1);
    }
    level
}

/// What an [`Index`] does, for keys of any kind.
impl<const W: usize, S: SearchOf<K>, P: Policy, H: Hint, J: Jump, K: Key> PbTree<W, S, P, H, J, K> {
    /// Adds a pair. Returns the tuple id that the key had.
    pub fn insert(&mut self, key: K, id: u32) -> Option<u32> {
        self.change(key, |tree, leaf, path| tree.insert_below(leaf, key, id, path))
    }

    /// Removes a key. Returns its tuple id.
    pub fn remove(&mut self, key: K) -> Option<u32> {
        self.change(key, |tree, leaf, path| tree.remove_below(leaf, key, path))
    }

    /// The tuple id of a key.
    #[inline]
    pub fn search(&self, key: K) -> Option<u32> {
        let leaf = self.descend(key, |_, _| ());
        let (at, found) = self.place(leaf, key);
        found.then(|| self.nodes[leaf].pointers()[at])
    }

    /// Calls `each` with the pairs whose keys are from `first` to `last`, both included, in order.
    #[inline]
    pub fn scan(&self, first: K, last: K, mut each: impl FnMut(K, u32)) {
        let mut parent = None;
        let mut leaf = self.descend(first, |node, child| parent = Some((node, child)));
        let mut ahead = self.jump.cursor::<H, W, K>(&self.nodes, leaf, parent);
        for _ in 0..self.distance {
            self.fetch_ahead(&mut ahead);
        }
        let mut from = S::less(self.nodes[leaf].keys(), &first);
        loop {
            let node = &self.nodes[leaf];
            let (keys, ids) = (node.keys(), node.pointers());
            let ends = keys.last().is_none_or(|&greatest| greatest >= last);
            let to = if ends { self.end(keys, last) } else { keys.len() };
            for (&key, &id) in keys[from..to].iter().zip(&ids[from..to]) {
                each(key, id);
            }
            leaf = node.next();
            if ends || leaf == NO_NODE {
                return;
            }
            self.fetch_ahead(&mut ahead);
            from = 0;
        }
    }

    /// How many of a leaf's keys, which are distinct, are not greater than `last`.
    fn end(&self, keys: &[K], last: K) -> usize {
        let at = S::less(keys, &last);
        at + usize::from(keys.get(at) == Some(&last))
    }

    /// Checks what has to be so at all times. Returns how many pairs there are.
    ///
    /// # Panics
    /// If something is wrong.
    pub fn check(&self) -> usize {
        self.verify()
    }
}

impl<const W: usize, S: SearchOf<u32>, P: Policy, H: Hint, J: Jump> Index for PbTree<W, S, P, H, J> {
    fn insert(&mut self, key: u32, id: u32) -> Option<u32> {
        PbTree::insert(self, key, id)
    }

    fn remove(&mut self, key: u32) -> Option<u32> {
        PbTree::remove(self, key)
    }

    #[inline]
    fn search(&mut self, key: u32) -> Option<u32> {
        PbTree::search(self, key)
    }

    #[inline]
    fn scan(&mut self, first: u32, last: u32, each: impl FnMut(u32, u32)) {
        PbTree::scan(self, first, last, each);
    }

    fn check(&mut self) -> usize {
        self.verify()
    }
}
