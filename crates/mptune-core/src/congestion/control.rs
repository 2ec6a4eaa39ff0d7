//! The trait of congestion controls, the window they govern, and their input.

use crate::units::{Bytes, Nanos};

/// RFC 6928 section 2: initial window, segments.
pub const INITIAL_WINDOW: f64 = 10.0;
/// `ssthresh` before the first congestion event: "arbitrarily high" (RFC 5681 section 3.1).
pub const INFINITE_SSTHRESH: f64 = 2_147_483_647.0;

/// The window of one subflow, segments.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// Congestion window; the sender may have `floor(cwnd)` segments in flight.
    pub cwnd: f64,
    /// Slow-start threshold.
    pub ssthresh: f64,
}

impl Window {
    /// The window of a new subflow.
    pub fn new() -> Self {
        Self { cwnd: INITIAL_WINDOW, ssthresh: INFINITE_SSTHRESH }
    }

    /// RFC 5681 section 3.1: slow start is used when `cwnd < ssthresh`.
    #[inline]
    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Slow start (RFC 5681 section 3.1, with appropriate byte counting as in Linux
    /// `tcp_slow_start`): the window grows by what was acknowledged, up to `ssthresh`.
    /// Returns the acknowledged segments not used up.
    #[inline]
    pub fn slow_start(&mut self, acked: f64) -> f64 {
        let cwnd = (self.cwnd + acked).min(self.ssthresh);
        let rest = acked - (cwnd - self.cwnd);
        self.cwnd = cwnd;
        rest.max(0.0)
    }
}

impl Default for Window {
    fn default() -> Self {
        Self::new()
    }
}

/// Delivery-rate sample (draft-cheng-iccrg-delivery-rate-estimation), for model-based controllers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateSample {
    /// Segments delivered over `interval`.
    pub delivered: u32,
    /// The longer of the send and the ACK interval.
    pub interval: Nanos,
    /// [`Ack::delivered`] as it was when the sampled segment left.
    pub prior_delivered: u64,
    /// The sample was limited by the application or the MPTCP window, not by the network.
    pub app_limited: bool,
}

/// The report of an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ack {
    /// Time of its arrival.
    pub now: Nanos,
    /// Segments newly delivered, cumulatively or selectively; never 0.
    pub acked: u32,
    /// RTT of the most recently sent segment it acknowledges (Linux `ca_rtt_us`); none if only retransmitted
    /// segments were acknowledged (Karn).
    pub rtt: Option<Nanos>,
    /// Smoothed RTT (RFC 6298), 0 before the first sample.
    pub srtt: Nanos,
    /// Smallest RTT seen on this subflow.
    pub min_rtt: Nanos,
    /// First unacknowledged segment after this ACK.
    pub una: u32,
    /// Next segment to be sent for the first time.
    pub next: u32,
    /// Segments in flight before this ACK.
    pub prior_in_flight: u32,
    /// Segments in flight after it.
    pub in_flight: u32,
    /// Segments it showed to be lost.
    pub lost: u32,
    /// Segments delivered on this subflow so far, this ACK's included.
    pub delivered: u64,
    /// The window limited sending (Linux `tcp_is_cwnd_limited`): only then may it grow
    /// (RFC 7661 sections 4.4 and 4.5.3).
    pub cwnd_limited: bool,
    /// The subflow is in neither fast recovery nor loss recovery.
    pub open: bool,
    /// The ACK carried an ECN echo (RFC 3168 ECE); with DCTCP, that the segments it acknowledges were
    /// marked (RFC 8257 section 3.2).
    pub ecn_echo: bool,
    /// Delivery rate, if the controller requests samples.
    pub rate: Option<RateSample>,
}

/// A subflow, as coupled controllers and schedulers see it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Peer {
    /// Established, able to send and with an RTT sample: only such subflows count in a coupling.
    pub usable: bool,
    /// Congestion window, segments; `ssthresh` while in fast recovery.
    pub cwnd: f64,
    /// Smoothed RTT, ns.
    pub srtt: Nanos,
    /// Smallest RTT, ns.
    pub min_rtt: Nanos,
    /// Segments acknowledged since the last congestion event.
    pub acked_since_loss: u64,
    /// Segments acknowledged between the last two congestion events.
    pub acked_between_losses: u64,
    /// Slow-start threshold, segments.
    pub ssthresh: f64,
    /// Segments sent and not cumulatively acknowledged.
    pub outstanding: u32,
    /// Memory of the segments sent or queued, in full segments (Linux `sk_wmem_queued`); known under the kernel's
    /// scheduler alone.
    pub memory: f64,
    /// Variation of the RTT (RFC 6298 `RTTVAR`), ns.
    pub rtt_variation: Nanos,
    /// Congestion window, segments, also while in fast recovery.
    pub window: f64,
    /// Segments from SND.UNA to SND.NXT, without those in the send queue.
    pub sent: u32,
    /// Segments for each smoothed RTT of TCP's own pacing rate, as of the last ACK.
    pub paced: f64,
    /// The pacing rate of the path policy or the controller, segments per ns, 0 if neither has one.
    pub pace: f64,
    /// Its delivery rate (Linux `rate_delivered`, `rate_interval_us`), segments per ns; 0 before a sample, and where none are taken.
    pub delivers: f64,
    /// The path policy holds it: its pacing rate is 0.
    pub held: bool,
    /// It has made no progress since its last RTO.
    pub timed_out: bool,
    /// Place among the subflows of a connection that the peer opened: they are in the order in which they joined, all others
    /// in that of their numbers (Linux `conn_list`).
    pub rank: u32,
}

/// The subflows of a connection as a controller sees them: `all[me]` is its own.
#[derive(Debug, Clone, Copy)]
pub struct Peers<'a> {
    /// Every subflow of the connection, in the order of creation.
    pub all: &'a [Peer],
    /// The index of the subflow the controller belongs to.
    pub me: usize,
}

impl<'a> Peers<'a> {
    /// The usable subflows (Linux `mptcp_sk_can_send`, with an RTT sample), without siblings that a path policy holds.
    pub fn usable(&self) -> impl Iterator<Item = &'a Peer> + use<'a> {
        let me = self.me;
        let counts = move |(id, peer): &(usize, &Peer)| peer.usable && (!peer.held || *id == me);
        self.all.iter().enumerate().filter(counts).map(|(_, peer)| peer)
    }

    /// The controller's own subflow.
    pub fn mine(&self) -> &'a Peer {
        &self.all[self.me]
    }
}

/// A congestion-control algorithm. The most demanding are BBR (rate samples, pacing, cwnd during recovery),
/// LIA/OLIA/BALIA (sibling subflows) and DCTCP (ECN echoes).
pub trait CongestionControl {
    /// The sender takes delivery-rate samples for this controller.
    const RATE_SAMPLES: bool = false;
    /// Windows that a send buffer that grows makes room for (Linux `tcp_sndbuf_expand`, `sndbuf_expand`).
    const BUFFERED_WINDOWS: Bytes = 2;
    /// The controller sets cwnd in every state (Linux `cong_control`): the sender does not touch it in recovery,
    /// after a tail loss probe, or after an idle time.
    const OWNS_WINDOW: bool = false;
    /// The receiver echoes ECN marks segment by segment (DCTCP, RFC 8257 section 3.2) instead of once per
    /// window (RFC 3168).
    const ECN_PER_SEGMENT: bool = false;

    /// The subflow is established and has its first RTT sample, the handshake's.
    fn on_established(&mut self, _window: &mut Window, _srtt: Nanos, _now: Nanos) {}

    /// Segments were newly delivered, in any state: the hook for RTT samples (Linux `pkts_acked`, `cong_control`).
    fn on_delivered(&mut self, _window: &mut Window, _ack: &Ack, _peers: Peers<'_>) {}

    /// cwnd may grow: segments were delivered outside fast recovery. Implementations return early unless
    /// `ack.cwnd_limited` (Linux `cong_avoid`).
    fn on_ack(&mut self, window: &mut Window, ack: &Ack, peers: Peers<'_>);

    /// A loss was detected. Returns the new `ssthresh`, towards which the sender reduces cwnd (Linux `ssthresh`).
    fn on_congestion(&mut self, window: &Window, now: Nanos, peers: Peers<'_>) -> f64;

    /// ECN reported congestion, once per window. Returns the new `ssthresh`, by default that of a loss (RFC 3168
    /// section 6.1.2).
    fn on_ecn(&mut self, window: &Window, now: Nanos, peers: Peers<'_>) -> f64 {
        self.on_congestion(window, now, peers)
    }

    /// The retransmission timer expired; cwnd is already 1 segment and `ssthresh` that of [`Self::on_congestion`].
    fn on_timeout(&mut self, _window: &mut Window, _now: Nanos) {}

    /// A recovery ended and the sender is back in the open state; `next` as in [`Ack::next`].
    fn on_recovered(&mut self, _window: &mut Window, _next: u32, _now: Nanos) {}

    /// Sending restarted after an idle time longer than the RTO.
    fn on_restart(&mut self, _window: &mut Window, _next: u32, _now: Nanos) {}

    /// A segment is about to be sent with nothing in flight (Linux `CA_EVENT_TX_START`); `app_limited` as in rate
    /// samples (`tp->app_limited`).
    fn on_start(&mut self, _window: &mut Window, _app_limited: bool, _now: Nanos) {}

    /// Pacing rate, segments per second, queried after each ACK; none for no pacing.
    fn pacing_rate(&self) -> Option<f64> {
        None
    }
}
