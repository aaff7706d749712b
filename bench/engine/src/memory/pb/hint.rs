//! Prefetch hints: into which caches a line is brought (thesis §4.1.2, §5.1).

use super::node::Line;

/// A locality hint, chosen at compile time.
pub trait Hint {
    /// What it is called.
    const NAME: &'static str;

    /// Asks for a line. Where the processor has no such hint, nothing happens.
    fn prefetch(line: &Line);
}

/// Into all caches.
pub struct T0;

impl Hint for T0 {
    const NAME: &'static str = "t0";

    #[inline(always)]
    fn prefetch(line: &Line) {
        fpbtree_engine::simd::prefetch(line.as_ptr().cast());
    }
}

macro_rules! hints {
    ($($(#[$doc:meta])* $hint:ident = $name:literal, $constant:ident;)*) => { $(
        $(#[$doc])*
        pub struct $hint;

        impl Hint for $hint {
            const NAME: &'static str = $name;

            #[inline(always)]
            fn prefetch(line: &Line) {
                #[cfg(target_arch = "x86_64")]
                // SAFETY: a prefetch is a hint; it reads nothing and cannot fault.
                unsafe {
                    core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::$constant }>(line.as_ptr().cast());
                }
                #[cfg(not(target_arch = "x86_64"))]
                let _ = line;
            }
        }
    )* };
}

hints! {
    /// Into the second level and below.
    T1 = "t1", _MM_HINT_T1;
    /// Into the third level and below.
    T2 = "t2", _MM_HINT_T2;
    /// Close to the processor, and soon to be replaced.
    Nta = "nta", _MM_HINT_NTA;
}
