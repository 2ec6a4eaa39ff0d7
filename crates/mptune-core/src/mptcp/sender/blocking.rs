//! How long the shared buffers keep a subflow with room from sending.

use crate::units::{NEVER, Nanos};

/// A stopwatch.
#[derive(Debug)]
pub(super) struct Blocking {
    /// Since when they block, [`NEVER`] if they do not; and how long they did before.
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
