//! weight: shares of the data among paths (`bpf/scheduling/weight.h`, whose equations these are).
//!
//! ```text
//! (1)  b_j = largest delivery rate of j in the last 2 to 4 s;  x_j = average of what it delivers, over T = 1 s
//! (2)  m = min b_j / w_j  and  a = (x / w) / min (x_j / w_j)  over siblings j that have data out, have made progress since
//!      an RTO, and have lost something or delivered for 2 T
//! (3)  limit = w m min(max(9/8 + 1 - a, 1/2), 2), none without such a sibling
//! (4)  rate = min(rate of the window algorithm, limit), enforced by pacing
//! ```
//!
//! A subflow follows the sibling that is the tightest for its weight, by what the path of that one can do rather than by what
//! it was given; an eighth more leaves that one room to grow, and who is ahead (a > 1) gets less.

use super::{Parameters, PathPolicy, View};
use crate::congestion::{INFINITE_SSTHRESH, Peer};
use crate::units::{MILLISECOND, Nanos, SECOND};

/// Equation 1: time of the average, the least between two of its steps, and for which a best rate counts, once or twice.
const TIME: Nanos = SECOND;
const STEP: Nanos = 50 * MILLISECOND;
const MEMORY: Nanos = 2 * SECOND;
/// Equation 3: room to grow, and the bounds of the correction.
const ROOM: f64 = 1.0 / 8.0;
const LEAST: f64 = 1.0 / 2.0;
const MOST: f64 = 2.0;

/// State of a subflow; rates are segments per ns.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    weight: f64,
    /// Equation 1: best rates of this period and the last, and the periods so far.
    best: [f64; 2],
    period_end: Nanos,
    periods: u32,
    /// The average, its last step, and what was delivered until then.
    average: f64,
    at: Nanos,
    delivered: u64,
    /// Equation 3.
    limit: Option<f64>,
}

impl State {
    /// Best rate, divided by its weight.
    fn able(&self) -> f64 {
        self.best[0].max(self.best[1]) / self.weight
    }

    /// Average rate, divided by its weight.
    fn share(&self) -> f64 {
        self.average / self.weight
    }

    /// Equation 1.
    fn remember(&mut self, view: &View<'_>) {
        let now = view.now;
        if now >= self.period_end {
            if self.period_end == 0 {
                (self.at, self.delivered) = (now, view.delivered);
            } else {
                self.periods += 1;
            }
            self.best = [0.0, self.best[0]];
            self.period_end = now + MEMORY;
        }
        self.best[0] = self.best[0].max(view.delivers.unwrap_or(0.0));
        self.step(now, view.delivered);
    }

    fn step(&mut self, now: Nanos, delivered: u64) {
        let span = now - self.at;
        if span < STEP {
            return;
        }
        let rate = (delivered - self.delivered) as f64 / span as f64;
        // The mean of all, until there is enough for the average.
        let age = if self.periods > 0 { TIME } else { now + MEMORY - self.period_end };
        self.average += (rate - self.average) * span as f64 / span.max(age.min(TIME)) as f64;
        (self.at, self.delivered) = (now, delivered);
    }

    /// Equation 2.
    fn counts(&self, peer: &Peer) -> bool {
        let known = self.periods > 0 || peer.ssthresh < INFINITE_SSTHRESH && self.able() > 0.0;
        peer.usable && peer.sent > 0 && !peer.timed_out && known
    }
}

/// The policy of a connection.
#[derive(Debug, Clone, Default)]
pub struct Weight {
    subflows: Vec<State>,
}

impl Weight {
    /// Equations 2 and 3.
    fn limit_of(&self, view: &View<'_>) -> Option<f64> {
        let siblings = view.subflows.iter().zip(&self.subflows).enumerate();
        let counted = siblings.filter(|(id, (peer, state))| *id != view.own && state.counts(peer));
        let smallest = counted
            .map(|(_, (_, state))| (state.able(), state.share()))
            .reduce(|one, other| (one.0.min(other.0), one.1.min(other.1)));
        let (own, (able, share)) = (&self.subflows[view.own], smallest?);
        let ahead = own.share() / share.max(f64::MIN_POSITIVE);
        // A segment per RTT, whatever the others do.
        let least = 1.0 / view.subflows[view.own].srtt.max(1) as f64;
        Some((own.weight * able * (ROOM + 2.0 - ahead).clamp(LEAST, MOST)).max(least))
    }
}

impl PathPolicy for Weight {
    fn rate(&mut self, view: View<'_>) -> f64 {
        self.subflows[view.own].remember(&view);
        self.subflows[view.own].limit = self.limit_of(&view);
        f64::INFINITY
    }

    fn limit(&self, subflow: usize) -> Option<f64> {
        self.subflows[subflow].limit
    }

    fn reset(&mut self, subflow: usize, path: Parameters) {
        self.subflows.resize(self.subflows.len().max(subflow + 1), State::default());
        self.subflows[subflow] = State { weight: path.weight, ..State::default() };
    }
}
