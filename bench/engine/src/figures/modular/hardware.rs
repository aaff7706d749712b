//! Large pages and prefetching by level, and all of it together: Figures 11 to 13.

use fpbtree_engine::hot::modular::{Best, Interpolation, Linear, Modules, Sorted, Unsorted};
use fpbtree_lab::figure::{Axis, Claim, Outcome, Panel, Run};
use fpbtree_lab::memory::modular::{Hinted, Lab, Level, Nothing, Scalar, Selected};
use fpbtree_lab::memory::pb::hint::{Nta, T0, T1, T2};
use fpbtree_lab::search::LinearSimd;

use super::map::{HAS_ABSEIL, New, abseil, appending, beside, inside, standard};
use super::measure::{DELETE, GET, PUT, Rates, Workload, bars, measure};
use super::{claim, missing};

/// Levels of the paper's selection, on large pages or not: the sizes are those of 512 bytes of keys.
type Leaf<const LARGE: bool = true, O = Unsorted> = Level<O, 1536, Nothing, LARGE>;
type Inner<const LARGE: bool = true, S = Linear> = Level<Sorted<S>, 1024, Nothing, LARGE>;
type Root<const LARGE: bool = true, S = Interpolation> = Level<Sorted<S>, { 256 << 10 }, Nothing, LARGE>;
type Paged<const INNER: bool, const LEAF: bool> = Selected<Leaf<LEAF>, Inner<INNER>, Root<INNER>>;

/// Large pages for no level, for inner nodes and root, and for all.
pub fn figure11(run: &mut Run) -> Outcome {
    let work = Workload::of(run);
    let names = ["none", "inner nodes and root", "all"];
    let searched: [New<u32>; 3] =
        [inside::<u32, Paged<false, false>>, inside::<u32, Paged<true, false>>, inside::<u32, Paged<true, true>>];
    let unique: [New<u32>; 3] = [
        appending::<u32, Paged<false, false>, 1536>,
        appending::<u32, Paged<true, false>, 1536>,
        appending::<u32, Paged<true, true>, 1536>,
    ];
    let measured = measure(run, 0.0..0.5, &work, &searched);
    let appended = measure(run, 0.5..1.0, &work, &unique);
    let rates: Vec<[f64; 4]> = (measured.iter().zip(&appended))
        .map(|(one, other)| [one.rates[GET], one.rates[PUT], other.rates[PUT], one.rates[DELETE]])
        .collect();
    let throughput = Panel::Bars {
        title: format!("Large pages for: {}", work.title()),
        groups: ["get", "put", "put, keys known to be new", "delete"].map(str::to_owned).to_vec(),
        y: Axis::linear("million operations per second"),
        series: names.iter().zip(&rates).map(|(name, rates)| ((*name).to_owned(), rates.to_vec())).collect(),
    };
    let given = Panel::Table {
        title: "What the system gave".to_owned(),
        heading: ["large pages for", "MB of them"].map(str::to_owned).to_vec(),
        rows: names
            .iter()
            .zip(&measured)
            .map(|(name, one)| vec![(*name).to_owned(), format!("{:.0}", one.large_pages)])
            .collect(),
    };
    let none_given = measured[2].large_pages < 1.0;
    let gain = |(with, operation, what, paper): (usize, usize, &str, &str)| {
        let ahead = rates[with][operation] / rates[0][operation];
        let says = format!("{:+.1} %", 100.0 * (ahead - 1.0));
        let differs = if none_given {
            "The system gave no large pages."
        } else {
            "The inner nodes are few, and what translates their addresses stays in the processor; for leaves, small \
             pages' translations come from caches."
        };
        claim(
            what,
            paper,
            says,
            ahead > 1.0,
            ["Fewer addresses have to be translated by reading tables in memory.", differs],
        )
    };
    let claims = [
        (1, 0, "get: large pages for inner nodes against none", "+2.8 %"),
        (2, 0, "get: large pages for all levels against none", "+23.2 %"),
        (2, 1, "put: large pages for all levels against none", "+17.7 %"),
        (2, 2, "put of new keys: large pages for all levels against none", "+15.1 %"),
    ];
    let counters = missing(
        "misses of the address translation caches (millions)",
        "120 first-level, 30 second-level; with large pages for inner nodes no first-level ones",
        "Counters of the processor are not read: virtual machines seldom have them.",
    );
    Outcome { panels: vec![throughput, given], claims: claims.map(gain).into_iter().chain([counters]).collect() }
}

/// What has its identifiers prefetched.
const PREFETCHED: [&str; 4] =
    ["nothing", "root", "root (t0) and inner nodes", "root (t0), inner nodes (t0), and leaves"];
const HINTS: [&str; 4] = ["t0", "t1", "t2", "nta"];

macro_rules! hinted {
    ($hint:ty) => {{
        type Near = Root<true, Hinted<Interpolation, T0>>;
        type Middle = Inner<true, Hinted<Linear, T0>>;
        vec![
            inside::<u32, Selected<Leaf, Inner, Root>> as New<u32>,
            inside::<u32, Selected<Leaf, Inner, Root<true, Hinted<Interpolation, $hint>>>>,
            inside::<u32, Selected<Leaf, Inner<true, Hinted<Linear, $hint>>, Near>>,
            inside::<u32, Selected<Leaf<true, Hinted<Unsorted, $hint>>, Middle, Near>>,
        ]
    }};
}

/// Gets where identifiers are prefetched, by level and hint.
pub fn figure12(run: &mut Run) -> Outcome {
    let work = Workload::of(run);
    let groups = [hinted!(T0), hinted!(T1), hinted!(T2), hinted!(Nta)];
    let rates = super::measure::sweep(run, &work, &groups);
    let series = |(at, name): (usize, &&str)| ((*name).to_owned(), rates.iter().map(|of| of[at][GET]).collect());
    let panel = Panel::Bars {
        title: format!("get, by the identifiers that are prefetched: {}", work.title()),
        groups: HINTS.map(str::to_owned).to_vec(),
        y: Axis::linear("million gets per second"),
        series: PREFETCHED.iter().enumerate().map(series).collect(),
    };
    // Within a group, as its maps took turns.
    let best = |at: usize, than: usize| {
        let ahead = rates.iter().map(|of| of[at][GET] / of[than][GET]);
        HINTS.iter().zip(ahead).max_by(|a, b| a.1.total_cmp(&b.1)).expect("a hint")
    };
    let (hint, inner) = best(2, 1);
    let (leaf_hint, leaves) = best(3, 2);
    let says = |(hint, ahead): (&str, f64)| format!("{:+.1} % ({hint})", 100.0 * (ahead - 1.0));
    let claims = vec![
        claim(
            "get: identifiers of inner nodes prefetched, best hint",
            "about +10 %",
            says((hint, inner)),
            inner > 1.0,
            [
                "An identifier's line comes while the keys are searched.",
                "Inner nodes stay in the last cache, from where lines come sooner than a search of the keys ends.",
            ],
        ),
        claim(
            "get: identifiers of leaves prefetched too, best hint",
            "slower",
            says((leaf_hint, leaves)),
            leaves < 1.0,
            [
                "All identifiers of a leaf are asked for where one is needed, and push others out of the caches.",
                "A leaf is not in any cache, so that its keys and the identifier are waited for together instead of one after the \
             other; memory has the bandwidth for the lines that are not needed.",
            ],
        ),
    ];
    Outcome { panels: vec![panel], claims }
}

/// Step by step; the first without Abseil's headers is `BTreeMap`.
const STEPS: [&str; 8] = [
    "typical B+-tree",
    "modular, linear search, 256 bytes",
    "vectors of 256 bits, 512 bytes",
    "unsorted leaves",
    "interpolation in a large root",
    "large pages",
    "identifiers of inner nodes prefetched",
    "the engine's selection",
];

/// What the paper changed, one thing after the other; pairs of 32 bytes beside the tree.
pub fn figure13(run: &mut Run) -> Outcome {
    type Same<S, const LEAF: usize, const INNER: usize, const ROOT: usize> =
        Selected<Level<Sorted<S>, LEAF>, Level<Sorted<S>, INNER>, Level<Sorted<S>, ROOT>>;
    type Vectors = Lab<LinearSimd<256>>;
    type Middle<const LARGE: bool = true> = Inner<LARGE, Vectors>;
    fn pairs_beside<S: Modules + 'static>() -> New<u32> {
        beside::<u32, S, 28>
    }
    let work = Workload::sized(run, 1_000_000, 6_000_000);
    let made = [
        abseil::<u32, 28, 512>().unwrap_or(standard::<u32, 28>),
        pairs_beside::<Same<Scalar, 768, 512, 1024>>(),
        pairs_beside::<Same<Vectors, 1536, 1024, 2048>>(),
        pairs_beside::<Selected<Leaf<false>, Middle<false>, Level<Sorted<Vectors>, 2048>>>(),
        pairs_beside::<Selected<Leaf<false>, Middle<false>, Root<false>>>(),
        pairs_beside::<Selected<Leaf, Middle, Root>>(),
        pairs_beside::<Selected<Leaf, Inner<true, Hinted<Vectors, T0>>, Root>>(),
        pairs_beside::<Best>(),
    ];
    let rates: Vec<Rates> = measure(run, 0.0..1.0, &work, &made).into_iter().map(|one| one.rates).collect();
    let typical = if HAS_ABSEIL { "Abseil's B-tree of 512-byte nodes" } else { "BTreeMap" };
    let ahead = |(operation, what, paper): (usize, &str, f64)| -> Claim {
        let steps = rates[6][operation] / rates[0][operation];
        let engine = rates[7][operation] / rates[0][operation];
        let what = format!("{what}: all the paper's steps together, against {typical}");
        claim(
            &what,
            &format!("{paper:.2} x"),
            format!("{steps:.2} x; the engine's selection {engine:.2} x"),
            steps >= paper,
            [
                "Denser nodes, no moving in leaves, and large pages add up.",
                "The typical tree's compiler and this processor's wide execution have made up for much of it: both trees mostly \
             wait for memory, the modular one for an inner node, a leaf and the pair beside it.",
            ],
        )
    };
    let claims = [(GET, "get", 2.45), (PUT, "put", 3.19), (DELETE, "delete", 2.56)].map(ahead).into();
    Outcome { panels: vec![bars(&format!("pairs of 32 bytes, {}", work.title()), &STEPS, &rates)], claims }
}
