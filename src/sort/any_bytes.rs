//! Values that are written to files as the bytes they are.

/// What is written to a file as the bytes it is, and read back so.
///
/// # Safety
/// Any bytes are a value, and all bytes of a value are initialised: it has no padding.
pub unsafe trait AnyBytes: Copy {}

macro_rules! any_bytes {
    ($($number:ident)*) => {$(
        // SAFETY: an unsigned integer has no padding, and none of its bits forbids another.
        unsafe impl AnyBytes for $number {}
    )*};
}

any_bytes!(u32 u64 u128 usize);

/// The bytes that values are.
#[inline]
pub(super) fn bytes_of<T: AnyBytes>(values: &[T]) -> &[u8] {
    // SAFETY: `AnyBytes` says that all bytes of values are initialised; they lie side by side, and bytes may lie
    // anywhere.
    unsafe { core::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// The bytes that values are, to be written.
#[inline]
pub(super) fn bytes_of_mut<T: AnyBytes>(values: &mut [T]) -> &mut [u8] {
    // SAFETY: the bytes are those of the slice, and `AnyBytes` says that they are values whatever is written there.
    unsafe { core::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), size_of_val(values)) }
}
