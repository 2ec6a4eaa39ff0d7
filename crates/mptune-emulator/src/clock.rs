//! The clock that drives the model.

use mptune_core::units::Nanos;
use std::time::Instant;

/// Returns the time that has passed; never decreases.
pub(crate) trait Clock {
    fn now(&self) -> Nanos;
}

/// The system's monotonic clock, from a given moment.
#[derive(Debug)]
pub(crate) struct RealClock(Instant);

impl RealClock {
    /// Time 0 is now.
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
