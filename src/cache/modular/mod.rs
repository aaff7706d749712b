//! A modular B+-tree (Sasaki and Araki): an ordered map in memory whose levels are modules chosen at compile time.
//!
//! What a node costs to search and to change depends on its size, order and search, and how often each is done depends
//! on its level. So every level has its own [`Module`]; three of them make a tree ([`Modules`]):
//!
//! - *leaves*, level 0, are written most: small and unsorted, so that an insert appends;
//! - *inner* nodes, level 1, are small and sorted, searched by SIMD, their child ids prefetched;
//! - the *root* is one large sorted node, searched by interpolation among the sentinels of its lines. It is sized for
//!   the region it lives in.
//!
//! Three levels are what nearly every tree has ([`Best`] holds tens of millions of pairs in them). A root that
//! overflows hands its children down to new inner nodes: the inner module repeats, one level more. A root with a single
//! inner child takes over that child's children. A node is split when it overflows, in halves (an unsorted one at the
//! median of a few keys; a rightmost leaf that is appended to stays full), and merged with a neighbour of the same
//! parent when it is a quarter full and both fit in three quarters of a node. The paper merges empty nodes only; a
//! region of a fixed size wants them fuller.
//!
//! The tree lives in a region of borrowed bytes ([`Tree::format`], [`Tree::attach`]), and holds offsets only, so that
//! the region can be mapped anywhere, in several processes. It never grows: [`Tree::insert`] answers [`Error::Full`],
//! the tree stays as it was, and the caller decides what has to go. A region should start on a cache line, or on a
//! large page if those are wanted ([`Tree::advise`]); anywhere else the tree is merely slower.
//!
//! One writer at a time, and no reader beside it: locks are the caller's.
//!
//! *Damaged memory.* Whatever the bytes of a region become after it was attached, nothing outside it is read or
//! written, nothing panics, and everything ends. Answers may then be wrong; [`Tree::verify`] tells.

use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

mod node;
mod order;
mod region;

pub use node::Value;
pub use order::{Binary, Interpolation, Linear, NodeKeys, Order, Search, Sentinels, Sorted, Unsorted};

use crate::format::Lane;
use crate::simd::{self, Simd};
use node::{NodeLayout, NodeLink, before};
use order::{HEADER, LINE};
use region::{Field, Pool, Region};

/// Levels of inner nodes that a tree can have.
const MOST_LEVELS: usize = 24;

/// What to bring closer as soon as a node is arrived at, while its keys are searched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Prefetch {
    /// Nothing but what the search itself reads.
    Nothing,
    /// The keys, sentinels and links.
    Keys,
    /// The child ids or values.
    Payloads,
    /// The whole node.
    Node,
}

/// What the nodes of one level are.
pub trait Module {
    /// The order of entries, and their search.
    type Order: Order;
    /// Bytes in a node: a multiple of 64. Of the root: the most it may have.
    const SIZE: usize;
    /// What is prefetched.
    const PREFETCH: Prefetch = Prefetch::Nothing;
    /// Whether [`Tree::advise`] asks for large pages.
    const LARGE_PAGES: bool = false;
}

/// The modules of a tree's levels.
pub trait Modules {
    /// Level 0: keys and values.
    type Leaf: Module;
    /// The levels between leaves and root.
    type Inner: Module;
    /// The top level: one sorted node, of at least twice the size of an inner one.
    type Root: Module;
}

/// The paper's best selection, with sentinels in sorted nodes, inner nodes twice as large, and values fetched along
/// with a leaf's keys: `fpbtree-lab modular-selections` has each of these faster.
pub struct Best;

impl Modules for Best {
    type Leaf = BestLeaf;
    type Inner = BestInner;
    type Root = BestRoot;
}

/// Small and unsorted.
pub struct BestLeaf;

impl Module for BestLeaf {
    type Order = Unsorted;
    const SIZE: usize = 1024;
    const PREFETCH: Prefetch = Prefetch::Node;
    const LARGE_PAGES: bool = true;
}

/// Small and sorted.
pub struct BestInner;

impl Module for BestInner {
    type Order = Sorted<Sentinels<Linear>>;
    const SIZE: usize = 2048;
    const PREFETCH: Prefetch = Prefetch::Node;
    const LARGE_PAGES: bool = true;
}

/// Large and sorted.
pub struct BestRoot;

impl Module for BestRoot {
    type Order = Sorted<Sentinels<Interpolation>>;
    const SIZE: usize = 256 << 10;
    const LARGE_PAGES: bool = true;
}

/// Why a region cannot be used, or a tree not be changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// The region has no room left. The tree is as it was.
    Full,
    /// The region's bytes are not those of a tree of this type.
    Foreign,
    /// The region's bytes contradict each other.
    Damaged,
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Error::Full => "the tree's memory is full",
            Error::Foreign => "the memory holds no tree of this type",
            Error::Damaged => "the tree's memory is damaged",
        })
    }
}

impl core::error::Error for Error {}

/// What a tree is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Usage {
    /// Pairs of key and value.
    pub entries: u64,
    /// Leaves in use.
    pub leaves: u32,
    /// Inner nodes in use, without the root.
    pub inner: u32,
    /// Levels, with those of the leaves and the root.
    pub levels: usize,
    /// Bytes of the region that were ever used.
    pub bytes: usize,
}

/// An ordered map from `K` to `V` in a region of bytes `M`, with levels of the modules `S`.
pub struct Tree<K, V, S: Modules, M> {
    region: Region<M>,
    root: NodeLayout<K, u32, OrderRoot<S>>,
    values: PhantomData<V>,
}

type Order0<S> = <<S as Modules>::Leaf as Module>::Order;
type Order1<S> = <<S as Modules>::Inner as Module>::Order;
type OrderRoot<S> = <<S as Modules>::Root as Module>::Order;

/// An inner node on the way to a key, and the number of the child the way leads to.
#[derive(Clone, Copy, Default)]
struct Step {
    id: u32,
    child: usize,
}

/// The way from the root, whose step is the first, to a leaf.
struct Path {
    steps: [Step; MOST_LEVELS + 1],
    levels: usize,
    leaf: u32,
}

/// Does the same with the root, at level 0 of a path, and with an inner node.
macro_rules! with_node {
    ($tree:ident, $level:expr, $id:expr, |$layout:ident, $node:ident| $body:expr) => {
        if $level == 0 {
            let ($layout, $node) = (&$tree.root, $tree.region.root_mut()?);
            $body
        } else {
            let ($layout, $node) = (&Self::INNER, $tree.region.node_mut($id, Self::INNERS)?);
            $body
        }
    };
}

impl<K: Lane, V: Value, S: Modules, M: Deref<Target = [u8]>> Tree<K, V, S, M> {
    const LEAF: NodeLayout<K, V, Order0<S>> = NodeLayout::fitting(S::Leaf::SIZE);
    const INNER: NodeLayout<K, u32, Order1<S>> = NodeLayout::fitting(S::Inner::SIZE);
    const LEAVES: Pool = Pool { size: S::Leaf::SIZE, leaf: true };
    const INNERS: Pool = Pool { size: S::Inner::SIZE, leaf: false };

    /// What a tree of this type is known by: another layout has another.
    const STAMP: u64 = {
        let sizes = Self::LEAF.capacity >= 2 && Self::INNER.capacity >= 2 && S::Root::SIZE >= 2 * S::Inner::SIZE;
        let lines = (S::Leaf::SIZE | S::Inner::SIZE | S::Root::SIZE).is_multiple_of(LINE);
        assert!(sizes && lines && <OrderRoot<S>>::SORTED, "these modules make no tree");
        stamp(&[
            K::SIZE,
            V::SIZE,
            S::Leaf::SIZE,
            S::Inner::SIZE,
            <Order0<S>>::SORTED as usize,
            <Order1<S>>::SORTED as usize,
            <Order0<S>>::SENTINELS as usize,
            <Order1<S>>::SENTINELS as usize,
            <OrderRoot<S>>::SENTINELS as usize,
        ])
    };

    /// The tree that was formatted in `memory`, here or at another address.
    ///
    /// # Errors
    /// [`Error::Foreign`] if there is none of this type, or not all of it.
    pub fn attach(memory: M) -> Result<Self, Error> {
        let region = Region::attach(memory, Self::STAMP)?;
        let root = 2 * S::Inner::SIZE..=S::Root::SIZE;
        if !root.contains(&region.root_size()) {
            return Err(Error::Foreign);
        }
        let root = NodeLayout::fitting(region.root_size());
        Ok(Tree { region, root, values: PhantomData })
    }

    /// The value of `key`.
    #[inline]
    pub fn find(&self, key: K) -> Option<V> {
        Simd::run(Self::find_by, (self, key))
    }

    #[inline(always)]
    fn find_by(simd: Simd, (tree, key): (&Self, K)) -> Option<V> {
        let leaf = tree.leaf(tree.descend(simd, key).ok()?).ok()?;
        let slot = Self::LEAF.slot(simd, leaf, key).ok()?;
        Some(Self::LEAF.payload(leaf, slot))
    }

    /// The pair with the greatest key that is `key` or less.
    #[inline]
    pub fn find_at_most(&self, key: K) -> Option<(K, V)> {
        Simd::run(Self::find_at_most_by, (self, key))
    }

    #[inline(always)]
    fn find_at_most_by(simd: Simd, (tree, key): (&Self, K)) -> Option<(K, V)> {
        let leaf = tree.leaf(tree.descend(simd, key).ok()?).ok()?;
        match Self::LEAF.at_most(simd, leaf, key) {
            Some(slot) => Some(Self::LEAF.entry(leaf, slot)),
            None => tree.greatest(NodeLink::Previous.get(leaf)),
        }
    }

    /// The pair with the greatest key of a leaf. Only the leaf of an empty tree is empty.
    fn greatest(&self, leaf: u32) -> Option<(K, V)> {
        let leaf = self.leaf(leaf).ok()?;
        Some(Self::LEAF.entry(leaf, Self::LEAF.at_most(Simd::chosen(), leaf, K::MAX)?))
    }

    /// The pairs from `key` on, in ascending order.
    pub fn range_from(&self, key: K) -> impl Iterator<Item = (K, V)> {
        let first = self.descend(Simd::chosen(), key).ok().and_then(|id| self.leaf(id).ok());
        let next = |leaf: &&[u8]| self.leaf(NodeLink::Next.get(leaf)).ok();
        // A ring of damaged links has an end too.
        let leaves = core::iter::successors(first, next).take(self.region.most(Self::LEAVES));
        leaves.flat_map(move |leaf| {
            let entry = |slot| Self::LEAF.entry(leaf, slot);
            let first = Self::LEAF.above(leaf, before(key)).map(entry);
            core::iter::successors(first, move |(last, _)| Self::LEAF.above(leaf, Some(*last)).map(entry))
        })
    }

    /// All pairs, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = (K, V)> {
        self.range_from(K::MIN)
    }

    /// The memory it was given.
    pub fn memory(&self) -> &M {
        self.region.memory()
    }

    /// Gives its memory back.
    pub fn into_memory(self) -> M {
        self.region.into_memory()
    }

    /// How many pairs there are.
    pub fn len(&self) -> u64 {
        self.region.len()
    }

    /// Whether there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the tree is made of.
    pub fn usage(&self) -> Usage {
        Usage {
            entries: self.len(),
            leaves: self.region.used(Self::LEAVES),
            inner: self.region.used(Self::INNERS),
            levels: self.region.levels() + 2,
            bytes: self.region.touched(),
        }
    }

    /// The leaf that `key` belongs to.
    #[inline(always)]
    fn descend(&self, simd: Simd, key: K) -> Result<u32, Error> {
        let root = self.region.root()?;
        let mut id = self.root.child(root, self.root.child_for(simd, root, key));
        for _ in 0..self.region.levels() {
            let node = self.inner(id)?;
            id = Self::INNER.child(node, Self::INNER.child_for(simd, node, key));
        }
        Ok(id)
    }

    /// The way to the leaf that `key` belongs to.
    fn path(&self, key: K) -> Result<Path, Error> {
        let root = self.region.root()?;
        let simd = Simd::chosen();
        let mut steps = [Step::default(); MOST_LEVELS + 1];
        steps[0].child = self.root.child_for(simd, root, key);
        let mut id = self.root.child(root, steps[0].child);
        let levels = self.region.levels();
        for step in &mut steps[1..=levels] {
            let node = self.inner(id)?;
            *step = Step { id, child: Self::INNER.child_for(simd, node, key) };
            id = Self::INNER.child(node, step.child);
        }
        Ok(Path { steps, levels, leaf: id })
    }

    #[inline(always)]
    fn inner(&self, id: u32) -> Result<&[u8], Error> {
        let node = self.region.node(id, Self::INNERS)?;
        bring::<S::Inner>(node, Self::INNER.payloads());
        Ok(node)
    }

    #[inline(always)]
    fn leaf(&self, id: u32) -> Result<&[u8], Error> {
        let node = self.region.node(id, Self::LEAVES)?;
        bring::<S::Leaf>(node, Self::LEAF.payloads());
        Ok(node)
    }

    /// Checks everything the tree relies on.
    ///
    /// # Errors
    /// [`Error::Damaged`] if anything is wrong.
    pub fn verify(&self) -> Result<(), Error> {
        let levels = self.region.get(Field::Levels) as usize;
        sound((1..=MOST_LEVELS).contains(&levels))?;
        let mut found = EntryPlace::default();
        let root = self.region.root()?;
        self.verify_children(&self.root, root, levels, (None, None), &mut found)?;
        sound(found.next == 0 && found.entries == self.len())?;
        sound(found.leaves == self.region.used(Self::LEAVES) && found.inner == self.region.used(Self::INNERS))
    }

    /// Checks an inner node, or the root, of which keys from `bounds.0` to below `bounds.1` are expected, and what is
    /// below it.
    fn verify_children<O: Order>(
        &self,
        layout: &NodeLayout<K, u32, O>,
        node: &[u8],
        levels: usize,
        bounds: (Option<K>, Option<K>),
        found: &mut EntryPlace,
    ) -> Result<(), Error> {
        sound(layout.flaw(node).is_none())?;
        let mut low = bounds.0;
        let mut number = 0;
        for _ in 0..=layout.count(node) {
            let above = layout.above(node, layout.separator(node, number));
            let high = above.map_or(bounds.1, |slot| Some(layout.key(node, slot)));
            sound(low.is_none_or(|low| high.is_none_or(|high| low < high)))?;
            let child = layout.child(node, number);
            if levels > 0 {
                found.inner += 1;
                sound((found.inner as usize) <= self.region.most(Self::INNERS))?;
                self.verify_children(&Self::INNER, self.inner(child)?, levels - 1, (low, high), found)?;
            } else {
                self.verify_leaf(child, (low, high), found)?;
            }
            low = high;
            number = above.map_or(0, |slot| slot + 1);
        }
        sound(number == 0)
    }

    fn verify_leaf(&self, id: u32, (low, high): (Option<K>, Option<K>), found: &mut EntryPlace) -> Result<(), Error> {
        let leaf = self.leaf(id)?;
        sound(Self::LEAF.flaw(leaf).is_none())?;
        let expected = (found.leaves == 0 || found.next == id) && NodeLink::Previous.get(leaf) == found.leaf;
        let count = Self::LEAF.count(leaf);
        sound(expected && (count > 0 || self.is_empty()))?;
        let inside = |key: K| low.is_none_or(|low| low <= key) && high.is_none_or(|high| key < high);
        sound(Self::LEAF.entries(leaf).all(|(key, _)| inside(key)))?;
        let mut last = None;
        for _ in 0..count {
            let slot = Self::LEAF.above(leaf, last);
            last = slot.map(|slot| Self::LEAF.key(leaf, slot));
            sound(slot.is_some())?;
        }
        found.leaves += 1;
        found.entries += count as u64;
        (found.leaf, found.next) = (id, NodeLink::Next.get(leaf));
        sound(found.leaves as usize <= self.region.most(Self::LEAVES))
    }
}

impl<K: Lane, V: Value, S: Modules, M: DerefMut<Target = [u8]>> Tree<K, V, S, M> {
    /// An empty tree in `memory`, all of which it may use, whatever is there.
    ///
    /// # Errors
    /// [`Error::Full`] if not even an empty tree fits.
    pub fn format(memory: M) -> Result<Self, Error> {
        let root_size = Self::root_size(memory.len());
        let region = Region::format(memory, Self::STAMP, root_size)?;
        let mut tree = Tree { region, root: NodeLayout::fitting(root_size), values: PhantomData };
        tree.clear()?;
        Ok(tree)
    }

    /// Bytes of a root with an entry for every inner node that a region of `bytes` is likely to have.
    fn root_size(bytes: usize) -> usize {
        let inner = bytes / S::Leaf::SIZE / (Self::INNER.capacity / 2);
        let size = inner * (K::SIZE + size_of::<u32>());
        size.next_multiple_of(LINE).clamp(2 * S::Inner::SIZE, S::Root::SIZE)
    }

    /// Removes all pairs, at no cost.
    ///
    /// # Errors
    /// [`Error::Full`] if not even an empty tree fits; [`Error::Damaged`] never for a tree that was formatted.
    pub fn clear(&mut self) -> Result<(), Error> {
        self.region.clear();
        let (inner, leaf) = (self.region.take(Self::INNERS)?, self.region.take(Self::LEAVES)?);
        self.region.node_mut(leaf, Self::LEAVES)?[..HEADER].fill(0);
        let node = self.region.node_mut(inner, Self::INNERS)?;
        Self::INNER.clear(node, leaf);
        self.root.clear(self.region.root_mut()?, inner);
        Ok(())
    }

    /// Asks the system for large pages where the modules want them, and says whether it took the advice. Advised are
    /// the root and the inner nodes as far as they are likely to come, and the rest for the leaves.
    pub fn advise(&mut self) -> bool {
        let size = self.region.size();
        let root = LINE + self.region.root_size();
        let inner = size / S::Leaf::SIZE / (Self::INNER.capacity / 2) * S::Inner::SIZE;
        let ends = [0, root, root + inner, size].map(|end| end.min(size));
        let wanted = [S::Root::LARGE_PAGES, S::Inner::LARGE_PAGES, S::Leaf::LARGE_PAGES];
        let areas = core::iter::zip(ends.windows(2), wanted).filter(|(_, wanted)| *wanted);
        let taken = areas.map(|(ends, _)| self.region.advise(ends[0]..ends[1]));
        taken.fold(false, |any, taken| any | taken)
    }

    /// Stores `value` for `key`, and returns the value that it replaces.
    ///
    /// # Errors
    /// [`Error::Full`] if there is no room for another pair; [`Error::Damaged`].
    #[inline]
    pub fn insert(&mut self, key: K, value: V) -> Result<Option<V>, Error> {
        // An overflow of the root, then one split: no sound tree needs a fourth try.
        for _ in 0..4 {
            if let Some(replaced) = Simd::run(Self::insert_by, (&mut *self, key, value))? {
                return Ok(replaced);
            }
            self.make_room(key)?;
        }
        Err(Error::Damaged)
    }

    /// As [`insert`](Self::insert), if the leaf is not full.
    #[inline(always)]
    fn insert_by(simd: Simd, (tree, key, value): (&mut Self, K, V)) -> Result<Option<Option<V>>, Error> {
        let id = tree.descend(simd, key)?;
        tree.leaf(id)?;
        let leaf = tree.region.node_mut(id, Self::LEAVES)?;
        match Self::LEAF.slot(simd, leaf, key) {
            Ok(slot) => {
                let replaced = Self::LEAF.payload(leaf, slot);
                Self::LEAF.set_payload(leaf, slot, value);
                Ok(Some(Some(replaced)))
            }
            Err(slot) if !Self::LEAF.is_full(leaf) => {
                Self::LEAF.insert(leaf, slot, (key, value));
                tree.region.set_len(tree.len().wrapping_add(1));
                Ok(Some(None))
            }
            Err(_) => Ok(None),
        }
    }

    /// Splits the full leaf that `key` belongs to, or else gives the root room for that.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self, key: K) -> Result<(), Error> {
        let path = self.path(key)?;
        let mut full = 0;
        while full < path.levels && Self::INNER.is_full(self.inner(path.steps[path.levels - full].id)?) {
            full += 1;
        }
        if full == path.levels && self.root.is_full(self.region.root()?) {
            return self.grow();
        }
        if !self.region.has([(Self::INNERS, full), (Self::LEAVES, 1)]) {
            return Err(Error::Full);
        }
        let mut added = self.split_leaf(path.leaf, key)?;
        for step in path.steps[1..=path.levels].iter().rev() {
            let node = self.region.node_mut(step.id, Self::INNERS)?;
            if !Self::INNER.is_full(node) {
                Self::INNER.add(node, added);
                return Ok(());
            }
            added = self.split_inner(step.id, added)?;
        }
        self.root.add(self.region.root_mut()?, added);
        Ok(())
    }

    /// Splits a leaf; what the parent needs to know.
    fn split_leaf(&mut self, id: u32, key: K) -> Result<(K, u32), Error> {
        let added = self.region.take(Self::LEAVES)?;
        let [left, right] = self.region.two([id, added], Self::LEAVES)?;
        let next = NodeLink::Next.get(left);
        right[..HEADER].fill(0);
        let greatest = Self::LEAF.at_most(Simd::chosen(), left, K::MAX).map(|slot| Self::LEAF.key(left, slot));
        let appended = next == 0 && greatest < Some(key);
        let separator = if appended { key } else { Self::LEAF.split(left, right) };
        NodeLink::Next.set(left, added);
        NodeLink::Previous.set(right, id);
        NodeLink::Next.set(right, next);
        if next != 0 {
            NodeLink::Previous.set(self.region.node_mut(next, Self::LEAVES)?, added);
        }
        Ok((separator, added))
    }

    /// Splits an inner node and adds an entry to one half; what the parent needs to know.
    fn split_inner(&mut self, id: u32, entry: (K, u32)) -> Result<(K, u32), Error> {
        let added = self.region.take(Self::INNERS)?;
        let [left, right] = self.region.two([id, added], Self::INNERS)?;
        right[..HEADER].fill(0);
        let separator = Self::INNER.split_children(left, right);
        Self::INNER.add(if entry.0 < separator { left } else { right }, entry);
        Ok((separator, added))
    }

    /// Hands the children of a full root down to new inner nodes, three quarters full: one more level.
    fn grow(&mut self) -> Result<(), Error> {
        let levels = self.region.levels();
        let children = self.root.count(self.region.root()?) + 1;
        let share = Self::INNER.capacity - Self::INNER.capacity / 4;
        if levels == MOST_LEVELS || !self.region.has([(Self::INNERS, children.div_ceil(share)), (Self::LEAVES, 0)]) {
            return Err(Error::Full);
        }
        for (place, start) in (0..children).step_by(share).enumerate() {
            let id = self.region.take(Self::INNERS)?;
            let root = self.region.root()?;
            let (separator, first) = (self.root.separator(root, start), self.root.child(root, start));
            Self::INNER.clear(self.region.node_mut(id, Self::INNERS)?, first);
            for child in start + 1..children.min(start + share) {
                let entry = self.root.entry(self.region.root()?, child - 1);
                Self::INNER.add(self.region.node_mut(id, Self::INNERS)?, entry);
            }
            // The root's first entries have gone down already.
            let root = self.region.root_mut()?;
            match separator {
                None => NodeLink::FIRST_CHILD.set(root, id),
                Some(separator) => self.root.set_entry(root, place - 1, (separator, id)),
            }
        }
        self.root.truncate(self.region.root_mut()?, (children - 1) / share);
        self.region.set(Field::Levels, levels as u32 + 1);
        Ok(())
    }

    /// Removes `key`, and returns its value.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    #[inline]
    pub fn remove(&mut self, key: K) -> Result<Option<V>, Error> {
        let Some((value, sparse)) = Simd::run(Self::take_by, (&mut *self, key))? else { return Ok(None) };
        if sparse {
            self.shrink(key)?;
        }
        Ok(Some(value))
    }

    /// Removes `key` from its leaf: its value, and whether the leaf is sparse now.
    #[inline(always)]
    fn take_by(simd: Simd, (tree, key): (&mut Self, K)) -> Result<Option<(V, bool)>, Error> {
        let id = tree.descend(simd, key)?;
        tree.leaf(id)?;
        let leaf = tree.region.node_mut(id, Self::LEAVES)?;
        let Ok(slot) = Self::LEAF.slot(simd, leaf, key) else { return Ok(None) };
        let (_, value) = Self::LEAF.remove(leaf, slot);
        let sparse = Self::LEAF.is_sparse(leaf);
        tree.region.set_len(tree.len().wrapping_sub(1));
        Ok(Some((value, sparse)))
    }

    /// Merges the sparse leaf that `key` belongs to with a neighbour, if both fit, and so on upwards.
    #[cold]
    #[inline(never)]
    fn shrink(&mut self, key: K) -> Result<(), Error> {
        let path = self.path(key)?;
        let (mut level, step) = (path.levels, path.steps[path.levels]);
        match Self::INNER.pair(self.inner(step.id)?, step.child) {
            Some(pair) => {
                if !self.merge_leaves(step.id, pair)? {
                    return Ok(());
                }
            }
            None if Self::LEAF.count(self.leaf(path.leaf)?) > 0 => return Ok(()),
            None => level = self.prune(&path)?,
        }
        while level > 0 && self.merge_inner(level, &path)? {
            level -= 1;
        }
        self.lower()
    }

    /// Merges two leaves side by side under one parent, if they fit; whether they did.
    fn merge_leaves(&mut self, parent: u32, (left, right): (usize, usize)) -> Result<bool, Error> {
        let node = self.inner(parent)?;
        let ids = [Self::INNER.child(node, left), Self::INNER.child(node, right)];
        let [left, gone] = self.region.two(ids, Self::LEAVES)?;
        let (a, b) = (Self::LEAF.count(left), Self::LEAF.count(gone));
        if a > 0 && b > 0 && !Self::LEAF.fits_well(a + b) {
            return Ok(false);
        }
        Self::LEAF.absorb(left, gone);
        self.drop_leaf(ids[1])?;
        Self::INNER.remove_child(self.region.node_mut(parent, Self::INNERS)?, right);
        Ok(true)
    }

    /// Takes a leaf out of the row of leaves, and gives it back.
    fn drop_leaf(&mut self, id: u32) -> Result<(), Error> {
        let leaf = self.leaf(id)?;
        let (previous, next) = (NodeLink::Previous.get(leaf), NodeLink::Next.get(leaf));
        if previous != 0 {
            NodeLink::Next.set(self.region.node_mut(previous, Self::LEAVES)?, next);
        }
        if next != 0 {
            NodeLink::Previous.set(self.region.node_mut(next, Self::LEAVES)?, previous);
        }
        self.region.give(id, Self::LEAVES)
    }

    /// Removes an empty leaf that is its parent's only child, and the parents that have no other child. The level
    /// whose node has lost a child: none, if there is no other leaf.
    fn prune(&mut self, path: &Path) -> Result<usize, Error> {
        let only = |count: usize| count == 0;
        let mut level = path.levels;
        while level > 0 && only(Self::INNER.count(self.inner(path.steps[level].id)?)) {
            level -= 1;
        }
        if level == 0 && only(self.root.count(self.region.root()?)) {
            return Ok(0);
        }
        self.drop_leaf(path.leaf)?;
        for step in &path.steps[level + 1..=path.levels] {
            self.region.give(step.id, Self::INNERS)?;
        }
        let step = path.steps[level];
        with_node!(self, level, step.id, |layout, node| layout.remove_child(node, step.child));
        Ok(level)
    }

    /// Merges the inner node of a level, if it is sparse, with a neighbour, if both fit; whether they did.
    fn merge_inner(&mut self, level: usize, path: &Path) -> Result<bool, Error> {
        let parent = path.steps[level - 1];
        if !Self::INNER.is_sparse(self.inner(path.steps[level].id)?) {
            return Ok(false);
        }
        let (ids, separator, right) = with_node!(self, level - 1, parent.id, |layout, node| {
            let Some((left, right)) = layout.pair(node, parent.child) else { return Ok(false) };
            let Some(separator) = layout.separator(node, right) else { return Ok(false) };
            ([layout.child(node, left), layout.child(node, right)], separator, right)
        });
        let [left, gone] = self.region.two(ids, Self::INNERS)?;
        if !Self::INNER.fits_well(Self::INNER.count(left) + Self::INNER.count(gone) + 1) {
            return Ok(false);
        }
        Self::INNER.absorb_children(left, separator, gone);
        self.region.give(ids[1], Self::INNERS)?;
        with_node!(self, level - 1, parent.id, |layout, node| layout.remove_child(node, right));
        Ok(true)
    }

    /// While the root has a single child, and that is not the last inner level, takes over its children.
    fn lower(&mut self) -> Result<(), Error> {
        while self.region.levels() > 1 && self.root.count(self.region.root()?) == 0 {
            let id = NodeLink::FIRST_CHILD.get(self.region.root()?);
            for slot in 0..=Self::INNER.count(self.inner(id)?) {
                let node = self.inner(id)?;
                if slot == 0 {
                    let first = NodeLink::FIRST_CHILD.get(node);
                    NodeLink::FIRST_CHILD.set(self.region.root_mut()?, first);
                } else {
                    let entry = Self::INNER.entry(node, slot - 1);
                    self.root.add(self.region.root_mut()?, entry);
                }
            }
            self.region.give(id, Self::INNERS)?;
            self.region.set(Field::Levels, self.region.levels() as u32 - 1);
        }
        Ok(())
    }
}

/// What [`Tree::verify`] has met.
#[derive(Default)]
struct EntryPlace {
    inner: u32,
    leaves: u32,
    entries: u64,
    /// The last leaf, and its link to the next.
    leaf: u32,
    next: u32,
}

fn sound(as_expected: bool) -> Result<(), Error> {
    if as_expected { Ok(()) } else { Err(Error::Damaged) }
}

/// Prefetches what the module wants of a node whose payloads begin at byte `payloads`.
#[inline(always)]
fn bring<T: Module>(node: &[u8], payloads: usize) {
    let lines = match T::PREFETCH {
        Prefetch::Nothing => return,
        Prefetch::Keys => 0..payloads,
        Prefetch::Payloads => payloads / LINE * LINE..node.len(),
        Prefetch::Node => 0..node.len(),
    };
    for line in node[lines].chunks(LINE) {
        simd::prefetch(line.as_ptr());
    }
}

/// FNV-1a of the words, each as a unit.
const fn stamp(words: &[usize]) -> u64 {
    let mut hash = 0xCBF2_9CE4_8422_2325;
    let mut i = 0;
    while i < words.len() {
        hash = (hash ^ words[i] as u64).wrapping_mul(0x0100_0000_01B3);
        i += 1;
    }
    hash
}
