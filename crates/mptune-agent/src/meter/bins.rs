//! Bytes per bin of time, bins of equal width.
//!
//! A bin holds what arrived after its beginning and up to its end: (k w, (k + 1) w]. So every byte of
//! a measurement that ends at `end` lies in the first ceil(end / w) bins.

/// Bytes over time.
#[derive(Debug, Clone)]
pub struct Bins {
    width_ns: u64,
    bytes: Vec<u64>,
}

impl Bins {
    /// No bytes yet.
    pub fn new(width_ns: u64) -> Self {
        Self { width_ns, bytes: Vec::new() }
    }

    /// Bytes arrived at `at_ns`.
    pub fn add(&mut self, at_ns: u64, bytes: u64) {
        let index = (at_ns.saturating_sub(1) / self.width_ns) as usize;
        if index >= self.bytes.len() {
            self.bytes.resize(index + 1, 0);
        }
        self.bytes[index] += bytes;
    }

    /// The bins up to `end_ns`, the last one possibly shorter than the others.
    pub fn until(&self, end_ns: u64) -> Vec<u64> {
        let mut bytes = self.bytes.clone();
        bytes.resize(end_ns.div_ceil(self.width_ns) as usize, 0);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bytes_fall_into_their_bin_and_gaps_are_zero() {
        let mut bins = Bins::new(100);
        for (at_ns, bytes) in [(0, 1), (100, 2), (101, 4), (350, 8)] {
            bins.add(at_ns, bytes);
        }
        assert_eq!(bins.until(350), [3, 4, 0, 8]);
        assert_eq!(bins.until(501), [3, 4, 0, 8, 0, 0]);
    }

    proptest! {
        #[test]
        fn no_byte_up_to_the_end_is_lost(
            width in 1u64..1000, arrivals in prop::collection::vec((0u64..5000, 0u64..100), 1..50),
        ) {
            let mut bins = Bins::new(width);
            for &(at_ns, bytes) in &arrivals {
                bins.add(at_ns, bytes);
            }
            let end = arrivals.iter().map(|arrival| arrival.0).max().unwrap().max(1);
            let sum: u64 = arrivals.iter().map(|arrival| arrival.1).sum();
            prop_assert_eq!(bins.until(end).iter().sum::<u64>(), sum);
        }
    }
}
