//! Temporary files with sorted runs.

use core::ffi::c_int;
use core::mem::MaybeUninit;
use core::ops::{Deref, DerefMut};

use pgrx::PgSqlErrorCode::ERRCODE_IO_ERROR;
use pgrx::pg_sys::{BufFile, FileSet};

use crate::pg::errors::Text;
use crate::pg::memory::{free_array, zeroed_array};
use crate::pg::{errors, ffi};

/// `O_RDONLY`.
const READ_ONLY: c_int = 0;

/// Where a sorter's runs go.
#[derive(Clone, Copy)]
pub enum Files {
    /// To files of this process, which it reads itself.
    Own,
    /// To files by which a participant of a parallel build leaves them to the leader.
    Left(Shelf),
}

/// Some of the files that all who take part in a parallel build share, as the runs of one of them.
#[derive(Clone, Copy)]
pub struct Shelf {
    /// The files of all.
    pub set: *mut FileSet,
    /// Which of them.
    pub number: usize,
}

impl Shelf {
    fn name(self, run: usize) -> Text {
        Text::new(format_args!("{}.{run}", self.number))
    }

    /// Opens a run that was left, and says how long it is.
    ///
    /// # Safety
    /// The participant has left it, and the files of all are there. May raise.
    pub unsafe fn open(self, run: usize) -> (*mut BufFile, usize) {
        let name = self.name(run);
        // SAFETY: by this function's contract.
        unsafe {
            let file = ffi::BufFileOpenFileSet(self.set, name.as_c_str().as_ptr(), READ_ONLY, false);
            (file, ffi::BufFileSize(file) as usize)
        }
    }
}

impl Files {
    /// A file for a run, to be written.
    ///
    /// # Safety
    /// May raise.
    pub unsafe fn create(self, run: usize) -> *mut BufFile {
        // SAFETY: by this function's contract; the file is the resource owner's.
        unsafe {
            match self {
                Files::Own => ffi::BufFileCreateTemp(false),
                Files::Left(shelf) => ffi::BufFileCreateFileSet(shelf.set, shelf.name(run).as_c_str().as_ptr()),
            }
        }
    }

    /// Ends writing a file, which stays open: what a process has written counts against its `temp_file_limit` until it is
    /// closed.
    ///
    /// # Safety
    /// [`create`](Files::create) returned the file. May raise.
    pub unsafe fn finish(self, file: *mut BufFile) {
        // SAFETY: by this function's contract.
        unsafe {
            match self {
                Files::Own => seek(file, 0),
                Files::Left(_) => ffi::BufFileExportFileSet(file),
            }
        }
    }

    /// Ends writing a file, and closes it.
    ///
    /// # Safety
    /// As [`finish`](Files::finish).
    pub unsafe fn leave(self, file: *mut BufFile) {
        // SAFETY: by this function's contract.
        unsafe {
            self.finish(file);
            close(file);
        }
    }
}

/// Values in the current memory context, to which more can be added there.
pub(super) struct List<T: 'static> {
    values: &'static mut [T],
    count: usize,
}

impl<T: Copy> List<T> {
    /// An empty one.
    ///
    /// # Safety
    /// All-zero bytes are a `T`; the current memory context outlives the list. May raise.
    pub unsafe fn new() -> Self {
        // SAFETY: by this function's contract.
        List { values: unsafe { zeroed_array(64) }, count: 0 }
    }

    /// Adds a value.
    ///
    /// # Safety
    /// The constructor's memory context is current. May raise.
    pub unsafe fn push(&mut self, value: T) {
        if self.count == self.values.len() {
            // SAFETY: as the constructor; the old array is not used any more.
            unsafe {
                let more = zeroed_array(2 * self.count);
                more[..self.count].copy_from_slice(self.values);
                free_array(core::mem::replace(&mut self.values, more));
            }
        }
        self.values[self.count] = value;
        self.count += 1;
    }
}

impl<T> Deref for List<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.values[..self.count]
    }
}

impl<T> DerefMut for List<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.values[..self.count]
    }
}

/// Writes a value.
///
/// # Safety
/// The file is being written. May raise.
pub unsafe fn put<T: Copy>(file: *mut BufFile, value: &T) {
    // SAFETY: by this function's contract; the bytes are only ever read as a value.
    unsafe { ffi::BufFileWrite(file, (&raw const *value).cast(), size_of::<T>()) };
}

/// Reads the next value.
///
/// # Safety
/// The file is being read, and a value was [`put`] there. May raise.
pub unsafe fn get<T: Copy>(file: *mut BufFile) -> T {
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: by this function's contract; all of the value was read if the size is right.
    unsafe {
        if ffi::BufFileRead(file, value.as_mut_ptr().cast(), size_of::<T>()) != size_of::<T>() {
            unreadable();
        }
        value.assume_init()
    }
}

/// Goes to a place in a file.
///
/// # Safety
/// It is open. May raise.
pub(super) unsafe fn seek(file: *mut BufFile, to: usize) {
    // SAFETY: by this function's contract.
    if unsafe { ffi::BufFileSeek(file, 0, to as i64, 0) } != 0 {
        unreadable();
    }
}

/// Closes a file.
///
/// # Safety
/// It is open, and not used any more.
pub unsafe fn close(file: *mut BufFile) {
    // SAFETY: by this function's contract.
    unsafe { ffi::BufFileClose(file) };
}

/// A temporary file gave back less than was written to it.
#[cold]
pub(super) fn unreadable() -> ! {
    errors::raise(ERRCODE_IO_ERROR, format_args!("could not read a temporary file of an index build"), None, None)
}
