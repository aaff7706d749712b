//! Kernels of 512-bit vectors.
//!
//! A room may end outside the bytes: addresses wrap, and what is behind the lanes is never read.

use super::{Kernel, Loops, Simd};
use core::arch::x86_64::*;

/// # Safety
/// The machine supports the kernel.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,bmi2,popcnt")]
pub unsafe fn run<A, R>(work: impl FnOnce(Simd, A) -> R, arguments: A) -> R {
    work(Simd(Kernel::Avx512), arguments)
}

/// # Safety
/// The machine supports the kernel.
#[target_feature(enable = "avx512f,avx512bw,bmi2,popcnt")]
pub unsafe fn run_loops<W: Loops>(work: W) -> W::Out {
    work.run()
}

/// # Safety
/// `n` lanes can be read at `lanes`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,bmi2,popcnt")]
pub unsafe fn less_u8(lanes: *const u8, n: usize, room: usize, key: u8) -> usize {
    let key = _mm512_set1_epi8(key as i8);
    let mut count = 0;
    for i in (0..room).step_by(64) {
        let wanted = _bzhi_u64(u64::MAX, n.saturating_sub(i).min(64) as u32);
        // SAFETY: the mask keeps the load within the n lanes.
        let part = unsafe { _mm512_maskz_loadu_epi8(wanted, lanes.wrapping_add(i).cast()) };
        count += _mm512_mask_cmplt_epu8_mask(wanted, part, key).count_ones();
    }
    count as usize
}

/// # Safety
/// `n` lanes can be read at `lanes`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,bmi2,popcnt")]
pub unsafe fn less_u16(lanes: *const u8, n: usize, room: usize, key: u16) -> usize {
    let key = _mm512_set1_epi16(key as i16);
    let mut count = 0;
    for i in (0..room).step_by(32) {
        let wanted = _bzhi_u32(u32::MAX, n.saturating_sub(i).min(32) as u32);
        // SAFETY: the mask keeps the load within the n lanes.
        let part = unsafe { _mm512_maskz_loadu_epi16(wanted, lanes.wrapping_add(i * 2).cast()) };
        count += _mm512_mask_cmplt_epu16_mask(wanted, part, key).count_ones();
    }
    count as usize
}

/// # Safety
/// `n` lanes can be read at `lanes`.
#[inline]
#[target_feature(enable = "avx512f,bmi2,popcnt")]
pub unsafe fn less_u32(lanes: *const u8, n: usize, room: usize, key: u32) -> usize {
    let key = _mm512_set1_epi32(key as i32);
    let mut count = 0;
    for i in (0..room).step_by(16) {
        let wanted = _bzhi_u32(0xFFFF, n.saturating_sub(i).min(16) as u32) as __mmask16;
        // SAFETY: the mask keeps the load within the n lanes.
        let part = unsafe { _mm512_maskz_loadu_epi32(wanted, lanes.wrapping_add(i * 4).cast()) };
        count += _mm512_mask_cmplt_epu32_mask(wanted, part, key).count_ones();
    }
    count as usize
}

/// # Safety
/// `n` lanes can be read at `lanes`.
#[inline]
#[target_feature(enable = "avx512f,bmi2,popcnt")]
pub unsafe fn less_u64(lanes: *const u8, n: usize, room: usize, key: u64) -> usize {
    let key = _mm512_set1_epi64(key as i64);
    let mut count = 0;
    for i in (0..room).step_by(8) {
        let wanted = _bzhi_u32(0xFF, n.saturating_sub(i).min(8) as u32) as __mmask8;
        // SAFETY: the mask keeps the load within the n lanes.
        let part = unsafe { _mm512_maskz_loadu_epi64(wanted, lanes.wrapping_add(i * 8).cast()) };
        count += _mm512_mask_cmplt_epu64_mask(wanted, part, key).count_ones();
    }
    count as usize
}

/// # Safety
/// `n` lanes can be read at `lanes`.
#[inline]
#[target_feature(enable = "avx512f,bmi2,popcnt")]
pub unsafe fn less_u128(lanes: *const u8, n: usize, room: usize, key: u128) -> usize {
    let (high, low) = ((key >> 64) as i64, key as i64);
    let key = _mm512_set_epi64(high, low, high, low, high, low, high, low);
    let mut count = 0;
    for i in (0..room).step_by(4) {
        let wanted = _bzhi_u32(0xFF, 2 * n.saturating_sub(i).min(4) as u32) as __mmask8;
        // SAFETY: the mask keeps the load within the n lanes.
        let part = unsafe { _mm512_maskz_loadu_epi64(wanted, lanes.wrapping_add(i * 16).cast()) };
        let less = _mm512_mask_cmplt_epu64_mask(wanted, part, key);
        let equal = _mm512_mask_cmpeq_epu64_mask(wanted, part, key);
        // A lane's low half has the even bit, its high half the odd bit above it.
        count += ((less | (equal & (less << 1))) & 0b1010_1010).count_ones();
    }
    count as usize
}

/// # Safety
/// `n` lanes can be read at `lanes`.
#[inline]
#[target_feature(enable = "avx512f,bmi2,popcnt")]
pub unsafe fn equal_u32(lanes: *const u8, n: usize, room: usize, key: u32) -> usize {
    let key = _mm512_set1_epi32(key as i32);
    let mut found = n;
    for i in (0..room).step_by(16) {
        let wanted = _bzhi_u32(0xFFFF, n.saturating_sub(i).min(16) as u32) as __mmask16;
        // SAFETY: the mask keeps the load within the n lanes.
        let part = unsafe { _mm512_maskz_loadu_epi32(wanted, lanes.wrapping_add(i * 4).cast()) };
        let equal = u32::from(_mm512_mask_cmpeq_epu32_mask(wanted, part, key));
        found = if equal == 0 { found } else { i + equal.trailing_zeros() as usize };
    }
    found
}

/// # Safety
/// `n` lanes can be read at `lanes`.
#[inline]
#[target_feature(enable = "avx512f,bmi2,popcnt")]
pub unsafe fn equal_u64(lanes: *const u8, n: usize, room: usize, key: u64) -> usize {
    let key = _mm512_set1_epi64(key as i64);
    let mut found = n;
    for i in (0..room).step_by(8) {
        let wanted = _bzhi_u32(0xFF, n.saturating_sub(i).min(8) as u32) as __mmask8;
        // SAFETY: the mask keeps the load within the n lanes.
        let part = unsafe { _mm512_maskz_loadu_epi64(wanted, lanes.wrapping_add(i * 8).cast()) };
        let equal = u32::from(_mm512_mask_cmpeq_epu64_mask(wanted, part, key));
        found = if equal == 0 { found } else { i + equal.trailing_zeros() as usize };
    }
    found
}

/// # Safety
/// `n` lanes can be read at `lanes`.
#[inline]
#[target_feature(enable = "avx512f,bmi2,popcnt")]
pub unsafe fn equal_u128(lanes: *const u8, n: usize, room: usize, key: u128) -> usize {
    let (high, low) = ((key >> 64) as i64, key as i64);
    let key = _mm512_set_epi64(high, low, high, low, high, low, high, low);
    let mut found = n;
    for i in (0..room).step_by(4) {
        let wanted = _bzhi_u32(0xFF, 2 * n.saturating_sub(i).min(4) as u32) as __mmask8;
        // SAFETY: the mask keeps the load within the n lanes.
        let part = unsafe { _mm512_maskz_loadu_epi64(wanted, lanes.wrapping_add(i * 16).cast()) };
        let equal = u32::from(_mm512_mask_cmpeq_epu64_mask(wanted, part, key));
        let both = equal & (equal >> 1) & 0b0101_0101;
        found = if both == 0 { found } else { i + both.trailing_zeros() as usize / 2 };
    }
    found
}

/// # Safety
/// `n` lanes can be read at `lanes`.
#[inline]
#[target_feature(enable = "avx512f,bmi2,popcnt")]
pub unsafe fn at_most_u32(lanes: *const u8, n: usize, room: usize, key: u32) -> usize {
    let keys = _mm512_set1_epi32(key as i32);
    let (mut greatest, mut any) = (_mm512_setzero_si512(), 0);
    for i in (0..room).step_by(16) {
        let wanted = _bzhi_u32(0xFFFF, n.saturating_sub(i).min(16) as u32) as __mmask16;
        // SAFETY: the mask keeps the load within the n lanes.
        let part = unsafe { _mm512_maskz_loadu_epi32(wanted, lanes.wrapping_add(i * 4).cast()) };
        let at_most = _mm512_mask_cmple_epu32_mask(wanted, part, keys);
        greatest = _mm512_mask_max_epu32(greatest, at_most, greatest, part);
        any |= at_most;
    }
    // SAFETY: `n` lanes can be read at `lanes`.
    if any == 0 { n } else { unsafe { equal_u32(lanes, n, room, _mm512_reduce_max_epu32(greatest)) } }
}

/// # Safety
/// `n` lanes can be read at `lanes`.
#[inline]
#[target_feature(enable = "avx512f,bmi2,popcnt")]
pub unsafe fn at_most_u64(lanes: *const u8, n: usize, room: usize, key: u64) -> usize {
    let keys = _mm512_set1_epi64(key as i64);
    let (mut greatest, mut any) = (_mm512_setzero_si512(), 0);
    for i in (0..room).step_by(8) {
        let wanted = _bzhi_u32(0xFF, n.saturating_sub(i).min(8) as u32) as __mmask8;
        // SAFETY: the mask keeps the load within the n lanes.
        let part = unsafe { _mm512_maskz_loadu_epi64(wanted, lanes.wrapping_add(i * 8).cast()) };
        let at_most = _mm512_mask_cmple_epu64_mask(wanted, part, keys);
        greatest = _mm512_mask_max_epu64(greatest, at_most, greatest, part);
        any |= at_most;
    }
    // SAFETY: `n` lanes can be read at `lanes`.
    if any == 0 { n } else { unsafe { equal_u64(lanes, n, room, _mm512_reduce_max_epu64(greatest)) } }
}

/// Two halves to a lane leave vectors little to win.
///
/// # Safety
/// `n` lanes can be read at `lanes`.
pub unsafe fn at_most_u128(lanes: *const u8, n: usize, _room: usize, key: u128) -> usize {
    // SAFETY: `n` lanes can be read at `lanes`.
    unsafe { super::portable_at_most(lanes, n, key) }
}
