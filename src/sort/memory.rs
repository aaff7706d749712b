//! Memory and files for sorts without a server, which count what is asked of them and fail when they are told to: for
//! tests and experiments.

use core::cell::{Cell, RefCell};
use core::mem::MaybeUninit;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::rc::Rc;

use super::files::RunFiles;
use super::host::Host;

/// What memory is aligned to.
const ALIGN: usize = 64;
/// What new memory is full of.
const NEW: u8 = 0xA5;

/// What a call that was told to fail unwinds with: bytes of memory that are in use then, and files that are open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Bytes of memory.
    pub in_use: usize,
    /// Open files.
    pub open_files: usize,
}

/// Where sorts have their memory and their files from. When it is dropped all of it is gone, as at the end of a
/// server's transaction.
#[derive(Default)]
pub struct MemoryHost {
    /// The size of each piece of memory that is in use, by its address.
    lent: RefCell<BTreeMap<usize, usize>>,
    in_use: Cell<usize>,
    peak: Cell<usize>,
    left: RefCell<BTreeMap<Name, Rc<[u8]>>>,
    open: RefCell<Vec<Option<Open>>>,
    calls: Cell<usize>,
    failing: Cell<Option<usize>>,
}

/// Of a file that was left: the number of who left it, and its own.
type Name = (usize, usize);

/// An open file.
enum Open {
    Written(Vec<u8>),
    /// Read from a place on, if anybody has said which.
    Read(Rc<[u8]>, Option<usize>),
}

impl MemoryHost {
    /// Without anything.
    pub fn new() -> Self {
        Self::default()
    }

    /// Files that only who creates them reads.
    pub fn own_files(&self) -> MemoryFiles<'_> {
        MemoryFiles { host: self, left_by: None }
    }

    /// Files that one of many leaves to others.
    pub fn files_of(&self, number: usize) -> MemoryFiles<'_> {
        MemoryFiles { host: self, left_by: Some(number) }
    }

    /// Lets one of the calls to come unwind with a [`Fault`]: the next one if `call` is 0.
    pub fn fail_at(&self, call: usize) {
        self.failing.set(Some(self.calls.get() + call));
    }

    /// Calls that can fail.
    pub fn calls(&self) -> usize {
        self.calls.get()
    }

    /// Bytes of memory in use.
    pub fn in_use(&self) -> usize {
        self.in_use.get()
    }

    /// The most that have been, since this was asked last.
    pub fn take_peak(&self) -> usize {
        self.peak.replace(self.in_use())
    }

    /// Files that are open.
    pub fn open_files(&self) -> usize {
        self.open.borrow().iter().flatten().count()
    }

    fn call(&self) {
        let call = self.calls.replace(self.calls.get() + 1);
        if self.failing.get() == Some(call) {
            // No message, as a panic would print.
            resume_unwind(Box::new(Fault { in_use: self.in_use(), open_files: self.open_files() }));
        }
    }

    fn count(&self, more: usize, less: usize) {
        self.in_use.set(self.in_use.get() + more - less);
        self.peak.set(self.peak.get().max(self.in_use.get()));
    }

    fn take_memory(&self, size: usize) -> *mut MaybeUninit<u8> {
        assert!(size > 0, "no memory is asked for");
        // SAFETY: a layout of some bytes.
        let memory = unsafe { alloc(layout(size)) };
        if memory.is_null() {
            handle_alloc_error(layout(size));
        }
        // SAFETY: just allocated, as long as that.
        unsafe { memory.write_bytes(NEW, size) };
        self.lent.borrow_mut().insert(memory.addr(), size);
        memory.cast()
    }

    /// Strikes memory off what is in use.
    fn strike(&self, memory: *mut [MaybeUninit<u8>]) {
        let size = self.lent.borrow_mut().remove(&memory.cast::<u8>().addr());
        assert_eq!(size, Some(memory.len()), "this is no memory that is in use");
    }
}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, ALIGN).expect("a size of memory")
}

impl Drop for MemoryHost {
    fn drop(&mut self) {
        for (&address, &size) in &*self.lent.borrow() {
            let memory = core::ptr::with_exposed_provenance_mut(address);
            // SAFETY: it was allocated so, and whatever borrows it borrows the host, too, so it is not used any more.
            unsafe { dealloc(memory, layout(size)) };
        }
    }
}

impl<'m> Host<'m> for &'m MemoryHost {
    fn allocate(&self, size: usize) -> &'m mut [MaybeUninit<u8>] {
        self.call();
        let memory = self.take_memory(size);
        self.count(size, 0);
        memory.expose_provenance();
        // SAFETY: it was just allocated, as long as that, and is there until the host is dropped or told to free it.
        unsafe { core::slice::from_raw_parts_mut(memory, size) }
    }

    /// Memory always moves.
    unsafe fn grow(&self, memory: *mut [MaybeUninit<u8>], size: usize) -> &'m mut [MaybeUninit<u8>] {
        self.call();
        self.strike(memory);
        let (old, kept) = (memory.cast::<MaybeUninit<u8>>(), memory.len());
        assert!(size > kept, "memory that grows");
        let more = self.take_memory(size);
        more.expose_provenance();
        self.count(size, kept);
        // SAFETY: the old memory was in use until now, and nobody uses it any more, as the caller says; the new memory
        // is longer, and is there until the host is dropped or told to free it.
        unsafe {
            more.copy_from_nonoverlapping(old, kept);
            dealloc(old.cast(), layout(kept));
            core::slice::from_raw_parts_mut(more, size)
        }
    }

    unsafe fn free(&self, memory: *mut [MaybeUninit<u8>]) {
        self.strike(memory);
        let (first, size) = (memory.cast::<u8>(), memory.len());
        self.count(0, size);
        // SAFETY: it was in use until now, and nobody uses it any more, as the caller says.
        unsafe { dealloc(first, layout(size)) };
    }

    fn check(&self) {
        self.call();
    }
}

/// Files of a [`MemoryHost`].
#[derive(Clone, Copy)]
pub struct MemoryFiles<'h> {
    host: &'h MemoryHost,
    left_by: Option<usize>,
}

/// A file of a [`MemoryHost`]: which of all that were opened, and under which number.
#[derive(Clone, Copy)]
pub struct MemoryFile {
    handle: usize,
    number: usize,
}

impl MemoryFiles<'_> {
    fn add(self, open: Open, number: usize) -> MemoryFile {
        let mut files = self.host.open.borrow_mut();
        files.push(Some(open));
        MemoryFile { handle: files.len() - 1, number }
    }

    fn with<R>(self, file: MemoryFile, then: impl FnOnce(&mut Option<Open>) -> R) -> R {
        self.host.call();
        let mut files = self.host.open.borrow_mut();
        assert!(files[file.handle].is_some(), "a file that is closed");
        then(&mut files[file.handle])
    }
}

impl RunFiles for MemoryFiles<'_> {
    type File = MemoryFile;

    fn create(&self, number: usize) -> MemoryFile {
        self.host.call();
        self.add(Open::Written(Vec::new()), number)
    }

    fn finish(&self, file: MemoryFile) {
        let bytes = self.with(file, |open| {
            let Some(Open::Written(bytes)) = open else { panic!("a file that was finished") };
            let bytes: Rc<[u8]> = core::mem::take(bytes).into();
            *open = Some(Open::Read(bytes.clone(), None));
            bytes
        });
        if let Some(left_by) = self.left_by {
            let before = self.host.left.borrow_mut().insert((left_by, file.number), bytes);
            assert!(before.is_none(), "two files of one number");
        }
    }

    fn open(&self, number: usize) -> (MemoryFile, usize) {
        self.host.call();
        let left_by = self.left_by.expect("files that are left to others");
        let bytes = self.host.left.borrow()[&(left_by, number)].clone();
        let size = bytes.len();
        (self.add(Open::Read(bytes, Some(0)), number), size)
    }

    fn write(&self, file: MemoryFile, bytes: &[u8]) {
        self.with(file, |open| match open {
            Some(Open::Written(written)) => written.extend_from_slice(bytes),
            _ => panic!("a file that was finished"),
        });
    }

    fn read(&self, file: MemoryFile, to: &mut [u8]) {
        self.with(file, |open| match open {
            Some(Open::Read(bytes, Some(at))) => {
                to.copy_from_slice(&bytes[*at..][..to.len()]);
                *at += to.len();
            }
            _ => panic!("a file that is being written, or of which nobody has said where to read"),
        });
    }

    fn seek(&self, file: MemoryFile, to: usize) {
        self.with(file, |open| match open {
            Some(Open::Read(bytes, at)) => {
                assert!(to <= bytes.len(), "a place behind the end");
                *at = Some(to);
            }
            _ => panic!("a file that is being written"),
        });
    }

    fn close(&self, file: MemoryFile) {
        self.with(file, |open| *open = None);
    }
}
