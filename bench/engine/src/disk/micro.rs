//! Micro-indexing, Lomet's idea as evaluated in Chen et al., "Fractal Prefetching B+-Trees" (SIGMOD 2002), §3, Figure 4
//! and §4.1: a page that is a sorted array, divided into sub-arrays whose first keys are copied into a small array at
//! the page's front.

use super::sorted::{Arrays, HEADER_WORDS, SortedArray, words, words_mut};
use super::tree::count;
use crate::search::Search;
use fpbtree_engine::simd::prefetch;
use std::marker::PhantomData;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Keys, or ids, of a cache line.
const LINE_WORDS: usize = LINE / size_of::<u32>();

/// The sub-arrays that are considered are of so many cache lines at most, as the paper's nodes are (§3.1.1).
const MOST_LINES: usize = 32;

/// A page's division into header and micro-index, key array, and pointer array, which all begin at cache lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Cache lines of the header and, right behind it, the micro-index.
    pub index_lines: usize,
    /// Cache lines of the key array, and of the pointer array.
    pub array_lines: usize,
    /// Cache lines of a sub-array.
    pub sub_array_lines: usize,
}

impl Layout {
    /// The layout with the greatest fan-out for pages of `page_size` bytes, given the cache lines of a sub-array. None
    /// if a page has no room for a single line of keys.
    pub fn new(page_size: usize, sub_array_lines: usize) -> Option<Self> {
        let lines = page_size / LINE;
        let layout = |array_lines: usize| {
            let index_words = HEADER_WORDS + array_lines.div_ceil(sub_array_lines);
            Layout { index_lines: index_words.div_ceil(LINE_WORDS), array_lines, sub_array_lines }
        };
        (1..=lines / 2).rev().map(layout).find(|layout| layout.index_lines + 2 * layout.array_lines <= lines)
    }

    /// The layout for pages of `page_size` bytes that has the greatest fan-out of those whose search cost is within 10%
    /// of the smallest (§4.1, and goal G of §3.1.1); of several, that of the smallest cost. `t1` and `t_next` are as in
    /// [`cost`](Self::cost).
    pub fn best(page_size: usize, t1: f64, t_next: f64) -> Option<Self> {
        let layouts = || (1..=MOST_LINES).filter_map(|lines| Self::new(page_size, lines));
        let cost = |layout: &Layout| layout.cost(t1, t_next);
        let smallest = layouts().map(|layout| cost(&layout)).min_by(f64::total_cmp)?;
        layouts()
            .filter(|layout| cost(layout) <= 1.1 * smallest)
            .max_by(|a, b| a.fan_out().cmp(&b.fan_out()).then(cost(b).total_cmp(&cost(a))))
    }

    /// Entries that a page has room for.
    pub fn fan_out(&self) -> usize {
        self.array_lines * LINE_WORDS
    }

    /// What the cache misses of a search in a page cost: header and micro-index are fetched together, then a sub-array
    /// of keys and one of pointers together. `t1` is the full latency of a cache miss, and `t_next` that of one that is
    /// pipelined behind another, in the same unit as the cost.
    pub fn cost(&self, t1: f64, t_next: f64) -> f64 {
        let fetched = |lines: usize| t1 + (lines - 1) as f64 * t_next;
        fetched(self.index_lines) + fetched(2 * self.sub_array_lines)
    }
}

/// A page with a micro-index. `S` is how the micro-index and the sub-arrays are searched.
pub struct MicroPage<S> {
    arrays: Arrays,
    index_lines: usize,
    /// Keys of a sub-array.
    sub_array: usize,
    search: PhantomData<S>,
}

impl<S: Search> MicroPage<S> {
    /// For pages that are divided so.
    pub fn new(layout: Layout) -> Self {
        let keys_at = layout.index_lines * LINE_WORDS;
        let capacity = layout.fan_out();
        MicroPage {
            arrays: Arrays { keys_at, ids_at: keys_at + capacity, capacity },
            index_lines: layout.index_lines,
            sub_array: layout.sub_array_lines * LINE_WORDS,
            search: PhantomData,
        }
    }

    /// The first key of each sub-array that has keys.
    #[inline]
    fn micro_index<'page>(&self, page: &'page [u8]) -> &'page [u32] {
        &words(page)[HEADER_WORDS..][..count(page).div_ceil(self.sub_array)]
    }
}

/// Asks for the cache lines of words that begin at a cache line.
#[inline]
fn prefetch_lines(words: &[u32]) {
    for line in words.chunks(LINE_WORDS) {
        prefetch(line.as_ptr().cast());
    }
}

impl<S: Search> SortedArray for MicroPage<S> {
    #[inline]
    fn arrays(&self) -> Arrays {
        self.arrays
    }

    #[inline]
    fn rank(&self, page: &[u8], key: u32) -> usize {
        // All of the micro-index's room: to know how much of it is in use, its first line has to be there.
        prefetch_lines(&words(page)[..self.index_lines * LINE_WORDS]);
        let sub_array = S::upper(self.micro_index(page), key).saturating_sub(1);
        let begin = sub_array * self.sub_array;
        let end = count(page).min(begin + self.sub_array);
        let keys = &self.arrays.keys(page)[begin..end];
        prefetch_lines(keys);
        prefetch_lines(&self.arrays.ids(page)[begin..end]);
        begin + S::upper(keys, key)
    }

    fn refresh(&self, page: &mut [u8], from: usize) {
        let (sub_arrays, keys_at) = (count(page).div_ceil(self.sub_array), self.arrays.keys_at);
        let words = words_mut(page);
        for sub_array in from.div_ceil(self.sub_array)..sub_arrays {
            words[HEADER_WORDS + sub_array] = words[keys_at + sub_array * self.sub_array];
        }
    }

    fn check_rank(&self, page: &[u8]) {
        let first_keys = self.arrays.keys(page).iter().step_by(self.sub_array);
        assert!(self.micro_index(page).iter().eq(first_keys), "the micro-index has the sub-arrays' first keys");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::tree::tests::{behaves, behaves_when_large, uses};
    use crate::search::{Binary, Linear};
    use proptest::prelude::*;

    fn page<S: Search>(page_size: usize, sub_array_lines: usize) -> MicroPage<S> {
        MicroPage::new(Layout::new(page_size, sub_array_lines).expect("a page large enough"))
    }

    proptest! {
        #[test]
        fn agrees_with_a_map(
            uses in uses(),
            page_size in prop::sample::select(vec![192, 256, 512, 1024, 4096, 8192, 32768]),
            sub_array_lines in prop::sample::select(vec![1, 2, 3, 5, 32]),
        ) {
            behaves(page_size, page::<Binary>(page_size, sub_array_lines), &uses);
        }

        #[test]
        fn agrees_with_a_map_when_searched_linearly(uses in uses(), sub_array_lines in 1..4usize) {
            behaves(1024, page::<Linear>(1024, sub_array_lines), &uses);
        }
    }

    #[test]
    fn large_trees_agree_with_a_map() {
        for (page_size, frames) in [(256, 100_000), (512, 10), (4096, 20), (8192, 1000), (32768, 100)] {
            let layout = Layout::best(page_size, 150.0, 10.0).expect("a page large enough");
            behaves_when_large(page_size, MicroPage::<Binary>::new(layout), frames);
        }
    }

    #[test]
    fn the_best_layouts_are_those_of_table_2() {
        let table = [(4, 128, 496, 1.06), (8, 192, 1008, 1.06), (16, 320, 2032, 1.08), (32, 320, 4064, 1.05)];
        for (kilobytes, sub_array, fan_out, cost) in table {
            let (page_size, t1, t_next) = (kilobytes * 1024, 150.0, 10.0);
            let layout = Layout::best(page_size, t1, t_next).expect("a page large enough");
            assert_eq!((layout.sub_array_lines * LINE, layout.fan_out()), (sub_array, fan_out), "{kilobytes} KB");
            let costs = (1..=MOST_LINES).filter_map(|lines| Layout::new(page_size, lines)).map(|l| l.cost(t1, t_next));
            let smallest = costs.min_by(f64::total_cmp).expect("a page large enough");
            assert!((layout.cost(t1, t_next) / smallest - cost).abs() < 0.005, "{kilobytes} KB");
        }
    }

    #[test]
    fn a_page_of_three_lines_is_the_smallest() {
        assert_eq!(Layout::new(128, 1), None);
        assert_eq!(Layout::best(128, 150.0, 10.0), None);
        assert_eq!(Layout::new(192, 1), Some(Layout { index_lines: 1, array_lines: 1, sub_array_lines: 1 }));
    }
}
