//! The tree: a B-link tree with fences (docs/design.md, 5). `docs/design.md` has every locking argument in prose.
//!
//! Content locks are taken left to right on a level, then upwards; nothing waits for a lower level's lock while it
//! holds a higher one's. Whoever arrives at a page checks, under its lock, that it is live, on the level looked for and
//! has the key between its fences (I5): then it is the right page, however it was reached.

pub mod check;
mod dead_tids;
mod insert;
pub mod load;
mod removal;
mod siblings;
mod truncate;
mod unique;
mod vacuum;

pub use dead_tids::DeadTids;
pub use insert::InsertOptions;
pub use truncate::FileEnd;
pub use unique::Verdict;
pub use vacuum::VacuumStats;

use crate::format::{Block, Error, Geometry, Position, ROOT, Result, is_link};
use crate::page::{KeySpace, Page, Side};
use crate::store::{Mode, PageStore, Seen};

/// An index: pages in a store, laid out by a geometry, of the key space `K`.
pub struct Tree<'t, S, K: KeySpace> {
    store: &'t S,
    geometry: &'t Geometry,
    order: K::Order<'t>,
}

impl<S, K: KeySpace> Clone for Tree<'_, S, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S, K: KeySpace> Copy for Tree<'_, S, K> {}

/// What a descent looks for on its target level.
enum Seek<'k, K: KeySpace> {
    /// The page whose fences contain the key.
    At(K::Key<'k>),
    /// The page that holds the keys just before this one: `low < key <= high`.
    Before(K::Key<'k>),
}

impl<K: KeySpace> Clone for Seek<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: KeySpace> Copy for Seek<'_, K> {}

/// How the target page is locked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LockMode {
    Share,
    Exclusive,
    /// Exclusive, with no other pin on the page.
    Cleanup,
}

/// Steps right up to which nobody asks whether links lead round in a circle.
const FEW_HOPS: Block = 100;

/// What arriving at a page showed.
enum Arrival {
    /// The page looked for.
    Here,
    /// The key is to the right of it.
    Right(Block),
    /// The page has been deleted, recycled or folded: descend again.
    Stale,
}

impl<K: KeySpace> Seek<'_, K> {
    fn arrival(self, page: &Page<'_, K>, level: u8) -> Arrival {
        if page.is_deleted() || page.level() != level {
            return Arrival::Stale;
        }
        let (left_of_it, beyond) = match self {
            Seek::At(key) => (page.is_below(key), page.is_beyond(key) && is_link(page.right())),
            Seek::Before(key) => (
                K::compare_fence(key, page, Side::Low).is_le(),
                K::compare_fence(key, page, Side::High).is_gt() && is_link(page.right()),
            ),
        };
        match (left_of_it, beyond) {
            (true, _) => Arrival::Stale,
            (_, true) => Arrival::Right(page.right()),
            _ => Arrival::Here,
        }
    }

    /// The mark by which the page looked for may be known.
    #[inline]
    fn mark(self) -> u64 {
        let (Seek::At(key) | Seek::Before(key)) = self;
        K::mark(key)
    }

    fn child_place(self, page: &Page<'_, K>) -> Option<Position> {
        match self {
            Seek::At(key) => page.child_place(key),
            Seek::Before(key) => page.child_place_before(key),
        }
    }
}

/// The last thing that looked wrong on the way down, to tell a tree that changed from one that is broken.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Misstep {
    parent: Block,
    parent_lsn: u64,
    child: Block,
    child_lsn: u64,
}

impl<'t, S: PageStore, K: KeySpace> Tree<'t, S, K> {
    /// The index in `store` with pages of this geometry.
    pub fn new(store: &'t S, geometry: &'t Geometry) -> Self {
        Tree::ordered(store, geometry, K::Order::default())
    }

    /// The same, where comparing keys takes more than their bytes.
    pub fn ordered(store: &'t S, geometry: &'t Geometry, order: K::Order<'t>) -> Self {
        Tree { store, geometry, order }
    }

    /// How keys are compared beyond what their bytes say.
    pub fn order(&self) -> K::Order<'t> {
        self.order
    }

    /// Where the pages are.
    pub fn store(&self) -> &'t S {
        self.store
    }

    /// How the pages are laid out.
    pub fn geometry(&self) -> &'t Geometry {
        self.geometry
    }

    /// Looks at a locked page.
    #[inline]
    pub fn page(&self, pin: S::Pin) -> Result<Page<'t, K>> {
        Page::open(self.store.bytes(pin), self.geometry, self.store.block(pin))
    }

    /// The root's level: levels in the tree, less one. Leaves nothing pinned or locked.
    pub fn root_level(&self) -> Result<u8> {
        let root = self.store.pin(ROOT)?;
        self.store.lock(root, Mode::Share);
        let level = self.page(root)?.level();
        self.release(root);
        Ok(level)
    }

    /// Gives back a page's lock and pin.
    pub fn release(&self, pin: S::Pin) {
        self.store.unlock(pin);
        self.store.unpin(pin);
    }

    /// The leaf whose fences contain `key`, pinned and share-locked.
    pub fn leaf_for(&self, key: K::Key<'_>) -> Result<S::Pin> {
        self.find_leaf(Seek::At(key), LockMode::Share)
    }

    /// The leaf that holds the keys just before `key`, pinned and share-locked.
    pub fn leaf_before(&self, key: K::Key<'_>) -> Result<S::Pin> {
        self.find_leaf(Seek::Before(key), LockMode::Share)
    }

    /// `hint`, if it is the leaf whose fences contain `key`, or a page right of it that is; else by descent. Pinned and
    /// share-locked.
    pub fn leaf_for_via(&self, hint: Block, key: K::Key<'_>) -> Result<S::Pin> {
        match self.arrive(hint, Seek::At(key), 0, LockMode::Share)? {
            Ok(pin) => Ok(pin),
            Err(_) => self.leaf_for(key),
        }
    }

    /// `hint`, if it is the leaf that holds the keys just before `key`, or a page right of it that is; else by descent.
    /// Pinned and share-locked.
    pub fn leaf_before_via(&self, hint: Block, key: K::Key<'_>) -> Result<S::Pin> {
        match self.arrive(hint, Seek::Before(key), 0, LockMode::Share)? {
            Ok(pin) => Ok(pin),
            Err(_) => self.leaf_before(key),
        }
    }

    /// The parent of the leaf whose fences contain `key`, pinned and share-locked; `None` if the root is a leaf.
    pub(crate) fn leaf_parent_for(&self, key: K::Key<'_>) -> Result<Option<S::Pin>> {
        self.leaf_parent(Seek::At(key))
    }

    /// The parent of the leaf that holds the keys just before `key`, the same way.
    pub(crate) fn leaf_parent_before(&self, key: K::Key<'_>) -> Result<Option<S::Pin>> {
        self.leaf_parent(Seek::Before(key))
    }

    fn leaf_parent(&self, seek: Seek<'_, K>) -> Result<Option<S::Pin>> {
        // A root that is no leaf never becomes one again.
        if self.root_level()? == 0 { Ok(None) } else { self.descend(seek, 1, LockMode::Share).map(Some) }
    }

    fn mode(&self, pin: S::Pin, mode: LockMode) {
        match mode {
            LockMode::Share => self.store.lock(pin, Mode::Share),
            LockMode::Exclusive => self.store.lock(pin, Mode::Exclusive),
            LockMode::Cleanup => self.store.lock_cleanup(pin),
        }
    }

    /// Goes to `block` and right from it until the page looked for. `Err` in the answer is a page that is none of
    /// these, or does not lie right of the one before it: the block and LSN where it was seen; nothing is held then.
    #[inline]
    fn arrive(
        &self,
        mut block: Block,
        seek: Seek<'_, K>,
        level: u8,
        mode: LockMode,
    ) -> Result<core::result::Result<S::Pin, (Block, u64)>> {
        let mut hops = 0;
        loop {
            let pin = self.store.pin(block)?;
            self.ask_for(pin, level);
            self.mode(pin, mode);
            let page = self.page(pin)?;
            match seek.arrival(&page, level) {
                Arrival::Here => return Ok(Ok(pin)),
                Arrival::Right(right) if hops < FEW_HOPS || hops < self.store.block_count() => {
                    hops += 1;
                    self.release(pin);
                    self.store.check_interrupts();
                    block = right;
                }
                _ => {
                    let seen = (block, self.store.lsn(pin));
                    self.release(pin);
                    return Ok(Err(seen));
                }
            }
        }
    }

    /// The leaf looked for, pinned and locked as `mode` says: where it was seen before, if it still is there, else by
    /// descent.
    #[inline]
    fn find_leaf(&self, seek: Seek<'_, K>, mode: LockMode) -> Result<S::Pin> {
        let seen = self.store.seen_leaf(seek.mark());
        if let Some(seen) = &seen {
            // What is known of a page that is not pinned suffices for that.
            self.ask_for(seen.pin, 0);
            if let Some(pin) = self.store.pin_seen(seen)? {
                self.mode(pin, mode);
                if self.as_likely_leaf(pin, seek).is_some() {
                    if pin != seen.pin {
                        self.store.note_leaf(pin, Some((seen.from, None)), None);
                    }
                    return Ok(pin);
                }
                self.release(pin);
            }
        }
        self.find_unseen_leaf(seek, mode, seen.as_ref())
    }

    /// A locked page that is likely the leaf looked for, if it is. However near the right page may be, it is not looked for
    /// along the links: it may also be far. The file may have been cut off there and have grown again, with a page that
    /// nobody has written to yet.
    #[inline]
    fn as_likely_leaf(&self, pin: S::Pin, seek: Seek<'_, K>) -> Option<Page<'t, K>> {
        self.page(pin).ok().filter(|page| matches!(seek.arrival(page, 0), Arrival::Here))
    }

    /// The same by descent, noting where the leaf is. What was seen before was not it. That its parent says so, too, is as
    /// much as a descent knows: a leaf with damaged fences is not to be taken for others.
    #[cold]
    fn find_unseen_leaf(&self, seek: Seek<'_, K>, mode: LockMode, stale: Option<&Seen<S::Pin>>) -> Result<S::Pin> {
        let mut below = None;
        let pin = self.descend_past(seek, 0, mode, &mut |parent, place| below = self.child_marks(parent, place))?;
        let marks = below.filter(|(child, ..)| *child == self.store.block(pin)).map(|(_, from, to)| (from, to));
        if marks.is_some() || stale.is_some() {
            self.store.note_leaf(pin, marks, stale);
        }
        Ok(pin)
    }

    /// A child, and by its parent the marks from which on and before which all places are its own: none of a fence's own
    /// mark, unless that says all of the fence. `None` if there are no such marks.
    fn child_marks(&self, parent: &Page<'_, K>, place: Position) -> Option<(Block, u64, Option<u64>)> {
        let mark = |entry| {
            let mut key = K::fresh();
            K::set_to_key(&mut key, &entry, self.order)?;
            Some(K::mark_of(K::fence_of(&key)))
        };
        let entry = parent.entry(place)?;
        let child = entry.child;
        let (mark_before, is_told) = if place == Position::FIRST { K::mark_of(parent.low()) } else { mark(entry)? };
        let from = if is_told { mark_before } else { mark_before.checked_add(1)? };
        let to = match parent.entry(parent.next(place)) {
            Some(next) => Some(mark(next)?.0),
            None => is_link(parent.right()).then(|| K::mark_of(parent.high()).0),
        };
        to.is_none_or(|to| from < to).then_some((child, from, to))
    }

    /// Asks the hardware for what a search of a page on a level begins with.
    #[inline(always)]
    fn ask_for(&self, pin: S::Pin, level: u8) {
        self.store.prefetch(pin, 0..self.geometry.front(level));
        self.store.prefetch(pin, self.geometry.back());
    }

    /// The page looked for on `level`, pinned and locked as `mode` says. Nothing else is locked on return; the caller
    /// may hold locks on lower levels (and then asks for no cleanup lock).
    fn descend(&self, seek: Seek<'_, K>, level: u8, mode: LockMode) -> Result<S::Pin> {
        self.descend_past(seek, level, mode, &mut |_, _| {})
    }

    /// The same; `past` is told each page on the way and where in it the way goes on, while the page is locked.
    fn descend_past(
        &self,
        seek: Seek<'_, K>,
        level: u8,
        mode: LockMode,
        past: &mut impl FnMut(&Page<'_, K>, Position),
    ) -> Result<S::Pin> {
        let mut before = None;
        loop {
            match self.try_descend(seek, level, mode, past)? {
                Ok(pin) => return Ok(pin),
                // The same two pages, unchanged, contradict each other twice: no concurrent change explains that.
                Err(misstep) if before == Some(misstep) => {
                    return Err(Error::Corrupt {
                        block: misstep.child,
                        what: "page is not what its parent says it is",
                    });
                }
                Err(misstep) => before = Some(misstep),
            }
            self.store.check_interrupts();
        }
    }

    fn try_descend(
        &self,
        seek: Seek<'_, K>,
        level: u8,
        mode: LockMode,
        past: &mut impl FnMut(&Page<'_, K>, Position),
    ) -> Result<core::result::Result<S::Pin, Misstep>> {
        let mut parent = self.lock_root(level, mode)?;
        loop {
            let page = self.page(parent)?;
            let block = self.store.block(parent);
            if page.level() == level {
                // Only the root is reached here: any other page was checked where it was reached.
                return match seek.arrival(&page, level) {
                    Arrival::Here => Ok(Ok(parent)),
                    _ => Err(Error::Corrupt { block, what: "root does not have all keys between its fences" }),
                };
            }
            if page.level() < level || page.is_deleted() {
                return Err(Error::Corrupt { block, what: "root is below the level looked for" });
            }
            let next_level = page.level() - 1;
            let place = seek.child_place(&page);
            let child = place.and_then(|place| page.entry(place)).map(|entry| entry.child);
            if let Some(place) = place {
                past(&page, place);
            }
            let parent_lsn = self.store.lsn(parent);
            self.release(parent);
            let Some(child) = child else {
                return Err(Error::Corrupt { block, what: "inner page has no child for a key between its fences" });
            };
            let child_mode = if next_level == level { mode } else { LockMode::Share };
            match self.arrive(child, seek, next_level, child_mode)? {
                Ok(pin) if next_level == level => return Ok(Ok(pin)),
                Ok(pin) => parent = pin,
                Err((child, child_lsn)) => {
                    return Ok(Err(Misstep { parent: block, parent_lsn, child, child_lsn }));
                }
            }
        }
    }

    /// The root, locked as `mode` says if it is on `level`, else shared.
    fn lock_root(&self, level: u8, mode: LockMode) -> Result<S::Pin> {
        let root = self.store.pin(ROOT)?;
        self.store.lock(root, Mode::Share);
        if mode != LockMode::Share && self.page(root)?.level() == level {
            self.store.unlock(root);
            self.mode(root, mode);
            if self.page(root)?.level() != level {
                // It grew in between.
                self.store.unlock(root);
                self.store.lock(root, Mode::Share);
            }
        }
        Ok(root)
    }
}
