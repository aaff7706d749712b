//! Removal of dead entries to make room: what goes was dead, what lives is there, pages that versions of rows fill are
//! not split, and a crash changes nothing of that.

use crate::common::*;
use fpbtree_engine::format::{Key, Lane, NO_BLOCK, Tid};
use fpbtree_engine::page::Entry;
use fpbtree_engine::scan::{Cursor, Direction, Matches, Selection, kill};
use fpbtree_engine::store::memory::{Form, MemoryStore};
use fpbtree_engine::tree::InsertOptions;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::collections::BTreeSet;

/// A tree of rows of which new versions are made; its model holds the living ones.
struct Versions<L: Lane> {
    bed: Bed<L>,
    dead: BTreeSet<Key<L>>,
    made: u64,
}

impl<L: Lane> Versions<L> {
    fn new(bed: Bed<L>) -> Self {
        let made = bed.model.len() as u64;
        Versions { bed, dead: BTreeSet::new(), made }
    }

    fn insert(&mut self, lane: L, adds_version: bool) {
        let (_, tid) = key::<L>(0, self.made);
        self.made += 1;
        let entry = Entry { key: lane, tid, child: NO_BLOCK };
        self.bed
            .tree()
            .insert_entry(&entry, InsertOptions::filling(90).adding_version(adds_version))
            .expect("the insertion succeeds");
        self.bed.model.insert(Key::new(lane, tid));
    }

    /// A row gets a new version with the same key, and the old one dies.
    fn update(&mut self, old: Key<L>, adds_version: bool) {
        self.insert(old.lane, adds_version);
        self.die(old);
    }

    fn die(&mut self, key: Key<L>) {
        self.bed.model.remove(&key);
        self.bed.store.bury(key.tid);
        self.dead.insert(key);
    }

    /// A scan marks what it finds dead.
    fn notice(&self) {
        let shape = shape_of(&self.bed.meta);
        let (mut cursor, mut matches) = (Cursor::new(Direction::Forward), Box::new(Matches::new()));
        while let Some(pin) = cursor.read_page(self.bed.tree(), &Selection::new(&shape), true, &mut matches).unwrap() {
            let is_dead = |at: &usize| self.dead.contains(&Key::new(matches.lane(*at), matches.tid(*at).position()));
            let places: Vec<u16> = (0..matches.len()).filter(is_dead).map(|at| matches.flags_at(at)).collect();
            kill(&self.bed.store, pin, cursor.lsn(), &places).unpin(&self.bed.store);
        }
    }

    fn some_row(&self, random: &mut StdRng) -> Key<L> {
        let from = Key::new(L::from_u128(random.random_range(0..1 << 20)), Tid::MIN);
        *self.bed.model.range(from..).next().or(self.bed.model.first()).expect("a row lives")
    }

    fn leaves(&self) -> u64 {
        self.bed.tree().census().expect("the tree can be counted").leaf_pages
    }

    /// All that lives is there, and nothing that neither lives nor died.
    fn check(&self) {
        assert!(self.bed.store.is_quiet(), "a lock or a pin is left over");
        check_found(&self.bed, &self.bed.model, &self.dead);
    }
}

fn check_found<L: Lane>(bed: &Bed<L>, living: &BTreeSet<Key<L>>, dead: &BTreeSet<Key<L>>) {
    assert_eq!(problems(bed.tree(), &shape_of(&bed.meta)), Vec::<String>::new());
    let found: BTreeSet<Key<L>> =
        entries(bed.tree()).iter().map(|entry| Key::new(entry.key, entry.tid.position())).collect();
    assert!(living.is_subset(&found), "an entry of a living row is missing");
    assert!(found.iter().all(|key| living.contains(key) || dead.contains(key)), "an entry is of no row");
}

/// How the rows of a table lie in it, in the order of their keys.
#[derive(Clone, Copy)]
enum Lie {
    /// One after the other: their nodes get wider as new versions come from far away.
    Ordered,
    Anyhow,
}

/// How much larger than at first a tree of full pages is after each row was updated so many times.
fn growth<L: Lane>(lie: Lie, updates: usize, adds_version: bool, notices: bool) -> f64 {
    let meta = exact(one_column::<L>(), normal::<L>());
    let place = |row: u64| if matches!(lie, Lie::Ordered) { row } else { row * 4943 % 8000 };
    let rows: Vec<(L, Tid)> = (0..8000).map(|row| key(u128::from(row) * 100, place(row))).collect();
    let pages = load::<L>(&meta, 90, rows.iter().copied());
    let model = rows.iter().map(|&(lane, tid)| Key::new(lane, tid)).collect();
    let mut versions = Versions::new(Bed::on(meta, MemoryStore::new(&pages, 1000), model));
    let (before, mut random) = (versions.leaves(), StdRng::seed_from_u64(3));
    for at in 0..updates * rows.len() {
        let row = versions.some_row(&mut random);
        versions.update(row, adds_version);
        if notices && at % 200 == 0 {
            versions.notice();
        }
    }
    versions.check();
    versions.leaves() as f64 / before as f64
}

fn growths<L: Lane>() {
    for (lie, most) in [(Lie::Anyhow, 1.2), (Lie::Ordered, 2.7)] {
        let growth = |adds_version, notices| growth::<L>(lie, 3, adds_version, notices);
        let (nothing, versions, marked) = (growth(false, false), growth(true, false), growth(false, true));
        assert!(nothing > 3.0, "without removal a tree of 4 versions a row is {nothing} times as large");
        assert!(versions < most, "pages that versions fill were split: {versions}");
        // What died since the last scan is not known to be dead.
        assert!(marked < most, "pages with entries marked dead were split: {marked}");
    }
}

#[test]
fn pages_of_versions_are_not_split_4() {
    growths::<u32>();
}

#[test]
fn pages_of_versions_are_not_split_16() {
    growths::<u128>();
}

/// A history of everything, crashed every now and then.
fn crashes<L: Lane>(seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let meta = exact(one_column::<L>(), small::<L>());
    let mut versions = Versions::new(Bed::with(meta, |pages| MemoryStore::logging(pages, 900)));
    let mut moments = Vec::new();
    for _ in 0..1500 {
        match random.random_range(0..20) {
            0 => versions.notice(),
            1..8 => versions.insert(L::from_u128(random.random_range(0..1 << 20)), random.random()),
            _ if versions.bed.model.is_empty() => {}
            8 => {
                let row = versions.some_row(&mut random);
                versions.die(row);
            }
            9..15 => {
                let row = versions.some_row(&mut random);
                versions.update(row, random.random());
            }
            _ => {
                // The same few rows again and again.
                let row = *versions.bed.model.iter().take(3).collect::<Vec<_>>().choose(&mut random).unwrap();
                versions.update(*row, random.random());
            }
        }
        moments.push((versions.bed.store.end_of_log(), versions.bed.model.clone()));
    }
    versions.check();
    let left = entries(versions.bed.tree()).len();
    assert!(left < versions.bed.model.len() + versions.dead.len() * 2 / 3, "hardly anything was removed");
    for (lsn, living) in moments.iter().step_by(37) {
        for form in [Form::Own, Form::Generic] {
            let store = versions.bed.store.crash(&mut |count| random.random_range(0..count), *lsn, form);
            let bed = Bed::on(meta, store, BTreeSet::new());
            let ever = versions.dead.union(&versions.bed.model).copied().collect();
            check_found(&bed, living, &ever);
        }
    }
}

#[test]
fn removal_survives_crashes_4() {
    crashes::<u32>(1);
}

#[test]
fn removal_survives_crashes_8() {
    crashes::<u64>(2);
}

#[test]
fn removal_survives_crashes_16() {
    crashes::<u128>(3);
}
