//! The window: draft section 4.2.3.

use super::model::Model;
use super::state::{MIN_WINDOW, Mode, State};
use crate::congestion::{Ack, INITIAL_WINDOW, Window};

impl Model {
    /// Saves a window that recovery and PROBE_RTT have not reduced.
    pub fn save_cwnd(&mut self, window: &Window) {
        let cut = self.prior_state != State::Open || self.mode == Mode::ProbeRtt;
        self.prior_cwnd = if cut { self.prior_cwnd.max(window.cwnd) } else { window.cwnd };
    }

    /// Moves the window towards its target, segment by acknowledged segment.
    pub fn set_window(&mut self, window: &mut Window, ack: &Ack) {
        self.recover_or_restore(window, ack);
        if !self.conserving {
            let target = self.target();
            let acked = f64::from(ack.acked);
            if self.pipe_filled {
                window.cwnd = (window.cwnd + acked).min(target);
            } else if window.cwnd < target || ack.delivered < INITIAL_WINDOW as u64 {
                window.cwnd += acked;
            }
            window.cwnd = window.cwnd.max(MIN_WINDOW);
        }
        if self.mode == Mode::ProbeRtt {
            window.cwnd = window.cwnd.min(MIN_WINDOW);
        }
    }

    fn target(&self) -> f64 {
        let bandwidth = self.bandwidth();
        let product = self.product(bandwidth, self.cwnd_gain());
        let bunches = if self.pipe_filled { self.aggregation.allowance(bandwidth) } else { 0.0 };
        self.with_bursts(product + bunches)
    }

    /// Losses are subtracted from the window; in the first round of a recovery as many segments are sent as
    /// arrive; afterwards the window is restored.
    fn recover_or_restore(&mut self, window: &mut Window, ack: &Ack) {
        let arriving = f64::from(ack.in_flight + ack.acked);
        window.cwnd = (window.cwnd - f64::from(ack.lost)).max(1.0);
        if self.state == State::Recovery && self.prior_state != State::Recovery {
            self.conserving = true;
            self.round_end = ack.delivered;
            window.cwnd = arriving;
        } else if self.state == State::Open && self.prior_state != State::Open {
            self.conserving = false;
            window.cwnd = window.cwnd.max(self.prior_cwnd);
        }
        self.prior_state = self.state;
        if self.conserving {
            window.cwnd = window.cwnd.max(arriving);
        }
    }
}
