//! Data-level reassembly: combines segments of all subflows into one in-order stream (RFC 8684 section 3.3).

use crate::units::Seq;

/// Places at first: more are made when a segment comes from further ahead.
const PLACES: usize = 64;

/// What became of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// It is in order.
    Next,
    /// It waits for an earlier one.
    Held,
    /// It had already been received.
    Known,
}

/// The receive side of the data sequence space. The application reads at once what is in order, so
/// the receive buffer holds only what is out of order.
#[derive(Debug, Clone)]
pub struct Reassembly {
    next: Seq,
    /// Payload bytes of each segment held, by data sequence number modulo the length; 0 where none is.
    held: Vec<u16>,
    mask: Seq,
    /// Segments held out of order.
    waiting: u32,
    /// Most segments ever held out of order.
    pub largest_waiting: u32,
    /// Segments that had already been received, on this or another subflow.
    pub duplicates: u64,
}

impl Reassembly {
    /// Nothing received yet.
    pub fn new() -> Self {
        Self {
            next: 0,
            held: vec![0; PLACES],
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

    /// Payload bytes of every segment held.
    pub fn held(&self) -> impl Iterator<Item = u32> {
        self.held.iter().filter(|&&length| length > 0).map(|&length| u32::from(length))
    }

    /// Makes room for a segment so far ahead of the next one.
    #[cold]
    fn grow(&mut self, distance: Seq) {
        let places = (distance as usize + 1).next_power_of_two();
        let mut held = vec![0; places];
        for data in self.next..=self.next.saturating_add(self.mask) {
            held[data as usize & (places - 1)] = *self.place(data);
        }
        (self.held, self.mask) = (held, places as Seq - 1);
    }

    #[inline]
    fn place(&mut self, data: Seq) -> &mut u16 {
        &mut self.held[(data & self.mask) as usize]
    }

    /// A segment of `length` payload bytes, at least one, arrived in subflow order, and the buffer accepts it. If
    /// it is the next one, others that waited for it may follow: see [`Self::release`].
    // Otherwise it is not inlined into the hottest loop, because it has other callers too.
    #[inline(always)]
    pub fn on_segment(&mut self, data: Seq, length: u16) -> Arrival {
        if data == self.next {
            self.next += 1;
            return Arrival::Next;
        }
        let next = self.next;
        if data.saturating_sub(next) > self.mask {
            self.grow(data - next);
        }
        if data < next || *self.place(data) > 0 {
            self.duplicates += 1;
            return Arrival::Known;
        }
        *self.place(data) = length;
        self.waiting += 1;
        self.largest_waiting = self.largest_waiting.max(self.waiting);
        Arrival::Held
    }

    /// The next segment, if it is held: its payload bytes. It is now in order.
    #[inline(always)]
    pub fn release(&mut self) -> Option<u32> {
        if self.waiting > 0 { self.release_held() } else { None }
    }

    #[inline(never)]
    fn release_held(&mut self) -> Option<u32> {
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
                if reassembly.on_segment(data, length(data)) == Arrival::Next {
                    released.push(u32::from(length(data)));
                    released.extend(std::iter::from_fn(|| reassembly.release()));
                }
                prop_assert_eq!(reassembly.next() as usize, released.len());
                prop_assert_eq!(reassembly.held().count(), reassembly.waiting as usize);
            }
            let lengths: Vec<_> = (0..300).map(|data| u32::from(length(data))).collect();
            prop_assert_eq!(released, lengths);
            prop_assert_eq!(reassembly.duplicates as usize, twice.len());
            prop_assert_eq!(reassembly.waiting, 0);
        }
    }
}
