//! How fast one core reads memory: what no scan can exceed (SIGMOD 2002, Figure 15, is measured against it).

use std::hint::black_box;
use std::time::Instant;

/// Bytes of an element that is read.
const WORD: usize = size_of::<u64>();

/// Gigabytes that are read in a second: the sum over an array of so many bytes, which should be many times the size of
/// the caches. The best of `rounds` counts: whatever disturbs only takes time.
pub fn read_bandwidth(bytes: usize, rounds: usize) -> f64 {
    // Zeros that were never written would all be one page of the system's.
    let array: Vec<u64> = (0..(bytes / WORD) as u64).collect();
    (0..rounds).map(|_| read(&array)).fold(0.0, f64::max)
}

/// Bytes a nanosecond.
fn read(array: &[u64]) -> f64 {
    let start = Instant::now();
    black_box(black_box(array).iter().fold(0u64, |sum, word| sum.wrapping_add(*word)));
    size_of_val(array) as f64 / start.elapsed().as_nanos() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read() {
        assert!(read_bandwidth(1 << 20, 2) > 0.0);
        assert_eq!(read_bandwidth(1 << 10, 0), 0.0);
    }
}
