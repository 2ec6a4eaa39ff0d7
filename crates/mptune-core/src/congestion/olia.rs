//! OLIA, the opportunistic linked-increases algorithm: draft-khalili-mptcp-congestion-control-05;
//! R. Khalili et al., "MPTCP is not Pareto-optimal", CoNEXT 2012. Couples the growth of a
//! connection's subflows: together they take what one Reno flow would on the best path, and a term
//! alpha moves window from the largest subflows to better but smaller ones.
//!
//! Not the bookkeeping of segments between losses, which the sender keeps ([`Peer`]); slow start,
//! halving and recovery are Reno's, as the draft leaves them.
//!
//! Compared with the Linux MPTCP fork, `net/mptcp/mptcp_olia.c`:
//!
//! - Best paths have the largest l / rtt^2, as in the fork and as the paper's loss-throughput formula (rate ~
//!   sqrt(l) / rtt) requires; implementations that cite the draft also use l^2 / rtt.
//! - Windows are compared in whole segments, as in the fork: otherwise equal paths would never tie.
//! - Growth is per acknowledged segment (the draft's bytes_acked); the fork's is per ACK, half as
//!   fast with delayed ACKs.
//! - Growth is exact; the fork truncates it to 1/1024 segment per ACK (`scale` 10), so n equal paths stop
//!   growing at 1024 / n^2 segments each and one path at 1024. Here one path is exactly Reno.
//! - A window that alpha shrinks stays in congestion avoidance; the fork's enters slow start below `ssthresh`
//!   and comes straight back, which the draft does not require.
//! - `ssthresh` is at least 1 segment with several subflows (draft), 2 in the fork
//!   (`tcp_reno_ssthresh`).
//!
//! [`Olia::in_integers`] does the last four as the fork, for the stack of the papers' kernels.

mod alpha;
mod integers;

use self::alpha::alpha;
use self::integers::Integers;
use super::coupling::{MIN_SSTHRESH_COUPLED, coupled};
use super::{Ack, CongestionControl, Peers, Window, reno};
use crate::units::Nanos;

/// Smallest window; alpha may shrink one.
const MIN_WINDOW: f64 = 1.0;

/// The linked increase, segments per acknowledged segment:
/// (w_r / rtt_r^2) / (sum of w_p / rtt_p)^2, with rtt_r^2 multiplied into the denominator.
#[inline]
fn linked_increase(peers: Peers<'_>) -> f64 {
    let mine = peers.mine();
    let rtt = mine.srtt as f64;
    let sum: f64 = peers.usable().map(|peer| peer.cwnd * (rtt / peer.srtt as f64)).sum();
    mine.cwnd / (sum * sum)
}

/// Congestion avoidance of coupled subflows. Where alpha shrinks the window, `ssthresh` is lowered with it.
#[inline]
fn linked_growth(window: &mut Window, acked: f64, peers: Peers<'_>) {
    let increase = linked_increase(peers) + alpha(peers).value() / window.cwnd;
    window.cwnd = (window.cwnd + increase * acked).max(MIN_WINDOW);
    window.ssthresh = window.ssthresh.min(window.cwnd);
}

/// The subflows come with every call, so that only growth in integers has a state.
#[derive(Debug, Clone, Default)]
pub struct Olia {
    integers: Option<Integers>,
}

impl Olia {
    /// As the fork computes it.
    pub fn in_integers() -> Self {
        Self { integers: Some(Integers::default()) }
    }
}

impl CongestionControl for Olia {
    fn on_ack(&mut self, window: &mut Window, ack: &Ack, peers: Peers<'_>) {
        if !ack.cwnd_limited {
            return;
        }
        let mut acked = f64::from(ack.acked);
        let in_slow_start = window.in_slow_start();
        if in_slow_start {
            acked = window.slow_start(acked);
        }
        if let Some(integers) = &mut self.integers {
            if !in_slow_start && peers.mine().usable {
                let segments = integers.on_ack(window.cwnd as u64, alpha(peers), peers);
                window.cwnd = (window.cwnd + segments).max(MIN_WINDOW);
            }
        } else if acked > 0.0 && coupled(peers) {
            linked_growth(window, acked, peers);
        } else if acked > 0.0 {
            reno::additive_increase(window, acked);
        }
    }

    fn on_congestion(&mut self, window: &Window, _now: Nanos, peers: Peers<'_>) -> f64 {
        if self.integers.is_some() {
            reno::halved(window).floor()
        } else if coupled(peers) {
            (window.cwnd / 2.0).max(MIN_SSTHRESH_COUPLED)
        } else {
            reno::halved(window)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::Peer;
    use crate::congestion::testing::{ack, assert_close, assert_same_as_reno, avoiding};
    use crate::units::MILLISECOND;

    /// A usable subflow.
    pub(super) fn peer(cwnd: f64, rtt_ms: u64, between_losses: u64, since_loss: u64) -> Peer {
        Peer {
            usable: true,
            cwnd,
            srtt: rtt_ms * MILLISECOND,
            min_rtt: rtt_ms * MILLISECOND,
            acked_since_loss: since_loss,
            acked_between_losses: between_losses,
            ..Peer::default()
        }
    }

    fn alphas(all: &[Peer]) -> Vec<f64> {
        let usable = (0..all.len()).filter(|&me| all[me].usable);
        usable.map(|me| alpha(Peers { all, me }).value()).collect()
    }

    /// Growth of subflow `me` per acknowledged segment.
    fn growth(all: &[Peer], me: usize) -> f64 {
        let mut window = avoiding(all[me].cwnd);
        Olia::default().on_ack(&mut window, &ack(1), Peers { all, me });
        window.cwnd - all[me].cwnd
    }

    #[test]
    fn alpha_has_the_values_of_the_draft() {
        let unusable = Peer { usable: false, ..peer(90.0, 10, 9_000, 0) };
        let cases: &[(&str, &[Peer], &[f64])] = &[
            ("one path", &[peer(10.0, 50, 100, 0)], &[0.0]),
            ("equal paths", &[peer(10.0, 50, 100, 0); 2], &[0.0; 2]),
            (
                "the best is the largest",
                &[peer(20.0, 50, 100, 0), peer(10.0, 50, 90, 0)],
                &[0.0; 2],
            ),
            (
                "the best is small",
                &[peer(10.0, 50, 100, 0), peer(20.0, 50, 90, 0)],
                &[1.0 / 2.0, -1.0 / 2.0],
            ),
            (
                "segments since the last loss count when they are more",
                &[peer(10.0, 50, 10, 100), peer(20.0, 50, 90, 0)],
                &[1.0 / 2.0, -1.0 / 2.0],
            ),
            (
                "a shorter RTT makes the best",
                &[peer(10.0, 40, 100, 0), peer(20.0, 50, 150, 0)],
                &[1.0 / 2.0, -1.0 / 2.0],
            ),
            (
                "two largest and one neither",
                &[
                    peer(20.0, 50, 10, 0),
                    peer(20.9, 50, 10, 0),
                    peer(5.0, 50, 100, 0),
                    peer(9.0, 50, 10, 0),
                ],
                &[-1.0 / 8.0, -1.0 / 8.0, 1.0 / 4.0, 0.0],
            ),
            (
                "two collected",
                &[peer(5.0, 50, 100, 0), peer(6.0, 50, 0, 100), peer(20.0, 50, 10, 0)],
                &[1.0 / 6.0, 1.0 / 6.0, -1.0 / 3.0],
            ),
            (
                "the largest is one of several best",
                &[peer(5.0, 50, 100, 0), peer(20.0, 50, 100, 0)],
                &[1.0 / 2.0, -1.0 / 2.0],
            ),
            (
                "no loss and nothing acknowledged yet",
                &[peer(10.0, 50, 0, 0), peer(16.0, 50, 0, 0)],
                &[1.0 / 2.0, -1.0 / 2.0],
            ),
            (
                "unusable subflows do not count",
                &[peer(10.0, 50, 100, 0), peer(20.0, 50, 90, 0), unusable],
                &[1.0 / 2.0, -1.0 / 2.0],
            ),
        ];
        for (name, all, expected) in cases {
            assert_eq!(alphas(all), *expected, "{name}");
            assert!(alphas(all).iter().sum::<f64>().abs() < 1e-12, "{name}: the sum is not 0");
        }
    }

    #[test]
    fn growth_is_the_linked_increase_and_alpha_over_the_window() {
        let all = [peer(20.0, 40, 100, 0), peer(30.0, 90, 50, 0), peer(5.0, 200, 10, 0)];
        let sum = 20.0 / 0.04 + 30.0 / 0.09 + 5.0 / 0.2;
        let linked = |w: f64, rtt: f64| w / (rtt * rtt) / (sum * sum);
        assert_close(growth(&all, 0), linked(20.0, 0.04) + 1.0 / 3.0 / 20.0, 1e-9);
        assert_close(growth(&all, 1), linked(30.0, 0.09) - 1.0 / 3.0 / 30.0, 1e-9);
        assert_close(growth(&all, 2), linked(5.0, 0.2), 1e-9);
    }

    #[test]
    fn on_one_path_it_is_reno() {
        assert_same_as_reno(Olia::default());
    }

    /// Equal paths that lose one segment in N: the sum of their mean windows is Reno's mean window
    /// with the same loss, sqrt(3/2 N).
    #[test]
    fn equal_paths_together_are_one_reno_flow() {
        for paths in [2, 3] {
            let segments = 4_000;
            let mut all = vec![peer(20.0, 50, 0, 0); paths];
            let mut window = avoiding(20.0);
            let (mut delivered, mut rounds) = (0.0, 0.0);
            for cycle in 0..40 {
                for _ in 0..segments {
                    all.fill(peer(window.cwnd, 50, 0, 0));
                    if cycle >= 20 {
                        delivered += paths as f64;
                        rounds += 1.0 / window.cwnd;
                    }
                    Olia::default().on_ack(&mut window, &ack(1), Peers { all: &all, me: 0 });
                }
                let ssthresh =
                    Olia::default().on_congestion(&window, 0, Peers { all: &all, me: 0 });
                window = Window { cwnd: ssthresh, ssthresh };
            }
            assert_close(delivered / rounds, (1.5 * f64::from(segments)).sqrt(), 0.02);
        }
    }

    #[test]
    fn a_shrinking_window_stays_in_congestion_avoidance_and_above_zero() {
        let all = [peer(1.0, 50, 10, 0), peer(0.9, 50, 100, 0)];
        let mut window = Window { cwnd: 1.0, ssthresh: 1.0 };
        Olia::default().on_ack(&mut window, &ack(4), Peers { all: &all, me: 0 });
        assert_eq!(window.cwnd, 1.0);
        let all = [peer(20.0, 50, 10, 0), peer(18.0, 50, 100, 0)];
        let mut window = Window { cwnd: 20.0, ssthresh: 20.0 };
        Olia::default().on_ack(&mut window, &ack(1), Peers { all: &all, me: 0 });
        assert!(window.cwnd < 20.0 && !window.in_slow_start());
    }

    #[test]
    fn the_threshold_may_be_one_segment_with_several_subflows() {
        let all = [peer(2.0, 50, 0, 0); 2];
        let window = avoiding(2.0);
        assert_eq!(Olia::default().on_congestion(&window, 0, Peers { all: &all, me: 0 }), 1.0);
        assert_eq!(Olia::default().on_congestion(&window, 0, Peers { all: &all[..1], me: 0 }), 2.0);
    }
}
