//! Key spaces: what keys are, how pages hold them, and how splits cut them. Exact lanes are a key space each; [`Bytes`]
//! is that of byte strings.

use super::*;
use core::cmp::Ordering;
use core::fmt::Debug;

/// One of a page's two fences.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Inclusive.
    Low,
    /// Exclusive.
    High,
}

/// What keys are. `u32`, `u64` and `u128` are key spaces, of keys that are lanes.
pub trait Keys: Copy + Debug + Sized + 'static {
    /// What in-page nodes are searched by.
    type Lane: Lane;
    /// How keys are compared beyond what their bytes say.
    type Order<'o>: Copy + Default;
    /// A place in key order to be looked for.
    type Key<'k>: Copy;
    /// The key of an entry as a page has it, less the TID.
    type Stored<'a>: Copy + Debug;
    /// A fence as a page has it.
    type Fence<'a>: Copy;
    /// A place with memory of its own.
    type OwnedKey: Copy + Debug;
    /// Before all keys.
    const FIRST: Self::OwnedKey;
    /// Behind all keys.
    const LAST: Self::OwnedKey;
    /// A kept place to become another: making it costs next to nothing.
    fn fresh() -> Self::OwnedKey;
    /// Makes one in memory that holds anything.
    ///
    /// # Safety
    /// The memory may be written.
    unsafe fn init(place: *mut Self::OwnedKey) {
        // SAFETY: the memory may be written.
        unsafe { place.write(Self::fresh()) };
    }
    /// Before all keys.
    fn first() -> &'static Self::OwnedKey;
    /// Behind all keys.
    fn last() -> &'static Self::OwnedKey;
    /// Whether pages of this kind are this key space's.
    fn is_kind(kind: LaneKind) -> bool;
    /// A kept place as one to look for.
    fn borrow<'k, 'o: 'k>(kept: &'k Self::OwnedKey, order: Self::Order<'o>) -> Self::Key<'k>;
    /// A kept place as a fence.
    fn fence_of(kept: &Self::OwnedKey) -> Self::Fence<'_>;
    /// The fence that an inner page's entry is.
    fn fence_at<'f, 'e: 'f>(inner: &Entry<'e, Self>) -> Self::Fence<'f>;
    /// A kept place as an inner page's entry.
    fn downlink(kept: &Self::OwnedKey, child: Block) -> Entry<'_, Self>;
    /// Copies a place, and no more memory than it uses.
    fn copy(into: &mut Self::OwnedKey, from: &Self::OwnedKey);
    /// Keeps a fence.
    fn set_to_fence(into: &mut Self::OwnedKey, fence: Self::Fence<'_>);
    /// Keeps an entry's key. `None` if the entry is damaged.
    fn set_to_key(into: &mut Self::OwnedKey, entry: &Entry<'_, Self>, order: Self::Order<'_>) -> Option<()>;
    /// The key of an entry that is in one piece: one that comes from outside a page.
    fn key_of<'k, 'e: 'k, 'o: 'k>(entry: &Entry<'e, Self>, order: Self::Order<'o>) -> Self::Key<'k>;
    /// An entry for a shorter lifetime.
    fn shorten<'s, 'l: 's>(entry: Entry<'l, Self>) -> Entry<'s, Self>;
    /// Whether an entry's key is a fence, image for image.
    fn is_fence(entry: &Entry<'_, Self>, fence: Self::Fence<'_>) -> bool;
    /// Whether two fences are the same.
    fn same_fence(a: Self::Fence<'_>, b: Self::Fence<'_>) -> bool;
    /// Takes a kept key to the place right behind it.
    fn step(kept: &mut Self::OwnedKey);
    /// Whether two kept places are the same.
    fn same(a: &Self::OwnedKey, b: &Self::OwnedKey) -> bool;
    /// The mark of a place: where it is in key order, as far as its bits tell. Nobody trusts it: it may be a hint.
    fn mark(key: Self::Key<'_>) -> Mark;
    /// What a place has in common with others nearby: entries that arrive in order often share it.
    fn stretch(key: Self::Key<'_>) -> u64;
    /// The mark of a fence, and whether no place before the fence has the same.
    fn mark_of(fence: Self::Fence<'_>, order: Self::Order<'_>) -> (Mark, bool);
    /// Whether the place is before all entries of its lane.
    fn begins_lane(key: Self::Key<'_>) -> bool;
    /// What breaks the place's ties with entries that have the same key.
    fn tid(key: Self::Key<'_>) -> Tid;
    /// How the place is ordered against an entry.
    fn compare_entry(key: Self::Key<'_>, entry: &Entry<'_, Self>) -> Ordering;
    /// Whether entries of a page have the same key, their TIDs aside.
    fn same_key(a: &Self::Stored<'_>, b: &Self::Stored<'_>) -> bool;
}

/// How pages hold keys, and compare them.
pub trait PageKeys: Keys {
    /// What a search of a page can guess by, where comparing is costly.
    type Guess: Copy;

    /// By what a search of a page for a place guesses, if it does. What comes of it has to be proved.
    #[inline(always)]
    fn guess(_key: Self::Key<'_>, _page: &Page<'_, Self>) -> Option<Self::Guess> {
        None
    }

    /// Notes whether a place that was guessed was right.
    #[inline(always)]
    fn note_guess(_key: Self::Key<'_>, _is_proved: bool) {}

    /// Whether comparing with a fence is costly, and a place in a page is guessed.
    #[inline(always)]
    fn is_guessed(_key: Self::Key<'_>) -> bool {
        false
    }

    /// Where in a page a place was found last, if that is remembered because it was costly. It has to be proved.
    #[inline(always)]
    fn remembered(_key: Self::Key<'_>, _page: &Page<'_, Self>) -> Option<Position> {
        None
    }

    /// Notes where in a page a place was found.
    #[inline(always)]
    fn note_place(_key: Self::Key<'_>, _page: &Page<'_, Self>, _place: Position) {}

    /// Whether a place is first looked for behind all entries that its lane ties with: new rows mostly belong there.
    #[inline(always)]
    fn expects_end(_key: Self::Key<'_>, _page: &Page<'_, Self>) -> bool {
        true
    }

    /// What [`compare_head`](PageKeys::compare_head) is guessed to say.
    fn guess_head(key: Self::Key<'_>, guess: Self::Guess, node: &Node<'_, Self>, head: usize) -> Ordering;

    /// A page's fence.
    fn fence<'a>(page: &Page<'a, Self>, side: Side) -> Self::Fence<'a>;
    /// How a place is ordered against a page's fence.
    fn compare_fence(key: Self::Key<'_>, page: &Page<'_, Self>, side: Side) -> Ordering;
    /// What the place's lane is in a page; the error is for a place before or behind everything that may be there.
    fn lane_in(key: Self::Key<'_>, page: &Page<'_, Self>) -> core::result::Result<Self::Lane, Ordering>;
    /// How the place is ordered against the entries of a head, where their lanes are the same: equal if it takes TIDs to
    /// tell.
    fn compare_head(key: Self::Key<'_>, node: &Node<'_, Self>, head: usize) -> Ordering;
    /// The key of a node's head.
    fn stored<'a>(node: &Node<'a, Self>, head: usize) -> Self::Stored<'a>;
    /// What an entry from outside that belongs at `place` has in a page beside its TID: its lane and its cell, which is
    /// that of an equal entry if one is beside the place.
    fn parts<'e>(page: &Page<'_, Self>, place: Position, entry: &Entry<'e, Self>) -> (Self::Lane, Cell<'e>);
    /// How many bytes more the page's cells take when it is repacked because an entry with this cell is put at `place`:
    /// those of the cell that the entries around it share, if it parts them.
    fn parted(_page: &Page<'_, Self>, _place: Position, _cell: Cell<'_>) -> usize {
        0
    }
    /// Whether what a page's searches begin with agrees with its fences, as far as a look at each visit can tell.
    #[inline]
    fn is_bounded(_page: &Page<'_, Self>) -> bool {
        true
    }
    /// Checks what is this key space's own in a page's header.
    fn verify_header(page: &Page<'_, Self>) -> core::result::Result<(), Flaw>;
    /// Checks one leaf entry by itself.
    fn verify_entry(entry: &Entry<'_, Self>, ranks: Option<bool>) -> core::result::Result<(), Flaw>;
}

/// How pages are built of entries, and split.
pub trait PageSplits: PageKeys {
    /// Where to split a page that is to have these entries, and the fence between the halves: near the place aimed at,
    /// there where the fence is short.
    fn choose_split(entries: &Joined<'_, Self>, aim: Aim, order: Self::Order<'_>, fence: &mut Self::OwnedKey) -> usize;
    /// A new page of these entries; `None` if they do not fit.
    fn build<'a>(
        geometry: &Geometry,
        links: &Links<'_, Self>,
        total: usize,
        entries: impl Iterator<Item = Entry<'a, Self>> + Clone,
    ) -> Option<PageBytes>;
    /// A new page of a page's entries but for the first `skip`; `None` if it takes [`build`](PageSplits::build).
    fn right_half(
        page: &Page<'_, Self>,
        geometry: &Geometry,
        links: &Links<'_, Self>,
        skip: usize,
    ) -> Option<PageBytes>;
    /// The edit that leaves a page its first `keep` entries, between its low fence and another high one; `None` if that
    /// cannot be said but by the page that it makes. `arrangement` is memory for it.
    fn halve<'e>(
        page: &Page<'_, Self>,
        keep: usize,
        right: Block,
        high: &'e Self::OwnedKey,
        arrangement: &'e mut Arrangement,
    ) -> Option<Edit<'e>>;
    /// The page that a leaf's right neighbour becomes with the entries of both; `None` if they do not fit.
    fn joined(page: &Page<'_, Self>, beside: &Page<'_, Self>, geometry: &Geometry) -> Option<PageBytes> {
        let links = Links {
            level: 0,
            left: page.left(),
            right: beside.right(),
            low: page.low(),
            high: beside.high(),
            fill: Links::<Self>::HALF,
        };
        let entries = page.iter().chain(beside.iter());
        let mut joined = Self::build(geometry, &links, page.entries() + beside.entries(), entries)?;
        joined[at::FLAGS] = beside.bytes[at::FLAGS];
        Some(joined)
    }
    /// The edit that lowers a page's low fence; `None` if the page has no room for that. `image` is memory for it.
    fn lower<'e>(
        page: &Page<'_, Self>,
        geometry: &Geometry,
        low: Self::Fence<'_>,
        left: Block,
        image: &'e mut PageBytes,
    ) -> Option<Edit<'e>>;
}

/// A key space: what keys are, how pages hold them, and how splits cut them.
pub trait KeySpace: PageSplits {}

impl<K: PageSplits> KeySpace for K {}
