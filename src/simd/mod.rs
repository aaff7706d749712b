//! Search kernels: how many of a node's lanes are less than a key, which of them is the key, and which is the greatest
//! that does not exceed it.
//!
//! The kernel is chosen once, at run time. Every kernel gives the same answer for the same bytes, sorted or not. The
//! number of lanes less than the key is, in a sorted node, the key's place.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;

use core::sync::atomic::{AtomicU8, Ordering};

/// Bytes in a cache line.
pub const CACHE_LINE: usize = 64;

/// A family of instructions the lanes of a node can be counted with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kernel {
    /// Plain, branchless code for any machine.
    Portable = 1,
    /// x86-64 with AVX2.
    Avx2 = 2,
    /// x86-64 with AVX-512.
    Avx512 = 3,
    /// AArch64.
    Neon = 4,
}

impl Kernel {
    /// All kernels, the fastest first.
    const ALL: [Kernel; 4] = [Kernel::Avx512, Kernel::Avx2, Kernel::Neon, Kernel::Portable];

    #[cfg(target_arch = "x86_64")]
    fn supported(self) -> bool {
        let bits = || is_x86_feature_detected!("bmi2") && is_x86_feature_detected!("popcnt");
        match self {
            Kernel::Portable => true,
            Kernel::Avx2 => is_x86_feature_detected!("avx2") && bits(),
            Kernel::Avx512 => is_x86_feature_detected!("avx512f") && bits(),
            Kernel::Neon => false,
        }
    }

    #[cfg(target_arch = "aarch64")]
    fn supported(self) -> bool {
        matches!(self, Kernel::Portable | Kernel::Neon)
    }

    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    fn supported(self) -> bool {
        self == Kernel::Portable
    }
}

/// The kernels this machine can run, the fastest first.
pub fn available() -> impl Iterator<Item = Kernel> {
    Kernel::ALL.into_iter().filter(|kernel| kernel.supported())
}

/// The kernel every search uses: the fastest this machine can run (`fpbtree-lab thesis-figure5.9` has them beside other
/// searches).
#[inline]
pub fn chosen() -> Kernel {
    static CHOSEN: AtomicU8 = AtomicU8::new(0);
    match CHOSEN.load(Ordering::Relaxed) {
        1 => Kernel::Portable,
        2 => Kernel::Avx2,
        3 => Kernel::Avx512,
        4 => Kernel::Neon,
        _ => choose(&CHOSEN),
    }
}

#[cold]
fn choose(chosen: &AtomicU8) -> Kernel {
    let kernel = available().next().unwrap_or(Kernel::Portable);
    chosen.store(kernel as u8, Ordering::Relaxed);
    kernel
}

/// An unsigned integer that the kernels can count and find.
pub trait Counted: Copy + Ord {
    /// The next larger value, if there is one.
    fn successor(self) -> Option<Self>;

    /// How many of the `n` integers stored at `lanes`, in native byte order and at any alignment, are less than `key`.
    /// `room`, at least `n`, is what the work may be made to depend on instead of `n`.
    ///
    /// # Safety
    /// `n` integers can be read at `lanes`, and this machine supports `kernel`.
    unsafe fn less(kernel: Kernel, lanes: *const u8, n: usize, room: usize, key: Self) -> usize;

    /// The place of an integer that is `key` among the `n` stored at `lanes`, or at least `n` where none is. Of several
    /// equal integers, any.
    ///
    /// # Safety
    /// As for [`less`](Self::less).
    unsafe fn equal(kernel: Kernel, lanes: *const u8, n: usize, room: usize, key: Self) -> usize;

    /// The place of the greatest integer that is `key` or less among the `n` stored at `lanes`, or at least `n` where
    /// none is. Of several equal integers, any.
    ///
    /// # Safety
    /// As for [`less`](Self::less).
    unsafe fn at_most(kernel: Kernel, lanes: *const u8, n: usize, room: usize, key: Self) -> usize;
}

/// How many of the `n` lanes stored from `bytes[at]` on are less than `key`. Lanes outside `bytes` do not count.
#[inline]
pub fn count_less<L: Counted>(bytes: &[u8], at: usize, n: usize, key: L) -> usize {
    count_supported(chosen(), bytes, at, n, key)
}

/// How many of the `n` lanes stored from `bytes[at]` on are `key` or less. Lanes outside `bytes` do not count.
#[inline]
pub fn count_less_equal<L: Counted>(bytes: &[u8], at: usize, n: usize, key: L) -> usize {
    match key.successor() {
        Some(next) => count_less(bytes, at, n, next),
        None => clamp::<L>(bytes, at, n),
    }
}

/// As [`count_less`], with a kernel of the caller's choice.
///
/// # Panics
/// If this machine does not support `kernel`.
#[inline]
pub fn count_less_with<L: Counted>(kernel: Kernel, bytes: &[u8], at: usize, n: usize, key: L) -> usize {
    assert!(kernel.supported(), "this machine has no {kernel:?}");
    count_supported(kernel, bytes, at, n, key)
}

/// The lanes of a node.
#[derive(Clone, Copy)]
pub struct Lanes<'a> {
    /// The node.
    pub bytes: &'a [u8],
    /// Where in it the lanes begin.
    pub at: usize,
    /// How many there are. Those outside `bytes` do not count.
    pub n: usize,
    /// How many there can be: a kernel may do the same work for any `n` up to this, so that it has no branches that
    /// wait for `n` to arrive from memory.
    pub room: usize,
}

/// A kernel that this machine supports.
#[derive(Clone, Copy)]
pub struct Simd(Kernel);

impl Simd {
    /// All that this machine supports.
    #[cfg(test)]
    pub(crate) fn all() -> impl Iterator<Item = Simd> {
        available().map(Simd)
    }

    /// The kernel every search uses.
    #[inline]
    pub fn chosen() -> Simd {
        Simd(chosen())
    }

    /// `work` on `arguments`, compiled for the chosen kernel as far as it is inlined: one decision for many searches.
    /// A function that is always inlined is inlined here too; a closure need not be.
    #[inline]
    pub fn run<A, R>(work: impl FnOnce(Simd, A) -> R, arguments: A) -> R {
        match chosen() {
            // SAFETY: a chosen kernel is supported.
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512 => unsafe { avx512::run(work, arguments) },
            // SAFETY: a chosen kernel is supported.
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => unsafe { avx2::run(work, arguments) },
            other => work(Simd(other), arguments),
        }
    }

    /// How many lanes are less than `key`.
    #[inline(always)]
    pub fn count_less<L: Counted>(self, lanes: Lanes<'_>, key: L) -> usize {
        // SAFETY: `kernel` is supported, and `within` has clamped the lanes.
        within::<L>(lanes).map_or(0, |(at, n, room)| unsafe { L::less(self.0, at, n, room, key) })
    }

    /// How many lanes are `key` or less.
    #[inline(always)]
    pub fn count_less_equal<L: Counted>(self, lanes: Lanes<'_>, key: L) -> usize {
        match key.successor() {
            Some(next) => self.count_less(lanes, next),
            None => clamp::<L>(lanes.bytes, lanes.at, lanes.n),
        }
    }

    /// The place of the lane `key`, in any order.
    #[inline(always)]
    pub fn position<L: Counted>(self, lanes: Lanes<'_>, key: L) -> Option<usize> {
        let (at, n, room) = within::<L>(lanes)?;
        // SAFETY: as in `count_less`.
        let place = unsafe { L::equal(self.0, at, n, room, key) };
        (place < n).then_some(place)
    }

    /// The place of the greatest lane that is `key` or less, in any order.
    #[inline(always)]
    pub fn position_at_most<L: Counted>(self, lanes: Lanes<'_>, key: L) -> Option<usize> {
        let (at, n, room) = within::<L>(lanes)?;
        // SAFETY: as in `count_less`.
        let place = unsafe { L::at_most(self.0, at, n, room, key) };
        (place < n).then_some(place)
    }
}

/// The address of the first lane, how many can be read there, and for how many to work; none if none can be read.
#[inline(always)]
fn within<L>(lanes: Lanes<'_>) -> Option<(*const u8, usize, usize)> {
    let n = clamp::<L>(lanes.bytes, lanes.at, lanes.n);
    let first = lanes.bytes.get(lanes.at..)?.as_ptr();
    Some((first, n, lanes.room.max(n)))
}

#[inline]
fn count_supported<L: Counted>(kernel: Kernel, bytes: &[u8], at: usize, n: usize, key: L) -> usize {
    let n = clamp::<L>(bytes, at, n);
    if n == 0 {
        return 0;
    }
    // SAFETY: n > 0 lanes fit behind `at` (`clamp`), so `at` is inside too; the callers know the kernel is supported.
    unsafe { L::less(kernel, bytes.as_ptr().add(at), n, n, key) }
}

/// The count of lanes that can be read, so that no count found in a damaged page leads outside it.
#[inline]
fn clamp<L>(bytes: &[u8], at: usize, n: usize) -> usize {
    n.min(bytes.len().saturating_sub(at) / size_of::<L>())
}

/// Asks the processor to bring the cache line at `line` into its nearest cache (of the hints, `fpbtree-lab
/// thesis-figure5.1` has none that is better). Never faults, whatever the address.
#[inline]
pub fn prefetch(line: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint; it reads nothing and cannot fault.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(line.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a prefetch is a hint; it reads nothing and cannot fault.
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{}]", in(reg) line, options(readonly, nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = line;
}

macro_rules! counted {
    ($lane:ident, $less:ident, $equal:ident, $at_most:ident) => {
        impl Counted for $lane {
            #[inline]
            fn successor(self) -> Option<Self> {
                self.checked_add(1)
            }

            #[inline(always)]
            unsafe fn less(kernel: Kernel, lanes: *const u8, n: usize, room: usize, key: Self) -> usize {
                // SAFETY: the lanes and the room behind them can be read, and the processor has what the kernel takes.
                unsafe {
                    let _ = room;
                    match kernel {
                        #[cfg(target_arch = "x86_64")]
                        Kernel::Avx512 => avx512::$less(lanes, n, room, key),
                        #[cfg(target_arch = "x86_64")]
                        Kernel::Avx2 => avx2::$less(lanes, n, key),
                        #[cfg(target_arch = "aarch64")]
                        Kernel::Neon => neon::$less(lanes, n, key),
                        _ => portable(lanes, n, key),
                    }
                }
            }

            #[inline(always)]
            unsafe fn equal(kernel: Kernel, lanes: *const u8, n: usize, room: usize, key: Self) -> usize {
                // SAFETY: the lanes and the room behind them can be read, and the processor has what the kernel takes.
                unsafe {
                    let _ = room;
                    match kernel {
                        #[cfg(target_arch = "x86_64")]
                        Kernel::Avx512 => avx512::$equal(lanes, n, room, key),
                        #[cfg(target_arch = "x86_64")]
                        Kernel::Avx2 => avx2::$equal(lanes, n, key),
                        _ => portable_equal(lanes, n, key),
                    }
                }
            }

            #[inline(always)]
            unsafe fn at_most(kernel: Kernel, lanes: *const u8, n: usize, room: usize, key: Self) -> usize {
                // SAFETY: the lanes and the room behind them can be read, and the processor has what the kernel takes.
                unsafe {
                    let _ = room;
                    match kernel {
                        #[cfg(target_arch = "x86_64")]
                        Kernel::Avx512 => avx512::$at_most(lanes, n, room, key),
                        #[cfg(target_arch = "x86_64")]
                        Kernel::Avx2 => avx2::$at_most(lanes, n, key),
                        _ => portable_at_most(lanes, n, key),
                    }
                }
            }
        }
    };
}

counted!(u32, less_u32, equal_u32, at_most_u32);
counted!(u64, less_u64, equal_u64, at_most_u64);
counted!(u128, less_u128, equal_u128, at_most_u128);

/// # Safety
/// `n` lanes can be read at `lanes`.
unsafe fn portable<L: Counted>(lanes: *const u8, n: usize, key: L) -> usize {
    let lanes: *const L = lanes.cast();
    // SAFETY: i < n.
    let less = |i| unsafe { lanes.add(i).read_unaligned() } < key;
    (0..n).map(|i| usize::from(less(i))).sum()
}

/// # Safety
/// `n` lanes can be read at `lanes`.
#[inline]
unsafe fn portable_equal<L: Counted>(lanes: *const u8, n: usize, key: L) -> usize {
    let lanes: *const L = lanes.cast();
    // SAFETY: i < n.
    let equal = |i| unsafe { lanes.add(i).read_unaligned() } == key;
    // No early end: a branch that depends on the lanes waits for them, and is mispredicted.
    (0..n).fold(n, |found, i| if equal(i) { i } else { found })
}

/// # Safety
/// `n` lanes can be read at `lanes`.
#[inline]
unsafe fn portable_at_most<L: Counted>(lanes: *const u8, n: usize, key: L) -> usize {
    let lanes: *const L = lanes.cast();
    // SAFETY: i < n.
    let lane = |i| unsafe { lanes.add(i).read_unaligned() };
    let mut best = None;
    for i in 0..n {
        if lane(i) <= key && best.is_none_or(|(_, greatest)| greatest < lane(i)) {
            best = Some((i, lane(i)));
        }
    }
    best.map_or(n, |(place, _)| place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Lane;
    use rand::{Rng, SeedableRng, rngs::StdRng};

    /// More lanes than any kernel takes at once, several times over.
    const MOST: usize = 130;

    /// The lanes stored at an odd place, with lanes around them that must not be counted.
    fn stored<L: Lane>(lanes: &[L], at: usize, around: L) -> Vec<u8> {
        let mut bytes = vec![0; at + (lanes.len() + 16) * L::SIZE];
        for place in 0..16 {
            around.write(&mut bytes, at + (lanes.len() + place) * L::SIZE);
        }
        for (place, lane) in lanes.iter().enumerate() {
            lane.write(&mut bytes, at + place * L::SIZE);
        }
        bytes
    }

    /// All kernels, and the chosen one, against a plain count of the first `n` lanes, for every `n`.
    fn check<L: Lane>(lanes: &[L], keys: &[L]) {
        for (at, around) in [(0, L::MIN), (1, L::MAX), (7, L::MIN), (61, L::MAX)] {
            let bytes = stored(lanes, at, around);
            for n in 0..=lanes.len() {
                let used = &lanes[..n];
                for &key in keys {
                    let less = used.iter().filter(|lane| **lane < key).count();
                    let less_equal = used.iter().filter(|lane| **lane <= key).count();
                    for kernel in available() {
                        let counted = count_less_with(kernel, &bytes, at, n, key);
                        assert_eq!(counted, less, "{kernel:?} {at} {n} {key:?} {used:?}");
                    }
                    assert_eq!(L::count_less(&bytes, at, n, key), less);
                    assert_eq!(L::count_less_equal(&bytes, at, n, key), less_equal);
                    let greatest = used.iter().filter(|lane| **lane <= key).max();
                    for (kernel, room) in available().flat_map(|kernel| [(kernel, n), (kernel, lanes.len())]) {
                        let (simd, node) = (Simd(kernel), Lanes { bytes: &bytes, at, n, room });
                        let of = |place: usize| used.get(place).expect("one of the lanes");
                        let wrong = || format!("{kernel:?} {at} {n} {room} {key:?} {used:?}");
                        assert_eq!(simd.count_less(node, key), less, "{}", wrong());
                        assert_eq!(simd.count_less_equal(node, key), less_equal, "{}", wrong());
                        let found = simd.position(node, key).map(of);
                        assert_eq!(found, used.contains(&key).then_some(&key), "{}", wrong());
                        assert_eq!(simd.position_at_most(node, key).map(of), greatest, "{}", wrong());
                    }
                }
            }
        }
    }

    /// Values at which a kernel could take one order, or one half of a lane, for another.
    fn extremes<L: Lane>() -> Vec<L> {
        let bits = 8 * L::SIZE as u32;
        let edges = [0, bits / 4, bits / 2, bits - 1, bits].map(|bit| match bit {
            128 => 0,
            _ => 1u128 << bit,
        });
        let near = edges.iter().flat_map(|e| [e.wrapping_sub(1), *e, e.wrapping_add(1)]);
        near.map(L::from_u128).collect()
    }

    fn random<L: Lane>(rng: &mut StdRng) -> L {
        L::from_u128(rng.random::<u128>() >> rng.random_range(0..128))
    }

    fn all_inputs<L: Lane>() {
        let mut rng = StdRng::seed_from_u64(8 * L::SIZE as u64);
        let extremes = extremes::<L>();
        let mut unsorted: Vec<L> = (0..MOST).map(|_| random(&mut rng)).collect();
        let mut keys = extremes.clone();
        keys.extend_from_slice(&unsorted[..8]);
        check(&unsorted, &keys);
        unsorted.sort();
        check(&unsorted, &keys);
        let cycled: Vec<L> = extremes.iter().copied().cycle().take(MOST).collect();
        check(&cycled, &extremes);
        for &lane in &extremes {
            check(&[lane; 40], &extremes);
        }
    }

    #[test]
    fn u32_kernels_agree() {
        all_inputs::<u32>();
    }

    #[test]
    fn u64_kernels_agree() {
        all_inputs::<u64>();
    }

    #[test]
    fn u128_kernels_agree() {
        all_inputs::<u128>();
    }

    fn stays_inside<L: Lane>() {
        let bytes = vec![0; 64];
        let fit = 64 / L::SIZE;
        for n in [fit + 1, usize::MAX / L::SIZE, usize::MAX] {
            for at in [0, 1, 63, 64, 65, usize::MAX] {
                let left = 64usize.saturating_sub(at) / L::SIZE;
                assert_eq!(L::count_less(&bytes, at, n, L::MAX), left);
                assert_eq!(L::count_less_equal(&bytes, at, n, L::MAX), left);
                let lanes = Lanes { bytes: &bytes, at, n, room: fit };
                assert_eq!(Simd::run(|simd, key| simd.count_less(lanes, key), L::MAX), left);
                assert_eq!(Simd::run(|simd, key| simd.position(lanes, key), L::MAX), None);
                assert_eq!(Simd::run(|simd, key| simd.position(lanes, key), L::MIN).is_some(), left > 0);
                assert_eq!(Simd::run(|simd, key| simd.position_at_most(lanes, key), L::MAX).is_some(), left > 0);
            }
        }
    }

    #[test]
    fn lanes_outside_do_not_count() {
        stays_inside::<u32>();
        stays_inside::<u64>();
        stays_inside::<u128>();
    }

    /// Zeroes, behind which memory may not be read. Never unmapped.
    #[cfg(target_os = "linux")]
    fn zeroes_before_a_guard() -> &'static [u8] {
        use core::ffi::{c_int, c_long, c_void};
        unsafe extern "C" {
            fn mmap(
                at: *mut c_void,
                len: usize,
                protection: c_int,
                flags: c_int,
                file: c_int,
                offset: c_long,
            ) -> *mut c_void;
            fn mprotect(at: *mut c_void, len: usize, protection: c_int) -> c_int;
        }
        const LEN: usize = 1 << 16;
        const READ: c_int = 1;
        const NONE: c_int = 0;
        const PRIVATE_ANONYMOUS: c_int = 0x22;
        // SAFETY: a new mapping, of which the first half stays readable for good.
        unsafe {
            let at = mmap(core::ptr::null_mut(), 2 * LEN, READ, PRIVATE_ANONYMOUS, -1, 0);
            assert_ne!(at as isize, -1, "mmap");
            assert_eq!(mprotect(at.byte_add(LEN), LEN, NONE), 0, "mprotect");
            core::slice::from_raw_parts(at.cast(), LEN)
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn no_kernel_reads_past_the_last_lane() {
        let bytes = zeroes_before_a_guard();
        for kernel in available() {
            for n in 0..=70 {
                let at = |size: usize| bytes.len() - n * size;
                assert_eq!(count_less_with(kernel, bytes, at(4), n, 1u32), n);
                assert_eq!(count_less_with(kernel, bytes, at(8), n, 1u64), n);
                assert_eq!(count_less_with(kernel, bytes, at(16), n, 1u128), n);
                for room in [n, 80] {
                    let lanes = |size| Lanes { bytes, at: at(size), n, room };
                    let simd = Simd(kernel);
                    assert_eq!(simd.count_less(lanes(4), 1u32), n);
                    assert_eq!(simd.count_less(lanes(8), 1u64), n);
                    assert_eq!(simd.count_less(lanes(16), 1u128), n);
                    assert_eq!(simd.position(lanes(4), 1u32), None);
                    assert_eq!(simd.position(lanes(8), 1u64), None);
                    assert_eq!(simd.position(lanes(16), 1u128), None);
                    assert_eq!(simd.position_at_most(lanes(4), 1u32).is_some(), n > 0);
                    assert_eq!(simd.position_at_most(lanes(8), 1u64).is_some(), n > 0);
                    assert_eq!(simd.position_at_most(lanes(16), 1u128).is_some(), n > 0);
                }
            }
        }
    }

    #[test]
    fn the_chosen_kernel_is_the_fastest_available() {
        assert_eq!(Some(chosen()), available().next());
        assert_eq!(chosen(), chosen());
        assert!(available().any(|kernel| kernel == Kernel::Portable));
    }

    #[test]
    #[should_panic(expected = "this machine has no")]
    fn a_missing_kernel_is_refused() {
        let missing = Kernel::ALL.into_iter().find(|kernel| !kernel.supported());
        count_less_with(missing.expect("no machine has all"), &[0; 4], 0, 1, 1u32);
    }

    #[test]
    fn prefetch_takes_any_address() {
        let line = [0u8; 64];
        prefetch(line.as_ptr());
        prefetch(core::ptr::null());
        prefetch(usize::MAX as *const u8);
    }
}
