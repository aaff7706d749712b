//! Sums of numerics, digit by digit.

use core::fmt::{self, Write};

use fpbtree_engine::keys::digits::DecimalClass;

/// The base-10000 digits that a sum has room for, and the most decimal digits behind the point.
const PLACES: usize = 16;
const BASE: i64 = 10_000;
const DIGITS_A_PLACE: usize = 4;
/// How many of the places are before the point.
const WHOLE_PLACES: usize = PLACES / 2;
const MOST_SCALE: usize = (PLACES - WHOLE_PLACES) * DIGITS_A_PLACE;

/// A number as the server stores it, less the length in front.
pub struct Number<'s> {
    /// What it is; of a zero it does not matter.
    pub class: DecimalClass,
    /// How many more digits than one it has before the point.
    pub weight: i32,
    /// How many decimal digits are shown behind the point.
    pub scale: u16,
    /// Its base-10000 digits, the greatest first.
    pub digits: &'s [[u8; 2]],
}

/// The sum of numbers. Each digit is added to those of its place, and nothing is carried before the end: fewer rows than
/// there can be could not make one overflow.
#[derive(Clone, Copy, Default)]
pub struct NumericSum {
    places: [i64; PLACES],
    /// The most digits behind the point that a number shows.
    scale: u16,
    has_nan: bool,
    /// Infinity, and the negative one.
    has_infinity: [bool; 2],
}

impl NumericSum {
    /// Adds a number. None if it has digits beyond the places, or shows as many.
    #[inline]
    pub fn add(&mut self, number: &Number) -> Option<()> {
        let sign = match number.class {
            DecimalClass::NaN => {
                self.has_nan = true;
                return Some(());
            }
            DecimalClass::PositiveInfinity | DecimalClass::NegativeInfinity => {
                self.has_infinity[usize::from(number.class == DecimalClass::NegativeInfinity)] = true;
                return Some(());
            }
            DecimalClass::Negative => -1,
            DecimalClass::Zero | DecimalClass::Positive => 1,
        };
        if usize::from(number.scale) > MOST_SCALE {
            return None;
        }
        let first = usize::try_from(WHOLE_PLACES as i32 - 1 - number.weight).ok()?;
        let places = self.places.get_mut(first..first + number.digits.len())?;
        for (place, digit) in places.iter_mut().zip(number.digits) {
            *place += sign * i64::from(u16::from_ne_bytes(*digit));
        }
        self.scale = self.scale.max(number.scale);
        Some(())
    }

    /// Whether there was a value that is no number, infinity, and the negative one.
    pub fn specials(&self) -> [bool; 3] {
        [self.has_nan, self.has_infinity[0], self.has_infinity[1]]
    }

    /// What the sum is if a value is no number: what the server calls it.
    pub fn special(&self) -> Option<&'static str> {
        match self.specials() {
            [true, ..] | [_, true, true] => Some("NaN"),
            [_, true, false] => Some("Infinity"),
            [_, false, true] => Some("-Infinity"),
            _ => None,
        }
    }

    /// Writes the sum of the numbers in decimal digits, zeros in front, as many behind the point as one shows: at most 86 bytes.
    pub fn write(&self, text: &mut impl Write) -> fmt::Result {
        let (mut above, mut places) = carried(self.places);
        if above < 0 {
            text.write_char('-')?;
            (above, places) = carried(self.places.map(|place| -place));
        }
        write!(text, "{above}")?;
        let (whole, behind) = places.split_at(WHOLE_PLACES);
        whole.iter().try_for_each(|place| write!(text, "{place:04}"))?;
        if self.scale > 0 {
            text.write_char('.')?;
        }
        let digit = |at: usize| behind[at / DIGITS_A_PLACE] / [1000, 100, 10, 1][at % DIGITS_A_PLACE] % 10;
        (0..usize::from(self.scale)).try_for_each(|at| write!(text, "{}", digit(at)))
    }
}

/// The same number, with one digit at each place, and what is above these.
fn carried(mut places: [i64; PLACES]) -> (i64, [i64; PLACES]) {
    let mut carry = 0;
    for place in places.iter_mut().rev() {
        let sum = *place + carry;
        (carry, *place) = (sum.div_euclid(BASE), sum.rem_euclid(BASE));
    }
    (carry, places)
}
