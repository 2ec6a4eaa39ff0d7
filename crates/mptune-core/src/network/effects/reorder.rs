//! Reordering: some packets are late, and packets behind them do not wait.

use super::declaration::parameters;
use super::effect::WireEffect;
use crate::engine::Random;
use crate::network::chance::Chance;
use crate::units::Nanos;

parameters! {
    /// Share and lateness of late packets.
    ReorderSpec {
        /// Probability that a packet is late, parts per billion.
        probability_ppb: Chance;
        /// Extra delay of a late packet. Packets that leave the link in the meantime overtake it.
        delay_ns: SomeTime;
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
    const WORDS: &'static str = "{probability_ppb} of the packets {delay_ns} late";
    const REORDERS: bool = true;

    fn new(spec: &ReorderSpec, random: Random) -> Self {
        Self { late: Chance::ppb(spec.probability_ppb), delay: spec.delay_ns, random }
    }

    fn lateness(&mut self) -> Option<Nanos> {
        self.late.happens(&mut self.random).then_some(self.delay)
    }
}
