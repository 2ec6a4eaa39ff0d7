//! Data-level reassembly: combines segments of all subflows into one in-order stream (RFC 8684 section 3.3).

use crate::units::Seq;

/// The receive side of the data sequence space. The application reads at once what is in order, so
/// the receive buffer holds only what is out of order.
#[derive(Debug, Clone)]
pub struct Reassembly {
    next: Seq,
    /// One bit for each segment of the window, by data sequence number modulo the length.
    held: Vec<u64>,
    mask: Seq,
    /// Segments held out of order.
    waiting: u32,
    /// Most segments ever held out of order.
    pub largest_waiting: u32,
    /// Segments that had already been received, on this or another subflow.
    pub duplicates: u64,
}

impl Reassembly {
    /// For a receive buffer of `window` segments.
    pub fn new(window: Seq) -> Self {
        let bits = window.next_power_of_two().max(64);
        let held = vec![0; bits as usize / 64];
        Self { next: 0, held, mask: bits - 1, waiting: 0, largest_waiting: 0, duplicates: 0 }
    }

    /// The next segment expected: the DATA_ACK.
    #[inline]
    pub fn next(&self) -> Seq {
        self.next
    }

    /// Makes room for a segment beyond the window in segments: under Linux accounting the window is in
    /// bytes.
    #[cold]
    fn grow(&mut self, distance: Seq) {
        let mut larger = Self::new(distance + 1);
        for data in self.next..=self.next.saturating_add(self.mask) {
            let (word, bit) = self.word(data);
            if *word & bit != 0 {
                let (word, bit) = larger.word(data);
                *word |= bit;
            }
        }
        (self.held, self.mask) = (larger.held, larger.mask);
    }

    #[inline]
    fn word(&mut self, data: Seq) -> (&mut u64, u64) {
        let bit = data & self.mask;
        (&mut self.held[bit as usize / 64], 1 << (bit % 64))
    }

    /// A segment arrived in subflow order, which the buffer accepts. Returns how many segments that makes
    /// available in order, or none if it had already been received.
    // Otherwise it is not inlined into the hottest loop, because it has other callers too.
    #[inline(always)]
    pub fn on_segment(&mut self, data: Seq) -> Option<u32> {
        if data == self.next {
            self.next += 1;
            return Some(1 + if self.waiting > 0 { self.release() } else { 0 });
        }
        let next = self.next;
        if data.saturating_sub(next) > self.mask {
            self.grow(data - next);
        }
        let (word, bit) = self.word(data);
        if data < next || *word & bit != 0 {
            self.duplicates += 1;
            return None;
        }
        *word |= bit;
        self.waiting += 1;
        self.largest_waiting = self.largest_waiting.max(self.waiting);
        Some(0)
    }

    fn release(&mut self) -> u32 {
        let before = self.next;
        loop {
            let next = self.next;
            let (word, bit) = self.word(next);
            if *word & bit == 0 {
                break;
            }
            *word &= !bit;
            self.next += 1;
        }
        self.waiting -= self.next - before;
        self.next - before
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn releases_every_segment_once_in_order(
            order in Just((0u32..100).collect::<Vec<_>>()).prop_shuffle(),
            twice in prop::collection::vec(0usize..100, 0..30),
        ) {
            let mut arrivals = order.clone();
            for at in twice.iter().copied() {
                arrivals.insert(at, order[at]);
            }
            let mut reassembly = Reassembly::new(100);
            let released: u32 = arrivals.into_iter().filter_map(|data| reassembly.on_segment(data)).sum();
            prop_assert_eq!(released, 100);
            prop_assert_eq!(reassembly.next(), 100);
            prop_assert_eq!(reassembly.duplicates as usize, twice.len());
            prop_assert_eq!(reassembly.waiting, 0);
        }

        #[test]
        fn room_made_in_between_changes_nothing(
            order in Just((0u32..1000).collect::<Vec<_>>()).prop_shuffle(),
        ) {
            let mut reassembly = Reassembly::new(1);
            let mut released = 0;
            for data in order {
                released += reassembly.on_segment(data).unwrap_or(0);
            }
            prop_assert_eq!((released, reassembly.waiting, reassembly.duplicates), (1000, 0, 0));
        }
    }
}
