//! btree's leaf pages, in the format that the server's `access/nbtree.h` describes, read from private copies. Nothing that
//! a page says is believed before it is known to lie within the page.

use core::ffi::c_int;

use fpbtree_engine::format::{Block, PageBytes};
use pgrx::PgSqlErrorCode::ERRCODE_INDEX_CORRUPTED;
use pgrx::pg_sys::{self, BufferAccessStrategy, Datum, ForkNumber::MAIN_FORKNUM, ItemPointerData, Relation};

use crate::pg::errors::{self, Name};
use crate::pg::memory::{allocate, free};
use crate::pg::tid::MOST_OFFSET;
use crate::pg::{ffi, relation};
use crate::values::column;

/// Where the special space begins (`BTPageOpaqueData`), and what is where in it.
const SPECIAL: usize = pg_sys::BLCKSZ as usize - 16;
const LEFT: usize = SPECIAL;
const RIGHT: usize = SPECIAL + 4;
const LEVEL: usize = SPECIAL + 8;
const FLAGS: usize = SPECIAL + 12;

/// `BTP_LEAF`, `BTP_DELETED`, `BTP_META`, `BTP_HALF_DEAD`.
const IS_LEAF: u16 = 1 << 0;
const IS_DELETED: u16 = 1 << 2;
const IS_META: u16 = 1 << 3;
const IS_HALF_DEAD: u16 = 1 << 4;

/// Bytes of a page's header, where line pointers begin, and where in the header it says what is in use.
const PAGE_HEADER: usize = core::mem::offset_of!(pg_sys::PageHeaderData, pd_linp);
const PD_LOWER: usize = core::mem::offset_of!(pg_sys::PageHeaderData, pd_lower);
const PD_UPPER: usize = core::mem::offset_of!(pg_sys::PageHeaderData, pd_upper);
const PD_SPECIAL: usize = core::mem::offset_of!(pg_sys::PageHeaderData, pd_special);
const LINE_POINTER: usize = size_of::<u32>();

/// `IndexTupleData`: a TID, then size and flags. Values begin behind it, or behind the bits that say which are NULL.
const TUPLE_HEADER: usize = size_of::<pg_sys::IndexTupleData>();
const TUPLE_HEADER_WITH_NULLS: usize = 2 * TUPLE_HEADER;
const HAS_NULLS: u16 = pg_sys::INDEX_NULL_MASK as u16;
/// `INDEX_ALT_TID_MASK`: the TID is none, but says what else the tuple has.
const IS_SPECIAL: u16 = 0x2000;
/// `BT_IS_POSTING` in such a TID's offset, whose lower bits are how many TIDs the tuple has; the block is where they begin.
const IS_POSTING: u16 = 0x2000;
const POSTING_COUNT: u16 = 0x0fff;

/// Storage parameters of btree (`BTOptions`), as far as they are of interest.
#[repr(C)]
struct BtreeOptions {
    length: i32,
    fillfactor: c_int,
}

/// The fill factor of an index of btree's, in percent.
///
/// # Safety
/// `rel` is an open index of btree's.
pub(super) unsafe fn fillfactor(rel: Relation) -> usize {
    // SAFETY: null, or what btree made of the parameters.
    let options = unsafe { (*rel).rd_options.cast::<BtreeOptions>().as_ref() };
    // btree's default is ours.
    options.map_or(90, |options| options.fillfactor.clamp(10, 100) as usize)
}

/// What a page is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A leaf, whose entries are of the index.
    Leaf,
    /// A leaf that is being deleted, or was: it has no entries, but it may have a right sibling.
    GoneLeaf,
    /// Something else.
    Other,
}

/// Reads the pages of an index, one at a time.
pub(super) struct Reader {
    rel: Relation,
    strategy: BufferAccessStrategy,
    /// A copy of the page read last, aligned as tuples are.
    page: *mut PageBytes,
    block: Block,
    blocks: Block,
    /// The largest offset that a row of the table has.
    most_offset: u16,
}

impl Reader {
    /// Of an index of btree's on a table.
    ///
    /// # Safety
    /// Both are open and stay so. All calls may raise.
    pub(super) unsafe fn new(heap: Relation, rel: Relation) -> Reader {
        // SAFETY: both are open; the memory is given back at the end, or with its context after an error.
        unsafe {
            let is_heap = (*(*heap).rd_rel).relam == pg_sys::HEAP_TABLE_AM_OID;
            Reader {
                rel,
                strategy: pg_sys::GetAccessStrategy(pg_sys::BufferAccessStrategyType::BAS_BULKREAD),
                page: allocate(pg_sys::CurrentMemoryContext, 1, true),
                block: 0,
                blocks: ffi::RelationGetNumberOfBlocksInFork(rel, MAIN_FORKNUM),
                most_offset: if is_heap { MOST_OFFSET } else { u16::MAX },
            }
        }
    }

    /// Gives memory back.
    pub(super) unsafe fn end(self) {
        // SAFETY: nothing uses it any more.
        unsafe {
            pg_sys::FreeAccessStrategy(self.strategy);
            free(self.page);
        }
    }

    /// How many pages the index's file has.
    pub(super) fn blocks(&self) -> Block {
        self.blocks
    }

    /// Reads a page, which is locked only while it is copied, and says what it is. A page that was never written is
    /// something else, unless another one `leads` to it.
    pub(super) unsafe fn read(&mut self, block: Block, leads: bool) -> Kind {
        errors::check_for_interrupts();
        self.block = block;
        // SAFETY: `rel` is open; the copy has room for a page.
        unsafe {
            if block >= self.blocks {
                // It may have been added since.
                self.blocks = ffi::RelationGetNumberOfBlocksInFork(self.rel, MAIN_FORKNUM);
                self.expect((block < self.blocks).then_some(()), "is linked to, and beyond the end of the file");
            }
            let mode = pg_sys::ReadBufferMode::RBM_NORMAL;
            let buffer = ffi::ReadBufferExtended(self.rel, MAIN_FORKNUM, block, mode, self.strategy);
            ffi::LockBuffer(buffer, ffi::BUFFER_LOCK_SHARE as c_int);
            self.page.cast::<u8>().copy_from_nonoverlapping(relation::page(buffer), size_of::<PageBytes>());
            ffi::UnlockReleaseBuffer(buffer);
        }
        let page = self.page();
        if u16_at(page, PD_UPPER) == 0 && !leads {
            return Kind::Other;
        }
        let (lower, upper) = (u16_at(page, PD_LOWER) as usize, u16_at(page, PD_UPPER) as usize);
        let is_sound = u16_at(page, PD_SPECIAL) as usize == SPECIAL && PAGE_HEADER <= lower && lower <= upper;
        self.expect((is_sound && upper <= SPECIAL).then_some(()), "has a header that no page of btree's has");
        let flags = u16_at(page, FLAGS);
        match u32_at(page, LEVEL) {
            _ if flags & IS_LEAF == 0 || flags & IS_META != 0 => Kind::Other,
            _ if flags & (IS_DELETED | IS_HALF_DEAD) != 0 => Kind::GoneLeaf,
            0 => Kind::Leaf,
            _ => Kind::Other,
        }
    }

    /// The left sibling of the leaf read last, 0 if there is none.
    pub(super) fn left(&self) -> Block {
        u32_at(self.page(), LEFT)
    }

    /// Its right sibling, 0 if there is none.
    pub(super) fn right(&self) -> Block {
        u32_at(self.page(), RIGHT)
    }

    /// The tuples of the leaf read last, but for those that are known to be dead, in order.
    pub(super) fn tuples(&self) -> impl Iterator<Item = BtreeTuple<'_>> {
        let page = self.page();
        let count = (u16_at(page, PD_LOWER) as usize - PAGE_HEADER) / LINE_POINTER;
        // A page with a right sibling has its upper bound for a first item.
        (usize::from(self.right() != 0)..count).filter_map(move |item| {
            let pointer = u32_at(page, PAGE_HEADER + item * LINE_POINTER);
            match pointer >> 15 & 3 {
                pg_sys::LP_DEAD => None,
                pg_sys::LP_NORMAL => {
                    let (begin, length) = (pointer as usize & 0x7fff, pointer as usize >> 17);
                    let bytes = page[..SPECIAL].get(begin..begin + length);
                    let tuple = bytes.filter(|_| begin.is_multiple_of(8)).and_then(BtreeTuple::of);
                    let tuple =
                        tuple.filter(|tuple| tuple.tids().all(|tid| (1..=self.most_offset).contains(&tid.ip_posid)));
                    Some(self.expect(tuple, "has an entry that is none"))
                }
                _ => self.expect(None, "has a line pointer that no leaf has"),
            }
        })
    }

    /// What there is, or an error about the page read last.
    pub(super) fn expect<T>(&self, found: Option<T>, what: &str) -> T {
        found.unwrap_or_else(|| {
            errors::raise(
                ERRCODE_INDEX_CORRUPTED,
                format_args!("index \"{}\" block {} {what}", Name(self.rel), self.block),
                None,
                Some(format_args!("Please REINDEX it.")),
            )
        })
    }

    fn page(&self) -> &PageBytes {
        // SAFETY: a whole page, which nobody writes but `read`.
        unsafe { &*self.page }
    }
}

/// A tuple of a leaf: a key, and the rows that have it.
pub(super) struct BtreeTuple<'p> {
    /// The tuple up to its list of TIDs, if it has one.
    key: &'p [u8],
    /// TIDs, six bytes each.
    tids: &'p [u8],
}

impl<'p> BtreeTuple<'p> {
    /// None if it is none.
    fn of(bytes: &'p [u8]) -> Option<BtreeTuple<'p>> {
        let info = u16::from_le_bytes(*bytes.get(6..8)?.first_chunk()?);
        let bytes = bytes.get(..usize::from(info & pg_sys::INDEX_SIZE_MASK as u16)).filter(|tuple| tuple.len() >= 8)?;
        if info & IS_SPECIAL == 0 {
            return Some(BtreeTuple { key: bytes, tids: &bytes[..size_of::<ItemPointerData>()] });
        }
        let (high, low, offset) = (u16_at(bytes, 0), u16_at(bytes, 2), u16_at(bytes, 4));
        let begin = (usize::from(high) << 16) | usize::from(low);
        let length = usize::from(offset & POSTING_COUNT) * size_of::<ItemPointerData>();
        let is_posting = offset & IS_POSTING != 0 && begin >= TUPLE_HEADER && begin.is_multiple_of(2);
        let tids = bytes.get(begin..begin + length).filter(|tids| is_posting && !tids.is_empty())?;
        Some(BtreeTuple { key: &bytes[..begin], tids })
    }

    /// The TIDs of its rows.
    pub(super) fn tids(&self) -> impl Iterator<Item = ItemPointerData> {
        self.tids.chunks_exact(size_of::<ItemPointerData>()).map(|tid| ItemPointerData {
            ip_blkid: pg_sys::BlockIdData { bi_hi: u16_at(tid, 0), bi_lo: u16_at(tid, 2) },
            ip_posid: u16_at(tid, 4),
        })
    }

    /// The bytes of its values.
    pub(super) fn image(&self) -> &'p [u8] {
        &self.key[TUPLE_HEADER..]
    }

    /// Its values, as many as there is room for: what is passed by reference is where it is. None if they are not as the
    /// columns say.
    ///
    /// # Safety
    /// The descriptor has as many columns.
    pub(super) unsafe fn values(
        &self,
        descriptor: pg_sys::TupleDesc,
        values: &mut [Datum],
        nulls: &mut [bool],
    ) -> Option<()> {
        let has_nulls = u16_at(self.key, 6) & HAS_NULLS != 0;
        let mut at = if has_nulls { TUPLE_HEADER_WITH_NULLS } else { TUPLE_HEADER };
        for (c, (value, is_null)) in values.iter_mut().zip(nulls).enumerate() {
            *is_null = has_nulls && self.key.get(TUPLE_HEADER + c / 8)? >> (c % 8) & 1 == 0;
            if *is_null {
                *value = Datum::null();
                continue;
            }
            // SAFETY: the descriptor has the column.
            let attribute = unsafe { &*column::attribute(descriptor, c) };
            let is_short = attribute.attlen == -1 && *self.key.get(at)? != 0;
            if !is_short {
                at = at.next_multiple_of(column::alignment(attribute.attalign).into());
            }
            let bytes = self.key.get(at..)?;
            let bytes = bytes.get(..length(bytes, attribute.attlen)?)?;
            *value = if attribute.attbyval { by_value(bytes)? } else { Datum::from(bytes.as_ptr()) };
            at += bytes.len();
        }
        Some(())
    }
}

/// Bytes of the value that begins there, by its type's length. None if it can be no value in an index.
fn length(bytes: &[u8], of_type: i16) -> Option<usize> {
    match of_type {
        // The server's lengths: of 1 byte, or of 4, which are of bytes as they are (0) or compressed ones (2). Values out of
        // line are in no index.
        -1 => match *bytes.first()? {
            1 => None,
            short if short & 1 == 1 => Some(usize::from(short >> 1)),
            _ => {
                let header = u32::from_le_bytes(*bytes.first_chunk()?);
                let least = if header & 3 == 0 { 4 } else { 8 };
                Some(header as usize >> 2).filter(|length| *length >= least)
            }
        },
        // A C string.
        ..0 => Some(bytes.iter().position(|&byte| byte == 0)? + 1),
        length => Some(length as usize),
    }
}

/// The datum of a value that is passed as one, as the server fetches it.
fn by_value(bytes: &[u8]) -> Option<Datum> {
    Some(match *bytes {
        [a] => Datum::from(a as i8),
        [a, b] => Datum::from(i16::from_le_bytes([a, b])),
        [a, b, c, d] => Datum::from(i32::from_le_bytes([a, b, c, d])),
        _ => Datum::from(i64::from_le_bytes(bytes.try_into().ok()?)),
    })
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
