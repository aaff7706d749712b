//! Jump-pointer arrays: how a scan knows the leaves ahead of it (SIGMOD 2002 §2.2, thesis §3.6).

use super::hint::Hint;
use super::node::{Key, NO_NODE, Nodes, PLAIN_HEADER};
use super::policy::{Linear, Policy};

/// A jump-pointer array, chosen at compile time.
pub trait Jump: Sized {
    /// What it is called.
    const NAME: &'static str;

    /// Words of a node's header.
    const HEADER: usize;

    /// A place in the array: that of a leaf.
    type Cursor;

    /// The array of these leaves. `fill` is how full its parts are made.
    fn load<const W: usize, K: Key>(nodes: &mut Nodes<Self, W, K>, leaves: &[u32], fill: f64) -> Self;

    /// Adds a leaf behind another.
    fn insert_behind<const W: usize, K: Key>(&mut self, _nodes: &mut Nodes<Self, W, K>, _leaf: u32, _new: u32) {}

    /// Removes a leaf, which is not the only one.
    fn remove<const W: usize, K: Key>(&mut self, _nodes: &mut Nodes<Self, W, K>, _leaf: u32) {}

    /// The place of a leaf, which is in `parent` if it is not the root: that node's number, and which of its children.
    fn cursor<H: Hint, const W: usize, K: Key>(
        &self,
        nodes: &Nodes<Self, W, K>,
        leaf: u32,
        parent: Option<(u32, usize)>,
    ) -> Self::Cursor;

    /// Goes on to the next leaf, and returns it; none behind the last one.
    fn next<H: Hint, const W: usize, K: Key>(
        &self,
        nodes: &Nodes<Self, W, K>,
        cursor: &mut Self::Cursor,
    ) -> Option<u32>;

    /// Checks that it has these leaves.
    ///
    /// # Panics
    /// If not.
    fn check<const W: usize, K: Key>(&self, _nodes: &Nodes<Self, W, K>, _leaves: &[u32]) {}
}

/// No array: a leaf is found through the one before it, so that no more than one can be asked for ahead of time.
pub struct Links;

impl Jump for Links {
    const NAME: &'static str = "none";
    const HEADER: usize = PLAIN_HEADER;
    type Cursor = u32;

    fn load<const W: usize, K: Key>(_: &mut Nodes<Self, W, K>, _: &[u32], _: f64) -> Self {
        Links
    }

    fn cursor<H: Hint, const W: usize, K: Key>(
        &self,
        _: &Nodes<Self, W, K>,
        leaf: u32,
        _: Option<(u32, usize)>,
    ) -> u32 {
        leaf
    }

    #[inline]
    fn next<H: Hint, const W: usize, K: Key>(&self, nodes: &Nodes<Self, W, K>, leaf: &mut u32) -> Option<u32> {
        let next = nodes[*leaf].next();
        if next == NO_NODE {
            return None;
        }
        *leaf = next;
        Some(next)
    }
}

/// The internal array: the parents of leaves, each of which knows the next.
pub struct Internal;

impl Internal {
    /// Prefetches the node behind a parent of leaves.
    fn prefetch_behind<H: Hint, const W: usize, K: Key>(nodes: &Nodes<Self, W, K>, parent: u32) {
        let next = nodes[parent].next();
        if next != NO_NODE {
            Linear.prefetch::<H>(nodes[next].lines());
        }
    }
}

impl Jump for Internal {
    const NAME: &'static str = "internal";
    const HEADER: usize = PLAIN_HEADER;
    /// The parent and which of its children; none if the leaf is the root.
    type Cursor = Option<(u32, usize)>;

    fn load<const W: usize, K: Key>(_: &mut Nodes<Self, W, K>, _: &[u32], _: f64) -> Self {
        Internal
    }

    fn cursor<H: Hint, const W: usize, K: Key>(
        &self,
        nodes: &Nodes<Self, W, K>,
        _: u32,
        parent: Option<(u32, usize)>,
    ) -> Self::Cursor {
        if let Some((parent, _)) = parent {
            Self::prefetch_behind::<H, W, K>(nodes, parent);
        }
        parent
    }

    #[inline]
    fn next<H: Hint, const W: usize, K: Key>(
        &self,
        nodes: &Nodes<Self, W, K>,
        cursor: &mut Self::Cursor,
    ) -> Option<u32> {
        let (parent, at) = cursor.as_mut()?;
        *at += 1;
        if *at == nodes[*parent].count() {
            let next = nodes[*parent].next();
            if next == NO_NODE {
                *cursor = None;
                return None;
            }
            (*parent, *at) = (next, 0);
            Self::prefetch_behind::<H, W, K>(nodes, next);
        }
        Some(nodes[*parent].pointers()[*at])
    }
}
