//! Marking above a threshold of the instantaneous queue: the switch side of DCTCP.

use super::discipline::{Arrival, OnArrival, Verdict};
use crate::engine::Random;
use crate::error::SpecError;
use crate::units::Bytes;
use serde::Deserialize;

/// The threshold K of RFC 8257 section 3.1. Packets that cannot be marked are left to the queue's
/// limit. (RED with equal thresholds, which the section suggests for hardware, would drop them at K.)
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepMarkingSpec {
    /// Queued bytes above which arriving packets are marked.
    pub mark_bytes: Bytes,
}

impl StepMarkingSpec {
    pub(super) fn validate(&self, queue: Option<Bytes>) -> Result<(), SpecError> {
        if queue.is_none_or(|queue| self.mark_bytes < queue) {
            return Ok(());
        }
        let expected = format!("expected less than the queue's limit, found {}", self.mark_bytes);
        Err(SpecError::new("aqm.mark_bytes", expected))
    }
}

impl OnArrival for StepMarkingSpec {
    type Spec = Self;

    fn new(spec: &Self, _: Random) -> Self {
        spec.clone()
    }

    fn judge(&mut self, arrival: &Arrival) -> Verdict {
        if arrival.ect && arrival.queued > self.mark_bytes { Verdict::Mark } else { Verdict::Take }
    }
}
