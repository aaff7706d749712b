//! Words of memory that threads, or processes, share.

use core::sync::atomic::{AtomicU64, Ordering, fence};

/// A word of the borrowed memory. Ordinary memory is made of [`AtomicU64`]; a model checker brings its own.
pub trait Word: Sync {
    /// Reads the word; what the writer of the value did before is seen after.
    fn load(&self) -> u64;
    /// Writes the word; who reads the value sees what was done before.
    fn store(&self, value: u64);
    /// Replaces `current` by `new`, or says what is there instead.
    fn compare_exchange(&self, current: u64, new: u64) -> Result<u64, u64>;
    /// Orders every access before it against every access after it, for all threads alike.
    fn fence();
    /// Lets others go on, before the `attempt`th look at something that another thread has to change.
    fn pause(attempt: u32);
}

impl Word for AtomicU64 {
    #[inline]
    fn load(&self) -> u64 {
        AtomicU64::load(self, Ordering::Acquire)
    }

    #[inline]
    fn store(&self, value: u64) {
        AtomicU64::store(self, value, Ordering::Release);
    }

    #[inline]
    fn compare_exchange(&self, current: u64, new: u64) -> Result<u64, u64> {
        AtomicU64::compare_exchange(self, current, new, Ordering::AcqRel, Ordering::Acquire)
    }

    #[inline]
    fn fence() {
        fence(Ordering::SeqCst);
    }

    #[inline]
    fn pause(attempt: u32) {
        match attempt {
            0..100 => core::hint::spin_loop(),
            100..1000 => std::thread::yield_now(),
            _ => std::thread::sleep(core::time::Duration::from_millis(1)),
        }
    }
}

/// The words at `base`, as many as fit in `bytes`; `None` where `base` is null or not aligned to eight bytes.
///
/// # Safety
/// The memory must stay mapped for `'a`, readable and writable, and all other access to it must be by atomic words, in
/// whatever process.
pub unsafe fn words_at<'a>(base: *mut u8, bytes: usize) -> Option<&'a [AtomicU64]> {
    let words = base.cast::<AtomicU64>();
    if words.is_null() || !words.is_aligned() || bytes > isize::MAX as usize {
        return None;
    }
    // SAFETY: not null, aligned and small enough as just checked; the rest is the caller's promise.
    Some(unsafe { core::slice::from_raw_parts(words, bytes / size_of::<AtomicU64>()) })
}
