//! Insertion of many entries in order, those of a leaf together.

use arrayvec::ArrayVec;

use super::{Arrival, InsertOptions, Seek, Tree};
use crate::format::{Block, Error, NO_BLOCK, PAGE_SIZE, PageBytes, Result};
use crate::log::{Change, Edit};
use crate::page::{Entry, KeySpace, Page};
use crate::store::{Exclusive, Locked, Store};

/// Inserts entries: those that go to the same leaf, as long as they come one after the other, under one lock and with one
/// record. What makes another order of them costs time alone.
///
/// Between two calls the leaf of the last entry may be locked, and entries are in no page yet: [`finish`](Batch::finish) ends
/// that.
pub struct Batch<'t, S: Store, K: KeySpace> {
    tree: Tree<'t, S, K>,
    options: InsertOptions,
    leaf: Option<Locked<'t, S, Exclusive>>,
    /// The leaf as it is to become, and the edits that make it so.
    page: PageBytes,
    /// Is told of each leaf that is done with, and where the next one begins; nothing is locked then.
    ahead: &'t mut dyn FnMut(Block, &K::OwnedKey),
    bound: K::OwnedKey,
    /// The leaf that entries went to last, and how many of it did.
    block: Block,
    run: usize,
    series: ArrayVec<u8, { MOST_BYTES + PAGE_SIZE }>,
}

/// Bytes of a series behind which another one is begun: what is logged and done at once, with a leaf locked. An entry adds no
/// more than a page to that.
const MOST_BYTES: usize = PAGE_SIZE / 2;

impl<'t, S: Store, K: KeySpace> Batch<'t, S, K> {
    /// Begins. `ahead` is told of each leaf that is done with, and where the next one begins.
    pub fn new(tree: Tree<'t, S, K>, options: InsertOptions, ahead: &'t mut dyn FnMut(Block, &K::OwnedKey)) -> Self {
        let series = ArrayVec::new();
        Batch {
            tree,
            options,
            leaf: None,
            page: [0; PAGE_SIZE],
            ahead,
            bound: K::FIRST,
            block: NO_BLOCK,
            run: 0,
            series,
        }
    }

    /// Inserts an entry that is in one piece.
    pub fn insert(&mut self, entry: &Entry<'_, K>) -> Result<()> {
        let key = K::key_of(entry, self.tree.order);
        if self.takes(key, entry)? {
            return Ok(());
        }
        self.finish()?;
        let stretch = K::stretch(key);
        let leaf = self.tree.writable_leaf(key, stretch)?;
        self.tree.store.note_insert(&leaf, stretch);
        if leaf.block() != self.block {
            (self.block, self.run) = (leaf.block(), 0);
        }
        self.page = *leaf.bytes();
        self.leaf = Some(leaf);
        if self.takes(key, entry)? {
            return Ok(());
        }
        let Some(leaf) = self.leaf.take() else { return Ok(()) };
        let page = self.tree.page(&leaf)?;
        let left = self.share(page.rank(page.locate(key)), page.entries());
        self.run += 1;
        self.tree.insert_into(leaf, entry, None, InsertOptions { left, ..self.options })
    }

    /// How much of a full leaf is to stay left, in percent, so that all pages that its entries and those of the batch will
    /// take end up equally full, and as full as a build leaves them. Entries before the next one have had theirs: as many
    /// for each as are to come for each of the others, it is supposed.
    fn share(&self, before: usize, total: usize) -> usize {
        let run = self.run.min(before);
        if run == 0 || before == run || total == 0 {
            return InsertOptions::filling(0).left;
        }
        let (passed, full) = (before as f64 / total as f64, self.options.fill as f64 / 100.0);
        let growth = before as f64 / (before - run) as f64;
        let all = passed + (1.0 - passed) * growth;
        let each = all / (all / full).ceil().max(2.0);
        let share = if passed >= each { each } else { passed + (each - passed) / growth };
        (share * 100.0) as usize
    }

    /// Whether the entry belongs into the leaf at hand and has room there; then it is put there.
    fn takes(&mut self, key: K::Key<'_>, entry: &Entry<'_, K>) -> Result<bool> {
        let Some(leaf) = &self.leaf else { return Ok(false) };
        let block = leaf.block();
        let page = Page::open(&self.page, self.tree.geometry, block)?;
        let (seek, mut change) = (Seek::<K>::At(key), Change::new());
        let is_there = || seek.is_enclosed(&page) || matches!(seek.arrival(&page, 0), Arrival::Here);
        if self.series.len() > MOST_BYTES || !is_there() || !page.insertion(key, entry, &mut change) {
            return Ok(false);
        }
        if !change.redo(0, &mut self.page) {
            return Err(Error::Corrupt { block, what: "page has no room for what it was said to have" });
        }
        change.add_to_series(&mut self.series);
        self.run += 1;
        Ok(true)
    }

    /// Makes the change of the leaf at hand, if there is one. Nothing is locked or pinned then.
    pub fn finish(&mut self) -> Result<()> {
        if let Some(mut leaf) = self.leaf.take() {
            let block = leaf.block();
            K::set_to_fence(&mut self.bound, self.tree.page(&leaf)?.high());
            if !self.series.is_empty() {
                let edit = Edit::Series { edits: &self.series, page: Some(&self.page) };
                self.tree.commit([Some(leaf.writable())], &Change::new().edit(edit));
                self.series.clear();
            }
            leaf.release();
            self.tree.store.check_interrupts();
            (self.ahead)(block, &self.bound);
        }
        Ok(())
    }
}
