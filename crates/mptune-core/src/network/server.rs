//! The server of a queue: a token bucket if there is one, then the line.

use super::bucket::TokenBucket;
use super::limits::FULL_PACKET;
use super::rate::Pace;
use super::schedule::{VaryingRate, timeline};
use super::spec::LinkSpec;
use super::trace::Trace;
use crate::units::Nanos;

#[derive(Debug, Clone)]
enum Line {
    Fixed { pace: Pace, busy_until: Nanos },
    Varying(VaryingRate),
    Trace(Trace),
}

/// The server of a composite link.
#[derive(Debug, Clone)]
pub(super) struct Server {
    bucket: Option<TokenBucket>,
    line: Line,
}

impl Server {
    pub fn new(spec: &LinkSpec) -> Self {
        let steps =
            spec.schedule.as_ref().is_some_and(|s| s.steps.iter().any(|s| s.rate_bps.is_some()));
        let line = match (&spec.trace_ms, spec.rate_bps) {
            (Some(times), _) => Line::Trace(Trace::new(times.clone())),
            (None, Some(rate)) if steps => {
                Line::Varying(VaryingRate::new(timeline(spec.schedule.as_ref(), rate, |step| {
                    step.rate_bps
                })))
            }
            (None, rate) => Line::Fixed { pace: Pace::new(rate), busy_until: 0 },
        };
        Self { bucket: spec.bucket.as_ref().map(TokenBucket::new), line }
    }

    /// Sends a packet that arrived at `arrived`, after all earlier ones. Returns the departure of its last byte,
    /// [`crate::units::NEVER`] if the rate stays zero.
    pub fn send(&mut self, arrived: Nanos, size: u32) -> Nanos {
        let at = self.bucket.as_mut().map_or(arrived, |bucket| bucket.pass(arrived, size));
        match &mut self.line {
            Line::Fixed { pace, busy_until } => {
                *busy_until = at.max(*busy_until) + pace.of(size);
                *busy_until
            }
            Line::Varying(line) => line.send(at, size),
            Line::Trace(trace) => trace.send(at, size),
        }
    }

    /// Serialisation time of a full packet; none at rate 0.
    pub fn packet_time(&self, now: Nanos) -> Option<Nanos> {
        let line = match &self.line {
            Line::Fixed { pace, .. } => Some(pace.of(FULL_PACKET as u32)),
            Line::Varying(line) => line.packet_time(now),
            Line::Trace(trace) => Some(trace.packet_time()),
        };
        let bucket = self.bucket.as_ref().map_or(0, TokenBucket::packet_time);
        line.map(|line| line.max(bucket))
    }
}
