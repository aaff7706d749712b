//! Index tuples, as index-only scans hand them to the server: written value by value, as the server lays them out, into
//! memory that the next one uses again.

use fpbtree_engine::format::Tid;
use fpbtree_engine::keys::{ColumnType, KeyShape};
use pgrx::pg_sys::{IndexTupleData, MemoryContext};

use crate::pg::memory::{free_array, zeroed_values};
use crate::pg::tid::heap_tid;
use crate::values::column;

/// The tuple that is being formed, or was formed last.
pub struct Tuple {
    context: MemoryContext,
    /// Room for a header, a null bitmap and values, aligned to 16.
    bytes: &'static mut [u8],
    /// Where the last value ends.
    used: usize,
    /// How many columns there are so far, and a bit for each that is NULL.
    columns: u32,
    nulls: u32,
}

/// Bytes of a header.
const HEADER: usize = 8;
/// Where values begin: behind a header and a null bitmap, or behind a header that is where the bitmap would be.
const VALUES: usize = 16;
/// Bytes there is room for at first.
const FIRST_ROOM: usize = 512;
/// More bytes than are ever between two values.
const MOST_PADDING: usize = 8;
/// Bytes of the longest value of an exact type.
const LONGEST_EXACT: usize = 16;
/// `INDEX_NULL_MASK`.
const HAS_NULLS: u16 = 0x8000;
/// `INDEX_VAR_MASK`: not all values need be of fixed width.
const HAS_VARIABLE: u16 = 0x4000;
/// The most that a header can say of a size. Blanks may make a tuple longer, but who reads a scan's tuple goes by the
/// columns, not by its size.
const MOST_SIZE: usize = 0x1FF8;

impl Tuple {
    /// No column yet, and no room for any.
    pub fn new(context: MemoryContext) -> Tuple {
        Tuple { context, bytes: &mut [], used: VALUES, columns: 0, nulls: 0 }
    }

    /// Makes room for tuples, if there is none yet.
    ///
    /// # Safety
    /// The tuple is not used longer than the context lives. May raise when out of memory.
    pub unsafe fn make_room(&mut self) {
        if self.bytes.is_empty() {
            // SAFETY: nobody uses the tuple longer than the context lives.
            self.bytes = unsafe { room(self.context, FIRST_ROOM) };
        }
    }

    /// Gives the memory back, if there is any.
    ///
    /// # Safety
    /// The tuple is not used any more.
    pub unsafe fn end(&mut self) {
        // SAFETY: nobody uses the tuple any more.
        unsafe {
            if !self.bytes.is_empty() {
                free_array(core::mem::take(&mut self.bytes));
            }
        }
    }

    /// Begins the next tuple.
    #[inline]
    pub fn clear(&mut self) {
        (self.used, self.columns, self.nulls) = (VALUES, 0, 0);
    }

    /// The next column is NULL.
    #[inline]
    pub fn put_null(&mut self) {
        self.nulls |= 1 << self.columns;
        self.columns += 1;
    }

    /// The next column is what `write` writes, of `most` bytes or less: it says of how many. None if it has no
    /// value to write. `align` is a power of 2.
    ///
    /// # Safety
    /// The caller's frames own no destructors: may raise when out of memory.
    #[inline(always)]
    pub unsafe fn put_with(
        &mut self,
        most: usize,
        align: usize,
        write: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> Option<()> {
        let begin = (self.used + align - 1) & !(align - 1);
        if begin + most + MOST_PADDING > self.bytes.len() {
            // SAFETY: no frame here owns a destructor.
            unsafe { self.grow(begin + most + MOST_PADDING) };
        }
        if align > 1 {
            // As many as can be, because that takes no loop.
            self.bytes.get_mut(self.used..self.used + MOST_PADDING)?.fill(0);
        }
        self.used = begin + write(self.bytes.get_mut(begin..begin + most)?)?;
        self.columns += 1;
        Some(())
    }

    /// The next column is these bytes.
    ///
    /// # Safety
    /// The caller's frames own no destructors: may raise when out of memory.
    #[inline]
    pub unsafe fn put(&mut self, value: &[u8], align: usize) -> Option<()> {
        // SAFETY: no frame here owns a destructor.
        unsafe {
            self.put_with(value.len(), align, |room| {
                room.copy_from_slice(value);
                Some(value.len())
            })
        }
    }

    /// The next column is the lower bytes of an integer, which is as wide as it is aligned: 8 at most.
    ///
    /// # Safety
    /// The caller's frames own no destructors: may raise when out of memory.
    #[inline]
    pub unsafe fn put_integer(&mut self, integer: u64, width: usize) -> Option<()> {
        let bytes = integer.to_le_bytes();
        // SAFETY: no frame here owns a destructor.
        unsafe {
            self.put_with(bytes.len(), width, |room| {
                room.copy_from_slice(&bytes);
                Some(width)
            })
        }
    }

    /// The next column is the value of an image.
    ///
    /// # Safety
    /// The caller's frames own no destructors: may raise when out of memory.
    #[inline]
    pub unsafe fn put_exact(&mut self, ty: ColumnType, image: u128) -> Option<()> {
        let (length, align) = layout(ty);
        // SAFETY: there is room for the longest type; no frame here owns a destructor.
        unsafe {
            self.put_with(LONGEST_EXACT, align, |room| {
                column::store(ty, image, room.as_mut_ptr());
                Some(length)
            })
        }
    }

    /// The tuple of the columns put, of the row with this TID.
    #[inline]
    pub fn form(&mut self, tid: Tid) -> *mut IndexTupleData {
        let (start, has_nulls) = if self.nulls == 0 { (VALUES - HEADER, 0) } else { (0, HAS_NULLS) };
        if self.nulls != 0 {
            // The bitmap has a bit for each value.
            self.bytes[HEADER..VALUES].copy_from_slice(&u64::from(!self.nulls).to_le_bytes());
        }
        let size = ((self.used - start + 7) & !7).min(MOST_SIZE) as u16;
        self.put_header(start, size | HAS_VARIABLE | has_nulls, tid)
    }

    #[inline(always)]
    fn put_header(&mut self, start: usize, t_info: u16, tid: Tid) -> *mut IndexTupleData {
        let tuple = self.bytes[start..VALUES].as_mut_ptr().cast::<IndexTupleData>();
        // SAFETY: room for a header, aligned to 8.
        unsafe { tuple.write(IndexTupleData { t_tid: heap_tid(tid), t_info }) };
        tuple
    }

    /// More room.
    #[cold]
    unsafe fn grow(&mut self, needed: usize) {
        // SAFETY: nobody else uses the old bytes.
        unsafe {
            let bytes = room(self.context, needed.next_power_of_two());
            bytes[..self.used].copy_from_slice(&self.bytes[..self.used]);
            free_array(core::mem::replace(&mut self.bytes, bytes));
        }
    }
}

unsafe fn room(context: MemoryContext, length: usize) -> &'static mut [u8] {
    // SAFETY: the callers do not use it longer than the context lives.
    unsafe { zeroed_values(context, length) }
}

/// How the server stores a fixed-width type: its length and alignment, which is its width less for the byte-aligned
/// `uuid` and `bool` kinds.
fn layout(ty: ColumnType) -> (usize, usize) {
    match ty {
        ColumnType::Bool | ColumnType::Char => (1, 1),
        ColumnType::Int2 => (2, 2),
        ColumnType::Int4 | ColumnType::Oid | ColumnType::Float4 | ColumnType::Date => (4, 4),
        ColumnType::Uuid => (16, 1),
        ColumnType::Macaddr => (6, 4),
        ColumnType::Macaddr8 => (8, 4),
        _ => (8, 8),
    }
}

/// How to form the tuples of an only column whose values are its lanes with some bits turned over: integers to the
/// server, of whatever type.
#[derive(Clone, Copy)]
pub struct Plain {
    null_rank: bool,
    turn: u64,
    bits: u64,
}

impl Plain {
    /// None if the columns are others.
    pub fn of(shape: &KeyShape) -> Option<Plain> {
        let [column] = shape.columns() else { return None };
        if !column::is_integer(column.ty) {
            return None;
        }
        let bits = u64::MAX >> (64 - column.ty.bits());
        // The lane of the image 0 is what has to be turned over to get it back.
        let turn = shape.pack(&[Some(0)]).lane as u64;
        Some(Plain { null_rank: shape.null_rank(), turn, bits })
    }

    /// The tuple of an entry; None if its value is NULL.
    #[inline(always)]
    pub fn form(&self, lane: u64, tid: Tid, tuple: &mut Tuple) -> Option<*mut IndexTupleData> {
        if tid.rank() == self.null_rank {
            return None;
        }
        let value = (lane ^ self.turn) & self.bits;
        // What lies behind a short value is padding.
        tuple.bytes[VALUES..VALUES + 8].copy_from_slice(&value.to_le_bytes());
        Some(tuple.put_header(VALUES - HEADER, (HEADER + 8) as u16, tid))
    }
}
