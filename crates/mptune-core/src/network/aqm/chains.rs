//! Many queues in one array: a thousand empty ones cost nothing, and a packet allocates nothing.

use crate::network::carried::Carried;
use crate::network::place::InFlight;
use crate::units::Bytes;

/// End of a chain.
const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Slot<P> {
    packet: InFlight<P>,
    next: u32,
}

/// The packets of all queues.
#[derive(Debug)]
pub(super) struct Slots<P> {
    slots: Vec<Slot<P>>,
    /// Chain of the slots without a packet.
    free: u32,
}

/// The packets of one queue, in order of arrival.
#[derive(Debug, Clone)]
pub(super) struct Chain {
    first: u32,
    last: u32,
    bytes: Bytes,
}

impl Chain {
    pub fn new() -> Self {
        Self { first: NONE, last: NONE, bytes: 0 }
    }

    /// Bytes of its packets.
    pub fn bytes(&self) -> Bytes {
        self.bytes
    }
}

impl<P: Carried> Slots<P> {
    pub fn new() -> Self {
        Self { slots: Vec::new(), free: NONE }
    }

    /// Appends a packet to a queue.
    pub fn push(&mut self, chain: &mut Chain, packet: InFlight<P>) {
        let slot = Slot { packet, next: NONE };
        let index = self.free;
        let index = if index == NONE {
            self.slots.push(slot);
            (self.slots.len() - 1) as u32
        } else {
            self.free = self.slots[index as usize].next;
            self.slots[index as usize] = slot;
            index
        };
        match chain.last {
            NONE => chain.first = index,
            last => self.slots[last as usize].next = index,
        }
        chain.last = index;
        chain.bytes += Bytes::from(packet.size);
    }

    /// Takes the first packet of a queue.
    pub fn pop(&mut self, chain: &mut Chain) -> Option<InFlight<P>> {
        let index = chain.first;
        let slot = self.slots.get_mut(index as usize)?;
        let packet = slot.packet;
        chain.first = slot.next;
        slot.next = self.free;
        self.free = index;
        if chain.first == NONE {
            chain.last = NONE;
        }
        chain.bytes -= Bytes::from(packet.size);
        Some(packet)
    }

    /// The packets of a queue.
    pub fn iter(&self, chain: &Chain) -> impl Iterator<Item = &InFlight<P>> {
        let slot = |index: u32| self.slots.get(index as usize);
        std::iter::successors(slot(chain.first), move |last| slot(last.next))
            .map(|slot| &slot.packet)
    }
}
