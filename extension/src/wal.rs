//! The indexes' own log: records that say what a change does, for a resource manager that the server knows if the library
//! is in `shared_preload_libraries` (docs/design.md, 7). Which log an index has is decided when it is built.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicBool, Ordering};
use std::ffi::CString;

use fpbtree_engine::change::{Change, Kind, MOST_BLOCKS, Part};
use fpbtree_engine::page::{self, LogKind};
use fpbtree_engine::store::PageBytes;
use pgrx::PgSqlErrorCode::{ERRCODE_INDEX_CORRUPTED, ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE};
use pgrx::pg_guard;
use pgrx::pg_sys::{
    self, BlockNumber, Buffer, DecodedBkpBlock, ReadBufferMode, Relation, RmgrData, StringInfo, XLogReaderState,
    XLogRecPtr, XLogRedoAction,
};

use crate::server::{self, INVALID_BUFFER, Name, raw};

/// Our resource manager's number: the one for experiments, until one is reserved.
const MANAGER: u8 = pg_sys::RM_EXPERIMENTAL_ID as u8;
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
        let mut manager = RmgrData {
            rm_name: NAME.as_ptr(),
            rm_redo: Some(redo),
            rm_desc: Some(desc),
            rm_identify: Some(identify),
            rm_mask: Some(mask),
            ..RmgrData::default()
        };
        raw::RegisterCustomRmgr(MANAGER, &mut manager);
    }
    IS_REGISTERED.store(true, Ordering::Relaxed);
}

/// The log that an index gets that is built now.
pub fn kind_of_new() -> LogKind {
    if IS_REGISTERED.load(Ordering::Relaxed) { LogKind::Own } else { LogKind::Generic }
}

/// The parts of the record being built: nothing may allocate in a critical section.
struct Parts(UnsafeCell<[Vec<u8>; MOST_BLOCKS]>);

// SAFETY: the server runs one thread.
unsafe impl Sync for Parts {}

static PARTS: Parts = Parts(UnsafeCell::new([const { Vec::new() }; MOST_BLOCKS]));

/// Prepares the record of a change of an index that has our own log, for [`insert`]. Raises an error if the server does
/// not know the resource manager.
///
/// # Safety
/// `rel` is open. May raise.
pub unsafe fn prepare(rel: Relation, change: &Change<'_, Buffer>) {
    if !IS_REGISTERED.load(Ordering::Relaxed) {
        refuse(rel);
    }
    // SAFETY: this one thread's, and nothing in here comes back to this function.
    let parts = unsafe { &mut *PARTS.0.get() };
    for (index, part) in parts.iter_mut().enumerate().take(change.blocks().len()) {
        part.clear();
        change.encode_part(index, part);
    }
}

#[cold]
fn refuse(rel: Relation) -> ! {
    server::raise(
        ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        format_args!("index \"{}\" cannot be changed: fpbtree is not in \"shared_preload_libraries\"", Name(rel)),
        Some(format_args!("It was built when fpbtree was, so it is logged by fpbtree's own resource manager.")),
        Some(format_args!("Add fpbtree to \"shared_preload_libraries\" and restart the server, or REINDEX the index.")),
    )
}

/// Writes the record that [`prepare`] prepared, and says where it ends.
///
/// # Safety
/// Inside the critical section in which the change was made; its pages are locked.
pub unsafe fn insert(change: &Change<'_, Buffer>) -> XLogRecPtr {
    // SAFETY: by this function's contract; the parts stay as they are until the record is inserted.
    unsafe {
        let parts = &*PARTS.0.get();
        raw::XLogBeginInsert();
        for (index, (&pin, part)) in change.blocks().iter().zip(parts).enumerate() {
            let flags = match () {
                () if change.makes_page(index) => pg_sys::REGBUF_WILL_INIT,
                // Redo has to know what it waits for, even if the record has the whole page besides.
                () if change.takes_entries_away(index) => pg_sys::REGBUF_STANDARD | pg_sys::REGBUF_KEEP_DATA,
                () => pg_sys::REGBUF_STANDARD,
            };
            raw::XLogRegisterBuffer(index as u8, pin, flags as u8);
            raw::XLogRegisterBufData(index as u8, part.as_ptr().cast(), part.len() as u32);
        }
        raw::XLogInsert(MANAGER, (change.kind() as u8) << KIND_SHIFT)
    }
}

/// A record being redone or described.
#[derive(Clone, Copy)]
struct Record(*mut XLogReaderState);

impl Record {
    fn info(self) -> u8 {
        // SAFETY: the server gives a record that was read.
        unsafe { (*(*self.0).record).header.xl_info }
    }

    fn kind(self) -> Option<Kind> {
        Kind::of(self.info() >> KIND_SHIFT)
    }

    fn blocks(self) -> u8 {
        // SAFETY: as above.
        let last = unsafe { (*(*self.0).record).max_block_id };
        (last + 1) as u8
    }

    fn block(self, id: u8) -> &'static DecodedBkpBlock {
        // SAFETY: as above; there are as many as it says. It lives as long as the record.
        unsafe { &*(*(*self.0).record).blocks.as_ptr().add(id as usize) }
    }

    /// A block's part. None if the record has the whole page in its place, or if it cannot be read.
    fn part(self, id: u8) -> Option<Part> {
        let mut length = 0;
        // SAFETY: as above.
        let bytes = unsafe {
            let data = raw::XLogRecGetBlockData(self.0, id, &mut length);
            (!data.is_null()).then(|| core::slice::from_raw_parts(data.cast::<u8>(), length))?
        };
        Part::decode(self.kind()?, bytes)
    }
}

/// `rm_redo`: makes a change again. A page that entries are taken from is waited for until nobody pins it, before
/// anything else is locked: so that an index-only scan on a standby is done with its copy. An error in recovery ends the
/// process, so nothing has to be dropped.
#[pg_guard]
unsafe extern "C-unwind" fn redo(record: *mut XLogReaderState) {
    let record = Record(record);
    let mut buffers = [INVALID_BUFFER; MOST_BLOCKS];
    let mut is_done = [false; MOST_BLOCKS];
    let parts: [Option<Part>; MOST_BLOCKS] = core::array::from_fn(|id| {
        let id = id as u8;
        if id < record.blocks() { record.part(id) } else { None }
    });
    // A page that is deleted is empty, and its neighbour keeps what it has.
    let is_unlink = record.kind() == Some(Kind::Unlink);
    let takes_away = |id: usize| !is_unlink && parts[id].as_ref().is_some_and(Part::takes_entries_away);
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
            let page = &mut *server::page(buffers[id]).cast::<PageBytes>();
            if !parts[id].as_ref().is_some_and(|part| part.redo(page)) {
                fail(record, id as u8);
            }
            server::set_lsn(page.as_mut_ptr(), (*record.0).EndRecPtr);
            raw::MarkBufferDirty(buffers[id]);
        }
    }
    for buffer in buffers.into_iter().filter(|&buffer| buffer != INVALID_BUFFER) {
        // SAFETY: pinned and locked above.
        unsafe { raw::UnlockReleaseBuffer(buffer) };
    }
}

/// Pins and locks a block of a record, and says whether its part has still to be applied.
unsafe fn open(record: Record, id: u8, waits: bool) -> (XLogRedoAction::Type, Buffer) {
    let is_made = u32::from(record.block(id).flags) & pg_sys::BKPBLOCK_WILL_INIT != 0;
    let mode = match (is_made, waits) {
        (false, _) => ReadBufferMode::RBM_NORMAL,
        (true, false) => ReadBufferMode::RBM_ZERO_AND_LOCK,
        (true, true) => ReadBufferMode::RBM_ZERO_AND_CLEANUP_LOCK,
    };
    let mut buffer = INVALID_BUFFER;
    // SAFETY: a block of a record.
    let action = unsafe { raw::XLogReadBufferForRedoExtended(record.0, id, mode, waits, &mut buffer) };
    (action, buffer)
}

/// Gives up recovery: the record was written of another page than this.
#[cold]
unsafe fn fail(record: Record, id: u8) -> ! {
    let block = record.block(id);
    #[cfg(feature = "pg15")]
    let (space, database, file) = (block.rnode.spcNode, block.rnode.dbNode, block.rnode.relNode);
    #[cfg(not(feature = "pg15"))]
    let (space, database, file) = (block.rlocator.spcOid, block.rlocator.dbOid, block.rlocator.relNumber);
    // SAFETY: the record that is being redone.
    let lsn = unsafe { (*record.0).ReadRecPtr };
    server::raise(
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
    let record = Record(record);
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
    Kind::of(info >> KIND_SHIFT).map_or(core::ptr::null(), |kind| kind.name().as_ptr())
}

/// `rm_mask`: makes pages alike that differ in nothing that is logged, for `wal_consistency_checking`.
#[pg_guard]
unsafe extern "C-unwind" fn mask(bytes: *mut c_char, _block: BlockNumber) {
    // SAFETY: the server's copy of a page.
    page::mask(unsafe { &mut *bytes.cast::<PageBytes>() });
}
