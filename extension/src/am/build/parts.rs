//! Loading in parts: the sorted entries that all participants have left are divided by their keys. Whoever is free
//! takes the next part, merges its entries, and writes and logs its leaves; the leader builds the levels above.

use core::mem::MaybeUninit;
use core::sync::atomic::Ordering::Relaxed;

use fpbtree_engine::format::{Block, META, NO_BLOCK, PageBytes, ROOT};
use fpbtree_engine::log::Ranges;
use fpbtree_engine::page::{Entry, PageMut};
use fpbtree_engine::sort::{Filed, RunFiles, Sorter};
use fpbtree_engine::tree::load::{LeafWriter, Pages, PartPages};
use pgrx::pg_sys::{self, ForkNumber::MAIN_FORKNUM, Relation};

use super::collector::{BuildTarget, Collector};
use super::new_index::{meta, new_loader};
use super::pages::{AT_ONCE, Buffered, Piece, log, put_page, take_blocks};
use super::progress::{REPORTED, report_loaded};
use super::team::Team;
use super::workplace::Workplace;
use crate::am::sort::{Files, Sortable, TempFile};
use crate::am::unique::{Watch, refuse_build};
use crate::pg::memory::{self, allocate, zeroed_values};
use crate::pg::{errors, ffi, options, relation};

/// Entries that are worth a part.
const WORTH: u64 = 1 << 15;
/// Pieces of the file that a part has taken before it logs the first, while its pages are in a processor's cache.
const PIECES: usize = 2;

/// What files beside the runs have: the downlinks of each part's leaves; those of the first leaves of all parts but the
/// first; of each part, an entry whose key may not be there again.
const LEAVES: usize = 0;
const BEGINNINGS: usize = 1;
const REPEATED: usize = 2;

/// The first leaf of the first part; the other parts' first leaves are behind it.
const FIRST_LEAF: Block = ROOT + 1;

/// Loads in parts what a team has left, and the leader's collector has taken over. `false` if that is not worth it, and
/// nothing was done.
///
/// # Safety
/// As `ambuild` is called. May raise.
pub(super) unsafe fn load<K: Sortable>(
    team: &Team,
    target: BuildTarget,
    entries: u64,
    collector: &mut Collector<K>,
) -> bool {
    let most = team.most_parts().min((entries / WORTH) as usize);
    if most < 2 {
        return false;
    }
    // SAFETY: the relations are open; nobody else looks at the parts before they are divided, or when all are done.
    unsafe {
        let parts = divide(&team.work, target, most, collector);
        if parts < 2 {
            return false;
        }
        let taken = first_leaf(parts);
        let mut blocks = 0;
        while blocks < taken {
            blocks = take_blocks(target.rel, (taken - blocks) as usize).end;
        }
        team.divide(parts);
        load_parts(&team.work, target, collector, true);
        collector.sorter.close();
        team.work.say_done();
        team.wait_for_all();
        report_loaded((*team.work.shared).loaded.load(Relaxed));
        join(&team.work, target, collector);
    }
    true
}

/// Chooses at most so many parts. Returns how many there are.
unsafe fn divide<K: Sortable>(
    work: &Workplace,
    target: BuildTarget,
    most: usize,
    collector: &mut Collector<K>,
) -> usize {
    // SAFETY: all have left their entries, and nobody looks at the parts yet.
    unsafe {
        let order = K::order(&collector.columns);
        let files = work.side_files(BEGINNINGS);
        let file = files.create(0);
        let mut begins = K::fresh();
        let mut parts = 1;
        collector.sorter.divide(most, (*target.info).ii_Unique, order, |entry| {
            K::set_to_key(&mut begins, entry, order).expect("an entry that was made here");
            K::put(files, file, &K::downlink(&begins, first_leaf(parts)));
            parts += 1;
        });
        files.finish(file);
        files.close(file);
        parts
    }
}

/// The first leaf of a part.
fn first_leaf(part: usize) -> Block {
    FIRST_LEAF + part as Block
}

/// Helps to load, if it is done in parts.
///
/// # Safety
/// In a worker that has left its entries. May raise.
pub(super) unsafe fn help<K: Sortable>(work: &Workplace, target: BuildTarget, room: usize) {
    // SAFETY: the relations are open, and this worker has left its entries.
    unsafe {
        if work.is_divided() {
            let mut collector = Collector::<K>::new(target.rel, room, Files::OWN);
            work.take_over::<K>(&mut collector.sorter);
            load_parts(work, target, &mut collector, false);
            collector.sorter.close();
            work.say_done();
        }
    }
}

/// Loads one part after another until none is left.
unsafe fn load_parts<K: Sortable>(work: &Workplace, target: BuildTarget, collector: &mut Collector<K>, progress: bool) {
    // SAFETY: the shared memory is there as long as anybody takes part; whoever takes a part is alone with it.
    unsafe {
        let shared = &*work.shared;
        let parts = shared.parts.load(Relaxed);
        loop {
            let number = shared.taken.fetch_add(1, Relaxed);
            if number >= parts {
                return;
            }
            let part = PartOf { work, target, number, parts, progress };
            (*work.parts.add(number)).repeats = part.load(collector);
            if (*work.parts.add(number)).repeats {
                // Those before it have been taken already: the first one of all will be found.
                shared.taken.store(parts, Relaxed);
            }
        }
    }
}

/// A part that was taken.
struct PartOf<'w> {
    work: &'w Workplace,
    target: BuildTarget,
    number: usize,
    parts: usize,
    progress: bool,
}

impl PartOf<'_> {
    /// Where the part begins, and where the next one does.
    unsafe fn ends<K: Sortable>(&self, from: &mut K::OwnedKey, to: &mut K::OwnedKey, order: K::Order<'_>) {
        K::copy(from, K::first());
        K::copy(to, K::last());
        // SAFETY: the file has a downlink for each part but the first.
        unsafe {
            let files = self.work.side_files(BEGINNINGS);
            let (file, _) = files.open(0);
            let mut record = K::RECORD;
            for number in 1..self.parts.min(self.number + 2) {
                let begins = K::get(files, file, &mut record);
                let end = if number <= self.number { &mut *from } else { &mut *to };
                K::set_to_key(end, &begins, order).expect("a fence that was written");
            }
            files.close(file);
        }
    }

    /// Says that so many more entries are loaded.
    unsafe fn report(&self, more: u64) {
        // SAFETY: memory of all who take part.
        let loaded = unsafe { (*self.work.shared).loaded.fetch_add(more, Relaxed) } + more;
        if self.progress {
            report_loaded(loaded);
        }
    }

    /// Loads the part's entries. Whether one of them may not be there: the first one is left in a file.
    unsafe fn load<K: Sortable>(&self, collector: &mut Collector<K>) -> bool {
        let BuildTarget { rel, info, .. } = self.target;
        // SAFETY: the relations are open, and the part is this process's.
        unsafe {
            let shared = &*self.work.shared;
            let geometry = &shared.index.geometry;
            let part = self.work.parts.add(self.number);
            let Collector { columns, sorter } = collector;
            let order = K::order(columns);
            let (mut from, mut to) = (K::fresh(), K::fresh());
            self.ends::<K>(&mut from, &mut to, order);
            let weight = sorter.part(&from, &to, order);
            let mut pages = PartWriter::new(rel, weight, self.work.side_files(LEAVES), self.number);
            let leaves = new_leaves::<K>(options::fillfactor(rel) as usize, &from, first_leaf(self.number));
            let mut watch = (*info).ii_Unique.then(Watch::<K>::new);
            let (mut repeats, mut loaded) = (false, 0u64);
            self.report(0);
            sorter.merge_part(order, |entry| {
                if let Some(watch) = watch.as_mut().filter(|_| !entry.tid.dead())
                    && watch.repeats(rel, columns, entry)
                {
                    leave(self.work.side_files(REPEATED), self.number, entry);
                    repeats = true;
                    return false;
                }
                leaves.add(geometry, order, &Entry { tid: entry.tid.alive(), ..*entry }, &mut pages);
                pages.loaded += K::Sorter::weight(entry);
                loaded += 1;
                if loaded.is_multiple_of(REPORTED) {
                    self.report(REPORTED);
                }
                true
            });
            self.report(loaded % REPORTED);
            if !repeats {
                let behind = self.number + 1;
                let right = if behind < self.parts { first_leaf(behind) } else { NO_BLOCK };
                (*part).last = leaves.finish(geometry, order, (&to, right), &mut pages);
            }
            (*part).leaves = pages.leaves;
            (*part).spare = pages.finish();
            memory::free(&raw mut *leaves);
            repeats
        }
    }
}

/// Leaves an entry in a file of its own.
fn leave<K: Filed>(files: Files, number: usize, entry: &Entry<'_, K>) {
    let file = files.create(number);
    K::put(files, file, entry);
    files.finish(file);
    files.close(file);
}

/// What writes leaves, in the current memory context.
unsafe fn new_leaves<K: Sortable>(fill: usize, low: &K::OwnedKey, block: Block) -> &'static mut LeafWriter<K> {
    // SAFETY: new memory of the right size.
    unsafe {
        let memory = &mut *allocate::<MaybeUninit<LeafWriter<K>>>(pg_sys::CurrentMemoryContext, 1, false);
        LeafWriter::init(memory, fill, low, block);
        memory.assume_init_mut()
    }
}

/// Writes a part's leaves to pieces of the file, which it takes as it needs them, and logs them. The first leaf is not
/// in any of them, and is logged when it is known what is left of it.
struct PartWriter {
    rel: Relation,
    /// Where leaves are noted.
    files: Files,
    notes: TempFile,
    /// What is loaded so far of which weight, and how many leaves there are.
    loaded: usize,
    weight: usize,
    leaves: usize,
    /// Blocks to be taken, the end of the last piece.
    blocks: Piece,
    /// Pieces that are not logged.
    pieces: [Piece; PIECES],
    count: usize,
}

impl PartWriter {
    /// Of a part with such a number and weight.
    fn new(rel: Relation, weight: usize, files: Files, number: usize) -> PartWriter {
        let notes = files.create(number);
        let nothing = Piece { next: 0, end: 0 };
        let (blocks, pieces) = (nothing, [nothing; PIECES]);
        PartWriter { rel, files, notes, loaded: 0, weight, leaves: 0, blocks, pieces, count: 0 }
    }

    /// Logs the first pieces.
    unsafe fn log(&mut self, count: usize) {
        // SAFETY: the pages of the pieces have been written.
        unsafe {
            for piece in &self.pieces[..count] {
                log(self.rel, *piece);
            }
        }
        self.pieces.copy_within(count.., 0);
        self.count -= count;
    }

    /// Logs what is left. Returns blocks that are.
    unsafe fn finish(mut self) -> Piece {
        // SAFETY: all pages have been written, and all leaves noted.
        unsafe { self.log(self.count) };
        self.files.finish(self.notes);
        self.files.close(self.notes);
        self.blocks
    }
}

impl<K: Sortable> PartPages<K> for PartWriter {
    fn take(&mut self) -> Block {
        if self.blocks.next == self.blocks.end {
            // The last piece has a leaf that is yet to be written.
            if self.count == PIECES {
                // SAFETY: all others are written.
                unsafe { self.log(PIECES - 1) };
            }
            // As many as the entries to come will take, if they are like those that are there.
            let rest = (self.weight - self.loaded) * (self.leaves + 1);
            let wanted = rest.div_ceil(self.loaded.max(1)).clamp(1, AT_ONCE);
            // SAFETY: the index is being built.
            self.blocks = unsafe { take_blocks(self.rel, wanted) };
            self.pieces[self.count] = self.blocks;
            self.count += 1;
        }
        self.blocks.next += 1;
        self.blocks.next - 1
    }

    fn write(&mut self, block: Block, low: &K::OwnedKey, page: &PageBytes) {
        // SAFETY: the block was taken for this page.
        unsafe { put_page(self.rel, block, page) };
        K::put(self.files, self.notes, &K::downlink(low, block));
        self.leaves += 1;
    }
}

/// Makes one tree of all parts.
unsafe fn join<K: Sortable>(work: &Workplace, target: BuildTarget, Collector { columns, .. }: &Collector<K>) {
    let BuildTarget { heap, rel, .. } = target;
    let order = K::order(columns);
    let mut record = K::RECORD;
    // SAFETY: the relations are open, and all have loaded their parts.
    unsafe {
        let index = &(*work.shared).index;
        let parts = core::slice::from_raw_parts(work.parts, (*work.shared).parts.load(Relaxed));
        if let Some(number) = parts.iter().position(|part| part.repeats) {
            let files = work.side_files(REPEATED);
            let (file, _) = files.open(number);
            refuse_build::<K>(rel, heap, columns, &K::get(files, file, &mut record));
        }
        for (number, part) in parts[..parts.len() - 1].iter().enumerate() {
            set_left(rel, first_leaf(number + 1), part.last);
        }
        let behind = ffi::RelationGetNumberOfBlocksInFork(rel, MAIN_FORKNUM);
        let spare = zeroed_values::<Piece>(pg_sys::CurrentMemoryContext, parts.len());
        spare.iter_mut().zip(parts).for_each(|(spare, part)| *spare = part.spare);
        let mut writer = Upper { file: Buffered { rel, blocks: behind }, spare };
        let loader = new_loader::<K>(options::fillfactor(rel) as usize);
        for (number, part) in parts.iter().enumerate() {
            let files = work.side_files(LEAVES);
            let (file, _) = files.open(number);
            for _ in 0..part.leaves {
                let leaf = K::get(files, file, &mut record);
                loader.add_leaf(&index.geometry, order, &leaf, behind, &mut writer);
                errors::check_for_interrupts();
            }
            files.close(file);
        }
        loader.finish(&index.geometry, order, &mut writer);
        memory::free(&raw mut *loader);
        while let Some(block) = writer.spare() {
            ffi::RecordFreeIndexPage(rel, block);
        }
        let Upper { mut file, .. } = writer;
        file.write(META, &meta(rel, index));
        log(rel, Piece { next: META, end: first_leaf(parts.len()) });
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

/// Links a leaf to what is left of it; it is pinned and exclusively locked only meanwhile.
unsafe fn set_left(rel: Relation, block: Block, left: Block) {
    // SAFETY: `rel` is open, the page was written as a leaf, and nobody else uses it.
    unsafe {
        let buffer = ffi::ReadBuffer(rel, block);
        ffi::LockBuffer(buffer, ffi::BUFFER_LOCK_EXCLUSIVE as i32);
        let mut ranges = Ranges::new();
        let page = PageMut::open(&mut *relation::page(buffer).cast(), &mut ranges);
        page.expect("a leaf that was written").set_left(left);
        ffi::MarkBufferDirty(buffer);
        ffi::UnlockReleaseBuffer(buffer);
    }
}
