//! Memory of a sort.

use core::mem::MaybeUninit;
use core::ops::{Deref, DerefMut};

/// Where a sort has its memory from, and what cancels it.
///
/// All calls but [`free`](Host::free) may leave by a jump or by unwinding. A sort owns no destructor, so what it has of
/// memory then is the host's to give back.
pub trait Host<'m>: Copy {
    /// New memory, aligned to cache lines.
    fn allocate(&self, size: usize) -> &'m mut [MaybeUninit<u8>];

    /// Makes memory longer. What was in it is in what is returned.
    ///
    /// # Safety
    /// The host gave just this memory, nobody has freed it, and it is not used any more if the call returns.
    unsafe fn grow(&self, memory: *mut [MaybeUninit<u8>], size: usize) -> &'m mut [MaybeUninit<u8>];

    /// Takes memory back.
    ///
    /// # Safety
    /// The host gave just this memory, nobody has freed it, and it is not used any more.
    unsafe fn free(&self, memory: *mut [MaybeUninit<u8>]);

    /// Called again and again in everything that takes long, so that a sort can be cancelled.
    fn check(&self);
}

/// Memory of a host for so many values.
fn room_for<T>(memory: &mut [MaybeUninit<u8>], count: usize) -> &mut [MaybeUninit<T>] {
    let first = memory.as_mut_ptr().cast::<MaybeUninit<T>>();
    assert!(first.is_aligned() && memory.len() == size_of_many::<T>(count), "memory as it was asked for");
    // SAFETY: as was just looked at, the memory is aligned and as long as so many values; it need not be initialised.
    unsafe { core::slice::from_raw_parts_mut(first, count) }
}

fn size_of_many<T>(count: usize) -> usize {
    count.checked_mul(size_of::<T>()).expect("a size of memory")
}

/// Values in memory of a host's, to which more can be added. They are not dropped, nor is the memory given back but by
/// [`free`](List::free).
pub(super) struct List<'m, T, H> {
    host: H,
    values: &'m mut [MaybeUninit<T>],
    /// How many of them have been written.
    count: usize,
}

impl<'m, T: 'm, H: Host<'m>> List<'m, T, H> {
    /// Without memory.
    pub fn new(host: H) -> Self {
        const { assert!(!core::mem::needs_drop::<T>() && size_of::<T>() > 0) };
        List { host, values: &mut [], count: 0 }
    }

    /// With room for so many values.
    pub fn with_room(host: H, room: usize) -> Self {
        let mut list = List::new(host);
        list.grow(room);
        list
    }

    /// So many times the same value.
    pub fn filled(host: H, count: usize, value: T) -> Self
    where
        T: Copy,
    {
        let mut list = List::new(host);
        list.fill(count, value);
        list
    }

    /// Becomes so many times the same value.
    pub fn fill(&mut self, count: usize, value: T)
    where
        T: Copy,
    {
        self.grow(count);
        self.values[..count].fill(MaybeUninit::new(value));
        self.count = count;
    }

    /// How many values there is room for.
    pub fn room(&self) -> usize {
        self.values.len()
    }

    /// Makes room for so many values, if there is less.
    pub fn grow(&mut self, room: usize) {
        if room > self.room() {
            let size = size_of_many::<T>(room);
            let memory = match self.memory() {
                // SAFETY: the list's memory is its host's, and the old reference to it is replaced just behind the
                // call.
                Some(memory) => unsafe { self.host.grow(memory, size) },
                None => self.host.allocate(size),
            };
            self.values = room_for(memory, room);
        }
    }

    /// Adds a value; what room that takes is doubled.
    #[inline]
    pub fn push(&mut self, value: T) {
        if self.count == self.values.len() {
            self.make_room();
        }
        self.values[self.count].write(value);
        self.count += 1;
    }

    #[cold]
    fn make_room(&mut self) {
        self.grow((2 * self.count).max(16));
    }

    /// Takes the last value off.
    pub fn pop(&mut self) -> Option<T> {
        self.count = self.count.checked_sub(1)?;
        // SAFETY: all values before the count have been written, and this one is behind it from now on.
        Some(unsafe { self.values[self.count].assume_init_read() })
    }

    /// Forgets all values. The memory stays.
    pub fn clear(&mut self) {
        self.count = 0;
    }

    /// Gives the memory back, and the values with it.
    pub fn free(&mut self) {
        if let Some(memory) = self.memory() {
            (self.values, self.count) = (&mut [], 0);
            // SAFETY: the memory was the list's alone, which has just given up its reference to it.
            unsafe { self.host.free(memory) };
        }
    }

    /// The memory, as it came from the host.
    fn memory(&mut self) -> Option<*mut [MaybeUninit<u8>]> {
        let first = self.values.as_mut_ptr().cast();
        (!self.values.is_empty()).then(|| core::ptr::slice_from_raw_parts_mut(first, size_of_val(self.values)))
    }
}

impl<T, H> Deref for List<'_, T, H> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: all values before the count have been written.
        unsafe { self.values[..self.count].assume_init_ref() }
    }
}

impl<T, H> DerefMut for List<'_, T, H> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: all values before the count have been written.
        unsafe { self.values[..self.count].assume_init_mut() }
    }
}
