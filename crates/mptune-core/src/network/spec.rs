//! The specification of a network: plain integers, with validation.

use super::aqm::AqmSpec;
use super::bucket::BucketSpec;
use super::chance::{BILLION, check};
use super::effects::{self, Specs, wire_effects};
use super::family::Family;
use super::limits::{FULL_PACKET, MAX_DELAY, check_rate};
use super::schedule::ScheduleSpec;
use super::trace;
use super::udp::UdpSpec;
use crate::error::SpecError;
use crate::units::{BitsPerSecond, Bytes, NEVER, Nanos};
use serde::Deserialize;

/// Most links in one direction of a path: if each of them duplicates every packet, 2^16 arrive.
const MAX_HOPS: usize = 16;
/// Most places where packets can wait for an event. The event queue has room for these and the timers.
const MAX_PLACES: usize = 2048;
/// Most paths of a network: one bit each in a 64-bit set.
pub const MAX_PATHS: usize = 64;

/// Writes the specification of a link with a key for every effect on the wire.
macro_rules! link_spec {
    ($($(#[$doc:meta])* $key:ident: $spec:ident => $module:ident::$state:ident, $stream:literal;)+) => {
        /// A unidirectional link: a FIFO unless queue management or reordering changes that.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct LinkSpec {
            /// Name for counters and errors.
            pub name: String,
            /// Rate; without a rate, a trace or a token bucket the link is infinitely fast and has no queue.
            #[serde(default)]
            pub rate_bps: Option<BitsPerSecond>,
            /// One-way propagation delay.
            pub delay_ns: Nanos,
            /// Largest extra delay, drawn uniformly per packet; the order of packets is kept.
            #[serde(default)]
            pub jitter_ns: Nanos,
            /// Drop-tail limit in bytes on what is queued or being sent; none never drops.
            #[serde(default)]
            pub queue_bytes: Option<Bytes>,
            /// Probability that a packet is lost on the wire, parts per billion.
            #[serde(default)]
            pub loss_ppb: u64,
            /// Instead of a rate, a trace in mahimahi's format: the milliseconds at which 1500 bytes can
            /// leave, never decreasing. It repeats; its last time, which is above 0, is the period.
            #[serde(default)]
            pub trace_ms: Option<Vec<u32>>,
            /// Rate, delay and loss that change over time.
            #[serde(default)]
            pub schedule: Option<ScheduleSpec>,
            /// A token bucket in front; packets waiting for tokens count towards the queue.
            #[serde(default)]
            pub bucket: Option<BucketSpec>,
            /// Active queue management; none is drop-tail.
            #[serde(default)]
            pub aqm: Option<AqmSpec>,
            $($(#[$doc])* #[serde(default)] pub $key: Option<effects::specs::$spec>,)+
            /// Probability that a packet arrives twice, parts per billion.
            #[serde(default)]
            pub duplicate_ppb: u64,
            /// Background datagrams that cross only this link.
            #[serde(default)]
            pub udp: Vec<UdpSpec>,
        }

        impl LinkSpec {
            /// Its effects on the wire, but for copies.
            pub(super) fn effects(&self) -> Specs<'_> {
                Specs { $($key: self.$key.as_ref(),)+ }
            }
        }
    };
}

wire_effects!(link_spec);

/// A background TCP connection, saturated between two times.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackgroundSpec {
    /// The path of its only subflow.
    pub path: usize,
    /// Its congestion control.
    pub cc: String,
    /// Time of its SYN.
    #[serde(default)]
    pub start_ns: Nanos,
    /// Time of its stop; none never stops.
    #[serde(default)]
    pub stop_ns: Option<Nanos>,
}

/// A pair of interfaces with the links between them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathSpec {
    /// Name for results and errors.
    pub label: String,
    /// Number of the sender's interface.
    pub local: usize,
    /// Number of the receiver's interface.
    pub remote: usize,
    /// Links that data crosses, in order.
    pub forward: Vec<usize>,
    /// Links that ACKs cross, in order.
    pub reverse: Vec<usize>,
    /// IP version; none is the trial's.
    #[serde(default)]
    pub family: Option<Family>,
    /// Data over one of the interfaces are paid for, which path managers may ask.
    #[serde(default)]
    pub metered: bool,
}

/// The whole network between two sites.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkSpec {
    /// All links.
    pub links: Vec<LinkSpec>,
    /// All paths.
    pub paths: Vec<PathSpec>,
    /// The path of the first handshake unless the trial names another.
    #[serde(default)]
    pub initial_path: usize,
    /// Routers obey loose source routes (RFC 791).
    #[serde(default)]
    pub lsrr_honoured: bool,
    /// TCP connections that share it.
    #[serde(default)]
    pub background: Vec<BackgroundSpec>,
}

impl NetworkSpec {
    /// Checks everything [`super::Network::new`] relies on.
    ///
    /// # Errors
    /// The first key that is wrong.
    pub fn validate(&self) -> Result<(), SpecError> {
        for (i, link) in self.links.iter().enumerate() {
            link.validate()
                .map_err(|e| SpecError::new(format!("links[{i}].{}", e.key), e.expected))?;
        }
        if self.paths.is_empty() || self.paths.len() > MAX_PATHS {
            let count = self.paths.len();
            return Err(SpecError::new(
                "paths",
                format!("expected 1 to {MAX_PATHS}, found {count}"),
            ));
        }
        self.check_ways()?;
        for (i, flow) in self.background.iter().enumerate() {
            let key = |name: &str| format!("background[{i}].{name}");
            if flow.path >= self.paths.len() {
                return Err(SpecError::new(key("path"), "expected the number of a path"));
            }
            let ends = flow.stop_ns.is_none_or(|stop| stop > flow.start_ns);
            if flow.start_ns >= NEVER / 2 || !ends {
                let expected = "expected more than start_ns, and start_ns below 26 days";
                return Err(SpecError::new(key("stop_ns"), expected));
            }
        }
        if self.initial_path >= self.paths.len() {
            return Err(SpecError::new("initial_path", "expected the number of a path"));
        }
        Ok(())
    }

    fn check_ways(&self) -> Result<(), SpecError> {
        // At most these need an event of their own: hops, heaps, queues and background sources.
        let mut places: usize = self.links.iter().map(|link| 1 + link.udp.len()).sum();
        for (i, path) in self.paths.iter().enumerate() {
            for (key, way) in [("forward", &path.forward), ("reverse", &path.reverse)] {
                let known = way.iter().all(|&link| link < self.links.len());
                if way.is_empty() || way.len() > MAX_HOPS || !known {
                    let expected = format!("expected a list of 1 to {MAX_HOPS} link numbers");
                    return Err(SpecError::new(format!("paths[{i}].{key}"), expected));
                }
                let place = |&link: &usize| 1 + usize::from(self.links[link].effects().reorders());
                places += way.iter().map(place).sum::<usize>();
            }
        }
        if places > MAX_PLACES {
            let expected = format!(
                "expected at most {MAX_PLACES} links, links on paths and background sources, \
                 found {places}"
            );
            return Err(SpecError::new("links", expected));
        }
        Ok(())
    }
}

impl LinkSpec {
    /// Fixed rate and drop-tail, with at most jitter and independent loss on the wire.
    pub(super) fn is_plain(&self) -> bool {
        let wire = !self.effects().is_empty() || self.duplicate_ppb > 0;
        self.has_plain_queue() && !wire && self.schedule.is_none() && self.udp.is_empty()
    }

    /// Fixed rate and drop-tail.
    pub(super) fn has_plain_queue(&self) -> bool {
        let changes = |s: &ScheduleSpec| s.steps.iter().any(|step| step.rate_bps.is_some());
        let varying = self.trace_ms.is_some() || self.schedule.as_ref().is_some_and(changes);
        !varying && self.bucket.is_none() && self.aqm.is_none()
    }

    /// Something limits its rate, so that packets can wait.
    fn is_limited(&self) -> bool {
        self.rate_bps.is_some() || self.trace_ms.is_some() || self.bucket.is_some()
    }

    /// It decides on departure, so packets must arrive in event order.
    pub(super) fn is_active(&self) -> bool {
        self.aqm.as_ref().is_some_and(AqmSpec::is_active)
    }

    fn validate(&self) -> Result<(), SpecError> {
        if let Some(rate) = self.rate_bps {
            check_rate("rate_bps", rate)?;
        }
        if let Some(queue) = self.queue_bytes.filter(|&queue| queue < FULL_PACKET) {
            let expected =
                format!("expected room for one packet of {FULL_PACKET} bytes, found {queue}");
            return Err(SpecError::new("queue_bytes", expected));
        }
        if self.delay_ns > MAX_DELAY || self.jitter_ns > MAX_DELAY {
            return Err(SpecError::new("delay_ns", "expected delay and jitter of at most 100 s"));
        }
        check("loss_ppb", self.loss_ppb, BILLION - 1)?;
        self.check_queue()?;
        self.check_wire()
    }

    fn check_queue(&self) -> Result<(), SpecError> {
        let wrong = |key: &str, expected: &str| Err(SpecError::new(key, expected));
        if let Some(times) = &self.trace_ms {
            if self.rate_bps.is_some() {
                return wrong("trace_ms", "expected either a rate or a trace, found both");
            }
            trace::validate(times)?;
        }
        if let Some(bucket) = &self.bucket {
            bucket.validate()?;
        }
        if let Some(aqm) = &self.aqm {
            if !self.is_limited() {
                return wrong("aqm", "expected a rate, a trace or a token bucket beside it");
            }
            aqm.validate(self.queue_bytes)?;
        }
        if !self.udp.is_empty() && (!self.is_limited() || self.queue_bytes.is_none()) {
            return wrong("udp", "expected a rate and a queue limit beside it");
        }
        for (i, udp) in self.udp.iter().enumerate() {
            let inside = |e: SpecError| SpecError::new(format!("udp[{i}].{}", e.key), e.expected);
            udp.validate().map_err(inside)?;
        }
        Ok(())
    }

    fn check_wire(&self) -> Result<(), SpecError> {
        if let Some(schedule) = &self.schedule {
            schedule.validate(self.rate_bps.is_some())?;
        }
        self.effects().validate()?;
        check("duplicate_ppb", self.duplicate_ppb, BILLION)
    }
}
