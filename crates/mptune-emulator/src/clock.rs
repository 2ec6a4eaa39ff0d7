//! The clock that drives the model.

use mptune_core::units::Nanos;
use std::time::Instant;

/// Says how much time has passed; never less than before.
pub(crate) trait Clock {
    fn now(&self) -> Nanos;
}

/// The monotonic clock of the system, from a moment on.
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
