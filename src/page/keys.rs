//! Key spaces: what a page needs to know of its keys. Exact lanes are a key space each; [`Long`] is that of byte strings.

use super::arrange::Arrangement;
use super::split::{outward, reach_of_changes};
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

/// What keys are, and how pages hold and compare them. `u32`, `u64` and `u128` are key spaces, of keys that are lanes.
pub trait KeySpace: Copy + Debug + Sized + 'static {
    /// What in-page nodes are searched by.
    type Lane: Lane;
    /// How keys are compared beyond what their bytes say.
    type Order<'o>: Copy + Default;
    /// A place in key order to be looked for.
    type Key<'k>: Copy;
    /// The key of an entry as a page has it, less the tail.
    type Stored<'a>: Copy + Debug;
    /// A fence as a page has it.
    type Fence<'a>: Copy;
    /// A place with memory of its own.
    type Kept: Copy + Debug;

    /// Before all keys.
    const FIRST: Self::Kept;
    /// Behind all keys.
    const LAST: Self::Kept;

    /// A kept place to become another: making it costs next to nothing.
    fn fresh() -> Self::Kept;
    /// Before all keys.
    fn first() -> &'static Self::Kept;
    /// Behind all keys.
    fn last() -> &'static Self::Kept;

    /// Whether pages of this kind are this key space's.
    fn is_kind(kind: LaneKind) -> bool;
    /// A kept place as one to look for.
    fn lend<'k, 'o: 'k>(kept: &'k Self::Kept, order: Self::Order<'o>) -> Self::Key<'k>;
    /// A kept place as a fence.
    fn fence_of(kept: &Self::Kept) -> Self::Fence<'_>;
    /// A kept place as an inner page's entry.
    fn downlink(kept: &Self::Kept, child: Block) -> Entry<'_, Self>;
    /// Copies a place, and no more memory than it uses.
    fn assign(into: &mut Self::Kept, from: &Self::Kept);
    /// Keeps a fence.
    fn keep(into: &mut Self::Kept, fence: Self::Fence<'_>);
    /// Keeps an entry's key. `None` if the entry is damaged.
    fn keep_key(into: &mut Self::Kept, entry: &Entry<'_, Self>, order: Self::Order<'_>) -> Option<()>;
    /// The key of an entry that is in one piece: one that comes from outside a page.
    fn key_of<'k, 'e: 'k, 'o: 'k>(entry: &Entry<'e, Self>, order: Self::Order<'o>) -> Self::Key<'k>;
    /// The same entry, for not as long.
    fn shorten<'s, 'l: 's>(entry: Entry<'l, Self>) -> Entry<'s, Self>;
    /// Whether an entry's key is a fence, image for image.
    fn is_fence(entry: &Entry<'_, Self>, fence: Self::Fence<'_>) -> bool;
    /// Whether two fences are the same.
    fn same_fence(a: Self::Fence<'_>, b: Self::Fence<'_>) -> bool;
    /// Takes a kept key to the place right behind it.
    fn step(kept: &mut Self::Kept);
    /// Whether two kept places are the same.
    fn same(a: &Self::Kept, b: &Self::Kept) -> bool;

    /// The mark of a place: where it is in key order, as far as 64 bits tell.
    fn mark(key: Self::Key<'_>) -> u64;
    /// The mark of a fence, and whether no place before the fence has the same.
    fn mark_of(fence: Self::Fence<'_>) -> (u64, bool);

    /// A page's fence.
    fn fence<'a>(page: &Page<'a, Self>, side: Side) -> Self::Fence<'a>;
    /// How a place is ordered against a page's fence.
    fn compare_fence(key: Self::Key<'_>, page: &Page<'_, Self>, side: Side) -> Ordering;
    /// What the place's lane is in a page; the error is for a place before or behind everything that may be there.
    fn lane_in(key: Self::Key<'_>, page: &Page<'_, Self>) -> core::result::Result<Self::Lane, Ordering>;
    /// Whether the place is before all entries of its lane.
    fn begins_lane(key: Self::Key<'_>) -> bool;
    /// How the place is ordered against the entry in a slot of a node, where their lanes are the same.
    fn compare_tied(key: Self::Key<'_>, node: &Node<'_, Self>, slot: usize) -> Ordering;
    /// How the place is ordered against the entries of a run, where their lanes are the same: equal if it takes tails to
    /// tell.
    fn compare_head(key: Self::Key<'_>, run: &Node<'_, Self>) -> Ordering;
    /// What breaks the place's ties with entries that have the same key.
    fn tail(key: Self::Key<'_>) -> Tail;
    /// How the place is ordered against an entry.
    fn compare_entry(key: Self::Key<'_>, entry: &Entry<'_, Self>) -> Ordering;
    /// The key of the entry in a slot of a node.
    fn stored<'a>(node: &Node<'a, Self>, slot: usize) -> Self::Stored<'a>;

    /// What an entry from outside that belongs at `place` has in a page beside its tail: its lane and its cell, which is
    /// that of an equal entry if one is beside the place.
    fn parts<'e>(page: &Page<'_, Self>, place: Position, entry: &Entry<'e, Self>) -> (Self::Lane, Cell<'e>);
    /// How many bytes more the page's cells take when it is repacked because an entry with this cell is put at `place`:
    /// those of the cell that the entries around it share, if it parts them.
    fn parted(_page: &Page<'_, Self>, _place: Position, _cell: Cell<'_>) -> usize {
        0
    }
    /// Whether entries of a page have the same key, their tails aside.
    fn same_key(a: &Self::Stored<'_>, b: &Self::Stored<'_>) -> bool;
    /// Where to split a page that is to have these entries, and the fence between the halves: near the place aimed at,
    /// there where the fence is short.
    fn choose_split(entries: &Joined<'_, Self>, aim: Aim, order: Self::Order<'_>, fence: &mut Self::Kept) -> usize;
    /// A new page of these entries; `None` if they do not fit.
    fn build<'a>(
        geometry: &Geometry,
        links: &Links<'_, Self>,
        total: usize,
        entries: impl Iterator<Item = Entry<'a, Self>> + Clone,
    ) -> Option<PageBytes>;
    /// A new page of a page's entries but for the first `skip`; `None` if it takes [`build`](KeySpace::build).
    fn rest(page: &Page<'_, Self>, geometry: &Geometry, links: &Links<'_, Self>, skip: usize) -> Option<PageBytes>;
    /// The edit that leaves a page its first `keep` entries, between its low fence and another high one; `None` if that
    /// cannot be said but by the page that it makes.
    fn halve(keep: usize, right: Block, high: Self::Fence<'_>) -> Option<Edit<'static>>;
    /// The edit that lowers a page's low fence; `None` if the page has no room for that. `image` is memory for it.
    fn lower<'e>(
        page: &Page<'_, Self>,
        geometry: &Geometry,
        low: Self::Fence<'_>,
        left: Block,
        image: &'e mut PageBytes,
    ) -> Option<Edit<'e>>;
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

impl<L: Lane> KeySpace for L {
    type Lane = L;
    type Order<'o> = ();
    type Key<'k> = Key<L>;
    type Stored<'a> = L;
    type Fence<'a> = Key<L>;
    type Kept = Key<L>;

    const FIRST: Key<L> = Key::MIN;
    const LAST: Key<L> = Key::MAX;

    #[inline(always)]
    fn fresh() -> Key<L> {
        Key::MIN
    }

    #[inline(always)]
    fn first() -> &'static Key<L> {
        L::ends()[0]
    }

    #[inline(always)]
    fn last() -> &'static Key<L> {
        L::ends()[1]
    }

    fn is_kind(kind: LaneKind) -> bool {
        kind == L::KIND
    }

    #[inline(always)]
    fn lend<'k, 'o: 'k>(kept: &'k Key<L>, (): ()) -> Key<L> {
        *kept
    }

    #[inline(always)]
    fn fence_of(kept: &Key<L>) -> Key<L> {
        *kept
    }

    fn downlink(kept: &Key<L>, child: Block) -> Entry<'_, L> {
        Entry { key: kept.lane, tail: kept.tail, child }
    }

    #[inline(always)]
    fn assign(into: &mut Key<L>, from: &Key<L>) {
        *into = *from;
    }

    #[inline(always)]
    fn keep(into: &mut Key<L>, fence: Key<L>) {
        *into = fence;
    }

    #[inline(always)]
    fn keep_key(into: &mut Key<L>, entry: &Entry<'_, L>, (): ()) -> Option<()> {
        *into = entry.key();
        Some(())
    }

    #[inline(always)]
    fn key_of<'k, 'e: 'k, 'o: 'k>(entry: &Entry<'e, L>, (): ()) -> Key<L> {
        entry.key()
    }

    fn shorten<'s, 'l: 's>(entry: Entry<'l, L>) -> Entry<'s, L> {
        Entry { key: entry.key, tail: entry.tail, child: entry.child }
    }

    fn is_fence(entry: &Entry<'_, L>, fence: Key<L>) -> bool {
        entry.key() == fence
    }

    fn same_fence(a: Key<L>, b: Key<L>) -> bool {
        a == b
    }

    #[inline(always)]
    fn step(kept: &mut Key<L>) {
        *kept = crate::scan::successor(*kept);
    }

    fn same(a: &Key<L>, b: &Key<L>) -> bool {
        a == b
    }

    /// The lane's first bits; where one is to spare, it tells the place before all rows of a key from those among them.
    #[inline(always)]
    fn mark(key: Key<L>) -> u64 {
        let lane = key.lane.to_u128();
        match L::SIZE {
            4 => (lane << 1) as u64 | u64::from(key.tail > Tail::MIN),
            8 => lane as u64,
            _ => (lane >> 64) as u64,
        }
    }

    fn mark_of(fence: Key<L>) -> (u64, bool) {
        let is_told = L::SIZE <= 8 || fence.lane.to_u128() as u64 == 0;
        (L::mark(fence), is_told && fence.tail == Tail::MIN)
    }

    #[inline(always)]
    fn fence<'a>(page: &Page<'a, L>, side: Side) -> Key<L> {
        let at = match side {
            Side::Low => at::LOW,
            Side::High => at::HIGH,
        };
        Key::new(L::read(page.bytes, at), Tail::read(page.bytes, at + at::FENCE_TAIL))
    }

    #[inline(always)]
    fn compare_fence(key: Key<L>, page: &Page<'_, L>, side: Side) -> Ordering {
        key.cmp(&L::fence(page, side))
    }

    #[inline(always)]
    fn lane_in(key: Key<L>, _page: &Page<'_, L>) -> core::result::Result<L, Ordering> {
        Ok(key.lane)
    }

    #[inline(always)]
    fn begins_lane(key: Key<L>) -> bool {
        key.tail == Tail::MIN
    }

    #[inline(always)]
    fn compare_tied(key: Key<L>, node: &Node<'_, L>, slot: usize) -> Ordering {
        key.tail.cmp(&node.tail(slot).position())
    }

    #[inline(always)]
    fn compare_head(_key: Key<L>, _run: &Node<'_, L>) -> Ordering {
        Ordering::Equal
    }

    #[inline(always)]
    fn tail(key: Key<L>) -> Tail {
        key.tail
    }

    #[inline(always)]
    fn stored<'a>(node: &Node<'a, L>, slot: usize) -> L {
        node.lane(slot)
    }

    fn compare_entry(key: Key<L>, entry: &Entry<'_, L>) -> Ordering {
        key.cmp(&entry.key())
    }

    fn parts<'e>(_page: &Page<'_, L>, _place: Position, entry: &Entry<'e, L>) -> (L, Cell<'e>) {
        (entry.key, Cell::None)
    }

    fn same_key(a: &L, b: &L) -> bool {
        a == b
    }

    /// Where the lane changes, if it does, so that equal keys stay together and a search for a key goes straight to it.
    fn choose_split(entries: &Joined<'_, L>, aim: Aim, (): (), fence: &mut Key<L>) -> usize {
        let (page, total, repeats) = (entries.page(), entries.len(), entries.repeats());
        let middle = (total * aim.left / 100).clamp(1, total - 1);
        // Runs hold more than other nodes: half of the entries may take more than half of the nodes.
        let fits = |part: &[bool]| page.layout.holds(part, 0);
        let sound = |keep: &usize| fits(&repeats[..*keep]) && fits(&repeats[*keep..]);
        let changes = outward(middle, reach_of_changes(page.level(), total), total).filter(|&place| !repeats[place]);
        let mut places = changes.chain(aim.parting).chain(outward(middle, total, total));
        let keep = places.find(sound).unwrap_or(middle);
        if let Some((last, next)) = entries.around(keep) {
            *fence = next.fence(page.level(), &last);
        }
        keep
    }

    fn build<'a>(
        geometry: &Geometry,
        links: &Links<'_, L>,
        total: usize,
        mut entries: impl Iterator<Item = Entry<'a, L>> + Clone,
    ) -> Option<PageBytes> {
        let layout = *geometry.layout(links.level);
        let lanes = entries.clone().take(total).map(|entry| entry.key);
        let packed = Arrangement::packed(&layout, repeats(lanes))?.beside(&layout, 0)?;
        let arrangement = if links.is_spread() { packed.spread(&layout, 0, 0) } else { packed };
        let mut bytes = fenced(geometry, links);
        arrange::lay_out(&mut bytes, &layout, &arrangement, |bytes, spot| {
            if let Some(entry) = entries.next() {
                entry.key.write(bytes, spot.lane);
                edit::write_payload(bytes, &layout, spot, entry.tail, entry.child, 0);
            }
        });
        Some(bytes)
    }

    fn rest(page: &Page<'_, L>, geometry: &Geometry, links: &Links<'_, L>, skip: usize) -> Option<PageBytes> {
        let arrangement = arrange::part(page.bytes, page.layout, skip..page.entries(), links.is_spread())?;
        let mut bytes = fenced(geometry, links);
        arrange::copy_out(&mut bytes, page.layout, &arrangement, page.bytes, skip);
        Some(bytes)
    }

    fn halve(keep: usize, right: Block, high: Key<L>) -> Option<Edit<'static>> {
        Some(Edit::Halve { keep: keep as u16, right, high: high.erase() })
    }

    fn lower<'e>(
        _page: &Page<'_, L>,
        _geometry: &Geometry,
        low: Key<L>,
        _left: Block,
        _image: &'e mut PageBytes,
    ) -> Option<Edit<'e>> {
        Some(Edit::SetLow(low.erase()))
    }

    fn verify_header(page: &Page<'_, L>) -> core::result::Result<(), Flaw> {
        let gaps = [
            at::LOW + at::FENCE_TAIL + Tail::SIZE..at::HIGH,
            at::HIGH + at::FENCE_TAIL + Tail::SIZE..FIRST_LINE * LINE,
        ];
        let clean = gaps.into_iter().all(|gap| verify::is_zero(&page.bytes[gap]));
        verify::ensure(clean, "page header has bytes where it should be empty")
    }

    fn verify_entry(entry: &Entry<'_, L>, ranks: Option<bool>) -> core::result::Result<(), Flaw> {
        match ranks {
            Some(null_rank) => {
                let extreme = if null_rank { L::MAX } else { L::MIN };
                let sound = entry.tail.rank() != null_rank || entry.key == extreme;
                verify::ensure(sound, "NULL entry is not at the end of the order")
            }
            None => verify::ensure(!entry.tail.rank(), "entry of several columns has a rank"),
        }
    }
}

/// A page without entries.
fn fenced<L: Lane>(geometry: &Geometry, links: &Links<'_, L>) -> PageBytes {
    let mut bytes = edit::new_page(geometry, links);
    edit::write_fence(&mut bytes, at::LOW, links.low.erase());
    edit::write_fence(&mut bytes, at::HIGH, links.high.erase());
    bytes
}
