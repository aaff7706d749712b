//! Rows that are dead to everyone, asked of the table whose rows they are.

use fpbtree_engine::format::Block;
use fpbtree_engine::log::Horizon;
use fpbtree_engine::store::{DeadSearch, Suspect};
use pgrx::pg_sys::{self, Relation, TM_IndexDelete, TM_IndexDeleteOp, TM_IndexStatus};

use crate::pg::memory::{allocate, free};
use crate::pg::relation;
use crate::pg::tid::heap_tid;

/// What one entry counts for where the table method asks how much room would be enough.
const ONE: i16 = 1;

/// Says of a leaf's suspects which are dead, through the table's own method, and who might still have seen one of
/// these. `None` if there are none (nbtree's `_bt_delitems_delete_check`).
///
/// # Safety
/// `rel` is an open index and `heap` its table; the leaf is exclusively locked. Locks pages of the table. May raise.
pub unsafe fn find(
    rel: Relation,
    heap: Relation,
    leaf: Block,
    suspects: &mut [Suspect],
    search: DeadSearch,
) -> Option<Horizon> {
    if suspects.is_empty() {
        return None;
    }
    // SAFETY: `rel` and `heap` are open, and the leaf is locked. The arrays have an element for each suspect, and the
    // method only ever takes some of the first one's away; what an error leaves belongs to the context of the
    // statement.
    unsafe {
        let context = pg_sys::CurrentMemoryContext;
        let rows: *mut TM_IndexDelete = allocate(context, suspects.len(), false);
        let states: *mut TM_IndexStatus = allocate(context, suspects.len(), false);
        for (at, suspect) in suspects.iter().enumerate() {
            rows.add(at).write(TM_IndexDelete { tid: heap_tid(suspect.tid), id: at as i16 });
            states.add(at).write(TM_IndexStatus {
                // For messages; a leaf may have more entries than a page of the server has items.
                idxoffnum: (at + 1).min(pg_sys::MaxOffsetNumber as usize) as u16,
                knowndeletable: search == DeadSearch::Marked && suspect.tid.dead(),
                promising: search != DeadSearch::Marked && suspect.has_twin,
                freespace: ONE,
            });
        }
        let mut operation = TM_IndexDeleteOp {
            irel: rel,
            iblknum: leaf,
            bottomup: search != DeadSearch::Marked,
            bottomupfreespace: match search {
                DeadSearch::Marked => 0,
                DeadSearch::Versions(wanted) => wanted as i32,
            },
            ndeltids: suspects.len() as i32,
            deltids: rows,
            status: states,
        };
        let transaction = (*(*heap).rd_tableam).index_delete_tuples?(heap, &mut operation);
        let mut any = false;
        for at in 0..operation.ndeltids as usize {
            let id = (*rows.add(at)).id as usize;
            suspects[id].is_dead = (*states.add(id)).knowndeletable;
            any |= suspects[id].is_dead;
        }
        free(rows);
        free(states);
        any.then(|| Horizon { transaction: transaction.into_inner(), is_catalog: relation::is_catalog(heap) })
    }
}
