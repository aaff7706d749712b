//! Keys of a sample, and how many rows they have in the table.
//!
//! A sample is of pages, all of whose rows are seen: a key's rows that are in one page say nothing about other pages. So what
//! is counted are places: a key in a page.

use fpbtree_engine::format::{Block, Tid};

use super::super::advise::scatter;
use crate::pg::memory::Zeroed;

/// A key with so many places in the sample is known well enough; the others are judged together.
const FREQUENT: u32 = 8;
/// Rows that are packed at most, of the frequent keys and of the rare ones; and of one key.
const MOST_ROWS: f64 = 500_000.0;
const MOST_ROWS_OF_KEY: f64 = 50_000.0;

/// A key of the sample.
pub(super) struct Key {
    rows: u32,
    places: u32,
    /// The page of its last row, and that of its first.
    block: Block,
    begin: Block,
}

// SAFETY: numbers.
unsafe impl Zeroed for Key {}

impl Key {
    /// Adds a row, behind the others.
    pub(super) fn add(&mut self, tid: Tid) {
        if self.places == 0 {
            self.begin = tid.block();
        }
        if self.places == 0 || self.block != tid.block() {
            self.places += 1;
            self.block = tid.block();
        }
        self.rows += 1;
    }

    fn is_frequent(&self) -> bool {
        self.places >= FREQUENT
    }

    fn rows_a_place(&self) -> f64 {
        f64::from(self.rows) / f64::from(self.places)
    }
}

/// Keys of a kind.
#[derive(Clone, Copy, Default)]
struct Kind {
    keys: f64,
    places: f64,
    rows: f64,
    /// Those with one place.
    single: f64,
}

impl Kind {
    fn of<'k>(keys: impl Iterator<Item = &'k Key>) -> Kind {
        keys.fold(Kind::default(), |kind, key| Kind {
            keys: kind.keys + 1.0,
            places: kind.places + f64::from(key.places),
            rows: kind.rows + f64::from(key.rows),
            single: kind.single + f64::from(u8::from(key.places == 1)),
        })
    }
}

/// The table's keys, as a sample of its pages tells them.
pub(super) struct Population {
    blocks: f64,
    /// Which share of the pages was seen.
    share: f64,
    rows_a_page: f64,
    frequent: Kind,
    rare: Kind,
    /// Whether the table is in the order of its rare keys, or nearly.
    in_order: bool,
    /// Places that a rare key has in the table.
    places_a_key: f64,
    /// Which shares of both kinds are packed.
    packed: [f64; 2],
}

impl Population {
    pub(super) fn of(keys: &[Key], share: f64, blocks: Block) -> Population {
        let frequent = Kind::of(keys.iter().filter(|key| key.is_frequent()));
        let rare = Kind::of(keys.iter().filter(|key| !key.is_frequent()));
        // Haas and Stokes' estimator, as ANALYZE has it: of places, whose number is known.
        let divisor = rare.places - rare.single + rare.single * share;
        let all = if divisor > 0.0 { (rare.places * rare.keys / divisor).max(rare.keys) } else { 1.0 };
        let places_a_key = (rare.places / share / all).max(1.0);
        let blocks = f64::from(blocks);
        let rows_a_page = ((frequent.rows + rare.rows) / share / blocks).max(1.0);
        let in_order = is_in_order(keys);
        // Then a key's rows are beside each other, if in two pages.
        let places_a_key = if in_order { 1.0 } else { places_a_key };
        let packed_rare = rare.keys * places_a_key * (rare.rows / rare.places.max(1.0));
        let known = keys.iter().filter(|key| key.is_frequent());
        let packed_frequent: f64 = known.map(|key| (f64::from(key.rows) / share).min(MOST_ROWS_OF_KEY)).sum();
        let packed = [packed_frequent, packed_rare].map(|rows| (MOST_ROWS / rows.max(1.0)).min(1.0));
        Population { blocks, share, rows_a_page, frequent, rare, in_order, places_a_key, packed }
    }

    /// Rows of the table's frequent keys, and of the rare ones.
    pub(super) fn rows(&self) -> [f64; 2] {
        [self.frequent, self.rare].map(|kind| kind.rows / self.share)
    }

    /// In how many parts of the rare keys a key is, which has this number; `None` if it is a frequent one.
    pub(super) fn parts_of(&self, key: &Key, number: u64, most: usize) -> Option<usize> {
        // Of a table in order it is pages that come closer.
        let chosen = if self.in_order { key.begin.into() } else { number };
        (!key.is_frequent()).then(|| 1 + (scatter(!chosen).trailing_zeros() as usize).min(most - 1))
    }

    /// Where a row is in a table that has only the pages that are packed, if these are that part of the sample. Where the
    /// table is in no order it is where it was: a leaf has rows of all pages anyway.
    pub(super) fn placed(&self, tid: Tid, part: usize) -> Tid {
        if !self.in_order {
            return tid;
        }
        let block = f64::from(tid.block()) * self.share / f64::from(1u32 << part);
        Tid::new(tid.rank(), block as Block, tid.offset(), tid.negative())
    }

    /// Places a key's rows all over the table, or where the sample has them if it is in one place; no row if too much is
    /// packed already.
    pub(super) fn rows_of(&self, key: &Key, number: u64, first: Tid, mut each: impl FnMut(Tid)) {
        let chance = Chance(number);
        let share = self.packed[usize::from(!key.is_frequent())];
        if chance.get(0) >= share {
            return;
        }
        let places = if key.is_frequent() { f64::from(key.places) / self.share } else { self.places_a_key };
        let places = (places + chance.get(1)).floor().max(1.0);
        let (in_order, most) = (places < 2.0, MOST_ROWS_OF_KEY / key.rows_a_place());
        let step = self.blocks / places;
        for place in 0..places.min(most) as u64 {
            let rows = (key.rows_a_place() + chance.get(2 + 2 * place)).floor().max(1.0);
            let jitter = if step < 2.0 { 0.0 } else { chance.get(3 + 2 * place) };
            let block = if in_order { first.block() } else { ((place as f64 + jitter) * step) as Block };
            let (begin, gap) = match in_order {
                true => (f64::from(first.offset()), 1.0),
                // All over the page.
                false => (1.0 + chance.get(3 + 2 * place + 1) * (self.rows_a_page / rows), self.rows_a_page / rows),
            };
            for row in 0..rows as u64 {
                let offset = (begin + row as f64 * gap.max(1.0)) as u16;
                each(Tid::new(first.rank(), block, offset.clamp(1, Tid::MAX_OFFSET), first.negative()));
            }
        }
    }
}

/// Whether keys that are neighbours are so in the table, too, mostly: half of them are in any.
fn is_in_order(keys: &[Key]) -> bool {
    let neighbours = || keys.windows(2).filter(|pair| pair.iter().all(|key| !key.is_frequent()));
    let ascending = neighbours().filter(|pair| pair[0].begin <= pair[1].begin).count();
    4 * ascending > 3 * neighbours().count()
}

/// Numbers from 0 to 1 that look like chance, the same each time.
struct Chance(u64);

impl Chance {
    fn get(&self, number: u64) -> f64 {
        (scatter(scatter(self.0) ^ number) >> 11) as f64 / (1u64 << 53) as f64
    }
}
