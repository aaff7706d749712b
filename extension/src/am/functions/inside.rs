//! `fpbtree_page` and `fpbtree_entries`: what is in a page.

use core::ffi::{c_char, c_int};

use fpbtree_engine::format::{Block, Error, MAX_PAGE_NODES, META, PageBytes, ROOT, Tid, is_link};
use fpbtree_engine::page::{Description, Listed, NodeDescription, Page, Side, Sight, look};
use fpbtree_engine::store::PageStore;
use pgrx::PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE;
use pgrx::pg_guard;
use pgrx::pg_sys::{self, Datum, FunctionCallInfo, ItemPointerData, Oid, Relation};

use super::opened::{OpenedIndex, Privilege};
use super::result::{ResultRows, argument, float, text, version_1};
use super::shown::{Shower, put_bytes};
use crate::pg::errors::Name;
use crate::pg::memory::child_context;
use crate::pg::text::GrowingText;
use crate::pg::tid::heap_tid;
use crate::pg::{errors, ffi};
use crate::storage::buffers::PgStore;
use crate::storage::index::Index;
use crate::storage::tree::tree;
use crate::values::keys::{Keyed, with_keys};

version_1!(pg_finfo_fpbtree_page_wrapper);
version_1!(pg_finfo_fpbtree_entries_wrapper);

/// `fpbtree_page(index, block)`: one row on a page.
///
/// # Safety
/// Called by the server.
#[unsafe(no_mangle)]
#[pg_guard]
pub unsafe extern "C-unwind" fn fpbtree_page_wrapper(call: FunctionCallInfo) -> Datum {
    // SAFETY: called by the server, as the install script declares.
    unsafe {
        let rows = ResultRows::new(call);
        let opened = open(call);
        let index = Index::of(opened.index);
        with_keys!(index.kind, K => {
            let copy = Copied::<K>::new(opened.index, &index, argument(call, 1));
            rows.add_some(page_row(&copy, copy.look()));
        });
        opened.close();
        Datum::from(0)
    }
}

/// `fpbtree_entries(index, block)`: a row for each entry of a page.
///
/// # Safety
/// Called by the server.
#[unsafe(no_mangle)]
#[pg_guard]
pub unsafe extern "C-unwind" fn fpbtree_entries_wrapper(call: FunctionCallInfo) -> Datum {
    // SAFETY: called by the server, as the install script declares.
    unsafe {
        let rows = ResultRows::new(call);
        let opened = open(call);
        let index = Index::of(opened.index);
        with_keys!(index.kind, K => {
            let copy = Copied::<K>::new(opened.index, &index, argument(call, 1));
            match copy.look() {
                Sight::Meta(_) => refuse_meta(opened.index),
                Sight::New | Sight::Deleted(_) => {}
                Sight::Live(page) => entry_rows(&copy, &page, &rows),
            }
        });
        opened.close();
        Datum::from(0)
    }
}

/// Opens the index that a function's first argument names, for its owner: pages show what is in the table.
pub(super) unsafe fn open(call: FunctionCallInfo) -> OpenedIndex {
    // SAFETY: called by the server, with the index as the first argument.
    unsafe {
        let index = Oid::from(argument(call, 0).value() as u32);
        OpenedIndex::new(index, pg_sys::AccessShareLock, Privilege::Own)
    }
}

/// A copy of a page, to be looked at while nothing is locked or pinned.
pub(super) struct Copied<'i, K: Keyed> {
    pub rel: Relation,
    pub index: &'i Index,
    pub columns: K::Columns,
    pub block: Block,
    store: PgStore,
    bytes: PageBytes,
}

impl<'i, K: Keyed> Copied<'i, K> {
    /// Copies a block under a share lock. One that the index does not have is refused.
    ///
    /// # Safety
    /// `rel` is an open index of ours, which is of the key space, and stays open. May raise.
    pub unsafe fn new(rel: Relation, index: &'i Index, block: Datum) -> Self {
        // SAFETY: the caller's.
        unsafe {
            let (store, columns) = (PgStore::new(rel, core::ptr::null_mut()), Index::columns::<K>(rel));
            let (block, blocks) = (block.value() as i64, store.block_count());
            let Some(block) = Block::try_from(block).ok().filter(|block| *block < blocks) else {
                refuse_block(rel, block, blocks);
            };
            let bytes = store.expect(tree::<K>(&store, index, &columns).copy(block));
            Copied { rel, index, columns, block, store, bytes }
        }
    }

    /// Raises what is wrong with the page.
    #[cold]
    pub fn fail(&self, what: &'static str) -> ! {
        self.store.fail(Error::Corrupt { block: self.block, what })
    }

    /// What the page is. One that is damaged is an error.
    pub fn look(&self) -> Sight<'_, K> {
        let (ranks, order) = (K::ranks(&self.columns), K::order(&self.columns));
        self.store.expect(look::<K>(&self.bytes, &self.index.geometry, self.block, ranks, order))
    }
}

#[cold]
fn refuse_block(rel: Relation, block: i64, blocks: Block) -> ! {
    errors::raise(
        ERRCODE_INVALID_PARAMETER_VALUE,
        format_args!("block number {block} is out of range for index \"{}\"", Name(rel)),
        None,
        Some(format_args!("Its blocks are 0 to {}.", i64::from(blocks) - 1)),
    )
}

#[cold]
fn refuse_meta(rel: Relation) -> ! {
    errors::raise(
        ERRCODE_INVALID_PARAMETER_VALUE,
        format_args!("block {META} of index \"{}\" is its meta page, which has no entries", Name(rel)),
        None,
        Some(format_args!("The root is block {ROOT}.")),
    )
}

/// Columns of `fpbtree_page`.
const PAGE_COLUMNS: usize = 15;

unsafe fn page_row<K: Keyed>(copy: &Copied<'_, K>, sight: Sight<'_, K>) -> [Option<Datum>; PAGE_COLUMNS] {
    let mut row = [None; PAGE_COLUMNS];
    // SAFETY: texts that the server copies.
    unsafe {
        match sight {
            Sight::Live(page) => return live_row(copy, &page),
            Sight::New => row[0] = Some(text(format_args!("new"))),
            Sight::Meta(_) => row[0] = Some(text(format_args!("meta"))),
            Sight::Deleted(level) => {
                row[0] = Some(text(format_args!("deleted")));
                row[1] = Some(Datum::from(i32::from(level)));
            }
        }
    }
    row
}

/// The row of a page of the tree.
unsafe fn live_row<K: Keyed>(copy: &Copied<'_, K>, page: &Page<'_, K>) -> [Option<Datum>; PAGE_COLUMNS] {
    let about = page.describe();
    let number = |number: usize| Some(Datum::from(number as i32));
    let sibling = |block: Block| is_link(block).then(|| Datum::from(i64::from(block)));
    // SAFETY: the columns the install script declares, in order; no frame here owns a destructor.
    unsafe {
        let mut shower = Shower::<K>::new(copy.rel, copy.columns.clone());
        let mut fence = |side| shower.fence(page, side).map(|text| text.to_datum());
        [
            Some(text(format_args!("{}", if about.level == 0 { "leaf" } else { "inner" }))),
            Some(Datum::from(i32::from(about.level))),
            number(about.entries()),
            number(about.dead()),
            number(about.nodes.len()),
            number(about.free()),
            Some(float(about.fill())),
            number(about.lane),
            Some(numbers(&about, |node| node.lane)),
            Some(numbers(&about, |node| if node.child > 0 { node.child } else { node.tid })),
            sibling(about.left),
            sibling(about.right),
            fence(Side::Low),
            fence(Side::High),
            Some(flags(copy.block, about.is_incomplete)),
        ]
    }
}

/// A value of type int4[]: a number of each node.
unsafe fn numbers(page: &Description, number: impl Fn(&NodeDescription) -> usize) -> Datum {
    let mut values = [Datum::null(); MAX_PAGE_NODES];
    values.iter_mut().zip(&page.nodes).for_each(|(value, node)| *value = Datum::from(number(node) as i32));
    let (count, align) = (page.nodes.len() as c_int, pg_sys::TYPALIGN_INT as c_char);
    // SAFETY: as many values of the type.
    unsafe { Datum::from(ffi::construct_array(values.as_mut_ptr(), count, pg_sys::INT4OID, 4, true, align)) }
}

/// What else there is to be said of a page, as text[].
unsafe fn flags(block: Block, is_incomplete: bool) -> Datum {
    let (mut values, mut count) = ([Datum::null(); 2], 0);
    let names = [(block == ROOT, "root"), (is_incomplete, "split not finished")];
    for (_, name) in names.into_iter().filter(|(applies, _)| *applies) {
        // SAFETY: copied by the server.
        values[count] = unsafe { text(format_args!("{name}")) };
        count += 1;
    }
    let align = pg_sys::TYPALIGN_INT as c_char;
    // SAFETY: as many texts.
    unsafe { Datum::from(ffi::construct_array(values.as_mut_ptr(), count as c_int, pg_sys::TEXTOID, -1, false, align)) }
}

/// A row for each entry.
unsafe fn entry_rows<K: Keyed>(copy: &Copied<'_, K>, page: &Page<'_, K>, rows: &ResultRows) {
    // SAFETY: what is made of a row is copied before its memory is used again; after an error the server gives it back.
    unsafe {
        let mut shower = Shower::<K>::new(copy.rel, copy.columns.clone());
        let caller = pg_sys::CurrentMemoryContext;
        let context = child_context(caller, c"fpbtree entries");
        for (number, listed) in page.listing().enumerate() {
            errors::check_for_interrupts();
            pg_sys::CurrentMemoryContext = context;
            rows.add_some(entry_row(copy, page.level(), &mut shower, number, &listed));
            pg_sys::CurrentMemoryContext = caller;
            ffi::MemoryContextReset(context);
        }
        ffi::MemoryContextDelete(context);
    }
}

unsafe fn entry_row<K: Keyed>(
    copy: &Copied<'_, K>,
    level: u8,
    shower: &mut Shower<K>,
    number: usize,
    listed: &Listed<'_, K>,
) -> [Option<Datum>; 8] {
    let (entry, is_leaf) = (&listed.entry, level == 0);
    // SAFETY: the columns the install script declares, in order; no frame here owns a destructor.
    unsafe {
        let values = match is_leaf {
            true => shower.entry(entry).unwrap_or_else(|| copy.fail("entry's key is damaged")),
            false => shower.separator(entry),
        };
        let mut data = GrowingText::new();
        let _ = put_bytes(entry, &mut data);
        let has_tid = is_leaf || entry.tid.position() != Tid::MIN;
        [
            Some(Datum::from(number as i32 + 1)),
            Some(Datum::from(listed.node as i32 + 1)),
            has_tid.then(|| tid(entry.tid)),
            (!is_leaf).then(|| Datum::from(i64::from(entry.child))),
            Some(Datum::from(is_leaf && entry.tid.dead())),
            values.to_array(),
            Some(Datum::from(listed.bytes as i32)),
            Some(data.to_datum()),
        ]
    }
}

/// A value of type tid.
unsafe fn tid(tid: Tid) -> Datum {
    // SAFETY: memory of the server's, for a TID.
    unsafe {
        let memory = ffi::palloc(size_of::<ItemPointerData>()).cast::<ItemPointerData>();
        memory.write(heap_tid(tid));
        Datum::from(memory)
    }
}
