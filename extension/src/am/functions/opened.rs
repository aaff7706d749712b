//! The index that a function is asked about: found, looked at, locked.

use core::ffi::c_int;

use pgrx::PgSqlErrorCode::{
    ERRCODE_FEATURE_NOT_SUPPORTED, ERRCODE_INSUFFICIENT_PRIVILEGE, ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
    ERRCODE_UNDEFINED_OBJECT, ERRCODE_WRONG_OBJECT_TYPE,
};
use pgrx::pg_sys::{self, IndexInfo, LOCKMODE, Oid, Relation};

use crate::am::{batch, build};
use crate::pg::errors::Name;
use crate::pg::{errors, ffi};

/// Who may ask.
pub(super) enum Privilege {
    /// The index's owner and superusers.
    Own,
    /// Whoever may read the table.
    Read,
}

/// Whose index may be asked about.
#[derive(Clone, Copy)]
enum Method {
    Ours,
    Btree,
}

/// An index opened for one of the functions, and its table. Until it is closed the owner's code runs as the owner.
pub(super) struct OpenedIndex {
    pub heap: Relation,
    pub index: Relation,
    lock: LOCKMODE,
    caller: Caller,
}

impl OpenedIndex {
    /// Opens an index of ours, or raises what is wrong with the argument.
    pub(super) unsafe fn new(index: Oid, lock: u32, privilege: Privilege) -> OpenedIndex {
        // SAFETY: catalog lookups and locks, as amcheck takes them.
        unsafe { Self::open(index, lock, privilege, Method::Ours) }.unwrap_or_else(|| gone(index))
    }

    /// Opens an index of btree's to be read, or raises what is wrong with the argument. None if there is no such index any
    /// more: who asks about many may not have been the only one at work.
    pub(super) unsafe fn of_btree(index: Oid, privilege: Privilege) -> Option<OpenedIndex> {
        // SAFETY: catalog lookups and locks, as amcheck takes them.
        unsafe { Self::open(index, pg_sys::AccessShareLock, privilege, Method::Btree) }
    }

    /// Opens an index, table first. The caller's privilege is looked at before a lock is waited for that others would then
    /// wait behind.
    unsafe fn open(index: Oid, lock: u32, privilege: Privilege, method: Method) -> Option<OpenedIndex> {
        let lock = lock as LOCKMODE;
        // SAFETY: catalog lookups and locks, as amcheck takes them.
        unsafe {
            let rel = method.open(index, pg_sys::AccessShareLock as LOCKMODE)?;
            let heap = (*(*rel).rd_index).indrelid;
            check_privilege(&privilege, rel);
            ffi::relation_close(rel, pg_sys::AccessShareLock as LOCKMODE);
            let table = ffi::try_relation_open(heap, lock);
            if table.is_null() {
                return None;
            }
            let rel = match method.open(index, lock) {
                Some(rel) if (*(*rel).rd_index).indrelid == heap => rel,
                other => {
                    other.into_iter().for_each(|rel| ffi::relation_close(rel, lock));
                    ffi::relation_close(table, lock);
                    return None;
                }
            };
            check_privilege(&privilege, rel);
            check_usable(rel);
            if let Method::Ours = method {
                batch::insert_what_is_seen(rel, core::ptr::null_mut());
            }
            Some(OpenedIndex { heap: table, index: rel, lock, caller: Caller::become_owner(table) })
        }
    }

    pub(super) unsafe fn close(self) {
        // SAFETY: opened by the constructor.
        unsafe {
            self.caller.restore();
            ffi::relation_close(self.index, self.lock);
            ffi::table_close(self.heap, self.lock);
        }
    }
}

/// Raises unless this is an index of ours.
pub(super) unsafe fn check_ours(index: Oid) {
    let lock = pg_sys::AccessShareLock as LOCKMODE;
    // SAFETY: catalog lookups and a lock.
    unsafe {
        let rel = Method::Ours.open(index, lock).unwrap_or_else(|| gone(index));
        ffi::relation_close(rel, lock);
    }
}

/// Whether a relation is an index of ours.
///
/// # Safety
/// It is open.
pub unsafe fn is_ours(rel: Relation) -> bool {
    // SAFETY: an open index of any method, or another relation, which has no method's routine or one for tables.
    unsafe {
        (*(*rel).rd_rel).relkind as u8 == pg_sys::RELKIND_INDEX && (*rel).rd_indam.as_ref().is_some_and(is_our_method)
    }
}

/// Whether what an access method can do is what ours can.
pub(super) fn is_our_method(routine: &pg_sys::IndexAmRoutine) -> bool {
    routine.ambuild.is_some_and(|ambuild| core::ptr::fn_addr_eq(ambuild, build::ambuild as AmBuild))
}

type AmBuild = unsafe extern "C-unwind" fn(Relation, Relation, *mut IndexInfo) -> *mut pg_sys::IndexBuildResult;

impl Method {
    /// Opens an index of the method; None if there is none.
    unsafe fn open(self, index: Oid, lock: LOCKMODE) -> Option<Relation> {
        // SAFETY: catalog lookups and a lock.
        unsafe {
            let rel = ffi::try_relation_open(index, lock);
            if rel.is_null() {
                return None;
            }
            let (is_of_it, name) = match self {
                Method::Ours => (is_ours(rel), "an fpbtree"),
                Method::Btree => (is_btree(rel), "a btree"),
            };
            if !is_of_it {
                refuse_method(rel, name);
            }
            Some(rel)
        }
    }
}

/// Whether a relation is an index of btree's.
///
/// # Safety
/// It is open.
pub(super) unsafe fn is_btree(rel: Relation) -> bool {
    // SAFETY: an open relation.
    unsafe { (*(*rel).rd_rel).relkind as u8 == pg_sys::RELKIND_INDEX && (*(*rel).rd_rel).relam == pg_sys::BTREE_AM_OID }
}

/// Raises that there is no such relation.
pub(super) fn gone(oid: Oid) -> ! {
    errors::raise(ERRCODE_UNDEFINED_OBJECT, format_args!("there is no relation with OID {}", oid.to_u32()), None, None)
}

unsafe fn refuse_method(rel: Relation, name: &str) -> ! {
    // SAFETY: an open relation.
    let is_partitioned = unsafe { (*(*rel).rd_rel).relkind as u8 == pg_sys::RELKIND_PARTITIONED_INDEX };
    if is_partitioned {
        errors::raise(
            ERRCODE_WRONG_OBJECT_TYPE,
            format_args!("\"{}\" is a partitioned index", Name(rel)),
            Some(format_args!("It has no pages of its own.")),
            Some(format_args!("Ask about the indexes of its partitions: see pg_partition_tree().")),
        );
    }
    errors::raise(ERRCODE_WRONG_OBJECT_TYPE, format_args!("\"{}\" is not {name} index", Name(rel)), None, None)
}

unsafe fn check_privilege(privilege: &Privilege, index: Relation) {
    // SAFETY: catalog lookups.
    unsafe {
        let (user, table) = (pg_sys::GetUserId(), (*(*index).rd_index).indrelid);
        match privilege {
            Privilege::Own => check_owner(index),
            Privilege::Read if !may_read(table, user) => errors::raise(
                ERRCODE_INSUFFICIENT_PRIVILEGE,
                format_args!("permission denied for the table of index {}", Name(index)),
                None,
                None,
            ),
            _ => {}
        }
    }
}

/// Raises unless the caller owns an index.
///
/// # Safety
/// It is open.
pub(super) unsafe fn check_owner(index: Relation) {
    // SAFETY: catalog lookups.
    if unsafe { !owns((*index).rd_id, pg_sys::GetUserId()) } {
        errors::raise(
            ERRCODE_INSUFFICIENT_PRIVILEGE,
            format_args!("must be owner of index {}", Name(index)),
            None,
            None,
        );
    }
}

/// Whether a user has the rights of a relation's owner.
///
/// # Safety
/// May raise.
pub(super) unsafe fn owns(relation: Oid, user: Oid) -> bool {
    // SAFETY: a catalog lookup.
    unsafe {
        #[cfg(feature = "pg15")]
        return pg_sys::pg_class_ownercheck(relation, user);
        #[cfg(not(feature = "pg15"))]
        return pg_sys::object_ownercheck(pg_sys::RelationRelationId, relation, user);
    }
}

unsafe fn may_read(table: Oid, user: Oid) -> bool {
    // SAFETY: a catalog lookup.
    unsafe {
        pg_sys::pg_class_aclcheck(table, user, pg_sys::ACL_SELECT as pg_sys::AclMode) == pg_sys::AclResult::ACLCHECK_OK
    }
}

unsafe fn check_usable(rel: Relation) {
    // SAFETY: an open index.
    unsafe {
        let is_temporary = (*(*rel).rd_rel).relpersistence as u8 == pg_sys::RELPERSISTENCE_TEMP;
        if is_temporary && !(*rel).rd_islocaltemp {
            errors::raise(
                ERRCODE_FEATURE_NOT_SUPPORTED,
                format_args!("cannot access temporary indexes of other sessions"),
                Some(format_args!("Index \"{}\" belongs to another session.", Name(rel))),
                None,
            );
        }
        if !(*(*rel).rd_index).indisvalid {
            errors::raise(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format_args!("index \"{}\" is not valid", Name(rel)),
                None,
                Some(format_args!("Build it again with REINDEX, or drop it.")),
            );
        }
    }
}

/// Who called, while the code of comparison functions, index expressions and predicates runs as the table's owner: it
/// is the owner's code, and could do whatever the caller may.
pub(super) struct Caller {
    user: Oid,
    context: c_int,
    settings: c_int,
}

impl Caller {
    /// Goes on as the table's owner, who can change no setting for good. An error restores the caller by itself.
    pub(super) unsafe fn become_owner(table: Relation) -> Caller {
        let (mut user, mut context) = (Oid::INVALID, 0);
        // SAFETY: as amcheck and REINDEX do.
        unsafe {
            ffi::GetUserIdAndSecContext(&mut user, &mut context);
            let restricted = context | pg_sys::SECURITY_RESTRICTED_OPERATION as c_int;
            ffi::SetUserIdAndSecContext((*(*table).rd_rel).relowner, restricted);
            let settings = ffi::NewGUCNestLevel();
            #[cfg(not(any(feature = "pg15", feature = "pg16")))]
            ffi::RestrictSearchPath();
            Caller { user, context, settings }
        }
    }

    pub(super) unsafe fn restore(self) {
        // SAFETY: the user and the nesting level are those that `become_owner` found.
        unsafe {
            ffi::AtEOXact_GUC(false, self.settings);
            ffi::SetUserIdAndSecContext(self.user, self.context);
        }
    }
}
