//! What this server process remembers of where leaves are: a descent cache for each index that it uses, in
//! `fpbtree.descent_cache_size` altogether. All of it is hints (I5).

use core::cell::UnsafeCell;

use fpbtree_engine::cache::descents::{Descents, KnownLeaf, Marks};
use fpbtree_engine::cache::hot_keys::Lookup;
use fpbtree_engine::format::{Block, Mark};
use fpbtree_engine::store::Seen;
use pgrx::pg_sys::{self, Buffer};

use crate::pg::per_backend::PerBackend;
use crate::pg::{memory, options};
use crate::storage::totals::{self, Count};

/// Indexes remembered at a time, and how many of their places one index can have.
const CACHES: usize = 1024;
const PLACES: usize = 4;
/// A cache whose answers are wrong this often is not asked for a while: the marks of such an index's keys say little.
const PRICE_OF_A_MISS: i32 = 8;
const MOST_CREDIT: i32 = 64;
const REST: u32 = 1 << 13;
/// The cache of hot keys is given more time, as it learns them one by one. It rests longer each time, up to a limit,
/// until it has earned as much again.
const ROWS_CREDIT: i32 = 1 << 13;
const MOST_ROWS_CREDIT: i32 = 2 * ROWS_CREDIT;
const MOST_ROWS_REST: u32 = 4 * REST;
/// Of so many finds, one reads the page the ordinary way: only that raises its buffer's usage count.
const ORDINARY_READ_EVERY: u32 = 64;

/// What happened in an index's cache since it was made or the counts were reset.
#[derive(Clone, Copy, Default)]
pub struct CacheCounts {
    /// Lookups whose leaf was known.
    pub hits: u64,
    /// Lookups whose leaf was not known.
    pub misses: u64,
    /// Lookups whose leaf was thought to be another.
    pub stale: u64,
    /// Times that everything was forgotten for want of memory.
    pub evictions: u64,
}

/// An index's cache.
struct Cache {
    /// The index: what its pages are known by. 0 is none.
    build_id: u64,
    /// What the server knows it by.
    index: u32,
    /// What has happened that was sent already, and whether it is among those that may have more.
    sent: [u64; 6],
    is_listed: bool,
    descents: Option<Descents<&'static mut [u8]>>,
    counts: CacheCounts,
    /// When it was used last.
    used: u64,
    credit: i32,
    /// Lookups it still rests for.
    rest: u32,
    /// What happened in the cache of hot keys, and its credit and rest.
    rows: CacheCounts,
    rows_credit: i32,
    rows_rest: u32,
    /// How long it rests next.
    next_rows_rest: u32,
}

impl Cache {
    const EMPTY: Cache = Cache {
        build_id: 0,
        index: 0,
        sent: [0; 6],
        is_listed: false,
        descents: None,
        counts: ZERO,
        used: 0,
        credit: MOST_CREDIT,
        rest: 0,
        rows: ZERO,
        rows_credit: ROWS_CREDIT,
        rows_rest: 0,
        next_rows_rest: REST,
    };

    /// Bytes of its memory.
    fn size(&self) -> usize {
        self.descents.as_ref().map_or(0, |descents| descents.size())
    }

    /// What has happened, as the totals have it: first for leaves, then for hot keys.
    fn numbers(&self) -> [u64; 6] {
        let (leaves, rows) = (&self.counts, &self.rows);
        [leaves.hits, leaves.misses, leaves.stale, rows.hits, rows.misses, rows.stale]
    }

    /// Adds what has happened to the totals.
    fn send(&mut self) {
        let now = self.numbers();
        let before = core::mem::replace(&mut self.sent, now);
        let since: [u64; 6] = core::array::from_fn(|at| now[at].wrapping_sub(before[at]));
        totals::add(self.index, Count::Hits, &since);
    }

    fn free(&mut self) {
        if let Some(descents) = self.descents.take() {
            // SAFETY: allocated by `allot`, and not used any more.
            unsafe { memory::free_array(descents.into_memory()) };
        }
    }
}

const ZERO: CacheCounts = CacheCounts { hits: 0, misses: 0, stale: 0, evictions: 0 };

struct Caches {
    of_indexes: [Cache; CACHES],
    /// Those that may have something to send.
    listed: [u16; CACHES],
    listed_count: usize,
    clock: u64,
    /// Bytes of all caches.
    size: usize,
    /// Drawn from to choose the finds that read the ordinary way.
    dice: u32,
}

static DESCENT_CACHES: PerBackend<UnsafeCell<Caches>> = PerBackend::new(UnsafeCell::new(Caches {
    of_indexes: [Cache::EMPTY; CACHES],
    listed: [0; CACHES],
    listed_count: 0,
    clock: 0,
    size: 0,
    dice: 1,
}));

/// The process's caches, for as long as no other function of this module is called.
#[allow(clippy::mut_from_ref)]
fn caches() -> &'static mut Caches {
    // SAFETY: one thread, and each function here uses what it gets before it returns; what it calls does not come back.
    unsafe { &mut *DESCENT_CACHES.get() }
}

/// Which of the caches is an index's, if it still is.
#[derive(Clone, Copy)]
pub struct Place {
    at: usize,
    build_id: u64,
}

impl Place {
    /// The place of the index with this build id and number; another index's cache may have to go.
    pub fn of(build_id: u64, index: u32) -> Place {
        let caches = caches();
        caches.clock += 1;
        caches.shrink(CACHES, options::descent_cache_size());
        let candidates = (0..PLACES).map(|step| (build_id as usize).wrapping_add(step) % CACHES);
        let at = candidates.clone().find(|&at| caches.of_indexes[at].build_id == build_id).unwrap_or_else(|| {
            let at = candidates.min_by_key(|&at| caches.of_indexes[at].used).unwrap_or(0);
            caches.forget(at);
            caches.of_indexes[at].build_id = build_id;
            at
        });
        (caches.of_indexes[at].used, caches.of_indexes[at].index) = (caches.clock, index);
        caches.list(at);
        Place { at, build_id }
    }

    #[inline]
    fn cache<'c>(&self, caches: &'c mut Caches) -> Option<&'c mut Cache> {
        caches.of_indexes.get_mut(self.at).filter(|cache| cache.build_id == self.build_id)
    }

    /// The leaf that likely has the keys of a mark.
    #[inline]
    pub fn find(&self, mark: Mark) -> Option<Seen<Buffer>> {
        let cache = self.cache(caches())?;
        if cache.rest > 0 {
            cache.rest -= 1;
            cache.counts.misses += 1;
            return None;
        }
        let Some(KnownLeaf { from, leaf }) = cache.descents.as_ref().and_then(|descents| descents.find(mark)) else {
            cache.counts.misses += 1;
            return None;
        };
        cache.counts.hits += 1;
        cache.credit = (cache.credit + 1).min(MOST_CREDIT);
        Some(Seen { from, block: leaf as Block, frame: (leaf >> 32) as Buffer })
    }

    /// Learns where a leaf is: see [`Hints::note_leaf`](fpbtree_engine::store::Hints::note_leaf). `blocks` is
    /// how many the index has.
    pub fn learn(
        &self,
        (block, buffer): (Block, Buffer),
        wanted: Mark,
        marks: Option<Marks>,
        stale: Option<Mark>,
        blocks: impl FnOnce() -> Block,
    ) {
        let caches = caches();
        let Some(cache) = self.cache(caches) else { return };
        if stale.is_some() {
            cache.counts.hits -= 1;
            cache.counts.stale += 1;
            cache.credit -= PRICE_OF_A_MISS;
            if cache.credit < 0 {
                (cache.credit, cache.rest) = (MOST_CREDIT, REST);
            }
        }
        if cache.rest > 0 {
            return;
        }
        let leaf = u64::from(block) | u64::from(buffer as u32) << 32;
        let learn = |cache: &mut Cache| {
            cache.descents.as_mut().is_some_and(|descents| descents.learn(leaf, wanted, marks, stale).is_ok())
        };
        if !learn(cache) {
            caches.make_room(self.at, blocks());
            learn(&mut caches.of_indexes[self.at]);
        }
    }

    /// What the cache of hot keys says of a lookup's key; it is worth the time that so many asked in vain take. It is
    /// not asked for a while if it knew hardly any. `ask` does not come back to this module.
    #[inline]
    pub fn ask_for_rows(&self, worth: i32, ask: impl FnOnce() -> Lookup) -> Option<Lookup> {
        let cache = self.cache(caches())?;
        if cache.rows_rest > 0 {
            cache.rows_rest -= 1;
            cache.rows.misses += 1;
            return None;
        }
        let found = ask();
        let (count, credit) = match found {
            Lookup::Rows(..) => (&mut cache.rows.hits, worth),
            Lookup::Stale => (&mut cache.rows.stale, -1),
            Lookup::Unknown => (&mut cache.rows.misses, -1),
        };
        *count += 1;
        cache.rows_credit += credit;
        if cache.rows_credit < 0 {
            (cache.rows_credit, cache.rows_rest) = (ROWS_CREDIT, cache.next_rows_rest);
            cache.next_rows_rest = (2 * cache.next_rows_rest).min(MOST_ROWS_REST);
        } else if cache.rows_credit > MOST_ROWS_CREDIT {
            (cache.rows_credit, cache.next_rows_rest) = (MOST_ROWS_CREDIT, REST);
        }
        Some(found)
    }

    /// Notes that a hot key took another's place.
    pub fn note_rows_evicted(&self) {
        if let Some(cache) = self.cache(caches()) {
            cache.rows.evictions += 1;
        }
    }

    /// What has happened in the cache of hot keys.
    pub fn rows_counts(&self) -> CacheCounts {
        self.cache(caches()).map_or(ZERO, |cache| cache.rows)
    }

    /// What has happened in the cache, and the bytes it takes.
    pub fn counts(&self) -> (CacheCounts, usize) {
        self.cache(caches()).map_or((ZERO, 0), |cache| (cache.counts, cache.size()))
    }

    /// Counts from zero again.
    pub fn reset_counts(&self) {
        if let Some(cache) = self.cache(caches()) {
            let numbers = cache.numbers();
            (cache.counts, cache.rows) = (ZERO, ZERO);
            cache.sent = core::array::from_fn(|at| cache.sent[at].wrapping_sub(numbers[at]));
        }
    }
}

/// Forgets everything.
#[inline]
pub fn forget_all() {
    caches().shrink(CACHES, 0);
}

/// Adds what has happened to the totals.
pub fn send() {
    let caches = caches();
    for at in 0..core::mem::take(&mut caches.listed_count) {
        let cache = &mut caches.of_indexes[usize::from(caches.listed[at])];
        cache.is_listed = false;
        cache.send();
    }
}

/// Whether a find is to read its page the ordinary way.
#[inline]
pub fn is_ordinary_turn() -> bool {
    let dice = &mut caches().dice;
    // Marsaglia's xorshift: finds that come round in a circle are each as likely to be chosen.
    *dice ^= *dice << 13;
    *dice ^= *dice >> 17;
    *dice ^= *dice << 5;
    dice.is_multiple_of(ORDINARY_READ_EVERY)
}

impl Caches {
    /// Forgets an index.
    fn forget(&mut self, at: usize) {
        let cache = &mut self.of_indexes[at];
        self.size -= cache.size();
        cache.free();
        cache.send();
        *cache = Cache { is_listed: cache.is_listed, ..Cache::EMPTY };
    }

    /// Has an index send what happens from now on when the transaction ends.
    #[inline]
    fn list(&mut self, at: usize) {
        if !core::mem::replace(&mut self.of_indexes[at].is_listed, true) {
            self.listed[self.listed_count] = at as u16;
            self.listed_count += 1;
        }
    }

    /// Forgets what was not used for the longest time, until no more than `limit` bytes are in use; one cache stays.
    fn shrink(&mut self, stays: usize, limit: usize) {
        while self.size > limit {
            let others = (0..CACHES).filter(|&other| other != stays && self.of_indexes[other].descents.is_some());
            let Some(oldest) = others.min_by_key(|&other| self.of_indexes[other].used) else { return };
            // Scans that are open keep their place, and what else it is for.
            self.size -= self.of_indexes[oldest].size();
            self.of_indexes[oldest].free();
        }
    }

    /// Gives a cache the memory that an index of so many blocks wants; if it has as much already, or there is none,
    /// empties it.
    #[cold]
    fn make_room(&mut self, at: usize, blocks: Block) {
        let limit = options::descent_cache_size();
        let is_whole = self.of_indexes[at].descents.as_ref().is_some_and(Descents::wants_wholes);
        let wanted = Descents::<&mut [u8]>::LEAST + blocks as usize * Descents::<&mut [u8]>::bytes_a_leaf(is_whole);
        let wanted = wanted.min(limit);
        let cache = &mut self.of_indexes[at];
        let size = cache.size();
        cache.counts.evictions += u64::from(size > 0);
        if size > 0 && size >= wanted {
            let memory = cache.descents.take().map(Descents::into_memory);
            // What fitted once fits again.
            cache.descents = memory.and_then(|memory| Descents::new(memory, is_whole).ok());
            return;
        }
        self.size -= size;
        self.of_indexes[at].free();
        if wanted < Descents::<&mut [u8]>::LEAST {
            return;
        }
        self.shrink(at, limit - wanted);
        // SAFETY: lives until `free`; without memory there is no cache.
        let memory = unsafe { memory::try_zeroed_values(pg_sys::CacheMemoryContext, wanted) };
        self.of_indexes[at].descents = memory.and_then(|memory| Descents::new(memory, is_whole).ok());
        self.size += self.of_indexes[at].size();
    }
}
