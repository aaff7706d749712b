//! VACUUM asks of every row whether it is dead. Where the answer is kept in the order of the table, asking in the order
//! of the index is a search through all of that memory each time; asked in the table's order, a search is beside the
//! one before.

use super::Tree;
use super::removal::RemovalSet;
use crate::format::{Block, MAX_NODE_ENTRIES, Result, Tid, is_link};
use crate::page::{KeySpace, Page};
use crate::store::{Cleanup, Locked, Shared, Store};

/// Bits of a word that number a row; the others say where in the table it is.
const NUMBER: u32 = u64::BITS - Tid::LINEAR_BITS;
/// Words that a leaf takes: its block, log position, and first row.
const LEAF: usize = 3;
/// Words of memory for each leaf that there is room for.
const WORDS_A_LEAF: usize = 128;
/// Rows that come one behind the other in the table, or nearly, where the order of the index is as good.
const LONG_RUN: usize = 64;
/// So far before the last one, 8 heap blocks, a row is still near it.
const NEAR: u64 = 8 << (Tid::BLOCK_SHIFT + NUMBER);
/// Leaves that were not known when they were come to, after which what is known ahead is not waited for any more.
const MOST_STRANGERS: usize = 16;

/// What is known of the rows of the leaves ahead, in borrowed memory.
pub struct DeadTids<'m> {
    /// Rows to ask about: place in the table, then number.
    rows: &'m mut [u64],
    /// A bit for each number: the row is dead.
    dead: &'m mut [u64],
    leaves: &'m mut [[u64; LEAF]],
    row_count: usize,
    /// How often a row was far before the last one in the table.
    falls: usize,
    leaf_count: usize,
    /// Leaves come to.
    passed: usize,
    strangers: usize,
}

impl<'m> DeadTids<'m> {
    /// The most memory there is a use for, in words.
    pub const MOST: usize = 1 << NUMBER;

    /// Knows nothing, and has room for nearly as many rows as there are words.
    pub fn new(memory: &'m mut [u64]) -> Self {
        let length = memory.len().min(Self::MOST);
        let (leaves, rest) = memory[..length].split_at_mut(length / WORDS_A_LEAF * LEAF);
        let (dead, rows) = rest.split_at_mut(length.div_ceil(64).min(rest.len()));
        let (leaves, _) = leaves.as_chunks_mut();
        DeadTids { rows, dead, leaves, row_count: 0, falls: 0, leaf_count: 0, passed: 0, strangers: 0 }
    }

    /// Whether nothing is known of what comes next.
    pub(super) fn is_exhausted(&self) -> bool {
        !self.rows.is_empty() && (self.passed == self.leaf_count || self.strangers > MOST_STRANGERS)
    }

    fn clear(&mut self) {
        self.dead.fill(0);
        (self.row_count, self.falls, self.leaf_count, self.passed, self.strangers) = (0, 0, 0, 0, 0);
    }

    /// Takes down the rows of a leaf that was at a position of the log; `false` if there is no room for them.
    fn add<K: KeySpace>(&mut self, block: Block, lsn: u64, page: &Page<'_, K>) -> bool {
        let first = self.row_count;
        if self.leaf_count == self.leaves.len() || first + page.entries() > self.rows.len() {
            return false;
        }
        let mut last = first.checked_sub(1).map_or(0, |last| self.rows[last]);
        let mut tids = [Tid::MIN; MAX_NODE_ENTRIES];
        for node in 0..page.nodes() {
            let node = page.node(node);
            let tids = &mut tids[..node.len()];
            node.read_tids(0, tids);
            for tid in tids {
                let row = tid.linear() << NUMBER | self.row_count as u64;
                self.rows[self.row_count] = row;
                self.falls += usize::from(row.saturating_add(NEAR) < last);
                last = row;
                self.row_count += 1;
            }
        }
        self.leaves[self.leaf_count] = [block.into(), lsn, first as u64];
        self.leaf_count += 1;
        true
    }

    /// Asks about all rows that were taken down.
    fn ask(&mut self, is_dead: &mut dyn FnMut(Tid) -> bool) {
        let rows = &mut self.rows[..self.row_count];
        if self.falls > rows.len() / LONG_RUN {
            rows.sort_unstable();
        }
        for row in rows {
            let number = *row as usize % Self::MOST;
            let tid = Tid::from_linear(*row >> NUMBER);
            // Whoever comes to the leaf of one that none can have finds it damaged; the server takes no such TID.
            let answer = !tid.is_flawed() && is_dead(tid);
            self.dead[number / 64] |= u64::from(answer) << (number % 64);
        }
    }

    /// The number of the first row of a leaf that is come to now, if it is as it was when its rows were taken down.
    fn visit(&mut self, block: Block, lsn: u64) -> Option<usize> {
        let ahead = &self.leaves[self.passed..self.leaf_count];
        let Some(skipped) = ahead.iter().take(MOST_STRANGERS).position(|leaf| leaf[0] == u64::from(block)) else {
            self.strangers += 1;
            return None;
        };
        let [_, seen, first] = ahead[skipped];
        self.passed += skipped + 1;
        self.strangers = 0;
        (seen == lsn).then_some(first as usize)
    }

    /// Which of up to 128 rows from a number on are dead, a bit for each.
    fn dead_from(&self, number: usize, count: usize) -> u128 {
        let word = |at: usize| u128::from(self.dead.get(number / 64 + at).copied().unwrap_or(0));
        let (words, bit) = (word(0) | word(1) << 64, number % 64);
        let all = if bit == 0 { words } else { words >> bit | word(2) << (128 - bit) };
        all & u128::MAX.checked_shr(128 - count as u32).unwrap_or(0)
    }
}

impl<S: Store, K: KeySpace> Tree<'_, S, K> {
    /// Asks about the rows of a leaf and those right of it, as many as there is room for. `ahead` is told each leaf,
    /// the one after it and where that begins. Nothing is locked or pinned before or after, nor while `ahead` and
    /// `is_dead` are called.
    pub(super) fn inquire(
        &self,
        first: Block,
        dead_tids: &mut DeadTids<'_>,
        is_dead: &mut dyn FnMut(Tid) -> bool,
        ahead: &mut dyn FnMut(Block, Block, &K::OwnedKey),
    ) -> Result<()> {
        dead_tids.clear();
        let (mut block, mut place) = (first, K::FIRST);
        loop {
            let leaf = self.lock::<Shared>(block)?;
            let page = self.page(&leaf)?;
            let is_leaf = page.level() == 0 && !page.is_deleted();
            let more = is_leaf && dead_tids.add(block, leaf.lsn(), &page);
            let right = page.right();
            K::set_to_fence(&mut place, page.high());
            leaf.release();
            if !more || !is_link(right) {
                break;
            }
            ahead(block, right, &place);
            self.store.check_interrupts();
            block = right;
        }
        dead_tids.ask(is_dead);
        Ok(())
    }

    /// The dead rows of a leaf that is locked, by what is known of them, or else by asking now.
    pub(super) fn dead_rows(
        &self,
        leaf: &Locked<'_, S, Cleanup>,
        page: &Page<'_, K>,
        dead_tids: &mut DeadTids<'_>,
        is_dead: &mut dyn FnMut(Tid) -> bool,
    ) -> RemovalSet {
        match dead_tids.visit(leaf.block(), leaf.lsn()) {
            Some(first) => RemovalSet::of_masks(page, |rank, count| dead_tids.dead_from(first + rank, count)),
            None => RemovalSet::of(page, |_, tid| is_dead(tid)),
        }
    }
}
