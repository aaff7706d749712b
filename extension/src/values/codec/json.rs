//! Hints of jsonb values: bytes whose order, as that of `memcmp`, is nearly always that of the values.
//!
//! They answer to `compareJsonbContainers`, which goes through two values side by side: what has more elements is greater,
//! objects are behind arrays, and these behind booleans, numbers, strings and null. Of keys, which most values of a column
//! have in common, there are only the first bytes.

use fpbtree_engine::keys::digits::{Buffer, DigitKind, DigitShape};
use pgrx::pg_sys::{self, Oid};

use super::numeric;
use crate::values::collation::is_byte_order;
use crate::values::letters::Letters;
use crate::values::varlena::stored_content;

/// Makes hints of jsonb.
#[derive(Clone, Copy)]
pub(super) struct JsonHints {
    /// Strings are in the order of their bytes.
    in_bytes: bool,
}

/// Bits of a container's header: how many elements, or pairs, it has, and what it is.
const COUNT: u32 = 0x0FFF_FFFF;
const IS_SCALAR: u32 = 0x1000_0000;
const IS_OBJECT: u32 = 0x2000_0000;
/// Bits of the word that an element has behind the header: the length of its data, or where that ends.
const LENGTH: u32 = 0x0FFF_FFFF;
const IS_END: u32 = 0x8000_0000;
const KIND: u32 = 0x7000_0000;
/// What elements are.
const STRING: u32 = 0;
const NUMBER: u32 = 0x1000_0000;
const FALSE: u32 = 0x2000_0000;
const TRUE: u32 = 0x3000_0000;
const NULL: u32 = 0x4000_0000;

/// Bytes of a key.
const KEY: usize = 2;
/// Values within values are looked into so deep.
const DEPTH: usize = 4;

/// Most bytes of a number that are of use.
const NUMBER_ROOM: usize = 32;
const NUMBERS: DigitShape = DigitShape { kind: DigitKind::Numeric, descending: false, nulls_first: true };

/// A hint that is being made: bytes behind so many others.
struct Hint<'o> {
    out: &'o mut [u8],
    used: usize,
    skip: usize,
}

impl JsonHints {
    /// For the values that a comparison function (support function 1) orders, if they are of jsonb.
    ///
    /// # Safety
    /// May raise.
    pub unsafe fn of(order: Oid) -> Option<JsonHints> {
        if order.to_u32() != pg_sys::F_JSONB_CMP {
            return None;
        }
        // SAFETY: catalog lookups.
        Some(JsonHints { in_bytes: unsafe { is_byte_order(pg_sys::DEFAULT_COLLATION_OID) } })
    }

    /// Fills `out` with what the hint of a value has behind its first `skip` bytes, and returns how many bytes it has there.
    /// Given is what is behind the value's length. What is damaged has a shorter hint.
    pub fn put(self, content: &[u8], skip: usize, out: &mut [u8]) -> usize {
        let mut hint = Hint { out, used: 0, skip };
        let _ = self.put_container(content, DEPTH, &mut hint);
        hint.used
    }

    /// An array or an object: what it is, how many elements it has, and these. `None` if there is no room for more.
    fn put_container(self, container: &[u8], depth: usize, hint: &mut Hint<'_>) -> Option<()> {
        let header = word(container, 0)?;
        let (count, is_object) = ((header & COUNT) as usize, header & IS_OBJECT != 0);
        let class = if is_object { 0x8000 } else { u16::from(header & IS_SCALAR == 0) };
        hint.put(&((count.min(0x3FFF) as u16) << 1 | class).to_be_bytes())?;
        let depth = depth.checked_sub(1)?;
        let children = if is_object { count.checked_mul(2)? } else { count };
        let data = container.get(children.checked_mul(4)?.checked_add(4)?..)?;
        let mut elements = Elements { container, data, at: 0, begin: 0 };
        if !is_object {
            return (0..count)
                .try_for_each(|_| elements.next().and_then(|(kind, at)| self.put_value(kind, at, depth, hint)));
        }
        let mut keys = elements;
        for _ in 0..count {
            elements.next()?;
        }
        for _ in 0..count {
            let (_, key) = keys.next()?;
            let (mut front, length) = ([0; KEY], key.len().min(KEY));
            front[..length].copy_from_slice(&key[..length]);
            hint.put(&front)?;
            let (kind, value) = elements.next()?;
            self.put_value(kind, value, depth, hint)?;
        }
        Some(())
    }

    /// A value of such a kind.
    fn put_value(self, kind: u32, value: &[u8], depth: usize, hint: &mut Hint<'_>) -> Option<()> {
        match kind {
            NULL => hint.put(&[1]),
            STRING => {
                hint.put(&[2])?;
                if self.in_bytes {
                    hint.put(value)?;
                } else {
                    Letters::of(value, false).try_for_each(|letter| hint.put(&[letter]))?;
                }
                hint.put(&[0])
            }
            NUMBER => {
                let mut digits = Buffer::<NUMBER_ROOM>::new();
                numeric::put(&NUMBERS, stored_content(value)?, &mut digits, &mut Buffer::<8>::new());
                hint.put(&[3])?;
                hint.put(digits.as_slice())
            }
            FALSE => hint.put(&[4, 0]),
            TRUE => hint.put(&[4, 1]),
            _ => {
                hint.put(&[5])?;
                self.put_container(value, depth, hint)
            }
        }
    }
}

impl Hint<'_> {
    /// Adds bytes. `None` if there is no room for more.
    fn put(&mut self, bytes: &[u8]) -> Option<()> {
        let skipped = self.skip.min(bytes.len());
        self.skip -= skipped;
        let room = &mut self.out[self.used..];
        let length = room.len().min(bytes.len() - skipped);
        room[..length].copy_from_slice(&bytes[skipped..skipped + length]);
        self.used += length;
        (self.used < self.out.len()).then_some(())
    }
}

/// The elements of a container, one after the other; of an object keys first.
#[derive(Clone, Copy)]
struct Elements<'c> {
    container: &'c [u8],
    data: &'c [u8],
    at: usize,
    /// Where the data of the next one begins.
    begin: usize,
}

impl<'c> Elements<'c> {
    /// What the next one is, and its data. Numbers and containers are aligned.
    fn next(&mut self) -> Option<(u32, &'c [u8])> {
        let entry = word(self.container, 4 + 4 * self.at)?;
        let length = (entry & LENGTH) as usize;
        let end = if entry & IS_END == 0 { self.begin + length } else { length };
        let kind = entry & KIND;
        let begin = if kind == STRING { self.begin } else { self.begin.next_multiple_of(4) };
        let data = self.data.get(begin.min(end)..end)?;
        (self.at, self.begin) = (self.at + 1, end);
        Some((kind, data))
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}
