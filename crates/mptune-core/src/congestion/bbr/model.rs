//! BBR's model of the path: bandwidth, smallest RTT, and the pacing rate that follows.

use super::aggregation::Aggregation;
use super::filter::WindowedMax;
use super::policer::{Observation, Policer, Totals};
use super::state::{Mode, SEGMENT_BYTES, State};
use crate::congestion::{Ack, INITIAL_WINDOW, Window};
use crate::units::{MILLISECOND, Nanos, seconds};

/// Doubles the rate each round: 2 / ln 2.
pub const HIGH_GAIN: f64 = 2.0 / std::f64::consts::LN_2;
/// PROBE_BW: pacing gains of the phases, each about as long as the smallest RTT.
pub const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// PROBE_BW: bandwidth-delay products in flight, to tolerate delayed ACKs.
const CWND_GAIN: f64 = 2.0;
/// Pace a little below the estimate, for short queues (`bbr_pacing_margin_percent`).
const PACING_MARGIN: f64 = 0.99;
/// The RTT assumed for pacing before the first sample.
const NOMINAL_RTT: Nanos = MILLISECOND;
/// A TSO burst is what is paced in 2^-10 s (`sk_pacing_shift`), up to 64 KiB less the headers, and at least two
/// segments from 1.2 Mbit/s on (`bbr_min_tso_rate`).
const BURSTS_PER_SECOND: f64 = 1024.0;
const MAX_BURST: f64 = 45.0;
const TWO_SEGMENTS_RATE: f64 = 1.2e6 / 8.0 / SEGMENT_BYTES;

/// All state of BBR.
#[derive(Debug, Clone)]
pub struct Model {
    pub mode: Mode,
    pub bandwidth: WindowedMax,
    /// Rounds begun, and the count of deliveries that ends this one.
    pub rounds: u32,
    pub round_end: u64,
    pub round_start: bool,
    /// Smallest RTT, none before the first sample, and when it was seen.
    pub min_rtt: Option<Nanos>,
    pub min_rtt_at: Nanos,
    /// PROBE_RTT may end then, once a round has passed.
    pub probe_rtt_end: Option<Nanos>,
    pub probe_rtt_round: bool,
    /// Delivery counts between which segments left in PROBE_RTT: their samples do not reflect the bandwidth.
    pub probe_rtt_sends: (u64, u64),
    pub phase: usize,
    pub phase_start: Nanos,
    /// Bandwidth at the last growth by a quarter, and the rounds since then.
    pub full_bandwidth: f64,
    pub full_rounds: u32,
    pub pipe_filled: bool,
    /// Sending restarted, and nothing sent since has been delivered.
    pub restarting: bool,
    pub state: State,
    /// The state at the last ACK.
    pub prior_state: State,
    pub prior_cwnd: f64,
    /// First round of a recovery: as many segments leave as arrive.
    pub conserving: bool,
    /// Segments/s.
    pub pacing_rate: f64,
    pub seen_rtt: bool,
    /// Number of the subflow.
    pub me: usize,
    pub totals: Totals,
    pub aggregation: Aggregation,
    pub policer: Policer,
}

impl Default for Model {
    fn default() -> Self {
        Self {
            mode: Mode::Startup,
            bandwidth: WindowedMax::default(),
            rounds: 0,
            round_end: 0,
            round_start: false,
            min_rtt: None,
            min_rtt_at: 0,
            probe_rtt_end: None,
            probe_rtt_round: false,
            // Empty.
            probe_rtt_sends: (1, 0),
            phase: 0,
            phase_start: 0,
            full_bandwidth: 0.0,
            full_rounds: 0,
            pipe_filled: false,
            restarting: false,
            state: State::Open,
            prior_state: State::Open,
            prior_cwnd: 0.0,
            conserving: false,
            pacing_rate: 0.0,
            seen_rtt: false,
            me: 0,
            totals: Totals::default(),
            aggregation: Aggregation::default(),
            policer: Policer::default(),
        }
    }
}

impl Model {
    /// Segments were delivered.
    pub fn on_delivered(&mut self, window: &mut Window, ack: &Ack) {
        self.totals.at = ack.now;
        self.totals.delivered = ack.delivered;
        self.totals.lost += u64::from(ack.lost);
        let limited = self.is_limited(ack);
        self.update_bandwidth(ack, limited);
        if ack.rate.is_some() {
            let bandwidth = self.bandwidth();
            let round = self.round_start;
            self.aggregation.on_delivered(ack.now, ack.acked, bandwidth, window.cwnd, round);
        }
        self.update_mode(window, ack, limited);
        if !self.seen_rtt && ack.srtt > 0 {
            self.pace_by_rtt(window.cwnd, ack.srtt);
        }
        self.pace(self.pacing_gain());
        self.set_window(window, ack);
    }

    /// The sample reflects the application or PROBE_RTT rather than the path.
    fn is_limited(&self, ack: &Ack) -> bool {
        let (first, last) = self.probe_rtt_sends;
        ack.rate.is_some_and(|sample| {
            sample.app_limited || (first..=last).contains(&sample.prior_delivered)
        })
    }

    /// Draft sections 4.1.1.3 to 4.1.1.5: rounds are counted by deliveries.
    fn update_bandwidth(&mut self, ack: &Ack, limited: bool) {
        self.round_start = false;
        let Some(sample) = ack.rate.filter(|sample| sample.interval > 0) else { return };
        if sample.prior_delivered >= self.round_end {
            self.round_end = ack.delivered;
            self.rounds += 1;
            self.round_start = true;
            self.conserving = false;
        }
        self.update_policer(ack.lost > 0, limited);
        let rate = f64::from(sample.delivered) / seconds(sample.interval);
        if !limited || rate >= self.bandwidth.get() {
            self.bandwidth.insert(self.rounds, rate);
        }
    }

    pub fn update_policer(&mut self, losses: bool, app_limited: bool) {
        let observation = Observation {
            totals: self.totals,
            losses,
            app_limited,
            round: self.round_start,
            probing: self.mode == Mode::ProbeBw,
        };
        if self.policer.observe(&observation) {
            self.enter_probe_bw(self.totals.at);
        }
    }

    /// Estimated bandwidth of the path, segments/s.
    pub fn bandwidth(&self) -> f64 {
        self.policer.rate().unwrap_or_else(|| self.bandwidth.get())
    }

    pub fn pacing_gain(&self) -> f64 {
        match self.mode {
            Mode::Startup => HIGH_GAIN,
            Mode::Drain => 1.0 / HIGH_GAIN,
            Mode::ProbeBw if self.policer.rate().is_none() => CYCLE[self.phase],
            Mode::ProbeBw | Mode::ProbeRtt => 1.0,
        }
    }

    pub fn cwnd_gain(&self) -> f64 {
        match self.mode {
            Mode::Startup | Mode::Drain => HIGH_GAIN,
            Mode::ProbeBw => CWND_GAIN,
            Mode::ProbeRtt => 1.0,
        }
    }

    /// Segments of the bandwidth-delay product times `gain`.
    pub fn product(&self, bandwidth: f64, gain: f64) -> f64 {
        match self.min_rtt {
            Some(min_rtt) => (bandwidth * seconds(min_rtt) * gain).ceil(),
            None => INITIAL_WINDOW,
        }
    }

    /// Segments of a TSO burst (`bbr_tso_segs_goal`).
    pub fn burst(&self) -> f64 {
        let least = if self.pacing_rate < TWO_SEGMENTS_RATE { 1.0 } else { 2.0 };
        (self.pacing_rate / BURSTS_PER_SECOND).min(MAX_BURST).floor().max(least)
    }

    /// Room for the bursts in both hosts and for delayed ACKs (`bbr_quantization_budget`).
    pub fn with_bursts(&self, segments: f64) -> f64 {
        let even = 2.0 * ((segments + 3.0 * self.burst()) / 2.0).ceil();
        let probing = self.mode == Mode::ProbeBw && self.phase == 0;
        if probing { even + 2.0 } else { even }
    }

    /// Segments to have in flight.
    pub fn in_flight_target(&self, gain: f64) -> f64 {
        self.with_bursts(self.product(self.bandwidth.get(), gain))
    }

    /// Paces as slow start would send.
    pub fn pace_by_rtt(&mut self, cwnd: f64, srtt: Nanos) {
        self.seen_rtt = srtt > 0;
        let rtt = if self.seen_rtt { srtt } else { NOMINAL_RTT };
        self.pacing_rate = PACING_MARGIN * HIGH_GAIN * cwnd / seconds(rtt);
    }

    /// Until the pipe has been full once, the pace only rises.
    pub fn pace(&mut self, gain: f64) {
        let rate = PACING_MARGIN * gain * self.bandwidth();
        if self.pipe_filled || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }
}
