//! What an effect on the wire implements.

use crate::engine::Random;
use crate::units::Nanos;

/// An effect of one link. Every packet that was sent passes it; the default does nothing.
pub trait WireEffect {
    /// Its parameters.
    type Spec;

    /// Some packets are late and get overtaken, so that they wait in a heap.
    const REORDERS: bool = false;

    fn new(spec: &Self::Spec, random: Random) -> Self;

    /// Whether the next packet is lost; asked for every packet.
    fn loses(&mut self) -> bool {
        false
    }

    /// The extra delay of the next packet, if it is late; asked for those that are not lost.
    fn lateness(&mut self) -> Option<Nanos> {
        None
    }
}
