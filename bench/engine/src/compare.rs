//! Comparisons of byte strings, to be chosen at compile time (thesis §5.4, Figure 5.9).

use std::cmp::Ordering;

/// A way to compare byte strings in the order of their bytes; a prefix comes before what it is a prefix of.
pub trait Compare {
    /// What it is called.
    const NAME: &'static str;

    /// How `a` compares to `b`.
    fn compare(a: &[u8], b: &[u8]) -> Ordering;
}

/// The C library's `memcmp`.
pub struct Memcmp;

impl Compare for Memcmp {
    const NAME: &'static str = "memcmp";

    #[inline]
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
                agrees::<Words>(&a, other);
            }
        }
    }
}
