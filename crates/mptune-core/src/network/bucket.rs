//! A token bucket in front of a link: bursts pass at once, the long-term rate is bounded.

use super::limits::{FULL_PACKET, check_rate};
use super::rate::Pace;
use crate::error::SpecError;
use crate::units::{BitsPerSecond, Bytes, Nanos};
use serde::Deserialize;

/// Rate and depth of the bucket.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BucketSpec {
    /// Tokens per second, in bits.
    pub rate_bps: BitsPerSecond,
    /// Tokens the bucket holds; it starts full.
    pub burst_bytes: Bytes,
}

impl BucketSpec {
    pub(super) fn validate(&self) -> Result<(), SpecError> {
        check_rate("bucket.rate_bps", self.rate_bps)?;
        if self.burst_bytes < FULL_PACKET {
            let burst = self.burst_bytes;
            let expected = format!("expected a packet of {FULL_PACKET} bytes, found {burst}");
            return Err(SpecError::new("bucket.burst_bytes", expected));
        }
        Ok(())
    }
}

/// A bucket, represented by the time at which it will be full: the missing tokens follow from it.
#[derive(Debug, Clone)]
pub(super) struct TokenBucket {
    pace: Pace,
    /// The time an empty bucket takes to fill.
    depth: Nanos,
    full_at: Nanos,
}

impl TokenBucket {
    pub fn new(spec: &BucketSpec) -> Self {
        let pace = Pace::new(Some(spec.rate_bps));
        Self { pace, depth: pace.of_bytes(spec.burst_bytes), full_at: 0 }
    }

    /// A packet arrives behind all earlier ones. Returns the time at which it has its tokens; a packet larger
    /// than the bucket waits for a full bucket and leaves it in debt.
    pub fn pass(&mut self, at: Nanos, size: u32) -> Nanos {
        let cost = self.pace.of(size);
        let leaves = at.max((self.full_at + cost.min(self.depth)).saturating_sub(self.depth));
        self.full_at = self.full_at.max(leaves) + cost;
        leaves
    }

    /// The long-term average time per full packet.
    pub fn packet_time(&self) -> Nanos {
        self.pace.of(FULL_PACKET as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::MILLISECOND;
    use proptest::prelude::*;

    /// 12 Mbit/s: a full packet is 1 ms.
    fn bucket(burst_bytes: Bytes) -> TokenBucket {
        TokenBucket::new(&BucketSpec { rate_bps: 12_000_000, burst_bytes })
    }

    #[test]
    fn a_burst_passes_and_what_follows_leaves_at_the_rate() {
        let mut bucket = bucket(4500);
        let leaves: Vec<_> = (0..6).map(|_| bucket.pass(0, 1500) / MILLISECOND).collect();
        assert_eq!(leaves, [0, 0, 0, 1, 2, 3]);
        // Idle for the time of three packets: three may go together.
        let leaves: Vec<_> =
            (0..4).map(|_| bucket.pass(6 * MILLISECOND, 1500) / MILLISECOND).collect();
        assert_eq!(leaves, [6, 6, 6, 7]);
    }

    #[test]
    fn a_packet_larger_than_the_bucket_leaves_it_in_debt() {
        let mut bucket = bucket(1500);
        assert_eq!(bucket.pass(0, 6000), 0);
        // The debt of 4500 bytes is paid after 3 ms, one packet's tokens are there after 4 ms.
        assert_eq!(bucket.pass(0, 1500), 4 * MILLISECOND);
    }

    proptest! {
        /// No interval carries more than the burst plus what the rate allows, and no packet waits
        /// needlessly: they leave in order, each on arrival or with a just sufficient bucket.
        #[test]
        fn every_interval_is_within_rate_and_burst(
            packets in prop::collection::vec((0u64..4_000_000, 40u32..1500), 1..100),
            burst in 1500u64..20_000,
        ) {
            let mut bucket = bucket(burst);
            let (mut at, mut left) = (0, Vec::new());
            for (gap, size) in packets {
                at += gap;
                left.push((bucket.pass(at, size), u64::from(size)));
            }
            prop_assert!(left.windows(2).all(|pair| pair[0].0 <= pair[1].0));
            for (i, &(first, _)) in left.iter().enumerate() {
                let mut bytes = 0;
                for &(time, size) in &left[i..] {
                    bytes += size;
                    // 1 byte is 666.7 ns; a nanosecond of rounding per packet.
                    let allowed = burst * 2000 / 3 + (time - first) + left.len() as u64;
                    prop_assert!(bytes * 2000 / 3 <= allowed);
                }
            }
        }
    }
}
