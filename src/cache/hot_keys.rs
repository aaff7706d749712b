//! The hot-key cache: the rows of a full key, for lookups that need nothing else of the index.
//!
//! What it answers is true, not a hint, and yet no writer has to look for keys in it (I9). Every change of a page moves
//! the page's *stamp*, under the page's exclusive lock. What a lookup found under a leaf's share lock is kept with the
//! stamp that the leaf had then, and is believed for as long as that is the leaf's stamp: until then the leaf has not
//! changed. Pages share counts, as there are fewer of those; a page that moves another's only makes keys be looked up
//! once more.
//!
//! A key is in one of two neighbouring cache lines, each of which has two keys of one index, or one that is wider than
//! a word or has two rows. Readers take no lock: a line's number is odd while it is written, and another after that.
//! Two threads never write a line at once; one that would have to wait goes without.
//!
//! A key comes in at once where there is room, or what is there has gone stale. Where it would push another out, it
//! must have been looked for twice, with no more than a few others between, and find one unused: a scan that comes to
//! each key once pushes out next to nothing.

use core::sync::atomic::AtomicU64;

use super::word::Word;
use crate::format::{Block, Tid};
use crate::simd::prefetch;

/// Rows of a key, at most.
pub const MOST_ROWS: usize = 2;

/// Words of a line, and keys it has room for.
const LINE: usize = 8;
const SLOTS: usize = 2;
/// Lines a key can be in: neighbours, which a processor fetches together.
const LINES: usize = 2;
/// What part of the memory, at most, has stamps, and how many bits say which.
const PART_FOR_STAMPS: usize = 64;
const STAMP_BITS: u32 = 15;
/// The bits of a stamp that count a page's changes, and of an owner that say which pages' stamps are meant.
const COUNT: u64 = u32::MAX as u64;
const PAGES: u64 = (1 << STAMP_BITS) - 1;

/// The words of a line.
mod word {
    /// Odd while the line is written, and never the same again.
    pub const NUMBER: usize = 0;
    /// Whose keys they are.
    pub const OWNER: usize = 1;
    /// Of each slot the key; or the halves of one.
    pub const KEYS: [usize; super::SLOTS] = [2, 3];
    pub const STAMPS: [usize; super::SLOTS] = [4, 5];
    /// Of each slot a row and, above it, its [`SlotState`](super::SlotState); or the rows of one.
    pub const ROWS: [usize; super::SLOTS] = [6, 7];
}

/// Which version of which page something was read from: its block, and below it how often pages of its kind had
/// changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp(u64);

impl Stamp {
    /// The page.
    #[inline]
    pub fn block(self) -> Block {
        (self.0 >> 32) as Block
    }
}

/// What an index is known by whose pages are known by `pages`, and whose file by `file`, of which the lower bits do not
/// matter.
pub fn owner(pages: u64, file: u64) -> u64 {
    file & !PAGES | spread(pages) >> (u64::BITS - STAMP_BITS)
}

/// Fibonacci hashing: neighbours get upper bits that are far apart.
#[inline]
fn spread(number: u64) -> u64 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// A key of an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HotKey {
    /// What the index is known by, by [`owner`]; no two have the same.
    pub owner: u64,
    /// The lane.
    pub lane: u128,
}

/// What is known of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lookup {
    /// Its rows, so many, in order, and the leaf that has them.
    Rows([Tid; MOST_ROWS], usize, Stamp),
    /// Its rows as they were before the leaf changed.
    Stale,
    /// Nothing.
    Unknown,
}

/// What became of a key to be kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// It found room.
    Yes,
    /// Another key had to go.
    Evicting,
    /// It has to come again, or others were quicker.
    No,
}

/// The cache, in borrowed memory that any number of threads and processes share.
pub struct HotKeys<'m, W = AtomicU64> {
    stamps: &'m [W],
    lines: &'m [Line<W>],
}

type Line<W> = [W; LINE];

/// What a slot is used for: the bits above a row. Only what tells slots apart has to be true; the rest are hints.
#[derive(Clone, Copy)]
struct SlotState(u64);

impl SlotState {
    const SHIFT: u32 = 48;
    /// There is a key.
    const USED: u64 = 1 << Self::SHIFT;
    /// The first slot's key has the whole line.
    const SPANS: u64 = 2 << Self::SHIFT;
    /// It has two rows.
    const TWO_ROWS: u64 = 4 << Self::SHIFT;
    /// How often the key was found lately.
    const USE: u64 = 8 << Self::SHIFT;
    const USES: u64 = 0b11 * Self::USE;
    /// In the first slot of the first line: how many others may come before the key that looked for a place is
    /// forgotten, and some bits of it.
    const PATIENCE_AT: u32 = Self::SHIFT + 5;
    const TRACE_AT: u32 = Self::PATIENCE_AT + 2;

    #[inline]
    fn of<W: Word>(line: &Line<W>, slot: usize) -> SlotState {
        SlotState(line[word::ROWS[slot]].load())
    }

    #[inline]
    fn has(self, flag: u64) -> bool {
        self.0 & flag != 0
    }

    fn uses(self) -> u64 {
        (self.0 & Self::USES) / Self::USE
    }

    fn trace(self) -> u64 {
        self.0 >> Self::TRACE_AT
    }

    /// The state once a key with another trace has looked for a place.
    fn after(self, trace: u64) -> u64 {
        let patience = self.0 >> Self::PATIENCE_AT & 0b11;
        match patience.checked_sub(1) {
            Some(_) => self.0 - (1 << Self::PATIENCE_AT),
            None => self.0 & ((1 << Self::PATIENCE_AT) - 1) | (trace << 2 | 0b11) << Self::PATIENCE_AT,
        }
    }
}

/// Where a key can go: to this slot of a line, or to all of it, and what has to go for it: nothing, or a key that was
/// used so often.
#[derive(Clone, Copy)]
struct Bucket<'m, W> {
    line: &'m Line<W>,
    slot: usize,
    uses: Option<u64>,
}

impl<'m, W: Word> HotKeys<'m, W> {
    /// The cache in `words`, which were zeroed when the first came; whoever shares them gives as many. `None` if they
    /// are too few for any key. The lines should begin where the processor's do: after a multiple of 64 bytes of words
    /// that do.
    pub fn over(words: &'m [W]) -> Option<Self> {
        let most = (words.len() / PART_FOR_STAMPS).max(LINE);
        let (stamps, rest) = words.split_at_checked(1 << most.ilog2().min(STAMP_BITS))?;
        let (lines, _) = rest.as_chunks();
        let lines = &lines[..lines.len() / LINES * LINES];
        (!lines.is_empty()).then_some(HotKeys { stamps, lines })
    }

    /// The stamp of a page, which holds for what is read while the page stays locked. `pages` is what the index's pages
    /// are known by, wherever they are stored.
    #[inline]
    pub fn stamp(&self, pages: u64, block: Block) -> Stamp {
        Stamp(u64::from(block) << 32 | self.count(owner(pages, 0), block).load().min(COUNT))
    }

    /// A page changes: nothing read from it before is believed any more. It is exclusively locked, and stays so until
    /// it has changed.
    #[inline]
    pub fn change(&self, pages: u64, block: Block) {
        let word = self.count(owner(pages, 0), block);
        let mut seen = word.load();
        while let Err(now) = word.compare_exchange(seen, seen.wrapping_add(1)) {
            seen = now;
        }
    }

    /// What counts the changes of an owner's page. The leaves of one index, being neighbours, get counts of their own
    /// as long as there are some.
    #[inline]
    fn count(&self, owner: u64, block: Block) -> &'m W {
        let place = part_of(self.stamps.len(), spread(block.into()));
        &self.stamps[place ^ (owner & PAGES) as usize & (self.stamps.len() - 1)]
    }

    /// Whether an owner's page has not changed since it had this stamp. A count that has come to its end says no for
    /// good.
    #[inline]
    pub fn is_current(&self, owner: u64, stamp: Stamp) -> bool {
        let count = self.count(owner, stamp.block()).load();
        count < COUNT && count == stamp.0 & COUNT
    }

    /// The lines that a key with this hash can be in.
    #[inline]
    fn places(&self, hash: u64) -> &'m [Line<W>] {
        let place = part_of(self.lines.len() / LINES, hash);
        &self.lines[place * LINES..][..LINES]
    }

    /// Has fetched what [`find`](Self::find) will look at first.
    #[inline]
    pub fn prefetch(&self, key: HotKey) {
        self.places(key.hash()).iter().for_each(|line| prefetch(line.as_ptr().cast()));
    }

    /// The rows of a key, all of them and no others, at some moment of this call.
    #[inline]
    pub fn find(&self, key: HotKey) -> Lookup {
        for line in self.places(key.hash()) {
            let Some((slot, stamp, rows)) = read(line, key) else { continue };
            if !self.is_current(key.owner, stamp) {
                return Lookup::Stale;
            }
            let state = SlotState(rows[0]);
            if state.uses() < SlotState::USES / SlotState::USE {
                // If it is not that word any more, no matter.
                let _ = line[word::ROWS[slot]].compare_exchange(state.0, state.0 + SlotState::USE);
            }
            return Lookup::Rows(rows.map(Tid::from_raw), 1 + usize::from(state.has(SlotState::TWO_ROWS)), stamp);
        }
        Lookup::Unknown
    }

    /// Keeps the rows of a key, which are all in a page with this stamp. More than [`MOST_ROWS`] are not kept.
    pub fn keep(&self, key: HotKey, stamp: Stamp, rows: &[Tid]) -> Admission {
        if rows.is_empty() || rows.len() > MOST_ROWS {
            return Admission::No;
        }
        let (hash, spans) = (key.hash(), key.is_wide() || rows.len() > 1);
        let places = self.places(hash);
        let rooms =
            || places.iter().flat_map(|line| (0..SLOTS).filter_map(move |slot| self.room(line, slot, key, spans)));
        let Some(best) = rooms().min_by_key(|room| room.uses) else { return Admission::No };
        if best.uses.is_some() {
            let (first, trace) = (SlotState::of(&places[0], 0), hash & (u64::MAX >> SlotState::TRACE_AT));
            if first.trace() != trace {
                let _ = places[0][word::ROWS[0]].compare_exchange(first.0, first.after(trace));
                return Admission::No;
            }
            if best.uses > Some(0) {
                rooms().for_each(|room| age(room.line));
                return Admission::No;
            }
        }
        match write(&best, key, stamp, rows, spans) {
            true if best.uses.is_some() => Admission::Evicting,
            true => Admission::Yes,
            false => Admission::No,
        }
    }

    /// Whether a key can go to a slot, or to the whole line if it is the first one.
    fn room(&self, line: &'m Line<W>, slot: usize, key: HotKey, spans: bool) -> Option<Bucket<'m, W>> {
        if let Some(at) = slot_of(line, key) {
            // Where it is already, or nowhere.
            return (at == slot).then_some(Bucket { line, slot, uses: None });
        }
        let owner = line[word::OWNER].load();
        let uses = |slot: usize| {
            let (state, stamp) = (SlotState::of(line, slot), Stamp(line[word::STAMPS[slot]].load()));
            (state.has(SlotState::USED) && self.is_current(owner, stamp)).then(|| state.uses())
        };
        let is_whole = spans || owner != key.owner || SlotState::of(line, 0).has(SlotState::SPANS);
        match (is_whole, slot) {
            (false, _) => Some(Bucket { line, slot, uses: uses(slot) }),
            (true, 0) => Some(Bucket { line, slot, uses: uses(0).max(uses(1)) }),
            (true, _) => None,
        }
    }

    /// Forgets what is known of a key.
    pub fn forget(&self, key: HotKey) {
        for line in self.places(key.hash()) {
            let Some(number) = begin(line) else { continue };
            if let Some(slot) = slot_of(line, key) {
                line[word::ROWS[slot]].store(0);
            }
            end(line, number);
        }
    }

    /// Bytes that an index's keys take, stale ones included. It looks at every line.
    pub fn size_of(&self, owner: u64) -> usize {
        let slots = |line: &Line<W>| (0..SLOTS).filter(|&slot| SlotState::of(line, slot).has(SlotState::USED)).count();
        let owned = self.lines.iter().filter(|line| line[word::OWNER].load() == owner);
        owned.filter(|line| slots(line) > 0).count() * size_of::<Line<u64>>()
    }

    /// How many keys of one row and no more than 64 bits there is room for.
    pub fn capacity(&self) -> usize {
        self.lines.len() * SLOTS
    }
}

impl HotKey {
    #[inline]
    fn words(self) -> [u64; 2] {
        [self.lane as u64, (self.lane >> 64) as u64]
    }

    #[inline]
    fn is_wide(self) -> bool {
        self.words()[1] != 0
    }

    #[inline]
    fn hash(self) -> u64 {
        let [low, high] = self.words();
        let product = u128::from(low ^ self.owner) * u128::from(high.rotate_left(32) ^ 0x9E37_79B9_7F4A_7C15);
        (product >> 64) as u64 ^ product as u64
    }
}

/// The part, of so many equal ones, that a hash is in.
#[inline]
fn part_of(parts: usize, hash: u64) -> usize {
    ((u128::from(hash) * parts as u128) >> u64::BITS) as usize
}

/// Which slot of a line has a key.
#[inline]
fn slot_of<W: Word>(line: &Line<W>, key: HotKey) -> Option<usize> {
    if line[word::OWNER].load() != key.owner {
        return None;
    }
    let (words, first) = (key.words(), SlotState::of(line, 0));
    if first.has(SlotState::SPANS) {
        return (word::KEYS.map(|at| line[at].load()) == words).then_some(0);
    }
    let is_there =
        |slot: &usize| line[word::KEYS[*slot]].load() == words[0] && SlotState::of(line, *slot).has(SlotState::USED);
    (0..SLOTS).find(is_there).filter(|_| !key.is_wide())
}

/// In which slot a line has a key, with what stamp and rows, unless it is being written.
#[inline]
fn read<W: Word>(line: &Line<W>, key: HotKey) -> Option<(usize, Stamp, [u64; MOST_ROWS])> {
    let number = line[word::NUMBER].load();
    let slot = slot_of(line, key)?;
    let stamp = Stamp(line[word::STAMPS[slot]].load());
    let rows = [line[word::ROWS[slot]].load(), line[word::ROWS[1]].load()];
    (is_even(number) && line[word::NUMBER].load() == number).then_some((slot, stamp, rows))
}

/// Whether a line with this number is written by nobody.
#[inline]
fn is_even(number: u64) -> bool {
    number.is_multiple_of(2)
}

/// Makes a line this thread's to write, if it is nobody else's; its number was this.
fn begin<W: Word>(line: &Line<W>) -> Option<u64> {
    let number = line[word::NUMBER].load();
    let is_ours = is_even(number) && line[word::NUMBER].compare_exchange(number, number.wrapping_add(1)).is_ok();
    is_ours.then_some(number)
}

fn end<W: Word>(line: &Line<W>, number: u64) {
    line[word::NUMBER].store(number.wrapping_add(2));
}

/// Takes a use from each of a line's keys.
fn age<W: Word>(line: &Line<W>) {
    for slot in 0..SLOTS {
        let state = SlotState::of(line, slot);
        if state.uses() > 0 {
            let _ = line[word::ROWS[slot]].compare_exchange(state.0, state.0 - SlotState::USE);
        }
    }
}

/// Writes a key where there is room, unless another thread writes that line; whether it has.
fn write<W: Word>(room: &Bucket<'_, W>, key: HotKey, stamp: Stamp, rows: &[Tid], spans: bool) -> bool {
    let line = room.line;
    let Some(number) = begin(line) else { return false };
    if spans || line[word::OWNER].load() != key.owner || SlotState::of(line, 0).has(SlotState::SPANS) {
        word::ROWS.iter().for_each(|&at| line[at].store(0));
    }
    let slot = if spans { 0 } else { room.slot };
    let words = key.words();
    line[word::OWNER].store(key.owner);
    line[word::KEYS[slot]].store(words[0]);
    line[word::STAMPS[slot]].store(stamp.0);
    let two = if rows.len() > 1 { SlotState::TWO_ROWS } else { 0 };
    if spans {
        line[word::KEYS[1]].store(words[1]);
        line[word::ROWS[1]].store(rows[rows.len() - 1].alive().raw());
    }
    let flags = SlotState::USED | if spans { SlotState::SPANS | two } else { 0 };
    line[word::ROWS[slot]].store(rows[0].alive().raw() | flags);
    end(line, number);
    true
}
