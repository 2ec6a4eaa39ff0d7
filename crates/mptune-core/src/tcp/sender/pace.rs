//! The pace of a sender: TCP's own, the congestion control's, and a limit from outside.

use super::Sender;
use crate::tcp::pacing;

impl Sender {
    /// cwnd, segments, of which the kernel counts whole ones.
    #[inline]
    pub(super) fn counted_window(&self) -> f64 {
        if self.whole { f64::from(self.window.cwnd as u32) } else { self.window.cwnd }
    }

    /// Notes TCP's own pacing rate at an ACK: what an idle time or a timeout does to cwnd changes it at the next one (Linux
    /// `tcp_cong_control`).
    #[inline]
    pub(super) fn note_paced(&mut self) {
        let (window, ssthresh) = (self.counted_window(), self.window.ssthresh);
        self.paced = pacing::per_rtt(window, ssthresh, self.outstanding());
    }

    /// Applies the pace that the controller now requests.
    #[inline]
    pub(super) fn update_pacing(&mut self) {
        let own = self.controller.pacing_rate();
        let rate =
            self.pace_limit.map_or(own, |limit| Some(own.map_or(limit, |own| own.min(limit))));
        self.pacing.set(rate, self.rtt.min);
    }

    /// It sends at most so many segments per ns from now on; without a limit as the controller asks for.
    pub fn limit_pace(&mut self, limit: Option<f64>) {
        if limit.is_none() && self.pace_limit.is_none() {
            return;
        }
        self.pace_limit = limit.map(|limit| limit * 1e9);
        if self.controller.pacing_rate().is_none() && limit.is_none() {
            self.pacing.stop();
        }
        self.update_pacing();
    }
}
