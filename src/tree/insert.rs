//! Insertion, page splits and their repair.

use super::{Grip, Seek, Tree};
use crate::change::{self, Change, Edit};
use crate::key::{Key, Lane, Tail};
use crate::page::{Entry, Links, Page, Plan, build, is_link};
use crate::store::{Block, Error, Mode, NO_BLOCK, PageStore, ROOT, Result};

/// Percent of a page kept left when the last page of a level splits under an ascending load, in inner pages.
const INNER_FILL: usize = 90;

impl<S: PageStore, L: Lane> Tree<'_, S, L> {
    /// Inserts an entry. `fill` is the index's fill factor in percent: what an ascending load leaves in a leaf.
    /// Nothing is locked or pinned before or after.
    pub fn insert(&self, lane: L, tail: Tail, fill: usize) -> Result<()> {
        let entry = Entry { lane, tail, child: NO_BLOCK };
        let leaf = self.writable_page(entry.key(), 0)?;
        self.store.note_insert(leaf);
        self.insert_into(leaf, entry, None, fill)
    }

    /// The page of `level` whose fences contain `key`, exclusively locked, its split finished.
    pub(super) fn writable_page(&self, key: Key<L>, level: u8) -> Result<S::Pin> {
        loop {
            let pin = self.descend(Seek::At(key), level, Grip::Exclusive)?;
            if !self.page(pin)?.is_incomplete() {
                return Ok(pin);
            }
            self.finish_split(pin)?;
        }
    }

    /// Inserts into a page that is exclusively locked and has the key between its fences. `below` is the child
    /// (exclusively locked) whose split this completes. All locks and pins are given back.
    fn insert_into(&self, mut pin: S::Pin, entry: Entry<L>, below: Option<S::Pin>, fill: usize) -> Result<()> {
        loop {
            let page = self.page(pin)?;
            let plan = page.plan(entry.key());
            let level = page.level();
            if plan != Plan::Full {
                self.store.commit(&planned(plan, &page, entry, start(below, pin)));
                self.release(pin);
                if let Some(child) = below {
                    self.release(child);
                }
                return Ok(());
            }
            if self.store.block(pin) != ROOT {
                return self.split(pin, entry, below, fill);
            }
            self.grow_root(pin)?;
            pin = self.writable_page(entry.key(), level)?;
            if level == 0 {
                // A reader may have come to the new leaf before us.
                self.store.note_insert(pin);
            }
        }
    }

    /// Puts the root's entries into two new pages and makes it their parent, one level up. The root comes exclusively
    /// locked; its lock and pin are given back.
    fn grow_root(&self, root: S::Pin) -> Result<()> {
        let page = self.page(root)?;
        let (left, right) = (self.store.allocate()?, self.store.allocate()?);
        let (left_block, right_block) = (self.store.block(left), self.store.block(right));
        let total = page.entries();
        let (keep, high) = choose_split(&page, page.iter(), total, total / 2);
        let low = page.low();
        let left_links = Links { level: page.level(), left: NO_BLOCK, right: right_block, low, high };
        let right_links = Links { level: page.level(), left: left_block, right: NO_BLOCK, low: high, high: Key::MAX };
        let left_page = build(self.geometry, &left_links, keep, page.iter());
        let right_page = build(self.geometry, &right_links, total - keep, page.iter().skip(keep));
        let children = [
            Entry { lane: low.lane, tail: low.tail, child: left_block },
            Entry { lane: high.lane, tail: high.tail, child: right_block },
        ];
        let root_links = Links { level: page.level() + 1, left: NO_BLOCK, right: NO_BLOCK, low, high: Key::MAX };
        let root_page = build(self.geometry, &root_links, 2, children.into_iter());
        if page.level() == 0 {
            self.store.note_split(ROOT, left_block);
            self.store.note_split(ROOT, right_block);
        }
        self.store.commit(
            &Change::new(left)
                .edit(Edit::Image(&left_page))
                .page(right)
                .edit(Edit::Image(&right_page))
                .page(root)
                .edit(Edit::Image(&root_page)),
        );
        self.release(left);
        self.release(right);
        self.release(root);
        Ok(())
    }

    /// Splits a page that is not the root, with the new entry in one of the halves, then tells the parent. `pin` and
    /// `below` come exclusively locked; all locks and pins are given back.
    fn split(&self, pin: S::Pin, entry: Entry<L>, below: Option<S::Pin>, fill: usize) -> Result<()> {
        let page = self.page(pin)?;
        let (block, level) = (self.store.block(pin), page.level());
        let new = self.store.allocate()?;
        let new_block = self.store.block(new);
        let neighbour = self.lock_neighbour(&page, block)?;

        let before = page.iter().take_while(|other| other.key() < entry.key()).count();
        let total = page.entries() + 1;
        let all = || page.iter().take(before).chain([entry]).chain(page.iter().skip(before));
        let appends = !is_link(page.right()) && before + 1 == total;
        let fill = if level == 0 { fill } else { INNER_FILL };
        let middle = if appends { (total * fill / 100).min(total - 1) } else { total / 2 };
        let (keep, high) = choose_split(&page, all(), total, middle);
        let links = Links { level, left: block, right: page.right(), low: high, high: page.high() };
        let right_page = build(self.geometry, &links, total - keep, all().skip(keep));

        let kept = keep - usize::from(before < keep);
        let mut change = start(below, pin).edit(Edit::Repack { keep: kept as u16 });
        if before < keep {
            change = change.edit(change::insert(
                self.place_in_repacked(level, kept, before),
                entry.lane,
                entry.tail,
                entry.child,
            ));
        }
        change = change
            .edit(Edit::SetHigh(high.erase()))
            .edit(Edit::SetRight(new_block))
            .edit(Edit::SetIncomplete(true))
            .page(new)
            .edit(Edit::Image(&right_page));
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

    fn place_in_repacked(&self, level: u8, kept: usize, index: usize) -> crate::page::Position {
        self.geometry.layout(level).place_in_repacked(kept, index)
    }

    /// The right neighbour of an exclusively locked page, exclusively locked, if there is one.
    fn lock_neighbour(&self, page: &Page<'_, L>, block: Block) -> Result<Option<S::Pin>> {
        if !is_link(page.right()) {
            return Ok(None);
        }
        let pin = self.store.pin(page.right())?;
        self.store.lock(pin, Mode::Exclusive);
        let right = self.page(pin)?;
        if right.is_deleted() || right.level() != page.level() || right.left() != block || right.low() != page.high() {
            return Err(Error::Corrupt { block: page.right(), what: "page is not its left sibling's right sibling" });
        }
        Ok(Some(pin))
    }

    /// Puts the right half of a split into the parent. `left`, the left half, comes exclusively locked; its lock and
    /// pin are given back.
    pub(super) fn finish_split(&self, left: S::Pin) -> Result<()> {
        let page = self.page(left)?;
        let (high, right, level) = (page.high(), page.right(), page.level() + 1);
        if !is_link(right) {
            return Err(Error::Corrupt {
                block: self.store.block(left),
                what: "last page of its level has been split",
            });
        }
        let parent = self.writable_page(high, level)?;
        let above = self.page(parent)?;
        if above.key(above.lower_bound(high)) == Some(high) {
            self.store.commit(&Change::new(left).edit(Edit::SetIncomplete(false)));
            self.release(parent);
            self.release(left);
            return Ok(());
        }
        let downlink = Entry { lane: high.lane, tail: high.tail, child: right };
        self.insert_into(parent, downlink, Some(left), INNER_FILL)
    }
}

/// Begins the change of `pin`, and first completes the split of the page `below`.
fn start<'a, P: Copy>(below: Option<P>, pin: P) -> Change<'a, P> {
    match below {
        Some(child) => Change::new(child).edit(Edit::SetIncomplete(false)).page(pin),
        None => Change::new(pin),
    }
}

/// The edits that carry out a plan that needs no page split.
fn planned<'a, P: Copy, L: Lane>(
    plan: Plan,
    page: &Page<'_, L>,
    entry: Entry<L>,
    change: Change<'a, P>,
) -> Change<'a, P> {
    let (change, place) = match plan {
        Plan::Split { node, keep, then } => {
            let cut = page.node(node as usize);
            let separator = if (keep as usize) < cut.len() { cut.lane(keep as usize) } else { entry.lane };
            (change.edit(Edit::SplitNode { node, keep, separator: separator.to_u128() }), then)
        }
        Plan::Balance { left, then } => (change.edit(Edit::Balance { left }), then),
        Plan::Repack { then } => (change.edit(Edit::Repack { keep: page.entries() as u16 }), then),
        Plan::Insert(place) => (change, place),
        Plan::Full => unreachable!("a full page is split by the caller"),
    };
    change.edit(change::insert(place, entry.lane, entry.tail, entry.child))
}

/// Where to split `total` entries so that about `middle` stay left, and the fence between the halves: near the middle
/// where the lane changes, if it does, so that equal keys stay together and a search for a key goes straight to it. The
/// fence of leaves is the shortest there then; an inner page's must be its first entry's key.
fn choose_split<L: Lane>(
    page: &Page<'_, L>,
    entries: impl Iterator<Item = Entry<L>>,
    total: usize,
    middle: usize,
) -> (usize, Key<L>) {
    let middle = middle.clamp(1, total - 1);
    let reach = total / 16;
    let (from, to) = (middle.saturating_sub(reach).max(1), (middle + reach).min(total - 1));
    let mut best: Option<usize> = None;
    let mut at_middle = page.high();
    let mut at_best = page.high();
    let mut previous: Option<L> = None;
    for (index, entry) in entries.enumerate().skip(from - 1).take(to - from + 2) {
        if index == middle {
            at_middle = entry.key();
        }
        let changes = previous.is_some_and(|lane| lane < entry.lane);
        if changes && best.is_none_or(|b| index.abs_diff(middle) < b.abs_diff(middle)) {
            let tail = if page.level() == 0 { Tail::MIN } else { entry.tail };
            (best, at_best) = (Some(index), Key::new(entry.lane, tail));
        }
        previous = Some(entry.lane);
    }
    match best {
        Some(index) => (index, at_best),
        None => (middle, at_middle),
    }
}
