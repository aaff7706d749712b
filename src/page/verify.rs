//! What a sound page looks like, checked byte by byte.

use super::*;

/// What is wrong with a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flaw(pub &'static str);

fn ensure(sound: bool, what: &'static str) -> core::result::Result<(), Flaw> {
    if sound { Ok(()) } else { Err(Flaw(what)) }
}

impl<'a, L: Lane> Page<'a, L> {
    /// Checks everything that the page alone can tell: header, in-page tree, order, fences. `ranks`, for an index of one
    /// column, is the rank of its NULLs.
    pub fn verify(
        bytes: &'a PageBytes,
        geometry: &'a Geometry,
        block: Block,
        ranks: Option<bool>,
    ) -> core::result::Result<Page<'a, L>, Flaw> {
        let page = match Page::<L>::open(bytes, geometry, block) {
            Ok(page) => page,
            Err(Error::Corrupt { what, .. }) => return Err(Flaw(what)),
            Err(Error::UnknownFormat { .. }) => {
                return Err(Flaw("page has an unknown format version"));
            }
        };
        page.verify_header(geometry)?;
        page.verify_nodes()?;
        page.verify_entries(ranks)?;
        Ok(page)
    }

    fn verify_header(&self, geometry: &Geometry) -> core::result::Result<(), Flaw> {
        let bytes = self.bytes;
        let lines = bytes[at::LINES] as usize;
        ensure(bytes[10..at::PD_LOWER] == [0, 0], "server page flags are set")?;
        ensure(bytes[20..24] == [0; 4], "server page header has bytes where it should be empty")?;
        ensure((self.layout.first_node_line()..=END_LINE).contains(&lines), "number of used lines is impossible")?;
        ensure(
            read_u16(bytes, at::PD_LOWER) as usize == lines * LINE,
            "server's lower bound is not where the in-page tree ends",
        )?;
        let special = (PAGE_SIZE - SPECIAL) as u16;
        let server =
            [read_u16(bytes, at::PD_UPPER), read_u16(bytes, at::PD_SPECIAL), read_u16(bytes, at::PD_PAGESIZE_VERSION)];
        ensure(server == [special, special, PAGESIZE_VERSION], "server page header is damaged")?;
        ensure(bytes[at::FLAGS] & !(DELETED | INCOMPLETE) == 0, "unknown page flags")?;
        ensure(bytes[at::NODES] as usize <= self.layout.nodes, "more in-page nodes than fit")?;
        let gaps = [
            at::RIGHT + 4..at::LOW,
            at::LOW + at::FENCE_TAIL + Tail::SIZE..at::HIGH,
            at::HIGH + at::FENCE_TAIL + Tail::SIZE..FIRST_LINE * LINE,
        ];
        ensure(gaps.into_iter().all(|gap| is_zero(&bytes[gap])), "page header has bytes where it should be empty")?;
        let mut special = [0; PAGE_SIZE];
        edit::write_special(&mut special, geometry.build_id);
        ensure(bytes[PAGE_SIZE - SPECIAL..] == special[PAGE_SIZE - SPECIAL..], "special space is damaged")?;
        ensure(self.low() < self.high(), "fences are out of order")?;
        ensure(!self.is_deleted() || self.is_empty(), "deleted page has entries")?;
        ensure(self.level() == 0 || self.is_deleted() || !self.is_empty(), "inner page is empty")?;
        ensure(is_link(self.right()) || self.high() == Key::MAX, "last page of its level has an upper fence")?;
        ensure(is_link(self.left()) || self.low() == Key::MIN, "first page of its level has a lower fence")
    }

    fn verify_nodes(&self) -> core::result::Result<(), Flaw> {
        let mut used = 0u128;
        for node in 0..self.nodes() {
            let line = self.bytes[self.layout.root_lines() + node] as usize;
            ensure(line >= self.layout.first_node_line(), "in-page node lies over the in-page root")?;
            ensure(line + self.layout.x <= self.bytes[at::LINES] as usize, "in-page node lies in unused space")?;
            let lines = ((1u128 << self.layout.x) - 1) << line;
            ensure(used & lines == 0, "in-page nodes overlap")?;
            used |= lines;
            let count = self.bytes[self.layout.root_counts() + node] as usize;
            ensure((1..=self.layout.capacity).contains(&count), "in-page node has an impossible number of entries")?;
        }
        self.verify_slack()
    }

    /// That what lies between the arrays, and the slots not in use, are zero: else something wrote there.
    fn verify_slack(&self) -> core::result::Result<(), Flaw> {
        let layout = self.layout;
        let mut rest = *self.bytes;
        let mut used = |at: usize, length: usize| rest[at..at + length].fill(0);
        used(layout.root_lanes(), self.nodes() * layout.lane);
        used(layout.root_lines(), self.nodes());
        used(layout.root_counts(), self.nodes());
        for node in 0..self.nodes() {
            let (start, count) = (self.node_start(node), self.count(node));
            used(start, count * layout.lane);
            used(start + layout.node_payload(), count * layout.payload);
        }
        ensure(is_zero(&rest[FIRST_LINE * LINE..self.used_lines() * LINE]), "slots not in use are not zero")
    }

    fn verify_entries(&self, ranks: Option<bool>) -> core::result::Result<(), Flaw> {
        let mut previous: Option<Key<L>> = None;
        for number in 0..self.nodes() {
            let node = self.node(number);
            let separator = L::read(self.bytes, self.layout.root_lanes() + number * L::SIZE);
            let is_apart = previous.is_none_or(|previous| previous.lane <= separator) && separator <= node.lane(0);
            ensure(number == 0 || is_apart, "in-page separator does not part its nodes")?;
            for slot in 0..node.len() {
                let key = node.key(slot);
                ensure(previous.is_none_or(|previous| previous < key), "entries are out of order")?;
                ensure(key >= self.low(), "entry is below the page's low fence")?;
                ensure(key < self.high(), "entry is not below the page's high fence")?;
                previous = Some(key);
                if self.level() == 0 {
                    verify_leaf_entry(node.lane(slot), node.tail(slot), ranks)?;
                } else {
                    ensure(node.child(slot) > crate::store::ROOT, "inner entry has no child")?;
                }
            }
        }
        let first = self.key(Position { node: 0, slot: 0 });
        ensure(
            self.level() == 0 || self.is_deleted() || first == Some(self.low()),
            "first child does not begin at the low fence",
        )
    }
}

fn verify_leaf_entry<L: Lane>(lane: L, tail: Tail, ranks: Option<bool>) -> core::result::Result<(), Flaw> {
    ensure(!tail.is_flawed(), "entry has an unknown flag or an impossible heap TID")?;
    match ranks {
        Some(null_rank) => {
            let extreme = if null_rank { L::MAX } else { L::MIN };
            ensure(tail.rank() != null_rank || lane == extreme, "NULL entry is not at the end of the order")
        }
        None => ensure(!tail.rank(), "entry of several columns has a rank"),
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}
