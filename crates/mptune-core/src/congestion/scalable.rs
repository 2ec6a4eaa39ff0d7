//! Scalable TCP: T. Kelly, "Scalable TCP: improving performance in highspeed wide area networks",
//! ACM SIGCOMM CCR 33(2), 2003. Recovers from a loss within the same number of RTTs at any window.
//!
//! Not Kelly's threshold between legacy and scalable windows: as in Linux a window below 100 segments grows
//! like Reno's.
//!
//! Compared with Linux `net/ipv4/tcp_scalable.c`: the same constants (`TCP_SCALABLE_AI_CNT` 100,
//! `TCP_SCALABLE_MD_SCALE` 3) and the same growth by acknowledged segments. Older kernels, including the MPTCP
//! fork's, count 50 per ACK, which is the same with delayed ACKs. Linux counts growth in whole segments, here
//! it is fractional; the reduction is truncated to whole segments as in Linux, so a window below 8 segments is
//! not reduced at all.

use super::{Ack, CongestionControl, Peers, Window};
use crate::units::Nanos;

/// The window grows by one segment per this many acknowledged ones; smaller windows by Reno's rule.
const INCREASE_INTERVAL: f64 = 100.0;
/// The share of the window given up at a congestion event.
const DECREASE: f64 = 0.125;
/// RFC 5681 equation 4: at least two segments.
const MIN_SSTHRESH: f64 = 2.0;

/// Scalable TCP has no state beyond the window.
#[derive(Debug, Clone, Default)]
pub struct Scalable;

impl CongestionControl for Scalable {
    fn on_ack(&mut self, window: &mut Window, ack: &Ack, _peers: Peers<'_>) {
        if !ack.cwnd_limited {
            return;
        }
        let mut acked = f64::from(ack.acked);
        if window.in_slow_start() {
            acked = window.slow_start(acked);
        }
        window.cwnd += acked / window.cwnd.min(INCREASE_INTERVAL);
    }

    fn on_congestion(&mut self, window: &Window, _now: Nanos, _peers: Peers<'_>) -> f64 {
        (window.cwnd - (window.cwnd * DECREASE).floor()).max(MIN_SSTHRESH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::reno::Reno;
    use crate::congestion::testing::{Flow, ack, alone, assert_close, avoiding};
    use crate::units::{MILLISECOND, Nanos, seconds};

    const RTT: Nanos = 50 * MILLISECOND;

    /// RTTs until a flow that lost a segment at `cwnd` has its window back.
    fn recovery_rtts<C: CongestionControl>(cc: C, cwnd: f64) -> f64 {
        let mut flow = Flow::new(cc, avoiding(cwnd), RTT);
        flow.lose();
        while flow.window.cwnd < cwnd {
            flow.ack();
        }
        seconds(flow.now) / seconds(RTT)
    }

    /// Kelly 2003, section 3: ln(1 - b) / ln(1 + a), here with growth at every ACK (a is small).
    #[test]
    fn recovery_takes_the_same_number_of_rtts_at_any_window() {
        let expected = (1.0 / (1.0 - 0.125_f64)).ln() / 1.01_f64.ln();
        for cwnd in [400.0, 2_000.0, 40_000.0] {
            assert_close(recovery_rtts(Scalable, cwnd), expected, 0.02);
        }
        assert!(recovery_rtts(Reno, 2_000.0) > 5.0 * recovery_rtts(Reno, 200.0));
    }

    #[test]
    fn a_small_window_grows_as_renos() {
        let (mut scalable, mut reno) = (avoiding(80.0), avoiding(80.0));
        Scalable.on_ack(&mut scalable, &ack(2), alone());
        Reno.on_ack(&mut reno, &ack(2), alone());
        assert_eq!(scalable, reno);
    }

    #[test]
    fn an_unused_window_does_not_grow() {
        let mut window = avoiding(200.0);
        Scalable.on_ack(&mut window, &ack(2).not_limited(), alone());
        assert_eq!(window, avoiding(200.0));
    }

    #[test]
    fn a_loss_costs_an_eighth_in_whole_segments() {
        for (cwnd, ssthresh) in [(800.0, 700.0), (15.5, 14.5), (7.0, 7.0), (1.0, 2.0)] {
            assert_eq!(Scalable.on_congestion(&avoiding(cwnd), 0, alone()), ssthresh);
        }
    }
}
