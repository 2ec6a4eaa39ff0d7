//! What one subflow could do, as far as it was seen.

use super::{MINUTE, seconds};
use crate::pathmanager::SubflowView;
use crate::units::Nanos;

/// What is left of the fastest delivery after a sample: while the buffers hold the connection up a subflow
/// cannot show what it is able to, otherwise it does.
const HELD_UP_DECAY: f64 = 0.995;
const FREE_DECAY: f64 = 0.93;
/// Growth of the wait for a subflow that was tried again in vain, or left again within a minute.
const WAIT_GROWTH: Nanos = 3;
const LONGEST_WAIT: Nanos = 10 * MINUTE;

/// What is known of a subflow, as of when it last carried data; times in seconds, rates in bytes per second.
#[derive(Debug, Clone, Copy, Default)]
pub struct Estimate {
    fastest: f64,
    pub srtt: f64,
    pub min_rtt: f64,
    window: f64,
    /// On standby: when it may be tried again, and the wait that led there.
    pub due: Nanos,
    pub wait: Nanos,
    /// When it was last taken back for good.
    pub returned: Option<Nanos>,
}

impl Estimate {
    /// Equation 1.
    pub fn alone(&self) -> f64 {
        if self.srtt > 0.0 { self.fastest.max(self.window / self.srtt) } else { self.fastest }
    }

    pub fn note(&mut self, subflow: &SubflowView, lately: Option<(f64, bool)>) {
        self.srtt = seconds(subflow.statistics.srtt);
        self.min_rtt = seconds(subflow.min_rtt);
        self.window = subflow.statistics.window as f64;
        if let Some((rate, held_up)) = lately {
            let decay = if held_up { HELD_UP_DECAY } else { FREE_DECAY };
            self.fastest = rate.max(self.fastest * decay);
        }
    }

    /// It goes on standby: when it is tried again.
    pub fn leave(&mut self, now: Nanos, first_wait: Nanos) {
        let again = self.returned.is_some_and(|at| now < at + MINUTE);
        self.wait = if again { self.longer_wait() } else { first_wait };
        self.due = now + self.wait;
    }

    pub fn longer_wait(&self) -> Nanos {
        (self.wait * WAIT_GROWTH).min(LONGEST_WAIT)
    }
}
