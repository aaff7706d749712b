//! Counters of many owners, which processes add to at once. An owner takes one of a fixed number of places when something of
//! it is counted first, and keeps it until it is [forgotten](Tallies::forget).
//!
//! No lock is taken. Who adds says so at the place, and looks then whose it is; a place that was left is given to another
//! only while nobody is there: so nothing is ever counted for the wrong owner. Two who come at once may give an owner two
//! places, if others leave theirs meanwhile. What it has is the sum of both.

use core::sync::atomic::AtomicU64;

use super::word::Word;

/// Whose a place is that nobody has had, or that was left. Places are looked for up to one of the former.
const FREE: u64 = 0;
const LEFT: u64 = u64::MAX;

/// The counters, in borrowed memory that any number of threads and processes share. All zero is none counted.
pub struct Tallies<'m, W = AtomicU64> {
    owners: &'m [W],
    /// Who is at each place, adding.
    guests: &'m [W],
    /// Since when each place's owner is counted, if that was said.
    since: &'m [W],
    counts: &'m [W],
    width: usize,
}

impl<'m, W: Word> Tallies<'m, W> {
    /// Words of memory for so many owners, of so many counts each.
    pub const fn words(owners: usize, width: usize) -> usize {
        owners * (width + 3)
    }

    /// Counters of so many counts each for as many owners as there is memory for; `None` if there is none for any.
    pub fn over(words: &'m [W], width: usize) -> Option<Self> {
        let most = words.len() / Self::words(1, width);
        let (owners, rest) = words.split_at_checked(most)?;
        let (guests, rest) = rest.split_at_checked(most)?;
        let (since, rest) = rest.split_at_checked(most)?;
        let counts = rest.get(..most * width)?;
        (most > 0).then_some(Tallies { owners, guests, since, counts, width })
    }

    /// How many owners there can be.
    pub fn most(&self) -> usize {
        self.owners.len()
    }

    /// Whether another owner would find a place.
    pub fn has_room(&self) -> bool {
        self.owners.iter().any(|owner| is_nobody(owner.load()))
    }

    /// Adds to the counts of an owner, from the `first` on. Whether there is a place for it. An owner is not 0, and has a
    /// bit that is 0.
    pub fn add(&self, owner: u64, first: usize, numbers: &[u64]) -> bool {
        self.at_place(owner, |at| {
            let counts = self.counts(at).iter().skip(first);
            counts.zip(numbers).filter(|(_, number)| **number > 0).for_each(|(count, &number)| {
                add(count, number);
            });
        })
    }

    /// Lets an owner count from zero again, since that time. Whether there is a place for it.
    pub fn reset(&self, owner: u64, since: u64) -> bool {
        self.visit(owner, |at| self.counts(at).iter().for_each(|count| count.store(0)));
        self.at_place(owner, |at| self.since[at].store(since))
    }

    /// Sums up what an owner has counted. Since when, if that was said.
    pub fn read(&self, owner: u64, counts: &mut [u64]) -> u64 {
        counts.fill(0);
        let mut since = 0;
        self.visit(owner, |at| {
            counts.iter_mut().zip(self.counts(at)).for_each(|(sum, count)| *sum = sum.wrapping_add(count.load()));
            since = since.max(self.since[at].load());
        });
        since
    }

    /// Those that have a place, each once.
    pub fn owners(&self) -> impl Iterator<Item = u64> {
        self.owners.iter().enumerate().filter_map(|(at, owner)| {
            let owner = owner.load();
            (!is_nobody(owner) && self.places(owner).next() == Some(at)).then_some(owner)
        })
    }

    /// Gives the places of owners to others, if there is nothing more to be counted for them. How many.
    pub fn forget(&self, mut is_over: impl FnMut(u64) -> bool) -> usize {
        let leaves = |word: &&W| {
            let owner = word.load();
            !is_nobody(owner) && is_over(owner) && word.compare_exchange(owner, LEFT).is_ok()
        };
        self.owners.iter().filter(leaves).count()
    }

    /// Does something at the owner's place, which stays the owner's meanwhile. Whether there is one.
    fn at_place(&self, owner: u64, act: impl FnOnce(usize)) -> bool {
        let known = self.places(owner).find(|&at| self.enter(at, owner));
        let place =
            known.or_else(|| self.places_to_look_at(owner).find(|&at| self.enter(at, owner) || self.take(at, owner)));
        if let Some(at) = place {
            act(at);
            self.leave(at);
        }
        place.is_some()
    }

    /// Does something at each of the owner's places, which stay the owner's meanwhile.
    fn visit(&self, owner: u64, mut act: impl FnMut(usize)) {
        for at in self.places(owner).filter(|&at| self.enter(at, owner)) {
            act(at);
            self.leave(at);
        }
    }

    /// Where an owner is.
    fn places(&self, owner: u64) -> impl Iterator<Item = usize> {
        let may_be_further = move |at: &usize| self.owners[*at].load() != FREE;
        self.places_to_look_at(owner).take_while(may_be_further).filter(move |&at| self.owners[at].load() == owner)
    }

    /// Where an owner may be, in the order in which they are looked at.
    fn places_to_look_at(&self, owner: u64) -> impl Iterator<Item = usize> + use<W> {
        let most = self.owners.len();
        // Fibonacci hashing: the upper bits are well mixed.
        let mixed = owner.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let first = ((u128::from(mixed) * most as u128) >> u64::BITS) as usize;
        (0..most).map(move |step| (first + step) % most)
    }

    /// Becomes a guest of the owner, if the place is its.
    fn enter(&self, at: usize, owner: u64) -> bool {
        if self.owners[at].load() != owner {
            return false;
        }
        add(&self.guests[at], 1);
        let is_there = self.owners[at].load() == owner;
        if !is_there {
            self.leave(at);
        }
        is_there
    }

    /// Is a guest no more.
    fn leave(&self, at: usize) {
        add(&self.guests[at], u64::MAX);
    }

    /// Gives the place to the owner, whose guest one is then, if it is nobody's and nobody is there.
    fn take(&self, at: usize, owner: u64) -> bool {
        if !is_nobody(self.owners[at].load()) || self.guests[at].compare_exchange(0, 1).is_err() {
            return false;
        }
        // Others may have had it meanwhile. If it is theirs now, it may be left the next moment with their counts in it; if it
        // is nobody's, it stays so while there is a guest.
        let is_nobodys = is_nobody(self.owners[at].load());
        if is_nobodys {
            self.counts(at).iter().chain([&self.since[at]]).for_each(|word| word.store(0));
            self.owners[at].store(owner);
        } else {
            self.leave(at);
        }
        is_nobodys
    }

    fn counts(&self, at: usize) -> &'m [W] {
        &self.counts[at * self.width..][..self.width]
    }
}

fn is_nobody(owner: u64) -> bool {
    owner == FREE || owner == LEFT
}

/// Adds to a word.
fn add<W: Word>(word: &W, number: u64) {
    let mut seen = word.load();
    while let Err(now) = word.compare_exchange(seen, seen.wrapping_add(number)) {
        seen = now;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    const WIDTH: usize = 3;

    fn memory(owners: usize) -> Vec<AtomicU64> {
        (0..Tallies::<AtomicU64>::words(owners, WIDTH)).map(|_| AtomicU64::new(0)).collect()
    }

    fn read(tallies: &Tallies<'_>, owner: u64) -> ([u64; WIDTH], u64) {
        let mut counts = [1; WIDTH];
        let since = tallies.read(owner, &mut counts);
        (counts, since)
    }

    #[test]
    fn counts_are_each_owners_own() {
        let memory = memory(8);
        let tallies = Tallies::over(&memory, WIDTH).expect("room");
        for round in 1..=5 {
            for owner in 1..=8 {
                assert!(tallies.add(owner, 1, &[owner, 0]) && tallies.add(owner, 0, &[1]));
                assert_eq!(read(&tallies, owner), ([round, round * owner, 0], 0));
            }
        }
        let mut owners: Vec<u64> = tallies.owners().collect();
        owners.sort_unstable();
        assert_eq!(owners, [1, 2, 3, 4, 5, 6, 7, 8]);
        assert!(!tallies.has_room() && !tallies.add(9, 0, &[1]), "there are eight places");
        assert_eq!(read(&tallies, 9), ([0; WIDTH], 0));
    }

    #[test]
    fn a_place_that_was_left_begins_from_zero() {
        let memory = memory(4);
        let tallies = Tallies::over(&memory, WIDTH).expect("room");
        for owner in 1..100 {
            assert!(tallies.add(owner, 0, &[owner, 1, 2]) && tallies.reset(owner, 7));
            assert!(tallies.add(owner, 0, &[owner]));
            assert_eq!(read(&tallies, owner), ([owner, 0, 0], 7));
            if owner > 3 {
                assert!(!tallies.has_room());
                assert_eq!(tallies.forget(|other| other == owner - 3), 1);
            }
        }
    }

    #[test]
    fn nothing_is_lost_or_counted_for_others() {
        const ROUNDS: u64 = if cfg!(miri) { 50 } else { 20_000 };
        let memory = memory(3);
        let tallies = &Tallies::over(&memory, WIDTH).expect("room");
        let added = &AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..3 {
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        // One that stays, and some that come and go.
                        added.fetch_add(u64::from(tallies.add(1000, 0, &[1])), Ordering::Relaxed);
                        let owner = 1 + (round + thread) % 5;
                        tallies.add(owner, 1, &[owner]);
                        let (counts, _) = read(tallies, owner);
                        assert!(counts[0] == 0 && counts[1].is_multiple_of(owner), "{owner}: {counts:?}");
                        tallies.forget(|other| other == owner);
                    }
                });
            }
        });
        assert_eq!(read(tallies, 1000).0, [added.load(Ordering::Relaxed), 0, 0]);
        assert!(added.load(Ordering::Relaxed) > 0);
        assert!(memory[3..6].iter().all(|guests| guests.load(Ordering::Relaxed) == 0), "somebody is still there");
    }
}
