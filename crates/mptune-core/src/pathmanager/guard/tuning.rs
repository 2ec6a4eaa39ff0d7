//! The numbers of guard, in one place.
//!
//! Developed on the dynamics of seed 1 of `benchmarks/decision/guard.py`; docs/explanation/guard.md explains them.

use crate::units::{MILLISECOND, Nanos, SECOND};

/// The span within which changes are counted.
pub(super) const MINUTE: Nanos = 60 * SECOND;

/// Every number that guard uses and that no option sets; gains and losses are factors of a throughput.
pub(super) struct Tuning {
    /// Time between two samples.
    pub(super) interval: Nanos,
    /// Samples in the history: 10 s.
    pub(super) samples: usize,
    /// The largest delivery rate is that of this and the last period.
    pub(super) rate_period: Nanos,
    /// Decay of counts, and of the longest RTT, per sample.
    pub(super) decay: f64,
    /// Payload bytes of a segment, and the length of a packet for what it carries.
    pub(super) segment: f64,
    /// See there.
    pub(super) packet: f64,
    /// Part of the smallest RTT that a queue must add before it can be full.
    pub(super) queued: f64,
    /// The longest RTT for the longest smoothed one, both without the smallest.
    pub(super) unsmoothed: f64,
    /// A forecast is made again after this long.
    pub(super) foreseen: Nanos,
    /// While an answer is awaited the questions are asked again after this long.
    pub(super) asked_again: Nanos,
    /// A throughput is taken over four round trips, but over no less than this.
    pub(super) shortest_window: Nanos,
    /// The longest such window.
    pub(super) longest_window: Nanos,
    /// So many windows are taken at most, where more may help.
    pub(super) most_windows: Nanos,
    /// After a change, one and a half round trips are not counted, but no less than this.
    pub(super) shortest_settling: Nanos,
    /// The longest such time.
    pub(super) longest_settling: Nanos,
    /// Time after a change by which data sent before it no longer delays later data.
    pub(super) longest_drain: Nanos,
    /// The first trial begins no earlier.
    pub(super) first_trial: Nanos,
    /// Until this long after the beginning slow start makes everything look better.
    pub(super) slow_start: Nanos,
    /// Age of the connection up to which a set's throughput is not recorded.
    pub(super) young: Nanos,
    /// Factor by which a throughput measured before is believed.
    pub(super) memory_trust: f64,
    /// Loss at which a set with another subflow is given up at once.
    pub(super) hopeless: f64,
    /// Before and after differ clearly below this factor: one window is enough.
    pub(super) clearly_less: f64,
    /// The same above this factor.
    pub(super) clearly_more: f64,
    /// A throughput below this share of the usual one is a reason to try the others at once.
    pub(super) collapsed: f64,
    /// Changes within a minute after which no trial begins.
    pub(super) most_changes: usize,
    /// Growth of the wait for a subflow that was tried again in vain, or left again within a minute.
    pub(super) wait_growth: Nanos,
    /// The longest wait for anything.
    pub(super) longest_wait: Nanos,
    /// First wait after a trial without a subflow failed; it doubles.
    pub(super) after_failure: Nanos,
    /// After a subflow was tried again no other is for this long.
    pub(super) pause: Nanos,
    /// A subflow of which no gain is predicted may have changed unseen: it is tried after this long, then twice
    /// that.
    pub(super) blind: Nanos,
    /// Initial validity of a throughput measured before; it doubles.
    pub(super) fresh: Nanos,
    /// Longest such validity.
    pub(super) longest_fresh: Nanos,
    /// Sets that are remembered.
    pub(super) remembered: usize,
    /// Up to this many usable subflows, every set of them is considered; of more only some.
    pub(super) few: u32,
}

/// The values that guard uses.
pub(super) const TUNING: Tuning = Tuning {
    interval: 100 * MILLISECOND,
    samples: 100,
    rate_period: 5 * SECOND,
    decay: 0.993,
    segment: 1428.0,
    packet: 1.05,
    queued: 0.1,
    unsmoothed: 1.2,
    foreseen: 2 * SECOND,
    asked_again: SECOND,
    shortest_window: SECOND,
    longest_window: 3 * SECOND,
    most_windows: 3,
    shortest_settling: 300 * MILLISECOND,
    longest_settling: 2 * SECOND,
    longest_drain: 10 * SECOND,
    first_trial: 1500 * MILLISECOND,
    slow_start: 3 * SECOND,
    young: 8 * SECOND,
    memory_trust: 0.95,
    hopeless: 0.6,
    clearly_less: 0.8,
    clearly_more: 1.25,
    collapsed: 0.3,
    most_changes: 8,
    wait_growth: 3,
    longest_wait: 10 * MINUTE,
    after_failure: 5 * SECOND,
    pause: 5 * SECOND,
    blind: 2 * MINUTE,
    fresh: MINUTE,
    longest_fresh: 5 * MINUTE,
    remembered: 32,
    few: 4,
};
