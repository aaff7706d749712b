//! The borrowed memory: a slice of words, where everything lies in it, and access that cannot leave it.

use core::ops::Range;

use fpbtree_engine::cache::word::Word;

/// Words of a cache line.
pub(super) const LINE: usize = 8;
/// Words of a page, the unit in which memory is handed out: 4 KB.
pub(super) const PAGE: usize = 512;
/// Most pages a region has: page numbers have 19 bits.
pub(super) const MAX_PAGES: usize = 1 << 19;

/// What the header begins with: a name and a version of the layout.
pub(super) const MAGIC: u64 = 0x3130_3053_5349_4B46;

/// The header's words. Those written often have cache lines of their own.
pub(super) mod header {
    pub const MAGIC: usize = 0;
    pub const WORDS: usize = 1;
    pub const PARTICIPANTS: usize = 2;
    /// Always zero: what a key without a node leads to.
    pub const ZERO: usize = 3;
    pub const EPOCH: usize = 8;
    pub const LOCK: usize = 16;
    /// Pages never used so far are those from here on.
    pub const FRESH: usize = 17;
    /// The list of pages given back: its head, and how many.
    pub const FREE_PAGES: usize = 18;
    pub const FREE_COUNT: usize = 19;
    /// The queue of retired nodes: its ends, and how many ever came.
    pub const LIMBO_HEAD: usize = 20;
    pub const LIMBO_TAIL: usize = 21;
    pub const RETIRED: usize = 22;
    /// For nodes of n values, the word here + n heads the list of pages with room.
    pub const CLASSES: usize = 24;
    pub const END: usize = CLASSES + 72;
}

/// Where things lie, in words. It follows from the size and the number of participants alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Participants, each with a cache line.
    pub participants: usize,
    /// Pages, each with a descriptor of two words.
    pub pages: usize,
    descriptors: usize,
    first_page: usize,
}

impl Layout {
    const PARTICIPANTS: usize = header::END;
    /// The first level: 2^16 entries of 32 bits.
    const FIRST_LEVEL: usize = 1 << 15;

    /// How `words` words are used; `None` where not even four pages fit.
    pub fn new(words: usize, participants: usize) -> Option<Layout> {
        let lines = participants.checked_mul(LINE)?;
        let descriptors = Self::PARTICIPANTS.checked_add(lines)?.checked_add(Self::FIRST_LEVEL)?;
        let first_page = |pages: usize| (descriptors + 2 * pages).next_multiple_of(PAGE);
        let mut pages = (words.checked_sub(descriptors)? / (PAGE + 2)).min(MAX_PAGES);
        while pages > 0 && first_page(pages) + pages * PAGE > words {
            pages -= 1;
        }
        (pages >= 4).then(|| Layout { participants, pages, descriptors, first_page: first_page(pages) })
    }

    /// The words that a new tree needs zeroed.
    pub fn fixed(&self) -> Range<usize> {
        0..self.descriptors + 2 * self.pages
    }

    pub fn participant(&self, slot: usize) -> usize {
        Self::PARTICIPANTS + slot * LINE
    }

    /// The half word of the first level's entry for the top 16 bits of a key.
    pub fn entry(&self, top: usize) -> usize {
        2 * (Self::PARTICIPANTS + self.participants * LINE) + top
    }

    pub fn descriptor(&self, page: usize) -> usize {
        self.descriptors + 2 * page
    }

    pub fn page(&self, page: usize) -> usize {
        self.first_page + page * PAGE
    }

    /// The page a node lies in; `None` where no page is.
    pub fn page_of(&self, node: u32) -> Option<usize> {
        let page = (node as usize).checked_sub(self.first_page)? / PAGE;
        (page < self.pages).then_some(page)
    }
}

/// The borrowed words and where things lie in them.
pub(super) struct Region<'a, W> {
    words: &'a [W],
    pub layout: Layout,
}

impl<W> Clone for Region<'_, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W> Copy for Region<'_, W> {}

impl<'a, W: Word> Region<'a, W> {
    /// `layout` must have been made for as many words.
    pub fn new(words: &'a [W], layout: Layout) -> Self {
        Region { words, layout }
    }

    /// The word at `index`, or the last one: what damaged memory points to is never outside.
    #[inline]
    pub fn at(&self, index: usize) -> &'a W {
        &self.words[index.min(self.words.len() - 1)]
    }

    /// The half word at `index`, counted in half words.
    #[inline]
    pub fn half(&self, index: usize) -> u32 {
        (self.at(index / 2).load() >> (index % 2 * 32)) as u32
    }

    /// Replaces the half word at `index` if it is `current`.
    pub fn swap_half(&self, index: usize, current: u32, new: u32) -> bool {
        let (word, shift) = (self.at(index / 2), index % 2 * 32);
        let mut seen = word.load();
        while (seen >> shift) as u32 == current {
            match word.compare_exchange(seen, seen ^ (u64::from(current ^ new) << shift)) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    #[inline]
    pub fn prefetch(&self, index: usize) {
        fpbtree_engine::simd::prefetch(core::ptr::from_ref(self.at(index)).cast());
    }
}
