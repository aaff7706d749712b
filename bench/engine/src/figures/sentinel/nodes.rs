//! Latencies of one thread: Figures 4 and 5.

use std::time::Instant;

use cpu_time::ThreadTime;
use fpbtree_lab::figure::{Axis, Claim, Outcome, Panel, Run, Series, median};
use fpbtree_lab::index::{MOST_KEY, Pair};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::index};

use super::leaves::{FINGERPRINTS, KINDS, LINEAR, NewSingle, SENTINELS, SINGLE, Single, VARIANTS, WITH, WITHOUT};
use super::{MEMORY, claim, percent};

/// Keys that are there, sorted, with room for others between them.
pub struct Keys {
    step: u32,
    count: usize,
    random: StdRng,
}

impl Keys {
    pub fn new(count: usize) -> Self {
        Keys { step: MOST_KEY / count as u32, count, random: StdRng::seed_from_u64(2021) }
    }

    /// All of them with tuple ids.
    pub fn pairs(&self) -> Vec<Pair> {
        (0..self.count as u32).map(|at| (at * self.step, at)).collect()
    }

    /// Some of them.
    pub fn some(&mut self, count: usize) -> Vec<u32> {
        (0..count).map(|_| self.random.random_range(0..self.count as u32) * self.step).collect()
    }

    /// Pairs that are not there yet, if this `round` of them is not; they are different.
    pub fn others(&mut self, count: usize, round: usize) -> Vec<Pair> {
        assert!((round as u32) < self.step - 1, "room between the keys");
        let places = index::sample(&mut self.random, self.count, count.min(self.count));
        places.into_iter().map(|at| (at as u32 * self.step + 1 + round as u32, at as u32)).collect()
    }
}

/// Nanoseconds of a search and of an insertion.
type Latency = [f64; 2];

/// Rounds of which the median counts, after one that makes warm.
fn rounds(run: &Run) -> usize {
    if run.full() { 5 } else { 3 }
}

/// The latencies of maps with so many pairs. They are all there and take turns.
fn latencies(run: &Run, count: usize, made: &[NewSingle]) -> Vec<Latency> {
    let mut keys = Keys::new(count);
    let pairs = keys.pairs();
    let mut maps: Vec<Box<dyn Single>> = made.iter().map(|new| new(&pairs)).collect();
    let searches = run.number("searches", 50_000, 200_000);
    let mut times = vec![[Vec::new(), Vec::new()]; maps.len()];
    for round in 0..=rounds(run) {
        let (sought, added) = (keys.some(searches), keys.others(searches.min(count / 40), round));
        for (map, times) in maps.iter_mut().zip(&mut times) {
            let both = [busy(sought.len(), || map.search_all(&sought)), busy(added.len(), || map.insert_all(&added))];
            if round > 0 {
                times.iter_mut().zip(both).for_each(|(times, time)| times.push(time));
            }
        }
    }
    times.into_iter().map(|both| both.map(median)).collect()
}

/// Nanoseconds of this thread's processor time for each of so many things that `work` does.
fn busy(count: usize, work: impl FnOnce()) -> f64 {
    let start = ThreadTime::now();
    work();
    start.elapsed().as_nanos() as f64 / count as f64
}

/// Nanoseconds for each of so many things that `work` does.
pub fn time(count: usize, work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_nanos() as f64 / count as f64
}

/// A chart over what was gone over, of kinds in the order of [`KINDS`].
pub fn chart(title: &str, x: Axis, places: &[f64], of: impl Fn(usize, usize) -> f64) -> Panel {
    let series = |(kind, name): (usize, &&str)| Series {
        name: (*name).to_owned(),
        points: places.iter().enumerate().map(|(at, place)| (*place, of(at, kind))).collect(),
    };
    let series = KINDS.iter().enumerate().map(series).collect();
    Panel::Chart { title: title.to_owned(), x, y: Axis::linear("ns"), series }
}

/// So many pairs, that all nodes of a map are in a cache.
const IN_CACHE: usize = 20_000;

/// Maps of nodes of 4 KB.
fn largest() -> [NewSingle; KINDS.len()] {
    SINGLE[SINGLE.len() - 1].1
}

/// Node sizes.
pub fn figure4(run: &mut Run) -> Outcome {
    let count = run.number("pairs", 4_000_000, 10_000_000);
    let sizes = SINGLE.map(|of| of.0);
    let steps = SINGLE.len() as f64 + 1.0;
    let mut measured = Vec::new();
    for (at, (_, made)) in SINGLE.iter().enumerate() {
        measured.push(latencies(run, count, made));
        run.done((at + 1) as f64 / steps);
    }
    let made: Vec<NewSingle> = VARIANTS.map(|variant| variant.1).into_iter().chain(largest()).collect();
    let (memory, cache) = (latencies(run, count, &made), latencies(run, IN_CACHE, &made));
    let names = VARIANTS.map(|variant| variant.0).into_iter().chain(KINDS);
    let pairs = format!("{} million pairs", count as f64 / 1e6);
    let axis = || Axis::log("bytes of a node");
    let row = |(name, (memory, cache)): (&str, (&Latency, &Latency))| {
        let cells = memory.iter().chain(cache).map(|ns| format!("{ns:.0}"));
        std::iter::once(name.to_owned()).chain(cells).collect()
    };
    let cached = format!("{} thousand", IN_CACHE / 1000);
    let heading =
        ["a sentinel for", &format!("search, ns, {pairs}"), "insertion", &format!("search, {cached}"), "insertion"];
    let panels = vec![
        chart(&format!("Search: {pairs}"), axis(), &sizes, |at, kind| measured[at][kind][0]),
        chart(&format!("Insertion: {pairs}"), axis(), &sizes, |at, kind| measured[at][kind][1]),
        Panel::Table {
            title: format!("Nodes of 4 KB: other sentinels, and all nodes in a cache: {cached} pairs"),
            heading: heading.map(str::to_owned).to_vec(),
            rows: names.zip(memory.iter().zip(&cache)).map(row).collect(),
        },
    ];
    let from = VARIANTS.len();
    let mut claims = goals(&memory[from..], &cache[from..]);
    claims.extend(figure4_claims(&measured));
    Outcome { panels, claims }
}

fn figure4_claims(measured: &[Vec<Latency>]) -> Vec<Claim> {
    let [small, large] = [&measured[0], &measured[SINGLE.len() - 1]];
    let change = |of: &[Latency], kind: usize, than: usize, what: usize| percent(of[kind][what], of[than][what]);
    let mut claims = Vec::new();
    let fingerprints = change(large, FINGERPRINTS, LINEAR, 0);
    let sentinels = change(large, SENTINELS, LINEAR, 0);
    let says = format!("{sentinels:+.1} % with sentinels, {fingerprints:+.1} % with fingerprints");
    claims.push(claim("search in nodes of 4 KB: sentinels against fingerprints", "sentinels up to 60 % less", says, sentinels < fingerprints, [
        "Fingerprints of all pairs are looked at, and some that agree belong to other keys.",
        "Sixteen fingerprints are compared at once, eight lines of them at most, where plain linear search goes through \
         sentinels one by one.",
    ]));
    let inserts = change(large, SENTINELS, LINEAR, 1);
    claims.push(claim(
        "insertion into nodes of 4 KB: sentinels against none",
        "+4.0 % (FAST-FAIR)",
        format!("{inserts:+.1} %"),
        inserts < 6.5,
        [
            "The search before it saves more, or nearly as much, as the sentinels behind it cost.",
            "Sentinels behind the new pair are all written again.",
        ],
    ));
    let smallest = change(small, SENTINELS, LINEAR, 0);
    claims.push(claim(
        "search in nodes of 512 bytes: sentinels against none",
        "slower",
        format!("{smallest:+.1} %"),
        smallest > 0.0,
        ["Four lines of keys hold less than sentinels cost.", "Even of four lines of keys, sentinels spare two."],
    ));
    claims.push(claim(
        "Circ-Tree's circular leaves with sentinels",
        "-48.4 % in nodes of 4 KB",
        "not measured".into(),
        false,
        ["", "The lab has no circular leaves: its nodes are FAST-FAIR's, sorted from the first place on."],
    ));
    claims
}

/// The goal, where nodes come from memory and from a cache: with the paper's search, and with the best ones.
fn goals(memory: &[Latency], cache: &[Latency]) -> Vec<Claim> {
    let best = |of: &[Latency], kinds: &[usize]| {
        let best = kinds.iter().copied().min_by(|a, b| of[*a][0].total_cmp(&of[*b][0]));
        best.expect("kinds")
    };
    let goal = |what: &str, paper: &str, of: &[Latency], (with, without): (usize, usize), differs: &str| {
        let change = percent(of[with][0], of[without][0]);
        let holds = change <= -40.0;
        let why =
            if holds { "Sentinels and one line of pairs are gone through, instead of half the node." } else { differs };
        Claim {
            what: format!("search in sorted nodes of 4 KB, {what}: {} against {}", KINDS[with], KINDS[without]),
            paper: paper.to_owned(),
            goal: "-40 %".to_owned(),
            ours: format!("{change:+.1} %"),
            holds,
            why: format!("{why} {MEMORY}"),
        }
    };
    let waits = "A node that is gone through in order is fetched ahead, many lines at a time; sentinels spare lines and \
                 comparisons, but the line that they name is waited for after their own.";
    let cached = "What leads to the leaf takes as long either way, and a processor of today compares several keys in a nanosecond.";
    let both = |of: &[Latency]| (best(of, &WITH), best(of, &WITHOUT));
    vec![
        goal("from memory", "-42.6 % (FAST-FAIR)", memory, (SENTINELS, LINEAR), waits),
        goal("in a cache", "", cache, (SENTINELS, LINEAR), cached),
        goal("from memory, the best with and without", "", memory, both(memory), waits),
        goal("in a cache, the best with and without", "", cache, both(cache), cached),
    ]
}

/// Numbers of pairs in nodes of 4 KB.
pub fn figure5(run: &mut Run) -> Outcome {
    let most = run.number("pairs", 4_000_000, 20_000_000);
    let counts = [most / 100, most / 10, most];
    let mut measured = Vec::new();
    for (at, count) in counts.iter().enumerate() {
        measured.push(latencies(run, *count, &largest()));
        run.done((at + 1) as f64 / counts.len() as f64);
    }
    let places = counts.map(|count| count as f64);
    let axis = || Axis::log("pairs");
    let panels = vec![
        chart("Search in nodes of 4 KB", axis(), &places, |at, kind| measured[at][kind][0]),
        chart("Insertion into nodes of 4 KB", axis(), &places, |at, kind| measured[at][kind][1]),
    ];
    let mean = |kind: usize| measured.iter().map(|of| of[kind][0].ln()).sum::<f64>() / counts.len() as f64;
    let change = percent(mean(SENTINELS).exp(), mean(LINEAR).exp());
    let claims = vec![claim(
        "search in nodes of 4 KB: sentinels against none, geometric mean over the numbers of pairs",
        "-42.6 % (FAST-FAIR; 1, 10 and 100 million)",
        format!("{change:+.1} %"),
        change < -30.0,
        [
            "The sentinels and one line of keys are gone through instead of half the node, in a cache or not.",
            "What leads to the leaf takes as long either way.",
        ],
    )];
    Outcome { panels, claims }
}
