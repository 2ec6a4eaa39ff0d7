//! What sets of subflows gave before, and for how long that is believed.

use super::sets::Set;
use super::tuning::TUNING;
use crate::units::Nanos;

/// What a set gave, and until when that is believed.
#[derive(Debug, Clone, Copy)]
struct Known {
    set: Set,
    rate: f64,
    believed: Nanos,
    until: Nanos,
}

/// What sets gave.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory(Vec<Known>);

impl Memory {
    /// Whatever its age.
    pub(super) fn usual(&self, set: Set) -> Option<f64> {
        self.0.iter().find(|one| one.set == set).map(|one| one.rate)
    }

    pub(super) fn fresh(&self, set: Set, now: Nanos) -> Option<f64> {
        self.0.iter().find(|one| one.set == set && now < one.until).map(|one| one.rate)
    }

    /// A set gave this; after a failure it is believed longer each time.
    pub(super) fn learn(&mut self, set: Set, rate: f64, now: Nanos, failed: bool) {
        let before = self.0.iter().position(|one| one.set == set).map(|at| self.0.remove(at));
        let longer = |one: Known| (2 * one.believed).min(TUNING.longest_fresh);
        let believed = before.filter(|_| failed).map_or(TUNING.fresh, longer);
        if self.0.len() == TUNING.remembered {
            self.0.remove(0);
        }
        self.0.push(Known { set, rate, believed, until: now + believed });
    }

    pub(super) fn forget(&mut self, set: Set) {
        self.0.retain(|one| one.set != set);
    }
}
