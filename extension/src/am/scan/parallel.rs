//! Parallel scans: the processes that take part share the place the scan goes on from, and take turns at reading the
//! next page with matches. Whoever has read one hands the place on before it returns the matches.

use core::cell::UnsafeCell;
#[cfg(not(any(feature = "pg15", feature = "pg16")))]
use core::ffi::c_int;
use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::pg::ffi;
use fpbtree_engine::page::Bytes;
use fpbtree_engine::scan::{Cursor, Scannable};
use pgrx::pg_guard;
use pgrx::pg_sys::{self, ConditionVariable, IndexScanDesc, IndexScanDescData, Size};

/// Nobody has begun.
const FRESH: u32 = 0;
/// The place is there for whoever comes next.
const READY: u32 = 1;
/// A process has taken the place and reads on.
const TAKEN: u32 = 2;
/// There is nothing left to read.
const DONE: u32 = 3;

/// What the processes of a parallel scan share. All-zero bytes are a fresh one, but for the condition variable.
#[repr(C)]
pub struct SharedScan {
    stage: AtomicU32,
    /// Where those wait who find the place taken.
    changed: UnsafeCell<ConditionVariable>,
    /// Belongs to the process that made the stage [`TAKEN`].
    place: UnsafeCell<MaybeUninit<AnyCursor>>,
}

/// A cursor of the index's key space. The memory is measured before 18 without knowing for which index, so there is
/// room for the largest.
#[expect(dead_code, reason = "only for its size and alignment")]
union AnyCursor {
    narrow: Cursor<u32>,
    middle: Cursor<u64>,
    wide: Cursor<u128>,
    long: Cursor<Bytes>,
}

/// What a process that wants to read on has to do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Begin the scan.
    First,
    /// Go on where the cursor is now.
    Next,
    /// Nothing: all has been read.
    None,
}

impl SharedScan {
    /// Bytes to ask for: the server aligns to fewer than a cursor may need.
    const SIZE: Size = size_of::<SharedScan>() + align_of::<SharedScan>();

    /// Where it is in the memory asked for, which every process has mapped at the same place in a page.
    fn within(memory: *mut c_void) -> *mut SharedScan {
        memory.map_addr(|address| address.next_multiple_of(align_of::<SharedScan>())).cast()
    }

    /// What this scan shares with others, if it does.
    ///
    /// # Safety
    /// A scan of ours; what is returned lives no longer than the scan.
    #[inline]
    pub unsafe fn of(scan: &IndexScanDescData) -> Option<&'static SharedScan> {
        // SAFETY: the server's memory, which `aminitparallelscan` wrote.
        unsafe {
            let parallel = scan.parallel_scan.as_ref()?;
            #[cfg(not(feature = "since_18"))]
            let offset = parallel.ps_offset;
            #[cfg(feature = "since_18")]
            let offset = parallel.ps_offset_am;
            Some(&*SharedScan::within(scan.parallel_scan.byte_add(offset).cast()))
        }
    }

    /// Takes the place to go on from into `cursor`, waiting while another process has it. After [`Turn::First`] and
    /// [`Turn::Next`] the others wait for [`hand_on`](SharedScan::hand_on); if an error keeps it from coming, the
    /// server ends them all.
    ///
    /// # Safety
    /// Nothing is locked; the cursor is of the index's key space. May raise.
    pub unsafe fn take<K: Scannable>(&self, cursor: &mut Cursor<K>) -> Turn {
        let turn = loop {
            match self.stage.load(Relaxed) {
                // SAFETY: the server's condition variable, in memory of all who use it.
                TAKEN => unsafe { ffi::ConditionVariableSleep(self.changed.get(), PAGE_WAIT) },
                DONE => break Turn::None,
                found if self.stage.compare_exchange(found, TAKEN, Acquire, Relaxed).is_ok() => {
                    break if found == FRESH { Turn::First } else { Turn::Next };
                }
                _ => {}
            }
        };
        // SAFETY: ends the sleep, if there was one; the place is this process's now.
        unsafe {
            pg_sys::ConditionVariableCancelSleep();
            if turn == Turn::Next {
                cursor.copy_from(&*self.place());
            }
        }
        turn
    }

    /// Hands the place on that was taken.
    ///
    /// # Safety
    /// This process has taken the place, with a cursor of the same key space.
    pub unsafe fn hand_on<K: Scannable>(&self, cursor: &Cursor<K>) {
        // SAFETY: the place is this process's until the stage changes.
        unsafe {
            (*self.place()).copy_from(cursor);
            if cursor.is_done() {
                self.stage.store(DONE, Release);
                pg_sys::ConditionVariableBroadcast(self.changed.get());
            } else {
                self.stage.store(READY, Release);
                pg_sys::ConditionVariableSignal(self.changed.get());
            }
        }
    }

    fn place<K: Scannable>(&self) -> *mut Cursor<K> {
        const {
            assert!(size_of::<Cursor<K>>() <= size_of::<AnyCursor>());
            assert!(align_of::<Cursor<K>>() <= align_of::<AnyCursor>());
        }
        self.place.get().cast()
    }
}

/// What waiting processes are shown to wait for: the same as with btree.
const PAGE_WAIT: u32 = pg_sys::WaitEventIPC::WAIT_EVENT_BTREE_PAGE;

/// The `amestimateparallelscan` callback.
#[cfg(any(feature = "pg15", feature = "pg16"))]
pub unsafe extern "C-unwind" fn amestimateparallelscan() -> Size {
    SharedScan::SIZE
}

/// The `amestimateparallelscan` callback.
#[cfg(feature = "pg17")]
pub unsafe extern "C-unwind" fn amestimateparallelscan(_keys: c_int, _order_bys: c_int) -> Size {
    SharedScan::SIZE
}

/// The `amestimateparallelscan` callback.
#[cfg(feature = "since_18")]
pub unsafe extern "C-unwind" fn amestimateparallelscan(
    _rel: pg_sys::Relation,
    _keys: c_int,
    _order_bys: c_int,
) -> Size {
    SharedScan::SIZE
}

/// The `aminitparallelscan` callback.
#[pg_guard]
pub unsafe extern "C-unwind" fn aminitparallelscan(memory: *mut c_void) {
    let shared = SharedScan::within(memory);
    // SAFETY: the server gives as much memory as was asked for, and nobody else knows it yet. All-zero bytes are
    // cursors.
    unsafe {
        shared.write_bytes(0, 1);
        pg_sys::ConditionVariableInit((*shared).changed.get());
    }
}

/// The `amparallelrescan` callback: the scan is to begin again. No process but this one takes part in it now.
#[pg_guard]
pub unsafe extern "C-unwind" fn amparallelrescan(scan: IndexScanDesc) {
    // SAFETY: called by the server, with a parallel scan that `ambeginscan` began.
    if let Some(shared) = unsafe { SharedScan::of(&*scan) } {
        shared.stage.store(FRESH, Relaxed);
    }
}
