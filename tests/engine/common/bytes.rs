//! A tree of byte-string keys in memory, beside the rows it should hold, which are ordered value by value.

use super::*;
use fpbtree_engine::format::{Geometry, LaneKind, MAX_PAGE_NODES, Position};
use fpbtree_engine::keys::bytes::{BytesOrder, BytesShape, CompareValues, KeyBuffer, MOST_KEY, OwnedKey, Stored};
use fpbtree_engine::keys::digits::{Buffer, Decimal, DecimalClass, DigitKind, DigitShape, ValueLength};
use fpbtree_engine::page::{Bytes, LogKind, Shape};
use fpbtree_engine::scan::{BytesSelection, Cut, Interval, compare_cuts};
use rand::Rng;
use rand::seq::{IndexedRandom, SliceRandom};
use std::cell::RefCell;
use std::cmp::{Ordering, Reverse};
use std::collections::HashMap;

pub use super::{AnyBed, KeyMaker};

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

    /// Of some values it is none, or not true: nothing may come of that.
    fn hint(&self, column: usize, value: &[u8], out: &mut [u8]) -> usize {
        let digit = self.0[column];
        let mut bytes = folded(digit, value);
        match digest(&bytes) % 8 {
            0 => bytes.clear(),
            1 => bytes.reverse(),
            _ => bytes.push(0),
        }
        bytes.truncate(out.len());
        out.iter_mut().zip(&bytes).for_each(|(out, byte)| *out = if digit.descending { !byte } else { *byte });
        bytes.len()
    }

    fn has_brief_hints(&self, _column: usize) -> bool {
        true
    }

    fn brief_hint(&self, column: usize, value: &[u8], skip: usize) -> u64 {
        let (mut hint, mut room) = ([0; 8], [0; 300]);
        let length = self.hint(column, value, &mut room);
        let behind = &room[skip.min(length)..length];
        hint.iter_mut().zip(behind).for_each(|(hint, byte)| *hint = *byte);
        u64::from_be_bytes(hint)
    }

    /// Where the value was found last, in whatever page, and as that was then; of some values it is some place.
    fn remembered(&self, value: &[u8], page: usize) -> Option<Position> {
        let number = digest(value) ^ (page / 64) as u32;
        match number % 4 {
            0 => Some(Position { node: (number / 4 % 8) as u8, slot: (number / 32 % 64) as u8 }),
            _ => PLACES.with_borrow(|places| places.get(value).copied()),
        }
    }

    fn note_place(&self, value: &[u8], _page: usize, place: Position) {
        PLACES.with_borrow_mut(|places| places.insert(value.to_vec(), place));
    }

    fn common(&self, column: usize, a: &[u8], b: &[u8]) -> usize {
        let (a, b) = (folded(self.0[column], a), folded(self.0[column], b));
        a.iter().zip(&b).take_while(|(a, b)| a == b).count()
    }
}

thread_local! {
    static PLACES: RefCell<HashMap<Vec<u8>, Position>> = RefCell::default();
}

/// A number made of bytes.
fn digest(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |sum: u32, &byte| sum.wrapping_mul(31).wrapping_add(byte.into()))
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

/// A row as it is stored. Rows are ordered by their places in the index.
#[derive(Clone, Debug)]
pub struct Row {
    pub values: Vec<Value>,
    /// The values' places among those of their columns.
    pub sorts: Vec<Sort>,
    pub digits: Vec<u8>,
    pub normal: usize,
    /// What is behind the normal part.
    pub payload: Vec<u8>,
    pub tid: Tid,
}

impl Ord for Row {
    fn cmp(&self, other: &Row) -> Ordering {
        self.sorts.cmp(&other.sorts).then_with(|| self.tid.position().cmp(&other.tid.position()))
    }
}

impl PartialOrd for Row {
    fn partial_cmp(&self, other: &Row) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Row {
    fn eq(&self, other: &Row) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Row {}

impl Row {
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
    pub geometry: Geometry,
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
        let geometry = for_keys(most, shape.has_payload());
        let (columns, flavours) = (Columns(columns), flavours.to_vec());
        Taste { columns, shape, geometry, most, carried, flavours, spread, few: Vec::new() }
    }

    /// Columns of these kinds, ascending, on the smallest pages that such keys fit.
    pub fn of_kinds(kinds: &[DigitKind], most: usize, flavour: u32, spread: u32) -> Taste {
        let column = |kind: &DigitKind| DigitShape { kind: *kind, descending: false, nulls_first: false };
        Taste::new(kinds.iter().map(column).collect(), 0, most, &[flavour], spread)
    }

    /// The same with so many bytes that go with a key.
    pub fn carrying(self, carried: usize) -> Taste {
        Taste::new(self.columns.0, carried, self.most, &self.flavours, self.spread)
    }

    /// The same on other pages.
    pub fn on(self, geometry: Geometry) -> Taste {
        Taste { geometry, ..self }
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
        let sorts = values.iter().zip(&self.columns.0).map(|(value, digit)| sort_of(*digit, value)).collect();
        Row { values, sorts, digits, normal, payload, tid }
    }

    /// The value of a column that goes with a number. Opaque ones of the same number are equal, and are not the same
    /// for each row.
    fn numbered_value(&self, column: usize, key: u64, number: u64) -> Value {
        let last = self.columns.0.len() - 1;
        // All columns before the last have the same values for a few keys.
        let key = if column < last { key / 8 } else { key };
        match self.columns.0[column].kind {
            DigitKind::Fixed(bytes) => Value::Number(u128::from(key) & u128::MAX >> (128 - 8 * u32::from(bytes))),
            DigitKind::Numeric => Value::Decimal((key as i64 - 300) * 2500),
            _ => Value::Bytes(self.numbered_bytes(key, number, self.columns.0[column].is_opaque())),
        }
    }

    fn numbered_bytes(&self, key: u64, number: u64, is_opaque: bool) -> Vec<u8> {
        let ending = format!("{key:04x}").into_bytes();
        let share = self.most / self.columns.0.len();
        let room = share.saturating_sub(self.carried + 24 + ending.len());
        let mut bytes = match self.flavours.first() {
            Some(1) => [&b"http://example.com/a-story/"[..room.min(27)], &ending].concat(),
            Some(2) => [&vec![b'x'; room.min(12)], &ending[..]].concat(),
            // Of the smallest bytes there can be everywhere, and the largest.
            Some(3) if room > 4 => {
                (0..8).rev().map(|pair| [1, 2, 0xFE, 0xFF][(key >> (2 * pair) & 3) as usize]).collect()
            }
            Some(4) => [&vec![b'm'; room / 2], &ending[..], &vec![b'm'; room / 2]].concat(),
            _ => ending,
        };
        if is_opaque && number.is_multiple_of(3) {
            bytes.make_ascii_uppercase();
        }
        bytes
    }

    /// A random selection of rows like these, as conditions on some columns.
    pub fn wishes(&self, random: &mut StdRng, rows: &[Row]) -> Vec<Option<Wish>> {
        (0..self.columns.0.len()).map(|c| Wish::random(random, self, c, rows)).collect()
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
}

impl KeyMaker for Taste {
    type Keys = Bytes;
    type Row = Row;
    type Image = (Vec<u8>, Vec<u8>, Tid);
    /// Of each column.
    type Wish = Vec<Option<Wish>>;

    fn meta(&self) -> Meta {
        Meta { shape: Shape::Bytes(self.shape), geometry: self.geometry, log: LogKind::Generic }
    }

    fn order(&self) -> Option<BytesOrder<'_>> {
        self.shape.is_opaque().then_some(BytesOrder { shape: &self.shape, columns: &self.columns })
    }

    fn ranks(&self) -> Option<bool> {
        None
    }

    fn numbered(&self, key: Option<u64>, number: u64) -> Row {
        let value = |column| match key {
            None if column == 0 => Value::Null,
            key => self.numbered_value(column, key.unwrap_or(0).min(KEYS - 1), number),
        };
        let row = self.row((0..self.columns.0.len()).map(value).collect(), number);
        assert!(row.digits.len() + self.carried <= self.most, "{row:?} is too long for {self:?}");
        row
    }

    fn random_row(&self, random: &mut StdRng, number: u64) -> Row {
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

    fn version(&self, row: &Row, number: u64) -> Row {
        self.row(row.values.clone(), number)
    }

    fn entry(row: &Row) -> Entry<'_, Bytes> {
        row.entry()
    }

    fn same_key(a: &Row, b: &Row) -> bool {
        a.sorts == b.sorts
    }

    fn around(&self, row: &Row) -> [OwnedKey; 2] {
        [false, true].map(|above| {
            let mut place = OwnedKey::new();
            place.set_to_place(&self.shape, &row.digits, above);
            place
        })
    }

    fn image(&self, entry: &Entry<'_, Bytes>) -> Self::Image {
        in_one_piece(&Entry { tid: entry.tid.alive(), ..*entry }, &self.shape)
    }

    fn matched(matches: &Matches<Bytes>, at: usize) -> Option<Entry<'_, Bytes>> {
        matches.entry(at)
    }

    fn random_wish(&self, random: &mut StdRng, rows: &[Row]) -> Self::Wish {
        let mut wishes = self.wishes(random, rows);
        if random.random_ratio(1, 2) {
            wishes.fill(None);
        }
        wishes
    }

    fn holds(&self, wishes: &Self::Wish, row: &Row) -> bool {
        let mut columns = wishes.iter().zip(&self.columns.0).zip(&row.values);
        columns.all(|((wish, digit), value)| wish.as_ref().is_none_or(|wish| wish.holds(*digit, value)))
    }

    fn wanting<R>(&self, wishes: &Self::Wish, then: impl FnOnce(AnyWanted<'_, Bytes>) -> R) -> R {
        self.with_selection(wishes, |selection| {
            let mut selection = selection.clone();
            selection.set_wants_keys(true);
            then(AnyWanted(&selection))
        })
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

/// An index of byte strings, and the rows it should hold.
pub type BytesBed = AnyBed<Taste>;

impl BytesBed {
    pub fn new(taste: Taste, geometry: Geometry, capacity: usize) -> Self {
        Self::with(taste, geometry, |pages| MemoryStore::new(pages, capacity))
    }

    pub fn with(taste: Taste, geometry: Geometry, store: impl FnOnce(&[PageBytes]) -> MemoryStore) -> Self {
        Self::empty(taste.on(geometry), store)
    }

    /// Of these rows, loaded in bulk.
    pub fn loaded(taste: Taste, geometry: Geometry, fill: usize, rows: Vec<Row>, room: usize) -> Self {
        let taste = taste.on(geometry);
        let model = BTreeSet::from_iter(rows);
        let pages = load_rows(&taste, fill, model.iter());
        assert_eq!(Meta::read(&pages[0]), Ok(taste.meta()));
        Self::of(taste, MemoryStore::new(&pages, pages.len() + room), model)
    }

    /// Inserts a row that is not there yet.
    pub fn insert(&mut self, row: Row) {
        assert!(self.add(row));
    }
}

/// What verification has to say.
pub fn problems<S: Store>(tree: Tree<'_, S, Bytes>) -> Vec<String> {
    flaws(tree, None)
}

/// All leaf entries, by the right links: digits, what goes with them, and TIDs.
pub fn rows<S: Store>(tree: Tree<'_, S, Bytes>, shape: &BytesShape) -> Vec<(Vec<u8>, Vec<u8>, Tid)> {
    let mut all = Vec::new();
    for_each_entry(tree, |entry| all.push(in_one_piece(entry, shape)));
    all
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
    while read_on(bed.tree(), &mut cursor, selection, false, &mut matches).expect("the page can be read").is_some() {
        assert!(!matches.is_empty());
        found.extend_from_slice(matches.tids());
    }
    found
}

/// What a scan finds with the keys, in its order.
pub fn scan_keys(bed: &BytesBed, selection: &BytesSelection<'_>, direction: Direction) -> Vec<(Vec<u8>, Vec<u8>, Tid)> {
    let (mut cursor, mut matches) = (Cursor::new(direction), Box::new(Matches::new()));
    let mut selection = selection.clone();
    selection.set_wants_keys(true);
    let mut found = Vec::new();
    while read_on(bed.tree(), &mut cursor, &selection, false, &mut matches).expect("the page can be read").is_some() {
        let first = found.len();
        for at in 0..matches.len() {
            let entry = matches.entry(at).expect("keys were wanted");
            found.push(in_one_piece(&entry, &bed.taste.shape));
        }
        expect_group_ends(bed, &matches, &found[first..], direction);
    }
    found
}

/// Fails if a page's matches, whose digits are given, are not told apart by their first columns as these are. Opaque values
/// of different bytes may be equal.
fn expect_group_ends(bed: &BytesBed, matches: &Matches<Bytes>, rows: &[(Vec<u8>, Vec<u8>, Tid)], direction: Direction) {
    let (shape, order) = (&bed.taste.shape, bed.taste.order());
    for at in (0..rows.len()).step_by(7) {
        for columns in 1..=shape.digits().len() {
            let front = |at: usize| &rows[at].0[..shape.front_length(&rows[at].0, columns).expect("whole digits")];
            let mut place = OwnedKey::new();
            place.set_to_place(shape, front(at), direction == Direction::Forward);
            let end = matches.end_before(at + 1, &place, order, direction);
            let same = (at..rows.len()).take_while(|&other| front(other) == front(at)).count();
            let is_exact = columns <= shape.opaque_from();
            assert!(end == at + same || !is_exact && end > at + same, "{columns} columns at {at}: {end}, {same} rows");
        }
    }
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
