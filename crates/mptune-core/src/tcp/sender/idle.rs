//! Restart of a sender after a time without data (RFC 5681 section 4.1, Linux `tcp_cwnd_restart`).

use super::Sender;
use crate::units::Nanos;

impl Sender {
    /// A segment is about to be sent with nothing outstanding.
    pub fn on_start(&mut self, now: Nanos) {
        let app_limited = self.rate.as_ref().is_some_and(|rate| rate.is_app_limited());
        self.controller.on_start(&mut self.window, app_limited, now);
    }

    /// Validates cwnd after an idle time, before data is queued or sent with nothing outstanding: RFC 5681 section 4.1,
    /// as Linux `tcp_cwnd_restart` (halved for every idle RTO, down to the initial window). True if it was idle.
    pub fn restart_if_idle(&mut self, now: Nanos) -> bool {
        let idle = self.timing.clock.between(self.last_sent_at, now);
        let rto = self.timing.clock.rounded_up(self.rtt.rto());
        if idle <= rto || self.controller.owns_window() {
            return false;
        }
        let before = self.window.cwnd;
        let floor = crate::congestion::INITIAL_WINDOW.min(before);
        let mut cwnd = before;
        for _ in 0..self.timing.clock.halvings(idle, rto) {
            cwnd /= 2.0;
        }
        self.window.ssthresh = self.window.ssthresh.max(0.75 * before);
        self.window.cwnd = cwnd.max(floor);
        self.controller.on_restart(&mut self.window, self.next, now);
        true
    }

    /// The idle time ends now.
    pub fn end_idle_time(&mut self, now: Nanos) {
        self.last_sent_at = now;
    }
}
