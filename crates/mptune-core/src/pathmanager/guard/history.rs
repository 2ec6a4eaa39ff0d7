//! The latest samples of a connection, and how much its shared buffers hold.

use super::seconds;
use crate::pathmanager::{SubflowId, View};
use crate::units::{Bytes, Nanos};
use std::collections::VecDeque;

/// Samples that are kept: 10 s.
const KEPT: usize = 100;
/// Intervals over which a subflow's delivery rate is taken.
const RATE_INTERVALS: usize = 3;
/// What is left of the room after a sample at which the buffers hold the connection up.
const ROOM_DECAY: f64 = 0.999;
/// Shares of the time from which on the buffers hold up an interval, and below which they do not matter.
pub const HELD_UP: f64 = 0.05;

/// The connection at one time; counters since its beginning.
#[derive(Debug, Clone)]
struct Sample {
    at: Nanos,
    sent: Bytes,
    acked: Bytes,
    limited: Nanos,
    delivered: Vec<Bytes>,
}

/// What a span of time was like: bytes per second in order, and the share that the buffers held up.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    pub rate: f64,
    pub held_up: f64,
}

/// The latest samples, and the room.
#[derive(Debug, Clone, Default)]
pub struct History {
    samples: VecDeque<Sample>,
    /// Bytes that fit the shared buffers; 0 while they never mattered.
    pub room: f64,
}

impl History {
    pub fn add(&mut self, now: Nanos, view: View<'_>) {
        let statistics = view.statistics;
        let delivered = view.subflows.iter().map(|one| one.statistics.delivered).collect();
        self.samples.push_back(Sample {
            at: now,
            sent: statistics.sent,
            acked: statistics.acked,
            limited: statistics.limited,
            delivered,
        });
        if self.samples.len() > KEPT {
            self.samples.pop_front();
        }
        self.note_room();
    }

    /// Equation 2.
    fn note_room(&mut self) {
        let mut latest = self.samples.iter().rev();
        let (Some(last), Some(before)) = (latest.next(), latest.next()) else { return };
        let outstanding = last.sent.saturating_sub(last.acked) as f64;
        if between(before, last).held_up > HELD_UP {
            self.room = outstanding.max(self.room * ROOM_DECAY);
        } else if self.room > 0.0 {
            self.room = self.room.max(outstanding);
        }
    }

    pub fn sent(&self) -> Bytes {
        self.samples.back().map_or(0, |last| last.sent)
    }

    /// Everything sent up to some time has been acknowledged.
    pub fn has_drained(&self, sent: Bytes) -> bool {
        self.samples.back().is_some_and(|last| last.acked >= sent)
    }

    /// From a time on, or for as long as it remembers.
    pub fn since(&self, from: Nanos) -> Span {
        let first = self.samples.iter().rev().find(|one| one.at <= from).or(self.samples.front());
        match (first, self.samples.back()) {
            (Some(first), Some(last)) => between(first, last),
            _ => Span { rate: 0.0, held_up: 0.0 },
        }
    }

    /// A subflow's delivery rate, lately, and whether the buffers held the connection up.
    pub fn lately(&self, id: SubflowId) -> Option<(f64, bool)> {
        let mut latest = self.samples.iter().rev();
        let (last, before) = (latest.next()?, latest.nth(RATE_INTERVALS - 1)?);
        let delivered = last.delivered[id].saturating_sub(*before.delivered.get(id)?);
        let span = seconds(last.at.saturating_sub(before.at).max(1));
        Some((delivered as f64 / span, between(before, last).held_up > HELD_UP))
    }
}

fn between(first: &Sample, last: &Sample) -> Span {
    let span = last.at.saturating_sub(first.at).max(1);
    Span {
        rate: last.acked.saturating_sub(first.acked) as f64 / seconds(span),
        held_up: last.limited.saturating_sub(first.limited) as f64 / span as f64,
    }
}
