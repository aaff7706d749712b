//! Making room for another pair (§3.2.2): splits of nodes and of pages.

use std::iter::successors;

use super::layout::{Kind, Page, Place};
use super::{CacheFirst, jump};
use crate::pool::{Block, NO_BLOCK};
use crate::search::Search;

/// A nonleaf node on the way from the root to some node, and which of its children leads there.
#[derive(Clone, Copy)]
struct Step {
    place: Place,
    child: usize,
}

impl<S: Search> CacheFirst<S> {
    /// Makes one change that brings room for `key` closer, which belongs in the full leaf node `leaf`: splits a node or
    /// a page, or adds a level. The tree is whole after each.
    pub(super) fn make_room(&mut self, key: u32, leaf: Place) {
        let path = self.path(key, leaf);
        let full = path.iter().rev().take_while(|step| self.node(step.place).is_full()).count();
        let Some(depth) = (path.len() - full).checked_sub(1) else {
            return self.add_level();
        };
        match path.get(depth + 1) {
            None => self.split_leaf(path[depth], leaf),
            Some(step) => self.split_nonleaf(path[depth], step.place, depth + 2 == path.len()),
        }
    }

    /// The nodes above the node `end`, to which `key` leads, from the root on.
    fn path(&mut self, key: u32, end: Place) -> Vec<Step> {
        let mut path = Vec::with_capacity(self.height);
        let mut place = self.root;
        while place != end {
            let node = self.node(place);
            let child = node.towards::<S>(key);
            let below = node.child(child);
            path.push(Step { place, child });
            place = below;
        }
        path
    }

    /// Puts a new root above the root: in its page if a sibling of the old root fits there, too, else in a new one.
    fn add_level(&mut self) {
        let (old, shape) = (self.root, self.shape);
        let lines: Vec<u16> = shape.used(self.pool.page(old.block)).collect();
        let together = self.height > 1 && lines.len() + 2 <= shape.slots;
        if together {
            for line in lines {
                let mut node = self.node_mut(Place { line, ..old });
                let level = node.level();
                node.set_level(level + 1);
            }
        }
        let in_page = if together { self.take(old.block) } else { None };
        self.root = in_page.unwrap_or_else(|| self.take_in_new_page(Kind::Nonleaf));
        let root = self.root;
        self.node_mut(root).fill_nonleaf(0, &[(0, old)]);
        if self.height == 1 {
            self.adopt_leaf_pages(root);
        }
        self.height += 1;
    }

    /// Splits a leaf node whose parent has room, or its page if that is full.
    fn split_leaf(&mut self, parent: Step, leaf: Place) {
        let Some(new) = self.take(leaf.block) else {
            return self.split_leaf_page(leaf.block);
        };
        self.copy(leaf, new);
        let mut left = self.node_mut(leaf);
        let half = left.count() / 2;
        left.truncate(half);
        left.set_next(new);
        let mut right = self.node_mut(new);
        right.skip_pairs(half);
        let separator = right.keys()[0];
        self.node_mut(parent.place).insert_child(parent.child, separator, new);
    }

    /// Moves the second half of a full leaf page's nodes to a new page.
    fn split_leaf_page(&mut self, block: Block) {
        let page = Page(self.pool.page(block));
        let (mut parent, first) = (page.parent(), Place { block, line: page.first() });
        let slots = self.shape.slots;
        let leaves: Vec<Place> = successors(Some(first), |&leaf| Some(self.node(leaf).next())).take(slots).collect();
        let (stay, go) = leaves.split_at(leaves.len() / 2);
        let new_page = self.new_page(Kind::Leaf);
        let mut previous = stay[stay.len() - 1];
        for (number, &leaf) in go.iter().enumerate() {
            let new = self.move_node(leaf, new_page);
            self.node_mut(previous).set_next(new);
            previous = new;
            let child = self.find_child(&mut parent, leaf);
            self.node_mut(parent).set_child(child, new);
            if number == 0 {
                let mut page = Page(self.pool.page_mut(new_page));
                page.set_first(new.line);
                page.set_parent(parent);
            }
        }
        jump::insert(&mut self.pool, block, new_page);
    }

    /// Where in its parent a leaf node is. The parent is searched from `parent` on, along the links, and set.
    fn find_child(&mut self, parent: &mut Place, leaf: Place) -> usize {
        loop {
            let node = self.node(*parent);
            if let Some(at) = node.children().position(|child| child == leaf) {
                return at;
            }
            let next = node.next();
            *parent = next;
        }
    }

    /// Splits a nonleaf node whose parent has room: in its page if there is room, or else
    /// - a leaf parent, into its page and an overflow page;
    /// - the only uppermost node of its page, together with the page;
    /// - any other node later, after its page.
    fn split_nonleaf(&mut self, parent: Step, node: Place, is_leaf_parent: bool) {
        let new = match self.take(node.block) {
            Some(new) => new,
            None if is_leaf_parent => self.take_overflow(),
            None if self.tops(node.block) == [node] => self.take_in_new_page(Kind::Nonleaf),
            None => return self.split_page(node.block),
        };
        self.copy(node, new);
        let mut left = self.node_mut(node);
        let half = left.count() / 2;
        let separator = left.keys()[half];
        left.truncate(half);
        self.node_mut(new).skip_children(half + 1);
        self.node_mut(parent.place).insert_child(parent.child, separator, new);
        if new.block != node.block {
            self.node_mut(new).set_level(0);
        }
        if is_leaf_parent {
            self.node_mut(node).set_next(new);
            self.adopt_leaf_pages(new);
        } else if new.block != node.block {
            self.move_children(new, node.block, 1);
        }
    }

    /// Moves the second half of a full page's nodes to a new page (Figure 9(c)): whole subtrees, which come below the
    /// page's uppermost node if there is only one of these, until half of the nodes have been moved.
    fn split_page(&mut self, block: Block) {
        let mut subtrees = self.tops(block);
        let first = subtrees.remove(0);
        if subtrees.is_empty() {
            subtrees = self.children_in(first, block);
        }
        let new_page = self.new_page(Kind::Nonleaf);
        let mut moved = 0;
        for &top in subtrees.iter().rev() {
            if moved < self.shape.slots / 2 {
                moved += self.move_subtree(top, new_page, 0);
            }
        }
    }

    /// The nodes of a page of nonleaf nodes whose parents are in other pages, in key order.
    fn tops(&mut self, block: Block) -> Vec<Place> {
        let shape = self.shape;
        let lines: Vec<u16> = shape.used(self.pool.page(block)).collect();
        let places = lines.into_iter().map(|line| Place { block, line });
        let mut tops: Vec<Place> = places.filter(|&place| self.node(place).level() == 0).collect();
        tops.sort_by_key(|&top| self.node(top).keys().first().copied());
        tops
    }

    /// The children of a nonleaf node that are in a page.
    fn children_in(&mut self, node: Place, block: Block) -> Vec<Place> {
        self.node(node).children().filter(|child| child.block == block).collect()
    }

    /// Moves a node and what is below it in its page to another page. Returns how many nodes that are.
    fn move_subtree(&mut self, top: Place, block: Block, level: u16) -> usize {
        let new = self.move_nonleaf(top, block, level);
        1 + self.move_children(new, top.block, level + 1)
    }

    /// Moves those children of a node that are in the page `from` to the node's page, with what is below them.
    fn move_children(&mut self, parent: Place, from: Block, level: u16) -> usize {
        let children = self.children_in(parent, from);
        children.into_iter().map(|child| self.move_subtree(child, parent.block, level)).sum()
    }

    /// Moves a nonleaf node, not the root, to a page with room for it, and tells those that point to it.
    fn move_nonleaf(&mut self, node: Place, block: Block, level: u16) -> Place {
        let key = self.node(node).keys()[0];
        let path = self.path(key, node);
        let new = self.move_node(node, block);
        self.node_mut(new).set_level(level);
        let parent = path[path.len() - 1];
        self.node_mut(parent.place).set_child(parent.child, new);
        if path.len() + 2 == self.height {
            if let Some(previous) = self.previous(&path) {
                self.node_mut(previous).set_next(new);
            }
            self.adopt_leaf_pages(new);
        }
        new
    }

    /// The node before the one that a path leads to, on its level.
    fn previous(&mut self, path: &[Step]) -> Option<Place> {
        let turn = path.iter().rposition(|step| step.child > 0)?;
        let mut place = self.node(path[turn].place).child(path[turn].child - 1);
        for _ in turn + 1..path.len() {
            let node = self.node(place);
            place = node.child(node.count());
        }
        Some(place)
    }

    /// Moves a node's bytes to a page with room for it.
    fn move_node(&mut self, node: Place, block: Block) -> Place {
        let new = self.take(block).expect("a page with room");
        self.copy(node, new);
        let shape = self.shape;
        shape.free(self.pool.page_mut(node.block), node.line);
        new
    }

    fn copy(&mut self, from: Place, to: Place) {
        let bytes = self.node(from).0.to_vec();
        self.node_mut(to).0.copy_from_slice(&bytes);
    }

    /// Sets the back pointers of those leaf pages whose first node is a child of `parent`.
    pub(super) fn adopt_leaf_pages(&mut self, parent: Place) {
        let mut leaves: Vec<Place> = self.node(parent).children().collect();
        leaves.dedup_by_key(|leaf| leaf.block);
        for leaf in leaves {
            if Page(self.pool.page(leaf.block)).first() == leaf.line {
                Page(self.pool.page_mut(leaf.block)).set_parent(parent);
            }
        }
    }

    fn new_page(&mut self, kind: Kind) -> Block {
        let block = self.pool.allocate();
        Page(self.pool.page_mut(block)).set_kind(kind);
        block
    }

    /// A slot for a node in a page, if it has a free one.
    pub(super) fn take(&mut self, block: Block) -> Option<Place> {
        self.shape.take(self.pool.page_mut(block), block)
    }

    /// A slot for a node in a new page.
    pub(super) fn take_in_new_page(&mut self, kind: Kind) -> Place {
        let block = self.new_page(kind);
        self.take(block).expect("an empty page")
    }

    /// A slot for a parent of leaf nodes in an overflow page.
    pub(super) fn take_overflow(&mut self) -> Place {
        let in_page = if self.overflow == NO_BLOCK { None } else { self.take(self.overflow) };
        let place = in_page.unwrap_or_else(|| self.take_in_new_page(Kind::Overflow));
        self.overflow = place.block;
        place
    }
}
