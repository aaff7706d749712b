//! Kissinger, Schlegel, Habich and Lehner: KISS-Tree, DaMoN 2012.

mod lookups;
mod maps;
mod memory;
mod throughput;
mod workload;

use fpbtree_lab::figure::Figure;

/// The figures, in the paper's order, and ours.
pub const FIGURES: &[Figure] = &[
    Figure {
        name: "kiss-figure5",
        title: "Reads and updates, over the number of keys",
        source: "Kissinger et al., DaMoN 2012, Figure 5",
        seconds: (7, 90),
        run: throughput::over_sizes,
    },
    Figure {
        name: "kiss-figure6",
        title: "Reads and updates, over the rate of updates",
        source: "Kissinger et al., DaMoN 2012, Figure 6",
        seconds: (6, 60),
        run: throughput::over_rates,
    },
    Figure {
        name: "kiss-figure7",
        title: "Memory of the KISS-tree and others",
        source: "Kissinger et al., DaMoN 2012, Figure 7",
        seconds: (3, 40),
        run: memory::consumption,
    },
    Figure {
        name: "kiss",
        title: "Lookups in batches against adaptive radix trees",
        source: "ours",
        seconds: (9, 100),
        run: lookups::lookups,
    },
];
