//! A table's visibility map, for scans that ask it about the row of every match.

use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};

use fpbtree_engine::format::Tid;
use pgrx::pg_sys::{self, Buffer, Relation};

use crate::pg::relation::{self, INVALID_BUFFER};

/// Pages of the map that are kept pinned, as rows in the order of an index are all over the table.
const MOST_PAGES: usize = 32;
/// Rows that are looked at together.
const STRETCH: usize = 8;
/// Bytes of a page's header.
const HEADER: usize = 24;
/// Blocks that a word of the map, and a page of it, tell about.
const BLOCKS_A_WORD: usize = 32;
const BLOCKS_A_PAGE: u32 = (pg_sys::BLCKSZ - HEADER as u32) * 4;
/// `VISIBILITYMAP_ALL_VISIBLE` of each block.
const ALL_VISIBLE: u64 = 0x5555_5555_5555_5555;

/// Two bits for each block.
type MapPage = [AtomicU64; BLOCKS_A_PAGE as usize / BLOCKS_A_WORD];

/// Whether the bit of a block is set in a page of the map.
#[inline(always)]
fn is_set(page: &MapPage, block: usize) -> bool {
    page[block / BLOCKS_A_WORD].load(Ordering::Relaxed) >> (block % BLOCKS_A_WORD * 2) & 1 != 0
}

/// Whether the bits of all blocks from one to another are set in a page of the map.
#[inline]
fn are_set(page: &MapPage, first: usize, last: usize) -> bool {
    let (from, to) = (first / BLOCKS_A_WORD, last / BLOCKS_A_WORD);
    let missing = |word: usize| !page[word].load(Ordering::Relaxed) & ALL_VISIBLE;
    // The bits of the blocks from the first on, and of those up to the last.
    let above = u64::MAX << (first % BLOCKS_A_WORD * 2);
    let below = u64::MAX >> (62 - last % BLOCKS_A_WORD * 2);
    if from == to {
        return missing(from) & above & below == 0;
    }
    // Some words at a time, without a branch for each.
    let are_full = |words: &[AtomicU64]| {
        words.iter().fold(!0, |all, word| all & word.load(Ordering::Relaxed)) & ALL_VISIBLE == ALL_VISIBLE
    };
    missing(from) & above == 0 && missing(to) & below == 0 && page[from + 1..to].chunks(16).all(are_full)
}

/// Has the server pin a page of the map in place of the one that is kept.
#[cold]
unsafe fn read(heap: Relation, number: u32, (kept, buffer): &mut (u32, Buffer)) {
    *kept = number;
    // SAFETY: an open table; a pin that is ours, or none.
    unsafe { relation::is_all_visible(heap, number * BLOCKS_A_PAGE, buffer) };
}

/// A page that says of no block that it is all-visible, where the map has none.
static NONE_VISIBLE: MapPage = [const { AtomicU64::new(0) }; BLOCKS_A_PAGE as usize / BLOCKS_A_WORD];

/// The pages of a map that tell about some blocks, which are near enough that all are pinned.
pub struct MapPart<'m> {
    pages: [&'m MapPage; MOST_PAGES],
    /// The only page, if there is but one, and the first block that it tells about.
    only: Option<(&'m MapPage, u32)>,
}

impl MapPart<'_> {
    /// Hands over the places of those rows, of these blocks, that the map does not say to be visible to everyone.
    #[inline]
    pub fn for_each_doubtful(&self, rows: &[Tid], see: impl FnMut(usize)) {
        match self.only {
            Some((page, first)) => for_each(rows, |block| is_set(page, (block - first) as usize), see),
            None => {
                let page = |block| self.pages[(block / BLOCKS_A_PAGE) as usize % MOST_PAGES];
                for_each(rows, |block| is_set(page(block), (block % BLOCKS_A_PAGE) as usize), see);
            }
        }
    }
}

/// Hands over the places of those rows whose block is not all-visible. Most are, so that some are looked at with one branch.
#[inline(always)]
fn for_each(rows: &[Tid], is_all_visible: impl Fn(u32) -> bool, mut see: impl FnMut(usize)) {
    let (stretches, _) = rows.as_chunks::<STRETCH>();
    let mut one_by_one = |rows: Range<usize>, all: &[Tid]| {
        rows.filter(|&at| !is_all_visible(all[at].block())).for_each(&mut see);
    };
    for (number, stretch) in stretches.iter().enumerate() {
        if !stretch.iter().fold(true, |all, tid| all & is_all_visible(tid.block())) {
            one_by_one(number * STRETCH..(number + 1) * STRETCH, rows);
        }
    }
    one_by_one(stretches.len() * STRETCH..rows.len(), rows);
}

/// Pages of a table's visibility map, pinned.
pub struct VisibilityMap {
    /// The page that is kept in each place, and its pin.
    pages: [(u32, Buffer); MOST_PAGES],
}

impl VisibilityMap {
    /// No page yet.
    pub const fn new() -> VisibilityMap {
        VisibilityMap { pages: [(0, INVALID_BUFFER); MOST_PAGES] }
    }

    /// Whether every row of a block is visible to everyone, as far as the map says.
    ///
    /// # Safety
    /// The same open table each time, of which a snapshot is held that is older than what its answer is used for. May
    /// raise.
    #[inline(always)]
    pub unsafe fn is_all_visible(&mut self, heap: Relation, block: u32) -> bool {
        // SAFETY: the caller's.
        let page = unsafe { self.page(heap, block / BLOCKS_A_PAGE) };
        page.is_some_and(|page| is_set(page, (block % BLOCKS_A_PAGE) as usize))
    }

    /// Whether that holds for all blocks from one to another, both included. It is soon found out: a word tells about 32
    /// of them.
    ///
    /// # Safety
    /// As for [`is_all_visible`](Self::is_all_visible).
    #[inline]
    pub unsafe fn are_all_visible(&mut self, heap: Relation, first: u32, last: u32) -> bool {
        (first / BLOCKS_A_PAGE..=last / BLOCKS_A_PAGE).all(|number| {
            let before = number * BLOCKS_A_PAGE;
            let (first, last) = (first.max(before) - before, (last - before).min(BLOCKS_A_PAGE - 1));
            // SAFETY: the caller's.
            unsafe { self.page(heap, number) }.is_some_and(|page| are_set(page, first as usize, last as usize))
        })
    }

    /// What tells about the blocks from one to another, both included, if so many pages of the map are kept.
    ///
    /// # Safety
    /// As for [`is_all_visible`](Self::is_all_visible).
    pub unsafe fn part(&mut self, heap: Relation, first: u32, last: u32) -> Option<MapPart<'_>> {
        let mut pages = [&NONE_VISIBLE; MOST_PAGES];
        let (first, last) = (first / BLOCKS_A_PAGE, last / BLOCKS_A_PAGE);
        if last - first >= MOST_PAGES as u32 {
            return None;
        }
        for number in first..=last {
            // SAFETY: the caller's.
            let page = unsafe { self.page(heap, number) }.map(core::ptr::from_ref);
            // SAFETY: it has a place of its own, so that it stays pinned while the map is borrowed.
            if let Some(page) = page.map(|page| unsafe { &*page }) {
                pages[number as usize % MOST_PAGES] = page;
            }
        }
        let only = (first == last).then_some((pages[first as usize % MOST_PAGES], first * BLOCKS_A_PAGE));
        Some(MapPart { pages, only })
    }

    /// A page of the map, by its number, if there is one.
    #[inline(always)]
    unsafe fn page(&mut self, heap: Relation, number: u32) -> Option<&MapPage> {
        let place = &mut self.pages[number as usize % MOST_PAGES];
        if place.0 != number || place.1 == INVALID_BUFFER {
            // SAFETY: an open table.
            unsafe { read(heap, number, place) };
        }
        let bytes = (place.1 != INVALID_BUFFER).then_some(place.1)?;
        // SAFETY: a page that stays pinned; others change its bytes under a lock, and they are read as the server
        // reads them, without one.
        Some(unsafe { &*relation::page(bytes).add(HEADER).cast::<MapPage>() })
    }

    /// Gives all pins back.
    ///
    /// # Safety
    /// They are ours.
    pub unsafe fn release(&mut self) {
        for (_, buffer) in &mut self.pages {
            let pinned = core::mem::replace(buffer, INVALID_BUFFER);
            if pinned != INVALID_BUFFER {
                // SAFETY: pinned by us.
                unsafe { crate::pg::ffi::ReleaseBuffer(pinned) };
            }
        }
    }
}
