//! Kernels of 256-bit vectors.

use super::{Kernel, Loops, Simd};
use core::arch::x86_64::*;

/// # Safety
/// The machine supports the kernel.
#[inline]
#[target_feature(enable = "avx2,bmi2,popcnt")]
pub unsafe fn run<A, R>(work: impl FnOnce(Simd, A) -> R, arguments: A) -> R {
    work(Simd(Kernel::Avx2), arguments)
}

/// # Safety
/// The machine supports the kernel.
#[target_feature(enable = "avx2,bmi2,popcnt")]
pub unsafe fn run_loops<W: Loops>(work: W) -> W::Out {
    work.run()
}

/// # Safety
/// `n` lanes can be read at `lanes`.
#[inline]
#[target_feature(enable = "avx2,bmi2,popcnt")]
pub unsafe fn less_u8(lanes: *const u8, n: usize, key: u8) -> usize {
    let keys = _mm256_set1_epi8(key as i8);
    // A lane is less unless it is the greater of key and lane.
    let less = |part| !_mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_max_epu8(part, keys), part)) as u32;
    // SAFETY: `n` lanes can be read at `lanes`, and each is a byte.
    unsafe { count_bytes(lanes, n, less) }
}

/// # Safety
/// `n` lanes can be read at `lanes`.
#[inline]
#[target_feature(enable = "avx2,bmi2,popcnt")]
pub unsafe fn less_u16(lanes: *const u8, n: usize, key: u16) -> usize {
    let keys = _mm256_set1_epi16(key as i16);
    let less = |part| !_mm256_movemask_epi8(_mm256_cmpeq_epi16(_mm256_max_epu16(part, keys), part)) as u32;
    // SAFETY: `n` lanes can be read at `lanes`, and each is two bytes.
    unsafe { count_bytes(lanes, 2 * n, less) / 2 }
}

/// # Safety
/// `n` lanes can be read at `lanes`.
#[inline]
#[target_feature(enable = "avx2,bmi2,popcnt")]
pub unsafe fn less_u32(lanes: *const u8, n: usize, key: u32) -> usize {
    // AVX2 compares signed integers only: turning the top bit over maps one order to the other.
    let sign = _mm256_set1_epi32(i32::MIN);
    let key = _mm256_xor_si256(_mm256_set1_epi32(key as i32), sign);
    let less = |part| {
        let less = _mm256_cmpgt_epi32(key, _mm256_xor_si256(part, sign));
        _mm256_movemask_ps(_mm256_castsi256_ps(less)) as u32
    };
    let (whole, rest) = (n & !7, n & 7);
    let mut count = 0;
    for i in (0..whole).step_by(8) {
        // SAFETY: i + 8 <= n.
        count += less(unsafe { _mm256_loadu_si256(lanes.add(i * 4).cast()) }).count_ones();
    }
    let places = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    let wanted = _mm256_cmpgt_epi32(_mm256_set1_epi32(rest as i32), places);
    // SAFETY: the mask keeps the load within the n lanes.
    let part = unsafe { _mm256_maskload_epi32(lanes.add(whole * 4).cast(), wanted) };
    count += _bzhi_u32(less(part), rest as u32).count_ones();
    count as usize
}

/// # Safety
/// `n` lanes can be read at `lanes`.
#[inline]
#[target_feature(enable = "avx2,bmi2,popcnt")]
pub unsafe fn less_u64(lanes: *const u8, n: usize, key: u64) -> usize {
    let sign = _mm256_set1_epi64x(i64::MIN);
    let key = _mm256_xor_si256(_mm256_set1_epi64x(key as i64), sign);
    let less = |part| {
        let less = _mm256_cmpgt_epi64(key, _mm256_xor_si256(part, sign));
        _mm256_movemask_pd(_mm256_castsi256_pd(less)) as u32
    };
    let (whole, rest) = (n & !3, n & 3);
    let mut count = 0;
    for i in (0..whole).step_by(4) {
        // SAFETY: i + 4 <= n.
        count += less(unsafe { _mm256_loadu_si256(lanes.add(i * 8).cast()) }).count_ones();
    }
    let places = _mm256_setr_epi64x(0, 1, 2, 3);
    let wanted = _mm256_cmpgt_epi64(_mm256_set1_epi64x(rest as i64), places);
    // SAFETY: the mask keeps the load within the n lanes.
    let part = unsafe { _mm256_maskload_epi64(lanes.add(whole * 8).cast(), wanted) };
    count += _bzhi_u32(less(part), rest as u32).count_ones();
    count as usize
}

/// # Safety
/// `n` lanes can be read at `lanes`.
#[inline]
#[target_feature(enable = "avx2,bmi2,popcnt")]
pub unsafe fn less_u128(lanes: *const u8, n: usize, key: u128) -> usize {
    let sign = _mm256_set1_epi64x(i64::MIN);
    let (high, low) = ((key >> 64) as i64, key as i64);
    let key = _mm256_xor_si256(_mm256_set_epi64x(high, low, high, low), sign);
    let less = |part| {
        let part = _mm256_xor_si256(part, sign);
        let less = _mm256_castsi256_pd(_mm256_cmpgt_epi64(key, part));
        let equal = _mm256_castsi256_pd(_mm256_cmpeq_epi64(key, part));
        let (less, equal) = (_mm256_movemask_pd(less), _mm256_movemask_pd(equal));
        // A lane's low half has the even bit, its high half the odd bit above it.
        ((less | (equal & (less << 1))) & 0b1010) as u32
    };
    let mut count = 0;
    for i in (0..n & !1).step_by(2) {
        // SAFETY: i + 2 <= n.
        count += less(unsafe { _mm256_loadu_si256(lanes.add(i * 16).cast()) }).count_ones();
    }
    if n & 1 == 1 {
        // SAFETY: the last lane is one of the n.
        let last = unsafe { _mm_loadu_si128(lanes.add((n - 1) * 16).cast()) };
        count += (less(_mm256_zextsi128_si256(last)) & 0b11).count_ones();
    }
    count as usize
}

/// # Safety
/// `n` lanes can be read at `lanes`.
#[inline]
#[target_feature(enable = "avx2,bmi2,popcnt")]
pub unsafe fn equal_u32(lanes: *const u8, n: usize, key: u32) -> usize {
    let keys = _mm256_set1_epi32(key as i32);
    let whole = n & !7;
    // SAFETY: the lanes from the last whole vector to n are among the n.
    let mut found = whole + unsafe { super::portable_equal(lanes.add(whole * 4), n - whole, key) };
    for i in (0..whole).step_by(8) {
        // SAFETY: i + 8 <= n.
        let part = unsafe { _mm256_loadu_si256(lanes.add(i * 4).cast()) };
        let equal = _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(part, keys)));
        found = if equal == 0 { found } else { i + equal.trailing_zeros() as usize };
    }
    found
}

/// # Safety
/// `n` lanes can be read at `lanes`.
#[inline]
#[target_feature(enable = "avx2,bmi2,popcnt")]
pub unsafe fn equal_u64(lanes: *const u8, n: usize, key: u64) -> usize {
    let keys = _mm256_set1_epi64x(key as i64);
    let whole = n & !3;
    // SAFETY: the lanes from the last whole vector to n are among the n.
    let mut found = whole + unsafe { super::portable_equal(lanes.add(whole * 8), n - whole, key) };
    for i in (0..whole).step_by(4) {
        // SAFETY: i + 4 <= n.
        let part = unsafe { _mm256_loadu_si256(lanes.add(i * 8).cast()) };
        let equal = _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(part, keys)));
        found = if equal == 0 { found } else { i + equal.trailing_zeros() as usize };
    }
    found
}

/// Two halves to a lane leave AVX2 little to win.
///
/// # Safety
/// `n` lanes can be read at `lanes`.
pub unsafe fn equal_u128(lanes: *const u8, n: usize, key: u128) -> usize {
    // SAFETY: `n` lanes can be read at `lanes`.
    unsafe { super::portable_equal(lanes, n, key) }
}

/// # Safety
/// `n` lanes can be read at `lanes`.
#[inline]
#[target_feature(enable = "avx2,bmi2,popcnt")]
pub unsafe fn at_most_u32(lanes: *const u8, n: usize, key: u32) -> usize {
    let keys = _mm256_set1_epi32(key as i32);
    let whole = n & !7;
    let (mut greatest, mut any) = (_mm256_setzero_si256(), _mm256_setzero_si256());
    for i in (0..whole).step_by(8) {
        // SAFETY: i + 8 <= n.
        let part = unsafe { _mm256_loadu_si256(lanes.add(i * 4).cast()) };
        let at_most = _mm256_cmpeq_epi32(_mm256_max_epu32(part, keys), keys);
        greatest = _mm256_max_epu32(greatest, _mm256_and_si256(part, at_most));
        any = _mm256_or_si256(any, at_most);
    }
    let mut best = [0u32; 8];
    // SAFETY: eight lanes fit in eight.
    unsafe { _mm256_storeu_si256(best.as_mut_ptr().cast(), greatest) };
    let best = (_mm256_movemask_epi8(any) != 0).then(|| best.into_iter().fold(0, u32::max));
    // SAFETY: `n` lanes can be read at `lanes`.
    unsafe { with_rest(lanes, n, whole, key, best, |lanes, n, key| equal_u32(lanes, n, key)) }
}

/// # Safety
/// `n` lanes can be read at `lanes`.
#[inline]
#[target_feature(enable = "avx2,bmi2,popcnt")]
pub unsafe fn at_most_u64(lanes: *const u8, n: usize, key: u64) -> usize {
    let sign = _mm256_set1_epi64x(i64::MIN);
    let keys = _mm256_xor_si256(_mm256_set1_epi64x(key as i64), sign);
    let whole = n & !3;
    let (mut greatest, mut any) = (sign, _mm256_setzero_si256());
    for i in (0..whole).step_by(4) {
        // SAFETY: i + 4 <= n.
        let part = unsafe { _mm256_loadu_si256(lanes.add(i * 8).cast()) };
        let part = _mm256_xor_si256(part, sign);
        let more = _mm256_cmpgt_epi64(part, keys);
        let better = _mm256_andnot_si256(more, _mm256_cmpgt_epi64(part, greatest));
        greatest = _mm256_blendv_epi8(greatest, part, better);
        any = _mm256_or_si256(any, _mm256_andnot_si256(more, _mm256_set1_epi64x(-1)));
    }
    let mut best = [0u64; 4];
    // SAFETY: four lanes fit in four.
    unsafe { _mm256_storeu_si256(best.as_mut_ptr().cast(), _mm256_xor_si256(greatest, sign)) };
    let best = (_mm256_movemask_epi8(any) != 0).then(|| best.into_iter().fold(0, u64::max));
    // SAFETY: `n` lanes can be read at `lanes`.
    unsafe { with_rest(lanes, n, whole, key, best, |lanes, n, key| equal_u64(lanes, n, key)) }
}

/// Two halves to a lane leave AVX2 little to win.
///
/// # Safety
/// `n` lanes can be read at `lanes`.
pub unsafe fn at_most_u128(lanes: *const u8, n: usize, key: u128) -> usize {
    // SAFETY: `n` lanes can be read at `lanes`.
    unsafe { super::portable_at_most(lanes, n, key) }
}

/// How many of the `size` bytes at `bytes` have their bit set in what `less` makes of them.
///
/// # Safety
/// The bytes can be read.
#[inline]
#[target_feature(enable = "avx2,bmi2,popcnt")]
unsafe fn count_bytes(bytes: *const u8, size: usize, less: impl Fn(__m256i) -> u32) -> usize {
    let Some(last) = size.checked_sub(32) else {
        // SAFETY: the bytes are fewer than 32.
        let part = unsafe { first_bytes(bytes, size) };
        return _bzhi_u32(less(part), size as u32).count_ones() as usize;
    };
    let mut count = 0;
    for i in (0..last).step_by(32) {
        // SAFETY: i < last, so i + 32 <= size.
        count += less(unsafe { _mm256_loadu_si256(bytes.add(i).cast()) }).count_ones();
    }
    // The last vector ends where the bytes end, and may begin with some that are counted already.
    let counted = last.next_multiple_of(32) - last;
    // SAFETY: last + 32 is size.
    count += (less(unsafe { _mm256_loadu_si256(bytes.add(last).cast()) }) >> counted).count_ones();
    count as usize
}

/// A vector that begins with the `size` bytes at `bytes`.
///
/// # Safety
/// The bytes can be read, and are fewer than 32.
#[inline]
#[target_feature(enable = "avx2,bmi2,popcnt")]
unsafe fn first_bytes(bytes: *const u8, size: usize) -> __m256i {
    let places = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    let words = _mm256_set1_epi32((size / 4) as i32);
    // SAFETY: the mask keeps the load within the whole words.
    let whole = unsafe { _mm256_maskload_epi32(bytes.cast(), _mm256_cmpgt_epi32(words, places)) };
    // AVX2 masks no less than 32 bits.
    // SAFETY: i < size.
    let byte = |i| unsafe { i32::from(*bytes.add(i)) };
    let rest = (size & !3..size).rev().fold(0, |rest, i| rest << 8 | byte(i));
    _mm256_or_si256(whole, _mm256_and_si256(_mm256_set1_epi32(rest), _mm256_cmpeq_epi32(words, places)))
}

/// The place of the greatest lane that is `key` or less, where `best` is the greatest among the first `whole` lanes.
///
/// # Safety
/// `n` lanes can be read at `lanes`, and `whole <= n`.
#[inline]
unsafe fn with_rest<L: super::Counted>(
    lanes: *const u8,
    n: usize,
    whole: usize,
    key: L,
    best: Option<L>,
    equal: impl Fn(*const u8, usize, L) -> usize,
) -> usize {
    let stored: *const L = lanes.cast();
    // SAFETY: i < n.
    let rest = (whole..n).map(|i| unsafe { stored.add(i).read_unaligned() }).filter(|lane| *lane <= key);
    best.into_iter().chain(rest).max().map_or(n, |greatest| equal(lanes, n, greatest))
}
