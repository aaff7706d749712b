//! The bulk load (§3.2.2).

use std::ops::Range;

use super::layout::{Kind, Page, Place};
use super::node::{fan_out, leaf_room};
use super::{CacheFirst, jump};
use crate::index::Pair;
use crate::pool::Pool;
use crate::search::Search;

/// How many of `room` items are used.
pub fn filled(room: usize, fill: f64) -> usize {
    ((room as f64 * fill).round() as usize).clamp(1, room)
}

/// `count` items in as few parts of up to `size` as possible, one at least, all of about the same size.
pub fn even_parts(count: usize, size: usize) -> impl Iterator<Item = Range<usize>> {
    let parts = count.div_ceil(size).max(1);
    (0..parts).map(move |part| part * count / parts..(part + 1) * count / parts)
}

/// The fewest children of a node that are loaded: with three, even parts are never of fewer than two.
const LEAST_CHILDREN: usize = 3;

/// Which nodes are placed with their parents.
struct Placement {
    /// Children of a node.
    children: usize,
    /// Levels of the largest full subtree that fits into a page.
    levels: u32,
    /// Nodes that would be on the level below these.
    row: usize,
    /// How many of them fit, too: the underflow.
    extra: usize,
}

impl Placement {
    fn new(children: usize, slots: usize) -> Self {
        let (mut levels, mut row, mut extra) = (0, 1, slots);
        while row <= extra {
            (levels, row, extra) = (levels + 1, row * children, extra - row);
        }
        Placement { children, levels, row, extra }
    }

    /// Whether the node number `number` on an in-page level goes into the page of its parent: on the level below the
    /// full subtree, if its bit is set in a bitmap with `extra` bits set, as evenly as possible, out of `row`.
    fn with_parent(&self, level: u16, number: usize) -> bool {
        let bits_up_to = |number: usize| number * self.extra / self.row;
        match u32::from(level) {
            level if level < self.levels => true,
            level if level == self.levels => bits_up_to(number) < bits_up_to(number + 1),
            _ => false,
        }
    }
}

/// A nonleaf node that has its place, but not its contents yet.
#[derive(Clone, Copy)]
struct Placed {
    place: Place,
    /// Its in-page level.
    level: u16,
    /// Its number among the nodes that could be on that level of the page.
    number: usize,
}

impl Placed {
    fn top(place: Place) -> Self {
        Placed { place, level: 0, number: 0 }
    }
}

impl<S: Search> CacheFirst<S> {
    /// A tree of `pairs`, sorted by distinct keys, whose nodes are `lines` cache lines wide, in the pages of `pool`, of
    /// which none is in use. Nodes are made as full as `fill` says, the pages' node slots are all used.
    ///
    /// # Panics
    /// If a page has no room for two nodes.
    pub fn load(pairs: &[Pair], fill: f64, pool: Pool, lines: usize) -> Self {
        let mut tree = Self::empty(pool, lines);
        let width = tree.shape.width;
        let leaves = tree.load_leaves(pairs, filled(leaf_room(width), fill));
        let mut leaf_pages: Vec<_> = leaves.iter().map(|(_, leaf)| leaf.block).collect();
        leaf_pages.dedup();
        tree.load_nonleaf(&leaves, filled(fan_out(width), fill).max(LEAST_CHILDREN));
        jump::load(&mut tree.pool, &leaf_pages, fill);
        tree
    }

    /// Makes the leaf nodes, one after the other in leaf pages. Returns their lowest keys and places.
    fn load_leaves(&mut self, pairs: &[Pair], size: usize) -> Vec<(u32, Place)> {
        let mut leaves: Vec<(u32, Place)> = Vec::new();
        for part in even_parts(pairs.len(), size) {
            let previous = leaves.last().map(|&(_, leaf)| leaf);
            let in_page = previous.and_then(|leaf| self.take(leaf.block));
            let leaf = in_page.unwrap_or_else(|| self.take_in_new_page(Kind::Leaf));
            if in_page.is_none() {
                let mut page = Page(self.pool.page_mut(leaf.block));
                page.set_first(leaf.line);
                page.set_parent(Place::NONE);
            }
            self.node_mut(leaf).fill_leaf(&pairs[part.clone()]);
            if let Some(previous) = previous {
                self.node_mut(previous).set_next(leaf);
            }
            leaves.push((pairs.get(part.start).map_or(0, |&(key, _)| key), leaf));
        }
        leaves
    }

    /// Makes the nonleaf nodes above the leaf nodes, the top ones first, because where a node is placed depends on
    /// where its parent is.
    fn load_nonleaf(&mut self, leaves: &[(u32, Place)], size: usize) {
        let mut lows: Vec<Vec<u32>> = vec![leaves.iter().map(|&(low, _)| low).collect()];
        while let Some(below) = lows.last().filter(|below| below.len() > 1) {
            lows.push(even_parts(below.len(), size).map(|part| below[part.start]).collect());
        }
        self.height = lows.len();
        if self.height == 1 {
            self.root = leaves[0].1;
            return;
        }
        let placement = Placement::new(size, self.shape.slots);
        self.root = self.take_in_new_page(Kind::Nonleaf);
        let mut nodes = vec![Placed::top(self.root)];
        for level in (1..self.height - 1).rev() {
            nodes = self.load_level(&nodes, &lows[level], level == 1, &placement);
        }
        self.load_leaf_parents(&nodes, leaves, size);
    }

    /// Writes the nodes of a level, and places their children. Returns these.
    fn load_level(&mut self, nodes: &[Placed], lows: &[u32], of_leaf_parents: bool, how: &Placement) -> Vec<Placed> {
        let mut placed = Vec::with_capacity(lows.len());
        for (&node, part) in nodes.iter().zip(even_parts(lows.len(), how.children)) {
            let start = placed.len();
            placed.extend((0..part.len()).map(|child| self.place(node, child, of_leaf_parents, how)));
            let places = placed[start..].iter().map(|child| child.place);
            let children: Vec<_> = lows[part].iter().copied().zip(places).collect();
            self.node_mut(node.place).fill_nonleaf(node.level, &children);
        }
        placed
    }

    /// Places a child of a node.
    fn place(&mut self, parent: Placed, child: usize, is_leaf_parent: bool, how: &Placement) -> Placed {
        let (level, number) = (parent.level + 1, parent.number * how.children + child);
        if how.with_parent(level, number) {
            let place = self.take(parent.place.block).expect("room for the subtree and its underflow");
            Placed { place, level, number }
        } else if is_leaf_parent {
            Placed::top(self.take_overflow())
        } else {
            Placed::top(self.take_in_new_page(Kind::Nonleaf))
        }
    }

    /// Writes the parents of leaf nodes, and links them.
    fn load_leaf_parents(&mut self, nodes: &[Placed], leaves: &[(u32, Place)], size: usize) {
        for (number, part) in even_parts(leaves.len(), size).enumerate() {
            let node = nodes[number];
            self.node_mut(node.place).fill_nonleaf(node.level, &leaves[part]);
            self.adopt_leaf_pages(node.place);
            if number > 0 {
                self.node_mut(nodes[number - 1].place).set_next(node.place);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_underflow_is_spread() {
        // The paper's example: nodes of 69 children, pages of 23 nodes, 22 children with their parent.
        let placement = Placement::new(69, 23);
        assert_eq!((placement.levels, placement.extra), (1, 22));
        let placed: Vec<usize> = (0..69).filter(|&child| placement.with_parent(1, child)).collect();
        assert_eq!(placed.len(), 22);
        assert!(placed.windows(2).all(|pair| (3..=4).contains(&(pair[1] - pair[0]))));
        // Pages with room for a node, its children, and 9 of its 25 grandchildren.
        let placement = Placement::new(5, 15);
        assert_eq!((placement.levels, placement.extra), (2, 9));
        assert!((0..5).all(|child| placement.with_parent(1, child)) && !placement.with_parent(3, 0));
        assert_eq!((0..25).filter(|&grandchild| placement.with_parent(2, grandchild)).count(), 9);
    }
}
