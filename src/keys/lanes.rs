//! How the values of columns of fixed width make a lane.

use crate::format::{LaneKind, Tid};

/// The type of a column whose values fit a lane. The codes are stored on disk.
///
/// A value is handed around as its *image*: its native bits, zero-extended. That is two's complement for integers,
/// dates, times and money; 0 or 1 for bool; the byte for "char"; IEEE 754 for floats; and the bytes as one big-endian
/// number for uuid and MAC addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum ColumnType {
    /// `boolean`.
    Bool = 1,
    /// `"char"`, whose order is that of unsigned bytes.
    Char = 2,
    /// `smallint`.
    Int2 = 3,
    /// `integer`.
    Int4 = 4,
    /// `oid`.
    Oid = 5,
    /// `real`.
    Float4 = 6,
    /// `date`.
    Date = 7,
    /// `bigint`.
    Int8 = 8,
    /// `double precision`.
    Float8 = 9,
    /// `timestamp` and `timestamptz`.
    Timestamp = 10,
    /// `time`.
    Time = 11,
    /// `money`.
    Money = 12,
    /// `uuid`.
    Uuid = 13,
    /// `macaddr`.
    Macaddr = 14,
    /// `macaddr8`.
    Macaddr8 = 15,
    /// `pg_lsn`.
    PgLsn = 16,
    /// `xid8`.
    Xid8 = 17,
}

/// How a type's images are ordered.
enum Order {
    Unsigned,
    Signed,
    /// IEEE 754, with the bits of infinity and of the canonical NaN.
    Float {
        infinity: u128,
        nan: u128,
    },
}

impl ColumnType {
    /// The type stored as `code`, if it is one.
    pub const fn from_code(code: u8) -> Option<Self> {
        use ColumnType::*;
        const ALL: [ColumnType; 17] = [
            Bool, Char, Int2, Int4, Oid, Float4, Date, Int8, Float8, Timestamp, Time, Money, Uuid, Macaddr, Macaddr8,
            PgLsn, Xid8,
        ];
        match code {
            1..=17 => Some(ALL[code as usize - 1]),
            _ => None,
        }
    }

    /// How the type is stored.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Bits in an image of the type, and in its field.
    pub const fn bits(self) -> u32 {
        use ColumnType::*;
        match self {
            Bool => 1,
            Char => 8,
            Int2 => 16,
            Int4 | Oid | Float4 | Date => 32,
            Macaddr => 48,
            Int8 | Float8 | Timestamp | Time | Money | Macaddr8 | PgLsn | Xid8 => 64,
            Uuid => 128,
        }
    }

    /// Whether the type is a float, which is what the NEGATIVE flag is for.
    pub const fn is_float(self) -> bool {
        matches!(self, ColumnType::Float4 | ColumnType::Float8)
    }

    const fn order(self) -> Order {
        use ColumnType::*;
        match self {
            Int2 | Int4 | Date | Int8 | Timestamp | Time | Money => Order::Signed,
            Float4 => Order::Float { infinity: 0x7F80_0000, nan: 0x7FC0_0000 },
            Float8 => Order::Float { infinity: 0x7FF0_0000_0000_0000, nan: 0x7FF8_0000_0000_0000 },
            Bool | Char | Oid | Uuid | Macaddr | Macaddr8 | PgLsn | Xid8 => Order::Unsigned,
        }
    }

    /// The image's field, an unsigned number of as many bits whose order is the type's, and whether the NEGATIVE flag
    /// is needed to get the image back.
    ///
    /// Floats are ordered as PostgreSQL orders them: -0 and 0 are equal, and all NaNs are equal and above infinity.
    #[inline]
    pub fn encode(self, image: u128) -> (u128, bool) {
        let all = low_bits(self.bits());
        let sign = all ^ (all >> 1);
        let image = image & all;
        match self.order() {
            Order::Unsigned => (image, false),
            Order::Signed => (image ^ sign, false),
            Order::Float { infinity, .. } => {
                let negative = image & sign != 0;
                match image & !sign {
                    0 => (sign, negative),
                    nan if nan > infinity => (all, negative),
                    _ if negative => (image ^ all, false),
                    _ => (image ^ sign, false),
                }
            }
        }
    }

    /// The image that [`encode`](Self::encode) gave this field and flag. Of a NaN only the sign is kept: the image is
    /// the canonical quiet NaN, whatever payload was encoded.
    #[inline]
    pub fn decode(self, field: u128, negative: bool) -> u128 {
        let all = low_bits(self.bits());
        let sign = all ^ (all >> 1);
        let with_sign = |image| if negative { image | sign } else { image };
        match self.order() {
            Order::Unsigned => field,
            Order::Signed => field ^ sign,
            Order::Float { nan, .. } => match field {
                _ if field == sign => with_sign(0),
                _ if field == all => with_sign(nan),
                _ if field & sign == 0 => field ^ all,
                _ => field ^ sign,
            },
        }
    }
}

/// A number of `bits` ones, at most 128.
#[inline]
const fn low_bits(bits: u32) -> u128 {
    match bits {
        0 => 0,
        _ => u128::MAX >> (128 - bits),
    }
}

/// A column of an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Column {
    /// Its type.
    pub ty: ColumnType,
    /// DESC.
    pub descending: bool,
    /// NULLS FIRST, which is independent of DESC.
    pub nulls_first: bool,
}

impl Column {
    const DESCENDING: u8 = 1;
    const NULLS_FIRST: u8 = 2;

    fn to_bytes(self) -> [u8; 2] {
        let descending = if self.descending { Self::DESCENDING } else { 0 };
        let nulls_first = if self.nulls_first { Self::NULLS_FIRST } else { 0 };
        [self.ty.code(), descending | nulls_first]
    }

    fn from_bytes([code, flags]: [u8; 2]) -> Option<Column> {
        let ty = ColumnType::from_code(code)?;
        let known = flags & !(Self::DESCENDING | Self::NULLS_FIRST) == 0;
        known.then_some(Column {
            ty,
            descending: flags & Self::DESCENDING != 0,
            nulls_first: flags & Self::NULLS_FIRST != 0,
        })
    }
}

/// A column's bits in a lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    /// How far up its lowest bit is.
    pub shift: u32,
    /// How many bits it has, the null bit included.
    pub width: u32,
}

/// The values of an entry's columns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packed {
    /// The lane, in the low bits.
    pub lane: u128,
    /// The rank of the entry's TID.
    pub rank: bool,
    /// The NEGATIVE flag of the entry's TID.
    pub negative: bool,
}

/// How an index's columns make a lane.
///
/// One column has a lane to itself, the narrowest that holds its field; the rank tells NULL, whose lane is the extreme
/// one, from the value there. Several columns are packed into the low bits of a `u64` or `u128`, the first one most
/// significant, each with a null bit above its field; the rank is always false.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyShape {
    columns: [Column; Self::MAX_COLUMNS],
    /// The `shift` and `width` of their slots.
    slots: [[u8; 2]; Self::MAX_COLUMNS],
    count: u8,
    kind: LaneKind,
}

impl KeyShape {
    /// The most columns an index can have.
    pub const MAX_COLUMNS: usize = 32;
    /// Bytes of a column in [`to_bytes`](Self::to_bytes).
    pub const COLUMN_BYTES: usize = 2;

    /// The shape of an index on `columns`. None if there are no columns, too many, or more bits than a lane has.
    pub fn new(columns: &[Column]) -> Option<KeyShape> {
        let several = columns.len() > 1;
        let bits: u32 = columns.iter().map(|c| width(c, several)).sum();
        let kind = match LaneKind::holding(bits)? {
            LaneKind::U32 if several => LaneKind::U64,
            kind => kind,
        };
        let filler = *columns.first()?;
        let mut shape = KeyShape {
            columns: [filler; Self::MAX_COLUMNS],
            slots: [[0; 2]; Self::MAX_COLUMNS],
            count: columns.len() as u8,
            kind,
        };
        shape.columns.get_mut(..columns.len())?.copy_from_slice(columns);
        let mut shift = bits;
        for (slot, column) in shape.slots.iter_mut().zip(columns) {
            let width = width(column, several);
            shift -= width;
            *slot = [shift as u8, width as u8];
        }
        Some(shape)
    }

    /// The columns, the most significant first.
    #[inline]
    pub fn columns(&self) -> &[Column] {
        &self.columns[..self.count as usize]
    }

    /// The lane the columns need.
    #[inline]
    pub fn lane_kind(&self) -> LaneKind {
        self.kind
    }

    /// Whether every image can be had back: the NEGATIVE flag serves one float column.
    pub fn returnable(&self) -> bool {
        self.columns().iter().filter(|c| c.ty.is_float()).count() <= 1
    }

    /// The lane and flags of an entry with these images, None for NULL: one for each column.
    pub fn pack(&self, values: &[Option<u128>]) -> Packed {
        debug_assert_eq!(values.len(), self.count as usize);
        if self.count == 1 {
            return self.pack_one(values[0]);
        }
        let mut packed = Packed { lane: 0, rank: false, negative: false };
        for (c, value) in values.iter().enumerate() {
            let place = match *value {
                Some(image) => {
                    let (field, negative) = self.columns()[c].ty.encode(image);
                    packed.negative |= negative;
                    self.slot_of(c, field)
                }
                None => self.null_place_of(c),
            };
            packed.lane |= place << self.slot(c).shift;
        }
        packed
    }

    fn pack_one(&self, value: Option<u128>) -> Packed {
        let rank = self.null_rank();
        match value {
            Some(image) => {
                let (field, negative) = self.columns[0].ty.encode(image);
                Packed { lane: self.slot_of(0, field), rank: !rank, negative }
            }
            None => {
                Packed { lane: if rank { low_bits(8 * self.kind.size() as u32) } else { 0 }, rank, negative: false }
            }
        }
    }

    /// The image of column `c` of an entry, None for NULL.
    #[inline]
    pub fn unpack(&self, lane: u128, tid: Tid, c: usize) -> Option<u128> {
        let column = &self.columns()[c];
        let place = lane >> self.slot(c).shift;
        let bits = column.ty.bits();
        let null = if self.count == 1 {
            tid.rank() == self.null_rank()
        } else {
            (place >> bits & 1 == 0) == column.nulls_first
        };
        let turned = if column.descending { !place } else { place };
        (!null).then(|| column.ty.decode(turned & low_bits(bits), tid.negative()))
    }

    /// Where column `c` is in the lane.
    #[inline]
    pub fn slot(&self, c: usize) -> Slot {
        debug_assert!(c < self.count as usize);
        let [shift, width] = self.slots[c].map(u32::from);
        Slot { shift, width }
    }

    /// What column `c` has in its slot for a field that is not NULL: turned over for DESC, under its null bit if there
    /// are several columns.
    #[inline]
    pub fn slot_of(&self, c: usize, field: u128) -> u128 {
        let column = &self.columns()[c];
        let bits = column.ty.bits();
        let turned = if column.descending { field ^ low_bits(bits) } else { field };
        if self.count > 1 && column.nulls_first { turned | 1 << bits } else { turned }
    }

    /// What column `c` has in its slot for NULL; None for an only column, where the rank tells.
    #[inline]
    pub fn null_place(&self, c: usize) -> Option<u128> {
        (self.count > 1).then(|| self.null_place_of(c))
    }

    #[inline]
    fn null_place_of(&self, c: usize) -> u128 {
        let column = &self.columns()[c];
        if column.nulls_first { 0 } else { 1 << column.ty.bits() }
    }

    /// The rank of NULL entries of an only column, and the opposite of the others'. True for several columns, which no
    /// entry has.
    #[inline]
    pub fn null_rank(&self) -> bool {
        self.count > 1 || !self.columns[0].nulls_first
    }

    /// Writes the columns to the front of `out`, two bytes each, and returns how many bytes those are.
    ///
    /// # Panics
    /// If `out` is too short.
    pub fn to_bytes(&self, out: &mut [u8]) -> usize {
        let len = Self::COLUMN_BYTES * self.columns().len();
        let stored = out[..len].chunks_exact_mut(Self::COLUMN_BYTES);
        for (stored, column) in stored.zip(self.columns()) {
            stored.copy_from_slice(&column.to_bytes());
        }
        len
    }

    /// The shape whose `n` columns are at the front of `bytes`, if they make sense.
    pub fn from_bytes(bytes: &[u8], n: usize) -> Option<KeyShape> {
        let (stored, _) = bytes.as_chunks::<{ Self::COLUMN_BYTES }>();
        let filler = Column { ty: ColumnType::Bool, descending: false, nulls_first: false };
        let mut columns = [filler; Self::MAX_COLUMNS];
        for (column, &stored) in columns.get_mut(..n)?.iter_mut().zip(stored.get(..n)?) {
            *column = Column::from_bytes(stored)?;
        }
        KeyShape::new(&columns[..n])
    }
}

/// Bits of a column's slot.
fn width(column: &Column, several: bool) -> u32 {
    column.ty.bits() + u32::from(several)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Key, Lane};
    use core::cmp::Ordering;
    use proptest::prelude::*;

    const TYPES: [ColumnType; 17] = [
        ColumnType::Bool,
        ColumnType::Char,
        ColumnType::Int2,
        ColumnType::Int4,
        ColumnType::Oid,
        ColumnType::Float4,
        ColumnType::Date,
        ColumnType::Int8,
        ColumnType::Float8,
        ColumnType::Timestamp,
        ColumnType::Time,
        ColumnType::Money,
        ColumnType::Uuid,
        ColumnType::Macaddr,
        ColumnType::Macaddr8,
        ColumnType::PgLsn,
        ColumnType::Xid8,
    ];

    const NAN4: u128 = f32::NAN.to_bits() as u128;
    const NAN8: u128 = f64::NAN.to_bits() as u128;

    /// PostgreSQL's order of floats: the numbers', then NaN.
    fn compare_floats(a: f64, b: f64) -> Ordering {
        let of_nan = a.is_nan().cmp(&b.is_nan());
        of_nan.then_with(|| a.partial_cmp(&b).unwrap_or(Ordering::Equal))
    }

    /// The order of two images as the type's own values have it.
    fn compare(ty: ColumnType, a: u128, b: u128) -> Ordering {
        use ColumnType::*;
        match ty {
            Bool => (a != 0).cmp(&(b != 0)),
            Char => (a as u8).cmp(&(b as u8)),
            Int2 => (a as i16).cmp(&(b as i16)),
            Int4 | Date => (a as i32).cmp(&(b as i32)),
            Oid => (a as u32).cmp(&(b as u32)),
            Int8 | Timestamp | Time | Money => (a as i64).cmp(&(b as i64)),
            PgLsn | Xid8 => (a as u64).cmp(&(b as u64)),
            Float4 => {
                let value = |image| f64::from(f32::from_bits(image as u32));
                compare_floats(value(a), value(b))
            }
            Float8 => compare_floats(f64::from_bits(a as u64), f64::from_bits(b as u64)),
            Macaddr => a.to_be_bytes()[10..].cmp(&b.to_be_bytes()[10..]),
            Macaddr8 => a.to_be_bytes()[8..].cmp(&b.to_be_bytes()[8..]),
            Uuid => a.to_be_bytes().cmp(&b.to_be_bytes()),
        }
    }

    /// What an image is after it was stored: the same, but for the payload of a NaN.
    fn stored(ty: ColumnType, image: u128) -> u128 {
        let (sign, value, nan) = match ty {
            ColumnType::Float4 => (1 << 31, f64::from(f32::from_bits(image as u32)), NAN4),
            ColumnType::Float8 => (1 << 63, f64::from_bits(image as u64), NAN8),
            _ => return image,
        };
        if value.is_nan() { nan | (image & sign) } else { image }
    }

    /// Images at the ends of a type's range, about its sign, and for floats the special ones.
    fn extremes(ty: ColumnType) -> Vec<u128> {
        let all = low_bits(ty.bits());
        let half = all >> 1;
        let mut images = vec![0, 1, half, half.wrapping_sub(1), half + 1, half + 2, all, all - 1];
        let floats: &[f64] = &[0.0, 1.0, f64::INFINITY, f64::NAN, f64::MAX, f64::MIN_POSITIVE, 5e-324, 1e-310, 0.1];
        let singles: &[f32] = &[0.0, 1.0, f32::INFINITY, f32::NAN, f32::MAX, f32::MIN_POSITIVE, 1e-45, 1e-40, 0.1];
        match ty {
            ColumnType::Float4 => {
                images.extend(singles.iter().flat_map(|f| [*f, -*f].map(|f| u128::from(f.to_bits()))))
            }
            ColumnType::Float8 => images.extend(floats.iter().flat_map(|f| [*f, -*f].map(|f| u128::from(f.to_bits())))),
            _ => {}
        }
        images.iter().map(|image| image & all).collect()
    }

    fn any_type() -> impl Strategy<Value = ColumnType> {
        prop::sample::select(&TYPES[..])
    }

    /// Extreme, small or arbitrary images, so that equal ones and neighbours are met too.
    fn any_image(ty: ColumnType) -> impl Strategy<Value = u128> {
        let all = low_bits(ty.bits());
        prop_oneof![
            prop::sample::select(extremes(ty)),
            (0u128..4).prop_map(move |image| image & all),
            any::<u128>().prop_map(move |image| image & all),
        ]
    }

    fn any_column() -> impl Strategy<Value = Column> {
        (any_type(), any::<bool>(), any::<bool>()).prop_map(|(ty, descending, nulls_first)| Column {
            ty,
            descending,
            nulls_first,
        })
    }

    type Row = Vec<Option<u128>>;

    fn any_row(columns: &[Column]) -> impl Strategy<Value = Row> + use<> {
        let values = columns.iter().map(|column| prop::option::weighted(0.8, any_image(column.ty)));
        values.collect::<Vec<_>>()
    }

    /// A shape that fits, and three rows of it.
    fn shape_and_rows() -> impl Strategy<Value = (KeyShape, [Row; 3])> {
        let shape =
            prop::collection::vec(any_column(), 1..6).prop_filter_map("too wide", |columns| KeyShape::new(&columns));
        shape.prop_flat_map(|shape| {
            let row = || any_row(shape.columns());
            (Just(shape), [row(), row(), row()])
        })
    }

    /// The order of two rows as PostgreSQL defines it, column by column.
    fn compare_rows(columns: &[Column], a: &Row, b: &Row) -> Ordering {
        let of_column = |(column, (a, b)): (&Column, (&Option<u128>, &Option<u128>))| {
            let nulls = if column.nulls_first { Ordering::Less } else { Ordering::Greater };
            match (a, b) {
                (None, None) => Ordering::Equal,
                (None, Some(_)) => nulls,
                (Some(_), None) => nulls.reverse(),
                (Some(a), Some(b)) if column.descending => compare(column.ty, *b, *a),
                (Some(a), Some(b)) => compare(column.ty, *a, *b),
            }
        };
        let values = a.iter().zip(b);
        let orders = columns.iter().zip(values).map(of_column);
        orders.fold(Ordering::Equal, Ordering::then)
    }

    fn tid_of(packed: Packed) -> Tid {
        Tid::new(packed.rank, 7, 1, packed.negative)
    }

    fn key_of(shape: &KeyShape, row: &Row) -> Key<u128> {
        let packed = shape.pack(row);
        Key::new(packed.lane, tid_of(packed))
    }

    fn shape_of(types: &[ColumnType]) -> Option<KeyShape> {
        let column = |ty: &ColumnType| Column { ty: *ty, descending: false, nulls_first: false };
        KeyShape::new(&types.iter().map(column).collect::<Vec<_>>())
    }

    fn lane_kind(types: &[ColumnType]) -> Option<LaneKind> {
        shape_of(types).map(|shape| shape.lane_kind())
    }

    proptest! {
        #[test]
        fn fields_are_ordered_as_values(
            (ty, a, b) in any_type().prop_flat_map(|ty| (Just(ty), any_image(ty), any_image(ty)))
        ) {
            let ((x, _), (y, _)) = (ty.encode(a), ty.encode(b));
            prop_assert_eq!(x.cmp(&y), compare(ty, a, b));
            prop_assert!(x <= low_bits(ty.bits()));
        }

        #[test]
        fn images_come_back(
            (ty, image) in any_type().prop_flat_map(|ty| (Just(ty), any_image(ty)))
        ) {
            let (field, negative) = ty.encode(image);
            prop_assert_eq!(ty.decode(field, negative), stored(ty, image));
            prop_assert!(!negative || ty.is_float());
        }

        #[test]
        fn keys_are_ordered_as_rows((shape, [a, b, _]) in shape_and_rows()) {
            let order = key_of(&shape, &a).cmp(&key_of(&shape, &b));
            prop_assert_eq!(order, compare_rows(shape.columns(), &a, &b));
        }

        #[test]
        fn rows_come_back((shape, rows) in shape_and_rows()) {
            prop_assume!(shape.returnable());
            for row in rows {
                let packed = shape.pack(&row);
                prop_assert!(packed.lane <= low_bits(8 * shape.lane_kind().size() as u32));
                for (c, value) in row.iter().enumerate() {
                    let expected = value.map(|image| stored(shape.columns()[c].ty, image));
                    prop_assert_eq!(shape.unpack(packed.lane, tid_of(packed), c), expected);
                }
            }
        }

        /// The lane is its columns' places, each in its slot.
        #[test]
        fn lanes_are_made_of_places((shape, [row, ..]) in shape_and_rows()) {
            let mut lane = 0;
            for (c, value) in row.iter().enumerate() {
                let slot = shape.slot(c);
                let place = match *value {
                    Some(image) => shape.slot_of(c, shape.columns()[c].ty.encode(image).0),
                    None => match shape.null_place(c) {
                        Some(place) => place,
                        None => return Ok(()),
                    },
                };
                prop_assert!(place <= low_bits(slot.width));
                lane |= place << slot.shift;
            }
            prop_assert_eq!(lane, shape.pack(&row).lane);
        }

        /// Whatever a damaged page holds, a value comes out and nothing panics.
        #[test]
        fn any_lane_unpacks((shape, _) in shape_and_rows(), lane: u128, tid: u64) {
            for (c, column) in shape.columns().iter().enumerate() {
                let image = shape.unpack(lane, Tid::from_raw(tid), c).unwrap_or(0);
                prop_assert!(image <= low_bits(column.ty.bits()));
            }
        }

        #[test]
        fn shapes_come_back((shape, _) in shape_and_rows()) {
            let mut bytes = [0xFF; 2 * KeyShape::MAX_COLUMNS];
            let len = shape.to_bytes(&mut bytes);
            let n = shape.columns().len();
            prop_assert_eq!(len, 2 * n);
            prop_assert_eq!(KeyShape::from_bytes(&bytes, n), Some(shape));
            prop_assert_eq!(KeyShape::from_bytes(&bytes[..len - 1], n), None);
            prop_assert_eq!(KeyShape::from_bytes(&bytes, n + 1), None);
        }

        #[test]
        fn tids_hold_their_parts(rank: bool, block: u32, offset in 0u16..=0x0FFF, negative: bool) {
            let tid = Tid::new(rank, block, offset, negative);
            prop_assert_eq!((tid.rank(), tid.block(), tid.offset()), (rank, block, offset));
            prop_assert_eq!((tid.negative(), tid.dead()), (negative, false));
            prop_assert_eq!(tid.position(), Tid::new(rank, block, offset, false));
            let mut bytes = [0xFF; 9];
            tid.write(&mut bytes, 2);
            prop_assert_eq!(Tid::read(&bytes, 2), tid);
            prop_assert_eq!((bytes[1], bytes[8]), (0xFF, 0xFF));
            bytes[2] |= Tid::DEAD;
            prop_assert!(Tid::read(&bytes, 2).dead());
            prop_assert_eq!(Tid::read(&bytes, 2).position(), tid.position());
        }

        #[test]
        fn tids_are_ordered_by_rank_then_place(
            a: (bool, u32, u8, bool), b: (bool, u32, u8, bool)
        ) {
            let tid = |(rank, block, offset, negative)| {
                Tid::new(rank, block, u16::from(offset), negative)
            };
            let (x, y) = (tid(a), tid(b));
            let order = (a.0, a.1, a.2).cmp(&(b.0, b.1, b.2));
            prop_assert_eq!(x.position().cmp(&y.position()), order);
            prop_assert!(Tid::first(a.0) <= x.position() && x.position() <= Tid::last(a.0));
        }

        #[test]
        fn lanes_are_stored_anywhere(lane: u128, at in 0usize..20) {
            let mut bytes = [0xFF; 40];
            lane.write(&mut bytes, at);
            prop_assert_eq!(u128::read(&bytes, at), lane);
            let before = (lane as u32, lane as u64);
            before.0.write(&mut bytes, at);
            prop_assert_eq!(u32::read(&bytes, at), before.0);
            before.1.write(&mut bytes, at);
            prop_assert_eq!(u64::read(&bytes, at), before.1);
            prop_assert_eq!(bytes[at + 16], 0xFF);
        }
    }

    /// Every pair of a type's extreme images: the corners that chance may miss.
    #[test]
    fn extreme_fields_are_ordered_as_values() {
        for ty in TYPES {
            for a in extremes(ty) {
                let (field, negative) = ty.encode(a);
                assert_eq!(ty.decode(field, negative), stored(ty, a), "{ty:?} {a:#x}");
                for b in extremes(ty) {
                    assert_eq!(field.cmp(&ty.encode(b).0), compare(ty, a, b), "{ty:?} {a:#x} {b:#x}");
                }
            }
        }
    }

    #[test]
    fn floats_are_placed_as_in_the_server() {
        let field = |value: f64| ColumnType::Float8.encode(value.to_bits().into());
        let ascending = [f64::NEG_INFINITY, -1.0, -5e-324, 0.0, 5e-324, 1.0, f64::INFINITY, f64::NAN];
        assert!(ascending.windows(2).all(|two| field(two[0]).0 < field(two[1]).0));
        assert_eq!(field(-0.0), (field(0.0).0, true));
        assert_eq!(field(-f64::NAN), (u64::MAX.into(), true));
        assert_eq!(field(f64::from_bits(0x7FF0_0000_0000_0001)), field(f64::NAN));
        assert_eq!(ColumnType::Float4.encode(NAN4 | 1), (u32::MAX.into(), false));
        assert_eq!(ColumnType::Float4.decode(u32::MAX.into(), true), NAN4 | 1 << 31);
    }

    /// NULL is beside the extreme value, and never equal to it, wherever it sorts and however wide its lane is.
    #[test]
    fn null_is_beside_the_extreme_lane() {
        for ty in TYPES {
            for (descending, nulls_first) in [(false, false), (false, true), (true, false), (true, true)] {
                let column = Column { ty, descending, nulls_first };
                let shape = KeyShape::new(&[column]).unwrap();
                let null = key_of(&shape, &vec![None]);
                let widest = low_bits(8 * shape.lane_kind().size() as u32);
                assert_eq!(null.lane, if nulls_first { 0 } else { widest });
                for image in extremes(ty) {
                    let key = key_of(&shape, &vec![Some(image)]);
                    assert_eq!(null < key, nulls_first, "{column:?} {image:#x}");
                    assert_ne!(null, key);
                }
            }
        }
    }

    #[test]
    fn lanes_are_as_narrow_as_the_columns_allow() {
        use ColumnType::*;
        let single = TYPES.map(|ty| lane_kind(&[ty]).map(LaneKind::size));
        let expected = [4, 4, 4, 4, 4, 4, 4, 8, 8, 8, 8, 8, 16, 8, 8, 8, 8];
        assert_eq!(single, expected.map(Some));
        assert_eq!(lane_kind(&[Bool, Bool]), Some(LaneKind::U64));
        assert_eq!(lane_kind(&[Int2, Int4]), Some(LaneKind::U64));
        assert_eq!(lane_kind(&[Bool, Int4]), Some(LaneKind::U64));
        assert_eq!(lane_kind(&[Int4, Int4]), Some(LaneKind::U128));
        assert_eq!(lane_kind(&[Int8, Macaddr, Bool]), Some(LaneKind::U128));
        assert_eq!(lane_kind(&[Int8, Int8]), None);
        assert_eq!(lane_kind(&[Uuid, Bool]), None);
        assert_eq!(lane_kind(&[]), None);
        assert_eq!(lane_kind(&[Bool; 32]), Some(LaneKind::U64));
        assert_eq!(lane_kind(&[Bool; 33]), None);
    }

    #[test]
    fn slots_are_packed_from_the_first_column_down() {
        let shape = shape_of(&[ColumnType::Bool, ColumnType::Int4, ColumnType::Int2]).unwrap();
        let slots = [0, 1, 2].map(|c| (shape.slot(c).shift, shape.slot(c).width));
        assert_eq!(slots, [(50, 2), (17, 33), (0, 17)]);
        let only = shape_of(&[ColumnType::Uuid]).unwrap();
        assert_eq!(only.slot(0), Slot { shift: 0, width: 128 });
        assert_eq!(only.null_place(0), None);
        assert_eq!(shape.null_place(1), Some(1 << 32));
        assert!(shape.null_rank(), "no entry of several columns has this rank");
    }

    #[test]
    fn one_negative_bit_serves_one_float() {
        use ColumnType::*;
        assert!(shape_of(&[Int4, Float4, Int2]).unwrap().returnable());
        assert!(!shape_of(&[Float4, Float4]).unwrap().returnable());
    }

    #[test]
    fn codes_come_back_and_others_are_refused() {
        for (code, ty) in (1..).zip(TYPES) {
            assert_eq!((ty.code(), ColumnType::from_code(code)), (code, Some(ty)));
        }
        assert_eq!((ColumnType::from_code(0), ColumnType::from_code(18)), (None, None));
        for kind in LaneKind::ALL {
            assert_eq!(LaneKind::from_code(kind.code()), Some(kind));
        }
        assert_eq!((LaneKind::from_code(0), LaneKind::from_code(6)), (None, None));
        assert_eq!(KeyShape::from_bytes(&[4, 4], 1), None, "an unknown flag");
        assert_eq!(KeyShape::from_bytes(&[0, 0], 1), None, "an unknown type");
        assert_eq!(KeyShape::from_bytes(&[8, 0, 8, 0], 2), None, "too wide");
    }

    #[test]
    fn keys_ignore_the_flags_of_their_tids() {
        let tid = Tid::new(false, 3, 4, true);
        let plain = Key { lane: 9u32, tid: tid.position() };
        assert_eq!(Key { lane: 9u32, tid }, plain);
        assert_eq!(Key::new(9u32, tid).tid.raw(), tid.position().raw());
        assert!(Key::new(9u32, tid) < Key::new(9u32, Tid::new(true, 0, 0, false)));
        assert!(Key::new(9u32, Tid::MAX) < Key::new(10u32, Tid::MIN));
        assert_eq!(Key::<u32>::of(plain.erase()), plain);
        assert!(Key::<u64>::MIN < Key::MAX && Key::<u64>::MAX.tid == Tid::last(true));
        assert_eq!(Tid::from_raw(u64::MAX).raw(), (1 << 48) - 1);
    }

    #[test]
    #[should_panic(expected = "out of range")]
    fn a_lane_outside_is_refused() {
        u64::read(&[0; 16], 9);
    }

    #[test]
    #[should_panic(expected = "out of range")]
    fn a_tid_outside_is_refused() {
        Tid::MIN.write(&mut [0; 16], usize::MAX);
    }
}
