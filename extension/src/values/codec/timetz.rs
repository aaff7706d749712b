//! `time with time zone`: 8 bytes of local time, 4 bytes of seconds west of Greenwich. The universal time is compared
//! first, then the zone.

use pgrx::pg_sys::Datum;

pub(super) const WIDTH: u8 = 12;
const SECOND: i64 = 1_000_000;

pub(super) unsafe fn field(value: Datum) -> u128 {
    // SAFETY: the value is a time with time zone.
    let (time, zone) = unsafe {
        let stored = value.cast_mut_ptr::<u8>();
        (stored.cast::<i64>().read_unaligned(), stored.add(8).cast::<i32>().read_unaligned())
    };
    let universal = time.wrapping_add(i64::from(zone) * SECOND);
    u128::from(universal as u64 ^ 1 << 63) << 32 | u128::from(zone as u32 ^ 1 << 31)
}

pub(super) fn get(field: u128) -> [u8; WIDTH as usize] {
    let zone = (field as u32 ^ 1 << 31) as i32;
    let universal = ((field >> 32) as u64 ^ 1 << 63) as i64;
    let time = universal.wrapping_sub(i64::from(zone) * SECOND);
    let mut value = [0; WIDTH as usize];
    value[..8].copy_from_slice(&time.to_le_bytes());
    value[8..].copy_from_slice(&zone.to_le_bytes());
    value
}
