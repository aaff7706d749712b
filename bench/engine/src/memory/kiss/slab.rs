//! Memory for nodes: pages of 4 KB, each a second-level node or cut into third-level nodes of one size.
//!
//! A page whose nodes are all free again is a free page, for whatever is needed next: the memory follows the keys from
//! sparse to dense and back. Free nodes are linked within their page, pages with room within their size, and retired
//! nodes in one queue, oldest first. All links lie in the free or retired memory itself or in the pages' descriptors.
//!
//! A spin lock guards the lists; it is held for a few dozen instructions, by writers only. Readers never come here.

use super::region::{Layout, PAGE, Region, header};
use fpbtree_engine::cache::word::Word;

/// Most values of a third-level node.
pub(super) const MAX_VALUES: usize = 64;
/// The class of a page that is a second-level node. Classes from 1 to [`MAX_VALUES`] are numbers of values; 0 is free.
const SECOND_LEVEL: u8 = MAX_VALUES as u8 + 1;

/// Looks at the lock before its owner is taken for dead; the last thousand are a millisecond apart.
const PATIENCE: u32 = 2000;
/// Retirements between two attempts to advance the epoch.
const RETIREMENTS_PER_EPOCH: u64 = 128;
/// Retired nodes reused by one [`Region::collect`] at most.
const COLLECTED: usize = 4096;

/// Who asks for memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To hold one key more. The last pages are not for it.
    Growth,
    /// To hold one key less. Anything large enough will do, or nothing could be removed from a full tree.
    Removal,
}

/// What a page's descriptor says, but for the links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Page {
    class: u8,
    /// Nodes handed out.
    used: u16,
    /// Nodes ever handed out since the page was cut: those behind were never linked.
    carved: u16,
    /// The first free node, plus one.
    free: u16,
}

impl Page {
    fn unpack(word: u64) -> Page {
        Page { class: word as u8, used: (word >> 16) as u16, carved: (word >> 32) as u16, free: (word >> 48) as u16 }
    }

    fn pack(self) -> u64 {
        u64::from(self.class) | u64::from(self.used) << 16 | u64::from(self.carved) << 32 | u64::from(self.free) << 48
    }

    /// Words of a node: its bitmap and its values.
    fn node(self) -> usize {
        1 + usize::from(self.class)
    }

    fn is_cut(self) -> bool {
        (1..SECOND_LEVEL).contains(&self.class)
    }

    fn is_full(self) -> bool {
        usize::from(self.used) >= PAGE / self.node()
    }
}

/// The pages in use, as [`Region::census`] counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Census {
    pub pages: usize,
    pub second_level: usize,
    pub third_level: usize,
    pub retired: usize,
}

impl<'a, W: Word> Region<'a, W> {
    /// A third-level node with room for `values`, or `None`.
    pub fn allocate(&self, values: usize, purpose: Purpose) -> Option<u32> {
        self.lock()?.node(values, purpose)
    }

    /// A second-level node, all zero, or `None`.
    pub fn allocate_second_level(&self) -> Option<usize> {
        let page = self.lock()?.page(SECOND_LEVEL, Purpose::Growth)?;
        (0..PAGE).for_each(|word| self.at(self.layout.page(page) + word).store(0));
        Some(page)
    }

    /// Takes back a node that was never reachable.
    pub fn free(&self, node: u32) {
        if let Some(slabs) = self.lock() {
            slabs.free(node);
        }
    }

    /// Takes back a node that can no longer be reached, once nobody reads it any more. What readers find in it from now
    /// on is undefined. If the owner of the lock died, the node is lost.
    pub fn retire(&self, node: u32) {
        let Some(slabs) = self.lock() else { return };
        let due = slabs.retire(node);
        slabs.reuse(2);
        drop(slabs);
        if due {
            self.advance();
        }
    }

    /// Ends a grace period if that is possible, and takes back what is past it; whether there was anything. The caller
    /// must not be reading.
    pub fn collect(&self) -> bool {
        let _ = self.advance() && self.advance();
        self.lock().is_some_and(|slabs| slabs.reuse(COLLECTED) > 0)
    }

    /// Counts what is in use. The answer is exact while nobody writes.
    pub fn census(&self) -> Option<Census> {
        self.lock().map(|slabs| slabs.census())
    }

    /// Bytes of the pages that are in use.
    pub fn bytes_in_use(&self) -> usize {
        let pages = self.at(header::FRESH).load().saturating_sub(self.at(header::FREE_COUNT).load());
        (pages as usize).min(self.layout.pages) * PAGE * size_of::<u64>()
    }

    /// The lists, for one thread at a time; `None` if the lock's owner seems to be dead.
    fn lock(&self) -> Option<Slabs<'a, W>> {
        let lock = self.at(header::LOCK);
        for attempt in 0..PATIENCE {
            if lock.load() == 0 && lock.compare_exchange(0, 1).is_ok() {
                return Some(Slabs { region: *self });
            }
            W::pause(attempt);
        }
        None
    }
}

/// The lists, while the lock is held.
struct Slabs<'a, W: Word> {
    region: Region<'a, W>,
}

impl<W: Word> Drop for Slabs<'_, W> {
    fn drop(&mut self) {
        self.region.at(header::LOCK).store(0);
    }
}

impl<W: Word> Slabs<'_, W> {
    fn layout(&self) -> &Layout {
        &self.region.layout
    }

    fn get(&self, index: usize) -> u64 {
        self.region.at(index).load()
    }

    fn set(&self, index: usize, value: u64) {
        self.region.at(index).store(value);
    }

    fn descriptor(&self, page: usize) -> Page {
        Page::unpack(self.get(self.layout().descriptor(page)))
    }

    fn describe(&self, page: usize, descriptor: Page) {
        self.set(self.layout().descriptor(page), descriptor.pack());
    }

    /// The word with a page's links: the pages before and after it, each plus one.
    fn links(&self, page: usize) -> usize {
        self.layout().descriptor(page) + 1
    }

    /// The page a link names.
    fn linked(&self, link: u32) -> Option<usize> {
        (link as usize).checked_sub(1).filter(|page| *page < self.layout().pages)
    }

    fn node(&self, values: usize, purpose: Purpose) -> Option<u32> {
        let with_room = |class| self.linked(self.get(header::CLASSES + class) as u32);
        let larger = || (purpose == Purpose::Removal).then(|| (values + 1..=MAX_VALUES).find_map(with_room)).flatten();
        let page = with_room(values).or_else(|| self.cut(values, purpose)).or_else(larger)?;
        Some(self.take(page))
    }

    /// A page newly cut into nodes of `values` values.
    fn cut(&self, values: usize, purpose: Purpose) -> Option<usize> {
        let page = self.page(values as u8, purpose)?;
        self.link(page, values);
        Some(page)
    }

    /// Takes one node of a page with room.
    fn take(&self, page: usize) -> u32 {
        let mut descriptor = self.descriptor(page);
        let words = descriptor.node();
        let start = self.layout().page(page);
        let place = match descriptor.free.checked_sub(1) {
            Some(place) => {
                descriptor.free = self.get(start + usize::from(place) * words) as u16;
                place
            }
            None => {
                descriptor.carved = descriptor.carved.wrapping_add(1);
                descriptor.carved.wrapping_sub(1)
            }
        };
        descriptor.used = descriptor.used.saturating_add(1);
        self.describe(page, descriptor);
        if descriptor.is_full() {
            self.unlink(page, descriptor.class);
        }
        (start + usize::from(place) * words % PAGE) as u32
    }

    fn free(&self, node: u32) {
        let Some(page) = self.layout().page_of(node) else { return };
        let mut descriptor = self.descriptor(page);
        if !descriptor.is_cut() {
            return self.free_page(page, descriptor);
        }
        let was_full = descriptor.is_full();
        let place = (node as usize - self.layout().page(page)) / descriptor.node();
        self.set(node as usize, u64::from(descriptor.free));
        descriptor.free = place as u16 + 1;
        descriptor.used = descriptor.used.saturating_sub(1);
        self.describe(page, descriptor);
        if was_full {
            self.link(page, usize::from(descriptor.class));
        }
        if descriptor.used == 0 {
            self.unlink(page, descriptor.class);
            self.free_page(page, descriptor);
        }
    }

    /// A page for nodes of `class`.
    fn page(&self, class: u8, purpose: Purpose) -> Option<usize> {
        let (fresh, free) = (self.get(header::FRESH) as usize, self.get(header::FREE_COUNT) as usize);
        let pages = self.layout().pages;
        let reserve = if purpose == Purpose::Growth { MAX_VALUES.min(pages / 16) } else { 0 };
        if pages.saturating_sub(fresh).saturating_add(free) <= reserve {
            return None;
        }
        let page = match self.linked(self.get(header::FREE_PAGES) as u32) {
            Some(page) => {
                self.set(header::FREE_PAGES, self.get(self.links(page)) >> 32);
                self.set(header::FREE_COUNT, free.saturating_sub(1) as u64);
                page
            }
            None if fresh < pages => {
                self.set(header::FRESH, fresh as u64 + 1);
                fresh
            }
            None => return None,
        };
        self.describe(page, Page { class, ..Page::default() });
        Some(page)
    }

    fn free_page(&self, page: usize, descriptor: Page) {
        if descriptor.class == 0 {
            return;
        }
        self.describe(page, Page::default());
        self.set(self.links(page), self.get(header::FREE_PAGES) << 32);
        self.set(header::FREE_PAGES, page as u64 + 1);
        self.set(header::FREE_COUNT, self.get(header::FREE_COUNT).wrapping_add(1));
    }

    /// Puts a page at the front of the list of its class.
    fn link(&self, page: usize, class: usize) {
        let head = header::CLASSES + class;
        let next = self.get(head) as u32;
        self.set(self.links(page), u64::from(next) << 32);
        if let Some(next) = self.linked(next) {
            self.set(self.links(next), self.get(self.links(next)) >> 32 << 32 | (page as u64 + 1));
        }
        self.set(head, page as u64 + 1);
    }

    /// Takes a page out of the list of its class.
    fn unlink(&self, page: usize, class: u8) {
        let links = self.get(self.links(page));
        let (previous, next) = (links as u32, (links >> 32) as u32);
        match self.linked(previous) {
            Some(previous) => {
                let links = self.links(previous);
                self.set(links, u64::from(self.get(links) as u32) | u64::from(next) << 32);
            }
            None => self.set(header::CLASSES + usize::from(class.min(SECOND_LEVEL)), u64::from(next)),
        }
        if let Some(next) = self.linked(next) {
            let links = self.links(next);
            self.set(links, self.get(links) >> 32 << 32 | u64::from(previous));
        }
    }

    /// Where a retired node keeps its link: (next node, epoch of retirement). Readers check a third-level node after
    /// reading it, and so may find the link in it; what they find in a second-level node they believe.
    fn limbo_link(&self, node: u32) -> usize {
        match self.layout().page_of(node) {
            Some(page) if self.descriptor(page).class == SECOND_LEVEL => self.links(page),
            _ => node as usize,
        }
    }

    /// The node at an end of the queue, if there is one.
    fn queued(&self, end: usize) -> Option<u32> {
        let node = self.get(end) as u32;
        self.layout().page_of(node).map(|_| node)
    }

    /// Queues a node; whether it is time to advance the epoch.
    fn retire(&self, node: u32) -> bool {
        if self.layout().page_of(node).is_none() {
            return false;
        }
        // The epoch is read after the node became unreachable.
        W::fence();
        self.set(self.limbo_link(node), self.region.epoch() << 32);
        match self.queued(header::LIMBO_TAIL) {
            None => self.set(header::LIMBO_HEAD, u64::from(node)),
            Some(tail) => {
                let link = self.limbo_link(tail);
                self.set(link, self.get(link) >> 32 << 32 | u64::from(node));
            }
        }
        self.set(header::LIMBO_TAIL, u64::from(node));
        let retired = self.get(header::RETIRED).wrapping_add(1);
        self.set(header::RETIRED, retired);
        retired.is_multiple_of(RETIREMENTS_PER_EPOCH)
    }

    /// Frees at most `limit` retired nodes that are past their grace period; how many.
    fn reuse(&self, limit: usize) -> usize {
        let epoch = self.region.epoch() as u32;
        for freed in 0..limit {
            let Some(node) = self.queued(header::LIMBO_HEAD) else { return freed };
            let link = self.get(self.limbo_link(node));
            if epoch.wrapping_sub((link >> 32) as u32) < 2 {
                return freed;
            }
            self.set(header::LIMBO_HEAD, link & u64::from(u32::MAX));
            if link as u32 == 0 {
                self.set(header::LIMBO_TAIL, 0);
            }
            self.free(node);
        }
        limit
    }

    fn census(&self) -> Census {
        let mut census = Census::default();
        for page in (0..self.layout().pages).map(|page| self.descriptor(page)).filter(|page| page.class != 0) {
            census.pages += 1;
            census.second_level += usize::from(!page.is_cut());
            census.third_level += if page.is_cut() { usize::from(page.used) } else { 0 };
        }
        let mut node = self.get(header::LIMBO_HEAD) as u32;
        while node != 0 && census.retired <= self.layout().pages * PAGE {
            census.retired += 1;
            node = self.get(self.limbo_link(node)) as u32;
        }
        census
    }
}
