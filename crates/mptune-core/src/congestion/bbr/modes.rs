//! The modes and the transitions between them: STARTUP until the pipe is full, DRAIN until its queue is
//! empty, then PROBE_BW, which cycles through gains, and after 10 s without a smaller RTT PROBE_RTT.

use super::model::{CYCLE, Model};
use super::state::{MIN_WINDOW, Mode};
use crate::congestion::{Ack, Window};
use crate::units::{MILLISECOND, Nanos, SECOND};

/// Age at which the smallest RTT is measured again.
const MIN_RTT_AGE: Nanos = 10 * SECOND;
/// Shortest stay in PROBE_RTT.
const PROBE_RTT_SPAN: Nanos = 200 * MILLISECOND;
/// The pipe is full after this many rounds without this much growth in bandwidth.
const FULL_ROUNDS: u32 = 3;
const FULL_GROWTH: f64 = 1.25;

impl Model {
    /// Updates the mode after an ACK.
    pub fn update_mode(&mut self, window: &mut Window, ack: &Ack, limited: bool) {
        self.update_phase(ack);
        self.check_pipe_filled(limited);
        self.check_drained(ack);
        self.update_min_rtt(window, ack);
    }

    /// Draft section 4.3.4: probing lasts until there is more in flight or losses, draining until
    /// there is no more than the product.
    fn update_phase(&mut self, ack: &Ack) {
        if self.mode != Mode::ProbeBw {
            return;
        }
        let long = self.min_rtt.is_none_or(|min_rtt| ack.now - self.phase_start > min_rtt);
        let in_flight = f64::from(ack.prior_in_flight);
        let gain = self.pacing_gain();
        let over = if gain > 1.0 {
            let filled = || in_flight + self.burst() >= self.in_flight_target(gain);
            long && (ack.lost > 0 || filled())
        } else if gain < 1.0 {
            long || in_flight <= self.in_flight_target(1.0)
        } else {
            long
        };
        if over {
            self.phase = (self.phase + 1) % CYCLE.len();
            self.phase_start = ack.now;
        }
    }

    /// Draft section 4.3.2.2.
    fn check_pipe_filled(&mut self, limited: bool) {
        if self.pipe_filled || !self.round_start || limited {
            return;
        }
        let bandwidth = self.bandwidth.get();
        if bandwidth >= FULL_GROWTH * self.full_bandwidth {
            self.full_bandwidth = bandwidth;
            self.full_rounds = 0;
            return;
        }
        self.full_rounds += 1;
        self.pipe_filled = self.full_rounds >= FULL_ROUNDS;
    }

    /// Draft section 4.3.3.
    fn check_drained(&mut self, ack: &Ack) {
        if self.mode == Mode::Startup && self.pipe_filled {
            self.mode = Mode::Drain;
        }
        let in_flight = f64::from(ack.in_flight);
        if self.mode == Mode::Drain && in_flight <= self.in_flight_target(1.0) {
            self.enter_probe_bw(ack.now);
        }
    }

    /// The first phase is any but the draining one. Multiplying by the golden ratio spreads even
    /// close times over all phases.
    pub fn enter_probe_bw(&mut self, now: Nanos) {
        let mixed = (now ^ self.me as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let phase = mixed as usize % (CYCLE.len() - 1);
        self.mode = Mode::ProbeBw;
        self.phase = if phase == 0 { 0 } else { phase + 1 };
        self.phase_start = now;
    }

    /// Draft sections 4.1.2 and 4.3.5.
    fn update_min_rtt(&mut self, window: &mut Window, ack: &Ack) {
        let expired = ack.now > self.min_rtt_at + MIN_RTT_AGE;
        if let Some(rtt) = ack.rtt {
            if expired || self.min_rtt.is_none_or(|min_rtt| rtt < min_rtt) {
                self.min_rtt = Some(rtt);
                self.min_rtt_at = ack.now;
            }
        }
        if expired && !self.restarting && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.save_cwnd(window);
            self.probe_rtt_end = None;
            self.probe_rtt_sends.0 = ack.delivered;
        }
        if self.mode == Mode::ProbeRtt {
            self.probe_rtt_sends.1 = ack.delivered + u64::from(ack.in_flight);
            self.stay_in_probe_rtt(window, ack);
        }
        self.restarting &= ack.rate.is_none();
    }

    /// At least 200 ms and a round with the smallest window.
    fn stay_in_probe_rtt(&mut self, window: &mut Window, ack: &Ack) {
        if self.probe_rtt_end.is_some() {
            self.probe_rtt_round |= self.round_start;
            if self.probe_rtt_round {
                self.end_probe_rtt(window, ack.now);
            }
        } else if f64::from(ack.in_flight) <= MIN_WINDOW {
            self.probe_rtt_end = Some(ack.now + PROBE_RTT_SPAN);
            self.probe_rtt_round = false;
            self.round_end = ack.delivered;
        }
    }

    pub fn end_probe_rtt(&mut self, window: &mut Window, now: Nanos) {
        if self.probe_rtt_end.is_none_or(|end| now <= end) {
            return;
        }
        self.min_rtt_at = now;
        window.cwnd = window.cwnd.max(self.prior_cwnd);
        if self.pipe_filled {
            self.enter_probe_bw(now);
        } else {
            self.mode = Mode::Startup;
        }
    }
}
