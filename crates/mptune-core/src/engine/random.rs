//! Seeded randomness: one independent stream per purpose, so adding a link or a subflow never changes what
//! another one draws.

use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub struct Random(Pcg64Mcg);

impl Random {
    /// The stream numbered `stream` of a seed.
    pub fn new(seed: u64, stream: u64) -> Self {
        // seed_from_u64 mixes its argument (PCG32 output function), so neighbouring seeds and
        // streams are unrelated; the odd constant keeps (seed, stream) pairs apart.
        let mut mix = Pcg64Mcg::seed_from_u64(seed);
        let base = mix.next_u64();
        Self(Pcg64Mcg::seed_from_u64(base ^ stream.wrapping_mul(0x9E37_79B9_7F4A_7C15)))
    }

    /// Uniform in `0..=bound`, by multiplication (bias below `bound / 2^64`).
    #[inline]
    pub fn up_to(&mut self, bound: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * (u128::from(bound) + 1)) >> 64) as u64
    }

    /// True with probability `threshold / 2^64`.
    #[inline]
    pub fn hits(&mut self, threshold: u64) -> bool {
        self.0.next_u64() < threshold
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::test_runner::{Config, RngSeed};

    #[test]
    fn random_tests_draw_the_same_cases_every_time() {
        // .cargo/config.toml.
        assert_ne!(Config::default().rng_seed, RngSeed::Random);
    }

    #[test]
    fn streams_of_one_seed_differ_and_repeat() {
        let draw = |seed, stream| {
            let mut random = Random::new(seed, stream);
            (0..4).map(|_| random.up_to(u64::MAX - 1)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7, 0), draw(7, 0));
        assert_ne!(draw(7, 0), draw(7, 1));
        assert_ne!(draw(7, 0), draw(8, 0));
    }

    #[test]
    fn hits_as_often_as_asked() {
        let mut random = Random::new(1, 1);
        let threshold = u64::MAX / 100;
        let hits = (0..100_000).filter(|_| random.hits(threshold)).count();
        // Binomial(100000, 0.01): standard deviation 31.5; five of them.
        assert!((842..=1158).contains(&hits), "{hits}");
    }
}
