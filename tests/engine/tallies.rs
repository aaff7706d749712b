//! Counters of many owners, under the model checker.

use crate::words::{ModelWord, seen};
use fpbtree_engine::cache::tallies::Tallies;
use std::sync::Arc;

const COUNTS: usize = 2;

/// Counts for the owner, whose number tells at which count, and whether it read what only it can have counted.
fn count(words: &[ModelWord], owner: u64) -> bool {
    let tallies = Tallies::over(words, COUNTS).unwrap();
    let place = (owner % 2) as usize;
    tallies.add(owner, place, &[owner]);
    let mut counts = [0; COUNTS];
    tallies.read(owner, &mut counts);
    counts[1 - place] == 0 && counts[place].is_multiple_of(owner)
}

/// Two owners come to the place that a third has left, and one of them leaves it at once: whatever comes between what, an
/// owner is told nothing of another's.
#[test]
fn nothing_is_counted_for_others_in_any_interleaving() {
    let run = || {
        let words: Arc<Vec<ModelWord>> =
            Arc::new((0..Tallies::<ModelWord>::words(1, COUNTS)).map(|_| seen()).collect());
        let forget = |words: &[ModelWord], owner| Tallies::over(words, COUNTS).unwrap().forget(|other| other == owner);
        assert!(count(&words, 5) && forget(&words, 5) == 1);
        let others = words.clone();
        let other = shuttle::thread::spawn(move || {
            Tallies::over(&others, COUNTS).unwrap().add(4, 0, &[4]);
            forget(&others, 4);
        });
        assert!(count(&words, 3), "another's counts");
        other.join().unwrap();
    };
    shuttle::check_random(run, 20_000);
    shuttle::check_pct(run, 200_000, 4);
}
