//! Pages with damage chosen by the fuzzer: whatever is on one, verifying, searching, scanning, changing, splitting and
//! merging it neither panics nor loops nor reads outside it (I3).

#![no_main]

use core::cmp::Ordering;
use fpbtree_engine::log::{Change, Edit, Ranges};
use fpbtree_engine::keys::digits::{DigitKind, DigitShape, ValueLength};
use fpbtree_engine::keys::bytes::{CompareValues, OwnedKey, BytesKey, BytesOrder, BytesShape, Stored};
use fpbtree_engine::format::{Key, Lane, LaneKind, Tid, Geometry, Block, NO_BLOCK, PAGE_SIZE, PageBytes, ROOT};
use fpbtree_engine::page::{Aim, Entry, KeySpace, Links, Bytes, Page};
use fpbtree_engine::scan::{Cursor, Direction, Matches, Range, Scannable, Wanted};
use fpbtree_engine::store::memory::MemoryStore;
use fpbtree_engine::store::PageStore;
use fpbtree_engine::tree::Tree;
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

/// Where the page is in a tree, behind its root.
const BLOCK: Block = ROOT + 1;

/// What the page is, less the damage.
#[derive(Clone, Copy)]
struct Sort {
    kind: LaneKind,
    /// Whether a function orders values.
    is_opaque: bool,
    level: u8,
    entries: usize,
    /// How many entries have the same key: there are runs or not.
    to_a_key: usize,
    /// Whether the fences are keys: the page has a prefix then.
    is_bounded: bool,
}

/// A key space that a number can be a key of, whose bytes may lie in `room`.
trait Numbered: Scannable {
    fn key<'r>(sort: &Sort, number: u128, room: &'r mut [u8; 32]) -> Self::Stored<'r>;
    /// Behind all keys that begin like this one.
    fn above<'k>(sort: &'k Sort, kept: &'k Self::OwnedKey) -> Self::Key<'k>;
    fn order(sort: &Sort) -> Self::Order<'_>;
}

macro_rules! numbered {
    ($($lane:ty),*) => {$(
        impl Numbered for $lane {
            fn key(_sort: &Sort, number: u128, _room: &mut [u8; 32]) -> $lane {
                <$lane>::from_u128(number)
            }

            fn above<'k>(_sort: &'k Sort, kept: &'k Key<$lane>) -> Key<$lane> {
                Key { tid: Tid::MAX, ..*kept }
            }

            fn order(_sort: &Sort) {}
        }
    )*};
}

numbered!(u32, u64, u128);

impl Numbered for Bytes {
    /// Some bytes in common, some in the lane, some behind it; then a value where a function orders them, and else
    /// something that every other key carries.
    fn key<'r>(sort: &Sort, number: u128, room: &'r mut [u8; 32]) -> Stored<'r> {
        room[0] = DigitShape::VALUE;
        room[8..24].copy_from_slice(&(number >> u32::from(sort.is_opaque)).to_be_bytes());
        room[24..27].copy_from_slice(&[DigitShape::VALUE, b'a' + number as u8 % 2, 0]);
        let (normal, payload) = room.split_at(24);
        let length = match sort.kind {
            LaneKind::PrefixPayload if sort.is_opaque => 3,
            LaneKind::PrefixPayload => number as usize % 2 * 8,
            _ => 0,
        };
        Stored::whole(normal, &payload[..length])
    }

    fn above<'k>(sort: &'k Sort, kept: &'k OwnedKey) -> BytesKey<'k> {
        BytesKey { above: true, ..kept.key(Bytes::order(sort)) }
    }

    fn order(sort: &Sort) -> Option<BytesOrder<'_>> {
        sort.is_opaque.then(|| BytesOrder { shape: &OPAQUE, columns: &Bytewise })
    }
}

/// Orders values by their bytes.
struct Bytewise;

impl CompareValues for Bytewise {
    fn compare(&self, _column: usize, a: &[u8], b: &[u8]) -> Ordering {
        a.cmp(b)
    }
}

static OPAQUE: LazyLock<BytesShape> = LazyLock::new(|| {
    let kind = DigitKind::Opaque { prefix: 23, value: ValueLength::CString };
    BytesShape::new(&[DigitShape { kind, descending: false, nulls_first: false }], true).expect("one column fits")
});

/// Everything between two places, keys and all.
struct Between<K: KeySpace>([K::OwnedKey; 2]);

impl<K: KeySpace> Wanted<K> for Between<K> {
    fn at_or_after(&self, place: &K::OwnedKey, out: &mut Range<K>) -> bool {
        let [low, high] = &self.0;
        K::copy(&mut out.first, if K::same(place, K::first()) { low } else { place });
        K::copy(&mut out.after, high);
        !K::same(place, high) && !K::same(place, K::last())
    }

    fn before(&self, place: &K::OwnedKey, out: &mut Range<K>) -> bool {
        let [low, high] = &self.0;
        K::copy(&mut out.first, low);
        K::copy(&mut out.after, if K::same(place, K::last()) { high } else { place });
        !K::same(place, low) && !K::same(place, K::first())
    }

    fn null_rank(&self) -> bool {
        true
    }

    fn wants_keys(&self) -> bool {
        true
    }
}

impl Sort {
    fn entry<'r, K: Numbered>(&self, number: usize, at: usize, room: &'r mut [u8; 32]) -> Entry<'r, K> {
        Entry { key: K::key(self, number as u128, room), tid: Tid::new(false, at as u32, 1, false), child: BLOCK + 1 }
    }

    /// The fences.
    fn ends<K: Numbered>(&self) -> Option<[K::OwnedKey; 2]> {
        if !self.is_bounded {
            return Some([K::FIRST, K::LAST]);
        }
        let mut ends = [K::FIRST; 2];
        for (end, number) in ends.iter_mut().zip([0, self.entries]) {
            K::set_to_key(end, &self.entry(number, 0, &mut [0; 32]), K::order(self))?;
        }
        Some(ends)
    }

    /// A sound page.
    fn page<K: Numbered>(&self, geometry: &Geometry, [low, high]: &[K::OwnedKey; 2]) -> Option<PageBytes> {
        let (low, high) = (K::fence_of(low), K::fence_of(high));
        let links = Links { level: self.level, left: NO_BLOCK, right: NO_BLOCK, low, high };
        let mut rooms = vec![[0; 32]; self.entries];
        let entries = rooms.iter_mut().enumerate().map(|(at, room)| self.entry(at / self.to_a_key, at, room));
        let entries: Vec<_> = entries.collect();
        K::build(geometry, &links, self.entries, entries.iter().copied())
    }
}

fn damage_and_use<K: Numbered>(mut sort: Sort, data: &[u8]) {
    let geometry = Geometry::choose(sort.kind, 42);
    sort.entries = data.len() * 7 % geometry.layout(sort.level).page_entries();
    let Some(ends) = sort.ends::<K>() else { return };
    let Some(mut page) = sort.page::<K>(&geometry, &ends) else { return };
    // Each four bytes put one byte somewhere: the fuzzer finds the fields by itself.
    for patch in data.chunks_exact(4) {
        let at = u16::from_le_bytes([patch[0], patch[1]]) as usize % PAGE_SIZE;
        page[at] = patch[2] ^ patch[3];
    }
    let _ = Page::<K>::verify(&page, &geometry, BLOCK, Some(true), K::order(&sort));
    let Ok(read) = Page::<K>::open(&page, &geometry, BLOCK) else { return };
    assert!(read.iter().count() <= geometry.layout(read.level()).most_entries());
    search_and_change(&sort, &page, &read);
    split_and_merge::<K>(&sort, &geometry, &read, &ends);
    scan::<K>(&sort, &geometry, &page, ends);
}

fn search_and_change<K: Numbered>(sort: &Sort, page: &PageBytes, read: &Page<'_, K>) {
    for number in [0, 1, 50, 1 << 20, u128::MAX] {
        let mut room = [0; 32];
        let entry = Entry { key: K::key(sort, number, &mut room), tid: Tid::new(false, 60, 1, false), child: 9 };
        let key = K::key_of(&entry, K::order(sort));
        let mut kept = K::FIRST;
        let _ = K::set_to_key(&mut kept, &entry, K::order(sort));
        for key in [key, K::above(sort, &kept)] {
            let place = read.lower_bound(key);
            let _ = (read.entry(place).is_some(), read.next(place), read.previous(place));
            let _ = (read.child_for(key), read.child_before(key));
        }
        let repack = Change::new(BLOCK).edit(Edit::Repack { cell: 0 });
        for change in read.insertion(key, &entry, Change::new(BLOCK)).into_iter().chain([repack]) {
            change.apply(0, &mut page.clone(), &mut Ranges::new());
        }
    }
}

fn split_and_merge<K: Numbered>(sort: &Sort, geometry: &Geometry, read: &Page<'_, K>, ends: &[K::OwnedKey; 2]) {
    let (total, mut fence) = (read.entries(), K::FIRST);
    if total > 1 {
        let aim = Aim { left: 50, parting: None };
        let keep = K::choose_split(read, read.iter(), total, aim, K::order(sort), &mut fence);
        let (low, middle, high) = (read.low(), K::fence_of(&fence), read.high());
        let links = |low, high| Links { level: read.level(), left: NO_BLOCK, right: NO_BLOCK, low, high };
        let _ = K::build(geometry, &links(low, middle), keep, read.iter().take(keep));
        let _ = K::build(geometry, &links(middle, high), total - keep, read.iter().skip(keep));
    }
    for low in [K::first(), &ends[0]] {
        let _ = K::lower(read, geometry, K::fence_of(low), NO_BLOCK, &mut [0; PAGE_SIZE]);
    }
}

/// Reads the page as the only one below a root, from either end.
fn scan<K: Numbered>(sort: &Sort, geometry: &Geometry, page: &PageBytes, ends: [K::OwnedKey; 2]) {
    let (low, high) = (K::fence_of(K::first()), K::fence_of(K::last()));
    let links = Links { level: 1, left: NO_BLOCK, right: NO_BLOCK, low, high };
    let Some(root) = K::build(geometry, &links, 1, [K::downlink(K::first(), BLOCK)].into_iter()) else { return };
    let store = MemoryStore::unchecked(&[[0; PAGE_SIZE], root, *page], 3);
    let tree = Tree::<_, K>::ordered(&store, geometry, K::order(sort));
    let wanted = Between(ends);
    let mut matches = Box::new(Matches::new());
    for direction in [Direction::Forward, Direction::Backward] {
        let mut cursor = Cursor::new(direction);
        for _ in 0..3 {
            let Ok(Some(pin)) = cursor.read_page(tree, &wanted, false, &mut matches) else { break };
            store.unpin(pin);
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let [what, rest @ ..] = data else { return };
    let sort = |kind| Sort {
        kind,
        is_opaque: matches!(what & 7, 5 | 7),
        level: what >> 3 & 1,
        entries: 0,
        to_a_key: if what >> 4 & 1 == 0 { 3 } else { 130 },
        is_bounded: what >> 5 & 1 != 0,
    };
    match what & 7 {
        0 => damage_and_use::<u32>(sort(LaneKind::U32), rest),
        1 => damage_and_use::<u64>(sort(LaneKind::U64), rest),
        2 => damage_and_use::<u128>(sort(LaneKind::U128), rest),
        3 | 6 => damage_and_use::<Bytes>(sort(LaneKind::Prefix), rest),
        _ => damage_and_use::<Bytes>(sort(LaneKind::PrefixPayload), rest),
    }
});
