//! Pages of keys that are byte strings: lanes are the bytes after what all keys of the page begin with, and what does
//! not fit there lies in *cells* at the page's end, which grow towards the in-page tree.

use super::arrange::Arrangement;
use super::frame::{Frame, Item};
use super::*;
use crate::keys::bytes::{BytesKey, BytesOrder, HEAD, MOST_PARTS, OwnedKey, Stored, front_order};

mod cells;
mod splits;

pub use cells::KeyCopies;
pub(super) use cells::{Mover, live_cells, put_cell, stored_length};
use cells::{cell, checked_cell};
pub(super) use splits::keep_first;
use splits::set_separator;

/// Bytes of a mark.
const MARK: usize = size_of::<Mark>();

/// The key space of byte strings.
#[derive(Clone, Copy, Debug)]
pub struct Bytes;

/// Where the fences of such a page are described, in its second line.
mod bytes_at {
    use super::{CELL, Tid};

    /// How many bytes of the low fence all keys begin with.
    pub const PREFIX: usize = 64;
    pub const LOW: usize = 66;
    pub const HIGH: usize = LOW + CELL + Tid::SIZE;
    pub const END: usize = HIGH + CELL + Tid::SIZE;
}

/// A fence: a key cut short, or a whole one with its TID.
#[derive(Clone, Copy, Debug)]
pub struct BytesFence<'a> {
    /// The key.
    pub key: Stored<'a>,
    /// What breaks its ties.
    pub tid: Tid,
}

impl<'a> BytesFence<'a> {
    /// One that is in one piece.
    pub(super) fn whole(normal: &'a [u8], value: &'a [u8], tid: Tid) -> Self {
        BytesFence { key: Stored::whole(normal, value), tid }
    }
}

/// How many bytes all keys of a page begin with.
pub(super) fn prefix_length(bytes: &PageBytes, layout: &Layout) -> usize {
    Page::<Bytes> { bytes, layout, keys: PhantomData }.prefix().len()
}

impl<'a> Page<'a, Bytes> {
    /// What all keys of the page begin with.
    #[inline]
    fn prefix(&self) -> &'a [u8] {
        let (low, _) = cell(self.bytes, self.layout, read_u16(self.bytes, bytes_at::LOW));
        &low[..(read_u16(self.bytes, bytes_at::PREFIX) as usize).min(low.len())]
    }

    /// The cell of an equal entry beside `place`, of one in the same node rather than in the next.
    fn shared_cell(&self, place: Position, lane: u64, suffix: &[u8], payload: &[u8]) -> Option<u16> {
        let (behind, before) = (Some(self.settle(place)), self.previous(place));
        let beside = if behind == Some(place) { [behind, before] } else { [before, behind] };
        beside.into_iter().flatten().filter(|at| self.entry(*at).is_some()).find_map(|at| {
            let node = self.node(at.node as usize);
            let (found, cell_at) = (node.lane(at.slot as usize), node.cell(at.slot as usize));
            let same = found == lane && cell(self.bytes, self.layout, cell_at) == (suffix, payload);
            (same && cell_at != 0).then_some(cell_at)
        })
    }

    /// What an entry from outside has in this page: its lane, and the rest of its key.
    fn split_key<'e>(&self, entry: &Entry<'e, Bytes>) -> (u64, &'e [u8]) {
        let (normal, skip) = (entry.key.prefix, self.prefix().len());
        let behind = normal.get(skip + HEAD..).unwrap_or(&[]);
        let end = behind.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        (lane_at(normal, skip, 0), &behind[..end])
    }
}

/// The lane of a key whose first `skip` bytes go without saying; bytes that it does not have are `filler`.
#[inline]
fn lane_at(normal: &[u8], skip: usize, filler: u8) -> u64 {
    let behind = normal.get(skip..).unwrap_or(&[]);
    if let Some(head) = behind.first_chunk::<HEAD>() {
        return u64::from_be_bytes(*head);
    }
    let mut head = [filler; HEAD];
    head[..behind.len()].copy_from_slice(behind);
    u64::from_be_bytes(head)
}

/// The hint of the first opaque column's value at the front of `value`, as far as it belongs to a mark, which begins
/// with so many bytes of a normal part.
#[inline]
fn hint_behind(normal: usize, value: &[u8], order: Option<BytesOrder<'_>>) -> Mark {
    match order {
        Some(order) if normal < MARK => order.long_hint(value) >> (8 * normal),
        _ => 0,
    }
}

impl Bytes {
    /// How many of an entry's payload bytes belong to its key.
    fn value_length(entry: &Entry<'_, Bytes>, level: u8, order: Option<BytesOrder<'_>>) -> Option<usize> {
        match order {
            None => Some(0),
            Some(_) if level > 0 => Some(entry.key.payload.len()),
            Some(order) => order.shape.value_length(entry.key.payload),
        }
    }

    /// Keeps the fence between two leaf entries of a new index, where the page left of it is counted on to have a
    /// prefix of `prefix` bytes.
    pub(crate) fn keep_load_fence(
        fence: &mut OwnedKey,
        last: &Entry<'_, Bytes>,
        first: &Entry<'_, Bytes>,
        prefix: usize,
        order: Option<BytesOrder<'_>>,
    ) {
        let common = last.key.common(&first.key);
        if common < prefix {
            return fence.raise_front(&last.key, prefix);
        }
        set_separator(fence, last, first, 0, order);
    }
}

impl Keys for Bytes {
    type Lane = u64;
    type Order<'o> = Option<BytesOrder<'o>>;
    type Key<'k> = BytesKey<'k>;
    type Stored<'a> = Stored<'a>;
    type Fence<'a> = BytesFence<'a>;
    type OwnedKey = OwnedKey;
    const FIRST: OwnedKey = OwnedKey::FIRST;
    const LAST: OwnedKey = OwnedKey::LAST;

    #[inline(always)]
    fn fresh() -> OwnedKey {
        OwnedKey::new()
    }

    #[inline(always)]
    unsafe fn init(place: *mut OwnedKey) {
        // SAFETY: the memory may be written.
        unsafe { OwnedKey::init(place) };
    }

    fn first() -> &'static OwnedKey {
        static FIRST: OwnedKey = OwnedKey::FIRST;
        &FIRST
    }

    fn last() -> &'static OwnedKey {
        static LAST: OwnedKey = OwnedKey::LAST;
        &LAST
    }

    fn is_kind(kind: LaneKind) -> bool {
        kind.is_prefix()
    }

    #[inline]
    fn borrow<'k, 'o: 'k>(kept: &'k OwnedKey, order: Option<BytesOrder<'o>>) -> BytesKey<'k> {
        kept.key(order)
    }

    fn fence_of(kept: &OwnedKey) -> BytesFence<'_> {
        BytesFence { key: kept.stored(), tid: kept.tid() }
    }

    #[inline]
    fn fence_at<'f, 'e: 'f>(inner: &Entry<'e, Bytes>) -> BytesFence<'f> {
        BytesFence { key: inner.key, tid: inner.tid.position() }
    }

    fn downlink(kept: &OwnedKey, child: Block) -> Entry<'_, Bytes> {
        Entry { key: kept.stored(), tid: kept.tid(), child }
    }

    #[inline]
    fn copy(into: &mut OwnedKey, from: &OwnedKey) {
        into.assign(from);
    }

    #[inline]
    fn set_to_fence(into: &mut OwnedKey, fence: BytesFence<'_>) {
        into.keep(&fence.key, fence.key.payload.len(), fence.tid);
    }

    fn set_to_key(into: &mut OwnedKey, entry: &Entry<'_, Bytes>, order: Option<BytesOrder<'_>>) -> Option<()> {
        let level = u8::from(entry.child != NO_BLOCK);
        into.keep(&entry.key, Bytes::value_length(entry, level, order)?, entry.tid);
        Some(())
    }

    fn key_of<'k, 'e: 'k, 'o: 'k>(entry: &Entry<'e, Bytes>, order: Option<BytesOrder<'o>>) -> BytesKey<'k> {
        let value = if order.is_some() { entry.key.payload } else { &[] };
        BytesKey { normal: entry.key.prefix, value, above: false, tid: entry.tid.position(), order }
    }

    fn shorten<'s, 'l: 's>(entry: Entry<'l, Bytes>) -> Entry<'s, Bytes> {
        Entry { key: entry.key, tid: entry.tid, child: entry.child }
    }

    fn is_fence(entry: &Entry<'_, Bytes>, fence: BytesFence<'_>) -> bool {
        entry.key.is_same(&fence.key) && entry.tid.position() == fence.tid
    }

    fn same_fence(a: BytesFence<'_>, b: BytesFence<'_>) -> bool {
        a.key.is_same(&b.key) && a.tid == b.tid
    }

    fn step(kept: &mut OwnedKey) {
        kept.step();
    }

    fn same(a: &OwnedKey, b: &OwnedKey) -> bool {
        a.is_same(b)
    }

    /// The normal part's first bytes; if it has not as many, then those of the value's hint.
    #[inline]
    fn mark(key: BytesKey<'_>) -> Mark {
        let filler = if key.is_behind_normal() { u8::MAX } else { 0 };
        let mut mark = [filler; MARK];
        let length = key.normal.len().min(MARK);
        mark[..length].copy_from_slice(&key.normal[..length]);
        Mark::from_be_bytes(mark) | hint_behind(key.normal.len(), key.value, key.order)
    }

    #[inline]
    fn stretch(key: BytesKey<'_>) -> u64 {
        let stretch = first_half(Bytes::mark(key));
        let has_hint = stretch.unbounded_shl(8 * key.normal.len() as u32) != 0;
        if key.normal.len() > 1 || has_hint || key.order.is_none() {
            return stretch;
        }
        // Nothing tells which keys are neighbours, but the rows of one key are.
        let words = key.value.chunks(8).take(8);
        words.fold(stretch, |stretch, word| {
            let mut bytes = [0; 8];
            bytes[..word.len()].copy_from_slice(word);
            (stretch ^ u64::from_le_bytes(bytes)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
        })
    }

    fn mark_of(fence: BytesFence<'_>, order: Option<BytesOrder<'_>>) -> (Mark, bool) {
        let mark = Mark::from_be_bytes(core::array::from_fn(|at| fence.key.byte(at)));
        let length = fence.key.normal_length();
        let is_told = length <= MARK && fence.key.payload.is_empty() && fence.tid == Tid::MIN;
        (mark | hint_behind(length, fence.key.payload, order), is_told)
    }

    #[inline]
    fn begins_lane(_key: BytesKey<'_>) -> bool {
        false
    }

    #[inline]
    fn tid(key: BytesKey<'_>) -> Tid {
        key.tid
    }

    fn compare_entry(key: BytesKey<'_>, entry: &Entry<'_, Bytes>) -> Ordering {
        key.compare(&entry.key, entry.tid)
    }

    fn same_key(a: &Stored<'_>, b: &Stored<'_>) -> bool {
        a.is_same(b)
    }
}

/// A key's brief hint, of what its value has behind so many bytes that all values of the page begin with.
#[derive(Clone, Copy, Debug)]
pub struct BytesGuess {
    hint: u64,
    hidden: usize,
}

impl PageKeys for Bytes {
    type Guess = BytesGuess;

    /// Not in the last leaf, to whose end rows may be appended: to look there takes one comparison.
    #[inline]
    fn guess(key: BytesKey<'_>, page: &Page<'_, Bytes>) -> Option<BytesGuess> {
        if page.level() == 0 && page.right() == NO_BLOCK {
            return None;
        }
        let order = key.order.filter(BytesOrder::guesses)?;
        let [low, high] =
            [bytes_at::LOW, bytes_at::HIGH].map(|at| cell(page.bytes, page.layout, read_u16(page.bytes, at)).1);
        let hidden = order.common(low, high);
        let hint = order.brief_hint(key.value, hidden);
        (hint != 0 && (hidden == 0 || order.common(key.value, low) >= hidden)).then_some(BytesGuess { hint, hidden })
    }

    #[inline]
    fn note_guess(key: BytesKey<'_>, is_proved: bool) {
        if let Some(order) = key.order {
            order.columns.note_guess(is_proved);
        }
    }

    #[inline]
    fn is_guessed(key: BytesKey<'_>) -> bool {
        key.order.is_some_and(|order| order.guesses())
    }

    #[inline]
    fn remembered(key: BytesKey<'_>, page: &Page<'_, Bytes>) -> Option<Position> {
        let order = key.order.filter(|_| !key.value.is_empty())?;
        order.columns.remembered(key.value, page.bytes.as_ptr().addr())
    }

    #[inline]
    fn note_place(key: BytesKey<'_>, page: &Page<'_, Bytes>, place: Position) {
        if let Some(order) = key.order.filter(|_| !key.value.is_empty()) {
            order.columns.note_place(key.value, page.bytes.as_ptr().addr(), place);
        }
    }

    /// Comparing with an entry takes longer than with lanes. But the last page of a level may be one to which rows are
    /// appended, and functions that cost little serve types of few values, of which many rows have each.
    #[inline]
    fn expects_end(key: BytesKey<'_>, page: &Page<'_, Bytes>) -> bool {
        page.right() == NO_BLOCK || key.order.is_some_and(|order| !order.is_costly())
    }

    fn guess_head(key: BytesKey<'_>, guess: BytesGuess, node: &Node<'_, Bytes>, head: usize) -> Ordering {
        let page = &node.page;
        let parts = cell(page.bytes, page.layout, node.cell_of(head));
        let skip = read_u16(page.bytes, bytes_at::PREFIX) as usize + HEAD;
        key.guess_suffix(skip, parts, key.tid, (guess.hint, guess.hidden))
    }

    #[inline]
    fn fence<'a>(page: &Page<'a, Bytes>, side: Side) -> BytesFence<'a> {
        let at = match side {
            Side::Low => bytes_at::LOW,
            Side::High => bytes_at::HIGH,
        };
        let (normal, payload) = cell(page.bytes, page.layout, read_u16(page.bytes, at));
        BytesFence { key: Stored::whole(normal, payload), tid: Tid::read(page.bytes, at + CELL).position() }
    }

    #[inline]
    fn compare_fence(key: BytesKey<'_>, page: &Page<'_, Bytes>, side: Side) -> Ordering {
        let fence = Bytes::fence(page, side);
        key.compare(&fence.key, fence.tid)
    }

    #[inline]
    fn lane_in(key: BytesKey<'_>, page: &Page<'_, Bytes>) -> core::result::Result<u64, Ordering> {
        let prefix = page.prefix();
        let (order, length) = front_order(key.normal, prefix);
        if order.is_ne() {
            return Err(order);
        }
        let missing = &prefix[length..];
        match key.is_behind_normal() {
            true if !missing.is_empty() => Err(Ordering::Greater),
            true => Ok(lane_at(key.normal, prefix.len(), u8::MAX)),
            false if missing.iter().any(|&byte| byte != 0) => Err(Ordering::Less),
            false => Ok(lane_at(key.normal, prefix.len(), 0)),
        }
    }

    #[inline]
    fn compare_head(key: BytesKey<'_>, node: &Node<'_, Bytes>, head: usize) -> Ordering {
        let page = &node.page;
        let (suffix, payload) = cell(page.bytes, page.layout, node.cell_of(head));
        let skip = read_u16(page.bytes, bytes_at::PREFIX) as usize + HEAD;
        key.compare_suffix(skip, suffix, payload, key.tid)
    }

    #[inline]
    fn stored<'a>(node: &Node<'a, Bytes>, head: usize) -> Stored<'a> {
        let page = &node.page;
        let (suffix, payload) = cell(page.bytes, page.layout, node.cell_of(head));
        Stored { prefix: page.prefix(), head: node.lane_of(head), suffix, payload }
    }

    fn parts<'e>(page: &Page<'_, Bytes>, place: Position, entry: &Entry<'e, Bytes>) -> (u64, Cell<'e>) {
        let (lane, suffix) = page.split_key(entry);
        let payload = entry.key.payload;
        if suffix.len() + payload.len() == 0 {
            return (lane, Cell::None);
        }
        let shared = if page.level() == 0 { page.shared_cell(place, lane, suffix, payload) } else { None };
        (lane, shared.map_or(Cell::New { suffix, payload }, Cell::Shared))
    }

    fn parted(page: &Page<'_, Bytes>, place: Position, cell: Cell<'_>) -> usize {
        // In a leaf, entries with equal keys share a cell unless they carry different bytes.
        if page.level() == 0 && page.layout.kind != LaneKind::PrefixPayload {
            return 0;
        }
        let cell_at = |at: Position| page.entry(at).map(|_| page.node(at.node as usize).cell(at.slot as usize));
        let (before, behind) = (page.previous(place).and_then(cell_at), cell_at(page.settle(place)));
        match before {
            Some(shared) if before == behind && before != cell.at() => stored_length(page.bytes, page.layout, shared),
            _ => 0,
        }
    }

    /// All keys begin as both fences do.
    #[inline]
    fn is_bounded(page: &Page<'_, Bytes>) -> bool {
        let [low, high] =
            [bytes_at::LOW, bytes_at::HIGH].map(|at| cell(page.bytes, page.layout, read_u16(page.bytes, at)).0);
        let prefix = read_u16(page.bytes, bytes_at::PREFIX) as usize;
        let is_common = prefix <= low.len() && high.starts_with(&low[..prefix]);
        is_common && (prefix == low.len() || low.get(prefix) != high.get(prefix))
    }

    fn verify_header(page: &Page<'_, Bytes>) -> core::result::Result<(), Flaw> {
        let (low, high) = (page.low(), page.high());
        let prefix = read_u16(page.bytes, bytes_at::PREFIX) as usize;
        let sound = prefix <= low.key.prefix.len() && low.key.common(&high.key) >= prefix;
        verify::ensure(sound, "page's prefix is not what its fences begin with")?;
        let fences = [bytes_at::LOW, bytes_at::HIGH].map(|at| read_u16(page.bytes, at));
        verify::ensure(fences.into_iter().all(|at| page.has_cell(at)), "fence lies where no fence can be")?;
        let clean = verify::is_zero(&page.bytes[bytes_at::END..FIRST_LINE * LINE]);
        verify::ensure(clean, "page header has bytes where it should be empty")?;
        let cells = SPACE_END - edit::space_end(page.bytes, page.layout);
        verify::ensure(live_cells(page.bytes, page.layout) <= cells, "page's cells would not fit a repack")?;
        for number in 0..page.nodes() {
            let node = page.node(number);
            let sound = (0..node.frame.heads).all(|head| page.has_cell(node.cell_of(head)));
            verify::ensure(sound, "entry's cell lies where no cell can be")?;
        }
        Ok(())
    }

    fn verify_entry(entry: &Entry<'_, Bytes>, _ranks: Option<bool>) -> core::result::Result<(), Flaw> {
        verify::ensure(!entry.tid.rank(), "entry has a rank")
    }
}

impl Page<'_, Bytes> {
    fn has_cell(&self, at: u16) -> bool {
        let upper = read_u16(self.bytes, at::PD_UPPER);
        at == 0 || at >= upper && checked_cell(self.bytes, self.layout, at).is_some()
    }
}
