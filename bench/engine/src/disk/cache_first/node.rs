//! Nodes, byte by byte.

use std::ops::{Deref, DerefMut};

use fpbtree_engine::simd;

use super::layout::{Array, LINE, Place, get_place, get_u16, get_u32, integers, put_place, put_u16, put_u32};
use crate::index::Pair;
use crate::search::Search;

/// Bytes of a node that are not keys, tuple ids or pointers: the next node's place and the number of keys, before the
/// keys; and in nonleaf nodes the in-page level, after everything else so that the keys are aligned.
const NODE_HEADER: usize = 8;
const NODE_LEVEL: usize = 2;

const COUNT: usize = 6;
const KEYS: Array = Array { start: NODE_HEADER, size: 4 };

/// Pairs that a leaf node of `width` bytes has room for.
#[inline]
pub fn leaf_room(width: usize) -> usize {
    (width - NODE_HEADER) / 8
}

/// Children that a nonleaf node of `width` bytes has room for; it has one key less.
#[inline]
pub fn fan_out(width: usize) -> usize {
    (width - NODE_HEADER - NODE_LEVEL + 4) / 10
}

/// A node: a header, an array of keys, and one of tuple ids (in leaf nodes) or arrays of pages and lines (in nonleaf
/// nodes, which have one child more than keys).
pub struct Node<B>(pub B);

impl<B: Deref<Target = [u8]>> Node<B> {
    fn ids_array(&self) -> Array {
        Array { start: KEYS.at(leaf_room(self.0.len())), size: 4 }
    }

    fn child_arrays(&self) -> (Array, Array) {
        let fan_out = fan_out(self.0.len());
        (Array { start: KEYS.at(fan_out - 1), size: 4 }, Array { start: KEYS.at(2 * fan_out - 1), size: 2 })
    }

    /// The node that follows on the same level.
    pub fn next(&self) -> Place {
        get_place(&self.0, 0)
    }

    /// The number of keys.
    #[inline]
    pub fn count(&self) -> usize {
        usize::from(get_u16(&self.0, COUNT))
    }

    /// The keys.
    #[inline]
    pub fn keys(&self) -> &[u32] {
        integers(&self.0[KEYS.start..KEYS.at(self.count())])
    }

    /// The tuple ids of a leaf node.
    #[inline]
    pub fn ids(&self) -> &[u32] {
        let ids = self.ids_array();
        integers(&self.0[ids.start..ids.at(self.count())])
    }

    /// A child of a nonleaf node.
    #[inline]
    pub fn child(&self, at: usize) -> Place {
        let (blocks, lines) = self.child_arrays();
        Place { block: get_u32(&self.0, blocks.at(at)), line: get_u16(&self.0, lines.at(at)) }
    }

    /// The children of a nonleaf node.
    pub fn children(&self) -> impl DoubleEndedIterator<Item = Place> + ExactSizeIterator {
        (0..self.count() + 1).map(|at| self.child(at))
    }

    /// The in-page level of a nonleaf node (§3.2.2): 0 if its parent is not in its page, else one more than its
    /// parent's.
    pub fn level(&self) -> u16 {
        get_u16(&self.0, self.0.len() - NODE_LEVEL)
    }

    /// Whether a leaf node has no room for another pair.
    pub fn is_full_leaf(&self) -> bool {
        self.count() == leaf_room(self.0.len())
    }

    /// Whether a nonleaf node has no room for another child.
    pub fn is_full(&self) -> bool {
        self.count() + 1 == fan_out(self.0.len())
    }

    /// Prefetches all lines.
    #[inline]
    pub fn prefetch(&self) {
        self.0.chunks(LINE).for_each(|line| simd::prefetch(line.as_ptr()));
    }

    /// Prefetches a leaf node and searches it. Returns where the key is, or else where it belongs.
    #[inline]
    pub fn find<S: Search>(&self, key: u32) -> Result<usize, usize> {
        self.prefetch();
        let keys = self.keys();
        let at = S::lower(keys, key);
        if keys.get(at) == Some(&key) { Ok(at) } else { Err(at) }
    }

    /// Prefetches a nonleaf node and searches it. Returns which child to go on with.
    #[inline]
    pub fn towards<S: Search>(&self, key: u32) -> usize {
        self.prefetch();
        S::upper(self.keys(), key)
    }
}

impl<B: DerefMut<Target = [u8]>> Node<B> {
    fn set_count(&mut self, count: usize) {
        put_u16(&mut self.0, COUNT, count as u16);
    }

    /// Sets the node that follows on the same level.
    pub fn set_next(&mut self, next: Place) {
        put_place(&mut self.0, 0, next);
    }

    /// Sets the in-page level of a nonleaf node.
    pub fn set_level(&mut self, level: u16) {
        let at = self.0.len() - NODE_LEVEL;
        put_u16(&mut self.0, at, level);
    }

    /// Sets a tuple id of a leaf node. Returns the one that was there.
    pub fn set_id(&mut self, at: usize, id: u32) -> u32 {
        let byte = self.ids_array().at(at);
        let old = get_u32(&self.0, byte);
        put_u32(&mut self.0, byte, id);
        old
    }

    /// Sets a child of a nonleaf node.
    pub fn set_child(&mut self, at: usize, child: Place) {
        let (blocks, lines) = self.child_arrays();
        put_u32(&mut self.0, blocks.at(at), child.block);
        put_u16(&mut self.0, lines.at(at), child.line);
    }

    /// Makes this a leaf node of `pairs`.
    pub fn fill_leaf(&mut self, pairs: &[Pair]) {
        self.set_next(Place::NONE);
        self.set_count(pairs.len());
        for (at, &(key, id)) in pairs.iter().enumerate() {
            put_u32(&mut self.0, KEYS.at(at), key);
            self.set_id(at, id);
        }
    }

    /// Makes this a nonleaf node of in-page level `level` with `children`, whose lowest keys, but for the first
    /// child's, are its keys.
    pub fn fill_nonleaf(&mut self, level: u16, children: &[(u32, Place)]) {
        self.set_next(Place::NONE);
        self.set_count(children.len() - 1);
        self.set_level(level);
        for (at, &(low, child)) in children.iter().enumerate() {
            self.set_child(at, child);
            if at > 0 {
                put_u32(&mut self.0, KEYS.at(at - 1), low);
            }
        }
    }

    /// Adds a pair to a leaf node that has room for it.
    pub fn insert_pair(&mut self, at: usize, key: u32, id: u32) {
        let (count, ids) = (self.count(), self.ids_array());
        KEYS.shift(&mut self.0, at..count, at + 1);
        ids.shift(&mut self.0, at..count, at + 1);
        put_u32(&mut self.0, KEYS.at(at), key);
        put_u32(&mut self.0, ids.at(at), id);
        self.set_count(count + 1);
    }

    /// Removes a pair from a leaf node. Returns its tuple id.
    pub fn remove_pair(&mut self, at: usize) -> u32 {
        let (count, ids) = (self.count(), self.ids_array());
        let id = get_u32(&self.0, ids.at(at));
        KEYS.shift(&mut self.0, at + 1..count, at);
        ids.shift(&mut self.0, at + 1..count, at);
        self.set_count(count - 1);
        id
    }

    /// Adds a key to a nonleaf node that has room for it, and the child on the key's right.
    pub fn insert_child(&mut self, at: usize, key: u32, child: Place) {
        let (count, (blocks, lines)) = (self.count(), self.child_arrays());
        KEYS.shift(&mut self.0, at..count, at + 1);
        blocks.shift(&mut self.0, at + 1..count + 1, at + 2);
        lines.shift(&mut self.0, at + 1..count + 1, at + 2);
        put_u32(&mut self.0, KEYS.at(at), key);
        self.set_count(count + 1);
        self.set_child(at + 1, child);
    }

    /// Removes all keys but the first `count`, and what is on their right.
    pub fn truncate(&mut self, count: usize) {
        self.set_count(count);
    }

    /// Removes the first `skipped` pairs of a leaf node.
    pub fn skip_pairs(&mut self, skipped: usize) {
        let (count, ids) = (self.count(), self.ids_array());
        KEYS.shift(&mut self.0, skipped..count, 0);
        ids.shift(&mut self.0, skipped..count, 0);
        self.set_count(count - skipped);
    }

    /// Removes the first `skipped` keys and children of a nonleaf node.
    pub fn skip_children(&mut self, skipped: usize) {
        let (count, (blocks, lines)) = (self.count(), self.child_arrays());
        KEYS.shift(&mut self.0, skipped..count, 0);
        blocks.shift(&mut self.0, skipped..count + 1, 0);
        lines.shift(&mut self.0, skipped..count + 1, 0);
        self.set_count(count - skipped);
    }
}
