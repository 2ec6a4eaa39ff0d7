//! Early end of a saturated trial, once its throughput is known well enough.
//!
//! The rule estimates the throughput of the *whole* trial, slow start included, from the payload in order per
//! bin: the bytes so far plus, for the time left, the mean rate of the last two thirds. The trial ends when the
//! predicted error of that estimate is small.
//!
//! The error is predicted by batch means (Law and Kelton, Simulation Modeling and Analysis, section 9.5.3)
//! at four sizes of batches at once. Bins are not independent: where scatter lasts longer than a batch, the
//! variance of the mean that larger batches imply is larger, and the largest of the four counts. The bins
//! to come scatter as well, so for `n` bins seen and `m` left, and `v` the variance of the mean times its
//! bins, the standard error of the sum to come is `m sqrt(v (1/n + 1/m))`.
//!
//! - *Slow start* is left out of the batches, but nothing else: they begin where the series first reached
//!   the rate it has now. If it was faster before and fell, it reached that rate early, so the fall is
//!   inside, and so is every stall.
//! - *Early regimes*: some connections run steadily at the rate of their slowest path for seconds and then
//!   change. Nothing in the series announces it, so the first look is late.
//! - *Looks* are few, each a quarter later than the one before: every look is a chance to be fooled.
//! - While nothing arrives, nothing ends: a stall must be seen to its end.
//!
//! Integers and basic operations only: the same series ends at the same bin on every machine.

use crate::units::{Bytes, Nanos, SECOND};

/// The first look. Of the trials that look steadiest after 2 s, 4 % turn out wrong by more than 10 %, and
/// after 4 s 0.5 % (simulated networks, stack `linux`).
const FIRST_LOOK: Nanos = 4 * SECOND;
/// Bins at the first look, however wide they are: enough for the smallest batches.
const FIRST_BINS: usize = 40;
/// Predicted standard error of the whole trial's throughput, as a share of it, at which the trial ends: the
/// largest at which the mean error was at most 2 % in the networks that the rule was developed on
/// (`benchmarks/decision/early_end.py`).
const TOLERANCE: f64 = 0.03;
/// Numbers of batches.
const BATCHES: [usize; 4] = [2, 4, 8, 16];
/// Bins that together must reach the present rate to end slow start, and that must not be silent.
const REACHED_BINS: usize = 5;
/// Share of the present rate that ends slow start.
const REACHED: f64 = 0.9;

/// The schedule of looks at a trial.
#[derive(Debug, Clone)]
pub struct EarlyEnd {
    width: Nanos,
    duration: Nanos,
    /// Bins at the next look.
    look: usize,
}

/// The end of a trial that ends early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// Time from the first SYN: the end of a bin.
    pub at: Nanos,
    /// Payload bytes in order expected over the whole duration.
    pub expected: Bytes,
}

impl EarlyEnd {
    /// For a trial of at most `duration`, with bins of `width`.
    pub fn new(duration: Nanos, width: Nanos) -> Self {
        let first = usize::try_from(FIRST_LOOK.div_ceil(width)).unwrap_or(usize::MAX);
        Self { width, duration, look: first.max(FIRST_BINS) }
    }

    /// Time of the next look from the first SYN, the end of a bin; none if the trial ends before.
    pub fn next(&self) -> Option<Nanos> {
        let at = self.width.saturating_mul(self.look as Nanos);
        (at < self.duration).then_some(at)
    }

    /// Looks at the bins up to the time of [`next`](Self::next). Some if the trial can end there.
    pub fn look(&mut self, bins: &[Bytes]) -> Option<Ended> {
        let at = self.next().filter(|_| bins.len() == self.look)?;
        self.look = (self.look * 5).div_ceil(4);
        let left = (self.duration - at) as f64 / self.width as f64;
        Some(Ended { at, expected: expected_bytes(bins, left)? })
    }

    /// The early end of a trial with these bins, measured before.
    pub fn replay(bins: &[Bytes], duration: Nanos, width: Nanos) -> Option<Ended> {
        let mut early = Self::new(duration, width);
        while early.next().is_some() && early.look <= bins.len() {
            if let Some(ended) = early.look(&bins[..early.look]) {
                return Some(ended);
            }
        }
        None
    }
}

/// Bytes expected of the whole trial, if known well enough `left` bins before its end.
fn expected_bytes(bins: &[Bytes], left: f64) -> Option<Bytes> {
    let sums = sums(bins);
    let last = bins.len();
    let mean = |from: usize, to: usize| (sums[to] - sums[from]) as f64 / (to - from) as f64;
    if mean(last - REACHED_BINS, last) == 0.0 {
        return None;
    }
    let third = last / 3;
    let rate = mean(third, last);
    let reached = |&at: &usize| mean(at, at + REACHED_BINS) >= REACHED * rate;
    let steady = (0..third).find(reached).unwrap_or(third);
    let seen = last - steady;
    let variance = BATCHES.map(|batches| {
        let size = seen / batches;
        let first = last - size * batches;
        let means = (0..batches).map(|i| mean(first + i * size, first + (i + 1) * size));
        size as f64 * sample_variance(means)
    });
    let variance = variance.into_iter().fold(0.0, f64::max);
    let squared_error = left * left * variance * (1.0 / seen as f64 + 1.0 / left);
    let expected = sums[last] as f64 + rate * left;
    let bound = TOLERANCE * expected;
    (squared_error <= bound * bound).then_some((expected + 0.5) as Bytes)
}

/// Bytes before each bin, and all of them.
fn sums(bins: &[Bytes]) -> Vec<Bytes> {
    let mut sums = vec![0; bins.len() + 1];
    for (index, bytes) in bins.iter().enumerate() {
        sums[index + 1] = sums[index] + bytes;
    }
    sums
}

fn sample_variance(values: impl ExactSizeIterator<Item = f64> + Clone) -> f64 {
    let count = values.len() as f64;
    let mean = values.clone().sum::<f64>() / count;
    values.map(|value| (value - mean) * (value - mean)).sum::<f64>() / (count - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::BIN;
    use proptest::prelude::*;

    const DURATION: Nanos = 20 * SECOND;
    const RATE: Bytes = 100_000;

    fn ended(series: impl Fn(usize) -> Bytes) -> Option<Ended> {
        let bins: Vec<Bytes> = (0..200).map(series).collect();
        EarlyEnd::replay(&bins, DURATION, BIN)
    }

    /// Relative error of the estimate, and the end of the trial, early or not.
    fn judged(series: impl Fn(usize) -> Bytes) -> (f64, Nanos) {
        let whole: Bytes = (0..200).map(&series).sum();
        ended(series).map_or((0.0, DURATION), |ended| {
            (ended.expected.abs_diff(whole) as f64 / whole as f64, ended.at)
        })
    }

    /// Uniform on 0..1 and independent from bin to bin.
    fn noise(bin: usize) -> f64 {
        let mixed = (bin as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((mixed ^ mixed >> 31).wrapping_mul(0x94d0_49bb_1331_11eb) >> 11) as f64
            / (1u64 << 53) as f64
    }

    #[test]
    fn a_steady_series_ends_at_the_first_look_with_its_own_throughput() {
        assert_eq!(ended(|_| RATE), Some(Ended { at: FIRST_LOOK, expected: 200 * RATE }));
    }

    #[test]
    fn slow_start_counts_in_the_estimate_and_not_in_the_steadiness() {
        let (error, at) = judged(|bin| if bin < 8 { RATE >> (8 - bin) } else { RATE });
        assert_eq!((error, at), (0.0, FIRST_LOOK));
    }

    #[test]
    fn slow_growth_is_not_taken_for_steadiness() {
        let (error, at) = judged(|bin| RATE * bin.min(150) as Bytes / 150);
        assert!(error < 0.1 && at > DURATION / 2, "{error} at {at}");
    }

    #[test]
    fn a_stall_is_seen_to_its_end() {
        let at = |from, until| judged(|bin| if (from..until).contains(&bin) { 0 } else { RATE }).1;
        // Silent at the first look, and for good.
        assert_eq!(at(38, 200), DURATION);
        // A second of silence among the bins seen: more are needed.
        assert!(at(20, 30) > FIRST_LOOK);
    }

    #[test]
    fn an_early_fall_forbids_an_early_end() {
        let (error, at) = judged(|bin| if bin < 15 { 10 * RATE } else { RATE });
        assert!(error < 0.02 && at > FIRST_LOOK, "{error} at {at}");
    }

    #[test]
    fn a_collapse_before_the_look_keeps_it_running() {
        let (error, at) = judged(|bin| if bin < 30 { RATE } else { RATE / 10 });
        assert!(error < 0.05 && at > FIRST_LOOK, "{error} at {at}");
    }

    #[test]
    fn noise_keeps_it_running() {
        let at = |spread: f64| {
            judged(|bin| (RATE as f64 * (1.0 + spread * (noise(bin) - 0.5))) as Bytes).1
        };
        assert_eq!(at(0.1), FIRST_LOOK);
        assert!(at(2.0) > FIRST_LOOK);
        // Slower than the batches, so that single bins are little evidence of the mean.
        let slow = |bin| (RATE as f64 * (0.2 + 1.6 * noise(bin / 25))) as Bytes;
        assert!(judged(slow).1 > DURATION / 2);
    }

    #[test]
    fn nothing_arrived_and_nothing_ends() {
        assert_eq!(ended(|_| 0), None);
    }

    #[test]
    fn a_short_trial_has_no_look() {
        assert_eq!(EarlyEnd::new(FIRST_LOOK, BIN).next(), None);
        assert_eq!(EarlyEnd::replay(&[RATE; 30], 3 * SECOND, BIN), None);
    }

    proptest! {
        #[test]
        fn it_ends_at_a_look_and_a_longer_series_changes_nothing(
            bins in prop::collection::vec(0u64..1 << 24, 40..400), seconds in 5u64..40,
        ) {
            let duration = seconds * SECOND;
            if let Some(ended) = EarlyEnd::replay(&bins, duration, BIN) {
                let used = (ended.at / BIN) as usize;
                prop_assert!(ended.at < duration && ended.at.is_multiple_of(BIN));
                prop_assert!(ended.expected >= bins[..used].iter().sum());
                prop_assert_eq!(EarlyEnd::replay(&bins[..used], duration, BIN), Some(ended));
            }
        }

        #[test]
        fn the_unit_of_bytes_does_not_matter(
            bins in prop::collection::vec(900u64..1100, 200), scale in 1u64..1 << 20,
        ) {
            let scaled: Vec<_> = bins.iter().map(|bytes| bytes * scale).collect();
            let at = |bins: &[Bytes]| EarlyEnd::replay(bins, DURATION, BIN).map(|ended| ended.at);
            prop_assert_eq!(at(&bins), at(&scaled));
        }
    }
}
