//! An index that is nowhere but here: the relation that `CREATE INDEX` would make, as far as its entries and the planner
//! need it. The catalogs know nothing of it.

use core::ffi::c_char;

use fpbtree_engine::keys::KeyShape;
use pgrx::PgSqlErrorCode::{
    ERRCODE_DATATYPE_MISMATCH, ERRCODE_FEATURE_NOT_SUPPORTED, ERRCODE_INDETERMINATE_COLLATION,
    ERRCODE_INVALID_OBJECT_DEFINITION, ERRCODE_TOO_MANY_COLUMNS, ERRCODE_UNDEFINED_COLUMN,
};
use pgrx::pg_sys::{self, Datum, IndexElem, IndexInfo, IndexStmt, List, Node, NodeTag, Oid, Relation, RelationData};

use super::statement::Statement;
use crate::pg::errors::{Name, Text};
use crate::pg::{errors, ffi, list, options};
use crate::values::column::{self, OPTION_DESCENDING, OPTION_NULLS_FIRST, OperatorClass};

/// What goes into names where the statement has none.
const NAMELESS: &core::ffi::CStr = c"(hypothetical)";

/// A column of the index.
#[derive(Clone, Copy)]
struct SketchColumn {
    /// The table's column, 0 for an expression.
    number: i16,
    expression: *mut Node,
    ty: Oid,
    collation: Oid,
    class: Oid,
    option: i16,
}

/// The columns of the index, by the names that the statement has for them.
#[derive(Clone, Copy)]
pub(super) struct SketchColumns {
    columns: [SketchColumn; KeyShape::MAX_COLUMNS],
    keys: usize,
    count: usize,
}

/// The index.
pub(super) struct Sketch {
    /// Like the server's own, but for its file and all that has to do with that.
    pub rel: Relation,
    /// The table.
    pub heap: Relation,
    pub keys: usize,
    columns: [SketchColumn; KeyShape::MAX_COLUMNS],
    count: usize,
}

/// Zeroed memory of the current context, which is not given back: a call's worth of it.
unsafe fn zeroed<T>(count: usize) -> *mut T {
    // SAFETY: as every allocation of the server.
    unsafe { ffi::palloc0((count * size_of::<T>()).max(1)).cast() }
}

impl SketchColumns {
    /// What a statement describes, or the reason why there can be no such index. Names mean what they mean to the caller.
    ///
    /// # Safety
    /// May raise what `CREATE INDEX` raises about the statement.
    pub(super) unsafe fn of(statement: &Statement) -> Result<SketchColumns, Unordered> {
        // SAFETY: the statement was transformed; its lists are of index elements.
        unsafe {
            let (heap, index) = (statement.table, &*statement.index);
            let (keys, included) =
                (list::cells(index.indexParams).len(), list::cells(index.indexIncludingParams).len());
            check_count(keys + included);
            let (expression, none) = (core::ptr::null_mut(), Oid::INVALID);
            let empty = SketchColumn { number: 0, expression, ty: none, collation: none, class: none, option: 0 };
            let mut columns = [empty; KeyShape::MAX_COLUMNS];
            let all = list::members(index.indexParams).chain(list::members(index.indexIncludingParams));
            for (c, (column, element)) in columns.iter_mut().zip(all).enumerate() {
                *column = if c < keys { key_column(statement, element)? } else { included_column(heap, element) };
            }
            Ok(SketchColumns { columns, keys, count: keys + included })
        }
    }
}

impl Sketch {
    /// The index that has these columns. Expressions are planned, which may run some of them: as the table's owner.
    ///
    /// # Safety
    /// May raise what `CREATE INDEX` raises about the statement.
    pub(super) unsafe fn new(statement: &Statement, columns: SketchColumns) -> Sketch {
        let SketchColumns { mut columns, keys, count } = columns;
        // SAFETY: transformed expressions; the relation is made here.
        unsafe {
            for column in columns.iter_mut().filter(|column| !column.expression.is_null()) {
                column.expression = ffi::expression_planner(column.expression.cast()).cast();
                check_immutable(column.expression, "expression");
            }
            let mut sketch = Sketch { rel: core::ptr::null_mut(), heap: statement.table, keys, columns, count };
            sketch.rel = sketch.relation(statement);
            column::refuse_unfit_classes(sketch.rel, |c| columns[c].class);
            sketch
        }
    }

    /// What a build would be told of the index. It sees the table by a snapshot, as a concurrent one does.
    pub(super) unsafe fn info(&self) -> *mut IndexInfo {
        // SAFETY: the relation has all that is read of it.
        unsafe {
            let info = ffi::BuildIndexInfo(self.rel);
            (*info).ii_Concurrent = true;
            info
        }
    }

    fn columns(&self) -> &[SketchColumn] {
        &self.columns[..self.count]
    }

    /// The relation.
    unsafe fn relation(&self, statement: &Statement) -> Relation {
        // SAFETY: zeroed memory, in which everything is filled in that anyone here reads.
        unsafe {
            let rel: *mut RelationData = zeroed(1);
            let index = &*statement.index;
            (*rel).rd_rel = self.class_row(statement);
            (*rel).rd_att = self.descriptor();
            (*rel).rd_index = self.index_row(index);
            (*rel).rd_indexcxt = pg_sys::CurrentMemoryContext;
            (*rel).rd_indam = ffi::GetIndexAmRoutineByAmId(statement.method, false);
            (*rel).rd_indexprs = list::of(self.columns().iter().map(|c| c.expression).filter(|e| !e.is_null()));
            (*rel).rd_indpred = predicate(index.whereClause);
            (*rel).rd_opcoptions = zeroed(self.count);
            let options = ffi::transformRelOptions(
                Datum::null(),
                index.options,
                core::ptr::null(),
                core::ptr::null(),
                false,
                false,
            );
            (*rel).rd_options = options::amoptions(options, true);
            self.fill_classes(&mut *rel);
            rel
        }
    }

    /// What `pg_class` would have.
    unsafe fn class_row(&self, statement: &Statement) -> pg_sys::Form_pg_class {
        // SAFETY: zeroed memory; the name is cut to where it has room and a NUL behind it.
        unsafe {
            let class: pg_sys::Form_pg_class = zeroed(1);
            let index = &*statement.index;
            let name = if index.idxname.is_null() { NAMELESS.as_ptr() } else { index.idxname.cast_const() };
            let name = core::ffi::CStr::from_ptr(name).to_bytes();
            let room = &mut (*class).relname.data;
            let most = room.len() - 1;
            room[..most].iter_mut().zip(name).for_each(|(to, &from)| *to = from as c_char);
            (*class).relam = statement.method;
            (*class).relkind = pg_sys::RELKIND_INDEX as c_char;
            (*class).relpersistence = (*(*self.heap).rd_rel).relpersistence;
            (*class).relnatts = self.count as i16;
            if !index.tableSpace.is_null() {
                (*class).reltablespace = ffi::get_tablespace_oid(index.tableSpace, false);
            }
            class
        }
    }

    /// What `pg_index` would have.
    unsafe fn index_row(&self, index: &IndexStmt) -> pg_sys::Form_pg_index {
        // SAFETY: zeroed memory, with room for the numbers at the end.
        unsafe {
            let size = size_of::<pg_sys::FormData_pg_index>() + self.count * size_of::<i16>();
            let row: pg_sys::Form_pg_index = zeroed::<u8>(size).cast();
            (*row).indrelid = (*self.heap).rd_id;
            ((*row).indnatts, (*row).indnkeyatts) = (self.count as i16, self.keys as i16);
            ((*row).indisunique, (*row).indnullsnotdistinct) = (index.unique, index.nulls_not_distinct);
            ((*row).indimmediate, (*row).indisvalid, (*row).indisready, (*row).indislive) = (true, true, true, true);
            (*row).indkey.dim1 = self.count as i32;
            let numbers: *mut i16 = (&raw mut (*row).indkey.values).cast();
            for (c, column) in self.columns().iter().enumerate() {
                numbers.add(c).write(column.number);
            }
            row
        }
    }

    /// The types of the entries' values.
    unsafe fn descriptor(&self) -> pg_sys::TupleDesc {
        // SAFETY: the descriptors have these columns.
        unsafe {
            let descriptor = ffi::CreateTemplateTupleDesc(self.count as i32);
            for (c, column) in self.columns().iter().enumerate() {
                let at = c as i16 + 1;
                let stored = if c < self.keys { OperatorClass::of(column.class).stored(column.ty) } else { column.ty };
                if stored != column.ty {
                    ffi::TupleDescInitEntry(descriptor, at, NAMELESS.as_ptr(), stored, -1, 0);
                } else if column.number != 0 {
                    ffi::TupleDescCopyEntry(descriptor, at, (*self.heap).rd_att, column.number);
                } else {
                    let typmod = ffi::exprTypmod(column.expression);
                    ffi::TupleDescInitEntry(descriptor, at, NAMELESS.as_ptr(), stored, typmod, 0);
                }
            }
            #[cfg(feature = "pg19")]
            ffi::TupleDescFinalize(descriptor);
            descriptor
        }
    }

    /// What the key columns' operator classes are about.
    unsafe fn fill_classes(&self, rel: &mut RelationData) {
        // SAFETY: arrays with room for each column, and for each support function of each column.
        unsafe {
            let functions = usize::from((*rel.rd_indam).amsupport);
            (rel.rd_opfamily, rel.rd_opcintype) = (zeroed(self.count), zeroed(self.count));
            (rel.rd_indcollation, rel.rd_indoption) = (zeroed(self.count), zeroed(self.count));
            (rel.rd_support, rel.rd_supportinfo) = (zeroed(self.count * functions), zeroed(self.count * functions));
            for (c, column) in self.columns()[..self.keys].iter().enumerate() {
                let (family, input) =
                    (ffi::get_opclass_family(column.class), ffi::get_opclass_input_type(column.class));
                rel.rd_opfamily.add(c).write(family);
                rel.rd_opcintype.add(c).write(input);
                rel.rd_indcollation.add(c).write(column.collation);
                rel.rd_indoption.add(c).write(column.option);
                for function in 0..functions {
                    let found = ffi::get_opfamily_proc(family, input, input, function as i16 + 1);
                    rel.rd_support.add(c * functions + function).write(found);
                }
            }
        }
    }
}

fn check_count(count: usize) {
    if count > KeyShape::MAX_COLUMNS {
        errors::raise(
            ERRCODE_TOO_MANY_COLUMNS,
            format_args!("cannot use more than {} columns in an index", KeyShape::MAX_COLUMNS),
            None,
            None,
        );
    }
}

/// A key column, as the server's `ComputeIndexAttrs` has it.
unsafe fn key_column(statement: &Statement, element: *mut IndexElem) -> Result<SketchColumn, Unordered> {
    // SAFETY: the statement was transformed.
    unsafe {
        let element = &*element;
        let mut column = if element.name.is_null() {
            expression_column(statement.table, element.expr)
        } else {
            named_column(statement.table, element.name)
        };
        if !element.collation.is_null() {
            column.collation = ffi::get_collation_oid(element.collation, false);
        }
        check_collation(&column);
        column.class = if element.opclass.is_null() {
            ffi::GetDefaultOpClass(column.ty, statement.method)
        } else {
            let name = (*statement.index).accessMethod;
            ffi::ResolveOpClass(element.opclass, column.ty, name, statement.method)
        };
        if column.class == Oid::INVALID {
            return Err(Unordered(column.ty));
        }
        let descends = element.ordering == pg_sys::SortByDir::SORTBY_DESC;
        let nulls_first = match element.nulls_ordering {
            pg_sys::SortByNulls::SORTBY_NULLS_DEFAULT => descends,
            ordering => ordering == pg_sys::SortByNulls::SORTBY_NULLS_FIRST,
        };
        column.option = i16::from(descends) * OPTION_DESCENDING + i16::from(nulls_first) * OPTION_NULLS_FIRST;
        Ok(column)
    }
}

/// A column that is only carried.
unsafe fn included_column(table: Relation, element: *mut IndexElem) -> SketchColumn {
    // SAFETY: the statement was transformed.
    unsafe {
        if (*element).name.is_null() {
            errors::raise(
                ERRCODE_FEATURE_NOT_SUPPORTED,
                format_args!("expressions are not supported in included columns"),
                None,
                None,
            );
        }
        named_column(table, (*element).name)
    }
}

unsafe fn named_column(table: Relation, name: *const c_char) -> SketchColumn {
    // SAFETY: a C string; the table is open.
    unsafe {
        match ffi::get_attnum((*table).rd_id, name) {
            0 => {
                let name = core::ffi::CStr::from_ptr(name).to_str().unwrap_or("?");
                errors::raise(ERRCODE_UNDEFINED_COLUMN, format_args!("column \"{name}\" does not exist"), None, None)
            }
            number => numbered_column(table, number),
        }
    }
}

unsafe fn numbered_column(table: Relation, number: i16) -> SketchColumn {
    // The server's mark of generated columns that are not stored.
    const VIRTUAL: u8 = b'v';
    if number < 0 {
        errors::raise(
            ERRCODE_FEATURE_NOT_SUPPORTED,
            format_args!("index creation on system columns is not supported"),
            None,
            None,
        );
    }
    // SAFETY: the table is open and has the column.
    unsafe {
        let attribute = &*column::attribute((*table).rd_att, number as usize - 1);
        if attribute.attgenerated as u8 == VIRTUAL {
            errors::raise(
                ERRCODE_FEATURE_NOT_SUPPORTED,
                format_args!("indexes on virtual generated columns are not supported"),
                None,
                Some(format_args!("It is a column of table \"{}\".", Name(table))),
            );
        }
        let (ty, collation) = (attribute.atttypid, attribute.attcollation);
        SketchColumn { number, expression: core::ptr::null_mut(), ty, collation, class: Oid::INVALID, option: 0 }
    }
}

/// An expression; one that is a column, perhaps with a collation, is a column.
unsafe fn expression_column(table: Relation, expression: *mut Node) -> SketchColumn {
    // SAFETY: a transformed expression over the table.
    unsafe {
        let (ty, collation) = (ffi::exprType(expression), ffi::exprCollation(expression));
        let mut inner = expression;
        while (*inner).type_ == NodeTag::T_CollateExpr {
            inner = (*inner.cast::<pg_sys::CollateExpr>()).arg.cast();
        }
        if (*inner).type_ == NodeTag::T_Var && (*inner.cast::<pg_sys::Var>()).varattno != 0 {
            return SketchColumn { collation, ..numbered_column(table, (*inner.cast::<pg_sys::Var>()).varattno) };
        }
        SketchColumn { number: 0, expression: inner, ty, collation, class: Oid::INVALID, option: 0 }
    }
}

/// The predicate as the relation cache has it, prepared for running.
unsafe fn predicate(condition: *mut Node) -> *mut List {
    if condition.is_null() {
        return core::ptr::null_mut();
    }
    // SAFETY: a transformed condition.
    unsafe {
        let planned = ffi::expression_planner(condition.cast());
        check_immutable(planned.cast(), "predicate");
        ffi::make_ands_implicit(ffi::canonicalize_qual(planned, false))
    }
}

unsafe fn check_immutable(expression: *mut Node, what: &str) {
    // SAFETY: a planned expression.
    if unsafe { ffi::contain_mutable_functions(expression) } {
        errors::raise(
            ERRCODE_INVALID_OBJECT_DEFINITION,
            format_args!("functions in index {what} must be marked IMMUTABLE"),
            None,
            None,
        );
    }
}

unsafe fn check_collation(column: &SketchColumn) {
    // SAFETY: catalog lookups.
    unsafe {
        match (ffi::type_is_collatable(column.ty), column.collation != Oid::INVALID) {
            (true, false) => errors::raise(
                ERRCODE_INDETERMINATE_COLLATION,
                format_args!("could not determine which collation to use for index expression"),
                None,
                Some(format_args!("Use the COLLATE clause to set the collation explicitly.")),
            ),
            (false, true) => errors::raise(
                ERRCODE_DATATYPE_MISMATCH,
                format_args!("collations are not supported by the type of a column"),
                None,
                None,
            ),
            _ => {}
        }
    }
}

/// A type that has no operator class of ours.
pub(super) struct Unordered(Oid);

impl Unordered {
    /// Why there can be no index.
    pub(super) unsafe fn reason(&self) -> Text {
        // SAFETY: a C string of the server's.
        let name = unsafe { core::ffi::CStr::from_ptr(ffi::format_type_be(self.0)) };
        Text::new(format_args!(
            "operator class: type {} has none for fpbtree; fpbtree_adopt() copies what btree has",
            name.to_str().unwrap_or("?")
        ))
    }
}
