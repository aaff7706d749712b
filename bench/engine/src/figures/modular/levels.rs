//! Trees whose levels differ: Figures 8 to 10. Node sizes are the paper's, those of the keys: see `single`.

use fpbtree_engine::cache::modular::{Interpolation, Linear, Sentinels, Sorted, Unsorted};
use fpbtree_lab::figure::{Claim, Outcome, Panel, Run};
use fpbtree_lab::memory::modular::{Lab, Level, Selected};
use fpbtree_lab::search::{Hybrid, HybridInterpolation};

use super::map::{New, appending, inside};
use super::measure::{DELETE, GET, OPERATIONS, PUT, Rates, Workload, bars, charts, measure, peak, sweep};
use super::{claim, gain, missing};

/// Inner nodes of 512 bytes of keys, and a root of twice that.
type Inner = Level<Sorted<Linear>, 1024>;
type Small = Level<Sorted<Linear>, 2048>;
/// Leaves of 512 bytes of keys.
type Leaf = Level<Unsorted, 1536>;
/// A root with room for all.
type Large<S> = Level<Sorted<S>, { 256 << 10 }>;

/// Bytes of keys in a leaf.
const SIZES: [f64; 5] = [128.0, 256.0, 512.0, 1024.0, 2048.0];
const SORTED: usize = 0;
const UNSORTED: usize = 1;
const UNIQUE: usize = 2;

macro_rules! with_leaves {
    ($($leaf:literal),*) => {
        [$(vec![
            inside::<u32, Selected<Level<Sorted<Linear>, $leaf>, Inner, Small>> as New<u32>,
            inside::<u32, Selected<Level<Unsorted, $leaf>, Inner, Small>>,
            appending::<u32, Selected<Level<Unsorted, $leaf>, Inner, Small>, $leaf>,
        ]),*]
    };
}

/// Leaves over their sizes: sorted, unsorted, and unsorted where keys are known to be new.
pub fn figure8(run: &mut Run) -> Outcome {
    let work = Workload::of(run);
    let rates = sweep(run, &work, &with_leaves![384, 768, 1536, 3072, 6144]);
    let names = ["sorted", "unsorted", "unsorted, keys known to be new"];
    let panels = charts(&work.title(), "bytes of keys in a leaf", &SIZES, &names, &rates);
    let against = |at: usize, other: usize, operation: usize| {
        let [ours, its] = [at, other].map(|at| peak(&SIZES, &rates, at, operation));
        (ours.1 / its.1, format!(" (at {} and {} bytes)", ours.0, its.0))
    };
    let faster = |what: &str, (ratio, at): (f64, String), whys: [&str; 2]| {
        claim(what, "faster", format!("{:+.1} %{at}", 100.0 * (ratio - 1.0)), ratio > 1.0, whys)
    };
    let (ratio, at) = against(UNSORTED, SORTED, PUT);
    let claims = vec![
        gain(
            "put: unsorted leaves against sorted ones, best sizes",
            1.395,
            ratio,
            &at,
            [
                "An unsorted leaf moves nothing to insert.",
                "Moving a few hundred bytes within a leaf takes less than waiting for the leaf.",
            ],
        ),
        faster(
            "get: sorted leaves against unsorted ones, best sizes",
            against(SORTED, UNSORTED, GET),
            [
                "Sorted leaves are fuller and therefore fewer.",
                "The engine's kernel looks at all keys of a leaf at once, sorted or not.",
            ],
        ),
        faster(
            "delete: unsorted leaves against sorted ones, best sizes",
            against(UNSORTED, SORTED, DELETE),
            [
                "An unsorted leaf moves one entry into the gap.",
                "Moving what follows in a leaf takes less than waiting for the leaf.",
            ],
        ),
        faster(
            "put: keys known to be new against those to be looked for, best sizes",
            against(UNIQUE, UNSORTED, PUT),
            [
                "An insert that need not look for its key touches one line of keys and one of values.",
                "The leaf's lines come together, whether one is asked for or all.",
            ],
        ),
    ];
    Outcome { panels, claims }
}

const ROOTS: [&str; 5] = [
    "linear search on all levels",
    "hybrid binary search in a large root",
    "hybrid interpolation in a large root",
    "interpolation of four lines (the engine's)",
    "interpolation among sentinels (the engine's)",
];
const MADE: [New<u32>; 5] = [
    inside::<u32, Selected<Leaf, Inner, Small>>,
    inside::<u32, Selected<Leaf, Inner, Large<Lab<Hybrid>>>>,
    inside::<u32, Selected<Leaf, Inner, Large<Lab<HybridInterpolation>>>>,
    inside::<u32, Selected<Leaf, Inner, Large<Interpolation>>>,
    inside::<u32, Selected<Leaf, Inner, Large<Sentinels<Interpolation>>>>,
];

/// The root's search.
pub fn figure9(run: &mut Run) -> Outcome {
    let work = Workload::of(run);
    let (panel, mut claims) = roots(run, &work, MADE.len());
    claims.push(missing(
        "get and put in two levels, a root above the leaves",
        "3.526 and 0.422 million a second",
        "The engine's tree always has a level between root and leaves.",
    ));
    Outcome { panels: vec![panel], claims }
}

/// The same, for twice as many pairs: without sentinels.
pub fn figure10(run: &mut Run) -> Outcome {
    let work = Workload::sized(run, 4_000_000, 32_000_000);
    let (panel, claims) = roots(run, &work, 3);
    Outcome { panels: vec![panel], claims }
}

/// The first so many of [`MADE`].
fn roots(run: &mut Run, work: &Workload<u32>, count: usize) -> (Panel, Vec<Claim>) {
    let measured = measure(run, 0.0..1.0, work, &MADE[..count]);
    let rates: Vec<Rates> = measured.into_iter().map(|one| one.rates).collect();
    let (linear, binary, interpolation) = (0, 1, 2);
    let says = |other: usize, operation: usize| {
        let ahead = rates[interpolation][operation] / rates[other][operation];
        (ahead > 1.0, format!("{:+.1} %", 100.0 * (ahead - 1.0)))
    };
    let versus = |(other, name): (usize, &str)| {
        let (holds, says) = says(other, GET);
        claim(
            &format!("get: hybrid interpolation in the root against {name}"),
            "faster, more so with more pairs",
            says,
            holds,
            [
                "A guess or two lead to the right line of a large root of random keys.",
                "The root is always in a cache, where a step of binary search or a level of small nodes takes a few \
             nanoseconds, and interpolation divides.",
            ],
        )
    };
    let mut claims: Vec<Claim> =
        [(linear, "linear search on all levels"), (binary, "hybrid binary search")].map(versus).into();
    let lost = [PUT, DELETE]
        .map(|operation| (OPERATIONS[operation], rates[interpolation][operation] / rates[linear][operation]));
    let says = lost.map(|(what, ahead)| format!("{what} {:+.1} %", 100.0 * (ahead - 1.0))).join(", ");
    claims.push(claim(
        "put and delete: the large root against small nodes on all levels",
        "slightly slower",
        says,
        lost.iter().any(|lost| lost.1 < 1.0),
        [
            "Every split of an inner node moves half of a large root.",
            "The root changes once in thousands of puts, so that the search outweighs what is moved.",
        ],
    ));
    (bars(&work.title(), &ROOTS[..count], &rates), claims)
}
