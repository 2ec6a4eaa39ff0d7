//! The event queue: one entry per *source* (a link's ring, a timer), never one per packet.
//!
//! A tournament tree over the sources' next times. Setting a source's time and finding the earliest
//! both cost the depth of the tree (6 for 64 sources) without allocation. Ties go to the source that
//! was added first, so the order of events never depends on history.

use crate::units::{NEVER, Nanos};

/// A producer of events, with at most one pending: a ring or a timer.
pub type Source = usize;

/// Low bits of a key that hold the source.
const SOURCE_BITS: u32 = 12;
/// Most sources a queue can hold.
pub const MAX_SOURCES: usize = 1 << SOURCE_BITS;
const KEYS: usize = 2 * MAX_SOURCES;

/// Next times of all sources, earliest first.
#[derive(Debug, Clone)]
pub struct EventQueue {
    /// `keys[1]` is the winner; leaves start at `leaves`. A key is `time << 12 | source`: times
    /// below 2^52 ns leave 12 bits. It has room for all sources, so that no index needs a check.
    keys: Box<[u64; KEYS]>,
    leaves: usize,
    sources: usize,
}

#[inline]
fn key(time: Nanos, source: Source) -> u64 {
    debug_assert!(time <= NEVER);
    time << SOURCE_BITS | source as u64
}

impl EventQueue {
    /// An empty queue.
    pub fn new() -> Self {
        Self { keys: Box::new([u64::MAX; KEYS]), leaves: 1, sources: 0 }
    }

    /// Adds a source without an event.
    ///
    /// # Panics
    /// If there are already [`MAX_SOURCES`]: the trial's validation bounds links and subflows.
    pub fn add_source(&mut self) -> Source {
        assert!(self.sources < MAX_SOURCES, "too many event sources");
        let source = self.sources;
        self.sources += 1;
        if self.sources > self.leaves {
            self.grow();
        }
        source
    }

    fn grow(&mut self) {
        // The new right half of the tree is empty.
        for level in (0..=self.leaves.ilog2()).rev() {
            let (from, width) = (1 << level, 1 << level);
            self.keys.copy_within(from..from + width, 2 * from);
            self.keys[2 * from + width..4 * from].fill(u64::MAX);
        }
        self.leaves *= 2;
    }

    /// Sets the time of the source's next event; [`NEVER`] for none.
    #[inline]
    pub fn set(&mut self, source: Source, time: Nanos) {
        let mut node = self.leaves + source;
        let mut winner = if time >= NEVER { u64::MAX } else { key(time, source) };
        while node > 1 {
            self.keys[node % KEYS] = winner;
            winner = winner.min(self.keys[(node ^ 1) % KEYS]);
            node /= 2;
        }
        self.keys[1] = winner;
    }

    /// The time of the source's next event, or [`NEVER`].
    #[inline]
    pub fn time_of(&self, source: Source) -> Nanos {
        self.keys[(self.leaves + source) % KEYS] >> SOURCE_BITS
    }

    /// Sets the source's next event unless it already has an earlier one: timers are re-armed lazily, and check
    /// for themselves whether they fired too early.
    #[inline]
    pub fn set_no_later(&mut self, source: Source, time: Nanos) {
        if time < self.time_of(source) {
            self.set(source, time);
        }
    }

    /// The earliest event, without removing it.
    #[inline]
    pub fn earliest(&self) -> Option<(Nanos, Source)> {
        let key = self.keys[1];
        (key != u64::MAX)
            .then_some((key >> SOURCE_BITS, (key & (MAX_SOURCES as u64 - 1)) as Source))
    }
}

impl Default for EventQueue {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ties_go_to_the_source_added_first() {
        let mut queue = EventQueue::new();
        let sources: Vec<_> = (0..5).map(|_| queue.add_source()).collect();
        queue.set(sources[3], 10);
        queue.set(sources[1], 10);
        assert_eq!(queue.earliest(), Some((10, sources[1])));
    }

    proptest! {
        #[test]
        fn agrees_with_a_linear_search(steps in prop::collection::vec((0usize..40, 0u64..100), 1..300)) {
            let mut queue = EventQueue::new();
            let mut times: Vec<Nanos> = Vec::new();
            for (source, time) in steps {
                while times.len() <= source {
                    queue.add_source();
                    times.push(NEVER);
                }
                times[source] = if time > 90 { NEVER } else { time };
                queue.set(source, times[source]);
                let expected = (0..times.len())
                    .filter(|&s| times[s] < NEVER)
                    .map(|s| (times[s], s))
                    .min();
                prop_assert_eq!(queue.earliest(), expected);
            }
        }
    }
}
