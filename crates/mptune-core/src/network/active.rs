//! A queue that makes its decision when a packet leaves: it needs an event per packet, at the time the
//! line becomes free.

use super::aqm::AqmSpec;
use super::aqm::CodelQueue;
use super::aqm::FqCodel;
use super::carried::Carried;
use super::counters::LinkCounters;
use super::place::InFlight;
use super::server::Server;
use super::spec::LinkSpec;
use super::stream::Streams;
use crate::engine::Source;
use crate::units::{Bytes, NEVER, Nanos};

#[derive(Debug)]
enum Discipline<P> {
    Codel(CodelQueue<P>),
    FqCodel(FqCodel<P>),
}

/// The queue with its server.
#[derive(Debug)]
pub(super) struct ActiveQueue<P> {
    discipline: Discipline<P>,
    server: Server,
    limit: Bytes,
    /// When the line finishes what it is sending.
    free_at: Nanos,
    source: Source,
}

impl<P: Carried> ActiveQueue<P> {
    /// None if the link's queue is not active.
    pub fn new(spec: &LinkSpec, streams: Streams, source: Source) -> Option<Self> {
        let discipline = match &spec.aqm {
            Some(AqmSpec::Codel(codel)) => Discipline::Codel(CodelQueue::new(codel)),
            Some(AqmSpec::FqCodel(fq)) => Discipline::FqCodel(FqCodel::new(fq, streams.queue())),
            _ => return None,
        };
        let limit = spec.queue_bytes.unwrap_or(Bytes::MAX);
        Some(Self { discipline, server: Server::new(spec), limit, free_at: 0, source })
    }

    pub fn len(&self) -> usize {
        match &self.discipline {
            Discipline::Codel(queue) => queue.len(),
            Discipline::FqCodel(queue) => queue.len(),
        }
    }

    pub fn for_each(&self, visit: impl FnMut(&InFlight<P>)) {
        match &self.discipline {
            Discipline::Codel(queue) => queue.iter().for_each(visit),
            Discipline::FqCodel(queue) => queue.iter().for_each(visit),
        }
    }

    /// A packet arrives now (`packet.at`). If the line is free, it is sent: returns a packet and when its
    /// transmission ends, as [`Self::serve`] does.
    pub fn arrive(
        &mut self,
        packet: InFlight<P>,
        flow: u32,
        counters: &mut LinkCounters,
    ) -> Option<(InFlight<P>, Nanos)> {
        let idle = self.len() == 0 && self.free_at <= packet.at;
        match &mut self.discipline {
            Discipline::Codel(queue) => queue.push(packet, self.limit, counters),
            Discipline::FqCodel(queue) => queue.push(packet, flow, self.limit, counters),
        }
        if idle { self.serve(packet.at, counters) } else { None }
    }

    /// The line is free: takes the next packet from the queue.
    pub fn serve(
        &mut self,
        now: Nanos,
        counters: &mut LinkCounters,
    ) -> Option<(InFlight<P>, Nanos)> {
        let packet = match &mut self.discipline {
            Discipline::Codel(queue) => queue.next(now, counters)?,
            Discipline::FqCodel(queue) => queue.next(now, counters)?,
        };
        // By its time of arrival, not by `now`: the rest of a trace's opportunity is for packets
        // that were there before it, and tokens accumulate while the line is busy.
        self.free_at = self.server.send(packet.at, u32::from(packet.size));
        Some((packet, self.free_at))
    }

    /// Its event: when to take the next packet, [`NEVER`] if there is none.
    pub fn event(&self) -> (Source, Nanos) {
        (self.source, if self.len() == 0 { NEVER } else { self.free_at })
    }
}
