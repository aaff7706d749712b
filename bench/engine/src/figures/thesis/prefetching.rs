//! What prefetching is worth to queries, by the size of keys, the width of nodes, how a tree came about, and how keys
//! are compared (thesis §6.1, Tables 6.1 and 6.2).

use fpbtree_lab::compare::{BinaryBy, Compare, Memcmp, Words};
use fpbtree_lab::figure::{Claim, Outcome, Panel, Run};
use fpbtree_lab::memory::latency::Latency;
use fpbtree_lab::memory::pb::hint::T0;
use fpbtree_lab::memory::pb::node;
use fpbtree_lab::memory::pb::policy::{Linear, NoPrefetch};
use fpbtree_lab::search::SearchOf;
use rand::SeedableRng;
use rand::distr::{Distribution, StandardUniform};
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;

use super::workload::{self, Tree, Use, Work, mean, percent};

/// How a tree comes about: by insertions, or loaded into nodes so full.
const BUILDS: [(&str, Option<f64>); 4] =
    [("insertions", None), ("loaded, 100 %", Some(1.0)), ("loaded, 67 %", Some(0.67)), ("loaded, 50 %", Some(0.5))];
/// Comparisons: Table 6.1 and Table 6.2.
const COMPARISONS: [&str; 2] = [Memcmp::NAME, Words::NAME];
/// Lines of the nodes whose speedups have a mean of their own.
const BEST: [usize; 3] = [6, 8, 12];

/// The thesis' speedups in hundredths: by comparison, build and size of keys; nodes of 6, 8 and 12 lines, and all.
const PAPER: [[[(f64, f64); 3]; 4]; 2] = [
    [
        [(13.0, 7.5), (16.7, 10.9), (21.7, 13.6)],
        [(10.0, 5.4), (10.7, 7.2), (11.7, 9.0)],
        [(9.0, 5.5), (10.3, 7.3), (11.7, 9.7)],
        [(7.3, 5.9), (9.3, 7.9), (13.0, 9.2)],
    ],
    [
        [(12.7, 6.3), (17.3, 9.8), (23.7, 13.3)],
        [(14.7, 6.5), (19.7, 13.4), (25.0, 17.6)],
        [(13.3, 6.6), (19.3, 13.3), (24.0, 16.8)],
        [(9.3, 6.4), (16.3, 13.0), (24.7, 16.4)],
    ],
];

/// Speedups of a width: by build and comparison.
type Speedups = [[f64; COMPARISONS.len()]; BUILDS.len()];
type Measure<K> = fn(&Run, &Work<K>, &[(K, u32)]) -> Speedups;

/// What was measured of keys of one size: the speedups at each width.
type OfSize = Vec<(usize, Speedups)>;

/// Tables 6.1 and 6.2.
pub fn speedups(run: &mut Run) -> Outcome {
    let latency = workload::latency();
    let sizes = [of_size::<[u8; 8]>(run, 0), of_size::<[u8; 16]>(run, 1), of_size::<[u8; 32]>(run, 2)];
    let panels = (0..COMPARISONS.len()).map(|comparison| panel(&sizes, comparison)).collect();
    Outcome { panels, claims: vec![worth(&sizes, latency), by_size(&sizes), by_comparison(&sizes)] }
}

fn of_size<K: node::Key>(run: &mut Run, part: usize) -> OfSize
where
    StandardUniform: Distribution<K>,
    BinaryBy<Words>: SearchOf<K>,
    BinaryBy<Memcmp>: SearchOf<K>,
{
    let work = Work::<K>::new(run.number("keys", 1_000_000, 4_000_000), run.number("queries", 20_000, 100_000));
    let mut shuffled = work.pairs.clone();
    shuffled.shuffle(&mut SmallRng::seed_from_u64(2006));
    let widths = workload::widths!(2 6 8 12 24 32: of_width K);
    workload::at_widths(run, (part, 3), &widths, |run, measure| measure(run, &work, &shuffled))
}

fn of_width<const W: usize, K: node::Key>(run: &Run, work: &Work<K>, shuffled: &[(K, u32)]) -> Speedups
where
    BinaryBy<Words>: SearchOf<K>,
    BinaryBy<Memcmp>: SearchOf<K>,
{
    let uses: [Use<W, K>; 4] = [
        workload::queries::<W, K, BinaryBy<Memcmp>, NoPrefetch, T0>,
        workload::queries::<W, K, BinaryBy<Memcmp>, Linear, T0>,
        workload::queries::<W, K, BinaryBy<Words>, NoPrefetch, T0>,
        workload::queries::<W, K, BinaryBy<Words>, Linear, T0>,
    ];
    BUILDS.map(|(_, fill)| {
        let tree = fill.map_or_else(|| inserted(shuffled), |fill| Tree::load(&work.pairs, fill, 0));
        let [none, linear, words_none, words_linear] = workload::medians(run, tree, work, uses);
        [none / linear - 1.0, words_none / words_linear - 1.0]
    })
}

fn inserted<const W: usize, K: node::Key>(pairs: &[(K, u32)]) -> Tree<W, K>
where
    BinaryBy<Words>: SearchOf<K>,
{
    let mut tree = Tree::load(&[], 1.0, 0).with::<BinaryBy<Words>, Linear, T0>();
    pairs.iter().for_each(|(key, id)| _ = tree.insert(*key, *id));
    tree.with()
}

/// Mean speedups of keys of one size: in nodes of the best widths, and of all.
fn means(widths: &OfSize, build: usize, comparison: usize) -> (f64, f64) {
    let speedups = |chosen: &dyn Fn(usize) -> bool| {
        let of_chosen = widths.iter().filter(|(width, _)| chosen(*width));
        mean(&of_chosen.map(|(_, speedups)| speedups[build][comparison]).collect::<Vec<_>>())
    };
    (speedups(&|width| BEST.contains(&width)), speedups(&|_| true))
}

fn panel(sizes: &[OfSize; 3], comparison: usize) -> Panel {
    let cells = |build: usize| {
        let of_sizes = sizes.iter().zip(PAPER[comparison][build]);
        of_sizes.flat_map(move |(widths, paper)| {
            let ours = means(widths, build, comparison);
            [format!("{} (+{} %)", percent(ours.0), paper.0), format!("{} (+{} %)", percent(ours.1), paper.1)]
        })
    };
    let rows = BUILDS
        .iter()
        .enumerate()
        .map(|(build, (name, _))| std::iter::once((*name).to_owned()).chain(cells(build)).collect());
    let best: Vec<String> =
        sizes[0].iter().map(|(width, _)| width).filter(|width| BEST.contains(width)).map(usize::to_string).collect();
    let of_size = |size| [format!("{size} B: {} lines (thesis: 6-8-12)", best.join("-")), "all (thesis)".to_owned()];
    let heading = std::iter::once("tree".to_owned()).chain([8, 16, 32].into_iter().flat_map(of_size));
    Panel::Table {
        title: format!("Speedup by prefetching, {} (Table 6.{})", COMPARISONS[comparison], comparison + 1),
        heading: heading.collect(),
        rows: rows.collect(),
    }
}

/// The mean over all trees of keys of some sizes, nodes of the best widths.
fn overall(sizes: &[OfSize], comparison: usize) -> f64 {
    let each = sizes.iter().flat_map(|widths| (0..BUILDS.len()).map(move |build| means(widths, build, comparison).0));
    mean(&each.collect::<Vec<_>>())
}

fn worth(sizes: &[OfSize; 3], latency: Latency) -> Claim {
    let (ours, paper) = (means(&sizes[1], 1, 1).0, PAPER[1][1][1].0 / 100.0);
    let holds = ours >= paper;
    let (first, node) = (latency.first, latency.node(BEST[1]));
    let why = if holds {
        format!(
            "A full miss takes {first:.0} ns, and a node of 8 lines that are asked for together {node:.0} ns, while each \
             step of a search that was not prepared is a miss of its own."
        )
    } else {
        format!(
            "A full miss takes {first:.0} ns, and a node of 8 lines that are asked for together {node:.0} ns, but much of a \
             tree of this size is in the caches."
        )
    };
    Claim {
        what: "speedup, keys of 16 bytes, nodes of 6 to 12 lines, full, compared by words".to_owned(),
        paper: percent(paper),
        ours: percent(ours),
        holds,
        why,
        ..Claim::default()
    }
}

fn by_size(sizes: &[OfSize; 3]) -> Claim {
    let ours = [0, 2].map(|size| overall(&sizes[size..=size], 1));
    let holds = ours[1] > ours[0];
    let why = if holds {
        "Longer keys make deeper trees of more lines, and so more misses to be overlapped."
    } else {
        "In nodes with few keys a binary search touches few lines, and prefetching asks for all of them."
    };
    Claim {
        what: "speedup, keys of 8 and of 32 bytes, compared by words".to_owned(),
        paper: "+12.5 % and +24.4 %".to_owned(),
        ours: format!("{} and {}", percent(ours[0]), percent(ours[1])),
        holds,
        why: why.to_owned(),
        ..Claim::default()
    }
}

fn by_comparison(sizes: &[OfSize; 3]) -> Claim {
    let ours = [0, 1].map(|comparison| overall(sizes, comparison));
    let holds = ours[1] > ours[0];
    let why = if holds {
        "The less a comparison takes, the more of a query is waiting, and the more there is to be saved."
    } else {
        "A search by words branches and goes on with a guess before a key has arrived, so it waits less without \
         prefetching; what memcmp says is selected by, not branched on, and has to be waited for."
    };
    Claim {
        what: "speedup with memcmp and with words".to_owned(),
        paper: "+12.0 % and +18.3 %".to_owned(),
        ours: format!("{} and {}", percent(ours[0]), percent(ours[1])),
        holds,
        why: why.to_owned(),
        ..Claim::default()
    }
}
