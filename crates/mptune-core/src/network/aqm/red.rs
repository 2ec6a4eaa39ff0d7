//! Random early detection (Floyd and Jacobson 1993; RFC 2309 section 3, kept by RFC 7567 as one of the
//! possible algorithms), with the gentle variant (Floyd 2000) and ECN.
//!
//! It decides on arrival, so that departures are known in advance.

use super::discipline::{Arrival, OnArrival, Verdict};
use crate::engine::Random;
use crate::error::SpecError;
use crate::network::chance::{BILLION, Chance, check};
use crate::units::Bytes;
use serde::Deserialize;

/// Thresholds on the average queue, in bytes. The probability does not depend on a packet's size
/// (RFC 7141 section 2.2).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedSpec {
    /// Below this average nothing happens.
    pub min_bytes: Bytes,
    /// At this average the probability is `max_ppb`.
    pub max_bytes: Bytes,
    /// Probability of a signal at `max_bytes`, parts per billion.
    pub max_ppb: u64,
    /// Weight of a new sample in the average, parts per billion.
    pub weight_ppb: u64,
    /// From `max_bytes` to twice that, the probability keeps rising to 1 instead of jumping there.
    pub gentle: bool,
    /// Mark ECN-capable packets instead of dropping them; above the thresholds, in overload, they are
    /// still dropped.
    pub ecn: bool,
}

impl RedSpec {
    pub(super) fn validate(&self, queue: Option<Bytes>) -> Result<(), SpecError> {
        if self.min_bytes >= self.max_bytes {
            let expected = "expected more than min_bytes";
            return Err(SpecError::new("aqm.max_bytes", expected));
        }
        if queue.is_some_and(|queue| self.max_bytes > queue) {
            let expected = "expected at most the queue's limit";
            return Err(SpecError::new("aqm.max_bytes", expected));
        }
        for (key, ppb) in [("aqm.max_ppb", self.max_ppb), ("aqm.weight_ppb", self.weight_ppb)] {
            check(key, ppb, BILLION)?;
            if ppb == 0 {
                return Err(SpecError::new(key, "expected more than 0"));
            }
        }
        Ok(())
    }
}

/// The average and the last signal.
#[derive(Debug, Clone)]
pub struct Red {
    min: f64,
    max: f64,
    max_probability: f64,
    weight: f64,
    gentle: bool,
    ecn: bool,
    average: f64,
    /// Packets accepted since the last signal.
    count: f64,
    random: Random,
}

impl OnArrival for Red {
    type Spec = RedSpec;

    fn new(spec: &RedSpec, random: Random) -> Self {
        let whole = BILLION as f64;
        Self {
            min: spec.min_bytes as f64,
            max: spec.max_bytes as f64,
            max_probability: spec.max_ppb as f64 / whole,
            weight: spec.weight_ppb as f64 / whole,
            gentle: spec.gentle,
            ecn: spec.ecn,
            average: 0.0,
            count: 0.0,
            random,
        }
    }

    fn judge(&mut self, arrival: &Arrival) -> Verdict {
        self.sample(arrival);
        let Some(probability) = self.probability() else {
            self.count = 0.0;
            return Verdict::Take;
        };
        if probability >= 1.0 {
            self.count = 0.0;
            return Verdict::Drop;
        }
        // Uniform instead of geometric gaps between signals (section VII of the paper, whose
        // pseudo-code counts one packet more): after k packets the next is hit with p / (1 - k p).
        let left = 1.0 - self.count * probability;
        if left > probability && !Chance::of(probability / left).happens(&mut self.random) {
            self.count += 1.0;
            return Verdict::Take;
        }
        self.count = 0.0;
        Verdict::signal(self.ecn && arrival.ect)
    }
}

impl Red {
    /// Updates the average by the queue or, after idleness, by as many empty queues as packets fit into it.
    fn sample(&mut self, arrival: &Arrival) {
        let Arrival { queued, idle, packet_time, .. } = *arrival;
        if queued > 0 {
            self.average += self.weight * (queued as f64 - self.average);
        } else {
            let packets = packet_time.map_or(0.0, |time| (idle / time.max(1)) as f64);
            self.average *= libm::pow(1.0 - self.weight, packets.max(1.0));
        }
    }

    /// The probability of a signal before it is spread evenly; none below the lower threshold.
    fn probability(&self) -> Option<f64> {
        let (average, min, max) = (self.average, self.min, self.max);
        if average < min {
            None
        } else if average < max {
            Some(self.max_probability * (average - min) / (max - min))
        } else if self.gentle && average < 2.0 * max {
            Some(self.max_probability + (1.0 - self.max_probability) * (average - max) / max)
        } else {
            Some(1.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> RedSpec {
        RedSpec {
            min_bytes: 10_000,
            max_bytes: 30_000,
            max_ppb: 100_000_000,
            weight_ppb: 2_000_000,
            gentle: false,
            ecn: true,
        }
    }

    fn finds(queued: Bytes, ect: bool) -> Arrival {
        Arrival { queued, idle: 0, packet_time: None, ect }
    }

    fn red(spec: &RedSpec) -> Red {
        Red::new(spec, Random::new(1, 1))
    }

    /// Verdicts on packets that all find the same queue, after the average has settled there.
    fn settled(spec: &RedSpec, queued: Bytes, ect: bool, packets: usize) -> Vec<Verdict> {
        let mut red = red(spec);
        red.average = queued as f64;
        (0..packets).map(|_| red.judge(&finds(queued, ect))).collect()
    }

    #[test]
    fn the_average_follows_a_growing_queue_and_idleness_as_in_the_paper() {
        // Section VI: L arrivals that find 1, 2, ... L take it to L + 1 + ((1 - w)^(L + 1) - 1) / w.
        let mut red = red(&spec());
        for queued in 1..=100 {
            red.judge(&finds(queued * 1000, true));
        }
        let expected = 1000.0 * (101.0 + (libm::pow(0.998, 101.0) - 1.0) / 0.002);
        assert!((red.average - expected).abs() < 1e-6);
        // Idle for 300 packets' time.
        red.judge(&Arrival { idle: 300_500, packet_time: Some(1_000), ..finds(0, true) });
        assert!((red.average - expected * libm::pow(0.998, 300.0)).abs() < 1e-6);
    }

    #[test]
    fn gaps_between_signals_are_uniform() {
        // Half-way between the thresholds p = 0.05: the gap is uniform on 1 ... 1/p, mean 10.5.
        let verdicts = settled(&spec(), 20_000, true, 40_000);
        let marks: Vec<_> = (0..verdicts.len()).filter(|&i| verdicts[i] == Verdict::Mark).collect();
        let gaps: Vec<_> = marks.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.iter().all(|gap| (1..=20).contains(gap)));
        let mean = gaps.iter().sum::<usize>() as f64 / gaps.len() as f64;
        // About 3800 gaps with standard deviation sqrt((20^2 - 1) / 12) = 5.77: 0.094; five.
        assert!((mean - 10.5).abs() < 0.47, "{mean}");
    }

    #[test]
    fn below_the_lower_threshold_nothing_happens_and_above_the_upper_everything_is_dropped() {
        assert!(settled(&spec(), 9_999, true, 1000).iter().all(|&v| v == Verdict::Take));
        assert!(settled(&spec(), 30_000, true, 10).iter().all(|&v| v == Verdict::Drop));
    }

    #[test]
    fn what_cannot_be_marked_is_dropped() {
        let marks = settled(&spec(), 20_000, true, 1000);
        let drops = settled(&spec(), 20_000, false, 1000);
        let blind = settled(&RedSpec { ecn: false, ..spec() }, 20_000, true, 1000);
        for ((mark, drop), blind) in marks.iter().zip(&drops).zip(&blind) {
            assert_eq!(*mark == Verdict::Mark, *drop == Verdict::Drop);
            assert_eq!(drop, blind);
        }
        assert!(marks.contains(&Verdict::Mark) && !marks.contains(&Verdict::Drop));
    }

    #[test]
    fn the_gentle_variant_extends_to_twice_the_threshold() {
        let gentle = RedSpec { gentle: true, ..spec() };
        // At 1.5 times the threshold p = 0.1 + 0.9 / 2 = 0.55: the gaps are 1 and 2 packets.
        let verdicts = settled(&gentle, 45_000, true, 1000);
        let marked = verdicts.iter().filter(|&&v| v == Verdict::Mark).count();
        assert!((500..1000).contains(&marked), "{marked}");
        assert!(settled(&gentle, 60_000, true, 10).iter().all(|&v| v == Verdict::Drop));
    }

    #[test]
    fn impossible_parameters_are_refused() {
        let refused = |spec: RedSpec| spec.validate(Some(40_000)).expect_err("impossible").key;
        assert_eq!(refused(RedSpec { min_bytes: 30_000, ..spec() }), "aqm.max_bytes");
        assert_eq!(refused(RedSpec { max_bytes: 40_001, ..spec() }), "aqm.max_bytes");
        assert_eq!(refused(RedSpec { max_ppb: 0, ..spec() }), "aqm.max_ppb");
        assert_eq!(refused(RedSpec { weight_ppb: BILLION + 1, ..spec() }), "aqm.weight_ppb");
    }
}
