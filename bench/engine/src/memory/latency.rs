//! How long cache misses take, and how wide nodes should be for that (SIGMOD 2002 §3.1, thesis §3.1 and §3.6).

use super::pb::node::{LINE_WORDS, Lines};
use fpbtree_engine::simd::prefetch;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use std::hint::black_box;
use std::ops::RangeInclusive;
use std::time::Instant;

/// Steps of the chase that measures a full miss.
const STEPS: usize = 200_000;
/// Rounds in which several lines are fetched, for each number of lines.
const ROUNDS: usize = 10_000;
/// Each time is measured so often. The least counts: whatever disturbs only adds.
const REPEATS: usize = 3;
/// Lines fetched in a round, at most: as many as the papers try for a node.
const MOST_LINES: usize = 32;

/// What a cache miss costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latency {
    /// T1: nanoseconds for a full miss.
    pub first: f64,
    /// Tnext: nanoseconds for each further miss that is prefetched along with it.
    pub next: f64,
}

/// How much fits into a cache line (thesis, Table 3.1).
#[derive(Clone, Copy, Debug)]
pub struct PerLine {
    /// p: pairs of a key and a child.
    pub children: usize,
    /// t: entries of a leaf.
    pub entries: usize,
}

impl Latency {
    /// Measures in a region of so many bytes, which should be many times the size of the caches.
    pub fn measure(bytes: usize) -> Latency {
        let mut region = Region::new(bytes);
        let first = least(|| region.chase(STEPS));
        let rounds = (1..=MOST_LINES).map(|lines| (lines as f64, least(|| region.fetch(lines, ROUNDS))));
        Latency { first, next: slope(&rounds.collect::<Vec<_>>()) }
    }

    /// Nanoseconds for all misses of a node of `width` lines: T1 + (w − 1) · Tnext.
    pub fn node(&self, width: usize) -> f64 {
        self.first + (width - 1) as f64 * self.next
    }

    /// Nanoseconds for a search through an in-page tree of `levels` levels, whose non-leaf nodes are `width` lines wide
    /// and whose leaves `leaf_width` (SIGMOD 2002 §3.1.1).
    pub fn in_page_search(&self, levels: usize, width: usize, leaf_width: usize) -> f64 {
        (levels - 1) as f64 * self.node(width) + self.node(leaf_width)
    }

    /// How many full misses a search among `keys` keys in nodes of `width` lines costs as much as (thesis, Equation
    /// 3.6).
    pub fn stall(&self, per_line: PerLine, keys: usize, width: usize) -> f64 {
        let leaves = keys.div_ceil(width * per_line.entries);
        f64::from(height(width * per_line.children, leaves)) * self.node(width) / self.first
    }

    /// The width at which such a search costs least, the narrowest of several (thesis, Equation 3.6).
    ///
    /// # Panics
    /// If there are no widths.
    pub fn optimal_width(&self, per_line: PerLine, keys: usize, mut widths: RangeInclusive<usize>) -> usize {
        let narrowest = widths.next().expect("widths to choose from");
        let stall = |width| self.stall(per_line, keys, width);
        widths.fold(narrowest, |best, width| if stall(width) < stall(best) { width } else { best })
    }

    /// A width for trees of all these numbers of keys: the mean of the optimal ones, rounded (thesis §3.6).
    ///
    /// # Panics
    /// If there are no widths, or no numbers.
    pub fn adequate_width(&self, per_line: PerLine, keys: &[usize], widths: RangeInclusive<usize>) -> usize {
        assert!(!keys.is_empty(), "numbers of keys");
        let sum: usize = keys.iter().map(|&keys| self.optimal_width(per_line, keys, widths.clone())).sum();
        (sum + keys.len() / 2) / keys.len()
    }
}

/// Levels of a tree with this fan-out and so many leaves (thesis, Equation 3.1).
fn height(fan_out: usize, leaves: usize) -> u32 {
    let powers = std::iter::successors(Some(1usize), |power| power.checked_mul(fan_out.max(2)));
    1 + powers.take_while(|&power| power < leaves).count() as u32
}

/// The least of several measurements.
fn least(mut measure: impl FnMut() -> f64) -> f64 {
    (0..REPEATS).map(|_| measure()).fold(f64::INFINITY, f64::min)
}

/// The slope of the line that fits these points best: least squares.
fn slope(points: &[(f64, f64)]) -> f64 {
    let many = points.len() as f64;
    let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / many;
    let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / many;
    let covariance: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let variance: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    covariance / variance
}

/// Cache lines, each of which says which comes next in a random cycle of all.
struct Region {
    lines: Vec<Lines<1>>,
    at: usize,
}

/// The word of a line that has the next line's number, and one that is zero.
const NEXT: usize = 0;
const ZERO: usize = 1;

impl Region {
    fn new(bytes: usize) -> Self {
        let many = (bytes / (LINE_WORDS * size_of::<u32>())).max(2);
        let mut order: Vec<u32> = (0..many as u32).collect();
        order.shuffle(&mut SmallRng::seed_from_u64(many as u64));
        let mut lines: Vec<Lines<1>> = (0..many).map(|_| Lines::filled(0)).collect();
        for (place, &line) in order.iter().enumerate() {
            lines[line as usize].words_mut()[NEXT] = order[(place + 1) % many];
        }
        Region { lines, at: 0 }
    }

    fn word(&self, line: usize, word: usize) -> usize {
        self.lines[line].words()[word] as usize
    }

    /// Nanoseconds for a step from one line to the next.
    fn chase(&mut self, steps: usize) -> f64 {
        let start = Instant::now();
        for _ in 0..steps {
            self.at = self.word(self.at, NEXT);
        }
        black_box(self.at);
        start.elapsed().as_nanos() as f64 / steps as f64
    }

    /// Nanoseconds for a round: a step, along with which further lines are prefetched, `many` in all. None of a round's
    /// misses begins before all of the last round's have ended.
    fn fetch(&mut self, many: usize, rounds: usize) -> f64 {
        let start = Instant::now();
        for _ in 0..rounds {
            prefetch(self.lines[self.at].words().as_ptr().cast());
            for number in 1..many {
                prefetch(self.lines[self.scattered(number)].words().as_ptr().cast());
            }
            let zeros: usize = (1..many).map(|number| self.word(self.scattered(number), ZERO)).sum();
            self.at = self.word(self.at, NEXT) + zeros;
        }
        black_box(self.at);
        start.elapsed().as_nanos() as f64 / rounds as f64
    }

    /// A line that has as good as nothing to do with the one it is computed from.
    fn scattered(&self, number: usize) -> usize {
        let mixed = (self.at as u64 * MOST_LINES as u64 + number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (((mixed >> 32) * self.lines.len() as u64) >> 32) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Table 1 of SIGMOD 2002, in cycles.
    const ALPHA: Latency = Latency { first: 150.0, next: 10.0 };
    /// Thesis §3.9, in cycles.
    const ITANIUM: Latency = Latency { first: 189.0, next: 24.0 };
    const THESIS: PerLine = PerLine { children: 8, entries: 16 };

    #[test]
    fn a_node_costs_a_full_miss_and_further_ones() {
        assert_eq!(ALPHA.node(1), 150.0);
        assert_eq!(ALPHA.node(8), 220.0);
        assert_eq!(ALPHA.in_page_search(1, 3, 8), 220.0);
        assert_eq!(ALPHA.in_page_search(3, 3, 8), 2.0 * 170.0 + 220.0);
    }

    #[test]
    fn heights_are_logarithms() {
        assert_eq!([1, 2, 8, 9, 64, 65].map(|leaves| height(8, leaves)), [1, 2, 2, 3, 3, 4]);
        assert_eq!(height(64, usize::MAX), 12);
    }

    #[test]
    fn stalls_are_those_of_the_thesis() {
        // 62500 leaves and a fan-out of 8: 7 levels, of full misses alone.
        assert_eq!(ITANIUM.stall(THESIS, 1_000_000, 1), 7.0);
        // 15625 leaves and a fan-out of 32: 4 levels.
        assert!((ITANIUM.stall(THESIS, 1_000_000, 4) - 4.0 * 261.0 / 189.0).abs() < 1e-12);
    }

    #[test]
    fn the_optimal_width_costs_least() {
        assert_eq!(ITANIUM.optimal_width(THESIS, 1_000_000, 1..=32), 4);
        assert_eq!(ITANIUM.optimal_width(THESIS, 1, 1..=32), 1);
        for keys in [100, 10_000, 1_000_000, 100_000_000] {
            let best = ALPHA.optimal_width(THESIS, keys, 1..=32);
            let stall = |width| ALPHA.stall(THESIS, keys, width);
            assert!((1..best).all(|width| stall(width) > stall(best)), "{keys}");
            assert!((best..=32).all(|width| stall(width) >= stall(best)), "{keys}");
        }
    }

    #[test]
    fn without_further_costs_the_widest_is_no_worse() {
        let free = Latency { first: 100.0, next: 0.0 };
        assert_eq!(free.stall(THESIS, 1 << 20, free.optimal_width(THESIS, 1 << 20, 1..=32)), 3.0);
        // If nothing is won by prefetching, narrow nodes are best.
        let costly = Latency { first: 100.0, next: 100.0 };
        assert_eq!(costly.optimal_width(THESIS, 1 << 20, 1..=32), 1);
    }

    #[test]
    fn an_adequate_width_is_a_mean() {
        let widths = [1_000, 1_000_000].map(|keys| ITANIUM.optimal_width(THESIS, keys, 1..=32));
        let mean = (widths[0] + widths[1]).div_ceil(2);
        assert_eq!(ITANIUM.adequate_width(THESIS, &[1_000, 1_000_000], 1..=32), mean);
    }

    #[test]
    fn the_slope_is_that_of_the_line() {
        assert_eq!(slope(&[(1.0, 10.0), (2.0, 13.0), (3.0, 16.0)]), 3.0);
        assert_eq!(slope(&[(1.0, 1.0), (2.0, 5.0), (3.0, 3.0)]), 1.0);
    }

    #[test]
    fn a_chase_visits_every_line() {
        let mut region = Region::new(100 * 64);
        let mut seen = [false; 100];
        for _ in 0..100 {
            region.chase(1);
            assert!(!std::mem::replace(&mut seen[region.at], true));
        }
        let before = region.at;
        let next = region.word(before, NEXT);
        region.fetch(MOST_LINES, 1);
        assert_eq!(region.at, next);
    }

    #[test]
    fn measurements_are_numbers() {
        let latency = Latency::measure(1 << 16);
        assert!(latency.first.is_finite() && latency.next.is_finite(), "{latency:?}");
    }
}
