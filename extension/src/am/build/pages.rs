//! Where the pages of a new index go: to the server's bulk writer where it has one (17 on), which logs and writes 32 at
//! a time out of memory of its own; else, and where several processes write, through shared buffers.

use fpbtree_engine::format::{Block, PageBytes};
use fpbtree_engine::tree::load::Pages;
use pgrx::pg_sys::{self, Buffer, ForkNumber::MAIN_FORKNUM, Relation};

use crate::pg::memory::Zeroed;
use crate::pg::{ffi, relation};

/// The pages of an index that one process builds, in the order they are written.
pub(super) trait NewFile: Pages {
    /// Begins an index's file.
    ///
    /// # Safety
    /// The file is empty, and nobody else uses it. All calls may raise.
    unsafe fn begin(rel: Relation) -> Self;

    /// Logs what the relation's kind asks for, and sees to it that all will be on disk.
    ///
    /// # Safety
    /// All pages have been written.
    unsafe fn end(self);
}

/// Writes pages through shared buffers, unlogged, until the end.
pub(super) struct Buffered {
    pub rel: Relation,
    /// How many the file has.
    pub blocks: Block,
}

impl NewFile for Buffered {
    unsafe fn begin(rel: Relation) -> Buffered {
        Buffered { rel, blocks: 0 }
    }

    unsafe fn end(self) {
        // SAFETY: `rel` is open and all pages have been written.
        unsafe { log(self.rel, Piece { next: 0, end: self.blocks }) };
    }
}

impl Pages for Buffered {
    /// Writes a page; the file grows as far as that takes, the pages in between to be written later.
    fn write(&mut self, block: Block, page: &PageBytes) {
        // SAFETY: nobody else uses the file yet, or only blocks that are there.
        unsafe {
            while self.blocks <= block {
                let buffer = ffi::ReadBuffer(self.rel, relation::P_NEW);
                ffi::LockBuffer(buffer, ffi::BUFFER_LOCK_EXCLUSIVE as i32);
                if self.blocks == block {
                    fill(buffer, page);
                } else {
                    ffi::UnlockReleaseBuffer(buffer);
                }
                self.blocks += 1;
                if self.blocks > block {
                    return;
                }
            }
            put_page(self.rel, block, page);
        }
    }
}

/// Blocks of a file that lie side by side.
#[derive(Clone, Copy)]
pub(super) struct Piece {
    pub next: Block,
    pub end: Block,
}

// SAFETY: numbers.
unsafe impl Zeroed for Piece {}

/// Makes the file longer by some blocks, `most` at most, which are neither pinned nor locked then. Several processes
/// may do it at the same time.
///
/// # Safety
/// The index is being built; nothing is locked. May raise.
pub(super) unsafe fn take_blocks(rel: Relation, most: usize) -> Piece {
    // SAFETY: `rel` is open and nothing of it is locked.
    unsafe { extend(rel, most.min(AT_ONCE)) }
}

/// Most blocks by which a file is made longer at once.
pub(super) const AT_ONCE: usize = 64;

#[cfg(feature = "pg15")]
unsafe fn extend(rel: Relation, count: usize) -> Piece {
    let lock = pg_sys::ExclusiveLock as pg_sys::LOCKMODE;
    // SAFETY: `rel` is open; the extension lock is held while the file grows.
    unsafe {
        ffi::LockRelationForExtension(rel, lock);
        let next = ffi::RelationGetNumberOfBlocksInFork(rel, MAIN_FORKNUM);
        for _ in 0..count {
            ffi::ReleaseBuffer(ffi::ReadBuffer(rel, relation::P_NEW));
        }
        ffi::UnlockRelationForExtension(rel, lock);
        Piece { next, end: next + count as Block }
    }
}

/// The server makes it longer by fewer if it has not as many buffers to pin.
#[cfg(not(feature = "pg15"))]
unsafe fn extend(rel: Relation, most: usize) -> Piece {
    let file = pg_sys::BufferManagerRelation { rel, ..Default::default() };
    let strategy = core::ptr::null_mut();
    let mut buffers = [relation::INVALID_BUFFER; AT_ONCE];
    let to = buffers.as_mut_ptr();
    let mut count = 0;
    // SAFETY: `rel` is open, and there is room for as many buffers as are asked for.
    unsafe {
        let next = ffi::ExtendBufferedRelBy(file, MAIN_FORKNUM, strategy, 0, most as u32, to, &raw mut count);
        buffers[..count as usize].iter().for_each(|&buffer| ffi::ReleaseBuffer(buffer));
        Piece { next, end: next + count }
    }
}

/// Writes a page that the file has room for; it is pinned and exclusively locked only meanwhile.
///
/// # Safety
/// Nobody else uses the page yet. May raise.
pub(super) unsafe fn put_page(rel: Relation, block: Block, page: &PageBytes) {
    // SAFETY: `rel` is open, and nobody else uses the page.
    unsafe {
        let buffer = ffi::ReadBuffer(rel, block);
        ffi::LockBuffer(buffer, ffi::BUFFER_LOCK_EXCLUSIVE as i32);
        fill(buffer, page);
    }
}

/// Fills a page that is pinned and exclusively locked, and unlocks and unpins it.
unsafe fn fill(buffer: Buffer, page: &PageBytes) {
    // SAFETY: pinned and exclusively locked.
    unsafe {
        relation::page(buffer).copy_from_nonoverlapping(page.as_ptr(), page.len());
        ffi::MarkBufferDirty(buffer);
        ffi::UnlockReleaseBuffer(buffer);
    }
}

/// Logs pages that have been written through shared buffers.
///
/// # Safety
/// Nobody writes to them. Pages that have not been written are passed over. May raise.
pub(super) unsafe fn log(rel: Relation, piece: Piece) {
    // SAFETY: `rel` is open, and nobody writes to the pages.
    unsafe {
        if relation::needs_wal(rel) {
            ffi::log_newpage_range(rel, MAIN_FORKNUM, piece.next, piece.end, true);
        }
    }
}
