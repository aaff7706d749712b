//! Sorting records by byte strings, of which the items that are sorted have a word at a time: items are spread by the
//! uppermost bits in which their words differ, in place, and those whose words tie get the next one. So a record is
//! looked at once for each word of its key that it takes to tell it apart, and can be fetched before that.

use core::cmp::Ordering;

/// A record to be sorted.
#[derive(Clone, Copy, Debug)]
pub struct Item {
    /// A word of its key; that before all others to begin with. Sorting leaves any of them.
    pub word: u64,
    /// Where the record is.
    pub at: usize,
}

/// Where records are. Any of these may leave by jumping: items are all there then, in some order.
pub trait Records {
    /// A further word of a record's key, which counts from 0; None if the key has ended, so that all others are zero.
    fn word(&mut self, at: usize, number: usize) -> Option<u64>;

    /// How two records are ordered.
    fn compare(&mut self, a: usize, b: usize) -> Ordering;

    /// What records are ordered by whose keys are equal.
    fn tie(&mut self, at: usize) -> u64;

    /// A record is soon looked at.
    fn prefetch(&self, at: usize);

    /// Called now and then.
    fn check(&mut self);
}

/// Values of a digit.
const FANOUT: usize = 256;
const DIGIT: u32 = FANOUT.ilog2();
/// Items that are sorted by comparing words, and so few with equal words that records are compared.
const FEW: usize = 32;
const FEW_TIED: usize = 8;
/// How often items are spread by different digits, before the rest is done by comparing: so deep is the stack.
const DEEPEST: usize = 48;
/// How many records ahead one is fetched.
const AHEAD: usize = 12;
/// Instead of a number of words: the one that items have is their records' [tie](Records::tie).
const TIES: usize = usize::MAX;

/// Sorts items by their words, then by those that [`Records::word`] tells, then by [`Records::compare`].
pub fn sort(items: &mut [Item], records: &mut impl Records) {
    spread(items, 0, 0, records);
}

/// Sorts items whose words before number `words` tie, but for the one they have.
fn spread(items: &mut [Item], words: usize, depth: usize, records: &mut impl Records) {
    if items.len() <= FEW || depth == DEEPEST {
        items.sort_unstable_by_key(|item| item.word);
        let ties = items.chunk_by(|a, b| a.word == b.word).filter(|tied| tied.len() > 1);
        ties.flatten().take(FEW).for_each(|item| records.prefetch(item.at));
        let ties = items.chunk_by_mut(|a, b| a.word == b.word).filter(|tied| tied.len() > 1);
        ties.for_each(|tied| go_on(tied, words, depth, records));
        return;
    }
    let Some(top) = differing(items).checked_ilog2() else { return go_on(items, words, depth, records) };
    let shift = (top + 1).saturating_sub(DIGIT);
    let ends = flag(items, |item| (item.word >> shift) as usize % FANOUT);
    records.check();
    let mut begin = 0;
    for end in ends {
        if end - begin > 1 {
            spread(&mut items[begin..end], words, depth + 1, records);
        }
        begin = end;
    }
}

/// The bits in which words differ.
fn differing(items: &[Item]) -> u64 {
    items.iter().fold(0, |bits, item| bits | item.word ^ items[0].word)
}

/// Puts items in the order of a digit, in place (McIlroy, Bostic and McIlroy's American flag sort). Returns where each
/// of its values ends.
fn flag(items: &mut [Item], digit: impl Fn(&Item) -> usize) -> [usize; FANOUT] {
    let mut next = [0; FANOUT];
    items.iter().for_each(|item| next[digit(item)] += 1);
    let mut end = 0;
    let ends = next.map(|count| {
        end += count;
        end
    });
    next.iter_mut().zip(ends).for_each(|(next, end)| *next = end - *next);
    for value in 0..FANOUT {
        while next[value] < ends[value] {
            let at = next[value];
            let belongs = digit(&items[at]);
            items.swap(at, next[belongs]);
            next[belongs] += 1;
        }
    }
    ends
}

/// Sorts items whose words up to the one they have tie.
fn go_on(items: &mut [Item], mut words: usize, depth: usize, records: &mut impl Records) {
    while words != TIES && items.len() > FEW_TIED && depth < DEEPEST {
        let mut has_more = false;
        set_words(items, records, |records, at| {
            let word = records.word(at, words);
            has_more |= word.is_some();
            word.unwrap_or(0)
        });
        if !has_more {
            // Most keys whose words are all the same are equal.
            set_words(items, records, Records::tie);
            spread(items, TIES, depth + 1, records);
            if ascend(items, records) {
                return;
            }
            break;
        }
        words += 1;
        if differing(items) != 0 {
            return spread(items, words, depth + 1, records);
        }
    }
    items.iter().take(AHEAD).for_each(|item| records.prefetch(item.at));
    items.sort_unstable_by(|a, b| records.compare(a.at, b.at));
    records.check();
}

/// Asks for a word of each record.
fn set_words<R: Records>(items: &mut [Item], records: &mut R, mut word: impl FnMut(&mut R, usize) -> u64) {
    for index in 0..items.len() {
        prefetch_ahead(items, index, records);
        items[index].word = word(records, items[index].at);
    }
    records.check();
}

/// Whether no record is before the one in front of it.
fn ascend(items: &[Item], records: &mut impl Records) -> bool {
    (1..items.len()).all(|index| {
        prefetch_ahead(items, index, records);
        records.compare(items[index - 1].at, items[index].at).is_le()
    })
}

/// Puts items in order that are so but for a few: these are taken out, sorted, and put where they belong. If they are more than
/// eight times the square root of all, `false`: then the items are there in some order.
pub fn mend(items: &mut [Item], records: &mut impl Records) -> bool {
    // Items before this place ascend; those from there on are out of order, as far as was looked.
    let mut kept = 0;
    for index in 0..items.len() {
        prefetch_ahead(items, index, records);
        if kept == 0 || records.compare(items[kept - 1].at, items[index].at).is_le() {
            items.swap(kept, index);
            kept += 1;
        } else {
            // Either of the two may be in a wrong place.
            kept -= 1;
        }
        let out = index + 1 - kept;
        if out.saturating_mul(out) > 64 * items.len() {
            return false;
        }
    }
    items[kept..].sort_unstable_by(|a, b| records.compare(a.at, b.at));
    put_back(items, kept, records);
    true
}

/// Merges the ascending items from a place on with the ascending ones before it.
fn put_back(items: &mut [Item], mut begin: usize, records: &mut impl Records) {
    for left in (1..=items.len() - begin).rev() {
        let last = items[begin + left - 1].at;
        let place = items[..begin].partition_point(|item| records.compare(item.at, last).is_le());
        // All that are left go in front of what is behind the last one, which is where it belongs then.
        items[place..begin + left].rotate_right(left);
        begin = place;
    }
}

fn prefetch_ahead(items: &[Item], index: usize, records: &impl Records) {
    if let Some(ahead) = items.get(index + AHEAD) {
        records.prefetch(ahead.at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Strings; how they are ordered where they tie but for zeros; how often they were looked at.
    struct Strings<'s> {
        strings: &'s [Vec<u8>],
        words: usize,
        compared: usize,
    }

    fn word(string: &[u8], number: usize) -> u64 {
        let mut word = [0; 8];
        let rest = &string[(8 * number).min(string.len())..];
        let length = rest.len().min(8);
        word[..length].copy_from_slice(&rest[..length]);
        u64::from_be_bytes(word)
    }

    impl Records for Strings<'_> {
        fn word(&mut self, at: usize, number: usize) -> Option<u64> {
            self.words += 1;
            (8 * (number + 1) < self.strings[at].len()).then(|| word(&self.strings[at], number + 1))
        }

        fn compare(&mut self, a: usize, b: usize) -> Ordering {
            self.compared += 1;
            self.strings[a].cmp(&self.strings[b]).then(a.cmp(&b))
        }

        fn tie(&mut self, at: usize) -> u64 {
            at as u64
        }

        fn prefetch(&self, at: usize) {
            assert!(at < self.strings.len());
        }

        fn check(&mut self) {}
    }

    /// Sorts strings, and says how many words were looked at and how many were compared.
    fn sorted(strings: &[Vec<u8>]) -> (Vec<usize>, usize, usize) {
        let mut items: Vec<Item> = (0..strings.len()).map(|at| Item { word: word(&strings[at], 0), at }).collect();
        let mut records = Strings { strings, words: 0, compared: 0 };
        sort(&mut items, &mut records);
        (items.iter().map(|item| item.at).collect(), records.words, records.compared)
    }

    fn expected(strings: &[Vec<u8>]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..strings.len()).collect();
        order.sort_by(|&a, &b| strings[a].cmp(&strings[b]).then(a.cmp(&b)));
        order
    }

    /// A string without zeros, as the order of those takes its end to be zeros.
    fn string(letters: core::ops::RangeInclusive<u8>, length: usize) -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(letters, 0..=length)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn strings_are_sorted(
            few in proptest::collection::vec(string(1..=3, 40), 0..600),
            many in proptest::collection::vec(string(1..=255, 12), 0..600),
            front in string(7..=7, 600),
        ) {
            let behind = few.iter().map(|string| [&front[..], string].concat());
            let strings: Vec<Vec<u8>> = few.iter().cloned().chain(many).chain(behind).collect();
            prop_assert_eq!(sorted(&strings).0, expected(&strings));
        }
    }

    #[test]
    fn what_ties_is_looked_at_once_a_word() {
        let strings: Vec<Vec<u8>> = (0..10_000u64)
            .map(|i| format!("{:>32}{:016x}", "", i.wrapping_mul(0x9E37_79B9_7F4A_7C15)).into_bytes())
            .collect();
        let (order, words, compared) = sorted(&strings);
        assert_eq!(order, expected(&strings));
        // Four words of spaces, of which the first came with the items, and one that tells nearly all apart.
        assert!((40_000..42_000).contains(&words), "{words} words");
        assert!(compared < 1_000, "{compared} comparisons");
    }

    #[test]
    fn equal_keys_are_compared_once() {
        let strings: Vec<Vec<u8>> =
            (0..20_000u64).map(|i| vec![(i.wrapping_mul(0x9E37_79B9) >> 7) as u8 % 4; 5]).collect();
        let (order, _, compared) = sorted(&strings);
        assert_eq!(order, expected(&strings));
        assert!(compared < strings.len(), "{compared} comparisons");
    }

    /// Records that tie in all words but are not in the order of their ties.
    struct Backwards;

    impl Records for Backwards {
        fn word(&mut self, _at: usize, _number: usize) -> Option<u64> {
            None
        }

        fn compare(&mut self, a: usize, b: usize) -> Ordering {
            b.cmp(&a)
        }

        fn tie(&mut self, at: usize) -> u64 {
            at as u64
        }

        fn prefetch(&self, _at: usize) {}

        fn check(&mut self) {}
    }

    #[test]
    fn what_ties_is_ordered_by_comparisons() {
        let mut items: Vec<Item> = (0..1_000).map(|at| Item { word: 0, at: at * 7 % 1_000 }).collect();
        sort(&mut items, &mut Backwards);
        assert!(items.iter().map(|item| item.at).eq((0..1_000).rev()));
    }

    proptest! {
        #[test]
        fn what_is_nearly_in_order_is_mended(
            count in 0..3_000usize,
            moved in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..12),
        ) {
            let mut items: Vec<Item> = (0..count).rev().map(|at| Item { word: 0, at: at / 2 }).collect();
            for (from, to) in moved.into_iter().filter(|_| count > 0) {
                let item = items.remove(from.index(count));
                items.insert(to.index(count), item);
            }
            prop_assert!(mend(&mut items, &mut Backwards));
            prop_assert!(items.iter().map(|item| item.at).eq((0..count).rev().map(|at| at / 2)));
        }
    }

    #[test]
    fn what_is_not_in_order_is_given_up() {
        let mut items: Vec<Item> = (0..20_000).map(|at| Item { word: 0, at: at * 7_919 % 20_000 }).collect();
        assert!(!mend(&mut items, &mut Backwards));
        items.sort_by_key(|item| item.at);
        assert!(items.iter().map(|item| item.at).eq(0..20_000));
    }

    #[test]
    fn a_staircase_does_not_go_too_deep() {
        // Each word parts one string from all others.
        let strings: Vec<Vec<u8>> = (0..1_000).map(|i| vec![9; 8 * i + 1]).collect();
        assert_eq!(sorted(&strings).0, expected(&strings));
    }
}
