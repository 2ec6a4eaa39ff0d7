//! A probability, drawn in one comparison.

use crate::engine::Random;
use crate::error::SpecError;

/// Parts per billion in a whole.
pub(super) const BILLION: u64 = 1_000_000_000;

/// A probability as the part of the 64-bit numbers that hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chance(u64);

impl Chance {
    /// This many parts per billion. A whole becomes 1 - 2^-64: no trial draws enough to notice.
    pub fn ppb(ppb: u64) -> Self {
        let threshold = (u128::from(ppb) << 64) / u128::from(BILLION);
        Self(u64::try_from(threshold).unwrap_or(u64::MAX))
    }

    /// A computed probability, clamped to 0 to 1.
    pub fn of(probability: f64) -> Self {
        const TWO_TO_64: f64 = 18_446_744_073_709_551_616.0;
        Self((probability * TWO_TO_64) as u64)
    }

    /// One draw. A probability of 0 draws nothing.
    #[inline]
    pub fn happens(self, random: &mut Random) -> bool {
        self.0 > 0 && random.hits(self.0)
    }
}

/// Checks that `ppb` is a probability of at most `most`.
pub(super) fn check(key: &str, ppb: u64, most: u64) -> Result<(), SpecError> {
    if ppb <= most {
        return Ok(());
    }
    let expected = format!("expected at most {most} parts per billion, found {ppb}");
    Err(SpecError::new(key, expected))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probability_is_the_same_however_it_is_given() {
        for (ppb, probability) in [(0, 0.0), (250_000_000, 0.25), (BILLION, 1.0), (BILLION, 7.0)] {
            assert_eq!(Chance::ppb(ppb), Chance::of(probability));
        }
        let mut random = Random::new(1, 1);
        assert!((0..1000).all(|_| Chance::ppb(BILLION).happens(&mut random)));
    }
}
