//! Throughput of reads and updates (§6, Figures 5 and 6).

use fpbtree_lab::figure::{Axis, Claim, Outcome, Panel, Run, Series};

use super::maps::{COMPARED, New, THREADED};
use super::workload::{Keys, asked, filled, throughputs};

const MILLIONS: &str = "million operations per second";

/// Throughputs at one size: of every map, at every rate of updates.
type AtSize<const R: usize> = (usize, Vec<[f64; R]>);

/// Figure 5: reads and updates, over the size of the map.
pub fn over_sizes(run: &mut Run) -> Outcome {
    let sizes: &[usize] =
        if run.full() { &[1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24] } else { &[1 << 16, 1 << 18, 1 << 20] };
    let compared: Vec<New> = COMPARED.into_iter().chain([THREADED]).collect();
    let [sequence, uniform] =
        [(Keys::Sequence, 0.0), (Keys::Uniform, 0.5)].map(|(keys, done)| of_keys(run, keys, sizes, &compared, done));
    let panel = |measured: &[AtSize<2>], keys: Keys, which: usize| {
        let series = compared.iter().enumerate().map(|(map, (name, _))| Series {
            name: (*name).to_owned(),
            points: measured.iter().map(|(size, maps)| (*size as f64, maps[map][which])).collect(),
        });
        Panel::Chart {
            title: format!("{}, {}", ["Reads", "Updates"][which], keys.name()),
            x: Axis::log("keys"),
            y: Axis::linear(MILLIONS),
            series: series.collect(),
        }
    };
    let panels = [0, 1]
        .into_iter()
        .flat_map(|which| [panel(&sequence, Keys::Sequence, which), panel(&uniform, Keys::Uniform, which)]);
    let claims = vec![
        reads_claim("sequence", &sequence),
        reads_claim("uniform", &uniform),
        updates_claim(&sequence),
        distribution_claim(&sequence, &uniform),
        hash_claim(&uniform),
        threads_claim(&uniform),
        ctrie(),
    ];
    Outcome { panels: panels.collect(), claims }
}

fn of_keys(run: &mut Run, keys: Keys, sizes: &[usize], compared: &[New], done: f64) -> Vec<AtSize<2>> {
    let mut measured = Vec::new();
    for (number, &size) in sizes.iter().enumerate() {
        run.done(done + 0.5 * number as f64 / sizes.len() as f64);
        let keys = keys.take(size);
        let mut maps: Vec<_> = compared.iter().map(|new| filled(*new, &keys).0).collect();
        let asked = asked(&keys, run.number("operations", 200_000, 400_000));
        measured.push((size, throughputs(run, &mut maps, &asked, [0, 100])));
    }
    measured
}

/// By how much one map's throughput is greater than another's, the least of all sizes.
fn least(measured: &[AtSize<2>], one: usize, other: usize, which: usize) -> f64 {
    let ratios = measured.iter().map(|(_, maps)| maps[one][which] / maps[other][which]);
    ratios.fold(f64::INFINITY, f64::min)
}

fn reads_claim(name: &str, measured: &[AtSize<2>]) -> Claim {
    let ratio = least(measured, 0, 1, 0);
    let holds = ratio > 1.0;
    let why = if holds {
        "A KISS-tree's lookup reads three words that depend on each other, a PT-4's one on each of up to eight levels and \
         the content node."
    } else {
        "In a small PT-4 all levels are in the caches, and none of its lookups has to announce itself to writers."
    };
    Claim {
        what: format!("reads, {name}: KISS-tree's throughput in PT-4's, least of all sizes"),
        paper: "more than 1".to_owned(),
        ours: format!("{ratio:.2}"),
        holds,
        why: why.to_owned(),
        ..Claim::default()
    }
}

fn updates_claim(sequence: &[AtSize<2>]) -> Claim {
    let (size, maps) = &sequence[sequence.len() - 1];
    let ratio = maps[1][1] / maps[0][1];
    let holds = ratio > 1.0;
    let why = if holds {
        "PT-4 writes one word where it is; the KISS-tree copies a node of 64 values, and swaps it in with the old one kept \
         for its readers. PT-4 here has no concurrent writers to care for, which the paper's had."
    } else {
        "The KISS-tree copies a node of 64 values, but PT-4 waits for more levels than that takes."
    };
    Claim {
        what: format!("updates, sequence of {size} keys: PT-4's throughput in the KISS-tree's"),
        paper: "more than 1: the highest of all".to_owned(),
        ours: format!("{ratio:.2}"),
        holds,
        why: why.to_owned(),
        ..Claim::default()
    }
}

fn distribution_claim(sequence: &[AtSize<2>], uniform: &[AtSize<2>]) -> Claim {
    let (size, maps) = &uniform[uniform.len() - 1];
    let ratio = maps[0][1] / sequence[sequence.len() - 1].1[0][1];
    let holds = ratio > 1.0;
    let why = if holds {
        "Nodes of a sequence have 64 values to be copied, those of uniform keys few."
    } else {
        "Nodes of uniform keys have few values to be copied, but each of them is in a cache line of its own that has to \
         come from memory, and a sequence's are near each other."
    };
    Claim {
        what: format!("updates, {size} keys: the KISS-tree's throughput of uniform keys in that of a sequence"),
        paper: "more than 1".to_owned(),
        ours: format!("{ratio:.2}"),
        holds,
        why: why.to_owned(),
        ..Claim::default()
    }
}

fn hash_claim(uniform: &[AtSize<2>]) -> Claim {
    let (size, maps) = &uniform[uniform.len() - 1];
    let ratio = maps[0][0] / maps[2][0];
    let holds = ratio >= 1.0;
    let why = if holds {
        "Both wait for memory, and the KISS-tree's batches wait for many keys at a time."
    } else {
        "A hash table looks at two places, the KISS-tree at three, of which even batches do not hide all."
    };
    Claim {
        what: format!("reads, {size} uniform keys: the KISS-tree's throughput in a hash table's"),
        paper: "about 1 is what it aims at".to_owned(),
        ours: format!("{ratio:.2}"),
        holds,
        why: why.to_owned(),
        ..Claim::default()
    }
}

fn threads_claim(uniform: &[AtSize<2>]) -> Claim {
    let (size, maps) = &uniform[uniform.len() - 1];
    let (processors, last) = (super::maps::threads(), maps.len() - 1);
    let ratios = [0, 1].map(|which| maps[last][which] / maps[0][which]);
    let holds = ratios.iter().all(|ratio| *ratio > 0.75 * processors as f64);
    let why = if holds {
        "Readers are lock-free, and writers meet only where they change the same node or take memory."
    } else {
        "Readers are lock-free; writers take memory and give it back under one lock, where each of the paper's threads \
         has free lists of its own."
    };
    Claim {
        what: format!("{size} uniform keys, {processors} threads: reads and updates in those of one"),
        paper: "scale with the cores (4 of them, Figure 12)".to_owned(),
        ours: format!("{:.2} and {:.2}", ratios[0], ratios[1]),
        holds,
        why: why.to_owned(),
        ..Claim::default()
    }
}

/// What the paper compares with, and the lab has not.
fn ctrie() -> Claim {
    Claim {
        what: "maps of the paper's that are measured".to_owned(),
        paper: "KISS-tree, PT-4, CTrie".to_owned(),
        ours: format!("KISS-tree, PT-4; {} others", COMPARED.len() - 2),
        holds: false,
        why: "The CTrie, which was last in the paper, is not among the lab's structures; hash table and modular B+-tree are \
              there in its place."
            .to_owned(),
        ..Claim::default()
    }
}

/// Updates in a hundred operations.
const RATES: [usize; 6] = [0, 20, 40, 60, 80, 100];
/// Maps of Figure 6.
const MIXED: [New; 3] = [COMPARED[0], COMPARED[1], THREADED];

/// Figure 6: throughput over the rate of updates.
pub fn over_rates(run: &mut Run) -> Outcome {
    let size = run.number("keys", 1 << 20, 1 << 22);
    let measured = [Keys::Uniform, Keys::Odd, Keys::Sequence].map(|distribution| {
        run.done(match distribution {
            Keys::Uniform => 0.0,
            Keys::Odd => 0.4,
            Keys::Sequence => 0.7,
        });
        let keys = distribution.take(size);
        let mut maps: Vec<_> = MIXED.iter().map(|new| filled(*new, &keys).0).collect();
        let asked = asked(&keys, run.number("operations", 200_000, 500_000));
        (distribution, throughputs(run, &mut maps, &asked, RATES))
    });
    let series = measured.iter().flat_map(|(keys, maps)| {
        MIXED.iter().zip(maps).map(|((name, _), rates)| Series {
            name: format!("{name}, {}", keys.name()),
            points: RATES.iter().zip(rates).map(|(rate, throughput)| (*rate as f64, *throughput)).collect(),
        })
    });
    let panel = Panel::Chart {
        title: format!("{size} keys"),
        x: Axis::linear("updates in a hundred operations"),
        y: Axis::linear(MILLIONS),
        series: series.collect(),
    };
    let claims = measured.iter().map(|(keys, maps)| crossing_claim(*keys, &maps[0], &maps[1]));
    Outcome { claims: claims.collect(), panels: vec![panel] }
}

/// The rate from which on the KISS-tree is slower than PT-4, on straight lines between the rates measured.
fn crossing(kiss: &[f64; RATES.len()], pt4: &[f64; RATES.len()]) -> Option<f64> {
    let ahead: Vec<f64> = kiss.iter().zip(pt4).map(|(kiss, pt4)| kiss - pt4).collect();
    let first = ahead.iter().position(|ahead| *ahead < 0.0)?;
    let Some(before) = first.checked_sub(1) else { return Some(0.0) };
    let part = ahead[before] / (ahead[before] - ahead[first]);
    Some(RATES[before] as f64 + part * (RATES[first] - RATES[before]) as f64)
}

fn crossing_claim(keys: Keys, kiss: &[f64; RATES.len()], pt4: &[f64; RATES.len()]) -> Claim {
    let crossing = crossing(kiss, pt4);
    let (paper, holds) = match keys {
        Keys::Sequence => ("from about 20 %", crossing.is_some_and(|rate| (10.0..=40.0).contains(&rate))),
        Keys::Odd => ("at no rate, or just at the end", crossing.is_none_or(|rate| rate >= 90.0)),
        Keys::Uniform => ("at no rate", crossing.is_none()),
    };
    let why = match (holds, crossing) {
        (true, None) => "What PT-4's levels have to be waited for is more than the copying of a node takes.",
        (true, Some(_)) => "The more values a node has, the more there is to be copied, which PT-4 need not do.",
        (false, None) => {
            "A copy of 512 bytes, which kept the paper's memory channels busy, takes less here than PT-4's levels."
        }
        (false, Some(_)) => {
            "The engine's KISS-tree takes memory for each new node and retires the old one under a lock, and announces each \
             change to other processes; PT-4 here does none of that, and not even the compare-and-swap of the paper's."
        }
    };
    Claim {
        what: format!("update rate from which on PT-4 is faster, {} keys", keys.name()),
        paper: paper.to_owned(),
        ours: crossing.map_or("at no rate".to_owned(), |rate| format!("from {rate:.0} %")),
        holds,
        why: why.to_owned(),
        ..Claim::default()
    }
}
