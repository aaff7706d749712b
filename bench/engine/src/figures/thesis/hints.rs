//! Prefetch hints for queries and scans (thesis §5.1, Figures 5.1 and 5.2).

use std::ops::Range;

use fpbtree_lab::compare::{BinaryBy, Words};
use fpbtree_lab::figure::{Claim, Outcome, Panel, Run};
use fpbtree_lab::memory::pb::hint::{Nta, T0, T1, T2};
use fpbtree_lab::memory::pb::policy::Linear;

use super::arrival::{Arrivals, NAMES};
use super::workload::{self, DISTANCE, Tree, Use, Work, excess, most, over_widths, percent, typical};

/// Keys, as in the thesis' figures.
type Key = [u8; 16];
/// What does not count as a difference.
const NOISE: f64 = 0.01;

/// Times with each hint at a width.
type Times = [f64; NAMES.len()];

/// What is measured of a tree with nodes of some width.
type Measure = fn(&Run, &Work<Key>) -> Times;

/// Figure 5.1.
pub fn queries(run: &mut Run) -> Outcome {
    let arrivals = Arrivals::measure();
    let times = measure(run, &workload::widths!(of_queries));
    let claims = vec![
        claim("t1 and t2 take more than t0", "up to +2.6 %", &times, 1..3, &arrivals),
        claim("nta takes more than t0", "up to +7 %", &times, 3..4, &arrivals),
        arrivals.claim(),
    ];
    Outcome { panels: vec![over_widths("Queries", "ns per query", NAMES, &times), arrivals.panel(), itanium()], claims }
}

/// Figure 5.2.
pub fn scans(run: &mut Run) -> Outcome {
    let arrivals = Arrivals::measure();
    let times = measure(run, &workload::widths!(of_scans));
    let claims = vec![
        claim("t1 and t2 take more than t0", "slightly more", &times, 1..3, &arrivals),
        claim("nta takes more than t0", "slightly more", &times, 3..4, &arrivals),
    ];
    Outcome { panels: vec![over_widths("Scans of all keys", "ns per entry", NAMES, &times), arrivals.panel()], claims }
}

fn measure(run: &mut Run, widths: &[(usize, Measure)]) -> Vec<(usize, Times)> {
    let work = Work::of_mode(run);
    workload::at_widths(run, (0, 1), widths, |run, measure| measure(run, &work))
}

fn of_queries<const W: usize>(run: &Run, work: &Work<Key>) -> Times {
    type S = BinaryBy<Words>;
    let uses: [Use<W, Key>; 4] = [
        workload::queries::<W, Key, S, Linear, T0>,
        workload::queries::<W, Key, S, Linear, T1>,
        workload::queries::<W, Key, S, Linear, T2>,
        workload::queries::<W, Key, S, Linear, Nta>,
    ];
    workload::medians(run, Tree::load(&work.pairs, 1.0, 0), work, uses)
}

fn of_scans<const W: usize>(run: &Run, work: &Work<Key>) -> Times {
    let uses: [Use<W, Key>; 4] = [
        workload::scan::<W, Key, DISTANCE, Linear, T0>,
        workload::scan::<W, Key, DISTANCE, Linear, T1>,
        workload::scan::<W, Key, DISTANCE, Linear, T2>,
        workload::scan::<W, Key, DISTANCE, Linear, Nta>,
    ];
    workload::medians(run, Tree::load(&work.pairs, 1.0, 0), work, uses)
}

/// That the hint for all caches is best; the Itanium calls it t1.
fn claim(what: &str, paper: &str, times: &[(usize, Times)], others: Range<usize>, arrivals: &Arrivals) -> Claim {
    let more: Vec<f64> = others.clone().flat_map(|other| excess(times, other, 0)).collect();
    let why = if typical(&more).abs() < NOISE {
        "A line is read soon after it was asked for, so waiting for it costs the same wherever it goes."
    } else if typical(&more) < 0.0 {
        "Bringing lines into all caches costs more here than reading them from further away."
    } else if others.clone().any(|other| arrivals.small[other] > arrivals.missed / 2.0) {
        "Where the translation of an address is not at hand, this processor drops the prefetch with such a hint, but not \
         with t0."
    } else {
        "A line that was not brought into the first-level cache has to be read from further away."
    };
    Claim {
        what: what.to_owned(),
        paper: paper.to_owned(),
        ours: format!("{} typically, up to {}", percent(typical(&more)), percent(most(&more))),
        holds: typical(&more) > -NOISE,
        why: why.to_owned(),
        ..Claim::default()
    }
}

/// What the Itanium has and this machine has not.
fn itanium() -> Panel {
    let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
    Panel::Table {
        title: "Of the Itanium alone".to_owned(),
        heading: row(["", "there", "here"]),
        rows: vec![
            row(["fault hint", "chosen for each prefetch", "no such choice; see the claim"]),
            row([
                "exclusive hint",
                "chosen for each prefetch",
                "another instruction (prefetchw); queries do not write",
            ]),
            row(["t1: all caches", "64 of a line's 128 bytes into the first level", "called t0, lines of 64 bytes"]),
            row(["nt1, nt2", "second level; kept there or not", "t1, t2: what they mean is up to the processor"]),
        ],
    }
}
