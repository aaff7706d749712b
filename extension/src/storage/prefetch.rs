//! Reading ahead: while reads miss, pages a scan will come to are asked for before it does (docs/design.md, 7).
//!
//! A lookahead opens when the server has had to read a page that the scan wanted, and closes when what it asks for is
//! in shared buffers anyway: a scan in memory asks for nothing.

use core::cell::RefCell;
use core::ffi::c_int;
use std::collections::HashMap;

use fpbtree_engine::format::Block;
use fpbtree_engine::page::KeySpace;
use fpbtree_engine::scan::{Direction, JumpPointers, Wanted};
use fpbtree_engine::tree::Tree;
use pgrx::pg_sys::{self, Oid, Relation};

use crate::pg::ffi;
use crate::pg::memory::Zeroed;
use crate::pg::options::{self, Distance};
use crate::pg::per_backend::PerBackend;
use crate::pg::relation;
use crate::storage::buffers::PgStore;
use crate::storage::totals::{self, Count};

/// Most pages asked for and not come to yet.
pub const MOST_DISTANCE: usize = options::MOST_DISTANCE as usize;

/// Pages found in shared buffers in a row, beyond twice the lookahead, that close it.
const PATIENCE: usize = 16;
/// Leaves in a row that were not asked for, until those that were are given up.
const MOST_STRAYS: u32 = 8;

/// What became of reads ahead.
#[derive(Clone, Copy, Default)]
pub struct PrefetchCounts {
    /// Pages the operating system was asked for.
    pub requested: u64,
    /// Pages that were in shared buffers already.
    pub cached: u64,
    /// Pages asked for that the scan came to.
    pub used: u64,
    /// Pages asked for that it did not come to.
    pub wasted: u64,
}

impl PrefetchCounts {
    /// Adds others.
    pub fn add(&mut self, others: &PrefetchCounts) {
        self.requested += others.requested;
        self.cached += others.cached;
        self.used += others.used;
        self.wasted += others.wasted;
    }

    /// Adds these to what this session, and all, have counted for an index, and begins anew.
    pub fn add_to_session(&mut self, index: Oid) {
        let counted = core::mem::take(self);
        if counted.requested + counted.cached > 0 {
            let mut session = SESSION.borrow_mut();
            session.get_or_insert_default().entry(index.to_u32()).or_default().add(&counted);
            let PrefetchCounts { requested, cached, used, wasted } = counted;
            totals::add(index.to_u32(), Count::PrefetchRequested, &[requested, cached, used, wasted]);
        }
    }

    /// What this session has counted for an index.
    pub fn of_session(index: Oid) -> PrefetchCounts {
        SESSION.borrow().as_ref().and_then(|session| session.get(&index.to_u32())).copied().unwrap_or_default()
    }
}

/// Counts by index.
static SESSION: PerBackend<RefCell<Option<HashMap<u32, PrefetchCounts>>>> = PerBackend::new(RefCell::new(None));

/// How many pages may be asked for ahead.
#[derive(Clone, Copy, Default)]
pub struct Lookahead {
    /// As many may be on their way now.
    pub size: usize,
    most: usize,
    hits: usize,
}

impl Lookahead {
    /// A closed one that may grow so far.
    pub fn new(most: usize) -> Lookahead {
        Lookahead { size: 0, most, hits: 0 }
    }

    /// Closes.
    pub fn close(&mut self) {
        (self.size, self.hits) = (0, 0);
    }

    /// Grows by one page, as one had to be read.
    pub fn widen(&mut self) {
        (self.size, self.hits) = ((self.size + 1).min(self.most), 0);
    }

    /// Opens, or doubles.
    pub fn double(&mut self) {
        self.size = (2 * self.size).max(2).min(self.most);
    }

    /// Asks for a page, and closes after too many that need not have been asked for. Whether it is on its way now.
    ///
    /// # Safety
    /// `rel` is open, with that block. May raise.
    pub unsafe fn ask(&mut self, rel: Relation, block: Block, counts: &mut PrefetchCounts) -> bool {
        // SAFETY: `rel` is open.
        let found = unsafe { prefetch(rel, block) };
        if found.initiated_io {
            counts.requested += 1;
            self.hits = 0;
            return true;
        }
        counts.cached += u64::from(found.recent_buffer != relation::INVALID_BUFFER);
        self.pass();
        false
    }

    /// A page was not asked for. Closes after too many of these in a row, unless pages have to be read meanwhile.
    pub fn pass(&mut self) {
        self.hits += 1;
        if self.hits > 2 * self.size + PATIENCE {
            self.close();
        }
    }
}

/// Asks the operating system for a page that is not in shared buffers, or says where there it is.
///
/// # Safety
/// `rel` is open. May raise.
pub unsafe fn prefetch(rel: Relation, block: Block) -> pg_sys::PrefetchBufferResult {
    let fork = pg_sys::ForkNumber::MAIN_FORKNUM;
    // SAFETY: an open relation.
    unsafe {
        // The server raises an error of its own for a block in a file that is not there, and only a damaged page names
        // one. Whoever reads the page says so.
        if block >= pg_sys::RELSEG_SIZE && block >= ffi::RelationGetNumberOfBlocksInFork(rel, fork) {
            return pg_sys::PrefetchBufferResult { recent_buffer: relation::INVALID_BUFFER, initiated_io: false };
        }
        ffi::PrefetchBuffer(rel, fork, block)
    }
}

/// How far reads in a tablespace may be ahead of their use: not at all if that is switched off.
///
/// # Safety
/// An open index of ours. May raise.
pub unsafe fn distance(index: Relation, tablespace: Oid, is_maintenance: bool) -> usize {
    // SAFETY: `index` is an open index of ours.
    unsafe { pages_of(options::prefetch_distance(index), tablespace, is_maintenance) }
}

/// As [`distance`], of an index without parameters.
///
/// # Safety
/// May raise.
pub unsafe fn usual_distance(tablespace: Oid) -> usize {
    // SAFETY: the caller's.
    unsafe { pages_of(options::usual_prefetch_distance(), tablespace, false) }
}

unsafe fn pages_of(distance: Option<Distance>, tablespace: Oid, is_maintenance: bool) -> usize {
    // SAFETY: a setting of the tablespace.
    unsafe {
        let pages = match distance {
            None => 0,
            Some(Distance::Pages(pages)) => pages,
            Some(Distance::OfTablespace) if is_maintenance => {
                ffi::get_tablespace_maintenance_io_concurrency(tablespace)
            }
            Some(Distance::OfTablespace) => ffi::get_tablespace_io_concurrency(tablespace),
        };
        pages.clamp(0, MOST_DISTANCE as c_int) as usize
    }
}

/// The tablespace that an open relation is in, as its catalog entry says.
///
/// # Safety
/// An open relation.
pub unsafe fn tablespace(rel: Relation) -> Oid {
    // SAFETY: `rel` is open.
    unsafe { (*(*rel).rd_rel).reltablespace }
}

/// How many pages the server has had to read for this process so far.
#[inline(always)]
pub fn misses() -> i64 {
    // SAFETY: the server's counters, which only this thread changes.
    unsafe {
        let usage = &raw const pg_sys::pgBufferUsage;
        (*usage).shared_blks_read + (*usage).local_blks_read
    }
}

/// Leaves asked for ahead.
pub struct LeavesAhead<K: KeySpace> {
    lookahead: Lookahead,
    leaves: JumpPointers<K>,
    /// Of the leaves handed out, which are on their way; by number.
    asked: [bool; MOST_DISTANCE + 1],
    given: usize,
    passed: usize,
    strays: u32,
    /// Others take part in the scan: leaves it goes past are theirs.
    pub is_shared: bool,
}

// SAFETY: numbers, flags, and jump pointers that have not begun.
unsafe impl<K: KeySpace> Zeroed for LeavesAhead<K> {}

impl<K: KeySpace> LeavesAhead<K> {
    /// None yet, `most` ahead at most. Zeroed memory becomes so.
    pub fn begin(&mut self, most: usize) {
        self.lookahead = Lookahead::new(most);
        self.leaves.end();
    }

    /// Notes that the scan has come to this leaf and goes on from `place`, and whether it had to be read; asks for more
    /// if leaves have to be.
    ///
    /// # Safety
    /// `index` is open and nothing of it is locked. May raise.
    #[expect(clippy::too_many_arguments, reason = "what a scan knows at this place")]
    pub unsafe fn visit(
        &mut self,
        block: Block,
        missed: bool,
        tree: Tree<'_, PgStore, K>,
        wanted: &impl Wanted<K>,
        direction: Direction,
        place: &K::OwnedKey,
        index: Relation,
        counts: &mut PrefetchCounts,
    ) {
        if missed {
            self.lookahead.double();
        }
        if self.lookahead.size == 0 && self.given == self.passed {
            return;
        }
        if !self.leaves.has_begun() {
            self.leaves.begin(direction, place);
        } else if let Some(skipped) = self.leaves.pass(block) {
            self.strays = 0;
            for _ in 0..skipped {
                self.settle(self.is_shared, counts);
            }
            self.settle(true, counts);
        } else {
            self.strays += 1;
            if self.strays > MOST_STRAYS {
                self.give_up(counts);
                self.leaves.begin(direction, place);
            }
        }
        while self.leaves.ahead() < self.lookahead.size {
            let Some(next) = tree.store().expect(self.leaves.next(tree, wanted)) else { break };
            // SAFETY: `index` is open; asking for a block that it has not does no harm.
            self.asked[self.given % self.asked.len()] = unsafe { self.lookahead.ask(index, next, counts) };
            self.given += 1;
        }
    }

    /// The oldest leaf handed out is not waited for any more.
    fn settle(&mut self, used: bool, counts: &mut PrefetchCounts) {
        if self.asked[self.passed % self.asked.len()] {
            if used {
                counts.used += 1;
            } else {
                counts.wasted += 1;
            }
        }
        self.passed += 1;
    }

    /// Forgets what was asked for.
    fn give_up(&mut self, counts: &mut PrefetchCounts) {
        while self.passed < self.given {
            self.settle(self.is_shared, counts);
        }
        self.strays = 0;
        self.leaves.end();
    }

    /// Forgets what was asked for, and asks for nothing until a leaf has to be read.
    pub fn close(&mut self, counts: &mut PrefetchCounts) {
        self.give_up(counts);
        self.lookahead.close();
    }
}
