//! Throughputs of sets of subflows measured before, each with a time for which it is believed.

use super::sets::Set;
use super::tuning::TUNING;
use crate::units::Nanos;

/// The throughput of a set, and the end of its validity.
#[derive(Debug, Clone, Copy)]
struct Record {
    set: Set,
    rate: f64,
    believed: Nanos,
    until: Nanos,
}

/// The throughputs of sets.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory(Vec<Record>);

impl Memory {
    /// Whatever its age.
    pub(super) fn usual(&self, set: Set) -> Option<f64> {
        self.0.iter().find(|record| record.set == set).map(|record| record.rate)
    }

    pub(super) fn fresh(&self, set: Set, now: Nanos) -> Option<f64> {
        self.0
            .iter()
            .find(|record| record.set == set && now < record.until)
            .map(|record| record.rate)
    }

    /// Records a throughput; after a failure it is believed longer each time.
    pub(super) fn learn(&mut self, set: Set, rate: f64, now: Nanos, failed: bool) {
        let before = self.0.iter().position(|record| record.set == set).map(|at| self.0.remove(at));
        let longer = |record: Record| (2 * record.believed).min(TUNING.longest_fresh);
        let believed = before.filter(|_| failed).map_or(TUNING.fresh, longer);
        if self.0.len() == TUNING.remembered {
            self.0.remove(0);
        }
        self.0.push(Record { set, rate, believed, until: now + believed });
    }

    pub(super) fn forget(&mut self, set: Set) {
        self.0.retain(|record| record.set != set);
    }
}
