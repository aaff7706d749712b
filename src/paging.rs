//! What the system is told of memory.

/// Asks for large pages behind memory that is gone to at random; whether the system may give them. The memory stays what it
/// is.
#[cfg(target_os = "linux")]
pub fn prefer_large(memory: *mut u8, size: usize) -> bool {
    // SAFETY: sysconf only answers a question.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    let before = memory.align_offset(page);
    let whole = size.saturating_sub(before) / page * page;
    // SAFETY: advice moves what is behind addresses, but changes nothing of it; where nothing is mapped it is refused.
    whole > 0 && unsafe { libc::madvise(memory.wrapping_add(before).cast(), whole, libc::MADV_HUGEPAGE) == 0 }
}

/// Asks for large pages behind memory that is gone to at random: not on this system.
#[cfg(not(target_os = "linux"))]
pub fn prefer_large(_memory: *mut u8, _size: usize) -> bool {
    false
}
