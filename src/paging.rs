//! What the system is told of memory, and tells.

/// Asks for large pages behind memory that is gone to at random; whether the system may give them. The memory stays
/// what it is.
#[cfg(target_os = "linux")]
pub fn prefer_large(memory: *mut u8, size: usize) -> bool {
    // SAFETY: sysconf only answers a question.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    let before = memory.align_offset(page);
    let whole = size.saturating_sub(before) / page * page;
    // SAFETY: advice moves what is behind addresses, but changes nothing of it; where nothing is mapped it is refused.
    whole > 0 && unsafe { libc::madvise(memory.wrapping_add(before).cast(), whole, libc::MADV_HUGEPAGE) == 0 }
}

/// Bytes of memory that the machine has, if the system says so.
#[cfg(target_os = "linux")]
pub fn machine_memory() -> Option<usize> {
    // SAFETY: sysconf only answers a question.
    let [pages, page] = [libc::_SC_PHYS_PAGES, libc::_SC_PAGESIZE].map(|name| unsafe { libc::sysconf(name) });
    usize::try_from(pages).ok()?.checked_mul(usize::try_from(page).ok()?)
}

/// Bytes of memory that the machine has: not known on this system.
#[cfg(not(target_os = "linux"))]
pub fn machine_memory() -> Option<usize> {
    None
}

/// Asks for large pages behind memory that is gone to at random: not on this system.
#[cfg(not(target_os = "linux"))]
pub fn prefer_large(_memory: *mut u8, _size: usize) -> bool {
    false
}
