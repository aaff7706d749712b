//! Crashes: a recorded history, cut off at every log position, with any mix of written and lost pages.

use crate::common::*;
use fpbtree_engine::format::{Block, Key, Lane, PAGE_SIZE, Tid};
use fpbtree_engine::page::Page;
use fpbtree_engine::scan::{Cursor, Direction, Matches, Selection, kill};
use fpbtree_engine::store::PageStore;
use fpbtree_engine::store::memory::{Form, MemoryStore};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeSet;

const ROOM: usize = 600;

/// What a tree held at a log position, between two operations.
struct Moment<L> {
    lsn: u64,
    keys: BTreeSet<Key<L>>,
}

/// Insertions of all kinds and removals, with hints or without; and what the tree held between them.
fn history<L: Lane>(random: &mut StdRng, operations: usize, hints: bool) -> (Bed<L>, Vec<Moment<L>>) {
    let meta = exact(one_column::<L>(), small::<L>());
    let mut bed = Bed::<L>::with(meta, |pages| MemoryStore::logging(pages, ROOM));
    let mut moments = vec![Moment { lsn: 0, keys: BTreeSet::new() }];
    for at in 0..operations {
        match random.random_range(0..60) {
            0 => {
                let from = random.random_range(0..1 << 20);
                bed.vacuum(|tid| u64::from(tid.block()) * 100 > from);
            }
            1 => {
                let keys: Vec<_> = bed.model.iter().copied().collect();
                let from = random.random_range(0..=keys.len());
                let doomed: Vec<_> = keys[from..].iter().take(60).map(|key| key.tid).collect();
                bed.vacuum(|tid| doomed.contains(&tid.position()));
            }
            2 if hints => hint_some(&bed, random),
            59 => bed.cut_off(),
            3..20 => bed.insert(key((at / 2) as u128, at as u64)),
            20..30 => bed.insert(some_key(random, 3)),
            _ => bed.insert(some_key(random, 1 << 30)),
        }
        moments.push(Moment { lsn: bed.store.end_of_log(), keys: bed.model.clone() });
    }
    bed.check();
    (bed, moments)
}

/// Marks some entries dead. They are not, which no test here minds.
fn hint_some<L: Lane>(bed: &Bed<L>, random: &mut StdRng) {
    let shape = shape_of(&bed.meta);
    let (mut cursor, mut matches) = (Cursor::new(Direction::Forward), Box::new(Matches::new()));
    while let Some(pin) = cursor.read_page(bed.tree(), &Selection::new(&shape), false, &mut matches).unwrap() {
        let places: Vec<u16> =
            (0..matches.len()).filter(|_| random.random_ratio(1, 3)).map(|at| matches.flags_at(at)).collect();
        kill(&bed.store, pin, cursor.lsn(), &places).unpin(&bed.store);
    }
}

/// Checks a recovered store, and what it holds: all that was there before the operation that was cut off, and no more
/// than after it.
fn check<L: Lane>(bed: &mut Bed<L>, before: &BTreeSet<Key<L>>, after: &BTreeSet<Key<L>>) {
    assert_eq!(problems(bed.tree(), &shape_of(&bed.meta)), Vec::<String>::new());
    let found: BTreeSet<Key<L>> = entries(bed.tree()).iter().map(|entry| entry.key()).collect();
    let (fewest, most): (BTreeSet<_>, BTreeSet<_>) =
        (before.intersection(after).copied().collect(), before.union(after).copied().collect());
    assert!(fewest.is_subset(&found) && found.is_subset(&most), "the tree holds something else");
    bed.model = found;
}

/// Crashes after every record of a history; some of the recovered trees live on.
fn crashes<L: Lane>(hints: bool) {
    let mut random = StdRng::seed_from_u64(5);
    let (bed, moments) = history::<L>(&mut random, 700, hints);
    let (end, mut incomplete) = (bed.store.end_of_log(), 0);
    for lsn in 0..=end {
        let cut = moments.partition_point(|moment| moment.lsn < lsn);
        let after = &moments[cut].keys;
        let before = if moments[cut].lsn == lsn { after } else { &moments[cut - 1].keys };
        let newest = bed.store.crash(&mut |versions| versions - 1, lsn, Form::Own);
        for form in [Form::Own, Form::Generic] {
            let store = bed.store.crash(&mut |versions| random.random_range(0..versions), lsn, form);
            assert_eq!(store.block_count(), newest.block_count());
            if !hints {
                for block in 0..store.block_count() {
                    assert!(store.copy(block) == newest.copy(block), "block {block} at {lsn}, redone in {form:?} form");
                }
            }
            let mut recovered = Bed::on(bed.meta, store, BTreeSet::new());
            check(&mut recovered, before, after);
            let cut_off = incomplete_pages(&recovered);
            incomplete += cut_off.len();
            if !cut_off.is_empty() {
                let store = bed.store.crash(&mut |versions| versions - 1, lsn, form);
                let mut shortened = Bed::on(bed.meta, store, BTreeSet::new());
                shortened.cut_off();
                check(&mut shortened, before, after);
            }
            if !cut_off.is_empty() || lsn % 40 == 0 {
                live_on(recovered, &cut_off, &mut random);
            }
        }
    }
    let least = if PAGE_SIZE > 16384 { 40 } else { 50 };
    assert!(incomplete > least, "{incomplete} incomplete splits");
}

/// A page that was split and whose parent does not know it.
struct CutOff<L> {
    block: Block,
    level: u8,
    low: Key<L>,
    high: Key<L>,
}

fn incomplete_pages<L: Lane>(bed: &Bed<L>) -> Vec<CutOff<L>> {
    let geometry = &bed.meta.geometry;
    let mut found = Vec::new();
    for block in 1..bed.store.block_count() {
        let bytes = bed.store.copy(block);
        if let Ok(page) = Page::<L>::open(&bytes, geometry, block)
            && page.is_incomplete()
            && !page.is_deleted()
        {
            found.push(CutOff { block, level: page.level(), low: page.low(), high: page.high() });
        }
    }
    found
}

/// Goes on using a recovered tree: what is incomplete gets completed, nothing else goes wrong.
fn live_on<L: Lane>(mut bed: Bed<L>, cut_off: &[CutOff<L>], random: &mut StdRng) {
    for page in cut_off.iter().filter(|page| page.level == 0) {
        let tids = (1..200).map(|step| Tid::from_raw(page.low.tid.raw() + (step << 3)));
        let new = |tid: &Tid| tid.offset() != 0 && !bed.model.contains(&Key::new(page.low.lane, *tid));
        let tid = tids.into_iter().find(new).expect("some row is not there yet");
        assert!(Key::new(page.low.lane, tid) < page.high);
        bed.insert((page.low.lane, tid));
        let bytes = bed.store.copy(page.block);
        assert!(!Page::<L>::open(&bytes, &bed.meta.geometry, page.block).unwrap().is_incomplete());
    }
    for _ in 0..60 {
        bed.insert(some_key(random, 1 << 30));
    }
    bed.vacuum(|tid| tid.block().is_multiple_of(2));
    assert_eq!(problems(bed.tree(), &shape_of(&bed.meta)), Vec::<String>::new());
    assert!(entries(bed.tree()).iter().map(|entry| entry.key()).eq(bed.model.iter().copied()));
    assert!(bed.store.is_quiet());
}

#[test]
fn u32_without_hints() {
    crashes::<u32>(false);
}

#[test]
fn u64_without_hints() {
    crashes::<u64>(false);
}

#[test]
fn u128_without_hints() {
    crashes::<u128>(false);
}

#[test]
fn u64_with_hints() {
    crashes::<u64>(true);
}
