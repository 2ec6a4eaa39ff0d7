//! Active queue management: the available algorithms and their parameters.

use super::codel::CodelSpec;
use super::fq_codel::FqCodelSpec;
use super::red::RedSpec;
use super::step::StepMarkingSpec;
use crate::error::SpecError;
use crate::units::Bytes;
use serde::Deserialize;

/// A queue with more than a limit.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum AqmSpec {
    /// Random early detection.
    Red(RedSpec),
    /// Marks above a threshold (DCTCP).
    Step(StepMarkingSpec),
    /// Controlled delay.
    Codel(CodelSpec),
    /// Controlled delay per flow, with flows taking turns.
    FqCodel(FqCodelSpec),
}

impl AqmSpec {
    /// It makes its decision when a packet leaves the queue, not when it enters.
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
