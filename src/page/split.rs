//! Where a page is split: what its entries are to be, and what the halves are to have of them.

use super::arrange::Arrangement;
use super::frame::Item;
use super::lanes::item;
use super::*;

/// Where a page is to be split.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Aim {
    /// So much of it is for the left page, in percent, or nearly.
    pub left: usize,
    /// If entries with the same key have to be parted: before the one with this index.
    pub parting: Option<usize>,
    /// If possible, before the one with this index.
    pub exactly: Option<usize>,
}

/// Places between the entries of a page around its middle, nearest first.
pub(super) fn outward(middle: usize, reach: usize, total: usize) -> impl Iterator<Item = usize> {
    let places = (0..=reach).flat_map(move |far| [middle.checked_sub(far), Some(middle + far)]);
    places.flatten().filter(move |place| (1..total).contains(place))
}

/// How far from where a leaf is to be split it is looked for a place where the key changes. Rows of a key come behind
/// those there are if the table grows: parted, the first ones' page would never be full.
pub(super) fn reach_of_changes(level: u8, total: usize) -> usize {
    if level == 0 { total * 3 / 8 } else { total / 16 }
}

/// Entries before a new one that say whether it continues an ascending stretch.
const STRETCH: usize = 16;
/// Entries of a stretch that may have come in any order: those of one millisecond, or of clients side by side.
pub(super) const JUMBLE: usize = 6;
/// How many times as far as the stretch reaches in the table the new row may be behind it, and how many heap blocks
/// more.
const PACE: (u64, u64) = (4, 2);

/// Whether a new entry continues an ascending stretch: those before it were put there in their order, and lately, as
/// their rows' places in the table tell. `before` has the TID of the entry so many before the new one, and whether it
/// has the same key. (nbtree's `_bt_afternewitemoff` looks at one entry, and for the next row.)
pub(super) fn continues_stretch(new: Tid, before: impl Fn(usize) -> Option<(Tid, bool)>) -> bool {
    let mut places = [new.linear(); STRETCH + 1];
    for (back, place) in places.iter_mut().enumerate().skip(1) {
        match before(back) {
            Some((tid, is_same)) if !(is_same && back > JUMBLE) => *place = tid.linear(),
            _ => return false,
        }
    }
    let [oldest, newest] = [places[1..].iter().min(), places[1..].iter().max()].map(|place| *place.unwrap_or(&0));
    let reach = PACE.0 * (newest - oldest) + (PACE.1 << Tid::BLOCK_SHIFT);
    let ascends = places.iter().zip(&places[JUMBLE..]).all(|(later, earlier)| later > earlier);
    ascends && new.linear().saturating_sub(newest) <= reach
}

/// What a page is to have: its entries, and another one among them that is yet outside.
#[derive(Clone, Copy)]
pub struct Joined<'a, K: KeySpace> {
    page: Page<'a, K>,
    /// How many of the page's entries are before the other one, and that.
    other: Option<(usize, Entry<'a, K>)>,
    len: usize,
}

impl<'a, K: KeySpace> Joined<'a, K> {
    /// A page's entries alone.
    pub fn of(page: Page<'a, K>) -> Self {
        Joined { page, other: None, len: page.entries() }
    }

    /// Adds an entry that so many of the page's are before.
    pub fn with(self, before: usize, entry: Entry<'a, K>) -> Self {
        Joined { other: Some((before, entry)), len: self.len + 1, ..self }
    }

    /// The page.
    pub(super) fn page(&self) -> &Page<'a, K> {
        &self.page
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The one that so many are before, if there is one.
    pub fn get(&self, rank: usize) -> Option<Entry<'a, K>> {
        match self.other {
            Some((before, entry)) if rank == before => Some(entry),
            Some((before, _)) if rank > before => self.page.entry(self.page.at_rank(rank - 1)),
            _ => self.page.entry(self.page.at_rank(rank)),
        }
    }

    /// Those beside a place that so many are before.
    pub(super) fn around(&self, place: usize) -> Option<(Entry<'a, K>, Entry<'a, K>)> {
        self.get(place.checked_sub(1)?).zip(self.get(place))
    }

    /// Whether the other one continues an ascending stretch of the page's entries.
    pub fn continues_stretch(&self) -> bool {
        self.other.is_some_and(|(rank, new)| {
            continues_stretch(new.tid, |back| {
                let entry = self.get(rank.checked_sub(back)?)?;
                Some((entry.tid, K::same_key(&entry.key, &new.key)))
            })
        })
    }

    /// All in key order.
    pub fn iter(&self) -> impl Iterator<Item = Entry<'a, K>> + Clone + use<'a, K> {
        self.iter_from(0)
    }

    /// All but so many of the first.
    pub fn iter_from(&self, rank: usize) -> impl Iterator<Item = Entry<'a, K>> + Clone + use<'a, K> {
        let before = self.other.map_or(self.len, |(before, _)| before);
        let other = self.other.filter(|_| rank <= before).map(|(_, entry)| entry);
        let front = self.page.iter_from(rank.min(before)).take(before.saturating_sub(rank));
        front.chain(other).chain(self.page.iter_from(before.max(rank.saturating_sub(1))))
    }
}

impl<L: Lane> Joined<'_, L> {
    /// Puts all lanes, in order, into an array.
    pub(super) fn read_lanes(&self, lanes: &mut [L; MAX_PAGE_ENTRIES + 1]) {
        let mut end = 0;
        for node in 0..self.page.nodes() {
            let (node, start) = (self.page.node(node), end);
            end = (end + node.len()).min(MAX_PAGE_ENTRIES);
            node.read_lanes(0, &mut lanes[start..end]);
        }
        if let Some((before, other)) = self.other.filter(|(before, _)| *before <= end) {
            lanes.copy_within(before..end, before + 1);
            lanes[before] = other.key;
        }
    }

    /// Whether each of the parts before and behind a place fits a page.
    pub(super) fn can_be_split(&self, place: usize) -> bool {
        let (page, layout) = (&self.page, self.page.layout);
        // Each part may have what it has of the page's nodes, and the other entry makes two more of one at most.
        let cut = page.at_rank(place.saturating_sub(1)).node as usize;
        let is_left = self.other.is_some_and(|(before, _)| before < place);
        let [left, right] = [(is_left, cut + 1), (!is_left, page.nodes() - cut.min(page.nodes()))]
            .map(|(has_other, nodes)| if has_other { nodes + 2 } else { nodes });
        if left.max(right) <= layout.nodes {
            return true;
        }
        fn fits(layout: &Layout, items: impl Iterator<Item = Item> + Clone) -> bool {
            Arrangement::packed(layout, &items, layout.node_room(), layout.nodes).is_some()
        }
        let from = |rank: usize| self.iter_from(rank).map(|entry| item(&entry));
        fits(layout, from(0).take(place)) && fits(layout, from(place))
    }
}
