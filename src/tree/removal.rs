//! Removal of entries whose rows are gone: those that VACUUM names, and those found when an insertion needs their room.

use super::Tree;
use crate::format::{MAX_PAGE_ENTRIES, MAX_PAGE_NODES, Position, Result, Tid};
use crate::log::{Change, Edit};
use crate::page::{KeySpace, Page};
use crate::store::{DeadSearch, Exclusive, Locked, Store, Suspect};

/// Of how many entries of a page that versions of rows fill one has to be dead: fewer would be looked for again at
/// once.
const WORTHWHILE: usize = 12;

/// A set of a page's entries to remove: nodes in descending order, a bit per slot.
pub(super) struct RemovalSet {
    nodes: [(u8, u128); MAX_PAGE_NODES],
    count: usize,
}

impl RemovalSet {
    const EMPTY: RemovalSet = RemovalSet { nodes: [(0, 0); MAX_PAGE_NODES], count: 0 };

    /// The entries of a page that are to be removed.
    pub(super) fn of<K: KeySpace>(page: &Page<'_, K>, mut is_dead: impl FnMut(Position, Tid) -> bool) -> RemovalSet {
        let mut removal = RemovalSet::EMPTY;
        for number in (0..page.nodes()).rev() {
            let node = page.node(number);
            let mut mask = 0;
            node.for_each(0..node.len(), |slot, _, tid| {
                let place = Position { node: number as u8, slot: slot as u8 };
                mask |= u128::from(is_dead(place, tid)) << slot;
            });
            removal.add(number, mask);
        }
        removal
    }

    /// The same, where `mask` has a bit for each of so many entries from one on that so many are before.
    pub(super) fn of_masks<K: KeySpace>(page: &Page<'_, K>, mask: impl Fn(usize, usize) -> u128) -> RemovalSet {
        let (mut removal, mut rank) = (RemovalSet::EMPTY, page.entries());
        for number in (0..page.nodes()).rev() {
            let count = page.node(number).len();
            rank -= count;
            removal.add(number, mask(rank, count));
        }
        removal
    }

    fn add(&mut self, node: usize, mask: u128) {
        if mask != 0 {
            self.nodes[self.count] = (node as u8, mask);
            self.count += 1;
        }
    }

    /// The edit that removes them.
    pub(super) fn edit(&self) -> Edit<'_> {
        Edit::RemoveSet(&self.nodes[..self.count])
    }

    /// How many there are.
    pub(super) fn removed(&self) -> usize {
        self.nodes[..self.count].iter().map(|(_, mask)| mask.count_ones() as usize).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// Some of a page's entries, in key order.
struct Suspects {
    all: [Suspect; MAX_PAGE_ENTRIES],
    count: usize,
}

impl Suspects {
    const NONE: Suspects = {
        let nobody = Suspect { place: Position::FIRST, tid: Tid::MIN, has_twin: false, is_dead: false };
        Suspects { all: [nobody; MAX_PAGE_ENTRIES], count: 0 }
    };

    /// Adds a page's entries. Where they are to be, for they are many bytes to be moved.
    fn add_all<K: KeySpace>(&mut self, page: &Page<'_, K>, may_be_dead: impl Fn(&Suspect) -> bool) {
        let mut before = None;
        for number in 0..page.nodes() {
            let node = page.node(number);
            node.for_each(0..node.len(), |slot, head, tid| {
                let key = node.key_of(head);
                let has_twin = before.is_some_and(|before| K::same_key(&before, &key));
                before = Some(key);
                let place = Position { node: number as u8, slot: slot as u8 };
                self.add(Suspect { place, tid, has_twin, is_dead: false }, &may_be_dead);
            });
        }
    }

    fn add(&mut self, suspect: Suspect, may_be_dead: impl Fn(&Suspect) -> bool) {
        if suspect.has_twin && self.count > 0 {
            self.all[self.count - 1].has_twin = true;
        }
        if may_be_dead(&suspect) && self.count < MAX_PAGE_ENTRIES {
            self.all[self.count] = suspect;
            self.count += 1;
        }
    }

    fn all(&mut self) -> &mut [Suspect] {
        &mut self.all[..self.count]
    }

    fn is_dead(&self, place: Position) -> bool {
        let all = &self.all[..self.count];
        all.binary_search_by_key(&place, |suspect| suspect.place).is_ok_and(|at| all[at].is_dead)
    }
}

impl<S: Store, K: KeySpace> Tree<'_, S, K> {
    /// Removes entries of an exclusively locked leaf that scans and unique checks marked dead, and what else of their
    /// table's pages is dead (nbtree's `_bt_simpledel_pass`). Whether there were any. The lock stays.
    pub(super) fn remove_marked(&self, leaf: &mut Locked<'_, S, Exclusive>) -> Result<bool> {
        let page = self.page(leaf)?;
        if !is_leaf(&page) || !has_marked(&page) {
            return Ok(false);
        }
        let mut rows = [0; MAX_PAGE_ENTRIES];
        let mut count = 0;
        for (row, tid) in rows.iter_mut().zip(tids(&page).filter(|tid| tid.dead())) {
            *row = tid.block();
            count += 1;
        }
        let rows = &mut rows[..count];
        rows.sort_unstable();
        let mut suspects = Suspects::NONE;
        suspects.add_all(&page, |suspect| rows.binary_search(&suspect.tid.block()).is_ok());
        self.remove_dead(leaf, &mut suspects, DeadSearch::Marked)
    }

    /// Removes old versions of rows from an exclusively locked leaf that they fill (nbtree's `_bt_bottomupdel_pass`).
    /// Whether there were any. The lock stays.
    pub(super) fn remove_versions(&self, leaf: &mut Locked<'_, S, Exclusive>) -> Result<bool> {
        let page = self.page(leaf)?;
        if !is_leaf(&page) {
            return Ok(false);
        }
        let mut suspects = Suspects::NONE;
        suspects.add_all(&page, |_| true);
        let enough = page.entries().div_ceil(WORTHWHILE);
        self.remove_dead(leaf, &mut suspects, DeadSearch::Versions(enough))
    }

    /// Removes the suspects that are dead. Whether there were any.
    fn remove_dead(
        &self,
        leaf: &mut Locked<'_, S, Exclusive>,
        suspects: &mut Suspects,
        search: DeadSearch,
    ) -> Result<bool> {
        let Some(horizon) = self.store.find_dead(leaf, suspects.all(), search) else {
            return Ok(false);
        };
        self.expect_order(leaf)?;
        let removal = RemovalSet::of(&self.page(leaf)?, |place, _| suspects.is_dead(place));
        if !removal.is_empty() {
            let change = Change::new().edit(Edit::Conflict(horizon)).edit(removal.edit());
            self.commit([Some(leaf.writable())], &change);
        }
        Ok(!removal.is_empty())
    }
}

fn is_leaf<K: KeySpace>(page: &Page<'_, K>) -> bool {
    page.level() == 0
}

fn tids<K: KeySpace>(page: &Page<'_, K>) -> impl Iterator<Item = Tid> {
    (0..page.nodes()).flat_map(move |number| {
        let node = page.node(number);
        (0..node.len()).map(move |slot| node.tid(slot))
    })
}

fn has_marked<K: KeySpace>(page: &Page<'_, K>) -> bool {
    tids(page).any(|tid| tid.dead())
}
