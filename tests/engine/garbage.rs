//! Damaged pages: whatever bytes are on one, nothing panics, loops for ever or reads outside it (I3).

use crate::common::*;
use fpbtree_engine::format::{Block, Key, Lane, PAGE_SIZE, PageBytes};
use fpbtree_engine::log::{BlockEdits, Change, Decoded, Edit, Ranges, RecordKind};
use fpbtree_engine::page::{Arrangement, Entry, Links, Meta, Page, PageSplits};
use fpbtree_engine::scan::{Cursor, Direction, Matches, Selection};
use fpbtree_engine::store::memory::MemoryStore;
use fpbtree_engine::tree::DeadTids;
use fpbtree_engine::tree::check::BlockSet;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Spoils a page in one of the ways that bits, lines, fields or whole pages go wrong.
fn spoil(random: &mut StdRng, page: &mut PageBytes, pages: &[PageBytes]) {
    let line = random.random_range(0..PAGE_SIZE / 64) * 64;
    match random.random_range(0..8) {
        0 => page[random.random_range(0..PAGE_SIZE)] ^= 1 << random.random_range(0..8),
        1 => random.fill(&mut page[line..line + 64]),
        2 => page[line..line + 64].fill([0, 0xFF][random.random_range(0..2)]),
        // The header, the in-page root and the fences, where damage does most.
        3 => page[random.random_range(24..48)] = random.random(),
        4 => page[random.random_range(64..128)] = random.random(),
        5 => random.fill(&mut page[128..][..512]),
        // Half of another page: a torn write.
        6 => {
            let other = &pages[random.random_range(1..pages.len())];
            let from = [512, 4096][random.random_range(0..2)];
            page[from..].copy_from_slice(&other[from..]);
        }
        _ => *page = pages[random.random_range(0..pages.len())],
    }
}

/// Everything one can do with a tree of which some pages are spoilt. Errors are fine.
fn use_it<L: Lane>(store: &mut MemoryStore, meta: &Meta, random: &mut StdRng) {
    let geometry = &meta.geometry;
    for step in 0..6 {
        let tree = fpbtree_engine::tree::Tree::<_, L>::new(store, geometry);
        let (lane, tid) = some_key::<L>(random, 1 << 20);
        match step {
            0 => {
                let _ = problems(tree, &shape_of(meta));
            }
            1 | 2 => {
                let direction = [Direction::Forward, Direction::Backward][step - 1];
                let (mut cursor, mut matches) = (Cursor::<L>::new(direction), Box::new(Matches::new()));
                let shape = shape_of(meta);
                let selection = Selection::new(&shape);
                let mut pages = 0;
                while let Ok(Some(pin)) = cursor.read_page(tree, &selection, false, &mut matches) {
                    pin.unpin(store);
                    pages += 1;
                    assert!(pages < 1000, "a scan of a small tree has read {pages} pages");
                }
            }
            3 => {
                let _ = tree.insert(lane, tid, 90);
            }
            4 => {
                let _ = tree.census();
            }
            _ => {
                let _ = tree.vacuum(
                    &mut DeadTids::new(&mut memory_to_ask()),
                    &mut |tid| tid.block().is_multiple_of(2),
                    &mut |_, _, _| {},
                    &mut |_| {},
                );
            }
        }
        store.abort();
    }
}

fn damage<L: Lane>(tries: u64) {
    let mut errors = 0;
    for seed in 0..tries {
        let mut random = StdRng::seed_from_u64(seed);
        let geometry = if seed % 3 == 0 { normal::<L>() } else { small::<L>() };
        let meta = exact(one_column::<L>(), geometry);
        // Hardly any entries, too: an empty page has lines that must not be believed.
        let count = if seed % 3 == 0 { [3000, 0, 1][(seed / 3 % 3) as usize] } else { 150 };
        // Few rows of a key, and many.
        let repeats = [3, 100][(seed / 9 % 2) as usize];
        let pages = load::<L>(&meta, 80, (0..count).map(|at| key(u128::from(at / repeats), at)));
        let mut store = MemoryStore::unchecked(&pages, pages.len() + 40);
        for _ in 0..random.random_range(1..4) {
            let block = random.random_range(0..pages.len());
            let mut page = store.copy(block as Block);
            spoil(&mut random, &mut page, &pages);
            store.damage(block as Block, &page);
            errors += usize::from(Page::<L>::verify(&page, &geometry, block as Block, Some(true), ()).is_err());
            let _ = Meta::read(&page);
        }
        use_it::<L>(&mut store, &meta, &mut random);
    }
    assert!(errors as u64 > tries / 2, "{errors} flaws found in {tries} tries");
}

#[test]
fn damaged_trees_of_u32() {
    damage::<u32>(5000);
}

#[test]
fn damaged_trees_of_u64() {
    damage::<u64>(5000);
}

#[test]
fn damaged_trees_of_u128() {
    damage::<u128>(5000);
}

/// Every byte of a full page, damaged: most of it is noticed, and all of it can be looked at and changed.
#[test]
fn every_byte_damaged_alone() {
    let meta = exact(one_column::<u64>(), normal::<u64>());
    // Pages whose keys are all different, and pages of few keys.
    let each = PAGE_SIZE as u64 / 4;
    let lane = |at: u64| if at < each { at } else { at / 300 * 1000 };
    let pages = load::<u64>(&meta, 100, (0..6 * each).map(|at| key(lane(at).into(), at)));
    assert!(pages.len() > 5, "{} pages", pages.len());
    let (mut found, mut random) = (0, StdRng::seed_from_u64(8));
    for (block, sound) in pages.iter().enumerate().skip(2).take(3) {
        for at in 24..PAGE_SIZE {
            let mut page = *sound;
            page[at] ^= 1 << random.random_range(0..8);
            let verified = Page::<u64>::verify(&page, &meta.geometry, block as Block, Some(true), ());
            found += usize::from(verified.is_err());
            let Ok(read) = Page::<u64>::open(&page, &meta.geometry, block as Block) else {
                continue;
            };
            let key = Key::new(random.random_range(0..3 * each), fpbtree_engine::format::Tid::MIN);
            let entry = Entry { key: key.lane, tid: key.tid, child: 2 };
            let place = read.lower_bound(key);
            let _ = (read.key(place), read.previous(place), read.child_for(key), read.child_place_before(key));
            let mut insertion = Change::new();
            let insertion = read.insertion(key, &entry, &mut insertion).then_some(insertion);
            let arrangement = read.repacked(0, at.is_multiple_of(2)).unwrap_or_default();
            let repack = Change::new().edit(Edit::Repack(arrangement.counts()));
            let (entries, level) = (read.entries(), read.level());
            let links = Links { level, left: 3, right: read.right(), low: read.low(), high: read.high(), fill: 90 };
            let mut arrangement = Arrangement::default();
            let keep = [0, 1, entries / 2, entries.wrapping_sub(1), entries, entries + 1][at % 6];
            let _ = u64::right_half(&read, &meta.geometry, &links, keep);
            let high = read.high();
            let halve = u64::halve(&read, keep, 9, &high, &mut arrangement).map(|halve| Change::new().edit(halve));
            for change in insertion.into_iter().chain([repack]).chain(halve) {
                let mut changed = page;
                change.apply(0, &mut changed, &mut Ranges::new());
                assert_eq!(page[..10], changed[..10], "the server's LSN and checksum");
            }
            assert!(read.iter().count() <= meta.geometry.leaf.most_entries().max(meta.geometry.inner.most_entries()));
        }
    }
    assert!(found > PAGE_SIZE, "{found} flaws found");
}

/// Bytes that are no record are refused; what can be read and fits a page can be applied to it.
#[test]
fn damaged_records() {
    let mut random = StdRng::seed_from_u64(9);
    let meta = exact(one_column::<u32>(), small::<u32>());
    let bed = Bed::<u32>::with(meta, |pages| MemoryStore::logging(pages, 400));
    let mut bed = bed;
    for spread in [1 << 20, 3] {
        for _ in 0..300 {
            bed.insert(some_key(&mut random, spread));
        }
    }
    bed.vacuum(|tid| tid.block() % 4 < 3);
    let records = bed.store.records();
    assert!(records.len() > 500);
    let (mut read, mut fitting) = (0, 0);
    for _ in 0..60_000 {
        let mut record = records[random.random_range(0..records.len())].clone();
        match random.random_range(0..4) {
            0 => record.truncate(random.random_range(0..record.len())),
            1 => record.push(random.random()),
            _ => {
                for _ in 0..random.random_range(1..4) {
                    let at = random.random_range(0..record.len().min(60));
                    record[at] = random.random();
                }
            }
        }
        let Some(decoded) = Decoded::decode(&record) else {
            continue;
        };
        read += 1;
        let change = decoded.change();
        for index in 0..change.pages() {
            let mut page =
                bed.store.copy(random.random_range(0..fpbtree_engine::store::PageStore::block_count(&bed.store)));
            if change.fits(index, &page) {
                fitting += 1;
                let before = page;
                change.apply(index, &mut page, &mut Ranges::new());
                assert_eq!(page[..10], before[..10], "the server's LSN and checksum");
            }
        }
    }
    assert!(read > 1000 && fitting > 1000, "{read} records, {fitting} fits");
    for length in 0..200 {
        let mut noise = vec![0; length];
        random.fill(&mut noise[..]);
        assert!(Decoded::decode(&noise).is_none());
    }
    // Redo's hints look at pages that may be anything, and an insertion of another page is refused or made.
    let kinds = [RecordKind::Insert, RecordKind::Edit];
    for round in 0..60_000 {
        let kind = kinds[round % kinds.len()];
        let mut part = vec![0; random.random_range(0..26)];
        random.fill(&mut part[..]);
        let mut page = bed.store.copy(1 + round as Block % 3);
        // What kind of page it is, and where its nodes are.
        let at = random.random_range(0..600);
        random.fill(&mut page[at..at + 8]);
        BlockEdits::prefetch(kind, &part, &page);
        assert!(kind.is_insertion() || !BlockEdits::redo_insertion(kind, &part, &mut page));
        BlockEdits::redo_insertion(kind, &part, &mut page);
    }
}

/// A tree too small for its memory is not verified past it.
#[test]
fn sets_of_blocks_end_where_their_memory_does() {
    let mut words = [0; 1];
    let mut set = BlockSet::new(&mut words);
    assert!(set.add(63) && !set.add(63) && !set.add(64));
    assert!(set.has(63) && !set.has(0) && set.has(64));
}
