//! What an index of btree's would be as one of ours: `fpbtree_advise_sample`, which `fpbtree_advise` asks of each.

use core::mem::MaybeUninit;

use fpbtree_engine::format::{Block, Tid};
use fpbtree_engine::keys::KeyShape;
use fpbtree_engine::keys::bytes::MOST_KEY;
use fpbtree_engine::tree::sizing::Sizing;
use pgrx::PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE;
use pgrx::pg_guard;
use pgrx::pg_sys::{self, Datum, FunctionCallInfo, MemoryContext, Oid, Relation};

use super::btree::{BtreeTuple, Kind, Reader, fillfactor};
use super::opened::{OpenedIndex, Privilege};
use super::result::{ResultRows, argument, version_1};
use crate::am::build::new_index;
use crate::pg::memory::{allocate, child_context, free};
use crate::pg::{errors, ffi};
use crate::storage::index::Index;
use crate::values::keys::{Keyed, with_keys};

/// Pages that may be asked for.
pub(super) const LEAST_PAGES: i32 = 10;
pub(super) const MOST_PAGES: i32 = 1_000_000;

/// Of the pages of a sample, one in so many is looked at wherever it is, to learn how many of the file's pages are leaves;
/// and one in so many of those begins a run, if it is one.
const PAGES_A_PROBE: Block = 5;
const PROBES_A_RUN: u64 = 4;

version_1!(pg_finfo_fpbtree_advise_sample_wrapper);

/// `fpbtree_advise_sample(index, pages)`: one row on what an index of btree's would be as one of ours, by a sample of so
/// many of its pages; no row if the index is not there any more.
///
/// # Safety
/// Called by the server.
#[unsafe(no_mangle)]
#[pg_guard]
pub unsafe extern "C-unwind" fn fpbtree_advise_sample_wrapper(call: FunctionCallInfo) -> Datum {
    // SAFETY: called by the server, as the install script declares.
    unsafe {
        let (index, pages) = (Oid::from(argument(call, 0).value() as u32), argument(call, 1).value() as i32);
        if !(LEAST_PAGES..=MOST_PAGES).contains(&pages) {
            errors::raise(
                ERRCODE_INVALID_PARAMETER_VALUE,
                format_args!("cannot judge an index by a sample of {pages} pages"),
                None,
                Some(format_args!("From {LEAST_PAGES} to {MOST_PAGES} can be read.")),
            );
        }
        let rows = ResultRows::new(call);
        if let Some(opened) = OpenedIndex::of_btree(index, Privilege::Own) {
            rows.add(judge(&opened, pages as Block).row());
            opened.close();
        }
        Datum::from(0)
    }
}

/// Judges an index of btree's by so many pages.
///
/// # Safety
/// May raise, and calls comparison functions.
pub(super) unsafe fn judge(opened: &OpenedIndex, pages: Block) -> Judgement {
    // SAFETY: the index is open.
    unsafe {
        let index = new_index(opened.index);
        with_keys!(index.kind, K => Sampler::<K>::judge(opened, index, pages))
    }
}

/// What a sample says.
pub(super) struct Judgement {
    /// Pages now, and as expected.
    pages: Block,
    pub expected: u64,
    /// Leaves among those that are expected, and levels.
    pub leaves: u64,
    pub levels: u32,
    /// Entries of the whole index.
    pub rows: f64,
    pub is_whole: bool,
    pub found: Found,
    /// Whether keys are exact lanes.
    is_exact: bool,
}

impl Judgement {
    fn row(&self) -> [Datum; 11] {
        let bytes = |pages: u64| Datum::from((pages * u64::from(pg_sys::BLCKSZ)) as i64);
        let Found { leaves, entries, keys, neighbours, ascending, longest, too_long } = self.found;
        [
            bytes(self.pages.into()),
            bytes(self.expected),
            Datum::from(leaves as i64),
            Datum::from(self.is_whole),
            Datum::from(entries as i64),
            Datum::from(keys as i64),
            Datum::from(neighbours as i64),
            Datum::from(ascending as i64),
            Datum::from(longest as i32),
            Datum::from(too_long as i64),
            Datum::from(self.is_exact),
        ]
    }
}

/// What was found in leaves.
#[derive(Default)]
pub(super) struct Found {
    leaves: u64,
    pub entries: u64,
    /// Keys, those of each leaf counted by themselves.
    keys: u64,
    /// Keys that are neighbours in a leaf, and of these the ones whose first rows are so in the table.
    neighbours: u64,
    ascending: u64,
    /// Bytes of the longest key, and rows whose keys are too long.
    pub longest: usize,
    pub too_long: u64,
}

/// Takes a sample of an index of btree's.
struct Sampler<'s, K: Keyed> {
    rel: Relation,
    index: Index,
    columns: K::Columns,
    reader: Reader,
    sizing: &'s mut Sizing<K>,
    found: Found,
    /// What decoding a leaf's values takes, to be forgotten with the leaf.
    context: MemoryContext,
}

impl<K: Keyed> Sampler<'_, K> {
    /// Judges an index by so many pages.
    unsafe fn judge(opened: &OpenedIndex, index: Index, most: Block) -> Judgement {
        let rel = opened.index;
        // SAFETY: the index is open; what is allocated is given back here, or with its context after an error.
        unsafe {
            let memory = &mut *allocate::<MaybeUninit<Sizing<K>>>(pg_sys::CurrentMemoryContext, 1, false);
            Sizing::init(memory, fillfactor(rel));
            let mut sampler = Sampler {
                rel,
                index,
                columns: K::new_columns(rel),
                reader: Reader::new(opened.heap, rel),
                sizing: memory.assume_init_mut(),
                found: Found::default(),
                context: child_context(pg_sys::CurrentMemoryContext, c"fpbtree sample"),
            };
            let pages = sampler.reader.blocks();
            let is_whole = pages.saturating_sub(1) <= most;
            let leaves_a_leaf = if is_whole {
                sampler.look_at_all();
                1.0
            } else {
                sampler.look_here_and_there(most)
            };
            let rows = sampler.found.entries as f64 * leaves_a_leaf;
            let (expected, leaves, levels, found) = sampler.conclude(leaves_a_leaf);
            Judgement { pages, expected, leaves, levels, rows, is_whole, found, is_exact: !index.kind.is_prefix() }
        }
    }

    /// How many pages, leaves and levels the index would have, which has so many leaves for each that was looked at.
    unsafe fn conclude(self, leaves_a_leaf: f64) -> (u64, u64, u32, Found) {
        let leaves = (self.sizing.leaf_pages() * leaves_a_leaf).ceil().max(1.0) as u64;
        let (expected, levels) = self.sizing.tree(&self.index.geometry, leaves);
        // SAFETY: allocated by `judge`, and not used any more.
        unsafe {
            self.reader.end();
            ffi::MemoryContextDelete(self.context);
            free(&raw mut *self.sizing);
        }
        (expected, leaves, levels, self.found)
    }

    /// Looks at all leaves, of which there are few.
    unsafe fn look_at_all(&mut self) {
        // SAFETY: the index is open.
        unsafe {
            let is_first = |reader: &mut Reader, block: Block| {
                let kind = reader.read(block, false);
                kind != Kind::Other && reader.left() == 0 && (kind == Kind::Leaf || reader.right() != 0)
            };
            // In a btree that was built it is the first page of all; a deleted one may look like it, too.
            if let Some(first) = (1..self.reader.blocks()).find(|&block| is_first(&mut self.reader, block)) {
                self.look_at_run(first, Block::MAX, true);
            }
        }
    }

    /// Looks at runs of leaves all over the index. Returns how many leaves there are for each that was looked at.
    unsafe fn look_here_and_there(&mut self, most: Block) -> f64 {
        let probes = u64::from(most / PAGES_A_PROBE);
        let runs = (probes / PROBES_A_RUN).max(1);
        let length = 1 + (u64::from(most) - probes) / runs;
        let blocks = u64::from(self.reader.blocks() - 1);
        let (mut leaves, mut begun) = (0u64, 0);
        for probe in 0..probes {
            // Somewhere in its share of the file: a step that is always the same could meet inner pages alone.
            let [from, to] = [probe, probe + 1].map(|at| blocks * at / probes);
            let block = 1 + from + scatter(blocks << 32 | probe) % (to - from).max(1);
            // SAFETY: the index is open.
            unsafe {
                if self.reader.read(block as Block, false) != Kind::Leaf {
                    continue;
                }
                leaves += 1;
                if begun * probes <= probe * runs {
                    begun += 1;
                    self.look_at_run(block as Block, length as Block, false);
                }
            }
        }
        blocks as f64 * leaves as f64 / probes as f64 / (self.found.leaves as f64).max(1.0)
    }

    /// Looks at a leaf and those behind it, so many of them or all.
    unsafe fn look_at_run(&mut self, first: Block, most: Block, is_first: bool) {
        self.sizing.begin(is_first);
        let (mut block, mut read) = (first, 0);
        let mut is_last = false;
        while read < most && !is_last {
            // SAFETY: the index is open.
            unsafe {
                match self.reader.read(block, true) {
                    Kind::Leaf => self.look_at_leaf(),
                    Kind::GoneLeaf => {}
                    // A page that was deleted, and used again since.
                    Kind::Other => break,
                }
            }
            read += 1;
            self.reader.expect((read <= self.reader.blocks()).then_some(()), "is linked to in a circle");
            block = self.reader.right();
            is_last = block == 0;
        }
        let order = K::order(&self.columns);
        self.sizing.end(&self.index.geometry, order, is_last);
    }

    /// Looks at the leaf that was read last.
    unsafe fn look_at_leaf(&mut self) {
        // SAFETY: what is made of the leaf's values is in the context, and nothing of it is used any more when that is
        // reset.
        unsafe {
            let context = pg_sys::CurrentMemoryContext;
            pg_sys::CurrentMemoryContext = self.context;
            let Sampler { rel, index, columns, reader, sizing, found, .. } = self;
            let order = K::order(columns);
            let mut row = K::new_row();
            let (mut image, mut first): (&[u8], _) = (&[], Tid::MIN);
            let mut is_new = true;
            found.leaves += 1;
            for tuple in reader.tuples() {
                let mut values = Values::new();
                reader.expect(values.take(*rel, &tuple), "has an entry with values that are none");
                for (at, tid) in tuple.tids().enumerate() {
                    found.entries += 1;
                    let size = K::measure_row(columns, *rel, values.datums(), values.nulls(), &tid, &mut row);
                    found.longest = found.longest.max(size);
                    if size > MOST_KEY {
                        found.too_long += 1;
                        continue;
                    }
                    let entry = K::entry(&row);
                    if at == 0 && (is_new || image != tuple.image()) {
                        let place = entry.tid.position();
                        found.note_key(!is_new, place > first);
                        (image, first, is_new) = (tuple.image(), place, false);
                    }
                    sizing.add(&index.geometry, order, &entry);
                }
            }
            pg_sys::CurrentMemoryContext = context;
            ffi::MemoryContextReset(self.context);
        }
    }
}

impl Found {
    /// Notes a key of a leaf.
    fn note_key(&mut self, has_neighbour: bool, ascends: bool) {
        self.keys += 1;
        self.neighbours += u64::from(has_neighbour);
        self.ascending += u64::from(has_neighbour && ascends);
    }
}

/// The values of a tuple.
struct Values {
    datums: [Datum; KeyShape::MAX_COLUMNS],
    nulls: [bool; KeyShape::MAX_COLUMNS],
}

impl Values {
    fn new() -> Values {
        Values { datums: [Datum::null(); KeyShape::MAX_COLUMNS], nulls: [true; KeyShape::MAX_COLUMNS] }
    }

    /// Becomes those of a tuple of an index. None if it has none.
    unsafe fn take(&mut self, rel: Relation, tuple: &BtreeTuple<'_>) -> Option<()> {
        // SAFETY: the index is open, and has no more columns than there can be.
        unsafe {
            let descriptor = (*rel).rd_att;
            let count = (*descriptor).natts as usize;
            tuple.values(descriptor, self.datums.get_mut(..count)?, self.nulls.get_mut(..count)?)
        }
    }

    fn datums(&self) -> *const Datum {
        self.datums.as_ptr()
    }

    fn nulls(&self) -> *const bool {
        self.nulls.as_ptr()
    }
}

/// A number from another that looks like chance, the same each time: so is the advice (`splitmix64`).
pub(super) fn scatter(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}
