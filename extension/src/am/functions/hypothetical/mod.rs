//! `fpbtree_hypothetical`: what a `CREATE INDEX` statement would make, and what the planner would think of it.

use fpbtree_engine::format::Block;
use pgrx::PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE;
use pgrx::pg_guard;
use pgrx::pg_sys::{self, Datum, FunctionCallInfo};

use self::plan::Costs;
use self::sample::Expected;
use self::sketch::{Sketch, SketchColumns};
use self::statement::Statement;
use super::advise::{LEAST_PAGES, MOST_PAGES};
use super::opened::Caller;
use super::result::{ResultRows, argument, float, text, version_1};
use crate::pg::errors::{self, Text};
use crate::pg::ffi;

mod keys;
mod like;
mod plan;
mod sample;
mod sketch;
mod statement;

pub use self::plan::show;

version_1!(pg_finfo_fpbtree_hypothetical_wrapper);

/// `fpbtree_hypothetical(statement, pages)`: one row on the index that a statement would create, by a sample of so many
/// pages of its table, or of a btree index with the same columns. Nothing is created.
///
/// # Safety
/// Called by the server.
#[unsafe(no_mangle)]
#[pg_guard]
pub unsafe extern "C-unwind" fn fpbtree_hypothetical_wrapper(call: FunctionCallInfo) -> Datum {
    // SAFETY: called by the server, as the install script declares.
    unsafe {
        let pages = argument(call, 1).value() as i32;
        check_pages(pages);
        let rows = ResultRows::new(call);
        let given = ffi::pg_detoast_datum_packed(argument(call, 0).cast_mut_ptr());
        let statement = Statement::read(ffi::text_to_cstring(given.cast()));
        match SketchColumns::of(&statement) {
            Ok(columns) => rows.add_some(judge(&statement, columns, pages as Block)),
            Err(unordered) => {
                let mut row = [None; COLUMNS];
                row[COLUMNS - 1] = Some(reason(&unordered.reason()));
                rows.add_some(row);
            }
        }
        statement.close();
        Datum::from(0)
    }
}

fn check_pages(pages: i32) {
    if !(LEAST_PAGES..=MOST_PAGES).contains(&pages) {
        errors::raise(
            ERRCODE_INVALID_PARAMETER_VALUE,
            format_args!("cannot judge an index by a sample of {pages} pages"),
            None,
            Some(format_args!("From {LEAST_PAGES} to {MOST_PAGES} can be read.")),
        );
    }
}

/// Columns of the answer.
const COLUMNS: usize = 12;

/// Looks at rows, or at a btree index, and asks the planner: as the table's owner.
unsafe fn judge(statement: &Statement, columns: SketchColumns, pages: Block) -> [Option<Datum>; COLUMNS] {
    // SAFETY: the table is open.
    unsafe {
        let caller = Caller::become_owner(statement.table);
        let sketch = Sketch::new(statement, columns);
        let like = like::find(&sketch);
        let of_index = like.and_then(|index| like::expect(index, pages));
        let expected = of_index.unwrap_or_else(|| sample::expect(&sketch, pages));
        let costs = plan::costs(&sketch, &expected);
        let why_not = why_not(&sketch, &expected);
        caller.restore();
        row(&expected, of_index.and(like), costs, why_not)
    }
}

unsafe fn row(
    expected: &Expected,
    source: Option<pg_sys::Oid>,
    [lookup, ordered]: [Option<Costs>; 2],
    why_not: Option<Text>,
) -> [Option<Datum>; COLUMNS] {
    let Expected { pages, leaves, levels, rows, sampled, is_whole, .. } = *expected;
    let [startup, total]: [fn(Costs) -> Datum; 2] = [|costs| float(costs.startup), |costs| float(costs.total)];
    [
        Some(Datum::from((pages * u64::from(pg_sys::BLCKSZ)) as i64)),
        Some(Datum::from(leaves as i64)),
        Some(Datum::from(levels as i32)),
        Some(Datum::from(rows.round() as i64)),
        lookup.map(startup),
        lookup.map(total),
        ordered.map(startup),
        ordered.map(total),
        Some(Datum::from(sampled as i64)),
        Some(Datum::from(is_whole)),
        source.map(Datum::from),
        // SAFETY: copied by the server.
        why_not.map(|why_not| unsafe { reason(&why_not) }),
    ]
}

unsafe fn reason(why_not: &Text) -> Datum {
    // SAFETY: copied by the server.
    unsafe { text(format_args!("{}", why_not.as_c_str().to_str().unwrap_or_default())) }
}

/// What speaks against the index.
unsafe fn why_not(sketch: &Sketch, expected: &Expected) -> Option<Text> {
    // SAFETY: the index's description.
    let is_unique = unsafe { (*(*sketch.rel).rd_index).indisunique };
    if expected.too_long > 0 {
        let longest = expected.longest;
        return Some(Text::new(format_args!("key too long: one has {longest} bytes, and 1800 are the most")));
    }
    (is_unique && !cfg!(feature = "since_18")).then(|| {
        Text::new(format_args!(
            "ON CONFLICT: before PostgreSQL 18, INSERT ... ON CONFLICT fails on a table with a unique fpbtree index"
        ))
    })
}
