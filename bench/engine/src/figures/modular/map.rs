//! Ordered maps under one interface: `BTreeMap`, Abseil's B-tree, and the modular tree with its values in leaves or
//! beside them.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use fpbtree_engine::cache::modular::{Modules, Tree};
use fpbtree_engine::format::Lane;
use fpbtree_lab::memory::modular::{Appended, Level, Selected};
use memmap2::{Advice, MmapMut};

/// A key, and the integer of the same order that a tree holds for it.
pub trait Key: Copy + 'static {
    /// The integer.
    type Lane: Lane;
    /// The `n`th of keys that look random and are all different.
    fn nth(n: u64) -> Self;
    /// The key as an integer.
    fn lane(self) -> Self::Lane;
    /// What the value of the key begins with.
    #[inline(always)]
    fn tag(self) -> u32 {
        !(self.lane().to_u128() as u32)
    }
}

impl Key for u32 {
    type Lane = u32;

    /// MurmurHash3's last step, which gives every number once.
    fn nth(n: u64) -> Self {
        let n = n as u32;
        let n = (n ^ n >> 16).wrapping_mul(0x85EB_CA6B);
        let n = (n ^ n >> 13).wrapping_mul(0xC2B2_AE35);
        n ^ n >> 16
    }

    #[inline(always)]
    fn lane(self) -> u32 {
        self
    }
}

impl Key for u64 {
    type Lane = u64;

    /// SplitMix64, which gives every number once.
    fn nth(n: u64) -> Self {
        let n = n.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let n = (n ^ n >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let n = (n ^ n >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        n ^ n >> 31
    }

    #[inline(always)]
    fn lane(self) -> u64 {
        self
    }
}

impl Key for u128 {
    type Lane = u128;

    fn nth(n: u64) -> Self {
        u128::from(u64::nth(n)) << 64 | u128::from(u64::nth(!n))
    }

    #[inline(always)]
    fn lane(self) -> u128 {
        self
    }
}

macro_rules! floats {
    ($float:ident, $lane:ident, $signed:ident) => {
        /// Of any bits, in the order of `total_cmp`.
        impl Key for $float {
            type Lane = $lane;

            fn nth(n: u64) -> Self {
                $float::from_bits($lane::nth(n))
            }

            #[inline(always)]
            fn lane(self) -> $lane {
                let bits = self.to_bits();
                bits ^ ((bits as $signed >> ($lane::BITS - 1)) as $lane | 1 << ($lane::BITS - 1))
            }
        }
    };
}

floats!(f32, u32, i32);
floats!(f64, u64, i64);

/// An ordered map from keys to values that begin with their keys' tags.
pub trait Map<K> {
    fn insert(&mut self, keys: &[K]);
    /// The sum of the tags found.
    fn find(&self, keys: &[K]) -> u64;
    /// How many keys were there.
    fn remove(&mut self, keys: &[K]) -> usize;
}

/// Makes an empty map with room for so many pairs.
pub type New<K> = fn(usize) -> Box<dyn Map<K>>;

/// A value of `SIZE` bytes.
type Bytes<const SIZE: usize> = [u8; SIZE];

#[inline(always)]
fn value<const SIZE: usize>(key: impl Key) -> Bytes<SIZE> {
    let mut value = [0; SIZE];
    value[..4].copy_from_slice(&key.tag().to_ne_bytes());
    value
}

#[inline(always)]
fn tag<const SIZE: usize>(value: &Bytes<SIZE>) -> u64 {
    value.first_chunk().map_or(0, |tag| u64::from(u32::from_ne_bytes(*tag)))
}

impl<K: Key + Ord, const SIZE: usize> Map<K> for BTreeMap<K, Bytes<SIZE>> {
    fn insert(&mut self, keys: &[K]) {
        for &key in keys {
            BTreeMap::insert(self, key, value(key));
        }
    }

    fn find(&self, keys: &[K]) -> u64 {
        keys.iter().filter_map(|key| self.get(key)).map(tag).sum()
    }

    fn remove(&mut self, keys: &[K]) -> usize {
        keys.iter().filter_map(|key| BTreeMap::remove(self, key)).count()
    }
}

/// The standard library's map with values of `SIZE` bytes.
pub fn standard<K: Key + Ord, const SIZE: usize>(_: usize) -> Box<dyn Map<K>> {
    Box::new(BTreeMap::<K, Bytes<SIZE>>::new())
}

type Memory<K, S> = Tree<<K as Key>::Lane, u64, S, MmapMut>;

/// An empty tree with room for so many pairs, on large pages where its modules want them, on small ones elsewhere.
fn tree<K: Key, S: Modules>(pairs: usize) -> Memory<K, S> {
    let memory = MmapMut::map_anon(pairs * 3 * (size_of::<K>() + 8) + (64 << 20)).expect("address space");
    // Refused only where there are no large pages to be kept away.
    let _ = memory.advise(Advice::NoHugePage);
    let mut tree = Tree::format(memory).expect("room for a tree");
    tree.advise();
    tree
}

/// A modular tree with its values in the leaves.
struct Inside<K: Key, S: Modules>(Memory<K, S>);

impl<K: Key, S: Modules> Map<K> for Inside<K, S> {
    fn insert(&mut self, keys: &[K]) {
        for &key in keys {
            self.0.insert(key.lane(), u64::from(key.tag())).expect("room");
        }
    }

    fn find(&self, keys: &[K]) -> u64 {
        keys.iter().filter_map(|key| self.0.find(key.lane())).sum()
    }

    fn remove(&mut self, keys: &[K]) -> usize {
        keys.iter().filter_map(|key| self.0.remove(key.lane()).expect("sound")).count()
    }
}

/// A modular tree of these modules with its values in the leaves.
pub fn inside<K: Key, S: Modules + 'static>(pairs: usize) -> Box<dyn Map<K>> {
    Box::new(Inside::<K, S>(tree::<K, S>(pairs)))
}

/// A modular tree with its pairs in an array, in the order they came, and their places in the leaves (§3.1).
struct Beside<K: Key, S: Modules, const SIZE: usize> {
    tree: Memory<K, S>,
    pairs: Vec<(K, Bytes<SIZE>)>,
}

impl<K: Key, S: Modules, const SIZE: usize> Map<K> for Beside<K, S, SIZE> {
    fn insert(&mut self, keys: &[K]) {
        for &key in keys {
            self.tree.insert(key.lane(), self.pairs.len() as u64).expect("room");
            self.pairs.push((key, value(key)));
        }
    }

    fn find(&self, keys: &[K]) -> u64 {
        keys.iter().filter_map(|key| self.tree.find(key.lane())).map(|place| tag(&self.pairs[place as usize].1)).sum()
    }

    fn remove(&mut self, keys: &[K]) -> usize {
        keys.iter().filter_map(|key| self.tree.remove(key.lane()).expect("sound")).count()
    }
}

/// A modular tree of these modules with its pairs beside it.
pub fn beside<K: Key, S: Modules + 'static, const SIZE: usize>(pairs: usize) -> Box<dyn Map<K>> {
    Box::new(Beside::<K, S, SIZE> { tree: tree::<K, S>(pairs), pairs: Vec::with_capacity(pairs) })
}

/// A modular tree of unsorted leaves whose inserts do not look for the key.
struct Appending<K: Key, S: Modules, A: Modules> {
    tree: Option<Memory<K, S>>,
    appending: PhantomData<A>,
}

impl<K: Key, S: Modules, A: Modules> Map<K> for Appending<K, S, A> {
    fn insert(&mut self, keys: &[K]) {
        let memory = self.tree.take().expect("a tree").into_memory();
        let mut appending = Inside::<K, A>(Tree::attach(memory).expect("the same type"));
        appending.insert(keys);
        self.tree = Some(Tree::attach(appending.0.into_memory()).expect("the same type"));
    }

    fn find(&self, keys: &[K]) -> u64 {
        let tree = self.tree.as_ref().expect("a tree");
        keys.iter().filter_map(|key| tree.find(key.lane())).sum()
    }

    fn remove(&mut self, keys: &[K]) -> usize {
        let tree = self.tree.as_mut().expect("a tree");
        keys.iter().filter_map(|key| tree.remove(key.lane()).expect("sound")).count()
    }
}

/// A modular tree of these modules, with leaves of `LEAF` bytes, whose inserts do not look for the key.
pub fn appending<K: Key, S: Modules<Inner: 'static, Root: 'static> + 'static, const LEAF: usize>(
    pairs: usize,
) -> Box<dyn Map<K>> {
    type Blind<S, const LEAF: usize> = Selected<Level<Appended, LEAF>, <S as Modules>::Inner, <S as Modules>::Root>;
    Box::new(Appending::<K, S, Blind<S, LEAF>> { tree: Some(tree::<K, S>(pairs)), appending: PhantomData })
}

/// Whether Abseil's B-tree was there to be compiled.
pub const HAS_ABSEIL: bool = cfg!(abseil);

#[cfg(abseil)]
mod abseil {
    use super::{Key, Map};
    use std::ffi::c_void;

    #[repr(C)]
    struct Foreign {
        _private: [u8; 0],
    }

    unsafe extern "C" {
        fn abseil_new(key: usize, value: usize, node: usize) -> *mut Foreign;
        fn abseil_free(map: *mut Foreign);
        fn abseil_insert(map: *mut Foreign, keys: *const c_void, n: usize);
        fn abseil_find(map: *const Foreign, keys: *const c_void, n: usize) -> u64;
        fn abseil_remove(map: *mut Foreign, keys: *const c_void, n: usize) -> usize;
    }

    struct Abseil(*mut Foreign);

    impl<K: Key> Map<K> for Abseil {
        fn insert(&mut self, keys: &[K]) {
            // SAFETY: the map is alive, and the keys are a slice of what it was made for.
            unsafe { abseil_insert(self.0, keys.as_ptr().cast(), keys.len()) }
        }

        fn find(&self, keys: &[K]) -> u64 {
            // SAFETY: as above.
            unsafe { abseil_find(self.0, keys.as_ptr().cast(), keys.len()) }
        }

        fn remove(&mut self, keys: &[K]) -> usize {
            // SAFETY: as above.
            unsafe { abseil_remove(self.0, keys.as_ptr().cast(), keys.len()) }
        }
    }

    impl Drop for Abseil {
        fn drop(&mut self) {
            // SAFETY: the map was alive until now.
            unsafe { abseil_free(self.0) }
        }
    }

    /// Abseil's tree with values of `VALUE` bytes and nodes of `NODE`.
    pub fn map<K: Key, const VALUE: usize, const NODE: usize>(_: usize) -> Box<dyn Map<K>> {
        // SAFETY: no conditions.
        let map = unsafe { abseil_new(size_of::<K>(), VALUE, NODE) };
        assert!(!map.is_null(), "no map of such keys, values and nodes");
        Box::new(Abseil(map))
    }
}

/// Abseil's tree with values of `VALUE` bytes and nodes of `NODE`, if it is there.
pub fn abseil<K: Key, const VALUE: usize, const NODE: usize>() -> Option<New<K>> {
    #[cfg(abseil)]
    return Some(abseil::map::<K, VALUE, NODE>);
    #[cfg(not(abseil))]
    return None;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ascends<K: Key>(sorted: &[K]) {
        assert!(sorted.iter().map(|key| key.lane()).is_sorted());
    }

    #[test]
    fn floats_are_ordered_as_their_lanes() {
        ascends(&[f32::NEG_INFINITY, -2.5, -1e-40, -0.0, 0.0, 1e-40, 2.5, f32::INFINITY]);
        ascends(&[f64::NEG_INFINITY, -2.5, -1e-310, -0.0, 0.0, 1e-310, 2.5, f64::INFINITY]);
    }

    #[test]
    fn maps_find_what_was_inserted() {
        use fpbtree_engine::cache::modular::{Linear, Sorted, Unsorted};
        type Small = Selected<Level<Unsorted, 256>, Level<Sorted<Linear>, 128>, Level<Sorted<Linear>, 256>>;
        let made: [Option<New<u32>>; 5] = [
            Some(standard::<u32, 28>),
            abseil::<u32, 28, 128>(),
            Some(inside::<u32, Small>),
            Some(beside::<u32, Small, 12>),
            Some(appending::<u32, Small, 256>),
        ];
        let keys: Vec<u32> = (0..5000).map(u32::nth).collect();
        let tags = |keys: &[u32]| keys.iter().map(|key| u64::from(key.tag())).sum::<u64>();
        for new in made.into_iter().flatten() {
            let mut map = new(keys.len());
            map.insert(&keys);
            assert_eq!(map.find(&keys), tags(&keys));
            assert_eq!(map.remove(&keys[..2000]), 2000);
            assert_eq!(map.find(&keys), tags(&keys[2000..]));
            assert_eq!(map.remove(&keys), 3000);
        }
    }
}
