//! Index tuples, as index-only scans hand them to the server: formed from an entry's lane and tail.

use fpbtree_engine::key::{ColumnType, KeyShape, Tail};
use pgrx::pg_sys;

use crate::column;
use crate::index::heap_tid;
use crate::memory::allocate;

/// Where an index-only scan's tuples are formed.
pub struct Tuple {
    /// The tuple formed last.
    pub memory: *mut pg_sys::IndexTupleData,
    /// How to get the value of an only column that is an integer to the server, of whatever type.
    plain: Option<Plain>,
    columns: [Attribute; KeyShape::MAX_COLUMNS],
}

/// An only column whose values are its lanes with some bits turned over.
#[derive(Clone, Copy)]
struct Plain {
    null_rank: bool,
    turn: u64,
    bits: u64,
}

/// How the server stores a column.
#[derive(Clone, Copy)]
struct Attribute {
    length: usize,
    align: usize,
}

/// Bytes of an index tuple's header, and of one with a null bitmap behind it.
const HEADER: usize = 8;
const HEADER_WITH_NULLS: usize = 16;
/// Bytes a tuple of all columns may take: 16 each and the header.
const TUPLE_SIZE: usize = HEADER_WITH_NULLS + 16 * KeyShape::MAX_COLUMNS;
/// `INDEX_NULL_MASK`.
const HAS_NULLS: u16 = 0x8000;

impl Tuple {
    /// # Safety
    /// May raise when out of memory.
    pub unsafe fn new(context: pg_sys::MemoryContext, shape: &KeyShape) -> Tuple {
        let mut columns = [Attribute { length: 0, align: 1 }; KeyShape::MAX_COLUMNS];
        for (attribute, column) in columns.iter_mut().zip(shape.columns()) {
            *attribute = Attribute::of(column.ty);
        }
        // SAFETY: by this function's contract.
        let memory = unsafe { allocate::<[u8; TUPLE_SIZE]>(context, 1, true).cast() };
        Tuple { memory, plain: Plain::of(shape), columns }
    }

    /// Forms the tuple of an only column's value that is its lane with some bits turned over; `false` of anything else.
    #[inline]
    pub unsafe fn form_plain(&mut self, lane: u64, tail: Tail) -> bool {
        let Some(plain) = self.plain.filter(|plain| tail.rank() != plain.null_rank) else { return false };
        // SAFETY: the memory has room for a header and a value; what lies behind a short value is padding.
        unsafe {
            (*self.memory).t_tid = heap_tid(tail);
            (*self.memory).t_info = (HEADER + 8) as u16;
            self.memory.cast::<u8>().add(HEADER).cast::<u64>().write((lane ^ plain.turn) & plain.bits);
        }
        true
    }

    /// Forms the tuple of any entry.
    pub unsafe fn form(&mut self, shape: &KeyShape, lane: u128, tail: Tail) {
        let columns = shape.columns();
        let images: [_; KeyShape::MAX_COLUMNS] =
            core::array::from_fn(|c| if c < columns.len() { shape.unpack(lane, tail, c) } else { None });
        let images = &images[..columns.len()];
        let bytes = self.memory.cast::<u8>();
        let has_nulls = images.iter().any(Option::is_none);
        let mut at = if has_nulls { HEADER_WITH_NULLS } else { HEADER };
        // SAFETY: the memory has room for every column; each is written at its alignment.
        unsafe {
            if has_nulls {
                let present =
                    images.iter().enumerate().fold(0u32, |bits, (c, image)| bits | u32::from(image.is_some()) << c);
                bytes.add(HEADER).cast::<u32>().write(present.to_le());
            }
            for (c, image) in images.iter().enumerate() {
                if let Some(image) = *image {
                    let Attribute { length, align } = self.columns[c];
                    at = at.next_multiple_of(align);
                    column::store(columns[c].ty, image, bytes.add(at));
                    at += length;
                }
            }
            (*self.memory).t_tid = heap_tid(tail);
            (*self.memory).t_info = at.next_multiple_of(8) as u16 | if has_nulls { HAS_NULLS } else { 0 };
        }
    }
}

impl Plain {
    fn of(shape: &KeyShape) -> Option<Plain> {
        let [column] = shape.columns() else { return None };
        let ty = column.ty;
        let bytes_in_order = matches!(ty, ColumnType::Uuid | ColumnType::Macaddr | ColumnType::Macaddr8);
        if ty.is_float() || bytes_in_order {
            return None;
        }
        let bits = u64::MAX >> (64 - ty.bits());
        // The lane of the image 0 is what has to be turned over to get it back.
        let turn = shape.pack(&[Some(0)]).lane as u64;
        Some(Plain { null_rank: shape.null_rank(), turn, bits })
    }
}

impl Attribute {
    /// How the server stores a fixed-width type: aligned to its width, less the byte-aligned `uuid` and `bool` kinds.
    fn of(ty: ColumnType) -> Attribute {
        let (length, align) = match ty {
            ColumnType::Bool | ColumnType::Char => (1, 1),
            ColumnType::Int2 => (2, 2),
            ColumnType::Int4 | ColumnType::Oid | ColumnType::Float4 | ColumnType::Date => (4, 4),
            ColumnType::Uuid => (16, 1),
            ColumnType::Macaddr => (6, 4),
            ColumnType::Macaddr8 => (8, 4),
            _ => (8, 8),
        };
        Attribute { length, align }
    }
}
