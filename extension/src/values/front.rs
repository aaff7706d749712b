//! The bytes that arrays and ranges are told apart by.

/// Bytes that are made of a value.
pub const FRONT: usize = 8;

/// What an array ends with, and what all of an empty range is.
pub const END: u8 = 0;
/// No lower bound.
pub const UNBOUNDED: u8 = 1;
/// An element that is zero. Those with so many bytes more or less than zero are as far from it.
const ZERO: u8 = 0x80;
/// An element that is NULL.
pub const NULL: u8 = u8::MAX;

/// The bytes that there are so far.
pub struct Front {
    bytes: [u8; FRONT],
    used: usize,
}

impl Front {
    /// None yet.
    pub const fn new() -> Front {
        Front { bytes: [0; FRONT], used: 0 }
    }

    /// All, zeros behind those that were put.
    pub const fn bytes(&self) -> [u8; FRONT] {
        self.bytes
    }

    /// Whether nothing more is kept.
    pub const fn is_full(&self) -> bool {
        self.used == FRONT
    }

    /// Puts what there is room for.
    pub fn put(&mut self, bytes: &[u8]) {
        let length = bytes.len().min(FRONT - self.used);
        self.bytes[self.used..self.used + length].copy_from_slice(&bytes[..length]);
        self.used += length;
    }

    /// Puts a number as its distance from zero, in as few bytes as that has: small numbers are the commonest.
    pub fn put_field(&mut self, field: u128, zero: u128) {
        let (distance, is_below) = if field < zero { (zero - field, true) } else { (field - zero, false) };
        let length = (u128::BITS - distance.leading_zeros()).div_ceil(8) as usize;
        let bytes = (if is_below { !distance } else { distance }).to_be_bytes();
        self.put(&[if is_below { ZERO - length as u8 } else { ZERO + length as u8 }]);
        self.put(&bytes[bytes.len() - length..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fpbtree_engine::keys::ColumnType;

    fn front(fields: &[Option<i64>]) -> [u8; FRONT] {
        let mut front = Front::new();
        for field in fields {
            match field {
                Some(value) => front.put_field(ColumnType::Int8.encode(*value as u64 as u128).0, 1 << 63),
                None => front.put(&[NULL]),
            }
        }
        front.put(&[END]);
        front.bytes()
    }

    #[test]
    fn fronts_are_in_order() {
        let numbers = [i64::MIN, i64::MIN + 1, -70_000, -65_536, -256, -255, -1, 0, 1, 255, 256, 65_536, i64::MAX];
        let numbers: Vec<Option<i64>> = numbers.map(Some).into_iter().chain([None]).collect();
        for pair in numbers.windows(2) {
            assert!(front(&pair[..1]) < front(&pair[1..]), "{pair:?}");
            assert!(front(&[]) < front(&pair[..1]), "{pair:?}");
            assert!(front(&pair[..1]) <= front(&[pair[0], Some(i64::MIN)]), "{pair:?}");
            assert!(front(&[pair[0], None]) <= front(&pair[1..]), "{pair:?}");
        }
        assert!(front(&[Some(1), Some(2)]) < front(&[Some(1), Some(3)]));
        assert!(front(&[Some(1), Some(2)]) < front(&[Some(2)]));
    }
}
