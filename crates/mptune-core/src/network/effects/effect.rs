//! The trait of effects on the wire.

use super::declaration::Parameters;
use crate::engine::Random;
use crate::units::Nanos;

/// An effect on every packet that a link sent; the default does nothing.
pub trait WireEffect {
    /// Its parameters.
    type Spec: Parameters;

    /// Description for people. In braces stand parameters and `mean_loss_ppb`, which are written with their units,
    /// and `1/leave_ppb`: the mean number of packets until something of that probability happens.
    const WORDS: &'static str;
    /// Some packets are late and get overtaken, so that they wait in a heap.
    const REORDERS: bool = false;
    /// Losses come in bursts.
    const BURSTS: bool = false;

    /// Share of packets that it loses in the long run, parts per billion.
    fn mean_loss_ppb(_spec: &Self::Spec) -> u64 {
        0
    }

    fn new(spec: &Self::Spec, random: Random) -> Self;

    /// True if the next packet is lost; called for every packet.
    fn loses(&mut self) -> bool {
        false
    }

    /// Extra delay of the next packet, if it is late; called for those not lost.
    fn lateness(&mut self) -> Option<Nanos> {
        None
    }
}
