//! What the paper measures with: key distributions, and turns (§6).

use std::hint::black_box;
use std::time::Instant;

use fpbtree_lab::figure::{Run, median};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::maps::{Map, New, value};

/// Which keys there are.
#[derive(Clone, Copy, PartialEq)]
pub enum Keys {
    /// From zero on.
    Sequence,
    /// The odd ones from zero on.
    Odd,
    /// Any.
    Uniform,
}

impl Keys {
    pub const fn name(self) -> &'static str {
        match self {
            Keys::Sequence => "sequence",
            Keys::Odd => "odd sequence",
            Keys::Uniform => "uniform",
        }
    }

    /// So many distinct keys.
    pub fn take(self, many: usize) -> Vec<u32> {
        (0..many as u32).map(|number| self.key(number)).collect()
    }

    fn key(self, number: u32) -> u32 {
        match self {
            Keys::Sequence => number,
            Keys::Odd => 2 * number + 1,
            Keys::Uniform => scattered(number),
        }
    }
}

/// Every number once, in an order that looks random (MurmurHash3's last step).
fn scattered(n: u32) -> u32 {
    let n = (n ^ n >> 16).wrapping_mul(0x85EB_CA6B);
    let n = (n ^ n >> 13).wrapping_mul(0xC2B2_AE35);
    n ^ n >> 16
}

/// So many of the keys, at random.
pub fn asked(keys: &[u32], many: usize) -> Vec<u32> {
    let mut random = SmallRng::seed_from_u64(2012);
    (0..many).map(|_| keys[random.random_range(0..keys.len())]).collect()
}

/// A map with these keys, and what an insertion took, in nanoseconds.
pub fn filled(new: New, keys: &[u32]) -> (Box<dyn Map>, f64) {
    let mut map = new.1(keys.len());
    let start = Instant::now();
    map.update(keys, 0);
    (map, start.elapsed().as_nanos() as f64 / keys.len() as f64)
}

/// Millions of operations a second, of so many that `work` does.
pub fn throughput(operations: usize, work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    operations as f64 / start.elapsed().as_secs_f64() / 1e6
}

/// The maps' throughputs at each rate of updates, in hundredths: medians of turns, of which the first does not count.
/// What each map holds after a turn is checked.
pub fn throughputs<const R: usize>(
    run: &Run,
    maps: &mut [Box<dyn Map>],
    asked: &[u32],
    rates: [usize; R],
) -> Vec<[f64; R]> {
    let rounds = if run.full() { 5 } else { 3 };
    let mut samples = vec![[const { Vec::new() }; R]; maps.len()];
    for round in 0..=rounds {
        for (rate, percent) in rates.into_iter().enumerate() {
            // Every turn of updates changes all values.
            let stamp = (round * R + rate + 1) as u32;
            for (map, samples) in maps.iter_mut().zip(&mut samples) {
                let sample = throughput(asked.len(), || _ = black_box(map.mix(black_box(asked), percent, stamp)));
                if round > 0 {
                    samples[rate].push(sample);
                }
            }
        }
        let stamp = u32::MAX - round as u32;
        let expected: u64 = asked.iter().map(|key| u64::from(value(*key, stamp))).sum();
        for map in maps.iter_mut() {
            map.update(asked, stamp);
            assert_eq!(map.read(asked), expected);
        }
    }
    samples.into_iter().map(|samples| samples.map(median)).collect()
}
