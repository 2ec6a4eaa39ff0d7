//! The network as the outside describes it: plain integers, with validation.

use crate::units::{BitsPerSecond, Bytes, Nanos, SECOND};
use serde::Deserialize;

/// Parts per billion in a whole.
const BILLION: u64 = 1_000_000_000;
/// Below this a byte's serialisation time would not fit the fixed-point arithmetic of a link.
const MIN_RATE: BitsPerSecond = 100;
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

/// A unidirectional FIFO link.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// Name for counters and errors.
    pub name: String,
    /// Rate; none is infinitely fast and then has no queue.
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
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
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
        for (i, path) in self.paths.iter().enumerate() {
            for (key, way) in [("forward", &path.forward), ("reverse", &path.reverse)] {
                let known = way.iter().all(|&link| link < self.links.len());
                if way.is_empty() || !known {
                    let expected = "a non-empty list of link numbers expected";
                    return Err(SpecError::new(format!("paths[{i}].{key}"), expected));
                }
            }
        }
        if self.initial_path >= self.paths.len() {
            return Err(SpecError::new("initial_path", "the number of a path expected"));
        }
        Ok(())
    }
}

impl LinkSpec {
    fn validate(&self) -> Result<(), SpecError> {
        if let Some(rate) = self.rate_bps.filter(|&rate| rate < MIN_RATE) {
            let expected = format!("at least {MIN_RATE} bit/s expected, found {rate}");
            return Err(SpecError::new("rate_bps", expected));
        }
        if let Some(queue) = self.queue_bytes.filter(|&queue| queue < FULL_PACKET) {
            let expected =
                format!("room for one packet of {FULL_PACKET} bytes expected, found {queue}");
            return Err(SpecError::new("queue_bytes", expected));
        }
        if self.delay_ns > 100 * SECOND || self.jitter_ns > 100 * SECOND {
            return Err(SpecError::new("delay_ns", "delay and jitter of at most 100 s expected"));
        }
        if self.loss_ppb >= BILLION {
            let expected =
                format!("below {BILLION} parts per billion expected, found {}", self.loss_ppb);
            return Err(SpecError::new("loss_ppb", expected));
        }
        Ok(())
    }
}
