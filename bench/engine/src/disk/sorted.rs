//! Pages that are sorted arrays: that of the disk-optimized B+-tree (Chen et al., "Fractal Prefetching B+-Trees",
//! SIGMOD 2002, §3 and Figure 3(a)), and what it shares with [micro-indexing](super::micro).

use super::tree::{HEADER, Inserted, PageFormat, count, set_count};
use crate::index::Pair;
use crate::search::Search;
use std::marker::PhantomData;
use std::ops::Range;

const WORD: usize = size_of::<u32>();

/// Words of a page's header.
pub const HEADER_WORDS: usize = HEADER / WORD;

/// A page as words.
#[inline]
pub fn words(page: &[u8]) -> &[u32] {
    // SAFETY: any four bytes are a u32.
    let (before, words, _) = unsafe { page.align_to() };
    debug_assert!(before.is_empty(), "pages are aligned");
    words
}

/// A page as words, to be changed.
#[inline]
pub fn words_mut(page: &mut [u8]) -> &mut [u32] {
    // SAFETY: any four bytes are a u32, and the other way round.
    let (before, words, _) = unsafe { page.align_to_mut() };
    debug_assert!(before.is_empty(), "pages are aligned");
    words
}

/// Where in a page the two arrays are, that of the keys and that of their tuple ids or children.
#[derive(Clone, Copy, Debug)]
pub struct Arrays {
    /// Where the keys begin, in words from the page's start.
    pub keys_at: usize,
    /// Where the ids begin, in words from the page's start.
    pub ids_at: usize,
    /// How many of each there is room for.
    pub capacity: usize,
}

impl Arrays {
    /// The keys of a page.
    #[inline]
    pub fn keys(self, page: &[u8]) -> &[u32] {
        &words(page)[self.keys_at..][..count(page)]
    }

    /// The ids of a page.
    #[inline]
    pub fn ids(self, page: &[u8]) -> &[u32] {
        &words(page)[self.ids_at..][..count(page)]
    }

    #[inline]
    fn entry(self, page: &[u8], position: usize) -> Pair {
        let words = words(page);
        (words[self.keys_at + position], words[self.ids_at + position])
    }

    fn put(self, page: &mut [u8], position: usize, (key, id): Pair) {
        let words = words_mut(page);
        words[self.keys_at + position] = key;
        words[self.ids_at + position] = id;
    }

    /// Moves the entries from position `from` on to position `to`: the data movement of insertion and deletion.
    fn shift(self, page: &mut [u8], from: usize, to: usize) {
        let count = count(page);
        for array in [self.keys_at, self.ids_at] {
            words_mut(page).copy_within(array + from..array + count, array + to);
        }
        set_count(page, count + to - from);
    }
}

/// A page format whose entries are one sorted array of keys, with the array of ids beside it.
pub trait SortedArray {
    /// Where the arrays are.
    fn arrays(&self) -> Arrays;

    /// How many of a page's keys are not greater than `key`.
    fn rank(&self, page: &[u8], key: u32) -> usize;

    /// Brings up to date what helps [`rank`](Self::rank): the keys from position `from` on are others than before.
    fn refresh(&self, page: &mut [u8], from: usize);

    /// Checks what helps [`rank`](Self::rank).
    ///
    /// # Panics
    /// If something is wrong.
    fn check_rank(&self, page: &[u8]);
}

impl<A: SortedArray> PageFormat for A {
    fn capacity(&self) -> usize {
        self.arrays().capacity
    }

    fn load(&self, page: &mut [u8], entries: &[Pair]) {
        for (position, &entry) in entries.iter().enumerate() {
            self.arrays().put(page, position, entry);
        }
        set_count(page, entries.len());
        self.refresh(page, 0);
    }

    #[inline]
    fn floor(&self, page: &[u8], key: u32) -> Option<Pair> {
        let position = self.rank(page, key).checked_sub(1)?;
        Some(self.arrays().entry(page, position))
    }

    #[inline]
    fn up_to(&self, page: &[u8], key: u32) -> usize {
        // Most pages of a scan end before it does.
        let keys = self.arrays().keys(page);
        if keys.last().is_none_or(|last| *last <= key) { keys.len() } else { self.rank(page, key) }
    }

    #[inline]
    fn entries(&self, page: &[u8], places: Range<usize>) -> impl Iterator<Item = Pair> {
        let (keys, ids) = (&self.arrays().keys(page)[places.clone()], &self.arrays().ids(page)[places]);
        keys.iter().copied().zip(ids.iter().copied())
    }

    fn insert(&self, page: &mut [u8], entry: Pair) -> Inserted {
        let (arrays, position) = (self.arrays(), self.rank(page, entry.0));
        if let Some(before) = position.checked_sub(1)
            && let (key, old) = arrays.entry(page, before)
            && key == entry.0
        {
            arrays.put(page, before, entry);
            return Inserted::Replaced(old);
        }
        if count(page) == arrays.capacity {
            return Inserted::Full;
        }
        arrays.shift(page, position, position + 1);
        arrays.put(page, position, entry);
        self.refresh(page, position);
        Inserted::New
    }

    fn remove(&self, page: &mut [u8], key: u32) -> Option<u32> {
        let position = self.rank(page, key).checked_sub(1)?;
        let (found, id) = self.arrays().entry(page, position);
        if found != key {
            return None;
        }
        self.arrays().shift(page, position + 1, position);
        self.refresh(page, position);
        Some(id)
    }

    fn split(&self, page: &mut [u8], upper: &mut [u8]) -> u32 {
        let half = count(page) / 2;
        let moved = count(page) - half;
        let arrays = self.arrays();
        for array in [arrays.keys_at, arrays.ids_at] {
            words_mut(upper)[array..][..moved].copy_from_slice(&words(page)[array + half..][..moved]);
        }
        set_count(page, half);
        set_count(upper, moved);
        self.refresh(upper, 0);
        arrays.keys(upper)[0]
    }

    fn check(&self, page: &[u8]) {
        self.check_rank(page);
    }
}

/// The page of the disk-optimized B+-tree: one large sorted array of keys behind the header, and the array of ids
/// behind the keys' room. `S` is how the keys are searched; the paper's way is binary search.
pub struct SortedPage<S> {
    arrays: Arrays,
    search: PhantomData<S>,
}

impl<S: Search> SortedPage<S> {
    /// For pages of `page_size` bytes.
    pub fn new(page_size: usize) -> Self {
        Self::with_entries_of(size_of::<Pair>(), page_size)
    }

    /// The same with room for as many entries as if each took so many bytes, eight at least.
    pub fn with_entries_of(bytes: usize, page_size: usize) -> Self {
        let capacity = (page_size - HEADER) / bytes.max(size_of::<Pair>());
        let arrays = Arrays { keys_at: HEADER_WORDS, ids_at: HEADER_WORDS + capacity, capacity };
        SortedPage { arrays, search: PhantomData }
    }
}

impl<S: Search> SortedArray for SortedPage<S> {
    #[inline]
    fn arrays(&self) -> Arrays {
        self.arrays
    }

    #[inline]
    fn rank(&self, page: &[u8], key: u32) -> usize {
        S::upper(self.arrays.keys(page), key)
    }

    fn refresh(&self, _page: &mut [u8], _from: usize) {}

    fn check_rank(&self, _page: &[u8]) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::tree::tests::{behaves, behaves_when_large, uses};
    use crate::search::{Binary, Linear};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_map(uses in uses(), page_size in prop::sample::select(vec![64, 256, 4096, 8192, 32768])) {
            behaves(page_size, SortedPage::<Binary>::new(page_size), &uses);
        }

        #[test]
        fn agrees_with_a_map_when_searched_linearly(uses in uses()) {
            behaves(256, SortedPage::<Linear>::new(256), &uses);
        }
    }

    #[test]
    fn large_trees_agree_with_a_map() {
        for (page_size, frames) in [(64, 100_000), (256, 10), (4096, 20), (8192, 1000), (32768, 100)] {
            behaves_when_large(page_size, SortedPage::<Binary>::new(page_size), frames);
        }
    }
}
