//! The indexes' own log: records that say what a change does, for a resource manager that the server knows if the
//! library is in `shared_preload_libraries` (docs/protocols.md, 17). Which log an index has is decided when it is
//! built.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicBool, Ordering};
use std::ffi::CString;

use fpbtree_engine::format::PageBytes;
use fpbtree_engine::log::{BlockEdits, Change, Horizon, MOST_BLOCKS, RecordKind};
use fpbtree_engine::page::{self, LogKind};
use fpbtree_engine::simd::CACHE_LINE;
use pgrx::PgSqlErrorCode::{ERRCODE_INDEX_CORRUPTED, ERRCODE_INTERNAL_ERROR, ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE};
use pgrx::pg_guard;
use pgrx::pg_sys::{
    self, BlockNumber, Buffer, DecodedBkpBlock, HotStandbyState, ReadBufferMode, Relation, RmgrData, StringInfo,
    XLogReaderState, XLogRecPtr, XLogRedoAction,
};

use crate::pg::errors::{Name, Shown};
use crate::pg::per_backend::PerBackend;
use crate::pg::relation::FileLocator;
use crate::pg::relation::INVALID_BUFFER;
use crate::pg::{errors, ffi, relation};
use crate::storage::recent_buffers;

/// Our resource manager's number: the one for experiments, until one is reserved, unless another one is chosen when the
/// library is built. It is that of all records which this library writes and redoes, whatever number an index was built
/// under: nothing in an index's pages depends on it.
const MANAGER: u8 = match option_env!("FPBTREE_RMGR_ID") {
    None => pg_sys::RM_EXPERIMENTAL_ID as u8,
    Some(chosen) => match u8::from_str_radix(chosen, 10) {
        Ok(number @ 128..) => number,
        _ => panic!("FPBTREE_RMGR_ID has to be a number from 128 to 255"),
    },
};
const _: () = assert!(pg_sys::RM_MIN_CUSTOM_ID == 128 && pg_sys::RM_MAX_CUSTOM_ID == 255);
const NAME: &CStr = c"fpbtree";

/// The kind of a record is in the upper four bits of its info byte; the lower ones are the server's.
const KIND_SHIFT: u8 = 4;

static IS_REGISTERED: AtomicBool = AtomicBool::new(false);

/// Makes the resource manager known, if the library is being preloaded: the server takes it at no other time.
pub fn register() {
    // SAFETY: a setting of the server's; what is registered is copied, and its functions stay loaded.
    unsafe {
        if !pg_sys::process_shared_preload_libraries_in_progress {
            return;
        }
        refuse_clash();
        let mut manager = RmgrData {
            rm_name: NAME.as_ptr(),
            rm_redo: Some(redo),
            rm_desc: Some(desc),
            rm_identify: Some(identify),
            rm_mask: Some(mask),
            ..RmgrData::default()
        };
        ffi::RegisterCustomRmgr(MANAGER, &mut manager);
    }
    IS_REGISTERED.store(true, Ordering::Relaxed);
}

/// Raises an error, and so ends the server's start, if another library has our number. The server would, too, but could not
/// say what to do.
unsafe fn refuse_clash() {
    // SAFETY: the server's table, with an element for each number; at the start there is one thread.
    unsafe {
        let table = (&raw const pg_sys::RmgrTable).cast::<RmgrData>();
        let other = (*table.add(MANAGER.into())).rm_name;
        if !other.is_null() {
            errors::raise(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format_args!("fpbtree cannot log: resource manager {MANAGER} is \"{}\"", Shown(CStr::from_ptr(other))),
                Some(format_args!("Another library in \"shared_preload_libraries\" was built with the same number.")),
                Some(format_args!(
                    "Take one of them out, or build fpbtree with another number, as FPBTREE_RMGR_ID=129 make install does."
                )),
            );
        }
    }
}

/// The log that an index gets that is built now.
pub fn kind_of_new() -> LogKind {
    match IS_REGISTERED.load(Ordering::Relaxed) {
        true => LogKind::Own { manager: MANAGER },
        false => LogKind::Generic,
    }
}

/// The parts of the record being built: nothing may allocate in a critical section.
static PARTS: PerBackend<UnsafeCell<[Vec<u8>; MOST_BLOCKS]>> =
    PerBackend::new(UnsafeCell::new([const { Vec::new() }; MOST_BLOCKS]));

/// Prepares the record of a change of an index that has our own log, for [`insert`], and says of what kind it is.
/// Raises an error if the server does not know the resource manager.
///
/// # Safety
/// `rel` is open. May raise.
pub unsafe fn prepare(rel: Relation, change: &Change<'_>) -> RecordKind {
    if !IS_REGISTERED.load(Ordering::Relaxed) {
        refuse(rel);
    }
    // SAFETY: this one thread's, and nothing in here comes back to this function.
    let parts = unsafe { &mut *PARTS.get() };
    let kind = change.kind();
    for (index, part) in parts.iter_mut().enumerate().take(change.pages()) {
        part.clear();
        change.encode_part(kind, index, part);
    }
    kind
}

/// Whether changes of an index with this log can be made here.
pub fn can_write(log: LogKind) -> bool {
    !log.is_own() || IS_REGISTERED.load(Ordering::Relaxed)
}

#[cold]
fn refuse(rel: Relation) -> ! {
    errors::raise(
        ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        format_args!("index \"{}\" cannot be changed: fpbtree is not in \"shared_preload_libraries\"", Name(rel)),
        Some(format_args!("It was built when fpbtree was, so it is logged by fpbtree's own resource manager.")),
        Some(format_args!("Add fpbtree to \"shared_preload_libraries\" and restart the server, or REINDEX the index.")),
    )
}

/// Writes the record that [`prepare`] prepared of a change of these pages, and says where it ends.
///
/// # Safety
/// Inside the critical section in which the change was made; its pages are locked.
pub unsafe fn insert(pages: impl Iterator<Item = Buffer>, change: &Change<'_>, kind: RecordKind) -> XLogRecPtr {
    // SAFETY: the pages are pinned and locked; the parts stay as they are until the record is inserted.
    unsafe {
        let parts = &*PARTS.get();
        ffi::XLogBeginInsert();
        for (index, (page, part)) in pages.zip(parts).enumerate() {
            let flags = match () {
                () if kind.is_insertion() => pg_sys::REGBUF_STANDARD,
                () if change.makes_page(index) => pg_sys::REGBUF_WILL_INIT,
                // Redo has to know what it waits for, even if the record has the whole page besides.
                () if change.takes_entries_away(index) => pg_sys::REGBUF_STANDARD | pg_sys::REGBUF_KEEP_DATA,
                () => pg_sys::REGBUF_STANDARD,
            };
            ffi::XLogRegisterBuffer(index as u8, page, flags as u8);
            ffi::XLogRegisterBufData(index as u8, part.as_ptr().cast(), part.len() as u32);
        }
        ffi::XLogInsert(MANAGER, (kind as u8) << KIND_SHIFT)
    }
}

/// A record being redone or described.
#[derive(Clone, Copy)]
struct WalRecord(*mut XLogReaderState);

impl WalRecord {
    fn info(self) -> u8 {
        // SAFETY: the server gives a record that was read.
        unsafe { (*(*self.0).record).header.xl_info }
    }

    fn kind(self) -> Option<RecordKind> {
        RecordKind::of(self.info() >> KIND_SHIFT)
    }

    fn blocks(self) -> u8 {
        // SAFETY: the server gives a record that was read.
        let last = unsafe { (*(*self.0).record).max_block_id };
        (last + 1) as u8
    }

    fn block(self, id: u8) -> &'static DecodedBkpBlock {
        // SAFETY: the record has as many blocks as it says. It lives as long as the record.
        unsafe { &*(*(*self.0).record).blocks.as_ptr().add(id as usize) }
    }

    /// Which file a block is in.
    fn locator(self, id: u8) -> FileLocator {
        #[cfg(feature = "pg15")]
        return self.block(id).rnode;
        #[cfg(not(feature = "pg15"))]
        return self.block(id).rlocator;
    }

    /// Says where a block is likely in memory, if the server, which looks for those ahead, left one out because it had
    /// come not long before.
    fn hint(self, id: u8) {
        let (is_hinted, block) = (self.block(id).prefetch_buffer > INVALID_BUFFER, self.block(id).blkno);
        let Some(buffer) = recent_buffers::likely_buffer(self.file(id), block).filter(|_| !is_hinted) else { return };
        // SAFETY: the record has the block, and is this process's. The server compares what the buffer holds.
        unsafe { (*(*(*self.0).record).blocks.as_mut_ptr().add(id as usize)).prefetch_buffer = buffer };
    }

    /// The number of the file that a block is in.
    fn file(self, id: u8) -> u32 {
        let [_, _, file] = relation::numbers_of(self.locator(id));
        file
    }

    /// A block's part as it is in the record. None if the record has the whole page in its place.
    fn bytes(self, id: u8) -> Option<&'static [u8]> {
        let mut length = 0;
        // SAFETY: the server gives a record that was read, and the bytes live as long.
        unsafe {
            let data = ffi::XLogRecGetBlockData(self.0, id, &mut length);
            (!data.is_null()).then(|| core::slice::from_raw_parts(data.cast::<u8>(), length))
        }
    }

    /// A block's part. None if the record has the whole page in its place, or if it cannot be read.
    fn part(self, id: u8) -> Option<BlockEdits> {
        BlockEdits::decode(self.kind()?, self.bytes(id)?)
    }
}

/// `rm_redo`: makes a change again. A page that entries are taken from is waited for until nobody pins it, before
/// anything else is locked: so that an index-only scan on a standby is done with its copy. An error in recovery ends
/// the process, so nothing has to be dropped.
///
/// It is called for each record, so it does without pgrx's guard, which saves the state of the processor each time: the
/// server's errors pass, and a panic becomes one here.
unsafe extern "C-unwind" fn redo(record: *mut XLogReaderState) {
    let record = WalRecord(record);
    if std::panic::catch_unwind(|| (prefetch(record), redo_record(record))).is_err() {
        errors::raise(ERRCODE_INTERNAL_ERROR, format_args!("redo of an fpbtree record panicked"), None, None);
    }
}

/// How many records before its own a page's first lines are asked for; the node that it is to change, at half of that.
const PREFETCHED: usize = 4;
/// Bytes at a page's front that redo reads: its header and its in-page root, which says where the nodes are.
const FRONT: usize = 8 * CACHE_LINE;

/// Has the cache lines fetched that the next records will change. The server has decoded them already, to ask for pages
/// that it misses, and noted in which buffers the others are.
fn prefetch(record: WalRecord) {
    // SAFETY: the server's queue, which this process alone reads; records stay in it until they are redone.
    unsafe {
        let mut coming = (*(*record.0).record).next;
        for distance in 1..=PREFETCHED {
            let Some(next) = coming.as_ref() else { return };
            if next.header.xl_rmid == MANAGER && next.max_block_id == 0 {
                prefetch_block(next.header.xl_info, &*next.blocks.as_ptr(), distance > PREFETCHED / 2);
            }
            coming = next.next;
        }
    }
}

/// # Safety
/// A decoded record's block.
unsafe fn prefetch_block(info: u8, block: &DecodedBkpBlock, is_far: bool) {
    if block.prefetch_buffer <= INVALID_BUFFER {
        return;
    }
    if is_far {
        return relation::prefetch_page(block.prefetch_buffer, (0..FRONT).step_by(CACHE_LINE));
    }
    if let Some(kind) = RecordKind::of(info >> KIND_SHIFT).filter(|_| block.has_data) {
        // SAFETY: the record is decoded. Shared buffers are memory always; what is in this one is only a hint.
        unsafe {
            let bytes = core::slice::from_raw_parts(block.data.cast::<u8>(), block.data_len.into());
            BlockEdits::prefetch(kind, bytes, &*relation::page(block.prefetch_buffer).cast::<PageBytes>());
        }
    }
}

fn redo_record(record: WalRecord) {
    match record.kind().filter(|kind| kind.is_insertion()) {
        Some(kind) => redo_insertion(record, kind),
        None => redo_parts(record),
    }
}

/// Redoes an insertion, which has one page, of which nothing is taken away. It is pinned and locked only meanwhile.
fn redo_insertion(record: WalRecord, kind: RecordKind) {
    // SAFETY: the one block of the record, which is redone once.
    unsafe {
        let (action, buffer) = open(record, 0, false);
        if action == XLogRedoAction::BLK_NEEDS_REDO {
            redo_page(record, 0, buffer, |page| {
                record.bytes(0).is_some_and(|bytes| BlockEdits::redo_insertion(kind, bytes, page))
            });
        }
        release(buffer);
    }
}

/// Redoes a change of several pages. All of them are pinned and locked until the last one is redone: first those, by
/// cleanup locks, that entries are taken from.
fn redo_parts(record: WalRecord) {
    let mut buffers = [INVALID_BUFFER; MOST_BLOCKS];
    let mut is_done = [false; MOST_BLOCKS];
    let parts: [Option<BlockEdits>; MOST_BLOCKS] = core::array::from_fn(|id| {
        let id = id as u8;
        if id < record.blocks() { record.part(id) } else { None }
    });
    let kind = record.kind();
    if let Some(horizon) = parts[0].as_ref().filter(|_| kind == Some(RecordKind::Delete)).and_then(BlockEdits::horizon)
    {
        resolve(record, horizon);
    }
    let takes_away = |id: usize| kind.zip(parts[id].as_ref()).is_some_and(|(kind, part)| part.takes_entries_away(kind));
    for waits in [true, false] {
        for id in (0..record.blocks() as usize).filter(|&id| takes_away(id) == waits) {
            // SAFETY: a block of the record, which is redone once.
            unsafe {
                let (action, buffer) = open(record, id as u8, waits);
                buffers[id] = buffer;
                is_done[id] = action != XLogRedoAction::BLK_NEEDS_REDO;
            }
        }
    }
    for id in (0..record.blocks() as usize).filter(|&id| !is_done[id]) {
        // SAFETY: pinned and exclusively locked above.
        unsafe {
            redo_page(record, id as u8, buffers[id], |page| parts[id].as_ref().is_some_and(|part| part.redo(page)));
        }
    }
    for buffer in buffers {
        // SAFETY: pinned and locked above.
        unsafe { release(buffer) };
    }
}

/// Redoes the part of a record that is about one page, if that has still to be done. The page stays pinned and locked.
///
/// # Safety
/// The buffer of a block of the record, which is pinned and exclusively locked.
unsafe fn redo_page(record: WalRecord, id: u8, buffer: Buffer, redo: impl FnOnce(&mut PageBytes) -> bool) {
    // SAFETY: the page is pinned and exclusively locked.
    unsafe {
        let page = &mut *relation::page(buffer).cast::<PageBytes>();
        if !redo(page) {
            fail(record, id);
        }
        relation::set_lsn(page.as_mut_ptr(), (*record.0).EndRecPtr);
        ffi::MarkBufferDirty(buffer);
    }
}

/// Unlocks and unpins a page.
///
/// # Safety
/// A buffer that is pinned and locked, or none.
unsafe fn release(buffer: Buffer) {
    if buffer != INVALID_BUFFER {
        // SAFETY: the page is pinned and locked.
        unsafe { ffi::UnlockReleaseBuffer(buffer) };
    }
}

/// Lets no reader of a standby go on that may see rows whose entries are about to be removed.
fn resolve(record: WalRecord, horizon: Horizon) {
    // SAFETY: the server's state, and the record that is being redone, of which nothing is locked yet.
    unsafe {
        if pg_sys::standbyState >= HotStandbyState::STANDBY_SNAPSHOT_PENDING {
            ffi::resolve_conflict(horizon.transaction, horizon.is_catalog, record.locator(0));
        }
    }
}

/// Pins and exclusively locks a block of a record, waiting for others' pins if it `waits`, and says whether its part
/// has still to be applied. No buffer where the block is not there any more.
unsafe fn open(record: WalRecord, id: u8, waits: bool) -> (XLogRedoAction::Type, Buffer) {
    let is_made = u32::from(record.block(id).flags) & pg_sys::BKPBLOCK_WILL_INIT != 0;
    let mode = match (is_made, waits) {
        (false, _) => ReadBufferMode::RBM_NORMAL,
        (true, false) => ReadBufferMode::RBM_ZERO_AND_LOCK,
        (true, true) => ReadBufferMode::RBM_ZERO_AND_CLEANUP_LOCK,
    };
    let mut buffer = INVALID_BUFFER;
    record.hint(id);
    // SAFETY: a block of a record.
    let action = unsafe { ffi::XLogReadBufferForRedoExtended(record.0, id, mode, waits, &mut buffer) };
    if buffer != INVALID_BUFFER {
        recent_buffers::remember(record.file(id), record.block(id).blkno, buffer);
    }
    (action, buffer)
}

/// Gives up recovery: the record was written of another page than this.
#[cold]
unsafe fn fail(record: WalRecord, id: u8) -> ! {
    let block = record.block(id);
    let [space, database, file] = relation::numbers_of(record.locator(id));
    // SAFETY: the record that is being redone.
    let lsn = unsafe { (*record.0).ReadRecPtr };
    errors::raise(
        ERRCODE_INDEX_CORRUPTED,
        format_args!(
            "fpbtree's log record at {:X}/{:X} does not fit block {} of relation {}/{}/{}",
            lsn >> 32,
            lsn as u32,
            block.blkno,
            space,
            database,
            file
        ),
        None,
        Some(format_args!("The page is damaged, or was written by another version of fpbtree.")),
    )
}

/// `rm_desc`: what `pg_walinspect` shows of a record.
#[pg_guard]
unsafe extern "C-unwind" fn desc(text: StringInfo, record: *mut XLogReaderState) {
    let record = WalRecord(record);
    let parts = (0..record.blocks()).map(|id| match record.part(id) {
        Some(part) => format!("{id}: {part}"),
        None => format!("{id}: page"),
    });
    let described = CString::new(parts.collect::<Vec<_>>().join("; ")).unwrap_or_default();
    // SAFETY: the server's text.
    unsafe { pg_sys::appendStringInfoString(text, described.as_ptr()) };
}

/// `rm_identify`: a record's kind.
#[pg_guard]
unsafe extern "C-unwind" fn identify(info: u8) -> *const c_char {
    RecordKind::of(info >> KIND_SHIFT).map_or(core::ptr::null(), |kind| kind.name().as_ptr())
}

/// `rm_mask`: makes pages alike that differ in nothing that is logged, for `wal_consistency_checking`.
#[pg_guard]
unsafe extern "C-unwind" fn mask(bytes: *mut c_char, _block: BlockNumber) {
    // SAFETY: the server's copy of a page.
    page::mask(unsafe { &mut *bytes.cast::<PageBytes>() });
}
