//! The prefetching B+-tree: a B+-tree in memory whose nodes are several cache lines wide, and prefetched before they
//! are used (SIGMOD 2002 §2, thesis §3.6 and chapters 4 to 6).
//!
//! Deletion is lazy: nodes are never merged, and only those that have become empty are removed.

mod check;
pub mod chunked;
pub mod hint;
pub mod jump;
pub mod node;
pub mod policy;

use crate::index::{Index, Pair};
use crate::search::{self, Search};
use hint::{Hint, T0};
use jump::{Internal, Jump};
use node::{Arena, NO_NODE, Node, Nodes};
use policy::Policy;
use std::marker::PhantomData;

/// The tree: `W` lines to a node, the search within nodes, the prefetch policy and its hint, the jump-pointer array.
pub struct PbTree<const W: usize, S = search::Binary, P = policy::Linear, H = T0, J = Internal> {
    nodes: Nodes<J, W>,
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

impl<const W: usize, S: Search, P: Policy, H: Hint, J: Jump> PbTree<W, S, P, H, J> {
    /// Entries of a full node. A non-leaf node of so many children has one key less that counts.
    pub const CAPACITY: usize = Node::<J, W>::LAYOUT.capacity;

    /// A tree of sorted pairs. `fill` is how full leaves, other nodes and chunks of a jump-pointer array are made;
    /// `distance` is how many leaves ahead scans prefetch (0: they prefetch a leaf when they come to it).
    pub fn load(pairs: &[Pair], fill: f64, distance: usize) -> Self {
        let mut nodes = Arena::new();
        let many = ((Self::CAPACITY as f64 * fill).round() as usize).clamp(2, Self::CAPACITY);
        let mut level = load_level(&mut nodes, pairs, many);
        if level.is_empty() {
            level.push((u32::MAX, nodes.add(Node::new(&[]))));
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
            policy: P::new(Node::<J, W>::LAYOUT),
            jump,
            root: level[0].1,
            height,
            distance,
            path: Vec::new(),
            chosen: PhantomData,
        }
    }

    /// Levels, that of the leaves included.
    pub fn levels(&self) -> usize {
        self.height + 1
    }

    /// Bytes of all nodes.
    pub fn bytes(&self) -> usize {
        self.nodes.used() * size_of::<Node<J, W>>()
    }

    /// Changes how many leaves ahead scans prefetch.
    pub fn set_distance(&mut self, distance: usize) {
        self.distance = distance;
    }

    #[inline]
    fn fetch(&self, node: u32) {
        self.policy.prefetch::<H>(self.nodes[node].lines());
    }

    /// The leaf of a key. Says which nodes are on the way, and which of their children is the next.
    #[inline]
    fn descend(&self, key: u32, mut on_way: impl FnMut(u32, usize)) -> u32 {
        let mut number = self.root;
        for _ in 0..self.height {
            self.fetch(number);
            let node = &self.nodes[number];
            let at = S::lower(&node.keys()[..node.count() - 1], key);
            on_way(number, at);
            number = node.pointers()[at];
        }
        self.fetch(number);
        number
    }

    /// The place of a key among those of a leaf, and whether it is there.
    #[inline]
    fn place(&self, leaf: u32, key: u32) -> (usize, bool) {
        let keys = self.nodes[leaf].keys();
        let at = S::lower(keys, key);
        (at, keys.get(at) == Some(&key))
    }

    /// Puts an entry into a leaf, at `at`, and splits what is full on the path to it.
    fn add(&mut self, leaf: u32, mut at: usize, mut entry: (u32, u32), path: &[(u32, usize)]) {
        let (mut number, mut above) = (leaf, path.iter().rev());
        while self.nodes[number].is_full() {
            let right = self.split(number, at, entry);
            if number == leaf {
                self.jump.insert_behind(&mut self.nodes, leaf, right);
            }
            let bound = *self.nodes[number].keys().last().expect("half of the entries");
            entry = (bound, number);
            let Some(&(parent, child)) = above.next() else {
                self.root = self.nodes.add(Node::new(&[entry, (u32::MAX, right)]));
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
    fn split(&mut self, number: u32, at: usize, entry: (u32, u32)) -> u32 {
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

    fn insert_below(&mut self, leaf: u32, key: u32, id: u32, path: &[(u32, usize)]) -> Option<u32> {
        let (at, found) = self.place(leaf, key);
        if found {
            return Some(std::mem::replace(&mut self.nodes[leaf].pointers_mut()[at], id));
        }
        self.add(leaf, at, (key, id), path);
        None
    }

    fn remove_below(&mut self, leaf: u32, key: u32, path: &[(u32, usize)]) -> Option<u32> {
        let (at, found) = self.place(leaf, key);
        let id = found.then(|| self.nodes[leaf].remove(at))?;
        if self.nodes[leaf].count() == 0 {
            self.remove_empty(leaf, path);
        }
        Some(id)
    }

    /// Does something to the leaf of a key, to which it is given the path.
    fn change<R>(&mut self, key: u32, change: impl FnOnce(&mut Self, u32, &[(u32, usize)]) -> R) -> R {
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
        if let Some(leaf) = self.jump.next::<H, W>(&self.nodes, ahead) {
            self.fetch(leaf);
        }
    }
}

/// Nodes with `many` of these entries each, and links between them. Returns the entries of the level above.
fn load_level<J: Jump, const W: usize>(nodes: &mut Nodes<J, W>, entries: &[Pair], many: usize) -> Vec<Pair> {
    let parts = entries.chunks(many);
    let level: Vec<Pair> = parts.map(|part| (part[part.len() - 1].0, nodes.add(Node::new(part)))).collect();
    for pair in level.windows(2) {
        nodes[pair[0].1].set_next(pair[1].1);
    }
    level
}

impl<const W: usize, S: Search, P: Policy, H: Hint, J: Jump> Index for PbTree<W, S, P, H, J> {
    fn insert(&mut self, key: u32, id: u32) -> Option<u32> {
        self.change(key, |tree, leaf, path| tree.insert_below(leaf, key, id, path))
    }

    fn remove(&mut self, key: u32) -> Option<u32> {
        self.change(key, |tree, leaf, path| tree.remove_below(leaf, key, path))
    }

    #[inline]
    fn search(&mut self, key: u32) -> Option<u32> {
        let leaf = self.descend(key, |_, _| ());
        let (at, found) = self.place(leaf, key);
        found.then(|| self.nodes[leaf].pointers()[at])
    }

    fn scan(&mut self, first: u32, last: u32, mut each: impl FnMut(u32, u32)) {
        let mut parent = None;
        let mut leaf = self.descend(first, |node, child| parent = Some((node, child)));
        let mut ahead = self.jump.cursor::<H, W>(&self.nodes, leaf, parent);
        for _ in 0..self.distance {
            self.fetch_ahead(&mut ahead);
        }
        let mut from = S::lower(self.nodes[leaf].keys(), first);
        loop {
            let node = &self.nodes[leaf];
            let (keys, ids) = (node.keys(), node.pointers());
            let ends = keys.last().is_none_or(|&greatest| greatest >= last);
            let to = if ends { S::upper(keys, last) } else { keys.len() };
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

    fn check(&mut self) -> usize {
        self.verify()
    }
}
