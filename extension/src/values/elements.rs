//! The first elements of arrays, and the lower bounds of ranges: bytes that are ordered as the server's functions order
//! the whole values, as far as they differ.
//!
//! They answer to `array_cmp`, `range_cmp` and `multirange_cmp`. Arrays are compared element by element, whatever their
//! dimensions, with NULL behind all values; an array that ends goes before one that goes on. Ranges are compared by
//! their lower, then their upper bounds; an empty range goes before all others. Multiranges are compared range by range.

use core::ffi::c_int;

use fpbtree_engine::keys::ColumnType;
use pgrx::pg_sys::{self, Datum, Oid, TypeCacheEntry};

use crate::pg::ffi;
use crate::values::column;
use crate::values::front::{END, FRONT, Front, NULL, UNBOUNDED};
use crate::values::varlena::HEADER;

/// The beginnings of values, which have elements of a type that fits a lane.
#[derive(Clone, Copy)]
pub struct Elements {
    holder: Holder,
    ty: ColumnType,
    length: usize,
    align: usize,
    by_value: bool,
}

#[derive(Clone, Copy)]
enum Holder {
    Array,
    Range,
    Multirange,
}

impl Elements {
    /// Those of a column's type, whose values are ordered by that function (support function 1).
    ///
    /// # Safety
    /// May raise.
    pub unsafe fn of(order: Oid, column: Oid) -> Option<Elements> {
        // SAFETY: catalog lookups, whose entries stay as long as the process lives.
        unsafe {
            let look_up = |ty: Oid, what: u32| ffi::lookup_type_cache(ty, what as c_int);
            let base = || ffi::getBaseType(column);
            let of_range = |range: *const TypeCacheEntry| {
                let element = range.as_ref()?.rngelemtype;
                (!element.is_null()).then(|| ((*range).rng_cmp_proc_finfo.fn_oid, element.cast_const()))
            };
            let (holder, (compared, element)) = match order.to_u32() {
                pg_sys::F_BTARRAYCMP => {
                    let element = ffi::get_element_type(base());
                    if element == Oid::INVALID {
                        return None;
                    }
                    let element = look_up(element, pg_sys::TYPECACHE_CMP_PROC);
                    (Holder::Array, ((*element).cmp_proc, element.cast_const()))
                }
                pg_sys::F_RANGE_CMP => (Holder::Range, of_range(look_up(base(), pg_sys::TYPECACHE_RANGE_INFO))?),
                pg_sys::F_MULTIRANGE_CMP => {
                    let multirange = look_up(base(), pg_sys::TYPECACHE_MULTIRANGE_INFO);
                    (Holder::Multirange, of_range((*multirange).rngtype)?)
                }
                _ => return None,
            };
            Some(Elements {
                holder,
                ty: column::column_type(compared)?,
                length: usize::try_from((*element).typlen).ok()?,
                align: column::alignment((*element).typalign).into(),
                by_value: (*element).typbyval,
            })
        }
    }

    /// The front of a value, given what is behind its length: zeros behind what there is. The server's values are
    /// sound; what is not has fewer elements.
    pub fn front(&self, content: &[u8]) -> [u8; FRONT] {
        let mut front = Front::new();
        match self.holder {
            Holder::Array => self.put_array(content, &mut front),
            Holder::Range => self.put_range(content, &mut front),
            Holder::Multirange => self.put_multirange(content, &mut front),
        };
        front.bytes()
    }

    /// `ArrayType`: dimensions, where data begins if there are NULLs, the element type, how many elements each dimension
    /// has and from where they are counted, a bit for each element that is not NULL, elements.
    fn put_array(&self, content: &[u8], front: &mut Front) -> Option<()> {
        let dimensions = word(content, 0)? as usize;
        let data = word(content, 4)? as usize;
        let bits = 12 + 8 * dimensions;
        let size = |dimension: usize| word(content, 12 + 4 * dimension).map(|size| size as usize);
        let all = (0..dimensions).try_fold(1, |all: usize, dimension| Some(all.saturating_mul(size(dimension)?)))?;
        let count = if dimensions == 0 { 0 } else { all };
        let mut at = if data == 0 { (HEADER + bits).next_multiple_of(8) } else { data };
        for element in 0..count {
            if front.is_full() {
                return Some(());
            }
            let is_null = data != 0 && content.get(bits + element / 8)? >> (element % 8) & 1 == 0;
            if is_null {
                front.put(&[NULL]);
            } else {
                self.put_element(content, &mut at, front)?;
            }
        }
        front.put(&[END]);
        Some(())
    }

    /// `RangeType`: the range type, the bounds that there are, a byte of flags.
    fn put_range(&self, content: &[u8], front: &mut Front) -> Option<()> {
        let flags = u32::from(*content.last()?);
        if flags & pg_sys::RANGE_EMPTY != 0 {
            front.put(&[END]);
            return Some(());
        }
        self.put_bounds(content, HEADER + 4, flags, front)
    }

    /// `MultirangeType`: the type, how many ranges, where each but the first begins, a byte of flags for each, bounds.
    fn put_multirange(&self, content: &[u8], front: &mut Front) -> Option<()> {
        let count = word(content, 4)? as usize;
        if count == 0 {
            front.put(&[END]);
            return Some(());
        }
        let flags = 8 + 4 * (count - 1);
        let bounds = (HEADER + flags + count).next_multiple_of(self.align);
        self.put_bounds(content, bounds, u32::from(*content.get(flags)?), front)
    }

    /// The bounds of a range that is not empty, which begin at a byte counted from the value's own first one. Of two
    /// equal lower bounds the inclusive one goes first, of upper bounds the exclusive one.
    fn put_bounds(&self, content: &[u8], mut at: usize, flags: u32, front: &mut Front) -> Option<()> {
        let has = |flag: u32| flags & flag != 0;
        if has(pg_sys::RANGE_LB_INF) {
            front.put(&[UNBOUNDED]);
        } else {
            self.put_element(content, &mut at, front)?;
            front.put(&[u8::from(!has(pg_sys::RANGE_LB_INC))]);
        }
        if has(pg_sys::RANGE_UB_INF) {
            front.put(&[NULL]);
        } else {
            self.put_element(content, &mut at, front)?;
            front.put(&[u8::from(has(pg_sys::RANGE_UB_INC))]);
        }
        Some(())
    }

    /// The element that is next behind a byte of the value, which is counted from the value's own first one. `at` moves
    /// behind it.
    fn put_element(&self, content: &[u8], at: &mut usize, front: &mut Front) -> Option<()> {
        let begin = at.next_multiple_of(self.align);
        *at = begin + self.length;
        let stored = content.get(begin.checked_sub(HEADER)?..)?.get(..self.length)?;
        let mut word = [0; 8];
        let value = if self.by_value {
            word.get_mut(..self.length)?.copy_from_slice(stored);
            Datum::from(u64::from_le_bytes(word))
        } else {
            Datum::from(stored.as_ptr())
        };
        // SAFETY: a value of the type, of as many bytes as that has.
        let image = unsafe { column::image(self.ty, value) };
        front.put_field(self.ty.encode(image).0, self.ty.encode(0).0);
        Some(())
    }
}

fn word(content: &[u8], at: usize) -> Option<u32> {
    content.get(at..)?.first_chunk().map(|word| u32::from_le_bytes(*word))
}
