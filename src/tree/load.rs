//! Bulk load: sorted entries become packed pages, bottom up (paper §3.1.2, at page granularity).

use super::INNER_LOAD_FILL;
use crate::format::{Block, Geometry, Key, Lane, MAX_PAGE_ENTRIES, NO_BLOCK, PAGE_SIZE, PageBytes, ROOT, Tid};
use crate::keys::bytes::{HEAD, MOST_PARTS, OwnedKey, Stored};
use crate::page::{Bytes, Entry, Filling, KeySpace, Keys, Links};

/// Most levels a tree can have: each inner page has several children, and there are 2³² blocks.
const MOST_LEVELS: usize = 16;

/// A key space whose entries a loader can collect until their page is full.
pub trait Loadable: KeySpace {
    /// The entries of a page being filled. All-zero bytes are an empty one.
    type Batch: Batch<Self>;

    /// Bytes of an entry's cell in a page whose keys have nothing in common.
    fn cell_size(_geometry: &Geometry, _level: u8, _entry: &Entry<'_, Self>) -> usize {
        0
    }
}

/// The entries of a page being filled: plain memory.
pub trait Batch<K: KeySpace> {
    /// Adds an entry, if a page that begins at `low` and is filled to `fill` percent has room for it. If not,
    /// [`drop_front`](Batch::drop_front) comes next.
    fn push(&mut self, geometry: &Geometry, level: u8, fill: usize, low: &K::OwnedKey, entry: &Entry<'_, K>) -> bool;
    /// How many there are.
    fn len(&self) -> usize;
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The entry at an index.
    fn entry(&self, index: usize) -> Entry<'_, K>;
    /// Becomes the fence between two neighbours of a level, of which the first ends this page.
    fn set_fence(
        &self,
        fence: &mut K::OwnedKey,
        level: u8,
        last: &Entry<'_, K>,
        next: &Entry<'_, K>,
        order: K::Order<'_>,
    );
    /// Forgets the first entries. The others' page begins at `low`.
    fn drop_front(&mut self, geometry: &Geometry, level: u8, fill: usize, count: usize, low: &K::OwnedKey);
}

/// Where a loader's pages go.
pub trait Pages {
    /// The number of a page to come, if the loader is not simply to count on.
    fn spare(&mut self) -> Option<Block> {
        None
    }

    /// Writes a page.
    fn write(&mut self, block: Block, page: &PageBytes);
}

impl<F: FnMut(Block, &PageBytes)> Pages for F {
    fn write(&mut self, block: Block, page: &PageBytes) {
        self(block, page);
    }
}

/// One level's page being filled.
struct Level<K: Loadable> {
    /// 0 for leaves.
    number: u8,
    batch: K::Batch,
    low: K::OwnedKey,
    /// The page before the one being filled, and this one's block once it is known that the level has several pages.
    left: Block,
    block: Block,
}

impl<K: Loadable> Level<K> {
    /// Makes `level`, whose memory is zeroed, that of this number with an empty page beginning at `low`.
    ///
    /// # Safety
    /// Zeroed memory.
    unsafe fn begin(level: *mut Level<K>, number: u8, low: &K::OwnedKey, block: Block) {
        // SAFETY: all-zero bytes are batches and numbers; the whole is too large to be moved on some stacks.
        unsafe {
            (&raw mut (*level).number).write(number);
            (&raw mut (*level).low).write(*low);
            (&raw mut (*level).block).write(block);
        }
    }

    /// Makes a page of the first `count` entries collected, or of fewer if its upper fence leaves no room for as many,
    /// and goes on with the next page, whose block is `right`. `next` is the entry behind those collected.
    fn close(
        &mut self,
        geometry: &Geometry,
        order: K::Order<'_>,
        fill: usize,
        count: usize,
        next: Option<&Entry<'_, K>>,
        right: Block,
    ) -> PageBytes {
        let mut fence = K::FIRST;
        let page_of = |count: usize| {
            let batch = &self.batch;
            let last = batch.entry(count - 1);
            match next {
                Some(next) if count == batch.len() => batch.set_fence(&mut fence, self.number, &last, next, order),
                _ => batch.set_fence(&mut fence, self.number, &last, &batch.entry(count), order),
            }
            Some((self.page(geometry, fill, count, right, &fence)?, count))
        };
        let (page, count) = (1..=count).rev().find_map(page_of).expect("an entry and two fences fit a page");
        (self.left, self.block) = (self.block, right);
        K::copy(&mut self.low, &fence);
        self.batch.drop_front(geometry, self.number, fill, count, &self.low);
        page
    }

    /// A page of the first `count` entries collected, if they fit.
    fn page(
        &self,
        geometry: &Geometry,
        fill: usize,
        count: usize,
        right: Block,
        high: &K::OwnedKey,
    ) -> Option<PageBytes> {
        let (low, high) = (K::fence_of(&self.low), K::fence_of(high));
        let links = Links { level: self.number, left: self.left, right, low, high, fill };
        K::build(geometry, &links, count, (0..count).map(|index| self.batch.entry(index)))
    }
}

/// Writes a tree from entries that come in order. Plain memory (up to two megabytes): it lives where the caller says,
/// so that a server error can jump away from it.
pub struct Loader<K: Loadable> {
    levels: [Level<K>; MOST_LEVELS],
    height: usize,
    next_block: Block,
    loaded: u64,
    fill: usize,
}

impl<K: Loadable> Loader<K> {
    /// Makes a loader in `memory`, filling leaves to `fill` percent.
    pub fn init(memory: &mut core::mem::MaybeUninit<Self>, fill: usize) {
        let loader = memory.as_mut_ptr();
        // SAFETY: all-zero bytes are batches, keys and numbers; no value is read or moved (the whole is too large for
        // some stacks).
        unsafe {
            loader.write_bytes(0, 1);
            let levels = (&raw mut (*loader).levels).cast::<Level<K>>();
            for at in 0..MOST_LEVELS {
                Level::begin(levels.add(at), at as u8, &K::FIRST, NO_BLOCK);
            }
            (&raw mut (*loader).height).write(1);
            (&raw mut (*loader).next_block).write(ROOT + 1);
            (&raw mut (*loader).fill).write(fill);
        }
    }

    /// Entries loaded so far.
    pub fn loaded(&self) -> u64 {
        self.loaded
    }

    /// Adds the next entry; pages that are full go to `pages`.
    pub fn add(&mut self, geometry: &Geometry, order: K::Order<'_>, entry: &Entry<'_, K>, pages: &mut dyn Pages) {
        self.loaded += 1;
        self.add_to(0, geometry, order, entry, pages);
    }

    /// Adds the next leaf, given by its downlink, of a tree whose leaves are [written already](LeafWriter): all of
    /// them, two at least. Other pages get the numbers from `next_block` on.
    pub fn add_leaf(
        &mut self,
        geometry: &Geometry,
        order: K::Order<'_>,
        leaf: &Entry<'_, K>,
        next_block: Block,
        pages: &mut dyn Pages,
    ) {
        self.height = self.height.max(2);
        self.next_block = self.next_block.max(next_block);
        self.add_to(1, geometry, order, leaf, pages);
    }

    fn add_to(
        &mut self,
        at: usize,
        geometry: &Geometry,
        order: K::Order<'_>,
        entry: &Entry<'_, K>,
        pages: &mut dyn Pages,
    ) {
        let fill = if at == 0 { self.fill } else { INNER_LOAD_FILL };
        loop {
            let level = &mut self.levels[at];
            if level.batch.push(geometry, at as u8, fill, &level.low, entry) {
                return;
            }
            let count = level.batch.len();
            self.close(at, geometry, order, count, Some(entry), pages);
        }
    }

    /// Writes a level's page of the first `count` entries collected, or of fewer.
    fn close(
        &mut self,
        at: usize,
        geometry: &Geometry,
        order: K::Order<'_>,
        count: usize,
        next: Option<&Entry<'_, K>>,
        pages: &mut dyn Pages,
    ) {
        if self.levels[at].block == NO_BLOCK {
            // The level's first page: only now is it known that it is not the root.
            self.levels[at].block = self.take_block(pages);
            self.height = self.height.max(at + 2);
        }
        let right = self.take_block(pages);
        let level = &mut self.levels[at];
        let (low, block) = (level.low, level.block);
        pages.write(block, &level.close(geometry, order, self.fill, count, next, right));
        self.add_to(at + 1, geometry, order, &K::downlink(&low, block), pages);
    }

    fn take_block(&mut self, pages: &mut dyn Pages) -> Block {
        pages.spare().unwrap_or_else(|| {
            self.next_block += 1;
            self.next_block - 1
        })
    }

    /// Writes what is left, the root last. The tree is complete then.
    pub fn finish(&mut self, geometry: &Geometry, order: K::Order<'_>, pages: &mut dyn Pages) {
        let leaves_are_written = self.loaded == 0 && self.height > 1;
        let mut at = usize::from(leaves_are_written);
        loop {
            let level = &self.levels[at];
            let count = level.batch.len();
            let Some(page) = level.page(geometry, self.fill, count, NO_BLOCK, &K::LAST) else {
                // The last page has no upper fence, and keys that had much in common with it take more without.
                self.close(at, geometry, order, count / 2, None, pages);
                continue;
            };
            if at + 1 == self.height {
                return pages.write(ROOT, &page);
            }
            let (block, low) = (level.block, level.low);
            pages.write(block, &page);
            self.add_to(at + 1, geometry, order, &K::downlink(&low, block), pages);
            at += 1;
        }
    }
}

/// Where the leaves of a part of a tree go.
pub trait PartPages<K: Loadable> {
    /// The number of a page to come.
    fn take(&mut self) -> Block;

    /// Writes a leaf that begins at `low`.
    fn write(&mut self, block: Block, low: &K::OwnedKey, page: &PageBytes);
}

/// Writes the leaves of a part of a tree from entries that come in order: all there are between two places. The other
/// leaves are written elsewhere, perhaps at the same time, and the levels above when it is known which leaves there
/// are. Plain memory, which lives where the caller says.
pub struct LeafWriter<K: Loadable> {
    level: Level<K>,
    fill: usize,
}

impl<K: Loadable> LeafWriter<K> {
    /// Makes in `memory` what writes the leaves from `low` on, the first one to `block`, filling them to `fill`
    /// percent.
    pub fn init(memory: &mut core::mem::MaybeUninit<Self>, fill: usize, low: &K::OwnedKey, block: Block) {
        // SAFETY: memory of the right size.
        unsafe { Self::write(memory.as_mut_ptr(), fill, low, block) };
    }

    /// Begins anew.
    pub fn restart(&mut self, fill: usize, low: &K::OwnedKey, block: Block) {
        // SAFETY: nothing here owns anything.
        unsafe { Self::write(self, fill, low, block) };
    }

    /// # Safety
    /// Memory that may be written.
    unsafe fn write(leaves: *mut Self, fill: usize, low: &K::OwnedKey, block: Block) {
        // SAFETY: all-zero bytes are a batch, keys and numbers; no value is read or moved.
        unsafe {
            leaves.write_bytes(0, 1);
            Level::begin(&raw mut (*leaves).level, 0, low, block);
            (&raw mut (*leaves).fill).write(fill);
        }
    }

    /// Entries that were added and are in no leaf yet.
    pub fn pending(&self) -> usize {
        self.level.batch.len()
    }

    /// Adds the next entry; leaves that are full go to `pages`.
    pub fn add(
        &mut self,
        geometry: &Geometry,
        order: K::Order<'_>,
        entry: &Entry<'_, K>,
        pages: &mut impl PartPages<K>,
    ) {
        while !self.level.batch.push(geometry, 0, self.fill, &self.level.low, entry) {
            let count = self.level.batch.len();
            self.close(geometry, order, count, Some(entry), pages);
        }
    }

    fn close(
        &mut self,
        geometry: &Geometry,
        order: K::Order<'_>,
        count: usize,
        next: Option<&Entry<'_, K>>,
        pages: &mut impl PartPages<K>,
    ) {
        let right = pages.take();
        let (low, block) = (self.level.low, self.level.block);
        pages.write(block, &low, &self.level.close(geometry, order, self.fill, count, next, right));
    }

    /// Writes the part's last leaf, which ends at `high` and has the leaf `right` behind it. Returns its block.
    pub fn finish(
        &mut self,
        geometry: &Geometry,
        order: K::Order<'_>,
        (high, right): (&K::OwnedKey, Block),
        pages: &mut impl PartPages<K>,
    ) -> Block {
        loop {
            let count = self.level.batch.len();
            if let Some(page) = self.level.page(geometry, self.fill, count, right, high) {
                pages.write(self.level.block, &self.level.low, &page);
                return self.level.block;
            }
            self.close(geometry, order, count / 2, None, pages);
        }
    }
}

/// Entries of exact lanes.
pub struct ExactBatch<L> {
    entries: [(L, Tid, Block); MAX_PAGE_ENTRIES],
    count: usize,
    filling: Filling,
}

impl<L: Lane> Loadable for L {
    type Batch = ExactBatch<L>;
}

impl<L: Lane> Batch<L> for ExactBatch<L> {
    fn push(&mut self, geometry: &Geometry, level: u8, fill: usize, _low: &Key<L>, entry: &Entry<'_, L>) -> bool {
        let layout = geometry.layout(level);
        // If there is no room, the page is closed next, and counted anew.
        self.filling.push(layout, fill, (entry.key.to_u128(), 0), entry.tid, entry.child);
        let has_room = self.count < 2 || self.filling.fits(layout, 0, fill);
        if has_room {
            self.entries[self.count] = (entry.key, entry.tid, entry.child);
            self.count += 1;
        }
        has_room
    }

    fn len(&self) -> usize {
        self.count
    }

    fn entry(&self, index: usize) -> Entry<'_, L> {
        let (key, tid, child) = self.entries[index];
        Entry { key, tid, child }
    }

    fn set_fence(&self, fence: &mut Key<L>, level: u8, last: &Entry<'_, L>, next: &Entry<'_, L>, (): ()) {
        *fence = next.fence(level, last);
    }

    fn drop_front(&mut self, geometry: &Geometry, level: u8, fill: usize, count: usize, _low: &Key<L>) {
        self.entries.copy_within(count..self.count, 0);
        self.count -= count;
        self.filling = Filling::EMPTY;
        for &(lane, tid, child) in &self.entries[..self.count] {
            self.filling.push(geometry.layout(level), fill, (lane.to_u128(), 0), tid, child);
        }
    }
}

/// Room for the keys of a page being filled, however much they have in common.
const ARENA: usize = 8 * PAGE_SIZE;

/// Entries whose keys are byte strings.
pub struct BytesFilling {
    records: [FilledEntry; MAX_PAGE_ENTRIES],
    count: usize,
    used: usize,
    /// What the page's keys have in common with its low fence, and what the cells take behind that.
    prefix: usize,
    cells: usize,
    filling: Filling,
    arena: [u8; ARENA],
}

#[derive(Clone, Copy)]
struct FilledEntry {
    at: u32,
    normal: u16,
    payload: u16,
    child: Block,
    tid: Tid,
}

impl Loadable for Bytes {
    type Batch = BytesFilling;

    fn cell_size(geometry: &Geometry, level: u8, entry: &Entry<'_, Bytes>) -> usize {
        cell_size(geometry, level, 0, entry.key.normal_length(), entry.key.payload.len())
    }
}

impl BytesFilling {
    /// What cells take under a prefix.
    fn cells_under(&self, geometry: &Geometry, level: u8, prefix: usize) -> usize {
        let mut sum = 0;
        let mut previous = u32::MAX;
        for record in &self.records[..self.count] {
            if record.at != previous {
                sum += cell_size(geometry, level, prefix, record.normal as usize, record.payload as usize);
                previous = record.at;
            }
        }
        sum
    }

    /// How full the page is under a prefix.
    fn filling_under(&self, geometry: &Geometry, level: u8, fill: usize, prefix: usize) -> Filling {
        let mut filling = Filling::EMPTY;
        for index in 0..self.count {
            let (entry, at) = (self.entry(index), self.records[index].at as u16);
            let head = (lane_under(&entry.key, prefix), at);
            filling.push(geometry.layout(level), fill, head, entry.tid, entry.child);
        }
        filling
    }
}

/// The lane of a key under a prefix.
fn lane_under(key: &Stored<'_>, prefix: usize) -> u128 {
    key.word(prefix).into()
}

fn cell_size(geometry: &Geometry, level: u8, prefix: usize, normal: usize, payload: usize) -> usize {
    geometry.layout(level).cell_size(normal.saturating_sub(prefix + HEAD), payload)
}

impl Batch<Bytes> for BytesFilling {
    fn push(&mut self, geometry: &Geometry, level: u8, fill: usize, low: &OwnedKey, entry: &Entry<'_, Bytes>) -> bool {
        let layout = geometry.layout(level);
        let (normal, payload) = (entry.key.normal_length(), entry.key.payload.len());
        // Keys come in order: what one has in common with the page's others, it has with the one before it.
        let (prefix, repeated) = match self.count.checked_sub(1).map(|last| self.entry(last).key) {
            None => (common(level, low, entry), false),
            Some(last) => {
                let common = last.common(&entry.key);
                (common.min(self.prefix), common == usize::MAX && last.payload == entry.key.payload)
            }
        };
        let low = low.stored();
        let before = if prefix == self.prefix { self.cells } else { self.cells_under(geometry, level, prefix) };
        let own = if repeated { 0 } else { cell_size(geometry, level, prefix, normal, payload) };
        let last = self.count.checked_sub(1).map_or(0, |last| self.records[last].normal as usize);
        let fences =
            layout.cell_size(low.normal_length(), low.payload.len()) + layout.cell_size(normal.max(last) + 1, payload);
        let needed = if repeated { 0 } else { normal + payload };
        let at = if repeated { self.records[self.count - 1].at } else { self.used as u32 };
        if prefix != self.prefix || self.count == 0 {
            self.filling = self.filling_under(geometry, level, fill, prefix);
        }
        // As in a page of exact lanes.
        self.filling.push(layout, fill, (lane_under(&entry.key, prefix), at as u16), entry.tid, entry.child);
        // Two always fit, or there would be no end of levels.
        let fits = self.count < 2 || self.filling.fits(layout, before + own + fences, fill);
        if !fits || self.used + needed > ARENA {
            return false;
        }
        if !repeated {
            let room = &mut self.arena[self.used..self.used + needed];
            entry.key.copy_from(0, &mut room[..normal]);
            room[normal..].copy_from_slice(entry.key.payload);
        }
        self.records[self.count] =
            FilledEntry { at, normal: normal as u16, payload: payload as u16, child: entry.child, tid: entry.tid };
        (self.count, self.used) = (self.count + 1, self.used + needed);
        (self.prefix, self.cells) = (prefix, before + own);
        true
    }

    fn len(&self) -> usize {
        self.count
    }

    fn entry(&self, index: usize) -> Entry<'_, Bytes> {
        let FilledEntry { at, normal, payload, child, tid } = self.records[index];
        let (key, rest) = self.arena[at as usize..].split_at(normal as usize);
        Entry { key: Stored::whole(key, &rest[..payload as usize]), tid, child }
    }

    fn set_fence(
        &self,
        fence: &mut OwnedKey,
        level: u8,
        last: &Entry<'_, Bytes>,
        next: &Entry<'_, Bytes>,
        order: <Bytes as Keys>::Order<'_>,
    ) {
        if level == 0 {
            Bytes::keep_load_fence(fence, last, next, self.prefix, order);
        } else {
            fence.keep(&next.key, next.key.payload.len(), next.tid);
        }
    }

    fn drop_front(&mut self, geometry: &Geometry, level: u8, fill: usize, count: usize, low: &OwnedKey) {
        self.records.copy_within(count..self.count, 0);
        self.count -= count;
        let start = if self.count == 0 { self.used } else { self.records[0].at as usize };
        self.arena.copy_within(start..self.used, 0);
        self.used -= start;
        for record in &mut self.records[..self.count] {
            record.at -= start as u32;
        }
        let common = |index: usize| common(level, low, &self.entry(index));
        self.prefix = (0..self.count).map(common).min().unwrap_or(0);
        self.cells = self.cells_under(geometry, level, self.prefix);
        self.filling = self.filling_under(geometry, level, fill, self.prefix);
    }
}

/// How much an entry has in common with its page's low fence. Nothing in an inner page: its upper fence is a key that
/// is not known yet, and need not share anything.
fn common(level: u8, low: &OwnedKey, entry: &Entry<'_, Bytes>) -> usize {
    let low = low.stored();
    if level == 0 { low.common(&entry.key).min(low.normal_length()) } else { 0 }
}

const _: () = assert!(ARENA > 4 * MOST_PARTS);
