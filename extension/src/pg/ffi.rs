//! The server's functions that are called without pgrx's guard.
//!
//! A guarded call costs a `sigsetjmp` and turns an error that passes through it into another, poorer one. The raw calls
//! here let a server error jump to whoever catches it, so **no frame between a raw call and the server may own a
//! destructor it needs**. Everything on the hot path, everything that waits or runs user code, and everything that
//! raises is declared here; the rest is called through `pgrx::pg_sys`.

use core::ffi::{c_char, c_int, c_long, c_void};

use pgrx::pg_sys::{self, *};

#[cfg(feature = "pg19")]
mod since_19;

#[cfg(feature = "pg19")]
pub use since_19::{
    BUFFER_LOCK_EXCLUSIVE, BUFFER_LOCK_SHARE, BUFFER_LOCK_UNLOCK, DefineIndex, LockBuffer, NodeInstrumentation,
    scan_flags, set_hints, standard_planner, table_beginscan_parallel,
};

/// Which file a relation is stored in.
#[cfg(feature = "pg15")]
pub type FileLocator = pg_sys::RelFileNode;
/// Which file a relation is stored in.
#[cfg(not(feature = "pg15"))]
pub type FileLocator = pg_sys::RelFileLocator;

/// What EXPLAIN (ANALYZE) measures of a node.
#[cfg(not(feature = "pg19"))]
pub type NodeInstrumentation = pg_sys::Instrumentation;

/// How a buffer is locked.
#[cfg(not(feature = "pg19"))]
pub use pg_sys::{BUFFER_LOCK_EXCLUSIVE, BUFFER_LOCK_SHARE, BUFFER_LOCK_UNLOCK};

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
    pub fn ReadRecentBuffer(locator: FileLocator, fork: ForkNumber::Type, block: BlockNumber, recent: Buffer) -> bool;
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
    pub fn heap_hot_search_buffer(
        tid: *mut pg_sys::ItemPointerData,
        table: Relation,
        buffer: Buffer,
        snapshot: pg_sys::Snapshot,
        tuple: *mut pg_sys::HeapTupleData,
        all_dead: *mut bool,
        first_call: bool,
    ) -> bool;
    pub fn UnlockReleaseBuffer(buffer: Buffer);
    #[cfg(not(feature = "pg19"))]
    pub fn LockBuffer(buffer: Buffer, mode: c_int);
    pub fn LockBufferForCleanup(buffer: Buffer);
    pub fn ConditionalLockBuffer(buffer: Buffer) -> bool;
    pub fn ConditionalLockBufferForCleanup(buffer: Buffer) -> bool;
    pub fn MarkBufferDirty(buffer: Buffer);
    #[cfg(not(feature = "pg19"))]
    pub fn MarkBufferDirtyHint(buffer: Buffer, standard: bool);
    pub fn BufferGetBlockNumber(buffer: Buffer) -> BlockNumber;
    pub fn BufferGetLSNAtomic(buffer: Buffer) -> XLogRecPtr;

    // The file and its free space map.
    pub fn RelationGetNumberOfBlocksInFork(rel: Relation, fork: ForkNumber::Type) -> BlockNumber;
    #[cfg(feature = "pg15")]
    pub fn LockRelationForExtension(rel: Relation, mode: LOCKMODE);
    #[cfg(feature = "pg15")]
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
    pub fn ResolveRecoveryConflictWithSnapshot(horizon: pg_sys::TransactionId, locator: FileLocator);
    #[cfg(not(feature = "pg15"))]
    pub fn ResolveRecoveryConflictWithSnapshot(horizon: pg_sys::TransactionId, is_catalog: bool, locator: FileLocator);
    pub fn ReadNextFullTransactionId() -> pg_sys::FullTransactionId;
    pub fn GlobalVisCheckRemovableFullXid(rel: Relation, time: pg_sys::FullTransactionId) -> bool;
    #[cfg_attr(feature = "pg19", link_name = "XLogGetFakeLSN")]
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

    // Queries and transactions.
    pub fn RegisterXactCallback(callback: pg_sys::XactCallback, arg: *mut c_void);
    pub fn RegisterSubXactCallback(callback: pg_sys::SubXactCallback, arg: *mut c_void);
    pub fn standard_ExecutorStart(query: *mut pg_sys::QueryDesc, flags: c_int);

    // Interrupts, delays, statistics, old snapshots.
    pub fn ProcessInterrupts();
    #[cfg(not(feature = "since_18"))]
    pub fn vacuum_delay_point();
    #[cfg(feature = "since_18")]
    pub fn vacuum_delay_point(is_analyze: bool);
    pub fn pgstat_assoc_relation(rel: Relation);
    #[cfg(any(feature = "pg15", feature = "pg16"))]
    pub static mut old_snapshot_threshold: c_int;
    #[cfg(any(feature = "pg15", feature = "pg16"))]
    pub fn TestForOldSnapshot_impl(snapshot: Snapshot, rel: Relation);

    // Errors.
    pub fn errstart(level: c_int, domain: *const c_char) -> bool;
    pub fn errcode(sqlstate: c_int) -> c_int;
    pub fn errmsg(format: *const c_char, ...) -> c_int;
    pub fn errdetail(format: *const c_char, ...) -> c_int;
    pub fn errhint(format: *const c_char, ...) -> c_int;
    pub fn errtableconstraint(table: Relation, constraint: *const c_char) -> c_int;
    pub fn errfinish(file: *const c_char, line: c_int, function: *const c_char);

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
    pub fn SearchSysCacheExists(cache: c_int, key: Datum, second: Datum, third: Datum, fourth: Datum) -> bool;
    pub fn SysCacheGetAttr(cache: c_int, tuple: pg_sys::HeapTuple, attribute: i16, is_null: *mut bool) -> Datum;
    pub fn ReleaseSysCache(tuple: pg_sys::HeapTuple);
    pub fn get_collation_isdeterministic(collation: Oid) -> bool;
    pub fn PrepareSortSupportFromOrderingOp(operator: Oid, support: *mut pg_sys::SortSupportData);
    pub fn datumGetSize(value: Datum, is_by_value: bool, length: c_int) -> Size;
    pub fn getBaseType(ty: Oid) -> Oid;
    pub fn get_element_type(ty: Oid) -> Oid;
    pub fn lookup_type_cache(ty: Oid, flags: c_int) -> *mut pg_sys::TypeCacheEntry;
    pub fn get_opfamily_proc(family: Oid, left: Oid, right: Oid, number: i16) -> Oid;
    pub fn index_getprocinfo(rel: Relation, column: i16, number: u16) -> *mut FmgrInfo;
    pub fn pg_detoast_datum(value: *mut pg_sys::varlena) -> *mut pg_sys::varlena;
    pub fn toast_compress_datum(value: Datum, method: c_char) -> Datum;
    pub fn get_typlen(ty: Oid) -> i16;
    pub fn get_typlenbyvalalign(ty: Oid, length: *mut i16, by_value: *mut bool, align: *mut c_char);
    pub fn construct_array(
        values: *mut Datum,
        count: c_int,
        element: Oid,
        length: c_int,
        by_value: bool,
        align: c_char,
    ) -> *mut pg_sys::ArrayType;
    pub fn construct_md_array(
        values: *mut Datum,
        nulls: *mut bool,
        dimensions: c_int,
        lengths: *mut c_int,
        lower_bounds: *mut c_int,
        element: Oid,
        length: c_int,
        by_value: bool,
        align: c_char,
    ) -> *mut pg_sys::ArrayType;
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
    #[cfg(feature = "since_18")]
    pub fn bttranslatestrategy(strategy: pg_sys::StrategyNumber, family: Oid) -> pg_sys::CompareType::Type;
    #[cfg(feature = "since_18")]
    pub fn bttranslatecmptype(compare: pg_sys::CompareType::Type, family: Oid) -> pg_sys::StrategyNumber;
    pub fn estimate_num_groups(
        root: *mut PlannerInfo,
        expressions: *mut List,
        rows: f64,
        sets: *mut *mut List,
        info: *mut EstimationInfo,
    ) -> f64;
    pub fn clauselist_selectivity(
        root: *mut PlannerInfo,
        clauses: *mut List,
        relid: c_int,
        join: JoinType::Type,
        special: *mut SpecialJoinInfo,
    ) -> Selectivity;
    #[cfg(any(feature = "pg15", feature = "pg16"))]
    pub fn estimate_array_length(array: *mut Node) -> c_int;
    #[cfg(not(any(feature = "pg15", feature = "pg16")))]
    pub fn estimate_array_length(root: *mut PlannerInfo, array: *mut Node) -> f64;
    pub fn get_op_opfamily_strategy(operator: Oid, family: Oid) -> c_int;
    pub fn get_tablespace_page_costs(tablespace: Oid, random: *mut f64, sequential: *mut f64);
    pub fn index_pages_fetched(fetched: f64, pages: BlockNumber, all_pages: f64, root: *mut PlannerInfo) -> f64;
    pub fn lappend(list: *mut List, member: *mut core::ffi::c_void) -> *mut List;
    pub fn visibilitymap_get_status(rel: Relation, block: BlockNumber, buffer: *mut Buffer) -> u8;
    pub fn MemoryContextReset(context: pg_sys::MemoryContext);
    pub fn MemoryContextDelete(context: pg_sys::MemoryContext);
    pub fn MemoryContextSetParent(context: pg_sys::MemoryContext, parent: pg_sys::MemoryContext);
    pub fn MemoryContextRegisterResetCallback(
        context: pg_sys::MemoryContext,
        callback: *mut pg_sys::MemoryContextCallback,
    );
    pub fn CacheRegisterSyscacheCallback(cache: c_int, callback: pg_sys::SyscacheCallbackFunction, arg: Datum);
    pub fn SearchSysCacheList(
        cache: c_int,
        keys: c_int,
        first: Datum,
        second: Datum,
        third: Datum,
    ) -> *mut pg_sys::catclist;
    pub fn ReleaseCatCacheList(list: *mut pg_sys::catclist);
    pub fn get_opfamily_member(family: Oid, left: Oid, right: Oid, strategy: i16) -> Oid;
    pub fn op_input_types(operator: Oid, left: *mut Oid, right: *mut Oid);
    pub fn exprType(expression: *const Node) -> Oid;
    pub fn exprCollation(expression: *const Node) -> Oid;
    #[cfg_attr(not(feature = "pg15"), link_name = "expression_tree_walker_impl")]
    pub fn expression_tree_walker(node: *mut Node, walker: Walker, context: *mut c_void) -> bool;
    #[cfg_attr(not(feature = "pg15"), link_name = "query_tree_walker_impl")]
    pub fn query_tree_walker(query: *mut Query, walker: Walker, context: *mut c_void, flags: c_int) -> bool;
    pub fn get_tablespace_io_concurrency(tablespace: Oid) -> c_int;
    pub fn get_tablespace_maintenance_io_concurrency(tablespace: Oid) -> c_int;
    pub fn PrefetchBuffer(
        rel: Relation,
        fork: pg_sys::ForkNumber::Type,
        block: BlockNumber,
    ) -> pg_sys::PrefetchBufferResult;
    pub fn InitMaterializedSRF(call: FunctionCallInfo, flags: u32);
    pub fn tuplestore_putvalues(
        store: *mut pg_sys::Tuplestorestate,
        description: pg_sys::TupleDesc,
        values: *const Datum,
        nulls: *const bool,
    );
    pub fn cstring_to_text_with_len(text: *const c_char, length: c_int) -> *mut pg_sys::text;
    pub fn getTypeOutputInfo(ty: Oid, function: *mut Oid, is_varlena: *mut bool);
    pub fn OidOutputFunctionCall(function: Oid, value: Datum) -> *mut c_char;
    pub fn GetDatabaseEncoding() -> c_int;
    pub fn pg_any_to_server(text: *const c_char, length: c_int, encoding: c_int) -> *mut c_char;
    pub fn pg_server_to_any(text: *const c_char, length: c_int, encoding: c_int) -> *mut c_char;
    pub fn pg_verify_mbstr(encoding: c_int, text: *const c_char, length: c_int, no_error: bool) -> bool;
    pub fn cstring_to_text(text: *const core::ffi::c_char) -> *mut pg_sys::text;
    pub fn try_relation_open(relation: Oid, mode: LOCKMODE) -> Relation;
    pub fn relation_close(relation: Relation, mode: LOCKMODE);
    pub fn BuildIndexInfo(index: Relation) -> *mut IndexInfo;
    pub fn RegisterSnapshot(snapshot: pg_sys::Snapshot) -> pg_sys::Snapshot;
    pub fn UnregisterSnapshot(snapshot: pg_sys::Snapshot);
    pub fn GetTransactionSnapshot() -> pg_sys::Snapshot;
    pub fn GetUserId() -> Oid;
    pub fn GetUserIdAndSecContext(user: *mut Oid, context: *mut c_int);
    pub fn SetUserIdAndSecContext(user: Oid, context: c_int);
    pub fn NewGUCNestLevel() -> c_int;
    pub fn AtEOXact_GUC(commits: bool, level: c_int);
    #[cfg(not(any(feature = "pg15", feature = "pg16")))]
    pub fn RestrictSearchPath();
    pub fn GetRecoveryPauseState() -> c_int;
    #[cfg(any(feature = "pg15", feature = "pg16"))]
    pub fn plan_create_index_workers(table: Oid, index: Oid) -> c_int;
    pub fn EnterParallelMode();
    pub fn ExitParallelMode();
    pub fn CreateParallelContext(
        library: *const c_char,
        function: *const c_char,
        workers: c_int,
    ) -> *mut ParallelContext;
    pub fn InitializeParallelDSM(context: *mut ParallelContext);
    pub fn LaunchParallelWorkers(context: *mut ParallelContext);
    pub fn WaitForParallelWorkersToAttach(context: *mut ParallelContext);
    pub fn WaitForParallelWorkersToFinish(context: *mut ParallelContext);
    pub fn DestroyParallelContext(context: *mut ParallelContext);
    pub fn shm_toc_allocate(toc: *mut shm_toc, size: usize) -> *mut c_void;
    pub fn shm_toc_insert(toc: *mut shm_toc, key: u64, address: *mut c_void);
    pub fn shm_toc_lookup(toc: *mut shm_toc, key: u64, missing_ok: bool) -> *mut c_void;
    pub fn SharedFileSetInit(set: *mut SharedFileSet, segment: *mut dsm_segment);
    pub fn SharedFileSetAttach(set: *mut SharedFileSet, segment: *mut dsm_segment);
    pub fn table_parallelscan_estimate(table: Relation, snapshot: Snapshot) -> usize;
    pub fn table_parallelscan_initialize(table: Relation, scan: ParallelTableScanDesc, snapshot: Snapshot);
    #[cfg(not(feature = "pg19"))]
    pub fn table_beginscan_parallel(table: Relation, scan: ParallelTableScanDesc) -> pg_sys::TableScanDesc;
    pub fn InstrStartParallelQuery();
    pub fn InstrEndParallelQuery(buffers: *mut BufferUsage, wal: *mut WalUsage);
    pub fn InstrAccumParallelQuery(buffers: *mut BufferUsage, wal: *mut WalUsage);
    pub fn pgstat_report_activity(state: pg_sys::BackendState::Type, statement: *const c_char);
    pub fn OidFunctionCall1Coll(function: Oid, collation: Oid, argument: Datum) -> Datum;
    pub fn MemoryContextAllocZero(context: MemoryContext, size: usize) -> *mut core::ffi::c_void;
    pub fn str_tolower(text: *const c_char, length: usize, collation: Oid) -> *mut c_char;
    pub fn toast_raw_datum_size(value: Datum) -> usize;
    pub fn get_typstorage(ty: Oid) -> core::ffi::c_char;
    pub fn pg_detoast_datum_packed(value: *mut pg_sys::varlena) -> *mut pg_sys::varlena;
    #[cfg(not(feature = "since_18"))]
    pub fn lc_collate_is_c(collation: Oid) -> bool;
    #[cfg(not(feature = "pg15"))]
    pub fn pg_newlocale_from_collation(collation: Oid) -> *const Locale;
    #[cfg(not(feature = "pg15"))]
    pub fn pg_strxfrm_prefix_enabled(locale: *const Locale) -> bool;
    #[cfg(not(feature = "pg15"))]
    pub fn pg_strnxfrm_prefix(
        to: *mut c_char,
        room: usize,
        from: *const c_char,
        length: usize,
        locale: *const Locale,
    ) -> usize;
    pub fn BufFileCreateTemp(across_transactions: bool) -> *mut BufFile;
    pub fn BufFileClose(file: *mut BufFile);
    pub fn BufFileRead(file: *mut BufFile, to: *mut c_void, size: usize) -> usize;
    pub fn BufFileWrite(file: *mut BufFile, from: *const c_void, size: usize);
    pub fn BufFileSeek(file: *mut BufFile, number: c_int, offset: i64, whence: c_int) -> c_int;
    pub fn BufFileSize(file: *mut BufFile) -> i64;
    pub fn BufFileCreateFileSet(set: *mut FileSet, name: *const c_char) -> *mut BufFile;
    pub fn BufFileExportFileSet(file: *mut BufFile);
    pub fn BufFileOpenFileSet(set: *mut FileSet, name: *const c_char, mode: c_int, missing_ok: bool) -> *mut BufFile;

    // Plan nodes of ours.
    pub fn RegisterCustomScanMethods(methods: *const pg_sys::CustomScanMethods);
    pub fn is_dummy_rel(rel: *mut RelOptInfo) -> bool;
    pub fn create_index_paths(root: *mut PlannerInfo, rel: *mut RelOptInfo);
    pub fn add_path(rel: *mut RelOptInfo, path: *mut pg_sys::Path);
    pub fn bms_membership(set: *const pg_sys::Bitmapset) -> pg_sys::BMS_Membership::Type;
    pub fn add_partial_path(rel: *mut RelOptInfo, path: *mut pg_sys::Path);
    pub fn fetch_upper_rel(
        root: *mut PlannerInfo,
        stage: pg_sys::UpperRelationKind::Type,
        relids: pg_sys::Relids,
    ) -> *mut RelOptInfo;
    pub fn create_gather_path(
        root: *mut PlannerInfo,
        rel: *mut RelOptInfo,
        path: *mut pg_sys::Path,
        target: *mut pg_sys::PathTarget,
        outer: pg_sys::Relids,
        rows: *mut f64,
    ) -> *mut pg_sys::GatherPath;
    pub fn create_agg_path(
        root: *mut PlannerInfo,
        rel: *mut RelOptInfo,
        path: *mut pg_sys::Path,
        target: *mut pg_sys::PathTarget,
        strategy: pg_sys::AggStrategy::Type,
        split: pg_sys::AggSplit::Type,
        clauses: *mut List,
        having: *mut List,
        costs: *const pg_sys::AggClauseCosts,
        groups: f64,
    ) -> *mut pg_sys::AggPath;
    pub fn get_sortgrouplist_exprs(clauses: *mut List, targets: *mut List) -> *mut List;
    pub fn build_index_pathkeys(
        root: *mut PlannerInfo,
        index: *mut pg_sys::IndexOptInfo,
        direction: pg_sys::ScanDirection::Type,
    ) -> *mut List;
    pub fn pathkeys_contained_in(keys: *mut List, others: *mut List) -> bool;
    pub fn pull_var_clause(node: *mut Node, flags: c_int) -> *mut List;
    pub fn contain_volatile_functions(node: *mut Node) -> bool;
    pub fn contain_subplans(node: *mut Node) -> bool;
    pub fn cost_qual_eval(cost: *mut pg_sys::QualCost, conditions: *mut List, root: *mut pg_sys::PlannerInfo);
    pub fn expression_returns_set(node: *mut Node) -> bool;
    pub fn estimate_expression_value(root: *mut PlannerInfo, node: *mut Node) -> *mut Node;
    pub fn copyObjectImpl(object: *const c_void) -> *mut c_void;
    pub fn equal(one: *const c_void, other: *const c_void) -> bool;
    pub fn list_member(list: *const List, member: *const c_void) -> bool;
    pub fn lappend_int(list: *mut List, member: c_int) -> *mut List;
    pub fn makeTargetEntry(
        expression: *mut pg_sys::Expr,
        number: i16,
        name: *mut c_char,
        is_junk: bool,
    ) -> *mut pg_sys::TargetEntry;
    pub fn ExecInitNode(plan: *mut pg_sys::Plan, state: *mut pg_sys::EState, flags: c_int) -> *mut pg_sys::PlanState;
    pub fn ExecInitExpr(expression: *mut pg_sys::Expr, parent: *mut pg_sys::PlanState) -> *mut pg_sys::ExprState;
    pub fn ExecEndNode(node: *mut pg_sys::PlanState);
    pub fn ExecMarkPos(node: *mut pg_sys::PlanState);
    pub fn ExecRestrPos(node: *mut pg_sys::PlanState);
    pub fn ExecReScan(node: *mut pg_sys::PlanState);
    pub fn ExecScan(
        node: *mut pg_sys::ScanState,
        next: unsafe extern "C-unwind" fn(*mut pg_sys::ScanState) -> *mut pg_sys::TupleTableSlot,
        recheck: unsafe extern "C-unwind" fn(*mut pg_sys::ScanState, *mut pg_sys::TupleTableSlot) -> bool,
    ) -> *mut pg_sys::TupleTableSlot;
    pub fn ExecScanReScan(node: *mut pg_sys::ScanState);
    pub fn float_overflow_error() -> !;
    pub fn ExecInitQual(conditions: *mut List, parent: *mut pg_sys::PlanState) -> *mut pg_sys::ExprState;
    pub fn MakeSingleTupleTableSlot(
        descriptor: pg_sys::TupleDesc,
        kind: *const pg_sys::TupleTableSlotOps,
    ) -> *mut pg_sys::TupleTableSlot;
    pub fn ExecStoreVirtualTuple(slot: *mut pg_sys::TupleTableSlot) -> *mut pg_sys::TupleTableSlot;
    pub fn UpdateChangedParamSet(node: *mut pg_sys::PlanState, changed: *mut pg_sys::Bitmapset);
    pub fn InstrStartNode(instrument: *mut NodeInstrumentation);
    pub fn InstrStopNode(instrument: *mut NodeInstrumentation, rows: f64);
    #[cfg(not(feature = "since_18"))]
    pub fn index_beginscan(
        heap: Relation,
        index: Relation,
        snapshot: Snapshot,
        keys: c_int,
        order_bys: c_int,
    ) -> pg_sys::IndexScanDesc;
    #[cfg(feature = "since_18")]
    pub fn index_beginscan(
        heap: Relation,
        index: Relation,
        snapshot: Snapshot,
        instrument: *mut pg_sys::IndexScanInstrumentation,
        keys: c_int,
        order_bys: c_int,
        #[cfg(feature = "pg19")] flags: u32,
    ) -> pg_sys::IndexScanDesc;
    pub fn index_rescan(
        scan: pg_sys::IndexScanDesc,
        keys: pg_sys::ScanKey,
        key_count: c_int,
        order_bys: pg_sys::ScanKey,
        order_by_count: c_int,
    );
    pub fn index_fetch_heap(scan: pg_sys::IndexScanDesc, slot: *mut pg_sys::TupleTableSlot) -> bool;
    pub fn get_attname(rel: Oid, number: i16, missing_ok: bool) -> *mut c_char;
    pub fn ExplainPropertyList(label: *const c_char, members: *mut List, state: *mut pg_sys::ExplainState);
    pub fn ExplainPropertyBool(label: *const c_char, value: bool, state: *mut pg_sys::ExplainState);
    pub fn int64_to_numeric(value: i64) -> pg_sys::Numeric;
    pub fn numeric_in(call: FunctionCallInfo) -> Datum;
    pub fn numeric_add(call: FunctionCallInfo) -> Datum;
    pub fn numeric_div(call: FunctionCallInfo) -> Datum;
    pub fn numeric_send(call: FunctionCallInfo) -> Datum;
    pub fn interval_pl(call: FunctionCallInfo) -> Datum;
    pub fn interval_div(call: FunctionCallInfo) -> Datum;
    pub fn DirectFunctionCall1Coll(function: Function, collation: Oid, argument: Datum) -> Datum;
    pub fn DirectFunctionCall2Coll(function: Function, collation: Oid, first: Datum, second: Datum) -> Datum;
    pub fn DirectFunctionCall3Coll(
        function: Function,
        collation: Oid,
        first: Datum,
        second: Datum,
        third: Datum,
    ) -> Datum;

    // Statements, and the catalogs they change.
    pub fn standard_ProcessUtility(
        statement: *mut pg_sys::PlannedStmt,
        text: *const c_char,
        is_read_only: bool,
        context: pg_sys::ProcessUtilityContext::Type,
        parameters: pg_sys::ParamListInfo,
        environment: *mut pg_sys::QueryEnvironment,
        destination: *mut pg_sys::DestReceiver,
        completion: *mut pg_sys::QueryCompletion,
    );
    pub fn defGetString(parameter: *mut pg_sys::DefElem) -> *mut c_char;
    pub fn makeDefElem(name: *mut c_char, value: *mut Node, location: c_int) -> *mut pg_sys::DefElem;
    pub fn makeString(text: *mut c_char) -> *mut pg_sys::String;
    pub fn pstrdup(text: *const c_char) -> *mut c_char;

    // Statements that are only looked at, and plans that are only costed.
    pub fn raw_parser(text: *const c_char, mode: pg_sys::RawParseMode::Type) -> *mut List;
    pub fn transformIndexStmt(table: Oid, statement: *mut IndexStmt, text: *const c_char) -> *mut IndexStmt;
    pub fn RangeVarGetRelidExtended(
        relation: *const pg_sys::RangeVar,
        lock: LOCKMODE,
        flags: u32,
        callback: *const c_void,
        argument: *mut c_void,
    ) -> Oid;
    #[cfg(feature = "pg15")]
    pub fn pg_proc_aclcheck(function: Oid, user: Oid, mode: pg_sys::AclMode) -> pg_sys::AclResult::Type;
    #[cfg(not(feature = "pg15"))]
    pub fn object_aclcheck(catalog: Oid, object: Oid, user: Oid, mode: pg_sys::AclMode) -> pg_sys::AclResult::Type;
    pub fn aclcheck_error(result: pg_sys::AclResult::Type, kind: pg_sys::ObjectType::Type, name: *const c_char);
    pub fn get_index_am_oid(name: *const c_char, missing_ok: bool) -> Oid;
    pub fn GetIndexAmRoutineByAmId(method: Oid, no_error: bool) -> *mut pg_sys::IndexAmRoutine;
    pub fn GetDefaultOpClass(ty: Oid, method: Oid) -> Oid;
    pub fn ResolveOpClass(class: *mut List, ty: Oid, name: *const c_char, method: Oid) -> Oid;
    pub fn get_opclass_family(class: Oid) -> Oid;
    pub fn get_opclass_input_type(class: Oid) -> Oid;
    pub fn get_collation_oid(name: *mut List, missing_ok: bool) -> Oid;
    pub fn type_is_collatable(ty: Oid) -> bool;
    pub fn get_tablespace_oid(name: *const c_char, missing_ok: bool) -> Oid;
    pub fn get_attnum(table: Oid, name: *const c_char) -> i16;
    pub fn exprTypmod(expression: *const Node) -> i32;
    pub fn expression_planner(expression: *mut pg_sys::Expr) -> *mut pg_sys::Expr;
    pub fn canonicalize_qual(condition: *mut pg_sys::Expr, is_check: bool) -> *mut pg_sys::Expr;
    pub fn make_ands_implicit(condition: *mut pg_sys::Expr) -> *mut List;
    pub fn contain_mutable_functions(expression: *mut Node) -> bool;
    pub fn transformRelOptions(
        old: Datum,
        options: *mut List,
        namespace: *const c_char,
        namespaces: *const *const c_char,
        accept_oids_off: bool,
        is_reset: bool,
    ) -> Datum;
    pub fn CreateTemplateTupleDesc(columns: c_int) -> pg_sys::TupleDesc;
    #[cfg(feature = "pg19")]
    pub fn TupleDescFinalize(descriptor: pg_sys::TupleDesc);
    pub fn TupleDescCopyEntry(to: pg_sys::TupleDesc, column: i16, from: pg_sys::TupleDesc, number: i16);
    pub fn TupleDescInitEntry(
        descriptor: pg_sys::TupleDesc,
        column: i16,
        name: *const c_char,
        ty: Oid,
        typmod: i32,
        dimensions: c_int,
    );
    pub fn RelationGetIndexList(table: Relation) -> *mut List;
    pub fn RelationGetIndexExpressions(index: Relation) -> *mut List;
    pub fn RelationGetIndexPredicate(index: Relation) -> *mut List;
    pub fn geterrposition() -> c_int;
    pub fn errposition(position: c_int) -> c_int;
    pub fn internalerrposition(position: c_int) -> c_int;
    pub fn internalerrquery(text: *const c_char) -> c_int;
    pub fn format_type_be(ty: Oid) -> *mut c_char;
    pub fn text_to_cstring(text: *const pg_sys::text) -> *mut c_char;
    pub fn makeVar(relation: c_int, number: i16, ty: Oid, typmod: i32, collation: Oid, level: u32) -> *mut pg_sys::Var;
    pub fn make_opclause(
        operator: Oid,
        result: Oid,
        is_set: bool,
        left: *mut pg_sys::Expr,
        right: *mut pg_sys::Expr,
        collation: Oid,
        input_collation: Oid,
    ) -> *mut pg_sys::Expr;
    pub fn make_ands_explicit(conditions: *mut List) -> *mut pg_sys::Expr;
    #[cfg(not(feature = "since_18"))]
    pub fn get_ordering_op_properties(operator: Oid, family: *mut Oid, input: *mut Oid, strategy: *mut i16) -> bool;
    #[cfg(feature = "since_18")]
    pub fn get_ordering_op_properties(
        operator: Oid,
        family: *mut Oid,
        input: *mut Oid,
        order: *mut pg_sys::CompareType::Type,
    ) -> bool;
    pub fn make_parsestate(parent: *mut pg_sys::ParseState) -> *mut pg_sys::ParseState;
    pub fn addRangeTableEntryForRelation(
        state: *mut pg_sys::ParseState,
        table: Relation,
        lock: c_int,
        alias: *mut pg_sys::Alias,
        inherits: bool,
        in_from: bool,
    ) -> *mut pg_sys::ParseNamespaceItem;
    #[cfg(not(feature = "pg19"))]
    pub fn standard_planner(
        query: *mut Query,
        text: *const c_char,
        options: c_int,
        parameters: pg_sys::ParamListInfo,
    ) -> *mut pg_sys::PlannedStmt;
    pub fn set_config_option(
        name: *const c_char,
        value: *const c_char,
        context: pg_sys::GucContext::Type,
        source: pg_sys::GucSource::Type,
        action: pg_sys::GucAction::Type,
        changes: bool,
        level: c_int,
        is_reload: bool,
    ) -> c_int;
}

// What only the constraints of 18 need.
#[cfg(feature = "since_18")]
#[allow(missing_docs)]
unsafe extern "C-unwind" {
    pub fn ProcessUtility(
        statement: *mut pg_sys::PlannedStmt,
        text: *const c_char,
        is_read_only: bool,
        context: pg_sys::ProcessUtilityContext::Type,
        parameters: pg_sys::ParamListInfo,
        environment: *mut pg_sys::QueryEnvironment,
        destination: *mut pg_sys::DestReceiver,
        completion: *mut pg_sys::QueryCompletion,
    );
    pub fn AlterTableGetLockLevel(commands: *mut List) -> LOCKMODE;
    pub fn AlterTableLookupRelation(statement: *mut pg_sys::AlterTableStmt, lock: LOCKMODE) -> Oid;
    pub fn find_all_inheritors(table: Oid, lock: LOCKMODE, parents: *mut *mut List) -> *mut List;
    pub fn relation_open(relation: Oid, mode: LOCKMODE) -> Relation;
    pub fn IndexGetRelation(index: Oid, missing_ok: bool) -> Oid;
    pub fn get_atttypetypmodcoll(table: Oid, number: i16, ty: *mut Oid, modifier: *mut i32, collation: *mut Oid);
    pub fn get_attoptions(table: Oid, number: i16) -> Datum;
    pub fn get_relname_relid(name: *const c_char, schema: Oid) -> Oid;
    pub fn get_rel_name(relation: Oid) -> *mut c_char;
    pub fn get_rel_namespace(relation: Oid) -> Oid;
    pub fn get_rel_relam(relation: Oid) -> Oid;
    pub fn get_namespace_name(schema: Oid) -> *mut c_char;
    pub fn get_index_constraint(index: Oid) -> Oid;
    pub fn get_index_ref_constraints(index: Oid) -> *mut List;
    pub fn get_constraint_index(constraint: Oid) -> Oid;
    pub fn get_constraint_name(constraint: Oid) -> *mut c_char;
    pub fn get_constraint_type(constraint: Oid) -> c_char;
    pub fn get_relation_constraint_oid(table: Oid, name: *const c_char, missing_ok: bool) -> Oid;
    pub fn makeRangeVar(schema: *mut c_char, name: *mut c_char, location: c_int) -> *mut pg_sys::RangeVar;
    pub fn ChooseRelationName(
        name: *const c_char,
        other: *const c_char,
        label: *const c_char,
        schema: Oid,
        is_constraint: bool,
    ) -> *mut c_char;
    pub fn untransformRelOptions(options: Datum) -> *mut List;
    pub fn generateClonedIndexStmt(
        table: *mut pg_sys::RangeVar,
        index: Relation,
        columns: *const pg_sys::AttrMap,
        constraint: *mut Oid,
    ) -> *mut pg_sys::IndexStmt;
    #[cfg(not(feature = "pg19"))]
    pub fn DefineIndex(
        table: Oid,
        statement: *mut pg_sys::IndexStmt,
        index: Oid,
        parent: Oid,
        parent_constraint: Oid,
        parts: c_int,
        is_alter_table: bool,
        check_rights: bool,
        check_not_in_use: bool,
        skip_build: bool,
        quiet: bool,
    ) -> pg_sys::ObjectAddress;
    pub fn index_concurrently_swap(new: Oid, old: Oid, old_name: *const c_char);
    pub fn performDeletion(object: *const pg_sys::ObjectAddress, behavior: pg_sys::DropBehavior::Type, flags: c_int);
    pub fn CacheInvalidateRelcacheByRelid(relation: Oid);
    pub fn CommandCounterIncrement();
}

/// Has hints set in a page, which may be done under any lock.
///
/// # Safety
/// A pinned and locked buffer.
#[cfg(not(feature = "pg19"))]
#[inline]
pub unsafe fn set_hints(buffer: Buffer, set: impl FnOnce()) {
    set();
    // SAFETY: the caller's.
    unsafe { MarkBufferDirtyHint(buffer, true) };
}

/// A function of SQL.
pub type Function = unsafe extern "C-unwind" fn(FunctionCallInfo) -> Datum;

/// `ExecClearTuple`.
///
/// # Safety
/// A slot. May raise.
#[inline]
pub unsafe fn clear_slot(slot: *mut pg_sys::TupleTableSlot) {
    // SAFETY: the header's inline function.
    unsafe {
        if let Some(clear) = (*(*slot).tts_ops).clear {
            clear(slot);
        }
    }
}

/// `ExecStoreVirtualTuple`, of a slot that may hold another row.
///
/// # Safety
/// A virtual slot that owns nothing, with a value for each column.
#[inline]
pub unsafe fn fill_slot(slot: &mut pg_sys::TupleTableSlot) {
    slot.tts_flags &= !(pg_sys::TTS_FLAG_EMPTY as u16);
    // SAFETY: a slot's descriptor is there as long as it is.
    slot.tts_nvalid = unsafe { (*slot.tts_tupleDescriptor).natts as i16 };
}

/// `TupIsNull`.
///
/// # Safety
/// Null, or a slot.
#[inline]
pub unsafe fn is_empty(slot: *mut pg_sys::TupleTableSlot) -> bool {
    // SAFETY: the header's macro.
    unsafe { slot.as_ref().is_none_or(|slot| u32::from(slot.tts_flags) & pg_sys::TTS_FLAG_EMPTY != 0) }
}

/// `ExecCopySlot`.
///
/// # Safety
/// Two slots of as many columns. May raise.
pub unsafe fn copy_slot(
    to: *mut pg_sys::TupleTableSlot,
    from: *mut pg_sys::TupleTableSlot,
) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: the header's inline function.
    unsafe {
        if let Some(copy) = (*(*to).tts_ops).copyslot {
            copy(to, from);
        }
    }
    to
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
        #[cfg(not(feature = "since_18"))]
        vacuum_delay_point();
        #[cfg(feature = "since_18")]
        vacuum_delay_point(false);
    }
}

pub type Walker = unsafe extern "C-unwind" fn(*mut Node, *mut c_void) -> bool;

/// The beginning of the server's `pg_locale_struct`.
#[cfg(not(feature = "pg15"))]
#[repr(C)]
pub struct Locale {
    #[cfg(not(feature = "pg19"))]
    provider: core::ffi::c_char,
    deterministic: bool,
    #[cfg(feature = "since_18")]
    pub collate_is_c: bool,
}
