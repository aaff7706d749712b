//! What all sessions have counted, by index, in the server's shared memory, which there is if the library is preloaded:
//! what pg_stat_fpbtree shows.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU64, Ordering};

use fpbtree_engine::cache::tallies::Tallies;
use pgrx::PgLogLevel;
use pgrx::PgSqlErrorCode::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED;
use pgrx::pg_sys::{self, Oid};

use crate::pg::per_backend::PerBackend;
use crate::pg::shared_memory::Part;
use crate::pg::{errors, options, relation};

/// What is counted, in the order of the view's columns: the first of those that are counted together, and others.
#[derive(Clone, Copy)]
pub enum Count {
    /// Lookups in the descent cache that it knew the leaf of, did not, and was wrong about; and the same of hot keys.
    Hits = 0,
    /// Pages asked for ahead, in shared buffers already, used, and wasted.
    PrefetchRequested = 6,
    /// Leaves that became two.
    LeafSplits = 10,
    /// Pages above them that did.
    InnerSplits,
    /// Leaves that gave their entries to their neighbours.
    LeavesMerged,
    /// Empty leaves that are gone.
    LeavesDeleted,
    /// Times that collected entries were inserted together, and how many entries.
    Batches,
    /// Calls of comparison functions, guesses instead, and wrong ones.
    CompareCalls = 16,
}

/// How many counts there are.
pub const COUNTS: usize = Count::CompareCalls as usize + 3;

/// An index's counts, and since when it counts, if it was reset.
pub type Counted = ([u64; COUNTS], Option<i64>);

/// Words before the tallies.
const REFUSED: usize = 0;
const IS_TOLD: usize = 1;
const HEADER: usize = 2;

/// The memory, as a process knows it.
struct Totals {
    header: &'static [AtomicU64],
    tallies: Tallies<'static>,
}

static TOTALS: PerBackend<UnsafeCell<Option<Totals>>> = PerBackend::new(UnsafeCell::new(None));

/// Their memory.
pub const MEMORY: Part = Part { name: c"fpbtree totals", bytes, check: |_| {}, begin };

fn bytes() -> usize {
    let words = |indexes| HEADER + Tallies::<AtomicU64>::words(indexes, COUNTS);
    match options::stat_indexes() {
        0 => 0,
        indexes => words(indexes) * size_of::<AtomicU64>(),
    }
}

/// Begins with nothing counted.
fn begin(memory: Option<&'static [AtomicU64]>) {
    let totals = memory.and_then(|memory| {
        let (header, rest) = memory.split_at_checked(HEADER)?;
        Some(Totals { header, tallies: Tallies::over(rest, COUNTS)? })
    });
    // SAFETY: there is no other process yet, and nobody looks at it.
    unsafe { *TOTALS.get() = totals };
}

/// The totals, unless there are none.
fn totals() -> Option<&'static Totals> {
    // SAFETY: written only when the server starts, before anyone asks.
    unsafe { (*TOTALS.get()).as_ref() }
}

/// Whether anything is counted.
pub fn are_counted() -> bool {
    totals().is_some()
}

/// Adds to what an index of the session's database has counted, from the `first` on. Never raises, and waits for nobody.
pub fn add(index: u32, first: Count, numbers: &[u64]) {
    if let Some(totals) = totals()
        && numbers.iter().any(|&number| number > 0)
        && !totals.tallies.add(owner(database(), index), first as usize, numbers)
    {
        totals.header[REFUSED].fetch_add(1, Ordering::Relaxed);
    }
}

/// What an index of the session's database is known by; 0 is the database itself, which counts nothing, but can be reset.
fn owner(database: u32, index: u32) -> u64 {
    u64::from(database) << 32 | u64::from(index)
}

fn of_owner(owner: u64) -> (u32, u32) {
    ((owner >> 32) as u32, owner as u32)
}

fn database() -> u32 {
    // SAFETY: the session's own.
    unsafe { pg_sys::MyDatabaseId.to_u32() }
}

impl Totals {
    fn read(&self, owner: u64) -> Counted {
        let mut counts = [0; COUNTS];
        let since = self.tallies.read(owner, &mut counts);
        (counts, (since != 0).then_some(since as i64))
    }

    fn indexes(&self) -> impl Iterator<Item = u32> {
        let own = database();
        let of_database = move |owner| Some(of_owner(owner)).filter(|&(database, _)| database == own);
        self.tallies.owners().filter_map(of_database).map(|(_, index)| index).filter(|&index| index != 0)
    }

    /// Forgets indexes and databases that are gone.
    unsafe fn forget_gone(&self) -> usize {
        let own = database();
        self.tallies.forget(|owner| {
            let (database, index) = of_owner(owner);
            // SAFETY: catalog lookups. Nothing is held.
            unsafe {
                match database == own {
                    true => index != 0 && !relation::exists(Oid::from(index)),
                    false => !relation::database_exists(Oid::from(database)),
                }
            }
        })
    }
}

/// If there is no room for another index, forgets those that are gone. Says once that some are not counted.
///
/// # Safety
/// Inside a transaction, nothing is locked. May raise.
pub unsafe fn make_room() {
    let Some(totals) = totals() else { return };
    // SAFETY: as for the caller.
    if totals.tallies.has_room() || unsafe { totals.forget_gone() } > 0 {
        return;
    }
    if totals.header[REFUSED].load(Ordering::Relaxed) > 0 && totals.header[IS_TOLD].swap(1, Ordering::Relaxed) == 0 {
        errors::report(
            PgLogLevel::WARNING,
            ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
            format_args!("pg_stat_fpbtree has no room for more than {} indexes", totals.tallies.most()),
            Some(format_args!("Nothing is counted for others.")),
            Some(format_args!("Increase fpbtree.stat_indexes, and start the server again.")),
        );
    }
}

/// Tells of the session's database, as index 0, and of each of its indexes that has counted.
pub fn tell(mut tell: impl FnMut(u32, Counted)) {
    let Some(totals) = totals() else { return };
    core::iter::once(0).chain(totals.indexes()).for_each(|index| tell(index, totals.read(owner(database(), index))));
}

/// Lets an index of the session's database count from zero again, or all, of which those that are gone are forgotten.
///
/// # Safety
/// Inside a transaction, nothing is locked. May raise.
pub unsafe fn reset(index: Option<u32>, now: i64) {
    let Some(totals) = totals() else { return };
    let reset = |index| _ = totals.tallies.reset(owner(database(), index), now as u64);
    match index {
        Some(index) => reset(index),
        None => {
            // SAFETY: as for the caller.
            unsafe { totals.forget_gone() };
            totals.indexes().for_each(reset);
            reset(0);
        }
    }
}

/// How many indexes have counted and may have, and how often there was no room for what was counted.
pub fn room() -> Option<[u64; 3]> {
    let totals = totals()?;
    let indexes = totals.tallies.owners().filter(|&owner| of_owner(owner).1 != 0).count();
    Some([indexes as u64, totals.tallies.most() as u64, totals.header[REFUSED].load(Ordering::Relaxed)])
}
