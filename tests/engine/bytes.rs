//! Keys that are byte strings: trees against a sorted map of rows, scans against a filter of it.

use crate::common::bytes::*;
use crate::common::{KeyMaker, check_leaves, load_rows};
use fpbtree_engine::format::{PAGE_SIZE, Position, Tid};
use fpbtree_engine::keys::bytes::{BytesOrder, CompareValues, MOST_KEY, Stored, word_at};
use fpbtree_engine::keys::digits::{DigitKind, DigitShape, ValueLength};
use fpbtree_engine::page::{Bytes, Keys, Page};
use fpbtree_engine::scan::{BytesSelection, Cursor, Direction, Interval, Matches};
use fpbtree_engine::store::PageStore;
use fpbtree_engine::store::memory::MemoryStore;
use fpbtree_engine::tree::{Seek, Tree};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::collections::HashSet;

const ROOM: usize = 6000;

fn column(kind: DigitKind) -> DigitShape {
    DigitShape { kind, descending: false, nulls_first: false }
}

/// A bed of random taste: small pages and short keys, or those an index gets.
fn random_bed(random: &mut StdRng) -> BytesBed {
    let is_small = random.random_ratio(2, 3);
    let taste = Taste::random(random, if is_small { SMALL_KEY } else { MOST_KEY });
    let carries = taste.shape.has_payload();
    BytesBed::new(taste, if is_small { small(carries) } else { normal(carries) }, ROOM)
}

#[test]
fn rows_come_and_go() {
    for seed in 0..60 {
        let mut random = StdRng::seed_from_u64(seed);
        let mut bed = random_bed(&mut random);
        let mut number = 0;
        for wave in 0..4 {
            for _ in 0..random.random_range(1..700) {
                number += 1;
                let row = bed.taste.random_row(&mut random, number);
                bed.insert(row);
            }
            bed.check();
            let (salt, percent) = (random.random::<u64>(), [30, 95, 100, 5][wave]);
            bed.vacuum(|tid| {
                (tid.position().raw() ^ salt).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32 < percent * (1 << 32) / 100
            });
            bed.check();
        }
        bed.vacuum(|_| true);
        bed.check();
    }
}

#[test]
fn ascending_and_descending_rows() {
    for seed in 0..30 {
        let mut random = StdRng::seed_from_u64(1000 + seed);
        let mut bed = random_bed(&mut random);
        let count = random.random_range(1..1500);
        let mut rows: Vec<Row> = (0..count).map(|number| bed.taste.random_row(&mut random, number)).collect();
        rows.sort();
        if seed % 2 == 0 {
            rows.reverse();
        }
        for row in rows {
            bed.insert(row);
        }
        bed.check();
    }
}

#[test]
fn loads_of_every_fill() {
    for seed in 0..80 {
        let mut random = StdRng::seed_from_u64(2000 + seed);
        let is_small = random.random_ratio(1, 2);
        let taste = Taste::random(&mut random, if is_small { SMALL_KEY } else { MOST_KEY });
        let carries = taste.shape.has_payload();
        let geometry = if is_small { small(carries) } else { normal(carries) };
        let count = [0, 1, 2, 3, 20, 300, 3000][random.random_range(0..7)];
        let rows: Vec<Row> = (0..count).map(|number| taste.random_row(&mut random, number)).collect();
        let fill = [10, 50, 70, 90, 100][random.random_range(0..5)];
        let mut bed = BytesBed::loaded(taste, geometry, fill, rows, ROOM);
        bed.check();
        assert_eq!(bed.tree().census().unwrap().free_pages, 0);
        for number in 0..random.random_range(0..500) {
            let row = bed.taste.random_row(&mut random, 1_000_000 + number);
            bed.insert(row);
        }
        bed.vacuum(|tid| tid.block().is_multiple_of(2));
        bed.check();
    }
}

/// Whatever the keys, a page has room for two of the longest and its fences.
#[test]
fn the_longest_keys_fit() {
    for kind in [DigitKind::Text, DigitKind::Opaque { prefix: 30, value: ValueLength::Variable }] {
        for seed in 0..6 {
            let mut random = StdRng::seed_from_u64(3000 + seed);
            let taste = Taste::new(vec![column(kind)], [0, 100][seed as usize % 2], MOST_KEY, &[], 1);
            let carried = 100 * (seed as usize % 2);
            let mut rows = Vec::new();
            for number in 0..200 {
                // Alike but for one byte somewhere; digits of exactly the most bytes, or one less.
                let overhead = digit_of(taste.columns.0[0], &Value::Bytes(vec![b'k'; 1000])).len() - 1000;
                let length = MOST_KEY - overhead - carried - random.random_range(0..2);
                let mut bytes = vec![b'k'; length];
                bytes[random.random_range(0..length)] = random.random_range(1..=255);
                rows.push(taste.row(vec![Value::Bytes(bytes)], number));
            }
            let carries = taste.shape.has_payload();
            BytesBed::loaded(taste.clone(), normal(carries), 90, rows.clone(), 0).check();
            let mut bed = BytesBed::new(taste, normal(carries), ROOM);
            for row in shuffled(&mut random, rows) {
                bed.insert(row);
            }
            bed.check();
            bed.vacuum(|tid| tid.offset() % 3 > 0);
            bed.check();
        }
    }
}

/// Rows that share a cell are parted one by one, by rows with equal keys that are stored with other bytes: because a
/// function says that they are equal, or because of what they carry.
#[test]
fn rows_that_part_others() {
    let opaque = DigitKind::Opaque { prefix: 0, value: ValueLength::Variable };
    for (kind, length, carried) in [
        (opaque, MOST_KEY - 300, 0),
        (opaque, 400, 0),
        (opaque, 50, 0),
        (DigitKind::Text, 10, MOST_KEY - 200),
        (DigitKind::Text, 10, 300),
    ] {
        let taste = Taste::new(vec![column(kind)], carried, MOST_KEY, &[], 1);
        let row = |letter: u8, number| taste.row(vec![Value::Bytes(vec![letter; length])], number);
        let mut bed = BytesBed::new(taste.clone(), normal(true), ROOM);
        for number in 0..100 {
            bed.insert(row(b'm', 3 * number + 2));
        }
        for number in 0..100 {
            bed.insert(row(if carried > 0 { b'm' } else { b'M' }, 3 * number + 1));
        }
        bed.check();
    }
}

/// What an index takes for each entry when it was loaded.
fn bytes_an_entry(taste: Taste, rows: Vec<Row>) -> f64 {
    let count = rows.len() as f64;
    let carries = taste.shape.has_payload();
    let bed = BytesBed::loaded(taste, normal(carries), 90, rows, 10);
    bed.check();
    f64::from(bed.store.block_count()) * PAGE_SIZE as f64 / count
}

#[test]
#[cfg_attr(
    any(feature = "page-4k", feature = "page-16k", feature = "page-32k"),
    ignore = "says how large pages of 8 KB are"
)]
fn what_keys_have_in_common_is_stored_once() {
    let taste = Taste::new(vec![column(DigitKind::Text)], 0, MOST_KEY, &[], 1);
    let mut random = StdRng::seed_from_u64(4000);
    let row = |text: String, number| taste.row(vec![Value::Bytes(text.into_bytes())], number);
    let urls = (0..50_000u64).map(|number| {
        row(format!("https://www.example.com/archive/2024/articles/by-number/page?id={number:08}"), number)
    });
    let size = bytes_an_entry(taste.clone(), urls.collect());
    assert!(size < 24.0, "{size} bytes for a URL whose first 60 bytes are common");
    let few = (0..50_000u64).map(|number| row(format!("https://www.example.com/section/{}", number / 500), number));
    let size = bytes_an_entry(taste.clone(), few.collect());
    assert!(size < 8.0, "{size} bytes for a key that 500 rows share");
    let digests = (0..50_000u64).map(|number| row(format!("{:032x}", random.random::<u128>()), number));
    let size = bytes_an_entry(taste.clone(), digests.collect());
    assert!(size < 50.0, "{size} bytes for 32 random hexadecimal digits");
}

#[test]
fn conditions_select_what_a_filter_does() {
    for seed in 0..120 {
        let mut random = StdRng::seed_from_u64(5000 + seed);
        let mut bed = random_bed(&mut random);
        for number in 0..random.random_range(0..600) {
            let row = bed.taste.random_row(&mut random, number);
            bed.insert(row);
        }
        bed.check();
        let rows: Vec<Row> = bed.model.iter().cloned().collect();
        for _ in 0..50 {
            let wishes = bed.taste.wishes(&mut random, &rows);
            let mut expected: Vec<_> = rows.iter().filter(|row| bed.taste.holds(&wishes, row)).collect();
            bed.taste.with_selection(&wishes, |selection| {
                let context = || format!("seed {seed}: {:?} {wishes:?}", bed.taste.columns);
                let tids = |rows: &[&Row]| rows.iter().map(|row| row.tid).collect::<Vec<_>>();
                assert!(scan(&bed, selection, Direction::Forward) == tids(&expected), "{}", context());
                expected.reverse();
                assert!(scan(&bed, selection, Direction::Backward) == tids(&expected), "backward, {}", context());
                check_leaves(bed.tree(), selection, Direction::Forward);
                check_leaves(bed.tree(), selection, Direction::Backward);
                let keys: Vec<_> =
                    expected.iter().map(|row| (row.digits.clone(), row.payload.clone(), row.tid)).collect();
                assert!(scan_keys(&bed, selection, Direction::Backward) == keys, "keys, {}", context());
            });
        }
    }
}

/// Rows by the thousand with few keys, loaded and inserted, removed and inserted again.
#[test]
fn few_keys_and_many_rows() {
    let mut found = 0;
    for seed in 0..20 {
        let mut random = StdRng::seed_from_u64(8000 + seed);
        let is_small = seed % 3 == 0;
        let taste = Taste::random(&mut random, if is_small { SMALL_KEY } else { 600 }).repeating(&mut random);
        let carries = taste.shape.has_payload();
        let geometry = if is_small { small(carries) } else { normal(carries) };
        let mut rows: Vec<Row> = (0..8000).map(|number| taste.random_row(&mut random, number)).collect();
        if seed % 4 < 2 {
            rows = shuffled(&mut random, rows);
        }
        let inserted = rows.split_off([1000, 7000][seed as usize / 2 % 2]);
        let mut bed = BytesBed::loaded(taste, geometry, 90, rows, ROOM);
        bed.check();
        for row in inserted {
            bed.insert(row);
        }
        bed.check();
        found += runs(&bed);
        let all: Vec<Row> = bed.model.iter().cloned().collect();
        for _ in 0..3 {
            let percent = [10, 90, 99][random.random_range(0..3)];
            let tids = all.iter().map(|row| row.tid.raw());
            let doomed: HashSet<u64> = tids.filter(|_| random.random_ratio(percent, 100)).collect();
            bed.vacuum(|tid| doomed.contains(&tid.position().raw()));
            bed.check();
            for row in all.iter().filter(|row| doomed.contains(&row.tid.raw())) {
                if !bed.model.contains(row) && random.random_ratio(1, 3) {
                    bed.insert(row.clone());
                }
            }
            bed.check();
            finds_every_key(&bed);
        }
        bed.vacuum(|_| true);
        bed.check();
    }
    assert!(found > 2000, "{found} runs");
}

/// How many in-page nodes of the leaves are runs.
fn runs(bed: &BytesBed) -> usize {
    let pages = (1..bed.store.block_count()).map(|block| bed.store.copy(block));
    pages.map(|page| Page::<Bytes>::open(&page, &bed.meta.geometry, 1).map_or(0, |page| page.grouped_nodes())).sum()
}

/// Scans in either direction find the rows of each key.
fn finds_every_key(bed: &BytesBed) {
    let mut rows: Vec<&Row> = bed.model.iter().collect();
    rows.dedup_by(|a, b| Taste::same_key(a, b));
    for row in rows {
        let digits = |c: usize| digit_of(bed.taste.columns.0[c], &row.values[c]);
        let digits: Vec<Vec<u8>> = (0..row.values.len()).map(digits).collect();
        let points: Vec<_> = digits.iter().map(|digit| [Interval::point(digit)]).collect();
        let mut selection = BytesSelection::new(&bed.taste.shape, bed.taste.order());
        for (c, point) in points.iter().enumerate() {
            selection.set(c, point);
        }
        // The first of its key.
        let equal = bed.model.range(row..).take_while(|other| Taste::same_key(row, other));
        let mut expected: Vec<Tid> = equal.map(|row| row.tid).collect();
        assert!(scan(bed, &selection, Direction::Forward) == expected);
        expected.reverse();
        assert!(scan(bed, &selection, Direction::Backward) == expected);
    }
}

#[test]
fn scans_turn_between_pages() {
    for seed in 0..40 {
        walk(6000 + seed, false);
    }
}

#[test]
fn scans_and_turns_survive_changes_between_pages() {
    for seed in 0..40 {
        walk(7000 + seed, true);
    }
}

/// Rows that pass have odd offsets.
/// Columns' functions that are counted, with hints of values and the last place in mind, or without.
struct Counting<'t> {
    columns: &'t Columns,
    hinted: bool,
    calls: Cell<usize>,
    last: RefCell<(Vec<u8>, usize, Position)>,
}

impl CompareValues for Counting<'_> {
    fn compare(&self, column: usize, a: &[u8], b: &[u8]) -> Ordering {
        self.calls.set(self.calls.get() + 1);
        self.columns.compare(column, a, b)
    }

    fn has_brief_hints(&self, _column: usize) -> bool {
        self.hinted
    }

    fn brief_hint(&self, _column: usize, value: &[u8], _skip: usize) -> u64 {
        let mut hint = [0; 8];
        hint.iter_mut().zip(value).filter(|_| self.hinted).for_each(|(hint, byte)| *hint = *byte);
        u64::from_be_bytes(hint)
    }

    fn remembered(&self, value: &[u8], page: usize) -> Option<Position> {
        let last = self.last.borrow();
        (self.hinted && last.0 == value && last.1 == page).then_some(last.2)
    }

    fn note_place(&self, value: &[u8], page: usize, place: Position) {
        *self.last.borrow_mut() = (value.to_vec(), page, place);
    }
}

/// By its hint a lookup's leaf is known, so that functions are asked in it alone, of the entries around the place, and
/// for its fences only where there are none.
#[test]
fn hints_spare_descents() {
    let mut random = StdRng::seed_from_u64(5);
    let kind = DigitKind::Opaque { prefix: 0, value: ValueLength::CString };
    let taste = Taste::of_kinds(&[kind], SMALL_KEY, 0, 1);
    let mut rows: Vec<Row> = (0..20_000)
        .map(|number| {
            let letters: Vec<u8> = (0..12).map(|_| random.random_range(b'a'..=b'z')).collect();
            taste.row(vec![Value::Bytes(letters)], number)
        })
        .collect();
    rows.sort();
    let meta = taste.meta();
    let pages = load_rows(&taste, 90, rows.iter());
    let calls = [false, true].map(|hinted| {
        let last = RefCell::new((Vec::new(), 0, Position::FIRST));
        let counting = Counting { columns: &taste.columns, hinted, calls: Cell::new(0), last };
        let order = Some(BytesOrder { shape: &taste.shape, columns: &counting });
        let store = MemoryStore::new(&pages, pages.len()).with_descents(1 << 20);
        let tree = Tree::<_, Bytes>::ordered(&store, &meta.geometry, order);
        let mut look_up = |count: usize| {
            counting.calls.set(0);
            for _ in 0..count {
                let row = &rows[random.random_range(0..rows.len())];
                let key = Bytes::key_of(&row.entry(), order);
                let leaf = tree.leaf(Seek::At(key)).expect("a leaf");
                let page = tree.page(&leaf).expect("a page");
                let found = page.entry(page.lower_bound(key)).expect("the row is there");
                assert_eq!(found.tid, row.tid);
                leaf.release();
            }
            counting.calls.get() as f64 / count as f64
        };
        look_up(20_000);
        look_up(2_000)
    });
    // Twice the two entries around the place, as nothing remembers answers here; more at the ends of nodes and leaves.
    assert!(calls[1] < 6.0, "{} calls a lookup with hints", calls[1]);
    assert!(calls[1] < calls[0] * 0.4, "{} calls a lookup with hints, {} without", calls[1], calls[0]);
}

fn stays(row: &Row) -> bool {
    !row.tid.offset().is_multiple_of(3)
}

/// Walks to and fro through what a selection finds. The rows that stay come in order, each when its turn is.
fn walk(seed: u64, changes: bool) {
    let mut random = StdRng::seed_from_u64(seed);
    let mut bed = random_bed(&mut random);
    for number in 0..500 {
        let row = bed.taste.random_row(&mut random, number);
        bed.insert(row);
    }
    let all: Vec<Row> = bed.model.iter().cloned().collect();
    for round in 0..12 {
        let mut wishes = bed.taste.wishes(&mut random, &all);
        if round == 0 {
            wishes.fill(None);
        }
        let possible: Vec<_> = all.iter().filter(|row| bed.taste.holds(&wishes, row)).map(|row| row.tid).collect();
        let stable: Vec<_> = all
            .iter()
            .filter(|row| (!changes || stays(row)) && bed.model.contains(row))
            .filter(|row| bed.taste.holds(&wishes, row))
            .map(|row| row.tid)
            .collect();
        let mut matches = Box::new(Matches::new());
        let mut cursor = Cursor::<Bytes>::new(if random.random() { Direction::Forward } else { Direction::Backward });
        let start = if cursor.direction() == Direction::Forward { 0 } else { stable.len() };
        // The stable rows read last, as a range of their indexes.
        let (mut from, mut to) = (start, start);
        let turns = random.random_range(1..10);
        for _ in 0..40 {
            if changes && random.random_ratio(1, 2) {
                change(&mut random, &mut bed, &all);
            }
            for _ in 0..random.random_range(0..10) / turns {
                cursor.turn();
            }
            let read = bed.taste.with_selection(&wishes, |selection| {
                cursor.read_page(bed.tree(), selection, false, &mut matches).unwrap()
            });
            if let Some(pin) = read {
                pin.unpin(&bed.store);
            }
            assert!(bed.store.is_quiet());
            let mut found = matches.tids().to_vec();
            let is_end = found.is_empty();
            if cursor.direction() == Direction::Backward {
                found.reverse();
            }
            assert!(found.iter().all(|tid| possible.contains(tid)), "seed {seed}: an unwanted row");
            found.retain(|tid| stable.contains(tid));
            (from, to) = match cursor.direction() {
                Direction::Forward => (to, to + found.len()),
                Direction::Backward => (from - found.len().min(from), from),
            };
            assert_eq!(found, stable[from..to.min(stable.len())], "seed {seed}: {:?}", bed.taste.columns);
            let end = if cursor.direction() == Direction::Forward { stable.len() } else { 0 };
            assert!(!is_end || (from, to) == (end, end), "seed {seed}");
            if is_end && random.random() {
                break;
            }
        }
    }
    bed.check();
}

/// Rows that need not stay come and go, new leaves with them.
fn change(random: &mut StdRng, bed: &mut BytesBed, all: &[Row]) {
    if random.random_ratio(1, 3) {
        let part = random.random_range(0..5);
        bed.vacuum(|tid| tid.offset() % 3 == 0 && u32::from(tid.offset()) % 5 != part);
    } else {
        for row in all.iter().filter(|row| !stays(row)) {
            if random.random_ratio(1, 4) && !bed.model.contains(row) {
                bed.insert(row.clone());
            }
        }
    }
}

#[test]
fn words_of_strings_and_of_pieces() {
    let naive = |bytes: &[u8], at: usize| {
        (at..at + 8).fold(0, |word, at| word << 8 | u64::from(bytes.get(at).copied().unwrap_or(0)))
    };
    let bytes: Vec<u8> = (0..40).map(|n: u8| if n % 5 == 4 { 0 } else { n.wrapping_mul(91) }).collect();
    for end in 0..bytes.len() {
        let bytes = &bytes[..end];
        for at in 0..end + 10 {
            assert_eq!(word_at(bytes, at), naive(bytes, at), "{end} bytes, from {at}");
            assert_eq!(Stored::whole(bytes, &[]).word(at), naive(bytes, at), "{end} bytes, from {at}");
            for (prefix, rest) in (0..=end).map(|prefix| bytes.split_at(prefix)) {
                let (head, suffix) = (naive(rest, 0), rest.get(8..).unwrap_or(&[]));
                let pieces = Stored { prefix, head, suffix, payload: &[] };
                assert_eq!(pieces.word(at), naive(bytes, at), "{end} bytes in pieces, from {at}");
            }
        }
    }
}
