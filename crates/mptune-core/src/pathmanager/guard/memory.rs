//! What sets of subflows gave.

use super::{MINUTE, Set, seconds};
use crate::units::{Nanos, SECOND};

/// How long a throughput measured before is believed at first, and at most.
const FRESH: Nanos = MINUTE;
const LONGEST_FRESH: Nanos = 5 * MINUTE;
/// Sets that are remembered.
const REMEMBERED: usize = 32;
/// What a set gives lately follows its samples within about a second; what it gives in the long run within
/// this: longer than a loss or an outage that passes, shorter than most of what stays.
const RECENT: Nanos = SECOND;
const LONG_RUN: Nanos = 20 * SECOND;

/// What a set gave, and until when that is believed.
#[derive(Debug, Clone, Copy)]
struct Known {
    set: Set,
    rate: f64,
    long_run: f64,
    /// When it was last seen.
    at: Nanos,
    believed: Nanos,
    until: Nanos,
}

/// What sets gave.
#[derive(Debug, Clone, Default)]
pub struct Memory(Vec<Known>);

impl Memory {
    fn of(&self, set: Set) -> Option<&Known> {
        self.0.iter().find(|one| one.set == set)
    }

    /// Whatever its age.
    pub fn usual(&self, set: Set) -> Option<f64> {
        self.of(set).map(|one| one.rate)
    }

    /// In the long run, whatever its age.
    pub fn long_run(&self, set: Set) -> Option<f64> {
        self.of(set).map(|one| one.long_run)
    }

    pub fn fresh(&self, set: Set, now: Nanos) -> Option<f64> {
        self.of(set).filter(|one| now < one.until).map(|one| one.rate)
    }

    /// A set gave this; after a failure it is believed longer each time.
    pub fn learn(&mut self, set: Set, rate: f64, now: Nanos, failed: bool) {
        let before = self.take(set);
        let longer = |one: Known| (2 * one.believed).min(LONGEST_FRESH);
        let believed = before.filter(|_| failed).map_or(FRESH, longer);
        self.put(Known { set, rate, long_run: rate, at: now, believed, until: now + believed });
    }

    /// Equation 6: the set in use gives this at the moment.
    pub fn follow(&mut self, set: Set, rate: f64, now: Nanos) {
        let Some(mut one) = self.take(set) else { return self.learn(set, rate, now, false) };
        let passed = now.saturating_sub(one.at);
        one.rate += (rate - one.rate) * part(passed, RECENT);
        one.long_run += (rate - one.long_run) * part(passed, LONG_RUN);
        self.put(Known { at: now, believed: FRESH, until: now + FRESH, ..one });
    }

    pub fn forget(&mut self, set: Set) {
        self.0.retain(|one| one.set != set);
    }

    fn take(&mut self, set: Set) -> Option<Known> {
        self.0.iter().position(|one| one.set == set).map(|at| self.0.remove(at))
    }

    fn put(&mut self, known: Known) {
        if self.0.len() == REMEMBERED {
            self.0.remove(0);
        }
        self.0.push(known);
    }
}

/// Part of a time that has passed, at most all of it.
fn part(passed: Nanos, whole: Nanos) -> f64 {
    (seconds(passed) / seconds(whole)).min(1.0)
}
