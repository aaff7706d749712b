//! The tree: a B-link tree with fences (docs/design.md, 5). `docs/design.md` has every locking argument in prose.
//!
//! Content locks are taken left to right on a level, then upwards; nothing waits for a lower level's lock while it
//! holds a higher one's. Whoever arrives at a page checks, under its lock, that it is live, on the level looked for and
//! has the key between its fences (I5): then it is the right page, however it was reached.

mod insert;
pub mod load;
mod vacuum;
pub mod verify;

pub use vacuum::VacuumStats;

use crate::key::{Key, Lane};
use crate::page::{Geometry, Page, is_link};
use crate::store::{Block, Error, Mode, PageStore, ROOT, Result};
use core::marker::PhantomData;

/// An index: pages in a store, laid out by a geometry, keyed by lanes of type `L`.
pub struct Tree<'t, S, L> {
    store: &'t S,
    geometry: &'t Geometry,
    lane: PhantomData<L>,
}

impl<S, L> Clone for Tree<'_, S, L> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S, L> Copy for Tree<'_, S, L> {}

/// What a descent looks for on its target level.
#[derive(Clone, Copy)]
enum Seek<L> {
    /// The page whose fences contain the key.
    At(Key<L>),
    /// The page that holds the keys just before this one: `low < key <= high`.
    Before(Key<L>),
}

/// How the target page is locked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grip {
    Share,
    Exclusive,
    /// Exclusive, with no other pin on the page.
    Cleanup,
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

impl<L: Lane> Seek<L> {
    fn arrival(self, page: &Page<'_, L>, level: u8) -> Arrival {
        if page.is_deleted() || page.level() != level {
            return Arrival::Stale;
        }
        let (left_of_it, beyond) = match self {
            Seek::At(key) => (key < page.low(), key >= page.high() && is_link(page.right())),
            Seek::Before(key) => (key <= page.low(), key > page.high() && is_link(page.right())),
        };
        match (left_of_it, beyond) {
            (true, _) => Arrival::Stale,
            (_, true) => Arrival::Right(page.right()),
            _ => Arrival::Here,
        }
    }

    fn child(self, page: &Page<'_, L>) -> Option<Block> {
        match self {
            Seek::At(key) => page.child_for(key),
            Seek::Before(key) => page.child_before(key),
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

impl<'t, S: PageStore, L: Lane> Tree<'t, S, L> {
    /// The index in `store` with pages of this geometry.
    pub fn new(store: &'t S, geometry: &'t Geometry) -> Self {
        Tree { store, geometry, lane: PhantomData }
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
    pub fn page(&self, pin: S::Pin) -> Result<Page<'t, L>> {
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
    pub fn leaf_for(&self, key: Key<L>) -> Result<S::Pin> {
        self.descend(Seek::At(key), 0, Grip::Share)
    }

    /// The leaf that holds the keys just before `key`, pinned and share-locked.
    pub fn leaf_before(&self, key: Key<L>) -> Result<S::Pin> {
        self.descend(Seek::Before(key), 0, Grip::Share)
    }

    /// `hint`, if it is the leaf whose fences contain `key`, or a page right of it that is; else by descent. Pinned and
    /// share-locked.
    pub fn leaf_for_via(&self, hint: Block, key: Key<L>) -> Result<S::Pin> {
        match self.arrive(hint, Seek::At(key), 0, Grip::Share)? {
            Ok(pin) => Ok(pin),
            Err(_) => self.leaf_for(key),
        }
    }

    /// `hint`, if it is the leaf that holds the keys just before `key`, or a page right of it that is; else by descent.
    /// Pinned and share-locked.
    pub fn leaf_before_via(&self, hint: Block, key: Key<L>) -> Result<S::Pin> {
        match self.arrive(hint, Seek::Before(key), 0, Grip::Share)? {
            Ok(pin) => Ok(pin),
            Err(_) => self.leaf_before(key),
        }
    }

    fn grip(&self, pin: S::Pin, grip: Grip) {
        match grip {
            Grip::Share => self.store.lock(pin, Mode::Share),
            Grip::Exclusive => self.store.lock(pin, Mode::Exclusive),
            Grip::Cleanup => self.store.lock_cleanup(pin),
        }
    }

    /// Goes to `block` and right from it until the page looked for. `Err` in the answer is a page that is none of
    /// these, or does not lie right of the one before it: the block and LSN where it was seen; nothing is held then.
    #[inline]
    fn arrive(
        &self,
        mut block: Block,
        seek: Seek<L>,
        level: u8,
        grip: Grip,
    ) -> Result<core::result::Result<S::Pin, (Block, u64)>> {
        let mut passed = Key::MIN;
        loop {
            let pin = self.store.pin(block)?;
            self.store.prefetch(pin, self.geometry.front(level));
            self.grip(pin, grip);
            let page = self.page(pin)?;
            match seek.arrival(&page, level) {
                Arrival::Here => return Ok(Ok(pin)),
                Arrival::Right(right) if page.high() > passed => {
                    passed = page.high();
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

    /// The page looked for on `level`, pinned and locked as `grip` says. Nothing else is locked on return; the caller
    /// may hold locks on lower levels (and then asks for no cleanup lock).
    fn descend(&self, seek: Seek<L>, level: u8, grip: Grip) -> Result<S::Pin> {
        let mut before = None;
        loop {
            match self.try_descend(seek, level, grip)? {
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

    fn try_descend(&self, seek: Seek<L>, level: u8, grip: Grip) -> Result<core::result::Result<S::Pin, Misstep>> {
        let mut parent = self.lock_root(level, grip)?;
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
            let child = seek.child(&page);
            let parent_lsn = self.store.lsn(parent);
            self.release(parent);
            let Some(child) = child else {
                return Err(Error::Corrupt { block, what: "inner page has no child for a key between its fences" });
            };
            let child_grip = if next_level == level { grip } else { Grip::Share };
            match self.arrive(child, seek, next_level, child_grip)? {
                Ok(pin) if next_level == level => return Ok(Ok(pin)),
                Ok(pin) => parent = pin,
                Err((child, child_lsn)) => {
                    return Ok(Err(Misstep { parent: block, parent_lsn, child, child_lsn }));
                }
            }
        }
    }

    /// The root, locked as `grip` says if it is on `level`, else shared.
    fn lock_root(&self, level: u8, grip: Grip) -> Result<S::Pin> {
        let root = self.store.pin(ROOT)?;
        self.store.lock(root, Mode::Share);
        if grip != Grip::Share && self.page(root)?.level() == level {
            self.store.unlock(root);
            self.grip(root, grip);
            if self.page(root)?.level() != level {
                // It grew in between.
                self.store.unlock(root);
                self.store.lock(root, Mode::Share);
            }
        }
        Ok(root)
    }
}
