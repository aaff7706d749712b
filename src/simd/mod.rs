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
    /// x86-64 with AVX-512, for bytes and words too.
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
            Kernel::Avx512 => is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw") && bits(),
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

/// Loops that the compiler makes vectors of.
pub trait Loops {
    /// What they find out.
    type Out;

    /// Runs them. An implementation is `#[inline(always)]`, for only so they are compiled for whoever calls it.
    fn run(self) -> Self::Out;
}

/// Runs loops compiled for the chosen kernel's vectors.
#[inline]
pub fn run<W: Loops>(work: W) -> W::Out {
    match chosen() {
        // SAFETY: a chosen kernel is supported.
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx512 => unsafe { avx512::run_loops(work) },
        // SAFETY: a chosen kernel is supported.
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx2 => unsafe { avx2::run_loops(work) },
        _ => work.run(),
    }
}

/// An unsigned integer that the kernels can count.
pub trait Counted: Copy + Ord {
    /// The next larger value, if there is one.
    fn successor(self) -> Option<Self>;

    /// How many of the `n` integers stored at `lanes`, in native byte order and at any alignment, are less than `key`.
    /// `room`, at least `n`, is what the work may be made to depend on instead of `n`.
    ///
    /// # Safety
    /// `n` integers can be read at `lanes`, and this machine supports `kernel`.
    unsafe fn less(kernel: Kernel, lanes: *const u8, n: usize, room: usize, key: Self) -> usize;
}

/// An unsigned integer that the kernels can also find.
pub trait Found: Counted {
    /// The place of an integer that is `key` among the `n` stored at `lanes`, or at least `n` where none is. Of several
    /// equal integers, any.
    ///
    /// # Safety
    /// As for [`less`](Counted::less).
    unsafe fn equal(kernel: Kernel, lanes: *const u8, n: usize, room: usize, key: Self) -> usize;

    /// The place of the greatest integer that is `key` or less among the `n` stored at `lanes`, or at least `n` where
    /// none is. Of several equal integers, any.
    ///
    /// # Safety
    /// As for [`less`](Counted::less).
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
    pub fn position<L: Found>(self, lanes: Lanes<'_>, key: L) -> Option<usize> {
        let (at, n, room) = within::<L>(lanes)?;
        // SAFETY: as in `count_less`.
        let place = unsafe { L::equal(self.0, at, n, room, key) };
        (place < n).then_some(place)
    }

    /// The place of the greatest lane that is `key` or less, in any order.
    #[inline(always)]
    pub fn position_at_most<L: Found>(self, lanes: Lanes<'_>, key: L) -> Option<usize> {
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
    ($lane:ident, $less:ident) => {
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
        }
    };
}

counted!(u8, less_u8);
counted!(u16, less_u16);
counted!(u32, less_u32);
counted!(u64, less_u64);
counted!(u128, less_u128);

macro_rules! found {
    ($lane:ident, $equal:ident, $at_most:ident) => {
        impl Found for $lane {
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

found!(u32, equal_u32, at_most_u32);
found!(u64, equal_u64, at_most_u64);
found!(u128, equal_u128, at_most_u128);

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
    use core::fmt::Debug;
    use rand::{Rng, SeedableRng, rngs::StdRng};

    /// More lanes than any kernel takes at once, twice over.
    const MOST: usize = 130;

    /// An integer of any width that the kernels know.
    trait Integer: Counted + Debug {
        const SIZE: usize = size_of::<Self>();

        /// The low bits of `v`.
        fn of(v: u128) -> Self;

        fn store(self, bytes: &mut [u8], at: usize);
    }

    macro_rules! integer {
        ($($integer:ident)*) => {
            $(impl Integer for $integer {
                fn of(v: u128) -> Self {
                    v as $integer
                }

                fn store(self, bytes: &mut [u8], at: usize) {
                    bytes[at..][..size_of::<$integer>()].copy_from_slice(&self.to_ne_bytes());
                }
            })*
        };
    }

    integer!(u8 u16 u32 u64 u128);

    /// The lanes stored at an odd place, with lanes around them that must not be counted.
    fn stored<L: Integer>(lanes: &[L], at: usize, around: L) -> Vec<u8> {
        let mut bytes = vec![0; at + (lanes.len() + 16) * L::SIZE];
        for place in 0..16 {
            around.store(&mut bytes, at + (lanes.len() + place) * L::SIZE);
        }
        for (place, lane) in lanes.iter().enumerate() {
            lane.store(&mut bytes, at + place * L::SIZE);
        }
        bytes
    }

    /// What is asked of the kernels.
    struct Question<'a, L> {
        bytes: &'a [u8],
        at: usize,
        /// The lanes stored there.
        used: &'a [L],
        /// The most there could be.
        most: usize,
        key: L,
    }

    impl<'a, L: Integer> Question<'a, L> {
        /// The lanes as every kernel may be given them.
        fn nodes(&self) -> impl Iterator<Item = (Simd, Lanes<'a>)> {
            let &Question { bytes, at, used, most, .. } = self;
            let node = move |room| Lanes { bytes, at, n: used.len(), room };
            Simd::all().flat_map(move |simd| [(simd, node(used.len())), (simd, node(most))])
        }

        fn wrong(&self, Simd(kernel): Simd, Lanes { at, n, room, .. }: Lanes<'_>) -> String {
            format!("{kernel:?} {at} {n} {room} {:?} {:?}", self.key, self.used)
        }
    }

    /// All kernels, and the chosen one, against a plain count.
    fn check_counts<L: Integer>(question: &Question<'_, L>) {
        let &Question { bytes, at, used, key, .. } = question;
        let n = used.len();
        let less = used.iter().filter(|lane| **lane < key).count();
        let less_equal = used.iter().filter(|lane| **lane <= key).count();
        for kernel in available() {
            let counted = count_less_with(kernel, bytes, at, n, key);
            assert_eq!(counted, less, "{kernel:?} {at} {n} {key:?} {used:?}");
        }
        assert_eq!(count_less(bytes, at, n, key), less);
        assert_eq!(count_less_equal(bytes, at, n, key), less_equal);
        for (simd, node) in question.nodes() {
            assert_eq!(simd.count_less(node, key), less, "{}", question.wrong(simd, node));
            assert_eq!(simd.count_less_equal(node, key), less_equal, "{}", question.wrong(simd, node));
        }
    }

    /// As [`check_counts`], and what is found against a plain search.
    fn check_all<L: Integer + Lane>(question: &Question<'_, L>) {
        check_counts(question);
        let &Question { bytes, at, used, key, .. } = question;
        assert_eq!(L::count_less(bytes, at, used.len(), key), count_less(bytes, at, used.len(), key));
        assert_eq!(L::count_less_equal(bytes, at, used.len(), key), count_less_equal(bytes, at, used.len(), key));
        let equal = used.contains(&key).then_some(&key);
        let greatest = used.iter().filter(|lane| **lane <= key).max();
        let of = |place: usize| used.get(place).expect("one of the lanes");
        for (simd, node) in question.nodes() {
            assert_eq!(simd.position(node, key).map(of), equal, "{}", question.wrong(simd, node));
            assert_eq!(simd.position_at_most(node, key).map(of), greatest, "{}", question.wrong(simd, node));
        }
    }

    /// What `check` makes of the first `n` lanes, for every `n`.
    fn each_count<L: Integer>(lanes: &[L], keys: &[L], check: impl Fn(&Question<'_, L>)) {
        let ends = [L::of(0), L::of(u128::MAX)];
        for (at, around) in [(0, ends[0]), (1, ends[1]), (7, ends[0]), (61, ends[1])] {
            let bytes = stored(lanes, at, around);
            for n in 0..=lanes.len() {
                for &key in keys {
                    check(&Question { bytes: &bytes, at, used: &lanes[..n], most: lanes.len(), key });
                }
            }
        }
    }

    /// Values at which a kernel could take one order, or one half of a lane, for another.
    fn extremes<L: Integer>() -> Vec<L> {
        let bits = 8 * L::SIZE as u32;
        let edges = [0, bits / 4, bits / 2, bits - 1, bits].map(|bit| match bit {
            128 => 0,
            _ => 1u128 << bit,
        });
        let near = edges.iter().flat_map(|e| [e.wrapping_sub(1), *e, e.wrapping_add(1)]);
        near.map(L::of).collect()
    }

    fn random<L: Integer>(rng: &mut StdRng) -> L {
        L::of(rng.random::<u128>() >> rng.random_range(0..128))
    }

    fn all_inputs<L: Integer>(check: impl Fn(&Question<'_, L>)) {
        let mut rng = StdRng::seed_from_u64(8 * L::SIZE as u64);
        let extremes = extremes::<L>();
        let mut unsorted: Vec<L> = (0..MOST).map(|_| random(&mut rng)).collect();
        let mut keys = extremes.clone();
        keys.extend_from_slice(&unsorted[..8]);
        each_count(&unsorted, &keys, &check);
        unsorted.sort();
        each_count(&unsorted, &keys, &check);
        let cycled: Vec<L> = extremes.iter().copied().cycle().take(MOST).collect();
        each_count(&cycled, &extremes, &check);
        for &lane in &extremes {
            each_count(&[lane; 70], &extremes, &check);
        }
    }

    #[test]
    fn u8_kernels_agree() {
        all_inputs::<u8>(check_counts);
    }

    #[test]
    fn u16_kernels_agree() {
        all_inputs::<u16>(check_counts);
    }

    #[test]
    fn u32_kernels_agree() {
        all_inputs::<u32>(check_all);
    }

    #[test]
    fn u64_kernels_agree() {
        all_inputs::<u64>(check_all);
    }

    #[test]
    fn u128_kernels_agree() {
        all_inputs::<u128>(check_all);
    }

    /// Every lane and every key there can be.
    #[test]
    fn u8_kernels_know_all_orders() {
        let lanes: Vec<u8> = (0..=u8::MAX).collect();
        for kernel in available() {
            for key in 0..=u8::MAX {
                assert_eq!(count_less_with(kernel, &lanes, 0, lanes.len(), key), usize::from(key));
            }
        }
    }

    fn many_count<L: Integer>() {
        let bytes = vec![0; (1 << 20) + 100];
        let n = bytes.len() / L::SIZE;
        for kernel in available() {
            assert_eq!(count_less_with(kernel, &bytes, 0, n, L::of(1)), n, "{kernel:?}");
        }
    }

    /// More lanes than counters as narrow as a lane can count.
    #[test]
    fn many_lanes_count() {
        many_count::<u8>();
        many_count::<u16>();
        many_count::<u32>();
        many_count::<u64>();
        many_count::<u128>();
    }

    /// Lanes that do not all fit in their bytes, and how many do.
    fn too_many<L: Integer>() -> impl Iterator<Item = (Lanes<'static>, usize)> {
        let room = 64 / L::SIZE;
        [room + 1, usize::MAX / L::SIZE, usize::MAX].into_iter().flat_map(move |n| {
            let lanes = move |at| Lanes { bytes: &[0; 64], at, n, room };
            let fit = |at| 64usize.saturating_sub(at) / L::SIZE;
            [0, 1, 63, 64, 65, usize::MAX].map(|at| (lanes(at), fit(at)))
        })
    }

    fn counts_inside<L: Integer>() {
        let most = L::of(u128::MAX);
        for (lanes, fit) in too_many::<L>() {
            assert_eq!(count_less(lanes.bytes, lanes.at, lanes.n, most), fit);
            assert_eq!(count_less_equal(lanes.bytes, lanes.at, lanes.n, most), fit);
            assert_eq!(Simd::run(|simd, key| simd.count_less(lanes, key), most), fit);
        }
    }

    fn stays_inside<L: Integer + Found>() {
        counts_inside::<L>();
        let (least, most) = (L::of(0), L::of(u128::MAX));
        for (lanes, fit) in too_many::<L>() {
            assert_eq!(Simd::run(|simd, key| simd.position(lanes, key), most), None);
            assert_eq!(Simd::run(|simd, key| simd.position(lanes, key), least).is_some(), fit > 0);
            assert_eq!(Simd::run(|simd, key| simd.position_at_most(lanes, key), most).is_some(), fit > 0);
        }
    }

    #[test]
    fn lanes_outside_do_not_count() {
        counts_inside::<u8>();
        counts_inside::<u16>();
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

    /// The last lanes of `bytes`, as every kernel may be given them.
    #[cfg(target_os = "linux")]
    fn last<L: Integer>(bytes: &[u8]) -> impl Iterator<Item = (Simd, Lanes<'_>)> {
        let rooms = (0..=MOST).flat_map(|n| [(n, n), (n, MOST + 10)]);
        let nodes = rooms.map(|(n, room)| Lanes { bytes, at: bytes.len() - n * L::SIZE, n, room });
        nodes.flat_map(|node| Simd::all().map(move |simd| (simd, node)))
    }

    #[cfg(target_os = "linux")]
    fn counts_before_a_guard<L: Integer>(bytes: &[u8]) {
        for (simd, node) in last::<L>(bytes) {
            assert_eq!(count_less_with(simd.0, node.bytes, node.at, node.n, L::of(1)), node.n);
            assert_eq!(simd.count_less(node, L::of(1)), node.n);
        }
    }

    #[cfg(target_os = "linux")]
    fn stays_before_a_guard<L: Integer + Found>(bytes: &[u8]) {
        counts_before_a_guard::<L>(bytes);
        for (simd, node) in last::<L>(bytes) {
            assert_eq!(simd.position(node, L::of(1)), None);
            assert_eq!(simd.position_at_most(node, L::of(1)).is_some(), node.n > 0);
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn no_kernel_reads_past_the_last_lane() {
        let bytes = zeroes_before_a_guard();
        counts_before_a_guard::<u8>(bytes);
        counts_before_a_guard::<u16>(bytes);
        stays_before_a_guard::<u32>(bytes);
        stays_before_a_guard::<u64>(bytes);
        stays_before_a_guard::<u128>(bytes);
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
