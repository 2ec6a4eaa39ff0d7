//! Reordering: some packets are late, and packets behind them do not wait.

use super::effect::WireEffect;
use crate::engine::Random;
use crate::error::SpecError;
use crate::network::chance::{BILLION, Chance, check};
use crate::network::limits::MAX_DELAY;
use crate::units::Nanos;
use serde::Deserialize;

/// Share and lateness of late packets.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReorderSpec {
    /// Probability that a packet is late, parts per billion.
    pub probability_ppb: u64,
    /// Extra delay of a late packet. Packets that leave the link in the meantime overtake it.
    pub delay_ns: Nanos,
}

impl ReorderSpec {
    pub(super) fn validate(&self) -> Result<(), SpecError> {
        check("reorder.probability_ppb", self.probability_ppb, BILLION)?;
        if self.delay_ns == 0 || self.delay_ns > MAX_DELAY {
            let expected = "expected an extra delay above 0 and at most 100 s";
            return Err(SpecError::new("reorder.delay_ns", expected));
        }
        Ok(())
    }
}

/// Draws which packets are late.
#[derive(Debug, Clone)]
pub struct Reorder {
    late: Chance,
    delay: Nanos,
    random: Random,
}

impl WireEffect for Reorder {
    type Spec = ReorderSpec;
    const REORDERS: bool = true;

    fn new(spec: &ReorderSpec, random: Random) -> Self {
        Self { late: Chance::ppb(spec.probability_ppb), delay: spec.delay_ns, random }
    }

    fn lateness(&mut self) -> Option<Nanos> {
        self.late.happens(&mut self.random).then_some(self.delay)
    }
}
