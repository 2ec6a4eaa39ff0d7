//! Guard's observations of the connection: the latest samples.

use super::tuning::TUNING;
use crate::pathmanager::ConnectionStatistics;
use crate::units::{Bytes, Nanos, SECOND};
use std::collections::VecDeque;

/// Seconds.
pub(super) fn seconds(time: Nanos) -> f64 {
    time as f64 / SECOND as f64
}

/// The latest samples, with their times.
#[derive(Debug, Clone, Default)]
pub(super) struct History(VecDeque<(Nanos, ConnectionStatistics)>);

impl History {
    pub(super) fn add(&mut self, now: Nanos, statistics: ConnectionStatistics) {
        self.0.push_back((now, statistics));
        if self.0.len() > TUNING.samples {
            self.0.pop_front();
        }
    }

    pub(super) fn sent(&self) -> Bytes {
        self.0.back().map_or(0, |(_, last)| last.sent)
    }

    /// Size of the send buffer; 0 if it is not known.
    pub(super) fn buffer(&self) -> Bytes {
        self.0.back().map_or(0, |(_, last)| last.buffer)
    }

    /// Everything sent up to some time has been acknowledged.
    pub(super) fn has_drained(&self, sent: Bytes) -> bool {
        self.0.back().is_some_and(|(_, last)| last.acked >= sent)
    }

    /// Bytes per second in order from a time on, or of all samples.
    pub(super) fn since(&self, from: Nanos) -> f64 {
        let first = self.0.iter().rev().find(|(at, _)| *at <= from).or(self.0.front());
        let (Some((began, first)), Some((ended, last))) = (first, self.0.back()) else {
            return 0.0;
        };
        let span = ended.saturating_sub(*began).max(1);
        last.acked.saturating_sub(first.acked) as f64 / seconds(span)
    }
}
