//! Pages with damage chosen by the fuzzer: whatever is on one, verifying, searching, scanning and changing it
//! neither panics nor loops nor reads outside it (I3).

#![no_main]

use fpbtree_engine::change::{Change, Edit};
use fpbtree_engine::key::long::Stored;
use fpbtree_engine::key::{Lane, LaneKind, Tail};
use fpbtree_engine::page::{Entry, Geometry, KeySpace, Links, Long, Page, Ranges};
use fpbtree_engine::store::{NO_BLOCK, PAGE_SIZE, PageBytes};
use libfuzzer_sys::fuzz_target;

/// A key space that a number can be a key of, whose bytes may lie in `room`.
trait Numbered: KeySpace<Order<'static>: Default> {
    fn key(number: u128, room: &mut [u8; 32]) -> Self::Stored<'_>;
}

macro_rules! numbered {
    ($($lane:ty),*) => {$(
        impl Numbered for $lane {
            fn key(number: u128, _room: &mut [u8; 32]) -> $lane {
                <$lane>::from_u128(number)
            }
        }
    )*};
}

numbered!(u32, u64, u128);

impl Numbered for Long {
    fn key(number: u128, room: &mut [u8; 32]) -> Stored<'_> {
        // Some bytes in common, some in the lane, some behind it; every other key carries something.
        room[0] = 1;
        room[8..24].copy_from_slice(&number.to_be_bytes());
        let (normal, extra) = room.split_at(24);
        Stored::whole(normal, &extra[..number as usize % 2 * 8])
    }
}

/// A sound page of a few hundred entries, leaf or inner, so many to a key: with runs or without.
fn sound<K: Numbered>(geometry: &Geometry, level: u8, entries: usize, to_a_key: usize) -> Option<PageBytes> {
    let entries = entries % geometry.layout(level).page_entries();
    let (low, high) = (K::fence_of(K::first()), K::fence_of(K::last()));
    let links = Links { level, left: NO_BLOCK, right: NO_BLOCK, low, high };
    let mut rooms = vec![[0; 32]; entries];
    let keys: Vec<_> = rooms.iter_mut().enumerate().map(|(at, room)| K::key((at / to_a_key) as u128, room)).collect();
    let entry = |at: usize| Entry { key: keys[at], tail: Tail::new(false, at as u32, 1, false), child: at as u32 + 2 };
    K::build(geometry, &links, entries, (0..entries).map(entry))
}

fn damage_and_use<K: Numbered>(kind: LaneKind, level: u8, to_a_key: usize, data: &[u8]) {
    let geometry = Geometry::choose(kind, 42);
    let Some(mut page) = sound::<K>(&geometry, level, data.len() * 7, to_a_key) else { return };
    // Each four bytes put one byte somewhere: the fuzzer finds the fields by itself.
    for patch in data.chunks_exact(4) {
        let at = u16::from_le_bytes([patch[0], patch[1]]) as usize % PAGE_SIZE;
        page[at] = patch[2] ^ patch[3];
    }
    let _ = Page::<K>::verify(&page, &geometry, 7, Some(true), K::Order::default());
    let Ok(read) = Page::<K>::open(&page, &geometry, 7) else { return };
    for number in [0, 1, 50, 1 << 20, u128::MAX] {
        let mut room = [0; 32];
        let entry = Entry { key: K::key(number, &mut room), tail: Tail::new(false, 60, 1, false), child: 9 };
        let key = K::key_of(&entry, K::Order::default());
        let place = read.lower_bound(key);
        let _ = (read.entry(place).is_some(), read.next(place), read.previous(place));
        let _ = (read.child_for(key), read.child_before(key));
        let repack = Change::new(7).edit(Edit::Repack { cell: 0 });
        for change in read.insertion(key, &entry, Change::new(7)).into_iter().chain([repack]) {
            change.apply(0, &mut page.clone(), &mut Ranges::new());
        }
    }
    assert!(read.iter().count() <= geometry.layout(read.level()).most_entries());
}

fuzz_target!(|data: &[u8]| {
    let [what, rest @ ..] = data else { return };
    let (level, to_a_key) = (what >> 3 & 1, if what >> 4 & 1 == 0 { 3 } else { 130 });
    match what & 7 {
        0 | 5 => damage_and_use::<u32>(LaneKind::U32, level, to_a_key, rest),
        1 | 6 => damage_and_use::<u64>(LaneKind::U64, level, to_a_key, rest),
        2 | 7 => damage_and_use::<u128>(LaneKind::U128, level, to_a_key, rest),
        3 => damage_and_use::<Long>(LaneKind::Prefix, level, to_a_key, rest),
        _ => damage_and_use::<Long>(LaneKind::PrefixExtra, level, to_a_key, rest),
    }
});
