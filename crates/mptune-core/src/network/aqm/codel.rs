//! Controlled delay (RFC 8289): drops or marks at the head of the queue once the sojourn time has stayed above a
//! target for an interval.

use super::discipline::OnDeparture;
use crate::engine::{Random, Ring};
use crate::error::SpecError;
use crate::network::carried::Carried;
use crate::network::counters::LinkCounters;
use crate::network::limits::FULL_PACKET;
use crate::network::place::InFlight;
use crate::units::{Bytes, Nanos, SECOND};
use serde::Deserialize;

/// Target and interval; RFC 8289 section 4 recommends 5 and 100 ms.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CodelSpec {
    /// Acceptable sojourn time.
    pub target_ns: Nanos,
    /// Time for which it must be exceeded: about the RTT of the flows.
    pub interval_ns: Nanos,
    /// Mark ECN-capable packets instead of dropping them.
    pub ecn: bool,
}

impl CodelSpec {
    pub(super) fn validate(&self, _: Option<Bytes>) -> Result<(), SpecError> {
        let Self { target_ns, interval_ns, .. } = *self;
        if 0 < target_ns && target_ns < interval_ns && interval_ns <= 100 * SECOND {
            return Ok(());
        }
        let expected = "expected more than target_ns, at most 100 s, and target_ns above 0";
        Err(SpecError::new("aqm.interval_ns", expected))
    }
}

/// A queue whose packets are taken from its head.
pub(super) trait Waiting<P> {
    fn pop(&mut self) -> Option<InFlight<P>>;
    /// Bytes in it.
    fn bytes(&self) -> Bytes;
}

/// The state machine of section 5. Its variables have the names used there.
#[derive(Debug, Clone)]
pub(super) struct Codel {
    target: Nanos,
    interval: Nanos,
    ecn: bool,
    /// `first_above_time`; 0 while the sojourn time is below the target.
    first_above: Nanos,
    drop_next: Nanos,
    count: u64,
    last_count: u64,
    dropping: bool,
}

impl Codel {
    pub fn new(spec: &CodelSpec) -> Self {
        Self {
            target: spec.target_ns,
            interval: spec.interval_ns,
            ecn: spec.ecn,
            first_above: 0,
            drop_next: 0,
            count: 0,
            last_count: 0,
            dropping: false,
        }
    }

    /// The next packet to send at `now`, after dropping or marking what is due.
    pub fn next<P: Carried>(
        &mut self,
        now: Nanos,
        queue: &mut impl Waiting<P>,
        counters: &mut LinkCounters,
    ) -> Option<InFlight<P>> {
        let (mut head, mut above) = self.dequeue(now, queue)?;
        if self.dropping {
            self.dropping = above;
            while self.dropping && now >= self.drop_next {
                self.count += 1;
                let marked = self.signal(&mut head, counters);
                if !marked {
                    (head, above) = self.dequeue(now, queue)?;
                    self.dropping = above;
                }
                if self.dropping {
                    self.drop_next = self.control_law(self.drop_next);
                }
                if marked {
                    break;
                }
            }
        } else if above {
            let marked = self.signal(&mut head, counters);
            self.start(now);
            if !marked {
                (head, _) = self.dequeue(now, queue)?;
            }
        }
        Some(head)
    }

    /// The head of the queue; true if the sojourn time has been above the target for an interval (section 5,
    /// `dodequeue`). A full packet or less behind it is not a standing queue. An empty queue ends dropping.
    fn dequeue<P: Carried>(
        &mut self,
        now: Nanos,
        queue: &mut impl Waiting<P>,
    ) -> Option<(InFlight<P>, bool)> {
        let Some(head) = queue.pop() else {
            self.first_above = 0;
            self.dropping = false;
            return None;
        };
        if now - head.at < self.target || queue.bytes() <= FULL_PACKET {
            self.first_above = 0;
            return Some((head, false));
        }
        if self.first_above == 0 {
            self.first_above = now + self.interval;
            return Some((head, false));
        }
        Some((head, now >= self.first_above))
    }

    /// Signals congestion to a packet: true if it was marked, otherwise it is dropped.
    fn signal<P: Carried>(&self, head: &mut InFlight<P>, counters: &mut LinkCounters) -> bool {
        if self.ecn && head.payload.is_ect() {
            head.payload.mark_ce();
            counters.marked += 1;
            return true;
        }
        counters.dropped += 1;
        false
    }

    /// Enters the dropping state, resuming where it left off if that was recent (section 5).
    fn start(&mut self, now: Nanos) {
        self.dropping = true;
        let dropped = self.count - self.last_count;
        let recent = now.saturating_sub(self.drop_next) < 16 * self.interval;
        self.count = if dropped > 1 && recent { dropped } else { 1 };
        self.last_count = self.count;
        self.drop_next = self.control_law(now);
    }

    /// The next signal: their rate grows with the square root of their number (section 5, `control_law`).
    fn control_law(&self, from: Nanos) -> Nanos {
        from + (self.interval as f64 / libm::sqrt(self.count as f64)) as Nanos
    }
}

/// One queue under controlled delay.
#[derive(Debug)]
pub struct CodelQueue<P> {
    codel: Codel,
    fifo: BytesFifo<P>,
}

/// Packets in order of arrival.
#[derive(Debug)]
struct BytesFifo<P> {
    packets: Ring<InFlight<P>>,
    bytes: Bytes,
}

impl<P: Carried> Waiting<P> for BytesFifo<P> {
    fn pop(&mut self) -> Option<InFlight<P>> {
        let packet = self.packets.pop()?;
        self.bytes -= Bytes::from(packet.size);
        Some(packet)
    }

    fn bytes(&self) -> Bytes {
        self.bytes
    }
}

impl<P: Carried> OnDeparture<P> for CodelQueue<P> {
    type Spec = CodelSpec;

    fn new(spec: &CodelSpec, _: Random) -> Self {
        Self { codel: Codel::new(spec), fifo: BytesFifo { packets: Ring::new(), bytes: 0 } }
    }

    fn len(&self) -> usize {
        self.fifo.packets.len()
    }

    /// Appends a packet unless that would exceed `limit` bytes; one packet always fits.
    fn push(&mut self, packet: InFlight<P>, _: u32, limit: Bytes, counters: &mut LinkCounters) {
        let bytes = self.fifo.bytes + Bytes::from(packet.size);
        if self.fifo.bytes > 0 && bytes > limit {
            counters.dropped += 1;
            return;
        }
        self.fifo.packets.push(packet);
        self.fifo.bytes = bytes;
    }

    fn next(&mut self, now: Nanos, counters: &mut LinkCounters) -> Option<InFlight<P>> {
        self.codel.next(now, &mut self.fifo, counters)
    }

    fn for_each(&self, visit: impl FnMut(&InFlight<P>)) {
        self.fifo.packets.iter().for_each(visit);
    }
}
