//! A subflow's single timer: tail loss probe (RFC 8985 section 7), reordering window, and
//! retransmission timeout (RFC 6298 section 5).

use super::{MAX_BACKOFF, Sender, State, Timer, TimerAction};
use crate::congestion::{Peer, Peers};
use crate::units::{MILLISECOND, NEVER, Nanos, SECOND};

impl Sender {
    /// Arms the timer: RFC 8985 section 7.2 and RFC 6298 section 5.
    pub(super) fn arm(&mut self, now: Nanos) {
        if self.timer == Timer::Reordering && self.deadline > now {
            return;
        }
        if self.outstanding() == 0 {
            self.timer = Timer::Off;
            self.deadline = NEVER;
            return;
        }
        let timeout = (self.rtt.rto() << self.backoff.min(MAX_BACKOFF)).min(self.timing.rto_max);
        let probe = self.state == State::Open && self.sacked_out == 0 && self.probe_end.is_none();
        if !probe || self.backoff > 0 {
            self.timer = Timer::Retransmission;
            self.deadline = self.timing.clock.after(now, timeout);
            return;
        }
        // RFC 8985 section 7.2; Linux adds the least timeout for a lone segment's delayed ACK.
        let extra = if self.outstanding() == 1 { self.timing.rto_min } else { 2 * MILLISECOND };
        let wait = if self.rtt.srtt == 0 { SECOND } else { 2 * self.rtt.srtt + extra };
        self.timer = Timer::Probe;
        self.deadline = self.timing.clock.after(now, wait.min(timeout));
    }

    /// The timer may be due.
    pub fn on_timer(&mut self, now: Nanos, all: &[Peer], me: usize) -> TimerAction {
        if now < self.deadline {
            return TimerAction::None;
        }
        let peers = Peers { all, me };
        let timer = std::mem::replace(&mut self.timer, Timer::Off);
        self.deadline = NEVER;
        match timer {
            Timer::Off => TimerAction::None,
            Timer::Reordering => {
                let before = self.state;
                let retransmission_lost = self.detect_losses(now);
                self.change_state(now, retransmission_lost, peers);
                if self.state == State::Recovery && before != State::Recovery {
                    self.reduce(1, false);
                }
                self.arm(now);
                TimerAction::None
            }
            Timer::Probe => TimerAction::Probe,
            Timer::Retransmission => {
                self.enter_loss(now, peers);
                TimerAction::Timeout
            }
        }
    }

    /// RFC 6298 section 5 and RFC 5681 section 3.1, as Linux `tcp_enter_loss`.
    fn enter_loss(&mut self, now: Nanos, peers: Peers<'_>) {
        self.timeouts_total += 1;
        self.backoff = (self.backoff + 1).min(MAX_BACKOFF);
        let new_event = self.state == State::Open
            || self.una >= self.recovery_end
            || (self.state == State::Loss && self.backoff == 1);
        if new_event {
            self.congestion_event(now, peers);
        }
        self.mark_all_lost(now);
        self.state = State::Loss;
        self.recovery_end = self.next;
        self.probe_end = None;
        self.window.cwnd = f64::from(self.in_flight() + 1);
        self.controller.on_timeout(&mut self.window, now);
        self.arm(now);
    }
}
