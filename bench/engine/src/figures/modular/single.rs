//! Trees whose levels are all the same: Figures 4 to 7.
//!
//! The paper's node size is that of the keys; identifiers are elsewhere. Here they are in the node too, so that for
//! keys of four bytes a leaf is three times that size, and an inner node twice.

use fpbtree_engine::cache::modular::{Linear, Sorted};
use fpbtree_lab::figure::{Outcome, Run};
use fpbtree_lab::memory::modular::{Lab, Level, Scalar, Selected};
use fpbtree_lab::search::{Binary, LinearSimd};

use super::map::{HAS_ABSEIL, Key, New, abseil, beside, inside, standard};
use super::measure::{DELETE, GET, PUT, Rates, Workload, bars, charts, measure, peak, sweep, title};
use super::{claim, gain};

type All<O, const LEAF: usize, const INNER: usize, const ROOT: usize> =
    Selected<Level<O, LEAF>, Level<O, INNER>, Level<O, ROOT>>;

/// Bytes of keys in a node.
const SIZES: [f64; 5] = [128.0, 256.0, 512.0, 1024.0, 2048.0];

/// Maps of nodes of all [`SIZES`].
macro_rules! of_all_sizes {
    ($made:ident, $order:ty $(, $value:literal)?) => {
        [
            $made::<u32, All<$order, 384, 256, 512> $(, $value)?> as New<u32>,
            $made::<u32, All<$order, 768, 512, 1024> $(, $value)?>,
            $made::<u32, All<$order, 1536, 1024, 2048> $(, $value)?>,
            $made::<u32, All<$order, 3072, 2048, 4096> $(, $value)?>,
            $made::<u32, All<$order, 6144, 4096, 8192> $(, $value)?>,
        ]
    };
}

/// What is compared in Figures 4 and 5; without Abseil's headers, the first two.
const COMPARED: [&str; 3] = ["modular, linear search, pairs beside", "BTreeMap", "Abseil's B-tree"];
const MODULAR: usize = 0;

/// The names of what is compared, and the place of the typical tree.
fn compared() -> (&'static [&'static str], usize) {
    let count = 2 + usize::from(HAS_ABSEIL);
    (&COMPARED[..count], count - 1)
}

/// What stands for the paper's typical tree.
fn typical() -> &'static str {
    if HAS_ABSEIL { "Abseil's B-tree" } else { "BTreeMap, as Abseil's headers were missing," }
}

/// Pairs of 32 bytes over node sizes.
pub fn figure4(run: &mut Run) -> Outcome {
    let work = Workload::of(run);
    let modular = of_all_sizes!(beside, Sorted<Scalar>, 28);
    let others = [
        abseil::<u32, 28, 128>(),
        abseil::<u32, 28, 256>(),
        abseil::<u32, 28, 512>(),
        abseil::<u32, 28, 1024>(),
        abseil::<u32, 28, 2048>(),
    ];
    let groups: Vec<Vec<New<u32>>> = (modular.into_iter().zip(others))
        .map(|(modular, other)| [modular, standard::<u32, 28>].into_iter().chain(other).collect())
        .collect();
    let rates = sweep(run, &work, &groups);
    let (names, other) = compared();
    let title = format!("pairs of 32 bytes, {}", work.title());
    let panels = charts(&title, "bytes of a node", &SIZES, names, &rates);
    let ahead = |(what, operation, paper): (&str, usize, f64)| {
        let [ours, its] = [MODULAR, other].map(|at| peak(&SIZES, &rates, at, operation));
        let what = format!("{what}: the modular tree against {}, best sizes", typical());
        let at = format!(" (at {} and {} bytes)", ours.0, its.0);
        let differs = if operation == GET {
            "The pair is beside the tree, and waited for after the leaf, where the typical tree's leaf has it."
        } else {
            "Moving pairs within a node takes little beside waiting for memory, so that denser nodes save less."
        };
        let whys = ["Nodes without values hold more entries, and less is moved.", differs];
        gain(&what, paper, ours.1 / its.1, &at, whys)
    };
    let paper = [("get", GET, 2.460 / 1.851), ("put", PUT, 1.901 / 1.225), ("delete", DELETE, 2.046 / 1.564)];
    Outcome { panels, claims: paper.map(ahead).into() }
}

/// Bytes of a pair.
const PAIRS: [f64; 4] = [8.0, 16.0, 32.0, 64.0];

/// Sizes of pairs: the modular tree of 256-byte nodes, the typical one of 512.
pub fn figure5(run: &mut Run) -> Outcome {
    type Modular = All<Sorted<Scalar>, 768, 512, 1024>;
    let work = Workload::sized(run, 1_000_000, 8_000_000);
    let modular: [New<u32>; 4] =
        [beside::<u32, Modular, 4>, beside::<u32, Modular, 12>, beside::<u32, Modular, 28>, beside::<u32, Modular, 60>];
    let standard: [New<u32>; 4] = [standard::<u32, 4>, standard::<u32, 12>, standard::<u32, 28>, standard::<u32, 60>];
    let others =
        [abseil::<u32, 4, 512>(), abseil::<u32, 12, 512>(), abseil::<u32, 28, 512>(), abseil::<u32, 60, 512>()];
    let groups: Vec<Vec<New<u32>>> = (modular.into_iter().zip(standard).zip(others))
        .map(|((modular, standard), other)| [modular, standard].into_iter().chain(other).collect())
        .collect();
    let rates = sweep(run, &work, &groups);
    let (names, other) = compared();
    let kept = |at: usize, operation: usize| rates[PAIRS.len() - 1][at][operation] / rates[0][at][operation];
    let claims = [("get", GET), ("put", PUT)].map(|(what, operation)| {
        let [ours, its] = [MODULAR, other].map(|at| kept(at, operation));
        let what = format!("{what}: what throughput falls to from pairs of 8 bytes to pairs of 64");
        claim(&what, "little in the modular tree, much in the typical", format!("{ours:.2} modular, {its:.2} {}", typical()), ours > its, [
            "Values beside the tree change nothing in its nodes.",
            "The modular tree's nodes stay the same, but its array of pairs outgrows caches and address translation as \
             the typical tree does.",
        ])
    });
    let panels = charts(&work.title(), "bytes of a pair", &PAIRS, names, &rates);
    Outcome { panels, claims: claims.into() }
}

/// Pairs where one tree is measured alone: even the few are more than caches hold.
const FEW: usize = 4_000_000;
const MANY: usize = 16_000_000;

/// Types of keys, in nodes of 256 bytes of keys.
pub fn figure6(run: &mut Run) -> Outcome {
    type Four = All<Sorted<Scalar>, 768, 512, 1024>;
    type Eight = All<Sorted<Scalar>, 512, 384, 768>;
    type Sixteen = All<Sorted<Scalar>, 384, 320, 640>;
    fn alone<K: Key>(run: &mut Run, nth: u32, made: New<K>) -> Rates {
        let work = Workload::sized(run, FEW, MANY);
        measure(run, f64::from(nth) / 5.0..f64::from(nth + 1) / 5.0, &work, &[made])[0].rates
    }
    let rates = [
        alone(run, 0, inside::<u32, Four>),
        alone(run, 1, inside::<f32, Four>),
        alone(run, 2, inside::<u64, Eight>),
        alone(run, 3, inside::<f64, Eight>),
        alone(run, 4, inside::<u128, Sixteen>),
    ];
    let names = ["integer, 4 bytes", "float, 4 bytes", "integer, 8 bytes", "float, 8 bytes", "integer, 16 bytes"];
    let title = format!("nodes of 256 bytes, linear search, {}", title(run.number("pairs", FEW, MANY)));
    let [small, float, large] = [0, 1, 2].map(|at: usize| rates[at][GET]);
    let type_matters = (float / small - 1.0).abs();
    let size_matters = 1.0 - large / small;
    let says = format!("floats {:+.0} %, eight bytes {:+.0} %", 100.0 * (float / small - 1.0), -100.0 * size_matters);
    let claims = vec![claim(
        "get, by type and size of keys, against integers of 4 bytes",
        "size matters more than type",
        says,
        size_matters > type_matters,
        [
            "A float is held as an integer of the same order, which takes three instructions; wide keys halve what a node and a \
         cache line hold.",
            "A float is held as an integer of the same order, which takes three instructions; wider keys halve what a node \
         holds, but linear search goes through half as many, too.",
        ],
    )];
    Outcome { panels: vec![bars(&title, &names, &rates)], claims }
}

const SEARCHES: [&str; 6] =
    ["linear", "linear, 128 bits", "linear, 256 bits", "linear, 512 bits", "counting (the engine's)", "binary"];

/// Searches, the same on all levels, over node sizes.
pub fn figure7(run: &mut Run) -> Outcome {
    let work = Workload::sized(run, 1_000_000, 8_000_000);
    let made = [
        of_all_sizes!(inside, Sorted<Scalar>),
        of_all_sizes!(inside, Sorted<Lab<LinearSimd<128>>>),
        of_all_sizes!(inside, Sorted<Lab<LinearSimd<256>>>),
        of_all_sizes!(inside, Sorted<Lab<LinearSimd<512>>>),
        of_all_sizes!(inside, Sorted<Linear>),
        of_all_sizes!(inside, Sorted<Lab<Binary>>),
    ];
    let groups: Vec<Vec<New<u32>>> = (0..SIZES.len()).map(|size| made.iter().map(|of| of[size]).collect()).collect();
    let rates = sweep(run, &work, &groups);
    let panels = charts(&work.title(), "bytes of keys in a node", &SIZES, &SEARCHES, &rates);
    let best = |at: usize, operation: usize| peak(&SIZES, &rates, at, operation);
    let (linear, wide, binary) = (0, 2, 5);
    let by_vectors = |(what, operation, paper): (&str, usize, f64)| {
        let [plain, vectors] = [linear, wide].map(|at| best(at, operation));
        let what = format!("{what}: vectors of 256 bits against plain linear search, best sizes");
        let at = format!(" (at {} and {} bytes)", vectors.0, plain.0);
        let whys = [
            "Eight keys are compared at once, so that larger nodes pay.",
            "In small nodes plain linear search looks at few keys, which takes little of the time that is waited for memory.",
        ];
        gain(&what, paper, vectors.1 / plain.1, &at, whys)
    };
    let mut claims = vec![by_vectors(("get", GET, 1.377)), by_vectors(("put", PUT, 1.062))];
    let [vectors, halves] = [wide, binary].map(|at| best(at, GET));
    let says = format!("{:.2} x ({} and {} bytes)", vectors.1 / halves.1, vectors.0, halves.0);
    claims.push(claim("get: vectors of 256 bits against binary search, best sizes", "faster", says, vectors.1 > halves.1, [
        "Linear search asks for neighbouring lines, which arrive together; binary search's come one after the other.",
        "Binary search here has no branches to be foreseen, as the paper's had, and needs fewer lines of a large node.",
    ]));
    let [get, put] = [GET, PUT].map(|operation| best(wide, operation).0);
    claims.push(claim(
        "best node size, get and put, vectors of 256 bits",
        "512 and 256 bytes",
        format!("{get} and {put} bytes"),
        put <= get,
        [
            "Inserting moves what follows in the node, so that puts want nodes no larger than gets do.",
            "Fewer levels save a put more than what it moves in a larger node costs.",
        ],
    ));
    Outcome { panels, claims }
}
