//! `bit` and `bit varying`: 4 bytes with the number of bits, then the bits.

use fpbtree_engine::keys::digits::{Buffer, DigitShape};

const COUNT: usize = 4;

pub(super) fn put<const N: usize>(shape: &DigitShape, stored: &[u8], key: &mut Buffer<N>) {
    if let Some((count, bytes)) = stored.split_first_chunk::<COUNT>() {
        shape.put_bits(bytes, u32::from_le_bytes(*count) as usize, key);
    }
}

/// The most bytes that a bit string at the front of `key` has.
pub(super) fn most(key: &[u8]) -> usize {
    COUNT + key.len()
}

pub(super) fn get(shape: &DigitShape, key: &mut &[u8], out: &mut [u8]) -> Option<usize> {
    let (count, bytes) = out.split_first_chunk_mut::<COUNT>()?;
    let bits = shape.take_bits(key, bytes)?;
    *count = i32::try_from(bits).ok()?.to_le_bytes();
    Some(COUNT + bits.div_ceil(8))
}
