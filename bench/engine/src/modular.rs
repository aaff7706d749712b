//! The modular B+-tree against other ordered maps, as the paper measures (§4.1): three quarters of the pairs are loaded,
//! then the last quarter is inserted, random keys of all are found, and the first quarter is removed.

use std::collections::BTreeMap;

use fpbtree_engine::hot::modular::{Best, Modules, Tree};
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

/// Turns the maps take in a phase, so that what else the machine does hits all of them.
const TURNS: usize = 40;

pub fn run(arguments: &Arguments) {
    let pairs = arguments.get("pairs", 16_000_000);
    let mut rng = StdRng::seed_from_u64(pairs as u64);
    let keys: Vec<u64> = (0..pairs).map(|_| rng.random()).collect();
    let mut shuffled = keys.clone();
    let quarter = pairs / 4;
    let (wanted, _) = shuffled.partial_shuffle(&mut rng, quarter);
    let (loaded, added) = keys.split_at(pairs - quarter);

    let mut maps: Vec<_> = MAPS.iter().map(|(_, new)| new(pairs)).collect();
    maps.iter_mut().for_each(|map| map.insert(loaded));
    let insert = phase(&mut maps, added, |map, keys| map.insert(keys));
    let find = phase(&mut maps, wanted, |map, keys| {
        assert_eq!(map.find(keys), keys.iter().fold(0u64, |sum, key| sum.wrapping_add(!key)));
    });
    let remove = phase(&mut maps, &keys[..quarter], |map, keys| assert_eq!(map.remove(keys), keys.len()));

    println!("{pairs} random pairs u64 -> u64, one thread, millions a second");
    print(MAPS.iter().map(|(name, _)| *name), &[("find", find), ("insert", insert), ("remove", remove)]);
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
