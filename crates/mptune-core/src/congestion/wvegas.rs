//! wVegas, weighted Vegas: draft-xu-mptcp-congestion-control-05; Y. Cao, M. Xu, X. Fu, "Delay-based
//! congestion control for multipath TCP", ICNP 2012. Each subflow keeps a number of segments in its
//! bottleneck's queue, and the numbers of a connection's subflows add up to a constant: traffic moves
//! to the paths with the least queueing delay.
//!
//! Not loss-based growth: losses halve the window as in Reno, whatever the queues were.
//!
//! Follows the Linux MPTCP fork, `net/mptcp/mptcp_wvegas.c`: 10 segments in all (`total_alpha`), at least 2 for
//! each; estimate and share truncated to whole segments; the RTT of a round is the mean of its samples, and a
//! round with fewer than 3 grows like Reno; one segment more or less per round; when the queueing delay is
//! twice the smallest seen since the last time, the window falls to base / (2 RTT) of itself so that the queue
//! drains and the base RTT shows, and comes back to `ssthresh` by slow start; `ssthresh` is lifted to 3/4 of
//! the window once per round; while the subflow is not in the open state it grows like Reno, afterwards
//! everything but the base RTT starts again, and after an idle time the base RTT too.
//!
//! A consequence of the drain, in the fork too: the burst with which slow start brings a drained window
//! back doubles the delay again, and a queue that builds up from nothing doubles at its second
//! segment. Without other traffic the subflows swing between draining and a nearly empty queue, get a fifth to
//! a half of the path, and reach their shares only from a queue of more than half of them. Jitter longer than a
//! segment's time hides small queues, and then they get two thirds or more. This is the algorithm's arithmetic:
//! the fork's integer arithmetic, computed separately from this code for one subflow and a FIFO, gives 0.53,
//! 0.43 and 0.23 of 20, 50 and 100 Mbit/s at 40 ms where this gives 0.50, 0.42 and 0.22, and with 2 ms of
//! jitter 0.96 and 0.69 of the latter two where this gives 0.97 and 0.68.
//!
//! Differences:
//!
//! - The weight of a subflow is its share of the connection's rate by the subflows' current windows and
//!   smoothed RTTs; in the fork the rates are those recorded when the subflows last had their share queued, and
//!   a subflow that never had does not count.
//! - A round without any queueing delay drains nothing. In the fork it does (0 is twice 0), which only a path
//!   without jitter shows. The 1 us that the fork adds to every sample is not added here.
//! - The fork also starts again when reordering or a first duplicate ACK ends (the Disorder state,
//!   which the sender here does not have).

use super::{Ack, CongestionControl, Peers, Window, reno};
use crate::units::{Nanos, Seq};

/// Segments the subflows together keep queued.
const TOTAL_ALPHA: f64 = 10.0;
/// Fewest segments a subflow keeps queued; also the initial number.
const MIN_ALPHA: f64 = 2.0;
/// Leave slow start above this many queued segments.
const GAMMA: f64 = 1.0;
/// Fewer RTT samples in a round may all come from delayed ACKs.
const MIN_SAMPLES: u32 = 3;
/// The window is at least two segments after an adjustment.
const MIN_WINDOW: f64 = 2.0;

/// The observations of a round of about an RTT.
#[derive(Debug, Clone, Default)]
struct Round {
    /// It ends when a segment after this one is acknowledged.
    end: Seq,
    sum: Nanos,
    samples: u32,
}

impl Round {
    fn new(end: Seq) -> Self {
        Self { end, ..Self::default() }
    }
}

/// The controller's own subflow's share of the connection's rate; none before it has an RTT.
fn weight(peers: Peers<'_>) -> Option<f64> {
    let total: f64 = peers.usable().map(|peer| peer.cwnd / peer.srtt as f64).sum();
    let mine = peers.mine();
    mine.usable.then(|| mine.cwnd / mine.srtt as f64 / total)
}

/// wVegas.
#[derive(Debug, Clone)]
pub struct Wvegas {
    /// The smallest RTT ever: the path's RTT without a queue.
    base_rtt: Nanos,
    round: Round,
    /// Segments to keep queued.
    alpha: f64,
    /// Smallest queueing delay of a round since the last drain; 0 before the first.
    queueing: Nanos,
}

impl Default for Wvegas {
    fn default() -> Self {
        Self { base_rtt: Nanos::MAX, round: Round::default(), alpha: MIN_ALPHA, queueing: 0 }
    }
}

impl Wvegas {
    /// Restarts everything but the base RTT.
    fn begin(&mut self, next: Seq) {
        *self = Self { base_rtt: self.base_rtt, round: Round::new(next), ..Self::default() };
    }

    /// The once-per-RTT decision.
    fn adjust(&mut self, window: &mut Window, acked: u32, peers: Peers<'_>) {
        let rtt = self.round.sum / Nanos::from(self.round.samples);
        let share = self.base_rtt as f64 / rtt as f64;
        let queued = (window.cwnd * (1.0 - share)).floor();
        if !window.in_slow_start() {
            self.follow_share(window, queued, peers);
            self.drain(window, rtt);
        } else if queued > GAMMA {
            window.cwnd = window.cwnd.min((window.cwnd * share).floor() + 1.0);
            window.ssthresh = window.ssthresh.min(window.cwnd - 1.0);
        } else {
            window.slow_start(f64::from(acked));
        }
        window.cwnd = window.cwnd.max(MIN_WINDOW);
        window.ssthresh = window.ssthresh.max(0.75 * window.cwnd);
    }

    /// A step towards its share of the segments to keep queued.
    fn follow_share(&mut self, window: &mut Window, queued: f64, peers: Peers<'_>) {
        if queued >= self.alpha {
            if let Some(weight) = weight(peers) {
                self.alpha = (weight * TOTAL_ALPHA).floor().max(MIN_ALPHA);
            }
        }
        if queued > self.alpha {
            window.cwnd -= 1.0;
            window.ssthresh = window.ssthresh.min(window.cwnd - 1.0);
        } else if queued < self.alpha {
            window.cwnd += 1.0;
        }
    }

    /// Lets the queue run empty when its delay has doubled.
    fn drain(&mut self, window: &mut Window, rtt: Nanos) {
        let queueing = rtt - self.base_rtt;
        if self.queueing == 0 || queueing < self.queueing {
            self.queueing = queueing;
        }
        if queueing > 0 && queueing >= 2 * self.queueing {
            window.cwnd *= self.base_rtt as f64 / (2 * rtt) as f64;
            self.queueing = 0;
        }
    }
}

impl CongestionControl for Wvegas {
    fn on_delivered(&mut self, _window: &mut Window, ack: &Ack, _peers: Peers<'_>) {
        if let Some(rtt) = ack.rtt {
            self.base_rtt = self.base_rtt.min(rtt);
            self.round.sum += rtt;
            self.round.samples += 1;
        }
    }

    fn on_ack(&mut self, window: &mut Window, ack: &Ack, peers: Peers<'_>) {
        let round_ended = ack.open && ack.una > self.round.end;
        if !ack.open || (round_ended && self.round.samples < MIN_SAMPLES) {
            if ack.cwnd_limited {
                reno::grow(window, ack.acked);
            }
        } else if round_ended {
            self.adjust(window, ack.acked, peers);
        } else if window.in_slow_start() {
            window.slow_start(f64::from(ack.acked));
        }
        if round_ended {
            self.round = Round::new(ack.next);
        }
    }

    fn on_congestion(&mut self, window: &Window, _now: Nanos, _peers: Peers<'_>) -> f64 {
        reno::halved(window)
    }

    fn on_recovered(&mut self, _window: &mut Window, next: Seq, _now: Nanos) {
        self.begin(next);
    }

    fn on_restart(&mut self, _window: &mut Window, next: Seq, _now: Nanos) {
        self.base_rtt = Nanos::MAX;
        self.begin(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::Peer;
    use crate::congestion::testing::{ack, alone, assert_close, avoiding, peer};
    use crate::units::MILLISECOND;

    const BASE: Nanos = 40 * MILLISECOND;

    /// Subflows on separate links, each of which holds `pipe` segments in flight and queues the rest.
    struct Paths {
        subflows: Vec<(Wvegas, Window)>,
        pipes: Vec<f64>,
        una: Vec<Seq>,
    }

    impl Paths {
        fn new(start: &[Window], pipes: &[f64]) -> Self {
            let new = |window: &Window| {
                let cc = Wvegas { base_rtt: BASE, ..Wvegas::default() };
                (cc, *window)
            };
            let subflows = start.iter().map(new).collect();
            Self { subflows, pipes: pipes.into(), una: vec![0; pipes.len()] }
        }

        fn queued(&self) -> Vec<f64> {
            let subflows = self.subflows.iter().zip(&self.pipes);
            subflows.map(|((_, window), pipe)| (window.cwnd - pipe).max(0.0)).collect()
        }

        fn rtt(&self, number: usize) -> Nanos {
            let share = (self.subflows[number].1.cwnd / self.pipes[number]).max(1.0);
            (BASE as f64 * share) as Nanos
        }

        /// The ACKs of one window of every subflow.
        fn round(&mut self) {
            for me in 0..self.subflows.len() {
                let all = (0..self.subflows.len()).map(|number| {
                    let srtt = self.rtt(number);
                    Peer { srtt, ..peer(self.subflows[number].1.cwnd, 1) }
                });
                let all: Vec<_> = all.collect();
                let (rtt, flight) = (self.rtt(me), self.subflows[me].1.cwnd as Seq);
                let (cc, window) = &mut self.subflows[me];
                for _ in 0..flight {
                    self.una[me] += 1;
                    let report = ack(1).rtt(rtt).sequence(self.una[me], self.una[me] + flight);
                    cc.on_delivered(window, &report, Peers { all: &all, me });
                    cc.on_ack(window, &report, Peers { all: &all, me });
                }
            }
        }

        /// Smallest and largest queue of each over `rounds`.
        fn range(&mut self, rounds: u32) -> Vec<(f64, f64)> {
            let mut range = vec![(f64::MAX, 0.0_f64); self.pipes.len()];
            for _ in 0..rounds {
                self.round();
                for (range, queued) in range.iter_mut().zip(self.queued()) {
                    *range = (range.0.min(queued), range.1.max(queued));
                }
            }
            range
        }
    }

    #[test]
    fn a_lone_subflow_keeps_all_the_segments_queued() {
        for pipe in [50.0, 100.0, 400.0] {
            let mut path = Paths::new(&[avoiding(pipe + 6.0)], &[pipe]);
            path.range(100);
            let (low, high) = path.range(50)[0];
            assert!(low >= TOTAL_ALPHA - 1.0 && high <= TOTAL_ALPHA + 1.0, "{low} to {high}");
        }
    }

    #[test]
    fn the_segments_queued_are_in_proportion_to_the_rates() {
        let pipes = [300.0, 100.0, 100.0];
        let mut paths = Paths::new(&[305.0, 102.5, 102.5].map(avoiding), &pipes);
        paths.range(200);
        for ((low, high), share) in paths.range(100).into_iter().zip([0.6, 0.2, 0.2]) {
            let expected = share * TOTAL_ALPHA;
            // The estimate is a round old and the share truncated to whole segments.
            assert!(low >= expected - 1.5 && high <= expected + 2.5, "{low} to {high}");
        }
    }

    #[test]
    fn a_queue_that_builds_up_stays_below_the_share_and_the_path_busy() {
        let mut path = Paths::new(&[avoiding(90.0)], &[100.0]);
        let mut carried = 0.0;
        for _ in 0..1_000 {
            path.round();
            carried += path.subflows[0].1.cwnd.min(100.0) / 100.0;
            assert!(path.queued()[0] <= TOTAL_ALPHA + 1.0);
        }
        assert!(carried / 1_000.0 > 0.8, "{carried}");
    }

    #[test]
    fn the_window_moves_by_one_segment_towards_the_share() {
        for (queued, change) in [(0.0, 1.0), (1.9, 1.0), (2.0, 1.0), (10.1, 0.0), (11.0, -1.0)] {
            let mut wvegas = Wvegas { base_rtt: BASE, ..Wvegas::default() };
            let mut window = avoiding(100.0);
            let rtt = (BASE as f64 / (1.0 - queued / 100.0)).ceil() as Nanos;
            wvegas.round = Round { end: 0, sum: 3 * rtt, samples: 3 };
            wvegas.queueing = rtt - BASE;
            wvegas.adjust(&mut window, 1, alone());
            assert_eq!(window.cwnd, 100.0 + change, "{queued} segments queued");
        }
    }

    #[test]
    fn a_queue_that_doubled_is_drained() {
        let mut wvegas = Wvegas { base_rtt: BASE, queueing: BASE / 10, ..Wvegas::default() };
        let rtt = BASE + 2 * (BASE / 10);
        wvegas.round = Round { end: 0, sum: 3 * rtt, samples: 3 };
        let mut window = avoiding(63.0);
        wvegas.adjust(&mut window, 1, alone());
        // 63 (1 - 1 / 1.2) = 10.5 segments are queued, as they should be.
        assert_close(window.cwnd, 63.0 * BASE as f64 / (2 * rtt) as f64, 1e-12);
        assert_eq!(wvegas.queueing, 0);
    }

    #[test]
    fn slow_start_ends_at_the_delivered_window_once_there_is_a_queue() {
        let mut path = Paths::new(&[Window::new()], &[100.0]);
        let mut largest = 0.0;
        while path.subflows[0].1.in_slow_start() {
            largest = path.subflows[0].1.cwnd;
            assert!(largest < 400.0, "a queue of three pipes goes unnoticed");
            path.round();
        }
        assert!(path.subflows[0].1.cwnd < largest);
    }

    #[test]
    fn a_round_with_few_samples_and_loss_recovery_grow_as_reno() {
        let mut reno = avoiding(20.0);
        reno::grow(&mut reno, 2);
        for report in [ack(2).sequence(1, 9), ack(2).sequence(5, 9).in_loss_recovery()] {
            let mut window = avoiding(20.0);
            Wvegas::default().on_ack(&mut window, &report, alone());
            assert_eq!(window, reno);
        }
    }

    #[test]
    fn after_a_recovery_the_share_is_forgotten_and_after_an_idle_time_the_base_rtt() {
        let mut path = Paths::new(&[avoiding(106.0)], &[100.0]);
        path.range(50);
        let (cc, window) = &mut path.subflows[0];
        assert!(cc.alpha > MIN_ALPHA);
        cc.on_recovered(window, path.una[0], 0);
        assert_eq!((cc.alpha, cc.base_rtt), (MIN_ALPHA, BASE));
        cc.on_restart(window, path.una[0], 0);
        assert_eq!(cc.base_rtt, Nanos::MAX);
    }
}
