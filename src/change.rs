//! Changes: everything that happens to pages, as records that name slots and never compare keys (I7).
//!
//! A change covers up to four pages (I8). The forward path and redo both run [`Change::apply`].

use crate::key::{Key, Tail};
use crate::page::{Cell, PageMut, Position, Ranges};
use crate::store::{Block, PAGE_SIZE, PageBytes};

/// Most pages one change may touch: the limit of the server's generic records.
pub const MOST_BLOCKS: usize = 4;
/// Most edits in one change.
const MOST_EDITS: usize = 12;

/// One thing done to one page.
#[derive(Clone, Copy, Debug)]
pub enum Edit<'a> {
    /// The page becomes a copy of another: new pages, and a root that grows.
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
    /// The entries are distributed anew over the page.
    Repack {
        /// The bytes of a cell to leave room for.
        cell: u16,
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
    Delete,
}

/// What happens to up to four pages, atomically. `P` names a page: a pin on the way forward, a block in a log.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a, P> {
    blocks: [P; MOST_BLOCKS],
    block_count: usize,
    edits: [(u8, Edit<'a>); MOST_EDITS],
    edit_count: usize,
}

impl<'a, P: Copy> Change<'a, P> {
    /// A change that does nothing yet, of which `first` is the first page in lock order.
    pub fn new(first: P) -> Self {
        Change { blocks: [first; MOST_BLOCKS], block_count: 1, edits: [(0, Edit::Delete); MOST_EDITS], edit_count: 0 }
    }

    /// Adds an edit of the page named last.
    pub fn edit(mut self, edit: Edit<'a>) -> Self {
        self.edits[self.edit_count] = (self.block_count as u8 - 1, edit);
        self.edit_count += 1;
        self
    }

    /// Adds the next page in lock order; the edits that follow are its.
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
        self.edits[..self.edit_count].iter().filter(move |(block, _)| *block as usize == index).map(|(_, edit)| edit)
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
        let (mut page, mut ranges) = (*page, Ranges::new());
        self.edits(index).all(|edit| {
            let fits = edit_fits(edit, &mut page);
            if fits {
                apply(edit, &mut page, &mut ranges);
            }
            fits
        })
    }
}

fn apply(edit: &Edit<'_>, bytes: &mut PageBytes, ranges: &mut Ranges) {
    if let Edit::Image(image) = *edit {
        return PageMut::replace(bytes, image, ranges);
    }
    let Some(mut page) = PageMut::open(bytes, ranges) else {
        return;
    };
    match *edit {
        Edit::Image(_) => {}
        Edit::Insert { place, lane, tail, child, cell } => page.insert(place, lane, tail, child, cell),
        Edit::SplitNode { node, keep, separator } => page.split_node(node, keep, separator),
        Edit::Balance { left } => page.balance(left),
        Edit::Compact { node } => page.compact(node),
        Edit::Repack { cell } => page.repack(cell),
        Edit::Remove { node, mask } => page.remove(node, mask),
        Edit::Purge(nodes) => nodes.iter().for_each(|&(node, mask)| page.remove(node, mask)),
        Edit::SetChild { place, child } => page.set_child(place, child),
        Edit::SetLeft(block) => page.set_left(block),
        Edit::SetRight(block) => page.set_right(block),
        Edit::SetLow(key) => page.set_low(key),
        Edit::SetIncomplete(incomplete) => page.set_incomplete(incomplete),
        Edit::Delete => page.delete(),
    }
}

fn edit_fits(edit: &Edit<'_>, bytes: &mut PageBytes) -> bool {
    let mut ranges = Ranges::new();
    if let Edit::Image(_) = edit {
        return true;
    }
    let Some(page) = PageMut::open(bytes, &mut ranges) else {
        return false;
    };
    match *edit {
        Edit::Insert { place, lane, cell, .. } => page.can_insert(place, lane, cell),
        Edit::SplitNode { node, keep, .. } => page.can_split(node, keep),
        Edit::Balance { left } => page.can_balance(left),
        Edit::Compact { node } => page.can_compact(node),
        Edit::Repack { cell } => page.can_repack(cell),
        Edit::Remove { node, .. } => page.has_node(node),
        Edit::Purge(nodes) => {
            nodes.iter().all(|&(node, _)| page.has_node(node)) && nodes.windows(2).all(|pair| pair[1].0 < pair[0].0)
        }
        Edit::SetChild { place, .. } => page.has_entry(place),
        _ => true,
    }
}

/// A change as bytes, for a log: versioned by its first byte.
const VERSION: u8 = 1;

impl<P: Copy> Change<'_, P> {
    /// Appends the change to `out`; `block` says which block a page is.
    pub fn encode(&self, block: impl Fn(P) -> Block, out: &mut Vec<u8>) {
        out.extend([VERSION, self.block_count as u8]);
        for &page in self.blocks() {
            out.extend(block(page).to_le_bytes());
        }
        out.push(self.edit_count as u8);
        for (index, edit) in &self.edits[..self.edit_count] {
            out.push(*index);
            encode_edit(edit, out);
        }
    }
}

fn encode_edit(edit: &Edit<'_>, out: &mut Vec<u8>) {
    fn key(out: &mut Vec<u8>, key: Key<u128>) {
        out.extend(key.lane.to_le_bytes());
        out.extend(key.tail.raw().to_le_bytes());
    }
    match *edit {
        Edit::Image(image) => {
            out.push(1);
            out.extend(image.iter());
        }
        Edit::Insert { place, lane, tail, child, cell } => {
            out.extend([2, place.node, place.slot]);
            out.extend(lane.to_le_bytes());
            out.extend(tail.raw().to_le_bytes());
            out.extend(child.to_le_bytes());
            encode_cell(cell, out);
        }
        Edit::SplitNode { node, keep, separator } => {
            out.extend([3, node, keep]);
            out.extend(separator.to_le_bytes());
        }
        Edit::Balance { left } => out.extend([4, left]),
        Edit::Repack { cell } => {
            out.push(5);
            out.extend(cell.to_le_bytes());
        }
        Edit::Remove { node, mask } => {
            out.extend([6, 1, node]);
            out.extend(mask.to_le_bytes());
        }
        Edit::Purge(nodes) => {
            out.extend([6, nodes.len() as u8]);
            for (node, mask) in nodes {
                out.push(*node);
                out.extend(mask.to_le_bytes());
            }
        }
        Edit::SetChild { place, child } => {
            out.extend([7, place.node, place.slot]);
            out.extend(child.to_le_bytes());
        }
        Edit::SetLeft(block) => {
            out.push(8);
            out.extend(block.to_le_bytes());
        }
        Edit::SetRight(block) => {
            out.push(9);
            out.extend(block.to_le_bytes());
        }
        Edit::SetLow(fence) => {
            out.push(10);
            key(out, fence);
        }
        Edit::SetIncomplete(incomplete) => out.extend([11, u8::from(incomplete)]),
        Edit::Delete => out.push(12),
        Edit::Compact { node } => out.extend([13, node]),
    }
}

fn encode_cell(cell: Cell<'_>, out: &mut Vec<u8>) {
    match cell {
        Cell::None => out.push(0),
        Cell::Shared(at) => {
            out.push(1);
            out.extend(at.to_le_bytes());
        }
        Cell::New { rest, extra } => {
            out.push(2);
            out.extend((rest.len() as u16).to_le_bytes());
            out.extend((extra.len() as u16).to_le_bytes());
            out.extend(rest);
            out.extend(extra);
        }
    }
}

/// A change read back from a log. It owns what its edits point to.
#[derive(Debug)]
pub struct Decoded {
    blocks: Vec<Block>,
    edits: Vec<(u8, OwnedEdit)>,
}

#[derive(Debug)]
enum OwnedEdit {
    Image(Box<PageBytes>),
    Purge(Vec<(u8, u64)>),
    /// An insertion, and the two parts of its own cell.
    Insert(Edit<'static>, Vec<u8>, Vec<u8>),
    Plain(Edit<'static>),
}

impl OwnedEdit {
    fn lend(&self) -> Edit<'_> {
        match self {
            OwnedEdit::Image(image) => Edit::Image(image),
            OwnedEdit::Purge(nodes) => Edit::Purge(nodes),
            OwnedEdit::Plain(edit) => *edit,
            OwnedEdit::Insert(edit, rest, extra) => match *edit {
                Edit::Insert { place, lane, tail, child, .. } => {
                    Edit::Insert { place, lane, tail, child, cell: Cell::New { rest, extra } }
                }
                other => other,
            },
        }
    }
}

impl Decoded {
    /// Reads a change, or `None` if the bytes are not exactly one.
    pub fn decode(bytes: &[u8]) -> Option<Decoded> {
        let mut reader = Reader(bytes);
        (reader.u8()? == VERSION).then_some(())?;
        let count = reader.u8()? as usize;
        (1..=MOST_BLOCKS).contains(&count).then_some(())?;
        let blocks = (0..count).map(|_| reader.u32()).collect::<Option<Vec<_>>>()?;
        let edits = reader.u8()? as usize;
        (edits <= MOST_EDITS).then_some(())?;
        let edits = (0..edits)
            .map(|_| Some((reader.u8().filter(|&index| (index as usize) < count)?, reader.edit()?)))
            .collect::<Option<Vec<_>>>()?;
        reader.0.is_empty().then_some(Decoded { blocks, edits })
    }

    /// The change.
    pub fn change(&self) -> Change<'_, Block> {
        let mut change = Change::new(self.blocks[0]);
        change.blocks[..self.blocks.len()].copy_from_slice(&self.blocks);
        change.block_count = self.blocks.len();
        for (at, (index, edit)) in self.edits.iter().enumerate() {
            change.edits[at] = (*index, edit.lend());
        }
        change.edit_count = self.edits.len();
        change
    }
}

/// Takes numbers off the front of a record.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (front, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*front)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn u128(&mut self) -> Option<u128> {
        self.take().map(u128::from_le_bytes)
    }

    fn bytes(&mut self, count: usize) -> Option<Vec<u8>> {
        let (front, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(front.to_vec())
    }

    fn insertion(&mut self) -> Option<OwnedEdit> {
        let (place, lane) = (self.place()?, self.u128()?);
        let (tail, child) = (Tail::from_raw(self.u64()?), self.u32()?);
        let plain = |cell| Edit::Insert { place, lane, tail, child, cell };
        match self.u8()? {
            0 => Some(OwnedEdit::Plain(plain(Cell::None))),
            1 => Some(OwnedEdit::Plain(plain(Cell::Shared(self.u16()?)))),
            2 => {
                let (rest, extra) = (self.u16()? as usize, self.u16()? as usize);
                Some(OwnedEdit::Insert(plain(Cell::None), self.bytes(rest)?, self.bytes(extra)?))
            }
            _ => None,
        }
    }

    fn place(&mut self) -> Option<Position> {
        Some(Position { node: self.u8()?, slot: self.u8()? })
    }

    fn key(&mut self) -> Option<Key<u128>> {
        Some(Key::new(self.u128()?, Tail::from_raw(self.u64()?)))
    }

    fn edit(&mut self) -> Option<OwnedEdit> {
        let plain = match self.u8()? {
            1 => return Some(OwnedEdit::Image(Box::new(self.take::<PAGE_SIZE>()?))),
            2 => return self.insertion(),
            3 => Edit::SplitNode { node: self.u8()?, keep: self.u8()?, separator: self.u128()? },
            4 => Edit::Balance { left: self.u8()? },
            5 => Edit::Repack { cell: self.u16()? },
            6 => {
                let count = self.u8()?;
                let nodes = (0..count).map(|_| Some((self.u8()?, self.u64()?))).collect::<Option<Vec<_>>>()?;
                return Some(OwnedEdit::Purge(nodes));
            }
            7 => Edit::SetChild { place: self.place()?, child: self.u32()? },
            8 => Edit::SetLeft(self.u32()?),
            9 => Edit::SetRight(self.u32()?),
            10 => Edit::SetLow(self.key()?),
            11 => Edit::SetIncomplete(self.u8()? != 0),
            12 => Edit::Delete,
            13 => Edit::Compact { node: self.u8()? },
            _ => return None,
        };
        Some(OwnedEdit::Plain(plain))
    }
}
