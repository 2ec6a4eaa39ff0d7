//! Payload delivered in order, over time.

use crate::transport::Series;
use crate::units::{Bytes, Nanos};

/// Payload delivered in order.
#[derive(Debug)]
pub struct Delivered {
    /// Bytes over time.
    pub series: Series,
    /// Time of the last delivery.
    pub progress_at: Nanos,
    /// Delivery of the whole transfer.
    pub completed_at: Option<Nanos>,
    /// Bytes of the whole transfer.
    whole: Bytes,
}

impl Delivered {
    /// Nothing delivered yet of `whole` bytes, since `start`; bins have this width.
    pub(super) fn new(start: Nanos, bin: Nanos, whole: Bytes) -> Self {
        Self { series: Series::new(start, bin), progress_at: start, completed_at: None, whole }
    }

    /// Adds delivered bytes.
    #[inline]
    pub(super) fn add(&mut self, now: Nanos, bytes: Bytes) {
        self.series.add(now, bytes);
        self.progress_at = now;
        if self.series.total() == self.whole {
            self.completed_at.get_or_insert(now);
        }
    }
}
