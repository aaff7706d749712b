//! What scans of an index that is not there would cost: told by the planner, which is shown it.

use core::ffi::{CStr, c_int};

use pgrx::pg_guard;
use pgrx::pg_sys::{
    self, Cost, IndexOptInfo, List, Node, NodeTag, Oid, ParamListInfoData, ParseState, Plan, PlannerInfo, Query,
    RelOptInfo, SortGroupClause,
};

use super::sample::Expected;
use super::sketch::Sketch;
use crate::am::handler;
use crate::pg::{ffi, list};
use crate::values::column::{self, OPTION_DESCENDING, OPTION_NULLS_FIRST};

/// The only relation of a query.
const TABLE: c_int = 1;
/// Plans that would be chosen over a scan of the index.
const OTHER_PLANS: [&CStr; 4] = [c"enable_seqscan", c"enable_bitmapscan", c"enable_sort", c"enable_incremental_sort"];

/// A scan's costs.
#[derive(Clone, Copy)]
pub(super) struct Costs {
    pub startup: Cost,
    pub total: Cost,
}

/// What the planner is shown: an index, and what it is expected to be.
struct Shown<'s> {
    sketch: &'s Sketch,
    expected: &'s Expected,
}

/// What finding the rows of a key costs, and what reading all in order; `None` if the planner does not use the index.
///
/// # Safety
/// Settings may be changed until the caller's nesting level of settings ends. May raise.
pub(super) unsafe fn costs(sketch: &Sketch, expected: &Expected) -> [Option<Costs>; 2] {
    // SAFETY: the index has all that the planner needs of one.
    unsafe {
        for setting in OTHER_PLANS {
            set(setting, c"off");
        }
        set(c"enable_indexscan", c"on");
        let shown = Shown { sketch, expected };
        [lookup(sketch), ordered(sketch)].map(|query| shown.plan(query))
    }
}

unsafe fn set(setting: &CStr, value: &CStr) {
    let (context, source) = (pg_sys::GucContext::PGC_USERSET, pg_sys::GucSource::PGC_S_SESSION);
    // SAFETY: a setting of the server's.
    unsafe {
        let action = pg_sys::GucAction::GUC_ACTION_SAVE;
        ffi::set_config_option(setting.as_ptr(), value.as_ptr(), context, source, action, true, 0, false);
    }
}

/// Marks parameters of a query as those of one that is planned here. Nobody calls it.
#[pg_guard]
unsafe extern "C-unwind" fn mark(_state: *mut ParseState, _argument: *mut core::ffi::c_void) {}

impl Shown<'_> {
    /// Plans a query with the index.
    unsafe fn plan(&self, query: *mut Query) -> Option<Costs> {
        // SAFETY: a query made here. The parameters have no values; they and what they point to are there while it is
        // planned.
        unsafe {
            let parameters: *mut ParamListInfoData = ffi::palloc0(size_of::<ParamListInfoData>()).cast();
            (*parameters).parserSetup = Some(mark);
            (*parameters).parserSetupArg = (&raw const *self).cast_mut().cast();
            let planned = ffi::standard_planner(query, c"".as_ptr(), 0, parameters);
            let plan: *mut Plan = (*planned).planTree;
            // A node of ours may be above the scan.
            let scan = match (*plan).type_ {
                NodeTag::T_CustomScan => list::members((*plan.cast::<pg_sys::CustomScan>()).custom_plans).next()?,
                _ => plan,
            };
            let index = match (*scan).type_ {
                NodeTag::T_IndexScan => (*scan.cast::<pg_sys::IndexScan>()).indexid,
                NodeTag::T_IndexOnlyScan => (*scan.cast::<pg_sys::IndexOnlyScan>()).indexid,
                _ => return None,
            };
            let costs = Costs { startup: (*plan).startup_cost, total: (*plan).total_cost };
            (index == Oid::INVALID).then_some(costs)
        }
    }

    /// The planner's description of the index.
    unsafe fn describe(&self, rel: *mut RelOptInfo) -> *mut IndexOptInfo {
        let Shown { sketch, expected } = self;
        // SAFETY: the relation's arrays have an element for each key column; zeroed memory, filled in as
        // get_relation_info() does.
        unsafe {
            let (index, row) = (&*sketch.rel, &*(*sketch.rel).rd_index);
            let info: *mut IndexOptInfo = ffi::palloc0(size_of::<IndexOptInfo>()).cast();
            (*info).type_ = NodeTag::T_IndexOptInfo;
            (*info).rel = rel;
            (*info).reltablespace = (*index.rd_rel).reltablespace;
            (*info).relam = (*index.rd_rel).relam;
            ((*info).pages, (*info).tree_height) = (expected.pages as u32, expected.levels as c_int - 1);
            let is_partial = !index.rd_indpred.is_null();
            let rows = (*rel).tuples;
            (*info).tuples = if is_partial { expected.rows.min(rows) } else { rows };
            ((*info).ncolumns, (*info).nkeycolumns) = (c_int::from(row.indnatts), c_int::from(row.indnkeyatts));
            ((*info).indexcollations, (*info).opfamily) =
                (index.rd_indcollation, copied(index.rd_opfamily, sketch.keys));
            (*info).opcintype = index.rd_opcintype;
            sketch.fill_columns(&mut *info);
            ((*info).indexprs, (*info).indpred) = (copy_list(index.rd_indexprs), copy_list(index.rd_indpred));
            ((*info).unique, (*info).immediate, (*info).hypothetical) = (row.indisunique, true, true);
            fill_abilities(&mut *info, &*index.rd_indam);
            info
        }
    }
}

/// A copy, because the planner changes it.
unsafe fn copied<T: Copy>(from: *const T, count: usize) -> *mut T {
    // SAFETY: so many there are.
    unsafe {
        let to: *mut T = ffi::palloc(count * size_of::<T>()).cast();
        to.copy_from_nonoverlapping(from, count);
        to
    }
}

unsafe fn copy_list(from: *mut List) -> *mut List {
    // SAFETY: a list of nodes.
    unsafe { ffi::copyObjectImpl(from.cast()).cast() }
}

/// What the access method can do.
fn fill_abilities(info: &mut IndexOptInfo, routine: &pg_sys::IndexAmRoutine) {
    info.amcanorderbyop = routine.amcanorderbyop;
    info.amoptionalkey = routine.amoptionalkey;
    info.amsearcharray = routine.amsearcharray;
    info.amsearchnulls = routine.amsearchnulls;
    info.amcanparallel = routine.amcanparallel;
    (info.amhasgettuple, info.amhasgetbitmap) = (routine.amgettuple.is_some(), routine.amgetbitmap.is_some());
    info.amcanmarkpos = routine.ammarkpos.is_some() && routine.amrestrpos.is_some();
    handler::set_estimate(info);
}

impl Sketch {
    /// Describes the columns to the planner.
    unsafe fn fill_columns(&self, info: &mut IndexOptInfo) {
        // SAFETY: arrays with an element for each column.
        unsafe {
            let count = info.ncolumns as usize;
            let zeroed = |size: usize| ffi::palloc0(size * count);
            info.indexkeys = zeroed(size_of::<c_int>()).cast();
            (info.canreturn, info.reverse_sort) = (zeroed(1).cast(), zeroed(1).cast());
            (info.nulls_first, info.sortopfamily) = (zeroed(1).cast(), zeroed(size_of::<Oid>()).cast());
            let is_returnable = column::is_returnable(self.rel);
            for c in 0..count {
                info.indexkeys.add(c).write(self.number(c).into());
                info.canreturn.add(c).write(is_returnable);
                let target = ffi::makeTargetEntry(self.value(c).cast(), c as i16 + 1, core::ptr::null_mut(), false);
                info.indextlist = ffi::lappend(info.indextlist, target.cast());
            }
            for c in 0..self.keys {
                let option = self.option(c);
                info.reverse_sort.add(c).write(option & OPTION_DESCENDING != 0);
                info.nulls_first.add(c).write(option & OPTION_NULLS_FIRST != 0);
                let (mut family, mut input, mut strategy) = (Oid::INVALID, Oid::INVALID, 0);
                let less = self.operator(c, pg_sys::BTLessStrategyNumber);
                if !ffi::get_ordering_op_properties(less, &mut family, &mut input, &mut strategy) {
                    info.sortopfamily = core::ptr::null_mut();
                    return;
                }
                info.sortopfamily.add(c).write(family);
            }
        }
    }

    /// A column of the table, or 0.
    unsafe fn number(&self, c: usize) -> i16 {
        // SAFETY: the index has the column.
        unsafe { (*(*self.rel).rd_index).indkey.values.as_slice(c + 1)[c] }
    }

    unsafe fn option(&self, c: usize) -> i16 {
        // SAFETY: it is a key column.
        unsafe { *(*self.rel).rd_indoption.add(c) }
    }

    /// The operator of a key column's class that has this strategy.
    unsafe fn operator(&self, c: usize, strategy: u32) -> Oid {
        // SAFETY: it is a key column.
        unsafe {
            let (family, input) = (*(*self.rel).rd_opfamily.add(c), *(*self.rel).rd_opcintype.add(c));
            ffi::get_opfamily_member(family, input, input, strategy as i16)
        }
    }

    /// A column's value in a query.
    unsafe fn value(&self, c: usize) -> *mut Node {
        // SAFETY: the table has the column, or the list the expression.
        unsafe {
            let number = self.number(c);
            if number != 0 {
                let attribute = &*column::attribute((*self.heap).rd_att, number as usize - 1);
                let (ty, typmod) = (attribute.atttypid, attribute.atttypmod);
                return ffi::makeVar(TABLE, number, ty, typmod, attribute.attcollation, 0).cast();
            }
            let before = (0..c).filter(|&c| self.number(c) == 0).count();
            let expression = list::members::<Node>((*self.rel).rd_indexprs).nth(before);
            ffi::copyObjectImpl(expression.unwrap_or(core::ptr::null_mut()).cast()).cast()
        }
    }
}

/// A query for the index's columns, of the rows that are in it and meet these conditions.
unsafe fn query(sketch: &Sketch, conditions: *mut List) -> *mut Query {
    // SAFETY: new nodes.
    unsafe {
        let state = ffi::make_parsestate(core::ptr::null_mut());
        let lock = pg_sys::AccessShareLock as c_int;
        ffi::addRangeTableEntryForRelation(state, sketch.heap, lock, core::ptr::null_mut(), false, true);
        let query = node::<Query>(NodeTag::T_Query);
        (*query).commandType = pg_sys::CmdType::CMD_SELECT;
        (*query).canSetTag = true;
        (*query).rtable = (*state).p_rtable;
        #[cfg(not(feature = "pg15"))]
        {
            (*query).rteperminfos = (*state).p_rteperminfos;
        }
        let table = node::<pg_sys::RangeTblRef>(NodeTag::T_RangeTblRef);
        (*table).rtindex = TABLE;
        let from = node::<pg_sys::FromExpr>(NodeTag::T_FromExpr);
        (*from).fromlist = list::of([table]);
        let in_index = copy_list((*sketch.rel).rd_indpred);
        let all = list::members::<Node>(in_index).chain(list::members(conditions));
        (*from).quals = ffi::make_ands_explicit(list::of(all)).cast();
        (*query).jointree = from;
        for c in 0..sketch.keys {
            let target = ffi::makeTargetEntry(sketch.value(c).cast(), c as i16 + 1, core::ptr::null_mut(), false);
            (*query).targetList = ffi::lappend((*query).targetList, target.cast());
        }
        query
    }
}

/// A query for a key: of no one in particular, so it has as many rows as keys have on average.
unsafe fn lookup(sketch: &Sketch) -> *mut Query {
    // SAFETY: new nodes.
    unsafe {
        let mut conditions = core::ptr::null_mut();
        for c in 0..sketch.keys {
            let collation = *(*sketch.rel).rd_indcollation.add(c);
            let value = sketch.value(c);
            let parameter = node::<pg_sys::Param>(NodeTag::T_Param);
            (*parameter).paramkind = pg_sys::ParamKind::PARAM_EXTERN;
            (*parameter).paramid = c as c_int + 1;
            ((*parameter).paramtype, (*parameter).paramtypmod) = (ffi::exprType(value), -1);
            ((*parameter).paramcollid, (*parameter).location) = (collation, -1);
            let equal = sketch.operator(c, pg_sys::BTEqualStrategyNumber);
            let (ty, none) = (pg_sys::BOOLOID, Oid::INVALID);
            let condition = ffi::make_opclause(equal, ty, false, value.cast(), parameter.cast(), none, collation);
            conditions = ffi::lappend(conditions, condition.cast());
        }
        query(sketch, conditions)
    }
}

/// A query for all in order.
unsafe fn ordered(sketch: &Sketch) -> *mut Query {
    // SAFETY: new nodes.
    unsafe {
        let query = query(sketch, core::ptr::null_mut());
        for (c, target) in list::members::<pg_sys::TargetEntry>((*query).targetList).enumerate() {
            let option = sketch.option(c);
            let descends = option & OPTION_DESCENDING != 0;
            let strategy = if descends { pg_sys::BTGreaterStrategyNumber } else { pg_sys::BTLessStrategyNumber };
            let clause = node::<SortGroupClause>(NodeTag::T_SortGroupClause);
            (*clause).tleSortGroupRef = c as u32 + 1;
            (*target).ressortgroupref = c as u32 + 1;
            ((*clause).eqop, (*clause).sortop) =
                (sketch.operator(c, pg_sys::BTEqualStrategyNumber), sketch.operator(c, strategy));
            (*clause).nulls_first = option & OPTION_NULLS_FIRST != 0;
            (*query).sortClause = ffi::lappend((*query).sortClause, clause.cast());
        }
        query
    }
}

/// A new node of the server's.
unsafe fn node<T>(tag: NodeTag) -> *mut T {
    // SAFETY: zeroed memory of the right size, which begins with the tag.
    unsafe {
        let node = ffi::palloc0(size_of::<T>());
        node.cast::<NodeTag>().write(tag);
        node.cast()
    }
}

/// Shows the planner the index that a query is planned with here, if it is one. The others of its table are still there for
/// what they prove, but not for scans.
///
/// # Safety
/// Called while the planner describes a query's table to itself.
pub unsafe fn show(root: *mut PlannerInfo, rel: *mut RelOptInfo) {
    // SAFETY: parameters with the mark are those of `plan`, which waits for the planner.
    unsafe {
        let Some(parameters) = (*(*root).glob).boundParams.as_ref() else { return };
        type Setup = unsafe extern "C-unwind" fn(*mut ParseState, *mut core::ffi::c_void);
        if !parameters.parserSetup.is_some_and(|setup| core::ptr::fn_addr_eq(setup, mark as Setup)) {
            return;
        }
        for index in list::members::<IndexOptInfo>((*rel).indexlist) {
            ((*index).amhasgettuple, (*index).amhasgetbitmap) = (false, false);
        }
        let shown = &*parameters.parserSetupArg.cast::<Shown<'_>>();
        (*rel).indexlist = ffi::lappend((*rel).indexlist, shown.describe(rel).cast());
    }
}
