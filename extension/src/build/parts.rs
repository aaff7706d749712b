//! Loading in parts: the sorted entries that all participants have left are divided by their keys. Whoever is free takes
//! the next part, merges its entries, and writes and logs its leaves; the leader builds the levels above.

use core::sync::atomic::Ordering::Relaxed;

use fpbtree_engine::key::{Key, Tail};
use fpbtree_engine::page::{Entry, KeySpace, PageMut, Ranges};
use fpbtree_engine::sort::Radix;
use fpbtree_engine::store::{Block, META, NO_BLOCK, PageBytes, ROOT};
use fpbtree_engine::tree::load::{Leaves, Pages, PartPages};
use pgrx::pg_sys::{self, BufFile, ForkNumber::MAIN_FORKNUM, Relation};

use super::pages::{AT_ONCE, Buffered, Piece, log, put_page, take_blocks};
use super::parallel::{Team, Workplace};
use super::{Collector, REPORTED, Sorted, Target, meta, new_loader, report_loaded};
use crate::memory::{self, allocate, zeroed_array};
use crate::options;
use crate::server::{self, raw};
use crate::sort::Sorter;
use crate::sort::files::{self, Files};
use crate::unique::{Watch, refuse_build};

/// Entries that are worth a part.
const WORTH: u64 = 1 << 15;
/// Pieces of the file that a part has taken before it logs the first, while its pages are in a processor's cache.
const PIECES: usize = 2;

/// A key space of exact lanes.
pub(super) trait Exact:
    Radix + Sorted<Sorter = Sorter<Self>> + for<'a> KeySpace<Kept = Key<Self>, Order<'a> = (), Stored<'a> = Self>
{
}

impl Exact for u32 {}
impl Exact for u64 {}
impl Exact for u128 {}

/// A part of an index. All-zero bytes are one that nobody has taken.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Part {
    /// Where it begins; the first one begins before everything.
    from: Key<u128>,
    /// Its first leaf and its last.
    first: Block,
    last: Block,
    /// Blocks it has taken and has no use for.
    spare: Piece,
    /// The first entry, if there is one, whose key may not be there again: lane and tail.
    repeated: Option<(u128, Tail)>,
}

/// What is noted of a leaf.
#[derive(Clone, Copy)]
struct Note<L> {
    low: Key<L>,
    block: Block,
}

/// Loads in parts what a team has left, and the leader's collector has taken over. `false` if that is not worth it, and
/// nothing was done.
///
/// # Safety
/// As `ambuild` is called. May raise.
pub(super) unsafe fn load<L: Exact>(team: &Team, target: Target, entries: u64, collector: &mut Collector<L>) -> bool {
    let most = team.most_parts().min((entries / WORTH) as usize);
    if most < 2 {
        return false;
    }
    // SAFETY: by this function's contract; nobody else looks at the parts before they are divided, or when all are done.
    unsafe {
        let places = zeroed_array::<Key<L>>(most);
        let parts = 1 + collector.sorter.divide(most, (*target.info).ii_Unique, places);
        if parts < 2 {
            return false;
        }
        let begins = ROOT + 1;
        let taken = begins + parts as Block;
        let mut blocks = 0;
        while blocks < taken {
            blocks = take_blocks(target.rel, (taken - blocks) as usize).end;
        }
        let part_of = core::slice::from_raw_parts_mut(team.work.parts, parts);
        for (number, part) in part_of.iter_mut().enumerate() {
            part.from = if number == 0 { Key::MIN } else { places[number - 1].erase() };
            part.first = begins + number as Block;
        }
        team.divide(parts);
        load_parts(&team.work, target, collector, true);
        collector.sorter.close();
        team.work.say_done();
        team.wait_for_all();
        join::<L>(&team.work, target, &collector.columns);
    }
    true
}

/// Helps to load, if it is done in parts.
///
/// # Safety
/// In a worker that has left its entries. May raise.
pub(super) unsafe fn help<L: Exact>(work: &Workplace, target: Target, room: usize) {
    // SAFETY: by this function's contract.
    unsafe {
        if work.is_divided() {
            let mut collector = Collector::<L>::new(target.rel, &(*work.shared).index, room, Files::Own);
            work.take_over::<L>(&mut collector.sorter);
            load_parts(work, target, &mut collector, false);
            collector.sorter.close();
            work.say_done();
        }
    }
}

/// Loads one part after another until none is left.
unsafe fn load_parts<L: Exact>(work: &Workplace, target: Target, collector: &mut Collector<L>, progress: bool) {
    // SAFETY: as `load`; whoever takes a part is alone with it.
    unsafe {
        let shared = &*work.shared;
        let parts = shared.parts.load(Relaxed);
        loop {
            let number = shared.taken.fetch_add(1, Relaxed);
            if number >= parts {
                return;
            }
            let entries = PartOf { work, target, number, parts, progress };
            let repeated = entries.load(collector);
            if repeated.is_some() {
                // Those before it have been taken already: the first one of all will be found.
                shared.taken.store(parts, Relaxed);
                (*work.parts.add(number)).repeated = repeated;
            }
        }
    }
}

/// A part that was taken.
struct PartOf<'w> {
    work: &'w Workplace,
    target: Target,
    number: usize,
    parts: usize,
    progress: bool,
}

impl PartOf<'_> {
    /// Where a part begins.
    unsafe fn begin<L: Exact>(&self, number: usize) -> Option<Key<L>> {
        // SAFETY: nobody writes that any more.
        (0 < number && number < self.parts).then(|| unsafe { Key::of((*self.work.parts.add(number)).from) })
    }

    /// Loads the part's entries. Returns the first one that may not be there.
    unsafe fn load<L: Exact>(&self, collector: &mut Collector<L>) -> Option<(u128, Tail)> {
        let Target { rel, info, .. } = self.target;
        // SAFETY: as `load_parts`.
        unsafe {
            let shared = &*self.work.shared;
            let geometry = &shared.index.geometry;
            let part = self.work.parts.add(self.number);
            let (from, to) = (self.begin::<L>(self.number), self.begin::<L>(self.number + 1));
            let columns = &collector.columns;
            let sorter = &mut collector.sorter;
            let entries = sorter.part(from, to);
            let mut pages = PartWriter::new(rel, entries, Files::Left(self.work.notes()).create(self.number));
            let leaves = new_leaves::<L>(options::fillfactor(rel) as usize, &from.unwrap_or(Key::MIN), (*part).first);
            let mut watch = (*info).ii_Unique.then(Watch::<L>::new);
            let mut repeated = None;
            sorter.merge_part(|key, tail| {
                let entry = Entry { key, tail, child: NO_BLOCK };
                if let Some(watch) = watch.as_mut().filter(|_| !tail.dead())
                    && watch.repeats(rel, columns, &entry)
                {
                    repeated = Some((key.to_u128(), tail));
                    return false;
                }
                leaves.add(geometry, (), &Entry { tail: tail.alive(), ..entry }, &mut pages);
                pages.loaded += 1;
                if (pages.loaded as u64).is_multiple_of(REPORTED) {
                    let loaded = shared.loaded.fetch_add(REPORTED, Relaxed) + REPORTED;
                    if self.progress {
                        report_loaded(loaded);
                    }
                }
                true
            });
            if repeated.is_none() {
                let behind = self.number + 1;
                let right = if behind < self.parts { (*self.work.parts.add(behind)).first } else { NO_BLOCK };
                (*part).last = leaves.finish(geometry, (), (&to.unwrap_or(Key::MAX), right), &mut pages);
            }
            (*part).spare = pages.finish(Files::Left(self.work.notes()));
            memory::free(&raw mut *leaves);
            repeated
        }
    }
}

/// What writes leaves, in the current memory context.
unsafe fn new_leaves<L: Exact>(fill: usize, low: &Key<L>, block: Block) -> &'static mut Leaves<L> {
    // SAFETY: new memory of the right size.
    unsafe {
        let memory = &mut *allocate::<core::mem::MaybeUninit<Leaves<L>>>(pg_sys::CurrentMemoryContext, 1, false);
        Leaves::init(memory, fill, low, block);
        memory.assume_init_mut()
    }
}

/// Writes a part's leaves to pieces of the file, which it takes as it needs them, and logs them. The first leaf is not
/// in any of them, and is logged when it is known what is left of it.
struct PartWriter {
    rel: Relation,
    /// Where leaves are noted.
    notes: *mut BufFile,
    /// How many entries and leaves there are so far, and how many entries there will be.
    loaded: usize,
    leaves: usize,
    entries: usize,
    /// Blocks to be taken, the end of the last piece.
    blocks: Piece,
    /// Pieces that are not logged.
    pieces: [Piece; PIECES],
    count: usize,
}

impl PartWriter {
    fn new(rel: Relation, entries: usize, notes: *mut BufFile) -> PartWriter {
        let nothing = Piece { next: 0, end: 0 };
        let (blocks, pieces) = (nothing, [nothing; PIECES]);
        PartWriter { rel, notes, loaded: 0, leaves: 0, entries, blocks, pieces, count: 0 }
    }

    /// Logs the first pieces.
    unsafe fn log(&mut self, count: usize) {
        // SAFETY: as `load`: their pages have been written.
        unsafe {
            for piece in &self.pieces[..count] {
                log(self.rel, *piece);
            }
        }
        self.pieces.copy_within(count.., 0);
        self.count -= count;
    }

    /// Logs what is left. Returns blocks that are.
    unsafe fn finish(mut self, files: Files) -> Piece {
        // SAFETY: as `load`.
        unsafe {
            self.log(self.count);
            files.finish(self.notes);
        }
        self.blocks
    }
}

impl<L: Exact> PartPages<L> for PartWriter {
    fn take(&mut self) -> Block {
        if self.blocks.next == self.blocks.end {
            // The last piece has a leaf that is yet to be written.
            if self.count == PIECES {
                // SAFETY: all others are written.
                unsafe { self.log(PIECES - 1) };
            }
            // As many as the entries to come will take, if they are like those that are there.
            let rest = (self.entries - self.loaded) * (self.leaves + 1);
            let wanted = rest.div_ceil(self.loaded.max(1)).clamp(1, AT_ONCE);
            // SAFETY: the index is being built.
            self.blocks = unsafe { take_blocks(self.rel, wanted) };
            self.pieces[self.count] = self.blocks;
            self.count += 1;
        }
        self.blocks.next += 1;
        self.blocks.next - 1
    }

    fn write(&mut self, block: Block, low: &Key<L>, page: &PageBytes) {
        // SAFETY: the block was taken for this page.
        unsafe {
            put_page(self.rel, block, page);
            files::put(self.notes, &Note { low: *low, block });
        }
        self.leaves += 1;
    }
}

/// Makes one tree of all parts.
unsafe fn join<L: Exact>(work: &Workplace, target: Target, columns: &L::Columns) {
    let Target { heap, rel, .. } = target;
    // SAFETY: as `load`; all are done.
    unsafe {
        let index = &(*work.shared).index;
        let parts = core::slice::from_raw_parts(work.parts, (*work.shared).parts.load(Relaxed));
        if let Some((lane, tail)) = parts.iter().find_map(|part| part.repeated) {
            let entry = Entry { key: L::from_u128(lane), tail, child: NO_BLOCK };
            refuse_build::<L>(rel, heap, columns, &entry);
        }
        for pair in parts.windows(2) {
            set_left(rel, pair[1].first, pair[0].last);
        }
        let behind = raw::RelationGetNumberOfBlocksInFork(rel, MAIN_FORKNUM);
        let spare = zeroed_array::<Piece>(parts.len());
        spare.iter_mut().zip(parts).for_each(|(spare, part)| *spare = part.spare);
        let mut writer = Upper { file: Buffered { rel, blocks: behind }, spare };
        let loader = new_loader::<L>(options::fillfactor(rel) as usize);
        for number in 0..parts.len() {
            let (file, size) = work.notes().open(number);
            for _ in 0..size / size_of::<Note<L>>() {
                let note = files::get::<Note<L>>(file);
                loader.add_leaf(&index.geometry, (), (&note.low, note.block), behind, &mut writer);
                server::check_for_interrupts();
            }
            files::close(file);
        }
        loader.finish(&index.geometry, (), &mut writer);
        memory::free(&raw mut *loader);
        while let Some(block) = writer.spare() {
            raw::RecordFreeIndexPage(rel, block);
        }
        let Upper { mut file, .. } = writer;
        file.write(META, &meta(index));
        log(rel, Piece { next: META, end: ROOT + 1 + parts.len() as Block });
        parts.iter().for_each(|part| log(rel, part.spare));
        log(rel, Piece { next: behind, end: file.blocks });
    }
}

/// Writes the levels above the leaves, first to blocks that parts have no use for.
struct Upper<'p> {
    file: Buffered,
    spare: &'p mut [Piece],
}

impl Pages for Upper<'_> {
    fn spare(&mut self) -> Option<Block> {
        let piece = self.spare.iter_mut().find(|piece| piece.next < piece.end)?;
        piece.next += 1;
        Some(piece.next - 1)
    }

    fn write(&mut self, block: Block, page: &PageBytes) {
        self.file.write(block, page);
    }
}

/// Links a leaf to what is left of it.
unsafe fn set_left(rel: Relation, block: Block, left: Block) {
    // SAFETY: as `load`; the page was written as a leaf.
    unsafe {
        let buffer = raw::ReadBuffer(rel, block);
        raw::LockBuffer(buffer, pg_sys::BUFFER_LOCK_EXCLUSIVE as i32);
        let mut ranges = Ranges::new();
        let page = PageMut::open(&mut *server::page(buffer).cast(), &mut ranges);
        page.expect("a leaf that was written").set_left(left);
        raw::MarkBufferDirty(buffer);
        raw::UnlockReleaseBuffer(buffer);
    }
}
