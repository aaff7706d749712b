//! Charts with a curve for each structure, and the medians they consist of.

use fpbtree_lab::figure::{Axis, Panel, Run, Series, median};

use super::trees::Kind;

/// What is along the axes of these charts.
pub const PAIRS: &str = "keys";
pub const FILL: &str = "how full pages are loaded, %";
pub const PAGE: &str = "page size, KB";
pub const SPEED: &str = "times as fast";

/// A chart to be.
pub struct Curves(Vec<Series>);

impl Curves {
    /// A curve for each of these structures.
    pub fn new(kinds: &[Kind]) -> Self {
        Self::named(kinds.iter().map(|kind| kind.name()))
    }

    /// Curves of these names.
    pub fn named(names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Curves(names.into_iter().map(|name| Series { name: name.into(), points: Vec::new() }).collect())
    }

    /// Adds a point to each curve.
    pub fn add(&mut self, place: f64, values: impl IntoIterator<Item = f64>) {
        self.0.iter_mut().zip(values).for_each(|(one, value)| one.points.push((place, value)));
    }

    /// The chart.
    pub fn chart(self, title: impl Into<String>, x: Axis, y: Axis) -> Panel {
        Panel::Chart { title: title.into(), x, y, series: self.0 }
    }
}

/// How many times as fast as the first each is.
pub fn speeds(times: &[f64]) -> impl Iterator<Item = f64> {
    times.iter().map(|time| times[0] / time)
}

/// The medians of what `measure` says of each of `count` things, all of them in turn in every round. The first round
/// does not count.
pub fn medians(run: &Run, count: usize, mut measure: impl FnMut(usize) -> f64) -> Vec<f64> {
    let mut samples = vec![Vec::new(); count];
    for round in 0..=rounds(run) {
        for (thing, samples) in samples.iter_mut().enumerate() {
            let sample = measure(thing);
            if round > 0 {
                samples.push(sample);
            }
        }
    }
    samples.into_iter().map(median).collect()
}

/// Rounds that count.
pub fn rounds(run: &Run) -> usize {
    run.number("rounds", 3, 5)
}

/// The paper's numbers of keys, 100 K to 10 M, up to the largest that there is time for.
pub fn counts(run: &Run) -> Vec<usize> {
    let most = run.number("pairs", 3_000_000, 10_000_000);
    let all = [100_000, 300_000, 1_000_000, 3_000_000, 10_000_000];
    let fewer = all.into_iter().filter(|count| *count < most).step_by(if run.full() { 1 } else { 2 });
    fewer.chain([most]).collect()
}

/// The paper's bulkload factors, in percent.
pub fn fills(run: &Run) -> Vec<usize> {
    (60..=100).step_by(if run.full() { 10 } else { 20 }).collect()
}

/// A page size in kilobytes, as on the axes.
pub fn kilobytes(page_size: usize) -> f64 {
    page_size as f64 / 1024.0
}
