//! What maps take of memory (§6, Figure 7).

use fpbtree_lab::figure::{Axis, Claim, Outcome, Panel, Run, Series};

use super::maps::{COMPARED, Kiss, Map};
use super::workload::{Keys, filled};

/// Bytes of a key and its value.
const DATA: f64 = 12.0;

/// Bytes a key of every map, by the number of keys.
type Sizes = Vec<(usize, [f64; COMPARED.len()])>;

/// Figure 7.
pub fn consumption(run: &mut Run) -> Outcome {
    let sizes: &[usize] =
        if run.full() { &[1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24] } else { &[1 << 16, 1 << 18, 1 << 20, 1 << 21] };
    let sequence = of_keys(run, Keys::Sequence, sizes, 0.0);
    let uniform = of_keys(run, Keys::Uniform, sizes, 0.5);
    let panel = |keys: Keys, measured: &Sizes| {
        let series = COMPARED.iter().enumerate().map(|(map, (name, _))| Series {
            name: (*name).to_owned(),
            points: measured.iter().map(|(size, bytes)| (*size as f64, bytes[map])).collect(),
        });
        let data = Series {
            name: "keys and values".to_owned(),
            points: measured.iter().map(|(size, _)| (*size as f64, DATA)).collect(),
        };
        Panel::Chart {
            title: format!("Memory, {} keys", keys.name()),
            x: Axis::log("keys"),
            y: Axis::log("bytes per key"),
            series: series.chain([data]).collect(),
        }
    };
    let panels = vec![panel(Keys::Sequence, &sequence), panel(Keys::Uniform, &uniform)];
    Outcome { panels, claims: vec![sequence_claim(&sequence), waste_claim(&uniform), second_level_claim(run)] }
}

fn of_keys(run: &mut Run, keys: Keys, sizes: &[usize], done: f64) -> Sizes {
    let mut measured = Vec::new();
    for &size in sizes {
        run.done(done + 0.5 * size as f64 / (2.0 * sizes[sizes.len() - 1] as f64));
        let keys = keys.take(size);
        let bytes = COMPARED.map(|new| filled(new, &keys).0.bytes().expect("a map that counts") as f64 / size as f64);
        measured.push((size, bytes));
    }
    measured
}

fn sequence_claim(sequence: &Sizes) -> Claim {
    let (size, bytes) = sequence[sequence.len() - 1];
    let holds = bytes[0] < DATA;
    let why = if holds {
        "A node of 64 values takes 8 bytes more than these, and a key takes none but its bit."
    } else {
        "Whole pages are taken for nodes of each size, also of those that nodes had while they grew."
    };
    Claim {
        what: format!("KISS-tree, sequence of {size} keys: bytes per key"),
        paper: format!("less than the data's {DATA:.0}"),
        ours: format!("{:.1} (PT-4 {:.1}, with values of 32 bits)", bytes[0], bytes[1]),
        holds,
        why: why.to_owned(),
        ..Claim::default()
    }
}

/// That the KISS-tree wastes memory on few uniform keys, and saves it on many.
fn waste_claim(uniform: &Sizes) -> Claim {
    let saves = uniform.iter().find(|(_, bytes)| bytes[0] < bytes[1]).map(|(size, _)| *size);
    let few = uniform[0].1;
    let holds = few[0] > few[1] && saves.is_some();
    let why = if holds {
        "The second level's pages are all there from about a hundred thousand uniform keys on, however few slots each of \
         them has in use; PT-4's nodes grow in number with the keys."
    } else if few[0] > few[1] {
        "The second level's 256 MB are a cost that PT-4 has not, and its nodes of 32-bit buckets are half as large as the \
         paper's."
    } else {
        "PT-4's nodes take more than the second level even for few keys."
    };
    Claim {
        what: "KISS-tree, uniform keys: number from which on it takes less than PT-4".to_owned(),
        paper: "wastes memory for few keys, saves it for many".to_owned(),
        ours: saves.map_or("none measured".to_owned(), |size| size.to_string()),
        holds,
        why: why.to_owned(),
        ..Claim::default()
    }
}

fn second_level_claim(run: &Run) -> Claim {
    let size = run.number("keys", 1 << 20, 1 << 22);
    let mut kiss = Kiss::new(size, 1, true, true);
    kiss.update(&Keys::Uniform.take(size), 0);
    let megabytes = kiss.second_level() >> 20;
    let holds = megabytes == 256;
    let why = if holds {
        "Some key of every 65,536 that share their first 16 bits is there, so every node of the second level is."
    } else {
        "Nodes of the second level are there only for first 16 bits that some key has."
    };
    Claim {
        what: format!("KISS-tree, {size} uniform keys: the second level"),
        paper: "256 MB (4 million keys)".to_owned(),
        ours: format!("{megabytes} MB"),
        holds,
        why: why.to_owned(),
        ..Claim::default()
    }
}
