//! A tree of byte-string keys in memory, beside the rows it should hold, which are ordered value by value.

use super::{BUILD_ID, memory_to_ask};
use fpbtree_engine::format::{Geometry, LaneKind, MAX_PAGE_NODES, NO_BLOCK, PAGE_SIZE, PageBytes, Tid};
use fpbtree_engine::keys::bytes::{BytesOrder, BytesShape, CompareValues, KeyBuffer, MOST_KEY, OwnedKey, Stored};
use fpbtree_engine::keys::digits::{Buffer, Decimal, DecimalClass, DigitKind, DigitShape, ValueLength};
use fpbtree_engine::page::{Bytes, Entry, LogKind, Meta, Shape};
use fpbtree_engine::scan::{BytesSelection, Cursor, Cut, Direction, Interval, Matches, compare_cuts};
use fpbtree_engine::store::Store;
use fpbtree_engine::store::memory::MemoryStore;
use fpbtree_engine::tree::check::BlockSet;
use fpbtree_engine::tree::load::Loader;
use fpbtree_engine::tree::{DeadTids, InsertOptions, Seek, Tree};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;
use std::mem::MaybeUninit;

/// A column's value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    Null,
    Number(u128),
    Bytes(Vec<u8>),
    /// Hundredths of a hundredth.
    Decimal(i64),
}

/// A value's place among those of its column. Only one of the variants for values is used in a column.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Sort {
    NullFirst,
    Up(Plain),
    Down(Reverse<Plain>),
    NullLast,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Plain {
    Number(u128),
    Bytes(Vec<u8>),
    Decimal(i64),
}

/// The columns of an index. Opaque ones are ordered as if all letters were small.
#[derive(Clone, Debug)]
pub struct Columns(pub Vec<DigitShape>);

impl CompareValues for Columns {
    fn compare(&self, column: usize, a: &[u8], b: &[u8]) -> Ordering {
        let digit = self.0[column];
        let ordered = folded(digit, a).cmp(&folded(digit, b));
        if digit.descending { ordered.reverse() } else { ordered }
    }
}

/// What an opaque value is ordered by.
fn folded(digit: DigitShape, stored: &[u8]) -> Vec<u8> {
    let DigitKind::Opaque { value, .. } = digit.kind else { panic!("an opaque column") };
    let content = match value {
        ValueLength::Fixed(_) => stored,
        ValueLength::Variable if stored[0] & 1 == 1 => &stored[1..],
        ValueLength::Variable | ValueLength::Bytes => &stored[4..],
        ValueLength::CString => &stored[..stored.len() - 1],
    };
    content.to_ascii_lowercase()
}

/// The digit of a value.
pub fn digit_of(digit: DigitShape, value: &Value) -> Vec<u8> {
    let mut out = Buffer::<8192>::new();
    match (value, digit.kind) {
        (Value::Null, _) => digit.put_null(&mut out),
        (Value::Number(number), _) => digit.put_field(*number, &mut out),
        (Value::Bytes(bytes), DigitKind::Text) => digit.put_text(bytes, &mut out),
        (Value::Bytes(bytes), DigitKind::Opaque { prefix, .. }) => {
            let mut front = bytes.to_ascii_lowercase();
            front.resize(prefix as usize, 0);
            digit.put_opaque(&front, bytes, &mut out);
        }
        (Value::Bytes(bytes), _) => digit.put_bytes(bytes, &mut out),
        (Value::Decimal(hundredths), _) => {
            let (mut left, mut digits) = (hundredths.unsigned_abs(), Vec::new());
            while left > 0 {
                digits.push(((left % 10_000) as u16).to_ne_bytes());
                left /= 10_000;
            }
            digits.reverse();
            let class = match hundredths.signum() {
                -1 => DecimalClass::Negative,
                0 => DecimalClass::Zero,
                _ => DecimalClass::Positive,
            };
            digit.put_numeric(Decimal { class, weight: digits.len() as i32 - 2 }, &digits, &mut out);
        }
    }
    assert!(out.fits());
    out.as_slice().to_vec()
}

pub fn sort_of(digit: DigitShape, value: &Value) -> Sort {
    let plain = match value {
        Value::Null if digit.nulls_first => return Sort::NullFirst,
        Value::Null => return Sort::NullLast,
        Value::Number(number) => Plain::Number(*number),
        Value::Bytes(bytes) if digit.is_opaque() => Plain::Bytes(bytes.to_ascii_lowercase()),
        Value::Bytes(bytes) => Plain::Bytes(bytes.clone()),
        Value::Decimal(decimal) => Plain::Decimal(*decimal),
    };
    if digit.descending { Sort::Down(Reverse(plain)) } else { Sort::Up(plain) }
}

/// A row's place in the index.
pub type Place = (Vec<Sort>, u64);

/// A row as it is stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    pub values: Vec<Value>,
    pub digits: Vec<u8>,
    pub normal: usize,
    /// What is behind the normal part.
    pub payload: Vec<u8>,
    pub tid: Tid,
}

impl Row {
    pub fn place(&self, columns: &Columns) -> Place {
        let sorts = self.values.iter().zip(&columns.0).map(|(value, digit)| sort_of(*digit, value));
        (sorts.collect(), self.tid.position().raw())
    }

    pub fn normal(&self) -> &[u8] {
        &self.digits[..self.normal]
    }

    pub fn entry(&self) -> Entry<'_, Bytes> {
        Entry { key: Stored::whole(self.normal(), &self.payload), tid: self.tid, child: NO_BLOCK }
    }
}

/// Widths that leave leaves so many cache lines of room, and inner pages two more: trees get many levels.
fn leaving(carries: bool, room: usize) -> Geometry {
    // Lines are twice as long where a byte would not number them.
    let lines = |lines| lines / PAGE_SIZE.div_ceil(16384);
    let [w, inner_w] = [room, room + 2].map(|room| (MAX_PAGE_NODES - lines(room)) as u8);
    Geometry::with_widths(kind(carries), BUILD_ID, [w, 1, inner_w, lines(2) as u8]).expect("these widths fit")
}

/// Small pages.
pub fn small(carries: bool) -> Geometry {
    leaving(carries, 21)
}

/// Longer keys do not fit [`small`] pages.
pub const SMALL_KEY: usize = 240;

/// Pages with half as much room.
pub fn tiny(carries: bool) -> Geometry {
    leaving(carries, 10)
}

/// Longer keys do not fit [`tiny`] pages.
pub const TINY_KEY: usize = 110;

/// The smallest pages that keys of so many bytes fit.
pub fn for_keys(most: usize, carries: bool) -> Geometry {
    if most <= TINY_KEY {
        tiny(carries)
    } else if most <= SMALL_KEY {
        small(carries)
    } else {
        normal(carries)
    }
}

/// The widths an index gets.
pub fn normal(carries: bool) -> Geometry {
    Geometry::choose(kind(carries), BUILD_ID)
}

fn kind(carries: bool) -> LaneKind {
    if carries { LaneKind::PrefixPayload } else { LaneKind::Prefix }
}

/// The sort of rows a test plays with.
#[derive(Clone, Debug)]
pub struct Taste {
    pub columns: Columns,
    pub shape: BytesShape,
    /// The most bytes of a key.
    pub most: usize,
    /// The most bytes that go with one.
    carried: usize,
    /// Which sorts of byte strings there are.
    flavours: Vec<u32>,
    /// How many different endings they have.
    spread: u32,
    /// What most rows are, if rows repeat: the first of these more often than the others.
    few: Vec<Vec<Value>>,
}

impl Taste {
    pub fn new(columns: Vec<DigitShape>, carried: usize, most: usize, flavours: &[u32], spread: u32) -> Taste {
        let shape = BytesShape::new(&columns, carried > 0).expect("a shape");
        Taste { columns: Columns(columns), shape, most, carried, flavours: flavours.to_vec(), spread, few: Vec::new() }
    }

    /// The same, but most rows are some of a few: pages get runs.
    pub fn repeating(mut self, random: &mut StdRng) -> Taste {
        for _ in 0..random.random_range(1..8) {
            let mut values = self.random_row(random, 0).values;
            self.few.push(values.clone());
            // Values that are equal to opaque columns' functions, but not byte for byte.
            for value in &mut values {
                if let Value::Bytes(bytes) = value {
                    bytes.make_ascii_uppercase();
                }
            }
            self.few.push(values);
        }
        self
    }

    pub fn random(random: &mut StdRng, most: usize) -> Taste {
        let columns = random_columns(random);
        let carried = [0, 0, 1, 30][random.random_range(0..4)];
        let flavours: Vec<u32> = (0..random.random_range(1..4)).map(|_| random.random_range(0..5)).collect();
        let spread = [2, 10, 1000, 1 << 30][random.random_range(0..4)];
        let taste = Taste::new(columns, carried, most, &flavours, spread);
        if random.random_ratio(1, 3) { taste.repeating(random) } else { taste }
    }

    pub fn order(&self) -> Option<BytesOrder<'_>> {
        self.shape.is_opaque().then_some(BytesOrder { shape: &self.shape, columns: &self.columns })
    }

    pub fn meta(&self, geometry: Geometry) -> Meta {
        Meta { shape: Shape::Bytes(self.shape), geometry, log: LogKind::Generic }
    }

    pub fn value(&self, random: &mut StdRng, column: usize) -> Value {
        let digit = self.columns.0[column];
        if random.random_ratio(1, 12) {
            return Value::Null;
        }
        match digit.kind {
            DigitKind::Fixed(bytes) => {
                let all = u128::MAX >> (128 - 8 * u32::from(bytes));
                Value::Number(match random.random_range(0..6) {
                    0 => all,
                    1 => 0,
                    _ => u128::from(random.random_range(0..self.spread)) & all,
                })
            }
            DigitKind::Numeric => Value::Decimal(match random.random_range(0..5) {
                0 => random.random_range(-50_000..50_000) * 10_000,
                1 => random.random_range(-1 << 60..1 << 60),
                _ => random.random_range(0..i64::from(self.spread)) - i64::from(self.spread) / 2,
            }),
            kind => Value::Bytes(self.bytes(random, kind)),
        }
    }

    fn bytes(&self, random: &mut StdRng, kind: DigitKind) -> Vec<u8> {
        let zeros = matches!(kind, DigitKind::Bytes | DigitKind::Opaque { value: ValueLength::Variable, .. });
        let share = self.most / self.columns.0.len();
        let room = share.saturating_sub(self.carried + 24).max(4);
        let ending = random.random_range(0..self.spread);
        let cased = |random: &mut StdRng, letter: u8| if random.random() { letter } else { letter ^ 0x20 };
        let mut bytes = match self.flavours.choose(random).expect("some flavour") {
            0 => (0..random.random_range(0..6)).map(|_| cased(random, b'a')).collect(),
            1 => format!("https://www.example.com/articles/2024/06/a-story-of-{ending}/").into_bytes(),
            // One byte apart, far behind or not.
            2 => {
                let length = [0, 6, 7, 8, 9, 100, room][random.random_range(0..7)].min(room);
                let mut bytes = vec![b'x'; length];
                bytes.push((ending % 255) as u8 + 1);
                bytes
            }
            3 => (0..random.random_range(0..12)).map(|_| [0, 1, 0xFE, 0xFF][random.random_range(0..4)]).collect(),
            _ => {
                let mut bytes = vec![b'm'; room];
                let at = [0, room / 2, room - 1][random.random_range(0..3)];
                bytes[at] = (ending % 255) as u8 + 1;
                bytes
            }
        };
        bytes.truncate(room);
        if !zeros {
            bytes.retain(|&byte| byte != 0);
        }
        bytes
    }

    /// A row of these values.
    pub fn row(&self, values: Vec<Value>, number: u64) -> Row {
        let digits: Vec<u8> =
            values.iter().zip(&self.columns.0).flat_map(|(value, digit)| digit_of(*digit, value)).collect();
        let parts = self.shape.parts(&digits);
        let (normal, mut payload) = (parts.normal.len(), [parts.marker, parts.value].concat());
        // Rows with equal keys carry the same or not.
        let sort = number as usize / if self.few.is_empty() { 1 } else { 200 } % 3;
        let carried = if self.carried == 0 { 0 } else { sort % (self.carried + 1) * self.carried / 2 };
        payload.extend((0..carried.min(self.carried)).map(|at| at as u8));
        let tid = Tid::new(false, (number / 100) as u32, (number % 100) as u16 + 1, false);
        Row { values, digits, normal, payload, tid }
    }

    pub fn random_row(&self, random: &mut StdRng, number: u64) -> Row {
        loop {
            let values = match self.few.len() {
                few if few > 0 && random.random_ratio(19, 20) => {
                    self.few[random.random_range(0..few) * usize::from(random.random_ratio(1, 2))].clone()
                }
                _ => (0..self.columns.0.len()).map(|column| self.value(random, column)).collect(),
            };
            let row = self.row(values, number);
            if row.digits.len() + self.carried <= self.most.min(MOST_KEY) {
                return row;
            }
        }
    }

    /// A random selection of rows like these, as conditions on some columns.
    pub fn wishes(&self, random: &mut StdRng, rows: &[Row]) -> Vec<Option<Wish>> {
        (0..self.columns.0.len()).map(|c| Wish::random(random, self, c, rows)).collect()
    }

    pub fn holds(&self, wishes: &[Option<Wish>], row: &Row) -> bool {
        let mut columns = wishes.iter().zip(&self.columns.0).zip(&row.values);
        columns.all(|((wish, digit), value)| wish.as_ref().is_none_or(|wish| wish.holds(*digit, value)))
    }

    /// Makes a selection of wishes and hands it on.
    pub fn with_selection<R>(&self, wishes: &[Option<Wish>], then: impl FnOnce(&BytesSelection<'_>) -> R) -> R {
        let digits: Vec<_> = wishes
            .iter()
            .zip(&self.columns.0)
            .map(|(wish, digit)| wish.as_ref().map(|wish| wish.digits(*digit)).unwrap_or_default())
            .collect();
        let intervals: Vec<_> = wishes
            .iter()
            .zip(&digits)
            .enumerate()
            .map(|(c, (wish, digits))| wish.as_ref().map(|wish| wish.intervals(self, c, digits)))
            .collect();
        let mut selection = BytesSelection::new(&self.shape, self.order());
        for (c, intervals) in intervals.iter().enumerate() {
            if let Some(intervals) = intervals {
                selection.set(c, intervals);
            }
        }
        then(&selection)
    }

    /// The pages of a tree of these rows, which come in order, loaded in bulk.
    pub fn load<'r>(&self, meta: &Meta, fill: usize, rows: impl Iterator<Item = &'r Row>) -> Vec<PageBytes> {
        let mut pages = vec![meta.page()];
        let mut write = |block: u32, page: &PageBytes| {
            pages.resize(pages.len().max(block as usize + 1), [0; PAGE_SIZE]);
            assert!(pages[block as usize].iter().all(|&byte| byte == 0), "block {block} is written twice");
            pages[block as usize] = *page;
        };
        let mut memory = Box::new(MaybeUninit::<Loader<Bytes>>::uninit());
        Loader::init(&mut memory, fill);
        // SAFETY: just initialised.
        let loader = unsafe { memory.assume_init_mut() };
        for row in rows {
            loader.add(&meta.geometry, self.order(), &row.entry(), &mut write);
        }
        loader.finish(&meta.geometry, self.order(), &mut write);
        pages
    }
}

fn random_columns(random: &mut StdRng) -> Vec<DigitShape> {
    let kinds = [
        DigitKind::Text,
        DigitKind::Text,
        DigitKind::Bytes,
        DigitKind::Fixed(4),
        DigitKind::Fixed(1),
        DigitKind::Numeric,
        DigitKind::Opaque { prefix: 0, value: ValueLength::Variable },
        DigitKind::Opaque { prefix: 3, value: ValueLength::Bytes },
        DigitKind::Opaque { prefix: 12, value: ValueLength::CString },
    ];
    (0..random.random_range(1..=3))
        .map(|_| DigitShape {
            kind: *kinds.choose(random).expect("some kind"),
            descending: random.random(),
            nulls_first: random.random(),
        })
        .collect()
}

/// A tree, and the rows it should hold.
pub struct BytesBed {
    pub store: MemoryStore,
    pub meta: Meta,
    pub taste: Taste,
    pub model: BTreeMap<Place, Row>,
}

impl BytesBed {
    pub fn new(taste: Taste, geometry: Geometry, capacity: usize) -> Self {
        Self::with(taste, geometry, |pages| MemoryStore::new(pages, capacity))
    }

    pub fn with(taste: Taste, geometry: Geometry, store: impl FnOnce(&[PageBytes]) -> MemoryStore) -> Self {
        let meta = taste.meta(geometry);
        let store = store(&taste.load(&meta, 90, [].into_iter()));
        BytesBed { store, meta, taste, model: BTreeMap::new() }
    }

    /// A tree of these rows, loaded in bulk.
    pub fn loaded(taste: Taste, geometry: Geometry, fill: usize, rows: Vec<Row>, room: usize) -> Self {
        let meta = taste.meta(geometry);
        let model: BTreeMap<Place, Row> = rows.into_iter().map(|row| (row.place(&taste.columns), row)).collect();
        let pages = taste.load(&meta, fill, model.values());
        assert_eq!(Meta::read(&pages[0]), Ok(meta));
        BytesBed { store: MemoryStore::new(&pages, pages.len() + room), meta, taste, model }
    }

    pub fn tree(&self) -> Tree<'_, MemoryStore, Bytes> {
        Tree::ordered(&self.store, &self.meta.geometry, self.taste.order())
    }

    /// Inserts a row that is not there yet.
    pub fn insert(&mut self, row: Row) {
        self.tree().insert_entry(&row.entry(), InsertOptions::filling(90)).expect("the insertion succeeds");
        assert!(self.model.insert(row.place(&self.taste.columns), row).is_none());
    }

    /// Removes the rows that `is_dead` names.
    pub fn vacuum(&mut self, mut is_dead: impl FnMut(Tid) -> bool) {
        let before = self.model.len();
        self.model.retain(|_, row| !is_dead(row.tid));
        let stats = self
            .tree()
            .vacuum(&mut DeadTids::new(&mut memory_to_ask()), &mut is_dead, &mut |_, _, _| {}, &mut |_| {})
            .expect("the vacuum succeeds");
        assert_eq!(stats.entries, self.model.len() as u64);
        assert_eq!(stats.removed, (before - self.model.len()) as u64);
    }

    /// Everything is as it should be.
    pub fn check(&self) {
        assert!(self.store.is_quiet(), "a lock or a pin is left over");
        assert_eq!(problems(self.tree()), Vec::<String>::new());
        let found = rows(self.tree(), &self.taste.shape);
        let expected: Vec<_> =
            self.model.values().map(|row| (row.digits.clone(), row.payload.clone(), row.tid)).collect();
        assert!(found == expected, "the tree holds something else");
        let census = self.tree().census().expect("the tree can be counted");
        assert_eq!(census.entries, self.model.len() as u64);
        assert_eq!(census.free_pages, self.store.free_pages(), "a page is lost");
    }
}

/// What verification has to say.
pub fn problems<S: Store>(tree: Tree<'_, S, Bytes>) -> Vec<String> {
    let mut words = vec![0; BlockSet::words(tree.store().block_count())];
    let mut found = Vec::new();
    tree.verify(None, &mut BlockSet::new(&mut words), &mut |block, what, detail| {
        found.push(format!("block {block}: {what} ({detail})"));
    })
    .unwrap_or_else(|error| found.push(format!("{error:?}")));
    found
}

/// All leaf entries, by the right links: digits, what goes with them, and TIDs.
pub fn rows<S: Store>(tree: Tree<'_, S, Bytes>, shape: &BytesShape) -> Vec<(Vec<u8>, Vec<u8>, Tid)> {
    let mut all = Vec::new();
    let first = OwnedKey::FIRST;
    let mut pin = tree.leaf(Seek::At(first.key(tree.order()))).expect("there is a first leaf");
    loop {
        let page = tree.page(&pin).expect("a leaf");
        all.extend(page.iter().map(|entry| in_one_piece(&entry, shape)));
        let right = page.right();
        pin.release();
        if right == NO_BLOCK {
            return all;
        }
        pin = tree.lock(right).expect("a right sibling");
    }
}

pub fn in_one_piece(entry: &Entry<'_, Bytes>, shape: &BytesShape) -> (Vec<u8>, Vec<u8>, Tid) {
    let mut room = KeyBuffer::new();
    let digits = shape.join(&entry.key, &mut room).expect("a sound key");
    (digits.to_vec(), entry.key.payload.to_vec(), entry.tid)
}

/// What a scan finds, in its order.
pub fn scan(bed: &BytesBed, selection: &BytesSelection<'_>, direction: Direction) -> Vec<Tid> {
    let (mut cursor, mut matches) = (Cursor::new(direction), Box::new(Matches::new()));
    let mut found = Vec::new();
    while let Some(pin) = cursor.read_page(bed.tree(), selection, false, &mut matches).expect("the page can be read") {
        pin.unpin(&bed.store);
        assert!(!matches.is_empty());
        found.extend_from_slice(matches.tids());
    }
    found
}

/// What a scan finds with the keys, in its order.
pub fn scan_keys(bed: &BytesBed, selection: &BytesSelection<'_>, direction: Direction) -> Vec<(Vec<u8>, Vec<u8>, Tid)> {
    let (mut cursor, mut matches) = (Cursor::new(direction), Box::new(Matches::new()));
    let mut selection = *selection;
    selection.set_wants_keys(true);
    let mut found = Vec::new();
    while let Some(pin) = cursor.read_page(bed.tree(), &selection, false, &mut matches).expect("the page can be read") {
        pin.unpin(&bed.store);
        for at in 0..matches.len() {
            let entry = matches.entry(at).expect("keys were wanted");
            found.push(in_one_piece(&entry, &bed.taste.shape));
        }
    }
    found
}

/// What a column is asked for: intervals of places, each end included or not, `None` for no end at all.
#[derive(Clone, Debug)]
pub struct Wish {
    parts: Vec<[(Option<Value>, bool); 2]>,
    /// Whether NULL is a place beyond an open end.
    nulls: bool,
}

impl Wish {
    /// Of the values of these rows and others.
    pub fn random(random: &mut StdRng, taste: &Taste, column: usize, rows: &[Row]) -> Option<Wish> {
        let digit = taste.columns.0[column];
        let mut values: Vec<Value> = (0..random.random_range(0..7))
            .map(|_| match rows.choose(random) {
                Some(row) if random.random_ratio(3, 4) => row.values[column].clone(),
                _ => taste.value(random, column),
            })
            .collect();
        values.sort_by_key(|value| sort_of(digit, value));
        values.dedup_by_key(|value| sort_of(digit, value));
        let parts = match random.random_range(0..6) {
            0 => return None,
            1 => vec![[(None, true), (None, true)]],
            2 => values.into_iter().map(|value| [(Some(value.clone()), true), (Some(value), true)]).collect(),
            3 => vec![[(values.pop(), random.random()), (None, true)]],
            4 => vec![[(None, true), (values.pop(), random.random())]],
            _ => {
                let pairs = values.chunks_exact(2);
                let mut parts: Vec<_> = pairs
                    .map(|pair| [(Some(pair[0].clone()), random.random()), (Some(pair[1].clone()), random.random())])
                    .collect();
                if random.random()
                    && let Some(first) = parts.first_mut()
                {
                    first[0] = (None, true);
                }
                parts
            }
        };
        Some(Wish { parts, nulls: random.random_ratio(1, 4) })
    }

    pub fn holds(&self, digit: DigitShape, value: &Value) -> bool {
        let place = sort_of(digit, value);
        self.parts.iter().any(|[low, high]| {
            let from = match &low.0 {
                None => self.nulls || place != Sort::NullFirst,
                Some(low_value) => match sort_of(digit, low_value).cmp(&place) {
                    Ordering::Less => true,
                    Ordering::Equal => low.1,
                    Ordering::Greater => false,
                },
            };
            let to = match &high.0 {
                None => self.nulls || place != Sort::NullLast,
                Some(high_value) => match sort_of(digit, high_value).cmp(&place) {
                    Ordering::Greater => true,
                    Ordering::Equal => high.1,
                    Ordering::Less => false,
                },
            };
            from && to
        })
    }

    /// The digits of the ends.
    pub fn digits(&self, digit: DigitShape) -> Vec<[Option<Vec<u8>>; 2]> {
        let end = |end: &(Option<Value>, bool)| end.0.as_ref().map(|value| digit_of(digit, value));
        self.parts.iter().map(|[low, high]| [end(low), end(high)]).collect()
    }

    /// The intervals of column `c`, less those with nothing in them.
    pub fn intervals<'d>(&self, taste: &Taste, c: usize, digits: &'d [[Option<Vec<u8>>; 2]]) -> Vec<Interval<'d>> {
        let open = if self.nulls { Interval::ALL } else { Interval::NOT_NULL };
        let parts = self.parts.iter().zip(digits);
        parts
            .map(|([low, high], [low_digit, high_digit])| Interval {
                low: low_digit.as_ref().map_or(open.low, |digit| Cut { digit, above: !low.1 }),
                high: high_digit.as_ref().map_or(open.high, |digit| Cut { digit, above: high.1 }),
            })
            .filter(|part| compare_cuts(&taste.shape, taste.order(), c, part.low, part.high).is_lt())
            .collect()
    }
}

/// Rows in any order.
pub fn shuffled(random: &mut StdRng, mut rows: Vec<Row>) -> Vec<Row> {
    rows.shuffle(random);
    rows
}
