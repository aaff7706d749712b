//! How many pages a tree of given entries takes, told from runs of them: neighbours in key order.

use super::INNER_LOAD_FILL;
use super::load::{LeafWriter, Loadable, PartPages};
use crate::format::{Block, Geometry, NO_BLOCK, PageBytes, ROOT};
use crate::page::{Entry, Page};
use core::mem::MaybeUninit;

/// Packs runs of entries into leaves as a build does, and keeps nothing of these but how many there are. Plain memory
/// (some hundred kilobytes): it lives where the caller says.
pub struct Sizing<K: Loadable> {
    leaves: LeafWriter<K>,
    /// The last entry of the run that was packed.
    last: K::OwnedKey,
    fill: usize,
    run: Run,
    /// What the entries of all runs take, in leaves.
    pages: f64,
    /// Leaves that are known to begin where others end, and what the cells of their parents' entries take.
    fences: usize,
    cells: usize,
}

/// What there is of a run.
#[derive(Clone, Copy)]
struct Run {
    is_begun: bool,
    /// Whether nothing is before it.
    is_first: bool,
    packed: u64,
    /// Entries that are not behind the one before them.
    out_of_order: u64,
    leaves: u64,
    /// How full the last leaf is, from 0 to 1.
    fill: f64,
}

impl Run {
    const NONE: Run = Run { is_begun: false, is_first: false, packed: 0, out_of_order: 0, leaves: 0, fill: 0.0 };

    fn entries(&self) -> u64 {
        self.packed + self.out_of_order
    }
}

impl<K: Loadable> Sizing<K> {
    /// Makes one in `memory` that fills leaves to `fill` percent.
    pub fn init(memory: &mut MaybeUninit<Self>, fill: usize) {
        let sizing = memory.as_mut_ptr();
        // SAFETY: all-zero bytes are numbers, and a writer of leaves, which is made anew for each run; no value is read
        // or moved (the whole is too large for some stacks).
        unsafe {
            sizing.write_bytes(0, 1);
            K::init(&raw mut (*sizing).last);
            (&raw mut (*sizing).fill).write(fill);
            (&raw mut (*sizing).run).write(Run::NONE);
        }
    }

    /// Begins a run: of all entries there are, or somewhere among them.
    pub fn begin(&mut self, is_first: bool) {
        self.run = Run { is_first, ..Run::NONE };
    }

    /// Adds the next entry of the run. One that is not behind the entry before it, as in a damaged index, is only counted.
    pub fn add(&mut self, geometry: &Geometry, order: K::Order<'_>, entry: &Entry<'_, K>) {
        let is_behind = !self.run.is_begun || K::compare_entry(K::borrow(&self.last, order), entry).is_lt();
        if !is_behind || K::set_to_key(&mut self.last, entry, order).is_none() {
            self.run.out_of_order += 1;
            return;
        }
        if !self.run.is_begun {
            let low = if self.run.is_first { K::first() } else { &self.last };
            self.leaves.restart(self.fill, low, ROOT + 1);
            self.run.is_begun = true;
        }
        self.run.packed += 1;
        let mut count = Count { run: &mut self.run, geometry, fences: &mut self.fences, cells: &mut self.cells };
        self.leaves.add(geometry, order, entry, &mut count);
    }

    /// Ends the run: with the last entry there is, or somewhere before that.
    pub fn end(&mut self, geometry: &Geometry, order: K::Order<'_>, is_last: bool) {
        if !self.run.is_begun {
            return;
        }
        let in_leaves = self.run.packed - self.leaves.pending() as u64;
        let is_whole = self.run.is_first && is_last;
        if is_whole || self.run.leaves == 0 {
            if !is_last {
                K::step(&mut self.last);
            }
            let high = if is_last { K::last() } else { &self.last };
            let mut count = Count { run: &mut self.run, geometry, fences: &mut self.fences, cells: &mut self.cells };
            self.leaves.finish(geometry, order, (high, NO_BLOCK), &mut count);
        }
        let (leaves, all) = (self.run.leaves as f64, self.run.entries() as f64);
        self.pages += if is_whole {
            leaves * all / self.run.packed as f64
        } else if in_leaves > 0 {
            // What is left would be in a leaf with entries behind the run's.
            leaves * all / in_leaves as f64
        } else {
            (leaves - 1.0 + self.run.fill * 100.0 / self.fill as f64) * all / self.run.packed as f64
        };
    }

    /// Leaves that the entries of all runs take, if others are between them.
    pub fn leaf_pages(&self) -> f64 {
        self.pages
    }

    /// Pages of a tree of so many leaves, its meta page included.
    pub fn tree_pages(&self, geometry: &Geometry, leaves: u64) -> u64 {
        self.tree(geometry, leaves).0
    }

    /// Pages of a tree of so many leaves, its meta page included, and its levels.
    pub fn tree(&self, geometry: &Geometry, leaves: u64) -> (u64, u32) {
        let cell = self.cells.checked_div(self.fences).unwrap_or(0);
        let fanout = (geometry.inner.usual_entries(cell) * INNER_LOAD_FILL / 100).max(2) as u64;
        let mut level = leaves.max(1);
        let (mut pages, mut levels) = (1 + level, 1);
        while level > 1 {
            level = level.div_ceil(fanout);
            pages += level;
            levels += 1;
        }
        (pages, levels)
    }
}

/// Counts the leaves of a run.
struct Count<'c> {
    run: &'c mut Run,
    geometry: &'c Geometry,
    fences: &'c mut usize,
    cells: &'c mut usize,
}

impl<K: Loadable> PartPages<K> for Count<'_> {
    fn take(&mut self) -> Block {
        ROOT + 1
    }

    fn write(&mut self, block: Block, low: &K::OwnedKey, page: &PageBytes) {
        if self.run.leaves > 0 {
            *self.fences += 1;
            *self.cells += K::cell_size(self.geometry, 1, &K::downlink(low, block));
        }
        self.run.leaves += 1;
        self.run.fill = Page::<K>::open(page, self.geometry, block).map_or(0.0, |page| page.fill());
    }
}
