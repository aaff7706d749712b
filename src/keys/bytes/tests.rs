use proptest::prelude::*;

use super::super::digits::{Buffer, ValueLength};
use super::*;

const TEXT: DigitShape = DigitShape { kind: DigitKind::Text, descending: false, nulls_first: false };
const NUMBER: DigitShape = DigitShape { kind: DigitKind::Fixed(4), descending: false, nulls_first: true };
const OPAQUE: DigitShape = DigitShape { kind: DigitKind::Opaque { prefix: 2, value: ValueLength::CString }, ..TEXT };

/// A row of such columns, digit by digit.
fn digits(shapes: &[DigitShape], text: &[u8], number: Option<u32>) -> Vec<Vec<u8>> {
    let digit = |shape: &DigitShape| {
        let mut digit = Buffer::<64>::new();
        match (shape.kind, number) {
            (DigitKind::Fixed(_), Some(number)) => shape.put_field(number.into(), &mut digit),
            (DigitKind::Fixed(_), None) => shape.put_null(&mut digit),
            (DigitKind::Text, _) => shape.put_text(text, &mut digit),
            _ => shape.put_opaque(&[text.len() as u8, 0], text, &mut digit),
        }
        digit.as_slice().to_vec()
    };
    shapes.iter().map(digit).collect()
}

proptest! {
    /// However much of it is the page's prefix, and without the zeros at its end.
    #[test]
    fn a_key_is_had_back_from_its_parts(
        shapes in prop::collection::vec(prop::sample::select(&[TEXT, NUMBER, OPAQUE][..]), 1..5),
        text in prop::collection::vec(1u8..4, 0..20),
        number in prop::option::of(prop_oneof![Just(0), Just(1 << 8), any::<u32>()]),
        prefix in 0usize..30,
    ) {
        let (shape, digits) = (BytesShape::new(&shapes, true).unwrap(), digits(&shapes, &text, number));
        let key = digits.concat();
        let parts = shape.parts(&key);
        let normal = &parts.normal[..parts.normal.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)];
        let (prefix, behind) = normal.split_at(prefix.min(normal.len()));
        let mut head = [0; HEAD];
        let (first, suffix) = behind.split_at(HEAD.min(behind.len()));
        head[..first.len()].copy_from_slice(first);
        let value = [parts.marker, parts.value].concat();
        let payload = [&value[..], b"more"].concat();
        let stored = Stored { prefix, head: u64::from_be_bytes(head), suffix, payload: &payload };

        for at in 0..normal.len() + 2 * HEAD {
            let bytes: [u8; HEAD] = std::array::from_fn(|next| normal.get(at + next).copied().unwrap_or(0));
            prop_assert_eq!(stored.word(at), u64::from_be_bytes(bytes));
        }

        let mut buffer = KeyBuffer::new();
        prop_assert_eq!(shape.join(&stored, &mut buffer), Some(&key[..]));
        for columns in 0..=digits.len() {
            prop_assert_eq!(shape.front_length(&key, columns), Some(digits[..columns].concat().len()));
        }
        prop_assert_eq!(shape.front_length(&key, digits.len() + 1), None);
        let opened = shape.open(&stored, &mut buffer).unwrap();
        prop_assert_eq!((opened.value, opened.carried), (&value[..], &b"more"[..]));
        let before_opaque = digits[..shape.opaque_from()].concat();
        prop_assert!(shape.opaque_from() == 0 || opened.normal.starts_with(&before_opaque));
        prop_assert!(shape.normal(&stored, &mut buffer).unwrap().starts_with(&before_opaque));
        prop_assert_eq!(buffer.unpadded(&stored), Some(&mut normal.to_vec()[..]));
    }
}

#[test]
fn what_no_key_has_is_refused() {
    let (shape, long) = (BytesShape::new(&[NUMBER, OPAQUE], true).unwrap(), [1; 2 * MOST_PLACE]);
    let key = |suffix, payload| Stored { prefix: &[], head: 0, suffix, payload };
    for damaged in [key(&long, &[1, 0]), key(&[], &[]), key(&[], &[1, 2, 3]), key(&[], &[9, 0])] {
        assert!(shape.open(&damaged, &mut KeyBuffer::new()).is_none());
        assert!(shape.join(&damaged, &mut KeyBuffer::new()).is_none());
    }
}
