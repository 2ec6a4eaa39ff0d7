//! The congestion-control seam: one trait, one list, one file per algorithm.
//!
//! A controller owns the growth and the reduction of one subflow's congestion window. It does not
//! detect losses, does not shape a recovery (PRR does, `tcp::sender`) and never sees a packet: it is
//! told facts in the past tense. To add one, write `<name>.rs` beside this file and one line in the
//! `controllers!` list; its name reaches the command line, the docs and the reports from there.
//!
//! Windows are in segments and may be fractional, so that a formula stands as its specification
//! prints it; the sender uses `floor(cwnd)`.

use crate::units::Nanos;

pub mod balia;
pub mod bbr;
#[cfg(test)]
mod bottleneck;
mod coupling;
pub mod cubic;
pub mod dctcp;
pub mod hybla;
mod hystart;
pub mod lia;
pub mod olia;
pub mod reno;
pub mod scalable;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
pub mod vegas;
pub mod wvegas;

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

/// What one acknowledgement told the sender.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ack {
    /// When it arrived.
    pub now: Nanos,
    /// Segments newly delivered, cumulatively or selectively; never 0.
    pub acked: u32,
    /// RTT of the most recently sent segment it acknowledges (Linux `ca_rtt_us`); none when only
    /// retransmitted segments were acknowledged (Karn).
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
    /// Delivery rate, when the controller asked for samples.
    pub rate: Option<RateSample>,
}

/// What a coupled controller and a scheduler may see of a subflow of the connection.
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
    /// Variation of the RTT (RFC 6298 `RTTVAR`), ns.
    pub rtt_variation: Nanos,
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
    /// The usable subflows (Linux `mptcp_sk_can_send`, with an RTT sample).
    pub fn usable(&self) -> impl Iterator<Item = &'a Peer> + use<'a> {
        self.all.iter().filter(|peer| peer.usable)
    }

    /// The controller's own subflow.
    pub fn mine(&self) -> &'a Peer {
        &self.all[self.me]
    }
}

/// A congestion-control algorithm. Cut for its hardest customers: BBR (rate samples, pacing, its own
/// window during recovery), LIA/OLIA/BALIA (sight of the siblings), DCTCP (ECN echoes).
pub trait CongestionControl {
    /// The sender takes delivery-rate samples for this controller.
    const RATE_SAMPLES: bool = false;
    /// The controller sets the window in every state (Linux `cong_control`); the sender then leaves
    /// it alone in recovery, after a tail loss probe and after an idle time.
    const OWNS_WINDOW: bool = false;
    /// The receiver echoes ECN marks segment by segment (DCTCP, RFC 8257 section 3.2) instead of once
    /// a window (RFC 3168).
    const ECN_PER_SEGMENT: bool = false;

    /// The subflow is established and has its first RTT sample, the handshake's.
    fn on_established(&mut self, _window: &mut Window, _srtt: Nanos, _now: Nanos) {}

    /// Something was newly delivered, in whatever state the sender is: the place to take RTT
    /// samples. (Linux `pkts_acked` and `cong_control`.)
    fn on_delivered(&mut self, _window: &mut Window, _ack: &Ack, _peers: Peers<'_>) {}

    /// The window may grow: the sender is not in fast recovery and something was delivered.
    /// Implementations return early unless `ack.cwnd_limited`. (Linux `cong_avoid`.)
    fn on_ack(&mut self, window: &mut Window, ack: &Ack, peers: Peers<'_>);

    /// A congestion event began: a loss was detected. Returns the new `ssthresh`; the sender reduces
    /// the window towards it. (Linux `ssthresh`.)
    fn on_congestion(&mut self, window: &Window, now: Nanos, peers: Peers<'_>) -> f64;

    /// A congestion event began that ECN reported, once per window. Returns the new `ssthresh`: by
    /// default that of a loss (RFC 3168 section 6.1.2).
    fn on_ecn(&mut self, window: &Window, now: Nanos, peers: Peers<'_>) -> f64 {
        self.on_congestion(window, now, peers)
    }

    /// The retransmission timer expired; the window is already 1 segment and `ssthresh` is what
    /// [`Self::on_congestion`] gave.
    fn on_timeout(&mut self, _window: &mut Window, _now: Nanos) {}

    /// A recovery ended and the sender is back in the open state; `next` as in [`Ack::next`].
    fn on_recovered(&mut self, _window: &mut Window, _next: u32, _now: Nanos) {}

    /// Sending restarted after an idle time longer than the RTO.
    fn on_restart(&mut self, _window: &mut Window, _next: u32, _now: Nanos) {}

    /// A segment is about to be sent with nothing in flight, after however short a time;
    /// `app_limited` as samples taken now would be (Linux `tp->app_limited`). (Linux
    /// `CA_EVENT_TX_START`.)
    fn on_start(&mut self, _window: &mut Window, _app_limited: bool, _now: Nanos) {}

    /// Rate at which to pace, segments per second, asked for after each ACK; none sends whatever the
    /// window allows at once.
    fn pacing_rate(&self) -> Option<f64> {
        None
    }
}

/// Writes the [`Controller`] enum, the list of names and the dispatch from one list.
macro_rules! controllers {
    ($($name:literal => $variant:ident($type:ty)),+ $(,)?) => {
        /// Every congestion control, dispatched without indirection in the per-packet path.
        #[derive(Debug, Clone)]
        pub enum Controller {
            $(#[allow(missing_docs)] $variant($type)),+
        }

        /// The names of all congestion controls, in the order of the list.
        pub const NAMES: &[&str] = &[$($name),+];

        impl Controller {
            /// The controller called `name`, or none.
            pub fn new(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant(<$type>::default())),)+
                    _ => None,
                }
            }

            /// [`CongestionControl::OWNS_WINDOW`].
            pub fn owns_window(&self) -> bool {
                match self { $(Self::$variant(_) => <$type as CongestionControl>::OWNS_WINDOW),+ }
            }

            /// [`CongestionControl::ECN_PER_SEGMENT`].
            pub fn ecn_per_segment(&self) -> bool {
                match self { $(Self::$variant(_) => <$type as CongestionControl>::ECN_PER_SEGMENT),+ }
            }

            /// [`CongestionControl::RATE_SAMPLES`].
            pub fn rate_samples(&self) -> bool {
                match self { $(Self::$variant(_) => <$type as CongestionControl>::RATE_SAMPLES),+ }
            }

            controllers!(@forward [$($variant)+]
                fn on_established(window: &mut Window, srtt: Nanos, now: Nanos) (window, srtt, now);
                fn on_delivered(window: &mut Window, ack: &Ack, peers: Peers<'_>) (window, ack, peers);
                fn on_ack(window: &mut Window, ack: &Ack, peers: Peers<'_>) (window, ack, peers);
                fn on_timeout(window: &mut Window, now: Nanos) (window, now);
                fn on_recovered(window: &mut Window, next: u32, now: Nanos) (window, next, now);
                fn on_restart(window: &mut Window, next: u32, now: Nanos) (window, next, now);
                fn on_start(window: &mut Window, app_limited: bool, now: Nanos)
                    (window, app_limited, now);
            );

            /// [`CongestionControl::on_congestion`].
            pub fn on_congestion(&mut self, window: &Window, now: Nanos, peers: Peers<'_>) -> f64 {
                match self { $(Self::$variant(cc) => cc.on_congestion(window, now, peers)),+ }
            }

            /// [`CongestionControl::on_ecn`].
            pub fn on_ecn(&mut self, window: &Window, now: Nanos, peers: Peers<'_>) -> f64 {
                match self { $(Self::$variant(cc) => cc.on_ecn(window, now, peers)),+ }
            }

            /// [`CongestionControl::pacing_rate`].
            pub fn pacing_rate(&self) -> Option<f64> {
                match self { $(Self::$variant(cc) => cc.pacing_rate()),+ }
            }
        }
    };
    (@forward $variants:tt $(fn $hook:ident($($arg:ident: $argtype:ty),*) $call:tt;)+) => {
        $(controllers!(@one $variants $hook($($arg: $argtype),*) $call);)+
    };
    // `$call` repeats the arguments' names as one token tree: a list cannot be repeated per variant.
    (@one [$($variant:ident)+] $hook:ident($($arg:ident: $argtype:ty),*) $call:tt) => {
        #[doc = concat!("[`CongestionControl::", stringify!($hook), "`].")]
        #[inline]
        pub fn $hook(&mut self, $($arg: $argtype),*) {
            match self { $(Self::$variant(cc) => cc.$hook $call),+ }
        }
    };
}

controllers! {
    "reno" => Reno(reno::Reno),
    "cubic" => Cubic(cubic::Cubic),
    "hybla" => Hybla(hybla::Hybla),
    "scalable" => Scalable(scalable::Scalable),
    "vegas" => Vegas(vegas::Vegas),
    "olia" => Olia(olia::Olia),
    "lia" => Lia(lia::Lia),
    "balia" => Balia(balia::Balia),
    "wvegas" => Wvegas(wvegas::Wvegas),
    "bbr" => Bbr(bbr::Bbr),
    "dctcp" => Dctcp(dctcp::Dctcp),
}
