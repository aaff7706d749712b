//! How the paper measures (§4.1): most pairs are loaded; then the last ones are put, and got, and as many of the first
//! ones deleted. The maps that are compared take turns, so that what else the machine does hits all of them.

use std::fs;
use std::ops::Range;

use cpu_time::ThreadTime;
use fpbtree_engine::format::Lane;
use fpbtree_lab::figure::{Axis, Panel, Run, Series, median};
use rand::{SeedableRng, rngs::StdRng, seq::SliceRandom};

use super::map::{Key, Map, New};

/// What is measured, in the order of [`Rates`].
pub const OPERATIONS: [&str; 3] = ["get", "put", "delete"];
pub const GET: usize = 0;
pub const PUT: usize = 1;
pub const DELETE: usize = 2;

/// Millions of each of [`OPERATIONS`] in a second of processor time.
pub type Rates = [f64; 3];

/// Turns the maps take with an operation. The first is to get warm.
const TURNS: usize = 12;
/// Ranges of keys, by their highest bits, that are loaded one after the other.
const RANGES: u32 = 8;

/// The keys of a measurement.
pub struct Workload<K> {
    pairs: usize,
    loaded: Vec<K>,
    added: Vec<K>,
    wanted: Vec<K>,
    removed: Vec<K>,
}

impl<K: Key> Workload<K> {
    /// Random keys of so many pairs, and so many of each operation.
    pub fn new(pairs: usize, operations: usize) -> Self {
        let mut loaded: Vec<K> = (0..pairs as u64).map(K::nth).collect();
        let added = loaded.split_off(pairs - operations);
        let removed = loaded[..operations].to_vec();
        let mut wanted = added.clone();
        wanted.shuffle(&mut StdRng::seed_from_u64(pairs as u64));
        // A node sees its keys in the same order as if the ranges were mixed, but they fit in a cache now.
        loaded.sort_by_key(|key| (key.lane().to_u128() >> (8 * K::Lane::SIZE as u32 - RANGES)) as u8);
        Workload { pairs, loaded, added, wanted, removed }
    }

    /// The workload of a mode: the paper's 16 million pairs in full.
    pub fn of(run: &Run) -> Self {
        Self::sized(run, 2_000_000, 16_000_000)
    }

    /// The workload of a mode, with these many pairs in quick and in full mode.
    pub fn sized(run: &Run, quick: usize, full: usize) -> Self {
        let pairs = run.number("pairs", quick, full);
        let operations = run.number("operations", quick / 5, 1_000_000).min(pairs / 4);
        Self::new(pairs, operations)
    }

    /// What it is, for a title.
    pub fn title(&self) -> String {
        title(self.pairs)
    }
}

/// The title of a measurement of so many pairs.
pub fn title(pairs: usize) -> String {
    format!("{} million random pairs, one thread", pairs as f64 / 1e6)
}

/// What came of a map.
pub struct Measured {
    pub rates: Rates,
    /// MB of large pages it took when it was loaded.
    pub large_pages: f64,
}

/// Measures maps, of which all are in memory at the same time. This is the `part` of the run.
pub fn measure<K: Key>(run: &mut Run, part: Range<f64>, work: &Workload<K>, made: &[New<K>]) -> Vec<Measured> {
    let mut done = |of_all: f64| run.done(part.start + (part.end - part.start) * of_all);
    let mut maps = Vec::new();
    let mut large_pages = Vec::new();
    for (at, new) in made.iter().enumerate() {
        let before = large();
        let mut map = new(work.pairs);
        let pieces = work.loaded.chunks(1 << 20);
        let count = pieces.len();
        for (piece, keys) in pieces.enumerate() {
            map.insert(keys);
            done(0.7 * (at as f64 + (piece + 1) as f64 / count as f64) / made.len() as f64);
        }
        large_pages.push(large() - before);
        maps.push(map);
    }
    let put = turns(&mut maps, &work.added, |map, keys| map.insert(keys));
    done(0.8);
    let get = turns(&mut maps, &work.wanted, |map, keys| {
        assert_eq!(map.find(keys), keys.iter().map(|key| u64::from(key.tag())).sum::<u64>());
    });
    done(0.9);
    let delete = turns(&mut maps, &work.removed, |map, keys| assert_eq!(map.remove(keys), keys.len()));
    done(1.0);
    let rates = |at: usize| [get[at], put[at], delete[at]];
    large_pages.into_iter().enumerate().map(|(at, large_pages)| Measured { rates: rates(at), large_pages }).collect()
}

/// The rate of every map in doing `work` for all keys.
fn turns<K>(maps: &mut [Box<dyn Map<K>>], keys: &[K], work: impl Fn(&mut dyn Map<K>, &[K])) -> Vec<f64> {
    let mut samples = vec![Vec::new(); maps.len()];
    for (turn, keys) in keys.chunks(keys.len().div_ceil(TURNS)).enumerate() {
        for (map, samples) in maps.iter_mut().zip(&mut samples) {
            let start = ThreadTime::now();
            work(map.as_mut(), keys);
            if turn > 0 {
                samples.push(keys.len() as f64 / start.elapsed().as_secs_f64() / 1e6);
            }
        }
    }
    samples.into_iter().map(median).collect()
}

/// MB of large pages behind this process' own memory; none where the system does not say.
fn large() -> f64 {
    let text = fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("AnonHugePages:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).map_or(0.0, |kb: f64| kb / 1024.0)
}

/// Measures groups of maps, one group for each place along an axis: for each place, the rates of its maps.
pub fn sweep<K: Key>(run: &mut Run, work: &Workload<K>, groups: &[Vec<New<K>>]) -> Vec<Vec<Rates>> {
    let all = groups.len() as f64;
    let measured = groups.iter().enumerate().map(|(at, made)| {
        let part = at as f64 / all..(at + 1) as f64 / all;
        measure(run, part, work, made).into_iter().map(|one| one.rates).collect()
    });
    measured.collect()
}

/// A chart for each operation over what a sweep went over.
pub fn charts(title: &str, x: &str, places: &[f64], names: &[&str], rates: &[Vec<Rates>]) -> Vec<Panel> {
    let chart = |(operation, what): (usize, &&str)| Panel::Chart {
        title: format!("{what}: {title}"),
        x: Axis::log(x),
        y: Axis::linear("million operations per second"),
        series: (names.iter().enumerate())
            .map(|(at, name)| Series {
                name: (*name).to_owned(),
                points: places.iter().zip(rates).map(|(place, of)| (*place, of[at][operation])).collect(),
            })
            .collect(),
    };
    OPERATIONS.iter().enumerate().map(chart).collect()
}

/// Bars of all operations for each of the maps.
pub fn bars(title: &str, names: &[&str], rates: &[Rates]) -> Panel {
    Panel::Bars {
        title: title.to_owned(),
        groups: OPERATIONS.map(str::to_owned).to_vec(),
        y: Axis::linear("million operations per second"),
        series: names.iter().zip(rates).map(|(name, rates)| ((*name).to_owned(), rates.to_vec())).collect(),
    }
}

/// The place and the rate of the map `at` where it does an operation fastest.
pub fn peak(places: &[f64], rates: &[Vec<Rates>], at: usize, operation: usize) -> (f64, f64) {
    let all = places.iter().zip(rates).map(|(place, of)| (*place, of[at][operation]));
    all.max_by(|a, b| a.1.total_cmp(&b.1)).expect("a place")
}
