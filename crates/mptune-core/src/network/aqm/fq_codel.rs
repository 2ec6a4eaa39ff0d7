//! FQ-CoDel (RFC 8290): controlled delay per flow, with flows taking turns by bytes, new flows first.

use super::chains::{Chain, Slots};
use super::codel::{Codel, CodelSpec, Waiting};
use super::discipline::OnDeparture;
use crate::engine::Random;
use crate::error::SpecError;
use crate::network::carried::Carried;
use crate::network::counters::LinkCounters;
use crate::network::place::InFlight;
use crate::units::{Bytes, Nanos};
use serde::Deserialize;
use std::collections::VecDeque;

/// Section 5.2 recommends 1024 queues and a quantum of 1514 bytes, in addition to CoDel's own parameters.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FqCodelSpec {
    /// CoDel: acceptable sojourn time.
    pub target_ns: Nanos,
    /// CoDel: time for which it must be exceeded.
    pub interval_ns: Nanos,
    /// Mark ECN-capable packets instead of dropping them.
    pub ecn: bool,
    /// Queues that flows are hashed to.
    pub queues: u32,
    /// Bytes per turn.
    pub quantum_bytes: u32,
}

impl FqCodelSpec {
    fn codel(&self) -> CodelSpec {
        let Self { target_ns, interval_ns, ecn, .. } = *self;
        CodelSpec { target_ns, interval_ns, ecn }
    }

    pub(super) fn validate(&self, queue: Option<Bytes>) -> Result<(), SpecError> {
        self.codel().validate(queue)?;
        let bounds = [
            ("aqm.queues", self.queues, 1, 65_536),
            ("aqm.quantum_bytes", self.quantum_bytes, 256, 65_536),
        ];
        for (key, value, least, most) in bounds {
            if !(least..=most).contains(&value) {
                return Err(SpecError::new(
                    key,
                    format!("expected {least} to {most}, found {value}"),
                ));
            }
        }
        Ok(())
    }
}

/// A queue: its packets, its turn and its controlled delay.
#[derive(Debug, Clone)]
struct Queue {
    packets: Chain,
    /// Bytes it may still send in this turn.
    deficit: i64,
    /// It is in one of the two lists.
    listed: bool,
    codel: Codel,
}

/// A queue and the storage of its packets.
struct Contents<'a, P> {
    slots: &'a mut Slots<P>,
    chain: &'a mut Chain,
}

impl<P: Carried> Waiting<P> for Contents<'_, P> {
    fn pop(&mut self) -> Option<InFlight<P>> {
        self.slots.pop(self.chain)
    }

    fn bytes(&self) -> Bytes {
        self.chain.bytes()
    }
}

/// The queues, and the lists that schedule them.
#[derive(Debug)]
pub struct FqCodel<P> {
    slots: Slots<P>,
    queues: Vec<Queue>,
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    quantum: i64,
    salt: u64,
    len: usize,
    bytes: Bytes,
}

impl<P: Carried> OnDeparture<P> for FqCodel<P> {
    type Spec = FqCodelSpec;

    /// `random` gives the salt of the hash: which flows share a queue depends on the seed.
    fn new(spec: &FqCodelSpec, mut random: Random) -> Self {
        let codel = Codel::new(&spec.codel());
        let queue = Queue { packets: Chain::new(), deficit: 0, listed: false, codel };
        Self {
            slots: Slots::new(),
            queues: vec![queue; spec.queues as usize],
            new: VecDeque::new(),
            old: VecDeque::new(),
            quantum: i64::from(spec.quantum_bytes),
            salt: random.up_to(u64::MAX),
            len: 0,
            bytes: 0,
        }
    }

    fn len(&self) -> usize {
        self.len
    }

    /// Appends a packet to its flow's queue. While there are more than `limit` bytes, the longest
    /// queue loses its first packet (section 4.1); one packet always fits.
    fn push(&mut self, packet: InFlight<P>, flow: u32, limit: Bytes, counters: &mut LinkCounters) {
        let number = self.queue_of(flow);
        let queue = &mut self.queues[number as usize];
        self.slots.push(&mut queue.packets, packet);
        if !queue.listed {
            queue.listed = true;
            queue.deficit = self.quantum;
            self.new.push_back(number);
        }
        self.len += 1;
        self.bytes += Bytes::from(packet.size);
        while self.bytes > limit && self.len > 1 {
            self.drop_from_longest();
            counters.dropped += 1;
        }
    }

    /// Queue by queue.
    fn for_each(&self, visit: impl FnMut(&InFlight<P>)) {
        self.queues.iter().flat_map(|queue| self.slots.iter(&queue.packets)).for_each(visit);
    }

    /// The next packet to send at `now` (section 4.2).
    fn next(&mut self, now: Nanos, counters: &mut LinkCounters) -> Option<InFlight<P>> {
        loop {
            let is_new = !self.new.is_empty();
            let number = if is_new { self.new.pop_front()? } else { self.old.pop_front()? };
            let queue = &mut self.queues[number as usize];
            if queue.deficit <= 0 {
                queue.deficit += self.quantum;
                self.old.push_back(number);
                continue;
            }
            let (before, dropped) = (queue.packets.bytes(), counters.dropped);
            let mut contents = Contents { slots: &mut self.slots, chain: &mut queue.packets };
            let packet = queue.codel.next(now, &mut contents, counters);
            self.bytes -= before - queue.packets.bytes();
            self.len -= (counters.dropped - dropped) as usize + usize::from(packet.is_some());
            if let Some(packet) = packet {
                queue.deficit -= i64::from(packet.size);
                let list = if is_new { &mut self.new } else { &mut self.old };
                list.push_front(number);
                return Some(packet);
            }
            // An emptied new queue joins the old ones: otherwise a sparse flow would always be new, and
            // backlogged flows would starve.
            if is_new && !self.old.is_empty() {
                self.old.push_back(number);
            } else {
                queue.listed = false;
            }
        }
    }
}

impl<P: Carried> FqCodel<P> {
    /// The finaliser of SplitMix64 mixes all bits, so the upper ones are as good as any.
    fn queue_of(&self, flow: u32) -> u32 {
        let mut hash = self.salt ^ u64::from(flow);
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        hash ^= hash >> 31;
        ((u128::from(hash) * self.queues.len() as u128) >> 64) as u32
    }

    fn drop_from_longest(&mut self) {
        let listed = self.new.iter().chain(&self.old);
        let longest = listed.max_by_key(|&&number| self.queues[number as usize].packets.bytes());
        if let Some(&number) = longest {
            let chain = &mut self.queues[number as usize].packets;
            if let Some(packet) = self.slots.pop(chain) {
                self.len -= 1;
                self.bytes -= Bytes::from(packet.size);
            }
        }
    }
}
