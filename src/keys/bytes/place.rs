//! Places in key order that are looked for.

use core::cmp::Ordering;

use super::{BytesOrder, DigitShape, Stored, front_order, normal_length};
use crate::format::Tid;

/// A place in key order to be looked for: a whole key, or one of a few columns, before or behind all that begin so.
#[derive(Clone, Copy)]
pub struct BytesKey<'k> {
    /// The normal part, or as much of it as the place has.
    pub normal: &'k [u8],
    /// The value part, if there are opaque columns and the place has any.
    pub value: &'k [u8],
    /// Behind all keys that begin so, rather than before them.
    pub above: bool,
    /// Breaks the ties of whole keys.
    pub tid: Tid,
    /// Present if there are opaque columns.
    pub order: Option<BytesOrder<'k>>,
}

impl<'k> BytesKey<'k> {
    /// A place before all keys.
    pub fn first(order: Option<BytesOrder<'k>>) -> Self {
        BytesKey { normal: &[], value: &[], above: false, tid: Tid::MIN, order }
    }

    /// Whether the place is behind all keys that begin with its normal part.
    #[inline]
    pub(crate) fn is_behind_normal(&self) -> bool {
        self.above && self.value.is_empty()
    }

    /// How the place is ordered against an entry or a fence.
    pub fn compare(&self, stored: &Stored<'_>, tid: Tid) -> Ordering {
        let mut left = self.normal;
        for piece in [stored.prefix, &stored.head.to_be_bytes(), stored.suffix] {
            let (order, length) = front_order(left, piece);
            if order.is_ne() {
                return order;
            }
            left = &left[length..];
        }
        if left.iter().any(|&byte| byte != 0) {
            return Ordering::Greater;
        }
        if self.is_behind_normal() {
            return Ordering::Greater;
        }
        if stored.normal_length() > self.normal.len() {
            return Ordering::Less;
        }
        self.compare_value(stored.payload, tid)
    }

    /// How the place is ordered against an entry with the same lane in a page: `suffix` is what the entry has behind
    /// the lane, `skip` how much of the normal part prefix and lane are.
    #[inline]
    pub fn compare_suffix(&self, skip: usize, suffix: &[u8], payload: &[u8], tid: Tid) -> Ordering {
        let left = self.normal.get(skip..).unwrap_or(&[]);
        let (order, length) = front_order(left, suffix);
        if order.is_ne() {
            return order;
        }
        if left[length..].iter().any(|&byte| byte != 0) {
            return Ordering::Greater;
        }
        if self.is_behind_normal() {
            return Ordering::Greater;
        }
        if suffix[length..].iter().any(|&byte| byte != 0) {
            return Ordering::Less;
        }
        self.compare_value(payload, tid)
    }

    /// As [`compare_suffix`](BytesKey::compare_suffix), but where values decide it is guessed, as far as that tells them
    /// apart: `hint` is the place's brief one, of what values have behind `hidden` bytes.
    pub(crate) fn guess_suffix(
        &self,
        skip: usize,
        (suffix, payload): (&[u8], &[u8]),
        tid: Tid,
        (hint, hidden): (u64, usize),
    ) -> Ordering {
        let left = self.normal.get(skip..).unwrap_or(&[]);
        let is_tied = || left.len() == suffix.len() && front_order(left, suffix).0.is_eq();
        let Some(order) = self.order.filter(|_| is_tied()) else {
            return self.compare_suffix(skip, suffix, payload, tid);
        };
        let guessed = order.guess((self.value, hint), payload, hidden);
        guessed.then_with(|| self.compare_suffix(skip, suffix, payload, tid))
    }

    /// How the place is ordered against an entry whose normal part ties with all that the place has of one.
    pub(crate) fn compare_value(&self, payload: &[u8], tid: Tid) -> Ordering {
        let tie = || if self.above { Ordering::Greater } else { self.tid.cmp(&tid.position()) };
        let Some(order) = self.order.filter(|_| self.value != payload) else { return tie() };
        let (mut a, mut b) = (self.value, payload);
        for column in order.shape.opaque_from as usize..order.shape.count as usize {
            if a.is_empty() {
                return if self.above {
                    Ordering::Greater
                } else if b.is_empty() {
                    self.tid.cmp(&tid.position())
                } else {
                    Ordering::Less
                };
            }
            let digit = &order.shape.value_digit(column);
            // A fence has as many digits as it takes. What cannot be one, and is noticed when it is read, has a place,
            // too: else a scan might not get past it.
            let Some(b_length) = digit.length(b) else { return a.cmp(b).then_with(tie) };
            let Some(a_length) = digit.length(a) else {
                let telling = if digit.is_opaque() { normal_length(digit, b).min(b_length) } else { b_length };
                let common = a.len().min(telling);
                let side = if self.above { Ordering::Greater } else { Ordering::Less };
                return a[..common].cmp(&b[..common]).then(side);
            };
            let ordered = if !digit.is_opaque() || a[0] != DigitShape::VALUE || b[0] != DigitShape::VALUE {
                a[..a_length].cmp(&b[..b_length])
            } else {
                let front = normal_length(digit, a);
                order.columns.compare(column, &a[front..a_length], &b[front..b_length])
            };
            if ordered.is_ne() {
                return ordered;
            }
            (a, b) = (&a[a_length..], &b[b_length..]);
        }
        tie()
    }

    /// How many bytes of the value part it takes to tell the place, a whole key, from this entry, whose normal part is
    /// the same: whole digits. None if all are equal.
    pub fn telling_value(&self, stored: &Stored<'_>) -> Option<usize> {
        let order = self.order?;
        let (mut at, mut b) = (0, stored.payload);
        for column in order.shape.opaque_from as usize..order.shape.count as usize {
            let digit = &order.shape.value_digit(column);
            let a = self.value.get(at..)?;
            let (a_length, b_length) = (digit.length(a)?, digit.length(b)?);
            let values = a[0] == DigitShape::VALUE && b[0] == DigitShape::VALUE;
            at += a_length;
            let differs = if digit.is_opaque() && values {
                let front = normal_length(digit, a);
                order.columns.compare(column, &a[front..a_length], &b[front..b_length]).is_ne()
            } else {
                a[..a_length] != b[..b_length]
            };
            if differs {
                return Some(at);
            }
            b = &b[b_length..];
        }
        None
    }
}
