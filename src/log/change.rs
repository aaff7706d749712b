//! Changes: what happens to up to five pages (I8), atomically.

use arrayvec::ArrayVec;

use super::edit::Edit;

/// Most pages one change may touch: of the server's records, without further ado. But for a page that is moved from
/// between two others, changes keep to four, the limit of generic records.
pub const MOST_BLOCKS: usize = 5;
/// Most edits in one change.
pub(super) const MOST_EDITS: usize = 16;

/// What happens to up to five pages, atomically. It names no pages: who applies it knows which they are, in lock order.
#[derive(Clone, Debug)]
pub struct Change<'a> {
    pages: u8,
    pub(super) edits: ArrayVec<(u8, Edit<'a>), MOST_EDITS>,
}

impl Default for Change<'_> {
    fn default() -> Self {
        Change::new()
    }
}

impl<'a> Change<'a> {
    /// A change of one page that does nothing yet.
    #[inline(always)]
    pub fn new() -> Self {
        Change { pages: 1, edits: ArrayVec::new() }
    }

    /// Adds an edit of the last page.
    #[inline(always)]
    pub fn edit(mut self, edit: Edit<'a>) -> Self {
        self.add(edit);
        self
    }

    /// Adds an edit of the last page to a change that stays where it is: it is large.
    #[inline(always)]
    pub fn add(&mut self, edit: Edit<'a>) {
        self.edits.push((self.pages - 1, edit));
    }

    /// Adds the next page in lock order; the edits that follow are its.
    #[inline(always)]
    pub fn page(mut self) -> Self {
        debug_assert!((self.pages as usize) < MOST_BLOCKS, "a change of too many pages");
        self.pages += 1;
        self
    }

    /// How many pages it changes.
    #[inline(always)]
    pub fn pages(&self) -> usize {
        self.pages.into()
    }

    /// The edits of the `index`-th page, in order.
    pub(crate) fn edits(&self, index: usize) -> impl Iterator<Item = &Edit<'a>> {
        self.edits.iter().filter(move |(page, _)| *page as usize == index).map(|(_, edit)| edit)
    }
}
