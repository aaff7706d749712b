//! Pages with damage chosen by the fuzzer: whatever is on one, verifying, searching, scanning, changing, splitting and
//! merging it neither panics nor loops nor reads outside it (I3).

#![no_main]

#[path = "../../tests/engine/common/mod.rs"]
mod common;

use common::bytes::{Taste, normal as normal_bytes};
use common::{Between, KeyMaker, Lanes, exact, normal, one_column, read_on};
use fpbtree_engine::format::{Block, Lane, NO_BLOCK, PAGE_SIZE, PageBytes, ROOT};
use fpbtree_engine::keys::bytes::MOST_KEY;
use fpbtree_engine::keys::digits::{DigitKind, ValueLength};
use fpbtree_engine::log::{Change, Edit, Ranges};
use fpbtree_engine::page::{Aim, Arrangement, Entry, Joined, Keys, Links, Page, PageSplits};
use fpbtree_engine::scan::{Cursor, Direction, Matches};
use fpbtree_engine::store::memory::MemoryStore;
use fpbtree_engine::tree::Tree;
use libfuzzer_sys::fuzz_target;

/// Where the page is in a tree, behind its root.
const BLOCK: Block = ROOT + 1;

type OwnedKey<M> = <<M as KeyMaker>::Keys as Keys>::OwnedKey;
type FuzzedPage<'p, M> = Page<'p, <M as KeyMaker>::Keys>;

/// What the page is, less the damage.
struct Sheet<M> {
    taste: M,
    level: u8,
    /// How many entries have the same key: there are runs or not.
    to_a_key: usize,
    /// Whether the fences are keys: the page has a prefix then.
    is_bounded: bool,
}

fn child<'r, M: KeyMaker>(row: &'r M::Row) -> Entry<'r, M::Keys> {
    Entry { child: BLOCK + 1, ..M::entry(row) }
}

impl<M: KeyMaker> Sheet<M> {
    fn row(&self, at: usize) -> M::Row {
        self.taste.numbered(Some((at / self.to_a_key) as u64), at as u64)
    }

    /// The fences of a page of so many entries.
    fn ends(&self, entries: usize) -> Option<[OwnedKey<M>; 2]> {
        if !self.is_bounded {
            return Some([M::Keys::FIRST, M::Keys::LAST]);
        }
        let low = self.taste.place(&M::entry(&self.row(0)))?;
        Some([low, self.taste.place(&M::entry(&self.row(entries)))?])
    }

    /// A sound page.
    fn page(&self, entries: usize, [low, high]: &[OwnedKey<M>; 2]) -> Option<PageBytes> {
        let (low, high) = (M::Keys::fence_of(low), M::Keys::fence_of(high));
        let links = Links { level: self.level, left: NO_BLOCK, right: NO_BLOCK, low, high, fill: 90 };
        let rows: Vec<_> = (0..entries).map(|at| self.row(at)).collect();
        M::Keys::build(&self.taste.meta().geometry, &links, entries, rows.iter().map(child::<M>))
    }

    fn damage_and_use(&self, data: &[u8]) {
        let geometry = self.taste.meta().geometry;
        let entries = data.len() * 7 % geometry.layout(self.level).page_entries();
        let Some(ends) = self.ends(entries) else { return };
        let Some(mut page) = self.page(entries, &ends) else { return };
        // Each four bytes put one byte somewhere: the fuzzer finds the fields by itself.
        for patch in data.chunks_exact(4) {
            let at = u16::from_le_bytes([patch[0], patch[1]]) as usize % PAGE_SIZE;
            page[at] = patch[2] ^ patch[3];
        }
        let _ = FuzzedPage::<M>::verify(&page, &geometry, BLOCK, self.taste.ranks(), self.taste.order());
        let Ok(read) = FuzzedPage::<M>::open(&page, &geometry, BLOCK) else { return };
        assert!(read.iter().count() <= geometry.layout(read.level()).most_entries());
        self.search_and_insert(&page, &read);
        change(&page, data);
        self.split_and_merge(&page, &read, &ends);
        self.scan(&page, ends);
    }

    fn search_and_insert(&self, page: &PageBytes, read: &FuzzedPage<'_, M>) {
        for key in [Some(0), Some(1), Some(50), Some(1 << 15), Some(u64::MAX), None] {
            let row = self.taste.numbered(key, 5999);
            let entry = Entry { child: 9, ..M::entry(&row) };
            let key = M::Keys::key_of(&entry, self.taste.order());
            let [before, behind] = self.taste.around(&row);
            for place in
                [key, M::Keys::borrow(&before, self.taste.order()), M::Keys::borrow(&behind, self.taste.order())]
            {
                let place = (read.lower_bound(place), read.child_for(place), read.child_place_before(place)).0;
                let _ = (read.entry(place).is_some(), read.next(place), read.previous(place));
            }
            let mut change = Change::new();
            if read.insertion(key, &entry, &mut change) {
                change.apply(0, &mut page.clone(), &mut Ranges::new());
            }
        }
    }

    fn split_and_merge(&self, page: &PageBytes, read: &FuzzedPage<'_, M>, ends: &[OwnedKey<M>; 2]) {
        let (geometry, row) = (self.taste.meta().geometry, self.row(1));
        let new = child::<M>(&row);
        let before = read.iter().count() / 3;
        for entries in [Joined::of(*read), Joined::of(*read).with(before, new)] {
            let (total, mut fence) = (entries.len(), M::Keys::FIRST);
            if total < 2 {
                continue;
            }
            for parting in [None, Some(before + 1)] {
                let aim = Aim { left: 50, parting, exactly: None };
                let keep = M::Keys::choose_split(&entries, aim, self.taste.order(), &mut fence);
                assert!((1..total).contains(&keep), "{keep} of {total} entries stay");
                let (low, middle, high) = (read.low(), M::Keys::fence_of(&fence), read.high());
                let links = |low, high| Links { level: read.level(), left: NO_BLOCK, right: NO_BLOCK, low, high, fill: 90 };
                let _ = M::Keys::build(&geometry, &links(low, middle), keep, entries.iter().take(keep));
                let _ = M::Keys::build(&geometry, &links(middle, high), total - keep, entries.iter().skip(keep));
                let _ = M::Keys::right_half(read, &geometry, &links(middle, high), keep);
                let mut arrangement = Arrangement::default();
                if let Some(halve) = M::Keys::halve(read, keep, BLOCK + 1, &fence, &mut arrangement) {
                    let _ = Change::new().edit(halve).redo(0, &mut page.clone());
                }
            }
        }
        for low in [M::Keys::first(), &ends[0]] {
            let _ = M::Keys::lower(read, &geometry, M::Keys::fence_of(low), NO_BLOCK, &mut [0; PAGE_SIZE]);
        }
    }

    /// Reads the page as the only one below a root, from either end.
    fn scan(&self, page: &PageBytes, ends: [OwnedKey<M>; 2]) {
        let geometry = self.taste.meta().geometry;
        let (low, high) = (M::Keys::fence_of(M::Keys::first()), M::Keys::fence_of(M::Keys::last()));
        let links = Links { level: 1, left: NO_BLOCK, right: NO_BLOCK, low, high, fill: 90 };
        let downlink = [M::Keys::downlink(M::Keys::first(), BLOCK)];
        let Some(root) = M::Keys::build(&geometry, &links, 1, downlink.into_iter()) else { return };
        let store = MemoryStore::unchecked(&[[0; PAGE_SIZE], root, *page], 3);
        let tree = Tree::<_, M::Keys>::ordered(&store, &geometry, self.taste.order());
        let wanted = Between::new(ends);
        let mut matches = Box::new(Matches::new());
        for direction in [Direction::Forward, Direction::Backward] {
            let mut cursor = Cursor::new(direction);
            for _ in 0..3 {
                let Ok(Some(_)) = read_on(tree, &mut cursor, &wanted, false, &mut matches) else { break };
                (0..matches.len())
                    .for_each(|at| _ = M::matched(&matches, at).and_then(|entry| self.taste.place(&entry)));
            }
        }
    }
}

/// Makes changes that were not planned for the page, if they fit it.
fn change(page: &PageBytes, data: &[u8]) {
    let byte = |at: usize| data.get(at).copied().unwrap_or(0);
    let (node, slot, many) = (byte(0) % 32, byte(1) % 128, byte(2).into());
    let masks = [(node, u128::from(many) << slot | 1)];
    let edits = [
        Edit::Repack(&data[..data.len().min(100)]),
        Edit::Reserve { bytes: many },
        Edit::SplitNode { node, keep: slot },
        Edit::Balance { left: node, keep: slot },
        Edit::Remove { node, mask: 1 << slot },
        Edit::RemoveSet(&masks),
        Edit::SetLeft(3),
        Edit::SetIncomplete(true),
        Edit::Delete { time: 5 },
    ];
    for edit in edits {
        let _ = Change::new().edit(edit).redo(0, &mut page.clone());
    }
}

fn lanes<L: Lane>() -> Lanes<L> {
    Lanes::of(exact(one_column::<L>(), normal::<L>()))
}

/// Columns of byte strings, and so many bytes that go with a key.
fn strings(kinds: &[DigitKind], carried: usize, flavour: u32) -> Taste {
    let taste = Taste::of_kinds(kinds, MOST_KEY, flavour, 1).carrying(carried);
    let carries = taste.shape.has_payload();
    taste.on(normal_bytes(carries))
}

fuzz_target!(|data: &[u8]| {
    let [what, rest @ ..] = data else { return };
    fn of<M: KeyMaker>(what: u8, taste: M, data: &[u8]) {
        let (level, to_a_key) = (what >> 3 & 1, if what >> 4 & 1 == 0 { 3 } else { 130 });
        Sheet { taste, level, to_a_key, is_bounded: what >> 5 & 1 != 0 }.damage_and_use(data);
    }
    let opaque = |prefix, value| [DigitKind::Opaque { prefix, value }, DigitKind::Fixed(2)];
    let flavour = u32::from(what >> 6);
    match what & 7 {
        0 => of(*what, lanes::<u32>(), rest),
        1 => of(*what, lanes::<u64>(), rest),
        2 => of(*what, lanes::<u128>(), rest),
        3 => of(*what, strings(&[DigitKind::Text], 0, flavour), rest),
        4 => of(*what, strings(&[DigitKind::Text], 8, flavour), rest),
        5 => of(*what, strings(&opaque(23, ValueLength::CString), 0, flavour), rest),
        6 => of(*what, strings(&[DigitKind::Bytes, DigitKind::Numeric], 0, flavour), rest),
        _ => of(*what, strings(&opaque(0, ValueLength::Variable), 8, flavour), rest),
    }
});
