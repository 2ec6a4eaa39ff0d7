//! The time during which the shared buffers keep a subflow with room in cwnd from sending.

use crate::units::{NEVER, Nanos};

/// A stopwatch.
#[derive(Debug)]
pub(super) struct Blocking {
    /// Start of the current blocking, or [`NEVER`]; and the time before it.
    since: Nanos,
    before: Nanos,
}

impl Blocking {
    pub fn new() -> Self {
        Self { since: NEVER, before: 0 }
    }

    #[inline]
    pub fn begin(&mut self, now: Nanos) {
        if self.since == NEVER {
            self.since = now;
        }
    }

    #[inline]
    pub fn end(&mut self, now: Nanos) {
        if self.since < NEVER {
            self.before += now - self.since;
            self.since = NEVER;
        }
    }

    pub fn total(&self, now: Nanos) -> Nanos {
        self.before + now.saturating_sub(self.since)
    }
}
