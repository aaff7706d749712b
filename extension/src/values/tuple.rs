//! Index tuples, as index-only scans hand them to the server: written value by value, as the server lays them out, into
//! memory that the next one uses again.

use fpbtree_engine::format::Tid;
use fpbtree_engine::keys::{ColumnType, KeyShape};
use pgrx::pg_sys::{Datum, IndexTupleData, MemoryContext, TupleTableSlot};

use crate::pg::memory::{free_array, zeroed_values};
use crate::pg::tid::heap_tid;
use crate::values::column;
use crate::values::row::{RowColumn, RowColumns};
use crate::values::varlena::{MOST_SHORT, short_header};

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
    /// Where the value of each column begins that is not NULL.
    begins: [u32; KeyShape::MAX_COLUMNS],
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
        Tuple { context, bytes: &mut [], used: VALUES, columns: 0, nulls: 0, begins: [0; KeyShape::MAX_COLUMNS] }
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
        *self.begins.get_mut(self.columns as usize)? = begin as u32;
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

    /// The tuple of an only column that is these bytes, of the row with this TID.
    ///
    /// # Safety
    /// The caller's frames own no destructors: may raise when out of memory.
    #[inline]
    pub unsafe fn form_value(&mut self, value: &[u8], tid: Tid) -> Option<*mut IndexTupleData> {
        // SAFETY: no frame here owns a destructor.
        let room = unsafe { self.room_for(value.len()) };
        copy_short(value, room.get_mut(..value.len())?);
        Some(self.form_only(value.len(), tid))
    }

    /// The tuple of an only column that is a text, less the length in front, of the row with this TID: the bytes of
    /// three pieces behind a first one that is `marker`. None if it is none, or too long for a length of 1 byte.
    ///
    /// # Safety
    /// The caller's frames own no destructors: may raise when out of memory.
    #[inline]
    pub unsafe fn form_text(
        &mut self,
        marker: u8,
        (front, middle, back): (&[u8], u64, &[u8]),
        tid: Tid,
    ) -> Option<*mut IndexTupleData> {
        // Without a back the middle may end with zeros, and without a middle the front.
        let middle_length = if back.is_empty() { 8 - middle.trailing_zeros() as usize / 8 } else { 8 };
        let length = front.len() + middle_length + back.len();
        if middle_length == 0 || length > 1 + MOST_SHORT {
            return None;
        }
        // SAFETY: no frame here owns a destructor.
        let room = unsafe { self.room_for(1 + MOST_SHORT + 8) };
        copy_short(front, room.get_mut(..front.len())?);
        room.get_mut(front.len()..front.len() + 8)?.copy_from_slice(&middle.to_be_bytes());
        copy_short(back, room.get_mut(front.len() + 8..front.len() + 8 + back.len())?);
        if core::mem::replace(&mut room[0], short_header(length - 1)) != marker {
            return None;
        }
        Some(self.form_only(length, tid))
    }

    /// The value of a column of the tuple formed last, which is of so many bytes if it is passed by value, and lies in
    /// the tuple if not (0). None if it is NULL, or there is no such column.
    #[inline]
    pub fn value(&self, c: usize, by_value: u8) -> Option<Datum> {
        if c >= self.columns as usize || self.nulls >> c & 1 != 0 {
            return None;
        }
        let value = self.bytes.get(self.begins[c] as usize..)?;
        // As `fetch_att` has it.
        Some(match by_value {
            0 => Datum::from(value.as_ptr()),
            1 => Datum::from(i8::from_ne_bytes(*value.first_chunk()?)),
            2 => Datum::from(i16::from_ne_bytes(*value.first_chunk()?)),
            4 => Datum::from(i32::from_ne_bytes(*value.first_chunk()?)),
            _ => Datum::from(i64::from_ne_bytes(*value.first_chunk()?)),
        })
    }

    /// Room for so many bytes of a tuple's only column.
    #[inline(always)]
    unsafe fn room_for(&mut self, length: usize) -> &mut [u8] {
        self.clear();
        if VALUES + length > self.bytes.len() {
            // SAFETY: no frame here owns a destructor.
            unsafe { self.grow(VALUES + length) };
        }
        &mut self.bytes[VALUES..]
    }

    #[inline(always)]
    fn form_only(&mut self, length: usize, tid: Tid) -> *mut IndexTupleData {
        (self.columns, self.begins[0]) = (1, VALUES as u32);
        let size = (HEADER + length).next_multiple_of(8).min(MOST_SIZE) as u16;
        self.put_header(VALUES - HEADER, size | HAS_VARIABLE, tid)
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

/// Copies bytes into as many, few without a call.
#[inline(always)]
fn copy_short(from: &[u8], to: &mut [u8]) {
    match (from.first_chunk::<16>(), from.last_chunk::<16>(), to.len()) {
        (Some(front), Some(back), ..=32) => {
            to[..16].copy_from_slice(front);
            let rest = to.len() - 16;
            to[rest..].copy_from_slice(back);
        }
        (_, _, ..16) => to.iter_mut().zip(from).for_each(|(to, from)| *to = *from),
        _ => to.copy_from_slice(from),
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

/// Columns that tuples are formed of in this way, at most.
const MOST_PLAIN: usize = 8;

/// How to form the tuples of entries with exact lanes and without NULLs. Where each value is in its tuple is known
/// beforehand.
#[derive(Clone, Copy)]
pub struct Plain {
    null_rank: bool,
    /// The bits of a lane that say which columns are NULL, and what they are where none is.
    nulls: u128,
    no_nulls: u128,
    columns: [PlainColumn; MOST_PLAIN],
    count: usize,
    size: u16,
    /// What an only column of integers to the server takes, which is the commonest: what is turned over, and the bits.
    integer: Option<(u64, u64)>,
}

/// A column: some bits of a lane, which turned over are the value's image, or a float's field.
#[derive(Clone, Copy)]
struct PlainColumn {
    ty: ColumnType,
    shift: u32,
    bits: u128,
    turn: u128,
    at: usize,
}

impl PlainColumn {
    /// The image of the value in a lane that has one; None for a float that is zero or NaN.
    #[inline(always)]
    fn image(&self, lane: u128) -> Option<u128> {
        let image = (lane >> self.shift & self.bits) ^ self.turn;
        if !self.ty.is_float() {
            return Some(image);
        }
        let sign = self.bits ^ self.bits >> 1;
        if image == sign || image == self.bits {
            return None;
        }
        Some(image ^ if image & sign == 0 { self.bits } else { sign })
    }
}

impl Plain {
    /// None if there are too many columns.
    pub fn of(shape: &KeyShape) -> Option<Plain> {
        let count = Some(shape.columns().len()).filter(|count| *count <= MOST_PLAIN)?;
        let filler = PlainColumn { ty: ColumnType::Bool, shift: 0, bits: 0, turn: 0, at: VALUES };
        let null_rank = shape.null_rank();
        let (columns, size, integer) = ([filler; MOST_PLAIN], 0, None);
        let mut plain = Plain { null_rank, nulls: 0, no_nulls: 0, columns, count, size, integer };
        let mut end = VALUES;
        for (c, column) in shape.columns().iter().enumerate() {
            let (ty, shift) = (column.ty, shape.slot(c).shift);
            let (length, align) = layout(ty);
            let bits = u128::MAX >> (u128::BITS - ty.bits());
            let zero = if ty.is_float() { 0 } else { ty.encode(0).0 };
            if count > 1 {
                let null = bits + 1;
                plain.nulls |= null << shift;
                plain.no_nulls |= (shape.slot_of(c, 0) & null) << shift;
            }
            let at = end.next_multiple_of(align);
            plain.columns[c] = PlainColumn { ty, shift, bits, turn: shape.slot_of(c, zero) & bits, at };
            end = at + length;
        }
        plain.size = (end - VALUES + HEADER).next_multiple_of(8) as u16;
        let PlainColumn { ty, turn, bits, .. } = plain.columns[0];
        plain.integer = (count == 1 && column::is_integer(ty)).then_some((turn as u64, bits as u64));
        Some(plain)
    }

    /// The tuple of an entry; None if a value is NULL, or a float that is zero or NaN.
    #[inline(always)]
    pub fn form(&self, lane: u128, tid: Tid, tuple: &mut Tuple) -> Option<*mut IndexTupleData> {
        if tid.rank() == self.null_rank {
            return None;
        }
        let Some((turn, bits)) = self.integer else { return self.form_columns(lane, tid, tuple) };
        let value = (lane as u64 ^ turn) & bits;
        // What lies behind a short value is padding.
        tuple.bytes[VALUES..VALUES + 8].copy_from_slice(&value.to_le_bytes());
        Some(tuple.put_header(VALUES - HEADER, (HEADER + 8) as u16, tid))
    }

    /// Puts the values of an entry into a slot; None if a value is NULL, or a float that is zero or NaN.
    ///
    /// # Safety
    /// The slot has the row's columns.
    #[inline(always)]
    pub unsafe fn fill(&self, (lane, tid): (u128, Tid), row: &mut RowColumns, slot: &mut TupleTableSlot) -> Option<()> {
        if tid.rank() == self.null_rank || lane & self.nulls != self.no_nulls {
            return None;
        }
        let mut is_plain = true;
        let value = |to: &mut RowColumn| {
            let column = self.columns.get(to.place)?;
            let image = column.image(lane);
            is_plain &= image.is_some();
            image.map(|image| column::value(column.ty, image, &mut to.room))
        };
        // SAFETY: the caller's.
        unsafe { row.fill(slot, value) };
        is_plain.then_some(())
    }

    #[inline]
    fn form_columns(&self, lane: u128, tid: Tid, tuple: &mut Tuple) -> Option<*mut IndexTupleData> {
        if lane & self.nulls != self.no_nulls {
            return None;
        }
        for column in &self.columns[..self.count] {
            let image = column.image(lane)?;
            let room = tuple.bytes.get_mut(column.at..column.at + LONGEST_EXACT)?;
            // SAFETY: room for the longest type.
            unsafe { column::store(column.ty, image, room.as_mut_ptr()) };
        }
        Some(tuple.put_header(VALUES - HEADER, self.size, tid))
    }
}
