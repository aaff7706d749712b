//! Pages with damage chosen by the fuzzer: whatever is on one, verifying, searching, scanning and planning an insertion
//! neither panics nor loops nor reads outside it (I3).

#![no_main]

use fpbtree_engine::key::{Key, Lane, LaneKind, Tail};
use fpbtree_engine::page::{Entry, Geometry, Links, Page, build};
use fpbtree_engine::store::{NO_BLOCK, PAGE_SIZE, PageBytes};
use libfuzzer_sys::fuzz_target;

/// A sound page of a few hundred entries, leaf or inner.
fn sound<L: Lane>(geometry: &Geometry, level: u8, entries: usize) -> PageBytes {
    let entries = entries % geometry.layout(level).page_entries();
    let links = Links { level, left: NO_BLOCK, right: NO_BLOCK, low: Key::<L>::MIN, high: Key::MAX };
    let entry = |at: usize| Entry {
        lane: L::from_u128(at as u128 / 3),
        tail: Tail::new(false, at as u32, 1, false),
        child: at as u32 + 2,
    };
    build(geometry, &links, entries, (0..entries).map(entry))
}

fn damage_and_use<L: Lane>(kind: LaneKind, level: u8, data: &[u8]) {
    let geometry = Geometry::choose(kind, 42);
    let mut page = sound::<L>(&geometry, level, data.len() * 7);
    // Each four bytes put one byte somewhere: the fuzzer finds the fields by itself.
    for patch in data.chunks_exact(4) {
        let at = u16::from_le_bytes([patch[0], patch[1]]) as usize % PAGE_SIZE;
        page[at] = patch[2] ^ patch[3];
    }
    let _ = Page::<L>::verify(&page, &geometry, 7, Some(true));
    let Ok(read) = Page::<L>::open(&page, &geometry, 7) else { return };
    for lane in [0, 1, 50, 1 << 20, u128::MAX] {
        let key = Key::new(L::from_u128(lane), Tail::new(false, 60, 1, false));
        let place = read.lower_bound(key);
        let _ = (read.key(place), read.next(place), read.previous(place), read.plan(key));
        let _ = (read.child_for(key), read.child_before(key), read.child(place));
    }
    assert!(read.iter().count() <= geometry.layout(read.level()).page_entries());
}

fuzz_target!(|data: &[u8]| {
    let [what, rest @ ..] = data else { return };
    let level = what >> 2 & 1;
    match what & 3 {
        0 => damage_and_use::<u32>(LaneKind::U32, level, rest),
        1 => damage_and_use::<u64>(LaneKind::U64, level, rest),
        _ => damage_and_use::<u128>(LaneKind::U128, level, rest),
    }
});
