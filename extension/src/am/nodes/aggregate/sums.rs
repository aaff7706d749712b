//! Sums of a column's values, as the server's own aggregates make them, and their averages.

use core::fmt::Write;

use fpbtree_engine::keys::ColumnType;
use fpbtree_engine::scan::{FloatSums, Summary};
use pgrx::pg_sys::{self, Datum, Interval, InvalidOid, MemoryContext, MemoryContextSwitchTo, Oid};

use crate::pg::ffi;
use crate::values::codec::number;
use crate::values::column::{self, ImageBuffer};
use crate::values::numeric_sum::NumericSum;
use crate::values::varlena::{HEADER, bytes_header, with_content};

/// The sum of values of a type.
#[derive(Clone, Copy)]
pub(super) enum Sum {
    /// Of smallints or integers: a sum of bigints would have to be of more rows than there are.
    Integers(i128),
    Bigints(i128),
    Float4s(FloatSums),
    Float8s(FloatSums),
    Numerics(Numerics),
    Intervals(Intervals),
}

impl Sum {
    /// The sum of no value of a type, if there is one. What it needs of memory is the context's.
    pub fn of(ty: Oid, context: MemoryContext) -> Option<Sum> {
        Some(match ty {
            pg_sys::INT2OID | pg_sys::INT4OID => Sum::Integers(0),
            pg_sys::INT8OID => Sum::Bigints(0),
            pg_sys::FLOAT4OID => Sum::Float4s(FloatSums::default()),
            pg_sys::FLOAT8OID => Sum::Float8s(FloatSums::default()),
            pg_sys::NUMERICOID => Sum::Numerics(Numerics { sum: NumericSum::default(), rest: None, context }),
            pg_sys::INTERVALOID => Sum::Intervals(Intervals::NONE),
            _ => return None,
        })
    }

    /// The sum of the values that lanes hold.
    pub fn of_lanes(ty: ColumnType, summary: &Summary) -> Sum {
        match ty {
            ColumnType::Float4 => Sum::Float4s(summary.float_sums()),
            ColumnType::Float8 => Sum::Float8s(summary.float_sums()),
            ColumnType::Int8 => Sum::Bigints(summary.sum()),
            _ => Sum::Integers(summary.sum()),
        }
    }

    /// Becomes the sum of no value.
    ///
    /// # Safety
    /// The context is there.
    pub unsafe fn clear(&mut self) {
        match self {
            Sum::Integers(sum) | Sum::Bigints(sum) => *sum = 0,
            Sum::Float4s(sums) | Sum::Float8s(sums) => *sums = FloatSums::default(),
            // SAFETY: the caller's.
            Sum::Numerics(sum) => unsafe { sum.clear() },
            Sum::Intervals(sum) => *sum = Intervals::NONE,
        }
    }

    /// Adds the `number`-th value, counted from 1.
    ///
    /// # Safety
    /// A value of the type; the context is there. The caller's frames own no destructors: may raise.
    pub unsafe fn add(&mut self, value: Datum, number: u64) {
        match self {
            Sum::Integers(sum) => *sum += value.value() as i32 as i128,
            Sum::Bigints(sum) => *sum += value.value() as i64 as i128,
            Sum::Float4s(sums) => sums.add(f32::from_bits(value.value() as u32).into(), number, true),
            Sum::Float8s(sums) => sums.add(f64::from_bits(value.value() as u64), number, false),
            // SAFETY: the caller's.
            Sum::Numerics(sum) => unsafe { sum.add(value) },
            // SAFETY: the caller's.
            Sum::Intervals(sum) => unsafe { sum.add(value) },
        }
    }

    /// What `sum` makes of one value or more. `room` is for a value that is passed by reference; else it is made in the
    /// current memory context.
    ///
    /// # Safety
    /// The context is there. The caller's frames own no destructors: may raise.
    pub unsafe fn total(&self, room: &mut ImageBuffer) -> Datum {
        // SAFETY: the caller's.
        unsafe {
            match self {
                Sum::Integers(sum) => Datum::from(*sum as i64),
                Sum::Bigints(sum) => numeric(*sum),
                Sum::Float4s(sums) => {
                    let image = (sums.sum as f32).to_bits().into();
                    column::value(ColumnType::Float4, checked(image, sums.sum_overflows), room)
                }
                Sum::Float8s(sums) => Datum::from(checked(sums.sum, sums.sum_overflows).to_bits()),
                Sum::Numerics(sum) => sum.total(),
                Sum::Intervals(sum) => interval(sum.total()),
            }
        }
    }

    /// What `avg` makes of so many values, at least one. It is made in the current memory context.
    ///
    /// # Safety
    /// As for [`total`](Self::total).
    pub unsafe fn average(&self, count: u64) -> Datum {
        // SAFETY: the caller's, and the server's functions, with what they take.
        unsafe {
            let divided = |sum| ffi::DirectFunctionCall2Coll(ffi::numeric_div, InvalidOid, sum, numeric(count.into()));
            match self {
                Sum::Integers(sum) | Sum::Bigints(sum) => divided(numeric(*sum)),
                Sum::Float4s(sums) | Sum::Float8s(sums) => {
                    Datum::from(checked(sums.total / count as f64, sums.total_overflows).to_bits())
                }
                Sum::Numerics(sum) if sum.sum.special().is_some() => sum.total(),
                Sum::Numerics(sum) => divided(sum.total()),
                Sum::Intervals(sum) => {
                    let (sum, count) = (interval(sum.total()), Datum::from((count as f64).to_bits()));
                    ffi::DirectFunctionCall2Coll(ffi::interval_div, InvalidOid, sum, count)
                }
            }
        }
    }

    /// What a worker says of so many values, for the server to make a sum or an average of what all workers say: an array of
    /// their number and sum; of floats of the squares, too, that the server keeps (`float8_accum`); of wider sums as
    /// `int8_avg_serialize` and its kin have it, `None` if there is no value. It is made in the current memory context.
    ///
    /// # Safety
    /// As for [`total`](Self::total).
    pub unsafe fn state(&self, count: u64) -> Option<Datum> {
        // SAFETY: the caller's.
        unsafe {
            match self {
                Sum::Integers(sum) => Some(array([count as i64, *sum as i64].map(Datum::from), pg_sys::INT8OID)),
                Sum::Float4s(sums) | Sum::Float8s(sums) => {
                    let numbers = [count as f64, checked(sums.total, sums.total_overflows), sums.squares];
                    Some(array(numbers.map(|number| Datum::from(number.to_bits())), pg_sys::FLOAT8OID))
                }
                Sum::Bigints(sum) => (count > 0).then(|| serialized(*sum, count)),
                Sum::Numerics(sum) => (count > 0).then(|| sum.state(count)),
                Sum::Intervals(sum) => sum.state(count),
            }
        }
    }
}

/// Whether what workers say of a sum is of a wider type than the sum.
pub(super) fn is_wider_than(ty: Oid) -> bool {
    matches!(ty, pg_sys::INT8OID | pg_sys::NUMERICOID) || ty == pg_sys::INTERVALOID && HAS_INFINITIES
}

/// An array of values that are passed as they are, and have 8 bytes.
unsafe fn array<const N: usize>(mut values: [Datum; N], ty: Oid) -> Datum {
    let (length, alignment) = (size_of::<i64>() as i32, pg_sys::TYPALIGN_DOUBLE as core::ffi::c_char);
    // SAFETY: new memory.
    Datum::from(unsafe { ffi::construct_array(values.as_mut_ptr(), N as i32, ty, length, true, alignment) })
}

/// A sum of so many bigints as the server's functions hand it on (`int8_avg_serialize`), each number from its greatest byte on:
/// the count, then the sum.
#[cfg(feature = "pg19")]
unsafe fn serialized(sum: i128, count: u64) -> Datum {
    // SAFETY: the caller's.
    unsafe { bytea(&[&count.to_be_bytes(), &sum.to_be_bytes()]) }
}

/// A sum of so many bigints as the server's functions hand it on (`int8_avg_serialize`): the count, then the sum as a numeric.
#[cfg(not(feature = "pg19"))]
unsafe fn serialized(sum: i128, count: u64) -> Datum {
    // SAFETY: the caller's.
    unsafe { serialized_numeric(numeric(sum), count, &[]) }
}

/// A count and a numeric as the server's functions hand them on, each number from its greatest byte on (`numericvar_serialize`):
/// how many digits there are, the weight, sign and scale, and the digits; and what is behind them.
unsafe fn serialized_numeric(numeric: Datum, count: u64, behind: &[u8]) -> Datum {
    // SAFETY: the server's function, with what it takes.
    unsafe {
        let sent = ffi::DirectFunctionCall1Coll(ffi::numeric_send, InvalidOid, numeric);
        with_content(sent, |sent| {
            // The same to a client, but that the first four are shorter there.
            let (shorter, digits) = sent.as_chunks::<2>().0.split_at(4);
            let [count_of_digits, weight, sign, scale] = [0, 1, 2, 3].map(|at| i16::from_be_bytes(shorter[at]));
            let header = [count_of_digits, weight, sign, scale].map(|part| i32::from(part).to_be_bytes());
            bytea(&[&count.to_be_bytes(), header.as_flattened(), digits.as_flattened(), behind])
        })
    }
}

/// A `bytea` of these bytes, one after the other.
unsafe fn bytea(pieces: &[&[u8]]) -> Datum {
    let length: usize = pieces.iter().map(|piece| piece.len()).sum();
    // SAFETY: new memory of that length.
    unsafe {
        let value = ffi::palloc(HEADER + length).cast::<u8>();
        let mut at = value;
        for piece in [&bytes_header(length)[..]].iter().chain(pieces) {
            at.copy_from_nonoverlapping(piece.as_ptr(), piece.len());
            at = at.add(piece.len());
        }
        Datum::from(value)
    }
}

/// An `interval`.
unsafe fn interval(interval: Interval) -> Datum {
    // SAFETY: new memory of that length.
    unsafe {
        let value = ffi::palloc(size_of::<Interval>()).cast::<Interval>();
        value.write(interval);
        Datum::from(value)
    }
}

/// A result, unless floats have overflowed.
unsafe fn checked<T>(result: T, overflows: bool) -> T {
    if overflows {
        // SAFETY: the server's error. No frame here owns a destructor.
        unsafe { ffi::float_overflow_error() }
    }
    result
}

/// The sum of numerics: what has digits beyond the places of [`NumericSum`], the server adds up.
#[derive(Clone, Copy)]
pub(super) struct Numerics {
    sum: NumericSum,
    rest: Option<Datum>,
    context: MemoryContext,
}

impl Numerics {
    unsafe fn clear(&mut self) {
        if let Some(rest) = self.rest.take() {
            // SAFETY: made by `add_to_rest`, and nobody else knows it.
            unsafe { ffi::pfree(rest.cast_mut_ptr()) };
        }
        self.sum = NumericSum::default();
    }

    unsafe fn add(&mut self, value: Datum) {
        // SAFETY: the caller's.
        unsafe {
            let is_added = with_content(value, |stored| number(stored).and_then(|number| self.sum.add(&number)));
            if is_added.is_none() {
                self.add_to_rest(value);
            }
        }
    }

    #[cold]
    unsafe fn add_to_rest(&mut self, value: Datum) {
        // SAFETY: the server's functions, with what they take: the sum would leave behind what it made whole by itself.
        unsafe {
            let before = MemoryContextSwitchTo(self.context);
            let so_far = self.rest.unwrap_or_else(|| numeric(0));
            let whole = Datum::from(ffi::pg_detoast_datum(value.cast_mut_ptr()));
            let sum = ffi::DirectFunctionCall2Coll(ffi::numeric_add, InvalidOid, so_far, whole);
            if whole.value() != value.value() {
                ffi::pfree(whole.cast_mut_ptr());
            }
            ffi::pfree(so_far.cast_mut_ptr());
            MemoryContextSwitchTo(before);
            self.rest = Some(sum);
        }
    }

    unsafe fn total(&self) -> Datum {
        let mut text = Text::new();
        // SAFETY: the caller's, and the server's functions, with what they take.
        unsafe {
            match self.sum.special() {
                Some(special) => {
                    let _ = text.write_str(special);
                    text.to_numeric()
                }
                None => self.total_of_numbers(),
            }
        }
    }

    /// The sum of what is neither infinite nor no number.
    unsafe fn total_of_numbers(&self) -> Datum {
        let mut text = Text::new();
        let _ = self.sum.write(&mut text);
        // SAFETY: the caller's, and the server's functions, with what they take.
        unsafe {
            let total = text.to_numeric();
            match self.rest {
                Some(rest) => ffi::DirectFunctionCall2Coll(ffi::numeric_add, InvalidOid, total, rest),
                None => total,
            }
        }
    }

    /// The sum of so many values as the server's functions hand it on (`numeric_avg_serialize`). Behind it are the greatest
    /// scale and how many values have that, which matter where values are taken out again, and how many are no number and
    /// which infinite ones there are: if any, that is all that matters.
    unsafe fn state(&self, count: u64) -> Datum {
        let specials = self.sum.specials().map(|is_there| u64::from(is_there).to_be_bytes());
        let mut behind = [0; size_of::<u32>() + size_of::<u64>() + 3 * size_of::<u64>()];
        behind[size_of::<u32>() + size_of::<u64>()..].copy_from_slice(specials.as_flattened());
        // SAFETY: the caller's.
        unsafe { serialized_numeric(self.total_of_numbers(), count, &behind) }
    }
}

/// The sum of intervals. From 17 on there are infinite ones, which are counted apart.
#[derive(Clone, Copy)]
pub(super) struct Intervals {
    sum: Interval,
    has_infinity: [bool; 2],
}

/// Infinity, and the negative one.
const INFINITIES: [Interval; 2] = [
    Interval { time: i64::MAX, day: i32::MAX, month: i32::MAX },
    Interval { time: i64::MIN, day: i32::MIN, month: i32::MIN },
];
const HAS_INFINITIES: bool = cfg!(not(any(feature = "pg15", feature = "pg16")));

impl Intervals {
    const NONE: Intervals = Intervals { sum: Interval { time: 0, day: 0, month: 0 }, has_infinity: [false; 2] };

    unsafe fn add(&mut self, value: Datum) {
        // SAFETY: an interval.
        let interval = unsafe { *value.cast_mut_ptr::<Interval>() };
        let parts = |interval: &Interval| (interval.time, interval.day, interval.month);
        let infinity = INFINITIES.iter().position(|infinity| HAS_INFINITIES && parts(infinity) == parts(&interval));
        match infinity {
            Some(which) => self.has_infinity[which] = true,
            // SAFETY: the caller's.
            None => self.sum = unsafe { sum_of(&self.sum, &interval) },
        }
    }

    /// The sum. If there are both infinities, that is the server's error.
    unsafe fn total(&self) -> Interval {
        match self.has_infinity {
            [false, false] => self.sum,
            // SAFETY: the caller's.
            [true, true] => unsafe { sum_of(&INFINITIES[0], &INFINITIES[1]) },
            [is_positive, _] => INFINITIES[usize::from(!is_positive)],
        }
    }

    /// The sum of so many values as the server's functions hand it on (`interval_avg_serialize`): the count, the sum, and how
    /// many infinities of each kind there are, of which it matters whether there are any.
    #[cfg(not(any(feature = "pg15", feature = "pg16")))]
    unsafe fn state(&self, count: u64) -> Option<Datum> {
        let Interval { time, day, month } = self.sum;
        let infinities = self.has_infinity.map(|is_there| u64::from(is_there).to_be_bytes());
        let sum: [&[u8]; 3] = [&time.to_be_bytes(), &day.to_be_bytes(), &month.to_be_bytes()];
        // SAFETY: the caller's.
        (count > 0)
            .then(|| unsafe { bytea(&[&count.to_be_bytes(), sum[0], sum[1], sum[2], infinities.as_flattened()]) })
    }

    /// The sum of so many values as the server's functions keep it (`interval_accum`): an array of the sum, and of the count as
    /// an interval of so many microseconds.
    #[cfg(any(feature = "pg15", feature = "pg16"))]
    unsafe fn state(&self, count: u64) -> Option<Datum> {
        let count = Interval { time: count as i64, day: 0, month: 0 };
        let mut values = [&raw const self.sum, &raw const count].map(Datum::from);
        let (length, alignment) = (size_of::<Interval>() as i32, pg_sys::TYPALIGN_DOUBLE as core::ffi::c_char);
        // SAFETY: the server's function copies both.
        let array =
            unsafe { ffi::construct_array(values.as_mut_ptr(), 2, pg_sys::INTERVALOID, length, false, alignment) };
        Some(Datum::from(array))
    }
}

/// The sum of two intervals.
unsafe fn sum_of(one: &Interval, other: &Interval) -> Interval {
    let (one, other) = (Datum::from(&raw const *one), Datum::from(&raw const *other));
    // SAFETY: the server's function; what it gives is new, and of this size.
    unsafe {
        let new = ffi::DirectFunctionCall2Coll(ffi::interval_pl, InvalidOid, one, other).cast_mut_ptr::<Interval>();
        let sum = *new;
        ffi::pfree(new.cast());
        sum
    }
}

/// A `numeric` of an integer.
pub(super) unsafe fn numeric(integer: i128) -> Datum {
    // SAFETY: the server's functions, with what they take.
    unsafe {
        if let Ok(integer) = i64::try_from(integer) {
            return Datum::from(ffi::int64_to_numeric(integer));
        }
        let mut text = Text::new();
        let _ = write!(text, "{integer}");
        text.to_numeric()
    }
}

/// A C string on the stack, of as many digits as a sum has.
struct Text {
    bytes: [u8; 96],
    used: usize,
}

impl Text {
    fn new() -> Text {
        Text { bytes: [0; 96], used: 0 }
    }

    unsafe fn to_numeric(&self) -> Datum {
        let (text, any_scale) = (Datum::from(self.bytes.as_ptr()), Datum::from(-1));
        // SAFETY: the server's function, with what it takes. No frame here owns a destructor.
        unsafe {
            ffi::DirectFunctionCall3Coll(
                ffi::numeric_in,
                InvalidOid,
                text,
                Datum::from(pg_sys::Oid::INVALID),
                any_scale,
            )
        }
    }
}

impl Write for Text {
    fn write_str(&mut self, piece: &str) -> core::fmt::Result {
        // The last byte stays zero.
        let end = self.used + piece.len();
        let room = self.bytes.get_mut(self.used..end).filter(|_| end < 96).ok_or(core::fmt::Error)?;
        room.copy_from_slice(piece.as_bytes());
        self.used = end;
        Ok(())
    }
}
