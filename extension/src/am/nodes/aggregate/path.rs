//! Offers the node to the planner, above the index-only scan that the server itself would make for the same conditions:
//! what matches a condition to an index is the server's business, and so is what that costs.

use fpbtree_engine::keys::{ColumnType, KeyShape};
use pgrx::pg_guard;
use pgrx::pg_sys::{
    self, Aggref, CustomPath, CustomPathMethods, Expr, GroupPathExtraData, IndexOptInfo, IndexPath, List, Node,
    NodeTag, Oid, Path, Plan, PlannerInfo, RelOptInfo, SortGroupClause, TargetEntry, UpperRelationKind,
};

use super::filters::bits;
use super::{Aggregate, Item, MOST_COLUMNS, Output, Task, sums};
use crate::am::cost;
use crate::am::nodes::executor::{self, Work};
use crate::am::nodes::{OPERATORS_A_ROW, SPARED, child, new_path, new_plan, tables};
use crate::pg::per_backend::PerBackend;
use crate::pg::{aggregates, ffi, list};

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
            let [serial, parallel] = child::scans_of(root, input, index).map(|paths| scans(paths));
            // Groups may come in the opposite order of the index, too.
            let goes_back = whole.is_grouped;
            let forward = serial.clone().find(|&scan| !is_backward(scan)).or(serial.clone().next());
            let first = forward.map(|scan| forwards(scan));
            for scan in first.into_iter().chain(serial.filter(|&scan| goes_back && is_backward(scan))) {
                if let Some(path) = whole.path(scan, wanted) {
                    ffi::add_path(output, path.cast());
                }
            }
            if let (Some(scan), Some(part)) = (parallel.map(|scan| forwards(scan)).next(), &part)
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

/// What is wanted of an index: rows grouped by columns, a bit for each, and a task, whose items are these expressions, and
/// whose filters these.
#[derive(Clone, Copy)]
struct Wanted {
    columns: u32,
    task: Task,
    /// Whether it takes all rows of a group. Of 0 and -0, which are equal, it matters which came last.
    takes_all: bool,
    expressions: *mut List,
    filters: *mut List,
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
            let (clauses, order) = (query.groupClause, (*root).group_pathkeys);
            #[cfg(not(feature = "pg15"))]
            let clauses = (*root).processed_groupClause;
            // There may be keys behind those of the groups, that sorted aggregates want.
            #[cfg(not(feature = "pg15"))]
            let order = {
                let keys = list::members::<pg_sys::PathKey>((*root).group_pathkeys);
                list::of(keys.take((*root).num_groupby_pathkeys as usize))
            };
            Grouping {
                root,
                input,
                output,
                target: (*output).reltarget,
                clauses,
                order,
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
                _ if !self.is_grouped => pg_sys::AggStrategy::AGG_PLAIN,
                // By nothing that has more than one value: all rows are a group, if there are any.
                _ if self.clauses.is_null() => pg_sys::AggStrategy::AGG_SORTED,
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
            let (expressions, filters) = self.expressions(index, &mut task)?;
            // Groups of byte strings of which nothing more is asked are another node's.
            let is_wanted = index.shape.is_some() || task.items().iter().any(|item| item.output != Output::Group);
            let types = index.shape.as_ref().map_or(&[][..], |shape| shape.columns());
            let is_of_floats = |item: &Item| types.get(item.column).is_some_and(|column| column.ty.is_float());
            let takes_all = task.items().iter().any(|item| item.output != Output::Group && is_of_floats(item));
            is_wanted.then_some(Wanted { columns, task, takes_all, expressions, filters })
        }
    }

    /// The node's path above a scan of the index, if rows come in groups of these columns.
    unsafe fn path(&self, scan: *mut IndexPath, mut wanted: Wanted) -> Option<*mut CustomPath> {
        // SAFETY: the planner's.
        unsafe {
            let task = &mut wanted.task;
            let depth_of = |task: &Task| {
                // Columns that have one value alone may be between those of the group and the next one.
                let before = task.next_columns().fold(0, |columns, next| columns | !(u32::MAX << next));
                tables::prefix(&*scan, wanted.columns, task.shown_columns() | before)
            };
            let is_next = |task: &Task, depth: usize| task.next_columns().all(|next| next == depth);
            let mut depth = depth_of(task).filter(|&depth| is_next(task, depth));
            if depth.is_none() {
                task.ask_all_for_ends_but_of(tables::prefix(&*scan, wanted.columns, task.shown_columns())?);
                depth = depth_of(task).filter(|&depth| is_next(task, depth));
            }
            task.depth = depth?;
            self.make(scan, wanted)
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

    /// What the node has to give, columns and aggregates of columns, and the filters of these. `None` if there is something
    /// else.
    unsafe fn expressions(&self, index: &Candidate, task: &mut Task) -> Option<(*mut List, *mut List)> {
        let (mut expressions, mut filters) = (core::ptr::null_mut(), core::ptr::null_mut());
        let flags = pg_sys::PVC_INCLUDE_AGGREGATES | pg_sys::PVC_INCLUDE_PLACEHOLDERS;
        // SAFETY: the planner's.
        unsafe {
            for part in [(*self.target).exprs, self.having] {
                for expression in list::members::<Node>(ffi::pull_var_clause(part.cast(), flags as _)) {
                    if ffi::list_member(expressions, expression.cast()) {
                        continue;
                    }
                    let mut item = index.item(self.input, expression, self.split)?;
                    if let Some(condition) = filter_of(expression) {
                        item.filter = Some(index.filter(self.input, condition, task, &mut filters)?);
                    }
                    if !task.add(item) {
                        return None;
                    }
                    expressions = ffi::lappend(expressions, expression.cast());
                }
            }
        }
        Some((expressions, filters))
    }

    /// Makes the path.
    unsafe fn make(&self, scan: *mut IndexPath, wanted: Wanted) -> Option<*mut CustomPath> {
        let Wanted { mut task, takes_all, expressions, filters, .. } = wanted;
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
            let mut total = cost_of_all(&*scan, new.rows) + self.cost_of_filters(filters, child.rows);
            let may_jump = task.is_of_ends() && !takes_all || task.counts_different();
            if may_jump && !child.parallel_aware && !is_backward(scan) {
                let jumping = self.cost_of_jumps(&*scan, &task, expressions);
                task.jumps = jumping < total;
                total = total.min(jumping);
            }
            new.total_cost = total + target.cost.per_tuple * new.rows + target.cost.startup;
            new.startup_cost = if task.depth > 0 && self.is_grouped { child.startup_cost } else { new.total_cost };
            if task.depth > 0 && ffi::pathkeys_contained_in(self.order, child.pathkeys) {
                new.pathkeys = self.order;
            }
            (*path).flags = pg_sys::CUSTOMPATH_SUPPORT_PROJECTION;
            (*path).custom_paths = list::of([scan]);
            let integers = list::of_integers(task.integers());
            (*path).custom_private = list::of([integers, expressions, self.having, filters]);
            (*path).methods = &*METHODS;
            Some(path)
        }
    }

    /// What it costs to evaluate filters for so many rows.
    unsafe fn cost_of_filters(&self, filters: *mut List, rows: f64) -> f64 {
        let mut cost = pg_sys::QualCost { startup: 0.0, per_tuple: 0.0 };
        // SAFETY: the planner's.
        unsafe { ffi::cost_qual_eval(&mut cost, filters, self.root) };
        cost.startup + cost.per_tuple * rows
    }

    /// What the node costs if it leaves out the middle of each group, or of each value that it counts: a descent to the next
    /// one, and another one to the last rows if these matter.
    unsafe fn cost_of_jumps(&self, scan: &IndexPath, task: &Task, asked: *mut List) -> f64 {
        // SAFETY: the planner's.
        unsafe {
            let mut expressions = ffi::get_sortgrouplist_exprs(self.clauses, (*self.root).processed_tlist);
            for counted in list::members::<Node>(asked).filter_map(|expression| distinct_argument(expression)) {
                expressions = ffi::lappend(expressions, counted.cast());
            }
            let nothing = core::ptr::null_mut();
            let groups = ffi::estimate_num_groups(self.root, expressions, scan.path.rows, nothing, nothing.cast());
            let wants_last = task.items().iter().any(|item| item.output != Output::Group) && !task.counts_different();
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
            let keys = (*self.info).nkeycolumns as usize;
            self.value_of(table, expression).filter(|&found| found < keys)
        }
    }

    /// The column, of the key or beside it, whose values an expression has, if it is one.
    unsafe fn value_of(&self, table: *mut RelOptInfo, expression: *mut Node) -> Option<usize> {
        // SAFETY: the planner's.
        unsafe {
            let found = tables::column(&*self.info, &*table, expression).filter(|found| *found < MOST_COLUMNS)?;
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
                NodeTag::T_Var => Some(Item::of_all(Output::Group, self.column_of(table, expression)?)),
                NodeTag::T_Aggref => self.aggregate(table, &*expression.cast::<Aggref>(), split),
                _ => None,
            }
        }
    }

    /// Which of the task's filters a condition is, one more if it has not been seen. `None` if the index does not say all
    /// that it is about, or it matters how often it is evaluated.
    unsafe fn filter(
        &self,
        table: *mut RelOptInfo,
        condition: *mut Expr,
        task: &mut Task,
        filters: &mut *mut List,
    ) -> Option<usize> {
        // SAFETY: the planner's.
        unsafe {
            let mut all = list::members::<Expr>(*filters);
            if let Some(found) = all.position(|filter| ffi::equal(filter.cast(), condition.cast())) {
                return Some(found);
            }
            if ffi::contain_volatile_functions(condition.cast()) || ffi::contain_subplans(condition.cast()) {
                return None;
            }
            let new = list::cells(*filters).len();
            let columns = task.filters.get_mut(new)?;
            for column in columns_of(condition) {
                *columns |= 1 << self.value_of(table, column)?;
            }
            *filters = ffi::lappend(*filters, condition.cast());
            Some(new)
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
            let is_plain = aggregate.aggorder.is_null()
                && aggregate.aggdirectargs.is_null()
                && aggregate.aggkind as u8 == b'n'
                && aggregate.agglevelsup == 0
                && aggregate.aggsplit == split;
            if !is_plain {
                return None;
            }
            let function = aggregate.aggfnoid.to_u32();
            if function == pg_sys::F_COUNT_ {
                return Some(Item::of_all(Output::Rows, 0));
            }
            let mut arguments = list::members::<TargetEntry>(aggregate.args);
            let (Some(argument), None) = (arguments.next(), arguments.next()) else { return None };
            let expression: *mut Expr = (*argument).expr;
            let Some(shape) = &self.shape else {
                return self.aggregate_of_strings(table, aggregate, expression.cast(), split);
            };
            let column = self.column_of(table, expression.cast())?;
            let ty = shape.columns()[column].ty;
            if self.counts_different(aggregate, column, expression.cast()) {
                return Some(Item::of_all(Output::Different, column));
            }
            if let Some(output) = self.end(aggregate, column, ffi::exprType(expression.cast())) {
                return Some(Item::of_all(output, column));
            }
            let output = match (function, ty) {
                (pg_sys::F_COUNT_ANY, _) => Output::Count,
                (pg_sys::F_SUM_INT2, ColumnType::Int2)
                | (pg_sys::F_SUM_INT4, ColumnType::Int4)
                | (pg_sys::F_SUM_INT8, ColumnType::Int8)
                | (pg_sys::F_SUM_FLOAT4, ColumnType::Float4)
                | (pg_sys::F_SUM_FLOAT8, ColumnType::Float8) => Output::Sum,
                (pg_sys::F_AVG_INT2, ColumnType::Int2)
                | (pg_sys::F_AVG_INT4, ColumnType::Int4)
                | (pg_sys::F_AVG_INT8, ColumnType::Int8)
                | (pg_sys::F_AVG_FLOAT4, ColumnType::Float4)
                | (pg_sys::F_AVG_FLOAT8, ColumnType::Float8) => Output::Average,
                _ => return None,
            };
            let output = of_split(output, split, ty == ColumnType::Int8);
            aggregate.aggdistinct.is_null().then_some(Item::of_all(output, column))
        }
    }

    /// What an aggregate of a column asks for where keys are byte strings. Which column is the next one, is known later.
    unsafe fn aggregate_of_strings(
        &self,
        table: *mut RelOptInfo,
        aggregate: &Aggref,
        expression: *mut Node,
        split: pg_sys::AggSplit::Type,
    ) -> Option<Item> {
        // SAFETY: the planner's.
        unsafe {
            let ty = ffi::exprType(expression);
            let column = self.value_of(table, stored(expression))?;
            if self.counts_different(aggregate, column, expression) {
                return Some(Item::of_all(Output::Different, column));
            }
            let output = match aggregate.aggfnoid.to_u32() {
                pg_sys::F_COUNT_ANY => Some(Output::Count),
                pg_sys::F_SUM_INT2 | pg_sys::F_SUM_INT4 | pg_sys::F_SUM_INT8 => Some(Output::Sum),
                pg_sys::F_SUM_FLOAT4 | pg_sys::F_SUM_FLOAT8 => Some(Output::Sum),
                pg_sys::F_SUM_NUMERIC | pg_sys::F_SUM_INTERVAL => Some(Output::Sum),
                pg_sys::F_AVG_INT2 | pg_sys::F_AVG_INT4 | pg_sys::F_AVG_INT8 => Some(Output::Average),
                pg_sys::F_AVG_FLOAT4 | pg_sys::F_AVG_FLOAT8 => Some(Output::Average),
                pg_sys::F_AVG_NUMERIC | pg_sys::F_AVG_INTERVAL => Some(Output::Average),
                _ => None,
            };
            if let Some(output) = output {
                let is_its = output == Output::Count || ffi::getBaseType(ffi::exprType(stored(expression))) == ty;
                let output = of_split(output, split, sums::is_wider_than(ty));
                return (is_its && aggregate.aggdistinct.is_null()).then_some(Item::of_all(output, column));
            }
            let is_in_order = column < (*self.info).nkeycolumns as usize
                && aggregate.inputcollid == *(*self.info).indexcollations.add(column)
                && aggregate.aggfilter.is_null();
            let output = match self.end(aggregate, column, ty).filter(|_| is_in_order) {
                Some(end) if (end == Output::Least) == *(*self.info).reverse_sort.add(column) => Output::Last,
                Some(_) => Output::First,
                None => first_in_order(aggregate, ty).map(|_| Output::Extreme)?,
            };
            Some(Item::of_all(output, column))
        }
    }

    /// Whether an aggregate counts the different values of a key column, of all rows, and which are the same to the index.
    unsafe fn counts_different(&self, aggregate: &Aggref, column: usize, expression: *mut Node) -> bool {
        // SAFETY: the planner's.
        unsafe {
            let mut clauses = list::members::<SortGroupClause>(aggregate.aggdistinct);
            let is_count = aggregate.aggfnoid.to_u32() == pg_sys::F_COUNT_ANY
                && aggregate.aggfilter.is_null()
                && column < (*self.info).nkeycolumns as usize;
            matches!((clauses.next(), clauses.next()), (Some(clause), None)
                if is_count && tables::groups_alike(&*self.info, column, expression, &*clause))
        }
    }

    /// Whether an aggregate gives the first or the last value in a key column's order, as the catalog says of `min` and
    /// `max`.
    unsafe fn end(&self, aggregate: &Aggref, column: usize, ty: Oid) -> Option<Output> {
        // SAFETY: the planner's, and a catalog lookup.
        unsafe {
            if column >= (*self.info).nkeycolumns as usize {
                return None;
            }
            let operator = first_in_order(aggregate, ty)?;
            match ffi::get_op_opfamily_strategy(operator, *(*self.info).opfamily.add(column)) as u32 {
                pg_sys::BTLessStrategyNumber => Some(Output::Least),
                pg_sys::BTGreaterStrategyNumber => Some(Output::Greatest),
                _ => None,
            }
        }
    }
}

/// The operator in whose order an aggregate of values of a type gives the first one, if it does. A part of it does not if the
/// server has more to do with the value than to find the first one of several.
unsafe fn first_in_order(aggregate: &Aggref, ty: Oid) -> Option<Oid> {
    // SAFETY: catalog lookups.
    unsafe {
        let is_whole = aggregate.aggsplit == pg_sys::AggSplit::AGGSPLIT_SIMPLE;
        if aggregate.aggtype != ty || !is_whole && aggregates::final_function(aggregate.aggfnoid).is_some() {
            return None;
        }
        aggregates::sort_operator(aggregate.aggfnoid).filter(|&operator| aggregates::is_ordering_operator(operator))
    }
}

/// What is asked of a sum or an average where the server finishes it; the parts of a sum may be of a wider type.
fn of_split(output: Output, split: pg_sys::AggSplit::Type, is_wider: bool) -> Output {
    match output {
        _ if split == pg_sys::AggSplit::AGGSPLIT_SIMPLE => output,
        Output::Sum if is_wider => Output::CountAndSum,
        Output::Average => Output::CountAndSum,
        _ => output,
    }
}

/// The condition of the rows that an aggregate takes, if it has one.
unsafe fn filter_of(expression: *mut Node) -> Option<*mut Expr> {
    // SAFETY: the planner's; a node is what its tag says.
    unsafe {
        let aggregate = ((*expression).type_ == NodeTag::T_Aggref).then_some(expression.cast::<Aggref>())?;
        Some((*aggregate).aggfilter).filter(|filter| !filter.is_null())
    }
}

/// What an aggregate takes different values of, if it does.
unsafe fn distinct_argument(expression: *mut Node) -> Option<*mut Expr> {
    // SAFETY: the planner's; a node is what its tag says.
    unsafe {
        let aggregate = ((*expression).type_ == NodeTag::T_Aggref).then_some(&*expression.cast::<Aggref>())?;
        let argument = list::members::<TargetEntry>(aggregate.args).next()?;
        (!aggregate.aggdistinct.is_null()).then_some((*argument).expr)
    }
}

/// What an expression has from the index, if the server only takes it for another type, as a varchar for a text.
unsafe fn stored(expression: *mut Node) -> *mut Node {
    // SAFETY: the planner's; a node is what its tag says.
    unsafe {
        match (*expression).type_ {
            NodeTag::T_RelabelType => (*expression.cast::<pg_sys::RelabelType>()).arg.cast(),
            _ => expression,
        }
    }
}

/// The columns that a condition is about.
unsafe fn columns_of(condition: *mut Expr) -> impl Iterator<Item = *mut Node> {
    let flags = pg_sys::PVC_INCLUDE_AGGREGATES | pg_sys::PVC_INCLUDE_PLACEHOLDERS;
    // SAFETY: the planner's.
    unsafe { list::members(ffi::pull_var_clause(condition.cast(), flags as _)) }
}

/// The index-only scans among some that decide all conditions.
unsafe fn scans(paths: *mut List) -> impl Iterator<Item = *mut IndexPath> + Clone {
    // SAFETY: the planner's.
    unsafe {
        list::members::<IndexPath>(paths)
            .filter(|&path| (*path).path.pathtype == NodeTag::T_IndexOnlyScan && child::decides_all(&*path))
    }
}

unsafe fn is_backward(path: *mut IndexPath) -> bool {
    // SAFETY: the planner's.
    unsafe { (*path).indexscandir == pg_sys::ScanDirection::BackwardScanDirection }
}

/// A scan that goes the way of the index, and comes in no order that is of use if the server thought of the other way.
unsafe fn forwards(path: *mut IndexPath) -> *mut IndexPath {
    // SAFETY: the planner's; new memory of the right size.
    unsafe {
        if !is_backward(path) {
            return path;
        }
        let turned: *mut IndexPath = ffi::palloc(size_of::<IndexPath>()).cast();
        turned.copy_from_nonoverlapping(path, 1);
        (*turned).indexscandir = pg_sys::ScanDirection::ForwardScanDirection;
        (*turned).path.pathkeys = core::ptr::null_mut();
        turned
    }
}

/// What the node costs: what the scan does, less what the executor does about rows, more of it where blocks are all-visible.
unsafe fn cost_of_all(scan: &IndexPath, groups: f64) -> f64 {
    // SAFETY: the planner's, and settings.
    unsafe {
        let rel = &*(*scan.indexinfo).rel;
        let all = (scan.indexselectivity * rel.tuples).max(scan.path.rows);
        // The server lets workers share what it says of rows, but not what the method says of entries.
        let own = if scan.path.parallel_aware { scan.path.rows } else { all };
        let conditions = list::cells(scan.indexclauses).len() as f64 * pg_sys::cpu_operator_cost;
        let an_entry = pg_sys::cpu_index_tuple_cost + conditions;
        let (visible, a_row) = (rel.allvisfrac, pg_sys::cpu_tuple_cost);
        let spared = visible * (all * an_entry + own * a_row) + (1.0 - visible) * own * SPARED * a_row;
        // Workers take turns at reading leaves, which is most of what a row takes.
        let least = all * OPERATORS_A_ROW * pg_sys::cpu_operator_cost;
        let run = (scan.path.total_cost - scan.path.startup_cost - spared).max(0.0) + least;
        scan.path.startup_cost + run + groups * OPERATORS_A_GROUP * pg_sys::cpu_operator_cost
    }
}

/// The columns that filters are about and that are not given as they are, in the task's order.
unsafe fn columns_behind(index: &IndexOptInfo, task: &Task, filters: *mut List) -> impl Iterator<Item = *mut Expr> {
    // SAFETY: the planner's.
    unsafe {
        let of_number = move |number: usize| {
            let mut all = list::members::<Expr>(filters).flat_map(|filter| columns_of(filter));
            all.find(|&column| tables::column(index, &*index.rel, column) == Some(number)).map(|column| column.cast())
        };
        bits(task.columns_behind()).filter_map(of_number)
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
        let (integers, expressions, having, filters) = (next(), next(), next(), next());
        let scan = new_plan::<Aggregate>(path, targets, plans);
        (*scan).scan.plan.qual = having;
        (*scan).custom_private = integers;
        (*scan).custom_exprs = filters;
        let below = list::members::<IndexPath>((*path).custom_paths).next();
        let (Some(index), Some(task)) = (below, Task::of(list::integers(integers))) else {
            executor::malformed::<Aggregate>()
        };
        let behind = columns_behind(&*(*index).indexinfo, &task, filters);
        for (at, expression) in list::members::<Expr>(expressions).chain(behind).enumerate() {
            let entry = ffi::makeTargetEntry(expression, at as i16 + 1, core::ptr::null_mut(), false);
            (*scan).custom_scan_tlist = ffi::lappend((*scan).custom_scan_tlist, entry.cast());
        }
        scan.cast()
    }
}
