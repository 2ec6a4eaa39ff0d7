//! Rates, delays and losses that change at given times, once or repeatedly.

use super::chance::{BILLION, check};
use super::limits::{FULL_PACKET, MAX_DELAY, check_rate};
use crate::error::SpecError;
use crate::units::{BitsPerSecond, NEVER, Nanos, SECOND};
use serde::Deserialize;

/// A link's values over time.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScheduleSpec {
    /// The changes, in time order. Until the first of them, the link's own values hold.
    pub steps: Vec<StepSpec>,
    /// The steps repeat after this long; none holds the last values forever. A value persists across the
    /// end of a period until a step sets it again.
    #[serde(default)]
    pub period_ns: Option<Nanos>,
}

/// A change of the given values.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepSpec {
    /// Time from the start of the trial, or of each period.
    pub at_ns: Nanos,
    /// Rate from then on; 0 holds everything back.
    #[serde(default)]
    pub rate_bps: Option<BitsPerSecond>,
    /// Delay from then on. A falling delay never makes packets overtake each other.
    #[serde(default)]
    pub delay_ns: Option<Nanos>,
    /// Loss from then on, parts per billion; here a whole billion is possible.
    #[serde(default)]
    pub loss_ppb: Option<u64>,
}

impl ScheduleSpec {
    /// `has_rate`: the link has a rate that steps can change.
    pub(super) fn validate(&self, has_rate: bool) -> Result<(), SpecError> {
        let wrong = |key: &str, expected: &str| Err(SpecError::new(key, expected));
        if self.steps.is_empty() {
            return wrong("schedule.steps", "expected at least one step, found none");
        }
        let mut before = None;
        for (i, step) in self.steps.iter().enumerate() {
            let key = |name: &str| format!("schedule.steps[{i}].{name}");
            if before.is_some_and(|before| before >= step.at_ns) || step.at_ns >= NEVER / 2 {
                return wrong(&key("at_ns"), "expected increasing times below 26 days");
            }
            before = Some(step.at_ns);
            step.validate(has_rate).map_err(|e| SpecError::new(key(&e.key), e.expected))?;
        }
        if self.period_ns.is_some_and(|period| Some(period) <= before || period >= NEVER / 2) {
            let expected = "expected more than the time of the last step and less than 26 days";
            return wrong("schedule.period_ns", expected);
        }
        Ok(())
    }

    /// A value over time; `base` holds until the first step that sets it.
    fn timeline<T: Copy>(&self, base: T, value: impl Fn(&StepSpec) -> Option<T>) -> Timeline<T> {
        let steps = self.steps.iter().filter_map(|step| value(step).map(|v| (step.at_ns, v)));
        Timeline { base, steps: steps.collect(), period: self.period_ns }
    }
}

/// A link's value over time: by its schedule, or constant.
pub(super) fn timeline<T: Copy>(
    schedule: Option<&ScheduleSpec>,
    base: T,
    value: impl Fn(&StepSpec) -> Option<T>,
) -> Timeline<T> {
    schedule.map_or(Timeline::constant(base), |schedule| schedule.timeline(base, value))
}

impl StepSpec {
    fn validate(&self, has_rate: bool) -> Result<(), SpecError> {
        if self.rate_bps.is_none() && self.delay_ns.is_none() && self.loss_ppb.is_none() {
            return Err(SpecError::new("at_ns", "expected a rate, a delay or a loss beside it"));
        }
        if let Some(rate) = self.rate_bps {
            if !has_rate {
                return Err(SpecError::new("rate_bps", "expected the link to have a rate"));
            }
            if rate > 0 {
                check_rate("rate_bps", rate)?;
            }
        }
        if self.delay_ns.is_some_and(|delay| delay > MAX_DELAY) {
            return Err(SpecError::new("delay_ns", "expected a delay of at most 100 s"));
        }
        check("loss_ppb", self.loss_ppb.unwrap_or(0), BILLION)
    }
}

/// One value over time.
#[derive(Debug, Clone)]
pub(super) struct Timeline<T> {
    base: T,
    steps: Vec<(Nanos, T)>,
    period: Option<Nanos>,
}

impl<T: Copy> Timeline<T> {
    /// A value that never changes.
    pub fn constant(base: T) -> Self {
        Self { base, steps: Vec::new(), period: None }
    }

    /// The value at a time.
    #[inline]
    pub fn at(&self, time: Nanos) -> T {
        if self.steps.is_empty() { self.base } else { self.span(time).0 }
    }

    /// The value at a time, and its end ([`NEVER`]: forever).
    fn span(&self, time: Nanos) -> (T, Nanos) {
        let (Some(first), Some(last)) = (self.steps.first(), self.steps.last()) else {
            return (self.base, NEVER);
        };
        let phase = self.period.map_or(time, |period| time % period);
        let start = time - phase;
        let passed = self.steps.partition_point(|step| step.0 <= phase);
        let value = match passed {
            0 if start == 0 => self.base,
            0 => last.1,
            _ => self.steps[passed - 1].1,
        };
        let until = match self.steps.get(passed) {
            Some(next) => start + next.0,
            None => self.period.map_or(NEVER, |period| start + period + first.0),
        };
        (value, until)
    }
}

/// Serialisation at a rate that changes over time; 0 holds everything back.
#[derive(Debug, Clone)]
pub(super) struct VaryingRate {
    rate: Timeline<BitsPerSecond>,
    /// Work of a whole period, in bit/s times ns.
    per_period: u128,
    busy_until: Nanos,
}

impl VaryingRate {
    pub fn new(rate: Timeline<BitsPerSecond>) -> Self {
        let mut per_period = 0;
        if let (Some(period), Some(first)) = (rate.period, rate.steps.first()) {
            // Any period after the first step is like any other.
            let (mut at, end) = (first.0, first.0 + period);
            while at < end {
                let (value, until) = rate.span(at);
                per_period += u128::from(value) * u128::from(until - at);
                at = until;
            }
        }
        Self { rate, per_period, busy_until: 0 }
    }

    /// A packet arrives at `at` behind all earlier ones. Returns the end of its transmission, or [`NEVER`].
    pub fn send(&mut self, at: Nanos, size: u32) -> Nanos {
        self.busy_until = self.finish(at.max(self.busy_until), size);
        self.busy_until
    }

    fn finish(&self, start: Nanos, size: u32) -> Nanos {
        // Bits to send in units of bit/s times ns; at most 2^16 * 8 * 10^9, products are 128 bits.
        let mut work = u128::from(size) * 8 * u128::from(SECOND);
        let mut now = start;
        while now < NEVER {
            let (rate, until) = self.rate.span(now);
            let capacity = u128::from(rate) * u128::from(until - now);
            if rate > 0 && work / u128::from(rate) <= u128::from(until - now) {
                return now + (work / u128::from(rate)) as Nanos;
            }
            if until == NEVER {
                return NEVER;
            }
            work -= capacity;
            now = until;
            // Whole periods at once: a slow link with a fast schedule would take too many steps.
            if let Some(period) = self.rate.period.filter(|_| work > self.per_period) {
                let Some(periods) = (work - 1).checked_div(self.per_period) else { return NEVER };
                work -= periods * self.per_period;
                now = (u128::from(now) + periods * u128::from(period)).min(u128::from(NEVER))
                    as Nanos;
            }
        }
        NEVER
    }

    /// The time one full packet takes at the current rate; none while nothing is sent.
    pub fn packet_time(&self, now: Nanos) -> Option<Nanos> {
        (FULL_PACKET * 8 * SECOND).checked_div(self.rate.at(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::MILLISECOND;
    use proptest::prelude::*;

    const MS: Nanos = MILLISECOND;
    /// A full packet takes 1 ms.
    const RATE: BitsPerSecond = 12_000_000;

    fn rates(
        base: BitsPerSecond,
        steps: &[(Nanos, BitsPerSecond)],
        period: Option<Nanos>,
    ) -> VaryingRate {
        let steps = steps.iter().map(|&(at_ns, rate)| StepSpec {
            at_ns,
            rate_bps: Some(rate),
            ..StepSpec::default()
        });
        let spec = ScheduleSpec { steps: steps.collect(), period_ns: period };
        spec.validate(true).expect("valid");
        VaryingRate::new(spec.timeline(base, |step| step.rate_bps))
    }

    #[test]
    fn a_packet_in_flight_feels_the_change() {
        // Half of it at 12 Mbit/s, the other half at 6 Mbit/s.
        let mut link = rates(RATE, &[(MS / 2, RATE / 2)], None);
        assert_eq!(link.send(0, 1500), 3 * MS / 2);
        assert_eq!(link.send(0, 1500), 7 * MS / 2);
    }

    #[test]
    fn packets_wait_for_an_outage_to_end_and_forever_if_it_does_not() {
        let mut link = rates(RATE, &[(MS, 0), (10 * MS, RATE)], None);
        assert_eq!([link.send(0, 3000), link.send(0, 1500)], [11 * MS, 12 * MS]);
        let mut link = rates(RATE, &[(MS, 0)], None);
        let sent: Vec<_> = (0..3).map(|_| link.send(0, 1500)).collect();
        assert_eq!(sent, [MS, NEVER, NEVER]);
        let mut link = rates(RATE, &[(MS, 0), (2 * MS, 0)], Some(5 * MS));
        assert_eq!([link.send(0, 1500), link.send(0, 1500)], [MS, NEVER]);
    }

    #[test]
    fn a_period_repeats_its_steps_and_keeps_values_across_its_end() {
        // On for 1 of 10 ms, from 2 to 3 ms; before the first step the base rate.
        let mut link = rates(RATE, &[(2 * MS, RATE), (3 * MS, 0)], Some(10 * MS));
        let sent: Vec<_> = (0..5).map(|_| link.send(0, 1500) / MS).collect();
        assert_eq!(sent, [1, 2, 3, 13, 23]);
    }

    #[test]
    fn many_periods_are_skipped_at_once() {
        // 100 bit/s for 1 us of each millisecond: 12000 bits take 1.2 * 10^8 periods; for 1 ns of each,
        // more than there are. Walking them one by one would take too long.
        let mut slow = rates(100, &[(0, 100), (1_000, 0)], Some(MS));
        assert_eq!(slow.send(0, 1500), 119_999_999 * MS + 1_000);
        let mut slow = rates(100, &[(0, 100), (1, 0)], Some(MS));
        assert_eq!(slow.send(0, 1500), NEVER);
        // One byte: 80 ms of on-time, that is 80000 periods, the last of them to the end of its on-time.
        let mut slow = rates(100, &[(0, 100), (1_000, 0)], Some(MS));
        assert_eq!(slow.send(0, 1), 79_999 * MS + 1_000);
    }

    #[test]
    fn each_value_has_its_own_steps() {
        let step =
            |at_ns, delay_ns, loss_ppb| StepSpec { at_ns, delay_ns, loss_ppb, rate_bps: None };
        let steps = vec![step(5, Some(7), None), step(8, None, Some(3)), step(9, Some(2), None)];
        let spec = ScheduleSpec { steps, period_ns: Some(10) };
        spec.validate(false).expect("valid");
        let delay = spec.timeline(1, |step| step.delay_ns);
        let loss = spec.timeline(0, |step| step.loss_ppb);
        assert_eq!([0, 4, 5, 8, 9, 10, 14, 15].map(|at| delay.at(at)), [1, 1, 7, 7, 2, 2, 2, 7]);
        assert_eq!([0, 7, 8, 9, 10, 17].map(|at| loss.at(at)), [0, 0, 3, 3, 3, 3]);
    }

    #[test]
    fn impossible_schedules_are_refused() {
        let rate = |at_ns, rate| StepSpec { at_ns, rate_bps: Some(rate), ..StepSpec::default() };
        let refused = |steps: Vec<StepSpec>, period_ns, has_rate| {
            ScheduleSpec { steps, period_ns }.validate(has_rate).expect_err("impossible").key
        };
        assert_eq!(refused(vec![], None, true), "schedule.steps");
        assert_eq!(refused(vec![rate(5, 100), rate(5, 0)], None, true), "schedule.steps[1].at_ns");
        assert_eq!(refused(vec![rate(0, 99)], None, true), "schedule.steps[0].rate_bps");
        assert_eq!(refused(vec![rate(0, 100)], None, false), "schedule.steps[0].rate_bps");
        assert_eq!(refused(vec![StepSpec::default()], None, true), "schedule.steps[0].at_ns");
        assert_eq!(refused(vec![rate(5, 0)], Some(5), true), "schedule.period_ns");
        let loss = StepSpec { loss_ppb: Some(BILLION + 1), ..StepSpec::default() };
        assert_eq!(refused(vec![loss], None, true), "schedule.steps[0].loss_ppb");
    }

    proptest! {
        /// The integral of the rate up to the departure is the packet.
        #[test]
        fn the_integral_of_the_rate_is_the_packet(
            base in 0u64..20_000_000,
            steps in prop::collection::btree_map(0u64..50_000_000, prop_oneof![Just(0u64), 1_000u64..50_000_000], 1..8),
            extra in prop::option::of(1u64..50_000_000),
            packets in prop::collection::vec((0u64..20_000_000, 40u32..9000), 1..30),
        ) {
            let steps: Vec<_> = steps.into_iter().collect();
            let period = extra.map(|extra| steps.last().unwrap().0 + extra);
            let mut link = rates(base, &steps, period);
            let (mut at, mut before) = (0, 0);
            for (gap, size) in packets {
                at += gap;
                let start = before.max(at);
                let end = link.send(at, size);
                prop_assert!(end >= start);
                before = end;
                if end == NEVER { break }
                let mut sent = 0u128;
                let mut fastest = 0;
                let mut now = start;
                while now < end {
                    let (rate, until) = link.rate.span(now);
                    sent += u128::from(rate) * u128::from(until.min(end) - now);
                    fastest = fastest.max(rate);
                    now = until;
                }
                let work = u128::from(size) * 8_000_000_000;
                // The last nanosecond is rounded down.
                let last = u128::from(fastest.max(link.rate.at(end)));
                prop_assert!(sent <= work && work < sent + last + 1, "{sent} {work}");
            }
        }
    }
}
