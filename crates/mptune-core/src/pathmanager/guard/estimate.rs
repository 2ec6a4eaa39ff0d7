//! Guard's estimate of a subflow.

use super::history::seconds;
use super::tuning::{MINUTE, TUNING};
use crate::pathmanager::SubflowView;
use crate::units::Nanos;

/// A subflow when it last carried data; times in seconds, rates in bytes per second.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Estimate {
    pub(super) fastest: f64,
    pub(super) srtt: f64,
    pub(super) min_rtt: f64,
    pub(super) window: f64,
    /// On standby: its next trial, and the wait before it.
    pub(super) due: Nanos,
    pub(super) wait: Nanos,
    /// Time of the last successful trial.
    pub(super) returned: Option<Nanos>,
}

impl Estimate {
    /// Equation 1.
    pub(super) fn alone(&self) -> f64 {
        if self.srtt > 0.0 { self.fastest.max(self.window / self.srtt) } else { self.fastest }
    }

    pub(super) fn update(&mut self, subflow: &SubflowView, lately: Option<(f64, bool)>) {
        self.srtt = seconds(subflow.statistics.srtt);
        self.min_rtt = seconds(subflow.min_rtt);
        self.window = subflow.statistics.window as f64;
        if let Some((rate, held_up)) = lately {
            let decay = if held_up { TUNING.held_up_decay } else { TUNING.free_decay };
            self.fastest = rate.max(self.fastest * decay);
        }
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
