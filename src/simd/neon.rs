//! Kernels of AArch64's vectors.

use core::arch::aarch64::*;

/// # Safety
/// `n` lanes can be read at `lanes`.
pub unsafe fn less_u32(lanes: *const u8, n: usize, key: u32) -> usize {
    let whole = n & !3;
    // SAFETY: only whole vectors below n, then the lanes from there to n, are read; NEON is part of AArch64.
    unsafe {
        let keys = vdupq_n_u32(key);
        let mut counts = vdupq_n_u32(0);
        for i in (0..whole).step_by(4) {
            let part = vreinterpretq_u32_u8(vld1q_u8(lanes.add(i * 4)));
            // A lane that is less is all ones, which is minus one.
            counts = vsubq_u32(counts, vcltq_u32(part, keys));
        }
        vaddvq_u32(counts) as usize + super::portable(lanes.add(whole * 4), n - whole, key)
    }
}

/// # Safety
/// `n` lanes can be read at `lanes`.
pub unsafe fn less_u64(lanes: *const u8, n: usize, key: u64) -> usize {
    let whole = n & !1;
    // SAFETY: only whole vectors below n, then the lanes from there to n, are read; NEON is part of AArch64.
    unsafe {
        let keys = vdupq_n_u64(key);
        let mut counts = vdupq_n_u64(0);
        for i in (0..whole).step_by(2) {
            let part = vreinterpretq_u64_u8(vld1q_u8(lanes.add(i * 8)));
            counts = vsubq_u64(counts, vcltq_u64(part, keys));
        }
        vaddvq_u64(counts) as usize + super::portable(lanes.add(whole * 8), n - whole, key)
    }
}

/// Two halves to a lane leave NEON nothing to win.
///
/// # Safety
/// `n` lanes can be read at `lanes`.
pub unsafe fn less_u128(lanes: *const u8, n: usize, key: u128) -> usize {
    // SAFETY: `n` lanes can be read at `lanes`.
    unsafe { super::portable(lanes, n, key) }
}
