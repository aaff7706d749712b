//! Damage at every kind of byte of every kind of page, and whole pages that are others: reads, insertions and VACUUM
//! answer rightly or refuse. What they cannot tell is counted by the part of the page that was hit.

use crate::common::bytes::{BytesBed, Row, SMALL_KEY, Taste, small as small_bytes};
use crate::common::*;
use fpbtree_engine::format::{
    Block, Error, Geometry, Key, Lane, META_LEVEL, NO_BLOCK, PAGE_SIZE, PageBytes, ROOT, Tid,
};
use fpbtree_engine::page::{Entry, Keys, Meta, Page};
use fpbtree_engine::scan::{Cursor, Direction, Matches};
use fpbtree_engine::store::PageStore;
use fpbtree_engine::store::memory::MemoryStore;
use fpbtree_engine::tree::check::BlockSet;
use fpbtree_engine::tree::{DeadTids, InsertOptions, Tree};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};

type OwnedKey<M> = <<M as KeyMaker>::Keys as Keys>::OwnedKey;

/// A sound tree, what it holds, what it was before, and another one like it.
struct Sound<M: KeyMaker> {
    name: &'static str,
    meta: Meta,
    pages: Vec<PageBytes>,
    /// The same tree, some insertions and removals earlier.
    earlier: Vec<PageBytes>,
    keys: Vec<OwnedKey<M>>,
    tids: Vec<Tid>,
    taste: M,
}

fn pages_of(store: &MemoryStore) -> Vec<PageBytes> {
    (0..store.block_count()).map(|block| store.copy(block)).collect()
}

impl<M: KeyMaker> Sound<M> {
    fn new(name: &'static str, [earlier, pages]: [Vec<PageBytes>; 2], taste: M) -> Self {
        let mut sound = Sound { name, meta: taste.meta(), pages, earlier, keys: Vec::new(), tids: Vec::new(), taste };
        let store = sound.store();
        let mut found = Vec::new();
        let answer = sound.read(&store, [M::Keys::FIRST, M::Keys::LAST], Direction::Forward, &mut |kept, tid| {
            found.push((*kept, tid))
        });
        assert_eq!(answer, Ok(()));
        (sound.keys, sound.tids) = found.into_iter().unzip();
        sound
    }

    fn store(&self) -> MemoryStore {
        MemoryStore::unchecked(&self.pages, self.pages.len() + 20)
    }

    fn tree<'t>(&'t self, store: &'t MemoryStore) -> Tree<'t, MemoryStore, M::Keys> {
        Tree::ordered(store, &self.meta.geometry, self.taste.order())
    }

    /// Tells of every match in a range.
    fn read(
        &self,
        store: &MemoryStore,
        range: [OwnedKey<M>; 2],
        direction: Direction,
        each: &mut dyn FnMut(&OwnedKey<M>, Tid),
    ) -> Result<(), Error> {
        let (mut cursor, mut matches) = (Cursor::<M::Keys>::new(direction), Box::new(Matches::new()));
        let (wanted, mut pages) = (Between::<M::Keys>::new(range), 0);
        while read_on(self.tree(store), &mut cursor, &wanted, false, &mut matches)?.is_some() {
            pages += 1;
            assert!(pages < 2000, "a scan of a small tree goes on for ever");
            for at in 0..matches.len() {
                // The server refuses a key that makes no sense when it makes a row of it.
                let broken = Error::Corrupt { block: NO_BLOCK, what: "key" };
                let place = M::matched(&matches, at).and_then(|entry| self.taste.place(&entry));
                each(&place.ok_or(broken)?, matches.tid(at));
            }
        }
        Ok(())
    }

    /// Whether a read of the entries from one number to another is right, if it does not fail; one that fails is to have
    /// told of none that was not asked for.
    fn is_right(&self, store: &MemoryStore, [from, to]: [usize; 2], direction: Direction) -> Result<bool, Error> {
        let place = |at: usize| self.keys.get(at).copied().unwrap_or(M::Keys::LAST);
        let low = if from == 0 { M::Keys::FIRST } else { place(from) };
        let mut expected: Vec<usize> = (from..to).collect();
        if direction == Direction::Backward {
            expected.reverse();
        }
        let (mut expected, mut right, mut within) = (expected.into_iter(), true, true);
        let answer = self.read(store, [low, place(to)], direction, &mut |kept, tid| {
            let same = |at: usize| self.tids[at].position() == tid.position() && M::Keys::same(&self.keys[at], kept);
            within &= !self.keys[..from].iter().chain(&self.keys[to..]).any(|other| M::Keys::same(other, kept));
            right &= expected.next().is_some_and(same);
        });
        if !within {
            return Ok(false);
        }
        answer.map(|()| right && expected.next().is_none())
    }

    fn number_of(&self, tid: Tid) -> Option<usize> {
        self.tids.iter().position(|other| other.position() == tid.position())
    }

    /// The entries whose reading is most likely to come by a page: some of its own as it was.
    fn some_of(&self, block: Block, random: &mut StdRng) -> Vec<usize> {
        let bytes = self.pages[block as usize];
        let Ok(page) = Page::<M::Keys>::open(&bytes, &self.meta.geometry, block) else { return Vec::new() };
        if page.level() > 0 || page.entries() == 0 {
            return Vec::new();
        }
        let tids: Vec<Tid> = page.iter().map(|entry| entry.tid).collect();
        let picks = [0, tids.len() - 1].into_iter().chain((0..4).map(|_| random.random_range(0..tids.len())));
        picks.filter_map(|at| self.number_of(tids[at])).collect()
    }
}

/// What came of some kind of damage.
#[derive(Clone, Copy, Default, Debug)]
struct Tally {
    tried: usize,
    /// Some use of the tree told.
    refused: usize,
    /// An entry that was inserted without a word is not found without a word: it went astray. What is around it tells.
    misplaced: usize,
    /// A read or VACUUM that did not tell went wrong...
    silent: usize,
    /// ...and the check finds nothing either.
    unknown: usize,
}

type Tallies = BTreeMap<(&'static str, &'static str), Tally>;

/// Uses a damaged tree in every way.
fn try_it<M: KeyMaker>(
    sound: &Sound<M>,
    store: &mut MemoryStore,
    block: Block,
    random: &mut StdRng,
    tally: &mut Tally,
) {
    // What a tree with another page damaged has said is none of this one's.
    store.forget_leaves();
    let last = sound.keys.len();
    let mut reads = vec![([0, last], Direction::Forward), ([0, last], Direction::Backward)];
    for at in sound.some_of(block, random).into_iter().chain([random.random_range(0..last)]) {
        let to = (at + random.random_range(2..100)).min(last);
        reads.extend([([at, at + 1], Direction::Forward), ([at, at + 1], Direction::Backward)]);
        reads.extend([([at, to], Direction::Forward), ([at.saturating_sub(50), at], Direction::Backward)]);
    }
    let (mut refused, mut wrong) = (false, false);
    for (range, direction) in reads {
        match sound.is_right(store, range, direction) {
            Ok(true) => {}
            Ok(false) => wrong = true,
            Err(_) => refused = true,
        }
        store.abort();
    }
    let quiet = is_quiet(sound, store);
    // VACUUM has to see every entry, or what it leaves leads to other rows later.
    let mut seen = Vec::new();
    let mut look = |tid: Tid| {
        seen.push(tid.position().raw());
        false
    };
    let mut memory = memory_to_ask();
    let passed = sound.tree(store).vacuum(&mut DeadTids::new(&mut memory), &mut look, &mut |_, _, _| {}, &mut |_| {});
    let mut all: Vec<u64> = sound.tids.iter().map(|tid| tid.position().raw()).collect();
    seen.sort_unstable();
    all.sort_unstable();
    let entries = all.len() as u64;
    // It may ask twice.
    seen.dedup();
    all.dedup();
    match passed {
        Ok(stats) if seen != all || stats.entries != entries => wrong = true,
        result => refused |= result.is_err(),
    }
    store.abort();
    // An entry that could be inserted can be found.
    let (at, row) = (random.random_range(0..last), (1 << 20) + random.random_range(0..1000u32));
    let tid = Tid::new(sound.tids[at].rank(), row, 1, false);
    let entry = Entry { tid, ..M::Keys::downlink(&sound.keys[at], NO_BLOCK) };
    match sound.tree(store).insert_entry(&entry, InsertOptions::filling(90)) {
        Ok(()) => {
            let range = [sound.taste.place(&entry).expect("a sound key"), M::Keys::LAST];
            let mut first = None;
            match sound.read(store, range, Direction::Forward, &mut |_, tid| {
                first.get_or_insert(tid);
            }) {
                Ok(()) if first != Some(tid) => tally.misplaced += 1,
                result => refused |= result.is_err(),
            }
        }
        Err(_) => refused = true,
    }
    store.abort();
    tally.tried += 1;
    tally.refused += usize::from(refused);
    tally.silent += usize::from(wrong);
    tally.unknown += usize::from(wrong && quiet);
}

/// Whether the check finds nothing.
fn is_quiet<M: KeyMaker>(sound: &Sound<M>, store: &mut MemoryStore) -> bool {
    let mut words = vec![0; BlockSet::words(store.block_count())];
    let (mut quiet, mut entries) = (true, 0);
    let checked = sound.tree(store).verify(None, &mut BlockSet::new(&mut words), &mut |_, _, _| quiet = false).is_ok();
    store.abort();
    // fpbtree_check compares with the table, too.
    let counted = sound.tree(store).census().map(|census| entries = census.entries).is_ok();
    store.abort();
    quiet && checked && counted && entries == sound.keys.len() as u64
}

/// What a byte of a sound page is part of.
fn part<M: KeyMaker>(sound: &Sound<M>, block: Block, at: usize) -> &'static str {
    let bytes = &sound.pages[block as usize];
    let level = bytes[36];
    let geometry = &sound.meta.geometry;
    let front = geometry.front(level);
    let lanes_end = 128;
    match at {
        _ if level == META_LEVEL => "meta page",
        0..24 => "server's header",
        24..36 => "build id and stamp",
        36 | 37 => "level and flags",
        38 | 39 => "counts",
        40..48 => "sibling links",
        48..64 => "empty",
        64..128 => "fences",
        _ if (lanes_end..front).contains(&at) => "in-page root",
        _ if at >= PAGE_SIZE - 8 => "special space",
        _ if is_fence_cell(sound, block, at) => "fences",
        _ if level > 0 => "inner entries",
        _ => "leaf entries",
    }
}

fn is_fence_cell<M: KeyMaker>(sound: &Sound<M>, block: Block, at: usize) -> bool {
    let bytes = &sound.pages[block as usize];
    if !sound.meta.shape.lane_kind().is_prefix() || Page::<M::Keys>::open(bytes, &sound.meta.geometry, block).is_err() {
        return false;
    }
    // They are the first cells made: the page's last ones, low before high.
    let cell = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]) as usize;
    let lowest = [66, 74].map(cell).into_iter().filter(|&at| at > 0).min();
    lowest.is_some_and(|lowest| at >= lowest)
}

/// Damages single bytes of every page.
fn bytes_of_pages<M: KeyMaker>(sound: &Sound<M>, stride: usize, tallies: &mut Tallies) {
    let mut random = StdRng::seed_from_u64(17);
    for block in 1..sound.pages.len() as Block {
        let front = sound.meta.geometry.front(sound.pages[block as usize][36]);
        let dense = (10..160).chain(front - 64..front).chain(PAGE_SIZE - 80..PAGE_SIZE);
        let sparse = (random.random_range(160..160 + stride)..PAGE_SIZE - 80).step_by(stride);
        let places: BTreeSet<usize> = dense.chain(sparse).collect();
        for at in places {
            let mut page = sound.pages[block as usize];
            match random.random_range(0..3) {
                0 => page[at] ^= 1 << random.random_range(0..8),
                1 => page[at] = page[at].wrapping_add([1, 255][random.random_range(0..2)]),
                _ => page[at] ^= random.random_range(1..=255),
            }
            let mut store = sound.store();
            store.damage(block, &page);
            let tally = tallies.entry((sound.name, part(sound, block, at))).or_default();
            try_it(sound, &mut store, block, &mut random, tally);
        }
    }
}

/// Puts other pages where sound ones were.
fn whole_pages<M: KeyMaker>(sound: &Sound<M>, other: &[PageBytes], tallies: &mut Tallies) {
    let mut random = StdRng::seed_from_u64(18);
    let mut attempt = |name: &'static str, block: usize, page: &PageBytes| {
        if *page == sound.pages[block] {
            return;
        }
        let mut store = sound.store();
        store.damage(block as Block, page);
        let tally = tallies.entry((sound.name, name)).or_default();
        try_it(sound, &mut store, block as Block, &mut random, tally);
    };
    let blocks = sound.pages.len();
    for block in 1..blocks {
        let page = &sound.pages[block];
        attempt("zeroed", block, &[0; PAGE_SIZE]);
        attempt("garbage", block, &std::array::from_fn(|at| (at * 7 + block) as u8));
        for step in [1, 2, blocks / 2] {
            attempt("another page", block, &sound.pages[1 + (block - 1 + step) % (blocks - 1)]);
        }
        if let Some(foreign) = other.get(block) {
            attempt("of another index", block, foreign);
        }
        for from in [512, PAGE_SIZE / 2, PAGE_SIZE - 512] {
            let mut torn = *page;
            torn[from..].fill(0);
            attempt("second part zeroed", block, &torn);
        }
        if let Some(earlier) = sound.earlier.get(block) {
            attempt("stale", block, earlier);
            for from in [512, 1024, 4096, 7680] {
                let [mut old_new, mut new_old] = [*earlier, *page];
                old_new[from..].copy_from_slice(&page[from..]);
                new_old[from..].copy_from_slice(&earlier[from..]);
                attempt("torn", block, &old_new);
                attempt("torn", block, &new_old);
            }
        }
    }
    // Swapped.
    for (a, b) in (1..blocks).zip(2..blocks) {
        let mut store = sound.store();
        store.damage(a as Block, &sound.pages[b]);
        store.damage(b as Block, &sound.pages[a]);
        try_it(sound, &mut store, a as Block, &mut random, tallies.entry((sound.name, "swapped")).or_default());
    }
}

/// A tree loaded in bulk, then inserted into and vacuumed.
fn exact_tree<L: Lane>(name: &'static str, geometry: Geometry, rows: u64, each: u64) -> Sound<Lanes<L>> {
    let meta = exact(one_column::<L>(), geometry);
    let spread = L::MAX.to_u128() / u128::from(rows);
    let loaded: Vec<_> = (0..rows).map(|at| key::<L>(u128::from(at / each * each) * spread, at)).collect();
    let pages = load::<L>(&meta, 80, loaded.iter().copied());
    let model = loaded.iter().map(|&(lane, tid)| Key::new(lane, tid)).collect();
    let mut bed = Bed::<L>::on(meta, MemoryStore::new(&pages, pages.len() + 200), model);
    let mut random = StdRng::seed_from_u64(3);
    let mut age = |bed: &mut Bed<L>, count: u64| {
        for _ in 0..count {
            let (lane, tid) = some_key::<L>(&mut random, 1 << 20);
            bed.insert((lane, Tid::new(tid.rank(), tid.block() + 100_000, tid.offset(), false)));
        }
        bed.vacuum(|tid| tid.block().is_multiple_of(9));
    };
    age(&mut bed, rows / 6);
    let earlier = pages_of(&bed.store);
    age(&mut bed, rows / 6);
    bed.check();
    Sound::new(name, [earlier, pages_of(&bed.store)], bed.taste)
}

fn bytes_tree(name: &'static str, taste: Taste, is_small: bool, count: u64) -> Sound<Taste> {
    let mut random = StdRng::seed_from_u64(4);
    let carries = taste.shape.has_payload();
    let geometry = if is_small { small_bytes(carries) } else { crate::common::bytes::normal(carries) };
    let rows: Vec<Row> = (0..count).map(|number| taste.random_row(&mut random, number)).collect();
    let mut bed = BytesBed::loaded(taste, geometry, 80, rows, 300);
    let mut age = |bed: &mut BytesBed, from: u64| {
        for number in from..from + count / 6 {
            let row = bed.taste.random_row(&mut random, number);
            bed.insert(row);
        }
        bed.vacuum(|tid| tid.block().is_multiple_of(9) && tid.offset().is_multiple_of(2));
    };
    age(&mut bed, 100_000);
    let earlier = pages_of(&bed.store);
    age(&mut bed, 200_000);
    bed.check();
    Sound::new(name, [earlier, pages_of(&bed.store)], bed.taste)
}

/// The same pages, of an index that was built at another time.
fn rebuilt(pages: &[PageBytes]) -> Vec<PageBytes> {
    let mut pages = pages.to_vec();
    for page in &mut pages {
        page[24] ^= 1;
        page[PAGE_SIZE - 8] ^= 1;
    }
    pages
}

fn run<M: KeyMaker>(sound: &Sound<M>, stride: usize) {
    let mut tallies = Tallies::new();
    let store = sound.store();
    let last = sound.keys.len();
    assert_eq!(sound.is_right(&store, [0, last], Direction::Backward), Ok(true), "{}: sound", sound.name);
    let mut none = Tally::default();
    try_it(sound, &mut sound.store(), ROOT, &mut StdRng::seed_from_u64(1), &mut none);
    assert_eq!((none.refused, none.silent), (0, 0), "{}: sound", sound.name);
    bytes_of_pages(sound, stride, &mut tallies);
    whole_pages(sound, &rebuilt(&sound.pages), &mut tallies);
    let tried: usize = tallies.values().map(|tally| tally.tried).sum();
    let told: usize = tallies.values().map(|tally| tally.refused).sum();
    let mut silent = 0;
    for ((name, part), tally) in &tallies {
        println!("{name:24} {part:20} {tally:?}");
        assert!(tally.unknown == 0 || *part == "leaf entries", "{name}, {part}: neither reads nor the check tell");
        silent += if MAY_BE_SILENT.contains(part) { 0 } else { tally.silent };
    }
    println!("{}: {tried} damaged pages, 0 crashes, 0 hangs, {silent} silent wrong answers", sound.name);
    assert_eq!(silent, 0, "{}: answers that are wrong without a word", sound.name);
    // More of a larger page is not in use.
    let most = if PAGE_SIZE > 8192 { 20 } else { 10 };
    assert!(told > tried / most, "{}: {told} of {tried} told", sound.name);
}

/// What a read cannot always tell without the server's checksums: bytes that are an entry's own, and pages of which a
/// part or all was once right. The check tells of all but the first.
const MAY_BE_SILENT: [&str; 4] = ["leaf entries", "second part zeroed", "stale", "torn"];

#[test]
fn exact_lanes() {
    run(&exact_tree::<u32>("u32, small pages", small::<u32>(), 240, 1), 61);
    run(&exact_tree::<u64>("u64", normal::<u64>(), 1500, 1), 13);
    run(&exact_tree::<u32>("u32, runs", normal::<u32>(), 3000, 150), 13);
    run(&exact_tree::<u128>("u128", normal::<u128>(), 700, 1), 13);
}

#[test]
fn byte_strings() {
    let mut random = StdRng::seed_from_u64(6);
    for at in 0..4 {
        let mut taste = Taste::random(&mut random, if at < 2 { SMALL_KEY } else { 300 });
        if at == 3 {
            taste = taste.repeating(&mut random);
        }
        let name = ["strings, small pages", "strings, small pages, too", "strings", "strings, runs"][at];
        run(&bytes_tree(name, taste, at < 2, if at < 2 { 150 } else { 600 }), if at < 2 { 61 } else { 13 });
    }
}
