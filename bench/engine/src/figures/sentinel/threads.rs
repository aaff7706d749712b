//! Several threads, each leaf with a lock of its own: Figures 6 and 8. Nodes of 4 KB.

use std::sync::Barrier;
use std::thread;

use fpbtree_lab::figure::{Axis, Outcome, Panel, Run, median};

use super::leaves::{KINDS, LINEAR, NewShared, SENTINELS, SHARED, Shared};
use super::nodes::{Keys, chart, time};
use super::ycsb::{PHASES, Percentiles, READ, Samples, UPDATE, Work, medians, percentiles, play, work};
use super::{claim, percent};

/// Numbers of threads: the paper's in full.
fn numbers(run: &Run) -> &'static [usize] {
    if run.full() { &[1, 2, 4, 8] } else { &[1, 2] }
}

fn rounds(run: &Run) -> usize {
    if run.full() { 5 } else { 3 }
}

/// What `task` gives for each thread's work; all begin together.
fn together<W: Sync, R: Send>(works: &[W], task: impl Fn(&W) -> R + Sync) -> Vec<R> {
    let start = Barrier::new(works.len());
    thread::scope(|scope| {
        let spawn = |work| {
            let (start, task) = (&start, &task);
            scope.spawn(move || {
                start.wait();
                task(work)
            })
        };
        let threads: Vec<_> = works.iter().map(spawn).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread that ends")).collect()
    })
}

/// Nanoseconds of a search and of an insertion, in each of so many threads.
fn latencies(run: &Run, pairs: usize, threads: usize) -> Vec<[f64; 2]> {
    let mut keys = Keys::new(pairs);
    let loaded = keys.pairs();
    let maps: Vec<Box<dyn Shared>> = SHARED.iter().map(|new| new(&loaded)).collect();
    let operations = run.number("operations", 200_000, 400_000) / threads;
    let mut times = vec![[Vec::new(), Vec::new()]; maps.len()];
    for round in 0..=rounds(run) {
        let sought: Vec<_> = (0..threads).map(|_| keys.some(operations)).collect();
        let all_added = keys.others(operations * threads / 4, round);
        let added: Vec<_> = all_added.chunks(all_added.len().div_ceil(threads)).collect();
        for (map, times) in maps.iter().zip(&mut times) {
            let mean = |of: Vec<f64>| of.iter().sum::<f64>() / of.len() as f64;
            let both = [
                mean(together(&sought, |keys| time(keys.len(), || map.search_all(keys)))),
                mean(together(&added, |pairs| time(pairs.len(), || map.insert_all(pairs)))),
            ];
            if round > 0 {
                times.iter_mut().zip(both).for_each(|(times, time)| times.push(time));
            }
        }
    }
    times.into_iter().map(|both| both.map(median)).collect()
}

fn title(what: &str, pairs: usize) -> String {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    format!("{what}: {} million pairs, nodes of 4 KB, {cores} processors", pairs as f64 / 1e6)
}

/// Search and insertion.
pub fn figure6(run: &mut Run) -> Outcome {
    let pairs = run.number("pairs", 1_000_000, 1_000_000);
    let threads = numbers(run);
    let mut measured = Vec::new();
    for (at, threads) in numbers(run).iter().enumerate() {
        measured.push(latencies(run, pairs, *threads));
        run.done((at + 1) as f64 / numbers(run).len() as f64);
    }
    let places: Vec<f64> = threads.iter().map(|threads| *threads as f64).collect();
    let panel = |(what, name): (usize, &str)| {
        chart(&title(name, pairs), Axis::log("threads"), &places, |at, kind| measured[at][kind][what])
    };
    let panels = ["Search", "Insertion"].into_iter().enumerate().map(panel).collect();
    let [search, insert] = [0, 1].map(|what| percent(measured[1][SENTINELS][what], measured[1][LINEAR][what]));
    let claims = vec![
        claim(
            "search by two threads, nodes of 4 KB: sentinels against none",
            "-46.1 % (FAST-FAIR)",
            format!("{search:+.1} %"),
            search < -30.0,
            [
                "The sentinels and one line of keys are gone through instead of half the node, in every thread.",
                "The locks, which readers take here and not in FAST-FAIR, and what leads to the leaf take as long either way.",
            ],
        ),
        claim(
            "insertion by two threads, nodes of 4 KB: sentinels against none",
            "no significant difference",
            format!("{insert:+.1} %"),
            insert < 10.0,
            [
                "The search before it saves more, or nearly as much, as the sentinels behind it cost.",
                "Sentinels behind the new pair are all written again, while the leaf is locked.",
            ],
        ),
    ];
    Outcome { panels, claims }
}

fn one(new: NewShared, works: &[Work]) -> Percentiles {
    let map = new(&[]);
    let mut all = Samples::default();
    for part in [|work: &Work| &work.inserts[..], |work: &Work| &work.run[..]] as [for<'a> fn(&'a Work) -> &'a [_]; 2] {
        let samples = together(works, |work| {
            let mut samples = Samples::default();
            play(part(work), &mut samples, |key, id| match id {
                Some(id) => map.insert(key, id),
                None => map.search(key),
            });
            samples
        });
        for samples in samples {
            all.iter_mut().zip(samples).for_each(|(all, of)| all.extend(of));
        }
    }
    percentiles(all)
}

/// YCSB.
pub fn figure8(run: &mut Run) -> Outcome {
    let pairs = run.number("pairs", 200_000, 1_000_000);
    let mut measured: Vec<Vec<Percentiles>> = Vec::new();
    for (at, threads) in numbers(run).iter().enumerate() {
        let works = work(pairs, *threads);
        let mut taken = vec![Vec::new(); KINDS.len()];
        for round in 0..rounds(run) {
            SHARED.iter().zip(&mut taken).for_each(|(new, taken)| taken.push(one(*new, &works)));
            run.done((at as f64 + (round + 1) as f64 / rounds(run) as f64) / numbers(run).len() as f64);
        }
        measured.push(taken.iter().map(|rounds| medians(rounds)).collect());
    }
    let places: Vec<f64> = numbers(run).iter().map(|threads| *threads as f64).collect();
    let panel = |(phase, what): (usize, &&str)| -> Panel {
        let title = title(&format!("{what}, 99th percentile"), pairs);
        chart(&title, Axis::log("threads"), &places, |at, kind| measured[at][kind][phase])
    };
    let panels = PHASES.iter().enumerate().map(panel).collect();
    let change = |phase: usize| percent(measured[1][SENTINELS][phase], measured[1][LINEAR][phase]);
    let claims = [(READ, "read"), (UPDATE, "update")].map(|(phase, what)| {
        let change = change(phase);
        let what = format!("{what} by two threads, 99th percentile, nodes of 4 KB: sentinels against none");
        claim(
            &what,
            "significantly less",
            format!("{change:+.1} %"),
            change < -5.0,
            [
                "The search in the leaf is the longer part of it.",
                "The slowest hundredth waits for memory, locks and the system, not for a search in the leaf.",
            ],
        )
    });
    Outcome { panels, claims: claims.into() }
}
