//! Ye and Wang: Boosting the Search Performance of B+-tree for Non-volatile Memory with Sentinels, 2021.

mod leaves;
mod nodes;
mod threads;
mod ycsb;

use fpbtree_lab::figure::{Claim, Figure};

/// The figures, in the paper's order.
pub const FIGURES: &[Figure] = &[
    Figure {
        name: "sentinel-figure4",
        title: "Search and insertion in leaves with and without sentinels, over node sizes",
        source: "Ye and Wang, Figure 4",
        seconds: (8, 60),
        run: nodes::figure4,
    },
    Figure {
        name: "sentinel-figure5",
        title: "Search and insertion in nodes of 4 KB, over the number of pairs",
        source: "Ye and Wang, Figure 5",
        seconds: (2, 25),
        run: nodes::figure5,
    },
    Figure {
        name: "sentinel-figure6",
        title: "Search and insertion by several threads",
        source: "Ye and Wang, Figure 6",
        seconds: (2, 10),
        run: threads::figure6,
    },
    Figure {
        name: "sentinel-figure7",
        title: "YCSB, workload A, over node sizes",
        source: "Ye and Wang, Figure 7",
        seconds: (3, 20),
        run: ycsb::figure7,
    },
    Figure {
        name: "sentinel-figure8",
        title: "YCSB, workload A, by several threads",
        source: "Ye and Wang, Figure 8",
        seconds: (2, 20),
        run: threads::figure8,
    },
];

/// Part of every claim: what the paper has and this machine does not.
const MEMORY: &str = "Memory is DRAM, and nothing is flushed.";

/// What the paper says beside what was measured, with a reason for agreeing and one for differing.
fn claim(what: &str, paper: &str, ours: String, holds: bool, [agrees, differs]: [&str; 2]) -> Claim {
    let why = if holds { agrees } else { differs };
    Claim { what: what.into(), paper: paper.into(), goal: String::new(), ours, holds, why: format!("{why} {MEMORY}") }
}

/// By how many percent `ours` is more than `its`.
fn percent(ours: f64, its: f64) -> f64 {
    100.0 * (ours / its - 1.0)
}
