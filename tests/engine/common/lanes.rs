//! Keys that are exact lanes.

use super::*;
use fpbtree_engine::format::{Geometry, Key, Lane, LaneKind, MAX_PAGE_NODES};
use fpbtree_engine::keys::{Column, ColumnType, KeyShape};
use fpbtree_engine::page::{LogKind, Shape};
use fpbtree_engine::scan::Selection;
use rand::Rng;
use rand::seq::IndexedRandom;
use std::marker::PhantomData;

/// Lanes of which there are so many, in an index on one column.
#[derive(Clone, Copy, Debug)]
pub struct Lanes<L> {
    pub meta: Meta,
    spread: u128,
    lane: PhantomData<L>,
}

impl<L: Lane> Lanes<L> {
    pub fn new(meta: Meta, spread: u128) -> Self {
        Lanes { meta, spread, lane: PhantomData }
    }

    pub fn of(meta: Meta) -> Self {
        Lanes::new(meta, 1 << 30)
    }

    /// On small pages.
    pub fn small(spread: u128) -> Self {
        Lanes::new(exact(one_column::<L>(), small::<L>()), spread)
    }

    fn null_rank(&self) -> bool {
        shape_of(&self.meta).null_rank()
    }

    fn is_null(&self, row: &Key<L>) -> bool {
        self.ranks() == Some(row.tid.rank())
    }

    fn lane(&self, key: u128) -> L {
        let all = L::MAX.to_u128();
        L::from_u128(key.checked_mul(all / self.spread).map_or(all, |lane| lane.min(all)))
    }
}

/// What is asked of an only column.
#[derive(Debug)]
pub enum LaneWish {
    All,
    Between(u128, u128),
    AnyOf(Vec<u128>),
    Null,
    NotNull,
}

impl<L: Lane> KeyMaker for Lanes<L> {
    type Keys = L;
    type Row = Key<L>;
    type Image = Key<L>;
    type Wish = LaneWish;

    fn meta(&self) -> Meta {
        self.meta
    }

    fn order(&self) {}

    fn ranks(&self) -> Option<bool> {
        ranks(&shape_of(&self.meta))
    }

    /// Numbers that are too large are those of the largest lane.
    fn numbered(&self, key: Option<u64>, number: u64) -> Key<L> {
        let null_rank = self.null_rank();
        let lane = match key {
            Some(key) => self.lane(key.into()),
            None if null_rank => L::MAX,
            None => L::MIN,
        };
        Key { lane, tid: tid(key.is_none() == null_rank, number) }
    }

    fn random_row(&self, random: &mut StdRng, number: u64) -> Key<L> {
        self.numbered(Some(random.random_range(0..self.spread as u64)), number)
    }

    fn version(&self, row: &Key<L>, number: u64) -> Key<L> {
        Key { lane: row.lane, tid: tid(row.tid.rank(), number) }
    }

    fn entry(row: &Key<L>) -> Entry<'_, L> {
        Entry { key: row.lane, tid: row.tid, child: NO_BLOCK }
    }

    fn same_key(a: &Key<L>, b: &Key<L>) -> bool {
        (a.lane, a.tid.rank()) == (b.lane, b.tid.rank())
    }

    fn around(&self, row: &Key<L>) -> [Key<L>; 2] {
        let rank = row.tid.rank();
        [Tid::first(rank), Tid::last(rank)].map(|tid| Key { tid, ..*row })
    }

    fn image(&self, entry: &Entry<'_, L>) -> Key<L> {
        entry.key()
    }

    fn matched(matches: &Matches<L>, at: usize) -> Option<Entry<'_, L>> {
        Some(matches.entry(at))
    }

    fn random_wish(&self, random: &mut StdRng, rows: &[Key<L>]) -> LaneWish {
        let lanes: Vec<u128> = rows.choose_multiple(random, 4).map(|row| row.lane.to_u128()).collect();
        match random.random_range(0..8) {
            0 => LaneWish::Null,
            1 => LaneWish::NotNull,
            2 => LaneWish::AnyOf(lanes),
            3..6 if lanes.len() > 1 => LaneWish::Between(lanes[0].min(lanes[1]), lanes[0].max(lanes[1])),
            _ => LaneWish::All,
        }
    }

    fn holds(&self, wish: &LaneWish, row: &Key<L>) -> bool {
        let lane = (!self.is_null(row)).then(|| row.lane.to_u128());
        match wish {
            LaneWish::All => true,
            LaneWish::Between(low, high) => lane.is_some_and(|lane| (*low..=*high).contains(&lane)),
            LaneWish::AnyOf(lanes) => lane.is_some_and(|lane| lanes.contains(&lane)),
            LaneWish::Null => lane.is_none(),
            LaneWish::NotNull => lane.is_some(),
        }
    }

    fn wanting<R>(&self, wish: &LaneWish, then: impl FnOnce(AnyWanted<'_, L>) -> R) -> R {
        let shape = shape_of(&self.meta);
        let field = |lane: &u128| if shape.columns()[0].descending { L::MAX.to_u128() - lane } else { *lane };
        let mut fields: Vec<u128> = match wish {
            LaneWish::AnyOf(lanes) => lanes.iter().map(field).collect(),
            LaneWish::Between(a, b) => vec![field(a).min(field(b)), field(a).max(field(b))],
            _ => Vec::new(),
        };
        let mut selection = Selection::new(&shape);
        match wish {
            LaneWish::All => {}
            LaneWish::Between(..) => selection.between(0, fields[0], fields[1]),
            LaneWish::AnyOf(_) => selection.any_of(0, &mut fields),
            LaneWish::Null => selection.null(0),
            LaneWish::NotNull => selection.not_null(0),
        }
        then(AnyWanted(&selection))
    }
}

fn tid(rank: bool, number: u64) -> Tid {
    Tid::new(rank, (number / 100) as u32, (number % 100) as u16 + 1, false)
}

/// Widths that make pages hold about a dozen entries, so that trees get many levels: the in-page root takes most of it.
pub fn small<L: Lane>() -> Geometry {
    let all = MAX_PAGE_NODES as u8;
    let widths = match L::KIND {
        LaneKind::U32 => [all - 2, 1, all - 3, 1],
        LaneKind::U64 => [all - 3, 1, all - 4, 2],
        LaneKind::U128 => [all - 4, 2, all - 4, 2],
        LaneKind::Prefix | LaneKind::PrefixPayload => unreachable!("exact lanes only"),
    };
    Geometry::with_widths(L::KIND, BUILD_ID, widths).expect("these widths fit")
}

/// The widths an index gets.
pub fn normal<L: Lane>() -> Geometry {
    Geometry::choose(L::KIND, BUILD_ID)
}

/// An ascending column, NULLs last, whose lane is `L`.
pub fn one_column<L: Lane>() -> KeyShape {
    let ty = match L::KIND {
        LaneKind::U32 => ColumnType::Oid,
        LaneKind::U64 => ColumnType::Xid8,
        LaneKind::U128 => ColumnType::Uuid,
        LaneKind::Prefix | LaneKind::PrefixPayload => unreachable!("exact lanes only"),
    };
    KeyShape::new(&[Column { ty, descending: false, nulls_first: false }]).expect("one column fits")
}

/// What an index on exact lanes is.
pub fn exact(shape: KeyShape, geometry: Geometry) -> Meta {
    Meta { shape: Shape::Exact(shape), geometry, log: LogKind::Generic }
}

/// How the columns of an index on exact lanes make keys.
pub fn shape_of(meta: &Meta) -> KeyShape {
    match meta.shape {
        Shape::Exact(shape) => shape,
        Shape::Bytes(_) => panic!("an index on exact lanes"),
    }
}

/// The rank of NULLs, where entries have ranks.
pub fn ranks(shape: &KeyShape) -> Option<bool> {
    (shape.columns().len() == 1).then(|| shape.null_rank())
}

/// A value's key.
pub fn key<L: Lane>(lane: u128, row: u64) -> (L, Tid) {
    (L::from_u128(lane), tid(false, row))
}

/// A row's key that has as little as can be in common with those of the others, of which there are so many: entries are
/// large, and a dozen fill a [`small`] page.
pub fn far_key<L: Lane>(row: u64, rows: u64) -> (L, Tid) {
    let lane = L::MAX.to_u128() / u128::from(rows) * u128::from(row);
    // Of heap offsets that are as large, TIDs are stored whole.
    let tid = Tid::new(false, (row / 100) as u32, (row % 100) as u16 + 1 + FAR_OFFSET, false);
    (L::from_u128(lane), tid)
}

/// Where the offsets of [`far_key`]s begin.
const FAR_OFFSET: u16 = 1000;

/// The number of the row that [`key`] and [`far_key`] give this TID.
pub fn row_of(tid: Tid) -> u64 {
    u64::from(tid.block()) * 100 + u64::from((tid.offset() - 1) % FAR_OFFSET)
}

/// A NULL's key, where NULLs come last.
pub fn null_key<L: Lane>(row: u64) -> (L, Tid) {
    (L::MAX, tid(true, row))
}

/// The pages of a tree of these entries, loaded in bulk.
pub fn load<L: Lane>(meta: &Meta, fill: usize, entries: impl Iterator<Item = (L, Tid)>) -> Vec<PageBytes> {
    let rows: Vec<Key<L>> = entries.map(|(lane, tid)| Key { lane, tid }).collect();
    load_rows(&Lanes::of(*meta), fill, rows.iter())
}

/// An index on exact lanes, and the keys it should hold.
pub type Bed<L> = AnyBed<Lanes<L>>;

impl<L: Lane> Bed<L> {
    pub fn new(geometry: Geometry, capacity: usize) -> Self {
        let meta = exact(one_column::<L>(), geometry);
        Self::with(meta, |pages| MemoryStore::new(pages, capacity))
    }

    pub fn with(meta: Meta, store: impl FnOnce(&[PageBytes]) -> MemoryStore) -> Self {
        Self::empty(Lanes::of(meta), store)
    }

    /// Of pages that are there.
    pub fn on(meta: Meta, store: MemoryStore, model: BTreeSet<Key<L>>) -> Self {
        Self::of(Lanes::of(meta), store, model)
    }

    /// Inserts a key, unless it is there.
    pub fn insert(&mut self, (lane, tid): (L, Tid)) {
        self.add(Key { lane, tid });
    }
}

/// What verification has to say.
pub fn problems<S: Store, L: Lane>(tree: Tree<'_, S, L>, shape: &KeyShape) -> Vec<String> {
    flaws(tree, ranks(shape))
}

/// All leaf entries, by the right links.
pub fn entries<S: Store, L: Lane>(tree: Tree<'_, S, L>) -> Vec<Entry<'static, L>> {
    let mut all = Vec::new();
    for_each_entry(tree, |entry| all.push(Entry { key: entry.key, tid: entry.tid, child: entry.child }));
    all
}

/// What a scan finds, in its order.
pub fn scan<S: Store, L: Lane>(
    tree: Tree<'_, S, L>,
    selection: &Selection<'_>,
    direction: Direction,
    skip_dead: bool,
) -> Vec<Key<L>> {
    let mut cursor = Cursor::new(direction);
    let mut matches = Box::new(Matches::new());
    let mut found = Vec::new();
    while read_on(tree, &mut cursor, selection, skip_dead, &mut matches).expect("the page can be read").is_some() {
        assert!(!matches.is_empty());
        found.extend(keys(&matches));
    }
    found
}

/// The keys of a page of matches.
pub fn keys<L: Lane>(matches: &Matches<L>) -> impl Iterator<Item = Key<L>> {
    (0..matches.len()).map(|at| Key::new(matches.lane(at), matches.tid(at)))
}

/// One of the keys a test plays with: `spread` lanes, the extreme ones among them, and some NULLs.
pub fn some_key<L: Lane>(random: &mut StdRng, spread: u128) -> (L, Tid) {
    let row = random.random_range(0..1 << 20);
    match random.random_range(0..40) {
        0 => null_key(row),
        1 => key(L::MAX.to_u128(), row),
        _ => key(random.random_range(0..spread) * (L::MAX.to_u128() / spread), row),
    }
}
