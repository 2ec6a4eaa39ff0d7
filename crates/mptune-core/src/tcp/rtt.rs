//! RTT and RTO estimation: RFC 6298 as Linux computes it (`net/ipv4/tcp_input.c`,
//! `tcp_rtt_estimator` and `tcp_set_rto`).
//!
//! Two things differ from the letter of RFC 6298, both as in Linux: the variance used is the largest
//! mean deviation of the last round trip, and a lower bound, usually 200 ms, applies to the variance term
//! (RTO = SRTT + max(200 ms, 4 * RTTVAR)) instead of 1 s to the whole.

use super::Timing;
use crate::units::{Nanos, SECOND, Seq};

/// RFC 6298 (2.1): before the first sample.
pub const RTO_INITIAL: Nanos = SECOND;

/// Smoothed RTT, its variation and the timeout that follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RttEstimator {
    /// Smoothed RTT; 0 before the first sample.
    pub srtt: Nanos,
    /// Smallest sample; `Nanos::MAX` before the first.
    pub min: Nanos,
    mean_deviation: Nanos,
    largest_deviation: Nanos,
    variation: Nanos,
    rto_min: Nanos,
    rto_max: Nanos,
    /// The current round ends when this segment is acknowledged.
    round_end: Seq,
}

impl RttEstimator {
    /// An estimator without samples, whose timeout has these bounds.
    pub fn new(timing: &Timing) -> Self {
        Self {
            srtt: 0,
            min: Nanos::MAX,
            mean_deviation: 0,
            largest_deviation: 0,
            variation: 0,
            rto_min: timing.rto_min,
            rto_max: timing.rto_max,
            round_end: 0,
        }
    }

    /// A sample; `una` and `next` are SND.UNA and SND.NXT.
    #[inline]
    pub fn on_sample(&mut self, rtt: Nanos, una: Seq, next: Seq) {
        self.min = self.min.min(rtt);
        if self.srtt == 0 {
            // RFC 6298 (2.2).
            self.srtt = rtt.max(1);
            self.mean_deviation = rtt / 2;
            self.variation = self.mean_deviation.max(self.rto_min / 4);
            self.largest_deviation = self.variation;
            self.round_end = next;
            return;
        }
        // RFC 6298 (2.3), alpha = 1/8 and beta = 1/4. A sample far below SRTT moves the deviation by another
        // 1/8 only: a falling RTT must not raise the RTO.
        let error = rtt as i64 - self.srtt as i64;
        self.srtt = (self.srtt as i64 + error / 8).max(1) as Nanos;
        let mut change = error.abs() - self.mean_deviation as i64;
        if error < 0 && change > 0 {
            change /= 8;
        }
        self.mean_deviation = (self.mean_deviation as i64 + change / 4) as Nanos;
        if self.mean_deviation > self.largest_deviation {
            self.largest_deviation = self.mean_deviation;
            self.variation = self.variation.max(self.largest_deviation);
        }
        if una > self.round_end {
            if self.largest_deviation < self.variation {
                self.variation -= (self.variation - self.largest_deviation) / 4;
            }
            self.round_end = next;
            self.largest_deviation = self.rto_min / 4;
        }
    }

    /// Smallest sample, 0 before the first.
    #[inline]
    pub fn smallest(&self) -> Nanos {
        if self.srtt > 0 { self.min } else { 0 }
    }

    /// `RTTVAR`, at least a quarter of the least timeout after the first sample.
    pub fn variation(&self) -> Nanos {
        self.variation
    }

    /// The retransmission timeout, without back-off.
    #[inline]
    pub fn rto(&self) -> Nanos {
        if self.srtt == 0 {
            return RTO_INITIAL;
        }
        (self.srtt + 4 * self.variation).min(self.rto_max)
    }

    /// The same as a measurement: 0 before the first sample.
    pub fn known_rto(&self) -> Nanos {
        if self.srtt > 0 { self.rto() } else { 0 }
    }
}

impl Default for RttEstimator {
    fn default() -> Self {
        Self::new(&Timing::EXACT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::MILLISECOND;

    fn after(samples: impl IntoIterator<Item = u64>) -> RttEstimator {
        let mut rtt = RttEstimator::default();
        for (round, ms) in samples.into_iter().enumerate() {
            rtt.on_sample(ms * MILLISECOND, round as Seq + 2, round as Seq + 2);
        }
        rtt
    }

    #[test]
    fn without_a_sample_the_timeout_is_one_second() {
        assert_eq!(RttEstimator::default().rto(), SECOND);
        assert_eq!(RttEstimator::default().known_rto(), 0);
    }

    #[test]
    fn a_steady_rtt_gives_itself_plus_the_minimum() {
        let rtt = after([80; 200]);
        assert_eq!(rtt.srtt, 80 * MILLISECOND);
        // The variation decays towards its floor by a quarter a round.
        assert!(rtt.rto() - 280 * MILLISECOND < MILLISECOND, "{}", rtt.rto());
        assert_eq!(rtt.known_rto(), rtt.rto());
    }

    #[test]
    fn the_bounds_of_the_timeout_are_the_hosts() {
        let timing = Timing { rto_min: 20 * MILLISECOND, rto_max: SECOND, ..Timing::EXACT };
        let mut rtt = RttEstimator::new(&timing);
        (2..202).for_each(|end| rtt.on_sample(80 * MILLISECOND, end, end));
        assert!(rtt.rto() - 100 * MILLISECOND < MILLISECOND, "{}", rtt.rto());
        rtt.on_sample(4 * SECOND, 300, 300);
        assert_eq!(rtt.rto(), SECOND);
    }

    #[test]
    fn the_first_sample_gives_three_times_itself() {
        // RFC 6298 (2.2): SRTT + 4 * RTT/2, once RTT/2 is above the floor of 50 ms.
        assert_eq!(after([300]).rto(), 900 * MILLISECOND);
    }

    #[test]
    fn a_varying_rtt_raises_the_timeout_above_every_sample() {
        let rtt = after((0..100).map(|i| if i % 2 == 0 { 100 } else { 700 }));
        assert!(rtt.rto() > 700 * MILLISECOND, "{}", rtt.rto());
    }

    #[test]
    fn a_falling_rtt_does_not_raise_the_timeout() {
        let before = after([400; 50]).rto();
        let falling = after([400; 50].into_iter().chain([100; 1]));
        assert!(falling.rto() <= before);
    }
}
