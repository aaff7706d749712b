use core::cmp::Ordering;

use proptest::prelude::*;

use super::*;

type Digit = Buffer<64>;

/// A value of some kind; NULL is None.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    Field(u128),
    Bytes(Vec<u8>),
    Bits(Vec<u8>, usize),
    Number(Decimal, Vec<[u8; 2]>),
    Opaque(Vec<u8>, Vec<u8>),
}

const VALUE_LENGTHS: [ValueLength; 4] =
    [ValueLength::Fixed(5), ValueLength::Variable, ValueLength::Bytes, ValueLength::CString];

fn ascending(kind: DigitKind) -> DigitShape {
    DigitShape { kind, descending: false, nulls_first: false }
}

fn number(class: DecimalClass, weight: i32, digits: &[u16]) -> Value {
    Value::Number(Decimal { class, weight }, digits.iter().map(|digit| digit.to_ne_bytes()).collect())
}

fn encode<const N: usize>(shape: &DigitShape, value: &Option<Value>, buffer: &mut Buffer<N>) {
    match value {
        None => shape.put_null(buffer),
        Some(Value::Field(field)) => shape.put_field(*field, buffer),
        Some(Value::Bytes(bytes)) if shape.kind == DigitKind::Text => shape.put_text(bytes, buffer),
        Some(Value::Bytes(bytes)) => shape.put_bytes(bytes, buffer),
        Some(Value::Bits(bytes, bits)) => shape.put_bits(bytes, *bits, buffer),
        Some(Value::Number(decimal, digits)) => shape.put_numeric(*decimal, digits, buffer),
        Some(Value::Opaque(prefix, value)) => shape.put_opaque(prefix, value, buffer),
    }
}

fn encoded(shape: &DigitShape, value: &Option<Value>) -> Vec<u8> {
    let mut buffer = Buffer::<4096>::new();
    encode(shape, value, &mut buffer);
    assert!(buffer.fits());
    buffer.as_slice().to_vec()
}

/// The value of the digit at the front of `bytes`, that of an opaque one without its prefix.
fn decoded(shape: &DigitShape, bytes: &mut &[u8]) -> Option<Option<Value>> {
    let mut out = [0; 4096];
    if shape.take_null(bytes) {
        return Some(None);
    }
    Some(Some(match shape.kind {
        DigitKind::Fixed(_) => Value::Field(shape.take_field(bytes)?),
        DigitKind::Text => {
            let text = shape.take_text(bytes)?;
            shape.copy_text(text, &mut out);
            Value::Bytes(out[..text.len()].to_vec())
        }
        DigitKind::Bytes => {
            let n = shape.take_bytes(bytes, &mut out)?;
            Value::Bytes(out[..n].to_vec())
        }
        DigitKind::Bits => {
            let bits = shape.take_bits(bytes, &mut out)?;
            Value::Bits(out[..bits.div_ceil(8)].to_vec(), bits)
        }
        DigitKind::Numeric => {
            let mut digits = [[0; 2]; 2048];
            let (decimal, n) = shape.take_numeric(bytes, &mut digits)?;
            Value::Number(decimal, digits[..n].to_vec())
        }
        DigitKind::Opaque { value, .. } => {
            let stored = shape.take_opaque(bytes)?;
            let content = match value {
                ValueLength::Fixed(_) => stored,
                ValueLength::CString => &stored[..stored.len() - 1],
                ValueLength::Variable if stored[0] & 1 == 1 => &stored[1..],
                ValueLength::Variable | ValueLength::Bytes => &stored[4..],
            };
            Value::Opaque(Vec::new(), content.to_vec())
        }
    }))
}

/// The powers and digits that make up a number: what it is compared by.
fn places(decimal: &Decimal, digits: &[[u8; 2]]) -> Vec<(i32, u16)> {
    let values = digits.iter().map(|digit| u16::from_ne_bytes(*digit));
    let places = values.enumerate().map(|(i, digit)| (decimal.weight - i as i32, digit));
    places.filter(|(_, digit)| *digit != 0).collect()
}

/// The order of two values as PostgreSQL defines it; that of opaque ones is their prefixes'.
fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Field(a), Value::Field(b)) => a.cmp(b),
        (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
        (Value::Bits(a, m), Value::Bits(b, n)) => {
            let shared = a.len().min(b.len());
            a[..shared].cmp(&b[..shared]).then(m.cmp(n))
        }
        (Value::Number(a, x), Value::Number(b, y)) => a.class.cmp(&b.class).then_with(|| {
            let order = places(a, x).cmp(&places(b, y));
            if a.class == DecimalClass::Negative { order.reverse() } else { order }
        }),
        (Value::Opaque(a, _), Value::Opaque(b, _)) => a.cmp(b),
        _ => unreachable!("values of two kinds"),
    }
}

fn compare_in(shape: &DigitShape, a: &Option<Value>, b: &Option<Value>) -> Ordering {
    let nulls = if shape.nulls_first { Ordering::Less } else { Ordering::Greater };
    match (a, b) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => nulls,
        (Some(_), None) => nulls.reverse(),
        (Some(a), Some(b)) if shape.descending => compare(b, a),
        (Some(a), Some(b)) => compare(a, b),
    }
}

/// How keys are compared: zero bytes follow the shorter one.
fn compare_padded(a: &[u8], b: &[u8]) -> Ordering {
    let n = a.len().max(b.len());
    let padded = |bytes: &[u8]| bytes.iter().copied().chain(core::iter::repeat(0)).take(n).collect::<Vec<_>>();
    padded(a).cmp(&padded(b))
}

/// What the value is when it comes back.
fn plain(value: Option<Value>) -> Option<Value> {
    value.map(|value| match value {
        Value::Number(decimal, digits) => match places(&decimal, &digits).as_slice() {
            [] => number(decimal.class, 0, &[]),
            [(first, _), .., (last, _)] => between(decimal.class, *first, *last, &decimal, &digits),
            [(only, _)] => between(decimal.class, *only, *only, &decimal, &digits),
        },
        Value::Opaque(_, value) => Value::Opaque(Vec::new(), value),
        value => value,
    })
}

fn between(class: DecimalClass, first: i32, last: i32, decimal: &Decimal, digits: &[[u8; 2]]) -> Value {
    let at = |power: i32| (decimal.weight - power) as usize;
    Value::Number(Decimal { class, weight: first }, digits[at(first)..=at(last)].to_vec())
}

fn any_kind() -> impl Strategy<Value = DigitKind> {
    let opaque = (0u8..4, prop::sample::select(&VALUE_LENGTHS[..]));
    prop_oneof![
        (1u8..=16).prop_map(DigitKind::Fixed),
        Just(DigitKind::Text),
        Just(DigitKind::Bytes),
        Just(DigitKind::Bits),
        Just(DigitKind::Numeric),
        opaque.prop_map(|(prefix, value)| DigitKind::Opaque { prefix, value }),
    ]
}

fn any_shape() -> impl Strategy<Value = DigitShape> {
    (any_kind(), any::<bool>(), any::<bool>()).prop_map(|(kind, descending, nulls_first)| DigitShape {
        kind,
        descending,
        nulls_first,
    })
}

/// Mostly bytes that mean something to the encodings, and now and then more than a short length can say.
fn any_bytes(lowest: u8) -> impl Strategy<Value = Vec<u8>> {
    let byte = move || prop_oneof![lowest..=3, 0xFCu8..=0xFF, lowest..=0xFF];
    prop_oneof![
        20 => prop::collection::vec(byte(), 0..6),
        2 => prop::collection::vec(byte(), 0..300),
        1 => prop::collection::vec(byte(), 124..130),
    ]
}

fn any_bits() -> impl Strategy<Value = Value> {
    (any_bytes(0), 0usize..8).prop_map(|(mut bytes, unused)| {
        let unused = if bytes.is_empty() { 0 } else { unused };
        if let Some(last) = bytes.last_mut() {
            *last &= 0xFF << unused;
        }
        let bits = 8 * bytes.len() - unused;
        Value::Bits(bytes, bits)
    })
}

fn any_number() -> impl Strategy<Value = Value> {
    use DecimalClass::*;
    let digit = || prop_oneof![2 => Just(0u16), 3 => 1u16..4, 1 => 250u16..260, 1 => 9_997u16..10_000];
    let digits = prop_oneof![10 => prop::collection::vec(digit(), 0..5), 1 => prop::collection::vec(digit(), 0..99)];
    let weight = prop_oneof![5 => -2i32..3, 1 => 250i32..260, 1 => -0x7000i32..=0x7FFF];
    let special = prop::sample::select(&[NegativeInfinity, Zero, PositiveInfinity, NaN][..]);
    prop_oneof![
        6 => (any::<bool>(), weight, digits).prop_map(|(negative, weight, digits)| {
            let zero = digits.iter().all(|digit| *digit == 0);
            let class = if zero { Zero } else if negative { Negative } else { Positive };
            number(class, weight, &digits)
        }),
        1 => special.prop_map(|class| number(class, 0, &[])),
    ]
}

fn any_field(width: u8) -> impl Strategy<Value = Value> {
    let all = u128::MAX >> (128 - 8 * u32::from(width));
    let field = prop_oneof![0u128..3, (0u128..3).prop_map(move |less| all - less), any::<u128>()];
    field.prop_map(move |field| Value::Field(field & all))
}

fn any_opaque(prefix: u8, length: ValueLength) -> impl Strategy<Value = Value> {
    let value = match length {
        ValueLength::Fixed(width) => prop::collection::vec(any::<u8>(), usize::from(width)).boxed(),
        ValueLength::CString => any_bytes(1).boxed(),
        ValueLength::Variable | ValueLength::Bytes => any_bytes(0).boxed(),
    };
    (prop::collection::vec(any::<u8>(), usize::from(prefix)), value)
        .prop_map(|(prefix, value)| Value::Opaque(prefix, value))
}

fn any_value(kind: DigitKind) -> impl Strategy<Value = Option<Value>> {
    let value = match kind {
        DigitKind::Fixed(width) => any_field(width).boxed(),
        DigitKind::Text => any_bytes(1).prop_map(Value::Bytes).boxed(),
        DigitKind::Bytes => any_bytes(0).prop_map(Value::Bytes).boxed(),
        DigitKind::Bits => any_bits().boxed(),
        DigitKind::Numeric => any_number().boxed(),
        DigitKind::Opaque { prefix, value } => any_opaque(prefix, value).boxed(),
    };
    prop::option::weighted(0.9, value)
}

fn shape_and_values() -> impl Strategy<Value = (DigitShape, [Option<Value>; 2])> {
    any_shape().prop_flat_map(|shape| (Just(shape), [any_value(shape.kind), any_value(shape.kind)]))
}

/// The columns of an index, and two rows.
type Rows = Vec<(DigitShape, [Option<Value>; 2])>;

fn any_rows() -> impl Strategy<Value = Rows> {
    let transparent = || shape_and_values().prop_filter("opaque", |(shape, _)| !shape.is_opaque());
    // Half of the time the first columns are equal, so that later ones decide.
    let column = (transparent(), any::<bool>()).prop_map(|((shape, [a, b]), equal)| {
        let b = if equal { a.clone() } else { b };
        (shape, [a, b])
    });
    prop::collection::vec(column, 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn digits_are_ordered_as_values((shape, [a, b]) in shape_and_values()) {
        let (x, y) = (encoded(&shape, &a), encoded(&shape, &b));
        let expected = compare_in(&shape, &a, &b);
        match shape.kind {
            DigitKind::Opaque { .. } => prop_assert!(expected.is_eq() || compare_padded(&x, &y) == expected),
            _ => prop_assert_eq!(compare_padded(&x, &y), expected),
        }
    }

    #[test]
    fn keys_are_ordered_as_rows(rows in any_rows()) {
        let key = |row: usize| rows.iter().flat_map(|(shape, values)| encoded(shape, &values[row])).collect::<Vec<_>>();
        let orders = rows.iter().map(|(shape, [a, b])| compare_in(shape, a, b));
        prop_assert_eq!(compare_padded(&key(0), &key(1)), orders.fold(Ordering::Equal, Ordering::then));
    }

    #[test]
    fn no_digit_begins_another((shape, [a, b]) in shape_and_values()) {
        let (x, y) = (encoded(&shape, &a), encoded(&shape, &b));
        prop_assert!(x == y || !y.starts_with(&x));
    }

    #[test]
    fn values_come_back((shape, [value, _]) in shape_and_values(), behind in any_bytes(0)) {
        let digit = encoded(&shape, &value);
        let key = [digit.as_slice(), &behind].concat();
        prop_assert_eq!(shape.length(&key), Some(digit.len()));
        let mut left = key.as_slice();
        prop_assert_eq!(decoded(&shape, &mut left), Some(plain(value)));
        prop_assert_eq!(left, behind);
        for cut in 0..digit.len() {
            prop_assert_eq!(shape.length(&digit[..cut]), None);
        }
    }

    /// What was put as one shape says comes back through every other that reads it.
    #[test]
    fn other_shapes_read_digits((shape, [value, _]) in shape_and_values(), other in any_shape()) {
        let long = |kind| match kind {
            DigitKind::Opaque { prefix, value: ValueLength::Variable } => {
                DigitKind::Opaque { prefix, value: ValueLength::Bytes }
            }
            other => other,
        };
        let stored = DigitShape { kind: long(shape.kind), ..shape };
        prop_assert!(shape.reads(&stored) && shape.reads(&shape) && (stored == shape || !stored.reads(&shape)));
        prop_assert_eq!(shape.reads(&other), other == shape || other == stored);
        let digit = encoded(&stored, &value);
        prop_assert_eq!(decoded(&shape, &mut digit.as_slice()), decoded(&stored, &mut digit.as_slice()));
    }

    /// What is read in its place is what is taken, of whole digits and of whatever a damaged page holds.
    #[test]
    fn values_are_read_in_place((shape, [value, _]) in shape_and_values(), behind in any_bytes(0), damaged: bool) {
        let digit = if damaged { vec![DigitShape::VALUE] } else { encoded(&shape, &value) };
        let key = [digit.as_slice(), &behind, &[0; 16]].concat();
        let (mut left, mut digits) = (key.as_slice(), [[0; 2]; 2048]);
        match shape.kind {
            DigitKind::Fixed(1..=8) => {
                let taken = shape.take_field(&mut left).map(|field| (field as u64, key.len() - left.len()));
                prop_assert_eq!(shape.word(&key), taken);
                prop_assert_eq!(shape.word(&key[..8]), None);
            }
            DigitKind::Text => {
                let taken = shape.take_text(&mut left).filter(|_| !shape.descending);
                prop_assert_eq!(shape.text_length(&key), taken.map(<[u8]>::len));
            }
            DigitKind::Numeric => {
                let taken = shape.take_numeric(&mut left, &mut digits).filter(|(number, _)| number.class.has_digits());
                let mut changed = key.clone();
                let unfolded = shape.unfold_numeric(&mut changed);
                prop_assert_eq!(unfolded, taken.map(|(number, count)| (number, count, key.len() - left.len())));
                if let Some((_, count, _)) = unfolded {
                    prop_assert_eq!(&changed[DigitShape::NUMBER..].as_chunks().0[..count], &digits[..count]);
                }
            }
            _ => prop_assert!(shape.word(&key).is_none()),
        }
    }

    /// Whatever a damaged page holds, nothing panics, and nothing is read that is not there.
    #[test]
    fn any_bytes_are_decoded(shape in any_shape(), bytes in any_bytes(0)) {
        let value = [&[DigitShape::VALUE], bytes.as_slice()].concat();
        for bytes in [bytes, value] {
            let (length, mut left) = (shape.length(&bytes), bytes.as_slice());
            let value = decoded(&shape, &mut left);
            if let Some(length) = length {
                prop_assert_eq!(&value, &decoded(&shape, &mut &bytes[..length]));
                prop_assert!(value.is_none() || left.len() == bytes.len() - length);
            } else {
                prop_assert_eq!(value, None);
            }
        }
    }

    #[test]
    fn nothing_is_copied_beyond_the_room((shape, [value, _]) in shape_and_values(), room in 0usize..6) {
        let digit = encoded(&shape, &value);
        let (mut out, digit) = ([0; 6], &mut digit.as_slice());
        let n = match shape.kind {
            DigitKind::Bytes => shape.take_bytes(digit, &mut out[..room]),
            DigitKind::Bits => shape.take_bits(digit, &mut out[..room]).map(|bits| bits.div_ceil(8)),
            DigitKind::Numeric => shape.take_numeric(digit, &mut [[0; 2]; 6][..room]).map(|(_, n)| n),
            DigitKind::Fixed(_) | DigitKind::Text | DigitKind::Opaque { .. } => return Ok(()),
        };
        let needed = match plain(value) {
            Some(Value::Bytes(bytes) | Value::Bits(bytes, _)) => Some(bytes.len()),
            Some(Value::Number(_, digits)) => Some(digits.len()),
            _ => None,
        };
        prop_assert_eq!(n, needed.filter(|needed| *needed <= room));
        prop_assert!(out[room..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn what_does_not_fit_is_counted((shape, [value, _]) in shape_and_values()) {
        let digit = encoded(&shape, &value);
        let mut buffer = Digit::new();
        encode(&shape, &value, &mut buffer);
        prop_assert_eq!(buffer.len(), digit.len());
        prop_assert_eq!(buffer.fits(), digit.len() <= 64);
        prop_assert_eq!(buffer.as_slice(), &digit[..digit.len().min(64)]);
        buffer.clear();
        prop_assert!(buffer.is_empty() && buffer.as_slice().is_empty());
    }

    #[test]
    fn bytes_are_found(bytes in any_bytes(0), wanted: u8) {
        for wanted in [wanted, 0, 1, 0xFF] {
            prop_assert_eq!(find(&bytes, wanted), bytes.iter().position(|byte| *byte == wanted));
        }
    }

    #[test]
    fn shapes_come_back(shape in any_shape(), bytes: [u8; 4]) {
        prop_assert_eq!(DigitShape::from_bytes(shape.to_bytes()), Some(shape));
        if let Some(shape) = DigitShape::from_bytes(bytes) {
            prop_assert_eq!(shape.to_bytes(), bytes);
        }
    }
}

#[test]
fn digits_look_as_documented() {
    let of = |kind, value| encoded(&ascending(kind), &Some(value));
    assert_eq!(of(DigitKind::Fixed(2), Value::Field(0x1234)), [1, 0x12, 0x34]);
    assert_eq!(of(DigitKind::Text, Value::Bytes(b"ab".into())), *b"\x01ab\0");
    assert_eq!(of(DigitKind::Bytes, Value::Bytes(b"a\0".into())), *b"\x01a\x00\xFF\x00\x01");
    assert_eq!(of(DigitKind::Bits, Value::Bits(vec![0xA0], 3)), [1, 0xA0, 0, 1, 3]);
    assert_eq!(of(DigitKind::Bits, Value::Bits(vec![], 0)), [1, 0, 1, 0]);
    let positive = number(DecimalClass::Positive, 1, &[0, 12, 0]);
    assert_eq!(of(DigitKind::Numeric, positive), [1, 4, 0x80, 0, 1, 12, 0]);
    let negative = number(DecimalClass::Negative, 0, &[12]);
    assert_eq!(of(DigitKind::Numeric, negative), [1, 2, 0x7F, 0xFF, 0xFE, 0xF3, 0xFF]);
    let variable = DigitKind::Opaque { prefix: 1, value: ValueLength::Variable };
    assert_eq!(of(variable, Value::Opaque(vec![9], b"abc".into())), [1, 9, 4 << 1 | 1, b'a', b'b', b'c']);
    let long = DigitKind::Opaque { prefix: 0, value: ValueLength::Bytes };
    assert_eq!(of(long, Value::Opaque(vec![], b"a".into())), [1, 5 << 2, 0, 0, 0, b'a']);
}

#[test]
fn descending_digits_are_inverted_but_for_marker_and_opaque_value() {
    let of = |kind, value| encoded(&DigitShape { descending: true, ..ascending(kind) }, &Some(value));
    assert_eq!(of(DigitKind::Fixed(2), Value::Field(0x1234)), [1, 0xED, 0xCB]);
    assert_eq!(of(DigitKind::Text, Value::Bytes(vec![1, 2])), [1, 0xFE, 0xFD, 0xFF]);
    assert_eq!(of(DigitKind::Bytes, Value::Bytes(vec![0])), [1, 0xFF, 0, 0xFF, 0xFE]);
    let cstring = DigitKind::Opaque { prefix: 1, value: ValueLength::CString };
    assert_eq!(of(cstring, Value::Opaque(vec![9], vec![1])), [1, !9, 1, 0]);
}

#[test]
fn nulls_have_one_byte_wherever_they_sort() {
    let last = ascending(DigitKind::Text);
    let first = DigitShape { nulls_first: true, descending: true, ..last };
    assert_eq!((encoded(&last, &None), encoded(&first, &None)), (vec![2], vec![0]));
    assert_eq!((last.length(&[2, 7]), first.length(&[0, 7])), (Some(1), Some(1)));
    // A key that was cut short goes on with zero bytes.
    assert_eq!((last.is_null(&[0]), last.length(&[0])), (true, Some(1)));
    assert_eq!((first.is_null(&[2]), first.length(&[2])), (false, None));
    assert_eq!((last.is_null(&[]), last.length(&[]), last.length(&[3, 0])), (false, None, None));
}

/// Longer numbers than any key holds are counted in full.
#[test]
fn a_long_number_does_not_fit() {
    let mut buffer = Digit::new();
    let decimal = Decimal { class: DecimalClass::Positive, weight: 40_000 };
    ascending(DigitKind::Numeric).put_numeric(decimal, &[1u16.to_ne_bytes(); 70_000], &mut buffer);
    assert_eq!((buffer.len(), buffer.fits()), (1 + 1 + 2 + 2 * 70_000 + 1, false));
}

#[test]
fn lengths_the_server_does_not_store_are_refused() {
    let shape = |value| ascending(DigitKind::Opaque { prefix: 0, value });
    let lengths = [ValueLength::Variable, ValueLength::Bytes];
    for damaged in [&[1, 1][..], &[1, 0, 0, 0, 0], &[1, 12, 0, 0, 0], &[1, 22, 0, 0, 0, 7]] {
        assert_eq!(lengths.map(|value| shape(value).length(damaged)), [None; 2], "{damaged:?}");
    }
    assert_eq!(lengths.map(|value| shape(value).length(&[1, 5, 7, 0, 0, 0])), [Some(3), None]);
    assert_eq!(lengths.map(|value| shape(value).length(&[1, 20, 0, 0, 0, 7])), [Some(6); 2]);
    let mut compressed = Buffer::<16>::new();
    shape(ValueLength::Variable).put_compressed(&[], &[9 << 2 | 2, 0, 0, 0, 50, 0, 0, 0, 7], &mut compressed);
    assert_eq!(lengths.map(|value| shape(value).length(compressed.as_slice())), [Some(10), None]);
}

#[test]
fn unknown_shapes_are_refused() {
    for bytes in [[0; 4], [10, 0, 0, 0], [1, 0, 0, 0], [1, 0, 17, 0], [2, 4, 0, 0], [2, 0, 1, 0], [7, 0, 0, 1]] {
        assert_eq!(DigitShape::from_bytes(bytes), None, "{bytes:?}");
    }
}
