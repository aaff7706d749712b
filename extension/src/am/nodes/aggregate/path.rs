//! Offers the node to the planner, above the index-only scan that the server itself would make for the same conditions:
//! what matches a condition to an index is the server's business, and so is what that costs.

use fpbtree_engine::keys::{ColumnType, KeyShape};
use pgrx::pg_guard;
use pgrx::pg_sys::{
    self, Aggref, CustomPath, CustomPathMethods, Expr, GroupPathExtraData, IndexOptInfo, IndexPath, List, Node,
    NodeTag, Oid, Path, Plan, PlannerInfo, RelOptInfo, SortGroupClause, TargetEntry, UpperRelationKind,
};

use super::{Aggregate, Item, MOST_COLUMNS, Output, Task};
use crate::am::cost;
use crate::am::nodes::executor::Work;
use crate::am::nodes::{OPERATORS_A_ROW, child, new_path, new_plan, tables};
use crate::pg::per_backend::PerBackend;
use crate::pg::{ffi, list};

static METHODS: PerBackend<CustomPathMethods> = PerBackend::new(CustomPathMethods {
    CustomName: Aggregate::NAME.as_ptr(),
    PlanCustomPath: Some(plan),
    ReparameterizeCustomPathByChild: None,
});

/// What a group costs, in operators.
const OPERATORS_A_GROUP: f64 = 4.0;

/// Adds paths for GROUP BY and aggregates, or for DISTINCT, of which the planner has nothing extra to say.
///
/// # Safety
/// The planner's. May raise.
pub unsafe fn add_paths(
    root: *mut PlannerInfo,
    input: *mut RelOptInfo,
    output: *mut RelOptInfo,
    extra: *const GroupPathExtraData,
) {
    // SAFETY: the planner's.
    unsafe {
        if !tables::is_table(root, input) {
            return;
        }
        let whole = match extra.as_ref() {
            Some(extra) => Some(Grouping::aggregates(root, input, output, extra)),
            None => Grouping::distinct(root, input, output),
        };
        let Some(whole) = whole else { return };
        let part = extra.as_ref().and_then(|extra| whole.by_workers(extra));
        for index in list::members::<IndexOptInfo>((*input).indexlist) {
            if !tables::is_usable(&*index) {
                continue;
            }
            let candidate = Candidate::of(index);
            let Some(wanted) = whole.wanted(&candidate) else { continue };
            let (serial, parallel) = scans(root, input, index);
            if let Some(path) = serial.and_then(|scan| whole.path(scan, wanted)) {
                ffi::add_path(output, path.cast());
            }
            if let (Some(scan), Some(part)) = (parallel, &part)
                && let Some(path) = part.wanted(&candidate).and_then(|wanted| part.path(scan, wanted))
            {
                whole.gather(part.output, path, &*extra);
            }
        }
    }
}

/// What the query makes of a table's rows, or one of several workers does.
struct Grouping {
    root: *mut PlannerInfo,
    input: *mut RelOptInfo,
    output: *mut RelOptInfo,
    /// What comes of it.
    target: *mut pg_sys::PathTarget,
    /// What rows are grouped by, and the order of these.
    clauses: *mut List,
    order: *mut List,
    /// Whether they are grouped at all. What they are grouped by may all have one value.
    is_grouped: bool,
    /// HAVING, as a list of conditions that all have to hold.
    having: *mut List,
    /// Whether that is all, or is finished above.
    split: pg_sys::AggSplit::Type,
}

/// What is wanted of an index: rows grouped by columns, a bit for each, and a task, whose items are these expressions.
struct Wanted {
    columns: u32,
    task: Task,
    expressions: *mut List,
}

/// An index, as far as values of its columns may be asked for.
struct Candidate {
    info: *mut IndexOptInfo,
    /// Unless keys are byte strings.
    shape: Option<KeyShape>,
}

impl Grouping {
    /// GROUP BY, or aggregates of all rows.
    unsafe fn aggregates(
        root: *mut PlannerInfo,
        input: *mut RelOptInfo,
        output: *mut RelOptInfo,
        extra: &GroupPathExtraData,
    ) -> Grouping {
        // SAFETY: the planner's.
        unsafe {
            let query = &*(*root).parse;
            #[cfg(feature = "pg15")]
            let (clauses, ends_with_groups) = (query.groupClause, true);
            #[cfg(not(feature = "pg15"))]
            let clauses = (*root).processed_groupClause;
            // There may be keys behind those of the groups, that sorted aggregates want.
            #[cfg(not(feature = "pg15"))]
            let ends_with_groups = list::cells((*root).group_pathkeys).len() == (*root).num_groupby_pathkeys as usize;
            Grouping {
                root,
                input,
                output,
                target: (*output).reltarget,
                clauses,
                order: if ends_with_groups { (*root).group_pathkeys } else { core::ptr::null_mut() },
                is_grouped: !query.groupClause.is_null(),
                having: extra.havingQual.cast(),
                split: pg_sys::AggSplit::AGGSPLIT_SIMPLE,
            }
        }
    }

    /// DISTINCT of a table's rows.
    unsafe fn distinct(root: *mut PlannerInfo, input: *mut RelOptInfo, output: *mut RelOptInfo) -> Option<Grouping> {
        // SAFETY: the planner's.
        unsafe {
            let query = &*(*root).parse;
            let other = list::members::<Path>((*output).pathlist).next()?;
            if query.hasDistinctOn || query.hasTargetSRFs {
                return None;
            }
            #[cfg(feature = "pg15")]
            let clauses = query.distinctClause;
            #[cfg(not(feature = "pg15"))]
            let clauses = (*root).processed_distinctClause;
            Some(Grouping {
                root,
                input,
                output,
                target: (*other).pathtarget,
                clauses,
                order: (*root).distinct_pathkeys,
                is_grouped: true,
                having: core::ptr::null_mut(),
                split: pg_sys::AggSplit::AGGSPLIT_SIMPLE,
            })
        }
    }

    /// What each worker makes of its share of the rows, if the server thinks of workers at all.
    unsafe fn by_workers(&self, extra: &GroupPathExtraData) -> Option<Grouping> {
        // SAFETY: the planner's.
        unsafe {
            let stage = UpperRelationKind::UPPERREL_PARTIAL_GROUP_AGG;
            let output = ffi::fetch_upper_rel(self.root, stage, (*self.output).relids);
            let target = (*output).reltarget;
            let is_thought_of = (*output).consider_parallel
                && extra.partial_costs_set
                && extra.patype != pg_sys::PartitionwiseAggregateType::PARTITIONWISE_AGGREGATE_PARTIAL
                && !(*target).exprs.is_null();
            let (having, split) = (core::ptr::null_mut(), pg_sys::AggSplit::AGGSPLIT_INITIAL_SERIAL);
            is_thought_of.then_some(Grouping { output, target, having, split, ..*self })
        }
    }

    /// Adds a path above one that several workers run.
    unsafe fn gather(&self, partial: *mut RelOptInfo, path: *mut CustomPath, extra: &GroupPathExtraData) {
        // SAFETY: the planner's.
        unsafe {
            let strategy = match extra.flags as u32 & pg_sys::GROUPING_CAN_USE_HASH {
                _ if self.clauses.is_null() => pg_sys::AggStrategy::AGG_PLAIN,
                0 => return,
                _ => pg_sys::AggStrategy::AGG_HASHED,
            };
            let Some(other) = list::members::<Path>((*self.output).pathlist).next() else { return };
            let mut rows = (*path).path.rows * f64::from((*path).path.parallel_workers);
            let nothing = core::ptr::null_mut();
            let target = (*partial).reltarget;
            let gather = ffi::create_gather_path(self.root, partial, path.cast(), target, nothing, &mut rows);
            let finished = ffi::create_agg_path(
                self.root,
                self.output,
                gather.cast(),
                self.target,
                strategy,
                pg_sys::AggSplit::AGGSPLIT_FINAL_DESERIAL,
                self.clauses,
                self.having,
                &extra.agg_final_costs,
                (*other).rows,
            );
            ffi::add_path(self.output, finished.cast());
        }
    }

    /// What is wanted of an index, if its columns say all that is asked for.
    unsafe fn wanted(&self, index: &Candidate) -> Option<Wanted> {
        let mut task = Task::new(self.is_grouped);
        // SAFETY: the planner's.
        unsafe {
            let columns = self.group_columns(index)?;
            let expressions = self.expressions(index, &mut task)?;
            // Groups of byte strings of which nothing more is asked are another node's.
            let is_wanted = index.shape.is_some() || task.items().iter().any(|item| item.output == Output::Rows);
            is_wanted.then_some(Wanted { columns, task, expressions })
        }
    }

    /// The node's path above a scan of the index, if rows come in groups of these columns.
    unsafe fn path(&self, scan: *mut IndexPath, wanted: Wanted) -> Option<*mut CustomPath> {
        let Wanted { columns, mut task, expressions } = wanted;
        // SAFETY: the planner's.
        unsafe {
            task.depth = tables::prefix(&*scan, columns, task.shown_columns())?;
            self.make(scan, task, expressions)
        }
    }

    /// The columns by which rows are grouped, a bit for each. `None` if one is not the index's.
    unsafe fn group_columns(&self, index: &Candidate) -> Option<u32> {
        // SAFETY: the planner's.
        unsafe {
            let target = self.target;
            let mut columns = 0u32;
            for clause in list::members::<SortGroupClause>(self.clauses) {
                let number = (*clause).tleSortGroupRef;
                let is_its = |at: &usize| *(*target).sortgrouprefs.add(*at) == number;
                let count = list::cells((*target).exprs).len();
                if (*target).sortgrouprefs.is_null() {
                    return None;
                }
                let at = (0..count).find(is_its)?;
                let expression: *mut Node = list::members((*target).exprs).nth(at)?;
                let column = index.column_of(self.input, expression)?;
                if !tables::groups_alike(&*index.info, column, expression, &*clause) {
                    return None;
                }
                columns |= 1 << column;
            }
            Some(columns)
        }
    }

    /// What the node has to give, columns and aggregates of columns. `None` if there is something else.
    unsafe fn expressions(&self, index: &Candidate, task: &mut Task) -> Option<*mut List> {
        let mut expressions: *mut List = core::ptr::null_mut();
        let flags = pg_sys::PVC_INCLUDE_AGGREGATES | pg_sys::PVC_INCLUDE_PLACEHOLDERS;
        // SAFETY: the planner's.
        unsafe {
            for part in [(*self.target).exprs, self.having] {
                for expression in list::members::<Node>(ffi::pull_var_clause(part.cast(), flags as _)) {
                    if ffi::list_member(expressions, expression.cast()) {
                        continue;
                    }
                    let item = index.item(self.input, expression, self.split)?;
                    if !task.add(item) {
                        return None;
                    }
                    expressions = ffi::lappend(expressions, expression.cast());
                }
            }
        }
        Some(expressions)
    }

    /// Makes the path.
    unsafe fn make(&self, scan: *mut IndexPath, mut task: Task, expressions: *mut List) -> Option<*mut CustomPath> {
        // SAFETY: the planner's; new memory of the right size, zeroed.
        unsafe {
            let child = &(*scan).path;
            let rel = &*self.output;
            let other = list::members::<Path>(rel.pathlist).chain(list::members(rel.partial_pathlist)).next()?;
            let path = new_path();
            let new = &mut (*path).path;
            (new.parent, new.pathtarget) = (self.output, self.target);
            new.parallel_safe = rel.consider_parallel && child.parallel_safe;
            new.parallel_workers = child.parallel_workers;
            new.rows = (*other).rows;
            #[cfg(feature = "since_18")]
            {
                new.disabled_nodes = child.disabled_nodes;
            }
            let target = &*self.target;
            let mut total = cost_of_all(&*scan, new.rows);
            if task.is_of_ends() && !child.parallel_aware {
                let jumping = self.cost_of_ends(&*scan, &task);
                task.jumps = jumping < total;
                total = total.min(jumping);
            }
            new.total_cost = total + target.cost.per_tuple * new.rows + target.cost.startup;
            new.startup_cost = if task.depth > 0 { child.startup_cost } else { new.total_cost };
            if task.depth > 0 && ffi::pathkeys_contained_in(self.order, child.pathkeys) {
                new.pathkeys = self.order;
            }
            (*path).flags = pg_sys::CUSTOMPATH_SUPPORT_PROJECTION;
            (*path).custom_paths = list::of([scan]);
            (*path).custom_private = list::of([list::of_integers(task.integers()), expressions, self.having]);
            (*path).methods = &*METHODS;
            Some(path)
        }
    }

    /// What the node costs if it leaves out the middle of each group: a descent to the next one, and another one to the
    /// last rows if these matter.
    unsafe fn cost_of_ends(&self, scan: &IndexPath, task: &Task) -> f64 {
        // SAFETY: the planner's.
        unsafe {
            let expressions = ffi::get_sortgrouplist_exprs(self.clauses, (*self.root).processed_tlist);
            let nothing = core::ptr::null_mut();
            let groups = ffi::estimate_num_groups(self.root, expressions, scan.path.rows, nothing, nothing.cast());
            let wants_last = task.items().iter().any(|item| item.output != Output::Group);
            let descents = groups * if wants_last { 2.0 } else { 1.0 };
            let rows = groups * OPERATORS_A_GROUP * pg_sys::cpu_operator_cost;
            scan.path.startup_cost + cost::descents(self.root, &*scan.indexinfo, descents) + rows
        }
    }
}

impl Candidate {
    /// An index of the planner's.
    unsafe fn of(info: *mut IndexOptInfo) -> Candidate {
        // SAFETY: the planner's.
        unsafe { Candidate { info, shape: tables::exact_shape(&*info) } }
    }

    /// The key column that an expression is, if it is one.
    unsafe fn column_of(&self, table: *mut RelOptInfo, expression: *mut Node) -> Option<usize> {
        // SAFETY: the planner's.
        unsafe {
            let found = tables::key_column(&*self.info, &*table, expression).filter(|found| *found < MOST_COLUMNS)?;
            let is_whole = self.shape.is_some() || tables::is_stored_as_it_is(expression);
            is_whole.then_some(found)
        }
    }

    /// What an expression asks for, if it is a column by which rows may be grouped, or an aggregate of a column.
    unsafe fn item(
        &self,
        table: *mut RelOptInfo,
        expression: *mut Node,
        split: pg_sys::AggSplit::Type,
    ) -> Option<Item> {
        // SAFETY: the planner's; a node is what its tag says.
        unsafe {
            match (*expression).type_ {
                NodeTag::T_Var => Some(Item { output: Output::Group, column: self.column_of(table, expression)? }),
                NodeTag::T_Aggref => self.aggregate(table, &*expression.cast::<Aggref>(), split),
                _ => None,
            }
        }
    }

    unsafe fn aggregate(
        &self,
        table: *mut RelOptInfo,
        aggregate: &Aggref,
        split: pg_sys::AggSplit::Type,
    ) -> Option<Item> {
        // SAFETY: the planner's.
        unsafe {
            let is_plain = aggregate.aggfilter.is_null()
                && aggregate.aggorder.is_null()
                && aggregate.aggdirectargs.is_null()
                && aggregate.aggkind as u8 == b'n'
                && aggregate.agglevelsup == 0
                && aggregate.aggsplit == split;
            if !is_plain {
                return None;
            }
            let function = aggregate.aggfnoid.to_u32();
            if function == pg_sys::F_COUNT_ {
                return Some(Item { output: Output::Rows, column: 0 });
            }
            let mut arguments = list::members::<TargetEntry>(aggregate.args);
            let (Some(argument), None) = (arguments.next(), arguments.next()) else { return None };
            let expression: *mut Expr = (*argument).expr;
            let column = self.column_of(table, expression.cast())?;
            let ty = self.shape.as_ref()?.columns()[column].ty;
            if let Some(output) = self.end(aggregate, column, ffi::exprType(expression.cast())) {
                return Some(Item { output, column });
            }
            let output = match (function, ty) {
                (pg_sys::F_COUNT_ANY, _) => Output::Count,
                (pg_sys::F_SUM_INT2, ColumnType::Int2)
                | (pg_sys::F_SUM_INT4, ColumnType::Int4)
                | (pg_sys::F_SUM_INT8, ColumnType::Int8) => Output::Sum,
                (pg_sys::F_AVG_INT2, ColumnType::Int2)
                | (pg_sys::F_AVG_INT4, ColumnType::Int4)
                | (pg_sys::F_AVG_INT8, ColumnType::Int8) => Output::Average,
                _ => return None,
            };
            let output = match (split, output, ty) {
                (pg_sys::AggSplit::AGGSPLIT_SIMPLE, ..) => output,
                // A part of a sum of bigints, or of their average, is in a form of the server's own.
                (_, Output::Sum | Output::Average, ColumnType::Int8) => return None,
                (_, Output::Average, _) => Output::CountAndSum,
                _ => output,
            };
            aggregate.aggdistinct.is_null().then_some(Item { output, column })
        }
    }

    /// Whether an aggregate gives the first or the last value in the column's order, as the catalog says of `min` and
    /// `max`. Floats are left out: of 0 and -0, which are equal, it matters which came last.
    unsafe fn end(&self, aggregate: &Aggref, column: usize, ty: Oid) -> Option<Output> {
        // SAFETY: the planner's, and a catalog lookup.
        unsafe {
            if aggregate.aggtype != ty || self.shape.as_ref()?.columns()[column].ty.is_float() {
                return None;
            }
            let operator = ffi::sort_operator(aggregate.aggfnoid)?;
            match ffi::get_op_opfamily_strategy(operator, *(*self.info).opfamily.add(column)) as u32 {
                pg_sys::BTLessStrategyNumber => Some(Output::Least),
                pg_sys::BTGreaterStrategyNumber => Some(Output::Greatest),
                _ => None,
            }
        }
    }
}

/// The index-only scans that the server would make of an index alone, by one process and by several, if they decide all
/// conditions.
unsafe fn scans(
    root: *mut PlannerInfo,
    input: *mut RelOptInfo,
    info: *mut IndexOptInfo,
) -> (Option<*mut IndexPath>, Option<*mut IndexPath>) {
    // SAFETY: the planner's.
    unsafe {
        let [serial, parallel] = child::scans_of(root, input, info).map(|paths| {
            list::members::<IndexPath>(paths)
                .find(|&path| (*path).path.pathtype == NodeTag::T_IndexOnlyScan && child::decides_all(&*path))
                .map(|path| forwards(path))
        });
        (serial, parallel)
    }
}

/// A scan that goes the way of the index, and comes in no order that is of use if the server thought of the other way.
unsafe fn forwards(path: *mut IndexPath) -> *mut IndexPath {
    // SAFETY: the planner's; new memory of the right size.
    unsafe {
        if (*path).indexscandir == pg_sys::ScanDirection::ForwardScanDirection {
            return path;
        }
        let turned: *mut IndexPath = ffi::palloc(size_of::<IndexPath>()).cast();
        turned.copy_from_nonoverlapping(path, 1);
        (*turned).indexscandir = pg_sys::ScanDirection::ForwardScanDirection;
        (*turned).path.pathkeys = core::ptr::null_mut();
        turned
    }
}

/// What the node costs: what the scan does, less what the executor does about rows whose blocks are all-visible.
unsafe fn cost_of_all(scan: &IndexPath, groups: f64) -> f64 {
    // SAFETY: the planner's, and settings.
    unsafe {
        let rel = &*(*scan.indexinfo).rel;
        let all = (scan.indexselectivity * rel.tuples).max(scan.path.rows);
        // The server lets workers share what it says of rows, but not what the method says of entries.
        let own = if scan.path.parallel_aware { scan.path.rows } else { all };
        let conditions = list::cells(scan.indexclauses).len() as f64 * pg_sys::cpu_operator_cost;
        let an_entry = pg_sys::cpu_index_tuple_cost + conditions;
        let spared = rel.allvisfrac * (all * an_entry + own * pg_sys::cpu_tuple_cost);
        // Workers take turns at reading leaves, which is most of what a row takes.
        let least = all * OPERATORS_A_ROW * pg_sys::cpu_operator_cost;
        let run = (scan.path.total_cost - scan.path.startup_cost - spared).max(0.0) + least;
        scan.path.startup_cost + run + groups * OPERATORS_A_GROUP * pg_sys::cpu_operator_cost
    }
}

/// Makes the plan of a path.
#[pg_guard]
unsafe extern "C-unwind" fn plan(
    _root: *mut PlannerInfo,
    _rel: *mut RelOptInfo,
    path: *mut CustomPath,
    targets: *mut List,
    _clauses: *mut List,
    plans: *mut List,
) -> *mut Plan {
    // SAFETY: called by the planner, with a path of ours; new memory of the right size, zeroed.
    unsafe {
        let mut private = list::members::<List>((*path).custom_private);
        let mut next = || private.next().unwrap_or(core::ptr::null_mut());
        let (task, expressions, having) = (next(), next(), next());
        let scan = new_plan::<Aggregate>(path, targets, plans);
        (*scan).scan.plan.qual = having;
        (*scan).custom_private = task;
        for (at, expression) in list::members::<Expr>(expressions).enumerate() {
            let entry = ffi::makeTargetEntry(expression, at as i16 + 1, core::ptr::null_mut(), false);
            (*scan).custom_scan_tlist = ffi::lappend((*scan).custom_scan_tlist, entry.cast());
        }
        scan.cast()
    }
}
