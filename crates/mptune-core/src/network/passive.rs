//! A queue that decides on arrival: the departure is known at once, whatever the server.
//!
//! Unlike [`super::rate::Fifo`] it stores all departures: with a varying rate a time does not determine the
//! backlog in bytes. A packet being sent counts in full.

use super::aqm::{Arrival, ArrivalDiscipline, Verdict};
use super::counters::LinkCounters;
use super::server::Server;
use super::spec::LinkSpec;
use super::stream::Streams;
use crate::engine::Ring;
use crate::units::{Bytes, Nanos};

/// The queue with its server.
#[derive(Debug, Clone)]
pub(super) struct PassiveQueue {
    server: Server,
    limit: Bytes,
    judge: Option<ArrivalDiscipline>,
    /// Departure and size of each packet that is queued or being sent.
    departures: Ring<(Nanos, u32)>,
    bytes: Bytes,
    /// Start of the last idle time.
    idle_since: Nanos,
}

impl PassiveQueue {
    pub fn new(spec: &LinkSpec, streams: Streams) -> Self {
        Self {
            server: Server::new(spec),
            limit: spec.queue_bytes.unwrap_or(Bytes::MAX),
            judge: spec.aqm.as_ref().and_then(|aqm| ArrivalDiscipline::new(aqm, streams.queue())),
            departures: Ring::new(),
            bytes: 0,
            idle_since: 0,
        }
    }

    /// A packet arrives at `at`, no earlier than any before it. Returns the end of its transmission
    /// ([`crate::units::NEVER`]: never) and its CE mark; none if it is dropped.
    pub fn accept(
        &mut self,
        at: Nanos,
        size: u32,
        ect: bool,
        counters: &mut LinkCounters,
    ) -> Option<(Nanos, bool)> {
        self.forget_departed(at);
        let full = self.bytes > 0 && self.bytes.saturating_add(Bytes::from(size)) > self.limit;
        let verdict = if full { Verdict::Drop } else { self.judge(at, ect) };
        if verdict == Verdict::Drop {
            counters.dropped += 1;
            return None;
        }
        let departure = self.server.send(at, size);
        self.departures.push((departure, size));
        self.bytes += Bytes::from(size);
        Some((departure, verdict == Verdict::Mark))
    }

    fn forget_departed(&mut self, now: Nanos) {
        while let Some(&(departure, size)) = self.departures.front().filter(|d| d.0 <= now) {
            self.departures.pop();
            self.bytes -= Bytes::from(size);
            self.idle_since = departure;
        }
    }

    fn judge(&mut self, now: Nanos, ect: bool) -> Verdict {
        let Some(judge) = &mut self.judge else { return Verdict::Take };
        let (idle, packet_time) = (now - self.idle_since, self.server.packet_time(now));
        judge.judge(&Arrival { queued: self.bytes, idle, packet_time, ect })
    }
}
