//! Data-level reassembly: combines segments of all subflows into one in-order stream (RFC 8684 section 3.3).

use crate::units::Seq;

/// Initial capacity, extended for segments further ahead.
const PLACES: usize = 64;

/// The treatment of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// It is in order.
    InOrder,
    /// It waits for an earlier one.
    OutOfOrder,
    /// It was received before.
    Duplicate,
}

/// The receive side of the data sequence space. The application reads in-order data at once, so the receive buffer
/// holds only out-of-order data.
#[derive(Debug, Clone)]
pub struct Reassembly {
    next: Seq,
    /// Payload bytes of each out-of-order segment, by data sequence number modulo the length; otherwise 0.
    lengths: Vec<u16>,
    mask: Seq,
    /// Segments out of order.
    waiting: u32,
    /// Most segments ever out of order.
    pub largest_waiting: u32,
    /// Segments received before, on this or another subflow.
    pub duplicates: u64,
}

impl Reassembly {
    /// Nothing received yet.
    pub fn new() -> Self {
        Self {
            next: 0,
            lengths: vec![0; PLACES],
            mask: PLACES as Seq - 1,
            waiting: 0,
            largest_waiting: 0,
            duplicates: 0,
        }
    }

    /// The next segment expected: the DATA_ACK.
    #[inline]
    pub fn next(&self) -> Seq {
        self.next
    }

    /// Payload bytes of every out-of-order segment.
    pub fn out_of_order(&self) -> impl Iterator<Item = u32> {
        self.lengths.iter().filter(|&&length| length > 0).map(|&length| u32::from(length))
    }

    /// Makes room for a segment `distance` ahead of the next.
    #[cold]
    fn grow(&mut self, distance: Seq) {
        let places = (distance as usize + 1).next_power_of_two();
        let mut lengths = vec![0; places];
        for data in self.next..=self.next.saturating_add(self.mask) {
            lengths[data as usize & (places - 1)] = *self.place(data);
        }
        (self.lengths, self.mask) = (lengths, places as Seq - 1);
    }

    #[inline]
    fn place(&mut self, data: Seq) -> &mut u16 {
        &mut self.lengths[(data & self.mask) as usize]
    }

    /// A segment of `length` payload bytes, at least one, arrived in subflow order and was accepted. If it is the next,
    /// waiting segments may follow: see [`Self::release`].
    // Inlined into the hottest loop in spite of its other callers.
    #[inline(always)]
    pub fn on_segment(&mut self, data: Seq, length: u16) -> Arrival {
        if data == self.next {
            self.next += 1;
            return Arrival::InOrder;
        }
        let next = self.next;
        if data.saturating_sub(next) > self.mask {
            self.grow(data - next);
        }
        if data < next || *self.place(data) > 0 {
            self.duplicates += 1;
            return Arrival::Duplicate;
        }
        *self.place(data) = length;
        self.waiting += 1;
        self.largest_waiting = self.largest_waiting.max(self.waiting);
        Arrival::OutOfOrder
    }

    /// Payload bytes of the next segment, if it waits. It is now in order.
    #[inline(always)]
    pub fn release(&mut self) -> Option<u32> {
        if self.waiting > 0 { self.release_waiting() } else { None }
    }

    #[inline(never)]
    fn release_waiting(&mut self) -> Option<u32> {
        let length = std::mem::take(self.place(self.next));
        if length == 0 {
            return None;
        }
        self.next += 1;
        self.waiting -= 1;
        Some(u32::from(length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Any length, and not that of its neighbours.
    fn length(data: Seq) -> u16 {
        (1 + data * 37 % 8960) as u16
    }

    proptest! {
        #[test]
        fn releases_every_segment_once_in_order_with_the_length_it_came_with(
            order in Just((0u32..300).collect::<Vec<_>>()).prop_shuffle(),
            twice in prop::collection::vec(0usize..300, 0..30),
        ) {
            let mut arrivals = order.clone();
            for at in twice.iter().copied() {
                arrivals.insert(at, order[at]);
            }
            let mut reassembly = Reassembly::new();
            let mut released = Vec::new();
            for data in arrivals {
                if reassembly.on_segment(data, length(data)) == Arrival::InOrder {
                    released.push(u32::from(length(data)));
                    released.extend(std::iter::from_fn(|| reassembly.release()));
                }
                prop_assert_eq!(reassembly.next() as usize, released.len());
                prop_assert_eq!(reassembly.out_of_order().count(), reassembly.waiting as usize);
            }
            let lengths: Vec<_> = (0..300).map(|data| u32::from(length(data))).collect();
            prop_assert_eq!(released, lengths);
            prop_assert_eq!(reassembly.duplicates as usize, twice.len());
            prop_assert_eq!(reassembly.waiting, 0);
        }
    }
}
