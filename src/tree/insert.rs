//! Insertion, page splits and their repair.

use super::{INNER_SPLIT_FILL, Seek, Tree};
use crate::format::{Block, Error, Lane, NO_BLOCK, PageBytes, ROOT, Result, Tid, is_link};
use crate::log::{Change, Edit};
use crate::page::{Aim, Arrangement, Entry, Joined, KeySpace, Links, Page, Plan, Thrift};
use crate::store::{Exclusive, LockMode, Locked, PageEvent, Store};

/// How an entry is inserted.
#[derive(Clone, Copy, Debug)]
pub struct InsertOptions {
    /// The index's fill factor in percent: what an ascending load leaves in a leaf.
    pub fill: usize,
    /// The entry is another version of a row that has one with the same key, likely in the same leaf.
    pub adds_version: bool,
    /// How much of a leaf that is split stays left, in percent, if nothing else speaks for another place.
    pub(super) left: usize,
}

/// An even split.
const HALF: usize = 50;

/// Entries behind a new one in its page that are few enough for an ascending stretch to go on behind the page.
const NEARLY_ALL: usize = 16;

impl InsertOptions {
    /// An inner page's entry.
    const INNER: InsertOptions = InsertOptions::filling(INNER_SPLIT_FILL);

    /// A new row's entry.
    pub const fn filling(fill: usize) -> InsertOptions {
        InsertOptions { fill, adds_version: false, left: HALF }
    }

    /// The same, of another version of a row or not.
    pub const fn adding_version(self, adds_version: bool) -> InsertOptions {
        InsertOptions { adds_version, ..self }
    }
}

impl<S: Store, L: Lane> Tree<'_, S, L> {
    /// Inserts an entry. `fill` is the index's fill factor in percent: what an ascending load leaves in a leaf.
    /// Nothing is locked or pinned before or after.
    pub fn insert(&self, lane: L, tid: Tid, fill: usize) -> Result<()> {
        self.insert_entry(&Entry { key: lane, tid, child: NO_BLOCK }, InsertOptions::filling(fill))
    }
}

impl<'t, S: Store, K: KeySpace> Tree<'t, S, K> {
    /// Inserts an entry that is in one piece. Nothing is locked or pinned before or after.
    pub fn insert_entry(&self, entry: &Entry<'_, K>, options: InsertOptions) -> Result<()> {
        let key = K::key_of(entry, self.order);
        let stretch = K::stretch(key);
        let leaf = self.writable_leaf(key, stretch)?;
        self.store.note_insert(&leaf, stretch);
        self.insert_into(leaf, entry, None, options)
    }

    /// The leaf whose fences contain `key`, exclusively locked, its split finished: where the last entries went, or the
    /// last ones of its stretch, if that is it, without a descent (nbtree's `_bt_search_insert`, which looks at the last
    /// leaf alone). Nothing is locked on entry.
    pub(super) fn writable_leaf(&self, key: K::Key<'_>, stretch: u64) -> Result<Locked<'t, S, Exclusive>> {
        if let Some(block) = self.store.likely_leaf(stretch)
            && let Some(pinned) = self.store.pin_likely(block)?
        {
            let leaf = pinned.lock(self.store);
            if self.as_likely_leaf(&leaf, Seek::At(key)).is_some_and(|page| !page.is_incomplete()) {
                return Ok(leaf);
            }
            leaf.release();
        }
        self.writable_page(key, 0)
    }

    /// The page of `level` whose fences contain `key`, exclusively locked, its split finished. Pages of lower levels
    /// may be locked.
    pub(super) fn writable_page(&self, key: K::Key<'_>, level: u8) -> Result<Locked<'t, S, Exclusive>> {
        loop {
            let seek = Seek::At(key);
            let locked = if level == 0 { self.find_leaf(seek) } else { self.descend(seek, level) }?;
            if !self.page(&locked)?.is_incomplete() {
                return Ok(locked);
            }
            self.finish_split(locked)?;
        }
    }

    /// Inserts into a page that is exclusively locked and has the key between its fences. `below` is the child
    /// (exclusively locked) whose split this completes. All locks and pins are given back.
    pub(super) fn insert_into(
        &self,
        mut target: Locked<'t, S, Exclusive>,
        entry: &Entry<'_, K>,
        mut below: Option<Locked<'t, S, Exclusive>>,
        options: InsertOptions,
    ) -> Result<()> {
        let key = K::key_of(entry, self.order);
        loop {
            let page = self.page(&target)?;
            let level = page.level();
            debug_assert!(
                Seek::At(key).is_enclosed(&page)
                    || !page.is_below(key) && (!page.is_beyond(key) || !is_link(page.right())),
                "another page's key"
            );
            debug_assert!(!page.is_incomplete() && !page.is_deleted(), "a page to be finished first");
            let mut change = start(below.is_some());
            if page.insertion(key, entry, &mut change) {
                self.commit([below.as_mut().map(Locked::writable), Some(target.writable())], &change);
                target.release();
                if let Some(child) = below {
                    child.release();
                }
                return Ok(());
            }
            if self.makes_room(&mut target, entry, options)? {
                continue;
            }
            if target.block() != ROOT {
                return self.split(target, entry, below, options);
            }
            self.grow_root(target)?;
            target = self.writable_page(key, level)?;
            if level == 0 {
                // A reader may have come to the new leaf before us.
                self.store.note_insert(&target, K::stretch(key));
            }
        }
    }

    /// Whether a page has room for an entry without being split. Its dead entries are removed and it is repacked if it
    /// takes that.
    pub(super) fn makes_room(
        &self,
        target: &mut Locked<'t, S, Exclusive>,
        entry: &Entry<'_, K>,
        options: InsertOptions,
    ) -> Result<bool> {
        let look = |target: &Locked<'_, S, Exclusive>, thrift| {
            self.page(target).map(|page| page.plan(K::key_of(entry, self.order), entry, thrift))
        };
        let has_room = |plan: &Plan| !matches!(plan, Plan::Repack { .. } | Plan::Full);
        let mut plan = look(target, Thrift::Usual)?;
        if !has_room(&plan) && self.remove_marked(target)? {
            plan = look(target, Thrift::Tight)?;
        }
        if matches!(plan, Plan::Full) && options.adds_version {
            // Even if there are none yet: those that come will be dead soon.
            self.remove_versions(target)?;
            plan = look(target, Thrift::Tight)?;
        }
        let ascends = !has_room(&plan) && self.ascends(&self.page(target)?, entry);
        if matches!(plan, Plan::Full) && ascends {
            plan = look(target, Thrift::Ascending)?;
        }
        if let Plan::Repack { cell } = plan
            && let Some(arrangement) = self.page(target)?.repacked(cell, ascends)
        {
            self.commit([Some(target.writable())], &Change::new().edit(Edit::Repack(arrangement.counts())));
            plan = look(target, Thrift::Tight)?;
        }
        Ok(has_room(&plan))
    }

    /// Whether an entry continues a stretch of ascending ones in a leaf.
    fn ascends(&self, page: &Page<'_, K>, entry: &Entry<'_, K>) -> bool {
        if page.level() > 0 {
            return false;
        }
        let before = page.rank(page.locate(K::key_of(entry, self.order)));
        Joined::of(*page).with(before, K::shorten(*entry)).continues_stretch()
    }

    /// Puts the root's entries into two new pages and makes it their parent, one level up. The root comes exclusively
    /// locked; its lock and pin are given back.
    // Not inlined: whole pages lie in its frame, and nearly all insertions do without.
    #[inline(never)]
    pub(super) fn grow_root(&self, mut root: Locked<'t, S, Exclusive>) -> Result<()> {
        debug_assert_eq!(root.block(), ROOT);
        let page = self.page(&root)?;
        let entries = Joined::of(page);
        let total = entries.len();
        if total < 2 {
            return Err(Error::Corrupt { block: ROOT, what: "page is full with less than two entries" });
        }
        let (mut left, mut right) = (self.store.allocate()?, self.store.allocate()?);
        let (left_block, right_block) = (left.block(), right.block());
        let mut fence = K::FIRST;
        let keep = K::choose_split(&entries, Aim { left: 50, parting: None, exactly: None }, self.order, &mut fence);
        let (low, middle, high) = (page.low(), K::fence_of(&fence), page.high());
        let (level, fill) = (page.level(), Links::<K>::HALF);
        let left_links = Links { level, left: NO_BLOCK, right: right_block, low, high: middle, fill };
        let right_links = Links { level, left: left_block, right: NO_BLOCK, low: middle, high, fill };
        let left_page = self.build(&left_links, keep, page.iter(), ROOT)?;
        let right_page = self.build(&right_links, total - keep, page.iter_from(keep), ROOT)?;
        let children = [K::downlink(K::first(), left_block), K::downlink(&fence, right_block)];
        let root_links = Links { level: level + 1, left: NO_BLOCK, right: NO_BLOCK, low, high, fill };
        let root_page = self.build(&root_links, 2, children.into_iter(), ROOT)?;
        if page.level() == 0 {
            self.store.note_split(ROOT, left_block);
            self.store.note_split(ROOT, right_block);
        }
        let change = Change::new().edit(Edit::New(&left_page)).page().edit(Edit::New(&right_page)).page();
        let pages = [left.writable(), right.writable(), root.writable()];
        self.commit(pages.map(Some), &change.edit(Edit::Image(&root_page)));
        self.store.note_event(split_of(level));
        left.release();
        right.release();
        root.release();
        Ok(())
    }

    /// A new page of some of the entries of `block`.
    fn build<'a>(
        &self,
        links: &Links<'_, K>,
        total: usize,
        entries: impl Iterator<Item = Entry<'a, K>> + Clone,
        block: Block,
    ) -> Result<PageBytes> {
        let corrupt = Error::Corrupt { block, what: "half a page's entries do not fit a page" };
        K::build(self.geometry, links, total, entries.take(total)).ok_or(corrupt)
    }

    /// Splits a page that is not the root, with the new entry in one of the halves, then tells the parent. `target` and
    /// `below` come exclusively locked; all locks and pins are given back.
    // Not inlined, as `grow_root`.
    #[inline(never)]
    fn split(
        &self,
        mut target: Locked<'t, S, Exclusive>,
        entry: &Entry<'_, K>,
        mut below: Option<Locked<'t, S, Exclusive>>,
        options: InsertOptions,
    ) -> Result<()> {
        debug_assert_ne!(target.block(), ROOT, "the root grows instead");
        let page = self.page(&target)?;
        let (block, level) = (target.block(), page.level());
        let mut new = self.store.allocate()?;
        let new_block = new.block();
        let mut neighbour = self.lock_neighbour(&page, block)?;

        let key = K::key_of(entry, self.order);
        let before = page.rank(page.locate(key));
        let entries = Joined::of(page).with(before, K::shorten(*entry));
        let total = entries.len();
        if total < 2 {
            return Err(Error::Corrupt { block, what: "page is full without an entry" });
        }
        let mut fence = K::FIRST;
        let keep = K::choose_split(&entries, self.aim(&page, &entries, before, options), self.order, &mut fence);
        let middle = K::fence_of(&fence);
        let fill = Links::<K>::HALF;
        let left_links = Links { level, left: page.left(), right: new_block, low: page.low(), high: middle, fill };
        let right_links = Links { level, left: block, right: page.right(), low: middle, high: page.high(), fill };
        let stay = keep - usize::from(before < keep);
        let moved = K::right_half(&page, self.geometry, &right_links, stay).and_then(|mut half| {
            let mut change = Change::new();
            let is_done = before < keep || self.plan_in(&half, key, entry, &mut change) && change.redo(0, &mut half);
            is_done.then_some(half)
        });
        let right_page =
            moved.map_or_else(|| self.build(&right_links, total - keep, entries.iter_from(keep), block), Ok)?;
        let mut left_page = *target.bytes();
        let (mut arrangement, entry) = (Arrangement::default(), &K::shorten(*entry));
        let halve = K::halve(&page, stay, new_block, &fence, &mut arrangement);
        let left_change = halve.and_then(|edit| {
            let mut change = start(below.is_some()).edit(edit);
            let is_done = keep <= before
                || Change::new().edit(edit).redo(0, &mut left_page)
                    && self.plan_in(&left_page, key, entry, &mut change);
            is_done.then_some(change)
        });
        let left_change = match left_change {
            Some(change) => change,
            None => {
                left_page = self.build(&left_links, keep, entries.iter(), block)?;
                start(below.is_some()).edit(Edit::Image(&left_page))
            }
        };
        let mut change = left_change.edit(Edit::SetIncomplete(true)).page().edit(Edit::New(&right_page));
        if neighbour.is_some() {
            change = change.page().edit(Edit::SetLeft(new_block));
        }
        if level == 0 {
            self.store.note_split(block, new_block);
        }
        let pages = [
            below.as_mut().map(Locked::writable),
            Some(target.writable()),
            Some(new.writable()),
            neighbour.as_mut().map(Locked::writable),
        ];
        self.commit(pages, &change);
        self.store.note_event(split_of(level));
        if let Some(neighbour) = neighbour {
            neighbour.release();
        }
        new.release();
        if let Some(child) = below {
            child.release();
        }
        self.finish_split(target)
    }

    /// Where to split a page that is to have these entries, the new one behind so many others.
    fn aim(&self, page: &Page<'_, K>, entries: &Joined<'_, K>, before: usize, options: InsertOptions) -> Aim {
        let (level, total) = (page.level(), entries.len());
        let appends = !is_link(page.right()) && before + 1 == total;
        let (fill, left) = if level == 0 { (options.fill, options.left) } else { (INNER_SPLIT_FILL, HALF) };
        let new = entries.get(before);
        let repeats = |rank| {
            let other = entries.get(rank);
            other.zip(new).is_some_and(|(other, new)| K::same_key(&other.key, &new.key))
        };
        // Rows of a growing table come behind those with the same key: what is before them is left full.
        let is_behind = level == 0 && total / 2 < before && repeats(total / 2) && !repeats(before + 1);
        let ascends = level == 0 && !appends && entries.continues_stretch();
        // The stretch goes on behind the page, or before keys that it does not reach.
        let goes_on = total - before <= NEARLY_ALL;
        Aim {
            left: if appends || ascends && goes_on { fill } else { left },
            parting: is_behind.then_some(before),
            exactly: (ascends && !goes_on).then_some(before + 1),
        }
    }

    /// Adds to a change of a page that is in private memory what inserting an entry takes, if there is room for that.
    fn plan_in<'e>(&self, bytes: &PageBytes, key: K::Key<'_>, entry: &Entry<'e, K>, change: &mut Change<'e>) -> bool {
        Page::open(bytes, self.geometry, ROOT).is_ok_and(|page| page.insertion(key, entry, change))
    }

    /// The right neighbour of an exclusively locked page, exclusively locked, if there is one.
    fn lock_neighbour(&self, page: &Page<'_, K>, block: Block) -> Result<Option<Locked<'t, S, Exclusive>>> {
        if !is_link(page.right()) {
            return Ok(None);
        }
        let right = self.lock_right(page)?;
        if self.page(&right)?.left() != block {
            return Err(not_the_right_sibling(page.right()));
        }
        Ok(Some(right))
    }

    /// The right neighbour of a locked page, which has one, locked.
    pub(super) fn lock_right<M: LockMode>(&self, page: &Page<'_, K>) -> Result<Locked<'t, S, M>> {
        let block = page.right();
        let locked = self.lock(block)?;
        let right = self.page(&locked)?;
        if right.is_deleted() || right.level() != page.level() || !K::same_fence(right.low(), page.high()) {
            return Err(not_the_right_sibling(block));
        }
        Ok(locked)
    }

    /// Puts the right half of a split into the parent. `left`, the left half, comes exclusively locked; its lock and
    /// pin are given back.
    pub(super) fn finish_split(&self, mut left: Locked<'t, S, Exclusive>) -> Result<()> {
        let page = self.page(&left)?;
        debug_assert!(page.is_incomplete(), "a split that is finished");
        let (right, level) = (page.right(), page.level() + 1);
        let mut high = K::FIRST;
        K::set_to_fence(&mut high, page.high());
        if !is_link(right) {
            return Err(Error::Corrupt { block: left.block(), what: "last page of its level has been split" });
        }
        let key = K::borrow(&high, self.order);
        let parent = self.writable_page(key, level)?;
        let above = self.page(&parent)?;
        if above.entry(above.lower_bound(key)).is_some_and(|entry| K::is_fence(&entry, K::fence_of(&high))) {
            self.commit([Some(left.writable())], &Change::new().edit(Edit::SetIncomplete(false)));
            parent.release();
            left.release();
            return Ok(());
        }
        self.insert_into(parent, &K::downlink(&high, right), Some(left), InsertOptions::INNER)
    }
}

/// Begins the change of a page, before which that completes the split of a page below, if there is one.
fn start<'a>(completes: bool) -> Change<'a> {
    if completes { Change::new().edit(Edit::SetIncomplete(false)).page() } else { Change::new() }
}

fn split_of(level: u8) -> PageEvent {
    if level == 0 { PageEvent::LeafSplit } else { PageEvent::InnerSplit }
}

fn not_the_right_sibling(block: Block) -> Error {
    Error::Corrupt { block, what: "page is not its left sibling's right sibling" }
}
