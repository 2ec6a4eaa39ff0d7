//! ACK aggregation: the excess of bunched ACKs over the bandwidth, so that the window spans the gaps between bunches
//! (Linux `bbr_update_ack_aggregation`; not in the draft).

use crate::units::{Nanos, seconds};

/// Rounds after which the older of two maxima is dropped (`bbr_extra_acked_win_rtts`).
const ROUNDS: u32 = 5;
/// Most segments an epoch counts (`bbr_ack_epoch_acked_reset_thresh`).
const MAX_ACKED: u32 = 1 << 20;
/// The window grows by no more than the bandwidth times this, s (`bbr_extra_acked_max_us`).
const MAX_SECONDS: f64 = 0.1;

/// The estimator of one flow.
#[derive(Debug, Clone, Default)]
pub struct Aggregation {
    /// Start of the epoch in which ACKs came no slower than the bandwidth.
    epoch: Nanos,
    /// Segments acknowledged in this epoch.
    acked: u32,
    /// Largest excess in the current and in the previous few rounds.
    excess: [f64; 2],
    current: usize,
    rounds: u32,
}

impl Aggregation {
    /// Sending restarts at `now`.
    pub fn restart(&mut self, now: Nanos) {
        self.epoch = now;
        self.acked = 0;
    }

    /// `acked` segments were delivered on a path of `bandwidth` segments/s; `round`: a round begins.
    pub fn on_delivered(&mut self, now: Nanos, acked: u32, bandwidth: f64, cwnd: f64, round: bool) {
        if round {
            self.rounds += 1;
            if self.rounds >= ROUNDS {
                self.rounds = 0;
                self.current = 1 - self.current;
                self.excess[self.current] = 0.0;
            }
        }
        let mut expected = bandwidth * seconds(now - self.epoch);
        if f64::from(self.acked) <= expected || self.acked + acked >= MAX_ACKED {
            self.restart(now);
            expected = 0.0;
        }
        self.acked += acked;
        let excess = (f64::from(self.acked) - expected).min(cwnd);
        self.excess[self.current] = self.excess[self.current].max(excess);
    }

    /// Segments to add to the window.
    pub fn allowance(&self, bandwidth: f64) -> f64 {
        let excess = self.excess[0].max(self.excess[1]);
        excess.min(bandwidth * MAX_SECONDS).floor()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::MILLISECOND;

    /// Bunches of `size` segments at a mean of one per millisecond.
    fn bunched(size: u32, bunches: u64) -> Aggregation {
        let mut aggregation = Aggregation::default();
        for number in 1..=bunches {
            let now = number * u64::from(size) * MILLISECOND;
            for _ in 0..size {
                aggregation.on_delivered(now, 1, 1_000.0, 500.0, false);
            }
        }
        aggregation
    }

    #[test]
    fn the_excess_is_the_size_of_a_bunch() {
        for size in [1, 2, 10, 50] {
            assert_eq!(bunched(size, 40).allowance(1_000.0), f64::from(size));
        }
    }

    #[test]
    fn the_allowance_is_bounded_by_a_tenth_of_a_second() {
        assert_eq!(bunched(300, 3).allowance(1_000.0), 100.0);
    }

    #[test]
    fn an_excess_is_forgotten_after_two_spans_of_rounds() {
        let mut aggregation = bunched(50, 10);
        let mut now = 1_500 * MILLISECOND;
        for _ in 0..2 * ROUNDS {
            assert_eq!(aggregation.allowance(1_000.0), 50.0);
            now += MILLISECOND;
            aggregation.on_delivered(now, 1, 1_000.0, 500.0, true);
        }
        assert!(aggregation.allowance(1_000.0) < 50.0);
    }
}
