//! Temporary files of a sort.

use super::compact::Radix;
use crate::format::{Block, Tid};
use crate::page::{Entry, KeySpace};

/// Where a sorter's runs go, and where runs that were left come from: files with numbers.
///
/// All calls may leave by a jump or by unwinding. Files that are open then are closed, and deleted, by whoever has
/// implemented this.
pub trait RunFiles: Copy {
    /// An open file.
    type File: Copy;

    /// A file to be written.
    fn create(&self, number: usize) -> Self::File;

    /// Ends writing a file. It can be read, and by whom it is left to it can be [opened](RunFiles::open), but stays open.
    fn finish(&self, file: Self::File);

    /// Opens a file that was left here, and says how long it is.
    fn open(&self, number: usize) -> (Self::File, usize);

    /// Writes bytes at the end of a file that was [created](RunFiles::create).
    fn write(&self, file: Self::File, bytes: &[u8]);

    /// Fills `to` with the next bytes of a file that is not written any more. If there are not as many, the call does not
    /// return.
    fn read(&self, file: Self::File, to: &mut [u8]);

    /// Goes to a place in a file that is not written any more.
    fn seek(&self, file: Self::File, to: usize);

    /// Closes a file, which is not used any more.
    fn close(&self, file: Self::File);
}

/// What is written to a file as the bytes it is, and read back so.
///
/// # Safety
/// Any bytes are a value, and all bytes of a value are initialised: it has no padding.
pub unsafe trait AnyBytes: Copy {}

macro_rules! any_bytes {
    ($($number:ident)*) => {$(
        // SAFETY: an unsigned integer has no padding, and none of its bits forbids another.
        unsafe impl AnyBytes for $number {}
    )*};
}

any_bytes!(u32 u64 u128 usize);

/// The bytes that values are.
#[inline]
pub(super) fn bytes_of<T: AnyBytes>(values: &[T]) -> &[u8] {
    // SAFETY: `AnyBytes` says that all bytes of values are initialised; they lie side by side, and bytes may lie anywhere.
    unsafe { core::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// The bytes that values are, to be written.
#[inline]
pub(super) fn bytes_of_mut<T: AnyBytes>(values: &mut [T]) -> &mut [u8] {
    // SAFETY: as above, and `AnyBytes` says that they are values whatever is written there.
    unsafe { core::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), size_of_val(values)) }
}

/// Writes a value.
pub(super) fn put<T: AnyBytes, F: RunFiles>(files: F, file: F::File, value: T) {
    files.write(file, bytes_of(&[value]));
}

/// Reads over a value.
pub(super) fn get<T: AnyBytes, F: RunFiles>(files: F, file: F::File, value: &mut T) {
    files.read(file, bytes_of_mut(core::slice::from_mut(value)));
}

/// A key space whose entries can be put in files, one by one.
pub trait Filed: KeySpace {
    /// Memory for an entry.
    type Record: Copy;
    /// Such memory, before anything was read.
    const RECORD: Self::Record;

    /// Writes an entry that is in one piece.
    fn put<F: RunFiles>(files: F, file: F::File, entry: &Entry<'_, Self>);

    /// Reads the next entry, which was [`put`](Filed::put) there.
    fn get<'r, F: RunFiles>(files: F, file: F::File, record: &'r mut Self::Record) -> Entry<'r, Self>;
}

impl<L: Radix> Filed for L {
    type Record = ();
    const RECORD: () = ();

    fn put<F: RunFiles>(files: F, file: F::File, entry: &Entry<'_, L>) {
        put(files, file, entry.key);
        put(files, file, entry.tid.raw());
        put(files, file, entry.child);
    }

    fn get<'r, F: RunFiles>(files: F, file: F::File, (): &'r mut ()) -> Entry<'r, L> {
        let (mut key, mut tid, mut child) = (L::MIN, 0u64, Block::MIN);
        get(files, file, &mut key);
        get(files, file, &mut tid);
        get(files, file, &mut child);
        Entry { key, tid: Tid::from_raw(tid), child }
    }
}
