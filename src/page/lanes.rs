//! Exact lanes as a key space: a key is its lane, and pages hold it whole.

use super::arrange::{Arrangement, Stored};
use super::frame::Item;
use super::split::{outward, reach_of_changes};
use super::*;

impl<L: Lane> Keys for L {
    type Lane = L;
    type Order<'o> = ();
    type Key<'k> = Key<L>;
    type Stored<'a> = L;
    type Fence<'a> = Key<L>;
    type OwnedKey = Key<L>;
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
    fn borrow<'k, 'o: 'k>(kept: &'k Key<L>, (): ()) -> Key<L> {
        *kept
    }

    #[inline(always)]
    fn fence_of(kept: &Key<L>) -> Key<L> {
        *kept
    }

    #[inline(always)]
    fn fence_at<'f, 'e: 'f>(inner: &Entry<'e, L>) -> Key<L> {
        inner.key()
    }

    fn downlink(kept: &Key<L>, child: Block) -> Entry<'_, L> {
        Entry { key: kept.lane, tid: kept.tid, child }
    }

    #[inline(always)]
    fn copy(into: &mut Key<L>, from: &Key<L>) {
        *into = *from;
    }

    #[inline(always)]
    fn set_to_fence(into: &mut Key<L>, fence: Key<L>) {
        *into = fence;
    }

    #[inline(always)]
    fn set_to_key(into: &mut Key<L>, entry: &Entry<'_, L>, (): ()) -> Option<()> {
        *into = entry.key();
        Some(())
    }

    #[inline(always)]
    fn key_of<'k, 'e: 'k, 'o: 'k>(entry: &Entry<'e, L>, (): ()) -> Key<L> {
        entry.key()
    }

    fn shorten<'s, 'l: 's>(entry: Entry<'l, L>) -> Entry<'s, L> {
        Entry { key: entry.key, tid: entry.tid, child: entry.child }
    }

    fn is_fence(entry: &Entry<'_, L>, fence: Key<L>) -> bool {
        entry.key() == fence
    }

    fn same_fence(a: Key<L>, b: Key<L>) -> bool {
        a == b
    }

    #[inline(always)]
    fn step(kept: &mut Key<L>) {
        *kept = kept.successor();
    }

    fn same(a: &Key<L>, b: &Key<L>) -> bool {
        a == b
    }

    /// The lane, and the TID if there is room: a lane of 32 bits has most of it in its first half.
    #[inline(always)]
    fn mark(key: Key<L>) -> Mark {
        let (lane, tid) = (key.lane.to_u128(), Mark::from(key.tid.linear()));
        let left = Mark::BITS.saturating_sub(8 * L::SIZE as u32);
        if left >= Tid::LINEAR_BITS { lane << left | tid << (left - Tid::LINEAR_BITS) } else { lane }
    }

    #[inline(always)]
    fn stretch(key: Key<L>) -> u64 {
        let lane = key.lane.to_u128();
        if L::SIZE <= 8 { lane as u64 } else { first_half(lane) }
    }

    fn mark_of(fence: Key<L>, (): ()) -> (Mark, bool) {
        (L::mark(fence), L::SIZE <= 8 || fence.tid == Tid::MIN)
    }

    #[inline(always)]
    fn begins_lane(key: Key<L>) -> bool {
        key.tid == Tid::MIN
    }

    #[inline(always)]
    fn tid(key: Key<L>) -> Tid {
        key.tid
    }

    fn compare_entry(key: Key<L>, entry: &Entry<'_, L>) -> Ordering {
        key.cmp(&entry.key())
    }

    fn same_key(a: &L, b: &L) -> bool {
        a == b
    }
}

impl<L: Lane> PageKeys for L {
    type Guess = core::convert::Infallible;

    fn guess_head(_key: Key<L>, guess: Self::Guess, _node: &Node<'_, L>, _head: usize) -> Ordering {
        match guess {}
    }

    #[inline(always)]
    fn fence<'a>(page: &Page<'a, L>, side: Side) -> Key<L> {
        let at = match side {
            Side::Low => at::LOW,
            Side::High => at::HIGH,
        };
        Key::new(L::read(page.bytes, at), Tid::read(page.bytes, at + at::FENCE_TID))
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
    fn compare_head(_key: Key<L>, _node: &Node<'_, L>, _head: usize) -> Ordering {
        Ordering::Equal
    }

    #[inline(always)]
    fn stored<'a>(node: &Node<'a, L>, head: usize) -> L {
        node.lane_of(head)
    }

    fn parts<'e>(_page: &Page<'_, L>, _place: Position, entry: &Entry<'e, L>) -> (L, Cell<'e>) {
        (entry.key, Cell::None)
    }

    fn verify_header(page: &Page<'_, L>) -> core::result::Result<(), Flaw> {
        let gaps =
            [at::LOW + at::FENCE_TID + Tid::SIZE..at::HIGH, at::HIGH + at::FENCE_TID + Tid::SIZE..FIRST_LINE * LINE];
        let clean = gaps.into_iter().all(|gap| verify::is_zero(&page.bytes[gap]));
        verify::ensure(clean, "page header has bytes where it should be empty")
    }

    fn verify_entry(entry: &Entry<'_, L>, ranks: Option<bool>) -> core::result::Result<(), Flaw> {
        match ranks {
            Some(null_rank) => {
                let extreme = if null_rank { L::MAX } else { L::MIN };
                let sound = entry.tid.rank() != null_rank || entry.key == extreme;
                verify::ensure(sound, "NULL entry is not at the end of the order")
            }
            None => verify::ensure(!entry.tid.rank(), "entry of several columns has a rank"),
        }
    }
}

impl<L: Lane> PageSplits for L {
    /// Where the lane changes, if it does, so that equal keys stay together and a search for a key goes straight to it.
    fn choose_split(entries: &Joined<'_, L>, aim: Aim, (): (), fence: &mut Key<L>) -> usize {
        let (page, total) = (entries.page(), entries.len());
        let middle = (total * aim.left / 100).clamp(1, total - 1);
        let sound = |keep: &usize| entries.can_be_split(*keep);
        let mut lanes = [L::MIN; MAX_PAGE_ENTRIES + 1];
        entries.read_lanes(&mut lanes);
        let is_change = |place: &usize| lanes.get(*place - 1) < lanes.get(*place);
        let changes = outward(middle, reach_of_changes(page.level(), total), total).filter(is_change);
        let mut places = aim.exactly.into_iter().chain(changes).chain(aim.parting).chain(outward(middle, total, total));
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
        entries: impl Iterator<Item = Entry<'a, L>> + Clone,
    ) -> Option<PageBytes> {
        let layout = *geometry.layout(links.level);
        let items = entries.take(total).map(|entry| item(&entry));
        let arrangement = Arrangement::filled(&layout, &items, links.fill(), 0)?;
        let mut bytes = fenced(geometry, links);
        arrange::lay_out(&mut bytes, &layout, arrangement.counts(), &items);
        Some(bytes)
    }

    fn right_half(page: &Page<'_, L>, geometry: &Geometry, links: &Links<'_, L>, skip: usize) -> Option<PageBytes> {
        let ranks = skip..page.entries();
        let arrangement = arrange::part(page.bytes, page.layout, ranks.clone(), links.is_spread())?;
        let mut bytes = fenced(geometry, links);
        let entries = Stored { bytes: page.bytes, layout: page.layout, ranks };
        arrange::lay_out(&mut bytes, page.layout, arrangement.counts(), &entries).then_some(bytes)
    }

    fn halve<'e>(
        page: &Page<'_, L>,
        keep: usize,
        right: Block,
        high: &'e Key<L>,
        arrangement: &'e mut Arrangement,
    ) -> Option<Edit<'e>> {
        *arrangement = arrange::part(page.bytes, page.layout, 0..keep, page.level() == 0)?;
        Some(Edit::Halve { counts: arrangement.counts(), right, high: Fence::Lane(high.erase()) })
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
}

/// An entry as its node has it.
pub(super) fn item<L: Lane>(entry: &Entry<'_, L>) -> Item {
    Item { lane: entry.key.to_u128(), tid: entry.tid, child: entry.child, cell: 0 }
}

/// A page without entries.
fn fenced<L: Lane>(geometry: &Geometry, links: &Links<'_, L>) -> PageBytes {
    let mut bytes = edit::new_page(geometry, links);
    edit::write_fence(&mut bytes, at::LOW, links.low.erase());
    edit::write_fence(&mut bytes, at::HIGH, links.high.erase());
    bytes
}
