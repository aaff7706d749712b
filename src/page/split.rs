//! Where a page is split: what its entries are to be, and what the halves are to have of them.

use super::arrange::Repeats;
use super::*;

/// Where a page is to be split.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Aim {
    /// So much of it is for the left page, in percent, or nearly.
    pub left: usize,
    /// If entries with the same key have to be parted: before the one with this index.
    pub parting: Option<usize>,
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

    /// All in key order.
    pub fn iter(&self) -> impl Iterator<Item = Entry<'a, K>> + Clone + use<'a, K> {
        let page = self.page;
        let before = self.other.map_or(self.len, |(before, _)| before);
        let other = self.other.map(|(_, entry)| entry);
        page.iter().take(before).chain(other).chain(page.iter().skip(before))
    }
}

impl<L: Lane> Joined<'_, L> {
    /// For each whether it has the lane of the one before it.
    pub(super) fn repeats(&self) -> Repeats {
        let mut repeats = Repeats::of(self.page.bytes, self.page.layout);
        if let Some((before, entry)) = self.other {
            let is_same = |rank: usize| self.get(rank).is_some_and(|other| other.key == entry.key);
            repeats.insert(before, before > 0 && is_same(before - 1), is_same(before + 1));
        }
        repeats
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With and without another entry before, among and behind those of a page of keys that repeat, and of some that do
    /// not.
    #[test]
    fn what_repeats_is_known() {
        let geometry = Geometry::choose(LaneKind::U64, 1);
        for each in [1, 2, 3, 70, 200] {
            let tid = |row: u64| Tid::new(false, row as u32, 1, false);
            let entries = (0..200).map(|row| Entry { key: 1 + row / each * 2, tid: tid(row), child: NO_BLOCK });
            let links = Links { level: 0, left: NO_BLOCK, right: 9, low: Key::MIN, high: Key::MAX };
            let bytes = u64::build(&geometry, &links, 200, entries).expect("lanes fit");
            let page = Page::<u64>::open(&bytes, &geometry, 1).expect("a page of the index");
            let is_right = |joined: Joined<'_, u64>| {
                let naive: Vec<bool> = repeats(joined.iter().map(|entry| entry.key)).collect();
                assert!(*joined.repeats() == *naive && joined.len() == naive.len(), "{each} of a key");
            };
            is_right(Joined::of(page));
            for before in 0..=page.entries() {
                let keys = [before.checked_sub(1), Some(before)].map(|rank| Some(Joined::of(page).get(rank?)?.key));
                for key in keys.into_iter().flatten().chain([1 + before as u64 / each * 2 - 1]) {
                    is_right(Joined::of(page).with(before, Entry { key, tid: Tid::MIN, child: NO_BLOCK }));
                }
            }
        }
    }
}
