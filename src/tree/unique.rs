//! Insertion into a unique index: the entries with an equal key are looked at under the lock that keeps others from
//! adding one.

use super::{InsertOptions, Tree};
use crate::format::{Error, NO_BLOCK, Position, ROOT, Result, Tid, is_link};
use crate::page::{Entry, KeySpace, Page};
use crate::store::{Mode, PageStore};

/// What is to happen after an entry with an equal key was looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It is no obstacle.
    Pass,
    /// It is no obstacle, and its row is dead to everyone.
    Dead,
    /// It is one: nothing is inserted.
    Stop,
}

impl<S: PageStore, K: KeySpace> Tree<'_, S, K> {
    /// Shows `look` the entries between two places, which are those before and behind all entries with the key of
    /// `entry`, and inserts that if none is an obstacle. `false` if one is. Without an entry it is only looked.
    ///
    /// The first page where an equal key could be stays exclusively locked until the entry is in: whoever wants to insert
    /// an equal one has to lock it first, too (nbtree's `_bt_doinsert`). Nothing is locked or pinned before or after;
    /// `look` is called with pages locked.
    pub fn insert_unique(
        &self,
        (low, high): (K::Key<'_>, K::Key<'_>),
        entry: Option<&Entry<'_, K>>,
        options: InsertOptions,
        look: &mut dyn FnMut(Tid) -> Verdict,
    ) -> Result<bool> {
        let first = self.first_leaf(low, entry, options)?;
        let mut equals = 0;
        let mut count = |tid| {
            equals += 1;
            look(tid)
        };
        if !self.look_at_equals(first, low, high, &mut count)? {
            // An error or a wait follows: what a serializable transaction read here is in conflict with either.
            self.store.note_insert(first);
            self.release(first);
            return Ok(false);
        }
        let Some(entry) = entry else {
            self.release(first);
            return Ok(true);
        };
        let pin = self.step_to(first, K::key_of(entry, self.order))?;
        self.store.note_insert(pin);
        let adds_version = options.adds_version || equals > 0;
        self.insert_into(pin, entry, None, InsertOptions { adds_version, ..options })?;
        Ok(true)
    }

    /// The leaf with `low` between its fences, exclusively locked. A root that is a leaf without room for the entry grows
    /// before anything is looked at: growing gives its lock up.
    fn first_leaf(&self, low: K::Key<'_>, entry: Option<&Entry<'_, K>>, options: InsertOptions) -> Result<S::Pin> {
        loop {
            let pin = self.writable_leaf(low)?;
            let has_room = match entry {
                Some(entry) if self.store.block(pin) == ROOT => self.makes_room(pin, entry, options)?,
                _ => true,
            };
            if has_room {
                return Ok(pin);
            }
            self.grow_root(pin)?;
        }
    }

    /// Looks at the entries between two places, from the page of the first on, which is exclusively locked and stays so.
    /// The others are given back.
    fn look_at_equals(
        &self,
        first: S::Pin,
        low: K::Key<'_>,
        high: K::Key<'_>,
        look: &mut dyn FnMut(Tid) -> Verdict,
    ) -> Result<bool> {
        let mut pin = first;
        loop {
            let page = self.page(pin)?;
            let from = if page.is_below(low) { Position::FIRST } else { page.lower_bound(low) };
            let mut place = from;
            let mut stopped = false;
            while let Some(entry) = page.entry(place).filter(|entry| K::compare_entry(high, entry).is_gt()) {
                match look(entry.tid) {
                    Verdict::Pass => {}
                    Verdict::Dead => {
                        let at = page.node(place.node as usize).tid_at(place.slot as usize);
                        self.store.set_hint(pin, &[at as u16], Tid::DEAD);
                    }
                    Verdict::Stop => {
                        stopped = true;
                        break;
                    }
                }
                place = page.next(place);
            }
            let ends = stopped || page.entry(place).is_some() || !page.is_beyond(high) || !is_link(page.right());
            let next = if ends { None } else { Some(self.lock_right(&page, Mode::Share)?) };
            if pin != first {
                self.release(pin);
            }
            match next {
                Some(next) => pin = next,
                None => return Ok(!stopped),
            }
        }
    }

    /// The right neighbour of a locked page, locked.
    fn lock_right(&self, page: &Page<'_, K>, mode: Mode) -> Result<S::Pin> {
        let block = page.right();
        let pin = self.store.pin(block)?;
        self.store.lock(pin, mode);
        let right = self.page(pin)?;
        if right.is_deleted() || right.level() != page.level() || !K::same_fence(right.low(), page.high()) {
            return Err(Error::Corrupt { block, what: "page is not its left sibling's right sibling" });
        }
        Ok(pin)
    }

    /// Goes right from an exclusively locked page to the one with the key between its fences, each locked before the one
    /// before it is given back, its split finished.
    fn step_to(&self, mut pin: S::Pin, key: K::Key<'_>) -> Result<S::Pin> {
        loop {
            let page = self.page(pin)?;
            if !page.is_beyond(key) || page.right() == NO_BLOCK {
                return Ok(pin);
            }
            let right = self.lock_right(&page, Mode::Exclusive)?;
            if self.page(right)?.is_incomplete() {
                // What it split off is still to its right.
                self.finish_split(right)?;
                continue;
            }
            self.release(pin);
            pin = right;
        }
    }
}
