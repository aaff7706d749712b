//! Queues: keys come at one end and go at the other, and the tree stays as small as what it holds.

use crate::common::bytes::{self, BytesBed, TINY_KEY, Taste, Value};
use crate::common::*;
use fpbtree_engine::format::{Block, Geometry, Key, Lane, Tid, is_link};
use fpbtree_engine::keys::digits::{DigitKind, DigitShape};
use fpbtree_engine::log::{Change, Edit};
use fpbtree_engine::page::{Entry, Page};
use fpbtree_engine::store::memory::{Form, MemoryStore};
use fpbtree_engine::store::{Exclusive, Locked, PageStore};
use fpbtree_engine::tree::Seek;
use std::collections::BTreeSet;

/// Where new keys come in.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Right,
    Left,
}

/// So many rows wait, while the queue is emptied and filled so often.
fn turn_over<L: Lane>(end: End, geometry: Geometry, waiting: u64, turnovers: u64) -> Bed<L> {
    let mut bed = Bed::<L>::with(exact(one_column::<L>(), geometry), |pages| MemoryStore::new(pages, 3000));
    let lane = |row: u64| if end == End::Right { row } else { (1 << 30) - row };
    let (mut most_pages, mut most_inner, mut levels) = (0, 0, 0);
    for row in 0..waiting * turnovers {
        bed.insert(key(lane(row).into(), row));
        if row % (waiting / 4) == 0 {
            let first = row.saturating_sub(waiting);
            bed.vacuum(|tid| u64::from(tid.block()) * 100 + u64::from(tid.offset()) - 1 < first);
            bed.check();
            let census = bed.tree().census().expect("the tree can be counted");
            let turned = row / waiting;
            if turned < 3 {
                most_pages = most_pages.max(census.leaf_pages);
                most_inner = most_inner.max(census.inner_pages);
                levels = bed.tree().root_level().expect("a root");
            }
            assert!(
                census.leaf_pages <= most_pages + 2,
                "{} leaves after {turned} turnovers, {most_pages} before",
                census.leaf_pages
            );
            assert!(
                census.inner_pages <= most_inner * 2 + 2,
                "{} inner pages after {turned} turnovers, {most_inner} before",
                census.inner_pages
            );
            assert!(bed.tree().root_level().expect("a root") <= levels + 1, "the tree grew");
        }
    }
    bed
}

#[test]
fn a_queue_stays_small() {
    turn_over::<u32>(End::Right, small::<u32>(), 1000, 100);
    turn_over::<u64>(End::Right, small::<u64>(), 400, 100);
    turn_over::<u128>(End::Right, normal::<u128>(), 3000, 20);
}

#[test]
fn so_does_one_that_runs_to_the_left() {
    turn_over::<u32>(End::Left, small::<u32>(), 1000, 100);
    turn_over::<u128>(End::Left, small::<u128>(), 1000, 30);
}

#[test]
fn a_branch_folds_from_its_top() {
    // Nothing is left but at the right: every page above the first leaves has a single child, up to the root.
    let mut bed = Bed::<u128>::new(small::<u128>(), 5000);
    (0..20_000).for_each(|row| bed.insert(key(u128::from(row) << 100, row)));
    assert!(bed.tree().root_level().expect("a root") > 2);
    bed.vacuum(|tid| u64::from(tid.block()) < 198);
    // A neighbour that is full takes no child: these small pages are, until their own leaves are gone.
    for _ in 0..3 {
        bed.vacuum(|_| false);
    }
    bed.check();
    let census = bed.tree().census().expect("the tree can be counted");
    assert!(census.inner_pages < 15, "{} inner pages for {} leaves", census.inner_pages, census.leaf_pages);
}

#[test]
fn the_free_end_of_the_file_is_cut_off() {
    let mut bed = Bed::<u32>::new(normal::<u32>(), 3000);
    let file_end = |bed: &Bed<u32>, most| bed.tree().file_end(most, &mut |_| true).expect("the pages can be read");
    let last = |bed: &Bed<u32>| file_end(bed, Block::MAX).free();
    (0..200_000).for_each(|row| bed.insert(key(row.into(), row)));
    let grown = bed.store.block_count();
    assert_eq!(last(&bed), 0);
    bed.vacuum(|tid| tid.block() >= 20);
    let free = last(&bed);
    assert!(free > grown / 2, "{free} of {grown}");
    assert!((1..=7).contains(&file_end(&bed, 7).free()));
    assert!(bed.tree().file_end(grown, &mut |block| block > grown - 5).expect("the pages can be read").free() <= 4);
    bed.cut_off();
    assert_eq!((bed.store.block_count(), last(&bed)), (grown - free, 0));
    bed.check();
    let mut emptied = Bed::<u32>::new(small::<u32>(), 3000);
    (0..2_000).for_each(|row| emptied.insert(key(row.into(), row)));
    (0..4).for_each(|_| _ = emptied.vacuum(|_| true));
    emptied.cut_off();
    assert!(emptied.store.block_count() < 20, "{} pages of an empty tree", emptied.store.block_count());
    emptied.check();
    // Where leaves were seen, and where the last row went, there is nothing now; and then nothing but zeros.
    for lost in [0, 1000] {
        let lost: Vec<_> = (0..lost).map(|_| bed.store.allocate().expect("a page")).collect();
        let blocks: Vec<_> = lost.iter().map(Locked::block).collect();
        lost.into_iter().for_each(Locked::release);
        for lane in (0..200_000).step_by(31) {
            let leaf = bed.tree().leaf(Seek::At(Key::new(lane, Tid::MIN))).expect("the tree is sound");
            leaf.release();
        }
        blocks.iter().for_each(|&block| bed.store.free(block));
        (2_000 + blocks.len() as u64..200_000).step_by(97).for_each(|row| bed.insert(key(row.into(), row)));
        bed.check();
    }
}

#[test]
fn a_page_whose_split_is_not_finished_stays_where_it_is() {
    let mut bed = Bed::<u32>::new(small::<u32>(), 3000);
    (0..20_000).for_each(|row| bed.insert(key(row.into(), row)));
    bed.vacuum(|tid| tid.block() >= 20);
    let geometry = bed.meta.geometry;
    let last_above = (2..bed.store.block_count()).find_map(|block| {
        let bytes = bed.store.copy(block);
        let page = Page::<u32>::open(&bytes, &geometry, block).ok()?;
        (page.level() == 1 && !page.is_deleted() && !is_link(page.right())).then(|| (block, page.left()))
    });
    let (above, before) = last_above.expect("a level above the leaves");
    let mut before = bed.tree().lock::<Exclusive>(before).expect("a page");
    bed.store.commit(&[before.writable()], &Change::new().edit(Edit::SetIncomplete(true)));
    before.release();
    let last = bed.tree().leaf(Seek::At(Key::new(u32::MAX, Tid::MIN))).expect("the tree is sound");
    let last_block = last.block();
    last.release();
    assert!(last_block > above, "what is behind a page that stays is to stay, too");
    bed.cut_off();
    // The parent knows of the page all the same, which a check would not expect.
    assert!(entries(bed.tree()).iter().map(Entry::key).eq(bed.model.iter().copied()), "the tree holds something else");
}

#[test]
fn a_queue_of_strings_stays_small() {
    let text = DigitShape { kind: DigitKind::Text, descending: false, nulls_first: false };
    let taste = Taste::new(vec![text], 0, TINY_KEY, &[0], 2);
    let mut bed = BytesBed::new(taste, bytes::tiny(false), 3000);
    let text = |row: u64| vec![Value::Bytes(format!("job number {row:08}").into_bytes())];
    let mut most = 0;
    for row in 0..30_000u64 {
        let next = bed.taste.row(text(row), row);
        bed.insert(next);
        if row % 300 == 0 {
            let first = row.saturating_sub(600);
            bed.vacuum(|tid| u64::from(tid.block()) * 100 + u64::from(tid.offset()) - 1 < first);
            let census = bed.tree().census().expect("the tree can be counted");
            let pages = census.leaf_pages + census.inner_pages;
            most = if row < 3000 { pages.max(most) } else { most };
            assert!(pages <= most * 3 / 2, "{pages} pages after {row} rows, {most} before");
        }
    }
    bed.check();
}

/// Crashes after every record of a queue's life.
#[test]
fn folding_survives_crashes() {
    let meta = exact(one_column::<u128>(), small::<u128>());
    let mut bed = Bed::<u128>::with(meta, |pages| MemoryStore::logging(pages, 900));
    let (mut moments, mut folded) = (vec![(0, BTreeSet::new())], 0);
    for row in 0..2500u64 {
        bed.insert(key(u128::from(row) << 100, row));
        moments.push((bed.store.end_of_log(), bed.model.clone()));
        if row % 500 == 499 {
            for _ in 0..2 {
                folded += bed.vacuum(|tid| u64::from(tid.block()) * 100 + 100 < row).folded_pages;
            }
            moments.push((bed.store.end_of_log(), bed.model.clone()));
        }
    }
    assert!(folded > 8, "{folded} inner pages were deleted");
    for lsn in 0..=bed.store.end_of_log() {
        let cut = moments.partition_point(|(end, _)| *end < lsn);
        let (after, before) = (&moments[cut].1, &moments[cut.saturating_sub(1)].1);
        for form in [Form::Own, Form::Generic] {
            let store = bed.store.crash(&mut |count| (lsn as usize * 7 + count) % count, lsn, form);
            let mut recovered = Bed::on(meta, store, BTreeSet::new());
            assert_eq!(problems(recovered.tree(), &shape_of(&meta)), Vec::<String>::new());
            let found: BTreeSet<Key<u128>> = entries(recovered.tree()).iter().map(|entry| entry.key()).collect();
            let both: BTreeSet<_> = before.intersection(after).copied().collect();
            assert!(both.is_subset(&found) && found.iter().all(|key| before.contains(key) || after.contains(key)));
            recovered.model = found;
            recovered.insert(key(5000, 5000));
            recovered.vacuum(|_| true);
            assert_eq!(problems(recovered.tree(), &shape_of(&meta)), Vec::<String>::new());
        }
    }
}
