//! Maps from 32-bit keys to values: the KISS-tree and what it is compared with (§6).
//!
//! A key's value is the key itself, changed by a *stamp* ([`value`]), so that what is read can be checked.

use std::collections::{BTreeMap, HashMap};

use fpbtree_engine::cache::modular::{Best, Tree};
use fpbtree_engine::cache::word::words_at;
use fpbtree_lab::index::Index;
use fpbtree_lab::memory::kiss::{KissTree, Participant};
use fpbtree_lab::memory::prefix::Pt4;
use memmap2::{Advice, MmapMut, MmapOptions};

/// Keys read at a time.
const BATCH: usize = 1024;

/// The value that a key gets with a stamp.
pub fn value(key: u32, stamp: u32) -> u32 {
    key ^ stamp
}

/// A map that is filled, read and updated.
pub trait Map {
    /// Gives the keys the values that a stamp makes of them.
    fn update(&mut self, keys: &[u32], stamp: u32);

    /// The sum of the keys' values.
    fn read(&mut self, keys: &[u32]) -> u64;

    /// Updates so many keys in a hundred, and reads the others, a batch at a time. Returns the sum of what it read.
    fn mix(&mut self, keys: &[u32], percent: usize, stamp: u32) -> u64 {
        let batch = |keys: &[u32]| {
            let (updated, read) = keys.split_at(keys.len() * percent / 100);
            self.update(updated, stamp);
            self.read(read)
        };
        keys.chunks(BATCH).map(batch).sum()
    }

    /// Bytes that it takes, if it counts them.
    fn bytes(&self) -> Option<usize> {
        None
    }
}

/// What is called something and made for a number of keys.
pub type New = (&'static str, fn(usize) -> Box<dyn Map>);

/// The engine's KISS-tree with as many participants as there are threads to use it.
pub struct Kiss {
    participants: Vec<Participant<'static>>,
    tree: KissTree<'static>,
    batched: bool,
    /// What the tree is in; dropped after it.
    _memory: MmapMut,
}

impl Kiss {
    /// An empty tree for so many keys, on large pages if the system has them and `large` says so.
    pub fn new(keys: usize, threads: usize, batched: bool, large: bool) -> Self {
        let mut memory = MmapOptions::new().len(64 * keys + (320 << 20)).map_anon().expect("address space");
        let _ = memory.advise(if large { Advice::HugePage } else { Advice::NoHugePage });
        // SAFETY: the mapping stays where it is until the tree and its participants are gone, and nothing else uses it.
        let words = unsafe { words_at(memory.as_mut_ptr(), memory.len()) }.expect("aligned");
        let tree = KissTree::create(words, threads).expect("room");
        let participants = (0..threads).map(|slot| tree.join(slot).expect("a slot")).collect();
        Kiss { participants, tree, batched, _memory: memory }
    }

    /// Bytes of the second-level nodes.
    pub fn second_level(&self) -> usize {
        self.tree.verify().expect("a sound tree").second_level * 4096
    }

    /// Divides keys among the participants, each with a thread of its own if there are several.
    fn divide<R: Send>(&mut self, keys: &[u32], work: impl Fn(&mut Participant, &[u32]) -> R + Sync) -> Vec<R> {
        let parts = keys.chunks(keys.len().div_ceil(self.participants.len()).max(1));
        if let [only] = &mut self.participants[..] {
            return parts.map(|part| work(only, part)).collect();
        }
        let work = &work;
        std::thread::scope(|scope| {
            let parts = parts.zip(&mut self.participants);
            let threads: Vec<_> =
                parts.map(|(part, participant)| scope.spawn(move || work(participant, part))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        })
    }
}

fn update(kiss: &mut Participant, keys: &[u32], stamp: u32) {
    for &key in keys {
        kiss.insert(key, u64::from(value(key, stamp))).expect("room");
    }
}

fn read(kiss: &mut Participant, keys: &[u32], batched: bool) -> u64 {
    if !batched {
        return keys.iter().filter_map(|key| kiss.get(*key)).sum();
    }
    let mut values = [None; BATCH];
    let batch = |keys: &[u32]| {
        kiss.get_many(keys, &mut values);
        values[..keys.len()].iter().flatten().sum::<u64>()
    };
    keys.chunks(BATCH).map(batch).sum()
}

impl Map for Kiss {
    fn update(&mut self, keys: &[u32], stamp: u32) {
        self.divide(keys, |kiss, keys| update(kiss, keys, stamp));
    }

    fn read(&mut self, keys: &[u32]) -> u64 {
        let batched = self.batched;
        self.divide(keys, |kiss, keys| read(kiss, keys, batched)).into_iter().sum()
    }

    fn mix(&mut self, keys: &[u32], percent: usize, stamp: u32) -> u64 {
        let batched = self.batched;
        let batch = |kiss: &mut Participant, keys: &[u32]| {
            let (updated, sought) = keys.split_at(keys.len() * percent / 100);
            update(kiss, updated, stamp);
            read(kiss, sought, batched)
        };
        let all = |kiss: &mut Participant, keys: &[u32]| keys.chunks(BATCH).map(|keys| batch(kiss, keys)).sum::<u64>();
        self.divide(keys, all).into_iter().sum()
    }

    fn bytes(&self) -> Option<usize> {
        Some(self.tree.bytes_in_use())
    }
}

impl Map for Pt4 {
    fn update(&mut self, keys: &[u32], stamp: u32) {
        keys.iter().for_each(|&key| _ = self.insert(key, value(key, stamp)));
    }

    fn read(&mut self, keys: &[u32]) -> u64 {
        let mut ids = [None; BATCH];
        let batch = |keys: &[u32]| {
            self.search_many(keys, &mut ids);
            ids[..keys.len()].iter().flatten().map(|id| u64::from(*id)).sum::<u64>()
        };
        // As many at a time as the engine's KISS-tree.
        keys.chunks(64).map(batch).sum()
    }

    fn bytes(&self) -> Option<usize> {
        Some(Pt4::bytes(self))
    }
}

/// The engine's modular B+-tree.
pub struct Modular(Tree<u32, u64, Best, MmapMut>);

impl Modular {
    pub fn new(keys: usize) -> Self {
        let memory = MmapMut::map_anon(keys * 40 + (64 << 20)).expect("address space");
        let mut tree = Tree::format(memory).expect("room for a tree");
        tree.advise();
        Modular(tree)
    }
}

impl Map for Modular {
    fn update(&mut self, keys: &[u32], stamp: u32) {
        keys.iter().for_each(|&key| _ = self.0.insert(key, u64::from(value(key, stamp))).expect("room"));
    }

    fn read(&mut self, keys: &[u32]) -> u64 {
        keys.iter().filter_map(|key| self.0.find(*key)).sum()
    }

    fn bytes(&self) -> Option<usize> {
        Some(self.0.usage().bytes)
    }
}

impl Map for BTreeMap<u32, u64> {
    fn update(&mut self, keys: &[u32], stamp: u32) {
        keys.iter().for_each(|&key| _ = self.insert(key, u64::from(value(key, stamp))));
    }

    fn read(&mut self, keys: &[u32]) -> u64 {
        keys.iter().filter_map(|key| self.get(key)).sum()
    }
}

impl Map for HashMap<u32, u64> {
    fn update(&mut self, keys: &[u32], stamp: u32) {
        keys.iter().for_each(|&key| _ = self.insert(key, u64::from(value(key, stamp))));
    }

    fn read(&mut self, keys: &[u32]) -> u64 {
        keys.iter().filter_map(|key| self.get(key)).sum()
    }

    fn bytes(&self) -> Option<usize> {
        // A byte beside each slot, of which seven in eight are used at most, and a power of two in all.
        let slots = (self.capacity() * 8 / 7).next_power_of_two();
        Some(slots * (size_of::<(u32, u64)>() + 1))
    }
}

/// Adaptive radix trees.
pub mod art {
    use super::{Map, value};
    use blart::TreeMap;
    use congee::Congee;
    use rart::{AdaptiveRadixTree, ArrayKey};

    /// Of the crate `blart`.
    pub type Blart = TreeMap<[u8; 4], u64>;

    impl Map for Blart {
        fn update(&mut self, keys: &[u32], stamp: u32) {
            for key in keys {
                _ = self.try_insert(key.to_be_bytes(), u64::from(value(*key, stamp)));
            }
        }

        fn read(&mut self, keys: &[u32]) -> u64 {
            keys.iter().filter_map(|key| self.get(&key.to_be_bytes())).sum()
        }
    }

    /// Of the crate `rart`.
    pub type Rart = AdaptiveRadixTree<ArrayKey<16>, u64>;

    impl Map for Rart {
        fn update(&mut self, keys: &[u32], stamp: u32) {
            keys.iter().for_each(|&key| _ = self.insert_k(&ArrayKey::from(key), u64::from(value(key, stamp))));
        }

        fn read(&mut self, keys: &[u32]) -> u64 {
            keys.iter().filter_map(|key| self.get_k(&ArrayKey::from(*key))).sum()
        }
    }

    /// Of the crate `congee`, whose keys and values are `usize`.
    pub type Concurrent = Congee<usize, usize>;

    impl Map for Concurrent {
        fn update(&mut self, keys: &[u32], stamp: u32) {
            let guard = self.pin();
            keys.iter().for_each(|&key| _ = self.insert(key as usize, value(key, stamp) as usize, &guard));
        }

        fn read(&mut self, keys: &[u32]) -> u64 {
            let guard = self.pin();
            keys.iter().filter_map(|key| self.get(&(*key as usize), &guard)).map(|value| value as u64).sum()
        }
    }
}

/// Threads that the machine runs at a time.
pub fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// What the figures compare: the KISS-tree first, then PT-4.
pub const COMPARED: [New; 4] = [
    ("KISS-tree", |keys| Box::new(Kiss::new(keys, 1, true, true))),
    ("PT-4", |_| Box::new(Pt4::load(&[]))),
    ("hash table (std)", |_| Box::new(HashMap::<u32, u64>::new())),
    ("modular B+-tree", |keys| Box::new(Modular::new(keys))),
];

/// The KISS-tree with a thread for each processor.
pub const THREADED: New = ("KISS-tree, all processors", |keys| Box::new(Kiss::new(keys, threads(), true, true)));
