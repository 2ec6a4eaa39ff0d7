//! Guard's estimate of a subflow: what its path is like.

use super::history::seconds;
use super::tuning::{MINUTE, TUNING};
use crate::pathmanager::{Line, SubflowStatistics, SubflowView};
use crate::units::{Bytes, Nanos, SECOND};

/// A subflow when it last carried data; times in seconds, rates in bytes per second.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Estimate {
    pub(super) srtt: f64,
    min_rtt: f64,
    /// Longest smoothed RTT, which decays.
    longest: f64,
    /// Largest delivery rates of this and the last period, and the end of this one.
    largest: [f64; 2],
    period_ends: Nanos,
    /// Segments delivered, and losses on the way and in the queue, those of a round trip as one; all decay.
    delivered: f64,
    lost: f64,
    overrun: f64,
    /// As of the last sample.
    counted: SubflowStatistics,
    /// Until then what is sent again belongs to the same losses.
    repaired: Nanos,
    /// On standby: its next trial, and the wait before it.
    pub(super) due: Nanos,
    pub(super) wait: Nanos,
    /// Time of the last successful trial.
    pub(super) returned: Option<Nanos>,
}

impl Estimate {
    /// A sample of a subflow that carries data.
    pub(super) fn update(&mut self, now: Nanos, subflow: &SubflowView) {
        let statistics = subflow.statistics;
        self.srtt = seconds(statistics.srtt);
        self.min_rtt = seconds(subflow.min_rtt);
        self.longest = self.srtt.max(self.longest * TUNING.decay).max(self.min_rtt);
        if now >= self.period_ends {
            self.largest = [0.0, self.largest[0]];
            self.period_ends = now + TUNING.rate_period;
        }
        self.largest[0] = self.largest[0].max(statistics.rate as f64);
        self.note_losses(now, statistics);
    }

    /// Losses while the RTT is that of a full queue are the queue's, all others happen on the way.
    fn note_losses(&mut self, now: Nanos, statistics: SubflowStatistics) {
        let before = std::mem::replace(&mut self.counted, statistics);
        for count in [&mut self.delivered, &mut self.lost, &mut self.overrun] {
            *count *= TUNING.decay;
        }
        let delivered = statistics.delivered.saturating_sub(before.delivered);
        self.delivered += delivered as f64 / TUNING.segment;
        if statistics.retransmitted <= before.retransmitted {
            return;
        }
        if now > self.repaired {
            let queued = self.longest - self.min_rtt;
            let is_full =
                queued > TUNING.queued * self.min_rtt && self.srtt - self.min_rtt > queued / 2.0;
            *(if is_full { &mut self.overrun } else { &mut self.lost }) += 1.0;
        }
        self.repaired = now + statistics.srtt * 3 / 2;
    }

    /// Equation 1; none before there are samples.
    pub(super) fn line(&self) -> Option<Line> {
        let rate = self.largest[0].max(self.largest[1]);
        if rate <= 0.0 || self.min_rtt <= 0.0 {
            return None;
        }
        // A smoothed RTT does not reach that of the full queue. One that never overran may be longer than it was filled.
        let filled = TUNING.unsmoothed * (self.longest - self.min_rtt) * rate;
        let queue = if self.overrun > 0.0 { filled } else { filled.max(self.min_rtt * rate) };
        // The first losses end slow start.
        let lost = (self.lost - 1.0).max(0.0);
        Some(Line {
            rate_bps: (8.0 * rate * TUNING.packet) as u64,
            rtt: (self.min_rtt * SECOND as f64) as Nanos,
            queue: (queue * TUNING.packet) as Bytes,
            loss: lost / self.delivered.max(1.0),
        })
    }

    /// Schedules the next trial of a subflow that goes on standby.
    pub(super) fn go_on_standby(&mut self, now: Nanos, first_wait: Nanos) {
        let soon = self.returned.is_some_and(|at| now < at + MINUTE);
        self.wait = if soon { self.longer_wait() } else { first_wait };
        self.due = now + self.wait;
    }

    pub(super) fn longer_wait(&self) -> Nanos {
        (self.wait * TUNING.wait_growth).min(TUNING.longest_wait)
    }
}
