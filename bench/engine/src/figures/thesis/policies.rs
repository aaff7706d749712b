//! Prefetch policies for scans, and for queries (thesis §5.3, Figures 5.6 to 5.8).

use fpbtree_lab::compare::{BinaryBy, Words};
use fpbtree_lab::figure::{Claim, Outcome, Run};
use fpbtree_lab::memory::pb::hint::T0;
use fpbtree_lab::memory::pb::node;
use fpbtree_lab::memory::pb::policy::{Binary, HalfBinary, HalfLinear, Linear, NoPrefetch, Policy};
use fpbtree_lab::search::SearchOf;

use super::workload::{self, Tree, Use, Work, excess, over_widths, percent, typical};

/// Leaves ahead, as in the thesis.
const DISTANCES: [usize; 2] = [2, 4];
const SCANS: [&str; 5] = ["linear, 2 ahead", "half-linear, 2 ahead", "linear, 4 ahead", "half-linear, 4 ahead", "none"];
const QUERIES: [&str; 5] = [Linear::NAME, HalfLinear::NAME, Binary::NAME, HalfBinary::NAME, NoPrefetch::NAME];
/// What does not count as a difference.
const NOISE: f64 = 0.01;

type S = BinaryBy<Words>;
type Times = [f64; SCANS.len()];
type Measure<K> = fn(&Run, &Work<K>, f64) -> Times;

/// Figure 5.6: keys of 16 bytes in full nodes; and queries in the same trees.
pub fn full(run: &mut Run) -> Outcome {
    let work = Work::<Key>::of_mode(run);
    let mut outcome = scans(run, &work, 1.0, false);
    let times =
        workload::at_widths(run, (1, 2), &workload::widths!(of_queries, Key), |run, measure| measure(run, &work, 1.0));
    outcome.panels.push(over_widths("Queries", "ns per query", QUERIES, &times));
    outcome.claims.push(query_claim(&times));
    outcome
}

/// The keys of Figure 5.6.
type Key = [u8; 16];

/// Figure 5.7: keys of 32 bytes, nodes 67 % full.
pub fn two_thirds(run: &mut Run) -> Outcome {
    let work = Work::<[u8; 32]>::of_mode(run);
    scans(run, &work, 0.67, false)
}

/// Figure 5.8: keys of 64 bytes, nodes 50 % full.
pub fn half(run: &mut Run) -> Outcome {
    let keys = run.number("keys", 1_000_000, 5_000_000);
    scans(run, &Work::<[u8; 64]>::new(keys, 0), 0.5, true)
}

/// Scans with each policy. `sparing` is whether the thesis found it better to ask for what is used only.
fn scans<K: node::Key + AsRef<[u8]>>(run: &mut Run, work: &Work<K>, fill: f64, sparing: bool) -> Outcome
where
    S: SearchOf<K>,
{
    let times =
        workload::at_widths(run, (0, 2), &workload::widths!(of_scans, K), |run, measure| measure(run, work, fill));
    let title = format!("Scans of all keys of {} bytes, nodes {:.0} % full", size_of::<K>(), fill * 100.0);
    let claims = [0, 1].map(|distance| scan_claim(&times, distance, fill, sparing));
    Outcome { panels: vec![over_widths(&title, "ns per entry", SCANS, &times)], claims: claims.into() }
}

fn of_scans<const W: usize, K: node::Key + AsRef<[u8]>>(run: &Run, work: &Work<K>, fill: f64) -> Times
where
    S: SearchOf<K>,
{
    let uses: [Use<W, K>; SCANS.len()] = [
        workload::scan::<W, K, 2, Linear, T0>,
        workload::scan::<W, K, 2, HalfLinear, T0>,
        workload::scan::<W, K, 4, Linear, T0>,
        workload::scan::<W, K, 4, HalfLinear, T0>,
        workload::scan::<W, K, 0, NoPrefetch, T0>,
    ];
    workload::medians(run, Tree::load(&work.pairs, fill, 0), work, uses)
}

fn of_queries<const W: usize, K: node::Key>(run: &Run, work: &Work<K>, fill: f64) -> Times
where
    S: SearchOf<K>,
{
    let uses: [Use<W, K>; QUERIES.len()] = [
        workload::queries::<W, K, S, Linear, T0>,
        workload::queries::<W, K, S, HalfLinear, T0>,
        workload::queries::<W, K, S, Binary, T0>,
        workload::queries::<W, K, S, HalfBinary, T0>,
        workload::queries::<W, K, S, NoPrefetch, T0>,
    ];
    workload::medians(run, Tree::load(&work.pairs, fill, 0), work, uses)
}

fn scan_claim(times: &[(usize, Times)], distance: usize, fill: f64, sparing: bool) -> Claim {
    let more = typical(&excess(times, 2 * distance + 1, 2 * distance));
    let why = if more > NOISE {
        "Half-linear reads a leaf's header before it knows what else to ask for, and waits for that; what it does not ask \
         for, it hardly saves."
    } else if more < -NOISE && fill == 1.0 {
        "Both ask for all lines of a full node; half-linear asks for the last ones later, when fewer are under way."
    } else if more < -NOISE {
        "The lines without entries that half-linear does not ask for are memory's time saved, more than its look at each \
         leaf's header ahead of time takes."
    } else {
        "What half-linear does not ask for is about as much as its look at each leaf's header ahead of time takes."
    };
    Claim {
        what: format!("half-linear takes more than linear, {} leaves ahead", DISTANCES[distance]),
        paper: if sparing { "less" } else { "more" }.to_owned(),
        ours: percent(more),
        holds: if sparing { more < -NOISE } else { more > NOISE },
        why: why.to_owned(),
        ..Claim::default()
    }
}

/// That no policy is better than linear for queries.
fn query_claim(times: &[(usize, Times)]) -> Claim {
    let (more, name) = (1..4)
        .map(|other| (typical(&excess(times, other, 0)), QUERIES[other]))
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .expect("three policies");
    let holds = more > -NOISE;
    let why = if holds {
        "All lines of a node are under way before the first has arrived, so their order matters little, and a table of \
         that order has to be read."
    } else {
        "So many misses at a time are more than the processor keeps count of, so those lines come first that are asked for \
         first."
    };
    Claim {
        what: format!("queries: the best other policy, {name}, takes more than linear"),
        paper: "not less".to_owned(),
        ours: percent(more),
        holds,
        why: why.to_owned(),
        ..Claim::default()
    }
}
