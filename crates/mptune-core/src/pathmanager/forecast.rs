//! What path managers may ask about paths that a connection does not use just now: the seam to whoever can answer.

use crate::units::{BitsPerSecond, Bytes, Nanos, SECOND};
use std::fmt::Debug;

/// A path as the statistics of its subflow show it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    /// Rate of its bottleneck.
    pub rate_bps: BitsPerSecond,
    /// RTT without a queue.
    pub rtt: Nanos,
    /// What its bottleneck holds, bytes.
    pub queue: Bytes,
    /// Share of the segments that are lost on the way, not in that queue.
    pub loss: f64,
}

/// Predicts the throughput of a connection over other paths.
pub trait Forecast: Debug + Send + Sync {
    /// Bytes per second in order over these lines, disjoint, when all of them carry data, with a send buffer of that size
    /// (0: as the connection was given); none if there is no answer just now.
    fn throughput(&self, lines: &[Line], buffer: Bytes) -> Option<f64>;
}

/// The rule for shared buffers (RFC 6182 section 5.3), solved for the rate: `min(sum of rates, buffer / largest RTT)`. For machines
/// without room for a simulator, which predicts better.
#[derive(Debug, Clone, Copy)]
pub struct SharedBuffer;

impl Forecast for SharedBuffer {
    fn throughput(&self, lines: &[Line], buffer: Bytes) -> Option<f64> {
        let rates: f64 = lines.iter().map(|line| line.rate_bps as f64 / 8.0).sum();
        let longest = lines.iter().map(|line| line.rtt).max().filter(|_| buffer > 0);
        Some(longest.map_or(rates, |rtt| rates.min(buffer as f64 * SECOND as f64 / rtt as f64)))
    }
}
