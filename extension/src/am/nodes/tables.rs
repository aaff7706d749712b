//! Tables, indexes and their columns, as the planner has them.

use fpbtree_engine::keys::KeyShape;
use pgrx::pg_sys::{
    self, IndexClause, IndexOptInfo, IndexPath, Node, NodeTag, Path, PlannerInfo, RelOptInfo, RestrictInfo,
    SortGroupClause, Var,
};

use crate::am::handler;
use crate::pg::{ffi, list};
use crate::values::column;

/// Whether what is grouped is a table, all of whose rows count, and is not known to have none that are wanted, or one.
///
/// # Safety
/// The planner's.
pub(super) unsafe fn is_table(root: *mut PlannerInfo, input: *mut RelOptInfo) -> bool {
    // SAFETY: the planner's.
    unsafe {
        let query = (*root).parse;
        let is_one = matches!(
            (*input).reloptkind,
            pg_sys::RelOptKind::RELOPT_BASEREL | pg_sys::RelOptKind::RELOPT_OTHER_MEMBER_REL
        );
        if !is_one || (*input).rtekind != pg_sys::RTEKind::RTE_RELATION || (*input).indexlist.is_null() {
            return false;
        }
        // The server has one plan for no rows, and reckons with no pages of such a table.
        if ffi::is_dummy_rel(input) {
            return false;
        }
        // With its descendants a table has the indexes of a partitioned one at most, which are empty.
        let entry = *(*root).simple_rte_array.add((*input).relid as usize);
        !(*entry).inh
            && (*entry).tablesample.is_null()
            && (*query).groupingSets.is_null()
            && (*query).rowMarks.is_null()
            && !has_one_row(&*input)
    }
}

/// Whether a unique index says that no more than one row is wanted, for which no more is to be gained than planning takes.
unsafe fn has_one_row(input: &RelOptInfo) -> bool {
    let is_of_index = |path: &Path| matches!(path.pathtype, NodeTag::T_IndexScan | NodeTag::T_IndexOnlyScan);
    // SAFETY: the planner's; such paths are of indexes.
    unsafe {
        list::members::<Path>(input.pathlist).filter(|path| is_of_index(&**path)).any(|path| {
            let scan = &*path.cast::<IndexPath>();
            let index = &*scan.indexinfo;
            let keys = u32::MAX >> (u32::BITS - index.nkeycolumns as u32);
            index.unique && index.immediate && keys & !fixed_columns(scan) == 0
        })
    }
}

/// Whether an index is ours, and may be used for all rows that the query wants.
pub(super) fn is_usable(index: &IndexOptInfo) -> bool {
    handler::is_ours(index) && !index.hypothetical && (index.indpred.is_null() || index.predOK)
}

/// How the index's columns make a lane, if they do.
///
/// # Safety
/// The planner holds a lock on the index. May raise.
pub(super) unsafe fn exact_shape(index: &IndexOptInfo) -> Option<KeyShape> {
    // SAFETY: the caller's.
    unsafe {
        let rel = ffi::index_open(index.indexoid, pg_sys::NoLock as _);
        let shape = column::exact_shape(rel);
        ffi::index_close(rel, pg_sys::NoLock as _);
        shape
    }
}

/// Which of the index's columns an expression is, if it is a column of the table by itself.
///
/// # Safety
/// The planner's.
pub(super) unsafe fn column(index: &IndexOptInfo, table: &RelOptInfo, expression: *mut Node) -> Option<usize> {
    // SAFETY: the planner's; a node is what its tag says.
    unsafe {
        if (*expression).type_ != NodeTag::T_Var {
            return None;
        }
        let var = &*expression.cast::<Var>();
        let is_of_table = var.varno as u32 == table.relid && var.varlevelsup == 0 && var.varattno > 0;
        let columns = core::slice::from_raw_parts(index.indexkeys, index.ncolumns as usize);
        columns.iter().position(|&column| is_of_table && column == i32::from(var.varattno))
    }
}

/// Which of the index's key columns an expression is, if it is a column of the table by itself.
///
/// # Safety
/// The planner's.
pub(super) unsafe fn key_column(index: &IndexOptInfo, table: &RelOptInfo, expression: *mut Node) -> Option<usize> {
    // SAFETY: the planner's.
    unsafe { column(index, table, expression).filter(|&found| found < index.nkeycolumns as usize) }
}

/// Whether an index has a column's values as they are: of a `name` it has something else.
///
/// # Safety
/// The planner's; the expression is a column. A catalog lookup.
pub(super) unsafe fn is_stored_as_it_is(column: *mut Node) -> bool {
    // SAFETY: the caller's.
    unsafe { ffi::get_typlen((*column.cast::<Var>()).vartype) != NAME_LENGTH }
}

/// Bytes of a `name`.
const NAME_LENGTH: i16 = pg_sys::NAMEDATALEN as i16;

/// Whether rows that a clause groups together, by an expression that is a key column, are those that the index has together.
///
/// # Safety
/// The planner's. May raise.
pub(super) unsafe fn groups_alike(
    index: &IndexOptInfo,
    column: usize,
    expression: *mut Node,
    clause: &SortGroupClause,
) -> bool {
    // SAFETY: the planner's, and catalog lookups.
    unsafe {
        let strategy = ffi::get_op_opfamily_strategy(clause.eqop, *index.opfamily.add(column)) as u32;
        ffi::exprCollation(expression) == *index.indexcollations.add(column)
            && strategy == pg_sys::BTEqualStrategyNumber
    }
}

/// By how many of the first columns rows have to be grouped, so that they are by these, and all that are shown are among
/// them: no more than these, but for columns that have one value alone. `None` if there is no such number.
///
/// # Safety
/// The planner's.
pub(super) unsafe fn prefix(scan: &IndexPath, columns: u32, shown: u32) -> Option<usize> {
    let depth = u32::BITS - (columns | shown).leading_zeros();
    // SAFETY: the planner's.
    let known = columns | unsafe { fixed_columns(scan) };
    let all = u32::MAX.checked_shr(u32::BITS - depth).unwrap_or(0);
    (known & all == all).then_some(depth as usize)
}

/// The columns that a scan's conditions say to be equal to something, a bit for each.
unsafe fn fixed_columns(scan: &IndexPath) -> u32 {
    let mut fixed = 0;
    // SAFETY: the planner's; a node is what its tag says.
    unsafe {
        for clause in list::members::<IndexClause>(scan.indexclauses) {
            let column = (*clause).indexcol as usize;
            for condition in list::members::<RestrictInfo>((*clause).indexquals) {
                let expression = (*condition).clause.cast::<Node>();
                if (*expression).type_ != NodeTag::T_OpExpr {
                    continue;
                }
                let operator = (*expression.cast::<pg_sys::OpExpr>()).opno;
                let family = *(*scan.indexinfo).opfamily.add(column);
                if ffi::get_op_opfamily_strategy(operator, family) as u32 == pg_sys::BTEqualStrategyNumber {
                    fixed |= 1 << column;
                }
            }
        }
    }
    fixed
}
