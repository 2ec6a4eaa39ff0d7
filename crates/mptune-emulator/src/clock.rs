//! The clock that drives the model.

use mptune_core::units::Nanos;
use std::time::Instant;

/// A clock that never runs backwards.
pub(crate) trait Clock {
    fn now(&self) -> Nanos;
}

/// The system's monotonic clock, from a given moment.
#[derive(Debug)]
pub(crate) struct RealClock(Instant);

impl RealClock {
    /// A clock at time 0.
    pub fn start() -> Self {
        Self(Instant::now())
    }
}

impl Clock for RealClock {
    #[inline]
    fn now(&self) -> Nanos {
        // 2^64 ns are 584 years.
        self.0.elapsed().as_nanos() as Nanos
    }
}
