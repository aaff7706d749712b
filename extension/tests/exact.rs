//! Bounds across types, against slow and obvious references. They need no server, and so no link to one.

#[allow(dead_code, reason = "some of it only the library asks")]
#[path = "../src/values/exact.rs"]
mod exact;

use core::cmp::Ordering;

use exact::{Neighbours, integer, real, search, search_pieces};
use fpbtree_engine::keys::ColumnType::{self, Date, Float4, Float8, Int2, Int4, Int8, Timestamp, Uuid};

fn field(ty: ColumnType, value: i64) -> Option<u128> {
    Some(ty.encode(value as u128).0)
}

#[test]
fn integers_inside_the_column_are_their_own_neighbours() {
    for ty in [Int2, Int4, Int8] {
        for value in [-32768, -1, 0, 1, 32767] {
            assert_eq!(integer(ty, value), Neighbours { floor: field(ty, value), ceil: field(ty, value) });
        }
    }
}

#[test]
fn integers_outside_the_column_have_one_neighbour() {
    for (ty, least, most) in
        [(Int2, i64::from(i16::MIN), i64::from(i16::MAX)), (Int4, i32::MIN.into(), i32::MAX.into())]
    {
        for beyond in [most + 1, i64::MAX] {
            assert_eq!(integer(ty, beyond), Neighbours { floor: field(ty, most), ceil: None });
        }
        for beyond in [least - 1, i64::MIN] {
            assert_eq!(integer(ty, beyond), Neighbours { floor: None, ceil: field(ty, least) });
        }
        assert_eq!(integer(ty, most), Neighbours { floor: field(ty, most), ceil: field(ty, most) });
        assert_eq!(integer(ty, least), Neighbours { floor: field(ty, least), ceil: field(ty, least) });
    }
    for extreme in [i64::MIN, i64::MAX] {
        assert_eq!(integer(Int8, extreme), Neighbours { floor: field(Int8, extreme), ceil: field(Int8, extreme) });
    }
}

/// The server's order of floats: NaN is equal to itself and above everything.
fn compare_floats(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

fn real_of(field: u128) -> f64 {
    f64::from(f32::from_bits(Float4.decode(field, false) as u32))
}

/// Doubles around every kind of border: the doubles beside reals, and those halfway between two.
fn interesting_doubles() -> Vec<f64> {
    let mut reals = vec![0.0, f32::MIN_POSITIVE, f32::from_bits(1), f32::MAX, f32::INFINITY, 1.0, 0.1, 16777216.0];
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    for _ in 0..2000 {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        reals.push(f32::from_bits((state >> 32) as u32));
    }
    let doubles = reals.iter().flat_map(|&real| {
        let (wide, next) = (f64::from(real), f64::from(real.next_up()));
        [wide, wide.next_up(), wide.next_down(), (wide + next) / 2.0]
    });
    let mut doubles: Vec<f64> = doubles.collect();
    doubles.extend([f64::MAX, f64::MIN_POSITIVE, f64::from_bits(1), 1e39, f64::INFINITY, f64::NAN]);
    doubles.iter().flat_map(|&double| [double, -double]).collect()
}

#[test]
fn neighbours_of_doubles_among_reals_are_the_nearest() {
    for arg in interesting_doubles() {
        let Neighbours { floor, ceil } = real(arg);
        let (floor, ceil) = (floor.unwrap(), ceil.unwrap());
        let (below, above) = (real_of(floor), real_of(ceil));
        assert!(compare_floats(below, arg).is_le(), "{arg}: {below}");
        assert!(compare_floats(above, arg).is_ge(), "{arg}: {above}");
        if floor == ceil {
            assert!(compare_floats(below, arg).is_eq(), "{arg}: {below}");
        } else {
            // Nothing lies between them: the next real above the lower one is the upper one.
            let next = (real_of(floor) as f32).next_up();
            assert_eq!(compare_floats(next.into(), above), Ordering::Equal, "{arg}: {below} {above}");
        }
    }
}

#[test]
fn searching_finds_what_arithmetic_finds() {
    for arg in [i64::MIN, -2147483649, -2147483648, -32769, -32768, -1, 0, 1, 32767, 32768, 2147483648, i64::MAX] {
        for ty in [Int2, Int4, Int8] {
            let unused = 64 - ty.bits();
            let value = |field| ((ty.decode(field, false) as u64) << unused) as i64 >> unused;
            assert_eq!(search(ty, |field| value(field).cmp(&arg)), integer(ty, arg));
        }
    }
    for arg in interesting_doubles() {
        let (found, expected) = (search(Float4, |field| compare_floats(real_of(field), arg)), real(arg));
        // Around zero the search may stop at a field between the reals; it bounds the same values.
        let values = |n: Neighbours| (n.floor.map(real_of), n.ceil.map(real_of));
        if arg.is_nan() {
            assert_eq!(found, expected);
        } else {
            assert_eq!(values(found), values(expected), "{arg}");
        }
        let double = |field: u128| f64::from_bits(Float8.decode(field, false) as u64);
        let same = Float8.encode(arg.to_bits().into()).0;
        let found = search(Float8, |field| compare_floats(double(field), arg));
        assert!((found.ceil..=found.floor).contains(&Some(same)), "{arg}");
    }
}

#[test]
fn every_uuid_can_be_found() {
    for arg in [0, 1, u128::MAX / 3, u128::MAX - 1, u128::MAX] {
        assert_eq!(search(Uuid, |field| field.cmp(&arg)), Neighbours::same(arg));
    }
}

const DAY: i128 = 86_400_000_000;

/// A date's field as the microsecond it starts at; the infinities beyond every timestamp.
fn start_of_day(field: u128) -> i128 {
    match Date.decode(field, false) as i32 {
        i32::MIN => i128::MIN,
        i32::MAX => i128::MAX,
        day => {
            assert!((-2_451_545..2_145_031_949).contains(&day), "not a date: {day}");
            i128::from(day) * DAY
        }
    }
}

#[test]
fn a_moment_lies_between_two_days() {
    let search = |moment: i128| search(Date, |field| start_of_day(field).cmp(&moment));
    let day = |day: i64| field(Date, day);
    assert_eq!(search(0), Neighbours { floor: day(0), ceil: day(0) });
    assert_eq!(search(1), Neighbours { floor: day(0), ceil: day(1) });
    assert_eq!(search(-1), Neighbours { floor: day(-1), ceil: day(0) });
    let (least, most) = (-2_451_545, 2_145_031_948);
    assert_eq!(search(i128::from(least) * DAY - 1), Neighbours { floor: day(i32::MIN.into()), ceil: day(least) });
    assert_eq!(search(i128::from(most) * DAY + 1), Neighbours { floor: day(most), ceil: day(i32::MAX.into()) });
    assert_eq!(search(i128::MIN), Neighbours { floor: day(i32::MIN.into()), ceil: day(i32::MIN.into()) });
    assert_eq!(search(i128::MAX), Neighbours { floor: day(i32::MAX.into()), ceil: day(i32::MAX.into()) });
}

#[test]
fn a_day_among_moments() {
    let moment = |field| match Timestamp.decode(field, false) as i64 {
        i64::MIN => i128::MIN,
        i64::MAX => i128::MAX,
        moment => {
            assert!((-211_813_488_000_000_000..9_223_371_331_200_000_000).contains(&moment), "not a moment: {moment}");
            i128::from(moment)
        }
    };
    for day in [-2_451_545, -1, 0, 1, 8000, 106_751_982] {
        let found = search(Timestamp, |field| moment(field).cmp(&(i128::from(day) * DAY)));
        let start = field(Timestamp, day * DAY as i64);
        assert_eq!(found, Neighbours { floor: start, ceil: start });
    }
    let late = search(Timestamp, |field| moment(field).cmp(&(2_145_031_948 * DAY)));
    let last = field(Timestamp, 9_223_371_331_199_999_999);
    assert_eq!(late, Neighbours { floor: last, ceil: field(Timestamp, i64::MAX) });
}

#[test]
fn pieces_of_an_order_that_jumps_back_are_searched_one_by_one() {
    // From 100 on the clocks are 60 ahead, and 30 more from 200 on: of an equal moment there are up to three times.
    let moment = |time: i64| match time {
        ..100 => time,
        100..200 => time - 60,
        _ => time - 90,
    };
    let time = |field: u128| Timestamp.decode(field, false) as i64;
    let cuts = [50, 100, 100, 200].map(|time| field(Timestamp, time).unwrap());
    for arg in -10..300 {
        let found = |wants: fn(Neighbours) -> Option<(u128, u128)>| {
            let mut found = Vec::new();
            let compare = |field| match time(field) {
                i64::MIN => Ordering::Less,
                i64::MAX => Ordering::Greater,
                time => moment(time).cmp(&arg),
            };
            search_pieces(Timestamp, &cuts, compare, wants, |range| found.push(range));
            assert!(found.is_sorted_by(|a, b| a.1 < b.0), "{found:?}");
            move |time| {
                let field = field(Timestamp, time).unwrap();
                found.iter().any(|range| (range.0..=range.1).contains(&field))
            }
        };
        let equal = found(|Neighbours { floor, ceil }| Some((ceil?, floor?)));
        let at_least = found(|Neighbours { ceil, .. }| Some((ceil?, u128::MAX)));
        for time in -500..500 {
            assert_eq!(equal(time), moment(time) == arg, "{time} = {arg}");
            assert_eq!(at_least(time), moment(time) >= arg, "{time} >= {arg}");
        }
        assert!(!at_least(i64::MIN) && at_least(i64::MAX));
    }
}
