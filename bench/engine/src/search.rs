//! Searches in sorted keys, to be chosen at compile time (modular B+-tree paper §3.2, thesis §5.4).

use fpbtree_engine::simd::{Counted, chosen};
use std::hint::select_unpredictable;
use std::marker::PhantomData;
use std::ops::Range;

/// A way to search sorted keys, among which may be equal ones.
pub trait Search {
    /// What it is called.
    const NAME: &'static str;

    /// How many keys are less than `key`.
    fn lower(keys: &[u32], key: u32) -> usize;

    /// How many keys are not greater than `key`.
    #[inline]
    fn upper(keys: &[u32], key: u32) -> usize {
        key.checked_add(1).map_or(keys.len(), |next| Self::lower(keys, next))
    }
}

/// A way to search sorted keys of a certain kind: of 32 bits by a [`Search`], others by a
/// [comparison](crate::compare::Compare).
pub trait SearchOf<K> {
    /// How many keys are less than `key`.
    fn less(keys: &[K], key: &K) -> usize;
}

impl<S: Search> SearchOf<u32> for S {
    #[inline(always)]
    fn less(keys: &[u32], key: &u32) -> usize {
        S::lower(keys, *key)
    }
}

/// One key after the other.
pub struct Linear;

impl Search for Linear {
    const NAME: &'static str = "linear";

    #[inline]
    fn lower(keys: &[u32], key: u32) -> usize {
        keys.iter().position(|&other| other >= key).unwrap_or(keys.len())
    }
}

/// By halves, without a branch that has to be foreseen.
pub struct Binary;

impl Search for Binary {
    const NAME: &'static str = "binary";

    #[inline]
    fn lower(keys: &[u32], key: u32) -> usize {
        let base = segment_of(keys, key, 1).start;
        base + usize::from(keys.get(base).is_some_and(|other| *other < key))
    }
}

/// The segment of `length` keys before which all keys are less than `key`, and behind which none is. By halves of the
/// segments, of which the first keys are compared.
#[inline]
fn segment_of(keys: &[u32], key: u32, length: usize) -> Range<usize> {
    let (mut base, mut segments) = (0, keys.len().div_ceil(length));
    while segments > 1 {
        let half = segments / 2;
        base = select_unpredictable(keys[(base + half) * length] < key, base + half, base);
        segments -= half;
    }
    base * length..((base + 1) * length).min(keys.len())
}

/// Binary until one segment of `SEGMENT` keys is left, then `L`. The paper found segments of eight keys to be best
/// (§3.2).
pub struct Hybrid<L = LinearSimd<256>, const SEGMENT: usize = 8>(PhantomData<L>);

impl<L: Search, const SEGMENT: usize> Search for Hybrid<L, SEGMENT> {
    const NAME: &'static str = "hybrid binary";

    #[inline]
    fn lower(keys: &[u32], key: u32) -> usize {
        const { assert!(SEGMENT > 0) };
        let segment = segment_of(keys, key, SEGMENT);
        segment.start + L::lower(&keys[segment], key)
    }
}

/// Finds the segment of `SEGMENT` keys by interpolation, and in it the key by `L` (§3.2, Figure 2). Uniform keys take
/// about log log n steps; keys that take more are skewed, and the rest of the way is [`Hybrid`]'s.
pub struct HybridInterpolation<L = LinearSimd<256>, const SEGMENT: usize = 8>(PhantomData<L>);

impl<L: Search, const SEGMENT: usize> Search for HybridInterpolation<L, SEGMENT> {
    const NAME: &'static str = "hybrid interpolation";

    #[inline]
    fn lower(keys: &[u32], key: u32) -> usize {
        // All keys before `low` are less than `key`, all from `high` on are not.
        let (mut low, mut high) = (0, keys.len());
        let mut steps = keys.len().checked_ilog2().and_then(u32::checked_ilog2).map_or(0, |steps| steps + 1);
        while high - low > SEGMENT && steps > 0 {
            let (first, last) = (keys[low], keys[high - 1]);
            if key <= first {
                return low;
            }
            if key > last {
                return high;
            }
            let ahead = u64::from(key - first) * (high - 1 - low) as u64 / u64::from(last - first);
            let segment = (low + ahead as usize) / SEGMENT * SEGMENT;
            let (begin, end) = (segment.max(low), (segment + SEGMENT).min(high));
            if keys[end - 1] < key {
                low = end;
            } else if keys[begin] >= key {
                high = begin;
            } else {
                return begin + L::lower(&keys[begin..end], key);
            }
            steps -= 1;
        }
        low + Hybrid::<L, SEGMENT>::lower(&keys[low..high], key)
    }
}

/// Counts the keys that are less, all of them and without a branch, with the engine's kernel: as Zhou and Ross do, whom
/// the paper cites (§3.2).
pub struct Counting;

impl Search for Counting {
    const NAME: &'static str = "counting";

    #[inline]
    fn lower(keys: &[u32], key: u32) -> usize {
        // SAFETY: the keys can be read, and a chosen kernel is supported.
        unsafe { u32::less(chosen(), keys.as_ptr().cast(), keys.len(), keys.len(), key) }
    }
}

/// Examines vectors of `BITS` bits, 128, 256 or 512, one after the other until one has a key that is not less (§3.2).
/// On a machine [without them](has_vectors) it examines as many keys at a time in plain code.
pub struct LinearSimd<const BITS: usize>;

/// Whether this machine has vectors of so many bits. The answer is found once.
#[inline]
pub fn has_vectors(bits: usize) -> bool {
    #[cfg(target_arch = "x86_64")]
    return match bits {
        128 => true,
        256 => is_x86_feature_detected!("avx2"),
        512 => is_x86_feature_detected!("avx512f"),
        _ => false,
    };
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = bits;
        false
    }
}

macro_rules! linear_simd {
    ($bits:literal, $lower:ident, $name:literal) => {
        impl Search for LinearSimd<$bits> {
            const NAME: &'static str = $name;

            #[inline]
            fn lower(keys: &[u32], key: u32) -> usize {
                #[cfg(target_arch = "x86_64")]
                if has_vectors($bits) {
                    // SAFETY: the machine has these vectors.
                    return unsafe { x86::$lower(keys, key) };
                }
                portable::<{ $bits / 32 }>(keys, key)
            }
        }
    };
}

linear_simd!(128, lower_128, "linear, 128 bits");
linear_simd!(256, lower_256, "linear, 256 bits");
linear_simd!(512, lower_512, "linear, 512 bits");

/// Examines `N` keys at a time. `less` counts those of a block that are less than `key`.
#[inline(always)]
fn examine<const N: usize>(keys: &[u32], key: u32, less: impl Fn(&[u32; N]) -> usize) -> usize {
    let Some(last) = keys.last_chunk() else {
        return Linear::lower(keys, key);
    };
    for (place, block) in keys.as_chunks().0.iter().enumerate() {
        let count = less(block);
        if count < N {
            return place * N + count;
        }
    }
    // What follows the last whole block is in the last N keys, and the others of these are less.
    keys.len() - N + less(last)
}

fn portable<const N: usize>(keys: &[u32], key: u32) -> usize {
    examine(keys, key, |block: &[u32; N]| block.iter().map(|other| usize::from(*other < key)).sum())
}

/// Which of the bytes are `byte`: the bit of each such place.
#[inline]
pub fn equal_bytes(bytes: &[u8; 16], byte: u8) -> u32 {
    // SAFETY: SSE2 is part of x86-64.
    #[cfg(target_arch = "x86_64")]
    return unsafe { x86::equal_bytes(bytes, byte) };
    #[cfg(not(target_arch = "x86_64"))]
    return portable_equal_bytes(bytes, byte);
}

#[cfg(any(test, not(target_arch = "x86_64")))]
fn portable_equal_bytes(bytes: &[u8; 16], byte: u8) -> u32 {
    bytes.iter().rev().fold(0, |places, other| places << 1 | u32::from(*other == byte))
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::examine;
    use std::arch::x86_64::*;

    // SSE2 and AVX2 compare signed integers only: turning the top bit over maps one order to the other.

    #[inline]
    #[target_feature(enable = "sse2")]
    pub fn lower_128(keys: &[u32], key: u32) -> usize {
        let sign = _mm_set1_epi32(i32::MIN);
        let wanted = _mm_xor_si128(_mm_set1_epi32(key as i32), sign);
        examine(keys, key, |block: &[u32; 4]| {
            // SAFETY: a block has as many bits.
            let block = unsafe { _mm_loadu_si128(block.as_ptr().cast()) };
            let less = _mm_cmpgt_epi32(wanted, _mm_xor_si128(block, sign));
            _mm_movemask_ps(_mm_castsi128_ps(less)).trailing_ones() as usize
        })
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub fn lower_256(keys: &[u32], key: u32) -> usize {
        let sign = _mm256_set1_epi32(i32::MIN);
        let wanted = _mm256_xor_si256(_mm256_set1_epi32(key as i32), sign);
        examine(keys, key, |block: &[u32; 8]| {
            // SAFETY: a block has as many bits.
            let block = unsafe { _mm256_loadu_si256(block.as_ptr().cast()) };
            let less = _mm256_cmpgt_epi32(wanted, _mm256_xor_si256(block, sign));
            _mm256_movemask_ps(_mm256_castsi256_ps(less)).trailing_ones() as usize
        })
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub fn lower_512(keys: &[u32], key: u32) -> usize {
        let wanted = _mm512_set1_epi32(key as i32);
        examine(keys, key, |block: &[u32; 16]| {
            // SAFETY: a block has as many bits.
            let block = unsafe { _mm512_loadu_si512(block.as_ptr().cast()) };
            _mm512_cmplt_epu32_mask(block, wanted).trailing_ones() as usize
        })
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    pub fn equal_bytes(bytes: &[u8; 16], byte: u8) -> u32 {
        // SAFETY: there are 16 bytes.
        let bytes = unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) };
        _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(byte as i8))) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn finds<S: Search>(keys: &[u32], key: u32) {
        assert_eq!(S::lower(keys, key), keys.partition_point(|&other| other < key), "{}", S::NAME);
        assert_eq!(S::upper(keys, key), keys.partition_point(|&other| other <= key), "{}", S::NAME);
    }

    fn all_find(keys: &[u32], key: u32) {
        finds::<Linear>(keys, key);
        finds::<Binary>(keys, key);
        finds::<Counting>(keys, key);
        finds::<LinearSimd<128>>(keys, key);
        finds::<LinearSimd<256>>(keys, key);
        finds::<LinearSimd<512>>(keys, key);
        finds::<Hybrid>(keys, key);
        finds::<Hybrid<Linear, 1>>(keys, key);
        finds::<Hybrid<LinearSimd<128>, 4>>(keys, key);
        finds::<Hybrid<LinearSimd<512>, 32>>(keys, key);
        finds::<HybridInterpolation>(keys, key);
        finds::<HybridInterpolation<Linear, 1>>(keys, key);
        finds::<HybridInterpolation<LinearSimd<128>, 4>>(keys, key);
        finds::<HybridInterpolation<LinearSimd<512>, 32>>(keys, key);
        let less = keys.partition_point(|&other| other < key);
        assert_eq!([portable::<4>(keys, key), portable::<8>(keys, key), portable::<16>(keys, key)], [less; 3]);
    }

    /// Keys that are dense, repeated, uniform, or skewed.
    fn keys() -> impl Strategy<Value = Vec<u32>> {
        let skewed = any::<u32>().prop_map(|n| (n >> 5) >> (n % 32));
        prop_oneof![
            prop::collection::vec(0..1000u32, 0..600),
            prop::collection::vec(0..10u32, 0..100),
            prop::collection::vec(any::<u32>(), 0..600),
            prop::collection::vec(skewed, 0..600),
            prop::collection::vec(prop_oneof![Just(0), Just(u32::MAX)], 0..50),
        ]
    }

    proptest! {
        #[test]
        fn searches_find(mut keys in keys(), key in 0..1001u32, far: u32, place: prop::sample::Index) {
            keys.sort_unstable();
            let present = keys.get(place.index(keys.len().max(1))).copied().unwrap_or(0);
            for key in [key, far, 0, u32::MAX, present, present.saturating_add(1), present.saturating_sub(1)] {
                all_find(&keys, key);
            }
        }

        #[test]
        fn equal_bytes_are_found(bytes in prop::array::uniform16(0..4u8), byte in 0..4u8) {
            let places = (0..16).filter(|place| bytes[*place] == byte).map(|place| 1 << place).sum::<u32>();
            prop_assert_eq!(equal_bytes(&bytes, byte), places);
            prop_assert_eq!(portable_equal_bytes(&bytes, byte), places);
        }
    }

    #[test]
    fn uniform_keys_are_found_in_long_nodes() {
        let keys: Vec<u32> = (0..200_000u32).map(|n| n * 20_011 + n % 7).collect();
        for place in (0..keys.len()).step_by(997) {
            all_find(&keys, keys[place]);
            all_find(&keys, keys[place] + 1);
        }
    }
}
