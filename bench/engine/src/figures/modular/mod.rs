//! Sasaki and Araki: Modularizing B+-Trees: Three-Level B+-Trees Work Fine.

mod hardware;
mod levels;
mod map;
mod measure;
mod ours;
mod single;

use fpbtree_lab::figure::{Claim, Figure};

/// The figures, in the paper's order.
pub const FIGURES: &[Figure] = &[
    Figure {
        name: "modular-figure4",
        title: "Throughput of a typical B+-tree and of a modular one over node sizes",
        source: "Sasaki and Araki, Figure 4",
        seconds: (9, 90),
        run: single::figure4,
    },
    Figure {
        name: "modular-figure5",
        title: "Throughput over the size of pairs",
        source: "Sasaki and Araki, Figure 5",
        seconds: (4, 35),
        run: single::figure5,
    },
    Figure {
        name: "modular-figure6",
        title: "Throughput by the type of keys",
        source: "Sasaki and Araki, Figure 6",
        seconds: (5, 20),
        run: single::figure6,
    },
    Figure {
        name: "modular-figure7",
        title: "Linear and binary search on all nodes, over node sizes",
        source: "Sasaki and Araki, Figure 7",
        seconds: (9, 65),
        run: single::figure7,
    },
    Figure {
        name: "modular-figure8",
        title: "Sorted and unsorted leaves",
        source: "Sasaki and Araki, Figure 8",
        seconds: (8, 60),
        run: levels::figure8,
    },
    Figure {
        name: "modular-figure9",
        title: "Interpolation search in the root",
        source: "Sasaki and Araki, Figure 9",
        seconds: (3, 20),
        run: levels::figure9,
    },
    Figure {
        name: "modular-figure10",
        title: "Interpolation search in the root, with twice as many pairs",
        source: "Sasaki and Araki, Figure 10",
        seconds: (4, 30),
        run: levels::figure10,
    },
    Figure {
        name: "modular-figure11",
        title: "Large pages by level",
        source: "Sasaki and Araki, Figure 11",
        seconds: (4, 20),
        run: hardware::figure11,
    },
    Figure {
        name: "modular-figure12",
        title: "Identifiers prefetched, by level and hint",
        source: "Sasaki and Araki, Figure 12",
        seconds: (8, 55),
        run: hardware::figure12,
    },
    Figure {
        name: "modular-figure13",
        title: "From a typical B+-tree to a modular one, step by step",
        source: "Sasaki and Araki, Figure 13",
        seconds: (6, 16),
        run: hardware::figure13,
    },
    Figure {
        name: "modular",
        title: "The engine's modular tree beside BTreeMap and Abseil's B-tree",
        source: "After Sasaki and Araki, Section 4.1",
        seconds: (2, 14),
        run: ours::maps,
    },
    Figure {
        name: "modular-selections",
        title: "The engine's selection of modules beside others",
        source: "After Sasaki and Araki, Section 4",
        seconds: (8, 46),
        run: ours::selections,
    },
];

/// What the paper says beside what was measured, with a reason for agreeing and one for differing.
fn claim(what: &str, paper: &str, ours: String, holds: bool, [agrees, differs]: [&str; 2]) -> Claim {
    let why = if holds { agrees } else { differs };
    Claim { what: what.into(), paper: paper.into(), goal: String::new(), ours, holds, why: why.into() }
}

/// A gain of the paper's, as a factor, beside ours, which agrees if it is at least half as large.
fn gain(what: &str, paper: f64, ours: f64, at: &str, whys: [&str; 2]) -> Claim {
    let percent = |factor: f64| format!("{:+.1} %", 100.0 * (factor - 1.0));
    claim(what, &percent(paper), percent(ours) + at, ours - 1.0 >= (paper - 1.0) / 2.0, whys)
}

/// Something of the paper's that cannot be had here.
fn missing(what: &str, paper: &str, why: &str) -> Claim {
    claim(what, paper, "not measured".into(), false, ["", why])
}
