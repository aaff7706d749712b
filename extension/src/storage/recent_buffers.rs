//! Where this server process has seen pages last, so that most are pinned without asking the server's buffer table. All
//! of it is hints: the server compares what a buffer holds.

use core::cell::UnsafeCell;

use fpbtree_engine::format::Block;
use pgrx::pg_sys::{Buffer, ForkNumber::MAIN_FORKNUM, Relation};

use crate::pg::per_backend::PerBackend;
use crate::pg::{ffi, relation};

/// Every so many finds of a remembered buffer, the page is read the ordinary way: only that raises its usage count.
const ORDINARY_READ_EVERY: u32 = 64;

/// Where a page was seen last. Any content is a safe hint; zero is "nowhere".
#[derive(Clone, Copy)]
struct Remembered {
    index: u32,
    block: Block,
    buffer: Buffer,
    finds: u32,
}

/// Slots for remembered pages, of all indexes together, chosen by index and block.
const REMEMBERED: usize = 1 << 14;

static SLOTS: PerBackend<UnsafeCell<[Remembered; REMEMBERED]>> = PerBackend::new(UnsafeCell::new(
    [Remembered { index: 0, block: 0, buffer: relation::INVALID_BUFFER, finds: 0 }; REMEMBERED],
));

/// Where the page would be remembered.
#[inline]
fn slot(index: u32, block: Block) -> *mut Remembered {
    let at = block.wrapping_add(index.wrapping_mul(0x9E37_79B1)) as usize % REMEMBERED;
    SLOTS.get().cast::<Remembered>().wrapping_add(at)
}

/// Pins the page where it was seen last, if it is still there; it is not locked. `index` is the relation's number.
///
/// # Safety
/// `rel` is open.
#[inline]
pub unsafe fn recall(rel: Relation, index: u32, block: Block) -> Option<Buffer> {
    let buffer = likely_buffer(index, block)?;
    // SAFETY: a wrong buffer is refused by the server, which compares what it holds.
    unsafe {
        if !ffi::ReadRecentBuffer(relation::locator(rel), MAIN_FORKNUM, block, buffer) {
            return None;
        }
        relation::count_buffer_hit(rel);
    }
    Some(buffer)
}

/// Where the page was seen last, unless it is to be read the ordinary way now.
#[inline]
pub fn likely_buffer(index: u32, block: Block) -> Option<Buffer> {
    // SAFETY: a slot of the table; nothing here comes back to this module.
    let slot = unsafe { &mut *slot(index, block) };
    if (slot.index, slot.block) != (index, block) || slot.buffer == relation::INVALID_BUFFER {
        return None;
    }
    slot.finds = slot.finds.wrapping_add(1);
    (!slot.finds.is_multiple_of(ORDINARY_READ_EVERY)).then_some(slot.buffer)
}

/// Notes where a page was read the ordinary way.
pub fn remember(index: u32, block: Block, buffer: Buffer) {
    // SAFETY: a slot of the table; nothing here comes back to this module.
    let slot = unsafe { &mut *slot(index, block) };
    if (slot.index, slot.block, slot.buffer) != (index, block, buffer) {
        *slot = Remembered { index, block, buffer, finds: 0 };
    }
}
