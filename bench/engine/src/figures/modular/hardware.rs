//! Large pages and prefetching by level, and all of it together: Figures 11 to 13.

use fpbtree_engine::cache::modular::{Best, Interpolation, Linear, Modules, Sorted, Unsorted};
use fpbtree_lab::figure::{Axis, Claim, Outcome, Panel, Run};
use fpbtree_lab::memory::modular::{Hinted, Lab, Level, Nothing, Scalar, Selected};
use fpbtree_lab::memory::pb::hint::{Nta, T0, T1, T2};
use fpbtree_lab::search::LinearSimd;

use super::map::{HAS_ABSEIL, New, abseil, appending, beside, inside, standard};
use super::measure::{DELETE, GET, PUT, Rates, Workload, bars, measure, sweep};
use super::{claim, gain, missing};

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
    let by_pages = |(with, operation, what, paper): (usize, usize, &str, f64)| {
        let differs = if measured[with].large_pages < 1.0 {
            "The system gave none: the levels are too small for one, or it has none to give."
        } else {
            "Most of the time goes into waiting for the lines themselves, whose translations come from caches."
        };
        let agrees = "Fewer addresses have to be translated by reading tables in memory.";
        gain(what, paper, rates[with][operation] / rates[0][operation], "", [agrees, differs])
    };
    let claims = [
        (1, 0, "get: large pages for inner nodes against none", 1.028),
        (2, 0, "get: large pages for all levels against none", 1.232),
        (2, 1, "put: large pages for all levels against none", 1.177),
        (2, 2, "put of new keys: large pages for all levels against none", 1.151),
    ];
    let counters = missing(
        "misses of the address translation caches (millions)",
        "120 first-level, 30 second-level; with large pages for inner nodes no first-level ones",
        "Counters of the processor are not read: virtual machines seldom have them.",
    );
    Outcome { panels: vec![throughput, given], claims: claims.map(by_pages).into_iter().chain([counters]).collect() }
}

/// What has its identifiers prefetched. (In the paper the root always has, except in the first.)
const PREFETCHED: [&str; 4] = ["nothing", "root", "inner nodes", "inner nodes (t0) and leaves"];
const HINTS: [&str; 4] = ["t0", "t1", "t2", "nta"];

macro_rules! hinted {
    ($hint:ty) => {{
        type Middle = Inner<true, Hinted<Linear, T0>>;
        vec![
            inside::<u32, Selected<Leaf, Inner, Root>> as New<u32>,
            inside::<u32, Selected<Leaf, Inner, Root<true, Hinted<Interpolation, $hint>>>>,
            inside::<u32, Selected<Leaf, Inner<true, Hinted<Linear, $hint>>, Root>>,
            inside::<u32, Selected<Leaf<true, Hinted<Unsorted, $hint>>, Middle, Root>>,
        ]
    }};
}

/// Gets where identifiers are prefetched, by level and hint.
pub fn figure12(run: &mut Run) -> Outcome {
    let work = Workload::sized(run, 1_000_000, 16_000_000);
    let groups = [hinted!(T0), hinted!(T1), hinted!(T2), hinted!(Nta)];
    let rates = sweep(run, &work, &groups);
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
    let (root_hint, root) = best(1, 0);
    let (inner_hint, inner) = best(2, 0);
    let (leaf_hint, leaves) = best(3, 2);
    let says = format!("{:+.1} % ({leaf_hint})", 100.0 * (leaves - 1.0));
    let claims = vec![
        claim(
            "get: identifiers of the root prefetched, best hint",
            "no significant difference",
            format!("{:+.1} % ({root_hint})", 100.0 * (root - 1.0)),
            (root - 1.0).abs() < 0.05,
            [
                "The root's identifiers are in a cache near the processor anyway.",
                "All of the root's identifiers are asked for, hundreds of lines of which one is needed.",
            ],
        ),
        gain(
            "get: identifiers of inner nodes prefetched, best hint",
            1.1,
            inner,
            &format!(" ({inner_hint})"),
            [
                "An identifier's line comes while the keys are searched.",
                "Inner nodes stay in the last cache, which is much larger than the paper's, and from where a line comes soon.",
            ],
        ),
        claim(
            "get: identifiers of leaves prefetched too, best hint",
            "slower",
            says,
            leaves < 1.0,
            [
                "All identifiers of a leaf are asked for where one is needed, and push others out of the caches.",
                "A leaf is in no cache: its keys and its identifiers are waited for together instead of one after the other, \
             and the lines that are not needed cost little.",
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
    let work = Workload::sized(run, 2_000_000, 6_000_000);
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
        let [steps, engine] = [6, 7].map(|at: usize| rates[at][operation] / rates[0][operation]);
        let what = format!("{what}: all the paper's steps together, against {typical}");
        let at = format!(" (the engine's selection {:+.1} %)", 100.0 * (engine - 1.0));
        gain(
            &what,
            paper,
            steps,
            &at,
            [
                "Denser nodes, nothing moved in leaves, and large pages add up.",
                "A leaf's keys, its identifiers and the pair are waited for one after the other, where the typical tree's leaf \
             has all three; only fetching leaves whole, as the engine does, takes one of these waits away.",
            ],
        )
    };
    let claims = [(GET, "get", 2.453), (PUT, "put", 3.186), (DELETE, "delete", 2.564)].map(ahead).into();
    Outcome { panels: vec![bars(&format!("pairs of 32 bytes, {}", work.title()), &STEPS, &rates)], claims }
}
