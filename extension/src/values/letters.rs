//! Texts as most collations see them at first.

use core::cmp::Ordering;

use fpbtree_engine::keys::bytes::front_length;

/// How two texts are ordered by their letters.
#[inline]
pub fn order(a: &[u8], b: &[u8], skips_marks: bool) -> Ordering {
    let length = a.len().min(b.len());
    let same = &a[..front_length(&a[..length], &b[..length])];
    // The same bytes are the same letters, as far as these end before the first other byte.
    let behind = same.iter().rposition(u8::is_ascii).map_or(0, |last| last + 1);
    let [a, b] = [a, b].map(|text| Letters::of(&text[behind..], skips_marks));
    a.cmp(b)
}

/// A text as most collations see it at first: letters whatever their case and accent, digits before them, and before those
/// what is neither, unless that is skipped. Of six bits each. Other letters go behind, in the order of their code points.
pub struct Letters<'t> {
    text: core::slice::Iter<'t, u8>,
    skips_marks: bool,
    /// What follows the code of another letter.
    behind: Option<u8>,
}

impl<'t> Letters<'t> {
    #[inline]
    pub fn of(text: &'t [u8], skips_marks: bool) -> Letters<'t> {
        Letters { text: text.iter(), skips_marks, behind: None }
    }

    /// The first ones, from the uppermost bit on, `BITS` at most.
    #[inline]
    pub fn packed<const BITS: u32>(self) -> u128 {
        let (mut packed, mut free) = (0u128, BITS);
        for code in self {
            free = free.saturating_sub(LETTER_BITS);
            packed |= u128::from(code) << (u128::BITS - BITS + free);
            if free < LETTER_BITS {
                break;
            }
        }
        packed
    }
}

impl Iterator for Letters<'_> {
    type Item = u8;

    #[inline]
    fn next(&mut self) -> Option<u8> {
        if let Some(behind) = self.behind.take() {
            return Some(behind);
        }
        loop {
            let byte = *self.text.next()?;
            match LETTERS[usize::from(byte)] {
                // An accented letter of Latin-1.
                BEHIND if byte == 0xC3 && !self.text.as_slice().is_empty() => {
                    return self.text.next().map(|second| ACCENTED[usize::from(second & 0x3F)]);
                }
                BEHIND => {
                    self.behind = Some(byte & 0x3F);
                    return Some(BEHIND);
                }
                ..DIGITS if self.skips_marks => {}
                code => return Some(code),
            }
        }
    }
}

/// Bits that a letter takes.
pub const LETTER_BITS: u32 = 6;
/// The code of what goes behind all letters; bytes of such follow as they are.
const BEHIND: u8 = 63;
/// The code of the first digit, and of the first letter.
const DIGITS: u8 = 12;
const A: u8 = 22;

/// The codes of bytes: 0 of none. What is neither letter nor digit is in ICU's order, the commonest with codes of their
/// own.
const LETTERS: [u8; 256] = {
    let mut codes = [DIGITS - 1; 256];
    let order: [&[u8]; 10] = [b" \t\n", b"_", b"-", b",", b";:!?", b".", b"'", b"\"()[]{}", b"@*", b"/"];
    let mut code = 0;
    while code < order.len() {
        let mut at = 0;
        while at < order[code].len() {
            codes[order[code][at] as usize] = 1 + code as u8;
            at += 1;
        }
        code += 1;
    }
    let mut byte = 0;
    while byte < 256 {
        codes[byte] = match byte as u8 {
            digit @ b'0'..=b'9' => DIGITS + digit - b'0',
            letter @ b'a'..=b'z' => A + letter - b'a',
            letter @ b'A'..=b'Z' => A + letter - b'A',
            0x80.. => BEHIND,
            _ => codes[byte],
        };
        byte += 1;
    }
    codes
};

/// The codes of the letters of Latin-1 behind the byte C3 of UTF-8, by the six bits of the next byte.
const ACCENTED: [u8; 64] = {
    let letters = b"aaaaaaaceeeeiiiidnooooo_ouuuuytsaaaaaaaceeeeiiiidnooooo_ouuuuyty";
    let mut codes = [0; 64];
    let mut at = 0;
    while at < 64 {
        codes[at] = LETTERS[letters[at] as usize];
        at += 1;
    }
    codes
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_other_letter_decides() {
        let parts = ["", "a", "A", "é", "É", "e", "ß", "日", "日本", "-", "/", "  ", "9", "zz", "\u{7f}", "ÿ"];
        let texts = parts.iter().flat_map(|a| parts.iter().flat_map(move |b| parts.map(|c| format!("{a}{b}{c}"))));
        let texts: Vec<String> = texts.collect();
        for skips_marks in [false, true] {
            let letters = |text: &str| Letters::of(text.as_bytes(), skips_marks).collect::<Vec<u8>>();
            for (a, b) in texts.iter().flat_map(|a| texts.iter().step_by(61).map(move |b| (a, b))) {
                let ordered = order(a.as_bytes(), b.as_bytes(), skips_marks);
                assert_eq!(ordered, letters(a).cmp(&letters(b)), "{a:?} {b:?}");
            }
        }
        assert_eq!(order("Naïve-1".as_bytes(), "naive2".as_bytes(), true), Ordering::Less);
    }
}
