//! The flat jump-pointer array: all leaves' numbers in one array, of which half has to be moved for a new leaf (thesis
//! §3.6, §6.2.1).

use super::hint::Hint;
use super::jump::Jump;
use super::node::{HINTED_HEADER, Key, Nodes};

/// The array. A leaf has its place in it for a hint.
pub struct Flat {
    leaves: Vec<u32>,
}

impl Flat {
    /// Tells the leaves from a place on where they are.
    fn give_hints<const W: usize, K: Key>(&self, nodes: &mut Nodes<Self, W, K>, from: usize) {
        for (at, &leaf) in self.leaves.iter().enumerate().skip(from) {
            nodes[leaf].set_hint(at as u32);
        }
    }
}

impl Jump for Flat {
    const NAME: &'static str = "flat";
    const HEADER: usize = HINTED_HEADER;
    /// The place of a leaf.
    type Cursor = usize;

    fn load<const W: usize, K: Key>(nodes: &mut Nodes<Self, W, K>, leaves: &[u32], _: f64) -> Self {
        let array = Flat { leaves: leaves.to_vec() };
        array.give_hints(nodes, 0);
        array
    }

    fn insert_behind<const W: usize, K: Key>(&mut self, nodes: &mut Nodes<Self, W, K>, leaf: u32, new: u32) {
        let at = nodes[leaf].hint() as usize + 1;
        self.leaves.insert(at, new);
        self.give_hints(nodes, at);
    }

    fn remove<const W: usize, K: Key>(&mut self, nodes: &mut Nodes<Self, W, K>, leaf: u32) {
        let at = nodes[leaf].hint() as usize;
        self.leaves.remove(at);
        self.give_hints(nodes, at);
    }

    fn cursor<H: Hint, const W: usize, K: Key>(
        &self,
        nodes: &Nodes<Self, W, K>,
        leaf: u32,
        _: Option<(u32, usize)>,
    ) -> usize {
        nodes[leaf].hint() as usize
    }

    #[inline]
    fn next<H: Hint, const W: usize, K: Key>(&self, _: &Nodes<Self, W, K>, at: &mut usize) -> Option<u32> {
        *at += 1;
        self.leaves.get(*at).copied()
    }

    fn check<const W: usize, K: Key>(&self, nodes: &Nodes<Self, W, K>, leaves: &[u32]) {
        assert_eq!(self.leaves, leaves, "leaves of the jump-pointer array");
        assert!(leaves.iter().enumerate().all(|(at, &leaf)| nodes[leaf].hint() as usize == at), "hints");
    }
}
