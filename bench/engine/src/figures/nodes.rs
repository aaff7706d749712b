//! Compact nodes beside plain ones: how many entries pages have, and what a search in them costs, for keys of several
//! kinds and for nodes of several widths.

use std::hint::black_box;
use std::time::Instant;

use fpbtree_engine::format::widths::{Costs, NodeSizes, candidates, select};
use fpbtree_engine::format::{Geometry, Key, Lane, MAX_NODE_ENTRIES, MAX_PAGE_ENTRIES, PAGE_SIZE, PageBytes, Tid};
use fpbtree_engine::page::{Entry, Links, Page, PageSplits};
use fpbtree_engine::simd::{self, CACHE_LINE as LINE};
use fpbtree_lab::figure::{Claim, Figure, Outcome, Panel, Run, median};

/// What is ours alone.
pub const FIGURES: &[Figure] =
    &[Figure { name: "nodes", title: "Compact nodes beside plain ones", source: "ours", seconds: (40, 200), run }];

/// Keys of an index by their rank, and their rows: of so many in all.
type Entries = (&'static str, fn(u64, u64) -> (u128, u64));

/// The lane and the row that has it, of keys in key order.
const KINDS: [Entries; 3] = [
    ("in the order of the table", |rank, _| (u128::from(rank), rank)),
    ("random", |rank, rows| (spread(rank, rows), mix(rank) % rows)),
    // The rows of a key come in the order of the table.
    ("random, 10 rows each", |rank, rows| (spread(rank / 10, rows / 10), (rank % 10 * rows + mix(rank) % rows) / 10)),
];

/// A lane for each rank, all about as far apart as random ones are: the lane's upper bits say it, the others are
/// random.
fn spread(rank: u64, rows: u64) -> u128 {
    let step = (1 << 63) / u128::from(rows) * 2;
    let place = u128::from(rank) * step + u128::from(mix(rank)) % step;
    place << 64 | u128::from(mix(!rank))
}

fn mix(number: u64) -> u64 {
    let first = (number ^ (number >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    (first ^ (first >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93)
}

/// Rows of a heap page.
const ROWS: u64 = 100;

fn entry<L: Lane>(kind: &Entries, rank: u64, rows: u64) -> Key<L> {
    let (lane, row) = (kind.1)(rank, rows);
    // What ascends is in the lower bits, what is random in the upper ones.
    let lane = if lane >> 64 == 0 { lane } else { lane >> (128 - 8 * L::SIZE as u32) };
    Key::new(L::from_u128(lane), Tid::new(false, (row / ROWS) as u32, (row % ROWS) as u16 + 1, false))
}

/// What holds the entries of one kind, and finds them.
trait Pages<L: Lane> {
    /// Pages as full as they can be.
    fn build(&self, entries: &[Key<L>]) -> Vec<PageBytes>;
    /// The first TID at or after a key's place in a page.
    fn find(&self, page: &PageBytes, key: Key<L>) -> u64;
}

/// Nodes of whole lanes and whole TIDs, each an array, in-page roots of lanes, line numbers and counts: the engine's
/// first format.
struct Plain {
    w: usize,
    x: usize,
    fanout: usize,
    nodes: usize,
    capacity: usize,
}

/// Bytes of a child in the plain root beside its lane.
const PLAIN_POINTER: usize = 2;
/// Lines before the in-page root, and behind the nodes.
const OUTER: usize = 2 + (PAGE_SIZE / LINE).div_ceil(256);

impl Plain {
    fn choose(lane: usize) -> Plain {
        let entry = lane + Tid::SIZE;
        let sizes = NodeSizes {
            nonleaf_entry: lane + PLAIN_POINTER,
            nonleaf_header: 0,
            leaf_entry: [entry; 2],
            leaf_header: 0,
        };
        let all = candidates(PAGE_SIZE / LINE - OUTER, sizes, Costs::default(), 64).filter(|all| all.levels == 2);
        let chosen = select(all);
        let fanout = chosen.nonleaf * LINE / (lane + PLAIN_POINTER);
        let nodes = fanout.min((PAGE_SIZE / LINE - OUTER - chosen.nonleaf) / chosen.leaf);
        Plain { w: chosen.nonleaf, x: chosen.leaf, fanout, nodes, capacity: (chosen.leaf * LINE / entry).min(64) }
    }

    fn counts<L: Lane>(&self) -> usize {
        2 * LINE + self.fanout * L::SIZE
    }

    fn node(&self, node: usize) -> usize {
        (2 + self.w + node * self.x) * LINE
    }
}

impl<L: Lane> Pages<L> for Plain {
    fn build(&self, entries: &[Key<L>]) -> Vec<PageBytes> {
        let page = |entries: &[Key<L>]| {
            let mut page = [0; PAGE_SIZE];
            for (node, entries) in entries.chunks(self.capacity).enumerate() {
                entries[0].lane.write(&mut page, 2 * LINE + node * L::SIZE);
                page[self.counts::<L>() + node] = entries.len() as u8;
                for (slot, entry) in entries.iter().enumerate() {
                    entry.lane.write(&mut page, self.node(node) + slot * L::SIZE);
                    entry.tid.write(&mut page, self.node(node) + self.capacity * L::SIZE + slot * Tid::SIZE);
                }
            }
            page[32] = entries.len().div_ceil(self.capacity) as u8;
            page
        };
        entries.chunks(self.nodes * self.capacity).map(page).collect()
    }

    #[inline]
    fn find(&self, page: &PageBytes, key: Key<L>) -> u64 {
        let node = L::count_less(page, 2 * LINE + L::SIZE, (page[32] as usize).saturating_sub(1), key.lane);
        let start = self.node(node);
        (0..self.x).for_each(|line| simd::prefetch(page[start + line * LINE..].as_ptr()));
        let count = page[self.counts::<L>() + node] as usize;
        let slot = L::count_less(page, start, count, key.lane).min(self.capacity - 1);
        Tid::read(page, start + self.capacity * L::SIZE + slot * Tid::SIZE).raw()
    }
}

/// The engine's own.
struct Compact(Geometry);

impl<L: Lane> Pages<L> for Compact {
    fn build(&self, mut entries: &[Key<L>]) -> Vec<PageBytes> {
        let links = Links { level: 0, left: 0, right: 1, low: Key::MIN, high: Key::MAX, fill: 100 };
        let page = |entries: &[Key<L>]| {
            let all = entries.iter().map(|key| Entry { key: key.lane, tid: key.tid, child: 0 });
            L::build(&self.0, &links, entries.len(), all)
        };
        let mut pages = Vec::new();
        while !entries.is_empty() {
            // The most that a page takes: none takes more if one entry fewer is too many.
            let (mut fits, mut too_many) = (1, entries.len().min(MAX_PAGE_ENTRIES) + 1);
            while fits + 1 < too_many {
                let middle = fits.midpoint(too_many);
                if page(&entries[..middle]).is_some() { fits = middle } else { too_many = middle }
            }
            pages.push(page(&entries[..fits]).expect("so many fit"));
            entries = &entries[fits..];
        }
        pages
    }

    #[inline]
    fn find(&self, bytes: &PageBytes, key: Key<L>) -> u64 {
        let page = Page::<L>::open(bytes, &self.0, 2).expect("a page of the engine");
        page.entry(page.lower_bound(key)).map_or(0, |entry| entry.tid.raw())
    }
}

/// How many entries a page has, and nanoseconds a search, in pages of memory and in one of the cache.
#[derive(Clone, Copy)]
struct Measured {
    entries: f64,
    far: f64,
    near: f64,
}

fn measure<L: Lane>(run: &Run, pages: &impl Pages<L>, entries: &[Key<L>]) -> Measured {
    // What a tenth of the rows fill tells how many go to a page.
    let built = pages.build(entries);
    let each = entries.len().div_ceil(built.len());
    let find = |rank: usize, page: usize| {
        let found = pages.find(&built[page.min(built.len() - 1)], entries[rank]);
        black_box(found);
    };
    let searches = run.number("searches", 200_000, 1_000_000);
    let time = |search: &dyn Fn(usize)| {
        let round = |round: usize| {
            let start = Instant::now();
            (0..searches).for_each(|at| search(mix((round * searches + at) as u64) as usize));
            start.elapsed().as_nanos() as f64 / searches as f64
        };
        median((0..5).map(round).collect())
    };
    // Every search waits for its page, and begins when the one before has ended: as lookups do.
    let far = time(&|at| find(at % entries.len(), at % entries.len() / each));
    let near = time(&|at| find(at % each, 0));
    Measured { entries: each as f64, far, near }
}

/// A row of the table: what nodes there are, and what was measured.
fn row(name: &str, kind: &str, how: String, measured: Measured, plain: Measured) -> Vec<String> {
    let Measured { entries, far, near } = measured;
    let numbers = [
        format!("{entries:.0}"),
        format!("{:.2}", (PAGE_SIZE as f64) / entries),
        format!("{:.2}", plain.entries / entries),
        format!("{far:.0}"),
        format!("{:.2}", far / plain.far),
        format!("{near:.0}"),
    ];
    [name.to_owned(), kind.to_owned(), how].into_iter().chain(numbers).collect()
}

/// The widths of compact leaves' nodes that are tried: those that an index gets, and others beside them.
fn widths<L: Lane>() -> Vec<(String, Geometry)> {
    let chosen = Geometry::choose(L::KIND, 1);
    let (w, x) = chosen.leaf.widths();
    let [_, _, inner_w, inner_x] = chosen.widths();
    let others = [(w + 2, x - 2), (w + 1, x - 1), (w, x), (w - 1, x + 1), (w.max(4) - 2, x + 3)];
    let geometry = |(w, x)| Geometry::with_widths(L::KIND, 1, [w as u8, x as u8, inner_w, inner_x]);
    let name = |other: (usize, usize)| {
        let is_chosen = if other == (w, x) { ", chosen" } else { "" };
        format!("{} and {} lines{is_chosen}", other.0, other.1)
    };
    others.into_iter().filter_map(|other| geometry(other).map(|made| (name(other), made))).collect()
}

fn of_width<L: Lane>(run: &mut Run, bits: &str, done: f64) -> (Vec<Vec<String>>, Vec<[Measured; 2]>) {
    let rows = run.number("rows", 4_000_000, 20_000_000) as u64;
    let (mut told, mut compared) = (Vec::new(), Vec::new());
    for (at, kind) in KINDS.iter().enumerate() {
        run.done(done + 0.33 * at as f64 / KINDS.len() as f64);
        let mut entries: Vec<Key<L>> = (0..rows).map(|rank| entry(kind, rank, rows)).collect();
        entries.sort_unstable();
        let plain = Plain::choose(L::SIZE);
        let beside = measure(run, &plain, &entries);
        told.push(row(bits, kind.0, format!("plain, {} and {} lines", plain.w, plain.x), beside, beside));
        for (how, geometry) in widths::<L>() {
            let is_chosen = how.ends_with("chosen");
            let measured = measure(run, &Compact(geometry), &entries);
            told.push(row(bits, kind.0, how, measured, beside));
            if is_chosen {
                compared.push([beside, measured]);
            }
        }
    }
    (told, compared)
}

fn run(run: &mut Run) -> Outcome {
    let all = [
        ("32", of_width::<u32>(run, "32", 0.0)),
        ("64", of_width::<u64>(run, "64", 0.33)),
        ("128", of_width::<u128>(run, "128", 0.67)),
    ];
    let heading = [
        "bits",
        "keys",
        "nodes",
        "entries a page",
        "B an entry",
        "size / plain",
        "ns, of memory",
        "/ plain",
        "ns, of cache",
    ];
    let claims = all.iter().map(|(bits, (_, compared))| claim(bits, compared)).collect();
    let rows = all.into_iter().flat_map(|(_, (rows, _))| rows).collect();
    let title = format!(
        "Leaf pages of {} KB, full: nodes of whole lanes and TIDs, and compact ones of at most {MAX_NODE_ENTRIES} entries",
        PAGE_SIZE / 1024
    );
    Outcome { panels: vec![Panel::Table { title, heading: heading.map(str::to_owned).to_vec(), rows }], claims }
}

/// That pages are smaller for every kind of key, and a search takes no longer than it saves misses elsewhere.
fn claim(bits: &str, compared: &[[Measured; 2]]) -> Claim {
    let ratio = |of: fn(&Measured) -> f64| compared.iter().map(|[plain, compact]| of(compact) / of(plain)).collect();
    let told = |ratios: Vec<f64>| ratios.iter().map(|ratio| format!("{ratio:.2}")).collect::<Vec<_>>().join(" / ");
    let sizes: Vec<f64> = compared.iter().map(|[plain, compact]| plain.entries / compact.entries).collect();
    let holds = sizes.iter().all(|&size| size < 1.0);
    Claim {
        what: format!("lanes of {bits} bits: size of compact pages in terms of plain ones, and their searches' time"),
        goal: "size less than 1 for every kind".to_owned(),
        ours: format!("{}; time {}", told(sizes), told(ratio(|measured| measured.far))),
        holds,
        why: "Neighbours in key order differ in few bytes; what is compared in a search is those alone.".to_owned(),
        ..Claim::default()
    }
}
