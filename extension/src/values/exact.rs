//! Where a value of another type falls among the values of a column: exact, without casts that round wrongly.

use core::cmp::Ordering;

use fpbtree_engine::keys::ColumnType;

/// The column's values on both sides of an argument, as fields (what [`ColumnType::encode`] makes, ascending). They are
/// the same if the column can hold the argument's value.
///
/// So `column >= arg` is `field >= ceil`, `column > arg` is `field > floor`, `column <= arg` is `field <= floor`,
/// `column < arg` is `field < ceil`, and `column = arg` is `ceil <= field <= floor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbours {
    /// The largest value that is not greater than the argument.
    pub floor: Option<u128>,
    /// The smallest value that is not less than the argument.
    pub ceil: Option<u128>,
}

impl Neighbours {
    /// The column holds the argument's value itself.
    pub fn same(field: u128) -> Neighbours {
        Neighbours { floor: Some(field), ceil: Some(field) }
    }
}

/// The neighbours of an integer among those of a smallint, integer or bigint column.
pub fn integer(ty: ColumnType, arg: i64) -> Neighbours {
    let most = i64::MAX >> (64 - ty.bits());
    let least = -most - 1;
    let field = |value: i64| ty.encode(value as u128).0;
    Neighbours {
        floor: (arg >= least).then(|| field(arg.min(most))),
        ceil: (arg <= most).then(|| field(arg.max(least))),
    }
}

/// The neighbours of a float among those of a `real` column.
pub fn real(arg: f64) -> Neighbours {
    let field = |value: f32| Some(ColumnType::Float4.encode(value.to_bits().into()).0);
    let nearest = arg as f32;
    match f64::from(nearest).partial_cmp(&arg) {
        Some(Ordering::Less) => Neighbours { floor: field(nearest), ceil: field(nearest.next_up()) },
        Some(Ordering::Greater) => Neighbours { floor: field(nearest.next_down()), ceil: field(nearest) },
        // Equal, or NaN among NaNs.
        Some(Ordering::Equal) | None => Neighbours { floor: field(nearest), ceil: field(nearest) },
    }
}

/// The neighbours of whatever `compare` compares the values of a column with. It is called with fields of the column.
pub fn search(ty: ColumnType, compare: impl FnMut(u128) -> Ordering) -> Neighbours {
    search_in(&values(ty), compare)
}

/// Searches as [`search`] does, where `compare` keeps to the order of the column only from one of `cuts` (ascending) to
/// the next: what `wants` makes of the neighbours in each such piece of the column's values, ascending.
pub fn search_pieces(
    ty: ColumnType,
    cuts: &[u128],
    mut compare: impl FnMut(u128) -> Ordering,
    wants: impl Fn(Neighbours) -> Option<FieldRange>,
    mut add: impl FnMut(FieldRange),
) {
    for (first, last) in values(ty) {
        let inside = cuts.iter().filter(|&&cut| first < cut && cut <= last);
        let mut from = first;
        for to in inside.map(|cut| cut - 1).chain([last]) {
            if from > to {
                continue;
            }
            let wanted = wants(search_in(&[(from, to)], &mut compare));
            let clipped = wanted.map(|(low, high)| (low.max(from), high.min(to)));
            if let Some((low, high)) = clipped
                && low <= high
            {
                add((low, high));
            }
            from = to + 1;
        }
    }
}

/// The neighbours among the fields in some ranges, ascending.
fn search_in(ranges: &[FieldRange], mut compare: impl FnMut(u128) -> Ordering) -> Neighbours {
    Neighbours {
        floor: ranges.iter().rev().find_map(|&range| last(range, |field| compare(field).is_le())),
        ceil: ranges.iter().find_map(|&range| first(range, |field| compare(field).is_ge())),
    }
}

/// Fields from one to another, both included.
pub type FieldRange = (u128, u128);

/// The fields of valid values, in ascending ranges. Some types have more fields, which comparison functions do not
/// expect.
fn values(ty: ColumnType) -> [FieldRange; 3] {
    const DATES: (i64, i64) = (-2_451_545, 2_145_031_948);
    const TIMESTAMPS: (i64, i64) = (-211_813_488_000_000_000, 9_223_371_331_199_999_999);
    let field = |image: u128| ty.encode(image).0;
    let all = u128::MAX >> (128 - ty.bits());
    let range = |first: u128, last: u128| (field(first), field(last));
    // The infinities are the extremes of the integer.
    let finite = |(first, last): (i64, i64)| [(0, 0), range(first as u128, last as u128), (all, all)];
    let infinities = |negative: u128, positive: u128| [range(negative, positive), (all, all), (all, all)];
    match ty {
        ColumnType::Date => finite(DATES),
        ColumnType::Timestamp => finite(TIMESTAMPS),
        ColumnType::Float4 => infinities(f32::NEG_INFINITY.to_bits().into(), f32::INFINITY.to_bits().into()),
        ColumnType::Float8 => infinities(f64::NEG_INFINITY.to_bits().into(), f64::INFINITY.to_bits().into()),
        _ => [(0, all); 3],
    }
}

/// Whether a field is that of a value that the type's functions expect.
pub fn is_valid(ty: ColumnType, field: u128) -> bool {
    values(ty).iter().any(|(first, last)| (*first..=*last).contains(&field))
}

/// The last of the range for which `holds`, which holds for the first ones only.
fn last((mut low, mut high): FieldRange, mut holds: impl FnMut(u128) -> bool) -> Option<u128> {
    if holds(high) {
        return Some(high);
    }
    if !holds(low) {
        return None;
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if holds(middle) { low = middle } else { high = middle }
    }
    Some(low)
}

/// The first of the range for which `holds`, which holds for the last ones only.
fn first((mut low, mut high): FieldRange, mut holds: impl FnMut(u128) -> bool) -> Option<u128> {
    if holds(low) {
        return Some(low);
    }
    if !holds(high) {
        return None;
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if holds(middle) { high = middle } else { low = middle }
    }
    Some(high)
}
