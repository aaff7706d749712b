//! The KISS-tree's lookups against adaptive radix trees and `BTreeMap`: uniform 32-bit keys, 64-bit values, one thread.

use crate::Arguments;
use blart::TreeMap;
use congee::Congee;
use fpbtree_engine::hot::kiss::{KissTree, Participant};
use fpbtree_engine::hot::word::words_at;
use memmap2::{Advice, MmapMut, MmapOptions};
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rart::{AdaptiveRadixTree, ArrayKey};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

/// Times each structure is asked; the median counts.
const ROUNDS: usize = 5;
/// Keys asked for in a round.
const ASKED: usize = 4_000_000;
/// Keys given to the KISS-tree at a time.
const BATCH: usize = 1024;

/// Something that answers all of the keys; the sum of the values keeps it honest.
type Asked<'a> = Box<dyn FnMut(&[u32]) -> u64 + 'a>;

struct Row<'a> {
    name: &'static str,
    /// Nanoseconds a key to fill it, and bytes a key it holds.
    insert: f64,
    bytes: f64,
    ask: Asked<'a>,
    rounds: Vec<f64>,
}

/// Fills a structure, and says what that took.
fn filled<'a>(name: &'static str, keys: &[u32], fill: impl FnOnce() -> Asked<'a>) -> Row<'a> {
    let (before, start) = (resident(), Instant::now());
    let ask = fill();
    let insert = start.elapsed().as_nanos() as f64 / keys.len() as f64;
    Row { name, insert, bytes: (resident() - before) as f64 / keys.len() as f64, ask, rounds: Vec::new() }
}

/// Bytes of memory this process has.
fn resident() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<i64>().ok()).unwrap_or(0) << 10
}

/// Memory for a KISS-tree, on large pages where the system has them and `large` says so.
fn memory(bytes: usize, large: bool) -> MmapMut {
    let map = MmapOptions::new().len(bytes).map_anon().expect("address space");
    let _ = map.advise(if large { Advice::HugePage } else { Advice::NoHugePage });
    map
}

/// A filled KISS-tree, kept until the end.
fn kiss(keys: &[u32], large: bool) -> Participant<'static> {
    let map = Box::leak(Box::new(memory(64 * keys.len() + (300 << 20), large)));
    // SAFETY: the mapping is never unmapped, aligned to a page and used as atomic words only.
    let words = unsafe { words_at(map.as_mut_ptr(), map.len()) }.expect("aligned");
    let mut participant = KissTree::create(words, 8).expect("room").join(0).expect("a slot");
    for key in keys {
        participant.insert(*key, u64::from(*key)).expect("room");
    }
    participant
}

fn batched(mut kiss: Participant<'static>) -> Asked<'static> {
    Box::new(move |keys| {
        let mut values = [None; BATCH];
        let mut sum = 0;
        for keys in keys.chunks(BATCH) {
            kiss.get_many(keys, &mut values);
            sum += values[..keys.len()].iter().flatten().sum::<u64>();
        }
        sum
    })
}

fn single(mut kiss: Participant<'static>) -> Asked<'static> {
    Box::new(move |keys| keys.iter().filter_map(|key| kiss.get(*key)).sum())
}

/// Every number once, in an order that looks random (MurmurHash3's last step).
fn scattered(n: u32) -> u32 {
    let n = (n ^ n >> 16).wrapping_mul(0x85EB_CA6B);
    let n = (n ^ n >> 13).wrapping_mul(0xC2B2_AE35);
    n ^ n >> 16
}

/// Prints what a key costs, in nanoseconds, bytes and times the batched KISS-tree's lookup.
pub fn run(arguments: &Arguments) {
    let count = arguments.get("keys", 16_000_000) as u32;
    let mut random = SmallRng::seed_from_u64(1);
    let keys: Vec<u32> = (0..count).map(scattered).collect();
    let mut rows = vec![
        filled("kiss, batched", &keys, || batched(kiss(&keys, true))),
        filled("kiss, one by one", &keys, || single(kiss(&keys, true))),
        filled("kiss, batched, 4 KB pages", &keys, || batched(kiss(&keys, false))),
        filled("blart", &keys, || {
            let mut map = TreeMap::<[u8; 4], u64>::new();
            keys.iter().for_each(|key| _ = map.try_insert(key.to_be_bytes(), u64::from(*key)));
            Box::new(move |keys| keys.iter().filter_map(|key| map.get(&key.to_be_bytes())).sum())
        }),
        filled("rart", &keys, || {
            let mut map = AdaptiveRadixTree::<ArrayKey<16>, u64>::new();
            keys.iter().for_each(|key| _ = map.insert_k(&ArrayKey::from(*key), u64::from(*key)));
            Box::new(move |keys| keys.iter().filter_map(|key| map.get_k(&ArrayKey::from(*key))).sum())
        }),
        filled("congee", &keys, || {
            let map = Congee::<usize, usize>::default();
            let guard = map.pin();
            keys.iter().for_each(|key| _ = map.insert(*key as usize, *key as usize, &guard));
            drop(guard);
            Box::new(move |keys| {
                let guard = map.pin();
                keys.iter().filter_map(|key| map.get(&(*key as usize), &guard)).map(|value| value as u64).sum()
            })
        }),
        filled("BTreeMap", &keys, || {
            let mut map = BTreeMap::new();
            keys.iter().for_each(|key| _ = map.insert(*key, u64::from(*key)));
            Box::new(move |keys| keys.iter().filter_map(|key| map.get(key)).sum())
        }),
    ];
    for _ in 0..ROUNDS {
        let mut asked: Vec<u32> = (0..ASKED).map(|_| keys[random.random_range(0..keys.len())]).collect();
        asked.shuffle(&mut random);
        let expected: u64 = asked.iter().map(|key| u64::from(*key)).sum();
        for row in &mut rows {
            let start = Instant::now();
            let sum = black_box((row.ask)(black_box(&asked)));
            row.rounds.push(start.elapsed().as_nanos() as f64 / ASKED as f64);
            assert_eq!(sum, expected, "{}", row.name);
        }
    }
    println!("{count} uniform 32-bit keys, 64-bit values, one thread; median of {ROUNDS} x {ASKED} lookups");
    println!("{:<28}{:>12}{:>12}{:>10}{:>10}", "", "lookup ns", "insert ns", "bytes", "ratio");
    let medians: Vec<f64> = rows.iter_mut().map(median).collect();
    for (row, lookup) in rows.iter().zip(&medians) {
        println!(
            "{:<28}{:>12.1}{:>12.1}{:>10.1}{:>10.2}",
            row.name,
            lookup,
            row.insert,
            row.bytes,
            lookup / medians[0]
        );
    }
}

fn median(row: &mut Row<'_>) -> f64 {
    row.rounds.sort_by(f64::total_cmp);
    row.rounds[row.rounds.len() / 2]
}
