//! Active queue management: the available algorithms and their parameters.

mod chains;
mod codel;
mod fq_codel;
mod red;
mod step;

pub use codel::CodelSpec;
pub use fq_codel::FqCodelSpec;
pub use red::RedSpec;
pub use step::StepMarkingSpec;

pub(super) use codel::CodelQueue;
pub(super) use fq_codel::FqCodel;
pub(super) use red::Red;

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
