//! Uniqueness: what decides, at insertion and at build, whether two equal keys may both be there, as nbtree decides it.

use core::ffi::CStr;

use fpbtree_engine::format::Tid;
use fpbtree_engine::page::Entry;
use fpbtree_engine::tree::{InsertOptions, Verdict};
use pgrx::PgSqlErrorCode::{ERRCODE_INTERNAL_ERROR, ERRCODE_UNIQUE_VIOLATION};
use pgrx::pg_sys::{
    self, Datum, IndexUniqueCheck, ItemPointerData, Relation, SnapshotData, SnapshotType, TransactionId,
};

use crate::pg::errors::Name;
use crate::pg::tid::heap_tid;
use crate::pg::{errors, ffi};
use crate::storage::buffers::PgStore;
use crate::storage::index::Index;
use crate::storage::tree::tree;
use crate::values::keys::Keyed;
use crate::values::tuple::Tuple;

/// `InvalidTransactionId`.
const NO_TRANSACTION: u32 = 0;

/// One row being inserted into a unique index.
pub struct UniqueInsert {
    /// The index.
    pub rel: Relation,
    /// Its table.
    pub heap: Relation,
    /// The row's values, one for each column.
    pub values: *const Datum,
    /// Which of them are NULL.
    pub nulls: *const bool,
    /// The row.
    pub tid: ItemPointerData,
}

/// Why a row cannot go in now.
#[derive(Clone, Copy)]
enum Obstacle {
    /// A transaction may yet take it away.
    Transaction { id: TransactionId, speculative: u32 },
    /// The key is taken.
    Duplicate,
}

/// Whether two rows with these values may not both be in the index: none is NULL, or NULLs are not distinct.
///
/// # Safety
/// `rel` is an open index, `nulls` has an element for each column.
pub unsafe fn is_checked(rel: Relation, nulls: *const bool) -> bool {
    // SAFETY: `rel` is open, and there is a null flag for each column.
    unsafe {
        let index = &*(*rel).rd_index;
        index.indnullsnotdistinct || (0..index.indnkeyatts as usize).all(|c| !*nulls.add(c))
    }
}

impl UniqueInsert {
    /// Inserts the row's entry if no other row has its key; raises the error if one does. `false` if that is only
    /// suspected and has to be looked at again (`UNIQUE_CHECK_PARTIAL`).
    ///
    /// # Safety
    /// Called by `aminsert`, with its arguments. May raise, and waits for other transactions.
    // Not inlined, as `insert::insert`.
    #[inline(never)]
    pub unsafe fn insert<K: Keyed>(
        &self,
        index: &Index,
        store: &PgStore,
        check: IndexUniqueCheck::Type,
        options: InsertOptions,
    ) -> bool {
        // SAFETY: `aminsert` is given an open index and table, and a value and a null flag for each column.
        unsafe {
            let columns = Index::columns::<K>(self.rel);
            let mut row = K::new_row();
            K::put_row(&columns, self.rel, self.values, self.nulls, &self.tid, &mut row);
            let (mut low, mut high) = (K::fresh(), K::fresh());
            K::around(&columns, &row, &mut low, &mut high);
            let tree = tree::<K>(store, index, &columns);
            let around = (K::borrow(&low, tree.order()), K::borrow(&high, tree.order()));
            let entry = K::entry(&row);
            let again = check == IndexUniqueCheck::UNIQUE_CHECK_EXISTING;
            let partial = check == IndexUniqueCheck::UNIQUE_CHECK_PARTIAL;
            let mut unique = true;
            loop {
                let (mut obstacle, mut found) = (None, false);
                let done = store.expect(tree.insert_unique(around, (!again).then_some(&entry), options, &mut |tid| {
                    if again && same_row(tid, &self.tid) {
                        found = true;
                        return Verdict::Pass;
                    }
                    let (verdict, why) = self.look(tid);
                    if why.is_some() && partial {
                        unique = false;
                        return Verdict::Pass;
                    }
                    obstacle = why;
                    verdict
                }));
                match obstacle {
                    None if again && !found => self.lost(),
                    None => {
                        debug_assert!(done);
                        return unique;
                    }
                    Some(Obstacle::Duplicate) => self.refuse(),
                    Some(Obstacle::Transaction { id, speculative: 0 }) => {
                        ffi::XactLockTableWait(id, self.rel, &self.tid, pg_sys::XLTW_Oper::XLTW_InsertIndex);
                    }
                    Some(Obstacle::Transaction { id, speculative }) => ffi::SpeculativeInsertionWait(id, speculative),
                }
            }
        }
    }

    /// Looks whether the row of an entry with an equal key is an obstacle. Pages are locked.
    unsafe fn look(&self, tid: Tid) -> (Verdict, Option<Obstacle>) {
        // SAFETY: the table is open; the server fills in what it finds.
        unsafe {
            let mut snapshot = SnapshotData { snapshot_type: SnapshotType::SNAPSHOT_DIRTY, ..Default::default() };
            let (mut tid, mut all_dead) = (heap_tid(tid), false);
            if !ffi::table_index_fetch_tuple_check(self.heap, &mut tid, &mut snapshot, &mut all_dead) {
                return (if all_dead { Verdict::Dead } else { Verdict::Pass }, None);
            }
            let waits_for = if snapshot.xmin.into_inner() != NO_TRANSACTION { snapshot.xmin } else { snapshot.xmax };
            if waits_for.into_inner() != NO_TRANSACTION {
                let speculative = snapshot.speculativeToken;
                return (Verdict::Stop, Some(Obstacle::Transaction { id: waits_for, speculative }));
            }
            // The new row itself may be dead meanwhile: this may be a concurrent build that adds a row it scanned.
            let (mut own, mut snapshot) = (self.tid, SnapshotData::default());
            snapshot.snapshot_type = SnapshotType::SNAPSHOT_SELF;
            if !ffi::table_index_fetch_tuple_check(self.heap, &mut own, &mut snapshot, core::ptr::null_mut()) {
                return (Verdict::Pass, None);
            }
            (Verdict::Stop, Some(Obstacle::Duplicate))
        }
    }

    #[cold]
    unsafe fn refuse(&self) -> ! {
        // SAFETY: the values are the row's; the description is made in the current memory context.
        unsafe {
            let key = ffi::BuildIndexValueDescription(self.rel, self.values, self.nulls);
            let detail = detail_of(key, "already exists.");
            errors::raise_constraint(
                ERRCODE_UNIQUE_VIOLATION,
                format_args!("duplicate key value violates unique constraint \"{}\"", Name(self.rel)),
                detail,
                None,
                self.heap,
                self.rel,
            )
        }
    }

    #[cold]
    unsafe fn lost(&self) -> ! {
        errors::raise(
            ERRCODE_INTERNAL_ERROR,
            format_args!("failed to re-find tuple within index \"{}\"", Name(self.rel)),
            None,
            Some(format_args!("This may be because of a non-immutable index expression.")),
        )
    }
}

fn same_row(tid: Tid, item: &ItemPointerData) -> bool {
    let stored = heap_tid(tid);
    (stored.ip_blkid.bi_hi, stored.ip_blkid.bi_lo, stored.ip_posid)
        == (item.ip_blkid.bi_hi, item.ip_blkid.bi_lo, item.ip_posid)
}

/// "Key … already exists.", in the current memory context; null where the key must not be told.
unsafe fn detail_of(key: *mut core::ffi::c_char, what: &str) -> *const core::ffi::c_char {
    if key.is_null() {
        return core::ptr::null();
    }
    // SAFETY: a C string; new memory with room for all parts and the end.
    unsafe {
        let key = CStr::from_ptr(key).to_bytes();
        let parts = [b"Key ".as_slice(), key, b" ", what.as_bytes(), b"\0"];
        let memory: *mut u8 = ffi::palloc(parts.iter().map(|part| part.len()).sum()).cast();
        let mut at = 0;
        for part in parts {
            memory.add(at).copy_from_nonoverlapping(part.as_ptr(), part.len());
            at += part.len();
        }
        memory.cast()
    }
}

/// Watches the sorted entries of a build for duplicates among rows that are not dead.
pub struct Watch<K: Keyed> {
    /// Behind all keys equal to that of the last entry that counts.
    beyond: K::OwnedKey,
    any: bool,
}

impl<K: Keyed> Watch<K> {
    /// Nothing seen yet.
    pub fn new() -> Self {
        Watch { beyond: K::FIRST, any: false }
    }

    /// Sees the next entry, of a live row; says whether it has the key of the one before and may not have it.
    ///
    /// # Safety
    /// `rel` is the open index. May raise.
    pub unsafe fn repeats(&mut self, rel: Relation, columns: &K::Columns, entry: &Entry<'_, K>) -> bool {
        let order = K::order(columns);
        let equal = self.any && K::compare_entry(K::borrow(&self.beyond, order), entry).is_gt();
        self.any = K::beyond(columns, entry, &mut self.beyond).is_some();
        // SAFETY: `rel` is open, and there is a null flag for each column.
        equal && unsafe { with_values(rel, columns, entry, |_, nulls| is_checked(rel, nulls)) }
    }
}

/// Runs `use_values` with the values of an entry, and which of them are NULL.
unsafe fn with_values<K: Keyed, T>(
    rel: Relation,
    columns: &K::Columns,
    entry: &Entry<'_, K>,
    use_values: impl FnOnce(*const Datum, *const bool) -> T,
) -> T {
    // SAFETY: `rel` is open, and the arrays have room for every column an index can have.
    unsafe {
        let mut values = [Datum::null(); pg_sys::INDEX_MAX_KEYS as usize];
        let mut nulls = [true; pg_sys::INDEX_MAX_KEYS as usize];
        let mut tuple = Tuple::new(pg_sys::CurrentMemoryContext);
        tuple.make_room();
        if let Some(formed) = K::index_tuple(columns, entry, &mut tuple) {
            pg_sys::index_deform_tuple(formed, (*rel).rd_att, values.as_mut_ptr(), nulls.as_mut_ptr());
        }
        let used = use_values(values.as_ptr(), nulls.as_ptr());
        tuple.end();
        used
    }
}

/// Raises the error of a build about an entry that [repeats](Watch::repeats) a key.
///
/// # Safety
/// `rel` and `heap` are the open index and table.
#[cold]
pub unsafe fn refuse_build<K: Keyed>(rel: Relation, heap: Relation, columns: &K::Columns, entry: &Entry<'_, K>) -> ! {
    // SAFETY: `rel` and `heap` are open.
    unsafe {
        with_values(rel, columns, entry, |values, nulls| -> () { refuse_values(rel, heap, values, nulls) });
    }
    unreachable!("an error was raised and returned")
}

#[cold]
unsafe fn refuse_values(rel: Relation, heap: Relation, values: *const Datum, nulls: *const bool) -> ! {
    // SAFETY: both relations are open, and there is a value and a null flag for each column.
    unsafe {
        let key = ffi::BuildIndexValueDescription(rel, values, nulls);
        let detail = if key.is_null() { c"Duplicate keys exist.".as_ptr() } else { detail_of(key, "is duplicated.") };
        errors::raise_constraint(
            ERRCODE_UNIQUE_VIOLATION,
            format_args!("could not create unique index \"{}\"", Name(rel)),
            detail,
            None,
            heap,
            rel,
        )
    }
}
