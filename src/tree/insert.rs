//! Insertion, page splits and their repair.

use super::{LockMode, Seek, Tree};
use crate::format::{Block, Error, Lane, NO_BLOCK, PageBytes, ROOT, Result, Tid, is_link};
use crate::keys::bytes::Stored;
use crate::log::{Change, Edit};
use crate::page::{Aim, Bytes, Entry, Joined, KeySpace, Links, Page, Plan, Thrift};
use crate::store::{Mode, PageStore};

/// Percent of a page kept left when the last page of a level splits under an ascending load, in inner pages.
const INNER_FILL: usize = 90;

/// How an entry is inserted.
#[derive(Clone, Copy, Debug)]
pub struct InsertOptions {
    /// The index's fill factor in percent: what an ascending load leaves in a leaf.
    pub fill: usize,
    /// The entry is another version of a row that has one with the same key, likely in the same leaf.
    pub adds_version: bool,
}

impl InsertOptions {
    /// An inner page's entry.
    const INNER: InsertOptions = InsertOptions { fill: INNER_FILL, adds_version: false };

    /// A new row's entry.
    pub fn filling(fill: usize) -> InsertOptions {
        InsertOptions { fill, adds_version: false }
    }
}

impl<S: PageStore, L: Lane> Tree<'_, S, L> {
    /// Inserts an entry. `fill` is the index's fill factor in percent: what an ascending load leaves in a leaf.
    /// Nothing is locked or pinned before or after.
    pub fn insert(&self, lane: L, tid: Tid, fill: usize) -> Result<()> {
        self.insert_entry(&Entry { key: lane, tid, child: NO_BLOCK }, InsertOptions::filling(fill))
    }
}

impl<S: PageStore> Tree<'_, S, Bytes> {
    /// Inserts an entry whose key has this normal part, and what it has behind that. `fill` as for exact lanes. Nothing
    /// is locked or pinned before or after.
    pub fn insert_long(&self, normal: &[u8], payload: &[u8], tid: Tid, fill: usize) -> Result<()> {
        let entry = Entry { key: Stored::whole(normal, payload), tid, child: NO_BLOCK };
        self.insert_entry(&entry, InsertOptions::filling(fill))
    }
}

impl<S: PageStore, K: KeySpace> Tree<'_, S, K> {
    /// Inserts an entry that is in one piece. Nothing is locked or pinned before or after.
    pub fn insert_entry(&self, entry: &Entry<'_, K>, options: InsertOptions) -> Result<()> {
        let leaf = self.writable_leaf(K::key_of(entry, self.order))?;
        self.store.note_insert(leaf);
        self.insert_into(leaf, entry, None, options)
    }

    /// The leaf whose fences contain `key`, exclusively locked, its split finished: where the last entries went, if that is
    /// it, without a descent (nbtree's `_bt_search_insert`, which looks at the last leaf alone).
    pub(super) fn writable_leaf(&self, key: K::Key<'_>) -> Result<S::Pin> {
        if let Some(block) = self.store.likely_leaf()
            && let Some(pin) = self.store.pin_likely(block)?
        {
            self.store.lock(pin, Mode::Exclusive);
            if self.as_likely_leaf(pin, Seek::At(key)).is_some_and(|page| !page.is_incomplete()) {
                return Ok(pin);
            }
            self.release(pin);
        }
        self.writable_page(key, 0)
    }

    /// The page of `level` whose fences contain `key`, exclusively locked, its split finished.
    pub(super) fn writable_page(&self, key: K::Key<'_>, level: u8) -> Result<S::Pin> {
        loop {
            let (seek, mode) = (Seek::At(key), LockMode::Exclusive);
            let pin = if level == 0 { self.find_leaf(seek, mode) } else { self.descend(seek, level, mode) }?;
            if !self.page(pin)?.is_incomplete() {
                return Ok(pin);
            }
            self.finish_split(pin)?;
        }
    }

    /// Inserts into a page that is exclusively locked and has the key between its fences. `below` is the child
    /// (exclusively locked) whose split this completes. All locks and pins are given back.
    pub(super) fn insert_into(
        &self,
        mut pin: S::Pin,
        entry: &Entry<'_, K>,
        below: Option<S::Pin>,
        options: InsertOptions,
    ) -> Result<()> {
        let key = K::key_of(entry, self.order);
        loop {
            let page = self.page(pin)?;
            let level = page.level();
            let mut change = start(below, pin);
            if page.insertion(key, entry, &mut change) {
                self.store.commit(&change);
                self.release(pin);
                if let Some(child) = below {
                    self.release(child);
                }
                return Ok(());
            }
            if self.makes_room(pin, entry, options)? {
                continue;
            }
            if self.store.block(pin) != ROOT {
                return self.split(pin, entry, below, options.fill);
            }
            self.grow_root(pin)?;
            pin = self.writable_page(key, level)?;
            if level == 0 {
                // A reader may have come to the new leaf before us.
                self.store.note_insert(pin);
            }
        }
    }

    /// Whether a page, exclusively locked, has room for an entry without being split. Its dead entries are removed and it
    /// is repacked if it takes that.
    pub(super) fn makes_room(&self, pin: S::Pin, entry: &Entry<'_, K>, options: InsertOptions) -> Result<bool> {
        let look = |thrift| self.page(pin).map(|page| page.plan(K::key_of(entry, self.order), entry, thrift));
        let has_room = |plan: &Plan| !matches!(plan, Plan::Repack { .. } | Plan::Full);
        let mut plan = look(Thrift::Usual)?;
        if !has_room(&plan) && self.remove_marked(pin)? {
            plan = look(Thrift::Tight)?;
        }
        if matches!(plan, Plan::Full) && options.adds_version && self.remove_versions(pin)? {
            plan = look(Thrift::Tight)?;
        }
        if let Plan::Repack { cell } = plan {
            self.store.commit(&Change::new(pin).edit(Edit::Repack { cell }));
            plan = look(Thrift::Tight)?;
        }
        Ok(has_room(&plan))
    }

    /// Puts the root's entries into two new pages and makes it their parent, one level up. The root comes exclusively
    /// locked; its lock and pin are given back.
    // Not inlined: whole pages lie in its frame, and nearly all insertions do without.
    #[inline(never)]
    pub(super) fn grow_root(&self, root: S::Pin) -> Result<()> {
        let page = self.page(root)?;
        let entries = Joined::of(page);
        let total = entries.len();
        if total < 2 {
            return Err(Error::Corrupt { block: ROOT, what: "page is full with less than two entries" });
        }
        let (left, right) = (self.store.allocate()?, self.store.allocate()?);
        let (left_block, right_block) = (self.store.block(left), self.store.block(right));
        let mut fence = K::FIRST;
        let keep = K::choose_split(&entries, Aim { left: 50, parting: None }, self.order, &mut fence);
        let (low, middle, high) = (page.low(), K::fence_of(&fence), page.high());
        let left_links = Links { level: page.level(), left: NO_BLOCK, right: right_block, low, high: middle };
        let right_links = Links { level: page.level(), left: left_block, right: NO_BLOCK, low: middle, high };
        let left_page = self.build(&left_links, keep, page.iter(), ROOT)?;
        let right_page = self.build(&right_links, total - keep, page.iter().skip(keep), ROOT)?;
        let children = [K::downlink(K::first(), left_block), K::downlink(&fence, right_block)];
        let root_links = Links { level: page.level() + 1, left: NO_BLOCK, right: NO_BLOCK, low, high };
        let root_page = self.build(&root_links, 2, children.into_iter(), ROOT)?;
        if page.level() == 0 {
            self.store.note_split(ROOT, left_block);
            self.store.note_split(ROOT, right_block);
        }
        self.store.commit(
            &Change::new(left)
                .edit(Edit::New(&left_page))
                .page(right)
                .edit(Edit::New(&right_page))
                .page(root)
                .edit(Edit::Image(&root_page)),
        );
        self.release(left);
        self.release(right);
        self.release(root);
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

    /// Splits a page that is not the root, with the new entry in one of the halves, then tells the parent. `pin` and
    /// `below` come exclusively locked; all locks and pins are given back.
    // Not inlined, as `grow_root`.
    #[inline(never)]
    fn split(&self, pin: S::Pin, entry: &Entry<'_, K>, below: Option<S::Pin>, fill: usize) -> Result<()> {
        let page = self.page(pin)?;
        let (block, level) = (self.store.block(pin), page.level());
        let new = self.store.allocate()?;
        let new_block = self.store.block(new);
        let neighbour = self.lock_neighbour(&page, block)?;

        let key = K::key_of(entry, self.order);
        let before = page.rank(page.locate(key));
        let entries = Joined::of(page).with(before, K::shorten(*entry));
        let total = entries.len();
        if total < 2 {
            return Err(Error::Corrupt { block, what: "page is full without an entry" });
        }
        let appends = !is_link(page.right()) && before + 1 == total;
        let fill = if level == 0 { fill } else { INNER_FILL };
        let repeats = |rank| entries.get(rank).is_some_and(|other| K::same_key(&other.key, &entry.key));
        // Rows of a growing table come behind those with the same key: what is before them is left full.
        let is_behind = level == 0 && total / 2 < before && repeats(total / 2) && !repeats(before + 1);
        let aim = Aim { left: if appends { fill } else { 50 }, parting: is_behind.then_some(before) };
        let mut fence = K::FIRST;
        let keep = K::choose_split(&entries, aim, self.order, &mut fence);
        let middle = K::fence_of(&fence);
        let left_links = Links { level, left: page.left(), right: new_block, low: page.low(), high: middle };
        let right_links = Links { level, left: block, right: page.right(), low: middle, high: page.high() };
        let stay = keep - usize::from(before < keep);
        let rest = K::right_half(&page, self.geometry, &right_links, stay).and_then(|mut rest| {
            let mut change = Change::new(());
            let is_done = before < keep || self.plan_in(&rest, key, entry, &mut change) && change.redo(0, &mut rest);
            is_done.then_some(rest)
        });
        let right_page =
            rest.map_or_else(|| self.build(&right_links, total - keep, entries.iter().skip(keep), block), Ok)?;
        let mut left_page = *self.store.bytes(pin);
        let halve = K::halve(stay, new_block, middle);
        let halved = halve.filter(|edit| Change::new(()).edit(*edit).redo(0, &mut left_page));
        let left_change = halved.map(|edit| start(below, pin).edit(edit)).and_then(|mut change| {
            let is_done = keep <= before || self.plan_in(&left_page, key, entry, &mut change);
            is_done.then_some(change)
        });
        let left_change = match left_change {
            Some(change) => change,
            None => {
                left_page = self.build(&left_links, keep, entries.iter(), block)?;
                start(below, pin).edit(Edit::Image(&left_page))
            }
        };
        let mut change = left_change.edit(Edit::SetIncomplete(true)).page(new).edit(Edit::New(&right_page));
        if let Some(neighbour) = neighbour {
            change = change.page(neighbour).edit(Edit::SetLeft(new_block));
        }
        if level == 0 {
            self.store.note_split(block, new_block);
        }
        self.store.commit(&change);
        if let Some(neighbour) = neighbour {
            self.release(neighbour);
        }
        self.release(new);
        if let Some(child) = below {
            self.release(child);
        }
        self.finish_split(pin)
    }

    /// Adds to a change of a page that is in private memory what inserting an entry takes, if there is room for that.
    fn plan_in<'e, P: Copy>(
        &self,
        bytes: &PageBytes,
        key: K::Key<'_>,
        entry: &Entry<'e, K>,
        change: &mut Change<'e, P>,
    ) -> bool {
        Page::open(bytes, self.geometry, ROOT).is_ok_and(|page| page.insertion(key, entry, change))
    }

    /// The right neighbour of an exclusively locked page, exclusively locked, if there is one.
    fn lock_neighbour(&self, page: &Page<'_, K>, block: Block) -> Result<Option<S::Pin>> {
        if !is_link(page.right()) {
            return Ok(None);
        }
        let pin = self.store.pin(page.right())?;
        self.store.lock(pin, Mode::Exclusive);
        let right = self.page(pin)?;
        if right.is_deleted()
            || right.level() != page.level()
            || right.left() != block
            || !K::same_fence(right.low(), page.high())
        {
            return Err(Error::Corrupt { block: page.right(), what: "page is not its left sibling's right sibling" });
        }
        Ok(Some(pin))
    }

    /// Puts the right half of a split into the parent. `left`, the left half, comes exclusively locked; its lock and
    /// pin are given back.
    pub(super) fn finish_split(&self, left: S::Pin) -> Result<()> {
        let page = self.page(left)?;
        let (right, level) = (page.right(), page.level() + 1);
        let mut high = K::FIRST;
        K::set_to_fence(&mut high, page.high());
        if !is_link(right) {
            return Err(Error::Corrupt {
                block: self.store.block(left),
                what: "last page of its level has been split",
            });
        }
        let key = K::borrow(&high, self.order);
        let parent = self.writable_page(key, level)?;
        let above = self.page(parent)?;
        if above.entry(above.lower_bound(key)).is_some_and(|entry| K::is_fence(&entry, K::fence_of(&high))) {
            self.store.commit(&Change::new(left).edit(Edit::SetIncomplete(false)));
            self.release(parent);
            self.release(left);
            return Ok(());
        }
        self.insert_into(parent, &K::downlink(&high, right), Some(left), InsertOptions::INNER)
    }
}

/// Begins the change of `pin`, and first completes the split of the page `below`.
fn start<'a, P: Copy>(below: Option<P>, pin: P) -> Change<'a, P> {
    match below {
        Some(child) => Change::new(child).edit(Edit::SetIncomplete(false)).page(pin),
        None => Change::new(pin),
    }
}
