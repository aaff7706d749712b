//! What a scan looks for: ranges of keys, and which way it goes through them.

use crate::page::KeySpace;
use crate::tree::Seek;

/// Which way a scan goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Ascending in index order.
    Forward,
    /// Descending.
    Backward,
}

impl Direction {
    pub fn opposite(self) -> Self {
        match self {
            Direction::Forward => Direction::Backward,
            Direction::Backward => Direction::Forward,
        }
    }

    /// The page that a scan comes to at a place: the one with what is behind it, backward with what is before it.
    #[inline]
    pub(super) fn seek<K: KeySpace>(self, place: K::Key<'_>) -> Seek<'_, K> {
        match self {
            Direction::Forward => Seek::At(place),
            Direction::Backward => Seek::Before(place),
        }
    }
}

/// A range of keys in which every key is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Range<K: KeySpace> {
    /// The place it begins at.
    pub first: K::OwnedKey,
    /// The place it ends before.
    pub after: K::OwnedKey,
}

impl<K: KeySpace> Range<K> {
    /// A range to become another.
    #[inline(always)]
    pub fn fresh() -> Self {
        Range { first: K::fresh(), after: K::fresh() }
    }

    /// The end that a scan comes to first, to be set.
    pub(super) fn near_end_mut(&mut self, direction: Direction) -> &mut K::OwnedKey {
        match direction {
            Direction::Forward => &mut self.first,
            Direction::Backward => &mut self.after,
        }
    }

    /// The end that a scan comes to last, to be set.
    pub(super) fn far_end_mut(&mut self, direction: Direction) -> &mut K::OwnedKey {
        self.near_end_mut(direction.opposite())
    }

    /// The end that a scan comes to last.
    #[inline]
    pub(super) fn far_end(&self, direction: Direction) -> &K::OwnedKey {
        self.near_end(direction.opposite())
    }

    /// The end that a scan comes to first.
    #[inline]
    pub(super) fn near_end(&self, direction: Direction) -> &K::OwnedKey {
        match direction {
            Direction::Forward => &self.first,
            Direction::Backward => &self.after,
        }
    }
}

/// What a scan looks for: ranges of keys, asked for one after the other. `out` is the answer where it is `true`; it may
/// be written to where it is not. Neither keeps what it is given.
pub trait Wanted<K: KeySpace> {
    /// The first range of wanted keys that begins at or after a place, or what is left from the place on of the one it
    /// is in.
    fn at_or_after(&self, place: &K::OwnedKey, out: &mut Range<K>) -> bool;
    /// The last range of wanted keys that ends at or before a place, or what is left before the place of the one it is
    /// in.
    fn before(&self, place: &K::OwnedKey, out: &mut Range<K>) -> bool;
    /// The next range from a place on that a scan comes to.
    #[inline(always)]
    fn next(&self, direction: Direction, place: &K::OwnedKey, out: &mut Range<K>) -> bool {
        match direction {
            Direction::Forward => self.at_or_after(place, out),
            Direction::Backward => self.before(place, out),
        }
    }
    /// Whether all that is wanted is one range: there is no other behind one that was found.
    fn is_one_range(&self) -> bool {
        false
    }
    /// The rank that only NULLs have, in an index of one column on exact lanes; else one that no entry has.
    fn null_rank(&self) -> bool;
    /// Whether the keys of matches are wanted, not only where their rows are.
    fn wants_keys(&self) -> bool;
}

/// All keys.
#[derive(Clone, Copy)]
pub struct Everything;

impl<K: KeySpace> Wanted<K> for Everything {
    fn at_or_after(&self, place: &K::OwnedKey, out: &mut Range<K>) -> bool {
        K::copy(&mut out.first, place);
        K::copy(&mut out.after, K::last());
        !K::same(place, K::last())
    }

    fn before(&self, place: &K::OwnedKey, out: &mut Range<K>) -> bool {
        K::copy(&mut out.first, K::first());
        K::copy(&mut out.after, place);
        !K::same(place, K::first())
    }

    fn null_rank(&self) -> bool {
        true
    }

    fn wants_keys(&self) -> bool {
        false
    }
}

/// The keys that another scan looks for, when only where their rows are is wanted.
pub struct RowsOf<'w, W>(pub &'w W);

impl<K: KeySpace, W: Wanted<K>> Wanted<K> for RowsOf<'_, W> {
    fn at_or_after(&self, place: &K::OwnedKey, out: &mut Range<K>) -> bool {
        self.0.at_or_after(place, out)
    }

    fn before(&self, place: &K::OwnedKey, out: &mut Range<K>) -> bool {
        self.0.before(place, out)
    }

    fn is_one_range(&self) -> bool {
        self.0.is_one_range()
    }

    fn null_rank(&self) -> bool {
        self.0.null_rank()
    }

    fn wants_keys(&self) -> bool {
        false
    }
}

/// Where a scan that goes this way begins.
pub(super) fn start<K: KeySpace>(direction: Direction) -> &'static K::OwnedKey {
    match direction {
        Direction::Forward => K::first(),
        Direction::Backward => K::last(),
    }
}
