//! CUBIC: RFC 9438, with HyStart (`hystart`) as in Linux.
//!
//! Not undoing spurious events (section 4.9), and not the shape of a recovery (PRR, in the sender). `Figure n`
//! follows the RFC's numbering.
//!
//! Compared with Linux `net/ipv4/tcp_cubic.c`:
//!
//! - Linux counts in fixed point: C = 41 * 10 / 1024 = 0.4004 (`bic_scale`), beta = 717 / 1024,
//!   alpha = 8 / 15 (`beta_scale`), time in 1/1024 s (`BICTCP_HZ`), K from a table good to 0.2 %
//!   (`cubic_root`), one evaluation per jiffy. Here all of them are exact; K is computed once per
//!   stage.
//! - The target lies one *minimum* RTT ahead, as in Linux (`delay_min`); section 4.2 has the smoothed
//!   RTT. Both count acknowledged segments (`tcp_cong_avoid_ai`), not ACKs.
//! - While no maximum is known (before the first loss and after a timeout, `bictcp_reset`) the
//!   window grows by at least 5 % per RTT, as in Linux (`bictcp_update`, `cnt` at most 20);
//!   section 4.8 only sets K to 0 and W_max to the first window.
//! - In the Reno-friendly region the window is set to W_est at once (section 4.3); Linux lets it
//!   approach W_est within an RTT. alpha becomes 1 once W_est reaches cwnd_prior (section 4.3);
//!   Linux has no such step.
//! - Above its target the window stands still (section 4.2); Linux lets it grow by 1 % of a segment
//!   per RTT (`100 * cwnd`).
//! - t leaves out the time in which something other than the window limited sending (a MUST of
//!   section 4.2); Linux leaves out only idle times (`CA_EVENT_TX_START`).
//! - `ssthresh` follows from the window, not from the flight size (section 4.6 allows it if the window does not
//!   grow unless it limits sending; Linux `cubictcp_recalc_ssthresh`).

use super::hystart::HyStart;
use super::{Ack, CongestionControl, Peers, Window};
use crate::units::{Nanos, seconds};

/// Section 5.1: window growth, segments per second cubed.
const C: f64 = 0.4;
/// Section 4.6: share of the window that remains after a congestion event.
const BETA: f64 = 0.7;
/// Section 4.3: segments per RTT that with [`BETA`] give Reno's mean window.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// Section 4.6: at least two segments.
const MIN_SSTHRESH: f64 = 2.0;
/// Section 4.2: the target is at most this many windows, which is slower than slow start.
const MAX_TARGET: f64 = 1.5;
/// Linux: the target is at least this many windows while no maximum is known.
const MIN_TARGET_UNKNOWN: f64 = 1.05;

/// Figure 1: the window `t` seconds after the stage began.
#[inline]
fn figure_1_w_cubic(t: f64, k: f64, w_max: f64) -> f64 {
    let d = t - k;
    C * d * d * d + w_max
}

/// Figure 2: seconds until the window is back at `w_max`.
fn figure_2_k(w_max: f64, cwnd_epoch: f64) -> f64 {
    libm::cbrt((w_max - cwnd_epoch) / C)
}

/// Figure 4: the window Reno would have; `rounds` is the acknowledged share of the window.
#[inline]
fn figure_4_w_est(w_est: f64, rounds: f64, cwnd_prior: f64) -> f64 {
    let alpha = if w_est >= cwnd_prior { 1.0 } else { ALPHA };
    w_est + alpha * rounds
}

/// Figure 5: the slow-start threshold after a congestion event.
fn figure_5_ssthresh(cwnd: f64) -> f64 {
    (cwnd * BETA).max(MIN_SSTHRESH)
}

/// Section 4.7, fast convergence: a window that did not get back to its maximum makes room.
fn w_max_after(cwnd: f64, w_max: Option<f64>) -> f64 {
    match w_max {
        Some(w_max) if cwnd < w_max => cwnd * (1.0 + BETA) / 2.0,
        _ => cwnd,
    }
}

/// One congestion-avoidance stage.
#[derive(Debug, Clone)]
struct Stage {
    /// Its start, shifted by the time that does not count.
    start: Nanos,
    /// The plateau of Figure 1: W_max, or the first window if that is larger (Linux
    /// `bic_origin_point`).
    plateau: f64,
    /// Seconds to the plateau.
    k: f64,
    /// The window Reno would have.
    w_est: f64,
}

impl Stage {
    fn new(start: Nanos, cwnd: f64, w_max: Option<f64>) -> Self {
        let plateau = w_max.unwrap_or(0.0).max(cwnd);
        Self { start, plateau, k: figure_2_k(plateau, cwnd), w_est: cwnd }
    }

    #[inline]
    fn w_cubic(&self, t: f64) -> f64 {
        figure_1_w_cubic(t, self.k, self.plateau)
    }
}

/// CUBIC with fast convergence.
#[derive(Debug, Clone, Default)]
pub struct Cubic {
    /// The window before the last reduction, after fast convergence; none when not known.
    w_max: Option<f64>,
    /// The window before the last reduction.
    cwnd_prior: f64,
    /// None between a congestion event and the first growth after it.
    stage: Option<Stage>,
    /// Last time at which the window limited sending.
    last_limited: Nanos,
    /// It has not since.
    paused: bool,
    hystart: HyStart,
}

impl Cubic {
    /// Excludes from `t` the time since the window last limited sending.
    #[inline]
    fn resume(&mut self, now: Nanos) {
        if self.paused {
            self.paused = false;
            if let Some(stage) = &mut self.stage {
                stage.start += now - self.last_limited;
            }
        }
        self.last_limited = now;
    }

    /// Sections 4.2 to 4.5.
    #[inline]
    fn avoid_congestion(&mut self, window: &mut Window, acked: f64, ack: &Ack) {
        let (cwnd, w_max) = (window.cwnd, self.w_max);
        let stage = self.stage.get_or_insert_with(|| Stage::new(ack.now, cwnd, w_max));
        let t = seconds(ack.now - stage.start);
        let rounds = acked / cwnd;
        stage.w_est = figure_4_w_est(stage.w_est, rounds, self.cwnd_prior);

        let reno_friendly = stage.w_cubic(t) < stage.w_est;
        let mut target = cwnd;
        if !reno_friendly {
            let ahead = stage.w_cubic(t + seconds(ack.min_rtt));
            target = ahead.clamp(cwnd, MAX_TARGET * cwnd);
        }
        if w_max.is_none() {
            target = target.max(MIN_TARGET_UNKNOWN * cwnd);
        }
        window.cwnd = cwnd + rounds * (target - cwnd);
        if reno_friendly {
            window.cwnd = window.cwnd.max(stage.w_est);
        }
    }
}

impl CongestionControl for Cubic {
    #[inline]
    fn on_delivered(&mut self, window: &mut Window, ack: &Ack, _peers: Peers<'_>) {
        self.hystart.on_delivered(window, ack);
    }

    fn on_ack(&mut self, window: &mut Window, ack: &Ack, _peers: Peers<'_>) {
        if !ack.cwnd_limited {
            self.paused = true;
            return;
        }
        self.resume(ack.now);
        let mut acked = f64::from(ack.acked);
        if window.in_slow_start() {
            acked = window.slow_start(acked);
        }
        if acked > 0.0 {
            self.avoid_congestion(window, acked, ack);
        }
    }

    fn on_congestion(&mut self, window: &Window, _now: Nanos, _peers: Peers<'_>) -> f64 {
        self.w_max = Some(w_max_after(window.cwnd, self.w_max));
        self.cwnd_prior = window.cwnd;
        self.stage = None;
        figure_5_ssthresh(window.cwnd)
    }

    /// Section 4.8: the next stage starts at its own plateau.
    fn on_timeout(&mut self, _window: &mut Window, _now: Nanos) {
        self.w_max = None;
        self.stage = None;
        self.hystart.on_timeout();
    }

    fn on_restart(&mut self, _window: &mut Window, _next: u32, _now: Nanos) {
        self.paused = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::reno::Reno;
    use crate::congestion::testing::{Flow, ack, alone, assert_close, avoiding};
    use crate::units::{MILLISECOND, SECOND};

    const RTT: Nanos = 100 * MILLISECOND;

    fn nanos(seconds: f64) -> Nanos {
        (seconds * 1e9) as Nanos
    }

    /// A flow that has just lost a segment at a window of `w_max`.
    fn after_loss(w_max: f64) -> Flow<Cubic> {
        let mut flow = Flow::new(Cubic::default(), avoiding(w_max), RTT);
        flow.lose();
        flow
    }

    #[test]
    fn the_window_follows_the_cubic_function() {
        for w_max in [500.0, 2_000.0, 20_000.0] {
            let k: f64 = (w_max * 0.3 / 0.4_f64).cbrt();
            let mut flow = after_loss(w_max);
            for share in [0.1, 0.5, 0.9, 1.0, 1.2, 1.5] {
                let t = share * k;
                flow.run(nanos(t) - flow.now);
                assert_close(flow.window.cwnd, 0.4 * (t - k).powi(3) + w_max, 0.005);
            }
        }
    }

    #[test]
    fn the_equations_agree_with_each_other() {
        for (w_max, cwnd) in [(100.0, 70.0), (1_000.0, 700.0), (50.0, 50.0)] {
            let k = figure_2_k(w_max, cwnd);
            assert_close(figure_1_w_cubic(0.0, k, w_max), cwnd, 1e-12);
            assert_eq!(figure_1_w_cubic(k, k, w_max), w_max);
        }
    }

    #[test]
    fn a_window_far_below_its_target_grows_by_half_per_rtt() {
        let mut flow = after_loss(10_000.0);
        flow.window = avoiding(10.0);
        flow.ack();
        for _ in 0..10 {
            let before = flow.window.cwnd;
            flow.ack();
            assert_close(flow.window.cwnd - before, 0.5, 1e-9);
        }
    }

    /// Figure 3 with alpha and beta of CUBIC is Reno's mean window.
    #[test]
    fn the_reno_friendly_region_has_renos_mean_window() {
        for segments in [100, 200, 400] {
            let rtt = 10 * MILLISECOND;
            let mean = Flow::new(Cubic::default(), avoiding(10.0), rtt).mean_window(segments, 20);
            let reno = Flow::new(Reno, avoiding(10.0), rtt).mean_window(segments, 20);
            assert_close(mean, reno, 0.02);
            assert_close(mean, (1.5 * f64::from(segments)).sqrt(), 0.02);
        }
    }

    /// Section 5: the mean window under deterministic losses, with beta of 0.7. The RFC's formula ignores fast
    /// convergence, which lowers every other plateau.
    #[test]
    fn the_concave_region_has_the_mean_window_of_the_rfc() {
        for (segments, rtt) in [(10_000, RTT), (20_000, 2 * RTT), (100_000, RTT)] {
            let mean = Flow::new(Cubic::default(), avoiding(100.0), rtt).mean_window(segments, 6);
            let rtt = seconds(rtt);
            let expected =
                (0.4 * 3.7 / 1.2_f64).powf(0.25) * (rtt * f64::from(segments)).powf(0.75);
            assert_close(mean, expected, 0.06);
        }
    }

    #[test]
    fn alpha_is_one_once_the_estimate_reaches_the_window_of_the_last_loss() {
        assert_close(figure_4_w_est(99.0, 1.0, 100.0) - 99.0, 9.0 / 17.0, 1e-9);
        assert_eq!(figure_4_w_est(100.0, 1.0, 100.0) - 100.0, 1.0);
    }

    #[test]
    fn a_loss_below_the_last_maximum_lowers_the_plateau() {
        let mut flow = after_loss(1_000.0);
        flow.window = avoiding(800.0);
        flow.lose();
        assert_close(flow.window.cwnd, 560.0, 1e-9);
        let plateau = 800.0 * 0.85;
        flow.run(nanos(((plateau - 560.0) / 0.4_f64).cbrt()));
        assert_close(flow.window.cwnd, plateau, 0.002);
    }

    #[test]
    fn time_in_which_the_window_did_not_limit_sending_does_not_count() {
        let mut busy = after_loss(1_000.0);
        busy.run(3 * SECOND);
        let mut idle = after_loss(1_000.0);
        idle.run(2 * SECOND);
        let window = idle.window;
        for _ in 0..30 {
            idle.now += SECOND;
            let report = ack(1).at(idle.now).rtt(RTT).not_limited();
            idle.cc.on_ack(&mut idle.window, &report, alone());
        }
        assert_eq!(idle.window, window);
        idle.run(SECOND);
        assert_close(idle.window.cwnd, busy.window.cwnd, 0.001);
    }

    #[test]
    fn an_idle_time_does_not_count() {
        let mut busy = after_loss(1_000.0);
        busy.run(3 * SECOND);
        let mut idle = after_loss(1_000.0);
        idle.run(2 * SECOND);
        idle.now += 60 * SECOND;
        idle.cc.on_restart(&mut idle.window, 0, idle.now);
        idle.run(SECOND);
        assert_close(idle.window.cwnd, busy.window.cwnd, 0.001);
    }

    #[test]
    fn after_a_timeout_the_old_maximum_is_forgotten() {
        let mut flow = after_loss(1_000.0);
        flow.cc.on_timeout(&mut flow.window, flow.now);
        flow.window = avoiding(100.0);
        flow.run(RTT);
        assert_close(flow.window.cwnd, 105.0, 0.005);
        flow.run(20 * SECOND);
        assert!(flow.window.cwnd > 1_000.0, "no plateau at the old maximum");
    }

    #[test]
    fn slow_start_ends_before_a_loss_when_acks_take_longer() {
        let mut flow = Flow::new(Cubic::default(), Window { cwnd: 100.0, ..Window::new() }, RTT);
        // Too far apart for a train.
        let report = |number: Nanos| {
            let late = ack(1).at(number * 3 * MILLISECOND).rtt(RTT + RTT / 4);
            Ack { min_rtt: RTT, ..late.sequence(1, 100) }
        };
        for number in 0..9 {
            assert!(flow.window.in_slow_start());
            flow.cc.on_delivered(&mut flow.window, &report(number), alone());
            flow.cc.on_ack(&mut flow.window, &report(number), alone());
        }
        assert_eq!(flow.window.ssthresh, 108.0);
        assert!(!flow.window.in_slow_start());
    }

    #[test]
    fn the_threshold_is_seven_tenths_of_the_window_and_at_least_two_segments() {
        for (cwnd, ssthresh) in [(100.0, 70.0), (2.0, 2.0), (1.0, 2.0)] {
            let value = Cubic::default().on_congestion(&avoiding(cwnd), 0, alone());
            assert_close(value, ssthresh, 1e-12);
        }
    }
}
