//! Changes: what happens to up to four pages (I8), atomically.

use arrayvec::ArrayVec;

use super::edit::Edit;

/// Most pages one change may touch: the limit of the server's generic records.
pub const MOST_BLOCKS: usize = 4;
/// Most edits in one change.
pub(super) const MOST_EDITS: usize = 12;

/// What happens to up to four pages, atomically. `P` names a page: a pin on the way forward, a block in a log.
#[derive(Clone, Debug)]
pub struct Change<'a, P> {
    blocks: [P; MOST_BLOCKS],
    pub(super) block_count: usize,
    pub(super) edits: ArrayVec<(u8, Edit<'a>), MOST_EDITS>,
}

impl<'a, P: Copy> Change<'a, P> {
    /// A change that does nothing yet, of which `first` is the first page in lock order.
    #[inline(always)]
    pub fn new(first: P) -> Self {
        Change { blocks: [first; MOST_BLOCKS], block_count: 1, edits: ArrayVec::new() }
    }

    /// Adds an edit of the page named last.
    #[inline(always)]
    pub fn edit(mut self, edit: Edit<'a>) -> Self {
        self.add(edit);
        self
    }

    /// The same of a change that stays where it is: it is large.
    #[inline(always)]
    pub fn add(&mut self, edit: Edit<'a>) {
        self.edits.push((self.block_count as u8 - 1, edit));
    }

    /// Adds the next page in lock order; the edits that follow are its.
    #[inline(always)]
    pub fn page(mut self, page: P) -> Self {
        self.blocks[self.block_count] = page;
        self.block_count += 1;
        self
    }

    /// The pages, in lock order.
    pub fn blocks(&self) -> &[P] {
        &self.blocks[..self.block_count]
    }

    /// The edits of the `index`-th page, in order.
    pub(crate) fn edits(&self, index: usize) -> impl Iterator<Item = &Edit<'a>> {
        self.edits.iter().filter(move |(block, _)| *block as usize == index).map(|(_, edit)| edit)
    }
}
