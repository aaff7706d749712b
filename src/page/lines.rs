//! Sets of a page's lines.

use super::END_LINE;

/// Words of a set.
const WORDS: usize = (END_LINE + 1).div_ceil(u128::BITS as usize);

/// A set of lines.
#[derive(Clone, Copy, Default)]
pub(crate) struct LineSet([u128; WORDS]);

impl LineSet {
    /// So many lines from the first one on: fewer than a word has bits.
    #[inline]
    pub fn of(first: usize, count: usize) -> LineSet {
        let (word, bit) = (first / u128::BITS as usize, first % u128::BITS as usize);
        let lines = (1 << count) - 1;
        let mut set = LineSet::default();
        if let Some(first) = set.0.get_mut(word) {
            *first = lines << bit;
        }
        if let Some(second) = set.0.get_mut(word + 1).filter(|_| bit > 0) {
            *second = lines >> (u128::BITS as usize - bit);
        }
        set
    }

    /// Adds lines. `false` if some were in the set.
    #[inline]
    pub fn add(&mut self, lines: LineSet) -> bool {
        let mut is_apart = true;
        for (word, more) in self.0.iter_mut().zip(lines.0) {
            is_apart &= *word & more == 0;
            *word |= more;
        }
        is_apart
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_told_apart() {
        for count in 1..32 {
            for first in 0..=END_LINE - count {
                let lines = LineSet::of(first, count);
                for other in 0..=END_LINE - count {
                    let is_apart = other + count <= first || first + count <= other;
                    assert_eq!({ lines }.add(LineSet::of(other, count)), is_apart, "{count} from {first} and {other}");
                }
            }
        }
    }
}
