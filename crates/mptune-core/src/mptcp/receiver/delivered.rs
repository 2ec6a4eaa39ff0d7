//! What was delivered in order, and when.

use crate::mptcp::series::Series;
use crate::units::{Bytes, Nanos};

/// Payload delivered in order.
#[derive(Debug)]
pub struct Delivered {
    /// Bytes over time.
    pub series: Series,
    /// When bytes were last delivered.
    pub progress_at: Nanos,
    /// When the whole transfer was delivered.
    pub completed_at: Option<Nanos>,
}

impl Delivered {
    /// Nothing delivered yet, since `start`; bins have this width.
    pub(super) fn new(start: Nanos, bin: Nanos) -> Self {
        Self { series: Series::new(start, bin), progress_at: start, completed_at: None }
    }

    /// More was delivered; `all` if nothing comes after it.
    #[inline]
    pub(super) fn add(&mut self, now: Nanos, bytes: Bytes, all: bool) {
        self.series.add(now, bytes);
        self.progress_at = now;
        if all {
            self.completed_at.get_or_insert(now);
        }
    }
}
