//! Jónsson: Practical Performance Considerations for the Prefetching B+-Tree, 2006.

mod arrays;
mod arrival;
mod hints;
mod loops;
mod policies;
mod prefetching;
mod searches;
mod workload;

use fpbtree_lab::figure::Figure;

/// The figures, in the thesis' order.
pub const FIGURES: &[Figure] = &[
    Figure {
        name: "thesis-figure5.1",
        title: "Prefetch hints: queries",
        source: "Jónsson 2006, Figure 5.1 and Table 5.2",
        seconds: (4, 30),
        run: hints::queries,
    },
    Figure {
        name: "thesis-figure5.2",
        title: "Prefetch hints: scans",
        source: "Jónsson 2006, Figure 5.2",
        seconds: (3, 30),
        run: hints::scans,
    },
    Figure {
        name: "thesis-figure5.4",
        title: "The prefetching loop: regular and unrolled",
        source: "Jónsson 2006, Figures 5.3 and 5.4",
        seconds: (4, 40),
        run: loops::times,
    },
    Figure {
        name: "thesis-figure5.5",
        title: "The prefetching loop: work and waiting",
        source: "Jónsson 2006, Figure 5.5",
        seconds: (4, 30),
        run: loops::stalls,
    },
    Figure {
        name: "thesis-figure5.6",
        title: "Prefetch policies: keys of 16 bytes, full nodes",
        source: "Jónsson 2006, Figure 5.6",
        seconds: (6, 60),
        run: policies::full,
    },
    Figure {
        name: "thesis-figure5.7",
        title: "Prefetch policies: keys of 32 bytes, nodes 67 % full",
        source: "Jónsson 2006, Figure 5.7",
        seconds: (4, 40),
        run: policies::two_thirds,
    },
    Figure {
        name: "thesis-figure5.8",
        title: "Prefetch policies: keys of 64 bytes, nodes 50 % full",
        source: "Jónsson 2006, Figure 5.8",
        seconds: (5, 40),
        run: policies::half,
    },
    Figure {
        name: "thesis-figure5.9",
        title: "Searches and comparisons",
        source: "Jónsson 2006, Figure 5.9",
        seconds: (9, 60),
        run: searches::comparisons,
    },
    Figure {
        name: "thesis-table6.1",
        title: "What prefetching is worth to queries",
        source: "Jónsson 2006, Tables 6.1 and 6.2",
        seconds: (12, 90),
        run: prefetching::speedups,
    },
    Figure {
        name: "thesis-table6.3",
        title: "What jump-pointer arrays cost insertions",
        source: "Jónsson 2006, Table 6.3",
        seconds: (3, 40),
        run: arrays::costs,
    },
];
