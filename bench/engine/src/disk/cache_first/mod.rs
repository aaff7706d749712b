//! The cache-first fractal prefetching B+-tree: Chen, Gibbons, Mowry and Valentin, "Fractal Prefetching B+-Trees"
//! (SIGMOD 2002), §3.2 and §3.3.
//!
//! It is a B+-tree of cache-optimised nodes, a few cache lines wide, that are placed in pages so that few pages are
//! read: a nonleaf node's children in the node's own page as far as they fit, leaf nodes in leaf pages, and leaf nodes'
//! parents that find no room with their own parents in overflow pages. Splits of pages follow Figure 9(c): the second
//! half of a page's subtrees moves to a new page. Deletion is lazy: nodes and pages stay, even when they are empty.

mod check;
mod jump;
mod layout;
mod load;
mod node;
mod split;

use std::marker::PhantomData;

use fpbtree_engine::simd;

use super::Paged;
use crate::index::Index;
use crate::pool::{Block, NO_BLOCK, Pool};
use crate::search::{Binary, Search};
use layout::Shape;
pub use layout::{LINE, Place, Width, optimal_width};
use node::Node;

/// The tree.
pub struct CacheFirst<S: Search = Binary> {
    pool: Pool,
    shape: Shape,
    root: Place,
    /// Levels of nodes.
    height: usize,
    /// The overflow page that was allocated last.
    overflow: Block,
    search: PhantomData<S>,
}

impl<S: Search> CacheFirst<S> {
    fn empty(pool: Pool, lines: usize) -> Self {
        let shape = Shape::new(pool.page_size(), lines).expect("pages with room for two nodes");
        CacheFirst { pool, shape, root: Place::NONE, height: 0, overflow: NO_BLOCK, search: PhantomData }
    }

    /// Levels of nodes, leaf nodes included.
    pub fn height(&self) -> usize {
        self.height
    }

    #[inline]
    fn node(&mut self, place: Place) -> Node<&[u8]> {
        Node(&self.pool.page(place.block)[self.shape.node(place.line)])
    }

    #[inline]
    fn node_mut(&mut self, place: Place) -> Node<&mut [u8]> {
        Node(&mut self.pool.page_mut(place.block)[self.shape.node(place.line)])
    }

    /// The leaf node that a key belongs in. A page is asked of the pool once, however many of its nodes are visited.
    #[inline]
    fn leaf(&mut self, key: u32) -> Place {
        let mut place = self.root;
        let mut levels = self.height - 1;
        while levels > 0 {
            let block = place.block;
            let page = self.pool.page(block);
            while levels > 0 && place.block == block {
                let node = Node(&page[self.shape.node(place.line)]);
                place = node.child(node.towards::<S>(key));
                levels -= 1;
            }
        }
        place
    }
}

impl<S: Search> Paged for CacheFirst<S> {
    fn pool_mut(&mut self) -> &mut Pool {
        &mut self.pool
    }

    /// The pages between those that the two keys are in, listed by the external jump-pointer array (§2.2).
    fn leaf_blocks(&mut self, first: u32, last: u32) -> Vec<Block> {
        if first > last {
            return Vec::new();
        }
        let (first, last) = (self.leaf(first), self.leaf(last));
        jump::list(&mut self.pool, first.block, last.block)
    }
}

impl<S: Search> Index for CacheFirst<S> {
    fn insert(&mut self, key: u32, id: u32) -> Option<u32> {
        loop {
            let leaf = self.leaf(key);
            let mut node = self.node_mut(leaf);
            match node.find::<S>(key) {
                Ok(at) => return Some(node.set_id(at, id)),
                Err(at) if !node.is_full_leaf() => {
                    node.insert_pair(at, key, id);
                    return None;
                }
                Err(_) => self.make_room(key, leaf),
            }
        }
    }

    fn remove(&mut self, key: u32) -> Option<u32> {
        let leaf = self.leaf(key);
        let mut node = self.node_mut(leaf);
        let at = node.find::<S>(key).ok()?;
        Some(node.remove_pair(at))
    }

    fn search(&mut self, key: u32) -> Option<u32> {
        let leaf = self.leaf(key);
        let node = self.node(leaf);
        let at = node.find::<S>(key).ok()?;
        Some(node.ids()[at])
    }

    fn scan(&mut self, first: u32, last: u32, mut each: impl FnMut(u32, u32)) {
        let mut leaf = self.leaf(first);
        while leaf != Place::NONE {
            let block = leaf.block;
            let page = self.pool.page(block);
            // The bitmap of slots serves as a jump-pointer array inside the page (§3.3).
            let nodes = self.shape.used(page).flat_map(|line| page[self.shape.node(line)].chunks(LINE));
            nodes.for_each(|line| simd::prefetch(line.as_ptr()));
            while leaf.block == block {
                let node = Node(&page[self.shape.node(leaf.line)]);
                let (keys, ids) = (node.keys(), node.ids());
                // Most nodes of a scan are in it as a whole.
                let start = if keys.first().is_none_or(|&key| key >= first) { 0 } else { S::lower(keys, first) };
                let end = if keys.last().is_none_or(|&key| key <= last) { keys.len() } else { S::upper(keys, last) };
                keys[start..end].iter().zip(&ids[start..end]).for_each(|(&key, &id)| each(key, id));
                if end < keys.len() {
                    return;
                }
                leaf = node.next();
            }
        }
    }

    fn check(&mut self) -> usize {
        self.check_all()
    }
}
