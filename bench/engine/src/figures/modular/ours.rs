//! The engine's own selection of modules: against other ordered maps, and against other selections. Keys and values of
//! eight bytes.

use fpbtree_engine::cache::modular::{Best, Binary, Interpolation, Linear, Sentinels, Sorted, Unsorted};
use fpbtree_lab::figure::{Claim, Outcome, Panel, Run};
use fpbtree_lab::memory::modular::{Level, OnlyKeys, Selected, Whole};

use super::map::{HAS_ABSEIL, New, abseil, inside, standard};
use super::measure::{OPERATIONS, Rates, Workload, bars, measure};

/// The goals: how many times the throughput of the better of the others.
const GOALS: Rates = [2.4, 3.0, 2.4];

/// The engine's tree beside other maps.
pub fn maps(run: &mut Run) -> Outcome {
    let work = Workload::<u64>::sized(run, 2_000_000, 16_000_000);
    let others = [Some(standard::<u64, 8> as New<u64>), abseil::<u64, 8, 256>()];
    let made: Vec<New<u64>> = [Some(inside::<u64, Best> as New<u64>)].into_iter().chain(others).flatten().collect();
    let rates: Vec<Rates> = measure(run, 0.0..1.0, &work, &made).into_iter().map(|one| one.rates).collect();
    let names = ["modular B+-tree", "std::collections::BTreeMap", "absl::btree_map"];
    let goal = |(operation, what): (usize, &&str)| {
        let better = rates[1..].iter().map(|of| of[operation]).fold(0.0, f64::max);
        let (ahead, goal) = (rates[0][operation] / better, GOALS[operation]);
        let others = if HAS_ABSEIL {
            "the better of BTreeMap and Abseil's"
        } else {
            "BTreeMap, as Abseil's headers were missing"
        };
        let why = if ahead >= goal {
            "An inner node and a leaf are waited for, and what is compared in them takes hardly longer."
        } else {
            "It waits for an inner node and then for a leaf, one after the other; nothing that leaves both waits is much faster."
        };
        Claim {
            what: format!("{what} against {others}"),
            paper: String::new(),
            goal: format!("{goal} x"),
            ours: format!("{ahead:.2} x"),
            holds: ahead >= goal,
            why: why.to_owned(),
        }
    };
    let claims = OPERATIONS.iter().enumerate().map(goal).collect();
    Outcome { panels: vec![bars(&format!("u64 to u64, {}", work.title()), &names[..made.len()], &rates)], claims }
}

type Large<O, const SIZE: usize, F = Whole> = Level<O, SIZE, F, true>;
type JumpPointers<const SIZE: usize> = Large<Unsorted, SIZE>;
type Inners<const SIZE: usize> = Large<Sorted<Sentinels<Linear>>, SIZE>;
type Roots<const SIZE: usize> = Large<Sorted<Sentinels<Interpolation>>, SIZE, OnlyKeys>;
type With<Leaf = JumpPointers<1024>, Inner = Inners<2048>, Root = Roots<262_144>> = Selected<Leaf, Inner, Root>;

/// Other selections, and how they differ from the engine's.
const OTHERS: [(&str, New<u64>); 12] = [
    ("leaf 512 B", inside::<u64, With<JumpPointers<512>>>),
    ("leaf 2 KB", inside::<u64, With<JumpPointers<2048>>>),
    ("leaf, only keys prefetched", inside::<u64, With<Large<Unsorted, 1024, OnlyKeys>>>),
    ("leaf sorted", inside::<u64, With<Large<Sorted<Linear>, 1024>>>),
    ("inner 1 KB", inside::<u64, With<JumpPointers<1024>, Inners<1024>>>),
    ("inner 4 KB", inside::<u64, With<JumpPointers<1024>, Inners<4096>>>),
    (
        "inner, only keys prefetched",
        inside::<u64, With<JumpPointers<1024>, Large<Sorted<Sentinels<Linear>>, 2048, OnlyKeys>>>,
    ),
    ("inner, binary search", inside::<u64, With<JumpPointers<1024>, Large<Sorted<Binary>, 2048>>>),
    ("inner without sentinels", inside::<u64, With<JumpPointers<1024>, Large<Sorted<Linear>, 2048>>>),
    ("root 64 KB", inside::<u64, With<JumpPointers<1024>, Inners<2048>, Roots<65_536>>>),
    ("root 1 MB", inside::<u64, With<JumpPointers<1024>, Inners<2048>, Roots<1_048_576>>>),
    ("root, binary search", inside::<u64, With<JumpPointers<1024>, Inners<2048>, Large<Sorted<Binary>, 262_144>>>),
];
/// Of the others, how many are in memory together, beside the engine's.
const GROUP: usize = 4;
/// More than this is clearly faster.
const CLEARLY: f64 = 1.1;

/// The engine's selection beside others, each compared with it in turns.
pub fn selections(run: &mut Run) -> Outcome {
    let work = Workload::<u64>::of(run);
    let groups = OTHERS.len() / GROUP;
    let relative: Vec<Rates> = (OTHERS.chunks(GROUP).enumerate())
        .flat_map(|(group, others)| {
            let made: Vec<New<u64>> =
                std::iter::once(inside::<u64, Best> as New<u64>).chain(others.iter().map(|other| other.1)).collect();
            let part = group as f64 / groups as f64..(group + 1) as f64 / groups as f64;
            let measured = measure(run, part, &work, &made);
            let best = measured[0].rates;
            measured.into_iter().skip(1).map(move |one| std::array::from_fn(|at| one.rates[at] / best[at]))
        })
        .collect();
    let names = OTHERS.map(|other| other.0);
    let mut panel = bars(
        &format!(
            "Others' throughput by that of the engine's selection (leaf 1 KB, inner 2 KB, root 256 KB): {}",
            work.title()
        ),
        &names,
        &relative,
    );
    if let Panel::Bars { y, .. } = &mut panel {
        y.label = "times the engine's".to_owned();
    }
    let claim = |(operation, what): (usize, &&str)| {
        let (name, most) = (names.iter().zip(&relative).map(|(name, of)| (name, of[operation])))
            .max_by(|a, b| a.1.total_cmp(&b.1))
            .expect("others");
        let holds = most <= CLEARLY;
        let why = if holds {
            "What helps this operation costs little more elsewhere."
        } else {
            "Another selection is better for this operation."
        };
        Claim {
            what: format!("{what}: the fastest other selection"),
            paper: String::new(),
            goal: format!("no more than {CLEARLY} x the engine's"),
            ours: format!("{most:.2} x ({name})"),
            holds,
            why: why.to_owned(),
        }
    };
    let claims = OPERATIONS.iter().enumerate().map(claim).collect();
    Outcome { panels: vec![panel], claims }
}
