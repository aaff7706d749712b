//! The tree: a B-link tree with fences (docs/design.md, 5). docs/protocols.md has every locking argument in prose.
//!
//! Content locks are taken left to right on a level, then upwards; nothing waits for a lower level's lock while it
//! holds a higher one's. Whoever arrives at a page checks, under its lock, that it is live, on the level looked for and
//! has the key between its fences (I5), or a leaf between two of its entries: then it is the right page, however it was
//! reached.

mod batch;
pub mod check;
mod dead_tids;
mod insert;
pub mod load;
mod map;
mod removal;
mod siblings;
pub mod sizing;
mod truncate;
mod unique;
mod vacuum;

pub use batch::Batch;
pub use dead_tids::DeadTids;
pub use insert::InsertOptions;
pub use map::{Group, LevelMap};
pub use truncate::FileEnd;
pub use unique::Verdict;
pub use vacuum::VacuumStats;

use crate::format::{Block, Error, Geometry, Mark, Position, ROOT, Result, is_link};
use crate::log::Change;
use crate::page::{KeySpace, Page, Side};
use crate::store::{Frames, LockMode, Locked, Pages, Seen, Shared, Store, Writable};

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

/// The page that a descent looks for on its target level.
pub enum Seek<'k, K: KeySpace> {
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

/// Percent of an inner page that a split leaves left, when the last page of a level splits under an ascending load.
const INNER_SPLIT_FILL: usize = 90;
/// Percent of an inner page that a build fills.
const INNER_LOAD_FILL: usize = 95;
/// Steps right up to which nobody asks whether links lead round in a circle.
const FEW_HOPS: Block = 100;

/// A page that was looked for, or the block and LSN of one that turned out to be another.
type Arrived<'s, S, M> = core::result::Result<Locked<'s, S, M>, (Block, u64)>;

/// The root, locked.
enum Root<'s, S: Frames, M> {
    /// It is on the level looked for.
    There(Locked<'s, S, M>),
    /// It is above that level.
    Above(Locked<'s, S, Shared>),
}

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

    /// Whether a leaf is the one looked for, as its entries show, where they are to be asked anyway and every question
    /// is costly. If not, its fences say more.
    #[inline]
    fn is_enclosed(self, page: &Page<'_, K>) -> bool {
        let (Seek::At(key) | Seek::Before(key)) = self;
        K::is_guessed(key) && !page.is_deleted() && page.level() == 0 && page.encloses(key)
    }

    /// The mark by which the page looked for may be known.
    #[inline]
    fn mark(self) -> Mark {
        let (Seek::At(key) | Seek::Before(key)) = self;
        K::mark(key)
    }

    /// Where in an inner page the way to it goes on.
    pub(crate) fn child_place(self, page: &Page<'_, K>) -> Option<Position> {
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

impl<'t, S: Store, K: KeySpace> Tree<'t, S, K> {
    /// The index in `store` with pages of this geometry.
    pub fn new(store: &'t S, geometry: &'t Geometry) -> Self {
        Tree::ordered(store, geometry, K::Order::default())
    }

    /// The index in `store` with pages of this geometry, where comparing keys takes more than their bytes.
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
    pub fn page<'p, M: LockMode>(&self, locked: &'p Locked<'_, S, M>) -> Result<Page<'p, K>>
    where
        't: 'p,
    {
        Page::open(locked.bytes(), self.geometry, locked.block())
    }

    /// Pins and locks a page.
    pub fn lock<M: LockMode>(&self, block: Block) -> Result<Locked<'t, S, M>> {
        Ok(self.store.pin(block)?.lock(self.store))
    }

    /// Makes a change of these pages, in lock order. Locks and pins stay.
    #[inline(always)]
    fn commit<const N: usize>(&self, pages: [Option<Writable<'_, S>>; N], change: &Change<'_>) {
        let pages: Pages<'_, S> = pages.into_iter().flatten().collect();
        self.store.commit(&pages, change);
    }

    /// The root's level: levels in the tree, less one. Leaves nothing pinned or locked.
    pub fn root_level(&self) -> Result<u8> {
        let root = self.lock::<Shared>(ROOT)?;
        let level = self.page(&root)?.level();
        root.release();
        Ok(level)
    }

    /// The leaf looked for, pinned and share-locked. Nothing is locked on entry.
    pub fn leaf(&self, seek: Seek<'_, K>) -> Result<Locked<'t, S, Shared>> {
        self.find_leaf(seek)
    }

    /// The leaf that a link leads to, pinned and share-locked; `None` if it has been deleted since. Nothing is locked on entry.
    pub fn leaf_at(&self, link: Block) -> Result<Option<Locked<'t, S, Shared>>> {
        let pinned = self.store.pin(link)?;
        self.ask_for(pinned.frame(), 0);
        let locked = pinned.lock::<Shared>(self.store);
        let page = self.page(&locked)?;
        if page.level() == 0 && !page.is_deleted() {
            return Ok(Some(locked));
        }
        locked.release();
        Ok(None)
    }

    /// The parent of the leaf looked for, pinned and share-locked; `None` if the root is a leaf.
    pub(crate) fn leaf_parent(&self, seek: Seek<'_, K>) -> Result<Option<Locked<'t, S, Shared>>> {
        // A root that is no leaf never becomes one again.
        if self.root_level()? == 0 { Ok(None) } else { self.descend(seek, 1).map(Some) }
    }

    /// Goes to `block` and right from it until the page looked for, which is pinned and locked on return. `Err` in the
    /// answer is a page that is none of these, or does not lie right of the one before it: the block and LSN where it
    /// was seen; nothing is locked then.
    #[inline]
    fn arrive<M: LockMode>(&self, mut block: Block, seek: Seek<'_, K>, level: u8) -> Result<Arrived<'t, S, M>> {
        let mut hops = 0;
        loop {
            let pinned = self.store.pin(block)?;
            self.ask_for(pinned.frame(), level);
            let locked = pinned.lock::<M>(self.store);
            match seek.arrival(&self.page(&locked)?, level) {
                Arrival::Here => return Ok(Ok(locked)),
                Arrival::Right(right) if hops < FEW_HOPS || hops < self.store.block_count() => {
                    hops += 1;
                    locked.release();
                    self.store.check_interrupts();
                    block = right;
                }
                _ => {
                    let seen = (block, locked.lsn());
                    locked.release();
                    return Ok(Err(seen));
                }
            }
        }
    }

    /// The leaf looked for, pinned and locked: where it was seen before, if it still is there, else by descent.
    #[inline]
    fn find_leaf<M: LockMode>(&self, seek: Seek<'_, K>) -> Result<Locked<'t, S, M>> {
        let seen = self.store.seen_leaf(seek.mark());
        if let Some(seen) = &seen {
            // What is known of a page that is not pinned suffices for that.
            self.ask_for(seen.frame, 0);
            if let Some(pinned) = self.store.pin_seen(seen)? {
                let leaf = pinned.lock::<M>(self.store);
                if self.as_likely_leaf(&leaf, seek).is_some() {
                    if leaf.frame() != seen.frame {
                        self.store.note_leaf(&leaf, seek.mark(), Some((seen.from, None)), None);
                    }
                    return Ok(leaf);
                }
                leaf.release();
            }
        }
        self.find_unseen_leaf(seek, seen.as_ref())
    }

    /// A locked page that is likely the leaf looked for, if it is. However near the right page may be, it is not looked
    /// for along the links: it may also be far. The file may have been cut off there and have grown again, with a page
    /// that nobody has written to yet.
    #[inline]
    fn as_likely_leaf<'p, M: LockMode>(&self, locked: &'p Locked<'_, S, M>, seek: Seek<'_, K>) -> Option<Page<'p, K>>
    where
        't: 'p,
    {
        let page = self.page(locked).ok()?;
        (seek.is_enclosed(&page) || matches!(seek.arrival(&page, 0), Arrival::Here)).then_some(page)
    }

    /// The leaf looked for by descent, pinned and locked, noting where it is. What was seen before was not it. That its
    /// parent says so, too, is as much as a descent knows: a leaf with damaged fences is not to be taken for others.
    #[cold]
    fn find_unseen_leaf<M: LockMode>(
        &self,
        seek: Seek<'_, K>,
        stale: Option<&Seen<S::Frame>>,
    ) -> Result<Locked<'t, S, M>> {
        let mut below = None;
        let leaf = self.descend_past(seek, 0, &mut |parent, place| below = self.child_marks(parent, place))?;
        let marks = below.filter(|(child, ..)| *child == leaf.block()).map(|(_, from, to)| (from, to));
        if marks.is_some() || stale.is_some() {
            self.store.note_leaf(&leaf, seek.mark(), marks, stale);
        }
        Ok(leaf)
    }

    /// A child, and by its parent the marks from which on and before which all places are its own: none of a fence's
    /// own mark, unless that says all of the fence. `None` if there are no such marks.
    fn child_marks(&self, parent: &Page<'_, K>, place: Position) -> Option<(Block, Mark, Option<Mark>)> {
        let mark = |entry| K::mark_of(K::fence_at(&entry), self.order);
        let entry = parent.entry(place)?;
        let child = entry.child;
        let (mark_before, is_told) =
            if place == Position::FIRST { K::mark_of(parent.low(), self.order) } else { mark(entry) };
        let from = if is_told { mark_before } else { mark_before.checked_add(1)? };
        let to = match parent.entry(parent.next(place)) {
            Some(next) => Some(mark(next).0),
            None => is_link(parent.right()).then(|| K::mark_of(parent.high(), self.order).0),
        };
        to.is_none_or(|to| from < to).then_some((child, from, to))
    }

    /// Asks the hardware for what a search of a page on a level begins with.
    #[inline(always)]
    fn ask_for(&self, frame: S::Frame, level: u8) {
        self.store.prefetch(frame, 0..self.geometry.front(level));
        self.store.prefetch(frame, self.geometry.back());
    }

    /// The page looked for on `level`, pinned and locked. Nothing else is locked on return; the caller may hold locks
    /// on lower levels (and then asks for no cleanup lock).
    fn descend<M: LockMode>(&self, seek: Seek<'_, K>, level: u8) -> Result<Locked<'t, S, M>> {
        self.descend_past(seek, level, &mut |_, _| {})
    }

    /// [Descends](Tree::descend); `past` is told each page on the way and where in it the way goes on, while the page
    /// is share-locked.
    fn descend_past<M: LockMode>(
        &self,
        seek: Seek<'_, K>,
        level: u8,
        past: &mut impl FnMut(&Page<'_, K>, Position),
    ) -> Result<Locked<'t, S, M>> {
        let mut before = None;
        loop {
            match self.try_descend(seek, level, past)? {
                Ok(locked) => return Ok(locked),
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

    fn try_descend<M: LockMode>(
        &self,
        seek: Seek<'_, K>,
        level: u8,
        past: &mut impl FnMut(&Page<'_, K>, Position),
    ) -> Result<core::result::Result<Locked<'t, S, M>, Misstep>> {
        let mut parent = match self.lock_root::<M>(level)? {
            Root::Above(parent) => parent,
            Root::There(root) => match seek.arrival(&self.page(&root)?, level) {
                // Any other page was checked where it was reached.
                Arrival::Here => return Ok(Ok(root)),
                _ => {
                    return Err(Error::Corrupt { block: ROOT, what: "root does not have all keys between its fences" });
                }
            },
        };
        loop {
            let page = self.page(&parent)?;
            let block = parent.block();
            if page.level() <= level || page.is_deleted() {
                return Err(Error::Corrupt { block, what: "root is below the level looked for" });
            }
            let next_level = page.level() - 1;
            let place = seek.child_place(&page);
            let child = place.and_then(|place| page.entry(place)).map(|entry| entry.child);
            if let Some(place) = place {
                past(&page, place);
            }
            let parent_lsn = parent.lsn();
            parent.release();
            let Some(child) = child else {
                return Err(Error::Corrupt { block, what: "inner page has no child for a key between its fences" });
            };
            let misstep = |(child, child_lsn)| Misstep { parent: block, parent_lsn, child, child_lsn };
            if next_level == level {
                return Ok(self.arrive(child, seek, level)?.map_err(misstep));
            }
            match self.arrive(child, seek, next_level)? {
                Ok(locked) => parent = locked,
                Err(seen) => return Ok(Err(misstep(seen))),
            }
        }
    }

    /// The root, locked as asked for if it is on `level`, else shared.
    fn lock_root<M: LockMode>(&self, level: u8) -> Result<Root<'t, S, M>> {
        let root = self.lock::<Shared>(ROOT)?;
        if self.page(&root)?.level() != level {
            return Ok(Root::Above(root));
        }
        let root = root.relock::<M>();
        if self.page(&root)?.level() == level {
            return Ok(Root::There(root));
        }
        // It grew in between.
        Ok(Root::Above(root.relock()))
    }
}
