//! One page against a sorted list: every way to put entries in and take them out, as changes that are logged and read
//! back.

mod common;

use common::*;
use fpbtree_engine::change::{Change, Decoded, Edit};
use fpbtree_engine::key::{Key, Lane, LaneKind, Tail};
use fpbtree_engine::page::{Cell, Entry, Geometry, KeySpace, Links, Page, Position, Ranges};
use fpbtree_engine::store::{Block, PageBytes};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;

const BLOCK: Block = 7;

/// A page, and what it should hold.
struct Sheet<'g, L> {
    geometry: &'g Geometry,
    bytes: PageBytes,
    model: BTreeMap<Key<L>, Block>,
}

impl<'g, L: Lane> Sheet<'g, L> {
    /// A page with one entry, which begins an inner page and may not be taken out of it.
    fn new(geometry: &'g Geometry, level: u8, right: Block) -> Self {
        let high = if right == 0 { Key::MAX } else { Key::new(L::MAX, Tail::first(true)) };
        let links = Links { level, left: 0, right, low: Key::MIN, high };
        let first = Entry { key: L::MIN, tail: Tail::MIN, child: 5 };
        let (count, model) = match level {
            0 => (0, BTreeMap::new()),
            _ => (1, BTreeMap::from([(first.key(), first.child)])),
        };
        let bytes = L::build(geometry, &links, count, [first].into_iter()).expect("lanes always fit");
        Sheet { geometry, bytes, model }
    }

    fn page(&self) -> Page<'_, L> {
        Page::verify(&self.bytes, self.geometry, BLOCK, Some(true), ()).expect("the page is sound")
    }

    /// Makes a change after it went through the log.
    fn make(&mut self, change: Change<'_, Block>) {
        let record = encoded(&change);
        let decoded = Decoded::decode(&record).expect("the record can be read");
        let read = decoded.change();
        assert_eq!(read.blocks(), change.blocks());
        assert_eq!(encoded(&read), record);
        assert!(read.fits(0, &self.bytes), "{read:?}");
        read.apply(0, &mut self.bytes, &mut Ranges::new());
    }

    /// Inserts, unless the page is full.
    fn insert(&mut self, entry: Entry<'_, L>) -> bool {
        let bytes = self.bytes;
        let page = Page::<L>::open(&bytes, self.geometry, BLOCK).expect("the page can be read");
        let Some((change, is_in)) = page.insertion(entry.key(), &entry, Change::new(BLOCK)) else { return false };
        self.make(change);
        if !is_in {
            return self.insert(entry);
        }
        self.model.insert(entry.key(), entry.child);
        true
    }

    /// Removes what `is_doomed` names, but not the first entry of an inner page.
    fn remove(&mut self, mut is_doomed: impl FnMut() -> bool) {
        let bytes = self.bytes;
        let page = Page::<L>::open(&bytes, self.geometry, BLOCK).expect("the page can be read");
        let mut nodes = Vec::new();
        for number in (0..page.nodes()).rev() {
            let node = page.node(number);
            let mut mask = 0;
            for slot in 0..node.len() {
                let stays = page.level() > 0 && (number, slot) == (0, 0);
                if !stays && is_doomed() {
                    mask |= 1 << slot;
                    self.model.remove(&node.entry(slot).key());
                }
            }
            if mask != 0 {
                nodes.push((number as u8, mask));
            }
        }
        if !nodes.is_empty() {
            self.make(Change::new(BLOCK).edit(Edit::Purge(&nodes)));
        }
    }

    /// The page holds what it should, and every way to look for it finds it.
    fn check(&self, random: &mut StdRng) {
        let page = self.page();
        let level = page.level();
        let found = page.iter().map(|entry| (entry.key(), if level == 0 { 0 } else { entry.child }));
        assert!(found.eq(self.model.iter().map(|(key, child)| (*key, if level == 0 { 0 } else { *child }))));
        for _ in 0..3 {
            let (lane, tail) = random_key::<L>(random, 40);
            let key = Key::new(lane, tail);
            let place = page.lower_bound(key);
            let after = self.model.range(key..).next();
            let before = self.model.range(..key).next_back();
            assert_eq!(page.key(place), after.map(|(key, _)| *key));
            assert_eq!(page.previous(place).and_then(|place| page.key(place)), before.map(|(key, _)| *key));
            if level > 0 {
                let at_or_before = self.model.range(..=key).next_back();
                assert_eq!(page.child_for(key), at_or_before.map(|(_, child)| *child));
                assert_eq!(page.child_before(key), before.map(|(_, child)| *child));
            }
        }
        let mut place = Position { node: 0, slot: 0 };
        for key in self.model.keys() {
            assert_eq!(page.key(place), Some(*key));
            place = page.next(place);
        }
        assert_eq!(place, page.end());
    }
}

fn encoded(change: &Change<'_, Block>) -> Vec<u8> {
    let mut record = Vec::new();
    change.encode(|block| block, &mut record);
    record
}

fn random_key<L: Lane>(random: &mut StdRng, spread: u128) -> (L, Tail) {
    key(random.random_range(0..spread) * (L::MAX.to_u128() / spread), random.random_range(0..5000))
}

fn geometries<L: Lane>() -> Vec<Geometry> {
    let widths: &[[u8; 4]] = match L::KIND {
        LaneKind::U32 => &[[2, 2, 2, 3], [1, 12, 1, 12]],
        LaneKind::U64 => &[[4, 3, 2, 5], [2, 15, 2, 20]],
        LaneKind::U128 => &[[2, 5, 3, 9], [1, 40, 1, 30]],
        LaneKind::Prefix | LaneKind::PrefixExtra => unreachable!("exact lanes only"),
    };
    let chosen = widths.iter().map(|&widths| Geometry::with_widths(L::KIND, BUILD_ID, widths).unwrap());
    chosen.chain([small::<L>(), normal::<L>()]).collect()
}

/// Fills pages in several ways, with removals between, and checks them every now and then.
fn pages<L: Lane>() {
    let mut random = StdRng::seed_from_u64(11);
    for geometry in geometries::<L>() {
        for (level, right) in [(0, 0), (0, 9), (3, 0), (3, 9)] {
            for spread in [1, 30, 1 << 25] {
                let mut sheet = Sheet::<L>::new(&geometry, level, right);
                // Removals are rare enough for the page to become full.
                let calm = (geometry.layout(level).most_entries() as u32 / 4).max(60);
                let (mut full, mut row) = (0, 0);
                while full < 3 {
                    row += 1;
                    let (lane, tail) = match row % 4 {
                        0 => key(row.into(), row),
                        _ => random_key(&mut random, spread),
                    };
                    let entry = Entry { key: lane, tail, child: random.random_range(2..1000) };
                    if !sheet.model.contains_key(&entry.key()) && !sheet.insert(entry) {
                        let room = geometry.layout(level).page_entries();
                        assert!(sheet.model.len() * 2 >= room, "{} of {room} entries and full", sheet.model.len());
                        full += 1;
                        let percent = random.random_range(1..=100);
                        sheet.remove(|| random.random_range(0..100) < percent);
                        sheet.check(&mut random);
                    }
                    if random.random_ratio(1, 10) {
                        sheet.check(&mut random);
                    }
                    if random.random_ratio(1, calm) {
                        sheet.remove(|| random.random_ratio(1, 5));
                        sheet.check(&mut random);
                    }
                }
                sheet.remove(|| true);
                sheet.check(&mut random);
            }
        }
    }
}

#[test]
fn pages_of_u32() {
    pages::<u32>();
}

#[test]
fn pages_of_u64() {
    pages::<u64>();
}

#[test]
fn pages_of_u128() {
    pages::<u128>();
}

/// Every edit goes through the log and back, whatever its arguments.
#[test]
fn edits_are_read_back_as_written() {
    let mut random = StdRng::seed_from_u64(12);
    for _ in 0..2000 {
        let mut image = [0; 8192];
        random.fill(&mut image[..]);
        let nodes: Vec<(u8, u64)> =
            (0..random.random_range(2..128)).map(|_| (random.random(), random.random())).collect();
        let place = Position { node: random.random(), slot: random.random() };
        let fence = Key::new(random.random(), Tail::from_raw(random.random()));
        let (rest, extra) = image.split_at(random.random_range(0..3000));
        let extra = &extra[..random.random_range(0..3000)];
        let cells = [Cell::None, Cell::Shared(random.random()), Cell::New { rest, extra }];
        let edits = [
            Edit::Image(&image),
            Edit::Insert {
                place,
                lane: random.random(),
                tail: Tail::from_raw(random.random()),
                child: random.random(),
                cell: cells[random.random_range(0..cells.len())],
            },
            Edit::SplitNode { node: random.random(), keep: random.random(), separator: random.random() },
            Edit::Balance { left: random.random() },
            Edit::Repack,
            Edit::Compact { node: random.random() },
            Edit::Purge(&nodes),
            Edit::SetChild { place, child: random.random() },
            Edit::SetLeft(random.random()),
            Edit::SetRight(random.random()),
            Edit::SetLow(fence),
            Edit::SetIncomplete(random.random()),
            Edit::Delete,
        ];
        let mut change = Change::new(random.random());
        for _ in 0..random.random_range(1..4) {
            for _ in 0..random.random_range(0..4) {
                change = change.edit(edits[random.random_range(0..edits.len())]);
            }
            change = change.page(random.random());
        }
        let record = encoded(&change);
        let decoded = Decoded::decode(&record).expect("the record can be read");
        assert_eq!(decoded.change().blocks(), change.blocks());
        assert_eq!(encoded(&decoded.change()), record);
        let cut = random.random_range(0..record.len());
        assert!(Decoded::decode(&record[..cut]).is_none(), "a record cut short is read");
    }
}
