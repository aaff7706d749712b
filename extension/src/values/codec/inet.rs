//! `inet` and `cidr`: the family, the number of bits of the network, the address.
//!
//! Compared are the family, the network as far as both go, its number of bits, and the address. The bytes of family,
//! network, number and host, the other parts zero in each, are in that order; zeros at the end are known by the family.

use fpbtree_engine::keys::digits::{Buffer, DigitShape};

/// Families, and bytes of their addresses.
const FAMILIES: [(u8, usize); 2] = [(2, 4), (3, 16)];
/// The longest: a family, a network, a number of bits and a host.
pub(super) const MOST: usize = 2 + 2 * 16;

fn width(family: u8) -> Option<usize> {
    FAMILIES.iter().find(|(known, _)| *known == family).map(|(_, width)| *width)
}

/// The network's bits in the byte of an address.
fn mask(bits: u8, byte: usize) -> u8 {
    match usize::from(bits).saturating_sub(8 * byte) {
        0 => 0,
        n @ 1..8 => 0xFF << (8 - n),
        _ => 0xFF,
    }
}

pub(super) fn put<const N: usize>(shape: &DigitShape, stored: &[u8], key: &mut Buffer<N>) {
    let &[family, bits, ref address @ ..] = stored else { return };
    let Some(width) = width(family).filter(|width| *width <= address.len()) else { return };
    let mut parts = [0; MOST];
    parts[0] = family;
    parts[1 + width] = bits;
    for (i, byte) in address[..width].iter().enumerate() {
        parts[1 + i] = byte & mask(bits, i);
        parts[2 + width + i] = byte & !mask(bits, i);
    }
    let zeros = parts.iter().rev().take_while(|byte| **byte == 0).count();
    shape.put_bytes(&parts[..MOST - zeros], key);
}

pub(super) fn get(shape: &DigitShape, key: &mut &[u8], out: &mut [u8]) -> Option<usize> {
    let mut parts = [0; MOST];
    shape.take_bytes(key, &mut parts)?;
    let [family, parts @ ..] = parts;
    let width = width(family)?;
    let bits = Some(parts[width]).filter(|bits| usize::from(*bits) <= 8 * width)?;
    (out[0], out[1]) = (family, bits);
    for (i, byte) in out[2..2 + width].iter_mut().enumerate() {
        *byte = parts[i] | parts[width + 1 + i];
    }
    Some(2 + width)
}
