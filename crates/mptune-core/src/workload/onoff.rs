//! Bursts with silence between them, as of programs that send now and then: measured by the time of each.

use super::player::Piece;
use super::schedule::{Burst, Schedule};
use super::{Kind, span};
use crate::engine::Random;
use crate::error::SpecError;
use crate::units::{Bytes, Nanos};
use serde::Deserialize;
use std::sync::Arc;

/// Most bursts that are expected in a trial: the times of all are kept.
const MOST: u64 = 100_000;

/// Most bursts of a list.
const MOST_LISTED: usize = 10_000;

/// Bursts of a list, or whose sizes and gaps are exponentially distributed. The first is due when the connection is established, each
/// other one a gap after the one before was due, whatever became of it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnOff {
    /// Mean payload of a burst.
    pub mean_bytes: Bytes,
    /// Mean time from one to the next.
    pub mean_gap_ns: Nanos,
    /// When each is due, since the connection was established, and its payload; empty for those that are drawn.
    #[serde(default)]
    pub listed: Vec<(Nanos, Bytes)>,
    /// Bursts are due for this long.
    pub duration_ns: Nanos,
    /// Time after `duration_ns` within which the last is to arrive.
    pub patience_ns: Nanos,
    /// The bursts, once they are drawn.
    #[serde(skip)]
    bursts: Arc<[Burst]>,
}

impl OnOff {
    /// Bursts of these means, not drawn yet.
    pub fn new(
        mean_bytes: Bytes,
        mean_gap_ns: Nanos,
        duration_ns: Nanos,
        patience_ns: Nanos,
    ) -> Self {
        let (listed, bursts) = (Vec::new(), [].into());
        Self { mean_bytes, mean_gap_ns, listed, duration_ns, patience_ns, bursts }
    }
}

impl Kind for OnOff {
    /// With its bursts drawn, or taken from the list.
    fn drawn(&self, seed: u64) -> Self {
        if !self.listed.is_empty() {
            let mut end = 0;
            let in_time = self.listed.iter().take_while(|(due, _)| *due < self.duration_ns);
            let bursts = in_time.map(|&(due, bytes)| {
                end += bytes;
                Burst { due, end }
            });
            return Self { bursts: bursts.collect(), ..self.clone() };
        }
        let mut random = Random::new(seed, STREAM);
        let mut bursts = Vec::new();
        let (mut due, mut end) = (0, 0);
        while due < self.duration_ns {
            end += exponential(&mut random, self.mean_bytes).max(1);
            bursts.push(Burst { due, end });
            due += exponential(&mut random, self.mean_gap_ns).max(1);
        }
        Self { bursts: bursts.into(), ..self.clone() }
    }

    fn schedule(&self) -> Option<Schedule> {
        Some(Schedule::Drawn(Arc::clone(&self.bursts)))
    }

    fn length(&self) -> Option<Bytes> {
        Some(self.bursts.last().map_or(0, |last| last.end))
    }

    fn is_foreseen(&self) -> bool {
        false
    }

    /// When each of the first bursts was due, and its payload.
    fn pieces(&self, number: usize) -> Vec<Piece> {
        let first = self.bursts.iter().take(number).enumerate();
        let begin = |place: usize| place.checked_sub(1).map_or(0, |before| self.bursts[before].end);
        first
            .map(|(place, burst)| Piece {
                at_ns: burst.due,
                bytes: burst.end - begin(place),
                stalled_ns: 0,
            })
            .collect()
    }

    fn limit(&self) -> Nanos {
        self.duration_ns + self.patience_ns
    }

    /// Bursts of four times the mean are to have less than 2^31 segments.
    fn validate(&self, segment: u32) -> Result<(), SpecError> {
        span::check_payload("mean_bytes", self.mean_bytes, segment)?;
        span::check("mean_gap_ns", self.mean_gap_ns)?;
        span::check_client(self.duration_ns, self.patience_ns, 0)?;
        self.validate_list(segment)?;
        let count = self.duration_ns / self.mean_gap_ns + 1;
        if count > MOST {
            let expected = format!("expected at most {MOST} bursts, found about {count}");
            return Err(SpecError::new("mean_gap_ns", expected));
        }
        let segments = (4 * self.mean_bytes).div_ceil(u64::from(segment)).saturating_mul(count);
        if segments >= 1 << 31 {
            return Err(SpecError::new("mean_bytes", "expected less than 2^29 segments in all"));
        }
        Ok(())
    }
}

impl OnOff {
    /// The first is due at once, and none before the one in front of it.
    fn validate_list(&self, segment: u32) -> Result<(), SpecError> {
        let wrong = |expected: String| Err(SpecError::new("listed", expected));
        if self.listed.len() > MOST_LISTED {
            return wrong(format!("expected at most {MOST_LISTED}, found {}", self.listed.len()));
        }
        if self.listed.first().is_some_and(|&(due, _)| due > 0) {
            return wrong("expected the first at 0".to_owned());
        }
        if self.listed.windows(2).any(|pair| pair[1].0 <= pair[0].0) {
            return wrong("expected times that increase".to_owned());
        }
        self.listed.iter().try_for_each(|&(_, bytes)| span::check_payload("listed", bytes, segment))
    }
}

/// Apart from the streams of the network and of connections.
const STREAM: u64 = 0x6f6e_6f66_6600_0000;

/// An exponentially distributed number, rounded.
fn exponential(random: &mut Random, mean: u64) -> u64 {
    let uniform = (random.up_to((1 << 53) - 1) + 1) as f64 / (1u64 << 53) as f64;
    (-libm::log(uniform) * mean as f64).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{MILLISECOND, SECOND};

    fn bursts() -> OnOff {
        OnOff::new(50_000, 100 * MILLISECOND, 1_000 * SECOND, SECOND)
    }

    #[test]
    fn sizes_and_gaps_have_their_means_and_an_exponential_distribution() {
        let drawn = bursts().drawn(7);
        let count = drawn.bursts.len() as f64;
        // 10,000 expected, with a standard deviation of 100.
        assert!((count - 10_000.0).abs() < 400.0, "{count}");
        let pieces = drawn.pieces(usize::MAX);
        let total = drawn.length().expect("drawn");
        let mean = total as f64 / count;
        assert!((mean / 50_000.0 - 1.0).abs() < 0.04, "{mean}");
        let above =
            |bytes: u64| pieces.iter().filter(|one| one.bytes > bytes).count() as f64 / count;
        assert!((above(50_000) - libm::exp(-1.0)).abs() < 0.02);
        assert!((above(150_000) - libm::exp(-3.0)).abs() < 0.01);
        assert_eq!((pieces[0].at_ns, pieces.iter().map(|one| one.bytes).sum()), (0, total));
    }

    #[test]
    fn a_seed_draws_the_same_bursts_every_time() {
        assert_eq!(bursts().drawn(7), bursts().drawn(7));
        assert_ne!(bursts().drawn(7), bursts().drawn(8));
        assert_eq!(bursts().drawn(8).drawn(7), bursts().drawn(7));
    }

    #[test]
    fn bursts_of_a_list_are_what_it_says_whatever_the_seed() {
        let listed = vec![(0, 1_000), (SECOND, 500), (3 * SECOND, 9_000)];
        let bursts = OnOff { listed, duration_ns: 2 * SECOND, ..bursts() };
        assert_eq!(bursts.drawn(7), bursts.drawn(8));
        let pieces = bursts.drawn(7).pieces(usize::MAX);
        let seen: Vec<_> = pieces.iter().map(|one| (one.at_ns, one.bytes)).collect();
        let length = bursts.drawn(7).length();
        assert_eq!((seen, length), (vec![(0, 1_000), (SECOND, 500)], Some(1_500)));
    }

    #[test]
    fn what_no_trial_can_hold_is_refused() {
        let key = |wrong: OnOff| wrong.validate(1448).map_err(|error| error.key);
        assert_eq!(key(bursts()), Ok(()));
        for (wrong, name) in [
            (OnOff { mean_bytes: 0, ..bursts() }, "mean_bytes"),
            (OnOff { mean_bytes: 1 << 60, ..bursts() }, "mean_bytes"),
            (OnOff { mean_bytes: 1 << 30, ..bursts() }, "mean_bytes"),
            (OnOff { listed: vec![(1, 1)], ..bursts() }, "listed"),
            (OnOff { listed: vec![(0, 1), (5, 1), (5, 1)], ..bursts() }, "listed"),
            (OnOff { listed: vec![(0, 0)], ..bursts() }, "listed"),
            (OnOff { listed: vec![(0, 1); MOST_LISTED + 1], ..bursts() }, "listed"),
            (OnOff { mean_gap_ns: 0, ..bursts() }, "mean_gap_ns"),
            (OnOff { mean_gap_ns: MILLISECOND, ..bursts() }, "mean_gap_ns"),
            (OnOff { duration_ns: 0, ..bursts() }, "duration_ns"),
            (OnOff { patience_ns: 0, ..bursts() }, "patience_ns"),
        ] {
            assert_eq!(key(wrong), Err(name.into()));
        }
    }
}
