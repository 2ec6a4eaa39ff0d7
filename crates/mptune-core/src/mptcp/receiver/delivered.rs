//! Payload delivered in order, over time.

use crate::transport::Series;
use crate::units::{Bytes, Nanos};
use crate::workload::{Delays, Workload};

/// Payload delivered in order.
#[derive(Debug)]
pub struct Delivered {
    /// Bytes over time.
    pub series: Series,
    /// Time of the last delivery.
    pub progress_at: Nanos,
    /// Delivery of the whole transfer.
    pub completed_at: Option<Nanos>,
    /// Bytes of the whole workload.
    whole: Bytes,
    /// Of its messages, if it is a series of them, and the time at which the first was due.
    delays: Option<Box<Delays>>,
    begun_at: Nanos,
}

impl Delivered {
    /// Nothing delivered yet of a workload, since `start`; bins have this width.
    pub(super) fn new(start: Nanos, bin: Nanos, workload: &Workload) -> Self {
        Self {
            series: Series::new(start, bin),
            progress_at: start,
            completed_at: None,
            whole: workload.bytes(),
            delays: workload.schedule().map(|schedule| Box::new(Delays::new(schedule))),
            begun_at: start,
        }
    }

    /// The first message is due.
    pub fn begin(&mut self, now: Nanos) {
        self.begun_at = now;
    }

    /// Delays of the messages that arrived, if it is a series of them.
    pub fn delays(&self) -> Option<&[Nanos]> {
        self.delays.as_ref().map(|delays| delays.all())
    }

    /// Adds delivered bytes.
    // Inlined into the hottest loop in spite of its other callers.
    #[inline(always)]
    pub(super) fn add(&mut self, now: Nanos, bytes: Bytes) {
        self.series.add(now, bytes);
        self.progress_at = now;
        if self.delays.is_some() {
            self.note_delays(now);
        }
        if self.series.total() == self.whole {
            self.completed_at.get_or_insert(now);
        }
    }

    #[inline(never)]
    fn note_delays(&mut self, now: Nanos) {
        if let Some(delays) = &mut self.delays {
            delays.on_arrival(now - self.begun_at, self.series.total());
        }
    }
}
