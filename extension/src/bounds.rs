//! The bounds that an argument of a scan key puts on a column, whatever type of the operator family it has.

use fpbtree_engine::key::ColumnType;
use pgrx::PgSqlErrorCode::ERRCODE_INTERNAL_ERROR;
use pgrx::pg_sys::{self, Datum, FmgrInfo, Oid, Relation};

use crate::column::{self, Room, image};
pub use crate::exact::Neighbours;
use crate::{exact, handler, server};

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
        unsafe {
            ColumnOrder {
                ty,
                input: *(*rel).rd_opcintype.add(c),
                family: *(*rel).rd_opfamily.add(c),
            }
        }
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
///
/// Local time may jump, so the server's comparison of a timestamp with a timestamptz is not quite an order: beside a
/// jump the answer is one of the possible ones, as it is btree's.
unsafe fn by_function(order: ColumnOrder, subtype: Oid, arg: Datum) -> Neighbours {
    // SAFETY: a function of two arguments of these types, called as the server's fmgr is. FmgrInfo may start as zeros.
    unsafe {
        let function = server::raw::get_opfamily_proc(
            order.family,
            order.input,
            subtype,
            handler::ORDER_FUNCTION,
        );
        if function == Oid::INVALID {
            refuse(order, subtype);
        }
        let mut info: FmgrInfo = core::mem::zeroed();
        server::raw::fmgr_info_cxt(function, &mut info, pg_sys::CurrentMemoryContext);
        let mut room = Room::default();
        exact::search(order.ty, |field| {
            let value = column::value(order.ty, order.ty.decode(field, false), &mut room);
            let sign = server::raw::FunctionCall2Coll(&mut info, Oid::INVALID, value, arg);
            (sign.value() as i32).cmp(&0)
        })
    }
}

#[cold]
fn refuse(order: ColumnOrder, subtype: Oid) -> ! {
    let (family, input, subtype) = (
        order.family.to_u32(),
        order.input.to_u32(),
        subtype.to_u32(),
    );
    server::raise(
        ERRCODE_INTERNAL_ERROR,
        format_args!("missing support function 1({input},{subtype}) in operator family {family}"),
        None,
        None,
    )
}
