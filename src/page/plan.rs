//! What a page makes of an insertion, before anything is written.

use super::*;

/// What a page makes of an insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// The node has a free slot.
    Insert(Position),
    /// Split the node, leaving `keep` entries in it, then insert.
    Split { node: u8, keep: u8, then: Position },
    /// Split a run, leaving `keep` entries in it, and insert into a new node between.
    Part { node: u8, keep: u8 },
    /// Even out a full node with its right neighbour, then insert.
    Balance { left: u8, then: Position },
    /// Make a run of a full node, then insert.
    Compact(Position),
    /// Distribute the page's entries anew, with room for a cell of so many bytes, then ask again.
    Repack { cell: u16 },
    /// The page itself must be split.
    Full,
}

impl<'a, K: KeySpace> Page<'a, K> {
    /// Adds to a change of the page what inserting an entry from outside takes; `false` if the page must be repacked
    /// first, or split: the change is of no use then.
    #[must_use]
    #[inline(always)]
    pub fn insertion<'e>(&self, key: K::Key<'_>, entry: &Entry<'e, K>, change: &mut Change<'e>) -> bool {
        let found = self.locate(key);
        let (lane, cell) = K::parts(self, found, entry);
        let spare = K::parted(self, found, cell);
        let separator = |node: u8, keep: u8| {
            let full = self.node(node as usize);
            if (keep as usize) < full.len() { full.lane(keep as usize).to_u128() } else { lane.to_u128() }
        };
        let split = |node, keep| Edit::SplitNode { node, keep, separator: separator(node, keep) };
        if spare != 0 {
            change.add(Edit::Reserve { bytes: spare as u16 });
        }
        let place = match self.plan_at(found, lane, cell, spare, Thrift::Usual) {
            Plan::Insert(place) => place,
            Plan::Split { node, keep, then } => {
                change.add(split(node, keep));
                then
            }
            Plan::Part { node, keep } => {
                change.add(split(node, keep));
                change.add(Edit::SplitNode { node, keep, separator: lane.to_u128() });
                after(node)
            }
            Plan::Balance { left, then } => {
                change.add(Edit::Balance { left });
                then
            }
            Plan::Compact(place) => {
                change.add(Edit::Compact { node: place.node });
                place
            }
            Plan::Repack { .. } | Plan::Full => return false,
        };
        let (lane, tid, child) = (lane.to_u128(), entry.tid, entry.child);
        change.add(Edit::Insert { place, lane, tid, child, cell });
        true
    }

    /// What inserting an entry from outside the page takes.
    pub fn plan(&self, key: K::Key<'_>, entry: &Entry<'_, K>, thrift: Thrift) -> Plan {
        let place = self.locate(key);
        let (lane, cell) = K::parts(self, place, entry);
        self.plan_at(place, lane, cell, K::parted(self, place, cell), thrift)
    }

    fn plan_at(&self, place: Position, lane: K::Lane, cell: Cell<'_>, spare: usize, thrift: Thrift) -> Plan {
        let (size, head) = (cell.size(self.layout) + spare, cell.at().map(|at| (lane, at)));
        let plan = self.room().checked_sub(size).and_then(|room| match () {
            () if self.is_empty() => (self.free_nodes(room) > 0).then_some(Plan::Insert(place)),
            () if self.is_run(place.node as usize) => self.plan_in_run(place, head, room),
            () => self.plan_in_node(place, head, room),
        });
        plan.unwrap_or_else(|| match arrange::repacked(self.bytes, self.layout, size, thrift) {
            Some(_) => Plan::Repack { cell: size as u16 },
            None => Plan::Full,
        })
    }

    /// What takes neither a repack nor another page, where the place is in a node that is no run, and there are so
    /// many bytes of room beside the entry's cell. `head` is all of the entry but its TID, if its cell is there.
    fn plan_in_node(&self, place: Position, head: Option<(K::Lane, u16)>, room: usize) -> Option<Plan> {
        let (node, slot, capacity) = (place.node as usize, place.slot as usize, self.layout.capacity);
        if !self.is_full(node) {
            return Some(Plan::Insert(place));
        }
        if self.layout.run > 0 && head.is_some_and(|head| self.node(node).is_all(head)) {
            return Some(Plan::Compact(place));
        }
        if self.free_nodes(room) > 0 {
            // Ascending keys leave full nodes behind.
            let appends = node + 1 == self.nodes() && slot == capacity;
            let keep = if appends { slot } else { capacity / 2 };
            let then = if appends { after(place.node) } else { cut(place.node, slot, keep) };
            return Some(Plan::Split { node: place.node, keep: keep as u8, then });
        }
        self.neighbour_with_room(node).map(|left| self.balance(left, place))
    }

    /// What takes neither a repack nor another page, where the place is in a run or at one of its ends.
    fn plan_in_run(&self, place: Position, head: Option<(K::Lane, u16)>, room: usize) -> Option<Plan> {
        let (node, slot, count) = (place.node as usize, place.slot as usize, self.count(place.node as usize));
        let has_head = |node: usize| Some(self.node(node).head(0)) == head;
        let (belongs, is_end) = (has_head(node), slot == count);
        if belongs && !self.is_full(node) {
            return Some(Plan::Insert(place));
        }
        let (next, free) = (node + 1, self.free_nodes(room));
        let next_has_room = is_end && next < self.nodes() && !self.is_full(next);
        if next_has_room && (has_head(next) || !self.is_run(next) && (free == 0 || !belongs)) {
            return Some(Plan::Insert(after(place.node)));
        }
        match free {
            0 if belongs => self.neighbour_with_room(node).map(|left| self.balance(left, place)),
            0 => None,
            _ if is_end => Some(Plan::Split { node: place.node, keep: place.slot, then: after(place.node) }),
            _ if belongs => {
                Some(Plan::Split { node: place.node, keep: (count / 2) as u8, then: cut(place.node, slot, count / 2) })
            }
            _ if slot == 0 => Some(Plan::Split { node: place.node, keep: 0, then: place }),
            1 => None,
            _ => Some(Plan::Part { node: place.node, keep: place.slot }),
        }
    }

    /// Evens out a node and its right neighbour, one of which `place` is in.
    fn balance(&self, left: usize, place: Position) -> Plan {
        let total = self.count(left) + self.count(left + 1);
        let before = if left == place.node as usize { 0 } else { self.count(left) };
        Plan::Balance { left: left as u8, then: cut(left as u8, before + place.slot as usize, total.div_ceil(2)) }
    }

    /// The left one of a full node and the neighbour it can share entries with so that both get room. Runs share with
    /// runs of the same key.
    fn neighbour_with_room(&self, node: usize) -> Option<usize> {
        let most = self.layout.room_of(self.stored_count(node));
        let enough = most.saturating_sub(most.div_ceil(8).max(2));
        let kind = |n: usize| self.is_run(n).then(|| self.node(n).head(0));
        let is_alike = |n: usize| n < self.nodes() && kind(n) == kind(node);
        let room = |n: usize| is_alike(n).then(|| self.count(n)).filter(|&count| count <= enough);
        let (left, right) = (node.checked_sub(1).and_then(room), room(node + 1));
        match (left, right) {
            (Some(l), Some(r)) if r < l => Some(node),
            (Some(_), _) => Some(node - 1),
            (None, Some(_)) => Some(node),
            (None, None) => None,
        }
    }

    /// How many nodes can be added if they may take so many bytes.
    fn free_nodes(&self, room: usize) -> usize {
        (room / self.layout.node_size()).min(self.layout.nodes - self.nodes())
    }

    /// Unused bytes between the in-page tree and what lies at the page's end.
    fn room(&self) -> usize {
        edit::space_end(self.bytes, self.layout).saturating_sub(self.used_lines() * LINE)
    }
}

/// The first place of the node after one.
fn after(node: u8) -> Position {
    Position { node: node + 1, slot: 0 }
}

/// Where an insertion point `slot` lands when the first `keep` entries stay in `node` and the rest go to the next one.
fn cut(node: u8, slot: usize, keep: usize) -> Position {
    if slot > keep {
        return Position { node: node + 1, slot: (slot - keep) as u8 };
    }
    Position { node, slot: slot as u8 }
}
