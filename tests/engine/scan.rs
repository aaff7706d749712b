//! Scans against a plain filter: every kind of condition on every kind of index, both ways and turning, while the tree
//! stays as it is and while it changes between one page and the next.

use crate::common::*;
use fpbtree_engine::format::{Key, Lane, LaneKind, Tid};
use fpbtree_engine::keys::{Column, ColumnType, KeyShape};
use fpbtree_engine::scan::{Cursor, Direction, Everything, JumpPointers, Matches, Selection};
use fpbtree_engine::store::PageStore;
use fpbtree_engine::store::memory::MemoryStore;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

const TYPES: [ColumnType; 9] = [
    ColumnType::Bool,
    ColumnType::Char,
    ColumnType::Int2,
    ColumnType::Int4,
    ColumnType::Float4,
    ColumnType::Date,
    ColumnType::Int8,
    ColumnType::Timestamp,
    ColumnType::Uuid,
];

/// What a column is asked for, in fields.
#[derive(Clone, Debug)]
enum Condition {
    Between(u128, u128),
    AnyOf(Vec<u128>),
    /// With room for what the selection makes of it.
    AnyBetween(Vec<(u128, u128)>, Vec<(u128, u128)>),
    Null,
    NotNull,
}

impl Condition {
    fn holds(&self, field: Option<u128>) -> bool {
        match (self, field) {
            (Condition::Null, field) => field.is_none(),
            (_, None) => false,
            (Condition::NotNull, Some(_)) => true,
            (Condition::Between(low, high), Some(field)) => (*low..=*high).contains(&field),
            (Condition::AnyOf(fields), Some(field)) => fields.contains(&field),
            (Condition::AnyBetween(parts, _), Some(field)) => {
                parts.iter().any(|part| (part.0..=part.1).contains(&field))
            }
        }
    }

    fn random(random: &mut StdRng, fields: &[u128]) -> Condition {
        let some = |random: &mut StdRng| *fields.choose(random).unwrap();
        let interval = |random: &mut StdRng| {
            let (a, b) = (some(random), some(random));
            (a.min(b), a.max(b))
        };
        match random.random_range(0..10) {
            0 => Condition::Null,
            1 => Condition::NotNull,
            2..4 => {
                let count = random.random_range(0..5);
                Condition::AnyBetween((0..count).map(|_| interval(random)).collect(), vec![(0, 0); 40])
            }
            4..7 => {
                let count = random.random_range(0..6);
                Condition::AnyOf((0..count).map(|_| some(random)).collect())
            }
            7 => Condition::Between(some(random), some(random)),
            _ => {
                let (low, high) = interval(random);
                Condition::Between(low, high)
            }
        }
    }

    fn tell<'a>(&'a mut self, selection: &mut Selection<'a>, column: usize) {
        match self {
            Condition::Between(low, high) => selection.between(column, *low, *high),
            Condition::AnyOf(fields) => selection.any_of(column, fields),
            Condition::AnyBetween(parts, room) => selection.any_between(column, parts, room),
            Condition::Null => selection.null(column),
            Condition::NotNull => selection.not_null(column),
        }
    }
}

fn random_shape(random: &mut StdRng) -> KeyShape {
    loop {
        let columns: Vec<Column> = (0..random.random_range(1..=4))
            .map(|_| Column {
                ty: *TYPES.choose(random).unwrap(),
                descending: random.random(),
                nulls_first: random.random(),
            })
            .collect();
        if let Some(shape) = KeyShape::new(&columns) {
            return shape;
        }
    }
}

/// An image of few that there are, so that rows share their values: the ends of the type and some between.
fn random_image(random: &mut StdRng, ty: ColumnType) -> u128 {
    let all = u128::MAX >> (128 - ty.bits());
    match random.random_range(0..12) {
        0 => all,
        1 => all >> 1,
        2 => (all >> 1) + 1,
        3 => all - random.random_range(0..3).min(all),
        _ => random.random_range(0..10u128).min(all),
    }
}

/// A row's values, as fields, and its key.
struct Row<L> {
    fields: Vec<Option<u128>>,
    entry: (L, Tid),
    /// There before and after a scan that sees changes.
    stays: bool,
}

impl<L: Lane> Row<L> {
    fn random(random: &mut StdRng, shape: &KeyShape, number: u32) -> Row<L> {
        let images: Vec<Option<u128>> = shape
            .columns()
            .iter()
            .map(|column| (!random.random_ratio(1, 8)).then(|| random_image(random, column.ty)))
            .collect();
        let packed = shape.pack(&images);
        let tid = Tid::new(packed.rank, number, 1, packed.negative);
        let fields =
            images.iter().zip(shape.columns()).map(|(image, column)| image.map(|image| column.ty.encode(image).0));
        Row { fields: fields.collect(), entry: (L::from_u128(packed.lane), tid), stays: random.random_ratio(2, 3) }
    }

    fn key(&self) -> Key<L> {
        Key::new(self.entry.0, self.entry.1)
    }
}

/// The conditions of a scan, each on a column.
struct Wish(Vec<(usize, Condition)>);

impl Wish {
    fn random<L: Lane>(random: &mut StdRng, shape: &KeyShape, rows: &[Row<L>]) -> Wish {
        let mut conditions = Vec::new();
        for (column, described) in shape.columns().iter().enumerate() {
            let mut fields: Vec<u128> = rows.iter().filter_map(|row| row.fields[column]).take(50).collect();
            fields.push(described.ty.encode(random_image(random, described.ty)).0);
            for _ in 0..[0, 0, 1, 1, 2, 3][random.random_range(0..6)] {
                conditions.push((column, Condition::random(random, &fields)));
            }
        }
        Wish(conditions)
    }

    fn holds<L>(&self, row: &Row<L>) -> bool {
        self.0.iter().all(|(column, condition)| condition.holds(row.fields[*column]))
    }

    fn selection<'a>(&'a mut self, shape: &'a KeyShape) -> Selection<'a> {
        let mut selection = Selection::new(shape);
        for (column, condition) in &mut self.0 {
            condition.tell(&mut selection, *column);
        }
        selection
    }
}

/// An index of random rows.
struct Index<L: Lane> {
    bed: Bed<L>,
    rows: Vec<Row<L>>,
}

impl<L: Lane> Index<L> {
    fn random(random: &mut StdRng, shape: KeyShape, count: u32) -> Index<L> {
        let meta = exact(shape, small::<L>());
        let mut bed = Bed::<L>::with(meta, |pages| MemoryStore::new(pages, 4000));
        let rows: Vec<Row<L>> = (0..count).map(|number| Row::random(random, &shape, number)).collect();
        for row in &rows {
            bed.insert(row.entry);
        }
        Index { bed, rows }
    }

    /// The keys a scan should find, of all rows or of those that stay.
    fn wanted(&self, wish: &Wish, all: bool) -> Vec<Key<L>> {
        let rows = self.rows.iter().filter(|row| (all || row.stays) && wish.holds(row));
        let mut keys: Vec<Key<L>> = rows.map(Row::key).collect();
        keys.sort_unstable();
        keys
    }

    /// Rows that need not stay come and go, new leaves with them.
    fn change(&mut self, random: &mut StdRng) {
        let passing = |rows: &[Row<L>]| rows.iter().filter(|row| !row.stays).map(|row| row.entry).collect::<Vec<_>>();
        if random.random_ratio(1, 3) {
            let seed = random.random_range(1..5);
            let doomed: std::collections::BTreeSet<Tid> =
                passing(&self.rows).into_iter().map(|(_, tid)| tid.position()).collect();
            self.bed.vacuum(|tid| doomed.contains(&tid.position()) && tid.block() % 5 < seed);
        } else {
            for entry in passing(&self.rows) {
                if random.random_ratio(1, 4) {
                    self.bed.insert(entry);
                }
            }
        }
    }
}

/// Calls a generic function with the lane that a shape needs.
macro_rules! with_lane {
    ($shape:expr, $function:ident($($argument:expr),*)) => {
        match $shape.lane_kind() {
            LaneKind::U32 => $function::<u32>($($argument),*),
            LaneKind::U64 => $function::<u64>($($argument),*),
            LaneKind::U128 => $function::<u128>($($argument),*),
            LaneKind::Prefix | LaneKind::PrefixPayload => unreachable!("exact lanes only"),
        }
    };
}

#[test]
fn conditions_select_what_a_filter_does() {
    for seed in 0..60 {
        let mut random = StdRng::seed_from_u64(seed);
        let shape = random_shape(&mut random);
        with_lane!(shape, filter(&mut random, shape));
    }
}

fn filter<L: Lane>(random: &mut StdRng, shape: KeyShape) {
    let count = random.random_range(0..400);
    let index = Index::<L>::random(random, shape, count);
    index.bed.check();
    for _ in 0..60 {
        let mut wish = Wish::random(random, &shape, &index.rows);
        let mut expected = index.wanted(&wish, true);
        let conditions = format!("{:?} {:?}", shape.columns(), wish.0);
        let selection = wish.selection(&shape);
        assert_eq!(scan(index.bed.tree(), &selection, Direction::Forward, false), expected, "{conditions}");
        expected.reverse();
        assert_eq!(scan(index.bed.tree(), &selection, Direction::Backward, false), expected, "{conditions}");
        check_leaves(index.bed.tree(), &selection, Direction::Forward);
        check_leaves(index.bed.tree(), &selection, Direction::Backward);
    }
}

/// Leaves handed out are taken note of as the scan comes to them, or goes past.
#[test]
fn leaves_are_passed_in_order() {
    let meta = exact(one_column::<u64>(), small::<u64>());
    let pages = load::<u64>(&meta, 90, (0..20_000).map(|at| key(at.into(), at)));
    let bed = Bed::<u64>::with(meta, |_| MemoryStore::new(&pages, pages.len() + 10));
    let mut leaves = JumpPointers::new();
    assert!(!leaves.has_begun());
    leaves.begin(Direction::Forward, &Key::MIN);
    let first: Vec<_> = (0..10).map(|_| leaves.next(bed.tree(), &Everything).unwrap().expect("a leaf")).collect();
    assert_eq!((leaves.ahead(), leaves.pass(first[0]), leaves.ahead()), (10, Some(0), 9));
    assert_eq!((leaves.pass(first[4]), leaves.ahead()), (Some(3), 5));
    assert_eq!((leaves.pass(first[2]), leaves.ahead()), (None, 5));
    // As many are known as there is room for, and more as some are passed.
    let rest = |leaves: &mut JumpPointers<u64>| {
        core::iter::from_fn(|| leaves.next(bed.tree(), &Everything).unwrap()).collect::<Vec<_>>()
    };
    let mut all = [&first[..], &rest(&mut leaves)].concat();
    while leaves.pass(*all.last().unwrap()).is_some() {
        all.extend(rest(&mut leaves));
    }
    assert_eq!(all.len(), bed.tree().census().unwrap().leaf_pages as usize);
    leaves.end();
    assert_eq!((leaves.ahead(), leaves.next(bed.tree(), &Everything).unwrap()), (0, None));
}

/// However many leaves are filled ahead of a slow scan, emptied behind it and used again, as inserts that are rolled
/// back and VACUUM do it, the scan goes on: it comes to many more leaves than there are.
#[test]
fn slow_scans_see_leaves_used_again() {
    const BATCH: u64 = 200;
    for direction in [Direction::Forward, Direction::Backward] {
        let mut bed = Bed::<u64>::new(small::<u64>(), 200);
        let shape = shape_of(&bed.meta);
        let everything = Selection::new(&shape);
        let mut cursor = Cursor::new(direction);
        let mut matches = Box::new(Matches::new());
        let (mut visit, mut most) = (0, 0);
        for batch in 0..300 {
            let place = if direction == Direction::Forward { batch } else { 1_000 - batch };
            (0..BATCH).for_each(|at| bed.insert(key((place * BATCH + at).into(), place * BATCH + at)));
            for _ in 0..3 {
                let pin = cursor.read_page(bed.tree(), &everything, false, &mut matches).expect("the scan goes on");
                pin.expect("there are entries ahead").unpin(&bed.store);
                visit += 1;
            }
            most = most.max(bed.store.block_count());
            bed.vacuum(|_| true);
        }
        assert!(visit > 4 * most, "{visit} leaves, of {most} pages: too few to say anything");
        bed.check();
    }
}

/// A scan that skips goes on behind the place, either way, however often that is in the leaf it has just read.
#[test]
fn scans_skip_what_is_on_this_side_of_a_place() {
    const ENTRIES: u64 = 4_000;
    let meta = exact(one_column::<u64>(), small::<u64>());
    let pages = load::<u64>(&meta, 90, (0..ENTRIES).map(|at| key((2 * at).into(), at)));
    let bed = Bed::<u64>::with(meta, |_| MemoryStore::new(&pages, pages.len() + 10));
    let (mut random, shape) = (StdRng::seed_from_u64(7), one_column::<u64>());
    let everything = Selection::new(&shape);
    for (longest, direction) in [1, 3, 40, 3_000]
        .into_iter()
        .flat_map(|longest| [Direction::Forward, Direction::Backward].map(|way| (longest, way)))
    {
        let (mut cursor, mut matches) = (Cursor::new(direction), Box::new(Matches::new()));
        let (mut place, mut reads) = (if direction == Direction::Forward { 0 } else { 2 * ENTRIES }, 0);
        while let Some(pin) = cursor.read_page(bed.tree(), &everything, false, &mut matches).expect("a sound page") {
            pin.unpin(&bed.store);
            reads += 1;
            let (first, step) = (matches.lane(0), random.random_range(1..=longest));
            // Forward the key at the place is not skipped, backward it is.
            if direction == Direction::Forward {
                assert_eq!(first, place.next_multiple_of(2));
                place = first + step;
            } else {
                assert_eq!(first, (place - 1) / 2 * 2);
                place = first.saturating_sub(step - 1);
            }
            if cursor.is_done() {
                break;
            }
            cursor.skip_to(&Key::new(place, Tid::MIN));
        }
        assert!(longest > 100 || reads > ENTRIES / 40, "{direction:?} by {longest}: {reads} reads");
        assert!(cursor.is_done(), "{direction:?} by {longest}");
    }
}

#[test]
fn scans_turn_between_pages() {
    for seed in 100..140 {
        let mut random = StdRng::seed_from_u64(seed);
        let shape = random_shape(&mut random);
        with_lane!(shape, walk(&mut random, shape, false));
    }
}

#[test]
fn scans_and_turns_survive_changes_between_pages() {
    for seed in 200..240 {
        let mut random = StdRng::seed_from_u64(seed);
        let shape = random_shape(&mut random);
        with_lane!(shape, walk(&mut random, shape, true));
    }
}

/// Walks to and fro through what a selection finds. The rows that stay come in order, each when its turn is.
fn walk<L: Lane>(random: &mut StdRng, shape: KeyShape, changes: bool) {
    let mut index = Index::<L>::random(random, shape, 500);
    for round in 0..15 {
        let mut wish = Wish::random(random, &shape, &index.rows);
        if round == 0 {
            wish = Wish(Vec::new());
        }
        let stable = index.wanted(&wish, !changes);
        let possible = index.wanted(&wish, true);
        let selection = wish.selection(&shape);
        let mut matches = Box::new(Matches::new());
        let mut direction = if random.random() { Direction::Forward } else { Direction::Backward };
        let mut cursor = Cursor::<L>::new(direction);
        let start = if direction == Direction::Forward { 0 } else { stable.len() };
        // The stable keys read last, as a range of their indexes.
        let (mut from, mut to) = (start, start);
        let turns = random.random_range(1..10);
        for _ in 0..40 {
            if changes && random.random_ratio(1, 2) {
                index.change(random);
            }
            for _ in 0..random.random_range(0..10) / turns {
                cursor.turn();
                direction = cursor.direction();
            }
            let read = cursor.read_page(index.bed.tree(), &selection, false, &mut matches).unwrap();
            assert_eq!(read.is_none(), matches.is_empty());
            if let Some(pin) = read {
                pin.unpin(&index.bed.store);
            }
            assert!(index.bed.store.is_quiet());
            let mut found: Vec<Key<L>> = keys(&matches).collect();
            let is_end = found.is_empty();
            if direction == Direction::Backward {
                found.reverse();
            }
            assert!(found.is_sorted_by(|a, b| a < b), "matches are out of order");
            assert!(found.iter().all(|key| possible.binary_search(key).is_ok() && index.bed.model.contains(key)));
            found.retain(|key| stable.binary_search(key).is_ok());
            (from, to) = match direction {
                Direction::Forward => (to, to + found.len()),
                Direction::Backward => (from - found.len().min(from), from),
            };
            assert_eq!(found, stable[from..to]);
            assert!(
                !is_end
                    || (from, to)
                        == if direction == Direction::Forward { (stable.len(), stable.len()) } else { (0, 0) }
            );
            if is_end && random.random() {
                break;
            }
        }
    }
    index.bed.check();
}
