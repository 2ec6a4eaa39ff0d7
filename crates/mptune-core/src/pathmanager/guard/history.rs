//! Guard's observations: the latest samples, and the room of the shared buffers.

use super::tuning::TUNING;
use crate::pathmanager::{SubflowId, View};
use crate::units::{Bytes, Nanos, SECOND};
use std::collections::VecDeque;

/// Seconds.
pub(super) fn seconds(time: Nanos) -> f64 {
    time as f64 / SECOND as f64
}

/// The connection at one time; counters since its beginning.
#[derive(Debug, Clone)]
struct Sample {
    at: Nanos,
    sent: Bytes,
    acked: Bytes,
    limited: Nanos,
    delivered: Vec<Bytes>,
}

/// A span of time: bytes per second in order, and the share of time limited by the buffers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) rate: f64,
    pub(super) held_up: f64,
}

/// The latest samples, and the room.
#[derive(Debug, Clone, Default)]
pub(super) struct History {
    samples: VecDeque<Sample>,
    /// Bytes that fit the shared buffers; 0 before they limited the connection.
    pub(super) room: f64,
}

impl History {
    pub(super) fn add(&mut self, now: Nanos, view: View<'_>) {
        let statistics = view.statistics;
        let delivered = view.subflows.iter().map(|subflow| subflow.statistics.delivered).collect();
        self.samples.push_back(Sample {
            at: now,
            sent: statistics.sent,
            acked: statistics.acked,
            limited: statistics.limited,
            delivered,
        });
        if self.samples.len() > TUNING.samples {
            self.samples.pop_front();
        }
        self.note_room();
    }

    /// Equation 2.
    fn note_room(&mut self) {
        let mut latest = self.samples.iter().rev();
        let (Some(last), Some(before)) = (latest.next(), latest.next()) else { return };
        let outstanding = last.sent.saturating_sub(last.acked) as f64;
        if span_of(before, last).held_up > TUNING.held_up {
            self.room = outstanding.max(self.room * TUNING.room_decay);
        } else if self.room > 0.0 {
            self.room = self.room.max(outstanding);
        }
    }

    pub(super) fn sent(&self) -> Bytes {
        self.samples.back().map_or(0, |last| last.sent)
    }

    /// Everything sent up to some time has been acknowledged.
    pub(super) fn has_drained(&self, sent: Bytes) -> bool {
        self.samples.back().is_some_and(|last| last.acked >= sent)
    }

    /// The span from a time on, or of all samples.
    pub(super) fn since(&self, from: Nanos) -> Span {
        let first =
            self.samples.iter().rev().find(|sample| sample.at <= from).or(self.samples.front());
        match (first, self.samples.back()) {
            (Some(first), Some(last)) => span_of(first, last),
            _ => Span { rate: 0.0, held_up: 0.0 },
        }
    }

    /// A subflow's recent delivery rate; true if the buffers limited the connection.
    pub(super) fn lately(&self, id: SubflowId) -> Option<(f64, bool)> {
        let mut latest = self.samples.iter().rev();
        let (last, before) = (latest.next()?, latest.nth(TUNING.rate_intervals - 1)?);
        let delivered = last.delivered[id].saturating_sub(*before.delivered.get(id)?);
        let span = seconds(last.at.saturating_sub(before.at).max(1));
        Some((delivered as f64 / span, span_of(before, last).held_up > TUNING.held_up))
    }
}

fn span_of(first: &Sample, last: &Sample) -> Span {
    let span = last.at.saturating_sub(first.at).max(1);
    Span {
        rate: last.acked.saturating_sub(first.acked) as f64 / seconds(span),
        held_up: last.limited.saturating_sub(first.limited) as f64 / span as f64,
    }
}
