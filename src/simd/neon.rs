//! Kernels of AArch64's vectors.

use core::arch::aarch64::*;

/// # Safety
/// `n` lanes can be read at `lanes`.
pub unsafe fn less_u8(lanes: *const u8, n: usize, key: u8) -> usize {
    /// What counters of eight bits can count.
    const BLOCK: usize = 16 * u8::MAX as usize;
    let whole = n & !15;
    // SAFETY: only whole vectors below n, then the lanes from there to n, are read; NEON is part of AArch64.
    unsafe {
        let keys = vdupq_n_u8(key);
        let mut count = super::portable(lanes.add(whole), n - whole, key);
        for block in (0..whole).step_by(BLOCK) {
            let mut counts = vdupq_n_u8(0);
            for i in (block..whole.min(block + BLOCK)).step_by(16) {
                // A lane that is less is all ones, which is minus one.
                counts = vsubq_u8(counts, vcltq_u8(vld1q_u8(lanes.add(i)), keys));
            }
            count += vaddlvq_u8(counts) as usize;
        }
        count
    }
}

/// # Safety
/// `n` lanes can be read at `lanes`.
pub unsafe fn less_u16(lanes: *const u8, n: usize, key: u16) -> usize {
    /// What counters of 16 bits can count.
    const BLOCK: usize = 8 * u16::MAX as usize;
    let whole = n & !7;
    // SAFETY: only whole vectors below n, then the lanes from there to n, are read; NEON is part of AArch64.
    unsafe {
        let keys = vdupq_n_u16(key);
        let mut count = super::portable(lanes.add(whole * 2), n - whole, key);
        for block in (0..whole).step_by(BLOCK) {
            let mut counts = vdupq_n_u16(0);
            for i in (block..whole.min(block + BLOCK)).step_by(8) {
                let part = vreinterpretq_u16_u8(vld1q_u8(lanes.add(i * 2)));
                counts = vsubq_u16(counts, vcltq_u16(part, keys));
            }
            count += vaddlvq_u16(counts) as usize;
        }
        count
    }
}

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
