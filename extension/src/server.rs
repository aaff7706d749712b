//! The server's functions that are called without pgrx's guard, and the macros of its headers.
//!
//! A guarded call costs a `sigsetjmp` and turns an error that passes through it into another, poorer one. The raw calls
//! here let a server error jump to whoever catches it, so **no frame between a raw call and the server may own a
//! destructor it needs**. Everything on the hot path, everything that waits or runs user code, and everything that
//! raises is declared here; the rest is called through `pgrx::pg_sys`.

use core::ffi::{CStr, c_char, c_int, c_long, c_void};
use core::fmt;

use pgrx::pg_sys::{
    self, BlockNumber, Buffer, Datum, FmgrInfo, ForkNumber, IndexBuildCallback, IndexInfo, LOCKMODE, Oid, Relation,
    Size, Snapshot, TableScanDesc, XLogRecPtr,
};
use pgrx::{PgLogLevel, PgSqlErrorCode};

use fpbtree_engine::simd;

/// Which file a relation is stored in.
#[cfg(feature = "pg15")]
pub type FileLocator = pg_sys::RelFileNode;
/// Which file a relation is stored in.
#[cfg(not(feature = "pg15"))]
pub type FileLocator = pg_sys::RelFileLocator;

/// The block number that asks for a new page at the end of the file.
pub const P_NEW: BlockNumber = BlockNumber::MAX;
/// No block.
pub const INVALID_BLOCK: BlockNumber = BlockNumber::MAX;
/// No buffer.
pub const INVALID_BUFFER: Buffer = 0;

/// No subtransaction.
const INVALID_SUBTRANSACTION: pg_sys::SubTransactionId = 0;

/// The server's functions, unguarded.
pub mod raw {
    use super::*;

    #[allow(missing_docs)]
    unsafe extern "C-unwind" {
        // Buffers.
        pub fn ReadBuffer(rel: Relation, block: BlockNumber) -> Buffer;
        pub fn ReadBufferExtended(
            rel: Relation,
            fork: ForkNumber::Type,
            block: BlockNumber,
            mode: pg_sys::ReadBufferMode::Type,
            strategy: pg_sys::BufferAccessStrategy,
        ) -> Buffer;
        pub fn ReadRecentBuffer(
            locator: FileLocator,
            fork: ForkNumber::Type,
            block: BlockNumber,
            recent: Buffer,
        ) -> bool;
        #[cfg(not(feature = "pg15"))]
        pub fn ExtendBufferedRel(
            file: pg_sys::BufferManagerRelation,
            fork: ForkNumber::Type,
            strategy: pg_sys::BufferAccessStrategy,
            flags: u32,
        ) -> Buffer;
        #[cfg(not(feature = "pg15"))]
        pub fn ExtendBufferedRelBy(
            file: pg_sys::BufferManagerRelation,
            fork: ForkNumber::Type,
            strategy: pg_sys::BufferAccessStrategy,
            flags: u32,
            most: u32,
            buffers: *mut Buffer,
            count: *mut u32,
        ) -> BlockNumber;
        pub fn ReleaseBuffer(buffer: Buffer);
        pub fn UnlockReleaseBuffer(buffer: Buffer);
        pub fn LockBuffer(buffer: Buffer, mode: c_int);
        pub fn LockBufferForCleanup(buffer: Buffer);
        pub fn ConditionalLockBuffer(buffer: Buffer) -> bool;
        pub fn MarkBufferDirty(buffer: Buffer);
        pub fn MarkBufferDirtyHint(buffer: Buffer, standard: bool);
        pub fn BufferGetBlockNumber(buffer: Buffer) -> BlockNumber;
        pub fn BufferGetLSNAtomic(buffer: Buffer) -> XLogRecPtr;

        // The file and its free space map.
        pub fn RelationGetNumberOfBlocksInFork(rel: Relation, fork: ForkNumber::Type) -> BlockNumber;
        pub fn LockRelationForExtension(rel: Relation, mode: LOCKMODE);
        pub fn UnlockRelationForExtension(rel: Relation, mode: LOCKMODE);
        pub fn GetFreeIndexPage(rel: Relation) -> BlockNumber;
        pub fn RecordFreeIndexPage(rel: Relation, block: BlockNumber);
        pub fn IndexFreeSpaceMapVacuum(rel: Relation);
        pub fn RelationTruncate(rel: Relation, blocks: BlockNumber);
        pub fn ConditionalLockRelation(rel: Relation, mode: LOCKMODE) -> bool;
        pub fn LockHasWaitersRelation(rel: Relation, mode: LOCKMODE) -> bool;
        pub fn UnlockRelation(rel: Relation, mode: LOCKMODE);

        // The log.
        pub fn XLogBeginInsert();
        pub fn XLogRegisterBuffer(id: u8, buffer: Buffer, flags: u8);
        pub fn XLogRegisterBufData(id: u8, data: *const c_void, length: u32);
        pub fn XLogInsert(manager: u8, info: u8) -> XLogRecPtr;
        pub fn RegisterCustomRmgr(manager: u8, data: *mut pg_sys::RmgrData);
        pub fn XLogRecGetBlockData(record: *mut pg_sys::XLogReaderState, id: u8, length: *mut Size) -> *mut c_char;
        pub fn XLogReadBufferForRedoExtended(
            record: *mut pg_sys::XLogReaderState,
            id: u8,
            mode: pg_sys::ReadBufferMode::Type,
            cleanup: bool,
            buffer: *mut Buffer,
        ) -> pg_sys::XLogRedoAction::Type;
        #[cfg(feature = "pg15")]
        fn ResolveRecoveryConflictWithSnapshot(horizon: pg_sys::TransactionId, locator: FileLocator);
        #[cfg(not(feature = "pg15"))]
        fn ResolveRecoveryConflictWithSnapshot(horizon: pg_sys::TransactionId, is_catalog: bool, locator: FileLocator);
        pub fn ReadNextFullTransactionId() -> pg_sys::FullTransactionId;
        pub fn GlobalVisCheckRemovableFullXid(rel: Relation, time: pg_sys::FullTransactionId) -> bool;
        pub fn gistGetFakeLSN(rel: Relation) -> XLogRecPtr;
        pub static wal_consistency_checking: *const bool;
        pub fn log_newpage_buffer(buffer: Buffer, standard: bool) -> XLogRecPtr;
        pub fn log_newpage_range(
            rel: Relation,
            fork: ForkNumber::Type,
            start: BlockNumber,
            end: BlockNumber,
            standard: bool,
        );

        // Predicate locks.
        pub fn PredicateLockPage(rel: Relation, block: BlockNumber, snapshot: Snapshot);
        pub fn PredicateLockPageSplit(rel: Relation, old: BlockNumber, new: BlockNumber);
        pub fn PredicateLockPageCombine(rel: Relation, old: BlockNumber, new: BlockNumber);
        pub fn CheckForSerializableConflictIn(rel: Relation, tid: *mut pg_sys::ItemPointerData, block: BlockNumber);

        // Interrupts, delays, statistics, old snapshots.
        pub fn ProcessInterrupts();
        #[cfg(not(feature = "pg18"))]
        fn vacuum_delay_point();
        #[cfg(feature = "pg18")]
        fn vacuum_delay_point(is_analyze: bool);
        pub fn pgstat_assoc_relation(rel: Relation);
        #[cfg(any(feature = "pg15", feature = "pg16"))]
        pub static mut old_snapshot_threshold: c_int;
        #[cfg(any(feature = "pg15", feature = "pg16"))]
        pub fn TestForOldSnapshot_impl(snapshot: Snapshot, rel: Relation);

        // Errors.
        fn errstart(level: c_int, domain: *const c_char) -> bool;
        fn errcode(sqlstate: c_int) -> c_int;
        fn errmsg(format: *const c_char, ...) -> c_int;
        fn errdetail(format: *const c_char, ...) -> c_int;
        fn errhint(format: *const c_char, ...) -> c_int;
        fn errtableconstraint(table: Relation, constraint: *const c_char) -> c_int;
        fn errfinish(file: *const c_char, line: c_int, function: *const c_char);

        pub fn ReindexIsProcessingIndex(index: Oid) -> bool;

        // Uniqueness.
        pub fn BuildIndexValueDescription(rel: Relation, values: *const Datum, nulls: *const bool) -> *mut c_char;
        pub fn XactLockTableWait(
            transaction: pg_sys::TransactionId,
            rel: Relation,
            tid: *const pg_sys::ItemPointerData,
            operation: pg_sys::XLTW_Oper::Type,
        );
        pub fn SpeculativeInsertionWait(transaction: pg_sys::TransactionId, token: u32);
        pub fn table_index_fetch_tuple_check(
            table: Relation,
            tid: *mut pg_sys::ItemPointerData,
            snapshot: Snapshot,
            all_dead: *mut bool,
        ) -> bool;

        // Waiting for other processes.
        pub fn ConditionVariableSleep(variable: *mut pg_sys::ConditionVariable, wait_event: u32);
        pub fn WaitLatch(latch: *mut pg_sys::Latch, events: c_int, timeout: c_long, wait_event: u32) -> c_int;
        pub fn ResetLatch(latch: *mut pg_sys::Latch);

        // Memory and functions.
        pub fn AllocSetContextCreateInternal(
            parent: pg_sys::MemoryContext,
            name: *const c_char,
            least: Size,
            first: Size,
            most: Size,
        ) -> pg_sys::MemoryContext;
        pub fn MemoryContextAlloc(context: pg_sys::MemoryContext, size: Size) -> *mut c_void;
        pub fn MemoryContextAllocExtended(context: pg_sys::MemoryContext, size: Size, flags: c_int) -> *mut c_void;
        pub fn palloc(size: Size) -> *mut c_void;
        pub fn palloc0(size: Size) -> *mut c_void;
        pub fn repalloc_huge(pointer: *mut c_void, size: Size) -> *mut c_void;
        pub fn pfree(pointer: *mut c_void);
        pub fn fmgr_info_cxt(function: Oid, info: *mut FmgrInfo, context: pg_sys::MemoryContext);
        pub fn FunctionCall2Coll(info: *mut FmgrInfo, collation: Oid, first: Datum, second: Datum) -> Datum;
        pub fn SearchSysCache1(cache: c_int, key: Datum) -> pg_sys::HeapTuple;
        pub fn SysCacheGetAttr(cache: c_int, tuple: pg_sys::HeapTuple, attribute: i16, is_null: *mut bool) -> Datum;
        pub fn ReleaseSysCache(tuple: pg_sys::HeapTuple);
        pub fn get_collation_isdeterministic(collation: Oid) -> bool;
        pub fn get_opfamily_proc(family: Oid, left: Oid, right: Oid, number: i16) -> Oid;
        pub fn index_getprocinfo(rel: Relation, column: i16, number: u16) -> *mut FmgrInfo;
        pub fn pg_detoast_datum(value: *mut pg_sys::varlena) -> *mut pg_sys::varlena;
        pub fn get_typlenbyvalalign(ty: Oid, length: *mut i16, by_value: *mut bool, align: *mut c_char);
        pub fn deconstruct_array(
            array: *mut pg_sys::ArrayType,
            element: Oid,
            length: c_int,
            by_value: bool,
            align: c_char,
            values: *mut *mut Datum,
            nulls: *mut *mut bool,
            count: *mut c_int,
        );
        pub fn tbm_add_tuples(
            bitmap: *mut pg_sys::TIDBitmap,
            tids: *mut pg_sys::ItemPointerData,
            count: c_int,
            recheck: bool,
        );
        pub fn RelationGetIndexScan(rel: Relation, keys: c_int, order_bys: c_int) -> pg_sys::IndexScanDesc;
        pub fn table_open(relation: Oid, mode: LOCKMODE) -> Relation;
        pub fn table_close(relation: Relation, mode: LOCKMODE);
        pub fn index_open(index: Oid, mode: LOCKMODE) -> Relation;
        pub fn index_close(rel: Relation, mode: LOCKMODE);
        pub fn build_reloptions(
            reloptions: Datum,
            validate: bool,
            kind: pg_sys::relopt_kind::Type,
            size: Size,
            elements: *const pg_sys::relopt_parse_elt,
            count: c_int,
        ) -> *mut c_void;

        // btree's own, where it says the same of us.
        pub fn btcostestimate(
            root: *mut pg_sys::PlannerInfo,
            path: *mut pg_sys::IndexPath,
            loop_count: f64,
            startup_cost: *mut pg_sys::Cost,
            total_cost: *mut pg_sys::Cost,
            selectivity: *mut pg_sys::Selectivity,
            correlation: *mut f64,
            pages: *mut f64,
        );
        pub fn btvalidate(class: Oid) -> bool;
        pub fn btadjustmembers(family: Oid, class: Oid, operators: *mut pg_sys::List, functions: *mut pg_sys::List);
        #[cfg(feature = "pg18")]
        pub fn bttranslatestrategy(strategy: pg_sys::StrategyNumber, family: Oid) -> pg_sys::CompareType::Type;
        #[cfg(feature = "pg18")]
        pub fn bttranslatecmptype(compare: pg_sys::CompareType::Type, family: Oid) -> pg_sys::StrategyNumber;
    }

    /// Waits for, or cancels, a standby's readers that are as old as `horizon`, and where `is_catalog` its logical
    /// decoding.
    ///
    /// # Safety
    /// In redo, with nothing locked.
    pub unsafe fn resolve_conflict(horizon: u32, is_catalog: bool, locator: FileLocator) {
        let horizon = pg_sys::TransactionId::from(horizon);
        // SAFETY: the server's function, with its signature of this version.
        unsafe {
            #[cfg(feature = "pg15")]
            let _ = is_catalog;
            #[cfg(feature = "pg15")]
            ResolveRecoveryConflictWithSnapshot(horizon, locator);
            #[cfg(not(feature = "pg15"))]
            ResolveRecoveryConflictWithSnapshot(horizon, is_catalog, locator);
        }
    }

    /// What VACUUM does between two pages: a cancel, or its cost-based sleep.
    ///
    /// # Safety
    /// No content lock is held. May raise.
    #[inline]
    pub unsafe fn delay_vacuum() {
        // SAFETY: the server's function, with its signature of this version.
        unsafe {
            #[cfg(not(feature = "pg18"))]
            vacuum_delay_point();
            #[cfg(feature = "pg18")]
            vacuum_delay_point(false);
        }
    }

    /// Starts, fills and finishes a report. All texts are C strings, which the server copies.
    pub(super) unsafe fn report(
        level: c_int,
        sqlstate: c_int,
        texts: [Option<&CStr>; 3],
        constraint: Option<(Relation, &CStr)>,
    ) {
        const FORMAT: *const c_char = c"%s".as_ptr();
        let [message, detail, hint] = texts;
        // SAFETY: the order ereport() makes these calls in, and one string for each "%s".
        unsafe {
            if !errstart(level, core::ptr::null()) {
                return;
            }
            errcode(sqlstate);
            if let Some(text) = message {
                errmsg(FORMAT, text.as_ptr());
            }
            if let Some(text) = detail {
                errdetail(FORMAT, text.as_ptr());
            }
            if let Some(text) = hint {
                errhint(FORMAT, text.as_ptr());
            }
            if let Some((table, name)) = constraint {
                errtableconstraint(table, name.as_ptr());
            }
            errfinish(c"fpbtree".as_ptr(), 0, c"fpbtree".as_ptr());
        }
    }
}

/// A line of a report, on the stack so that raising it leaves nothing behind. Longer text is cut.
pub struct Text {
    bytes: [u8; 512],
    length: usize,
}

impl Text {
    /// Writes the text of `format_args!`.
    pub fn new(text: fmt::Arguments<'_>) -> Text {
        let mut made = Text { bytes: [0; 512], length: 0 };
        // Cutting a long text is the only failure.
        let _ = fmt::write(&mut made, text);
        made
    }

    /// The text, as the server takes it.
    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }
}

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.bytes.len() - 1 - self.length;
        let cut = text.floor_char_boundary(room);
        self.bytes[self.length..self.length + cut].copy_from_slice(&text.as_bytes()[..cut]);
        self.length += cut;
        if cut == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

/// A relation's name in a report.
pub struct Name(pub Relation);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: an open relation has a name.
        NameText(unsafe { &(*(*self.0).rd_rel).relname }).fmt(f)
    }
}

/// A name in a report. Bytes that are not UTF-8 (another server encoding) show as `?`.
pub struct NameText<'a>(pub &'a pg_sys::NameData);

impl fmt::Display for NameText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: the server's names end with a NUL.
        let name = unsafe { CStr::from_ptr(self.0.data.as_ptr()) };
        for chunk in name.to_bytes().utf8_chunks() {
            f.write_str(chunk.valid())?;
            if !chunk.invalid().is_empty() {
                f.write_str("?")?;
            }
        }
        Ok(())
    }
}

/// Raises a report that is less than an error: it returns.
pub fn report(
    level: PgLogLevel,
    sqlstate: PgSqlErrorCode,
    message: fmt::Arguments<'_>,
    detail: Option<fmt::Arguments<'_>>,
    hint: Option<fmt::Arguments<'_>>,
) {
    let texts = [Some(message), detail, hint].map(|text| text.map(Text::new));
    let texts = texts.each_ref().map(|text| text.as_ref().map(Text::as_c_str));
    // SAFETY: the texts live on this frame's stack, which owns no destructor should the report jump.
    unsafe { raw::report(level as c_int, sqlstate as c_int, texts, None) };
}

/// Raises an error. The server jumps away: callers own no destructors.
#[cold]
pub fn raise(
    sqlstate: PgSqlErrorCode,
    message: fmt::Arguments<'_>,
    detail: Option<fmt::Arguments<'_>>,
    hint: Option<fmt::Arguments<'_>>,
) -> ! {
    report(PgLogLevel::ERROR, sqlstate, message, detail, hint);
    unreachable!("an error was raised and returned")
}

/// Raises an error about an index of a table, named as its constraint. `detail` is the server's text, or null.
///
/// # Safety
/// Both relations are open, the texts C strings (`detail` may be null).
pub unsafe fn raise_constraint(
    sqlstate: PgSqlErrorCode,
    message: fmt::Arguments<'_>,
    detail: *const c_char,
    hint: Option<&CStr>,
    table: Relation,
    index: Relation,
) -> ! {
    let message = Text::new(message);
    // SAFETY: by this function's contract.
    unsafe {
        let detail = if detail.is_null() { None } else { Some(CStr::from_ptr(detail)) };
        let name = CStr::from_ptr((*(*index).rd_rel).relname.data.as_ptr());
        let texts = [Some(message.as_c_str()), detail, hint];
        raw::report(PgLogLevel::ERROR as c_int, sqlstate as c_int, texts, Some((table, name)));
    }
    unreachable!("an error was raised and returned")
}

/// `CHECK_FOR_INTERRUPTS`.
#[inline]
pub fn check_for_interrupts() {
    // SAFETY: a flag that signal handlers set, read as the server reads it; no content lock is held by the rule of
    // every caller.
    unsafe {
        if (&raw const pg_sys::InterruptPending).read_volatile() != 0 {
            raw::ProcessInterrupts();
        }
    }
}

/// Waits so many milliseconds, or less if there is something to attend to.
pub fn sleep(milliseconds: i64, wait_event: u32) {
    let events = pg_sys::WL_LATCH_SET | pg_sys::WL_TIMEOUT | pg_sys::WL_EXIT_ON_PM_DEATH;
    // SAFETY: this process's own latch.
    unsafe {
        raw::WaitLatch(pg_sys::MyLatch, events as c_int, milliseconds, wait_event);
        raw::ResetLatch(pg_sys::MyLatch);
    }
    check_for_interrupts();
}

/// Whether VACUUM may make the file of an index shorter: not where the table's files keep their length, and not with a parallel
/// VACUUM, which cannot take a transaction id for the lock.
///
/// # Safety
/// An open index whose table is locked.
pub unsafe fn may_truncate(rel: Relation) -> bool {
    // SAFETY: by this function's contract. A table's options, if it has any, are the server's own.
    unsafe {
        let table = raw::table_open((*(*rel).rd_index).indrelid, pg_sys::NoLock as LOCKMODE);
        let options = (*table).rd_options.cast::<pg_sys::StdRdOptions>();
        let is_wanted = truncation_is_wanted(options.as_ref());
        raw::table_close(table, pg_sys::NoLock as LOCKMODE);
        is_wanted && !pg_sys::IsInParallelMode() && !old_snapshots_expire()
    }
}

#[cfg(not(feature = "pg18"))]
fn truncation_is_wanted(options: Option<&pg_sys::StdRdOptions>) -> bool {
    options.is_none_or(|options| options.vacuum_truncate)
}

#[cfg(feature = "pg18")]
fn truncation_is_wanted(options: Option<&pg_sys::StdRdOptions>) -> bool {
    let given = options.filter(|options| options.vacuum_truncate_set).map(|options| options.vacuum_truncate);
    // SAFETY: the server's own setting.
    given.unwrap_or(unsafe { pg_sys::vacuum_truncate })
}

/// Whether redo compares pages with those that generic records left (`wal_consistency_checking`). It cannot tell hint
/// bits, which are not logged, from damage: they are not set then.
#[inline]
pub fn generic_records_are_compared() -> bool {
    // SAFETY: the server's own setting, an array with an element for each resource manager once it has started.
    unsafe {
        let compared = raw::wal_consistency_checking;
        !compared.is_null() && *compared.add(pg_sys::RmgrIds::RM_GENERIC_ID as usize)
    }
}

/// `START_CRIT_SECTION`: from here to the end nothing may fail.
#[inline]
pub fn start_critical_section() {
    // SAFETY: the server's own counter, of one thread.
    unsafe { pg_sys::CritSectionCount += 1 };
}

/// `END_CRIT_SECTION`.
#[inline]
pub fn end_critical_section() {
    // SAFETY: the server's own counter, of one thread.
    unsafe { pg_sys::CritSectionCount -= 1 };
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

/// Asks the hardware for a shared buffer's header and for bytes of the page in it. It need not be pinned.
pub fn expect_page(buffer: Buffer, bytes: impl IntoIterator<Item = usize>) {
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
    // SAFETY: every page starts with its LSN, high half first.
    unsafe { page.cast::<[u32; 2]>().write([(lsn >> 32) as u32, lsn as u32]) };
}

/// Where a relation is stored.
///
/// # Safety
/// `rel` is open.
#[inline]
pub unsafe fn locator(rel: Relation) -> FileLocator {
    // SAFETY: by this function's contract.
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
    // SAFETY: by this function's contract.
    let locator = unsafe { locator(rel) };
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
        let tuple = raw::SearchSysCache1(cache, Datum::from(database));
        if tuple.is_null() {
            return 0;
        }
        let transaction = (*(*tuple).t_data).t_choice.t_heap.t_xmin;
        raw::ReleaseSysCache(tuple);
        transaction.into_inner()
    }
}

/// `RelationNeedsWAL`.
///
/// # Safety
/// `rel` is open.
#[inline]
pub unsafe fn needs_wal(rel: Relation) -> bool {
    // SAFETY: by this function's contract.
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
    // SAFETY: by this function's contract; tables and materialized views have these options, or none.
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
    // SAFETY: by this function's contract.
    unsafe { (*(*rel).rd_rel).relpersistence as u8 == pg_sys::RELPERSISTENCE_PERMANENT }
}

/// `RELATION_IS_LOCAL`: no other backend can see it.
///
/// # Safety
/// `rel` is open.
#[inline]
pub unsafe fn is_local(rel: Relation) -> bool {
    // SAFETY: by this function's contract.
    unsafe { (*rel).rd_islocaltemp || (*rel).rd_createSubid != INVALID_SUBTRANSACTION }
}

/// `RELATION_IS_OTHER_TEMP`'s opposite: whether it is a temporary relation of this session.
///
/// # Safety
/// `rel` is open.
#[inline]
pub unsafe fn is_temporary(rel: Relation) -> bool {
    // SAFETY: by this function's contract.
    unsafe { (*rel).rd_islocaltemp }
}

/// The relation's statistics, where they are kept.
#[inline]
unsafe fn statistics(rel: Relation) -> Option<&'static mut pg_sys::PgStat_TableStatus> {
    // SAFETY: what pgstat_should_count_relation() does with an open relation.
    unsafe {
        if (*rel).pgstat_info.is_null() && (*rel).pgstat_enabled {
            raw::pgstat_assoc_relation(rel);
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
    // SAFETY: by this function's contract.
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
    // SAFETY: by this function's contract.
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

/// Adds a page to a relation's file; it is pinned, and exclusively locked before anybody else can see it.
///
/// # Safety
/// `rel` is open. May raise.
pub unsafe fn add_locked_page(rel: Relation) -> Buffer {
    let strategy = core::ptr::null_mut();
    // SAFETY: by this function's contract; the extension lock is held while the file grows.
    unsafe {
        #[cfg(feature = "pg15")]
        {
            let lock = pg_sys::ExclusiveLock as LOCKMODE;
            let shared = !is_local(rel);
            if shared {
                raw::LockRelationForExtension(rel, lock);
            }
            let mode = pg_sys::ReadBufferMode::RBM_ZERO_AND_LOCK;
            let buffer = raw::ReadBufferExtended(rel, ForkNumber::MAIN_FORKNUM, P_NEW, mode, strategy);
            if shared {
                raw::UnlockRelationForExtension(rel, lock);
            }
            buffer
        }
        #[cfg(not(feature = "pg15"))]
        {
            let file = pg_sys::BufferManagerRelation { rel, ..Default::default() };
            let flags = pg_sys::ExtendBufferedFlags::EB_LOCK_FIRST;
            raw::ExtendBufferedRel(file, ForkNumber::MAIN_FORKNUM, strategy, flags)
        }
    }
}

/// Adds a page to an unlogged index's init fork: through shared buffers and always logged, so that it exists after a
/// crash whatever `wal_level` says.
///
/// # Safety
/// As `ambuildempty` is called, for an index whose init fork nobody else uses. May raise.
pub unsafe fn add_init_page(index: Relation, bytes: &[u8; pg_sys::BLCKSZ as usize]) {
    // SAFETY: what gistbuildempty() does.
    unsafe {
        let buffer = raw::ReadBufferExtended(
            index,
            ForkNumber::INIT_FORKNUM,
            P_NEW,
            pg_sys::ReadBufferMode::RBM_NORMAL,
            core::ptr::null_mut(),
        );
        raw::LockBuffer(buffer, pg_sys::BUFFER_LOCK_EXCLUSIVE as c_int);
        start_critical_section();
        page(buffer).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        raw::MarkBufferDirty(buffer);
        raw::log_newpage_buffer(buffer, true);
        end_critical_section();
        raw::UnlockReleaseBuffer(buffer);
    }
}

/// Whether snapshots become too old, on the versions where they do.
#[inline]
pub fn old_snapshots_expire() -> bool {
    #[cfg(any(feature = "pg15", feature = "pg16"))]
    // SAFETY: the server's own setting.
    return unsafe { raw::old_snapshot_threshold >= 0 };
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
        if raw::old_snapshot_threshold >= 0
            && !snapshot.is_null()
            && matches!((*snapshot).snapshot_type, SNAPSHOT_MVCC | SNAPSHOT_TOAST)
            && (*snapshot).lsn != 0
            && lsn > (*snapshot).lsn
        {
            raw::TestForOldSnapshot_impl(snapshot, rel);
        }
    }
    #[cfg(not(any(feature = "pg15", feature = "pg16")))]
    let _ = (snapshot, rel, lsn);
}
