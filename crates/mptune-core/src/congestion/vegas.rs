//! TCP Vegas: L. Brakmo, L. Peterson, "TCP Vegas: end to end congestion avoidance on a global
//! internet", IEEE JSAC 13(8), 1995. Once per RTT it estimates how many segments it keeps in the
//! bottleneck's queue and holds that number between alpha and beta.
//!
//! Not the paper's own loss detection and its slow start of every other RTT; Linux has neither.
//!
//! Follows Linux `net/ipv4/tcp_vegas.c` where it departs from the paper:
//!
//! - alpha 2, beta 4, gamma 1 and the estimate truncated to whole segments, so the window rests at estimates
//!   from 2 up to but not including 5, and slow start ends at 2;
//! - the estimate is W (RTT - base) / base, the paper's is W (RTT - base) / RTT: a little larger;
//! - RTT is the smallest of the round, and a round with fewer than 3 samples grows like Reno;
//! - when slow start ends the window is set to the delivered rate times the base RTT, plus 1; - `ssthresh` is
//!   lifted to 3/4 of the window once per round (`tcp_current_ssthresh`);
//! - it ignores whether the window limited sending, except where it grows like Reno;
//! - while the subflow is not in the open state it grows like Reno (`tcp_vegas_state`), afterwards a new round
//!   begins (`vegas_enable`), and after an idle time the base RTT is also learned again (`tcp_vegas_init`).
//!
//! Differences: Linux also starts a new round when reordering or a first duplicate ACK ends (the
//! Disorder state, which the sender here does not have) and learns the base RTT again after any moment with
//! nothing in flight; here only after an idle time longer than the RTO.

use super::{Ack, CongestionControl, Peers, Window, reno};
use crate::units::Nanos;

/// Grow below this many queued segments.
const ALPHA: f64 = 2.0;
/// Shrink above this many queued segments.
const BETA: f64 = 4.0;
/// Leave slow start above this many queued segments.
const GAMMA: f64 = 1.0;
/// Fewer RTT samples in a round may all come from delayed ACKs.
const MIN_SAMPLES: u32 = 3;
/// The window is at least two segments after an adjustment.
const MIN_WINDOW: f64 = 2.0;

/// The observations of a round of about an RTT.
#[derive(Debug, Clone)]
struct Round {
    /// It ends when a segment after this one is acknowledged.
    end: u32,
    min_rtt: Nanos,
    samples: u32,
}

impl Round {
    fn new(end: u32) -> Self {
        Self { end, min_rtt: Nanos::MAX, samples: 0 }
    }
}

/// TCP Vegas.
#[derive(Debug, Clone)]
pub struct Vegas {
    /// The smallest RTT ever: the path's RTT without a queue.
    base_rtt: Nanos,
    round: Round,
}

impl Default for Vegas {
    fn default() -> Self {
        Self { base_rtt: Nanos::MAX, round: Round::new(0) }
    }
}

impl Vegas {
    /// The once-per-RTT decision.
    fn adjust(&self, window: &mut Window, acked: u32) {
        let base = self.base_rtt as f64;
        let rtt = self.round.min_rtt as f64;
        let queued = (window.cwnd * (rtt - base) / base).floor();
        if window.in_slow_start() {
            if queued > GAMMA {
                let arriving = (window.cwnd * base / rtt).floor() + 1.0;
                window.cwnd = window.cwnd.min(arriving);
                window.ssthresh = window.ssthresh.min(window.cwnd);
            } else {
                window.slow_start(f64::from(acked));
            }
        } else if queued > BETA {
            window.cwnd -= 1.0;
            window.ssthresh = window.ssthresh.min(window.cwnd);
        } else if queued < ALPHA {
            window.cwnd += 1.0;
        }
        window.cwnd = window.cwnd.max(MIN_WINDOW);
        window.ssthresh = window.ssthresh.max(0.75 * window.cwnd);
    }
}

impl CongestionControl for Vegas {
    fn on_delivered(&mut self, _window: &mut Window, ack: &Ack, _peers: Peers<'_>) {
        if let Some(rtt) = ack.rtt {
            self.base_rtt = self.base_rtt.min(rtt);
            self.round.min_rtt = self.round.min_rtt.min(rtt);
            self.round.samples += 1;
        }
    }

    fn on_ack(&mut self, window: &mut Window, ack: &Ack, _peers: Peers<'_>) {
        let round_ended = ack.open && ack.una > self.round.end;
        if !ack.open || (round_ended && self.round.samples < MIN_SAMPLES) {
            if ack.cwnd_limited {
                reno::grow(window, ack.acked);
            }
        } else if round_ended {
            self.adjust(window, ack.acked);
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

    fn on_recovered(&mut self, _window: &mut Window, next: u32, _now: Nanos) {
        self.round = Round::new(next);
    }

    fn on_restart(&mut self, _window: &mut Window, next: u32, _now: Nanos) {
        self.base_rtt = Nanos::MAX;
        self.round = Round::new(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::testing::{ack, alone, avoiding};
    use crate::units::MILLISECOND;

    const BASE: Nanos = 40 * MILLISECOND;

    /// A flow through a link that holds `pipe` segments in flight and queues the rest.
    struct Path {
        cc: Vegas,
        window: Window,
        pipe: f64,
        una: u32,
    }

    impl Path {
        fn new(window: Window, pipe: f64) -> Self {
            let mut path = Self { cc: Vegas::default(), window, pipe, una: 0 };
            path.cc.base_rtt = BASE;
            path
        }

        /// Segments of the window in the queue, as [`Vegas::adjust`] estimates them.
        fn queued(&self) -> f64 {
            self.window.cwnd * (self.window.cwnd - self.pipe) / self.pipe
        }

        /// The ACKs of one window, each with the RTT the window and the queue give.
        fn round(&mut self) {
            let window = self.window.cwnd as u32;
            let rtt = BASE as f64 * (self.window.cwnd / self.pipe).max(1.0);
            for _ in 0..window {
                self.una += 1;
                let report = ack(1).rtt(rtt as Nanos).sequence(self.una, self.una + window);
                self.cc.on_delivered(&mut self.window, &report, alone());
                self.cc.on_ack(&mut self.window, &report, alone());
            }
        }
    }

    #[test]
    fn the_queue_rests_between_alpha_and_beta() {
        for pipe in [50.0, 100.0, 400.0] {
            for start in [0.8 * pipe, pipe + 20.0] {
                let mut path = Path::new(avoiding(start), pipe);
                for _ in 0..200 {
                    path.round();
                }
                for _ in 0..20 {
                    path.round();
                    assert!((ALPHA..BETA + 1.0).contains(&path.queued()), "{}", path.queued());
                }
            }
        }
    }

    /// A controller whose round saw a queue of `queued` segments at a window of `cwnd`.
    fn observed(queued: f64, cwnd: f64) -> Vegas {
        let mut round = Round::new(0);
        round.min_rtt = (BASE as f64 * (1.0 + queued / cwnd)).ceil() as Nanos;
        Vegas { base_rtt: BASE, round }
    }

    #[test]
    fn the_window_moves_by_one_segment_outside_alpha_and_beta() {
        for (queued, change) in [(0.0, 1.0), (1.9, 1.0), (2.0, 0.0), (4.9, 0.0), (5.0, -1.0)] {
            let mut window = avoiding(100.0);
            observed(queued, 100.0).adjust(&mut window, 1);
            assert_eq!(window.cwnd, 100.0 + change, "{queued} segments queued");
        }
        let mut window = avoiding(2.0);
        observed(6.0, 2.0).adjust(&mut window, 1);
        assert_eq!(window.cwnd, 2.0, "two segments remain");
    }

    #[test]
    fn the_threshold_follows_the_window_up_to_three_quarters() {
        for (queued, ssthresh) in [(0.0, 76.5), (3.0, 75.75), (6.0, 75.0)] {
            let mut window = Window { cwnd: 101.0, ssthresh: 50.0 };
            observed(queued, 101.0).adjust(&mut window, 1);
            assert_eq!(window.ssthresh, ssthresh);
        }
    }

    #[test]
    fn slow_start_ends_one_round_after_the_first_sign_of_a_queue() {
        let mut path = Path::new(Window::new(), 100.0);
        while path.window.cwnd <= path.pipe {
            assert!(path.window.in_slow_start());
            path.round();
        }
        path.round();
        let overshoot = path.window.cwnd;
        path.round();
        assert!(!path.window.in_slow_start());
        assert!(path.window.cwnd < overshoot, "the window returns to the delivered rate");
    }

    #[test]
    fn a_round_with_few_samples_grows_as_reno() {
        let mut vegas = Vegas::default();
        let mut window = avoiding(20.0);
        for una in 1..3 {
            let report = ack(1).sequence(una, 0);
            vegas.on_delivered(&mut window, &report, alone());
            vegas.on_ack(&mut window, &report, alone());
        }
        let mut reno = avoiding(20.0);
        reno::grow(&mut reno, 1);
        reno::grow(&mut reno, 1);
        assert_eq!(window, reno);
    }

    #[test]
    fn after_a_recovery_nothing_is_decided_before_a_whole_round() {
        let mut path = Path::new(avoiding(50.0), 100.0);
        path.round();
        path.cc.on_recovered(&mut path.window, path.una + 200, 0);
        let window = path.window;
        for _ in 0..3 {
            path.round();
        }
        assert_eq!(path.window, window);
        path.round();
        path.round();
        assert_eq!(path.window.cwnd, window.cwnd + 1.0);
    }

    #[test]
    fn after_an_idle_time_the_base_rtt_is_learned_anew() {
        let mut path = Path::new(avoiding(60.0), 50.0);
        path.cc.on_restart(&mut path.window, 0, 0);
        for _ in 0..5 {
            path.round();
        }
        assert!(path.window.cwnd > 60.0, "the standing queue counts as the path's delay");
    }

    #[test]
    fn a_subflow_in_loss_recovery_grows_as_reno() {
        let mut vegas = Vegas::default();
        let mut window = Window { cwnd: 2.0, ssthresh: 20.0 };
        vegas.on_ack(&mut window, &ack(2).sequence(5, 9).in_loss_recovery(), alone());
        assert_eq!(window.cwnd, 4.0);
    }
}
