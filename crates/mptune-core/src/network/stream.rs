//! Streams of random numbers: each effect of each link has a separate one, so that adding an effect or a link never
//! changes another's draws.

use crate::engine::Random;

/// The streams of one link.
#[derive(Debug, Clone, Copy)]
pub(super) struct Streams {
    seed: u64,
    link: u64,
}

impl Streams {
    /// The streams of the link with this number.
    pub fn new(seed: u64, link: usize) -> Self {
        Self { seed, link: link as u64 }
    }

    /// Links are numbered below 2^32, purposes above.
    fn of(self, purpose: u64) -> Random {
        Random::new(self.seed, purpose << 32 | self.link)
    }

    /// Independent loss and jitter.
    pub fn wire(self) -> Random {
        self.of(0)
    }

    /// Active queue management.
    pub fn queue(self) -> Random {
        self.of(1)
    }

    /// An effect on the wire: 2, 3 or 5 to 15.
    pub fn effect(self, number: u64) -> Random {
        self.of(number)
    }

    /// Duplication.
    pub fn duplication(self) -> Random {
        self.of(4)
    }

    /// The background source with this number.
    pub fn udp(self, source: usize) -> Random {
        self.of(16 + source as u64)
    }
}
