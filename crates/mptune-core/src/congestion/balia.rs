//! BALIA, the balanced linked adaptation: draft-walid-mptcp-congestion-control-04; Q. Peng et al.,
//! "Multipath TCP: analysis, design, and implementation", IEEE/ACM Transactions on Networking 24(1),
//! 2016. Couples growth and reduction by the subflows' rates x = w / rtt, between LIA's
//! responsiveness and OLIA's friendliness.
//!
//! Not slow start and recovery, which are Reno's.
//!
//! Compared with the Linux MPTCP fork, `net/mptcp/mptcp_balia.c`:
//!
//! - alpha = max(x) / x_r is a fraction in the reduction too; the fork truncates it to a whole number there, so
//!   it halves the window up to alpha 2 and takes 3/4 above, where the draft goes from 1/2 to 3/4 in between.
//! - Growth is per acknowledged segment; the fork's is per ACK, half as fast with delayed ACKs, and
//!   in whole segments.
//! - The increase is computed once per window and after every congestion event of the subflow; the fork
//!   computes growth and reduction when its window has grown by a segment. The reduction uses the rates at the
//!   time it happens.
//! - `ssthresh` is at least 1 segment with several subflows, as in the fork.
//!
//! The draft's formulas have an unstable fixed point where paths are equal: near alpha 1 the growth
//! has a factor (1 + alpha) (4 + alpha) / 10 and the reduction alpha, which rises faster, so the smaller window
//! keeps shrinking until alpha is past 1.5, at 1.65. Random losses make the windows change places, and on
//! average they are equal. In the fork alpha is 1 up to 2 in the reduction, and equal windows are stable.

use super::coupling::{MIN_SSTHRESH_COUPLED, PerWindow, coupled};
use super::{Ack, CongestionControl, Peer, Peers, Window, reno};
use crate::units::Nanos;

/// The reduction is at most this many halves of the window.
const MAX_HALVES: f64 = 1.5;

/// Segments per ns.
fn rate(peer: &Peer) -> f64 {
    peer.cwnd / peer.srtt as f64
}

/// alpha of the controller's own subflow: 1 on the fastest, larger on slower ones.
fn alpha(peers: Peers<'_>) -> f64 {
    peers.usable().map(rate).fold(0.0, f64::max) / rate(peers.mine())
}

/// Growth of the window per acknowledged segment:
/// x_r / (rtt_r (sum of x)^2) * (1 + alpha) / 2 * (4 + alpha) / 5.
fn increase(peers: Peers<'_>) -> f64 {
    let sum: f64 = peers.usable().map(rate).sum();
    let alpha = alpha(peers);
    let linked = rate(peers.mine()) / (peers.mine().srtt as f64 * sum * sum);
    linked * ((1.0 + alpha) / 2.0) * ((4.0 + alpha) / 5.0)
}

/// BALIA.
#[derive(Debug, Clone, Default)]
pub struct Balia {
    increase: PerWindow,
}

impl CongestionControl for Balia {
    fn on_ack(&mut self, window: &mut Window, ack: &Ack, peers: Peers<'_>) {
        if !ack.cwnd_limited {
            return;
        }
        let mut acked = f64::from(ack.acked);
        if window.in_slow_start() {
            acked = window.slow_start(acked);
        }
        if acked > 0.0 && coupled(peers) {
            window.cwnd += acked * self.increase.get(ack, || increase(peers));
        } else if acked > 0.0 {
            reno::additive_increase(window, acked);
        }
    }

    fn on_congestion(&mut self, window: &Window, _now: Nanos, peers: Peers<'_>) -> f64 {
        self.increase.expire();
        if coupled(peers) {
            let halves = alpha(peers).min(MAX_HALVES);
            (window.cwnd - window.cwnd / 2.0 * halves).max(MIN_SSTHRESH_COUPLED)
        } else {
            reno::halved(window)
        }
    }

    fn on_recovered(&mut self, _window: &mut Window, _next: u32, _now: Nanos) {
        self.increase.expire();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::testing::{
        ack, assert_close, assert_same_as_reno, avoiding, equilibrium, peer,
    };

    /// Growth of subflow `me` per acknowledged segment.
    fn growth(all: &[Peer], me: usize) -> f64 {
        let mut window = avoiding(all[me].cwnd);
        Balia::default().on_ack(&mut window, &ack(1), Peers { all, me });
        window.cwnd - all[me].cwnd
    }

    fn threshold(all: &[Peer], me: usize) -> f64 {
        Balia::default().on_congestion(&avoiding(all[me].cwnd), 0, Peers { all, me })
    }

    #[test]
    fn the_growth_is_that_of_the_draft() {
        // Rates 200 and 100 segments/s: alpha 1 and 2.
        let all = [peer(20.0, 100), peer(20.0, 200)];
        assert_close(growth(&all, 0), 200.0 / (0.1 * 300.0 * 300.0), 1e-9);
        assert_close(
            growth(&all, 1),
            100.0 / (0.2 * 300.0 * 300.0) * (3.0 / 2.0) * (6.0 / 5.0),
            1e-9,
        );
        // Equal paths: each grows like a single flow with the sum of their windows, divided by their number.
        assert_close(growth(&[peer(10.0, 70); 4], 2), 10.0 / 1_600.0, 1e-9);
    }

    #[test]
    fn the_reduction_is_that_of_the_draft() {
        // Rates 400, 320, 200 and 40: alpha 1, 1.25, 2 and 10.
        let all = [peer(40.0, 100), peer(32.0, 100), peer(20.0, 100), peer(4.0, 100)];
        let shares = [0, 1, 2, 3].map(|me| threshold(&all, me) / all[me].cwnd);
        for (share, expected) in shares.into_iter().zip([0.5, 0.375, 0.25, 0.25]) {
            assert_close(share, expected, 1e-12);
        }
        assert_eq!(threshold(&[peer(1.5, 100), peer(40.0, 100)], 0), 1.0);
    }

    #[test]
    fn unusable_subflows_do_not_count() {
        let standby = Peer { usable: false, ..peer(90.0, 5) };
        let all = [peer(20.0, 100), standby, peer(20.0, 100)];
        assert_close(growth(&all, 0), 20.0 / 1_600.0, 1e-9);
        assert_eq!(threshold(&all, 0), 10.0);
    }

    #[test]
    fn on_one_path_it_is_reno() {
        assert_same_as_reno(Balia::default());
    }

    /// Balance of growth and reduction with equal RTTs. The better path has alpha 1, so the windows
    /// add up to sqrt(2 / p); the worse has (1 + alpha) (4 + alpha) / 15 = q / p if alpha is past
    /// 1.5, and alpha is the ratio of the windows.
    #[test]
    fn windows_settle_at_the_fixed_point() {
        for (p, q) in [(1e-3, 2e-3), (5e-4, 4e-3), (1e-4, 2e-3)] {
            let [better, worse] = equilibrium(Balia::default(), [p, q]);
            let ratio = (-5.0 + (25.0 - 4.0 * (4.0 - 15.0 * q / p)).sqrt()) / 2.0;
            assert_close(better / worse, ratio, 0.01);
            assert_close(better + worse, (2.0 / p).sqrt(), 0.01);
        }
        let [first, second] = equilibrium(Balia::default(), [1e-3; 2]);
        assert_close(first + second, 2000.0_f64.sqrt(), 0.01);
    }

    /// Almost equal losses: the windows do not stay near each other, but settle where
    /// (1 + alpha) (4 + alpha) / 15 is 1.
    #[test]
    fn almost_equal_paths_get_unequal_windows() {
        let [better, worse] = equilibrium(Balia::default(), [1e-3, 1.001e-3]);
        assert_close(better / worse, (69.0_f64.sqrt() - 5.0) / 2.0, 0.01);
    }

    #[test]
    fn the_growth_is_computed_anew_after_a_congestion_event() {
        let (before, after) = ([peer(20.0, 100); 2], [peer(10.0, 100), peer(20.0, 100)]);
        let mut balia = Balia::default();
        let report = ack(1).sequence(1, 100);
        balia.on_ack(&mut avoiding(20.0), &report, Peers { all: &before, me: 0 });
        balia.on_congestion(&avoiding(20.0), 0, Peers { all: &before, me: 0 });
        let mut window = avoiding(10.0);
        balia.on_ack(&mut window, &report, Peers { all: &after, me: 0 });
        assert_close(window.cwnd - 10.0, growth(&after, 0), 1e-9);
    }
}
