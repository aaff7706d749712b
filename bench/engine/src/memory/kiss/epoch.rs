//! Grace periods: who reads announces the epoch it began in; what was retired in an epoch is used again two epochs
//! later.
//!
//! The epoch advances only while everyone who reads has announced the current one. So a reader holds it back by at most
//! one step, and nothing that it may still look at is used for something else.

use super::region::{Region, header};
use fpbtree_engine::cache::word::Word;

/// No one has the slot.
const VACANT: u64 = 0;
/// Someone has the slot, and reads nothing now.
const IDLE: u64 = 1;
/// The first epoch. A slot that holds an epoch belongs to someone reading.
pub(super) const FIRST: u64 = 2;

impl<W: Word> Region<'_, W> {
    fn participant(&self, slot: usize) -> &W {
        self.at(self.layout.participant(slot))
    }

    pub fn epoch(&self) -> u64 {
        self.at(header::EPOCH).load()
    }

    /// Takes a slot that no one has.
    pub fn claim(&self, slot: usize) -> bool {
        slot < self.layout.participants && self.participant(slot).compare_exchange(VACANT, IDLE).is_ok()
    }

    /// Gives a slot back, whatever its owner was doing.
    pub fn vacate(&self, slot: usize) {
        if slot < self.layout.participants {
            self.participant(slot).store(VACANT);
        }
    }

    /// From here on, until [`retract`](Self::retract), nothing that can be reached is used for something else.
    #[inline]
    pub fn announce(&self, slot: usize) {
        self.participant(slot).store(self.epoch());
        // No later read may come before the announcement is seen.
        W::fence();
    }

    #[inline]
    pub fn retract(&self, slot: usize) {
        self.participant(slot).store(IDLE);
    }

    /// Advances the epoch, unless someone still reads in an older one.
    pub fn advance(&self) -> bool {
        W::fence();
        let epoch = self.epoch();
        let behind = |slot| {
            let announced = self.participant(slot).load();
            announced >= FIRST && announced != epoch
        };
        if (0..self.layout.participants).any(behind) {
            return false;
        }
        self.at(header::EPOCH).compare_exchange(epoch, epoch.wrapping_add(1).max(FIRST)).is_ok()
    }
}
