//! What sorts the entries of a build, whatever their keys are.

use super::files::RunFiles;
use crate::format::Tid;
use crate::page::{Entry, KeySpace};

/// Merged entries between two looks at whether the sort was cancelled.
pub(super) const MERGED: usize = 4096;
/// Entries looked at for each part that runs are divided into.
pub(super) const SAMPLES: usize = 64;

/// What collects entries and gives them back in order. It owns no destructor: after a call that did not return, memory
/// and files are given back by those they come from.
pub trait Sorter<K: KeySpace>: Sized {
    /// Where the memory comes from.
    type Host: Copy;
    /// Where runs go.
    type Files: RunFiles;

    /// A sorter that keeps to `memory` bytes, which it takes as entries come.
    fn new(host: Self::Host, files: Self::Files, memory: usize) -> Self;

    /// Adds an entry that is in one piece.
    fn add(&mut self, entry: &Entry<'_, K>, order: K::Order<'_>);

    /// Entries added.
    fn total(&self) -> u64;

    /// Bytes of memory that entries have taken.
    fn memory(&self) -> usize;

    /// Calls `each` with every entry in order, and closes files as [`close`](Sorter::close). No entry may be added
    /// then.
    fn drain(&mut self, order: K::Order<'_>, each: impl FnMut(&Entry<'_, K>));

    /// Leaves all entries as runs, to another sorter if they go where that can open them. Returns how many runs there
    /// are. No entry may be added then.
    fn leave(&mut self, order: K::Order<'_>) -> usize;

    /// Takes over the runs that another sorter has left, so many.
    fn take_over(&mut self, files: Self::Files, runs: usize);

    /// Calls `each` with the entries that are the first ones of parts, but for the first part's, if the entries of all
    /// runs are divided into so many parts of about the same size; or fewer, where one key has many entries. Entries of
    /// one key stay together if `keep_keys` says so, and else if there is a choice.
    fn divide(&mut self, parts: usize, keep_keys: bool, order: K::Order<'_>, each: impl FnMut(&Entry<'_, K>));

    /// Goes to the runs' entries between two places, and says what they [weigh](Sorter::weight) together.
    fn part(&mut self, from: &K::OwnedKey, to: &K::OwnedKey, order: K::Order<'_>) -> usize;

    /// How much of a part an entry is.
    fn weight(entry: &Entry<'_, K>) -> usize;

    /// Merges the entries of the [`part`](Sorter::part), as long as `each` says so.
    fn merge_part(&mut self, order: K::Order<'_>, each: impl FnMut(&Entry<'_, K>) -> bool);

    /// Closes the files of all runs, which are gone then, and gives all memory back.
    fn close(&mut self);

    /// Merges all runs, and closes their files.
    fn merge(&mut self, order: K::Order<'_>, mut each: impl FnMut(&Entry<'_, K>)) {
        self.part(K::first(), K::last(), order);
        self.merge_part(order, |entry| {
            each(entry);
            true
        });
        self.close();
    }
}

/// Calls `each` with those of sorted samples that [divide](Sorter::divide) what they are taken from into so many parts.
pub(super) fn choose_places<'e, K: KeySpace>(
    sample: impl Fn(usize) -> Entry<'e, K>,
    count: usize,
    parts: usize,
    keep_keys: bool,
    order: K::Order<'_>,
    mut each: impl FnMut(&Entry<'_, K>),
) {
    if count == 0 {
        return;
    }
    let mut last = sample(0);
    for part in 1..parts {
        let aimed = sample(part * count / parts);
        let is_behind = |place: &Entry<'_, K>| K::compare_entry(K::key_of(place, order), &last).is_gt();
        let begins = Entry { tid: Tid::MIN, ..aimed };
        let place = if keep_keys || is_behind(&begins) { begins } else { aimed };
        if is_behind(&place) {
            each(&place);
            last = place;
        }
    }
}
