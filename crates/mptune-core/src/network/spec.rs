//! The network as the outside describes it: plain integers, with validation.

use super::aqm::AqmSpec;
use super::bucket::BucketSpec;
use super::chance::{BILLION, check};
use super::gilbert::GilbertElliottSpec;
use super::reorder::ReorderSpec;
use super::schedule::ScheduleSpec;
use super::trace;
use super::udp::UdpSpec;
use crate::units::{BitsPerSecond, Bytes, NEVER, Nanos, SECOND};
use serde::Deserialize;

/// Below this a byte's serialisation time would not fit the fixed-point arithmetic of a link.
const MIN_RATE: BitsPerSecond = 100;
/// Longest delay, jitter or lateness.
pub(super) const MAX_DELAY: Nanos = 100 * SECOND;
/// Links in one direction of a path: if each of them duplicates every packet, 2^16 arrive.
const MAX_HOPS: usize = 16;
/// Places where packets can wait for an event. The event queue has room for these and the timers.
const MAX_PLACES: usize = 2048;
/// The largest packet the model carries in full: a 1500-byte IP packet.
pub const FULL_PACKET: Bytes = 1500;
/// Paths a network may have: one bit each in a 64-bit set.
pub const MAX_PATHS: usize = 64;

/// What is wrong with a specification: the key and what was expected there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecError {
    /// Dotted path of the key.
    pub key: String,
    /// What was expected, and found.
    pub expected: String,
}

impl SpecError {
    /// An error at a key.
    pub fn new(key: impl Into<String>, expected: impl Into<String>) -> Self {
        Self { key: key.into(), expected: expected.into() }
    }
}

impl std::fmt::Display for SpecError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.key, self.expected)
    }
}

impl std::error::Error for SpecError {}

/// A unidirectional link: a FIFO unless its queue management or reordering makes it another.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// Name for counters and errors.
    pub name: String,
    /// Rate; without it, a trace or a token bucket the link is infinitely fast and has no queue.
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
    /// A token bucket in front; what waits for tokens counts for the queue.
    #[serde(default)]
    pub bucket: Option<BucketSpec>,
    /// Active queue management; none is drop-tail.
    #[serde(default)]
    pub aqm: Option<AqmSpec>,
    /// Losses in bursts, independent of and in addition to `loss_ppb`.
    #[serde(default)]
    pub gilbert_elliott: Option<GilbertElliottSpec>,
    /// Packets that are late and overtaken.
    #[serde(default)]
    pub reorder: Option<ReorderSpec>,
    /// Probability that a packet arrives twice, parts per billion.
    #[serde(default)]
    pub duplicate_ppb: u64,
    /// Background datagrams that cross this link and no other.
    #[serde(default)]
    pub udp: Vec<UdpSpec>,
}

/// A TCP connection in the background, saturated between two times.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackgroundSpec {
    /// The path of its only subflow.
    pub path: usize,
    /// Its congestion control.
    pub cc: String,
    /// When its SYN is sent.
    #[serde(default)]
    pub start_ns: Nanos,
    /// When it stops; none never does.
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

/// Checks that a rate is one a link can have.
pub(super) fn check_rate(key: &str, rate: BitsPerSecond) -> Result<(), SpecError> {
    if rate >= MIN_RATE {
        return Ok(());
    }
    Err(SpecError::new(key, format!("at least {MIN_RATE} bit/s expected, found {rate}")))
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
            let found = self.paths.len();
            return Err(SpecError::new(
                "paths",
                format!("1 to {MAX_PATHS} expected, found {found}"),
            ));
        }
        self.check_ways()?;
        for (i, flow) in self.background.iter().enumerate() {
            let key = |name: &str| format!("background[{i}].{name}");
            if flow.path >= self.paths.len() {
                return Err(SpecError::new(key("path"), "the number of a path expected"));
            }
            let ends = flow.stop_ns.is_none_or(|stop| stop > flow.start_ns);
            if flow.start_ns >= NEVER / 2 || !ends {
                let expected = "more than start_ns, itself below 26 days, expected";
                return Err(SpecError::new(key("stop_ns"), expected));
            }
        }
        if self.initial_path >= self.paths.len() {
            return Err(SpecError::new("initial_path", "the number of a path expected"));
        }
        Ok(())
    }

    fn check_ways(&self) -> Result<(), SpecError> {
        // What needs an event of its own at most: hops, heaps, queues and background sources.
        let mut places: usize = self.links.iter().map(|link| 1 + link.udp.len()).sum();
        for (i, path) in self.paths.iter().enumerate() {
            for (key, way) in [("forward", &path.forward), ("reverse", &path.reverse)] {
                let known = way.iter().all(|&link| link < self.links.len());
                if way.is_empty() || way.len() > MAX_HOPS || !known {
                    let expected = format!("a list of 1 to {MAX_HOPS} link numbers expected");
                    return Err(SpecError::new(format!("paths[{i}].{key}"), expected));
                }
                let place = |&link: &usize| 1 + usize::from(self.links[link].reorder.is_some());
                places += way.iter().map(place).sum::<usize>();
            }
        }
        if places > MAX_PLACES {
            let expected = format!(
                "at most {MAX_PLACES} links, links on paths and background sources expected, \
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
        let wire =
            self.gilbert_elliott.is_some() || self.reorder.is_some() || self.duplicate_ppb > 0;
        self.has_plain_queue() && !wire && self.schedule.is_none() && self.udp.is_empty()
    }

    /// Fixed rate and drop-tail.
    pub(super) fn has_plain_queue(&self) -> bool {
        let changes = |s: &ScheduleSpec| s.steps.iter().any(|step| step.rate_bps.is_some());
        let varying = self.trace_ms.is_some() || self.schedule.as_ref().is_some_and(changes);
        !varying && self.bucket.is_none() && self.aqm.is_none()
    }

    /// Something bounds its rate, so that packets can wait.
    fn is_limited(&self) -> bool {
        self.rate_bps.is_some() || self.trace_ms.is_some() || self.bucket.is_some()
    }

    /// It decides when a packet leaves its queue, so packets must arrive in the order of events.
    pub(super) fn is_active(&self) -> bool {
        self.aqm.as_ref().is_some_and(AqmSpec::is_active)
    }

    fn validate(&self) -> Result<(), SpecError> {
        if let Some(rate) = self.rate_bps {
            check_rate("rate_bps", rate)?;
        }
        if let Some(queue) = self.queue_bytes.filter(|&queue| queue < FULL_PACKET) {
            let expected =
                format!("room for one packet of {FULL_PACKET} bytes expected, found {queue}");
            return Err(SpecError::new("queue_bytes", expected));
        }
        if self.delay_ns > MAX_DELAY || self.jitter_ns > MAX_DELAY {
            return Err(SpecError::new("delay_ns", "delay and jitter of at most 100 s expected"));
        }
        check("loss_ppb", self.loss_ppb, BILLION - 1)?;
        self.check_queue()?;
        self.check_wire()
    }

    fn check_queue(&self) -> Result<(), SpecError> {
        let wrong = |key: &str, expected: &str| Err(SpecError::new(key, expected));
        if let Some(times) = &self.trace_ms {
            if self.rate_bps.is_some() {
                return wrong("trace_ms", "either a rate or a trace expected, found both");
            }
            trace::validate(times)?;
        }
        if let Some(bucket) = &self.bucket {
            bucket.validate()?;
        }
        if let Some(aqm) = &self.aqm {
            if !self.is_limited() {
                return wrong("aqm", "a rate, a trace or a token bucket beside it expected");
            }
            aqm.validate(self.queue_bytes)?;
        }
        if !self.udp.is_empty() && (!self.is_limited() || self.queue_bytes.is_none()) {
            return wrong("udp", "a rate and a queue limit beside it expected");
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
        if let Some(bursts) = &self.gilbert_elliott {
            bursts.validate()?;
        }
        if let Some(reorder) = &self.reorder {
            reorder.validate()?;
        }
        check("duplicate_ppb", self.duplicate_ppb, BILLION)
    }
}
