//! The prefetching loop: regular, or unrolled by Duff's device (thesis §5.2, Figures 5.3 to 5.5).

use fpbtree_lab::compare::{BinaryBy, Words};
use fpbtree_lab::figure::{Axis, Claim, Outcome, Panel, Run, median};
use fpbtree_lab::memory::pb::hint::T0;
use fpbtree_lab::memory::pb::policy::{Linear, Looped, Policy, Unrolled};

use super::workload::{self, DISTANCE, Tree, Use, Work, excess, most, over_widths, percent, typical};

/// Keys, as in the thesis' figures.
type Key = [u8; 16];
/// A regular loop, one unrolled, and none, since the width is known when compiling.
const NAMES: [&str; 3] = [Looped::NAME, Unrolled::NAME, "no loop: width known"];
/// What does not count as a difference.
const NOISE: f64 = 0.01;

type S = BinaryBy<Words>;
/// Times of queries and of scans.
type Times = [[f64; NAMES.len()]; 2];
type Measure = fn(&Run, &Work<Key>) -> Times;

/// Figures 5.3 and 5.4.
pub fn times(run: &mut Run) -> Outcome {
    let work = Work::of_mode(run);
    let times = workload::at_widths(run, (0, 1), &workload::widths!(of_width), |run, measure| measure(run, &work));
    let of = |which: usize| times.iter().map(|(width, times)| (*width, times[which])).collect::<Vec<_>>();
    let (queries, scans) = (of(0), of(1));
    let claims = vec![
        claim("queries: the regular loop takes more than the unrolled one", "+2 to +3 %, up to +4 %", &queries),
        claim("scans: the regular loop takes more than the unrolled one", "+2 to +3 %, up to +6 %", &scans),
    ];
    let panels = vec![
        over_widths("Queries", "ns per query", NAMES, &queries),
        over_widths("Scans of all keys", "ns per entry", NAMES, &scans),
    ];
    Outcome { panels, claims }
}

fn of_width<const W: usize>(run: &Run, work: &Work<Key>) -> Times {
    let uses: [Use<W, Key>; 6] = [
        workload::queries::<W, Key, S, Looped, T0>,
        workload::queries::<W, Key, S, Unrolled, T0>,
        workload::queries::<W, Key, S, Linear, T0>,
        workload::scan::<W, Key, DISTANCE, Looped, T0>,
        workload::scan::<W, Key, DISTANCE, Unrolled, T0>,
        workload::scan::<W, Key, DISTANCE, Linear, T0>,
    ];
    let [a, b, c, d, e, f] = workload::medians(run, Tree::load(&work.pairs, 1.0, 0), work, uses);
    [[a, b, c], [d, e, f]]
}

fn claim(what: &str, paper: &str, times: &[(usize, [f64; NAMES.len()])]) -> Claim {
    let more = excess(times, 0, 1);
    let holds = typical(&more) > NOISE;
    let why = if holds {
        "The instructions of the loop are in the way of the prefetches, here as there."
    } else {
        "The Itanium runs instructions in order; this processor runs those of the loop while it waits for lines, so \
         there is little to be saved."
    };
    Claim {
        what: what.to_owned(),
        paper: paper.to_owned(),
        ours: format!("{} typically, up to {}", percent(typical(&more)), percent(most(&more))),
        holds,
        why: why.to_owned(),
        ..Claim::default()
    }
}

/// Lines of a node in Figure 5.5: 16 of the Itanium's, which are twice as long.
const WIDE: usize = 32;
/// Keys of a tree that fits into the second-level cache.
const FEW: usize = 10_000;
/// Samples of its scans, which are short.
const SAMPLES: usize = 9;
/// How often a key is asked for again while all its nodes are in the first-level cache.
const AGAIN: usize = 16;

/// Figure 5.5: the times of Figure 5.4 at one width, divided into work and waiting.
pub fn stalls(run: &mut Run) -> Outcome {
    let mut work = Work::of_mode(run);
    run.done(0.3);
    let all = of_width::<WIDE>(run, &work);
    run.done(0.6);
    let busy = [busy_queries(run, &mut work, all[0]), busy_scans(run, &work)];
    let panel = |title: &str, y: &str, which: usize| Panel::Bars {
        title: title.to_owned(),
        groups: NAMES.map(str::to_owned).into(),
        y: Axis::linear(y),
        series: vec![
            ("busy".to_owned(), busy[which].to_vec()),
            (
                "waiting for memory".to_owned(),
                std::array::from_fn::<_, 3, _>(|at| all[which][at] - busy[which][at]).into(),
            ),
        ],
    };
    let claims = vec![
        busy_claim("queries: busy time that unrolling saves", all[0], busy[0]),
        busy_claim("scans: busy time that unrolling saves", all[1], busy[1]),
    ];
    let panels = vec![panel("Queries", "ns per query", 0), panel("Scans of all keys", "ns per entry", 1), categories()];
    Outcome { panels, claims }
}

/// What a query takes whose nodes are all in the first-level cache: what it takes more to ask for each key again and
/// again.
fn busy_queries(run: &Run, work: &mut Work<Key>, once: [f64; NAMES.len()]) -> [f64; NAMES.len()] {
    work.sought = work.sought.iter().flat_map(|key| std::iter::repeat_n(*key, AGAIN + 1)).collect();
    let uses: [Use<WIDE, Key>; NAMES.len()] = [
        workload::queries::<WIDE, Key, S, Looped, T0>,
        workload::queries::<WIDE, Key, S, Unrolled, T0>,
        workload::queries::<WIDE, Key, S, Linear, T0>,
    ];
    let mean = workload::medians(run, Tree::load(&work.pairs, 1.0, 0), work, uses);
    std::array::from_fn(|at| (mean[at] * (AGAIN + 1) as f64 - once[at]) / AGAIN as f64)
}

/// What an entry takes of a scan of a tree in the second-level cache.
fn busy_scans(run: &Run, work: &Work<Key>) -> [f64; NAMES.len()] {
    let few = Work { pairs: work.pairs[..FEW.min(work.pairs.len())].to_vec(), sought: Vec::new() };
    let uses: [Use<WIDE, Key>; NAMES.len()] = [
        workload::scan::<WIDE, Key, DISTANCE, Looped, T0>,
        workload::scan::<WIDE, Key, DISTANCE, Unrolled, T0>,
        workload::scan::<WIDE, Key, DISTANCE, Linear, T0>,
    ];
    let samples: Vec<_> =
        (0..SAMPLES).map(|_| workload::medians(run, Tree::load(&few.pairs, 1.0, 0), &few, uses)).collect();
    std::array::from_fn(|at| median(samples.iter().map(|times| times[at]).collect()))
}

fn busy_claim(what: &str, all: [f64; NAMES.len()], busy: [f64; NAMES.len()]) -> Claim {
    let saved = (busy[0] - busy[1]) / all[0];
    let holds = saved > NOISE;
    let why = if holds {
        "A turn of the loop for each line is work that an unrolled one has not."
    } else {
        "The loop's own instructions find room beside those of the prefetches, of which the processor begins only so many \
         at a time."
    };
    Claim {
        what: what.to_owned(),
        paper: "most of what is saved".to_owned(),
        ours: format!("{} of all time", percent(saved)),
        holds,
        why: why.to_owned(),
        ..Claim::default()
    }
}

/// The thesis' categories of stalls (Table 4.3), and where they are here.
fn categories() -> Panel {
    let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
    let waiting = "in waiting, with misses of the translation buffers";
    Panel::Table {
        title: "The thesis' categories".to_owned(),
        heading: row(["there, by the Itanium's counters", "here, by difference of times"]),
        rows: vec![
            row(["data cache stalls", waiting]),
            row(["instruction misses, front-end flushes", "in busy: the code stays in the first-level cache"]),
            row(["branch mispredictions", "in busy and in waiting, as they come"]),
            row(["register dependencies (scoreboarding)", "in busy"]),
            row(["register stack, instruction bundles", "of the Itanium alone"]),
            row(["floating point", "none in either"]),
        ],
    }
}
