//! The virtual clock's parts: the event queue, growing rings, and seeded randomness.
//!
//! No network and no protocol here; everything is a plain data structure.

mod queue;
mod random;
mod ranges;
mod ring;

pub use queue::{EventQueue, Source};
pub use random::Random;
pub use ranges::RangeSet;
pub use ring::Ring;
