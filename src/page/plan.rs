//! What a page makes of an insertion, before anything is written.

use super::frame::{Frame, Item, Items, Span, separator};
use super::split::{JUMBLE, continues_stretch};
use super::*;
use arrayvec::ArrayVec;

/// What a page makes of an insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// The node has room, perhaps in another frame.
    Insert(Position),
    /// Split the node, leaving `keep` entries in it, then insert.
    Split { node: u8, keep: u8, then: Position },
    /// Split a node, leaving `keep` entries in it, and insert into a new node between.
    Part { node: u8, keep: u8 },
    /// Give a node so many of its own and its right neighbour's entries, then insert.
    Balance { left: u8, keep: u8, then: Position },
    /// Distribute the page's entries anew, with room for a cell of so many bytes, then ask again.
    Repack { cell: u16 },
    /// The page itself must be split.
    Full,
}

/// Where the cell of an entry is that will have one of its own.
const NEW_CELL: u16 = u16::MAX;

impl<'a, K: KeySpace> Page<'a, K> {
    /// Adds to a change of the page what inserting an entry from outside takes; `false` if the page must be repacked
    /// first, or split: the change is of no use then.
    #[must_use]
    #[inline(always)]
    pub fn insertion<'e>(&self, key: K::Key<'_>, entry: &Entry<'e, K>, change: &mut Change<'e>) -> bool {
        let found = self.locate(key);
        let (lane, cell) = K::parts(self, found, entry);
        let spare = K::parted(self, found, cell);
        if spare != 0 {
            change.add(Edit::Reserve { bytes: spare as u16 });
        }
        let item = item(lane, entry, cell);
        let place = match self.plan_at(found, &item, cell, spare, Thrift::Usual) {
            Plan::Insert(place) => place,
            Plan::Split { node, keep, then } => {
                change.add(Edit::SplitNode { node, keep });
                then
            }
            Plan::Part { node, keep } => {
                change.add(Edit::SplitNode { node, keep });
                change.add(Edit::SplitNode { node, keep });
                after(node)
            }
            Plan::Balance { left, keep, then } => {
                change.add(Edit::Balance { left, keep });
                then
            }
            Plan::Repack { .. } | Plan::Full => return false,
        };
        change.add(Edit::Insert { place, lane: item.lane, tid: item.tid, child: item.child, cell });
        true
    }

    /// What inserting an entry from outside the page takes.
    pub fn plan(&self, key: K::Key<'_>, entry: &Entry<'_, K>, thrift: Thrift) -> Plan {
        let place = self.locate(key);
        let (lane, cell) = K::parts(self, place, entry);
        self.plan_at(place, &item(lane, entry, cell), cell, K::parted(self, place, cell), thrift)
    }

    #[inline(always)]
    fn plan_at(&self, place: Position, item: &Item, cell: Cell<'_>, spare: usize, thrift: Thrift) -> Plan {
        let size = cell.size(self.layout) + spare;
        let room = self.room().and_then(|room| room.checked_sub(size));
        if room.is_some() && !self.is_empty() {
            let node = place.node as usize;
            let (frame, base) = (Frame::of(self.bytes, self.layout, node), separator(self.bytes, self.layout, node));
            if frame.place_for(self.bytes, self.layout, base, place.slot.into(), item).is_some() {
                return Plan::Insert(place);
            }
        }
        self.plan_further(place, item, room, size, thrift)
    }

    /// How the entries are to be distributed anew, with room for a cell of so many bytes: evenly, or, for an ascending
    /// stretch of insertions, in few nodes. `None` only if the page is damaged.
    pub fn repacked(&self, cell: u16, ascends: bool) -> Option<Arrangement> {
        arrange::repacked(self.bytes, self.layout, cell.into(), ascends)
    }

    /// What it takes where the node has no room for the entry as it is.
    // Not inlined: entries lie in its frame, and most insertions do without.
    #[inline(never)]
    fn plan_further(&self, place: Position, item: &Item, room: Option<usize>, size: usize, thrift: Thrift) -> Plan {
        let plan = room.and_then(|room| match self.is_empty() {
            true => (self.free_nodes(room) > 0).then_some(Plan::Insert(place)),
            false => self.plan_in_nodes(place, item, room),
        });
        plan.unwrap_or_else(|| match arrange::is_worth_repacking(self.bytes, self.layout, size, thrift) {
            true => Plan::Repack { cell: size as u16 },
            false => Plan::Full,
        })
    }

    /// What takes neither a repack nor another page, where there are so many bytes of room beside the entry's cell.
    fn plan_in_nodes(&self, place: Position, item: &Item, room: usize) -> Option<Plan> {
        let (node, slot) = (place.node as usize, place.slot as usize);
        let mut with = Items::new();
        arrange::add_with(self.bytes, self.layout, node, (slot, item), &mut with);
        if self.fits(&with) {
            return Some(Plan::Insert(place));
        }
        match self.free_nodes(room) {
            0 => self.plan_balance(place, item).or_else(|| self.plan_behind(place, item)),
            free => self.plan_split(place, &with, free),
        }
    }

    /// An entry at a node's end may have more in common with the next node's than with its own.
    fn plan_behind(&self, place: Position, item: &Item) -> Option<Plan> {
        let next = place.node as usize + 1;
        let is_between = next < self.nodes() && place.slot as usize == self.count(next - 1);
        if !is_between {
            return None;
        }
        let mut with = Items::new();
        arrange::add_with(self.bytes, self.layout, next, (0, item), &mut with);
        self.fits(&with).then(|| Plan::Insert(after(place.node)))
    }

    /// How to split a node that is to have these entries. There are so many free nodes.
    fn plan_split(&self, place: Position, with: &Items, free: usize) -> Option<Plan> {
        let (slot, count) = (place.slot as usize, with.len());
        let ascends = || {
            let tied = |item: &Item| (item.tid, (item.lane, item.cell) == (with[slot].lane, with[slot].cell));
            continues_stretch(with[slot].tid, |back| slot.checked_sub(back).map(|at| tied(&with[at])))
        };
        // Ascending keys leave full nodes behind, and have room before the keys that they do not reach. Where the last
        // ones came in any order, more are to come among them.
        let is_last = slot + 1 == count;
        let latest = count.saturating_sub(JUMBLE);
        let in_turn = || with[latest..].is_sorted_by_key(|item| item.tid.linear());
        let aim = match place.node as usize + 1 == self.nodes() {
            true if is_last && (latest < JUMBLE || in_turn()) => slot,
            true if slot >= latest && latest >= JUMBLE => latest,
            _ if ascends() => slot + usize::from(!is_last),
            _ => self.middle(with),
        };
        let stays = |keep: usize| is_last && keep == slot;
        let fits = |keep: &usize| {
            (1..count).contains(keep) && (stays(*keep) || self.fits(&with[..*keep])) && self.fits(&with[*keep..])
        };
        match [aim, self.middle(with), slot, slot + 1].into_iter().find(fits) {
            Some(keep) => {
                let then = cut(place.node, slot, keep);
                Some(Plan::Split { node: place.node, keep: (keep - usize::from(slot < keep)) as u8, then })
            }
            None => {
                let is_possible = free > 1 && self.fits(&with[..slot]) && self.fits(&with[slot + 1..]);
                is_possible.then_some(Plan::Part { node: place.node, keep: place.slot })
            }
        }
    }

    /// How a full node, to which an entry is to come, can share with a neighbour that has room.
    fn plan_balance(&self, place: Position, item: &Item) -> Option<Plan> {
        let node = place.node as usize;
        let free = |node: usize| Frame::of(self.bytes, self.layout, node).free();
        let enough = self.layout.node_room() / 8;
        let left = node.checked_sub(1).map(|left| (free(left), left)).filter(|(free, _)| *free >= enough);
        let right = Some((free(node + 1), node)).filter(|(free, _)| node + 1 < self.nodes() && *free >= enough);
        let (first, second) =
            if right.map(|(free, _)| free) > left.map(|(free, _)| free) { (right, left) } else { (left, right) };
        [first, second].into_iter().flatten().find_map(|(_, left)| self.balance(left, place, item))
    }

    /// Evens out a node and its right neighbour, one of which `place` is in, if both have room then.
    fn balance(&self, left: usize, place: Position, item: &Item) -> Option<Plan> {
        let before = if left == place.node as usize { 0 } else { self.count(left) };
        let slot = before + place.slot as usize;
        let mut with: ArrayVec<Item, { 2 * MAX_NODE_ENTRIES + 1 }> = ArrayVec::new();
        for node in [left, left + 1] {
            arrange::visit_node(self.bytes, self.layout, node, |item| with.push(item));
        }
        with.insert(slot.min(with.len()), *item);
        let keep = self.middle(&with);
        let room = self.layout.node_room() * 15 / 16;
        let fits = |part: &[Item]| Span::of(part).fits(self.layout, room);
        let own = keep - usize::from(slot < keep);
        let is_possible = own <= MAX_NODE_ENTRIES && with.len() - 1 - own <= MAX_NODE_ENTRIES;
        (is_possible && fits(&with[..keep]) && fits(&with[keep..])).then_some(Plan::Balance {
            left: left as u8,
            keep: own as u8,
            then: cut(left as u8, slot, keep),
        })
    }

    /// Where entries are parted in two halves.
    fn middle(&self, with: &[Item]) -> usize {
        with.len() / 2
    }

    fn fits(&self, items: &[Item]) -> bool {
        Span::of(items).fits(self.layout, self.layout.node_room())
    }

    /// How many nodes can be added if they may take so many bytes.
    fn free_nodes(&self, room: usize) -> usize {
        (room / self.layout.node_size()).min(self.layout.nodes - self.nodes())
    }

    /// Unused bytes between the in-page tree and what lies at the page's end; `None` on a page where they overlap.
    fn room(&self) -> Option<usize> {
        edit::space_end(self.bytes, self.layout).checked_sub(self.used_lines() * LINE)
    }
}

/// An entry from outside, with its lane in a page.
#[inline(always)]
fn item<K: Keys>(lane: K::Lane, entry: &Entry<'_, K>, cell: Cell<'_>) -> Item {
    Item { lane: lane.to_u128(), tid: entry.tid, child: entry.child, cell: cell.at().unwrap_or(NEW_CELL) }
}

/// The first place of the node after one.
fn after(node: u8) -> Position {
    Position { node: node + 1, slot: 0 }
}

/// Where an insertion point `slot` is when the first `keep` entries, the new one among them, stay in `node` and the
/// rest are in the next one.
fn cut(node: u8, slot: usize, keep: usize) -> Position {
    if slot >= keep {
        return Position { node: node + 1, slot: (slot - keep) as u8 };
    }
    Position { node, slot: slot as u8 }
}
