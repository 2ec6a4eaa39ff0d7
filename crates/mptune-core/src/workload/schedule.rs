//! Pieces of data that are due at times of their own, whatever became of those before: messages and bursts, and the delay
//! of each.

use crate::units::{Bytes, Nanos};
use std::sync::Arc;

/// A burst: when it is due, since the connection was established, and the payload up to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Burst {
    pub(super) due: Nanos,
    pub(super) end: Bytes,
}

/// The pieces.
#[derive(Debug, Clone)]
pub enum Schedule {
    /// Of one size, at fixed times.
    Regular {
        /// Payload of each.
        bytes: Bytes,
        /// Time from one to the next.
        interval: Nanos,
        /// Number of them.
        count: u64,
    },
    /// Of any sizes, at any times.
    Drawn(Arc<[Burst]>),
}

fn place(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

impl Schedule {
    /// Number of pieces.
    #[inline]
    pub fn count(&self) -> u64 {
        match self {
            Self::Regular { count, .. } => *count,
            Self::Drawn(bursts) => bursts.len() as u64,
        }
    }

    /// The time at which a piece is due, since the connection was established; `number` is below the count.
    #[inline]
    pub fn due(&self, number: u64) -> Nanos {
        match self {
            Self::Regular { interval, .. } => number * interval,
            Self::Drawn(bursts) => bursts[place(number)].due,
        }
    }

    /// Payload of a piece.
    #[inline]
    pub fn bytes(&self, number: u64) -> Bytes {
        match self {
            Self::Regular { bytes, .. } => *bytes,
            Self::Drawn(_) => {
                self.end(number) - number.checked_sub(1).map_or(0, |last| self.end(last))
            }
        }
    }

    /// Payload up to the end of a piece; never behind the last.
    #[inline]
    fn end(&self, number: u64) -> Bytes {
        match self {
            Self::Regular { bytes, .. } => (number + 1) * bytes,
            Self::Drawn(bursts) => bursts.get(place(number)).map_or(Bytes::MAX, |burst| burst.end),
        }
    }
}

/// The delays of pieces whose payload arrives in order.
#[derive(Debug, Clone)]
pub struct Delays {
    schedule: Schedule,
    /// Payload with which the next piece is complete.
    complete: Bytes,
    delays: Vec<Nanos>,
}

impl Delays {
    /// None has arrived.
    pub fn new(schedule: Schedule) -> Self {
        Self { complete: schedule.end(0), schedule, delays: Vec::new() }
    }

    /// This much payload has arrived in order, `since` the connection was established at the sender.
    #[inline]
    pub fn on_arrival(&mut self, since: Nanos, total: Bytes) {
        while total >= self.complete {
            let due = self.schedule.due(self.delays.len() as u64);
            self.delays.push(since.saturating_sub(due));
            self.complete = self.schedule.end(self.delays.len() as u64);
        }
    }

    /// Of each piece that arrived, in their order: the time from when it was due to its last byte in order.
    pub fn all(&self) -> &[Nanos] {
        &self.delays
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::MILLISECOND;

    #[test]
    fn a_piece_arrives_with_its_last_byte_and_several_may_arrive_together() {
        let regular = Schedule::Regular { bytes: 200, interval: 100 * MILLISECOND, count: 10 };
        let ends = [200, 400, 600].map(|end| Burst { due: (end / 2 - 100) * MILLISECOND, end });
        for schedule in [regular, Schedule::Drawn(ends.into())] {
            assert_eq!(
                (schedule.bytes(0), schedule.bytes(2), schedule.due(2)),
                (200, 200, 200 * MILLISECOND)
            );
            let mut delays = Delays::new(schedule);
            delays.on_arrival(20 * MILLISECOND, 199);
            assert!(delays.all().is_empty());
            delays.on_arrival(30 * MILLISECOND, 200);
            delays.on_arrival(250 * MILLISECOND, 600);
            assert_eq!(delays.all(), [30, 150, 50].map(|ms| ms * MILLISECOND));
        }
    }
}
