//! Insertion into a unique index: the entries with an equal key are looked at under the lock that keeps others from
//! adding one.

use super::{InsertOptions, Tree};
use crate::format::{NO_BLOCK, Position, ROOT, Result, Tid, is_link};
use crate::page::{Entry, KeySpace};
use crate::store::{Exclusive, Frames, LockMode, Locked, Shared, Store};

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

impl<'t, S: Store, K: KeySpace> Tree<'t, S, K> {
    /// Shows `look` the entries between two places, which are those before and behind all entries with the key of
    /// `entry`, and inserts that if none is an obstacle. `false` if one is. Without an entry it is only looked.
    ///
    /// The first page where an equal key could be stays exclusively locked until the entry is in: whoever wants to
    /// insert an equal one has to lock it first, too (nbtree's `_bt_doinsert`). Nothing is locked or pinned before or
    /// after; `look` is called with pages locked.
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
        if !self.look_at_equals(&first, (low, high), &mut count)? {
            // An error or a wait follows: what a serializable transaction read here is in conflict with either.
            self.store.note_insert(&first, K::stretch(low));
            first.release();
            return Ok(false);
        }
        let Some(entry) = entry else {
            first.release();
            return Ok(true);
        };
        let leaf = self.step_to(first, K::key_of(entry, self.order))?;
        self.store.note_insert(&leaf, K::stretch(low));
        let adds_version = options.adds_version || equals > 0;
        self.insert_into(leaf, entry, None, InsertOptions { adds_version, ..options })?;
        Ok(true)
    }

    /// The leaf with `low` between its fences, exclusively locked. A root that is a leaf without room for the entry
    /// grows before anything is looked at: growing gives its lock up.
    fn first_leaf(
        &self,
        low: K::Key<'_>,
        entry: Option<&Entry<'_, K>>,
        options: InsertOptions,
    ) -> Result<Locked<'t, S, Exclusive>> {
        loop {
            let mut leaf = self.writable_leaf(low, K::stretch(low))?;
            let has_room = match entry {
                Some(entry) if leaf.block() == ROOT => self.makes_room(&mut leaf, entry, options)?,
                _ => true,
            };
            if has_room {
                return Ok(leaf);
            }
            self.grow_root(leaf)?;
        }
    }

    /// Looks at the entries between two places, from the page of the first on, which stays locked; each page right of
    /// it is share-locked before the one before it is given back. `false` if one of them is an obstacle.
    fn look_at_equals(
        &self,
        first: &Locked<'t, S, Exclusive>,
        between: (K::Key<'_>, K::Key<'_>),
        look: &mut dyn FnMut(Tid) -> Verdict,
    ) -> Result<bool> {
        let mut looked = self.look_at_page(first, between, look)?;
        loop {
            match looked {
                Looked::Stopped => return Ok(false),
                Looked::Passed(None) => return Ok(true),
                Looked::Passed(Some(leaf)) => {
                    looked = self.look_at_page(&leaf, between, look)?;
                    leaf.release();
                }
            }
        }
    }

    /// Looks at the entries between two places in one page.
    fn look_at_page<M: LockMode>(
        &self,
        leaf: &Locked<'t, S, M>,
        (low, high): (K::Key<'_>, K::Key<'_>),
        look: &mut dyn FnMut(Tid) -> Verdict,
    ) -> Result<Looked<'t, S>> {
        let page = self.page(leaf)?;
        let mut place = if page.is_below(low) { Position::FIRST } else { page.lower_bound(low) };
        while let Some(entry) = page.entry(place).filter(|entry| K::compare_entry(high, entry).is_gt()) {
            match look(entry.tid) {
                Verdict::Pass => {}
                Verdict::Dead => {
                    let at = page.node(place.node as usize).tid_at(place.slot as usize);
                    leaf.set_hint(&[at as u16], Tid::DEAD);
                }
                Verdict::Stop => return Ok(Looked::Stopped),
            }
            place = page.next(place);
        }
        let ends = page.entry(place).is_some() || !page.is_beyond(high) || !is_link(page.right());
        Ok(Looked::Passed(if ends { None } else { Some(self.lock_right(&page)?) }))
    }

    /// Goes right from an exclusively locked page to the one with the key between its fences, each locked before the
    /// one before it is given back, its split finished.
    fn step_to(&self, mut leaf: Locked<'t, S, Exclusive>, key: K::Key<'_>) -> Result<Locked<'t, S, Exclusive>> {
        loop {
            let page = self.page(&leaf)?;
            if !page.is_beyond(key) || page.right() == NO_BLOCK {
                return Ok(leaf);
            }
            let right = self.lock_right(&page)?;
            if self.page(&right)?.is_incomplete() {
                // What it split off is still to its right.
                self.finish_split(right)?;
                continue;
            }
            leaf.release();
            leaf = right;
        }
    }
}

/// What came of a look at a page's equal entries.
enum Looked<'s, S: Frames> {
    /// One is an obstacle.
    Stopped,
    /// None is; there may be more in the page right of it, which is locked.
    Passed(Option<Locked<'s, S, Shared>>),
}
