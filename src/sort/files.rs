//! Temporary files of a sort.

use super::any_bytes::{AnyBytes, bytes_of, bytes_of_mut};
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

    /// Ends writing a file, which stays open. From now on it can be read, and [opened](RunFiles::open) by others if it
    /// is left to them.
    fn finish(&self, file: Self::File);

    /// Opens a file that was left here, and says how long it is.
    fn open(&self, number: usize) -> (Self::File, usize);

    /// Writes bytes at the end of a file that was [created](RunFiles::create).
    fn write(&self, file: Self::File, bytes: &[u8]);

    /// Fills `to` with the next bytes of a file that is not written any more. If there are not as many, the call does
    /// not return.
    fn read(&self, file: Self::File, to: &mut [u8]);

    /// Goes to a place in a file that is not written any more.
    fn seek(&self, file: Self::File, to: usize);

    /// Closes a file, which is not used any more.
    fn close(&self, file: Self::File);
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
