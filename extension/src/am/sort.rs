//! What the engine's sort has of the server: memory of a context, and temporary files.

use core::ffi::c_int;
use core::mem::MaybeUninit;

use fpbtree_engine::page::Bytes;
use fpbtree_engine::sort::{BytesSorter, Filed, Host, LaneSorter, RunFiles, Sorter};
use pgrx::PgSqlErrorCode::ERRCODE_IO_ERROR;
use pgrx::pg_sys::{self, BufFile, FileSet, MemoryContext};

use crate::pg::errors::Text;
use crate::pg::{errors, ffi, memory};
use crate::values::keys::Keyed;

/// A key space whose entries can be sorted.
pub trait Sortable: Keyed + Filed {
    /// What sorts them.
    type Sorter: Sorter<Self, Host = SortMemory, Files = Files>;
}

impl Sortable for u32 {
    type Sorter = LaneSorter<'static, u32, SortMemory, Files>;
}

impl Sortable for u64 {
    type Sorter = LaneSorter<'static, u64, SortMemory, Files>;
}

impl Sortable for u128 {
    type Sorter = LaneSorter<'static, u128, SortMemory, Files>;
}

impl Sortable for Bytes {
    type Sorter = BytesSorter<'static, SortMemory, Files>;
}

/// The memory context of a sort.
#[derive(Clone, Copy)]
pub struct SortMemory(MemoryContext);

impl SortMemory {
    /// One that outlives all that is sorted there.
    pub fn of(context: MemoryContext) -> SortMemory {
        SortMemory(context)
    }

    /// The current one.
    ///
    /// # Safety
    /// It outlives all that is sorted there.
    pub unsafe fn current() -> SortMemory {
        // SAFETY: a variable of this process, which has one thread.
        SortMemory(unsafe { pg_sys::CurrentMemoryContext })
    }
}

impl Host<'static> for SortMemory {
    fn allocate(&self, size: usize) -> &'static mut [MaybeUninit<u8>] {
        // SAFETY: new memory of that size, of a context that lives as long as anybody looks there.
        unsafe { core::slice::from_raw_parts_mut(memory::allocate(self.0, size, false), size) }
    }

    unsafe fn grow(&self, memory: *mut [MaybeUninit<u8>], size: usize) -> &'static mut [MaybeUninit<u8>] {
        // SAFETY: the memory was allocated above, as the caller says, and is as long as that now.
        unsafe { core::slice::from_raw_parts_mut(memory::grow(memory, size), size) }
    }

    unsafe fn free(&self, memory: *mut [MaybeUninit<u8>]) {
        // SAFETY: the memory was allocated above and nobody looks there any more, as the caller says.
        unsafe { memory::free(memory.cast::<u8>()) };
    }

    #[inline]
    fn check(&self) {
        errors::check_for_interrupts();
    }
}

/// Where a sorter's runs go: to files of this process, which it reads itself, or to files by which one of those who
/// take part in a parallel build leaves them to others.
#[derive(Clone, Copy)]
pub struct Files(Option<Shelf>);

/// Some of the files that all who take part in a parallel build share.
#[derive(Clone, Copy)]
struct Shelf {
    /// The files of all.
    set: *mut FileSet,
    /// Which of them.
    number: usize,
}

/// An open file, the resource owner's.
#[derive(Clone, Copy)]
pub struct TempFile(*mut BufFile);

/// `O_RDONLY`.
const READ_ONLY: c_int = 0;

impl Files {
    /// Those of this process.
    pub const OWN: Files = Files(None);

    /// Some of those that others open, too.
    ///
    /// # Safety
    /// The set is there as long as the files are used.
    pub unsafe fn left(set: *mut FileSet, number: usize) -> Files {
        Files(Some(Shelf { set, number }))
    }
}

impl Shelf {
    fn name(self, file: usize) -> Text {
        Text::new(format_args!("{}.{file}", self.number))
    }
}

impl RunFiles for Files {
    type File = TempFile;

    fn create(&self, number: usize) -> TempFile {
        // SAFETY: the set is there, if it is a file of one.
        let file = unsafe {
            match self.0 {
                None => ffi::BufFileCreateTemp(false),
                Some(shelf) => ffi::BufFileCreateFileSet(shelf.set, shelf.name(number).as_c_str().as_ptr()),
            }
        };
        TempFile(file)
    }

    /// What a process has written counts against its `temp_file_limit` until it is closed.
    fn finish(&self, file: TempFile) {
        match self.0 {
            None => self.seek(file, 0),
            // SAFETY: the file is open, and of a set.
            Some(_) => unsafe { ffi::BufFileExportFileSet(file.0) },
        }
    }

    fn open(&self, number: usize) -> (TempFile, usize) {
        let shelf = self.0.expect("files that are left to others");
        // SAFETY: the set is there.
        unsafe {
            let file = ffi::BufFileOpenFileSet(shelf.set, shelf.name(number).as_c_str().as_ptr(), READ_ONLY, false);
            (TempFile(file), ffi::BufFileSize(file) as usize)
        }
    }

    #[inline]
    fn write(&self, file: TempFile, bytes: &[u8]) {
        // SAFETY: the file is open, and bytes are read.
        unsafe { ffi::BufFileWrite(file.0, bytes.as_ptr().cast(), bytes.len()) };
    }

    #[inline]
    fn read(&self, file: TempFile, to: &mut [u8]) {
        // SAFETY: the file is open, and no more bytes are written than there is room for.
        if unsafe { ffi::BufFileRead(file.0, to.as_mut_ptr().cast(), to.len()) } != to.len() {
            unreadable();
        }
    }

    fn seek(&self, file: TempFile, to: usize) {
        // SAFETY: the file is open.
        if unsafe { ffi::BufFileSeek(file.0, 0, to as i64, 0) } != 0 {
            unreadable();
        }
    }

    fn close(&self, file: TempFile) {
        // SAFETY: the file is open, and nobody uses it any more.
        unsafe { ffi::BufFileClose(file.0) };
    }
}

/// A temporary file gave back less than was written to it.
#[cold]
fn unreadable() -> ! {
    errors::raise(ERRCODE_IO_ERROR, format_args!("could not read a temporary file of an index build"), None, None)
}
