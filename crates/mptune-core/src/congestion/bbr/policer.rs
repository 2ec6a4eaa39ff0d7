//! Detection of a token-bucket policer by long-term sampling (Linux `bbr_lt_bw_sampling`; not in the draft). After two
//! intervals in a row with heavy losses and the same rate, that rate replaces the largest of the last rounds.

use super::state::SEGMENT_BYTES;
use crate::units::{MILLISECOND, Nanos, seconds};

/// An interval has at least this many rounds (`bbr_lt_intvl_min_rtts`) and at most four times as many.
const MIN_ROUNDS: u32 = 4;
/// Lost per delivered segment from which an interval counts as lossy (`bbr_lt_loss_thresh`).
const LOSSY: f64 = 50.0 / 256.0;
/// Rates that differ by no more than this share count as equal (`bbr_lt_bw_ratio`).
const SAME_SHARE: f64 = 1.0 / 8.0;
/// So do rates that differ by no more than 4 kbit/s, here in segments/s (`bbr_lt_bw_diff`).
const SAME_RATE: f64 = 4_000.0 / 8.0 / SEGMENT_BYTES;
/// Rounds after which the policed rate is dropped and sampled again (`bbr_lt_bw_max_rtts`).
const MAX_USE: u32 = 48;

/// Totals at a point in time.
#[derive(Debug, Clone, Copy, Default)]
pub struct Totals {
    /// Time.
    pub at: Nanos,
    /// Segments delivered.
    pub delivered: u64,
    /// Segments lost.
    pub lost: u64,
}

/// An ACK or a timeout.
#[derive(Debug, Clone, Copy)]
pub struct Observation {
    /// The totals, including this event.
    pub totals: Totals,
    /// It showed losses.
    pub losses: bool,
    /// The sample is limited by the application.
    pub app_limited: bool,
    /// A round begins.
    pub round: bool,
    /// The flow is in PROBE_BW.
    pub probing: bool,
}

/// The detector of one flow.
#[derive(Debug, Clone, Default)]
pub struct Policer {
    /// There was a loss: an interval is under way.
    sampling: bool,
    start: Totals,
    /// Rounds of the interval, or since the policed rate is in use.
    rounds: u32,
    /// Rate of the last lossy interval, segments/s.
    rate: Option<f64>,
    in_use: bool,
}

impl Policer {
    /// The policed rate, if there is a policer.
    #[inline]
    pub fn rate(&self) -> Option<f64> {
        self.rate.filter(|_| self.in_use)
    }

    fn begin_interval(&mut self, totals: Totals) {
        self.start = totals;
        self.rounds = 0;
    }

    fn reset(&mut self, totals: Totals) {
        *self = Self { start: totals, ..Self::default() };
    }

    /// Segments were delivered or a timeout expired. True if a policed rate is dropped.
    #[inline]
    pub fn observe(&mut self, observation: &Observation) -> bool {
        if self.in_use {
            self.rounds += u32::from(observation.probing && observation.round);
            let over = self.rounds >= MAX_USE;
            if over {
                self.reset(observation.totals);
            }
            return over;
        }
        if self.sampling || observation.losses {
            self.sample(observation);
        }
        false
    }

    /// An interval begins and ends with losses, when the bucket is empty.
    fn sample(&mut self, observation: &Observation) {
        if !self.sampling {
            self.begin_interval(observation.totals);
            self.sampling = true;
        }
        if observation.app_limited {
            return self.reset(observation.totals);
        }
        self.rounds += u32::from(observation.round);
        if self.rounds > 4 * MIN_ROUNDS {
            return self.reset(observation.totals);
        }
        if self.rounds < MIN_ROUNDS || !observation.losses {
            return;
        }
        let lost = (observation.totals.lost - self.start.lost) as f64;
        let delivered = (observation.totals.delivered - self.start.delivered) as f64;
        let span = observation.totals.at - self.start.at;
        if delivered > 0.0 && lost >= LOSSY * delivered && span >= MILLISECOND {
            self.end_interval(delivered / seconds(span), observation.totals);
        }
    }

    fn end_interval(&mut self, rate: f64, totals: Totals) {
        let same = |before: &f64| {
            let difference = (rate - before).abs();
            difference <= SAME_SHARE * before || difference <= SAME_RATE
        };
        self.begin_interval(totals);
        if let Some(before) = self.rate.filter(same) {
            self.rate = Some((rate + before) / 2.0);
            self.in_use = true;
        } else {
            self.rate = Some(rate);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::testing::assert_close;

    /// The policed rate after rounds of 100 ms, each with segments (delivered, lost).
    fn policed_rate(rounds: &[(u64, u64)]) -> Option<f64> {
        let mut policer = Policer::default();
        let mut totals = Totals::default();
        for &(delivered, lost) in rounds {
            totals.at += 100 * MILLISECOND;
            totals.delivered += delivered;
            totals.lost += lost;
            let losses = lost > 0;
            policer.observe(&Observation {
                totals,
                losses,
                app_limited: false,
                round: true,
                probing: true,
            });
        }
        policer.rate()
    }

    #[test]
    fn heavy_losses_at_a_steady_rate_are_a_policer() {
        assert_close(policed_rate(&[(50, 20); 12]).expect("a policer"), 500.0, 1e-9);
        assert_eq!(policed_rate(&[(50, 20); 7]), None, "one interval is not enough");
    }

    #[test]
    fn light_losses_or_unsteady_rates_are_not_a_policer() {
        assert_eq!(policed_rate(&[(50, 9); 40]), None);
        let unsteady: Vec<_> = (0..60).map(|number| (50 << (number / 4 % 2), 40)).collect();
        assert_eq!(policed_rate(&unsteady), None);
    }

    #[test]
    fn the_policed_rate_is_given_up_after_48_rounds() {
        let observation = |round: u64| Observation {
            totals: Totals {
                at: round * 100 * MILLISECOND,
                delivered: 50 * round,
                lost: 20 * round,
            },
            losses: true,
            app_limited: false,
            round: true,
            probing: true,
        };
        let mut policer = Policer::default();
        let detected = (1..).find(|&round| {
            policer.observe(&observation(round));
            policer.rate().is_some()
        });
        let detected = detected.expect("a policer");
        let given_up = (detected + 1..).find(|&round| policer.observe(&observation(round)));
        assert_eq!(given_up, Some(detected + u64::from(MAX_USE)));
        assert_eq!(policer.rate(), None);
    }

    #[test]
    fn a_flow_without_data_is_not_judged() {
        let mut policer = Policer::default();
        for round in 1..100 {
            let totals =
                Totals { at: round * 100 * MILLISECOND, delivered: 50 * round, lost: 20 * round };
            let app_limited = round % 4 == 0;
            policer.observe(&Observation {
                totals,
                losses: true,
                app_limited,
                round: true,
                probing: true,
            });
        }
        assert_eq!(policer.rate(), None);
    }
}
