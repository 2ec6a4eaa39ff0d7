//! Reno: RFC 5681 slow start and congestion avoidance.
//!
//! Not fast recovery (PRR, in the sender). Compared with Linux `net/ipv4/tcp_cong.c`
//! (`tcp_reno_cong_avoid`, `tcp_reno_ssthresh`): the same growth by acknowledged segments, and
//! `ssthresh` is half the window rather than half the flight size of RFC 5681 equation 4. Linux counts growth
//! in whole segments once `cwnd` of them are acknowledged; here it is fractional.

use super::{Ack, CongestionControl, Peers, Window};
use crate::units::Nanos;

/// RFC 5681 equation 4: at least two segments.
pub const MIN_SSTHRESH: f64 = 2.0;

/// Congestion avoidance: one segment per window acknowledged (RFC 5681 equation 3).
#[inline]
pub fn additive_increase(window: &mut Window, acked: f64) {
    window.cwnd += acked / window.cwnd;
}

/// RFC 5681 equation 4 with the window in place of the flight size (Linux `tcp_reno_ssthresh`).
pub fn halved(window: &Window) -> f64 {
    (window.cwnd / 2.0).max(MIN_SSTHRESH)
}

/// The growth of RFC 5681 section 3.1: slow start, then congestion avoidance with what is left.
#[inline]
pub fn grow(window: &mut Window, acked: u32) {
    let mut acked = f64::from(acked);
    if window.in_slow_start() {
        acked = window.slow_start(acked);
    }
    if acked > 0.0 {
        additive_increase(window, acked);
    }
}

/// Reno has no state beyond the window.
#[derive(Debug, Clone, Default)]
pub struct Reno;

impl CongestionControl for Reno {
    fn on_ack(&mut self, window: &mut Window, ack: &Ack, _peers: Peers<'_>) {
        if ack.cwnd_limited {
            grow(window, ack.acked);
        }
    }

    fn on_congestion(&mut self, window: &Window, _now: Nanos, _peers: Peers<'_>) -> f64 {
        halved(window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::testing::{Flow, ack, alone, assert_close, avoiding};
    use crate::units::MILLISECOND;

    #[test]
    fn slow_start_doubles_the_window_every_rtt() {
        let mut flow = Flow::new(Reno, Window::new(), 50 * MILLISECOND);
        for window in [20.0, 40.0, 80.0] {
            flow.round();
            assert_eq!(flow.window.cwnd, window);
        }
    }

    #[test]
    fn an_ack_that_crosses_ssthresh_continues_in_congestion_avoidance() {
        let mut window = Window { cwnd: 9.0, ssthresh: 10.0 };
        Reno.on_ack(&mut window, &ack(3), alone());
        assert_eq!(window.cwnd, 10.0 + 2.0 / 10.0);
    }

    #[test]
    fn congestion_avoidance_adds_a_segment_per_rtt() {
        let mut flow = Flow::new(Reno, avoiding(100.0), 50 * MILLISECOND);
        flow.round();
        assert_close(flow.window.cwnd, 101.0, 1e-3);
    }

    #[test]
    fn an_unused_window_does_not_grow() {
        let mut window = Window::new();
        Reno.on_ack(&mut window, &ack(2).not_limited(), alone());
        assert_eq!(window, Window::new());
    }

    /// M. Mathis et al., "The macroscopic behavior of the TCP congestion avoidance algorithm",
    /// 1997: sqrt(3/2) / sqrt(p) segments per RTT when every segment is acknowledged.
    #[test]
    fn the_sawtooth_carries_the_square_root_of_three_halves_over_p() {
        for segments in [100, 1_000, 10_000] {
            let mut flow = Flow::new(Reno, avoiding(10.0), 50 * MILLISECOND);
            let mean = flow.mean_window(segments, 20);
            assert_close(mean, (1.5 * f64::from(segments)).sqrt(), 0.02);
        }
    }

    #[test]
    fn the_threshold_is_half_the_window_and_at_least_two_segments() {
        for (cwnd, ssthresh) in [(100.0, 50.0), (7.0, 3.5), (3.0, 2.0), (1.0, 2.0)] {
            assert_eq!(Reno.on_congestion(&avoiding(cwnd), 0, alone()), ssthresh);
        }
    }
}
