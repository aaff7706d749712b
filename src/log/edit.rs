//! What can be done to a page, as data: it names slots, and never compares keys (I7).

use crate::format::{Block, Key, PageBytes, Position, Tid};

/// One thing done to one page.
#[derive(Clone, Copy, Debug)]
pub enum Edit<'a> {
    /// A page that nobody uses becomes a copy of another.
    New(&'a PageBytes),
    /// A page becomes a copy of another: half of one that is split, and a root that grows.
    Image(&'a PageBytes),
    /// An entry is put where there is room. A node whose frame it does not fit gets another.
    Insert {
        /// Where.
        place: Position,
        /// The key's lane.
        lane: u128,
        /// The key's TID, flags included.
        tid: Tid,
        /// The child, in an inner page.
        child: Block,
        /// What the entry has outside its node.
        cell: Cell<'a>,
    },
    /// Insertions of a batch, one after the other, with what makes room for them in their nodes.
    Series {
        /// The edits, as they are in a log.
        edits: &'a [u8],
        /// What they make of the page, if that is known.
        page: Option<&'a PageBytes>,
    },
    /// An in-page node is split in two.
    SplitNode {
        /// The node.
        node: u8,
        /// Entries that stay.
        keep: u8,
    },
    /// An in-page node and its right neighbour share their entries.
    Balance {
        /// The left node.
        left: u8,
        /// Entries that the left node has then.
        keep: u8,
    },
    /// So many bytes beside the cells are not to be used before the next repack.
    Reserve {
        /// The bytes.
        bytes: u16,
    },
    /// The entries are distributed anew over the page: so many to each in-page node.
    Repack(&'a [u8]),
    /// The first entries stay, distributed anew, between the low fence and another high one.
    Halve {
        /// How many stay in each in-page node.
        counts: &'a [u8],
        /// The page's new right sibling.
        right: Block,
        /// Its new high fence.
        high: Fence<'a>,
    },
    /// Entries of one in-page node are removed.
    Remove {
        /// The node.
        node: u8,
        /// A bit per slot.
        mask: u128,
    },
    /// Entries of many in-page nodes are removed; the nodes in descending order.
    RemoveSet(&'a [(u8, u128)]),
    /// What is removed of the page was in the way of nobody but readers as old as this. It does nothing to the page.
    Conflict(Horizon),
    /// The left sibling changes.
    SetLeft(Block),
    /// The right sibling changes.
    SetRight(Block),
    /// The low fence changes.
    SetLow(Key<u128>),
    /// The page is or is no longer split without its parent knowing.
    SetIncomplete(bool),
    /// The leaf is deleted; its entries are its right neighbour's.
    GiveAway,
    /// The page is deleted.
    Delete {
        /// When, of an inner page, as the store tells the time; 0 of a leaf.
        time: u64,
    },
}

/// A fence of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fence<'a> {
    /// Of lanes.
    Lane(Key<u128>),
    /// Of byte strings.
    Bytes {
        /// The normal part.
        normal: &'a [u8],
        /// The value part.
        value: &'a [u8],
        /// What breaks ties.
        tid: Tid,
        /// How many of its bytes all keys of the page begin with then.
        prefix: u16,
    },
}

/// What an entry has outside its node: the bytes of its key behind the lane, and what it carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cell<'a> {
    /// Nothing.
    None,
    /// That of an entry with an equal key; it begins at this byte.
    Shared(u16),
    /// Bytes of its own.
    New {
        /// Bytes of the key.
        suffix: &'a [u8],
        /// Other bytes.
        payload: &'a [u8],
    },
}

impl Cell<'_> {
    /// Where it begins, if it is there: 0 if there is none.
    pub(crate) fn at(self) -> Option<u16> {
        match self {
            Cell::None => Some(0),
            Cell::Shared(at) => Some(at),
            Cell::New { .. } => None,
        }
    }
}

/// How old a reader may be that misses rows whose entries are removed: what a standby waits for or cancels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Horizon {
    /// The last transaction that ended one of the rows.
    pub transaction: u32,
    /// The table is a catalog, which logical decoding reads as of the past.
    pub is_catalog: bool,
}
