//! The sort of builds against the standard library's: nanoseconds an entry, medians of five rounds.

use crate::Arguments;
use std::hint::black_box;
use std::time::Instant;

use fpbtree_engine::key::Tail;
use fpbtree_engine::sort::{Host, Radix, SLAB, Slab, Sorter, table_length};

/// Measured of each shape of lanes.
const ROUNDS: usize = 5;

/// Memory that is given back when the program ends.
struct Leaky;

impl<'m, L: 'm> Host<'m, L> for Leaky {
    fn slab(&mut self) -> &'m mut Slab<L> {
        // SAFETY: all-zero bytes are a slab.
        Box::leak(unsafe { Box::<Slab<L>>::new_zeroed().assume_init() })
    }

    fn check(&mut self) {}
}

/// Prints a table: widths and kinds of lanes, what adding an entry takes, what sorting it takes, and what that takes the
/// standard library.
pub fn run(arguments: &Arguments) {
    let rows = arguments.get("rows", 10_000_000);
    println!("{:>5} {:>24} {:>10} {:>10} {:>10}", "bits", "lanes", "add", "sort", "std");
    measure::<u32>(rows);
    measure::<u64>(rows);
    measure::<u128>(rows);
}

fn measure<L: Radix>(rows: usize) {
    let random = |number: usize| (u128::from(mix(number as u64)) << 64) | u128::from(mix(!number as u64));
    time::<L>("random", rows, &random);
    time::<L>("random, one in 64 bits", rows, &|number| random(number) & (u128::MAX / 3) & (u128::MAX / 5));
    time::<L>("a thousand", rows, &|number| random(number) % 1000);
    time::<L>("ascending", rows, &|number| number as u128);
    time::<L>("descending", rows, &|number| (rows - number) as u128);
    time::<L>("nearly ascending", rows, &|number| number as u128 + random(number) % 1000);
}

fn mix(number: u64) -> u64 {
    let first = (number ^ (number >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    (first ^ (first >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93)
}

/// Prints what adding and sorting such lanes takes, and what the standard library takes to sort them as pairs.
fn time<L: Radix>(name: &str, rows: usize, lane: &dyn Fn(usize) -> u128) {
    let entry = |number: usize| {
        let tail = Tail::new(false, (number / 200) as u32, (number % 200 + 1) as u16, false);
        (L::from_u128(lane(number)), tail)
    };
    let entries: Vec<(L, Tail)> = (0..rows).map(entry).collect();
    let mut table = Vec::new();
    table.resize_with(table_length(rows.div_ceil(SLAB)), || None);
    let mut sorter = Sorter::new(Leaky, &mut table);
    // The first round is the one that gets memory.
    let mut rounds: Vec<[f64; 3]> = (0..=ROUNDS).map(|_| round(&entries, &mut sorter)).skip(1).collect();
    let medians = [0, 1, 2].map(|column| {
        rounds.sort_by(|a, b| a[column].total_cmp(&b[column]));
        format!("{:>10.1}", rounds[ROUNDS / 2][column])
    });
    println!("{:>5} {name:>24} {}", L::SIZE * 8, medians.join(" "));
}

fn round<L: Radix>(entries: &[(L, Tail)], sorter: &mut Sorter<'_, L, Leaky>) -> [f64; 3] {
    let nanoseconds = |work: &mut dyn FnMut()| {
        let start = Instant::now();
        work();
        start.elapsed().as_nanos() as f64 / entries.len() as f64
    };
    let mut copy = entries.to_vec();
    [
        nanoseconds(&mut || entries.iter().for_each(|&(lane, tail)| sorter.add(lane, tail))),
        nanoseconds(&mut || {
            sorter.drain(&mut |some| {
                black_box(some);
            });
        }),
        nanoseconds(&mut || copy.sort_unstable()),
    ]
}
