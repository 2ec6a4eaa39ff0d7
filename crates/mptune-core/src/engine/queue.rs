//! The event queue: one entry per *source* (a link's ring, a timer), never one per packet.
//!
//! A tournament tree over the sources' next times. Setting a source's time and finding the earliest
//! both cost the depth of the tree (6 for 64 sources) without allocation. Ties go to the source that
//! was added first, so the order of events never depends on history.
//!
//! A tree has at most 4096 sources. Simulations of many connections have more trees, whose winners are
//! compared one by one: few, because a thousand connections need about a dozen.

use crate::units::{NEVER, Nanos};

/// A producer of events, with at most one pending: a ring or a timer.
pub type Source = usize;

/// Low bits of a key that hold the source.
const SOURCE_BITS: u32 = 12;
/// Most sources of a tree.
const TREE_SOURCES: usize = 1 << SOURCE_BITS;
const KEYS: usize = 2 * TREE_SOURCES;

/// Next times of all sources, earliest first.
#[derive(Debug, Clone, Default)]
pub struct EventQueue {
    first: Tree,
    /// Those of the sources that the first has no room for.
    more: Vec<Tree>,
}

/// Next times of up to 4096 sources.
#[derive(Debug, Clone)]
struct Tree {
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
        Self::default()
    }

    /// Adds a source without an event.
    pub fn add_source(&mut self) -> Source {
        let before = self.more.len() * TREE_SOURCES;
        let newest = self.more.last_mut().unwrap_or(&mut self.first);
        if let Some(source) = newest.add_source() {
            return before + source;
        }
        self.more.push(Tree::default());
        self.add_source()
    }

    /// Sets the time of the source's next event; [`NEVER`] for none.
    #[inline]
    pub fn set(&mut self, source: Source, time: Nanos) {
        if source < TREE_SOURCES {
            self.first.set(source, time);
        } else {
            self.more[source / TREE_SOURCES - 1].set(source % TREE_SOURCES, time);
        }
    }

    /// The time of the source's next event, or [`NEVER`].
    #[inline]
    pub fn time_of(&self, source: Source) -> Nanos {
        if source < TREE_SOURCES {
            self.first.time_of(source)
        } else {
            self.more[source / TREE_SOURCES - 1].time_of(source % TREE_SOURCES)
        }
    }

    /// Sets the source's next event unless it already has an earlier one: timers are re-armed lazily, and check
    /// for themselves whether they fired too early.
    #[inline]
    pub fn set_no_later(&mut self, source: Source, time: Nanos) {
        if source < TREE_SOURCES {
            self.first.set_no_later(source, time);
        } else {
            self.more[source / TREE_SOURCES - 1].set_no_later(source % TREE_SOURCES, time);
        }
    }

    /// The earliest event, without removing it.
    #[inline]
    pub fn earliest(&self) -> Option<(Nanos, Source)> {
        if self.more.is_empty() { self.first.earliest() } else { self.earliest_of_all() }
    }

    fn earliest_of_all(&self) -> Option<(Nanos, Source)> {
        let numbered = std::iter::once(&self.first).chain(&self.more).enumerate();
        numbered
            .filter_map(|(number, tree)| {
                let (time, source) = tree.earliest()?;
                Some((time, number * TREE_SOURCES + source))
            })
            .min()
    }
}

impl Tree {
    /// Adds a source without an event, if there is room.
    fn add_source(&mut self) -> Option<Source> {
        let source = self.sources;
        if source == TREE_SOURCES {
            return None;
        }
        self.sources += 1;
        if self.sources > self.leaves {
            self.grow();
        }
        Some(source)
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

    #[inline]
    fn set(&mut self, source: Source, time: Nanos) {
        let mut node = self.leaves + source;
        let mut winner = if time >= NEVER { u64::MAX } else { key(time, source) };
        while node > 1 {
            self.keys[node % KEYS] = winner;
            winner = winner.min(self.keys[(node ^ 1) % KEYS]);
            node /= 2;
        }
        self.keys[1] = winner;
    }

    #[inline]
    fn set_no_later(&mut self, source: Source, time: Nanos) {
        if time < self.time_of(source) {
            self.set(source, time);
        }
    }

    #[inline]
    fn time_of(&self, source: Source) -> Nanos {
        self.keys[(self.leaves + source) % KEYS] >> SOURCE_BITS
    }

    #[inline]
    fn earliest(&self) -> Option<(Nanos, Source)> {
        let key = self.keys[1];
        (key != u64::MAX)
            .then_some((key >> SOURCE_BITS, (key & (TREE_SOURCES as u64 - 1)) as Source))
    }
}

impl Default for Tree {
    fn default() -> Self {
        Self { keys: Box::new([u64::MAX; KEYS]), leaves: 1, sources: 0 }
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

    #[test]
    fn sources_of_several_trees_have_one_order() {
        let mut queue = EventQueue::new();
        let sources: Vec<_> = (0..3 * TREE_SOURCES).map(|_| queue.add_source()).collect();
        assert_eq!(sources.last(), Some(&(3 * TREE_SOURCES - 1)));
        for (number, &source) in sources.iter().enumerate().rev() {
            queue.set(source, (number as u64 * 7919) % 1000);
        }
        for (number, &source) in sources.iter().enumerate() {
            assert_eq!(queue.time_of(source), (number as u64 * 7919) % 1000);
        }
        let mut order = vec![];
        while let Some((time, source)) = queue.earliest() {
            order.push((time, source));
            queue.set(source, NEVER);
        }
        assert!(order.is_sorted() && order.len() == sources.len());
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
