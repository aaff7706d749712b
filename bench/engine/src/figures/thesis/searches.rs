//! Linear and binary search, and comparisons (thesis §5.4, Figure 5.9); and the searches of 32-bit keys.

use fpbtree_lab::compare::{BinaryBy, Inlined, LinearBy, Memcmp, Words};
use fpbtree_lab::figure::{Claim, Outcome, Run};
use fpbtree_lab::memory::pb::hint::T0;
use fpbtree_lab::memory::pb::policy::Linear;
use fpbtree_lab::search::{self, Counting, Hybrid, HybridInterpolation, LinearSimd, Search};

use super::workload::{self, Tree, Use, Work, excess, over_widths, percent, typical};

/// The keys of Figure 5.9.
type Key = [u8; 16];
const NAMES: [&str; 6] = [
    "binary, words",
    "binary, memcmp",
    "binary, memcmp inlined",
    "linear, words",
    "linear, memcmp",
    "linear, memcmp inlined",
];
/// What does not count as a difference.
const NOISE: f64 = 0.01;

type Times = [f64; NAMES.len()];
type Measure = fn(&Run, &Work<Key>) -> Times;

/// Figure 5.9.
pub fn comparisons(run: &mut Run) -> Outcome {
    let work = Work::of_mode(run);
    let times = workload::at_widths(run, (0, 2), &workload::widths!(of_width), |run, measure| measure(run, &work));
    drop(work);
    let kernels = kernels::times(run);
    let panels = vec![
        over_widths("Queries, keys of 16 bytes", "ns per query", NAMES, &times),
        over_widths("Queries, keys of 32 bits: the lab's searches", "ns per query", kernels::NAMES, &kernels),
    ];
    Outcome { panels, claims: vec![comparison_claim(&times), search_claim(&times), kernel_claim(&kernels)] }
}

fn of_width<const W: usize>(run: &Run, work: &Work<Key>) -> Times {
    let uses: [Use<W, Key>; NAMES.len()] = [
        workload::queries::<W, Key, BinaryBy<Words>, Linear, T0>,
        workload::queries::<W, Key, BinaryBy<Memcmp>, Linear, T0>,
        workload::queries::<W, Key, BinaryBy<Inlined>, Linear, T0>,
        workload::queries::<W, Key, LinearBy<Words>, Linear, T0>,
        workload::queries::<W, Key, LinearBy<Memcmp>, Linear, T0>,
        workload::queries::<W, Key, LinearBy<Inlined>, Linear, T0>,
    ];
    workload::medians(run, Tree::load(&work.pairs, 1.0, 0), work, uses)
}

/// That comparing words is faster than `memcmp`.
fn comparison_claim(times: &[(usize, Times)]) -> Claim {
    let (called, inlined) = (excess(times, 1, 0), excess(times, 2, 0));
    let holds = typical(&called) > NOISE;
    let why = if holds {
        "A call for each comparison costs more than the comparison; where the compiler knows the length it makes the words' \
         code of memcmp by itself."
    } else {
        "Today's memcmp compares vectors, and its call is foreseen."
    };
    Claim {
        what: "binary search, memcmp takes more than words".to_owned(),
        paper: "significantly more".to_owned(),
        ours: format!("{} typically ({} inlined)", percent(typical(&called)), percent(typical(&inlined))),
        holds,
        why: why.to_owned(),
        ..Claim::default()
    }
}

/// That binary search is faster than linear search, and most in wide nodes.
fn search_claim(times: &[(usize, Times)]) -> Claim {
    let more = excess(times, 3, 0);
    let (narrow, wide) = (more[0], more[more.len() - 1]);
    let holds = more.iter().all(|more| *more > 0.0) && wide > narrow;
    let why = if holds {
        "What is read of a node grows with its width for linear search, and with the width's logarithm for binary search."
    } else {
        "Linear search goes on to keys that are known beforehand, and its branch is foreseen until the last time; of the \
         branches of a binary search one in two is not, and a wrong guess costs as much as many comparisons."
    };
    Claim {
        what: "linear search takes more than binary, nodes of 4 and of 32 lines".to_owned(),
        paper: "always, and much more in large nodes".to_owned(),
        ours: format!("{} and {}", percent(narrow), percent(wide)),
        holds,
        why: why.to_owned(),
        ..Claim::default()
    }
}

/// Searches of 32-bit keys, among them those with vectors, which the Itanium did not have.
mod kernels {
    use super::*;

    pub const NAMES: [&str; 8] = [
        search::Binary::NAME,
        search::Linear::NAME,
        Counting::NAME,
        <Hybrid as Search>::NAME,
        <HybridInterpolation as Search>::NAME,
        LinearSimd::<128>::NAME,
        LinearSimd::<256>::NAME,
        LinearSimd::<512>::NAME,
    ];

    pub type Times = [f64; NAMES.len()];
    type Measure = fn(&Run, &Work<u32>) -> Times;

    pub fn times(run: &mut Run) -> Vec<(usize, Times)> {
        let work = Work::of_mode(run);
        workload::at_widths(run, (1, 2), &workload::widths!(of_width), |run, measure| measure(run, &work))
    }

    fn of_width<const W: usize>(run: &Run, work: &Work<u32>) -> Times {
        let uses: [Use<W, u32>; NAMES.len()] = [
            workload::queries::<W, u32, search::Binary, Linear, T0>,
            workload::queries::<W, u32, search::Linear, Linear, T0>,
            workload::queries::<W, u32, Counting, Linear, T0>,
            workload::queries::<W, u32, Hybrid, Linear, T0>,
            workload::queries::<W, u32, HybridInterpolation, Linear, T0>,
            workload::queries::<W, u32, LinearSimd<128>, Linear, T0>,
            workload::queries::<W, u32, LinearSimd<256>, Linear, T0>,
            workload::queries::<W, u32, LinearSimd<512>, Linear, T0>,
        ];
        workload::medians(run, Tree::load(&work.pairs, 1.0, 0), work, uses)
    }
}

/// Which search of 32-bit keys is best over all widths.
fn kernel_claim(times: &[(usize, kernels::Times)]) -> Claim {
    let ahead = |other| typical(&excess(times, 0, other));
    let best = (1..kernels::NAMES.len()).max_by(|a, b| ahead(*a).total_cmp(&ahead(*b))).expect("other searches");
    let holds = ahead(best) <= NOISE;
    let why = if holds {
        "A node waits for memory longer than any search of it takes."
    } else {
        "Comparing many keys at a time takes fewer steps that wait for each other than halving."
    };
    Claim {
        what: format!("keys of 32 bits: binary search takes more than the best other, {}", kernels::NAMES[best]),
        paper: "binary search is best".to_owned(),
        ours: format!("{} typically", percent(ahead(best))),
        holds,
        why: why.to_owned(),
        ..Claim::default()
    }
}
