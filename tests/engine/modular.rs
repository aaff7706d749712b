//! The modular B+-tree against `BTreeMap`, for several selections of modules and every key width.

use fpbtree_engine::cache::modular::*;
use fpbtree_engine::format::Lane;
use proptest::prelude::*;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng, rngs::StdRng};
use std::collections::BTreeMap;

macro_rules! modules {
    ($($name:ident = $leaf:ty, $leaf_size:expr; $inner:ty, $inner_size:expr; $root:ty, $root_size:expr;)*) => {
        $(
            mod $name {
                use super::*;
                pub struct All;
                pub struct Leaf;
                pub struct Inner;
                pub struct Root;
                impl Modules for All {
                    type Leaf = Leaf;
                    type Inner = Inner;
                    type Root = Root;
                }
                impl Module for Leaf {
                    type Order = $leaf;
                    const SIZE: usize = $leaf_size;
                    const PREFETCH: Prefetch = Prefetch::Keys;
                }
                impl Module for Inner {
                    type Order = $inner;
                    const SIZE: usize = $inner_size;
                    const PREFETCH: Prefetch = Prefetch::Payloads;
                }
                impl Module for Root {
                    type Order = $root;
                    const SIZE: usize = $root_size;
                }
            }
        )*
    };
}

// Nodes of two to sixteen entries, so that trees get many levels, and roots that overflow.
modules! {
    tiny = Unsorted, 64; Sorted<Linear>, 64; Sorted<Interpolation>, 128;
    sorted = Sorted<Binary>, 128; Sorted<Binary>, 64; Sorted<Binary>, 192;
    sentinels = Sorted<Sentinels>, 320; Sorted<Sentinels>, 192; Sorted<Sentinels<Interpolation>>, 640;
    unsorted = Unsorted, 128; Unsorted, 128; Sorted<Linear>, 256;
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u128, u64),
    Remove(u128),
    Find(u128),
    Range(u128),
    Clear,
}

/// Keys that meet often: few, in runs, and at both ends.
fn key() -> impl Strategy<Value = u128> {
    let bits = prop_oneof![Just(32u32), Just(64), Just(128)];
    prop_oneof![
        6 => 0..200u128,
        2 => (0..100u128).prop_map(|i| i * 1_000_003),
        1 => bits.prop_flat_map(|bits| (0..6u128).prop_map(move |i| (u128::MAX >> (128 - bits)) - i)),
        1 => any::<u128>(),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        400 => (key(), any::<u64>()).prop_map(|(key, value)| Step::Insert(key, value)),
        300 => key().prop_map(Step::Remove),
        100 => key().prop_map(Step::Find),
        50 => key().prop_map(Step::Range),
        1 => Just(Step::Clear),
    ]
}

fn at_most<K: Lane>(model: &BTreeMap<K, u64>, key: K) -> Option<(K, u64)> {
    model.range(..=key).next_back().map(|(key, value)| (*key, *value))
}

fn pairs<K: Lane>(model: &BTreeMap<K, u64>, from: K) -> impl Iterator<Item = (K, u64)> {
    model.range(from..).map(|(key, value)| (*key, *value))
}

/// Does the same with a tree and a model, in memory that may be too small, and compares all they say.
fn compare<K: Lane, S: Modules>(steps: &[Step], bytes: usize) {
    let mut memory = vec![0xA5; bytes];
    let mut tree: Tree<K, u64, S, &mut [u8]> = Tree::format(&mut memory[..]).expect("room");
    let mut model = BTreeMap::new();
    for (i, step) in steps.iter().enumerate() {
        match *step {
            Step::Insert(key, value) => {
                let key = K::from_u128(key);
                match tree.insert(key, value) {
                    Ok(replaced) => assert_eq!(replaced, model.insert(key, value)),
                    Err(error) => assert!(error == Error::Full && !model.contains_key(&key)),
                }
            }
            Step::Remove(key) => {
                let key = K::from_u128(key);
                assert_eq!(tree.remove(key), Ok(model.remove(&key)));
            }
            Step::Find(key) => {
                let key = K::from_u128(key);
                assert_eq!(tree.find(key), model.get(&key).copied());
                assert_eq!(tree.find_at_most(key), at_most(&model, key));
            }
            Step::Range(key) => {
                let key = K::from_u128(key);
                assert!(tree.range_from(key).take(20).eq(pairs(&model, key).take(20)));
            }
            Step::Clear => {
                tree.clear().expect("an empty tree fits");
                model.clear();
            }
        }
        if i % 16 == 0 || model.len() < 4 {
            assert_eq!(tree.verify(), Ok(()), "after {i} steps");
        }
    }
    assert_eq!(tree.verify(), Ok(()));
    assert_eq!(tree.len(), model.len() as u64);
    assert_eq!(tree.is_empty(), model.is_empty());
    assert!(tree.iter().eq(pairs(&model, K::MIN)));
    let attached: Tree<K, u64, S, &[u8]> = Tree::attach(&memory[..]).expect("the same tree");
    assert!(attached.iter().eq(pairs(&model, K::MIN)));
}

fn compare_all(steps: &[Step], bytes: usize) {
    fn widths<S: Modules>(steps: &[Step], bytes: usize) {
        compare::<u32, S>(steps, bytes);
        compare::<u64, S>(steps, bytes);
        compare::<u128, S>(steps, bytes);
    }
    widths::<tiny::All>(steps, bytes);
    widths::<sorted::All>(steps, bytes);
    widths::<sentinels::All>(steps, bytes);
    widths::<unsorted::All>(steps, bytes);
    widths::<Best>(steps, bytes);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(96) })]

    #[test]
    fn it_is_an_ordered_map(steps in proptest::collection::vec(step(), 1..1500)) {
        compare_all(&steps, 1 << 17);
    }

    #[test]
    fn a_full_one_stays_as_it_was(steps in proptest::collection::vec(step(), 1..1500)) {
        compare_all(&steps, 8 << 10);
    }

    #[test]
    fn damage_stays_inside(
        steps in proptest::collection::vec(step(), 200..400),
        seed in any::<u64>(),
        flips in 1..200usize,
    ) {
        damage::<u64, tiny::All>(&steps, seed, flips);
        damage::<u32, sorted::All>(&steps, seed, flips);
        damage::<u128, sentinels::All>(&steps, seed, flips);
        damage::<u64, unsorted::All>(&steps, seed, flips);
        damage::<u64, Best>(&steps, seed, flips);
    }
}

/// Builds a tree, damages it, and uses it: all that is asked is that everything ends, without a panic.
fn damage<K: Lane, S: Modules>(steps: &[Step], seed: u64, flips: usize) {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut memory = vec![0; 16 << 10];
    Tree::<K, u64, S, _>::format(&mut memory[..]).expect("room");
    for (i, step) in steps.iter().cycle().take(2 * steps.len()).enumerate() {
        if i >= steps.len() {
            let (header, all) = (12..64, 12..memory.len());
            for _ in 0..flips.div_ceil(20) {
                let in_header = rng.random_ratio(1, 8);
                let at = rng.random_range(if in_header { header.clone() } else { all.clone() });
                memory[at] = rng.random_range(0..2) * rng.random::<u8>();
            }
        }
        let Ok(mut tree) = Tree::<K, u64, S, _>::attach(&mut memory[..]) else { return };
        match *step {
            Step::Insert(key, value) => drop(tree.insert(K::from_u128(key), value)),
            Step::Remove(key) => drop(tree.remove(K::from_u128(key))),
            Step::Find(key) => drop((tree.find(K::from_u128(key)), tree.find_at_most(K::from_u128(key)))),
            Step::Range(key) => drop((tree.range_from(K::from_u128(key)).take(1000).count(), tree.verify())),
            Step::Clear => drop((tree.usage(), tree.is_empty())),
        }
    }
}

/// Inserts and removes `n` random keys, and checks the tree's levels on the way.
fn grow_and_shrink<K: Lane, S: Modules>(n: usize, bytes: usize, levels: usize) {
    let mut rng = StdRng::seed_from_u64(n as u64);
    let mut tree: Tree<K, u64, S, Vec<u8>> = Tree::format(vec![0; bytes]).expect("room");
    let empty = tree.usage();
    let mut keys: Vec<K> = (0..n).map(|_| K::from_u128(rng.random())).collect();
    let mut model = BTreeMap::new();
    for (i, key) in keys.iter().enumerate() {
        assert_eq!(tree.insert(*key, i as u64), Ok(model.insert(*key, i as u64)));
    }
    assert_eq!(tree.verify(), Ok(()));
    assert!(tree.usage().levels >= levels, "{:?}", tree.usage());
    assert!(tree.iter().eq(pairs(&model, K::MIN)));
    keys.shuffle(&mut rng);
    for (i, key) in keys.iter().enumerate() {
        assert_eq!(tree.find_at_most(*key), at_most(&model, *key));
        assert_eq!(tree.remove(*key), Ok(model.remove(key)));
        assert_eq!(tree.find(*key), None);
        if i % (n / 16) == 0 {
            assert_eq!(tree.verify(), Ok(()));
        }
    }
    assert_eq!(tree.verify(), Ok(()));
    let usage = tree.usage();
    assert_eq!((usage.leaves, usage.inner, usage.levels), (1, 1, 3), "from {empty:?}");
}

#[test]
fn any_number_of_levels() {
    grow_and_shrink::<u64, tiny::All>(30_000, 4 << 20, 8);
    grow_and_shrink::<u32, sorted::All>(30_000, 4 << 20, 5);
    grow_and_shrink::<u128, sentinels::All>(30_000, 4 << 20, 5);
    grow_and_shrink::<u64, unsorted::All>(30_000, 4 << 20, 5);
    grow_and_shrink::<u64, Best>(300_000, 16 << 20, 3);
}

#[test]
fn skewed_keys() {
    let mut tree: Tree<u64, u64, Best, Vec<u8>> = Tree::format(vec![0; 8 << 20]).expect("room");
    let mut model = BTreeMap::new();
    let powers = (0..64).flat_map(|bit| (0..2000u64).map(move |i| (1u64 << bit).wrapping_add(i)));
    for (i, key) in powers.chain([u64::MAX, 0]).enumerate() {
        assert_eq!(tree.insert(key, i as u64), Ok(model.insert(key, i as u64)));
    }
    assert_eq!(tree.verify(), Ok(()));
    for key in model.keys().flat_map(|key| [key.wrapping_sub(1), *key, key.wrapping_add(1)]) {
        assert_eq!(tree.find(key), model.get(&key).copied());
        assert_eq!(tree.find_at_most(key), at_most(&model, key));
    }
}

#[test]
fn appended_keys_fill_leaves() {
    let n = 100_000u64;
    let mut tree: Tree<u64, u64, Best, Vec<u8>> = Tree::format(vec![0; 4 << 20]).expect("room");
    (0..n).for_each(|key| assert_eq!(tree.insert(key, key), Ok(None)));
    assert_eq!(tree.verify(), Ok(()));
    let leaf_bytes = u64::from(tree.usage().leaves) * BestLeaf::SIZE as u64;
    assert!(leaf_bytes < n * 17, "{leaf_bytes} bytes for {n} pairs of 16");
}

#[test]
fn a_full_region_takes_what_was_made_room_for() {
    let mut memory = vec![0; 20 << 10];
    let mut tree: Tree<u64, u64, tiny::All, &mut [u8]> = Tree::format(&mut memory[..]).expect("room");
    let mut rng = StdRng::seed_from_u64(1);
    let mut keys: Vec<u64> = Vec::new();
    for _ in 0..20 {
        let error = loop {
            let key = rng.random();
            match tree.insert(key, !key) {
                Ok(_) => keys.push(key),
                Err(error) => break error,
            }
        };
        assert_eq!(error, Error::Full);
        assert_eq!(tree.verify(), Ok(()));
        assert!(tree.usage().bytes <= 20 << 10);
        assert!(keys.len() > 300, "{} pairs", keys.len());
        assert!(keys.iter().all(|key| tree.find(*key) == Some(!key)));
        // A full tree still replaces.
        assert_eq!(tree.insert(keys[0], !keys[0]), Ok(Some(!keys[0])));
        keys.shuffle(&mut rng);
        keys.drain(..keys.len() / 2).for_each(|key| assert_eq!(tree.remove(key), Ok(Some(!key))));
    }
}

#[test]
fn attached_elsewhere_it_is_the_same_tree() {
    let mut memory = vec![0; 1 << 16];
    let mut tree: Tree<u32, u32, Best, &mut [u8]> = Tree::format(&mut memory[..]).expect("room");
    (0..500).for_each(|key| assert_eq!(tree.insert(key * 7, key), Ok(None)));
    // Another address, another alignment.
    let mut elsewhere = vec![0; 3];
    elsewhere.extend_from_slice(&memory);
    let mut tree: Tree<u32, u32, Best, &mut [u8]> = Tree::attach(&mut elsewhere[3..]).expect("the same tree");
    assert!(tree.iter().eq((0..500).map(|key| (key * 7, key))));
    assert_eq!(tree.insert(3, 3), Ok(None));
    assert_eq!(tree.verify(), Ok(()));
    assert_eq!(tree.len(), 501);
}

#[test]
fn only_a_tree_of_the_same_type_is_attached() {
    let mut memory = vec![0; 1 << 16];
    assert!(Tree::<u64, u64, Best, _>::attach(&memory[..]).is_err());
    Tree::<u64, u64, Best, _>::format(&mut memory[..]).expect("room");
    assert!(Tree::<u64, u64, Best, _>::attach(&memory[..]).is_ok());
    assert_eq!(Tree::<u64, u32, Best, _>::attach(&memory[..]).err(), Some(Error::Foreign));
    assert_eq!(Tree::<u32, u64, Best, _>::attach(&memory[..]).err(), Some(Error::Foreign));
    assert_eq!(Tree::<u64, u64, tiny::All, _>::attach(&memory[..]).err(), Some(Error::Foreign));
    for len in [0, 63, 64, 1 << 15, (1 << 16) - 1] {
        assert_eq!(Tree::<u64, u64, Best, _>::attach(&memory[..len]).err(), Some(Error::Foreign));
    }
}

#[test]
fn too_small_a_region_is_refused() {
    let fits = |len| Tree::<u64, u64, tiny::All, _>::format(vec![0; len]).map(|tree| tree.usage().bytes);
    // A header, a root of two lines, an inner node, a leaf.
    assert_eq!(fits(5 * 64), Ok(5 * 64));
    for len in [0, 1, 63, 64, 3 * 64, 5 * 64 - 1] {
        assert_eq!(fits(len), Err(Error::Full));
    }
}

#[test]
fn large_pages_change_nothing() {
    let mut tree: Tree<u64, u64, Best, Vec<u8>> = Tree::format(vec![0; 8 << 20]).expect("room");
    (0..1000).for_each(|key| assert_eq!(tree.insert(key, !key), Ok(None)));
    tree.advise();
    assert_eq!(tree.verify(), Ok(()));
    assert!(tree.iter().eq((0..1000).map(|key| (key, !key))));
}
