//! A link: plain, with fixed rate, delay, jitter, drop-tail queue and random loss, or composed of other effects
//! ([`CompositeLink`]). Nearly all packets cross plain links.

use super::carried::Carried;
use super::chance::Chance;
use super::composite::CompositeLink;
use super::counters::LinkCounters;
use super::place::InFlight;
use super::rate::Fifo;
use super::spec::LinkSpec;
use super::stream::Streams;
use crate::engine::{Random, Source};
use crate::units::Nanos;

/// One direction of a connection between two places.
#[derive(Debug)]
pub(super) enum Link<P> {
    Plain(PlainLink),
    Composite(Box<CompositeLink<P>>),
}

impl<P: Carried> Link<P> {
    /// An idle link; `source` is the event source of an active queue.
    pub fn new(spec: &LinkSpec, streams: Streams, source: Option<Source>) -> Self {
        if spec.is_plain() {
            return Self::Plain(PlainLink::new(spec, streams.wire()));
        }
        Self::Composite(Box::new(CompositeLink::new(spec, streams, source)))
    }

    /// Its counters.
    pub fn counters(&self) -> LinkCounters {
        match self {
            Self::Plain(link) => link.counters(),
            Self::Composite(link) => link.counters(),
        }
    }

    /// Packets in its active queue. Where departures are known on arrival, nothing waits.
    pub fn queued(&self) -> usize {
        match self {
            Self::Plain(_) => 0,
            Self::Composite(link) => link.queued(),
        }
    }

    /// Those packets.
    pub fn for_each_queued(&self, visit: impl FnMut(&InFlight<P>)) {
        if let Self::Composite(link) = self {
            link.for_each_queued(visit);
        }
    }
}

/// Fixed rate and delay, jitter, drop-tail queue and Bernoulli loss.
#[derive(Debug, Clone)]
pub(super) struct PlainLink {
    fifo: Fifo,
    delay: Nanos,
    jitter: Nanos,
    loss: Chance,
    last_exit: Nanos,
    random: Random,
    forwarded: u64,
    dropped: u64,
    lost: u64,
}

impl PlainLink {
    fn new(spec: &LinkSpec, random: Random) -> Self {
        Self {
            fifo: Fifo::new(spec.rate_bps, spec.queue_bytes),
            delay: spec.delay_ns,
            jitter: spec.jitter_ns,
            loss: Chance::ppb(spec.loss_ppb),
            last_exit: 0,
            random,
            forwarded: 0,
            dropped: 0,
            lost: 0,
        }
    }

    fn counters(&self) -> LinkCounters {
        let Self { forwarded, dropped, lost, .. } = *self;
        LinkCounters { forwarded, dropped, lost, ..LinkCounters::default() }
    }

    /// A packet enters at `at`, no earlier than any before it. Returns its arrival at the far end; none if it is
    /// dropped or lost.
    #[inline]
    pub fn traverse(&mut self, at: Nanos, size: u32) -> Option<Nanos> {
        let Some(sent) = self.fifo.accept(at, size) else {
            self.dropped += 1;
            return None;
        };
        if self.loss.happens(&mut self.random) {
            self.lost += 1;
            return None;
        }
        self.forwarded += 1;
        let mut exit = sent + self.delay;
        if self.jitter > 0 {
            exit = (exit + self.random.up_to(self.jitter)).max(self.last_exit);
            self.last_exit = exit;
        }
        Some(exit)
    }
}
