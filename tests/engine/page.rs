//! One page against a sorted list: every way to put entries in and take them out, as changes that are logged and read
//! back.

use crate::common::bytes::{Row, SMALL_KEY, Taste};
use crate::common::{bytes, *};
use fpbtree_engine::format::{
    Block, Geometry, Key, Lane, LaneKind, MAX_PAGE_NODES, NO_BLOCK, PAGE_SIZE, PageBytes, Position, Tid,
};
use fpbtree_engine::keys::bytes::{BytesKey, CompareValues, OwnedKey, Stored};
use fpbtree_engine::log::{BlockEdits, Cell, Change, Decoded, Edit, Fence, Horizon, Ranges};
use fpbtree_engine::page::{
    Arrangement, Bytes, Entry, Joined, KeySpace, Keys, Links, Page, PageSplits, Plan, Thrift, mask,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};

const BLOCK: Block = 7;
/// Those of a change of several pages.
const BLOCKS: [Block; 4] = [BLOCK, 12, 8, u32::MAX];

/// Makes a change of a page after it went through the log. Flags of dead rows, which no log has, decide nothing (I2).
fn make(bytes: &mut PageBytes, change: Change<'_>) {
    let record = encoded(&change);
    let decoded = Decoded::decode(&record).expect("the record can be read");
    let read = decoded.change();
    assert_eq!(decoded.blocks(), &BLOCKS[..change.pages()]);
    assert_eq!(encoded(&read), record);
    assert!(read.fits(0, bytes), "{read:?}");
    let (mut redone, mut alive) = (*bytes, alive(bytes));
    read.apply(0, bytes, &mut Ranges::new());
    read.apply(0, &mut alive, &mut Ranges::new());
    let mut masked = *bytes;
    mask(&mut masked);
    mask(&mut alive);
    assert!(masked == alive, "flags of dead rows decide what becomes of {read:?}");
    let (kind, mut part) = (change.kind(), Vec::new());
    change.encode_part(kind, 0, &mut part);
    BlockEdits::prefetch(kind, &part, &redone);
    let is_redone = match kind.is_insertion() {
        true => BlockEdits::redo_insertion(kind, &part, &mut redone),
        false => BlockEdits::decode(kind, &part).is_some_and(|part| part.redo(&mut redone)),
    };
    assert!(is_redone && redone == *bytes, "{change:?}");
}

/// A page without flags of dead rows.
fn alive(bytes: &PageBytes) -> PageBytes {
    let mut alive = *bytes;
    mask(&mut alive);
    // LSN and checksum are the server's.
    alive[..10].copy_from_slice(&bytes[..10]);
    alive
}

/// Inserts, unless the page is full. Says what it took.
fn insert<K: KeySpace>(
    bytes: &mut PageBytes,
    geometry: &Geometry,
    key: K::Key<'_>,
    entry: &Entry<'_, K>,
    plans: &mut Vec<Plan>,
) -> bool {
    for _ in 0..2 {
        let before = *bytes;
        let page = Page::<K>::open(&before, geometry, BLOCK).expect("the page can be read");
        let plan = page.plan(key, entry, Thrift::Usual);
        plans.push(plan);
        let mut change = Change::new();
        if page.insertion(key, entry, &mut change) {
            make(bytes, change);
            return true;
        }
        let Plan::Repack { cell } = plan else { break };
        let arrangement = page.repacked(cell, plans.len().is_multiple_of(2)).expect("a sound page can be repacked");
        make(bytes, Change::new().edit(Edit::Repack(arrangement.counts())));
    }
    false
}

/// How many of the plans are of each kind.
fn kinds(plans: &[Plan]) -> [usize; 6] {
    let mut kinds = [0; 6];
    for plan in plans {
        kinds[match plan {
            Plan::Insert(_) => 0,
            Plan::Split { .. } => 1,
            Plan::Part { .. } => 2,
            Plan::Balance { .. } => 3,
            Plan::Repack { .. } => 4,
            Plan::Full => 5,
        }] += 1;
    }
    kinds
}

/// A page, and what it should hold.
struct Sheet<'g, L> {
    geometry: &'g Geometry,
    bytes: PageBytes,
    model: BTreeMap<Key<L>, Block>,
}

impl<'g, L: Lane> Sheet<'g, L> {
    /// A page with one entry, which begins an inner page and may not be taken out of it.
    fn new(geometry: &'g Geometry, level: u8, right: Block) -> Self {
        let high = if right == 0 { Key::MAX } else { Key::new(L::MAX, Tid::first(true)) };
        let links = Links { level, left: 0, right, low: Key::MIN, high, fill: 90 };
        let first = Entry { key: L::MIN, tid: Tid::MIN, child: 5 };
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

    /// Inserts, unless the page is full.
    fn insert(&mut self, entry: Entry<'_, L>, plans: &mut Vec<Plan>) -> bool {
        let is_in = insert(&mut self.bytes, self.geometry, entry.key(), &entry, plans);
        if is_in {
            self.model.insert(entry.key(), entry.child);
        }
        is_in
    }

    /// Whether a key belongs elsewhere.
    fn is_elsewhere(&self, key: Key<L>) -> bool {
        let page = Page::<L>::open(&self.bytes, self.geometry, BLOCK).expect("the page can be read");
        page.is_below(key) || page.is_beyond(key)
    }

    /// Removes what `is_doomed` names, but not the first entry of an inner page.
    fn remove(&mut self, mut is_doomed: impl FnMut() -> bool) {
        let bytes = self.bytes;
        let page = Page::<L>::open(&bytes, self.geometry, BLOCK).expect("the page can be read");
        let mut nodes = Vec::<(u8, u128)>::new();
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
            make(&mut self.bytes, Change::new().edit(Edit::RemoveSet(&nodes)));
        }
    }

    /// The page holds what it should, and every way to look for it finds it.
    fn check(&self, random: &mut StdRng) {
        let page = self.page();
        let level = page.level();
        let found = page.iter().map(|entry| (entry.key(), if level == 0 { 0 } else { entry.child }));
        assert!(found.eq(self.model.iter().map(|(key, child)| (*key, if level == 0 { 0 } else { *child }))));
        for _ in 0..3 {
            let (lane, tid) = random_key::<L>(random, 40);
            let key = Key::new(lane, tid);
            let place = page.lower_bound(key);
            let after = self.model.range(key..).next();
            let before = self.model.range(..key).next_back();
            assert_eq!(page.key(place), after.map(|(key, _)| *key));
            assert_eq!(page.previous(place).and_then(|place| page.key(place)), before.map(|(key, _)| *key));
            if level > 0 {
                let at_or_before = self.model.range(..=key).next_back();
                assert_eq!(page.child_for(key), at_or_before.map(|(_, child)| *child));
                let found = page.child_place_before(key).and_then(|place| page.entry(place));
                assert_eq!(found.map(|entry| entry.child), before.map(|(_, child)| *child));
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

fn encoded(change: &Change<'_>) -> Vec<u8> {
    let mut record = Vec::new();
    change.encode(&BLOCKS[..change.pages()], &mut record);
    record
}

fn random_key<L: Lane>(random: &mut StdRng, spread: u128) -> (L, Tid) {
    key(random.random_range(0..spread) * (L::MAX.to_u128() / spread), random.random_range(0..5000))
}

fn geometries<L: Lane>() -> Vec<Geometry> {
    let widths: &[[u8; 4]] = match L::KIND {
        LaneKind::U32 => &[[2, 2, 2, 3], [1, 12, 1, 12]],
        LaneKind::U64 => &[[4, 3, 2, 5], [2, 15, 2, 20]],
        LaneKind::U128 => &[[2, 5, 3, 9], [1, 40, 1, 30]],
        LaneKind::Prefix | LaneKind::PrefixPayload => unreachable!("exact lanes only"),
    };
    let most = MAX_PAGE_NODES as u8 / 3;
    let chosen = widths.iter().map(|widths| {
        let widths = widths.map(|width| width.min(most));
        Geometry::with_widths(L::KIND, BUILD_ID, widths).unwrap()
    });
    chosen.chain([small::<L>(), normal::<L>()]).collect()
}

/// Fills pages in several ways, with removals between, and checks them every now and then.
fn pages<L: Lane>() {
    let (mut random, mut plans) = (StdRng::seed_from_u64(11), Vec::new());
    for geometry in geometries::<L>() {
        for (level, right) in [(0, 0), (0, 9), (3, 0), (3, 9)] {
            for spread in [1, 30, 1 << 25] {
                let mut sheet = Sheet::<L>::new(&geometry, level, right);
                // Removals are rare enough for the page to become full.
                let calm = (geometry.layout(level).most_entries() as u32 / 4).max(60);
                let (mut full, mut row) = (0, 0);
                while full < 3 {
                    row += 1;
                    let (lane, tid) = match row % 4 {
                        0 => key(row.into(), row),
                        _ => random_key(&mut random, spread),
                    };
                    let entry = Entry { key: lane, tid, child: random.random_range(2..1000) };
                    if !sheet.model.contains_key(&entry.key()) && !sheet.insert(entry, &mut plans) {
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
    let [insert, split, part, others @ ..] = kinds(&plans);
    assert!([insert, split].iter().chain(&others).all(|&count| count > 0) && part == 0, "{:?}", kinds(&plans));
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

/// How many random pages a test makes: so many, or as `FPBTREE_PAGES` says.
fn tries(usual: u64) -> u64 {
    std::env::var("FPBTREE_PAGES").map_or(usual, |pages| pages.parse().expect("a number of pages"))
}

/// Keys and TIDs as indexes have them: some bytes of them the same in all, some at random, few of them or many.
struct Flavour<L> {
    lane: (L, u32, u128),
    block: (u32, u32),
    /// Of a hundred keys.
    nulls: u32,
}

impl<L: Lane> Flavour<L> {
    fn random(random: &mut StdRng) -> Self {
        let bits = 8 * L::SIZE as u32;
        let all = L::MAX.to_u128() & random.random::<u128>();
        let many = [1, 3, 40, 1000, u128::MAX][random.random_range(0..5)];
        Flavour {
            lane: (L::from_u128(all), random.random_range(0..=bits), many),
            block: (random.random(), random.random_range(0..=32)),
            nulls: [0, 2, 50][random.random_range(0..3)],
        }
    }

    fn key(&self, random: &mut StdRng) -> Key<L> {
        let ((all, bits, many), (block, block_bits)) = (self.lane, self.block);
        // Some are from anywhere.
        let [has_stray_lane, has_stray_block] = [(); 2].map(|()| random.random_ratio(1, 200));
        let low = |bits: u32| if bits == 0 { 0 } else { u128::MAX >> (128 - bits) };
        let lane_bits = if has_stray_lane { 8 * L::SIZE as u32 } else { bits };
        let step = (low(bits) / many).max(1);
        let lane = (all.to_u128() & !low(lane_bits)) | (random.random_range(0..many) * step) & low(lane_bits);
        let block_bits = if has_stray_block { 32 } else { block_bits };
        let near = low(block_bits) as u32;
        let block = (block & !near | random.random::<u32>() & near).min(u32::MAX - 1);
        let is_null = random.random_ratio(self.nulls, 100);
        let lane = if is_null { L::MAX } else { L::from_u128(lane) };
        Key::new(lane, Tid::new(is_null, block, random.random_range(1..=Tid::MAX_OFFSET), false))
    }
}

impl<L: Lane> Sheet<'_, L> {
    /// A scan notes that some rows are dead.
    fn bury(&mut self, random: &mut StdRng, dead: &mut BTreeSet<Key<L>>) {
        let bytes = self.bytes;
        let page = Page::<L>::open(&bytes, self.geometry, BLOCK).expect("the page can be read");
        for number in 0..page.nodes() {
            let node = page.node(number);
            for slot in (0..node.len()).filter(|_| random.random_ratio(1, 4)) {
                self.bytes[node.tid_at(slot)] |= Tid::DEAD;
                dead.insert(node.entry(slot).key());
            }
        }
    }

    /// Makes a change that nobody plans, if the page takes it.
    fn shake(&mut self, random: &mut StdRng) {
        let page = self.page();
        if page.nodes() == 0 {
            return;
        }
        let (nodes, entries) = (page.nodes(), page.entries());
        let node = random.random_range(0..nodes);
        let mut counts: Vec<u8> = (0..nodes).map(|node| page.node(node).len() as u8).collect();
        let (from, to) = (random.random_range(0..nodes), random.random_range(0..nodes));
        let moved = random.random_range(0..4).min(counts[from] - 1);
        counts[from] -= moved;
        counts[to] = counts[to].saturating_add(moved);
        let arrangement = page.repacked(0, random.random()).expect("a sound page can be repacked");
        let edit = match random.random_range(0..4) {
            0 => Edit::SplitNode { node: node as u8, keep: random.random_range(0..page.node(node).len()) as u8 },
            1 => Edit::Balance { left: node as u8, keep: random.random_range(0..=u8::MAX) },
            2 => Edit::Repack(&counts),
            _ => Edit::Repack(arrangement.counts()),
        };
        let change = Change::new().edit(edit);
        let mut changed = self.bytes;
        let takes = change.fits(0, &changed);
        if takes {
            change.apply(0, &mut changed, &mut Ranges::new());
        }
        // A node without entries is one that something will be put in next.
        if takes && Page::<L>::open(&changed, self.geometry, BLOCK).is_ok_and(|page| has_no_empty_node(&page)) {
            make(&mut self.bytes, change);
        }
        assert_eq!(self.page().entries(), entries);
    }

    /// Splits the page, and keeps one of the halves, which continues between its fences.
    fn halve(&mut self, random: &mut StdRng) {
        let page = self.page();
        let (level, entries) = (page.level(), page.entries());
        if entries < 2 {
            return;
        }
        let keep = random.random_range(1..entries);
        let first = page.iter().nth(keep).expect("an entry").key();
        let links =
            Links { level, left: 3, right: page.right(), low: first, high: page.high(), fill: Links::<L>::HALF };
        let right = L::right_half(&page, self.geometry, &links, keep).expect("entries fit");
        let mut arrangement = Arrangement::default();
        let halve = L::halve(&page, keep, 9, &first, &mut arrangement).expect("entries fit");
        let of_right = self.model.split_off(&first);
        make(&mut self.bytes, Change::new().edit(halve));
        if random.random() {
            (self.bytes, self.model) = (right, of_right);
        }
    }

    /// Every entry is there, with its flag.
    fn check_flags(&self, dead: &BTreeSet<Key<L>>) {
        let page = self.page();
        let level = page.level();
        let found = page.iter().map(|entry| (entry.key(), if level == 0 { 0 } else { entry.child }, entry.tid.dead()));
        let model =
            self.model.iter().map(|(key, child)| (*key, if level == 0 { 0 } else { *child }, dead.contains(key)));
        assert!(found.eq(model));
    }

    /// Nodes are told to ascend as they are, and none with wrong bytes whose lanes do not.
    fn check_order(&self, random: &mut StdRng) {
        let mut bytes = self.bytes;
        for damages in 0..50 {
            let Ok(page) = Page::<L>::open(&bytes, self.geometry, BLOCK) else { break };
            for node in (0..page.nodes()).map(|node| page.node(node)).filter(|node| !node.is_empty()) {
                let from = random.random_range(0..node.len());
                let count = random.random_range(0..=node.len() - from);
                let mut lanes = vec![L::MIN; count];
                node.read_lanes(from, &mut lanes);
                let ascends = node.is_ascending(from, count);
                assert!(ascends || damages > 0);
                assert!(!ascends || lanes.is_sorted());
            }
            bytes[random.random_range(PAGE_SIZE / 16..PAGE_SIZE)] = random.random();
        }
    }
}

fn has_no_empty_node<L: Lane>(page: &Page<'_, L>) -> bool {
    (0..page.nodes()).all(|node| !page.node(node).is_empty())
}

/// Random pages, changed at random, beside a list of what they should hold.
fn random_pages<L: Lane>() {
    let mut plans = Vec::new();
    for seed in 0..tries(600) {
        let mut random = StdRng::seed_from_u64(seed);
        let geometries = geometries::<L>();
        let geometry = &geometries[random.random_range(0..geometries.len())];
        let level = [0, 0, 0, 2][random.random_range(0..4)];
        let mut sheet = Sheet::<L>::new(geometry, level, 0);
        let mut dead = BTreeSet::new();
        let mut flavour = Flavour::random(&mut random);
        let [mut full, mut tries] = [0; 2];
        while full < 3 && tries < 6000 {
            tries += 1;
            let key = flavour.key(&mut random);
            let entry = Entry { key: key.lane, tid: key.tid, child: random.random_range(2..=1 << (tries % 30 + 1)) };
            if !sheet.is_elsewhere(key) && !sheet.model.contains_key(&key) && !sheet.insert(entry, &mut plans) {
                full += 1;
                match random.random_range(0..3) {
                    0 => sheet.halve(&mut random),
                    1 => flavour = Flavour::random(&mut random),
                    _ => {}
                }
                let percent = random.random_range(1..=100);
                sheet.remove(|| random.random_range(0..100) < percent);
                dead.retain(|key| sheet.model.contains_key(key));
                sheet.check_flags(&dead);
            }
            match random.random_range(0..400) {
                0 if level == 0 => sheet.bury(&mut random, &mut dead),
                1..6 => sheet.shake(&mut random),
                6 => {
                    dead.retain(|key| sheet.model.contains_key(key));
                    sheet.check_flags(&dead);
                }
                _ => {}
            }
        }
        sheet.check_flags(&dead);
        sheet.check_order(&mut random);
    }
    let [insert, split, _, others @ ..] = kinds(&plans);
    assert!([insert, split].iter().chain(&others).all(|&count| count > 0), "{:?}", kinds(&plans));
}

/// A row far away in the table, between rows that are near each other, makes a node wide that is half as long, too.
#[test]
fn a_wide_entry_parts_a_node() {
    let (geometry, mut plans) = (normal::<u32>(), Vec::new());
    let mut sheet = Sheet::<u32>::new(&geometry, 0, 0);
    let entry = |key: u32, block| Entry { key, tid: Tid::new(false, block, 1, false), child: NO_BLOCK };
    for key in 1..3 {
        for block in 0..58 {
            assert!(sheet.insert(entry(key, block), &mut plans));
        }
    }
    assert_eq!(sheet.page().nodes(), 1);
    assert!(sheet.insert(entry(1, u32::MAX - 1), &mut plans));
    assert_eq!((sheet.page().nodes(), kinds(&plans)[2]), (3, 1), "{plans:?}");
    sheet.check(&mut StdRng::seed_from_u64(1));
}

#[test]
fn random_pages_of_u32() {
    random_pages::<u32>();
}

#[test]
fn random_pages_of_u64() {
    random_pages::<u64>();
}

#[test]
fn random_pages_of_u128() {
    random_pages::<u128>();
}

/// The rest of a page, copied, is what its entries make one by one.
fn rests<L: Lane>() {
    let mut random = StdRng::seed_from_u64(3);
    let geometry = normal::<L>();
    for (level, right, spread) in [(0, 0, 30), (0, 9, 30), (0, 9, 1), (0, 9, 1 << 25), (3, 9, 1 << 25)] {
        let mut sheet = Sheet::<L>::new(&geometry, level, right);
        let mut is_full = false;
        while !is_full {
            let (lane, tid) = random_key(&mut random, spread);
            let entry = Entry { key: lane, tid, child: random.random_range(2..1000) };
            is_full = !sheet.model.contains_key(&entry.key()) && !sheet.insert(entry, &mut Vec::new());
        }
        let page = sheet.page();
        let links =
            Links { level, left: 3, right: page.right(), low: page.low(), high: page.high(), fill: Links::<L>::HALF };
        let rest = |skip| L::right_half(&page, &geometry, &links, skip);
        for skip in [0, 1, page.entries() / 2, page.entries() - 1] {
            let left = page.entries() - skip;
            let built = L::build(&geometry, &links, left, page.iter().skip(skip));
            let half = rest(skip).expect("entries that fit a page fit another");
            let is_spread = level == 0 && right > 0;
            // Entries that are too many to be spread stay as they are, where a build packs them.
            assert!(half == built.expect("so they do") || is_spread && skip < 2, "{level} {right} {spread} {skip}");
            // An inner page would have to begin at its low fence.
            let verified = Page::<L>::verify(&half, &geometry, BLOCK, Some(true), ());
            assert!(level > 0 || verified.is_ok(), "{level} {right} {spread} {skip}");
            let half = Page::<L>::open(&half, &geometry, BLOCK).expect("a page");
            assert!(half.iter().map(|entry| entry.key()).eq(page.iter().skip(skip).map(|entry| entry.key())));
            let other = page.iter().next().expect("a full page has entries");
            let joined = Joined::of(page).with(skip, other);
            assert_eq!(joined.len(), joined.iter().count());
            let same = |(rank, entry): (usize, Entry<'_, L>)| joined.get(rank).map(|e| e.key()) == Some(entry.key());
            assert!(joined.iter().enumerate().all(same) && joined.get(joined.len()).is_none());
        }
        assert_eq!(rest(page.entries()), None);
    }
}

#[test]
fn rests_of_pages() {
    rests::<u32>();
    rests::<u64>();
    rests::<u128>();
}

/// A leaf of byte strings, and the rows it should hold.
struct BytesSheet {
    taste: Taste,
    geometry: Geometry,
    bytes: PageBytes,
    model: BTreeSet<Row>,
}

impl BytesSheet {
    fn new(taste: Taste, geometry: Geometry, right: Block) -> Self {
        let mut high = *Bytes::last();
        if right > 0 {
            // Behind all markers.
            high.keep_front(&Stored::whole(&[9], &[]), 1);
        }
        let (low, high) = (Bytes::fence_of(Bytes::first()), Bytes::fence_of(&high));
        let links = Links { level: 0, left: 0, right, low, high, fill: 90 };
        let bytes = Bytes::build(&geometry, &links, 0, [].into_iter()).expect("nothing fits");
        BytesSheet { taste, geometry, bytes, model: BTreeSet::new() }
    }

    fn page(&self) -> Page<'_, Bytes> {
        Page::verify(&self.bytes, &self.geometry, BLOCK, None, self.taste.order()).expect("the page is sound")
    }

    /// Inserts, unless the page is full.
    fn insert(&mut self, row: Row, plans: &mut Vec<Plan>) -> bool {
        let entry = row.entry();
        let key = Bytes::key_of(&entry, self.taste.order());
        let is_in = insert(&mut self.bytes, &self.geometry, key, &entry, plans);
        if is_in {
            self.model.insert(row);
        }
        is_in
    }

    fn remove(&mut self, mut is_doomed: impl FnMut(Tid) -> bool) {
        let before = self.bytes;
        let page = Page::<Bytes>::open(&before, &self.geometry, BLOCK).expect("the page can be read");
        for number in (0..page.nodes()).rev() {
            let node = page.node(number);
            let doomed = (0..node.len()).filter(|&slot| is_doomed(node.tid(slot)));
            let mask = doomed.fold(0, |mask, slot| mask | 1 << slot);
            let tids: Vec<Tid> =
                (0..node.len()).filter(|slot| mask >> slot & 1 == 1).map(|slot| node.tid(slot)).collect();
            self.model.retain(|row| !tids.contains(&row.tid));
            if mask != 0 {
                make(&mut self.bytes, Change::new().edit(Edit::RemoveSet(&[(number as u8, mask)])));
            }
        }
    }

    /// The page holds what it should, and finds it.
    fn check(&self) {
        let page = self.page();
        let found = page.iter().zip(&self.model);
        assert!(found.clone().count() == page.entries() && page.entries() == self.model.len());
        let mut place = Position { node: 0, slot: 0 };
        for (entry, row) in found {
            assert!(entry.tid == row.tid && entry.key.is_same(&row.entry().key));
            let mut kept = OwnedKey::FIRST;
            Bytes::set_to_key(&mut kept, &row.entry(), self.taste.order()).expect("a sound key");
            assert_eq!(page.lower_bound(kept.key(self.taste.order())), place);
            place = page.next(place);
            kept.step();
            assert_eq!(page.lower_bound(kept.key(self.taste.order())), place);
            self.check_remembered(&page, kept.key(self.taste.order()), &Entry { tid: kept.tid(), ..row.entry() });
        }
        assert_eq!(place, page.end());
    }

    /// A place that is remembered leads an entry from outside nowhere else: neither that of a neighbour nor one at the
    /// other side of the border between two nodes.
    fn check_remembered(&self, page: &Page<'_, Bytes>, key: BytesKey<'_>, entry: &Entry<'_, Bytes>) {
        let plan_with = |place: Position| {
            self.taste.columns.note_place(key.value, 0, place);
            page.plan(key, entry, Thrift::Usual)
        };
        if key.order.is_some() {
            let place = page.lower_bound(key);
            let plan = plan_with(Position { node: u8::MAX, slot: 0 });
            let before = place.node.saturating_sub(1);
            for lie in [place, Position { node: before, slot: page.node(before.into()).len() as u8 }] {
                assert_eq!(plan_with(lie), plan);
            }
        }
    }
}

/// Leaves whose rows have few keys, or many: the same rows twice, but that what they carry or how an opaque value is
/// spelt may differ.
#[test]
fn pages_of_byte_strings() {
    let (mut plans, mut runs) = (Vec::new(), 0);
    for seed in 0..tries(150) {
        let mut random = StdRng::seed_from_u64(seed);
        let taste = Taste::random(&mut random, SMALL_KEY);
        let apart = [1, 1000, 5_000_000][random.random_range(0..3)];
        let carries = taste.shape.has_payload();
        let geometry = if random.random() { bytes::small(carries) } else { bytes::normal(carries) };
        let mut sheet = BytesSheet::new(taste, geometry, [0, 9][random.random_range(0..2)]);
        let (mut full, mut number) = (0, 0);
        while full < 3 {
            number += random.random_range(1..4);
            let row = sheet.taste.random_row(&mut random, number * 0x9E37 % 60_000 * apart);
            if sheet.model.iter().any(|other| other.tid == row.tid) {
                continue;
            }
            if !sheet.insert(row, &mut plans) {
                sheet.check();
                // On a small page a node may have room for two entries, one of which is to be left free.
                let least = if geometry == bytes::small(carries) { 0.4 } else { 0.5 };
                assert!(sheet.page().fill() > least, "seed {seed}: {} of it in use and full", sheet.page().fill());
                (full, runs) = (full + 1, runs + sheet.page().grouped_nodes());
                let percent = random.random_range(1..=100);
                sheet.remove(|_| random.random_range(0..100) < percent);
                sheet.check();
            }
            if random.random_ratio(1, 40) {
                sheet.check();
            }
            if random.random_ratio(1, 400) {
                sheet.remove(|_| random.random_ratio(1, 3));
                sheet.check();
            }
        }
        sheet.remove(|_| true);
        sheet.check();
    }
    // A cell's width keeps nodes from having so many entries that neither half of one has room for another.
    let [insert, split, _, others @ ..] = kinds(&plans);
    let all = [insert, split].iter().chain(&others).all(|&count| count > 0);
    assert!(runs > 500 && all, "{runs} groups, {:?}", kinds(&plans));
}

/// An image is logged as what lies between eight zeroes in a row or more, byte for byte.
#[test]
fn images_are_logged_in_stretches() {
    let mut random = StdRng::seed_from_u64(13);
    for _ in 0..500 {
        let mut image = [0; PAGE_SIZE];
        let (mut at, longest) = (random.random_range(0..100), [3, 20, 200][random.random_range(0..3)]);
        while at < PAGE_SIZE {
            let end = (at + random.random_range(1..=longest)).min(PAGE_SIZE);
            image[at..end].iter_mut().for_each(|byte| *byte = random.random_range(1..=255));
            at = end + random.random_range(0..=16);
        }
        let mut expected = vec![16];
        let mut from = 0;
        while let Some(start) = (from..PAGE_SIZE).find(|&at| image[at] != 0) {
            let is_end = |&end: &usize| image[end..].iter().take(8).all(|&byte| byte == 0);
            let end = (start + 1..=PAGE_SIZE).find(is_end).expect("the page ends");
            expected.extend((start as u16).to_le_bytes());
            expected.extend(((end - start) as u16).to_le_bytes());
            expected.extend(&image[start..end]);
            from = end;
        }
        expected.extend([0; 4]);
        let change = Change::new().edit(Edit::New(&image));
        let mut part = Vec::new();
        change.encode_part(change.kind(), 0, &mut part);
        assert!(part == expected, "{} bytes instead of {}", part.len(), expected.len());
    }
}

/// Every edit goes through the log and back, whatever its arguments.
#[test]
fn edits_are_read_back_as_written() {
    let mut random = StdRng::seed_from_u64(12);
    for _ in 0..2000 {
        let mut image = [0; PAGE_SIZE];
        random.fill(&mut image[..]);
        for _ in 0..random.random_range(0..30) {
            let from = random.random_range(0..PAGE_SIZE);
            image[from..(from + random.random_range(0..500)).min(PAGE_SIZE)].fill(0);
        }
        let nodes: Vec<(u8, u128)> =
            (0..random.random_range(2..128)).map(|_| (random.random(), random.random())).collect();
        let place = Position { node: random.random(), slot: random.random() };
        let fence = Key::new(random.random(), Tid::from_raw(random.random()));
        let counts: Vec<u8> = (0..random.random_range(0..126)).map(|_| random.random()).collect();
        let (suffix, payload) = image.split_at(random.random_range(0..3000));
        let payload = &payload[..random.random_range(0..3000)];
        let cells = [Cell::None, Cell::Shared(random.random()), Cell::New { suffix, payload }];
        let edits = [
            Edit::Image(&image),
            Edit::New(&image),
            Edit::Insert {
                place,
                lane: random.random(),
                tid: Tid::from_raw(random.random()),
                child: random.random(),
                cell: cells[random.random_range(0..cells.len())],
            },
            Edit::SplitNode { node: random.random(), keep: random.random() },
            Edit::Balance { left: random.random(), keep: random.random() },
            Edit::Repack(&counts),
            Edit::Reserve { bytes: random.random() },
            Edit::RemoveSet(&nodes),
            Edit::Remove { node: random.random(), mask: random.random() },
            Edit::Halve { counts: &counts, right: random.random(), high: Fence::Lane(fence) },
            Edit::Halve {
                counts: &counts,
                right: random.random(),
                high: Fence::Bytes {
                    normal: suffix,
                    value: payload,
                    tid: Tid::from_raw(random.random()),
                    prefix: random.random_range(0..20),
                },
            },
            Edit::SetLeft(random.random()),
            Edit::SetRight(random.random()),
            Edit::SetLow(fence),
            Edit::SetIncomplete(random.random()),
            Edit::Conflict(Horizon { transaction: random.random(), is_catalog: random.random() }),
            Edit::Delete { time: 0 },
            Edit::Delete { time: 77_000 },
        ];
        let mut change = Change::new();
        for page in 0..random.random_range(2..5) {
            change = if page > 0 { change.page() } else { change };
            for _ in 0..random.random_range(0..4) {
                change = change.edit(edits[random.random_range(0..edits.len())]);
            }
        }
        if random.random_ratio(1, 3) {
            let lane = random.random::<u128>() >> random.random_range(0..128);
            let tid = Tid::from_raw(random.random());
            change = Change::new().edit(Edit::Insert { place, lane, tid, child: NO_BLOCK, cell: Cell::None });
        }
        let record = encoded(&change);
        let decoded = Decoded::decode(&record).expect("the record can be read");
        assert_eq!(decoded.blocks(), &BLOCKS[..change.pages()]);
        assert_eq!(encoded(&decoded.change()), record);
        let cut = random.random_range(0..record.len());
        assert!(Decoded::decode(&record[..cut]).is_none(), "a record cut short is read");
    }
}
