//! The trait of effects on the wire.

use crate::engine::Random;
use crate::units::Nanos;

/// An effect on every packet that a link sent; the default does nothing.
pub trait WireEffect {
    /// Its parameters.
    type Spec;

    /// Some packets are late and get overtaken, so that they wait in a heap.
    const REORDERS: bool = false;

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
