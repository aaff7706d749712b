//! Telling a way that goes round.

/// What a way that goes on from place to place has to remember to notice that it goes round. Brent's method: another place is
/// kept in mind after twice as many steps each time, so that a circle of whatever length is soon gone through with one of
/// its own in mind.
#[derive(Clone, Copy, Debug)]
pub struct Rounds<T> {
    steps: u64,
    seen: Option<T>,
}

/// Steps before places are looked at: most ways have fewer.
const FEW_STEPS: u64 = 32;

impl<T: Copy + PartialEq> Rounds<T> {
    /// No step is done.
    pub const BEGIN: Rounds<T> = Rounds { steps: 0, seen: None };

    /// How many steps were counted.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Counts a step to a place; `true` if it is the place that is kept in mind.
    pub fn comes_again(&mut self, place: impl FnOnce() -> T) -> bool {
        self.steps += 1;
        if self.steps <= FEW_STEPS {
            return false;
        }
        let here = Some(place());
        if here == self.seen {
            return true;
        }
        if self.steps.is_power_of_two() {
            self.seen = here;
        }
        false
    }

    /// Forgets all places but that there was one.
    pub fn forget(&mut self) {
        *self = Rounds { steps: self.steps.min(1), seen: None };
    }
}
