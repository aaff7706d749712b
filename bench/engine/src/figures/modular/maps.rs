//! The modular B+-tree against other ordered maps, as the paper measures (§4.1): three quarters of the pairs are loaded,
//! then the last quarter is inserted, random keys of all are found, and the first quarter is removed.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use fpbtree_engine::hot::modular::{
    Best, Binary, Interpolation, Linear, Module, Modules, Order, Prefetch, Sentinels, Sorted, Tree, Unsorted,
};
use memmap2::MmapMut;
use rand::{Rng, SeedableRng, rngs::StdRng, seq::SliceRandom};

use crate::Arguments;
use crate::table::{print, throughput};

/// An ordered map from keys to their complements.
trait Map {
    /// An empty map with room for `pairs`.
    fn new(pairs: usize) -> Self
    where
        Self: Sized;
    fn insert(&mut self, keys: &[u64]);
    /// The sum of the values found.
    fn find(&self, keys: &[u64]) -> u64;
    /// How many keys were there.
    fn remove(&mut self, keys: &[u64]) -> usize;
}

impl Map for BTreeMap<u64, u64> {
    fn new(_: usize) -> Self {
        BTreeMap::new()
    }

    fn insert(&mut self, keys: &[u64]) {
        for &key in keys {
            BTreeMap::insert(self, key, !key);
        }
    }

    fn find(&self, keys: &[u64]) -> u64 {
        keys.iter().filter_map(|key| self.get(key)).fold(0, |sum, value| sum.wrapping_add(*value))
    }

    fn remove(&mut self, keys: &[u64]) -> usize {
        keys.iter().filter_map(|key| BTreeMap::remove(self, key)).count()
    }
}

struct Modular<S: Modules> {
    tree: Tree<u64, u64, S, MmapMut>,
}

impl<S: Modules> Map for Modular<S> {
    fn new(pairs: usize) -> Self {
        let memory = MmapMut::map_anon(pairs * 48 + (64 << 20)).expect("memory");
        let mut tree = Tree::format(memory).expect("room for a tree");
        if !tree.advise() {
            eprintln!("no large pages");
        }
        Modular { tree }
    }

    fn insert(&mut self, keys: &[u64]) {
        for &key in keys {
            self.tree.insert(key, !key).expect("room");
        }
    }

    fn find(&self, keys: &[u64]) -> u64 {
        keys.iter().filter_map(|key| self.tree.find(*key)).fold(0, u64::wrapping_add)
    }

    fn remove(&mut self, keys: &[u64]) -> usize {
        keys.iter().filter_map(|key| self.tree.remove(*key).expect("sound")).count()
    }
}

#[cfg(abseil)]
mod abseil {
    #[repr(C)]
    pub struct Map {
        _private: [u8; 0],
    }

    unsafe extern "C" {
        pub fn abseil_new() -> *mut Map;
        pub fn abseil_free(map: *mut Map);
        pub fn abseil_insert(map: *mut Map, keys: *const u64, n: usize);
        pub fn abseil_find(map: *const Map, keys: *const u64, n: usize) -> u64;
        pub fn abseil_remove(map: *mut Map, keys: *const u64, n: usize) -> usize;
    }
}

#[cfg(abseil)]
struct Abseil(*mut abseil::Map);

#[cfg(abseil)]
impl Map for Abseil {
    fn new(_: usize) -> Self {
        // SAFETY: no conditions.
        Abseil(unsafe { abseil::abseil_new() })
    }

    fn insert(&mut self, keys: &[u64]) {
        // SAFETY: the map is alive, and the keys are a slice.
        unsafe { abseil::abseil_insert(self.0, keys.as_ptr(), keys.len()) }
    }

    fn find(&self, keys: &[u64]) -> u64 {
        // SAFETY: the map is alive, and the keys are a slice.
        unsafe { abseil::abseil_find(self.0, keys.as_ptr(), keys.len()) }
    }

    fn remove(&mut self, keys: &[u64]) -> usize {
        // SAFETY: the map is alive, and the keys are a slice.
        unsafe { abseil::abseil_remove(self.0, keys.as_ptr(), keys.len()) }
    }
}

#[cfg(abseil)]
impl Drop for Abseil {
    fn drop(&mut self) {
        // SAFETY: the map was alive until now.
        unsafe { abseil::abseil_free(self.0) }
    }
}

type New = fn(usize) -> Box<dyn Map>;

fn boxed<M: Map + 'static>(pairs: usize) -> Box<dyn Map> {
    Box::new(M::new(pairs))
}

/// What is compared, the tree of the engine first.
const MAPS: &[(&str, New)] = &[
    ("modular B+-tree", boxed::<Modular<Best>>),
    ("std::collections::BTreeMap", boxed::<BTreeMap<u64, u64>>),
    #[cfg(abseil)]
    ("absl::btree_map", boxed::<Abseil>),
];

/// A level of nodes of so many bytes, of which all is prefetched, or the keys alone.
struct Level<O, const SIZE: usize, const ALL: bool>(PhantomData<O>);

impl<O: Order, const SIZE: usize, const ALL: bool> Module for Level<O, SIZE, ALL> {
    type Order = O;
    const SIZE: usize = SIZE;
    const PREFETCH: Prefetch = if ALL { Prefetch::Node } else { Prefetch::Keys };
    const LARGE_PAGES: bool = true;
}

/// A selection of modules.
struct Selected<Leaf, Inner, Root>(PhantomData<(Leaf, Inner, Root)>);

impl<Leaf: Module, Inner: Module, Root: Module> Modules for Selected<Leaf, Inner, Root> {
    type Leaf = Leaf;
    type Inner = Inner;
    type Root = Root;
}

type Leaves<const SIZE: usize> = Level<Unsorted, SIZE, true>;
type Inners<const SIZE: usize> = Level<Sorted<Sentinels<Linear>>, SIZE, true>;
type Roots<const SIZE: usize> = Level<Sorted<Sentinels<Interpolation>>, SIZE, false>;
type With<Leaf = Leaves<1024>, Inner = Inners<2048>, Root = Roots<262_144>> = Modular<Selected<Leaf, Inner, Root>>;

/// Selections of modules, the default one first; of the others, how they differ from it.
const SELECTIONS: &[(&str, New)] = &[
    ("leaf 1 KB, inner 2 KB, root 256 KB", boxed::<Modular<Best>>),
    ("leaf 512 B", boxed::<With<Leaves<512>>>),
    ("leaf 2 KB", boxed::<With<Leaves<2048>>>),
    ("leaf, only keys prefetched", boxed::<With<Level<Unsorted, 1024, false>>>),
    ("leaf sorted", boxed::<With<Level<Sorted<Linear>, 1024, true>>>),
    ("inner 1 KB", boxed::<With<Leaves<1024>, Inners<1024>>>),
    ("inner 4 KB", boxed::<With<Leaves<1024>, Inners<4096>>>),
    ("inner, only keys prefetched", boxed::<With<Leaves<1024>, Level<Sorted<Sentinels<Linear>>, 2048, false>>>),
    ("inner, binary search", boxed::<With<Leaves<1024>, Level<Sorted<Binary>, 2048, true>>>),
    ("inner without sentinels", boxed::<With<Leaves<1024>, Level<Sorted<Linear>, 2048, true>>>),
    ("root 64 KB", boxed::<With<Leaves<1024>, Inners<2048>, Roots<65_536>>>),
    ("root 1 MB", boxed::<With<Leaves<1024>, Inners<2048>, Roots<1_048_576>>>),
];

/// Turns the maps take in a phase, so that what else the machine does hits all of them.
const TURNS: usize = 40;

/// Prints the default selection of modules beside `BTreeMap` and Abseil's tree.
pub fn run(arguments: &Arguments) {
    compare(arguments, MAPS);
}

/// Prints selections of modules side by side (Sasaki and Araki, §4.2).
pub fn run_selections(arguments: &Arguments) {
    compare(arguments, SELECTIONS);
}

fn compare(arguments: &Arguments, compared: &[(&str, New)]) {
    let pairs = arguments.get("pairs", 16_000_000);
    let mut rng = StdRng::seed_from_u64(pairs as u64);
    let keys: Vec<u64> = (0..pairs).map(|_| rng.random()).collect();
    let mut shuffled = keys.clone();
    let quarter = pairs / 4;
    let (wanted, _) = shuffled.partial_shuffle(&mut rng, quarter);
    let (loaded, added) = keys.split_at(pairs - quarter);

    let mut maps: Vec<_> = compared.iter().map(|(_, new)| new(pairs)).collect();
    maps.iter_mut().for_each(|map| map.insert(loaded));
    let insert = phase(&mut maps, added, |map, keys| map.insert(keys));
    let find = phase(&mut maps, wanted, |map, keys| {
        assert_eq!(map.find(keys), keys.iter().fold(0u64, |sum, key| sum.wrapping_add(!key)));
    });
    let remove = phase(&mut maps, &keys[..quarter], |map, keys| assert_eq!(map.remove(keys), keys.len()));

    println!("{pairs} random pairs u64 -> u64, one thread, millions a second");
    print(compared.iter().map(|(name, _)| *name), &[("find", find), ("insert", insert), ("remove", remove)]);
}

/// The throughput of every map, turn by turn, in doing `work` for all keys.
fn phase(maps: &mut [Box<dyn Map>], keys: &[u64], work: impl Fn(&mut dyn Map, &[u64])) -> Vec<Vec<f64>> {
    let mut samples = vec![Vec::new(); maps.len()];
    for turn in keys.chunks(keys.len().div_ceil(TURNS)) {
        for (map, samples) in maps.iter_mut().zip(&mut samples) {
            samples.push(throughput(turn.len(), || work(map.as_mut(), turn)));
        }
    }
    samples
}
