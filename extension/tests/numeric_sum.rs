//! Sums of numerics. They need no server, and so no link to one.

#[path = "../src/values/numeric_sum.rs"]
mod numeric_sum;

use fpbtree_engine::keys::digits::DecimalClass::{self, NaN, Negative, NegativeInfinity, Positive, PositiveInfinity};
use numeric_sum::{Number, NumericSum};

/// The sum of numbers of some digits each, the greatest of which has a weight. None if one is not taken.
fn sum(numbers: &[(DecimalClass, i32, u16, &[u16])]) -> Option<String> {
    let mut sum = NumericSum::default();
    for &(class, weight, scale, digits) in numbers {
        let digits: Vec<[u8; 2]> = digits.iter().map(|digit| digit.to_ne_bytes()).collect();
        sum.add(&Number { class, weight, scale, digits: &digits })?;
    }
    let mut text = String::new();
    sum.write(&mut text).ok()?;
    let (sign, digits) = text.strip_prefix('-').map_or(("", text.as_str()), |digits| ("-", digits));
    let digits = digits.trim_start_matches('0');
    Some(format!("{sign}{}{digits}", if digits.is_empty() || digits.starts_with('.') { "0" } else { "" }))
}

#[test]
fn numbers_are_added_digit_by_digit() {
    let text = |numbers: &[_]| sum(numbers).unwrap_or_default();
    assert_eq!(text(&[]), "0");
    assert_eq!(text(&[(Positive, 0, 2, &[1, 5000]), (Positive, 0, 0, &[2])]), "3.50");
    assert_eq!(text(&[(Positive, 0, 2, &[1, 5000]), (Negative, 0, 1, &[2])]), "-0.50");
    assert_eq!(text(&[(Positive, 1, 0, &[9999, 9999]), (Positive, 0, 0, &[1])]), "100000000");
    assert_eq!(text(&[(Negative, 1, 4, &[9999, 9999]), (Negative, -1, 8, &[1])]), "-99999999.00010000");
    assert_eq!(text(&[(Positive, -1, 3, &[100]), (Negative, -1, 3, &[100])]), "0.000");
    assert_eq!(text(&[(Positive, -2, 7, &[1230])]), "0.0000123");
    let top: &[u16] = &[9999; 16];
    let three = [(Negative, 7, 32, top); 3];
    assert_eq!(text(&three), format!("-2{}.{}7", "9".repeat(32), "9".repeat(31)));
}

#[test]
fn numbers_beyond_the_places_are_not_taken() {
    assert_eq!(sum(&[(Positive, 8, 0, &[1])]), None);
    assert_eq!(sum(&[(Positive, -8, 32, &[1, 1])]), None);
    assert_eq!(sum(&[(Positive, 0, 33, &[1])]), None);
    assert!(sum(&[(Positive, -8, 32, &[1])]).is_some_and(|text| text.ends_with("0001")));
}

#[test]
fn what_is_no_number_is_called_by_its_name() {
    let special = |classes: &[DecimalClass]| {
        let mut sum = NumericSum::default();
        for &class in classes {
            assert!(sum.add(&Number { class, weight: 0, scale: 0, digits: &[] }).is_some());
        }
        sum.special()
    };
    assert_eq!(special(&[Positive]), None);
    assert_eq!(special(&[PositiveInfinity, Positive]), Some("Infinity"));
    assert_eq!(special(&[NegativeInfinity]), Some("-Infinity"));
    assert_eq!(special(&[NegativeInfinity, PositiveInfinity]), Some("NaN"));
    assert_eq!(special(&[NaN, PositiveInfinity]), Some("NaN"));
}
