//! A queue that decides on departure: it needs an event per packet, when the line becomes free.

use super::aqm::DepartureDiscipline;
use super::carried::Carried;
use super::counters::LinkCounters;
use super::place::InFlight;
use super::server::Server;
use super::spec::LinkSpec;
use super::stream::Streams;
use crate::engine::Source;
use crate::units::{Bytes, NEVER, Nanos};

/// The queue with its server.
#[derive(Debug)]
pub(super) struct ActiveQueue<P> {
    discipline: DepartureDiscipline<P>,
    server: Server,
    limit: Bytes,
    /// End of the current transmission.
    free_at: Nanos,
    source: Source,
}

impl<P: Carried> ActiveQueue<P> {
    /// None for a link without active queue.
    pub fn new(spec: &LinkSpec, streams: Streams, source: Source) -> Option<Self> {
        let discipline = DepartureDiscipline::new(spec.aqm.as_ref()?, streams.queue())?;
        let limit = spec.queue_bytes.unwrap_or(Bytes::MAX);
        Some(Self { discipline, server: Server::new(spec), limit, free_at: 0, source })
    }

    pub fn len(&self) -> usize {
        self.discipline.len()
    }

    pub fn for_each(&self, visit: impl FnMut(&InFlight<P>)) {
        self.discipline.for_each(visit);
    }

    /// A packet arrives at `packet.at`. If the line is free, returns a packet and the end of its transmission, as
    /// [`Self::serve`] does.
    pub fn arrive(
        &mut self,
        packet: InFlight<P>,
        flow: u32,
        counters: &mut LinkCounters,
    ) -> Option<(InFlight<P>, Nanos)> {
        let idle = self.len() == 0 && self.free_at <= packet.at;
        self.discipline.push(packet, flow, self.limit, counters);
        if idle { self.serve(packet.at, counters) } else { None }
    }

    /// The line is free: takes the next packet from the queue.
    pub fn serve(
        &mut self,
        now: Nanos,
        counters: &mut LinkCounters,
    ) -> Option<(InFlight<P>, Nanos)> {
        let packet = self.discipline.next(now, counters)?;
        // Arrival time, not `now`: the rest of a trace's opportunity belongs to packets that arrived before
        // it, and tokens accumulate while the line is busy.
        self.free_at = self.server.send(packet.at, u32::from(packet.size));
        Some((packet, self.free_at))
    }

    /// Its event: time of the next departure, or [`NEVER`].
    pub fn event(&self) -> (Source, Nanos) {
        (self.source, if self.len() == 0 { NEVER } else { self.free_at })
    }
}
