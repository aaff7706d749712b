//! VACUUM asks of every row whether it is dead. Where the answer is kept in the order of the table, asking in the order
//! of the index is a search through all of that memory each time; asked in the table's order, a search is beside the
//! one before.

use super::Tree;
use super::removal::RemovalSet;
use crate::format::{Block, Result, Tid, is_link};
use crate::page::{KeySpace, Page};
use crate::store::{Cleanup, Locked, Shared, Store};

/// Bits of a word that number a row; the others say where in the table it is.
const NUMBER: u32 = u64::BITS - Tid::LINEAR_BITS;
/// Words that a leaf takes: its block, log position, and first row.
const LEAF: usize = 3;
/// Words of memory for each leaf that there is room for.
const WORDS_A_LEAF: usize = 128;
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
        DeadTids { rows, dead, leaves, row_count: 0, leaf_count: 0, passed: 0, strangers: 0 }
    }

    /// Whether nothing is known of what comes next.
    pub(super) fn is_exhausted(&self) -> bool {
        !self.rows.is_empty() && (self.passed == self.leaf_count || self.strangers > MOST_STRANGERS)
    }

    fn clear(&mut self) {
        self.dead.fill(0);
        (self.row_count, self.leaf_count, self.passed, self.strangers) = (0, 0, 0, 0);
    }

    /// Takes down the rows of a leaf that was at a position of the log; `false` if there is no room for them.
    fn add<K: KeySpace>(&mut self, block: Block, lsn: u64, page: &Page<'_, K>) -> bool {
        let first = self.row_count;
        if self.leaf_count == self.leaves.len() || first + page.entries() > self.rows.len() {
            return false;
        }
        RemovalSet::of(page, |_, tid| {
            self.rows[self.row_count] = tid.linear() << NUMBER | self.row_count as u64;
            self.row_count += 1;
            false
        });
        self.leaves[self.leaf_count] = [block.into(), lsn, first as u64];
        self.leaf_count += 1;
        true
    }

    /// Asks about all rows that were taken down.
    fn ask(&mut self, is_dead: &mut dyn FnMut(Tid) -> bool) {
        let rows = &mut self.rows[..self.row_count];
        rows.sort_unstable();
        for row in rows {
            let number = *row as usize % Self::MOST;
            let answer = is_dead(Tid::from_linear(*row >> NUMBER));
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

    fn is_dead(&self, number: usize) -> bool {
        self.dead.get(number / 64).is_some_and(|word| word >> (number % 64) & 1 != 0)
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
            Some(first) => {
                let mut numbers = first..;
                RemovalSet::of(page, |_, _| numbers.next().is_some_and(|number| dead_tids.is_dead(number)))
            }
            None => RemovalSet::of(page, |_, tid| is_dead(tid)),
        }
    }
}
