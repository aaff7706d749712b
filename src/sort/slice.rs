//! Sorting entries that fit a processor's cache.

use super::compact::{Compact, Radix};

/// Bits by which entries are told apart in one go.
pub(super) const DIGIT: u32 = 8;
/// Up to so many entries comparing them is faster.
const FEW: usize = 48;
/// Values of a digit.
const VALUES: usize = 1 << DIGIT;

/// Sorts entries; `scratch` has room for as many.
///
/// Two passes sort by the uppermost 16 bits in which lanes differ. That tells most random lanes apart, so what is still
/// to be done among those that tie is little, or is done in the same way.
pub(super) fn sort<L: Radix>(entries: &mut [Compact<L>], scratch: &mut [Compact<L>]) {
    if entries.len() <= FEW {
        return entries.sort_unstable();
    }
    let first = entries[0].lane();
    let differ = entries.iter().fold(L::MIN, |bits, entry| bits | (entry.lane() ^ first));
    let Some(top) = differ.leading() else {
        return entries.sort_unstable();
    };
    let low = (top + 1).saturating_sub(2 * DIGIT);
    let window = |entry: &Compact<L>| (entry.lane() >> low).low_bits() as u16;
    let [mut lower, mut upper] = places(entries, window);
    let scratch = &mut scratch[..entries.len()];
    for &entry in &*entries {
        put(scratch, &mut lower[usize::from(window(&entry) as u8)], entry);
    }
    for &entry in &*scratch {
        put(entries, &mut upper[usize::from(window(&entry) >> DIGIT)], entry);
    }
    for tied in entries.chunk_by_mut(|a, b| window(a) == window(b)).filter(|tied| tied.len() > 1) {
        sort(tied, scratch);
    }
}

/// Where the first entry with each value goes, of the window's lower digit and of its upper one.
fn places<L: Radix>(entries: &[Compact<L>], window: impl Fn(&Compact<L>) -> u16) -> [[u32; VALUES]; 2] {
    let mut counts = [[0; VALUES]; 2];
    for entry in entries {
        let [low, high] = window(entry).to_le_bytes();
        counts[0][usize::from(low)] += 1;
        counts[1][usize::from(high)] += 1;
    }
    for counts in &mut counts {
        let mut before = 0;
        for count in counts {
            (*count, before) = (before, before + *count);
        }
    }
    counts
}

#[inline(always)]
fn put<L: Radix>(entries: &mut [Compact<L>], place: &mut u32, entry: Compact<L>) {
    entries[*place as usize] = entry;
    *place += 1;
}
