//! What a sound page looks like, checked byte by byte.

use super::frame::Frame;
use super::*;

/// What is wrong with a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flaw(pub &'static str);

pub(super) fn ensure(sound: bool, what: &'static str) -> core::result::Result<(), Flaw> {
    if sound { Ok(()) } else { Err(Flaw(what)) }
}

impl<'a, K: KeySpace> Page<'a, K> {
    /// Checks everything that the page alone can tell: header, in-page tree, order, fences. `ranks`, for an index of
    /// one column, is the rank of its NULLs.
    pub fn verify(
        bytes: &'a PageBytes,
        geometry: &'a Geometry,
        block: Block,
        ranks: Option<bool>,
        order: K::Order<'_>,
    ) -> core::result::Result<Page<'a, K>, Flaw> {
        let page = match Page::<K>::open(bytes, geometry, block) {
            Ok(page) => page,
            Err(Error::Corrupt { what, .. }) => return Err(Flaw(what)),
            Err(Error::UnknownFormat { .. }) => {
                return Err(Flaw("page has an unknown format version"));
            }
        };
        page.verify_header(geometry, order)?;
        page.verify_nodes()?;
        page.verify_entries(ranks, order)?;
        Ok(page)
    }

    fn verify_header(&self, geometry: &Geometry, order: K::Order<'_>) -> core::result::Result<(), Flaw> {
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
        let server = [read_u16(bytes, at::PD_SPECIAL), read_u16(bytes, at::PD_PAGESIZE_VERSION)];
        let upper = read_u16(bytes, at::PD_UPPER);
        let lowest = if self.layout.kind.is_prefix() { (lines * LINE) as u16 } else { special };
        let in_order = (lowest..=special).contains(&upper);
        ensure(in_order && server == [special, PAGESIZE_VERSION], "server page header is damaged")?;
        ensure(bytes[at::FLAGS] & !(DELETED | INCOMPLETE) == 0, "unknown page flags")?;
        ensure(bytes[at::NODES] as usize <= self.layout.nodes, "more in-page nodes than fit")?;
        ensure(is_zero(&bytes[at::RIGHT + 4..at::LOW]), "page header has bytes where it should be empty")?;
        K::verify_header(self)?;
        let mut special = [0; PAGE_SIZE];
        edit::write_special(&mut special, geometry.build_id);
        ensure(bytes[PAGE_SIZE - SPECIAL..] == special[PAGE_SIZE - SPECIAL..], "special space is damaged")?;
        let mut low = K::FIRST;
        K::set_to_fence(&mut low, self.low());
        let in_order = K::compare_fence(K::borrow(&low, order), self, Side::High).is_lt();
        ensure(in_order, "fences are out of order")?;
        ensure(!self.is_deleted() || self.is_empty(), "deleted page has entries")?;
        ensure(self.level() == 0 || self.is_deleted() || !self.is_empty(), "inner page is empty")?;
        let has_no_end = is_link(self.right()) || K::same_fence(self.high(), K::fence_of(&K::LAST));
        ensure(has_no_end, "last page of its level has an upper fence")?;
        let has_no_start = is_link(self.left()) || K::same_fence(self.low(), K::fence_of(&K::FIRST));
        ensure(has_no_start, "first page of its level has a lower fence")
    }

    fn verify_nodes(&self) -> core::result::Result<(), Flaw> {
        let mut used = LineSet::default();
        for node in 0..self.nodes() {
            let line = self.bytes[self.layout.root_lines() + node] as usize;
            ensure(line >= self.layout.first_node_line(), "in-page node lies over the in-page root")?;
            ensure(line + self.layout.x <= self.bytes[at::LINES] as usize, "in-page node lies in unused space")?;
            ensure(used.add(LineSet::of(line, self.layout.x)), "in-page nodes overlap")?;
            self.verify_frame(node)?;
        }
        self.verify_slack()
    }

    /// That a node has entries, and as many as it has room for, and that heads it shares each have some.
    fn verify_frame(&self, node: usize) -> core::result::Result<(), Flaw> {
        let frame = Frame::of(self.bytes, self.layout, node);
        ensure(frame.count > 0, "in-page node has an impossible number of entries")?;
        ensure(frame.is_sound(self.bytes, self.layout, node), "in-page node has an impossible frame")?;
        let mut slots = (0..frame.heads).map(|head| frame.slots_of(self.bytes, head));
        let end = slots.try_fold(0, |end, slots| (slots.start == end && !slots.is_empty()).then_some(slots.end));
        ensure(end == Some(frame.count), "in-page node's heads do not part its entries")
    }

    /// That what lies between the arrays, and the slots not in use, are zero: else something wrote there.
    fn verify_slack(&self) -> core::result::Result<(), Flaw> {
        let layout = self.layout;
        let mut rest = *self.bytes;
        let mut used = |at: usize, length: usize| rest[at..at + length].fill(0);
        layout.root_arrays().into_iter().for_each(|(start, size)| used(start, self.nodes() * size));
        for node in 0..self.nodes() {
            let frame = Frame::of(self.bytes, layout, node);
            used(frame.start, frame.heads_end() - frame.start);
            used(frame.tids(), frame.end - frame.tids());
        }
        ensure(is_zero(&rest[FIRST_LINE * LINE..self.used_lines() * LINE]), "slots not in use are not zero")
    }

    fn verify_entries(&self, ranks: Option<bool>, order: K::Order<'_>) -> core::result::Result<(), Flaw> {
        let mut kept = K::FIRST;
        let mut previous: Option<K::Lane> = None;
        for number in 0..self.nodes() {
            let node = self.node(number);
            let separator = self.separator(number);
            let is_apart = previous.is_none_or(|previous| previous <= separator) && separator <= node.lane_of(0);
            ensure(is_apart, "in-page separator does not part its nodes")?;
            for slot in 0..node.len() {
                let entry = node.entry(slot);
                let ordered = K::compare_entry(K::borrow(&kept, order), &entry).is_lt();
                // The level's first child begins where all keys do.
                let is_start = previous.is_none() && K::is_fence(&entry, self.low());
                ensure(previous.is_none() || ordered || is_start, "entries are out of order")?;
                ensure(K::set_to_key(&mut kept, &entry, order).is_some(), "entry's key is damaged")?;
                let key = K::borrow(&kept, order);
                ensure(!self.is_below(key), "entry is below the page's low fence")?;
                ensure(!self.is_beyond(key), "entry is not below the page's high fence")?;
                previous = Some(node.lane(slot));
                if self.level() == 0 {
                    let sound = !entry.tid.is_flawed();
                    ensure(sound, "entry has an unknown flag or an impossible heap TID")?;
                    K::verify_entry(&entry, ranks)?;
                } else {
                    ensure(entry.child > crate::format::ROOT, "inner entry has no child")?;
                }
            }
        }
        let first = self.entry(Position { node: 0, slot: 0 });
        let begins = first.is_some_and(|first| K::is_fence(&first, self.low()));
        ensure(self.level() == 0 || self.is_deleted() || begins, "first child does not begin at the low fence")
    }
}

pub(super) fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}
