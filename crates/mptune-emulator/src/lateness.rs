//! Lateness of deliveries: a histogram of bounded size and bounded relative error.

use mptune_core::units::Nanos;

/// Leading bits of a value that count: quantiles are at most 1/16 too large.
const PRECISION: u32 = 5;
/// Values below this have their own ranges; above, each power of two has half as many.
const EXACT: usize = 1 << PRECISION;

/// Counts per range of values.
#[derive(Debug)]
pub(crate) struct Lateness {
    counts: Vec<u64>,
    total: u64,
    max: Nanos,
}

impl Lateness {
    pub fn new() -> Self {
        Self { counts: vec![0; range(Nanos::MAX) + 1], total: 0, max: 0 }
    }

    #[inline]
    pub fn record(&mut self, late: Nanos) {
        self.counts[range(late)] += 1;
        self.total += 1;
        self.max = self.max.max(late);
    }

    pub fn max(&self) -> Nanos {
        self.max
    }

    /// The smallest known bound that this fraction of all values does not exceed; 0 without values.
    pub fn quantile(&self, fraction: f64) -> Nanos {
        let rank = (fraction * self.total as f64).ceil() as u64;
        let mut below = 0;
        for (range, count) in self.counts.iter().enumerate() {
            below += count;
            if below >= rank && below > 0 {
                return largest(range).min(self.max);
            }
        }
        self.max
    }
}

#[inline]
fn range(value: Nanos) -> usize {
    let shift = (Nanos::BITS - PRECISION).saturating_sub(value.leading_zeros());
    // The topmost bit of the shifted value is 1, so it uses the upper half of the numbers below EXACT.
    shift as usize * EXACT / 2 + (value >> shift) as usize
}

/// The largest value of a range.
fn largest(range: usize) -> Nanos {
    let shift = (range / (EXACT / 2)).saturating_sub(1);
    let mantissa = (range - shift * EXACT / 2) as u128;
    (((mantissa + 1) << shift) - 1) as Nanos
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn without_values_it_is_zero() {
        assert_eq!((Lateness::new().quantile(0.5), Lateness::new().max()), (0, 0));
    }

    proptest! {
        #[test]
        fn quantiles_are_right_within_their_error(
            values in prop::collection::vec(prop_oneof![0u64..100, 0u64..10_000_000, any::<u64>()], 1..300),
            fraction in 0.01f64..=1.0,
        ) {
            let mut lateness = Lateness::new();
            values.iter().for_each(|&value| lateness.record(value));
            let mut sorted = values;
            sorted.sort_unstable();
            let exact = sorted[(fraction * sorted.len() as f64).ceil() as usize - 1];
            let quantile = lateness.quantile(fraction);
            prop_assert!(quantile >= exact && quantile - exact <= exact / 16, "{quantile} for {exact}");
            prop_assert_eq!(lateness.max(), *sorted.last().expect("values"));
        }
    }
}
