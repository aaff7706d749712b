//! Columns: which types fit a lane, and how their values look to the server.

use core::ffi::{c_char, c_int};

use fpbtree_engine::keys::{Column, ColumnType, KeyShape};
use pgrx::PgSqlErrorCode::{ERRCODE_FEATURE_NOT_SUPPORTED, ERRCODE_INTERNAL_ERROR};
use pgrx::pg_sys::{self, Datum, Oid, Relation};

use crate::pg::errors::NameText;
use crate::pg::{errors, ffi};

/// `pg_index.indoption`: DESC.
pub const OPTION_DESCENDING: i16 = 1;
/// `pg_index.indoption`: NULLS FIRST.
pub const OPTION_NULLS_FIRST: i16 = 2;

/// Support function 1: the order.
pub const ORDER_FUNCTION: i16 = 1;
/// The numbers up to this one keep btree's meaning, on every version (it has 6 from 18 on).
pub const SUPPORT_FUNCTIONS: u16 = 6;

/// The type that a comparison function (support function 1) orders, if its values fit a lane.
pub fn column_type(order: Oid) -> Option<ColumnType> {
    Some(match order.to_u32() {
        pg_sys::F_BTBOOLCMP => ColumnType::Bool,
        pg_sys::F_BTCHARCMP => ColumnType::Char,
        pg_sys::F_BTINT2CMP => ColumnType::Int2,
        pg_sys::F_BTINT4CMP => ColumnType::Int4,
        pg_sys::F_BTOIDCMP => ColumnType::Oid,
        pg_sys::F_BTFLOAT4CMP => ColumnType::Float4,
        pg_sys::F_DATE_CMP => ColumnType::Date,
        pg_sys::F_BTINT8CMP => ColumnType::Int8,
        pg_sys::F_BTFLOAT8CMP => ColumnType::Float8,
        pg_sys::F_TIMESTAMP_CMP | pg_sys::F_TIMESTAMPTZ_CMP => ColumnType::Timestamp,
        pg_sys::F_TIME_CMP => ColumnType::Time,
        pg_sys::F_CASH_CMP => ColumnType::Money,
        pg_sys::F_UUID_CMP => ColumnType::Uuid,
        pg_sys::F_MACADDR_CMP => ColumnType::Macaddr,
        pg_sys::F_MACADDR8_CMP => ColumnType::Macaddr8,
        pg_sys::F_PG_LSN_CMP => ColumnType::PgLsn,
        pg_sys::F_XID8CMP => ColumnType::Xid8,
        _ => return None,
    })
}

/// Whether a type's values are integers to the server.
pub const fn is_integer(ty: ColumnType) -> bool {
    let bytes_in_order = matches!(ty, ColumnType::Uuid | ColumnType::Macaddr | ColumnType::Macaddr8);
    !ty.is_float() && !bytes_in_order
}

/// The alignment that the catalog has as a letter.
pub const fn alignment(letter: c_char) -> u8 {
    match letter as u8 {
        b'd' => 8,
        b'i' => 4,
        b's' => 2,
        _ => 1,
    }
}

/// Whether the `c`-th column of the index is an expression.
///
/// # Safety
/// `rel` is an open index, with that column.
pub unsafe fn is_expression(rel: Relation, c: usize) -> bool {
    // SAFETY: `rel` is open; the array has a number for each column.
    unsafe { (*(*rel).rd_index).indkey.values.as_slice(c + 1)[c] == 0 }
}

/// The function that orders a key column (support function 1), counted from 0, of an index of ours or of btree's, which
/// has fewer support functions before 18.
///
/// # Safety
/// `rel` is such an index, open, with that key column.
pub unsafe fn order_function(rel: Relation, c: usize) -> Oid {
    // SAFETY: the relation cache's array has an element for each support function of each key column.
    unsafe { *(*rel).rd_support.add(c * usize::from((*(*rel).rd_indam).amsupport)) }
}

/// An operator class, as the catalog has it.
#[derive(Clone, Copy)]
pub struct OperatorClass {
    name: pg_sys::NameData,
    input: Oid,
    storage: Oid,
}

impl OperatorClass {
    /// # Safety
    /// May raise.
    pub unsafe fn of(class: Oid) -> OperatorClass {
        // SAFETY: the server's catalog cache; what is found there is copied before it is given back.
        unsafe {
            let tuple = ffi::SearchSysCache1(pg_sys::SysCacheIdentifier::CLAOID as c_int, Datum::from(class));
            if tuple.is_null() {
                let missing = format_args!("cache lookup failed for operator class {}", class.to_u32());
                errors::raise(ERRCODE_INTERNAL_ERROR, missing, None, None);
            }
            let header = (*tuple).t_data;
            let form: *const pg_sys::FormData_pg_opclass = header.byte_add((*header).t_hoff.into()).cast();
            let found = OperatorClass { name: (*form).opcname, input: (*form).opcintype, storage: (*form).opckeytype };
            ffi::ReleaseSysCache(tuple);
            found
        }
    }

    /// Whether entries are of the type of the column, as every class has them but that of names, whose entries are C
    /// strings.
    pub fn stores_its_input(&self) -> bool {
        self.storage == Oid::INVALID
            || self.storage == self.input
            || (self.input == pg_sys::NAMEOID && self.storage == pg_sys::CSTRINGOID)
    }

    /// The type of the entries' values, of a column of this type.
    pub fn stored(&self, ty: Oid) -> Oid {
        if self.storage == Oid::INVALID { ty } else { self.storage }
    }

    /// Its name in a report.
    pub fn name(&self) -> NameText<'_> {
        NameText(&self.name)
    }
}

/// Refuses a new index that btree would not have, either: one whose class stores another type, or whose patterns are
/// under a nondeterministic collation. With the latter `=` of the class means equal bytes, and its order does not.
///
/// # Safety
/// `rel` is an open index of ours. May raise.
pub unsafe fn refuse_unfit(rel: Relation) {
    // SAFETY: the catalog's row has a class for each key column.
    unsafe {
        let mut is_null = false;
        let indexes = pg_sys::SysCacheIdentifier::INDEXRELID as c_int;
        let attribute = pg_sys::Anum_pg_index_indclass as i16;
        let classes = ffi::SysCacheGetAttr(indexes, (*rel).rd_indextuple, attribute, &mut is_null);
        let classes = classes.cast_mut_ptr::<pg_sys::oidvector>();
        refuse_unfit_classes(rel, |c| (*classes).values.as_slice(c + 1)[c]);
    }
}

/// As [`refuse_unfit`], of an index whose operator classes are these, by key column.
///
/// # Safety
/// `rel` is an index of ours. May raise.
pub unsafe fn refuse_unfit_classes(rel: Relation, class: impl Fn(usize) -> Oid) {
    // SAFETY: the relation's arrays have an element for each key column.
    unsafe {
        for c in 0..(*(*rel).rd_index).indnkeyatts as usize {
            let class = OperatorClass::of(class(c));
            if !class.stores_its_input() {
                refuse_storage(&class);
            }
            let order = order_function(rel, c);
            let collation = *(*rel).rd_indcollation.add(c);
            let is_pattern = matches!(order.to_u32(), pg_sys::F_BTTEXT_PATTERN_CMP | pg_sys::F_BTBPCHAR_PATTERN_CMP);
            if is_pattern && collation != Oid::INVALID && !ffi::get_collation_isdeterministic(collation) {
                refuse_collation(&class);
            }
        }
    }
}

#[cold]
fn refuse_storage(class: &OperatorClass) -> ! {
    errors::raise(
        ERRCODE_FEATURE_NOT_SUPPORTED,
        format_args!("operator class \"{}\" stores another type than it is for", class.name()),
        None,
        Some(format_args!("Create the operator class without STORAGE.")),
    )
}

#[cold]
fn refuse_collation(class: &OperatorClass) -> ! {
    errors::raise(
        ERRCODE_FEATURE_NOT_SUPPORTED,
        format_args!("nondeterministic collations are not supported for operator class \"{}\"", class.name()),
        None,
        None,
    )
}

/// How the columns make a lane, if they do, and are all the index has.
///
/// # Safety
/// `rel` is an open index of ours, or of btree's.
pub unsafe fn exact_shape(rel: Relation) -> Option<KeyShape> {
    // SAFETY: the relation cache's arrays have an element for each key column.
    unsafe {
        let index = &*(*rel).rd_index;
        if index.indnatts != index.indnkeyatts {
            return None;
        }
        let count = index.indnkeyatts as usize;
        let filler = Column { ty: ColumnType::Bool, descending: false, nulls_first: false };
        let mut columns = [filler; KeyShape::MAX_COLUMNS];
        for (c, column) in columns.iter_mut().enumerate().take(count) {
            let option = *(*rel).rd_indoption.add(c);
            *column = Column {
                ty: column_type(order_function(rel, c))?,
                descending: option & OPTION_DESCENDING != 0,
                nulls_first: option & OPTION_NULLS_FIRST != 0,
            };
        }
        KeyShape::new(&columns[..count])
    }
}

/// The image of a value.
///
/// # Safety
/// `value` is a value of the type, not NULL.
#[inline]
pub unsafe fn image(ty: ColumnType, value: Datum) -> u128 {
    use ColumnType::*;
    let word = value.value();
    match ty {
        Bool => u128::from(word as u8 != 0),
        Char => u128::from(word as u8),
        Int2 => u128::from(word as u16),
        Int4 | Oid | Float4 | Date => u128::from(word as u32),
        Int8 | Float8 | Timestamp | Time | Money | PgLsn | Xid8 => u128::from(word as u64),
        // SAFETY: types passed by reference, of these lengths.
        Uuid => unsafe { u128::from_be_bytes(*value.cast_mut_ptr::<[u8; 16]>()) },
        // SAFETY: a value of this length.
        Macaddr8 => unsafe { u128::from(u64::from_be_bytes(*value.cast_mut_ptr::<[u8; 8]>())) },
        Macaddr => {
            // SAFETY: a value of this length.
            let [a, b, c, d, e, f] = unsafe { *value.cast_mut_ptr::<[u8; 6]>() };
            u128::from(u64::from_be_bytes([0, 0, a, b, c, d, e, f]))
        }
    }
}

/// Stores the value of an image as it is in a tuple. Its length is the type's; aligning it is the caller's.
///
/// # Safety
/// `out` has room for the type's length.
#[inline]
pub unsafe fn store(ty: ColumnType, image: u128, out: *mut u8) {
    use ColumnType::*;
    // SAFETY: `out` has room for the type's length; it may be aligned to anything.
    unsafe {
        match ty {
            Bool | Char => out.write(image as u8),
            Int2 => out.cast::<u16>().write_unaligned(image as u16),
            Int4 | Oid | Float4 | Date => out.cast::<u32>().write_unaligned(image as u32),
            Int8 | Float8 | Timestamp | Time | Money | PgLsn | Xid8 => {
                out.cast::<u64>().write_unaligned(image as u64);
            }
            Uuid => out.cast::<[u8; 16]>().write(image.to_be_bytes()),
            Macaddr8 => out.cast::<[u8; 8]>().write((image as u64).to_be_bytes()),
            Macaddr => {
                let [_, _, bytes @ ..] = (image as u64).to_be_bytes();
                out.cast::<[u8; 6]>().write(bytes);
            }
        }
    }
}

/// Room for the value of a type that is passed by reference.
#[derive(Default)]
#[repr(align(8))]
pub struct ImageBuffer([u8; 16]);

impl ImageBuffer {
    /// Of zeros.
    pub const fn new() -> ImageBuffer {
        ImageBuffer([0; 16])
    }
}

/// The value of an image, in `room` if its type is passed by reference.
#[inline]
pub fn value(ty: ColumnType, image: u128, room: &mut ImageBuffer) -> Datum {
    use ColumnType::*;
    match ty {
        // The server extends signed types, and compares some datums as whole words.
        Char => Datum::from(image as i8),
        Int2 => Datum::from(image as i16),
        Int4 | Date | Float4 => Datum::from(image as i32),
        Bool | Oid | Int8 | Float8 | Timestamp | Time | Money | PgLsn | Xid8 => Datum::from(image as u64),
        Uuid | Macaddr | Macaddr8 => {
            // SAFETY: room for the longest of them.
            unsafe { store(ty, image, room.0.as_mut_ptr()) };
            Datum::from(room.0.as_mut_ptr())
        }
    }
}

/// `TupleDescAttr`.
///
/// # Safety
/// The descriptor has the column, counted from 0.
pub unsafe fn attribute(descriptor: pg_sys::TupleDesc, column: usize) -> *const pg_sys::FormData_pg_attribute {
    // SAFETY: the descriptor has the column.
    unsafe {
        #[cfg(not(feature = "since_18"))]
        return (*descriptor).attrs.as_ptr().add(column);
        // They are behind the compact ones.
        #[cfg(feature = "since_18")]
        return (*descriptor)
            .compact_attrs
            .as_ptr()
            .add((*descriptor).natts as usize)
            .cast::<pg_sys::FormData_pg_attribute>()
            .add(column);
    }
}

/// The bytes of the values of each of an index's columns, 0 if they are passed by reference.
///
/// # Safety
/// `rel` is open.
pub unsafe fn widths(rel: Relation) -> impl Iterator<Item = u8> {
    // SAFETY: the caller's.
    unsafe {
        let descriptor = (*rel).rd_att;
        (0..(*descriptor).natts as usize).map(move |column| stored_length(rel, column).1)
    }
}

/// Of the values of one of an index's columns the bytes, negative if they vary, and how many are passed by value, else 0.
///
/// # Safety
/// `rel` is open.
pub unsafe fn stored_length(rel: Relation, column: usize) -> (i16, u8) {
    // SAFETY: the caller's.
    unsafe {
        let attribute = &*attribute((*rel).rd_att, column);
        (attribute.attlen, if attribute.attbyval { attribute.attlen as u8 } else { 0 })
    }
}

/// The types of each of an index's columns, which of a domain are what it is a domain over.
///
/// # Safety
/// `rel` is open. May raise.
pub unsafe fn base_types(rel: Relation) -> impl Iterator<Item = Oid> + Clone {
    // SAFETY: the caller's, and a catalog lookup.
    unsafe {
        let descriptor = (*rel).rd_att;
        (0..(*descriptor).natts as usize).map(move |at| ffi::getBaseType((*attribute(descriptor, at)).atttypid))
    }
}

/// Whether index-only scans can give the index's values back.
///
/// # Safety
/// `rel` is an open index of ours. May raise.
pub unsafe fn is_returnable(rel: Relation) -> bool {
    // SAFETY: `rel` is open. One column alone is soon told, and the planner asks again for each query.
    unsafe { (*(*rel).rd_index).indnatts == 1 || exact_shape(rel).is_none_or(|shape| shape.returnable()) }
}
