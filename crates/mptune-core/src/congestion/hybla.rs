//! TCP Hybla: C. Caini, R. Firrincieli, "TCP Hybla: a TCP enhancement for heterogeneous networks",
//! International Journal of Satellite Communications and Networking 22, 2004. Gives a flow the
//! rate growth (segments/s per s) of a reference flow with an RTT of 25 ms, whatever its own RTT.
//!
//! Not the paper's SACK and timestamp mandates, pacing and bandwidth-estimated initial `ssthresh`,
//! none of which Linux has either.
//!
//! Follows Linux `net/ipv4/tcp_hybla.c` where it departs from the paper:
//!
//! - growth per ACK, not per acknowledged segment (delayed ACKs halve it);
//! - rho = srtt / 25 ms (`rtt0`), at least 1, truncated to eighths (`rho_3ls`) and recomputed only when the
//!   smoothed RTT reaches a new minimum (`hybla_recalc_param`);
//! - the initial window is the whole part of rho (`hybla_init`): 1 segment below 50 ms, 16 at 400
//!   ms;
//! - the congestion-avoidance increment rho^2 / W is truncated to 1/128 segment; where that is 0, above 128
//!   rho^2 segments, the window grows by one segment per window of ACKs instead;
//! - while the subflow is not in the open state it grows like Reno (`hybla_state`); `ssthresh` is Reno's;
//! - in the exponent of the slow-start increment the whole part of rho is at most 16 (newer
//!   kernels), and the window at most 65535 segments (`snd_cwnd_clamp`), which the
//!   first slow-start ACK at an RTT of 400 ms would otherwise pass.
//!
//! Differences: 2^rho is exact where `hybla_fraction` is a table in 1/128 (0.5 % at most), Reno's
//! growth is by fractions, and the fallback above 128 rho^2 starts its own count, without ACKs counted before.

use super::{Ack, CongestionControl, Peers, Window, reno};
use crate::units::{MILLISECOND, Nanos};

/// The reference RTT.
const RTT_0: Nanos = 25 * MILLISECOND;
/// rho is a multiple of 1 / `RHO_STEPS`.
const RHO_STEPS: u64 = 8;
/// Largest whole part of rho in the slow-start exponent.
const MAX_EXPONENT: f64 = 16.0;
/// Congestion-avoidance increments are multiples of 1 / `INCREMENT_STEPS` segment.
const INCREMENT_STEPS: f64 = 128.0;
/// Linux `snd_cwnd_clamp`, segments.
const MAX_WINDOW: f64 = 65_535.0;

/// The ratio of a flow's RTT to the reference, at least 1.
fn rho(srtt: Nanos) -> f64 {
    (RHO_STEPS * srtt / RTT_0).max(RHO_STEPS) as f64 / RHO_STEPS as f64
}

/// Segments per ACK in slow start: 2^rho - 1.
fn slow_start_increment(rho: f64) -> f64 {
    libm::exp2(rho.floor().min(MAX_EXPONENT) + rho.fract()) - 1.0
}

/// TCP Hybla.
#[derive(Debug, Clone)]
pub struct Hybla {
    /// The smallest smoothed RTT, which determines the two below.
    min_srtt: Nanos,
    /// Segments per ACK in slow start.
    slow_start: f64,
    /// rho^2 in increment steps: the congestion-avoidance increment times the window.
    avoidance: f64,
}

impl Default for Hybla {
    fn default() -> Self {
        Self { min_srtt: Nanos::MAX, slow_start: 1.0, avoidance: INCREMENT_STEPS }
    }
}

impl Hybla {
    fn set_rho(&mut self, srtt: Nanos) {
        let rho = rho(srtt);
        self.min_srtt = srtt;
        self.slow_start = slow_start_increment(rho);
        self.avoidance = rho * rho * INCREMENT_STEPS;
    }

    /// Segments per ACK in congestion avoidance.
    #[inline]
    fn avoidance_increment(&self, cwnd: f64) -> f64 {
        let cwnd = f64::from(cwnd as u32);
        let steps = (self.avoidance / cwnd) as u32;
        if steps > 0 { f64::from(steps) / INCREMENT_STEPS } else { 1.0 / cwnd }
    }
}

impl CongestionControl for Hybla {
    fn on_established(&mut self, window: &mut Window, srtt: Nanos, _now: Nanos) {
        self.set_rho(srtt);
        window.cwnd = rho(srtt).floor();
    }

    fn on_ack(&mut self, window: &mut Window, ack: &Ack, _peers: Peers<'_>) {
        if ack.srtt < self.min_srtt && ack.srtt > 0 {
            self.set_rho(ack.srtt);
        }
        if !ack.cwnd_limited {
            return;
        }
        if !ack.open {
            reno::grow(window, ack.acked);
        } else if window.in_slow_start() {
            window.cwnd = (window.cwnd + self.slow_start).min(window.ssthresh);
        } else {
            window.cwnd += self.avoidance_increment(window.cwnd);
        }
        window.cwnd = window.cwnd.min(MAX_WINDOW);
    }

    fn on_congestion(&mut self, window: &Window, _now: Nanos, _peers: Peers<'_>) -> f64 {
        reno::halved(window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::testing::{Flow, ack, alone, assert_close, avoiding};
    use crate::units::seconds;

    /// An established flow, in slow start.
    fn established(rtt: Nanos) -> Flow<Hybla> {
        let mut flow = Flow::new(Hybla::default(), Window::new(), rtt);
        flow.cc.on_established(&mut flow.window, rtt, 0);
        flow
    }

    fn rate(flow: &Flow<Hybla>) -> f64 {
        flow.window.cwnd / seconds(flow.rtt)
    }

    #[test]
    fn the_initial_window_is_the_whole_part_of_rho() {
        for (rtt_ms, cwnd) in [(5, 1.0), (49, 1.0), (60, 2.0), (113, 4.0), (413, 16.0)] {
            assert_eq!(established(rtt_ms * MILLISECOND).window.cwnd, cwnd);
        }
    }

    /// The paper's aim: whatever the RTT, the rate grows by 1 / RTT0^2 segments per second per second: W / RTT
    /// ACKs per second, each adding an increment to the window, divided by the RTT.
    #[test]
    fn the_rate_grows_independently_of_the_rtt_in_congestion_avoidance() {
        for rtt_ms in [25, 50, 100, 200, 400] {
            for rho_windows in [2.0, 4.0, 16.0] {
                let mut flow = established(rtt_ms * MILLISECOND);
                let cwnd = rho_windows * rho(flow.rtt) * rho(flow.rtt);
                flow.window = avoiding(cwnd);
                flow.ack();
                let increment = flow.window.cwnd - cwnd;
                let growth = increment * cwnd / seconds(flow.rtt).powi(2);
                assert_close(growth, seconds(RTT_0).powi(-2), 1e-9);
            }
        }
    }

    /// In slow start the rate doubles every 25 ms whatever the RTT.
    #[test]
    fn the_rate_grows_independently_of_the_rtt_in_slow_start() {
        for rtt_ms in [25, 50, 100, 200] {
            let mut flow = established(rtt_ms * MILLISECOND);
            for _ in 0..200 / rtt_ms {
                flow.round();
            }
            assert_close(rate(&flow), 2.0_f64.powi(8) / seconds(RTT_0), 1e-9);
        }
    }

    #[test]
    fn growth_counts_acks_not_segments() {
        let mut flow = established(100 * MILLISECOND);
        flow.window = avoiding(32.0);
        let mut window = flow.window;
        flow.cc.clone().on_ack(&mut window, &ack(1), alone());
        flow.cc.on_ack(&mut flow.window, &ack(2), alone());
        assert_eq!(flow.window, window);
        assert_eq!(window.cwnd, 32.0 + 16.0 / 32.0);
    }

    #[test]
    fn a_window_beyond_the_resolution_grows_by_a_segment_per_rtt() {
        let mut flow = established(50 * MILLISECOND);
        flow.window = avoiding(600.0);
        flow.round();
        assert_close(flow.window.cwnd, 601.0, 1e-4);
    }

    #[test]
    fn only_a_new_minimum_of_the_rtt_changes_rho() {
        let mut flow = established(100 * MILLISECOND);
        for (rtt_ms, rho) in [(200, 4.0), (50, 2.0), (100, 2.0)] {
            let mut window = avoiding(32.0);
            flow.cc.on_ack(&mut window, &ack(1).rtt(rtt_ms * MILLISECOND), alone());
            assert_eq!(window.cwnd, 32.0 + rho * rho / 32.0);
        }
    }

    #[test]
    fn slow_start_stops_at_ssthresh_and_at_the_largest_window() {
        let mut flow = established(400 * MILLISECOND);
        flow.ack();
        assert_eq!(flow.window.cwnd, MAX_WINDOW);
        flow.window = Window { cwnd: 16.0, ssthresh: 50.0 };
        flow.ack();
        assert_eq!(flow.window.cwnd, 50.0);
    }

    #[test]
    fn a_subflow_in_loss_recovery_grows_as_reno() {
        let mut flow = established(200 * MILLISECOND);
        let mut window = Window { cwnd: 2.0, ssthresh: 50.0 };
        flow.cc.on_ack(&mut window, &ack(2).in_loss_recovery(), alone());
        assert_eq!(window.cwnd, 4.0);
    }
}
