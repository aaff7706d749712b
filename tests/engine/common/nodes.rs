//! In-page leaf nodes as bytes, written and read as src/page/frame.rs describes them, by code that shares nothing with
//! it: what pages are compared with.

use super::*;
use fpbtree_engine::format::{Geometry, LaneKind, MAX_NODE_ENTRIES, MAX_PAGE_NODES};

/// Bytes of a cache line.
const LINE: usize = 64;
/// Where a page says how many in-page nodes it has, and where its in-page root begins.
const NODES: usize = 38;
const ROOT: usize = 128;
/// Bytes at a node's front.
const HEADER: usize = 5;

/// How nodes lie in the pages of a level.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// Bytes of a lane, and of where a cell begins.
    lane: usize,
    cell: usize,
    has_child: bool,
    /// Nodes that the in-page root has room for, and the page.
    fanout: usize,
    pub most_nodes: usize,
    first: usize,
    size: usize,
}

/// An entry of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Item {
    pub lane: u128,
    /// With its flags.
    pub tid: Tid,
    pub child: Block,
    pub cell: u16,
}

/// What a node's entries are differences from, and how they are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame {
    pub separator: u128,
    pub base: u32,
    pub lane: usize,
    pub tid: usize,
    pub child: usize,
    pub is_grouped: bool,
    pub rank: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// Where it begins.
    pub at: usize,
    pub frame: Frame,
    pub items: Vec<Item>,
}

/// Bytes that a number takes.
fn bytes_of(number: u128) -> usize {
    (0..16).rev().find(|&byte| number >> (8 * byte) != 0).map_or(0, |byte| byte + 1)
}

fn number(bytes: &[u8]) -> u128 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u128::from(byte))
}

/// What a TID is without its block and DEAD, if a difference of two to five bytes does not say it.
fn is_special(tid: Tid) -> bool {
    tid.negative() || tid.offset() > 511
}

/// Whether each entry has the lane and the cell of the one before it.
fn repeats(items: &[Item]) -> impl Iterator<Item = bool> {
    let is_same = |at: usize| at > 0 && (items[at - 1].lane, items[at - 1].cell) == (items[at].lane, items[at].cell);
    (0..items.len()).map(is_same)
}

fn heads(items: &[Item]) -> usize {
    repeats(items).filter(|is_same| !is_same).count()
}

impl Form {
    pub fn of(kind: LaneKind, geometry: &Geometry, level: u8) -> Form {
        let (w, x) = geometry.layout(level).widths();
        // Pages end with a line that is not the in-page tree's, twice as long where a byte would not number them.
        let lines = MAX_PAGE_NODES * PAGE_SIZE.div_ceil(16384);
        let fanout = w * LINE / (kind.size() + 4);
        Form {
            lane: kind.size(),
            cell: if kind.is_prefix() { 2 } else { 0 },
            has_child: level > 0,
            fanout,
            most_nodes: fanout.min((lines - w) / x),
            first: ROOT + w * LINE,
            size: x * LINE,
        }
    }

    /// Bytes of a node that its entries may take.
    pub fn room(&self) -> usize {
        self.size - HEADER
    }

    fn head(&self, frame: &Frame) -> usize {
        frame.lane + self.cell + frame.child
    }

    /// Bytes that entries take under a frame.
    pub fn used(&self, frame: &Frame, items: &[Item]) -> usize {
        let head = self.head(frame);
        let heads = if frame.is_grouped { heads(items) * (head + 1) } else { items.len() * head };
        heads + items.len() * frame.tid
    }

    /// The narrowest frame of some entries.
    pub fn least(&self, items: &[Item]) -> Frame {
        let separator = items[0].lane;
        let ends = |of: fn(&Item) -> u32| {
            let all = items.iter().map(of);
            (all.clone().min().expect("an entry"), all.max().expect("an entry"))
        };
        let (blocks, children) = (ends(|item| item.tid.block()), ends(|item| item.child));
        let lane = items.iter().map(|item| bytes_of(item.lane - separator)).max().expect("an entry");
        let rank = items[0].tid.rank();
        let is_whole = items.iter().any(|item| is_special(item.tid) || item.tid.rank() != rank);
        let tid = match self.has_child {
            true if items.iter().all(|item| item.tid.position() == Tid::MIN) => 0,
            _ if self.has_child || is_whole => 6,
            // The offset takes nine bits, and DEAD one.
            _ => bytes_of(u128::from(blocks.1 - blocks.0) << 10).max(2),
        };
        let child = if self.has_child { bytes_of((children.1 - children.0).into()).max(1) } else { 0 };
        let base = if self.has_child { children.0 } else { blocks.0 };
        let frame = Frame { separator, base, lane, tid, child, is_grouped: false, rank: rank && tid % 6 > 0 };
        let grouped = Frame { is_grouped: true, ..frame };
        let is_less = !self.has_child && self.used(&grouped, items) < self.used(&frame, items);
        if is_less { grouped } else { frame }
    }

    /// Whether entries fit a node of which so many bytes are to be used.
    pub fn fit(&self, items: &[Item], room: usize) -> bool {
        items.len() <= MAX_NODE_ENTRIES && self.used(&self.least(items), items) <= room
    }

    /// Why an entry cannot be put in a slot of a node as it is, if it cannot.
    pub fn obstacle(&self, node: &Node, slot: usize, item: &Item) -> Option<Obstacle> {
        let (frame, tid) = (&node.frame, item.tid);
        let mut with = node.items.clone();
        with.insert(slot, *item);
        let same = |at: usize| (with[at].lane, with[at].cell) == (item.lane, item.cell);
        let is_parted = slot > 0 && slot + 1 < with.len() && heads(&with) == heads(&node.items) + 2;
        // An entry that shares a head need not have a lane that the others' heads have room for: it has their own.
        let shares = frame.is_grouped && (slot > 0 && same(slot - 1) || slot + 1 < with.len() && same(slot + 1));
        let far = |from: u32, to: u32| u128::from(to.wrapping_sub(from));
        Some(match tid.position() {
            _ if with.len() > MAX_NODE_ENTRIES => Obstacle::Count,
            _ if frame.is_grouped && is_parted => Obstacle::Parted,
            _ if !shares && item.lane < frame.separator => Obstacle::LaneBelow,
            _ if !shares && bytes_of(item.lane - frame.separator) > frame.lane => Obstacle::LaneFar,
            position if frame.tid == 0 && position != Tid::MIN => Obstacle::TidAbsent,
            _ if (1..6).contains(&frame.tid) && is_special(tid) => Obstacle::TidSpecial,
            _ if (1..6).contains(&frame.tid) && tid.rank() != frame.rank => Obstacle::TidRank,
            _ if (1..6).contains(&frame.tid) && tid.block() < frame.base => Obstacle::BlockBelow,
            _ if (1..6).contains(&frame.tid) && bytes_of(far(frame.base, tid.block()) << 10) > frame.tid => {
                Obstacle::BlockFar
            }
            _ if self.has_child && item.child < frame.base => Obstacle::ChildBelow,
            _ if self.has_child && bytes_of(far(frame.base, item.child)) > frame.child => Obstacle::ChildFar,
            _ if self.used(frame, &with) > self.room() => Obstacle::Room,
            _ => return None,
        })
    }

    /// A page's nodes. Panics unless each is what [`write`](Form::write) makes of what it says.
    pub fn read(&self, bytes: &PageBytes) -> Vec<Node> {
        let nodes: Vec<Node> = (0..bytes[NODES] as usize).map(|number| self.node(bytes, number)).collect();
        for (number, node) in nodes.iter().enumerate() {
            let ([lane, line, count, heads, widths], image) = self.write(node);
            let root = [(0, self.lane), (self.lane, 1), (self.lane + 1, 1), (self.lane + 2, 1), (self.lane + 3, 1)];
            for ((array, size), expected) in root.into_iter().zip([&lane, &line, &count, &heads, &widths]) {
                let at = ROOT + array * self.fanout + number * size;
                assert_eq!(bytes[at..at + size], expected[..], "the in-page root's entry of node {number}, {node:?}");
            }
            assert!(bytes[node.at..node.at + self.size] == image, "the bytes of node {number}, {node:?}");
        }
        nodes
    }

    /// How much of what a page's nodes have room for is in use, bytes or entries, from 0 to 1.
    pub fn fullness(&self, bytes: &PageBytes) -> f64 {
        let share = |part: usize, all: usize| part as f64 / all as f64;
        let of_node = |node: &Node| {
            let used = share(self.used(&node.frame, &node.items), self.room());
            used.max(share(node.items.len(), MAX_NODE_ENTRIES))
        };
        self.read(bytes).iter().map(of_node).sum::<f64>() / self.most_nodes as f64
    }

    fn node(&self, bytes: &PageBytes, number: usize) -> Node {
        let root = |array: usize| bytes[ROOT + array * self.fanout + number];
        let [line, count, stored, widths] = [0, 1, 2, 3].map(|array| root(self.lane + array));
        let at = usize::from(line) * LINE * PAGE_SIZE.div_ceil(16384);
        let separator = self::number(&bytes[ROOT + number * self.lane..][..self.lane]);
        let base = self::number(&bytes[at..at + 4]) as u32;
        let (tid, child) = match (self.has_child, widths >> 5) {
            (true, code) => (usize::from(code >> 2) * 6, usize::from(code & 3) + 1),
            (false, code) => (usize::from(code) + 2, 0),
        };
        let lane = usize::from(widths & 31);
        let (is_grouped, rank) = (stored & 127 > 0, stored & 128 > 0);
        let frame = Frame { separator, base, lane, tid, child, is_grouped, rank };
        let count = usize::from(count);
        let heads = if is_grouped { usize::from(stored & 127) } else { count };
        let front = [0, 1, 2, 2, 4, 4, 4, 4][lane.min(7)].max(if lane > 7 { 8 } else { 0 });
        let fronts = at + HEADER;
        let backs = fronts + heads * front;
        let cells = backs + heads * (lane - front);
        let children = cells + heads * self.cell;
        let ends = children + heads * child;
        let part = |array: usize, size: usize, at: usize| self::number(&bytes[array + at * size..][..size]);
        let head_of = |slot: usize| match is_grouped {
            true => (0..heads).find(|&head| slot < usize::from(bytes[ends + head])).expect("a head"),
            false => slot,
        };
        let tids = at + self.size - count * tid;
        let item = |slot: usize| {
            let head = head_of(slot);
            let difference = part(fronts, front, head) << (8 * (lane - front)) | part(backs, lane - front, head);
            let stored = part(tids, tid, slot) as u64;
            Item {
                lane: separator + difference,
                tid: match tid {
                    6 => Tid::from_raw(stored),
                    0 => Tid::MIN,
                    _ => {
                        let block = base + (stored >> 10) as u32;
                        let whole = Tid::new(rank, block, (stored >> 1 & 511) as u16, false);
                        Tid::from_raw(whole.raw() | stored & 1)
                    }
                },
                child: if self.has_child { base + part(children, child, head) as u32 } else { NO_BLOCK },
                cell: part(cells, self.cell, head) as u16,
            }
        };
        Node { at, frame, items: (0..count).map(item).collect() }
    }

    /// A node's bytes, and before them what the in-page root has of it: separator, line, count, heads and widths.
    fn write(&self, Node { at, frame, items }: &Node) -> ([Vec<u8>; 5], Vec<u8>) {
        let low = |number: u128, size: usize| number.to_le_bytes()[..size].to_vec();
        let firsts: Vec<(usize, &Item)> = match frame.is_grouped {
            true => repeats(items)
                .zip(items)
                .enumerate()
                .filter(|(_, (is_same, _))| !is_same)
                .map(|(at, (_, item))| (at, item))
                .collect(),
            false => items.iter().enumerate().collect(),
        };
        let front = [8, 4, 2, 1, 0].into_iter().find(|&front| front <= frame.lane).expect("none is as wide as any");
        let back = frame.lane - front;
        let difference = |item: &Item| item.lane - frame.separator;
        let heads = if frame.is_grouped { firsts.len() as u8 } else { 0 } | if frame.rank { 128 } else { 0 };
        let widths = match self.has_child {
            true => frame.lane | (frame.child - 1) << 5 | if frame.tid > 0 { 128 } else { 0 },
            false => frame.lane | (frame.tid - 2) << 5,
        };
        let line = at / (LINE * PAGE_SIZE.div_ceil(16384));
        let separator = low(frame.separator, self.lane);
        let sum = separator.iter().chain(&frame.base.to_le_bytes()).fold(heads ^ widths as u8, |sum, byte| sum ^ byte);

        let mut image = [&frame.base.to_le_bytes()[..], &[!sum]].concat();
        firsts.iter().for_each(|(_, item)| image.extend(low(difference(item) >> (8 * back), front)));
        firsts.iter().for_each(|(_, item)| image.extend(low(difference(item), back)));
        firsts.iter().for_each(|(_, item)| image.extend(low(item.cell.into(), self.cell)));
        let child = |item: &Item| u128::from(item.child.wrapping_sub(frame.base));
        firsts.iter().for_each(|(_, item)| image.extend(low(child(item), frame.child)));
        if frame.is_grouped {
            let ends = firsts.iter().map(|(at, _)| *at).skip(1).chain([items.len()]);
            image.extend(ends.map(|end| end as u8));
        }
        let mut tids = Vec::new();
        for item in items {
            let near = u64::from(item.tid.block().wrapping_sub(frame.base)) << 10 | u64::from(item.tid.offset()) << 1;
            let dead = u64::from(item.tid.dead());
            tids.extend(low(if frame.tid < 6 { near | dead } else { item.tid.raw() }.into(), frame.tid));
        }
        assert!(image.len() + tids.len() <= self.size, "too much for a node");
        image.resize(self.size - tids.len(), 0);
        image.extend(tids);
        ([separator, vec![line as u8], vec![items.len() as u8], vec![heads], vec![widths as u8]], image)
    }

    /// How many entries each page has if these are laid out in as few as can be, each of whose nodes is filled to so
    /// many percent, but has one entry at least.
    pub fn pages(&self, items: &[Item], fill: usize) -> Vec<usize> {
        let room = self.room() * fill / 100;
        let (mut pages, mut nodes, mut page, mut node) = (Vec::new(), 0, 0, 0);
        for at in 0..items.len() {
            if at == node || self.fit(&items[node..=at], room) {
                continue;
            }
            (node, nodes) = (at, nodes + 1);
            if nodes == self.most_nodes {
                pages.push(at - page);
                (page, nodes) = (at, 0);
            }
        }
        pages.extend((page < items.len()).then(|| items.len() - page));
        pages
    }
}

/// Why an entry does not fit a node as it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Obstacle {
    Count,
    /// It would come between entries that share a head.
    Parted,
    LaneBelow,
    LaneFar,
    TidAbsent,
    TidSpecial,
    TidRank,
    BlockBelow,
    BlockFar,
    ChildBelow,
    ChildFar,
    Room,
}
