//! One in-page leaf node, and the entries in it.

use super::*;

/// One in-page leaf node being read.
#[derive(Clone, Copy)]
pub struct Node<'a, K> {
    pub(super) page: Page<'a, K>,
    start: usize,
    pointer: usize,
    /// How far pointers are apart.
    step: usize,
    count: usize,
    is_run: bool,
}

impl<'a, K: KeySpace> Page<'a, K> {
    /// A node in use.
    #[inline]
    pub fn node(&self, node: usize) -> Node<'a, K> {
        let start = self.node_start(node);
        let stored = self.stored_count(node);
        let [_, (pointer, step)] = self.layout.arrays(start, stored);
        Node { page: *self, start, pointer, step, count: self.layout.entries_of(stored), is_run: stored & RUN != 0 }
    }
}

/// An entry as stored, or to be stored.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a, K: Keys> {
    /// The key, less the TID.
    pub key: K::Stored<'a>,
    /// The heap TID with its flags; in an inner page, what breaks ties between equal keys.
    pub tid: Tid,
    /// The child an inner entry points to; `NO_BLOCK` in a leaf.
    pub child: Block,
}

impl<L: Lane> Entry<'_, L> {
    /// The full key.
    #[inline]
    pub fn key(&self) -> Key<L> {
        Key::new(self.key, self.tid)
    }

    /// The fence between the entry before this one and this one: in a leaf the shortest, so that a search for a lane
    /// that begins a page need not look left of it.
    pub(crate) fn fence(&self, level: u8, before: &Entry<'_, L>) -> Key<L> {
        let tid = if level == 0 && before.key < self.key { Tid::MIN } else { self.tid };
        Key::new(self.key, tid)
    }
}

impl<'a, L: Lane> Node<'a, L> {
    /// The TIDs of a leaf's entries in some slots, those of them that there are.
    #[inline(always)]
    pub fn tids(&self, slots: Range<usize>) -> &'a [[u8; Tid::SIZE]] {
        self.array(self.pointer, Tid::SIZE, slots).as_chunks().0
    }

    /// Calls `each` with the lanes of the entries in some slots, those of them that there are, and a value for each.
    #[inline(always)]
    pub fn lanes_with<T: Copy>(&self, slots: Range<usize>, values: &[T], mut each: impl FnMut(L, T)) {
        if self.is_run {
            let (lane, count) = (self.lane(0), slots.end.min(self.count).saturating_sub(slots.start));
            return values.iter().take(count).for_each(|value| each(lane, *value));
        }
        let lanes = self.array(self.start, L::SIZE, slots).chunks_exact(L::SIZE);
        lanes.zip(values).for_each(|(lane, value)| each(L::read(lane, 0), *value));
    }

    /// Some of an array's elements of a size.
    #[inline(always)]
    fn array(&self, start: usize, size: usize, slots: Range<usize>) -> &'a [u8] {
        let (from, to) = (slots.start.min(self.count), slots.end.min(self.count));
        self.page.bytes.get(start + from * size..start + to * size).unwrap_or_default()
    }
}

impl<'a, K: KeySpace> Node<'a, K> {
    /// Asks for all the node's lines at once (paper §3.1): of the policies, `fpbtree-lab thesis-figure5.6` has none
    /// that is better for lookups.
    #[inline(always)]
    pub(super) fn prefetch(&self, lines: usize) {
        for line in 0..lines * LINE_WIDTH {
            simd::prefetch(self.page.bytes.as_ptr().wrapping_add(self.start + line * CACHE_LINE));
        }
    }

    /// Entries in the node.
    #[inline]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether the node holds nothing.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The lane of the entry in `slot`.
    #[inline]
    pub fn lane(&self, slot: usize) -> K::Lane {
        let slot = if self.is_run { 0 } else { slot };
        K::Lane::read(self.page.bytes, self.start + slot * K::Lane::SIZE)
    }

    /// All but the TID of the entry in `slot`: its lane, and where its cell begins.
    pub(super) fn head(&self, slot: usize) -> (K::Lane, u16) {
        (self.lane(slot), self.cell(slot))
    }

    /// Whether all entries have this head.
    pub(super) fn is_all(&self, head: (K::Lane, u16)) -> bool {
        (0..self.count).all(|slot| self.head(slot) == head)
    }

    /// The TID of the entry in `slot`, flags included.
    #[inline]
    pub fn tid(&self, slot: usize) -> Tid {
        Tid::read(self.page.bytes, self.tid_at(slot))
    }

    /// Whether a leaf's node ends where its count says: no row's TID is zero, and that of a slot not in use is.
    #[inline]
    pub(crate) fn is_ended(&self) -> bool {
        let layout = self.page.layout;
        let room = if self.is_run { layout.run } else { layout.capacity };
        let is_used = |slot: usize| self.tid(slot).raw() != 0;
        self.count > 0 && is_used(self.count - 1) && (self.count >= room || !is_used(self.count))
    }

    /// The lines that the node takes.
    #[inline]
    pub(crate) fn lines(&self) -> LineSet {
        LineSet::of(self.start / LINE, self.page.layout.x)
    }

    /// Where what the node has of lanes and of pointers begins, and how many bytes that is.
    pub(super) fn arrays(&self) -> [(usize, usize); 2] {
        let layout = self.page.layout;
        let lanes = if self.is_run { layout.head() } else { self.count * layout.lane };
        [(self.start, lanes), (self.pointer, self.count * self.step)]
    }

    /// Where in the page the TID of the entry in `slot` begins; its first byte has the flags.
    #[inline]
    pub fn tid_at(&self, slot: usize) -> usize {
        self.pointer + slot * self.step
    }

    /// Where in the page the rest of the pointer of the entry in `slot` begins.
    #[inline]
    fn more_at(&self, slot: usize) -> usize {
        if self.is_run { self.start + K::Lane::SIZE } else { self.tid_at(slot) + Tid::SIZE }
    }

    /// Where the cell of the entry in `slot` begins; 0 if it has none.
    #[inline]
    pub(super) fn cell(&self, slot: usize) -> u16 {
        let layout = self.page.layout;
        if layout.kind.is_prefix() { read_u16(self.page.bytes, self.more_at(slot) + layout.cell_at()) } else { 0 }
    }

    /// The key of the entry in `slot`, less its TID.
    #[inline]
    pub fn stored(&self, slot: usize) -> K::Stored<'a> {
        K::stored(self, slot)
    }

    /// The entry in `slot`.
    #[inline]
    pub fn entry(&self, slot: usize) -> Entry<'a, K> {
        let child = if self.page.level() == 0 { NO_BLOCK } else { self.child(slot) };
        Entry { key: self.stored(slot), tid: self.tid(slot), child }
    }

    #[inline]
    fn child(&self, slot: usize) -> Block {
        read_u32(self.page.bytes, self.more_at(slot))
    }

    /// How `key` is ordered against the entry in `slot`.
    #[inline]
    pub(super) fn compare(&self, slot: usize, key: K::Key<'_>) -> Ordering {
        match K::lane_in(key, &self.page) {
            Ok(lane) => lane.cmp(&self.lane(slot)).then_with(|| K::compare_tied(key, self, slot)),
            Err(side) => side,
        }
    }

    pub(super) fn starts_at_or_before(&self, lane: K::Lane, key: K::Key<'_>) -> bool {
        let first = self.lane(0);
        first < lane || first == lane && K::compare_tied(key, self, 0).is_ge()
    }

    /// The first slot whose entry is at or after `key`; one past the last if there is none.
    #[inline]
    pub(super) fn lower_bound(&self, lane: K::Lane, key: K::Key<'_>) -> usize {
        if self.is_run {
            return self.lower_bound_in_run(lane, key);
        }
        let bytes = self.page.bytes;
        let slot = K::Lane::count_less(bytes, self.start, self.count, lane);
        if K::begins_lane(key) || slot == self.count || self.lane(slot) != lane {
            return slot;
        }
        let end = K::Lane::count_less_equal(bytes, self.start, self.count, lane);
        partition(slot, end, |slot| K::compare_tied(key, self, slot).is_gt())
    }

    fn lower_bound_in_run(&self, lane: K::Lane, key: K::Key<'_>) -> usize {
        match lane.cmp(&self.lane(0)).then_with(|| K::compare_head(key, self)) {
            Ordering::Less => 0,
            Ordering::Greater => self.count,
            Ordering::Equal => partition(0, self.count, |slot| K::tid(key) > self.tid(slot).position()),
        }
    }
}

/// The first slot of a range of which something is not true; the end if there is none.
#[inline]
fn partition(mut slot: usize, mut end: usize, is_before: impl Fn(usize) -> bool) -> usize {
    while slot < end {
        let middle = (slot + end) / 2;
        if is_before(middle) {
            slot = middle + 1;
        } else {
            end = middle;
        }
    }
    slot
}
