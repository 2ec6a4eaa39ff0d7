//! Congestion events: start and end of a recovery, and its effect on cwnd.

use super::reduction::Undo;
use super::{Sender, State};
use crate::congestion::Peers;
use crate::tcp::prr::PrrInput;
use crate::tcp::{Acknowledgement, Prr};
use crate::units::Nanos;

impl Sender {
    /// Ends or begins a recovery.
    pub(super) fn change_state(&mut self, now: Nanos, retransmission_lost: bool, peers: Peers<'_>) {
        if self.state != State::Open && self.una >= self.recovery_end {
            if self.state == State::Recovery && !self.controller.owns_window() {
                self.window.cwnd = self.window.ssthresh;
            }
            self.state = State::Open;
            self.only_marked = false;
            self.controller.on_recovered(&mut self.window, self.next, now);
        }
        let begins = match self.state {
            State::Open => self.lost_out > 0,
            // A lost retransmission after a timeout is a congestion event of its own.
            State::Loss => retransmission_lost,
            State::Recovery => false,
        };
        if self.only_marked && self.lost_out > 0 {
            // Losses too: they are repaired within the same reduction (Linux `tcp_enter_recovery`).
            self.only_marked = false;
            self.counters.recoveries += 1;
            self.recovery_end = self.next;
        }
        if begins {
            self.congestion_event(now, peers);
            // RFC 3168 section 6.1.2: CWR follows a reduction for any reason, and takes the echo of earlier marks with it.
            self.ecn_signal = true;
            self.counters.recoveries += 1;
            self.state = State::Recovery;
            self.recovery_end = self.next;
            self.prr = Prr::new(self.whole_window());
            self.probe_end = None;
        }
    }

    /// RFC 3168 section 6.1.2: ECE is a congestion indication, once per window. The reduction ends when a segment
    /// sent after it is acknowledged: the receiver has then seen CWR (Linux `tcp_fastretrans_alert`,
    /// `TCP_CA_CWR`).
    pub(super) fn on_ecn_echo(&mut self, now: Nanos, peers: Peers<'_>) {
        if self.state == State::Open {
            let reduced = self.controller.on_ecn(&self.window, now, peers);
            self.reduce_to(reduced);
            self.note_loss_interval();
            self.undo = None;
            self.counters.ecn_reductions += 1;
            self.state = State::Recovery;
            self.only_marked = true;
            self.recovery_end = self.next + 1;
            self.prr = Prr::new(self.whole_window());
            self.ecn_signal = true;
        }
    }

    /// A loss was detected: reduces ssthresh.
    pub(super) fn congestion_event(&mut self, now: Nanos, peers: Peers<'_>) {
        self.undo = Some(Undo::new(self.window));
        let reduced = self.controller.on_congestion(&self.window, now, peers);
        self.reduce_to(reduced);
        self.note_loss_interval();
    }

    fn reduce_to(&mut self, ssthresh: f64) {
        self.window.ssthresh = if self.whole { ssthresh.floor() } else { ssthresh };
    }

    pub(super) fn note_loss_interval(&mut self) {
        if self.acked_since_loss > 0 {
            self.acked_between_losses = self.acked_since_loss;
            self.acked_since_loss = 0;
        }
    }

    /// cwnd in a recovery (PRR).
    pub(super) fn reduce(&mut self, delivered: u32, safe: bool) {
        if self.controller.owns_window() {
            return;
        }
        let in_flight = self.in_flight();
        let ssthresh = self.window.ssthresh as u32;
        let input = PrrInput { delivered, in_flight, ssthresh, safe };
        self.window.cwnd = f64::from(self.prr.window(input));
    }

    /// RFC 8985 section 7.4: a probe that repaired a loss is a congestion event.
    pub(super) fn end_probe(&mut self, now: Nanos, ack: &Acknowledgement, peers: Peers<'_>) {
        let Some(end) = self.probe_end else { return };
        if ack.duplicate && ack.next >= end {
            // Both copies arrived: nothing was lost.
            self.probe_end = None;
        } else if ack.next > end {
            self.probe_end = None;
            if self.state == State::Open {
                self.congestion_event(now, peers);
                if !self.controller.owns_window() {
                    self.window.cwnd = self.window.ssthresh;
                }
                self.controller.on_recovered(&mut self.window, self.next, now);
            }
        }
    }
}
