//! A rate trace in mahimahi's format: the times at which one 1500-byte packet can leave, repeated.

use super::limits::FULL_PACKET;
use crate::error::SpecError;
use crate::units::{MILLISECOND, Nanos};

/// Bytes of one opportunity.
const OPPORTUNITY: u32 = FULL_PACKET as u32;

/// Checks a trace: times of opportunities in milliseconds; the last one is the period.
pub(super) fn validate(times_ms: &[u32]) -> Result<(), SpecError> {
    let wrong = |expected: String| Err(SpecError::new("trace_ms", expected));
    match times_ms.last() {
        None => return wrong("expected at least one opportunity, found none".into()),
        Some(0) => return wrong("expected a last time above 0: it is the period".into()),
        Some(_) => {}
    }
    match times_ms.windows(2).position(|pair| pair[0] > pair[1]) {
        Some(i) => wrong(format!(
            "expected times that do not decrease, found {} after {}",
            times_ms[i + 1],
            times_ms[i]
        )),
        None => Ok(()),
    }
}

/// The opportunities and their use. As in mahimahi, an opportunity carries up to 1500
/// bytes of any number of packets queued before it, a larger packet takes several, and what no packet
/// was there to use is lost.
#[derive(Debug, Clone)]
pub(super) struct Trace {
    times_ms: Vec<u32>,
    /// The opportunity in use, or the next one.
    index: usize,
    /// Start of the current repetition.
    cycle: Nanos,
    /// Bytes left of that opportunity.
    left: u32,
}

impl Trace {
    /// Nothing used yet; the trace must be valid.
    pub fn new(times_ms: Vec<u32>) -> Self {
        Self { times_ms, index: 0, cycle: 0, left: OPPORTUNITY }
    }

    fn period(&self) -> Nanos {
        self.times_ms.last().map_or(0, |&last| Nanos::from(last) * MILLISECOND)
    }

    fn time(&self) -> Nanos {
        self.cycle + Nanos::from(self.times_ms[self.index]) * MILLISECOND
    }

    /// A packet arrives at `at` behind all earlier ones. Returns the departure of its last byte.
    pub fn send(&mut self, at: Nanos, size: u32) -> Nanos {
        if self.time() <= at {
            self.skip_to(at);
        }
        let mut rest = size;
        while rest > self.left {
            rest -= self.left;
            self.step();
        }
        self.left -= rest;
        self.time()
    }

    fn step(&mut self) {
        self.left = OPPORTUNITY;
        self.index += 1;
        if self.index == self.times_ms.len() {
            self.cycle += self.period();
            self.index = 0;
        }
    }

    /// The first opportunity after `at`: in the same repetition, whose last opportunity is its end.
    fn skip_to(&mut self, at: Nanos) {
        let phase = at % self.period();
        self.cycle = at - phase;
        self.index =
            self.times_ms.partition_point(|&time| Nanos::from(time) * MILLISECOND <= phase);
        self.left = OPPORTUNITY;
    }

    /// The long-term average time per full packet.
    pub fn packet_time(&self) -> Nanos {
        self.period() / self.times_ms.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: Nanos = MILLISECOND;

    fn departures(times_ms: &[u32], packets: &[(Nanos, u32)]) -> Vec<Nanos> {
        validate(times_ms).expect("valid");
        let mut trace = Trace::new(times_ms.to_vec());
        packets.iter().map(|&(at, size)| trace.send(at, size) / MS).collect()
    }

    #[test]
    fn one_full_packet_leaves_per_line_and_the_trace_repeats() {
        assert_eq!(departures(&[1, 3, 3, 10], &[(0, 1500); 7]), [1, 3, 3, 10, 11, 13, 13]);
        // A line at 0 belongs to the start of every repetition; the very first is past on arrival.
        assert_eq!(departures(&[0, 5], &[(0, 1500); 4]), [5, 5, 10, 10]);
    }

    #[test]
    fn small_packets_share_an_opportunity_and_large_ones_take_several() {
        assert_eq!(departures(&[1, 2, 3, 4], &[(0, 700); 5]), [1, 1, 2, 2, 3]);
        assert_eq!(departures(&[1, 2, 3, 4], &[(0, 4000), (0, 500), (0, 1500)]), [3, 3, 4]);
    }

    #[test]
    fn an_unused_opportunity_is_lost() {
        // 2 ms: the opportunities at 1 and 2 ms are past, and the rest of the one at 3 ms is only
        // for a packet that was there before it.
        let packets = [(2 * MS, 100), (3 * MS - 1, 100), (3 * MS, 100), (25 * MS, 1500)];
        assert_eq!(departures(&[1, 2, 3, 10], &packets), [3, 3, 10, 30]);
    }

    #[test]
    fn impossible_traces_are_refused() {
        for bad in [&[][..], &[0], &[0, 0], &[1, 3, 2]] {
            assert_eq!(validate(bad).expect_err("impossible").key, "trace_ms");
        }
    }

    proptest! {
        /// Against the definition: walk all opportunities, giving each to what is queued before it.
        #[test]
        fn agrees_with_walking_every_opportunity(
            gaps in prop::collection::vec(0u32..4, 1..12),
            packets in prop::collection::vec((0u64..9_000_000, 40u32..4000), 1..60),
        ) {
            let mut last = 1;
            let times: Vec<u32> = gaps.iter().map(|gap| { last += gap; last - 1 }).collect();
            prop_assume!(*times.last().unwrap() > 0);
            let mut at = 0;
            let packets: Vec<_> = packets.into_iter().map(|(gap, size)| { at += gap; (at, size) }).collect();
            let period = u64::from(*times.last().unwrap());
            let all = (0..).flat_map(|cycle| times.iter().map(move |&t| (cycle * period + u64::from(t)) * MS));
            let (mut expected, mut first, mut rest) = (Vec::new(), 0, packets[0].1);
            for time in all {
                let mut left = OPPORTUNITY;
                while first < packets.len() && packets[first].0 < time && left > 0 {
                    let part = rest.min(left);
                    left -= part;
                    rest -= part;
                    if rest == 0 {
                        expected.push(time / MS);
                        first += 1;
                        rest = packets.get(first).map_or(0, |p| p.1);
                    }
                }
                if first == packets.len() { break }
            }
            prop_assert_eq!(departures(&times, &packets), expected);
        }
    }
}
