//! The state of a scan: plain memory, as it is kept between two calls.

use fpbtree_engine::cache::hot_keys::HotKey;
use fpbtree_engine::format::{Block, LaneKind, MAX_PAGE_ENTRIES, Tid};
use fpbtree_engine::scan::{Cursor, Matches, Rounds};
use fpbtree_engine::store::Pinned;
use pgrx::pg_sys::{self, Buffer, IndexScanDesc};

use super::ahead::Ahead;
use super::conditions::Searched;
use super::lines::MOST_TOUCHED;
use crate::pg::loan::{Lender, Loan};
use crate::pg::relation::INVALID_BUFFER;
use crate::storage::buffers::PgStore;
use crate::storage::index::Index;

/// How many matches ahead of the one that is returned a row's page is looked up.
pub(super) const PAGE_AHEAD: usize = 8;

/// A scan's own state, lent until the scan ends or the memory context goes that it was begun in (I11). No destructor.
#[repr(C)]
pub(super) struct ScanState<K: Searched> {
    /// First, so that a state can be told by it.
    pub kind: LaneKind,
    /// Blocks the table is known to have; it only grows while the scan goes on.
    pub heap_blocks: Block,
    /// The state's own memory.
    pub loan: *mut Loan<ScanState<K>>,
    /// The context that the scan was begun in, for what belongs to it.
    pub context: pg_sys::MemoryContext,
    pub index: Index,
    pub columns: K::Columns,
    pub store: PgStore,
    /// What is looked for; it borrows from `columns`.
    pub conditions: K::Conditions,
    pub cursor: Cursor<K>,
    /// How often the server had had to read a page when the scan last looked, to notice that a row's block was not
    /// there.
    pub misses: i64,
    /// Whether keys are wanted besides tuples.
    pub wants_keys: bool,
    /// Whether a leaf has been read since the scan began.
    pub has_read: bool,
    /// Whether heap blocks are being asked for ahead.
    pub looks_ahead: bool,
    /// Null until something has to be read.
    pub ahead: *mut Ahead<K>,
    /// Rows that are in memory.
    pub lines: HeapLines,
    /// Rows of hot keys.
    pub hot: HotLookup,
    /// Whether `matches` holds a page and `at` a place in it. If not, the next call begins at an end.
    pub positioned: bool,
    pub at: usize,
    /// How many of the matches, from the first on, are known to be of rows that the snapshot sees, if rows are taken by the
    /// page.
    pub seen: usize,
    /// The rows behind whose groups the scan went on.
    pub groups: Rounds<Tid>,
    /// The page of the matches, and its pin if that is kept.
    pub block: Block,
    pub pin: Option<Pinned<PgStore>>,
    pub mark: MarkedPlace<K>,
    /// How many of `killed` there are.
    pub killed_count: usize,
    /// Matches that the server said are dead to everyone: where their flags are.
    pub killed: [u16; MAX_PAGE_ENTRIES],
    pub matches: Matches<K>,
}

/// A place to come back to.
pub(super) struct MarkedPlace<K: Searched> {
    /// Whether there is one.
    pub set: bool,
    /// Whether it is in the page that the scan is at, or in the copy.
    pub here: bool,
    pub at: usize,
    pub seen: usize,
    pub cursor: Cursor<K>,
    pub block: Block,
    pub pin: Option<Pinned<PgStore>>,
    /// Made when the scan first leaves a page with a mark.
    pub copy: *mut Matches<K>,
}

/// The pages of coming rows.
pub(super) struct HeapLines {
    /// Whether they are looked up; unknown until the scan has come to some rows.
    pub are_fetched: Option<bool>,
    /// Where those looked up last are, by the number of the match and round.
    pub buffers: [Buffer; MOST_TOUCHED],
}

impl HeapLines {
    /// None, and nothing is known.
    fn new() -> HeapLines {
        HeapLines { are_fetched: None, buffers: [INVALID_BUFFER; MOST_TOUCHED] }
    }
}

/// What a scan has to do with the cache of hot keys.
pub(super) struct HotLookup {
    /// What the index is known by there, or that the scan may not use it. Unknown until it would.
    pub owner: Option<Option<u64>>,
    /// Whether the cache was asked last time.
    pub is_asked: bool,
    pub stage: Stage,
}

/// How far a lookup of a single key has come.
#[derive(Clone, Copy)]
pub(super) enum Stage {
    /// Nothing.
    None,
    /// The key that is looked up was not found there.
    Missed(HotKey),
    /// It was, and is kept there now.
    Admission(HotKey),
    /// The matches are this key's, from there.
    Lookup(HotKey),
}

impl HotLookup {
    /// Nothing yet.
    fn new() -> HotLookup {
        HotLookup { owner: None, is_asked: false, stage: Stage::None }
    }
}

/// Begins a scan: its state is all the server keeps of it.
///
/// # Safety
/// The scan's index is open; the current memory context outlives the scan. May raise.
pub(super) unsafe fn begin<K: Searched>(scan: IndexScanDesc, index: Index) {
    // SAFETY: every field is written, but for places whose number says that there are none.
    unsafe {
        let (context, rel) = (pg_sys::CurrentMemoryContext, (*scan).indexRelation);
        let loan = Lender::lend(K::lender(), context);
        let state = Loan::value(loan);
        (&raw mut (*state).kind).write(index.kind);
        (&raw mut (*state).heap_blocks).write(0);
        (&raw mut (*state).loan).write(loan);
        (&raw mut (*state).context).write(context);
        (&raw mut (*state).index).write(index);
        (&raw mut (*state).columns).write(Index::columns::<K>(rel));
        (&raw mut (*state).store).write(PgStore::new(rel, core::ptr::null_mut()));
        // The state does not move, and its columns do not change.
        let columns: &'static K::Columns = &(*state).columns;
        K::begin(&raw mut (*state).conditions, columns, (*loan).small, context);
        Cursor::init(&raw mut (*state).cursor);
        (&raw mut (*state).misses).write(0);
        (&raw mut (*state).wants_keys).write(false);
        (&raw mut (*state).has_read).write(false);
        (&raw mut (*state).looks_ahead).write(false);
        (&raw mut (*state).ahead).write(core::ptr::null_mut());
        (&raw mut (*state).lines).write(HeapLines::new());
        (&raw mut (*state).hot).write(HotLookup::new());
        (&raw mut (*state).positioned).write(false);
        (&raw mut (*state).at).write(0);
        (&raw mut (*state).seen).write(0);
        (&raw mut (*state).groups).write(Rounds::BEGIN);
        (&raw mut (*state).block).write(0);
        (&raw mut (*state).pin).write(None);
        MarkedPlace::init(&raw mut (*state).mark);
        (&raw mut (*state).killed_count).write(0);
        Matches::init(&raw mut (*state).matches);
        (*scan).opaque = state.cast();
    }
}

impl<K: Searched> MarkedPlace<K> {
    /// None, in memory that holds anything.
    unsafe fn init(mark: *mut Self) {
        // SAFETY: every field is written; the memory is the scan's state.
        unsafe {
            (&raw mut (*mark).set).write(false);
            (&raw mut (*mark).here).write(false);
            (&raw mut (*mark).at).write(0);
            (&raw mut (*mark).seen).write(0);
            Cursor::init(&raw mut (*mark).cursor);
            (&raw mut (*mark).block).write(0);
            (&raw mut (*mark).pin).write(None);
            (&raw mut (*mark).copy).write(core::ptr::null_mut());
        }
    }
}
