//! Keys as pages have them, in pieces.

use core::cmp::Ordering;

use super::HEAD;

/// The key of an entry, or a fence, as a page has it. What is not there of the normal part is zero.
#[derive(Clone, Copy, Debug)]
pub struct Stored<'a> {
    /// What all keys of the page begin with.
    pub prefix: &'a [u8],
    /// The bytes after it: the lane.
    pub head: u64,
    /// The bytes after these.
    pub suffix: &'a [u8],
    /// The value part, and what else the entry carries.
    pub payload: &'a [u8],
}

impl<'a> Stored<'a> {
    /// A key in one piece.
    pub fn whole(normal: &'a [u8], payload: &'a [u8]) -> Self {
        Stored { prefix: normal, head: 0, suffix: &[], payload }
    }

    /// The `at`-th byte of the normal part.
    pub fn byte(&self, at: usize) -> u8 {
        match at.checked_sub(self.prefix.len()) {
            None => self.prefix[at],
            Some(at) if at < HEAD => self.head.to_be_bytes()[at],
            Some(at) => self.suffix.get(at - HEAD).copied().unwrap_or(0),
        }
    }

    /// Bytes of the normal part, less the zeros at its end.
    pub fn normal_length(&self) -> usize {
        let trimmed = |bytes: &[u8]| bytes.iter().rposition(|&byte| byte != 0).map(|last| last + 1);
        let behind = || trimmed(self.suffix).map(|length| HEAD + length);
        let head = || trimmed(&self.head.to_be_bytes());
        match behind().or_else(head) {
            Some(length) => self.prefix.len() + length,
            None => trimmed(self.prefix).unwrap_or(0),
        }
    }

    /// Copies the normal part, less the zeros at its end, and says how long it is; None if `out` is too short.
    pub fn copy_normal(&self, out: &mut [u8]) -> Option<usize> {
        let length = self.normal_length();
        self.copy_from(0, out.get_mut(..length)?);
        Some(length)
    }

    /// Fills `out` with the normal part's bytes from `from` on.
    #[inline]
    pub fn copy_from(&self, from: usize, out: &mut [u8]) {
        match self.prefix.get(from..from + out.len()) {
            Some(piece) => out.copy_from_slice(piece),
            None => self.copy_pieces(from, out),
        }
    }

    fn copy_pieces(&self, from: usize, out: &mut [u8]) {
        let (mut begin, mut filled) = (0, 0);
        for piece in [self.prefix, &self.head.to_be_bytes(), self.suffix] {
            let wanted = &piece[(from + filled).saturating_sub(begin).min(piece.len())..];
            let length = wanted.len().min(out.len() - filled);
            out[filled..filled + length].copy_from_slice(&wanted[..length]);
            filled += length;
            begin += piece.len();
        }
        out[filled..].fill(0);
    }

    /// How many bytes the keys have in common at the front of their normal parts; `usize::MAX` if all.
    pub fn common(&self, other: &Stored<'_>) -> usize {
        if self.is_in_place_of(other) {
            return usize::MAX;
        }
        let whole = self.prefix.len().min(other.prefix.len());
        let same = front_length(&self.prefix[..whole], &other.prefix[..whole]);
        if same < whole {
            return same;
        }
        let length = self.normal_length().max(other.normal_length());
        for at in (whole..length).step_by(HEAD) {
            let differing = self.word(at) ^ other.word(at);
            if differing != 0 {
                return at + differing.leading_zeros() as usize / 8;
            }
        }
        usize::MAX
    }

    /// The bytes of the normal part from `at` on, as many as a lane has.
    // Not put together in memory: a word that is read from where bytes were just written is waited for.
    #[inline(always)]
    pub fn word(&self, at: usize) -> u64 {
        let Some(behind) = at.checked_sub(self.prefix.len()) else {
            let shared = self.prefix.len() - at;
            let rest = if shared < HEAD { self.head >> (8 * shared) } else { 0 };
            return word_at(self.prefix, at) | rest;
        };
        match behind {
            0 => self.head,
            1..HEAD => self.head << (8 * behind) | word_at(self.suffix, 0) >> (8 * (HEAD - behind)),
            _ => word_at(self.suffix, behind - HEAD),
        }
    }

    /// Whether both are the same bytes.
    pub fn is_same(&self, other: &Stored<'_>) -> bool {
        self.is_in_place_of(other) || self.payload == other.payload && self.common(other) == usize::MAX
    }

    /// Whether both are the bytes of one entry, or of entries that share them.
    #[inline]
    fn is_in_place_of(&self, other: &Stored<'_>) -> bool {
        let is_at = |a: &[u8], b: &[u8]| core::ptr::eq(a, b);
        let is_head = self.head == other.head && is_at(self.prefix, other.prefix);
        is_head && is_at(self.suffix, other.suffix) && is_at(self.payload, other.payload)
    }
}

/// The bytes of a string from `at` on, as many as a word has, and zeros behind its end.
#[inline]
pub fn word_at(bytes: &[u8], at: usize) -> u64 {
    if let Some(word) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        return u64::from_be_bytes(*word);
    }
    let rest = bytes.len().saturating_sub(at);
    let last = match bytes.last_chunk() {
        Some(last) => u64::from_be_bytes(*last),
        None => bytes.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    };
    last.unbounded_shl(8 * (HEAD - rest) as u32)
}

/// How many bytes two strings of one length have in common at their fronts.
#[inline]
pub fn front_length(a: &[u8], b: &[u8]) -> usize {
    let (words, rest) = a.as_chunks::<HEAD>();
    let (others, others_rest) = b.as_chunks::<HEAD>();
    for (number, (word, other)) in words.iter().zip(others).enumerate() {
        let differing = u64::from_be_bytes(*word) ^ u64::from_be_bytes(*other);
        if differing != 0 {
            return number * HEAD + differing.leading_zeros() as usize / 8;
        }
    }
    a.len() - rest.len() + rest.iter().zip(others_rest).take_while(|(a, b)| a == b).count()
}

/// How two strings are ordered as far as the shorter one goes, and how far that is.
#[inline]
pub(crate) fn front_order(a: &[u8], b: &[u8]) -> (Ordering, usize) {
    let length = a.len().min(b.len());
    // A vectorised memcmp loads from an empty string's address under an empty mask: where nothing is mapped there, as
    // behind Rust's empty slices, that takes the processor as long as hundreds of instructions.
    (if length == 0 { Ordering::Equal } else { a[..length].cmp(&b[..length]) }, length)
}
