//! Merging sorted runs.

use super::compact::Compact;
use crate::format::Lane;

/// A sorted run of entries.
pub trait Run<L> {
    /// The next entry. May leave by a jump.
    fn next(&mut self) -> Option<Compact<L>>;
}

/// Merges runs by a heap of their next entries. It owns no destructor.
pub struct Merge<'m, L, R> {
    runs: &'m mut [R],
    heap: &'m mut [(Compact<L>, u32)],
}

impl<'m, L: Lane, R: Run<L>> Merge<'m, L, R> {
    /// Begins to merge runs. `heap` has an element for each, whatever it is.
    pub fn of(runs: &'m mut [R], heap: &'m mut [(Compact<L>, u32)]) -> Self {
        let mut live = 0;
        for (number, run) in runs.iter_mut().enumerate() {
            if let Some(entry) = run.next() {
                heap[live] = (entry, number as u32);
                live += 1;
            }
        }
        let mut merge = Merge { runs, heap: &mut heap[..live] };
        (0..live / 2).rev().for_each(|at| merge.sink(at));
        merge
    }

    fn sink(&mut self, mut at: usize) {
        let sinking = self.heap[at];
        loop {
            let left = 2 * at + 1;
            let Some(&first) = self.heap.get(left) else {
                break;
            };
            let (child, least) = match self.heap.get(left + 1) {
                Some(&second) if second.0 < first.0 => (left + 1, second),
                _ => (left, first),
            };
            if least.0 >= sinking.0 {
                break;
            }
            self.heap[at] = least;
            at = child;
        }
        self.heap[at] = sinking;
    }
}

impl<L: Lane, R: Run<L>> Iterator for Merge<'_, L, R> {
    type Item = Compact<L>;

    #[inline]
    fn next(&mut self) -> Option<Compact<L>> {
        let &(entry, run) = self.heap.first()?;
        match self.runs[run as usize].next() {
            Some(next) => self.heap[0].0 = next,
            None => {
                let (last, rest) = core::mem::take(&mut self.heap).split_last_mut()?;
                self.heap = rest;
                match self.heap.first_mut() {
                    Some(first) => *first = *last,
                    None => return Some(entry),
                }
            }
        }
        self.sink(0);
        Some(entry)
    }
}
