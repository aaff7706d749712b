//! Texts, names and `character(n)`.

use core::slice;

use fpbtree_engine::keys::digits::DigitShape;
use pgrx::pg_sys::{self, Datum};

use super::image::Image;
use crate::values::tuple::Tuple;

/// `NAMEDATALEN`.
const NAME_LENGTH: usize = pg_sys::NAMEDATALEN as usize;

/// More blanks than any `character(n)` has.
pub(super) const MOST_BLANKS: u32 = 1 << 24;

/// The bytes of a name, or of the C string that is stored for it.
pub(super) unsafe fn name<'a>(value: Datum) -> &'a [u8] {
    // SAFETY: a name or a C string, which ends with a zero byte; a name is not read beyond its length.
    unsafe {
        let bytes = value.cast_mut_ptr::<u8>();
        let length = (0..NAME_LENGTH - 1).find(|&i| *bytes.add(i) == 0).unwrap_or(NAME_LENGTH - 1);
        slice::from_raw_parts(bytes, length)
    }
}

/// A name, or the C string that is stored for it.
pub(super) unsafe fn get_name(shape: &DigitShape, name: &[u8], image: Image, tuple: &mut Tuple) -> Option<()> {
    let whole = usize::try_from(image.length).unwrap_or(name.len() + 1);
    // SAFETY: no frame here owns a destructor.
    unsafe {
        tuple.put_with(whole, image.align.into(), |room| {
            let (text, zeros) = room.split_at_mut_checked(name.len()).filter(|(_, zeros)| !zeros.is_empty())?;
            shape.copy_text(name, text);
            zeros.fill(0);
            Some(whole)
        })
    }
}
