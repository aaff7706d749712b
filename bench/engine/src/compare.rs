//! Comparisons of byte strings, to be chosen at compile time (thesis §5.4, Figure 5.9).

use crate::search::SearchOf;
use std::cmp::Ordering;
use std::hint::select_unpredictable;
use std::marker::PhantomData;

/// A way to compare byte strings in the order of their bytes; a prefix comes before what it is a prefix of.
pub trait Compare {
    /// What it is called.
    const NAME: &'static str;

    /// How `a` compares to `b`.
    fn compare(a: &[u8], b: &[u8]) -> Ordering;
}

/// The C library's `memcmp`: not inlined, since the compiler would not call it for lengths that it knows.
pub struct Memcmp;

impl Compare for Memcmp {
    const NAME: &'static str = "memcmp";

    #[inline(never)]
    fn compare(a: &[u8], b: &[u8]) -> Ordering {
        a.cmp(b)
    }
}

/// What the compiler makes of `memcmp` where it knows the length.
pub struct Inlined;

impl Compare for Inlined {
    const NAME: &'static str = "memcmp, inlined";

    #[inline(always)]
    fn compare(a: &[u8], b: &[u8]) -> Ordering {
        a.cmp(b)
    }
}

/// Eight bytes at a time, as big-endian integers: the thesis' optimised comparison, for strings of any length.
pub struct Words;

impl Compare for Words {
    const NAME: &'static str = "words";

    #[inline]
    fn compare(a: &[u8], b: &[u8]) -> Ordering {
        let (a_words, b_words) = (a.as_chunks::<8>().0, b.as_chunks::<8>().0);
        let mut orders = a_words.iter().zip(b_words).map(|(a, b)| u64::from_be_bytes(*a).cmp(&u64::from_be_bytes(*b)));
        orders.find(|order| order.is_ne()).unwrap_or_else(|| {
            let whole = 8 * a_words.len().min(b_words.len());
            // Where zeros stand for bytes that are not there, only the lengths tell them from bytes that are.
            padded_word(&a[whole..]).cmp(&padded_word(&b[whole..])).then(a.len().cmp(&b.len()))
        })
    }
}

/// One key after the other.
pub struct LinearBy<C>(PhantomData<C>);

impl<C: Compare, const N: usize> SearchOf<[u8; N]> for LinearBy<C> {
    #[inline]
    fn less(keys: &[[u8; N]], key: &[u8; N]) -> usize {
        keys.iter().position(|other| C::compare(other, key).is_ge()).unwrap_or(keys.len())
    }
}

/// By halves. A branch is not asked for, but the compiler has its way where the comparison itself consists of branches:
/// it makes none for [`Memcmp`], and one for [`Words`].
pub struct BinaryBy<C>(PhantomData<C>);

impl<C: Compare, const N: usize> SearchOf<[u8; N]> for BinaryBy<C> {
    #[inline]
    fn less(keys: &[[u8; N]], key: &[u8; N]) -> usize {
        let (mut base, mut left) = (0, keys.len());
        while left > 1 {
            let half = left / 2;
            base = select_unpredictable(C::compare(&keys[base + half], key).is_lt(), base + half, base);
            left -= half;
        }
        base + usize::from(keys.get(base).is_some_and(|other| C::compare(other, key).is_lt()))
    }
}

/// The first eight bytes, with zeros for those that are not there.
#[inline]
fn padded_word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    let there = bytes.len().min(8);
    word[..there].copy_from_slice(&bytes[..there]);
    u64::from_be_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Strings of few different bytes, so that many have a beginning in common.
    fn strings() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop_oneof![4 => Just(0u8), 1 => Just(1), 1 => Just(0xFF)], 0..40)
    }

    fn agrees<C: Compare>(a: &[u8], b: &[u8]) {
        assert_eq!(C::compare(a, b), a.iter().cmp(b), "{}", C::NAME);
        assert_eq!(C::compare(b, a), b.iter().cmp(a), "{}", C::NAME);
    }

    proptest! {
        #[test]
        fn comparisons_agree(a in strings(), b in strings(), any: Vec<u8>, common in 0..40usize) {
            let near = [&a[..common.min(a.len())], &b[..]].concat();
            for other in [&a, &b, &any, &near] {
                agrees::<Memcmp>(&a, other);
                agrees::<Inlined>(&a, other);
                agrees::<Words>(&a, other);
            }
        }

        #[test]
        fn searches_by_comparison_find(mut keys: Vec<[u8; 8]>, few in prop::collection::vec(0..9u64, 0..40), key in 0..9u64) {
            keys.extend(few.iter().map(|few| few.to_be_bytes()));
            keys.sort_unstable();
            let wanted = keys.iter().copied().chain([key.to_be_bytes(), [0xFF; 8]]);
            for key in wanted {
                let less = keys.partition_point(|other| *other < key);
                prop_assert_eq!(LinearBy::<Memcmp>::less(&keys, &key), less);
                prop_assert_eq!(BinaryBy::<Memcmp>::less(&keys, &key), less);
                prop_assert_eq!(BinaryBy::<Words>::less(&keys, &key), less);
            }
        }
    }
}
