//! Delivery-rate estimation over one segment's time in flight (draft-cheng-iccrg-delivery-rate-estimation, Linux
//! `net/ipv4/tcp_rate.c`).
//!
//! Only senders whose congestion control or path policy requests samples have one. Counts are segments.

use crate::congestion::RateSample;
use crate::engine::Ring;
use crate::units::{Nanos, Seq};

/// The state at a segment's departure (draft section 3.1.2 and 3.2, `P.*`).
#[derive(Debug, Clone, Copy, Default)]
struct Departure {
    sent_at: Nanos,
    delivered: u64,
    delivered_at: Nanos,
    first_sent_at: Nanos,
    app_limited: bool,
}

/// The estimator of one subflow (draft section 3.1.1, `C.*`).
#[derive(Debug, Clone, Default)]
pub struct RateEstimator {
    departures: Ring<Departure>,
    delivered: u64,
    delivered_at: Nanos,
    first_sent_at: Nanos,
    /// Samples count as application-limited until this many segments are delivered; 0: not limited.
    app_limited_until: u64,
    /// The last sent of the segments that the current ACK delivers.
    newest: Option<Departure>,
    /// The last sample that was kept, segments per ns (Linux `rate_delivered`, `rate_interval_us`).
    kept: Option<f64>,
}

impl RateEstimator {
    /// A new segment leaves with `in_flight` before it.
    pub fn on_send(&mut self, now: Nanos, in_flight: u32) {
        if in_flight == 0 {
            self.first_sent_at = now;
            self.delivered_at = now;
        }
        self.departures.push(self.departure(now));
    }

    /// A segment is retransmitted.
    pub fn on_resend(&mut self, now: Nanos, seq: Seq) {
        *self.departures.at_mut(seq) = self.departure(now);
    }

    fn departure(&self, now: Nanos) -> Departure {
        Departure {
            sent_at: now,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            app_limited: self.app_limited_until > 0,
        }
    }

    /// A segment was delivered (draft section 3.3, `UpdateRateSample`).
    pub fn on_delivered(&mut self, now: Nanos, seq: Seq) {
        let departure = *self.departures.at(seq);
        self.delivered += 1;
        self.delivered_at = now;
        if self.newest.is_none_or(|newest| departure.delivered >= newest.delivered) {
            self.newest = Some(departure);
        }
    }

    /// The first segment left the scoreboard.
    pub fn pop(&mut self) {
        self.departures.pop();
    }

    /// The sample of the ACK whose segments were just reported (draft section 3.3, `GenerateRateSample`); none if
    /// the interval is below the smallest RTT, an artefact of retransmission ambiguity.
    pub fn take_sample(&mut self, min_rtt: Nanos) -> Option<RateSample> {
        if self.app_limited_until > 0 && self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
        let newest = self.newest.take()?;
        let sending = newest.sent_at - newest.first_sent_at;
        self.first_sent_at = newest.sent_at;
        let acknowledging = self.delivered_at - newest.delivered_at;
        let interval = sending.max(acknowledging);
        if interval < min_rtt {
            return None;
        }
        let delivered = (self.delivered - newest.delivered) as u32;
        self.keep(f64::from(delivered) / interval.max(1) as f64, newest.app_limited);
        Some(RateSample {
            delivered,
            interval,
            prior_delivered: newest.delivered,
            app_limited: newest.app_limited,
        })
    }

    /// A sample that the application limited counts only if it is no smaller (Linux `tcp_rate_gen`).
    fn keep(&mut self, rate: f64, app_limited: bool) {
        if !app_limited || self.kept.is_none_or(|kept| rate >= kept) {
            self.kept = Some(rate);
        }
    }

    /// The last sample that was kept, segments per ns.
    pub fn kept(&self) -> Option<f64> {
        self.kept
    }

    /// Samples of segments that leave now count as application-limited.
    pub fn is_app_limited(&self) -> bool {
        self.app_limited_until > 0
    }

    /// The application or the MPTCP window left room unused (draft section 3.4).
    pub fn note_app_limited(&mut self, in_flight: u32) {
        self.app_limited_until = (self.delivered + u64::from(in_flight)).max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::MILLISECOND;

    const MS: Nanos = MILLISECOND;

    /// Segments per second of a sample.
    fn rate(sample: RateSample) -> f64 {
        f64::from(sample.delivered) * 1e9 / sample.interval as f64
    }

    #[test]
    fn a_steady_flow_is_measured_at_its_rate() {
        // One segment each millisecond, acknowledged 50 ms later.
        let mut estimator = RateEstimator::default();
        for ms in 0..200_u32 {
            if ms >= 50 {
                estimator.on_delivered(u64::from(ms) * MS, ms - 50);
                estimator.pop();
                if let Some(sample) = estimator.take_sample(50 * MS).filter(|_| ms >= 101) {
                    assert!((rate(sample) - 1000.0).abs() < 25.0, "{ms}: {}", rate(sample));
                }
            }
            estimator.on_send(u64::from(ms) * MS, ms.min(50));
        }
    }

    #[test]
    fn acks_bunched_together_do_not_exceed_the_sending_rate() {
        // Draft section 2.2: the sending interval bounds the sample when ACKs are compressed.
        let mut estimator = RateEstimator::default();
        for ms in 0..100_u32 {
            estimator.on_send(u64::from(ms) * MS, ms);
        }
        for seq in 0..100 {
            estimator.on_delivered(120 * MS, seq);
            estimator.pop();
        }
        let sample = estimator.take_sample(20 * MS).expect("a sample");
        assert!(rate(sample) <= 1011.0, "{}", rate(sample));
    }

    #[test]
    fn a_burst_into_an_idle_path_is_measured_over_the_ack_interval() {
        let mut estimator = RateEstimator::default();
        for in_flight in 0..10 {
            estimator.on_send(0, in_flight);
        }
        for seq in 0..10 {
            estimator.on_delivered((50 + u64::from(seq)) * MS, seq);
            estimator.pop();
        }
        let sample = estimator.take_sample(50 * MS).expect("a sample");
        assert_eq!((sample.delivered, sample.interval), (10, 59 * MS));
        assert_eq!(estimator.kept(), Some(10.0 / (59 * MS) as f64));
    }

    #[test]
    fn an_interval_below_the_smallest_rtt_is_no_sample() {
        let mut estimator = RateEstimator::default();
        estimator.on_send(0, 0);
        estimator.on_delivered(MS, 0);
        assert_eq!(estimator.take_sample(20 * MS), None);
    }

    #[test]
    fn samples_are_application_limited_until_what_was_in_flight_is_delivered() {
        let mut estimator = RateEstimator::default();
        estimator.on_send(0, 0);
        estimator.note_app_limited(1);
        estimator.on_send(5 * MS, 1);
        let mut limited = |seq: Seq, at: Nanos| {
            estimator.on_delivered(at, seq);
            estimator.pop();
            let sample = estimator.take_sample(0).map(|sample| sample.app_limited);
            estimator.on_send(at, 1);
            sample
        };
        assert_eq!(limited(0, 20 * MS), Some(false), "left before the limit was noticed");
        assert_eq!(limited(1, 25 * MS), Some(true));
        assert_eq!(limited(2, 45 * MS), Some(true), "left while the mark was up");
        assert_eq!(limited(3, 50 * MS), Some(false));
    }
}
