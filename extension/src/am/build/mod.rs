//! CREATE INDEX and REINDEX: entries collected by the heap scan, in parallel workers where the server grants them,
//! sorted, loaded bottom up.

use core::ffi::CStr;

use fpbtree_engine::format::{Block, META, PageBytes, ROOT};
use fpbtree_engine::page::Entry;
use fpbtree_engine::sort::Sorter;
use fpbtree_engine::tree::load::Pages;
use pgrx::PgSqlErrorCode::{ERRCODE_FEATURE_NOT_SUPPORTED, ERRCODE_INTERNAL_ERROR, ERRCODE_SUCCESSFUL_COMPLETION};
use pgrx::pg_sys::{self, ForkNumber::MAIN_FORKNUM, IndexBuildResult, IndexInfo, Oid, Relation};
use pgrx::{PgLogLevel, pg_guard};

#[cfg(not(any(feature = "pg15", feature = "pg16")))]
use self::bulk::Bulk as WholeFile;
use self::collector::{BuildTarget, Collector, Scanned};
use self::new_index::{meta, new_loader};
#[cfg(any(feature = "pg15", feature = "pg16"))]
use self::pages::Buffered as WholeFile;
use self::pages::NewFile;
use self::progress::{PHASE_SCAN, REPORTED, report_loaded, report_phase, report_scanned};
use self::team::Team;
use crate::am::sort::{Files, Sortable};
use crate::am::unique::{Watch, refuse_build};
use crate::pg::errors::{Name, Shown};
use crate::pg::options::OnUniqueIndex;
use crate::pg::{errors, ffi, memory, options, relation};
use crate::storage::index::Index;
use crate::storage::totals;
use crate::values::column;
use crate::values::keys::{Keyed, with_keys};

#[cfg(not(any(feature = "pg15", feature = "pg16")))]
mod bulk;
mod collector;
mod new_index;
mod pages;
mod parts;
mod progress;
mod team;
mod worker;
mod workplace;

pub(super) use self::new_index::{new_index, of_columns};
pub use self::progress::ambuildphasename;

/// The `ambuild` callback.
#[pg_guard]
pub unsafe extern "C-unwind" fn ambuild(heap: Relation, rel: Relation, info: *mut IndexInfo) -> *mut IndexBuildResult {
    // SAFETY: called by the server, with an open, empty index of ours that it has locked.
    unsafe {
        if ffi::RelationGetNumberOfBlocksInFork(rel, MAIN_FORKNUM) != 0 {
            errors::raise(
                ERRCODE_INTERNAL_ERROR,
                format_args!("index \"{}\" already contains data", Name(rel)),
                None,
                None,
            );
        }
        totals::make_room();
        let index = new_index(rel);
        if !ffi::ReindexIsProcessingIndex((*rel).rd_id) {
            if (*info).ii_Unique {
                announce_unique(heap, rel);
            }
            announce_other_classes(rel);
        }
        let target = BuildTarget { heap, rel, info };
        let scanned = with_keys!(index.kind, K => build::<K>(target, index));
        let result: *mut IndexBuildResult = ffi::palloc0(size_of::<IndexBuildResult>()).cast();
        (*result).heap_tuples = scanned.heap_tuples;
        (*result).index_tuples = scanned.entries as f64;
        result
    }
}

/// Says what a unique index that is not btree's does to `INSERT … ON CONFLICT` before 18, or refuses it for that.
unsafe fn announce_unique(heap: Relation, rel: Relation) {
    if cfg!(feature = "since_18") {
        return;
    }
    let (level, sqlstate, will) = match options::on_unique_index() {
        OnUniqueIndex::Silent => return,
        OnUniqueIndex::Notice => (PgLogLevel::NOTICE, ERRCODE_SUCCESSFUL_COMPLETION, "will"),
        OnUniqueIndex::Error => (PgLogLevel::ERROR, ERRCODE_FEATURE_NOT_SUPPORTED, "would"),
    };
    errors::report(
        level,
        sqlstate,
        format_args!(
            "INSERT … ON CONFLICT on table \"{}\" {will} fail while it has index \"{}\"",
            Name(heap),
            Name(rel)
        ),
        Some(format_args!(
            "Before version 18, PostgreSQL refuses it on a table with a unique index of another method than btree."
        )),
        Some(format_args!("Use a btree index, or an exclusion constraint with \"=\", where ON CONFLICT is needed.")),
    );
}

/// Tells of columns whose type has a default operator class of its own with btree, while the one here is of another type,
/// which it can be taken for: it serves that one's operators. So it is of `citext` before `fpbtree_adopt()`.
unsafe fn announce_other_classes(rel: Relation) {
    // SAFETY: an open index, whose arrays have an element for each key column; catalog lookups.
    unsafe {
        for number in 0..(*(*rel).rd_index).indnkeyatts as usize {
            let ty = ffi::getBaseType((*column::attribute((*rel).rd_att, number)).atttypid);
            let (default, taken) = (ffi::GetDefaultOpClass(ty, pg_sys::BTREE_AM_OID), *(*rel).rd_opcintype.add(number));
            if taken == ty || default == Oid::INVALID || ffi::get_opclass_input_type(default) != ty {
                continue;
            }
            let [name, other] = [ty, taken].map(|ty| CStr::from_ptr(ffi::format_type_be(ty)));
            errors::report(
                PgLogLevel::NOTICE,
                ERRCODE_SUCCESSFUL_COMPLETION,
                format_args!(
                    "index \"{}\" orders values of type {} as {}, and serves only its operators",
                    Name(rel),
                    Shown(name),
                    Shown(other)
                ),
                None,
                Some(format_args!("fpbtree_adopt() copies btree's operator classes for {}.", Shown(name))),
            );
        }
    }
}

/// The `ambuildempty` callback: the init fork of an unlogged index.
#[pg_guard]
pub unsafe extern "C-unwind" fn ambuildempty(rel: Relation) {
    // SAFETY: called by the server, with an index that has no init fork yet. Meta page first, then the root.
    unsafe {
        let index = new_index(rel);
        relation::add_init_page(rel, &meta(rel, &index));
        with_keys!(index.kind, K => add_empty_root::<K>(rel, &index));
    }
}

/// Adds the root of an empty index to its init fork.
unsafe fn add_empty_root<K: Keyed>(rel: Relation, index: &Index) {
    // SAFETY: `rel` is open and its init fork is this process's.
    unsafe {
        let columns = K::new_columns(rel);
        let write = &mut |_: Block, page: &PageBytes| relation::add_init_page(rel, page);
        new_loader::<K>(100).finish(&index.geometry, K::order(&columns), write);
    }
}

/// Scans, sorts, loads.
unsafe fn build<K: Sortable>(target: BuildTarget, index: Index) -> Scanned {
    // SAFETY: the relations are open and locked. The collector lives in this frame and owns no destructor.
    unsafe {
        let room = pg_sys::maintenance_work_mem as usize * 1024;
        report_phase(PHASE_SCAN);
        let team = Team::call(target, &index);
        let mut collector = Collector::<K>::new(target.rel, room, Files::OWN);
        let scanned = match &team {
            Some(team) => team.work(target, room, &mut collector),
            None => collector.scan(target, None, true),
        };
        report_scanned(scanned.entries);
        let divided = match &team {
            Some(team) => parts::load(team, target, scanned.entries, &mut collector),
            None => false,
        };
        if !divided {
            load(target, &index, &mut collector);
        }
        if let Some(team) = team {
            team.dismiss();
        }
        scanned
    }
}

/// Loads the collected entries in order.
unsafe fn load<K: Sortable>(BuildTarget { heap, rel, info }: BuildTarget, index: &Index, collector: &mut Collector<K>) {
    // SAFETY: the relations are open and locked, and nobody else uses the index's file.
    unsafe {
        let (geometry, columns) = (&index.geometry, &collector.columns);
        let order = K::order(columns);
        let loader = new_loader::<K>(options::fillfactor(rel) as usize);
        let mut file = WholeFile::begin(rel);
        file.write(META, &meta(rel, index));
        let mut watch = (*info).ii_Unique.then(Watch::<K>::new);
        let mut loaded = 0u64;
        collector.sorter.drain(order, |entry| {
            let lives = !entry.tid.dead();
            if let Some(watch) = watch.as_mut().filter(|_| lives)
                && watch.repeats(rel, columns, entry)
            {
                refuse_build(rel, heap, columns, entry);
            }
            if loaded.is_multiple_of(REPORTED) {
                report_loaded(loaded);
            }
            let entry = Entry { tid: entry.tid.alive(), ..*entry };
            loader.add(geometry, order, &entry, &mut file);
            loaded += 1;
        });
        report_loaded(loaded);
        loader.finish(geometry, order, &mut file);
        file.end();
        memory::free(&raw mut *loader);
    }
}

const _: () = assert!(META == 0 && ROOT == 1);
