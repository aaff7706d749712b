//! Rows of a table, packed as the entries of an index that is not there.
//!
//! A sample's keys are further apart than the table's, and fewer of them have several rows. So each key of the sample is
//! packed with as many rows as it is thought to have in the table; that is the index of some of the keys. From parts of
//! them it is told what becomes of an entry when the keys come closer.

use core::ffi::c_void;
use core::mem::MaybeUninit;

use fpbtree_engine::format::{Block, Geometry, Tid};
use fpbtree_engine::keys::bytes::MOST_KEY;
use fpbtree_engine::page::Entry;
use fpbtree_engine::sort::Sorter;
use fpbtree_engine::tree::sizing::Sizing;
use pgrx::pg_guard;
use pgrx::pg_sys::{self, Datum, ForkNumber::MAIN_FORKNUM, Relation};

use super::super::advise::scatter;
use super::keys::{Key, Population};
use super::sketch::Sketch;
use crate::am::build::of_columns;
use crate::am::sort::{Files, SortMemory, Sortable};
use crate::pg::memory::{allocate, free, free_array, zeroed_values};
use crate::pg::{errors, ffi, options, relation};
use crate::storage::index::Index;
use crate::values::keys::with_keys;

/// Parts of the rare keys that are packed: all, a half, a quarter, and so on.
const PARTS: usize = 4;

/// What the index would be.
#[derive(Clone, Copy)]
pub(super) struct Expected {
    pub pages: u64,
    pub leaves: u64,
    pub levels: u32,
    /// Rows that it would have.
    pub rows: f64,
    /// Rows that were looked at, and whether these are all.
    pub sampled: u64,
    pub is_whole: bool,
    /// Rows among them whose keys are too long, and the bytes of the longest key.
    pub too_long: u64,
    pub longest: usize,
}

/// What so many pages of the table say of the index.
///
/// # Safety
/// May raise, and runs user code.
pub(super) unsafe fn expect(sketch: &Sketch, pages: Block) -> Expected {
    // SAFETY: the table is open.
    unsafe {
        let index = of_columns(sketch.rel);
        with_keys!(index.kind, K => Sample::<K>::new(sketch).expect(sketch, &index, pages))
    }
}

/// The entries of a sample's rows.
struct Sample<K: Sortable> {
    columns: K::Columns,
    /// Two of them, because entries come in order once.
    counted: K::Sorter,
    packed: K::Sorter,
    too_long: u64,
    longest: usize,
}

/// Entries, and the leaves they take.
#[derive(Clone, Copy, Default)]
struct Packed {
    entries: f64,
    leaves: f64,
}

impl<K: Sortable> Sample<K> {
    unsafe fn new(sketch: &Sketch) -> Self {
        // SAFETY: the index has all that is asked of one; the current context outlives the sample.
        unsafe {
            let room = pg_sys::maintenance_work_mem as usize * 1024 / 2;
            let sorter = || K::Sorter::new(SortMemory::current(), Files::OWN, room);
            let columns = K::new_columns(sketch.rel);
            Sample { columns, counted: sorter(), packed: sorter(), too_long: 0, longest: 0 }
        }
    }

    unsafe fn expect(mut self, sketch: &Sketch, index: &Index, most: Block) -> Expected {
        // SAFETY: the table is open. What is allocated is given back here, or with its context after an error.
        unsafe {
            let (blocks, share) = self.collect(sketch, most);
            let fill = options::fillfactor(sketch.rel) as usize;
            let sizings: *mut Sizing<K> = allocate(pg_sys::CurrentMemoryContext, PARTS + 1, false);
            for s in 0..=PARTS {
                Sizing::init(&mut *sizings.add(s).cast::<MaybeUninit<Sizing<K>>>(), fill);
                (*sizings.add(s)).begin(share >= 1.0);
            }
            let sampled = self.packed.total();
            let all = core::slice::from_raw_parts_mut(sizings, PARTS + 1);
            let leaves = if share >= 1.0 {
                self.counted.close();
                self.pack_all(&index.geometry, &mut all[0])
            } else {
                self.pack_keys(&index.geometry, all, blocks, share)
            };
            let leaves = leaves.ceil().max(1.0) as u64;
            let (pages, levels) = (*sizings).tree(&index.geometry, leaves);
            free(sizings);
            let Sample { too_long, longest, .. } = self;
            let (rows, is_whole) = (sampled as f64 / share, share >= 1.0);
            Expected { pages, leaves, levels, rows, sampled: sampled + too_long, is_whole, too_long, longest }
        }
    }

    /// Collects the rows of so many pages, all over the table. Returns how many it has, and which share of them they are.
    unsafe fn collect(&mut self, sketch: &Sketch, most: Block) -> (Block, f64) {
        // SAFETY: the table is open; the callback is given the sample it expects.
        unsafe {
            let blocks = ffi::RelationGetNumberOfBlocksInFork(sketch.heap, MAIN_FORKNUM);
            let (info, state) = (sketch.info(), (&raw mut *self).cast());
            let look = |pages| {
                let (heap, rel) = (sketch.heap, sketch.rel);
                relation::table_index_sample_scan(heap, rel, info, pages, Some(collect::<K>), state);
            };
            if blocks <= most {
                look((0, blocks));
                return (blocks, 1.0);
            }
            for at in 0..u64::from(most) {
                errors::check_for_interrupts();
                // Somewhere in its share of the table: the same each time.
                let [from, to] = [at, at + 1].map(|at| u64::from(blocks) * at / u64::from(most));
                look(((from + scatter(u64::from(blocks) << 32 | at) % (to - from)) as Block, 1));
            }
            (blocks, f64::from(most) / f64::from(blocks))
        }
    }

    /// The leaves of all rows, which were collected.
    fn pack_all(&mut self, geometry: &Geometry, sizing: &mut Sizing<K>) -> f64 {
        let order = K::order(&self.columns);
        self.packed.drain(order, |entry| sizing.add(geometry, order, entry));
        sizing.end(geometry, order, true);
        sizing.leaf_pages()
    }

    /// The leaves of all rows of the table, by the keys of the sample.
    unsafe fn pack_keys(&mut self, geometry: &Geometry, sizings: &mut [Sizing<K>], blocks: Block, share: f64) -> f64 {
        let order = K::order(&self.columns);
        // SAFETY: the current context outlives the keys, which are given back here.
        let keys: &'static mut [Key] =
            unsafe { zeroed_values(pg_sys::CurrentMemoryContext, self.counted.total() as usize) };
        let mut seen = Seen::<K>::new();
        let mut count = 0;
        self.counted.drain(order, |entry| {
            count += usize::from(seen.is_new(entry, order));
            keys[count - 1].add(entry.tid);
        });
        let population = Population::of(&keys[..count], share, blocks);
        let (mut packed, mut number) = ([Packed::default(); PARTS + 1], 0);
        let mut seen = Seen::<K>::new();
        self.packed.drain(order, |entry| {
            if !seen.is_new(entry, order) {
                return;
            }
            let (key, id) = (&keys[number], number as u64);
            number += 1;
            let (first, parts) = match population.parts_of(key, id, PARTS) {
                None => (0, 1),
                Some(parts) => (1, parts),
            };
            population.rows_of(key, id, entry.tid, |tid| {
                for (part, (sizing, packed)) in sizings.iter_mut().zip(&mut packed).skip(first).take(parts).enumerate()
                {
                    let tid = if first == 0 { tid } else { population.placed(tid, part) };
                    sizing.add(geometry, order, &Entry { tid, ..*entry });
                    packed.entries += 1.0;
                }
            });
        });
        for (packed, sizing) in packed.iter_mut().zip(sizings) {
            sizing.end(geometry, order, false);
            packed.leaves = sizing.leaf_pages();
        }
        let [frequent, rare] = population.rows();
        // SAFETY: nothing uses them any more.
        unsafe { free_array(keys) };
        let of_frequent = if packed[0].entries > 0.0 { packed[0].leaves * frequent / packed[0].entries } else { 0.0 };
        of_frequent + leaves_of(&packed[1..], rare)
    }
}

/// The key seen last.
struct Seen<K: Sortable> {
    key: MaybeUninit<K::OwnedKey>,
    tid: Option<Tid>,
}

impl<K: Sortable> Seen<K> {
    fn new() -> Self {
        Seen { key: MaybeUninit::zeroed(), tid: None }
    }

    /// Whether an entry's key is another one, which is seen now.
    fn is_new(&mut self, entry: &Entry<'_, K>, order: K::Order<'_>) -> bool {
        if let Some(tid) = self.tid {
            // SAFETY: it was set, with that TID.
            let key = unsafe { self.key.assume_init_ref() };
            if K::compare_entry(K::borrow(key, order), &Entry { tid, ..*entry }).is_eq() {
                return false;
            }
        } else {
            // SAFETY: what a key is made of is plain memory, which this makes one of.
            unsafe { K::init(self.key.as_mut_ptr()) };
        }
        // SAFETY: it was made a key above, or before.
        let is_set = K::set_to_key(unsafe { self.key.assume_init_mut() }, entry, order).is_some();
        self.tid = is_set.then_some(entry.tid).or(self.tid);
        true
    }
}

/// The leaves of so many rows, of whose keys parts were packed. Keys of a part are further apart than all, by one bit each
/// time there are half as many of them in as many leaves; so what a row takes is a line over the logarithm of the leaves.
fn leaves_of(packed: &[Packed], rows: f64) -> f64 {
    let all = packed[0];
    if all.entries == 0.0 || rows == 0.0 {
        return 0.0;
    }
    let points = || {
        let some = packed.iter().filter(|packed| packed.leaves > 0.0);
        some.map(|packed| (packed.leaves.log2(), packed.leaves / packed.entries))
    };
    let count = points().count() as f64;
    let mean = |of: fn((f64, f64)) -> f64| points().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let (mut rise, mut run) = (0.0, 0.0);
    for point in points() {
        rise += (point.0 - x) * (point.1 - y);
        run += (point.0 - x) * (point.0 - x);
    }
    let slope = if run > 0.0 { (rise / run).min(0.0) } else { 0.0 };
    let a_row = all.leaves / all.entries;
    let mut expected = a_row;
    // Fewer leaves are further apart, and each holds more: that settles at once.
    for _ in 0..STEPS {
        let line = a_row + slope * ((rows * expected).log2() - all.leaves.log2());
        expected = line.clamp(a_row / 8.0, a_row);
    }
    rows * expected
}

/// Steps towards how many leaves there are.
const STEPS: usize = 20;

/// Adds the entry of one of the table's rows.
#[pg_guard]
unsafe extern "C-unwind" fn collect<K: Sortable>(
    rel: Relation,
    tid: pg_sys::ItemPointer,
    values: *mut Datum,
    nulls: *mut bool,
    _alive: bool,
    state: *mut c_void,
) {
    // SAFETY: called by the table's scan, with what `Sample::collect` gave it.
    unsafe {
        let sample = &mut *state.cast::<Sample<K>>();
        let mut row = K::new_row();
        let size = K::measure_row(&sample.columns, rel, values, nulls, tid, &mut row);
        sample.longest = sample.longest.max(size);
        if size > MOST_KEY {
            sample.too_long += 1;
            return;
        }
        let (entry, order) = (K::entry(&row), K::order(&sample.columns));
        sample.counted.add(&entry, order);
        sample.packed.add(&entry, order);
    }
}
