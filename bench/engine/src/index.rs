//! What all structures have in common: an ordered map from 32-bit keys to 32-bit tuple ids, as the papers measure it.

/// Key and tuple id. The key `u32::MAX` is no key, so that structures may use it as a mark.
pub type Pair = (u32, u32);

/// The largest key.
pub const MOST_KEY: u32 = u32::MAX - 1;

/// An ordered map whose keys are distinct.
pub trait Index {
    /// Adds a pair. Returns the tuple id that the key had, if it was there: it has the new one then.
    fn insert(&mut self, key: u32, id: u32) -> Option<u32>;

    /// Removes a key. Returns its tuple id, if it was there.
    fn remove(&mut self, key: u32) -> Option<u32>;

    /// The tuple id of a key.
    fn search(&mut self, key: u32) -> Option<u32>;

    /// Calls `each` with the pairs whose keys are from `first` to `last`, both included, in order.
    fn scan(&mut self, first: u32, last: u32, each: impl FnMut(u32, u32));

    /// Checks what has to be so at all times. Returns how many pairs there are.
    ///
    /// # Panics
    /// If something is wrong.
    fn check(&mut self) -> usize;
}

/// The checks that every structure has to pass.
#[cfg(test)]
pub mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// What is done to a structure.
    #[derive(Clone, Debug)]
    pub enum Step {
        Insert(u32),
        Remove(u32),
        Search(u32),
        Scan(u32, u32),
    }

    /// Keys from a few, from many, and from the ends.
    fn keys() -> impl Strategy<Value = u32> {
        prop_oneof![3 => 0..2000u32, 3 => 0..=MOST_KEY, 1 => Just(0), 1 => Just(MOST_KEY)]
    }

    /// Steps, more of them inserting than removing.
    pub fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            5 => keys().prop_map(Step::Insert),
            3 => keys().prop_map(Step::Remove),
            2 => keys().prop_map(Step::Search),
            1 => (keys(), keys()).prop_map(|(a, b)| Step::Scan(a.min(b), a.max(b))),
        ];
        prop::collection::vec(step, 0..1500)
    }

    /// Sorted pairs to be loaded.
    pub fn pairs() -> impl Strategy<Value = Vec<Pair>> {
        prop::collection::btree_map(keys(), any::<u32>(), 0..3000).prop_map(|map| map.into_iter().collect())
    }

    /// Whether a structure that was loaded with `pairs` does the same as `BTreeMap`.
    pub fn agrees(mut index: impl Index, pairs: &[Pair], steps: &[Step]) {
        let mut model: BTreeMap<u32, u32> = pairs.iter().copied().collect();
        for (number, step) in steps.iter().enumerate() {
            match *step {
                Step::Insert(key) => {
                    let id = number as u32;
                    assert_eq!(index.insert(key, id), model.insert(key, id), "insert {key}");
                }
                Step::Remove(key) => assert_eq!(index.remove(key), model.remove(&key), "remove {key}"),
                Step::Search(key) => assert_eq!(index.search(key), model.get(&key).copied(), "search {key}"),
                Step::Scan(first, last) => {
                    let mut found = Vec::new();
                    index.scan(first, last, |key, id| found.push((key, id)));
                    let expected: Vec<Pair> = model.range(first..=last).map(|(key, id)| (*key, *id)).collect();
                    assert_eq!(found, expected, "scan {first} to {last}");
                }
            }
            if number % 100 == 0 {
                assert_eq!(index.check(), model.len());
            }
        }
        assert_eq!(index.check(), model.len());
        let mut found = Vec::new();
        index.scan(0, MOST_KEY, |key, id| found.push((key, id)));
        assert!(found.iter().copied().eq(model.iter().map(|(key, id)| (*key, *id))), "all pairs");
    }

    /// The same for a great many pairs: what a few cannot reach.
    pub fn agrees_when_large(mut index: impl Index, pairs: &[Pair], rounds: u32) {
        let mut model: BTreeMap<u32, u32> = pairs.iter().copied().collect();
        let mut key = 12345u32;
        for id in 0..rounds {
            key = key.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let inserted = key.min(MOST_KEY);
            assert_eq!(index.insert(inserted, id), model.insert(inserted, id));
            if id % 3 == 0 {
                let removed = model.range(key / 2..).next().map_or(0, |(key, _)| *key);
                assert_eq!(index.remove(removed), model.remove(&removed));
            }
        }
        assert_eq!(index.check(), model.len());
        for (&key, &id) in &model {
            assert_eq!(index.search(key), Some(id));
        }
        while let Some((key, id)) = model.pop_last() {
            assert_eq!(index.remove(key), Some(id));
        }
        assert_eq!(index.check(), 0);
        assert_eq!(index.insert(7, 8), None);
        assert_eq!(index.search(7), Some(8));
    }
}
