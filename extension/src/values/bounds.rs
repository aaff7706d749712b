//! The bounds that an argument of a scan key puts on a column, whatever type of the operator family it has.

use core::cmp::Ordering;
use core::mem::MaybeUninit;

use fpbtree_engine::keys::ColumnType;
use pgrx::PgSqlErrorCode::ERRCODE_INTERNAL_ERROR;
use pgrx::pg_sys::{self, Datum, FmgrInfo, Oid, Relation};

use crate::pg::memory::zeroed_values;
use crate::pg::{errors, ffi};
use crate::values::column::{self, ImageBuffer, image};
use crate::values::exact;
pub use crate::values::exact::{FieldRange, Neighbours};

/// What a local time and its moment differ by is less than this, in seconds: no zone has a week.
const MOST_OFFSET: i64 = 7 * DAY;
/// Seconds.
const DAY: i64 = 86_400;
/// Microseconds.
const SECOND: i64 = 1_000_000;
/// The server's epoch in Unix time, in seconds.
const EPOCH: i64 = 10_957 * DAY;

/// What an index says about the type of one of its columns.
#[derive(Clone, Copy)]
pub struct ColumnOrder {
    /// The type, as the engine knows it.
    pub ty: ColumnType,
    /// The type, as the operator class knows it.
    pub input: Oid,
    /// The operator family.
    pub family: Oid,
}

impl ColumnOrder {
    /// How column `c` (from 0) of an index is ordered.
    ///
    /// # Safety
    /// `rel` is an open index of ours with that key column, of type `ty`.
    pub unsafe fn of(rel: Relation, c: usize, ty: ColumnType) -> ColumnOrder {
        // SAFETY: the relation cache's arrays have an element for each key column.
        unsafe { ColumnOrder { ty, input: *(*rel).rd_opcintype.add(c), family: *(*rel).rd_opfamily.add(c) } }
    }
}

/// The column's values on both sides of `arg`, a value of type `subtype` (invalid: the column's own).
///
/// # Safety
/// `arg` is such a value, not NULL, and no member of the family is missing. May raise: the caller's frames own no
/// destructors.
pub unsafe fn neighbours(order: ColumnOrder, subtype: Oid, arg: Datum) -> Neighbours {
    use ColumnType::{Float4, Float8, Int2, Int4, Int8};
    // SAFETY: the value is of the type it is read as.
    unsafe {
        let own = subtype == Oid::INVALID || subtype == order.input;
        match (order.ty, if own { None } else { number_type(subtype) }) {
            _ if own => own_type(order.ty, image(order.ty, arg)),
            (Int2 | Int4 | Int8, Some(from @ (Int2 | Int4 | Int8))) => {
                exact::integer(order.ty, signed(from, image(from, arg)))
            }
            (Float4, Some(Float8)) => exact::real(f64::from_bits(image(Float8, arg) as u64)),
            (Float8, Some(Float4)) => {
                let wide = f64::from(f32::from_bits(image(Float4, arg) as u32));
                own_type(Float8, wide.to_bits().into())
            }
            _ => by_function(order, subtype, arg),
        }
    }
}

fn own_type(ty: ColumnType, image: u128) -> Neighbours {
    Neighbours::same(ty.encode(image).0)
}

/// The number types, which are compared without calling a function.
fn number_type(ty: Oid) -> Option<ColumnType> {
    match ty {
        pg_sys::INT2OID => Some(ColumnType::Int2),
        pg_sys::INT4OID => Some(ColumnType::Int4),
        pg_sys::INT8OID => Some(ColumnType::Int8),
        pg_sys::FLOAT4OID => Some(ColumnType::Float4),
        pg_sys::FLOAT8OID => Some(ColumnType::Float8),
        _ => None,
    }
}

/// An integer's image as a number.
fn signed(ty: ColumnType, image: u128) -> i64 {
    let unused = 64 - ty.bits();
    ((image as u64) << unused) as i64 >> unused
}

/// Finds the neighbours by calling the family's comparison function.
unsafe fn by_function(order: ColumnOrder, subtype: Oid, arg: Datum) -> Neighbours {
    // SAFETY: `arg` is of the type `subtype`, which the family compares with the column's.
    unsafe { exact::search(order.ty, comparison(order, subtype, arg)) }
}

/// The family's comparison function, for fields of the column and this argument.
unsafe fn comparison(order: ColumnOrder, subtype: Oid, arg: Datum) -> impl FnMut(u128) -> Ordering {
    // SAFETY: a function of two arguments of these types, called as the server's fmgr is.
    let mut info: FmgrInfo = unsafe {
        let function = ffi::get_opfamily_proc(order.family, order.input, subtype, column::ORDER_FUNCTION);
        if function == Oid::INVALID {
            refuse(order, subtype);
        }
        let mut info = FmgrInfo::default();
        ffi::fmgr_info_cxt(function, &mut info, pg_sys::CurrentMemoryContext);
        info
    };
    let mut room = ImageBuffer::default();
    move |field| {
        let value = column::value(order.ty, order.ty.decode(field, false), &mut room);
        // SAFETY: the function takes two values of these types.
        let sign = unsafe { ffi::FunctionCall2Coll(&mut info, Oid::INVALID, value, arg) };
        (sign.value() as i32).cmp(&0)
    }
}

/// Whether the column's values are local times, and arguments of this type moments: the time zone lies between them.
#[inline]
pub fn is_local(order: ColumnOrder, subtype: Oid) -> bool {
    subtype == pg_sys::TIMESTAMPTZOID && (order.input == pg_sys::TIMESTAMPOID || order.input == pg_sys::DATEOID)
}

/// Adds the column's values that `wants` makes of the neighbours of `moment`, a timestamptz, if [`is_local`].
///
/// Where clocks go forward, a later local time may be an earlier moment: the hour they skip is read by the old offset.
/// So there are neighbours for each piece of the column's values that is read by one offset. That costs some twenty
/// comparisons, and about as many more, or a hundred, if the clocks change within weeks.
///
/// # Safety
/// `moment` is not NULL, and no member of the family is missing. Takes memory from the current context. May raise: the
/// caller's frames own no destructors.
pub unsafe fn local_ranges(
    order: ColumnOrder,
    moment: Datum,
    wants: impl Fn(Neighbours) -> Option<FieldRange>,
    ranges: &mut ContextList<FieldRange>,
) {
    // SAFETY: `moment` is a timestamptz, which the family compares with the column's.
    unsafe {
        let mut cuts = ContextList::new();
        add_cuts(order.ty, moment.value() as i64, &mut cuts);
        cuts.as_mut_slice().sort_unstable();
        let compare = comparison(order, pg_sys::TIMESTAMPTZOID, moment);
        exact::search_pieces(order.ty, cuts.as_mut_slice(), compare, wants, |range| {
            ranges.push(range);
        });
    }
}

/// Adds the fields of local times, of those that a zone could bring near `moment`, from which on the server may use
/// another offset than before.
unsafe fn add_cuts(ty: ColumnType, moment: i64, cuts: &mut ContextList<u128>) {
    let seconds = moment.div_euclid(SECOND) + EPOCH;
    let (offset, _) = offset_at(seconds);
    // With cuts on both sides of the local time that the moment most likely is, no piece needs a long search.
    let likely = first_field(ty, moment.saturating_add(offset * SECOND));
    // SAFETY: new memory in the current context.
    unsafe {
        cuts.push(likely);
        cuts.push(likely + 1);
    }
    let mut from = seconds - 2 * MOST_OFFSET;
    while let (before, Some((change, after))) = offset_at(from)
        && change <= seconds + 2 * MOST_OFFSET
    {
        // DetermineTimeZoneOffset decides by the first change after the day before: whether the local time is before it
        // by the old offset, and by the new one.
        let old = change + before;
        for local in [old, old + 1, change + after, change + DAY] {
            let local = (local - EPOCH).saturating_mul(SECOND);
            // SAFETY: the list is not used longer than the current memory context lives.
            unsafe { cuts.push(first_field(ty, local)) };
        }
        from = change;
    }
}

/// The field of a column's first value from this local time on, in microseconds.
fn first_field(ty: ColumnType, local: i64) -> u128 {
    let day = DAY * SECOND;
    let image = match ty {
        ColumnType::Date => local.div_euclid(day) + i64::from(local.rem_euclid(day) != 0),
        _ => local,
    };
    ty.encode(image as u128).0
}

/// The session's time zone's offset from UTC at a moment of Unix time, and its next change after that: when, and to
/// what offset. All in seconds.
fn offset_at(moment: i64) -> (i64, Option<(i64, i64)>) {
    let (mut before, mut was_summer, mut change) = (0, 0, 0);
    let (mut after, mut is_summer) = (0, 0);
    // SAFETY: the server always has a time zone; the rest is ours.
    let found = unsafe {
        pg_sys::pg_next_dst_boundary(
            &moment,
            &mut before,
            &mut was_summer,
            &mut change,
            &mut after,
            &mut is_summer,
            pg_sys::session_timezone,
        )
    };
    (before, (found == 1 && change > moment).then_some((change, after)))
}

/// A growing list in the server's memory, which goes with its context: no destructor (I10).
pub struct ContextList<T: 'static> {
    memory: &'static mut [MaybeUninit<T>],
    count: usize,
}

impl<T: Copy> ContextList<T> {
    /// None.
    pub fn new() -> ContextList<T> {
        ContextList { memory: &mut [], count: 0 }
    }

    /// Appends a value.
    ///
    /// # Safety
    /// The list is not used longer than the current memory context lives. May raise when out of memory.
    pub unsafe fn push(&mut self, value: T) {
        if self.count == self.memory.len() {
            // SAFETY: the list is not used longer than the context lives.
            let memory = unsafe { zeroed_values(pg_sys::CurrentMemoryContext, 4.max(2 * self.count)) };
            memory[..self.count].copy_from_slice(self.memory);
            self.memory = memory;
        }
        self.memory[self.count].write(value);
        self.count += 1;
    }

    /// The values.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        // SAFETY: so many have been written.
        unsafe { self.memory[..self.count].assume_init_mut() }
    }
}

#[cold]
fn refuse(order: ColumnOrder, subtype: Oid) -> ! {
    let (family, input, subtype) = (order.family.to_u32(), order.input.to_u32(), subtype.to_u32());
    errors::raise(
        ERRCODE_INTERNAL_ERROR,
        format_args!("missing support function 1({input},{subtype}) in operator family {family}"),
        None,
        None,
    )
}

/// The fields that compare with an argument as the strategy says: from, to; `None` if there are none.
#[inline]
pub fn interval(strategy: u16, Neighbours { floor, ceil }: Neighbours) -> Option<(u128, u128)> {
    let (low, high) = match u32::from(strategy) {
        pg_sys::BTLessStrategyNumber => (0, ceil.map_or(Some(u128::MAX), |ceil| ceil.checked_sub(1))?),
        pg_sys::BTLessEqualStrategyNumber => (0, floor?),
        pg_sys::BTEqualStrategyNumber => (ceil?, floor?),
        pg_sys::BTGreaterEqualStrategyNumber => (ceil?, u128::MAX),
        _ => (floor.map_or(Some(0), |floor| floor.checked_add(1))?, u128::MAX),
    };
    (low <= high).then_some((low, high))
}
