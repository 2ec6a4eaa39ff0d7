//! Active queue management: which there is, and with what parameters.

use super::codel::CodelSpec;
use super::fq_codel::FqCodelSpec;
use super::red::RedSpec;
use super::spec::SpecError;
use super::step::StepMarkingSpec;
use crate::units::Bytes;
use serde::Deserialize;

/// A queue that is more than a limit.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum AqmSpec {
    /// Random early detection.
    Red(RedSpec),
    /// Marks above a threshold (DCTCP).
    Step(StepMarkingSpec),
    /// Controlled delay.
    Codel(CodelSpec),
    /// A controlled delay for each flow, flows taking turns.
    FqCodel(FqCodelSpec),
}

impl AqmSpec {
    /// It decides when a packet leaves the queue, not when it enters.
    pub(super) fn is_active(&self) -> bool {
        matches!(self, Self::Codel(_) | Self::FqCodel(_))
    }

    pub(super) fn validate(&self, queue: Option<Bytes>) -> Result<(), SpecError> {
        match self {
            Self::Red(red) => red.validate(queue),
            Self::Step(step) => step.validate(queue),
            Self::Codel(codel) => codel.validate(),
            Self::FqCodel(fq_codel) => fq_codel.validate(),
        }
    }
}

/// What a queue does with an arriving packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Take,
    Mark,
    Drop,
}

impl Verdict {
    /// Congestion is to be signalled to a packet: by a mark if that is possible.
    pub fn signal(markable: bool) -> Self {
        if markable { Self::Mark } else { Self::Drop }
    }
}
