//! What the jump-pointer arrays cost insertions (thesis §6.2.1, Table 6.3).

use std::ops::Range;
use std::time::Instant;

use fpbtree_lab::compare::{BinaryBy, Words};
use fpbtree_lab::figure::{Claim, Outcome, Panel, Run, median};
use fpbtree_lab::memory::pb::PbTree;
use fpbtree_lab::memory::pb::chunked::Chunked;
use fpbtree_lab::memory::pb::flat::Flat;
use fpbtree_lab::memory::pb::hint::T0;
use fpbtree_lab::memory::pb::jump::{Internal, Jump};
use fpbtree_lab::memory::pb::policy::Linear;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::workload::{most, percent, rounds, typical};

type Key = [u8; 16];
/// Nodes of one, and chunks of four of the Itanium's lines, which are twice as long.
type Tree<J> = PbTree<2, BinaryBy<Words>, Linear, T0, J, Key>;
/// Flat, internal, chunked.
const ARRAYS: [fn(&[Key]) -> f64; 3] = [insertion::<Flat>, insertion::<Internal>, insertion::<Chunked<8>>];

/// The thesis' seconds with each array for so many thousand insertions.
const PAPER: [(usize, Seconds); 9] = [
    (10, [Some(0.0278), Some(0.0195), Some(0.0200)]),
    (20, [Some(0.0947), Some(0.0415), Some(0.0439)]),
    (40, [Some(0.375), Some(0.0894), Some(0.0937)]),
    (80, [Some(2.12), Some(0.201), Some(0.213)]),
    (160, [Some(16.6), Some(0.447), Some(0.473)]),
    (320, [Some(92.3), Some(0.978), Some(1.04)]),
    (640, [None, Some(2.15), Some(2.26)]),
    (1280, [None, Some(4.62), Some(4.85)]),
    (2560, [None, Some(9.90), Some(10.4)]),
];

/// Seconds with each array; none where that is not measured.
type Seconds = [Option<f64>; ARRAYS.len()];

/// A row of the table: thousands of insertions, the thesis' seconds and ours.
type Row = (usize, Seconds, Seconds);

/// Table 6.3.
pub fn costs(run: &mut Run) -> Outcome {
    let (most, flat) = (run.number("thousands", 640, 2560), run.number("flat", 80, 160));
    let mut random = SmallRng::seed_from_u64(2006);
    let keys: Vec<Key> = (0..most * 1000).map(|_| random.random()).collect();
    let mut rows: Vec<Row> = Vec::new();
    for (thousands, paper) in PAPER.into_iter().filter(|(thousands, _)| *thousands <= most) {
        let arrays = if thousands <= flat { 0..3 } else { 1..3 };
        rows.push((thousands, paper, medians(run, &keys[..thousands * 1000], arrays)));
    }
    Outcome { claims: vec![chunked_claim(&rows), flat_claim(&rows)], panels: vec![panel(&rows)] }
}

/// Seconds with each array that is measured. They take turns, of which the first does not count.
fn medians(run: &mut Run, keys: &[Key], arrays: Range<usize>) -> Seconds {
    let most = run.number("thousands", 640, 2560) * 1000;
    let mut samples = [const { Vec::new() }; ARRAYS.len()];
    let rounds = rounds(run);
    for round in 0..=rounds {
        // A row takes twice as long as the one before.
        run.done((1.0 + round as f64 / (rounds + 1) as f64) * keys.len() as f64 / (2 * most) as f64);
        for array in arrays.clone() {
            let seconds = ARRAYS[array](keys);
            if round > 0 {
                samples[array].push(seconds);
            }
        }
    }
    samples.map(|samples| (!samples.is_empty()).then(|| median(samples)))
}

/// Seconds to insert keys into an empty tree.
fn insertion<J: Jump>(keys: &[Key]) -> f64 {
    let mut tree: Tree<J> = PbTree::load(&[], 1.0, 0);
    let start = Instant::now();
    for (key, id) in keys.iter().zip(0..) {
        assert_eq!(tree.insert(*key, id), None);
    }
    start.elapsed().as_secs_f64()
}

fn panel(rows: &[Row]) -> Panel {
    let seconds = |(ours, paper): (&Option<f64>, &Option<f64>)| {
        let paper = paper.map_or("not measured".to_owned(), |paper| paper.to_string());
        ours.map_or(format!("- ({paper})"), |ours| format!("{ours:.4} ({paper})"))
    };
    let row = |(thousands, paper, ours): &Row| {
        let mut cells = vec![format!("{thousands},000")];
        cells.extend(ours.iter().zip(paper).map(seconds));
        let more = [more(ours, 2, 1), more(paper, 2, 1)].map(|more| more.map_or(String::new(), percent));
        cells.push(format!("{} ({})", more[0], more[1]));
        cells
    };
    let heading = ["insertions", "flat, s (thesis)", "internal, s (thesis)", "chunked, s (thesis)", "chunked more"];
    Panel::Table {
        title: "Insertions into an empty tree, keys of 16 bytes".to_owned(),
        heading: heading.map(str::to_owned).into(),
        rows: rows.iter().map(row).collect(),
    }
}

/// How much more time one array takes than another.
fn more(seconds: &Seconds, slow: usize, fast: usize) -> Option<f64> {
    Some(seconds[slow]? / seconds[fast]? - 1.0)
}

fn chunked_claim(rows: &[Row]) -> Claim {
    let excess: Vec<f64> = rows.iter().filter_map(|(_, _, ours)| more(ours, 2, 1)).collect();
    let (typical, most) = (typical(&excess), most(&excess));
    let holds = typical <= 0.064;
    let why = if holds {
        "A new leaf changes one chunk, and few insertions make a new leaf."
    } else {
        "The chunk of a leaf that is split is one more line to wait for, while comparisons, the rest of an insertion's work, \
         have become cheaper."
    };
    Claim {
        what: "the chunked array takes more than the internal one".to_owned(),
        paper: "never more than +6.4 %".to_owned(),
        ours: format!("{} typically, up to {}", percent(typical), percent(most)),
        holds,
        why: why.to_owned(),
        ..Claim::default()
    }
}

fn flat_claim(rows: &[Row]) -> Claim {
    let (thousands, paper, ours) = rows.iter().rev().find(|(_, _, ours)| ours[0].is_some()).expect("a flat array");
    let [ours, paper] = [ours, paper].map(|seconds| more(seconds, 0, 1).map_or(f64::NAN, |more| more + 1.0));
    let holds = ours >= 2.0;
    let why = if holds {
        "A new leaf moves half of the array, and all leaves behind it are told: work that grows with the square of the \
         insertions."
    } else {
        "With so few leaves the array is moved within the caches; the work grows with the square of the insertions."
    };
    Claim {
        what: format!("the flat array is no choice: its time for {thousands},000 insertions"),
        paper: format!("{paper:.1} times the internal one's"),
        ours: format!("{ours:.1} times"),
        holds,
        why: why.to_owned(),
        ..Claim::default()
    }
}
