//! A subflow's single timer: tail loss probe (RFC 8985 section 7), reordering window, and
//! retransmission timeout (RFC 6298 section 5).

use super::{AMBIGUOUS, MAX_BACKOFF, Sender, State, Timer, TimerAction};
use crate::congestion::{Peer, Peers};
use crate::units::{MILLISECOND, NEVER, Nanos, SECOND, Seq};

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
        let probe = self.repairs_nothing() && self.sacked_out == 0 && self.probe_end.is_none();
        if !probe || self.backoff > 0 {
            self.set_timer(now, Timer::Retransmission, timeout);
            return;
        }
        // RFC 8985 section 7.2; Linux adds the least timeout for a lone segment's delayed ACK.
        let extra = if self.outstanding() == 1 { self.timing.rto_min } else { 2 * MILLISECOND };
        let wait = if self.rtt.srtt == 0 { SECOND } else { 2 * self.rtt.srtt + extra };
        self.set_timer(now, Timer::Probe, wait.min(timeout));
    }

    fn set_timer(&mut self, now: Nanos, timer: Timer, wait: Nanos) {
        let clock = self.timing.clock;
        self.timer = timer;
        self.deadline = clock.after(now, wait);
        self.due = now + clock.rounded_up(wait);
    }

    /// Remaining time of the timer, 0 if it is off, or due and about to expire with a coarse tick (Linux
    /// `mptcp_timeout_from_subflow`).
    pub fn remaining(&self, now: Nanos) -> Nanos {
        let clock = self.timing.clock;
        let is_due = self.deadline == NEVER
            || self.timing.pauses && clock.ticks(self.due) <= clock.ticks(now);
        if is_due { 0 } else { self.deadline.saturating_sub(now) }
    }

    /// A further segment leaves, and ACKs are overdue: each one shifts the probe, even after a probe (Linux
    /// `tcp_write_xmit`, `tcp_schedule_loss_probe`). While a program goes on sending, a dead path does not time out.
    /// As long as ACKs come each of them sets the timer.
    #[cold]
    pub(super) fn shift_probe(&mut self, now: Nanos) {
        let srtt = self.rtt.srtt;
        let is_open = self.repairs_nothing() && self.sacked_out == 0 && self.backoff == 0;
        let age = now - self.board.at(self.una).sent_at;
        if !self.timing.pauses
            || self.timing.clock.is_exact()
            || srtt == 0
            || !is_open
            || age <= srtt
        {
            return;
        }
        let wait = 2 * srtt + 2 * MILLISECOND;
        let timeout = self.rtt.rto().min(self.timing.rto_max);
        self.set_timer(
            now,
            Timer::Probe,
            if timeout > age { wait.min(timeout - age) } else { wait },
        );
    }

    /// RFC 8985 section 7.3: the probe repeats the last segment; its number and data. (New data would do, but none
    /// waits on a subflow: the scheduler assigns it when there is room.) The copy is not counted in flight.
    pub fn probe(&mut self, now: Nanos) -> Option<(Seq, Seq)> {
        self.probe_end = Some(self.next);
        self.arm(now);
        let last = self.next.checked_sub(1).filter(|&last| last >= self.una)?;
        let segment = self.mark(last);
        segment.flags |= AMBIGUOUS;
        let data = segment.data;
        self.retransmitted_total += 1;
        Some((last, data))
    }

    /// The probe is due, but one was sent already: what is left of the timeout (Linux `tcp_rearm_rto`).
    fn rearm_timeout(&mut self, now: Nanos) -> TimerAction {
        let age = now - self.board.at(self.una).sent_at;
        let timeout = self.rtt.rto().min(self.timing.rto_max);
        self.set_timer(now, Timer::Retransmission, timeout.saturating_sub(age).max(1));
        TimerAction::None
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
            Timer::Probe if self.probe_end.is_some() => self.rearm_timeout(now),
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
        // F-RTO's condition (Linux `tcp_enter_loss`): no other recovery, or timeouts in a row.
        self.original_may_tell = self.state == State::Open || self.backoff > 1;
        if new_event {
            self.congestion_event(now, peers);
        }
        self.ecn_signal = true;
        self.mark_all_lost(now);
        self.state = State::Loss;
        self.only_marked = false;
        self.recovery_end = self.next;
        self.probe_end = None;
        self.window.cwnd = f64::from(self.in_flight() + 1);
        self.controller.on_timeout(&mut self.window, now);
        self.arm(now);
    }
}
