//! BBR version 1: draft-cardwell-iccrg-bbr-congestion-control-00; N. Cardwell et al., "BBR:
//! congestion-based congestion control", ACM Queue 14(5), 2016. Models the path by its largest delivery rate
//! and its smallest RTT, paces at that rate and keeps about their product in flight.
//!
//! Not the delivery-rate samples (`tcp::rate`) and not the pacing itself, which are the sender's; not
//! versions 2 and 3. `aggregation` and `policer` contain what Linux adds to the draft.
//!
//! Follows Linux `net/ipv4/tcp_bbr.c`; differences:
//!
//! - The phase of the gain cycle in which PROBE_BW begins, any but the draining one, is random in Linux. Here
//!   it follows from the time of entry in ns mixed with the number of the subflow: the same in every run, but
//!   different from flow to flow.
//! - Rates, gains and products are fractions; Linux has them in 1/256 (gains 2.887 and 0.344 for
//!   2 / ln 2 and its inverse) and times in us or jiffies.
//! - The bandwidth filter is exact over 10 rounds (`filter`).
//! - The sender sends segments as they fall due, so the flight is in the network
//!   (`bbr_packets_in_net_at_edt` without waiting). The window's allowance for TSO bursts is kept,
//!   computed for segments of 1448 bytes, although there are none.
//! - Linux marks the subflow as limited by the application during PROBE_RTT; here BBR remembers which segments
//!   left in that time and treats their samples that way.
//! - An RTT sample from a delayed ACK replaces an expired minimum like any other.
//! - Undoing a recovery restores the window as its end does, but does not forget that the pipe was full
//!   (`bbr_undo_cwnd`).

mod aggregation;
mod filter;
mod model;
mod modes;
mod policer;
mod state;
#[cfg(test)]
mod tests;
mod window;

use super::{Ack, CongestionControl, Peers, Window};
use crate::units::{Bytes, Nanos, Seq};
use model::Model;
use state::{Mode, State};

/// BBR; boxed, because it has much more state than other controllers.
#[derive(Debug, Clone, Default)]
pub struct Bbr(Box<Model>);

impl CongestionControl for Bbr {
    const RATE_SAMPLES: bool = true;
    const OWNS_WINDOW: bool = true;
    /// A recovery may need a third (`bbr_sndbuf_expand`).
    const BUFFERED_WINDOWS: Bytes = 3;

    fn on_established(&mut self, window: &mut Window, srtt: Nanos, now: Nanos) {
        let model = &mut *self.0;
        model.min_rtt = (srtt > 0).then_some(srtt);
        model.min_rtt_at = now;
        model.aggregation.restart(now);
        model.pace_by_rtt(window.cwnd, srtt);
    }

    fn on_delivered(&mut self, window: &mut Window, ack: &Ack, peers: Peers<'_>) {
        self.0.me = peers.me;
        self.0.on_delivered(window, ack);
    }

    /// Everything happens in [`Self::on_delivered`].
    fn on_ack(&mut self, _window: &mut Window, _ack: &Ack, _peers: Peers<'_>) {}

    /// There is no `ssthresh`; the window is saved for the end of the recovery.
    fn on_congestion(&mut self, window: &Window, _now: Nanos, _peers: Peers<'_>) -> f64 {
        self.0.save_cwnd(window);
        self.0.state = State::Recovery;
        window.cwnd
    }

    /// The model does not use ECN.
    fn on_ecn(&mut self, window: &Window, _now: Nanos, _peers: Peers<'_>) -> f64 {
        window.cwnd
    }

    /// A timeout ends a round.
    fn on_timeout(&mut self, _window: &mut Window, now: Nanos) {
        let model = &mut *self.0;
        model.state = State::Loss;
        model.prior_state = State::Loss;
        model.full_bandwidth = 0.0;
        model.round_start = true;
        model.totals.at = now;
        model.update_policer(true, false);
    }

    fn on_recovered(&mut self, _window: &mut Window, _next: Seq, _now: Nanos) {
        self.0.state = State::Open;
    }

    /// Draft section 4.3.4.4: after an idle time the pace is that of the estimate.
    fn on_start(&mut self, window: &mut Window, app_limited: bool, now: Nanos) {
        if !app_limited {
            return;
        }
        let model = &mut *self.0;
        model.restarting = true;
        model.aggregation.restart(now);
        match model.mode {
            Mode::ProbeBw => model.pace(1.0),
            Mode::ProbeRtt => model.end_probe_rtt(window, now),
            Mode::Startup | Mode::Drain => {}
        }
    }

    fn pacing_rate(&self) -> Option<f64> {
        Some(self.0.pacing_rate)
    }
}
