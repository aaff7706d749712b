//! A node: a few words of links, and entries of a key and a payload in separate arrays (the paper's §3.3).
//!
//! ```text
//! [count, link, link, – | sentinels, if any | keys … | payloads …]
//! ```
//!
//! A leaf's payloads are values; its links are its neighbours. An inner node's entries are separators, each with the
//! child for keys from it on; its first link is the child for keys below them all. So the search for a child, in a node
//! of any order, is the search for the greatest key that is not more than the one wanted.

use core::marker::PhantomData;

use super::order::{HEADER, LINE, NodeKeys, Order, per_line};
use crate::format::Lane;
use crate::simd::{Lanes, Simd};

/// Bytes of keys in nodes that are always searched as if they were full: sooner done than a branch is mispredicted.
const SMALL: usize = 1024;
/// NodeKeys looked at to choose where an unsorted node is split.
const SAMPLE: usize = 15;

/// A payload: copied in and out of nodes as bytes.
pub trait Value: Copy {
    /// Bytes in a stored value.
    const SIZE: usize;

    /// The value stored at `bytes[at]`, which is any `SIZE` bytes if the memory is damaged.
    fn read(bytes: &[u8], at: usize) -> Self;

    /// Stores the value at `bytes[at]`.
    fn write(self, bytes: &mut [u8], at: usize);
}

impl<L: Lane> Value for L {
    const SIZE: usize = <L as Lane>::SIZE;

    #[inline(always)]
    fn read(bytes: &[u8], at: usize) -> Self {
        <L as Lane>::read(bytes, at)
    }

    #[inline(always)]
    fn write(self, bytes: &mut [u8], at: usize) {
        Lane::write(self, bytes, at);
    }
}

/// The key before `key`.
pub(super) fn before<K: Lane>(key: K) -> Option<K> {
    key.to_u128().checked_sub(1).map(K::from_u128)
}

/// A link of a node.
#[derive(Clone, Copy)]
pub(super) enum NodeLink {
    /// The leaf before this one; in a free node, the next free one.
    Previous = 4,
    /// The leaf behind this one.
    Next = 8,
}

impl NodeLink {
    /// The child for keys below all separators.
    pub(super) const FIRST_CHILD: NodeLink = NodeLink::Previous;

    pub(super) fn get(self, node: &[u8]) -> u32 {
        Lane::read(node, self as usize)
    }

    pub(super) fn set(self, node: &mut [u8], id: u32) {
        Lane::write(id, node, self as usize);
    }
}

/// Where a node's entries are. `node` is everywhere a slice of the length that the layout was made for.
pub(super) struct NodeLayout<K, P, O> {
    pub(super) capacity: usize,
    keys: usize,
    payloads: usize,
    types: PhantomData<(K, P, O)>,
}

impl<K: Lane, P: Value, O: Order> NodeLayout<K, P, O> {
    /// The layout with the most entries that `size` bytes hold.
    pub(super) const fn fitting(size: usize) -> Self {
        let mut capacity = size / (K::SIZE + P::SIZE);
        while capacity > 0 {
            let keys = if O::SENTINELS {
                (HEADER + capacity.div_ceil(per_line::<K>()) * K::SIZE).next_multiple_of(LINE)
            } else {
                HEADER
            };
            let payloads = keys + capacity * K::SIZE;
            if payloads + capacity * P::SIZE <= size {
                return NodeLayout { capacity, keys, payloads, types: PhantomData };
            }
            capacity -= 1;
        }
        panic!("a node has room for an entry")
    }

    /// Bytes from which on a node holds payloads.
    pub(super) fn payloads(&self) -> usize {
        self.payloads
    }

    #[inline(always)]
    pub(super) fn count(&self, node: &[u8]) -> usize {
        let count: u32 = Lane::read(node, 0);
        self.capacity.min(count as usize)
    }

    #[inline(always)]
    fn set_count(&self, node: &mut [u8], count: usize) {
        Lane::write(count as u32, node, 0);
    }

    /// Forgets the entries in slots from `count` on.
    pub(super) fn truncate(&self, node: &mut [u8], count: usize) {
        self.set_count(node, count);
        self.renew_sentinels(node);
    }

    pub(super) fn is_full(&self, node: &[u8]) -> bool {
        self.count(node) == self.capacity
    }

    /// Whether the node should be merged with a neighbour.
    pub(super) fn is_sparse(&self, node: &[u8]) -> bool {
        self.count(node) <= self.capacity / 4
    }

    /// Whether `count` entries leave a node room to grow.
    pub(super) fn fits_well(&self, count: usize) -> bool {
        count <= self.capacity - self.capacity / 4
    }

    #[inline(always)]
    pub(super) fn key(&self, node: &[u8], slot: usize) -> K {
        K::read(node, self.keys + slot * K::SIZE)
    }

    #[inline(always)]
    pub(super) fn payload(&self, node: &[u8], slot: usize) -> P {
        P::read(node, self.payloads + slot * P::SIZE)
    }

    #[inline(always)]
    pub(super) fn set_payload(&self, node: &mut [u8], slot: usize, payload: P) {
        payload.write(node, self.payloads + slot * P::SIZE);
    }

    #[inline(always)]
    pub(super) fn set_entry(&self, node: &mut [u8], slot: usize, (key, payload): (K, P)) {
        Lane::write(key, node, self.keys + slot * K::SIZE);
        self.set_payload(node, slot, payload);
    }

    pub(super) fn entry(&self, node: &[u8], slot: usize) -> (K, P) {
        (self.key(node, slot), self.payload(node, slot))
    }

    /// The entries in the order of their slots.
    pub(super) fn entries(&self, node: &[u8]) -> impl Iterator<Item = (K, P)> {
        (0..self.count(node)).map(|slot| self.entry(node, slot))
    }

    #[inline(always)]
    fn keys<'a>(&self, simd: Simd, node: &'a [u8]) -> NodeKeys<'a> {
        // A large node is not searched as a whole.
        let room = if self.capacity * K::SIZE <= SMALL { self.capacity } else { 0 };
        NodeKeys {
            lanes: Lanes { bytes: node, at: self.keys, n: self.count(node), room },
            payloads: self.payloads,
            simd,
        }
    }

    /// The slot of `key`, or else the slot at which [`insert`](Self::insert) wants it.
    #[inline(always)]
    pub(super) fn slot(&self, simd: Simd, node: &[u8], key: K) -> Result<usize, usize> {
        O::slot(self.keys(simd, node), key)
    }

    /// The slot of the greatest key that is `key` or less.
    #[inline(always)]
    pub(super) fn at_most(&self, simd: Simd, node: &[u8], key: K) -> Option<usize> {
        O::at_most(self.keys(simd, node), key)
    }

    /// The slot of the smallest key that is greater than `key`; of all, if there is no `key`.
    pub(super) fn above(&self, node: &[u8], key: Option<K>) -> Option<usize> {
        let count = self.count(node);
        if O::SORTED {
            let slot = key.and_then(|key| self.at_most(Simd::chosen(), node, key)).map_or(0, |slot| slot + 1);
            return (slot < count).then_some(slot);
        }
        let greater = (0..count).filter(|slot| key.is_none_or(|key| key < self.key(node, *slot)));
        greater.min_by_key(|slot| self.key(node, *slot))
    }

    /// Inserts an entry at the `slot` that [`slot`](Self::slot) named, in a node that is not full.
    #[inline(always)]
    pub(super) fn insert(&self, node: &mut [u8], slot: usize, entry: (K, P)) {
        let count = self.count(node);
        self.shift(node, slot, count, slot + 1);
        self.set_entry(node, slot, entry);
        self.set_count(node, count + 1);
        self.renew_sentinels(node);
    }

    /// Inserts an entry whose key is new in a node that is not full.
    pub(super) fn add(&self, node: &mut [u8], entry: (K, P)) {
        if let Err(slot) = self.slot(Simd::chosen(), node, entry.0)
            && !self.is_full(node)
        {
            self.insert(node, slot, entry);
        }
    }

    /// Removes the entry in `slot`.
    #[inline(always)]
    pub(super) fn remove(&self, node: &mut [u8], slot: usize) -> (K, P) {
        let removed = self.entry(node, slot);
        let last = self.count(node) - 1;
        if O::SORTED {
            self.shift(node, slot + 1, last + 1, slot);
        } else {
            let moved = self.entry(node, last);
            self.set_entry(node, slot, moved);
        }
        self.set_count(node, last);
        self.renew_sentinels(node);
        removed
    }

    /// Moves the entries in slots from `start` to `end` to the slots from `to` on.
    #[inline(always)]
    fn shift(&self, node: &mut [u8], start: usize, end: usize, to: usize) {
        if start == end {
            return;
        }
        let [keys, payloads] = [(self.keys, K::SIZE), (self.payloads, P::SIZE)].map(|(at, size)| {
            let place = |slot: usize| at + slot * size;
            (place(start)..place(end), place(to))
        });
        node.copy_within(keys.0, keys.1);
        node.copy_within(payloads.0, payloads.1);
    }

    /// Moves about half of the entries, those with the greatest keys, to the empty node `right`. The smallest of them
    /// separates the nodes.
    pub(super) fn split(&self, left: &mut [u8], right: &mut [u8]) -> K {
        let count = self.count(left);
        let separator = self.middle(left, count);
        let [mut stay, mut go] = [0; 2];
        for slot in 0..count {
            let entry = self.entry(left, slot);
            // Written to both sides, counted on one: which one it is cannot be foretold.
            self.set_entry(right, go, entry);
            self.set_entry(left, stay, entry);
            let goes = usize::from(separator <= entry.0);
            go += goes;
            stay += 1 - goes;
        }
        self.set_count(left, stay);
        self.set_count(right, go);
        self.renew_sentinels(left);
        self.renew_sentinels(right);
        separator
    }

    /// A key with about half of the `count` keys below it, and at least one; in an unsorted node, the median of a few.
    fn middle(&self, node: &[u8], count: usize) -> K {
        if O::SORTED {
            return self.key(node, count / 2);
        }
        let mut sample = [K::MIN; SAMPLE];
        let taken = SAMPLE.min(count);
        for (i, key) in sample[..taken].iter_mut().enumerate() {
            *key = self.key(node, i * count / taken);
        }
        sample[..taken].sort_unstable();
        sample[taken / 2]
    }

    /// Moves all entries of `right`, whose keys are greater, to `left`, which has room for them.
    pub(super) fn absorb(&self, left: &mut [u8], right: &[u8]) {
        let count = self.count(left);
        let added = self.count(right).min(self.capacity - count);
        for slot in 0..added {
            let entry = self.entry(right, slot);
            self.set_entry(left, count + slot, entry);
        }
        self.set_count(left, count + added);
        self.renew_sentinels(left);
    }

    #[inline(always)]
    fn renew_sentinels(&self, node: &mut [u8]) {
        if O::SENTINELS {
            let firsts = (0..self.count(node)).step_by(per_line::<K>());
            for (line, slot) in firsts.enumerate() {
                Lane::write(self.key(node, slot), node, HEADER + line * K::SIZE);
            }
        }
    }

    /// The first slot at which the node does not look as it should.
    pub(super) fn flaw(&self, node: &[u8]) -> Option<usize> {
        let count: u32 = Lane::read(node, 0);
        if count as usize > self.capacity {
            return Some(self.capacity);
        }
        (0..count as usize).find(|&slot| {
            let key = self.key(node, slot);
            let unsorted = O::SORTED && slot > 0 && self.key(node, slot - 1) >= key;
            let sentinel = HEADER + slot / per_line::<K>() * K::SIZE;
            let unguarded = O::SENTINELS && slot % per_line::<K>() == 0 && <K as Lane>::read(node, sentinel) != key;
            unsorted || unguarded
        })
    }
}

/// The children of an inner node are numbered: 0 is the one for keys below all separators, `slot + 1` that of the
/// separator in `slot`.
impl<K: Lane, O: Order> NodeLayout<K, u32, O> {
    /// The number of the child for `key`.
    #[inline(always)]
    pub(super) fn child_for(&self, simd: Simd, node: &[u8], key: K) -> usize {
        self.at_most(simd, node, key).map_or(0, |slot| slot + 1)
    }

    /// The id of a child.
    #[inline(always)]
    pub(super) fn child(&self, node: &[u8], number: usize) -> u32 {
        match number.checked_sub(1) {
            None => NodeLink::FIRST_CHILD.get(node),
            Some(slot) => self.payload(node, slot),
        }
    }

    /// The separator below a child: none below the first.
    pub(super) fn separator(&self, node: &[u8], number: usize) -> Option<K> {
        number.checked_sub(1).map(|slot| self.key(node, slot))
    }

    /// The numbers of two children side by side, one of them `number`; none if it is the only one.
    pub(super) fn pair(&self, node: &[u8], number: usize) -> Option<(usize, usize)> {
        let separator = self.separator(node, number);
        if let Some(right) = self.above(node, separator) {
            return Some((number, right + 1));
        }
        Some((self.child_for(Simd::chosen(), node, before(separator?)?), number))
    }

    /// Forgets a child that is not the only one; its keys fall to the child before it, or else behind it.
    pub(super) fn remove_child(&self, node: &mut [u8], number: usize) {
        let first = || self.above(node, None);
        if let Some(slot) = number.checked_sub(1).or_else(first) {
            let (_, child) = self.remove(node, slot);
            if number == 0 {
                NodeLink::FIRST_CHILD.set(node, child);
            }
        }
    }

    /// Makes `child` the only one.
    pub(super) fn clear(&self, node: &mut [u8], child: u32) {
        node[..HEADER].fill(0);
        NodeLink::FIRST_CHILD.set(node, child);
    }

    /// As [`split`](Self::split); the separator's child becomes the first of `right`.
    pub(super) fn split_children(&self, left: &mut [u8], right: &mut [u8]) -> K {
        let separator = self.split(left, right);
        if let Ok(slot) = self.slot(Simd::chosen(), right, separator) {
            let (_, child) = self.remove(right, slot);
            NodeLink::FIRST_CHILD.set(right, child);
        }
        separator
    }

    /// As [`absorb`](Self::absorb), where `separator` is the one between the nodes.
    pub(super) fn absorb_children(&self, left: &mut [u8], separator: K, right: &[u8]) {
        self.add(left, (separator, NodeLink::FIRST_CHILD.get(right)));
        self.absorb(left, right);
    }
}
