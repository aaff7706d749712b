//! Changes as bytes, for a log: of each page its own part, which names slots and holds no more than it must.
//!
//! The format is frozen for each [`RecordKind`] and for each edit in it: another one takes another kind, or code.

use super::change::{MOST_BLOCKS, MOST_EDITS};
use super::{Cell, Change, Edit, Fence, Horizon};
use crate::format::{Block, Key, NO_BLOCK, PAGE_SIZE, PageBytes, Position, Tid};
use arrayvec::ArrayVec;
use core::fmt;

/// What a record is of, in four bits: they say how its parts are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RecordKind {
    /// One entry, in a node that has room for it.
    Insert = 1,
    /// Edits that need no other page.
    Edit = 4,
    /// A page is split, or the root grows.
    Split = 5,
    /// Entries are removed because their rows are gone.
    Vacuum = 6,
    /// A page is deleted.
    Unlink = 7,
    /// Entries are removed to make room, because nobody can see their rows any more.
    Delete = 8,
    /// Entries that were inserted together, and what made room for them in their nodes.
    Batch = 9,
    /// A leaf's entries go to its right neighbour, and it is deleted.
    Merge = 10,
}

impl RecordKind {
    /// The kind with this number.
    pub fn of(number: u8) -> Option<RecordKind> {
        use RecordKind::*;
        [Insert, Edit, Split, Vacuum, Unlink, Delete, Batch, Merge].into_iter().find(|&kind| kind as u8 == number)
    }

    /// What it is called where people read logs.
    pub fn name(self) -> &'static core::ffi::CStr {
        match self {
            RecordKind::Insert => c"INSERT",
            RecordKind::Edit => c"EDIT",
            RecordKind::Split => c"SPLIT",
            RecordKind::Vacuum => c"VACUUM",
            RecordKind::Unlink => c"UNLINK",
            RecordKind::Delete => c"DELETE",
            RecordKind::Batch => c"BATCH",
            RecordKind::Merge => c"MERGE",
        }
    }

    /// Whether it is of one insertion and nothing else, in one page: what most records are of.
    pub fn is_insertion(self) -> bool {
        self == RecordKind::Insert
    }
}

impl Change<'_> {
    /// What its record is of.
    pub fn kind(&self) -> RecordKind {
        let edits = || self.edits.iter().map(|(_, edit)| edit);
        if let (1, [(_, Edit::Insert { child: NO_BLOCK, cell: Cell::None, .. })]) =
            (self.pages(), self.edits.as_slice())
        {
            return RecordKind::Insert;
        }
        let has = |is: fn(&Edit<'_>) -> bool| edits().any(is);
        match () {
            () if has(|edit| matches!(edit, Edit::Series { .. })) => RecordKind::Batch,
            () if has(|edit| matches!(edit, Edit::Conflict(_))) => RecordKind::Delete,
            () if has(|edit| matches!(edit, Edit::GiveAway)) => RecordKind::Merge,
            () if has(|edit| matches!(edit, Edit::Delete { .. })) => RecordKind::Unlink,
            () if has(|edit| matches!(edit, Edit::RemoveSet(_))) => RecordKind::Vacuum,
            () if has(|edit| matches!(edit, Edit::New(_) | Edit::Image(_) | Edit::Halve { .. })) => RecordKind::Split,
            () => RecordKind::Edit,
        }
    }

    /// Whether the `index`-th page becomes what its part says, whatever it was.
    pub fn makes_page(&self, index: usize) -> bool {
        matches!(self.edits(index).next(), Some(Edit::New(_) | Edit::Image(_)))
    }

    /// Whether the `index`-th page's part [takes entries away](BlockEdits::takes_entries_away).
    pub fn takes_entries_away(&self, index: usize) -> bool {
        self.edits(index).any(takes_entries_away)
    }

    /// Appends the `index`-th page's part of the record, which is of this [`kind`](Change::kind), to `out`.
    pub fn encode_part(&self, kind: RecordKind, index: usize, out: &mut Vec<u8>) {
        match (kind, self.edits.as_slice()) {
            (RecordKind::Insert, [(_, Edit::Insert { place, lane, tid, .. })]) => {
                put_insertion(out, *place, *lane, *tid)
            }
            _ => self.edits(index).for_each(|edit| put_edit(out, edit)),
        }
    }

    /// Appends the change, which is of one page, to a [series](Edit::Series).
    pub fn add_to_series(&self, series: &mut impl Out) {
        debug_assert_eq!(self.pages(), 1, "a change of one page");
        self.edits(0).for_each(|edit| put_edit(series, edit));
    }

    /// Appends the whole change of these blocks to `out`.
    pub fn encode(&self, blocks: &[Block], out: &mut Vec<u8>) {
        debug_assert_eq!(blocks.len(), self.pages());
        out.extend([self.kind() as u8, blocks.len() as u8]);
        for (index, block) in blocks.iter().enumerate() {
            out.extend(block.to_le_bytes());
            let mut part = Vec::new();
            self.encode_part(self.kind(), index, &mut part);
            out.extend((part.len() as u16).to_le_bytes());
            out.extend(part);
        }
    }
}

fn takes_entries_away(edit: &Edit<'_>) -> bool {
    matches!(edit, Edit::Image(_) | Edit::Halve { .. } | Edit::Remove { .. } | Edit::RemoveSet(_) | Edit::GiveAway)
}

/// The codes of edits, in the lower five bits of their first byte.
mod code {
    pub const IMAGE: u8 = 1;
    pub const INSERT: u8 = 2;
    pub const SPLIT_NODE: u8 = 3;
    pub const BALANCE: u8 = 4;
    pub const REPACK: u8 = 5;
    pub const REMOVE: u8 = 6;
    pub const REMOVE_SET: u8 = 7;
    pub const SET_LEFT: u8 = 9;
    pub const SET_RIGHT: u8 = 10;
    pub const SET_LOW: u8 = 11;
    pub const SET_INCOMPLETE: u8 = 12;
    pub const DELETE: u8 = 13;
    pub const HALVE: u8 = 15;
    pub const NEW: u8 = 16;
    pub const RESERVE: u8 = 17;
    pub const CONFLICT: u8 = 18;
    pub const HALVE_BYTES: u8 = 19;
    pub const GIVE_AWAY: u8 = 20;
    pub const ALL: u8 = 0x1f;
    /// An insertion of a downlink.
    pub const HAS_CHILD: u8 = 0x20;
    /// An insertion with a cell of its own, or another's.
    pub const NEW_CELL: u8 = 0x40;
    pub const SHARED_CELL: u8 = 0x80;
}

/// Where the bytes of edits go.
pub trait Out {
    /// Appends bytes.
    fn put(&mut self, bytes: &[u8]);
}

impl Out for Vec<u8> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Panics where there is no room.
impl<const ROOM: usize> Out for ArrayVec<u8, ROOM> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.try_extend_from_slice(bytes).expect("room for an edit");
    }
}

fn put_edit(out: &mut impl Out, edit: &Edit<'_>) {
    match *edit {
        Edit::New(image) => {
            out.put(&[code::NEW]);
            put_image(out, image);
        }
        Edit::Image(image) => {
            out.put(&[code::IMAGE]);
            put_image(out, image);
        }
        Edit::Insert { place, lane, tid, child, cell } => {
            let has_child = if child == NO_BLOCK { 0 } else { code::HAS_CHILD };
            let has_cell = match cell {
                Cell::None => 0,
                Cell::Shared(_) => code::SHARED_CELL,
                Cell::New { .. } => code::NEW_CELL,
            };
            out.put(&[code::INSERT | has_child | has_cell, place.node, place.slot]);
            put_number(out, lane);
            put_tid(out, tid);
            if has_child != 0 {
                out.put(&child.to_le_bytes());
            }
            match cell {
                Cell::None => {}
                Cell::Shared(at) => out.put(&at.to_le_bytes()),
                Cell::New { suffix, payload } => put_parts(out, suffix, payload),
            }
        }
        Edit::Series { edits, .. } => out.put(edits),
        Edit::SplitNode { node, keep } => out.put(&[code::SPLIT_NODE, node, keep]),
        Edit::Balance { left, keep } => out.put(&[code::BALANCE, left, keep]),
        Edit::Reserve { bytes } => {
            out.put(&[code::RESERVE]);
            out.put(&bytes.to_le_bytes());
        }
        Edit::Repack(counts) => {
            out.put(&[code::REPACK]);
            put_counts(out, counts);
        }
        Edit::Halve { counts, right, high: Fence::Lane(high) } => {
            out.put(&[code::HALVE]);
            put_counts(out, counts);
            out.put(&right.to_le_bytes());
            put_key(out, high);
        }
        Edit::Halve { counts, right, high: Fence::Bytes { normal, value, tid, prefix } } => {
            out.put(&[code::HALVE_BYTES]);
            put_counts(out, counts);
            out.put(&right.to_le_bytes());
            put_tid(out, tid);
            out.put(&prefix.to_le_bytes());
            put_parts(out, normal, value);
        }
        Edit::Remove { node, mask } => {
            out.put(&[code::REMOVE, node]);
            put_number(out, mask);
        }
        Edit::RemoveSet(nodes) => {
            out.put(&[code::REMOVE_SET, nodes.len() as u8]);
            for &(node, mask) in nodes {
                out.put(&[node]);
                put_number(out, mask);
            }
        }
        Edit::Conflict(Horizon { transaction, is_catalog }) => {
            out.put(&[code::CONFLICT]);
            out.put(&transaction.to_le_bytes());
            out.put(&[is_catalog.into()]);
        }
        Edit::SetLeft(block) => {
            out.put(&[code::SET_LEFT]);
            out.put(&block.to_le_bytes());
        }
        Edit::SetRight(block) => {
            out.put(&[code::SET_RIGHT]);
            out.put(&block.to_le_bytes());
        }
        Edit::SetLow(fence) => {
            out.put(&[code::SET_LOW]);
            put_key(out, fence);
        }
        Edit::SetIncomplete(incomplete) => out.put(&[code::SET_INCOMPLETE, u8::from(incomplete)]),
        Edit::GiveAway => out.put(&[code::GIVE_AWAY]),
        Edit::Delete { time } => {
            out.put(&[code::DELETE]);
            put_number(out, time.into());
        }
    }
}

/// The place, the TID, and as many bytes as the lane has.
#[inline]
fn put_insertion(out: &mut impl Out, place: Position, lane: u128, tid: Tid) {
    const LANE: usize = 2 + Tid::SIZE;
    let mut part = [0; LANE + 16];
    part[..2].copy_from_slice(&[place.node, place.slot]);
    part[2..LANE].copy_from_slice(&tid.raw().to_le_bytes()[..Tid::SIZE]);
    part[LANE..].copy_from_slice(&lane.to_le_bytes());
    out.put(&part[..LANE + 16 - lane.leading_zeros() as usize / 8]);
}

/// How many entries nodes have, after the number of nodes.
fn put_counts(out: &mut impl Out, counts: &[u8]) {
    out.put(&[counts.len() as u8]);
    out.put(counts);
}

/// Two strings, after their lengths.
fn put_parts(out: &mut impl Out, first: &[u8], second: &[u8]) {
    out.put(&(first.len() as u16).to_le_bytes());
    out.put(&(second.len() as u16).to_le_bytes());
    out.put(first);
    out.put(second);
}

/// As many bytes as the number has, after their count.
fn put_number(out: &mut impl Out, number: u128) {
    let length = 16 - number.leading_zeros() as usize / 8;
    out.put(&[length as u8]);
    out.put(&number.to_le_bytes()[..length]);
}

fn put_tid(out: &mut impl Out, tid: Tid) {
    out.put(&tid.raw().to_le_bytes()[..Tid::SIZE]);
}

fn put_key(out: &mut impl Out, key: Key<u128>) {
    put_number(out, key.lane);
    put_tid(out, key.tid);
}

/// Zeroes in a row that are worth being left out of an image.
const WORTHWHILE: usize = 8;

/// The bytes of a page that are not zero, in stretches: where each begins, its length and its bytes. It ends with an
/// empty one.
fn put_image(out: &mut impl Out, image: &PageBytes) {
    let mut at = 0;
    while let Some(start) = next_used(image, at) {
        let mut end = start;
        while let Some(next) = used_in_reach(image, end) {
            end = next + 1;
        }
        out.put(&(start as u16).to_le_bytes());
        out.put(&((end - start) as u16).to_le_bytes());
        out.put(&image[start..end]);
        at = end;
    }
    out.put(&[0; 4]);
}

/// The first byte from `at` on that is not zero.
fn next_used(image: &PageBytes, mut at: usize) -> Option<usize> {
    while !at.is_multiple_of(WORTHWHILE) {
        if *image.get(at)? != 0 {
            return Some(at);
        }
        at += 1;
    }
    let (words, _) = image.as_chunks::<WORTHWHILE>();
    let word = words[at / WORTHWHILE..].iter().position(|word| *word != [0; WORTHWHILE])?;
    let place = words[at / WORTHWHILE + word].iter().position(|&byte| byte != 0)?;
    Some((at / WORTHWHILE + word) * WORTHWHILE + place)
}

/// The last byte that is not zero of those from `at` on that it is not worthwhile to leave out zeroes before.
fn used_in_reach(image: &PageBytes, at: usize) -> Option<usize> {
    let reach = &image[at..];
    let word = reach.first_chunk().copied().unwrap_or_else(|| {
        let mut word = [0; WORTHWHILE];
        word[..reach.len()].copy_from_slice(reach);
        word
    });
    u64::from_le_bytes(word).checked_ilog2().map(|bit| at + bit as usize / 8)
}

/// What happens to one page, read back from a log. It owns what its edits point to.
#[derive(Debug)]
pub struct BlockEdits {
    edits: Vec<OwnedEdit>,
}

#[derive(Debug)]
enum OwnedEdit {
    New(Box<PageBytes>),
    Image(Box<PageBytes>),
    Series(Vec<u8>),
    RemoveSet(Vec<(u8, u128)>),
    Repack(Vec<u8>),
    Halve(Vec<u8>, Block, Key<u128>),
    /// The counts, the right sibling, the two parts of the high fence and its TID, and the prefix.
    HalveBytes(Vec<u8>, Block, [Vec<u8>; 2], (Tid, u16)),
    /// An insertion, and the two parts of its own cell.
    Insert(Edit<'static>, Vec<u8>, Vec<u8>),
    Plain(Edit<'static>),
}

impl OwnedEdit {
    /// An insertion with a cell.
    fn insertion((edit, cell): (Edit<'static>, Cell<'_>)) -> OwnedEdit {
        match cell {
            Cell::None => OwnedEdit::Plain(edit),
            Cell::Shared(at) => OwnedEdit::Plain(with_cell(edit, Cell::Shared(at))),
            Cell::New { suffix, payload } => OwnedEdit::Insert(edit, suffix.to_vec(), payload.to_vec()),
        }
    }

    fn borrow(&self) -> Edit<'_> {
        match self {
            OwnedEdit::New(image) => Edit::New(image),
            OwnedEdit::Image(image) => Edit::Image(image),
            OwnedEdit::Series(edits) => Edit::Series { edits, page: None },
            OwnedEdit::RemoveSet(nodes) => Edit::RemoveSet(nodes),
            OwnedEdit::Repack(counts) => Edit::Repack(counts),
            OwnedEdit::Halve(counts, right, high) => Edit::Halve { counts, right: *right, high: Fence::Lane(*high) },
            OwnedEdit::HalveBytes(counts, right, [normal, value], (tid, prefix)) => {
                Edit::Halve { counts, right: *right, high: Fence::Bytes { normal, value, tid: *tid, prefix: *prefix } }
            }
            OwnedEdit::Plain(edit) => *edit,
            OwnedEdit::Insert(edit, suffix, payload) => with_cell(*edit, Cell::New { suffix, payload }),
        }
    }
}

/// An insertion, with another cell.
fn with_cell<'c>(edit: Edit<'static>, cell: Cell<'c>) -> Edit<'c> {
    match edit {
        Edit::Insert { place, lane, tid, child, .. } => Edit::Insert { place, lane, tid, child, cell },
        other => other,
    }
}

impl BlockEdits {
    /// Reads a part of a record of some kind, or `None` if the bytes are not exactly one.
    pub fn decode(kind: RecordKind, bytes: &[u8]) -> Option<BlockEdits> {
        if kind.is_insertion() {
            return Some(BlockEdits { edits: vec![OwnedEdit::Plain(insertion(bytes)?)] });
        }
        if kind == RecordKind::Batch {
            let is_sound = !bytes.is_empty() && series(bytes).all(|edit| edit.is_some());
            return is_sound.then(|| BlockEdits { edits: vec![OwnedEdit::Series(bytes.to_vec())] });
        }
        let mut reader = Decoder(bytes);
        let mut edits = Vec::new();
        while !reader.0.is_empty() {
            edits.push(reader.edit()?);
        }
        (edits.len() <= MOST_EDITS).then_some(BlockEdits { edits })
    }

    /// The edits, in order.
    pub fn edits(&self) -> impl Iterator<Item = Edit<'_>> {
        self.edits.iter().map(OwnedEdit::borrow)
    }

    /// The last transaction whose readers may miss what is removed from the page, if that is said.
    pub fn horizon(&self) -> Option<Horizon> {
        self.edits().find_map(|edit| if let Edit::Conflict(horizon) = edit { Some(horizon) } else { None })
    }

    /// Whether entries are removed from the page, or go to another: of those, a scan that pins the page may hold
    /// copies, which must be of no use to it before their rows' places are used again. The record is of this kind: of
    /// a page that is deleted the neighbour keeps what it has, and inner pages are pinned by nobody for long.
    pub fn takes_entries_away(&self, kind: RecordKind) -> bool {
        self.edits().any(|edit| match kind {
            RecordKind::Unlink => false,
            RecordKind::Merge => matches!(edit, Edit::GiveAway),
            _ => takes_entries_away(&edit),
        })
    }
}

/// The one edit of a record that is an insertion.
pub(crate) fn insertion(bytes: &[u8]) -> Option<Edit<'static>> {
    let mut reader = Decoder(bytes);
    let (place, tid) = (reader.position()?, reader.tid()?);
    let is_whole = reader.0.last() != Some(&0);
    let lane = reader.bytes_of(reader.0.len())?;
    is_whole.then_some(Edit::Insert { place, lane, tid, child: NO_BLOCK, cell: Cell::None })
}

/// The edits of a [series](Edit::Series), in order; `None` behind them if the rest is none.
pub(crate) fn series(bytes: &[u8]) -> impl Iterator<Item = Option<Edit<'_>>> {
    let mut reader = Decoder(bytes);
    core::iter::from_fn(move || {
        if reader.0.is_empty() {
            return None;
        }
        let edit = reader.edit_of_series();
        if edit.is_none() {
            reader.0 = &[];
        }
        Some(edit)
    })
}

impl fmt::Display for BlockEdits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, edit) in self.edits().enumerate() {
            f.write_str(if number == 0 { "" } else { ", " })?;
            match edit {
                Edit::Series { edits, .. } => {
                    let inserts = |edit: &Option<Edit<'_>>| matches!(edit, Some(Edit::Insert { .. }));
                    write!(f, "insert {} entries of a batch", series(edits).filter(inserts).count())
                }
                Edit::New(_) => f.write_str("new page"),
                Edit::Image(_) => f.write_str("page rewritten"),
                Edit::Insert { place, lane, tid, child, cell } => {
                    write!(f, "insert {}.{} lane {lane:#x} ", place.node, place.slot)?;
                    match child {
                        NO_BLOCK => write!(f, "tid ({},{})", tid.block(), tid.offset())?,
                        child => write!(f, "child {child}")?,
                    }
                    match cell {
                        Cell::None => Ok(()),
                        Cell::Shared(at) => write!(f, " cell at {at}"),
                        Cell::New { suffix, payload } => write!(f, " cell of {}+{} bytes", suffix.len(), payload.len()),
                    }
                }
                Edit::SplitNode { node, keep } => write!(f, "split node {node} at {keep}"),
                Edit::Balance { left, keep } => {
                    write!(f, "balance nodes {left} and {} at {keep}", u16::from(left) + 1)
                }
                Edit::Reserve { bytes } => write!(f, "reserve {bytes} bytes"),
                Edit::Repack(counts) => write!(f, "repack into {} nodes", counts.len()),
                Edit::Halve { counts, right, .. } => {
                    let kept: usize = counts.iter().map(|&count| usize::from(count)).sum();
                    write!(f, "keep {kept} in {} nodes, right {right}", counts.len())
                }
                Edit::Remove { node, mask } => write!(f, "remove {} of node {node}", mask.count_ones()),
                Edit::RemoveSet(nodes) => {
                    let removed: u32 = nodes.iter().map(|(_, mask)| mask.count_ones()).sum();
                    write!(f, "remove {removed} of {} nodes", nodes.len())
                }
                Edit::Conflict(Horizon { transaction: 0, .. }) => f.write_str("dead to everyone"),
                Edit::Conflict(horizon) => write!(f, "dead since transaction {}", horizon.transaction),
                Edit::SetLeft(block) => write!(f, "left {}", Link(block)),
                Edit::SetRight(block) => write!(f, "right {}", Link(block)),
                Edit::SetLow(low) => write!(f, "low {:#x}", low.lane),
                Edit::SetIncomplete(true) => f.write_str("split begun"),
                Edit::SetIncomplete(false) => f.write_str("split done"),
                Edit::GiveAway => f.write_str("entries given away, deleted"),
                Edit::Delete { .. } => f.write_str("deleted"),
            }?;
        }
        Ok(())
    }
}

/// A sibling, for people.
struct Link(Block);

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            NO_BLOCK => f.write_str("none"),
            block => write!(f, "{block}"),
        }
    }
}

/// A change read back from a log. It owns what its edits point to.
#[derive(Debug)]
pub struct Decoded {
    blocks: Vec<Block>,
    parts: Vec<BlockEdits>,
}

impl Decoded {
    /// Reads a change, or `None` if the bytes are not exactly one.
    pub fn decode(bytes: &[u8]) -> Option<Decoded> {
        let mut reader = Decoder(bytes);
        let (kind, count) = (RecordKind::of(reader.u8()?)?, reader.u8()? as usize);
        (1..=MOST_BLOCKS).contains(&count).then_some(())?;
        (count == 1 || !kind.is_insertion()).then_some(())?;
        let mut decoded = Decoded { blocks: Vec::new(), parts: Vec::new() };
        for _ in 0..count {
            decoded.blocks.push(reader.u32()?);
            let length = reader.u16()? as usize;
            decoded.parts.push(BlockEdits::decode(kind, reader.slice(length)?)?);
        }
        let edits: usize = decoded.parts.iter().map(|part| part.edits.len()).sum();
        (reader.0.is_empty() && edits <= MOST_EDITS).then_some(decoded)
    }

    /// The change.
    pub fn change(&self) -> Change<'_> {
        let mut change = Change::new();
        for (index, part) in self.parts.iter().enumerate() {
            let started = if index == 0 { change } else { change.page() };
            change = part.edits().fold(started, |change, edit| change.edit(edit));
        }
        change
    }

    /// The blocks of its pages.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }
}

/// Takes numbers off the front of a record.
struct Decoder<'a>(&'a [u8]);

impl<'a> Decoder<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (front, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*front)
    }

    fn slice(&mut self, length: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(front)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn bool(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    /// A number of so many bytes.
    fn bytes_of(&mut self, length: usize) -> Option<u128> {
        // In registers: what is put together in memory is waited for when it is read.
        let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
        let (low, high) = self.slice(length)?.split_at(length.min(8));
        (length <= 16).then(|| u128::from(word(high)) << 64 | u128::from(word(low)))
    }

    /// A number after the count of its bytes, of which the last is not zero.
    fn number(&mut self) -> Option<u128> {
        let length = self.u8()? as usize;
        let number = self.bytes_of(length)?;
        (length == 16 - number.leading_zeros() as usize / 8).then_some(number)
    }

    /// One of at most 8 bytes.
    fn word(&mut self) -> Option<u64> {
        self.number()?.try_into().ok()
    }

    fn tid(&mut self) -> Option<Tid> {
        Some(Tid::from_raw(self.bytes_of(Tid::SIZE)? as u64))
    }

    fn key(&mut self) -> Option<Key<u128>> {
        Some(Key::new(self.number()?, self.tid()?))
    }

    fn counts(&mut self) -> Option<Vec<u8>> {
        let nodes = self.u8()?;
        self.slice(nodes.into()).map(<[u8]>::to_vec)
    }

    fn position(&mut self) -> Option<Position> {
        Some(Position { node: self.u8()?, slot: self.u8()? })
    }

    fn image(&mut self) -> Option<Box<PageBytes>> {
        let mut image = Box::new([0; PAGE_SIZE]);
        let mut before = 0;
        loop {
            let (start, length) = (self.u16()? as usize, self.u16()? as usize);
            if (start, length) == (0, 0) {
                return Some(image);
            }
            (start >= before && length > 0).then_some(())?;
            image.get_mut(start..start + length)?.copy_from_slice(self.slice(length)?);
            before = start + length;
        }
    }

    fn parts(&mut self) -> Option<[&'a [u8]; 2]> {
        let (first, second) = (self.u16()? as usize, self.u16()? as usize);
        Some([self.slice(first)?, self.slice(second)?])
    }

    /// An insertion without its cell, and the cell.
    fn insertion(&mut self, flags: u8) -> Option<(Edit<'static>, Cell<'a>)> {
        let (place, lane, tid) = (self.position()?, self.number()?, self.tid()?);
        let child = if flags & code::HAS_CHILD != 0 { self.u32()? } else { NO_BLOCK };
        let cell = match flags & (code::NEW_CELL | code::SHARED_CELL) {
            0 => Cell::None,
            code::SHARED_CELL => Cell::Shared(self.u16()?),
            code::NEW_CELL => {
                let [suffix, payload] = self.parts()?;
                Cell::New { suffix, payload }
            }
            _ => return None,
        };
        Some((Edit::Insert { place, lane, tid, child, cell: Cell::None }, cell))
    }

    /// An edit that a [series](Edit::Series) may have.
    fn edit_of_series(&mut self) -> Option<Edit<'a>> {
        let first = self.u8()?;
        let (code, flags) = (first & code::ALL, first & !code::ALL);
        match code {
            code::INSERT => self.insertion(flags).map(|(edit, cell)| with_cell(edit, cell)),
            _ if flags != 0 => None,
            code::SPLIT_NODE => Some(Edit::SplitNode { node: self.u8()?, keep: self.u8()? }),
            code::BALANCE => Some(Edit::Balance { left: self.u8()?, keep: self.u8()? }),
            code::RESERVE => Some(Edit::Reserve { bytes: self.u16()? }),
            _ => None,
        }
    }

    fn edit(&mut self) -> Option<OwnedEdit> {
        let first = self.u8()?;
        let (code, flags) = (first & code::ALL, first & !code::ALL);
        (flags == 0 || code == code::INSERT).then_some(())?;
        let plain = match code {
            code::NEW => return self.image().map(OwnedEdit::New),
            code::IMAGE => return self.image().map(OwnedEdit::Image),
            code::INSERT => return self.insertion(flags).map(OwnedEdit::insertion),
            code::SPLIT_NODE => Edit::SplitNode { node: self.u8()?, keep: self.u8()? },
            code::BALANCE => Edit::Balance { left: self.u8()?, keep: self.u8()? },
            code::REPACK => return Some(OwnedEdit::Repack(self.counts()?)),
            code::RESERVE => Edit::Reserve { bytes: self.u16()? },
            code::REMOVE => Edit::Remove { node: self.u8()?, mask: self.number()? },
            code::REMOVE_SET => {
                let count = self.u8()?;
                let nodes = (0..count).map(|_| Some((self.u8()?, self.number()?))).collect::<Option<Vec<_>>>()?;
                return Some(OwnedEdit::RemoveSet(nodes));
            }
            code::SET_LEFT => Edit::SetLeft(self.u32()?),
            code::SET_RIGHT => Edit::SetRight(self.u32()?),
            code::SET_LOW => Edit::SetLow(self.key()?),
            code::SET_INCOMPLETE => Edit::SetIncomplete(self.bool()?),
            code::CONFLICT => Edit::Conflict(Horizon { transaction: self.u32()?, is_catalog: self.bool()? }),
            code::GIVE_AWAY => Edit::GiveAway,
            code::DELETE => Edit::Delete { time: self.word()? },
            code::HALVE => return Some(OwnedEdit::Halve(self.counts()?, self.u32()?, self.key()?)),
            code::HALVE_BYTES => {
                let (counts, right, told) = (self.counts()?, self.u32()?, (self.tid()?, self.u16()?));
                return Some(OwnedEdit::HalveBytes(counts, right, self.parts()?.map(<[u8]>::to_vec), told));
            }
            _ => return None,
        };
        Some(OwnedEdit::Plain(plain))
    }
}
