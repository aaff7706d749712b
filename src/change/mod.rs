//! Changes: everything that happens to pages, as records that name slots and never compare keys (I7).
//!
//! A change covers up to four pages (I8). The forward path and redo apply the same edits.

mod record;

pub use record::{Decoded, Kind, Part};

use arrayvec::ArrayVec;

use crate::key::{Key, Tail};
use crate::page::{Cell, PageMut, Position, Ranges};
use crate::store::{Block, Horizon, PageBytes};

/// Most pages one change may touch: the limit of the server's generic records.
pub const MOST_BLOCKS: usize = 4;
/// Most edits in one change.
const MOST_EDITS: usize = 12;

/// One thing done to one page.
#[derive(Clone, Copy, Debug)]
pub enum Edit<'a> {
    /// A page that nobody uses becomes a copy of another.
    New(&'a PageBytes),
    /// A page becomes a copy of another: half of one that is split, and a root that grows.
    Image(&'a PageBytes),
    /// An entry is put where there is a free slot.
    Insert {
        /// Where.
        place: Position,
        /// The key's lane.
        lane: u128,
        /// The key's tail, flags included.
        tail: Tail,
        /// The child, in an inner page.
        child: Block,
        /// What the entry has outside its node.
        cell: Cell<'a>,
    },
    /// An in-page node is split in two.
    SplitNode {
        /// The node.
        node: u8,
        /// Entries that stay.
        keep: u8,
        /// The new node's separator.
        separator: u128,
    },
    /// An in-page node and its right neighbour share their entries evenly.
    Balance {
        /// The left node.
        left: u8,
    },
    /// A full in-page node whose entries differ in their tails alone becomes a run.
    Compact {
        /// The node.
        node: u8,
    },
    /// So many bytes beside the cells are not to be used before the next repack.
    Reserve {
        /// The bytes.
        bytes: u16,
    },
    /// The entries are distributed anew over the page.
    Repack {
        /// The bytes of a cell to leave room for.
        cell: u16,
    },
    /// The first entries stay, distributed anew, between the low fence and another high one. On pages of lanes.
    Halve {
        /// How many stay.
        keep: u16,
        /// The page's new right sibling.
        right: Block,
        /// Its new high fence.
        high: Key<u128>,
    },
    /// Entries of one in-page node are removed.
    Remove {
        /// The node.
        node: u8,
        /// A bit per slot.
        mask: u64,
    },
    /// Entries of many in-page nodes are removed; the nodes in descending order.
    Purge(&'a [(u8, u64)]),
    /// What is removed of the page was in the way of nobody but readers as old as this. It does nothing to the page.
    Conflict(Horizon),
    /// An inner entry points to another child.
    SetChild {
        /// The entry.
        place: Position,
        /// Its new child.
        child: Block,
    },
    /// The left sibling changes.
    SetLeft(Block),
    /// The right sibling changes.
    SetRight(Block),
    /// The low fence changes.
    SetLow(Key<u128>),
    /// The page is or is no longer split without its parent knowing.
    SetIncomplete(bool),
    /// The page is deleted.
    Delete {
        /// When, of an inner page, as the store tells the time; 0 of a leaf.
        time: u64,
    },
}

/// What happens to up to four pages, atomically. `P` names a page: a pin on the way forward, a block in a log.
#[derive(Clone, Debug)]
pub struct Change<'a, P> {
    blocks: [P; MOST_BLOCKS],
    block_count: usize,
    edits: ArrayVec<(u8, Edit<'a>), MOST_EDITS>,
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
    fn edits(&self, index: usize) -> impl Iterator<Item = &Edit<'a>> {
        self.edits.iter().filter(move |(block, _)| *block as usize == index).map(|(_, edit)| edit)
    }

    /// Applies the `index`-th page's edits to it and notes what they wrote. Reads nothing but that page and the change.
    /// The change fits the page: it was planned on it, or [`fits`](Change::fits) said so.
    pub fn apply(&self, index: usize, page: &mut PageBytes, ranges: &mut Ranges) {
        for edit in self.edits(index) {
            apply(edit, page, ranges);
        }
    }

    /// Whether the `index`-th page's edits can be applied to this page: what redo asks before it trusts a record.
    pub fn fits(&self, index: usize, page: &PageBytes) -> bool {
        self.redo(index, &mut page.clone())
    }

    /// Applies the `index`-th page's edits to it one after the other, as far as they fit. Whether all did.
    pub fn redo(&self, index: usize, page: &mut PageBytes) -> bool {
        redo(self.edits(index).copied(), page)
    }
}

/// Applies edits to a page one after the other, as far as they fit it. Whether all did.
fn redo<'a>(edits: impl IntoIterator<Item = Edit<'a>>, bytes: &mut PageBytes) -> bool {
    // Nobody asks for them.
    let mut ranges = Ranges::whole();
    edits.into_iter().all(|edit| match edit {
        Edit::New(image) | Edit::Image(image) => {
            PageMut::replace(bytes, image, &mut ranges);
            true
        }
        edit => PageMut::open(bytes, &mut ranges).is_some_and(|mut page| {
            page.expect();
            let fits = fits(&edit, &page);
            if fits {
                make(&edit, &mut page);
            }
            fits
        }),
    })
}

fn apply(edit: &Edit<'_>, bytes: &mut PageBytes, ranges: &mut Ranges) {
    if let Edit::New(image) | Edit::Image(image) = *edit {
        PageMut::replace(bytes, image, ranges);
    } else if let Some(mut page) = PageMut::open(bytes, ranges) {
        make(edit, &mut page);
    }
}

/// Makes an edit of a page that stays what it is.
fn make(edit: &Edit<'_>, page: &mut PageMut<'_>) {
    match *edit {
        Edit::New(_) | Edit::Image(_) | Edit::Conflict(_) => {}
        Edit::Insert { place, lane, tail, child, cell } => page.insert(place, lane, tail, child, cell),
        Edit::SplitNode { node, keep, separator } => page.split_node(node, keep, separator),
        Edit::Balance { left } => page.balance(left),
        Edit::Compact { node } => page.compact(node),
        Edit::Reserve { bytes } => page.reserve(bytes),
        Edit::Repack { cell } => page.repack(cell),
        Edit::Halve { keep, right, high } => page.halve(keep, right, high),
        Edit::Remove { node, mask } => page.remove(node, mask),
        Edit::Purge(nodes) => nodes.iter().for_each(|&(node, mask)| page.remove(node, mask)),
        Edit::SetChild { place, child } => page.set_child(place, child),
        Edit::SetLeft(block) => page.set_left(block),
        Edit::SetRight(block) => page.set_right(block),
        Edit::SetLow(key) => page.set_low(key),
        Edit::SetIncomplete(incomplete) => page.set_incomplete(incomplete),
        Edit::Delete { time } => page.delete(time),
    }
}

/// Whether an edit can be made of a page that stays what it is.
fn fits(edit: &Edit<'_>, page: &PageMut<'_>) -> bool {
    match *edit {
        Edit::Insert { place, lane, cell, .. } => page.can_insert(place, lane, cell),
        Edit::SplitNode { node, keep, .. } => page.can_split(node, keep),
        Edit::Balance { left } => page.can_balance(left),
        Edit::Compact { node } => page.can_compact(node),
        Edit::Reserve { bytes } => page.can_reserve(bytes),
        Edit::Repack { cell } => page.can_repack(cell),
        Edit::Halve { keep, .. } => page.can_halve(keep),
        Edit::Remove { node, .. } => page.has_node(node),
        Edit::Purge(nodes) => {
            nodes.iter().all(|&(node, _)| page.has_node(node)) && nodes.windows(2).all(|pair| pair[1].0 < pair[0].0)
        }
        Edit::SetChild { place, .. } => page.has_entry(place),
        _ => true,
    }
}
