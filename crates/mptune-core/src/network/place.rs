//! Packets between two events: in a ring behind a FIFO, in a heap behind a link that reorders.

use crate::units::Nanos;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// The route of background traffic, which leaves after its current link.
pub(super) const BACKGROUND: u8 = u8::MAX;

/// A packet on its way. Small integers keep it within a cache line: 128 routes, 16 hops, 64 KiB.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct InFlight<P> {
    /// Arrival at its next place; in an active queue, arrival there.
    pub at: Nanos,
    pub route: u8,
    pub hop: u8,
    pub size: u16,
    pub payload: P,
}

/// Packets in time order, those with equal times in order of arrival.
#[derive(Debug)]
pub(super) struct Ordered<P> {
    heap: BinaryHeap<Entry<P>>,
    pushed: u64,
}

#[derive(Debug)]
struct Entry<P> {
    number: u64,
    packet: InFlight<P>,
}

impl<P> Ord for Entry<P> {
    /// The greatest leaves first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.packet.at, other.number).cmp(&(self.packet.at, self.number))
    }
}

impl<P> PartialOrd for Entry<P> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<P> PartialEq for Entry<P> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<P> Eq for Entry<P> {}

impl<P> Ordered<P> {
    pub fn new() -> Self {
        Self { heap: BinaryHeap::new(), pushed: 0 }
    }

    pub fn push(&mut self, packet: InFlight<P>) {
        self.heap.push(Entry { number: self.pushed, packet });
        self.pushed += 1;
    }

    pub fn pop(&mut self) -> Option<InFlight<P>> {
        self.heap.pop().map(|entry| entry.packet)
    }

    /// All packets, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &InFlight<P>> {
        self.heap.iter().map(|entry| &entry.packet)
    }

    /// Departure of the first packet.
    pub fn next_at(&self) -> Option<Nanos> {
        self.heap.peek().map(|entry| entry.packet.at)
    }
}
