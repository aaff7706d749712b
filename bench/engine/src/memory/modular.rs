//! Modules for the engine's modular B+-tree that the paper has and the engine does not (modular B+-tree paper §3.3,
//! §4): searches by other kernels, appending without a look for the key, and prefetch hints.

use super::pb::{hint::Hint, node::Line};
use crate::search::Search;
use fpbtree_engine::cache::modular::{self, Module, Modules, NodeKeys, Order, Prefetch, Unsorted};
use fpbtree_engine::format::Lane;
use std::marker::PhantomData;

/// One key after the other, for keys of any width.
pub struct Scalar;

impl modular::Search for Scalar {
    #[inline(always)]
    fn count<K: Lane>(keys: NodeKeys<'_>, key: K) -> usize {
        (0..keys.len()).find(|slot| keys.key::<K>(*slot) > key).unwrap_or(keys.len())
    }
}

/// One of the lab's searches, of 32-bit keys.
pub struct Lab<S>(PhantomData<S>);

impl<S: Search> modular::Search for Lab<S> {
    #[inline(always)]
    fn count<K: Lane>(keys: NodeKeys<'_>, key: K) -> usize {
        const { assert!(K::SIZE == size_of::<u32>(), "the lab searches 32-bit keys") };
        // SAFETY: any bytes are integers.
        let (before, lanes, after) = unsafe { keys.bytes::<K>().align_to() };
        assert!(before.is_empty() && after.is_empty(), "keys are aligned");
        S::upper(lanes, key.to_u128() as u32)
    }
}

/// Unsorted entries, of which every one that is inserted is new: the key is not looked for. Only for inserting; what
/// was inserted can be found once the tree is attached with [`Unsorted`] in its place.
pub struct Appended;

impl Order for Appended {
    const SORTED: bool = false;

    #[inline(always)]
    fn slot<K: Lane>(keys: NodeKeys<'_>, _: K) -> Result<usize, usize> {
        Err(keys.len())
    }

    #[inline(always)]
    fn at_most<K: Lane>(keys: NodeKeys<'_>, key: K) -> Option<usize> {
        Unsorted::at_most(keys, key)
    }
}

/// `S`, an order or a search, that asks for all of a node's payloads first, with the hint `H` (§4.6).
pub struct Hinted<S, H>(PhantomData<(S, H)>);

impl<S: modular::Search, H: Hint> modular::Search for Hinted<S, H> {
    const SENTINELS: bool = S::SENTINELS;

    #[inline(always)]
    fn count<K: Lane>(keys: NodeKeys<'_>, key: K) -> usize {
        ask_for::<H>(keys.payloads());
        S::count(keys, key)
    }
}

impl<O: Order, H: Hint> Order for Hinted<O, H> {
    const SORTED: bool = O::SORTED;
    const SENTINELS: bool = O::SENTINELS;

    #[inline(always)]
    fn slot<K: Lane>(keys: NodeKeys<'_>, key: K) -> Result<usize, usize> {
        ask_for::<H>(keys.payloads());
        O::slot(keys, key)
    }

    #[inline(always)]
    fn at_most<K: Lane>(keys: NodeKeys<'_>, key: K) -> Option<usize> {
        ask_for::<H>(keys.payloads());
        O::at_most(keys, key)
    }
}

#[inline(always)]
fn ask_for<H: Hint>(bytes: &[u8]) {
    let last = &bytes[bytes.len().saturating_sub(size_of::<Line>())..];
    for part in [bytes, last] {
        // SAFETY: any bytes are words.
        unsafe { part.align_to::<Line>() }.1.iter().for_each(H::prefetch);
    }
}

/// What is prefetched of a node.
pub trait Fetch {
    /// It.
    const WHAT: Prefetch;
}

/// Nothing.
pub struct Nothing;

impl Fetch for Nothing {
    const WHAT: Prefetch = Prefetch::Nothing;
}

/// The keys.
pub struct OnlyKeys;

impl Fetch for OnlyKeys {
    const WHAT: Prefetch = Prefetch::Keys;
}

/// All of it.
pub struct Whole;

impl Fetch for Whole {
    const WHAT: Prefetch = Prefetch::Node;
}

/// A level of nodes of so many bytes, on large pages or not.
pub struct Level<O, const SIZE: usize, F = Nothing, const LARGE: bool = false>(PhantomData<(O, F)>);

impl<O: Order, const SIZE: usize, F: Fetch, const LARGE: bool> Module for Level<O, SIZE, F, LARGE> {
    type Order = O;
    const SIZE: usize = SIZE;
    const PREFETCH: Prefetch = F::WHAT;
    const LARGE_PAGES: bool = LARGE;
}

/// A selection of modules.
pub struct Selected<Leaf, Inner, Root>(PhantomData<(Leaf, Inner, Root)>);

impl<Leaf: Module, Inner: Module, Root: Module> Modules for Selected<Leaf, Inner, Root> {
    type Leaf = Leaf;
    type Inner = Inner;
    type Root = Root;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::tests::{Step, steps};
    use crate::memory::pb::hint::{Nta, T1};
    use crate::search::{Binary, HybridInterpolation, LinearSimd};
    use fpbtree_engine::cache::modular::{Best, Linear, Sorted, Tree};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn same<S: Modules>(steps: &[Step]) {
        let mut tree: Tree<u32, u64, S, Vec<u8>> = Tree::format(vec![0; 1 << 20]).expect("room");
        let mut model = BTreeMap::new();
        for (step, value) in steps.iter().zip(0..) {
            match *step {
                Step::Insert(key) => assert_eq!(tree.insert(key, value), Ok(model.insert(key, value))),
                Step::Remove(key) => assert_eq!(tree.remove(key), Ok(model.remove(&key))),
                Step::Search(key) => assert_eq!(tree.find(key), model.get(&key).copied()),
                Step::Scan(first, _) => {
                    assert!(tree.range_from(first).eq(model.range(first..).map(|(key, value)| (*key, *value))));
                }
            }
        }
        assert_eq!(tree.verify(), Ok(()));
    }

    type All<O, const SIZE: usize, const ROOT: usize> = Selected<Level<O, SIZE>, Level<O, SIZE>, Level<O, ROOT>>;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn trees_of_all_modules_agree_with_a_map(steps in steps()) {
            same::<All<Sorted<Scalar>, 128, 512>>(&steps);
            same::<All<Sorted<Lab<Binary>>, 256, 1024>>(&steps);
            same::<All<Sorted<Lab<LinearSimd<128>>>, 192, 4096>>(&steps);
            same::<All<Sorted<Hinted<Lab<HybridInterpolation>, T1>>, 256, 1024>>(&steps);
            same::<Selected<
                Level<Hinted<Unsorted, Nta>, 320, OnlyKeys, true>,
                Level<Hinted<Sorted<Linear>, T1>, 128, Whole>,
                Level<Sorted<Scalar>, 256>,
            >>(&steps);
        }

        #[test]
        fn what_was_appended_is_found(keys in prop::collection::hash_set(any::<u32>(), 0..3000)) {
            type With<O> = Selected<Level<O, 256>, Level<Sorted<Linear>, 128>, Level<Sorted<Linear>, 256>>;
            let mut tree: Tree<u32, u64, With<Appended>, Vec<u8>> = Tree::format(vec![0; 1 << 20]).expect("room");
            for key in &keys {
                prop_assert_eq!(tree.insert(*key, u64::from(!*key)), Ok(None));
            }
            let tree: Tree<u32, u64, With<Unsorted>, Vec<u8>> = Tree::attach(tree.into_memory()).expect("the same type");
            prop_assert_eq!(tree.verify(), Ok(()));
            prop_assert_eq!(tree.len(), keys.len() as u64);
            prop_assert!(keys.iter().all(|key| tree.find(*key) == Some(u64::from(!*key))));
        }
    }

    #[test]
    fn a_tree_of_other_sizes_is_foreign() {
        let tree: Tree<u32, u64, Best, Vec<u8>> = Tree::format(vec![0; 1 << 20]).expect("room");
        assert!(Tree::<u32, u64, All<Sorted<Scalar>, 128, 512>, Vec<u8>>::attach(tree.into_memory()).is_err());
    }
}
