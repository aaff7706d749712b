//! Numbers of a residue.

use fpbtree_engine::keys::digits::Buffer;

/// Puts a number, seven bits a byte.
pub(super) fn put_count<const M: usize>(mut count: u32, carried: &mut Buffer<M>) {
    while count >= 0x80 {
        carried.put_byte(count as u8 | 0x80);
        count >>= 7;
    }
    carried.put_byte(count as u8);
}

/// Takes a number that [`put_count`] put.
pub(super) fn take_count(carried: &mut &[u8]) -> Option<u32> {
    let mut count = 0u64;
    for shift in (0..35).step_by(7) {
        let byte = *carried.split_off_first()?;
        count |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return count.try_into().ok();
        }
    }
    None
}

/// A signed number as one whose size is that of its magnitude.
pub(super) fn folded(number: i32) -> u32 {
    ((number << 1) ^ (number >> 31)) as u32
}

/// What was [`folded`].
pub(super) fn unfolded(folded: u32) -> i32 {
    (folded >> 1) as i32 ^ -((folded & 1) as i32)
}
