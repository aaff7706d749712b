//! What the rows of an index say together: where a group of them ends, and how many values a column has in it, their
//! sum, the least of them and the greatest.

use core::ops::Range;

use crate::format::{Key, Lane, Tid};
use crate::keys::{ColumnType, KeyShape, Slot};
use crate::scan::Direction;

/// Rows that follow each other in an index of exact lanes.
#[derive(Clone, Copy)]
pub struct Rows<'m, L> {
    pub(super) lanes: &'m [L],
    pub(super) tids: &'m [Tid],
}

/// What is asked about a column.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Asked {
    /// The sum of its values, which are integers or floats.
    pub sum: bool,
    /// The least of its values and the greatest.
    pub ends: bool,
    /// How many different values it has, of rows that are in its order.
    pub different: bool,
}

/// A column's values in some rows. All-zero bytes are those in none.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct Summary {
    count: u64,
    /// How many different ones there are, and what the rows have in common that have the last of them.
    different: u64,
    last: (u128, bool),
    /// Whether one was behind the one before, and whether one was in front of it.
    ascends: bool,
    descends: bool,
    sum: i128,
    floats: FloatSums,
    /// The complement of the least value's field, and the greatest one's field: zeros are before any value. Of values that
    /// are equal the last one counts, as in the server's `float8smaller` and `float8larger`, which shows in the sign of a zero.
    ends: [u128; 2],
    /// Whether these need the NEGATIVE flag.
    negative: [bool; 2],
}

/// Sums of floats, which depend on the order of the rows, as the server's aggregates make them.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct FloatSums {
    /// As `sum` has it, which adds in the type's own precision (`float4pl`, `float8pl`).
    pub sum: f64,
    /// Whether finite values have made that infinite, of which the server makes an error.
    pub sum_overflows: bool,
    /// As `avg` has it (`float8_accum`).
    pub total: f64,
    /// Whether finite values have made that infinite, or the squares that the server keeps with it.
    pub total_overflows: bool,
    /// The sum of the squares of the values' differences from their average.
    pub squares: f64,
}

impl<'m, L: Lane> Rows<'m, L> {
    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.lanes.len()
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// Some of them.
    ///
    /// # Panics
    /// If there are not so many.
    #[inline]
    pub fn part(&self, range: Range<usize>) -> Rows<'m, L> {
        Rows { lanes: &self.lanes[range.clone()], tids: &self.tids[range] }
    }

    /// The image of a row's column, `None` for NULL.
    #[inline]
    pub fn image(&self, at: usize, shape: &KeyShape, column: usize) -> Option<u128> {
        shape.unpack(self.lanes[at].to_u128(), self.tids[at], column)
    }

    /// What rows have in common that are equal in their first columns, at least one.
    #[inline]
    pub fn group(&self, at: usize, shape: &KeyShape, columns: usize) -> (u128, bool) {
        (self.lanes[at].to_u128() >> shape.slot(columns - 1).shift, self.tids[at].rank())
    }

    /// The first key behind all rows of a group by so many columns, if there can be any.
    pub fn behind_group(group: (u128, bool), shape: &KeyShape, columns: usize) -> Option<Key<L>> {
        let ((lanes, rank), shift) = (group, shape.slot(columns - 1).shift);
        if shape.columns().len() == 1 && !rank {
            return Some(Key::new(L::from_u128(lanes), Tid::first(true)));
        }
        let next = lanes.checked_add(1)?;
        let lane = next.checked_shl(shift).filter(|lane| lane >> shift == next && *lane <= L::MAX.to_u128())?;
        Some(Key::new(L::from_u128(lane), Tid::MIN))
    }

    /// The first key of a group by so many columns, if there can be one.
    pub fn before_group(group: (u128, bool), shape: &KeyShape, columns: usize) -> Option<Key<L>> {
        let ((lanes, rank), shift) = (group, shape.slot(columns - 1).shift);
        if shape.columns().len() == 1 {
            return Some(Key::new(L::from_u128(lanes), Tid::first(rank)));
        }
        let lane = lanes.checked_shl(shift).filter(|lane| lane >> shift == lanes && *lane <= L::MAX.to_u128())?;
        Some(Key::new(L::from_u128(lane), Tid::MIN))
    }

    /// Where the rows end that are equal to the `from`-th in their first columns. Most groups are small, or have the
    /// rest of the page.
    pub fn group_end(&self, from: usize, shape: &KeyShape, columns: usize) -> usize {
        let (group, len) = (self.group(from, shape, columns), self.len());
        let is_in = |at: usize| self.group(at, shape, columns) == group;
        if is_in(len - 1) {
            return len;
        }
        let mut step = 1;
        while from + step < len && is_in(from + step) {
            step *= 2;
        }
        let (mut low, mut high) = (from + step / 2, (from + step).min(len - 1));
        while high - low > 1 {
            let middle = low.midpoint(high);
            if is_in(middle) { low = middle } else { high = middle }
        }
        high
    }

    /// The rows in which an index's only column is not NULL: NULLs are all at one end.
    fn without_nulls(self, shape: &KeyShape) -> Self {
        let null = shape.null_rank();
        let len = self.len();
        let first = if len > 0 && self.tids[0].rank() == null {
            self.tids.partition_point(|tid| tid.rank() == null)
        } else {
            0
        };
        let end = first + self.tids[first..].partition_point(|tid| tid.rank() != null);
        self.part(first..end)
    }
}

impl Summary {
    /// How many values there are that are not NULL.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// How many different ones, if that was asked for.
    pub fn different(&self) -> u64 {
        self.different
    }

    /// Whether different values did not come in the order of a scan, as those of a sound index do.
    pub fn is_out_of_order(&self, direction: Direction) -> bool {
        match direction {
            Direction::Forward => self.descends,
            Direction::Backward => self.ascends,
        }
    }

    /// Their sum, if that was asked for, of integers.
    pub fn sum(&self) -> i128 {
        self.sum
    }

    /// Their sums, if that was asked for, of floats.
    pub fn float_sums(&self) -> FloatSums {
        self.floats
    }

    /// The images of the least value of a column of that type and of the greatest, if they were asked for and there are
    /// any.
    pub fn ends(&self, ty: ColumnType) -> Option<[u128; 2]> {
        let ([least, greatest], [first, last]) = (self.ends, self.negative);
        (self.count > 0).then(|| [ty.decode(!least, first), ty.decode(greatest, last)])
    }

    /// Adds the values that a column has in some rows. `is_ordered` says that the rows are in its order, as they are if
    /// all columns before it are the same in them.
    pub fn add<L: Lane>(&mut self, rows: Rows<'_, L>, shape: &KeyShape, column: usize, asked: Asked, is_ordered: bool) {
        let rows = if shape.columns().len() == 1 { rows.without_nulls(shape) } else { rows };
        if rows.is_empty() {
            return;
        }
        let (of, slot) = (&shape.columns()[column], shape.slot(column));
        if asked.different {
            self.count_different(rows, shape, column);
        }
        let is_of_floats = of.ty.is_float() && (asked.sum || asked.ends);
        if is_of_floats || has_nulls(rows, shape, column, is_ordered) {
            return self.add_one_by_one(rows, shape, column, asked);
        }
        if asked.sum {
            let mask = u64::MAX >> (64 - of.ty.bits());
            let slots = sum(rows, slot.shift, mask);
            let fields = if of.descending { rows.len() as u128 * u128::from(mask) - slots } else { slots };
            self.sum += value_of(of.ty, fields, rows.len());
        }
        if asked.ends {
            let ends = if is_ordered { slots_at_ends(rows, slot) } else { extremes(rows, slot.shift, of.ty.bits()) };
            let all = u128::MAX >> (128 - of.ty.bits());
            for slot in ends {
                self.widen(if of.descending { !slot & all } else { slot & all }, false);
            }
        }
        self.count += rows.len() as u64;
    }

    /// Counts the different values of a column, in whose order the rows are.
    fn count_different<L: Lane>(&mut self, rows: Rows<'_, L>, shape: &KeyShape, column: usize) {
        let mut at = 0;
        while at < rows.len() {
            let value = rows.group(at, shape, column + 1);
            let is_new = self.different == 0 || self.last != value;
            if is_new && rows.image(at, shape, column).is_some() {
                self.ascends |= self.different > 0 && value > self.last;
                self.descends |= self.different > 0 && value < self.last;
                (self.different, self.last) = (self.different + 1, value);
            }
            at = rows.group_end(at, shape, column + 1);
        }
    }

    /// Adds values that are between NULLs, or of which the order matters.
    fn add_one_by_one<L: Lane>(&mut self, rows: Rows<'_, L>, shape: &KeyShape, column: usize, asked: Asked) {
        let ty = shape.columns()[column].ty;
        for image in (0..rows.len()).filter_map(|at| rows.image(at, shape, column)) {
            let (field, negative) = ty.encode(image);
            self.count += 1;
            if asked.sum {
                match ty {
                    ColumnType::Float4 => self.floats.add(f32::from_bits(image as u32).into(), self.count, true),
                    ColumnType::Float8 => self.floats.add(f64::from_bits(image as u64), self.count, false),
                    _ => self.sum += value_of(ty, field, 1),
                }
            }
            if asked.ends {
                self.widen(field, negative);
            }
        }
    }

    /// Takes a value into account that may be at an end.
    fn widen(&mut self, field: u128, negative: bool) {
        for (end, field) in [!field, field].into_iter().enumerate() {
            if self.ends[end] <= field {
                (self.ends[end], self.negative[end]) = (field, negative);
            }
        }
    }
}

impl FloatSums {
    /// Adds the `number`-th value, counted from 1; `is_single` says that it is a float4.
    pub fn add(&mut self, value: f64, number: u64, is_single: bool) {
        let sum = match number {
            1 => value,
            _ if is_single => f64::from(self.sum as f32 + value as f32),
            _ => self.sum + value,
        };
        self.sum_overflows |= sum.is_infinite() && !self.sum.is_infinite() && !value.is_infinite();
        self.sum = sum;

        let (before, count) = (self.total, number as f64);
        self.total += value;
        if number == 1 {
            if !value.is_finite() {
                self.squares = f64::NAN;
            }
            return;
        }
        let difference = value * count - self.total;
        self.squares += difference * difference / (count * (count - 1.0));
        if self.total.is_infinite() || self.squares.is_infinite() {
            self.total_overflows |= !before.is_infinite() && !value.is_infinite();
            self.squares = f64::NAN;
        }
    }
}

/// Whether one of several columns is NULL in any row. In its order, NULLs are at an end.
fn has_nulls<L: Lane>(rows: Rows<'_, L>, shape: &KeyShape, column: usize, is_ordered: bool) -> bool {
    let Some(null) = shape.null_place(column) else { return false };
    let slot = shape.slot(column);
    let (bit, is_null) = (slot.shift + slot.width - 1, u64::from(null != 0));
    if is_ordered {
        return [rows.lanes[0], rows.lanes[rows.len() - 1]].into_iter().any(|lane| lane.slot(bit, 1) == is_null);
    }
    let mut any = false;
    for_each_slot(rows, bit, 1, |slots| any |= slots.iter().fold(false, |any, &slot| any | (slot == is_null)));
    any
}

/// Rows that are looked at together.
const STRETCH: usize = 64;

/// Hands over a column's slots, some at a time, one after the other in memory, as vectors want them.
#[inline(always)]
fn for_each_slot<L: Lane>(rows: Rows<'_, L>, shift: u32, mask: u64, mut see: impl FnMut(&[u64])) {
    for lanes in rows.lanes.chunks(STRETCH) {
        let mut slots = [0; STRETCH];
        let slots = &mut slots[..lanes.len()];
        let pairs = slots.iter_mut().zip(lanes);
        // A slot that is in one half of a wide lane takes no shift over both.
        match (L::SIZE, shift) {
            (16, 64..) => pairs.for_each(|(slot, lane)| *slot = (lane.to_u128() >> 64) as u64 >> (shift - 64) & mask),
            (16, ..64) if u64::MAX >> shift >= mask => {
                pairs.for_each(|(slot, lane)| *slot = lane.to_u128() as u64 >> shift & mask);
            }
            _ => pairs.for_each(|(slot, lane)| *slot = lane.slot(shift, mask)),
        }
        see(slots);
    }
}

/// The sum of a column's slots, which may have more bits than one of them.
fn sum<L: Lane>(rows: Rows<'_, L>, shift: u32, mask: u64) -> u128 {
    let (mut low, mut high) = (0, 0);
    for_each_slot(rows, shift, mask, |slots| {
        for slot in slots {
            low += slot & u64::from(u32::MAX);
            high += slot >> 32;
        }
    });
    u128::from(low) + (u128::from(high) << 32)
}

/// The sum of as many integers whose fields have this sum.
fn value_of(ty: ColumnType, fields: u128, count: usize) -> i128 {
    let zero = ty.encode(0).0;
    fields as i128 - count as i128 * zero as i128
}

/// The slots of the first row and of the last.
fn slots_at_ends<L: Lane>(rows: Rows<'_, L>, slot: Slot) -> [u128; 2] {
    [rows.lanes[0], rows.lanes[rows.len() - 1]].map(|lane| lane.to_u128() >> slot.shift)
}

/// The smallest slot and the largest, of rows in any order.
fn extremes<L: Lane>(rows: Rows<'_, L>, shift: u32, bits: u32) -> [u128; 2] {
    if bits > 64 {
        let all = u128::MAX >> (128 - bits);
        let slots = rows.lanes.iter().map(|lane| lane.to_u128() >> shift & all);
        return slots.fold([u128::MAX, 0], |[least, most], slot| [least.min(slot), most.max(slot)]);
    }
    let (mut least, mut most) = (u64::MAX, 0);
    for_each_slot(rows, shift, u64::MAX >> (64 - bits), |slots| {
        for &slot in slots {
            (least, most) = (least.min(slot), most.max(slot));
        }
    });
    [least.into(), most.into()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Column;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const TYPES: [ColumnType; 7] = [
        ColumnType::Int2,
        ColumnType::Int4,
        ColumnType::Int8,
        ColumnType::Bool,
        ColumnType::Float4,
        ColumnType::Float8,
        ColumnType::Date,
    ];

    fn column() -> impl Strategy<Value = Column> {
        (0..TYPES.len(), any::<[bool; 2]>()).prop_map(|(ty, [descending, nulls_first])| Column {
            ty: TYPES[ty],
            descending,
            nulls_first,
        })
    }

    /// Few values, so that groups have several rows; the extremes among them.
    fn image() -> impl Strategy<Value = Option<u128>> {
        prop_oneof![
            1 => Just(None),
            6 => (0..4u128).prop_map(Some),
            1 => prop::sample::select(vec![u128::MAX, u128::MAX >> 1, 1 << 63, 1 << 31, 1 << 15]).prop_map(Some),
            1 => prop::sample::select(vec![1.5f32, -2.5, 1e38]).prop_map(|float| Some(float.to_bits().into())),
            1 => prop::sample::select(vec![0.1f64, -2.5, f64::INFINITY]).prop_map(|float| Some(float.to_bits().into())),
        ]
    }

    /// The rows' keys in order, beside the values they were made of.
    fn keys<L: Lane>(shape: &KeyShape, rows: &[Vec<Option<u128>>]) -> Vec<(Key<L>, Vec<Option<u128>>)> {
        let key = |(at, row): (usize, &Vec<Option<u128>>)| {
            let types = shape.columns().iter().map(|column| column.ty.bits());
            let row: Vec<_> = row
                .iter()
                .zip(types)
                .map(|(image, bits)| image.map(|image| image & (u128::MAX >> (128 - bits))))
                .collect();
            let packed = shape.pack(&row);
            let tid = Tid::new(packed.rank, at as u32, 1, packed.negative);
            (Key::new(L::from_u128(packed.lane), tid), row)
        };
        let mut keys: Vec<_> = rows.iter().enumerate().map(key).collect();
        keys.sort_by_key(|key| key.0);
        keys
    }

    /// An integer's value.
    fn integer(ty: ColumnType, image: u128) -> i128 {
        let unused = 128 - ty.bits();
        ((image << unused) as i128) >> unused
    }

    fn check<L: Lane>(shape: &KeyShape, rows: &[Vec<Option<u128>>], parts: usize) {
        let keys = keys::<L>(shape, rows);
        // A key has no flags, an entry has.
        let tid = |tid: Tid, row: &[Option<u128>]| Tid::new(tid.rank(), tid.block(), 1, shape.pack(row).negative);
        let (lanes, tids): (Vec<L>, Vec<Tid>) = keys.iter().map(|(key, row)| (key.lane, tid(key.tid, row))).unzip();
        let rows = Rows { lanes: &lanes, tids: &tids };
        let columns = shape.columns();
        let fields = |at: usize, to: usize| -> Vec<Option<u128>> {
            keys[at]
                .1
                .iter()
                .zip(columns)
                .take(to)
                .map(|(image, of)| image.map(|image| of.ty.encode(image).0))
                .collect()
        };
        for depth in 1..=columns.len() {
            for at in 0..keys.len() {
                let end = (at..keys.len()).find(|&other| fields(other, depth) != fields(at, depth));
                assert_eq!(rows.group_end(at, shape, depth), end.unwrap_or(keys.len()), "{depth} columns at {at}");
                let behind = Rows::<L>::behind_group(rows.group(at, shape, depth), shape, depth);
                let place = |key: Key<L>| keys.iter().position(|(other, _)| *other >= key).unwrap_or(keys.len());
                assert_eq!(
                    behind.map_or(keys.len(), place),
                    end.unwrap_or(keys.len()),
                    "behind {depth} columns at {at}"
                );
                let first = (0..=at).find(|&other| fields(other, depth) == fields(at, depth));
                let before = Rows::<L>::before_group(rows.group(at, shape, depth), shape, depth);
                assert_eq!(before.map(place), first, "before {depth} columns at {at}");
            }
        }
        for (c, of) in columns.iter().enumerate() {
            let is_integer = matches!(of.ty, ColumnType::Int2 | ColumnType::Int4 | ColumnType::Int8);
            let asked = Asked { sum: is_integer || of.ty.is_float(), ends: true, different: c == 0 };
            let mut summary = Summary::default();
            for part in 0..parts {
                let range = keys.len() * part / parts..keys.len() * (part + 1) / parts;
                summary.add(rows.part(range), shape, c, asked, c == 0);
            }
            let values: Vec<u128> = keys.iter().filter_map(|(_, row)| row[c]).collect();
            assert_eq!(summary.count(), values.len() as u64);
            let fields: BTreeSet<u128> = values.iter().map(|&image| of.ty.encode(image).0).collect();
            assert_eq!(summary.different(), if c == 0 { fields.len() as u64 } else { 0 });
            assert!(!summary.is_out_of_order(Direction::Forward));
            assert_eq!(summary.is_out_of_order(Direction::Backward), c == 0 && fields.len() > 1);
            if is_integer {
                assert_eq!(summary.sum(), values.iter().map(|&image| integer(of.ty, image)).sum::<i128>());
            }
            if of.ty.is_float() {
                // Else signs are not all kept.
                if shape.returnable() {
                    check_floats(of.ty, summary, &values);
                }
                continue;
            }
            let order = |image: u128| of.ty.encode(image).0;
            let ends = summary.ends(of.ty).map(|ends| ends.map(order));
            let fields = values.iter().map(|&image| order(image));
            assert_eq!(ends, fields.clone().min().zip(fields.max()).map(|(least, most)| [least, most]));
        }
    }

    /// A float's value.
    fn float(ty: ColumnType, image: u128) -> f64 {
        if ty == ColumnType::Float4 { f32::from_bits(image as u32).into() } else { f64::from_bits(image as u64) }
    }

    /// What the server's functions make of floats one after the other.
    fn check_floats(ty: ColumnType, summary: Summary, images: &[u128]) {
        let is_same =
            |a: f64, b: f64| a == b && a.is_sign_negative() == b.is_sign_negative() || a.is_nan() && b.is_nan();
        let values: Vec<f64> = images.iter().map(|&image| float(ty, image)).collect();
        let plus = |a: f64, b: f64| if ty == ColumnType::Float4 { (a as f32 + b as f32).into() } else { a + b };
        let Some(sum) = values.iter().copied().reduce(plus) else {
            assert_eq!(summary.ends(ty), None);
            return;
        };
        assert!(is_same(summary.float_sums().sum, sum), "{:?}, not {sum}, of {values:?}", summary.float_sums());
        assert!(is_same(summary.float_sums().total, values.iter().fold(0.0, |total, value| total + value)));
        // NaN is behind all numbers.
        let is_before = |a: &f64, b: &f64| if a.is_nan() || b.is_nan() { b.is_nan() && !a.is_nan() } else { a < b };
        let least = values.iter().copied().reduce(|least, value| if is_before(&least, &value) { least } else { value });
        let most = values.iter().copied().reduce(|most, value| if is_before(&value, &most) { most } else { value });
        let ends = summary.ends(ty).map(|ends| ends.map(|image| float(ty, image)));
        let [found, last] = ends.expect("there are values");
        assert!(least.is_some_and(|least| is_same(least, found)), "{found}, not {least:?}");
        assert!(most.is_some_and(|most| is_same(most, last)), "{last}, not {most:?}");
    }

    #[test]
    fn sums_of_floats_overflow_as_the_servers_do() {
        let sums = |values: &[f64], is_single: bool| {
            let mut sums = FloatSums::default();
            for (at, &value) in values.iter().enumerate() {
                sums.add(value, at as u64 + 1, is_single);
            }
            (sums.sum_overflows, sums.total_overflows)
        };
        assert_eq!(sums(&[1e308, 1e307], false), (false, true), "squares do");
        assert_eq!(sums(&[1e308, 1e308], false), (true, true));
        assert_eq!(sums(&[1e200, 1e200], false), (false, false));
        assert_eq!(sums(&[f64::INFINITY, 1.0, f64::INFINITY], false), (false, false));
        assert_eq!(sums(&[f64::INFINITY, f64::NEG_INFINITY, f64::NAN], false), (false, false));
        assert_eq!(sums(&[f32::MAX.into(), f32::MAX.into()], true), (true, false));
    }

    proptest! {
        #[test]
        fn a_summary_is_what_its_values_one_by_one_say(
            columns in prop::collection::vec(column(), 1..4),
            rows in prop::collection::vec(prop::collection::vec(image(), 3), 1..60),
            parts in 1..4usize,
        ) {
            let Some(shape) = KeyShape::new(&columns) else { return Ok(()) };
            let rows: Vec<_> = rows.into_iter().map(|row| row[..columns.len()].to_vec()).collect();
            match shape.lane_kind() {
                crate::format::LaneKind::U32 => check::<u32>(&shape, &rows, parts),
                crate::format::LaneKind::U64 => check::<u64>(&shape, &rows, parts),
                _ => check::<u128>(&shape, &rows, parts),
            }
        }
    }
}
