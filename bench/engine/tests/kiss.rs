//! The KISS-tree against a `BTreeMap`, full, shared by processes, damaged, and under real threads.

use fpbtree_engine::cache::word::words_at;
use fpbtree_lab::memory::kiss::{Error, Full, KissTree, MAX_PARTICIPANTS, Participant};
use memmap2::MmapRaw;
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::mem::forget;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

fn memory(bytes: usize) -> Vec<AtomicU64> {
    // What was there before must not matter.
    (0..bytes / 8).map(|word| AtomicU64::new(word as u64 | 1 << 40)).collect()
}

/// Bytes of a tree with about this many pages of 4 KB.
fn bytes_for(pages: usize) -> usize {
    (265 << 10) + pages * 4112
}

fn contents(participant: &mut Participant) -> Vec<(u32, u64)> {
    participant.iter(0).collect()
}

/// Keys near each other, far from each other, and at every kind of edge.
fn some_key() -> impl Strategy<Value = u32> {
    prop_oneof![
        4 => 0u32..200,
        2 => (0u32..4, 0u32..4, 0u32..64).prop_map(|(top, slot, bit)| top << 30 | slot << 14 | bit),
        1 => prop::sample::select(vec![0, 63, 64, 65535, 65536, u32::MAX - 64, u32::MAX - 63, u32::MAX]),
        1 => any::<u32>(),
    ]
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u32, u64),
    Remove(u32),
    CompareRemove(u32, u64),
    Evict(u32),
    Clear,
}

fn some_step() -> impl Strategy<Value = Step> {
    let value = prop_oneof![0u64..4, any::<u64>()];
    prop_oneof![
        60 => (some_key(), value).prop_map(|(key, value)| Step::Insert(key, value)),
        30 => some_key().prop_map(Step::Remove),
        10 => (some_key(), 0u64..4).prop_map(|(key, value)| Step::CompareRemove(key, value)),
        4 => some_key().prop_map(Step::Evict),
        1 => Just(Step::Clear),
    ]
}

fn take(participant: &mut Participant, model: &mut BTreeMap<u32, u64>, step: &Step) {
    match *step {
        Step::Insert(key, value) => assert_eq!(participant.insert(key, value), Ok(model.insert(key, value))),
        Step::Remove(key) => assert_eq!(participant.remove(key), Ok(model.remove(&key))),
        Step::CompareRemove(key, value) => {
            let there = model.get(&key) == Some(&value);
            assert_eq!(participant.compare_remove(key, value), Ok(there));
            model.retain(|other, _| *other != key || !there);
        }
        Step::Evict(key) => {
            let before = model.len();
            model.retain(|other, _| other / 64 != key / 64);
            assert_eq!(participant.evict(key), before - model.len());
        }
        Step::Clear => {
            participant.clear();
            model.clear();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn behaves_as_a_map(steps in prop::collection::vec(some_step(), 1..400), asked in prop::collection::vec(some_key(), 1..300)) {
        let words = memory(bytes_for(100));
        let tree = KissTree::create(&words, 2).unwrap();
        let mut participant = tree.join(1).unwrap();
        let mut model = BTreeMap::new();
        for step in &steps {
            take(&mut participant, &mut model, step);
        }
        prop_assert!(contents(&mut participant).iter().copied().eq(model.clone()));
        let mut answers = vec![Some(7); asked.len()];
        participant.get_many(&asked, &mut answers);
        for (key, answer) in asked.iter().zip(answers) {
            prop_assert_eq!(answer, model.get(key).copied());
            prop_assert_eq!(participant.get(*key), answer);
        }
        for from in asked.iter().take(20) {
            prop_assert!(participant.iter(*from).take(70).eq(model.range(from..).map(|(key, value)| (*key, *value)).take(70)));
        }
        prop_assert_eq!(tree.verify().unwrap().keys, model.len());
        // Nothing is left of an emptied tree, whatever it went through.
        for key in model.keys() {
            participant.remove(*key).unwrap();
        }
        while tree.collect() {}
        let summary = tree.verify().unwrap();
        prop_assert_eq!((summary.keys, summary.second_level, summary.retired, summary.pages), (0, 0, 0, 0));
    }
}

#[test]
fn many_keys_in_one_batch() {
    let words = memory(8 << 20);
    let tree = KissTree::create(&words, 1).unwrap();
    let mut participant = tree.join(0).unwrap();
    for key in (0..100_000u32).step_by(3) {
        participant.insert(key, u64::from(key) << 8).unwrap();
    }
    let keys: Vec<u32> = (0..100_000).rev().collect();
    let mut values = vec![None; keys.len() - 5];
    participant.get_many(&keys, &mut values);
    for (key, value) in keys.iter().zip(&values) {
        assert_eq!(*value, (key % 3 == 0).then_some(u64::from(*key) << 8));
    }
    assert_eq!(participant.read().get(99_999), Some(99_999 << 8));
}

#[test]
fn a_full_tree_says_so_and_can_be_emptied() {
    for spread in [1, 7, 64, 65536] {
        let words = memory(bytes_for(40));
        let tree = KissTree::create(&words, 1).unwrap();
        let mut participant = tree.join(0).unwrap();
        let mut model = BTreeMap::new();
        let refused = (0u32..).map(|n| n.wrapping_mul(spread)).find(|key| {
            let full = participant.insert(*key, u64::from(*key)) == Err(Full);
            if !full {
                model.insert(*key, u64::from(*key));
            }
            full
        });
        assert!(tree.bytes_in_use() <= tree.capacity() && tree.capacity() <= words.len() * 8);
        assert_eq!(participant.get(refused.unwrap()), None);
        assert!(participant.iter(0).eq(model.clone()), "a refused insert changed something");
        assert_eq!(tree.verify().unwrap().keys, model.len());
        // Removing needs memory, too, and there is always some.
        let mut random = StdRng::seed_from_u64(u64::from(spread));
        while let Some(key) = model.keys().nth(random.random_range(0..model.len().max(1))).copied() {
            assert_eq!(participant.remove(key), Ok(model.remove(&key)));
        }
        while tree.collect() {}
        assert_eq!(tree.verify().unwrap().pages, 0);
    }
}

#[test]
fn memory_follows_the_keys_from_sparse_to_dense_and_back() {
    let words = memory(bytes_for(100));
    let tree = KissTree::create(&words, 1).unwrap();
    let mut participant = tree.join(0).unwrap();
    let mut fill = |stride: u32| {
        let count = (0u32..).take_while(|n| participant.insert(n * stride, 1).is_ok()).count();
        participant.clear();
        count
    };
    let first = [64, 1, 2, 65536].map(&mut fill);
    assert_eq!([64, 1, 2, 65536].map(&mut fill), first);
    assert!(first[1] > 30_000, "a dense tree should take about eight bytes a key: {first:?}");
}

#[test]
fn a_key_changed_again_and_again_needs_no_more_memory() {
    let words = memory(bytes_for(8));
    let tree = KissTree::create(&words, 1).unwrap();
    let mut participant = tree.join(0).unwrap();
    for value in 0..200_000 {
        participant.insert(5, value).unwrap();
        participant.insert(6, value).unwrap();
        participant.remove(5).unwrap();
    }
    let summary = tree.verify().unwrap();
    assert!(summary.pages <= 6 && summary.retired < 1000, "{summary:?}");
}

#[test]
fn refuses_what_is_no_tree() {
    let words = memory(2 << 20);
    assert!(matches!(KissTree::attach(&words), Err(Error::NotATree)));
    assert!(matches!(KissTree::attach(&words[..0]), Err(Error::NotATree)));
    assert!(matches!(KissTree::create(&words[..30_000], 1), Err(Error::TooSmall)));
    assert!(matches!(KissTree::create(&words, 0), Err(Error::Participants)));
    assert!(matches!(KissTree::create(&words, MAX_PARTICIPANTS + 1), Err(Error::Participants)));
    let tree = KissTree::create(&words, 3).unwrap();
    assert!(KissTree::attach(&words).is_ok());
    assert!(matches!(KissTree::attach(&words[..words.len() - 1]), Err(Error::NotATree)));
    assert!(tree.join(3).is_none());
    let taken = tree.join(2).unwrap();
    assert!(tree.join(2).is_none());
    drop(taken);
    assert!(tree.join(2).is_some());
    // SAFETY: neither is used: the first has no words, the second is refused.
    unsafe {
        assert!(words_at(std::ptr::null_mut(), 8).is_none());
        assert!(words_at(std::ptr::dangling_mut::<u64>().cast::<u8>().wrapping_add(4), 0).is_none());
    }
}

/// Fills the tree by changing `key` until there is no memory, or up to `limit` changes; how many.
fn churn(participant: &mut Participant, key: u32, limit: u64) -> u64 {
    (0..limit).find(|value| participant.insert(key, *value) == Err(Full)).unwrap_or(limit)
}

#[test]
fn a_dead_reader_holds_memory_back_until_released() {
    let words = memory(bytes_for(8));
    let tree = KissTree::create(&words, 2).unwrap();
    let mut participant = tree.join(0).unwrap();
    let mut dying = tree.join(1).unwrap();
    assert_eq!(churn(&mut participant, 9, 100_000), 100_000);
    forget(dying.read());
    forget(dying);
    assert!(churn(&mut participant, 9, 100_000) < 5000);
    assert!(participant.get(9).is_some());
    tree.release(1);
    assert_eq!(churn(&mut participant, 9, 100_000), 100_000);
    assert!(tree.join(1).is_some());
    tree.verify().unwrap();
}

/// What a thread stores: the key, and a number that only grows for each key.
fn value(key: u32, number: u64) -> u64 {
    u64::from(key) << 32 | number
}

/// Writers, removers and readers on some keys, which `key` makes of small numbers. Each writer has keys of its own, of
/// which it knows what must be there, and all of them count on shared ones.
fn race(seed: u64, pages: usize, key: impl Fn(u32) -> u32 + Sync) {
    const WRITERS: u32 = 3;
    const READERS: usize = 2;
    const KEYS: u32 = 60;
    const COUNTERS: u32 = 4;
    let words = memory(bytes_for(pages));
    let tree = KissTree::create(&words, WRITERS as usize + READERS).unwrap();
    let (key, done, words) = (&key, &AtomicBool::new(false), &words);
    let added: u64 = thread::scope(|scope| {
        for reader in 0..READERS {
            scope.spawn(move || {
                let mut participant = KissTree::attach(words).unwrap().join(WRITERS as usize + reader).unwrap();
                let all: Vec<u32> = (0..(WRITERS + 1) * KEYS).map(key).collect();
                let mut seen = BTreeMap::new();
                let mut see = |asked: u32, found: u64| {
                    assert_eq!((found >> 32) as u32, asked, "the value of another key");
                    let before = seen.insert(asked, found).unwrap_or(0);
                    assert!(before <= found, "an older value came back");
                };
                let mut values = vec![None; all.len()];
                while !done.load(Ordering::Relaxed) {
                    all.iter().for_each(|key| _ = participant.get(*key).map(|found| see(*key, found)));
                    participant.get_many(&all, &mut values);
                    all.iter().zip(&values).for_each(|(key, found)| _ = found.map(|found| see(*key, found)));
                    let mut last = None;
                    for (key, found) in participant.iter(0) {
                        assert!(last.replace(key) < Some(key), "out of order");
                        see(key, found);
                    }
                }
            });
        }
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                scope.spawn(move || {
                    let mut participant = KissTree::attach(words).unwrap().join(writer as usize).unwrap();
                    let mut random = StdRng::seed_from_u64(seed + u64::from(writer));
                    let mut mine = BTreeMap::new();
                    let mut added = 0;
                    for number in 1..30_000 {
                        if number % 8 == 0 {
                            let counter = key(WRITERS * KEYS + random.random_range(0..COUNTERS));
                            let more = |old: Option<u64>| Some(old.unwrap_or(value(counter, 0)) + 1);
                            added += u64::from(participant.alter(counter, more).is_ok());
                            continue;
                        }
                        let key = key(random.random_range(0..KEYS) * WRITERS + writer);
                        match random.random_range(0..10) {
                            0..5 => match participant.insert(key, value(key, number)) {
                                Ok(old) => assert_eq!(old, mine.insert(key, value(key, number))),
                                Err(Full) => thread::yield_now(),
                            },
                            5..8 => match participant.remove(key) {
                                Ok(old) => assert_eq!(old, mine.remove(&key)),
                                Err(Full) => thread::yield_now(),
                            },
                            _ => assert_eq!(participant.get(key), mine.get(&key).copied()),
                        }
                    }
                    for (key, value) in mine {
                        assert_eq!(participant.get(key), Some(value));
                        while participant.compare_remove(key, value) == Err(Full) {
                            thread::yield_now();
                        }
                    }
                    added
                })
            })
            .collect();
        let added = writers.into_iter().map(|writer| writer.join().unwrap()).sum();
        done.store(true, Ordering::Relaxed);
        added
    });
    let mut participant = tree.join(0).unwrap();
    let counted: u64 = participant.iter(0).map(|(_, value)| value & u64::from(u32::MAX)).sum();
    assert_eq!(counted, added, "an update was lost");
    assert!(tree.verify().unwrap().keys <= COUNTERS as usize);
    (0..COUNTERS).for_each(|counter| _ = participant.evict(key(WRITERS * KEYS + counter)));
    while tree.collect() {}
    assert_eq!(tree.verify().unwrap().pages, 0);
}

#[test]
fn threads_on_a_handful_of_keys() {
    race(1, 60, |n| 1000 + n);
}

#[test]
fn threads_on_one_key_a_node() {
    race(2, 60, |n| n * 64);
}

#[test]
fn threads_on_spread_keys() {
    race(3, 400, |n| n.wrapping_mul(0x9E37_79B1));
}

#[test]
fn threads_with_hardly_any_memory() {
    race(4, 14, |n| n * 8);
}

#[test]
fn threads_that_clear_and_evict() {
    let words = memory(bytes_for(30));
    let tree = KissTree::create(&words, 3).unwrap();
    let end = Instant::now() + Duration::from_secs(1);
    thread::scope(|scope| {
        for slot in 0..3 {
            let mut participant = tree.join(slot).unwrap();
            scope.spawn(move || {
                let mut random = StdRng::seed_from_u64(slot as u64);
                while Instant::now() < end {
                    let key = random.random_range(0..4u32) << 16 | random.random_range(0..200);
                    match random.random_range(0..1000) {
                        0 => participant.clear(),
                        1..100 => _ = participant.evict(key),
                        100..500 => _ = participant.insert(key, value(key, random.random_range(0..100))),
                        500..600 => _ = participant.remove(key),
                        _ => assert!(participant.get(key).is_none_or(|found| (found >> 32) as u32 == key)),
                    }
                }
            });
        }
    });
    tree.verify().unwrap();
    tree.join(0).unwrap().clear();
    while tree.collect() {}
    assert_eq!(tree.verify().unwrap().pages, 0);
}

/// Maps the file at `path` at an address of its own.
fn map(path: &Path) -> MmapRaw {
    MmapRaw::map_raw(&OpenOptions::new().read(true).write(true).open(path).unwrap()).unwrap()
}

fn words_of(map: &MmapRaw) -> &[AtomicU64] {
    // SAFETY: the mapping lives as long as the words, and every process uses it as atomic words only.
    unsafe { words_at(map.as_mut_ptr(), map.len()) }.unwrap()
}

/// Adds 10,000 to a key's value. Whoever is suspended while it reads holds memory back: then the others wait.
fn count_up(participant: &mut Participant) {
    for _ in 0..10_000 {
        while participant.alter(77, |old| Some(old.unwrap_or(0) + 1)) == Err(Full) {
            thread::yield_now();
        }
    }
}

const SHARED: &str = "FPBTREE_KISS_SHARED";
const SLOT: &str = "FPBTREE_KISS_SLOT";

/// Not a test by itself: what the other processes of the next one do. The first counts up a key and ends; the second
/// says that it reads, and goes on reading until it is killed.
#[test]
fn another_process() {
    let (Ok(path), Ok(slot)) = (std::env::var(SHARED), std::env::var(SLOT)) else { return };
    let map = map(Path::new(&path));
    let mut participant = KissTree::attach(words_of(&map)).unwrap().join(slot.parse().unwrap()).unwrap();
    if slot == "1" {
        count_up(&mut participant);
    } else {
        participant.insert(88, 1).unwrap();
        let reading = participant.read();
        while reading.get(88) == Some(1) {
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(Duration::from_secs(600));
    }
}

fn start(path: &Path, slot: usize) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "another_process"])
        .env(SHARED, path)
        .env(SLOT, slot.to_string())
        .spawn()
        .unwrap()
}

#[test]
fn processes_share_a_tree_and_may_be_killed() {
    let path = std::env::temp_dir().join(format!("fpbtree-kiss-{}", std::process::id()));
    std::fs::write(&path, vec![0; bytes_for(16)]).unwrap();
    let (here, there) = (map(&path), map(&path));
    assert_ne!(here.as_ptr(), there.as_ptr());
    let tree = KissTree::create(words_of(&here), 3).unwrap();
    let mut participant = KissTree::attach(words_of(&there)).unwrap().join(0).unwrap();
    let mut counting = start(&path, 1);
    count_up(&mut participant);
    assert!(counting.wait().unwrap().success());
    assert_eq!(participant.get(77), Some(20_000));
    let mut reading = start(&path, 2);
    while participant.get(88) != Some(1) {
        thread::sleep(Duration::from_millis(1));
    }
    thread::sleep(Duration::from_millis(50));
    reading.kill().unwrap();
    reading.wait().unwrap();
    std::fs::remove_file(&path).unwrap();
    // It died while it was reading.
    assert!(tree.join(2).is_none());
    assert!(churn(&mut participant, 99, 100_000) < 20_000);
    tree.release(2);
    assert_eq!(churn(&mut participant, 99, 100_000), 100_000);
    assert_eq!(participant.get(88), Some(1));
    tree.verify().unwrap();
}

#[test]
fn damaged_memory_is_survived() {
    /// The lock of the memory management: held for ever by a dead process, it costs a second each time.
    const LOCK: usize = 16;
    let mut random = StdRng::seed_from_u64(5);
    let words = memory(bytes_for(20));
    for round in 0..80 {
        let tree = KissTree::create(&words, 2).unwrap();
        let mut participant = tree.join(0).unwrap();
        for n in 0..500 {
            let key = [n, n * 64, n * 65536 * 8][n as usize % 3];
            let _ = participant.insert(key, 1);
        }
        drop(participant);
        let fixed = words.len() - 20 * 514;
        for _ in 0..if round == 0 { 100_000 } else { [1, 10, 100, 1000][round % 4] } {
            // Half of the damage hits the header and the lists, where it does most.
            let place = match random.random_range(0..4) {
                0 => random.random_range(0..100),
                1 => random.random_range(fixed..words.len()),
                _ => random.random_range(0..words.len()),
            };
            let bits = match random.random_range(0..3) {
                0 => 1 << random.random_range(0..64),
                1 => u64::MAX >> random.random_range(0..64),
                _ => random.random(),
            };
            words[place].fetch_xor(bits, Ordering::Relaxed);
        }
        words[LOCK].store(0, Ordering::Relaxed);
        use_it(&tree, &mut random);
        if let Ok(tree) = KissTree::attach(&words) {
            use_it(&tree, &mut random);
        }
    }
}

/// Everything one can do with a tree. Any answer is fine.
fn use_it(tree: &KissTree, random: &mut StdRng) {
    tree.release(0);
    let Some(mut participant) = tree.join(0) else { return };
    for _ in 0..200 {
        let key =
            [random.random_range(0..500), random.random_range(0..500) * 64, random.random()][random.random_range(0..3)];
        let _ = (
            participant.get(key),
            participant.insert(key, 2),
            participant.remove(key ^ 1),
            participant.evict(key ^ 64),
        );
    }
    let keys: Vec<u32> = (0..100).map(|_| random.random()).collect();
    participant.get_many(&keys, &mut [None; 100]);
    let _ = (participant.iter(0).take(5000).count(), tree.collect(), tree.bytes_in_use(), tree.verify().is_ok());
    // Takes long where every entry of the first level is garbage.
    if random.random_ratio(1, 8) {
        participant.clear();
    }
}
