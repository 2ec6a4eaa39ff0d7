//! Data structures of the simulator, without network or protocol: event queue, rings, ranges, seeded randomness.

mod queue;
mod random;
mod ranges;
mod ring;

pub use queue::{EventQueue, Source};
pub use random::Random;
pub use ranges::RangeSet;
pub use ring::Ring;
