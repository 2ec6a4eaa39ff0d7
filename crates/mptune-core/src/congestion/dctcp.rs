//! DCTCP: RFC 8257. Reduces the window by the share of marked segments, where other controls halve it
//! at the first mark.
//!
//! Not the receiver's part, an echo of each mark (section 3.2), which [`CongestionControl::ECN_PER_SEGMENT`]
//! requests, and not the marking threshold, which belongs to the network.
//!
//! Compared with Linux `net/ipv4/tcp_dctcp.c`:
//!
//! - alpha and the share of marked segments are fractions; Linux has alpha in 1/1024, so there it can reach 0.
//! - A window of observation ends when a segment sent after it began is acknowledged (section 3.3);
//!   in Linux as soon as everything sent before it is. The segments of the ACK that ends it belong to it
//!   (section 3.3); in Linux to the next.
//! - As in Linux, alpha begins at 1 (`dctcp_alpha_on_init`), segments rather than bytes are counted, those
//!   acknowledged selectively when that happens (section 3.3 counts what is acknowledged cumulatively), every
//!   loss halves the window (section 3.5) and growth is Reno's (section 3.4).
//! - Linux falls back to Reno if the path has no ECN; here there are no marks then, and growth and reaction to
//!   loss are Reno's anyway.

use super::{Ack, CongestionControl, Peers, Window, reno};
use crate::units::{Nanos, Seq};

/// Weight of the newest window in alpha: section 4.2 mentions it as used in practice (`dctcp_shift_g` 4).
const G: f64 = 1.0 / 16.0;

/// DCTCP.
#[derive(Debug, Clone)]
pub struct Dctcp {
    /// Estimated share of marked segments.
    alpha: f64,
    /// Segments acknowledged in this window of observation, and how many of them were marked.
    acked: u32,
    marked: u32,
    /// The window of observation ends when a segment after this one is acknowledged.
    window_end: Seq,
}

impl Default for Dctcp {
    fn default() -> Self {
        Self { alpha: 1.0, acked: 0, marked: 0, window_end: 0 }
    }
}

impl CongestionControl for Dctcp {
    const ECN_PER_SEGMENT: bool = true;

    /// Section 3.3: the share of marked segments, once per window.
    fn on_delivered(&mut self, _window: &mut Window, ack: &Ack, _peers: Peers<'_>) {
        self.acked += ack.acked;
        if ack.ecn_echo {
            self.marked += ack.acked;
        }
        if ack.una <= self.window_end {
            return;
        }
        let share = f64::from(self.marked) / f64::from(self.acked);
        self.alpha = (1.0 - G) * self.alpha + G * share;
        (self.acked, self.marked) = (0, 0);
        self.window_end = ack.next;
    }

    fn on_ack(&mut self, window: &mut Window, ack: &Ack, _peers: Peers<'_>) {
        if ack.cwnd_limited {
            reno::grow(window, ack.acked);
        }
    }

    /// Section 3.5.
    fn on_congestion(&mut self, window: &Window, _now: Nanos, _peers: Peers<'_>) -> f64 {
        reno::halved(window)
    }

    /// Section 3.3: the reduction.
    fn on_ecn(&mut self, window: &Window, _now: Nanos, _peers: Peers<'_>) -> f64 {
        (window.cwnd * (1.0 - self.alpha / 2.0)).max(reno::MIN_SSTHRESH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::testing::{ack, alone, assert_close, avoiding};

    /// Windows of ten segments of which this many are marked.
    fn observe(dctcp: &mut Dctcp, marked: &[u32]) {
        for &marked in marked {
            let end = dctcp.window_end;
            for segment in 0..10 {
                let una = if segment == 9 { end + 1 } else { end.saturating_sub(9 - segment) };
                let mut report = ack(1).sequence(una, end + 10);
                report.ecn_echo = segment < marked;
                dctcp.on_delivered(&mut avoiding(10.0), &report, alone());
            }
        }
    }

    #[test]
    fn alpha_is_the_moving_average_of_the_marked_share() {
        // Section 3.3: alpha = alpha (1 - g) + g M.
        let mut dctcp = Dctcp::default();
        observe(&mut dctcp, &[0, 5, 10]);
        let after_none = 15.0 / 16.0;
        let after_half = after_none * 15.0 / 16.0 + 0.5 / 16.0;
        assert_close(dctcp.alpha, after_half * 15.0 / 16.0 + 1.0 / 16.0, 1e-12);
    }

    #[test]
    fn a_steady_share_of_marks_becomes_alpha() {
        for marked in [0, 1, 3, 10] {
            let mut dctcp = Dctcp::default();
            observe(&mut dctcp, &[marked; 400]);
            assert!((dctcp.alpha - f64::from(marked) / 10.0).abs() < 1e-6);
        }
    }

    #[test]
    fn marks_take_alpha_half_of_the_window_and_losses_half() {
        for (alpha, ssthresh) in [(1.0, 50.0), (0.5, 75.0), (0.1, 95.0), (0.0, 100.0)] {
            let mut dctcp = Dctcp { alpha, ..Dctcp::default() };
            assert_close(dctcp.on_ecn(&avoiding(100.0), 0, alone()), ssthresh, 1e-12);
            assert_eq!(dctcp.on_congestion(&avoiding(100.0), 0, alone()), 50.0);
        }
        assert_eq!(Dctcp::default().on_ecn(&avoiding(2.0), 0, alone()), 2.0);
    }

    #[test]
    fn an_ack_that_acknowledges_several_segments_counts_them_all() {
        let mut dctcp = Dctcp::default();
        let mut report = ack(3).sequence(0, 10);
        report.ecn_echo = true;
        dctcp.on_delivered(&mut avoiding(10.0), &report, alone());
        report = ack(1).sequence(1, 10);
        dctcp.on_delivered(&mut avoiding(10.0), &report, alone());
        assert_close(dctcp.alpha, 15.0 / 16.0 + 0.75 / 16.0, 1e-12);
    }

    /// DCTCP 2010, section 3.3 (M. Alizadeh et al., "Data Center TCP (DCTCP)", SIGCOMM): N flows with
    /// a window of W* = (C RTT + K) / N at the threshold oscillate by D = W* alpha / 2 with
    /// alpha^2 (1 - alpha / 4) = (2 W* + 1) / (W* + 1)^2, roughly sqrt(2 / W*); here one flow.
    #[test]
    fn the_window_oscillates_as_in_the_fluid_model() {
        for at_threshold in [100.0, 400.0] {
            let mut dctcp = Dctcp::default();
            let mut window = avoiding(at_threshold / 2.0);
            let (mut una, mut lowest, mut highest) = (0, f64::MAX, 0.0_f64);
            for round in 0..4_000 {
                let (end, mut marks) = (una + window.cwnd as Seq, false);
                while una < end {
                    una += 1;
                    let mut report = ack(1).sequence(una, una + window.cwnd as Seq);
                    // A segment finds the queue as long as the window was an RTT ago.
                    report.ecn_echo = marks || window.cwnd > at_threshold;
                    dctcp.on_delivered(&mut window, &report, alone());
                    dctcp.on_ack(&mut window, &report, alone());
                    marks |= report.ecn_echo;
                }
                if round >= 2_000 {
                    (lowest, highest) = (lowest.min(window.cwnd), highest.max(window.cwnd));
                }
                if marks {
                    let ssthresh = dctcp.on_ecn(&window, 0, alone());
                    window = Window { cwnd: ssthresh, ssthresh };
                }
            }
            let alpha = (2.0 / at_threshold).sqrt();
            assert!((highest - at_threshold) < 3.0, "{highest} passes {at_threshold}");
            assert_close(highest - lowest, at_threshold * alpha / 2.0, 0.35);
        }
    }
}
