//! Key spaces: what a page needs to know of its keys. Exact lanes are a key space each; [`Long`] is that of byte strings.

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

    /// A page's fence.
    fn fence<'a>(page: &Page<'a, Self>, side: Side) -> Self::Fence<'a>;
    /// How a place is ordered against a page's fence.
    fn compare_fence(key: Self::Key<'_>, page: &Page<'_, Self>, side: Side) -> Ordering;
    /// What the place's lane is in a page; the error is for a place before or behind everything that may be there.
    fn lane_in(key: Self::Key<'_>, page: &Page<'_, Self>) -> core::result::Result<Self::Lane, Ordering>;
    /// Whether the place is before all entries of its lane.
    fn begins_lane(key: Self::Key<'_>) -> bool;
    /// How the place is ordered against the entry with the same lane whose payload is at this byte.
    fn compare_tied(key: Self::Key<'_>, page: &Page<'_, Self>, payload_at: usize) -> Ordering;
    /// How the place is ordered against an entry.
    fn compare_entry(key: Self::Key<'_>, entry: &Entry<'_, Self>) -> Ordering;
    /// The key of the entry with this lane and its payload at this byte.
    fn stored<'a>(page: &Page<'a, Self>, lane: Self::Lane, payload_at: usize) -> Self::Stored<'a>;

    /// Bytes that an entry would take in a page beside its slot; fewer if an equal one is beside `place`.
    fn cell_size(page: &Page<'_, Self>, place: Option<Position>, entry: &Entry<'_, Self>) -> usize;
    /// The edit that puts an entry at `place`, where there is a free slot. Beside `found`, if given, an equal entry may
    /// be, where it is before that.
    fn insert_edit<'e>(
        page: &Page<'_, Self>,
        found: Option<Position>,
        place: Position,
        entry: &Entry<'e, Self>,
    ) -> Edit<'e>;
    /// The separator of a new in-page node that begins with an entry from outside the page.
    fn separator(page: &Page<'_, Self>, entry: &Entry<'_, Self>) -> Self::Lane;
    /// Where to split a page whose entries are to be these, and the fence between the halves: near the middle, or with
    /// `fill` percent in the left page, there where the fence is short.
    fn choose_split<'a>(
        page: &Page<'a, Self>,
        entries: impl Iterator<Item = Entry<'a, Self>> + Clone,
        total: usize,
        fill: Option<usize>,
        order: Self::Order<'_>,
        fence: &mut Self::Kept,
    ) -> usize;
    /// A new page of these entries; `None` if they do not fit.
    fn build<'a>(
        geometry: &Geometry,
        links: &Links<'_, Self>,
        total: usize,
        entries: impl Iterator<Item = Entry<'a, Self>> + Clone,
    ) -> Option<PageBytes>;
    /// The edit that lowers a page's low fence; `None` if the page has no room for that. `image` is memory for it.
    fn lower<'e>(
        page: &Page<'_, Self>,
        geometry: &Geometry,
        low: Self::Fence<'_>,
        left: Block,
        image: &'e mut PageBytes,
    ) -> Option<Edit<'e>>;
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
    fn compare_tied(key: Key<L>, page: &Page<'_, L>, payload_at: usize) -> Ordering {
        key.tail.cmp(&Tail::read(page.bytes, payload_at).position())
    }

    #[inline(always)]
    fn stored<'a>(_page: &Page<'a, L>, lane: L, _payload_at: usize) -> L {
        lane
    }

    fn compare_entry(key: Key<L>, entry: &Entry<'_, L>) -> Ordering {
        key.cmp(&entry.key())
    }

    fn cell_size(_page: &Page<'_, L>, _place: Option<Position>, _entry: &Entry<'_, L>) -> usize {
        0
    }

    fn insert_edit<'e>(
        _page: &Page<'_, L>,
        _found: Option<Position>,
        place: Position,
        entry: &Entry<'e, L>,
    ) -> Edit<'e> {
        Edit::Insert { place, lane: entry.key.to_u128(), tail: entry.tail, child: entry.child, cell: Cell::None }
    }

    fn separator(_page: &Page<'_, L>, entry: &Entry<'_, L>) -> L {
        entry.key
    }

    /// Near the middle where the lane changes, if it does, so that equal keys stay together and a search for a key goes
    /// straight to it.
    fn choose_split<'a>(
        page: &Page<'a, L>,
        entries: impl Iterator<Item = Entry<'a, L>> + Clone,
        total: usize,
        fill: Option<usize>,
        (): (),
        fence: &mut Key<L>,
    ) -> usize {
        let middle = fill.map_or(total / 2, |fill| total * fill / 100).clamp(1, total - 1);
        let reach = total / 16;
        let (from, to) = (middle.saturating_sub(reach).max(1), (middle + reach).min(total - 1));
        let mut best: Option<usize> = None;
        let mut previous: Option<L> = None;
        for (index, entry) in entries.clone().enumerate().skip(from - 1).take(to - from + 2) {
            let changes = previous.is_some_and(|lane| lane < entry.key);
            if changes && best.is_none_or(|b| index.abs_diff(middle) < b.abs_diff(middle)) {
                best = Some(index);
            }
            previous = Some(entry.key);
        }
        let mut keep = best.unwrap_or(middle);
        if total > page.layout.page_entries() {
            // Runs hold more than other nodes: half of the entries may take more than half of the nodes.
            let fits = |from: usize, count: usize| {
                let lanes = entries.clone().map(|entry| entry.key).skip(from).take(count);
                edit::Arrangement::of(page.layout, lanes, |_| 0).is_some()
            };
            let nearest = (0..total).flat_map(|far| [keep.saturating_sub(far), keep + far]);
            let sound = |keep: &usize| (1..total).contains(keep) && fits(0, *keep) && fits(*keep, total - keep);
            keep = nearest.into_iter().find(sound).unwrap_or(keep);
        }
        let mut around = entries.skip(keep - 1);
        if let (Some(last), Some(next)) = (around.next(), around.next()) {
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
        let mut bytes = edit::new_page(geometry, links);
        edit::write_fence(&mut bytes, at::LOW, links.low.erase());
        edit::write_fence(&mut bytes, at::HIGH, links.high.erase());
        let spread = links.level == 0 && is_link(links.right);
        let share = |free: usize| if spread { free } else { 0 };
        let arrangement = edit::Arrangement::of(&layout, entries.clone().take(total).map(|entry| entry.key), share)?;
        edit::lay_out(&mut bytes, &layout, &arrangement, |bytes, lane_at, payload_at| {
            if let Some(entry) = entries.next() {
                entry.key.write(bytes, lane_at);
                edit::write_payload(bytes, &layout, payload_at, entry.tail, entry.child, 0);
            }
        });
        Some(bytes)
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
