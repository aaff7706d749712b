//! What a comparison function said last, and where that led. On the way down a tree the same question is asked again and
//! again: a page's fences are images of the separators that led to it, and a search comes back to the entries it stopped
//! between, and to their page.

use core::cell::RefCell;
use core::cmp::Ordering;

use fpbtree_engine::format::Position;
use fpbtree_engine::keys::digits::Buffer;

/// Longest value remembered: copying and finding it must cost less than the function.
const MOST: usize = 128;

/// Answers about the value that was asked about last: the nearest on either side of it, as a search narrows down to it.
pub struct CompareCache(RefCell<Nearest>);

struct Nearest {
    column: usize,
    value: Buffer<MOST>,
    /// What the value was ordered behind last.
    before: Buffer<MOST>,
    /// What the value was ordered before last.
    behind: Buffer<MOST>,
}

/// One that remembers nothing, which takes less time than to copy it.
impl Clone for CompareCache {
    fn clone(&self) -> Self {
        CompareCache::new()
    }
}

/// One that remembers nothing.
impl Clone for PlaceCache {
    fn clone(&self) -> Self {
        PlaceCache::new()
    }
}

impl CompareCache {
    /// None yet.
    pub const fn new() -> CompareCache {
        let kept = Nearest { column: 0, value: Buffer::new(), before: Buffer::new(), behind: Buffer::new() };
        CompareCache(RefCell::new(kept))
    }

    /// How `a`, of `column`, is ordered against `b`, if that is remembered. Neither is empty.
    #[inline]
    pub fn find(&self, column: usize, a: &[u8], b: &[u8]) -> Option<Ordering> {
        let kept = self.0.borrow();
        let order = match () {
            () if kept.before.as_slice() == b => Ordering::Greater,
            () if kept.behind.as_slice() == b => Ordering::Less,
            () => return None,
        };
        (kept.column == column && kept.value.as_slice() == a).then_some(order)
    }

    /// Remembers an answer.
    #[inline]
    pub fn note(&self, column: usize, a: &[u8], b: &[u8], order: Ordering) {
        if a.len().max(b.len()) > MOST {
            return;
        }
        let mut kept = self.0.borrow_mut();
        if kept.column != column || kept.value.as_slice() != a {
            (kept.column, kept.value) = (column, copy(a));
            kept.before.clear();
            kept.behind.clear();
        }
        match order {
            Ordering::Greater => kept.before = copy(b),
            Ordering::Less => kept.behind = copy(b),
            Ordering::Equal => {}
        }
    }
}

/// Where a value was found last.
pub struct PlaceCache(RefCell<LastPlace>);

struct LastPlace {
    value: Buffer<MOST>,
    /// The page's address, 0 for none.
    page: usize,
    place: Position,
}

impl PlaceCache {
    /// Nowhere yet.
    pub const fn new() -> PlaceCache {
        PlaceCache(RefCell::new(LastPlace { value: Buffer::new(), page: 0, place: Position::FIRST }))
    }

    /// Where the value was in the page at an address, if that was the last.
    #[inline]
    pub fn find(&self, value: &[u8], page: usize) -> Option<Position> {
        let last = self.0.borrow();
        (last.page == page && last.value.as_slice() == value).then_some(last.place)
    }

    /// Remembers a place.
    #[inline]
    pub fn note(&self, value: &[u8], page: usize, place: Position) {
        if value.len() <= MOST {
            *self.0.borrow_mut() = LastPlace { value: copy(value), page, place };
        }
    }
}

fn copy(bytes: &[u8]) -> Buffer<MOST> {
    let mut copy = Buffer::new();
    copy.put(bytes);
    copy
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_are_remembered() {
        let cache = CompareCache::new();
        assert_eq!(cache.find(0, b"m", b"c"), None);
        for (b, order) in [(b"c", Ordering::Greater), (b"t", Ordering::Less), (b"d", Ordering::Greater)] {
            cache.note(0, b"m", b, order);
            assert_eq!(cache.find(0, b"m", b), Some(order));
        }
        assert_eq!(cache.find(0, b"m", b"t"), Some(Ordering::Less));
        assert_eq!(cache.find(0, b"m", b"c"), None);
        assert_eq!(cache.find(0, b"n", b"d"), None);
        assert_eq!(cache.find(1, b"m", b"d"), None);
    }

    #[test]
    fn another_value_or_column_begins_anew() {
        let cache = CompareCache::new();
        cache.note(0, b"m", b"c", Ordering::Greater);
        cache.note(0, b"b", b"t", Ordering::Less);
        assert_eq!(cache.find(0, b"b", b"c"), None);
        cache.note(1, b"b", b"a", Ordering::Greater);
        assert_eq!(cache.find(1, b"b", b"t"), None);
        assert_eq!(cache.find(0, b"b", b"t"), None);
    }

    #[test]
    fn the_last_place_is_remembered() {
        let (cache, place) = (PlaceCache::new(), Position { node: 3, slot: 7 });
        assert_eq!(cache.find(b"m", 64), None);
        cache.note(b"m", 64, place);
        assert_eq!(cache.find(b"m", 64), Some(place));
        assert_eq!(cache.find(b"m", 128), None);
        assert_eq!(cache.find(b"n", 64), None);
        cache.note(&[b'x'; MOST + 1], 64, Position::FIRST);
        assert_eq!(cache.find(b"m", 64), Some(place));
        cache.note(b"n", 128, Position::FIRST);
        assert_eq!(cache.find(b"m", 64), None);
    }

    #[test]
    fn long_values_are_not_remembered() {
        let (cache, long) = (CompareCache::new(), [b'x'; MOST + 1]);
        cache.note(0, b"m", b"c", Ordering::Greater);
        cache.note(0, &long, b"c", Ordering::Less);
        cache.note(0, b"m", &long, Ordering::Less);
        assert_eq!(cache.find(0, &long, b"c"), None);
        assert_eq!(cache.find(0, b"m", &long), None);
        assert_eq!(cache.find(0, b"m", b"c"), Some(Ordering::Greater));
    }
}
