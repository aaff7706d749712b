//! Pages of keys that are byte strings: lanes are the bytes after what all keys of the page begin with, and what does
//! not fit there lies in *cells* at the page's end, which grow towards the in-page tree.

use super::arrange::Arrangement;
use super::frame::{Frame, Item};
use super::*;
use crate::keys::bytes::{BytesKey, BytesOrder, HEAD, MOST_PARTS, OwnedKey, Stored, front_order};

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

fn put_length(bytes: &mut [u8], at: &mut usize, length: usize) {
    if length >= 0x80 {
        bytes[*at] = 0x80 | (length >> 8) as u8;
        *at += 1;
    }
    bytes[*at] = length as u8;
    *at += 1;
}

fn take_length(bytes: &[u8], at: &mut usize) -> Option<usize> {
    let first = *bytes.get(*at)? as usize;
    *at += 1;
    if first < 0x80 {
        return Some(first);
    }
    let second = *bytes.get(*at)? as usize;
    *at += 1;
    Some((first & 0x7F) << 8 | second)
}

/// Adds a cell below those there are, but not below `lower`, and says where it begins: 0 if it is empty; `None` if
/// there is no room.
pub(super) fn put_cell(
    bytes: &mut PageBytes,
    layout: &Layout,
    lower: usize,
    suffix: &[u8],
    payload: &[u8],
) -> Option<u16> {
    let length = layout.cell_size(suffix.len(), payload.len());
    if length == 0 {
        return Some(0);
    }
    let start = edit::space_end(bytes, layout).checked_sub(length).filter(|&start| start >= lower)?;
    let mut at = start;
    put_length(bytes, &mut at, suffix.len());
    if layout.kind == LaneKind::PrefixPayload {
        put_length(bytes, &mut at, payload.len());
    }
    bytes[at..at + suffix.len()].copy_from_slice(suffix);
    bytes[at + suffix.len()..at + suffix.len() + payload.len()].copy_from_slice(payload);
    write_u16(bytes, at::PD_UPPER, start as u16);
    Some(start as u16)
}

/// The two parts of the cell that begins at a byte, `None` if there can be none.
fn checked_cell<'a>(bytes: &'a PageBytes, layout: &Layout, at: u16) -> Option<(&'a [u8], &'a [u8])> {
    let at = at as usize;
    if at == 0 {
        return Some((&[], &[]));
    }
    if !(FIRST_LINE * LINE..SPACE_END).contains(&at) {
        return None;
    }
    parts_of_cell(&bytes[at..SPACE_END], layout.kind)
}

/// The two parts of a cell at the front of `cells`, `None` if there can be none.
fn parts_of_cell(cells: &[u8], kind: LaneKind) -> Option<(&[u8], &[u8])> {
    let mut at = 0;
    let suffix = take_length(cells, &mut at)?;
    let payload = if kind == LaneKind::PrefixPayload { take_length(cells, &mut at)? } else { 0 };
    let middle = at + suffix;
    Some((cells.get(at..middle)?, cells.get(middle..middle + payload)?))
}

/// Copies of a page's entries' keys, and what they carry: the prefix once, and cells. Those of a few entries are copied
/// one by one, of more all that the page has. Plain memory.
#[derive(Clone, Copy)]
pub struct KeyCopies {
    kind: LaneKind,
    prefix: usize,
    lanes: [u64; MAX_PAGE_ENTRIES],
    /// Where each entry's cell is in `bytes`; 0 is none.
    cells: [u16; MAX_PAGE_ENTRIES],
    /// The cell copied last: where it was in the page, and where it is.
    last: (u16, u16),
    /// Where the page's cells begin if all have been copied, else where they would end.
    whole_from: usize,
    /// The end of what was copied one by one.
    used: usize,
    /// The page's cells, each where it is in the page; then the prefix, and cells one by one.
    bytes: [u8; KeyCopies::END],
}

impl KeyCopies {
    /// Bytes that are copied one by one: prefix and cells of a few entries.
    const FEW: usize = MOST_PARTS + 512;
    const END: usize = PAGE_SIZE + Self::FEW;

    /// None.
    pub fn none() -> Self {
        KeyCopies {
            kind: LaneKind::Prefix,
            prefix: 0,
            lanes: [0; MAX_PAGE_ENTRIES],
            cells: [0; MAX_PAGE_ENTRIES],
            last: (0, 0),
            whole_from: SPACE_END,
            used: PAGE_SIZE,
            bytes: [0; Self::END],
        }
    }

    /// Makes none in memory that holds anything.
    ///
    /// # Safety
    /// The memory may be written; it comes from where nobody knows what it holds, but it is some bytes.
    pub unsafe fn init(memory: *mut Self) {
        // SAFETY: the rest are integers.
        unsafe {
            (&raw mut (*memory).kind).write(LaneKind::Prefix);
            (&raw mut (*memory).prefix).write(0);
            (&raw mut (*memory).last).write((0, 0));
            (&raw mut (*memory).whole_from).write(SPACE_END);
            (&raw mut (*memory).used).write(PAGE_SIZE);
        }
    }

    /// Begins with a page.
    pub fn begin(&mut self, page: &Page<'_, Bytes>) {
        let prefix = page.prefix();
        let prefix = &prefix[..prefix.len().min(MOST_PARTS)];
        self.used = PAGE_SIZE + prefix.len();
        self.bytes[PAGE_SIZE..self.used].copy_from_slice(prefix);
        (self.kind, self.prefix, self.last, self.whole_from) = (page.layout.kind, prefix.len(), (0, 0), SPACE_END);
    }

    /// Copies an entry with this head as the `at`-th; `false` if it cannot be one.
    #[inline]
    fn set(&mut self, at: usize, node: &Node<'_, Bytes>, head: usize) -> bool {
        self.lanes[at] = node.lane_of(head);
        let from = node.cell_of(head);
        if (self.whole_from..SPACE_END).contains(&from.into()) {
            self.cells[at] = from;
            return true;
        }
        if from != self.last.0 {
            let Some(place) = self.copy(&node.page, from) else { return false };
            self.last = (from, place);
        }
        self.cells[at] = self.last.1;
        true
    }

    /// Copies the entries in so many slots of a node, from one on, as the `at`-th and those behind it. `false` if some
    /// cannot be any, or are out of order as far as lanes tell.
    #[inline]
    pub fn set_all(&mut self, at: usize, node: &Node<'_, Bytes>, from: usize, count: usize) -> bool {
        if self.whole_from == SPACE_END {
            let (mut sound, mut next, mut before) = (true, at, 0);
            node.for_each_head(from..from + count, |head, slots| {
                let lane = node.lane_of(head);
                sound &= lane >= before;
                before = lane;
                (next..next + slots).for_each(|at| sound &= self.set(at, node, head));
                next += slots;
            });
            return sound;
        }
        let (lanes, cells) = (&mut self.lanes[at..at + count], &mut self.cells[at..at + count]);
        node.read_lanes(from, lanes);
        node.read_cells(from, cells);
        let lowest = self.whole_from as u16;
        let are_copied =
            cells.iter().fold(true, |sound, cell| sound & (*cell == 0 || (lowest..SPACE_END as u16).contains(cell)));
        are_copied & is_ascending(lanes)
    }

    /// Copies a cell, with all others if it is one too many, and says where it is then. `None` if there can be none.
    fn copy(&mut self, page: &Page<'_, Bytes>, from: u16) -> Option<u16> {
        let (suffix, payload) = checked_cell(page.bytes, page.layout, from)?;
        let length = page.layout.cell_size(suffix.len(), payload.len());
        if length == 0 {
            return Some(0);
        }
        let cell = page.bytes.get(from.into()..from as usize + length)?;
        let place = self.used;
        if let Some(room) = self.bytes.get_mut(place..place + length) {
            room.copy_from_slice(cell);
            self.used += length;
            return Some(place as u16);
        }
        self.copy_all(page);
        (self.whole_from..SPACE_END).contains(&from.into()).then_some(from)
    }

    /// Copies all cells of the page.
    pub fn copy_all(&mut self, page: &Page<'_, Bytes>) {
        self.whole_from = edit::space_end(page.bytes, page.layout);
        self.bytes[self.whole_from..SPACE_END].copy_from_slice(&page.bytes[self.whole_from..SPACE_END]);
    }

    /// Makes the `to`-th that of the `from`-th.
    pub fn copy_within(&mut self, from: usize, to: usize) {
        (self.lanes[to], self.cells[to]) = (self.lanes[from], self.cells[from]);
    }

    /// Puts `from..to` in the opposite order.
    pub fn reverse(&mut self, from: usize, to: usize) {
        self.lanes[from..to].reverse();
        self.cells[from..to].reverse();
    }

    /// Copies the first `count` of another's.
    pub fn copy_from(&mut self, other: &Self, count: usize) {
        self.lanes[..count].copy_from_slice(&other.lanes[..count]);
        self.cells[..count].copy_from_slice(&other.cells[..count]);
        for used in [other.whole_from..SPACE_END, PAGE_SIZE..other.used] {
            self.bytes[used.clone()].copy_from_slice(&other.bytes[used]);
        }
        (self.kind, self.prefix, self.used) = (other.kind, other.prefix, other.used);
        (self.last, self.whole_from) = (other.last, other.whole_from);
    }

    /// The key of the `at`-th. `None` if its cell is none.
    #[inline]
    pub fn stored(&self, at: usize) -> Option<Stored<'_>> {
        let (prefix, head) = (&self.bytes[PAGE_SIZE..PAGE_SIZE + self.prefix], self.lanes[at]);
        let (suffix, payload) = match self.cells[at] as usize {
            0 => (&[][..], &[][..]),
            whole @ ..PAGE_SIZE => parts_of_cell(&self.bytes[whole..SPACE_END], self.kind)?,
            single => parts_of_cell(&self.bytes[single..self.used], self.kind)?,
        };
        Some(Stored { prefix, head, suffix, payload })
    }
}

/// The suffix and payload of the cell at a byte; empty if there can be none.
#[inline]
fn cell<'a>(bytes: &'a PageBytes, layout: &Layout, at: u16) -> (&'a [u8], &'a [u8]) {
    checked_cell(bytes, layout, at).unwrap_or((&[], &[]))
}

/// Bytes of the cell that begins at a byte.
pub(super) fn stored_length(bytes: &PageBytes, layout: &Layout, at: u16) -> usize {
    let (suffix, payload) = cell(bytes, layout, at);
    layout.cell_size(suffix.len(), payload.len())
}

/// Bytes of the cells that something refers to.
pub(super) fn live_cells(bytes: &PageBytes, layout: &Layout) -> usize {
    let page = Page::<Bytes> { bytes, layout, keys: PhantomData };
    let fences = [bytes_at::LOW, bytes_at::HIGH].map(|at| stored_length(bytes, layout, read_u16(bytes, at)));
    let (mut sum, mut previous) = (fences.iter().sum(), 0);
    for number in 0..page.nodes() {
        let node = page.node(number);
        for head in 0..node.frame.heads {
            let at = node.cell_of(head);
            if at != previous {
                sum += stored_length(bytes, layout, at);
                previous = at;
            }
        }
    }
    sum
}

/// How many bytes all keys of a page begin with.
pub(super) fn prefix_length(bytes: &PageBytes, layout: &Layout) -> usize {
    Page::<Bytes> { bytes, layout, keys: PhantomData }.prefix().len()
}

/// Moves the cells of a page that is being repacked.
pub(super) struct Mover<'o> {
    old: &'o PageBytes,
    layout: &'o Layout,
    last: (u16, u16),
    has_room: bool,
}

impl<'o> Mover<'o> {
    /// Begins with the fences' cells.
    pub fn new(old: &'o PageBytes, bytes: &mut PageBytes, layout: &'o Layout) -> Self {
        let mut mover = Mover { old, layout, last: (0, 0), has_room: true };
        if layout.kind.is_prefix() {
            write_u16(bytes, at::PD_UPPER, SPACE_END as u16);
            for at in [bytes_at::LOW, bytes_at::HIGH] {
                mover.move_cell(bytes, at);
            }
        }
        mover
    }

    fn move_cell(&mut self, bytes: &mut PageBytes, reference: usize) {
        let from = read_u16(bytes, reference);
        if from != self.last.0 {
            let (suffix, payload) = cell(self.old, self.layout, from);
            let lower = self.layout.first_node_line() * LINE;
            let put = put_cell(bytes, self.layout, lower, suffix, payload);
            self.has_room &= put.is_some();
            self.last = (from, put.unwrap_or(0));
        }
        write_u16(bytes, reference, self.last.1);
    }

    /// Moves the cells of all entries, which have been copied. Whether there was room for all, as on a sound page.
    pub fn take_along(mut self, bytes: &mut PageBytes) -> bool {
        let layout = self.layout;
        let nodes = if layout.kind.is_prefix() { bytes[at::NODES] as usize } else { 0 };
        for node in 0..nodes {
            let frame = Frame::of(bytes, layout, node);
            (0..frame.heads).for_each(|head| self.move_cell(bytes, frame.cell_at(head)));
        }
        self.has_room
    }
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

/// How long the shortest key is that is behind one entry and not behind the next: normal bytes, or all of both parts.
enum Separator {
    Front(usize),
    Whole,
}

impl Separator {
    fn between(last: &Entry<'_, Bytes>, first: &Entry<'_, Bytes>, level: u8) -> Separator {
        match last.key.common(&first.key) {
            usize::MAX => Separator::Whole,
            _ if level > 0 => Separator::Whole,
            common => Separator::Front(common + 1),
        }
    }

    fn length(&self, first: &Entry<'_, Bytes>) -> usize {
        match *self {
            Separator::Front(length) => length,
            Separator::Whole => first.key.normal_length() + first.key.payload.len(),
        }
    }
}

/// Becomes the fence between two entries that are neighbours on a level: the shortest in a leaf, the second one's key
/// in an inner page.
fn set_separator(
    fence: &mut OwnedKey,
    last: &Entry<'_, Bytes>,
    first: &Entry<'_, Bytes>,
    level: u8,
    order: Option<BytesOrder<'_>>,
) {
    match Separator::between(last, first, level) {
        Separator::Front(length) => fence.keep_front(&first.key, length),
        Separator::Whole => {
            // A damaged value part is noticed by whoever reads the entry.
            let value = Bytes::value_length(first, level, order).unwrap_or(0);
            fence.keep(&first.key, value, first.tid);
            if level == 0
                && let Some(value) = fence.key(order).telling_value(&last.key)
            {
                fence.keep(&first.key, value, Tid::MIN);
            }
        }
    }
}

/// Becomes the fence before an entry that is not the first.
fn set_separator_at(fence: &mut OwnedKey, entries: &Joined<'_, Bytes>, at: usize, order: Option<BytesOrder<'_>>) {
    if let Some((last, first)) = entries.around(at) {
        set_separator(fence, &last, &first, entries.page().level(), order);
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
        if key.normal.len() > 1 || key.order.is_none_or(|order| order.brief_hint(key.value, 0) != 0) {
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

    #[inline]
    fn guess(key: BytesKey<'_>, page: &Page<'_, Bytes>) -> Option<BytesGuess> {
        let order = key.order.filter(|order| order.guesses(key.value))?;
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
        key.order.is_some_and(|order| order.guesses(key.value))
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

impl PageSplits for Bytes {
    fn choose_split(
        entries: &Joined<'_, Bytes>,
        aim: Aim,
        order: Option<BytesOrder<'_>>,
        fence: &mut OwnedKey,
    ) -> usize {
        let page = entries.page();
        let (layout, level) = (page.layout, page.level());
        // Before each entry: the cells of those before it, as large as they are under the page's own prefix. And what
        // each would take more that shares a cell.
        let mut cells = [0usize; MAX_PAGE_ENTRIES + 2];
        let mut saved = [0usize; MAX_PAGE_ENTRIES + 1];
        let mut repeated = [false; MAX_PAGE_ENTRIES + 1];
        let total = entries.len().min(MAX_PAGE_ENTRIES + 1);
        let mut measure = Measure::new(layout, page.prefix().len());
        for (index, entry) in entries.iter().take(total).enumerate() {
            let cell;
            (repeated[index], cell) = measure.next(&entry);
            saved[index] = measure.own(&entry) - cell;
            cells[index + 1] = cells[index] + cell;
        }
        let slot = arrange::used(page.bytes, layout).div_ceil(page.entries().max(1));
        let weight = |index: usize| cells[index] + index * slot;
        let wanted = weight(total) * aim.left / 100;
        let middle = (1..total).find(|&index| weight(index) >= wanted).unwrap_or(total - 1).clamp(1, total - 1);
        let fences = [page.low(), page.high()].map(|f| layout.cell_size(f.key.normal_length(), f.key.payload.len()));
        // Under another prefix lanes may differ in more bytes.
        let holds = |range: Range<usize>, cells: usize| {
            let most = layout.most_nodes(cells);
            range.len() * WIDEST <= most * (layout.node_room() - WIDEST) || {
                let items = entries.iter().skip(range.start).take(range.len()).zip(&repeated[range.clone()]);
                let wide = items.scan(0, |lane, (entry, repeats)| {
                    *lane += if *repeats { 0 } else { 1 << 56 };
                    Some(Item { lane: *lane, tid: entry.tid, child: entry.child, cell: 0 })
                });
                Arrangement::packed(layout, &wide, layout.node_room(), most).is_some()
            }
        };
        let fits = |index: usize, separator: usize| {
            holds(0..index, cells[index] + fences[0] + separator + 4)
                && holds(index..total, cells[total] - cells[index] + saved[index] + fences[1] + separator + 4)
        };
        // The place with the shortest fence, of those at which both halves fit; the nearest, where several have such a
        // one. So it is seldom asked whether they fit, which looks at all entries.
        let shortest = |reach: usize| {
            let mut best: Option<(usize, usize)> = None;
            for index in split::outward(middle, reach, total) {
                if let Some((last, first)) = entries.around(index) {
                    let length = Separator::between(&last, &first, level).length(&first);
                    if best.is_none_or(|(_, shortest)| length < shortest) && fits(index, length) {
                        best = Some((index, length));
                    }
                }
            }
            best.map(|(index, _)| index)
        };
        let sound = |index: &usize| {
            let separator = |(last, first): (_, _)| Separator::between(&last, &first, level).length(&first);
            entries.around(*index).is_some_and(|around| fits(*index, separator(around)))
        };
        let near = shortest((total / 16).max(1));
        let changes = split::outward(middle, split::reach_of_changes(level, total), total).filter(|&at| !repeated[at]);
        let keep = aim
            .exactly
            .filter(sound)
            .or(near.filter(|&index| !repeated[index]))
            .or_else(|| changes.chain(aim.parting).find(sound))
            .or(near)
            .or_else(|| shortest(total));
        // Lanes seldom differ in all bytes.
        let keep = keep.or_else(|| {
            split::outward(middle, total, total).find(|&index| {
                set_separator_at(fence, entries, index, order);
                let middle = Bytes::fence_of(fence);
                let holds = |fences: [BytesFence<'_>; 2], range: Range<usize>| {
                    let of_half = entries.iter().skip(range.start).take(range.len());
                    let under = Under::new(layout, fences, of_half.clone());
                    Arrangement::filled(layout, &under.items(of_half), 100, under.cells).is_some()
                };
                holds([page.low(), middle], 0..index) && holds([middle, page.high()], index..total)
            })
        });
        let keep = keep.unwrap_or(middle);
        set_separator_at(fence, entries, keep, order);
        keep
    }

    fn build<'a>(
        geometry: &Geometry,
        links: &Links<'_, Bytes>,
        total: usize,
        entries: impl Iterator<Item = Entry<'a, Bytes>> + Clone,
    ) -> Option<PageBytes> {
        let layout = *geometry.layout(links.level);
        let (low, high) = (links.low, links.high);
        let under = Under::new(&layout, [low, high], entries.clone().take(total));
        let items = under.items(entries.clone().take(total));
        let arrangement = Arrangement::filled(&layout, &items, links.fill(), under.cells)?;

        let mut bytes = edit::new_page(geometry, links);
        under.fill_in(&mut bytes, &layout, [low, high], arrangement.counts(), entries.take(total))?;
        Some(bytes)
    }

    /// The prefix that keys have in common grows, and with it all entries change.
    fn right_half(
        _page: &Page<'_, Bytes>,
        _geometry: &Geometry,
        _links: &Links<'_, Bytes>,
        _skip: usize,
    ) -> Option<PageBytes> {
        None
    }

    fn halve<'e>(
        page: &Page<'_, Bytes>,
        keep: usize,
        right: Block,
        high: &'e OwnedKey,
        arrangement: &'e mut Arrangement,
    ) -> Option<Edit<'e>> {
        let (layout, fences) = (page.layout, [page.low(), Bytes::fence_of(high)]);
        let prefix = Under::prefix_between(&fences);
        let under = Under::of(layout, prefix, fences, page.sharing(keep));
        let fill = if page.level() == 0 { Links::<Bytes>::HALF } else { 100 };
        *arrangement = Arrangement::filled(layout, &under.items(page.iter().take(keep)), fill, under.cells)?;
        let (normal, value, tid) = (high.normal(), high.value(), high.tid());
        let high = Fence::Bytes { normal, value, tid, prefix: prefix as u16 };
        Some(Edit::Halve { counts: arrangement.counts(), right, high })
    }

    fn lower<'e>(
        page: &Page<'_, Bytes>,
        geometry: &Geometry,
        low: BytesFence<'_>,
        left: Block,
        image: &'e mut PageBytes,
    ) -> Option<Edit<'e>> {
        let links = Links {
            level: page.level(),
            left,
            right: page.right(),
            low,
            high: page.high(),
            fill: Links::<Bytes>::HALF,
        };
        *image = Bytes::build(geometry, &links, page.entries(), page.iter())?;
        image[at::FLAGS] = page.bytes[at::FLAGS];
        Some(Edit::Image(image))
    }
}

/// Keeps a page's first entries, so many in each node, between its low fence and another high one, whose first bytes all
/// keys begin with then: `bytes` is the page, and `old` a copy. `None` if they are not that many, or do not fit.
pub(super) fn keep_first(
    bytes: &mut PageBytes,
    layout: &Layout,
    counts: &[u8],
    (high, prefix): (BytesFence<'_>, usize),
    old: &PageBytes,
) -> Option<()> {
    let page = Page::<Bytes> { bytes: old, layout, keys: PhantomData };
    let total: usize = counts.iter().map(|&count| usize::from(count)).sum();
    let fences = [page.low(), high];
    if total > page.entries() || fences.iter().any(|fence| fence.key.normal_length() < prefix) {
        return None;
    }
    bytes[bytes_at::PREFIX..SPACE_END].fill(0);
    let under = Under::of(layout, prefix, fences, page.sharing(total));
    under.fill_in(bytes, layout, fences, counts, page.iter().take(total))
}

impl<'a> Page<'a, Bytes> {
    /// The first so many entries, each with whether it shares the cell of the one before.
    fn sharing(&self, count: usize) -> impl Iterator<Item = (bool, Entry<'a, Bytes>)> + use<'a> {
        let page = *self;
        let nodes = (0..page.nodes()).map(move |node| page.node(node));
        let entries = nodes.flat_map(|node| (0..node.len()).map(move |slot| (node.cell(slot), node.entry(slot))));
        let shared = entries.scan(0, |before, (cell, entry)| {
            let shares = cell != 0 && cell == *before;
            *before = cell;
            Some((shares, entry))
        });
        shared.take(count)
    }
}

impl Page<'_, Bytes> {
    fn has_cell(&self, at: u16) -> bool {
        let upper = read_u16(self.bytes, at::PD_UPPER);
        at == 0 || at >= upper && checked_cell(self.bytes, self.layout, at).is_some()
    }
}

/// What entries have outside their nodes in a page between two fences.
struct Under {
    /// Bytes that all keys of the page begin with.
    prefix: usize,
    /// Where each entry's cell will begin: those of the fences come first.
    cells_at: [u16; MAX_PAGE_ENTRIES],
    /// Bytes of all cells.
    cells: usize,
}

impl Under {
    fn new<'a>(layout: &Layout, fences: [BytesFence<'_>; 2], entries: impl Iterator<Item = Entry<'a, Bytes>>) -> Self {
        let prefix = Under::prefix_between(&fences);
        let mut measure = Measure::new(layout, prefix);
        Under::of(layout, prefix, fences, entries.map(|entry| (measure.repeats(&entry), entry)))
    }

    /// Bytes that all keys between two fences begin with.
    fn prefix_between([low, high]: &[BytesFence<'_>; 2]) -> usize {
        low.key.common(&high.key).min(low.key.normal_length())
    }

    /// Of entries each of which comes with whether it shares the cell of the one before.
    fn of<'a>(
        layout: &Layout,
        prefix: usize,
        fences: [BytesFence<'_>; 2],
        entries: impl Iterator<Item = (bool, Entry<'a, Bytes>)>,
    ) -> Self {
        let fences = fences.map(|f| layout.cell_size(f.key.normal_length(), f.key.payload.len()));
        let mut under = Under { prefix, cells_at: [0; MAX_PAGE_ENTRIES], cells: fences.iter().sum() };
        let (measure, mut last) = (Measure::new(layout, prefix), 0);
        for (at, (shares, entry)) in under.cells_at.iter_mut().zip(entries) {
            if !shares {
                let cell = measure.own(&entry);
                under.cells += cell;
                last = if cell == 0 { 0 } else { SPACE_END.saturating_sub(under.cells) as u16 };
            }
            *at = last;
        }
        under
    }

    /// Fills in a page of these entries, between these fences: what is behind its header, in which links are not
    /// touched. So many entries go to each node. `None` if they do not fit.
    fn fill_in<'a>(
        &self,
        bytes: &mut PageBytes,
        layout: &Layout,
        fences: [BytesFence<'_>; 2],
        counts: &[u8],
        entries: impl Iterator<Item = Entry<'a, Bytes>> + Clone,
    ) -> Option<()> {
        let mut scratch = [0; MOST_PARTS];
        write_u16(bytes, at::PD_UPPER, SPACE_END as u16);
        write_u16(bytes, bytes_at::PREFIX, self.prefix as u16);
        for (at, fence) in [bytes_at::LOW, bytes_at::HIGH].into_iter().zip(fences) {
            let length = fence.key.copy_normal(&mut scratch)?;
            let cell = put_cell(bytes, layout, FIRST_LINE * LINE, &scratch[..length], fence.key.payload)?;
            write_u16(bytes, at, cell);
            fence.tid.write(bytes, at + CELL);
        }
        let (mut last, behind) = (0, self.prefix + HEAD);
        for (entry, &cell) in entries.clone().zip(&self.cells_at) {
            if cell != last && cell != 0 {
                let suffix = scratch.get_mut(..entry.key.normal_length().saturating_sub(behind))?;
                entry.key.copy_from(behind, suffix);
                let put = put_cell(bytes, layout, FIRST_LINE * LINE, suffix, entry.key.payload);
                put.filter(|put| *put == cell)?;
            }
            last = cell;
        }
        let has_room = layout.first_node_line() + counts.len() * layout.x <= edit::space_end(bytes, layout) / LINE;
        (arrange::lay_out(bytes, layout, counts, &self.items(entries)) && has_room).then_some(())
    }

    /// The entries as their nodes have them.
    fn items<'a>(&self, entries: impl Iterator<Item = Entry<'a, Bytes>> + Clone) -> impl Iterator<Item = Item> + Clone {
        entries.zip(&self.cells_at).map(|(entry, &cell)| {
            let mut head = [0; HEAD];
            entry.key.copy_from(self.prefix, &mut head);
            Item { lane: u64::from_be_bytes(head).into(), tid: entry.tid, child: entry.child, cell }
        })
    }
}

/// Bytes that an entry takes in its node at most.
const WIDEST: usize = HEAD + CELL + Tid::SIZE + size_of::<Block>();

/// Says what cells entries take under a prefix.
#[derive(Clone, Copy)]
struct Measure<'a, 'l> {
    layout: &'l Layout,
    prefix: usize,
    previous: Option<Stored<'a>>,
}

impl<'a, 'l> Measure<'a, 'l> {
    fn new(layout: &'l Layout, prefix: usize) -> Self {
        Measure { layout, prefix, previous: None }
    }

    /// Whether the next entry has the key of the one before it, and so its cell.
    fn repeats(&mut self, entry: &Entry<'a, Bytes>) -> bool {
        let repeats = self.previous.is_some_and(|previous| previous.is_same(&entry.key));
        self.previous = Some(entry.key);
        repeats
    }

    /// The same, and bytes of its own cell if not.
    fn next(&mut self, entry: &Entry<'a, Bytes>) -> (bool, usize) {
        let repeats = self.repeats(entry);
        (repeats, if repeats { 0 } else { self.own(entry) })
    }

    /// Bytes of an entry's cell that it does not share.
    fn own(&self, entry: &Entry<'_, Bytes>) -> usize {
        let suffix = entry.key.normal_length().saturating_sub(self.prefix + HEAD);
        self.layout.cell_size(suffix, entry.key.payload.len())
    }
}
