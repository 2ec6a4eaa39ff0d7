//! LIA, the linked-increases algorithm: RFC 6356. Together the subflows of a connection take what one
//! Reno flow would on the best of their paths, and none takes more than Reno would on its own.
//!
//! Not the division of data among subflows (the scheduler); slow start, halving and recovery are
//! Reno's, as the RFC leaves them.
//!
//! Compared with the Linux MPTCP fork, `net/mptcp/mptcp_coupled.c`:
//!
//! - alpha is a fraction; the fork keeps it in fixed point (`alpha_scale` 12) and counts growth in
//!   whole segments.
//! - Growth is per acknowledged segment (the RFC's bytes_acked); the fork's is per ACK, half as fast
//!   with delayed ACKs.
//! - alpha is computed once per window and after every congestion event of the subflow, as section
//!   4.1 proposes; the fork keeps one for the connection and computes it when any window has grown by
//!   a segment. With n equal subflows each grows by a segment in n^2 RTTs, so here it is no older.
//! - The window of a subflow in fast recovery counts as its `ssthresh` (section 3); the fork uses the window
//!   that PRR shrinks. Neither uses the flight size when the application sends less than the window allows
//!   (section 3).
//! - alpha / cwnd_total is one expression, max(w / rtt^2) / (sum of w / rtt)^2: cwnd_total cancels.

use super::coupling::{PerWindow, coupled};
use super::{Ack, CongestionControl, Peers, Window, reno};
use crate::units::Nanos;

/// alpha / cwnd_total (equation 2 in equation 1): growth of any subflow per acknowledged segment, in segments.
fn linked_increase(peers: Peers<'_>) -> f64 {
    let (mut best, mut sum) = (0.0_f64, 0.0);
    for peer in peers.usable() {
        let per_rtt = 1.0 / peer.srtt as f64;
        let rate = peer.cwnd * per_rtt;
        best = best.max(rate * per_rtt);
        sum += rate;
    }
    best / (sum * sum)
}

/// LIA.
#[derive(Debug, Clone, Default)]
pub struct Lia {
    linked: PerWindow,
}

impl CongestionControl for Lia {
    fn on_ack(&mut self, window: &mut Window, ack: &Ack, peers: Peers<'_>) {
        if !ack.cwnd_limited {
            return;
        }
        let mut acked = f64::from(ack.acked);
        if window.in_slow_start() {
            acked = window.slow_start(acked);
        }
        if acked <= 0.0 {
            return;
        }
        if coupled(peers) {
            let linked = self.linked.get(ack, || linked_increase(peers));
            window.cwnd += acked * linked.min(1.0 / window.cwnd);
        } else {
            reno::additive_increase(window, acked);
        }
    }

    fn on_congestion(&mut self, window: &Window, _now: Nanos, _peers: Peers<'_>) -> f64 {
        self.linked.expire();
        reno::halved(window)
    }

    fn on_recovered(&mut self, _window: &mut Window, _next: u32, _now: Nanos) {
        self.linked.expire();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::Peer;
    use crate::congestion::reno::Reno;
    use crate::congestion::testing::{
        ack, alone, assert_close, assert_same_as_reno, avoiding, equilibrium, peer,
    };
    use proptest::prelude::*;

    /// Equation 2.
    fn alpha(all: &[Peer]) -> f64 {
        let total: f64 = all.iter().map(|peer| peer.cwnd).sum();
        total * linked_increase(Peers { all, me: 0 })
    }

    /// Growth of subflow `me` per acknowledged segment.
    fn growth(all: &[Peer], me: usize) -> f64 {
        let mut window = avoiding(all[me].cwnd);
        Lia::default().on_ack(&mut window, &ack(1), Peers { all, me });
        window.cwnd - all[me].cwnd
    }

    #[test]
    fn alpha_is_that_of_equation_2() {
        // Equal RTTs: alpha = w_max / w_total. By hand: 30 * (20/0.1^2) / (30/0.1)^2 = 2/3.
        assert_close(alpha(&[peer(20.0, 100), peer(10.0, 100)]), 2.0 / 3.0, 1e-12);
        // 30 * max(10/0.01^2, 20/0.1^2) / (10/0.01 + 20/0.1)^2 = 30 * 100000 / 1200^2.
        assert_close(alpha(&[peer(10.0, 10), peer(20.0, 100)]), 3e6 / 1.44e6, 1e-12);
        // 70 * max(40/0.2^2, 25/0.05^2, 5/0.02^2) / (40/0.2 + 25/0.05 + 5/0.02)^2
        // = 70 * 12500 / 950^2.
        let all = [peer(40.0, 200), peer(25.0, 50), peer(5.0, 20)];
        assert_close(alpha(&all), 70.0 * 12_500.0 / 902_500.0, 1e-12);
        assert_close(alpha(&[peer(10.0, 70)]), 1.0, 1e-12);
    }

    #[test]
    fn unusable_subflows_do_not_count() {
        let standby = Peer { usable: false, ..peer(90.0, 5) };
        let all = [peer(20.0, 100), standby, peer(10.0, 100)];
        assert_close(growth(&all, 0), 20.0 / 900.0, 1e-9);
    }

    #[test]
    fn a_subflow_never_grows_faster_than_reno() {
        // Equation 1: alpha / cwnd_total would be 100000 / 1200^2 = 0.069, 1 / cwnd is 0.05.
        assert_close(growth(&[peer(10.0, 10), peer(20.0, 100)], 1), 1.0 / 20.0, 1e-9);
        assert_close(growth(&[peer(10.0, 10), peer(20.0, 100)], 0), 1e5 / 1.44e6, 1e-9);
    }

    #[test]
    fn on_one_path_it_is_reno() {
        assert_same_as_reno(Lia::default());
    }

    #[test]
    fn the_increase_is_computed_anew_after_a_congestion_event() {
        let before = [peer(20.0, 100), peer(20.0, 100)];
        let after = [peer(10.0, 100), peer(20.0, 100)];
        let mut lia = Lia::default();
        let report = ack(1).sequence(1, 100);
        lia.on_ack(&mut avoiding(20.0), &report, Peers { all: &before, me: 0 });
        lia.on_congestion(&avoiding(20.0), 0, Peers { all: &before, me: 0 });
        let mut window = avoiding(10.0);
        lia.on_ack(&mut window, &report, Peers { all: &after, me: 0 });
        assert_close(window.cwnd - 10.0, 20.0 / 900.0, 1e-9);
    }

    /// Slow start, halving: not part of the coupling (section 3).
    #[test]
    fn slow_start_and_the_threshold_are_renos() {
        let all = [peer(10.0, 100); 2];
        let (mut lia, mut reno) = (Window::new(), Window::new());
        Lia::default().on_ack(&mut lia, &ack(2), Peers { all: &all, me: 0 });
        Reno.on_ack(&mut reno, &ack(2), alone());
        assert_eq!(lia, reno);
        let window = avoiding(3.0);
        assert_eq!(Lia::default().on_congestion(&window, 0, Peers { all: &all, me: 0 }), 2.0);
    }

    /// Balance of growth and halving, p w^2 / 2 = alpha w / w_total with equal RTTs: windows are proportional
    /// to 1/p, and together as large as Reno's on the better path, sqrt(2 / p).
    #[test]
    fn windows_settle_in_inverse_proportion_to_loss() {
        for (p, q) in [(1e-3, 1e-3), (1e-3, 2e-3), (5e-4, 4e-3)] {
            let [better, worse] = equilibrium(Lia::default(), [p, q]);
            assert_close(better / worse, q / p, 0.02);
            assert_close(better + worse, (2.0 / p).sqrt(), 0.02);
        }
    }

    fn subflows() -> impl Strategy<Value = Vec<Peer>> {
        prop::collection::vec((1.0..2_000.0, 1..800u64), 1..9)
            .prop_map(|all| all.into_iter().map(|(cwnd, rtt_ms)| peer(cwnd, rtt_ms)).collect())
    }

    proptest! {
        /// Section 1, goals 1 and 2: together the subflows gain rate (windows per RTT per RTT) no
        /// faster than a single flow would on the best path, where rate growth is 1 / rtt^2.
        #[test]
        fn together_they_gain_no_more_rate_than_one_flow_on_the_best_path(all in subflows()) {
            let seconds = |peer: &Peer| peer.srtt as f64 / 1e9;
            let gained: f64 = (0..all.len())
                .map(|me| growth(&all, me) * all[me].cwnd / seconds(&all[me]).powi(2))
                .sum();
            let best = all.iter().map(|peer| seconds(peer).powi(-2)).fold(0.0, f64::max);
            prop_assert!(gained <= best * (1.0 + 1e-9), "{gained} > {best}");
        }

        #[test]
        fn no_subflow_grows_faster_than_reno(all in subflows()) {
            for me in 0..all.len() {
                prop_assert!(growth(&all, me) <= 1.0 / all[me].cwnd + 1e-9);
            }
        }
    }
}
