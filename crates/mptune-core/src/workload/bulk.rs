//! A saturated sender: the program always has more to send.

use super::{Kind, span};
use crate::error::SpecError;
use crate::units::Nanos;
use serde::Deserialize;

/// A saturated sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bulk {
    /// Sending time from the first SYN.
    pub duration_ns: Nanos,
    /// The trial ends as soon as its throughput is known well enough ([`crate::early_end`]).
    #[serde(default)]
    pub ends_early: bool,
}

impl Kind for Bulk {
    fn validate(&self, _segment: u32) -> Result<(), SpecError> {
        span::check("duration_ns", self.duration_ns)
    }

    fn limit(&self) -> Nanos {
        self.duration_ns
    }

    fn duration(&self) -> Option<Nanos> {
        Some(self.duration_ns)
    }

    fn ends_early(&self) -> bool {
        self.ends_early
    }
}
