//! Trees of byte-string keys under crashes, damage and many threads.

use crate::common::bytes::*;
use crate::common::memory_to_ask;
use fpbtree_engine::format::{Block, NO_BLOCK, PAGE_SIZE, PageBytes, Position, Tid};
use fpbtree_engine::keys::bytes::{MOST_KEY, OwnedKey};
use fpbtree_engine::log::{Cell, Change, Decoded, Edit, Ranges};
use fpbtree_engine::page::{Bytes, Entry, Keys, Meta, Page};
use fpbtree_engine::scan::{BytesSelection, Cursor, Direction, Matches};
use fpbtree_engine::store::PageStore;
use fpbtree_engine::store::memory::{Form, MemoryStore};
use fpbtree_engine::tree::{DeadTids, InsertOptions, Tree};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// What a tree held at a log position, between two operations.
struct Moment {
    lsn: u64,
    rows: BTreeSet<Row>,
}

/// Insertions and removals, and what the tree held between them.
fn history(random: &mut StdRng, taste: Taste, operations: u64) -> (BytesBed, Vec<Moment>) {
    let carries = taste.shape.has_payload();
    let mut bed = BytesBed::with(taste, small(carries), |pages| MemoryStore::logging(pages, 900));
    let mut moments = vec![Moment { lsn: 0, rows: BTreeSet::new() }];
    for number in 0..operations {
        if random.random_ratio(1, 25) {
            let rows: Vec<Tid> = bed.model.iter().map(|row| row.tid).collect();
            let from = random.random_range(0..=rows.len());
            let doomed = &rows[from..(from + random.random_range(0..60)).min(rows.len())];
            bed.vacuum(|tid| doomed.contains(&tid.position()));
        } else {
            let row = bed.taste.random_row(random, number);
            bed.insert(row);
        }
        moments.push(Moment { lsn: bed.store.end_of_log(), rows: bed.model.clone() });
    }
    bed.check();
    (bed, moments)
}

/// Crashes after every record of a history: what redo makes in either form is what was there. Some of the recovered
/// trees live on.
#[test]
fn crashes_lose_nothing() {
    let mut runs = 0;
    for seed in 0..6 {
        let mut random = StdRng::seed_from_u64(seed);
        let mut taste = Taste::random(&mut random, SMALL_KEY);
        if seed % 2 == 1 {
            taste = taste.repeating(&mut random);
        }
        let (bed, moments) = history(&mut random, taste, 250);
        runs += leaves(&bed).map(|(_, page)| open(&bed, &page).grouped_nodes()).sum::<usize>();
        for lsn in 0..=bed.store.end_of_log() {
            let cut = moments.partition_point(|moment| moment.lsn < lsn);
            let after = &moments[cut].rows;
            let before = if moments[cut].lsn == lsn { after } else { &moments[cut - 1].rows };
            let newest = bed.store.crash(&mut |versions| versions - 1, lsn, Form::Own);
            for form in [Form::Own, Form::Generic] {
                let store = bed.store.crash(&mut |versions| random.random_range(0..versions), lsn, form);
                for block in 0..store.block_count() {
                    assert!(store.copy(block) == newest.copy(block), "block {block} at {lsn}, redone in {form:?} form");
                }
                let mut recovered = BytesBed::of(bed.taste.clone(), store, BTreeSet::new());
                assert_eq!(problems(recovered.tree()), Vec::<String>::new());
                let found = rows(recovered.tree(), &bed.taste.shape);
                for row in before.iter().chain(after).filter(|row| found.iter().any(|f| f.2 == row.tid)) {
                    recovered.model.insert(row.clone());
                }
                assert_eq!(found.len(), recovered.model.len(), "the tree holds something else");
                let lasting = before.intersection(after);
                assert!(lasting.into_iter().all(|row| recovered.model.contains(row)), "a row is lost");
                if lsn % 20 == 0 {
                    live_on(&mut random, recovered);
                }
            }
        }
    }
    assert!(runs > 20, "{runs} runs");
}

/// A bed's leaves, and their blocks.
fn leaves(bed: &BytesBed) -> impl Iterator<Item = (Block, PageBytes)> {
    let pages = (1..bed.store.block_count()).map(|block| (block, bed.store.copy(block)));
    pages.filter(|(_, page)| open(bed, page).level() == 0)
}

fn open<'a>(bed: &'a BytesBed, page: &'a PageBytes) -> Page<'a, Bytes> {
    Page::open(page, &bed.meta.geometry, 1).expect("a page")
}

/// Goes on using a recovered tree: what is incomplete gets completed, nothing else goes wrong.
fn live_on(random: &mut StdRng, mut bed: BytesBed) {
    for number in 10_000..10_060 {
        let row = bed.taste.random_row(random, number);
        bed.insert(row);
    }
    bed.vacuum(|tid| tid.offset().is_multiple_of(2));
    assert_eq!(problems(bed.tree()), Vec::<String>::new());
    let found = rows(bed.tree(), &bed.taste.shape);
    assert!(found.iter().map(|row| row.2).eq(bed.model.iter().map(|row| row.tid)));
    assert!(bed.store.is_quiet());
}

/// Spoils a page in one of the ways that bits, lines, fields or whole pages go wrong.
fn spoil(random: &mut StdRng, page: &mut PageBytes, pages: &[PageBytes]) {
    let line = random.random_range(0..PAGE_SIZE / 64) * 64;
    match random.random_range(0..10) {
        0 => page[random.random_range(0..PAGE_SIZE)] ^= 1 << random.random_range(0..8),
        1 => random.fill(&mut page[line..line + 64]),
        2 => page[line..line + 64].fill([0, 0xFF][random.random_range(0..2)]),
        // The header, the fences, the in-page root and the cells, where damage does most.
        3 => page[random.random_range(12..48)] = random.random(),
        4 => page[random.random_range(64..128)] = random.random(),
        5 => random.fill(&mut page[128..][..512]),
        6 => page[random.random_range(PAGE_SIZE / 2..PAGE_SIZE)] = random.random(),
        7 => random.fill(&mut page[PAGE_SIZE - 600..PAGE_SIZE - 8]),
        // Half of another page: a torn write.
        8 => {
            let other = &pages[random.random_range(1..pages.len())];
            let from = [512, 4096][random.random_range(0..2)];
            page[from..].copy_from_slice(&other[from..]);
        }
        _ => *page = pages[random.random_range(0..pages.len())],
    }
}

/// Everything one can do with a tree of which some pages are spoilt. Errors are fine.
fn use_it(store: &mut MemoryStore, meta: &Meta, taste: &Taste, random: &mut StdRng) {
    for step in 0..7 {
        let tree = Tree::<_, Bytes>::ordered(store, &meta.geometry, taste.order());
        match step {
            0 => {
                let _ = problems(tree);
            }
            1..4 => {
                let direction = [Direction::Forward, Direction::Backward][step % 2];
                let (mut cursor, mut matches) = (Cursor::<Bytes>::new(direction), Box::new(Matches::new()));
                let mut selection = BytesSelection::new(&taste.shape, taste.order());
                selection.set_wants_keys(true);
                let row = taste.random_row(random, 7);
                let digits = digit_of(taste.columns.0[0], &row.values[0]);
                let points = [fpbtree_engine::scan::Interval::point(&digits)];
                if step == 3 {
                    selection.set(0, &points);
                }
                let mut pages = 0;
                while let Ok(Some(pin)) = cursor.read_page(tree, &selection, false, &mut matches) {
                    pin.unpin(store);
                    let mut room = fpbtree_engine::keys::bytes::KeyBuffer::new();
                    for at in 0..matches.len() {
                        let _ = matches.entry(at).map(|entry| taste.shape.join(&entry.key, &mut room).is_some());
                    }
                    pages += 1;
                    assert!(pages < 1000, "a scan of a small tree has read {pages} pages");
                }
            }
            4 => {
                let row = taste.random_row(random, 5_000_000);
                let _ = tree.insert_entry(&row.entry(), InsertOptions::filling(90));
            }
            5 => {
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

#[test]
fn damaged_trees() {
    let (tries, mut errors) = (4000, 0);
    for seed in 0..tries {
        let mut random = StdRng::seed_from_u64(seed);
        let is_small = seed % 3 > 0;
        let taste = Taste::random(&mut random, if is_small { SMALL_KEY } else { MOST_KEY });
        let carries = taste.shape.has_payload();
        let geometry = if is_small { small(carries) } else { normal(carries) };
        let count = [150, 0, 1, 150][random.random_range(0..4)];
        let rows: Vec<Row> = (0..count).map(|number| taste.random_row(&mut random, number)).collect();
        let bed = BytesBed::loaded(taste, geometry, 80, rows, 0);
        let pages: Vec<PageBytes> = (0..bed.store.block_count()).map(|block| bed.store.copy(block)).collect();
        let mut store = MemoryStore::unchecked(&pages, pages.len() + 40);
        for _ in 0..random.random_range(1..4) {
            let block = random.random_range(0..pages.len());
            let mut page = store.copy(block as Block);
            spoil(&mut random, &mut page, &pages);
            store.damage(block as Block, &page);
            let verified = Page::<Bytes>::verify(&page, &geometry, block as Block, None, bed.taste.order());
            errors += usize::from(verified.is_err());
            let _ = Meta::read(&page);
        }
        use_it(&mut store, &bed.meta, &bed.taste, &mut random);
    }
    assert!(errors as u64 > tries / 2, "{errors} flaws found in {tries} tries");
}

/// Every byte of full pages, damaged: most of it is noticed, and all of it can be looked at and changed.
#[test]
fn every_byte_damaged_alone() {
    let mut random = StdRng::seed_from_u64(8);
    for (repeating, least) in [(false, PAGE_SIZE / 3), (true, PAGE_SIZE / 3)] {
        let (rows, bed) = loop {
            let mut taste = Taste::random(&mut random, 200);
            if repeating {
                taste = taste.repeating(&mut random);
            }
            let carries = taste.shape.has_payload();
            let rows: Vec<Row> = (0..3000).map(|number| taste.random_row(&mut random, number)).collect();
            let bed = BytesBed::loaded(taste, normal(carries), 100, rows.clone(), 0);
            let shared: usize = leaves(&bed).take(2).map(|(_, page)| open(&bed, &page).grouped_nodes()).sum();
            let nodes: usize = leaves(&bed).take(2).map(|(_, page)| open(&bed, &page).nodes()).sum();
            if (if repeating { shared } else { nodes - shared }) > 10 {
                break (rows, bed);
            }
        };
        let root = (1, bed.store.copy(1));
        let found: usize =
            leaves(&bed).take(2).chain([root]).map(|(b, page)| damaged(&mut random, &bed, &rows, b, &page)).sum();
        assert!(found > least, "{found} flaws found");
    }
}

/// Damages each byte of a page, uses what comes of it, and says how often the damage is noticed.
fn damaged(random: &mut StdRng, bed: &BytesBed, rows: &[Row], block: Block, sound: &PageBytes) -> usize {
    let (geometry, order, mut found) = (&bed.meta.geometry, bed.taste.order(), 0);
    for at in 24..PAGE_SIZE {
        let mut page = *sound;
        page[at] ^= 1 << random.random_range(0..8);
        found += usize::from(Page::<Bytes>::verify(&page, geometry, block, None, order).is_err());
        let Ok(read) = Page::<Bytes>::open(&page, geometry, block) else { continue };
        let row = &rows[random.random_range(0..rows.len())];
        let mut kept = OwnedKey::FIRST;
        kept.set_to_place(&bed.taste.shape, &row.digits, random.random());
        let key = kept.key(order);
        let place = read.lower_bound(key);
        let _ = (read.entry(place).is_some(), read.previous(place), read.child_for(key), read.child_place_before(key));
        let most = geometry.layout(read.level()).most_entries();
        assert!(read.iter().count() <= most && read.fill() >= 0.0);
        let entry = Entry { child: NO_BLOCK, ..row.entry() };
        let mut insertion = Change::new();
        let insertion = read.insertion(Bytes::key_of(&entry, order), &entry, &mut insertion).then_some(insertion);
        let masks: Vec<(u8, u128)> = (0..read.nodes() as u8).rev().map(|node| (node, random.random())).collect();
        let arrangement = read.repacked(0, random.random()).unwrap_or_default();
        let repack = Change::new().edit(Edit::Repack(arrangement.counts()));
        for change in insertion.into_iter().chain([repack, Change::new().edit(Edit::RemoveSet(&masks))]) {
            let mut changed = page;
            change.apply(0, &mut changed, &mut Ranges::new());
            assert_eq!(page[..10], changed[..10], "the server's LSN and checksum");
        }
    }
    found
}

/// Changes that were not planned for a page, from damaged records or out of the air, are refused, or can be made.
#[test]
fn changes_of_other_pages() {
    let mut random = StdRng::seed_from_u64(9);
    let mut fitting = 0;
    for _ in 0..4 {
        let taste = Taste::random(&mut random, SMALL_KEY).repeating(&mut random);
        let (bed, _) = history(&mut random, taste, 400);
        let records = bed.store.records();
        let made = |change: &Change<'_>, index: usize, block: Block| {
            let mut page = bed.store.copy(block);
            let fits = change.fits(index, &page);
            if fits {
                let before = page;
                change.apply(index, &mut page, &mut Ranges::new());
                assert_eq!(page[..10], before[..10], "the server's LSN and checksum");
                let changed = Page::<Bytes>::open(&page, &bed.meta.geometry, 1);
                let _ = changed.map(|page| page.iter().count());
            }
            usize::from(fits)
        };
        for _ in 0..10_000 {
            let block = random.random_range(0..bed.store.block_count());
            let mut record = records[random.random_range(0..records.len())].clone();
            for _ in 0..random.random_range(0..3) {
                let at = random.random_range(0..record.len().min(60));
                record[at] = random.random();
            }
            if let Some(decoded) = Decoded::decode(&record) {
                let change = decoded.change();
                fitting += (0..change.pages()).map(|index| made(&change, index, block)).sum::<usize>();
            }
            let (node, slot, keep) =
                (random.random_range(0..30), random.random_range(0..10), random.random_range(0..10));
            let (place, tid) = (Position { node, slot }, Tid::first(false));
            let cell = [Cell::None, Cell::Shared(random.random())][random.random_range(0..2)];
            let halves = [random.random_range(0..=40), random.random_range(0..=40)];
            let page = bed.store.copy(block);
            let repacked = Page::<Bytes>::open(&page, &bed.meta.geometry, 1)
                .ok()
                .and_then(|page| page.repacked(0, node.is_multiple_of(2)));
            let repacked = repacked.filter(|_| keep > 4).map(|found| found.counts().to_vec());
            let counts: Vec<u8> = repacked.unwrap_or(Vec::from(halves));
            let edits = [
                Edit::SplitNode { node, keep },
                Edit::Balance { left: node, keep: random.random_range(0..=128) },
                Edit::Repack(&counts),
                Edit::Reserve { bytes: random.random_range(0..500) },
                Edit::Insert { place, lane: random.random(), tid, child: 3, cell },
                Edit::Remove { node, mask: random.random() },
            ];
            for edit in edits {
                fitting += made(&Change::new().edit(edit), 0, block);
            }
        }
    }
    assert!(fitting > 10_000, "{fitting} fits");
}

/// In the heap block of rows that are there from the beginning to the end, and of those that VACUUM removes.
const STAYS: u64 = 1 << 30;
const DOOMED: u64 = 1 << 29;

/// Writers, readers both ways, and one VACUUM after another: no row that stays is missed or seen twice.
#[test]
fn many_threads() {
    let mut deleted = 0;
    for seed in 0..3 {
        let mut random = StdRng::seed_from_u64(seed);
        let mut taste = Taste::random(&mut random, SMALL_KEY);
        if seed == 0 {
            taste = taste.repeating(&mut random);
        }
        let carries = taste.shape.has_payload();
        let lasting: Vec<Row> = (0..800).map(|number| taste.random_row(&mut random, (STAYS + number) * 100)).collect();
        let mut bed = BytesBed::loaded(taste, small(carries), 70, lasting, 60_000);
        bed.store.shake();
        deleted += together(&mut bed, Duration::from_secs(3));
    }
    assert!(deleted > 0, "no page was deleted");
}

/// Says how many pages were deleted.
fn together(bed: &mut BytesBed, time: Duration) -> usize {
    let (stop, scans, deleted) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    let lasting: Vec<Tid> = bed.model.iter().map(|row| row.tid).collect();
    let written: Vec<Row> = thread::scope(|scope| {
        let (shared, stop, scans, deleted, lasting) = (&*bed, &stop, &scans, &deleted, &lasting);
        let writers: Vec<_> = (0..2).map(|id| scope.spawn(move || write(shared, id, stop))).collect();
        for direction in [Direction::Forward, Direction::Backward] {
            scope.spawn(move || scans.fetch_add(read(shared, lasting, direction, stop), Ordering::Relaxed));
        }
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let stats = shared
                    .tree()
                    .vacuum(&mut DeadTids::new(&mut memory_to_ask()), &mut is_doomed, &mut |_, _, _| {}, &mut |_| {})
                    .unwrap();
                deleted.fetch_add(stats.deleted_pages as usize, Ordering::Relaxed);
                assert!(shared.tree().census().unwrap().entries >= lasting.len() as u64);
            }
        });
        let started = Instant::now();
        while started.elapsed() < time {
            thread::sleep(Duration::from_millis(20));
        }
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });
    assert!(scans.into_inner() > 2, "hardly any scan came to its end");
    bed.model.extend(written);
    bed.model.retain(|row| !is_doomed(row.tid));
    bed.tree()
        .vacuum(&mut DeadTids::new(&mut memory_to_ask()), &mut is_doomed, &mut |_, _, _| {}, &mut |_| {})
        .unwrap();
    assert_eq!(problems(bed.tree()), Vec::<String>::new());
    let found = rows(bed.tree(), &bed.taste.shape);
    assert!(found.iter().map(|row| row.2).eq(bed.model.iter().map(|row| row.tid)), "the tree holds something else");
    assert!(bed.store.is_quiet());
    deleted.into_inner()
}

fn is_doomed(tid: Tid) -> bool {
    u64::from(tid.block()) & DOOMED != 0
}

/// Inserts rows of its own until `stop`, and says which.
fn write(bed: &BytesBed, thread: u64, stop: &AtomicBool) -> Vec<Row> {
    let mut random = StdRng::seed_from_u64(thread);
    let mut written = Vec::new();
    for number in 0..20_000 {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let doomed = if random.random_ratio(4, 5) { DOOMED } else { 0 };
        let row = bed.taste.random_row(&mut random, (doomed + (thread << 20) + number) * 100);
        bed.tree().insert_entry(&row.entry(), InsertOptions::filling(90)).unwrap();
        written.push(row);
    }
    written
}

/// Scans until `stop`: the rows that last come once each, in order.
fn read(bed: &BytesBed, lasting: &[Tid], direction: Direction, stop: &AtomicBool) -> usize {
    let (mut matches, mut scans) = (Box::new(Matches::new()), 0);
    let selection = BytesSelection::new(&bed.taste.shape, bed.taste.order());
    while !stop.load(Ordering::Relaxed) {
        let (mut cursor, mut found) = (Cursor::new(direction), Vec::<Tid>::new());
        while let Some(pin) = cursor.read_page(bed.tree(), &selection, false, &mut matches).unwrap() {
            pin.unpin(&bed.store);
            found.extend(matches.tids().iter().copied().filter(|tid| u64::from(tid.block()) & STAYS != 0));
        }
        if direction == Direction::Backward {
            found.reverse();
        }
        assert!(found == lasting, "{direction:?}");
        scans += 1;
    }
    scans
}
