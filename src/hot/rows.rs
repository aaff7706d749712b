//! The hot-key cache: the rows of a full key, for lookups that need nothing else of the index.
//!
//! What it answers is true, not a hint, and yet no writer has to look for keys in it (I9). Every change of a page moves the
//! page's *stamp*, under the page's exclusive lock. What a lookup found under a leaf's share lock is kept with the stamp
//! that the leaf had then, and is believed for as long as that is the leaf's stamp: until then the leaf has not changed.
//! Pages share stamps, as there are fewer of those; a page that moves another's only makes keys be looked up once more.
//!
//! A key takes one cache line, in one of two places. Readers take no lock: a line's number is odd while it is written, and
//! another after that. Two threads never write a line at once; one that would have to wait goes without.
//!
//! A key comes in at once where there is room, or the keys there have gone stale. Where it would push another out, it must
//! have been looked for twice in a row as far as its places know, and find the other unused: a scan that comes to each key
//! once pushes out nothing.

use core::sync::atomic::AtomicU64;

use super::word::Word;
use crate::key::Tail;
use crate::simd;
use crate::store::Block;

/// Rows of a key, at most.
pub const MOST_ROWS: usize = 2;

/// Bytes of memory that a key takes.
pub const BYTES_A_KEY: usize = LINE * size_of::<u64>();

/// Words of a line.
const LINE: usize = 8;
/// Places a key can be in: neighbouring lines, which a processor fetches together.
const PLACES: usize = 2;
/// What part of the memory, at most, has stamps, and how many bits say which.
const PART_FOR_STAMPS: usize = 64;
const STAMP_BITS: u32 = 15;

/// The words of a line.
mod word {
    /// Odd while the line is written, and never the same again.
    pub const NUMBER: usize = 0;
    /// Whose key it is; 0 if nobody's.
    pub const OWNER: usize = 1;
    /// The key's low and high half.
    pub const KEY: [usize; 2] = [2, 3];
    pub const STAMP: usize = 4;
    /// The rows; above the first, how many.
    pub const ROWS: [usize; super::MOST_ROWS] = [5, 6];
    /// How much it was used lately; above it, in a key's first place, the trace of who would like to be there. Hints.
    pub const CARE: usize = 7;
}

/// Bits of a row's place.
const ROW_BITS: u32 = 48;
/// Uses are counted up to this.
const MOST_USED: u64 = 3;

/// Which version of a page something was read from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp(u64);

/// A key of an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HotKey {
    /// What the index's file is known by, not 0; no two indexes have the same.
    pub owner: u64,
    /// The lane.
    pub lane: u128,
}

/// What is known of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// Its rows, so many, in order.
    Rows([Tail; MOST_ROWS], usize),
    /// Its rows as they were before the leaf changed.
    Stale,
    /// Nothing.
    Unknown,
}

/// What became of a key to be kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kept {
    /// It found room.
    Yes,
    /// Another key had to go.
    Evicting,
    /// It has to come again, or others were quicker.
    No,
}

/// The cache, in borrowed memory that any number of threads and processes share.
pub struct HotRows<'m, W = AtomicU64> {
    stamps: &'m [W],
    lines: &'m [[W; LINE]],
}

impl<'m, W: Word> HotRows<'m, W> {
    /// The cache in `words`, which were zeroed when the first came; whoever shares them gives as many. `None` if they are
    /// too few for any key. The lines should begin where the processor's do: after a multiple of 64 bytes of words that do.
    pub fn over(words: &'m [W]) -> Option<Self> {
        let most = (words.len() / PART_FOR_STAMPS).max(LINE);
        let (stamps, rest) = words.split_at_checked(1 << most.ilog2().min(STAMP_BITS))?;
        let (lines, _) = rest.as_chunks();
        let lines = &lines[..lines.len() / PLACES * PLACES];
        (!lines.is_empty()).then_some(HotRows { stamps, lines })
    }

    /// The stamp of a page, which holds for what is read while the page stays locked. `pages` is what the index's pages
    /// are known by, wherever they are stored.
    #[inline]
    pub fn stamp(&self, pages: u64, block: Block) -> Stamp {
        let (place, word) = self.stamp_of(pages, block);
        Stamp(word.load() << STAMP_BITS | place as u64)
    }

    /// A page changes: nothing read from it before is believed any more. It is exclusively locked, and stays so until it
    /// has changed.
    #[inline]
    pub fn change(&self, pages: u64, block: Block) {
        let word = self.stamp_of(pages, block).1;
        let mut seen = word.load();
        while let Err(now) = word.compare_exchange(seen, seen.wrapping_add(1)) {
            seen = now;
        }
    }

    #[inline]
    fn stamp_of(&self, pages: u64, block: Block) -> (usize, &'m W) {
        // Fibonacci hashing: the leaves of one index, being neighbours, get stamps of their own as long as there are some.
        let spread = (u64::from(block) ^ pages).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let place = part_of(self.stamps.len(), spread);
        (place, &self.stamps[place])
    }

    #[inline]
    fn is_current(&self, stamp: Stamp) -> bool {
        let place = (stamp.0 & ((1 << STAMP_BITS) - 1)) as usize;
        self.stamps.get(place).is_some_and(|word| word.load() << STAMP_BITS | place as u64 == stamp.0)
    }

    #[inline]
    fn hash(key: HotKey) -> u64 {
        let (low, high) = (key.lane as u64, (key.lane >> 64) as u64);
        let product = u128::from(low ^ key.owner) * u128::from(high.rotate_left(32) ^ 0x9E37_79B9_7F4A_7C15);
        (product >> 64) as u64 ^ product as u64
    }

    /// The lines that a key can be in.
    #[inline]
    fn places(&self, hash: u64) -> &'m [[W; LINE]] {
        let pair = part_of(self.lines.len() / PLACES, hash);
        &self.lines[pair * PLACES..][..PLACES]
    }

    /// Fetches the lines that a key can be in.
    #[inline]
    pub fn expect(&self, key: HotKey) {
        for line in self.places(Self::hash(key)) {
            simd::prefetch(core::ptr::from_ref(line).cast());
        }
    }

    /// The rows of a key, all of them and no others, at some moment of this call.
    #[inline]
    pub fn find(&self, key: HotKey) -> Found {
        for line in self.places(Self::hash(key)) {
            let Some((stamp, rows, count)) = read(line, key) else { continue };
            if !self.is_current(stamp) {
                return Found::Stale;
            }
            let care = Care::of(line);
            if care.uses() < MOST_USED {
                line[word::CARE].store(care.0 + 1);
            }
            return Found::Rows(rows, count);
        }
        Found::Unknown
    }

    /// Keeps the rows of a key, which are all in a page with this stamp. More than [`MOST_ROWS`] are not kept.
    pub fn keep(&self, key: HotKey, stamp: Stamp, rows: &[Tail]) -> Kept {
        if rows.is_empty() || rows.len() > MOST_ROWS {
            return Kept::No;
        }
        let hash = Self::hash(key);
        let places = self.places(hash);
        let free = places
            .iter()
            .find(|line| is_of(line, key))
            .or_else(|| places.iter().find(|line| !self.is_current(Stamp(line[word::STAMP].load()))))
            .or_else(|| places.iter().find(|line| line[word::OWNER].load() == 0));
        if let Some(line) = free {
            return if write(line, key, stamp, rows) { Kept::Yes } else { Kept::No };
        }
        let (first, trace) = (&places[0], hash & Care::TRACES);
        if Care::of(first).trace() != trace {
            first[word::CARE].store(Care::of(first).uses() | trace << Care::TRACE_AT);
            return Kept::No;
        }
        let Some(line) = places.iter().find(|line| Care::of(line).uses() == 0) else {
            for (line, care) in places.iter().map(|line| (line, Care::of(line))).filter(|(_, care)| care.uses() > 0) {
                line[word::CARE].store(care.0 - 1);
            }
            return Kept::No;
        };
        if write(line, key, stamp, rows) { Kept::Evicting } else { Kept::No }
    }

    /// Forgets what is known of a key.
    pub fn forget(&self, key: HotKey) {
        for line in self.places(Self::hash(key)).iter().filter(|line| is_of(line, key)) {
            let Some(number) = begin(line) else { continue };
            // Another key may have come meanwhile; that is no harm.
            line[word::OWNER].store(0);
            line[word::NUMBER].store(number.wrapping_add(2));
        }
    }

    /// Bytes that an index's keys take, stale ones included. It looks at every line.
    pub fn size_of(&self, owner: u64) -> usize {
        self.lines.iter().filter(|line| line[word::OWNER].load() == owner).count() * BYTES_A_KEY
    }

    /// How many keys there is room for.
    pub fn capacity(&self) -> usize {
        self.lines.len()
    }
}

/// The word of hints.
#[derive(Clone, Copy)]
struct Care(u64);

impl Care {
    const TRACE_AT: u32 = 8;
    const TRACES: u64 = 0xFFFF;

    #[inline]
    fn of<W: Word>(line: &[W; LINE]) -> Care {
        Care(line[word::CARE].load())
    }

    /// How often the key was found lately, as far as that is counted.
    #[inline]
    fn uses(self) -> u64 {
        self.0 & ((1 << Self::TRACE_AT) - 1)
    }

    /// Some bits of the key that looked for a place here last.
    fn trace(self) -> u64 {
        self.0 >> Self::TRACE_AT
    }
}

/// The part, of so many equal ones, that a hash is in.
#[inline]
fn part_of(parts: usize, hash: u64) -> usize {
    ((u128::from(hash) * parts as u128) >> u64::BITS) as usize
}

/// Whether a line is this key's, as far as can be seen without care.
fn is_of<W: Word>(line: &[W; LINE], key: HotKey) -> bool {
    line[word::OWNER].load() == key.owner && lane(line) == key.lane
}

#[inline]
fn lane<W: Word>(line: &[W; LINE]) -> u128 {
    let [low, high] = word::KEY.map(|at| line[at].load());
    u128::from(high) << 64 | u128::from(low)
}

/// What a line says, if it is this key's and is not being written.
#[inline]
fn read<W: Word>(line: &[W; LINE], key: HotKey) -> Option<(Stamp, [Tail; MOST_ROWS], usize)> {
    let number = line[word::NUMBER].load();
    if !is_even(number) || !is_of(line, key) {
        return None;
    }
    let stamp = Stamp(line[word::STAMP].load());
    let rows = word::ROWS.map(|at| line[at].load());
    let count = (rows[0] >> ROW_BITS) as usize;
    let is_whole = line[word::NUMBER].load() == number && (1..=MOST_ROWS).contains(&count);
    is_whole.then(|| (stamp, rows.map(Tail::from_raw), count))
}

/// Whether a line with this number is written by nobody.
#[inline]
fn is_even(number: u64) -> bool {
    number.is_multiple_of(2)
}

/// Makes a line this thread's to write, if it is nobody else's; its number was this.
fn begin<W: Word>(line: &[W; LINE]) -> Option<u64> {
    let number = line[word::NUMBER].load();
    let is_ours = is_even(number) && line[word::NUMBER].compare_exchange(number, number.wrapping_add(1)).is_ok();
    is_ours.then_some(number)
}

/// Writes a line, unless another thread does; whether it has.
fn write<W: Word>(line: &[W; LINE], key: HotKey, stamp: Stamp, rows: &[Tail]) -> bool {
    let Some(number) = begin(line) else { return false };
    line[word::OWNER].store(key.owner);
    line[word::KEY[0]].store(key.lane as u64);
    line[word::KEY[1]].store((key.lane >> 64) as u64);
    line[word::STAMP].store(stamp.0);
    for (nth, (&at, row)) in word::ROWS.iter().zip(rows).enumerate() {
        let count = if nth == 0 { rows.len() as u64 } else { 0 };
        line[at].store(count << ROW_BITS | row.alive().raw());
    }
    line[word::CARE].store(0);
    line[word::NUMBER].store(number.wrapping_add(2));
    true
}
