//! What a scan costs that skips, and one whose reads overlap.
//!
//! If a leading column has no `=` and a later one has a condition, a scan does not read everything between: it looks
//! for each value of the leading columns from the root, and reads only what matches. btree's estimate takes it for a
//! scan of everything, at least before 18.

use crate::pg::ffi;
use crate::pg::list::members;
use pgrx::pg_sys::{self, Cost, IndexClause, IndexOptInfo, IndexPath, List, NodeTag, PlannerInfo, RestrictInfo};

/// Descents for each value of the leading columns: one to where the conditions on later columns hold, one from there to
/// the value that comes next.
const DESCENTS: f64 = 2.0;
/// What btree charges for each page of a descent, in operators.
const OPERATORS_PER_PAGE: f64 = 50.0;

/// A skipping scan's estimate.
pub struct Skipping {
    /// Cost until all is read.
    pub total: Cost,
    /// Pages read, once.
    pub pages: f64,
}

/// Estimates the scan of a path as one that skips, given what starting it costs and which part of the table it finds.
/// `None` if there is nothing to skip, or nothing known about what there is.
///
/// # Safety
/// The planner's. May raise.
pub unsafe fn skipping(
    root: *mut PlannerInfo,
    path: &IndexPath,
    loop_count: f64,
    startup: Cost,
    selectivity: f64,
) -> Option<Skipping> {
    // SAFETY: the planner's own structures, and settings.
    unsafe {
        let index = &*path.indexinfo;
        let (values, conditions) =
            (leading_values(root, path)?, members::<IndexClause>(path.indexclauses).count() as f64);
        let tuples = (selectivity * (*index.rel).tuples).clamp(1.0, index.tuples.max(1.0));
        let (all_pages, all_tuples) = (f64::from(index.pages.max(1)), index.tuples.max(2.0));
        let descents = (DESCENTS * values).min(all_pages);
        let pages = (descents + tuples * all_pages / all_tuples).ceil();
        let fetched = ffi::index_pages_fetched(pages * loop_count, index.pages, all_pages, root) / loop_count;
        let page_cost = page_cost(index);
        let descent = operators_of_descent(index);
        let searches = DESCENTS * values * (all_tuples / all_pages).max(2.0).log2().ceil();
        let operators = (descents - 1.0).max(0.0) * descent + searches + tuples * conditions;
        let total = startup
            + fetched * page_cost
            + operators * pg_sys::cpu_operator_cost
            + tuples * pg_sys::cpu_index_tuple_cost;
        Some(Skipping { total, pages })
    }
}

/// Entries of an inner page, about.
const USUAL_FANOUT: f64 = 300.0;

/// Levels above the leaves that an index of so many pages has, about.
pub fn usual_height(pages: u32) -> i32 {
    f64::from(pages.max(1)).log(USUAL_FANOUT).ceil() as i32
}

/// What reading a page of an index costs.
unsafe fn page_cost(index: &IndexOptInfo) -> Cost {
    let mut cost = 0.0;
    // SAFETY: a setting of the tablespace.
    unsafe { ffi::get_tablespace_page_costs(index.reltablespace, &mut cost, core::ptr::null_mut()) };
    cost
}

/// What a descent costs as btree estimates it, in operators.
fn operators_of_descent(index: &IndexOptInfo) -> f64 {
    index.tuples.max(2.0).log2().ceil() + f64::from(index.tree_height + 1) * OPERATORS_PER_PAGE
}

/// What so many descents of one scan cost, each to a place further on.
///
/// # Safety
/// The planner's. May raise.
pub unsafe fn descents(root: *mut PlannerInfo, index: &IndexOptInfo, count: f64) -> Cost {
    // SAFETY: the planner's own structures, and settings.
    unsafe {
        let all_pages = f64::from(index.pages.max(1));
        let fetched = ffi::index_pages_fetched(count.min(all_pages), index.pages, all_pages, root);
        fetched * page_cost(index) + count * operators_of_descent(index) * pg_sys::cpu_operator_cost
    }
}

/// Pages a scan waits for, each in turn, before its reads overlap as far as they may.
const OPENING: f64 = 8.0;

/// A scan's estimate.
pub struct Estimate {
    /// Cost until all is read.
    pub total: Cost,
    /// The correlation of index and table, of which the planner makes the cost of reading the table.
    pub correlation: f64,
}

/// How many reads of a scan may be on their way at once.
#[derive(Clone, Copy)]
pub struct Overlap {
    /// Of the index.
    pub index: usize,
    /// Of the table.
    pub table: usize,
}

/// What becomes of the estimate of a scan if its reads overlap, as many as `overlap` says: a page read ahead costs no less than
/// one read in sequence. `None` where nothing changes: index and table may be in shared buffers, or the scan is one of many
/// small ones.
///
/// # Safety
/// The planner's. May raise.
pub unsafe fn overlapping(
    root: *mut PlannerInfo,
    path: &IndexPath,
    overlap: impl FnOnce(&IndexOptInfo) -> Overlap,
    pages: f64,
    selectivity: f64,
    before: Estimate,
) -> Option<Estimate> {
    // SAFETY: the planner's own structures, and settings.
    unsafe {
        let index = &*path.indexinfo;
        let rel = &*index.rel;
        if i64::from(rel.pages) + i64::from(index.pages) <= i64::from(pg_sys::NBuffers) {
            return None;
        }
        let overlap = overlap(index);
        let spared = |overlap: usize, tablespace, pages: f64| {
            let (mut random, mut sequential) = (0.0, 0.0);
            ffi::get_tablespace_page_costs(tablespace, &mut random, &mut sequential);
            let least = (random / (overlap as f64).max(1.0)).max(sequential).min(random);
            ((pages - OPENING).max(0.0) * (random - least), random, sequential)
        };
        let (of_index, ..) = spared(overlap.index, index.reltablespace, pages);
        let rows = (selectivity * rel.tuples).max(1.0);
        let fetched = ffi::index_pages_fetched(rows, rel.pages, f64::from(index.pages), root);
        let (of_table, random, sequential) = spared(overlap.table, rel.reltablespace, fetched);
        // The planner goes from the first of these to the second with the square of the correlation.
        let most = fetched * random;
        let least = random + ((selectivity * f64::from(rel.pages)).ceil() - 1.0).max(0.0) * sequential;
        let square = if most > least { of_table / (most - least) } else { 0.0 };
        let correlation = square.min(1.0).sqrt().max(before.correlation.abs());
        Some(Estimate { total: before.total - of_index, correlation })
    }
}

/// How many combinations of values the columns before the last one with a condition have, as far as the conditions
/// allow; `None` if all of them have an `=` or nothing is known about one that has not.
unsafe fn leading_values(root: *mut PlannerInfo, path: &IndexPath) -> Option<f64> {
    // SAFETY: the planner's own structures.
    unsafe {
        let index = &*path.indexinfo;
        let last = members::<IndexClause>(path.indexclauses).map(|clause| (*clause).indexcol).max()?;
        let (mut skipped, mut bounds) = (core::ptr::null_mut(), core::ptr::null_mut());
        let mut combinations = 1.0;
        for column in 0..=last {
            let equals =
                || conditions(path, column).filter_map(|condition| equal_values(root, index, column, condition));
            combinations *= equals().product::<f64>();
            if column < last && equals().next().is_none() {
                let entry: *mut pg_sys::TargetEntry = members(index.indextlist).nth(column as usize)?;
                skipped = ffi::lappend(skipped, (*entry).expr.cast());
                for condition in conditions(path, column) {
                    bounds = ffi::lappend(bounds, condition.cast());
                }
            }
        }
        if skipped.is_null() {
            return None;
        }
        let relid = (*index.rel).relid as _;
        let part =
            ffi::clauselist_selectivity(root, bounds, relid, pg_sys::JoinType::JOIN_INNER, core::ptr::null_mut());
        let values = distinct_values(root, index, skipped)?;
        Some(combinations * (values * part).max(1.0))
    }
}

/// How many combinations of values these columns of an index have in the table; `None` if the server can only guess.
unsafe fn distinct_values(root: *mut PlannerInfo, index: &IndexOptInfo, columns: *mut List) -> Option<f64> {
    // SAFETY: the planner's own structures.
    unsafe {
        let rel = &mut *index.rel;
        let mut info = pg_sys::EstimationInfo::default();
        // The scan meets the values of all rows, not only of those that the query's conditions leave.
        let rows = core::mem::replace(&mut rel.rows, rel.tuples);
        let values = ffi::estimate_num_groups(root, columns, rel.tuples, core::ptr::null_mut(), &mut info);
        (*index.rel).rows = rows;
        (info.flags & pg_sys::SELFLAG_USED_DEFAULT == 0).then_some(values)
    }
}

/// How many values a condition on a column wants it to equal; `None` if it is not of that kind.
unsafe fn equal_values(
    root: *mut PlannerInfo,
    index: &IndexOptInfo,
    column: i16,
    condition: *mut RestrictInfo,
) -> Option<f64> {
    // SAFETY: an index condition, which is one of these nodes.
    unsafe {
        let clause = (*condition).clause;
        let is_equality = |operator| {
            let family = *index.opfamily.add(column as usize);
            ffi::get_op_opfamily_strategy(operator, family) == pg_sys::BTEqualStrategyNumber as i32
        };
        match (*clause).type_ {
            NodeTag::T_OpExpr => is_equality((*clause.cast::<pg_sys::OpExpr>()).opno).then_some(1.0),
            NodeTag::T_NullTest => {
                let test = (*clause.cast::<pg_sys::NullTest>()).nulltesttype;
                (test == pg_sys::NullTestType::IS_NULL).then_some(1.0)
            }
            NodeTag::T_ScalarArrayOpExpr => {
                let any = &*clause.cast::<pg_sys::ScalarArrayOpExpr>();
                is_equality(any.opno).then(|| members(any.args).nth(1).map_or(1.0, |array| array_length(root, array)))
            }
            _ => None,
        }
    }
}

/// How many elements an array is thought to have.
unsafe fn array_length(_root: *mut PlannerInfo, array: *mut pg_sys::Node) -> f64 {
    // SAFETY: an expression.
    #[cfg(any(feature = "pg15", feature = "pg16"))]
    let length = f64::from(unsafe { ffi::estimate_array_length(array) });
    // SAFETY: an expression.
    #[cfg(not(any(feature = "pg15", feature = "pg16")))]
    let length = unsafe { ffi::estimate_array_length(_root, array) };
    length.max(1.0)
}

/// The conditions on a column of the index.
unsafe fn conditions(path: &IndexPath, column: i16) -> impl Iterator<Item = *mut RestrictInfo> {
    // SAFETY: the planner's own lists.
    unsafe {
        members::<IndexClause>(path.indexclauses)
            .filter(move |clause| (**clause).indexcol == column)
            .flat_map(|clause| members((*clause).indexquals))
    }
}
