//! Values of types that fit a lane: a digit is a field. The residue of a float that is zero or NaN is its sign.

use fpbtree_engine::keys::ColumnType;
use fpbtree_engine::keys::digits::{Buffer, DigitShape};
use pgrx::pg_sys::Datum;

use crate::values::column;
use crate::values::tuple::Tuple;

pub(super) unsafe fn put<const N: usize, const M: usize>(
    shape: &DigitShape,
    ty: ColumnType,
    value: Datum,
    key: &mut Buffer<N>,
    carried: &mut Buffer<M>,
) {
    // SAFETY: the value is of the type.
    let (field, negative) = ty.encode(unsafe { column::image(ty, value) });
    shape.put_field(field, key);
    if has_two_images(ty, field) {
        carried.put_byte(negative.into());
    }
}

pub(super) unsafe fn get(ty: ColumnType, field: u128, carried: &mut &[u8], tuple: &mut Tuple) -> Option<()> {
    let negative = has_two_images(ty, field) && *carried.split_off_first()? != 0;
    let field = Some(field).filter(|field| *field <= last_field(ty))?;
    // SAFETY: no frame here owns a destructor.
    unsafe { tuple.put_exact(ty, ty.decode(field, negative)) }
}

/// The same of a float, most of which have but one image.
#[inline(always)]
pub(super) unsafe fn get_float(ty: ColumnType, field: u128, carried: &mut &[u8], tuple: &mut Tuple) -> Option<()> {
    // SAFETY: no frame here owns a destructor.
    unsafe {
        match only_image(ty, field as u64) {
            Some(image) => tuple.put_integer(image, ty.bits() as usize / 8),
            None => get(ty, field, carried, tuple),
        }
    }
}

/// The image of a float's field, if it has but one.
#[inline(always)]
pub(super) fn only_image(ty: ColumnType, field: u64) -> Option<u64> {
    let all = u64::MAX >> (u64::BITS - ty.bits());
    let sign = all ^ all >> 1;
    (field != sign && field != all).then_some(field ^ if field & sign == 0 { all } else { sign })
}

/// The largest field of a type.
pub(super) fn last_field(ty: ColumnType) -> u128 {
    u128::MAX >> (128 - ty.bits())
}

/// Whether a float's field is that of 0 and -0, or of NaN and -NaN.
fn has_two_images(ty: ColumnType, field: u128) -> bool {
    ty.is_float() && (field == last_field(ty) || field == ty.encode(0).0)
}
