//! What a page is and has in it, as data for people to look at.

use super::frame::Frame;
use super::*;
use arrayvec::ArrayVec;

/// What a block of an index's file is.
#[derive(Clone, Copy)]
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
pub enum Sight<'a, K> {
    /// All zeroes: never written.
    New,
    /// The meta page.
    Meta(Meta),
    /// A page that VACUUM has deleted, of this level.
    Deleted(u8),
    /// A page of the tree, found sound.
    Live(Page<'a, K>),
}

/// Looks at a page that may be any of an index's, and checks it as [`Page::verify`] does. Nothing need be locked if the
/// bytes are a copy.
pub fn look<'a, K: KeySpace>(
    bytes: &'a PageBytes,
    geometry: &'a Geometry,
    block: Block,
    ranks: Option<bool>,
    order: K::Order<'_>,
) -> Result<Sight<'a, K>> {
    if block == crate::format::META {
        return Meta::read(bytes).map(Sight::Meta);
    }
    if is_new(bytes) {
        return Ok(Sight::New);
    }
    let page = Page::<K>::open(bytes, geometry, block)?;
    if page.is_deleted() {
        return Ok(Sight::Deleted(page.level()));
    }
    match Page::verify(bytes, geometry, block, ranks, order) {
        Ok(page) => Ok(Sight::Live(page)),
        Err(Flaw(what)) => Err(Error::Corrupt { block, what }),
    }
}

/// A page of the tree. Places are byte offsets in the page, sizes are in bytes.
#[derive(Clone, Debug)]
pub struct Description {
    /// 0 for a leaf.
    pub level: u8,
    /// Split, and the new right page is not in the parent yet.
    pub is_incomplete: bool,
    /// The left sibling, or `NO_BLOCK`.
    pub left: Block,
    /// The right sibling, or `NO_BLOCK`.
    pub right: Block,
    /// A whole lane.
    pub lane: usize,
    /// What entries may take, their cells and those of the fences included.
    pub room: usize,
    /// What they take.
    pub used: usize,
    /// The in-page root.
    pub root: Range<usize>,
    /// How many nodes the in-page root has room for.
    pub fanout: usize,
    /// A node, whether it is full or not.
    pub node_size: usize,
    /// The cells of byte strings, dead ones among them.
    pub cells: Range<usize>,
    /// What cells take that something refers to.
    pub live_cells: usize,
    /// How much all keys of the page begin with, of byte strings.
    pub prefix: usize,
    /// The in-page leaf nodes, in key order.
    pub nodes: ArrayVec<NodeDescription, MAX_PAGE_NODES>,
}

/// An in-page leaf node.
#[derive(Clone, Debug)]
pub struct NodeDescription {
    /// Where it is in the page.
    pub place: Range<usize>,
    /// Where its heads are.
    pub heads_at: Range<usize>,
    /// Where its TIDs are.
    pub tids_at: Range<usize>,
    /// How many entries it has.
    pub entries: usize,
    /// How many heads they have.
    pub heads: usize,
    /// Whether entries share heads.
    pub is_grouped: bool,
    /// A bit for each entry that is known to be dead.
    pub dead: u128,
    /// Bytes of a lane's difference from the separator.
    pub lane: usize,
    /// Bytes of a TID.
    pub tid: usize,
    /// Bytes of a child's difference from the lowest block; 0 in a leaf.
    pub child: usize,
    /// The lowest block of the TIDs, or of the children.
    pub lowest: Block,
}

impl Description {
    /// Entries in the page.
    pub fn entries(&self) -> usize {
        self.nodes.iter().map(|node| node.entries).sum()
    }

    /// Entries known to be dead.
    pub fn dead(&self) -> usize {
        self.nodes.iter().map(|node| node.dead.count_ones() as usize).sum()
    }

    /// What more the entries may take.
    pub fn free(&self) -> usize {
        self.room - self.used.min(self.room)
    }

    /// How much of the room is taken, from 0 to 1.
    pub fn fill(&self) -> f64 {
        self.used as f64 / self.room as f64
    }
}

/// An entry of a page.
pub struct Listed<'a, K: Keys> {
    /// Its node, counted from 0 in key order.
    pub node: usize,
    /// The entry.
    pub entry: Entry<'a, K>,
    /// Bytes of its TID, and of the head and the cell that no entry before it has.
    pub bytes: usize,
}

impl<'a, K: KeySpace> Page<'a, K> {
    /// What is in the page.
    pub fn describe(&self) -> Description {
        let (layout, bytes) = (self.layout, self.bytes);
        let (used, room) = self.space();
        let is_prefix = layout.kind.is_prefix();
        let cells = if is_prefix { edit::space_end(bytes, layout)..SPACE_END } else { SPACE_END..SPACE_END };
        Description {
            level: self.level(),
            is_incomplete: self.is_incomplete(),
            left: self.left(),
            right: self.right(),
            lane: layout.lane,
            room,
            used,
            root: layout.root_lanes()..layout.first_node_line() * LINE,
            fanout: layout.fanout,
            node_size: layout.node_size(),
            cells,
            live_cells: if is_prefix { bytes::live_cells(bytes, layout) } else { 0 },
            prefix: if is_prefix { bytes::prefix_length(bytes, layout) } else { 0 },
            nodes: (0..self.nodes()).map(|node| self.describe_node(node)).collect(),
        }
    }

    fn describe_node(&self, number: usize) -> NodeDescription {
        let frame = Frame::of(self.bytes, self.layout, number);
        let node = self.node(number);
        let is_dead = |slot: &usize| self.level() == 0 && node.tid(*slot).dead();
        NodeDescription {
            place: frame.start..frame.end,
            heads_at: frame.fronts()..frame.heads_end(),
            tids_at: frame.tids()..frame.end,
            entries: frame.count,
            heads: frame.heads,
            is_grouped: frame.is_grouped,
            dead: (0..frame.count).filter(is_dead).fold(0, |dead, slot| dead | 1 << slot),
            lane: frame.widths.lane,
            tid: frame.widths.tid,
            child: frame.widths.child,
            lowest: frame.base_block(self.bytes),
        }
    }

    /// The page's entries in key order, each with what it takes: together with the fences' cells that is all that
    /// [is used](Description::used).
    pub fn listing(self) -> impl Iterator<Item = Listed<'a, K>> + use<'a, K> {
        let (mut last_head, mut last_cell) = (None, 0);
        (0..self.nodes()).flat_map(move |node| (0..self.count(node)).map(move |slot| (node, slot))).map(
            move |(number, slot)| {
                let node = self.node(number);
                let (head, cell) = (node.head_of(slot), node.cell(slot));
                let mut bytes = node.frame.widths.tid;
                if last_head != Some((number, head)) {
                    bytes += node.frame.head_size(self.layout);
                }
                if cell != last_cell {
                    bytes += bytes::stored_length(self.bytes, self.layout, cell);
                }
                (last_head, last_cell) = (Some((number, head)), cell);
                Listed { node: number, entry: node.entry(slot), bytes }
            },
        )
    }
}
