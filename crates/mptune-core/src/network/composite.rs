//! A link composed of effects: a queue with its server, then the wire.

use super::active::ActiveQueue;
use super::carried::Carried;
use super::counters::LinkCounters;
use super::passive::PassiveQueue;
use super::place::{BACKGROUND, InFlight};
use super::rate::Fifo;
use super::spec::LinkSpec;
use super::stream::Streams;
use super::watch::Fate;
use super::wire::{Exit, Wire};
use crate::engine::Source;
use crate::units::{NEVER, Nanos};

#[derive(Debug)]
enum Queue<P> {
    Fifo(Fifo),
    Passive(PassiveQueue),
    Active(ActiveQueue<P>),
}

/// A link with more effects than a [`super::link::PlainLink`]. With effects on the wire only, its queue
/// matches that of a plain one to the nanosecond.
#[derive(Debug)]
pub(super) struct CompositeLink<P> {
    queue: Queue<P>,
    wire: Wire,
    counters: LinkCounters,
}

impl<P: Carried> CompositeLink<P> {
    /// An idle link. `source` is that of its active queue, if it has one.
    pub fn new(spec: &LinkSpec, streams: Streams, source: Option<Source>) -> Self {
        let active = source.and_then(|source| ActiveQueue::new(spec, streams, source));
        let queue = match active {
            Some(active) => Queue::Active(active),
            None if spec.has_plain_queue() => {
                Queue::Fifo(Fifo::new(spec.rate_bps, spec.queue_bytes))
            }
            None => Queue::Passive(PassiveQueue::new(spec, streams)),
        };
        Self { queue, wire: Wire::new(spec, streams), counters: LinkCounters::default() }
    }

    pub fn counters(&self) -> LinkCounters {
        self.counters
    }

    pub fn queued(&self) -> usize {
        if let Queue::Active(queue) = &self.queue { queue.len() } else { 0 }
    }

    pub fn for_each_queued(&self, visit: impl FnMut(&InFlight<P>)) {
        if let Queue::Active(queue) = &self.queue {
            queue.for_each(visit);
        }
    }

    /// Fate of a packet that arrived and did not leave, from the counters before it; none if it waits, or if
    /// active queue management may have dropped another one.
    pub fn fate_since(&self, before: LinkCounters) -> Option<Fate> {
        let now = &self.counters;
        let dropped = now.dropped > before.dropped && !matches!(self.queue, Queue::Active(_));
        if dropped {
            return Some(Fate::Dropped);
        }
        (now.lost > before.lost).then_some(Fate::Lost)
    }

    /// The event of its queue; must be set after every [`Self::arrive`] and [`Self::serve`].
    pub fn event(&self) -> Option<(Source, Nanos)> {
        if let Queue::Active(queue) = &self.queue { Some(queue.event()) } else { None }
    }

    /// A packet of a flow enters at `packet.at`, no earlier than any before it. Returns a packet whose
    /// time of arrival at the far end is now known, if there is one.
    pub fn arrive(&mut self, mut packet: InFlight<P>, flow: u32) -> Option<(InFlight<P>, Exit)> {
        self.counters.background += u64::from(packet.route == BACKGROUND);
        let (at, size) = (packet.at, u32::from(packet.size));
        let sent = match &mut self.queue {
            Queue::Fifo(fifo) => {
                let sent = fifo.accept(at, size);
                self.counters.dropped += u64::from(sent.is_none());
                sent?
            }
            Queue::Passive(queue) => {
                let ect = packet.payload.is_ect();
                let (sent, marked) = queue.accept(at, size, ect, &mut self.counters)?;
                if marked {
                    packet.payload.mark_ce();
                    self.counters.marked += 1;
                }
                sent
            }
            Queue::Active(queue) => {
                let (packet, sent) = queue.arrive(packet, flow, &mut self.counters)?;
                return self.leave(packet, sent);
            }
        };
        self.leave(packet, sent)
    }

    /// The event of its queue is due: the line is free for the next packet.
    pub fn serve(&mut self, now: Nanos) -> Option<(InFlight<P>, Exit)> {
        let Queue::Active(queue) = &mut self.queue else { return None };
        let (packet, sent) = queue.serve(now, &mut self.counters)?;
        self.leave(packet, sent)
    }

    fn leave(&mut self, packet: InFlight<P>, sent: Nanos) -> Option<(InFlight<P>, Exit)> {
        if sent >= NEVER {
            self.counters.stuck += 1;
            return None;
        }
        if packet.route == BACKGROUND {
            self.counters.forwarded += 1;
            return None;
        }
        let exit = self.wire.cross(sent, &mut self.counters)?;
        Some((packet, exit))
    }
}
