//! Relations and their pages: the macros of the server's headers.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU64, Ordering};

use fpbtree_engine::simd;
use pgrx::pg_sys::{
    self, BlockNumber, Buffer, Datum, ForkNumber, IndexBuildCallback, IndexInfo, LOCKMODE, Oid, Relation, Snapshot,
    TableScanDesc, XLogRecPtr,
};

use super::errors::{end_critical_section, start_critical_section};
use super::ffi;
pub use super::ffi::FileLocator;
use super::tid::MOST_OFFSET;

/// The block number that asks for a new page at the end of the file.
pub const P_NEW: BlockNumber = BlockNumber::MAX;
/// No block.
pub const INVALID_BLOCK: BlockNumber = BlockNumber::MAX;
/// No buffer.
pub const INVALID_BUFFER: Buffer = 0;

/// No subtransaction.
const INVALID_SUBTRANSACTION: pg_sys::SubTransactionId = 0;

/// Whether VACUUM may make the file of an index shorter: not where the table's files keep their length, and not with a
/// parallel VACUUM, which cannot take a transaction id for the lock.
///
/// # Safety
/// An open index whose table is locked.
pub unsafe fn may_truncate(rel: Relation) -> bool {
    // SAFETY: `rel` is open and its table locked. A table's options, if it has any, are the server's own.
    unsafe {
        let table = ffi::table_open((*(*rel).rd_index).indrelid, pg_sys::NoLock as LOCKMODE);
        let options = (*table).rd_options.cast::<pg_sys::StdRdOptions>();
        let is_wanted = truncation_is_wanted(options.as_ref());
        ffi::table_close(table, pg_sys::NoLock as LOCKMODE);
        is_wanted && !pg_sys::IsInParallelMode() && !old_snapshots_expire()
    }
}

#[cfg(not(feature = "since_18"))]
fn truncation_is_wanted(options: Option<&pg_sys::StdRdOptions>) -> bool {
    options.is_none_or(|options| options.vacuum_truncate)
}

#[cfg(feature = "since_18")]
fn truncation_is_wanted(options: Option<&pg_sys::StdRdOptions>) -> bool {
    #[cfg(feature = "pg18")]
    let given = options.filter(|options| options.vacuum_truncate_set).map(|options| options.vacuum_truncate);
    #[cfg(feature = "pg19")]
    let given = options
        .map(|options| options.vacuum_truncate)
        .filter(|&given| given != pg_sys::pg_ternary::PG_TERNARY_UNSET)
        .map(|given| given == pg_sys::pg_ternary::PG_TERNARY_TRUE);
    // SAFETY: the server's own setting.
    given.unwrap_or(unsafe { pg_sys::vacuum_truncate })
}

/// Whether redo compares pages with those that generic records left (`wal_consistency_checking`). It cannot tell hint
/// bits, which are not logged, from damage: they are not set then.
#[inline]
pub fn generic_records_are_compared() -> bool {
    // SAFETY: the server's own setting, an array with an element for each resource manager once it has started.
    unsafe {
        let compared = ffi::wal_consistency_checking;
        !compared.is_null() && *compared.add(pg_sys::RmgrIds::RM_GENERIC_ID as usize)
    }
}

/// `BufferGetPage`.
///
/// # Safety
/// `buffer` is pinned.
#[inline(always)]
pub unsafe fn page(buffer: Buffer) -> *mut u8 {
    // SAFETY: a pinned buffer's number is in range of its pool.
    unsafe {
        if buffer > 0 {
            let at = (buffer as usize - 1) * pg_sys::BLCKSZ as usize;
            pg_sys::BufferBlocks.cast::<u8>().add(at)
        } else {
            (*pg_sys::LocalBufferBlockPointers.add((-buffer - 1) as usize)).cast()
        }
    }
}

/// The bits of a line pointer that say where in its page the tuple is, what it is, and that it is of a tuple.
const LP_OFFSET: u32 = 0x7fff;
const LP_FLAGS: u32 = 3 << 15;
const LP_NORMAL: u32 = pg_sys::LP_NORMAL << 15;

/// Where in a page `PageGetItemId` finds a row's line pointer.
pub fn line_pointer(offset: u16) -> usize {
    let within = (offset.max(1) as usize - 1).min(MOST_OFFSET as usize);
    core::mem::offset_of!(pg_sys::PageHeaderData, pd_linp) + within * size_of::<u32>()
}

/// How many line pointers a page has (`PageGetMaxOffsetNumber`).
///
/// # Safety
/// A pinned page, which is locked.
pub unsafe fn line_pointers(page: *const u8) -> usize {
    // SAFETY: a page with the server's header.
    let end = unsafe { (*page.cast::<pg_sys::PageHeaderData>()).pd_lower } as usize;
    end.saturating_sub(line_pointer(1)) / size_of::<u32>()
}

/// Where in a page a row's tuple is, by its line pointer.
///
/// # Safety
/// `page` is a page of a table, or was one.
pub unsafe fn tuple(page: *const u8, offset: u16) -> *const u8 {
    // SAFETY: a line pointer is within its page.
    let place = unsafe { page.add(line_pointer(offset)).cast::<u32>().read_volatile() };
    page.wrapping_add((place & LP_OFFSET) as usize)
}

/// Whether a row has a tuple, by its line pointer.
///
/// # Safety
/// `page` is a locked page of a table.
pub unsafe fn has_tuple(page: *const u8, offset: u16) -> bool {
    // SAFETY: a line pointer is within its page.
    unsafe { page.add(line_pointer(offset)).cast::<u32>().read() & LP_FLAGS == LP_NORMAL }
}

/// Asks the hardware for a shared buffer's header and for bytes of the page in it. It need not be pinned.
pub fn prefetch_page(buffer: Buffer, bytes: impl IntoIterator<Item = usize>) {
    // SAFETY: the server's own arrays, of which addresses are made and nothing is read.
    unsafe {
        simd::prefetch(pg_sys::BufferDescriptors.wrapping_add(buffer as usize - 1).cast());
        let page = page(buffer);
        bytes.into_iter().for_each(|at| simd::prefetch(page.wrapping_add(at)));
    }
}

/// `PageSetLSN`.
///
/// # Safety
/// `page` is an exclusively locked page.
#[inline]
pub unsafe fn set_lsn(page: *mut u8, lsn: XLogRecPtr) {
    // SAFETY: every page starts with its LSN, high half first. At once, because 19 reads it so under no lock.
    unsafe { AtomicU64::from_ptr(page.cast()).store(lsn.rotate_left(32), Ordering::Relaxed) };
}

/// Where a relation is stored.
///
/// # Safety
/// `rel` is open.
#[inline]
pub unsafe fn locator(rel: Relation) -> FileLocator {
    // SAFETY: `rel` is open.
    unsafe {
        #[cfg(feature = "pg15")]
        return (*rel).rd_node;
        #[cfg(not(feature = "pg15"))]
        return (*rel).rd_locator;
    }
}

/// The numbers of a relation's tablespace, database and file.
///
/// # Safety
/// `rel` is open.
pub unsafe fn file_numbers(rel: Relation) -> [u32; 3] {
    // SAFETY: `rel` is open.
    numbers_of(unsafe { locator(rel) })
}

/// The numbers of a tablespace, a database and a file.
pub fn numbers_of(locator: FileLocator) -> [u32; 3] {
    #[cfg(feature = "pg15")]
    return [locator.spcNode, locator.dbNode, locator.relNode].map(Oid::to_u32);
    #[cfg(not(feature = "pg15"))]
    return [locator.spcOid, locator.dbOid, locator.relNumber].map(Oid::to_u32);
}

/// The transaction that wrote a database's row in `pg_database`, frozen or not.
///
/// # Safety
/// Inside a transaction. May raise.
pub unsafe fn database_transaction(database: Oid) -> u32 {
    // SAFETY: what every reader of a catalog's cache does.
    unsafe {
        let cache = pg_sys::SysCacheIdentifier::DATABASEOID as c_int;
        let tuple = ffi::SearchSysCache1(cache, Datum::from(database));
        if tuple.is_null() {
            return 0;
        }
        let transaction = (*(*tuple).t_data).t_choice.t_heap.t_xmin;
        ffi::ReleaseSysCache(tuple);
        transaction.into_inner()
    }
}

/// Whether the session's database has a relation with this number.
///
/// # Safety
/// Inside a transaction, nothing is locked. May raise.
pub unsafe fn exists(relation: Oid) -> bool {
    // SAFETY: a catalog lookup.
    unsafe { is_cached(pg_sys::SysCacheIdentifier::RELOID as c_int, relation) }
}

/// Whether there is a database with this number.
///
/// # Safety
/// As for [`exists`].
pub unsafe fn database_exists(database: Oid) -> bool {
    // SAFETY: a catalog lookup.
    unsafe { is_cached(pg_sys::SysCacheIdentifier::DATABASEOID as c_int, database) }
}

unsafe fn is_cached(cache: c_int, oid: Oid) -> bool {
    let none = Datum::null();
    // SAFETY: what every reader of a catalog's cache does.
    unsafe { ffi::SearchSysCacheExists(cache, Datum::from(oid), none, none, none) }
}

/// `RelationNeedsWAL`.
///
/// # Safety
/// `rel` is open.
#[inline]
pub unsafe fn needs_wal(rel: Relation) -> bool {
    // SAFETY: `rel` is open.
    unsafe {
        #[cfg(feature = "pg15")]
        let first = (*rel).rd_firstRelfilenodeSubid;
        #[cfg(not(feature = "pg15"))]
        let first = (*rel).rd_firstRelfilelocatorSubid;
        let created_here = (*rel).rd_createSubid != INVALID_SUBTRANSACTION;
        let file_is_new = created_here || first != INVALID_SUBTRANSACTION;
        let replicated = pg_sys::wal_level >= pg_sys::WalLevel::WAL_LEVEL_REPLICA as c_int;
        is_permanent(rel) && (replicated || !file_is_new)
    }
}

/// `RelationIsAccessibleInLogicalDecoding`: whether logical decoding reads the table as it was. No table that can have
/// an index of ours is one of the server's own catalogs.
///
/// # Safety
/// `table` is open.
pub unsafe fn is_catalog(table: Relation) -> bool {
    // SAFETY: `table` is open; tables and materialized views have these options, or none.
    unsafe {
        let kind = (*(*table).rd_rel).relkind as u8;
        let options = (*table).rd_options.cast::<pg_sys::StdRdOptions>();
        pg_sys::wal_level >= pg_sys::WalLevel::WAL_LEVEL_LOGICAL as c_int
            && needs_wal(table)
            && matches!(kind, pg_sys::RELKIND_RELATION | pg_sys::RELKIND_MATVIEW)
            && !options.is_null()
            && (*options).user_catalog_table
    }
}

/// `RelationIsPermanent`.
///
/// # Safety
/// `rel` is open.
#[inline]
pub unsafe fn is_permanent(rel: Relation) -> bool {
    // SAFETY: `rel` is open.
    unsafe { (*(*rel).rd_rel).relpersistence as u8 == pg_sys::RELPERSISTENCE_PERMANENT }
}

/// `RELATION_IS_LOCAL`: no other backend can see it.
///
/// # Safety
/// `rel` is open.
#[inline]
pub unsafe fn is_local(rel: Relation) -> bool {
    // SAFETY: `rel` is open.
    unsafe { (*rel).rd_islocaltemp || (*rel).rd_createSubid != INVALID_SUBTRANSACTION }
}

/// `RELATION_IS_OTHER_TEMP`'s opposite: whether it is a temporary relation of this session.
///
/// # Safety
/// `rel` is open.
#[inline]
pub unsafe fn is_temporary(rel: Relation) -> bool {
    // SAFETY: `rel` is open.
    unsafe { (*rel).rd_islocaltemp }
}

/// The relation's statistics, where they are kept.
#[inline]
unsafe fn statistics(rel: Relation) -> Option<&'static mut pg_sys::PgStat_TableStatus> {
    // SAFETY: what pgstat_should_count_relation() does with an open relation.
    unsafe {
        if (*rel).pgstat_info.is_null() && (*rel).pgstat_enabled {
            ffi::pgstat_assoc_relation(rel);
        }
        (*rel).pgstat_info.as_mut()
    }
}

/// Counts a page that was found in memory without `ReadBuffer`, as that would.
///
/// # Safety
/// `rel` is open.
#[inline]
pub unsafe fn count_buffer_hit(rel: Relation) {
    // SAFETY: `rel` is open.
    if let Some(status) = unsafe { statistics(rel) } {
        #[cfg(feature = "pg15")]
        {
            status.t_counts.t_blocks_fetched += 1;
            status.t_counts.t_blocks_hit += 1;
        }
        #[cfg(not(feature = "pg15"))]
        {
            status.counts.blocks_fetched += 1;
            status.counts.blocks_hit += 1;
        }
    }
}

/// Counts the start of an index scan.
///
/// # Safety
/// `rel` is open.
#[inline]
pub unsafe fn count_index_scan(rel: Relation) {
    // SAFETY: `rel` is open.
    if let Some(status) = unsafe { statistics(rel) } {
        #[cfg(feature = "pg15")]
        {
            status.t_counts.t_numscans += 1;
        }
        #[cfg(not(feature = "pg15"))]
        {
            status.counts.numscans += 1;
        }
    }
}

/// Counts matches of an index scan.
///
/// # Safety
/// `rel` is open.
#[inline]
pub unsafe fn count_index_tuples(rel: Relation, count: usize) {
    // SAFETY: `rel` is open.
    if let Some(status) = unsafe { statistics(rel) } {
        #[cfg(feature = "pg15")]
        {
            status.t_counts.t_tuples_returned += count as i64;
        }
        #[cfg(not(feature = "pg15"))]
        {
            status.counts.tuples_returned += count as i64;
        }
    }
}

/// `table_index_build_scan`: calls back for every heap tuple the index must have, of the whole table or of a share in a
/// parallel scan of it, and returns how many heap tuples there were.
///
/// # Safety
/// As `ambuild` is called; `state` is what `callback` expects. May raise, and runs user code.
pub unsafe fn table_index_build_scan(
    heap: Relation,
    index: Relation,
    info: *mut IndexInfo,
    progress: bool,
    callback: IndexBuildCallback,
    state: *mut c_void,
    share: Option<TableScanDesc>,
) -> f64 {
    // SAFETY: the header's inline function; every table method has this callback.
    unsafe {
        let Some(scan) = (*(*heap).rd_tableam).index_build_range_scan else {
            unreachable!("a table access method without index_build_range_scan")
        };
        let share = share.unwrap_or(core::ptr::null_mut());
        scan(heap, index, info, true, false, progress, 0, INVALID_BLOCK, callback, state, share)
    }
}

/// Calls back for every heap tuple in so many pages of a table that the index must have.
///
/// # Safety
/// `info` is a concurrent build's; `state` is what `callback` expects. May raise, and runs user code.
pub unsafe fn table_index_sample_scan(
    heap: Relation,
    index: Relation,
    info: *mut IndexInfo,
    (first, pages): (BlockNumber, BlockNumber),
    callback: IndexBuildCallback,
    state: *mut c_void,
) {
    // SAFETY: the header's inline function; every table method has this callback.
    unsafe {
        let Some(scan) = (*(*heap).rd_tableam).index_build_range_scan else {
            unreachable!("a table access method without index_build_range_scan")
        };
        scan(heap, index, info, false, false, false, first, pages, callback, state, core::ptr::null_mut());
    }
}

/// Calls back for every heap tuple that `snapshot` sees and the index must have.
///
/// # Safety
/// `info` is a concurrent build's; `state` is what `callback` expects. May raise, and runs user code.
pub unsafe fn table_index_check_scan(
    heap: Relation,
    index: Relation,
    info: *mut IndexInfo,
    snapshot: Snapshot,
    callback: IndexBuildCallback,
    state: *mut c_void,
) {
    // SAFETY: the headers' inline functions; every table method has these callbacks. The scan ends in the first.
    unsafe {
        let method = &*(*heap).rd_tableam;
        let (Some(begin), Some(run)) = (method.scan_begin, method.index_build_range_scan) else {
            unreachable!("a table access method without scans")
        };
        let flags = pg_sys::ScanOptions::SO_TYPE_SEQSCAN
            | pg_sys::ScanOptions::SO_ALLOW_STRAT
            | pg_sys::ScanOptions::SO_ALLOW_SYNC;
        let scan = begin(heap, snapshot, 0, core::ptr::null_mut(), core::ptr::null_mut(), flags);
        run(heap, index, info, true, false, false, 0, INVALID_BLOCK, callback, state, scan);
    }
}

/// Adds a page to a relation's file. On return it is pinned and exclusively locked, which it was before anybody else
/// could see it. The lock on the relation's extension is held meanwhile.
///
/// # Safety
/// `rel` is open. May raise.
pub unsafe fn add_locked_page(rel: Relation) -> Buffer {
    let strategy = core::ptr::null_mut();
    // SAFETY: `rel` is open; the extension lock is held while the file grows.
    unsafe {
        #[cfg(feature = "pg15")]
        {
            let lock = pg_sys::ExclusiveLock as LOCKMODE;
            let shared = !is_local(rel);
            if shared {
                ffi::LockRelationForExtension(rel, lock);
            }
            let mode = pg_sys::ReadBufferMode::RBM_ZERO_AND_LOCK;
            let buffer = ffi::ReadBufferExtended(rel, ForkNumber::MAIN_FORKNUM, P_NEW, mode, strategy);
            if shared {
                ffi::UnlockRelationForExtension(rel, lock);
            }
            buffer
        }
        #[cfg(not(feature = "pg15"))]
        {
            let file = pg_sys::BufferManagerRelation { rel, ..Default::default() };
            let flags = pg_sys::ExtendBufferedFlags::EB_LOCK_FIRST;
            ffi::ExtendBufferedRel(file, ForkNumber::MAIN_FORKNUM, strategy, flags)
        }
    }
}

/// Adds a page to an unlogged index's init fork: through shared buffers and always logged, so that it exists after a
/// crash whatever `wal_level` says. The page is pinned and exclusively locked only meanwhile.
///
/// # Safety
/// As `ambuildempty` is called, for an index whose init fork nobody else uses. May raise.
pub unsafe fn add_init_page(index: Relation, bytes: &[u8; pg_sys::BLCKSZ as usize]) {
    // SAFETY: what gistbuildempty() does.
    unsafe {
        let buffer = ffi::ReadBufferExtended(
            index,
            ForkNumber::INIT_FORKNUM,
            P_NEW,
            pg_sys::ReadBufferMode::RBM_NORMAL,
            core::ptr::null_mut(),
        );
        ffi::LockBuffer(buffer, ffi::BUFFER_LOCK_EXCLUSIVE as c_int);
        start_critical_section();
        page(buffer).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        ffi::MarkBufferDirty(buffer);
        ffi::log_newpage_buffer(buffer, true);
        end_critical_section();
        ffi::UnlockReleaseBuffer(buffer);
    }
}

/// Whether snapshots become too old, on the versions where they do.
#[inline]
pub fn old_snapshots_expire() -> bool {
    #[cfg(any(feature = "pg15", feature = "pg16"))]
    // SAFETY: the server's own setting.
    return unsafe { ffi::old_snapshot_threshold >= 0 };
    #[cfg(not(any(feature = "pg15", feature = "pg16")))]
    return false;
}

/// `TestForOldSnapshot`: raises "snapshot too old" on the versions that have it.
///
/// # Safety
/// `page` is a share-locked page of `rel`. May raise.
#[inline]
pub unsafe fn test_for_old_snapshot(snapshot: Snapshot, rel: Relation, lsn: XLogRecPtr) {
    #[cfg(any(feature = "pg15", feature = "pg16"))]
    // SAFETY: the header's inline function.
    unsafe {
        use pg_sys::SnapshotType::{SNAPSHOT_MVCC, SNAPSHOT_TOAST};
        if ffi::old_snapshot_threshold >= 0
            && !snapshot.is_null()
            && matches!((*snapshot).snapshot_type, SNAPSHOT_MVCC | SNAPSHOT_TOAST)
            && (*snapshot).lsn != 0
            && lsn > (*snapshot).lsn
        {
            ffi::TestForOldSnapshot_impl(snapshot, rel);
        }
    }
    #[cfg(not(any(feature = "pg15", feature = "pg16")))]
    let _ = (snapshot, rel, lsn);
}

/// Whether an index-only scan will not look at the block.
pub unsafe fn is_all_visible(heap: Relation, block: BlockNumber, map: &mut Buffer) -> bool {
    // SAFETY: an open table, and a buffer this function pinned or none.
    c_int::from(unsafe { ffi::visibilitymap_get_status(heap, block, map) }) & pg_sys::VISIBILITYMAP_ALL_VISIBLE as c_int
        != 0
}
